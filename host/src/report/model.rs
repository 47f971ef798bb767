//! The report as data: what the run folder stores and every view renders.
//!
//! The JSON form is published (`docs/report.schema.json`) and versioned by [`VERSION`]. Readers ignore
//! fields they do not know; a reader refuses a version above its own. Adding a field with a default
//! keeps the version; anything else raises it.

mod profile;
mod repair;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, TargetLabel};
use crate::gates::{Fact, Gate};

pub use crate::decision::{Status, TrialOutcome};
use crate::hint::Hint;

pub use self::profile::{CrossCheck, Hotspot, HotspotNode, Profile, RuleOutcome, RuleVerdict};
pub use self::repair::{
    Block, Comparison, Declined, Diagram, DiagramEdge, DiagramNode, NodeRole, Placement, ProgramRuns, RuleClass,
    RuleRef, RunMode, Side, Site, Subgraph, Trial,
};

/// The version of the report this tool writes, and the highest it reads.
pub const VERSION: u32 = 1;

/// What `schema` says in every report.
pub const SCHEMA: &str = "delegate-doctor/report";

/// Everything a run found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// always `delegate-doctor/report`
    pub schema: String,
    /// version of this record, see [`VERSION`]
    pub version: u32,
    /// versions of the tool and of what it speaks
    pub versions: Versions,
    /// when the run began, RFC 3339 with a zone
    pub created: String,
    /// the command line as typed, one entry an argument
    #[serde(default)]
    pub command: Vec<String>,
    /// the answer
    pub verdict: Verdict,
    /// what was examined
    pub model: Model,
    /// where and under what it ran
    pub setting: Setting,
    /// things found beside the verdict, the gravest first
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// the original program; absent when it could not be lowered or run
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Profile>,
    /// the program with every accepted repair; absent when none was accepted
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Profile>,
    /// original against repaired, measured side by side; absent when none was accepted
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overall: Option<Comparison>,
    /// repairs that were tried, in order
    #[serde(default)]
    pub trials: Vec<Trial>,
    /// sites that a rule looked at and left alone
    #[serde(default)]
    pub declined: Vec<Declined>,
    /// how the repair loop went and why it ended
    pub search: Search,
    /// pipeline stages in order, with their wall time
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// how the wall time divides
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// files of the run
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// commands that repeat the run or parts of it
    #[serde(default)]
    pub reproduce: Vec<Step>,
}

/// Why a stored report cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// not JSON
    #[error("The report is not valid JSON")]
    Json(#[source] serde_json::Error),
    /// JSON of something else
    #[error("The file is not a Delegate Doctor report: its `schema` is {found}")]
    NotAReport {
        /// what stood there
        found: String,
    },
    /// from a newer tool
    #[error("The report has version {found}, and this tool reads versions up to {VERSION}")]
    TooNew {
        /// version in the file
        found: u64,
    },
    /// a field is missing or of the wrong kind
    #[error("The report does not have the form of version {version}")]
    Form {
        /// version in the file
        version: u64,
        /// which field
        #[source]
        source: serde_json::Error,
    },
}

impl Hint for ReadError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::TooNew { .. } => "Render it with the version of the tool that wrote it, or update this one",
            Self::NotAReport { .. } | Self::Json(_) => "Give a run folder, or the `report.json` in it",
            Self::Form { .. } => return None,
        };
        Some(advice.to_owned())
    }
}

impl Report {
    /// Reads a stored report of this version or an older one; unknown fields are ignored.
    ///
    /// # Errors
    /// When `json` is something else, or from a newer tool.
    pub fn from_json(json: &[u8]) -> Result<Self, ReadError> {
        let value: serde_json::Value = serde_json::from_slice(json).map_err(ReadError::Json)?;
        match value.get("schema").and_then(serde_json::Value::as_str) {
            Some(SCHEMA) => {}
            Some(other) => return Err(ReadError::NotAReport { found: format!("`{other}`") }),
            None => return Err(ReadError::NotAReport { found: "missing".to_owned() }),
        }
        let version = value.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if version > u64::from(VERSION) {
            return Err(ReadError::TooNew { found: version });
        }
        serde_json::from_value(value).map_err(|source| ReadError::Form { version, source })
    }

