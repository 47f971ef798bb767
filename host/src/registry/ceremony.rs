//! The maintainers' side: other keys for a role, signatures that arrive one by one, and what has to be signed
//! again before it expires.
//!
//! A root counts as soon as it lies in `metadata/`, so one that still lacks signatures waits in `staging/`,
//! where further holders of keys find it. All other documents wait in `metadata/`, because no client asks for
//! them before a snapshot names them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fs_err as fs;
use jiff::SignedDuration;

use super::key::{PublicKey, SigningKey};
use super::layout;
use super::metadata::{Document, Envelope, Key, Root};
use super::writer::{Error, Repository, STAGING, role_keys, role_name};
use crate::files;
use crate::sandbox::printable;

/// The roles that the root binds to keys.
pub const ROOT_ROLES: [&str; 4] = ["root", "targets", "snapshot", "timestamp"];

/// How far a new root is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootState {
    /// it holds from now on
    Complete {
        /// its version
        version: u64,
    },
    /// it lacks signatures
    Waits {
        /// where
        path: PathBuf,
        /// signatures by keys of the root before it, and how many it takes
        old: (usize, u32),
        /// signatures by its own keys, and how many it takes
        own: (usize, u32),
    },
}

/// What signing again came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resigned {
    /// documents that clients see from now on: `acme 3`
    pub published: Vec<String>,
    /// version of the new snapshot, when one was made
    pub snapshot: Option<u64>,
    /// version of the new timestamp
    pub timestamp: u64,
}

/// A document that does not hold much longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// which
    pub role: String,
    /// whole days that are left; negative when it has expired
    pub days: i64,
}

impl Repository {
    /// Makes the next root, or changes the one that waits, and signs it.
    ///
    /// # Errors
    /// When a key belongs neither to the root before nor to this one, or the change is refused.
    pub fn change_root(
        &self,
        signing: &[&SigningKey],
        change: impl FnOnce(&mut Root) -> Result<(), Error>,
    ) -> Result<RootState, Error> {
        let old = self.root()?;
        let mut envelope = match self.staged_root(&old)? {
            Some(staged) => staged,
            None => {
                let mut root = old.signed.clone();
                root.version = self.following("root", Some(root.version))?;
                Envelope::unsigned(root)
            }
        };
        let before = envelope.signed.clone();
        change(&mut envelope.signed)?;
        let root = &mut envelope.signed;
        let used: BTreeSet<String> = root.roles.values().flat_map(|role| role.keyids.clone()).collect();
        root.keys.retain(|id, _| used.contains(id));
        root.expires = self.until("root", self.lifetimes.root)?;
        if *root != before {
            envelope.signatures.clear();
        }
        self.finish_root(&old, envelope, signing)
    }

    /// Adds signatures to the root that waits.
    ///
    /// # Errors
    /// When none waits, or a key belongs neither to the root before nor to this one.
    pub fn sign_root(&self, signing: &[&SigningKey]) -> Result<RootState, Error> {
        let old = self.root()?;
        let staged = self.staged_root(&old)?;
        let staged = staged.ok_or_else(|| self.no_role("root that waits for signatures".to_owned()))?;
        self.finish_root(&old, staged, signing)
    }

