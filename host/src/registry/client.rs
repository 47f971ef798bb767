//! A registry as its user sees it: what is newest, what may be installed, and the bytes.
//!
//! ```text
//! refresh:  lock ─► roots from the pin ─► timestamp ─► floor ─► snapshot ─► floor ─► targets ─► floor raised
//! use:      publisher's role ─► `reviewed` ─► choose a version ─► bytes
//! replay:   the same from what a record names, at the time of the record
//! ```
//!
//! Metadata files are immutable but for the timestamp: they are taken from the cache when they are there and
//! verify, else got anew. Nothing in the cache is believed without its signatures.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fs_err as fs;
use jiff::Timestamp;

use super::floor::{self, Floor};
use super::guard::Guard;
use super::layout::{self, REVIEWED};
use super::metadata::{RuleRecord, Yanked};
use super::name::{self, RuleName, TargetKind};
use super::store::{Record, Store};
use super::transport::{self, Patience, Source};
use super::trust::{self, BUNDLED, Known, Pin, Trust};
use super::verify::{Chain, Problem, Publisher, Refused, Review, Signed, Stamp};
use crate::files::{self, sha256_hex};
use crate::hint::Hint;

/// File with the hashes that the maintainers revoked, as far as they are known.
const REVOKED: &str = "revoked.json";
/// Roots that are followed at once.
const MOST_ROOTS: u64 = 1024;
/// Time after which a file that a fresh timestamp names is asked for once more.
const PUBLISHING_PAUSE: Duration = Duration::from_secs(2);

/// Why a registry cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// something is not believed
    #[error(transparent)]
    Refused(#[from] Refused),
    /// a file cannot be had
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// what was seen before cannot be told
    #[error(transparent)]
    Floor(#[from] floor::Error),
    /// the user's registries
    #[error(transparent)]
    Trust(#[from] trust::Error),
    /// a name outside the grammar
    #[error(transparent)]
    Name(#[from] name::Error),
    /// nothing of this name
    #[error("The registry `{registry}` has no rule `{rule}`")]
    NoRule {
        /// which registry
        registry: String,
        /// as typed
        rule: RuleName,
        /// what may have been meant
        near: Vec<String>,
    },
    /// nothing of these versions
    #[error("No version of `{rule}` in the registry `{registry}` can be installed: {why}")]
    NoVersion {
        /// which registry
        registry: String,
        /// rule
        rule: RuleName,
        /// every version with the reason
        why: String,
        /// what may be done about it
        hint: Option<&'static str>,
    },
    /// a component that nothing vouches for
    #[error("`{rule}` {version} cannot be used: {why}")]
    Unproven {
        /// rule
        rule: String,
        /// version
        version: String,
        /// what is missing
        why: String,
    },
    /// the lock and the registry contradict each other
    #[error("The registry `{registry}` is older than the one that the lockfile was made with: {why}")]
    OlderThanLock {
        /// which registry
        registry: String,
        /// which role
        why: String,
    },
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(error) => error.hint(),
            Self::Transport(error) => error.hint(),
            Self::Floor(error) => error.hint(),
            Self::Trust(error) => error.hint(),
            Self::Name(error) => error.hint(),
            Self::NoRule { near, .. } if near.is_empty() => {
                Some("`delegate-doctor rules search` shows what there is".to_owned())
            }
            Self::NoRule { near, .. } => {
                let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
                Some(format!("Did you mean {}? Nothing is chosen for you", near.join(", ")))
            }
            Self::NoVersion { hint, .. } => hint.map(str::to_owned),
            Self::Unproven { .. } => Some("Install it again with `delegate-doctor rules install`".to_owned()),
            Self::OlderThanLock { .. } => {
                Some("Somebody serves an old registry, or the mirror lags behind; try another one".to_owned())
            }
            Self::Io(error) => error.hint(),
        }
    }
}

/// Folders that registries use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// `registries.toml`
    pub trust: PathBuf,
    /// what was seen of registries
    pub state: PathBuf,
    /// metadata, which can be got again
    pub cache: PathBuf,
    /// installed rules
    pub rules: PathBuf,
}

impl Places {
    /// The store of rules.
    pub fn store(&self) -> Store {
        Store::new(self.rules.clone())
    }

    /// Whom the user trusts.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub fn read_trust(&self) -> Result<Trust, trust::Error> {
        Trust::read(&self.trust)
    }
}

