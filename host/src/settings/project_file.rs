//! `delegate-doctor.toml`: settings that belong to a project, so that nobody has to type them.
//!
//! ```toml
//! python = "venv/bin/python"      # paths are relative to this file
//! runs = "build/doctor"           # where run folders go
//! rules = ["my-rules/built"]      # folders with rule components under development
//!
//! [optimize]
//! target = "adb"
//! threads = 4
//! skip = ["DD-002"]
//! min-gain = 1.05
//! ```
//!
//! Keys that this version does not know are kept out and reported in [`ProjectFile::unknown`], so that a
//! file written for a newer version still works.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Error;
use crate::files;

/// The file's name.
pub const FILE_NAME: &str = "delegate-doctor.toml";

/// What the project file says; everything is optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ProjectFile {
    python: Option<PathBuf>,
    runs: Option<PathBuf>,
    rules: Vec<PathBuf>,
    /// `[optimize]`: the flags of the command with the same names
    pub optimize: OptimizeTable,
    /// where it was found; none: there is no project file
    #[serde(skip)]
    pub path: Option<PathBuf>,
    /// keys this version does not know, as `table.key`
    #[serde(skip)]
    pub unknown: Vec<String>,
}

/// The `[optimize]` table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct OptimizeTable {
    /// where programs run, as `--target` takes it
    pub target: Option<String>,
    /// the user's own runner for that target
    runner: Option<PathBuf>,
    /// intra-op threads
    pub threads: Option<u32>,
    /// only these rules
    pub only: Vec<String>,
    /// not these rules
    pub skip: Vec<String>,
    /// rules that bring an interpreter along take part
    pub script_rules: Option<bool>,
    /// accepted repairs after which the run stops
    pub max_rounds: Option<u32>,
    /// no new candidate after this much wall time
    pub max_seconds: Option<f64>,
    /// smallest gain worth keeping
    pub min_gain: Option<f64>,
    /// smallest share of time worth a repair
    pub min_share: Option<f64>,
    /// seed of everything random
    pub seed: Option<u64>,
    /// candidates lowered at the same time
    pub jobs: Option<u32>,
    /// memory of the model process, as `8GiB`
    pub memory_limit: Option<String>,
    /// seconds for import, build and export
    pub model_timeout: Option<f64>,
}

/// Every key, with what it does; the reference in `docs/cli.md` is made from this.
pub const KEYS: &[(&str, &str)] = &[
    ("python", "the Python interpreter to use, like `--python`"),
    ("runs", "where run folders go (default `delegate-doctor-runs` in the current folder)"),
    ("rules", "list of folders with rule components under development, like `--rules`"),
    ("optimize.target", "where programs run, like `--target`; `rules validate` takes it too"),
    ("optimize.runner", "a runner of your own for that target, like `--runner`"),
    ("optimize.threads", "like `--threads`"),
    ("optimize.only", "list of rule ids, like `--only`"),
    ("optimize.skip", "list of rule ids, like `--skip`"),
    ("optimize.script-rules", "true or false, like `--script-rules`"),
    ("optimize.max-rounds", "like `--max-rounds`"),
    ("optimize.max-seconds", "like `--max-seconds`"),
    ("optimize.min-gain", "like `--min-gain`"),
    ("optimize.min-share", "like `--min-share`"),
    ("optimize.seed", "like `--seed`"),
    ("optimize.jobs", "like `--jobs`"),
    ("optimize.memory-limit", "like `--memory-limit`, as a string"),
    ("optimize.model-timeout", "like `--model-timeout`"),
];

impl ProjectFile {
    /// Reads the project file of `folder` or of the nearest folder above it; none is an empty one.
    ///
    /// # Errors
    /// When there is one that cannot be read or understood.
    pub fn find(folder: &Path) -> Result<Self, Error> {
        for folder in folder.ancestors() {
            let path = folder.join(FILE_NAME);
            match files::read_text(&path) {
                Ok(text) => return Self::parse(&text, &path),
                Err(error)
                    if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {}
                Err(source) => return Err(Error::ProjectFile { path, source }),
            }
        }
        Ok(Self::default())
    }

