//! The Python that the worker runs in: found, checked, and made when there is none.
//!
//! Order: the interpreter the user named; an active virtual environment that has executorch; a managed
//! one in the data folder, made from pinned versions. Looking at an interpreter never imports torch.

mod managed;
mod probe;
mod wheel;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

pub use self::managed::{base_interpreter, managed_folder, pinned_requirements};
use self::probe::Probe;
pub(crate) use self::wheel::fetch_executorch;
use crate::hint::Hint;
use crate::progress::Progress;

/// Oldest executorch that is supported.
pub const OLDEST_EXECUTORCH: (u64, u64) = (1, 4);
/// The executorch this version was tested with.
pub const TESTED_EXECUTORCH: &str = "1.5.1";
/// The torch this version was tested with.
pub const TESTED_TORCH: &str = "2.15";
/// Python versions that both libraries publish packages for.
pub const SUPPORTED_PYTHON: std::ops::RangeInclusive<(u64, u64)> = (3, 10)..=(3, 13);

/// How an environment was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// the user named the interpreter
    Given,
    /// the active virtual environment
    Active,
    /// made and kept by this program
    Managed,
}

/// A Python with torch and executorch in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// the interpreter
    pub python: PathBuf,
    /// how it was chosen
    pub origin: Origin,
    /// e.g. `3.11.7`
    pub python_version: String,
    /// e.g. `2.15.0`
    pub torch_version: String,
    /// e.g. `1.5.1`
    pub executorch_version: String,
    /// folder of the installed `executorch` package: headers, libraries, schemas
    pub executorch_folder: PathBuf,
    /// what a user should know: untested versions, an active environment that was passed over
    pub notes: Vec<String>,
}

impl std::fmt::Display for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { python_version, torch_version, executorch_version, .. } = self;
        write!(
            f,
            "Python {python_version} with torch {torch_version} and executorch {executorch_version}: `{}`",
            self.python.display()
        )
    }
}

/// Where to look for a Python.
#[derive(Clone, Debug)]
pub struct Search {
    /// the interpreter, or the folder of a virtual environment, that the user named
    pub python: Option<PathBuf>,
    /// folder of the active virtual environment
    pub active: Option<PathBuf>,
    /// this program's data folder
    pub data_dir: PathBuf,
    /// the search path for interpreters to make a managed environment with
    pub path: OsString,
}

impl Search {
    /// Looks where the environment variables of this process say.
    pub fn of_this_process(python: Option<PathBuf>, data_dir: &Path) -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            python,
            active: variable("VIRTUAL_ENV").or_else(|| variable("CONDA_PREFIX")).map(PathBuf::from),
            data_dir: data_dir.to_path_buf(),
            path: variable("PATH").unwrap_or_default(),
        }
    }
}

/// Why there is no usable Python.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// no interpreter of a supported version
    #[error("Found no Python 3.10 to 3.13 on PATH{}", looked_at(found))]
    NoPython {
        /// interpreters that were found, with why they do not fit
        found: Vec<String>,
    },
    /// the interpreter cannot be run
    #[error("Failed to run `{python}` as a Python interpreter: {reason}")]
    NotPython {
        /// interpreter
        python: PathBuf,
        /// why
        reason: String,
    },
    /// the interpreter is too old or too new
    #[error("Python {version} at `{python}` is not supported; versions 3.10 to 3.13 are")]
    PythonVersion {
        /// interpreter
        python: PathBuf,
        /// its version
        version: String,
    },
    /// a package is missing
    #[error("Python at `{python}` has no package `{package}`")]
    Missing {
        /// interpreter
        python: PathBuf,
        /// package
        package: &'static str,
    },
    /// executorch is too old
    #[error("executorch {version} at `{python}` is too old; version 1.4 or later is needed")]
    TooOld {
        /// interpreter
        python: PathBuf,
        /// its version
        version: String,
    },
    /// the venv module does not work
    #[error("`{python}` cannot make a virtual environment: {reason}")]
    NoVenv {
        /// interpreter
        python: PathBuf,
        /// last lines it wrote
        reason: String,
    },
    /// pip failed
    #[error("Installing torch and executorch into `{folder}` failed: {reason}")]
    Install {
        /// environment
        folder: PathBuf,
        /// last lines pip wrote
        reason: String,
    },
    /// the package for another architecture could not be had
    #[error("executorch {version} for Linux on {architecture} could not be fetched by `{}`: {reason}", python.display())]
    NoWheel {
        /// version wanted
        version: String,
        /// architecture wanted
        architecture: String,
        /// interpreter whose pip was asked
        python: PathBuf,
        /// last lines pip wrote
        reason: String,
    },
    /// a file or folder could not be used
    #[error(transparent)]
    Io(#[from] io::Error),
    /// file trouble
    #[error("Failed to prepare the Python environment `{folder}`")]
    Folder {
        /// folder or file
        folder: PathBuf,
        /// why
        #[source]
        source: io::Error,
    },
    /// the managed environment is whole and does not answer
    #[error("The Python environment `{}` cannot be used", folder.display())]
    Managed {
        /// its folder
        folder: PathBuf,
        /// what it said
        #[source]
        source: Box<Error>,
    },
    /// the user stopped the tool
    #[error("Interrupted")]
    Interrupted,
}

