//! Parts of an output that spread far less than the whole.
//!
//! A detector may return boxes in pixels and class scores between 0 and 1 in one tensor; judged by the
//! scale of the whole, scores could be off by anything. So the slices along the second and the last
//! dimension that spread by less than a twentieth of the whole are judged by their own spread as well,
//! loosely, and only beyond what rounding moves in that slice.

use super::inputs::epsilon;
use super::tolerance::Scale;
use crate::graph::ScalarType;
use crate::tensor::{Doubles, Tensor};

/// A slice is looked at when it spreads by less than this share of the whole.
const SMALL: f64 = 0.05;

/// Largest error of a right program, relative to the slice's spread, in single precision. Right programs
/// stay below 3e-4, in slices where rounding explains all of it.
const ALLOWANCE: f64 = 2e-3;

/// Times what rounding-sized changes of the inputs move in the slice. Right programs stay below 35.
const TIMES_ROUNDING: f64 = 64.0;

/// Errors below this share of the whole output's spread are never held against a slice.
const FLOOR: f64 = 1e-6;

/// More slices than this along one dimension are no channels.
const MOST: usize = 4096;

/// The small slices of an output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slices {
    small: Vec<Slice>,
}

#[derive(Clone, Debug, PartialEq)]
struct Slice {
    axis: usize,
    index: usize,
    spread: f64,
    /// largest difference that is no error
    allowed: f64,
}

/// A slice that is off.
#[derive(Clone, Debug, PartialEq)]
pub struct Offence {
    /// dimension
    pub axis: usize,
    /// index in that dimension
    pub index: usize,
    /// largest difference in the slice
    pub error: f64,
    /// spread of the slice over the ordinary input sets
    pub spread: f64,
}

impl Offence {
    /// Error divided by the spread.
    pub fn relative(&self) -> f64 {
        if self.spread > 0.0 { self.error / self.spread } else { f64::INFINITY }
    }
}

/// Statistics of every slice along one dimension.
struct Statistics {
    count: f64,
    /// the first element, taken off the others so that a large offset costs no digits
    shift: Option<f64>,
    sum: f64,
    low: f64,
    high: f64,
}

/// How an axis divides the row-major elements: outer, size, inner.
fn division(sizes: &[usize], axis: usize) -> Option<(usize, usize)> {
    let size = *sizes.get(axis)?;
    let inner = sizes.get(axis + 1..)?.iter().product();
    (size > 0 && inner > 0).then_some((size, inner))
}

/// Finds the small slices of an output from its ordinary eager runs and from pairs of runs whose inputs
/// differ by rounding only.
pub(super) fn find(runs: &[&Tensor], probes: &[(&Tensor, &Tensor)], whole: Scale) -> Slices {
    let Some(first) = runs.first() else { return Slices::default() };
    let rank = first.sizes.len();
    if rank < 3 || !first.dtype.is_floating() || runs.iter().any(|run| run.sizes != first.sizes) {
        return Slices::default();
    }
    let values: Vec<Doubles<'_>> = runs.iter().filter_map(|run| run.doubles()).collect();
    let moves: Vec<(Doubles<'_>, Doubles<'_>)> =
        probes.iter().filter_map(|(a, b)| Some((a.doubles()?, b.doubles()?))).collect();
    let looseness = (epsilon(first.dtype) / epsilon(ScalarType::Float32)).clamp(1.0, 30.0);
    let mut slices = Slices::default();
    for axis in if rank == 3 { vec![1, 2] } else { vec![1, rank - 1] } {
        let Some((size, inner)) = division(&first.sizes, axis) else { continue };
        if !(2..=MOST).contains(&size) {
            continue;
        }
        let mut statistics: Vec<Statistics> = (0..size)
            .map(|_| Statistics { count: 0.0, shift: None, sum: 0.0, low: f64::INFINITY, high: f64::NEG_INFINITY })
            .collect();
        for run in &values {
            let mut walk = Walk::new(size, inner);
            run.each(|x| {
                if let Some(s) = statistics.get_mut(walk.next()).filter(|_| x.is_finite()) {
                    s.count += 1.0;
                    s.sum += x - *s.shift.get_or_insert(x);
                    s.low = s.low.min(x);
                    s.high = s.high.max(x);
                }
            });
        }
        let mut rounding = vec![0.0_f64; size];
        for (still, moved) in &moves {
            let mut walk = Walk::new(size, inner);
            still.each_pair(moved, |x, y| keep_largest(&mut rounding, walk.next(), (x - y).abs()));
        }
        for (index, (s, rounding)) in statistics.iter().zip(rounding).enumerate() {
            let mean = s.shift.unwrap_or(0.0) + s.sum / s.count;
            let spread = (s.high - mean).max(mean - s.low);
            if s.count == 0.0 || spread >= SMALL * whole.spread {
                continue;
            }
            let magnitude = s.low.abs().max(s.high.abs());
            let allowed = (ALLOWANCE * looseness * spread)
                .max(TIMES_ROUNDING * rounding)
                .max(64.0 * epsilon(first.dtype) * magnitude)
                .max(FLOOR * looseness * whole.spread);
            slices.small.push(Slice { axis, index, spread, allowed });
        }
    }
    slices
}

