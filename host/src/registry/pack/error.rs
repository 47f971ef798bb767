//! Why something is no package.

use super::super::name;
use crate::hint::Hint;

/// Why something is no package.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the sandbox would refuse the component
    #[error("The component is no rule for this version: {0}")]
    Component(String),
    /// the component does not describe itself
    #[error("The component has no manifest; it was not built with this tool")]
    NoManifest,
    /// a text that does not belong in a registry
    #[error("The {field} of the rule {why}")]
    Text {
        /// which
        field: &'static str,
        /// what is wrong
        why: String,
    },
    /// a name or version that is not of the grammar
    #[error(transparent)]
    Name(#[from] name::Error),
    /// no evidence
    #[error("The rule {rule} has no evidence: `{path}` is not there")]
    NoEvidence {
        /// id and version
        rule: String,
        /// where it was looked for
        path: String,
    },
    /// not an evidence bundle
    #[error("The evidence of {rule} cannot be understood: {why}")]
    NotEvidence {
        /// id and version
        rule: String,
        /// why
        why: String,
    },
    /// evidence about something else
    #[error("The evidence is about other bytes than {rule}: it has SHA-256 {found}, and the component {expected}")]
    Stale {
        /// id and version
        rule: String,
        /// of the evidence
        found: String,
        /// of the component
        expected: String,
    },
    /// evidence against the rule
    #[error("The evidence does not prove {rule}: {why}")]
    NotProven {
        /// id and version
        rule: String,
        /// its outcome
        why: String,
    },
    /// the manifest is another one
    #[error(
        "The manifest is not the one of the component: line {line} is `{found}`, and `{expected}` follows from the component and its evidence"
    )]
    Manifest {
        /// first line that differs, from 1
        line: usize,
        /// there
        found: String,
        /// should be
        expected: String,
    },
    /// the manifest is not TOML of its form
    #[error("The manifest cannot be understood: {0}")]
    NotManifest(String),
    /// more bytes than a client takes
    #[error("The {what} has {found} bytes, and clients take at most {most}")]
    Large {
        /// component, manifest or evidence
        what: &'static str,
        /// its bytes
        found: usize,
        /// limit
        most: u64,
    },
    /// a folder without a package
    #[error("There is no package in `{folder}`: {why}")]
    NoPackage {
        /// where
        folder: String,
        /// what is missing or too much
        why: String,
    },
    /// file trouble
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoManifest => "Build it with `delegate-doctor rules build`".to_owned(),
            Self::NoEvidence { .. } => {
                "Gather it with `delegate-doctor rules validate RULE --models MODEL…`, or name it with `--evidence`"
                    .to_owned()
            }
            Self::Stale { .. } => "Run `delegate-doctor rules validate` on the rule as it is now".to_owned(),
            Self::NotProven { .. } => {
                "Only rules that are accepted on a model, and wrong on none, are published".to_owned()
            }
            Self::Text { .. } => "Mend `rule.toml`, or the manifest in the rule's source".to_owned(),
            Self::NoPackage { .. } | Self::Manifest { .. } | Self::NotManifest(_) => {
                "Make one with `delegate-doctor rules pack`".to_owned()
            }
            Self::Name(error) => return error.hint(),
            Self::Io(error) => return error.hint(),
            _ => return None,
        })
    }
}
