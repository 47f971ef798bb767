//! One run of the native runner: its command line, and its answer as a [`RunOutcome`] or a typed error.
//!
//! The runner speaks JSON lines, version 1 of its protocol; tensors travel by file. How the process ended
//! is part of the answer: a signal means that the program crashed the runtime.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde::Deserialize;

use super::child::{End, Finished, last_lines};
use super::conditions::Conditions;
use super::{DeclaredValue, Error, ProgramFacts, RunOutcome, RunRequest};
use crate::torch::protocol::TensorFile;

/// The protocol that this host speaks with its runners.
pub const PROTOCOL: u32 = 1;

/// First line of a runner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Hello {
    /// protocol version
    pub protocol: u32,
    /// runner version
    pub runner: String,
    /// `Linux`
    pub system: String,
    /// kernel release
    pub release: String,
    /// `x86_64`, `aarch64`
    pub architecture: String,
    /// CPU model; empty where the system does not tell
    pub cpu: String,
    /// CPU features as the system names them
    pub cpu_features: Vec<String>,
    /// backends linked into the runner
    pub backends: Vec<String>,
    /// kernels linked into the runner
    pub kernels: u64,
}

/// A line of a runner.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Message {
    Hello(Hello),
    Loaded {
        method: String,
        load_ns: u64,
        planned_bytes: u64,
        instructions: u64,
        backends: Vec<String>,
        inputs: Vec<DeclaredValue>,
        outputs: Vec<DeclaredValue>,
    },
    Note {
        message: String,
    },
    Outputs {
        mutated_inputs: Vec<usize>,
        tensors: Vec<OutputFile>,
    },
    Samples {
        warmup_ns: Vec<u64>,
        ns: Vec<u64>,
    },
    Conditions(Box<Conditions>),
    Trace {
        path: PathBuf,
        ns: Vec<u64>,
        ns_per_tick_numerator: u64,
        ns_per_tick_denominator: u64,
    },
    Done {
        peak_memory_bytes: u64,
    },
    Error {
        stage: String,
        code: u64,
        name: String,
        message: String,
        log: Vec<String>,
    },
}

#[derive(Debug, Deserialize)]
struct OutputFile {
    path: PathBuf,
    dtype: String,
    sizes: Vec<u64>,
}

/// The arguments of the runner for a request.
pub fn arguments(request: &RunRequest<'_>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--model".into(), request.program.into()];
    for input in request.inputs {
        arguments.extend(["--input".into(), input_argument(input)]);
    }
    let numbers = [
        ("--threads", u128::from(request.threads)),
        ("--warmup", u128::from(request.warmup)),
        ("--iterations", u128::from(request.iterations)),
        ("--max-measure-ms", request.max_measure.as_millis().min(u128::from(u64::MAX))),
    ];
    for (flag, number) in numbers {
        arguments.extend([flag.into(), number.to_string().into()]);
    }
    if request.warmup_limit > request.warmup {
        arguments.extend(["--warmup-limit".into(), request.warmup_limit.to_string().into()]);
    }
    if let Some(folder) = request.output_dir {
        arguments.extend(["--output-dir".into(), folder.into()]);
    }
    if let Some(trace) = request.trace {
        arguments.extend(["--trace".into(), trace.path.into()]);
        arguments.extend(["--trace-iterations".into(), trace.iterations.to_string().into()]);
    }
    arguments
}

