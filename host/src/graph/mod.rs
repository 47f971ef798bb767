//! The exported program: typed graph, `.pt2` archive, shape rules, patches, fingerprint.
//!
//! In: the bytes of a `.pt2` archive. Out: an immutable [`Program`] whose [`Graph`] other stages read;
//! patched programs; bytes of a `.pt2` again. Nothing is lost on the way: fields and files that this
//! module does not know travel verbatim.
//!
//! | file | holds |
//! |---|---|
//! | `ir.rs` | nodes, values, arguments |
//! | `mod.rs` | the graph with its indexes |
//! | `dataflow.rs` | what nodes read and make, in flat lists |
//! | `name_index.rs` | nodes and values by name |
//! | `table.rs` | maps by ids |
//! | `program.rs` | a graph with the archive it came from |
//! | `archive.rs` | reading and writing `.pt2` files within [`archive::Limits`] |
//! | `parse.rs`, `render.rs`, `codes.rs` | archive JSON to typed graph and back |
//! | `schema.rs` | operator schemas: argument names, types, defaults, alias annotations |
//! | `alias.rs` | what shares storage, what is written to |
//! | `constants.rs` | what is the same in every run |
//! | `shapes.rs` | sizes, strides and dtypes of operators that repairs may insert |
//! | `patch.rs` | edits as data; applying and inverting them |
//! | `fingerprint.rs` | a digest of what a program computes |

pub mod alias;
pub mod archive;
mod codes;
mod constants;
mod dataflow;
mod fingerprint;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod ir;
mod name_index;
mod parse;
pub mod patch;
pub mod program;
mod render;
pub mod schema;
pub mod shapes;
mod table;

pub use ir::*;
pub use parse::Malformed;
pub use patch::{Applied, Patch, PatchEdit, PatchError};
pub use program::Program;

/// The metadata key under which a node that a patch made names who made it: rule id and version.
pub const ORIGIN_KEY: &str = "delegate_doctor";

use std::sync::{Arc, OnceLock};

use dataflow::{Dataflow, Uses};
use name_index::{ArchiveNames, NameIndex};
use table::{IdSet, Positions, Table};

/// An immutable exported graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Arc<Table<NodeId, Arc<Node>>>,
    values: Arc<Table<ValueId, Arc<Value>>>,
    inputs: Arc<Vec<ValueId>>,
    outputs: Vec<GraphOutput>,
    index: Arc<Index>,
}

/// Look-ups made once per graph; those in locks when they are first asked for, as many graphs are only made to
/// see whether a patch applies.
#[derive(Debug, Default)]
struct Index {
    flow: Dataflow,
    positions: OnceLock<Positions<NodeId>>,
    /// the nodes in execution order
    list: OnceLock<Vec<Arc<Node>>>,
    uses: OnceLock<Uses>,
    outputs: IdSet<ValueId>,
    names: OnceLock<Arc<NameIndex>>,
}

/// One output of the graph.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphOutput {
    /// returned to the caller
    User(ValueId),
    /// written back into a buffer or an input; `target` is its name in the signature
    Mutation {
        /// the new content
        value: ValueId,
        /// buffer name or user input name
        target: String,
    },
    /// a constant or another shape kept as read
    Opaque(Option<ValueId>),
}

impl GraphOutput {
    /// The value, when there is one.
    pub fn value(&self) -> Option<ValueId> {
        match self {
            Self::User(value) | Self::Mutation { value, .. } => Some(*value),
            Self::Opaque(value) => *value,
        }
    }
}

/// One use of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Use {
    /// the node that reads it
    pub node: NodeId,
    /// which argument of that node, by position in `Node::inputs`
    pub input: usize,
}

impl Graph {
    /// Builds a graph and its look-ups.
    pub(crate) fn new(
        nodes: Vec<Arc<Node>>,
        values: impl IntoIterator<Item = (ValueId, Arc<Value>)>,
        inputs: Vec<ValueId>,
        outputs: Vec<GraphOutput>,
    ) -> Self {
        let values: Table<_, _> = values.into_iter().collect();
        let flow = Dataflow::of(&nodes, &values);
        let by_id = nodes.iter().map(|node| (node.id, Arc::clone(node))).collect();
        let graph = Self::of_parts(Arc::new(by_id), Arc::new(values), Arc::new(inputs), outputs, flow);
        graph.index.list.get_or_init(|| nodes);
        graph
    }

