//! What stays outside XNNPACK: which instruction, from which node and line, and why.

use delegate_doctor::torch::protocol::{Fallback, Lowered};

use crate::bench::{LIMIT, Place, shared};

fn lowered(name: &str) -> Lowered {
    let mut worker = shared();
    let place = Place::new();
    let exported = place.exported(&mut worker, name);
    let pte = place.file("model.pte");
    let lowered = worker.lower(&exported.program, &pte, LIMIT).expect("lower");
    assert_eq!(lowered.bytes, fs_err::metadata(&pte).expect("written").len());
    assert_eq!(place.names(), ["inputs", "model.pt2", "model.pte"]);
    lowered
}

fn line_of(fallback: &Fallback) -> (u32, &str) {
    let source = fallback.source.as_ref().expect("a line of the model file");
    assert!(source.file.contains("fixtures/models"), "{source:?}");
    (source.line, &source.text)
}

#[test]
fn a_softmax_over_channels_is_refused_for_its_dimension() {
    let lowered = lowered("softmax_over_channels");
    let [fallback] = lowered.fallbacks.as_slice() else { panic!("{:#?}", lowered.fallbacks) };
    assert_eq!((fallback.instruction, fallback.kernel.as_str()), (1, "aten::_softmax.out"));
    assert_eq!(fallback.edge_op, "aten._softmax.default");
    assert_eq!(fallback.original_nodes, ["softmax"]);
    assert_eq!(line_of(fallback), (15, "return torch.softmax(scores, dim=1)"));
    assert_eq!(fallback.source.as_ref().expect("line").function, "forward");
    assert_eq!(fallback.module_path, "");
    assert_eq!(fallback.reason.code, "constraint");
    assert!(fallback.reason.text.contains("dimension 1 of 4"), "{:?}", fallback.reason);
    assert!(fallback.reason.partitioner.contains("dim must be the last dim"), "{:?}", fallback.reason);
    let [delegate] = lowered.delegates.as_slice() else { panic!("{:#?}", lowered.delegates) };
    assert_eq!(delegate.instruction, 0);
    assert_eq!(delegate.original_nodes, ["conv2d", "relu", "conv2d_1"]);
    assert_eq!(lowered.delegated_nodes, 3);
}

#[test]
fn an_average_pooling_between_two_delegates_is_refused_for_its_rounding() {
    let lowered = lowered("average_pool_rounding_up");
    let [fallback] = lowered.fallbacks.as_slice() else { panic!("{:#?}", lowered.fallbacks) };
    assert_eq!((fallback.instruction, fallback.kernel.as_str()), (1, "aten::avg_pool2d.out"));
    assert_eq!(
        (fallback.original_nodes.as_slice(), fallback.module_path.as_str()),
        (&["avg_pool2d".to_owned()][..], "halve")
    );
    assert_eq!(line_of(fallback), (15, "return self.after(self.halve(torch.relu(self.before(image))))"));
    assert_eq!(fallback.reason.code, "constraint");
    assert!(fallback.reason.text.contains("ceil_mode=True"), "{:?}", fallback.reason);
    let instructions: Vec<i64> = lowered.delegates.iter().map(|delegate| delegate.instruction).collect();
    assert_eq!(instructions, [0, 2]);
    assert_eq!(lowered.delegates[1].original_nodes, ["conv2d_1"]);
}

#[test]
fn copies_of_a_slice_lead_back_to_the_slice_and_not_to_its_users() {
    let lowered = lowered("slice_of_everything");
    assert!(lowered.fallbacks.len() >= 2, "the slice is repeated after the write: {:#?}", lowered.fallbacks);
    for fallback in &lowered.fallbacks {
        assert_eq!(fallback.kernel, "aten::alias_copy.out");
        assert_eq!(fallback.original_nodes, ["alias"], "{fallback:#?}");
        assert_eq!(line_of(fallback), (17, "both = both[:, :16]"));
        assert_eq!(fallback.reason.code, "no-config");
        assert!(fallback.reason.text.contains("aten.alias_copy"), "{:?}", fallback.reason);
    }
}

#[test]
fn element_types_are_named_as_the_reason() {
    let lowered = lowered("many_kinds");
    let reason = |kernel: &str| {
        let found = lowered.fallbacks.iter().find(|fallback| fallback.kernel == kernel);
        &found.unwrap_or_else(|| panic!("{kernel}: {:#?}", lowered.fallbacks)).reason
    };
    assert_eq!(reason("aten::embedding.out").code, "no-config");
    let conversion =
        lowered.fallbacks.iter().find(|fallback| fallback.reason.text.contains("converts float32 to float16"));
    assert!(conversion.is_some_and(|fallback| fallback.reason.code == "dtype"), "{:#?}", lowered.fallbacks);
    assert!(
        lowered.fallbacks.iter().any(|fallback| fallback.reason.text.contains("element type bool")),
        "{:#?}",
        lowered.fallbacks
    );
    // A buffer that changes is written back at the end, by an instruction that no node asked for.
    let last = lowered.fallbacks.last().expect("instructions");
    assert_eq!((last.kernel.as_str(), last.reason.code.as_str()), ("aten::copy_", "inserted-after-partitioning"));
    let numbers: Vec<i64> = lowered.fallbacks.iter().map(|fallback| fallback.instruction).collect();
    assert!(numbers.is_sorted(), "in the order of execution: {numbers:?}");
}

#[test]
fn a_changeable_batch_is_lowered() {
    let lowered = lowered("changeable_batch");
    let softmax = lowered.fallbacks.iter().find(|fallback| fallback.kernel == "aten::_softmax.out").expect("softmax");
    assert_eq!(softmax.original_nodes, ["softmax"]);
    let view = lowered.fallbacks.iter().find(|fallback| fallback.original_nodes == ["flatten"]).expect("view");
    assert_eq!(view.reason.code, "constraint", "{:?}", view.reason);
    assert!(view.reason.text.contains("only known at run time"), "{:?}", view.reason);
}

#[test]
fn nodes_of_a_branch_go_by_the_node_that_runs_it() {
    let lowered = lowered("branch");
    let softmaxes: Vec<&Fallback> =
        lowered.fallbacks.iter().filter(|fallback| fallback.edge_op == "aten._softmax.default").collect();
    let [inside, outside] = softmaxes.as_slice() else { panic!("{:#?}", lowered.fallbacks) };
    assert!(inside.instruction < outside.instruction);
    assert_eq!((line_of(inside).0, line_of(outside).0), (14, 20));
    assert_eq!(
        (inside.original_nodes.as_slice(), outside.original_nodes.as_slice()),
        (&["cond".to_owned()][..], &["softmax".to_owned()][..])
    );
    assert!(inside.reason.text.contains("inside a branch"), "{:?}", inside.reason);
    assert!(outside.reason.text.contains("dimension 1 of 4"), "{:?}", outside.reason);
}
