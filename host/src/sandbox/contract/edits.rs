//! Interface `edits`: what a rule answers.

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::graph::{Literal, TensorMeta, UseSite};

/// An output of a node that the same rewrite inserts.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct CreatedRef {
    /// position among the inserts
    pub insertion: u32,
    /// which output
    pub output: u32,
}

/// A value of the site, or one that the rewrite makes.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum ValueRef {
    /// of the site
    #[component(name = "existing")]
    Existing(u32),
    /// made by the rewrite
    #[component(name = "created")]
    Created(CreatedRef),
}

/// An argument of a new or changed node.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Operand {
    /// no value in it
    #[component(name = "literal")]
    Literal(Literal),
    /// one value
    #[component(name = "value")]
    Value(ValueRef),
    /// a list of values
    #[component(name = "values")]
    Values(Vec<ValueRef>),
    /// a list with holes
    #[component(name = "optional-values")]
    OptionalValues(Vec<Option<ValueRef>>),
}

/// A named argument of a new node.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct NamedOperand {
    /// the schema's name
    pub name: String,
    /// the argument
    pub operand: Operand,
}

/// A node to insert.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct NewNode {
    /// full overload name
    pub op: String,
    /// by name; the rest takes the schema's defaults
    pub inputs: Vec<NamedOperand>,
    /// what the rule believes about the outputs; empty: nothing
    pub expect: Vec<TensorMeta>,
}

/// Every use of a value becomes a use of another.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Replacement {
    /// the old value
    pub value: u32,
    /// the new one
    pub by: ValueRef,
}

/// One use of a value becomes a use of another.
#[derive(ComponentType, Lift, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct UseReplacement {
    /// which use
    #[component(name = "use-site")]
    pub use_site: UseSite,
    /// the new value
    pub by: ValueRef,
}

/// One argument becomes something else.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct InputChange {
    /// the node
    pub node: u32,
    /// argument name
    pub input: String,
    /// new argument
    pub operand: Operand,
}

/// One edit.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Edit {
    /// a new node before the anchor
    #[component(name = "insert")]
    Insert(NewNode),
    /// all uses
    #[component(name = "replace-all-uses")]
    ReplaceAllUses(Replacement),
    /// one use
    #[component(name = "replace-use")]
    ReplaceUse(UseReplacement),
    /// one argument
    #[component(name = "set-input")]
    SetInput(InputChange),
    /// remove an unused node
    #[component(name = "delete")]
    Delete(u32),
    /// compute a constant value once and store it
    #[component(name = "fold")]
    Fold(ValueRef),
}

/// `atol + rtol * scale of the output`.
#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Tolerance {
    /// relative to the scale of the output
    pub rtol: f64,
    /// absolute
    pub atol: f64,
}

/// What a rewrite does to the numbers.
#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Numerics {
    /// the same bits
    #[component(name = "exact")]
    Exact,
    /// the same up to rounding
    #[component(name = "tolerant")]
    Tolerant(Tolerance),
    /// as tolerant where the original is computed as written; repairs a wrong lowering
    #[component(name = "corrective")]
    Corrective(Tolerance),
}

/// Why, as a code and a sentence.
#[derive(ComponentType, Lift, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Reason {
    /// one of the manifest's codes
    pub code: String,
    /// with the facts of the site
    pub message: String,
}

/// What a rule proposes.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(record)]
pub struct Rewrite {
    /// in order, all or none
    pub edits: Vec<Edit>,
    /// the claim
    pub numerics: Numerics,
    /// why the new form is better
    pub why: Reason,
    /// further remarks
    pub hints: Vec<(String, String)>,
}

/// A rule's answer for one site.
#[derive(ComponentType, Lift, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[component(variant)]
pub enum Verdict {
    /// nothing to offer, and why
    #[component(name = "decline")]
    Decline(Reason),
    /// edits
    #[component(name = "rewrite")]
    Rewrite(Rewrite),
}
