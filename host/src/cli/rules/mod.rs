//! `rules …`: the rules at hand, and everything an author of one needs.

mod build;
mod changing;
mod inspect;
mod install;
mod key;
mod list;
mod new;
mod pack;
mod publish;
mod search;
mod sign;
mod test;
mod validate;
mod verify;
mod why_not;

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{Context, Format};
use crate::authoring::{Built, Project};
use crate::files;
use crate::output::{Exit, Failure};
use crate::sandbox::{Helper, Limits, Options, Sandbox, inspect_tier};

pub(super) use changing::{ask, can_ask};

/// Work with repair rules
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor rules list                               The rules at hand
  delegate-doctor rules search softmax                     What the registries offer
  delegate-doctor rules install community:acme/fix-boot    Install a rule
  delegate-doctor rules new swish-to-delegated             Begin a rule
  delegate-doctor rules test swish-to-delegated            Build it and run its cases
  delegate-doctor rules why-not swish-to-delegated net.py  What it says about a model
  delegate-doctor rules validate swish-to-delegated --models net.py")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Arguments),
    Search(search::Search),
    Info(search::Info),
    Install(install::Arguments),
    Update(install::Update),
    Remove(install::Remove),
    Outdated(verify::Outdated),
    Pin(install::Pin),
    Unpin(install::Unpin),
    Verify(verify::Verify),
    New(new::Arguments),
    Build(build::Arguments),
    Test(test::Arguments),
    Inspect(inspect::Arguments),
    WhyNot(why_not::Arguments),
    Validate(validate::Arguments),
    Key(key::Arguments),
    Pack(pack::Arguments),
    Sign(sign::Arguments),
    Publish(publish::Arguments),
    Yank(publish::Yank),
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::List(arguments) => list::run(arguments, context),
        Command::Search(arguments) => search::search(arguments, context),
        Command::Info(arguments) => search::info(arguments, context),
        Command::Install(arguments) => install::run(arguments, context),
        Command::Update(arguments) => install::update(arguments, context),
        Command::Remove(arguments) => install::remove(arguments, context),
        Command::Outdated(arguments) => verify::outdated(arguments, context),
        Command::Pin(arguments) => install::pin(arguments, context),
        Command::Unpin(arguments) => install::unpin(arguments, context),
        Command::Verify(arguments) => verify::verify(arguments, context),
        Command::New(arguments) => new::run(arguments, context),
        Command::Build(arguments) => build::run(arguments, context),
        Command::Test(arguments) => test::run(arguments, context),
        Command::Inspect(arguments) => inspect::run(arguments, context),
        Command::WhyNot(arguments) => why_not::run(arguments, context),
        Command::Validate(arguments) => validate::run(arguments, context),
        Command::Key(arguments) => key::run(arguments, context),
        Command::Pack(arguments) => pack::run(arguments, context),
        Command::Sign(arguments) => sign::run(arguments, context),
        Command::Publish(arguments) => publish::run(arguments, context),
        Command::Yank(arguments) => publish::yank(arguments, context),
    }
}

/// A sandbox with these limits that keeps what it compiles.
fn sandbox(context: &Context, limits: Limits) -> Result<Sandbox, Failure> {
    let helper =
        Helper::current().map_err(|error| Failure::with_cause("Failed to find this program's own file", error))?;
    let cache = Some(context.common.folders.compiled_rules());
    Ok(Sandbox::new(Options { limits, cache, helper })?)
}

/// A rule as an author names it: its folder, which is built, or a component.
struct Named {
    built: Built,
    limits: Limits,
}

impl Named {
    fn of(path: &Path, context: &Context) -> Result<Self, Failure> {
        let progress = context.printer.progress();
        if path.is_dir() {
            let project = Project::read(path, &context.common.folders.data)?;
            let limits = project.limits();
            let built = project.build(&sandbox(context, limits.clone())?, &progress)?;
            return Ok(Self { built, limits });
        }
        let component = read_component(path)?;
        // What is no rule at all is refused below, under the limits of the many.
        let limits = inspect_tier(&component).map_or_else(|_| Limits::standard(), |(_, tier)| tier.limits());
        let rule = sandbox(context, limits.clone())?.load(&path.display().to_string(), &component)?;
        let built = Built { manifest: rule.manifest().clone(), component, path: path.to_path_buf() };
        Ok(Self { built, limits })
    }
}

fn read_component(path: &Path) -> Result<Vec<u8>, Failure> {
    let most = Limits::script().component_bytes as u64;
    files::read_regular(path, most).map_err(|error| {
        Failure::with_cause(format!("Failed to read the component `{}`", path.display()), error)
            .hint("Give a component (`*.wasm`), or the folder of a rule where one is built")
    })
}

/// The argument that names a rule.
#[derive(Clone, Debug, clap::Args)]
struct RuleArgument {
    /// The folder of a rule, which is built first, or a component
    #[arg(value_name = "RULE")]
    rule: PathBuf,
}
