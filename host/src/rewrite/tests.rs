//! Rewrites that do not hold, each refused with its code; and any rewrite at all, without a panic.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Draft, ReferenceEvaluator, accept};
use crate::graph::{Program, ValueSource, fixtures};
use crate::matching::{Facts, Index, Match};
use crate::sandbox::contract::{
    Anchor, CreatedRef, Edit, InputChange, Literal, Manifest, NamedOperand, NewNode, Numerics, Operand, Reason,
    Replacement, Rewrite, Stability, UseReplacement, UseSite, ValueRef,
};

fn manifest(op: &str, depth: u8) -> Manifest {
    Manifest {
        id: "test".to_owned(),
        version: "1.0.0".to_owned(),
        title: String::new(),
        summary: String::new(),
        stability: Stability::Stable,
        numerics: Numerics::Exact,
        backends: Vec::new(),
        anchors: vec![Anchor {
            ops: vec![op.to_owned()],
            producers: Vec::new(),
            producer_depth: depth,
            consumer_depth: depth,
            only_outside_delegate: false,
        }],
        codes: Vec::new(),
        hints: Vec::new(),
    }
}

/// The first place of a program where an operator stands.
fn place(program: &Program, op: &str) -> Arc<Match> {
    let facts = Facts::default();
    let found = Index::new(program, &facts).matches(&manifest(op, 2));
    found.matches.into_iter().next().unwrap_or_else(|| panic!("no {op}"))
}

fn rewrite(edits: Vec<Edit>) -> Rewrite {
    let why = Reason { code: "test".to_owned(), message: "for a test".to_owned() };
    Rewrite { edits, numerics: Numerics::Exact, why, hints: Vec::new() }
}

fn existing(id: u32) -> ValueRef {
    ValueRef::Existing(id)
}

fn created(insertion: u32, output: u32) -> ValueRef {
    ValueRef::Created(CreatedRef { insertion, output })
}

fn insert(op: &str, inputs: Vec<(&str, Operand)>) -> Edit {
    let inputs = inputs.into_iter().map(|(name, operand)| NamedOperand { name: name.to_owned(), operand }).collect();
    Edit::Insert(NewNode { op: op.to_owned(), inputs, expect: Vec::new() })
}

fn value(value: ValueRef) -> Operand {
    Operand::Value(value)
}

fn int(n: i64) -> Operand {
    Operand::Literal(Literal::Int(n))
}

fn ints(list: &[i64]) -> Operand {
    Operand::Literal(Literal::Ints(list.to_vec()))
}

fn replace(value: u32, by: ValueRef) -> Edit {
    Edit::ReplaceAllUses(Replacement { value, by })
}

#[track_caller]
fn refused(program: &Program, op: &str, edits: Vec<Edit>, code: &str, says: &str) {
    let one = place(program, op);
    match accept(program, "test@1.0.0", &one, &rewrite(edits)) {
        Err(refusal) => {
            assert_eq!(refusal.code, code, "{refusal}");
            assert!(refusal.to_string().contains(says), "{refusal}");
            assert!(refusal.to_string().contains("test@1.0.0"), "{refusal}");
        }
        Ok(draft) => panic!("accepted: {draft:?}"),
    }
}

fn accepted(program: &Program, op: &str, edits: Vec<Edit>) -> Draft {
    accept(program, "test@1.0.0", &place(program, op), &rewrite(edits)).unwrap_or_else(|refusal| panic!("{refusal}"))
}

const SOFTMAX: &str = "aten.softmax.int";

/// In the site of `conv_softmax`: 0 is the softmax's input, 1 its output, then what the convolution reads.
fn conv_softmax() -> Program {
    let program = fixtures::program("conv_softmax");
    let site = &place(&program, SOFTMAX).site;
    assert_eq!(site.nodes[0].inputs[0].argument, crate::sandbox::contract::Argument::Value(0));
    assert_eq!(site.nodes[0].outputs, [1]);
    program
}

#[test]
fn ids_that_are_not_of_the_site_are_refused() {
    let program = conv_softmax();
    refused(&program, SOFTMAX, vec![replace(77, existing(0))], "ids", "value 77");
    refused(&program, SOFTMAX, vec![replace(1, existing(77))], "ids", "value 77");
    refused(&program, SOFTMAX, vec![replace(1, created(0, 0))], "ids", "never made");
    refused(&program, SOFTMAX, vec![Edit::Delete(9)], "ids", "node 9");
    let relu = || insert("aten.relu.default", vec![("self", value(existing(0)))]);
    refused(&program, SOFTMAX, vec![relu(), replace(1, created(0, 1))], "ids", "no output 1");
    let forward = insert("aten.relu.default", vec![("self", value(created(1, 0)))]);
    refused(&program, SOFTMAX, vec![forward, relu(), replace(1, created(0, 0))], "ids", "before it is made");
    let use_site = UseSite { value: 0, consumer: 0, input: 2 };
    refused(
        &program,
        SOFTMAX,
        vec![relu(), Edit::ReplaceUse(UseReplacement { use_site, by: created(0, 0) })],
        "ids",
        "not a use",
    );
}

