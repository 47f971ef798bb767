//! What the author of a rule needs: a new project, a build, tests, a look inside, evidence.
//!
//! ```text
//! new ─► build ─► test ─► why-not ─► validate
//!        │        │                  │
//!        │        │                  └ the real gates on real models, as an evidence bundle
//!        │        └ cases: natively where the language allows, and through the component
//!        └ module → component → sections with manifest, contract and tools
//! ```
//!
//! In: a folder with a `rule.toml`. Out: a component that the sandbox loads, and what was found about it.

mod c;
mod cases;
mod component;
mod evidence;
mod javascript;
mod managed_tools;
mod project;
mod python;
mod rust;
mod scaffold;
mod toolchain;
mod validate;

use std::io;
use std::path::PathBuf;

use crate::hint::Hint;
use crate::sandbox;

pub use cases::{Answer, CaseResult, Cases};
pub use component::{MANIFEST_SECTION, Tools, componentize, described};
pub use evidence::{Evidence, ModelEvidence, Outcome, SCHEMA as EVIDENCE_SCHEMA};
pub use project::{Built, Language, PROJECT_FILE, Project, RuleFile};
pub use rust::{Package, RustBuild, compiler_version};
pub use scaffold::{New, create};
pub use toolchain::{TARGET, ensure_target};
pub use validate::{Validation, validate};

/// Why an author's command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the folder is no rule
    #[error("There is no rule in `{folder}`: it has no `{PROJECT_FILE}`")]
    NoProject {
        /// folder
        folder: PathBuf,
    },
    /// a file stands where a rule's folder is asked for
    #[error("`{path}` is a file, and the folder of a rule is asked for")]
    NoFolder {
        /// the file
        path: PathBuf,
    },
    /// the project file cannot be understood
    #[error("Failed to understand `{path}`")]
    ProjectFile {
        /// file
        path: PathBuf,
        /// why, with the line
        #[source]
        source: Box<toml::de::Error>,
    },
    /// the project file says something that does not hold
    #[error("`{path}`: {why}")]
    Project {
        /// file
        path: PathBuf,
        /// what
        why: String,
    },
    /// a name that cannot be a rule's
    #[error("`{name}` cannot be the name of a rule: {why}")]
    Name {
        /// as typed
        name: String,
        /// what is wrong
        why: &'static str,
    },
    /// the new folder is there already
    #[error("There is something in `{0}` already")]
    Exists(PathBuf),
    /// a program that the build needs
    #[error("`{program}` is needed to build a rule in {language} and was not found")]
    NoTool {
        /// its name
        program: String,
        /// language of the rule
        language: &'static str,
        /// how to get it
        install: String,
    },
    /// the compiler has no standard library for WebAssembly
    #[error("The Rust toolchain lacks the target `{TARGET}`{}", added.as_ref().map_or_else(String::new, |why| format!(", and rustup could not add it: {why}")))]
    NoTarget {
        /// what `rustup` said, if there is one
        added: Option<String>,
    },
    /// the build ended in errors
    #[error("The rule in `{folder}` does not build")]
    Build {
        /// project
        folder: PathBuf,
        /// what the compiler said
        output: String,
    },
    /// a tool said something unexpected
    #[error("`{tool}` failed: {why}")]
    Tool {
        /// which
        tool: String,
        /// its words
        why: String,
    },
    /// a toolchain that is installed by this tool
    #[error("Failed to install {what} in `{folder}`: {why}")]
    Install {
        /// name and version
        what: String,
        /// where it was to go
        folder: PathBuf,
        /// what the installer said
        why: String,
        /// what to do without a network
        offline: String,
    },
    /// the module does not become a component
    #[error("The module of `{folder}` does not become a component: {why}")]
    Componentize {
        /// project
        folder: PathBuf,
        /// why
        why: String,
    },
    /// the sandbox refuses what was built
    #[error(transparent)]
    Refused(#[from] sandbox::Error),
    /// the cases cannot be read
    #[error("`{path}`: {why}")]
    Cases {
        /// file
        path: PathBuf,
        /// what, with the line
        why: String,
    },
    /// there is nothing to prove a rule on
    #[error("No model was named to validate the rule on")]
    NoModel,
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
    /// a record that cannot be written as JSON
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// the user stopped the tool
    #[error("Interrupted")]
    Interrupted,
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoProject { .. } => "Make one with `delegate-doctor rules new NAME`, or give its folder".to_owned(),
            Self::NoFolder { .. } => {
                "Give the folder of its source; `delegate-doctor rules inspect` and `rules validate` take a component"
                    .to_owned()
            }
            Self::ProjectFile { .. } | Self::Project { .. } => {
                "`delegate-doctor rules new NAME` writes a project file to compare with".to_owned()
            }
            Self::Name { .. } => "Take lower-case letters, digits and dashes, beginning with a letter".to_owned(),
            Self::Exists(_) => "Choose another name, or another folder with `--out`".to_owned(),
            Self::NoTool { install, .. } => install.clone(),
            Self::Install { offline, .. } => format!("Without a network: {offline}"),
            Self::NoTarget { .. } => toolchain::TARGET_HINT.to_owned(),
            Self::NoModel => "Name one or more with `--models`".to_owned(),
            Self::Refused(error) => return error.hint(),
            Self::Io(error) => return error.hint(),
            _ => return None,
        })
    }

    fn details(&self) -> Option<String> {
        match self {
            Self::Build { output, .. } => Some(output.clone()),
            Self::Refused(error) => error.details(),
            _ => None,
        }
    }
}