    fn of_parts(
        nodes: Arc<Table<NodeId, Arc<Node>>>,
        values: Arc<Table<ValueId, Arc<Value>>>,
        inputs: Arc<Vec<ValueId>>,
        outputs: Vec<GraphOutput>,
        flow: Dataflow,
    ) -> Self {
        let mut index = Index { flow, ..Index::default() };
        for value in outputs.iter().filter_map(GraphOutput::value) {
            index.outputs.insert(value);
        }
        Self { nodes, values, inputs, outputs, index: Arc::new(index) }
    }

    /// What nodes read and make.
    fn flow(&self) -> &Dataflow {
        &self.index.flow
    }

    fn names(&self) -> &Arc<NameIndex> {
        self.index.names.get_or_init(|| Arc::new(NameIndex::of(self)))
    }

    /// Finds names as the archive has them, which the graph is that of.
    fn take_names(&self, names: Arc<ArchiveNames>) {
        self.index.names.get_or_init(|| Arc::new(NameIndex::of_archive(names)));
    }

    /// Takes over what another graph knows about names, when it does; the graphs differ in these nodes and values.
    fn take_names_of<'g>(
        &self,
        other: &Self,
        nodes: impl Iterator<Item = &'g Node>,
        values: impl Iterator<Item = &'g Value>,
    ) {
        let names = other.index.names.get().and_then(|names| NameIndex::on_top(names, nodes, values));
        if let Some(names) = names {
            // A graph that is being made has no names yet.
            let _ = self.index.names.set(Arc::new(names));
        }
    }

    /// The calls, in execution order.
    pub fn nodes(&self) -> &[Arc<Node>] {
        let find = |id: &NodeId| self.nodes.get(*id).map(Arc::clone);
        self.index.list.get_or_init(|| self.flow().ids().iter().filter_map(find).collect())
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id).map(Arc::as_ref)
    }

    /// Where the node stands in execution order.
    pub fn position(&self, id: NodeId) -> Option<usize> {
        self.index.positions.get_or_init(|| Positions::of(self.flow().ids(), self.nodes.end())).get(id)
    }

    /// The node with this name.
    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.names().node(self, name)
    }

    /// The value with this id.
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id).map(Arc::as_ref)
    }

    /// The value with this name.
    pub fn value_named(&self, name: &str) -> Option<&Value> {
        self.names().value(self, name)
    }

    /// Every value, ordered by id.
    pub fn values(&self) -> Vec<&Value> {
        self.values.entries().map(Arc::as_ref).collect()
    }

    /// The id of every value, in order.
    pub(crate) fn value_ids(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.values.ids()
    }

    /// The nodes that call an operator, with their places, in execution order.
    pub(crate) fn calls_of(&self, op: &str) -> impl Iterator<Item = (usize, NodeId)> + '_ {
        self.flow().calls_of(op).filter_map(|position| Some((position, *self.flow().ids().get(position)?)))
    }

    /// Tensor metadata of a value; `None` for other kinds and unknown ids.
    pub fn tensor(&self, id: ValueId) -> Option<&TensorMeta> {
        self.value(id)?.tensor()
    }

    /// Every use by a node, in execution order; a node that reads the value through two arguments
    /// counts twice. Graph outputs are no uses: see [`Graph::is_output`].
    pub fn uses(&self, value: ValueId) -> &[Use] {
        self.index.uses.get_or_init(|| Uses::of(self.flow(), self.values.end())).get(value)
    }

    /// True when the graph returns the value or writes it back somewhere.
    pub fn is_output(&self, value: ValueId) -> bool {
        self.index.outputs.contains(value)
    }

    /// True when nothing reads the value: no node and no graph output.
    pub fn is_unused(&self, value: ValueId) -> bool {
        self.uses(value).is_empty() && !self.is_output(value)
    }

    /// The node that makes the value; `None` for graph inputs.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        match self.value(value)?.source {
            ValueSource::Node { node, .. } => self.node(node),
            _ => None,
        }
    }

    /// The nodes that read an output of `node`, each once, in execution order.
    pub fn consumers(&self, node: NodeId) -> Vec<NodeId> {
        let Some(node) = self.node(node) else { return Vec::new() };
        let mut consumers: Vec<NodeId> =
            node.output_values().flat_map(|value| self.uses(value)).map(|used| used.node).collect();
        consumers.sort_unstable_by_key(|id| self.position(*id));
        consumers.dedup();
        consumers
    }

    /// All graph inputs that are values, in signature order: parameters, buffers, constants, then what
    /// the caller gives.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// The inputs that the caller gives, in order.
    pub fn user_inputs(&self) -> Vec<ValueId> {
        let given = |id: &ValueId| self.value(*id).is_some_and(|value| value.source == ValueSource::UserInput);
        self.inputs.iter().copied().filter(given).collect()
    }

    /// All graph outputs in signature order, mutations included.
    pub fn outputs(&self) -> &[GraphOutput] {
        &self.outputs
    }

    /// The values that the caller gets back, in order; constants among the outputs are left out.
    pub fn user_outputs(&self) -> Vec<ValueId> {
        self.outputs
            .iter()
            .filter_map(|output| match output {
                GraphOutput::User(value) => Some(*value),
                _ => None,
            })
            .collect()
    }
}