    /// The report as indented JSON with a final newline.
    ///
    /// # Errors
    /// When a path is not UTF-8.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// All findings, the gravest first.
    pub fn ranked_findings(&self) -> Vec<&Finding> {
        let mut findings: Vec<_> = self.findings.iter().collect();
        findings.sort_by_key(|finding| finding.severity);
        findings
    }

    /// The findings that say that the user's program is wrong or unsafe as it is.
    pub fn alarms(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Alarm)
    }

    /// Repairs that were accepted, in order.
    pub fn accepted(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.outcome == TrialOutcome::Accepted)
    }

    /// The profile of the program a user ends up with.
    pub fn current(&self) -> Option<&Profile> {
        self.repaired.as_ref().or(self.original.as_ref())
    }
}

/// Versions of the tool and of everything it speaks; they move independently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Versions {
    /// the tool
    pub tool: String,
    /// the WIT package of rules
    pub wit: String,
    /// the worker protocol
    pub worker_protocol: u32,
    /// the runner protocol
    pub runner_protocol: u32,
}

/// The answer of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// the answer
    pub status: Status,
    /// with [`Status::RepairRejected`] and [`Status::Inconclusive`]: the gate that decided
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// one sentence in plain words, without figures
    pub headline: String,
    /// what a person can do now, the most useful first
    #[serde(default)]
    pub next_steps: Vec<Step>,
}

/// Something to do, with the command that does it where there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// what it does, in plain words
    pub text: String,
    /// a command to copy
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The model a run examined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// what to call it
    pub name: String,
    /// the file, or `module:callable`, as the user gave it
    pub source: String,
    /// parameters (elements, buffers not counted)
    pub parameters: u64,
    /// nodes of the exported graph
    pub nodes: u64,
    /// user inputs in order
    #[serde(default)]
    pub inputs: Vec<TensorSummary>,
    /// user outputs in order
    #[serde(default)]
    pub outputs: Vec<TensorSummary>,
    /// fingerprint of the exported program
    pub fingerprint: String,
}

/// A tensor without its elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TensorSummary {
    /// name in the exported program
    pub name: String,
    /// torch's name without the prefix: `float32`
    pub dtype: String,
    /// sizes, outermost first; a symbolic one as its expression
    pub sizes: Vec<String>,
}

/// Where and under what a run happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// where programs ran
    pub target: TargetLabel,
    /// intra-op threads of measured runs
    pub threads: u32,
    /// CPU model of the target, as it names itself
    #[serde(default)]
    pub cpu: String,
    /// logical processors of the target
    #[serde(default)]
    pub processors: u32,
    /// operating system of the target
    #[serde(default)]
    pub system: String,
    /// the Python interpreter, e.g. `3.11.7`
    #[serde(default)]
    pub python: String,
    /// e.g. `2.15.0+cpu`
    #[serde(default)]
    pub torch: String,
    /// e.g. `1.5.1`
    #[serde(default)]
    pub executorch: String,
    /// seed of generated inputs and of resampling
    #[serde(default)]
    pub seed: u64,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Severity {
    /// the user's program is wrong or unsafe to use as it is
    Alarm,
    /// the answer is weaker than it could be
    Warning,
    /// good to know
    Note,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FindingCode {
    /// the original lowered program disagrees with eager PyTorch
    OriginalIsWrong,
    /// outputs hardly react to inputs, so output comparisons prove little
    InsensitiveModel,
    /// the sum of instructions and the method's own time disagree
    CrossCheckFailed,
    /// running the program changes the caller's input
    InputMutated,
    /// latency jumps between modes or drifts
    UnstableLatency,
    /// two rules undo each other
    RulesOppose,
    /// a rule was stopped by the sandbox or gave an invalid patch
    RuleFailed,
    /// a version outside the measured range
    UntestedVersion,
    /// what torch or executorch said while exporting or lowering
    ToolchainWarning,
    /// anything else
    Other,
}

impl FindingCode {
    /// The name as in the JSON form.
    pub fn name(self) -> &'static str {
        match self {
            Self::OriginalIsWrong => "ORIGINAL_IS_WRONG",
            Self::InsensitiveModel => "INSENSITIVE_MODEL",
            Self::CrossCheckFailed => "CROSS_CHECK_FAILED",
            Self::InputMutated => "INPUT_MUTATED",
            Self::UnstableLatency => "UNSTABLE_LATENCY",
            Self::RulesOppose => "RULES_OPPOSE",
            Self::RuleFailed => "RULE_FAILED",
            Self::UntestedVersion => "UNTESTED_VERSION",
            Self::ToolchainWarning => "TOOLCHAIN_WARNING",
            Self::Other => "OTHER",
        }
    }
}

