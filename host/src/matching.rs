//! From a graph to the places that a rule wants to see.
//!
//! In: a program, what lowering and profiling found about its nodes ([`Facts`]), a rule's manifest. Out:
//! [`Match`]es in execution order, each an anchor with its bounded surroundings as a [`Site`] and the way
//! back from the site's ids to the graph's.
//!
//! The [`Index`] is built once for a graph and shared by all rules. A site is a value: two places that look
//! the same give equal sites wherever they are, so a verdict can be remembered.
//!
//! Operators without a schema are no anchors; as neighbours they come as they were exported.

mod convert;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::alias::AliasFacts;
use crate::graph::{Graph, Node, NodeId, NodeInput, Program, ValueId, ValueKind, schema};
use crate::sandbox::contract::{self, Anchor, Manifest, Site, TargetInfo, UseSite};

pub use convert::{from_literal, from_scalar_type, to_literal, to_meta, to_scalar_type};

/// Nodes of a site.
pub const MOST_NODES: usize = 64;
/// Values of a site.
pub const MOST_VALUES: usize = 256;
/// Producers of producers that an anchor can ask for.
pub const MOST_PRODUCER_DEPTH: u8 = 2;
/// Consumers of consumers that an anchor can ask for.
pub const MOST_CONSUMER_DEPTH: u8 = 1;
/// Bytes of a site, roughly as they are copied into the rule.
pub const MOST_BYTES: usize = 256 << 10;
/// Sites that a rule is asked about in one graph.
pub const MOST_SITES: usize = 10_000;

/// What is known about a graph's nodes from lowering and profiling it, by node name.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// what the program is lowered for
    pub target: Target,
    /// nodes that the backend did not take, with what its partitioner said; nodes that are missing here
    /// are inside the delegate or were not lowered
    pub outside: BTreeMap<String, Vec<Remark>>,
    /// measured share of the method's run time, 0 to 1
    pub share: BTreeMap<String, f64>,
}

/// What the program is lowered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// e.g. `xnnpack`
    pub backend: String,
    /// e.g. `1.5.1`
    pub backend_version: String,
    /// e.g. `torch 2.15.0`
    pub exporter: String,
}

impl Default for Target {
    fn default() -> Self {
        Self { backend: "xnnpack".to_owned(), backend_version: String::new(), exporter: String::new() }
    }
}

/// Why the partitioner refused a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// stable code
    pub code: String,
    /// in its own words
    pub text: String,
}

/// A site and where it is.
#[derive(Clone, Debug)]
pub struct Match {
    /// the anchor
    pub anchor: NodeId,
    /// what the rule is shown
    pub site: Site,
    /// graph node of each site node, by site id
    pub nodes: Vec<NodeId>,
    /// graph value of each site value, by site id
    pub values: Vec<ValueId>,
}

/// All matches of one rule.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// in execution order
    pub matches: Vec<Arc<Match>>,
    /// nodes that match an anchor but were left out, and why
    pub left_out: Vec<LeftOut>,
}

/// A node that matches an anchor and is not shown to the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// the node
    pub node: NodeId,
    /// why
    pub reason: String,
}

/// Look-ups that all rules share, and the sites that have been cut.
#[derive(Debug)]
pub struct Index<'a> {
    program: &'a Program,
    graph: &'a Graph,
    aliases: &'a AliasFacts,
    facts: &'a Facts,
    returned: FxHashMap<ValueId, u32>,
    cut: Mutex<FxHashMap<Shape, Arc<Match>>>,
}

/// What a site depends on, for one graph: the anchor, the depths, and which anchor of the manifest it is.
type Shape = (NodeId, u8, u8, usize);

impl<'a> Index<'a> {
    /// Builds the look-ups.
    pub fn new(program: &'a Program, facts: &'a Facts) -> Self {
        let graph = program.graph();
        let mut returned: FxHashMap<ValueId, u32> = FxHashMap::default();
        for value in graph.outputs().iter().filter_map(crate::graph::GraphOutput::value) {
            *returned.entry(value).or_default() += 1;
        }
        Self { program, graph, aliases: program.aliases(), facts, returned, cut: Mutex::default() }
    }

