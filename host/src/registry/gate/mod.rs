//! The gate that a change to a registry passes before anybody merges it.
//!
//! In: the registry as it is merged, and the files that a change adds. Out: what is wrong, file by file. It
//! needs no secret and runs nothing of the change but components in the sandbox, so that it may judge what
//! strangers send. Keys are the merged ones: a change cannot bring the key that it is signed with, unless a root
//! or a top role that the merged keys have signed comes along and names it.
//!
//! ```text
//! a publisher's change   N+1.acme.json and targets/acme/…, nothing else     publisher.rs
//! the maintainers'       N+1 of root, targets, reviewed, reviewed.acme        maintainers.rs
//! a root that waits      staging/N+1.root.json, signed by a root key          staged.rs
//! snapshot, timestamp    nobody's; the publishing job writes them
//! ```

mod changes;
mod maintainers;
mod publisher;
mod staged;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp as Time};

pub use changes::{Change, Content, compare, overlay};

use super::layout;
use super::metadata::{Document, Envelope, Key, RoleKeys, Root, TargetFile, Targets};
use super::name::{self, Target};
use super::pack::Package;
use super::writer::{self, Repository};
use crate::files::sha256_hex;
use crate::sandbox::printable;

/// Something in a change that must not be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// below the registry
    pub file: String,
    /// what is wrong with it
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", printable(&self.file, 200), self.what)
    }
}

/// What the gate says.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// nothing here: it may be merged once somebody has looked at it
    pub findings: Vec<Finding>,
    /// the versions that it publishes, whole and checked
    pub packages: Vec<(String, Package)>,
    /// what it does, one line each
    pub does: Vec<String>,
}

/// Loads a component in the sandbox; the reason when it does not load.
pub type Load<'a> = &'a dyn Fn(&Package) -> Result<(), String>;

/// Judges a change to a merged registry. With `load`, components are compiled and asked what they are.
///
/// # Errors
/// When the merged registry itself cannot be read.
pub fn check(base: &Repository, changes: &[Change], load: Option<Load<'_>>) -> Result<Verdict, writer::Error> {
    let mut gate = Gate {
        base,
        load,
        changes: changes.iter().map(|change| (change.path.as_str(), change)).collect(),
        listed: BTreeSet::new(),
        refused: false,
        root: None,
        top: None,
        verdict: Verdict::default(),
    };
    gate.run()?;
    let mut verdict = gate.verdict;
    verdict.findings.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(verdict)
}

struct Gate<'a> {
    base: &'a Repository,
    load: Option<Load<'a>>,
    changes: BTreeMap<&'a str, &'a Change>,
    /// files below `targets/` that a document of the change lists
    listed: BTreeSet<String>,
    /// a document that could have listed files was refused as a whole
    refused: bool,
    /// a root of the change that is signed as it has to be
    root: Option<Root>,
    /// a top role of the change that is signed as it has to be
    top: Option<Targets>,
    verdict: Verdict,
}

/// A document of the change.
struct New<'a> {
    path: String,
    role: String,
    version: u64,
    bytes: &'a [u8],
}

