//! Archive JSON to typed graph.
//!
//! Whatever has no typed form stays as JSON inside [`Argument::Opaque`], [`Literal::Other`] or
//! [`NodeOutput::Opaque`]; a node whose JSON cannot be made again from its typed form keeps its JSON
//! beside it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::codes::{self, Ranges};
use super::name_index::ArchiveNames;
use super::render::{self, Names};
use super::{
    Argument, Graph, GraphOutput, Literal, Node, NodeId, NodeInput, NodeOutput, SymIntArgument, Value, ValueId,
    ValueKind, ValueSource,
};

/// What is wrong with the JSON of a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Malformed {
    /// where, e.g. ``graph.nodes[3] (`torch.ops.aten.relu.default`)``
    pub place: String,
    /// what
    pub problem: String,
}

impl Malformed {
    pub(super) fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into() }
    }
}

/// A node whose JSON says more than its typed form.
#[derive(Debug, Clone)]
pub(super) struct Verbatim {
    /// as in the archive
    pub(super) json: Map<String, Json>,
    /// the typed form made from it
    pub(super) node: Arc<Node>,
}

/// A parsed program.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) graph: Graph,
    /// the JSON as read, without `graph_module.graph.nodes`
    pub(super) document: Json,
    pub(super) names: Arc<ArchiveNames>,
    /// value of each entry of `graph.inputs`
    pub(super) input_slots: Vec<Option<ValueId>>,
    pub(super) verbatim: HashMap<NodeId, Verbatim>,
    pub(super) next_node: u32,
    pub(super) next_value: u32,
}

/// Parses the JSON of a program.
pub(super) fn program(mut document: Json) -> Result<Parsed, Malformed> {
    let ranges = codes::ranges(document.get("range_constraints"));
    let module = document
        .get_mut("graph_module")
        .and_then(Json::as_object_mut)
        .ok_or_else(|| Malformed::new("graph_module", "expected an object"))?;
    let signature = module.get("signature").cloned().unwrap_or(Json::Null);
    let graph = module
        .get_mut("graph")
        .and_then(Json::as_object_mut)
        .ok_or_else(|| Malformed::new("graph_module.graph", "expected an object"))?;
    let Some(Json::Array(nodes)) = graph.insert("nodes".to_owned(), Json::Array(Vec::new())) else {
        return Err(Malformed::new("graph.nodes", "expected a list"));
    };
    let next_node = u32::try_from(nodes.len()).map_err(|_| Malformed::new("graph.nodes", "too many nodes"))?;

    let mut parser = Parser::declare(graph, &ranges)?;
    let input_slots = parser.inputs(graph, &signature)?;
    let (nodes, node_names, verbatim) = parser.nodes(nodes)?;
    let outputs = parser.outputs(graph, &signature)?;

    let next_value = u32::try_from(parser.values.len()).map_err(|_| Malformed::new("graph", "too many values"))?;
    let mut values = Vec::with_capacity(parser.values.len());
    let mut names = HashMap::with_capacity(parser.values.len());
    for ((id, declared), source) in (0..next_value).map(ValueId).zip(parser.values).zip(parser.sources) {
        // A table entry that nothing makes stays in the document only.
        let Some(source) = source else { continue };
        names.insert(declared.name.clone(), id);
        values.push((id, Arc::new(Value { id, name: declared.name, kind: declared.kind, source })));
    }
    let inputs = input_slots.iter().copied().flatten().collect();
    let names = Arc::new(ArchiveNames { nodes: node_names, values: names });
    let graph = Graph::new(nodes, values, inputs, outputs);
    graph.take_names(Arc::clone(&names));
    Ok(Parsed { graph, document, names, input_slots, verbatim, next_node, next_value })
}

struct Declared {
    name: String,
    kind: ValueKind,
}

/// Ids by name. `values` and `sources` are indexed by id; a source is there once the value is made.
#[derive(Default)]
struct Parser {
    ids: HashMap<String, ValueId>,
    values: Vec<Declared>,
    sources: Vec<Option<ValueSource>>,
}

impl Names for Parser {
    fn named(&self, value: ValueId) -> Option<(&str, &ValueKind)> {
        let declared = self.values.get(value.0 as usize)?;
        Some((&declared.name, &declared.kind))
    }
}

