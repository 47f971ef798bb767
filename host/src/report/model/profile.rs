//! Where a program spends its time, as the report keeps it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RuleRef;
use crate::evidence::Evidence;
use crate::torch::protocol::{Reason, SourceLine};

/// A profiled program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// delegated time over delegated plus fallback time; unit `share`
    pub delegation: Evidence,
    /// median time of the method without a tracer; unit `ms`
    pub method_time: Evidence,
    /// delegate calls
    pub partitions: u64,
    /// instructions outside the delegate
    pub fallbacks: u64,
    /// graph nodes inside the delegate
    #[serde(default)]
    pub delegated_nodes: u64,
    /// whether the trace accounts for the method's own time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_check: Option<CrossCheck>,
    /// size of the `.pte`
    pub program_bytes: u64,
    /// peak resident memory of the runner process; unit `bytes`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<Evidence>,
    /// kernels outside the delegate, the costliest first
    #[serde(default)]
    pub hotspots: Vec<Hotspot>,
}

/// The trace against the method's own clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrossCheck {
    /// within tolerance
    pub agrees: bool,
    /// both figures and what they mean, one sentence
    pub note: String,
}

/// A kernel outside the delegate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hotspot {
    /// kernel name as in the `.pte`: `aten::_softmax.out`
    pub kernel: String,
    /// of delegated plus fallback time; unit `share`
    pub share: Evidence,
    /// time per run; unit `ms`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Evidence>,
    /// calls in one run
    pub calls: u64,
    /// the nodes behind the calls, the costliest first
    #[serde(default)]
    pub nodes: Vec<HotspotNode>,
}

/// A node that stayed outside the delegate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HotspotNode {
    /// name in the exported program, or the lowered one's name where the origin is unknown
    pub node: String,
    /// the lowered op: `aten._softmax.default`
    pub op: String,
    /// output type and sizes, e.g. `float32 1×21×256×256`; empty when unknown
    #[serde(default)]
    pub shape: String,
    /// of delegated plus fallback time; unit `share`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Evidence>,
    /// the user's line
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLine>,
    /// module names down to the node, e.g. `decoder.blocks.0`; empty when unknown
    #[serde(default)]
    pub module_path: String,
    /// why it is outside
    pub reason: Reason,
    /// what each rule that looked at it said
    #[serde(default)]
    pub rules: Vec<RuleVerdict>,
}

/// What a rule said about a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleVerdict {
    /// who
    pub rule: RuleRef,
    /// what
    pub outcome: RuleOutcome,
    /// stable reason code; empty with a match
    #[serde(default)]
    pub code: String,
    /// in the rule's or the host's words
    #[serde(default)]
    pub message: String,
}

/// The kinds of answer a rule's examination can end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RuleOutcome {
    /// it offered a rewrite
    Matched,
    /// it looked and left the node alone
    Declined,
    /// it offered a rewrite that the host refused
    Refused,
    /// it was stopped or answered nonsense
    Failed,
}
