//! From events to instructions: how much of the time runs in delegates.
//!
//! Runtime-weighted delegation is delegated time over delegated plus fallback time, from the medians
//! over the traced runs of every instruction. The method's own time is the cross-check.

use std::collections::BTreeMap;

use super::etdump::{RunTrace, Trace};
use super::kernels::kernel_of_event;
use crate::evidence::{Interval, Measured, TargetLabel, median};
use crate::hint::Hint;

/// How far the instructions' sum may be from the method's time before it is called a mismatch.
pub const ACCOUNTING_TOLERANCE: f64 = 0.05;

/// Coverage aimed at for the intervals of figures over traced runs.
const CONFIDENCE: f64 = 0.95;

pub(super) const METHOD_EVENT: &str = "Method::execute";
const DELEGATE_EVENT: &str = "DELEGATE_CALL";
const OPERATOR_EVENT: &str = "OPERATOR_CALL";

/// A figure over the traced runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// median over runs
    pub median: f64,
    /// order-statistic interval of the median, with the coverage that the number of runs allows
    pub interval: Interval,
}

/// Where the time of a program goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// where it was traced
    pub target: TargetLabel,
    /// traced runs
    pub runs: usize,
    /// time of the whole method, ns
    pub method_ns: Figure,
    /// time in delegate calls, ns
    pub delegated_ns: f64,
    /// time in fallback kernels, ns
    pub fallback_ns: f64,
    /// delegated over delegated plus fallback; 1 for a method that has neither
    pub delegation: Figure,
    /// does the sum agree with the method's time
    pub accounting: Accounting,
    /// in the order of the method
    pub instructions: Vec<Instruction>,
}

/// The cross-check of the instructions' sum against the method's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accounting {
    /// sum of all instructions, ns
    pub instructions_ns: f64,
    /// the method, ns
    pub method_ns: f64,
    /// (method − instructions) / method
    pub unaccounted_share: f64,
    /// true within [`ACCOUNTING_TOLERANCE`]
    pub agrees: bool,
}

/// One instruction of the method.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// index in the method's chain, as `Lowered` counts it
    pub instruction: i64,
    /// what it is
    pub kind: InstructionKind,
    /// time a run, ns
    pub time_ns: Figure,
    /// part of delegated plus fallback time
    pub share: Figure,
    /// executions a run; more than one inside a loop
    pub calls: f64,
}

/// What an instruction does.
#[derive(Clone, Debug, PartialEq)]
pub enum InstructionKind {
    /// a call of a delegate, with what the delegate says it did; those times are the delegate's own,
    /// coarser, and do not add up to the call
    Delegate {
        /// inner events in order
        ops: Vec<DelegateOp>,
    },
    /// a kernel outside of delegates
    Fallback {
        /// name in the trace, without namespace: `_softmax.out`; empty when the trace lacks it
        kernel: String,
    },
}

/// An operator inside of a delegate.
#[derive(Clone, Debug, PartialEq)]
pub struct DelegateOp {
    /// e.g. `Convolution (NHWC, F32) IGEMM #1`
    pub name: String,
    /// time a run, ns
    pub time_ns: Figure,
}

/// Why a trace gives no profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// no run in it
    #[error("The trace holds no run of the method")]
    NoRuns,
    /// runs differ in their instructions, so they cannot be summarised
    #[error("The trace is inconsistent: {0}")]
    Inconsistent(String),
}

impl Hint for Error {}

impl Profile {
    /// Runtime-weighted delegation with its label.
    pub fn delegation_measured(&self) -> Measured {
        Measured {
            value: self.delegation.median,
            unit: "share".to_owned(),
            target: self.target.clone(),
            samples: self.runs as u64,
            interval: Some(self.delegation.interval),
        }
    }
}

impl RunTrace {
    /// True for an execution of the method: loading leaves blocks of its own.
    pub fn is_of_method(&self) -> bool {
        self.events.iter().any(|event| event.name == METHOD_EVENT && !event.delegate)
    }
}

/// What happened to one instruction in one run.
#[derive(Clone, Debug, Default)]
struct Tally {
    delegate: bool,
    ns: f64,
    calls: u32,
    kernel: String,
    ops: Vec<(String, f64)>,
}

/// One run: the method's time and its instructions.
struct RunTally {
    method_ns: f64,
    instructions: BTreeMap<i64, Tally>,
}

/// Summarises a trace. `ns_per_tick` is what the runner reported for it.
///
/// # Errors
/// A trace without runs, or one whose runs differ in their instructions.
pub fn profile(trace: &Trace, ns_per_tick: f64, target: &TargetLabel) -> Result<Profile, Error> {
    if !(ns_per_tick.is_finite() && ns_per_tick > 0.0) {
        return Err(Error::Inconsistent(format!("a tick of {ns_per_tick} ns makes no sense")));
    }
    let runs: Vec<RunTally> = trace.runs.iter().filter_map(|run| tally(run, ns_per_tick)).collect();
    let Some(first) = runs.first() else { return Err(Error::NoRuns) };
    for (number, run) in runs.iter().enumerate() {
        let same = first.instructions.len() == run.instructions.len()
            && first.instructions.iter().zip(&run.instructions).all(|((id, left), (other, right))| {
                id == other && left.delegate == right.delegate && left.kernel == right.kernel
            });
        if !same {
            return Err(Error::Inconsistent(format!("run {number} executes other instructions than run 0")));
        }
    }
    Ok(summarise(&runs, first, target))
}

