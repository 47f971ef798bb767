//! A rule as it is published: component, manifest and evidence that belong together.
//!
//! ```text
//! <folder>/
//!   1.0.0.wasm             the component
//!   1.0.0.toml             the manifest: what the component says about itself, and what packaging adds
//!   1.0.0.evidence.json    what `rules validate` found
//! ```
//!
//! The manifest's bytes follow from the component, the evidence and the few words of `rule.toml`; the same
//! input gives the same package. Whoever reads one checks all of it: [`Package::of`] is the only way to have
//! one, for the packer, the gate and the reviewer alike.

mod error;
mod evidence;
#[cfg(test)]
pub(super) mod tests;

use std::path::Path;

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::layout;
use super::metadata::{EvidenceRecord, NumericsClass, RuleRecord};
use super::name::{self, RuleName, TargetKind};
use super::writer::NewTarget;
use crate::files::{self, sha256_hex};
use crate::sandbox::contract::{Manifest as OwnManifest, Numerics, Stability};
use crate::sandbox::{Inspection, inspect_tier, printable};

pub use error::Error;
pub use evidence::read_evidence;

/// Version of the manifest's form.
const MANIFEST_VERSION: u32 = 1;
/// First line of every manifest.
const HEAD: &str = "# Written by `delegate-doctor rules pack`.\n";
/// Longest title, licence, source and word, in bytes.
const MOST_LINE: usize = 200;
/// Largest manifest, in bytes.
const MOST_MANIFEST: u64 = 64 << 10;
/// Longest summary, in bytes.
const MOST_SUMMARY: usize = 2_000;

/// What packaging adds to what a component says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// name of the rule within its publisher
    pub name: String,
    /// SPDX expression
    pub license: String,
    /// where its source is, or empty
    pub source: String,
    /// to find it by
    pub keywords: Vec<String>,
}

/// The manifest: a file of its own for every version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Manifest {
    /// version of this form
    pub manifest: u32,
    /// within its publisher
    pub name: String,
    /// id, which reports show
    pub id: String,
    /// of the rule
    pub version: semver::Version,
    /// version of the rule contract
    pub contract: semver::Version,
    /// what it does, in a line
    pub title: String,
    /// what it does, in a few sentences
    pub summary: String,
    /// what it claims about numbers
    pub numerics: NumericsClass,
    /// largest relative error that it claims, when it is not exact
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_tolerance: Option<f64>,
    /// largest absolute error that it claims, when it is not exact
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absolute_tolerance: Option<f64>,
    /// `stable` or `preview`
    pub stability: String,
    /// `compiled` or `script`
    pub tier: String,
    /// what it was built with
    pub sdk: String,
    /// SPDX expression
    pub license: String,
    /// where its source is, or empty
    pub source: String,
    /// to find it by
    pub keywords: Vec<String>,
    /// operators that it looks at
    pub ops: Vec<String>,
    /// backends it is for; empty: any
    pub backends: Vec<String>,
    /// the component
    pub component: FileRecord,
    /// the evidence
    pub evidence: EvidenceFile,
}

impl Manifest {
    /// Reads a manifest's file.
    ///
    /// # Errors
    /// When it is too large, no TOML of this form, or of another version.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() as u64 > MOST_MANIFEST {
            return Err(Error::Large { what: "manifest", found: bytes.len(), most: MOST_MANIFEST });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| Error::NotManifest(error.to_string()))?;
        let manifest: Self = toml::from_str(text).map_err(|error| Error::NotManifest(error.message().to_owned()))?;
        if manifest.manifest != MANIFEST_VERSION {
            let why = format!("it has version {}, and {MANIFEST_VERSION} is understood", manifest.manifest);
            return Err(Error::NotManifest(why));
        }
        Ok(manifest)
    }

    /// The manifest's file.
    ///
    /// # Errors
    /// When a field cannot be written as TOML.
    pub fn spelled(&self) -> Result<String, Error> {
        let body = toml::to_string(self).map_err(|error| Error::NotManifest(error.to_string()))?;
        Ok(format!("{HEAD}{body}"))
    }

    /// What a publisher's role says about the component, with the SHA-256 of the manifest's file.
    pub fn record(&self, sha256: String) -> RuleRecord {
        RuleRecord {
            contract: self.contract.clone(),
            evidence: EvidenceRecord { devices: self.evidence.devices.clone(), models: self.evidence.models.clone() },
            license: self.license.clone(),
            manifest: sha256,
            numerics: self.numerics,
            rule: self.id.clone(),
            size: self.component.length,
            source: self.source.clone(),
            title: self.title.clone(),
            version: self.version.clone(),
            yanked: None,
        }
    }
}

