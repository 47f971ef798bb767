//! `dd-rules.toml`: which rules are wanted, as people write it.
//!
//! ```toml
//! [rules]
//! "dd-rules/softmax-layout" = "^1"
//! "community:acme/fix-boot" = { version = "^1.2", pin = "1.3.0", allow-unreviewed = true }
//! ```
//!
//! Changing an entry changes its line; comments and order of the others stay.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use super::name::{self, Reference, RuleName};
use crate::files;
use crate::hint::Hint;

/// The file's name.
pub const FILE_NAME: &str = "dd-rules.toml";
/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Why the wanted rules cannot be told.
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
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Syntax { .. } => Some(
                "An entry below `[rules]` is `\"PUBLISHER/RULE\" = \"^1.2\"`, or `\"REGISTRY:PUBLISHER/RULE\" = …`"
                    .to_owned(),
            ),
            Self::Io(error) => error.hint(),
        }
    }
}

/// A rule that is wanted: registry and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// none: the default registry
    pub registry: Option<String>,
    /// the rule
    pub rule: RuleName,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.registry {
            Some(registry) => write!(f, "{registry}:{}", self.rule),
            None => write!(f, "{}", self.rule),
        }
    }
}

/// Which versions of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// range
    pub versions: semver::VersionReq,
    /// exactly this one for now
    pub pin: Option<semver::Version>,
    /// also when the maintainers have not reviewed it
    pub unreviewed: bool,
}

impl Wish {
    /// The versions that may be chosen now.
    pub fn effective(&self) -> semver::VersionReq {
        let exact = self.pin.as_ref().and_then(|pin| semver::VersionReq::parse(&format!("={pin}")).ok());
        exact.unwrap_or_else(|| self.versions.clone())
    }