fn looked_at(found: &[String]) -> String {
    if found.is_empty() { String::new() } else { format!(" (looked at {})", found.join(", ")) }
}

impl Error {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoPython { .. } => "Install Python 3.11 with its venv module, or name an interpreter with \
                                      `--python`"
                .to_owned(),
            Self::NotPython { .. } => "Name a Python interpreter or a virtual environment with `--python`".to_owned(),
            Self::PythonVersion { .. } => "Name an interpreter of a supported version with `--python`".to_owned(),
            Self::Missing { python, .. } => format!(
                "Run `{} -m pip install torch executorch`, or leave `--python` out to use a managed environment",
                python.display()
            ),
            Self::TooOld { python, .. } => format!(
                "Run `{} -m pip install --upgrade executorch`, or leave this environment (`deactivate`) to use a \
                 managed one",
                python.display()
            ),
            Self::NoVenv { reason, .. } if reason.contains("ensurepip") => {
                "Install the venv module of this Python (on Debian and Ubuntu: `apt install python3-venv`)".to_owned()
            }
            Self::NoVenv { .. } => "Name another interpreter with `--python`".to_owned(),
            Self::NoWheel { reason, .. } if reason.contains("No module named pip") => {
                "Install pip there (`python -m ensurepip`), or leave `--python` out to use a managed environment"
                    .to_owned()
            }
            Self::Install { reason, .. } | Self::NoWheel { reason, .. } => managed::install_hint(reason),
            Self::Io(error) => return error.hint(),
            Self::Folder { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => "Free about 9 GB of disk space".to_owned(),
                _ => "Check that the folder can be written, or choose another place with `DELEGATE_DOCTOR_HOME`"
                    .to_owned(),
            },
            Self::Managed { folder, .. } => {
                format!("Try again; to have it made anew (about 6 GB), remove `{}`", folder.display())
            }
            Self::Interrupted => return None,
        })
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}

/// Finds the environment to use; `None` when it would be the managed one and that is not complete.
///
/// # Errors
/// When the interpreter the user named, or the active environment, cannot be used.
pub fn find(search: &Search) -> Result<Option<Environment>, Error> {
    if let Some(python) = &search.python {
        let python = interpreter_of(python);
        return accept(probe::probe(&python)?, &python, Origin::Given).map(Some);
    }
    let mut notes = Vec::new();
    if let Some(folder) = &search.active {
        let python = interpreter_of(folder);
        match probe::probe(&python) {
            Ok(probe) if probe.executorch.is_some() => return accept(probe, &python, Origin::Active).map(Some),
            Ok(_) => notes.push(format!(
                "The active environment `{}` has no executorch, so the managed environment is used",
                folder.display()
            )),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                notes.push(format!("The active environment `{}` was passed over: {error}", folder.display()));
            }
        }
    }
    let folder = managed_folder(&search.data_dir);
    if !managed::is_complete(&folder) {
        return Ok(None);
    }
    let python = interpreter_of(&folder);
    match probe::probe(&python).and_then(|probe| accept(probe, &python, Origin::Managed)) {
        Ok(mut environment) => {
            environment.notes.extend(notes);
            Ok(Some(environment))
        }
        Err(Error::Interrupted) => Err(Error::Interrupted),
        // The interpreter it was made from was removed, or files are gone: it will be made anew.
        Err(_) => Ok(None),
    }
}

/// Finds the environment to use, making the managed one when it is needed and not there.
///
/// # Errors
/// As [`find`], and when the managed environment cannot be made.
pub fn find_or_create(search: &Search, progress: &dyn Progress) -> Result<Environment, Error> {
    if let Some(environment) = find(search)? {
        return Ok(environment);
    }
    let folder = managed_folder(&search.data_dir);
    managed::create(&folder, search, progress)?;
    let python = interpreter_of(&folder);
    accept(probe::probe(&python)?, &python, Origin::Managed)
}

/// The interpreter itself, or the one inside a virtual environment's folder.
fn interpreter_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("bin/python") } else { path.to_path_buf() }
}

fn accept(probe: Probe, python: &Path, origin: Origin) -> Result<Environment, Error> {
    let python = python.to_path_buf();
    if !probe.is_supported_python() {
        return Err(Error::PythonVersion { python, version: probe.python });
    }
    let Some(torch) = probe.torch else { return Err(Error::Missing { python, package: "torch" }) };
    let (Some(executorch), Some(folder)) = (probe.executorch, probe.executorch_folder) else {
        return Err(Error::Missing { python, package: "executorch" });
    };
    if probe::release(&executorch) < OLDEST_EXECUTORCH {
        return Err(Error::TooOld { python, version: executorch });
    }
    let mut notes = Vec::new();
    if probe::public(&executorch) != TESTED_EXECUTORCH {
        notes.push(format!("executorch {executorch} is untested; {TESTED_EXECUTORCH} was tested"));
    }
    if probe::release(&torch) != probe::release(TESTED_TORCH) {
        notes.push(format!("torch {torch} is untested; {TESTED_TORCH} was tested"));
    }
    Ok(Environment {
        python,
        origin,
        python_version: probe.python,
        torch_version: torch,
        executorch_version: executorch,
        executorch_folder: folder,
        notes,
    })
}

#[cfg(test)]
mod tests;
