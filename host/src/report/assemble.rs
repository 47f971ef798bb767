//! From what stages found to what the report keeps.
//!
//! In: profiles, rankings, graphs, benchmark outcomes. Out: the plain records of [`super::model`], every
//! number with its label.

use std::collections::BTreeMap;

use super::breakdown::{InstructionModule, ProfileDocument};
use super::model::{
    CrossCheck, Diagram, DiagramEdge, DiagramNode, Hotspot, HotspotNode, NodeRole, Placement, Profile, RuleVerdict,
    Site, Subgraph, TensorSummary,
};
use crate::evidence::{Evidence, Interval, Measured, TargetLabel, median};
use crate::graph::{Argument, Dim, Graph, Literal, Node, NodeId, SymIntArgument, TensorMeta, ValueId, ValueKind};
use crate::lower::LoweredProgram;
use crate::profile;
use crate::rank::{HotNode, Ranking};
use crate::torch::protocol::SourceLine;

/// How many nodes a diagram may show before it says that there are more.
const DIAGRAM_NODES: usize = 24;

/// A measured number.
pub fn measured(value: f64, unit: &str, target: &TargetLabel, samples: u64, interval: Option<Interval>) -> Evidence {
    Evidence::Measured(Measured { value, unit: unit.to_owned(), target: target.clone(), samples, interval })
}

/// Figures of the untraced runs of a program.
#[derive(Clone, Debug, Default)]
pub struct Untraced {
    /// median, ms
    pub median_ms: f64,
    /// of the median
    pub interval: Option<Interval>,
    /// how many
    pub samples: u64,
    /// peak resident memory of the runner, bytes
    pub peak_memory_bytes: Option<u64>,
}

impl Untraced {
    /// Summarises samples.
    pub fn of(samples_ns: &[u64], peak_memory_bytes: Option<u64>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a run of 2^53 ns would last for months")]
        let ms: Vec<f64> = samples_ns.iter().map(|&ns| ns as f64 / 1e6).collect();
        Self {
            median_ms: median(&ms).unwrap_or(0.0),
            interval: Interval::of_median(&ms, 0.95),
            samples: ms.len() as u64,
            peak_memory_bytes,
        }
    }
}

/// What rules said, by name and op of the exported node.
pub type Verdicts = BTreeMap<(String, String), Vec<RuleVerdict>>;

/// The record of a profiled program.
pub fn profile(
    graph: &Graph,
    lowered: &LoweredProgram,
    profile: &profile::Profile,
    ranking: &Ranking,
    untraced: &Untraced,
    verdicts: &Verdicts,
) -> Profile {
    let target = &profile.target;
    let samples = profile.runs as u64;
    let accounting = &profile.accounting;
    let hotspots = ranking
        .all()
        .map(|hotspot| Hotspot {
            kernel: hotspot.kernel.clone(),
            share: measured(hotspot.share, "share", target, samples, Some(hotspot.interval)),
            time: Some(measured(hotspot.time_ns / 1e6, "ms", target, samples, None)),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
            calls: hotspot.calls.round().max(0.0) as u64,
            nodes: hotspot.nodes.iter().map(|node| hotspot_node(graph, node, target, samples, verdicts)).collect(),
        })
        .collect();
    Profile {
        delegation: Evidence::Measured(profile.delegation_measured()),
        method_time: measured(untraced.median_ms, "ms", target, untraced.samples, untraced.interval),
        partitions: lowered.record.delegates.len() as u64,
        fallbacks: lowered.record.fallbacks.len() as u64,
        delegated_nodes: lowered.record.delegated_nodes,
        cross_check: Some(CrossCheck {
            agrees: accounting.agrees,
            note: format!(
                "the instructions add up to {:.3} ms, the method took {:.3} ms in the traced runs ({:.1} % unaccounted)",
                accounting.instructions_ns / 1e6,
                accounting.method_ns / 1e6,
                accounting.unaccounted_share * 100.0
            ),
        }),
        program_bytes: lowered.record.bytes,
        peak_memory: peak_memory(untraced, target),
        hotspots,
    }
}

