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
        if !program.aliases().is_constant(value) {
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
    if let Some((result, check)) = failed {
        let why = match &check.verdict {
            Verdict::Different(why) => why.as_str(),
            _ => "",
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
                Verdict::NotEvaluated(why) => Some(why.as_str()),
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
            let largest = results
                .iter()
                .flat_map(|result| &result.checks)
                .filter(|check| !check.stimulus.is_not_finite())
                .map(|check| check.relative)
                .filter(|relative| relative.is_finite())
                .fold(0.0, f64::max);
            format!("within {largest:.1e} of the values' spread")
        }
    };
    let kinds = if results.len() == places { String::new() } else { format!(" ({} different)", results.len()) };
    (GateStatus::Pass, format!("{places} changed places{kinds} agree {how} on {checks} evaluations"))
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
mod tests {
    use proptest::prelude::*;

    use super::super::sites::tests::{Line, graph, int, ints, value};
    use super::*;
    use crate::gates::inputs::floats;
    use crate::graph::ScalarType;
    use crate::interpreter::{Item, Precision};

    fn task<'a>(
        original: &'a Graph,
        patched: &'a Graph,
        claim: Claim,
        captured: &'a HashMap<ValueId, Vec<Tensor>>,
    ) -> Task<'a> {
        Task {
            original,
            patched,
            constant: &|_| Ok(None),
            claim,
            seed: 3,
            captured,
            delegate: None,
            budget: Budget { threads: 2, ..Budget::default() },
        }
    }

    fn judged(original: &Graph, patched: &Graph, claim: Claim) -> SiteEquivalence {
        judge(&task(original, patched, claim, &HashMap::new()))
    }

    fn one(id: u32, op: &'static str, of: u32, sizes: &[i64]) -> Line {
        Line(id, op, vec![("self", value(of))], sizes.to_vec())
    }

    fn softmax(id: u32, of: u32, dim: i64, sizes: &[i64]) -> Line {
        Line(id, "aten.softmax.int", vec![("self", value(of)), ("dim", int(dim))], sizes.to_vec())
    }

    fn view(id: u32, of: u32, sizes: &[i64]) -> Line {
        Line(id, "aten.view.default", vec![("self", value(of)), ("size", ints(sizes))], sizes.to_vec())
    }

    fn permute(id: u32, of: u32, dims: &[i64], sizes: &[i64]) -> Line {
        Line(id, "aten.permute.default", vec![("self", value(of)), ("dims", ints(dims))], sizes.to_vec())
    }

    const X: &[i64] = &[1, 5, 4, 3];

    fn softmax_over_channels() -> Graph {
        graph(&[(0, X.to_vec())], vec![softmax(1, 0, 1, X), one(9, "aten.relu.default", 1, X)], &[9])
    }

    /// Softmax over channels by a view of rank 3; `dim` is where it is taken.
    fn softmax_by_rank_three(dim: i64) -> Graph {
        let lines = vec![
            view(11, 0, &[1, 5, 12]),
            permute(12, 11, &[0, 2, 1], &[1, 12, 5]),
            softmax(13, 12, dim, &[1, 12, 5]),
            permute(14, 13, &[0, 2, 1], &[1, 5, 12]),
            one(15, "aten.contiguous.default", 14, &[1, 5, 12]),
            view(16, 15, X),
            one(9, "aten.relu.default", 16, X),
        ];
        graph(&[(0, X.to_vec())], lines, &[9])
    }

    #[test]
    fn softmax_by_a_view_of_rank_three_is_the_same_to_the_bit() {
        let result = judged(&softmax_over_channels(), &softmax_by_rank_three(-1), Claim::Exact);
        assert_eq!(result.report.status, GateStatus::Pass, "{:#?}", result.report);
        assert_eq!(result.sites.len(), 1);
        assert_eq!(result.sites[0].pairs, ["v1 = v16"]);
        let names: Vec<String> = result.sites[0].checks.iter().map(|check| check.stimulus.name()).collect();
        for needed in ["zeros", "ties", "infinities", "large magnitudes", "tiny magnitudes", "NaN"] {
            assert!(names.iter().any(|name| name == needed), "{names:?}");
        }
    }

    #[test]
    fn softmax_over_the_wrong_dimension_fails_with_the_place() {
        for claim in [Claim::Exact, Claim::Tolerant { relative: 1e-4 }] {
            let result = judged(&softmax_over_channels(), &softmax_by_rank_three(1), claim);
            assert_eq!(result.report.status, GateStatus::Fail);
            assert!(result.report.summary.starts_with("Not equivalent at `v1 = v16`"), "{}", result.report.summary);
        }
    }

    fn pool(id: u32, of: u32, padding: &[i64], sizes: &[i64]) -> Line {
        let args = vec![
            ("self", value(of)),
            ("kernel_size", ints(&[3, 3])),
            ("stride", ints(&[1, 1])),
            ("padding", ints(padding)),
        ];
        Line(id, "aten.avg_pool2d.default", args, sizes.to_vec())
    }

    #[test]
    fn counted_padding_made_explicit_is_the_same_to_the_bit() {
        let old = graph(&[(0, X.to_vec())], vec![pool(1, 0, &[1, 1], X)], &[1]);
        let pad = |value: i64| {
            let args = vec![
                ("self", super::super::sites::tests::value(0)),
                ("pad", ints(&[1, 1, 1, 1])),
                ("value", int(value)),
            ];
            Line(2, "aten.constant_pad_nd.default", args, vec![1, 5, 6, 5])
        };
        let new = |value| graph(&[(0, X.to_vec())], vec![pad(value), pool(3, 2, &[0, 0], X)], &[3]);
        assert_eq!(judged(&old, &new(0), Claim::Exact).report.status, GateStatus::Pass);
        assert_eq!(judged(&old, &new(1), Claim::Exact).report.status, GateStatus::Fail);
    }

    fn twice(id: u32, of: u32) -> Line {
        Line(id, "aten.add.Tensor", vec![("self", value(of)), ("other", value(of))], X.to_vec())
    }

    fn times(id: u32, of: u32, factor: f64) -> Line {
        let factor = crate::graph::Argument::Literal(crate::graph::Literal::Float(factor));
        Line(id, "aten.mul.Tensor", vec![("self", value(of)), ("other", factor)], X.to_vec())
    }

    #[test]
    fn a_tolerance_covers_rounding_and_no_more() {
        let old = graph(&[(0, X.to_vec())], vec![twice(1, 0)], &[1]);
        let new = |factor| graph(&[(0, X.to_vec())], vec![times(2, 0, factor)], &[2]);
        let claim = Claim::Tolerant { relative: 1e-5 };
        assert_eq!(judged(&old, &new(2.0), claim).report.status, GateStatus::Pass);
        assert_eq!(judged(&old, &new(2.000_001), claim).report.status, GateStatus::Pass);
        let result = judged(&old, &new(2.000_1), claim);
        assert_eq!(result.report.status, GateStatus::Fail);
        assert!(result.report.summary.contains("in doubles"), "{}", result.report.summary);
        // A greedy claim does not help.
        assert_eq!(judged(&old, &new(2.01), Claim::Tolerant { relative: 1.0 }).report.status, GateStatus::Fail);
        assert_eq!(judged(&old, &new(2.000_001), Claim::Exact).report.status, GateStatus::Fail);
    }

    #[test]
    fn a_form_that_overflows_earlier_is_found() {
        // x * 1e30 * 1e-30 is x for small numbers only.
        let old = graph(&[(0, X.to_vec())], vec![one(1, "aten.clone.default", 0, X)], &[1]);
        let new = graph(&[(0, X.to_vec())], vec![times(2, 0, 1e36), times(3, 2, 1e-36)], &[3]);
        let result = judged(&old, &new, Claim::Tolerant { relative: 1e-4 });
        assert_eq!(result.report.status, GateStatus::Fail);
        assert!(result.report.summary.contains("large magnitudes"), "{}", result.report.summary);
    }

    #[test]
    fn places_that_are_alike_are_evaluated_once() {
        let alias = |id, of| one(id, "aten.alias.default", of, X);
        let relu = |id, of| one(id, "aten.relu.default", of, X);
        let old: Vec<Line> = (0..32).flat_map(|i| [alias(2 * i + 1, 2 * i), relu(2 * i + 2, 2 * i + 1)]).collect();
        let new: Vec<Line> = (0..32).map(|i| relu(2 * i + 2, 2 * i)).collect();
        let (old, new) = (graph(&[(0, X.to_vec())], old, &[64]), graph(&[(0, X.to_vec())], new, &[64]));
        let result = judged(&old, &new, Claim::Exact);
        assert_eq!(result.report.status, GateStatus::Pass);
        assert_eq!((result.sites.len(), result.sites[0].places), (1, 32));
        assert!(result.report.summary.contains("32 changed places (1 different)"), "{}", result.report.summary);
    }

    #[test]
    fn a_written_value_must_be_the_same_afterwards() {
        // clone().relu_() leaves the input alone, relu_() does not, although the results agree.
        let old = graph(
            &[(0, X.to_vec())],
            vec![one(1, "aten.clone.default", 0, X), one(2, "aten.relu_.default", 1, X)],
            &[2],
        );
        let new = graph(&[(0, X.to_vec())], vec![one(2, "aten.relu_.default", 0, X)], &[2]);
        // The reader itself is unchanged; widen the site to it as a patch of both would.
        let result = judged(&old, &new, Claim::Exact);
        assert_eq!(result.sites[0].pairs, ["v1 = v0"]);
        let fused = graph(&[(0, X.to_vec())], vec![one(3, "aten.relu_.default", 0, X)], &[3]);
        let result = judged(&old, &fused, Claim::Exact);
        assert_eq!(result.report.status, GateStatus::Fail, "{:#?}", result.report);
    }

    /// Knows one operation and nothing else.
    struct Cube;

    impl Delegate for Cube {
        fn evaluate(&self, op: &str, args: &[(String, Item)], _: Precision) -> Result<Vec<Tensor>, String> {
            match args.first() {
                Some((_, Item::Tensor(x))) if op == "mine.cube.default" => {
                    let x = x.to_tensor();
                    let values = x.to_f64().ok_or("not real")?;
                    Ok(vec![floats(x.dtype, &x.sizes, |i| values.get(i).map_or(0.0, |v| v * v * v))])
                }
                _ => Err(format!("no {op}")),
            }
        }
    }

    #[test]
    fn what_the_interpreter_lacks_is_delegated_and_named() {
        let old = graph(&[(0, X.to_vec())], vec![one(1, "mine.cube.default", 0, X)], &[1]);
        let new = graph(
            &[(0, X.to_vec())],
            vec![one(2, "aten.clone.default", 0, X), one(3, "mine.cube.default", 2, X)],
            &[3],
        );
        let captured = HashMap::new();
        let alone = judge(&task(&old, &new, Claim::Exact, &captured));
        assert_eq!(alone.report.status, GateStatus::Inconclusive);
        assert!(alone.report.summary.contains("has no `mine.cube.default`"), "{}", alone.report.summary);
        let helped = judge(&Task { delegate: Some(&Cube), ..task(&old, &new, Claim::Exact, &captured) });
        assert_eq!(helped.report.status, GateStatus::Pass, "{:#?}", helped.report);
        assert!(helped.report.facts[0].value.contains("mine.cube.default (by torch)"));
    }

    #[test]
    fn real_activations_come_first() {
        let captured = HashMap::from([(ValueId(0), vec![floats(ScalarType::Float32, &[1, 5, 4, 3], |_| -7.0)])]);
        // Wrong for the real activations only.
        let old = graph(&[(0, X.to_vec())], vec![one(1, "aten.clone.default", 0, X)], &[1]);
        let clamp = vec![("self", value(0)), ("min", int(-6)), ("max", int(1_000_000))];
        let new = graph(&[(0, X.to_vec())], vec![Line(2, "aten.clamp.default", clamp, X.to_vec())], &[2]);
        let result = judge(&task(&old, &new, Claim::Tolerant { relative: 1e-4 }, &captured));
        assert!(result.report.summary.contains("on real activations 1"), "{}", result.report.summary);
    }

    #[test]
    fn constants_have_their_real_content() {
        let old = graph(
            &[(0, X.to_vec()), (7, vec![1])],
            vec![Line(1, "aten.mul.Tensor", vec![("self", value(0)), ("other", value(7))], X.to_vec())],
            &[1],
        );
        let new = graph(&[(0, X.to_vec()), (7, vec![1])], vec![one(2, "aten.clone.default", 0, X)], &[2]);
        let captured = HashMap::new();
        for (content, status) in [(1.0, GateStatus::Pass), (1.5, GateStatus::Fail)] {
            let constant =
                |value: ValueId| Ok((value == ValueId(7)).then(|| floats(ScalarType::Float32, &[1], |_| content)));
            let task = Task { constant: &constant, ..task(&old, &new, Claim::Exact, &captured) };
            assert_eq!(judge(&task).report.status, status);
        }
        let unreadable = |_: ValueId| Err("the archive is gone".to_owned());
        let result = judge(&Task { constant: &unreadable, ..task(&old, &new, Claim::Exact, &captured) });
        assert_eq!(result.report.status, GateStatus::Inconclusive);
        assert!(result.report.summary.contains("the archive is gone"), "{}", result.report.summary);
    }

    #[test]
    fn work_beyond_the_budget_is_left_out_and_said() {
        let (old, new) = (softmax_over_channels(), softmax_by_rank_three(-1));
        let captured = HashMap::new();
        let tight = Budget { operations: 1.0, elements: 1 << 20, threads: 1 };
        let result = judge(&Task { budget: tight, ..task(&old, &new, Claim::Exact, &captured) });
        assert_eq!(result.report.status, GateStatus::Pass);
        assert!(result.sites[0].limits[0].starts_with("2 of "), "{:?}", result.sites[0].limits);
        let tiny = Budget { operations: 1e9, elements: 3, threads: 1 };
        let result = judge(&Task { budget: tiny, ..task(&old, &new, Claim::Exact, &captured) });
        assert_eq!(result.report.status, GateStatus::Inconclusive);
    }

    #[test]
    fn a_patch_without_consequence_passes() {
        let graph = softmax_over_channels();
        assert_eq!(judged(&graph, &graph, Claim::Exact).report.status, GateStatus::Pass);
        assert_eq!(wanted(&graph, &softmax_by_rank_three(-1)), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn permuting_back_and_forth_changes_nothing(
            sizes in prop::collection::vec(1_i64..5, 3),
            order in Just(vec![0_i64, 1, 2]).prop_shuffle(),
            seed in any::<u64>(),
        ) {
            let mut back = vec![0_i64; 3];
            let mut moved = vec![0_i64; 3];
            for (i, &axis) in order.iter().enumerate() {
                back[usize::try_from(axis).expect("small")] = i64::try_from(i).expect("small");
                moved[i] = sizes[usize::try_from(axis).expect("small")];
            }
            let old = graph(&[(0, sizes.clone())], vec![one(1, "aten.alias.default", 0, &sizes)], &[1]);
            let new = |back: &[i64]| {
                graph(&[(0, sizes.clone())], vec![permute(2, 0, &order, &moved), permute(3, 2, back, &sizes)], &[3])
            };
            let captured = HashMap::new();
            let (right, wrong) = (new(&back), new(&order));
            let judged = judge(&Task { seed, ..task(&old, &right, Claim::Exact, &captured) });
            prop_assert_eq!(judged.report.status, GateStatus::Pass);
            if order != back && sizes.iter().filter(|&&n| n > 1).count() == 3 {
                let judged = judge(&Task { seed, ..task(&old, &wrong, Claim::Exact, &captured) });
                prop_assert_eq!(judged.report.status, GateStatus::Fail);
            }
        }
    }
}
