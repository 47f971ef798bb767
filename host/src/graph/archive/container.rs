//! The zip file: opened within limits, read entry by entry, copied with changes.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{Change, Error, Limits};
use crate::interrupt;

/// Where a zip is read from.
pub(in crate::graph) trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// The archive begins with the file. Looking for its beginning would find the zip of the sample inputs,
/// which is inside it uncompressed.
pub(super) const WHOLE_FILE: Config = Config { archive_offset: ArchiveOffset::Known(0) };

/// An open `.pt2`, every entry of which has been read once and found whole.
pub(in crate::graph) struct Container {
    path: PathBuf,
    zip: Mutex<ZipArchive<Box<dyn ReadSeek>>>,
    /// position in the zip, size and digest, by name below the root folder
    entries: HashMap<String, Entry>,
    root: String,
    model: String,
    json_bytes: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    index: usize,
    size: u64,
    sha256: [u8; 32],
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("path", &self.path).field("root", &self.root).finish_non_exhaustive()
    }
}

impl Container {
    pub(in crate::graph) fn open(path: &Path, reader: Box<dyn ReadSeek>, limits: &Limits) -> Result<Self, Error> {
        let mut zip = ZipArchive::with_config(WHOLE_FILE, reader).map_err(|error| opening(path, error))?;
        let damaged = |problem: String| Error::Damaged { path: path.to_owned(), problem };
        let too_large = |what: &str, found: u64, limit: u64| Error::TooLarge {
            path: path.to_owned(),
            what: what.to_owned(),
            found,
            limit,
        };
        if zip.len() > limits.entries {
            return Err(too_large("the number of entries", zip.len() as u64, limits.entries as u64));
        }
        if zip.has_duplicate_names() {
            let problem = "two entries have the same name".to_owned();
            return Err(Error::EntryName { path: path.to_owned(), problem });
        }
        match zip.has_overlapping_entries() {
            Ok(false) => {}
            Ok(true) => return Err(damaged("two entries share bytes".to_owned())),
            Err(error) => return Err(damaged(error.to_string())),
        }
        zip.validate_header_consistency().map_err(|error| damaged(error.to_string()))?;

        let mut names = Vec::with_capacity(zip.len());
        let mut total = 0_u64;
        for index in 0..zip.len() {
            let entry = zip.by_index_raw(index).map_err(|error| damaged(error.to_string()))?;
            let name = std::str::from_utf8(entry.name_raw()).map_err(|_| Error::EntryName {
                path: path.to_owned(),
                problem: format!("`{}` is not UTF-8", entry.name_raw().escape_ascii()),
            })?;
            if let Some(problem) = name_problem(name) {
                let problem = format!("`{}` {problem}", name.escape_default());
                return Err(Error::EntryName { path: path.to_owned(), problem });
            }
            if entry.encrypted() {
                return Err(damaged(format!("entry `{name}` is encrypted")));
            }
            total = total.saturating_add(entry.size());
            if entry.size() > 1 << 20 && entry.size() / entry.compressed_size().max(1) > limits.ratio {
                let ratio = entry.size() / entry.compressed_size().max(1);
                return Err(too_large(&format!("the compression ratio of `{name}`"), ratio, limits.ratio));
            }
            names.push((name.to_owned(), entry.size()));
        }
        if total > limits.total_bytes {
            return Err(too_large("the uncompressed size", total, limits.total_bytes));
        }

        if names.iter().any(|(name, _)| name == "serialized_exported_program.json") {
            return Err(Error::Version {
                path: path.to_owned(),
                what: "the archive layout of",
                found: "PyTorch 2.7 or earlier".to_owned(),
                supported: "that of PyTorch 2.8 and later",
            });
        }
        let root = root_folder(&names).ok_or_else(|| damaged("its entries are not below one folder".to_owned()))?;
        let mut entries = HashMap::with_capacity(names.len());
        let mut buffer = vec![0_u8; 1 << 18];
        for (index, (name, size)) in names.iter().enumerate() {
            let sha256 = digest(path, &mut zip, index, name, *size, &mut buffer)?;
            let inner = name.get(root.len() + 1..).unwrap_or_default().to_owned();
            entries.insert(inner, Entry { index, size: *size, sha256 });
        }
        let model = model_name(path, &entries)?;
        Ok(Self { path: path.to_owned(), zip: Mutex::new(zip), entries, root, model, json_bytes: limits.json_bytes })
    }

