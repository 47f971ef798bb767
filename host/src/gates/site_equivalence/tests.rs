//! Gate 1 on small graphs.

use proptest::prelude::*;

use super::super::sites::tests::{Line, graph, int, ints, value};
use super::*;
use crate::gates::inputs::floats;
use crate::graph::{Argument, Literal, ScalarType};
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
        let args =
            vec![("self", super::super::sites::tests::value(0)), ("pad", ints(&[1, 1, 1, 1])), ("value", int(value))];
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
    assert!(result.report.summary.contains("huge numbers"), "{}", result.report.summary);
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
    let old =
        graph(&[(0, X.to_vec())], vec![one(1, "aten.clone.default", 0, X), one(2, "aten.relu_.default", 1, X)], &[2]);
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
    let new =
        graph(&[(0, X.to_vec())], vec![one(2, "aten.clone.default", 0, X), one(3, "mine.cube.default", 2, X)], &[3]);
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

/// A softmax that is right but for numbers from 40 to 60, which it takes for others before it.
fn wrong_in_a_range_before_a_softmax(dim: i64, sizes: &[i64]) -> Graph {
    let float = |number: f64| Argument::Literal(Literal::Float(number));
    let clamp = |id: u32, least: f64, most: f64| {
        let inputs = vec![("self", value(0)), ("min", float(least)), ("max", float(most))];
        Line(id, "aten.clamp.default", inputs, sizes.to_vec())
    };
    let two = |id: u32, op: &'static str, a: u32, b: u32| {
        Line(id, op, vec![("self", value(a)), ("other", value(b))], sizes.to_vec())
    };
    let lines = vec![
        clamp(11, 50.0, 60.0),
        clamp(12, 40.0, 50.0),
        two(13, "aten.sub.Tensor", 11, 12),
        two(14, "aten.add.Tensor", 0, 13),
        softmax(15, 14, dim, sizes),
        one(9, "aten.relu.default", 15, sizes),
    ];
    graph(&[(0, sizes.to_vec())], lines, &[9])
}

#[test]
fn what_a_softmax_forgets_does_not_hide_a_wrong_range() {
    let claim = Claim::Tolerant { relative: 1e-5 };
    let tight = Budget { operations: 1.0, elements: 1 << 20, threads: 1 };
    let captured = HashMap::new();
    for sizes in [[1_i64, 21, 24, 32], [1, 6, 48, 5], [2, 40, 8, 3]] {
        for dim in 1..4 {
            let original = graph(
                &[(0, sizes.to_vec())],
                vec![softmax(8, 0, dim, &sizes), one(9, "aten.relu.default", 8, &sizes)],
                &[9],
            );
            let wrong = wrong_in_a_range_before_a_softmax(dim, &sizes);
            // Also where only the most telling patterns are paid for.
            for budget in [tight, Budget { threads: 2, ..Budget::default() }] {
                let result = judge(&Task { budget, ..task(&original, &wrong, claim, &captured) });
                assert_eq!(result.report.status, GateStatus::Fail, "{sizes:?} {dim}: {}", result.report.summary);
            }
        }
    }
}

#[test]
fn work_beyond_the_budget_is_left_out_and_said() {
    let (old, new) = (softmax_over_channels(), softmax_by_rank_three(-1));
    let captured = HashMap::new();
    let tight = Budget { operations: 1.0, elements: 1 << 20, threads: 1 };
    let result = judge(&Task { budget: tight, ..task(&old, &new, Claim::Exact, &captured) });
    assert_eq!(result.report.status, GateStatus::Pass);
    assert!(result.sites[0].limits[0].starts_with("4 of "), "{:?}", result.sites[0].limits);
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

/// `relu`, and `relu` of what a constant cuts off at 1000.
fn cut_off_by_a_constant(claim: Claim, content: &Tensor, sizes: &[i64]) -> SiteEquivalence {
    let inputs = [(0, sizes.to_vec()), (5, vec![1])];
    let original = graph(&inputs, vec![one(9, "aten.relu.default", 0, sizes)], &[9]);
    let cut = Line(4, "aten.minimum.default", vec![("self", value(0)), ("other", value(5))], sizes.to_vec());
    let patched = graph(&inputs, vec![cut, one(9, "aten.relu.default", 4, sizes)], &[9]);
    let constant = |id: ValueId| Ok((id == ValueId(5)).then(|| content.clone()));
    judge(&Task { constant: &constant, ..task(&original, &patched, claim, &HashMap::new()) })
}

#[test]
fn a_number_that_a_new_constant_hides_is_fed() {
    for claim in [Claim::Exact, Claim::Tolerant { relative: 1e-4 }] {
        let content = floats(ScalarType::Float32, &[1], |_| 53.000_06);
        let result = cut_off_by_a_constant(claim, &content, &[4, 64]);
        assert_eq!(result.report.status, GateStatus::Fail, "{}", result.report.summary);
    }
    // What hides among many is fed as far as ends and samples go.
    let many = floats(ScalarType::Float32, &[300], |place| if place == 7 { 1000.0 } else { 1e30 });
    let numbers = super::evaluate::spread_over(&many.to_f64().expect("real"));
    assert!(numbers.contains(&1000.0) && numbers.contains(&f64::from(1e30_f32)), "{numbers:?}");
}

#[test]
fn a_dip_behind_factors_and_an_offset_is_found() {
    let float = |number: f64| Argument::Literal(Literal::Float(number));
    let sizes: &[i64] = &[1, 21, 24, 32];
    let two = |id: u32, op: &'static str, a: u32, b: Argument| {
        Line(id, op, vec![("self", value(a)), ("other", b)], sizes.to_vec())
    };
    let clamp = |id: u32, of: u32, ends: [f64; 2]| {
        let inputs = vec![("self", value(of)), ("min", float(ends[0])), ("max", float(ends[1]))];
        Line(id, "aten.clamp.default", inputs, sizes.to_vec())
    };
    let width = 1.0 / 16384.0;
    let dip = |factor: f64, offset: f64| {
        let at = |number: f64| number * factor * 4096.0 + offset;
        let [a, b, c] = [at(53.0), at(53.0 + width), at(53.0 + 2.0 * width)];
        let lines = vec![
            two(10, "aten.mul.Scalar", 0, float(16.0)),
            two(11, "aten.mul.Scalar", 10, float(256.0)),
            two(12, "aten.mul.Scalar", 11, float(factor)),
            two(13, "aten.add.Scalar", 12, float(offset)),
            clamp(14, 13, if a < b { [a, b] } else { [b, a] }),
            clamp(15, 13, if b < c { [b, c] } else { [c, b] }),
            two(16, "aten.sub.Tensor", 14, value(15)),
            two(17, "aten.mul.Scalar", 16, float(10.0)),
            two(18, "aten.add.Tensor", 0, value(17)),
            softmax(19, 18, 1, sizes),
            one(9, "aten.relu.default", 19, sizes),
        ];
        graph(&[(0, sizes.to_vec())], lines, &[9])
    };
    let original =
        graph(&[(0, sizes.to_vec())], vec![softmax(8, 0, 1, sizes), one(9, "aten.relu.default", 8, sizes)], &[9]);
    for (factor, offset) in [(1.0, 0.0), (-4.0, 0.0), (4.0, 3.0)] {
        let result = judged(&original, &dip(factor, offset), Claim::Tolerant { relative: 1e-4 });
        assert_eq!(result.report.status, GateStatus::Fail, "{factor} {offset}: {}", result.report.summary);
    }
}
