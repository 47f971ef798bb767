//! The command line: one file a command, each parsing its arguments, resolving settings and calling the
//! library behind it.
//!
//! In: the arguments of the process. Out: an exit code. To add a command: a file with an `Arguments`
//! struct and a `run` function, a variant of `Command`, a line in the `match` of `run`, and
//! `cargo xtask docs` for the reference.

mod browser;
mod compare;
mod completions;
mod disk_copier;
mod doctor;
mod explain;
mod finished_run;
mod man;
mod optimize;
mod profile;
mod reference;
mod registry;
mod report;
mod rules;
mod setup;
mod signing;
mod targets;
mod version;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::interrupt;
use crate::output::{Exit, Failure, Printer, Talk};
use crate::sandbox::compile;
use crate::settings::{self, Common, ProjectFile};

pub use reference::markdown as reference_markdown;

/// Find and repair what slows down a PyTorch model lowered with ExecuTorch and XNNPACK
///
/// Operators that XNNPACK does not take over fall back to slow portable kernels. Delegate Doctor lowers
/// the model, runs it, and measures which fallbacks cost time. Rules in a sandbox propose repairs, and a
/// repair is kept only when comparisons of the results and measurements of the speed prove it.
#[derive(Debug, Parser)]
#[command(
    name = "delegate-doctor",
    version = env!("CARGO_PKG_VERSION"),
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  delegate-doctor optimize examples/segmenter.py   Find and prove repairs, write a faster .pte
  delegate-doctor doctor                           Check this machine, say what is missing

Exit codes:
  0    the question was answered
  1    a repair was wanted and none was acceptable
  2    the tool or its surroundings failed
  130  interrupted"
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Say nothing but errors and the result
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more: which rules take part, what they and each gate say, and what pip prints
    #[arg(short, long, global = true)]
    verbose: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    /// Python interpreter with torch and executorch; without it, an active virtual environment that has
    /// executorch is used, else the one that `setup` makes
    #[arg(long, global = true, value_name = "PATH")]
    python: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Optimize(Box<optimize::Arguments>),
    Profile(Box<profile::Arguments>),
    Compare(Box<compare::Arguments>),
    Report(report::Arguments),
    Explain(explain::Arguments),
    Rules(rules::Arguments),
    Registry(registry::Arguments),
    Targets(targets::Arguments),
    Setup(setup::Arguments),
    Doctor(doctor::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// How a command shows its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs: versioned JSON on stdout
    Json,
}

/// What a command works with.
struct Context {
    printer: Printer,
    common: Common,
    project: ProjectFile,
}

/// Everything the two binaries do.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // The sandbox starts this program again to compile a rule under limits; nothing may come before that.
    if arguments.get(1).is_some_and(|argument| argument == compile::SUBCOMMAND) {
        return compile::child_main();
    }
    let exit = if disk_copier::is_meant(&arguments) {
        let failure = disk_copier::give_way(&arguments);
        Printer::new(Talk::Normal).failure(&failure);
        failure.exit_as()
    } else {
        run(&arguments)
    };
    ExitCode::from(exit.code())
}

fn run(arguments: &[OsString]) -> Exit {
    let color = color_typed(arguments);
    set_color(color);
    let parsed =
        command().color(color).try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return answered_by_clap(&error),
    };
    let Cli { global, command } = cli;
    let talk = match (global.quiet, global.verbose) {
        (true, _) => Talk::Quiet,
        (_, true) => Talk::Verbose,
        _ => Talk::Normal,
    };
    let printer = Printer::new(talk);
    let ended = watch_for_interrupts().and_then(|()| dispatch(command, global.python, &printer));
    match ended {
        Ok(exit) => exit,
        Err(_) if interrupt::requested() => {
            printer.note("Interrupted");
            Exit::Interrupted
        }
        Err(failure) => {
            printer.failure(&failure);
            failure.exit_as()
        }
    }
}

