//! This repository's own registry: the bundled rules under one publisher, signed.
//!
//! The keys lie in the folder that `DD_REGISTRY_KEYS` names; `DD_REGISTRY_PASSPHRASE_FILE` opens them. Without
//! it, keys are made below `.cache/`, which git ignores, and where those do not fit the registry that is there, it
//! is begun anew under a new root. A registry that is kept with real keys only ever grows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use delegate_doctor::files;
use delegate_doctor::registry::audit::audit;
use delegate_doctor::registry::key::SigningKey;
use delegate_doctor::registry::layout;
use delegate_doctor::registry::name::Target;
use delegate_doctor::registry::pack::{Package, read_evidence};
use delegate_doctor::registry::writer::{Keys, Repository, Signers};
use fs_err as fs;

use crate::rules::Built;

/// Publisher of the bundled rules.
pub const PUBLISHER: &str = "dd-rules";
/// Environment variable that names the folder of the keys.
const KEYS: &str = "DD_REGISTRY_KEYS";
/// Environment variable that names a file whose first line opens the keys.
const PASSPHRASE: &str = "DD_REGISTRY_PASSPHRASE_FILE";

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Publishes rules that are not in `registry/` yet. Does nothing when all are.
pub fn write(root: &Path, built: &[Built]) -> Outcome<()> {
    let mut packages = Vec::new();
    for rule in built {
        let label = format!("{} {}", rule.id, rule.version);
        let evidence = read_evidence(&rule.evidence, &label)?;
        let package = Package::pack(rule.component.clone(), &rule.words, evidence).map_err(|error| {
            format!("{error}. Gather it anew with `delegate-doctor rules validate`, as {}", place(rule))
        })?;
        packages.push(package);
    }
    let folder = root.join("registry");
    let there = Repository::open(&folder, jiff::Timestamp::now()).ok();
    if let Some(registry) = &there
        && packages.iter().all(|package| holds(registry, package))
        && registry.waiting()?.is_empty()
    {
        println!("registry/ holds these rules already");
        return Ok(());
    }
    let named = std::env::var_os(KEYS).filter(|value| !value.is_empty()).map(PathBuf::from);
    let (keys, own) = match &named {
        Some(folder) => (Ceremony::read(folder)?, false),
        None => (Ceremony::read_or_make(&root.join(".cache/registry-keys"))?, true),
    };
    let registry = match there.filter(|registry| keys.fit(registry) && !contradicts(registry, &packages)) {
        Some(registry) => registry,
        None if own || !folder.join(layout::METADATA).exists() => {
            println!("registry/ begins anew under a new root");
            begin(&folder, &keys)?
        }
        None => {
            return Err(format!(
                "the keys of {KEYS} do not fit registry/, or a rule changed and kept its version; raise the version"
            )
            .into());
        }
    };
    let publisher = [&keys.publisher];
    let mut files = Vec::new();
    for package in packages.iter().filter(|package| !holds(&registry, package)) {
        files.extend(package.targets(PUBLISHER)?);
    }
    let reviewed: Vec<Target> = files.iter().map(|new| new.target.clone()).collect();
    registry.publish(PUBLISHER, &files, &publisher)?;
    registry.review(&reviewed, &keys.keys.reviewed.keys.iter().collect::<Vec<_>>())?;
    let online: Vec<&SigningKey> = keys.keys.timestamp.keys.iter().collect();
    let resigned = registry.resign(&online, &online)?;
    println!("registry/: published {}", resigned.published.join(", "));
    Ok(())
}

/// Checks signatures, hashes and packages of `registry/`.
pub fn check(root: &Path) -> Outcome<()> {
    let registry = Repository::open(&root.join("registry"), jiff::Timestamp::now())?;
    let found = audit(&registry, None)?;
    if !found.findings.is_empty() {
        let told: Vec<String> = found.findings.iter().map(|finding| format!("\n  {finding}")).collect();
        return Err(format!("registry/ is not whole:{}", told.concat()).into());
    }
    println!("registry/ is whole: {} versions, {} countersigned", found.versions, found.reviewed);
    Ok(())
}

/// The files of `registry/` that a client of its newest snapshot reads, below it.
pub fn published_files(root: &Path) -> Outcome<Vec<String>> {
    let registry = Repository::open(&root.join("registry"), jiff::Timestamp::now())?;
    let mut files: BTreeSet<String> = BTreeSet::new();
    for version in 1..=registry.root()?.signed.version {
        files.insert(layout::metadata_path(version, "root"));
    }
    let snapshot = registry.snapshot()?.ok_or("registry/ has no snapshot")?;
    files.insert(layout::timestamp_path());
    files.insert(layout::metadata_path(snapshot.signed.version, "snapshot"));
    for (name, file) in &snapshot.signed.meta {
        files.insert(layout::metadata_path(file.version, name.trim_end_matches(".json")));
    }
    for publisher in registry.publishers()? {
        for (path, file) in registry.role(&publisher)?.map(|role| role.signed.targets).unwrap_or_default() {
            files.insert(layout::target_path(&path.parse()?, &file.hashes.sha256));
        }
    }
    Ok(files.into_iter().collect())
}

