//! Evaluates a list of nodes over an environment of values.

use std::collections::{HashMap, HashSet};

use super::arguments::Item;
use super::array::Array;
use super::{Error, Precision, evaluate, supports};
use crate::graph::{Argument, Literal, Node, NodeOutput, SymIntArgument, ValueId};
use crate::interrupt;
use crate::tensor::Tensor;

/// What values are known.
pub type Environment = HashMap<ValueId, Item>;

/// Evaluates operations that the table does not name, e.g. in torch.
///
/// Tensors of float types come in doubles when the judge asks.
pub trait Delegate: Sync {
    /// Evaluates one call.
    ///
    /// # Errors
    /// In the delegate's own words.
    fn evaluate(&self, op: &str, args: &[(String, Item)], precision: Precision) -> Result<Vec<Tensor>, String>;
}

/// What evaluating nodes gave.
#[derive(Debug, Default)]
pub struct Run {
    /// values that were given and values that were made
    pub values: Environment,
    /// operations that a delegate evaluated, sorted
    pub delegated: Vec<String>,
    /// given values that an in-place operation wrote into; [`Run::values`] has the new content
    pub mutated: Vec<ValueId>,
}

/// Operations whose result shares storage with their first argument.
const VIEWS: &[&str] = &[
    "view",
    "_unsafe_view",
    "reshape",
    "flatten",
    "unflatten",
    "permute",
    "transpose",
    "t",
    "unsqueeze",
    "squeeze",
    "expand",
    "broadcast_to",
    "expand_as",
    "slice",
    "narrow",
    "select",
    "split",
    "split_with_sizes",
    "chunk",
    "unbind",
    "alias",
    "detach",
    "contiguous",
    "to",
    "dropout",
    "feature_dropout",
    "type_as",
];

/// The functional spelling of an in-place one: `aten.relu_.default` is `aten.relu.default`.
pub fn in_place_base(op: &str) -> Option<String> {
    let mut parts = op.splitn(3, '.');
    let (namespace, name, overload) = (parts.next()?, parts.next()?, parts.next()?);
    let base = name.strip_suffix('_').filter(|base| !base.is_empty() && !base.ends_with('_'))?;
    Some(format!("{namespace}.{base}.{overload}"))
}

fn is_view(op: &str) -> bool {
    op.split('.').nth(1).is_some_and(|name| VIEWS.contains(&name))
}

/// Storage that values share: which group a value belongs to.
#[derive(Default)]
struct Sharing {
    group: HashMap<ValueId, usize>,
    groups: usize,
}

impl Sharing {
    fn of(&mut self, value: ValueId) -> usize {
        let fresh = self.groups;
        let group = *self.group.entry(value).or_insert(fresh);
        if group == fresh {
            self.groups += 1;
        }
        group
    }
}

/// Evaluates `nodes` in order. `wanted` are the values the caller will read.
///
/// In-place operations change the content of the value they write into from there on. What they do to
/// another name of the same storage is not followed: when such a name is read later, or wanted, that is
/// [`Error::Unsupported`].
///
/// # Errors
/// See [`Error`].
pub fn run(
    nodes: &[&Node],
    given: Environment,
    wanted: &[ValueId],
    precision: Precision,
    limit: usize,
    delegate: Option<&dyn Delegate>,
) -> Result<Run, Error> {
    let inputs: HashSet<ValueId> = given.keys().copied().collect();
    let mut run = Run { values: given, ..Run::default() };
    let mut sharing = Sharing::default();
    let mut delegated = HashSet::new();
    for (position, node) in nodes.iter().enumerate() {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let args = arguments(node, &run.values)?;
        if let Some(size) = symbolic(node, &args)? {
            if let Some(NodeOutput::Value(value)) = node.outputs.first() {
                run.values.insert(*value, Item::Int(size));
            }
            continue;
        }
        let results = if supports(&node.op) || delegate.is_none() {
            evaluate(&node.op, &args, precision, limit)?
        } else {
            delegated.insert(node.op.clone());
            hand_over(node, &args, precision, delegate)?
        };
        let target = match node.inputs.first().map(|input| &input.arg) {
            Some(Argument::Value(value)) => Some(*value),
            _ => None,
        };
        if let (Some(_), Some(target), Some(result)) = (in_place_base(&node.op), target, results.first()) {
            let group = sharing.of(target);
            let later = nodes.get(position + 1..).unwrap_or_default();
            let read_later = |value: &ValueId| {
                wanted.contains(value) || later.iter().any(|node| node.input_values().any(|read| read == *value))
            };
            let stale = sharing.group.iter().any(|(value, g)| *g == group && *value != target && read_later(value));
            if stale {
                return Err(Error::Unsupported { op: format!("{} (through another name of the storage)", node.op) });
            }
            run.values.insert(target, Item::Tensor(result.clone()));
            if inputs.contains(&target) && !run.mutated.contains(&target) {
                run.mutated.push(target);
            }
        }
        bind(node, results, &mut run.values)?;
        if let Some(target) = target.filter(|_| is_view(&node.op) || in_place_base(&node.op).is_some()) {
            let group = sharing.of(target);
            for value in node.output_values() {
                sharing.group.insert(value, group);
            }
        }
    }
    run.delegated = delegated.into_iter().collect();
    run.delegated.sort_unstable();
    Ok(run)
}