    pub(in crate::graph) fn path(&self) -> &Path {
        &self.path
    }

    fn zip(&self) -> MutexGuard<'_, ZipArchive<Box<dyn ReadSeek>>> {
        // Every read seeks first, so a reader left in the middle of an entry does no harm.
        self.zip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Name of the program's JSON, below the root folder.
    pub(in crate::graph) fn model_entry(&self) -> String {
        format!("models/{}.json", self.model)
    }

    /// Name of the table of `weights` or `constants`.
    pub(in crate::graph) fn config_entry(&self, kind: &str) -> String {
        format!("data/{kind}/{}_{kind}_config.json", self.model)
    }

    /// `<root>/<entry>`.
    pub(in crate::graph) fn full_name(&self, entry: &str) -> String {
        format!("{}/{entry}", self.root)
    }

    pub(in crate::graph) fn contains(&self, entry: &str) -> bool {
        self.entries.contains_key(entry)
    }

    /// Uncompressed size of an entry.
    pub(in crate::graph) fn size(&self, entry: &str) -> Option<u64> {
        self.entries.get(entry).map(|entry| entry.size)
    }

    /// Digest of an entry's content.
    pub(in crate::graph) fn sha256(&self, entry: &str) -> Option<[u8; 32]> {
        self.entries.get(entry).map(|entry| entry.sha256)
    }

    /// The content of an entry.
    pub(in crate::graph) fn bytes(&self, entry: &str) -> Result<Vec<u8>, Error> {
        let Some(found) = self.entries.get(entry) else {
            return Err(Error::Missing { path: self.path.clone(), entry: entry.to_owned() });
        };
        let damaged = |error: &dyn fmt::Display| Error::Damaged {
            path: self.path.clone(),
            problem: format!("entry `{entry}`: {error}"),
        };
        let mut zip = self.zip();
        let mut file = zip.by_index(found.index).map_err(|error| damaged(&error))?;
        let mut bytes = Vec::new();
        let size = usize::try_from(found.size).map_err(|error| damaged(&error))?;
        bytes.try_reserve_exact(size).map_err(|error| damaged(&error))?;
        file.by_ref().take(found.size).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
        if bytes.len() != size {
            return Err(damaged(&"it is shorter than it says"));
        }
        Ok(bytes)
    }

    pub(super) fn text(&self, entry: &str) -> Result<String, Error> {
        self.check_json_size(entry)?;
        Ok(String::from_utf8_lossy(&self.bytes(entry)?).into_owned())
    }

    pub(in crate::graph) fn json(&self, entry: &str) -> Result<Json, Error> {
        self.check_json_size(entry)?;
        serde_json::from_slice(&self.bytes(entry)?).map_err(|source| Error::Json {
            path: self.path.clone(),
            entry: entry.to_owned(),
            source,
        })
    }

    fn check_json_size(&self, entry: &str) -> Result<(), Error> {
        match self.size(entry) {
            Some(size) if size > self.json_bytes => Err(Error::TooLarge {
                path: self.path.clone(),
                what: format!("the size of `{entry}`"),
                found: size,
                limit: self.json_bytes,
            }),
            _ => Ok(()),
        }
    }

