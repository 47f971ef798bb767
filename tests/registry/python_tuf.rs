//! Registries held against python-tuf, an implementation that shares nothing with this one, both ways: what our
//! writer writes at random it reads, to the last file; what it writes at random our reader reads; and what was
//! tampered with both refuse.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dd_tests::workspace;
use delegate_doctor::registry::key::SigningKey;
use delegate_doctor::registry::layout;
use delegate_doctor::registry::name::{RuleName, Target, TargetKind};
use delegate_doctor::registry::verify::{Chain, Review};
use delegate_doctor::registry::writer::{Keys, NewTarget, Repository, Signers};
use serde_json::{Value, json};

/// Environment variable that names a Python with the packages of `registry/requirements.txt`.
const PYTHON: &str = "DD_TESTS_TUF_PYTHON";

/// Runs a script of this folder with a line of JSON for each question, and gives the answers.
fn ask(script: &str, questions: &[Value]) -> Vec<Value> {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| {
        panic!("{PYTHON} is not set: run `cargo xtask test`, or set it to a Python that has tests/registry/requirements.txt")
    });
    let mut child = Command::new(python)
        .arg(workspace().join("tests/registry").join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let lines: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let asking = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("Python ends");
    asking.join().expect("no panic").expect("Python reads its questions");
    assert!(output.status.success(), "{script} failed");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), questions.len(), "one answer each");
    answers
}

/// A small generator of numbers that are the same everywhere (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to below `n`.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).expect("small")
    }

    fn key(&mut self) -> SigningKey {
        let mut seed = [0_u8; 32];
        for part in seed.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes());
        }
        SigningKey::from_seed(&seed)
    }

    fn signers(&mut self, most: usize) -> Signers {
        let keys: Vec<SigningKey> = (0..=self.below(most)).map(|_| self.key()).collect();
        let threshold = u32::try_from(1 + self.below(keys.len())).expect("few");
        Signers { keys, threshold }
    }
}

fn all(signers: &Signers) -> Vec<&SigningKey> {
    signers.keys.iter().collect()
}

const PUBLISHERS: [&str; 5] = ["acme", "bolt", "zeta", "quill", "north-wind"];
const RULES: [&str; 3] = ["fix-boot", "softmax", "swish"];

/// A registry by the throw of dice, with everything that a registry goes through. Gives its folder and the
/// files that clients must find, with their hashes.
fn random(folder: &Path, seed: u64) -> (Repository, BTreeMap<String, String>) {
    let mut dice = Dice(seed);
    let mut keys = Keys {
        root: dice.signers(3),
        targets: dice.signers(2),
        reviewed: dice.signers(2),
        snapshot: dice.signers(2),
        timestamp: dice.signers(2),
    };
    let place = folder.join(format!("registry-{seed}"));
    let registry = Repository::init(&place, &keys, jiff::Timestamp::now()).expect("registry");
    let mut publishers: BTreeMap<&str, Signers> = BTreeMap::new();
    let mut listed = BTreeMap::new();
    for _ in 0..4 + dice.below(12) {
        match dice.below(8) {
            0 | 1 => {
                let name = PUBLISHERS[dice.below(PUBLISHERS.len())];
                if !publishers.contains_key(name) {
                    let signers = dice.signers(2);
                    let public: Vec<_> = signers.keys.iter().map(SigningKey::public).collect();
                    registry.add_publisher(name, &public, signers.threshold, &all(&keys.targets)).expect("a publisher");
                    publishers.insert(name, signers);
                }
            }
            2..=4 => {
                let Some(name) = publishers.keys().copied().nth(dice.below(publishers.len().max(1))) else { continue };
                let rule = RuleName::new(name, RULES[dice.below(RULES.len())]).expect("name");
                let version = version(&format!("1.{}.{}", dice.below(4), dice.below(4)));
                let mut new = Vec::new();
                for kind in TargetKind::ALL {
                    let target = rule.target(&version, kind);
                    if !listed.contains_key(&target.to_string()) {
                        let bytes: Vec<u8> = (0..dice.below(3000)).map(|_| dice.next().to_le_bytes()[0]).collect();
                        new.push(NewTarget { target, bytes, record: None });
                    }
                }
                registry.publish(name, &new, &all(&publishers[name])).expect("published");
                let targets: Vec<Target> = new.iter().map(|new| new.target.clone()).collect();
                registry.review(&targets, &all(&keys.reviewed)).expect("reviewed");
                for new in new {
                    listed.insert(new.target.to_string(), delegate_doctor::files::sha256_hex(&new.bytes));
                }
            }
            5 => registry.snapshot_and_timestamp(&all(&keys.snapshot), &all(&keys.timestamp)).expect("snapshot"),
            6 => {
                let new = dice.signers(3);
                let public: Vec<_> = new.keys.iter().map(SigningKey::public).collect();
                let signing: Vec<&SigningKey> = keys.root.keys.iter().chain(&new.keys).collect();
                registry.rotate("root", &public, new.threshold, &signing).expect("a new root");
                keys.root = new;
            }
            _ => {
                let new = dice.signers(2);
                let public: Vec<_> = new.keys.iter().map(SigningKey::public).collect();
                registry.rotate("timestamp", &public, new.threshold, &all(&keys.root)).expect("a new key");
                keys.timestamp = new;
                registry.renew_timestamp(&all(&keys.timestamp)).expect("timestamp");
            }
        }
    }
    registry.resign(&all(&keys.snapshot), &all(&keys.timestamp)).expect("the last snapshot");
    (registry, listed)
}