/// A file by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// lower-case hex
    pub sha256: String,
    /// in bytes
    pub length: u64,
}

impl FileRecord {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { sha256: sha256_hex(bytes), length: bytes.len() as u64 }
    }
}

/// The evidence by its content, and what it comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceFile {
    /// lower-case hex
    pub sha256: String,
    /// in bytes
    pub length: u64,
    /// models on which it was accepted
    pub models: Vec<String>,
    /// where it ran
    pub devices: Vec<String>,
}

/// A checked package.
#[derive(Clone, Debug)]
pub struct Package {
    /// what it is
    pub manifest: Manifest,
    /// the component
    pub component: Vec<u8>,
    /// the manifest's file
    pub manifest_bytes: Vec<u8>,
    /// the evidence's file
    pub evidence: Vec<u8>,
}

impl Package {
    /// Packs a component that was proven.
    ///
    /// # Errors
    /// When it is no rule, or the evidence is about other bytes or does not prove it.
    pub fn pack(component: Vec<u8>, words: &Words, evidence: Vec<u8>) -> Result<Self, Error> {
        let manifest = manifest(&component, words, &evidence)?;
        let manifest_bytes = manifest.spelled()?.into_bytes();
        Ok(Self { manifest, component, manifest_bytes, evidence })
    }

    /// Three files that claim to be a package, as they are published.
    ///
    /// # Errors
    /// As [`Package::pack`], and when the manifest is not the one that follows.
    pub fn of(component: Vec<u8>, manifest_bytes: Vec<u8>, evidence: Vec<u8>) -> Result<Self, Error> {
        let claimed = Manifest::parse(&manifest_bytes)?;
        let words = Words {
            name: claimed.name.clone(),
            license: claimed.license.clone(),
            source: claimed.source.clone(),
            keywords: claimed.keywords.clone(),
        };
        let package = Self::pack(component, &words, evidence)?;
        if package.manifest_bytes != manifest_bytes {
            let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
            return Err(difference(text(&manifest_bytes), text(&package.manifest_bytes)));
        }
        Ok(package)
    }

    /// `softmax-layout 1.0.0`.
    pub fn label(&self) -> String {
        format!("{} {}", self.manifest.name, self.manifest.version)
    }

    /// What a publisher's role says about the component.
    pub fn record(&self) -> RuleRecord {
        self.manifest.record(sha256_hex(&self.manifest_bytes))
    }

    /// The files as a publisher lists them.
    ///
    /// # Errors
    /// When the publisher's name is none.
    pub fn targets(&self, publisher: &str) -> Result<Vec<NewTarget>, Error> {
        let name = RuleName::new(publisher, &self.manifest.name)?;
        let target = |kind| name.target(&self.manifest.version, kind);
        Ok(vec![
            NewTarget {
                target: target(TargetKind::Component),
                bytes: self.component.clone(),
                record: Some(self.record()),
            },
            NewTarget { target: target(TargetKind::Manifest), bytes: self.manifest_bytes.clone(), record: None },
            NewTarget { target: target(TargetKind::Evidence), bytes: self.evidence.clone(), record: None },
        ])
    }

    /// Writes the three files into a folder, which is made when it is not there.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder)?;
        let version = &self.manifest.version;
        for (kind, bytes) in [
            (TargetKind::Component, &self.component),
            (TargetKind::Manifest, &self.manifest_bytes),
            (TargetKind::Evidence, &self.evidence),
        ] {
            files::write_atomic(&folder.join(format!("{version}{}", kind.ending())), bytes)?;
        }
        Ok(())
    }

    /// Reads the package of a folder, which holds one version.
    ///
    /// # Errors
    /// When it holds none or several, or the files do not belong together.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let none = |why: String| Error::NoPackage { folder: folder.display().to_string(), why };
        let mut versions = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            versions.extend(name.to_str().and_then(|name| name.strip_suffix(".wasm")).map(str::to_owned));
        }
        let version = match versions.as_slice() {
            [version] => version,
            [] => return Err(none("it holds no component".to_owned())),
            several => return Err(none(format!("it holds {} versions", several.len()))),
        };
        name::version(version)?;
        let read = |kind: TargetKind| {
            files::read_regular(&folder.join(format!("{version}{}", kind.ending())), layout::MOST_TARGET_BYTES)
        };
        let package = Self::of(read(TargetKind::Component)?, read(TargetKind::Manifest)?, read(TargetKind::Evidence)?)?;
        if package.manifest.version.to_string() != *version {
            return Err(none(format!("`{version}.wasm` says it is version {}", package.manifest.version)));
        }
        Ok(package)
    }
}

