//! The registries that a command uses, each asked once, and whom the user trusts.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::Error;
use crate::files::{self, sha256_hex};
use crate::registry::EmbeddedFiles;
use crate::registry::client::{Manner, Places, Registry, View};
use crate::registry::guard::Guard;
use crate::registry::layout;
use crate::registry::lockfile::{Lock, LockedRegistry, LockedRoot, LockedRule};
use crate::registry::store::Store;
use crate::registry::trust::{self, Acquaintance, BUNDLED, Known, Pin, Trust};
use crate::registry::verify::Publisher;

/// Registries as they are needed, each asked once.
#[derive(Debug)]
pub struct Registries {
    places: Places,
    /// whom the user trusts
    pub trust: Trust,
    manner: Manner,
    clock: Timestamp,
    pub(super) embedded: EmbeddedFiles,
    pub(super) views: BTreeMap<String, View>,
    /// registries that a lockfile calls otherwise than this user does
    aliases: BTreeMap<String, Known>,
    /// roots of registries that the user agrees to take from a lockfile: the start of their SHA-256
    pub agreed_roots: Vec<String>,
    /// registries that were taken from a lockfile just now
    taken: BTreeSet<String>,
    /// what the user should know
    pub warnings: Vec<String>,
}

/// Least digits by which a root is agreed to.
const LEAST_ROOT_DIGITS: usize = 16;

impl Registries {
    /// The registries; none is asked yet.
    ///
    /// # Errors
    /// When the user's registries cannot be read.
    pub fn new(places: Places, manner: Manner, clock: Timestamp, embedded: EmbeddedFiles) -> Result<Self, Error> {
        if rustix::process::geteuid().is_root() {
            [places.trust.parent(), Some(&places.state), Some(&places.rules)]
                .into_iter()
                .flatten()
                .try_for_each(owned)?;
        }
        let trust = places.read_trust()?;
        Ok(Self {
            places,
            trust,
            manner,
            clock,
            embedded,
            views: BTreeMap::new(),
            aliases: BTreeMap::new(),
            agreed_roots: Vec::new(),
            taken: BTreeSet::new(),
            warnings: Vec::new(),
        })
    }

    /// The store of rules.
    pub fn store(&self) -> Store {
        self.places.store()
    }

    /// The folders.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The registry for names without one.
    pub fn default_registry(&self) -> &str {
        self.trust.default.as_deref().unwrap_or(BUNDLED)
    }

    /// The registry of this name, not asked.
    ///
    /// # Errors
    /// When there is none.
    pub fn registry(&self, name: &str) -> Result<Registry, Error> {
        if name == BUNDLED {
            return Ok(Registry::embedded(self.embedded)?);
        }
        Ok(Registry::open(self.known(name)?, &self.places, self.manner)?)
    }

    /// What is known of a registry, by the user's name for it or by that of a lockfile.
    ///
    /// # Errors
    /// When there is none.
    pub fn known(&self, name: &str) -> Result<&Known, trust::Error> {
        match self.aliases.get(name) {
            Some(known) => Ok(known),
            None => self.trust.registry(name),
        }
    }

    /// Finds the registries of a lockfile that this user knows under other names: the same root is the same registry.
    pub fn recognise(&mut self, lock: &Lock) {
        for locked in &lock.registries {
            if locked.id == BUNDLED || self.trust.registry(&locked.id).is_ok() {
                continue;
            }
            let same = self.trust.registries.iter().find(|known| self.has_root(known, &locked.root)).cloned();
            if let Some(known) = same {
                self.aliases.insert(locked.id.clone(), Known { name: locked.id.clone(), ..known });
            }
        }
    }

    /// True when the root is the pinned one of a registry, or one that follows from it and was seen.
    fn has_root(&self, known: &Known, root: &LockedRoot) -> bool {
        let path = self.places.state.join(known.root.id()).join("roots").join(format!("{}.root.json", root.version));
        known.root == Pin::from(root)
            || files::read_regular(&path, layout::MOST_ROOT_BYTES).is_ok_and(|bytes| sha256_hex(&bytes) == root.sha256)
    }

    /// Says once that what was seen of a registry is gone, when it must have been there.
    pub fn warn_when_forgotten(&mut self, registry: &Registry) {
        let id = registry.pin().id();
        let gone = registry.state().is_some_and(|state| !state.exists());
        // Whoever trusts a publisher of it, or has a rule from it, has seen it.
        let was_seen =
            self.trust.publishers.iter().any(|publisher| publisher.registry == id) || self.store().has_records(&id);
        if gone && was_seen && !self.taken.contains(registry.name()) {
            self.warn(format!(
                "What was seen of the registry `{}` before is gone from this machine: versions and revocations are \
                 remembered from now on, and an old registry would be believed once",
                registry.name()
            ));
        }
    }

