//! Gate 1: the old and the new subgraph of every changed place, evaluated on many inputs at the real
//! sizes.
//!
//! In: the original and the patched program, the rule's claim, captured activations where there are any,
//! a delegate for operations that the interpreter lacks. Out: a verdict and the numbers of every site.
//!
//! A claim of equal bits must hold bit for bit on every stimulus, in the arithmetic torch uses. Any other
//! claim is held against the old subgraph evaluated in doubles: the new one may be off by the allowance
//! of the values' spread, or by a few times what the old one is off itself, or by a few rounding steps of
//! the largest value; elements that are not finite must be the same. Parameters, unwritten buffers and
//! constants have their real content, everything else is made up or captured.
//!
//! Sites that are alike (same operations, arguments, sizes and constants) are evaluated once. Work is
//! bounded by a budget; when it does not reach for every stimulus, the most telling ones are kept and
//! the report says so.

mod aim;
mod evaluate;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::sites::{self, Site};
use super::stimuli::{self, Stimulus};
use super::tolerance::Claim;
use super::{Fact, Gate, GateReport, GateStatus};
use crate::graph::{Graph, Program, ValueId};
use crate::interpreter::Delegate;
use crate::tensor::Tensor;

pub use evaluate::{Check, Verdict};

const SOURCE: &str = "this host, reference interpreter";

/// What gate 1 works on.
pub struct Task<'a> {
    /// the original's graph
    pub original: &'a Graph,
    /// the patched graph
    pub patched: &'a Graph,
    /// content of a value that never changes (parameter, unwritten buffer, constant), from either
    /// program; `None` for every other value
    pub constant: &'a (dyn Fn(ValueId) -> Result<Option<Tensor>, String> + Sync),
    /// what the rule says
    pub claim: Claim,
    /// of the made-up inputs
    pub seed: u64,
    /// real activations of the original by value, as many a value as there were input sets
    pub captured: &'a HashMap<ValueId, Vec<Tensor>>,
    /// evaluates what the interpreter lacks
    pub delegate: Option<&'a dyn Delegate>,
    /// bound on the work
    pub budget: Budget,
}

/// Bound on the work of one judgement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// element operations, all sites together; about a billion a second and thread
    pub operations: f64,
    /// elements of one tensor
    pub elements: usize,
    /// threads
    pub threads: usize,
}

impl Default for Budget {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(4));
        Self { operations: 1.5e9, elements: 1 << 27, threads }
    }
}

/// The gate's result.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteEquivalence {
    /// for the report and the decision
    pub report: GateReport,
    /// every kind of site
    pub sites: Vec<SiteResult>,
}

/// Sites that are alike, evaluated once.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteResult {
    /// names of the values that had to be equal, `before = after`, of the first site
    pub pairs: Vec<String>,
    /// how many places are alike
    pub places: usize,
    /// operations before and after
    pub operations: (Vec<String>, Vec<String>),
    /// every evaluation
    pub checks: Vec<Check>,
    /// why nothing, or not everything, was evaluated
    pub limits: Vec<String>,
}

/// Judges a patched program.
pub fn judge_programs(
    original: &Program,
    patched: &Program,
    claim: Claim,
    seed: u64,
    captured: &HashMap<ValueId, Vec<Tensor>>,
    delegate: Option<&dyn Delegate>,
) -> SiteEquivalence {
    let constant = |value: ValueId| {
        let program = if original.graph().value(value).is_some() { original } else { patched };
        if !program.is_constant(value) {
            return Ok(None);
        }
        program.payload(value).map_err(|error| error.to_string())
    };
    judge(&Task {
        original: original.graph(),
        patched: patched.graph(),
        constant: &constant,
        claim,
        seed,
        captured,
        delegate,
        budget: Budget::default(),
    })
}

/// The values of the original whose real activations the gate can use: give them as [`Task::captured`].
pub fn wanted(original: &Graph, patched: &Graph) -> Vec<ValueId> {
    let values: BTreeSet<ValueId> = sites::find(original, patched).into_iter().flat_map(|site| site.frontier).collect();
    values.into_iter().filter(|value| original.producer(*value).is_some()).collect()
}

