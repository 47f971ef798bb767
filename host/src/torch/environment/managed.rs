//! The managed environment: a virtual environment with pinned packages in the data folder.
//!
//! It is made at its final place, because virtual environments cannot be moved, and it counts only once
//! its marker file is written, which is the last step. What a broken attempt left is removed by the
//! next. A lock file keeps two processes from making it at once.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fs_err as fs;

use super::{Error, Search, interpreter_of, probe};
use crate::file_lock;
use crate::files::{sha256_hex, write_atomic};
use crate::progress::{Progress, Step};
use crate::torch::child;

/// What is installed, in pip's notation.
const REQUIREMENTS: &str = include_str!("../../../python/requirements.txt");
/// Written last, inside the environment.
const MARKER: &str = "delegate-doctor-complete";
/// Interpreters in the order in which they are tried.
const INTERPRETERS: [&str; 6] = ["python3.11", "python3.12", "python3.13", "python3.10", "python3", "python"];
/// Time for making the bare environment.
const VENV_LIMIT: Duration = Duration::from_secs(300);
/// Time for the download and installation of the packages.
const INSTALL_LIMIT: Duration = Duration::from_secs(2 * 3600);

/// The pinned packages, one a line, in pip's notation.
pub fn pinned_requirements() -> impl Iterator<Item = &'static str> {
    REQUIREMENTS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Folder of the managed environment for this version's pins.
pub fn managed_folder(data_dir: &Path) -> PathBuf {
    let pins: Vec<&str> = pinned_requirements().collect();
    let hash = sha256_hex(pins.join("\n").as_bytes());
    data_dir.join("python").join(hash.get(..16).unwrap_or(&hash))
}

/// True when the environment was made to its end.
pub(super) fn is_complete(folder: &Path) -> bool {
    folder.join(MARKER).is_file() && interpreter_of(folder).exists()
}

/// Makes the environment, or waits for another process that is making it.
pub(super) fn create(folder: &Path, search: &Search, progress: &dyn Progress) -> Result<(), Error> {
    let trouble = |path: &Path| {
        let path = path.to_path_buf();
        move |source: io::Error| Error::Folder { folder: path, source }
    };
    let parent = folder.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(trouble(parent))?;
    let lock_path = folder.with_extension("lock");
    let waiting = || progress.note("Waiting for another process that is making the Python environment");
    let _lock = file_lock::wait(&lock_path, &waiting).map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => Error::Interrupted,
        _ => trouble(&lock_path)(error),
    })?;
    // The other process may have finished it. One that was made to its end is replaced only when it says itself
    // that its packages are gone: whoever cannot start it should not lose it.
    if is_complete(folder) {
        match probe::probe(&interpreter_of(folder)) {
            Ok(probe) if probe.executorch.is_some() => return Ok(()),
            Ok(_) => {}
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => return Err(Error::Managed { folder: folder.to_path_buf(), source: Box::new(error) }),
        }
    }
    let step = progress.step("Making a Python environment with torch and executorch (about 6 GB, once)");
    let base = base_interpreter(search)?;
    if folder.symlink_metadata().is_ok() {
        step.update("Removing an unfinished Python environment");
        fs::remove_dir_all(folder).map_err(trouble(folder))?;
    }
    step.update(&format!("Making a Python environment with `{}`", base.display()));
    make_venv(&base, folder)?;
    // A pip that is killed leaves what it unpacked; here it goes with the attempt.
    let unpacking = folder.join("unpacking");
    fs::create_dir_all(&unpacking).map_err(trouble(&unpacking))?;
    let installed = install(folder, &unpacking, &*step);
    let _ = fs::remove_dir_all(&unpacking);
    installed?;
    write_atomic(&folder.join(MARKER), REQUIREMENTS.as_bytes()).map_err(trouble(folder))?;
    step.done(&format!("Made a Python environment: `{}`", folder.display()));
    Ok(())
}

/// The first interpreter on the search path that is of a supported version: the one to make a managed
/// environment with.
///
/// # Errors
/// When there is none.
pub fn base_interpreter(search: &Search) -> Result<PathBuf, Error> {
    let mut unfit = Vec::new();
    for name in INTERPRETERS {
        for folder in std::env::split_paths(&search.path).filter(|folder| folder.is_absolute()) {
            let candidate = folder.join(name);
            if !candidate.is_file() {
                continue;
            }
            match probe::probe(&candidate) {
                Ok(probe) if probe.is_supported_python() => return Ok(candidate),
                Ok(probe) => unfit.push(format!("`{}` which is {}", candidate.display(), probe.python)),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(_) => unfit.push(format!("`{}` which does not run", candidate.display())),
            }
        }
    }
    unfit.dedup();
    Err(Error::NoPython { found: unfit })
}

/// A command of this process's environment, in which nothing bends the interpreter to other folders.
pub(super) fn plain_python(python: &Path) -> Command {
    let mut command = Command::new(python);
    for name in [
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONUSERBASE",
        "__PYVENV_LAUNCHER__",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_USER",
    ] {
        command.env_remove(name);
    }
    command.env("PYTHONUTF8", "1");
    command
}

