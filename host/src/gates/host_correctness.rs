//! Gate 2: eager original against eager repaired.
//!
//! In: the reference (eager runs of the original on every input set) and one eager attempt of the
//! repaired program a set. Out: a verdict over all outputs, element types and sets. The same inputs must
//! be written to as before. Sets whose outputs rounding alone moves too much are not counted, unless
//! they agree anyway.

use std::time::Instant;

use super::reference::{Attempt, Reference, Yardstick};
use super::sensitivity::Sensitivity;
use super::tolerance::{Claim, Comparison, compare};
use super::{EAGER, Fact, Gate, GateReport, GateStatus};
use crate::gates::inputs::epsilon;

/// The gate's result.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCorrectness {
    /// for the report and the decision
    pub report: GateReport,
    /// every comparison that was made
    pub comparisons: Vec<Compared>,
}

/// One output on one input set.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// index of the input set
    pub set: usize,
    /// index of the output
    pub output: usize,
    /// the numbers
    pub comparison: Comparison,
    /// how it was judged
    pub yardstick: Yardstick,
    /// what it says
    pub outcome: Outcome,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// every bit agrees
    SameBits,
    /// within the allowance
    Within,
    /// beyond it
    Beyond,
    /// rounding alone explains more than could be allowed
    Uninformative,
}

impl Compared {
    pub(super) fn new(
        (set, output): (usize, usize),
        comparison: Comparison,
        yardstick: Yardstick,
        allowance: f64,
    ) -> Self {
        let discrete = comparison.is_discrete()
            && comparison.mismatch.is_none()
            && comparison.differing_share() <= yardstick.discrete_slack;
        let outcome = if comparison.same_bits {
            Outcome::SameBits
        } else if comparison.is_within(allowance, 0.0) {
            Outcome::Within
        } else if yardstick.is_ill_conditioned(comparison.dtype) && comparison.mismatch.is_none() {
            Outcome::Uninformative
        } else if comparison.is_within(allowance, yardstick.slack) || discrete {
            Outcome::Within
        } else {
            Outcome::Beyond
        };
        Self { set, output, comparison, yardstick, outcome }
    }

    /// Orders comparisons by how bad they are.
    pub(super) fn badness(&self) -> (bool, bool, f64) {
        let beyond = self.outcome == Outcome::Beyond;
        let share =
            if self.comparison.is_discrete() { self.comparison.differing_share() } else { self.comparison.relative() };
        (beyond, self.comparison.mismatch.is_some(), if share.is_nan() { f64::INFINITY } else { share })
    }
}

/// The worst of some comparisons.
pub(super) fn worst<'a>(comparisons: impl IntoIterator<Item = &'a Compared>) -> Option<&'a Compared> {
    comparisons.into_iter().max_by(|a, b| a.badness().partial_cmp(&b.badness()).unwrap_or(std::cmp::Ordering::Equal))
}

/// One fact an input set: its worst output.
pub(super) fn facts(reference: &Reference, comparisons: &[Compared], what: &str, source: &str) -> Vec<Fact> {
    let sets = reference.sets().iter().enumerate();
    sets.filter_map(|(index, set)| {
        let worst = worst(comparisons.iter().filter(|compared| compared.set == index))?;
        let name = reference.names().get(worst.output).map_or("output", String::as_str);
        let note = match worst.outcome {
            Outcome::Uninformative => "; rounding alone explains this much, so it is not counted",
            _ => "",
        };
        Some(Fact {
            name: format!("{what}, input set \"{}\", worst output `{name}`", set.name),
            value: format!("{}{note}", worst.comparison.describe()),
            source: source.to_owned(),
        })
    })
    .collect()
}

/// Exact repairs may still change which kernel eager PyTorch picks behind them, so whole outputs are
/// allowed a few rounding steps; the site itself is held to the bits by gate 1.
fn allowance(claim: Claim, comparison: &Comparison) -> f64 {
    claim.allowance(comparison.dtype).max(8.0 * epsilon(comparison.dtype))
}

