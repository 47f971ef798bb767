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
//! What the allowances were set by, on x86-64 with executorch 1.5.1 and torch 2.15 (largest error relative
//! to the scale; movement under rounding-sized changes of the inputs, relative to the scale):
//!
//! | program | error | movement |
//! |---|---|---|
//! | small blocks, attention, pooling, upsampling, norms | 1e-7 to 9e-7 | 1e-7 |
//! | ResNet-50, sums of 4,608 to 25,088 products | 1e-6 to 3e-6 | 1e-7 to 5e-7 |
//! | bilinear upsampling by a ratio that is exact | 5e-6 | 1e-7 |
//! | MobileNetV2, softmax over sharp logits | 1e-5 to 2e-5 | 8e-6 |
//! | 60 layers of amplified tanh | 3e-4 | 2e-4 |
//! | normalisation layers on zeros or tiny magnitudes | 1e-5 to 3e-5 | (nothing moves) |
//! | half precision: blocks, encoder / MobileNetV2 | 2e-4 to 2e-3 / 2e-2 | 3e-4 to 2e-3 / 3e-2 |
//! | **wrong**: GELU's tanh form, alone / in an encoder | 9e-5 to 1.5e-4 / 3e-4 | 1e-7 |
//! | **wrong**: softmax over the last of four dimensions after a convolution | 0.3 to 0.9 | 1e-7 |
//! | **wrong**: bilinear upsampling of 17x17 by 1.7 | 0.5 to 0.9 | 1e-7 |
//!
//! A corrective claim must turn at least one wrong output right and leave none wrong. Comparisons that
//! rounding alone explains, or for which eager itself is not finite (outside of the user's own inputs),
//! are not counted.

use std::time::Instant;

use super::host_correctness::{Compared, NOTHING_FINITE, Outcome, facts, largest, nothing_finite, worst};
use super::inputs::InputKind;
use super::reference::{Attempt, FEW, ProgramRun, Reference};
use super::slices::Offence;
use super::tolerance::{Claim, Comparison, Mismatch};
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
pub fn allowance(dtype: ScalarType, kind: InputKind, elements: usize) -> f64 {
    let faint = matches!(kind, InputKind::Zeros | InputKind::Tiny);
    let single = match dtype {
        ScalarType::Float16 => 1e-2,
        ScalarType::BFloat16 => 6e-2,
        ScalarType::Float64 => 1e-9,
        _ if faint => 1e-4,
        _ => 3e-5,
    };
    if elements < FEW { single * LOOSER_FOR_FEW } else { single }
}

/// Outputs of fewer than [`FEW`] elements, such as the score of a regression, have no spread of their own, only
/// that over the input sets; what goes into them may be far larger and cancel. Their errors in right programs
/// reach 1.5e-3 of that spread on made-up inputs and 1e-4 on ordinary ones.
const LOOSER_FOR_FEW: f64 = 32.0;

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
    /// name of the input set that is reported: the user's own if the output is wrong there, else the
    /// ordinary one with the largest error, else any
    pub input_set: String,
    /// input sets on which the output is wrong, and how many were compared
    pub sets: (usize, usize),
    /// the user's own inputs are among them
    pub on_the_users_inputs: bool,
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

