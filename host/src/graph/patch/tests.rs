use std::path::Path;

use proptest::prelude::*;

use super::super::GraphOutput;
use super::super::archive::{self, Limits};
use super::super::shapes::{self, ShapeArgument};
use super::super::{Argument, Dim, Graph, ORIGIN_KEY, ScalarType, ValueKind, fixtures};
use super::*;

const ORIGIN: &str = "dd-000 1.2.3";

fn value(graph: &Graph, name: &str) -> ValueId {
    graph.value_named(name).unwrap_or_else(|| panic!("no value {name}")).id
}

fn node(graph: &Graph, name: &str) -> NodeId {
    graph.node_named(name).unwrap_or_else(|| panic!("no node {name}")).id
}

fn existing(graph: &Graph, name: &str) -> Operand {
    Operand::Value(ValueRef::Existing(value(graph, name)))
}

fn ints(numbers: &[i64]) -> Operand {
    Operand::Literal(Literal::Ints(numbers.to_vec()))
}

/// Collects edits and infers the metadata of what they make.
struct Builder<'g> {
    graph: &'g Graph,
    before: NodeId,
    patch: Patch,
    made: Vec<Vec<TensorMeta>>,
}

impl<'g> Builder<'g> {
    fn new(graph: &'g Graph, before: NodeId) -> Self {
        Self { graph, before, patch: Patch { title: "test".to_owned(), edits: Vec::new() }, made: Vec::new() }
    }

    fn meta(&self, value: ValueRef) -> Option<&TensorMeta> {
        match value {
            ValueRef::Existing(id) => self.graph.tensor(id),
            ValueRef::Created { insertion, output } => self.made.get(insertion)?.get(output),
        }
    }

    fn try_insert(&mut self, op: &str, inputs: &[(&str, Operand)]) -> Option<Operand> {
        let mut arguments = Vec::new();
        for (name, operand) in inputs {
            arguments.push((
                *name,
                match operand {
                    Operand::Literal(literal) => ShapeArgument::Literal(literal),
                    Operand::Value(value) => ShapeArgument::Tensor(self.meta(*value)?),
                    Operand::Values(values) => {
                        ShapeArgument::Tensors(values.iter().map(|value| self.meta(*value)).collect::<Option<_>>()?)
                    }
                    Operand::OptionalValues(_) => return None,
                },
            ));
        }
        let outputs = shapes::infer(op, &arguments).ok()?;
        self.made.push(outputs.clone());
        self.patch.edits.push(PatchEdit::Insert {
            before: self.before,
            op: op.to_owned(),
            inputs: inputs.iter().map(|(name, operand)| ((*name).to_owned(), operand.clone())).collect(),
            outputs,
            origin: ORIGIN.to_owned(),
        });
        Some(Operand::Value(ValueRef::Created { insertion: self.made.len() - 1, output: 0 }))
    }

    fn insert(&mut self, op: &str, inputs: &[(&str, Operand)]) -> Operand {
        self.try_insert(op, inputs).unwrap_or_else(|| panic!("{op} cannot be inferred"))
    }

    fn constant(&mut self, meta: TensorMeta, bytes: Vec<u8>) -> Operand {
        self.made.push(vec![meta.clone()]);
        self.patch.edits.push(PatchEdit::Constant { meta, bytes, origin: ORIGIN.to_owned() });
        Operand::Value(ValueRef::Created { insertion: self.made.len() - 1, output: 0 })
    }

    fn replace(&mut self, value: ValueId, by: &Operand) {
        let Operand::Value(by) = by else { panic!("a value") };
        self.patch.edits.push(PatchEdit::ReplaceAllUses { value, by: *by });
    }
}

/// The softmax over channels of `conv_softmax` in three-axis form.
fn softmax_patch(graph: &Graph) -> Patch {
    let mut b = Builder::new(graph, node(graph, "softmax"));
    let x = b.insert("aten.reshape.default", &[("self", existing(graph, "conv2d")), ("shape", ints(&[1, 4, 30]))]);
    let x = b.insert("aten.permute.default", &[("self", x), ("dims", ints(&[0, 2, 1]))]);
    let x = b.insert("aten.softmax.int", &[("self", x), ("dim", Operand::Literal(Literal::Int(-1)))]);
    let x = b.insert("aten.permute.default", &[("self", x), ("dims", ints(&[0, 2, 1]))]);
    let x = b.insert("aten.contiguous.default", &[("self", x)]);
    let x = b.insert("aten.reshape.default", &[("self", x), ("shape", ints(&[1, 4, 6, 5]))]);
    b.replace(value(graph, "softmax"), &x);
    b.patch
}