    /// Says once that the publisher of an installed rule took it back, as far as it was heard of.
    ///
    /// # Errors
    /// When what was heard is damaged.
    pub fn warn_when_yanked(&mut self, locked: &LockedRule) -> Result<(), Error> {
        if let Some(why) = self.registry(&locked.registry)?.yanked(locked.name.publisher(), &locked.sha256)? {
            self.warn(format!(
                "`{}` {} is installed, and its publisher took it back ({why}); `delegate-doctor rules update` takes \
                 another version when there is one",
                locked.name, locked.version
            ));
        }
        Ok(())
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The newest metadata of a registry.
    ///
    /// # Errors
    /// When it is not believed or cannot be had.
    pub fn view(&mut self, name: &str) -> Result<&mut View, Error> {
        if !self.views.contains_key(name) {
            let registry = self.registry(name)?;
            self.warn_when_forgotten(&registry);
            let view = Arc::new(registry).refresh(self.clock)?;
            if view.clock_is_behind() {
                self.warnings.push(format!(
                    "The clock of this machine is behind: the registry `{name}` was seen later than that. Expiry is \
                     judged by that time"
                ));
            }
            self.views.insert(name.to_owned(), view);
        }
        let missing = || trust::Error::Unknown { name: name.to_owned(), known: Vec::new() };
        Ok(self.views.get_mut(name).ok_or_else(missing)?)
    }

    /// Makes a registry of the lock known to this user, when no registry has its name and the user agreed to its
    /// root; it is pinned to that.
    ///
    /// # Errors
    /// When the user did not agree to it.
    pub fn accept(&mut self, locked: &LockedRegistry) -> Result<(), Error> {
        if locked.id == BUNDLED {
            return Ok(());
        }
        if self.known(&locked.id).is_ok() {
            return Ok(());
        }
        let agreed = |digits: &String| {
            digits.len() >= LEAST_ROOT_DIGITS && locked.root.sha256.starts_with(&digits.to_ascii_lowercase())
        };
        if !self.agreed_roots.iter().any(agreed) {
            return Err(Error::NewRegistry {
                name: locked.id.clone(),
                place: locked.url.clone(),
                version: locked.root.version,
                sha256: locked.root.sha256.clone(),
            });
        }
        let known = Known { name: locked.id.clone(), place: locked.url.clone(), root: Pin::from(&locked.root) };
        known.place()?;
        edit_trust(&self.places, |trust| trust.add(known.clone()))?;
        self.trust.add(known)?;
        self.taken.insert(locked.id.clone());
        self.warnings.push(format!(
            "The registry `{}` at {} is now known; the lockfile names it with the root {}",
            locked.id, locked.url, locked.root.sha256
        ));
        Ok(())
    }

    /// Trusts a publisher with the keys that it has now.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn trust_publisher(&mut self, registry: &str, publisher: &Publisher) -> Result<(), Error> {
        edit_trust(&self.places, |trust| {
            trust.trust(registry, publisher);
            Ok(())
        })?;
        self.trust.trust(registry, publisher);
        Ok(())
    }

    /// What is known about the keys of a publisher; those of the bundled registry come with the tool.
    pub fn acquaintance(&self, registry: &Registry, publisher: &Publisher) -> Acquaintance {
        if registry.name() == BUNDLED {
            return Acquaintance::Trusted;
        }
        self.trust.acquaintance(&registry.pin().id(), publisher)
    }
}

/// Checks that a folder, when there is one, belongs to root and nobody else can write to it.
fn owned(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() && found.uid() == 0 && found.mode() & 0o022 == 0 => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => Err(Error::Exposed(folder.to_path_buf())),
    }
}

/// Changes whom the user trusts, one process at a time.
///
/// # Errors
/// When the change does not work, or the file cannot be read or written.
pub fn edit_trust(
    places: &Places,
    change: impl FnOnce(&mut Trust) -> Result<(), trust::Error>,
) -> Result<(), trust::Error> {
    let folder = places.trust.parent().unwrap_or_else(|| Path::new("."));
    let _guard = Guard::wait(folder)?;
    let mut trust = Trust::read(&places.trust)?;
    change(&mut trust)?;
    trust.write(&places.trust)
}