    /// Copies the archive with changes; entries keep their order and their compressed bytes.
    pub(super) fn copy<W: Write + Seek>(&self, target: W, changes: &[Change]) -> Result<(), Error> {
        let mut zip = self.zip();
        let mut writer = ZipWriter::new(target);
        writer.set_raw_comment(zip.comment().into()).map_err(writing)?;
        for index in 0..zip.len() {
            let file = zip.by_index_raw(index).map_err(|error| self.reading(&error))?;
            let name = String::from_utf8_lossy(file.name_raw()).into_owned();
            let replaced = changes.iter().find_map(|change| match change {
                Change::Replace { entry, bytes } if *entry == name => Some(bytes),
                _ => None,
            });
            match replaced {
                None => writer.raw_copy_file(file).map_err(writing)?,
                Some(bytes) => {
                    let options = file.options();
                    drop(file);
                    writer.start_file(name.as_str(), options).map_err(writing)?;
                    writer.write_all(bytes)?;
                }
            }
            for change in changes {
                if let Change::Add { after, entry, bytes } = change
                    && *after == name
                {
                    let options = SimpleFileOptions::default()
                        .compression_method(CompressionMethod::Stored)
                        .large_file(bytes.len() as u64 >= u64::from(u32::MAX));
                    writer.start_file(entry.as_str(), options).map_err(writing)?;
                    writer.write_all(bytes)?;
                }
            }
        }
        writer.finish().map_err(writing)?;
        Ok(())
    }

    fn reading(&self, error: &ZipError) -> Error {
        Error::Damaged { path: self.path.clone(), problem: error.to_string() }
    }
}

fn writing(error: ZipError) -> Error {
    Error::from(match error {
        ZipError::Io(error) => error,
        other => io::Error::other(other),
    })
}

fn opening(path: &Path, error: ZipError) -> Error {
    match error {
        ZipError::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            Error::Read { path: path.to_owned(), source }
        }
        _ => Error::NotAnArchive { path: path.to_owned() },
    }
}

/// Why a name is not accepted.
fn name_problem(name: &str) -> Option<&'static str> {
    if name.contains('\\') {
        Some("has a backslash")
    } else if name.starts_with('/') || name.get(1..2) == Some(":") {
        Some("is an absolute path")
    } else if name.contains('\0') {
        Some("has a zero byte")
    } else if name.split('/').any(|part| part == ".." || part == ".") {
        Some("steps out of its folder")
    } else if name.is_empty() || name.contains("//") {
        Some("has an empty part")
    } else {
        None
    }
}

/// The folder that all entries are in.
fn root_folder(names: &[(String, u64)]) -> Option<String> {
    let root = names.first()?.0.split_once('/')?.0;
    let inside = |name: &str| name.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    names.iter().all(|(name, _)| inside(name)).then(|| root.to_owned())
}

/// The one program of the archive.
fn model_name(path: &Path, entries: &HashMap<String, Entry>) -> Result<String, Error> {
    let mut names: Vec<&str> = entries
        .keys()
        .filter_map(|name| name.strip_prefix("models/")?.strip_suffix(".json"))
        .filter(|name| !name.contains('/'))
        .collect();
    names.sort_unstable();
    match names.as_slice() {
        [] if !entries.contains_key("archive_format") => {
            Err(Error::Missing { path: path.to_owned(), entry: "archive_format".to_owned() })
        }
        [] => Err(Error::Missing { path: path.to_owned(), entry: "models/model.json".to_owned() }),
        [name] => Ok((*name).to_owned()),
        _ => Err(Error::SeveralPrograms { path: path.to_owned(), names: names.join(", ") }),
    }
}

/// Reads an entry to its end: the zip reader then has checked its CRC.
fn digest(
    path: &Path,
    zip: &mut ZipArchive<Box<dyn ReadSeek>>,
    index: usize,
    name: &str,
    size: u64,
    buffer: &mut [u8],
) -> Result<[u8; 32], Error> {
    let damaged = |error: &dyn fmt::Display| Error::Damaged {
        path: path.to_owned(),
        problem: format!("entry `{name}`: {error}"),
    };
    let mut file = zip.by_index(index).map_err(|error| damaged(&error))?;
    let mut hasher = Sha256::new();
    let mut total = 0_u64;
    loop {
        let read = file.read(buffer).map_err(|error| damaged(&error))?;
        if read == 0 {
            break;
        }
        total += read as u64;
        if total > size {
            return Err(damaged(&"it is longer than it says"));
        }
        if interrupt::requested() {
            return Err(Error::Interrupted { path: path.to_owned() });
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
    if total != size {
        return Err(damaged(&"it is shorter than it says"));
    }
    Ok(hasher.finalize().into())
}
