//! A registry with two publishers, and users of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use delegate_doctor::files::sha256_hex;
use delegate_doctor::registry::client::{Manner, Places, Registry, View};
use delegate_doctor::registry::install::{self, Applied, Moves, Plan, Present, Registries, Scope};
use delegate_doctor::registry::key::SigningKey;
use delegate_doctor::registry::metadata::{NumericsClass, Yanked, signed};
use delegate_doctor::registry::name::{Reference, RuleName, TargetKind};
use delegate_doctor::registry::pack::{EvidenceFile, FileRecord, Manifest};
use delegate_doctor::registry::transport::Patience;
use delegate_doctor::registry::trust::{Known, Pin};
use delegate_doctor::registry::wanted::{Key, Wish};
use delegate_doctor::registry::writer::{Keys, NewTarget, Repository, Signers};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Name of the registry at its users.
pub(crate) const NAME: &str = "community";

/// When the tests happen.
pub(crate) fn noon() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().expect("time")
}

/// A key from a number.
pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

/// Keys by what they are for.
pub(crate) const ROOT: [u8; 3] = [1, 2, 3];
pub(crate) const TARGETS: [u8; 2] = [4, 5];
pub(crate) const REVIEWED: u8 = 6;
pub(crate) const ONLINE: u8 = 7;
pub(crate) const ACME: u8 = 8;
pub(crate) const BOLT: u8 = 9;
pub(crate) const STRANGER: u8 = 20;

pub(crate) fn rule(name: &str) -> RuleName {
    name.parse().expect("rule")
}

/// A registry folder with its keys.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) repository: Repository,
}

impl World {
    /// Publishers `acme` and `bolt`, nothing published.
    pub(crate) fn empty() -> Self {
        Self::at(noon())
    }

    /// The same, made at some time.
    pub(crate) fn at(now: Timestamp) -> Self {
        let folder = tempfile::Builder::new().prefix("dd-registry-").tempdir().expect("temporary folder");
        let keys = Keys {
            root: Signers { keys: ROOT.map(key).to_vec(), threshold: 2 },
            targets: Signers { keys: TARGETS.map(key).to_vec(), threshold: 2 },
            reviewed: Signers::one(key(REVIEWED)),
            snapshot: Signers::one(key(ONLINE)),
            timestamp: Signers::one(key(ONLINE)),
        };
        let repository = Repository::init(&folder.path().join("registry"), &keys, now).expect("registry");
        let world = Self { folder, repository };
        for (name, seed) in [("acme", ACME), ("bolt", BOLT)] {
            let keys = TARGETS.map(key);
            let add = world.repository.add_publisher(name, &[key(seed).public()], 1, &keys.each_ref());
            add.expect("publisher");
        }
        world.publish_all();
        world
    }

    /// With `acme/fix-boot` 1.0.0 and `bolt/fix-pool` 1.0.0, reviewed.
    pub(crate) fn new() -> Self {
        let world = Self::empty();
        world.release("acme/fix-boot", "1.0.0", b"first");
        world.release("bolt/fix-pool", "1.0.0", b"of bolt");
        world
    }

    /// Publishes a version, reviewed and in the snapshot. The component is any bytes: nothing here runs it.
    pub(crate) fn release(&self, name: &str, version: &str, component: &[u8]) {
        self.publish(name, version, component);
        self.review(name, version);
        self.publish_all();
    }

    /// Puts a version into its publisher's role.
    pub(crate) fn publish(&self, name: &str, version: &str, component: &[u8]) {
        let new = version_files(name, version, component, NumericsClass::Exact);
        let name = rule(name);
        self.repository.publish(name.publisher(), &new, &[&publisher_key(&name)]).expect("published");
    }

    /// Countersigns a version.
    pub(crate) fn review(&self, name: &str, version: &str) {
        let version = version.parse().expect("version");
        let targets = [TargetKind::Component, TargetKind::Manifest].map(|kind| rule(name).target(&version, kind));
        self.repository.review(&targets, &[&key(REVIEWED)]).expect("reviewed");
    }

    /// Takes a version back.
    pub(crate) fn yank(&self, name: &str, version: &str, security: bool) {
        let name = rule(name);
        let target = name.target(&version.parse().expect("version"), TargetKind::Component);
        let change = self.repository.change_record(&target, &[&publisher_key(&name)], |record| {
            record.yanked = Some(Yanked { reason: "wrong results".to_owned(), security });
        });
        change.expect("yanked");
        self.publish_all();
    }

    /// A new snapshot and timestamp.
    pub(crate) fn publish_all(&self) {
        let online = key(ONLINE);
        self.repository.snapshot_and_timestamp(&[&online], &[&online]).expect("snapshot");
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.repository.folder().to_path_buf()
    }

