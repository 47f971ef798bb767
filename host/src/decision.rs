//! What follows from the evidence. Pure functions: the same evidence gives the same answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gates::{Gate, GateReport, GateStatus};

/// The answers a run can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// at least one repair passed every gate
    RepairsAccepted,
    /// repairs were tried and none passed
    RepairRejected,
    /// nothing outside the delegate costs enough to be worth a repair
    NoRepairRequired,
    /// something does, and no rule can repair it
    NoRepairAvailable,
    /// the evidence decides neither way
    Inconclusive,
    /// ExecuTorch cannot lower the model
    LoweringUnsupported,
    /// the lowered model does not run on the target
    DeviceExecutionUnsupported,
}

impl Status {
    /// The name as in the JSON form.
    pub fn name(self) -> &'static str {
        match self {
            Self::RepairsAccepted => "REPAIRS_ACCEPTED",
            Self::RepairRejected => "REPAIR_REJECTED",
            Self::NoRepairRequired => "NO_REPAIR_REQUIRED",
            Self::NoRepairAvailable => "NO_REPAIR_AVAILABLE",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::LoweringUnsupported => "LOWERING_UNSUPPORTED",
            Self::DeviceExecutionUnsupported => "DEVICE_EXECUTION_UNSUPPORTED",
        }
    }
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TrialOutcome {
    /// passed every gate
    Accepted,
    /// failed a gate
    Rejected,
    /// the host could not apply or lower it
    Refused,
    /// a gate decided neither way
    Inconclusive,
}

/// What happened, as far as the verdict depends on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// the original could not be lowered
    pub lowering_failed: bool,
    /// the lowered original does not run on the target
    pub execution_failed: bool,
    /// fallback kernels whose share reaches the limit
    pub hotspots: usize,
    /// share of all fallbacks together
    pub fallback_share: f64,
    /// the original disagrees with eager PyTorch
    pub original_is_wrong: bool,
    /// a limit ended the search while repairs were left to try
    pub cut_short: bool,
    /// the target is emulated, so speed is not measured there
    pub emulated: bool,
    /// ids of rules that were there and did not take part
    pub rules_left_out: Vec<String>,
    /// trials in order: how each ended, and the gate that decided
    pub trials: Vec<(TrialOutcome, Option<Gate>)>,
}

/// How a trial ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// how
    pub outcome: TrialOutcome,
    /// the gate that decided, when not accepted
    pub gate: Option<Gate>,
    /// its words
    pub reason: String,
}

/// Judges a trial by its gates, in order. Accepted only when every gate was run and passed.
///
/// With outputs that hardly react to inputs (`insensitive`), gates that compare whole outputs prove
/// nothing, so the site's own proof must have passed.
pub fn judge(gates: &[GateReport], insensitive: bool) -> Judgement {
    for report in gates {
        let outcome = match report.status {
            GateStatus::Pass => continue,
            GateStatus::Fail => TrialOutcome::Rejected,
            GateStatus::Inconclusive | GateStatus::NotRun => TrialOutcome::Inconclusive,
        };
        return Judgement { outcome, gate: Some(report.gate), reason: report.summary.clone() };
    }
    let passed = |gate: Gate| gates.iter().any(|report| report.gate == gate && report.status == GateStatus::Pass);
    if insensitive && !passed(Gate::SiteEquivalence) {
        return Judgement {
            outcome: TrialOutcome::Inconclusive,
            gate: Some(Gate::SiteEquivalence),
            reason: "the model's outputs hardly react to its inputs, and the repaired place itself was not proven"
                .to_owned(),
        };
    }
    if let Some(missing) = Gate::ALL.into_iter().find(|gate| !passed(*gate)) {
        return Judgement {
            outcome: TrialOutcome::Inconclusive,
            gate: Some(missing),
            reason: "not every gate was run".to_owned(),
        };
    }
    Judgement { outcome: TrialOutcome::Accepted, gate: None, reason: "passed every gate".to_owned() }
}

