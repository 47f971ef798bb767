//! What can go wrong with a worker.

use std::io;
use std::path::PathBuf;

use super::protocol::{FailureKind, WorkerError};
use crate::hint::Hint;

/// Why a worker gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the Python process could not be started
    #[error("Failed to start the Python worker with `{python}`")]
    Start {
        /// interpreter
        python: PathBuf,
        /// why
        #[source]
        source: io::Error,
    },
    /// the worker's files could not be unpacked, or its log not be opened
    #[error("Failed to prepare the Python worker in `{folder}`")]
    Prepare {
        /// folder
        folder: PathBuf,
        /// why
        #[source]
        source: io::Error,
    },
    /// the worker speaks another version of the protocol
    #[error("The Python worker speaks protocol {found}, and this program speaks protocol {wanted}")]
    Version {
        /// the worker's
        found: u32,
        /// this host's
        wanted: u32,
    },
    /// something else than the protocol came out of the worker
    #[error("The Python worker wrote something that is not its protocol during `{method}`: {reason}")]
    Noise {
        /// what was being done
        method: &'static str,
        /// what was read
        reason: String,
        /// last lines of its stderr
        stderr: String,
    },
    /// the process ended in the middle of a request
    #[error("The Python worker died during `{method}`: {how}")]
    Died {
        /// what was being done
        method: &'static str,
        /// `exit code 3` or `signal 9 (SIGKILL)`
        how: String,
        /// the signal, if one ended it
        signal: Option<i32>,
        /// last lines of its stderr
        stderr: String,
    },
    /// no answer within the limit
    #[error("The Python worker did not finish `{method}` within {seconds} s")]
    TimedOut {
        /// what was being done
        method: &'static str,
        /// the limit
        seconds: f64,
        /// last lines of its stderr
        stderr: String,
    },
    /// a request that cannot be written, for instance because a path is no text
    #[error("The Python worker cannot be told `{field}`")]
    Request {
        /// which field
        field: &'static str,
        /// why
        #[source]
        source: serde_json::Error,
    },
    /// an earlier failure has ended this worker
    #[error("The Python worker has already ended, so `{method}` was not tried")]
    Ended {
        /// what was asked for
        method: &'static str,
    },
    /// the worker answered with an error
    #[error("{}", error.message)]
    Failed {
        /// what was being done
        method: &'static str,
        /// the worker's words
        error: WorkerError,
    },
    /// the user stopped the tool
    #[error("Interrupted")]
    Interrupted,
}

impl Error {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Failed { error, .. } => error.hint.clone(),
            Self::Start { .. } => Some("Run `delegate-doctor doctor` to check the Python environment".to_owned()),
            Self::Prepare { .. } => Some("Check that the folder can be written and the disk is not full".to_owned()),
            Self::Version { .. } => Some("Run `delegate-doctor setup` to renew the Python environment".to_owned()),
            Self::Noise { .. } => Some(
                "Something in the Python environment or the model writes to the worker's private channel; \
                 see the worker log in the run folder"
                    .to_owned(),
            ),
            Self::Died { signal: Some(9), .. } => Some(
                "The system probably ran out of memory; try a smaller model or input, or close other programs"
                    .to_owned(),
            ),
            Self::Died { method: "export", signal: None, .. } => Some(
                "The model's code ended the process: look for `exit` calls in it, and for code that closes files \
                     it did not open"
                    .to_owned(),
            ),
            Self::Died { .. } => Some("See the worker log in the run folder for its last words".to_owned()),
            Self::TimedOut { method: "export", .. } => Some(
                "Look for an endless loop or a download in the model's code, or raise `--model-timeout`".to_owned(),
            ),
            Self::TimedOut { .. } => Some("Raise the time limit, or try a smaller model".to_owned()),
            Self::Request { .. } => Some("Rename files and folders whose names are no text".to_owned()),
            Self::Ended { .. } | Self::Interrupted => None,
        }
    }

    /// True when no program or model is to blame but a disk without room: nothing can be concluded from it.
    pub fn is_about_the_disk(&self) -> bool {
        matches!(self, Self::Failed { error, .. } if error.kind == FailureKind::Disk)
    }

    /// Longer evidence for a log or a verbose report: a traceback, or the last lines of stderr.
    pub fn detail(&self) -> Option<&str> {
        let text = match self {
            Self::Failed { error, .. } => &error.detail,
            Self::Noise { stderr, .. } | Self::Died { stderr, .. } | Self::TimedOut { stderr, .. } => stderr,
            _ => return None,
        };
        (!text.is_empty()).then_some(text.as_str())
    }

    /// True when the user's own model or file is the cause, and not the tool or its surroundings.
    pub fn is_about_the_model(&self) -> bool {
        match self {
            Self::Failed { error, .. } => error.kind.is_about_the_model(),
            Self::Died { method, .. } | Self::TimedOut { method, .. } => *method == "export",
            _ => false,
        }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }

    fn details(&self) -> Option<String> {
        self.detail().map(str::to_owned)
    }
}
