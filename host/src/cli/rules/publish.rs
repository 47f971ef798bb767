//! `rules publish`: lays signed files into a registry folder, or onto a branch of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Context;
use crate::cli::signing::{KeyArguments, load, registry_to_change};
use crate::output::{Exit, Failure};
use crate::registry::metadata::Yanked;
use crate::registry::name::{Reference, requirement};
use crate::registry::pack::Package;
use crate::registry::publish;
use crate::registry::writer::Repository;

/// Publish a package in a registry folder
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Publish a package in a registry folder.\n\n\
        The gate that the registry's maintainers run is run first; what it refuses is not laid in. Clients see the \
        version once the maintainers have published a snapshot that names it. With `--branch`, the files become a \
        commit on a new branch of the git repository that the folder belongs to, ready for a pull request.",
    after_help = "\
Examples:
  delegate-doctor rules publish my-rule-1.0.0-package --registry ../registry --publisher acme
  delegate-doctor rules publish my-rule-1.0.0-package.signed --registry ../registry --branch my-rule"
)]
pub(super) struct Arguments {
    /// Folder of the package, or of what `rules sign` wrote
    #[arg(value_name = "PACKAGE")]
    package: PathBuf,
    /// Folder of the registry
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,
    /// Whose rule it is; needed to sign a package
    #[arg(long, value_name = "NAME")]
    publisher: Option<String>,
    #[command(flatten)]
    key: KeyArguments,
    /// Commit to a new branch of the registry's git repository
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let (registry, _lock) = registry_to_change(&arguments.registry)?;
    let temporary = tempfile::tempdir()
        .map_err(|error| Failure::with_cause("Failed to make a folder for the signed files", error))?;
    let signed = arguments.package.join("metadata").is_dir();
    let proposal = if signed {
        arguments.package.clone()
    } else {
        let package = Package::read(&arguments.package)?;
        let publisher = arguments.publisher.as_deref().ok_or_else(|| {
            Failure::new("A package is published in the name of a publisher, and none was given")
                .hint("Name it with `--publisher`")
        })?;
        let keys = arguments.key.open(Some(publisher), context)?;
        publish::sign(&package, &registry, publisher, &keys.iter().collect::<Vec<_>>(), temporary.path())?;
        temporary.path().to_path_buf()
    };
    lay_in(&proposal, &registry, arguments.branch.as_deref(), context)
}

fn lay_in(proposal: &Path, registry: &Repository, branch: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    if let Some(branch) = branch {
        git(registry.folder(), &["switch", "--quiet", "--create", branch])?;
    }
    let verdict = publish::lay_in(proposal, registry, Some(&|package| load(context, package)))?;
    let printer = &context.printer;
    let text: String = verdict.does.iter().map(|line| format!("{line}\n")).collect();
    Exit::of_write(printer.data(&text))?;
    if let Some(branch) = branch {
        git(registry.folder(), &["add", "--", "metadata", "targets"])?;
        let subject = verdict.does.first().map_or("registry", String::as_str);
        git(registry.folder(), &["commit", "--quiet", "--message", subject])?;
        printer.hint(&format!("Push the branch `{branch}` and open a pull request"));
    } else {
        printer.hint(
            "Clients see it once the registry's maintainers have reviewed it and run `delegate-doctor registry resign`",
        );
    }
    Ok(Exit::Answered)
}

fn git(folder: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().map_err(|error| {
        Failure::with_cause("Failed to start `git`", error).hint("Install git, or publish without `--branch`")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!(
        "`git {}` failed in `{}`: {}",
        arguments.first().copied().unwrap_or_default(),
        folder.display(),
        crate::sandbox::printable(&said, 500)
    )))
}

/// Take a published version back
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Take a published version back.\n\n\
        It is not chosen any more where a version is looked for, and says why. A project whose lock names it still \
        installs it, with a warning; with `--security` it does not. The files stay, and a yank is never withdrawn.",
    after_help = "\
Examples:
  delegate-doctor rules yank acme/my-rule@1.0.0 --reason 'slow on Arm' --registry DIR
  delegate-doctor rules yank acme/my-rule@1.0.0 --security --reason 'wrong on odd sizes' --registry DIR"
)]
pub(super) struct Yank {
    /// The version: PUBLISHER/RULE@VERSION
    #[arg(value_name = "RULE@VERSION")]
    rule: String,
    /// Why, in a line; everybody who has it is shown it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// It must not run any more
    #[arg(long)]
    security: bool,
    /// Folder of the registry
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
    /// Commit to a new branch of the registry's git repository
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
}

pub(super) fn yank(arguments: &Yank, context: &Context) -> Result<Exit, Failure> {
    let reference: Reference = arguments.rule.parse()?;
    let version = exact(&arguments.rule)?;
    let (registry, _lock) = registry_to_change(&arguments.registry)?;
    let keys = arguments.key.open(Some(reference.rule.publisher()), context)?;
    let temporary = tempfile::tempdir()
        .map_err(|error| Failure::with_cause("Failed to make a folder for the signed files", error))?;
    let yanked = Yanked { reason: arguments.reason.clone(), security: arguments.security };
    let signing: Vec<_> = keys.iter().collect();
    publish::yank(&reference.rule, &version, &yanked, &registry, &signing, temporary.path())?;
    lay_in(temporary.path(), &registry, arguments.branch.as_deref(), context)
}

/// The one version that `PUBLISHER/RULE@VERSION` names.
fn exact(text: &str) -> Result<semver::Version, Failure> {
    let version = text.split_once('@').map(|(_, version)| version).ok_or_else(|| {
        Failure::new(format!("`{text}` names no version")).hint("Name one, as in `acme/my-rule@1.0.0`")
    })?;
    requirement(version)?;
    Ok(crate::registry::name::version(version)?)
}
