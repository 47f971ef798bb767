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

/// Answer to `export`.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// stable code: `no-config`, `constraint`, `dtype`, `inserted-after-partitioning`, `unknown`
    pub code: String,
    /// the partitioner's own words, or what is known
    pub text: String,
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

/// Answer to `run` (eager run of a `.pt2`).
#[derive(Clone, Debug, Serialize, Deserialize)]
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

/// A typed error of the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerError {
    /// stable kind: `model_file`, `model_raised`, `model_contract`, `export_failed`, `lowering_failed`,
    /// `program_invalid`, `run_failed`, `bad_request`, `out_of_memory`, `disk`, `internal`
    pub kind: String,
    /// one sentence
    pub message: String,
    /// traceback or log, may be long
    #[serde(default)]
    pub detail: String,
    /// what to do
    #[serde(default)]
    pub hint: Option<String>,
}
