//! Why a registry cannot be written.

use std::path::PathBuf;

use super::super::key;
use super::super::metadata;
use super::super::name;
use crate::hint::Hint;

/// Why a registry cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// a document that is not one
    #[error("In the registry `{folder}`, {problem}")]
    Document {
        /// the registry
        folder: PathBuf,
        /// what is wrong with which document
        problem: metadata::Error,
    },
    /// a name that cannot be
    #[error(transparent)]
    Name(#[from] name::Error),
    /// a key that cannot be used
    #[error(transparent)]
    Key(#[from] key::Error),
    /// there is something already
    #[error("There is something in `{0}` already")]
    Exists(PathBuf),
    /// no registry
    #[error("There is no registry in `{0}`: it has no root")]
    NoRegistry(PathBuf),
    /// a role that is not there
    #[error("The registry `{folder}` has no {role}")]
    NoRole {
        /// the registry
        folder: PathBuf,
        /// which
        role: String,
    },
    /// a publisher's name is taken
    #[error("The publisher `{0}` is there already")]
    PublisherExists(String),
    /// a publisher that could be taken for another
    #[error("The publisher `{new}` could be taken for `{old}`")]
    Confusable {
        /// asked for
        new: String,
        /// there already
        old: String,
    },
    /// a target of another publisher
    #[error("`{target}` does not belong to the publisher `{publisher}`")]
    Foreign {
        /// path of the target
        target: String,
        /// who wanted to list it
        publisher: String,
    },
    /// a published file never changes
    #[error("`{0}` is published already, and a published file never changes")]
    Published(String),
    /// a target that is not listed
    #[error("The publisher `{publisher}` has no `{target}`")]
    NoTarget {
        /// path of the target
        target: String,
        /// publisher
        publisher: String,
    },
    /// more bytes than a client takes
    #[error("`{what}` has {found} bytes, and clients take at most {most}")]
    Large {
        /// path of the target, or the document
        what: String,
        /// its bytes
        found: u64,
        /// limit
        most: u64,
    },
    /// a key that the role does not know
    #[error("The key {fingerprint} signs nothing for {role}")]
    ForeignKey {
        /// the key
        fingerprint: String,
        /// the role
        role: String,
    },
    /// the keys of a role follow from those of another one
    #[error("`{0}` has the keys of `reviewed`, and no others")]
    KeysOfReviewed(String),
    /// a key that would sign for two
    #[error("`{}` and `{}` would have the same key {fingerprint}", roles.0, roles.1)]
    SharedKey {
        /// the key
        fingerprint: String,
        /// the two roles
        roles: (String, String),
    },
    /// a root in `staging/` that was not begun by who may
    #[error("The root that waits in `{path}` is not believed: {why}")]
    StrangeRoot {
        /// the file
        path: PathBuf,
        /// what is wrong with it
        why: String,
    },
    /// nobody who holds a key of the present root has signed the next one
    #[error("The first signature of the next root must be by a key of root {version}")]
    BegunByOthers {
        /// version of the present root
        version: u64,
    },
    /// a threshold that no set of keys reaches
    #[error("{role} wants {threshold} of {keys} keys")]
    Threshold {
        /// the role
        role: String,
        /// wanted
        threshold: u32,
        /// how many different ones there are
        keys: usize,
    },
    /// a version beyond what readers take
    #[error("{0} cannot have a higher version")]
    Version(String),
    /// a time that no calendar has
    #[error("{0} would expire at no time that can be written")]
    Time(String),
    /// file trouble
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Document { problem, .. } => return problem.hint(),
            Self::Name(error) => return error.hint(),
            Self::Key(error) => return error.hint(),
            Self::Io(error) => return error.hint(),
            Self::Exists(_) => "Choose another folder; a registry is never begun anew over an old one".to_owned(),
            Self::NoRegistry(_) => "Make one with `delegate-doctor registry init`".to_owned(),
            Self::Published(_) => "Raise the version of the rule: a version has the same bytes for ever".to_owned(),
            Self::Confusable { .. } => "Choose a name that nobody mistakes for another one".to_owned(),
            Self::KeysOfReviewed(_) => {
                "`delegate-doctor registry rotate reviewed` changes the keys of all that reviewers sign".to_owned()
            }
            Self::ForeignKey { .. } => {
                "Name the key that the role knows with `--key`; `delegate-doctor registry rotate` changes which"
                    .to_owned()
            }
            Self::StrangeRoot { .. } => {
                "Find out who put it there. Without the file, the next `delegate-doctor registry rotate` begins anew"
                    .to_owned()
            }
            Self::BegunByOthers { .. } => "Name a key that signs the present root with `--key`".to_owned(),
            Self::SharedKey { .. } => "Ask for a key of its own: `delegate-doctor rules key new`".to_owned(),
            _ => return None,
        })
    }
}
