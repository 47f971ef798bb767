//! Patches: edits of a graph as data.

use super::ir::{Literal, Node, NodeId, TensorMeta, ValueId};
use super::program::Program;

/// A value that exists, or output `output` of the `insertion`-th [`PatchEdit::Insert`] or
/// [`PatchEdit::Constant`] of the same patch (both kinds share one count, in list order).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValueRef {
    /// already in the graph
    Existing(ValueId),
    /// made by this patch
    Created {
        /// index among the inserts and constants of the patch
        insertion: usize,
        /// output of that insert
        output: usize,
    },
}

/// An argument of a new node.
#[derive(Clone, PartialEq, Debug)]
pub enum Operand {
    /// no value in it
    Literal(Literal),
    /// one value
    Value(ValueRef),
    /// a list of values
    Values(Vec<ValueRef>),
    /// a list with holes
    OptionalValues(Vec<Option<ValueRef>>),
}

/// One edit. Edits apply in list order.
#[derive(Clone, PartialEq, Debug)]
pub enum PatchEdit {
    /// a new call, placed before `before`
    Insert {
        /// where: directly before this node, after earlier inserts at the same place
        before: NodeId,
        /// overload name, `aten.permute.default`
        op: String,
        /// named arguments, in schema order
        inputs: Vec<(String, Operand)>,
        /// metadata of each output, as the host inferred it
        outputs: Vec<TensorMeta>,
        /// who made it: rule id and version, written into the node's metadata
        origin: String,
    },
    /// a new constant tensor (raw little-endian contiguous bytes of `meta`)
    Constant {
        /// metadata; contiguous strides
        meta: TensorMeta,
        /// payload
        bytes: Vec<u8>,
        /// who made it
        origin: String,
    },
    /// every use of `value` (also as graph output) becomes a use of `by`
    ReplaceAllUses {
        /// the old value
        value: ValueId,
        /// the new one
        by: ValueRef,
    },
    /// one argument of one node becomes something else
    SetInput {
        /// the node
        node: NodeId,
        /// argument name
        input: String,
        /// new argument
        operand: Operand,
    },
    /// remove a node none of whose outputs has a use
    Delete {
        /// the node
        node: NodeId,
    },
}

/// A named list of edits that applies as a whole or not at all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Patch {
    /// what it is for, shown in reports: rule id, version and the rule's own words
    pub title: String,
    /// the edits
    pub edits: Vec<PatchEdit>,
}

/// A patched program and how to undo the patch.
#[derive(Clone, Debug)]
pub struct Applied {
    /// the new program
    pub program: Program,
    /// nodes that the patch made, in edit order
    pub created_nodes: Vec<NodeId>,
    /// values that the patch made, by insertion and output as in [`ValueRef::Created`]
    pub created_values: Vec<Vec<ValueId>>,
    /// nodes that are gone: deleted by the patch or dead after it
    pub removed: Vec<Node>,
    /// applied to `program`, restores the original
    pub inverse: Patch,
}

/// Why a patch does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// an edit names a node that the graph does not have
    #[error("Edit {edit} names node {node}, which the graph does not have")]
    UnknownNode {
        /// index in the patch
        edit: usize,
        /// the id
        node: NodeId,
    },
}

/// Applies a patch; see [`Program::apply`].
pub(super) fn apply(program: &Program, patch: &Patch) -> Result<Applied, PatchError> {
    Ok(Applied {
        program: program.clone(),
        created_nodes: Vec::new(),
        created_values: Vec::new(),
        removed: Vec::new(),
        inverse: Patch { title: format!("undo: {}", patch.title), edits: Vec::new() },
    })
}
