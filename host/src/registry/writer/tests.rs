use super::super::name::{RuleName, TargetKind};
use super::*;

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

fn keys() -> Keys {
    Keys {
        root: Signers { keys: vec![key(1), key(2), key(3)], threshold: 2 },
        targets: Signers { keys: vec![key(4), key(5)], threshold: 2 },
        reviewed: Signers::one(key(6)),
        snapshot: Signers::one(key(7)),
        timestamp: Signers::one(key(7)),
    }
}

fn now() -> Time {
    "2027-01-31T12:00:00Z".parse().expect("time")
}

fn component(rule: &str, version: &str) -> Target {
    let name: RuleName = rule.parse().expect("name");
    name.target(&version.parse().expect("version"), TargetKind::Component)
}

fn registry(folder: &Path) -> Repository {
    let repository = Repository::init(&folder.join("registry"), &keys(), now()).expect("registry");
    let top = [&key(4), &key(5)];
    repository.add_publisher("acme", &[key(20).public()], 1, &top).expect("acme");
    repository.add_publisher("bolt", &[key(21).public()], 1, &top).expect("bolt");
    repository
}

fn publish(repository: &Repository) {
    repository.snapshot_and_timestamp(&[&key(7)], &[&key(7)]).expect("published");
}

#[test]
fn versions_rise_when_they_were_published_and_not_before() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let repository = registry(folder.path());
    assert_eq!(repository.newest("targets").expect("targets"), Some(2), "two additions, one pending document");
    for version in ["1.0.0", "1.1.0"] {
        let target = component("acme/fix-boot", version);
        repository.add_target(&target, version.as_bytes(), None, &[&key(20)]).expect("added");
        repository.review(&[target], &[&key(6)]).expect("reviewed");
    }
    assert_eq!(repository.newest("acme").expect("acme"), Some(1));
    publish(&repository);
    assert_eq!(repository.published("acme").expect("published"), Some(1));
    let target = component("acme/fix-boot", "1.2.0");
    repository.add_target(&target, b"1.2.0", None, &[&key(20)]).expect("added");
    assert_eq!(repository.newest("acme").expect("acme"), Some(2));
    assert_eq!(repository.published("acme").expect("published"), Some(1), "a client does not see it yet");
    publish(&repository);
    let acme = repository.role("acme").expect("acme").expect("there").signed;
    assert_eq!((acme.version, acme.targets.len()), (2, 3));
    assert_eq!(repository.current_timestamp().expect("timestamp").expect("there").signed.version, 3);
    let roles = repository.targets().expect("targets").signed.delegations.expect("delegations").roles;
    let order: Vec<&str> = roles.iter().map(|role| role.name.as_str()).collect();
    assert_eq!(order, ["acme", "bolt", "reviewed.acme", "reviewed.bolt", "reviewed"], "`reviewed` comes last");
}

