//! Reading and writing `.pt2` archives.
//!
//! A `.pt2` is a zip with one root folder: `models/<name>.json` holds the program, `data/weights` and
//! `data/constants` the tensors as raw little-endian storages with a JSON table each. Everything else in
//! it (sample inputs, extra files, what later versions add) is copied as it is. Nothing is ever
//! unpickled.

mod container;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;

use super::Program;
use super::parse::{self, Malformed};
use super::program::{Payload, Source};
use crate::files;
use crate::hint::Hint;
pub(super) use container::Container;

/// What an archive may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// entries in the zip
    pub entries: usize,
    /// uncompressed bytes over all entries
    pub total_bytes: u64,
    /// uncompressed bytes of one JSON entry, which is held in memory
    pub json_bytes: u64,
    /// largest ratio of uncompressed to compressed bytes of an entry above 1 MiB
    pub ratio: u64,
}

impl Default for Limits {
    /// 100 000 entries, 16 GiB in total, 256 MiB for one JSON entry, ratio 200. The exporter stores
    /// entries uncompressed; a program of 20 000 nodes has about 50 MB of JSON.
    fn default() -> Self {
        Self { entries: 100_000, total_bytes: 16 << 30, json_bytes: 256 << 20, ratio: 200 }
    }
}

/// Why an archive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// file trouble while reading
    #[error("Failed to read `{}`", path.display())]
    Read {
        /// the archive
        path: PathBuf,
        /// cause
        source: io::Error,
    },
    /// file trouble while writing
    #[error("Failed to write the program `{}`", path.display())]
    Write {
        /// the archive
        path: PathBuf,
        /// cause
        source: io::Error,
    },
    /// another kind of file
    #[error("`{}` is not a `.pt2` archive: it is no zip file, or cut off at its end", path.display())]
    NotAnArchive {
        /// the file
        path: PathBuf,
    },
    /// the zip or an entry does not hold together
    #[error("`{}` is damaged: {problem}", path.display())]
    Damaged {
        /// the archive
        path: PathBuf,
        /// where and what
        problem: String,
    },
    /// a name that could leave the folder it is unpacked in, or is there twice
    #[error("`{}` has an unacceptable entry name: {problem}", path.display())]
    EntryName {
        /// the archive
        path: PathBuf,
        /// which and why
        problem: String,
    },
    /// a [`Limits`] bound
    #[error("`{}` is refused: {what} is {found}, and at most {limit} is accepted", path.display())]
    TooLarge {
        /// the archive
        path: PathBuf,
        /// which measure
        what: String,
        /// its value
        found: u64,
        /// the bound
        limit: u64,
    },
    /// an entry that a program cannot do without
    #[error("`{}` has no entry `{entry}`", path.display())]
    Missing {
        /// the archive
        path: PathBuf,
        /// the entry, below the root folder
        entry: String,
    },
    /// several programs in one archive
    #[error("`{}` holds several programs: {names}", path.display())]
    SeveralPrograms {
        /// the archive
        path: PathBuf,
        /// their names
        names: String,
    },
    /// a format this version does not know
    #[error("`{}` has {what} {found}, and only {supported} is known here", path.display())]
    Version {
        /// the archive
        path: PathBuf,
        /// `archive version`, `program schema version`
        what: &'static str,
        /// as found
        found: String,
        /// as supported
        supported: &'static str,
    },
    /// JSON that does not parse
    #[error("Entry `{entry}` of `{}` is not valid JSON", path.display())]
    Json {
        /// the archive
        path: PathBuf,
        /// the entry
        entry: String,
        /// cause
        source: serde_json::Error,
    },
    /// JSON that is no program
    #[error("Entry `{entry}` of `{}` is not a program", path.display())]
    Malformed {
        /// the archive
        path: PathBuf,
        /// the entry
        entry: String,
        /// where and what
        source: Malformed,
    },
    /// a tensor that cannot be read
    #[error("The content of `{name}` in `{}` cannot be used: {problem}", path.display())]
    Payload {
        /// the archive
        path: PathBuf,
        /// parameter, buffer or constant
        name: String,
        /// why
        problem: String,
    },
    /// the user pressed Ctrl-C
    #[error("Interrupted while reading `{}`", path.display())]
    Interrupted {
        /// the archive
        path: PathBuf,
    },
}

