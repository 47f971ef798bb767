//! `rules list`: the rules that would take part in a run.

use std::fmt::Write as _;

use serde::Serialize;

use super::changing::{registries, warn};
use super::inspect::class;
use super::{Context, Format, sandbox};
use crate::hint::Hint as _;
use crate::output::{Exit, Failure, Talk, style, styled};
use crate::progress::{Progress as _, Unit};
use crate::registry::install;
use crate::sandbox::Limits;
use crate::sandbox::contract::Stability;

/// List the rules with what they promise
#[derive(Debug, clap::Args)]
#[command(
    long_about = "List the rules with what they promise.\n\n\
        An exact rule gives the same bits, a tolerant one the same up to rounding, a corrective one repairs what \
        lowering got wrong. A preview rule takes part only when `optimize --only` names it.",
    after_help = "\
Examples:
  delegate-doctor rules list
  delegate-doctor rules list --verbose       With what they look at and their full hashes
  delegate-doctor rules list --format json   Everything they say about themselves"
)]
pub(super) struct Arguments {
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// The JSON form; version 1.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    version: u32,
    rules: Vec<Row>,
}

/// A rule.
#[derive(Serialize)]
struct Row {
    id: String,
    version: String,
    contract: String,
    sha256: String,
    bytes: usize,
    /// its registry; `bundled` comes with the tool
    origin: String,
    /// its name there, when it has one
    name: Option<String>,
    pinned: bool,
    reviewed: bool,
    #[serde(flatten)]
    told: Told,
}

/// What it says about itself, or why it could not be asked.
#[derive(Serialize)]
#[serde(untagged)]
enum Told {
    Manifest {
        title: String,
        summary: String,
        class: &'static str,
        stability: &'static str,
        /// ops that it looks at
        operators: Vec<String>,
        /// reasons for which it leaves a site alone
        reasons: Vec<Reason>,
    },
    Failed {
        error: String,
    },
}

#[derive(Serialize)]
struct Reason {
    code: String,
    summary: String,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let rules = rules(context)?;
    let broken = rules.iter().any(|rule| matches!(rule.told, Told::Failed { .. }));
    let written = match arguments.format {
        Format::Text => context.printer.data(&text(&rules, context.printer.talk() == Talk::Verbose)),
        Format::Json => context.printer.json(&Document { schema: "delegate-doctor/rules", version: 1, rules }),
    };
    Exit::of_write(written)?;
    Ok(if broken { Exit::Failed } else { Exit::Answered })
}

fn rules(context: &Context) -> Result<Vec<Row>, Failure> {
    let sandbox = sandbox(context, Limits::standard())?;
    let here = std::env::current_dir().ok();
    let project = here.and_then(|here| install::Scope::of_project(&here));
    let mut registries = registries(context, true)?;
    let all = install::effective(&mut registries, project.as_ref(), false)?;
    warn(context, &mut registries);
    let progress = context.printer.progress();
    // Only the first time takes long enough to be seen: then every rule is compiled.
    let step = context.printer.is_live().then(|| progress.step("Loading rules"));
    let total = all.len() as u64;
    let mut rows = Vec::new();
    for (done, effective) in (0..).zip(all) {
        let component = effective.component;
        if let Some(step) = &step {
            step.advance(done, total, Unit::Items);
        }
        let mut id = component.id.clone();
        let told = match sandbox.load(&component.name(), &component.bytes) {
            Ok(rule) => {
                rule.id().clone_into(&mut id);
                told(&rule)
            }
            Err(error) => {
                context.printer.warning(&error.to_string());
                if let Some(hint) = error.hint() {
                    context.printer.hint(&hint);
                }
                Told::Failed { error: error.reason }
            }
        };
        rows.push(Row {
            id,
            version: component.version.to_string(),
            contract: component.contract.to_string(),
            sha256: component.sha256,
            bytes: component.bytes.len(),
            origin: effective.registry,
            name: effective.rule.map(|rule| rule.to_string()),
            pinned: effective.pinned,
            reviewed: effective.reviewed,
            told,
        });
    }
    Ok(rows)
}

fn told(rule: &crate::sandbox::Rule) -> Told {
    let manifest = rule.manifest();
    let mut operators: Vec<String> = manifest.anchors.iter().flat_map(|anchor| anchor.ops.clone()).collect();
    operators.sort();
    operators.dedup();
    Told::Manifest {
        title: manifest.title.clone(),
        summary: manifest.summary.clone(),
        class: class(manifest.numerics),
        stability: match manifest.stability {
            Stability::Preview => "preview",
            Stability::Stable => "stable",
        },
        operators,
        reasons: manifest
            .codes
            .iter()
            .map(|reason| Reason { code: reason.code.clone(), summary: reason.summary.clone() })
            .collect(),
    }
}

fn text(rules: &[Row], everything: bool) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for Row { id, version, contract, sha256, bytes, origin, name: in_registry, pinned, reviewed, told } in rules {
        let name = styled(style::HEADING, format_args!("{id} {version}"));
        match told {
            Told::Manifest { title, summary, class, stability, operators, reasons } => {
                let _ = writeln!(text, "{name}  {title}");
                let short = sha256.get(..12).unwrap_or(sha256);
                let hash = if everything { sha256 } else { short };
                let origin = match in_registry {
                    Some(name) => format!("{name} from {origin}"),
                    None => origin.clone(),
                };
                let pinned = if *pinned { ", pinned" } else { "" };
                let review = if *reviewed { "" } else { ", not reviewed" };
                let _ = writeln!(
                    text,
                    "  {class}, {stability}, {origin}{pinned}{review}, contract {contract}, sha256 {hash}"
                );
                if everything {
                    let _ = writeln!(text, "  {bytes} bytes\n  {summary}\n  looks at {}", operators.join(", "));
                    for Reason { code, summary } in reasons {
                        let _ = writeln!(text, "  declines as {code}: {summary}");
                    }
                }
            }
            Told::Failed { error } => {
                let _ = writeln!(text, "{name}  {}", styled(style::ERROR, "cannot be used"));
                let _ = writeln!(text, "  {error}");
            }
        }
    }
    text
}
