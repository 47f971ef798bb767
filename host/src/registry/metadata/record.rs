//! What a publisher's role says about a component beside its bytes.

use serde::{Deserialize, Serialize};

/// What the registry says about a component: enough to search, to ask the user, and to choose a version. The
/// manifest, a file of its own, is the authority; a client compares them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRecord {
    /// version of the rule contract that it was built for
    pub contract: semver::Version,
    /// on what it was proven
    pub evidence: EvidenceRecord,
    /// SPDX expression
    pub license: String,
    /// SHA-256 of the manifest
    pub manifest: String,
    /// what it claims about numbers
    pub numerics: NumericsClass,
    /// the rule's id, which reports show
    pub rule: String,
    /// length of the component in bytes
    pub size: u64,
    /// where its source is, or empty
    pub source: String,
    /// what it does, in a line
    pub title: String,
    /// of the rule
    pub version: semver::Version,
    /// why it should not be used any more
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub yanked: Option<Yanked>,
}

impl RuleRecord {
    /// The first field in which two records differ, but for what was taken back.
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        let fields = [
            ("rule id", self.rule == other.rule),
            ("version", self.version == other.version),
            ("contract", self.contract == other.contract),
            ("title", self.title == other.title),
            ("numerics class", self.numerics == other.numerics),
            ("licence", self.license == other.license),
            ("source", self.source == other.source),
            ("manifest", self.manifest == other.manifest),
            ("size", self.size == other.size),
            ("evidence", self.evidence == other.evidence),
        ];
        fields.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
    }
}

/// What a rule claims about numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumericsClass {
    /// the same bits
    Exact,
    /// within a tolerance
    Tolerant,
    /// repairs a wrong lowering
    Corrective,
}

impl NumericsClass {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Tolerant => "tolerant",
            Self::Corrective => "corrective",
        }
    }
}

/// On what a rule was proven, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceRecord {
    /// devices
    pub devices: Vec<String>,
    /// names of models on which it was accepted
    pub models: Vec<String>,
}

/// A version that was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Yanked {
    /// in a sentence
    pub reason: String,
    /// true: it must not run, not even where a lock asks for it
    pub security: bool,
}
