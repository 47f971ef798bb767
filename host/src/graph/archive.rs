//! Reading and writing `.pt2` archives.

use std::path::{Path, PathBuf};

use super::Program;

/// What an archive may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// entries in the zip
    pub entries: usize,
    /// uncompressed bytes over all entries
    pub total_bytes: u64,
    /// uncompressed bytes of one JSON entry
    pub json_bytes: u64,
    /// largest uncompressed to compressed ratio of one entry above 1 MiB
    pub ratio: u64,
}

impl Default for Limits {
    /// 100 000 entries, 64 GiB in total, 1 GiB of JSON, ratio 1000.
    fn default() -> Self {
        Self { entries: 100_000, total_bytes: 64 << 30, json_bytes: 1 << 30, ratio: 1000 }
    }
}

/// Why an archive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// file trouble
    #[error("Failed to read `{}`", path.display())]
    Io {
        /// the archive
        path: PathBuf,
        /// cause
        source: std::io::Error,
    },
}

/// Reads a program.
///
/// # Errors
/// When the file is no `.pt2` of a known version, is damaged, or exceeds the limits.
pub fn read(path: &Path, _limits: &Limits) -> Result<Program, Error> {
    Err(Error::Io { path: path.to_owned(), source: std::io::ErrorKind::Unsupported.into() })
}

/// Writes a program, atomically. What was not edited is copied byte for byte.
///
/// # Errors
/// When the source archive cannot be read any more or the target cannot be written.
pub fn write(_program: &Program, path: &Path) -> Result<(), Error> {
    Err(Error::Io { path: path.to_owned(), source: std::io::ErrorKind::Unsupported.into() })
}
