//! What every comparison of whole programs is made against: the original in eager PyTorch.
//!
//! In: the inputs and the eager runs of the original. Out: for every output and input set the scale
//! and how much of a difference rounding alone explains.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::graph::ScalarType;
use crate::target::RunOutcome;
use crate::tensor::{self, Tensor};
use crate::torch::protocol::EagerRun;

use super::inputs::{InputKind, InputSet, Inputs, epsilon};
use super::slices::{self, Slices};
use super::tolerance::{Comparison, Scale, compare, scale};

/// What a program gave for one input set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramRun {
    /// user outputs, in order
    pub outputs: Vec<Tensor>,
    /// positions of inputs whose content changed
    pub mutated_inputs: Vec<usize>,
    /// families of the kernels that ran, with how many of each; empty where no trace was taken
    pub kernels: Vec<String>,
}

/// A run, or why there was none, in words for the report.
pub type Attempt = Result<ProgramRun, String>;

impl ProgramRun {
    /// Reads the tensors of an eager run.
    ///
    /// # Errors
    /// When a tensor file cannot be read.
    pub fn from_eager(run: &EagerRun) -> Result<Self, tensor::Error> {
        Ok(Self { outputs: read(&run.outputs)?, mutated_inputs: run.mutated_inputs.clone(), kernels: Vec::new() })
    }

    /// Reads the outputs of a run on a target; `eager` is a run of the same model in eager PyTorch. A lowered
    /// program that writes into inputs gives their new content as well, in front of its own outputs.
    ///
    /// # Errors
    /// When a tensor file cannot be read.
    pub fn from_target(run: &RunOutcome, eager: &Self) -> Result<Self, tensor::Error> {
        let more = run.outputs.len().saturating_sub(eager.outputs.len());
        let own = if more <= eager.mutated_inputs.len() { run.outputs.get(more..) } else { None };
        Ok(Self {
            outputs: read(own.unwrap_or(&run.outputs))?,
            mutated_inputs: run.mutated_inputs.clone(),
            kernels: Vec::new(),
        })
    }
}

fn read(files: &[crate::torch::protocol::TensorFile]) -> Result<Vec<Tensor>, tensor::Error> {
    files.iter().map(Tensor::read).collect()
}

/// Times the movement under rounding-sized changes of the inputs that rounding inside the program is
/// taken to explain.
///
/// The measured backend error of right programs lies between 0.3 and 3 times that movement.
pub const ROUNDING_FACTOR: f64 = 8.0;

/// Rounding steps of the largest element that are never an error: an output that does not spread at all
/// has no other measure.
const STEPS: f64 = 16.0;

/// The same for outputs of so few elements that their spread says nothing about what went into them: a
/// mean over thousands of larger numbers carries the rounding of those.
const STEPS_OF_FEW: f64 = 128.0;
/// Outputs with fewer elements are few.
pub(super) const FEW: usize = 64;

/// An input set whose rounding explains more than this share of the scale proves nothing.
pub const ILL_CONDITIONED: f64 = 1e-2;

/// How one output of one input set is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Yardstick {
    /// errors are divided by this
    pub scale: f64,
    /// absolute difference that rounding inside the program explains, by the rounding probes
    pub slack: f64,
    /// absolute difference of a few rounding steps of the largest element
    pub floor: f64,
    /// share of discrete elements that rounding alone changes
    pub discrete_slack: f64,
    /// the eager output has elements that are not finite
    pub not_finite: bool,
    /// the eager output has elements, and none of them is finite
    pub nothing_finite: bool,
}

impl Yardstick {
    /// True when rounding alone moves the output so much that a comparison proves nothing.
    pub fn is_ill_conditioned(&self, dtype: ScalarType) -> bool {
        let looseness = (epsilon(dtype) / epsilon(ScalarType::Float32)).clamp(1.0, 30.0);
        self.slack > ILL_CONDITIONED * looseness * self.scale && self.slack > 0.0
    }
}

/// The original in eager PyTorch, with the yardsticks of its outputs.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    sets: Vec<InputSet>,
    names: Vec<String>,
    runs: Vec<ProgramRun>,
    yardsticks: Vec<Vec<Yardstick>>,
    pooled: Vec<Scale>,
    slices: Vec<Slices>,
}

/// Why the eager runs make no reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// one run a set is needed
    #[error("There are {found} eager runs for {wanted} input sets")]
    Runs {
        /// sets
        wanted: usize,
        /// runs
        found: usize,
    },
    /// the same program gives a different number of outputs
    #[error("Eager PyTorch gives {found} outputs for input set `{set}` and {wanted} for the first one")]
    Outputs {
        /// name of the set
        set: String,
        /// outputs of the first set
        wanted: usize,
        /// outputs of this one
        found: usize,
    },
}

