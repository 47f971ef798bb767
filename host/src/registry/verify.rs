//! The chain of signatures from a pinned root to the bytes of a rule.
//!
//! ```text
//! root 1 ─► root 2 ─► … ─► timestamp ─► snapshot ─► targets ─► publisher ─► bytes
//!                                          ├────────► reviewed.acme ───────┤ (the same name, hash and length)
//!                                          └────────────► reviewed ─────────┘ (not revoked)
//! ```
//!
//! In: bytes from anywhere. Out: facts that the pinned root vouches for, or why not. This is the only file
//! that uses the library for TUF, and the only one that decides what is believed; it does not read or write
//! anything. Signatures are Ed25519, checked strictly. What a publisher's role says counts for targets of that
//! publisher only, whatever else it lists.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize as _;
use sigstore_tuf::{Delegations, Key, Root, TargetFile, TrustedMetadataSet};

use super::catalog::Catalog;
use super::layout::{self, REVIEWED};
use super::metadata::{RuleRecord, Yanked};
use super::name::{self, RuleName, Target};
use super::strict_json;
use crate::files::sha256_hex;

mod ed25519;
mod refused;

pub use refused::{Problem, Refused, Subject};

/// What a root says about one of its roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleFacts {
    /// ids of its keys, sorted
    pub keys: Vec<String>,
    /// signatures that it takes
    pub threshold: usize,
}

/// A publisher's authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// name, which is also the role's
    pub name: String,
    /// ids of the keys, sorted; each computed from the key itself
    pub keys: Vec<String>,
    /// signatures that it takes
    pub threshold: usize,
}

/// A target as its publisher signed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Signed {
    /// which
    pub target: Target,
    /// lower-case hex SHA-256
    pub sha256: String,
    /// bytes
    pub length: u64,
    /// what the publisher says about it, for a component
    pub record: Option<RuleRecord>,
    /// what the maintainers say about it
    pub review: Review,
}

/// What the maintainers say about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// countersigned: the same name, hash and length
    Reviewed,
    /// not countersigned
    Missing,
    /// countersigned with another hash or length
    Other,
    /// withdrawn
    Revoked,
}

/// How far the metadata of a registry was verified.
#[derive(Clone, Debug)]
pub struct Chain {
    registry: String,
    set: TrustedMetadataSet,
    /// hashes revoked by the maintainers, once `reviewed` was verified
    revoked: BTreeMap<String, String>,
}

impl Chain {
    /// Begins with a root that is trusted because it is pinned; it must be signed by its own keys.
    ///
    /// # Errors
    /// When it is no root, or its own signatures do not suffice.
    pub fn begin(registry: &str, root: &[u8]) -> Result<Self, Refused> {
        ed25519::install();
        let refused =
            |problem| Refused { registry: registry.to_owned(), subject: Subject::Role("root".into()), problem };
        plain(root).map_err(refused)?;
        let set = TrustedMetadataSet::from_root(root).map_err(|error| refused(problem(error)))?;
        let chain = Self { registry: registry.to_owned(), set, revoked: BTreeMap::new() };
        chain.check_root()?;
        Ok(chain)
    }

    /// Goes on to the next root, which the present and the next keys must have signed.
    ///
    /// # Errors
    /// When it is not the next one, or signatures are missing.
    pub fn next_root(&mut self, root: &[u8]) -> Result<(), Refused> {
        let version = self.root_version() + 1;
        let refused = |problem| Refused { registry: self.registry.clone(), subject: Subject::Root(version), problem };
        plain(root).map_err(refused)?;
        self.set.update_root(root).map_err(|error| refused(problem(error)))?;
        self.check_root()
    }

    /// What the library takes and this registry does not.
    fn check_root(&self) -> Result<(), Refused> {
        let root = self.set.root();
        let refused =
            |problem| Refused { registry: self.registry.clone(), subject: Subject::Root(root.version), problem };
        if !root.consistent_snapshot {
            return Err(refused(Problem::NotConsistent));
        }
        once(root.keys.values()).map_err(refused)
    }

    /// Version of the root.
    pub fn root_version(&self) -> u64 {
        self.set.root().version
    }

    /// SHA-256 of the root's bytes, lower-case hex.
    pub fn root_sha256(&self) -> String {
        sha256_hex(self.set.root_bytes())
    }

    /// Bytes of the root.
    pub fn root_bytes(&self) -> &[u8] {
        self.set.root_bytes()
    }

