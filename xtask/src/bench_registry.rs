//! `cargo xtask bench registry`: what a registry of some size costs its users.
//!
//! Registries with real metadata and keys are made in a temporary folder; users look up one rule, with nothing,
//! with everything and with one change since the last time, and search all of it. Processor time is measured,
//! because wall time says little on a shared machine.

use std::sync::Arc;

use cpu_time::ProcessTime;
use delegate_doctor::files::sha256_hex;
use delegate_doctor::registry::client::{Manner, Places, Registry};
use delegate_doctor::registry::key::SigningKey;
use delegate_doctor::registry::layout;
use delegate_doctor::registry::metadata::{EvidenceRecord, NumericsClass, RuleRecord};
use delegate_doctor::registry::name::{RuleName, TargetKind};
use delegate_doctor::registry::trust::{Known, Pin};
use delegate_doctor::registry::writer::{Keys, NewTarget, Repository, Signers};
use jiff::Timestamp;

/// Versions and publishers of the registries that are measured.
const SIZES: [(u32, u32); 3] = [(100, 10), (1_000, 50), (10_000, 200)];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What one use cost.
struct Cost {
    milliseconds: f64,
    kilobytes: f64,
}

/// Measures and prints a table.
pub(crate) fn bench() -> Outcome<()> {
    println!("| versions | publishers | first lookup | again | after a change | search |");
    println!("|---|---|---|---|---|---|");
    for (versions, publishers) in SIZES {
        let folder = tempfile::tempdir()?;
        let made = Made::of(folder.path(), versions, publishers)?;
        let user = made.user(folder.path(), "user");
        let rule: RuleName = format!("{}/rule-0", publisher(publishers / 2)).parse()?;
        let first = made.lookup(&user, &rule)?;
        let again = made.lookup(&user, &rule)?;
        made.change()?;
        let changed = made.lookup(&user, &rule)?;
        let search = made.search(&made.user(folder.path(), "searcher"))?;
        let told = |cost: &Cost| format!("{:.1} ms, {:.0} KB", cost.milliseconds, cost.kilobytes);
        println!(
            "| {versions} | {publishers} | {} | {} | {} | {} |",
            told(&first),
            told(&again),
            told(&changed),
            told(&search)
        );
    }
    Ok(())
}

fn publisher(number: u32) -> String {
    // Three of each letter: no name could be taken for another.
    let letters = ["aaa", "eee", "hhh", "kkk", "ppp", "xxx", "yyy", "www"];
    let letter = |place: u32| letters[(number / 8_u32.pow(place) % 8) as usize];
    format!("{}-{}-{}", letter(2), letter(1), letter(0))
}

/// A registry that was made.
struct Made {
    repository: Repository,
    known: Known,
    online: SigningKey,
    keys: Vec<SigningKey>,
}

impl Made {
    fn of(folder: &std::path::Path, versions: u32, publishers: u32) -> Outcome<Self> {
        let key = |number: u32| {
            let mut seed = [7_u8; 32];
            seed.iter_mut().zip(number.to_le_bytes()).for_each(|(byte, part)| *byte = part);
            SigningKey::from_seed(&seed)
        };
        let (root, targets, reviewed, online) = (key(1), key(2), key(3), key(4));
        let all = Keys {
            root: Signers::one(root),
            targets: Signers::one(targets.clone()),
            reviewed: Signers::one(reviewed.clone()),
            snapshot: Signers::one(online.clone()),
            timestamp: Signers::one(online.clone()),
        };
        let repository = Repository::init(&folder.join("registry"), &all, Timestamp::now())?;
        let keys: Vec<SigningKey> = (0..publishers).map(|number| key(100 + number)).collect();
        let mut reviewed_targets = Vec::new();
        for (number, key) in (0..).zip(&keys) {
            let name = publisher(number);
            repository.add_publisher(&name, &[key.public()], 1, &[&targets])?;
            let new = files_of(&name, versions / publishers)?;
            repository.publish(&name, &new, &[key])?;
            reviewed_targets.extend(new.into_iter().map(|new| new.target));
        }
        repository.review(&reviewed_targets, &[&reviewed])?;
        repository.snapshot_and_timestamp(&[&online], &[&online])?;
        let root = fs_err::read(repository.folder().join(layout::metadata_path(1, "root")))?;
        let known = Known {
            name: "bench".to_owned(),
            place: repository.folder().display().to_string(),
            root: Pin { version: 1, sha256: sha256_hex(&root) },
        };
        Ok(Self { repository, known, online, keys })
    }