fn dispatch(command: Command, python: Option<PathBuf>, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        // These need nothing but the definitions in this folder, so nothing else can make them fail.
        Command::Completions(arguments) => completions::run(&arguments, printer),
        Command::Man(arguments) => man::run(&arguments, printer),
        Command::Optimize(arguments) => optimize::run(*arguments, &context(python, printer)?),
        Command::Profile(arguments) => profile::run(*arguments, &context(python, printer)?),
        Command::Compare(arguments) => compare::run(&arguments, &context(python, printer)?),
        Command::Report(arguments) => report::run(&arguments, &context(python, printer)?),
        Command::Explain(arguments) => explain::run(&arguments, &context(python, printer)?),
        Command::Rules(arguments) => rules::run(&arguments, &context(python, printer)?),
        Command::Registry(arguments) => registry::run(&arguments, &context(python, printer)?),
        Command::Targets(arguments) => targets::run(&arguments, &context(python, printer)?),
        Command::Setup(arguments) => setup::run(&arguments, &context(python, printer)?),
        Command::Doctor(arguments) => doctor::run(&arguments, &context(python, printer)?),
    }
}

/// Reads the environment and the project file.
fn context(python: Option<PathBuf>, printer: &Printer) -> Result<Context, Failure> {
    let folder = std::env::current_dir().map_err(settings::Error::CurrentFolder)?;
    let project = ProjectFile::find(&folder)?;
    for key in &project.unknown {
        let path = project.path.as_deref().unwrap_or_else(|| settings::project_file::FILE_NAME.as_ref());
        printer.warning(&format!("`{}` has a key that this version does not know: `{key}`", path.display()));
    }
    let common = Common::resolve(python, &variable, &project)?;
    Ok(Context { printer: printer.clone(), common, project })
}

/// An environment variable that names a path; an empty one counts as not set.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The whole command line, for parsing, completions, manual pages and the reference.
fn command() -> clap::Command {
    Cli::command().long_version(version::long())
}

/// Help, version and wrong arguments are written by clap.
fn answered_by_clap(error: &clap::Error) -> Exit {
    let written = error.print();
    if error.use_stderr() {
        return Exit::Failed;
    }
    match Exit::of_write(written) {
        Ok(()) => Exit::Answered,
        Err(failure) => {
            Printer::new(Talk::Normal).failure(&failure);
            failure.exit_as()
        }
    }
}

/// The value of `--color` before anything is parsed, so that wrong arguments and help obey it too.
fn color_typed(arguments: &[OsString]) -> ColorChoice {
    let mut rest = arguments.iter().skip(1).map(OsString::as_os_str);
    let mut color = ColorChoice::Auto;
    while let Some(argument) = rest.next() {
        let value = match argument.to_str() {
            Some("--") => break,
            Some("--color") => rest.next().and_then(OsStr::to_str),
            Some(argument) => argument.strip_prefix("--color="),
            None => None,
        };
        color = value.and_then(|value| value.parse().ok()).unwrap_or(color);
    }
    color
}

fn set_color(color: ColorChoice) {
    match color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// The first Ctrl-C asks all work to stop and clean up, the second ends the process at once.
fn watch_for_interrupts() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        if interrupt::requested() {
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
        interrupt::request();
    })
    .map_err(|error| Failure::with_cause("Failed to prepare for Ctrl-C", std::io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_colour_is_known_before_parsing() {
        let color = |line: &[&str]| color_typed(&line.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(color(&["dd", "optimize", "--color", "never"]), ColorChoice::Never);
        assert_eq!(color(&["dd", "--color=always", "x"]), ColorChoice::Always);
        assert_eq!(color(&["dd", "--", "--color=always"]), ColorChoice::Auto);
        assert_eq!(color(&["dd", "--color"]), ColorChoice::Auto);
        assert_eq!(color(&["dd", "--color=pink"]), ColorChoice::Auto);
    }
}
