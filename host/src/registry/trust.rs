//! Whom the user trusts: registries by the hash of a root, publishers by their keys.
//!
//! ```toml
//! # registries.toml
//! version = 1
//! default = "community"
//!
//! [[registry]]
//! name = "community"
//! place = "https://rules.example.org/"
//! root = { version = 1, sha256 = "…" }
//!
//! [[publisher]]
//! registry = "0123456789abcdef"
//! name = "acme"
//! keys = ["…"]
//! ```
//!
//! A registry is its pinned root, not its address: mirrors of one registry share what was seen of it, and an
//! address cannot turn into another registry.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::name;
use super::transport::Place;
use super::verify::Publisher;
use crate::files;
use crate::hint::{self, Hint};

/// Version of the file.
const VERSION: u32 = 1;
/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Name of the registry that the binary carries.
pub const BUNDLED: &str = "bundled";

/// Why the user's registries cannot be told or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the file cannot be understood
    #[error("Failed to understand `{path}`: {why}")]
    Syntax {
        /// file
        path: PathBuf,
        /// what, with the line
        why: String,
    },
    /// a name that is taken
    #[error("There is a registry called `{name}` already, at `{place}`")]
    Exists {
        /// name
        name: String,
        /// where it lies
        place: String,
    },
    /// the same registry under another name
    #[error("The registry with the root {id}… is there already, as `{name}`")]
    Same {
        /// start of the root's hash
        id: String,
        /// its name
        name: String,
    },
    /// no registry of this name
    #[error("There is no registry called `{name}`")]
    Unknown {
        /// as typed
        name: String,
        /// those there are
        known: Vec<String>,
    },
    /// the bundled registry cannot be changed
    #[error("The registry `{BUNDLED}` comes with this tool and cannot be {0}")]
    Bundled(&'static str),
    /// a name outside the grammar
    #[error(transparent)]
    Name(#[from] name::Error),
    /// a place that is none
    #[error(transparent)]
    Place(#[from] super::transport::Error),
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Syntax { .. } => Some("Mend the line, or move the file away and add the registries again".to_owned()),
            Self::Exists { .. } => Some("Choose another name, or remove that one first".to_owned()),
            Self::Same { name, .. } => Some(format!("Use it as `{name}:PUBLISHER/RULE`")),
            Self::Unknown { name, known } => Some(match hint::closest(name, known.iter().map(String::as_str)) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => "`delegate-doctor registry list` shows them; `registry add` adds one".to_owned(),
            }),
            Self::Bundled(_) => Some("A newer version of the tool brings a newer one".to_owned()),
            Self::Name(error) => error.hint(),
            Self::Place(error) => error.hint(),
            Self::Io(error) => error.hint(),
        }
    }
}

/// The root that stands for a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// its version
    pub version: u64,
    /// SHA-256 of its bytes
    pub sha256: String,
}

impl Pin {
    /// What a registry is called in files of this tool: the start of the hash.
    pub fn id(&self) -> String {
        self.sha256.chars().take(16).collect()
    }
}

/// A registry that the user added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// as the user calls it
    pub name: String,
    /// folder or URL
    pub place: String,
    /// what it is
    pub root: Pin,
}

impl Known {
    /// Where it lies.
    ///
    /// # Errors
    /// When the place is none.
    pub fn place(&self) -> Result<Place, Error> {
        Ok(Place::parse(&self.place, Path::new("/"))?)
    }
}

/// A publisher whose rules the user takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedPublisher {
    /// id of the registry
    pub registry: String,
    /// its name there
    pub name: String,
    /// ids of the keys that it had when the user agreed
    pub keys: Vec<String>,
}

/// What is known about a publisher's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquaintance {
    /// trusted with these keys
    Trusted,
    /// never seen
    New,
    /// trusted, with other keys
    OtherKeys,
}

/// Everything in `registries.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    version: u32,
    /// the registry of names without one; none: the bundled one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// in the order in which they were added
    #[serde(default, rename = "registry", skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<Known>,
    /// in the order in which they were trusted
    #[serde(default, rename = "publisher", skip_serializing_if = "Vec::is_empty")]
    pub publishers: Vec<TrustedPublisher>,
}

