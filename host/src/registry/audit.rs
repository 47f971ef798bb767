//! A registry looked at as a whole, the way a maintainer and the publishing job do: every signature, every
//! hash, every package, and nothing beside them.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::Catalog;
use super::gate::{Content, Finding, Load, compare};
use super::layout;
use super::metadata::{Envelope, MetaFile, Root, Snapshot, Targets};
use super::name::{Target, TargetKind};
use super::pack::Package;
use super::writer::{Error, Repository, STAGING, catalog_of};
use crate::files::{self, sha256_hex};

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// what is wrong
    pub findings: Vec<Finding>,
    /// publishers
    pub publishers: usize,
    /// versions of rules
    pub versions: usize,
    /// of them, countersigned
    pub reviewed: usize,
}

/// Checks everything that a client could be given. With `load`, every component is loaded in the sandbox.
///
/// # Errors
/// When the registry cannot be read at all.
pub fn audit(registry: &Repository, load: Option<Load<'_>>) -> Result<Audit, Error> {
    let mut audit = Audit::default();
    roots(registry, &mut audit)?;
    let root = registry.root()?.signed;
    let Some(timestamp) = registry.current_timestamp()? else {
        say(&mut audit, &layout::timestamp_path(), "it is missing");
        return Ok(audit);
    };
    let what = layout::timestamp_path();
    if let Err(error) = registry.verify(&timestamp, "timestamp", &root.roles, &root.keys) {
        say(&mut audit, &what, told(&error));
    }
    let Some(pinned) = timestamp.signed.meta.get("snapshot.json") else {
        say(&mut audit, &what, "it names no snapshot");
        return Ok(audit);
    };
    let path = layout::metadata_path(pinned.version, "snapshot");
    let Some((snapshot, bytes)) = attempt(&mut audit, &path, registry.read::<Snapshot>(pinned.version, "snapshot"))
    else {
        return Ok(audit);
    };
    compare_pinned(&mut audit, &path, pinned, &bytes);
    if let Err(error) = registry.verify(&snapshot, "snapshot", &root.roles, &root.keys) {
        say(&mut audit, &path, told(&error));
    }
    let publishers: BTreeSet<String> = registry.publishers()?.into_iter().collect();
    audit.publishers = publishers.len();
    let mut listed = BTreeSet::new();
    let mut documents = BTreeMap::new();
    for (file, pinned) in &snapshot.signed.meta {
        let role = file.strip_suffix(".json").unwrap_or(file);
        let path = layout::metadata_path(pinned.version, role);
        if role == layout::CATALOG {
            continue;
        }
        let read = attempt(&mut audit, &path, registry.read::<Targets>(pinned.version, role));
        let Some((envelope, bytes)) = read else { continue };
        compare_pinned(&mut audit, &path, pinned, &bytes);
        let publisher = layout::reviewed_publisher(role).unwrap_or(role);
        if role != "targets" && role != layout::REVIEWED && !publishers.contains(publisher) {
            // A publisher that was removed: its last documents stay listed, and its files are never taken away.
            listed.extend(paths_of(&envelope.signed));
            continue;
        }
        let (signers, keys) = registry.signers(role)?;
        if let Err(error) = envelope.verify("it", &signers, &keys) {
            say(&mut audit, &path, error.to_string());
        }
        if role == layout::REVIEWED && !envelope.signed.targets.is_empty() {
            say(&mut audit, &path, "it lists files, and `reviewed` only revokes");
        }
        if publishers.contains(role) {
            files_of(registry, role, &path, &envelope, &mut audit, &mut listed, load);
            let review = layout::review_role(role);
            let reviewed = snapshot.signed.meta.get(&format!("{review}.json"));
            let reviewed = reviewed.and_then(|file| registry.read::<Targets>(file.version, &review).ok());
            let reviewed = reviewed.map(|(envelope, _)| envelope.signed.targets).unwrap_or_default();
            let components = envelope.signed.targets.iter().filter(|(path, _)| path.ends_with(".wasm"));
            let countersigned =
                components.filter(|(path, file)| reviewed.get(*path).is_some_and(|seen| seen.is_same_file(file)));
            audit.reviewed += countersigned.count();
        }
        documents.insert(role.to_owned(), envelope.signed);
    }
    if let Some(pinned) = snapshot.signed.meta.get(&format!("{}.json", layout::CATALOG)) {
        let path = layout::metadata_path(pinned.version, layout::CATALOG);
        let read = files::read_regular(&registry.folder().join(&path), layout::MOST_CATALOG_BYTES);
        if let Some(bytes) = attempt(&mut audit, &path, read.map_err(Error::Io)) {
            compare_pinned(&mut audit, &path, pinned, &bytes);
            if Catalog::parse(&bytes).ok() != Some(catalog_of(&documents)) {
                say(&mut audit, &path, "it is not what the documents of this snapshot offer");
            }
        }
    }
    // Files whose document waits for a snapshot are not lost.
    for publisher in &publishers {
        let Some(role) = registry.role(publisher).ok().flatten() else { continue };
        listed.extend(paths_of(&role.signed));
    }
    stray(registry, &listed, &mut audit)?;
    audit.findings.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(audit)
}

