//! The user's model as an exported program in the run folder.
//!
//! In: a [`Model`]. Out: `original/program.pt2`, the user's inputs as files, and a key of the program's
//! content. The user's code runs in the worker, in a process of its own.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::files;

use crate::model::Model;
use crate::torch::{self, WorkerPool, protocol::Exported};

/// Exports the model. A model that is already a `.pt2` is copied byte by byte.
///
/// # Errors
/// Whatever is wrong with the user's model, and failures of the worker.
pub fn export(
    workers: &WorkerPool,
    model: &Model,
    program: &Path,
    inputs: &Path,
    seed: u64,
    limit: Duration,
) -> Result<Exported, torch::Error> {
    workers.with(|worker| worker.export(&model.source, program, inputs, seed, limit))
}

/// An export that was made, with what it was made from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportRecord {
    /// the worker's answer
    pub exported: Exported,
    /// key of the program's content
    pub content_key: String,
    /// SHA-256 of every file of the user's code
    sources: Vec<(PathBuf, String)>,
    /// SHA-256 of every input
    inputs: Vec<String>,
}

impl ExportRecord {
    /// Notes what an export was made from.
    ///
    /// # Errors
    /// When the program or an input cannot be read.
    pub fn new(exported: Exported, program: &Path) -> io::Result<Self> {
        let content_key = content_key(program)?;
        let sources =
            exported.sources.iter().filter_map(|path| Some((path.clone(), files::sha256_of(path).ok()?))).collect();
        let inputs = exported.inputs.iter().map(|input| files::sha256_of(&input.path)).collect::<io::Result<_>>()?;
        Ok(Self { exported, content_key, sources, inputs })
    }

    /// True when the user's code is what it was and the files of the export are still whole. Weights that
    /// the code loads from elsewhere are not seen.
    pub fn still_true(&self, program: &Path) -> bool {
        let is = |path: &Path, sha256: &String| files::sha256_of(path).is_ok_and(|found| found == *sha256);
        !self.sources.is_empty()
            && self.sources.iter().all(|(path, sha256)| is(path, sha256))
            && self.exported.inputs.iter().zip(&self.inputs).all(|(input, sha256)| is(&input.path, sha256))
            && content_key(program).is_ok_and(|key| key == self.content_key)
    }
}

/// SHA-256 over what a `.pt2` archive computes: every entry with its name and content, in the order of
/// the names, without the two entries that differ from one save of a program to the next (the
/// serialization id, and the sample inputs, which are opaque and not part of the computation).
///
/// # Errors
/// When the file is no readable archive.
pub fn content_key(program: &Path) -> io::Result<String> {
    let mut archive = zip::ZipArchive::new(io::BufReader::new(files::open_regular(program)?))?;
    let mut names: Vec<(String, String)> = archive
        .file_names()
        .filter_map(|name| {
            let name = name.ok()?;
            let (_root, below) = name.split_once('/')?;
            let varying = below == ".data/serialization_id" || below.starts_with("data/sample_inputs/");
            (!varying).then(|| (below.to_owned(), name.clone().into_owned()))
        })
        .collect();
    names.sort_unstable();
    let mut hasher = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 20];
    for (below, name) in names {
        let mut entry = archive.by_name(&name)?;
        hasher.update((below.len() as u64).to_le_bytes());
        hasher.update(below.as_bytes());
        hasher.update(entry.size().to_le_bytes());
        loop {
            let read = entry.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
        }
    }
    Ok(hex::encode(hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn archive(path: &Path, root: &str, entries: &[(&str, &str)]) {
        let mut zip = zip::ZipWriter::new(fs_err::File::create(path).expect("create"));
        for (name, content) in entries {
            zip.start_file(format!("{root}/{name}"), zip::write::SimpleFileOptions::default()).expect("entry");
            zip.write_all(content.as_bytes()).expect("write");
        }
        zip.finish().expect("finish");
    }

    #[test]
    fn two_saves_of_one_program_have_one_key() {
        let top = tempfile::tempdir().expect("temporary folder");
        let key = |name: &str, entries: &[(&str, &str)]| {
            let path = top.path().join(name);
            archive(&path, name, entries);
            content_key(&path).expect("key")
        };
        let first = key("a", &[("models/model.json", "{}"), (".data/serialization_id", "1"), ("w", "12")]);
        let again = key("b", &[("w", "12"), ("models/model.json", "{}"), (".data/serialization_id", "2")]);
        assert_eq!(first, again);
        assert_ne!(first, key("c", &[("models/model.json", "{}"), ("w", "13")]));
        assert_ne!(first, key("d", &[("models/model.json", "{}w"), ("", "12")]));
        let torn = top.path().join("torn.pt2");
        crate::files::write_atomic(&torn, b"PK\x03\x04").expect("write");
        assert!(content_key(&torn).is_err());
    }
}
