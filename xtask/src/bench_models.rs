//! `cargo xtask bench models`: real models through the real tool, and `docs/results.md` from their reports.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use delegate_doctor::evidence::Evidence;
use delegate_doctor::report::model::{Profile, Report};

use crate::workspace::{Result, cargo, root, run};

/// The models in the order of the table.
const MODELS: [&str; 13] = [
    "pspnet",
    "deeplabv3plus",
    "linknet",
    "fpn",
    "unet",
    "unetplusplus",
    "ghostnet_100",
    "inception_v3",
    "densenet169",
    "mobilenet_v2",
    "resnext50_32x4d",
    "convnext_small",
    "vit_b_16",
];

/// Runs the models (all, or those named) and writes the table over all reports that exist.
pub(crate) fn bench(only: &[String], table_only: bool) -> Result {
    let names: Vec<&str> =
        MODELS.into_iter().filter(|name| only.is_empty() || only.iter().any(|other| other == name)).collect();
    if names.is_empty() {
        return Err(format!("no such model; there are {}", MODELS.join(", ")));
    }
    if !table_only {
        let python = bench_python()?;
        let binary = release_binary()?;
        for name in names {
            eprintln!("==> {name}");
            optimize(&binary, &python, name)?;
        }
    }
    write_table()
}

/// The release build of the tool.
pub(crate) fn release_binary() -> Result<PathBuf> {
    run(cargo().args(["build", "--locked", "--release", "--package", "delegate-doctor", "--bins"]))?;
    Ok(root().join("target").join("release").join("delegate-doctor"))
}

/// An environment with the model libraries, made once below `.cache/`.
pub(crate) fn bench_python() -> Result<PathBuf> {
    let folder = root().join(".cache").join("bench-python");
    let python = folder.join("bin").join("python");
    let marker = folder.join("complete");
    let requirements = root().join("bench").join("requirements.txt");
    let wanted = fs_err::read_to_string(&requirements).map_err(|error| error.to_string())?;
    if fs_err::read_to_string(&marker).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    eprintln!("==> Python environment with the model libraries");
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&requirements))?;
    delegate_doctor::files::write_atomic(&marker, wanted.as_bytes()).map_err(|error| error.to_string())?;
    Ok(python)
}

fn run_folder(name: &str) -> PathBuf {
    root().join(".cache").join("bench").join(name)
}

fn optimize(binary: &Path, python: &Path, name: &str) -> Result {
    let folder = run_folder(name);
    if folder.exists() {
        fs_err::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    let model = Path::new("bench").join("models").join(format!("{name}.py"));
    let status = Command::new(binary)
        .arg("optimize")
        .arg(&model)
        .args(["--no-cache", "--python"])
        .arg(python)
        .arg("--out")
        .arg(&folder)
        .current_dir(root())
        .env("DELEGATE_DOCTOR_HOME", crate::workspace::home())
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("`{}` cannot be started: {error}", binary.display()))?;
    // 1 is an answer too: a repair was wanted and none was acceptable.
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(format!("`{name}` ended with {status}")),
    }
}

fn write_table() -> Result {
    let reports: Vec<(&str, Report)> = MODELS
        .into_iter()
        .filter_map(|name| {
            let bytes = fs_err::read(run_folder(name).join("report.json")).ok()?;
            Some((name, Report::from_json(&bytes).ok()?))
        })
        .collect();
    let Some((_, first)) = reports.first() else { return Err("there is no report to tabulate".to_owned()) };
    let mut text = String::from("# Results on real models\n\nWritten by `cargo xtask bench models`; not by hand.\n\n");
    let setting = &first.setting;
    text.push_str(&format!(
        "Every figure is MEASURED on {} ({}, {} threads, executorch {}, torch {}), with random weights whose outputs react to inputs (`bench/models/responsive.py`). {} The ratio is before over after with its interval, from interleaved blocks; delegation is delegated time over delegated plus fallback time.\n\n",
        setting.target.name,
        setting.cpu,
        setting.threads,
        setting.executorch,
        setting.torch,
        if setting.target.physical_arm { "" } else { "It is no Arm processor, so latencies say nothing about a phone." },
    ));
    text.push_str("| model | status | delegation before → after | p50 before → after, ms | ratio (interval) | repairs | wall time |\n|---|---|---|---|---|---|---|\n");
    for (name, report) in &reports {
        text.push_str(&row(name, report));
    }
    if reports.len() < MODELS.len() {
        text.push_str(&format!("\n{} of {} models were run.\n", reports.len(), MODELS.len()));
    }
    let path = root().join("docs").join("results.md");
    delegate_doctor::files::write_atomic(&path, text.as_bytes()).map_err(|error| error.to_string())?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn row(name: &str, report: &Report) -> String {
    let share = |profile: Option<&Profile>| profile.map_or("–".to_owned(), |profile| percent(&profile.delegation));
    // A rejected repair still has something to say about speed.
    let comparison =
        report.overall.as_ref().or_else(|| report.trials.iter().rev().find_map(|trial| trial.benchmark.as_ref()));
    let delegation = match &report.repaired {
        Some(repaired) => format!("{} → {}", share(report.original.as_ref()), percent(&repaired.delegation)),
        None => share(report.original.as_ref()),
    };
    let latency = match comparison {
        Some(comparison) => format!("{} → {}", number(&comparison.before, 2), number(&comparison.after, 2)),
        None => report.original.as_ref().map_or("–".to_owned(), |profile| number(&profile.method_time, 2)),
    };
    let ratio = comparison.map_or("–".to_owned(), |comparison| ratio(&comparison.ratio));
    let repairs: Vec<String> = report
        .trials
        .iter()
        .map(|trial| {
            let sites = trial.sites.len();
            let how = match trial.outcome {
                delegate_doctor::report::model::TrialOutcome::Accepted => "",
                delegate_doctor::report::model::TrialOutcome::Rejected => ", rejected",
                delegate_doctor::report::model::TrialOutcome::Refused => ", refused",
                delegate_doctor::report::model::TrialOutcome::Inconclusive => ", inconclusive",
            };
            format!("{} ×{sites}{how}", trial.rule.id)
        })
        .collect();
    let wall = report.stages.iter().map(|stage| stage.seconds).sum::<f64>();
    let mut status = report.verdict.status.name().to_owned();
    for finding in report.alarms() {
        status.push_str(" + ");
        status.push_str(finding.code.name());
    }
    format!(
        "| {name} | {status} | {delegation} | {latency} | {ratio} | {} | {wall:.0} s |\n",
        if repairs.is_empty() { "–".to_owned() } else { repairs.join("; ") }
    )
}

fn percent(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Measured(measured) => format!("{:.1} %", measured.value * 100.0),
        Evidence::Projected(projected) => {
            format!("{:.1}–{:.1} % (projected)", projected.low * 100.0, projected.high * 100.0)
        }
    }
}

fn number(evidence: &Evidence, digits: usize) -> String {
    match evidence {
        Evidence::Measured(measured) => format!("{:.digits$}", measured.value),
        Evidence::Projected(projected) => format!("{:.digits$}–{:.digits$} (projected)", projected.low, projected.high),
    }
}

fn ratio(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Measured(measured) => match &measured.interval {
            Some(interval) => format!("{:.2}x ({:.2}–{:.2})", measured.value, interval.low, interval.high),
            None => format!("{:.2}x", measured.value),
        },
        Evidence::Projected(_) => number(evidence, 2),
    }
}
