//! `registry rotate`: other keys for a role.

use std::path::PathBuf;

use super::Context;
use crate::cli::signing::{KeyArguments, public_keys, registry_to_change};
use crate::output::{Exit, Failure};
use crate::registry::ceremony::RootState;
use crate::registry::writer::Repository;

/// Give a role other keys, or the same ones for longer
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Give a role other keys, or the same ones for longer.\n\n\
        A publisher changes its key without a gap in three steps: add the new key, let the publisher sign with it, \
        remove the old one. Keys of root, targets, snapshot and timestamp are in the root, which root keys sign, the \
        old ones and the new; publishers' and reviewers' keys are in targets. Without `--add`, `--remove` and \
        `--threshold`, the root, targets, reviewed or a publisher's document is renewed.",
    after_help = "\
Examples:
  delegate-doctor registry rotate timestamp --add new.pub.pem --remove 3f2a --registry DIR --key root-1.pem
  delegate-doctor registry rotate acme --add acme-2.pub.pem --registry DIR --key targets-1.pem
  delegate-doctor registry rotate acme --registry DIR --key acme-2.pem"
)]
pub(super) struct Arguments {
    /// `root`, `targets`, `snapshot`, `timestamp`, `reviewed` or a publisher
    #[arg(value_name = "ROLE")]
    role: String,
    /// Public key to add; may be given several times
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,
    /// Key to remove, by the beginning of its fingerprint; may be given several times
    #[arg(long, value_name = "FINGERPRINT")]
    remove: Vec<String>,
    /// How many of the keys have to sign
    #[arg(long, value_name = "N")]
    threshold: Option<u32>,
    /// Folder of the registry
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let (registry, _lock) = registry_to_change(&arguments.registry)?;
    let role = arguments.role.as_str();
    let (mut public, threshold) = registry.public_keys(role)?;
    for start in &arguments.remove {
        let digits = start.replace('-', "").to_lowercase();
        let before = public.len();
        public.retain(|key| digits.is_empty() || !key.key_id().starts_with(&digits));
        if public.len() + 1 != before {
            let count = before - public.len();
            return Err(Failure::new(format!("`{start}` is the beginning of {count} keys of `{role}`"))
                .hint("Give more of the fingerprint, or look it up with `delegate-doctor registry check`"));
        }
    }
    for key in public_keys(&arguments.add)? {
        if !public.contains(&key) {
            public.push(key);
        }
    }
    let keys = arguments.key.open(None, context)?;
    let signing: Vec<_> = keys.iter().collect();
    let unchanged = arguments.add.is_empty() && arguments.remove.is_empty() && arguments.threshold.is_none();
    if unchanged && role != "root" {
        if ["snapshot", "timestamp"].contains(&role) {
            return Err(Failure::new(format!("There is nothing to change in `{role}`"))
                .hint("`delegate-doctor registry resign` renews snapshot and timestamp"));
        }
        registry.renew(role, &signing)?;
        context.printer.note(&format!("Renewed `{role}`"));
        context.printer.hint("Clients see it after `delegate-doctor registry resign`");
        return Ok(Exit::Answered);
    }
    let threshold = arguments.threshold.unwrap_or(threshold);
    match registry.rotate(role, &public, threshold, &signing)? {
        Some(state) => {
            show_changes(&registry, context)?;
            told(&state, context)
        }
        None => {
            for key in &public {
                context.printer.note(&format!("`{role}` signs with {}", key.fingerprint()));
            }
            context.printer.hint("Clients see it after `delegate-doctor registry resign`");
            Ok(Exit::Answered)
        }
    }
}

/// Shows how the next root, or the one that has just become complete, differs from the one before it.
pub(super) fn show_changes(registry: &Repository, context: &Context) -> Result<(), Failure> {
    for change in registry.next_root_changes()? {
        context.printer.note(&format!("Next root: {change}"));
    }
    Ok(())
}

/// Says how far a root is.
pub(super) fn told(state: &RootState, context: &Context) -> Result<Exit, Failure> {
    let printer = &context.printer;
    match state {
        RootState::Complete { version } => {
            printer.note(&format!("Root {version} is complete and counts from now on"));
            printer.hint(
                "Sign what the changed keys sign: `registry rotate targets` renews targets, `registry resign` the rest",
            );
        }
        RootState::Waits { path, old, own } => {
            printer.note(&format!(
                "`{}` has {} of {} signatures by the keys before it, and {} of {} by its own",
                path.display(),
                old.0,
                old.1,
                own.0,
                own.1
            ));
            printer.hint("The next holder signs with `delegate-doctor registry sign root`");
        }
    }
    Ok(Exit::Answered)
}