fn place(rule: &Built) -> String {
    rule.evidence.display().to_string()
}

/// True when the registry lists exactly these files.
fn holds(registry: &Repository, package: &Package) -> bool {
    let listed = registry.role(PUBLISHER).ok().flatten().map(|role| role.signed.targets).unwrap_or_default();
    let reviewed = registry.role(&layout::review_role(PUBLISHER)).ok().flatten();
    let reviewed = reviewed.map(|role| role.signed.targets).unwrap_or_default();
    package.targets(PUBLISHER).is_ok_and(|targets| {
        targets.iter().all(|new| {
            let path = new.target.to_string();
            let same = |hash: &str| hash == files::sha256_hex(&new.bytes);
            listed.get(&path).is_some_and(|file| same(&file.hashes.sha256)) && reviewed.contains_key(&path)
        })
    })
}

/// True when a published version would have to change.
fn contradicts(registry: &Repository, packages: &[Package]) -> bool {
    let listed = registry.role(PUBLISHER).ok().flatten().map(|role| role.signed.targets).unwrap_or_default();
    packages.iter().any(|package| {
        let targets = package.targets(PUBLISHER).unwrap_or_default();
        let known = |path: String| listed.contains_key(&path);
        !holds(registry, package) && targets.iter().any(|new| known(new.target.to_string()))
    })
}

fn begin(folder: &Path, keys: &Ceremony) -> Outcome<Repository> {
    for below in [layout::METADATA, layout::TARGETS] {
        if folder.join(below).exists() {
            fs::remove_dir_all(folder.join(below))?;
        }
    }
    // A registry begins in an empty folder; what people read lies beside it.
    let temporary = tempfile::tempdir_in(folder)?;
    let begun = temporary.path().join("begun");
    Repository::init(&begun, &keys.keys, jiff::Timestamp::now())?;
    for below in [layout::METADATA, layout::TARGETS] {
        fs::rename(begun.join(below), folder.join(below))?;
    }
    let registry = Repository::open(folder, jiff::Timestamp::now())?;
    let top: Vec<&SigningKey> = keys.keys.targets.keys.iter().collect();
    registry.add_publisher(PUBLISHER, &[keys.publisher.public()], 1, &top)?;
    Ok(registry)
}

/// The keys of the registry and of its one publisher.
struct Ceremony {
    keys: Keys,
    publisher: SigningKey,
}

impl Ceremony {
    /// `root-1.pem` to `root-3.pem`, `targets-1.pem`, `targets-2.pem`, `reviewed-1.pem`, `online.pem`,
    /// `dd-rules.pem`.
    fn read(folder: &Path) -> Outcome<Self> {
        let passphrase = std::env::var_os(PASSPHRASE).map(PathBuf::from);
        let passphrase = passphrase.map(|path| files::read_regular(&path, 1024)).transpose()?;
        let passphrase =
            passphrase.map(|bytes| String::from_utf8_lossy(&bytes).lines().next().unwrap_or("").to_owned());
        let read = |name: &str| SigningKey::read(&folder.join(format!("{name}.pem")), passphrase.as_deref());
        let several = |names: &[&str]| names.iter().map(|name| read(name)).collect::<Result<Vec<_>, _>>();
        let online = read("online")?;
        Ok(Self {
            keys: Keys {
                root: Signers { keys: several(&["root-1", "root-2", "root-3"])?, threshold: 2 },
                targets: Signers { keys: several(&["targets-1", "targets-2"])?, threshold: 2 },
                reviewed: Signers::one(read("reviewed-1")?),
                snapshot: Signers::one(online.clone()),
                timestamp: Signers::one(online),
            },
            publisher: read(PUBLISHER)?,
        })
    }

    fn read_or_make(folder: &Path) -> Outcome<Self> {
        if !folder.exists() {
            fs::create_dir_all(folder)?;
            for name in ["root-1", "root-2", "root-3", "targets-1", "targets-2", "reviewed-1", "online", PUBLISHER] {
                SigningKey::generate()?.write(&folder.join(format!("{name}.pem")), None)?;
            }
            println!("made keys for a registry of development in {}", folder.display());
        }
        Self::read(folder)
    }

    /// True when these are the keys of the registry.
    fn fit(&self, registry: &Repository) -> bool {
        let ours = |role: &str, keys: &[SigningKey]| {
            let known = registry.public_keys(role).map(|(keys, _)| keys).unwrap_or_default();
            keys.iter().all(|key| known.contains(&key.public()))
        };
        ours("targets", &self.keys.targets.keys)
            && ours("timestamp", &self.keys.timestamp.keys)
            && ours(layout::REVIEWED, &self.keys.reviewed.keys)
            && ours(&layout::review_role(PUBLISHER), &self.keys.reviewed.keys)
            && ours(PUBLISHER, std::slice::from_ref(&self.publisher))
    }
}
