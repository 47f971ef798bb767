//! Typed graph to archive JSON.

use serde_json::{Map, Value as Json, json};

use super::codes;
use super::parse::Verbatim;
use super::{Argument, Literal, Node, NodeOutput, SymIntArgument, ValueId, ValueKind};

/// Where names of values come from.
pub(super) trait Names {
    /// The name and the kind of a value.
    fn named(&self, value: ValueId) -> Option<(&str, &ValueKind)>;
}

impl Names for super::Graph {
    fn named(&self, value: ValueId) -> Option<(&str, &ValueKind)> {
        self.value(value).map(|value| (value.name.as_str(), &value.kind))
    }
}

/// Targets outside `torch.ops`, which are written without that prefix.
const PLAIN_TARGETS: [&str; 5] = ["_operator.", "math.", "torch.", "builtins.", "torch_"];

/// The JSON of a node; `None` when it mentions a value that does not exist.
pub(super) fn node(node: &Node, names: &dyn Names) -> Option<Map<String, Json>> {
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for input in &node.inputs {
        inputs.push(json!({
            "name": input.name,
            "arg": argument(&input.arg, names)?,
            "kind": if input.keyword { 2 } else { 1 },
        }));
    }
    let outputs: Option<Vec<Json>> = node.outputs.iter().map(|item| output(item, names)).collect();
    let plain = PLAIN_TARGETS.iter().any(|prefix| node.op.starts_with(prefix)) || !node.op.contains('.');
    let mut map = Map::new();
    let target = if plain { node.op.clone() } else { format!("torch.ops.{}", node.op) };
    map.insert("target".to_owned(), target.into());
    map.insert("inputs".to_owned(), Json::Array(inputs));
    map.insert("outputs".to_owned(), Json::Array(outputs?));
    map.insert("metadata".to_owned(), Json::Object(node.metadata.clone()));
    map.extend(node.extra.iter().map(|(key, value)| (key.clone(), value.clone())));
    map.insert("name".to_owned(), node.name.clone().into());
    Some(map)
}

/// The JSON of a node that was read as `verbatim`: as read, but for what an edit changed.
pub(super) fn edited_node(current: &Node, verbatim: &Verbatim, names: &dyn Names) -> Option<Map<String, Json>> {
    let mut map = verbatim.json.clone();
    let read = &*verbatim.node;
    let renamed = read.outputs.iter().any(|output| match output {
        NodeOutput::Value(value) => names.named(*value).is_none_or(|(name, _)| !mentions(&map, name)),
        _ => false,
    });
    if let Some(Json::Array(inputs)) = map.get_mut("inputs") {
        for ((json, was), is) in inputs.iter_mut().zip(&read.inputs).zip(&current.inputs) {
            if was != is || moved(json, &is.arg, names) {
                json["arg"] = argument(&is.arg, names)?;
            }
        }
        for added in current.inputs.iter().skip(read.inputs.len()) {
            inputs.push(json!({
                "name": added.name,
                "arg": argument(&added.arg, names)?,
                "kind": if added.keyword { 2 } else { 1 },
            }));
        }
        inputs.truncate(current.inputs.len());
    }
    if renamed && let Some(Json::Array(outputs)) = map.get_mut("outputs") {
        for (json, is) in outputs.iter_mut().zip(&current.outputs) {
            if let NodeOutput::Value(value) = is {
                rename(json, names.named(*value)?.0);
            }
        }
    }
    if current.name != read.name {
        map.insert("name".to_owned(), current.name.clone().into());
    }
    Some(map)
}

/// True when a one-value argument is written with another name than the value has now.
fn moved(json: &Json, argument: &Argument, names: &dyn Names) -> bool {
    match (argument, json.get("arg").and_then(super::parse::argument_name)) {
        (Argument::Value(value), Some(written)) => names.named(*value).is_some_and(|(name, _)| name != written),
        _ => false,
    }
}

