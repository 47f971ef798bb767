//! An exact rewrite that runs slower: a full-range slice is fallen back from, and what takes its place is
//! delegated but moves the tensor about many times. The benchmark gate must refuse it.

use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};

/// How often the tensor is padded and cut back.
const ROUNDS: usize = 10;

/// The rule.
pub struct Slower;

impl Rule for Slower {
    fn manifest() -> Manifest {
        Manifest::new("test-slower", env!("CARGO_PKG_VERSION"), "An alias as many pads and slices")
            .summary("Exact and slow.")
            .anchor(Anchor::on(["aten.alias.default"]))
            .code("slower", "the alias can be said at length")
            .code("rank", "the tensor is not an image")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let alias = site.anchor();
        let input = alias.tensor("self")?;
        let sizes = input.meta()?.fixed_sizes()?;
        require!(sizes.len() == 4, "rank", "the tensor has rank {}", sizes.len());
        let mut patch = Patch::new(site);
        let mut current = patch.tap(input);
        for _ in 0..ROUNDS {
            let padded = patch
                .node("aten.constant_pad_nd.default")
                .arg("self", current)
                .arg("pad", [1, 1, 1, 1])
                .arg("value", 0.0)
                .add();
            current = padded;
            for dim in [2, 3] {
                let end = sizes[dim] + 1;
                let dim = if dim == 2 { 2 } else { 3 };
                let cut = patch.node("aten.slice.Tensor").arg("self", current).arg("dim", dim);
                current = cut.arg("start", 1).arg("end", end).arg("step", 1).add();
            }
        }
        let result = patch.contiguous(current);
        patch.replace(alias.output(0)?, result);
        patch.delete(alias);
        patch.finish(Numerics::Exact, "slower", "padded and cut back many times")
    }
}

rule_sdk::export_rule!(Slower);