/// Everything that a profile shows of a program, but for the threads that it ran on.
pub fn profile_document(
    subject: &str,
    graph: Option<&Graph>,
    lowered: &LoweredProgram,
    profile: &profile::Profile,
    untraced: &Untraced,
) -> ProfileDocument {
    let target = &profile.target;
    ProfileDocument {
        untraced: Some(measured(untraced.median_ms, "ms", target, untraced.samples, untraced.interval)),
        program_bytes: Some(lowered.record.bytes),
        peak_memory: peak_memory(untraced, target),
        reasons: lowered.record.fallbacks.iter().map(Into::into).collect(),
        modules: graph.map_or_else(Vec::new, |graph| modules(graph, lowered)),
        ..ProfileDocument::of_trace(subject.to_owned(), target.clone(), profile::Breakdown::of(profile))
    }
}

/// The module that holds every node of an instruction.
fn modules(graph: &Graph, lowered: &LoweredProgram) -> Vec<InstructionModule> {
    let delegates = lowered.record.delegates.iter().map(|call| (call.instruction, &call.original_nodes));
    let fallbacks = lowered.record.fallbacks.iter().map(|fallback| (fallback.instruction, &fallback.original_nodes));
    let found = delegates.chain(fallbacks).filter_map(|(instruction, names)| {
        let mut nodes = names.iter().filter_map(|name| graph.node_named(name)).peekable();
        let first: Vec<&str> = nodes.peek()?.module_path().split('.').collect();
        let mut shared = first.len();
        let mut count = 0;
        for node in nodes {
            let same = first.iter().zip(node.module_path().split('.')).take_while(|(a, b)| **a == *b).count();
            shared = shared.min(same);
            count += 1;
        }
        let module_path = first.get(..shared).unwrap_or_default().join(".");
        Some(InstructionModule { instruction, module_path, nodes: count })
    });
    let mut found: Vec<InstructionModule> = found.collect();
    found.sort_by_key(|it| it.instruction);
    found
}

fn peak_memory(untraced: &Untraced, target: &TargetLabel) -> Option<Evidence> {
    untraced.peak_memory_bytes.map(|bytes| {
        #[expect(clippy::cast_precision_loss, reason = "memory sizes stay far below 2^53")]
        measured(bytes as f64, "bytes", target, 1, None)
    })
}

fn hotspot_node(graph: &Graph, node: &HotNode, target: &TargetLabel, samples: u64, verdicts: &Verdicts) -> HotspotNode {
    let name = node.original_nodes.first().cloned().unwrap_or_else(|| node.edge_op.clone());
    let shape = graph
        .node_named(&name)
        .and_then(|node| node.output_values().next())
        .map(|value| shape_of(graph, value))
        .unwrap_or_default();
    HotspotNode {
        op: node.edge_op.clone(),
        shape,
        share: Some(measured(node.share, "share", target, samples, None)),
        source: node.source.clone(),
        module_path: node.module_path.clone(),
        reason: node.reason.clone(),
        rules: node
            .original_nodes
            .iter()
            .filter_map(|name| verdicts.get(&(name.clone(), graph.node_named(name)?.op.clone())))
            .flatten()
            .cloned()
            .collect(),
        node: name,
    }
}

/// A site of the report from a node of the graph.
pub fn site(graph: &Graph, node: NodeId, sources: &BTreeMap<String, (Option<SourceLine>, String)>) -> Site {
    let Some(node) = graph.node(node) else {
        return Site { node: node.to_string(), op: String::new(), source: None, module_path: String::new() };
    };
    let (source, module_path) = sources.get(&node.name).cloned().unwrap_or_default();
    Site { node: node.name.clone(), op: node.op.clone(), source, module_path }
}

