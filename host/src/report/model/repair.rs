//! Repairs that were tried, with everything that was found about them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decision::TrialOutcome;
use crate::evidence::{Evidence, TargetLabel};
use crate::gates::benchmark::Statistic;
use crate::gates::benchmark::conditions::DeviceConditions;
use crate::gates::{Gate, GateReport};
use crate::torch::protocol::SourceLine;

/// What a rule promises about results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RuleClass {
    /// the same bits
    Exact,
    /// within a declared tolerance
    Tolerant,
    /// repairs a wrong lowering
    Corrective,
}

/// A rule, as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleRef {
    /// e.g. `dd-001`
    pub id: String,
    /// e.g. `1.0.0`
    pub version: String,
    /// one line
    #[serde(default)]
    pub title: String,
    /// what it promises
    pub class: RuleClass,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.version)
    }
}

/// Where in the graph a repair applies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Site {
    /// anchor node's name
    pub node: String,
    /// anchor's op: `aten.softmax.int`
    pub op: String,
    /// the user's line
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLine>,
    /// module names down to the node; empty when unknown
    #[serde(default)]
    pub module_path: String,
}

/// A repair that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// round of the repair loop, from 1
    pub round: u32,
    /// who proposed it
    pub rule: RuleRef,
    /// where
    pub sites: Vec<Site>,
    /// the rule's own explanation
    #[serde(default)]
    pub why: String,
    /// how it ended
    pub outcome: TrialOutcome,
    /// the gate that decided, when not accepted
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// why it ended so, one sentence
    #[serde(default)]
    pub reason: String,
    /// the graph around the sites before and after; sites that look alike share one
    #[serde(default)]
    pub diagrams: Vec<Diagram>,
    /// what each gate found, in order
    #[serde(default)]
    pub gates: Vec<GateReport>,
    /// current best against this repair; absent when it did not come so far
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<Comparison>,
    /// runtime-weighted delegation of the program it started from; unit `share`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_before: Option<Evidence>,
    /// the same of the repaired program; unit `share`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_after: Option<Evidence>,
    /// wall time of the trial on the host, seconds
    #[serde(default)]
    pub seconds: f64,
}

/// Two programs measured side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// where
    pub target: TargetLabel,
    /// what of the times is compared
    #[serde(default)]
    pub statistic: Statistic,
    /// that of the first program; unit `ms`
    pub before: Evidence,
    /// that of the second; unit `ms`
    pub after: Evidence,
    /// `before` over `after`, above 1 when the second is faster; unit `ratio`, with its interval
    pub ratio: Evidence,
    /// intra-op threads of both programs
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// more about the runs of each program, the first one first
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramRuns>,
    /// what the device was doing meanwhile; absent when it does not tell
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<DeviceConditions>,
    /// every sample, in the order of the measurement
    #[serde(default)]
    pub blocks: Vec<Block>,
    /// what the measurement noticed: drift, several modes, extra rounds
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How one of two programs ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRuns {
    /// which one
    pub program: Side,
    /// peak resident memory of a process, the median of its processes; unit `bytes`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<Evidence>,
    /// the ways it ran, fastest first
    #[serde(default)]
    pub modes: Vec<RunMode>,
    /// median of the last blocks over that of the first ones, when there is a trend to tell
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<f64>,
    /// runs that a process needed to warm up, the median of its processes
    #[serde(default)]
    pub warmup_runs: f64,
}

/// A way in which a program ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunMode {
    /// median of its samples, milliseconds
    pub median_ms: f64,
    /// part of all samples, from 0 to 1
    pub share: f64,
}

/// Which of two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// the first
    Before,
    /// the second
    After,
}

/// Samples of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// which program it ran
    pub program: Side,
    /// which round of blocks it is of, from 0
    #[serde(default)]
    pub round: u32,
    /// runs before the measured ones, milliseconds, in order
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warmup_ms: Vec<f64>,
    /// one entry a run, milliseconds, in order
    pub samples_ms: Vec<f64>,
}

/// A site that a rule left alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Declined {
    /// round of the repair loop, from 1
    pub round: u32,
    /// who
    pub rule: RuleRef,
    /// where
    pub site: Site,
    /// stable reason code of the rule
    pub code: String,
    /// in the rule's words
    pub message: String,
}

/// A piece of the graph before and after a repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagram {
    /// which site, e.g. the anchor's name
    pub title: String,
    /// how many sites look like this
    pub sites: u64,
    /// old nodes
    pub before: Subgraph,
    /// new nodes
    pub after: Subgraph,
}

/// Nodes and edges to draw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subgraph {
    /// in execution order
    pub nodes: Vec<DiagramNode>,
    /// between those nodes, by `id`
    pub edges: Vec<DiagramEdge>,
}

/// A box of a diagram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagramNode {
    /// unique within the subgraph
    pub id: String,
    /// op, e.g. `aten.softmax.int`; a value's name for inputs and outputs
    pub op: String,
    /// arguments worth seeing, e.g. `dim=1`
    #[serde(default)]
    pub arguments: String,
    /// output type and sizes, e.g. `float32 1×21×256×256`
    #[serde(default)]
    pub shape: String,
    /// what it is in the picture
    pub role: NodeRole,
    /// where it runs, when known
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// a value that comes in from outside the picture
    Input,
    /// a node that stays
    Kept,
    /// a node that goes
    Removed,
    /// a node that is new
    Added,
    /// a constant that is new
    Constant,
    /// where the result goes
    Output,
}

/// Where a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// inside the XNNPACK delegate
    Delegated,
    /// outside it, on a portable kernel
    Fallback,
}

/// An arrow of a diagram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagramEdge {
    /// `id` of a node
    pub from: String,
    /// `id` of a node
    pub to: String,
}