/// True when the trial may go on to the next gate.
pub fn goes_on(report: &GateReport) -> bool {
    report.status == GateStatus::Pass
}

/// The answer of a run, with the gate that decided where one did.
pub fn verdict(course: &Course) -> (Status, Option<Gate>) {
    if course.lowering_failed {
        return (Status::LoweringUnsupported, None);
    }
    if course.execution_failed {
        return (Status::DeviceExecutionUnsupported, None);
    }
    if course.trials.iter().any(|(outcome, _)| *outcome == TrialOutcome::Accepted) {
        return (Status::RepairsAccepted, None);
    }
    // The trial that came furthest tells most.
    let furthest = |wanted: TrialOutcome| {
        course.trials.iter().filter(|(outcome, _)| *outcome == wanted).map(|(_, gate)| *gate).max()
    };
    if let Some(gate) = furthest(TrialOutcome::Inconclusive) {
        return (Status::Inconclusive, gate);
    }
    if let Some(gate) = furthest(TrialOutcome::Rejected).or_else(|| furthest(TrialOutcome::Refused)) {
        return (Status::RepairRejected, gate);
    }
    if course.cut_short {
        return (Status::Inconclusive, None);
    }
    if course.hotspots == 0 { (Status::NoRepairRequired, None) } else { (Status::NoRepairAvailable, None) }
}

