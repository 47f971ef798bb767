//! One evaluation of a site: both sides on one stimulus, compared as the claim asks.

use super::work::{Constants, hint, meta, sizes};
use super::{Task, aim};
use crate::gates::inputs::epsilon;
use crate::gates::sites::{self, Site};
use crate::gates::stimuli::{self, Stimulus, Written};
use crate::gates::tolerance::{Claim, Mismatch, compare, place, scale};
use crate::graph::{Argument, Literal, Node, ValueId, ValueKind};
use crate::interpreter::{self, Array, Environment, Item, Precision};
use crate::tensor::Tensor;

/// What an evaluation says.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// as the claim asks
    Equal,
    /// not as the claim asks, with the numbers
    Different(String),
    /// the original takes it and the repair does not, with the reason
    OnlyOriginal(String),
    /// it could not be made, with the reason
    NotEvaluated(String),
}

/// One evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// what the site was fed with
    pub stimulus: Stimulus,
    /// what came of it
    pub verdict: Verdict,
    /// every bit agrees
    pub same_bits: bool,
    /// largest error of the new side against the old one in doubles, relative to the spread of the values,
    /// where the allowance of the spread covers it
    pub relative: f64,
    /// some error is larger than that, and no larger than what rounding explains: values that hardly spread
    pub rounding: bool,
    /// the same in doubles on both sides: what is left without rounding
    pub in_doubles: Option<f64>,
    /// operations that a delegate evaluated
    pub delegated: Vec<String>,
}

impl Check {
    fn not_evaluated(stimulus: Stimulus, why: String) -> Self {
        Self {
            stimulus,
            verdict: Verdict::NotEvaluated(why),
            same_bits: false,
            relative: 0.0,
            rounding: false,
            in_doubles: None,
            delegated: Vec::new(),
        }
    }

    /// One line.
    pub fn describe(&self) -> String {
        match &self.verdict {
            Verdict::Different(why) => format!("different on {}: {why}", self.stimulus.name()),
            Verdict::NotEvaluated(why) => format!("not evaluated: {why}"),
            Verdict::OnlyOriginal(why) => format!("only the original takes {}: {why}", self.stimulus.name()),
            Verdict::Equal if self.same_bits => "bit for bit".to_owned(),
            Verdict::Equal => format!(
                "largest error {} on {}{}",
                if self.rounding {
                    "what rounding explains of values that hardly spread".to_owned()
                } else {
                    format!("{:.1e} of the spread", self.relative)
                },
                self.stimulus.name(),
                self.in_doubles.map_or_else(String::new, |x| format!(", {x:.1e} in doubles"))
            ),
        }
    }
}

/// Evaluates a site. When its sides differ but read values that are made of one another, both are
/// evaluated again together with what lies between.
pub(super) fn check(task: &Task<'_>, site: &Site<'_>, stimulus: Stimulus, constants: &Constants<'_>) -> Check {
    let first = check_once(task, site, stimulus, constants);
    if !matches!(first.verdict, Verdict::Different(_)) {
        return first;
    }
    match sites::with_paths(site, task.original, task.patched) {
        Some(wide) => {
            let second = check_once(task, &wide, stimulus, constants);
            let judged = !matches!(second.verdict, Verdict::NotEvaluated(_) | Verdict::OnlyOriginal(_));
            if judged { second } else { first }
        }
        None => first,
    }
}

