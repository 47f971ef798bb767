//! `dd-rules.lock`: exactly which rules a project uses, for every machine the same.
//!
//! It holds what follows from the requirements and the registries and nothing else: no time, no path, sorted, so
//! that the same input gives the same bytes. A fresh clone begins at the newest root that was seen and does not
//! take an older version of a publisher's role.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::name::{self, RuleName};
use super::trust::Pin;
use crate::files;
use crate::hint::Hint;

/// The file's name.
pub const FILE_NAME: &str = "dd-rules.lock";
/// Version of the file.
const VERSION: u32 = 1;
/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 4 << 20;

/// Why a lockfile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// not a lockfile
    #[error("Failed to understand `{path}`: {why}")]
    Syntax {
        /// file
        path: PathBuf,
        /// what, with the line
        why: String,
    },
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Syntax { .. } => Some(
                "Take it from version control again, or delete it and run `delegate-doctor rules install`".to_owned(),
            ),
            Self::Io(error) => error.hint(),
        }
    }
}

/// A registry of the lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedRegistry {
    /// as the project calls it
    pub id: String,
    /// folder or URL; empty for the bundled one
    pub url: String,
    /// the newest root that was verified
    pub root: LockedRoot,
}

/// A root of the lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedRoot {
    /// its version
    pub version: u64,
    /// SHA-256 of its bytes
    pub sha256: String,
}

impl From<&LockedRoot> for Pin {
    fn from(root: &LockedRoot) -> Self {
        Self { version: root.version, sha256: root.sha256.clone() }
    }
}

/// The role that signed a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedRole {
    /// the publisher
    pub name: String,
    /// version of its role; older ones are not taken
    pub version: u64,
    /// ids of its keys
    pub keyids: Vec<String>,
}

/// A rule of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedRule {
    /// the rule
    pub name: RuleName,
    /// its version
    pub version: semver::Version,
    /// registry, by its id here
    pub registry: String,
    /// SHA-256 of the component
    pub sha256: String,
    /// its bytes
    pub length: u64,
    /// SHA-256 of the manifest
    pub manifest_sha256: String,
    /// who signed it
    pub role: LockedRole,
    /// the maintainers countersigned it
    pub reviewed: bool,
    /// version of the rule contract
    pub contract: semver::Version,
    /// stays at this version
    pub pinned: bool,
}

/// A lockfile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    version: u32,
    /// by id
    #[serde(default, rename = "registry", skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<LockedRegistry>,
    /// by name and registry
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<LockedRule>,
}

impl Default for Lock {
    /// One without rules.
    fn default() -> Self {
        Self { version: VERSION, registries: Vec::new(), rules: Vec::new() }
    }
}