#[test]
fn operators_and_arguments_must_fit_their_schema() {
    let program = conv_softmax();
    let x = || ("self", value(existing(0)));
    let with = |edit: Edit| vec![edit, replace(1, created(0, 0))];
    refused(&program, SOFTMAX, with(insert("my.own.op", vec![x()])), "unknown-op", "my.own.op");
    refused(&program, SOFTMAX, with(insert("aten.relu_.default", vec![x()])), "writes", "writes");
    refused(&program, SOFTMAX, with(insert("aten.rand_like.default", vec![x()])), "random", "random");
    refused(&program, SOFTMAX, with(insert(SOFTMAX, vec![x()])), "arguments", "`dim` is missing");
    refused(
        &program,
        SOFTMAX,
        with(insert(SOFTMAX, vec![x(), ("dim", int(1)), ("dim", int(1))])),
        "arguments",
        "twice",
    );
    refused(&program, SOFTMAX, with(insert(SOFTMAX, vec![x(), ("axis", int(1))])), "arguments", "no argument `axis`");
    refused(&program, SOFTMAX, with(insert(SOFTMAX, vec![x(), ("dim", ints(&[1]))])), "arguments", "`dim`");
    refused(&program, SOFTMAX, with(insert(SOFTMAX, vec![x(), ("dim", int(7))])), "shape", "");
    let odd = Operand::Literal(Literal::Other("{}".to_owned()));
    refused(&program, SOFTMAX, with(insert(SOFTMAX, vec![x(), ("dim", odd)])), "arguments", "without a name");
    refused(&program, SOFTMAX, with(insert("aten.reshape.default", vec![x(), ("shape", ints(&[7, 7]))])), "shape", "");
}

#[test]
fn a_replacement_must_look_like_what_it_replaces() {
    let program = conv_softmax();
    let x = || ("self", value(existing(0)));
    let with = |edit: Edit| vec![edit, replace(1, created(0, 0))];
    refused(
        &program,
        SOFTMAX,
        with(insert("aten.permute.default", vec![x(), ("dims", ints(&[0, 1, 3, 2]))])),
        "metadata",
        "sizes",
    );
    let transposed = insert("aten.permute.default", vec![x(), ("dims", ints(&[0, 1, 3, 2]))]);
    let reshaped = insert("aten.reshape.default", vec![("self", value(created(0, 0))), ("shape", ints(&[1, 4, 6, 5]))]);
    accepted(&program, SOFTMAX, vec![transposed, reshaped, replace(1, created(1, 0)), Edit::Delete(0)]);
    let twisted = insert("aten.permute.default", vec![x(), ("dims", ints(&[0, 2, 3, 1]))]);
    let strided = insert("aten.permute.default", vec![("self", value(created(1, 0))), ("dims", ints(&[0, 3, 1, 2]))]);
    let dense = insert(
        "aten.clone.default",
        vec![
            ("self", value(created(0, 0))),
            (
                "memory_format",
                Operand::Literal(Literal::MemoryFormat(crate::sandbox::contract::MemoryFormat::Contiguous)),
            ),
        ],
    );
    refused(&program, SOFTMAX, vec![twisted, dense, strided, replace(1, created(2, 0))], "metadata", "strides");
    let expectation = NewNode {
        op: "aten.relu.default".to_owned(),
        inputs: vec![NamedOperand { name: "self".to_owned(), operand: value(existing(0)) }],
        expect: vec![crate::sandbox::contract::TensorMeta {
            dtype: crate::sandbox::contract::ScalarType::Float16,
            sizes: Vec::new(),
            strides: Vec::new(),
            device: "cpu".to_owned(),
        }],
    };
    refused(&program, SOFTMAX, with(Edit::Insert(expectation)), "metadata", "not what the rule expects");
}

