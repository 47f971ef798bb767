//! Values that a rule wants computed once: what to compute, and who computes it.

use std::collections::HashMap;

use super::{Operand, Proposal, Step, ValueRef};
use crate::graph::{Argument, Graph, Literal, Program, SymIntArgument, TensorMeta, ValueId, ValueSource, schema};
use crate::interpreter::{self, Array, Delegate, Item, Precision};
use crate::tensor::Tensor;

/// Elements that all calls of a request may make, unless the stored tensors they begin with are large.
const MOST_ELEMENTS: usize = 1 << 24;
/// How many times the largest stored tensor all calls of a request may make.
const MOST_TIMES_LARGEST: usize = 8;
/// Element operations that all calls of a request may take.
const MOST_OPERATIONS: f64 = 2e10;

/// A computation that depends on stored tensors only.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldRequest {
    /// calls in order
    pub nodes: Vec<FoldNode>,
    /// the wanted value
    pub result: FoldValue,
    /// what it must look like
    pub meta: TensorMeta,
}

/// One call of a [`FoldRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct FoldNode {
    /// full overload name
    pub op: String,
    /// in schema order
    pub inputs: Vec<(String, FoldOperand)>,
    /// what it gives
    pub outputs: Vec<TensorMeta>,
}

/// A value within a [`FoldRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldValue {
    /// a parameter, buffer or constant of the program, see [`Program::payload`]
    Stored(ValueId),
    /// made by an earlier call
    Computed {
        /// which call
        node: usize,
        /// which of its outputs
        output: usize,
    },
}

/// An argument within a [`FoldRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum FoldOperand {
    /// no value in it
    Literal(Literal),
    /// one value
    Value(FoldValue),
    /// a list of values
    Values(Vec<FoldValue>),
    /// a list with holes
    OptionalValues(Vec<Option<FoldValue>>),
}

/// Why a value was not computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("A value that {rule} wants to fold cannot be computed: {reason}")]
pub struct FoldError {
    /// the rule: `dd-001@1.2.0`
    pub rule: String,
    /// which call and why
    pub reason: String,
}

/// Computes folded values.
pub trait Evaluator {
    /// The wanted value of a request.
    ///
    /// # Errors
    /// Which call cannot be computed, and why.
    fn evaluate(&mut self, program: &Program, request: &FoldRequest) -> Result<Tensor, String>;
}

/// The reference interpreter, with a delegate (torch) for what it lacks.
#[derive(Clone, Copy, Default)]
pub struct ReferenceEvaluator<'a> {
    /// evaluates operators that the interpreter lacks
    pub delegate: Option<&'a dyn Delegate>,
}

impl std::fmt::Debug for ReferenceEvaluator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReferenceEvaluator").field("delegate", &self.delegate.is_some()).finish()
    }
}

impl Evaluator for ReferenceEvaluator<'_> {
    fn evaluate(&mut self, program: &Program, request: &FoldRequest) -> Result<Tensor, String> {
        let mut computed: Vec<Vec<Array>> = Vec::new();
        let mut stored: HashMap<ValueId, Array> = HashMap::new();
        let (mut made, mut operations) = (0_usize, 0.0);
        for node in &request.nodes {
            if crate::interrupt::requested() {
                return Err("interrupted".to_owned());
            }
            let mut arguments = Vec::new();
            for (name, operand) in &node.inputs {
                let mut find = |value: &FoldValue| find(program, *value, &computed, &mut stored);
                let item = match operand {
                    FoldOperand::Literal(literal) => Item::Literal(literal.clone()),
                    FoldOperand::Value(value) => Item::Tensor(find(value)?),
                    FoldOperand::Values(values) => {
                        Item::Tensors(values.iter().map(&mut find).collect::<Result<_, _>>()?)
                    }
                    FoldOperand::OptionalValues(values) => Item::OptionalTensors(
                        values
                            .iter()
                            .map(|value| value.as_ref().map(&mut find).transpose())
                            .collect::<Result<_, _>>()?,
                    ),
                };
                arguments.push((name.clone(), item));
            }
            let outputs = node.outputs.iter().map(|meta| elements(meta).unwrap_or(usize::MAX));
            let outputs = outputs.fold(0, usize::saturating_add);
            made = made.saturating_add(outputs);
            let largest = stored.values().map(|array| array.sizes().iter().product::<usize>()).max().unwrap_or(0);
            let most = largest.saturating_mul(MOST_TIMES_LARGEST).max(MOST_ELEMENTS);
            if made > most {
                return Err(format!("it would make {made} numbers or more on the way, and {most} are allowed"));
            }
            operations += cost(&node.op, &arguments, outputs);
            if operations > MOST_OPERATIONS {
                return Err(format!(
                    "it would take about {operations:.1e} operations or more, and {MOST_OPERATIONS:.1e} are allowed"
                ));
            }
            computed.push(self.call(&node.op, &arguments)?);
        }
        let tensor = find(program, request.result, &computed, &mut stored)?.to_tensor();
        let wanted: Option<Vec<usize>> =
            request.meta.fixed_sizes().and_then(|sizes| sizes.into_iter().map(|n| usize::try_from(n).ok()).collect());
        if tensor.dtype != request.meta.dtype || Some(&tensor.sizes) != wanted.as_ref() {
            return Err(format!(
                "the result is {} {:?}, and {} {:?} was expected",
                tensor.dtype.torch_name(),
                tensor.sizes,
                request.meta.dtype.torch_name(),
                wanted.unwrap_or_default()
            ));
        }
        Ok(tensor)
    }
}