/// Nodes, their ids by name, and those of them whose JSON is kept.
type ParsedNodes = (Vec<Arc<Node>>, HashMap<String, NodeId>, HashMap<NodeId, Verbatim>);

/// How errors name the place that is being read.
type Place<'a> = &'a dyn Fn() -> String;

impl Parser {
    /// Ids for every name in the value tables, in their order.
    fn declare(graph: &Map<String, Json>, ranges: &Ranges) -> Result<Self, Malformed> {
        let mut parser = Self::default();
        for (name, json) in table(graph, "tensor_values")? {
            let meta = codes::tensor_meta(json, ranges)
                .ok_or_else(|| Malformed::new(format!("graph.tensor_values.{name}"), "not tensor metadata"))?;
            parser.add(name, ValueKind::Tensor(meta))?;
        }
        for (name, json) in table(graph, "sym_int_values")? {
            let dim = codes::dim(json, ranges)
                .ok_or_else(|| Malformed::new(format!("graph.sym_int_values.{name}"), "not a symbolic integer"))?;
            parser.add(name, ValueKind::SymInt(dim))?;
        }
        for section in ["sym_bool_values", "sym_float_values", "custom_obj_values"] {
            for (name, _) in table(graph, section)? {
                parser.add(name, ValueKind::Opaque)?;
            }
        }
        Ok(parser)
    }

    fn add(&mut self, name: &str, kind: ValueKind) -> Result<ValueId, Malformed> {
        let id = u32::try_from(self.values.len()).map_err(|_| Malformed::new("graph", "too many values"))?;
        if self.ids.insert(name.to_owned(), ValueId(id)).is_some() {
            return Err(Malformed::new(format!("value `{name}`"), "is declared twice"));
        }
        self.values.push(Declared { name: name.to_owned(), kind });
        self.sources.push(None);
        Ok(ValueId(id))
    }

    /// The id of a value that is made here.
    fn define(&mut self, name: &str, source: ValueSource, place: Place<'_>) -> Result<ValueId, Malformed> {
        let id = match self.ids.get(name) {
            Some(id) => *id,
            None => self.add(name, ValueKind::Opaque)?,
        };
        match self.sources.get_mut(id.0 as usize) {
            Some(slot @ None) => {
                *slot = Some(source);
                Ok(id)
            }
            _ => Err(Malformed::new(place(), format!("value `{name}` is made a second time"))),
        }
    }

    /// The id of a value that is already made.
    fn find(&self, name: &str) -> Option<ValueId> {
        let id = *self.ids.get(name)?;
        self.sources.get(id.0 as usize)?.is_some().then_some(id)
    }

    fn require(&self, name: &str, place: Place<'_>) -> Result<ValueId, Malformed> {
        self.find(name).ok_or_else(|| {
            let problem = if self.ids.contains_key(name) { "is used before it is made" } else { "does not exist" };
            Malformed::new(place(), format!("value `{name}` {problem}"))
        })
    }

    fn inputs(&mut self, graph: &Map<String, Json>, signature: &Json) -> Result<Vec<Option<ValueId>>, Malformed> {
        let arguments = list(graph, "inputs", &|| "graph".to_owned())?;
        let specs = specs(signature, "input_specs", arguments.len())?;
        let mut slots = Vec::with_capacity(arguments.len());
        for (position, (argument, spec)) in arguments.iter().zip(specs).enumerate() {
            let place = || format!("graph.inputs[{position}]");
            let slot = match argument_name(argument) {
                Some(name) => Some(self.define(name, input_source(spec, &place)?, &place)?),
                None => None,
            };
            slots.push(slot);
        }
        Ok(slots)
    }

    fn outputs(&self, graph: &Map<String, Json>, signature: &Json) -> Result<Vec<GraphOutput>, Malformed> {
        let arguments = list(graph, "outputs", &|| "graph".to_owned())?;
        let specs = specs(signature, "output_specs", arguments.len())?;
        let mut outputs = Vec::with_capacity(arguments.len());
        for (position, (argument, spec)) in arguments.iter().zip(specs).enumerate() {
            let place = || format!("graph.outputs[{position}]");
            let Some(name) = argument_name(argument) else {
                outputs.push(GraphOutput::Opaque(None));
                continue;
            };
            let value = self.require(name, &place)?;
            let (kind, body) = union(spec).ok_or_else(|| Malformed::new(place(), "its signature is not a union"))?;
            let target = |field: &str| -> Result<GraphOutput, Malformed> {
                let target = body.get(field).and_then(Json::as_str);
                let target = target.ok_or_else(|| Malformed::new(place(), format!("`{kind}` has no `{field}`")))?;
                Ok(GraphOutput::Mutation { value, target: target.to_owned() })
            };
            outputs.push(match kind {
                "user_output" | "loss_output" => GraphOutput::User(value),
                "buffer_mutation" => target("buffer_name")?,
                "user_input_mutation" => target("user_input_name")?,
                "parameter_mutation" => target("parameter_name")?,
                _ => GraphOutput::Opaque(Some(value)),
            });
        }
        Ok(outputs)
    }