/// Judges the repaired program; `repaired` has one attempt a set of the reference.
pub fn judge(reference: &Reference, repaired: &[Attempt], claim: Claim, sensitivity: &Sensitivity) -> HostCorrectness {
    let start = Instant::now();
    let mut comparisons = Vec::new();
    let mut failure = None;
    for (index, (set, original)) in reference.sets().iter().zip(reference.runs()).enumerate() {
        let run = match repaired.get(index) {
            Some(Ok(run)) => run,
            Some(Err(why)) => {
                failure.get_or_insert(format!("The repaired program does not run on \"{}\": {why}", set.name));
                continue;
            }
            None => {
                failure.get_or_insert(format!("The repaired program was not run on \"{}\"", set.name));
                continue;
            }
        };
        if let Some(why) = mutations(&original.mutated_inputs, &run.mutated_inputs) {
            failure.get_or_insert(format!("{why} (input set \"{}\")", set.name));
        }
        if run.outputs.len() != original.outputs.len() {
            failure.get_or_insert(format!(
                "The repaired program gives {} outputs instead of {}",
                run.outputs.len(),
                original.outputs.len()
            ));
            continue;
        }
        for (output, (expected, found)) in original.outputs.iter().zip(&run.outputs).enumerate() {
            let yardstick = reference.yardstick(index, output);
            let comparison = compare(expected, found, yardstick.scale);
            let allowance = allowance(claim, &comparison);
            comparisons.push(Compared::new((index, output), comparison, yardstick, allowance));
        }
    }
    let mut facts = facts(reference, &comparisons, "repaired against original", EAGER);
    facts.push(Fact {
        name: "written inputs".to_owned(),
        value: match reference.runs().first().map(|run| run.mutated_inputs.as_slice()) {
            None | Some([]) => "none, as before".to_owned(),
            Some(positions) => format!("{positions:?}"),
        },
        source: EAGER.to_owned(),
    });
    if sensitivity.is_insensitive() {
        facts.push(Fact {
            name: "what this proves".to_owned(),
            value: format!("little: {}", sensitivity.summary()),
            source: EAGER.to_owned(),
        });
    }
    let (status, summary) = verdict(reference, &comparisons, failure);
    HostCorrectness {
        report: GateReport {
            gate: Gate::HostCorrectness,
            status,
            summary,
            facts,
            seconds: start.elapsed().as_secs_f64(),
        },
        comparisons,
    }
}

/// How the inputs that a program writes to differ from those it should.
pub(super) fn mutations(expected: &[usize], found: &[usize]) -> Option<String> {
    let set = |positions: &[usize]| {
        let mut positions = positions.to_vec();
        positions.sort_unstable();
        positions.dedup();
        positions
    };
    let (expected, found) = (set(expected), set(found));
    if let Some(extra) = found.iter().find(|position| !expected.contains(position)) {
        return Some(format!("The repaired program writes into input {extra}, which the original leaves alone"));
    }
    expected
        .iter()
        .find(|position| !found.contains(position))
        .map(|missing| format!("The repaired program no longer writes into input {missing}"))
}

fn verdict(reference: &Reference, comparisons: &[Compared], failure: Option<String>) -> (GateStatus, String) {
    if let Some(failure) = failure {
        return (GateStatus::Fail, failure);
    }
    if reference.sets().is_empty() {
        return (GateStatus::Inconclusive, "There was no input to run".to_owned());
    }
    let Some(worst) = worst(comparisons) else {
        return (GateStatus::Inconclusive, "The program has no outputs to compare".to_owned());
    };
    let set = reference.sets().get(worst.set).map_or("", |set| set.name.as_str());
    let name = reference.names().get(worst.output).map_or("output", String::as_str);
    if worst.outcome == Outcome::Beyond {
        let summary = format!("Eager outputs differ: `{name}` on \"{set}\" by {}", worst.comparison.describe());
        return (GateStatus::Fail, summary);
    }
    if comparisons.iter().all(|compared| compared.outcome == Outcome::SameBits) {
        let summary = format!("Eager outputs agree bit for bit on {} input sets", reference.sets().len());
        return (GateStatus::Pass, summary);
    }
    let users = comparisons.iter().filter(|compared| compared.set == 0);
    if users.clone().any(|compared| compared.outcome == Outcome::Uninformative) {
        let summary = "Rounding alone moves the outputs for the user's inputs so much that a comparison proves nothing";
        return (GateStatus::Inconclusive, summary.to_owned());
    }
    let counted = comparisons.iter().filter(|compared| compared.outcome != Outcome::Uninformative);
    let largest = counted.map(|compared| compared.comparison.relative()).fold(0.0, f64::max);
    let summary = format!(
        "Eager outputs agree on {} input sets, largest error {largest:.1e} of the output's scale",
        reference.sets().len()
    );
    (GateStatus::Pass, summary)
}
