//! Values that a rule wants computed once: what to compute, and who computes it.

use std::collections::HashMap;

use super::{Operand, Proposal, Step, ValueRef};
use crate::graph::{Argument, Graph, Literal, Program, SymIntArgument, TensorMeta, ValueId, ValueSource, schema};
use crate::interpreter::{self, Array, Delegate, Item, Precision};
use crate::tensor::Tensor;

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
        for node in &request.nodes {
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
    let inserts: Vec<&Vec<(String, Operand)>> = proposal
        .steps
        .iter()
        .filter_map(|step| if let Step::Insert { inputs, .. } = step { Some(inputs) } else { None })
        .collect();
    let ops: Vec<&String> = proposal
        .steps
        .iter()
        .filter_map(|step| if let Step::Insert { op, .. } = step { Some(op) } else { None })
        .collect();
    let mut builder = Builder {
        graph: program.graph(),
        inserts,
        ops,
        nodes: Vec::new(),
        created: HashMap::new(),
        made: HashMap::new(),
    };
    let result = builder.value(value)?;
    Ok(FoldRequest { nodes: builder.nodes, result, meta: meta.clone() })
}

struct Builder<'a> {
    graph: &'a Graph,
    inserts: Vec<&'a Vec<(String, Operand)>>,
    ops: Vec<&'a String>,
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
                let (Some(&inputs), Some(&op)) = (self.inserts.get(insertion), self.ops.get(insertion)) else {
                    return Err(format!("insert {insertion} does not exist"));
                };
                let mut operands = Vec::new();
                for (name, operand) in inputs {
                    operands.push((name.clone(), self.operand(operand)?));
                }
                let node = self.push(op.clone(), operands);
                self.created.insert(insertion, node);
                Ok(FoldValue::Computed { node, output })
            }
        }
    }

    fn push(&mut self, op: String, inputs: Vec<(String, FoldOperand)>) -> usize {
        self.nodes.push(FoldNode { op, inputs });
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
            let node = self.push(producer.op.clone(), operands);
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
