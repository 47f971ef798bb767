//! `registry delegate`: lets a publisher publish below its name.

use std::path::PathBuf;

use super::Context;
use crate::cli::signing::{KeyArguments, public_keys, registry_to_change};
use crate::output::{Exit, Failure};

/// Let a publisher publish below its name, or let it no more
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor registry delegate acme --public-key acme.pub.pem --registry DIR
  delegate-doctor registry delegate acme --remove --registry DIR")]
pub(super) struct Arguments {
    /// Name of the publisher
    #[arg(value_name = "PUBLISHER")]
    publisher: String,
    /// Its public keys, of which one has to sign unless `--threshold` says otherwise
    #[arg(long = "public-key", value_name = "FILE", required_unless_present = "remove")]
    public_keys: Vec<PathBuf>,
    /// How many of them have to sign
    #[arg(long, value_name = "N", default_value = "1")]
    threshold: u32,
    /// Take the right away; what was published stays
    #[arg(long, conflicts_with = "public_keys")]
    remove: bool,
    /// Folder of the registry
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let (registry, _lock) = registry_to_change(&arguments.registry)?;
    let public = public_keys(&arguments.public_keys)?;
    let keys = arguments.key.open(None, context)?;
    let signing: Vec<_> = keys.iter().collect();
    let printer = &context.printer;
    if arguments.remove {
        registry.remove_publisher(&arguments.publisher, &signing)?;
        printer.note(&format!("The publisher `{}` may publish no more", arguments.publisher));
    } else {
        registry.add_publisher(&arguments.publisher, &public, arguments.threshold, &signing)?;
        for key in &public {
            printer.note(&format!("`{}` publishes with {}", arguments.publisher, key.fingerprint()));
        }
    }
    printer.hint("Clients see it after `delegate-doctor registry resign`");
    Ok(Exit::Answered)
}
