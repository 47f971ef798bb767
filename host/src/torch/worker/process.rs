//! The child process itself: pipes, reader threads, process group.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fs_err as fs;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::WorkerOptions;
use crate::torch::error::Error;
use crate::torch::variables;

/// Longest line of the protocol; answers name files instead of carrying tensors.
pub(super) const LONGEST_LINE: u64 = 64 << 20;
/// Lines of stderr that are kept for error messages.
const TAIL_LINES: usize = 100;
/// Bytes of one line of stderr that are kept.
const TAIL_LINE_BYTES: u64 = 4096;

/// What runs in front of the worker's own code: its folder goes to the end of the search path, so that
/// no module of the user is shadowed.
const BOOTSTRAP: &str = "import sys\n\
sys.path[:] = [entry for entry in sys.path if entry] + [sys.argv[1]]\n\
from delegate_doctor_worker.serve import main\n\
main(sys.argv[2:])\n";

/// What the reader of stdout found.
pub(super) enum Event {
    /// a line without its end
    Line(String),
    /// a line beyond the limit, with its beginning
    TooLong(String),
    /// a line that is not UTF-8, with its beginning
    NotText(String),
    /// nothing within the time
    Nothing,
    /// the process has ended or closed its output
    Closed,
}

/// A child in a process group of its own.
pub(super) struct Child {
    process: std::process::Child,
    group: Option<Pid>,
    requests: Option<Sender<String>>,
    events: Receiver<Event>,
    tail: Arc<Mutex<VecDeque<String>>>,
    stderr_reader: Option<JoinHandle<()>>,
    status: Option<ExitStatus>,
}

impl Child {
    pub(super) fn start(
        python: &Path,
        package: &Path,
        arguments: &[String],
        options: &WorkerOptions,
    ) -> Result<Self, Error> {
        let mut command = Command::new(python);
        command.args(["-B", "-c", BOOTSTRAP]).arg(package).args(arguments);
        Self::spawn(command, options)
    }

    pub(super) fn spawn(mut command: Command, options: &WorkerOptions) -> Result<Self, Error> {
        let log = match &options.log {
            Some(path) => Some(
                fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(path)
                    .map_err(|source| Error::Prepare { folder: path.clone(), source })?,
            ),
            None => None,
        };
        let python = command.get_program().into();
        let mut process = command
            .env_clear()
            .envs(variables::scrubbed(std::env::vars_os(), options.threads))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Start { python, source })?;
        let group = i32::try_from(process.id()).ok().and_then(Pid::from_raw);

        let (requests, to_write) = mpsc::channel::<String>();
        if let Some(mut stdin) = process.stdin.take() {
            // A thread of its own: a child that does not read must not block the host.
            thread::spawn(move || {
                for request in to_write {
                    if stdin.write_all(request.as_bytes()).and_then(|()| stdin.write_all(b"\n")).is_err() {
                        return;
                    }
                }
            });
        }
        // Bounded, so that a flood of lines fills the pipe instead of the host's memory.
        let (lines, events) = mpsc::sync_channel(64);
        if let Some(stdout) = process.stdout.take() {
            thread::spawn(move || read_lines(stdout, &lines));
        }
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let stderr_reader = process.stderr.take().map(|stderr| {
            let tail = Arc::clone(&tail);
            thread::spawn(move || keep_tail(stderr, &tail, log))
        });
        Ok(Self { process, group, requests: Some(requests), events, tail, stderr_reader, status: None })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Queues a line for the child; false when it can no longer be written.
    pub(super) fn send(&self, line: String) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.send(line).is_ok())
    }

    /// Closes the child's stdin, which asks it to end.
    pub(super) fn close_stdin(&mut self) {
        self.requests = None;
    }

    /// Waits for the next line up to `limit`.
    pub(super) fn event(&self, limit: Duration) -> Event {
        match self.events.recv_timeout(limit) {
            Ok(event) => event,
            Err(RecvTimeoutError::Disconnected) => Event::Closed,
            Err(RecvTimeoutError::Timeout) => {
                // A grandchild may keep the pipe open after the worker's end.
                if self.has_ended() { self.events.try_recv().unwrap_or(Event::Closed) } else { Event::Nothing }
            }
        }
    }

    /// True once the process has ended. It is not collected, so its number stays its own.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match self.group {
            Some(pid) => !matches!(waitid(WaitId::Pid(pid), options), Ok(None)),
            None => true,
        }
    }

    /// Waits for the end of the process; when it ended, kills what it left behind and collects it.
    pub(super) fn wait_up_to(&mut self, limit: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        while !self.has_ended() {
            if started.elapsed() >= limit {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.kill();
        self.status
    }

    /// Kills the whole group and collects the process.
    pub(super) fn kill(&mut self) {
        self.requests = None;
        if let Some(group) = self.group.take() {
            // The process is not collected yet, so the group's number cannot belong to others.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            self.status = self.process.wait().ok();
        }
    }

    /// The kept lines of stderr.
    pub(super) fn stderr_tail(&self) -> String {
        if self.status.is_some() {
            // Let the reader finish: the last words matter most. Someone else may hold the pipe open.
            let started = Instant::now();
            while self.stderr_reader.as_ref().is_some_and(|reader| !reader.is_finished())
                && started.elapsed() < Duration::from_millis(500)
            {
                thread::sleep(Duration::from_millis(2));
            }
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `exit code 3` or `signal 9 (SIGKILL)`, and the signal's number.
pub(super) fn describe_status(status: Option<ExitStatus>) -> (String, Option<i32>) {
    let Some(status) = status else { return ("it closed its output".to_owned(), None) };
    match (status.code(), status.signal()) {
        (Some(code), _) => (format!("exit code {code}"), None),
        (None, Some(signal)) => {
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                15 => " (SIGTERM)",
                _ => "",
            };
            (format!("signal {signal}{name}"), Some(signal))
        }
        (None, None) => ("it ended in an unknown way".to_owned(), None),
    }
}

fn read_lines(stdout: impl Read, lines: &SyncSender<Event>) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut bytes = Vec::new();
        match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let ends = bytes.last() == Some(&b'\n');
        if ends {
            bytes.pop();
        }
        let event = if !ends && bytes.len() as u64 == LONGEST_LINE {
            Event::TooLong(beginning(&bytes))
        } else {
            match String::from_utf8(bytes) {
                Ok(line) => Event::Line(line),
                Err(error) => Event::NotText(beginning(error.as_bytes())),
            }
        };
        let fatal = !matches!(event, Event::Line(_));
        if lines.send(event).is_err() || fatal {
            return;
        }
    }
}

fn beginning(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes.get(..80).unwrap_or(bytes)))
}

fn keep_tail(stderr: impl Read, tail: &Mutex<VecDeque<String>>, mut log: Option<fs::File>) {
    let mut reader = BufReader::new(stderr);
    loop {
        let mut bytes = Vec::new();
        match reader.by_ref().take(TAIL_LINE_BYTES).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if log.as_mut().is_some_and(|log| log.write_all(&bytes).is_err()) {
            // A full disk must not stop the worker; its answers will tell.
            log = None;
        }
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(line);
    }
}