/// One sentence for the verdict, without figures.
pub fn headline(status: Status, course: &Course, target: &str) -> String {
    let accepted = course.trials.iter().filter(|(outcome, _)| *outcome == TrialOutcome::Accepted).count();
    match status {
        Status::RepairsAccepted if accepted == 1 => format!("One repair passed every gate on {target}"),
        Status::RepairsAccepted => format!("{accepted} repairs passed every gate on {target}"),
        Status::RepairRejected => "A repair was tried and did not pass every gate, so nothing was changed".to_owned(),
        Status::NoRepairRequired if course.original_is_wrong => {
            "Nothing outside the delegate costs enough to be worth a repair, but the program computes something wrong"
                .to_owned()
        }
        Status::NoRepairRequired => {
            "Nothing outside the delegate costs enough to be worth a repair; the program is fine as it is".to_owned()
        }
        Status::NoRepairAvailable => {
            let rules = match &course.rules_left_out[..] {
                [] => "no installed rule can repair them".to_owned(),
                [one] => format!("no rule that took part can repair them; {one} was left out"),
                more => format!("no rule that took part can repair them; {} were left out", more.join(", ")),
            };
            format!("Some operators run outside the delegate, and {rules}")
        }
        Status::Inconclusive if course.trials.is_empty() && course.cut_short => {
            "A limit ended the search before any repair was tried, so nothing was changed".to_owned()
        }
        Status::Inconclusive
            if course.emulated && course.trials.contains(&(TrialOutcome::Inconclusive, Some(Gate::Benchmark))) =>
        {
            format!("A repair is correct on {target}, and speed is not measured there, so nothing was changed")
        }
        Status::Inconclusive => {
            "A repair looked promising, but the evidence decides neither way, so nothing was changed".to_owned()
        }
        Status::LoweringUnsupported => "ExecuTorch cannot lower this model".to_owned(),
        Status::DeviceExecutionUnsupported => format!("The lowered model does not run on {target}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(gate: Gate, status: GateStatus) -> GateReport {
        GateReport { gate, status, summary: format!("{gate:?}"), facts: Vec::new(), seconds: 0.0 }
    }

    fn all_pass() -> Vec<GateReport> {
        Gate::ALL.into_iter().map(|gate| report(gate, GateStatus::Pass)).collect()
    }

    #[test]
    fn a_repair_on_an_emulated_target_is_called_correct_and_never_faster() {
        let mut gates = all_pass();
        gates.last_mut().expect("benchmark").status = GateStatus::NotRun;
        let judged = judge(&gates, false);
        assert_eq!((judged.outcome, judged.gate), (TrialOutcome::Inconclusive, Some(Gate::Benchmark)));
        let course =
            Course { emulated: true, hotspots: 1, trials: vec![(judged.outcome, judged.gate)], ..Course::default() };
        let (status, _) = verdict(&course);
        assert_eq!(status, Status::Inconclusive);
        assert_eq!(
            headline(status, &course, "emulated Arm (max)"),
            "A repair is correct on emulated Arm (max), and speed is not measured there, so nothing was changed"
        );
    }

    #[test]
    fn only_a_trial_that_passed_every_gate_is_accepted() {
        assert_eq!(judge(&all_pass(), false).outcome, TrialOutcome::Accepted);
        assert_eq!(judge(&all_pass(), true).outcome, TrialOutcome::Accepted);
        for (index, gate) in Gate::ALL.into_iter().enumerate() {
            for (status, outcome) in [
                (GateStatus::Fail, TrialOutcome::Rejected),
                (GateStatus::Inconclusive, TrialOutcome::Inconclusive),
                (GateStatus::NotRun, TrialOutcome::Inconclusive),
            ] {
                let mut gates = all_pass();
                gates[index].status = status;
                let judgement = judge(&gates, false);
                assert_eq!((judgement.outcome, judgement.gate), (outcome, Some(gate)));
            }
            let mut gates = all_pass();
            gates.remove(index);
            assert_eq!(judge(&gates, false).outcome, TrialOutcome::Inconclusive, "{gate:?} was not run");
        }
    }

    #[test]
    fn a_wrong_original_is_never_called_fine() {
        let course = Course { original_is_wrong: true, ..Course::default() };
        assert!(!headline(Status::NoRepairRequired, &course, "here").contains("fine"));
        assert!(headline(Status::NoRepairRequired, &Course::default(), "here").contains("fine"));
    }

    #[test]
    fn rules_that_were_left_out_are_named() {
        let told = |ids: &[&str]| {
            let course = Course {
                hotspots: 1,
                rules_left_out: ids.iter().map(ToString::to_string).collect(),
                ..Course::default()
            };
            headline(Status::NoRepairAvailable, &course, "here")
        };
        assert!(told(&[]).ends_with("no installed rule can repair them"));
        assert!(told(&["dd-001"]).ends_with("no rule that took part can repair them; dd-001 was left out"));
        assert!(told(&["dd-001", "dd-002"]).ends_with("; dd-001, dd-002 were left out"));
    }

    #[test]
    fn doing_nothing_is_an_answer() {
        let course = Course::default();
        assert_eq!(verdict(&course), (Status::NoRepairRequired, None));
        assert_eq!(verdict(&Course { hotspots: 1, ..course.clone() }), (Status::NoRepairAvailable, None));
        let tried = |trials: &[(TrialOutcome, Option<Gate>)]| {
            verdict(&Course { hotspots: 1, trials: trials.to_vec(), ..Course::default() })
        };
        let slow = (TrialOutcome::Rejected, Some(Gate::Benchmark));
        let wrong = (TrialOutcome::Rejected, Some(Gate::SiteEquivalence));
        let unsure = (TrialOutcome::Inconclusive, Some(Gate::Benchmark));
        let good = (TrialOutcome::Accepted, None);
        assert_eq!(tried(&[wrong, slow]), (Status::RepairRejected, Some(Gate::Benchmark)));
        assert_eq!(tried(&[wrong, unsure, slow]), (Status::Inconclusive, Some(Gate::Benchmark)));
        assert_eq!(tried(&[wrong, good, unsure]), (Status::RepairsAccepted, None));
        let cut_short = Course { hotspots: 1, cut_short: true, ..Course::default() };
        assert_eq!(verdict(&cut_short), (Status::Inconclusive, None));
        assert!(headline(Status::Inconclusive, &cut_short, "here").starts_with("A limit ended the search"));
        assert_eq!(
            verdict(&Course { lowering_failed: true, ..Course::default() }),
            (Status::LoweringUnsupported, None)
        );
    }
}