    /// Somebody publishes a version of another rule.
    fn change(&self) -> Outcome<()> {
        let new = files_of(&publisher(0), 1)?.into_iter().map(|mut new| {
            new.target.version = semver_of(999);
            if let Some(record) = &mut new.record {
                record.version = semver_of(999);
            }
            new
        });
        let key = self.keys.first().ok_or("no publisher")?;
        self.repository.publish(&publisher(0), &new.collect::<Vec<_>>(), &[key])?;
        self.repository.snapshot_and_timestamp(&[&self.online], &[&self.online])?;
        Ok(())
    }

    fn user(&self, folder: &std::path::Path, name: &str) -> Places {
        let home = folder.join(name);
        Places {
            trust: home.join("registries.toml"),
            state: home.join("state"),
            cache: home.join("cache"),
            rules: home.join("rules"),
        }
    }

    fn lookup(&self, user: &Places, rule: &RuleName) -> Outcome<Cost> {
        let registry = Arc::new(Registry::open(&self.known, user, Manner::default())?);
        let begun = ProcessTime::now();
        let mut view = registry.refresh(Timestamp::now())?;
        view.choose(rule, None, Default::default())?;
        Ok(Cost::since(begun, &registry))
    }

    fn search(&self, user: &Places) -> Outcome<Cost> {
        let registry = Arc::new(Registry::open(&self.known, user, Manner::default())?);
        let begun = ProcessTime::now();
        let mut view = registry.refresh(Timestamp::now())?;
        for publisher in view.publishers() {
            view.of_publisher(&publisher.name)?;
        }
        Ok(Cost::since(begun, &registry))
    }
}

impl Cost {
    fn since(begun: ProcessTime, registry: &Registry) -> Self {
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        #[expect(clippy::cast_precision_loss, reason = "kilobytes are shown whole")]
        let kilobytes = registry.fetched() as f64 / 1e3;
        Self { milliseconds, kilobytes }
    }
}

fn semver_of(number: u32) -> semver::Version {
    semver::Version::new(1, u64::from(number), 0)
}

/// Ten versions a rule, each a component and a manifest.
fn files_of(publisher: &str, versions: u32) -> Outcome<Vec<NewTarget>> {
    let mut files = Vec::new();
    for number in 0..versions {
        let rule: RuleName = format!("{publisher}/rule-{}", number / 10).parse()?;
        let version = semver_of(number % 10);
        let component = format!("component {rule} {version}").into_bytes();
        let manifest = format!("manifest {rule} {version}").into_bytes();
        let record = RuleRecord {
            contract: semver::Version::new(0, 1, 0),
            evidence: EvidenceRecord { devices: vec!["cortex-a76".to_owned()], models: vec!["segmenter".to_owned()] },
            license: "MIT OR Apache-2.0".to_owned(),
            manifest: sha256_hex(&manifest),
            numerics: NumericsClass::Exact,
            rule: rule.rule().to_owned(),
            size: component.len() as u64,
            source: "https://example.org/rules".to_owned(),
            title: "A title as long as such titles usually are".to_owned(),
            version: version.clone(),
            yanked: None,
        };
        let target = |kind| rule.target(&version, kind);
        files.push(NewTarget { target: target(TargetKind::Component), bytes: component, record: Some(record) });
        files.push(NewTarget { target: target(TargetKind::Manifest), bytes: manifest, record: None });
    }
    Ok(files)
}
