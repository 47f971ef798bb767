//! What shares storage, and what is written to.
//!
//! Every answer errs on the careful side: two values that might share storage are in one set, an
//! operator without a schema may write to everything it reads.

use std::collections::HashSet;

use rustc_hash::FxHashMap;
use serde_json::Value as Json;

use super::table::IdSet;
use super::{Argument, Graph, GraphOutput, Literal, Node, ValueId, ValueKind, program, schema};

/// Storage facts of one graph.
#[derive(Clone, Debug, Default)]
pub struct AliasFacts {
    /// by value, the place of its set in `order`; `u32::MAX` for ids without a value
    set_of: Vec<u32>,
    /// all values, set by set, ordered by id within a set
    order: Vec<ValueId>,
    /// by place of a set, where the set ends
    ends: FxHashMap<u32, u32>,
    /// values whose storage something writes to
    written: IdSet<ValueId>,
}

/// Operators whose result may be (a view of) an input although their schema does not say so.
const MAY_RETURN_AN_INPUT: [&str; 30] = [
    "_cast_Byte",
    "_cast_Char",
    "_cast_Double",
    "_cast_Float",
    "_cast_Half",
    "_cast_Int",
    "_cast_Long",
    "_cast_Short",
    "_pack_padded_sequence",
    "_reshape_from_tensor",
    "_to_cpu",
    "_unsafe_view",
    "alpha_dropout",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_tensors",
    "cartesian_prod",
    "chain_matmul",
    "conj_physical",
    "data",
    "dropout",
    "einsum",
    "feature_alpha_dropout",
    "feature_dropout",
    "linalg_multi_dot",
    "meshgrid",
    "sum_to_size",
    "to_dense",
    "type_as",
];

/// Operators that write to running statistics, which their schema does not say, and the flag that makes
/// them do it.
const WRITE_STATISTICS: [(&str, &str); 5] = [
    ("aten.batch_norm.default", "training"),
    ("aten.native_batch_norm.default", "training"),
    ("aten.cudnn_batch_norm.default", "training"),
    ("aten._batch_norm_impl_index.default", "training"),
    ("aten.instance_norm.default", "use_input_stats"),
];

/// Operators whose schema says that they write, but which leave the elements as they are.
const KEEP_ELEMENTS: [&str; 2] = ["aten.detach_.default", "aten.requires_grad_.default"];

/// Operators on symbolic numbers: they read no tensor and write nothing.
fn is_symbolic(op: &str) -> bool {
    ["_operator.", "math.", "torch.sym_", "torch._sym_"].iter().any(|prefix| op.starts_with(prefix))
}

/// The operator without its namespace and overload: `softmax` of `aten.softmax.int`.
pub(super) fn base_name(op: &str) -> &str {
    op.split('.').nth(1).unwrap_or(op)
}

/// The arguments, by position in `Node::inputs`, that the node might write to.
fn written_inputs(node: &Node) -> Vec<usize> {
    let all = || (0..node.inputs.len()).collect();
    if is_symbolic(&node.op) || keeps_elements(node) {
        return Vec::new();
    }
    if node.op.starts_with("higher_order.") {
        let writes = node.inputs.iter().any(|input| match &input.arg {
            Argument::Opaque { json, .. } => subgraph_writes(json),
            _ => false,
        });
        return if writes { all() } else { Vec::new() };
    }
    let Some(schema) = schema::lookup(&node.op) else { return all() };
    let flag = WRITE_STATISTICS.iter().find(|(op, _)| *op == node.op).map(|(_, flag)| *flag);
    let statistics = flag.is_some_and(|flag| node.input(flag) != Some(&Argument::Literal(Literal::Bool(false))));
    if flag.is_none() && !schema.writes() && schema.names_all(node) {
        return Vec::new();
    }
    let written = |name: &str| {
        schema.argument(name).is_none_or(|argument| argument.written) || statistics && name.starts_with("running_")
    };
    node.inputs.iter().enumerate().filter(|(_, input)| written(&input.name)).map(|(position, _)| position).collect()
}

/// True when a subgraph, or one inside it, has a node that might write to what it reads.
fn subgraph_writes(json: &Json) -> bool {
    match json {
        Json::Object(map) => {
            let writing = map.get("target").and_then(Json::as_str).is_some_and(|target| {
                let op = target.strip_prefix("torch.ops.").unwrap_or(target);
                let known = is_symbolic(op) || op.starts_with("higher_order.") || KEEP_ELEMENTS.contains(&op);
                let statistics = WRITE_STATISTICS.iter().any(|(name, _)| *name == op);
                !known && (statistics || schema::lookup(op).is_none_or(schema::Schema::writes))
            });
            writing || map.iter().any(|(key, value)| key != "metadata" && subgraph_writes(value))
        }
        Json::Array(items) => items.iter().any(subgraph_writes),
        _ => false,
    }
}