/// `None` for blocks that are not executions of the method: loading leaves blocks of its own.
fn tally(run: &RunTrace, ns_per_tick: f64) -> Option<RunTally> {
    let mut method_ns = None;
    let mut instructions: BTreeMap<i64, Tally> = BTreeMap::new();
    for event in &run.events {
        #[expect(clippy::cast_precision_loss, reason = "a run of 2^53 ticks would last for months")]
        let ns = event.ticks() as f64 * ns_per_tick;
        if event.name == METHOD_EVENT && !event.delegate {
            *method_ns.get_or_insert(0.0) += ns;
            continue;
        }
        let Some(id) = event.instruction else { continue };
        let entry = instructions.entry(id).or_default();
        if event.delegate {
            entry.ops.push((event.name.clone(), ns));
        } else if event.name == DELEGATE_EVENT || event.name == OPERATOR_EVENT {
            entry.delegate = event.name == DELEGATE_EVENT;
            entry.ns += ns;
            entry.calls += 1;
        } else if let Some(kernel) = kernel_of_event(&event.name)
            && entry.kernel.is_empty()
        {
            kernel.clone_into(&mut entry.kernel);
        }
    }
    instructions.retain(|_, entry| entry.calls > 0);
    method_ns.map(|method_ns| RunTally { method_ns, instructions })
}

fn summarise(runs: &[RunTally], first: &RunTally, target: &TargetLabel) -> Profile {
    let method_ns = figure(runs.iter().map(|run| run.method_ns).collect());
    let totals: Vec<f64> =
        runs.iter().map(|run| run.instructions.values().map(|entry| entry.ns).sum::<f64>()).collect();
    let mut instructions = Vec::new();
    for (&id, model) in &first.instructions {
        let entries: Vec<&Tally> = runs.iter().filter_map(|run| run.instructions.get(&id)).collect();
        let kind = if model.delegate {
            InstructionKind::Delegate { ops: delegate_ops(&entries) }
        } else {
            InstructionKind::Fallback { kernel: model.kernel.clone() }
        };
        instructions.push(Instruction {
            instruction: id,
            kind,
            time_ns: figure(entries.iter().map(|entry| entry.ns).collect()),
            share: figure(entries.iter().zip(&totals).map(|(entry, total)| ratio(entry.ns, *total)).collect()),
            calls: f64::from(model.calls),
        });
    }
    let sum_of = |delegate: bool| -> f64 {
        instructions
            .iter()
            .filter(|instruction| matches!(instruction.kind, InstructionKind::Delegate { .. }) == delegate)
            .map(|instruction| instruction.time_ns.median)
            .sum()
    };
    let (delegated_ns, fallback_ns) = (sum_of(true), sum_of(false));
    let instructions_ns = delegated_ns + fallback_ns;
    for instruction in &mut instructions {
        instruction.share = around(ratio(instruction.time_ns.median, instructions_ns), instruction.share);
    }
    let delegation_by_run = runs
        .iter()
        .zip(&totals)
        .map(|(run, total)| {
            let delegated: f64 = run.instructions.values().filter(|entry| entry.delegate).map(|entry| entry.ns).sum();
            if *total > 0.0 { delegated / total } else { 1.0 }
        })
        .collect();
    let delegation = if instructions_ns > 0.0 { delegated_ns / instructions_ns } else { 1.0 };
    let unaccounted_share = ratio(method_ns.median - instructions_ns, method_ns.median);
    Profile {
        target: target.clone(),
        runs: runs.len(),
        method_ns,
        delegated_ns,
        fallback_ns,
        delegation: around(delegation, figure(delegation_by_run)),
        accounting: Accounting {
            instructions_ns,
            method_ns: method_ns.median,
            unaccounted_share,
            agrees: unaccounted_share.abs() <= ACCOUNTING_TOLERANCE,
        },
        instructions,
    }
}

/// Inner events by position: a delegate reports the same ones in the same order in every run.
fn delegate_ops(entries: &[&Tally]) -> Vec<DelegateOp> {
    let Some(first) = entries.first() else { return Vec::new() };
    let named = |position: usize, name: &str| -> Vec<f64> {
        entries
            .iter()
            .filter_map(|entry| entry.ops.get(position))
            .filter(|(other, _)| other == name)
            .map(|(_, ns)| *ns)
            .collect()
    };
    first
        .ops
        .iter()
        .enumerate()
        .map(|(position, (name, ns))| DelegateOp {
            name: name.clone(),
            time_ns: match named(position, name) {
                times if times.is_empty() => figure(vec![*ns]),
                times => figure(times),
            },
        })
        .collect()
}