    /// A file of the registry.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        fs_err::read(self.file(path)).expect("file of the registry")
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        fs_err::write(self.file(path), bytes).expect("file of the registry");
    }

    /// The document in a metadata file.
    pub(crate) fn document(&self, path: &str) -> Value {
        let envelope: Value = serde_json::from_slice(&self.read(path)).expect("metadata");
        envelope["signed"].clone()
    }

    /// Changes the document of a file and signs it with these keys.
    pub(crate) fn forge(&self, path: &str, to: &str, keys: &[u8], change: impl FnOnce(&mut Value)) {
        let mut document = self.document(path);
        change(&mut document);
        self.write_signed(to, &document, keys);
    }

    pub(crate) fn write_signed(&self, path: &str, document: &Value, keys: &[u8]) {
        let keys: Vec<SigningKey> = keys.iter().map(|seed| key(*seed)).collect();
        self.write(path, signed(document, &keys.iter().collect::<Vec<_>>()).expect("signed"));
    }

    /// Path of a role's newest metadata.
    pub(crate) fn newest(&self, role: &str) -> String {
        format!("metadata/{}.{role}.json", self.version(role))
    }

    /// Newest version of a role for which there is a file.
    pub(crate) fn version(&self, role: &str) -> u64 {
        let exists = |version: &u64| self.file(&format!("metadata/{version}.{role}.json")).exists();
        (1..1000).filter(exists).max().expect("metadata of the role")
    }

    /// With the online key alone: a snapshot of these files, and a timestamp. `change` sees the snapshot's `meta`.
    pub(crate) fn online(&self, change: impl FnOnce(&mut Value)) {
        let version = self.version("snapshot");
        let next = format!("metadata/{}.snapshot.json", version + 1);
        self.forge(&format!("metadata/{version}.snapshot.json"), &next, &[ONLINE], |document| {
            document["version"] = (version + 1).into();
            change(&mut document["meta"]);
        });
        self.stamp(&next, version + 1);
    }

    /// With the online key alone: a timestamp that names this snapshot.
    pub(crate) fn stamp(&self, snapshot: &str, version: u64) {
        let bytes = self.read(snapshot);
        self.forge("metadata/timestamp.json", "metadata/timestamp.json", &[ONLINE], |document| {
            let before = document["version"].as_u64().expect("version");
            document["version"] = (before + 1).into();
            document["meta"]["snapshot.json"] = meta(version, &bytes);
        });
    }

    /// With the online key alone: makes the present file of a role the one that the snapshot names.
    pub(crate) fn list(&self, role: &str, version: u64) {
        let bytes = self.read(&format!("metadata/{version}.{role}.json"));
        self.online(|all| all[format!("{role}.json")] = meta(version, &bytes));
    }

    /// The path of a target's bytes.
    pub(crate) fn target_path(&self, name: &str, version: &str, component: &[u8]) -> String {
        format!("targets/{name}/{}.{version}.wasm", sha256_hex(component))
    }

    /// How users know it.
    pub(crate) fn known(&self) -> Known {
        let root = self.read("metadata/1.root.json");
        let place = self.path().display().to_string();
        Known { name: NAME.to_owned(), place, root: Pin { version: 1, sha256: sha256_hex(&root) } }
    }

    /// A user who has added the registry and trusts its publishers, and has nothing installed.
    pub(crate) fn user(&self) -> User {
        User::of(self.known())
    }

    /// A copy of the whole registry as it is now.
    pub(crate) fn copy(&self) -> PathBuf {
        let to =
            self.folder.path().join(format!("copy-{}", std::fs::read_dir(self.folder.path()).expect("list").count()));
        copy_folder(&self.path(), &to);
        to
    }

    /// Replaces the registry by a copy.
    pub(crate) fn restore(&self, copy: &Path) {
        fs_err::remove_dir_all(self.path()).expect("remove");
        copy_folder(copy, &self.path());
    }
}

/// Pages and bytes of a version.
pub(crate) fn version_files(name: &str, version: &str, component: &[u8], class: NumericsClass) -> Vec<NewTarget> {
    let name = rule(name);
    let version: semver::Version = version.parse().expect("version");
    let manifest = manifest_of(&name, &version, component, class);
    let bytes = manifest.spelled().expect("TOML").into_bytes();
    let record = manifest.record(sha256_hex(&bytes));
    let manifest = bytes;
    vec![
        NewTarget {
            target: name.target(&version, TargetKind::Component),
            bytes: component.to_vec(),
            record: Some(record),
        },
        NewTarget { target: name.target(&version, TargetKind::Manifest), bytes: manifest, record: None },
    ]
}

/// What a version says about itself.
fn manifest_of(name: &RuleName, version: &semver::Version, component: &[u8], class: NumericsClass) -> Manifest {
    Manifest {
        manifest: 1,
        name: name.rule().to_owned(),
        id: name.rule().to_owned(),
        version: version.clone(),
        contract: semver::Version::new(0, 1, 0),
        title: format!("Mends {}", name.rule()),
        summary: String::new(),
        numerics: class,
        relative_tolerance: None,
        absolute_tolerance: None,
        stability: "stable".to_owned(),
        tier: "compiled".to_owned(),
        sdk: "none".to_owned(),
        license: "MIT".to_owned(),
        source: String::new(),
        keywords: Vec::new(),
        ops: Vec::new(),
        backends: Vec::new(),
        component: FileRecord { sha256: sha256_hex(component), length: component.len() as u64 },
        evidence: EvidenceFile {
            sha256: String::new(),
            length: 0,
            models: vec!["segmenter".to_owned()],
            devices: vec!["cortex-a76".to_owned()],
        },
    }
}

