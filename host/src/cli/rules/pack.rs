//! `rules pack`: component, manifest and evidence as one package.

use std::path::PathBuf;

use super::{Context, Named, RuleArgument};
use crate::authoring::Project;
use crate::output::{Exit, Failure};
use crate::registry::pack::{Package, Words, read_evidence};

/// Pack a rule that was proven, ready to be published
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Pack a rule that was proven, ready to be published.\n\n\
        A package is the component, its manifest, and the evidence that `rules validate` gathered for exactly these \
        bytes. A rule without such evidence, or with evidence against it, is not packed. The same input gives the \
        same package.",
    after_help = "\
Examples:
  delegate-doctor rules pack my-rule
  delegate-doctor rules pack my-rule --evidence runs/evidence.json --out packages/my-rule"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    rule: RuleArgument,
    /// The evidence [default: ID-VERSION-evidence/evidence.json here, else evidence.json in the rule's folder]
    #[arg(long, value_name = "FILE")]
    evidence: Option<PathBuf>,
    /// Name within its publisher [default: of `rule.toml`]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Licence, as an SPDX expression [default: of `rule.toml`]
    #[arg(long, value_name = "LICENCE")]
    license: Option<String>,
    /// Folder for the package [default: NAME-VERSION-package]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let folder = &arguments.rule.rule;
    let mut words =
        if folder.is_dir() { Project::read(folder, &context.common.folders.data)?.words() } else { Words::default() };
    if let Some(name) = &arguments.name {
        words.name.clone_from(name);
    }
    if let Some(license) = &arguments.license {
        words.license.clone_from(license);
    }
    let named = Named::of(folder, context)?;
    let manifest = &named.built.manifest;
    let label = format!("{} {}", manifest.id, manifest.version);
    let evidence = arguments.evidence.clone().unwrap_or_else(|| {
        let gathered = PathBuf::from(format!("{}-{}-evidence/evidence.json", manifest.id, manifest.version));
        let beside = folder.join("evidence.json");
        if !gathered.exists() && beside.exists() { beside } else { gathered }
    });
    if words.name.is_empty() {
        words.name.clone_from(&manifest.id);
    }
    let package = Package::pack(named.built.component.clone(), &words, read_evidence(&evidence, &label)?)?;
    let default = || PathBuf::from(format!("{}-{}-package", package.manifest.name, package.manifest.version));
    let out = arguments.out.clone().unwrap_or_else(default);
    if out.exists() && fs_err::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::new(format!("There is something in `{}` already", out.display()))
            .hint("Choose another folder with `--out`"));
    }
    package.write(&out)?;
    let printer = &context.printer;
    let evidence = &package.manifest.evidence;
    printer.note(&format!("Packed {}: proven on {}", package.label(), evidence.models.join(", ")));
    printer.note(&format!("Package: `{}`", out.display()));
    Exit::of_write(printer.data(&format!("{}\n", package.manifest.component.sha256)))?;
    Ok(Exit::Answered)
}
