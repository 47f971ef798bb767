//! A rule's folder: its `rule.toml`, its language, and how it becomes a component.
//!
//! ```text
//! <rule>/
//!   rule.toml      id, language, licence, keywords
//!   cases.txt      graphs and what the rule must say about them
//!   README.md      for people
//!   build/         what `rules build` wrote: <id>-<version>.wasm
//! ```
//!
//! The version of a rule in Rust is its crate's; the other languages give it in `rule.toml`.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Deserialize;

use super::cases::{self, Cases};
use super::component::{Tools, described};
use super::{Error, c, javascript, python, rust};
use crate::files;
use crate::progress::Progress;
use crate::registry::pack::Words;
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
    /// C, by clang and wasm-ld
    C,
    /// Python, by componentize-py; a script rule
    Python,
    /// JavaScript on QuickJS, by componentize-qjs; a script rule
    Js,
}

impl Language {
    /// As `--lang` and `rule.toml` have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::C => "c",
            Self::Python => "python",
            Self::Js => "js",
        }
    }

    /// The language's own name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::C => "C",
            Self::Python => "Python",
            Self::Js => "JavaScript",
        }
    }

    /// True when a component brings an interpreter along, so that it needs the limits of script rules.
    pub fn is_script(self) -> bool {
        matches!(self, Self::Python | Self::Js)
    }
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
    /// the version that the rule's manifest gives; needed where no `Cargo.toml` gives it
    #[serde(default)]
    pub version: Option<semver::Version>,
    /// its name within its publisher; else the crate's without a leading `dd-NNN-`, else the id
    #[serde(default)]
    pub name: Option<String>,
    /// SPDX expression
    #[serde(default)]
    pub license: String,
    /// an `https://` address where its source is
    #[serde(default)]
    pub source: String,
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
    /// below it, toolchains that are not the user's own are installed
    pub data: PathBuf,
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
    /// Reads the folder's project file. `data` is the tool's data folder.
    ///
    /// # Errors
    /// When there is none, or it cannot be understood.
    pub fn read(folder: &Path, data: &Path) -> Result<Self, Error> {
        let path = folder.join(PROJECT_FILE);
        let text = match files::read_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NoProject { folder: folder.to_path_buf() });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Error::NoFolder { path: folder.to_path_buf() });
            }
            Err(error) => return Err(error.into()),
        };
        let parsed = toml::from_str(&text);
        let file: RuleFile =
            parsed.map_err(|error| Error::ProjectFile { path: path.clone(), source: Box::new(error) })?;
        if file.version.is_none() && file.language != Language::Rust {
            let why = format!("a rule in {} needs its version there: `version = \"0.1.0\"`", file.language.title());
            return Err(Error::Project { path, why });
        }
        Ok(Self { folder: fs::canonicalize(folder)?, file, data: data.to_path_buf() })
    }

    /// What packaging adds to what the component says about itself.
    pub fn words(&self) -> Words {
        let crate_name = || {
            let text = files::read_text(&self.folder.join("Cargo.toml")).ok()?;
            let parsed: toml::Table = text.parse().ok()?;
            let name = parsed.get("package")?.get("name")?.as_str()?;
            Some(without_number(name).to_owned())
        };
        let name = self.file.name.clone().or_else(crate_name).unwrap_or_else(|| self.file.id.clone());
        let RuleFile { license, source, keywords, .. } = self.file.clone();
        Words { name, license, source, keywords }
    }

    /// The limits that the rule is loaded with.
    pub fn limits(&self) -> Limits {
        if self.file.language.is_script() { Limits::script() } else { Limits::standard() }
    }

    /// The SDK below `sdk/` and its version.
    pub(super) fn sdk(&self, name: &str) -> String {
        let version = files::read_text(&self.folder.join("sdk/VERSION")).ok();
        let line = version.as_deref().and_then(|text| text.lines().next()).map(str::trim);
        line.filter(|line| line.starts_with(name) && line.len() < 64)
            .map_or_else(|| format!("{name} of unknown version"), str::to_owned)
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
            Language::C => c::build(self)?,
            Language::Python => python::build(self, progress)?,
            Language::Js => javascript::build(self, progress)?,
        };
        step.update(if self.file.language.is_script() {
            "compiling it for the sandbox, which takes a while"
        } else {
            "loading it in the sandbox"
        });
        let (component, manifest) = described(sandbox, &self.file.id, component, &tools)?;
        let version = self.file.version.as_ref().map(ToString::to_string);
        for (what, file, rule) in
            [("id", Some(&self.file.id), &manifest.id), ("version", version.as_ref(), &manifest.version)]
        {
            if let Some(file) = file.filter(|file| *file != rule) {
                return Err(Error::Project {
                    path: self.folder.join(PROJECT_FILE),
                    why: format!("it says that the {what} is `{file}`, and the rule itself says `{rule}`"),
                });
            }
        }
        let folder = self.folder.join("build");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{}-{}.wasm", manifest.id, manifest.version));
        files::write_atomic(&path, &component)?;
        step.done(&format!("Built {} {}: {} bytes", manifest.id, manifest.version, component.len()));
        Ok(Built { manifest, component, path })
    }
}

