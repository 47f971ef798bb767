//! Gate 3: original `.pte` against repaired `.pte` on the target.
//!
//! In: the fidelities of both programs, which hold their runs. Out: a verdict over all outputs and input
//! sets. Where the original is wrong against eager, a difference is what a correction looks like; the
//! table in [`super::backend_fidelity`] says how the two gates share the work. The same inputs must be
//! written to as before.

use std::time::Instant;

use super::backend_fidelity::{Fidelity, allowance};
use super::host_correctness::{Compared, NOTHING_FINITE, Outcome, facts, largest, mutations, nothing_finite};
use super::inputs::InputKind;
use super::reference::{Reference, finiteness};
use super::tolerance::Mismatch;
use super::{Gate, GateReport, GateStatus};

/// The gate's result.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCorrectness {
    /// for the report and the decision
    pub report: GateReport,
    /// every comparison
    pub comparisons: Vec<Compared>,
    /// comparisons that differ because the original is wrong and the repaired program right
    pub corrections: usize,
}

/// True when no output for the user's inputs has a finite element on the target.
fn gives_nothing(fidelity: &Fidelity) -> bool {
    let Some(run) = fidelity.run(0) else { return false };
    let mut nothing =
        run.outputs.iter().map(finiteness).filter(|(finite, not_finite)| *finite || *not_finite).peekable();
    nothing.peek().is_some() && nothing.all(|(finite, _)| !finite)
}

/// Compares the two programs' runs on the target.
pub fn judge(reference: &Reference, original: &Fidelity, repaired: &Fidelity) -> DeviceCorrectness {
    let start = Instant::now();
    let mut comparisons = Vec::new();
    let mut corrections = 0;
    let mut problem: Option<String> = None;
    let mut compared = reference.compare_runs(|set| Some((original.run(set)?, repaired.run(set)?)));
    for (index, set) in reference.sets().iter().enumerate() {
        let Some(before) = original.run(index) else { continue };
        let Some(after) = repaired.run(index) else {
            let why =
                repaired.failures.iter().find(|(failed, _)| *failed == index).map_or("it was not run", |(_, why)| why);
            problem.get_or_insert(format!("The repaired program does not run on \"{}\": {why}", set.name));
            continue;
        };
        if let Some(why) = mutations(&before.mutated_inputs, &after.mutated_inputs) {
            problem.get_or_insert(format!("{why} (input set \"{}\")", set.name));
        }
        for output in 0..before.outputs.len().min(after.outputs.len()) {
            let Some(comparison) = compared.remove(&(index, output)) else { continue };
            let yardstick = reference.yardstick(index, output);
            // Each of the two may be off by the allowance of a right program.
            let allowance = 2.0 * allowance(comparison.dtype, set.kind, comparison.elements);
            let mut judged = Compared::new((index, output), comparison, yardstick, allowance);
            if judged.outcome == Outcome::Beyond {
                let was_wrong = original.is_wrong(index, output);
                let is_wrong = repaired.is_wrong(index, output);
                let not_finite = matches!(judged.comparison.mismatch, Some(Mismatch::NotFinite { .. }));
                if was_wrong && !is_wrong {
                    corrections += 1;
                    judged.outcome = Outcome::Uninformative;
                } else if not_finite && yardstick.not_finite && set.kind != InputKind::User {
                    judged.outcome = Outcome::Uninformative;
                } else {
                    let name = reference.names().get(output).map_or("output", String::as_str);
                    problem.get_or_insert(format!(
                        "Repaired and original differ on the target: `{name}` on \"{}\" by {}",
                        set.name,
                        judged.comparison.describe()
                    ));
                }
            }
            comparisons.push(judged);
        }
    }
    let compared = comparisons.iter().any(|compared| compared.outcome != Outcome::Uninformative);
    let (status, summary) = match problem {
        Some(problem) => (GateStatus::Fail, problem),
        None if corrections > 0 => (
            GateStatus::Pass,
            format!(
                "Repaired and original agree on the target wherever the original is right; {corrections} of {} comparisons differ because it is wrong there",
                comparisons.len()
            ),
        ),
        // Two programs that both give nothing agree about nothing, whatever eager gives.
        None if nothing_finite(&comparisons) || gives_nothing(repaired) => {
            (GateStatus::Inconclusive, NOTHING_FINITE.to_owned())
        }
        None if !compared => (GateStatus::Inconclusive, "No output could be compared on the target".to_owned()),
        None if comparisons.iter().all(|compared| compared.outcome == Outcome::SameBits) => {
            (GateStatus::Pass, format!("Repaired and original agree bit for bit on {}", original.target.name))
        }
        None => (
            GateStatus::Pass,
            format!(
                "Repaired and original agree on {}, largest difference {}",
                original.target.name,
                largest(reference, &comparisons)
            ),
        ),
    };
    let mut facts = facts(reference, &comparisons, "repaired against original on the target", &original.target.name);
    facts.extend(original.kernels("original on the target"));
    facts.extend(repaired.kernels("repaired on the target"));
    let report =
        GateReport { gate: Gate::DeviceCorrectness, status, summary, facts, seconds: start.elapsed().as_secs_f64() };
    DeviceCorrectness { report, comparisons, corrections }
}
