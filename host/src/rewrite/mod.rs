//! From a rule's verdicts to a patch that the host believes.
//!
//! In: a program, a loaded rule. Out: [`Proposals`]: the checked rewrites of all its sites as one
//! [`Draft`], what the rule declined and why, what the host refused and why, what failed. A draft becomes
//! a [`Patch`](crate::graph::Patch) once its folded values are evaluated ([`Draft::finish`]).
//!
//! Nothing that a rule says is taken on trust: ids are of the site, references point backwards
//! ([`check()`]), operators and arguments fit their schemas, sizes, element types and strides follow from
//! the host's own shape rules, sites that touch each other wait for the next round ([`combine()`]), and what
//! the program mutates, shares and returns stays as it was (`storage`). Whether the numbers are right is
//! for the gates.

mod check;
mod combine;
mod fold;
mod metadata;
mod storage;

#[cfg(test)]
mod tests;

use rustc_hash::FxHashSet;

use crate::graph::{NodeId, PatchError, Program, TensorMeta, ValueId};
use crate::matching::{Index, LeftOut, Match};
use crate::sandbox::contract::{Manifest, Numerics, Reason, Rewrite, Site, Verdict};
use crate::sandbox::{self, Examined};

pub use crate::graph::patch::{Operand, ValueRef};
pub use check::check;
pub use combine::{Combined, Draft, combine};
pub use fold::{Evaluator, FoldError, FoldNode, FoldOperand, FoldRequest, FoldValue, ReferenceEvaluator};

/// A rewrite that the host will not make.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The rewrite that {rule} proposes at `{node_name}` is refused: {reason}")]
pub struct Refusal {
    /// who proposed it: `dd-001@1.2.0`
    pub rule: String,
    /// the anchor
    pub node: NodeId,
    /// the anchor's name
    pub node_name: String,
    /// stable code: `unknown-op`, `arguments`, `metadata`, `order`, `storage`, …
    pub code: &'static str,
    /// which edit and why
    pub reason: String,
}

/// A rewrite of one site that holds on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// the anchor
    pub anchor: NodeId,
    /// the claim about numbers
    pub numerics: Numerics,
    /// the rule's words
    pub why: Reason,
    /// the rule: `dd-001@1.2.0`
    pub origin: String,
    pub(crate) steps: Vec<Step>,
}

/// An edit in the graph's ids; created values are counted over the proposal's inserts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Insert { op: String, inputs: Vec<(String, Operand)>, outputs: Vec<TensorMeta> },
    ReplaceAllUses { value: ValueId, by: ValueRef },
    SetInput { node: NodeId, input: String, operand: Operand },
    Delete { node: NodeId },
    Fold { value: ValueRef, meta: TensorMeta },
}

impl Proposal {
    /// Values of the graph that the new form reads.
    pub(crate) fn reads(&self) -> FxHashSet<ValueId> {
        let mut reads = FxHashSet::default();
        for step in &self.steps {
            match step {
                Step::Insert { inputs, .. } => {
                    inputs.iter().for_each(|(_, operand)| existing(operand, &mut reads));
                }
                Step::SetInput { operand, .. } => existing(operand, &mut reads),
                Step::ReplaceAllUses { by: ValueRef::Existing(value), .. } => {
                    reads.insert(*value);
                }
                Step::Fold { value: ValueRef::Existing(value), .. } => {
                    reads.insert(*value);
                }
                Step::ReplaceAllUses { .. } | Step::Fold { .. } | Step::Delete { .. } => {}
            }
        }
        reads
    }

    /// Values of the graph that the new form takes the place of.
    pub fn replaces(&self) -> Vec<ValueId> {
        let value = |step: &Step| match step {
            Step::ReplaceAllUses { value, .. } | Step::Fold { value: ValueRef::Existing(value), .. } => Some(*value),
            _ => None,
        };
        self.steps.iter().filter_map(value).collect()
    }

    /// Nodes that the rewrite removes or changes, the anchor among them.
    pub(crate) fn changes(&self) -> FxHashSet<NodeId> {
        let node = |step: &Step| match step {
            Step::Delete { node } | Step::SetInput { node, .. } => Some(*node),
            _ => None,
        };
        std::iter::once(self.anchor).chain(self.steps.iter().filter_map(node)).collect()
    }
}

