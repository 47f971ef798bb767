//! What shares storage, what is written to, what is constant.
//!
//! Every answer errs on the careful side: two values that might share storage are in one set, an
//! operator without a schema may write to everything it reads.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::{Argument, Graph, GraphOutput, Literal, Node, TensorMeta, ValueId, ValueKind, program, schema};

/// Storage facts of one graph.
#[derive(Clone, Debug, Default)]
pub struct AliasFacts {
    /// number of the set that each value is in
    set_of: HashMap<ValueId, usize>,
    sets: Vec<Vec<ValueId>>,
    /// sets that something writes to
    written: HashSet<usize>,
    constant: HashSet<ValueId>,
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
    if is_symbolic(&node.op) || KEEP_ELEMENTS.contains(&node.op.as_str()) {
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
        let mut union = Union::default();
        let mut written: Vec<ValueId> = Vec::new();
        for value in graph.values() {
            union.add(value.id);
        }
        for group in shared {
            union.join_all(group);
        }
        for node in graph.nodes() {
            join_node(node, graph, &mut union);
            for position in written_inputs(node) {
                written.extend(node.inputs.get(position).map(|input| input.arg.values()).unwrap_or_default());
            }
        }
        for output in graph.outputs() {
            if let GraphOutput::Mutation { target, .. } = output {
                written.extend(graph.inputs().iter().filter(|input| {
                    let value = graph.value(**input);
                    value.is_some_and(|value| value.name == *target || program::fqn(value) == Some(target))
                }));
            }
        }

        let mut facts = Self::default();
        for value in graph.values() {
            let root = union.root(value.id);
            let set = *facts.set_of.entry(root).or_insert_with(|| {
                facts.sets.push(Vec::new());
                facts.sets.len() - 1
            });
            facts.set_of.insert(value.id, set);
            if let Some(members) = facts.sets.get_mut(set) {
                members.push(value.id);
            }
        }
        facts.written = written.iter().filter_map(|value| facts.set_of.get(value)).copied().collect();
        facts.find_constants(graph);
        facts
    }

    fn find_constants(&mut self, graph: &Graph) {
        for input in graph.inputs() {
            let stored = graph.value(*input).is_some_and(|value| program::fqn(value).is_some());
            if stored && !self.is_mutated(*input) && graph.tensor(*input).is_some() {
                self.constant.insert(*input);
            }
        }
        for node in graph.nodes() {
            let pure = is_pure(node) || KEEP_ELEMENTS.contains(&node.op.as_str());
            if !pure || !node.input_values().all(|value| self.constant.contains(&value)) {
                continue;
            }
            for value in node.output_values() {
                if graph.tensor(value).is_some_and(fixed) && !self.is_mutated(value) {
                    self.constant.insert(value);
                }
            }
        }
    }

    /// All values that might share storage with `value`, itself included, ordered by id.
    pub fn set(&self, value: ValueId) -> &[ValueId] {
        self.set_of.get(&value).and_then(|set| self.sets.get(*set)).map_or(&[], Vec::as_slice)
    }

    /// True when the two might share storage.
    pub fn may_share(&self, a: ValueId, b: ValueId) -> bool {
        match (self.set_of.get(&a), self.set_of.get(&b)) {
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
        self.set_of.get(&value).is_none_or(|set| self.written.contains(set))
    }

    /// True when the value depends only on parameters, buffers and constants that nothing writes to,
    /// through operators that are pure and not random, and its sizes are fixed.
    pub fn is_constant(&self, value: ValueId) -> bool {
        self.constant.contains(&value)
    }
}

fn fixed(meta: &TensorMeta) -> bool {
    meta.fixed_sizes().is_some()
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

/// Disjoint sets.
#[derive(Default)]
struct Union {
    parent: HashMap<ValueId, ValueId>,
}

impl Union {
    fn add(&mut self, value: ValueId) {
        self.parent.entry(value).or_insert(value);
    }

    fn root(&mut self, value: ValueId) -> ValueId {
        let mut root = value;
        while let Some(parent) = self.parent.get(&root).copied().filter(|parent| *parent != root) {
            root = parent;
        }
        let mut at = value;
        while let Some(parent) = self.parent.insert(at, root).filter(|parent| *parent != root && *parent != at) {
            at = parent;
        }
        root
    }

    fn join_all(&mut self, values: &[ValueId]) {
        let mut roots: Vec<ValueId> = values.iter().map(|value| self.root(*value)).collect();
        let Some(first) = roots.pop() else { return };
        for root in roots {
            self.parent.insert(root, first);
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
            let constant = if facts.is_constant(id) { " constant" } else { "" };
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
            metadata: serde_json::Map::new(),
            extra: serde_json::Map::new(),
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