    /// When the root expires.
    pub fn root_expires(&self) -> Timestamp {
        ours(self.set.root().expires)
    }

    /// Keys and threshold of a role of the root.
    pub fn root_role(&self, role: &str) -> RoleFacts {
        let root: &Root = self.set.root();
        let keys = root.role(role).map(|role| role.keyids.clone()).unwrap_or_default();
        let threshold = root.role(role).map_or(0, |role| role.threshold);
        RoleFacts { keys: ids(&keys, &root.keys), threshold }
    }

    /// Checks that the root has not expired.
    ///
    /// # Errors
    /// When it has.
    pub fn check_root_expired(&self, now: Timestamp) -> Result<(), Refused> {
        self.set.check_root_expired(theirs(now)).map_err(|error| self.refused("root", error))
    }

    /// Takes the timestamp. One with the version of the timestamp that was taken before changes nothing: the
    /// first one stays.
    ///
    /// # Errors
    /// When it is not signed by the root's keys, older than the one before, or expired.
    pub fn timestamp(&mut self, bytes: &[u8], now: Timestamp) -> Result<Stamp, Refused> {
        self.plain("timestamp", bytes)?;
        match self.set.update_timestamp(bytes, theirs(now)) {
            Ok(()) | Err(sigstore_tuf::Error::EqualVersion { .. }) => {}
            Err(error) => return Err(self.refused("timestamp", error)),
        }
        self.set.check_timestamp_expired(theirs(now)).map_err(|error| self.refused("timestamp", error))?;
        let stamp = self.set.timestamp().and_then(|stamp| {
            let snapshot = stamp.snapshot_meta()?;
            Some(Stamp { version: stamp.version, snapshot: snapshot.version, expires: ours(stamp.expires) })
        });
        let unreadable = || Problem::Unreadable("it does not pin a snapshot".to_owned());
        stamp.ok_or_else(|| self.because("timestamp", unreadable()))
    }

    /// Takes the snapshot that the timestamp names.
    ///
    /// # Errors
    /// When it is another one, not signed by the root's keys, or expired.
    pub fn snapshot(&mut self, bytes: &[u8], now: Timestamp) -> Result<(), Refused> {
        self.plain("snapshot", bytes)?;
        self.set.update_snapshot(bytes, theirs(now)).map_err(|error| self.refused("snapshot", error))
    }

    /// Version of every role that the snapshot lists, by the role's name.
    pub fn listed(&self) -> BTreeMap<String, u64> {
        let snapshot = self.set.snapshot();
        let files = snapshot.into_iter().flat_map(|snapshot| &snapshot.meta);
        files.filter_map(|(file, meta)| Some((file.strip_suffix(".json")?.to_owned(), meta.version))).collect()
    }

    /// Version of a role, when the snapshot lists it.
    pub fn listed_version(&self, role: &str) -> Option<u64> {
        self.set.snapshot()?.meta.get(&format!("{role}.json")).map(|file| file.version)
    }

    /// Takes the delegations.
    ///
    /// # Errors
    /// When they are not the ones that the snapshot names, not signed by the root's keys, or expired.
    pub fn targets(&mut self, bytes: &[u8], now: Timestamp) -> Result<(), Refused> {
        self.plain("targets", bytes)?;
        let taken = self.set.update_targets(bytes, theirs(now)).map(|_| ());
        taken.map_err(|error| self.refused("targets", error))?;
        if let Some(delegations) = self.delegations() {
            each_once(delegations).map_err(|problem| self.because("targets", problem))?;
        }
        Ok(())
    }

    fn delegations(&self) -> Option<&Delegations> {
        self.set.targets_role("targets").and_then(|targets| targets.delegations.as_ref())
    }

    /// Everybody who may publish, sorted by name. Delegations that are no publisher's are not among them.
    pub fn publishers(&self) -> Vec<Publisher> {
        let Some(delegations) = self.delegations() else { return Vec::new() };
        let mut publishers: Vec<Publisher> = delegations
            .roles
            .iter()
            .filter(|role| name::check_publisher(&role.name).is_ok())
            .map(|role| Publisher {
                name: role.name.clone(),
                keys: ids(&role.keyids, &delegations.keys),
                threshold: role.threshold,
            })
            .collect();
        publishers.sort_by(|a, b| a.name.cmp(&b.name));
        publishers.dedup_by(|a, b| a.name == b.name);
        publishers
    }