/// How registries are asked.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// no host is asked
    pub offline: bool,
    /// how long answers may take
    pub patience: Patience,
    /// pause before a file that should be there is asked for again
    pub pause: Duration,
}

impl Default for Manner {
    fn default() -> Self {
        Self { offline: false, patience: Patience::default(), pause: PUBLISHING_PAUSE }
    }
}

/// A registry, not yet asked.
#[derive(Debug)]
pub struct Registry {
    name: String,
    pin: Pin,
    source: Source,
    /// none: nothing is remembered, because it comes with the binary
    memory: Option<Memory>,
    manner: Manner,
}

#[derive(Clone, Debug)]
struct Memory {
    state: PathBuf,
    cache: PathBuf,
}

impl Registry {
    /// A registry that the user added.
    ///
    /// # Errors
    /// When its place is none.
    pub fn open(known: &Known, places: &Places, manner: Manner) -> Result<Self, Error> {
        let id = known.root.id();
        let memory = Memory { state: places.state.join(&id), cache: places.cache.join(&id).join("metadata") };
        Ok(Self {
            name: known.name.clone(),
            pin: known.root.clone(),
            source: Source::open(&known.place()?, manner.offline, manner.patience),
            memory: Some(memory),
            manner,
        })
    }

    /// The registry that the binary carries: paths and bytes, the first root among them.
    ///
    /// # Errors
    /// When it has no root.
    pub fn embedded(files: &'static [(&'static str, &'static [u8])]) -> Result<Self, Error> {
        let source = Source::embedded(files);
        let newest = (1..MOST_ROOTS)
            .map(|version| (version, layout::metadata_path(version, "root")))
            .map_while(|(version, path)| Some((version, files.iter().find(|(name, _)| *name == path)?.1)))
            .last();
        let refused = || Refused {
            registry: BUNDLED.to_owned(),
            subject: super::verify::Subject::Role("root".to_owned()),
            problem: Problem::Missing("metadata/1.root.json".to_owned()),
        };
        let (version, root) = newest.ok_or_else(refused)?;
        let pin = Pin { version, sha256: sha256_hex(root) };
        let manner = Manner { pause: Duration::ZERO, ..Manner::default() };
        Ok(Self { name: BUNDLED.to_owned(), pin, source, memory: None, manner })
    }

    /// As the user calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The root that stands for it.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// Bytes that were got from where it lies.
    pub fn fetched(&self) -> u64 {
        self.source.fetched()
    }

    /// Where what was seen of it is kept.
    pub fn state(&self) -> Option<&Path> {
        self.memory.as_ref().map(|memory| memory.state.as_path())
    }

    /// Verifies the newest metadata and remembers it.
    ///
    /// # Errors
    /// When something is not believed, too old, older than before, or cannot be had.
    pub fn refresh(self: &Arc<Self>, clock: Timestamp) -> Result<View, Error> {
        let Some(memory) = &self.memory else {
            // What came with the binary does not go stale.
            return self.view(None, None, Timestamp::UNIX_EPOCH, false);
        };
        fs::create_dir_all(&memory.state)?;
        fs::create_dir_all(&memory.cache)?;
        let guard = Guard::wait(&memory.state)?;
        let floor = Floor::read(&self.name, &memory.state)?;
        let (now, behind) = match &floor {
            // Without the network nothing is newer than what was in order the last time.
            Some(floor) if self.source.is_silent() => (floor.last_good, false),
            Some(floor) => floor.believed_time(clock),
            None => (clock, false),
        };
        self.view(Some(guard), floor, now, behind)
    }

