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
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

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

    /// As it is written, with the versions in the words of `before` when those mean the same.
    fn to_value(&self, before: Option<&str>) -> Value {
        let same = |text: &&str| name::requirement(text).is_ok_and(|versions| versions == self.versions);
        let versions = before.filter(same).map_or_else(|| self.versions.to_string(), str::to_owned);
        if self.pin.is_none() && !self.unreviewed {
            return versions.into();
        }
        let mut table = InlineTable::new();
        table.insert("version", versions.into());
        if let Some(pin) = &self.pin {
            table.insert("pin", pin.to_string().into());
        }
        if self.unreviewed {
            table.insert("allow-unreviewed", true.into());
        }
        table.into()
    }
}

/// The wish that an entry's name is for.
fn key_of(name: &str) -> Option<Key> {
    let reference: Reference = name.parse().ok()?;
    Some(Key { registry: reference.registry, rule: reference.rule })
}

/// Removes entries that are not wanted. Comments above them stay: they go to the entry after them, and what is left
/// over is given back.
fn remove_unwanted(rules: &mut dyn TableLike, wanted: &BTreeMap<Key, Wish>) -> String {
    let mut orphaned = String::new();
    let names: Vec<String> = rules.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let Some(mut key) = rules.key_mut(&name) else { continue };
        let above = key.leaf_decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned();
        if key_of(&name).is_some_and(|key| wanted.contains_key(&key)) {
            if !orphaned.is_empty() {
                key.leaf_decor_mut().set_prefix(format!("{}{above}", std::mem::take(&mut orphaned)));
            }
        } else {
            if above.contains('#') {
                orphaned.push_str(&above);
            }
            rules.remove(&name);
        }
    }
    orphaned
}