/// What the site reads, as tensors.
fn feed(
    task: &Task<'_>,
    site: &Site<'_>,
    stimulus: Stimulus,
    constants: &Constants<'_>,
) -> Result<Vec<(ValueId, Fed)>, String> {
    let in_lines = matches!(stimulus, Stimulus::Along(_) | Stimulus::Across(_));
    let numbers = if in_lines { written(task, site, constants)? } else { Written::default() };
    let mut fed = Vec::with_capacity(site.frontier.len());
    for (index, &value) in site.frontier.iter().enumerate() {
        let known = task.original.value(value).or_else(|| task.patched.value(value));
        let name = known.map_or_else(|| value.to_string(), |value| value.name.clone());
        match known.map(|value| &value.kind) {
            Some(ValueKind::SymInt(dim)) => {
                let number = hint(dim).ok_or_else(|| format!("the size `{name}` has no value at export time"))?;
                fed.push((value, Fed::Int(number)));
                continue;
            }
            Some(ValueKind::Tensor(_)) => {}
            _ => return Err(format!("`{name}` is no tensor")),
        }
        if let Some(tensor) = constants.get(value)? {
            fed.push((value, Fed::Tensor(tensor.as_ref().clone())));
            continue;
        }
        let real = match stimulus {
            Stimulus::Captured(i) => task.captured.get(&value).and_then(|list| list.get(i)).cloned(),
            _ => None,
        };
        let tensor = match real {
            Some(tensor) => tensor,
            None => {
                let meta = meta(task, value).ok_or_else(|| format!("`{name}` is no tensor"))?;
                let sizes = sizes(meta).ok_or_else(|| format!("`{name}` has sizes without a value"))?;
                let made = if in_lines {
                    stimuli::tensor_of(stimulus, &numbers, meta.dtype, &sizes, task.seed, index as u64)
                } else {
                    stimulus.tensor(meta.dtype, &sizes, task.seed, index as u64)
                };
                made.ok_or_else(|| format!("element type `{}` cannot be made up", meta.dtype.torch_name()))?
            }
        };
        fed.push((value, Fed::Tensor(tensor)));
    }
    Ok(fed)
}

/// Arguments that name a place or a dimension: no value is ever compared with them.
const PLACES: [&str; 8] = ["dim", "dim0", "dim1", "start", "end", "step", "length", "index"];

/// The numbers that stand in the new form and in constants that only it reads, and then those of the old form.
#[expect(clippy::cast_precision_loss, reason = "an input, not a result")]
fn written(task: &Task<'_>, site: &Site<'_>, constants: &Constants<'_>) -> Result<Written, String> {
    let literals = |nodes: &[&Node]| -> Vec<f64> {
        let all = nodes.iter().flat_map(|node| &node.inputs).flat_map(|input| match &input.arg {
            Argument::Literal(Literal::Float(number)) => vec![*number],
            Argument::Literal(Literal::Floats(numbers)) => numbers.clone(),
            Argument::Literal(Literal::Int(number)) if !PLACES.contains(&input.name.as_str()) => vec![*number as f64],
            _ => Vec::new(),
        });
        all.collect()
    };
    let reads = |nodes: &[&Node], value: ValueId| {
        nodes.iter().flat_map(|node| &node.inputs).any(|input| input.arg.values().contains(&value))
    };
    // Where a function bends is where a wrong one can hide.
    let bending = aim::bending(&site.new);
    let aimed = if bending.is_empty() {
        Vec::new()
    } else {
        let usual = if task.captured.is_empty() { Stimulus::Random(1) } else { Stimulus::Captured(0) };
        aim::inputs_at_bends(task, site, &feed(task, site, usual, constants)?)
    };
    let mut sources = vec![aimed, literals(&bending), literals(&site.new)];
    for &value in site.frontier.iter().filter(|value| !reads(&site.old, **value)) {
        if let Some(tensor) = constants.get(value)? {
            sources.push(tensor.to_f64().map_or_else(Vec::new, |content| spread_over(&content)));
        }
    }
    // In turns, so that none pushes the numbers of another one out.
    let longest = sources.iter().map(Vec::len).max().unwrap_or(0);
    let mut numbers: Vec<f64> =
        (0..longest).flat_map(|place| sources.iter().filter_map(move |numbers| numbers.get(place).copied())).collect();
    numbers.extend(literals(&site.old));
    Ok(Written::of(&numbers, task.claim == Claim::Exact))
}