/// Index along an axis of one element after the other.
struct Walk {
    size: usize,
    inner: usize,
    index: usize,
    within: usize,
}

impl Walk {
    fn new(size: usize, inner: usize) -> Self {
        Self { size, inner, index: 0, within: 0 }
    }

    fn next(&mut self) -> usize {
        let index = self.index;
        self.within += 1;
        if self.within == self.inner {
            self.within = 0;
            self.index = if index + 1 == self.size { 0 } else { index + 1 };
        }
        index
    }
}

fn keep_largest(largest: &mut [f64], index: usize, x: f64) {
    if let Some(slot) = largest.get_mut(index).filter(|_| x.is_finite()) {
        *slot = slot.max(x);
    }
}

impl Slices {
    /// The slice that is furthest beyond what it is allowed.
    pub(super) fn offence(&self, expected: &Tensor, found: &Tensor) -> Option<Offence> {
        if self.small.is_empty() || expected.sizes != found.sizes {
            return None;
        }
        let (a, b) = (expected.doubles()?, found.doubles()?);
        let mut worst: Option<(f64, Offence)> = None;
        let mut axes: Vec<usize> = self.small.iter().map(|slice| slice.axis).collect();
        axes.dedup();
        for axis in axes {
            let (size, inner) = division(&expected.sizes, axis)?;
            let mut errors = vec![0.0_f64; size];
            let mut walk = Walk::new(size, inner);
            a.each_pair(&b, |x, y| keep_largest(&mut errors, walk.next(), (x - y).abs()));
            for slice in self.small.iter().filter(|slice| slice.axis == axis) {
                let error = errors.get(slice.index).copied().unwrap_or(0.0);
                let excess = error / slice.allowed;
                if error > slice.allowed && worst.as_ref().is_none_or(|(most, _)| excess > *most) {
                    let offence = Offence { axis, index: slice.index, error, spread: slice.spread };
                    worst = Some((excess, offence));
                }
            }
        }
        worst.map(|(_, offence)| offence)
    }
}

#[cfg(test)]
mod tests {
    use super::super::inputs::floats;
    use super::super::tolerance::scale;
    use super::*;

    /// Boxes in pixels in channel 0, scores in channel 1.
    fn detections(shift: f64) -> Tensor {
        floats(ScalarType::Float32, &[1, 2, 50], |i| {
            let x = f64::from(u32::try_from(i % 50).expect("small")) / 50.0;
            if i < 50 { 640.0 * x } else { x + shift }
        })
    }

    #[test]
    fn a_channel_of_small_numbers_is_judged_by_its_own_spread() {
        let runs = [detections(0.0)];
        let whole = scale(&runs);
        let slices = find(&[&runs[0]], &[], whole);
        assert_eq!(slices.offence(&runs[0], &detections(1e-5)), None);
        let offence = slices.offence(&runs[0], &detections(0.01)).expect("2 % of the scores' spread");
        assert!((offence.error - 0.01).abs() < 1e-4 && offence.relative() > 0.01, "{offence:?}");
    }

    #[test]
    fn what_rounding_moves_in_the_slice_is_no_offence() {
        let (still, moved) = (detections(0.0), detections(0.001));
        let slices = find(&[&still], &[(&still, &moved)], scale([&still]));
        assert_eq!(slices.offence(&still, &detections(0.01)), None);
    }

    #[test]
    fn odd_tensors_have_no_slices() {
        for tensor in [
            floats(ScalarType::Float32, &[], |_| 1.0),
            floats(ScalarType::Float32, &[0, 3, 3], |_| 1.0),
            floats(ScalarType::Float32, &[1, 2, 2], |_| f64::NAN),
            Tensor { dtype: ScalarType::Int64, sizes: vec![1, 1, 1], bytes: vec![0; 8] },
        ] {
            let slices = find(&[&tensor], &[(&tensor, &tensor)], scale([&tensor]));
            assert_eq!(slices.offence(&tensor, &tensor), None);
        }
    }
}
