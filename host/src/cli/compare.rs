//! `compare`: two profiles side by side.

use std::path::PathBuf;

use super::Context;
use super::profile::{RecordingArguments, keep};
use super::targets::TargetArguments;
use crate::output::{Exit, Failure};
use crate::recorded;
use crate::report::breakdown::ProfileDocument;
use crate::report::comparison::{ComparisonDocument, Moments};
use crate::report::html;
use crate::settings::{OptimizeArguments, OptimizeSettings};
use crate::target::selector::Selector;
use crate::{files, interrupt, profiling, run_folder};

/// Compare where two programs spend their time
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Compare where two programs spend their time: by category, by family of kernels, and in all.\n\n\
        Each side is what `profile` takes: a model, a `.pte`, an earlier profile or its run folder, an ETDump, a \
        table of ExecuTorch's Inspector, a file of Arm's SME2 kit. One argument alone is compared with itself on \
        another target or runner (`--target-after`, `--runner-after`), the run folder of `optimize` with its \
        repairs, and a recording of two with the other one. Two programs that run on the same target are also \
        measured alternately, without a tracer. Under emulation the kernels that were chosen are compared, and \
        times are not.",
    after_help = "\
Examples:
  delegate-doctor compare before.pte after.pte
  delegate-doctor compare net.pte --target qemu:max,sme=off --target-after qemu:max    Which kernels SME changes
  delegate-doctor compare net.pte --target adb --runner build-sme2-off --runner-after build-sme2-on
  delegate-doctor compare delegate-doctor-runs/segmenter-1        The original and the repaired program
  delegate-doctor compare off.etdp on.etdp --recorded-on \"Pixel 8\""
)]
pub(super) struct Arguments {
    /// The first program or recording
    #[arg(value_name = "BEFORE")]
    before: String,
    /// The second one [default: the first one again]
    #[arg(value_name = "AFTER")]
    after: Option<String>,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: CompareFormat,
    /// Folder for the comparison and what was run for it, new or empty
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    out: Option<PathBuf>,
    /// Make everything anew instead of reusing what earlier runs of the same model cached
    #[arg(long, help_heading = "Run")]
    no_cache: bool,
    #[command(flatten)]
    target: TargetArguments,
    /// Where the second one runs [default: as the first]
    #[arg(long, value_name = "TARGET", help_heading = "Target")]
    target_after: Option<Selector>,
    /// The runner of the second one [default: as the first]
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    runner_after: Option<PathBuf>,
    #[command(flatten)]
    recording: RecordingArguments,
}

/// How a comparison is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CompareFormat {
    /// For people
    Text,
    /// For programs: versioned JSON on stdout
    Json,
    /// For spreadsheets: a row for the method, each category and each family of kernels
    Csv,
    /// One page for a browser, with everything in it
    Html,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let Some(document) = compared(arguments, context)? else {
        context.printer.note("Interrupted");
        return Ok(Exit::Interrupted);
    };
    if let Some(folder) = &arguments.out {
        let kept = folder.join(run_folder::COMPARISON);
        if kept.exists() {
            return Err(Failure::new(format!("`{}` holds a comparison already", folder.display()))
                .hint("Choose another folder with `--out`"));
        }
        fs_err::create_dir_all(folder)?;
        files::write_json(&kept, &document)?;
        let page = folder.join(run_folder::COMPARISON_PAGE);
        files::write_atomic(&page, html::render_comparison(&document)?.as_bytes())?;
        context.printer.note(&format!("Comparison: `{}`, and `{}` for a browser", kept.display(), page.display()));
    }
    let written = match arguments.format {
        CompareFormat::Text => context.printer.data(&document.text()),
        CompareFormat::Json => context.printer.json(&document),
        CompareFormat::Csv => {
            let rows = document.csv().map_err(|error| Failure::new(format!("Failed to write CSV: {error}")))?;
            context.printer.raw(&rows)
        }
        CompareFormat::Html => context.printer.raw(html::render_comparison(&document)?.as_bytes()),
    };
    Exit::of_write(written)?;
    Ok(Exit::Answered)
}

/// The comparison; nothing when the user stopped it.
fn compared(arguments: &Arguments, context: &Context) -> Result<Option<ComparisonDocument>, Failure> {
    let reading = arguments.recording.reading();
    let second = arguments.target_after.is_some() || arguments.runner_after.is_some();
    let is_recording = |given: &str| recorded::is_named_like_one(given);
    let Some(after) = arguments.after.as_ref().or(second.then_some(&arguments.before)) else {
        if !is_recording(&arguments.before) {
            return Err(Failure::new(format!("There is nothing to compare `{}` with", arguments.before)).hint(
                "Name a second program, or another target or runner for it (`--target-after`, `--runner-after`)",
            ));
        }
        let [before, after] = recorded::pair(&arguments.before, &reading)?;
        let together = Moments::Together;
        return Ok(Some(ComparisonDocument::of(&before.document, &after.document, together)));
    };
    let settings = |model: &str, name: &str, target: Option<Selector>, runner: Option<PathBuf>| {
        let typed = OptimizeArguments {
            model: model.to_owned(),
            command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            out: arguments.out.as_ref().map(|folder| folder.join(name)),
            target,
            runner,
            threads: arguments.target.threads,
            no_cache: arguments.no_cache,
            ..OptimizeArguments::default()
        };
        let settings = OptimizeSettings::resolve(typed, context.common.clone(), &context.project);
        settings.map(|settings| settings.in_folders_named("profile"))
    };
    let target = &arguments.target;
    let first = settings(&arguments.before, "before", target.target.clone(), target.runner.clone())?;
    let second = settings(
        after,
        "after",
        arguments.target_after.clone().or_else(|| target.target.clone()),
        arguments.runner_after.clone().or_else(|| target.runner.clone()),
    )?;
    if !is_recording(&arguments.before) && !is_recording(after) {
        let compared = match profiling::compare(&first, &second, &context.printer.progress()) {
            Err(_) if interrupt::requested() => return Ok(None),
            ended => ended.map_err(|stopped| stopped.error)?,
        };
        keep(&compared.before, context)?;
        keep(&compared.after, context)?;
        return Ok(Some(compared.document));
    }
    let side = |given: &str, settings: &OptimizeSettings| -> Result<Option<ProfileDocument>, Failure> {
        if is_recording(given) {
            return Ok(Some(recorded::read(given, &reading)?.document));
        }
        let profiled = match profiling::profile(settings, &context.printer.progress()) {
            Err(_) if interrupt::requested() => return Ok(None),
            ended => ended.map_err(|stopped| stopped.error)?,
        };
        keep(&profiled, context)?;
        Ok(Some(profiled.document))
    };
    let Some(before) = side(&arguments.before, &first)? else { return Ok(None) };
    let Some(after) = side(after, &second)? else { return Ok(None) };
    Ok(Some(ComparisonDocument::of(&before, &after, Moments::Apart)))
}
