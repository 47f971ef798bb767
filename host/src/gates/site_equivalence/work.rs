//! What to evaluate: likeness of sites, cost, the choice of stimuli, constants.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use sha2::{Digest as _, Sha256};

use super::{SiteResult, Task, stimuli};
use crate::gates::sites::Site;
use crate::gates::stimuli::Stimulus;
use crate::gates::tolerance::Claim;
use crate::graph::{Argument, Dim, Graph, Literal, Node, SymIntArgument, TensorMeta, ValueId};
use crate::interpreter::{Work, effort};
use crate::tensor::Tensor;

/// A site is evaluated at least four times, whatever the budget, unless one evaluation takes more element
/// operations than this.
const MOST_OPERATIONS: f64 = 3e10;
/// How many times as much as the original form the repaired one may count when stimuli are paid for.
const MOST_NEW: f64 = 3.0;

/// Content of a value that never changes, if it is one.
type Content = Result<Option<Arc<Tensor>>, String>;

/// Content of constants, read once.
pub(super) struct Constants<'a> {
    task: &'a Task<'a>,
    known: Mutex<HashMap<ValueId, Content>>,
}

impl<'a> Constants<'a> {
    pub(super) fn new(task: &'a Task<'a>) -> Self {
        Self { task, known: Mutex::new(HashMap::new()) }
    }

    pub(super) fn get(&self, value: ValueId) -> Content {
        let read = || (self.task.constant)(value).map(|tensor| tensor.map(Arc::new));
        match self.known.lock() {
            Ok(mut known) => known.entry(value).or_insert_with(read).clone(),
            Err(_) => read(),
        }
    }
}

/// Metadata of a value in either graph.
pub(super) fn meta<'a>(task: &Task<'a>, value: ValueId) -> Option<&'a TensorMeta> {
    task.original.tensor(value).or_else(|| task.patched.tensor(value))
}

/// Sizes with the values of symbols at export time; `None` when one has none.
pub(super) fn sizes(meta: &TensorMeta) -> Option<Vec<usize>> {
    meta.sizes.iter().map(|dim| hint(dim).and_then(|n| usize::try_from(n).ok())).collect()
}

/// The value of a dimension at export time.
pub(super) fn hint(dim: &Dim) -> Option<i64> {
    match dim {
        Dim::Fixed(n) => Some(*n),
        Dim::Symbolic(symbol) => symbol.hint,
    }
}

/// Text that is equal for sites that compute the same from inputs of the same form.
pub(super) fn key(site: &Site<'_>, task: &Task<'_>, constants: &Constants<'_>) -> String {
    let mut text = String::new();
    let mut local: HashMap<ValueId, usize> = HashMap::new();
    let mut name = |value: ValueId| {
        let next = local.len();
        *local.entry(value).or_insert(next)
    };
    for nodes in [&site.old, &site.new] {
        for node in nodes {
            let _ = write!(text, "{}(", node.op);
            for input in &node.inputs {
                let _ = write!(text, "{}=", input.name);
                match &input.arg {
                    Argument::Literal(literal) => {
                        let _ = write!(text, "{literal:?}");
                    }
                    Argument::SymInts(items) => {
                        for item in items {
                            let _ = match item {
                                SymIntArgument::Fixed(n) => write!(text, "{n},"),
                                SymIntArgument::Value(value) => write!(text, "#{},", name(*value)),
                            };
                        }
                    }
                    Argument::OptionalValues(items) => {
                        for item in items {
                            let _ = match item {
                                None => write!(text, "-,"),
                                Some(value) => write!(text, "#{},", name(*value)),
                            };
                        }
                    }
                    other => {
                        for value in other.values() {
                            let _ = write!(text, "#{},", name(value));
                        }
                    }
                }
                text.push(';');
            }
            text.push_str(")→");
            for value in node.output_values() {
                let _ = write!(text, "#{},", name(value));
            }
        }
        text.push('|');
    }
    for (before, after) in &site.pairs {
        let _ = write!(text, "#{}=#{};", name(*before), name(*after));
    }
    let mut frontier: Vec<(usize, ValueId)> = site.frontier.iter().map(|value| (name(*value), *value)).collect();
    frontier.sort_unstable();
    for (number, value) in frontier {
        let _ = write!(text, "|#{number}:");
        if let Some(meta) = meta(task, value) {
            let _ = write!(text, "{:?}{:?}", meta.dtype, sizes(meta));
        }
        match constants.get(value) {
            Ok(Some(tensor)) => {
                let _ = write!(text, "={}", hex::encode(Sha256::digest(&tensor.bytes)));
            }
            Ok(None) if task.captured.contains_key(&value) => {
                // Real activations belong to one place.
                let _ = write!(text, "@{value}");
            }
            Ok(None) => {}
            Err(_) => {
                let _ = write!(text, "!{value}");
            }
        }
    }
    text
}

