//! Which values are the same in every run.

use super::alias::{self, AliasFacts};
use super::table::IdSet;
use super::{Graph, TensorMeta, ValueId, program};

/// Values that depend on stored tensors only.
#[derive(Clone, Debug)]
pub(super) struct Constants {
    values: IdSet<ValueId>,
}

impl Constants {
    /// Finds the constants of a graph by what is known of its storage.
    pub(super) fn of(graph: &Graph, facts: &AliasFacts) -> Self {
        let mut values = IdSet::default();
        for input in graph.inputs() {
            let stored = graph.value(*input).is_some_and(|value| program::fqn(value).is_some());
            if stored && !facts.is_mutated(*input) && graph.tensor(*input).is_some() {
                values.insert(*input);
            }
        }
        for (position, id) in graph.flow().ids().iter().enumerate() {
            if !graph.flow().reads(position).iter().all(|read| values.contains(read.value)) {
                continue;
            }
            let Some(node) = graph.node(*id) else { continue };
            if !alias::is_pure(node) && !alias::keeps_elements(node) {
                continue;
            }
            for value in node.output_values() {
                if graph.tensor(value).is_some_and(fixed) && !facts.is_mutated(value) {
                    values.insert(value);
                }
            }
        }
        Self { values }
    }

    pub(super) fn contains(&self, value: ValueId) -> bool {
        self.values.contains(value)
    }
}

fn fixed(meta: &TensorMeta) -> bool {
    meta.sizes.iter().all(|size| size.fixed().is_some())
}
