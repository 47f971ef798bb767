//! Rules on this machine: their bytes by hash, and the metadata that vouched for them.
//!
//! ```text
//! blobs/sha256/ab/abcd…      read-only, written once
//! records/<registry>/…json   which metadata vouched for a component, and when
//! tmp/  .lock
//! ```
//!
//! A blob appears in one step and is compared with its name whenever it is read; one that differs does not
//! exist. So a process may be killed anywhere, and the command simply be repeated.

use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::guard::Guard;
use super::layout;
use super::name::RuleName;
use crate::files::{self, sha256_hex};

/// Version of a record.
const VERSION: u32 = 2;
/// Largest record, in bytes.
const MOST_RECORD_BYTES: u64 = 1 << 20;
/// Temporary files of processes that are long gone.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// The rules of a user.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Which metadata vouched for a component. The hashes name blobs of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Record {
    /// version of the record
    pub format: u32,
    /// id of the registry
    pub registry: String,
    /// the rule
    pub rule: RuleName,
    /// its version
    pub version: semver::Version,
    /// SHA-256 of the component
    pub sha256: String,
    /// when it was verified
    pub at: Timestamp,
    /// the roots, from the pinned one on
    pub roots: Vec<String>,
    /// timestamp
    pub timestamp: String,
    /// snapshot
    pub snapshot: String,
    /// targets
    pub targets: String,
    /// the publisher's role
    pub role: String,
    /// what the maintainers revoked; none when the registry has no reviewers
    pub reviewed: Option<String>,
    /// what they countersigned of the publisher's; none when that is nothing
    pub review: Option<String>,
    /// the user took it without review
    pub unreviewed: bool,
}

impl Record {
    /// Version of the records that are written.
    pub const FORMAT: u32 = VERSION;

    /// Every blob that it names.
    pub fn blobs(&self) -> impl Iterator<Item = &String> {
        let metadata = [&self.timestamp, &self.snapshot, &self.targets, &self.role];
        self.roots.iter().chain(metadata).chain(&self.reviewed).chain(&self.review).chain(std::iter::once(&self.sha256))
    }
}

impl Store {
    /// The store in `folder`, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn blob(&self, sha256: &str) -> PathBuf {
        let start = sha256.get(..2).unwrap_or("xx");
        self.folder.join("blobs/sha256").join(start).join(sha256)
    }

    fn record(&self, registry: &str, rule: &RuleName, version: &semver::Version) -> PathBuf {
        self.folder
            .join("records")
            .join(registry)
            .join(rule.publisher())
            .join(rule.rule())
            .join(format!("{version}.json"))
    }

    /// The bytes with this hash; none when they are missing or damaged.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn get(&self, sha256: &str) -> io::Result<Option<Vec<u8>>> {
        if !is_hash(sha256) {
            return Ok(None);
        }
        match files::read_regular(&self.blob(sha256), layout::MOST_TARGET_BYTES) {
            Ok(bytes) if sha256_hex(&bytes) == sha256 => Ok(Some(bytes)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps bytes and gives their hash. What is there and whole is left alone.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn put(&self, bytes: &[u8]) -> io::Result<String> {
        let sha256 = sha256_hex(bytes);
        if self.get(&sha256).ok().flatten().is_some() {
            return Ok(sha256);
        }
        let path = self.blob(&sha256);
        let folder = path.parent().unwrap_or(&self.folder);
        let tmp = self.folder.join("tmp");
        fs::create_dir_all(folder)?;
        fs::create_dir_all(&tmp)?;
        let mut file = tempfile::Builder::new().prefix("blob-").tempfile_in(&tmp)?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o444))?;
        file.as_file().sync_all()?;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("failed to put a file at `{}`: {error}", path.display()))
        };
        file.persist(&path).map_err(|error| named(error.error))?;
        sync(folder);
        Ok(sha256)
    }

    /// Keeps a record; the blobs that it names are there before.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn put_record(&self, record: &Record) -> io::Result<()> {
        let path = self.record(&record.registry, &record.rule, &record.version);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        files::write_json(&path, record)
    }

    /// The record of a version; none when there is none that can be read.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn get_record(&self, registry: &str, rule: &RuleName, version: &semver::Version) -> io::Result<Option<Record>> {
        let bytes = match files::read_regular(&self.record(registry, rule, version), MOST_RECORD_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let record = serde_json::from_slice::<Record>(&bytes).ok();
        Ok(record.filter(|record| record.format == VERSION && record.rule == *rule && record.version == *version))
    }

    /// True when something was ever installed from a registry.
    pub fn has_records(&self, registry: &str) -> bool {
        self.folder.join("records").join(registry).exists()
    }

    /// Waits for the lock of the store.
    ///
    /// # Errors
    /// As the lock's.
    pub(super) fn lock(&self) -> io::Result<Guard> {
        Guard::wait(&self.folder)
    }

    /// Removes temporary files that were left behind more than a day ago.
    pub fn sweep(&self) {
        for entry in fs::read_dir(self.folder.join("tmp")).into_iter().flatten().filter_map(Result::ok) {
            let modified =
                entry.metadata().and_then(|metadata| metadata.modified()).unwrap_or_else(|_| SystemTime::now());
            if modified.elapsed().unwrap_or_default() > STALE {
                // What cannot be removed now is seen again the next time.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn sync(folder: &Path) {
    if let Ok(folder) = fs::File::open(folder) {
        // Some file systems refuse to sync a folder; the rename itself has happened.
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_by_their_hash_and_damaged_ones_do_not() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let store = Store::new(folder.path().join("rules"));
        let sha256 = store.put(b"component").expect("put");
        assert_eq!(store.put(b"component").expect("again"), sha256);
        assert_eq!(store.get(&sha256).expect("get").as_deref(), Some(b"component".as_slice()));
        let path = store.blob(&sha256);
        assert_eq!(fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o444);
        for damage in [b"COMPONENT".as_slice(), b"", b"component and more"] {
            fs::remove_file(&path).expect("remove");
            fs::write(&path, damage).expect("damage");
            assert_eq!(store.get(&sha256).expect("damaged"), None);
            store.put(b"component").expect("mended");
            assert_eq!(store.get(&sha256).expect("get").as_deref(), Some(b"component".as_slice()));
        }
        for name in ["", "..", "../../../etc/passwd", &"A".repeat(64)] {
            assert_eq!(store.get(name).expect("no hash"), None, "{name}");
        }
    }

    #[test]
    fn a_record_comes_back_and_a_foreign_one_does_not() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let store = Store::new(folder.path().join("rules"));
        let hash = "ab".repeat(32);
        let record = Record {
            format: VERSION,
            registry: "00112233".to_owned(),
            rule: "acme/fix-boot".parse().expect("rule"),
            version: semver::Version::new(1, 0, 0),
            sha256: hash.clone(),
            at: Timestamp::UNIX_EPOCH,
            roots: vec![hash.clone()],
            timestamp: hash.clone(),
            snapshot: hash.clone(),
            targets: hash.clone(),
            role: hash.clone(),
            review: None,
            reviewed: Some(hash),
            unreviewed: false,
        };
        store.put_record(&record).expect("put");
        let get =
            |rule: &str| store.get_record("00112233", &rule.parse().expect("rule"), &record.version).expect("get");
        assert_eq!(get("acme/fix-boot"), Some(record.clone()));
        assert_eq!(get("acme/other"), None);
        let path = store.record("00112233", &record.rule, &record.version);
        fs::write(&path, "{").expect("damage");
        assert_eq!(get("acme/fix-boot"), None);
        assert_eq!(record.blobs().count(), 7);
    }
}
