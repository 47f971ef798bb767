//! A short-lived child process whose output is wanted as text: interpreters being looked at, pip,
//! toolchains.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use crate::interrupt;

/// Bytes of output that are kept per stream.
const KEPT: usize = 1 << 20;

/// How long the pipes of a process that has ended are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What came out.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Last lines that say something, stderr before stdout, joined for a message.
    pub(crate) fn tail(&self, lines: usize) -> String {
        let text = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let all: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let start = all.len().saturating_sub(lines);
        all.get(start..).unwrap_or_default().join("; ")
    }
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("it cannot be started: {0}")]
    Start(std::io::Error),
    #[error("it did not finish within {0} s")]
    TimedOut(u64),
    #[error("interrupted")]
    Interrupted,
}

/// Kills the group when the wait ends early.
struct Group {
    child: std::process::Child,
    pid: Option<Pid>,
    /// whether it ended well, once it has been waited for
    collected: Option<bool>,
}

impl Group {
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.collected.is_some() || self.pid.is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
    }

    fn collect(&mut self) -> bool {
        if let Some(success) = self.collected {
            return success;
        }
        if let Some(pid) = self.pid.take() {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        *self.collected.insert(self.child.wait().is_ok_and(|status| status.success()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.collect();
    }
}

/// Runs `command` to its end in a process group of its own; every line of its stdout is also told to
/// `each_line` as it comes.
pub(crate) fn collect(mut command: Command, limit: Duration, each_line: &mut dyn FnMut(&str)) -> Result<Output, Error> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(Error::Start)?;
    let (lines, received) = mpsc::channel::<(bool, String)>();
    for (is_stdout, pipe) in [
        (true, child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>)),
        (false, child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>)),
    ] {
        if let Some(pipe) = pipe {
            let lines = lines.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(pipe);
                let mut bytes = Vec::new();
                while reader.by_ref().take(1 << 16).read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
                    let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                    bytes.clear();
                    if lines.send((is_stdout, line)).is_err() {
                        return;
                    }
                }
            });
        }
    }
    drop(lines);
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut group = Group { child, pid, collected: None };
    let mut ended = None;
    let mut output = Output { success: false, stdout: String::new(), stderr: String::new() };
    loop {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        if started.elapsed() > limit {
            return Err(Error::TimedOut(limit.as_secs()));
        }
        match received.recv_timeout(Duration::from_millis(50)) {
            Ok((is_stdout, line)) => {
                if is_stdout {
                    each_line(&line);
                }
                let kept = if is_stdout { &mut output.stdout } else { &mut output.stderr };
                if kept.len() > KEPT {
                    let half = kept.ceil_char_boundary(KEPT / 2);
                    kept.drain(..half);
                }
                kept.push_str(&line);
                kept.push('\n');
            }
            Err(RecvTimeoutError::Disconnected) => break,
            // What it wrote may still be in the pipes, and something it started may keep them open for ever.
            Err(RecvTimeoutError::Timeout) => match ended {
                None if group.has_ended() => {
                    group.collect();
                    ended = Some(Instant::now());
                }
                Some(at) if at.elapsed() > PATIENCE => break,
                _ => {}
            },
        }
    }
    while !group.has_ended() {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        if started.elapsed() > limit {
            return Err(Error::TimedOut(limit.as_secs()));
        }
        thread::sleep(Duration::from_millis(5));
    }
    output.success = group.collect();
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Output, Duration) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let begin = Instant::now();
        (collect(command, Duration::from_secs(60), &mut |_| {}).expect("runs"), begin.elapsed())
    }

    #[test]
    fn what_comes_after_the_end_is_waited_for_but_not_for_ever() {
        let (output, _) = shell("setsid sh -c 'sleep 0.4; echo late' & echo early");
        assert_eq!((output.success, output.stdout.as_str()), (true, "early\nlate\n"));
        let (output, spent) = shell("setsid sleep 50 & echo early; exit 3");
        assert_eq!((output.success, output.stdout.as_str()), (false, "early\n"));
        assert!(spent < Duration::from_secs(40), "{spent:?}");
    }
}
