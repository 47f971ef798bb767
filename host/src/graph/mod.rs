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
//! | `table.rs` | maps by ids |
//! | `program.rs` | a graph with the archive it came from |
//! | `archive.rs` | reading and writing `.pt2` files within [`archive::Limits`] |
//! | `parse.rs`, `render.rs`, `codes.rs` | archive JSON to typed graph and back |
//! | `schema.rs` | operator schemas: argument names, types, defaults, alias annotations |
//! | `alias.rs` | what shares storage, what is written to, what is constant |
//! | `shapes.rs` | sizes, strides and dtypes of operators that repairs may insert |
//! | `patch.rs` | edits as data; applying and inverting them |
//! | `fingerprint.rs` | a digest of what a program computes |

pub mod alias;
pub mod archive;
mod codes;
mod fingerprint;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod ir;
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

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, OnceLock};

use table::{IdSet, Table};

/// An immutable exported graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Arc<Node>>,
    values: Table<ValueId, Arc<Value>>,
    inputs: Vec<ValueId>,
    outputs: Vec<GraphOutput>,
    index: Arc<Index>,
}

/// Look-ups made once per graph.
#[derive(Debug, Default)]
struct Index {
    positions: Table<NodeId, u32>,
    uses: Uses,
    outputs: IdSet<ValueId>,
    names: OnceLock<NameIndex>,
}

/// The uses of all values in one list, those of a value next to each other.
#[derive(Debug, Default)]
struct Uses {
    /// by value, where its uses begin; they end where those of the next value begin
    starts: Vec<u32>,
    uses: Vec<Use>,
}

impl Uses {
    fn of(nodes: &[Arc<Node>], values: usize) -> Self {
        // Counted, then placed: two passes and two allocations.
        let mut starts = vec![0_u32; values + 1];
        for node in nodes {
            for (_, value) in node.uses() {
                if let Some(count) = starts.get_mut(value.0 as usize + 1) {
                    *count += 1;
                }
            }
        }
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        let mut next = starts.clone();
        let nowhere = Use { node: NodeId(u32::MAX), input: 0 };
        let mut uses = vec![nowhere; total as usize];
        for node in nodes {
            for (input, value) in node.uses() {
                if let Some(place) = next.get_mut(value.0 as usize) {
                    if let Some(slot) = uses.get_mut(*place as usize) {
                        *slot = Use { node: node.id, input };
                    }
                    *place += 1;
                }
            }
        }
        Self { starts, uses }
    }

    fn get(&self, value: ValueId) -> &[Use] {
        let place = value.0 as usize;
        let range = self.starts.get(place).zip(self.starts.get(place + 1));
        range.and_then(|(start, end)| self.uses.get(*start as usize..*end as usize)).unwrap_or_default()
    }
}

/// Nodes and values by name: positions and ids, ordered by a hash of the name that nobody can foresee.
#[derive(Debug, Default)]
struct NameIndex {
    hasher: RandomState,
    nodes: Vec<(u64, NodeId)>,
    values: Vec<(u64, ValueId)>,
}

impl NameIndex {
    fn of(graph: &Graph) -> Self {
        let hasher = RandomState::new();
        let mut nodes: Vec<_> = graph.nodes.iter().map(|node| (hasher.hash_one(node.name.as_str()), node.id)).collect();
        let mut values: Vec<_> =
            graph.values.entries().map(|value| (hasher.hash_one(value.name.as_str()), value.id)).collect();
        nodes.sort_unstable_by_key(|(hash, _)| *hash);
        values.sort_unstable_by_key(|(hash, _)| *hash);
        Self { hasher, nodes, values }
    }

    fn find<'g, I: Copy, T>(
        &self,
        name: &str,
        list: &[(u64, I)],
        get: impl Fn(I) -> Option<&'g T>,
        name_of: impl Fn(&T) -> &str,
    ) -> Option<&'g T> {
        let wanted = self.hasher.hash_one(name);
        let start = list.partition_point(|(hash, _)| *hash < wanted);
        let same = list.iter().skip(start).take_while(|(hash, _)| *hash == wanted);
        same.filter_map(|(_, id)| get(*id)).find(|found| name_of(found) == name)
    }
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
        Self::of_parts(nodes, values.into_iter().collect(), inputs, outputs)
    }

    fn of_parts(
        nodes: Vec<Arc<Node>>,
        values: Table<ValueId, Arc<Value>>,
        inputs: Vec<ValueId>,
        outputs: Vec<GraphOutput>,
    ) -> Self {
        let mut index = Index { uses: Uses::of(&nodes, values.end()), ..Index::default() };
        for (position, node) in (0..).zip(&nodes) {
            index.positions.insert(node.id, position);
        }
        for value in outputs.iter().filter_map(GraphOutput::value) {
            index.outputs.insert(value);
        }
        Self { nodes, values, inputs, outputs, index: Arc::new(index) }
    }

    fn names(&self) -> &NameIndex {
        self.index.names.get_or_init(|| NameIndex::of(self))
    }

    /// The calls, in execution order.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(self.position(id)?).map(Arc::as_ref)
    }

    /// Where the node stands in execution order.
    pub fn position(&self, id: NodeId) -> Option<usize> {
        self.index.positions.get(id).map(|position| *position as usize)
    }

    /// The node with this name.
    pub fn node_named(&self, name: &str) -> Option<&Node> {
        let names = self.names();
        names.find(name, &names.nodes, |id| self.node(id), |node| &node.name)
    }

    /// The value with this id.
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id).map(Arc::as_ref)
    }

    /// The value with this name.
    pub fn value_named(&self, name: &str) -> Option<&Value> {
        let names = self.names();
        names.find(name, &names.values, |id| self.value(id), |value| &value.name)
    }

    /// Every value, ordered by id.
    pub fn values(&self) -> Vec<&Value> {
        self.values.entries().map(Arc::as_ref).collect()
    }

    /// Tensor metadata of a value; `None` for other kinds and unknown ids.
    pub fn tensor(&self, id: ValueId) -> Option<&TensorMeta> {
        self.value(id)?.tensor()
    }

    /// Every use by a node, in execution order; a node that reads the value through two arguments
    /// counts twice. Graph outputs are no uses: see [`Graph::is_output`].
    pub fn uses(&self, value: ValueId) -> &[Use] {
        self.index.uses.get(value)
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