fn manifest(component: &[u8], words: &Words, evidence: &[u8]) -> Result<Manifest, Error> {
    for (what, bytes) in [("component", component), ("evidence", evidence)] {
        if bytes.len() as u64 > layout::MOST_TARGET_BYTES {
            return Err(Error::Large { what, found: bytes.len(), most: layout::MOST_TARGET_BYTES });
        }
    }
    let (inspection, tier) = inspect_tier(component).map_err(|(_, reason)| Error::Component(reason))?;
    let Inspection { manifest: own, contract, sdk, .. } = inspection;
    let own: OwnManifest = own.ok_or(Error::NoManifest)?;
    name::check_rule(&words.name)?;
    let version = name::version(&own.version)?;
    line("id", &own.id, 1)?;
    line("title", &own.title, 1)?;
    line("licence", &words.license, 1)?;
    line("source", &words.source, 0)?;
    text("summary", &own.summary, 1, MOST_SUMMARY)?;
    for word in &words.keywords {
        line("list of keywords", word, 1)?;
    }
    if !words.source.is_empty() && !words.source.starts_with("https://") {
        return Err(Error::Text { field: "source", why: "is not an `https://` address".to_owned() });
    }
    let mut ops: Vec<String> = own.anchors.iter().flat_map(|anchor| &anchor.ops).cloned().collect();
    ops.sort_unstable();
    ops.dedup();
    for op in &ops {
        line("list of operators", op, 1)?;
    }
    for backend in &own.backends {
        line("list of backends", backend, 1)?;
    }
    let sdk = sdk.unwrap_or_default();
    line("SDK", &sdk, 0)?;
    let (numerics, tolerance) = match own.numerics {
        Numerics::Exact => (NumericsClass::Exact, None),
        Numerics::Tolerant(tolerance) => (NumericsClass::Tolerant, Some(tolerance)),
        Numerics::Corrective(tolerance) => (NumericsClass::Corrective, Some(tolerance)),
    };
    let evidence = evidence::proof(evidence, &own, component)?;
    Ok(Manifest {
        manifest: MANIFEST_VERSION,
        name: words.name.clone(),
        id: own.id,
        version,
        contract,
        title: own.title,
        summary: own.summary,
        numerics,
        relative_tolerance: tolerance.as_ref().map(|tolerance| tolerance.rtol),
        absolute_tolerance: tolerance.as_ref().map(|tolerance| tolerance.atol),
        stability: if own.stability == Stability::Stable { "stable" } else { "preview" }.to_owned(),
        tier: tier.name().to_owned(),
        sdk,
        license: words.license.clone(),
        source: words.source.clone(),
        keywords: words.keywords.clone(),
        ops,
        backends: own.backends,
        component: FileRecord::of(component),
        evidence,
    })
}

pub(super) fn line(field: &'static str, value: &str, least: usize) -> Result<(), Error> {
    text(field, value, least, MOST_LINE)
}

/// A text that people see must be what it looks like: no control or invisible characters, no blanks that
/// could be missed.
fn text(field: &'static str, value: &str, least: usize, most: usize) -> Result<(), Error> {
    let why = if value.len() < least {
        "is empty".to_owned()
    } else if value.len() > most {
        format!("has {} bytes, and at most {most} are allowed", value.len())
    } else if printable(value, most) != value {
        "has characters that cannot be seen, or blanks at an end or side by side".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Text { field, why })
}

/// The first line in which two texts differ.
fn difference(found: &str, expected: &str) -> Error {
    let mut lines = (found.lines(), expected.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (found, expected) = (lines.0.next(), lines.1.next());
        if found != expected || found.is_none() {
            let shown =
                |line: Option<&str>| line.map_or_else(|| "its end".to_owned(), |line| printable(line, MOST_LINE));
            return Error::Manifest { line: number, found: shown(found), expected: shown(expected) };
        }
    }
}
