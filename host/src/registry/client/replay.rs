//! What was installed, verified once more: the metadata that vouched for it then, and revocations heard of since.

use std::collections::BTreeMap;
use std::io;

use super::{Error, Registry};
use crate::files;
use crate::registry::floor;
use crate::registry::layout::{self, REVIEWED};
use crate::registry::name::TargetKind;
use crate::registry::store::{Record, Store};
use crate::registry::verify::{Chain, Problem, Refused, Review, Signed, Subject};

/// File with the hashes that the maintainers revoked, as far as they are known.
pub(super) const REVOKED: &str = "revoked.json";

impl Registry {
    /// Checks again, at the time when it was installed, that a component was vouched for; gives its bytes. This
    /// is the only way by which bytes of an installed rule are handed out.
    ///
    /// # Errors
    /// When a file is missing or damaged, or the pinned root does not vouch for the component.
    pub fn replay(&self, store: &Store, record: &Record) -> Result<Vec<u8>, Error> {
        let unproven =
            |why: String| Error::Unproven { rule: record.rule.to_string(), version: record.version.to_string(), why };
        let blob = |what: &str, sha256: &str| -> Result<Vec<u8>, Error> {
            store.get(sha256)?.ok_or_else(|| unproven(format!("its {what} is missing or damaged in the store")))
        };
        if record.registry != self.pin.id() {
            return Err(unproven(format!("it belongs to the registry {}, not to `{}`", record.registry, self.name)));
        }
        let mut roots = record.roots.iter();
        let first = roots.next().filter(|first| **first == self.pin.sha256);
        let first = first.ok_or_else(|| unproven("its roots do not begin with the pinned one".to_owned()))?;
        let mut chain = Chain::begin(&self.name, &blob("root", first)?)?;
        for root in roots {
            chain.next_root(&blob("root", root)?)?;
        }
        let at = record.at;
        chain.check_root_expired(at)?;
        chain.timestamp(&blob("timestamp", &record.timestamp)?, at)?;
        chain.snapshot(&blob("snapshot", &record.snapshot)?, at)?;
        chain.targets(&blob("list of publishers", &record.targets)?, at)?;
        chain.role(record.rule.publisher(), &blob("publisher's role", &record.role)?, at)?;
        if let Some(reviewed) = &record.reviewed {
            chain.role(REVIEWED, &blob("review", reviewed)?, at)?;
        } else if chain.is_reviewed() {
            return Err(unproven("its record lacks the maintainers' review".to_owned()));
        }
        let target = record.rule.target(&record.version, TargetKind::Component);
        let signed = chain.signed(&record.rule)?.into_iter().find(|signed| signed.target == target);
        let signed = signed.ok_or_else(|| chain.because(record.rule.publisher(), Problem::NoTarget))?;
        check_review(&chain, &signed, record.unreviewed)?;
        if signed.sha256 != record.sha256 {
            return Err(unproven("its record names another component than the one that was signed".to_owned()));
        }
        if self.is_known_as_revoked(&record.sha256)? {
            let because = chain.because("", Problem::Revoked);
            return Err(Refused { subject: Subject::Target(target.to_string()), ..because }.into());
        }
        let bytes = blob("component", &record.sha256)?;
        chain.check_bytes(&signed, &bytes)?;
        Ok(bytes)
    }

    /// True when the maintainers revoked it, as far as was heard of it.
    fn is_known_as_revoked(&self, sha256: &str) -> Result<bool, Error> {
        let Some(memory) = &self.memory else { return Ok(false) };
        let bytes = match files::read_regular(&memory.state.join(REVOKED), layout::MOST_ROLE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let revoked: BTreeMap<String, String> = serde_json::from_slice(&bytes).map_err(|error| {
            let path = memory.state.join(REVOKED);
            floor::Error::Damaged { registry: self.name.clone(), path, why: format!("is damaged: {error}") }
        })?;
        Ok(revoked.contains_key(sha256))
    }
}

pub(super) fn check_review(chain: &Chain, signed: &Signed, unreviewed: bool) -> Result<(), Refused> {
    let refused = |problem| {
        let because = chain.because("", problem);
        Refused { subject: Subject::Target(signed.target.to_string()), ..because }
    };
    match signed.review {
        Review::Reviewed => Ok(()),
        Review::Revoked => Err(refused(Problem::Revoked)),
        _ if unreviewed || !chain.is_reviewed() => Ok(()),
        Review::Missing => Err(refused(Problem::NotReviewed)),
        Review::Other => Err(refused(Problem::ReviewedOther)),
    }
}