impl Reference {
    /// Builds the reference from one eager run a set (`runs`) and one a probe (`probes`, where a
    /// missing or failed one is left out of the reckoning).
    ///
    /// # Errors
    /// When the runs do not fit the sets.
    pub fn new(
        inputs: Inputs,
        names: Vec<String>,
        runs: Vec<ProgramRun>,
        probes: &[Option<ProgramRun>],
    ) -> Result<Self, Error> {
        if runs.len() != inputs.sets.len() {
            return Err(Error::Runs { wanted: inputs.sets.len(), found: runs.len() });
        }
        let count = runs.first().map_or(0, |run| run.outputs.len());
        for (set, run) in inputs.sets.iter().zip(&runs) {
            if run.outputs.len() != count {
                return Err(Error::Outputs { set: set.name.clone(), wanted: count, found: run.outputs.len() });
            }
        }
        let mut reference = Self { sets: inputs.sets, runs, ..Self::default() };
        reference.names = (0..count)
            .map(|i| names.get(i).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| format!("output {i}")))
            .collect();
        for output in 0..count {
            let pooled = scale(reference.outputs(output).filter(|(set, _)| set.kind.is_ordinary()).map(|(_, t)| t));
            let moved: Vec<(InputKind, Comparison)> = inputs
                .probes
                .iter()
                .zip(probes)
                .filter_map(|(probe, run)| {
                    let moved = run.as_ref()?.outputs.get(output)?;
                    let still = reference.runs.get(probe.of)?.outputs.get(output)?;
                    Some((reference.sets.get(probe.of)?.kind, compare(still, moved, 1.0)))
                })
                .collect();
            let yardsticks =
                reference.outputs(output).map(|(set, tensor)| yardstick(set.kind, tensor, pooled, &moved)).collect();
            let ordinary: Vec<&Tensor> =
                reference.outputs(output).filter(|(set, _)| set.kind.is_ordinary()).map(|(_, t)| t).collect();
            let pairs: Vec<(&Tensor, &Tensor)> = inputs
                .probes
                .iter()
                .zip(probes)
                .filter(|(probe, _)| reference.sets.get(probe.of).is_some_and(|set| set.kind.is_ordinary()))
                .filter_map(|(probe, run)| {
                    Some((reference.runs.get(probe.of)?.outputs.get(output)?, run.as_ref()?.outputs.get(output)?))
                })
                .collect();
            let slices = slices::find(&ordinary, &pairs, pooled);
            reference.yardsticks.push(yardsticks);
            reference.pooled.push(pooled);
            reference.slices.push(slices);
        }
        Ok(reference)
    }

    /// One output over all sets.
    fn outputs(&self, output: usize) -> impl Iterator<Item = (&InputSet, &Tensor)> {
        self.sets
            .iter()
            .zip(&self.runs)
            .filter_map(move |(set, run)| run.outputs.get(output).map(|tensor| (set, tensor)))
    }

    /// The input sets.
    pub fn sets(&self) -> &[InputSet] {
        &self.sets
    }

    /// Names of the outputs.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The eager runs, one a set.
    pub fn runs(&self) -> &[ProgramRun] {
        &self.runs
    }

    /// The scale of an output over the ordinary sets.
    pub fn pooled(&self, output: usize) -> Scale {
        self.pooled.get(output).copied().unwrap_or_default()
    }

    /// Compares all outputs of pairs of runs, expected and found, one pair a set where there is one.
    pub(super) fn compare_runs<'a>(
        &self,
        runs: impl Fn(usize) -> Option<(&'a ProgramRun, &'a ProgramRun)>,
    ) -> BTreeMap<(usize, usize), Comparison> {
        let mut pairs = Vec::new();
        for set in 0..self.sets.len() {
            if let Some((expected, found)) = runs(set) {
                let outputs = expected.outputs.iter().zip(&found.outputs).enumerate();
                pairs.extend(outputs.map(|(output, (expected, found))| (set, output, expected, found)));
            }
        }
        pairs
            .into_par_iter()
            .map(|(set, output, expected, found)| ((set, output), self.compare(set, output, expected, found)))
            .collect()
    }

    /// Compares an output of a set with what it should be: the whole by the yardstick, and in ordinary
    /// sets the small slices by their own spread.
    fn compare(&self, set: usize, output: usize, expected: &Tensor, found: &Tensor) -> Comparison {
        let mut comparison = compare(expected, found, self.yardstick(set, output).scale);
        if comparison.mismatch.is_none() && self.sets.get(set).is_some_and(|set| set.kind.is_ordinary()) {
            comparison.slice = self.slices.get(output).and_then(|slices| slices.offence(expected, found));
        }
        comparison
    }

    /// How an output of a set is judged.
    pub fn yardstick(&self, set: usize, output: usize) -> Yardstick {
        self.yardsticks.get(output).and_then(|sets| sets.get(set)).copied().unwrap_or_default()
    }
}

/// Whether a tensor has finite elements, and whether it has others.
pub(super) fn finiteness(tensor: &Tensor) -> (bool, bool) {
    let (mut finite, mut not_finite) = (false, false);
    if let Some(values) = tensor.doubles() {
        values.each(|x| if x.is_finite() { finite = true } else { not_finite = true });
    }
    (finite, not_finite)
}

/// The scale of one set: its own spread, but at least a quarter of that of all ordinary sets (an output of
/// one element spreads over the sets only). Zeros and tiny magnitudes, which may leave nothing but
/// rounding, are judged by the ordinary sets. The slack: the largest movement of a fitting probe.
fn yardstick(kind: InputKind, tensor: &Tensor, pooled: Scale, moved: &[(InputKind, Comparison)]) -> Yardstick {
    let Scale { spread: own, magnitude } = scale([tensor]);
    let scale = match kind {
        InputKind::Zeros | InputKind::Tiny => pooled.spread,
        InputKind::Large => pooled.spread.max(own),
        _ => own.max(0.25 * pooled.spread),
    };
    let fitting = moved.iter().filter(|(probe, _)| (*probe == InputKind::Large) == (kind == InputKind::Large));
    let (slack, discrete_slack) = fitting.fold((0.0_f64, 0.0_f64), |(slack, share), (_, comparison)| {
        (slack.max(comparison.error), share.max(comparison.differing_share()))
    });
    let (finite, not_finite) = finiteness(tensor);
    Yardstick {
        scale,
        slack: slack * ROUNDING_FACTOR,
        floor: if tensor.len() < FEW { STEPS_OF_FEW } else { STEPS } * epsilon(tensor.dtype) * magnitude,
        discrete_slack: discrete_slack * ROUNDING_FACTOR,
        not_finite,
        nothing_finite: not_finite && !finite,
    }
}
