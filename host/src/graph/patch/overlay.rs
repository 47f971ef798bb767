//! A graph under change: what it has, and what differs.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::table::{Id, Table};
use super::super::{Graph, Node, NodeId, Value, ValueId};

/// What a graph has under an id.
pub(super) trait Lookup<K, V> {
    fn find(&self, id: K) -> Option<&Arc<V>>;
}

impl Lookup<NodeId, Node> for Graph {
    fn find(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(id)
    }
}

impl Lookup<ValueId, Value> for Graph {
    fn find(&self, id: ValueId) -> Option<&Arc<Value>> {
        self.values.get(id)
    }
}

/// The nodes or the values of a graph, with changes on top.
pub(super) struct Overlay<'g, K, V> {
    graph: &'g Graph,
    /// nothing: it is gone
    changed: FxHashMap<K, Option<Arc<V>>>,
}

impl<'g, K: Copy + Eq + std::hash::Hash, V> Overlay<'g, K, V>
where
    Graph: Lookup<K, V>,
{
    pub(super) fn new(graph: &'g Graph) -> Self {
        Self { graph, changed: FxHashMap::default() }
    }

    pub(super) fn get(&self, id: K) -> Option<&Arc<V>> {
        match self.changed.get(&id) {
            Some(changed) => changed.as_ref(),
            None => self.graph.find(id),
        }
    }

    pub(super) fn contains(&self, id: K) -> bool {
        self.get(id).is_some()
    }

    /// True when there was something before.
    pub(super) fn insert(&mut self, id: K, entry: Arc<V>) -> bool {
        let was = self.contains(id);
        self.changed.insert(id, Some(entry));
        was
    }

    /// True when there was something.
    pub(super) fn remove(&mut self, id: K) -> bool {
        let was = self.contains(id);
        self.changed.insert(id, None);
        was
    }

    /// Everything that differs from the graph, and what it is now, in no order.
    pub(super) fn changes(&self) -> impl Iterator<Item = (K, Option<&Arc<V>>)> + Clone {
        self.changed.iter().map(|(id, entry)| (*id, entry.as_ref()))
    }

    /// The table of the graph with the changes; the same table when there are none.
    pub(super) fn on_top_of(&self, table: &Arc<Table<K, Arc<V>>>) -> Arc<Table<K, Arc<V>>>
    where
        K: Id,
    {
        let mut changed = Arc::clone(table);
        if !self.changed.is_empty() {
            let table = Arc::make_mut(&mut changed);
            for (id, entry) in self.changes() {
                match entry {
                    Some(entry) => drop(table.insert(id, Arc::clone(entry))),
                    None => drop(table.remove(id)),
                }
            }
        }
        changed
    }

    /// What differs, when it does.
    pub(super) fn change(&self, id: K) -> Option<Option<&Arc<V>>> {
        self.changed.get(&id).map(Option::as_ref)
    }
}