impl Lock {
    /// Reads the lockfile in `folder`; none when there is none.
    ///
    /// # Errors
    /// When it cannot be read or understood.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE_NAME);
        match files::read_regular(&path, MOST_BYTES) {
            Ok(bytes) => Self::parse(&bytes, &path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the text of a lockfile; `path` is for messages.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let syntax = |why: String| Error::Syntax { path: path.to_path_buf(), why };
        let text = std::str::from_utf8(bytes).map_err(|_| syntax("it is not UTF-8".to_owned()))?;
        let lock: Self =
            toml::from_str(text).map_err(|error| syntax(super::client::harmless_lines(&error.to_string())))?;
        if lock.version != VERSION {
            return Err(syntax(format!("it has version {}, and {VERSION} is understood", lock.version)));
        }
        for registry in &lock.registries {
            name::check_registry(&registry.id).map_err(|error| syntax(error.to_string()))?;
            hash(&registry.root.sha256).map_err(syntax)?;
            if registry.url.chars().any(super::client::is_hidden) {
                let shown = super::client::harmless(&registry.url);
                return Err(syntax(format!("`{shown}` has characters that cannot be seen")));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for rule in &lock.rules {
            name::version(&rule.version.to_string()).map_err(|error| syntax(error.to_string()))?;
            hash(&rule.sha256).and_then(|()| hash(&rule.manifest_sha256)).map_err(syntax)?;
            rule.role.keyids.iter().try_for_each(|id| hash(id)).map_err(|why| syntax(format!("as a key, {why}")))?;
            if !lock.registries.iter().any(|registry| registry.id == rule.registry) {
                return Err(syntax(format!(
                    "`{}` is of the registry `{}`, which it does not list",
                    rule.name, rule.registry
                )));
            }
            if rule.role.name != rule.name.publisher() {
                return Err(syntax(format!("`{}` is signed by the role `{}`", rule.name, rule.role.name)));
            }
            if !seen.insert(&rule.name) {
                return Err(syntax(format!("it lists `{}` twice", rule.name)));
            }
        }
        Ok(lock)
    }

    /// The registry of this id.
    pub fn registry(&self, id: &str) -> Option<&LockedRegistry> {
        self.registries.iter().find(|registry| registry.id == id)
    }

    /// The rule of this name.
    pub fn rule(&self, name: &RuleName) -> Option<&LockedRule> {
        self.rules.iter().find(|rule| rule.name == *name)
    }

    /// The file: sorted, without registries that no rule is from, a final newline.
    ///
    /// # Errors
    /// Never for what was read or made here.
    pub fn to_text(&self) -> Result<String, Error> {
        let mut sorted = self.clone();
        sorted.version = VERSION;
        sorted.rules.sort_by(|a, b| (&a.name, &a.registry).cmp(&(&b.name, &b.registry)));
        for rule in &mut sorted.rules {
            rule.role.keyids.sort();
            rule.role.keyids.dedup();
        }
        sorted.registries.retain(|registry| sorted.rules.iter().any(|rule| rule.registry == registry.id));
        sorted.registries.sort();
        sorted.registries.dedup();
        let text = toml::to_string(&sorted).map_err(io::Error::other)?;
        Ok(format!("# The rules that this project uses. Written by `delegate-doctor rules`; commit it.\n{text}"))
    }

    /// Replaces the lockfile in `folder` in one step.
    ///
    /// # Errors
    /// Whatever the file system says; the old one then stays.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        Ok(files::write_atomic(&folder.join(FILE_NAME), self.to_text()?.as_bytes())?)
    }
}

fn hash(text: &str) -> Result<(), String> {
    let good = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if good { Ok(()) } else { Err(format!("`{}` is no SHA-256", super::client::harmless(text))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, registry: &str) -> LockedRule {
        let name: RuleName = name.parse().expect("name");
        LockedRule {
            version: semver::Version::new(1, 3, 0),
            registry: registry.to_owned(),
            sha256: "ab".repeat(32),
            length: 50_000,
            manifest_sha256: "cd".repeat(32),
            role: LockedRole {
                name: name.publisher().to_owned(),
                version: 2,
                keyids: vec!["22".repeat(32), "11".repeat(32)],
            },
            reviewed: true,
            contract: semver::Version::new(0, 1, 0),
            pinned: false,
            name,
        }
    }

    fn registry(id: &str) -> LockedRegistry {
        let root = LockedRoot { version: 3, sha256: "ef".repeat(32) };
        LockedRegistry { id: id.to_owned(), url: "https://rules.example.org/".to_owned(), root }
    }

    #[test]
    fn the_same_rules_give_the_same_bytes_in_whatever_order() {
        let registries = vec![registry("unused"), registry("community")];
        let rules = vec![rule("bolt/x-rule", "community"), rule("acme/fix-boot", "community")];
        let lock = Lock { registries, rules, ..Lock::default() };
        let mut other = lock.clone();
        other.registries.reverse();
        other.rules.reverse();
        other.rules[0].role.keyids.reverse();
        let text = lock.to_text().expect("text");
        assert_eq!(text, other.to_text().expect("text"));
        assert!(!text.contains("unused") && !text.contains('\r') && text.ends_with('\n'), "{text}");
        let read = Lock::parse(text.as_bytes(), Path::new("dd-rules.lock")).expect("parsed");
        assert_eq!(read.to_text().expect("text"), text);
        assert_eq!(read.rules[0].name.to_string(), "acme/fix-boot");
    }

    #[test]
    fn a_lockfile_that_says_two_things_is_refused() {
        let (registries, rules) = (vec![registry("community")], vec![rule("acme/fix-boot", "community")]);
        let lock = Lock { registries, rules, ..Lock::default() };
        let text = lock.to_text().expect("text");
        let twice = format!("{text}{}", &text[text.find("[[rule]]").expect("rule")..]);
        for (text, why) in [
            (twice, "it lists `acme/fix-boot` twice"),
            (text.replace("version = 1\n", "version = 7\n"), "it has version 7, and 1 is understood"),
            (text.replace("acme/fix-boot", "../fix-boot"), "is no publisher"),
            (text.replace("registry = \"community\"", "registry = \"other\""), "which it does not list"),
            (text.replace(&"ab".repeat(32), "xyz"), "`xyz` is no SHA-256"),
            (text.replace("1.3.0", "1.3.0+x"), "it has build metadata"),
            (text.replace("name = \"acme\"", "name = \"bolt\""), "is signed by the role `bolt`"),
            (text.replace("https://rules", "https://\\u202erules"), "has characters that cannot be seen"),
            (text.replace(&"22".repeat(32), "\\u001b[31m"), "as a key, `\u{fffd}[31m` is no SHA-256"),
            (text.replace("version = 1\n", "\u{1b}[31m"), "\u{fffd}[31m"),
            (text.replace("pinned = false", "pinned = false\nextra = 1"), "unknown field `extra`"),
            ("<<<<<<< HEAD".to_owned(), "dd-rules.lock"),
        ] {
            let error = Lock::parse(text.as_bytes(), Path::new("dd-rules.lock")).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
