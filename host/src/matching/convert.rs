//! The graph's words in those of the rule contract, and back.

use rustc_hash::FxHashMap;

use crate::graph::{
    Argument, Dim, Graph, Literal, MemoryFormat, Node, NodeId, NodeInput, ScalarType, SymIntArgument, Symbol,
    TensorMeta, Value, ValueId, ValueKind, ValueSource,
};
use crate::sandbox::contract;

/// Element types by name.
const SCALAR_TYPES: [(ScalarType, contract::ScalarType); 12] = [
    (ScalarType::UInt8, contract::ScalarType::Uint8),
    (ScalarType::Int8, contract::ScalarType::Int8),
    (ScalarType::Int16, contract::ScalarType::Int16),
    (ScalarType::Int32, contract::ScalarType::Int32),
    (ScalarType::Int64, contract::ScalarType::Int64),
    (ScalarType::Float16, contract::ScalarType::Float16),
    (ScalarType::BFloat16, contract::ScalarType::Bfloat16),
    (ScalarType::Float32, contract::ScalarType::Float32),
    (ScalarType::Float64, contract::ScalarType::Float64),
    (ScalarType::Bool, contract::ScalarType::Boolean),
    (ScalarType::Complex64, contract::ScalarType::Complex64),
    (ScalarType::Complex128, contract::ScalarType::Complex128),
];

const MEMORY_FORMATS: [(MemoryFormat, contract::MemoryFormat); 4] = [
    (MemoryFormat::Contiguous, contract::MemoryFormat::Contiguous),
    (MemoryFormat::Preserve, contract::MemoryFormat::Preserve),
    (MemoryFormat::ChannelsLast, contract::MemoryFormat::ChannelsLast),
    (MemoryFormat::ChannelsLast3d, contract::MemoryFormat::ChannelsLast3d),
];

/// An element type as rules see it.
pub fn from_scalar_type(dtype: ScalarType) -> contract::ScalarType {
    let known = SCALAR_TYPES.iter().find(|(graph, _)| *graph == dtype);
    known.map_or(contract::ScalarType::Other, |(_, contract)| *contract)
}

/// An element type that a rule wrote; `None` for one that only an exporter can name.
pub fn to_scalar_type(dtype: contract::ScalarType) -> Option<ScalarType> {
    SCALAR_TYPES.iter().find(|(_, contract)| *contract == dtype).map(|(graph, _)| *graph)
}

fn from_dim(dim: &Dim) -> contract::Dim {
    match dim {
        Dim::Fixed(n) => contract::Dim::Fixed(*n),
        Dim::Symbolic(symbol) => contract::Dim::Symbolic(contract::Symbol {
            expression: symbol.expression.clone(),
            hint: symbol.hint,
            min: symbol.min,
            max: symbol.max,
        }),
    }
}

fn to_dim(dim: &contract::Dim) -> Dim {
    match dim {
        contract::Dim::Fixed(n) => Dim::Fixed(*n),
        contract::Dim::Symbolic(symbol) => Dim::Symbolic(Symbol {
            expression: symbol.expression.clone(),
            hint: symbol.hint,
            min: symbol.min,
            max: symbol.max,
        }),
    }
}

/// Metadata as rules see it.
pub(super) fn from_meta(meta: &TensorMeta) -> contract::TensorMeta {
    contract::TensorMeta {
        dtype: from_scalar_type(meta.dtype),
        sizes: meta.sizes.iter().map(from_dim).collect(),
        strides: meta.strides.iter().map(from_dim).collect(),
        device: meta.device.clone(),
    }
}

/// Metadata that a rule wrote; `None` for an element type that only an exporter can name.
pub fn to_meta(meta: &contract::TensorMeta) -> Option<TensorMeta> {
    Some(TensorMeta {
        dtype: to_scalar_type(meta.dtype)?,
        sizes: meta.sizes.iter().map(to_dim).collect(),
        strides: meta.strides.iter().map(to_dim).collect(),
        storage_offset: Dim::Fixed(0),
        device: meta.device.clone(),
        layout: 7,
        requires_grad: false,
    })
}