fn missing(node: &Node, value: ValueId) -> Error {
    Error::MissingValue { op: node.op.clone(), value: value.to_string() }
}

/// The arguments with their values filled in.
fn arguments(node: &Node, values: &Environment) -> Result<Vec<(String, Item)>, Error> {
    let tensor = |value: &ValueId| match values.get(value) {
        Some(Item::Tensor(array)) => Ok(array.clone()),
        _ => Err(missing(node, *value)),
    };
    let mut args = Vec::with_capacity(node.inputs.len());
    for input in &node.inputs {
        let item = match &input.arg {
            Argument::Literal(literal) => Item::Literal(literal.clone()),
            Argument::Value(value) => values.get(value).cloned().ok_or_else(|| missing(node, *value))?,
            Argument::Values(list) => Item::Tensors(list.iter().map(tensor).collect::<Result<_, _>>()?),
            Argument::OptionalValues(list) => Item::OptionalTensors(
                list.iter().map(|slot| slot.as_ref().map(tensor).transpose()).collect::<Result<_, _>>()?,
            ),
            Argument::SymInts(list) => {
                let number = |item: &SymIntArgument| match item {
                    SymIntArgument::Fixed(n) => Ok(*n),
                    SymIntArgument::Value(value) => match values.get(value) {
                        Some(Item::Int(n)) => Ok(*n),
                        _ => Err(missing(node, *value)),
                    },
                };
                Item::Ints(list.iter().map(number).collect::<Result<_, _>>()?)
            }
            Argument::Opaque { .. } => return Err(Error::Unsupported { op: node.op.clone() }),
        };
        args.push((input.name.clone(), item));
    }
    Ok(args)
}

/// The result of an operation on symbolic sizes; `None` for every other operation.
fn symbolic(node: &Node, args: &[(String, Item)]) -> Result<Option<i64>, Error> {
    let number = |index: usize| match args.get(index) {
        Some((_, Item::Int(n) | Item::Literal(Literal::Int(n)))) => Some(*n),
        _ => None,
    };
    if node.op == "aten.sym_size.int" {
        let size = match (args.first(), number(1)) {
            (Some((_, Item::Tensor(array))), Some(dim)) => {
                let rank = i64::try_from(array.rank()).unwrap_or(i64::MAX);
                let index = usize::try_from(if dim < 0 { dim + rank } else { dim }).ok();
                index.and_then(|index| array.sizes().get(index)).and_then(|&size| i64::try_from(size).ok())
            }
            _ => None,
        };
        return match size {
            Some(size) => Ok(Some(size)),
            None => Err(Error::Shape { op: node.op.clone(), reason: "the dimension does not exist".to_owned() }),
        };
    }
    let Some(name) = node.op.strip_prefix("_operator.") else { return Ok(None) };
    let unsupported = || Error::Unsupported { op: node.op.clone() };
    let a = number(0).ok_or_else(unsupported)?;
    if name == "neg" {
        return Ok(Some(a.wrapping_neg()));
    }
    let b = number(1).ok_or_else(unsupported)?;
    let result = match name {
        "add" => a.checked_add(b),
        "sub" => a.checked_sub(b),
        "mul" => a.checked_mul(b),
        "floordiv" => {
            a.checked_div_euclid(b).map(|q| if b < 0 && a.checked_rem_euclid(b) != Some(0) { q - 1 } else { q })
        }
        "mod" => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
        _ => return Err(unsupported()),
    };
    result.map(Some).ok_or_else(|| Error::Shape { op: node.op.clone(), reason: "the result overflows".to_owned() })
}

