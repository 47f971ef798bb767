//! `rules why-not`: what a rule says about a model, without measuring it.

use std::fmt::Write as _;

use super::{Context, Format, Named, RuleArgument, sandbox};
use crate::output::{Exit, Failure, style, styled};
use crate::report::figures::counted;
use crate::settings::{OptimizeArguments, OptimizeSettings, RunPlace};
use crate::why_not::{self, Outcome, SiteAnswer, WhyNot};

/// Near misses that are shown without `--all`.
const SHOWN: usize = 5;

/// Say what a rule makes of a model, best near miss first
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Say what a rule makes of a model, best near miss first.\n\n\
        The model is exported and lowered, and the rule is asked about every place it wants to see; nothing is run \
        or measured. Places that run outside the delegate come before those that do not.",
    after_help = "\
Examples:
  delegate-doctor rules why-not my-rule net.py
  delegate-doctor rules why-not my-rule.wasm net.py --all

The exit code is 1 when the rule would repair nothing."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    rule: RuleArgument,
    /// A model, as `optimize` takes it
    #[arg(value_name = "MODEL")]
    model: String,
    /// Show every place, not only the nearest ones
    #[arg(long)]
    all: bool,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let named = Named::of(&arguments.rule.rule, context)?;
    let rule = sandbox(context, named.limits.clone())?.load(&named.built.manifest.id, &named.built.component)?;
    let scratch =
        tempfile::tempdir().map_err(|error| Failure::with_cause("Failed to make a temporary folder", error))?;
    let typed = OptimizeArguments { model: arguments.model.clone(), ..OptimizeArguments::default() };
    let settings = OptimizeSettings {
        place: RunPlace::At(scratch.path().join("run")),
        ..OptimizeSettings::resolve(typed, context.common.clone(), &context.project)?
    };
    let answer = why_not::ask(&settings, &rule, &context.printer.progress())?;
    let written = match arguments.format {
        Format::Text => context.printer.data(&text(&answer, arguments.all)),
        Format::Json => context.printer.json(&answer),
    };
    Exit::of_write(written)?;
    let repairs = answer.sites.iter().any(|site| site.outcome == Outcome::WouldRepair);
    Ok(if repairs { Exit::Answered } else { Exit::Rejected })
}

fn text(answer: &WhyNot, all: bool) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let nodes = counted(answer.nodes as u64, "node");
    let _ = writeln!(text, "{}  on {}, {nodes}", styled(style::HEADING, &answer.rule), answer.model);
    if answer.sites.is_empty() {
        let _ = writeln!(text, "\nNo node has an op that it looks at: {}", answer.anchors.join(", "));
        for kin in &answer.kindred {
            let _ = writeln!(text, "  near: `{}` is {}, not {}", kin.node, kin.op, kin.anchor);
        }
        return text;
    }
    let (would, not): (Vec<_>, Vec<_>) = answer.sites.iter().partition(|site| site.outcome == Outcome::WouldRepair);
    for (title, sites) in [("It would repair", would), ("It leaves alone, nearest first", not)] {
        if sites.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{} ({})", styled(style::HEADING, title), counted(sites.len() as u64, "place"));
        let shown = if all { sites.len() } else { SHOWN };
        for site in sites.iter().take(shown) {
            show(&mut text, site);
        }
        if sites.len() > shown {
            let _ = writeln!(text, "  and {}; `--all` shows them", counted((sites.len() - shown) as u64, "more place"));
        }
    }
    text
}

fn show(text: &mut String, site: &SiteAnswer) {
    let what = match site.outcome {
        Outcome::WouldRepair => "",
        Outcome::Refused => "the host refuses the edits: ",
        Outcome::Failed => "the rule fails: ",
        Outcome::Declined => "",
        Outcome::NotShown => "not shown to the rule: ",
    };
    let _ = writeln!(text, "  {}  {}", styled(style::HINT, &site.node), site.op);
    if let Some(source) = &site.source {
        let _ = writeln!(text, "    {}:{}  {}", source.file, source.line, source.text.trim());
    }
    let clean = crate::sandbox::printable(&site.message, 1_024);
    let _ = writeln!(text, "    {what}{clean} ({})", site.code);
    match &site.outside {
        Some(reason) => {
            let _ = writeln!(text, "    outside the delegate: {reason}");
        }
        None => {
            let _ = writeln!(text, "    {}", styled(style::FAINT, "runs in the delegate"));
        }
    }
}