/// Where the files of a document lie.
fn paths_of(document: &Targets) -> impl Iterator<Item = String> {
    document
        .targets
        .iter()
        .filter_map(|(name, file)| Some(layout::target_path(&name.parse::<Target>().ok()?, &file.hashes.sha256)))
}

/// Every root from the first on must be signed by the one before it and by itself.
fn roots(registry: &Repository, audit: &mut Audit) -> Result<(), Error> {
    let newest = registry.newest("root")?.unwrap_or(0);
    let mut before: Option<Envelope<Root>> = None;
    for version in 1..=newest {
        let path = layout::metadata_path(version, "root");
        let Some((root, _)) = attempt(audit, &path, registry.read::<Root>(version, "root")) else { return Ok(()) };
        for signer in before.iter().chain([&root]) {
            if let Err(error) = registry.verify(&root, "root", &signer.signed.roles, &signer.signed.keys) {
                say(audit, &path, told(&error));
            }
        }
        before = Some(root);
    }
    Ok(())
}

fn files_of(
    registry: &Repository,
    publisher: &str,
    document: &str,
    envelope: &Envelope<Targets>,
    audit: &mut Audit,
    listed: &mut BTreeSet<String>,
    load: Option<Load<'_>>,
) {
    for (name, file) in &envelope.signed.targets {
        let target = match name.parse::<Target>() {
            Ok(target) if target.rule.publisher() == publisher => target,
            Ok(_) => {
                say(audit, document, format!("`{name}` is not below `{publisher}/`"));
                continue;
            }
            Err(error) => {
                say(audit, document, error.to_string());
                continue;
            }
        };
        let path = layout::target_path(&target, &file.hashes.sha256);
        listed.insert(path.clone());
        let read = files::read_regular(&registry.folder().join(&path), layout::MOST_TARGET_BYTES);
        let Some(bytes) = attempt(audit, &path, read.map_err(Error::Io)) else { continue };
        if sha256_hex(&bytes) != file.hashes.sha256 || bytes.len() as u64 != file.length {
            say(audit, &path, "its bytes are not the ones that are listed");
            continue;
        }
        if target.kind != TargetKind::Component {
            continue;
        }
        audit.versions += 1;
        let other = |kind| {
            let other = target.rule.target(&target.version, kind);
            let file = envelope.signed.targets.get(&other.to_string())?;
            let path = layout::target_path(&other, &file.hashes.sha256);
            files::read_regular(&registry.folder().join(path), layout::MOST_TARGET_BYTES).ok()
        };
        let (Some(manifest), Some(evidence)) = (other(TargetKind::Manifest), other(TargetKind::Evidence)) else {
            say(audit, document, format!("{name} lacks its manifest or its evidence"));
            continue;
        };
        let checked = Package::of(bytes, manifest, evidence).map_err(|error| error.to_string());
        let checked = checked.and_then(|package| load.map_or(Ok(()), |load| load(&package)));
        if let Err(reason) = checked {
            say(audit, &path, reason);
        }
    }
}

/// Files that nothing names, and that are no files.
fn stray(registry: &Repository, listed: &BTreeSet<String>, audit: &mut Audit) -> Result<(), Error> {
    let nothing = tempfile::tempdir()?;
    for change in compare(nothing.path(), registry.folder())? {
        let path = change.path;
        if !matches!(change.content, Content::File(_)) {
            say(audit, &path, "it is no regular file of a size that clients take");
        } else if path.starts_with("targets/") && !listed.contains(&path) {
            say(audit, &path, "no document lists it");
        } else if path.starts_with(STAGING) {
            let next = registry.newest("root")?.unwrap_or(0).saturating_add(1);
            match registry.next_root_changes() {
                _ if path != format!("{STAGING}/{next}.root.json") => {
                    say(audit, &path, format!("only root {next} waits here for signatures"));
                }
                Ok(changes) => say(audit, &path, format!("it waits for signatures: {}", changes.join("; "))),
                Err(error) => say(audit, &path, told(&error)),
            }
        }
    }
    Ok(())
}

fn compare_pinned(audit: &mut Audit, path: &str, pinned: &MetaFile, bytes: &[u8]) {
    if sha256_hex(bytes) != pinned.hashes.sha256 || bytes.len() as u64 != pinned.length {
        say(audit, path, "its bytes are not the ones that are pinned");
    }
}

fn attempt<T>(audit: &mut Audit, path: &str, read: Result<T, Error>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(error) => {
            say(audit, path, told(&error));
            None
        }
    }
}

