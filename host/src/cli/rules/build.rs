//! `rules build`: from sources to a component.

use std::path::PathBuf;

use super::{Context, sandbox};
use crate::authoring::Project;
use crate::files::sha256_hex;
use crate::output::{Exit, Failure};

/// Build a rule into a component
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Build a rule into a component.\n\n\
        The same sources, lock file and compiler give the same bytes, wherever the folder lies. The component is \
        loaded in the sandbox before it is written; its manifest travels in it, to be read without running it.",
    after_help = "\
Examples:
  delegate-doctor rules build
  delegate-doctor rules build my-rule     Writes my-rule/build/my-rule-0.1.0.wasm"
)]
pub(super) struct Arguments {
    /// The folder of the rule
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let project = Project::read(&arguments.folder, &context.common.folders.data)?;
    let sandbox = sandbox(context, project.limits())?;
    let built = project.build(&sandbox, &context.printer.progress())?;
    let line = format!("{}  sha256 {}\n", built.path.display(), sha256_hex(&built.component));
    Exit::of_write(context.printer.data(&line))?;
    Ok(Exit::Answered)
}
