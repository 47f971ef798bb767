//! The registries that a command uses, each asked once, and whom the user trusts.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::Error;
use crate::registry::EmbeddedFiles;
use crate::registry::client::{Manner, Places, Registry, View};
use crate::registry::guard::Guard;
use crate::registry::lockfile::LockedRegistry;
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
    /// what the user should know
    pub warnings: Vec<String>,
}

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
        Ok(Self { places, trust, manner, clock, embedded, views: BTreeMap::new(), warnings: Vec::new() })
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
        Ok(Registry::open(self.trust.registry(name)?, &self.places, self.manner)?)
    }

    /// The newest metadata of a registry.
    ///
    /// # Errors
    /// When it is not believed or cannot be had.
    pub fn view(&mut self, name: &str) -> Result<&mut View, Error> {
        if !self.views.contains_key(name) {
            let view = Arc::new(self.registry(name)?).refresh(self.clock)?;
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

    /// Makes a registry of the lock known to this user, when no registry has its name; it is pinned to the root
    /// that the lock names.
    ///
    /// # Errors
    /// When its name means another registry here.
    pub fn accept(&mut self, locked: &LockedRegistry) -> Result<(), Error> {
        if locked.id == BUNDLED {
            return Ok(());
        }
        if self.trust.registry(&locked.id).is_ok() {
            return Ok(());
        }
        let known = Known { name: locked.id.clone(), place: locked.url.clone(), root: Pin::from(&locked.root) };
        known.place()?;
        edit_trust(&self.places, |trust| trust.add(known.clone()))?;
        self.trust.add(known)?;
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