/// True when the node only computes its outputs from its inputs: the same inputs give the same outputs,
/// and nothing else happens. Such a node may go when nothing uses it.
pub fn is_pure(node: &Node) -> bool {
    if is_symbolic(&node.op) {
        return true;
    }
    let Some(schema) = schema::lookup(&node.op) else { return false };
    let off = |flag: &str| node.input(flag) == Some(&Argument::Literal(Literal::Bool(false)));
    let random = schema.random && !off("train") && !off("training");
    let tensors = schema.returns.iter().all(|item| matches!(item.kind, schema::Kind::Tensor | schema::Kind::Tensors));
    let size_query = node.op.starts_with("aten.sym_");
    !random
        && !schema.returns.is_empty()
        && (tensors || size_query)
        && written_inputs(node).is_empty()
        && !schema.writes()
}

impl AliasFacts {
    /// Computes the facts of a graph; `shared` lists groups of inputs that are known to be one storage.
    pub fn of(graph: &Graph, shared: &[Vec<ValueId>]) -> Self {
        let mut union = Union::new(graph.values.end());
        let mut written: Vec<ValueId> = Vec::new();
        for group in shared {
            union.join_all(group);
        }
        for node in graph.flow().touching_memory().filter_map(|id| graph.node(id)) {
            join_node(node, graph, &mut union);
            for position in written_inputs(node) {
                written.extend(node.inputs.get(position).into_iter().flat_map(|input| input.arg.each_value()));
            }
        }
        let targets: HashSet<&str> = graph
            .outputs()
            .iter()
            .filter_map(|output| match output {
                GraphOutput::Mutation { target, .. } => Some(target.as_str()),
                _ => None,
            })
            .collect();
        if !targets.is_empty() {
            written.extend(graph.inputs().iter().filter(|input| {
                let value = graph.value(**input);
                value.is_some_and(|value| {
                    targets.contains(value.name.as_str())
                        || program::fqn(value).is_some_and(|fqn| targets.contains(fqn))
                })
            }));
        }

        let mut facts = Self::default();
        facts.list_sets(graph, &mut union);
        for value in written {
            if facts.is_mutated(value) {
                continue;
            }
            for member in facts.place(value).map(|place| facts.members(place).to_vec()).unwrap_or_default() {
                facts.written.insert(member);
            }
        }
        facts
    }

    /// Sorts the values by set and notes where each set is.
    fn list_sets(&mut self, graph: &Graph, union: &mut Union) {
        self.set_of = vec![u32::MAX; graph.values.end()];
        // By root, how many members; then where the next member goes.
        let mut counts = vec![0_u32; graph.values.end()];
        let mut count = |root: u32, by: u32| {
            counts.get_mut(root as usize).map_or(0, |count| {
                *count += by;
                *count - by
            })
        };
        let mut total = 0;
        for value in graph.value_ids() {
            count(union.root(value), 1);
            total += 1;
        }
        // A set stands where its first value comes; single values, nearly all of them, need no entry in `ends`.
        let mut starts = vec![u32::MAX; graph.values.end()];
        self.order = vec![ValueId(u32::MAX); total];
        let mut end = 0_u32;
        let mut filled: FxHashMap<u32, u32> = FxHashMap::default();
        for value in graph.value_ids() {
            let root = union.root(value);
            let Some(start) = starts.get_mut(root as usize) else { continue };
            if *start == u32::MAX {
                *start = end;
                let members = count(root, 0);
                end += members;
                if members > 1 {
                    self.ends.insert(*start, end);
                    filled.insert(*start, 0);
                }
            }
            let offset = filled.get_mut(start).map_or(0, |filled| {
                *filled += 1;
                *filled - 1
            });
            if let Some(slot) = self.order.get_mut((*start + offset) as usize) {
                *slot = value;
            }
            if let Some(slot) = self.set_of.get_mut(value.0 as usize) {
                *slot = *start;
            }
        }
    }

    /// Where the value's set is: the same for two values of one set.
    pub(crate) fn place(&self, value: ValueId) -> Option<u32> {
        self.set_of.get(value.0 as usize).copied().filter(|place| *place != u32::MAX)
    }