/// The user's line and the module path of every node that stayed outside, by name of the exported node.
pub fn sources(ranking: &Ranking) -> BTreeMap<String, (Option<SourceLine>, String)> {
    let mut sources = BTreeMap::new();
    for node in ranking.all().flat_map(|hotspot| &hotspot.nodes) {
        for name in &node.original_nodes {
            sources.entry(name.clone()).or_insert_with(|| (node.source.clone(), node.module_path.clone()));
        }
    }
    sources
}

/// A tensor as the report names it.
pub fn tensor_summary(graph: &Graph, value: ValueId) -> Option<TensorSummary> {
    let value = graph.value(value)?;
    let meta = value.tensor()?;
    Some(TensorSummary {
        name: value.name.clone(),
        dtype: meta.dtype.torch_name().to_owned(),
        sizes: meta.sizes.iter().map(dim_text).collect(),
    })
}

/// What an old and a new subgraph look like. Sites of the same form share one diagram.
pub fn diagrams(before: &Graph, after: &Graph, sites: &[SiteChange], outside: &dyn Fn(&str) -> bool) -> Vec<Diagram> {
    let mut diagrams: Vec<(String, Diagram)> = Vec::new();
    for site in sites {
        let old = subgraph(before, &site.removed, NodeRole::Removed, outside);
        let new = subgraph(after, &site.created, NodeRole::Added, &|_| false);
        let form = format!("{:?}", (form(&old), form(&new)));
        if let Some((_, diagram)) = diagrams.iter_mut().find(|(other, _)| *other == form) {
            diagram.sites += 1;
        } else {
            diagrams.push((form, Diagram { title: site.title.clone(), sites: 1, before: old, after: new }));
        }
    }
    diagrams.into_iter().map(|(_, diagram)| diagram).collect()
}

/// The nodes that one site lost and gained.
#[derive(Clone, Debug, Default)]
pub struct SiteChange {
    /// anchor's name
    pub title: String,
    /// in the old graph
    pub removed: Vec<NodeId>,
    /// in the new graph
    pub created: Vec<NodeId>,
}

fn form(graph: &Subgraph) -> Vec<(String, String)> {
    graph.nodes.iter().map(|node| (node.op.clone(), node.arguments.clone())).collect()
}

fn subgraph(graph: &Graph, nodes: &[NodeId], role: NodeRole, outside: &dyn Fn(&str) -> bool) -> Subgraph {
    let mut drawn = Subgraph::default();
    let mut ordered: Vec<&Node> = nodes.iter().filter_map(|id| graph.node(*id)).collect();
    ordered.sort_by_key(|node| graph.position(node.id));
    let more = ordered.len().saturating_sub(DIAGRAM_NODES);
    ordered.truncate(DIAGRAM_NODES);
    let inside: BTreeMap<ValueId, &str> =
        ordered.iter().flat_map(|node| node.output_values().map(|value| (value, node.name.as_str()))).collect();
    let mut inputs: Vec<ValueId> = Vec::new();
    for value in ordered.iter().flat_map(|node| node.input_values()) {
        if !inside.contains_key(&value) && !inputs.contains(&value) {
            inputs.push(value);
        }
    }
    let name_of = |value: ValueId| graph.value(value).map_or_else(|| value.to_string(), |value| value.name.clone());
    for value in &inputs {
        drawn.nodes.push(DiagramNode {
            id: format!("value {}", name_of(*value)),
            op: name_of(*value),
            arguments: String::new(),
            shape: shape_of(graph, *value),
            role: NodeRole::Input,
            placement: None,
        });
    }
    for node in &ordered {
        drawn.nodes.push(DiagramNode {
            id: node.name.clone(),
            op: node.op.clone(),
            arguments: arguments_of(node),
            shape: node.output_values().next().map(|value| shape_of(graph, value)).unwrap_or_default(),
            role,
            placement: outside(&node.name).then_some(Placement::Fallback),
        });
        for value in node.input_values() {
            let from =
                inside.get(&value).map_or_else(|| format!("value {}", name_of(value)), |name| (*name).to_owned());
            let edge = DiagramEdge { from, to: node.name.clone() };
            if !drawn.edges.contains(&edge) {
                drawn.edges.push(edge);
            }
        }
    }
    for (value, name) in &inside {
        let leaves = graph.is_output(*value)
            || graph.uses(*value).iter().any(|used| !ordered.iter().any(|node| node.id == used.node));
        if leaves {
            let id = format!("out {}", name_of(*value));
            drawn.edges.push(DiagramEdge { from: (*name).to_owned(), to: id.clone() });
            drawn.nodes.push(DiagramNode {
                id,
                op: name_of(*value),
                arguments: String::new(),
                shape: String::new(),
                role: NodeRole::Output,
                placement: None,
            });
        }
    }
    if more > 0 {
        drawn.nodes.push(DiagramNode {
            id: "more".to_owned(),
            op: format!("{more} more nodes"),
            arguments: String::new(),
            shape: String::new(),
            role: NodeRole::Kept,
            placement: None,
        });
    }
    drawn
}

