//! Registries with real metadata and real keys, for measuring.

use std::ops::Range;
use std::path::Path;

use delegate_doctor::files::sha256_hex;
use delegate_doctor::registry::key::SigningKey;
use delegate_doctor::registry::layout;
use delegate_doctor::registry::metadata::{EvidenceRecord, NumericsClass, RuleRecord, TargetFile};
use delegate_doctor::registry::name::{RuleName, Target, TargetKind};
use delegate_doctor::registry::trust::Pin;
use delegate_doctor::registry::writer::{Keys, Repository, Signers};
use jiff::Timestamp;

use super::Outcome;

/// A publisher's name.
pub(super) fn publisher(number: u32) -> String {
    // Three of each letter: no name could be taken for another.
    let letters = ["aaa", "eee", "hhh", "kkk", "ppp", "xxx", "yyy", "www"];
    let letter = |place: u32| letters[(number / 8_u32.pow(place) % 8) as usize];
    format!("{}-{}-{}", letter(2), letter(1), letter(0))
}

/// A registry that was made.
pub(super) struct Made {
    repository: Repository,
    /// its first root
    pub(super) pin: Pin,
    online: SigningKey,
    keys: Vec<SigningKey>,
}

impl Made {
    /// Makes it below a folder.
    pub(super) fn of(folder: &Path, versions: u32, publishers: u32) -> Outcome<Self> {
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
            let new = files_of(&name, 0..versions / publishers)?;
            repository.list(&name, &new, &[key])?;
            reviewed_targets.extend(new.into_iter().map(|(target, _)| target));
        }
        repository.review(&reviewed_targets, &[&reviewed])?;
        repository.snapshot_and_timestamp(&[&online], &[&online])?;
        let root = fs_err::read(repository.folder().join(layout::metadata_path(1, "root")))?;
        let pin = Pin { version: 1, sha256: sha256_hex(&root) };
        Ok(Self { repository, pin, online, keys })
    }

    /// Somebody publishes a version of another rule.
    pub(super) fn change(&self) -> Outcome<()> {
        let newest = self.repository.role(&publisher(0))?.map_or(0, |role| role.signed.targets.len() / 3);
        let newest = u32::try_from(newest)?;
        let key = self.keys.first().ok_or("no publisher")?;
        self.repository.list(&publisher(0), &files_of(&publisher(0), newest..newest + 1)?, &[key])?;
        self.repository.snapshot_and_timestamp(&[&self.online], &[&self.online])?;
        Ok(())
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        self.repository.folder()
    }
}

/// Ten versions a rule, each a component and a manifest. Their bytes are nowhere: nothing here asks for them.
fn files_of(publisher: &str, numbers: Range<u32>) -> Outcome<Vec<(Target, TargetFile)>> {
    let mut files = Vec::new();
    for number in numbers {
        let rule: RuleName = format!("{publisher}/rule-{}", number / 10).parse()?;
        let version = semver::Version::new(1, u64::from(number % 10), 0);
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
        files.push((target(TargetKind::Component), TargetFile::of(&component, Some(record))));
        files.push((target(TargetKind::Manifest), TargetFile::of(&manifest, None)));
        // The evidence is not measured on anything; its place in the documents is.
        files.push((
            target(TargetKind::Evidence),
            TargetFile::of(format!("evidence {rule} {version}").as_bytes(), None),
        ));
    }
    Ok(files)
}