impl Trust {
    /// Reads the file; none is nobody.
    ///
    /// # Errors
    /// When it cannot be read or understood.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = match files::read_regular(path, MOST_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { version: VERSION, ..Self::default() });
            }
            Err(error) => return Err(error.into()),
        };
        let syntax = |why: String| Error::Syntax { path: path.to_path_buf(), why };
        let text = String::from_utf8(bytes).map_err(|_| syntax("it is not UTF-8".to_owned()))?;
        let trust: Self =
            toml::from_str(&text).map_err(|error| syntax(super::client::harmless_lines(&error.to_string())))?;
        if trust.version != VERSION {
            return Err(syntax(format!("it has version {}, and {VERSION} is understood", trust.version)));
        }
        for known in &trust.registries {
            name::check_registry(&known.name)?;
            known.place()?;
            let hash = &known.root.sha256;
            if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
                return Err(syntax(format!("the root of `{}` has no SHA-256", known.name)));
            }
        }
        Ok(trust)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Whatever the file system says; the old one then stays.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let head = "# Registries and publishers that this user trusts; `delegate-doctor registry` writes it.\n";
        Ok(files::write_atomic(path, format!("{head}{text}").as_bytes())?)
    }

    /// The registry of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn registry(&self, name: &str) -> Result<&Known, Error> {
        if name == BUNDLED {
            return Err(Error::Bundled("changed, repaired or asked for news"));
        }
        self.registries.iter().find(|known| known.name == name).ok_or_else(|| Error::Unknown {
            name: name.to_owned(),
            known: self.registries.iter().map(|known| known.name.clone()).chain([BUNDLED.to_owned()]).collect(),
        })
    }

    /// Adds a registry.
    ///
    /// # Errors
    /// When its name is none or taken, or it is there under another name.
    pub fn add(&mut self, known: Known) -> Result<(), Error> {
        name::check_registry(&known.name)?;
        if known.name == BUNDLED {
            return Err(Error::Bundled("added"));
        }
        if let Some(other) = self.registries.iter().find(|other| other.name == known.name) {
            return Err(Error::Exists { name: other.name.clone(), place: other.place.clone() });
        }
        if let Some(other) = self.registries.iter().find(|other| other.root == known.root) {
            return Err(Error::Same { id: other.root.id(), name: other.name.clone() });
        }
        self.registries.push(known);
        Ok(())
    }

    /// Removes a registry, and with it the trust in its publishers.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn remove(&mut self, name: &str) -> Result<Known, Error> {
        if name == BUNDLED {
            return Err(Error::Bundled("removed"));
        }
        let known = self.registry(name)?.clone();
        self.registries.retain(|other| other.name != name);
        self.publishers.retain(|publisher| publisher.registry != known.root.id());
        if self.default.as_deref() == Some(name) {
            self.default = None;
        }
        Ok(known)
    }

    /// What is known about the keys of a publisher.
    pub fn acquaintance(&self, registry: &str, publisher: &Publisher) -> Acquaintance {
        let known = self.publishers.iter().find(|known| known.registry == registry && known.name == publisher.name);
        match known {
            None => Acquaintance::New,
            Some(known) if known.keys == publisher.keys => Acquaintance::Trusted,
            Some(_) => Acquaintance::OtherKeys,
        }
    }

    /// Trusts a publisher with the keys that it has now.
    pub fn trust(&mut self, registry: &str, publisher: &Publisher) {
        self.publishers.retain(|known| known.registry != registry || known.name != publisher.name);
        self.publishers.push(TrustedPublisher {
            registry: registry.to_owned(),
            name: publisher.name.clone(),
            keys: publisher.keys.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, hash: &str) -> Known {
        Known { name: name.to_owned(), place: "/r".to_owned(), root: Pin { version: 1, sha256: hash.repeat(32) } }
    }

    #[test]
    fn trust_is_by_root_and_by_key() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("config/registries.toml");
        let mut trust = Trust::read(&path).expect("nobody");
        trust.add(known("community", "ab")).expect("added");
        let error = trust.add(known("community", "cd")).expect_err("taken").to_string();
        assert_eq!(error, "There is a registry called `community` already, at `/r`");
        let error = trust.add(known("other", "ab")).expect_err("same").to_string();
        assert_eq!(error, "The registry with the root abababababababab… is there already, as `community`");
        assert!(matches!(trust.add(known("bundled", "cd")), Err(Error::Bundled("added"))));
        let mut acme = Publisher { name: "acme".to_owned(), keys: vec!["k1".to_owned()], threshold: 1 };
        assert_eq!(trust.acquaintance("id", &acme), Acquaintance::New);
        trust.trust("id", &acme);
        assert_eq!(trust.acquaintance("id", &acme), Acquaintance::Trusted);
        assert_eq!(trust.acquaintance("other", &acme), Acquaintance::New, "trust is within one registry");
        acme.keys = vec!["k2".to_owned()];
        assert_eq!(trust.acquaintance("id", &acme), Acquaintance::OtherKeys);
        trust.write(&path).expect("written");
        assert_eq!(Trust::read(&path).expect("read"), trust);
        assert!(trust.registry("comunity").expect_err("typed wrong").hint().expect("hint").contains("`community`"));
        trust.remove("community").expect("removed");
        assert!(trust.registries.is_empty());
    }

    #[test]
    fn a_damaged_file_is_named_with_the_line() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("registries.toml");
        for (text, why) in [
            ("version = 2", "it has version 2, and 1 is understood"),
            ("version = 1\nx = 1", "unknown field `x`"),
            (
                "version = 1\n[[registry]]\nname = 'Ab'\nplace = '/r'\nroot = { version = 1, sha256 = 'x' }",
                "`Ab` is no registry",
            ),
            (
                "version = 1\n[[registry]]\nname = 'ab'\nplace = '/r'\nroot = { version = 1, sha256 = 'x' }",
                "no SHA-256",
            ),
            (
                "version = 1\n[[registry]]\nname = 'ab'\nplace = 'http://x.org/'\nroot = { version = 1, sha256 = 'x' }",
                "changed on its way",
            ),
        ] {
            fs::write(&path, text).expect("write");
            let error = Trust::read(&path).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
