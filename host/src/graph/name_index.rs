//! Nodes and values by name.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use super::{Graph, Node, NodeId, Value, ValueId};

/// Changes on top of each other until names are sorted anew.
const MOST_LAYERS: u32 = 8;

/// Ids by the name that the archive has.
#[derive(Debug, Default)]
pub(super) struct ArchiveNames {
    pub(super) nodes: HashMap<String, NodeId>,
    pub(super) values: HashMap<String, ValueId>,
}

/// Ids by a hash of the name that nobody can foresee. The index of a patched graph has what is new or renamed,
/// on top of the index of the graph before; what is gone is noticed by looking.
#[derive(Debug)]
pub(super) struct NameIndex {
    hasher: RandomState,
    nodes: Vec<(u64, NodeId)>,
    values: Vec<(u64, ValueId)>,
    below: Below,
    layers: u32,
}

/// Where names are looked for that a layer does not have.
#[derive(Debug)]
enum Below {
    Nothing,
    Archive(Arc<ArchiveNames>),
    Layer(Arc<NameIndex>),
}

impl NameIndex {
    pub(super) fn of(graph: &Graph) -> Self {
        Self::layer(
            RandomState::new(),
            graph.nodes.entries().map(Arc::as_ref),
            graph.values.entries().map(Arc::as_ref),
            Below::Nothing,
        )
    }

    /// The index of the graph of an archive.
    pub(super) fn of_archive(names: Arc<ArchiveNames>) -> Self {
        let hasher = RandomState::new();
        Self { hasher, nodes: Vec::new(), values: Vec::new(), below: Below::Archive(names), layers: 0 }
    }

    /// The index of a graph that differs in these nodes and values; `None` when it is better made anew.
    pub(super) fn on_top<'g>(
        below: &Arc<Self>,
        nodes: impl Iterator<Item = &'g Node>,
        values: impl Iterator<Item = &'g Value>,
    ) -> Option<Self> {
        let room = below.layers < MOST_LAYERS;
        room.then(|| Self::layer(below.hasher.clone(), nodes, values, Below::Layer(Arc::clone(below))))
    }

    fn layer<'g>(
        hasher: RandomState,
        nodes: impl Iterator<Item = &'g Node>,
        values: impl Iterator<Item = &'g Value>,
        below: Below,
    ) -> Self {
        let hash = |name: &str| hasher.hash_one(name);
        let mut nodes: Vec<_> = nodes.map(|node| (hash(&node.name), node.id)).collect();
        let mut values: Vec<_> = values.map(|value| (hash(&value.name), value.id)).collect();
        nodes.sort_unstable_by_key(|(hash, _)| *hash);
        values.sort_unstable_by_key(|(hash, _)| *hash);
        let layers = match &below {
            Below::Layer(below) => below.layers + 1,
            Below::Nothing | Below::Archive(_) => 0,
        };
        Self { hasher, nodes, values, below, layers }
    }

    pub(super) fn node<'g>(&self, graph: &'g Graph, name: &str) -> Option<&'g Node> {
        self.find(
            name,
            |layer| &layer.nodes,
            |archive| &archive.nodes,
            |id| graph.node(id).filter(|node| node.name == name),
        )
    }

    pub(super) fn value<'g>(&self, graph: &'g Graph, name: &str) -> Option<&'g Value> {
        self.find(
            name,
            |layer| &layer.values,
            |archive| &archive.values,
            |id| graph.value(id).filter(|value| value.name == name),
        )
    }

    fn find<'g, I: Copy, T>(
        &self,
        name: &str,
        list: impl Fn(&Self) -> &Vec<(u64, I)>,
        archive: impl Fn(&ArchiveNames) -> &HashMap<String, I>,
        get: impl Fn(I) -> Option<&'g T>,
    ) -> Option<&'g T> {
        let wanted = self.hasher.hash_one(name);
        let mut layer = self;
        loop {
            let entries = list(layer);
            let start = entries.partition_point(|(hash, _)| *hash < wanted);
            let mut same = entries.iter().skip(start).take_while(|(hash, _)| *hash == wanted);
            if let Some(found) = same.find_map(|(_, id)| get(*id)) {
                return Some(found);
            }
            layer = match &layer.below {
                Below::Layer(below) => below,
                Below::Archive(names) => return archive(names).get(name).and_then(|id| get(*id)),
                Below::Nothing => return None,
            };
        }
    }
}
