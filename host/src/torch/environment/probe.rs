//! A quick look at an interpreter: its version, and which packages it has.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::{Error, SUPPORTED_PYTHON};
use crate::torch::child;
use crate::torch::variables;

/// Reads installed metadata only; the last line of its output is the answer.
const SCRIPT: &str = r#"
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import json
answer = {"python": ".".join(map(str, sys.version_info[:3]))}
try:
    import importlib.metadata as metadata
    for name in ("torch", "executorch"):
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        answer[name] = found.version
        answer[name + "_folder"] = str(found.locate_file(name))
except ImportError:
    pass
print("\n" + json.dumps(answer))
"#;

/// What an interpreter said about itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Probe {
    pub(super) python: String,
    pub(super) torch: Option<String>,
    pub(super) executorch: Option<String>,
    pub(super) executorch_folder: Option<PathBuf>,
}

impl Probe {
    pub(super) fn is_supported_python(&self) -> bool {
        SUPPORTED_PYTHON.contains(&release(&self.python))
    }
}

/// Asks `python` about itself.
pub(super) fn probe(python: &Path) -> Result<Probe, Error> {
    let not_python = |reason: String| Error::NotPython { python: python.to_path_buf(), reason };
    let mut command = std::process::Command::new(python);
    command.args(["-B", "-c", SCRIPT]).env_clear().envs(variables::scrubbed(std::env::vars_os(), 1));
    let output = child::collect(command, Duration::from_secs(30), &mut |_| {}).map_err(|error| match error {
        child::Error::Interrupted => Error::Interrupted,
        error => not_python(error.to_string()),
    })?;
    if !output.success {
        return Err(not_python(output.tail(3)));
    }
    output
        .stdout
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .ok_or_else(|| not_python("it does not answer like Python".to_owned()))
}

/// First two numbers of a version: `2.15.0+cpu` gives `(2, 15)`.
pub(super) fn release(version: &str) -> (u64, u64) {
    let mut numbers = version.split(['.', '+', '-']).map(|part| {
        let digits: &str = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
        digits.parse().unwrap_or(0)
    });
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// A version without its local label: `1.5.1+cpu` gives `1.5.1`.
pub(super) fn public(version: &str) -> &str {
    version.split('+').next().unwrap_or(version)
}
