//! Names in a registry: publishers, rules, targets, and what a user types.
//!
//! ```text
//! dd-rules/softmax-layout             a rule: publisher, then rule
//! community:acme/fix-boot@^1.2        as typed: registry, rule, the versions wanted
//! acme/fix-boot/1.3.0.wasm            a target: a file of one version
//! ```
//!
//! Everything that is not of this grammar is refused, on both sides, before it becomes a path, a URL or a
//! line in a terminal: there is no traversal, no second spelling, no character outside of ASCII, and no
//! difference in case.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest publisher, rule or registry name, in bytes.
pub const MOST_BYTES: usize = 40;

/// Names of roles that no publisher can have.
const ROLES: &[&str] = &["root", "targets", "snapshot", "timestamp", "reviewed", "catalog"];
/// Names that a file system gives to devices.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul"];

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is no {kind}: {why}")]
pub struct Error {
    /// the text, without what would steer a terminal
    shown: String,
    /// what it should have been
    kind: &'static str,
    /// what is wrong
    why: &'static str,
}

impl Error {
    fn new(text: &str, kind: &'static str, why: &'static str) -> Self {
        let mut shown: String = text.chars().take(80).flat_map(char::escape_default).collect();
        if text.chars().nth(80).is_some() {
            shown.push('…');
        }
        Self { shown, kind, why }
    }
}

impl crate::hint::Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self.kind {
            "target" => "A target is PUBLISHER/RULE/VERSION with `.wasm`, `.toml` or `.evidence.json`".to_owned(),
            "version" => "A version is like `1.4.0` or `2.0.0-rc.1`".to_owned(),
            _ => "A rule is PUBLISHER/RULE, as in `dd-rules/softmax-layout`; names are 2 to 40 lower-case letters, \
                  digits and single dashes, and begin with a letter"
                .to_owned(),
        })
    }
}

/// Checks one part of a name: `[a-z][a-z0-9-]{1,39}`, no `--`, no `-` at the end.
fn part(text: &str, kind: &'static str) -> Result<String, Error> {
    let wrong = |why| Err(Error::new(text, kind, why));
    if !text.is_ascii() {
        return wrong("it has a character outside of ASCII");
    }
    if text.len() < 2 || text.len() > MOST_BYTES {
        return wrong("it does not have 2 to 40 characters");
    }
    if !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        return wrong("it does not begin with a lower-case letter");
    }
    if !text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        return wrong("it has something else than lower-case letters, digits and dashes");
    }
    if text.contains("--") || text.ends_with('-') {
        return wrong("it has two dashes side by side, or one at its end");
    }
    let device = DEVICES.contains(&text)
        || (text.len() == 4 && (text.starts_with("com") || text.starts_with("lpt")) && !text.ends_with('0'))
            && text.ends_with(|c: char| c.is_ascii_digit());
    if device {
        return wrong("some systems give this name to a device");
    }
    Ok(text.to_owned())
}

/// Checks a publisher's name; it is also the name of the publisher's role.
///
/// # Errors
/// When it is not of the grammar, or belongs to a role or a device.
pub fn check_publisher(text: &str) -> Result<(), Error> {
    part(text, "publisher")?;
    if ROLES.contains(&text) {
        return Err(Error::new(text, "publisher", "a role of every registry has this name"));
    }
    Ok(())
}

/// Checks a rule's name within its publisher.
///
/// # Errors
/// When it is not of the grammar.
pub fn check_rule(text: &str) -> Result<(), Error> {
    part(text, "rule").map(|_| ())
}

/// Checks the name that a user gives to a registry.
///
/// # Errors
/// When it is not of the grammar.
pub fn check_registry(text: &str) -> Result<(), Error> {
    part(text, "registry").map(|_| ())
}

