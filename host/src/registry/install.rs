//! From what is wanted to what is installed, for a project or for the user.
//!
//! ```text
//! dd-rules.toml ─► plan (registries are asked, nothing is changed) ─► the user agrees ─► apply
//!                    └ dd-rules.lock: what is there stays, unless it is to be updated
//! ```
//!
//! A plan holds for the files that it was made from. [`Plan::apply`] brings every component into the store, with
//! what vouches for it, before the lockfile names it; replacing the lockfile is the one step that counts. When
//! another process was faster, it changes nothing and says so.

mod error;
mod plan;
mod registries;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::client::{Places, Release};
use super::lockfile::{self, Lock, LockedRule};
use super::metadata::RuleRecord;
use super::name::RuleName;
use super::trust::{self, BUNDLED};
use super::wanted::{self, Wanted};
use super::{Component, bundled};

pub use error::Error;
pub use plan::{Applied, Moves, Plan, Step, plan};
pub use registries::{Registries, edit_trust};

/// Whose rules: a project's, or the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// folder of `dd-rules.toml` and `dd-rules.lock`
    pub folder: PathBuf,
    /// a project's
    pub is_project: bool,
}

/// Files that make a folder a project.
const PROJECT_FILES: [&str; 3] = [wanted::FILE_NAME, lockfile::FILE_NAME, "delegate-doctor.toml"];

impl Scope {
    /// The project of `folder` or of the nearest one above it, when there is one.
    pub fn of_project(folder: &Path) -> Option<Self> {
        let is_project = |folder: &&Path| PROJECT_FILES.iter().any(|name| folder.join(name).is_file());
        folder.ancestors().find(is_project).map(Self::project)
    }

    /// This folder as a project.
    pub fn project(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), is_project: true }
    }

    /// The user's own rules.
    pub fn of_user(places: &Places) -> Self {
        Self { folder: places.rules.clone(), is_project: false }
    }

    /// For a message: `in the project …`, `for this user`.
    pub fn told(&self) -> String {
        if self.is_project { format!("in the project `{}`", self.folder.display()) } else { "for this user".to_owned() }
    }
}

/// What is there of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// what is wanted
    pub wanted: Wanted,
    /// what is installed
    pub lock: Option<Lock>,
}

impl Present {
    /// Reads both files.
    ///
    /// # Errors
    /// When one cannot be read or understood.
    pub fn read(scope: &Scope) -> Result<Self, Error> {
        Ok(Self { wanted: Wanted::read(&scope.folder)?.unwrap_or_default(), lock: Lock::read(&scope.folder)? })
    }
}

/// Checks that the lock meets every wish and holds nothing else.
///
/// # Errors
/// When there is no lock, or it does not.
pub fn check_locked(scope: &Scope, present: &Present) -> Result<Lock, Error> {
    let lock = present.lock.clone().ok_or_else(|| Error::NoLock(scope.folder.clone()))?;
    let change = |why: String| Error::LockWouldChange { folder: scope.folder.clone(), why };
    for (key, wish) in &present.wanted.rules {
        let registry = key.registry.as_deref().unwrap_or(BUNDLED);
        let locked = lock.rule(&key.rule).filter(|locked| locked.registry == registry);
        let locked = locked.ok_or_else(|| change(format!("`{key}` is wanted and not locked")))?;
        if !wish.effective().matches(&locked.version) {
            return Err(change(format!("`{key}` is locked at {}, and {} is wanted", locked.version, wish.effective())));
        }
        if !locked.reviewed && !wish.unreviewed {
            return Err(change(format!("`{key}` is locked without review, and `allow-unreviewed` is not set")));
        }
    }
    let extra = lock.rules.iter().find(|rule| present.wanted.find(&rule.name).is_none());
    match extra {
        Some(extra) => Err(change(format!("`{}` is locked and not wanted", extra.name))),
        None => Ok(lock),
    }
}

/// A rule whose bytes were verified just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// the rule
    pub rule: RuleName,
    /// its version
    pub version: semver::Version,
    /// the registry's name
    pub registry: String,
    /// lower-case hex SHA-256 of the bytes
    pub sha256: String,
    /// contract that it was built for, as its publisher signed it
    pub contract: semver::Version,
    /// the component
    pub bytes: Vec<u8>,
}

