//! Gate 4: what a lowered program computes on the target against eager PyTorch.
//!
//! In: the reference and the runs of a `.pte` on the target. Out: [`Fidelity`], for the original and for
//! a repaired program alike. A right program differs from eager by rounding: within [`allowance`] of the
//! output's scale, or within what rounding-sized changes of the inputs do to the eager outputs. An
//! original that differs by more is [`OriginalIsWrong`], a finding of its own.
//!
//! How gates 3 and 4 share the work, for every output of every input set:
//!
//! | original `.pte` | repaired `.pte` | they agree | gate 3 | gate 4 |
//! |---|---|---|---|---|
//! | right | right | yes | holds | holds |
//! | right | right | no (beyond twice the allowance) | fails | holds |
//! | right | wrong | | fails | fails |
//! | wrong | right | | expected: a correction | holds |
//! | wrong | wrong | yes | holds | holds, noted: as wrong as the original |
//! | wrong | wrong | no | fails | fails when worse than the original |
//!
//! A corrective claim must turn at least one wrong output right and leave none wrong. Comparisons that
//! rounding alone explains, or for which eager itself is not finite (outside of the user's own inputs),
//! are not counted.

use std::time::Instant;

use super::host_correctness::{Compared, Outcome, facts, worst};
use super::inputs::InputKind;
use super::reference::{Attempt, ProgramRun, Reference};
use super::tolerance::{Claim, Comparison, Mismatch, compare};
use super::{Fact, Gate, GateReport, GateStatus};
use crate::evidence::TargetLabel;
use crate::graph::ScalarType;

/// Largest error of a right program, relative to the output's scale, when rounding-sized changes of the
/// inputs do not explain more.
///
/// In single precision right programs on XNNPACK stay below 6e-6 (long accumulations included) where
/// those changes explain nothing, and the smallest known wrong lowering (GELU's tanh form computed with
/// erf) is at 9e-5. With nothing but biases left (zeros, tiny magnitudes) normalisation layers blow
/// rounding up to 3e-5.
pub fn allowance(dtype: ScalarType, kind: InputKind) -> f64 {
    let faint = matches!(kind, InputKind::Zeros | InputKind::Tiny);
    match dtype {
        ScalarType::Float16 => 1e-2,
        ScalarType::BFloat16 => 6e-2,
        ScalarType::Float64 => 1e-9,
        _ if faint => 1e-4,
        _ => 3e-5,
    }
}

/// Share of discrete elements (classes, masks) that may differ when no rounding probe says otherwise.
const DISCRETE_SHARE: f64 = 1e-3;

/// A repaired output may use the rounding slack only up to this many times the original's error.
const WORSE: f64 = 10.0;

/// A wrong output may stay wrong, but not become more wrong than this.
const AS_WRONG: f64 = 1.1;

/// A program on the target against eager.
#[derive(Clone, Debug)]
pub struct Fidelity {
    /// where it ran
    pub target: TargetLabel,
    /// one attempt a set, as handed in
    pub attempts: Vec<Attempt>,
    /// every comparison
    pub comparisons: Vec<Compared>,
    /// input sets that did not run, with the reason
    pub failures: Vec<(usize, String)>,
    /// wall time of the comparison
    pub seconds: f64,
}

/// An output that the lowered original computes wrongly.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginalIsWrong {
    /// name of the output
    pub output: String,
    /// name of the input set with the largest error
    pub input_set: String,
    /// input sets on which the output is wrong, and how many were compared
    pub sets: (usize, usize),
    /// largest absolute error there; infinite when elements are not finite on one side only
    pub error: f64,
    /// scale of the output
    pub scale: f64,
    /// error divided by the scale; for discrete outputs the share of elements that differ
    pub relative: f64,
    /// what a right program would be allowed, relative to the scale
    pub allowed: f64,
    /// one line with the place and both values
    pub detail: String,
}

impl Fidelity {
    /// The comparison of one output on one set.
    pub fn comparison(&self, set: usize, output: usize) -> Option<&Compared> {
        self.comparisons.iter().find(|compared| compared.set == set && compared.output == output)
    }

    /// True when the output is wrong on the set.
    pub fn is_wrong(&self, set: usize, output: usize) -> bool {
        self.comparison(set, output).is_some_and(|compared| compared.outcome == Outcome::Beyond)
    }

    /// The run on a set.
    pub fn run(&self, set: usize) -> Option<&ProgramRun> {
        self.attempts.get(set)?.as_ref().ok()
    }