fn input_argument(input: &TensorFile) -> OsString {
    fn list<T: ToString>(items: &[T]) -> String {
        items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
    let mut text = OsString::from(format!("{}:{}:{}:", input.dtype, list(&input.sizes), list(&input.dim_order)));
    text.push(&input.path);
    text
}

/// Reads what a finished runner said. `target` is the name for messages.
///
/// # Errors
/// Whatever kept the program from running to its end.
pub(crate) fn outcome(request: &RunRequest<'_>, target: &str, finished: &Finished) -> Result<RunOutcome, Error> {
    let status = match &finished.end {
        End::Exited(status) => *status,
        End::Interrupted => return Err(Error::Interrupted),
        End::TimedOut => {
            return Err(Error::Timeout {
                program: request.program.to_owned(),
                target: target.to_owned(),
                seconds: request.timeout.as_secs(),
            });
        }
    };
    if let Some(how) = killed(status) {
        return Err(Error::Killed { program: request.program.to_owned(), target: target.to_owned(), how });
    }
    if let Some(how) = signal_of(status) {
        return Err(Error::Crash {
            program: request.program.to_owned(),
            target: target.to_owned(),
            how,
            stderr: last_lines(&finished.stderr, 20),
        });
    }
    let protocol = |reason: String| Error::Protocol { target: target.to_owned(), reason };
    let mut outcome = RunOutcome::default();
    let mut greeted = false;
    let mut done = false;
    for line in finished.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Message =
            serde_json::from_slice(line).map_err(|error| protocol(format!("{error} in line `{}`", shown(line))))?;
        if !greeted {
            let Message::Hello(hello) = &message else {
                return Err(protocol("its first line is no greeting".to_owned()));
            };
            check_protocol(hello).map_err(protocol)?;
        }
        match message {
            Message::Hello(_) => greeted = true,
            Message::Loaded { method, load_ns, planned_bytes, instructions, backends, inputs, outputs } => {
                outcome.load_ns = load_ns;
                outcome.program = ProgramFacts { method, planned_bytes, instructions, backends, inputs, outputs };
            }
            Message::Note { message } => outcome.notes.push(message),
            Message::Outputs { mutated_inputs, tensors } => {
                outcome.mutated_inputs = mutated_inputs;
                outcome.outputs = tensors.into_iter().map(TensorFile::from).collect();
            }
            Message::Samples { warmup_ns, ns } => {
                outcome.warmup_ns = warmup_ns;
                outcome.samples_ns = ns;
            }
            Message::Conditions(conditions) => outcome.conditions = Some(*conditions),
            Message::Trace { path, ns, ns_per_tick_numerator, ns_per_tick_denominator } => {
                #[expect(clippy::cast_precision_loss, reason = "clock ratios are small numbers")]
                let scale = ns_per_tick_numerator as f64 / ns_per_tick_denominator as f64;
                if !(scale.is_finite() && scale > 0.0) {
                    return Err(protocol(format!(
                        "a tick of {ns_per_tick_numerator}/{ns_per_tick_denominator} ns makes no sense"
                    )));
                }
                outcome.trace = Some((path, scale));
                outcome.traced_ns = ns;
            }
            Message::Done { peak_memory_bytes } => {
                outcome.peak_memory_bytes = Some(peak_memory_bytes).filter(|&bytes| bytes > 0);
                done = true;
            }
            Message::Error { stage, code, name, message, log } => {
                return Err(refusal(request, target, finished, Refusal { stage, code, name, message, log }));
            }
        }
    }
    if !status.success() || !greeted {
        let said = last_lines(&finished.stderr, 5);
        let reason = format!("it ended with {status}{}{said}", if said.is_empty() { "" } else { ": " });
        return Err(Error::Runner { target: target.to_owned(), reason });
    }
    if !done {
        return Err(protocol("its answer ends in the middle".to_owned()));
    }
    if request.iterations > 0 && outcome.samples_ns.is_empty() {
        return Err(protocol("it measured nothing".to_owned()));
    }
    if request.trace.is_some_and(|trace| trace.iterations > 0) && outcome.trace.is_none() {
        return Err(protocol("it wrote no trace".to_owned()));
    }
    Ok(outcome)
}

/// The greeting of a runner that was started only to see whether it works.
pub(crate) fn greeting(target: &str, finished: &Finished) -> Result<Hello, Error> {
    let unusable = |reason: String| Error::Runner { target: target.to_owned(), reason };
    match &finished.end {
        End::Interrupted => return Err(Error::Interrupted),
        End::TimedOut => return Err(unusable("it does not answer".to_owned())),
        End::Exited(status) if !status.success() => {
            return Err(unusable(format!("it ended with {status}: {}", last_lines(&finished.stderr, 5))));
        }
        End::Exited(_) => {}
    }
    let line = finished.stdout.split(|&byte| byte == b'\n').next().unwrap_or_default();
    match serde_json::from_slice(line) {
        Ok(Message::Hello(hello)) => check_protocol(&hello).map(|()| hello).map_err(unusable),
        Ok(_) | Err(_) => Err(unusable(format!("it greets with `{}`", shown(line)))),
    }
}

fn check_protocol(hello: &Hello) -> Result<(), String> {
    if hello.protocol == PROTOCOL {
        return Ok(());
    }
    Err(format!("it speaks version {} of the protocol, this tool version {PROTOCOL}", hello.protocol))
}

struct Refusal {
    stage: String,
    code: u64,
    name: String,
    message: String,
    log: Vec<String>,
}

fn refusal(request: &RunRequest<'_>, target: &str, finished: &Finished, refusal: Refusal) -> Error {
    let Refusal { stage, code, name, message, log } = refusal;
    match stage.as_str() {
        "arguments" | "threads" => Error::Runner { target: target.to_owned(), reason: message },
        "trace" | "outputs" if name == "AccessFailed" => Error::Io(std::io::Error::other(message)),
        _ => Error::Refused {
            program: request.program.to_owned(),
            target: target.to_owned(),
            stage,
            reason: match log.last() {
                Some(last) => format!("{message} ({name}, 0x{code:02x}: {last})"),
                None => format!("{message} ({name}, 0x{code:02x})"),
            },
            stderr: last_lines(&finished.stderr, 20),
        },
    }
}

/// What ended a process from outside: the system for want of memory, or a person. It says nothing about the program.
fn killed(status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt as _;

    signal_of(status).filter(|_| matches!(status.signal(), Some(9 | 15)))
}

/// What ended a process that did not end by itself.
fn signal_of(status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt as _;

    let number = status.signal()?;
    let name = match number {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL, perhaps for want of memory",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        _ => return Some(format!("signal {number}")),
    };
    Some(format!("signal {number} ({name})"))
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.chars().take(120).collect()
}

impl From<OutputFile> for TensorFile {
    fn from(file: OutputFile) -> Self {
        Self { path: file.path, dtype: file.dtype, sizes: file.sizes, dim_order: Vec::new() }
    }
}

/// Where the runner of a target is; kept here so that a target needs no own error text.
pub(crate) fn not_started(target: &str, executable: &Path, error: &std::io::Error) -> Error {
    Error::Runner {
        target: target.to_owned(),
        reason: format!("`{}` cannot be started: {error}", executable.display()),
    }
}
