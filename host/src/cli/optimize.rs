//! `optimize`: find what slows a model down, repair it, prove the repair, write the faster program.

use std::path::{Path, PathBuf};

use super::targets::TargetArguments;
use super::{Context, Format, browser};
use crate::output::{Exit, Failure};
use crate::registry::install::Scope;
use crate::report::model::Status;
use crate::run_folder::{self, PAGE};
use crate::settings::{OptimizeArguments, OptimizeSettings, parse_bytes};
use crate::{interrupt, pipeline, report};

/// Find what slows a model down, repair it, and keep what measurements prove
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Find what slows a model down, repair it, and keep what measurements prove.\n\n\
        The model is exported, lowered with ExecuTorch and XNNPACK, run and profiled. For each operator that \
        fell back to a portable kernel and costs time, rules propose a repair. Each repair has to give the same \
        results, in PyTorch and on the target, and to be faster with confidence. Everything is kept in a run \
        folder: the optimized program, a report to read and one for programs, and all evidence.",
    after_help = "\
Examples:
  delegate-doctor optimize examples/segmenter.py
  delegate-doctor optimize my_package.models:segmenter --threads 4
  delegate-doctor optimize exported.pt2 --out runs/today --format json
  delegate-doctor optimize examples/segmenter.py --resume     Go on where the last run stopped

A model file defines `delegate_doctor_model()`, which returns the module, and `delegate_doctor_inputs()`, \
which returns a tuple of example inputs. `module:callable` returns `(model, inputs)`."
)]
pub(super) struct Arguments {
    /// A `.py` file, `module:callable`, or an exported `.pt2`
    #[arg(value_name = "MODEL")]
    model: String,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Open the report in a browser at the end
    #[arg(long)]
    open: bool,

    /// Run folder, new or empty [default: delegate-doctor-runs/NAME-N with the next free number]
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    out: Option<PathBuf>,
    /// Go on with an unfinished run, given the same settings again: the one in DIR, or in that of `--out`,
    /// or the newest of this model
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, help_heading = "Run")]
    resume: Option<Option<PathBuf>>,
    /// Make everything anew instead of reusing what earlier runs of the same model cached
    #[arg(long, help_heading = "Run")]
    no_cache: bool,
    /// Seed of generated inputs and of statistics [default: 0]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Run")]
    seed: Option<u64>,

    #[command(flatten)]
    target: TargetArguments,

    /// Only these rules, by their ids. A preview rule runs only when it is named here
    #[arg(long, value_name = "RULE", value_delimiter = ',', help_heading = "Rules")]
    only: Vec<String>,
    /// Not these rules, by their ids
    #[arg(long, value_name = "RULE", value_delimiter = ',', help_heading = "Rules")]
    skip: Vec<String>,
    /// Also load the rule components (`*.wasm`) of this folder, for development; they are labelled unsigned
    #[arg(long, value_name = "DIR", help_heading = "Rules")]
    rules: Vec<PathBuf>,
    /// Only with a lockfile of the project (`dd-rules.lock`) that meets every wish in `dd-rules.toml`
    #[arg(long, help_heading = "Rules")]
    locked: bool,
    /// Also rules in Python and JavaScript, which bring an interpreter along: they are slow to load and may use
    /// more of this machine than others
    #[arg(long, help_heading = "Rules")]
    script_rules: bool,

    /// Smallest speed-up worth keeping, as old time over new time; the lower end of its interval counts
    /// [default: 1.02]
    #[arg(long, allow_negative_numbers = true, value_name = "RATIO", help_heading = "What counts")]
    min_gain: Option<f64>,
    /// Leave fallbacks alone that take a smaller share of the time [default: 0.001]
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE", help_heading = "What counts")]
    min_share: Option<f64>,

    /// Stop after this many accepted repairs [default: 20]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Limits")]
    max_rounds: Option<u32>,
    /// Begin no new trial after this many seconds, set-up not counted [default: no limit]
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", help_heading = "Limits")]
    max_seconds: Option<f64>,
    /// Seconds that importing, building and exporting the model may take [default: 1800]
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", help_heading = "Limits")]
    model_timeout: Option<f64>,
    /// Memory that the process with the model may use, like `8GiB` [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Limits")]
    memory_limit: Option<u64>,
    /// Candidates to lower at the same time [default: what cores and memory allow]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Limits")]
    jobs: Option<u32>,
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let (format, open) = (arguments.format, arguments.open);
    let settings = OptimizeSettings::resolve(arguments.typed(), context.common.clone(), &context.project)?;
    let finished = match pipeline::optimize(&settings, &context.printer.progress()) {
        Err(stopped) if interrupt::requested() => {
            context.printer.note("Interrupted");
            if let Some(folder) = stopped.folder {
                context.printer.hint(&format!(
                    "Go on with `{}`",
                    run_folder::resume_command(&settings.command, &from_here(&folder))
                ));
            }
            return Ok(Exit::Interrupted);
        }
        ended => ended.map_err(|stopped| stopped.error)?,
    };
    let written = match format {
        Format::Text => {
            let text = report::terminal::render(&finished.report, Some(&from_here(&finished.folder)));
            context.printer.data(&text)
        }
        Format::Json => context.printer.json(&finished.report),
    };
    Exit::of_write(written)?;
    if interrupt::requested() {
        return Ok(Exit::Interrupted);
    }
    if open && let Err(failure) = browser::open(&finished.folder.join(PAGE)) {
        // The run itself is fine, and its exit code says so.
        context.printer.failure(&failure);
    }
    Ok(exit(finished.report.verdict.status))
}

impl Arguments {
    fn typed(self) -> OptimizeArguments {
        OptimizeArguments {
            model: self.model,
            command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            out: self.out,
            resume: self.resume,
            target: self.target.target,
            runner: self.target.runner,
            threads: self.target.threads,
            rules: self.rules,
            only: self.only,
            skip: self.skip,
            script_rules: self.script_rules,
            project: std::env::current_dir().ok().and_then(|here| Scope::of_project(&here)).map(|scope| scope.folder),
            locked: self.locked,
            max_rounds: self.max_rounds,
            max_seconds: self.max_seconds,
            min_gain: self.min_gain,
            min_share: self.min_share,
            seed: self.seed,
            no_cache: self.no_cache,
            jobs: self.jobs,
            memory_limit: self.memory_limit,
            model_timeout: self.model_timeout,
        }
    }
}

/// What a script learns from the answer.
fn exit(status: Status) -> Exit {
    match status {
        Status::RepairsAccepted | Status::NoRepairRequired | Status::NoRepairAvailable => Exit::Answered,
        // A repair was wanted, and none was proven.
        Status::RepairRejected | Status::Inconclusive => Exit::Rejected,
        Status::LoweringUnsupported | Status::DeviceExecutionUnsupported => Exit::Failed,
    }
}

/// The folder as a user would type it here.
fn from_here(folder: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    match here.and_then(|here| folder.strip_prefix(here).ok()) {
        Some(relative) if !relative.as_os_str().is_empty() => relative.to_path_buf(),
        _ => folder.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_learns_whether_a_wanted_repair_was_proven() {
        assert_eq!(exit(Status::RepairsAccepted), Exit::Answered);
        assert_eq!(exit(Status::NoRepairAvailable), Exit::Answered);
        assert_eq!(exit(Status::RepairRejected), Exit::Rejected);
        assert_eq!(exit(Status::Inconclusive), Exit::Rejected);
        assert_eq!(exit(Status::LoweringUnsupported), Exit::Failed);
    }
}
