//! Why rules cannot be installed.

use std::io;
use std::path::PathBuf;

use crate::hint::Hint;
use crate::registry::{client, lockfile, trust, wanted};

/// Why rules cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// a registry cannot be used
    #[error(transparent)]
    Client(#[from] client::Error),
    /// the user's registries
    #[error(transparent)]
    Trust(#[from] trust::Error),
    /// the lockfile
    #[error(transparent)]
    Lock(#[from] lockfile::Error),
    /// the wanted rules
    #[error(transparent)]
    Wanted(#[from] wanted::Error),
    /// `--locked`, and there is no lock
    #[error("There is no lockfile in `{0}`, and `--locked` needs one")]
    NoLock(PathBuf),
    /// `--locked`, and the lock would change
    #[error("The lockfile in `{folder}` would have to change, and `--locked` forbids it: {why}")]
    LockWouldChange {
        /// project
        folder: PathBuf,
        /// which rule
        why: String,
    },
    /// two wishes for one rule
    #[error("`{rule}` is wanted from two registries: `{first}` and `{second}`")]
    TwoRegistries {
        /// rule
        rule: String,
        /// one
        first: String,
        /// the other
        second: String,
    },
    /// the lock's registry is another one than the user's
    #[error("The lockfile and this machine mean different registries by `{name}`: {why}")]
    Confused {
        /// name of both
        name: String,
        /// what differs
        why: String,
    },
    /// what the lock names is not what the registry has
    #[error("{release} of the registry `{registry}` has SHA-256 {found}, and the lockfile says {locked}")]
    OtherBytes {
        /// rule and version
        release: String,
        /// registry
        registry: String,
        /// hash in the registry
        found: String,
        /// hash in the lock
        locked: String,
    },
    /// what the lock says about a component is not what its publisher signed
    #[error("{release} of the registry `{registry}` has {what} {found}, and the lockfile says {locked}")]
    OtherThanLocked {
        /// rule and version
        release: String,
        /// registry
        registry: String,
        /// which of it
        what: &'static str,
        /// as signed
        found: String,
        /// as locked
        locked: String,
    },
    /// the lock names a registry that this user does not know
    #[error(
        "The lockfile takes rules from the registry `{name}` at `{place}`, which is new to you; its root {version} has the SHA-256 {sha256}"
    )]
    NewRegistry {
        /// as the project calls it
        name: String,
        /// folder or URL
        place: String,
        /// of the root
        version: u64,
        /// of the root
        sha256: String,
    },
    /// the keys of a publisher are not those of the lock
    #[error("The publisher `{publisher}` of `{registry}` signs with other keys than those in the lockfile: {found}")]
    OtherKeys {
        /// publisher
        publisher: String,
        /// registry
        registry: String,
        /// fingerprints
        found: String,
        /// start of the first key's id
        start: String,
    },
    /// the lock names a version that does not exist
    #[error("The lockfile names `{rule}` {version}, and the registry `{registry}` has no such version")]
    NoLockedVersion {
        /// rule
        rule: String,
        /// version
        version: String,
        /// registry
        registry: String,
    },
    /// a rule of the lock that was withdrawn
    #[error("`{rule}` {version} must not be used: {why}")]
    Withdrawn {
        /// rule
        rule: String,
        /// version
        version: String,
        /// reason
        why: String,
    },
    /// a rule that could not be moved to another version
    #[error("`{rule}` stays at {version}")]
    Stuck {
        /// rule
        rule: String,
        /// version that stays
        version: String,
        /// why
        source: std::sync::Arc<client::Error>,
    },
    /// a rule of the lock that is not on this machine
    #[error("`{rule}` {version} is in the lockfile `{lock}` and not installed on this machine")]
    NotInstalled {
        /// rule
        rule: String,
        /// version
        version: String,
        /// the lockfile
        lock: PathBuf,
    },
    /// nothing of this name
    #[error("The rule `{rule}` is not installed {place}")]
    NotThere {
        /// as typed
        rule: String,
        /// where
        place: String,
    },
    /// as root, a folder that others can change
    #[error("As root, rules are taken only from folders that nobody else can change, and `{0}` is none")]
    Exposed(PathBuf),
    /// the rules that the binary carries
    #[error(transparent)]
    Bundled(#[from] crate::registry::Error),
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Client(error) => error.hint(),
            Self::Trust(error) => error.hint(),
            Self::Lock(error) => error.hint(),
            Self::Wanted(error) => error.hint(),
            Self::NoLock(_) => Some("Make one with `delegate-doctor rules install`, and commit it".to_owned()),
            Self::LockWouldChange { .. } => {
                Some("Run `delegate-doctor rules install` without `--locked`, and commit the lockfile".to_owned())
            }
            Self::TwoRegistries { .. } => Some("Remove one of them from `dd-rules.toml`".to_owned()),
            Self::Confused { name, .. } => Some(format!(
                "Look at both with `delegate-doctor registry list` and in the lockfile. When the project is right, \
                 run `delegate-doctor registry remove {name}` and install again"
            )),
            Self::OtherThanLocked { .. } => Some(
                "Somebody edited the lockfile: take it from version control again, or delete it and run \
                 `delegate-doctor rules install`"
                    .to_owned(),
            ),
            Self::NewRegistry { sha256, .. } => Some(format!(
                "Compare the SHA-256 with the one on the registry's page, then say `--trust-registry {}`",
                sha256.get(..16).unwrap_or(sha256)
            )),
            Self::OtherKeys { start, .. } => Some(format!(
                "Compare the fingerprint with the one that the publisher shows, then say `--trust {start}`"
            )),
            Self::OtherBytes { .. } => {
                Some("A published version never changes: trust neither until you know why they differ".to_owned())
            }
            Self::Withdrawn { .. } => Some(
                "Run `delegate-doctor rules update`; for a version that its publisher took back, `--allow-yanked` \
                 takes it all the same"
                    .to_owned(),
            ),
            Self::Stuck { source, .. } => source.hint(),
            Self::NoLockedVersion { .. } => Some(
                "Take another version with `delegate-doctor rules update`, or the lockfile from version control"
                    .to_owned(),
            ),
            Self::NotInstalled { .. } => Some("Install it with `delegate-doctor rules install --locked`".to_owned()),
            Self::NotThere { .. } => Some("`delegate-doctor rules list` shows what is installed".to_owned()),
            Self::Exposed(folder) => Some(format!(
                "Give it to root alone with `chown -R root: {0} && chmod -R go-w {0}`, or set `DELEGATE_DOCTOR_HOME`",
                folder.display()
            )),
            Self::Bundled(error) => error.hint(),
            Self::Io(error) => error.hint(),
        }
    }
}
