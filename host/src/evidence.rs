//! Numbers that carry where they came from.
//!
//! A figure that a user sees is [`Measured`] on a target or [`Projected`] from something; there is no
//! way to print one without its label.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A closed interval with the confidence it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// lower end
    pub low: f64,
    /// upper end
    pub high: f64,
    /// coverage aimed at, e.g. 0.99
    pub confidence: f64,
}

/// What a target is, as far as a number's meaning depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetLabel {
    /// `local`, `qemu`, `adb`, `ssh`
    pub kind: String,
    /// what a person calls it, e.g. `this host (x86-64, not Arm)`
    pub name: String,
    /// `x86_64`, `aarch64`
    pub architecture: String,
    /// a physical Arm CPU: only then is a latency evidence for Arm
    pub physical_arm: bool,
}

/// A measured figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// the figure
    pub value: f64,
    /// unit: `ms`, `share`, `ratio`, `bytes`
    pub unit: String,
    /// where
    pub target: TargetLabel,
    /// how many samples are behind it
    pub samples: u64,
    /// uncertainty, where more than one sample allows one
    pub interval: Option<Interval>,
}

/// A figure computed from something else than a run of the thing itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Projected {
    /// lowest and highest value the basis allows
    pub low: f64,
    /// see `low`
    pub high: f64,
    /// unit, as in [`Measured`]
    pub unit: String,
    /// what it was computed from
    pub basis: String,
}

/// A labelled number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "evidence", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Evidence {
    /// from a run on a target
    Measured(Measured),
    /// from arithmetic
    Projected(Projected),
}