fn existing(operand: &Operand, into: &mut FxHashSet<ValueId>) {
    for value in operand_refs(operand) {
        if let ValueRef::Existing(value) = value {
            into.insert(value);
        }
    }
}

/// Every value that an operand mentions.
pub(crate) fn operand_refs(operand: &Operand) -> Vec<ValueRef> {
    match operand {
        Operand::Literal(_) => Vec::new(),
        Operand::Value(value) => vec![*value],
        Operand::Values(values) => values.clone(),
        Operand::OptionalValues(values) => values.iter().flatten().copied().collect(),
    }
}

/// A site that the rule has nothing to offer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    /// the anchor
    pub node: NodeId,
    /// the rule's words
    pub reason: Reason,
}

/// Everything that came of asking one rule about one graph.
#[derive(Debug, Default, PartialEq)]
pub struct Proposals {
    /// the rewrites that go together
    pub draft: Draft,
    /// anchors whose rewrite has to wait for the next round, because it touches another one's
    pub postponed: Vec<NodeId>,
    /// where the rule declined
    pub declined: Vec<Declined>,
    /// where the host refused
    pub refused: Vec<Refusal>,
    /// where the rule failed
    pub failed: Vec<(NodeId, sandbox::Error)>,
    /// nodes that match but were not shown
    pub left_out: Vec<LeftOut>,
    /// fuel that the rule used
    pub fuel: u64,
}

/// Asks a rule about every site of a program and checks what it answers. What the rule said before is not
/// asked again, and is checked again.
///
/// # Errors
/// Only when the user interrupts.
pub fn propose(program: &Program, index: &Index<'_>, rule: &sandbox::Rule) -> Result<Proposals, sandbox::Error> {
    propose_by(program, index, rule.manifest(), &rule.origin(), |sites| rule.examine(sites))
}

/// As [`propose`], with the answers for the sites, in order, from anywhere.
///
/// # Errors
/// Only when the user interrupts.
pub fn propose_by(
    program: &Program,
    index: &Index<'_>,
    manifest: &Manifest,
    origin: &str,
    ask: impl FnOnce(&[&Site]) -> Vec<Result<Examined, sandbox::Error>>,
) -> Result<Proposals, sandbox::Error> {
    let found = index.matches(manifest);
    let sites: Vec<_> = found.matches.iter().map(|one| &one.site).collect();
    let mut result = Proposals { left_out: found.left_out, ..Proposals::default() };
    let mut proposals = Vec::new();
    for (one, outcome) in found.matches.iter().zip(ask(&sites)) {
        match outcome {
            Err(error) if error.class == sandbox::Class::Interrupted => return Err(error),
            Err(error) => result.failed.push((one.anchor, error)),
            Ok(examined) => {
                result.fuel = result.fuel.saturating_add(examined.fuel);
                match examined.verdict {
                    Verdict::Decline(reason) => result.declined.push(Declined { node: one.anchor, reason }),
                    Verdict::Rewrite(rewrite) => match check(program, origin, one, &rewrite) {
                        Ok(proposal) => proposals.push(proposal),
                        Err(refusal) => result.refused.push(refusal),
                    },
                }
            }
        }
    }
    let combined = combine(program, proposals);
    result.draft = combined.draft;
    result.postponed = combined.postponed;
    result.refused.extend(combined.refused);
    Ok(result)
}

/// Checks one site's rewrite all the way, as [`propose`] does for all of them.
///
/// # Errors
/// The first thing that does not hold.
pub fn accept(program: &Program, origin: &str, one: &Match, rewrite: &Rewrite) -> Result<Draft, Refusal> {
    let proposal = check(program, origin, one, rewrite)?;
    let mut combined = combine(program, vec![proposal]);
    combined.refused.pop().map_or(Ok(combined.draft), Err)
}

/// A refusal in the words of the graph's own check.
pub(crate) fn refused_by_graph(program: &Program, proposal: &Proposal, error: &PatchError) -> Refusal {
    refuse(program, &proposal.origin, proposal.anchor, "patch", error.to_string())
}

pub(crate) fn refuse(
    program: &Program,
    rule: &str,
    node: NodeId,
    code: &'static str,
    reason: impl Into<String>,
) -> Refusal {
    let node_name = program.graph().node(node).map(|node| node.name.clone()).unwrap_or_else(|| node.to_string());
    Refusal { rule: rule.to_owned(), node, node_name, code, reason: reason.into() }
}