    fn members(&self, place: u32) -> &[ValueId] {
        let end = self.ends.get(&place).copied().unwrap_or(place + 1);
        self.order.get(place as usize..end as usize).unwrap_or_default()
    }

    /// All values that might share storage with `value`, itself included, ordered by id.
    pub fn set(&self, value: ValueId) -> &[ValueId] {
        self.place(value).map(|place| self.members(place)).unwrap_or_default()
    }

    /// True when the two might share storage.
    pub fn may_share(&self, a: ValueId, b: ValueId) -> bool {
        match (self.place(a), self.place(b)) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
    }

    /// True when something else might share the value's storage.
    pub fn is_aliased(&self, value: ValueId) -> bool {
        self.set(value).len() != 1
    }

    /// True when something might write into the value's storage, at any time.
    pub fn is_mutated(&self, value: ValueId) -> bool {
        self.written.contains(value) || self.place(value).is_none()
    }

    /// True when something might write into the storage of a value of the graph.
    pub(crate) fn mutates_anything(&self) -> bool {
        !self.written.is_empty()
    }
}

/// False when the node neither writes to what it reads nor makes values share storage.
pub(super) fn touches_memory(node: &Node) -> bool {
    if is_symbolic(&node.op) {
        return false;
    }
    let Some(schema) = schema::lookup(&node.op) else { return true };
    MAY_RETURN_AN_INPUT.contains(&base_name(&node.op))
        || schema.returns.len() != node.outputs.len()
        || schema.returns.iter().any(|item| !item.alias.is_empty())
        || !written_inputs(node).is_empty()
}

/// True for operators whose schema says that they write, but which leave the elements as they are.
pub(super) fn keeps_elements(node: &Node) -> bool {
    KEEP_ELEMENTS.contains(&node.op.as_str())
}

/// Puts values into one set that the node may make share storage.
fn join_node(node: &Node, graph: &Graph, union: &mut Union) {
    if is_symbolic(&node.op) {
        return;
    }
    let tensor = |value: &ValueId| !matches!(graph.value(*value).map(|value| &value.kind), Some(ValueKind::SymInt(_)));
    let all = || -> Vec<ValueId> { node.input_values().chain(node.output_values()).filter(tensor).collect() };
    let Some(schema) = schema::lookup(&node.op).filter(|_| !MAY_RETURN_AN_INPUT.contains(&base_name(&node.op))) else {
        union.join_all(&all());
        return;
    };
    if schema.returns.len() != node.outputs.len() {
        union.join_all(&all());
        return;
    }
    for (item, output) in schema.returns.iter().zip(&node.outputs) {
        if item.alias.is_empty() {
            continue;
        }
        let mut group: Vec<ValueId> = match output {
            super::NodeOutput::Value(value) => vec![*value],
            super::NodeOutput::Values(values) => values.clone(),
            super::NodeOutput::Opaque(_) => Vec::new(),
        };
        for input in &node.inputs {
            let letters = schema.argument(&input.name).map_or("", |argument| argument.alias.as_str());
            if letters.chars().any(|letter| letter == '*' || item.alias.contains(letter)) {
                group.extend(input.arg.values().into_iter().filter(tensor));
            }
        }
        union.join_all(&group);
    }
}

/// Disjoint sets of values, by id.
struct Union {
    parent: Vec<u32>,
}

impl Union {
    fn new(values: usize) -> Self {
        Self { parent: (0..u32::try_from(values).unwrap_or(u32::MAX)).collect() }
    }

    fn root(&mut self, value: ValueId) -> u32 {
        let mut at = value.0;
        // Each step halves the way for the next time.
        while let Some(parent) = self.parent.get(at as usize).copied().filter(|parent| *parent != at) {
            let above = self.parent.get(parent as usize).copied().unwrap_or(parent);
            if let Some(slot) = self.parent.get_mut(at as usize) {
                *slot = above;
            }
            at = above;
        }
        at
    }

