//! Where rules come from: signed registries, and the one that the binary carries.
//!
//! In: `registry/`, embedded when the host is built, with `bundled.toml` as its index of the rules that count as
//! installed. Out: [`Component`]s, whose hashes were compared with the index. No network, no toolchain.
//!
//! ```text
//! name, layout            what things are called, and where they lie
//! key, metadata           keys, documents
//! writer, ceremony        a registry folder is written; keys change
//! catalog                 what is offered, for search
//! pack, publish           a proven rule becomes a package, and is laid in
//! gate, review, audit     what is looked at before and after
//! ```

pub mod audit;
pub mod catalog;
pub mod ceremony;
pub mod client;
mod embedded;
pub mod floor;
pub mod gate;
mod guard;
pub mod install;
pub mod key;
pub mod layout;
pub mod lockfile;
pub mod metadata;
pub mod name;
pub mod pack;
pub mod publish;
pub mod review;
pub mod store;
mod strict_json;
pub mod transport;
pub mod trust;
pub mod verify;
pub mod wanted;
pub mod writer;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Deserialize;

use crate::files::sha256_hex;
use crate::hint::Hint;

/// Files that the binary carries: their paths below the registry, and their bytes.
pub type EmbeddedFiles = &'static [(&'static str, &'static [u8])];

/// The index as embedded.
const INDEX: &str = include_str!("../../../registry/bundled.toml");
/// Version of the index that this host reads.
const INDEX_VERSION: u32 = 1;

/// A rule as a component, not yet loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// e.g. `dd-001`
    pub id: String,
    /// version of the rule
    pub version: semver::Version,
    /// contract that it was built for
    pub contract: semver::Version,
    /// lower-case hex SHA-256 of the bytes
    pub sha256: String,
    /// the component
    pub bytes: Cow<'static, [u8]>,
}

impl Component {
    /// Id and version: `dd-001 1.2.0`.
    pub fn name(&self) -> String {
        format!("{} {}", self.id, self.version)
    }
}

/// Why rules cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the index cannot be read
    #[error("The rule index `{place}` cannot be read: {reason}")]
    Index {
        /// file or `bundled`
        place: String,
        /// why
        reason: String,
    },
    /// a component is missing
    #[error("Rule {rule} has no component `{file}`")]
    Missing {
        /// id and version
        rule: String,
        /// file in the index
        file: String,
    },
    /// a component is not the one of the index
    #[error("The component of rule {rule} has SHA-256 {found}, and the index says {expected}")]
    Hash {
        /// id and version
        rule: String,
        /// of the bytes
        found: String,
        /// of the index
        expected: String,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some("Build the tool again from a clean checkout".to_owned())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    version: u32,
    #[serde(default, rename = "rule")]
    rules: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    version: semver::Version,
    file: PathBuf,
    sha256: String,
    length: usize,
    contract: semver::Version,
}

/// The rules that the binary carries, in the order of the index.
///
/// # Errors
/// When the binary was built from a registry whose index and components do not belong together.
pub fn bundled() -> Result<Vec<Component>, Error> {
    read(INDEX, "bundled", |file| {
        let found = embedded::FILES.iter().find(|(name, _)| Path::new(name) == file);
        found.map(|(_, bytes)| Cow::Borrowed(*bytes))
    })
}

/// The files of the registry that the binary carries, below `registry/`: metadata and targets.
pub fn bundled_files() -> &'static [(&'static str, &'static [u8])] {
    embedded::FILES
}

/// The rules of a folder laid out as `registry/`.
///
/// # Errors
/// When the index or a component cannot be read, or they do not belong together.
pub fn folder(registry: &Path) -> Result<Vec<Component>, Error> {
    let index = registry.join("bundled.toml");
    let place = index.display().to_string();
    let text =
        fs::read_to_string(&index).map_err(|error| Error::Index { place: place.clone(), reason: error.to_string() })?;
    read(&text, &place, |file| fs::read(registry.join(file)).ok().map(Cow::Owned))
}

fn read(index: &str, place: &str, find: impl Fn(&Path) -> Option<Cow<'static, [u8]>>) -> Result<Vec<Component>, Error> {
    let unreadable = |reason: String| Error::Index { place: place.to_owned(), reason };
    let index: Index = toml::from_str(index).map_err(|error| unreadable(error.to_string()))?;
    if index.version != INDEX_VERSION {
        return Err(unreadable(format!("it has version {}, and {INDEX_VERSION} is understood", index.version)));
    }
    let mut components = Vec::new();
    for entry in index.rules {
        let rule = format!("{} {}", entry.id, entry.version);
        let stays_inside = entry.file.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let bytes = find(&entry.file)
            .filter(|_| stays_inside)
            .ok_or_else(|| Error::Missing { rule: rule.clone(), file: entry.file.display().to_string() })?;
        let found = sha256_hex(&bytes);
        if found != entry.sha256 || bytes.len() != entry.length {
            return Err(Error::Hash { rule, found, expected: entry.sha256 });
        }
        components.push(Component {
            id: entry.id,
            version: entry.version,
            contract: entry.contract,
            sha256: entry.sha256,
            bytes,
        });
    }
    Ok(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_rules_are_the_ones_of_the_index() {
        let rules = bundled().expect("bundled rules");
        let components = embedded::FILES.iter().filter(|(name, _)| name.ends_with(".wasm")).count();
        assert_eq!(rules.len(), components, "every embedded component is in the index");
        let mut ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
        ids.dedup();
        assert_eq!(ids.len(), rules.len(), "an id comes once");
    }

    #[test]
    fn an_index_that_does_not_fit_its_components_is_refused() {
        let entry = |file: &str, sha256: &str, length: usize| {
            format!(
                "version = 1\n[[rule]]\nid = \"a\"\nversion = \"1.0.0\"\nfile = \"{file}\"\nsha256 = \"{sha256}\"\n\
                 length = {length}\ncontract = \"0.1.0\"\n"
            )
        };
        let bytes = |_: &Path| Some(Cow::Borrowed(b"component".as_slice()));
        let sha256 = sha256_hex(b"component");
        assert_eq!(read(&entry("a.wasm", &sha256, 9), "test", bytes).expect("whole").len(), 1);
        assert!(matches!(read(&entry("a.wasm", &sha256_hex(b"x"), 9), "test", bytes), Err(Error::Hash { .. })));
        assert!(matches!(read(&entry("a.wasm", &sha256, 8), "test", bytes), Err(Error::Hash { .. })));
        assert!(matches!(read(&entry("../a.wasm", &sha256, 9), "test", bytes), Err(Error::Missing { .. })));
        assert!(matches!(read(&entry("a.wasm", &sha256, 9), "test", |_| None), Err(Error::Missing { .. })));
        assert!(matches!(read("version = 2", "test", bytes), Err(Error::Index { .. })));
        assert!(matches!(read("no index", "test", bytes), Err(Error::Index { .. })));
    }
}