/// Reads a version: plain semantic versioning, a pre-release only as `alpha.N`, `beta.N` or `rc.N`, no build
/// metadata, one spelling each.
///
/// # Errors
/// When it is anything else.
pub fn version(text: &str) -> Result<semver::Version, Error> {
    let wrong = |why| Error::new(text, "version", why);
    let version = semver::Version::parse(text).map_err(|_| wrong("it is not MAJOR.MINOR.PATCH"))?;
    if !version.build.is_empty() {
        return Err(wrong("it has build metadata"));
    }
    if !version.pre.is_empty() {
        let plain = version.pre.as_str().split_once('.').is_some_and(|(word, number)| {
            ["alpha", "beta", "rc"].contains(&word) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
        });
        if !plain {
            return Err(wrong("a pre-release is `alpha.N`, `beta.N` or `rc.N`"));
        }
    }
    if version.to_string() != text {
        return Err(wrong("it is written in another way than usual"));
    }
    Ok(version)
}

/// A rule of a publisher: `dd-rules/softmax-layout`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RuleName {
    publisher: String,
    rule: String,
}

impl RuleName {
    /// From its two parts.
    ///
    /// # Errors
    /// When one of them is not of the grammar.
    pub fn new(publisher: &str, rule: &str) -> Result<Self, Error> {
        check_publisher(publisher)?;
        check_rule(rule)?;
        Ok(Self { publisher: publisher.to_owned(), rule: rule.to_owned() })
    }

    /// Whose rule it is.
    pub fn publisher(&self) -> &str {
        &self.publisher
    }

    /// Its name there.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// One of its files.
    pub fn target(&self, version: &semver::Version, kind: TargetKind) -> Target {
        Target { rule: self.clone(), version: version.clone(), kind }
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.publisher, self.rule)
    }
}

impl FromStr for RuleName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (publisher, rule) =
            text.split_once('/').ok_or_else(|| Error::new(text, "rule", "it does not name its publisher"))?;
        Self::new(publisher, rule)
    }
}

impl TryFrom<String> for RuleName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<RuleName> for String {
    fn from(name: RuleName) -> Self {
        name.to_string()
    }
}

/// What a target is of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetKind {
    /// the component: `.wasm`
    Component,
    /// the manifest: `.toml`
    Manifest,
    /// what the gates said about it: `.evidence.json`
    Evidence,
}

impl TargetKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Component, Self::Manifest, Self::Evidence];

    /// The end of the file's name, with its dot.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Component => ".wasm",
            Self::Manifest => ".toml",
            Self::Evidence => ".evidence.json",
        }
    }
}

/// A file of a version of a rule: `acme/fix-boot/1.3.0.wasm`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// of which rule
    pub rule: RuleName,
    /// of which version
    pub version: semver::Version,
    /// what it is
    pub kind: TargetKind,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}{}", self.rule, self.version, self.kind.ending())
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why| Error::new(text, "target", why);
        let mut parts = text.split('/');
        let (Some(publisher), Some(rule), Some(file), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong("it does not have three parts"));
        };
        let rule = RuleName::new(publisher, rule).map_err(|error| wrong(error.why))?;
        let (text, kind) = TargetKind::ALL
            .iter()
            .find_map(|kind| Some((file.strip_suffix(kind.ending())?, *kind)))
            .ok_or_else(|| wrong("it ends in none of `.wasm`, `.toml` and `.evidence.json`"))?;
        let version = version(text).map_err(|error| wrong(error.why))?;
        Ok(Self { rule, version, kind })
    }
}

/// A rule as a user names it: `community:acme/fix-boot@^1.2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// the registry, when it is named; else the default one, and no other
    pub registry: Option<String>,
    /// the rule
    pub rule: RuleName,
    /// the versions wanted
    pub versions: Option<semver::VersionReq>,
}

impl fmt::Display for Reference {
    /// With its registry when that is named, and without its versions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.registry {
            Some(registry) => write!(f, "{registry}:{}", self.rule),
            None => write!(f, "{}", self.rule),
        }
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, versions) = match text.split_once('@') {
            Some((name, versions)) => (name, Some(versions)),
            None => (text, None),
        };
        let (registry, name) = match name.split_once(':') {
            Some((registry, name)) => (Some(registry), name),
            None => (None, name),
        };
        if let Some(registry) = registry {
            check_registry(registry)?;
        }
        let versions = versions.map(requirement).transpose()?;
        Ok(Self { registry: registry.map(str::to_owned), rule: name.parse()?, versions })
    }
}