    /// The places that a rule wants to see, in execution order. Nodes that the rule itself made
    /// are left out.
    pub fn matches(&self, manifest: &Manifest) -> Matches {
        let mut result = Matches::default();
        let backend = &self.facts.target.backend;
        if !manifest.backends.is_empty() && !manifest.backends.contains(backend) {
            return result;
        }
        let mut anchors: Vec<(usize, NodeId, usize)> = Vec::new();
        let mut seen = FxHashSet::default();
        for (index, anchor) in manifest.anchors.iter().enumerate() {
            for op in &anchor.ops {
                for (position, node) in self.graph.calls_of(op) {
                    if self.graph.node(node).is_some_and(|node| self.wants(anchor, node)) && seen.insert(node) {
                        anchors.push((position, node, index));
                    }
                }
            }
        }
        anchors.sort_unstable();
        for (count, (_, node, index)) in anchors.into_iter().enumerate() {
            let (Some(node), Some(anchor)) = (self.graph.node(node), manifest.anchors.get(index)) else { continue };
            let left_out = |reason: &str| LeftOut { node: node.id, reason: reason.to_owned() };
            if count >= MOST_SITES {
                result.left_out.push(left_out("the rule has been asked about enough places of this graph"));
            } else if made_by(node).is_some_and(|rule| rule == manifest.id) {
                result.left_out.push(left_out("the rule made this node itself"));
            } else if schema::complete(node).is_none() {
                result.left_out.push(left_out("the operator's schema is not known"));
            } else {
                match self.cut(node, anchor, index) {
                    Some(one) => result.matches.push(one),
                    None => result.left_out.push(left_out("its arguments are too large to be shown")),
                }
            }
        }
        result
    }

    fn wants(&self, anchor: &Anchor, node: &Node) -> bool {
        if anchor.only_outside_delegate && !self.facts.outside.contains_key(&node.name) {
            return false;
        }
        anchor.producers.iter().all(|constraint| {
            node.input(&constraint.input).is_some_and(|argument| {
                let mut values = argument.each_value().peekable();
                values.peek().is_some()
                    && values.all(|value| {
                        self.graph.producer(value).is_some_and(|producer| constraint.ops.contains(&producer.op))
                    })
            })
        })
    }

    /// The site around an anchor, cut once for all rules; `None` when the anchor alone is too large.
    fn cut(&self, anchor: &Node, wanted: &Anchor, index: usize) -> Option<Arc<Match>> {
        let shape = (anchor.id, wanted.producer_depth, wanted.consumer_depth, index);
        // The map is whole between any two statements that can panic.
        let known = self.cut.lock().unwrap_or_else(PoisonError::into_inner).get(&shape).map(Arc::clone);
        if known.is_some() {
            return known;
        }
        let mut cutter = Cutter::new(self);
        if !cutter.add(anchor) {
            return None;
        }
        cutter.walk(anchor, wanted.producer_depth.min(MOST_PRODUCER_DEPTH), |graph, node| {
            node.input_values().filter_map(|value| graph.producer(value)).map(|node| node.id).collect()
        });
        cutter.walk(anchor, wanted.consumer_depth.min(MOST_CONSUMER_DEPTH), |graph, node| graph.consumers(node.id));
        let shown = wanted.producer_depth <= MOST_PRODUCER_DEPTH && wanted.consumer_depth <= MOST_CONSUMER_DEPTH;
        let cut = Arc::new(cutter.finish(u32::try_from(index).unwrap_or(u32::MAX), shown));
        self.cut.lock().unwrap_or_else(PoisonError::into_inner).insert(shape, Arc::clone(&cut));
        Some(cut)
    }
}

/// The id of the rule that made a node.
pub fn made_by(node: &Node) -> Option<&str> {
    let origin = node.metadata.get(crate::graph::ORIGIN_KEY)?.as_str()?;
    Some(origin.split_once('@').map_or(origin, |(rule, _)| rule))
}

/// Collects nodes and values of one site.
struct Cutter<'i, 'a> {
    index: &'i Index<'a>,
    nodes: Vec<(NodeId, Vec<NodeInput>)>,
    node_ids: FxHashMap<NodeId, u32>,
    values: Vec<ValueId>,
    value_ids: FxHashMap<ValueId, u32>,
    bytes: usize,
    complete: bool,
}

impl<'i, 'a> Cutter<'i, 'a> {
    fn new(index: &'i Index<'a>) -> Self {
        Self {
            index,
            nodes: Vec::new(),
            node_ids: FxHashMap::default(),
            values: Vec::new(),
            value_ids: FxHashMap::default(),
            bytes: 0,
            complete: true,
        }
    }

    /// Takes a node in; false when a limit does not allow it.
    fn add(&mut self, node: &Node) -> bool {
        let inputs = schema::complete(node).unwrap_or_else(|| node.inputs.clone());
        let mut mentioned: Vec<ValueId> = Vec::new();
        for value in inputs.iter().flat_map(|input| input.arg.each_value()).chain(node.output_values()) {
            if self.is_shown(value) && !self.value_ids.contains_key(&value) && !mentioned.contains(&value) {
                mentioned.push(value);
            }
            if mentioned.len() > MOST_VALUES {
                break;
            }
        }
        let bytes = convert::weight(node, &inputs) + mentioned.len() * 256;
        if self.nodes.len() >= MOST_NODES
            || self.values.len() + mentioned.len() > MOST_VALUES
            || self.bytes + bytes > MOST_BYTES
        {
            self.complete = false;
            return false;
        }
        self.bytes += bytes;
        self.node_ids.insert(node.id, id(self.nodes.len()));
        self.nodes.push((node.id, inputs));
        for value in mentioned {
            self.value_ids.insert(value, id(self.values.len()));
            self.values.push(value);
        }
        true
    }

