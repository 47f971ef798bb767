//! The difference between two programs, as an edit that leads from one to the other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::program::AddedConstant;
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

/// Entries of both maps that differ, as (in `from`, in `to`).
fn differing<K: Copy + Ord + std::hash::Hash, V: PartialEq>(
    from: &HashMap<K, Arc<V>>,
    to: &HashMap<K, Arc<V>>,
) -> Vec<(Arc<V>, Arc<V>)> {
    let mut keys: Vec<K> = from.keys().copied().collect();
    keys.sort_unstable();
    keys.iter()
        .filter_map(|key| Some((from.get(key)?, to.get(key)?)))
        .filter(|(was, is)| !Arc::ptr_eq(was, is) && was != is)
        .map(|(was, is)| (Arc::clone(was), Arc::clone(is)))
        .collect()
}

impl Undo {
    /// What leads from one program to another of the same origin.
    pub(super) fn between(from: &Program, to: &Program) -> Self {
        let (old, new) = (from.graph(), to.graph());
        let by_id = |program: &Program| -> HashMap<NodeId, Arc<Node>> {
            program.graph().nodes().iter().map(|node| (node.id, Arc::clone(node))).collect()
        };
        let mut restored_nodes = Vec::new();
        let mut follower = None;
        for node in new.nodes().iter().rev() {
            if old.node(node.id).is_none() {
                restored_nodes.push((Arc::clone(node), follower));
            }
            follower = Some(node.id);
        }
        let mut removed_values: Vec<ValueId> =
            old.values.keys().copied().filter(|value| !new.values.contains_key(value)).collect();
        removed_values.sort_unstable();
        let mut restored_values: Vec<Arc<Value>> =
            new.values.values().filter(|value| !old.values.contains_key(&value.id)).map(Arc::clone).collect();
        restored_values.sort_unstable_by_key(|value| value.id);
        Self {
            removed_nodes: old.nodes().iter().map(|node| node.id).filter(|node| new.node(*node).is_none()).collect(),
            restored_nodes,
            changed_nodes: differing(&by_id(from), &by_id(to)),
            removed_values,
            restored_values,
            changed_values: differing(&old.values, &new.values),
            inputs: change(&old.inputs, &new.inputs),
            outputs: change(&old.outputs, &new.outputs),
            constants: change(from.constants(), to.constants()),
        }
    }

    pub(super) fn apply(&self, draft: &mut Draft<'_>) -> Result<(), PatchError> {
        for id in &self.removed_nodes {
            if draft.nodes.remove(id).is_none() {
                return Err(conflict(format!("node {id} is gone already")));
            }
        }
        let removed: HashSet<NodeId> = self.removed_nodes.iter().copied().collect();
        draft.order.retain(|id| !removed.contains(id));
        for (node, follower) in &self.restored_nodes {
            let at = match follower {
                None => draft.order.len(),
                Some(follower) => draft
                    .order
                    .iter()
                    .position(|id| id == follower)
                    .ok_or_else(|| conflict(format!("node {follower}, which followed `{}`, is gone", node.name)))?,
            };
            draft.order.insert(at, node.id);
            if draft.nodes.insert(node.id, Arc::clone(node)).is_some() {
                return Err(conflict(format!("node `{}` is there already", node.name)));
            }
        }
        for (expected, restored) in &self.changed_nodes {
            match draft.nodes.get_mut(&expected.id) {
                Some(node) if node == expected => *node = Arc::clone(restored),
                _ => return Err(conflict(format!("node `{}` has changed since", expected.name))),
            }
        }
        for id in &self.removed_values {
            if draft.values.remove(id).is_none() {
                return Err(conflict(format!("value {id} is gone already")));
            }
        }
        for value in &self.restored_values {
            if draft.values.insert(value.id, Arc::clone(value)).is_some() {
                return Err(conflict(format!("value `{}` is there already", value.name)));
            }
        }
        for (expected, restored) in &self.changed_values {
            match draft.values.get_mut(&expected.id) {
                Some(value) if value == expected => *value = Arc::clone(restored),
                _ => return Err(conflict(format!("value `{}` has changed since", expected.name))),
            }
        }
        restore(&mut draft.inputs, &self.inputs, "inputs")?;
        restore(&mut draft.outputs, &self.outputs, "outputs")?;
        restore(&mut draft.constants, &self.constants, "constants")
    }
}