#[test]
fn what_is_still_used_or_not_yet_there_is_refused() {
    let program = conv_softmax();
    refused(&program, SOFTMAX, vec![Edit::Delete(0)], "used", "`softmax` is still used");
    refused(&program, SOFTMAX, vec![replace(1, existing(1))], "no-effect", "itself");
    refused(
        &program,
        SOFTMAX,
        vec![insert("aten.relu.default", vec![("self", value(existing(0)))])],
        "no-effect",
        "no edit changes",
    );
    refused(&program, SOFTMAX, vec![replace(1, existing(0)), replace(1, existing(0))], "replaced-twice", "twice");
    // The softmax's own result is not there where a node in front of it is placed.
    let early = insert("aten.relu.default", vec![("self", value(existing(1)))]);
    refused(&program, SOFTMAX, vec![early, replace(1, created(0, 0))], "order", "does not exist yet");
    // Nor where the convolution would read it.
    let change = InputChange { node: 1, input: "input".to_owned(), operand: value(existing(0)) };
    refused(&program, SOFTMAX, vec![Edit::SetInput(change)], "order", "does not exist yet");
}

#[test]
fn arguments_can_be_changed_one_by_one() {
    let program = conv_softmax();
    let change =
        |input: &str, operand: Operand| Edit::SetInput(InputChange { node: 0, input: input.to_owned(), operand });
    let draft = accepted(&program, SOFTMAX, vec![change("dim", int(-3))]);
    let patch = draft.finish(&program, &mut ReferenceEvaluator::default()).expect("patch");
    let applied = program.apply(&patch).expect("applies");
    let softmax = applied.program.graph().node_named("softmax").expect("softmax");
    assert_eq!(softmax.input("dim"), Some(&crate::graph::Argument::Literal(crate::graph::Literal::Int(-3))));
    refused(&program, SOFTMAX, vec![change("dim", int(9))], "shape", "");
    let double = Operand::Literal(Literal::Dtype(crate::sandbox::contract::ScalarType::Float64));
    refused(&program, SOFTMAX, vec![change("dtype", double)], "metadata", "would return something else");
    let use_site = UseSite { value: 0, consumer: 0, input: 0 };
    let relu = insert("aten.relu.default", vec![("self", value(existing(0)))]);
    let draft =
        accepted(&program, SOFTMAX, vec![relu, Edit::ReplaceUse(UseReplacement { use_site, by: created(0, 0) })]);
    let patch = draft.finish(&program, &mut ReferenceEvaluator::default()).expect("patch");
    let applied = program.apply(&patch).expect("applies");
    assert_eq!(applied.program.graph().nodes().len(), 3);
}

#[test]
fn only_constants_fold() {
    let program = conv_softmax();
    let one = place(&program, SOFTMAX);
    let constant = |value: &crate::sandbox::contract::Value| value.is_constant;
    let weight = one.site.values.iter().position(constant).and_then(|at| u32::try_from(at).ok()).expect("a weight");
    refused(&program, SOFTMAX, vec![Edit::Fold(existing(0))], "fold", "depends on more than");
    refused(&program, SOFTMAX, vec![Edit::Fold(existing(weight))], "fold", "input or an output of the program");
    let relu = insert("aten.relu.default", vec![("self", value(existing(0)))]);
    refused(&program, SOFTMAX, vec![relu, Edit::Fold(created(0, 0))], "fold", "depends on more than");

    // A constant that is made, scaled and stored; the program then adds it to the softmax's input.
    let full = insert(
        "aten.full.default",
        vec![("size", ints(&[1, 4, 6, 5])), ("fill_value", Operand::Literal(Literal::Float(0.5)))],
    );
    let twice = insert(
        "aten.mul.Scalar",
        vec![("self", value(created(0, 0))), ("other", Operand::Literal(Literal::Float(2.0)))],
    );
    let sum = insert("aten.add.Tensor", vec![("self", value(existing(0))), ("other", value(created(1, 0)))]);
    let edits = vec![full, twice, Edit::Fold(created(1, 0)), sum, replace(1, created(2, 0)), Edit::Delete(0)];
    let draft = accepted(&program, SOFTMAX, edits);
    let patch = draft.finish(&program, &mut ReferenceEvaluator::default()).expect("patch");
    let applied = program.apply(&patch).expect("applies");
    let ops: Vec<&str> = applied.program.graph().nodes().iter().map(|node| node.op.as_str()).collect();
    assert_eq!(ops, ["aten.conv2d.default", "aten.add.Tensor"]);
    let stored = applied
        .program
        .graph()
        .values()
        .into_iter()
        .find(|value| matches!(&value.source, ValueSource::Constant(name) if name.starts_with("delegate_doctor")));
    let stored = stored.expect("a stored constant");
    let tensor = applied.program.payload(stored.id).expect("readable").expect("stored");
    assert_eq!(tensor.to_f64(), Some(vec![1.0; 120]));
}

