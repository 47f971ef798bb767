//! `rules outdated` and `rules verify`: whether what is installed is the newest, and still what was signed.

use std::fmt::Write as _;

use serde::Serialize;

use super::changing::{PlaceArguments, warn};
use super::{Context, Format};
use crate::hint::Hint as _;
use crate::output::{Exit, Failure, style, styled};
use crate::registry::client::{self, Policy};
use crate::registry::install::{self, Error, Present};
use crate::registry::lockfile;
use crate::registry::trust::BUNDLED;
use crate::registry::wanted::Wish;

/// Show rules for which there is a newer version
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor rules outdated
  delegate-doctor rules outdated --format json")]
pub(super) struct Outdated {
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    #[command(flatten)]
    place: PlaceArguments,
}

/// The JSON form; version 1.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    version: u32,
    rules: Vec<Row>,
}

/// A rule that has a newer version.
#[derive(Serialize)]
struct Row {
    name: String,
    registry: String,
    installed: String,
    /// the newest that the wish allows
    wanted: String,
    newest: String,
    pinned: bool,
}

pub(super) fn outdated(arguments: &Outdated, context: &Context) -> Result<Exit, Failure> {
    let (scope, mut registries) = arguments.place.open(context)?;
    let present = Present::read(&scope)?;
    let lock = present.lock.unwrap_or_default();
    registries.recognise(&lock);
    let (mut rows, mut failed) = (Vec::new(), false);
    for locked in lock.rules {
        let wish = present.wanted.find(&locked.name).map(|(_, wish)| wish);
        let mut cannot_be_told = false;
        match newer(&mut registries, &locked, wish) {
            Ok(Some((wanted, newest))) => rows.push(Row {
                name: locked.name.to_string(),
                registry: locked.registry.clone(),
                installed: locked.version.to_string(),
                wanted: wanted.to_string(),
                newest: newest.to_string(),
                pinned: locked.pinned,
            }),
            Ok(None) => {}
            // One rule that cannot be told of hides none of the others.
            Err(error) => {
                cannot_be_told = !matches!(error, Error::Client(client::Error::NoVersion { .. }));
                failed |= cannot_be_told;
                context.printer.warning(&error.to_string());
                if let Some(hint) = error.hint() {
                    context.printer.hint(&hint);
                }
            }
        }
        if locked.registry != BUNDLED && !cannot_be_told {
            registries.warn_when_yanked(&locked)?;
        }
    }
    warn(context, &mut registries);
    let written = match arguments.format {
        Format::Json => {
            context.printer.json(&Document { schema: "delegate-doctor/rules-outdated", version: 1, rules: rows })
        }
        Format::Text => {
            if rows.is_empty() && !failed {
                context.printer.note(&format!("No rule {} has a newer version", scope.told()));
            }
            let mut text = String::new();
            for row in &rows {
                let pinned = if row.pinned { "  pinned" } else { "" };
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "{}  {} installed, {} wanted, {} newest{pinned}",
                    styled(style::HEADING, &row.name),
                    row.installed,
                    row.wanted,
                    row.newest
                );
            }
            context.printer.data(&text)
        }
    };
    Exit::of_write(written)?;
    Ok(if failed { Exit::Failed } else { Exit::Answered })
}

/// The newest version of a rule that its wish allows, and the newest of all, when there is a newer one.
fn newer(
    registries: &mut install::Registries,
    locked: &lockfile::LockedRule,
    wish: Option<&Wish>,
) -> Result<Option<(semver::Version, semver::Version)>, Error> {
    let policy = Policy { unreviewed: wish.is_some_and(|wish| wish.unreviewed), yanked: false };
    let view = registries.view(&locked.registry)?;
    let newest = view.choose(&locked.name, None, policy)?.version;
    let wanted = view.choose(&locked.name, wish.map(|wish| &wish.versions), policy);
    let wanted = wanted.map_or(locked.version.clone(), |release| release.version);
    Ok((newest > locked.version).then_some((wanted, newest)))
}

/// Check installed rules again: bytes, signatures, revocations
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Check installed rules again: bytes, signatures, revocations.\n\n\
        The metadata that vouched for each rule when it was installed is verified once more from the pinned root \
        down to the bytes. The registries are asked whether a rule was revoked or taken back since; with \
        `--offline` they are not.",
    after_help = "\
Examples:
  delegate-doctor rules verify
  delegate-doctor rules verify --strict     Registries that cannot be asked are a failure

The exit code is 2 when a rule must not be used."
)]
pub(super) struct Verify {
    /// Fail also when a registry cannot be asked or its metadata is too old
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    place: PlaceArguments,
}

pub(super) fn verify(arguments: &Verify, context: &Context) -> Result<Exit, Failure> {
    let (scope, mut registries) = arguments.place.open(context)?;
    let lock = Present::read(&scope)?.lock.unwrap_or_default();
    registries.recognise(&lock);
    let path = scope.folder.join(lockfile::FILE_NAME);
    let (mut text, mut bad) = (String::new(), 0);
    for locked in &lock.rules {
        let name = format!("{} {}", locked.name, locked.version);
        let mut told = match install::load(&mut registries, locked, &path) {
            Ok(_) => Ok("bytes and signatures are good".to_owned()),
            Err(error) => Err(error),
        };
        if told.is_ok() {
            match withdrawn(&mut registries, locked) {
                Ok(None) if locked.registry != BUNDLED => registries.warn_when_yanked(locked)?,
                Ok(None) => {}
                Ok(Some(why)) => {
                    told = Err(Error::Withdrawn {
                        rule: locked.name.to_string(),
                        version: locked.version.to_string(),
                        why,
                    });
                }
                Err(error) if arguments.strict => told = Err(error),
                Err(error) => {
                    context.printer.warning(&format!("Whether `{name}` was withdrawn is not known: {error}"));
                }
            }
        }
        // Writing to a string cannot fail.
        let _ = match told {
            Ok(told) => writeln!(text, "{} {name}  {told}", styled(style::GOOD, "✓")),
            Err(error) => {
                bad += 1;
                let hint =
                    error.hint().map(|hint| format!("\n  {}: {hint}", styled(style::HINT, "hint"))).unwrap_or_default();
                writeln!(text, "{} {name}  {error}{hint}", styled(style::ERROR, "✗"))
            }
        };
    }
    warn(context, &mut registries);
    if lock.rules.is_empty() {
        context
            .printer
            .note(&format!("No rule is installed {}; those that come with the tool are part of it", scope.told()));
    }
    Exit::of_write(context.printer.data(&text))?;
    Ok(if bad == 0 { Exit::Answered } else { Exit::Failed })
}

/// Why a rule must not be used any more, as the registry says today.
fn withdrawn(registries: &mut install::Registries, locked: &lockfile::LockedRule) -> Result<Option<String>, Error> {
    let view = registries.view(&locked.registry)?;
    // First, because a publisher that is gone or has let its role expire has no releases.
    if let Some(why) = view.chain().revoked(&locked.sha256) {
        return Ok(Some(format!("the maintainers have revoked it ({})", crate::registry::client::harmless(why))));
    }
    let releases = view.releases(&locked.name)?;
    let release = releases.into_iter().find(|release| release.version == locked.version);
    let yanked = release.as_ref().and_then(|release| release.yanked()).filter(|yanked| yanked.security);
    Ok(yanked
        .map(|yanked| format!("its publisher took it back ({})", crate::registry::client::harmless(&yanked.reason))))
}
