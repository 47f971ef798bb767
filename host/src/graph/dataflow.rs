//! What nodes read and make, in lists without pointers.
//!
//! Patching, storage facts and matching go through all nodes of a graph again and again. A node and its
//! arguments lie in many places of memory, these lists in one, and those of a patched graph are copied from
//! the graph before, but for the nodes that differ.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::table::{IdSet, Table};
use super::{Node, NodeId, NodeOutput, Use, Value, ValueId, ValueSource, alias};

/// The lists of one graph. A position is a place in execution order.
#[derive(Debug, Default)]
pub(super) struct Dataflow {
    ids: Vec<NodeId>,
    /// by position, where the node's entries begin; they end where those of the next begin
    starts: Vec<Starts>,
    reads: Vec<Read>,
    makes: Vec<ValueId>,
    /// by position
    traits: Vec<Traits>,
    ops: Arc<OpNames>,
    /// values that no node makes
    given: Vec<ValueId>,
    /// values of outputs that are kept as read, with the node that makes them
    unlisted: Vec<(NodeId, ValueId)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Starts {
    reads: u32,
    makes: u32,
}

/// A value that an argument holds; each once an argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// position in `Node::inputs`
    pub(super) input: u32,
    pub(super) value: ValueId,
}

#[derive(Clone, Copy, Debug)]
struct Traits {
    op: u32,
    touches_memory: bool,
}

/// Names of operators, each once.
#[derive(Clone, Debug, Default)]
struct OpNames {
    numbers: FxHashMap<String, u32>,
}

impl OpNames {
    fn number(names: &mut Arc<Self>, op: &str) -> u32 {
        if let Some(number) = names.numbers.get(op) {
            return *number;
        }
        let number = length(names.numbers.len());
        Arc::make_mut(names).numbers.insert(op.to_owned(), number);
        number
    }
}

/// A node of a patched graph: its position in the graph before, or what it is now.
pub(super) enum Origin<'n> {
    Same(u32),
    Changed(&'n Arc<Node>),
}

impl Dataflow {
    pub(super) fn of(nodes: &[Arc<Node>], values: &Table<ValueId, Arc<Value>>) -> Self {
        let mut flow = Self::default();
        for node in nodes {
            flow.add(node);
        }
        flow.finish();
        let opaque: FxHashSet<NodeId> =
            nodes.iter().filter(|node| has_opaque_output(node)).map(|node| node.id).collect();
        for value in values.entries() {
            flow.add_value(value, |node| opaque.contains(&node));
        }
        flow
    }

