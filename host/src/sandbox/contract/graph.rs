//! Interface `graph`: what a rule is shown.

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

/// Element type of a tensor.
#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub enum ScalarType {
    #[component(name = "uint8")]
    Uint8,
    #[component(name = "int8")]
    Int8,
    #[component(name = "int16")]
    Int16,
    #[component(name = "int32")]
    Int32,
    #[component(name = "int64")]
    Int64,
    #[component(name = "float16")]
    Float16,
    #[component(name = "bfloat16")]
    Bfloat16,
    #[component(name = "float32")]
    Float32,
    #[component(name = "float64")]
    Float64,
    #[component(name = "boolean")]
    Boolean,
    #[component(name = "complex64")]
    Complex64,
    #[component(name = "complex128")]
    Complex128,
    #[component(name = "other")]
    Other,
}

/// `torch.memory_format`.
#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub enum MemoryFormat {
    #[component(name = "contiguous")]
    Contiguous,
    #[component(name = "preserve")]
    Preserve,
    #[component(name = "channels-last")]
    ChannelsLast,
    #[component(name = "channels-last3d")]
    ChannelsLast3d,
    #[component(name = "other")]
    Other,
}

/// A size that is not known before the program runs.
#[derive(ComponentType, Lift, Lower, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Symbol {
    /// the exporter's spelling
    pub expression: String,
    /// the value at export time
    pub hint: Option<i64>,
    /// lower bound
    pub min: Option<i64>,
    /// upper bound
    pub max: Option<i64>,
}

/// One size or stride.
#[derive(ComponentType, Lift, Lower, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Dim {
    /// a number
    #[component(name = "fixed")]
    Fixed(i64),
    /// varies
    #[component(name = "symbolic")]
    Symbolic(Symbol),
}

/// What is known about a tensor.
#[derive(ComponentType, Lift, Lower, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct TensorMeta {
    /// element type
    pub dtype: ScalarType,
    /// outermost first
    pub sizes: Vec<Dim>,
    /// in elements, outermost first
    pub strides: Vec<Dim>,
    /// e.g. `cpu`
    pub device: String,
}

/// An argument that holds no value of the graph.
#[derive(ComponentType, Lift, Lower, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub enum Literal {
    #[component(name = "none")]
    None,
    #[component(name = "int")]
    Int(i64),
    #[component(name = "ints")]
    Ints(Vec<i64>),
    #[component(name = "sym-int")]
    SymInt(Dim),
    #[component(name = "sym-ints")]
    SymInts(Vec<Dim>),
    #[component(name = "float")]
    Float(f64),
    #[component(name = "floats")]
    Floats(Vec<f64>),
    #[component(name = "boolean")]
    Boolean(bool),
    #[component(name = "booleans")]
    Booleans(Vec<bool>),
    #[component(name = "text")]
    Text(String),
    #[component(name = "texts")]
    Texts(Vec<String>),
    #[component(name = "dtype")]
    Dtype(ScalarType),
    #[component(name = "memory-format")]
    MemoryFormat(MemoryFormat),
    #[component(name = "device")]
    Device(String),
    #[component(name = "layout")]
    Layout(String),
    #[component(name = "other")]
    Other(String),
}

/// An argument of a node.
#[derive(ComponentType, Lower, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Argument {
    /// no value in it
    #[component(name = "literal")]
    Literal(Literal),
    /// one value
    #[component(name = "value")]
    Value(u32),
    /// a list of values
    #[component(name = "values")]
    Values(Vec<u32>),
    /// a list with holes
    #[component(name = "optional-values")]
    OptionalValues(Vec<Option<u32>>),
}

/// A named argument.
#[derive(ComponentType, Lower, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Input {
    /// the schema's name
    pub name: String,
    /// the argument
    pub argument: Argument,
}

