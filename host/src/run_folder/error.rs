//! Why a run folder cannot be used, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::{RunRecord, VERSION};
use crate::hint::Hint;
use crate::shell;

/// Why a run folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// there is something else in it
    #[error("The folder `{0}` is not empty and holds no run")]
    NotEmpty(PathBuf),
    /// it holds a finished or interrupted run and `--resume` was not given
    #[error("The folder `{0}` already holds a run")]
    Occupied(PathBuf),
    /// it holds a finished run
    #[error("The folder `{0}` already holds a finished run")]
    OccupiedByFinished(PathBuf),
    /// nothing to resume
    #[error("There is no run to resume in `{0}`")]
    NothingToResume(PathBuf),
    /// another process works in it
    #[error("Another process is working in `{0}`")]
    Locked(PathBuf),
    /// it holds a run of something else
    #[error("The run in `{path}` is of `{held}`, not of `{asked}`")]
    OtherModel {
        /// folder
        path: PathBuf,
        /// the model of the run
        held: String,
        /// the model asked for
        asked: String,
    },
    /// it was begun with other settings
    #[error("The run in `{path}` was begun with other settings: {}", differences.join(", "))]
    OtherSettings {
        /// folder
        path: PathBuf,
        /// each setting that differs, with both values
        differences: Vec<String>,
    },
    /// it has its report
    #[error("The run in `{0}` is finished")]
    Finished(PathBuf),
    /// written by a newer tool
    #[error("The run in `{path}` was written by a newer version ({found}; this tool knows {VERSION})")]
    TooNew {
        /// folder
        path: PathBuf,
        /// version found
        found: u32,
    },
    /// `run.json` cannot be understood
    #[error("Failed to understand `{path}`")]
    Record {
        /// file
        path: PathBuf,
        /// why
        #[source]
        source: serde_json::Error,
    },
    /// file trouble
    #[error("Failed to use the run folder `{path}`")]
    Io {
        /// folder
        path: PathBuf,
        /// why
        #[source]
        source: io::Error,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotEmpty(_) => Some("Give an empty or new folder with `--out`".to_owned()),
            Self::Occupied(path) if !RunRecord::read(path).is_some_and(|record| record.can_be_resumed()) => {
                Some("Give another folder with `--out`, or remove this one".to_owned())
            }
            Self::Occupied(path) => {
                let flag = shell::line([format!("--resume={}", path.display())]);
                Some(format!("Go on with it by `{flag}`, or give another folder with `--out`"))
            }
            Self::OccupiedByFinished(path) => {
                let shown = shell::line(["delegate-doctor", "report", &path.display().to_string()]);
                Some(format!("Show it with `{shown}`, or give another folder with `--out`"))
            }
            Self::NothingToResume(_) => Some("Start without `--resume`".to_owned()),
            Self::Locked(_) => Some("Wait for it to end, or give another folder with `--out`".to_owned()),
            Self::TooNew { .. } => Some("Use the tool that wrote it, or start a new run".to_owned()),
            Self::OtherModel { held, .. } => {
                Some(format!("Resume it with `{held}`, or start a new run without `--resume`"))
            }
            Self::OtherSettings { .. } => {
                Some("Resume it with the settings it was begun with, or start a new run without `--resume`".to_owned())
            }
            Self::Finished(path) => Some(format!(
                "Show it with `{}`, or start a new run without `--resume`",
                shell::line(["delegate-doctor", "report", &path.display().to_string()])
            )),
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                    Some("A file stands where the folder should be; give another folder with `--out`".to_owned())
                }
                _ => source.hint().or(Some("Give a folder that can be made and written with `--out`".to_owned())),
            },
            Self::Record { .. } => Some("Start a new run with `--out`".to_owned()),
        }
    }
}
