//! What a registry offers, in one document: for search and for suggestions, so that neither needs the documents of
//! all publishers.
//!
//! The publishing job makes it from the documents that the snapshot names, and the snapshot pins its bytes. It says
//! nothing about what may be installed: for that the publisher's role and the review of it are asked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metadata::{EvidenceRecord, NumericsClass, RuleRecord, TargetFile, Targets};
use super::name::{RuleName, Target, TargetKind};

/// Version of the document.
const VERSION: u32 = 1;

/// What a registry offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// version of the document
    pub format: u32,
    /// the newest version of every rule that can be installed, by name
    pub rules: Vec<Offer>,
}

/// The newest version of a rule that can be installed without further words: no pre-release, reviewed, neither
/// taken back nor revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// the rule
    pub name: RuleName,
    /// its version
    pub version: semver::Version,
    /// what it does, in a line
    pub title: String,
    /// what it claims about numbers
    pub numerics: NumericsClass,
    /// SPDX expression
    pub license: String,
    /// version of the rule contract that it was built for
    pub contract: semver::Version,
    /// on what it was proven
    pub evidence: EvidenceRecord,
}

impl Offer {
    /// Of a version's record.
    pub fn of(name: RuleName, version: semver::Version, record: &RuleRecord) -> Self {
        Self {
            name,
            version,
            title: record.title.clone(),
            numerics: record.numerics,
            license: record.license.clone(),
            contract: record.contract.clone(),
            evidence: record.evidence.clone(),
        }
    }
}

impl Catalog {
    /// From the documents of the publishers and their reviews, and what was revoked, by SHA-256.
    pub fn of<'a>(
        publishers: impl IntoIterator<Item = (&'a Targets, Option<&'a Targets>)>,
        revoked: &BTreeMap<String, String>,
    ) -> Self {
        let mut newest: BTreeMap<RuleName, Offer> = BTreeMap::new();
        for (listed, review) in publishers {
            for (path, file) in &listed.targets {
                let (Ok(target), Some(custom)) = (path.parse::<Target>(), &file.custom) else { continue };
                let seen = |path: &str, file: &TargetFile| {
                    review.and_then(|review| review.targets.get(path)).is_some_and(|seen| seen.is_same_file(file))
                };
                let manifest = target.rule.target(&target.version, TargetKind::Manifest).to_string();
                let offered = target.kind == TargetKind::Component
                    && target.version.pre.is_empty()
                    && custom.dd.yanked.is_none()
                    && !revoked.contains_key(&file.hashes.sha256)
                    && seen(path, file)
                    && listed.targets.get(&manifest).is_some_and(|file| seen(&manifest, file));
                if offered && newest.get(&target.rule).is_none_or(|offer| offer.version < target.version) {
                    newest.insert(target.rule.clone(), Offer::of(target.rule, target.version, &custom.dd));
                }
            }
        }
        Self { format: VERSION, rules: newest.into_values().collect() }
    }

    /// Its bytes; the same catalogue has the same ones.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// From bytes.
    ///
    /// # Errors
    /// When they are no catalogue of a version that is understood, in words.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let catalog: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if catalog.format != VERSION {
            return Err(format!("it has format {}, and {VERSION} is understood", catalog.format));
        }
        Ok(catalog)
    }
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Yanked;
    use super::super::pack::tests::package;
    use super::*;

    fn documents() -> (Targets, Targets) {
        let expires = "2027-01-31T12:00:00Z".parse().expect("time");
        let (mut listed, mut review) = (Targets::empty(1, expires), Targets::empty(1, expires));
        for new in package("dd-001", "softmax-layout").targets("acme").expect("targets") {
            let file = TargetFile::of(&new.bytes, new.record.clone());
            review.targets.insert(new.target.to_string(), TargetFile { custom: None, ..file.clone() });
            listed.targets.insert(new.target.to_string(), file);
        }
        (listed, review)
    }

    #[test]
    fn only_what_can_be_installed_without_further_words_is_offered() {
        let (listed, review) = documents();
        let none = BTreeMap::new();
        let whole = Catalog::of([(&listed, Some(&review))], &none);
        assert_eq!(whole.rules.len(), 1);
        assert_eq!(whole.rules[0].name.to_string(), "acme/softmax-layout");
        assert_eq!(Catalog::parse(&whole.to_bytes().expect("bytes")), Ok(whole.clone()));
        let component = "acme/softmax-layout/1.0.0.wasm";
        let empty = |listed: &Targets, review: Option<&Targets>, revoked: &BTreeMap<String, String>| {
            Catalog::of([(listed, review)], revoked).rules.is_empty()
        };
        assert!(empty(&listed, None, &none), "nobody reviewed it");
        let mut other = review.clone();
        other.targets.get_mut(component).expect("component").length += 1;
        assert!(empty(&listed, Some(&other), &none), "something else was reviewed");
        let mut other = review.clone();
        other.targets.remove("acme/softmax-layout/1.0.0.toml");
        assert!(empty(&listed, Some(&other), &none), "its manifest was not reviewed");
        let sha256 = listed.targets[component].hashes.sha256.clone();
        assert!(empty(&listed, Some(&review), &BTreeMap::from([(sha256, "why".to_owned())])), "it is revoked");
        let mut yanked = listed.clone();
        let custom = yanked.targets.get_mut(component).and_then(|file| file.custom.as_mut()).expect("record");
        custom.dd.yanked = Some(Yanked { reason: "wrong".to_owned(), security: false });
        assert!(empty(&yanked, Some(&review), &none), "it was taken back");
    }

    #[test]
    fn what_is_no_catalogue_is_told() {
        assert_eq!(
            Catalog::parse(br#"{"format":2,"rules":[]}"#),
            Err("it has format 2, and 1 is understood".to_owned())
        );
        for bad in ["", "[]", r#"{"format":1,"rules":[],"more":1}"#, r#"{"format":1,"format":1,"rules":[]}"#] {
            assert!(Catalog::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
