//! Boards and servers with 64-bit Arm Linux, through the system's `ssh` and `scp`, so that keys, jump hosts and the
//! configuration work as the user has them.
//!
//! Nothing is asked on the terminal: a host that wants a password has to get a key, or an agent, first.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::adb::DeviceState;
use super::bundle::Bundle;
use super::child::{self, End, Finished, last_lines};
use super::device::{DeviceTarget, Link};
use super::{Error, plain_words};
use crate::progress::Progress;

/// Names another configuration file for `ssh` and `scp`.
pub const CONFIGURATION_VARIABLE: &str = "DELEGATE_DOCTOR_SSH_CONFIG";
/// Exit code of `ssh` for its own troubles.
const OWN_TROUBLE: i32 = 255;

/// Which host, and how to come to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshOptions {
    /// as the user's `ssh` knows it
    pub host: String,
    /// another configuration file for `ssh` and `scp`
    pub configuration: Option<PathBuf>,
    /// folder on the host for this tool's files; none: in the user's cache folder there
    pub folder: Option<String>,
}

/// Makes a board ready: copies the bundle there, and tries the runner.
///
/// # Errors
/// Whatever keeps programs from running there.
pub fn prepare(
    options: &SshOptions,
    bundle: impl FnOnce() -> Result<Bundle, Error>,
    progress: &dyn Progress,
) -> Result<DeviceTarget, Error> {
    let link = SshLink { host: options.host.clone(), configuration: options.configuration.clone() };
    DeviceTarget::prepare(Box::new(link), options.folder.as_deref(), bundle, progress)
}

/// The way to one host.
#[derive(Clone, Debug)]
struct SshLink {
    host: String,
    configuration: Option<PathBuf>,
}

impl SshLink {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if let Some(file) = &self.configuration {
            command.arg("-F").arg(file);
        }
        command.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=10"]);
        command.args(["-o", "ServerAliveCountMax=3"]);
        command
    }

    fn run(&self, command: &mut Command, timeout: Duration) -> Result<Finished, Error> {
        child::run(command, timeout).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::NoSsh { program: command.get_program().to_string_lossy().into_owned() }
            }
            _ => error.into(),
        })
    }

    fn copy(&self, during: &str, from: &OsStr, to: &OsStr, timeout: Duration) -> Result<(), Error> {
        let done = self.run(self.command("scp").args(["-q", "-B", "--"]).args([from, to]), timeout)?;
        match done.end {
            End::Interrupted => Err(Error::Interrupted),
            End::TimedOut => Err(self.trouble(during, "it takes too long")),
            End::Exited(status) if status.success() => Ok(()),
            End::Exited(_) => Err(self.trouble(during, &last_lines(&done.stderr, 3))),
        }
    }

    /// A place there, as `scp` writes it.
    fn there(&self, path: &str) -> String {
        format!("{}:{path}", self.host)
    }
}

impl Link for SshLink {
    fn kind(&self) -> &'static str {
        "ssh"
    }

    fn name(&self) -> String {
        // A user's name and an address do not belong into a shared report.
        "board".to_owned()
    }

    fn identity(&self) -> String {
        self.host.clone()
    }

    fn root(&self) -> &'static str {
        "${XDG_CACHE_HOME:-$HOME/.cache}/delegate-doctor"
    }

    fn shell(&self, script: &str, timeout: Duration) -> Result<Finished, Error> {
        // The login shell may be another one, so the script is one quoted word for `sh`.
        let line = format!("exec sh -c '{}'", script.replace('\'', "'\\''"));
        let finished = self.run(self.command("ssh").args(["-T", "--", &self.host]).arg(line), timeout)?;
        match finished.end {
            End::Exited(status) if status.code() == Some(OWN_TROUBLE) => {
                Err(self.trouble("talking to it", &last_lines(&finished.stderr, 3)))
            }
            _ => Ok(finished),
        }
    }

    fn push(&self, from: &Path, to: &str, timeout: Duration) -> Result<(), Error> {
        self.copy(&format!("copying `{}` there", from.display()), from.as_os_str(), self.there(to).as_ref(), timeout)
    }

    fn pull(&self, from: &str, to: &Path, timeout: Duration) -> Result<(), Error> {
        self.copy(&format!("copying `{from}` back"), self.there(from).as_ref(), to.as_os_str(), timeout)
    }

    fn trouble(&self, during: &str, reason: &str) -> Error {
        let reason = plain_words(reason);
        if super::is_full(&reason) {
            return Error::DeviceFull { target: self.host.clone(), during: during.to_owned() };
        }
        let refused = ["Permission denied", "Host key verification failed", "Too many authentication failures"];
        let state = if refused.iter().any(|text| reason.contains(text)) {
            DeviceState::Unauthorized
        } else {
            DeviceState::Offline
        };
        Error::Unreachable { host: self.host.clone(), during: during.to_owned(), reason, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_wants_a_password_is_told_from_one_that_is_gone() {
        let link = SshLink { host: "pi".to_owned(), configuration: None };
        let state = |reason: &str| match link.trouble("talking to it", reason) {
            Error::Unreachable { state, .. } => state,
            error => panic!("{error:?}"),
        };
        assert_eq!(state("pi@board: Permission denied (publickey)."), DeviceState::Unauthorized);
        assert_eq!(state("Host key verification failed."), DeviceState::Unauthorized);
        assert_eq!(state("ssh: connect to host pi port 22: Connection refused"), DeviceState::Offline);
        assert!(matches!(link.trouble("copying", "write: No space left on device"), Error::DeviceFull { .. }));
    }
}
