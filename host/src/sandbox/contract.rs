//! What a rule is shown and what it answers, as plain data of the newest contract.
//!
//! The types mirror the newest contract exactly and cross the sandbox's border as they are; older contracts
//! convert into them, so that the rest of the host knows one form. A [`Site`] has a canonical JSON form ([`Site::canonical_bytes`]): together with
//! the rule's hash and the limits it determines the verdict.

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
    /// The same bytes for equal sites; part of the key under which a verdict may be kept.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        // Plain data without maps: writing it cannot fail, and fields come in the order of the type.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// An output of a node that the same rewrite inserts.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct CreatedRef {
    /// position among the inserts
    pub insertion: u32,
    /// which output
    pub output: u32,
}

/// A value of the site, or one that the rewrite makes.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum ValueRef {
    /// of the site
    #[component(name = "existing")]
    Existing(u32),
    /// made by the rewrite
    #[component(name = "created")]
    Created(CreatedRef),
}

/// An argument of a new or changed node.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Operand {
    /// no value in it
    #[component(name = "literal")]
    Literal(Literal),
    /// one value
    #[component(name = "value")]
    Value(ValueRef),
    /// a list of values
    #[component(name = "values")]
    Values(Vec<ValueRef>),
    /// a list with holes
    #[component(name = "optional-values")]
    OptionalValues(Vec<Option<ValueRef>>),
}

/// A named argument of a new node.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct NamedOperand {
    /// the schema's name
    pub name: String,
    /// the argument
    pub operand: Operand,
}

/// A node to insert.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct NewNode {
    /// full overload name
    pub op: String,
    /// by name; the rest takes the schema's defaults
    pub inputs: Vec<NamedOperand>,
    /// what the rule believes about the outputs; empty: nothing
    pub expect: Vec<TensorMeta>,
}

/// Every use of a value becomes a use of another.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Replacement {
    /// the old value
    pub value: u32,
    /// the new one
    pub by: ValueRef,
}

/// One use of a value becomes a use of another.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct UseReplacement {
    /// which use
    #[component(name = "use-site")]
    pub use_site: UseSite,
    /// the new value
    pub by: ValueRef,
}

/// One argument becomes something else.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct InputChange {
    /// the node
    pub node: u32,
    /// argument name
    pub input: String,
    /// new argument
    pub operand: Operand,
}

/// One edit.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Edit {
    /// a new node before the anchor
    #[component(name = "insert")]
    Insert(NewNode),
    /// all uses
    #[component(name = "replace-all-uses")]
    ReplaceAllUses(Replacement),
    /// one use
    #[component(name = "replace-use")]
    ReplaceUse(UseReplacement),
    /// one argument
    #[component(name = "set-input")]
    SetInput(InputChange),
    /// remove an unused node
    #[component(name = "delete")]
    Delete(u32),
    /// compute a constant value once and store it
    #[component(name = "fold")]
    Fold(ValueRef),
}

/// `atol + rtol * scale of the output`.
#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Tolerance {
    /// relative to the scale of the output
    pub rtol: f64,
    /// absolute
    pub atol: f64,
}

/// What a rewrite does to the numbers.
#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Numerics {
    /// the same bits
    #[component(name = "exact")]
    Exact,
    /// the same up to rounding
    #[component(name = "tolerant")]
    Tolerant(Tolerance),
    /// as tolerant where the original is computed as written; repairs a wrong lowering
    #[component(name = "corrective")]
    Corrective(Tolerance),
}

/// Why, as a code and a sentence.
#[derive(ComponentType, Lift, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Reason {
    /// one of the manifest's codes
    pub code: String,
    /// with the facts of the site
    pub message: String,
}

/// What a rule proposes.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Rewrite {
    /// in order, all or none
    pub edits: Vec<Edit>,
    /// the claim
    pub numerics: Numerics,
    /// why the new form is better
    pub why: Reason,
    /// further remarks
    pub hints: Vec<(String, String)>,
}

/// A rule's answer for one site.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Verdict {
    /// nothing to offer, and why
    #[component(name = "decline")]
    Decline(Reason),
    /// edits
    #[component(name = "rewrite")]
    Rewrite(Rewrite),
}

/// An argument of the anchor must be returned by one of these ops.
#[derive(ComponentType, Lift, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct ProducerConstraint {
    /// argument name
    pub input: String,
    /// full overload names
    pub ops: Vec<String>,
}

/// What a rule wants to see.
#[derive(ComponentType, Lift, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Anchor {
    /// full overload names
    pub ops: Vec<String>,
    /// constraints on the anchor's arguments
    pub producers: Vec<ProducerConstraint>,
    /// producers of producers to show
    #[component(name = "producer-depth")]
    pub producer_depth: u8,
    /// consumers of consumers to show
    #[component(name = "consumer-depth")]
    pub consumer_depth: u8,
    /// only nodes that run outside the delegate
    #[component(name = "only-outside-delegate")]
    pub only_outside_delegate: bool,
}

/// A reason code with its meaning.
#[derive(ComponentType, Lift, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct ReasonCode {
    /// the code
    pub code: String,
    /// what it means
    pub summary: String,
}

/// Whether a rule is on by default.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
pub enum Stability {
    /// off unless asked for
    #[component(name = "preview")]
    Preview,
    /// on
    #[component(name = "stable")]
    Stable,
}

/// What a rule says it is.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Manifest {
    /// e.g. `dd-001`
    pub id: String,
    /// semantic version
    pub version: String,
    /// a few words
    pub title: String,
    /// a sentence or two
    pub summary: String,
    /// preview or stable
    pub stability: Stability,
    /// the weakest claim of any rewrite
    pub numerics: Numerics,
    /// backends it is for; empty: any
    pub backends: Vec<String>,
    /// what it wants to see
    pub anchors: Vec<Anchor>,
    /// every code it can give
    pub codes: Vec<ReasonCode>,
    /// further remarks
    pub hints: Vec<(String, String)>,
}