    fn nodes(&mut self, nodes: Vec<Json>) -> Result<ParsedNodes, Malformed> {
        let mut parsed: Vec<Arc<Node>> = Vec::with_capacity(nodes.len());
        let mut verbatim = HashMap::new();
        let mut names = HashMap::with_capacity(nodes.len());
        for (id, json) in (0_u32..).map(NodeId).zip(nodes) {
            let Json::Object(json) = json else {
                return Err(Malformed::new(format!("graph.nodes[{}]", id.0), "expected an object"));
            };
            let mut node = self.node(id, &json)?;
            let exact = render::node(&node, self).is_some_and(|rendered| rendered == json);
            // torch's own reader renames a node whose name is taken.
            let mut copy = 0_u32;
            let wanted = node.name.clone();
            while names.contains_key(&node.name) {
                copy += 1;
                node.name = format!("{wanted}_{copy}");
            }
            names.insert(node.name.clone(), id);
            let node = Arc::new(node);
            if !exact || copy > 0 {
                verbatim.insert(id, Verbatim { json, node: Arc::clone(&node) });
            }
            parsed.push(node);
        }
        Ok((parsed, names, verbatim))
    }

    fn node(&mut self, id: NodeId, json: &Map<String, Json>) -> Result<Node, Malformed> {
        let place = || format!("graph.nodes[{}]", id.0);
        let target = json.get("target").and_then(Json::as_str).ok_or_else(|| Malformed::new(place(), "no `target`"))?;
        let place = || format!("graph.nodes[{}] (`{target}`)", id.0);
        let mut inputs = Vec::new();
        for input in list(json, "inputs", &place)? {
            let name = input.get("name").and_then(Json::as_str).unwrap_or_default().to_owned();
            let arg =
                input.get("arg").ok_or_else(|| Malformed::new(place(), format!("input `{name}` has no `arg`")))?;
            let arg = self.argument(arg, &place)?;
            inputs.push(NodeInput { name, arg, keyword: input.get("kind").and_then(Json::as_i64) == Some(2) });
        }
        let mut outputs = Vec::new();
        let mut count = 0;
        for output in list(json, "outputs", &place)? {
            outputs.push(self.node_output(output, id, &mut count, &place)?);
        }
        let op = target.strip_prefix("torch.ops.").unwrap_or(target).to_owned();
        let given = json.get("name").and_then(Json::as_str).filter(|name| !name.is_empty());
        let only_output = match outputs.as_slice() {
            [NodeOutput::Value(value)] => self.named(*value).map(|(name, _)| name),
            _ => None,
        };
        let name = given.or(only_output).map_or_else(|| format!("node_{}", id.0), str::to_owned);
        let known = ["target", "inputs", "outputs", "metadata", "name"];
        Ok(Node {
            id,
            name,
            op,
            inputs,
            outputs,
            metadata: Arc::new(json.get("metadata").and_then(Json::as_object).cloned().unwrap_or_default()),
            extra: Arc::new(
                json.iter()
                    .filter(|(key, _)| !known.contains(&key.as_str()))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            ),
        })
    }

    fn node_output(
        &mut self,
        json: &Json,
        node: NodeId,
        count: &mut usize,
        place: Place<'_>,
    ) -> Result<NodeOutput, Malformed> {
        let mut next = || {
            let source = ValueSource::Node { node, output: *count };
            *count += 1;
            source
        };
        if let Some(name) = argument_name(json) {
            return Ok(NodeOutput::Value(self.define(name, next(), place)?));
        }
        if let Some(Json::Array(items)) = json.get("as_tensors") {
            let names: Option<Vec<&str>> = items.iter().map(|item| item.get("name").and_then(Json::as_str)).collect();
            let names = names.ok_or_else(|| Malformed::new(place(), "an output list has an entry without a name"))?;
            let values: Result<Vec<_>, _> = names.iter().map(|name| self.define(name, next(), place)).collect();
            return Ok(NodeOutput::Values(values?));
        }
        let mut names = Vec::new();
        mentioned_names(json, &mut names);
        for name in names {
            self.define(name, next(), place)?;
        }
        Ok(NodeOutput::Opaque(json.clone()))
    }