    fn view(
        self: &Arc<Self>,
        guard: Option<Guard>,
        floor: Option<Floor>,
        now: Timestamp,
        clock_behind: bool,
    ) -> Result<View, Error> {
        let (mut chain, roots) = self.roots(floor.as_ref())?;
        let mut floor = floor.unwrap_or_else(|| Floor::of_root(&chain));
        floor.check_root(&chain)?;
        chain.check_root_expired(now)?;
        floor.follow_keys(&chain);
        let (stamp, timestamp) = self.timestamp(&mut chain, &floor, now)?;
        let sha256 = sha256_hex(&timestamp);
        floor.check_timestamp(&chain, &stamp, &sha256)?;
        let snapshot = self
            .immutable("snapshot", stamp.snapshot, layout::MOST_SNAPSHOT_BYTES, |bytes| chain.snapshot(bytes, now))?;
        floor.check_listed(&chain)?;
        let version = chain.listed().get("targets").copied();
        let version = version.ok_or_else(|| chain.because("targets", Problem::NotListed))?;
        let targets = self.immutable("targets", version, layout::MOST_ROLE_BYTES, |bytes| chain.targets(bytes, now))?;
        if let Some(memory) = &self.memory {
            floor.raise(&chain, &stamp, &sha256, now);
            // First the file that the floor names, then the floor.
            files::write_atomic(&memory.state.join("timestamp.json"), &timestamp)?;
            floor.write(&memory.state)?;
        }
        drop(guard);
        let seen = Verified { roots, timestamp, snapshot, targets };
        Ok(View { registry: Arc::clone(self), chain, now, stamp, seen, roles: Vec::new(), clock_behind })
    }

    /// The roots from the pinned one to the newest, and their bytes.
    fn roots(&self, floor: Option<&Floor>) -> Result<(Chain, Vec<Vec<u8>>), Error> {
        let kept = |version: u64| {
            let memory = self.memory.as_ref()?;
            let path = memory.state.join("roots").join(format!("{version}.root.json"));
            files::read_regular(&path, layout::MOST_ROOT_BYTES).ok()
        };
        let pinned = kept(self.pin.version).filter(|bytes| sha256_hex(bytes) == self.pin.sha256);
        let root = match pinned {
            Some(bytes) => bytes,
            None => {
                let path = layout::metadata_path(self.pin.version, "root");
                let bytes = self.source.get(&path, layout::MOST_ROOT_BYTES)?;
                let bytes = bytes.ok_or_else(|| self.refused("root", Problem::Missing(path)))?;
                let found = sha256_hex(&bytes);
                if found != self.pin.sha256 {
                    let pinned = self.pin.sha256.clone();
                    return Err(self.refused("root", Problem::NotPinned { found, pinned }).into());
                }
                bytes
            }
        };
        let mut chain = Chain::begin(&self.name, &root)?;
        if chain.root_version() != self.pin.version {
            let (needed, found) = (self.pin.version, chain.root_version());
            return Err(self.refused("root", Problem::RootVersion { needed, found }).into());
        }
        if floor.is_none()
            && let Some(memory) = &self.memory
        {
            // From here on a missing floor is a loss and no beginning.
            Floor::of_root(&chain).write(&memory.state)?;
        }
        self.keep_root(self.pin.version, &root)?;
        let mut roots = vec![root];
        for _ in 0..MOST_ROOTS {
            let next = chain.root_version() + 1;
            if let Some(bytes) = kept(next)
                && chain.next_root(&bytes).is_ok()
            {
                roots.push(bytes);
                continue;
            }
            let path = layout::metadata_path(next, "root");
            let Some(bytes) = self.source.get(&path, layout::MOST_ROOT_BYTES).or_else(|error| match error {
                // Without the network, the newest root is the newest one seen.
                transport::Error::Offline { .. } => Ok(None),
                other => Err(other),
            })?
            else {
                return Ok((chain, roots));
            };
            chain.next_root(&bytes)?;
            self.keep_root(next, &bytes)?;
            roots.push(bytes);
        }
        Err(self.refused("root", Problem::Unreadable(format!("it was replaced more than {MOST_ROOTS} times"))).into())
    }

