//! What is not believed, and why.

use jiff::Timestamp;

use crate::hint::Hint;

/// Why something of a registry is not believed.
#[derive(Debug, thiserror::Error)]
#[error("{subject} of the registry `{registry}` is refused: {problem}")]
pub struct Refused {
    /// the registry as the user calls it
    pub registry: String,
    /// what is refused
    pub subject: Subject,
    /// why
    pub problem: Problem,
}

/// What is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// metadata of a role: `timestamp`, `acme`
    Role(String),
    /// a version of the root
    Root(u64),
    /// a target
    Target(String),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Role(role) => write!(f, "The role `{role}`"),
            Self::Root(version) => write!(f, "Version {version} of the root"),
            Self::Target(target) => write!(f, "The file `{target}`"),
        }
    }
}

/// Why it is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// the bytes are no metadata
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// too few signatures
    #[error("{found} of the {needed} signatures needed are good")]
    Threshold {
        /// good signatures of different keys
        found: usize,
        /// how many it takes
        needed: usize,
    },
    /// a key signed twice, or is listed twice
    #[error("the key {0} counts twice")]
    DuplicateKey(String),
    /// an older version than one seen before
    #[error("it has version {found}, and version {seen} was seen before")]
    Rollback {
        /// newest version seen
        seen: u64,
        /// version offered
        found: u64,
    },
    /// another content under the same version
    #[error("version {0} was seen before with another content")]
    Equivocation(u64),
    /// it was there before
    #[error("the snapshot no longer lists it")]
    Removed,
    /// the snapshot has no such role
    #[error("the snapshot does not list it")]
    NotListed,
    /// roots come one after the other
    #[error("version {needed} has to come next, and it has version {found}")]
    RootVersion {
        /// the next one
        needed: u64,
        /// the one offered
        found: u64,
    },
    /// not the one that the user or the lock named
    #[error("its SHA-256 is {found}, and {pinned} is pinned")]
    NotPinned {
        /// hash of the root
        found: String,
        /// hash that was asked for
        pinned: String,
    },
    /// too old
    #[error("it expired on {0}")]
    Expired(Timestamp),
    /// another length than the signed one
    #[error("it has {found} bytes, and {signed} are signed for")]
    Length {
        /// of the bytes
        found: u64,
        /// of the metadata
        signed: u64,
    },
    /// another hash than the signed one
    #[error("its SHA-256 is not the one that is signed for")]
    Hash,
    /// another file than the metadata above it names
    #[error("it is not the file that the metadata above it names ({0})")]
    Mismatch(String),
    /// a length that no target may have
    #[error("{signed} bytes are signed for, and {most} are allowed")]
    TooLarge {
        /// of the metadata
        signed: u64,
        /// the limit
        most: u64,
    },
    /// file names without hashes
    #[error("the registry does not use consistent snapshots")]
    NotConsistent,
    /// a missing file
    #[error("`{0}` is missing")]
    Missing(String),
    /// nobody is allowed to publish under this name
    #[error("the registry has no publisher of this name")]
    NoPublisher,
    /// the first delegation that covers the target is another one
    #[error("the registry gives its files to the role `{0}`")]
    OtherRole(String),
    /// the maintainers have not countersigned it
    #[error("the maintainers have not reviewed it")]
    NotReviewed,
    /// the maintainers reviewed something else
    #[error("the maintainers reviewed another content under this name")]
    ReviewedOther,
    /// the maintainers withdrew it
    #[error("the maintainers have revoked it")]
    Revoked,
    /// the publisher's role says something else about it than the manifest
    #[error("the {0} that its publisher's role tells is not the one of its manifest")]
    RecordDiffers(&'static str),
    /// nothing of this name
    #[error("the publisher's role does not list it")]
    NoTarget,
}

impl Hint for Refused {
    fn hint(&self) -> Option<String> {
        Some(match &self.problem {
            Problem::Rollback { .. } | Problem::Removed | Problem::Equivocation(_) => {
                "Somebody serves an old or altered registry; try another network or mirror, and tell the registry's \
                 maintainers if it stays so"
                    .to_owned()
            }
            Problem::Expired(_) => "The registry was not renewed in time, or somebody keeps the newest metadata from \
                you; what is installed goes on working, and `rules install --locked` and `--offline` do too"
                .to_owned(),
            Problem::NotPinned { .. } => {
                "Compare the hash with the one on the registry's page; do not go on when they differ".to_owned()
            }
            Problem::NotReviewed => {
                "Wait for the review, or take it as it is with `--allow-unreviewed`, which the lockfile records"
                    .to_owned()
            }
            Problem::Revoked => "Remove it with `delegate-doctor rules remove`, or update it".to_owned(),
            Problem::NoPublisher => "`delegate-doctor rules search` shows what there is".to_owned(),
            Problem::NotConsistent => {
                "Its maintainers can make it anew with `delegate-doctor registry init`".to_owned()
            }
            _ => return None,
        })
    }
}
