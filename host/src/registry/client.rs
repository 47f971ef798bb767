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

mod error;
mod replay;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fs_err as fs;
use jiff::Timestamp;

use super::floor::Floor;
use super::guard::Guard;
use super::layout::{self, REVIEWED};
use super::store::Store;
use super::transport::{self, Patience, Source};
use super::trust::{self, BUNDLED, Known, Pin, Trust};
use super::verify::{Chain, Problem, Refused, Stamp};
use crate::files::{self, sha256_hex};

pub use error::Error;
pub use replay::Replayed;
pub use view::{Policy, Release, View};

/// Roots that are followed at once.
const MOST_ROOTS: u64 = 1024;
/// Time after which a file that a fresh timestamp names is asked for once more.
const PUBLISHING_PAUSE: Duration = Duration::from_secs(2);

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
        let version = chain.listed_version("targets");
        let version = version.ok_or_else(|| chain.because("targets", Problem::NotListed))?;
        let targets = self.immutable("targets", version, layout::MOST_ROLE_BYTES, |bytes| chain.targets(bytes, now))?;
        if let Some(memory) = &self.memory {
            floor.raise(&chain, &stamp, &timestamp, now);
            floor.write(&memory.state)?;
            // After the floor, because roots without one are a loss. It can be got again: the pin names it.
            if let Some(pinned) = roots.first() {
                self.keep_root(self.pin.version, pinned, files::write_for_cache)?;
            }
        }
        let mut roles = Vec::new();
        // Before anything else is asked for, so that no publisher can keep a revocation from being heard of.
        if let Some(version) = chain.listed_version(REVIEWED) {
            let bytes =
                self.immutable(REVIEWED, version, layout::MOST_ROLE_BYTES, |bytes| chain.role(REVIEWED, bytes, now))?;
            roles.push((REVIEWED.to_owned(), bytes));
            self.note_revoked(chain.all_revoked())?;
        }
        drop(guard);
        let seen = Verified { roots, timestamp, snapshot, targets };
        Ok(View { registry: Arc::clone(self), chain, now, stamp, seen, roles, clock_behind })
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
                // Some stores forbid what is not there, and the next root usually is not.
                transport::Error::Forbidden { .. } => Ok(None),
                other => Err(other),
            })?
            else {
                return Ok((chain, roots));
            };
            chain.next_root(&bytes)?;
            if let Some(memory) = self.memory.as_ref().filter(|_| floor.is_none()) {
                // Nobody can go back behind this root, also when the rest is refused.
                Floor::of_root(&chain).write(&memory.state)?;
            }
            self.keep_root(next, &bytes, files::write_atomic)?;
            roots.push(bytes);
        }
        Err(self.refused("root", Problem::Unreadable(format!("it was replaced more than {MOST_ROOTS} times"))).into())
    }

    fn keep_root(
        &self,
        version: u64,
        bytes: &[u8],
        write: impl FnOnce(&Path, &[u8]) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let folder = memory.state.join("roots");
        let path = folder.join(format!("{version}.root.json"));
        if files::read_regular(&path, layout::MOST_ROOT_BYTES).is_ok_and(|kept| kept == bytes) {
            return Ok(());
        }
        fs::create_dir_all(&folder)?;
        Ok(write(&path, bytes)?)
    }

    fn timestamp(&self, chain: &mut Chain, floor: &Floor, now: Timestamp) -> Result<(Stamp, Vec<u8>), Error> {
        // At the beginning of time nothing has expired: it is a floor, not news.
        let kept = floor.timestamp_document().filter(|bytes| chain.timestamp(bytes, Timestamp::UNIX_EPOCH).is_ok());
        let path = layout::timestamp_path();
        let got = match (self.source.get(&path, layout::MOST_TIMESTAMP_BYTES), &kept) {
            (Err(transport::Error::Offline { .. }), Some(kept)) => {
                let stamp = chain.timestamp(kept, now)?;
                return Ok((stamp, kept.to_vec()));
            }
            (got, _) => got?.ok_or_else(|| self.refused("timestamp", Problem::Missing(path)))?,
        };
        let before = kept.and(floor.timestamp.as_ref()).map(|seen| seen.version);
        let stamp = chain.timestamp(&got, now)?;
        match kept {
            Some(kept) if before == Some(stamp.version) => Ok((stamp, kept.to_vec())),
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
            let _ = files::write_for_cache(cached, &bytes);
        }
        Ok(bytes)
    }

    fn refused(&self, role: &str, problem: Problem) -> Refused {
        Refused { registry: self.name.clone(), subject: super::verify::Subject::Role(role.to_owned()), problem }
    }
}

/// A page that is being published shows the new timestamp before the files that it names.
fn may_be_in_publication(refused: &Refused) -> bool {
    matches!(refused.problem, Problem::Missing(_) | Problem::Mismatch(_) | Problem::Length { .. } | Problem::Hash)
}

/// Bytes of the metadata that was verified.
#[derive(Clone, Debug)]
struct Verified {
    roots: Vec<Vec<u8>>,
    timestamp: Vec<u8>,
    snapshot: Vec<u8>,
    targets: Vec<u8>,
}

/// Words of others, on one line and without what would steer a terminal.
pub fn harmless(text: &str) -> String {
    let mut plain: String = text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).take(300).collect();
    if text.chars().nth(300).is_some() {
        plain.push('…');
    }
    plain
}

/// True for characters that steer a terminal or cannot be seen.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || is_direction(c)
}

/// The same for words of several lines.
pub fn harmless_lines(text: &str) -> String {
    text.trim_end().lines().take(20).map(harmless).collect::<Vec<_>>().join("\n")
}

fn is_direction(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
