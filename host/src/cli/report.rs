//! `report`: an earlier run's report, rendered again.

use super::{Context, finished_run};
use crate::output::{Exit, Failure};
use crate::report::terminal;

/// Show the report of an earlier run
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show the report of an earlier run.\n\n\
        Nothing is run or measured: the report is rendered from what the run folder holds.",
    after_help = "\
Examples:
  delegate-doctor report delegate-doctor-runs/segmenter-1
  delegate-doctor report examples/segmenter.py        The newest run of this model
  delegate-doctor report delegate-doctor-runs/segmenter-1 --format json"
)]
pub(super) struct Arguments {
    /// A run folder, its `report.json`, or a model whose newest run is meant
    #[arg(value_name = "RUN")]
    run: String,
    /// How to show it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A summary for the terminal
    Text,
    /// The report for programs, versioned
    Json,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let found = finished_run::read(&arguments.run, context)?;
    let printer = &context.printer;
    let written = match arguments.format {
        Format::Text => printer.data(&terminal::render(&found.report, Some(&found.folder))),
        Format::Json => printer.json(&found.report),
    };
    Exit::of_write(written)?;
    Ok(Exit::Answered)
}
