//! The words that every view uses for the same thing.

use super::figures::{self, Figure};
use super::model::{Comparison, NodeRole, RuleClass, RuleOutcome, Severity, Status, TrialOutcome};
use crate::gates::{Gate, GateStatus};

/// How a state reads at a glance; views give it a colour and a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// as wished
    Good,
    /// not as wished
    Bad,
    /// look at it
    Warn,
    /// neither
    Neutral,
}

impl Tone {
    /// A mark that needs no colour.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Bad => "✗",
            Self::Warn => "!",
            Self::Neutral => "·",
        }
    }

    /// The name for style sheets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Neutral => "neutral",
        }
    }
}

/// The status as a phrase.
pub fn status(status: Status, gate: Option<Gate>) -> String {
    let phrase = match status {
        Status::RepairsAccepted => "repairs accepted",
        Status::RepairRejected => "repair rejected",
        Status::NoRepairRequired => "no repair required",
        Status::NoRepairAvailable => "no repair available",
        Status::Inconclusive => "inconclusive",
        Status::LoweringUnsupported => "lowering unsupported",
        Status::DeviceExecutionUnsupported => "does not run on the target",
    };
    match gate {
        Some(gate) => format!("{phrase} at the {} gate", gate_name(gate)),
        None => phrase.to_owned(),
    }
}

/// How the status reads.
pub fn status_tone(status: Status) -> Tone {
    match status {
        Status::RepairsAccepted | Status::NoRepairRequired => Tone::Good,
        Status::NoRepairAvailable => Tone::Neutral,
        Status::RepairRejected | Status::Inconclusive => Tone::Warn,
        Status::LoweringUnsupported | Status::DeviceExecutionUnsupported => Tone::Bad,
    }
}

/// How a finding reads.
pub fn severity_tone(severity: Severity) -> Tone {
    match severity {
        Severity::Alarm => Tone::Bad,
        Severity::Warning => Tone::Warn,
        Severity::Note => Tone::Neutral,
    }
}

/// A gate's name in running text.
pub fn gate_name(gate: Gate) -> &'static str {
    match gate {
        Gate::Structure => "structure",
        Gate::SiteEquivalence => "site equivalence",
        Gate::HostCorrectness => "host correctness",
        Gate::DeviceCorrectness => "device correctness",
        Gate::BackendFidelity => "backend fidelity",
        Gate::Benchmark => "benchmark",
    }
}

/// A gate's name where space is short.
pub fn gate_short(gate: Gate) -> &'static str {
    match gate {
        Gate::Structure => "structure",
        Gate::SiteEquivalence => "site",
        Gate::HostCorrectness => "host",
        Gate::DeviceCorrectness => "device",
        Gate::BackendFidelity => "fidelity",
        Gate::Benchmark => "benchmark",
    }
}

/// What a gate compares.
pub fn gate_about(gate: Gate) -> &'static str {
    match gate {
        Gate::Structure => "the host's and torch's view of the patched graph",
        Gate::SiteEquivalence => "old and new subgraph, on many inputs",
        Gate::HostCorrectness => "original and repaired model, in eager PyTorch",
        Gate::DeviceCorrectness => "original and repaired program, on the target",
        Gate::BackendFidelity => "each program on the target against eager PyTorch",
        Gate::Benchmark => "latency of both, interleaved",
    }
}

/// What a gate said, in a word.
pub fn gate_status(status: GateStatus) -> (&'static str, Tone) {
    match status {
        GateStatus::Pass => ("pass", Tone::Good),
        GateStatus::Fail => ("fail", Tone::Bad),
        GateStatus::Inconclusive => ("inconclusive", Tone::Warn),
        GateStatus::NotRun => ("not run", Tone::Neutral),
    }
}