/// What to do about a site.
pub(super) struct Plan<'a> {
    pub(super) site: Site<'a>,
    pub(super) stimuli: Vec<Stimulus>,
    places: usize,
    limits: Vec<String>,
}

impl Plan<'_> {
    /// The result before any evaluation.
    pub(super) fn result(&self, task: &Task<'_>) -> SiteResult {
        let name = |graph: &Graph, value: ValueId| {
            graph.value(value).map_or_else(|| value.to_string(), |value| value.name.clone())
        };
        let pairs = self.site.pairs.iter().map(|(before, after)| {
            let (before, after) = (name(task.original, *before), name(task.patched, *after));
            if before == after { before } else { format!("{before} = {after}") }
        });
        let operations = |nodes: &[&Node]| nodes.iter().map(|node| node.op.clone()).collect();
        SiteResult {
            pairs: pairs.collect(),
            places: self.places,
            operations: (operations(&self.site.old), operations(&self.site.new)),
            checks: Vec::new(),
            limits: self.limits.clone(),
        }
    }
}

/// Chooses the stimuli of a site within its part of the budget.
pub(super) fn plan<'a>(
    task: &Task<'a>,
    site: Site<'a>,
    places: usize,
    sites: usize,
    constants: &Constants<'_>,
) -> Plan<'a> {
    let mut limits = Vec::new();
    let free: Vec<ValueId> = site
        .frontier
        .iter()
        .copied()
        .filter(|value| meta(task, *value).is_some() && matches!(constants.get(*value), Ok(None)))
        .collect();
    // A value without real content is made up beside those that have it.
    let captured = free.iter().map(|value| task.captured.get(value).map_or(0, Vec::len)).max().unwrap_or(0);
    let mut stimuli = stimuli(captured, !free.is_empty(), task.claim);
    let wanted = stimuli.len();
    let largest = largest(task, &site);
    if largest > task.budget.elements {
        limits.push(format!("a tensor of {largest} elements is larger than the limit of {}", task.budget.elements));
        stimuli.clear();
    }
    // A claim within a tolerance is evaluated in both arithmetics.
    let runs = if task.claim == Claim::Exact { 1.0 } else { 2.0 };
    let (old, new) = (cost(task.original, &site.old), cost(task.patched, &site.new));
    let cost = runs * (old + new).max(1.0);
    if cost > MOST_OPERATIONS {
        limits.push(format!("one evaluation takes about {cost:.1e} operations, and {MOST_OPERATIONS:.1e} are allowed"));
        stimuli.clear();
    }
    // The repaired form counts for no more than a few times the original one: what a rule adds to it must not keep
    // stimuli from being fed.
    let counted = runs * (old + new.min(MOST_NEW * old)).max(1.0);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small count"
    )]
    let affordable = (task.budget.operations / sites.max(1) as f64 / counted).floor().max(4.0) as usize;
    if stimuli.len() > affordable {
        stimuli.truncate(affordable);
        limits.push(format!("{affordable} of {wanted} stimuli: one evaluation takes about {cost:.1e} operations"));
    }
    Plan { site, stimuli, places, limits }
}

fn count(graph: &Graph, value: ValueId) -> usize {
    graph.tensor(value).and_then(sizes).map_or(0, |sizes| sizes.iter().fold(1_usize, |n, &size| n.saturating_mul(size)))
}

fn largest(task: &Task<'_>, site: &Site<'_>) -> usize {
    let side = |graph: &Graph, nodes: &[&Node]| -> usize {
        let values: BTreeSet<ValueId> =
            nodes.iter().flat_map(|node| node.output_values().chain(node.input_values())).collect();
        values.into_iter().map(|value| count(graph, value)).max().unwrap_or(0)
    };
    side(task.original, &site.old).max(side(task.patched, &site.new))
}

/// Rough number of element operations of some nodes.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn cost(graph: &Graph, nodes: &[&Node]) -> f64 {
    nodes
        .iter()
        .map(|node| {
            let sizes_of = |name: &str| match node.input(name) {
                Some(Argument::Value(value)) => graph.tensor(*value).and_then(sizes),
                _ => None,
            };
            let kernel = match node.input("kernel_size") {
                Some(Argument::Literal(Literal::Ints(kernel))) => Some(kernel.as_slice()),
                _ => None,
            };
            effort(&Work {
                op: &node.op,
                sizes_of: &sizes_of,
                kernel,
                read: node.input_values().map(|value| count(graph, value) as f64).sum(),
                made: node.output_values().map(|value| count(graph, value) as f64).sum(),
            })
        })
        .sum()
}
