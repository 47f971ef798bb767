//! A rule's folder: its `rule.toml`, its language, and how it becomes a component.
//!
//! ```text
//! <rule>/
//!   rule.toml      id, language, licence, keywords
//!   cases.txt      graphs and what the rule must say about them
//!   README.md      for people
//!   build/         what `rules build` wrote: <id>-<version>.wasm
//! ```

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Deserialize;

use super::cases::{self, Cases};
use super::component::{Tools, described};
use super::{Error, rust};
use crate::files;
use crate::progress::Progress;
use crate::sandbox::contract::Manifest;
use crate::sandbox::{Limits, Sandbox};

/// Name of the project file.
pub const PROJECT_FILE: &str = "rule.toml";

/// What a rule is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Rust, with the rule SDK
    #[default]
    Rust,
}

/// `rule.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    /// the id that the rule's manifest gives
    pub id: String,
    /// what it is written in
    #[serde(default)]
    pub language: Language,
    /// SPDX expression
    #[serde(default)]
    pub license: String,
    /// words to find it by
    #[serde(default)]
    pub keywords: Vec<String>,
}

/// A rule's folder.
#[derive(Clone, Debug)]
pub struct Project {
    /// absolute
    pub folder: PathBuf,
    /// its project file
    pub file: RuleFile,
}

/// A rule as it is published.
#[derive(Clone, Debug)]
pub struct Built {
    /// what it says it is
    pub manifest: Manifest,
    /// its bytes
    pub component: Vec<u8>,
    /// where they are
    pub path: PathBuf,
}

impl Project {
    /// Reads the folder's project file.
    ///
    /// # Errors
    /// When there is none, or it cannot be understood.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(PROJECT_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NoProject { folder: folder.to_path_buf() });
            }
            Err(error) => return Err(error.into()),
        };
        let file = toml::from_str(&text).map_err(|error| Error::ProjectFile { path, source: Box::new(error) })?;
        Ok(Self { folder: fs::canonicalize(folder)?, file })
    }

    /// The limits that the rule is loaded with.
    pub fn limits(&self) -> Limits {
        match self.file.language {
            Language::Rust => Limits::standard(),
        }
    }

    /// Runs the cases of a built rule.
    ///
    /// # Errors
    /// When there are none, or a tool is missing.
    pub fn test(&self, built: &Built, sandbox: &Sandbox, progress: &dyn Progress) -> Result<Cases, Error> {
        cases::run(self, built, sandbox, progress)
    }

    /// Builds the component, loads it in the sandbox, and writes it below `build/`.
    ///
    /// # Errors
    /// When a tool is missing, the sources do not build, or the sandbox refuses what came out.
    pub fn build(&self, sandbox: &Sandbox, progress: &dyn Progress) -> Result<Built, Error> {
        let step = progress.step(&format!("Building the rule `{}`", self.file.id));
        let (component, tools): (Vec<u8>, Tools) = match self.file.language {
            Language::Rust => rust::build(self, progress)?,
        };
        step.update("loading it in the sandbox");
        let (component, manifest) = described(sandbox, &self.file.id, component, &tools)?;
        if manifest.id != self.file.id {
            return Err(Error::Project {
                path: self.folder.join(PROJECT_FILE),
                why: format!("it says that the id is `{}`, and the rule itself says `{}`", self.file.id, manifest.id),
            });
        }
        let folder = self.folder.join("build");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{}-{}.wasm", manifest.id, manifest.version));
        files::write_atomic(&path, &component)?;
        step.done(&format!("Built {} {}: {} bytes", manifest.id, manifest.version, component.len()));
        Ok(Built { manifest, component, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::Hint as _;

    #[test]
    fn a_folder_without_or_with_a_broken_project_file_is_told() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let error = Project::read(folder.path()).expect_err("no file");
        assert!(matches!(error, Error::NoProject { .. }) && error.hint().is_some(), "{error}");
        for (text, word) in
            [("id = 3", "rule.toml"), ("id = 'a'\nlanguage = 'cobol'", "rule.toml"), ("x = 1", "rule.toml")]
        {
            files::write_atomic(&folder.path().join(PROJECT_FILE), text.as_bytes()).expect("write");
            let error = Project::read(folder.path()).expect_err(text);
            assert!(error.to_string().contains(word), "{error}");
        }
        files::write_atomic(&folder.path().join(PROJECT_FILE), b"id = 'a'").expect("write");
        let project = Project::read(folder.path()).expect("enough");
        assert_eq!((project.file.id.as_str(), project.file.language), ("a", Language::Rust));
    }
}