/// Reads which versions are wanted: `1.2.0` means exactly this one, everything else is a range as Cargo writes it.
///
/// # Errors
/// When it is neither.
pub fn requirement(text: &str) -> Result<semver::VersionReq, Error> {
    let wrong = || Error::new(text, "version", "it is neither a version nor a range");
    if let Ok(exact) = version(text) {
        return semver::VersionReq::parse(&format!("={exact}")).map_err(|_| wrong());
    }
    semver::VersionReq::parse(text).map_err(|_| wrong())
}

/// What a name looks like at a glance: two names with the same skeleton are taken for each other. It is for
/// comparing only.
pub fn skeleton(name: &str) -> String {
    let mut looks: String = name.chars().filter(|c| *c != '-').map(look).collect();
    for (two, one) in [("rn", "m"), ("vv", "w"), ("cl", "d"), ("nn", "m")] {
        looks = looks.replace(two, one);
    }
    looks
}

fn look(c: char) -> char {
    match c {
        '0' => 'o',
        '1' | 'i' | 'j' => 'l',
        '2' => 'z',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '6' | '9' | 'q' => 'g',
        '7' => 't',
        '8' => 'b',
        'u' => 'v',
        other => other,
    }
}

/// True when one name may be taken for the other: the same at a glance, or one slip of the fingers apart. A
/// name is not confusable with itself.
pub fn confusable(a: &str, b: &str) -> bool {
    if a == b {
        return false;
    }
    let (a, b) = (skeleton(a), skeleton(b));
    a == b || (a.len().min(b.len()) > 3 && strsim::damerau_levenshtein(&a, &b) <= 1)
}

