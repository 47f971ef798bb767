//! `report`: an earlier run's report, rendered again; or a folder of runs in a browser.

use std::path::{Path, PathBuf};

use super::{Context, browser, finished_run};
use crate::dashboard::Dashboard;
use crate::files;
use crate::output::{Exit, Failure};
use crate::report::{html, terminal};
use crate::run_folder::PAGE;
use crate::settings::RUNS_FOLDER;

/// Show the report of an earlier run
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show the report of an earlier run.\n\n\
        Nothing is run or measured: the report is rendered from what the run folder holds. With `--serve`, a folder \
        of runs is shown in a browser: the history, and a page for each run, which load themselves again when \
        something changes. Only this machine is answered, until Ctrl-C.",
    after_help = "\
Examples:
  delegate-doctor report delegate-doctor-runs/segmenter-1
  delegate-doctor report examples/segmenter.py --open     The newest run of this model, in a browser
  delegate-doctor report delegate-doctor-runs/segmenter-1 --format html > report.html
  delegate-doctor report delegate-doctor-runs --serve      The history of all runs, in a browser"
)]
pub(super) struct Arguments {
    /// A run folder, its `report.json`, or a model whose newest run is meant; with `--serve`, a run folder or a
    /// folder of run folders [default with --serve: delegate-doctor-runs]
    #[arg(value_name = "RUN", required_unless_present = "serve")]
    run: Option<String>,
    /// How to show it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Write `report.html` in the run folder anew and open it in a browser
    #[arg(long, conflicts_with = "format")]
    open: bool,

    /// Show a folder of runs to browsers on this machine until Ctrl-C; its address goes to stdout
    #[arg(long, conflicts_with_all = ["format", "open"], help_heading = "Server")]
    serve: bool,
    /// Port of 127.0.0.1 to listen on [default: a free one]
    #[arg(long, value_name = "N", requires = "serve", help_heading = "Server")]
    port: Option<u16>,
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
    if arguments.serve {
        return serve(arguments, context);
    }
    let found = finished_run::read(arguments.run.as_deref().unwrap_or_default(), context)?;
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

fn serve(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let usual = || context.project.runs().unwrap_or_else(|| PathBuf::from(RUNS_FOLDER));
    let folder = arguments.run.as_ref().map_or_else(usual, PathBuf::from);
    let dashboard = Dashboard::open(&folder, arguments.port.unwrap_or(0))?;
    Exit::of_write(context.printer.data(&format!("{}\n", dashboard.address())))?;
    context.printer.note(&format!("Shows the runs in `{}` until Ctrl-C", shown(&folder)));
    dashboard.serve();
    Ok(Exit::Answered)
}

fn shown(folder: &Path) -> impl std::fmt::Display {
    crate::report::visible::line(&folder.display().to_string()).into_owned()
}