/// A literal as rules see it.
pub fn from_literal(literal: &Literal) -> contract::Literal {
    match literal {
        Literal::None => contract::Literal::None,
        Literal::Int(n) => contract::Literal::Int(*n),
        Literal::Ints(list) => contract::Literal::Ints(list.clone()),
        Literal::Float(x) => contract::Literal::Float(*x),
        Literal::Floats(list) => contract::Literal::Floats(list.clone()),
        Literal::Bool(truth) => contract::Literal::Boolean(*truth),
        Literal::Bools(list) => contract::Literal::Booleans(list.clone()),
        Literal::Text(text) => contract::Literal::Text(text.clone()),
        Literal::Texts(list) => contract::Literal::Texts(list.clone()),
        Literal::ScalarType(dtype) => contract::Literal::Dtype(from_scalar_type(*dtype)),
        Literal::MemoryFormat(format) => contract::Literal::MemoryFormat(
            MEMORY_FORMATS
                .iter()
                .find(|(graph, _)| graph == format)
                .map_or(contract::MemoryFormat::Other, |(_, contract)| *contract),
        ),
        Literal::Device(device) => contract::Literal::Device(device.clone()),
        Literal::Layout(code) => contract::Literal::Layout(code.to_string()),
        Literal::Other(json) => contract::Literal::Other(json.to_string()),
    }
}

/// A literal that a rule wrote, or why it cannot be written into a graph.
///
/// # Errors
/// Literals that only an exporter can name, and sizes that vary.
pub fn to_literal(literal: &contract::Literal) -> Result<Literal, String> {
    Ok(match literal {
        contract::Literal::None => Literal::None,
        contract::Literal::Int(n) | contract::Literal::SymInt(contract::Dim::Fixed(n)) => Literal::Int(*n),
        contract::Literal::Ints(list) => Literal::Ints(list.clone()),
        contract::Literal::SymInt(contract::Dim::Symbolic(symbol)) => {
            return Err(format!("the size `{}` varies and cannot be written as a number", symbol.expression));
        }
        contract::Literal::SymInts(list) => {
            let fixed: Option<Vec<i64>> = list.iter().map(|dim| to_dim(dim).fixed()).collect();
            Literal::Ints(fixed.ok_or("a size that varies cannot be written as a number")?)
        }
        contract::Literal::Float(x) => Literal::Float(*x),
        contract::Literal::Floats(list) => Literal::Floats(list.clone()),
        contract::Literal::Boolean(truth) => Literal::Bool(*truth),
        contract::Literal::Booleans(list) => Literal::Bools(list.clone()),
        contract::Literal::Text(text) => Literal::Text(text.clone()),
        contract::Literal::Texts(list) => Literal::Texts(list.clone()),
        contract::Literal::Dtype(dtype) => {
            Literal::ScalarType(to_scalar_type(*dtype).ok_or("an element type without a name cannot be written")?)
        }
        contract::Literal::MemoryFormat(format) => Literal::MemoryFormat(
            MEMORY_FORMATS
                .iter()
                .find(|(_, contract)| contract == format)
                .map(|(graph, _)| *graph)
                .ok_or("a memory format without a name cannot be written")?,
        ),
        contract::Literal::Device(device) => Literal::Device(device.clone()),
        contract::Literal::Layout(code) => {
            Literal::Layout(code.parse().map_err(|_| format!("`{code}` is no layout code"))?)
        }
        contract::Literal::Other(_) => {
            return Err("an argument without a name in the contract cannot be written".to_owned());
        }
    })
}