/// Elements of a tensor; `None` when a size varies or there are too many to count.
pub(super) fn elements(meta: &TensorMeta) -> Option<usize> {
    meta.sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(usize::try_from(size.fixed()?).ok()?))
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn cost(op: &str, arguments: &[(String, Item)], made: usize) -> f64 {
    let tensors = |item: &Item| match item {
        Item::Tensor(one) => vec![one.sizes().to_vec()],
        Item::Tensors(all) => all.iter().map(|one| one.sizes().to_vec()).collect(),
        Item::OptionalTensors(all) => all.iter().flatten().map(|one| one.sizes().to_vec()).collect(),
        Item::Literal(_) | Item::Int(_) | Item::Ints(_) => Vec::new(),
    };
    let find = |name: &str| arguments.iter().find(|(argument, _)| argument == name).map(|(_, item)| item);
    let kernel = match find("kernel_size") {
        Some(Item::Literal(Literal::Ints(kernel))) => Some(kernel.as_slice()),
        _ => None,
    };
    let read = arguments
        .iter()
        .flat_map(|(_, item)| tensors(item))
        .map(|sizes| sizes.iter().map(|&size| size as f64).product::<f64>())
        .sum();
    let sizes_of = |name: &str| find(name).and_then(|item| tensors(item).into_iter().next());
    interpreter::effort(&interpreter::Work { op, sizes_of: &sizes_of, kernel, read, made: made as f64 })
}

impl ReferenceEvaluator<'_> {
    fn call(&self, op: &str, arguments: &[(String, Item)]) -> Result<Vec<Array>, String> {
        if !interpreter::supports(op)
            && let Some(delegate) = self.delegate
        {
            return delegate
                .evaluate(op, arguments, Precision::Torch)?
                .iter()
                .map(|tensor| {
                    Array::from_tensor(tensor, Precision::Torch).ok_or_else(|| format!("`{op}` gives complex numbers"))
                })
                .collect();
        }
        interpreter::evaluate(op, arguments, Precision::Torch, interpreter::DEFAULT_LIMIT)
            .map_err(|error| error.to_string())
    }
}

fn find(
    program: &Program,
    value: FoldValue,
    computed: &[Vec<Array>],
    stored: &mut HashMap<ValueId, Array>,
) -> Result<Array, String> {
    match value {
        FoldValue::Computed { node, output } => computed
            .get(node)
            .and_then(|outputs| outputs.get(output))
            .cloned()
            .ok_or_else(|| format!("call {node} gave no output {output}")),
        FoldValue::Stored(id) => {
            if let Some(array) = stored.get(&id) {
                return Ok(array.clone());
            }
            let tensor = program
                .payload(id)
                .map_err(|error| error.to_string())?
                .ok_or_else(|| format!("value {id} is not stored in the program"))?;
            let array = Array::from_tensor(&tensor, Precision::Torch)
                .ok_or_else(|| format!("value {id} has complex numbers"))?;
            stored.insert(id, array.clone());
            Ok(array)
        }
    }
}

/// What has to be computed for a value of a proposal (or of the graph).
pub(super) fn request(
    program: &Program,
    proposal: &Proposal,
    value: ValueRef,
    meta: &TensorMeta,
) -> Result<FoldRequest, String> {
    let inserts: Vec<Insert<'_>> = proposal
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Insert { op, inputs, outputs } => Some(Insert { op, inputs, outputs }),
            _ => None,
        })
        .collect();
    let mut builder =
        Builder { graph: program.graph(), inserts, nodes: Vec::new(), created: HashMap::new(), made: HashMap::new() };
    let result = builder.value(value)?;
    Ok(FoldRequest { nodes: builder.nodes, result, meta: meta.clone() })
}

/// A node that the proposal inserts.
#[derive(Clone, Copy)]
struct Insert<'a> {
    op: &'a str,
    inputs: &'a [(String, Operand)],
    outputs: &'a [TensorMeta],
}

