//! Where programs run: this host, emulated Arm, phones and boards.
//!
//! In: a `.pte`, input tensors, how often to run. Out: outputs, samples, a trace. A crash, a signal or a
//! timeout of the program is a typed error, never the end of the host.
//!
//! To add a target: implement [`Target`] in a file of its own, start the runner with the arguments that
//! [`runner_process`] builds, and let it read the answer.

pub mod adb;
pub mod bundle;
pub(crate) mod child;
pub mod conditions;
pub mod device;
pub mod local;
pub mod qemu;
pub mod runner_build;
pub mod runner_process;
pub mod selector;
pub mod ssh;
pub mod survey;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::adb::{AdbOptions, DeviceState};
use self::bundle::Bundle;
use self::device::FOLDER_VARIABLE;
use self::device::facts::DeviceFacts;
use self::local::LocalTarget;
use self::qemu::QemuTarget;
use self::runner_process::Hello;
use self::selector::Selector;
use self::ssh::{CONFIGURATION_VARIABLE, SshOptions};
use crate::evidence::TargetLabel;
use crate::hint::Hint;
use crate::progress::Progress;
use crate::torch::environment::Environment;
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
    /// runs before the measured ones, at least
    pub warmup: u32,
    /// go on warming up while times fall, up to so many runs (and `max_measure` of time); no more than
    /// `warmup`: warm up exactly so often
    pub warmup_limit: u32,
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
    /// what the machine was doing meanwhile; `None` from a runner that does not tell
    pub conditions: Option<conditions::Conditions>,
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
    /// what the runner there says about itself; `None` where no runner was asked
    fn hello(&self) -> Option<&Hello> {
        None
    }
    /// what the target says about itself; `None` where that means nothing
    fn facts(&self) -> Option<&DeviceFacts> {
        None
    }
}

/// Makes a target ready: what it needs is built, copied there and tried. `runner` is the user's own runner for a
/// device. `progress` is told about work that takes a while.
///
/// # Errors
/// When the target is not there or does not work.
pub fn prepare(
    selector: &Selector,
    runner: Option<&Path>,
    environment: &Environment,
    cache: &Path,
    progress: &dyn Progress,
) -> Result<Box<dyn Target>, Error> {
    let bundle = || {
        let made = match runner {
            Some(own) => Bundle::of_user(own),
            None => Bundle::prepare(environment, cache, progress),
        };
        made.map_err(|error| match error {
            bundle::Error::Interrupted => Error::Interrupted,
            source => Error::Bundle { target: selector.to_string(), source: Box::new(source) },
        })
    };
    Ok(match selector {
        Selector::Local if runner.is_some() => return Err(Error::OwnRunnerHere),
        Selector::Local => Box::new(LocalTarget::prepare(environment, cache, progress)?),
        Selector::Qemu { cpu } => {
            qemu::emulator(&qemu::label_of(cpu))?;
            Box::new(QemuTarget::prepare(cpu, bundle()?)?)
        }
        Selector::Adb { serial } => {
            let options =
                AdbOptions { serial: serial.clone(), folder: variable(FOLDER_VARIABLE), variables: Vec::new() };
            Box::new(adb::prepare(&options, bundle, progress)?)
        }
        Selector::Ssh { host } => {
            let options = SshOptions {
                host: host.clone(),
                configuration: variable(CONFIGURATION_VARIABLE).map(PathBuf::from),
                folder: variable(FOLDER_VARIABLE),
            };
            Box::new(ssh::prepare(&options, bundle, progress)?)
        }
    })
}

