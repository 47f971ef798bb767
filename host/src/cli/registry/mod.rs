//! `registry …`: the registries that a user takes rules from, and what the maintainers of one do.

mod check;
mod delegate;
mod init;
mod known;
mod resign;
mod review;
mod rotate;
mod sign;

use clap::Subcommand;

use super::Context;
use crate::output::{Exit, Failure};

/// Choose the registries that rules come from, or keep one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor registry add community https://rules.example.org/ --root-sha256 5f2c…
  delegate-doctor registry list                            Where rules come from
  delegate-doctor registry init rules --keys keys          Begin a registry
  delegate-doctor registry check rules                     Check all of it
  delegate-doctor registry check theirs --base rules       The gate for a pull request
  delegate-doctor registry review --registry rules         Look at what is new
  delegate-doctor registry resign --registry rules --key keys/online.pem")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(known::Add),
    Remove(known::Remove),
    List(known::List),
    Sync(known::Sync),
    Repair(known::Repair),
    Init(init::Arguments),
    Delegate(delegate::Arguments),
    Check(check::Arguments),
    Review(review::Arguments),
    Revoke(review::Revoke),
    Sign(sign::Arguments),
    Resign(resign::Arguments),
    Rotate(rotate::Arguments),
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Add(arguments) => known::add(arguments, context),
        Command::Remove(arguments) => known::remove(arguments, context),
        Command::List(arguments) => known::list(arguments, context),
        Command::Sync(arguments) => known::sync(arguments, context),
        Command::Repair(arguments) => known::repair(arguments, context),
        Command::Init(arguments) => init::run(arguments, context),
        Command::Delegate(arguments) => delegate::run(arguments, context),
        Command::Check(arguments) => check::run(arguments, context),
        Command::Review(arguments) => review::run(arguments, context),
        Command::Revoke(arguments) => review::revoke(arguments, context),
        Command::Sign(arguments) => sign::run(arguments, context),
        Command::Resign(arguments) => resign::run(arguments, context),
        Command::Rotate(arguments) => rotate::run(arguments, context),
    }
}
