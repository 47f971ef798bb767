//! `rules search` and `rules info`: what registries offer.

use std::fmt::Write as _;

use serde::Serialize;

use super::changing::{NetworkArguments, registries, warn};
use super::{Context, Format};
use crate::hint::Hint as _;
use crate::output::{Exit, Failure, style, styled};
use crate::registry::catalog::Offer;
use crate::registry::client::{self, Release, View, harmless};
use crate::registry::install::Registries;
use crate::registry::key::fingerprint;
use crate::registry::name::Reference;
use crate::registry::store::Store;
use crate::registry::trust::BUNDLED;
use crate::registry::verify::Review;

/// Search rules in the registries
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Search rules in the registries.\n\n\
        Every word has to occur in the name, the title or the models that a rule was proven on. What was taken back, \
        revoked or not reviewed is not shown.",
    after_help = "\
Examples:
  delegate-doctor rules search                   Everything
  delegate-doctor rules search softmax
  delegate-doctor rules search pool --registry community --format json"
)]
pub(super) struct Search {
    /// Words to look for
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Only in this registry
    #[arg(long, value_name = "NAME")]
    registry: Option<String>,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    #[command(flatten)]
    network: NetworkArguments,
}

/// The JSON form; version 1.
#[derive(Serialize)]
struct Found {
    schema: &'static str,
    version: u32,
    rules: Vec<Row>,
}

/// The newest version of a rule that can be installed.
#[derive(Serialize)]
struct Row {
    registry: String,
    name: String,
    version: String,
    title: String,
    class: &'static str,
    license: String,
    contract: String,
    models: Vec<String>,
    devices: Vec<String>,
}

impl Row {
    fn of(registry: &str, release: &Release) -> Self {
        Self::offered(registry, &Offer::of(release.rule.clone(), release.version.clone(), &release.record))
    }

    fn offered(registry: &str, offer: &Offer) -> Self {
        let plain = |list: &[String]| list.iter().map(|text| harmless(text)).collect();
        Self {
            registry: registry.to_owned(),
            name: offer.name.to_string(),
            version: offer.version.to_string(),
            title: harmless(&offer.title),
            class: offer.numerics.name(),
            license: harmless(&offer.license),
            contract: offer.contract.to_string(),
            models: plain(&offer.evidence.models),
            devices: plain(&offer.evidence.devices),
        }
    }

    fn has(&self, words: &[String]) -> bool {
        let text = format!("{} {} {}", self.name, self.title, self.models.join(" ")).to_lowercase();
        words.iter().all(|word| text.contains(&word.to_lowercase()))
    }
}

pub(super) fn search(arguments: &Search, context: &Context) -> Result<Exit, Failure> {
    let mut registries = registries(context, arguments.network.offline)?;
    let names: Vec<String> = match &arguments.registry {
        Some(name) => vec![name.clone()],
        None => {
            let bundled = (!crate::registry::bundled_files().is_empty()).then(|| BUNDLED.to_owned());
            bundled.into_iter().chain(registries.trust.registries.iter().map(|known| known.name.clone())).collect()
        }
    };
    let (mut rows, mut failed) = (Vec::new(), 0);
    for name in &names {
        match rows_of(&mut registries, name, context) {
            Ok(found) => rows.extend(found.into_iter().filter(|row| row.has(&arguments.words))),
            // One registry that cannot be used hides none of the others.
            Err(error) if arguments.registry.is_none() => {
                failed += 1;
                context.printer.warning(&error.to_string());
                if let Some(hint) = error.hint() {
                    context.printer.hint(&hint);
                }
            }
            Err(error) => return Err(error.into()),
        }
        warn(context, &mut registries);
    }
    let written = match arguments.format {
        Format::Json => context.printer.json(&Found { schema: "delegate-doctor/rules-found", version: 1, rules: rows }),
        Format::Text => {
            if rows.is_empty() {
                context.printer.note("No rule was found");
            }
            let mut text = String::new();
            for row in &rows {
                let shown =
                    if row.registry == BUNDLED { row.name.clone() } else { format!("{}:{}", row.registry, row.name) };
                let name = styled(style::HEADING, format_args!("{shown} {}", row.version));
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{name}  {}\n  {}, {}", row.title, row.class, row.license);
            }
            context.printer.data(&text)
        }
    };
    Exit::of_write(written)?;
    Ok(if failed > 0 && failed == names.len() { Exit::Failed } else { Exit::Answered })
}

fn rows_of(
    registries: &mut Registries,
    name: &str,
    context: &Context,
) -> Result<Vec<Row>, crate::registry::install::Error> {
    let view = registries.view(name)?;
    if let Some(catalog) = view.catalog()? {
        return Ok(catalog.rules.iter().map(|offer| Row::offered(name, offer)).collect());
    }
    let mut rows: Vec<Row> = Vec::new();
    for publisher in view.publishers() {
        let releases = match view.of_publisher(&publisher.name) {
            Ok(releases) => releases,
            Err(error) => {
                // One publisher whose role is broken hides none of the others.
                context.printer.warning(&error.to_string());
                continue;
            }
        };
        let mut newest: Vec<&Release> = Vec::new();
        for release in releases.iter().rev() {
            let usable = view.exclusion(release, None, client::Policy::default()).is_none();
            if usable && !newest.iter().any(|other| other.rule == release.rule) {
                newest.push(release);
            }
        }
        newest.reverse();
        rows.extend(newest.into_iter().map(|release| Row::of(name, release)));
    }
    Ok(rows)
}

