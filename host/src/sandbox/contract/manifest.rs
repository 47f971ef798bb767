//! Interface `rule`: what a rule says it is.

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift};

use super::edits::Numerics;

/// An argument of the anchor must be returned by one of these ops.
#[derive(ComponentType, Lift, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct ProducerConstraint {
    /// argument name
    pub input: String,
    /// full overload names
    pub ops: Vec<String>,
}

/// What a rule wants to see.
#[derive(ComponentType, Lift, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Anchor {
    /// full overload names
    pub ops: Vec<String>,
    /// constraints on the anchor's arguments
    pub producers: Vec<ProducerConstraint>,
    /// producers of producers to show
    #[component(name = "producer-depth")]
    pub producer_depth: u8,
    /// consumers of consumers to show
    #[component(name = "consumer-depth")]
    pub consumer_depth: u8,
    /// only nodes that run outside the delegate
    #[component(name = "only-outside-delegate")]
    pub only_outside_delegate: bool,
}

/// A reason code with its meaning.
#[derive(ComponentType, Lift, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct ReasonCode {
    /// the code
    pub code: String,
    /// what it means
    pub summary: String,
}

/// Whether a rule is on by default.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
pub enum Stability {
    /// off unless asked for
    #[component(name = "preview")]
    Preview,
    /// on
    #[component(name = "stable")]
    Stable,
}

/// What a rule says it is.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Manifest {
    /// e.g. `dd-001`
    pub id: String,
    /// semantic version
    pub version: String,
    /// a few words
    pub title: String,
    /// a sentence or two
    pub summary: String,
    /// preview or stable
    pub stability: Stability,
    /// the weakest claim of any rewrite
    pub numerics: Numerics,
    /// backends it is for; empty: any
    pub backends: Vec<String>,
    /// what it wants to see
    pub anchors: Vec<Anchor>,
    /// every code it can give
    pub codes: Vec<ReasonCode>,
    /// further remarks
    pub hints: Vec<(String, String)>,
}
