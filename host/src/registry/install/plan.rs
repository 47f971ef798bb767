//! What would change, before anything does; then all of it in one step.

use std::path::Path;
use std::sync::Arc;

use super::{Error, Present, Registries, Scope, check_signed, load};
use crate::files;
use crate::registry::client::{self, Policy, Release, harmless};
use crate::registry::key::fingerprint;
use crate::registry::lockfile::{self, Lock, LockedRegistry, LockedRole, LockedRoot, LockedRule};
use crate::registry::name::RuleName;
use crate::registry::trust::{Acquaintance, BUNDLED, Pin};
use crate::registry::verify::{Publisher, Review};
use crate::registry::wanted::{Key, Wanted, Wish};

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
    /// why it stays where it is although it may move, when that is the fault of its publisher or registry
    pub stuck: Option<Arc<client::Error>>,
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
pub fn plan(registries: &mut Registries, base: Present, wanted: Wanted, moves: &Moves) -> Result<Plan, Error> {
    let old = base.lock.clone().unwrap_or_default();
    registries.recognise(&old);
    let mut steps: Vec<Step> = Vec::new();
    for (key, wish) in &wanted.rules {
        let registry = key.registry.clone().unwrap_or_else(|| BUNDLED.to_owned());
        if let Some(other) = steps.iter().find(|step| step.key.rule == key.rule) {
            let (first, second) = (other.registry.clone(), registry);
            return Err(Error::TwoRegistries { rule: key.rule.to_string(), first, second });
        }
        steps.push(step(registries, key, wish, &registry, &old, moves)?);
    }
    let removed =
        old.rules.iter().filter(|rule| !steps.iter().any(|step| step.key.rule == rule.name)).cloned().collect();
    let mut lock = Lock::default();
    for step in &steps {
        lock.rules.push(step.new.clone());
        if lock.registry(&step.registry).is_none() {
            lock.registries.push(locked_registry(registries, &step.registry, &old)?);
        }
    }
    Ok(Plan { base, wanted, steps, removed, lock })
}

/// The registry as the lock holds it: with the newest root when it was asked, else as it was.
fn locked_registry(registries: &Registries, name: &str, old: &Lock) -> Result<LockedRegistry, Error> {
    if name == BUNDLED {
        let root = LockedRoot { version: 0, sha256: "0".repeat(64) };
        // The tool itself vouches for what it brings along; its version is nobody's floor.
        return Ok(LockedRegistry { id: BUNDLED.to_owned(), url: String::new(), root });
    }
    let before = old.registry(name);
    let url = match before {
        Some(before) => before.url.clone(),
        None => registries.known(name)?.place.clone(),
    };
    let root = match registries.views.get(name) {
        Some(view) => LockedRoot { version: view.chain().root_version(), sha256: view.chain().root_sha256() },
        None => match before {
            Some(before) => before.root.clone(),
            None => {
                let pin = &registries.known(name)?.root;
                LockedRoot { version: pin.version, sha256: pin.sha256.clone() }
            }
        },
    };
    Ok(LockedRegistry { id: name.to_owned(), url, root })
}

fn step(
    registries: &mut Registries,
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
        let mut step = kept(key, wish, registry, locked);
        if !is_at_hand(registries, locked, old)? {
            let release = find_locked(registries, locked, old, wish, moves)?;
            step.publisher = Some(registries.view(registry)?.publisher(key.rule.publisher())?);
            step.release = Some(release);
        }
        return Ok(step);
    }
    if let Some(locked) = old.registry(registry) {
        check_lock(registries, locked, old.rule(&key.rule))?;
    }
    let policy = Policy { unreviewed: wish.unreviewed, yanked: moves.yanked };
    let view = registries.view(registry)?;
    let chosen = view.choose(&key.rule, Some(&wanted).filter(|wanted| **wanted != semver::VersionReq::STAR), policy);
    let release = match (chosen, locked.filter(fits)) {
        // Where everything is updated, one rule that cannot move does not keep the others where they are.
        (Err(error @ client::Error::NoVersion { .. }), Some(locked)) if !moves.update.contains(&key.rule) => {
            registries.warnings.push(format!("`{}` stays at {}. {error}", locked.name, locked.version));
            return Ok(kept(key, wish, registry, locked));
        }
        (Err(error @ (client::Error::NoRule { .. } | client::Error::Refused(_))), Some(locked)) if moves.update_all => {
            return Ok(Step { stuck: Some(Arc::new(error)), ..kept(key, wish, registry, locked) });
        }
        (chosen, _) => chosen?,
    };
    let view = registries.view(registry)?;
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
        stuck: None,
    })
}

/// A step that leaves a rule at its version.
fn kept(key: &Key, wish: &Wish, registry: &str, locked: &LockedRule) -> Step {
    let mut new = locked.clone();
    new.pinned = wish.pin.is_some();
    Step {
        key: key.clone(),
        registry: registry.to_owned(),
        old: Some(locked.clone()),
        new,
        release: None,
        publisher: None,
        unreviewed: wish.unreviewed,
        stuck: None,
    }
}

/// Checks that the user's registry is the one of the lock, and not older.
fn check_lock(registries: &mut Registries, locked: &LockedRegistry, rule: Option<&LockedRule>) -> Result<(), Error> {
    if locked.id == BUNDLED {
        return Ok(());
    }
    registries.accept(locked)?;
    let known = registries.known(&locked.id)?.clone();
    let confused = |why: String| Error::Confused { name: locked.id.clone(), why };
    let pin = Pin::from(&locked.root);
    if pin.version == known.root.version && pin.sha256 != known.root.sha256 {
        return Err(confused(format!(
            "version {} of the root is {} there and {} here",
            pin.version, pin.sha256, known.root.sha256
        )));
    }
    let role = rule.filter(|rule| rule.registry == locked.id).map(|rule| (rule.role.name.as_str(), rule.role.version));
    Ok(registries.view(&locked.id)?.check_lock_floor(&pin, role)?)
}