/// The rules of `known` that may have been meant, best first, at most five. None of them is ever taken without
/// the user's word.
pub fn suggestions<'a>(typed: &RuleName, known: impl IntoIterator<Item = &'a RuleName>) -> Vec<&'a RuleName> {
    let whole = typed.to_string();
    let mut near: Vec<(usize, &RuleName)> = known
        .into_iter()
        .filter_map(|name| {
            let same_rule = name.rule == typed.rule || confusable(&name.rule, &typed.rule);
            let distance = strsim::damerau_levenshtein(&whole, &name.to_string());
            let close = distance <= whole.len().max(6) / 3;
            let inside = typed.rule.len() > 3 && (name.rule.contains(&typed.rule) || typed.rule.contains(&name.rule));
            (same_rule || close || inside).then_some((if same_rule { distance.min(2) } else { distance }, name))
        })
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().map(|(_, name)| name).take(5).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_the_grammar_are_taken_and_others_named() {
        for good in ["ab", "acme", "dd-rules", "a1", "a-b-c", &"a".repeat(40)] {
            assert!(check_publisher(good).is_ok(), "{good}");
        }
        let long = "a".repeat(41);
        for (bad, why) in [
            ("", "2 to 40"),
            ("a", "2 to 40"),
            (long.as_str(), "2 to 40"),
            ("1a", "begin with a lower-case letter"),
            ("-a", "begin with a lower-case letter"),
            ("Acme", "begin with a lower-case letter"),
            ("aCme", "something else than"),
            ("a_b", "something else than"),
            ("a.b", "something else than"),
            ("a b", "something else than"),
            ("a\\b", "something else than"),
            ("a\nb", "something else than"),
            ("a--b", "two dashes"),
            ("ab-", "two dashes"),
            ("аcme", "outside of ASCII"),
            ("ac\u{202e}me", "outside of ASCII"),
            ("root", "a role of every registry"),
            ("reviewed", "a role of every registry"),
            ("nul", "a device"),
            ("com1", "a device"),
        ] {
            let error = check_publisher(bad).expect_err(bad).to_string();
            assert!(error.contains(why), "{bad:?}: {error}");
            assert!(!error.contains('\u{202e}') && !error.contains('\n'), "{error:?}");
        }
        assert!(check_rule("timestamp").is_ok(), "only publishers are roles");
    }

    #[test]
    fn targets_have_one_spelling() {
        for good in ["acme/fix-boot/1.3.0.wasm", "acme/fix-boot/1.3.0.toml", "ab/cd/0.0.1-rc.2.evidence.json"] {
            assert_eq!(good.parse::<Target>().expect(good).to_string(), good);
        }
        for bad in [
            "../../etc/passwd",
            "acme/../1.0.0.wasm",
            "/acme/fix-boot/1.0.0.wasm",
            "acme//1.0.0.wasm",
            "acme/fix-boot/1.0.0.wasm/",
            "acme/fix-boot/sub/1.0.0.wasm",
            "acme\\fix-boot\\1.0.0.wasm",
            "acme/fix-boot/1.0.0.WASM",
            "Acme/fix-boot/1.0.0.wasm",
            "acme/fix-boot/01.0.0.wasm",
            "acme/fix-boot/1.0.wasm",
            "acme/fix-boot/1.0.0+build.wasm",
            "acme/fix-boot/1.0.0-a.toml.wasm",
            "acme/fix-boot/1.0.0.cwasm",
            "acme/fix-boot/1.0.0.json",
            "acme/fix\u{200b}boot/1.0.0.wasm",
            "acme/%2e%2e/1.0.0.wasm",
            "",
        ] {
            let error = bad.parse::<Target>().expect_err(bad).to_string();
            assert!(error.contains("is no target"), "{error}");
        }
    }

    #[test]
    fn what_a_user_types_names_registry_rule_and_versions() {
        let reference: Reference = "community:acme/fix-boot@^1.2".parse().expect("reference");
        assert_eq!(reference.registry.as_deref(), Some("community"));
        assert_eq!(reference.rule.to_string(), "acme/fix-boot");
        assert!(reference.versions.expect("range").matches(&semver::Version::new(1, 9, 0)));
        let exact: Reference = "acme/fix-boot@1.2.0".parse().expect("reference");
        assert!(!exact.versions.expect("exact").matches(&semver::Version::new(1, 2, 1)));
        for bad in ["fix-boot", "acme/", "/x", ":acme/fix-boot", "acme/fix-boot@", "a:b:c/d", "acme/fix-boot@1.x.y.z"] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_that_look_alike_are_seen() {
        for (a, b) in [
            ("acme", "acrne"),
            ("acme", "ac-me"),
            ("bolt", "b0lt"),
            ("bolt", "bo1t"),
            ("acme", "amce"),
            ("acme", "acmee"),
        ] {
            assert!(confusable(a, b) && confusable(b, a), "{a} {b}");
        }
        for (a, b) in [("acme", "acme"), ("acme", "bolt"), ("abc", "abd"), ("softmax-layout", "avg-pool-window")] {
            assert!(!confusable(a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_mistyped_rule_gets_suggestions() {
        let known: Vec<RuleName> = ["dd-rules/softmax-layout", "dd-rules/redundant-ops", "acme/fix-boot"]
            .iter()
            .map(|name| name.parse().expect("name"))
            .collect();
        let suggest = |typed: &str| {
            suggestions(&typed.parse().expect("typed"), &known).into_iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(suggest("dd-rules/softmax-layuot"), ["dd-rules/softmax-layout"]);
        assert_eq!(suggest("dd-rule/softmax-layout"), ["dd-rules/softmax-layout"]);
        assert_eq!(suggest("someone/fix-boot"), ["acme/fix-boot"]);
        assert!(suggest("someone/quantize").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_a_target_with_that_spelling_or_refused(text in "\\PC{0,60}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string(), text);
            }
        }

        #[test]
        fn targets_of_the_grammar_come_back(
            publisher in "[a-z][a-z0-9]{1,10}(-[a-z0-9]{1,5}){0,3}",
            rule in "[a-z][a-z0-9]{1,10}(-[a-z0-9]{1,5}){0,3}",
            numbers in (0_u64..1_000_000, 0_u64..1_000_000, 0_u64..1_000_000),
            ending in "\\.(wasm|toml|evidence\\.json)",
        ) {
            let text = format!("{publisher}/{rule}/{}.{}.{}{ending}", numbers.0, numbers.1, numbers.2);
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string(), text);
            } else {
                prop_assert!(check_publisher(&publisher).is_err() || check_rule(&rule).is_err());
            }
        }

        #[test]
        fn looking_alike_works_both_ways(a in "[a-z][a-z0-9-]{1,12}", b in "[a-z][a-z0-9-]{1,12}") {
            prop_assert_eq!(confusable(&a, &b), confusable(&b, &a));
        }
    }
}