/// An environment variable that is set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
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
    /// the user's own runner is for devices
    #[error("A runner of your own (`--runner`) is for a device, not for this host")]
    OwnRunnerHere,
    /// what a device needs could not be made
    #[error("Failed to make what {target} needs to run programs")]
    Bundle {
        /// target name
        target: String,
        /// why
        source: Box<bundle::Error>,
    },
    /// no emulator
    #[error("No emulator for {target} was found (tried {tried})")]
    NoEmulator {
        /// target name
        target: String,
        /// names that were tried
        tried: String,
    },
    /// the emulator does not know the CPU
    #[error("`{}` knows no CPU `{cpu}`", emulator.display())]
    UnknownCpu {
        /// program
        emulator: PathBuf,
        /// CPU that was asked for
        cpu: String,
    },
    /// no Android device can be used
    #[error("No Android device can be used ({state}): {reason}")]
    NotReady {
        /// what the devices are in
        state: DeviceState,
        /// in words
        reason: String,
    },
    /// a device was there and is not any more, or stopped working
    #[error("{target} failed while {during} ({state}): {reason}")]
    Lost {
        /// target name
        target: String,
        /// what was being done
        during: String,
        /// what the client said
        reason: String,
        /// what the device is in now
        state: DeviceState,
    },
    /// a host does not answer as it should
    #[error("`{host}` failed while {during} ({state}): {reason}")]
    Unreachable {
        /// as the user named it
        host: String,
        /// what was being done
        during: String,
        /// what `ssh` said
        reason: String,
        /// offline, or not authorized
        state: DeviceState,
    },
    /// no room there
    #[error("There is no space left on {target} (while {during})")]
    DeviceFull {
        /// target name
        target: String,
        /// what was being done
        during: String,
    },
    /// the device answers, and cannot do what it was asked for
    #[error("{target} answers, but {during} failed there: {reason}")]
    DeviceRefused {
        /// target name
        target: String,
        /// what was being done
        during: String,
        /// what the device said
        reason: String,
    },
    /// bytes changed on the way
    #[error("{what} has other bytes on {target} than here")]
    Altered {
        /// target name
        target: String,
        /// `the runner`, ``the file `…` ``
        what: String,
    },
    /// another device, or the same one started again
    #[error(
        "{target} was restarted, or another device answers in its place; what was measured before and after cannot be compared"
    )]
    Changed {
        /// target name
        target: String,
    },
    /// no 64-bit Arm there
    #[error(
        "{target} cannot be used (WRONG_ABI): its system is for {architecture}, and programs run on 64-bit Arm (aarch64)"
    )]
    WrongArchitecture {
        /// target name
        target: String,
        /// as `uname -m` says
        architecture: String,
    },
    /// the folder for this tool's files cannot be used
    #[error("`{folder}` in DELEGATE_DOCTOR_DEVICE_FOLDER is no folder for a device")]
    Folder {
        /// as the user named it
        folder: String,
    },
    /// no client
    #[error("There is no program `{program}`")]
    NoSsh {
        /// `ssh` or `scp`
        program: String,
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
    /// something outside ended the process
    #[error("Running `{program}` on {target} was ended from outside: {how}")]
    Killed {
        /// program path
        program: PathBuf,
        /// target name
        target: String,
        /// `signal 9 (SIGKILL, perhaps for want of memory)`
        how: String,
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
            Self::OwnRunnerHere => "Name a device with `--target`, or leave `--runner` out",
            Self::NotReady { state, .. } => state.next_step()?,
            Self::Lost { state, .. } => {
                let next = state.next_step().unwrap_or("See that the device stays awake and connected");
                return Some(format!("{next}; then go on where this ended with `--resume`"));
            }
            Self::Unreachable { state: DeviceState::Unauthorized, host, .. } => {
                return Some(format!(
                    "`ssh {host} true` must work without a question: set up a key (`ssh-copy-id {host}`) or an agent, and \
                     accept the host's key"
                ));
            }
            Self::Unreachable { host, .. } => {
                return Some(format!("See that `ssh {host} true` works; then go on where this ended with `--resume`"));
            }
            Self::DeviceFull { .. } => {
                "Free some space there, twice the size of the model at least; then go on with `--resume`"
            }
            Self::DeviceRefused { .. } => {
                "A device needs `sha256sum` and a folder that may be written; DELEGATE_DOCTOR_DEVICE_FOLDER names another \
                 one"
            }
            Self::Altered { .. } => {
                "Try another cable or port, and see that the device's storage is sound; then go on with `--resume`"
            }
            Self::Changed { .. } => "Leave the device alone while it measures; go on where this ended with `--resume`",
            Self::WrongArchitecture { .. } => "Use a device with a 64-bit Arm system (arm64-v8a), or `--target local`",
            Self::Folder { .. } => "It is an absolute path of letters, digits and `/._-+`",
            Self::NoSsh { .. } => "Install OpenSSH's client (Debian and Ubuntu: `apt install openssh-client`)",
            Self::Bundle { source, .. } => return source.hint(),
            Self::NoEmulator { .. } => "Install it (Debian and Ubuntu: `apt install qemu-user-static`)",
            Self::UnknownCpu { emulator, .. } => {
                return Some(format!("`{} -cpu help` lists the CPUs it knows", emulator.display()));
            }
            Self::Runner { .. } => "Run `delegate-doctor doctor` to see what is missing",
            Self::Killed { .. } => {
                "Close other programs, or use a target with more memory; then go on where this ended with `--resume`"
            }
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
            Self::Bundle { source, .. } => source.details(),
            _ => None,
        }
    }
}

/// True when a client's words say that there is no room.
fn is_full(said: &str) -> bool {
    ["No space left", "no space left", "Disk quota exceeded", "not enough space"].iter().any(|text| said.contains(text))
}

/// A client's words without control characters, at most a few lines.
fn plain_words(said: &str) -> String {
    let text: String = said.chars().filter(|letter| *letter == '\n' || !letter.is_control()).take(600).collect();
    text.trim().replace('\n', "; ")
}