    /// The lists of a graph that was patched from this one. `changed` has every value that differs, and what it
    /// is now.
    pub(super) fn patched<'v>(
        &self,
        nodes: &[Origin<'_>],
        changed: impl Iterator<Item = (ValueId, Option<&'v Arc<Value>>)>,
    ) -> Self {
        let mut flow = Self {
            ids: Vec::with_capacity(nodes.len()),
            starts: Vec::with_capacity(nodes.len() + 1),
            reads: Vec::with_capacity(self.reads.len() + 64),
            makes: Vec::with_capacity(self.makes.len() + 64),
            traits: Vec::with_capacity(nodes.len()),
            ops: Arc::clone(&self.ops),
            ..Self::default()
        };
        let mut rest = nodes;
        while let Some(origin) = rest.first() {
            let first = match origin {
                Origin::Same(position) => *position,
                Origin::Changed(node) => {
                    flow.add(node);
                    rest = rest.get(1..).unwrap_or_default();
                    continue;
                }
            };
            // As many as follow each other as they did before are copied at once.
            let follows = |(next, other): &(u32, &Origin<'_>)| matches!(other, Origin::Same(place) if place == next);
            let run = (first..).zip(rest).take_while(follows).count();
            flow.copy(self, first as usize, run);
            rest = rest.get(run..).unwrap_or_default();
        }
        flow.finish();

        let changed: Vec<_> = changed.collect();
        let mut differs = IdSet::default();
        for (value, _) in &changed {
            differs.insert(*value);
        }
        flow.given.extend(self.given.iter().filter(|value| !differs.contains(**value)));
        flow.unlisted.extend(self.unlisted.iter().filter(|(_, value)| !differs.contains(*value)));
        let opaque: FxHashSet<NodeId> = self.unlisted.iter().map(|(node, _)| *node).collect();
        for value in changed.into_iter().filter_map(|(_, value)| value) {
            flow.add_value(value, |node| opaque.contains(&node));
        }
        flow
    }

    fn copy(&mut self, from: &Self, position: usize, count: usize) {
        let span = from.starts.get(position).copied().zip(from.starts.get(position + count).copied());
        let Some((first, last)) = span else { return };
        let (reads, makes) = (length(self.reads.len()), length(self.makes.len()));
        let moved =
            from.starts.iter().skip(position).take(count).map(|start| Starts {
                reads: start.reads - first.reads + reads,
                makes: start.makes - first.makes + makes,
            });
        self.starts.extend(moved);
        self.ids.extend_from_slice(from.ids.get(position..position + count).unwrap_or_default());
        self.traits.extend_from_slice(from.traits.get(position..position + count).unwrap_or_default());
        let slice = |first: u32, last: u32| first as usize..last as usize;
        self.reads.extend_from_slice(from.reads.get(slice(first.reads, last.reads)).unwrap_or_default());
        self.makes.extend_from_slice(from.makes.get(slice(first.makes, last.makes)).unwrap_or_default());
    }

    fn add(&mut self, node: &Node) {
        self.starts.push(Starts { reads: length(self.reads.len()), makes: length(self.makes.len()) });
        self.ids.push(node.id);
        self.reads.extend(node.uses().map(|(input, value)| Read { input: length(input), value }));
        self.makes.extend(node.output_values());
        let op = OpNames::number(&mut self.ops, &node.op);
        self.traits.push(Traits { op, touches_memory: alias::touches_memory(node) });
    }

    fn add_value(&mut self, value: &Value, is_opaque: impl Fn(NodeId) -> bool) {
        match value.source {
            ValueSource::Node { node, .. } if is_opaque(node) => self.unlisted.push((node, value.id)),
            ValueSource::Node { .. } => {}
            _ => self.given.push(value.id),
        }
    }

    fn finish(&mut self) {
        self.starts.push(Starts { reads: length(self.reads.len()), makes: length(self.makes.len()) });
    }

    /// The ids of all nodes, in execution order.
    pub(super) fn ids(&self) -> &[NodeId] {
        &self.ids
    }

    /// What the node at a position reads, in the order of its arguments.
    pub(super) fn reads(&self, position: usize) -> &[Read] {
        let range = self.starts.get(position).zip(self.starts.get(position + 1));
        range.and_then(|(start, end)| self.reads.get(start.reads as usize..end.reads as usize)).unwrap_or_default()
    }

    /// What the node at a position makes, but for outputs that are kept as read.
    pub(super) fn makes(&self, position: usize) -> &[ValueId] {
        let range = self.starts.get(position).zip(self.starts.get(position + 1));
        range.and_then(|(start, end)| self.makes.get(start.makes as usize..end.makes as usize)).unwrap_or_default()
    }

    /// The nodes that may write to memory or make values share it, in execution order.
    pub(super) fn touching_memory(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids.iter().zip(&self.traits).filter(|(_, traits)| traits.touches_memory).map(|(id, _)| *id)
    }

    /// Positions of the nodes that call an operator.
    pub(super) fn calls_of(&self, op: &str) -> impl Iterator<Item = usize> + '_ {
        let number = self.ops.numbers.get(op).copied();
        let traits = if number.is_some() { self.traits.as_slice() } else { &[] };
        let calls = traits.iter().enumerate().filter(move |(_, traits)| Some(traits.op) == number);
        calls.map(|(position, _)| position)
    }

    /// The first read of a value that nothing has made until then, in execution order: by whom, and of what.
    pub(super) fn first_unmade(&self) -> Result<IdSet<ValueId>, (usize, ValueId)> {
        let mut made = IdSet::default();
        for value in &self.given {
            made.insert(*value);
        }
        let mut unlisted: FxHashMap<NodeId, Vec<ValueId>> = FxHashMap::default();
        for (node, value) in &self.unlisted {
            unlisted.entry(*node).or_default().push(*value);
        }
        for (position, id) in self.ids.iter().enumerate() {
            if let Some(read) = self.reads(position).iter().find(|read| !made.contains(read.value)) {
                return Err((position, read.value));
            }
            for value in self.makes(position) {
                made.insert(*value);
            }
            if !unlisted.is_empty() {
                for value in unlisted.get(id).into_iter().flatten() {
                    made.insert(*value);
                }
            }
        }
        Ok(made)
    }
}

pub(super) fn has_opaque_output(node: &Node) -> bool {
    node.outputs.iter().any(|output| matches!(output, NodeOutput::Opaque(_)))
}

/// Lists of a graph are shorter than their ids are many.
fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The uses of all values in one list, those of a value next to each other.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// by value, where its uses begin; they end where those of the next value begin
    starts: Vec<u32>,
    uses: Vec<Use>,
}

impl Uses {
    pub(super) fn of(flow: &Dataflow, values: usize) -> Self {
        // Counted, then placed: two passes and two allocations.
        let mut starts = vec![0_u32; values + 1];
        for read in &flow.reads {
            if let Some(count) = starts.get_mut(read.value.0 as usize + 1) {
                *count += 1;
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
        for (position, node) in flow.ids.iter().enumerate() {
            for read in flow.reads(position) {
                if let Some(place) = next.get_mut(read.value.0 as usize) {
                    if let Some(slot) = uses.get_mut(*place as usize) {
                        *slot = Use { node: *node, input: read.input as usize };
                    }
                    *place += 1;
                }
            }
        }
        Self { starts, uses }
    }

    pub(super) fn get(&self, value: ValueId) -> &[Use] {
        let place = value.0 as usize;
        let range = self.starts.get(place).zip(self.starts.get(place + 1));
        range.and_then(|(start, end)| self.uses.get(*start as usize..*end as usize)).unwrap_or_default()
    }
}
