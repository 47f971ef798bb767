//! `rules validate`: the real gates on real models, as evidence.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{Context, Format, Named, RuleArgument};
use crate::authoring::{self, Evidence, Outcome, Validation};
use crate::cli::targets::TargetArguments;
use crate::gates::Gate;
use crate::output::{Exit, Failure, style, styled};
use crate::report::figures::{Figure, counted};
use crate::report::model::TrialOutcome;
use crate::settings::{OptimizeArguments, OptimizeSettings};

/// Prove a rule on models and write the evidence
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Prove a rule on models and write the evidence.\n\n\
        Every model is optimized with this rule alone, through all gates. The bundle names the component by its \
        hash, the device and the versions, and holds each gate's result and every latency sample.",
    after_help = "\
Examples:
  delegate-doctor rules validate my-rule --models net.py other.py
  delegate-doctor rules validate my-rule --models net.py --out evidence/today

The exit code is 0 when the rule was proven: accepted on a model, and wrong on none."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    rule: RuleArgument,
    /// Models, as `optimize` takes them
    #[arg(long, value_name = "MODEL", num_args = 1.., required = true)]
    models: Vec<String>,
    #[command(flatten)]
    target: TargetArguments,
    /// Folder for the bundle and the runs, new or empty [default: ID-VERSION-evidence]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let named = Named::of(&arguments.rule.rule, context)?;
    let manifest = &named.built.manifest;
    let typed = OptimizeArguments {
        command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        target: arguments.target.target.clone(),
        runner: arguments.target.runner.clone(),
        threads: arguments.target.threads,
        ..OptimizeArguments::default()
    };
    let settings = OptimizeSettings::resolve(typed, context.common.clone(), &context.project)?;
    let default = PathBuf::from(format!("{}-{}-evidence", manifest.id, manifest.version));
    let out = arguments.out.clone().unwrap_or(default);
    let task = Validation {
        rule: &named.built,
        limits: &named.limits,
        models: &arguments.models,
        settings: &settings,
        out: &out,
    };
    let (evidence, path) = authoring::validate(&task, &context.printer.progress())?;
    let written = match arguments.format {
        Format::Text => context.printer.data(&text(&evidence)),
        Format::Json => context.printer.json(&evidence),
    };
    Exit::of_write(written)?;
    context.printer.note(&format!("Evidence: `{}`", path.display()));
    Ok(match evidence.outcome {
        Outcome::Proven => Exit::Answered,
        Outcome::NotFaster | Outcome::NothingTried | Outcome::Wrong => Exit::Rejected,
        Outcome::Incomplete => Exit::Failed,
    })
}

/// Refusals of the host that are shown for a model; the evidence has all.
const SHOWN_REFUSALS: usize = 3;

fn text(evidence: &Evidence) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let rule = format!("{} {}", evidence.rule.id, evidence.rule.version);
    let _ = writeln!(text, "{}  sha256 {}", styled(style::HEADING, rule), evidence.rule.sha256);
    for model in &evidence.models {
        let _ = writeln!(text, "{}  {}", model.name, model.status);
        if let Some(error) = &model.error {
            let _ = writeln!(text, "  {error}");
        }
        for trial in &model.trials {
            let mark = if trial.outcome == TrialOutcome::Accepted { "✓" } else { "✗" };
            let sites = counted(trial.sites.len() as u64, "site");
            let _ = writeln!(text, "  {mark} {sites}, round {}: {}", trial.round, trial.reason);
            // What gate 1 rests on: it can leave out stimuli that a large place cannot be fed with in time.
            for gate in trial.gates.iter().filter(|gate| gate.gate == Gate::SiteEquivalence) {
                let _ = writeln!(text, "    site equivalence: {}", gate.summary);
            }
            if let Some(benchmark) = &trial.benchmark {
                let ratio = Figure::of(&benchmark.ratio);
                let _ = writeln!(text, "    old time over new time {}  {}", ratio.with_interval(), ratio.label);
            }
        }
        if model.trials.is_empty() && model.error.is_none() {
            let _ = writeln!(text, "  nothing tried; {} left alone", counted(model.declined, "site"));
        }
        for refused in model.refused.iter().take(SHOWN_REFUSALS) {
            let _ = writeln!(text, "  refused by the host at {refused}");
        }
        if model.refused.len() > SHOWN_REFUSALS {
            let _ = writeln!(text, "  and {} more", model.refused.len() - SHOWN_REFUSALS);
        }
    }
    let words = match evidence.outcome {
        Outcome::Proven => "accepted, and found wrong nowhere",
        Outcome::NotFaster => "never wrong, and faster nowhere",
        Outcome::NothingTried if evidence.models.iter().any(|model| !model.refused.is_empty()) => {
            "the host refused what it offered"
        }
        Outcome::NothingTried => "it found nothing to repair",
        Outcome::Wrong => "a gate of correctness refused it",
        Outcome::Incomplete => "a model came to no answer",
    };
    let style = if evidence.outcome == Outcome::Proven { style::GOOD } else { style::WARNING };
    let _ = writeln!(text, "\n{}  {words}", styled(style, evidence.outcome.name()));
    text
}