    fn argument(&self, json: &Json, place: Place<'_>) -> Result<Argument, Malformed> {
        if let Some(name) = argument_name(json) {
            // A custom object may be found by name among the constants instead of the graph inputs.
            if json.get("as_custom_obj").is_some() && self.find(name).is_none() {
                return Ok(Argument::Opaque { json: json.clone(), mentions: Vec::new() });
            }
            return Ok(Argument::Value(self.require(name, place)?));
        }
        let Some((kind, body)) = union(json) else { return Ok(self.opaque(json)) };
        Ok(match (kind, body) {
            ("as_tensors", Json::Array(items)) => {
                let names: Option<Vec<&str>> =
                    items.iter().map(|item| item.get("name").and_then(Json::as_str)).collect();
                match names {
                    Some(names) => {
                        Argument::Values(names.iter().map(|name| self.require(name, place)).collect::<Result<_, _>>()?)
                    }
                    None => return Ok(self.opaque(json)),
                }
            }
            ("as_optional_tensors", Json::Array(items)) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    match (item.get("as_none"), argument_name(item)) {
                        (Some(_), _) => values.push(None),
                        (None, Some(name)) => values.push(Some(self.require(name, place)?)),
                        (None, None) => return Ok(self.opaque(json)),
                    }
                }
                Argument::OptionalValues(values)
            }
            ("as_sym_ints", Json::Array(items)) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    match (item.get("as_int").and_then(Json::as_i64), item.get("as_name").and_then(Json::as_str)) {
                        (Some(number), _) => values.push(SymIntArgument::Fixed(number)),
                        (None, Some(name)) => values.push(SymIntArgument::Value(self.require(name, place)?)),
                        (None, None) => return Ok(self.opaque(json)),
                    }
                }
                Argument::SymInts(values)
            }
            _ => match literal(kind, body) {
                Some(literal) => Argument::Literal(literal),
                None => return Ok(self.opaque(json)),
            },
        })
    }

    /// Kept as read. A subgraph counts as a use of every outer value that it mentions by a name which
    /// is not its own.
    fn opaque(&self, json: &Json) -> Argument {
        let own: HashSet<&str> = json.pointer("/as_graph/graph").map(own_names).unwrap_or_default();
        let mut names = Vec::new();
        mentioned_names(json, &mut names);
        let mut mentions: Vec<ValueId> = Vec::new();
        for name in names.into_iter().filter(|name| !own.contains(name)) {
            if let Some(value) = self.find(name)
                && !mentions.contains(&value)
            {
                mentions.push(value);
            }
        }
        Argument::Opaque { json: json.clone(), mentions }
    }
}

/// A literal of the union, when it has a typed form.
fn literal(kind: &str, body: &Json) -> Option<Literal> {
    fn each<T>(body: &Json, item: impl Fn(&Json) -> Option<T>) -> Option<Vec<T>> {
        body.as_array()?.iter().map(item).collect()
    }
    Some(match kind {
        "as_none" => Literal::None,
        "as_int" => Literal::Int(body.as_i64()?),
        "as_ints" => Literal::Ints(each(body, Json::as_i64)?),
        "as_float" => Literal::Float(codes::float(body)?),
        "as_floats" => Literal::Floats(each(body, codes::float)?),
        "as_bool" => Literal::Bool(body.as_bool()?),
        "as_bools" => Literal::Bools(each(body, Json::as_bool)?),
        "as_string" => Literal::Text(body.as_str()?.to_owned()),
        "as_strings" => Literal::Texts(each(body, |item| item.as_str().map(str::to_owned))?),
        "as_scalar_type" => Literal::ScalarType(codes::scalar_type(body.as_i64()?)),
        "as_memory_format" => Literal::MemoryFormat(codes::memory_format(body.as_i64()?)),
        "as_layout" => Literal::Layout(body.as_i64()?),
        "as_device" => Literal::Device(codes::device(body)?),
        "as_sym_int" => Literal::Int(body.get("as_int")?.as_i64()?),
        "as_sym_float" => Literal::Float(codes::float(body.get("as_float")?)?),
        "as_sym_bool" => Literal::Bool(body.get("as_bool")?.as_bool()?),
        "as_optional_tensor" => body.get("as_none").map(|_| Literal::None)?,
        "as_complex" | "as_int_lists" | "as_float_lists" | "as_operator" => {
            Literal::Other(Json::Object(Map::from_iter([(kind.to_owned(), body.clone())])))
        }
        _ => return None,
    })
}