fn figure(samples: Vec<f64>) -> Figure {
    let middle = median(&samples).unwrap_or(0.0);
    let none = Interval { low: middle, high: middle, confidence: 0.0 };
    Figure { median: middle, interval: Interval::of_median(&samples, CONFIDENCE).unwrap_or(none) }
}

/// The interval of `spread` around another point estimate of the same figure.
fn around(point: f64, spread: Figure) -> Figure {
    let Interval { low, high, confidence } = spread.interval;
    Figure { median: point, interval: Interval { low: low.min(point), high: high.max(point), confidence } }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::etdump::Event;
    use super::*;

    fn label() -> TargetLabel {
        TargetLabel {
            kind: "local".to_owned(),
            name: "this host (x86-64, not Arm)".to_owned(),
            architecture: "x86_64".to_owned(),
            physical_arm: false,
        }
    }

    fn event(name: &str, instruction: i64, ticks: u64) -> Event {
        Event { name: name.to_owned(), delegate: false, instruction: Some(instruction), start: 100, end: 100 + ticks }
    }

    fn inner(name: &str, instruction: i64, ticks: u64) -> Event {
        Event { delegate: true, ..event(name, instruction, ticks) }
    }

    /// A run as the runtime writes it: inner events before their call, the method last.
    fn run(delegate: u64, softmax: u64, method: u64) -> RunTrace {
        RunTrace {
            name: "Execute".to_owned(),
            events: vec![
                inner("Convolution (NHWC, F32) IGEMM #1", 0, delegate / 2),
                event("DELEGATE_CALL", 0, delegate),
                event("native_call__softmax.out", 1, softmax - 2),
                event("OPERATOR_CALL", 1, softmax),
                Event { instruction: Some(0), ..event("Method::execute", 0, method) },
            ],
        }
    }

    #[test]
    fn delegation_is_weighted_by_time_and_medians_ignore_one_bad_run() {
        let trace = Trace { runs: vec![run(300, 100, 404), run(302, 101, 406), run(298, 900, 1200)] };
        let profile = profile(&trace, 2.0, &label()).expect("profile");
        assert_eq!(profile.runs, 3);
        assert!((profile.delegated_ns - 600.0).abs() < 1e-9);
        assert!((profile.fallback_ns - 202.0).abs() < 1e-9);
        assert!((profile.delegation.median - 600.0 / 802.0).abs() < 1e-12);
        assert!(profile.delegation.interval.low < 0.3, "the bad run stays visible: {:?}", profile.delegation);
        assert!(profile.accounting.agrees, "{:?}", profile.accounting);
        let InstructionKind::Fallback { kernel } = &profile.instructions[1].kind else { panic!("a kernel") };
        assert_eq!(kernel, "_softmax.out");
        let InstructionKind::Delegate { ops } = &profile.instructions[0].kind else { panic!("a delegate") };
        assert_eq!((ops[0].name.as_str(), ops[0].time_ns.median), ("Convolution (NHWC, F32) IGEMM #1", 300.0));
    }

    #[test]
    fn a_method_that_takes_longer_than_its_instructions_is_reported() {
        let trace = Trace { runs: vec![run(300, 100, 500)] };
        let profile = profile(&trace, 1.0, &label()).expect("profile");
        assert!(!profile.accounting.agrees);
        assert!((profile.accounting.unaccounted_share - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_kernel_in_a_loop_counts_every_call() {
        let mut looped = run(300, 100, 500);
        looped.events.insert(4, event("OPERATOR_CALL", 1, 100));
        let profile = profile(&Trace { runs: vec![looped] }, 1.0, &label()).expect("profile");
        assert!((profile.instructions[1].calls - 2.0).abs() < 1e-12);
        assert!((profile.fallback_ns - 200.0).abs() < 1e-12);
    }

    #[test]
    fn runs_that_differ_and_traces_without_runs_are_errors() {
        let mut other = run(300, 100, 404);
        other.events.retain(|event| event.instruction != Some(1));
        let trace = Trace { runs: vec![run(300, 100, 404), other] };
        assert!(matches!(profile(&trace, 1.0, &label()), Err(Error::Inconsistent(_))));
        let loading = RunTrace { name: "Default".to_owned(), events: vec![event("Program::load_method", 0, 9)] };
        assert!(matches!(profile(&Trace { runs: vec![loading] }, 1.0, &label()), Err(Error::NoRuns)));
        assert!(matches!(profile(&trace, 0.0, &label()), Err(Error::Inconsistent(_))));
    }

    #[test]
    fn a_method_without_instructions_is_wholly_delegated() {
        let trace =
            Trace { runs: vec![RunTrace { name: "Execute".to_owned(), events: vec![event("Method::execute", 0, 5)] }] };
        let profile = profile(&trace, 1.0, &label()).expect("profile");
        assert!((profile.delegation.median - 1.0).abs() < 1e-12);
    }
}
