//! A contributor's side: signing a package for a registry, taking a version back, and laying the files into a
//! registry once the gate has nothing against them.
//!
//! ```text
//! package ─► sign ─► a folder with N+1.acme.json and targets/acme/… ─► gate ─► the registry, or a branch of it
//! ```

use std::path::Path;

use fs_err as fs;

use super::gate::{self, Load, Verdict};
use super::key::SigningKey;
use super::layout;
use super::metadata::{Envelope, Targets, Yanked};
use super::name::{RuleName, TargetKind};
use super::pack::{self, Package};
use super::writer::{self, Repository};
use crate::files;
use crate::hint::Hint;
use crate::sandbox::printable;

/// Longest reason for a yank, in bytes.
const MOST_REASON: usize = 500;

/// Why something is not published.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the registry refuses
    #[error(transparent)]
    Registry(#[from] writer::Error),
    /// the package is none
    #[error(transparent)]
    Package(#[from] pack::Error),
    /// the gate refuses
    #[error("The registry `{registry}` does not take this change:{}", listed(.findings))]
    Gate {
        /// where
        registry: String,
        /// why, at least one
        findings: Vec<gate::Finding>,
    },
    /// nothing to publish
    #[error("There is nothing in `{0}` that the registry does not have")]
    Nothing(String),
    /// a reason that nobody could read
    #[error("A reason is one line of 1 to {MOST_REASON} bytes, without characters that cannot be seen")]
    Reason,
    /// file trouble
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

fn listed(findings: &[gate::Finding]) -> String {
    findings.iter().map(|finding| format!("\n  {finding}")).collect()
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Registry(error) => error.hint(),
            Self::Package(error) => error.hint(),
            Self::Io(error) => error.hint(),
            Self::Gate { .. } => Some(
                "Bring the registry folder up to date, mend what is named, and sign again with `delegate-doctor rules sign`"
                    .to_owned(),
            ),
            Self::Nothing(_) | Self::Reason => None,
        }
    }
}

/// Signs a package for a registry: writes the files that the registry lacks into `out`.
///
/// # Errors
/// When the publisher is not of the registry, a key is not the publisher's, or the version is there already.
pub fn sign(
    package: &Package,
    registry: &Repository,
    publisher: &str,
    keys: &[&SigningKey],
    out: &Path,
) -> Result<(), Error> {
    let targets = package.targets(publisher)?;
    if let Some(role) = registry.role(publisher)?
        && let Some(there) = targets.iter().find(|new| role.signed.targets.contains_key(&new.target.to_string()))
    {
        return Err(writer::Error::Published(there.target.to_string()).into());
    }
    Ok(registry.proposing(out).publish(publisher, &targets, keys)?)
}

/// Adds signatures to what [`sign`] wrote into a folder, for a publisher of whom several keys have to sign.
///
/// # Errors
/// When the folder holds no document of the publisher, or a key is not the publisher's.
pub fn countersign(proposal: &Path, registry: &Repository, publisher: &str, keys: &[&SigningKey]) -> Result<(), Error> {
    let version = registry.newest(publisher)?.unwrap_or(0) + 1;
    let path = layout::metadata_path(version, publisher);
    let bytes = files::read_regular(&proposal.join(&path), layout::MOST_ROLE_BYTES)?;
    let mut envelope: Envelope<Targets> = registry.parse(&format!("`{path}`"), &bytes)?;
    registry.allowed(publisher, keys)?;
    registry.sign_all(&mut envelope, keys)?;
    Ok(registry.proposing(proposal).write(&path, &registry.bytes(&envelope)?)?)
}

/// Takes a version back: writes the publisher's next document into `out`.
///
/// # Errors
/// When there is no such version, or the reason is none.
pub fn yank(
    rule: &RuleName,
    version: &semver::Version,
    yanked: &Yanked,
    registry: &Repository,
    keys: &[&SigningKey],
    out: &Path,
) -> Result<(), Error> {
    if yanked.reason.is_empty() || printable(&yanked.reason, MOST_REASON) != yanked.reason {
        return Err(Error::Reason);
    }
    let target = rule.target(version, TargetKind::Component);
    Ok(registry.proposing(out).change_record(&target, keys, |record| record.yanked = Some(yanked.clone()))?)
}

/// Lays signed files into a registry folder when the gate has nothing against them: files below `targets/`
/// first, then the documents that list them. Gives what the gate found it to do.
///
/// # Errors
/// When the gate refuses, with every reason.
pub fn lay_in(proposal: &Path, registry: &Repository, load: Option<Load<'_>>) -> Result<Verdict, Error> {
    let changes = gate::overlay(registry.folder(), proposal)?;
    if changes.is_empty() {
        return Err(Error::Nothing(proposal.display().to_string()));
    }
    let verdict = gate::check(registry, &changes, load)?;
    if !verdict.findings.is_empty() {
        let registry = registry.folder().display().to_string();
        return Err(Error::Gate { registry, findings: verdict.findings });
    }
    for first in [true, false] {
        for change in changes.iter().filter(|change| change.path.starts_with("targets/") == first) {
            if let gate::Content::File(bytes) = &change.content {
                let place = registry.folder().join(&change.path);
                if let Some(folder) = place.parent() {
                    fs::create_dir_all(folder)?;
                }
                files::write_atomic(&place, bytes)?;
            }
        }
    }
    Ok(verdict)
}