    fn keep_root(&self, version: u64, bytes: &[u8]) -> Result<(), Error> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let folder = memory.state.join("roots");
        let path = folder.join(format!("{version}.root.json"));
        if files::read_regular(&path, layout::MOST_ROOT_BYTES).is_ok_and(|kept| kept == bytes) {
            return Ok(());
        }
        fs::create_dir_all(&folder)?;
        Ok(files::write_atomic(&path, bytes)?)
    }

    fn timestamp(&self, chain: &mut Chain, floor: &Floor, now: Timestamp) -> Result<(Stamp, Vec<u8>), Error> {
        let kept = self.memory.as_ref().and_then(|memory| {
            let bytes = files::read_regular(&memory.state.join("timestamp.json"), layout::MOST_TIMESTAMP_BYTES).ok()?;
            let known = floor.timestamp.as_ref().is_some_and(|seen| seen.sha256 == sha256_hex(&bytes));
            // At the beginning of time nothing has expired: it is a floor, not news.
            (known && chain.timestamp(&bytes, Timestamp::UNIX_EPOCH).is_ok()).then_some(bytes)
        });
        let path = layout::timestamp_path();
        let got = match (self.source.get(&path, layout::MOST_TIMESTAMP_BYTES), &kept) {
            (Err(transport::Error::Offline { .. }), Some(kept)) => {
                let stamp = chain.timestamp(kept, now)?;
                return Ok((stamp, kept.clone()));
            }
            (got, _) => got?.ok_or_else(|| self.refused("timestamp", Problem::Missing(path)))?,
        };
        let before = kept.as_ref().and(floor.timestamp.as_ref()).map(|seen| seen.version);
        let stamp = chain.timestamp(&got, now)?;
        match kept {
            Some(kept) if before == Some(stamp.version) => Ok((stamp, kept)),
            _ => Ok((stamp, got)),
        }
    }

    /// A metadata file that never changes: from the cache when it is taken, else from where the registry lies,
    /// once more after a pause when it is not there yet or not whole.
    fn immutable(
        &self,
        role: &str,
        version: u64,
        most: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), Refused>,
    ) -> Result<Vec<u8>, Error> {
        let path = layout::metadata_path(version, role);
        let cached = self.memory.as_ref().map(|memory| memory.cache.join(format!("{version}.{role}.json")));
        if let Some(cached) = &cached
            && let Ok(bytes) = files::read_regular(cached, most)
        {
            match take(&bytes) {
                Ok(()) => return Ok(bytes),
                // Expiry is a fact about the file, not about the cache.
                Err(refused) if matches!(refused.problem, Problem::Expired(_)) => return Err(refused.into()),
                Err(_) => {
                    // Damaged in the cache: got anew below.
                    let _ = fs::remove_file(cached);
                }
            }
        }
        let mut attempt = || -> Result<Vec<u8>, Error> {
            let bytes = self.source.get(&path, most)?;
            let bytes = bytes.ok_or_else(|| self.refused(role, Problem::Missing(path.clone())))?;
            take(&bytes)?;
            Ok(bytes)
        };
        let bytes = match attempt() {
            Err(Error::Refused(refused)) if may_be_in_publication(&refused) => {
                std::thread::sleep(self.manner.pause);
                attempt()?
            }
            other => other?,
        };
        if let Some(cached) = &cached {
            // A cache that cannot be written is only slower.
            let _ = files::write_atomic(cached, &bytes);
        }
        Ok(bytes)
    }

    fn refused(&self, role: &str, problem: Problem) -> Refused {
        Refused { registry: self.name.clone(), subject: super::verify::Subject::Role(role.to_owned()), problem }
    }

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
            return Err(Refused { subject: super::verify::Subject::Target(target.to_string()), ..because }.into());
        }
        let bytes = blob("component", &record.sha256)?;
        chain.check_bytes(&signed, &bytes)?;
        Ok(bytes)
    }
}

impl Registry {
    /// True when the maintainers revoked it, as far as was heard of it.
    fn is_known_as_revoked(&self, sha256: &str) -> Result<bool, Error> {
        let Some(memory) = &self.memory else { return Ok(false) };
        let bytes = match files::read_regular(&memory.state.join(REVOKED), layout::MOST_ROLE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let revoked: std::collections::BTreeMap<String, String> = serde_json::from_slice(&bytes).map_err(|error| {
            let path = memory.state.join(REVOKED);
            floor::Error::Damaged { registry: self.name.clone(), path, why: format!("is damaged: {error}") }
        })?;
        Ok(revoked.contains_key(sha256))
    }
}

/// A page that is being published shows the new timestamp before the files that it names.
fn may_be_in_publication(refused: &Refused) -> bool {
    matches!(refused.problem, Problem::Missing(_) | Problem::Mismatch(_) | Problem::Length { .. } | Problem::Hash)
}

fn check_review(chain: &Chain, signed: &Signed, unreviewed: bool) -> Result<(), Refused> {
    let refused = |problem| {
        let because = chain.because("", problem);
        Refused { subject: super::verify::Subject::Target(signed.target.to_string()), ..because }
    };
    match signed.review {
        Review::Reviewed => Ok(()),
        Review::Revoked => Err(refused(Problem::Revoked)),
        _ if unreviewed || !chain.is_reviewed() => Ok(()),
        Review::Missing => Err(refused(Problem::NotReviewed)),
        Review::Other => Err(refused(Problem::ReviewedOther)),
    }
}

/// Bytes of the metadata that was verified.
#[derive(Clone, Debug)]
struct Verified {
    roots: Vec<Vec<u8>>,
    timestamp: Vec<u8>,
    snapshot: Vec<u8>,
    targets: Vec<u8>,
}

/// A registry whose newest metadata was verified.
#[derive(Debug)]
pub struct View {
    registry: Arc<Registry>,
    chain: Chain,
    now: Timestamp,
    stamp: Stamp,
    seen: Verified,
    roles: Vec<(String, Vec<u8>)>,
    clock_behind: bool,
}

/// A version of a rule as a registry has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// the rule
    pub rule: RuleName,
    /// its version
    pub version: semver::Version,
    /// the component
    pub component: Signed,
    /// the manifest
    pub manifest: Signed,
    /// what the gates said, when it was published with it
    pub evidence: Option<Signed>,
    /// what the publisher says about it
    pub record: RuleRecord,
}

