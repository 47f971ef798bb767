//! Typed graph to archive JSON.

use serde_json::{Map, Value as Json, json};

use super::codes;
use super::parse::Verbatim;
use super::{Argument, Literal, Node, NodeInput, NodeOutput, SymIntArgument, ValueId, ValueKind};

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
const PLAIN_TARGETS: [&str; 4] = ["_operator.", "math.", "torch.", "builtins."];

/// The JSON of a node; `None` when it mentions a value that does not exist.
pub(super) fn node(node: &Node, names: &dyn Names) -> Option<Map<String, Json>> {
    let inputs: Option<Vec<Json>> = node.inputs.iter().map(|item| input(item, names)).collect();
    let outputs: Option<Vec<Json>> = node.outputs.iter().map(|item| output(item, names)).collect();
    let plain = PLAIN_TARGETS.iter().any(|prefix| node.op.starts_with(prefix)) || !node.op.contains('.');
    let mut map = Map::new();
    let target = if plain { node.op.clone() } else { format!("torch.ops.{}", node.op) };
    map.insert("target".to_owned(), target.into());
    map.insert("inputs".to_owned(), Json::Array(inputs?));
    map.insert("outputs".to_owned(), Json::Array(outputs?));
    map.insert("metadata".to_owned(), Json::Object(Map::clone(&node.metadata)));
    map.extend(node.extra.iter().map(|(key, value)| (key.clone(), value.clone())));
    map.insert("name".to_owned(), node.name.clone().into());
    Some(map)
}

/// The JSON of a node that was read as `verbatim`: as read, but for what an edit changed. `original`
/// has the names of the archive, `names` those of now.
pub(super) fn edited_node(
    current: &Node,
    verbatim: &Verbatim,
    original: &dyn Names,
    names: &dyn Names,
) -> Option<Map<String, Json>> {
    let mut map = verbatim.json.clone();
    let read = &*verbatim.node;
    if let Some(Json::Array(inputs)) = map.get_mut("inputs") {
        for ((json, was), is) in inputs.iter_mut().zip(&read.inputs).zip(&current.inputs) {
            let is = argument(&is.arg, names)?;
            if argument(&was.arg, original)? != is
                && let Some(json) = json.as_object_mut()
            {
                json.insert("arg".to_owned(), is);
            }
        }
        inputs.truncate(current.inputs.len());
        for added in current.inputs.iter().skip(inputs.len()) {
            inputs.push(input(added, names)?);
        }
    }
    if let Some(Json::Array(outputs)) = map.get_mut("outputs") {
        for ((json, was), is) in outputs.iter_mut().zip(&read.outputs).zip(&current.outputs) {
            let rendered = output(is, names)?;
            if output(was, original)? != rendered {
                *json = rendered;
            }
        }
    }
    if current.name != read.name {
        map.insert("name".to_owned(), current.name.clone().into());
    }
    Some(map)
}

fn input(input: &NodeInput, names: &dyn Names) -> Option<Json> {
    Some(json!({
        "name": input.name,
        "arg": argument(&input.arg, names)?,
        "kind": if input.keyword { 2 } else { 1 },
    }))
}

/// Gives the value that an output or its signature names another name. `json` is a union of one
/// value, or what stands under `arg` in a signature entry.
pub(super) fn rename(json: &mut Json, name: &str) {
    let Some(map) = json.as_object_mut() else { return };
    for (key, item) in map.iter_mut() {
        match item {
            Json::String(_) if key == "name" || key == "as_name" => *item = name.into(),
            Json::Object(_) => rename(item, name),
            _ => {}
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