    /// The findings about a lowered original: one an output that is wrong on any set.
    pub fn findings(&self, reference: &Reference) -> Vec<OriginalIsWrong> {
        let outputs = reference.names().iter().enumerate();
        outputs
            .filter_map(|(output, name)| {
                let all = self.comparisons.iter().filter(|compared| compared.output == output);
                let wrong: Vec<&Compared> =
                    all.clone().filter(|compared| compared.outcome == Outcome::Beyond).collect();
                let worst = worst(wrong.iter().copied())?;
                let comparison = &worst.comparison;
                let (error, relative) = match (&comparison.mismatch, comparison.is_discrete()) {
                    (Some(_), _) => (f64::INFINITY, f64::INFINITY),
                    (None, true) => (comparison.error, comparison.differing_share()),
                    (None, false) => (comparison.error, comparison.relative()),
                };
                Some(OriginalIsWrong {
                    output: name.clone(),
                    input_set: reference.sets().get(worst.set).map(|set| set.name.clone()).unwrap_or_default(),
                    sets: (wrong.len(), all.count()),
                    error,
                    scale: comparison.scale,
                    relative,
                    allowed: allowance(comparison.dtype, kind_of(reference, worst.set)),
                    detail: comparison.describe(),
                })
            })
            .collect()
    }

    /// The comparison as evidence: one fact an input set.
    pub fn facts(&self, reference: &Reference, what: &str) -> Vec<Fact> {
        let mut facts = facts(reference, &self.comparisons, what, &self.target.name);
        for (set, why) in &self.failures {
            let name = reference.sets().get(*set).map_or("", |set| set.name.as_str());
            facts.push(Fact {
                name: format!("{what}, input set \"{name}\""),
                value: format!("did not run: {why}"),
                source: self.target.name.clone(),
            });
        }
        facts
    }
}

fn kind_of(reference: &Reference, set: usize) -> InputKind {
    reference.sets().get(set).map_or(InputKind::User, |set| set.kind)
}

/// Compares the runs of a lowered program with the reference; one attempt a set.
pub fn measure(reference: &Reference, target: &TargetLabel, attempts: Vec<Attempt>) -> Fidelity {
    let start = Instant::now();
    let mut comparisons = Vec::new();
    let mut failures = Vec::new();
    for (index, (set, eager)) in reference.sets().iter().zip(reference.runs()).enumerate() {
        let run = match attempts.get(index) {
            Some(Ok(run)) if run.outputs.len() == eager.outputs.len() => run,
            Some(Ok(run)) => {
                let why = format!("it gives {} outputs instead of {}", run.outputs.len(), eager.outputs.len());
                failures.push((index, why));
                continue;
            }
            Some(Err(why)) => {
                failures.push((index, why.clone()));
                continue;
            }
            None => continue,
        };
        for (output, (expected, found)) in eager.outputs.iter().zip(&run.outputs).enumerate() {
            let mut yardstick = reference.yardstick(index, output);
            yardstick.discrete_slack = yardstick.discrete_slack.max(DISCRETE_SHARE);
            let comparison = compare(expected, found, yardstick.scale);
            let allowance = allowance(comparison.dtype, set.kind);
            let mut compared = Compared::new((index, output), comparison, yardstick, allowance);
            if says_nothing(set.kind, &compared) {
                compared.outcome = Outcome::Uninformative;
            }
            comparisons.push(compared);
        }
    }
    Fidelity { target: target.clone(), attempts, comparisons, failures, seconds: start.elapsed().as_secs_f64() }
}

/// Elements that are not finite prove nothing where eager has such elements too, outside of the user's
/// inputs; nor do overflows of half precision under large magnitudes.
fn says_nothing(kind: InputKind, compared: &Compared) -> bool {
    let half = matches!(compared.comparison.dtype, ScalarType::Float16 | ScalarType::BFloat16);
    matches!(compared.comparison.mismatch, Some(Mismatch::NotFinite { .. }))
        && kind != InputKind::User
        && (compared.yardstick.not_finite || (half && kind == InputKind::Large))
}

/// Gate 4 of a repaired program.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendFidelity {
    /// for the report and the decision
    pub report: GateReport,
    /// outputs that the original computes wrongly and the repaired program rightly, by name
    pub corrected: Vec<String>,
    /// outputs that stay as wrong as they were, by name
    pub still_wrong: Vec<String>,
}

fn size_of_error(comparison: &Comparison) -> f64 {
    match (&comparison.mismatch, comparison.is_discrete()) {
        (Some(Mismatch::NotFinite { count, .. }), _) => {
            #[expect(clippy::cast_precision_loss, reason = "only the order matters")]
            let count = *count as f64;
            1e30 * count
        }
        (Some(_), _) => f64::INFINITY,
        (None, true) => comparison.differing_share(),
        (None, false) => comparison.relative(),
    }
}