/// Nodes as `name = op(values)`.
fn listing(graph: &Graph) -> Vec<String> {
    let name = |value: ValueId| graph.value(value).map_or_else(|| "?".to_owned(), |value| value.name.clone());
    graph
        .nodes()
        .iter()
        .map(|node| {
            let outputs: Vec<String> = node.output_values().map(name).collect();
            let inputs: Vec<String> = node.input_values().map(name).collect();
            format!("{} -> {} = {}({})", node.name, outputs.join(" "), node.op, inputs.join(" "))
        })
        .collect()
}

/// The patched program is whole: written, read again and taken back it is what it must be.
fn check(program: &Program, applied: &Applied) {
    let bytes = archive::to_bytes(&applied.program).expect("bytes");
    let again = archive::from_bytes(bytes, Path::new("again.pt2"), &Limits::default())
        .unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(again.fingerprint(), applied.program.fingerprint());
    assert_eq!(listing(again.graph()), listing(applied.program.graph()));
    for constant in again.graph().inputs() {
        again.payload(*constant).expect("payload");
    }

    let back = applied.program.apply(&applied.inverse()).expect("inverse");
    assert_eq!(back.program.fingerprint(), program.fingerprint());
    assert_eq!(back.program.document().expect("JSON"), program.document().expect("JSON"));
    assert_eq!(back.program.graph().nodes(), program.graph().nodes());
    let forth = back.program.apply(&back.inverse()).expect("inverse of the inverse");
    assert_eq!(forth.program.fingerprint(), applied.program.fingerprint());
    assert_eq!(forth.program.graph().nodes(), applied.program.graph().nodes());
}

#[test]
fn a_repair_takes_the_place_and_the_name_of_what_it_replaces() {
    let program = fixtures::program("conv_softmax");
    let applied = program.apply(&softmax_patch(program.graph())).expect("applies");
    let graph = applied.program.graph();
    assert_eq!(
        listing(graph),
        [
            "conv2d -> conv2d = aten.conv2d.default(x p_conv_weight p_conv_bias)",
            "reshape -> reshape = aten.reshape.default(conv2d)",
            "permute -> permute = aten.permute.default(reshape)",
            "softmax_1 -> softmax_1 = aten.softmax.int(permute)",
            "permute_1 -> permute_1 = aten.permute.default(softmax_1)",
            "contiguous -> contiguous = aten.contiguous.default(permute_1)",
            "softmax -> softmax = aten.reshape.default(contiguous)",
        ]
    );
    assert_eq!(applied.removed.iter().map(|node| node.op.as_str()).collect::<Vec<_>>(), ["aten.softmax.int"]);
    assert_eq!((applied.created_nodes.len(), applied.created_values.len()), (6, 6));
    let made = graph.node(applied.created_nodes[0]).expect("made");
    assert_eq!(made.metadata.get(ORIGIN_KEY).and_then(|origin| origin.as_str()), Some(ORIGIN));
    assert_eq!(made.stack_trace(), applied.removed[0].stack_trace());
    assert_eq!(graph.user_outputs(), [value(graph, "softmax")]);
    check(&program, &applied);
}

#[test]
fn the_original_is_untouched_by_what_applies_and_by_what_does_not() {
    let program = fixtures::program("conv_softmax");
    let (fingerprint, nodes) = (program.fingerprint().to_owned(), program.graph().nodes().to_vec());
    let mut patch = softmax_patch(program.graph());
    program.apply(&patch).expect("applies");
    patch.edits.push(PatchEdit::Delete { node: NodeId(999) });
    assert_eq!(program.apply(&patch).expect_err("refused"), PatchError::UnknownNode { edit: 7, node: NodeId(999) });
    assert_eq!((program.fingerprint(), program.graph().nodes()), (fingerprint.as_str(), nodes.as_slice()));
}

