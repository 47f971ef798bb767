//! `registry check`: the gate for a change, or an audit of the whole registry.

use std::path::PathBuf;

use serde::Serialize;

use super::Context;
use crate::cli::Format;
use crate::cli::signing::{load, registry};
use crate::output::{Exit, Failure};
use crate::registry::audit::audit;
use crate::registry::gate::{self, Finding};
use crate::report::figures::counted;

/// Check a registry, or a change to it
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Check a registry, or a change to it.\n\n\
        With `--base`, the folder is the registry as a pull request would make it, and everything that it adds or \
        changes is judged: the publisher's key, names, hashes, evidence, what the components are. It needs no secret \
        and starts nothing of the change outside of the sandbox, so it may run on what strangers send. Without \
        `--base`, every signature, hash and package of the registry is checked, and what expires soon is named.",
    after_help = "\
Examples:
  delegate-doctor registry check registry
  git worktree add merged origin/main && delegate-doctor registry check registry --base merged/registry

The exit code is 1 when something is wrong."
)]
pub(super) struct Arguments {
    /// Folder of the registry
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The registry as it is merged
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// The JSON form; version 1.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    version: u32,
    findings: Vec<Told>,
    /// what a change does, or what the registry holds
    says: Vec<String>,
}

#[derive(Serialize)]
struct Told {
    file: String,
    what: String,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let load = |package: &crate::registry::pack::Package| load(context, package);
    let (findings, says): (Vec<Finding>, Vec<String>) = if let Some(base) = &arguments.base {
        let base = registry(base)?;
        let changes = gate::compare(base.folder(), &arguments.folder).map_err(|error| {
            Failure::with_cause(format!("Failed to read the change in `{}`", arguments.folder.display()), error)
        })?;
        let verdict = gate::check(&base, &changes, Some(&load))?;
        (verdict.findings, verdict.does)
    } else {
        let registry = registry(&arguments.folder)?;
        let found = audit(&registry, Some(&load))?;
        let mut findings = found.findings;
        for alarm in registry.alarms()? {
            let what = if alarm.days < 0 {
                format!("it expired {} ago", counted(alarm.days.unsigned_abs(), "day"))
            } else {
                format!("it expires in {}", counted(alarm.days.unsigned_abs(), "day"))
            };
            findings.push(Finding { file: alarm.role, what });
        }
        let waiting = registry.waiting()?;
        let mut says = vec![format!(
            "{}, {}, {} countersigned",
            counted(found.publishers as u64, "publisher"),
            counted(found.versions as u64, "version"),
            found.reviewed
        )];
        says.extend(waiting.into_iter().map(|document| format!("{document} waits to be published")));
        (findings, says)
    };
    let written = match arguments.format {
        Format::Text => {
            let found = findings.iter().map(|finding| format!("✗ {finding}\n"));
            let said = says.iter().map(|line| format!("{line}\n"));
            context.printer.data(&found.chain(said).collect::<String>())
        }
        Format::Json => context.printer.json(&Document {
            schema: "delegate-doctor/registry-check",
            version: 1,
            findings: findings.iter().map(|f| Told { file: f.file.clone(), what: f.what.clone() }).collect(),
            says,
        }),
    };
    Exit::of_write(written)?;
    Ok(if findings.is_empty() { Exit::Answered } else { Exit::Rejected })
}