/// The bytes of a locked rule, with everything that vouches for them verified again. That its publisher took it back
/// is told as a warning, as far as it was heard of.
///
/// # Errors
/// When it is not on this machine, or not believed.
pub fn load(registries: &mut Registries, locked: &LockedRule, lock: &Path) -> Result<Loaded, Error> {
    let not_installed = || Error::NotInstalled {
        rule: locked.name.to_string(),
        version: locked.version.to_string(),
        lock: lock.to_path_buf(),
    };
    let store = registries.store();
    let (bytes, record) = if locked.registry == BUNDLED {
        let view = registries.view(BUNDLED)?;
        let releases = view.releases(&locked.name)?;
        let same = |release: &&Release| release.component.sha256 == locked.sha256 && release.version == locked.version;
        let release = releases.iter().find(same).ok_or_else(not_installed)?;
        (view.bytes(&store, &release.component)?, release.record.clone())
    } else {
        let registry = match registries.registry(&locked.registry) {
            Err(Error::Trust(trust::Error::Unknown { .. })) => return Err(not_installed()),
            other => other?,
        };
        registries.warn_when_forgotten(&registry);
        let record = store.get_record(&registry.pin().id(), &locked.name, &locked.version)?;
        let record = record.filter(|record| record.sha256 == locked.sha256).ok_or_else(not_installed)?;
        if record.unreviewed && locked.reviewed {
            return Err(not_installed());
        }
        let replayed = registry.replay(&store, &record)?;
        registries.warn_when_yanked(locked)?;
        (replayed.bytes, replayed.record)
    };
    check_signed(locked, bytes.len() as u64, &record)?;
    Ok(Loaded {
        rule: locked.name.clone(),
        version: locked.version.clone(),
        registry: locked.registry.clone(),
        sha256: locked.sha256.clone(),
        contract: record.contract,
        bytes,
    })
}

/// Checks what else the lockfile says about a component whose hash it has.
fn check_signed(locked: &LockedRule, length: u64, record: &RuleRecord) -> Result<(), Error> {
    for (what, found, says) in [
        ("a length of", length.to_string(), locked.length.to_string()),
        ("a manifest with the SHA-256", record.manifest.clone(), locked.manifest_sha256.clone()),
        ("the contract", record.contract.to_string(), locked.contract.to_string()),
    ] {
        if found != says {
            let release = format!("`{}` {}", locked.name, locked.version);
            return Err(Error::OtherThanLocked {
                release,
                registry: locked.registry.clone(),
                what,
                found,
                locked: says,
            });
        }
    }
    Ok(())
}

/// The bundled rules by the hash of their components, as far as the registry in the binary names them.
///
/// # Errors
/// When that registry is damaged.
pub fn bundled_names(registries: &mut Registries) -> Result<BTreeMap<String, Release>, Error> {
    if registries.embedded.is_empty() {
        return Ok(BTreeMap::new());
    }
    let view = registries.view(BUNDLED)?;
    let mut names = BTreeMap::new();
    for publisher in view.publishers() {
        for release in view.of_publisher(&publisher.name)? {
            names.insert(release.component.sha256.clone(), release);
        }
    }
    Ok(names)
}

/// A rule that takes part in runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// its name in a registry, when it has one
    pub rule: Option<RuleName>,
    /// the registry's name
    pub registry: String,
    /// the component, verified just now
    pub component: Component,
    /// it stays at its version
    pub pinned: bool,
    /// the maintainers of its registry countersigned it
    pub reviewed: bool,
}

/// The rules that a run uses: exactly those of the project's lockfile, when it has one; else the bundled ones, as
/// far as the user kept them, and those that the user installed. `locked` insists on a lockfile that meets every
/// wish.
///
/// # Errors
/// When one of them is missing or not believed: a run with other rules than these would be another run.
pub fn effective(registries: &mut Registries, project: Option<&Scope>, locked: bool) -> Result<Vec<Effective>, Error> {
    if let Some(scope) = project {
        let present = Present::read(scope)?;
        let lock = if locked { Some(check_locked(scope, &present)?) } else { present.lock };
        if let Some(lock) = lock {
            return of_lock(registries, scope, &lock);
        }
        if !present.wanted.is_new() {
            registries.warnings.push(format!(
                "The project `{}` has wishes in `{}` and no lockfile, so the rules of this user are used; \
                 `delegate-doctor rules install` makes one",
                scope.folder.display(),
                wanted::FILE_NAME
            ));
        }
    } else if locked {
        return Err(Error::NoLock(std::env::current_dir().unwrap_or_default()));
    }
    let scope = Scope::of_user(registries.places());
    let present = Present::read(&scope)?;
    let installed = of_lock(registries, &scope, &present.lock.unwrap_or_default())?;
    let names = bundled_names(registries)?;
    let mut all = Vec::new();
    for component in bundled()? {
        let rule = names.get(&component.sha256).map(|release| release.rule.clone());
        let replaced = rule.as_ref().is_some_and(|rule| {
            present.wanted.without.contains(rule) || installed.iter().any(|other| other.rule.as_ref() == Some(rule))
        });
        if !replaced {
            let registry = BUNDLED.to_owned();
            all.push(Effective { rule, registry, component, pinned: false, reviewed: true });
        }
    }
    all.extend(installed);
    Ok(all)
}

fn of_lock(registries: &mut Registries, scope: &Scope, lock: &Lock) -> Result<Vec<Effective>, Error> {
    registries.recognise(lock);
    let path = scope.folder.join(lockfile::FILE_NAME);
    let load = |locked: &LockedRule| {
        let loaded = load(registries, locked, &path)?;
        let component = Component {
            id: loaded.rule.to_string(),
            version: loaded.version,
            contract: loaded.contract,
            sha256: loaded.sha256,
            bytes: std::borrow::Cow::Owned(loaded.bytes),
        };
        Ok(Effective {
            rule: Some(loaded.rule),
            registry: loaded.registry,
            component,
            pinned: locked.pinned,
            reviewed: locked.reviewed,
        })
    };
    lock.rules.iter().map(load).collect()
}