impl<'a> Gate<'a> {
    fn run(&mut self) -> Result<(), writer::Error> {
        let mut documents: Vec<New<'a>> = Vec::new();
        let mut others: Vec<String> = Vec::new();
        for change in self.changes.values().copied().collect::<Vec<_>>() {
            let path = change.path.clone();
            let below = path.split('/').next().unwrap_or_default();
            let ours = below == layout::METADATA || below == layout::TARGETS;
            if below == writer::STAGING {
                self.staged(change)?;
                continue;
            }
            match &change.content {
                Content::Strange => self.say(&path, "it is no regular file"),
                Content::Large(found) => {
                    self.say(
                        &path,
                        format!("it has {found} bytes, and at most {} are allowed", layout::MOST_TARGET_BYTES),
                    );
                }
                _ if !ours => others.push(path),
                _ if path == layout::timestamp_path() => {
                    self.say(&path, "only the publishing job writes the timestamp");
                }
                Content::Removed => self.say(&path, "a published file is never removed"),
                Content::File(_) if change.was_there => self.say(&path, "a published file never changes"),
                Content::File(bytes) if below == layout::METADATA => match metadata_name(&path) {
                    Some((_, role)) if role == "snapshot" => {
                        self.say(&path, "only the publishing job writes a snapshot");
                    }
                    Some((_, role)) if role == layout::CATALOG => {
                        self.say(&path, "only the publishing job writes the catalogue");
                    }
                    Some((version, role)) => documents.push(New { path, role, version, bytes }),
                    None => self.say(&path, "it is no metadata file: VERSION.ROLE.json is expected"),
                },
                Content::File(_) => {}
            }
        }
        let is_publisher = |role: &str| !matches!(role, "root" | "targets") && !layout::is_of_reviewers(role);
        let publishers: BTreeSet<String> =
            documents.iter().map(|new| new.role.clone()).filter(|role| is_publisher(role)).collect();
        let maintained = documents.iter().any(|new| !is_publisher(&new.role));
        if let (Some(first), true) = (publishers.first(), publishers.len() > 1) {
            for new in documents.iter().filter(|new| is_publisher(&new.role) && new.role != *first) {
                let what = format!("a change is one publisher's, and this one has documents of `{first}` too");
                self.say(&new.path, what);
            }
        }
        if !publishers.is_empty() || !maintained {
            for path in others {
                self.say(&path, "it is no file of a publisher");
            }
        }
        // Who may sign comes before what is signed.
        documents.sort_by_key(|new| match new.role.as_str() {
            "root" => 0,
            "targets" => 1,
            _ => 2,
        });
        for new in &documents {
            match new.role.as_str() {
                "root" => self.root(new)?,
                "targets" => self.targets(new)?,
                role if layout::is_of_reviewers(role) => self.reviewed(new, &documents)?,
                _ => self.refused |= !self.publisher(new)?,
            }
        }
        let stray: Vec<String> = self
            .changes
            .values()
            .filter(|change| change.path.starts_with("targets/") && !self.listed.contains(&change.path))
            .filter(|change| matches!(change.content, Content::File(_)) && !change.was_there && !self.refused)
            .map(|change| change.path.clone())
            .collect();
        for path in stray {
            self.say(&path, "no document of this change lists it");
        }
        Ok(())
    }

    fn say(&mut self, file: &str, what: impl Into<String>) {
        self.verdict.findings.push(Finding { file: file.to_owned(), what: what.into() });
    }

    /// Size, version and spelling, which every document is held to.
    fn document<T: Document>(&mut self, new: &New<'_>, most: u64) -> Result<Option<Envelope<T>>, writer::Error> {
        let found = new.bytes.len() as u64;
        if found > most {
            self.say(&new.path, format!("it has {found} bytes, and at most {most} are allowed"));
            return Ok(None);
        }
        let expected = self.base.newest(&new.role)?.unwrap_or(0) + 1;
        if new.version != expected {
            self.say(&new.path, format!("it is version {}, and version {expected} comes next", new.version));
            return Ok(None);
        }
        let envelope = match Envelope::<T>::parse("it", new.bytes) {
            Ok(envelope) => envelope,
            Err(error) => {
                self.say(&new.path, error.to_string());
                return Ok(None);
            }
        };
        let version = envelope.signed.version();
        if version != new.version {
            self.say(&new.path, format!("it says it is version {version}"));
            return Ok(None);
        }
        Ok(Some(envelope))
    }

    /// A document must hold for a while, and not for ever.
    fn expiry(&mut self, path: &str, expires: Time, most_days: i64) {
        let left = expires.duration_since(self.base.now);
        // A day of grace, because it was signed before it is judged.
        let (least, most) = (SignedDuration::from_hours(29 * 24), SignedDuration::from_hours((most_days + 1) * 24));
        if left < least || left > most {
            let days = left.as_hours().div_euclid(24);
            self.say(path, format!("it expires in {days} days, and 30 to {most_days} are expected"));
        }
    }

