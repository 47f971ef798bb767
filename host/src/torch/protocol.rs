//! What is said between the host and the Python worker: JSON lines, tensors by file.
//!
//! The first line the worker writes is a [`Hello`]; after that it answers requests in order and never
//! asks. Version 1 of the protocol.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The protocol this host speaks.
pub const PROTOCOL: u32 = 1;

/// First line of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// protocol version
    pub protocol: u32,
    /// e.g. `3.11.7`
    pub python: String,
    /// e.g. `2.15.0+cpu`
    pub torch: String,
    /// e.g. `1.5.1`
    pub executorch: String,
}

/// A tensor on disk: raw little-endian elements in row-major order of `sizes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorFile {
    /// absolute path
    pub path: PathBuf,
    /// torch's name without the prefix: `float32`, `int64`, `bool`
    pub dtype: String,
    /// sizes, outermost first
    pub sizes: Vec<u64>,
    /// dimension order in memory, outermost first (`[0, 2, 3, 1]` is channels last); empty: row major.
    /// The file's elements are always row major; this only says how to lay the tensor out when used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dim_order: Vec<u8>,
}

/// What the user pointed the tool at, as the worker sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelSource {
    /// a `.py` file with `delegate_doctor_model()` and `delegate_doctor_inputs()`
    File {
        /// absolute path
        path: PathBuf,
    },
    /// `module:callable`; the callable returns `(model, inputs)` or `(model, inputs, kwargs)`
    Callable {
        /// importable module
        module: String,
        /// attribute of the module
        callable: String,
    },
    /// an exported program
    Program {
        /// absolute path of a `.pt2`
        path: PathBuf,
    },
}

/// Answer to `describe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Python version
    pub python: String,
    /// torch version, with its build label
    pub torch: String,
    /// executorch version
    pub executorch: String,
    /// folder that holds the installed `executorch` package
    pub executorch_folder: PathBuf,
    /// intra-op threads of torch
    pub threads: u32,
    /// processor as torch names it (`AVX2`), plus the machine (`x86_64`)
    pub cpu: String,
    /// memory limit that is in force, bytes
    pub memory_limit: Option<u64>,
}

/// Answer to `export`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exported {
    /// the `.pt2` that was written
    pub program: PathBuf,
    /// the user's own inputs, flattened in the order of the program's user inputs
    pub inputs: Vec<TensorFile>,
    /// files of the user's code that were imported (for the cache key), absolute
    pub sources: Vec<PathBuf>,
    /// seconds spent importing and building the model
    pub build_seconds: f64,
    /// seconds spent in `torch.export.export`
    pub export_seconds: f64,
    /// where the inputs come from
    pub inputs_from: InputsFrom,
    /// warnings that torch printed and a user should see
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Where the inputs of an exported model come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputsFrom {
    /// the user's own function
    User,
    /// the samples stored in the `.pt2`
    Program,
    /// made from the program's shapes with the seed, because it has no samples
    Generated,
}

/// Where in the user's code a node comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SourceLine {
    /// file as Python names it
    pub file: String,
    /// 1-based
    pub line: u32,
    /// enclosing function
    pub function: String,
    /// the line's text, trimmed
    pub text: String,
}

/// A node of the lowered method that stayed outside the delegate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fallback {
    /// instruction index in the method's chain 0, as ETDump reports it
    pub instruction: i64,
    /// kernel name as in the `.pte`: `aten::_softmax.out`
    pub kernel: String,
    /// edge dialect op: `aten._softmax.default`
    pub edge_op: String,
    /// edge dialect node name
    pub edge_node: String,
    /// names of the nodes of the exported (`.pt2`) program it comes from; empty when unknown
    pub original_nodes: Vec<String>,
    /// user's line
    pub source: Option<SourceLine>,
    /// path of module names (`decoder.blocks.0.conv1`), innermost module last; empty when unknown
    pub module_path: String,
    /// why the partitioner refused it
    pub reason: Reason,
}

/// Why a node is not in the delegate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Reason {
    /// stable code: `no-config` (XNNPACK's partitioner has no entry for the op), `constraint` (it has one,
    /// and this use breaks a constraint of it), `dtype`, `inserted-after-partitioning` (the node did not
    /// exist yet when partitions were made), `unknown`
    pub code: String,
    /// one plain sentence without a full stop
    pub text: String,
    /// the partitioner's own words, where it said something
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partitioner: String,
}

/// A delegate call of the lowered method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelegateCall {
    /// instruction index in chain 0
    pub instruction: i64,
    /// exported-program node names inside; empty when unknown
    pub original_nodes: Vec<String>,
}

