//! From a measured program to repairs worth trying.
//!
//! In: the base program with its ranking, the rules. Out: [`Proposals`]: for every rule one [`Candidate`]
//! with all its sites, and what rules said about the sites they left alone. A rule is asked natively
//! matched sites only; what it answers is checked by the host before it counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::gates::tolerance::Claim;
use crate::graph::{NodeId, Patch, Program};
use crate::pipeline::{Base, Error};
use crate::report::model::{RuleRef, RuleVerdict};
use crate::sandbox::Rule;
use crate::workbench::Workbench;

/// The rules of a run.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    pub(crate) rules: Vec<Rule>,
    /// rules that could not be loaded, in words
    pub(crate) failures: Vec<String>,
}

/// All sites of one rule as one patch.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) rule: RuleRef,
    /// anchors, in execution order
    pub(crate) sites: Vec<NodeId>,
    pub(crate) patch: Patch,
    /// the rule's own explanation
    pub(crate) why: String,
    pub(crate) claim: Claim,
    /// measured share of the anchors' fallbacks
    pub(crate) share: f64,
}

/// A site that a rule left alone.
#[derive(Clone, Debug)]
pub(crate) struct DeclinedSite {
    pub(crate) rule: RuleRef,
    pub(crate) node: NodeId,
    pub(crate) code: String,
    pub(crate) message: String,
}

/// What the rules say about a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proposals {
    /// the largest measured share first
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) declined: Vec<DeclinedSite>,
    /// by name of the exported node
    pub(crate) verdicts: Vec<(String, RuleVerdict)>,
    /// rules that failed, in words
    pub(crate) failures: Vec<String>,
}

/// What was tried and where the loop has been.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    tried: BTreeSet<(String, String)>,
    visited: BTreeSet<String>,
}

impl Memory {
    /// Notes a program; false when the loop has been there before.
    pub(crate) fn visit(&mut self, program: &Program) -> bool {
        self.visited.insert(program.fingerprint().to_owned())
    }
}

pub(crate) fn load_rules(_bench: &Workbench<'_>) -> Result<RuleSet, Error> {
    Ok(RuleSet::default())
}

pub(crate) fn propose(
    _bench: &Workbench<'_>,
    _rules: &RuleSet,
    _base: &Base,
    _memory: &mut Memory,
) -> Result<Proposals, Error> {
    let _: BTreeMap<String, String> = BTreeMap::new();
    Ok(Proposals::default())
}