    fn finish_root(
        &self,
        old: &Envelope<Root>,
        mut envelope: Envelope<Root>,
        signing: &[&SigningKey],
    ) -> Result<RootState, Error> {
        let missing = || self.no_role(role_name("root"));
        let old_role = old.signed.roles.get("root").ok_or_else(missing)?;
        let own_role = envelope.signed.roles.get("root").cloned().ok_or_else(missing)?;
        for key in signing {
            let public = key.public();
            let id = public.key_id();
            if !old_role.keyids.contains(&id) && !own_role.keyids.contains(&id) {
                return Err(Error::ForeignKey { fingerprint: public.fingerprint(), role: role_name("root") });
            }
        }
        self.sign_all(&mut envelope, signing)?;
        let count =
            |role, keys: &BTreeMap<String, Key>| envelope.signers(role, keys).map_err(|source| self.document(source));
        let old_count = (count(old_role, &old.signed.keys)?, old_role.threshold);
        let own_count = (count(&own_role, &envelope.signed.keys)?, own_role.threshold);
        if old_count.0 == 0 {
            return Err(Error::BegunByOthers { version: old.signed.version });
        }
        let version = envelope.signed.version;
        let bytes = self.bytes(&envelope)?;
        let staged = self.staged_root_path(version);
        let enough = |(found, threshold): (usize, u32)| threshold > 0 && found >= threshold as usize;
        if enough(old_count) && enough(own_count) {
            self.write(&layout::metadata_path(version, "root"), &bytes)?;
            if staged.exists() {
                fs::remove_file(&staged)?;
            }
            return Ok(RootState::Complete { version });
        }
        self.write(&format!("{STAGING}/{version}.root.json"), &bytes)?;
        Ok(RootState::Waits { path: staged, old: old_count, own: own_count })
    }

    fn staged_root_path(&self, version: u64) -> PathBuf {
        self.folder().join(STAGING).join(format!("{version}.root.json"))
    }

    /// The root that waits; none when nobody began one. Anybody who can change the folder could have put it there,
    /// so it counts only with a signature by a key of the root before it.
    fn staged_root(&self, old: &Envelope<Root>) -> Result<Option<Envelope<Root>>, Error> {
        let version = self.following("root", Some(old.signed.version))?;
        let path = self.staged_root_path(version);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = files::read_regular(&path, layout::MOST_ROOT_BYTES)?;
        let what = format!("`{STAGING}/{version}.root.json`");
        let staged = Envelope::parse(&what, &bytes).map_err(|source| self.document(source))?;
        match self.check_next_root(old, &staged) {
            Ok(()) => Ok(Some(staged)),
            Err(why) => Err(Error::StrangeRoot { path, why }),
        }
    }

