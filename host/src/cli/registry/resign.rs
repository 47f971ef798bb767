//! `registry resign`: what the online key signs.

use std::path::PathBuf;

use super::Context;
use crate::cli::signing::{KeyArguments, registry_to_change};
use crate::output::{Exit, Failure};
use crate::registry::key::fingerprint;
use crate::report::figures::counted;

/// Publish what waits, and renew the timestamp
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Publish what waits, and renew the timestamp.\n\n\
        Run it after every merge and at least every day. A snapshot is made when documents wait for one or the old one \
        has less than a third of its life left. Whatever else expires soon is named, and the exit code is then 1, so \
        that a scheduled job fails before clients do.",
    after_help = "\
Examples:
  delegate-doctor registry resign --registry DIR --key online.pem"
)]
pub(super) struct Arguments {
    /// Folder of the registry
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let (registry, _lock) = registry_to_change(&arguments.registry)?;
    let keys = arguments.key.open(None, context)?;
    // One key may sign both, or each its own.
    let of = |role: &str| -> Result<Vec<_>, Failure> {
        let (signers, _) = registry.signers(role)?;
        let known: Vec<_> = keys.iter().filter(|key| signers.keyids.contains(&key.public().key_id())).collect();
        match keys.first() {
            Some(key) if known.is_empty() => {
                let wanted: Vec<String> = signers.keyids.iter().map(|id| fingerprint(id)).collect();
                let key = key.public().fingerprint();
                Err(Failure::new(format!("The key {key} signs nothing for role `{role}`"))
                    .hint(format!("Sign with the online key: {}", wanted.join(" or "))))
            }
            _ => Ok(known),
        }
    };
    let resigned = registry.resign(&of("snapshot")?, &of("timestamp")?)?;
    let printer = &context.printer;
    let mut text: String = resigned.published.iter().map(|document| format!("published {document}\n")).collect();
    if let Some(snapshot) = resigned.snapshot {
        text.push_str(&format!("snapshot {snapshot}\n"));
    }
    text.push_str(&format!("timestamp {}\n", resigned.timestamp));
    Exit::of_write(printer.data(&text))?;
    let alarms = registry.alarms()?;
    for alarm in &alarms {
        let days = counted(alarm.days.unsigned_abs(), "day");
        let when = if alarm.days < 0 { format!("expired {days} ago") } else { format!("expires in {days}") };
        printer.warning(&format!("`{}` {when}", alarm.role));
    }
    Ok(if alarms.is_empty() { Exit::Answered } else { Exit::Rejected })
}