/// Answer to `lower`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lowered {
    /// the `.pte` that was written
    pub program: PathBuf,
    /// its size
    pub bytes: u64,
    /// nodes outside, in execution order
    pub fallbacks: Vec<Fallback>,
    /// delegate calls, in execution order
    pub delegates: Vec<DelegateCall>,
    /// edge nodes inside delegates
    pub delegated_nodes: u64,
    /// warnings that torch or executorch printed and a user should see
    pub warnings: Vec<String>,
    /// seconds spent
    pub seconds: f64,
}

/// One set of user inputs for an eager run, and where its outputs go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSet {
    /// user inputs, flattened, in the program's order
    pub inputs: Vec<TensorFile>,
    /// folder for the outputs; it must exist
    pub out_dir: PathBuf,
}

/// A value of the graph with its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedTensor {
    /// value name
    pub name: String,
    /// content
    pub tensor: TensorFile,
}

/// Answer to `run_many`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EagerRuns {
    /// one entry a set, in order
    pub runs: Vec<EagerRun>,
}

/// Answer to `evaluate` and `capture`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedTensors {
    /// the values asked for, in that order
    pub values: Vec<NamedTensor>,
}

/// Answer to `run` (eager run of a `.pt2`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EagerRun {
    /// user outputs, flattened
    pub outputs: Vec<TensorFile>,
    /// positions of user inputs whose content changed during the run
    pub mutated_inputs: Vec<usize>,
    /// names of outputs as in the graph, where known
    pub names: Vec<String>,
}

/// Metadata of one value as torch's fake tensors see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FakeValue {
    /// value name
    pub name: String,
    /// dtype name
    pub dtype: String,
    /// sizes; symbolic ones as text
    pub sizes: Vec<serde_json::Value>,
    /// strides; symbolic ones as text
    pub strides: Vec<serde_json::Value>,
}

/// An argument of a single operator.
#[derive(Clone, Debug, Serialize)]
pub struct OperatorArgument {
    /// the schema's name
    pub name: String,
    /// `tensor` (a [`TensorFile`]), `tensors` (a list of them, with holes), `float`, `floats`, `dtype`,
    /// `memory_format` (by name), `plain` (as JSON)
    pub kind: String,
    /// the argument
    pub value: serde_json::Value,
}

/// Answer to `call`.
#[derive(Clone, Debug, Deserialize)]
pub struct OperatorResults {
    /// in the order of the operator's returns
    pub outputs: Vec<TensorFile>,
}

/// Answer to `check`: the program loads, and this is what fake-tensor propagation finds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// every tensor value
    pub values: Vec<FakeValue>,
    /// user inputs in order
    pub user_inputs: Vec<String>,
    /// user outputs in order
    pub user_outputs: Vec<String>,
}

/// What went wrong in the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// the model's file is missing, unreadable or no Python
    ModelFile,
    /// the user's code raised or ended the process's work
    ModelRaised,
    /// a function is missing or returned something else than agreed
    ModelContract,
    /// `torch.export` cannot capture the model
    ExportFailed,
    /// ExecuTorch cannot lower the program
    LoweringFailed,
    /// a `.pt2` that torch does not load, or that is inconsistent
    ProgramInvalid,
    /// an eager run failed
    RunFailed,
    /// the host asked for something that makes no sense
    BadRequest,
    /// memory ran out, or the limit was reached
    OutOfMemory,
    /// a file could not be written or read
    Disk,
    /// torch or executorch cannot be imported
    Environment,
    /// a defect of the worker
    Internal,
    /// a kind that this host does not know
    #[serde(other)]
    Other,
}

impl FailureKind {
    /// True when the user's own model or file is the cause, and not the tool or its surroundings.
    pub fn is_about_the_model(self) -> bool {
        matches!(
            self,
            Self::ModelFile | Self::ModelRaised | Self::ModelContract | Self::ExportFailed | Self::ProgramInvalid
        )
    }
}

/// A typed error of the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerError {
    /// what went wrong
    pub kind: FailureKind,
    /// one sentence
    pub message: String,
    /// traceback or log, may be long
    #[serde(default)]
    pub detail: String,
    /// what to do
    #[serde(default)]
    pub hint: Option<String>,
}

/// A line of the host.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a, P> {
    /// number of the request, counted up
    pub(super) id: u64,
    /// method name
    pub(super) method: &'a str,
    /// parameters of the method
    pub(super) params: P,
}

/// A line of the worker after its hello.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Response {
    /// request it belongs to
    pub(super) id: u64,
    /// the answer
    #[serde(default)]
    pub(super) ok: Option<serde_json::Value>,
    /// or what went wrong
    #[serde(default)]
    pub(super) error: Option<WorkerError>,
    /// or what is being done
    #[serde(default)]
    pub(super) progress: Option<String>,
}
