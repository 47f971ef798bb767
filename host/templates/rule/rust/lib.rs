//! __TITLE__
//!
//! Say here what the rule finds, why it costs time, and what it puts in its place.

use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};

/// The rule.
pub struct __TYPE__;

impl Rule for __TYPE__ {
    fn manifest() -> Manifest {
        Manifest::new("__ID__", env!("CARGO_PKG_VERSION"), "__TITLE__")
            .summary("Takes out multiplications by one.")
            .backend("xnnpack")
            .anchor(Anchor::on(["aten.mul.Scalar"]))
            .code("times-one", "the factor is one, so the multiplication changes nothing")
            .code("factor", "the factor is not one")
            .code("written-to", "the result or what it is made of is written to later")
            .code("changes-type", "the multiplication also converts the element type")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let mul = site.anchor();
        let factor = mul.float("other")?;
        require!(factor == 1.0, "factor", "the factor is {factor}");
        let (input, output) = (mul.tensor("self")?, mul.output(0)?);
        require!(!input.is_mutated() && !output.is_mutated(), "written-to", "the result is written to");
        require!(input.meta()?.dtype() == output.meta()?.dtype(), "changes-type", "the element type changes");

        let mut patch = Patch::new(site);
        let input = patch.tap(input);
        patch.replace(output, input);
        patch.delete(mul);
        patch.finish(Numerics::Exact, "times-one", "multiplication by one")
    }
}

rule_sdk::export_rule!(__TYPE__);

#[cfg(test)]
mod tests {
    #[test]
    fn cases() {
        rule_sdk::testing::run_cases::<super::__TYPE__>(include_str!("../cases.txt"));
    }
}
