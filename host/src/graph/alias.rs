//! What shares storage, what is written to, what is constant.
//!
//! Every answer errs on the careful side: two values that might share storage are in one set, an
//! operator without a schema may write to everything it reads.

use super::{Graph, ValueId};

/// Storage facts of one graph.
#[derive(Clone, Debug, Default)]
pub struct AliasFacts {}

impl AliasFacts {
    /// Computes the facts of a graph.
    pub fn of(_graph: &Graph) -> Self {
        Self {}
    }

    /// All values that might share storage with `value`, itself included, ordered by id.
    pub fn set(&self, _value: ValueId) -> &[ValueId] {
        &[]
    }

    /// True when the two might share storage.
    pub fn may_share(&self, _a: ValueId, _b: ValueId) -> bool {
        true
    }

    /// True when something else might share the value's storage.
    pub fn is_aliased(&self, _value: ValueId) -> bool {
        true
    }

    /// True when something might write into the value's storage, at any time.
    pub fn is_mutated(&self, _value: ValueId) -> bool {
        true
    }

    /// True when the value depends only on parameters, buffers and constants that nothing writes to,
    /// through operators that are pure and not random.
    pub fn is_constant(&self, _value: ValueId) -> bool {
        false
    }
}
