//! The exported program: typed graph, `.pt2` archive, shape rules, patches, fingerprint.
//!
//! In: the bytes of a `.pt2` archive. Out: an immutable [`Program`] whose [`Graph`] other stages read;
//! patched programs; bytes of a `.pt2` again. Nothing is lost on the way: fields and files that this
//! module does not know travel verbatim.

pub mod ir;
pub mod patch;

pub use ir::*;
pub use patch::{Patch, PatchEdit};

use std::collections::HashMap;

/// An immutable exported graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// calls in topological order
    pub(crate) nodes: Vec<Node>,
    /// every value, also those of removed nodes' slots that are still named by the archive
    pub(crate) values: HashMap<ValueId, Value>,
    /// graph inputs in signature order
    pub(crate) inputs: Vec<ValueId>,
    /// graph outputs in signature order, mutation outputs included
    pub(crate) outputs: Vec<GraphOutput>,
}

/// One output of the graph.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphOutput {
    /// returned to the caller
    User(ValueId),
    /// written back into a buffer or an input; `target` is its name in the signature
    Mutation {
        /// the new content
        value: ValueId,
        /// buffer name or user input name
        target: String,
    },
    /// a constant or another shape kept as read
    Opaque(Option<ValueId>),
}

/// One use of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Use {
    /// the node that reads it
    pub node: NodeId,
    /// which argument of that node, by position in `Node::inputs`
    pub input: usize,
}