impl Node {
    /// The argument with this schema name, as written; `None` when it is left to its default.
    pub fn input(&self, name: &str) -> Option<&Argument> {
        self.inputs.iter().find(|input| input.name == name).map(|input| &input.arg)
    }

    /// Every value the node makes, list returns flattened.
    pub fn output_values(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.outputs.iter().flat_map(|output| match output {
            NodeOutput::Value(value) => std::slice::from_ref(value).iter().copied(),
            NodeOutput::Values(values) => values.iter().copied(),
            NodeOutput::Opaque(_) => [].iter().copied(),
        })
    }

    /// Every value the node reads, in argument order; a value may come twice.
    pub fn input_values(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.inputs.iter().flat_map(|input| input.arg.each_value())
    }

    /// The values of each argument with its position, each once an argument.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (usize, ValueId)> + '_ {
        self.inputs.iter().enumerate().flat_map(|(position, input)| {
            let mut several = Vec::new();
            let single = match &input.arg {
                Argument::Literal(_) => None,
                Argument::Value(value) => Some(*value),
                other => {
                    several.extend(other.each_value());
                    several.sort_unstable();
                    several.dedup();
                    None
                }
            };
            single.into_iter().chain(several).map(move |value| (position, value))
        })
    }

    /// The user's source lines that led to this node, as the exporter recorded them.
    pub fn stack_trace(&self) -> Option<&str> {
        self.metadata.get("stack_trace").and_then(serde_json::Value::as_str)
    }

    /// Path of the innermost module that the node was made in, as the exporter recorded it: `decoder.blocks.0`;
    /// empty for the model's own code and where nothing was recorded. The record is a list of `key,path,type`
    /// separated by semicolons, outermost first.
    pub fn module_path(&self) -> &str {
        let stack = self.metadata.get("nn_module_stack").and_then(serde_json::Value::as_str).unwrap_or_default();
        let innermost = stack.rsplit(';').next().unwrap_or_default();
        let path = innermost.split(',').nth(1).unwrap_or_default();
        // A module that is called again has its count behind an at sign.
        path.rsplit_once('@').map_or(path, |(path, _)| path)
    }
}

impl Node {
    /// True when the node reads the value.
    pub fn reads(&self, value: ValueId) -> bool {
        self.inputs.iter().any(|input| input.arg.mentions(value))
    }
}

impl Argument {
    /// True when the value is in the argument.
    pub fn mentions(&self, value: ValueId) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Value(item) => *item == value,
            Self::Values(items) | Self::Opaque { mentions: items, .. } => items.contains(&value),
            Self::OptionalValues(items) => items.contains(&Some(value)),
            Self::SymInts(items) => items.contains(&SymIntArgument::Value(value)),
        }
    }

    /// Every value in the argument, in order.
    pub fn values(&self) -> Vec<ValueId> {
        self.each_value().collect()
    }

    /// As [`Argument::values`], one after the other.
    pub fn each_value(&self) -> impl Iterator<Item = ValueId> + '_ {
        let (one, several, holes, integers): (_, &[ValueId], &[Option<ValueId>], &[SymIntArgument]) = match self {
            Self::Literal(_) => (None, &[], &[], &[]),
            Self::Value(value) => (Some(*value), &[], &[], &[]),
            Self::Values(values) | Self::Opaque { mentions: values, .. } => (None, values, &[], &[]),
            Self::OptionalValues(values) => (None, &[], values, &[]),
            Self::SymInts(items) => (None, &[], &[], items),
        };
        let integers = integers.iter().filter_map(|item| match item {
            SymIntArgument::Value(value) => Some(*value),
            SymIntArgument::Fixed(_) => None,
        });
        one.into_iter().chain(several.iter().copied()).chain(holes.iter().flatten().copied()).chain(integers)
    }
}
