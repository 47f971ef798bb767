//! `registry init`: the key ceremony and an empty registry.

use std::path::PathBuf;

use super::Context;
use crate::cli::signing::{NewKeyArguments, now, write_key};
use crate::files::sha256_hex;
use crate::output::{Exit, Failure};
use crate::registry::key::SigningKey;
use crate::registry::writer::{Keys, Repository, Signers};
use crate::registry::{layout, name};

/// Begin a registry: make its keys and sign its first documents
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Begin a registry: make its keys and sign its first documents.\n\n\
        Do this on a machine without a network. The root and targets keys belong to different people and are needed \
        once a year; `reviewed` keys countersign versions; the online key signs snapshots and timestamps and is the \
        only one that a publishing job needs. What is printed is the SHA-256 of the root: publish it where people \
        look for it, because whoever adds the registry pins it.",
    after_help = "\
Examples:
  delegate-doctor registry init rules-registry --keys /media/stick/keys
  delegate-doctor registry init rules-registry --keys keys --root-keys 5 --root-threshold 3"
)]
pub(super) struct Arguments {
    /// Folder of the registry, new or empty
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Folder for the keys, outside of the registry
    #[arg(long, value_name = "DIR")]
    keys: PathBuf,
    /// Name of the registry, which people may change when they add it
    #[arg(long, value_name = "NAME", default_value = "rules")]
    name: String,
    /// Root keys
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=20))]
    root_keys: u32,
    /// Root keys that have to sign
    #[arg(long, value_name = "N", default_value = "2")]
    root_threshold: u32,
    /// Keys that say who the publishers are
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=20))]
    targets_keys: u32,
    /// Of them, how many have to sign
    #[arg(long, value_name = "N", default_value = "2")]
    targets_threshold: u32,
    /// Keys of reviewers, of whom one has to sign
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=20))]
    reviewed_keys: u32,
    #[command(flatten)]
    new: NewKeyArguments,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    name::check_registry(&arguments.name)?;
    for (role, threshold, keys) in [
        ("root", arguments.root_threshold, arguments.root_keys),
        ("targets", arguments.targets_threshold, arguments.targets_keys),
    ] {
        if threshold == 0 || threshold > keys {
            return Err(Failure::new(format!("The role `{role}` would want {threshold} of {keys} keys")));
        }
    }
    if arguments.folder.exists()
        && fs_err::read_dir(&arguments.folder).is_ok_and(|mut entries| entries.next().is_some())
    {
        return Err(Failure::new(format!("There is something in `{}` already", arguments.folder.display()))
            .hint("Choose another folder; a registry is never begun anew over an old one"));
    }
    let inside = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    if inside(&arguments.keys).starts_with(inside(&arguments.folder)) {
        return Err(Failure::new(format!("The keys would lie in the registry, in `{}`", arguments.keys.display()))
            .hint("A registry is published; keep private keys elsewhere"));
    }
    let passphrase = arguments.new.passphrase("the keys of the registry")?;
    let passphrase = passphrase.as_deref().map(String::as_str);
    let make = |role: &str, count: u32| -> Result<Vec<SigningKey>, Failure> {
        let path = |index: u32| arguments.keys.join(format!("{role}-{index}.pem"));
        (1..=count).map(|index| write_key(&path(index), passphrase)).collect()
    };
    let online = write_key(&arguments.keys.join("online.pem"), passphrase)?;
    let keys = Keys {
        root: Signers { keys: make("root", arguments.root_keys)?, threshold: arguments.root_threshold },
        targets: Signers { keys: make("targets", arguments.targets_keys)?, threshold: arguments.targets_threshold },
        reviewed: Signers { keys: make("reviewed", arguments.reviewed_keys)?, threshold: 1 },
        snapshot: Signers::one(online.clone()),
        timestamp: Signers::one(online),
    };
    let repository = Repository::init(&arguments.folder, &keys, now())?;
    let description = format!("{{\n  \"layout\": 1,\n  \"name\": \"{}\"\n}}\n", arguments.name);
    let failed = |error: std::io::Error| Failure::with_cause("Failed to write the registry", error);
    crate::files::write_atomic(&repository.folder().join(layout::DESCRIPTION), description.as_bytes())
        .map_err(failed)?;
    crate::files::write_atomic(&repository.folder().join(".nojekyll"), b"").map_err(failed)?;
    let root = fs_err::read(repository.folder().join(layout::metadata_path(1, "root"))).map_err(failed)?;
    let printer = &context.printer;
    for (role, signers) in [("root", &keys.root), ("targets", &keys.targets), ("reviewed", &keys.reviewed)] {
        for (index, key) in signers.keys.iter().enumerate() {
            printer.note(&format!("{role}-{}.pem  {}", index + 1, key.public().fingerprint()));
        }
    }
    for key in &keys.timestamp.keys {
        printer.note(&format!("online.pem  {}", key.public().fingerprint()));
    }
    printer.note("SHA-256 of the root:");
    Exit::of_write(printer.data(&format!("{}\n", sha256_hex(&root))))?;
    printer.hint("Give every root and targets key to its holder, on paper too, and delete them here");
    Ok(Exit::Answered)
}