/// Judges the changed places of a graph.
pub fn judge(task: &Task<'_>) -> SiteEquivalence {
    let start = Instant::now();
    let sites = sites::find(task.original, task.patched);
    let mut kinds: BTreeMap<String, (Site<'_>, usize)> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let constants = work::Constants::new(task);
    for site in sites {
        let key = work::key(&site, task, &constants);
        match kinds.get_mut(&key) {
            Some((_, places)) => *places += 1,
            None => {
                order.push(key.clone());
                kinds.insert(key, (site, 1));
            }
        }
    }
    let plans: Vec<work::Plan<'_>> = {
        let count = order.len();
        order
            .iter()
            .filter_map(|key| kinds.remove(key))
            .map(|(site, places)| work::plan(task, site, places, count, &constants))
            .collect()
    };
    let results = evaluate_all(task, &plans, &constants);
    let (status, summary) = verdict(&results, task.claim);
    let report = GateReport {
        gate: Gate::SiteEquivalence,
        status,
        summary,
        facts: facts(&results),
        seconds: start.elapsed().as_secs_f64(),
    };
    SiteEquivalence { report, sites: results }
}

/// Evaluates every stimulus of every plan, on several threads.
fn evaluate_all(task: &Task<'_>, plans: &[work::Plan<'_>], constants: &work::Constants<'_>) -> Vec<SiteResult> {
    let jobs: Vec<(usize, Stimulus)> = plans
        .iter()
        .enumerate()
        .flat_map(|(index, plan)| plan.stimuli.iter().map(move |stimulus| (index, *stimulus)))
        .collect();
    let next = AtomicUsize::new(0);
    let checks: Mutex<Vec<(usize, Check)>> = Mutex::new(Vec::new());
    let work = || {
        while let Some((job, (index, stimulus))) = {
            let job = next.fetch_add(1, Ordering::Relaxed);
            jobs.get(job).map(|found| (job, *found))
        } {
            let Some(plan) = plans.get(index) else { continue };
            let check = evaluate::check(task, &plan.site, stimulus, constants);
            if let Ok(mut checks) = checks.lock() {
                checks.push((job, check));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..task.budget.threads.max(1).min(jobs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let mut checks = checks.into_inner().unwrap_or_default();
    checks.sort_by_key(|(job, _)| *job);
    let mut results: Vec<SiteResult> = plans.iter().map(|plan| plan.result(task)).collect();
    for (job, check) in checks {
        let index = jobs.get(job).map_or(0, |(index, _)| *index);
        if let Some(result) = results.get_mut(index) {
            result.checks.push(check);
        }
    }
    results
}

fn verdict(results: &[SiteResult], claim: Claim) -> (GateStatus, String) {
    if results.is_empty() {
        return (GateStatus::Pass, "The patch changes no value that anything reads".to_owned());
    }
    let places: usize = results.iter().map(|result| result.places).sum();
    let failed = results
        .iter()
        .flat_map(|result| result.checks.iter().map(move |check| (result, check)))
        .find(|(_, check)| matches!(check.verdict, Verdict::Different(_)));
    // What only the original takes counts where the repair was evaluated on something: it can be evaluated, then.
    let refused = || {
        let evaluated = |result: &&SiteResult| result.checks.iter().any(|check| check.verdict == Verdict::Equal);
        let checks = results.iter().filter(evaluated).flat_map(|result| result.checks.iter().map(move |c| (result, c)));
        checks.into_iter().find(|(_, check)| matches!(check.verdict, Verdict::OnlyOriginal(_)))
    };
    if let Some((result, check)) = failed.or_else(refused) {
        let why = match &check.verdict {
            Verdict::Different(why) => why.clone(),
            Verdict::OnlyOriginal(why) => format!("the original can be computed, and the repair cannot: {why}"),
            Verdict::Equal | Verdict::NotEvaluated(_) => String::new(),
        };
        let pair = result.pairs.first().map_or("the repaired place", String::as_str);
        let summary = format!("Not equivalent at `{pair}` on {}: {why}", check.stimulus.name());
        return (GateStatus::Fail, summary);
    }
    for result in results {
        let equal = result.checks.iter().filter(|check| check.verdict == Verdict::Equal).count();
        let pair = result.pairs.first().map_or("the repaired place", String::as_str);
        if equal == 0 {
            let skipped = result.checks.iter().find_map(|check| match &check.verdict {
                Verdict::NotEvaluated(why) | Verdict::OnlyOriginal(why) => Some(why.as_str()),
                _ => None,
            });
            let why = skipped.or(result.limits.first().map(String::as_str)).unwrap_or("nothing could be fed to it");
            return (GateStatus::Inconclusive, format!("`{pair}` could not be evaluated: {why}"));
        }
    }
    let checks: usize = results.iter().map(|result| result.checks.len()).sum();
    let how = match claim {
        Claim::Exact => "bit for bit".to_owned(),
        _ => {
            let checks = || results.iter().flat_map(|result| &result.checks);
            let largest = checks().map(|check| check.relative).fold(0.0, f64::max);
            if checks().all(|check| check.same_bits) {
                "bit for bit".to_owned()
            } else if checks().any(|check| check.rounding) {
                format!("within {largest:.1e} of the values' spread, or to rounding where values hardly spread,")
            } else {
                format!("within {largest:.1e} of the values' spread")
            }
        }
    };
    let kinds = if results.len() == places { String::new() } else { format!(" ({} different)", results.len()) };
    let (noun, verb) = if places == 1 { ("place", "agrees") } else { ("places", "agree") };
    let limit = results.iter().find_map(|result| result.limits.first());
    let limit = limit.map(|limit| format!("; limited to {limit}")).unwrap_or_default();
    (GateStatus::Pass, format!("{places} changed {noun}{kinds} {verb} {how} on {checks} evaluations{limit}"))
}

fn facts(results: &[SiteResult]) -> Vec<Fact> {
    const SHOWN: usize = 40;
    let mut facts = Vec::new();
    let mut fact = |name: String, value: String| facts.push(Fact { name, value, source: SOURCE.to_owned() });
    let delegated: BTreeSet<&str> =
        results.iter().flat_map(|r| &r.checks).flat_map(|c| &c.delegated).map(String::as_str).collect();
    fact(
        "operations evaluated outside of the interpreter".to_owned(),
        if delegated.is_empty() {
            "none".to_owned()
        } else {
            format!("{} (by torch)", delegated.into_iter().collect::<Vec<_>>().join(", "))
        },
    );
    for result in results.iter().take(SHOWN) {
        let name = result.pairs.first().map_or_else(|| "a changed place".to_owned(), |pair| format!("`{pair}`"));
        let places = if result.places > 1 { format!(" and {} places alike", result.places - 1) } else { String::new() };
        let names: Vec<String> = result.checks.iter().map(|check| check.stimulus.name()).collect();
        let worst = result
            .checks
            .iter()
            .filter(|check| check.verdict != Verdict::Equal)
            .chain(result.checks.iter().max_by(|a, b| a.relative.total_cmp(&b.relative)))
            .next();
        let detail = worst.map_or_else(|| "not evaluated".to_owned(), Check::describe);
        fact(
            format!("{name}{places}"),
            format!(
                "{} → {}; {detail}; fed with {}",
                list(&result.operations.0),
                list(&result.operations.1),
                if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
            ),
        );
        for limit in &result.limits {
            fact(format!("limit at {name}"), limit.clone());
        }
    }
    if results.len() > SHOWN {
        fact("further places".to_owned(), format!("{} more, judged but not listed", results.len() - SHOWN));
    }
    facts
}

fn list(operations: &[String]) -> String {
    if operations.is_empty() { "nothing".to_owned() } else { operations.join(" ") }
}

/// The stimuli of a site, before the budget.
fn stimuli(captured: usize, fed: bool, claim: Claim) -> Vec<Stimulus> {
    // Without any input to vary one evaluation says it all.
    if fed { stimuli::plan(captured, claim == Claim::Exact) } else { vec![Stimulus::Constant] }
}

#[cfg(test)]
mod tests;
