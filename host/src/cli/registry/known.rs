//! `registry add`, `remove`, `list`, `sync`, `repair`: the registries that this user takes rules from.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::Context;
use crate::cli::Format;
use crate::cli::rules::{ask, can_ask};
use crate::files;
use crate::output::{Exit, Failure, style, styled};
use crate::registry::client::{Manner, Registry};
use crate::registry::install::{Present, Scope, edit_trust};
use crate::registry::key::fingerprint;
use crate::registry::transport::{Patience, Place, Source};
use crate::registry::trust::{BUNDLED, Known, Pin};
use crate::registry::verify::Chain;
use crate::registry::{bundled_files, floor, layout};

/// Roots that are looked through for the pinned one.
const MOST_ROOTS: u64 = 1024;

/// Take rules from another registry too
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Take rules from another registry too.\n\n\
        A registry is its root, not its address: give the SHA-256 of a root, as the registry's page shows it, or the \
        root itself. Without one, the first root is shown in a terminal and you confirm its hash.",
    after_help = "\
Examples:
  delegate-doctor registry add community https://rules.example.org/ --root-sha256 5f2c…
  delegate-doctor registry add local ../rules-registry --root ../rules-registry/metadata/1.root.json"
)]
pub(super) struct Add {
    /// What to call it
    #[arg(value_name = "NAME")]
    name: String,
    /// Folder, `file://` or `https://` URL
    #[arg(value_name = "PLACE")]
    place: String,
    /// SHA-256 of one of its roots
    #[arg(long, value_name = "HEX", conflicts_with = "root")]
    root_sha256: Option<String>,
    /// A file with one of its roots, from somewhere you trust
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// Look up names without a registry there, instead of in the one that comes with the tool
    #[arg(long)]
    default: bool,
}

pub(super) fn add(arguments: &Add, context: &Context) -> Result<Exit, Failure> {
    let places = context.common.folders.rules();
    let here = std::env::current_dir().map_err(|error| Failure::with_cause("Cannot tell the current folder", error))?;
    let place = match Place::parse(&arguments.place, &here)? {
        // The same folder is called the same from everywhere; a missing one is told when it is read.
        Place::Folder(folder) => Place::Folder(fs_err::canonicalize(&folder).unwrap_or(folder)),
        other => other,
    };
    let source = Source::open(&place, false, Patience::default());
    let (pin, root) = match (&arguments.root_sha256, &arguments.root) {
        (Some(hash), _) => by_hash(&source, hash)?,
        (None, Some(file)) => {
            let bytes = files::read_regular(file, layout::MOST_ROOT_BYTES)
                .map_err(|error| Failure::with_cause(format!("Failed to read the root `{}`", file.display()), error))?;
            (pin_of(&arguments.name, &bytes)?, bytes)
        }
        (None, None) => by_confirmation(&arguments.name, &source)?,
    };
    let known = Known { name: arguments.name.clone(), place: place.to_string(), root: pin };
    let mut trial = places.read_trust()?;
    trial.add(known.clone())?;
    weak(context, &Chain::begin(&arguments.name, &root)?);
    // Nothing is added that cannot be verified now.
    let registry = Arc::new(Registry::open(&known, &places, Manner::default())?);
    let view = registry.refresh(crate::clock::time_of_day())?;
    edit_trust(&places, |trust| {
        trust.add(known.clone())?;
        if arguments.default {
            trust.default = Some(known.name.clone());
        }
        Ok(())
    })?;
    let publishers = view.publishers().len();
    context.printer.note(&format!(
        "Added `{}`: root {} with SHA-256 {}, {publishers} publisher{}",
        known.name,
        known.root.version,
        known.root.sha256,
        if publishers == 1 { "" } else { "s" }
    ));
    Ok(Exit::Answered)
}

/// A time as people read it: no parts of a second.
fn to_seconds(time: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

fn pin_of(name: &str, root: &[u8]) -> Result<Pin, Failure> {
    let chain = Chain::begin(name, root)?;
    Ok(Pin { version: chain.root_version(), sha256: chain.root_sha256() })
}

/// Looks for the root with this hash, from the first one on.
fn by_hash(source: &Source, hash: &str) -> Result<(Pin, Vec<u8>), Failure> {
    let hash = hash.to_ascii_lowercase();
    if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Failure::new(format!("`{}` is no SHA-256", crate::registry::client::harmless(&hash)))
            .hint("A SHA-256 has 64 hex digits"));
    }
    let mut first = None;
    for version in 1..=MOST_ROOTS {
        let Some(bytes) = source.get(&layout::metadata_path(version, "root"), layout::MOST_ROOT_BYTES)? else { break };
        let found = files::sha256_hex(&bytes);
        if found == hash {
            return Ok((Pin { version, sha256: hash }, bytes));
        }
        first.get_or_insert(found);
    }
    Err(match first {
        None => Failure::new(format!("There is no registry at `{}`: it has no `metadata/1.root.json`", source.place())),
        Some(first) => Failure::new(format!(
            "No root of the registry at `{}` has the SHA-256 {hash}; its first has {first}",
            source.place()
        ))
        .hint("Compare the hash with the one on the registry's page; do not go on when they differ"),
    })
}