struct Builder<'a> {
    graph: &'a Graph,
    inserts: Vec<Insert<'a>>,
    nodes: Vec<FoldNode>,
    /// insert of the proposal → call
    created: HashMap<usize, usize>,
    /// node of the graph → call
    made: HashMap<crate::graph::NodeId, usize>,
}

impl Builder<'_> {
    /// The depth of a chain of constants is bounded by the graph; what a rule inserts by its caps.
    fn value(&mut self, value: ValueRef) -> Result<FoldValue, String> {
        match value {
            ValueRef::Existing(id) => self.existing(id),
            ValueRef::Created { insertion, output } => {
                if let Some(&node) = self.created.get(&insertion) {
                    return Ok(FoldValue::Computed { node, output });
                }
                let Some(&Insert { op, inputs, outputs }) = self.inserts.get(insertion) else {
                    return Err(format!("insert {insertion} does not exist"));
                };
                let mut operands = Vec::new();
                for (name, operand) in inputs {
                    operands.push((name.clone(), self.operand(operand)?));
                }
                let node = self.push(op.to_owned(), operands, outputs.to_vec());
                self.created.insert(insertion, node);
                Ok(FoldValue::Computed { node, output })
            }
        }
    }

    fn push(&mut self, op: String, inputs: Vec<(String, FoldOperand)>, outputs: Vec<TensorMeta>) -> usize {
        self.nodes.push(FoldNode { op, inputs, outputs });
        self.nodes.len() - 1
    }

    fn operand(&mut self, operand: &Operand) -> Result<FoldOperand, String> {
        Ok(match operand {
            Operand::Literal(literal) => FoldOperand::Literal(literal.clone()),
            Operand::Value(value) => FoldOperand::Value(self.value(*value)?),
            Operand::Values(values) => {
                FoldOperand::Values(values.iter().map(|value| self.value(*value)).collect::<Result<_, _>>()?)
            }
            Operand::OptionalValues(values) => FoldOperand::OptionalValues(
                values
                    .iter()
                    .map(|value| value.map(|value| self.value(value)).transpose())
                    .collect::<Result<_, _>>()?,
            ),
        })
    }

    /// Walks the graph upwards without recursion: chains of constants can be long.
    fn existing(&mut self, wanted: ValueId) -> Result<FoldValue, String> {
        let mut open = vec![wanted];
        while let Some(&id) = open.last() {
            let Some(producer) = self.graph.producer(id) else {
                open.pop();
                continue;
            };
            if self.made.contains_key(&producer.id) {
                open.pop();
                continue;
            }
            let missing: Vec<ValueId> = producer
                .input_values()
                .filter(|value| self.graph.producer(*value).is_some_and(|node| !self.made.contains_key(&node.id)))
                .collect();
            if !missing.is_empty() {
                open.extend(missing);
                continue;
            }
            let inputs = schema::complete(producer).unwrap_or_else(|| producer.inputs.clone());
            let mut operands = Vec::new();
            for input in &inputs {
                let operand = match &input.arg {
                    Argument::Literal(literal) => FoldOperand::Literal(literal.clone()),
                    Argument::Value(value) => FoldOperand::Value(self.known(*value)?),
                    Argument::Values(values) => {
                        FoldOperand::Values(values.iter().map(|value| self.known(*value)).collect::<Result<_, _>>()?)
                    }
                    Argument::OptionalValues(values) => FoldOperand::OptionalValues(
                        values
                            .iter()
                            .map(|value| value.map(|value| self.known(value)).transpose())
                            .collect::<Result<_, _>>()?,
                    ),
                    Argument::SymInts(items) => {
                        let fixed: Option<Vec<i64>> = items
                            .iter()
                            .map(|item| if let SymIntArgument::Fixed(n) = item { Some(*n) } else { None })
                            .collect();
                        FoldOperand::Literal(Literal::Ints(
                            fixed.ok_or_else(|| format!("a size of `{}` varies", producer.name))?,
                        ))
                    }
                    Argument::Opaque { .. } => return Err(format!("`{}` is not understood", producer.name)),
                };
                operands.push((input.name.clone(), operand));
            }
            let outputs = producer.output_values().filter_map(|value| self.graph.tensor(value).cloned()).collect();
            let node = self.push(producer.op.clone(), operands, outputs);
            self.made.insert(producer.id, node);
        }
        self.known(wanted)
    }

    fn known(&self, value: ValueId) -> Result<FoldValue, String> {
        match self.graph.value(value).map(|value| &value.source) {
            Some(ValueSource::Node { node, output }) => {
                let made = self.made.get(node).ok_or_else(|| format!("value {value} is not computed yet"))?;
                Ok(FoldValue::Computed { node: *made, output: *output })
            }
            Some(ValueSource::Parameter(_) | ValueSource::Buffer { .. } | ValueSource::Constant(_)) => {
                Ok(FoldValue::Stored(value))
            }
            _ => Err(format!("value {value} is not constant")),
        }
    }
}