/// The different numbers of a constant, its ends first; of many, some from all over it.
pub(super) fn spread_over(content: &[f64]) -> Vec<f64> {
    const MOST: usize = 32;
    let mut sorted: Vec<f64> = content.iter().copied().filter(|number| number.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    let step = sorted.len().div_ceil(MOST).max(1);
    let ends = [sorted.first(), sorted.last()].into_iter().flatten().copied();
    ends.chain(sorted.iter().copied().step_by(step)).collect()
}

/// What one value is fed with.
pub(super) enum Fed {
    Int(i64),
    Tensor(Tensor),
}

/// Values of one side after its evaluation.
pub(super) struct Side {
    pub(super) values: Environment,
    delegated: Vec<String>,
    mutated: Vec<ValueId>,
}

impl Side {
    fn tensor(&self, value: ValueId) -> Option<Tensor> {
        match self.values.get(&value) {
            Some(Item::Tensor(array)) => Some(array.to_tensor()),
            _ => None,
        }
    }

    fn int(&self, value: ValueId) -> Option<i64> {
        match self.values.get(&value) {
            Some(Item::Int(n)) => Some(*n),
            _ => None,
        }
    }
}

/// Why one side gave nothing.
pub(super) enum Unevaluated {
    /// the interpreter cannot do it
    Limit(String),
    /// the operations do not take what they were given
    Refused(String),
}

impl Unevaluated {
    fn why(self) -> String {
        match self {
            Self::Limit(why) | Self::Refused(why) => why,
        }
    }
}

impl From<interpreter::Error> for Unevaluated {
    fn from(error: interpreter::Error) -> Self {
        use interpreter::Error::{Argument, Delegate, Shape};
        match error {
            Argument { .. } | Shape { .. } | Delegate { .. } => Self::Refused(error.to_string()),
            _ => Self::Limit(error.to_string()),
        }
    }
}

/// One side of a site, evaluated.
pub(super) fn evaluated(
    task: &Task<'_>,
    nodes: &[&Node],
    fed: &[(ValueId, Fed)],
    wanted: &[ValueId],
    precision: Precision,
) -> Result<Side, Unevaluated> {
    let mut given = Environment::new();
    for (value, item) in fed {
        let item = match item {
            Fed::Int(n) => Item::Int(*n),
            Fed::Tensor(tensor) => Item::Tensor(Array::from_tensor(tensor, precision).ok_or_else(|| {
                Unevaluated::Limit(format!("element type `{}` cannot be evaluated", tensor.dtype.torch_name()))
            })?),
        };
        given.insert(*value, item);
    }
    let run = interpreter::run(nodes, given, wanted, precision, task.budget.elements, task.delegate)
        .map_err(Unevaluated::from)?;
    Ok(Side { values: run.values, delegated: run.delegated, mutated: run.mutated })
}

fn check_once(task: &Task<'_>, site: &Site<'_>, stimulus: Stimulus, constants: &Constants<'_>) -> Check {
    let fed = match feed(task, site, stimulus, constants) {
        Ok(fed) => fed,
        Err(why) => return Check::not_evaluated(stimulus, why),
    };
    let ends = |select: fn(&(ValueId, ValueId)) -> ValueId| site.pairs.iter().map(select).collect::<Vec<_>>();
    let (befores, afters) = (ends(|pair| pair.0), ends(|pair| pair.1));
    let old = match evaluated(task, &site.old, &fed, &befores, Precision::Torch) {
        Ok(side) => side,
        Err(error) => return Check::not_evaluated(stimulus, error.why()),
    };
    let new = match evaluated(task, &site.new, &fed, &afters, Precision::Torch) {
        Ok(side) => side,
        Err(Unevaluated::Limit(why)) => return Check::not_evaluated(stimulus, why),
        Err(Unevaluated::Refused(why)) => {
            return Check { verdict: Verdict::OnlyOriginal(why), ..Check::not_evaluated(stimulus, String::new()) };
        }
    };
    let mut check = Check {
        stimulus,
        verdict: Verdict::Equal,
        same_bits: true,
        relative: 0.0,
        rounding: false,
        in_doubles: None,
        delegated: old.delegated.iter().chain(&new.delegated).cloned().collect(),
    };
    check.delegated.sort_unstable();
    check.delegated.dedup();
    // What is written to must be the same too, to the bits or to the tolerance.
    let mut pairs = site.pairs.clone();
    for value in old.mutated.iter().chain(&new.mutated) {
        if !pairs.contains(&(*value, *value)) {
            pairs.push((*value, *value));
        }
    }
    let judges = if task.claim == Claim::Exact {
        None
    } else {
        let judge = |nodes: &[&Node], wanted: &[ValueId]| evaluated(task, nodes, &fed, wanted, Precision::Judge);
        match (judge(&site.old, &befores), judge(&site.new, &afters)) {
            (Ok(old), Ok(new)) => Some((old, new)),
            (Err(error), _) | (_, Err(error)) => return Check::not_evaluated(stimulus, error.why()),
        }
    };
    for (before, after) in pairs {
        if let (Some(a), Some(b)) = (old.int(before), new.int(after)) {
            if a != b {
                check.verdict = Verdict::Different(format!("size {b} instead of {a}"));
                return check;
            }
            continue;
        }
        let (Some(expected), Some(found)) = (old.tensor(before), new.tensor(after)) else {
            return Check::not_evaluated(stimulus, format!("`{before}` or `{after}` was not made"));
        };
        let difference = match &judges {
            None => exact(&expected, &found, &mut check),
            Some((old_judge, new_judge)) => {
                let (Some(truth), Some(pure)) = (old_judge.tensor(before), new_judge.tensor(after)) else {
                    return Check::not_evaluated(stimulus, format!("`{before}` or `{after}` was not made"));
                };
                let doubles = Doubles { truth: &truth, pure: &pure };
                within(&expected, &found, &doubles, task.claim, &mut check)
            }
        };
        if let Some(why) = difference {
            check.verdict = Verdict::Different(why);
            return check;
        }
    }
    check
}

/// Every bit must agree.
fn exact(expected: &Tensor, found: &Tensor, check: &mut Check) -> Option<String> {
    let mut comparison = compare(expected, found, 0.0);
    check.same_bits &= comparison.same_bits;
    if comparison.same_bits {
        return None;
    }
    comparison.scale = scale([expected]).spread;
    check.relative = check.relative.max(comparison.relative());
    Some(if comparison.mismatch.is_none() && comparison.error == 0.0 {
        "zeros of different sign".to_owned()
    } else {
        comparison.describe()
    })
}

/// Both sides in doubles.
struct Doubles<'a> {
    /// the old side: what is right
    truth: &'a Tensor,
    /// the new side without rounding
    pure: &'a Tensor,
}