/// Shows the first root and lets the user confirm its hash.
fn by_confirmation(name: &str, source: &Source) -> Result<(Pin, Vec<u8>), Failure> {
    let bytes = source.get(&layout::metadata_path(1, "root"), layout::MOST_ROOT_BYTES)?.ok_or_else(|| {
        Failure::new(format!("There is no registry at `{}`: it has no `metadata/1.root.json`", source.place()))
    })?;
    let pin = pin_of(name, &bytes)?;
    if !can_ask() {
        return Err(Failure::new(format!(
            "The registry at `{}` is not pinned, and nobody is here to confirm its root",
            source.place()
        ))
        .hint(format!(
            "Compare the SHA-256 of its root with its page, then say `--root-sha256`. What it shows now is {}",
            pin.sha256
        )));
    }
    let chain = Chain::begin(name, &bytes)?;
    let role = chain.root_role("root");
    let mut text = format!("The registry at {} shows this root:\n", source.place());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  sha256   {}", pin.sha256);
    let _ = writeln!(text, "  expires  {}", to_seconds(chain.root_expires()));
    let _ = writeln!(text, "  signed by {} of these keys:", role.threshold);
    for key in &role.keys {
        let _ = writeln!(text, "    {}", fingerprint(key));
    }
    text.push_str("Compare it with the registry's page. To pin it, type the first 8 digits of the SHA-256: ");
    let typed = ask(&text)?;
    if typed.len() >= 8 && pin.sha256.starts_with(&typed.to_ascii_lowercase()) {
        Ok((pin, bytes))
    } else {
        Err(Failure::new("The root was not confirmed, and the registry not added"))
    }
}

fn weak(context: &Context, chain: &Chain) {
    let role = chain.root_role("root");
    if role.threshold < 2 {
        context.printer.warning(&format!(
            "One key alone can replace the root of this registry (1 of {}); whoever gets it can sign anything",
            role.keys.len()
        ));
    }
}

/// Take no more rules from a registry
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor registry remove community")]
pub(super) struct Remove {
    /// Which registry
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn remove(arguments: &Remove, context: &Context) -> Result<Exit, Failure> {
    let places = context.common.folders.rules();
    let user = Present::read(&Scope::of_user(&places))?;
    let used = user.lock.iter().flat_map(|lock| &lock.rules).find(|rule| rule.registry == arguments.name);
    if let Some(rule) = used {
        return Err(Failure::new(format!("`{}` is installed from the registry `{}`", rule.name, arguments.name))
            .hint(format!("Remove it first with `delegate-doctor rules remove {} --user`", rule.name)));
    }
    edit_trust(&places, |trust| trust.remove(&arguments.name).map(|_| ()))?;
    context.printer.note(&format!("Removed `{}`; what was seen of it stays, should you add it again", arguments.name));
    Ok(Exit::Answered)
}

/// List the registries
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor registry list
  delegate-doctor registry list --format json")]
pub(super) struct List {
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// The JSON form; version 1.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    version: u32,
    registries: Vec<Row>,
}

/// A registry.
#[derive(Serialize)]
struct Row {
    name: String,
    place: String,
    root_version: u64,
    root_sha256: String,
    default: bool,
    /// when everything was last in order; none: never asked, or bundled
    last_seen: Option<String>,
    /// publishers that the user trusts
    trusted: Vec<String>,
}

pub(super) fn list(arguments: &List, context: &Context) -> Result<Exit, Failure> {
    let places = context.common.folders.rules();
    let trust = places.read_trust()?;
    let default = trust.default.as_deref().unwrap_or(BUNDLED);
    let mut rows = Vec::new();
    if !bundled_files().is_empty() {
        let registry = Registry::embedded(bundled_files())?;
        rows.push(Row {
            name: BUNDLED.to_owned(),
            place: "this tool".to_owned(),
            root_version: registry.pin().version,
            root_sha256: registry.pin().sha256.clone(),
            default: default == BUNDLED,
            last_seen: None,
            trusted: Vec::new(),
        });
    }
    for known in &trust.registries {
        let id = known.root.id();
        let floor = floor::Floor::read(&known.name, &places.state.join(&id)).ok().flatten();
        let seen = floor.map(|floor| floor.last_good).filter(|time| *time > jiff::Timestamp::UNIX_EPOCH);
        rows.push(Row {
            name: known.name.clone(),
            place: known.place.clone(),
            root_version: known.root.version,
            root_sha256: known.root.sha256.clone(),
            default: default == known.name,
            last_seen: seen.map(to_seconds),
            trusted: trust.publishers.iter().filter(|one| one.registry == id).map(|one| one.name.clone()).collect(),
        });
    }
    let written = match arguments.format {
        Format::Json => {
            context.printer.json(&Document { schema: "delegate-doctor/registries", version: 1, registries: rows })
        }
        Format::Text => {
            let mut text = String::new();
            for row in &rows {
                let default = if row.default { "  default" } else { "" };
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}  {}{default}", styled(style::HEADING, &row.name), row.place);
                let _ = writeln!(text, "  root {}, sha256 {}", row.root_version, row.root_sha256);
                if let Some(seen) = &row.last_seen {
                    let _ = writeln!(text, "  last in order on {seen}");
                }
                if !row.trusted.is_empty() {
                    let _ = writeln!(text, "  trusted publishers: {}", row.trusted.join(", "));
                }
            }
            if rows.is_empty() {
                context.printer.note("There is no registry; `delegate-doctor registry add` adds one");
            }
            context.printer.data(&text)
        }
    };
    Exit::of_write(written)?;
    Ok(Exit::Answered)
}

