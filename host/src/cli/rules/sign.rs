//! `rules sign`: a package becomes files that a registry can take.

use std::path::PathBuf;

use super::Context;
use crate::cli::signing::{KeyArguments, registry};
use crate::output::{Exit, Failure};
use crate::registry::pack::Package;
use crate::registry::publish;

/// Sign a package for a registry
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Sign a package for a registry.\n\n\
        Reads what the publisher has published there, adds the version, and writes the publisher's next document and \
        the files into a folder. Nothing in the registry changes; `rules publish` lays the folder in. Where several \
        keys of a publisher have to sign, their holders sign the folder one after the other.",
    after_help = "\
Examples:
  delegate-doctor rules sign my-rule-1.0.0-package --registry ../registry --publisher acme"
)]
pub(super) struct Arguments {
    /// Folder of the package, or of what `rules sign` wrote, to add a signature
    #[arg(value_name = "PACKAGE")]
    package: PathBuf,
    /// Folder of the registry
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,
    /// Whose rule it is
    #[arg(long, value_name = "NAME")]
    publisher: String,
    #[command(flatten)]
    key: KeyArguments,
    /// Folder for the signed files, new or empty [default: PACKAGE.signed]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let registry = registry(&arguments.registry)?;
    if arguments.package.join("metadata").is_dir() {
        let keys = arguments.key.open(Some(&arguments.publisher), context)?;
        publish::countersign(&arguments.package, &registry, &arguments.publisher, &keys.iter().collect::<Vec<_>>())?;
        context.printer.note(&format!("Added a signature to `{}`", arguments.package.display()));
        return Ok(Exit::Answered);
    }
    let package = Package::read(&arguments.package)?;
    let out = arguments.out.clone().unwrap_or_else(|| {
        let mut name = arguments.package.clone().into_os_string();
        name.push(".signed");
        PathBuf::from(name)
    });
    if out.exists() && fs_err::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::new(format!("There is something in `{}` already", out.display()))
            .hint("Choose another folder with `--out`"));
    }
    let keys = arguments.key.open(Some(&arguments.publisher), context)?;
    publish::sign(&package, &registry, &arguments.publisher, &keys.iter().collect::<Vec<_>>(), &out)?;
    let printer = &context.printer;
    printer.note(&format!("Signed {}/{} as `{}`", arguments.publisher, package.label(), out.display()));
    let next = ["delegate-doctor", "rules", "publish", &out.to_string_lossy(), "--registry"].map(str::to_owned);
    let folder = arguments.registry.to_string_lossy().into_owned();
    printer.hint(&format!("Lay it in with `{}`", crate::shell::line(next.iter().chain([&folder]))));
    Ok(Exit::Answered)
}