/// The only key of a union and its content.
pub(super) fn union(json: &Json) -> Option<(&str, &Json)> {
    let map = json.as_object()?;
    let mut entries = map.iter();
    match (entries.next(), entries.next()) {
        (Some((key, value)), None) => Some((key, value)),
        _ => None,
    }
}

/// The value that a union of one value names.
pub(super) fn argument_name(json: &Json) -> Option<&str> {
    let (kind, body) = union(json)?;
    let name = match kind {
        "as_tensor" | "as_custom_obj" => body.get("name"),
        "as_sym_int" | "as_sym_float" | "as_sym_bool" => body.get("as_name"),
        "as_optional_tensor" => body.get("as_tensor")?.get("name"),
        _ => None,
    };
    name.and_then(Json::as_str).filter(|name| !name.is_empty())
}

/// Every string under a `name` or `as_name` key, in document order.
fn mentioned_names<'a>(json: &'a Json, names: &mut Vec<&'a str>) {
    match json {
        Json::Object(map) => {
            for (key, value) in map {
                match value {
                    Json::String(name) if key == "name" || key == "as_name" => names.push(name),
                    _ => mentioned_names(value, names),
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| mentioned_names(item, names)),
        _ => {}
    }
}

/// Names that a subgraph defines itself.
fn own_names(graph: &Json) -> HashSet<&str> {
    ["tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values"]
        .iter()
        .filter_map(|section| graph.get(section)?.as_object())
        .flat_map(|table| table.keys().map(String::as_str))
        .collect()
}

fn input_source(spec: &Json, place: Place<'_>) -> Result<ValueSource, Malformed> {
    let (kind, body) = union(spec).ok_or_else(|| Malformed::new(place(), "its signature is not a union"))?;
    let text = |field: &str| {
        let text = body.get(field).and_then(Json::as_str).map(str::to_owned);
        text.ok_or_else(|| Malformed::new(place(), format!("`{kind}` has no `{field}`")))
    };
    Ok(match kind {
        "user_input" => ValueSource::UserInput,
        "parameter" => ValueSource::Parameter(text("parameter_name")?),
        "buffer" => ValueSource::Buffer {
            fqn: text("buffer_name")?,
            persistent: body.get("persistent").and_then(Json::as_bool).unwrap_or(true),
        },
        "tensor_constant" => ValueSource::Constant(text("tensor_constant_name")?),
        _ => ValueSource::Opaque,
    })
}

fn table<'a>(
    graph: &'a Map<String, Json>,
    name: &str,
) -> Result<impl Iterator<Item = (&'a String, &'a Json)>, Malformed> {
    match graph.get(name) {
        Some(Json::Object(map)) => Ok(Some(map).into_iter().flatten()),
        None if name != "tensor_values" => Ok(None.into_iter().flatten()),
        _ => Err(Malformed::new(format!("graph.{name}"), "expected an object")),
    }
}

fn list<'a>(map: &'a Map<String, Json>, name: &str, place: Place<'_>) -> Result<&'a [Json], Malformed> {
    match map.get(name) {
        Some(Json::Array(items)) => Ok(items),
        _ => Err(Malformed::new(format!("{}.{name}", place()), "expected a list")),
    }
}

fn specs<'a>(signature: &'a Json, name: &str, wanted: usize) -> Result<&'a [Json], Malformed> {
    match signature.get(name).and_then(Json::as_array) {
        Some(specs) if specs.len() == wanted => Ok(specs),
        Some(specs) => Err(Malformed::new(
            format!("signature.{name}"),
            format!("has {} entries where the graph has {wanted}", specs.len()),
        )),
        None => Err(Malformed::new(format!("signature.{name}"), "expected a list")),
    }
}
