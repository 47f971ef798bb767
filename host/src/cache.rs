//! What can be made again but takes long: lowered programs and traces, kept between runs.
//!
//! ```text
//! <cache>/<kind>/<key>/entry.json    files of the entry with their SHA-256
//! <cache>/<kind>/<key>/…             the files
//! ```
//!
//! A key is a SHA-256 of everything that the content depends on. An entry appears in one step; one that
//! is torn or altered counts as missing and is removed. Losing the cache costs time, never an answer.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::files;

/// Entries that nobody used for this long are removed.
const KEEP: Duration = Duration::from_secs(30 * 24 * 3600);
/// Above this total the entries longest unused are removed.
const MAX_BYTES: u64 = 8 << 30;
/// Bytes of a record that are read.
const MOST_RECORD: u64 = 16 << 20;

/// The cache folder; a disabled one has nothing and keeps nothing.
#[derive(Clone, Debug)]
pub struct Cache {
    root: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct EntryRecord {
    version: u32,
    files: BTreeMap<String, String>,
}

impl Cache {
    /// The cache below `root`; `None` disables it.
    pub fn new(root: Option<PathBuf>) -> Self {
        Self { root }
    }

    /// Copies the entry's files into `destination` (which must exist) and gives true, or gives false when
    /// there is no whole entry.
    ///
    /// # Errors
    /// When the destination cannot be written.
    pub fn fetch(&self, kind: &str, key: &str, destination: &Path) -> io::Result<bool> {
        let Some(entry) = self.entry(kind, key) else { return Ok(false) };
        let Some(record) = read_record(&entry) else {
            remove(&entry);
            return Ok(false);
        };
        for (name, sha256) in &record.files {
            let source = entry.join(name);
            if files::sha256_of(&source).ok().as_ref() != Some(sha256) {
                remove(&entry);
                return Ok(false);
            }
            copy_atomic(&source, &destination.join(name))?;
        }
        // The time of last use, for pruning; a read-only cache still serves.
        if let Ok(file) = fs::File::options().write(true).open(entry.join("entry.json")) {
            let _ = file.set_modified(SystemTime::now());
        }
        Ok(true)
    }

    /// Keeps copies of `sources` under the key, then prunes. A cache that cannot be written keeps nothing
    /// and says so in the error, which a caller may pass on as a warning.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn keep(&self, kind: &str, key: &str, sources: &[&Path]) -> io::Result<()> {
        let Some(entry) = self.entry(kind, key) else { return Ok(()) };
        let Some(parent) = entry.parent() else { return Ok(()) };
        fs::create_dir_all(parent)?;
        let making = tempfile::Builder::new().prefix(".making-").tempdir_in(parent)?;
        let mut record = EntryRecord { version: 1, files: BTreeMap::new() };
        for source in sources {
            let Some(name) = source.file_name().and_then(|name| name.to_str()) else { continue };
            fs::copy(source, making.path().join(name))?;
            record.files.insert(name.to_owned(), files::sha256_of(source)?);
        }
        files::write_json(&making.path().join("entry.json"), &record)?;
        match fs::rename(making.path(), &entry) {
            // Somebody else was faster with the same content.
            Err(_) if entry.join("entry.json").exists() => {}
            other => other?,
        }
        self.prune();
        Ok(())
    }

    fn entry(&self, kind: &str, key: &str) -> Option<PathBuf> {
        self.root.as_ref().map(|root| root.join(kind).join(key))
    }

    fn prune(&self) {
        let Some(root) = &self.root else { return };
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for kind in ["lowered", "traces", "equivalence"] {
            for entry in fs::read_dir(root.join(kind)).into_iter().flatten().filter_map(Result::ok) {
                let path = entry.path();
                let used = fs::metadata(path.join("entry.json"))
                    .and_then(|metadata| metadata.modified())
                    .or_else(|_| fs::metadata(&path).and_then(|metadata| metadata.modified()))
                    .unwrap_or(SystemTime::UNIX_EPOCH);
                let bytes = fs::read_dir(&path)
                    .into_iter()
                    .flatten()
                    .filter_map(|file| file.ok()?.metadata().ok())
                    .map(|metadata| metadata.len())
                    .sum();
                entries.push((used, bytes, path));
            }
        }
        entries.sort_unstable_by(|a, b| b.cmp(a));
        let mut total = 0_u64;
        for (used, bytes, path) in entries {
            total = total.saturating_add(bytes);
            let unused = used.elapsed().unwrap_or_default();
            // A fresh folder without a record is another process at work.
            let at_work = !path.join("entry.json").exists() && unused < Duration::from_secs(3600);
            if !at_work && (total > MAX_BYTES || unused > KEEP) {
                remove(&path);
            }
        }
    }
}

