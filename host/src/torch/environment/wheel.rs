//! The executorch package of another architecture, fetched by the environment's own pip.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::managed::{condensed, plain_python};
use super::{Environment, Error, probe};
use crate::progress::Progress;
use crate::torch::child;

/// Longest download.
const FETCH_LIMIT: Duration = Duration::from_secs(900);
/// Tags of platforms that packages for Linux are published under, newest first.
const GENERATIONS: [&str; 3] = ["manylinux_2_28", "manylinux_2_17", "manylinux2014"];

/// Downloads the executorch wheel that belongs to an environment, for Linux on `architecture`, into a folder.
///
/// # Errors
/// No pip in the environment, no network, no such wheel.
pub(crate) fn fetch_executorch(
    environment: &Environment,
    architecture: &str,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<PathBuf, Error> {
    let version = probe::public(&environment.executorch_version);
    let title = format!("Fetching executorch {version} for Linux on {architecture}");
    let step = progress.step(&title);
    let mut command = plain_python(&environment.python);
    command
        .args(["-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"])
        .args(["--no-deps", "--only-binary", ":all:"])
        .args(GENERATIONS.iter().flat_map(|tag| ["--platform".to_owned(), format!("{tag}_{architecture}")]))
        .arg("--dest")
        .arg(folder)
        .arg(format!("executorch=={version}"))
        .env("TMPDIR", folder);
    let failed = |reason: String| Error::NoWheel {
        version: version.to_owned(),
        architecture: architecture.to_owned(),
        python: environment.python.clone(),
        reason,
    };
    let mut tell = |line: &str| {
        if let Some(text) = condensed(line) {
            step.update(&text);
        }
    };
    let output = child::collect(command, FETCH_LIMIT, &mut tell).map_err(|error| match error {
        child::Error::Interrupted => Error::Interrupted,
        error => failed(error.to_string()),
    })?;
    if !output.success {
        return Err(failed(output.tail(4)));
    }
    let wheel = fs::read_dir(folder)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"))
        .ok_or_else(|| failed("pip left no wheel behind".to_owned()))?;
    step.done(&format!("Fetched executorch {version} for Linux on {architecture}"));
    Ok(wheel)
}