    /// Checks that a root that lacks signatures follows the present one and was begun by a holder of its keys.
    ///
    /// # Errors
    /// The reason when it was not.
    pub(super) fn check_next_root(&self, old: &Envelope<Root>, next: &Envelope<Root>) -> Result<(), String> {
        let expected = old.signed.version.saturating_add(1);
        if next.signed.version != expected {
            return Err(format!("it says it is version {}, and version {expected} comes next", next.signed.version));
        }
        let role = old.signed.roles.get("root").ok_or("the root before it names no keys of its own")?;
        match next.signers(role, &old.signed.keys) {
            Ok(0) => Err("no key of the root before it has signed it".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What the next root would change, one line each; what it changed when none waits.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn next_root_changes(&self) -> Result<Vec<String>, Error> {
        let root = self.root()?;
        if let Some(staged) = self.staged_root(&root)? {
            return Ok(root_changes(&root.signed, &staged.signed));
        }
        match root.signed.version {
            0 | 1 => Ok(Vec::new()),
            version => {
                let (before, _): (Envelope<Root>, _) = self.read(version - 1, "root")?;
                Ok(root_changes(&before.signed, &root.signed))
            }
        }
    }

    /// Gives a role other keys; `signing` are keys of the root for the root's roles, of the top role for the
    /// others. None when the top role was changed, which a snapshot publishes.
    ///
    /// # Errors
    /// When there is no such role, or the threshold cannot be reached.
    pub fn rotate(
        &self,
        role: &str,
        keys: &[PublicKey],
        threshold: u32,
        signing: &[&SigningKey],
    ) -> Result<Option<RootState>, Error> {
        if !ROOT_ROLES.contains(&role) {
            self.replace_keys(role, keys, threshold, signing)?;
            return Ok(None);
        }
        let state = self.change_root(signing, |root| {
            let bound = role_keys(&role_name(role), keys, threshold, &mut root.keys)?;
            root.roles.insert(role.to_owned(), bound);
            Ok(())
        })?;
        Ok(Some(state))
    }

    /// The public keys of a role, for changing some of them.
    ///
    /// # Errors
    /// When there is no such role.
    pub fn public_keys(&self, role: &str) -> Result<(Vec<PublicKey>, u32), Error> {
        let (signers, keys) = self.signers(role)?;
        let public = signers.keyids.iter().filter_map(|id| keys.get(id).and_then(Key::public)).collect();
        Ok((public, signers.threshold))
    }

    /// Signs what the online key signs: a snapshot when documents wait or the old one has less than a third of
    /// its life left, and a timestamp in any case.
    ///
    /// # Errors
    /// When a document that waits lacks signatures, or a key is not of its role.
    pub fn resign(&self, snapshot: &[&SigningKey], timestamp: &[&SigningKey]) -> Result<Resigned, Error> {
        let published = self.waiting()?;
        let old = self.snapshot()?;
        let ends = old.is_none_or(|old| self.is_due(old.signed.expires(), self.lifetimes.snapshot));
        let signers_changed = self.signed_by_others("snapshot")?;
        let renew = ends || signers_changed || !published.is_empty();
        if renew {
            self.snapshot_and_timestamp(snapshot, timestamp)?;
        } else {
            self.renew_timestamp(timestamp)?;
        }
        let snapshot = if renew { self.newest("snapshot")? } else { None };
        let timestamp = self.current_timestamp()?.map_or(0, |timestamp| timestamp.signed.version);
        Ok(Resigned { published, snapshot, timestamp })
    }

    /// True when the newest snapshot lacks signatures of the keys that the newest root names.
    fn signed_by_others(&self, role: &str) -> Result<bool, Error> {
        let Some(snapshot) = self.snapshot()? else { return Ok(false) };
        let (signers, keys) = self.signers(role)?;
        Ok(snapshot.verify("it", &signers, &keys).is_err())
    }

    /// Documents that no snapshot names yet: `acme 3`.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn waiting(&self) -> Result<Vec<String>, Error> {
        let published = self.snapshot()?.map(|snapshot| snapshot.signed.meta).unwrap_or_default();
        let mut waiting = Vec::new();
        for role in self.listing_roles()? {
            let newest = self.newest(&role)?;
            let seen = published.get(&format!("{role}.json")).map(|file| file.version);
            if let Some(version) = newest.filter(|_| newest != seen) {
                waiting.push(format!("{role} {version}"));
            }
        }
        Ok(waiting)
    }

    /// Documents with less than a third of their life left, the most urgent first.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn alarms(&self) -> Result<Vec<Alarm>, Error> {
        let mut ends = vec![
            ("root".to_owned(), self.root()?.signed.expires, self.lifetimes.root),
            ("targets".to_owned(), self.targets()?.signed.expires, self.lifetimes.targets),
        ];
        if let Some(snapshot) = self.snapshot()? {
            ends.push(("snapshot".to_owned(), snapshot.signed.expires, self.lifetimes.snapshot));
        }
        if let Some(timestamp) = self.current_timestamp()? {
            ends.push(("timestamp".to_owned(), timestamp.signed.expires, self.lifetimes.timestamp));
        }
        for role in self.listing_roles()?.into_iter().filter(|role| role != "targets") {
            if let Some(document) = self.role(&role)? {
                let lifetime = self.lifetime(&role);
                ends.push((role, document.signed.expires, lifetime));
            }
        }
        let mut alarms: Vec<Alarm> = ends
            .into_iter()
            .filter(|(_, expires, lifetime)| self.is_due(*expires, *lifetime))
            .map(|(role, expires, _)| Alarm { role, days: expires.duration_since(self.now).as_hours().div_euclid(24) })
            .collect();
        alarms.sort_by_key(|alarm| alarm.days);
        Ok(alarms)
    }

    fn is_due(&self, expires: jiff::Timestamp, lifetime: SignedDuration) -> bool {
        expires.duration_since(self.now) < lifetime / 3
    }
}

/// How one root differs from another, one line each: keys, thresholds and the end of its life.
pub(super) fn root_changes(old: &Root, new: &Root) -> Vec<String> {
    let mut changes = Vec::new();
    let names: BTreeSet<&String> = old.roles.keys().chain(new.roles.keys()).collect();
    for name in names {
        let role = |root: &Root| {
            let role = root.roles.get(name);
            let keys: BTreeSet<String> = role.into_iter().flat_map(|role| role.keyids.clone()).collect();
            (keys, role.map_or(0, |role| role.threshold))
        };
        let ((old_keys, old_threshold), (new_keys, new_threshold)) = (role(old), role(new));
        let told = |root: &Root, id: &String| {
            let public = root.keys.get(id).and_then(Key::public);
            public.map_or_else(|| format!("{} (no Ed25519 key)", printable(id, 64)), |public| public.fingerprint())
        };
        let name = printable(name, 80);
        changes.extend(new_keys.difference(&old_keys).map(|id| format!("`{name}` gets the key {}", told(new, id))));
        changes.extend(old_keys.difference(&new_keys).map(|id| format!("`{name}` loses the key {}", told(old, id))));
        if old_threshold != new_threshold {
            changes.push(format!("`{name}` needs {new_threshold} signatures and not {old_threshold}"));
        }
    }
    if old.consistent_snapshot != new.consistent_snapshot {
        changes.push(format!("`consistent_snapshot` is {}", new.consistent_snapshot));
    }
    changes.push(format!("it ends on {}", new.expires.strftime("%Y-%m-%d")));
    changes
}

#[cfg(test)]
mod tests {
    use super::super::writer::{Keys, Signers};
    use super::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed(&[seed; 32])
    }

