//! Child processes that end when they should: with the call that started them, on a timeout, or when the
//! user wants to stop. Each runs in its own process group, and the whole group is ended.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::interrupt;

/// How often the user's wish to stop is looked at.
const POLL: Duration = Duration::from_millis(50);
/// Most that is kept of stdout; a child that says more has lost its senses.
const MAX_STDOUT: u64 = 256 << 20;
/// How much of the end of stderr is kept.
const KEPT_STDERR: usize = 64 << 10;

/// How a child came to its end.
#[derive(Debug)]
pub(crate) enum End {
    /// by itself or by a signal from elsewhere
    Exited(ExitStatus),
    /// ended here: too slow
    TimedOut,
    /// ended here: the user wants to stop
    Interrupted,
}

/// A child that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) stdout: Vec<u8>,
    /// the last part of it
    pub(crate) stderr: String,
}

/// Ends the group of a child that is still there.
struct Group {
    child: Child,
    reaped: bool,
}

impl Group {
    fn end(&mut self) {
        if !self.reaped {
            if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                // The group is gone already when its only process has just ended.
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = self.child.wait();
            self.reaped = true;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs `command` to its end with an empty stdin.
///
/// # Errors
/// When it cannot be started or waited for.
pub(crate) fn run(command: &mut Command, timeout: Duration) -> io::Result<Finished> {
    use std::os::unix::process::CommandExt as _;

    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let started = Instant::now();
    let mut group = Group { child: command.spawn()?, reaped: false };
    let (done, ended) = mpsc::channel();
    let stdout = group.child.stdout.take().map(|mut pipe| {
        thread::spawn(move || {
            let mut kept = Vec::new();
            let result = pipe.by_ref().take(MAX_STDOUT).read_to_end(&mut kept);
            // Nobody listens any more when the child was ended from here.
            let _ = done.send(());
            result.map(|_| kept)
        })
    });
    let stderr = group.child.stderr.take().map(|pipe| thread::spawn(move || tail(pipe)));

    let mut stdout_open = true;
    let end = loop {
        if interrupt::requested() {
            break End::Interrupted;
        }
        let left = timeout.saturating_sub(started.elapsed());
        if left.is_zero() {
            break End::TimedOut;
        }
        if stdout_open {
            stdout_open = matches!(ended.recv_timeout(POLL.min(left)), Err(mpsc::RecvTimeoutError::Timeout));
        }
        if let Some(status) = group.child.try_wait()? {
            // What the child itself started ends with it; the group id stays reserved while anything
            // of the group lives.
            if let Some(pid) = i32::try_from(group.child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            group.reaped = true;
            break End::Exited(status);
        }
        if !stdout_open {
            thread::sleep(Duration::from_millis(1));
        }
    };
    group.end();
    let stdout = match stdout.map(thread::JoinHandle::join) {
        Some(Ok(bytes)) => bytes?,
        _ => Vec::new(),
    };
    let stderr = stderr.and_then(|reader| reader.join().ok()).unwrap_or_default();
    Ok(Finished { end, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
}

/// The last bytes of a stream.
fn tail(mut stream: impl Read) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0_u8; 8192];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return kept,
            Ok(read) => {
                kept.extend_from_slice(buffer.get(..read).unwrap_or_default());
                if kept.len() > 2 * KEPT_STDERR {
                    kept.drain(..kept.len() - KEPT_STDERR);
                }
            }
        }
    }
}

/// The last `count` non-empty lines.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}

/// Where a program is in the folders of a PATH; folders that depend on where the tool runs are left out.
pub(crate) fn on_path(path: &OsStr, name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    folders.map(|folder| folder.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_of_a_child_is_kept_and_its_code_reported() {
        let done = run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(20)).expect("run");
        let End::Exited(status) = done.end else { panic!("{:?}", done.end) };
        assert_eq!(
            (status.code(), done.stdout.as_slice(), done.stderr.as_str()),
            (Some(3), b"out\n".as_slice(), "err\n")
        );
    }

    #[test]
    fn a_child_that_hangs_is_ended_with_everything_it_started() {
        let started = Instant::now();
        // The grandchild would hold the pipe open for a minute.
        let done = run(&mut shell("sleep 60 & echo $!; sleep 60"), Duration::from_millis(300)).expect("run");
        assert!(matches!(done.end, End::TimedOut));
        assert!(started.elapsed() < Duration::from_secs(10));
        let grandchild = String::from_utf8(done.stdout).expect("text");
        // A killed process dies when it is next scheduled, which a busy machine may put off.
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", grandchild.trim())).unwrap_or_default();
        let gone = |state: &str| state.is_empty() || state.contains(") Z");
        while !gone(&state()) && started.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(gone(&state()), "still there: {}", state());
    }

    #[test]
    fn a_child_that_leaves_something_behind_does_not_hold_us() {
        let started = Instant::now();
        let done =
            run(&mut shell("sleep 60 >/dev/null 2>&1 & exec 1>&-; exit 0"), Duration::from_secs(20)).expect("run");
        assert!(matches!(done.end, End::Exited(status) if status.success()));
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn only_the_end_of_a_long_stderr_is_kept() {
        let done = run(&mut shell("seq 1 100000 >&2"), Duration::from_secs(20)).expect("run");
        assert!(done.stderr.ends_with("100000\n") && done.stderr.len() <= 2 * KEPT_STDERR);
        assert_eq!(last_lines(&done.stderr, 2), "99999\n100000");
    }
}