    /// Takes a publisher's role, or one of the reviewers'.
    ///
    /// # Errors
    /// When nothing is delegated to it, it is not the one that the snapshot names, it is not signed by the keys
    /// of its delegation, or expired.
    pub fn role(&mut self, role: &str, bytes: &[u8], now: Timestamp) -> Result<(), Refused> {
        self.plain(role, bytes)?;
        let taken = self.set.update_delegated_targets(bytes, role, "targets", theirs(now)).map(|_| ());
        taken.map_err(|error| self.refused(role, error))?;
        if role == REVIEWED {
            self.revoked = self.set.targets_role(REVIEWED).map(revoked).unwrap_or_default();
        }
        Ok(())
    }

    /// True when the role was taken.
    pub fn has_role(&self, role: &str) -> bool {
        self.set.targets_role(role).is_some()
    }

    /// True when the registry has reviewers.
    pub fn is_reviewed(&self) -> bool {
        self.delegations()
            .is_some_and(|delegations| delegations.roles.iter().any(|role| layout::is_of_reviewers(&role.name)))
    }

    /// The roles of the reviewers without which nothing is said about a publisher's files: the one that revokes,
    /// and the one that countersigns them, when there is one. Empty when the registry has no reviewers.
    pub fn review_roles(&self, publisher: &str) -> Vec<String> {
        if !self.is_reviewed() {
            return Vec::new();
        }
        let review = layout::review_role(publisher);
        let delegated = self.delegations().is_some_and(|all| all.roles.iter().any(|role| role.name == review));
        // Nobody has countersigned anything of a publisher whose review the snapshot does not list.
        let listed = self.listed_version(&review).is_some();
        std::iter::once(REVIEWED.to_owned()).chain((delegated && listed).then_some(review)).collect()
    }

    /// Checks that the files of `rule` are the publisher's to sign, and nobody else's before it.
    ///
    /// # Errors
    /// When there is no such publisher, or another role comes first.
    pub fn check_delegated(&self, rule: &RuleName) -> Result<(), Refused> {
        let publisher = rule.publisher();
        let target = format!("{rule}/0.0.0.wasm");
        for role in self.delegations().map(|delegations| delegations.roles.as_slice()).unwrap_or_default() {
            // A pattern that cannot be read covers nothing.
            if role.matches_path(&target).unwrap_or(false) {
                if role.name == publisher {
                    return Ok(());
                }
                if !layout::is_of_reviewers(&role.name) {
                    return Err(self.because(publisher, Problem::OtherRole(role.name.clone())));
                }
            }
        }
        Err(self.because(publisher, Problem::NoPublisher))
    }

    /// Every target of a rule that its publisher signed, as far as it is of the grammar, in the order of names.
    ///
    /// # Errors
    /// When the publisher's role or, where there are reviewers, one of [`Chain::review_roles`] was not taken.
    pub fn signed(&self, rule: &RuleName) -> Result<Vec<Signed>, Refused> {
        self.check_delegated(rule)?;
        self.signed_where(rule.publisher(), |target| target.rule == *rule)
    }

    /// Every target of a publisher, as [`Chain::signed`].
    ///
    /// # Errors
    /// As [`Chain::signed`].
    pub fn all_signed(&self, publisher: &str) -> Result<Vec<Signed>, Refused> {
        self.signed_where(publisher, |_| true)
    }

    fn signed_where(&self, publisher: &str, wanted: impl Fn(&Target) -> bool) -> Result<Vec<Signed>, Refused> {
        let not_loaded = |role: &str| self.because(role, Problem::NotListed);
        let role = self.set.targets_role(publisher).ok_or_else(|| not_loaded(publisher))?;
        if let Some(missing) = self.review_roles(publisher).iter().find(|role| !self.has_role(role)) {
            return Err(not_loaded(missing));
        }
        let reviewed = self.set.targets_role(&layout::review_role(publisher));
        let files = role.targets.iter().filter_map(|(path, file)| {
            let target: Target = path.parse().ok()?;
            (target.rule.publisher() == publisher && wanted(&target)).then_some((target, path, file))
        });
        files
            .map(|(target, path, file)| {
                let reviewed = reviewed.and_then(|role| role.targets.get(path));
                self.as_signed(target, path, file, reviewed)
            })
            .collect()
    }