#[test]
fn what_would_break_the_registry_is_refused() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let repository = registry(folder.path());
    let top = [&key(4), &key(5)];
    let target = component("acme/fix-boot", "1.0.0");
    repository.add_target(&target, b"one", None, &[&key(20)]).expect("added");
    let name = |text: &str| text.to_owned();
    let told = |result: Result<(), Error>| {
        let error = result.expect_err("refused");
        error.to_string().replace(&repository.folder().display().to_string(), "R")
    };
    for (result, expected) in [
        (
            repository.add_target(&target, b"two", None, &[&key(20)]),
            name("`acme/fix-boot/1.0.0.wasm` is published already, and a published file never changes"),
        ),
        (
            repository.publish(
                "bolt",
                &[NewTarget { target: target.clone(), bytes: b"one".to_vec(), record: None }],
                &[&key(21)],
            ),
            name("`acme/fix-boot/1.0.0.wasm` does not belong to the publisher `bolt`"),
        ),
        (
            repository.add_target(&component("acme/fix-boot", "1.0.1"), b"two", None, &[&key(21)]),
            format!("The key {} signs nothing for publisher `acme`", key(21).public().fingerprint()),
        ),
        (
            repository.add_target(&component("none/fix-boot", "1.0.1"), b"two", None, &[&key(21)]),
            name("The registry `R` has no publisher `none`"),
        ),
        (repository.add_publisher("acme", &[key(20).public()], 1, &top), name("The publisher `acme` is there already")),
        (
            repository.add_publisher("b0lt", &[key(20).public()], 1, &top),
            name("The publisher `b0lt` could be taken for `bolt`"),
        ),
        (
            repository.add_publisher("targets", &[key(20).public()], 1, &top),
            name("`targets` is no publisher: a role of every registry has this name"),
        ),
        (
            repository.add_publisher("zeta", &[key(20).public(), key(20).public()], 2, &top),
            name("publisher `zeta` wants 2 of 1 keys"),
        ),
        (
            repository.add_publisher("zeta", &[key(20).public()], 1, &top),
            format!("`acme` and `zeta` would have the same key {}", key(20).public().fingerprint()),
        ),
        (
            repository.review(&[component("acme/fix-boot", "9.0.0")], &[&key(6)]),
            name("The publisher `acme` has no `acme/fix-boot/9.0.0.wasm`"),
        ),
        (
            repository.snapshot_and_timestamp(&[&key(6)], &[&key(7)]),
            format!("The key {} signs nothing for role `snapshot`", key(6).public().fingerprint()),
        ),
        (
            repository.add_target(&component("acme/fix-boot", "2.0.0"), &vec![0; (10 << 20) + 1], None, &[&key(20)]),
            name("`acme/fix-boot/2.0.0.wasm` has 10485761 bytes, and clients take at most 10485760"),
        ),
    ] {
        assert_eq!(told(result), expected);
    }
    // One key of two is not enough to publish a new publisher, and can be added later.
    repository.add_publisher("zeta", &[key(22).public()], 1, &[&key(4)]).expect("pending");
    let error = told(repository.snapshot_and_timestamp(&[&key(7)], &[&key(7)]));
    assert_eq!(error, "In the registry `R`, `metadata/2.targets.json` has 1 of the 2 signatures that its role needs");
    repository.sign_role("targets", &[&key(5)]).expect("second signature");
    publish(&repository);
    let error = told(repository.sign_role("targets", &[&key(5)]).map(drop));
    assert_eq!(error, "`metadata/2.targets.json` is published already, and a published file never changes");
    assert!(matches!(Repository::init(repository.folder(), &keys(), now()), Err(Error::Exists(_))));
    assert!(matches!(Repository::open(folder.path(), now()), Err(Error::NoRegistry(_))));
}

#[test]
fn the_same_steps_with_the_same_keys_make_the_same_files() {
    let made = || {
        let folder = tempfile::tempdir().expect("temporary folder");
        let repository = registry(folder.path());
        let target = component("acme/fix-boot", "1.0.0");
        repository.add_target(&target, b"one", None, &[&key(20)]).expect("added");
        repository.review(&[target], &[&key(6)]).expect("reviewed");
        publish(&repository);
        let mut files = BTreeMap::new();
        let mut folders = vec![repository.folder().to_path_buf()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).expect("list") {
                let path = entry.expect("entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(repository.folder()).expect("below").to_path_buf();
                    files.insert(name, fs::read(&path).expect("read"));
                }
            }
        }
        files
    };
    let (a, b) = (made(), made());
    assert_eq!(a, b);
    assert_eq!(a.len(), 11, "{:?}", a.keys());
}

#[test]
fn a_removed_publisher_stays_in_the_snapshot() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let repository = registry(folder.path());
    repository.add_target(&component("acme/fix-boot", "1.0.0"), b"one", None, &[&key(20)]).expect("added");
    publish(&repository);
    repository.remove_publisher("acme", &[&key(4), &key(5)]).expect("removed");
    publish(&repository);
    assert_eq!(repository.publishers().expect("publishers"), ["bolt"]);
    let meta = repository.snapshot().expect("snapshot").expect("there").signed.meta;
    assert_eq!(meta.get("acme.json").map(|file| file.version), Some(1));
    let delegations = repository.targets().expect("targets").signed.delegations.expect("delegations");
    assert!(!delegations.keys.contains_key(&key(20).public().key_id()), "its key is gone");
}
