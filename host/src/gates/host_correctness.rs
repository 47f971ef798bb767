//! Gate 2: eager original against eager repaired.
//!
//! In: the reference (eager runs of the original on every input set) and one eager attempt of the
//! repaired program a set. Out: a verdict over all outputs, element types and sets. The same inputs must
//! be written to as before. Sets whose outputs rounding alone moves too much are not counted, unless
//! they agree anyway.

use std::time::Instant;

use super::reference::{Attempt, Reference, Yardstick};
use super::sensitivity::Sensitivity;
use super::tolerance::{Claim, Comparison};
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
        } else if comparison.is_within(allowance, yardstick.floor) {
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

    /// What a right output may be off by, relative to the scale, given its bare allowance.
    pub(super) fn allowed_share(&self, allowance: f64) -> f64 {
        let absolute = (allowance * self.comparison.scale).max(self.yardstick.floor).max(self.yardstick.slack);
        if self.comparison.scale > 0.0 { absolute / self.comparison.scale } else { allowance }
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

/// The largest errors that count, in words: on ordinary inputs, and on extreme ones where they are larger.
pub(super) fn largest(reference: &Reference, comparisons: &[Compared]) -> String {
    let over = |ordinary: bool| {
        comparisons
            .iter()
            .filter(|compared| matches!(compared.outcome, Outcome::SameBits | Outcome::Within))
            .filter(|compared| reference.sets().get(compared.set).is_some_and(|set| set.kind.is_ordinary() == ordinary))
            .map(|compared| compared.comparison.relative())
            .filter(|relative| relative.is_finite())
            .fold(0.0, f64::max)
    };
    let (ordinary, extreme) = (over(true), over(false));
    let mut text = format!("{ordinary:.1e} of the output's scale");
    if extreme > ordinary {
        text.push_str(&format!(", {extreme:.1e} on extreme inputs"));
    }
    text
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
    let mut compared =
        reference.compare_runs(|set| Some((reference.runs().get(set)?, repaired.get(set)?.as_ref().ok()?)));
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
        for output in 0..original.outputs.len() {
            let Some(comparison) = compared.remove(&(index, output)) else { continue };
            let yardstick = reference.yardstick(index, output);
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

/// Said of outputs for the user's inputs that agree because there is no number in them.
pub(super) const NOTHING_FINITE: &str =
    "The outputs for the user's inputs hold no finite number, so that they agree proves nothing";

/// True when no output for the user's inputs has a finite element.
pub(super) fn nothing_finite(comparisons: &[Compared]) -> bool {
    let mut users = comparisons.iter().filter(|compared| compared.set == 0).peekable();
    users.peek().is_some() && users.all(|compared| compared.yardstick.nothing_finite)
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
    if nothing_finite(comparisons) {
        return (GateStatus::Inconclusive, NOTHING_FINITE.to_owned());
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
    let summary = format!(
        "Eager outputs agree on {} input sets, largest error {}",
        reference.sets().len(),
        largest(reference, comparisons)
    );
    (GateStatus::Pass, summary)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::inputs::{floats, input_sets};
    use super::super::reference::ProgramRun;
    use super::super::sensitivity::{self, probe};
    use super::*;
    use crate::graph::ScalarType;
    use crate::tensor::Tensor;

    /// A program of one input and one output, as a function of numbers.
    pub(in crate::gates) fn run(program: impl Fn(f64) -> f64, tensors: &[Tensor]) -> ProgramRun {
        let values = tensors[0].to_f64().expect("real");
        let output = floats(ScalarType::Float32, &[values.len()], |i| program(values[i]));
        ProgramRun { outputs: vec![output], mutated_inputs: Vec::new(), kernels: Vec::new() }
    }

    /// The reference of such a program.
    pub(in crate::gates) fn reference(program: impl Fn(f64) -> f64) -> Reference {
        let user = floats(ScalarType::Float32, &[64], |i| f64::from(u32::try_from(i).expect("small")) / 16.0 - 2.0);
        let inputs = input_sets(&[user], 11);
        let runs = inputs.sets.iter().map(|set| run(&program, &set.tensors)).collect();
        let probes: Vec<_> = inputs.probes.iter().map(|probe| Some(run(&program, &probe.tensors))).collect();
        Reference::new(inputs, vec!["y".to_owned()], runs, &probes).expect("runs fit the sets")
    }

    /// Attempts of another program on the reference's inputs.
    pub(in crate::gates) fn attempts(reference: &Reference, program: impl Fn(f64) -> f64) -> Vec<Attempt> {
        reference.sets().iter().map(|set| Ok(run(&program, &set.tensors))).collect()
    }

    fn judged(original: fn(f64) -> f64, repaired: fn(f64) -> f64, claim: Claim) -> GateReport {
        let reference = reference(original);
        judge(&reference, &attempts(&reference, repaired), claim, &probe(&reference)).report
    }

    #[test]
    fn the_same_bits_pass_and_say_so() {
        let report = judged(|x| x * 2.0, |x| x * 2.0, Claim::Exact);
        assert_eq!(report.status, GateStatus::Pass);
        assert!(report.summary.contains("bit for bit on 7 input sets"), "{}", report.summary);
    }

    #[test]
    fn an_error_within_the_claim_passes_and_one_beyond_it_fails() {
        let claim = Claim::Tolerant { relative: 1e-5 };
        assert_eq!(judged(|x| x * 2.0, |x| x * 2.000_004, claim).status, GateStatus::Pass);
        let report = judged(|x| x * 2.0, |x| x * 2.000_2, claim);
        assert_eq!(report.status, GateStatus::Fail);
        assert!(report.summary.starts_with("Eager outputs differ: `y` on"), "{}", report.summary);
    }

    #[test]
    fn a_repair_that_is_wrong_for_some_inputs_only_is_found() {
        for wrong in [
            (|x: f64| if x < -1.9 { 0.0 } else { x }) as fn(f64) -> f64,
            |x| if x > 500.0 { 0.0 } else { x },
            |x| if x == 0.0 { 1.0 } else { x },
        ] {
            assert_eq!(judged(|x| x, wrong, Claim::Tolerant { relative: 1e-4 }).status, GateStatus::Fail);
        }
    }

    #[test]
    fn an_input_that_is_written_to_is_found_although_the_outputs_agree() {
        let reference = reference(|x| x);
        let mut repaired = attempts(&reference, |x| x);
        if let Some(Ok(run)) = repaired.last_mut() {
            run.mutated_inputs.push(0);
        }
        let report = judge(&reference, &repaired, Claim::Exact, &probe(&reference)).report;
        assert_eq!(report.status, GateStatus::Fail);
        assert!(report.summary.contains("writes into input 0"), "{}", report.summary);
    }

    #[test]
    fn a_program_that_does_not_run_or_has_other_outputs_fails() {
        let reference = reference(|x| x);
        let mut repaired = attempts(&reference, |x| x);
        repaired[2] = Err("it raised".to_owned());
        let report = judge(&reference, &repaired, Claim::Exact, &probe(&reference)).report;
        assert!(report.status == GateStatus::Fail && report.summary.contains("it raised"), "{report:?}");
        let mut repaired = attempts(&reference, |x| x);
        if let Some(Ok(run)) = repaired.first_mut() {
            run.outputs.clear();
        }
        assert_eq!(judge(&reference, &repaired, Claim::Exact, &probe(&reference)).report.status, GateStatus::Fail);
        assert_eq!(judge(&reference, &[], Claim::Exact, &probe(&reference)).report.status, GateStatus::Fail);
    }

    #[test]
    fn outputs_that_rounding_alone_scatters_prove_nothing() {
        // The last digits of the input decide.
        let chaotic: fn(f64) -> f64 = |x| (x * 1e7).sin();
        let other: fn(f64) -> f64 = |x| (x * 1e7 + 1.0).sin();
        assert_eq!(judged(chaotic, other, Claim::Tolerant { relative: 1e-4 }).status, GateStatus::Inconclusive);
    }

    #[test]
    fn an_output_without_spread_may_differ_by_rounding() {
        let constant: fn(f64) -> f64 = |_| 0.517;
        let claim = Claim::Tolerant { relative: 1e-5 };
        assert_eq!(judged(constant, |_| 0.517_000_1, claim).status, GateStatus::Pass);
        assert_eq!(judged(constant, |_| 0.517_1, claim).status, GateStatus::Fail);
    }

    #[test]
    fn an_insensitive_program_passes_with_a_warning() {
        let reference = reference(|_| 1.0);
        let sensitivity = probe(&reference);
        assert_eq!(sensitivity.verdict, sensitivity::Verdict::Insensitive);
        let report = judge(&reference, &attempts(&reference, |_| 1.0), Claim::Exact, &sensitivity).report;
        assert_eq!(report.status, GateStatus::Pass);
        assert!(report.facts.iter().any(|fact| fact.name == "what this proves"), "{report:?}");
    }

    #[test]
    fn no_run_is_too_odd_to_judge() {
        let empty = Reference::default();
        assert_eq!(judge(&empty, &[], Claim::Exact, &probe(&empty)).report.status, GateStatus::Inconclusive);
        assert_eq!(judged(|_| f64::NAN, |_| f64::NAN, Claim::Exact).status, GateStatus::Inconclusive);
        assert_eq!(judged(|_| f64::NAN, |_| 0.0, Claim::Exact).status, GateStatus::Fail);
        assert_eq!(judged(|_| 0.0, |_| f64::INFINITY, Claim::Exact).status, GateStatus::Fail);
    }
}