    /// Symbolic numbers are shown inside arguments, not as values.
    fn is_shown(&self, value: ValueId) -> bool {
        !matches!(self.index.graph.value(value).map(|value| &value.kind), Some(ValueKind::SymInt(_)) | None)
    }

    fn walk(&mut self, from: &Node, depth: u8, next: impl Fn(&Graph, &Node) -> Vec<NodeId>) {
        let graph = self.index.graph;
        let mut queue = VecDeque::from([(from.id, 0)]);
        while let Some((node, distance)) = queue.pop_front() {
            let Some(node) = graph.node(node).filter(|_| distance < depth) else { continue };
            for neighbour in next(graph, node) {
                let Some(neighbour) = graph.node(neighbour) else { continue };
                if self.node_ids.contains_key(&neighbour.id) || self.add(neighbour) {
                    queue.push_back((neighbour.id, distance + 1));
                }
            }
        }
    }

    fn finish(self, anchor_index: u32, shown: bool) -> Match {
        let Index { program, graph, aliases, facts, .. } = self.index;
        let mut outside_ids = self.node_ids.clone();
        let mut values = Vec::new();
        for (position, &value) in self.values.iter().enumerate() {
            let Some(found) = graph.value(value) else { continue };
            let uses = graph.uses(value).len() + self.index.returned.get(&value).map_or(0, |&count| count as usize);
            values.push(contract::Value {
                id: id(position),
                source: convert::source(found, &mut outside_ids),
                meta: found.tensor().map(convert::from_meta),
                use_count: id(uses),
                is_graph_output: self.index.returned.contains_key(&value),
                is_mutated: aliases.is_mutated(value),
                is_aliased: aliases.is_aliased(value),
                is_constant: program.is_constant(value),
            });
        }
        let mut nodes = Vec::new();
        let mut findings = Vec::new();
        let mut uses = Vec::new();
        for (position, (node_id, inputs)) in self.nodes.iter().enumerate() {
            let Some(node) = graph.node(*node_id) else { continue };
            let remarks = facts.outside.get(&node.name);
            for remark in remarks.into_iter().flatten() {
                findings.push(contract::Finding {
                    node: id(position),
                    code: remark.code.clone(),
                    detail: remark.text.chars().take(1_024).collect(),
                });
            }
            nodes.push(contract::Node {
                id: id(position),
                op: node.op.clone(),
                inputs: inputs.iter().map(|input| convert::input(graph, input, &self.value_ids)).collect(),
                outputs: node.output_values().filter_map(|value| self.value_ids.get(&value).copied()).collect(),
                outside_delegate: remarks.is_some(),
                share: facts.share.get(&node.name).copied().map(one_digit),
            });
            for (input, argument) in inputs.iter().enumerate() {
                for value in argument.arg.each_value() {
                    let within = graph.producer(value).is_some_and(|node| self.node_ids.contains_key(&node.id));
                    if let Some(&value) = self.value_ids.get(&value).filter(|_| within) {
                        let one = UseSite { value, consumer: id(position), input: id(input) };
                        if uses.last() != Some(&one) {
                            uses.push(one);
                        }
                    }
                }
            }
        }
        let target = &facts.target;
        let site = Site {
            anchor: 0,
            anchor_index,
            target: TargetInfo {
                backend: target.backend.clone(),
                backend_version: target.backend_version.clone(),
                exporter: target.exporter.clone(),
            },
            nodes,
            values,
            uses,
            findings,
            complete: self.complete && shown,
            hints: Vec::new(),
        };
        Match {
            anchor: self.nodes.first().map_or(NodeId(u32::MAX), |(node, _)| *node),
            site,
            nodes: self.nodes.into_iter().map(|(node, _)| node).collect(),
            values: self.values,
        }
    }
}

/// A share as rules see it: to one significant digit, so that the noise of a measurement does not make
/// another site, and what a rule said about the site is known the next time.
fn one_digit(share: f64) -> f64 {
    if !share.is_finite() || share <= 0.0 {
        return 0.0;
    }
    // Through text: the result is the nearest double to a short decimal, on every machine.
    format!("{share:.0e}").parse().unwrap_or(share)
}

/// Positions within a site are far below `u32::MAX`.
fn id(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
