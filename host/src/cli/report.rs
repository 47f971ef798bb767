//! `report`: an earlier run's report, rendered again.

use super::{Context, browser, finished_run};
use crate::files;
use crate::output::{Exit, Failure};
use crate::report::{html, terminal};
use crate::run_folder::PAGE;

/// Show the report of an earlier run
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show the report of an earlier run.\n\n\
        Nothing is run or measured: the report is rendered from what the run folder holds.",
    after_help = "\
Examples:
  delegate-doctor report delegate-doctor-runs/segmenter-1
  delegate-doctor report examples/segmenter.py --open     The newest run of this model, in a browser
  delegate-doctor report delegate-doctor-runs/segmenter-1 --format html > report.html"
)]
pub(super) struct Arguments {
    /// A run folder, its `report.json`, or a model whose newest run is meant
    #[arg(value_name = "RUN")]
    run: String,
    /// How to show it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Write `report.html` in the run folder anew and open it in a browser
    #[arg(long, conflicts_with = "format")]
    open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A summary for the terminal
    Text,
    /// The report for programs, versioned
    Json,
    /// One self-contained page
    Html,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let found = finished_run::read(&arguments.run, context)?;
    let page = || html::render(&found.report).map_err(Failure::from);
    if arguments.open {
        let path = found.folder.join(PAGE);
        files::write_atomic(&path, page()?.as_bytes())
            .map_err(|error| Failure::with_cause("Failed to write the page", error))?;
        browser::open(&path)?;
        context.printer.note(&format!("Opened `{}`", path.display()));
        return Ok(Exit::Answered);
    }
    let printer = &context.printer;
    let written = match arguments.format {
        Format::Text => printer.data(&terminal::render(&found.report, Some(&found.folder))),
        Format::Json => printer.json(&found.report),
        Format::Html => printer.raw(page()?.as_bytes()),
    };
    Exit::of_write(written)?;
    Ok(Exit::Answered)
}
