//! `registry review` and `registry revoke`: the maintainers' word on versions.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::Context;
use crate::authoring::{self, Built, Outcome, Validation};
use crate::cli::signing::{KeyArguments, load, registry_to_change};
use crate::output::{Exit, Failure, style, styled};
use crate::registry::layout;
use crate::registry::name::Reference;
use crate::registry::review::{self, Candidate};
use crate::sandbox::{Helper, Options, Sandbox, inspect_tier};
use crate::settings::{OptimizeArguments, OptimizeSettings};

/// Look at versions that nobody has countersigned, and countersign them
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Look at versions that nobody has countersigned, and countersign them.\n\n\
        For every such version the manifest is shown against the one before it, the component is loaded in the \
        sandbox, and with `--models` every gate is run on this machine. Without a key nothing is signed.",
    after_help = "\
Examples:
  delegate-doctor registry review --registry DIR
  delegate-doctor registry review acme/my-rule --registry DIR --key reviewed-1.pem --models net.py"
)]
pub(super) struct Arguments {
    /// Which rules [default: all]
    #[arg(value_name = "RULE")]
    rules: Vec<String>,
    /// Folder of the registry
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,
    /// Models to prove every version on again, here
    #[arg(long, value_name = "MODEL", num_args = 1..)]
    models: Vec<String>,
    #[command(flatten)]
    key: KeyArguments,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let (registry, _lock) = registry_to_change(&arguments.registry)?;
    let wanted: Vec<Reference> = arguments.rules.iter().map(|rule| rule.parse()).collect::<Result<_, _>>()?;
    let matches = |candidate: &Candidate| {
        wanted.is_empty()
            || wanted.iter().any(|reference| {
                reference.rule == candidate.rule
                    && reference.versions.as_ref().is_none_or(|versions| versions.matches(&candidate.version))
            })
    };
    let candidates: Vec<Candidate> = review::candidates(&registry)?.into_iter().filter(matches).collect();
    let printer = &context.printer;
    if candidates.is_empty() {
        printer.note("Every version is countersigned");
        return Ok(Exit::Answered);
    }
    let mut targets = Vec::new();
    for candidate in &candidates {
        Exit::of_write(printer.data(&shown(candidate)))?;
        load(context, &candidate.package)
            .map_err(|reason| review::Error::Refused { version: candidate.label(), reason })?;
        if !arguments.models.is_empty() {
            prove(candidate, &arguments.models, context)?;
        }
        targets.extend(candidate.targets());
    }
    if arguments.key.keys.is_empty() {
        printer.hint("Countersign with `--key`, a key of `reviewed`");
        return Ok(Exit::Answered);
    }
    let keys = arguments.key.open(None, context)?;
    registry.review(&targets, &keys.iter().collect::<Vec<_>>())?;
    for candidate in &candidates {
        printer.note(&format!("Countersigned {}", candidate.label()));
    }
    printer.hint("Clients see it after `delegate-doctor registry resign`");
    Ok(Exit::Answered)
}

fn shown(candidate: &Candidate) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let before = candidate.before.as_ref().map_or_else(|| "new".to_owned(), |(version, _)| format!("after {version}"));
    let _ = writeln!(text, "{}  {before}", styled(style::HEADING, candidate.label()));
    for line in candidate.manifest_diff().lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') => style::GOOD,
            Some(b'-') => style::WARNING,
            _ => style::FAINT,
        };
        let _ = writeln!(text, "  {}", styled(style, crate::sandbox::printable(line, 400)));
    }
    text
}

/// Runs every gate with the component on this machine.
fn prove(candidate: &Candidate, models: &[String], context: &Context) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::with_cause("Failed to prepare the gates", error);
    let folder = tempfile::tempdir().map_err(failed)?;
    let path = review::write_component(candidate, folder.path()).map_err(failed)?;
    let (_, tier) = inspect_tier(&candidate.package.component).map_err(|(_, reason)| Failure::new(reason))?;
    let limits = tier.limits();
    let helper = Helper::current().map_err(failed)?;
    let cache = Some(context.common.folders.compiled_rules());
    let sandbox = Sandbox::new(Options { limits: limits.clone(), cache, helper })?;
    let rule = sandbox.load(&candidate.label(), &candidate.package.component)?;
    let built = Built { manifest: rule.manifest().clone(), component: candidate.package.component.clone(), path };
    let typed = OptimizeArguments {
        command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        ..OptimizeArguments::default()
    };
    let settings = OptimizeSettings::resolve(typed, context.common.clone(), &context.project)?;
    let out = folder.path().join("evidence");
    let task = Validation { rule: &built, limits: &limits, models, settings: &settings, out: &out };
    let (evidence, _) = authoring::validate(&task, &context.printer.progress())?;
    if evidence.outcome != Outcome::Proven {
        let outcome = evidence.outcome.name();
        return Err(Failure::new(format!("{} is not proven here: {outcome}", candidate.label()))
            .hint("Ask its publisher how the evidence came about; nothing was countersigned")
            .exit(Exit::Rejected));
    }
    context.printer.note(&format!("{} is proven here too", candidate.label()));
    Ok(())
}

/// Forbid a published version for everybody
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Forbid a published version for everybody.\n\n\
        For when its publisher is gone or hostile: clients refuse to run the component, installed or locked, whoever \
        lists it. A revocation is never withdrawn.",
    after_help = "\
Examples:
  delegate-doctor registry revoke acme/my-rule@1.0.0 --reason 'wrong on odd sizes' --registry DIR"
)]
pub(super) struct Revoke {
    /// The version: PUBLISHER/RULE@VERSION
    #[arg(value_name = "RULE@VERSION")]
    rule: String,
    /// Why, in a line
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Folder of the registry
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

pub(super) fn revoke(arguments: &Revoke, context: &Context) -> Result<Exit, Failure> {
    let (registry, _lock) = registry_to_change(&arguments.registry)?;
    let reference: Reference = arguments.rule.parse()?;
    let reason = &arguments.reason;
    if reason.is_empty() || crate::sandbox::printable(reason, 500) != *reason {
        return Err(Failure::new("A reason is one line of 1 to 500 bytes, without characters that cannot be seen"));
    }
    let role = registry.role(reference.rule.publisher())?;
    let listed = role.iter().flat_map(|role| &role.signed.targets).find(|(path, _)| {
        let target: Result<crate::registry::name::Target, _> = path.parse();
        target.is_ok_and(|target| {
            target.rule == reference.rule
                && target.kind == crate::registry::name::TargetKind::Component
                && reference.versions.as_ref().is_some_and(|versions| versions.matches(&target.version))
        })
    });
    let Some((path, file)) = listed else {
        return Err(Failure::new(format!("The registry has no `{}`", arguments.rule))
            .hint("Name one version, as in `acme/my-rule@1.0.0`"));
    };
    let keys = arguments.key.open(None, context)?;
    registry.revoke(&file.hashes.sha256, reason, &keys.iter().collect::<Vec<_>>())?;
    context.printer.note(&format!("Revoked `{path}` in `{}`: {reason}", layout::REVIEWED));
    context.printer.hint("Clients see it after `delegate-doctor registry resign`");
    Ok(Exit::Answered)
}
