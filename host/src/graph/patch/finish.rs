//! After all edits: what nothing uses goes, and what is left becomes a graph again.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::dataflow::{Origin, has_opaque_output};
use super::super::program::Parts;
use super::super::table::IdSet;
use super::super::{Graph, GraphOutput, NodeId, ValueId, ValueSource, alias};
use super::PatchError;
use super::apply::Draft;

impl Draft<'_> {
    /// Removes what nothing uses any more: pure nodes whose outputs lost their last use in this patch, and
    /// constants that it made in vain. Parameters and inputs stay.
    pub(super) fn remove_dead(&mut self) {
        while let Some(value) = self.loose.pop() {
            let Some(found) = self.values.get(value) else { continue };
            match &found.source {
                ValueSource::Node { node, .. } => {
                    let Some(node) = self.nodes.get(*node).map(Arc::clone) else { continue };
                    if !has_opaque_output(&node)
                        && alias::is_pure(&node)
                        && node.output_values().all(|value| self.is_unused(value))
                    {
                        self.remove(&node);
                    }
                }
                // Constants of the archive stay, as parameters do.
                ValueSource::Constant(_) if self.is_unused(value) && value.0 >= self.program.first_added() => {
                    self.values.remove(value);
                    self.constants_were_removed = true;
                }
                _ => {}
            }
        }
    }

    /// Every name of a value is one value's.
    pub(super) fn names_are_free(&self) -> Result<(), PatchError> {
        let graph = self.program.graph();
        let mut names = HashSet::new();
        let changed = self.values.changes().filter_map(|(_, value)| value);
        let kept = graph.value_ids().filter(|id| self.values.change(*id).is_none()).filter_map(|id| graph.value(id));
        for value in changed.map(Arc::as_ref).chain(kept) {
            if !names.insert(value.name.as_str()) {
                return Err(PatchError::Undo { problem: format!("the name `{}` is taken", value.name) });
            }
        }
        Ok(())
    }

    /// The nodes in the order of execution: the original order, with what was placed between.
    fn order(&self) -> Vec<Origin<'_>> {
        let ids = self.program.graph().flow().ids();
        let mut order = Vec::with_capacity(ids.len() + self.inserted.len());
        // Nearly all nodes are as and where they were.
        let mut touched = IdSet::default();
        for id in self.nodes.changes().map(|(id, _)| id).chain(self.placed_before.keys().copied()) {
            touched.insert(id);
        }
        for (place, id) in (0..).zip(ids) {
            if touched.contains(*id) {
                self.place_with_what_precedes(*id, &mut order);
            } else {
                order.push(Origin::Same(place));
            }
        }
        for id in &self.placed_last {
            self.place_with_what_precedes(*id, &mut order);
        }
        order
    }

    fn place_with_what_precedes<'d>(&'d self, id: NodeId, order: &mut Vec<Origin<'d>>) {
        // What is still to come, the next at the end; true: what was placed before it has come.
        let mut open: Vec<(NodeId, bool)> = vec![(id, false)];
        while let Some((id, ready)) = open.pop() {
            if let Some(before) = self.placed_before.get(&id).filter(|_| !ready) {
                open.push((id, true));
                open.extend(before.iter().rev().map(|id| (*id, false)));
                continue;
            }
            match self.nodes.change(id) {
                Some(Some(node)) => order.push(Origin::Changed(node)),
                Some(None) => {}
                None => {
                    let place = self.program.graph().position(id).and_then(|place| u32::try_from(place).ok());
                    order.extend(place.map(Origin::Same));
                }
            }
        }
    }

    /// Puts the constants of this patch behind those of the archive and of earlier patches.
    pub(super) fn place_constants(&mut self) {
        let (input, constant) = self.place_of_constants;
        let new: Vec<ValueId> = self.constants.iter().skip(constant).map(|added| added.value).collect();
        if !new.is_empty() {
            let at = input.min(self.inputs.len());
            Arc::make_mut(&mut self.inputs).splice(at..at, new);
        }
        if self.constants_were_removed {
            self.constants.retain(|added| self.values.contains(added.value));
            Arc::make_mut(&mut self.inputs).retain(|input| self.values.contains(*input));
        }
    }

    /// The parts of the new program, checked.
    pub(super) fn finish(self) -> Result<Parts, PatchError> {
        let base = self.program.graph();
        let order = self.order();
        let flow = base.flow().patched(&order, self.values.changes());
        let made = flow.first_unmade().map_err(|(position, value)| {
            let node = flow.ids().get(position).and_then(|id| self.nodes.get(*id));
            self.order_error(node.map_or("?", |node| &node.name), value)
        })?;
        if let Some(value) = self.outputs.iter().filter_map(GraphOutput::value).find(|value| !made.contains(*value)) {
            let (node, value) = ("the graph's output".to_owned(), self.value_name(value));
            return Err(PatchError::Order { node, value, problem: "after it is removed" });
        }
        let nodes = self.nodes.on_top_of(&base.nodes);
        let values = self.values.on_top_of(&base.values);
        let graph = Graph::of_parts(nodes, values, self.inputs, self.outputs, flow);
        graph.take_names_of(
            base,
            self.nodes.changes().filter_map(|(_, node)| node).map(Arc::as_ref),
            self.values.changes().filter_map(|(_, value)| value).map(Arc::as_ref),
        );
        Ok(Parts { graph, constants: self.constants, next_node: self.next_node, next_value: self.next_value })
    }

    fn order_error(&self, node: &str, value: ValueId) -> PatchError {
        let problem = if self.values.contains(value) { "before it is made" } else { "after it is removed" };
        let name = match self.values.get(value) {
            Some(value) => value.name.clone(),
            None => self.program.graph().value(value).map_or_else(|| value.to_string(), |value| value.name.clone()),
        };
        PatchError::Order { node: node.to_owned(), value: name, problem }
    }
}