    fn as_signed(
        &self,
        target: Target,
        path: &str,
        file: &TargetFile,
        reviewed: Option<&TargetFile>,
    ) -> Result<Signed, Refused> {
        let refused =
            |problem| Refused { registry: self.registry.clone(), subject: Subject::Target(path.to_owned()), problem };
        let sha256 = sha256_of(file).ok_or_else(|| refused(Problem::Unreadable("it has no SHA-256".to_owned())))?;
        if file.length > layout::MOST_TARGET_BYTES {
            return Err(refused(Problem::TooLarge { signed: file.length, most: layout::MOST_TARGET_BYTES }));
        }
        let review = match reviewed {
            _ if self.revoked.contains_key(&sha256) => Review::Revoked,
            None => Review::Missing,
            Some(other) if other.length == file.length && sha256_of(other).as_ref() == Some(&sha256) => {
                Review::Reviewed
            }
            Some(_) => Review::Other,
        };
        let record = file.custom.as_ref().and_then(|custom| custom.get("dd"));
        let record = record.and_then(|record| RuleRecord::deserialize(record).ok());
        Ok(Signed { target, sha256, length: file.length, record, review })
    }

    /// Takes the catalogue that the snapshot pins.
    ///
    /// # Errors
    /// When it is another one, or none.
    pub fn catalog(&self, bytes: &[u8]) -> Result<Catalog, Refused> {
        let refused = |problem| self.because(layout::CATALOG, problem);
        let file = format!("{}.json", layout::CATALOG);
        let pinned = self.set.snapshot().and_then(|snapshot| snapshot.meta.get(&file));
        let pinned = pinned.ok_or_else(|| refused(Problem::NotListed))?;
        let sha256 = pinned.hashes.as_ref().and_then(|hashes| hashes.get("sha256"));
        let sha256 = sha256.ok_or_else(|| refused(Problem::Unreadable("its SHA-256 is not pinned".to_owned())))?;
        if sha256_hex(bytes) != sha256.to_ascii_lowercase() {
            return Err(refused(Problem::Mismatch("its SHA-256 is not the one that is pinned".to_owned())));
        }
        Catalog::parse(bytes).map_err(|why| refused(Problem::Unreadable(why)))
    }

    /// What a publisher took back: hashes of components, with the reason, and true when it is for security. Empty when
    /// its role was not taken.
    pub fn taken_back(&self, publisher: &str) -> Vec<(String, Yanked)> {
        let role = self.set.targets_role(publisher);
        let files = role.into_iter().flat_map(|role| &role.targets);
        files
            .filter_map(|(path, file)| {
                let yanked = file.custom.as_ref()?.get("dd")?.get("yanked")?;
                let target: Target = path.parse().ok()?;
                (target.rule.publisher() == publisher).then_some(())?;
                Some((sha256_of(file)?, Yanked::deserialize(yanked).ok()?))
            })
            .collect()
    }

    /// Why the maintainers revoked the target with this hash, when they did.
    pub fn revoked(&self, sha256: &str) -> Option<&str> {
        self.revoked.get(sha256).map(String::as_str)
    }

    /// Every hash that the maintainers revoked, with the reason.
    pub fn all_revoked(&self) -> &BTreeMap<String, String> {
        &self.revoked
    }

    /// Checks the bytes of a target against what was signed for it.
    ///
    /// # Errors
    /// When length or hash differ.
    pub fn check_bytes(&self, signed: &Signed, bytes: &[u8]) -> Result<(), Refused> {
        check_bytes(&self.registry, signed, bytes)
    }

    /// When the first of the roles on the way to `role` expires.
    pub fn expires(&self, role: &str) -> Option<Timestamp> {
        self.set.targets_role(role).map(|role| ours(role.expires))
    }

    /// A refusal of a role of this registry.
    pub fn because(&self, role: &str, problem: Problem) -> Refused {
        Refused { registry: self.registry.clone(), subject: Subject::Role(role.to_owned()), problem }
    }

    fn plain(&self, role: &str, bytes: &[u8]) -> Result<(), Refused> {
        plain(bytes).map_err(|problem| self.because(role, problem))
    }

    fn refused(&self, role: &str, error: sigstore_tuf::Error) -> Refused {
        // What the snapshot says about another role is a fault of the snapshot.
        self.because(role, problem(error))
    }
}

/// What a timestamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// its version
    pub version: u64,
    /// version of the snapshot that it names
    pub snapshot: u64,
    /// when it expires
    pub expires: Timestamp,
}