/// True when the component of a locked rule is in the store with what vouches for it, or in the binary.
fn is_at_hand(registries: &mut Registries, locked: &LockedRule, lock: &Lock) -> Result<bool, Error> {
    if locked.registry == BUNDLED {
        return Ok(registries.view(BUNDLED).is_ok_and(|view| {
            let releases = view.releases(&locked.name).unwrap_or_default();
            releases.iter().any(|release| release.component.sha256 == locked.sha256)
        }));
    }
    if registries.known(&locked.registry).is_err() {
        return Ok(false);
    }
    Ok(load(registries, locked, Path::new(lockfile::FILE_NAME)).is_ok() && lock.registry(&locked.registry).is_some())
}

/// The version that the lock names, from the registry that the lock names.
fn find_locked(
    registries: &mut Registries,
    locked: &LockedRule,
    lock: &Lock,
    wish: &Wish,
    moves: &Moves,
) -> Result<Release, Error> {
    if let Some(registry) = lock.registry(&locked.registry) {
        check_lock(registries, registry, Some(locked))?;
    }
    // What is locked as reviewed has to be.
    let policy = Policy { unreviewed: wish.unreviewed && !locked.reviewed, yanked: true };
    let view = registries.view(&locked.registry)?;
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
    check_signed(locked, release.component.length, &release.record)?;
    let exact = semver::VersionReq::STAR;
    let wanted = if release.version.pre.is_empty() { Some(&exact) } else { None };
    if release.version.pre.is_empty()
        && let Some((why, _)) = view.exclusion(&release, wanted, policy)
    {
        return Err(withdrawn(format!("it {why}")));
    }
    if let Some(yanked) = release.yanked() {
        let why = format!("its publisher took it back ({})", harmless(&yanked.reason));
        if yanked.security && !moves.yanked {
            return Err(withdrawn(why));
        }
        registries.warnings.push(format!("`{}` {} is in the lockfile, and {why}", locked.name, locked.version));
    }
    Ok(release)
}

impl Plan {
    /// The first rule that could not be moved, through the fault of its publisher or registry, as an error.
    ///
    /// # Errors
    /// When there is one.
    pub fn check_stuck(&self) -> Result<(), Error> {
        match self.steps.iter().find_map(|step| Some((step, step.stuck.clone()?))) {
            None => Ok(()),
            Some((step, source)) => {
                let (rule, version) = (step.new.name.to_string(), step.new.version.to_string());
                Err(Error::Stuck { rule, version, source })
            }
        }
    }

    /// Rules that would come onto this machine although the maintainers of their registry have not reviewed them.
    pub fn unreviewed(&self) -> impl Iterator<Item = &LockedRule> {
        let arriving = self.steps.iter().filter(|step| step.release.is_some() && step.registry != BUNDLED);
        arriving.map(|step| &step.new).filter(|new| !new.reviewed)
    }

    /// True when the lock stays as it is.
    pub fn is_unchanged(&self) -> bool {
        self.removed.is_empty() && self.steps.iter().all(|step| !step.changes()) && self.base.lock.is_some()
    }

    /// The lock as it would be.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Publishers that the user has not agreed to, each with the registry and what is known about it.
    pub fn strangers(&self, registries: &mut Registries) -> Result<Vec<(String, Publisher, Acquaintance)>, Error> {
        let mut strangers: Vec<(String, Publisher, Acquaintance)> = Vec::new();
        for step in &self.steps {
            let Some(publisher) = &step.publisher else { continue };
            let registry = registries.registry(&step.registry)?;
            let acquaintance = registries.acquaintance(&registry, publisher);
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

    /// Checks that publishers sign with the keys that the lock holds, or with keys that the user trusts.
    ///
    /// # Errors
    /// When one signs with others.
    pub fn check_keys(&self, registries: &mut Registries) -> Result<(), Error> {
        match self.strangers(registries)?.into_iter().next() {
            None => Ok(()),
            Some((registry, publisher, _)) => {
                let found: Vec<String> = publisher.keys.iter().map(|key| fingerprint(key)).collect();
                let start = publisher.keys.first().map(|key| key.chars().take(16).collect()).unwrap_or_default();
                let (publisher, found) = (publisher.name, found.join(", "));
                Err(Error::OtherKeys { publisher, registry, found, start })
            }
        }
    }

    /// Installs everything, then replaces wishes and lock.
    ///
    /// # Errors
    /// When bytes cannot be had or are not what was signed, or a file cannot be written. The lock then stays as it
    /// was.
    pub fn apply(&self, registries: &mut Registries, scope: &Scope) -> Result<Applied, Error> {
        let store = registries.store();
        for step in &self.steps {
            if let Some(release) = step.release.as_ref().filter(|_| step.registry != BUNDLED) {
                registries.view(&step.registry)?.install(&store, release, step.unreviewed)?;
            }
        }
        let _guard = store.lock()?;
        if Present::read(scope)? != self.base {
            return Ok(Applied::Overtaken);
        }
        fs_err::create_dir_all(&scope.folder)?;
        store.sweep();
        // Whoever writes here holds the lock, so these are of killed processes.
        files::sweep_unfinished(&scope.folder, std::time::Duration::ZERO);
        self.wanted.write(&scope.folder)?;
        let text = self.lock.to_text()?;
        let before = self.base.lock.as_ref().map(Lock::to_text).transpose()?;
        if before.as_ref() != Some(&text) {
            self.lock.write(&scope.folder)?;
        }
        Ok(Applied::Done)
    }
}