/// Something found beside the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// what it is about
    pub code: FindingCode,
    /// how much it matters
    pub severity: Severity,
    /// one line
    pub title: String,
    /// what is wrong, why, and what to do, in plain words
    #[serde(default)]
    pub text: String,
    /// with wrong results: where outputs differ and by how much, the worst first
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mismatches: Vec<Mismatch>,
    /// other evidence
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// what a person can do
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// An output that is not what it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mismatch {
    /// output name or position
    pub output: String,
    /// which inputs: `your inputs`, `seeded normal 1`, `tiny magnitudes`
    pub input_set: String,
    /// largest absolute difference
    pub error: Evidence,
    /// what the output varies by over inputs and positions: what the error is to be compared with
    pub scale: Evidence,
    /// largest difference that would have passed
    pub allowed: Evidence,
}

/// How the repair loop went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// rounds of profile, match, try
    pub rounds: u32,
    /// limits it ran under
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// stable code: `nothing-left`, `rounds`, `candidates`, `time`, `interrupted`, `rules-oppose`, `not-started`
    pub stop_code: String,
    /// why it ended, one sentence
    pub stop_reason: String,
}

/// A limit of the repair loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// e.g. `rounds`, `candidates`, `wall time`
    pub name: String,
    /// as shown, e.g. `16`, `30 min`
    pub value: String,
    /// whether it was what ended the loop
    #[serde(default)]
    pub reached: bool,
}

/// A pipeline stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// `export`, `lower`, `profile`, `match`, `gates`, `benchmark`, …
    pub name: String,
    /// round of the repair loop; absent outside it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// wall time on the host, seconds
    pub seconds: f64,
    /// what was taken from the cache instead of being made, in plain words
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<String>,
}

/// Wall time of a run on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// from the first moment to the report, seconds
    pub wall_seconds: f64,
    /// part of it in which a child process worked: Python, the runner, the compiler; the rest is the tool's own
    pub children_seconds: f64,
}

/// A file of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// path relative to the run folder
    pub path: PathBuf,
    /// what it is, in plain words
    pub what: String,
    /// lower-case hex
    pub sha256: String,
    /// size
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn accepted() -> serde_json::Value {
        let (_, report) = samples::all().into_iter().next().expect("a sample");
        serde_json::to_value(report).expect("JSON")
    }

    fn read(value: &serde_json::Value) -> Result<Report, ReadError> {
        Report::from_json(value.to_string().as_bytes())
    }

    #[test]
    fn unknown_fields_are_ignored_and_missing_ones_have_defaults() {
        let mut value = accepted();
        value["added-later"] = serde_json::json!({ "x": 1 });
        value["verdict"]["added-later"] = 1.into();
        let fields = value.as_object_mut().expect("object");
        for optional in ["command", "findings", "trials", "declined", "stages", "artifacts", "reproduce", "overall"] {
            fields.shift_remove(optional).expect(optional);
        }
        let report = read(&value).expect("reads");
        assert!(report.trials.is_empty() && report.overall.is_none());
        assert_eq!(report.verdict.status, Status::RepairsAccepted);
    }

    #[test]
    fn other_files_and_newer_versions_are_named_as_such() {
        let mut newer = accepted();
        newer["version"] = 2.into();
        newer["verdict"] = "no longer an object".into();
        assert!(matches!(read(&newer), Err(ReadError::TooNew { found: 2 })));
        assert_eq!(
            read(&newer).expect_err("too new").to_string(),
            "The report has version 2, and this tool reads versions up to 1"
        );
        let mut other = accepted();
        other["schema"] = "cargo".into();
        assert!(matches!(read(&other), Err(ReadError::NotAReport { .. })));
        assert!(matches!(Report::from_json(b"{}"), Err(ReadError::NotAReport { .. })));
        assert!(matches!(Report::from_json(b"\x00\xff"), Err(ReadError::Json(_))));
        let mut broken = accepted();
        broken["model"] = 3.into();
        assert!(matches!(read(&broken), Err(ReadError::Form { version: 1, .. })));
    }
}
