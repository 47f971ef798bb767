//! Patches: edits of a graph as data.
//!
//! A patch applies as a whole or not at all, to a graph that stays as it is. It answers for the form of
//! the new graph: known operators with fitting arguments, metadata as [`super::shapes`] infers it, values
//! made before they are read, a signature that is the same to the caller. What the edits mean is for the
//! gates to find out.

mod apply;
mod arguments;
mod difference;
mod finish;
mod names;
mod overlay;
#[cfg(test)]
mod tests;
mod undo;

use super::ir::{Literal, Node, NodeId, TensorMeta, ValueId};
use super::program::Program;
use super::shapes::ShapeError;
pub use undo::Undo;

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
    /// every use of `value` (also as graph output) becomes a use of `by`, but for those by nodes that
    /// this patch inserts
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
    /// take another patch back; made by applying that patch, stands alone in its own
    Undo(Box<Undo>),
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
    /// nodes that the patch made and that are still there, in edit order
    pub created_nodes: Vec<NodeId>,
    /// values that the patch made, by insertion and output as in [`ValueRef::Created`]; those that
    /// nothing uses are no longer in the program
    pub created_values: Vec<Vec<ValueId>>,
    /// nodes that are gone: deleted by the patch or dead after it
    pub removed: Vec<Node>,
    /// what the patch was applied to
    pub(super) original: Program,
    /// what the patch is called
    pub(super) title: String,
}

impl Applied {
    /// True when the patch was applied to this very program, not to another with the same content.
    pub fn is_of(&self, program: &Program) -> bool {
        self.original.is(program)
    }

    /// The patch that restores the original when it is applied to `program`.
    pub fn inverse(&self) -> Patch {
        let undo = Undo::between(&self.program, &self.original);
        Patch { title: format!("undo: {}", self.title), edits: vec![PatchEdit::Undo(Box::new(undo))] }
    }
}

/// Why a patch does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// an edit names a node that the graph does not have (any more)
    #[error("Edit {} names node {node}, which the graph does not have", .edit + 1)]
    UnknownNode {
        /// index in the patch
        edit: usize,
        /// the id
        node: NodeId,
    },
    /// an edit names a value that the graph does not have
    #[error("Edit {} names value {value}, which the graph does not have", .edit + 1)]
    UnknownValue {
        /// index in the patch
        edit: usize,
        /// the id
        value: ValueId,
    },
    /// an edit refers to something that the patch has not made before it
    #[error("Edit {} refers to output {output} of insertion {insertion}, which is not made before it", .edit + 1)]
    UnknownCreated {
        /// index in the patch
        edit: usize,
        /// index among inserts and constants
        insertion: usize,
        /// output of it
        output: usize,
    },
    /// an operator without a schema
    #[error("Edit {} uses operator `{op}`, which is not in the table of operators", .edit + 1)]
    UnknownOp {
        /// index in the patch
        edit: usize,
        /// the operator
        op: String,
    },
    /// an operator that does more than computing outputs from inputs
    #[error("Edit {} concerns `{op}`, which {effect}", .edit + 1)]
    Effect {
        /// index in the patch
        edit: usize,
        /// the operator
        op: String,
        /// e.g. `writes to its arguments`
        effect: &'static str,
    },
    /// an argument that the schema does not allow
    #[error("Edit {}: argument `{argument}` of `{op}` {problem}", .edit + 1)]
    Argument {
        /// index in the patch
        edit: usize,
        /// the operator
        op: String,
        /// the argument
        argument: String,
        /// what is wrong
        problem: &'static str,
    },
    /// metadata that cannot be inferred
    #[error("Edit {}: no metadata for the result", .edit + 1)]
    Shape {
        /// index in the patch
        edit: usize,
        /// why
        source: ShapeError,
    },
    /// metadata that is not what it must be
    #[error("Edit {}: {subject} has {found} where {expected} is needed", .edit + 1)]
    Metadata {
        /// index in the patch
        edit: usize,
        /// of what
        subject: String,
        /// as given
        found: String,
        /// as needed
        expected: String,
    },
    /// a constant whose bytes or metadata do not hold together
    #[error("Edit {}: the constant {problem}", .edit + 1)]
    Constant {
        /// index in the patch
        edit: usize,
        /// what is wrong
        problem: &'static str,
    },
    /// a value inside a control-flow subgraph or another argument that is kept as read
    #[error("Edit {}: `{value}` is used in an argument of `{node}` that cannot be changed", .edit + 1)]
    Kept {
        /// index in the patch
        edit: usize,
        /// name of the value
        value: String,
        /// name of the node
        node: String,
    },
    /// deletion of a node that is needed
    #[error("Edit {} deletes `{node}`, but its output `{value}` is still used", .edit + 1)]
    StillUsed {
        /// index in the patch
        edit: usize,
        /// name of the node
        node: String,
        /// name of the value
        value: String,
    },
    /// a value that would be read before it is made, or that would be gone
    #[error("`{node}` would read `{value}` {problem}")]
    Order {
        /// name of the node
        node: String,
        /// name of the value
        value: String,
        /// `before it is made`, `after it is removed`
        problem: &'static str,
    },
    /// an undo that meets a graph which has changed in the same place
    #[error("The patch cannot be taken back: {problem}")]
    Undo {
        /// what is different
        problem: String,
    },
}

pub(super) use apply::apply;
