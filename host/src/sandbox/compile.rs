//! Compiling in a child process that may die of it.
//!
//! A component of a megabyte can make the compiler take minutes and gigabytes, or panic. The child takes
//! limits on its own address space and processor time before it looks at the component; the parent adds a
//! wall clock and waits. What comes back is code for `trusted_code`.
//!
//! The child is this program called with [`SUBCOMMAND`], which must reach [`child_main`] before anything
//! else is done: standard input holds one line of JSON (the `Job`) and then the component. Standard output is a
//! file without a name, so that nothing is left of it however either of the two ends; the code goes there.

use std::ffi::OsString;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde::{Deserialize, Serialize};

use super::{Limits, engine};
use crate::interrupt;

/// The hidden subcommand of the binaries.
pub const SUBCOMMAND: &str = "__compile-rule";
/// Set for the child, and only for it.
pub const MARKER: &str = "DELEGATE_DOCTOR_COMPILE_RULE";
/// Bytes of the child's complaints that are kept.
const KEPT: u64 = 16 << 10;

/// How the compiling process is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    /// an executable that calls [`child_main`] when it is started with `arguments`
    pub program: PathBuf,
    /// e.g. [`SUBCOMMAND`]
    pub arguments: Vec<OsString>,
}

impl Helper {
    /// A binary of this tool.
    pub fn binary(program: PathBuf) -> Self {
        Self { program, arguments: vec![SUBCOMMAND.into()] }
    }

    /// The running program, which must be a binary of this tool.
    ///
    /// # Errors
    /// When the operating system does not say which file is running.
    pub fn current() -> std::io::Result<Self> {
        std::env::current_exe().map(Self::binary)
    }
}

#[derive(Serialize, Deserialize)]
struct Job {
    address_space: u64,
    cpu_seconds: u64,
    code_bytes: u64,
}

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the compiling process could not be started: {0}")]
    Start(std::io::Error),
    #[error("compiling took too much: {0}")]
    Limit(String),
    #[error("the compiler refused it: {0}")]
    Refused(String),
    #[error("interrupted")]
    Interrupted,
}

/// Compiles a component under the limits.
pub(super) fn compile(helper: &Helper, bytes: &[u8], limits: &Limits) -> Result<Vec<u8>, Error> {
    let mut output = tempfile::tempfile().map_err(Error::Start)?;
    let job = Job {
        address_space: limits.compile_address_space,
        cpu_seconds: limits.compile_cpu.as_secs().max(1),
        code_bytes: limits.code_bytes,
    };
    let mut input = serde_json::to_vec(&job).map_err(|error| Error::Start(error.into()))?;
    input.push(b'\n');
    input.extend_from_slice(bytes);

    let child = Command::new(&helper.program)
        .args(&helper.arguments)
        .env_clear()
        .env(MARKER, "1")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(output.try_clone().map_err(Error::Start)?)
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(Error::Start)?;
    let mut group = Group::of(child);
    if let Some(mut stdin) = group.child.stdin.take() {
        // The child may die before it has read everything; its status then says why.
        thread::spawn(move || stdin.write_all(&input));
    }
    let complaints = group.child.stderr.take().map(|pipe| {
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.take(KEPT).read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    });

    let status = group.wait(limits.compile_wall)?;
    drop(group);
    let complaints = complaints.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if status.success() {
        let mut code = Vec::new();
        // The child moved the position that both have.
        output.seek(SeekFrom::Start(0)).and_then(|_| output.read_to_end(&mut code)).map_err(Error::Start)?;
        return Ok(code);
    }
    Err(explain(status, &complaints, limits))
}

fn explain(status: ExitStatus, complaints: &str, limits: &Limits) -> Error {
    let last = complaints.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim();
    match (status.code(), status.signal().and_then(Signal::from_named_raw)) {
        (Some(REFUSED), _) => Error::Refused(last.to_owned()),
        // A Rust panic: the compiler met something it did not expect.
        (Some(101), _) => Error::Refused(format!("it panicked: {last}")),
        (_, Some(signal)) if signal == Signal::XCPU || signal == Signal::KILL => {
            Error::Limit(format!("{} s of processor time are allowed", limits.compile_cpu.as_secs()))
        }
        (_, Some(signal)) if signal == Signal::XFSZ => {
            Error::Limit(format!("{} MiB of code are allowed", limits.code_bytes >> 20))
        }
        (_, Some(signal)) if signal == Signal::ABORT || signal == Signal::SEGV => {
            Error::Limit(format!("{} MiB of memory are allowed ({last})", limits.compile_address_space >> 20))
        }
        _ => Error::Refused(format!("{status}: {last}")),
    }
}

/// A child with everything it may have started; killed when it is dropped.
struct Group {
    child: Child,
    ended: bool,
}

impl Group {
    fn of(child: Child) -> Self {
        Self { child, ended: false }
    }

    fn wait(&mut self, most: Duration) -> Result<ExitStatus, Error> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().map_err(Error::Start)? {
                self.ended = true;
                return Ok(status);
            }
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            if started.elapsed() > most {
                return Err(Error::Limit(format!("{} s are allowed", most.as_secs())));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Exit code of a child whose compiler gave an ordinary error.
const REFUSED: i32 = 3;

/// The child: reads the job and the component from standard input, compiles under its limits, writes the
/// code. The binaries call it, before they look at their arguments, when the first one is [`SUBCOMMAND`].
pub fn child_main() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "{reason}");
            ExitCode::from(u8::try_from(REFUSED).unwrap_or(1))
        }
    }
}

fn work() -> Result<(), String> {
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).map_err(|error| error.to_string())?;
    let (job, component) =
        input.iter().position(|&byte| byte == b'\n').and_then(|end| input.split_at_checked(end)).ok_or("no job")?;
    let job: Job = serde_json::from_slice(job).map_err(|error| error.to_string())?;
    let component = component.get(1..).unwrap_or_default();

    let limit = |resource, most: u64| {
        rustix::process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|error| format!("a limit could not be set: {error}"))
    };
    limit(Resource::As, job.address_space)?;
    limit(Resource::Cpu, job.cpu_seconds)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, job.code_bytes)?;

    let engine = engine::mapping().map_err(|error| format!("{error:#}"))?;
    let code = engine.precompile_component(component).map_err(|error| format!("{error:#}").replace('\n', " "))?;
    let mut output = std::io::stdout().lock();
    output.write_all(&code).and_then(|()| output.flush()).map_err(|error| format!("the code was not written: {error}"))
}
