//! Why a registry cannot be used.

use std::io;

use crate::hint::Hint;
use crate::registry::name::RuleName;
use crate::registry::verify::Refused;
use crate::registry::{floor, name, transport, trust};

/// Why a registry cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// something is not believed
    #[error(transparent)]
    Refused(#[from] Refused),
    /// a file cannot be had
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// what was seen before cannot be told
    #[error(transparent)]
    Floor(#[from] floor::Error),
    /// the user's registries
    #[error(transparent)]
    Trust(#[from] trust::Error),
    /// a name outside the grammar
    #[error(transparent)]
    Name(#[from] name::Error),
    /// nothing of this name
    #[error("The registry `{registry}` has no rule `{rule}`")]
    NoRule {
        /// which registry
        registry: String,
        /// as typed
        rule: RuleName,
        /// what may have been meant
        near: Vec<String>,
    },
    /// nothing of these versions
    #[error("No version of `{rule}` in the registry `{registry}` can be installed: {why}")]
    NoVersion {
        /// which registry
        registry: String,
        /// rule
        rule: RuleName,
        /// every version with the reason
        why: String,
        /// what may be done about it
        hint: Option<&'static str>,
    },
    /// a component that nothing vouches for
    #[error("`{rule}` {version} cannot be used: {why}")]
    Unproven {
        /// rule
        rule: String,
        /// version
        version: String,
        /// what is missing
        why: String,
    },
    /// a version that its publisher took back for security after it was installed
    #[error("`{rule}` {version} must not be used: its publisher took it back ({why})")]
    TakenBack {
        /// rule
        rule: String,
        /// version
        version: String,
        /// the publisher's words
        why: String,
    },
    /// the lock and the registry contradict each other
    #[error("The registry `{registry}` is older than the one that the lockfile was made with: {why}")]
    OlderThanLock {
        /// which registry
        registry: String,
        /// which role
        why: String,
    },
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(error) => error.hint(),
            Self::Transport(error) => error.hint(),
            Self::Floor(error) => error.hint(),
            Self::Trust(error) => error.hint(),
            Self::Name(error) => error.hint(),
            Self::NoRule { near, .. } if near.is_empty() => {
                Some("`delegate-doctor rules search` shows what there is".to_owned())
            }
            Self::NoRule { near, .. } => {
                let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
                Some(format!("Did you mean {}? Nothing is chosen for you", near.join(", ")))
            }
            Self::NoVersion { hint, .. } => hint.map(str::to_owned),
            Self::TakenBack { .. } => Some(
                "Run `delegate-doctor rules update` or `remove`; to use it all the same, install it again with \
                 `--allow-yanked`"
                    .to_owned(),
            ),
            Self::Unproven { .. } => Some("Install it again with `delegate-doctor rules install`".to_owned()),
            Self::OlderThanLock { .. } => {
                Some("Somebody serves an old registry, or the mirror lags behind; try another one".to_owned())
            }
            Self::Io(error) => error.hint(),
        }
    }
}
