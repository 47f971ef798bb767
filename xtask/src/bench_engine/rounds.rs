//! The work that is measured: one round of asking every rule about a program and applying what they propose.

use delegate_doctor::graph::Program;
use delegate_doctor::matching::{Facts, Index};
use delegate_doctor::rewrite::{self, Proposals, ReferenceEvaluator};
use delegate_doctor::sandbox::Rule;
use delegate_doctor::sandbox::contract::Site;
use rule_sdk::contract;

/// The same rules as the components, built for this machine.
const NATIVE: [(&str, NativeRule); 3] = [
    ("dd-001", rule_sdk::examine::<dd_001_softmax_layout::SoftmaxLayout>),
    ("dd-002", rule_sdk::examine::<dd_002_redundant_ops::RedundantOps>),
    ("dd-003", rule_sdk::examine::<dd_003_avg_pool_window::AvgPoolWindow>),
];

pub(super) type NativeRule = fn(&contract::Site) -> Result<contract::Verdict, String>;

/// The native twin of a component.
pub(super) fn native(id: &str) -> Option<NativeRule> {
    NATIVE.iter().find(|(name, _)| *name == id).map(|(_, rule)| *rule)
}

/// What came of a round.
pub(super) struct Round {
    /// places that rules were asked about
    pub(super) sites: usize,
    /// places that are rewritten
    pub(super) rewrites: usize,
}

/// Matching, asking and rewriting with all rules, as a round of `optimize` does it: all rules are asked about
/// the same program, and what they propose is applied on top of each other where it goes together.
pub(super) fn round(program: &Program, rules: &[Rule]) -> Result<Round, String> {
    let facts = Facts::default();
    let index = Index::new(program, &facts);
    let mut result = Round { sites: 0, rewrites: 0 };
    let mut current = program.clone();
    for rule in rules {
        let found = propose(program, &index, rule)?;
        result.sites += found.declined.len() + found.draft.proposals.len();
        result.rewrites += found.draft.proposals.len();
        if found.draft.is_empty() {
            continue;
        }
        // The first repair was applied when it was seen that it holds together.
        if let Some(applied) = found.draft.applied_to(&current) {
            current = applied.program.clone();
            continue;
        }
        let patch =
            found.draft.finish(program, &mut ReferenceEvaluator::default()).map_err(|error| error.to_string())?;
        // What does not apply on top of the other rules' repairs is tried by itself.
        current = match current.apply(&patch) {
            Ok(applied) => applied.program,
            Err(_) => program.apply(&patch).map_err(|error| error.to_string())?.program,
        };
    }
    std::hint::black_box(current);
    Ok(result)
}

/// The sites of a rule in a program.
pub(super) fn sites(program: &Program, rule: &Rule) -> Vec<Site> {
    let facts = Facts::default();
    let found = Index::new(program, &facts).matches(rule.manifest());
    found.matches.iter().map(|one| one.site.clone()).collect()
}

fn propose(program: &Program, index: &Index<'_>, rule: &Rule) -> Result<Proposals, String> {
    let found = rewrite::propose(program, index, rule).map_err(|error| error.to_string())?;
    match (found.refused.first(), found.failed.first()) {
        (Some(refusal), _) => Err(refusal.to_string()),
        (_, Some((_, error))) => Err(error.to_string()),
        (None, None) => Ok(found),
    }
}