pub(crate) fn publisher_key(name: &RuleName) -> SigningKey {
    key(if name.publisher() == "acme" { ACME } else { BOLT })
}

/// A file as another one lists it.
pub(crate) fn meta(version: u64, bytes: &[u8]) -> Value {
    serde_json::json!({ "hashes": { "sha256": sha256_hex(bytes) }, "length": bytes.len(), "version": version })
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).expect("folder");
    for entry in fs_err::read_dir(from).expect("list") {
        let path = entry.expect("entry").path();
        let name = path.file_name().expect("name");
        if path.is_dir() {
            copy_folder(&path, &to.join(name));
        } else {
            fs_err::copy(&path, to.join(name)).expect("copy");
        }
    }
}

/// Somebody who takes rules from the registry.
pub(crate) struct User {
    home: tempfile::TempDir,
    pub(crate) clock: Timestamp,
    pub(crate) offline: bool,
}

impl User {
    pub(crate) fn of(known: Known) -> Self {
        let user = Self { home: tempfile::tempdir().expect("temporary folder"), clock: noon(), offline: false };
        install::edit_trust(&user.places(), |trust| trust.add(known)).expect("added");
        user
    }

    pub(crate) fn places(&self) -> Places {
        let home = self.home.path();
        Places {
            trust: home.join("config/registries.toml"),
            state: home.join("state"),
            cache: home.join("cache"),
            rules: home.join("rules"),
        }
    }

    pub(crate) fn after(&self, time: SignedDuration) -> Self
    where
        Self: Sized,
    {
        let home = tempfile::tempdir().expect("temporary folder");
        copy_folder(self.home.path(), home.path());
        Self { home, clock: self.clock + time, offline: self.offline }
    }

    fn manner(&self) -> Manner {
        let patience =
            Patience { connect: Duration::from_secs(5), total: Duration::from_secs(20), ..Patience::default() };
        Manner { offline: self.offline, patience, pause: Duration::ZERO }
    }

    pub(crate) fn registries(&self) -> Registries {
        Registries::new(self.places(), self.manner(), self.clock, &[]).expect("registries")
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::new(self.registries().registry(NAME).expect("registry"))
    }

    /// Asks the registry for its newest metadata.
    pub(crate) fn refresh(&self) -> Result<View, String> {
        self.registry().refresh(self.clock).map_err(|error| error.to_string())
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::project(&self.home.path().join("project"))
    }

    /// The folder where what was seen of the registry lies.
    pub(crate) fn state(&self) -> PathBuf {
        self.registry().state().expect("state").to_path_buf()
    }

    /// Installs a rule in the user's project; a line for each rule of the lock, or the error.
    pub(crate) fn install(&self, reference: &str) -> Result<String, String> {
        self.change(reference, &Moves { update_all: true, ..Moves::default() })
    }

    pub(crate) fn change(&self, reference: &str, moves: &Moves) -> Result<String, String> {
        let mut registries = self.registries();
        let scope = self.scope();
        let reference: Reference = reference.parse().expect("reference");
        let present = Present::read(&scope).map_err(|error| error.to_string())?;
        let mut wanted = present.wanted.clone();
        let key = Key { registry: Some(NAME.to_owned()), rule: reference.rule };
        let versions = reference.versions.unwrap_or(semver::VersionReq::STAR);
        wanted.rules.insert(key, Wish { versions, pin: None, unreviewed: false });
        let plan = install::plan(&mut registries, present, wanted, moves).map_err(|error| error.to_string())?;
        match plan.apply(&mut registries, &scope).map_err(|error| error.to_string())? {
            Applied::Done => match plan.check_stuck() {
                Err(error) => Err(std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string)),
                Ok(()) => Ok(summary(&plan)),
            },
            Applied::Overtaken => Err("overtaken".to_owned()),
        }
    }

    /// The rules of the lock with their bytes, each verified.
    pub(crate) fn load(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let mut registries = self.registries();
        let all = install::effective(&mut registries, Some(&self.scope()), false).map_err(|error| error.to_string())?;
        Ok(all.into_iter().map(|rule| (rule.component.name(), rule.component.bytes.into_owned())).collect())
    }

    /// True when these bytes lie anywhere below the user's folders.
    pub(crate) fn has(&self, bytes: &[u8]) -> bool {
        fn search(folder: &Path, bytes: &[u8]) -> bool {
            std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).any(|entry| {
                let path = entry.path();
                if path.is_dir() { search(&path, bytes) } else { fs_err::read(&path).is_ok_and(|found| found == bytes) }
            })
        }
        search(self.home.path(), bytes)
    }
}

pub(crate) fn summary(plan: &Plan) -> String {
    let lines = plan.steps.iter().map(|step| format!("{} {}", step.new.name, step.new.version));
    lines.collect::<Vec<_>>().join(", ")
}