#[test]
fn a_constant_comes_with_all_that_belongs_to_it() {
    let program = fixtures::program("constants");
    let graph = program.graph();
    let mut b = Builder::new(graph, node(graph, "add"));
    let bytes: Vec<u8> = [2.0_f32, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let constant = b.constant(fixtures::float(&[3]), bytes.clone());
    let unused = b.constant(fixtures::float(&[]), vec![0; 4]);
    let product = b.insert("aten.mul.Tensor", &[("self", existing(graph, "mul")), ("other", constant)]);
    b.replace(value(graph, "mul"), &product);
    let applied = program.apply(&b.patch).expect("applies");
    let patched = applied.program.graph();
    let made = applied.created_values[0][0];
    assert_eq!(applied.program.payload(made).expect("payload").expect("stored").bytes, bytes);
    assert!(applied.program.is_constant(made));
    assert_eq!(patched.value(applied.created_values[1][0]), None, "{unused:?} is not used");
    let names = |graph: &Graph| -> Vec<String> {
        graph.inputs().iter().filter_map(|id| graph.value(*id)).map(|value| value.name.clone()).collect()
    };
    assert_eq!(names(patched), ["b_mask", "c_lifted_tensor_0", "c_delegate_doctor_0", "x"]);
    check(&program, &applied);

    let bytes = archive::to_bytes(&applied.program).expect("bytes");
    let again = archive::from_bytes(bytes, Path::new("again.pt2"), &Limits::default()).expect("readable");
    let mut b = Builder::new(again.graph(), node(again.graph(), "add"));
    let constant = b.constant(fixtures::float(&[]), vec![0; 4]);
    let sum = b.insert("aten.add.Tensor", &[("self", existing(again.graph(), "mul_1")), ("other", constant)]);
    b.replace(value(again.graph(), "mul_1"), &sum);
    let twice = again.apply(&b.patch).expect("applies");
    assert!(names(twice.program.graph()).contains(&"c_delegate_doctor_1".to_owned()));
    check(&again, &twice);
}

#[test]
fn list_and_tuple_returns_get_a_value_each() {
    let program = fixtures::program("unused_outputs");
    let graph = program.graph();
    let mut b = Builder::new(graph, node(graph, "chunk"));
    b.insert(
        "aten.split.Tensor",
        &[
            ("self", existing(graph, "x")),
            ("split_size", Operand::Literal(Literal::Int(2))),
            ("dim", Operand::Literal(Literal::Int(1))),
        ],
    );
    b.replace(value(graph, "getitem_4"), &Operand::Value(ValueRef::Created { insertion: 0, output: 2 }));
    b.insert("aten.max.dim", &[("self", existing(graph, "x")), ("dim", Operand::Literal(Literal::Int(1)))]);
    b.replace(value(graph, "getitem"), &Operand::Value(ValueRef::Created { insertion: 1, output: 0 }));
    let applied = program.apply(&b.patch).expect("applies");
    assert_eq!(
        listing(applied.program.graph()),
        [
            "split -> getitem_5 getitem_6 getitem_4 = aten.split.Tensor(x)",
            "max_2 -> getitem getitem_9 = aten.max.dim(x)",
        ]
    );
    check(&program, &applied);
}

#[test]
fn a_view_that_is_returned_can_be_replaced_by_what_it_views() {
    let program = fixtures::program("several_outputs");
    let graph = program.graph();
    let mut b = Builder::new(graph, node(graph, "mul"));
    let copy = b.insert("aten.alias.default", &[("self", existing(graph, "add"))]);
    b.replace(value(graph, "add"), &copy);
    let applied = program.apply(&b.patch).expect("applies");
    let with_alias = applied.program;
    assert_eq!(
        listing(with_alias.graph())[2..4],
        ["add_1 -> add_1 = aten.add.Tensor(getitem_2)", "add -> add = aten.alias.default(add_1)"]
    );

    let graph = with_alias.graph();
    let patch = Patch {
        title: "back".to_owned(),
        edits: vec![
            PatchEdit::ReplaceAllUses { value: value(graph, "add"), by: ValueRef::Existing(value(graph, "add_1")) },
            PatchEdit::Delete { node: node(graph, "add") },
        ],
    };
    let applied = with_alias.apply(&patch).expect("applies");
    assert_eq!(applied.program.fingerprint(), program.fingerprint());
    let document = applied.program.document().expect("JSON");
    assert_eq!(document["graph_module"]["graph"]["outputs"][1]["as_tensor"]["name"], "add_1");
    let spec = &document["graph_module"]["signature"]["output_specs"][1];
    assert_eq!(spec["user_output"]["arg"]["as_tensor"]["name"], "add_1");
    check(&with_alias, &applied);
}

#[test]
fn a_value_that_replaces_two_outputs_is_named_in_both_places() {
    let program = fixtures::program("mutated_buffer_decomposed");
    let graph = program.graph();
    let mut b = Builder::new(graph, graph.nodes()[1].id);
    let copy = b.insert("aten.clone.default", &[("self", existing(graph, "add"))]);
    b.replace(value(graph, "add"), &copy);
    let applied = program.apply(&b.patch).expect("applies");
    let patched = applied.program.graph();
    let GraphOutput::Mutation { value: written, target } = &patched.outputs()[0] else { panic!("a mutation") };
    assert_eq!((patched.value(*written).map(|value| value.name.as_str()), target.as_str()), (Some("add"), "total"));
    check(&program, &applied);
}

#[test]
fn arguments_left_out_in_the_middle_make_the_rest_keywords() {
    let program = fixtures::program("conv_softmax");
    let graph = program.graph();
    let mut b = Builder::new(graph, node(graph, "softmax"));
    let int = |n| Operand::Literal(Literal::Int(n));
    let part = b.insert("aten.slice.Tensor", &[("self", existing(graph, "conv2d")), ("end", int(1)), ("dim", int(0))]);
    b.replace(value(graph, "conv2d"), &part);
    let applied = program.apply(&b.patch).expect("applies");
    let made = applied.program.graph().node(applied.created_nodes[0]).expect("made");
    let inputs: Vec<(&str, bool)> = made.inputs.iter().map(|input| (input.name.as_str(), input.keyword)).collect();
    assert_eq!(inputs, [("self", false), ("dim", false), ("end", true)]);
    check(&program, &applied);
}

#[test]
fn set_input_holds_what_the_node_gives() {
    let program = fixtures::program("in_place");
    let graph = program.graph();
    let view = node(graph, "view");
    let set = |input: &str, operand: Operand| Patch {
        title: String::new(),
        edits: vec![PatchEdit::SetInput { node: view, input: input.to_owned(), operand }],
    };
    let applied = program.apply(&set("size", ints(&[1, 2, 9]))).expect("the same sizes in another spelling");
    check(&program, &applied);
    let refused = |patch: Patch| program.apply(&patch).expect_err("refused").to_string();
    assert!(refused(set("size", ints(&[1, 18]))).contains("sizes [1, 18] where sizes [1, 2, 9]"));
    assert!(refused(set("size", ints(&[5]))).contains("no metadata"));
    assert!(refused(set("shape", ints(&[1, 2, 9]))).contains("`shape` of `aten.view.default` does not exist"));
    let relu = Patch {
        title: String::new(),
        edits: vec![PatchEdit::SetInput {
            node: node(graph, "relu_"),
            input: "self".to_owned(),
            operand: existing(graph, "clone"),
        }],
    };
    assert!(refused(relu).contains("is written to"));
}

#[test]
fn what_the_form_of_a_graph_forbids_is_refused() {
    let program = fixtures::program("conv_softmax");
    let graph = program.graph();
    let softmax = node(graph, "softmax");
    let insert = |op: &str, inputs: Vec<(&str, Operand)>, outputs: Vec<TensorMeta>| PatchEdit::Insert {
        before: softmax,
        op: op.to_owned(),
        inputs: inputs.into_iter().map(|(name, operand)| (name.to_owned(), operand)).collect(),
        outputs,
        origin: ORIGIN.to_owned(),
    };
    let conv = || existing(graph, "conv2d");
    let meta = || graph.tensor(value(graph, "conv2d")).expect("tensor").clone();
    let half = || TensorMeta { dtype: ScalarType::Float16, ..meta() };
    let wide = || TensorMeta { sizes: vec![Dim::Fixed(1), Dim::Fixed(4), Dim::Fixed(5), Dim::Fixed(6)], ..meta() };
    let text = || Operand::Literal(Literal::Text("x".to_owned()));
    let created = |insertion| Operand::Value(ValueRef::Created { insertion, output: 0 });
    let clone = || insert("aten.clone.default", vec![("self", conv())], vec![meta()]);
    let replace = |name: &str, by: ValueRef| PatchEdit::ReplaceAllUses { value: value(graph, name), by };
    let constant = |meta: TensorMeta, bytes: Vec<u8>| PatchEdit::Constant { meta, bytes, origin: ORIGIN.to_owned() };
    let cases: Vec<(Vec<PatchEdit>, &str)> = vec![
        (vec![insert("aten.unheard.default", vec![], vec![])], "`aten.unheard.default`, which is not in the table"),
        (vec![insert("aten.relu_.default", vec![("self", conv())], vec![meta()])], "writes to its arguments"),
        (vec![insert("aten.dropout.default", vec![("input", conv())], vec![meta()])], "draws random numbers"),
        (vec![insert("aten.relu.default", vec![], vec![meta()])], "argument `self` of `aten.relu.default` is missing"),
        (
            vec![insert("aten.relu.default", vec![("self", conv()), ("x", conv())], vec![meta()])],
            "`x` of `aten.relu.default` does not exist",
        ),
        (vec![insert("aten.relu.default", vec![("self", conv()), ("self", conv())], vec![meta()])], "is given twice"),
        (vec![insert("aten.relu.default", vec![("self", text())], vec![meta()])], "is not of the type"),
        (
            vec![insert("aten.relu.default", vec![("self", created(0))], vec![meta()])],
            "output 0 of insertion 0, which is not made before it",
        ),
        (
            vec![insert(
                "aten.relu.default",
                vec![("self", Operand::Value(ValueRef::Existing(ValueId(999))))],
                vec![meta()],
            )],
            "value v999",
        ),
        (
            vec![insert("aten.relu.default", vec![("self", conv())], vec![half()])],
            "element type float16 where element type float32",
        ),
        (vec![insert("aten.relu.default", vec![("self", conv())], vec![])], "0 outputs where 1"),
        (vec![insert("aten.mm.default", vec![("self", conv()), ("mat2", conv())], vec![meta()])], "no metadata"),
        (
            vec![
                insert("aten.relu.default", vec![("self", existing(graph, "softmax"))], vec![meta()]),
                replace("conv2d", ValueRef::Created { insertion: 0, output: 0 }),
            ],
            "`relu` would read `softmax` before it is made",
        ),
        (vec![constant(meta(), vec![0; 3])], "does not have as many bytes"),
        (
            vec![constant(TensorMeta { storage_offset: Dim::Fixed(1), ..fixtures::float(&[1]) }, vec![0; 4])],
            "is not contiguous",
        ),
        (vec![constant(wide(), vec![0; 480])], "is not contiguous"),
        (
            vec![replace("softmax", ValueRef::Existing(value(graph, "x")))],
            "sizes [1, 3, 6, 5] where sizes [1, 4, 6, 5]",
        ),
        (vec![replace("x", ValueRef::Existing(value(graph, "p_conv_bias")))], "sizes [4]"),
        (vec![PatchEdit::Delete { node: softmax }], "deletes `softmax`, but its output `softmax` is still used"),
        (vec![clone(), replace("p_conv_bias", ValueRef::Created { insertion: 0, output: 0 })], "sizes"),
        (vec![PatchEdit::SetInput { node: softmax, input: "dim".to_owned(), operand: text() }], "is not of the type"),
        (vec![PatchEdit::SetInput { node: NodeId(77), input: "dim".to_owned(), operand: text() }], "node n77"),
    ];
    for (edits, expected) in cases {
        let error = program.apply(&Patch { title: String::new(), edits }).expect_err(expected).to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // Replacing an early value by a late one of the same shape.
    let late =
        Patch { title: String::new(), edits: vec![replace("conv2d", ValueRef::Existing(value(graph, "softmax")))] };
    assert!(
        program
            .apply(&late)
            .expect_err("late")
            .to_string()
            .contains("`softmax` would read `softmax` before it is made")
    );
}

#[test]
fn other_strides_are_no_replacement() {
    let program = fixtures::program("conv_softmax");
    let graph = program.graph();
    let mut b = Builder::new(graph, node(graph, "softmax"));
    let x = b.insert("aten.permute.default", &[("self", existing(graph, "conv2d")), ("dims", ints(&[0, 2, 3, 1]))]);
    let x = b.insert("aten.softmax.int", &[("self", x), ("dim", Operand::Literal(Literal::Int(-1)))]);
    let x = b.insert("aten.permute.default", &[("self", x), ("dims", ints(&[0, 3, 1, 2]))]);
    b.replace(value(graph, "softmax"), &x);
    let error = program.apply(&b.patch).expect_err("strides").to_string();
    assert!(error.contains("strides [120, 1, 20, 4] where strides [120, 30, 5, 1]"), "{error}");
}

#[test]
fn effects_are_never_dead() {
    let program = fixtures::program("in_place");
    let graph = program.graph();
    let mut b = Builder::new(graph, node(graph, "relu_"));
    let meta = graph.tensor(value(graph, "relu_")).expect("tensor").clone();
    let zeros = b.insert("aten.zeros.default", &[("size", ints(&meta.fixed_sizes().expect("fixed")))]);
    b.replace(value(graph, "relu_"), &zeros);
    let applied = program.apply(&b.patch).expect("applies");
    let nodes = listing(applied.program.graph());
    assert!(nodes.iter().any(|line| line.contains("aten.relu_.default")), "{nodes:?}");
    check(&program, &applied);
    let delete = Patch { title: String::new(), edits: vec![PatchEdit::Delete { node: node(graph, "mul_") }] };
    assert!(program.apply(&delete).expect_err("effect").to_string().contains("may do more than compute"));
}

#[test]
fn subgraphs_keep_what_they_mention() {
    let program = fixtures::program("no_grad");
    let graph = program.graph();
    let mut b = Builder::new(graph, graph.nodes()[0].id);
    let copy = b.insert("aten.clone.default", &[("self", existing(graph, "x"))]);
    b.replace(value(graph, "x"), &copy);
    let applied = program.apply(&b.patch).expect("applies");
    check(&program, &applied);
}

#[test]
fn patches_are_taken_back_in_any_order_when_they_do_not_meet() {
    let program = fixtures::program("quantized");
    let graph = program.graph();
    let pool = graph.nodes().iter().find(|node| node.op == "aten.avg_pool2d.default").expect("avg_pool2d");
    let conv = graph.nodes().iter().find(|node| node.op == "aten.conv2d.default").expect("conv2d");
    let on = |program: &Program, node: &Node| {
        let output = node.output_values().next().expect("output");
        let graph = program.graph();
        let user = graph.uses(output).first().expect("use").node;
        let mut b = Builder::new(graph, user);
        let copy = b.insert("aten.clone.default", &[("self", Operand::Value(ValueRef::Existing(output)))]);
        b.replace(output, &copy);
        program.apply(&b.patch).expect("applies")
    };
    let first = on(&program, conv);
    let second = on(&first.program, pool);
    let without_first = second.program.apply(&first.inverse()).expect("not the last one");
    assert_eq!(without_first.program.fingerprint(), on(&program, pool).program.fingerprint());
    let none = without_first.program.apply(&second.inverse()).expect("the last one");
    assert_eq!(none.program.fingerprint(), program.fingerprint());
    assert!(matches!(none.program.apply(&second.inverse()), Err(PatchError::Undo { .. })));
    let mixed = Patch { title: String::new(), edits: [first.inverse().edits, second.inverse().edits].concat() };
    assert!(matches!(program.apply(&mixed), Err(PatchError::Undo { .. })));
}

/// One random step: which value, which node, which operator.
type Step = (u8, prop::sample::Index, prop::sample::Index, i64);

fn build(graph: &Graph, steps: &[Step]) -> Patch {
    let values = graph.values();
    let mut b = Builder::new(graph, graph.nodes()[0].id);
    let mut last: Option<(ValueId, Operand)> = None;
    for (kind, value, node, number) in steps {
        let anchor = node.get(graph.nodes()).id;
        let value = value.get(&values);
        let ValueKind::Tensor(meta) = &value.kind else { continue };
        let this = Operand::Value(ValueRef::Existing(value.id));
        let (source, input) = last.take().filter(|_| kind % 2 == 0).unwrap_or((value.id, this));
        let before = b.before;
        if input == Operand::Value(ValueRef::Existing(value.id)) {
            b.before = graph.uses(value.id).first().map_or(anchor, |used| used.node);
        }
        let rank = meta.sizes.len();
        let made = match kind % 9 {
            0 | 1 => b.try_insert("aten.clone.default", &[("self", input)]),
            2 => b.try_insert("aten.alias.default", &[("self", input)]),
            3 => {
                let dims: Vec<i64> = (0..rank as i64).rev().collect();
                let once = b.try_insert("aten.permute.default", &[("self", input), ("dims", ints(&dims))]);
                once.and_then(|once| b.try_insert("aten.permute.default", &[("self", once), ("dims", ints(&dims))]))
            }
            4 => b.try_insert("aten.mul.Scalar", &[("self", input), ("other", Operand::Literal(Literal::Float(1.5)))]),
            5 => {
                let one = b.constant(fixtures::float(&[1]), vec![0, 0, 128, 63]);
                b.try_insert("aten.mul.Tensor", &[("self", input), ("other", one)])
            }
            6 => b
                .try_insert(
                    "aten.unsqueeze.default",
                    &[("self", input), ("dim", Operand::Literal(Literal::Int(*number)))],
                )
                .and_then(|made| {
                    b.try_insert(
                        "aten.squeeze.dim",
                        &[("self", made), ("dim", Operand::Literal(Literal::Int(*number)))],
                    )
                }),
            7 => {
                b.patch.edits.push(PatchEdit::Delete { node: anchor });
                None
            }
            _ => {
                let names: Vec<String> =
                    node.get(graph.nodes()).inputs.iter().map(|input| input.name.clone()).collect();
                if let Some(name) = names.get(usize::try_from(*number).unwrap_or(0)) {
                    b.patch.edits.push(PatchEdit::SetInput { node: anchor, input: name.clone(), operand: input });
                }
                None
            }
        };
        match made {
            Some(made) if *number > 0 => {
                b.replace(source, &made);
                b.before = before;
            }
            Some(made) => last = Some((source, made)),
            None => {}
        }
    }
    b.patch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_global_rejects: 20000, ..ProptestConfig::default() })]

    #[test]
    fn random_patches_apply_and_are_taken_back(
        name in prop::sample::select(vec![
            "conv_softmax", "several_outputs", "cond", "in_place", "integers", "mutated_buffer", "mutated_buffer_decomposed",
            "tied_weights", "constants", "symbols", "dynamic_batch", "unused_outputs", "quantized", "while_loop",
        ]),
        first in prop::collection::vec((any::<u8>(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), -1_i64..3), 1..5),
        second in prop::collection::vec((any::<u8>(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), -1_i64..3), 1..3),
    ) {
        let program = fixtures::program(name);
        let fingerprint = program.fingerprint().to_owned();
        let applied = program.apply(&build(program.graph(), &first));
        prop_assert_eq!(program.fingerprint(), fingerprint);
        let Ok(applied) = applied else { return Ok(()) };
        check(&program, &applied);
        if let Ok(again) = applied.program.apply(&build(applied.program.graph(), &second)) {
            check(&applied.program, &again);
        }
    }
}

#[test]
fn enough_random_patches_apply_for_the_property_to_mean_something() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let steps = prop::collection::vec(
        (any::<u8>(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), -1_i64..3),
        1..5,
    );
    let program = fixtures::program("conv_softmax");
    let mut changed = 0;
    for _ in 0..100 {
        let steps = steps.new_tree(&mut runner).expect("steps").current();
        let applied = program.apply(&build(program.graph(), &steps));
        changed += usize::from(applied.is_ok_and(|applied| applied.program.fingerprint() != program.fingerprint()));
    }
    assert!(changed > 20, "{changed} of 100");
}

#[test]
fn an_argument_that_holds_no_value_is_left_alone() {
    let program = fixtures::program("symbols");
    let graph = program.graph();
    let reshape = graph.node_named("reshape").expect("reshape");
    let Some(Argument::SymInts(items)) = reshape.input("shape") else { panic!("{reshape:?}") };
    assert_eq!(items.len(), 3);
    let mut b = Builder::new(graph, node(graph, "softmax"));
    let copy = b.insert("aten.alias.default", &[("self", existing(graph, "reshape"))]);
    b.replace(value(graph, "reshape"), &copy);
    let applied = program.apply(&b.patch).expect("applies");
    check(&program, &applied);
}