    /// Refuses a document that lacks signatures of merged keys.
    fn signed<T: Document>(&mut self, new: &New<'_>, envelope: &Envelope<T>) -> Result<bool, writer::Error> {
        let (signers, keys) = self.signers(&new.role)?;
        match envelope.verify("it", &signers, &keys) {
            Ok(()) => Ok(true),
            Err(_) => {
                let found = envelope.signers(&signers, &keys).unwrap_or(0);
                let (threshold, role) = (signers.threshold, &new.role);
                let what = format!("it has {found} of {threshold} signatures by the merged keys of `{role}`");
                self.say(&new.path, what);
                Ok(false)
            }
        }
    }

    /// Who signs a role once the change is merged, as far as the change has shown its right to say so.
    fn signers(&self, role: &str) -> Result<(RoleKeys, BTreeMap<String, Key>), writer::Error> {
        if role != "root"
            && let Some(root) = &self.root
            && let Some(signers) = root.roles.get(role)
        {
            return Ok((signers.clone(), root.keys.clone()));
        }
        let delegations = self.top.as_ref().and_then(|top| top.delegations.as_ref());
        if let Some(delegations) = delegations
            && let Some(found) = delegations.roles.iter().find(|delegated| delegated.name == role)
        {
            return Ok((found.role_keys(), delegations.keys.clone()));
        }
        self.base.signers(role)
    }

    /// The bytes of a file that a document lists: from the change, or from the registry.
    fn blob(&mut self, target: &Target, file: &TargetFile) -> Option<Vec<u8>> {
        let listed = target.to_string();
        let sha256 = &file.hashes.sha256;
        if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            self.say(&listed, "its SHA-256 is not 64 lower-case hex digits");
            return None;
        }
        let path = layout::target_path(target, sha256);
        self.listed.insert(path.clone());
        let bytes = match self.changes.get(path.as_str()).map(|change| &change.content) {
            Some(Content::File(bytes)) => Some(bytes.clone()),
            Some(_) => return None,
            None => {
                let there = self.base.folder().join(&path);
                crate::files::read_regular(&there, layout::MOST_TARGET_BYTES).ok()
            }
        };
        let Some(bytes) = bytes else {
            self.say(&listed, format!("its bytes are missing: `{path}` is not in the change"));
            return None;
        };
        let (found, length) = (sha256_hex(&bytes), bytes.len() as u64);
        if found != *sha256 {
            self.say(&path, format!("its SHA-256 is {found}"));
            return None;
        }
        if length != file.length {
            self.say(&path, format!("it has {length} bytes, and its document says {}", file.length));
            return None;
        }
        Some(bytes)
    }

    /// A role's document as it would be merged: of the change, else of the registry.
    fn merged(&self, role: &str, documents: &[New<'_>]) -> Result<Option<Targets>, writer::Error> {
        let new = documents.iter().find(|new| new.role == role);
        match new.and_then(|new| Envelope::<Targets>::parse("it", new.bytes).ok()) {
            Some(envelope) => Ok(Some(envelope.signed)),
            None => Ok(self.base.role(role)?.map(|envelope| envelope.signed)),
        }
    }
}

/// Version and role of `metadata/3.acme.json`.
fn metadata_name(path: &str) -> Option<(u64, String)> {
    let (version, role) = path.strip_prefix("metadata/")?.strip_suffix(".json")?.split_once('.')?;
    let number: u64 = version.parse().ok()?;
    let known = matches!(role, "root" | "targets" | "snapshot" | layout::CATALOG) || layout::is_of_reviewers(role);
    let plain = number.to_string() == version && (known || name::check_publisher(role).is_ok());
    plain.then(|| (number, role.to_owned()))
}