    /// Reads the text of the project file at `path`.
    ///
    /// # Errors
    /// When it is not TOML or a key has a value of the wrong kind.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let syntax =
            |error: toml::de::Error| Error::ProjectSyntax { path: path.to_path_buf(), source: Box::new(error) };
        let mut file: Self = toml::from_str(text).map_err(syntax)?;
        let table: toml::Table = toml::from_str(text).map_err(syntax)?;
        for (key, value) in &table {
            match value {
                toml::Value::Table(inner) if key == "optimize" => {
                    file.unknown.extend(inner.keys().map(|inner| format!("{key}.{inner}")).filter(|key| !known(key)));
                }
                _ if !known(key) => file.unknown.push(key.clone()),
                _ => {}
            }
        }
        file.path = Some(path.to_path_buf());
        Ok(file)
    }

    /// The interpreter, as a path from the file's folder.
    pub fn python(&self) -> Option<PathBuf> {
        self.python.as_deref().map(|path| self.beside(path))
    }

    /// The folder of run folders.
    pub fn runs(&self) -> Option<PathBuf> {
        self.runs.as_deref().map(|path| self.beside(path))
    }

    /// Folders of rule components.
    pub fn rules(&self) -> Vec<PathBuf> {
        self.rules.iter().map(|path| self.beside(path)).collect()
    }

    /// The user's own runner for the target that the file names.
    pub fn runner(&self) -> Option<PathBuf> {
        self.optimize.runner.as_deref().map(|path| self.beside(path))
    }

    fn beside(&self, path: &Path) -> PathBuf {
        match self.path.as_deref().and_then(Path::parent) {
            Some(folder) => folder.join(path),
            None => path.to_path_buf(),
        }
    }
}

fn known(key: &str) -> bool {
    KEYS.iter().any(|(name, _)| *name == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_above_is_found_and_its_paths_are_relative_to_it() {
        let top = tempfile::tempdir().expect("temporary folder");
        let deep = top.path().join("a/b");
        fs_err::create_dir_all(&deep).expect("folders");
        crate::files::write_atomic(&top.path().join(FILE_NAME), b"runs = 'out'\nrules = ['r', '/abs']\n")
            .expect("write");
        let file = ProjectFile::find(&deep).expect("project file");
        assert_eq!(file.runs(), Some(top.path().join("out")));
        assert_eq!(file.rules(), [top.path().join("r"), PathBuf::from("/abs")]);
    }

    #[test]
    fn unknown_keys_are_reported_and_do_no_harm() {
        let text = "colour = 1\n[optimize]\nseed = 4\nspeed = 'max'\n[future]\nx = 1\n";
        let file = ProjectFile::parse(text, FILE_NAME.as_ref()).expect("project file");
        assert_eq!(file.unknown, ["colour", "future", "optimize.speed"]);
        assert_eq!(file.optimize.seed, Some(4));
    }

    #[test]
    fn a_value_of_the_wrong_kind_names_the_file_and_the_line() {
        let error = ProjectFile::parse("[optimize]\nthreads = 'many'\n", FILE_NAME.as_ref()).expect_err("wrong kind");
        assert!(error.to_string().contains("delegate-doctor.toml"));
        let cause = std::error::Error::source(&error).expect("cause").to_string();
        assert!(cause.contains("line 2"), "{cause}");
    }

    #[test]
    fn every_listed_key_is_read() {
        for (key, _) in KEYS {
            let text = match key.split_once('.') {
                Some((table, key)) => format!("[{table}]\n{key} = {{ wrong = true }}\n"),
                None => format!("{key} = {{ wrong = true }}\n"),
            };
            assert!(ProjectFile::parse(&text, FILE_NAME.as_ref()).is_err(), "`{key}` is not read");
        }
    }
}
