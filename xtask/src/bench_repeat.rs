//! `cargo xtask bench repeat`: one model through the real tool again and again, and whether it is decided the
//! same way every time; writes `docs/repeated.md`.

use std::path::Path;
use std::process::{Command, Stdio};

use delegate_doctor::evidence::Evidence;
use delegate_doctor::report::model::{Report, TrialOutcome};

use crate::workspace::{Result, home, machine, root};

/// How a run was decided.
#[derive(Clone, Debug)]
struct Decided {
    status: String,
    /// rule and outcome of every trial, in order
    trials: Vec<String>,
    ratio: Option<String>,
    pairs: usize,
    seconds: f64,
}

impl Decided {
    /// What must be the same in every run.
    fn verdict(&self) -> String {
        format!("{}: {}", self.status, self.trials.join("; "))
    }
}

/// Runs `model` so often, each time with another seed, and writes the page after every run.
///
/// Lowered programs come from the cache; measurements never do.
pub(crate) fn bench(model: &str, times: u32) -> Result {
    let path = Path::new("bench").join("models").join(format!("{model}.py"));
    if !root().join(&path).exists() {
        return Err(format!("there is no `{}`", path.display()));
    }
    let python = crate::bench_models::bench_python()?;
    let binary = crate::bench_models::release_binary()?;
    let mut runs = Vec::new();
    for number in 0..times {
        let folder = root().join(".cache").join("repeat").join(model).join(number.to_string());
        if folder.exists() {
            fs_err::remove_dir_all(&folder).map_err(|error| error.to_string())?;
        }
        let status = Command::new(&binary)
            .arg("optimize")
            .arg(&path)
            .args(["--quiet", "--seed", &number.to_string(), "--python"])
            .arg(&python)
            .arg("--out")
            .arg(&folder)
            .current_dir(root())
            .env("DELEGATE_DOCTOR_HOME", home())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .map_err(|error| format!("`{}` cannot be started: {error}", binary.display()))?;
        // 1 is an answer too: a repair was wanted and none was acceptable.
        if !matches!(status.code(), Some(0 | 1)) {
            return Err(format!("run {number} of `{model}` ended with {status}"));
        }
        let bytes = fs_err::read(folder.join("report.json")).map_err(|error| error.to_string())?;
        let decided = decided(&Report::from_json(&bytes).map_err(|error| error.to_string())?);
        eprintln!("{}: {} {}", number + 1, decided.verdict(), decided.ratio.as_deref().unwrap_or("–"));
        runs.push(decided);
        let page = markdown(model, times, &runs);
        delegate_doctor::files::write_atomic(&root().join("docs").join("repeated.md"), page.as_bytes())
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn decided(report: &Report) -> Decided {
    let comparison =
        report.overall.as_ref().or_else(|| report.trials.iter().rev().find_map(|trial| trial.benchmark.as_ref()));
    let outcome = |outcome: TrialOutcome| match outcome {
        TrialOutcome::Accepted => "accepted",
        TrialOutcome::Rejected => "rejected",
        TrialOutcome::Refused => "refused",
        TrialOutcome::Inconclusive => "inconclusive",
    };
    Decided {
        status: report.verdict.status.name().to_owned(),
        trials: report
            .trials
            .iter()
            .map(|trial| format!("{} ×{} {}", trial.rule.id, trial.sites.len(), outcome(trial.outcome)))
            .collect(),
        ratio: comparison.and_then(|comparison| match &comparison.ratio {
            Evidence::Measured(measured) => {
                Some(measured.interval.map_or(format!("{:.2}", measured.value), |interval| {
                    format!("{:.2} ({:.2}–{:.2})", measured.value, interval.low, interval.high)
                }))
            }
            Evidence::Projected(_) => None,
        }),
        pairs: report.trials.iter().filter_map(|trial| trial.benchmark.as_ref()).map(|of| of.blocks.len() / 2).sum(),
        seconds: report.stages.iter().map(|stage| stage.seconds).sum(),
    }
}

fn markdown(model: &str, times: u32, runs: &[Decided]) -> String {
    let first = runs.first().map(Decided::verdict).unwrap_or_default();
    let same = runs.iter().filter(|run| run.verdict() == first).count();
    let mut text = format!(
        "<!-- Written by `cargo xtask bench repeat {model} --times {times}`. -->\n\n# The same model, again and \
         again\n\n`{model}` went through `optimize` {} times on the local target (MEASURED on {}; not Arm unless it \
         says so), each time with another seed for the order of blocks. {same} of {} runs were decided like the \
         first one. The ratio is before over after with its interval.\n\n| run | status | trials | ratio | pairs of \
         blocks | wall time |\n|---|---|---|---:|---:|---:|\n",
        runs.len(),
        machine(),
        runs.len(),
    );
    for (number, run) in runs.iter().enumerate() {
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {:.0} s |\n",
            number + 1,
            run.status,
            run.trials.join("; "),
            run.ratio.as_deref().unwrap_or("–"),
            run.pairs,
            run.seconds
        ));
    }
    text
}