/// How a trial ended, as a phrase.
pub fn outcome(outcome: TrialOutcome, gate: Option<Gate>) -> (String, Tone) {
    let (word, tone) = match outcome {
        TrialOutcome::Accepted => ("accepted", Tone::Good),
        TrialOutcome::Rejected => ("rejected", Tone::Bad),
        TrialOutcome::Refused => ("refused by the host", Tone::Bad),
        TrialOutcome::Inconclusive => ("inconclusive", Tone::Warn),
    };
    match gate {
        Some(gate) => (format!("{word} at the {} gate", gate_name(gate)), tone),
        None => (word.to_owned(), tone),
    }
}

/// What a rule said about a node, in a word.
pub fn rule_outcome(outcome: RuleOutcome) -> (&'static str, Tone) {
    match outcome {
        RuleOutcome::Matched => ("offers a repair", Tone::Good),
        RuleOutcome::Declined => ("leaves it alone", Tone::Neutral),
        RuleOutcome::Refused => ("offered what the host refused", Tone::Warn),
        RuleOutcome::Failed => ("was stopped", Tone::Warn),
    }
}

/// What a rule promises.
pub fn class(class: RuleClass) -> &'static str {
    match class {
        RuleClass::Exact => "exact: the same bits",
        RuleClass::Tolerant => "tolerant: within a declared tolerance",
        RuleClass::Corrective => "corrective: repairs a wrong lowering",
    }
}

/// What a box of a diagram is.
pub fn role(role: NodeRole) -> &'static str {
    match role {
        NodeRole::Input => "input",
        NodeRole::Kept => "kept",
        NodeRole::Removed => "removed",
        NodeRole::Added => "added",
        NodeRole::Constant => "constant",
        NodeRole::Output => "output",
    }
}

/// `1.97× as fast`; with an interval around 1 that is no measurable change, and said so.
pub fn speed(comparison: &Comparison) -> (String, Tone) {
    let ratio = Figure::of(&comparison.ratio).value;
    match figures::interval(&comparison.ratio) {
        Some(interval) if interval.low > 1.0 => (format!("{ratio} as fast"), Tone::Good),
        Some(interval) if interval.high < 1.0 => (format!("{ratio} as fast"), Tone::Bad),
        Some(_) => (format!("{ratio}, no measurable change"), Tone::Warn),
        None => (format!("{ratio}, uncertainty unknown"), Tone::Warn),
    }
}

/// Bare names of a dotted op: `aten.softmax.int` → `softmax`.
pub fn short_op(op: &str) -> &str {
    let op = op.rsplit("::").next().unwrap_or(op);
    let mut parts = op.split('.');
    match (parts.next(), parts.next()) {
        (Some("aten" | "dim_order_ops" | "quantized_decomposed"), Some(name)) => name,
        (Some(name), _) => name,
        (None, _) => op,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;
    use crate::report::samples;

    #[test]
    fn an_interval_around_one_is_no_change() {
        let report = samples::all().into_iter().map(|(_, report)| report).next().expect("a sample");
        let mut comparison = report.overall.expect("a comparison");
        let mut said = |low: f64, high: f64| {
            if let Evidence::Measured(ratio) = &mut comparison.ratio {
                ratio.interval.as_mut().expect("an interval").low = low;
                ratio.interval.as_mut().expect("an interval").high = high;
            }
            speed(&comparison)
        };
        assert_eq!(said(1.9, 2.0), ("1.97× as fast".to_owned(), Tone::Good));
        assert_eq!(said(0.9, 2.0), ("1.97×, no measurable change".to_owned(), Tone::Warn));
        assert_eq!(said(1.0, 2.0).1, Tone::Warn);
        assert_eq!(said(0.2, 0.4).1, Tone::Bad);
    }

    #[test]
    fn ops_are_shortened_whatever_their_form() {
        assert_eq!(
            ["aten.softmax.int", "aten::_softmax.out", "relu_4", ""].map(short_op),
            ["softmax", "_softmax", "relu_4", ""]
        );
    }
}
