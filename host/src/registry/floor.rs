//! What was seen of a registry before, so that nobody can go back behind it.
//!
//! ```text
//! floor.json          newest versions seen and the newest timestamp, with a checksum; never repaired in silence
//! roots/N.root.json   every root from the pinned one on
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::verify::{Chain, Problem, Refused, Stamp};
use crate::files;
use crate::hint::Hint;

/// Version of the file.
const VERSION: u32 = 1;
/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 4 << 20;
/// A clock that is further behind than this is not believed.
const SLACK: SignedDuration = SignedDuration::from_hours(24);

/// Why what was seen before cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the file is not what was written
    #[error("What was seen of the registry `{registry}` cannot be told: `{path}` {why}")]
    Damaged {
        /// as the user calls it
        registry: String,
        /// the file
        path: PathBuf,
        /// what is wrong
        why: String,
    },
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Damaged { registry, .. } => Some(format!(
                "Somebody may try to hand you an old registry. When the disk is to blame, begin anew with \
                 `delegate-doctor registry repair {registry}`"
            )),
            Self::Io(error) => error.hint(),
        }
    }
}

/// A version and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// number
    pub version: u64,
    /// SHA-256 of the file
    pub sha256: String,
}

/// The newest versions that were seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// newest root
    pub root: Seen,
    /// newest timestamp
    pub timestamp: Option<Seen>,
    /// its document, for when no host can be asked
    #[serde(default)]
    pub timestamp_document: Option<String>,
    /// newest snapshot
    pub snapshot: Option<u64>,
    /// ids of the keys that signed timestamp and snapshot; new keys begin anew
    pub online_keys: Vec<String>,
    /// version of every role that a snapshot ever listed
    pub roles: BTreeMap<String, u64>,
    /// when everything was in order
    pub last_good: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    checksum: String,
    floor: serde_json::Value,
}

impl Floor {
    /// Before anything but the root was seen.
    pub fn of_root(chain: &Chain) -> Self {
        Self {
            root: Seen { version: chain.root_version(), sha256: chain.root_sha256() },
            timestamp: None,
            timestamp_document: None,
            snapshot: None,
            online_keys: online_keys(chain),
            roles: BTreeMap::new(),
            last_good: Timestamp::UNIX_EPOCH,
        }
    }

    /// Reads the floor in `folder`; none when nothing was ever seen of the registry.
    ///
    /// # Errors
    /// When the file is damaged, or missing although there is something beside it.
    pub fn read(registry: &str, folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join("floor.json");
        let damaged =
            |why: &str| Error::Damaged { registry: registry.to_owned(), path: path.clone(), why: why.to_owned() };
        let bytes = match files::read_regular(&path, MOST_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if folder.join("roots").exists() {
                    return Err(damaged("is missing, and the roots beside it are there"));
                }
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let file: File = serde_json::from_slice(&bytes).map_err(|error| damaged(&format!("is damaged: {error}")))?;
        if file.version != VERSION {
            return Err(damaged(&format!("has version {}, and {VERSION} is understood", file.version)));
        }
        if checksum(&file.floor) != file.checksum {
            return Err(damaged("is damaged: its checksum does not agree"));
        }
        serde_json::from_value(file.floor).map(Some).map_err(|error| damaged(&format!("is damaged: {error}")))
    }

    /// Writes the floor into `folder`, which exists.
    ///
    /// # Errors
    /// Whatever the file system says; the old one then stays.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let floor = serde_json::to_value(self).map_err(io::Error::from)?;
        let file = File { version: VERSION, checksum: checksum(&floor), floor };
        Ok(files::write_json(&folder.join("floor.json"), &file)?)
    }

    /// Forgets timestamp, snapshot and roles when the root gave them other keys: that is how a registry gets
    /// back after its online key was stolen.
    pub fn follow_keys(&mut self, chain: &Chain) {
        let keys = online_keys(chain);
        if keys != self.online_keys {
            self.online_keys = keys;
            self.timestamp = None;
            self.timestamp_document = None;
            self.snapshot = None;
            self.roles.clear();
        }
    }

    /// Checks that the root is not older than the newest one seen.
    ///
    /// # Errors
    /// When it is, or has another content.
    pub fn check_root(&self, chain: &Chain) -> Result<(), Refused> {
        let found = chain.root_version();
        if found < self.root.version {
            return Err(chain.because("root", Problem::Rollback { seen: self.root.version, found }));
        }
        if found == self.root.version && chain.root_sha256() != self.root.sha256 {
            return Err(chain.because("root", Problem::Equivocation(found)));
        }
        Ok(())
    }