impl Release {
    /// Why it should not be used any more, when its publisher took it back.
    pub fn yanked(&self) -> Option<&Yanked> {
        self.record.yanked.as_ref()
    }
}

/// What may be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// also what the maintainers have not reviewed
    pub unreviewed: bool,
    /// also what its publisher took back
    pub yanked: bool,
}

impl View {
    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What was verified.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// True when the clock of this machine is more than a day behind what was seen.
    pub fn clock_is_behind(&self) -> bool {
        self.clock_behind
    }

    /// What the timestamp says.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Everybody who may publish.
    pub fn publishers(&self) -> Vec<Publisher> {
        self.chain.publishers()
    }

    /// The publisher of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn publisher(&self, name: &str) -> Result<Publisher, Error> {
        let found = self.chain.publishers().into_iter().find(|publisher| publisher.name == name);
        Ok(found.ok_or_else(|| self.chain.because(name, Problem::NoPublisher))?)
    }

    /// Verifies a role, unless that was done; false when the snapshot does not list it.
    fn take(&mut self, role: &str) -> Result<bool, Error> {
        if self.chain.has_role(role) {
            return Ok(true);
        }
        let Some(version) = self.chain.listed().get(role).copied() else { return Ok(false) };
        let (chain, now, registry) = (&mut self.chain, self.now, Arc::clone(&self.registry));
        let bytes = registry.immutable(role, version, layout::MOST_ROLE_BYTES, |bytes| chain.role(role, bytes, now))?;
        self.roles.push((role.to_owned(), bytes));
        if role == REVIEWED
            && let Some(memory) = &self.registry.memory
        {
            let revoked = self.chain.all_revoked();
            if !revoked.is_empty() {
                files::write_json(&memory.state.join(REVOKED), revoked)?;
            }
        }
        Ok(true)
    }

    /// Every version of a rule whose pages are consistent, oldest first.
    ///
    /// # Errors
    /// When a role cannot be verified, or nobody publishes under this name.
    pub fn releases(&mut self, rule: &RuleName) -> Result<Vec<Release>, Error> {
        self.chain.check_delegated(rule)?;
        Ok(self.of_publisher(rule.publisher())?.into_iter().filter(|release| release.rule == *rule).collect())
    }

    /// Every version of every rule of a publisher, by name and version.
    ///
    /// # Errors
    /// When a role cannot be verified.
    pub fn of_publisher(&mut self, publisher: &str) -> Result<Vec<Release>, Error> {
        if !self.take(publisher)? {
            return Ok(Vec::new());
        }
        if self.chain.is_reviewed() && !self.take(REVIEWED)? {
            return Err(self.chain.because(REVIEWED, Problem::NotListed).into());
        }
        let signed = self.chain.all_signed(publisher)?;
        let find = |component: &Signed, kind| {
            let target = component.target.rule.target(&component.target.version, kind);
            signed.iter().find(|signed| signed.target == target).cloned()
        };
        let mut releases = Vec::new();
        for component in signed.iter().filter(|signed| signed.target.kind == TargetKind::Component) {
            // A version that is not whole does not exist: its publisher can hurt nobody else by it.
            let Some(manifest) = find(component, TargetKind::Manifest) else { continue };
            let Some(record) = component.record.clone() else { continue };
            if contradiction(component, &manifest, &record).is_some() {
                continue;
            }
            releases.push(Release {
                rule: component.target.rule.clone(),
                version: component.target.version.clone(),
                evidence: find(component, TargetKind::Evidence),
                component: component.clone(),
                manifest,
                record,
            });
        }
        releases.sort_by(|a, b| (&a.rule, &a.version).cmp(&(&b.rule, &b.version)));
        Ok(releases)
    }

    /// The newest version that may be installed.
    ///
    /// # Errors
    /// When there is no such rule, or none of its versions is wanted and allowed; then why.
    pub fn choose(
        &mut self,
        rule: &RuleName,
        wanted: Option<&semver::VersionReq>,
        policy: Policy,
    ) -> Result<Release, Error> {
        let releases = match self.releases(rule) {
            Ok(releases) if releases.is_empty() => return Err(self.no_rule(rule)),
            Err(Error::Refused(Refused { problem: Problem::NoPublisher, .. })) => return Err(self.no_rule(rule)),
            other => other?,
        };
        let mut excluded: Vec<(String, Option<&'static str>)> = Vec::new();
        for release in releases.into_iter().rev() {
            match self.exclusion(&release, wanted, policy) {
                None => return Ok(release),
                Some((why, hint)) => excluded.push((format!("{} {why}", release.version), hint)),
            }
        }
        let hint = excluded.iter().find_map(|(_, hint)| *hint);
        let more = excluded.len().saturating_sub(8);
        let mut why: Vec<String> = excluded.into_iter().map(|(why, _)| why).take(8).collect();
        if more > 0 {
            why.push(format!("and {more} older ones"));
        }
        Err(Error::NoVersion { registry: self.registry.name.clone(), rule: rule.clone(), why: why.join("; "), hint })
    }

    /// Why a version is not chosen, and what could be done about it.
    pub fn exclusion(
        &self,
        release: &Release,
        wanted: Option<&semver::VersionReq>,
        policy: Policy,
    ) -> Option<(String, Option<&'static str>)> {
        match wanted {
            Some(wanted) if !wanted.matches(&release.version) => return Some((format!("is not {wanted}"), None)),
            None if !release.version.pre.is_empty() => {
                return Some(("is a pre-release".to_owned(), Some("Name it with `@VERSION` to take it all the same")));
            }
            _ => {}
        }
        if let Some(why) = self.chain.revoked(&release.component.sha256) {
            return Some((format!("was revoked by the maintainers ({})", harmless(why)), None));
        }
        if let Some(yanked) = release.yanked().filter(|_| !policy.yanked) {
            return Some((format!("was taken back by its publisher ({})", harmless(&yanked.reason)), None));
        }
        for signed in [&release.component, &release.manifest] {
            match signed.review {
                Review::Reviewed => {}
                _ if policy.unreviewed || !self.chain.is_reviewed() => {}
                Review::Other => return Some(("has another content than the maintainers reviewed".to_owned(), None)),
                _ => {
                    let hint = "Wait for the review, or take it as it is with `--allow-unreviewed`";
                    return Some(("was not reviewed by the maintainers".to_owned(), Some(hint)));
                }
            }
        }
        None
    }

    fn no_rule(&mut self, rule: &RuleName) -> Error {
        let mut known = Vec::new();
        for publisher in self.publishers() {
            // Suggestions need no role that cannot be verified.
            known
                .extend(self.of_publisher(&publisher.name).unwrap_or_default().into_iter().map(|release| release.rule));
        }
        known.dedup();
        let near = name::suggestions(rule, &known).into_iter().map(ToString::to_string).collect();
        Error::NoRule { registry: self.registry.name.clone(), rule: rule.clone(), near }
    }

    /// Checks that the registry is not older than a lockfile says it was.
    ///
    /// # Errors
    /// When its root or the publisher's role is.
    pub fn check_lock_floor(&self, root: &Pin, role: Option<(&str, u64)>) -> Result<(), Error> {
        let older = |why: String| Error::OlderThanLock { registry: self.registry.name.clone(), why };
        let found = self.chain.root_version();
        if found < root.version {
            return Err(older(format!("its root has version {found}, and the lockfile names {}", root.version)));
        }
        // Only roots from the pinned one on are at hand; an older one in a lock is vouched for by the chain.
        let same = self.seen.roots.iter().rev().nth(usize::try_from(found - root.version).unwrap_or(usize::MAX));
        if same.is_some_and(|bytes| sha256_hex(bytes) != root.sha256) {
            return Err(older(format!("version {} of its root has another content", root.version)));
        }
        if let Some((role, version)) = role {
            let listed = self.chain.listed().get(role).copied().unwrap_or_default();
            if listed < version {
                return Err(older(format!("the role `{role}` has version {listed}, and the lockfile names {version}")));
            }
        }
        Ok(())
    }

    /// The bytes of a target: from the store when they are there, else from where the registry lies.
    ///
    /// # Errors
    /// When they cannot be had or are not what was signed.
    pub fn bytes(&self, store: &Store, signed: &Signed) -> Result<Vec<u8>, Error> {
        if let Some(bytes) = store.get(&signed.sha256)? {
            self.chain.check_bytes(signed, &bytes)?;
            return Ok(bytes);
        }
        let path = layout::target_path(&signed.target, &signed.sha256);
        let attempt = || -> Result<Vec<u8>, Error> {
            let bytes = self.registry.source.get(&path, signed.length)?;
            let missing = || Refused {
                registry: self.registry.name.clone(),
                subject: super::verify::Subject::Target(signed.target.to_string()),
                problem: Problem::Missing(path.clone()),
            };
            let bytes = bytes.ok_or_else(missing)?;
            self.chain.check_bytes(signed, &bytes)?;
            Ok(bytes)
        };
        match attempt() {
            Err(Error::Refused(refused)) if may_be_in_publication(&refused) => {
                std::thread::sleep(self.registry.manner.pause);
                attempt()
            }
            other => other,
        }
    }

    /// Keeps a version in the store with everything that vouches for it, and gives the record.
    ///
    /// # Errors
    /// When bytes cannot be had or are not what was signed, or the store cannot be written.
    pub fn install(&self, store: &Store, release: &Release, unreviewed: bool) -> Result<Record, Error> {
        check_review(&self.chain, &release.component, unreviewed)?;
        let component = self.bytes(store, &release.component)?;
        let manifest = self.bytes(store, &release.manifest)?;
        let sha256 = store.put(&component)?;
        store.put(&manifest)?;
        let role = |name: &str| self.roles.iter().find(|(role, _)| role == name).map(|(_, bytes)| bytes);
        let publisher = role(release.rule.publisher())
            .ok_or_else(|| self.chain.because(release.rule.publisher(), Problem::NotListed))?;
        let record = Record {
            format: Record::FORMAT,
            registry: self.registry.pin.id(),
            rule: release.rule.clone(),
            version: release.version.clone(),
            sha256,
            at: self.now,
            roots: self.seen.roots.iter().map(|root| store.put(root)).collect::<io::Result<_>>()?,
            timestamp: store.put(&self.seen.timestamp)?,
            snapshot: store.put(&self.seen.snapshot)?,
            targets: store.put(&self.seen.targets)?,
            role: store.put(publisher)?,
            reviewed: role(REVIEWED).map(|bytes| store.put(bytes)).transpose()?,
            unreviewed,
        };
        // What cannot be proven from the store is not installed.
        self.registry.replay(store, &record)?;
        store.put_record(&record)?;
        Ok(record)
    }
}

/// Where a version's pages contradict each other, if they do.
fn contradiction(component: &Signed, manifest: &Signed, record: &RuleRecord) -> Option<String> {
    if record.version != component.target.version {
        return Some(format!("it calls itself version {}", record.version));
    }
    if record.size != component.length {
        return Some(format!("its record speaks of {} bytes, and {} are signed for", record.size, component.length));
    }
    if record.manifest != manifest.sha256 {
        return Some("its record names another manifest than the one that is signed for".to_owned());
    }
    None
}

/// Words of others, on one line and without what would steer a terminal.
pub fn harmless(text: &str) -> String {
    let mut plain: String =
        text.chars().map(|c| if c.is_control() || is_direction(c) { '\u{fffd}' } else { c }).take(300).collect();
    if text.chars().nth(300).is_some() {
        plain.push('…');
    }
    plain
}

fn is_direction(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