fn make_venv(base: &Path, folder: &Path) -> Result<(), Error> {
    let mut command = plain_python(base);
    command.args(["-m", "venv"]).arg(folder);
    let failed = |reason: String| Error::NoVenv { python: base.to_path_buf(), reason };
    let output = child::collect(command, VENV_LIMIT, &mut |_| {}).map_err(|error| match error {
        child::Error::Interrupted => Error::Interrupted,
        error => failed(error.to_string()),
    })?;
    if output.success { Ok(()) } else { Err(failed(output.tail(4))) }
}

fn install(folder: &Path, temporary: &Path, step: &dyn Step) -> Result<(), Error> {
    let mut command = plain_python(&interpreter_of(folder));
    command
        .args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"])
        .args(pinned_requirements())
        .env("TMPDIR", temporary);
    let failed = |reason: String| Error::Install { folder: folder.to_path_buf(), reason };
    step.update(&format!("Installing {}", pinned_requirements().collect::<Vec<_>>().join(", ")));
    let mut told = String::new();
    let mut tell = |line: &str| {
        if let Some(text) = condensed(line)
            && text != told
        {
            step.update(&text);
            told = text;
        }
    };
    let output = child::collect(command, INSTALL_LIMIT, &mut tell).map_err(|error| match error {
        child::Error::Interrupted => Error::Interrupted,
        error => failed(error.to_string()),
    })?;
    if output.success { Ok(()) } else { Err(failed(output.tail(6))) }
}

/// What a line of pip says, in short; `None` for lines that say nothing new.
pub(super) fn condensed(line: &str) -> Option<String> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("Downloading ") {
        let mut words = rest.split_whitespace();
        let file = words.next()?.rsplit('/').next()?;
        let name = file.split('-').next().unwrap_or(file);
        let size = words.collect::<Vec<_>>().join(" ");
        return Some(format!("Downloading {name} {size}").trim_end().to_owned());
    }
    if let Some(rest) = line.strip_prefix("Using cached ") {
        let file = rest.split_whitespace().next()?.rsplit('/').next()?;
        return Some(format!("Using cached {}", file.split('-').next().unwrap_or(file)));
    }
    if let Some(rest) = line.strip_prefix("Installing collected packages:") {
        return Some(format!("Installing {} packages", rest.split(',').count()));
    }
    (line.starts_with("WARNING: Retrying")).then(|| "Waiting for the network".to_owned())
}

/// What to do about a failed installation.
pub(super) fn install_hint(reason: &str) -> String {
    let reason = reason.to_ascii_lowercase();
    let any = |parts: &[&str]| parts.iter().any(|part| reason.contains(part));
    if any(&["no space left", "disk quota", "errno 28"]) {
        "Free about 9 GB of disk space and try again".to_owned()
    } else if any(&["connection", "name resolution", "timed out", "retrying", "ssl", "proxy", "network is unreachable"])
    {
        "Check the network connection and proxy settings, and try again".to_owned()
    } else if any(&["no matching distribution", "could not find a version"]) {
        "The package index that pip uses does not offer these versions for this Python and machine; try Python 3.11 \
         on PATH, or name an environment that has executorch with `--python`"
            .to_owned()
    } else if any(&["permission denied", "read-only"]) {
        "Check that the folder can be written, or choose another place with `DELEGATE_DOCTOR_HOME`".to_owned()
    } else {
        "Try again, or name an environment that has torch and executorch with `--python`".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_pip_become_short_or_vanish() {
        let long = "  Downloading torch-2.15.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (30 kB)";
        assert_eq!(condensed(long).as_deref(), Some("Downloading torch (30 kB)"));
        assert_eq!(
            condensed("Downloading https://host/a/b/executorch-1.5.1-cp311.whl (12.3 MB)").as_deref(),
            Some("Downloading executorch (12.3 MB)")
        );
        assert_eq!(condensed("Installing collected packages: a, b, c").as_deref(), Some("Installing 3 packages"));
        assert_eq!(condensed("Requirement already satisfied: pip"), None);
    }

    #[test]
    fn the_hint_follows_what_pip_said() {
        assert!(install_hint("OSError: [Errno 28] No space left on device").contains("disk space"));
        assert!(install_hint("NewConnectionError: Temporary failure in name resolution").contains("network"));
        assert!(install_hint("ERROR: No matching distribution found for torch==2.15.0").contains("Python 3.11"));
    }

    #[test]
    fn the_folder_follows_the_pins() {
        let pins: Vec<&str> = pinned_requirements().collect();
        assert!(pins.iter().any(|pin| pin.starts_with("executorch==")), "{pins:?}");
        assert!(pins.iter().all(|pin| pin.contains("==")), "every package is pinned: {pins:?}");
        assert_eq!(managed_folder(Path::new("/d")), managed_folder(Path::new("/d")));
    }
}