fn version(text: &str) -> semver::Version {
    text.parse().expect("version")
}

/// Every file that could be asked for.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for publisher in PUBLISHERS {
        for rule in RULES {
            for minor in 0..4 {
                for patch in 0..4 {
                    let rule = RuleName::new(publisher, rule).expect("name");
                    let version = version(&format!("1.{minor}.{patch}"));
                    names.extend(TargetKind::ALL.map(|kind| rule.target(&version, kind).to_string()));
                }
            }
        }
    }
    names.extend(["acme/a/b/1.0.0.wasm", "other/fix-boot/1.0.0.wasm", "fix-boot"].map(str::to_owned));
    names
}

#[test]
fn python_tuf_finds_what_our_writer_published_and_nothing_else() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let made: Vec<_> = (1..=24).map(|seed| random(folder.path(), seed)).collect();
    assert!(made.iter().map(|(_, listed)| listed.len()).sum::<usize>() > 100, "the dice make something");
    let questions: Vec<Value> =
        made.iter().map(|(registry, _)| json!({ "registry": registry.folder(), "targets": names() })).collect();
    for (answer, (registry, listed)) in ask("read_with_tuf.py", &questions).iter().zip(&made) {
        let found = answer["found"].as_object().unwrap_or_else(|| panic!("{}: {answer}", registry.folder().display()));
        let found: BTreeMap<String, String> = found
            .iter()
            // A publisher that has not published has no document yet, and a client is told so.
            .filter(|(_, sha256)| !sha256.as_str().is_none_or(|text| text.ends_with("is not part of snapshot")))
            .map(|(name, sha256)| (name.clone(), sha256.as_str().expect("a hash").to_owned()))
            .collect();
        assert_eq!(found, *listed, "{}", registry.folder().display());
    }
}

/// What our reader finds in a folder: every file that is countersigned and has the bytes that were signed.
fn ours(registry: &Path) -> Result<BTreeMap<String, String>, String> {
    let now = jiff::Timestamp::now();
    let read = |path: String| fs_err::read(registry.join(path)).map_err(|error| error.to_string());
    let document = |version: u64, role: &str| read(layout::metadata_path(version, role));
    let told = |error: delegate_doctor::registry::verify::Refused| error.to_string();
    let mut chain = Chain::begin("test", &document(1, "root")?).map_err(told)?;
    while registry.join(layout::metadata_path(chain.root_version() + 1, "root")).exists() {
        let next = document(chain.root_version() + 1, "root")?;
        chain.next_root(&next).map_err(told)?;
    }
    chain.check_root_expired(now).map_err(told)?;
    let stamp = chain.timestamp(&read(layout::timestamp_path())?, now).map_err(told)?;
    chain.snapshot(&document(stamp.snapshot, "snapshot")?, now).map_err(told)?;
    let listed = chain.listed();
    let version = |role: &str| listed.get(role).copied();
    chain.targets(&document(version("targets").unwrap_or(0), "targets")?, now).map_err(told)?;
    let mut found = BTreeMap::new();
    for publisher in chain.publishers() {
        let Some(version) = version(&publisher.name) else { continue };
        chain.role(&publisher.name, &document(version, &publisher.name)?, now).map_err(told)?;
        for role in chain.review_roles(&publisher.name) {
            let version = listed.get(&role).copied().unwrap_or(0);
            chain.role(&role, &document(version, &role)?, now).map_err(told)?;
        }
        for signed in chain.all_signed(&publisher.name).map_err(told)? {
            if signed.review != Review::Reviewed {
                return Err(format!("{} is not reviewed", signed.target));
            }
            let bytes = read(layout::target_path(&signed.target, &signed.sha256))?;
            chain.check_bytes(&signed, &bytes).map_err(told)?;
            found.insert(signed.target.to_string(), signed.sha256);
        }
    }
    Ok(found)
}