/// Notes beside files of a run folder what they were made from, so that a resumed run can take them.
///
/// # Errors
/// When a file cannot be read or the note not be written.
pub fn note(folder: &Path, name: &str, key: &str, files: &[&str]) -> io::Result<()> {
    let mut record = Note { key: key.to_owned(), files: BTreeMap::new() };
    for file in files {
        record.files.insert((*file).to_owned(), files::sha256_of(&folder.join(file))?);
    }
    files::write_json(&folder.join(format!("{name}.made-from.json")), &record)
}

/// True when the files are still those that [`note`] saw for this key.
pub fn noted(folder: &Path, name: &str, key: &str) -> bool {
    let Ok(bytes) = files::read_regular(&folder.join(format!("{name}.made-from.json")), MOST_RECORD) else {
        return false;
    };
    serde_json::from_slice::<Note>(&bytes).is_ok_and(|note| {
        note.key == key
            && note
                .files
                .iter()
                .all(|(file, sha256)| files::sha256_of(&folder.join(file)).is_ok_and(|found| found == *sha256))
    })
}

#[derive(Serialize, Deserialize)]
struct Note {
    key: String,
    files: BTreeMap<String, String>,
}

/// A key from everything the content depends on.
pub fn key(parts: &[&str]) -> String {
    let mut text = String::new();
    for part in parts {
        text.push_str(&part.len().to_string());
        text.push(':');
        text.push_str(part);
    }
    files::sha256_hex(text.as_bytes())
}

fn read_record(entry: &Path) -> Option<EntryRecord> {
    let record: EntryRecord =
        serde_json::from_slice(&files::read_regular(&entry.join("entry.json"), MOST_RECORD).ok()?).ok()?;
    let plain =
        |name: &String| Path::new(name).components().count() == 1 && !name.contains(['/', '\\']) && name != "..";
    (record.version == 1 && record.files.keys().all(plain)).then_some(record)
}

fn copy_atomic(source: &Path, destination: &Path) -> io::Result<()> {
    let folder = destination.parent().unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
    fs::copy(source, temporary.path())?;
    temporary.persist(destination).map_err(|error| error.error)?;
    Ok(())
}

fn remove(entry: &Path) {
    // What cannot be removed is found torn again and counts as missing again.
    let _ = fs::remove_dir_all(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_altered_entry_counts_as_missing() {
        let top = tempfile::tempdir().expect("temporary folder");
        let cache = Cache::new(Some(top.path().join("cache")));
        let source = top.path().join("program.pte");
        files::write_atomic(&source, b"content").expect("write");
        cache.keep("lowered", "k", &[&source]).expect("keep");
        let out = top.path().join("out");
        fs::create_dir(&out).expect("folder");
        assert!(cache.fetch("lowered", "k", &out).expect("fetch"));
        assert_eq!(fs::read(out.join("program.pte")).expect("read"), b"content");
        assert!(!cache.fetch("lowered", "other", &out).expect("fetch"));
        files::write_atomic(&top.path().join("cache/lowered/k/program.pte"), b"altered").expect("write");
        assert!(!cache.fetch("lowered", "k", &out).expect("fetch"));
        assert!(!top.path().join("cache/lowered/k").exists(), "the altered entry is gone");
        assert!(!Cache::new(None).fetch("lowered", "k", &out).expect("fetch"));
    }

    #[test]
    fn a_record_cannot_name_files_elsewhere() {
        let top = tempfile::tempdir().expect("temporary folder");
        let entry = top.path().join("lowered/k");
        fs::create_dir_all(&entry).expect("folder");
        files::write_atomic(&top.path().join("lowered/secret"), b"x").expect("write");
        let record = format!(r#"{{"version":1,"files":{{"../secret":"{}"}}}}"#, files::sha256_hex(b"x"));
        files::write_atomic(&entry.join("entry.json"), record.as_bytes()).expect("write");
        let out = top.path().join("out");
        fs::create_dir(&out).expect("folder");
        assert!(!Cache::new(Some(top.path().to_path_buf())).fetch("lowered", "k", &out).expect("fetch"));
    }

    #[test]
    fn a_note_holds_as_long_as_key_and_files_are_the_same() {
        let top = tempfile::tempdir().expect("temporary folder");
        files::write_atomic(&top.path().join("program.pte"), b"content").expect("write");
        assert!(!noted(top.path(), "lowered", "k"));
        note(top.path(), "lowered", "k", &["program.pte"]).expect("note");
        assert!(noted(top.path(), "lowered", "k"));
        assert!(!noted(top.path(), "lowered", "other"));
        files::write_atomic(&top.path().join("program.pte"), b"altered").expect("write");
        assert!(!noted(top.path(), "lowered", "k"));
    }

    #[test]
    fn keys_do_not_run_into_each_other() {
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_eq!(key(&["a"]), key(&["a"]));
    }
}
