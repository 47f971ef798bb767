//! A rewrite that eager PyTorch gets right and XNNPACK wrong: the softmax over channels as a rank-4
//! softmax over the last dimension. Behind a convolution the backend normalises over something else. The
//! fidelity gate must refuse it.

use rule_sdk::{Anchor, Examination, Manifest, Patch, Rule, Site, require, tolerant};

/// The rule.
pub struct WrongOnBackend;

impl Rule for WrongOnBackend {
    fn manifest() -> Manifest {
        Manifest::new("test-wrong-on-backend", env!("CARGO_PKG_VERSION"), "Softmax over channels, last in rank 4")
            .summary("Right on the host, wrong on XNNPACK.")
            .numerics(tolerant(1e-6, 1e-7))
            .anchor(Anchor::on(["aten.softmax.int"]))
            .code("rank-4", "the softmax can run over the last dimension of rank 4")
            .code("shape", "not a softmax over the channels of an image")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let softmax = site.anchor();
        let input = softmax.tensor("self")?;
        let channels = input.meta()?.rank() == 4 && input.meta()?.dimension(softmax.int("dim")?) == Some(1);
        require!(channels, "shape", "not over the channels of an image");
        let mut patch = Patch::new(site);
        let source = patch.tap(input);
        let last = patch.permute(source, &[0, 2, 3, 1]);
        let normalised = patch.node("aten.softmax.int").arg("self", last).arg("dim", -1).add();
        let back = patch.permute(normalised, &[0, 3, 1, 2]);
        let result = patch.contiguous(back);
        patch.replace(softmax.output(0)?, result);
        patch.delete(softmax);
        patch.finish(tolerant(1e-6, 1e-7), "rank-4", "softmax over channels as the last of four dimensions")
    }
}

rule_sdk::export_rule!(WrongOnBackend);
