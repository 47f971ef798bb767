//! `profile`: where a program's time goes, kernel by kernel.

use std::path::PathBuf;

use super::Context;
use super::targets::TargetArguments;
use crate::output::{Exit, Failure};
use crate::profile::projection::Projection;
use crate::profiling::Profiled;
use crate::recorded::{Reading, Recording};
use crate::report::breakdown::chrome_trace;
use crate::report::{html, notable, timeline};
use crate::settings::{OptimizeArguments, OptimizeSettings};
use crate::{files, interrupt, profiling, recorded, run_folder};

/// Show where a program's time goes, kernel by kernel
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show where a program's time goes, kernel by kernel.\n\n\
        A model is exported, lowered with ExecuTorch and XNNPACK, and traced on the target; a `.pte` is traced as it \
        is, on inputs made up as it declares them. What was recorded elsewhere is read, for which neither Python nor \
        a target is needed: an ETDump of your app, a table of ExecuTorch's Inspector, the files of Arm's SME2 kit or \
        ArmFit, an earlier profile or its run folder. Every kernel has its time, share and category, inside and \
        outside of delegates, and what belongs to no kernel is a line of its own, so that all of it adds up to the \
        method's time.",
    after_help = "\
Examples:
  delegate-doctor profile examples/segmenter.py
  delegate-doctor profile net.pte --target qemu:max     Which kernels an Arm CPU would run
  delegate-doctor profile app.etdp --recorded-on \"Pixel 8\"
  delegate-doctor profile app.etdp --format html > app.html   One page for a browser
  delegate-doctor profile app.etdp --format chrome > app.json   For Perfetto
  delegate-doctor profile runs/mac/manifest.json#mac_sme2_on    An experiment of Arm's SME2 kit"
)]
pub(super) struct Arguments {
    /// A `.py` file, `module:callable`, a `.pt2`, a `.pte`, or a recording
    #[arg(value_name = "PROGRAM", required_unless_present = "etdump", conflicts_with = "etdump")]
    program: Option<String>,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ProfileFormat,
    /// Add what it may become on other hardware, as a range of published gains: PROJECTED, not measured
    #[arg(long, value_name = "HARDWARE")]
    project: Option<Hardware>,

    /// Keep an ETRecord of the model beside its trace, for ExecuTorch's Inspector
    #[arg(long, help_heading = "Run", conflicts_with = "etdump")]
    etrecord: bool,
    /// Run folder, new or empty [default: delegate-doctor-runs/NAME-profile-N with the next free number]
    #[arg(long, value_name = "DIR", help_heading = "Run", conflicts_with = "etdump")]
    out: Option<PathBuf>,
    /// Make everything anew instead of reusing what earlier runs of the same model cached
    #[arg(long, help_heading = "Run", conflicts_with = "etdump")]
    no_cache: bool,

    #[command(flatten)]
    target: TargetArguments,

    /// Read this ETDump, whatever its name
    #[arg(long, value_name = "FILE", help_heading = "Recording", conflicts_with_all = ["target", "runner", "threads"])]
    etdump: Option<PathBuf>,
    #[command(flatten)]
    recording: RecordingArguments,
}

/// How a recording is read.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RecordingArguments {
    /// What it was recorded on, for the label of its figures
    #[arg(long, value_name = "NAME", help_heading = "Recording")]
    recorded_on: Option<String>,
    /// Nanoseconds of a tick of an ETDump's clock [default: 1, as on Android, Linux and macOS]
    #[arg(long, value_name = "NS", help_heading = "Recording", allow_negative_numbers = true)]
    ns_per_tick: Option<f64>,
}

impl RecordingArguments {
    pub(super) fn reading(&self) -> Reading {
        Reading { recorded_on: self.recorded_on.clone(), ns_per_tick: self.ns_per_tick, known: None }
    }

    /// Options of a recording given for something that is none.
    pub(super) fn unused(&self) -> Option<&'static str> {
        match (&self.recorded_on, self.ns_per_tick) {
            (Some(_), _) => Some("--recorded-on"),
            (None, Some(_)) => Some("--ns-per-tick"),
            (None, None) => None,
        }
    }
}

