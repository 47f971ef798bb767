//! A run that `report` and `explain` read from: its folder, its report file, or the newest of a model.

use std::path::{Path, PathBuf};

use super::Context;
use crate::files;
use crate::model::Model;
use crate::output::Failure;
use crate::report::model::Report;
use crate::run_folder::{self, PROFILE, RECORD, REPORT, RunRecord};
use crate::settings::{RUNS_FOLDER, run_name};

/// The largest report that is read.
const MOST_BYTES: u64 = 1 << 30;

/// What was read.
#[derive(Debug)]
pub(super) struct FinishedRun {
    pub(super) report: Report,
    pub(super) folder: PathBuf,
}

/// Reads the report that `typed` stands for.
pub(super) fn read(typed: &str, context: &Context) -> Result<FinishedRun, Failure> {
    let file = locate(typed, context)?;
    let failed = || format!("Failed to read the report `{}`", file.display());
    let bytes = files::read_regular(&file, MOST_BYTES).map_err(|error| Failure::with_cause(failed(), error))?;
    let report = Report::from_json(&bytes).map_err(|error| Failure::with_cause(failed(), error))?;
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    };
    Ok(FinishedRun { report, folder })
}

/// The report file.
fn locate(typed: &str, context: &Context) -> Result<PathBuf, Failure> {
    let path = Path::new(typed);
    if path.is_dir() {
        return if path.join(REPORT).exists() {
            Ok(path.join(REPORT))
        } else if run_folder::is_in_use(path) {
            Err(Failure::new(format!("The run is still going on: `{typed}`")).hint("Wait for it to end"))
        } else if path.join(RECORD).exists() {
            if path.join(PROFILE).exists() {
                let command = crate::shell::line(["delegate-doctor", "profile", typed]);
                return Err(Failure::new(format!("`{typed}` is the folder of a profile"))
                    .hint(format!("Show it with `{command}`, or in a browser with `report {typed} --serve`")));
            }
            let failure = Failure::new(format!("The run did not come as far as a report: `{typed}`"));
            Err(match RunRecord::read(path) {
                Some(record) if !record.can_be_resumed() => failure.hint("Start it anew"),
                Some(record) => {
                    failure.hint(format!("Go on with it by `{}`", run_folder::resume_command(&record.command, path)))
                }
                None => failure.hint("Its record cannot be read; start a new run"),
            })
        } else {
            Err(Failure::new(format!("There is no run in this folder: `{typed}`"))
                .hint("Give a run folder, its `report.json`, or a model that was optimized before"))
        };
    }
    if path.extension().is_some_and(|extension| extension == "json") {
        return Ok(path.to_path_buf());
    }
    let parent = context.project.runs().unwrap_or_else(|| PathBuf::from(RUNS_FOLDER));
    let model = Model::parse(typed).map_err(|error| {
        Failure::from(error).hint("Give a run folder, its `report.json`, or a model that was optimized before")
    })?;
    match run_folder::newest(&parent, &run_name(typed), REPORT, Some(&model.identity())) {
        Some(folder) => {
            context.printer.detail(&format!("The newest run is `{}`", folder.display()));
            Ok(folder.join(REPORT))
        }
        None => {
            Err(Failure::new(format!("There is no finished run of this model in `{}`: `{typed}`", parent.display()))
                .hint(format!(
                    "Run `{}` first, or give a run folder",
                    crate::shell::line(["delegate-doctor", "optimize", typed])
                )))
        }
    }
}