/// Where a value comes from; nodes outside the site get ids after those of the site.
pub(super) fn source(value: &Value, nodes: &mut FxHashMap<NodeId, u32>) -> contract::ValueSource {
    match &value.source {
        ValueSource::Node { node, .. } => {
            let fresh = super::id(nodes.len());
            contract::ValueSource::Node(*nodes.entry(*node).or_insert(fresh))
        }
        ValueSource::UserInput => contract::ValueSource::UserInput,
        ValueSource::Parameter(name) => contract::ValueSource::Parameter(name.clone()),
        ValueSource::Buffer { fqn, .. } => contract::ValueSource::Buffer(fqn.clone()),
        ValueSource::Constant(name) => contract::ValueSource::Constant(name.clone()),
        ValueSource::Opaque => contract::ValueSource::Opaque,
    }
}

/// An argument as rules see it.
pub(super) fn input(graph: &Graph, input: &NodeInput, ids: &FxHashMap<ValueId, u32>) -> contract::Input {
    let symbolic = |value: &ValueId| match graph.value(*value).map(|value| &value.kind) {
        Some(ValueKind::SymInt(dim)) => Some(from_dim(dim)),
        _ => None,
    };
    let known = |value: &ValueId| ids.get(value).copied().unwrap_or(u32::MAX);
    let argument = match &input.arg {
        Argument::Literal(literal) => contract::Argument::Literal(from_literal(literal)),
        Argument::Value(value) => match symbolic(value) {
            Some(dim) => contract::Argument::Literal(contract::Literal::SymInt(dim)),
            None => contract::Argument::Value(known(value)),
        },
        Argument::Values(values) => contract::Argument::Values(values.iter().map(known).collect()),
        Argument::OptionalValues(values) => {
            contract::Argument::OptionalValues(values.iter().map(|value| value.as_ref().map(known)).collect())
        }
        Argument::SymInts(items) => contract::Argument::Literal(contract::Literal::SymInts(
            items
                .iter()
                .map(|item| match item {
                    SymIntArgument::Fixed(n) => contract::Dim::Fixed(*n),
                    SymIntArgument::Value(value) => {
                        symbolic(value).unwrap_or(contract::Dim::Symbolic(contract::Symbol {
                            expression: String::new(),
                            hint: None,
                            min: None,
                            max: None,
                        }))
                    }
                })
                .collect(),
        )),
        Argument::Opaque { json, .. } => contract::Argument::Literal(contract::Literal::Other(json.to_string())),
    };
    contract::Input { name: input.name.clone(), argument }
}

/// Roughly how many bytes a node takes when it is copied into a rule.
pub(super) fn weight(node: &Node, inputs: &[NodeInput]) -> usize {
    let arguments: usize = inputs
        .iter()
        .map(|input| {
            32 + input.name.len()
                + match &input.arg {
                    Argument::Literal(literal) => literal_weight(literal),
                    Argument::Value(_) => 8,
                    Argument::Values(values) => values.len() * 8,
                    Argument::OptionalValues(values) => values.len() * 8,
                    Argument::SymInts(items) => items.len() * 128,
                    Argument::Opaque { json, .. } => json_weight(json),
                }
        })
        .sum();
    64 + node.op.len() + arguments
}

fn literal_weight(literal: &Literal) -> usize {
    match literal {
        Literal::Ints(list) => list.len() * 8,
        Literal::Floats(list) => list.len() * 8,
        Literal::Bools(list) => list.len(),
        Literal::Text(text) | Literal::Device(text) => text.len(),
        Literal::Texts(list) => list.iter().map(|text| 16 + text.len()).sum(),
        Literal::Other(json) => json_weight(json),
        _ => 8,
    }
}

fn json_weight(json: &serde_json::Value) -> usize {
    match json {
        serde_json::Value::Array(items) => 2 + items.iter().map(json_weight).sum::<usize>(),
        serde_json::Value::Object(entries) => {
            2 + entries.iter().map(|(key, value)| key.len() + 4 + json_weight(value)).sum::<usize>()
        }
        serde_json::Value::String(text) => 2 + text.len(),
        _ => 8,
    }
}