/// What can be projected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Hardware {
    /// An Arm CPU with SME2
    Sme2,
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
    let (format, hardware) = (arguments.format, arguments.project);
    let reading = arguments.recording.reading();
    let program = arguments.program.clone().unwrap_or_default();
    let Recording { mut document, trace } = match &arguments.etdump {
        Some(path) => recorded::traced(path, &reading)?,
        None if recorded::is_named_like_one(&program) => {
            refuse_run_options(&arguments)?;
            recorded::read(&program, &reading)?
        }
        None => {
            if let Some(option) = arguments.recording.unused() {
                return Err(Failure::new(format!("`{option}` is for a recording, and `{program}` is a program"))
                    .hint("Leave it out, or name the recording"));
            }
            let Some(made) = made(arguments, context)? else { return Ok(Exit::Interrupted) };
            made
        }
    };
    if hardware == Some(Hardware::Sme2) {
        let emulated = document.target.kind == "qemu";
        document.projection = (!emulated).then(|| Projection::sme2(&document.breakdown)).flatten();
        if document.projection.is_none() {
            context.printer.note(if emulated {
                "Nothing to project: times under emulation say nothing about a CPU"
            } else {
                "Nothing to project: no matrix work without SME runs in a delegate"
            });
        }
    }
    if document.insights.is_empty() {
        document.insights = notable::of(&document);
    }
    let written = match format {
        ProfileFormat::Text => context.printer.data(&document.text()),
        ProfileFormat::Json => context.printer.json(&document),
        ProfileFormat::Csv => {
            let rows = document.csv().map_err(|error| Failure::new(format!("Failed to write CSV: {error}")))?;
            context.printer.raw(&rows)
        }
        ProfileFormat::Chrome => match &trace {
            Some((trace, ns_per_tick)) => context.printer.json(&chrome_trace(trace, *ns_per_tick, &document.target)),
            None => {
                return Err(Failure::new(format!("`{}` holds no single events, only totals", document.subject))
                    .hint("Give the ETDump, or a timeline table"));
            }
        },
        ProfileFormat::Html => {
            let spans = trace
                .as_ref()
                .map(|(trace, ns_per_tick)| timeline::spans(&chrome_trace(trace, *ns_per_tick, &document.target)));
            context.printer.raw(html::render_profile(&document, spans.as_deref())?.as_bytes())
        }
    };
    Exit::of_write(written)?;
    Ok(Exit::Answered)
}

fn refuse_run_options(arguments: &Arguments) -> Result<(), Failure> {
    let target = &arguments.target;
    let given = [
        ("--out", arguments.out.is_some()),
        ("--no-cache", arguments.no_cache),
        ("--etrecord", arguments.etrecord),
        ("--target", target.target.is_some()),
        ("--runner", target.runner.is_some()),
        ("--threads", target.threads.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(Failure::new(format!("`{option}` is for a program that is run, and this is a recording"))
                .hint("Leave it out, or name the program"))
        }
    }
}

/// Profiles a program here and now; nothing when the user stopped it.
fn made(arguments: Arguments, context: &Context) -> Result<Option<Recording>, Failure> {
    let typed = OptimizeArguments {
        model: arguments.program.unwrap_or_default(),
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
    let profile = if arguments.etrecord { profiling::profile_with_record } else { profiling::profile };
    let mut profiled = match profile(&settings, &context.printer.progress()) {
        Err(_) if interrupt::requested() => {
            context.printer.note("Interrupted");
            return Ok(None);
        }
        ended => ended.map_err(|stopped| stopped.error)?,
    };
    profiled.document.insights = notable::of(&profiled.document);
    keep(&profiled, context)?;
    Ok(Some(Recording { document: profiled.document, trace: Some((profiled.trace, profiled.ns_per_tick)) }))
}

/// Writes a profile into its run folder.
pub(super) fn keep(profiled: &Profiled, context: &Context) -> Result<(), Failure> {
    let kept = profiled.folder.join(run_folder::PROFILE);
    files::write_json(&kept, &profiled.document)?;
    let run = chrome_trace(&profiled.trace, profiled.ns_per_tick, &profiled.document.target);
    files::write_json(&profiled.folder.join(run_folder::TIMELINE), &run)?;
    let page = html::render_profile(&profiled.document, Some(&timeline::spans(&run)))?;
    let shown = profiled.folder.join(run_folder::PROFILE_PAGE);
    files::write_atomic(&shown, page.as_bytes())?;
    context.printer.note(&format!("Profile: `{}`, and `{}` for a browser", kept.display(), shown.display()));
    Ok(())
}
