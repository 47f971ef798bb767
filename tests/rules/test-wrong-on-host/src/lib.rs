//! A rewrite that computes something else and says that it is exact. The first gate that looks at numbers
//! must refuse it.

use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};

/// The rule.
pub struct WrongOnHost;

impl Rule for WrongOnHost {
    fn manifest() -> Manifest {
        Manifest::new("test-wrong-on-host", env!("CARGO_PKG_VERSION"), "Softmax as a sigmoid")
            .summary("Of the right shape, and wrong.")
            .anchor(Anchor::on(["aten.softmax.int"]))
            .code("sigmoid", "a sigmoid has the same shape")
            .code("layout", "the result is not row-major")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let softmax = site.anchor();
        require!(softmax.output(0)?.meta()?.is_contiguous(), "layout", "the result is not row-major");
        let mut patch = Patch::new(site);
        let source = patch.tap(softmax.tensor("self")?);
        let sigmoid = patch.node("aten.sigmoid.default").arg("self", source).add();
        let result = patch.contiguous(sigmoid);
        patch.replace(softmax.output(0)?, result);
        patch.delete(softmax);
        patch.finish(Numerics::Exact, "sigmoid", "a sigmoid has the same shape")
    }
}

rule_sdk::export_rule!(WrongOnHost);
