//! What was installed, verified once more: the metadata that vouched for it then, and revocations heard of since.

use std::collections::BTreeMap;
use std::io;

use serde::de::DeserializeOwned;

use super::{Error, Registry, harmless};
use crate::files;
use crate::registry::floor;
use crate::registry::guard::Guard;
use crate::registry::layout::{self, REVIEWED};
use crate::registry::metadata::RuleRecord;
use crate::registry::name::TargetKind;
use crate::registry::store::{Record, Store};
use crate::registry::verify::{Chain, Problem, Refused, Review, Signed, Subject};

/// File with the hashes that the maintainers revoked, as far as they are known.
const REVOKED: &str = "revoked.json";
/// File with what publishers took back for security, by publisher: hashes and reasons, as far as they are known.
pub(super) const TAKEN_BACK: &str = "taken-back.json";

/// The same for what publishers took back for other reasons: it may be used, with a warning.
pub(super) const YANKED: &str = "yanked.json";

/// What publishers took back.
type TakenBack = BTreeMap<String, BTreeMap<String, String>>;

/// An installed component that was verified once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// the component
    pub bytes: Vec<u8>,
    /// what its publisher signed about it
    pub record: RuleRecord,
}

impl Registry {
    /// Checks again, at the time when it was installed, that a component was vouched for; gives its bytes. This
    /// is the only way by which bytes of an installed rule are handed out.
    ///
    /// # Errors
    /// When a file is missing or damaged, or the pinned root does not vouch for the component.
    pub fn replay(&self, store: &Store, record: &Record) -> Result<Replayed, Error> {
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
        for role in chain.review_roles(record.rule.publisher()) {
            let sha256 = if role == REVIEWED { &record.reviewed } else { &record.review };
            let sha256 = sha256.as_ref().ok_or_else(|| unproven("its record lacks the maintainers' review".to_owned()));
            chain.role(&role, &blob("review", sha256?)?, at)?;
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
        // Who installed it when it was taken back already insisted on it.
        let insisted = signed.record.as_ref().is_some_and(|record| record.yanked.is_some());
        let taken_back = self.taken_back()?;
        let why = taken_back.get(record.rule.publisher()).and_then(|hashes| hashes.get(&record.sha256));
        if let Some(why) = why.filter(|_| !insisted) {
            return Err(Error::TakenBack {
                rule: record.rule.to_string(),
                version: record.version.to_string(),
                why: harmless(why),
            });
        }
        let bytes = blob("component", &record.sha256)?;
        chain.check_bytes(&signed, &bytes)?;
        let record = signed.record.ok_or_else(|| unproven("its publisher says nothing about it".to_owned()))?;
        Ok(Replayed { bytes, record })
    }

    /// True when the maintainers revoked it, as far as was heard of it.
    fn is_known_as_revoked(&self, sha256: &str) -> Result<bool, Error> {
        Ok(self.remembered::<BTreeMap<String, String>>(REVOKED)?.contains_key(sha256))
    }

    /// Notes what the maintainers revoked, beside what was heard before; whoever calls it has the registry's lock.
    ///
    /// # Errors
    /// When what is noted is damaged, or it cannot be written.
    pub(super) fn note_revoked(&self, now: &BTreeMap<String, String>) -> Result<(), Error> {
        let Some(memory) = &self.memory else { return Ok(()) };
        if now.is_empty() {
            return Ok(());
        }
        let before: BTreeMap<String, String> = self.remembered(REVOKED)?;
        // A revocation is never withdrawn, and an older document does not know the newest.
        let mut all = before.clone();
        all.extend(now.iter().map(|(sha256, why)| (sha256.clone(), why.clone())));
        if all == before { Ok(()) } else { Ok(files::write_json(&memory.state.join(REVOKED), &all)?) }
    }

    /// What publishers took back for security, as far as was heard of it.
    fn taken_back(&self) -> Result<TakenBack, Error> {
        self.remembered(TAKEN_BACK)
    }

    /// Why its publisher took a component back, when that is not for security: it may still be used.
    ///
    /// # Errors
    /// When what is noted is damaged.
    pub fn yanked(&self, publisher: &str, sha256: &str) -> Result<Option<String>, Error> {
        let all: TakenBack = self.remembered(YANKED)?;
        Ok(all.get(publisher).and_then(|hashes| hashes.get(sha256)).map(|why| harmless(why)))
    }

    /// Notes what a publisher has taken back, in the file for its kind: hashes and reasons.
    ///
    /// # Errors
    /// When what is noted of others is damaged, or it cannot be written.
    pub(super) fn note_taken_back(
        &self,
        file: &str,
        publisher: &str,
        now: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let known = |all: &TakenBack| {
            now.iter().all(|(sha256, why)| all.get(publisher).and_then(|hashes| hashes.get(sha256)) == Some(why))
        };
        if known(&self.remembered(file)?) {
            return Ok(());
        }
        // Another process may note something meanwhile. What was taken back stays so, and an older document does
        // not know the newest.
        let _guard = Guard::wait(&memory.state)?;
        let mut all: TakenBack = self.remembered(file)?;
        all.entry(publisher.to_owned()).or_default().extend(now);
        Ok(files::write_json(&memory.state.join(file), &all)?)
    }

    /// A file of what was heard of this registry; nothing was heard when there is none.
    fn remembered<T: Default + DeserializeOwned>(&self, file: &str) -> Result<T, Error> {
        let Some(memory) = &self.memory else { return Ok(T::default()) };
        let path = memory.state.join(file);
        let bytes = match files::read_regular(&path, layout::MOST_ROLE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(error.into()),
        };
        let damaged = |error| floor::Error::Damaged {
            registry: self.name.clone(),
            path: path.clone(),
            why: format!("is damaged: {error}"),
        };
        Ok(serde_json::from_slice(&bytes).map_err(damaged)?)
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
