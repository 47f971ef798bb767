//! The typed view of a `torch.export` graph: nodes, values, arguments.
//!
//! A [`Graph`](super::Graph) is immutable; a patch makes a new one. Node and value ids are stable
//! across patches: an id that a patch removes is never given to something else.

use std::fmt;
use std::sync::Arc;

/// Stable name of a node within a program and all graphs patched from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

/// Stable name of a value (a tensor, a symbolic scalar or a list slot).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// Element type of a tensor; the codes are those of `torch._export.serde.schema.ScalarType`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScalarType {
    /// unsigned 8-bit integer
    UInt8,
    /// signed 8-bit integer
    Int8,
    /// signed 16-bit integer
    Int16,
    /// signed 32-bit integer
    Int32,
    /// signed 64-bit integer
    Int64,
    /// IEEE half
    Float16,
    /// bfloat16
    BFloat16,
    /// IEEE single
    Float32,
    /// IEEE double
    Float64,
    /// one byte, 0 or 1
    Bool,
    /// two singles
    Complex64,
    /// two doubles
    Complex128,
    /// a code this version does not name; kept as read
    Other(i64),
}

/// One size or stride.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dim {
    /// known number
    Fixed(i64),
    /// an expression over the program's symbols
    Symbolic(Symbol),
}

/// A symbolic size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// the exporter's own spelling (sympy `srepr`)
    pub expression: String,
    /// the value at export time
    pub hint: Option<i64>,
    /// lower bound, where the program states one
    pub min: Option<i64>,
    /// upper bound, where the program states one
    pub max: Option<i64>,
}

impl Dim {
    /// True for the same number or the same expression.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fixed(a), Self::Fixed(b)) => a == b,
            (Self::Symbolic(a), Self::Symbolic(b)) => a.expression == b.expression,
            _ => false,
        }
    }

    /// The number, when it is known.
    pub fn fixed(&self) -> Option<i64> {
        match self {
            Self::Fixed(n) => Some(*n),
            Self::Symbolic(_) => None,
        }
    }
}

/// What the exporter says about a tensor value.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorMeta {
    /// element type
    pub dtype: ScalarType,
    /// sizes, outermost first
    pub sizes: Vec<Dim>,
    /// strides in elements, outermost first
    pub strides: Vec<Dim>,
    /// offset into the storage, in elements
    pub storage_offset: Dim,
    /// e.g. `cpu`, `cuda:0`
    pub device: String,
    /// the exporter's code (7 is strided)
    pub layout: i64,
    /// as exported
    pub requires_grad: bool,
}

impl TensorMeta {
    /// Sizes, when all are known.
    pub fn fixed_sizes(&self) -> Option<Vec<i64>> {
        self.sizes.iter().map(Dim::fixed).collect()
    }

    /// Strides, when all are known.
    pub fn fixed_strides(&self) -> Option<Vec<i64>> {
        self.strides.iter().map(Dim::fixed).collect()
    }
}

/// What a value is.
#[derive(Clone, PartialEq, Debug)]
pub enum ValueKind {
    /// a tensor
    Tensor(TensorMeta),
    /// a symbolic integer
    SymInt(Dim),
    /// a symbolic float or bool, a custom object, a token: kept, never matched
    Opaque,
}

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueSource {
    /// output `output` of a node
    Node {
        /// the producer
        node: NodeId,
        /// which of its outputs, counted over all tensors
        output: usize,
    },
    /// an argument that the caller gives
    UserInput,
    /// a parameter, by its fully qualified name
    Parameter(String),
    /// a buffer, by its fully qualified name
    Buffer {
        /// fully qualified name
        fqn: String,
        /// saved with the state dict
        persistent: bool,
    },
    /// a lifted constant tensor
    Constant(String),
    /// a custom object, token or constant scalar input: kept, never matched
    Opaque,
}

/// A value of the graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// stable id
    pub id: ValueId,
    /// the name in the archive (`relu_1`)
    pub name: String,
    /// tensor metadata or symbolic kind
    pub kind: ValueKind,
    /// producer
    pub source: ValueSource,
}

impl Value {
    /// The tensor metadata, when the value is a tensor.
    pub fn tensor(&self) -> Option<&TensorMeta> {
        match &self.kind {
            ValueKind::Tensor(meta) => Some(meta),
            _ => None,
        }
    }
}

/// `torch.memory_format`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryFormat {
    /// row major
    Contiguous,
    /// as the input
    Preserve,
    /// NHWC
    ChannelsLast,
    /// NDHWC
    ChannelsLast3d,
    /// a code this version does not name
    Other(i64),
}

/// An argument that holds no value of the graph.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    /// Python `None`
    None,
    /// an integer
    Int(i64),
    /// a list of integers
    Ints(Vec<i64>),
    /// a float
    Float(f64),
    /// a list of floats
    Floats(Vec<f64>),
    /// a boolean
    Bool(bool),
    /// a list of booleans
    Bools(Vec<bool>),
    /// a string
    Text(String),
    /// a list of strings
    Texts(Vec<String>),
    /// an element type
    ScalarType(ScalarType),
    /// a memory format
    MemoryFormat(MemoryFormat),
    /// a device, e.g. `cpu`
    Device(String),
    /// a layout code
    Layout(i64),
    /// anything else, as its archive JSON (a one-key object)
    Other(serde_json::Value),
}

/// An integer argument that may be a symbolic value.
#[derive(Clone, PartialEq, Debug)]
pub enum SymIntArgument {
    /// a number
    Fixed(i64),
    /// a symbolic value of the graph
    Value(ValueId),
}

/// One argument of a node.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    /// no value of the graph in it
    Literal(Literal),
    /// one value (a tensor or a symbolic scalar)
    Value(ValueId),
    /// a list of tensors
    Values(Vec<ValueId>),
    /// a list of tensors with holes
    OptionalValues(Vec<Option<ValueId>>),
    /// a list of integers of which some are symbolic
    SymInts(Vec<SymIntArgument>),
    /// a control-flow subgraph or another shape this version keeps as read; the values it mentions
    /// are listed so that they count as used
    Opaque {
        /// archive JSON, verbatim
        json: serde_json::Value,
        /// values of this graph's scope that it mentions
        mentions: Vec<ValueId>,
    },
}

/// A named argument.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeInput {
    /// the schema's name, e.g. `self`, `dim`
    pub name: String,
    /// the argument
    pub arg: Argument,
    /// written as a keyword in the archive (`kind` 2)
    pub keyword: bool,
}

/// One output slot of a node.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeOutput {
    /// one value
    Value(ValueId),
    /// a list return (`split`, `unbind`)
    Values(Vec<ValueId>),
    /// a `None` return or another shape, kept as read
    Opaque(serde_json::Value),
}

/// One call of the graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// stable id
    pub id: NodeId,
    /// the node's name (`softmax`), unique in the graph
    pub name: String,
    /// overload name without the `torch.ops.` prefix: `aten.softmax.int`
    pub op: String,
    /// arguments as written in the archive; defaults are left out
    pub inputs: Vec<NodeInput>,
    /// outputs as written
    pub outputs: Vec<NodeOutput>,
    /// the archive's `metadata` map, verbatim (`stack_trace`, `nn_module_stack`, …)
    pub metadata: Arc<serde_json::Map<String, serde_json::Value>>,
    /// fields of the node that this version does not name, verbatim
    pub extra: Arc<serde_json::Map<String, serde_json::Value>>,
}