/// Get the newest metadata of registries, for work without a network
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor registry sync
  delegate-doctor registry sync community")]
pub(super) struct Sync {
    /// Which registries [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn sync(arguments: &Sync, context: &Context) -> Result<Exit, Failure> {
    let places = context.common.folders.rules();
    let trust = places.read_trust()?;
    let known: Vec<&Known> = if arguments.names.is_empty() {
        trust.registries.iter().collect()
    } else {
        arguments.names.iter().map(|name| trust.registry(name)).collect::<Result<_, _>>()?
    };
    let mut failures = Vec::new();
    for known in known {
        let synced = Registry::open(known, &places, Manner::default()).and_then(|registry| {
            let registry = Arc::new(registry);
            let mut view = registry.refresh(crate::clock::time_of_day())?;
            let mut broken = 0;
            for publisher in view.publishers() {
                if let Err(error) = view.of_publisher(&publisher.name) {
                    context.printer.warning(&error.to_string());
                    broken += 1;
                }
            }
            Ok((view.stamp(), view.publishers().len(), broken, registry.fetched()))
        });
        match synced {
            Ok((stamp, publishers, broken, bytes)) => {
                let whole = publishers - broken;
                context.printer.note(&format!(
                    "`{}` is at version {}, until {}: {whole} of {publishers} publishers, {bytes} bytes got",
                    known.name,
                    stamp.version,
                    to_seconds(stamp.expires)
                ));
            }
            Err(error) => failures.push(Failure::from(error)),
        }
    }
    let failed = !failures.is_empty();
    for failure in &failures {
        context.printer.failure(failure);
    }
    Ok(if failed { Exit::Failed } else { Exit::Answered })
}

/// Begin anew with a registry whose memory on this machine is damaged
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Begin anew with a registry whose memory on this machine is damaged.\n\n\
        The memory says which versions were seen, so that nobody can hand you an old registry. Forgetting it opens \
        that door once: do it only when the disk is to blame.",
    after_help = "\
Examples:
  delegate-doctor registry repair community
  delegate-doctor registry repair community --yes    Without asking"
)]
pub(super) struct Repair {
    /// Which registry
    #[arg(value_name = "NAME")]
    name: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn repair(arguments: &Repair, context: &Context) -> Result<Exit, Failure> {
    let places = context.common.folders.rules();
    let trust = places.read_trust()?;
    let known = trust.registry(&arguments.name)?;
    let question = format!(
        "What was seen of `{}` is forgotten, and an old version of it would be believed once. Go on? [y/N] ",
        known.name
    );
    if !arguments.yes && (!can_ask() || !ask(&question)?.eq_ignore_ascii_case("y")) {
        return Err(Failure::new(format!("The memory of `{}` was left as it is", known.name))
            .hint("Agree with `--yes` when the disk is to blame"));
    }
    let state = places.state.join(known.root.id());
    floor::forget(&state).map_err(|error| Failure::with_cause("Failed to put the memory aside", error))?;
    context.printer.note(&format!(
        "`{}` begins anew; the old memory lies beside the new one in `{}`",
        known.name,
        state.display()
    ));
    Ok(Exit::Answered)
}
