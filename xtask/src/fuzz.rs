//! Short runs of the fuzz targets: `cargo xtask fuzz`.
//!
//! The targets are built as `cargo fuzz` builds them without a sanitizer, with flags that a stable compiler
//! knows. Only this repository's code is watched: dependencies are those of the other builds. What a run finds
//! worth keeping stays in `fuzz/corpus/`, what breaks a promise in `fuzz/artifacts/`; the latter belongs into
//! `tests/hostile/inputs/` once it is mended.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use hostile_rules::fuzz::TARGETS;

use crate::workspace::{Result, cargo, root, run};

/// Flags that make the compiler note which branches are taken, as libFuzzer reads them.
const COVERAGE: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions=yes",
    "-Coverflow-checks=yes",
];
/// Crates that are watched.
const WATCHED: [&str; 3] = ["delegate_doctor", "hostile_rules", "rule_sdk"];
/// Set where this program stands in front of the compiler.
const WRAPPING: &str = "DELEGATE_DOCTOR_FUZZ_BUILD";
/// How long a target runs.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    /// For so many seconds, beginning with what earlier runs kept.
    Seconds(u32),
    /// For so many inputs that a fixed seed draws from the inputs in the repository: what it finds, it finds again.
    Repeatable(u32),
}

/// Inputs of each target in a run that a change must pass.
pub(crate) const SHORT: Length = Length::Repeatable(3_000);

/// Memory that a target may take, in MiB.
const MEMORY: u32 = 4_096;
/// Seconds that one input may take.
const PATIENCE: u32 = 60;

/// The compiler's exit code, when this program was called in its place: `xtask rustc …`.
pub(crate) fn as_compiler() -> Option<ExitCode> {
    std::env::var_os(WRAPPING)?;
    let mut arguments = std::env::args_os().skip(1);
    let compiler = arguments.next()?;
    let arguments: Vec<OsString> = arguments.collect();
    let is_watched = arguments.iter().skip_while(|argument| *argument != "--crate-name").nth(1).is_some_and(|name| {
        WATCHED.iter().any(|watched| name == *watched) || TARGETS.iter().any(|target| name == target.name)
    });
    let flags: &[&str] = if is_watched { &COVERAGE } else { &[] };
    match Command::new(compiler).args(arguments).args(flags).status() {
        Ok(status) if status.success() => Some(ExitCode::SUCCESS),
        _ => Some(ExitCode::FAILURE),
    }
}

/// Runs each target, or only one.
pub(crate) fn fuzz(length: Length, only: Option<&str>) -> Result {
    let folder = root().join("fuzz");
    let built = root().join("target");
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    run(cargo()
        .current_dir(&folder)
        .args(["build", "--bins"])
        .env("CARGO_TARGET_DIR", &built)
        .env("RUSTC_WRAPPER", this)
        .env(WRAPPING, "1"))?;
    for target in TARGETS.iter().filter(|target| only.is_none_or(|only| only == target.name)) {
        let corpus = folder.join("corpus").join(target.name);
        let artifacts = folder.join("artifacts").join(target.name);
        for folder in [&corpus, &artifacts] {
            fs_err::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        let empty = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (begin, limit): (&Path, Vec<String>) = match length {
            Length::Seconds(seconds) => (&corpus, vec![format!("-max_total_time={seconds}")]),
            Length::Repeatable(runs) => (empty.path(), vec![format!("-runs={runs}"), "-seed=1".to_owned()]),
        };
        run(Command::new(built.join("debug").join(target.name))
            .current_dir(&folder)
            .arg(begin)
            .arg(root().join("tests/hostile/inputs").join(target.name))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(limit)
            .args([format!("-timeout={PATIENCE}"), format!("-rss_limit_mb={MEMORY}")])
            .args(["-verbosity=0", "-print_final_stats=1"]))
        .map_err(|error| format!("target `{}`: {error}; see fuzz/artifacts/", target.name))?;
    }
    Ok(())
}
