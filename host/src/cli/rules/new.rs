//! `rules new`: begin a rule.

use std::path::PathBuf;

use super::Context;
use crate::authoring::{self, Language, New};
use crate::output::{Exit, Failure};

/// Begin a rule that builds and passes its tests at once
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Begin a rule that builds and passes its tests at once.\n\n\
        The folder holds everything it takes to build the same component again, the SDK included. The rule in it \
        takes out multiplications by one; change it into yours, cases first.",
    after_help = "\
Examples:
  delegate-doctor rules new swish-to-delegated
  delegate-doctor rules new swish-to-delegated --out ../my-rules/swish"
)]
pub(super) struct Arguments {
    /// Id of the rule: lower-case letters, digits and dashes
    #[arg(value_name = "NAME")]
    name: String,
    /// What to write it in
    #[arg(long, value_name = "LANGUAGE", default_value = "rust")]
    lang: Language,
    /// Folder to make [default: NAME in the current folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let folder = arguments.out.clone().unwrap_or_else(|| PathBuf::from(&arguments.name));
    let new = New { name: arguments.name.clone(), folder: folder.clone(), language: arguments.lang };
    let files = authoring::create(&new)?;
    let printer = &context.printer;
    printer.note(&format!("Made the rule `{}`", arguments.name));
    for file in files {
        printer.note(&format!("  {}", folder.join(file).display()));
    }
    let next = crate::shell::line(["delegate-doctor", "rules", "test", &folder.display().to_string()]);
    printer.hint(&format!("Build it and run its cases with `{next}`"));
    Ok(Exit::Answered)
}