/// `float32 1×21×256×256`; empty for what is no tensor.
pub fn shape_of(graph: &Graph, value: ValueId) -> String {
    match graph.value(value).map(|value| &value.kind) {
        Some(ValueKind::Tensor(meta)) => meta_text(meta),
        _ => String::new(),
    }
}

fn meta_text(meta: &TensorMeta) -> String {
    let sizes: Vec<String> = meta.sizes.iter().map(dim_text).collect();
    format!("{} {}", meta.dtype.torch_name(), sizes.join("×")).trim_end().to_owned()
}

fn dim_text(dim: &Dim) -> String {
    match dim {
        Dim::Fixed(size) => size.to_string(),
        // `Symbol('s77', …)` is the exporter's spelling; people know it as s77.
        Dim::Symbolic(symbol) => symbol
            .expression
            .strip_prefix("Symbol('")
            .and_then(|rest| rest.split_once('\''))
            .map_or_else(|| symbol.expression.clone(), |(name, _)| name.to_owned()),
    }
}

fn arguments_of(node: &Node) -> String {
    let texts: Vec<String> = node
        .inputs
        .iter()
        .filter_map(|input| {
            let text = match &input.arg {
                Argument::Literal(Literal::None) => return None,
                Argument::Literal(literal) => literal_text(literal),
                Argument::SymInts(items) => {
                    let items: Vec<String> = items
                        .iter()
                        .map(|item| match item {
                            SymIntArgument::Fixed(number) => number.to_string(),
                            SymIntArgument::Value(_) => "?".to_owned(),
                        })
                        .collect();
                    format!("[{}]", items.join(", "))
                }
                _ => return None,
            };
            Some(format!("{}={text}", input.name))
        })
        .collect();
    texts.join(", ")
}

fn literal_text(literal: &Literal) -> String {
    fn list<T: std::fmt::Display>(items: &[T]) -> String {
        let items: Vec<String> = items.iter().map(T::to_string).collect();
        format!("[{}]", items.join(", "))
    }
    match literal {
        Literal::None => "None".to_owned(),
        Literal::Int(number) => number.to_string(),
        Literal::Ints(items) => list(items),
        Literal::Float(number) => number.to_string(),
        Literal::Floats(items) => list(items),
        Literal::Bool(value) => value.to_string(),
        Literal::Bools(items) => list(items),
        Literal::Text(text) | Literal::Device(text) => text.clone(),
        Literal::Texts(items) => list(items),
        Literal::ScalarType(dtype) => dtype.torch_name().to_owned(),
        Literal::MemoryFormat(format) => format!("{format:?}").to_lowercase(),
        Literal::Layout(code) => code.to_string(),
        Literal::Other(_) => "…".to_owned(),
    }
}