    fn registry(folder: &std::path::Path) -> Repository {
        let keys = Keys {
            root: Signers { keys: [1, 2, 3].map(key).to_vec(), threshold: 2 },
            targets: Signers::one(key(4)),
            reviewed: Signers::one(key(6)),
            snapshot: Signers::one(key(7)),
            timestamp: Signers::one(key(7)),
        };
        let now = "2027-01-31T12:00:00Z".parse().expect("time");
        let registry = Repository::init(&folder.join("registry"), &keys, now).expect("registry");
        registry.add_publisher("acme", &[key(20).public()], 1, &[&key(4)]).expect("acme");
        registry.resign(&[&key(7)], &[&key(7)]).expect("resigned");
        registry
    }

    #[test]
    fn a_root_waits_until_old_and_new_keys_have_signed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let registry = registry(folder.path());
        let own = [key(1).public(), key(11).public(), key(12).public()];
        let state = registry.rotate("root", &own, 2, &[&key(1)]).expect("begun").expect("a root");
        let path = registry.folder().join("staging/2.root.json");
        assert_eq!(state, RootState::Waits { path: path.clone(), old: (1, 2), own: (1, 2) });
        assert_eq!(registry.root().expect("root").signed.version, 1, "clients see the old one");
        let error = registry.sign_root(&[&key(99)]).expect_err("foreign").to_string();
        assert_eq!(error, format!("The key {} signs nothing for role `root`", key(99).public().fingerprint()));
        let state = registry.sign_root(&[&key(11)]).expect("signed");
        assert_eq!(state, RootState::Waits { path: path.clone(), old: (1, 2), own: (2, 2) });
        let state = registry.sign_root(&[&key(3)]).expect("signed");
        assert_eq!(state, RootState::Complete { version: 2 });
        assert!(!path.exists());
        let root = registry.root().expect("root");
        assert_eq!(root.signed.version, 2);
        assert!(!root.signed.keys.contains_key(&key(2).public().key_id()), "a key that signs nothing is gone");
        let error = registry.sign_root(&[&key(3)]).expect_err("none waits").to_string();
        assert!(error.ends_with("has no root that waits for signatures"), "{error}");
    }

    #[test]
    fn a_root_that_no_holder_of_a_key_began_is_not_signed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let registry = registry(folder.path());
        let error = registry.rotate("root", &[key(99).public()], 1, &[&key(99)]).expect_err("by its own key only");
        assert_eq!(error.to_string(), "The first signature of the next root must be by a key of root 1");
        let path = registry.folder().join("staging/2.root.json");
        assert!(!path.exists());

        // What anybody can put there: a root that gives a key of theirs every role.
        let mut root = registry.root().expect("root").signed;
        root.version = 2;
        for role in root.roles.values_mut() {
            let id = key(99).public().key_id();
            role.keyids.push(id.clone());
            role.threshold = 1;
            root.keys.insert(id, Key::of(&key(99).public()));
        }
        let mut envelope = Envelope::unsigned(root);
        registry.sign_all(&mut envelope, &[&key(99)]).expect("signed by the stranger");
        registry.write("staging/2.root.json", &registry.bytes(&envelope).expect("bytes")).expect("put there");
        let expected = format!(
            "The root that waits in `{}` is not believed: no key of the root before it has signed it",
            path.display()
        );
        for error in [
            registry.sign_root(&[&key(1)]).expect_err("signing"),
            registry.rotate("timestamp", &[key(8).public()], 1, &[&key(1), &key(2)]).expect_err("changing"),
            registry.next_root_changes().expect_err("looking"),
        ] {
            assert_eq!(error.to_string(), expected);
        }
        fs::remove_file(&path).expect("removed");
        registry.rotate("timestamp", &[key(8).public()], 1, &[&key(1)]).expect("begun anew");
        let changes = registry.next_root_changes().expect("changes");
        let told = |key: SigningKey| key.public().fingerprint();
        let expected = [
            format!("`timestamp` gets the key {}", told(key(8))),
            format!("`timestamp` loses the key {}", told(key(7))),
            "it ends on 2028-03-06".to_owned(),
        ];
        assert_eq!(changes, expected);
        registry.sign_root(&[&key(2)]).expect("complete");
        assert_eq!(registry.next_root_changes().expect("changes"), expected);
    }

    #[test]
    fn a_changed_root_loses_its_signatures() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let registry = registry(folder.path());
        registry.rotate("timestamp", &[key(8).public()], 1, &[&key(1)]).expect("begun");
        let state = registry.rotate("timestamp", &[key(9).public()], 1, &[&key(2)]).expect("changed").expect("a root");
        assert!(matches!(state, RootState::Waits { old: (1, 2), .. }), "{state:?}");
    }

    #[test]
    fn a_new_online_key_signs_snapshot_and_timestamp_anew() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let registry = registry(folder.path());
        for role in ["snapshot", "timestamp"] {
            registry.rotate(role, &[key(8).public()], 1, &[&key(1), &key(2)]).expect("rotated");
        }
        let error = registry.resign(&[&key(7)], &[&key(7)]).expect_err("the old key");
        assert!(matches!(error, Error::ForeignKey { .. }), "{error}");
        let resigned = registry.resign(&[&key(8)], &[&key(8)]).expect("the new key");
        assert_eq!(resigned, Resigned { published: Vec::new(), snapshot: Some(3), timestamp: 3 });
        let resigned = registry.resign(&[&key(8)], &[&key(8)]).expect("again");
        assert_eq!(resigned.snapshot, None, "the snapshot holds");
    }

    #[test]
    fn a_publisher_gets_another_key_without_a_gap() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let registry = registry(folder.path());
        registry.publish("acme", &[], &[&key(20)]).expect("published");
        registry.resign(&[&key(7)], &[&key(7)]).expect("resigned");
        // Both keys, then the publisher signs with the new one, then only that.
        registry.rotate("acme", &[key(20).public(), key(22).public()], 1, &[&key(4)]).expect("both");
        registry.renew("acme", &[&key(22)]).expect("renewed");
        registry.resign(&[&key(7)], &[&key(7)]).expect("resigned");
        registry.rotate("acme", &[key(22).public()], 1, &[&key(4)]).expect("one");
        registry.resign(&[&key(7)], &[&key(7)]).expect("resigned");
        let error = registry.renew("acme", &[&key(20)]).expect_err("the old key");
        assert!(matches!(error, Error::ForeignKey { .. }), "{error}");
        assert_eq!(registry.public_keys("acme").expect("keys"), (vec![key(22).public()], 1));
        // A delegation whose publisher has not signed anew is never published.
        registry.rotate("acme", &[key(23).public()], 1, &[&key(4)]).expect("lost key");
        let error = registry.resign(&[&key(7)], &[&key(7)]).expect_err("acme is not signed by its new key");
        assert!(matches!(error, Error::Document { .. }), "{error}");
    }

    #[test]
    fn reviewers_get_other_keys_for_everything_that_they_sign() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let registry = registry(folder.path());
        let target: super::super::name::Target = "acme/fix-boot/1.0.0.wasm".parse().expect("target");
        registry.add_target(&target, b"one", None, &[&key(20)]).expect("added");
        registry.review(&[target], &[&key(6)]).expect("reviewed");
        registry.resign(&[&key(7)], &[&key(7)]).expect("resigned");
        let error = registry.rotate("reviewed.acme", &[key(16).public()], 1, &[&key(4)]).expect_err("one of them");
        assert_eq!(error.to_string(), "`reviewed.acme` has the keys of `reviewed`, and no others");
        let error = registry.rotate("reviewed", &[key(20).public()], 1, &[&key(4)]).expect_err("a publisher's key");
        let print = key(20).public().fingerprint();
        assert_eq!(error.to_string(), format!("`acme` and `reviewed` would have the same key {print}"));
        registry.rotate("reviewed", &[key(16).public()], 1, &[&key(4)]).expect("rotated");
        registry.resign(&[&key(7)], &[&key(7)]).expect_err("the documents lack the new key");
        registry.renew("reviewed", &[&key(16)]).expect("renewed");
        let published = registry.resign(&[&key(7)], &[&key(7)]).expect("resigned").published;
        assert_eq!(published, ["targets 3", "reviewed.acme 2", "reviewed 2"]);
        registry.remove_publisher("acme", &[&key(4)]).expect("removed");
        let names: Vec<String> = registry.listing_roles().expect("roles");
        assert_eq!(names, ["targets", "reviewed"]);
    }

    #[test]
    fn what_ends_soon_is_named_and_what_waits_too() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut registry = registry(folder.path());
        assert_eq!(registry.alarms().expect("alarms"), []);
        registry.now = "2027-02-05T12:00:00Z".parse().expect("time");
        assert_eq!(registry.alarms().expect("alarms"), [Alarm { role: "timestamp".to_owned(), days: 2 }]);
        registry.now = "2027-03-05T12:00:00Z".parse().expect("time");
        let alarms = registry.alarms().expect("alarms");
        let named: Vec<(&str, i64)> = alarms.iter().map(|alarm| (alarm.role.as_str(), alarm.days)).collect();
        assert_eq!(named, [("timestamp", -26), ("snapshot", -3)]);
        registry.publish("acme", &[], &[&key(20)]).expect("published");
        assert_eq!(registry.waiting().expect("waiting"), ["acme 1"]);
        let resigned = registry.resign(&[&key(7)], &[&key(7)]).expect("resigned");
        assert_eq!(resigned.published, ["acme 1"]);
        assert_eq!(registry.alarms().expect("alarms"), []);
        assert!(registry.waiting().expect("waiting").is_empty());
    }
}