#[test]
fn our_reader_finds_what_python_tuf_published_and_nothing_else() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let places: Vec<PathBuf> = (1..=40).map(|seed| folder.path().join(format!("registry-{seed}"))).collect();
    let questions: Vec<Value> =
        places.iter().enumerate().map(|(seed, place)| json!({ "registry": place, "seed": seed })).collect();
    let mut files = 0;
    for (answer, place) in ask("write_with_tuf.py", &questions).iter().zip(&places) {
        let listed: BTreeMap<String, String> =
            serde_json::from_value(answer["targets"].clone()).expect("paths and hashes");
        files += listed.len();
        let found = ours(place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        assert_eq!(found, listed, "{}", place.display());
    }
    assert!(files > 100, "the dice make something: {files}");
}

#[test]
fn our_reader_finds_what_our_writer_published_and_nothing_else() {
    let folder = tempfile::tempdir().expect("temporary folder");
    for seed in 101..=124 {
        let (registry, listed) = random(folder.path(), seed);
        assert_eq!(ours(registry.folder()).as_ref(), Ok(&listed), "{}", registry.folder().display());
    }
}

fn copied(from: &Path, to: &Path) {
    for entry in fs_err::read_dir(from).expect("list") {
        let path = entry.expect("entry").path();
        let place = to.join(path.file_name().expect("name"));
        if path.is_dir() {
            fs_err::create_dir_all(&place).expect("folder");
            copied(&path, &place);
        } else {
            fs_err::copy(&path, &place).expect("copy");
        }
    }
}

/// Every file below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).expect("list") {
        let path = entry.expect("entry").path();
        if path.is_dir() { found.extend(below(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn both_refuse_a_registry_in_which_a_byte_was_changed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (registry, listed) = (1..)
        .map(|seed| random(folder.path(), seed))
        .find(|(_, listed)| listed.len() >= 6)
        .expect("dice make something at some time");
    let names: Vec<&String> = listed.keys().collect();
    let snapshot = registry.snapshot().expect("snapshot").expect("there").signed;
    let seen = |name: &str| {
        let current = |role: &str, version: u64| name == format!("{version}.{role}.json");
        name.ends_with(".root.json")
            || name == layout::TIMESTAMP
            || current("snapshot", snapshot.version)
            || snapshot.meta.iter().any(|(file, meta)| current(file.trim_end_matches(".json"), meta.version))
    };
    let unknown = |name: &str| name.contains(".reviewed.") || name.ends_with(".catalog.json");
    let mut cases = Vec::new();
    for path in below(registry.folder()) {
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        let is_target = path.starts_with(registry.folder().join(layout::TARGETS));
        // A client has the first root already; other versions are not what it reads now; for files, python-tuf reads
        // neither what reviewers say nor the catalogue.
        if !is_target && (!seen(&name) || name == "1.root.json" || unknown(&name)) {
            continue;
        }
        for (case, change) in [("flipped", true), ("cut", false)] {
            let place = folder.path().join(format!("case-{}", cases.len()));
            fs_err::create_dir_all(&place).expect("folder");
            copied(registry.folder(), &place);
            let changed = place.join(path.strip_prefix(registry.folder()).expect("below"));
            let mut bytes = fs_err::read(&changed).expect("read");
            if bytes.is_empty() {
                continue;
            }
            if change {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            } else {
                bytes.pop();
            }
            fs_err::write(&changed, bytes).expect("write");
            cases.push((format!("{case} {name}"), place));
        }
    }
    assert!(cases.len() > 20, "{}", cases.len());
    let questions: Vec<Value> = cases.iter().map(|(_, place)| json!({ "registry": place, "targets": names })).collect();
    for (answer, (case, place)) in ask("read_with_tuf.py", &questions).iter().zip(&cases) {
        assert!(ours(place).is_err(), "{case} was not noticed by our reader");
        let whole = answer["found"].as_object().is_some_and(|found| {
            listed.iter().all(|(name, sha256)| found.get(name).and_then(Value::as_str) == Some(sha256))
        });
        assert!(!whole, "{case} was not noticed");
        let others = answer["found"].as_object().into_iter().flatten().filter_map(|(name, found)| {
            let found = found.as_str().filter(|found| !found.starts_with("refused"))?;
            (listed.get(name).map(String::as_str) != Some(found)).then(|| name.clone())
        });
        assert_eq!(others.collect::<Vec<_>>(), Vec::<String>::new(), "{case}: other bytes were given");
    }
}