/// Show what a registry says about a rule
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor rules info dd-rules/softmax-layout
  delegate-doctor rules info community:acme/fix-boot@1.3.0 --format json")]
pub(super) struct Info {
    /// The rule
    #[arg(value_name = "RULE")]
    rule: Reference,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    #[command(flatten)]
    network: NetworkArguments,
}

/// The JSON form; version 1.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    version: u32,
    registry: String,
    name: String,
    /// fingerprints of the publisher's keys
    keys: Vec<String>,
    /// newest first
    versions: Vec<Version>,
}

/// A version.
#[derive(Serialize)]
struct Version {
    version: String,
    title: String,
    class: &'static str,
    license: String,
    source: String,
    contract: String,
    sha256: String,
    bytes: u64,
    reviewed: bool,
    /// why it should not be used any more
    withdrawn: Option<String>,
    models: Vec<String>,
    devices: Vec<String>,
    /// the evidence bundle is published with it
    evidence: bool,
}

pub(super) fn info(arguments: &Info, context: &Context) -> Result<Exit, Failure> {
    let mut registries = registries(context, arguments.network.offline)?;
    let reference = &arguments.rule;
    let registry = reference.registry.clone().unwrap_or_else(|| registries.default_registry().to_owned());
    let view = registries.view(&registry)?;
    let releases = match view.releases(&reference.rule) {
        Ok(releases) if !releases.is_empty() => releases,
        // The error of choosing has the suggestions.
        _ => vec![view.choose(
            &reference.rule,
            None,
            crate::registry::client::Policy { unreviewed: true, yanked: true },
        )?],
    };
    let store = registries.store();
    let (releases, doubts) = confirmed(registries.view(&registry)?, &store, releases, reference)?;
    registries.warnings.extend(doubts);
    let view = registries.view(&registry)?;
    let publisher = view.publisher(reference.rule.publisher())?;
    let keys = publisher.keys.iter().map(|key| fingerprint(key)).collect();
    let versions: Vec<Version> = releases
        .iter()
        .rev()
        .map(|release| {
            let row = Row::of(&registry, release);
            let revoked = view.chain().revoked(&release.component.sha256);
            let yanked = release.yanked().map(|yanked| format!("taken back: {}", harmless(&yanked.reason)));
            Version {
                version: row.version,
                title: row.title,
                class: row.class,
                license: row.license,
                source: harmless(&release.record.source),
                contract: row.contract,
                sha256: release.component.sha256.clone(),
                bytes: release.component.length,
                reviewed: release.component.review == Review::Reviewed && release.manifest.review == Review::Reviewed,
                withdrawn: revoked.map(|why| format!("revoked: {}", harmless(why))).or(yanked),
                models: row.models,
                devices: row.devices,
                evidence: release.evidence.is_some(),
            }
        })
        .collect();
    warn(context, &mut registries);
    if versions.is_empty() {
        return Err(Failure::new(format!("No version of `{}` is wanted by that range", reference.rule)));
    }
    let document = Document {
        schema: "delegate-doctor/rule-info",
        version: 1,
        registry,
        name: reference.rule.to_string(),
        keys,
        versions,
    };
    Exit::of_write(match arguments.format {
        Format::Json => context.printer.json(&document),
        Format::Text => context.printer.data(&text(&document)),
    })?;
    Ok(Exit::Answered)
}

/// The versions that say what their manifests say, and warnings about the others.
fn confirmed(
    view: &View,
    store: &Store,
    releases: Vec<Release>,
    reference: &Reference,
) -> Result<(Vec<Release>, Vec<String>), Failure> {
    let (mut shown, mut doubts) = (Vec::new(), Vec::new());
    let mut refusal = None;
    for release in releases {
        if reference.versions.as_ref().is_some_and(|wanted| !wanted.matches(&release.version)) {
            continue;
        }
        let name = format!("`{}` {}", release.rule, release.version);
        match view.confirm(store, &release) {
            Ok(()) => shown.push(release),
            Err(error @ client::Error::Refused(_)) => {
                doubts.push(format!("{name} is not shown. {error}"));
                refusal = Some(error);
            }
            Err(error) => {
                doubts.push(format!("What is told of {name} was not compared with its manifest: {error}"));
                shown.push(release);
            }
        }
    }
    match refusal {
        Some(error) if shown.is_empty() => Err(error.into()),
        _ => Ok((shown, doubts)),
    }
}

fn text(document: &Document) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}  from {}", styled(style::HEADING, &document.name), document.registry);
    let _ = writeln!(text, "  signed by {}", document.keys.join(", "));
    for version in &document.versions {
        let review = if version.reviewed { "reviewed" } else { "not reviewed" };
        let _ = writeln!(text, "{}  {}", styled(style::HEADING, &version.version), version.title);
        let _ = writeln!(text, "  {}, {review}, {}, contract {}", version.class, version.license, version.contract);
        if let Some(why) = &version.withdrawn {
            let _ = writeln!(text, "  {}", styled(style::ERROR, why));
        }
        if !version.source.is_empty() {
            let _ = writeln!(text, "  source    {}", version.source);
        }
        let list = |list: &[String]| if list.is_empty() { "nothing".to_owned() } else { list.join(", ") };
        let _ = writeln!(text, "  proven on {} ({})", list(&version.models), list(&version.devices));
        let _ = writeln!(text, "  sha256    {} ({} bytes)", version.sha256, version.bytes);
    }
    text
}
