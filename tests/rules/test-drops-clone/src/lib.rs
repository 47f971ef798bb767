//! Takes away a copy without looking whether anything writes to it. Where an in-place operator follows, the
//! caller's input would change; the host must refuse the rewrite.

use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site};

/// The rule.
pub struct DropsClone;

impl Rule for DropsClone {
    fn manifest() -> Manifest {
        Manifest::new("test-drops-clone", env!("CARGO_PKG_VERSION"), "Copies that nobody asked about")
            .summary("Removes every clone.")
            .anchor(Anchor::on(["aten.clone.default"]))
            .code("clone", "a copy has the same numbers")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let clone = site.anchor();
        let mut patch = Patch::new(site);
        let source = patch.tap(clone.tensor("self")?);
        patch.replace(clone.output(0)?, source);
        patch.delete(clone);
        patch.finish(Numerics::Exact, "clone", "a copy has the same numbers")
    }
}

rule_sdk::export_rule!(DropsClone);
