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

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::client::{self, Manner, Places, Policy, Registry, Release, View};
use super::lockfile::{self, Lock, LockedRegistry, LockedRole, LockedRoot, LockedRule};
use super::name::RuleName;
use super::store::Store;
use super::trust::{self, Acquaintance, BUNDLED, Known, Pin, Trust};
use super::verify::{Publisher, Review};
use super::wanted::{self, Key, Wanted, Wish};
use super::{Component, EmbeddedFiles, bundled, guard::Guard};
use crate::hint::Hint;

/// Why rules cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// a registry cannot be used
    #[error(transparent)]
    Client(#[from] client::Error),
    /// the user's registries
    #[error(transparent)]
    Trust(#[from] trust::Error),
    /// the lockfile
    #[error(transparent)]
    Lock(#[from] lockfile::Error),
    /// the wanted rules
    #[error(transparent)]
    Wanted(#[from] wanted::Error),
    /// `--locked`, and there is no lock
    #[error("There is no lockfile in `{0}`, and `--locked` needs one")]
    NoLock(PathBuf),
    /// `--locked`, and the lock would change
    #[error("The lockfile in `{folder}` would have to change, and `--locked` forbids it: {why}")]
    LockWouldChange {
        /// project
        folder: PathBuf,
        /// which rule
        why: String,
    },
    /// two wishes for one rule
    #[error("`{rule}` is wanted from two registries: `{first}` and `{second}`")]
    TwoRegistries {
        /// rule
        rule: String,
        /// one
        first: String,
        /// the other
        second: String,
    },
    /// the lock's registry is another one than the user's
    #[error("The lockfile and this machine mean different registries by `{name}`: {why}")]
    Confused {
        /// name of both
        name: String,
        /// what differs
        why: String,
    },
    /// what the lock names is not what the registry has
    #[error("{release} of the registry `{registry}` has SHA-256 {found}, and the lockfile says {locked}")]
    OtherBytes {
        /// rule and version
        release: String,
        /// registry
        registry: String,
        /// hash in the registry
        found: String,
        /// hash in the lock
        locked: String,
    },
    /// the lock names a version that does not exist
    #[error("The lockfile names `{rule}` {version}, and the registry `{registry}` has no such version")]
    NoLockedVersion {
        /// rule
        rule: String,
        /// version
        version: String,
        /// registry
        registry: String,
    },
    /// a rule of the lock that was withdrawn
    #[error("`{rule}` {version} must not be used: {why}")]
    Withdrawn {
        /// rule
        rule: String,
        /// version
        version: String,
        /// reason
        why: String,
    },
    /// a rule of the lock that is not on this machine
    #[error("`{rule}` {version} is in the lockfile `{lock}` and not installed on this machine")]
    NotInstalled {
        /// rule
        rule: String,
        /// version
        version: String,
        /// the lockfile
        lock: PathBuf,
    },
    /// nothing of this name
    #[error("The rule `{rule}` is not installed {place}")]
    NotThere {
        /// as typed
        rule: String,
        /// where
        place: String,
    },
    /// as root, a folder that others can change
    #[error("As root, rules are taken only from folders that nobody else can change, and `{0}` is none")]
    Exposed(PathBuf),
    /// the rules that the binary carries
    #[error(transparent)]
    Bundled(#[from] super::Error),
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Client(error) => error.hint(),
            Self::Trust(error) => error.hint(),
            Self::Lock(error) => error.hint(),
            Self::Wanted(error) => error.hint(),
            Self::NoLock(_) => Some("Make one with `delegate-doctor rules install`, and commit it".to_owned()),
            Self::LockWouldChange { .. } => {
                Some("Run `delegate-doctor rules install` without `--locked`, and commit the lockfile".to_owned())
            }
            Self::TwoRegistries { .. } => Some("Remove one of them from `dd-rules.toml`".to_owned()),
            Self::Confused { name, .. } => Some(format!(
                "Look at both with `delegate-doctor registry list` and in the lockfile. When the project is right, \
                 run `delegate-doctor registry remove {name}` and install again"
            )),
            Self::OtherBytes { .. } => {
                Some("A published version never changes: trust neither until you know why they differ".to_owned())
            }
            Self::Withdrawn { .. } => Some(
                "Run `delegate-doctor rules update`; for a version that its publisher took back, `--allow-yanked` \
                 takes it all the same"
                    .to_owned(),
            ),
            Self::NoLockedVersion { .. } => Some(
                "Take another version with `delegate-doctor rules update`, or the lockfile from version control"
                    .to_owned(),
            ),
            Self::NotInstalled { .. } => Some("Install it with `delegate-doctor rules install --locked`".to_owned()),
            Self::NotThere { .. } => Some("`delegate-doctor rules list` shows what is installed".to_owned()),
            Self::Exposed(folder) => Some(format!(
                "Give it to root alone with `chown -R root: {0} && chmod -R go-w {0}`, or set `DELEGATE_DOCTOR_HOME`",
                folder.display()
            )),
            Self::Bundled(error) => error.hint(),
            Self::Io(error) => error.hint(),
        }
    }
}

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

/// Registries as they are needed, each asked once.
#[derive(Debug)]
pub struct Session {
    places: Places,
    /// whom the user trusts
    pub trust: Trust,
    manner: Manner,
    clock: Timestamp,
    embedded: EmbeddedFiles,
    views: BTreeMap<String, View>,
    /// what the user should know
    pub warnings: Vec<String>,
}

impl Session {
    /// A session; no registry is asked yet.
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

/// What may change beside the wishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// these rules may get another version; none of them: only what has to
    pub update: Vec<RuleName>,
    /// all of them may
    pub update_all: bool,
    /// also what its publisher took back
    pub yanked: bool,
}

/// A rule of a plan.
#[derive(Clone, Debug)]
pub struct Step {
    /// the wish
    pub key: Key,
    /// the registry's name
    pub registry: String,
    /// what was locked before
    pub old: Option<LockedRule>,
    /// what is locked then
    pub new: LockedRule,
    /// its pages, when the registry was asked
    pub release: Option<Release>,
    /// who signed it, when the registry was asked
    pub publisher: Option<Publisher>,
    /// the user allowed it without review
    pub unreviewed: bool,
}

impl Step {
    /// True when the lock changes by it.
    pub fn changes(&self) -> bool {
        self.old.as_ref() != Some(&self.new)
    }
}

/// What would be done.
#[derive(Debug)]
pub struct Plan {
    base: Present,
    wanted: Wanted,
    /// every wanted rule, by name
    pub steps: Vec<Step>,
    /// what is locked and no longer wanted
    pub removed: Vec<LockedRule>,
    lock: Lock,
}

/// How applying a plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// everything is installed
    Done,
    /// another process changed the files meanwhile; nothing was done
    Overtaken,
}

/// Makes a plan for the wishes in `wanted`, beginning at what is there.
///
/// # Errors
/// When a registry cannot be used, or a wish cannot be met.
pub fn plan(session: &mut Session, base: Present, wanted: Wanted, moves: &Moves) -> Result<Plan, Error> {
    let old = base.lock.clone().unwrap_or_default();
    let mut steps: Vec<Step> = Vec::new();
    for (key, wish) in &wanted.rules {
        let registry = key.registry.clone().unwrap_or_else(|| BUNDLED.to_owned());
        if let Some(other) = steps.iter().find(|step| step.key.rule == key.rule) {
            let (first, second) = (other.registry.clone(), registry);
            return Err(Error::TwoRegistries { rule: key.rule.to_string(), first, second });
        }
        steps.push(step(session, key, wish, &registry, &old, moves)?);
    }
    let removed =
        old.rules.iter().filter(|rule| !steps.iter().any(|step| step.key.rule == rule.name)).cloned().collect();
    let mut lock = Lock::default();
    for step in &steps {
        lock.rules.push(step.new.clone());
        if lock.registry(&step.registry).is_none() {
            lock.registries.push(locked_registry(session, &step.registry, &old)?);
        }
    }
    Ok(Plan { base, wanted, steps, removed, lock })
}

/// The registry as the lock holds it: with the newest root when it was asked, else as it was.
fn locked_registry(session: &Session, name: &str, old: &Lock) -> Result<LockedRegistry, Error> {
    if name == BUNDLED {
        let root = LockedRoot { version: 0, sha256: "0".repeat(64) };
        // The tool itself vouches for what it brings along; its version is nobody's floor.
        return Ok(LockedRegistry { id: BUNDLED.to_owned(), url: String::new(), root });
    }
    let before = old.registry(name);
    let url = match before {
        Some(before) => before.url.clone(),
        None => session.trust.registry(name)?.place.clone(),
    };
    let root = match session.views.get(name) {
        Some(view) => LockedRoot { version: view.chain().root_version(), sha256: view.chain().root_sha256() },
        None => match before {
            Some(before) => before.root.clone(),
            None => {
                let pin = &session.trust.registry(name)?.root;
                LockedRoot { version: pin.version, sha256: pin.sha256.clone() }
            }
        },
    };
    Ok(LockedRegistry { id: name.to_owned(), url, root })
}

fn step(
    session: &mut Session,
    key: &Key,
    wish: &Wish,
    registry: &str,
    old: &Lock,
    moves: &Moves,
) -> Result<Step, Error> {
    let locked = old.rule(&key.rule).filter(|locked| locked.registry == registry);
    let wanted = wish.effective();
    let may_move = moves.update_all || moves.update.contains(&key.rule);
    let fits = |locked: &&LockedRule| wanted.matches(&locked.version) && (locked.reviewed || wish.unreviewed);
    if let Some(locked) = locked.filter(fits).filter(|_| !may_move) {
        let mut new = locked.clone();
        new.pinned = wish.pin.is_some();
        let mut step = Step {
            key: key.clone(),
            registry: registry.to_owned(),
            old: Some(locked.clone()),
            new,
            release: None,
            publisher: None,
            unreviewed: wish.unreviewed,
        };
        if !is_at_hand(session, locked, old)? {
            let release = find_locked(session, locked, old, wish, moves)?;
            step.publisher = Some(session.view(registry)?.publisher(key.rule.publisher())?);
            step.release = Some(release);
        }
        return Ok(step);
    }
    if let Some(locked) = old.registry(registry) {
        check_lock(session, locked, old.rule(&key.rule))?;
    }
    let policy = Policy { unreviewed: wish.unreviewed, yanked: moves.yanked };
    let view = session.view(registry)?;
    let release =
        view.choose(&key.rule, Some(&wanted).filter(|wanted| **wanted != semver::VersionReq::STAR), policy)?;
    let publisher = view.publisher(key.rule.publisher())?;
    let version = view.chain().listed().get(key.rule.publisher()).copied().unwrap_or_default();
    let is_reviewed = [&release.component, &release.manifest].iter().all(|signed| signed.review == Review::Reviewed)
        || !view.chain().is_reviewed();
    let mut new = LockedRule {
        name: key.rule.clone(),
        version: release.version.clone(),
        registry: registry.to_owned(),
        sha256: release.component.sha256.clone(),
        length: release.component.length,
        manifest_sha256: release.manifest.sha256.clone(),
        role: LockedRole { name: publisher.name.clone(), version, keyids: publisher.keys.clone() },
        reviewed: is_reviewed,
        contract: release.record.contract.clone(),
        pinned: wish.pin.is_some(),
    };
    // The same version signed once more is no change of the rule.
    if let Some(locked) = locked.filter(|locked| locked.version == new.version && locked.sha256 == new.sha256) {
        new.role.version = locked.role.version;
        if locked.role.keyids == new.role.keyids {
            new.role = locked.role.clone();
        }
    }
    Ok(Step {
        key: key.clone(),
        registry: registry.to_owned(),
        old: old.rule(&key.rule).cloned(),
        new,
        release: Some(release),
        publisher: Some(publisher),
        unreviewed: wish.unreviewed,
    })
}

/// Checks that the user's registry is the one of the lock, and not older.
fn check_lock(session: &mut Session, locked: &LockedRegistry, rule: Option<&LockedRule>) -> Result<(), Error> {
    if locked.id == BUNDLED {
        return Ok(());
    }
    session.accept(locked)?;
    let known = session.trust.registry(&locked.id)?.clone();
    let confused = |why: String| Error::Confused { name: locked.id.clone(), why };
    let pin = Pin::from(&locked.root);
    if pin.version == known.root.version && pin.sha256 != known.root.sha256 {
        return Err(confused(format!(
            "version {} of the root is {} there and {} here",
            pin.version, pin.sha256, known.root.sha256
        )));
    }
    let role = rule.filter(|rule| rule.registry == locked.id).map(|rule| (rule.role.name.as_str(), rule.role.version));
    Ok(session.view(&locked.id)?.check_lock_floor(&pin, role)?)
}

/// True when the component of a locked rule is in the store with what vouches for it, or in the binary.
fn is_at_hand(session: &mut Session, locked: &LockedRule, lock: &Lock) -> Result<bool, Error> {
    if locked.registry == BUNDLED {
        return Ok(session.view(BUNDLED).is_ok_and(|view| {
            let releases = view.releases(&locked.name).unwrap_or_default();
            releases.iter().any(|release| release.component.sha256 == locked.sha256)
        }));
    }
    if session.trust.registry(&locked.registry).is_err() {
        return Ok(false);
    }
    Ok(load(session, locked, Path::new(lockfile::FILE_NAME)).is_ok() && lock.registry(&locked.registry).is_some())
}

/// The version that the lock names, from the registry that the lock names.
fn find_locked(
    session: &mut Session,
    locked: &LockedRule,
    lock: &Lock,
    wish: &Wish,
    moves: &Moves,
) -> Result<Release, Error> {
    if let Some(registry) = lock.registry(&locked.registry) {
        check_lock(session, registry, Some(locked))?;
    }
    let policy = Policy { unreviewed: wish.unreviewed, yanked: true };
    let view = session.view(&locked.registry)?;
    let found = view.releases(&locked.name)?.into_iter().find(|release| release.version == locked.version);
    let release = found.ok_or_else(|| Error::NoLockedVersion {
        rule: locked.name.to_string(),
        version: locked.version.to_string(),
        registry: locked.registry.clone(),
    })?;
    let withdrawn =
        |why: String| Error::Withdrawn { rule: locked.name.to_string(), version: locked.version.to_string(), why };
    if release.component.sha256 != locked.sha256 {
        return Err(Error::OtherBytes {
            release: format!("`{}` {}", locked.name, locked.version),
            registry: locked.registry.clone(),
            found: release.component.sha256,
            locked: locked.sha256.clone(),
        });
    }
    let exact = semver::VersionReq::STAR;
    let wanted = if release.version.pre.is_empty() { Some(&exact) } else { None };
    if release.version.pre.is_empty()
        && let Some((why, _)) = view.exclusion(&release, wanted, policy)
    {
        return Err(withdrawn(format!("it {why}")));
    }
    if let Some(yanked) = release.yanked() {
        let why = format!("its publisher took it back ({})", client::harmless(&yanked.reason));
        if yanked.security && !moves.yanked {
            return Err(withdrawn(why));
        }
        session.warnings.push(format!("`{}` {} is in the lockfile, and {why}", locked.name, locked.version));
    }
    Ok(release)
}

impl Plan {
    /// True when the lock stays as it is.
    pub fn is_unchanged(&self) -> bool {
        self.removed.is_empty() && self.steps.iter().all(|step| !step.changes()) && self.base.lock.is_some()
    }

    /// The lock as it would be.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Publishers that the user has not agreed to, each with the registry and what is known about it.
    pub fn strangers(&self, session: &mut Session) -> Result<Vec<(String, Publisher, Acquaintance)>, Error> {
        let mut strangers: Vec<(String, Publisher, Acquaintance)> = Vec::new();
        for step in &self.steps {
            let Some(publisher) = &step.publisher else { continue };
            let registry = session.registry(&step.registry)?;
            let acquaintance = session.acquaintance(&registry, publisher);
            // Whoever committed the lock agreed to these keys.
            let in_lock = step.old.as_ref().is_some_and(|old| {
                old.registry == step.registry && old.role.name == publisher.name && old.role.keyids == publisher.keys
            });
            let known = strangers.iter().any(|(name, other, _)| *name == step.registry && other.name == publisher.name);
            if acquaintance != Acquaintance::Trusted && !in_lock && !known {
                strangers.push((step.registry.clone(), publisher.clone(), acquaintance));
            }
        }
        Ok(strangers)
    }

    /// Installs everything, then replaces wishes and lock.
    ///
    /// # Errors
    /// When bytes cannot be had or are not what was signed, or a file cannot be written. The lock then stays as it
    /// was.
    pub fn apply(&self, session: &mut Session, scope: &Scope) -> Result<Applied, Error> {
        let store = session.store();
        for step in &self.steps {
            if let Some(release) = step.release.as_ref().filter(|_| step.registry != BUNDLED) {
                session.view(&step.registry)?.install(&store, release, step.unreviewed)?;
            }
        }
        let _guard = store.lock()?;
        if Present::read(scope)? != self.base {
            return Ok(Applied::Overtaken);
        }
        fs_err::create_dir_all(&scope.folder)?;
        store.sweep();
        self.wanted.write(&scope.folder)?;
        let text = self.lock.to_text()?;
        let before = self.base.lock.as_ref().map(Lock::to_text).transpose()?;
        if before.as_ref() != Some(&text) {
            self.lock.write(&scope.folder)?;
        }
        Ok(Applied::Done)
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
    /// the component
    pub bytes: Vec<u8>,
}

/// The bytes of a locked rule, with everything that vouches for them verified again.
///
/// # Errors
/// When it is not on this machine, or not believed.
pub fn load(session: &mut Session, locked: &LockedRule, lock: &Path) -> Result<Loaded, Error> {
    let not_installed = || Error::NotInstalled {
        rule: locked.name.to_string(),
        version: locked.version.to_string(),
        lock: lock.to_path_buf(),
    };
    let store = session.store();
    let bytes = if locked.registry == BUNDLED {
        let view = session.view(BUNDLED)?;
        let releases = view.releases(&locked.name)?;
        let release = releases.iter().find(|release| release.component.sha256 == locked.sha256);
        let release = release.ok_or_else(not_installed)?;
        view.bytes(&store, &release.component)?
    } else {
        let registry = match session.registry(&locked.registry) {
            Err(Error::Trust(trust::Error::Unknown { .. })) => return Err(not_installed()),
            other => other?,
        };
        let record = store.get_record(&registry.pin().id(), &locked.name, &locked.version)?;
        let record = record.filter(|record| record.sha256 == locked.sha256).ok_or_else(not_installed)?;
        if record.unreviewed && locked.reviewed {
            return Err(not_installed());
        }
        registry.replay(&store, &record)?
    };
    Ok(Loaded {
        rule: locked.name.clone(),
        version: locked.version.clone(),
        registry: locked.registry.clone(),
        sha256: locked.sha256.clone(),
        bytes,
    })
}

/// The bundled rules by the hash of their components, as far as the registry in the binary names them.
///
/// # Errors
/// When that registry is damaged.
pub fn bundled_names(session: &mut Session) -> Result<BTreeMap<String, Release>, Error> {
    if session.embedded.is_empty() {
        return Ok(BTreeMap::new());
    }
    let view = session.view(BUNDLED)?;
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
pub fn effective(session: &mut Session, project: Option<&Scope>, locked: bool) -> Result<Vec<Effective>, Error> {
    if let Some(scope) = project {
        let present = Present::read(scope)?;
        let lock = if locked { Some(check_locked(scope, &present)?) } else { present.lock };
        if let Some(lock) = lock {
            return of_lock(session, scope, &lock);
        }
    } else if locked {
        return Err(Error::NoLock(std::env::current_dir().unwrap_or_default()));
    }
    let scope = Scope::of_user(session.places());
    let present = Present::read(&scope)?;
    let installed = of_lock(session, &scope, &present.lock.unwrap_or_default())?;
    let names = bundled_names(session)?;
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

fn of_lock(session: &mut Session, scope: &Scope, lock: &Lock) -> Result<Vec<Effective>, Error> {
    let path = scope.folder.join(lockfile::FILE_NAME);
    let load = |locked: &LockedRule| {
        let loaded = load(session, locked, &path)?;
        let component = Component {
            id: loaded.rule.to_string(),
            version: loaded.version,
            contract: locked.contract.clone(),
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