/// `dd-001-softmax-layout` without what says which rule of a series it is: `softmax-layout`.
fn without_number(name: &str) -> &str {
    let mut parts = name.splitn(3, '-');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("dd"), Some(number), Some(rest)) if number.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::Hint as _;

    #[test]
    fn a_folder_without_or_with_a_broken_project_file_is_told() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let data = Path::new("/nonexistent");
        let error = Project::read(folder.path(), data).expect_err("no file");
        assert!(matches!(error, Error::NoProject { .. }) && error.hint().is_some(), "{error}");
        for (text, word) in [
            ("id = 3", "rule.toml"),
            ("id = 'a'\nlanguage = 'cobol'", "rule.toml"),
            ("x = 1", "rule.toml"),
            ("id = 'a'\nlanguage = 'c'", "needs its version"),
            ("id = 'a'\nlanguage = 'c'\nversion = '1'", "rule.toml"),
        ] {
            files::write_atomic(&folder.path().join(PROJECT_FILE), text.as_bytes()).expect("write");
            let error = Project::read(folder.path(), data).expect_err(text);
            assert!(error.to_string().contains(word), "{error}");
        }
        files::write_atomic(&folder.path().join(PROJECT_FILE), b"id = 'a'").expect("write");
        let project = Project::read(folder.path(), data).expect("enough");
        assert_eq!((project.file.id.as_str(), project.file.language), ("a", Language::Rust));
        assert_eq!(project.limits(), Limits::standard());
        files::write_atomic(&folder.path().join(PROJECT_FILE), b"id = 'a'\nlanguage = 'js'\nversion = '1.2.3'")
            .expect("write");
        let project = Project::read(folder.path(), data).expect("enough");
        assert_eq!((project.file.language, project.limits()), (Language::Js, Limits::script()));
    }

    #[test]
    fn a_rule_is_published_under_its_own_or_its_crates_name() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let write =
            |name: &str, text: &str| files::write_atomic(&folder.path().join(name), text.as_bytes()).expect(name);
        let name = || Project::read(folder.path(), Path::new("/nonexistent")).expect("project").words().name;
        write(PROJECT_FILE, "id = 'dd-007'");
        assert_eq!(name(), "dd-007");
        for (crate_name, expected) in
            [("dd-007-softmax-layout", "softmax-layout"), ("swish", "swish"), ("dd-extra-thing", "dd-extra-thing")]
        {
            write("Cargo.toml", &format!("[package]\nname = '{crate_name}'"));
            assert_eq!(name(), expected);
        }
        write(PROJECT_FILE, "id = 'dd-007'\nname = 'chosen'");
        assert_eq!(name(), "chosen");
    }
}
