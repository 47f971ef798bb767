//! The gates, in order of cost. A repair is kept only if it passes every one.
//!
//! One file a gate. Each is a function from programs and inputs to a [`GateReport`]; none knows what
//! the decision will be.
//!
//! | file | holds |
//! |---|---|
//! | `inputs.rs` | the input sets: the user's own, then seeded variations |
//! | `tolerance.rs` | comparing tensors by the scale of what they hold; what a rule may claim |
//! | `reference.rs` | the original in eager PyTorch, with scale and rounding slack of every output |
//! | `slices.rs` | parts of an output that spread far less than the whole |
//! | `sensitivity.rs` | whether outputs react to inputs at all |
//! | `structure.rs` | gate 0 |
//! | `site_equivalence.rs` | gate 1, with `sites.rs` (what changed) and `stimuli.rs` (what to feed it) |
//! | `host_correctness.rs` | gate 2 |
//! | `device_correctness.rs` | gate 3 |
//! | `backend_fidelity.rs` | gate 4, and whether the original itself is right |

pub mod backend_fidelity;
pub mod device_correctness;
pub mod host_correctness;
pub mod inputs;
pub mod other_sizes;
pub mod reference;
pub mod sensitivity;
pub mod site_equivalence;
pub mod sites;
pub mod slices;
pub mod stimuli;
pub mod structure;
pub mod tolerance;

pub mod benchmark;
pub mod statistics;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Source of facts from eager runs.
pub(crate) const EAGER: &str = "this host, eager PyTorch";

/// The gates in the order they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// 0: host checks and fake-tensor propagation agree
    Structure,
    /// 1: old and new subgraph on many inputs
    SiteEquivalence,
    /// 2: eager original against eager repaired
    HostCorrectness,
    /// 3: original `.pte` against repaired `.pte` on the target
    DeviceCorrectness,
    /// 4: each `.pte` on the target against eager
    BackendFidelity,
    /// 5: interval of the speed ratio
    Benchmark,
}

impl Gate {
    /// Every gate, in the order they run.
    pub const ALL: [Self; 6] = [
        Self::Structure,
        Self::SiteEquivalence,
        Self::HostCorrectness,
        Self::DeviceCorrectness,
        Self::BackendFidelity,
        Self::Benchmark,
    ];
}

/// What a gate found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GateStatus {
    /// proven as far as the gate goes
    Pass,
    /// disproven
    Fail,
    /// neither
    Inconclusive,
    /// an earlier gate ended the trial
    NotRun,
}

/// A gate's result with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    /// which gate
    pub gate: Gate,
    /// verdict
    pub status: GateStatus,
    /// one line a person can act on
    pub summary: String,
    /// the numbers behind it
    pub facts: Vec<Fact>,
    /// wall time spent, seconds
    pub seconds: f64,
}

/// One named piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// e.g. `largest error, output 0, input set "tiny magnitudes"`
    pub name: String,
    /// as shown
    pub value: String,
    /// where it was made: `this host, reference interpreter`, `this host, eager PyTorch`, a target's name
    pub source: String,
}