    fn to_toml(&self) -> String {
        let versions = self.versions.to_string();
        if self.pin.is_none() && !self.unreviewed {
            return format!("\"{versions}\"");
        }
        let mut text = format!("{{ version = \"{versions}\"");
        if let Some(pin) = &self.pin {
            text.push_str(&format!(", pin = \"{pin}\""));
        }
        if self.unreviewed {
            text.push_str(", allow-unreviewed = true");
        }
        text.push_str(" }");
        text
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Versions(String),
    Table(WrittenTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenTable {
    version: String,
    pin: Option<String>,
    #[serde(default)]
    allow_unreviewed: bool,
}

impl<'de> Deserialize<'de> for Wish {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let table = match Written::deserialize(deserializer)? {
            Written::Versions(version) => WrittenTable { version, pin: None, allow_unreviewed: false },
            Written::Table(table) => table,
        };
        Ok(Self {
            versions: name::requirement(&table.version).map_err(D::Error::custom)?,
            pin: table.pin.map(|pin| name::version(&pin)).transpose().map_err(D::Error::custom)?,
            unreviewed: table.allow_unreviewed,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rules: BTreeMap<String, Wish>,
    /// bundled rules that the user does not want
    #[serde(default)]
    without: Vec<RuleName>,
}

/// The wanted rules of a project or of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// the rules
    pub rules: BTreeMap<Key, Wish>,
    /// bundled rules that the user removed; projects list what they want and need none
    pub without: Vec<RuleName>,
    text: String,
}

impl Wanted {
    /// Reads the file in `folder`; none when there is none.
    ///
    /// # Errors
    /// When it cannot be read or understood.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE_NAME);
        let syntax = |why: String| Error::Syntax { path: path.clone(), why };
        let bytes = match files::read_regular(&path, MOST_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let text = String::from_utf8(bytes).map_err(|_| syntax("it is not UTF-8".to_owned()))?;
        Self::parse(&text).map(Some).map_err(syntax)
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    /// What is wrong, with the line where it is known.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let mut rules = BTreeMap::new();
        for (key, wish) in file.rules {
            let reference: Reference = key.parse().map_err(|error: name::Error| error.to_string())?;
            if reference.versions.is_some() {
                return Err(format!("`{key}` has a version in its name; write it behind the `=`"));
            }
            rules.insert(Key { registry: reference.registry, rule: reference.rule }, wish);
        }
        Ok(Self { rules, without: file.without, text: text.to_owned() })
    }

    /// True when there is no file yet.
    pub fn is_new(&self) -> bool {
        self.text.is_empty()
    }

    /// The entry for a rule, whatever its registry.
    pub fn find(&self, rule: &RuleName) -> Option<(&Key, &Wish)> {
        self.rules.iter().find(|(key, _)| key.rule == *rule)
    }

    /// The file: as it was read, with the lines of changed entries changed.
    pub fn to_text(&self) -> String {
        let edited = self.edited();
        let same = Self::parse(&edited).is_ok_and(|read| read.rules == self.rules && read.without == self.without);
        if same { edited } else { self.whole() }
    }

    fn edited(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut missing: Vec<&Key> = self.rules.keys().collect();
        let mut end_of_rules = None;
        let mut inside = false;
        for line in self.text.lines() {
            let trimmed = line.trim();
            if trimmed.starts_with('[') {
                inside = trimmed == "[rules]";
            }
            if trimmed.starts_with("without") && !inside {
                continue;
            }
            let key = trimmed.strip_prefix('"').and_then(|rest| rest.split_once('"')).map(|(key, _)| key);
            match key.filter(|_| inside).and_then(|key| self.rules.iter().find(|(other, _)| other.to_string() == key)) {
                Some((key, wish)) => {
                    missing.retain(|other| *other != key);
                    let unchanged = toml::from_str::<BTreeMap<String, Wish>>(trimmed)
                        .is_ok_and(|read| read.values().next() == Some(wish));
                    lines.push(if unchanged { line.to_owned() } else { entry(key, wish) });
                }
                // The entry was removed.
                None if inside && key.is_some() => continue,
                None => lines.push(line.to_owned()),
            }
            if inside && !trimmed.is_empty() {
                end_of_rules = Some(lines.len());
            }
        }
        let at = end_of_rules.unwrap_or_else(|| {
            if lines.last().is_some_and(|line| !line.is_empty()) {
                lines.push(String::new());
            }
            lines.push("[rules]".to_owned());
            lines.len()
        });
        let new = missing.into_iter().filter_map(|key| Some(entry(key, self.rules.get(key)?)));
        let tail = lines.split_off(at);
        lines.extend(new);
        lines.extend(tail);
        let mut text = self.without_line();
        text.push_str(&lines.join("\n"));
        text.push('\n');
        text
    }

    fn without_line(&self) -> String {
        if self.without.is_empty() {
            return String::new();
        }
        let names: Vec<String> = self.without.iter().map(|name| format!("\"{name}\"")).collect();
        format!("without = [{}]\n", names.join(", "))
    }

    fn whole(&self) -> String {
        let mut text = self.without_line();
        text.push_str("[rules]\n");
        for (key, wish) in &self.rules {
            text.push_str(&entry(key, wish));
            text.push('\n');
        }
        text
    }

    /// Replaces the file in `folder` in one step.
    ///
    /// # Errors
    /// Whatever the file system says; the old one then stays.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = self.to_text();
        if text != self.text {
            files::write_atomic(&folder.join(FILE_NAME), text.as_bytes())?;
        }
        Ok(())
    }
}

fn entry(key: &Key, wish: &Wish) -> String {
    format!("\"{key}\" = {}", wish.to_toml())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(versions: &str) -> Wish {
        Wish { versions: name::requirement(versions).expect("range"), pin: None, unreviewed: false }
    }

    fn key(text: &str) -> Key {
        let reference: Reference = text.parse().expect("reference");
        Key { registry: reference.registry, rule: reference.rule }
    }

    #[test]
    fn changes_leave_comments_and_other_lines_alone() {
        let text =
            "# ours\n[rules]\n# for softmax\n\"dd-rules/softmax-layout\" = '1.0'  # kept\n\"acme/fix-boot\" = \"^1\"\n";
        let mut wanted = Wanted::parse(text).expect("parsed");
        assert_eq!(wanted.to_text(), text);
        wanted.rules.insert(key("community:acme/other"), Wish { unreviewed: true, ..wish("^2") });
        wanted.rules.remove(&key("acme/fix-boot"));
        let expected = "# ours\n[rules]\n# for softmax\n\"dd-rules/softmax-layout\" = '1.0'  # kept\n\
            \"community:acme/other\" = { version = \"^2\", allow-unreviewed = true }\n";
        assert_eq!(wanted.to_text(), expected);
        let pin = Some(semver::Version::new(1, 0, 0));
        wanted.rules.insert(key("dd-rules/softmax-layout"), Wish { pin, ..wish("^1.0") });
        wanted.without.push("dd-rules/redundant-ops".parse().expect("rule"));
        let changed = wanted.to_text();
        assert!(changed.contains("\"dd-rules/softmax-layout\" = { version = \"^1.0\", pin = \"1.0.0\" }"), "{changed}");
        let again = Wanted::parse(&changed).expect("parsed");
        assert_eq!((again.rules, again.without), (wanted.rules.clone(), wanted.without.clone()));
        assert_eq!(wanted.rules[&key("dd-rules/softmax-layout")].effective().to_string(), "=1.0.0");
    }

    #[test]
    fn a_new_file_has_a_table() {
        let mut wanted = Wanted::default();
        wanted.rules.insert(key("acme/fix-boot"), wish("^1.2"));
        assert_eq!(wanted.to_text(), "[rules]\n\"acme/fix-boot\" = \"^1.2\"\n");
    }

    #[test]
    fn wrong_entries_are_named() {
        for (text, why) in [
            ("[rules]\n\"fix-boot\" = \"1\"", "it does not name its publisher"),
            ("[rules]\n\"acme/fix-boot@1\" = \"1\"", "has a version in its name"),
            ("[rules]\n\"acme/fix-boot\" = \"newest\"", "is neither"),
            ("[rules]\n\"acme/fix-boot\" = 1", "line 2"),
            ("[rule]\n", "unknown field `rule`"),
        ] {
            let error = Wanted::parse(text).expect_err(why);
            assert!(error.contains(why) || why == "is neither", "{error}");
        }
    }
}
