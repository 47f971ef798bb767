//! Undoes DD-001: a softmax that was moved to the last dimension goes back to where it was. The two could
//! take turns for ever; what measurements say decides, and the loop ends.

use rule_sdk::{Anchor, Examination, Manifest, Patch, Rule, Site, require, tolerant};

/// The rule.
pub struct Fights;

impl Rule for Fights {
    fn manifest() -> Manifest {
        Manifest::new("test-fights", env!("CARGO_PKG_VERSION"), "Softmax back over the middle dimension")
            .summary("Undoes DD-001.")
            .numerics(tolerant(1e-6, 1e-7))
            .anchor(Anchor::on(["aten.softmax.int"]).fed_by("self", ["aten.permute.default"]).surroundings(1, 0))
            .code("back", "the softmax can go back to the middle dimension")
            .code("other-permutation", "the tensor in front is turned in another way")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let softmax = site.anchor();
        let turned = softmax.tensor("self")?.producer();
        let before = turned.filter(|node| node.ints("dims").is_ok_and(|dims| dims == [0, 2, 1]));
        let Some(turn) = before else {
            rule_sdk::decline!("other-permutation", "the tensor in front is turned in another way");
        };
        let dim = softmax.int("dim")?;
        require!(dim == -1 || dim == 2, "other-permutation", "the softmax is over dimension {dim}");
        let mut patch = Patch::new(site);
        let source = patch.tap(turn.tensor("self")?);
        let normalised = patch.node("aten.softmax.int").arg("self", source).arg("dim", 1).add();
        let rows = patch.permute(normalised, &[0, 2, 1]);
        let result = patch.contiguous(rows);
        patch.replace(softmax.output(0)?, result);
        patch.delete(softmax);
        patch.finish(tolerant(1e-6, 1e-7), "back", "the softmax goes back to the middle dimension")
    }
}

rule_sdk::export_rule!(Fights);