    /// Checks that the timestamp and the snapshot that it names are not older than those seen.
    ///
    /// # Errors
    /// When one is, or the timestamp has another content than before.
    pub fn check_timestamp(&self, chain: &Chain, stamp: &Stamp, sha256: &str) -> Result<(), Refused> {
        if let Some(seen) = &self.timestamp {
            if stamp.version < seen.version {
                return Err(chain.because("timestamp", Problem::Rollback { seen: seen.version, found: stamp.version }));
            }
            if stamp.version == seen.version && sha256 != seen.sha256 {
                return Err(chain.because("timestamp", Problem::Equivocation(stamp.version)));
            }
        }
        match self.snapshot {
            Some(seen) if stamp.snapshot < seen => {
                Err(chain.because("snapshot", Problem::Rollback { seen, found: stamp.snapshot }))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the snapshot lists every role that was ever listed, none of them older.
    ///
    /// # Errors
    /// When one is gone or older.
    pub fn check_listed(&self, chain: &Chain) -> Result<(), Refused> {
        let listed = chain.listed();
        for (role, seen) in &self.roles {
            match listed.get(role) {
                None => return Err(chain.because(role, Problem::Removed)),
                Some(found) if found < seen => {
                    return Err(chain.because(role, Problem::Rollback { seen: *seen, found: *found }));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The newest timestamp's document, when it is the one that was seen.
    pub fn timestamp_document(&self) -> Option<&[u8]> {
        let document = self.timestamp_document.as_ref()?.as_bytes();
        (self.timestamp.as_ref()?.sha256 == files::sha256_hex(document)).then_some(document)
    }

    /// Raises the floor to what was just verified; `timestamp` is the document of the newest one.
    pub fn raise(&mut self, chain: &Chain, stamp: &Stamp, timestamp: &[u8], now: Timestamp) {
        self.root = Seen { version: chain.root_version(), sha256: chain.root_sha256() };
        self.timestamp = Some(Seen { version: stamp.version, sha256: files::sha256_hex(timestamp) });
        self.timestamp_document = String::from_utf8(timestamp.to_vec()).ok();
        self.snapshot = Some(stamp.snapshot);
        self.roles = chain.listed();
        self.last_good = self.last_good.max(now);
    }

    /// The time to judge expiry by: the clock's, unless it is further behind than a day; then the newest time at
    /// which everything was in order, and true.
    pub fn believed_time(&self, clock: Timestamp) -> (Timestamp, bool) {
        let behind = self.last_good.duration_since(clock) > SLACK;
        (if behind { self.last_good } else { clock }, behind)
    }
}

fn online_keys(chain: &Chain) -> Vec<String> {
    let mut keys = Vec::new();
    for role in ["timestamp", "snapshot"] {
        keys.extend(chain.root_role(role).keys.into_iter().map(|key| format!("{role} {key}")));
    }
    keys
}

fn checksum(floor: &serde_json::Value) -> String {
    files::sha256_hex(floor.to_string().as_bytes())
}

/// Forgets what was seen, after the user agreed: moves the folder's files aside, where nothing reads them.
///
/// # Errors
/// Whatever the file system says.
pub fn forget(folder: &Path) -> io::Result<()> {
    for name in ["floor.json", "roots"] {
        let (from, to) = (folder.join(name), folder.join(format!("{name}.before-repair")));
        if to.is_dir() {
            fs::remove_dir_all(&to)?;
        }
        match fs::rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor() -> Floor {
        Floor {
            root: Seen { version: 2, sha256: "ab".repeat(32) },
            timestamp: Some(Seen { version: 7, sha256: "cd".repeat(32) }),
            timestamp_document: Some("{}".to_owned()),
            snapshot: Some(6),
            online_keys: vec!["timestamp k".to_owned()],
            roles: [("acme".to_owned(), 3)].into(),
            last_good: "2026-05-01T00:00:00Z".parse().expect("time"),
        }
    }

    #[test]
    fn a_floor_comes_back_and_a_damaged_one_is_told() {
        let folder = tempfile::tempdir().expect("temporary folder");
        assert_eq!(Floor::read("r", folder.path()).expect("fresh"), None);
        floor().write(folder.path()).expect("written");
        assert_eq!(Floor::read("r", folder.path()).expect("read"), Some(floor()));
        let path = folder.path().join("floor.json");
        let text = fs::read_to_string(&path).expect("text");
        for (case, text, why) in [
            ("lowered", text.replace("\"acme\": 3", "\"acme\": 2"), "its checksum does not agree"),
            ("torn", text[..text.len() / 2].to_owned(), "is damaged: EOF"),
            ("empty", String::new(), "is damaged: EOF"),
            ("newer", text.replace("\"version\": 1", "\"version\": 9"), "has version 9, and 1 is understood"),
        ] {
            fs::write(&path, text).expect("damage");
            let error = Floor::read("r", folder.path()).expect_err(case);
            assert!(error.to_string().contains(why), "{case}: {error}");
            assert!(error.hint().expect("hint").contains("registry repair r"), "{case}");
        }
        fs::remove_file(&path).expect("gone");
        fs::create_dir(folder.path().join("roots")).expect("beside");
        let error = Floor::read("r", folder.path()).expect_err("missing").to_string();
        assert!(error.contains("is missing, and the roots beside it are there"), "{error}");
        forget(folder.path()).expect("forgotten");
        assert_eq!(Floor::read("r", folder.path()).expect("fresh"), None);
    }

    #[test]
    fn a_clock_that_goes_back_is_not_believed_and_one_ahead_does_no_harm() {
        let floor = floor();
        let at = |text: &str| floor.believed_time(text.parse().expect("time"));
        assert_eq!(at("2025-05-01T00:00:00Z"), (floor.last_good, true));
        assert_eq!(at("2026-04-30T12:00:00Z"), ("2026-04-30T12:00:00Z".parse().expect("time"), false));
        assert_eq!(at("2036-05-01T00:00:00Z"), ("2036-05-01T00:00:00Z".parse().expect("time"), false));
    }
}
