//! `registry sign`: one more signature on a document that waits.

use std::path::PathBuf;

use super::Context;
use super::rotate::{show_changes, told};
use crate::cli::signing::{KeyArguments, registry_to_change};
use crate::output::{Exit, Failure};

/// Add a signature to a document that waits for one
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Add a signature to a document that waits for one.\n\n\
        Where a role needs several keys, their holders sign one after the other; the folder travels by pull request \
        or on a stick. `reviewed` means everything that reviewers sign. A root that is complete counts at once, \
        everything else with the next snapshot.",
    after_help = "\
Examples:
  delegate-doctor registry sign root --registry DIR --key root-2.pem
  delegate-doctor registry sign targets --registry DIR --key targets-2.pem"
)]
pub(super) struct Arguments {
    /// `root`, `targets`, `reviewed` or a publisher
    #[arg(value_name = "ROLE")]
    role: String,
    /// Folder of the registry
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let (registry, _lock) = registry_to_change(&arguments.registry)?;
    let role = arguments.role.as_str();
    let keys = arguments.key.open(None, context)?;
    let signing: Vec<_> = keys.iter().collect();
    if role == "root" {
        show_changes(&registry, context)?;
        let state = registry.sign_root(&signing)?;
        return told(&state, context);
    }
    for signed in registry.sign_role(role, &signing)? {
        let role = signed.split(' ').next().unwrap_or_default();
        let document = registry.role(role)?;
        let (signers, public) = registry.signers(role)?;
        let found = document.map_or(Ok(0), |document| document.signers(&signers, &public));
        let found = found.map_err(|error| Failure::new(error.to_string()))?;
        context.printer.note(&format!("`{role}` has {found} of {} signatures", signers.threshold));
    }
    context.printer.hint("Clients see it after `delegate-doctor registry resign`");
    Ok(Exit::Answered)
}