/// One call of the graph.
#[derive(ComponentType, Lower, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Node {
    /// id within the site
    pub id: u32,
    /// full overload name
    pub op: String,
    /// in schema order, defaults filled in
    pub inputs: Vec<Input>,
    /// every tensor it returns, lists flattened
    pub outputs: Vec<u32>,
    /// the backend did not take it
    #[component(name = "outside-delegate")]
    pub outside_delegate: bool,
    /// measured share of the method's run time
    pub share: Option<f64>,
}

/// Where a value comes from.
#[derive(ComponentType, Lower, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum ValueSource {
    /// returned by a node, which may lie outside the site
    #[component(name = "node")]
    Node(u32),
    /// given by the caller
    #[component(name = "user-input")]
    UserInput,
    /// a parameter
    #[component(name = "parameter")]
    Parameter(String),
    /// a buffer
    #[component(name = "buffer")]
    Buffer(String),
    /// a lifted constant
    #[component(name = "constant")]
    Constant(String),
    /// nothing that a rule can use
    #[component(name = "opaque")]
    Opaque,
}

/// A value that some node of the site takes or returns.
#[derive(ComponentType, Lower, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Value {
    /// id within the site
    pub id: u32,
    /// where it comes from
    pub source: ValueSource,
    /// none: not a tensor
    pub meta: Option<TensorMeta>,
    /// uses in the whole graph, outputs included
    #[component(name = "use-count")]
    pub use_count: u32,
    /// the program returns it
    #[component(name = "is-graph-output")]
    pub is_graph_output: bool,
    /// something writes to its memory
    #[component(name = "is-mutated")]
    pub is_mutated: bool,
    /// another value may share its memory
    #[component(name = "is-aliased")]
    pub is_aliased: bool,
    /// depends on parameters, unmutated buffers and constants only
    #[component(name = "is-constant")]
    pub is_constant: bool,
}

/// One use of a value.
#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct UseSite {
    /// the value
    pub value: u32,
    /// the node that takes it
    pub consumer: u32,
    /// position in the consumer's inputs
    pub input: u32,
}

/// What the partitioner said about a node that it refused.
#[derive(ComponentType, Lower, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Finding {
    /// the node
    pub node: u32,
    /// stable code
    pub code: String,
    /// in the partitioner's words
    pub detail: String,
}

/// What the program is lowered for.
#[derive(ComponentType, Lower, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct TargetInfo {
    /// e.g. `xnnpack`
    pub backend: String,
    /// e.g. `1.5.1`
    #[component(name = "backend-version")]
    pub backend_version: String,
    /// e.g. `torch 2.15.0`
    pub exporter: String,
}

/// One place of the graph.
#[derive(ComponentType, Lower, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Site {
    /// the node that matched
    pub anchor: u32,
    /// which anchor of the manifest it matched
    #[component(name = "anchor-index")]
    pub anchor_index: u32,
    /// what the program is lowered for
    pub target: TargetInfo,
    /// the anchor, its producers, its consumers, breadth first
    pub nodes: Vec<Node>,
    /// every value that a node mentions
    pub values: Vec<Value>,
    /// every use within the site of a value that a node of the site returns
    pub uses: Vec<UseSite>,
    /// the partitioner's words on the nodes
    pub findings: Vec<Finding>,
    /// false: cut short at a limit
    pub complete: bool,
    /// further facts
    pub hints: Vec<(String, String)>,
}

impl Site {
    /// The same bytes for equal sites, other bytes for different ones; part of the key under which a verdict
    /// may be kept.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1 << 10);
        self.write_canonical(&mut bytes);
        bytes
    }

    /// Appends the canonical bytes: every field in the order of the type, lengths before contents.
    pub(crate) fn write_canonical(&self, bytes: &mut Vec<u8>) {
        // Plain data without maps, written to memory: nothing in it can fail.
        let _ = postcard::serialize_with_flavor(self, Appended(bytes));
    }
}

/// Bytes at the end of a vector.
struct Appended<'v>(&'v mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Appended<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