impl From<io::Error> for Error {
    /// For [`files::write_atomic_with`]; the message of the cause names the path.
    fn from(source: io::Error) -> Self {
        Self::Write { path: PathBuf::new(), source }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Read { source, .. } | Self::Write { source, .. } => return source.hint(),
            Self::NotAnArchive { .. } => {
                "Make it with `torch.export.save`; if it was copied, check that it arrived whole".to_owned()
            }
            Self::Damaged { .. } | Self::Json { .. } | Self::Malformed { .. } => {
                "Export the model again, or copy the file again".to_owned()
            }
            Self::Version { .. } => {
                "Export the model with a PyTorch version that this version of Delegate Doctor supports (2.15)"
                    .to_owned()
            }
            Self::Missing { .. } => "Check that the file was made by `torch.export.save`".to_owned(),
            Self::EntryName { .. } | Self::TooLarge { .. } => {
                "A file that `torch.export.save` made is not like this; get it from its source again, or export the \
                 model anew"
                    .to_owned()
            }
            Self::SeveralPrograms { .. } => "Save one program to a file".to_owned(),
            _ => return None,
        })
    }
}

/// The only version of the archive layout.
const ARCHIVE_VERSION: &str = "0";

/// The major version of the program schema that this module reads.
const SCHEMA_MAJOR: i64 = 8;

/// Reads a program. The file stays open: tensors are read when they are asked for.
///
/// # Errors
/// When the file is no `.pt2` of a known version, is damaged, or exceeds the limits.
pub fn read(path: &Path, limits: &Limits) -> Result<Program, Error> {
    let file = files::open_regular(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    program(Container::open(path, Box::new(io::BufReader::new(file)), limits)?)
}

/// Reads a program from bytes; `name` stands for the file in messages.
///
/// # Errors
/// As [`read`].
pub fn from_bytes(bytes: Vec<u8>, name: &Path, limits: &Limits) -> Result<Program, Error> {
    program(Container::open(name, Box::new(io::Cursor::new(bytes)), limits)?)
}

fn program(container: Container) -> Result<Program, Error> {
    let path = container.path().to_owned();
    let version = |what, found: String, supported| Error::Version { path: path.clone(), what, found, supported };
    let format = container.text("archive_format")?;
    if format.trim() != "pt2" {
        return Err(version("archive format", format!("`{}`", excerpt(&format)), "`pt2`"));
    }
    let archive_version = container.text("archive_version")?;
    if archive_version.trim() != ARCHIVE_VERSION {
        return Err(version("archive version", format!("`{}`", excerpt(&archive_version)), "`0`"));
    }
    let entry = container.model_entry();
    let document = container.json(&entry)?;
    let malformed = |source| Error::Malformed { path: path.clone(), entry: entry.clone(), source };
    match document.pointer("/schema_version/major").and_then(Json::as_i64) {
        Some(SCHEMA_MAJOR) => {}
        Some(major) => return Err(version("program schema version", major.to_string(), "8")),
        None => return Err(malformed(Malformed::new("schema_version.major", "expected a number"))),
    }
    let parsed = parse::program(document).map_err(malformed)?;
    let mut payloads = Vec::new();
    for kind in ["weights", "constants"] {
        let entry = container.config_entry(kind);
        let config = container.json(&entry)?;
        let Some(table) = config.get("config").and_then(Json::as_object) else {
            let source = Malformed::new("config", "expected an object");
            return Err(Error::Malformed { path, entry, source });
        };
        for (fqn, json) in table {
            let payload = Payload::parse(json, &container, kind).map_err(|problem| Error::Malformed {
                path: path.clone(),
                entry: entry.clone(),
                source: Malformed::new(format!("config.{fqn}"), problem),
            })?;
            payloads.push((fqn.clone(), payload));
        }
    }
    Ok(Program::read(Source::new(container, parsed, payloads)))
}

/// The beginning of a text that may be long or binary.
fn excerpt(text: &str) -> String {
    text.trim().chars().take(20).flat_map(char::escape_default).collect()
}

/// Writes a program, atomically. What was not edited is copied byte for byte.
///
/// # Errors
/// When the source archive cannot be read any more or the target cannot be written.
pub fn write(program: &Program, path: &Path) -> Result<(), Error> {
    let changes = program.changed_entries()?;
    files::write_atomic_with(path, |file| program.source().container.copy(file, &changes)).map_err(
        |error| match error {
            Error::Write { source, .. } => Error::Write { path: path.to_owned(), source },
            other => other,
        },
    )
}

/// The bytes of a program as [`write()`] would write them.
///
/// # Errors
/// When the source archive cannot be read any more.
pub fn to_bytes(program: &Program) -> Result<Vec<u8>, Error> {
    let changes = program.changed_entries()?;
    let mut bytes = io::Cursor::new(Vec::new());
    program.source().container.copy(&mut bytes, &changes)?;
    Ok(bytes.into_inner())
}

/// An entry that a written archive has in place of, or in addition to, those of its source.
#[derive(Debug)]
pub(super) enum Change {
    /// another content for an entry
    Replace {
        /// full name
        entry: String,
        /// content
        bytes: Vec<u8>,
    },
    /// a new entry, placed after an existing one
    Add {
        /// full name of the existing one
        after: String,
        /// full name
        entry: String,
        /// content
        bytes: Arc<[u8]>,
    },
}