/// The error without the registry's name, which the reader knows.
fn told(error: &Error) -> String {
    match error {
        Error::Document { problem, .. } => problem.to_string(),
        error => error.to_string(),
    }
}

fn say(audit: &mut Audit, file: &str, what: impl Into<String>) {
    audit.findings.push(Finding { file: file.to_owned(), what: what.into() });
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fs_err as fs;

    use super::super::key::SigningKey;
    use super::super::pack::tests::package;
    use super::super::writer::{Keys, Signers};
    use super::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed(&[seed; 32])
    }

    fn registry(folder: &Path) -> Repository {
        let keys = Keys {
            root: Signers { keys: [1, 2].map(key).to_vec(), threshold: 2 },
            targets: Signers::one(key(4)),
            reviewed: Signers::one(key(6)),
            snapshot: Signers::one(key(7)),
            timestamp: Signers::one(key(7)),
        };
        let now = "2027-01-31T12:00:00Z".parse().expect("time");
        let registry = Repository::init(folder, &keys, now).expect("registry");
        registry.rotate("timestamp", &[key(8).public()], 1, &[&key(1), &key(2)]).expect("root 2");
        registry.add_publisher("acme", &[key(20).public()], 1, &[&key(4)]).expect("acme");
        let targets = package("dd-001", "softmax-layout").targets("acme").expect("targets");
        registry.publish("acme", &targets, &[&key(20)]).expect("published");
        let reviewed: Vec<Target> = targets.into_iter().map(|new| new.target).collect();
        registry.review(&reviewed, &[&key(6)]).expect("reviewed");
        registry.resign(&[&key(7)], &[&key(8)]).expect("resigned");
        registry
    }

    #[test]
    fn a_whole_registry_is_whole() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let registry = registry(&folder.path().join("registry"));
        let found = audit(&registry, None).expect("audited");
        assert_eq!(found, Audit { findings: Vec::new(), publishers: 1, versions: 1, reviewed: 1 });
        let load = |_: &Package| Err("it traps".to_owned());
        let found = audit(&registry, Some(&load)).expect("audited");
        assert_eq!(found.findings.len(), 1);
        assert!(found.findings[0].to_string().ends_with(".1.0.0.wasm`: it traps"), "{:?}", found.findings);
    }

    #[test]
    fn what_waits_for_signatures_is_the_next_root_or_told() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let registry = registry(&folder.path().join("registry"));
        registry.rotate("timestamp", &[key(9).public()], 1, &[&key(1)]).expect("begun");
        fs::write(registry.folder().join("staging/7.root.json"), "{}").expect("write");
        let found = audit(&registry, None).expect("audited").findings;
        let [next, other] = found.as_slice() else { panic!("{found:?}") };
        let gets = format!("`timestamp` gets the key {};", key(9).public().fingerprint());
        let expected = format!("`staging/3.root.json`: it waits for signatures: {gets}");
        assert!(next.to_string().starts_with(&expected), "{next}");
        assert_eq!(other.to_string(), "`staging/7.root.json`: only root 3 waits here for signatures");
    }

    #[test]
    fn every_file_that_is_changed_or_gone_is_noticed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let registry = registry(&folder.path().join("registry"));
        // What an older snapshot named may go, and so may that snapshot.
        let kept = |path: &str| {
            !["metadata/1.snapshot.json", "metadata/1.targets.json", "metadata/1.catalog.json"].contains(&path)
        };
        let files: Vec<String> = compare(tempfile::tempdir().expect("empty").path(), registry.folder())
            .expect("list")
            .into_iter()
            .map(|change| change.path)
            .filter(|path| kept(path))
            .collect();
        assert_eq!(files.len(), 12, "{files:?}");
        for file in &files {
            let path = registry.folder().join(file);
            let whole = fs::read(&path).expect("read");
            let mut flipped = whole.clone();
            let middle = flipped.len() / 2;
            flipped[middle] ^= 1;
            for (case, bytes) in [("flipped", Some(flipped)), ("gone", None), ("empty", Some(Vec::new()))] {
                match bytes {
                    Some(bytes) => fs::write(&path, bytes).expect("write"),
                    None => fs::remove_file(&path).expect("remove"),
                }
                match audit(&registry, None) {
                    // The newest root, top role or snapshot cannot be read at all.
                    Err(_) => {}
                    Ok(found) => assert!(!found.findings.is_empty(), "{file} {case}"),
                }
                fs::write(&path, &whole).expect("write");
            }
        }
        assert_eq!(audit(&registry, None).expect("audited").findings, []);
        fs::write(registry.folder().join("targets/acme/more"), "x").expect("write");
        let found = audit(&registry, None).expect("audited").findings;
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["`targets/acme/more`: no document lists it"]
        );
    }
}