fn hand_over(
    node: &Node,
    args: &[(String, Item)],
    precision: Precision,
    delegate: Option<&dyn Delegate>,
) -> Result<Vec<Array>, Error> {
    let failed = |reason: String| Error::Delegate { op: node.op.clone(), reason };
    let delegate = delegate.ok_or_else(|| Error::Unsupported { op: node.op.clone() })?;
    let tensors = delegate.evaluate(&node.op, args, precision).map_err(failed)?;
    tensors
        .iter()
        .map(|tensor| {
            Array::from_tensor(tensor, precision)
                .ok_or_else(|| failed(format!("element type `{}` cannot be used here", tensor.dtype.torch_name())))
        })
        .collect()
}

/// Gives the results their names. Results beyond the named outputs are dropped, missing ones are an
/// error.
fn bind(node: &Node, results: Vec<Array>, values: &mut Environment) -> Result<(), Error> {
    let mut results = results.into_iter();
    for value in node.output_values() {
        let result = results.next().ok_or_else(|| Error::Shape {
            op: node.op.clone(),
            reason: format!("it gives fewer results than the graph names (`{value}`)"),
        })?;
        values.insert(value, Item::Tensor(result));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Scalar;
    use super::*;
    use crate::graph::{NodeId, NodeInput, ScalarType};

    fn node(op: &str, reads: &[u32], makes: u32) -> Node {
        Node {
            id: NodeId(makes),
            name: format!("n{makes}"),
            op: op.to_owned(),
            inputs: reads
                .iter()
                .zip(["self", "other"])
                .map(|(&id, name)| NodeInput {
                    name: name.to_owned(),
                    arg: Argument::Value(ValueId(id)),
                    keyword: false,
                })
                .collect(),
            outputs: vec![NodeOutput::Value(ValueId(makes))],
            metadata: std::sync::Arc::default(),
            extra: std::sync::Arc::default(),
        }
    }

    fn given(value: f64) -> Environment {
        let array = Array::filled(&[2], Scalar::Float(value), ScalarType::Float32, Precision::Torch);
        Environment::from([(ValueId(0), Item::Tensor(array))])
    }

    fn values(run: &Run, id: u32) -> Vec<f64> {
        match run.values.get(&ValueId(id)) {
            Some(Item::Tensor(array)) => array.to_tensor().to_f64().expect("real"),
            other => panic!("{other:?}"),
        }
    }

    fn evaluated(nodes: &[Node], wanted: u32) -> Result<Run, Error> {
        let nodes: Vec<&Node> = nodes.iter().collect();
        run(&nodes, given(-1.0), &[ValueId(wanted)], Precision::Torch, 100, None)
    }

    #[test]
    fn an_in_place_operation_changes_what_later_nodes_read() {
        let nodes = [node("aten.relu_.default", &[0], 1), node("aten.add.Tensor", &[0, 1], 2)];
        let run = evaluated(&nodes, 2).expect("evaluated");
        assert_eq!(values(&run, 2), [0.0, 0.0]);
        assert_eq!(run.mutated, [ValueId(0)]);
    }

    #[test]
    fn a_write_through_another_name_is_refused() {
        let nodes = [
            node("aten.alias.default", &[0], 1),
            node("aten.relu_.default", &[1], 2),
            node("aten.add.Tensor", &[0, 2], 3),
        ];
        let error = evaluated(&nodes, 3).expect_err("two names of one storage").to_string();
        assert!(error.contains("another name"), "{error}");
    }

    #[test]
    fn an_operation_that_nobody_knows_is_named() {
        let error = evaluated(&[node("aten.mystery.default", &[0], 1)], 1).expect_err("unknown").to_string();
        assert_eq!(error, "The reference interpreter has no `aten.mystery.default`");
    }

    #[test]
    fn a_value_that_was_not_given_is_named() {
        let error = evaluated(&[node("aten.relu.default", &[7], 1)], 1).expect_err("missing").to_string();
        assert!(error.contains("v7"), "{error}");
    }

    #[test]
    fn only_single_underscores_mark_in_place_operations() {
        assert_eq!(in_place_base("aten.add_.Tensor").as_deref(), Some("aten.add.Tensor"));
        assert_eq!(in_place_base("aten.__and__.Tensor"), None);
        assert_eq!(in_place_base("aten.add.Tensor"), None);
        assert_eq!(in_place_base("aten._softmax.default"), None);
    }
}