/// The new side may use the allowance, or a few times the old side's own rounding.
fn within(expected: &Tensor, found: &Tensor, doubles: &Doubles<'_>, claim: Claim, check: &mut Check) -> Option<String> {
    let direct = compare(expected, found, 1.0);
    check.same_bits &= direct.same_bits;
    match &direct.mismatch {
        None => {}
        Some(Mismatch::NotFinite { .. } | Mismatch::Sizes { .. } | Mismatch::Dtype { .. } | Mismatch::Unreadable) => {
            return Some(direct.describe());
        }
    }
    if direct.is_discrete() {
        return (direct.differing > 0).then(|| direct.describe());
    }
    let (Some(truth), Some(pure), Some(old), Some(new)) =
        (doubles.truth.doubles(), doubles.pure.doubles(), expected.doubles(), found.doubles())
    else {
        return Some("an element type that cannot be compared".to_owned());
    };
    let spread = scale([doubles.truth]);
    let (mut own, mut error, mut at, mut unrounded) = (0.0_f64, 0.0_f64, 0, 0.0_f64);
    let mut next = 0;
    truth.each_pair(&pure, |truth, pure| {
        let i = next;
        next += 1;
        let (old, new) = (old.at(i), new.at(i));
        // Singles overflow where doubles do not; such elements were compared directly.
        if !(truth.is_finite() && old.is_finite() && new.is_finite()) {
            return;
        }
        own = own.max((old - truth).abs());
        if (new - truth).abs() > error {
            error = (new - truth).abs();
            at = i;
        }
        if pure.is_finite() {
            unrounded = unrounded.max((pure - truth).abs());
        }
    });
    let relative = if error == 0.0 { 0.0 } else { error / spread.spread };
    let of_spread = claim.allowance(expected.dtype) * spread.spread;
    let allowed = of_spread.max(8.0 * own).max(4.0 * epsilon(expected.dtype) * spread.magnitude);
    if error <= of_spread {
        check.relative = check.relative.max(relative);
    } else {
        check.rounding = true;
    }
    let doubles = if spread.magnitude > 0.0 { unrounded / spread.magnitude } else { unrounded };
    check.in_doubles = Some(check.in_doubles.unwrap_or(0.0).max(doubles));
    if error <= allowed {
        return None;
    }
    Some(format!(
        "{relative:.1e} of the spread at {:?}: {:.6e} instead of {:.6e} (allowed {:.1e}; in doubles {doubles:.1e} apart)",
        place(at, &expected.sizes),
        new.at(at),
        truth.at(at),
        if spread.spread > 0.0 { allowed / spread.spread } else { 0.0 },
    ))
}