impl OriginalIsWrong {
    /// True when the program is wrong where it is used, and not only on inputs made up to provoke rounding:
    /// on the user's own inputs, or on at least half of all sets.
    pub fn is_alarming(&self) -> bool {
        self.on_the_users_inputs || 2 * self.sets.0 >= self.sets.1
    }
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
                // The user's own inputs say most; extremes say least.
                let users = wrong.iter().find(|compared| compared.set == 0).copied();
                let ordinary = wrong.iter().filter(|compared| kind_of(reference, compared.set).is_ordinary());
                let worst = users.or_else(|| worst(ordinary.copied())).or_else(|| worst(wrong.iter().copied()))?;
                let comparison = &worst.comparison;
                let (error, scale, relative) = match (&comparison.mismatch, &comparison.slice) {
                    (Some(_), _) => (f64::INFINITY, comparison.scale, f64::INFINITY),
                    (None, Some(slice)) => (slice.error, slice.spread, slice.relative()),
                    (None, None) if comparison.is_discrete() => {
                        (comparison.error, comparison.scale, comparison.differing_share())
                    }
                    (None, None) => (comparison.error, comparison.scale, comparison.relative()),
                };
                Some(OriginalIsWrong {
                    output: name.clone(),
                    input_set: reference.sets().get(worst.set).map(|set| set.name.clone()).unwrap_or_default(),
                    on_the_users_inputs: wrong.iter().any(|compared| compared.set == 0),
                    sets: (wrong.len(), all.count()),
                    error,
                    scale,
                    relative,
                    allowed: worst.allowed_share(allowance(
                        comparison.dtype,
                        kind_of(reference, worst.set),
                        comparison.elements,
                    )),
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
        facts.extend(self.kernels(what));
        facts
    }

    /// Which kernels the target chose for the program, from the trace of a run.
    pub(super) fn kernels(&self, what: &str) -> Option<Fact> {
        let kernels = &self.run(0)?.kernels;
        (!kernels.is_empty()).then(|| Fact {
            name: format!("kernels that ran, {what}"),
            value: kernels.join(", "),
            source: format!("trace of a run on {}", self.target.name),
        })
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
    let mut compared = reference.compare_runs(|set| {
        let (eager, run) = (reference.runs().get(set)?, attempts.get(set)?.as_ref().ok()?);
        (run.outputs.len() == eager.outputs.len()).then_some((eager, run))
    });
    for (index, (set, eager)) in reference.sets().iter().zip(reference.runs()).enumerate() {
        match attempts.get(index) {
            Some(Ok(run)) if run.outputs.len() == eager.outputs.len() => {}
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
        }
        for output in 0..eager.outputs.len() {
            let Some(comparison) = compared.remove(&(index, output)) else { continue };
            let mut yardstick = reference.yardstick(index, output);
            yardstick.discrete_slack = yardstick.discrete_slack.max(DISCRETE_SHARE);
            let allowance = allowance(comparison.dtype, set.kind, comparison.elements);
            let mut judged = Compared::new((index, output), comparison, yardstick, allowance);
            if says_nothing(set.kind, &judged) {
                judged.outcome = Outcome::Uninformative;
            }
            comparisons.push(judged);
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
        (None, false) => comparison.slice.as_ref().map_or(comparison.relative(), Offence::relative),
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
                let beyond = !after.comparison.is_within(
                    allowance(after.comparison.dtype, kind_of(reference, after.set), after.comparison.elements),
                    after.yardstick.floor,
                );
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
        None if nothing_finite(&repaired.comparisons) => (GateStatus::Inconclusive, NOTHING_FINITE.to_owned()),
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
    let sets = repaired.attempts.iter().filter(|attempt| attempt.is_ok()).count();
    let mut summary = format!(
        "The repaired program agrees with eager PyTorch on the target on {sets} input sets, largest error {}",
        largest(reference, &repaired.comparisons)
    );
    if !corrected.is_empty() {
        summary.push_str(&format!("; it corrects {}", list(corrected)));
    }
    if !still_wrong.is_empty() {
        summary.push_str(&format!("; {} is as wrong as in the original", list(still_wrong)));
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::super::device_correctness;
    use super::super::host_correctness::tests::{attempts, reference};
    use super::*;

    fn target() -> TargetLabel {
        TargetLabel {
            kind: "local".to_owned(),
            name: "this host (x86-64, not Arm)".to_owned(),
            architecture: "x86_64".to_owned(),
            physical_arm: false,
        }
    }

    type Program = fn(f64) -> f64;

    fn gelu(x: f64) -> f64 {
        0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))
    }

    fn gelu_tanh(x: f64) -> f64 {
        0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh())
    }

    /// Gates 3 and 4 of a trial, by what eager, the original and the repaired program compute.
    fn trial(eager: Program, original: Program, repaired: Program, claim: Claim) -> (GateReport, BackendFidelity) {
        let reference = reference(eager);
        let before = measure(&reference, &target(), attempts(&reference, original));
        let after = measure(&reference, &target(), attempts(&reference, repaired));
        let device = device_correctness::judge(&reference, &before, &after).report;
        (device, judge(&reference, &before, &after, claim))
    }

    const TOLERANT: Claim = Claim::Tolerant { relative: 1e-5 };
    const CORRECTIVE: Claim = Claim::Corrective { relative: 1e-5 };

    #[test]
    fn gelu_computed_with_erf_is_a_finding() {
        let reference = reference(gelu_tanh);
        let fidelity = measure(&reference, &target(), attempts(&reference, gelu));
        let findings = fidelity.findings(&reference);
        assert_eq!(findings.len(), 1);
        let finding = &findings[0];
        assert!(finding.output == "y" && finding.relative > 1e-4 && finding.error > 2e-4, "{finding:?}");
        assert!(finding.allowed < finding.relative && finding.sets.0 >= 3, "{finding:?}");
    }

    #[test]
    fn rounding_is_no_finding() {
        let reference = reference(gelu_tanh);
        for noise in [1e-6, 2e-5] {
            let noisy = attempts(&reference, |x| gelu_tanh(x) + noise * (x * 1e4).sin());
            assert_eq!(measure(&reference, &target(), noisy).findings(&reference), []);
        }
    }

    #[test]
    fn right_programs_pass_both_gates() {
        let (device, backend) = trial(|x| x, |x| x * 1.000_001, |x| x * 0.999_999, TOLERANT);
        assert_eq!((device.status, backend.report.status), (GateStatus::Pass, GateStatus::Pass), "{device:?}");
        assert!(backend.corrected.is_empty() && backend.still_wrong.is_empty());
    }

    #[test]
    fn a_repair_that_breaks_the_lowering_fails_both_gates() {
        let (device, backend) = trial(|x| x, |x| x, |x| x * 1.1, TOLERANT);
        assert_eq!((device.status, backend.report.status), (GateStatus::Fail, GateStatus::Fail));
        assert!(backend.report.summary.contains("where the original is right"), "{}", backend.report.summary);
    }

    #[test]
    fn a_correction_passes_although_the_programs_differ() {
        for claim in [CORRECTIVE, TOLERANT] {
            let (device, backend) = trial(|x| x, |x| x * 1.4, |x| x, claim);
            assert_eq!((device.status, backend.report.status), (GateStatus::Pass, GateStatus::Pass), "{device:?}");
            assert_eq!(backend.corrected, ["y"]);
            assert!(device.summary.contains("because it is wrong there"), "{}", device.summary);
        }
    }

    #[test]
    fn a_repair_elsewhere_may_leave_a_wrong_output_as_it_is() {
        let (device, backend) = trial(|x| x, |x| x * 1.4, |x| x * 1.4, TOLERANT);
        assert_eq!((device.status, backend.report.status), (GateStatus::Pass, GateStatus::Pass));
        assert_eq!(backend.still_wrong, ["y"]);
    }

    #[test]
    fn another_wrong_output_fails() {
        let (device, backend) = trial(|x| x, |x| x * 1.4, |x| x * 0.6, TOLERANT);
        assert_eq!((device.status, backend.report.status), (GateStatus::Fail, GateStatus::Pass), "{backend:?}");
        let (device, backend) = trial(|x| x, |x| x * 1.4, |x| x * 3.0, TOLERANT);
        assert_eq!((device.status, backend.report.status), (GateStatus::Fail, GateStatus::Fail));
    }

    #[test]
    fn a_corrective_claim_must_correct_something() {
        let (_, backend) = trial(|x| x, |x| x * 1.4, |x| x * 1.4, CORRECTIVE);
        assert_eq!(backend.report.status, GateStatus::Fail);
        let (_, backend) = trial(|x| x, |x| x, |x| x, CORRECTIVE);
        assert!(backend.report.summary.contains("the original was right"), "{}", backend.report.summary);
    }

    #[test]
    fn a_repaired_program_that_does_not_run_fails_and_an_original_that_does_not_is_no_yardstick() {
        let reference = reference(|x| x);
        let broken: Vec<Attempt> = reference.sets().iter().map(|_| Err("error 0x12".to_owned())).collect();
        let fine = measure(&reference, &target(), attempts(&reference, |x| x));
        let broken = measure(&reference, &target(), broken);
        let device = device_correctness::judge(&reference, &fine, &broken).report;
        assert!(device.status == GateStatus::Fail && device.summary.contains("0x12"), "{device:?}");
        assert_eq!(judge(&reference, &fine, &broken, TOLERANT).report.status, GateStatus::Fail);
        assert_eq!(device_correctness::judge(&reference, &broken, &fine).report.status, GateStatus::Inconclusive);
    }

    #[test]
    fn inputs_written_to_on_the_target_are_found() {
        let reference = reference(|x| x);
        let fine = measure(&reference, &target(), attempts(&reference, |x| x));
        let mut runs = attempts(&reference, |x| x);
        if let Some(Ok(run)) = runs.first_mut() {
            run.mutated_inputs.push(0);
        }
        let writing = measure(&reference, &target(), runs);
        assert_eq!(device_correctness::judge(&reference, &fine, &writing).report.status, GateStatus::Fail);
    }

    #[test]
    fn pools_that_turn_nan_into_minus_infinity_are_no_finding_outside_of_the_users_inputs() {
        let eager: Program = |x| if x.abs() > 50.0 { f64::NAN } else { x };
        let device: Program = |x| if x.abs() > 50.0 { f64::NEG_INFINITY } else { x };
        let reference = reference(eager);
        assert_eq!(measure(&reference, &target(), attempts(&reference, device)).findings(&reference), []);
        // Where eager is finite, the target must be.
        let broken: Program = |x| if x > 1.0 { f64::NAN } else { x };
        let findings = measure(&reference, &target(), attempts(&reference, broken)).findings(&reference);
        assert!(findings[0].relative.is_infinite() && findings[0].detail.contains("not finite"), "{findings:?}");
    }
}
