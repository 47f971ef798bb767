//! `cargo xtask bench overhead`: the tool's own share of the wall time of `optimize`.
//!
//! Export, lowering, eager runs and measured runs happen in child processes. What is left, while no child
//! works, is the tool's own.

use std::process::{Command, Stdio};

use delegate_doctor::report::model::Report;

use crate::workspace::{Result, root, run};

/// The most that the tool itself may take of the wall time.
const LIMIT: f64 = 0.05;

/// Runs the example three ways and prints the shares.
pub(crate) fn bench() -> Result {
    let binary = crate::bench_models::release_binary()?;
    let top = root().join(".cache").join("overhead");
    if top.exists() {
        fs_err::remove_dir_all(&top).map_err(|error| error.to_string())?;
    }
    // A cache of its own, so that each run finds what its name says; the runner is built before the clock runs.
    let home = top.join("home");
    let python = crate::test::python()?;
    run(Command::new(&binary)
        .args(["setup", "--quiet"])
        .env("DELEGATE_DOCTOR_HOME", &home)
        .env("DELEGATE_DOCTOR_PYTHON", &python))?;
    println!("| run | wall time, s | own, s | own share | reused |");
    println!("|---|---|---|---|---|");
    let mut worst = 0.0_f64;
    for (name, arguments) in [("nothing cached", &["--no-cache"][..]), ("filling the cache", &[]), ("cached", &[])] {
        let folder = top.join(name.replace(' ', "-"));
        let status = Command::new(&binary)
            .args(["optimize", "examples/segmenter.py", "--quiet", "--out"])
            .arg(&folder)
            .args(arguments)
            .current_dir(root())
            .env("DELEGATE_DOCTOR_HOME", &home)
            .env("DELEGATE_DOCTOR_PYTHON", &python)
            .stdout(Stdio::null())
            .status()
            .map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the run `{name}` ended with {status}"));
        }
        let bytes = fs_err::read(folder.join("report.json")).map_err(|error| error.to_string())?;
        let report = Report::from_json(&bytes).map_err(|error| error.to_string())?;
        let Some(timing) = &report.timing else { return Err("the report holds no timing".to_owned()) };
        let own = (timing.wall_seconds - timing.children_seconds).max(0.0);
        let share = own / timing.wall_seconds.max(1e-9);
        worst = worst.max(share);
        let reused: Vec<&str> = report.stages.iter().filter_map(|stage| stage.reused.as_deref()).collect();
        println!(
            "| {name} | {:.1} | {own:.2} | {:.1} % | {} |",
            timing.wall_seconds,
            share * 100.0,
            if reused.is_empty() { "–".to_owned() } else { reused.join(", ") }
        );
    }
    println!();
    if worst <= LIMIT {
        println!("Within the limit of {:.0} %.", LIMIT * 100.0);
        Ok(())
    } else {
        Err(format!(
            "the tool itself took {:.1} % of the wall time; the limit is {:.0} %",
            worst * 100.0,
            LIMIT * 100.0
        ))
    }
}