/// Checks bytes against the length and hash that were signed for them.
///
/// # Errors
/// When they differ.
pub fn check_bytes(registry: &str, signed: &Signed, bytes: &[u8]) -> Result<(), Refused> {
    let refused = |problem| Refused {
        registry: registry.to_owned(),
        subject: Subject::Target(signed.target.to_string()),
        problem,
    };
    if bytes.len() as u64 != signed.length {
        return Err(refused(Problem::Length { found: bytes.len() as u64, signed: signed.length }));
    }
    if sha256_hex(bytes) != signed.sha256 {
        return Err(refused(Problem::Hash));
    }
    Ok(())
}

/// A time as the library has it; one that it cannot hold makes everything expired.
fn theirs(time: Timestamp) -> tuf_time::Timestamp {
    tuf_time::Timestamp::from_nanosecond(time.as_nanosecond()).unwrap_or(tuf_time::Timestamp::MAX)
}

/// A time of the library; one that cannot be held lies in the past.
fn ours(time: tuf_time::Timestamp) -> Timestamp {
    Timestamp::from_nanosecond(time.as_nanosecond()).unwrap_or(Timestamp::MIN)
}

fn plain(bytes: &[u8]) -> Result<(), Problem> {
    strict_json::check(bytes).map_err(|error| Problem::Unreadable(error.to_string()))
}

/// A key that is listed under two ids would count twice.
fn once<'a>(keys: impl Iterator<Item = &'a Key>) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    for key in keys {
        let id = key.key_id().map_err(problem)?;
        if !seen.insert(id.clone()) {
            return Err(Problem::DuplicateKey(id));
        }
    }
    Ok(())
}

/// The same for the keys of every role; each key is hashed once.
fn each_once(delegations: &Delegations) -> Result<(), Problem> {
    let mut own: BTreeMap<&str, String> = BTreeMap::new();
    for (listed, key) in &delegations.keys {
        own.insert(listed, key.key_id().map_err(problem)?);
    }
    for role in &delegations.roles {
        let mut seen = BTreeSet::new();
        if let Some(id) = role.keyids.iter().filter_map(|id| own.get(id.as_str())).find(|id| !seen.insert(*id)) {
            return Err(Problem::DuplicateKey(id.clone()));
        }
    }
    Ok(())
}

fn ids(listed: &[String], keys: &BTreeMap<String, Key>) -> Vec<String> {
    let mut ids: Vec<String> =
        listed.iter().filter_map(|id| keys.get(id)).filter_map(|key| key.key_id().ok()).collect();
    ids.sort();
    ids.dedup();
    ids
}

fn sha256_of(file: &TargetFile) -> Option<String> {
    let hash = file.hashes.get("sha256")?.to_ascii_lowercase();
    (hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
}

/// Hashes that `reviewed` withdraws, with the reason: `"x-dd-revoked": {"<sha256>": "reason"}`.
fn revoked(reviewed: &sigstore_tuf::Targets) -> BTreeMap<String, String> {
    let list = reviewed.extra.get("x-dd-revoked").and_then(|list| list.as_object());
    let reason = |reason: &serde_json::Value| reason.as_str().unwrap_or_default().to_owned();
    list.into_iter().flatten().map(|(hash, why)| (hash.to_ascii_lowercase(), reason(why))).collect()
}

/// The library's words as ours.
fn problem(error: sigstore_tuf::Error) -> Problem {
    use sigstore_tuf::Error;
    match error {
        Error::ThresholdNotMet { found, threshold, .. } => Problem::Threshold { found, needed: threshold },
        Error::DuplicateSignature { key_id, .. } => Problem::DuplicateKey(key_id),
        Error::Rollback { trusted, new, .. } => Problem::Rollback { seen: trusted, found: new },
        Error::EqualVersion { version, .. } => Problem::Equivocation(version),
        Error::BadRootVersion { trusted, new } => {
            Problem::RootVersion { needed: trusted.saturating_add(1), found: new }
        }
        Error::Expired { expires, .. } => Problem::Expired(ours(expires)),
        Error::IntegrityMismatch(why) => Problem::Mismatch(why),
        Error::UnknownRole(_) => Problem::NoPublisher,
        Error::Json(error) => Problem::Unreadable(error.to_string()),
        Error::Malformed(why) if why.starts_with("snapshot does not pin") => Problem::NotListed,
        Error::Malformed(why) => Problem::Unreadable(why),
        other => Problem::Unreadable(other.to_string()),
    }
}
