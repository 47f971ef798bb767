//! `rules key new`: a publisher's key.

use std::path::PathBuf;

use clap::Subcommand;

use super::Context;
use crate::cli::signing::{NewKeyArguments, private_key, public_file, write_key};
use crate::output::{Exit, Failure};
use crate::registry::name;

/// Make the key that rules are signed with
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor rules key new acme")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(New),
}

/// Make a publisher's key
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Make a publisher's key.\n\n\
        The private half stays on this machine, in a file that only you may read, encrypted with a passphrase. The \
        public half lies beside it; the maintainers of a registry let it publish below your name. Whoever installs \
        your rules compares the fingerprint.",
    after_help = "\
Examples:
  delegate-doctor rules key new acme
  delegate-doctor rules key new acme --out /media/stick/acme.pem"
)]
struct New {
    /// Name of the publisher: lower-case letters, digits and dashes
    #[arg(value_name = "PUBLISHER")]
    publisher: String,
    /// File of the private key [default: keys/PUBLISHER.pem in the data folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    new: NewKeyArguments,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let Command::New(new) = &arguments.command;
    name::check_publisher(&new.publisher)?;
    let path = new.out.clone().unwrap_or_else(|| private_key(&new.publisher, context));
    let passphrase = new.new.passphrase(&format!("the key of `{}`", new.publisher))?;
    let key = write_key(&path, passphrase.as_deref().map(String::as_str))?;
    let printer = &context.printer;
    printer.note(&format!("Private key: `{}`", path.display()));
    printer.note(&format!("Public key:  `{}`", public_file(&path).display()));
    Exit::of_write(printer.data(&format!("{}\n", key.public().fingerprint())))?;
    printer.hint(
        "Keep a copy of the private key where you will find it, and send the public key to the registry's maintainers",
    );
    Ok(Exit::Answered)
}
