//! Where programs run: this host now, emulated Arm, phones and boards later.
//!
//! In: a `.pte`, input tensors, how often to run. Out: outputs, samples, a trace. A crash, a signal or a
//! timeout of the program is a typed error, never the end of the host.
//!
//! To add a target: implement [`Target`] in a file of its own, start the runner with the arguments that
//! [`runner_process`] builds, and let it read the answer.

pub(crate) mod child;
pub mod local;
pub mod runner_build;
pub mod runner_process;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::evidence::TargetLabel;
use crate::hint::Hint;
use crate::torch::protocol::TensorFile;

/// One run of a program in a fresh process.
#[derive(Clone, Debug)]
pub struct RunRequest<'a> {
    /// the `.pte`
    pub program: &'a Path,
    /// user inputs, in order
    pub inputs: &'a [TensorFile],
    /// where outputs of the first run are written; none: they are not kept
    pub output_dir: Option<&'a Path>,
    /// intra-op threads
    pub threads: u32,
    /// untimed runs before the measured ones
    pub warmup: u32,
    /// measured runs
    pub iterations: u32,
    /// stop early after this much measured time (at least one run is made)
    pub max_measure: Duration,
    /// write an ETDump of separate traced runs here
    pub trace: Option<TraceRequest<'a>>,
    /// wall-clock limit for the process
    pub timeout: Duration,
}

/// Traced runs, made after the untraced ones.
#[derive(Clone, Copy, Debug)]
pub struct TraceRequest<'a> {
    /// ETDump file to write
    pub path: &'a Path,
    /// traced runs
    pub iterations: u32,
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct RunOutcome {
    /// time to load the program and the method, ns
    pub load_ns: u64,
    /// one entry a measured run, ns, in order
    pub samples_ns: Vec<u64>,
    /// outputs of the first run, when asked for
    pub outputs: Vec<TensorFile>,
    /// positions of inputs whose content changed during the first run
    pub mutated_inputs: Vec<usize>,
    /// peak resident memory of the process, bytes
    pub peak_memory_bytes: Option<u64>,
    /// times of the runs before the measured ones, ns; the first is a cold one
    pub warmup_ns: Vec<u64>,
    /// ETDump written, with how many nanoseconds one of its ticks is
    pub trace: Option<(PathBuf, f64)>,
    /// times of the traced runs, ns: beside `samples_ns` they show what tracing costs
    pub traced_ns: Vec<u64>,
    /// what the runtime said about the program
    pub program: ProgramFacts,
    /// what a user should know about this run
    pub notes: Vec<String>,
}

/// What the runtime says about a loaded program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramFacts {
    /// method that ran
    pub method: String,
    /// memory planned for activations, bytes
    pub planned_bytes: u64,
    /// instructions of the method
    pub instructions: u64,
    /// backends that the method calls
    pub backends: Vec<String>,
    /// inputs as the program declares them
    pub inputs: Vec<DeclaredValue>,
    /// outputs as the program declares them
    pub outputs: Vec<DeclaredValue>,
}

/// An input or output as the program declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct DeclaredValue {
    /// `tensor`, `int`, `float`, `bool`, `string`, `list`, `none`
    pub kind: String,
    /// torch's name without the prefix; empty when not a tensor
    #[serde(default)]
    pub dtype: String,
    /// sizes, upper bounds for dynamic ones
    #[serde(default)]
    pub sizes: Vec<u64>,
    /// dimension order in memory
    #[serde(default)]
    pub dim_order: Vec<u8>,
}

/// Something that runs programs.
pub trait Target: Send + Sync {
    /// what it is
    fn label(&self) -> TargetLabel;
    /// runs a program in a fresh process
    fn run(&self, request: &RunRequest<'_>) -> Result<RunOutcome, Error>;
    /// identity for cache keys: runner build, library versions, CPU model
    fn identity(&self) -> String;
    /// the processor, as it names itself; empty when unknown
    fn processor(&self) -> String;
    /// threads to use when the user did not say
    fn default_threads(&self) -> u32;
}

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the runner could not be built
    #[error("Failed to build the runner for {target}")]
    Build {
        /// target name
        target: String,
        /// why
        source: runner_build::Error,
    },
    /// the runner could not be built or started
    #[error("The runner for {target} cannot be used: {reason}")]
    Runner {
        /// target name
        target: String,
        /// why
        reason: String,
    },
    /// the program made the runtime die
    #[error("Running `{program}` on {target} crashed the runtime: {how}")]
    Crash {
        /// program path
        program: PathBuf,
        /// target name
        target: String,
        /// `signal 11 (SIGSEGV)`
        how: String,
        /// last lines of stderr
        stderr: String,
    },
    /// the runtime refused the program or an input
    #[error("ExecuTorch on {target} refused `{program}` at {stage}: {reason}")]
    Refused {
        /// program path
        program: PathBuf,
        /// target name
        target: String,
        /// `load`, `load_method`, `inputs`, `execute`
        stage: String,
        /// error name and code
        reason: String,
        /// last lines of stderr and runtime log
        stderr: String,
    },
    /// no answer in time
    #[error("Running `{program}` on {target} took longer than {seconds} s")]
    Timeout {
        /// program path
        program: PathBuf,
        /// target name
        target: String,
        /// limit
        seconds: u64,
    },
    /// the runner's answer was not of the protocol
    #[error("The runner for {target} answered something else than its protocol: {reason}")]
    Protocol {
        /// target name
        target: String,
        /// what was wrong
        reason: String,
    },
    /// the user stopped the tool
    #[error("Interrupted")]
    Interrupted,
    /// file trouble on the host
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Build { source, .. } => return source.hint(),
            Self::Runner { .. } => "Run `delegate-doctor doctor` to see what is missing",
            Self::Crash { .. } => {
                "The program itself makes the runtime die: lower it again, and compare it with one that an \
                 unchanged model gives"
            }
            Self::Refused { stage, .. } if stage == "inputs" => {
                "Give inputs of the element types and sizes that the model was exported with"
            }
            Self::Refused { .. } => {
                "Lower the model again with the executorch that runs it; an operator may lack a kernel"
            }
            Self::Timeout { .. } => "Allow more time, or use a smaller input",
            Self::Protocol { .. } => "Remove the cached runner, so that it is built again",
            Self::Io(error) => return error.hint(),
            Self::Interrupted => return None,
        };
        Some(hint.to_owned())
    }

    fn details(&self) -> Option<String> {
        match self {
            Self::Crash { stderr, .. } | Self::Refused { stderr, .. } if !stderr.is_empty() => Some(stderr.clone()),
            Self::Build { source, .. } => source.details(),
            _ => None,
        }
    }
}
