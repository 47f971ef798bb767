//! Operator schemas: argument names in order, types, defaults, alias annotations.

use super::{Literal, Node, NodeInput};

/// Type of an argument or a return, as far as it is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// one tensor
    Tensor,
    /// a list of tensors
    Tensors,
    /// a list of tensors with holes
    OptionalTensors,
    /// an integer, possibly symbolic
    Int,
    /// a list of integers, possibly symbolic; one integer stands for a list of `length`
    Ints {
        /// stated length, 0 for any
        length: usize,
    },
    /// a float
    Float,
    /// a list of floats
    Floats,
    /// an integer, a float or a boolean
    Scalar,
    /// a list of scalars
    Scalars,
    /// a boolean
    Bool,
    /// a list of booleans
    Bools,
    /// a string
    Text,
    /// a list of strings
    Texts,
    /// an element type
    ScalarType,
    /// a memory format
    MemoryFormat,
    /// a device
    Device,
    /// a layout
    Layout,
    /// anything else
    Other,
}

/// One argument.
#[derive(Clone, PartialEq, Debug)]
pub struct SchemaArgument {
    /// e.g. `self`, `dim`
    pub name: String,
    /// its type
    pub kind: Kind,
    /// `None` is a value of the type
    pub optional: bool,
    /// what stands when it is left out
    pub default: Option<Literal>,
    /// given by name only
    pub keyword_only: bool,
    /// alias set letter, e.g. `a`
    pub alias: Option<char>,
    /// the operator writes to it
    pub written: bool,
}

/// One return.
#[derive(Clone, PartialEq, Debug)]
pub struct SchemaReturn {
    /// its type
    pub kind: Kind,
    /// alias set letter, shared with an argument
    pub alias: Option<char>,
}

/// The schema of one overload.
#[derive(Clone, PartialEq, Debug)]
pub struct Schema {
    /// e.g. `aten.softmax.int`
    pub op: String,
    /// in order
    pub arguments: Vec<SchemaArgument>,
    /// in order
    pub returns: Vec<SchemaReturn>,
}

/// The schema of an overload such as `aten.softmax.int`.
pub fn lookup(_op: &str) -> Option<&'static Schema> {
    None
}

/// The full argument list of a node in schema order, with defaults filled in; `None` when the operator
/// has no schema here or the node does not fit it.
pub fn complete(_node: &Node) -> Option<Vec<NodeInput>> {
    let _: Option<Literal> = None;
    None
}