/// True when the node's outputs mention the name.
fn mentions(node: &Map<String, Json>, name: &str) -> bool {
    let outputs = node.get("outputs").and_then(Json::as_array);
    outputs.is_some_and(|outputs| outputs.iter().any(|json| super::parse::argument_name(json) == Some(name)))
}

/// Gives the value that a union names another name.
pub(super) fn rename(json: &mut Json, name: &str) {
    let Some(body) = json.as_object_mut().and_then(|map| map.values_mut().next()) else { return };
    let body = match body.get_mut("as_tensor") {
        Some(inner) if inner.is_object() => inner,
        _ => body,
    };
    for key in ["name", "as_name"] {
        if let Some(written @ Json::String(_)) = body.get_mut(key) {
            *written = name.into();
        }
    }
}

/// The JSON of an argument; `None` when it mentions a value that does not exist.
pub(super) fn argument(argument: &Argument, names: &dyn Names) -> Option<Json> {
    Some(match argument {
        Argument::Literal(item) => literal(item),
        Argument::Value(value) => one(*value, names)?,
        Argument::Values(values) => json!({"as_tensors": tensors(values, names)?}),
        Argument::OptionalValues(values) => {
            let items: Option<Vec<Json>> = values
                .iter()
                .map(|value| match value {
                    Some(value) => Some(json!({"as_tensor": {"name": names.named(*value)?.0}})),
                    None => Some(json!({"as_none": true})),
                })
                .collect();
            json!({"as_optional_tensors": items?})
        }
        Argument::SymInts(items) => {
            let items: Option<Vec<Json>> = items
                .iter()
                .map(|item| match item {
                    SymIntArgument::Fixed(number) => Some(json!({"as_int": number})),
                    SymIntArgument::Value(value) => Some(json!({"as_name": names.named(*value)?.0})),
                })
                .collect();
            json!({"as_sym_ints": items?})
        }
        Argument::Opaque { json, .. } => json.clone(),
    })
}

fn output(output: &NodeOutput, names: &dyn Names) -> Option<Json> {
    Some(match output {
        NodeOutput::Value(value) => one(*value, names)?,
        NodeOutput::Values(values) => json!({"as_tensors": tensors(values, names)?}),
        NodeOutput::Opaque(json) => json.clone(),
    })
}

fn one(value: ValueId, names: &dyn Names) -> Option<Json> {
    let (name, kind) = names.named(value)?;
    Some(match kind {
        ValueKind::SymInt(_) => json!({"as_sym_int": {"as_name": name}}),
        _ => json!({"as_tensor": {"name": name}}),
    })
}

fn tensors(values: &[ValueId], names: &dyn Names) -> Option<Vec<Json>> {
    values.iter().map(|value| Some(json!({"name": names.named(*value)?.0}))).collect()
}

/// The JSON of a literal.
pub(super) fn literal(literal: &Literal) -> Json {
    match literal {
        Literal::None => json!({"as_none": true}),
        Literal::Int(number) => json!({"as_int": number}),
        Literal::Ints(numbers) => json!({"as_ints": numbers}),
        Literal::Float(number) => json!({"as_float": codes::float_json(*number)}),
        Literal::Floats(numbers) => {
            json!({"as_floats": numbers.iter().map(|number| codes::float_json(*number)).collect::<Vec<_>>()})
        }
        Literal::Bool(flag) => json!({"as_bool": flag}),
        Literal::Bools(flags) => json!({"as_bools": flags}),
        Literal::Text(text) => json!({"as_string": text}),
        Literal::Texts(texts) => json!({"as_strings": texts}),
        Literal::ScalarType(dtype) => json!({"as_scalar_type": codes::scalar_type_code(*dtype)}),
        Literal::MemoryFormat(format) => json!({"as_memory_format": codes::memory_format_code(*format)}),
        Literal::Device(device) => json!({"as_device": codes::device_json(device)}),
        Literal::Layout(code) => json!({"as_layout": code}),
        Literal::Other(json) => json.clone(),
    }
}
