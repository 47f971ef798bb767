//! Short runs of the fuzz targets: `cargo xtask fuzz`.
//!
//! The targets are built as `cargo fuzz` builds them without a sanitizer, with flags that a stable compiler
//! knows. What a run finds worth keeping stays in `fuzz/corpus/`, what breaks a promise in `fuzz/artifacts/`;
//! the latter belongs into `tests/hostile/inputs/` once it is mended.

use std::process::Command;

use hostile_rules::fuzz::TARGETS;

use crate::workspace::{Result, cargo, root, run};

const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";
/// Memory that a target may take, in MiB.
const MEMORY: u32 = 4_096;
/// Seconds that one input may take.
const PATIENCE: u32 = 60;

/// Runs each target for some seconds.
pub(crate) fn fuzz(seconds: u32, only: Option<&str>) -> Result {
    let folder = root().join("fuzz");
    let triple = host_triple()?;
    run(cargo().current_dir(&folder).args(["build", "--release", "--target", &triple]).env("RUSTFLAGS", COVERAGE))?;
    for target in TARGETS.iter().filter(|target| only.is_none_or(|only| only == target.name)) {
        let corpus = folder.join("corpus").join(target.name);
        let artifacts = folder.join("artifacts").join(target.name);
        for folder in [&corpus, &artifacts] {
            fs_err::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        run(Command::new(folder.join("target").join(&triple).join("release").join(target.name))
            .current_dir(&folder)
            .arg(&corpus)
            .arg(root().join("tests/hostile/inputs").join(target.name))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args([format!("-max_total_time={seconds}"), format!("-timeout={PATIENCE}")])
            .arg(format!("-rss_limit_mb={MEMORY}")))
        .map_err(|error| format!("target `{}`: {error}; see fuzz/artifacts/", target.name))?;
    }
    Ok(())
}

/// Build scripts and procedural macros are not instrumented when a target triple is named.
fn host_triple() -> Result<String> {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("-vV")
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let triple = text.lines().find_map(|line| line.strip_prefix("host: "));
    triple.map(str::to_owned).ok_or_else(|| "rustc does not say which machine this is".to_owned())
}