/// Judges the repaired program by both fidelities.
pub fn judge(reference: &Reference, original: &Fidelity, repaired: &Fidelity, claim: Claim) -> BackendFidelity {
    let start = Instant::now();
    let mut corrected = Vec::new();
    let mut still_wrong = Vec::new();
    let mut problem: Option<String> = None;
    let mut counted = 0_usize;
    for (set, why) in &repaired.failures {
        if original.run(*set).is_some() {
            let name = reference.sets().get(*set).map_or("", |set| set.name.as_str());
            problem.get_or_insert(format!("The repaired program does not run on \"{name}\": {why}"));
        }
    }
    for after in &repaired.comparisons {
        let set = reference.sets().get(after.set).map_or("", |set| set.name.as_str());
        let name = reference.names().get(after.output).cloned().unwrap_or_default();
        let before = original.comparison(after.set, after.output);
        let was_wrong = before.is_some_and(|before| before.outcome == Outcome::Beyond);
        match after.outcome {
            Outcome::Uninformative => continue,
            Outcome::Beyond if !was_wrong => {
                problem.get_or_insert(format!(
                    "The repaired program is wrong on the target where the original is right: `{name}` on \"{set}\" by {}",
                    after.comparison.describe()
                ));
            }
            Outcome::Beyond => {
                let worse = before.is_none_or(|before| {
                    size_of_error(&after.comparison) > AS_WRONG * size_of_error(&before.comparison)
                });
                if worse {
                    problem.get_or_insert(format!(
                        "The repaired program is further from eager PyTorch than the original, which is wrong too: `{name}` on \"{set}\" by {}",
                        after.comparison.describe()
                    ));
                }
                push(&mut still_wrong, name);
            }
            Outcome::SameBits | Outcome::Within => {
                let beyond =
                    !after.comparison.is_within(allowance(after.comparison.dtype, kind_of(reference, after.set)), 0.0);
                let worse = before.is_some_and(|before| after.comparison.error > WORSE * before.comparison.error);
                if beyond && worse && !was_wrong && !after.comparison.is_discrete() {
                    problem.get_or_insert(format!(
                        "The repaired program is more than {WORSE} times further from eager PyTorch than the original: `{name}` on \"{set}\" by {}",
                        after.comparison.describe()
                    ));
                }
                if was_wrong {
                    push(&mut corrected, name);
                }
            }
        }
        counted += 1;
    }
    corrected.retain(|name| !still_wrong.contains(name));
    if problem.is_none() && matches!(claim, Claim::Corrective { .. }) {
        if let Some(name) = still_wrong.first() {
            problem = Some(format!("The repair claims to correct the lowering, but `{name}` is still wrong"));
        } else if corrected.is_empty() {
            problem = Some("The repair claims to correct the lowering, but the original was right".to_owned());
        }
    }
    let user_uninformative = repaired.comparisons.iter().any(|c| c.set == 0 && c.outcome == Outcome::Uninformative);
    let (status, summary) = match problem {
        Some(problem) => (GateStatus::Fail, problem),
        None if counted == 0 => (GateStatus::Inconclusive, "No output could be compared with eager PyTorch".to_owned()),
        None if user_uninformative => (
            GateStatus::Inconclusive,
            "Rounding alone moves the outputs for the user's inputs so much that a comparison proves nothing"
                .to_owned(),
        ),
        None => (GateStatus::Pass, passed(reference, repaired, &corrected, &still_wrong)),
    };
    let mut facts = original.facts(reference, "original on the target against eager");
    facts.extend(repaired.facts(reference, "repaired on the target against eager"));
    let report = GateReport {
        gate: Gate::BackendFidelity,
        status,
        summary,
        facts,
        seconds: start.elapsed().as_secs_f64() + repaired.seconds,
    };
    BackendFidelity { report, corrected, still_wrong }
}

fn push(names: &mut Vec<String>, name: String) {
    if !names.contains(&name) {
        names.push(name);
    }
}

fn passed(reference: &Reference, repaired: &Fidelity, corrected: &[String], still_wrong: &[String]) -> String {
    let list = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let largest = repaired
        .comparisons
        .iter()
        .filter(|compared| matches!(compared.outcome, Outcome::SameBits | Outcome::Within))
        .map(|compared| compared.comparison.relative())
        .filter(|relative| relative.is_finite())
        .fold(0.0, f64::max);
    let mut summary = format!(
        "The repaired program agrees with eager PyTorch on the target on {} input sets, largest error {largest:.1e} of the output's scale",
        reference.sets().len()
    );
    if !corrected.is_empty() {
        summary.push_str(&format!("; it corrects {}", list(corrected)));
    }
    if !still_wrong.is_empty() {
        summary.push_str(&format!("; {} is as wrong as in the original", list(still_wrong)));
    }
    summary
}
