//! Edits that the host must refuse whatever the numbers are.

use rule_sdk::contract::{
    CreatedRef, Edit, InputChange, NamedOperand, NewNode, Operand, Replacement, TensorMeta, UseReplacement, UseSite,
};
use rule_sdk::{Literal, NoRewrite, ScalarType, Site, ValueRef};

fn insert<const N: usize>(op: &str, inputs: [(&str, Operand); N]) -> Edit {
    let inputs = inputs.into_iter().map(|(name, operand)| NamedOperand { name: name.to_owned(), operand }).collect();
    Edit::Insert(NewNode { op: op.to_owned(), inputs, expect: Vec::new() })
}

fn existing(id: u32) -> Operand {
    Operand::Value(ValueRef::Existing(id))
}

fn made(insertion: u32) -> ValueRef {
    ValueRef::Created(CreatedRef { insertion, output: 0 })
}

fn created(insertion: u32) -> Operand {
    Operand::Value(made(insertion))
}

fn ints(list: &[i64]) -> Operand {
    Operand::Literal(Literal::Ints(list.to_vec()))
}

fn replace(value: u32, by: ValueRef) -> Edit {
    Edit::ReplaceAllUses(Replacement { value, by })
}

/// The edits of an attack; `None` when it is not one of edits.
pub fn of(attack: &str, site: &Site<'_>) -> Option<Result<Vec<Edit>, NoRewrite>> {
    let anchor = site.anchor();
    let id = anchor.id();
    let (Ok(output), Some(input)) = (anchor.output(0).map(|value| value.id()), first_input(site)) else {
        return Some(Err(NoRewrite::decline("asked", "the place has no input or no output")));
    };
    let relu = |value: u32| insert("aten.relu.default", [("self", existing(value))]);
    let edits = match attack {
        "cycle" => {
            vec![relu(output), Edit::SetInput(InputChange { node: id, input: "self".to_owned(), operand: created(0) })]
        }
        "self-loop" => {
            vec![Edit::SetInput(InputChange { node: id, input: "self".to_owned(), operand: existing(output) })]
        }
        "deleted-producer" => vec![Edit::Delete(1)],
        "deleted-anchor" => vec![Edit::Delete(id)],
        "deleted-twice" => vec![relu(input), replace(output, made(0)), Edit::Delete(id), Edit::Delete(id)],
        "unknown-node" => vec![Edit::Delete(4_000_000_000)],
        "unknown-value" => vec![replace(output, ValueRef::Existing(u32::MAX))],
        "unknown-insert" => vec![replace(output, made(7))],
        "unknown-output" => {
            let by = ValueRef::Created(CreatedRef { insertion: 0, output: 9 });
            vec![relu(input), replace(output, by)]
        }
        "forward-reference" => {
            vec![insert("aten.relu.default", [("self", created(1))]), relu(input), replace(output, made(0))]
        }
        "use-that-is-not" => vec![Edit::ReplaceUse(UseReplacement {
            use_site: UseSite { value: output, consumer: id, input: 77 },
            by: ValueRef::Existing(input),
        })],
        "replaced-twice" => vec![relu(input), replace(output, made(0)), replace(output, ValueRef::Existing(input))],
        "replaced-by-itself" => vec![replace(output, ValueRef::Existing(output))],
        "other-dtype" => {
            let half = Operand::Literal(Literal::Dtype(ScalarType::Float16));
            vec![insert("aten.to.dtype", [("self", existing(input)), ("dtype", half)]), replace(output, made(0))]
        }
        "other-shape" => vec![
            insert("aten.reshape.default", [("self", existing(input)), ("shape", ints(&[-1]))]),
            replace(output, made(0)),
        ],
        "other-order-in-memory" => vec![
            insert("aten.permute.default", [("self", existing(input)), ("dims", ints(&[0, 1, 3, 2]))]),
            replace(output, made(0)),
        ],
        "false-belief" => {
            let expect = vec![TensorMeta {
                dtype: ScalarType::Int64,
                sizes: Vec::new(),
                strides: Vec::new(),
                device: "cuda:0".to_owned(),
            }];
            let inputs = vec![NamedOperand { name: "self".to_owned(), operand: existing(input) }];
            vec![Edit::Insert(NewNode { op: "aten.relu.default".to_owned(), inputs, expect }), replace(output, made(0))]
        }
        "swapped-outputs" => {
            let Ok(other) = anchor.output(1).map(|value| value.id()) else { return Some(Ok(Vec::new())) };
            vec![replace(output, ValueRef::Existing(other)), replace(other, ValueRef::Existing(output))]
        }
        "answer-is-the-input" | "needed-copy" | "outputs-made-one" => {
            vec![replace(output, ValueRef::Existing(input)), Edit::Delete(id)]
        }
        "answer-shares-the-input" => {
            vec![insert("aten.alias.default", [("self", existing(input))]), replace(output, made(0)), Edit::Delete(id)]
        }
        "deleted-write" => vec![Edit::Delete(id)],
        "changed-write" => {
            vec![Edit::SetInput(InputChange { node: id, input: "self".to_owned(), operand: existing(output) })]
        }
        "read-at-another-time" => {
            let stranger = site
                .nodes()
                .flat_map(|node| node.output(0))
                .find(|value| value.is_mutated() && value.id() != input && value.id() != output);
            let Some(stranger) = stranger else { return Some(Ok(Vec::new())) };
            vec![relu(stranger.id()), replace(output, made(0))]
        }
        "unknown-op" => vec![insert("aten.frobnicate.default", [("self", existing(input))])],
        "python-op" => vec![insert("builtins.eval", [("self", existing(input))])],
        "control-flow" => vec![insert("higher_order.cond", [("self", existing(input))])],
        "op-with-escapes" => vec![insert("aten.\u{1b}[2J", [("self", existing(input))])],
        "op-that-writes" => vec![insert("aten.relu_.default", [("self", existing(input))])],
        "op-with-out" => vec![insert("aten.relu.out", [("self", existing(input)), ("out", existing(input))])],
        "op-that-draws" => vec![insert("aten.rand_like.default", [("self", existing(input))])],
        "missing-argument" => vec![insert("aten.softmax.int", [("self", existing(input))])],
        "unknown-argument" => vec![insert("aten.relu.default", [("self", existing(input)), ("file", ints(&[1]))])],
        "argument-twice" => {
            vec![insert("aten.relu.default", [("self", existing(input)), ("self", existing(input))])]
        }
        "argument-of-other-type" => {
            let dim = Operand::Literal(Literal::Text("__import__('os')".to_owned()));
            vec![insert("aten.softmax.int", [("self", existing(input)), ("dim", dim)])]
        }
        "argument-with-json" => {
            let dim = Operand::Literal(Literal::Other("{\"as_int\": 1}".to_owned()));
            vec![insert("aten.softmax.int", [("self", existing(input)), ("dim", dim)])]
        }
        "axis-out-of-range" => {
            let dim = Operand::Literal(Literal::Int(i64::MIN));
            vec![insert("aten.softmax.int", [("self", existing(input)), ("dim", dim)])]
        }
        "absurd-sizes" => {
            let size = ints(&[i64::MAX, i64::MAX]);
            let value = Operand::Literal(Literal::Float(0.0));
            vec![insert("aten.full.default", [("size", size), ("fill_value", value)])]
        }
        "absurd-padding" => {
            let pad = ints(&[i64::MAX, i64::MAX]);
            let value = Operand::Literal(Literal::Float(0.0));
            vec![insert("aten.constant_pad_nd.default", [("self", existing(input)), ("pad", pad), ("value", value)])]
        }
        "absurd-window" => vec![insert(
            "aten.avg_pool2d.default",
            [("self", existing(input)), ("kernel_size", ints(&[0, i64::MAX])), ("stride", ints(&[0, i64::MIN]))],
        )],
        "no-edit" => Vec::new(),
        "dead-inserts" => vec![relu(input); 64],
        "many-inserts" => vec![relu(input); 65],
        "many-edits" => vec![Edit::Delete(0); 257],
        "long-list" => vec![insert(
            "aten.reshape.default",
            [("self", existing(input)), ("shape", Operand::Literal(Literal::Ints(vec![1; 5_000])))],
        )],
        "fold-of-activation" => vec![Edit::Fold(ValueRef::Existing(input))],
        "fold-of-written-buffer" => {
            let buffer = site.data().values.iter().find(|value| value.is_mutated).map(|value| value.id);
            let Some(buffer) = buffer else { return Some(Ok(Vec::new())) };
            vec![relu(buffer), Edit::Fold(made(0)), replace(output, made(0))]
        }
        "fold-bomb" => {
            // Thirty tensors of a gibibyte each, computed by the host.
            let mut edits = Vec::new();
            for _ in 0..30 {
                edits.push(full(&[16_384, 16_384]));
                let insertion = u32::try_from(edits.iter().filter(|edit| matches!(edit, Edit::Insert(_))).count());
                edits.push(Edit::Fold(made(insertion.unwrap_or(1) - 1)));
            }
            edits.push(insert("aten.relu.default", [("self", existing(input))]));
            edits.push(replace(output, made(30)));
            edits
        }
        "fold-that-never-ends" => {
            // A long chain of products of matrices whose only use is one folded number.
            let mut edits = vec![full(&[4_096, 4_096])];
            for insertion in 0..60 {
                edits.push(insert("aten.mm.default", [("self", created(insertion)), ("mat2", created(insertion))]));
            }
            edits.push(insert("aten.mean.default", [("self", created(60))]));
            edits.push(Edit::Fold(made(61)));
            edits.push(insert("aten.mul.Tensor", [("self", existing(input)), ("other", created(61))]));
            edits.push(replace(output, made(62)));
            edits
        }
        "huge-value" => {
            let sizes = ints(&[1 << 31, -1, -1, -1, -1]);
            vec![
                insert(
                    "aten.unsqueeze.default",
                    [("self", existing(input)), ("dim", Operand::Literal(Literal::Int(0)))],
                ),
                insert("aten.expand.default", [("self", created(0)), ("size", sizes)]),
                insert("aten.relu.default", [("self", created(1))]),
                insert(
                    "aten.select.int",
                    [
                        ("self", created(2)),
                        ("dim", Operand::Literal(Literal::Int(0))),
                        ("index", Operand::Literal(Literal::Int(0))),
                    ],
                ),
                insert("aten.contiguous.default", [("self", created(3))]),
                replace(output, made(4)),
            ]
        }
        _ => return None,
    };
    Some(Ok(edits))
}

fn full(size: &[i64]) -> Edit {
    insert("aten.full.default", [("size", ints(size)), ("fill_value", Operand::Literal(Literal::Float(1.0)))])
}

fn first_input(site: &Site<'_>) -> Option<u32> {
    let data = site.anchor().data();
    data.inputs.iter().find_map(|input| match input.argument {
        rule_sdk::contract::Argument::Value(value) => Some(value),
        _ => None,
    })
}
