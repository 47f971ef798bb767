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

use std::path::Path;

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::layout;
use super::metadata::{EvidenceRecord, NumericsClass, RuleRecord};
use super::name::{self, RuleName, TargetKind};
use super::writer::NewTarget;
use crate::files::{self, sha256_hex};
use crate::hint::Hint;
use crate::sandbox::contract::{Manifest as OwnManifest, Numerics, Stability};
use crate::sandbox::{Inspection, inspect_tier, printable};

/// Version of the manifest's form.
const MANIFEST_VERSION: u32 = 1;
/// First line of every manifest.
const HEAD: &str = "# Written by `delegate-doctor rules pack`.\n";
/// Longest title, licence, source and word, in bytes.
const MOST_LINE: usize = 200;
/// Longest summary, in bytes.
const MOST_SUMMARY: usize = 2_000;
/// Kind of document that evidence is, and its version.
const EVIDENCE_SCHEMA: &str = "delegate-doctor/evidence";
const EVIDENCE_VERSION: u32 = 1;
/// Outcome of evidence that proves a rule.
const PROVEN: &str = "PROVEN";

/// Why something is no package.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the sandbox would refuse the component
    #[error("The component is no rule for this version: {0}")]
    Component(String),
    /// the component does not describe itself
    #[error("The component has no manifest; it was not built with this tool")]
    NoManifest,
    /// a text that does not belong in a registry
    #[error("The {field} of the rule {why}")]
    Text {
        /// which
        field: &'static str,
        /// what is wrong
        why: String,
    },
    /// a name or version that is not of the grammar
    #[error(transparent)]
    Name(#[from] name::Error),
    /// no evidence
    #[error("The rule {rule} has no evidence: `{path}` is not there")]
    NoEvidence {
        /// id and version
        rule: String,
        /// where it was looked for
        path: String,
    },
    /// not an evidence bundle
    #[error("The evidence of {rule} cannot be understood: {why}")]
    NotEvidence {
        /// id and version
        rule: String,
        /// why
        why: String,
    },
    /// evidence about something else
    #[error("The evidence is about other bytes than {rule}: it has SHA-256 {found}, and the component {expected}")]
    Stale {
        /// id and version
        rule: String,
        /// of the evidence
        found: String,
        /// of the component
        expected: String,
    },
    /// evidence against the rule
    #[error("The evidence does not prove {rule}: {why}")]
    NotProven {
        /// id and version
        rule: String,
        /// its outcome
        why: String,
    },
    /// the manifest is another one
    #[error(
        "The manifest is not the one of the component: line {line} is `{found}`, and `{expected}` follows from the component and its evidence"
    )]
    Manifest {
        /// first line that differs, from 1
        line: usize,
        /// there
        found: String,
        /// should be
        expected: String,
    },
    /// the manifest is not TOML of its form
    #[error("The manifest cannot be understood: {0}")]
    NotManifest(String),
    /// more bytes than a client takes
    #[error("The {what} has {found} bytes, and clients take at most {most}")]
    Large {
        /// component, manifest or evidence
        what: &'static str,
        /// its bytes
        found: usize,
        /// limit
        most: u64,
    },
    /// a folder without a package
    #[error("There is no package in `{folder}`: {why}")]
    NoPackage {
        /// where
        folder: String,
        /// what is missing or too much
        why: String,
    },
    /// file trouble
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoManifest => "Build it with `delegate-doctor rules build`".to_owned(),
            Self::NoEvidence { .. } => {
                "Gather it with `delegate-doctor rules validate RULE --models MODEL…`, or name it with `--evidence`"
                    .to_owned()
            }
            Self::Stale { .. } => "Run `delegate-doctor rules validate` on the rule as it is now".to_owned(),
            Self::NotProven { .. } => {
                "Only rules that are accepted on a model, and wrong on none, are published".to_owned()
            }
            Self::Text { .. } => "Mend `rule.toml`, or the manifest in the rule's source".to_owned(),
            Self::NoPackage { .. } | Self::Manifest { .. } | Self::NotManifest(_) => {
                "Make one with `delegate-doctor rules pack`".to_owned()
            }
            Self::Name(error) => return error.hint(),
            Self::Io(error) => return error.hint(),
            _ => return None,
        })
    }
}

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
    fn of(bytes: &[u8]) -> Self {
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

/// What is read of an evidence bundle.
#[derive(Deserialize)]
struct Evidence {
    schema: String,
    version: u32,
    rule: EvidenceRule,
    outcome: String,
    models: Vec<EvidenceModel>,
}

#[derive(Deserialize)]
struct EvidenceRule {
    id: String,
    version: String,
    sha256: String,
}

#[derive(Deserialize)]
struct EvidenceModel {
    name: String,
    setting: Option<EvidenceSetting>,
    trials: Vec<EvidenceTrial>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct EvidenceSetting {
    target: EvidenceTarget,
    #[serde(default)]
    cpu: String,
}

#[derive(Deserialize)]
struct EvidenceTarget {
    kind: String,
    architecture: String,
}

#[derive(Deserialize)]
struct EvidenceTrial {
    outcome: String,
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
        let manifest_bytes = spelled(&manifest)?.into_bytes();
        Ok(Self { manifest, component, manifest_bytes, evidence })
    }

    /// Three files that claim to be a package, as they are published.
    ///
    /// # Errors
    /// As [`Package::pack`], and when the manifest is not the one that follows.
    pub fn of(component: Vec<u8>, manifest_bytes: Vec<u8>, evidence: Vec<u8>) -> Result<Self, Error> {
        let large = |what, found, most| Err(Error::Large { what, found, most });
        if manifest_bytes.len() > 64 << 10 {
            return large("manifest", manifest_bytes.len(), 64 << 10);
        }
        let text = std::str::from_utf8(&manifest_bytes).map_err(|error| Error::NotManifest(error.to_string()))?;
        let claimed: Manifest = toml::from_str(text).map_err(|error| Error::NotManifest(error.message().to_owned()))?;
        if claimed.manifest != MANIFEST_VERSION {
            let why = format!("it has version {}, and {MANIFEST_VERSION} is understood", claimed.manifest);
            return Err(Error::NotManifest(why));
        }
        let words = Words {
            name: claimed.name.clone(),
            license: claimed.license.clone(),
            source: claimed.source.clone(),
            keywords: claimed.keywords.clone(),
        };
        let package = Self::pack(component, &words, evidence)?;
        if package.manifest_bytes != manifest_bytes {
            let expected = std::str::from_utf8(&package.manifest_bytes).unwrap_or_default();
            return Err(difference(text, expected));
        }
        Ok(package)
    }

    /// `softmax-layout 1.0.0`.
    pub fn label(&self) -> String {
        format!("{} {}", self.manifest.name, self.manifest.version)
    }

    /// What a publisher's role says about the component.
    pub fn record(&self) -> RuleRecord {
        let manifest = &self.manifest;
        RuleRecord {
            contract: manifest.contract.clone(),
            evidence: EvidenceRecord {
                devices: manifest.evidence.devices.clone(),
                models: manifest.evidence.models.clone(),
            },
            license: manifest.license.clone(),
            manifest: sha256_hex(&self.manifest_bytes),
            numerics: manifest.numerics,
            rule: manifest.id.clone(),
            size: manifest.component.length,
            source: manifest.source.clone(),
            title: manifest.title.clone(),
            version: manifest.version.clone(),
            yanked: None,
        }
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

/// Reads an evidence file that a rule needs.
///
/// # Errors
/// When there is none.
pub fn read_evidence(path: &Path, rule: &str) -> Result<Vec<u8>, Error> {
    match files::read_regular(path, layout::MOST_TARGET_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::NoEvidence { rule: rule.to_owned(), path: path.display().to_string() })
        }
        read => Ok(read?),
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
    let evidence = proof(evidence, &own, component)?;
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

/// What the evidence says, when it proves these bytes.
fn proof(evidence: &[u8], own: &OwnManifest, component: &[u8]) -> Result<EvidenceFile, Error> {
    let rule = format!("{} {}", printable(&own.id, MOST_LINE), printable(&own.version, MOST_LINE));
    let not_evidence = |why: String| Error::NotEvidence { rule: rule.clone(), why };
    let not_proven = |why: String| Error::NotProven { rule: rule.clone(), why };
    let read: Evidence = serde_json::from_slice(evidence).map_err(|error| not_evidence(error.to_string()))?;
    if read.schema != EVIDENCE_SCHEMA || read.version != EVIDENCE_VERSION {
        let found = format!("{} {}", printable(&read.schema, MOST_LINE), read.version);
        return Err(not_evidence(format!("it is a {found}, and {EVIDENCE_SCHEMA} {EVIDENCE_VERSION} is expected")));
    }
    let expected = sha256_hex(component);
    if read.rule.sha256 != expected || read.rule.id != own.id || read.rule.version != own.version {
        return Err(Error::Stale { rule, found: printable(&read.rule.sha256, 64), expected });
    }
    if read.outcome != PROVEN {
        return Err(not_proven(format!("its outcome is {}", printable(&read.outcome, MOST_LINE))));
    }
    if let Some(model) = read.models.iter().find(|model| model.error.is_some()) {
        return Err(not_proven(format!("there is no answer for `{}`", printable(&model.name, MOST_LINE))));
    }
    let accepted = |model: &&EvidenceModel| model.trials.iter().any(|trial| trial.outcome == "ACCEPTED");
    let (mut models, mut devices) = (Vec::new(), Vec::new());
    for model in read.models.iter().filter(accepted) {
        let setting = model.setting.as_ref();
        let setting = setting.ok_or_else(|| not_proven(format!("`{}` names no device", printable(&model.name, 80))))?;
        line("evidence", &model.name, 1)?;
        let cpu = if setting.cpu.is_empty() { "unknown processor" } else { &setting.cpu };
        let emulated = if setting.target.kind == "qemu" { ", emulated" } else { "" };
        let device = format!("{cpu} ({}{emulated})", setting.target.architecture);
        line("evidence", &device, 1)?;
        models.push(model.name.clone());
        devices.push(device);
    }
    if models.is_empty() {
        return Err(not_proven("no model accepted it".to_owned()));
    }
    for list in [&mut models, &mut devices] {
        list.sort_unstable();
        list.dedup();
    }
    let FileRecord { sha256, length } = FileRecord::of(evidence);
    Ok(EvidenceFile { sha256, length, models, devices })
}

fn line(field: &'static str, value: &str, least: usize) -> Result<(), Error> {
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

fn spelled(manifest: &Manifest) -> Result<String, Error> {
    let body = toml::to_string(manifest).map_err(|error| Error::NotManifest(error.to_string()))?;
    Ok(format!("{HEAD}{body}"))
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

#[cfg(test)]
pub(super) mod tests;
