//! `completions`: a script that teaches a shell our commands and flags.

use clap_complete::Shell;

use crate::output::{Exit, Failure, Printer};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor completions bash > ~/.local/share/bash-completion/completions/delegate-doctor
  delegate-doctor completions zsh > ~/.zfunc/_delegate-doctor
  delegate-doctor completions fish > ~/.config/fish/completions/delegate-doctor.fish

The short name `dd` gets a script of its own:
  delegate-doctor completions bash --name dd > ~/.local/share/bash-completion/completions/dd

The folder that zsh reads must be in its `fpath`.")]
pub(super) struct Arguments {
    /// Which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
    /// The name that is completed
    #[arg(long, value_name = "NAME", default_value = "delegate-doctor", value_parser = ["delegate-doctor", "dd"])]
    name: String,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::command(), &arguments.name, &mut script);
    Exit::of_write(printer.raw(&script))?;
    Ok(Exit::Answered)
}