/// Makes an entry say a wish, when it does not; what is around it stays.
fn change(item: &mut Item, wish: &Wish) -> Option<()> {
    let mut said = item.clone().into_value().ok()?;
    said.decor_mut().clear();
    let said: Option<BTreeMap<String, Wish>> = toml::from_str(&format!("said = {said}")).ok();
    if said.is_some_and(|said| said.get("said") == Some(wish)) {
        return Some(());
    }
    if let Some(table) = item.as_table_mut() {
        let before = table.get("version").and_then(Item::as_str).map(str::to_owned);
        for name in ["version", "pin", "allow-unreviewed"] {
            table.remove(name);
        }
        match wish.to_value(before.as_deref()) {
            Value::InlineTable(new) => new.iter().for_each(|(name, value)| {
                table.insert(name, Item::Value(value.clone()));
            }),
            versions => {
                table.insert("version", Item::Value(versions));
            }
        }
        return Some(());
    }
    let value = item.as_value_mut()?;
    let before = match &*value {
        Value::String(text) => Some(text.value().clone()),
        Value::InlineTable(table) => table.get("version").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    let decor = value.decor().clone();
    *value = wish.to_value(before.as_deref());
    *value.decor_mut() = decor;
    Some(())
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
        let file: File = toml::from_str(text).map_err(|error| super::client::harmless_lines(&error.to_string()))?;
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
        let same = |text: &String| {
            Self::parse(text).is_ok_and(|read| read.rules == self.rules && read.without == self.without)
        };
        self.edited().filter(same).unwrap_or_else(|| self.whole())
    }

    /// The text with what changed, and nothing else; none when it cannot be edited so.
    fn edited(&self) -> Option<String> {
        let mut document: DocumentMut = self.text.parse().ok()?;
        if self.without.is_empty() {
            document.remove("without");
        } else if Self::parse(&self.text).ok()?.without != self.without {
            let names: toml_edit::Array = self.without.iter().map(ToString::to_string).collect();
            document.insert("without", Item::Value(names.into()));
        }
        if document.get("rules").is_none() {
            let mut table = Table::new();
            // Comments at the end of what is there come before the new table.
            let before = document.trailing().as_str().unwrap_or_default().to_owned();
            if !document.is_empty() || !before.is_empty() {
                table.decor_mut().set_prefix(format!("{before}\n"));
                document.set_trailing("");
            }
            document.insert("rules", Item::Table(table));
        }
        let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
        let rules = document.get_mut("rules")?.as_table_like_mut()?;
        let mut orphaned = remove_unwanted(rules, &self.rules);
        for (key, wish) in &self.rules {
            let written =
                rules.iter().find(|(name, _)| key_of(name).as_ref() == Some(key)).map(|(name, _)| name.to_owned());
            let Some(name) = written else {
                rules.insert(&key.to_string(), Item::Value(wish.to_value(None)));
                if let Some(mut new) = rules.key_mut(&key.to_string()).filter(|_| !orphaned.is_empty()) {
                    new.leaf_decor_mut().set_prefix(std::mem::take(&mut orphaned));
                }
                continue;
            };
            change(rules.get_mut(&name)?, wish)?;
        }
        document.set_trailing(format!("{orphaned}{trailing}"));
        Some(document.to_string())
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
            text.push_str(&format!("\"{key}\" = {}\n", wish.to_value(None)));
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
        wanted.rules.insert(key("dd-rules/softmax-layout"), Wish { pin, ..wish("1.0") });
        wanted.without.push("dd-rules/redundant-ops".parse().expect("rule"));
        let changed = wanted.to_text();
        assert!(
            changed.contains("\"dd-rules/softmax-layout\" = { version = \"1.0\", pin = \"1.0.0\" }  # kept"),
            "{changed}"
        );
        let again = Wanted::parse(&changed).expect("parsed");
        assert_eq!((again.rules, again.without), (wanted.rules.clone(), wanted.without.clone()));
        assert_eq!(wanted.rules[&key("dd-rules/softmax-layout")].effective().to_string(), "=1.0.0");
    }

    #[test]
    fn comments_and_spelling_survive_every_change() {
        let pin = |pin: &str| Wish { pin: Some(pin.parse().expect("version")), ..wish("1") };
        for (text, change, expected) in [
            // The range is written as its author wrote it.
            (
                "[rules]\n\"a1/x1\" = \"1\" # why\n",
                Some(pin("1.2.0")),
                "[rules]\n\"a1/x1\" = { version = \"1\", pin = \"1.2.0\" } # why\n",
            ),
            (
                "[rules]\n\"a1/x1\" = { version = '1', pin = \"1.2.0\" } # why\n",
                Some(wish("1")),
                "[rules]\n\"a1/x1\" = \"1\" # why\n",
            ),
            // A table of its own, a dotted table, blanks and quotes.
            (
                "[rules.'a1/x1'] # own\n# range\nversion = \"1\"\n",
                Some(pin("1.2.0")),
                "[rules.'a1/x1'] # own\nversion = \"1\"\npin = \"1.2.0\"\n",
            ),
            (
                "# head\n[ rules ] # ours\n'a1/x1'='1'\n# end\n",
                Some(pin("1.2.0")),
                "# head\n[ rules ] # ours\n'a1/x1'={ version = \"1\", pin = \"1.2.0\" }\n# end\n",
            ),
            // What is removed leaves the comments above it.
            (
                "[rules]\n# general\n\"a1/x1\" = \"1\"\n# of y\n\"b1/y1\" = \"1\"\n",
                None,
                "[rules]\n# general\n# of y\n\"b1/y1\" = \"1\"\n",
            ),
            ("[rules]\n# general\n\"a1/x1\" = \"1\"\n# end\n", None, "[rules]\n# general\n# end\n"),
        ] {
            let mut wanted = Wanted::parse(text).expect("parsed");
            match change {
                Some(wish) => wanted.rules.insert(key("a1/x1"), wish),
                None => wanted.rules.remove(&key("a1/x1")),
            };
            assert_eq!(wanted.to_text(), expected, "from {text}");
        }
        let mut wanted = Wanted::parse("# only a comment\n").expect("parsed");
        wanted.rules.insert(key("a1/x1"), wish("1"));
        assert_eq!(wanted.to_text(), "# only a comment\n\n[rules]\n\"a1/x1\" = \"^1\"\n");
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
