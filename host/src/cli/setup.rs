//! `setup`: everything that a first run would have to make, made now.

use super::Context;
use crate::output::{Exit, Failure};
use crate::progress::Progress as _;
use crate::target;
use crate::target::local::LocalTarget;
use crate::target::selector::Selector;
use crate::torch::environment::{self, Search};

/// Make the Python environment and the native runner ahead of time
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Make the Python environment and the native runner ahead of time.\n\n\
        The first `optimize` does the same by itself. Nothing is done twice: what is there and works is kept.",
    after_help = "\
Examples:
  delegate-doctor setup                            About 6 GB and some minutes the first time
  delegate-doctor setup --python venv/bin/python   Use an environment of yours instead
  delegate-doctor setup --target qemu              Also what emulated Arm, phones and boards need"
)]
pub(super) struct Arguments {
    /// The target to make ready beside this host
    #[arg(long, value_name = "TARGET")]
    target: Option<Selector>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let progress = context.printer.progress();
    let search = Search::of_this_process(context.common.python.clone(), &context.common.folders.data);
    let environment = environment::find_or_create(&search, &progress)?;
    progress.note(&environment.to_string());
    for note in &environment.notes {
        context.printer.warning(note);
    }
    let target = LocalTarget::prepare(&environment, &context.common.folders.cache, &progress)?;
    progress.note(&format!("Native runner: `{}`", target.runner().executable.display()));
    if let Some(selector) = arguments.target.as_ref().filter(|selector| **selector != Selector::Local) {
        let target = target::prepare(selector, None, &environment, &context.common.folders.cache, &progress)?;
        progress.note(&format!("{} is ready: {}", target.label().name, target.processor()));
    }
    Ok(Exit::Answered)
}