#[test]
fn writes_and_shared_memory_stay_as_they_are() {
    let program = fixtures::program("in_place");
    let clone = "aten.clone.default";
    refused(&program, clone, vec![replace(1, existing(0)), Edit::Delete(0)], "storage", "written to");
    let one = place(&program, "aten.relu_.default");
    assert!(one.site.values[0].is_mutated);
    refused(
        &program,
        "aten.relu_.default",
        vec![replace(1, existing(0)), Edit::Delete(0)],
        "writes",
        "the program does less",
    );
}

#[test]
fn what_the_caller_gets_back_is_not_merged() {
    let program = fixtures::program("mutated_buffer_decomposed");
    let one = place(&program, "aten.add.Tensor");
    let written_back = one.site.nodes[0].outputs[0];
    let relu = insert("aten.relu.default", vec![("self", value(existing(0)))]);
    refused(&program, "aten.add.Tensor", vec![relu, replace(written_back, created(0, 0))], "signature", "written back");
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        Just(Literal::None),
        (-3_i64..9).prop_map(Literal::Int),
        prop::collection::vec(-2_i64..8, 0..5).prop_map(Literal::Ints),
        any::<f64>().prop_map(Literal::Float),
        any::<bool>().prop_map(Literal::Boolean),
        Just(Literal::Text("x".to_owned())),
        Just(Literal::Dtype(crate::sandbox::contract::ScalarType::Float32)),
        Just(Literal::Other("{".to_owned())),
    ]
}

fn value_ref() -> impl Strategy<Value = ValueRef> {
    prop_oneof![(0_u32..7).prop_map(existing), (0_u32..4, 0_u32..2).prop_map(|(a, b)| created(a, b))]
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        literal().prop_map(Operand::Literal),
        value_ref().prop_map(Operand::Value),
        prop::collection::vec(value_ref(), 0..3).prop_map(Operand::Values),
        prop::collection::vec(prop::option::of(value_ref()), 0..3).prop_map(Operand::OptionalValues),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let op = prop::sample::select(vec![
        "aten.relu.default",
        "aten.softmax.int",
        "aten.reshape.default",
        "aten.permute.default",
        "aten.cat.default",
        "aten.add.Tensor",
        "aten.full.default",
        "aten.constant_pad_nd.default",
        "aten.avg_pool2d.default",
        "aten.relu_.default",
        "nothing",
    ]);
    let name = || {
        prop::sample::select(vec![
            "self",
            "dim",
            "shape",
            "dims",
            "tensors",
            "other",
            "size",
            "pad",
            "fill_value",
            "kernel_size",
            "input",
        ])
    };
    let inputs = prop::collection::vec((name(), operand()), 0..4);
    prop_oneof![
        4 => (op, inputs).prop_map(|(op, inputs)| insert(op, inputs)),
        2 => (0_u32..6, value_ref()).prop_map(|(value, by)| replace(value, by)),
        1 => (0_u32..6, 0_u32..3, 0_u32..4, value_ref()).prop_map(|(value, consumer, input, by)| {
            Edit::ReplaceUse(UseReplacement { use_site: UseSite { value, consumer, input }, by })
        }),
        1 => (0_u32..3, name(), operand()).prop_map(|(node, input, operand)| {
            Edit::SetInput(InputChange { node, input: input.to_owned(), operand })
        }),
        1 => (0_u32..3).prop_map(Edit::Delete),
        1 => value_ref().prop_map(Edit::Fold),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever a rule writes, the host refuses it or applies it; what it applies leaves a program whose
    /// outputs look as before, and can be taken back.
    #[test]
    fn any_rewrite_is_refused_or_holds(edits in prop::collection::vec(edit(), 0..6)) {
        for (fixture, op) in [("conv_softmax", SOFTMAX), ("in_place", "aten.conv2d.default")] {
            let program = fixtures::program(fixture);
            let one = place(&program, op);
            if let Ok(draft) = accept(&program, "test@1.0.0", &one, &rewrite(edits.clone()))
                && let Ok(patch) = draft.finish(&program, &mut ReferenceEvaluator::default())
            {
                let applied = program.apply(&patch).expect("an accepted rewrite applies");
                let look = |program: &Program| -> Vec<_> {
                    let graph = program.graph();
                    graph.user_outputs().iter().filter_map(|value| graph.tensor(*value)).map(|meta| (meta.dtype, meta.sizes.clone())).collect()
                };
                prop_assert_eq!(look(&program), look(&applied.program));
                let back = applied.program.apply(&applied.inverse()).expect("the inverse applies");
                prop_assert_eq!(back.program.fingerprint(), program.fingerprint());
            }
        }
    }
}