    fn join_all(&mut self, values: &[ValueId]) {
        let Some((first, others)) = values.split_first() else { return };
        for other in others {
            let (one, other) = (self.root(*first), self.root(*other));
            // The smaller id stays on top, so that chains stay short where values come in order.
            let (top, below) = (one.min(other), one.max(other));
            if let Some(slot) = self.parent.get_mut(below as usize) {
                *slot = top;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    /// `name: shares with … [written] [constant]` for the values asked for.
    fn facts(program: &str, names: &[&str]) -> Vec<String> {
        let program = fixtures::program(program);
        let graph = program.graph();
        let facts = program.aliases();
        let describe = |name: &&str| {
            let id = graph.value_named(name).unwrap_or_else(|| panic!("no value {name}")).id;
            let mut others: Vec<&str> = facts
                .set(id)
                .iter()
                .filter(|other| **other != id)
                .filter_map(|other| graph.value(*other).map(|value| value.name.as_str()))
                .collect();
            others.sort_unstable();
            let mutated = if facts.is_mutated(id) { " written" } else { "" };
            let constant = if program.is_constant(id) { " constant" } else { "" };
            assert_eq!(facts.is_aliased(id), !others.is_empty());
            format!("{name}: [{}]{mutated}{constant}", others.join(" "))
        };
        names.iter().map(describe).collect()
    }

    #[test]
    fn in_place_operators_write_through_views_but_not_through_copies() {
        assert_eq!(
            facts("in_place", &["conv2d", "select", "x", "clone", "p_conv_weight"]),
            [
                "conv2d: [mul_ relu_ select view] written",
                "select: [conv2d mul_ relu_ view] written",
                "x: []",
                "clone: [add_] written",
                "p_conv_weight: [] constant",
            ]
        );
    }

    #[test]
    fn buffers_that_are_written_are_no_constants() {
        assert_eq!(
            facts("mutated_buffer", &["b_total", "b_calls", "mul"]),
            ["b_total: [add_] written", "b_calls: [add__1] written", "mul: []"]
        );
        assert_eq!(
            facts("mutated_buffer_decomposed", &["b_total", "add", "mul"]),
            ["b_total: [] written", "add: []", "mul: []"]
        );
        assert_eq!(
            facts("batch_norm", &["b_norm_running_mean", "p_norm_weight"]),
            ["b_norm_running_mean: [] constant", "p_norm_weight: [] constant"]
        );
        assert_eq!(
            facts("batch_norm_training", &["b_norm_running_mean", "b_norm_num_batches_tracked", "p_norm_weight"]),
            [
                "b_norm_running_mean: [] written",
                "b_norm_num_batches_tracked: [add_] written",
                "p_norm_weight: [] constant"
            ]
        );
    }

    #[test]
    fn tied_weights_and_buffers_of_one_storage_share_it() {
        assert_eq!(
            facts("tied_weights", &["p_head_weight", "b_part", "tokens"]),
            [
                "p_head_weight: [p_embedding_weight] constant",
                "b_part: [b_turned b_whole select select_1] constant",
                "tokens: []"
            ]
        );
    }

    #[test]
    fn lifted_constants_stay_constant_through_the_exporters_detach() {
        assert_eq!(
            facts("integers", &["c_lifted_tensor_0", "detach_", "embedding"]),
            ["c_lifted_tensor_0: [] constant", "detach_: [lift_fresh_copy] constant", "embedding: []"]
        );
    }

    #[test]
    fn control_flow_may_return_what_it_is_given_but_does_not_write_here() {
        let values = facts("cond", &["linear", "getitem"]);
        assert!(values[0].contains("getitem") && !values[0].contains("written"), "{values:?}");
    }

    #[test]
    fn random_and_effectful_operators_are_not_pure() {
        let node = |op: &str, inputs: &[(&str, Literal)]| Node {
            id: super::super::NodeId(0),
            name: "n".to_owned(),
            op: op.to_owned(),
            inputs: inputs
                .iter()
                .map(|(name, literal)| super::super::NodeInput {
                    name: (*name).to_owned(),
                    arg: Argument::Literal(literal.clone()),
                    keyword: false,
                })
                .collect(),
            outputs: Vec::new(),
            metadata: std::sync::Arc::default(),
            extra: std::sync::Arc::default(),
        };
        for (op, pure) in [
            ("aten.relu.default", true),
            ("aten.relu_.default", false),
            ("aten.rand.default", false),
            ("aten._assert_async.msg", false),
            ("aten.item.default", false),
            ("aten.sym_size.int", true),
            ("_operator.mul", true),
            ("mine.own.default", false),
            ("higher_order.cond", false),
        ] {
            assert_eq!(is_pure(&node(op, &[])), pure, "{op}");
        }
        assert!(is_pure(&node("aten.dropout.default", &[("train", Literal::Bool(false))])));
        assert!(!is_pure(&node("aten.dropout.default", &[("train", Literal::Bool(true))])));
        let statistics = ("running_mean", Literal::None);
        assert!(!is_pure(&node("aten.batch_norm.default", &[statistics, ("training", Literal::Bool(true))])));
        assert!(is_pure(&node("aten.batch_norm.default", &[("training", Literal::Bool(false))])));
    }
}
