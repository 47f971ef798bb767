//! A place to run one bad input in, and what must hold afterwards.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use dd_tests::{Ran, Sandbox, python, workspace};

/// A failure as the user must see it.
pub struct Expected<'a> {
    /// words of the message, in any order
    pub words: &'a [&'a str],
    /// words of the hint; empty where there is no next step to tell
    pub hint: &'a str,
}

/// What `optimize` is kept from making anew in every test: the native runner, compiled rules.
pub fn home() -> PathBuf {
    std::env::var_os("DELEGATE_DOCTOR_HOME").map_or_else(|| workspace().join("target/test-home"), PathBuf::from)
}

/// `optimize` with the Python of the tests and a home where the runner is built once.
pub fn with_python<S: AsRef<OsStr>>(sandbox: &Sandbox, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = sandbox.command(["optimize", "--python"]);
    command.arg(&python().python).args(arguments).env("DELEGATE_DOCTOR_HOME", home());
    command
}

/// A model file among the fixtures.
pub fn fixture(name: &str) -> String {
    let path = workspace().join("tests/fixtures/models").join(format!("{name}.py"));
    fs_err::read_to_string(path).expect("fixture")
}

/// An exported program among the fixtures.
pub fn program(name: &str) -> Vec<u8> {
    fs_err::read(workspace().join("tests/fixtures/programs").join(format!("{name}.pt2"))).expect("fixture")
}

/// The run ended as a failure that is told as expected.
pub fn told(name: &str, ran: &Ran, expected: &Expected<'_>) {
    let stderr = &ran.stderr;
    assert_eq!(ran.code(), 2, "{name}: {stderr}");
    assert_eq!(ran.stdout, "", "{name}: stdout is data");
    assert_eq!(stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{name}: {stderr}");
    for words in expected.words {
        assert!(stderr.contains(words), "{name} lacks `{words}`: {stderr}");
    }
    let hint = stderr.rsplit_once("hint: ").map_or("", |(_, hint)| hint);
    assert!(hint.contains(expected.hint), "{name}: `{}` is not in the hint: {stderr}", expected.hint);
    assert_eq!(expected.hint.is_empty(), hint.is_empty(), "{name}: {stderr}");
    assert!(!stderr.contains("panicked"), "{name}: {stderr}");
}

/// Files below a folder, as paths from there.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs_err::read_dir(&next).expect("list") {
            let path = entry.expect("entry").path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path.clone());
            }
            found.push(path.strip_prefix(folder).expect("below").to_path_buf());
        }
    }
    found.sort();
    found
}

/// Nothing that was being written is left below this folder.
pub fn nothing_half_written(name: &str, folder: &Path) {
    for file in files(folder) {
        let last = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        assert!(!last.starts_with('.'), "{name} leaves `{}`", file.display());
        if last.ends_with(".json") {
            let bytes = fs_err::read(folder.join(&file)).expect("read");
            let json: Result<serde_json::Value, _> = serde_json::from_slice(&bytes);
            assert!(json.is_ok(), "{name} leaves a torn `{}`", file.display());
        }
    }
}

/// The run folder of a run that gave no answer: it says so, and holds nothing that looks like one.
pub fn unfinished(name: &str, run: &Path) {
    nothing_half_written(name, run);
    for answer in ["report.json", "report.html", "optimized.pte", "optimized.pt2"] {
        assert!(!run.join(answer).exists(), "{name} leaves `{answer}`");
    }
    assert_eq!(state(run), "running", "{name}");
}

/// What `run.json` says.
pub fn state(run: &Path) -> String {
    let bytes = fs_err::read(run.join("run.json")).expect("run.json");
    let record: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    record["state"].as_str().expect("state").to_owned()
}

/// The status of a finished run.
pub fn status(run: &Path) -> String {
    assert_eq!(state(run), "finished");
    nothing_half_written("a finished run", run);
    let bytes = fs_err::read(run.join("report.json")).expect("report");
    let report: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    report["verdict"]["status"].as_str().expect("status").to_owned()
}
