//! `profile`: where a program's time goes, kernel by kernel.

use std::path::{Path, PathBuf};

use super::Context;
use super::targets::TargetArguments;
use crate::output::{Exit, Failure};
use crate::profile::{self, Breakdown, etdump};
use crate::report::breakdown::{ProfileDocument, chrome_trace};
use crate::report::{html, timeline};
use crate::settings::{OptimizeArguments, OptimizeSettings};
use crate::{files, interrupt, pipeline, run_folder};

/// Show where a program's time goes, kernel by kernel
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show where a program's time goes, kernel by kernel.\n\n\
        The model is exported, lowered with ExecuTorch and XNNPACK, and traced on the target; or, with `--etdump`, \
        a trace that was recorded elsewhere is read, for which neither Python nor a target is needed. Every kernel \
        has its time, share and category, inside and outside of delegates, and what belongs to no kernel is a line \
        of its own, so that all of it adds up to the method's time.",
    after_help = "\
Examples:
  delegate-doctor profile examples/segmenter.py
  delegate-doctor profile examples/segmenter.py --target qemu:max     Which kernels an Arm CPU would run
  delegate-doctor profile --etdump app.etdp --recorded-on \"Pixel 8\"
  delegate-doctor profile --etdump app.etdp --format html > app.html   One page for a browser
  delegate-doctor profile --etdump app.etdp --format chrome > app.json   For Perfetto"
)]
pub(super) struct Arguments {
    /// A `.py` file, `module:callable`, or an exported `.pt2`
    #[arg(value_name = "MODEL", required_unless_present = "etdump", conflicts_with = "etdump")]
    model: Option<String>,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ProfileFormat,

    /// Run folder, new or empty [default: delegate-doctor-runs/NAME-profile-N with the next free number]
    #[arg(long, value_name = "DIR", help_heading = "Run", conflicts_with = "etdump")]
    out: Option<PathBuf>,
    /// Make everything anew instead of reusing what earlier runs of the same model cached
    #[arg(long, help_heading = "Run", conflicts_with = "etdump")]
    no_cache: bool,

    #[command(flatten)]
    target: TargetArguments,

    /// Read this trace instead of making one
    #[arg(long, value_name = "FILE", help_heading = "Recorded trace", conflicts_with_all = ["target", "runner", "threads"])]
    etdump: Option<PathBuf>,
    /// What it was recorded on, for the label of its figures
    #[arg(long, value_name = "NAME", help_heading = "Recorded trace", requires = "etdump")]
    recorded_on: Option<String>,
    /// Nanoseconds of a tick of its clock [default: 1, as on Android, Linux and macOS]
    #[arg(
        long,
        value_name = "NS",
        help_heading = "Recorded trace",
        requires = "etdump",
        allow_negative_numbers = true
    )]
    ns_per_tick: Option<f64>,
}

/// How a profile is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ProfileFormat {
    /// For people
    Text,
    /// For programs: versioned JSON on stdout
    Json,
    /// For spreadsheets: a row for each kernel
    Csv,
    /// A timeline of one traced run, for Perfetto and chrome://tracing
    Chrome,
    /// One self-contained page
    Html,
}

pub(super) fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let format = arguments.format;
    let (document, trace, ns_per_tick) = match &arguments.etdump {
        Some(path) => recorded(path, &arguments)?,
        None => {
            let Some(profiled) = made(arguments, context)? else { return Ok(Exit::Interrupted) };
            profiled
        }
    };
    let written = match format {
        ProfileFormat::Text => context.printer.data(&document.text()),
        ProfileFormat::Json => context.printer.json(&document),
        ProfileFormat::Csv => {
            let rows = document.csv().map_err(|error| Failure::new(format!("Failed to write CSV: {error}")))?;
            context.printer.raw(&rows)
        }
        ProfileFormat::Chrome => context.printer.json(&chrome_trace(&trace, ns_per_tick, &document.target)),
        ProfileFormat::Html => {
            let spans = timeline::spans(&chrome_trace(&trace, ns_per_tick, &document.target));
            context.printer.raw(html::render_profile(&document, Some(&spans))?.as_bytes())
        }
    };
    Exit::of_write(written)?;
    Ok(Exit::Answered)
}

type Shown = (ProfileDocument, profile::Trace, f64);

/// A trace that somebody else made.
fn recorded(path: &Path, arguments: &Arguments) -> Result<Shown, Failure> {
    let ns_per_tick = arguments.ns_per_tick.unwrap_or(1.0);
    let trace = etdump::read(path)?;
    let target = etdump::recorded_elsewhere(arguments.recorded_on.as_deref());
    let profile = profile::profile(&trace, ns_per_tick, &target)?;
    let document = ProfileDocument::of_trace(path.display().to_string(), target, Breakdown::of(&profile));
    Ok((document, trace, ns_per_tick))
}

/// Profiles a model here and now; nothing when the user stopped it.
fn made(arguments: Arguments, context: &Context) -> Result<Option<Shown>, Failure> {
    let typed = OptimizeArguments {
        model: arguments.model.unwrap_or_default(),
        command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        out: arguments.out,
        target: arguments.target.target,
        runner: arguments.target.runner,
        threads: arguments.target.threads,
        no_cache: arguments.no_cache,
        ..OptimizeArguments::default()
    };
    let settings =
        OptimizeSettings::resolve(typed, context.common.clone(), &context.project)?.in_folders_named("profile");
    let profiled = match pipeline::profile(&settings, &context.printer.progress()) {
        Err(_) if interrupt::requested() => {
            context.printer.note("Interrupted");
            return Ok(None);
        }
        ended => ended.map_err(|stopped| stopped.error)?,
    };
    let kept = profiled.folder.join(run_folder::PROFILE);
    files::write_json(&kept, &profiled.document)?;
    let run = chrome_trace(&profiled.trace, profiled.ns_per_tick, &profiled.document.target);
    files::write_json(&profiled.folder.join(run_folder::TIMELINE), &run)?;
    let page = html::render_profile(&profiled.document, Some(&timeline::spans(&run)))?;
    let shown = profiled.folder.join(run_folder::PROFILE_PAGE);
    files::write_atomic(&shown, page.as_bytes())?;
    context.printer.note(&format!("Profile: `{}`, and `{}` for a browser", kept.display(), shown.display()));
    Ok(Some((profiled.document, profiled.trace, profiled.ns_per_tick)))
}
