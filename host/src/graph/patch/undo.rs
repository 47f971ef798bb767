//! The difference between two programs, as an edit that leads from one to the other.

use std::sync::Arc;

use super::super::program::AddedConstant;
use super::super::table::{Id, Table};
use super::super::{GraphOutput, Node, NodeId, Program, Value, ValueId};
use super::PatchError;
use super::apply::Draft;

/// Takes a patch back: restores nodes, values, outputs and constants, with their ids and names.
///
/// It holds what it expects to find, so that it applies after other patches too, as long as those left
/// its places alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Undo {
    removed_nodes: Vec<NodeId>,
    /// each with the node that follows it, in an order in which that node is there
    restored_nodes: Vec<(Arc<Node>, Option<NodeId>)>,
    /// as found, as restored
    changed_nodes: Vec<(Arc<Node>, Arc<Node>)>,
    removed_values: Vec<ValueId>,
    restored_values: Vec<Arc<Value>>,
    /// as found, as restored
    changed_values: Vec<(Arc<Value>, Arc<Value>)>,
    inputs: Change<ValueId>,
    outputs: Change<GraphOutput>,
    constants: Change<Arc<AddedConstant>>,
}

/// A list as found and as restored; `None` when it stays.
type Change<T> = Option<(Vec<T>, Vec<T>)>;

fn change<T: Clone + PartialEq>(from: &[T], to: &[T]) -> Change<T> {
    (from != to).then(|| (from.to_vec(), to.to_vec()))
}

fn conflict(problem: String) -> PatchError {
    PatchError::Undo { problem }
}

fn restore<T: Clone + PartialEq>(list: &mut Vec<T>, change: &Change<T>, what: &str) -> Result<(), PatchError> {
    match change {
        None => Ok(()),
        Some((expected, restored)) if list == expected => {
            list.clone_from(restored);
            Ok(())
        }
        Some(_) => Err(conflict(format!("the {what} of the graph have changed since"))),
    }
}

/// What differs between two tables.
struct Difference<V> {
    removed: Vec<Arc<V>>,
    restored: Vec<Arc<V>>,
    /// as (in `from`, in `to`)
    changed: Vec<(Arc<V>, Arc<V>)>,
}

impl<V: PartialEq> Difference<V> {
    fn between<K: Id>(from: &Table<K, Arc<V>>, to: &Table<K, Arc<V>>) -> Self {
        let mut difference = Self { removed: Vec::new(), restored: Vec::new(), changed: Vec::new() };
        for (was, is) in from.beside(to) {
            match (was, is) {
                (Some(was), Some(is)) if !Arc::ptr_eq(was, is) && was != is => {
                    difference.changed.push((Arc::clone(was), Arc::clone(is)));
                }
                (Some(was), None) => difference.removed.push(Arc::clone(was)),
                (None, Some(is)) => difference.restored.push(Arc::clone(is)),
                _ => {}
            }
        }
        difference
    }
}

/// Equal, or the very same: an argument that is no number equals nothing, itself included.
fn is_same<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl Undo {
    /// What leads from one program to another of the same origin.
    pub(super) fn between(from: &Program, to: &Program) -> Self {
        let (old, new) = (from.graph(), to.graph());
        let mut restored_nodes = Vec::new();
        let mut follower = None;
        for node in new.nodes().iter().rev() {
            if old.node(node.id).is_none() {
                restored_nodes.push((Arc::clone(node), follower));
            }
            follower = Some(node.id);
        }
        let values = Difference::between(&old.values, &new.values);
        Self {
            removed_nodes: old.nodes().iter().map(|node| node.id).filter(|node| new.node(*node).is_none()).collect(),
            restored_nodes,
            changed_nodes: Difference::between(&old.nodes, &new.nodes).changed,
            removed_values: values.removed.iter().map(|value| value.id).collect(),
            restored_values: values.restored,
            changed_values: values.changed,
            inputs: change(&old.inputs, &new.inputs),
            outputs: change(&old.outputs, &new.outputs),
            constants: change(from.constants(), to.constants()),
        }
    }

    pub(super) fn apply(&self, draft: &mut Draft<'_>) -> Result<(), PatchError> {
        for id in &self.removed_nodes {
            if !draft.nodes.remove(*id) {
                return Err(conflict(format!("node {id} is gone already")));
            }
        }
        for (node, follower) in &self.restored_nodes {
            if let Some(follower) = follower.filter(|follower| !draft.nodes.contains(*follower)) {
                return Err(conflict(format!("node {follower}, which followed `{}`, is gone", node.name)));
            }
            if draft.nodes.insert(node.id, Arc::clone(node)) {
                return Err(conflict(format!("node `{}` is there already", node.name)));
            }
            draft.place_before(node.id, *follower);
        }
        for (expected, restored) in &self.changed_nodes {
            match draft.nodes.get(expected.id) {
                Some(node) if is_same(node, expected) => drop(draft.nodes.insert(expected.id, Arc::clone(restored))),
                _ => return Err(conflict(format!("node `{}` has changed since", expected.name))),
            }
        }
        for id in &self.removed_values {
            if !draft.values.remove(*id) {
                return Err(conflict(format!("value {id} is gone already")));
            }
        }
        for value in &self.restored_values {
            if draft.values.insert(value.id, Arc::clone(value)) {
                return Err(conflict(format!("value `{}` is there already", value.name)));
            }
        }
        for (expected, restored) in &self.changed_values {
            match draft.values.get(expected.id) {
                Some(value) if is_same(value, expected) => drop(draft.values.insert(expected.id, Arc::clone(restored))),
                _ => return Err(conflict(format!("value `{}` has changed since", expected.name))),
            }
        }
        restore(Arc::make_mut(&mut draft.inputs), &self.inputs, "inputs")?;
        restore(&mut draft.outputs, &self.outputs, "outputs")?;
        restore(&mut draft.constants, &self.constants, "constants")
    }
}
