//! Comparing tensors by the scale of what they hold.
//!
//! An error means nothing by itself: 1e-5 is half of an output that spreads over 2e-5 and nothing for
//! one that spreads over 1e15. So every error is divided by the output's *scale*: how far its elements
//! lie from their mean, over all positions and over the ordinary input sets. Where the elements that are
//! not finite lie must agree; integers and booleans are compared as they are.

use crate::graph::ScalarType;
use crate::tensor::{Doubles, Tensor};

use super::inputs::epsilon;
use super::slices::Offence;

/// What a rule says about its rewrite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claim {
    /// the same bits
    Exact,
    /// equal within this share of the output's scale
    Tolerant {
        /// declared by the rule; the host caps it, see [`Claim::allowance`]
        relative: f64,
    },
    /// computes what eager PyTorch computes, where the original's lowering does not
    Corrective {
        /// as in [`Claim::Tolerant`]
        relative: f64,
    },
}

impl Claim {
    /// The largest error, relative to the scale, that the claim may use for an element type: what the
    /// rule declared, but never more than the host's cap, and never less than a few rounding steps.
    /// Exact claims have none.
    pub fn allowance(self, dtype: ScalarType) -> f64 {
        match self {
            Self::Exact => 0.0,
            Self::Tolerant { relative } | Self::Corrective { relative } => {
                let cap = cap(dtype);
                let floor = (4.0 * epsilon(dtype)).min(cap);
                if relative.is_finite() { relative.clamp(floor, cap) } else { floor }
            }
        }
    }

    /// The claim's word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Tolerant { .. } => "tolerant",
            Self::Corrective { .. } => "corrective",
        }
    }
}

/// The most that a rule may claim as tolerance, relative to the scale.
pub fn cap(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::Float16 => 2e-3,
        ScalarType::BFloat16 => 2e-2,
        ScalarType::Float64 => 1e-10,
        _ => 1e-4,
    }
}

/// How far the elements of an output spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scale {
    /// largest distance of an element from the mean; zero when nothing spreads
    pub spread: f64,
    /// largest absolute element
    pub magnitude: f64,
}

/// The scale of an output over several runs, from its finite elements.
pub fn scale<'a>(runs: impl IntoIterator<Item = &'a Tensor>) -> Scale {
    let runs: Vec<Doubles<'_>> = runs.into_iter().filter_map(Tensor::doubles).collect();
    // Shifted by one of the elements, so that a large offset costs no digits and nothing overflows early.
    let mut shift = None;
    let (mut count, mut sum, mut low, mut high) = (0.0_f64, 0.0_f64, f64::INFINITY, f64::NEG_INFINITY);
    for run in &runs {
        run.each(|x| {
            if x.is_finite() {
                count += 1.0;
                sum += x - *shift.get_or_insert(x);
                low = low.min(x);
                high = high.max(x);
            }
        });
    }
    let Some(shift) = shift else { return Scale::default() };
    let mean = shift + sum / count;
    // Rounding may put the mean of equal elements beyond them.
    Scale { spread: (high - mean).abs().max((mean - low).abs()), magnitude: low.abs().max(high.abs()) }
}

/// Why two tensors cannot even be compared number by number, or hold something else than numbers at
/// different places.
#[derive(Clone, Debug, PartialEq)]
pub enum Mismatch {
    /// the sizes differ
    Sizes {
        /// expected
        expected: Vec<usize>,
        /// found
        found: Vec<usize>,
    },
    /// the element types differ
    Dtype {
        /// expected
        expected: ScalarType,
        /// found
        found: ScalarType,
    },
    /// the element type cannot be compared here, or the payload does not fit the sizes
    Unreadable,
    /// NaN or an infinity on one side only, or infinities of different sign
    NotFinite {
        /// how many elements
        count: usize,
        /// the first one
        at: Vec<usize>,
        /// expected there
        expected: f64,
        /// found there
        found: f64,
    },
}

/// How two tensors differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// element type of what was expected
    pub dtype: ScalarType,
    /// number of elements
    pub elements: usize,
    /// how many elements differ at all
    pub differing: usize,
    /// every bit agrees; any NaN equals any other
    pub same_bits: bool,
    /// largest absolute difference of two finite elements
    pub error: f64,
    /// the scale it is judged by
    pub scale: f64,
    /// where the largest difference is
    pub at: Vec<usize>,
    /// expected there
    pub expected: f64,
    /// found there
    pub found: f64,
    /// a difference that no tolerance covers
    pub mismatch: Option<Mismatch>,
    /// a slice of the output that is off by its own measure, see [`super::slices`]
    pub slice: Option<Offence>,
    /// share of rows whose largest element is at the same place, for outputs with a last dimension of at
    /// least two; for information
    pub argmax_agreement: Option<f64>,
}

impl Comparison {
    /// Largest error divided by the scale; zero when nothing differs, infinite when an output without
    /// spread differs.
    pub fn relative(&self) -> f64 {
        if self.error == 0.0 {
            0.0
        } else if self.scale > 0.0 {
            self.error / self.scale
        } else {
            f64::INFINITY
        }
    }

    /// Share of elements that differ at all.
    #[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
    pub fn differing_share(&self) -> f64 {
        self.differing as f64 / self.elements.max(1) as f64
    }

    /// True for types that are compared as they are.
    pub fn is_discrete(&self) -> bool {
        !self.dtype.is_floating()
    }

    /// Within an allowance relative to the scale, with `slack` as an absolute one beside it (what
    /// rounding explains); discrete types must be equal.
    pub fn is_within(&self, allowance: f64, slack: f64) -> bool {
        if self.mismatch.is_some() || self.slice.is_some() {
            return false;
        }
        if self.is_discrete() {
            return self.differing == 0;
        }
        self.error <= (allowance * self.scale).max(slack)
    }

    /// One line of words and numbers.
    pub fn describe(&self) -> String {
        match &self.mismatch {
            Some(Mismatch::Sizes { expected, found }) => format!("sizes {found:?} instead of {expected:?}"),
            Some(Mismatch::Dtype { expected, found }) => {
                format!("element type `{}` instead of `{}`", found.torch_name(), expected.torch_name())
            }
            Some(Mismatch::Unreadable) => "an element type that cannot be compared".to_owned(),
            Some(Mismatch::NotFinite { count, at, expected, found }) => {
                format!("{count} elements are not finite on one side, first at {at:?}: {found} instead of {expected}")
            }
            None if self.same_bits => "bit for bit".to_owned(),
            None if self.is_discrete() => {
                format!("{} of {} elements differ", self.differing, self.elements)
            }
            None if self.slice.is_some() => self.slice.as_ref().map_or_else(String::new, |slice| {
                format!(
                    "{:.1e} of the spread of slice {} along dimension {} ({:.3e}; spread {:.3e})",
                    slice.relative(),
                    slice.index,
                    slice.axis,
                    slice.error,
                    slice.spread
                )
            }),
            None => format!(
                "{:.1e} of the scale ({:.3e} at {:?}: {:.6e} instead of {:.6e}; scale {:.3e})",
                self.relative(),
                self.error,
                self.at,
                self.found,
                self.expected,
                self.scale
            ),
        }
    }
}

/// Position of an element by its row-major index.
pub(crate) fn place(index: usize, sizes: &[usize]) -> Vec<usize> {
    let mut rest = index;
    let mut place: Vec<usize> = sizes
        .iter()
        .rev()
        .map(|&size| {
            let size = size.max(1);
            let i = rest % size;
            rest /= size;
            i
        })
        .collect();
    place.reverse();
    place
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
fn agreement(expected: &Doubles<'_>, found: &Doubles<'_>, sizes: &[usize]) -> Option<f64> {
    let &last = sizes.last().filter(|&&n| n >= 2)?;
    let (mut rows, mut same, mut column) = (0_u64, 0_u64, 0);
    let nothing = (0, f64::NEG_INFINITY);
    let (mut a, mut b) = (nothing, nothing);
    expected.each_pair(found, |x, y| {
        if x > a.1 {
            a = (column, x);
        }
        if y > b.1 {
            b = (column, y);
        }
        column += 1;
        if column == last {
            rows += 1;
            same += u64::from(a.0 == b.0);
            (a, b, column) = (nothing, nothing, 0);
        }
    });
    (rows > 0).then(|| same as f64 / rows as f64)
}

fn same_element(expected: &Tensor, found: &Tensor, index: usize, width: usize) -> bool {
    let span = index * width..(index + 1) * width;
    expected.bytes.get(span.clone()) == found.bytes.get(span)
}

/// Compares what was found with what was expected, by the given scale.
pub fn compare(expected: &Tensor, found: &Tensor, scale: f64) -> Comparison {
    let mut comparison = Comparison {
        dtype: expected.dtype,
        elements: expected.sizes.iter().fold(1, |n: usize, &size| n.saturating_mul(size)),
        differing: 0,
        same_bits: false,
        error: 0.0,
        scale,
        at: Vec::new(),
        expected: 0.0,
        found: 0.0,
        mismatch: None,
        slice: None,
        argmax_agreement: None,
    };
    if expected.sizes != found.sizes {
        let (expected, found) = (expected.sizes.clone(), found.sizes.clone());
        comparison.mismatch = Some(Mismatch::Sizes { expected, found });
        return comparison;
    }
    if expected.dtype != found.dtype {
        comparison.mismatch = Some(Mismatch::Dtype { expected: expected.dtype, found: found.dtype });
        return comparison;
    }
    // Doubles would blur large integers, so those are compared as bytes first.
    let same_bytes = expected.bytes == found.bytes;
    if same_bytes && expected.bytes.len() == comparison.elements.saturating_mul(expected.dtype.bytes()) {
        comparison.same_bits = true;
        let rows = expected.sizes.last().is_some_and(|&last| last >= 2) && comparison.elements > 0;
        comparison.argmax_agreement = (rows && expected.dtype.is_floating()).then_some(1.0);
        return comparison;
    }
    let (Some(a), Some(b)) = (expected.doubles(), found.doubles()) else {
        comparison.same_bits = same_bytes;
        comparison.differing = usize::from(!same_bytes);
        comparison.mismatch = (!same_bytes).then_some(Mismatch::Unreadable);
        return comparison;
    };
    if a.len() != comparison.elements || b.len() != comparison.elements {
        comparison.mismatch = Some(Mismatch::Unreadable);
        return comparison;
    }
    let mut not_finite = None;
    let mut worst = None;
    let mut same_bits = true;
    let width = expected.dtype.bytes();
    let floating = expected.dtype.is_floating();
    let mut next = 0;
    a.each_pair(&b, |x, y| {
        let i = next;
        next += 1;
        // A conversion to doubles keeps the bits of floats apart; large integers it may not.
        if x.to_bits() == y.to_bits() && (floating || same_element(expected, found, i, width)) {
            return;
        }
        if x.is_nan() && y.is_nan() {
            return;
        }
        same_bits = false;
        if x == y && floating {
            return; // zeros of different sign: other bits, no difference
        }
        comparison.differing += 1;
        if x.is_finite() && y.is_finite() {
            let error = (x - y).abs();
            if error > comparison.error || worst.is_none() {
                comparison.error = error;
                worst = Some((i, x, y));
            }
        } else {
            let (count, _) = not_finite.get_or_insert((0_usize, (i, x, y)));
            *count += 1;
        }
    });
    comparison.same_bits = same_bits;
    if let Some((i, x, y)) = worst {
        comparison.at = place(i, &expected.sizes);
        (comparison.expected, comparison.found) = (x, y);
    }
    comparison.mismatch = not_finite.map(|(count, (i, expected_value, found_value))| Mismatch::NotFinite {
        count,
        at: place(i, &expected.sizes),
        expected: expected_value,
        found: found_value,
    });
    if expected.dtype.is_floating() {
        comparison.argmax_agreement = agreement(&a, &b, &expected.sizes);
    }
    comparison
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::inputs::floats;
    use super::*;

    fn single(values: &[f64]) -> Tensor {
        floats(ScalarType::Float32, &[values.len()], |i| values[i])
    }

    #[test]
    fn an_error_is_judged_by_the_spread_of_the_output() {
        let huge = single(&[1e15, -1e15]);
        let off = single(&[1.000_001e15, -1e15]);
        let comparison = compare(&huge, &off, scale([&huge]).spread);
        assert!(comparison.error > 1e8 && comparison.is_within(1e-5, 0.0), "{comparison:?}");
        let faint = single(&[1e-9, -1e-9]);
        let wrong = single(&[-1e-9, 1e-9]);
        assert!(!compare(&faint, &wrong, scale([&faint]).spread).is_within(1e-4, 0.0));
    }

    #[test]
    fn spread_counts_inputs_and_positions_but_not_the_offset() {
        let scale = scale([&single(&[1000.0, 1001.0]), &single(&[1003.0, 1000.0]), &single(&[f64::NAN, 1001.0])]);
        assert!((scale.spread - 2.0).abs() < 1e-9 && (scale.magnitude - 1003.0).abs() < 1e-9, "{scale:?}");
    }

    #[test]
    fn positions_that_are_not_finite_must_agree() {
        let a = single(&[f64::NAN, f64::INFINITY, 1.0]);
        assert!(compare(&a, &a, 1.0).same_bits);
        for other in
            [[1.0, f64::INFINITY, 1.0], [f64::NAN, f64::NEG_INFINITY, 1.0], [f64::NAN, f64::INFINITY, f64::NAN]]
        {
            let comparison = compare(&a, &single(&other), 1.0);
            assert!(matches!(comparison.mismatch, Some(Mismatch::NotFinite { count: 1, .. })), "{comparison:?}");
            assert!(!comparison.is_within(1.0, f64::MAX));
        }
    }

    #[test]
    fn integers_are_compared_as_they_are() {
        let int = |x: i64| Tensor { dtype: ScalarType::Int64, sizes: vec![1], bytes: x.to_le_bytes().to_vec() };
        let big = 1 << 60;
        assert!(compare(&int(big), &int(big), 1.0).same_bits);
        assert!(!compare(&int(big), &int(big + 1), 1.0).is_within(1.0, f64::MAX));
        assert!(!compare(&int(3), &int(4), 1e9).is_within(1.0, f64::MAX));
    }

    #[test]
    fn zeros_of_different_sign_are_other_bits_but_no_error() {
        let comparison = compare(&single(&[0.0]), &single(&[-0.0]), 0.0);
        assert!(!comparison.same_bits && comparison.is_within(0.0, 0.0));
    }

    #[test]
    fn sizes_and_types_must_agree() {
        let a = single(&[1.0, 2.0]);
        let b = Tensor { sizes: vec![2, 1], ..a.clone() };
        assert!(compare(&a, &b, 1.0).describe().contains("sizes [2, 1] instead of [2]"));
        let c = Tensor { dtype: ScalarType::Int32, ..a.clone() };
        assert!(compare(&a, &c, 1.0).describe().contains("`int32` instead of `float32`"));
    }

    #[test]
    fn the_host_caps_what_a_rule_may_claim() {
        let greedy = Claim::Tolerant { relative: 1.0 };
        assert_eq!(greedy.allowance(ScalarType::Float32), 1e-4);
        assert_eq!(greedy.allowance(ScalarType::Float16), 2e-3);
        assert_eq!(greedy.allowance(ScalarType::BFloat16), 2e-2);
        assert_eq!(greedy.allowance(ScalarType::Float64), 1e-10);
        assert!(Claim::Tolerant { relative: f64::NAN }.allowance(ScalarType::Float32) < 1e-6);
        assert_eq!(Claim::Exact.allowance(ScalarType::Float32), 0.0);
    }

    #[test]
    fn agreement_of_the_largest_class_is_counted_by_row() {
        let a = floats(ScalarType::Float32, &[2, 2], |i| [1.0, 2.0, 4.0, 3.0][i]);
        let b = floats(ScalarType::Float32, &[2, 2], |i| [1.0, 2.0, 3.0, 4.0][i]);
        assert_eq!(compare(&a, &b, 1.0).argmax_agreement, Some(0.5));
    }

    proptest! {
        #[test]
        fn nothing_is_nearer_to_a_tensor_than_itself(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            dtype in prop::sample::select(vec![
                ScalarType::UInt8, ScalarType::Int8, ScalarType::Int16, ScalarType::Int64, ScalarType::Bool,
                ScalarType::Float16, ScalarType::BFloat16, ScalarType::Float32, ScalarType::Float64,
                ScalarType::Complex64, ScalarType::Other(3),
            ]),
        ) {
            let count = bytes.len() / dtype.bytes();
            let bytes = bytes[..count * dtype.bytes()].to_vec();
            let tensor = Tensor { dtype, sizes: vec![count], bytes };
            let comparison = compare(&tensor, &tensor, scale([&tensor]).spread);
            prop_assert!(comparison.same_bits && comparison.is_within(0.0, 0.0));
            prop_assert_eq!(comparison.relative(), 0.0);
        }

        #[test]
        fn no_pair_of_tensors_is_too_odd_to_compare(
            a in prop::collection::vec(any::<f32>(), 1..20),
            b in prop::collection::vec(any::<f32>(), 1..20),
            length in 0_usize..40,
        ) {
            let tensor = |values: &[f32]| Tensor {
                dtype: ScalarType::Float32,
                sizes: vec![length],
                bytes: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            };
            let comparison = compare(&tensor(&a), &tensor(&b), 1.0);
            prop_assert!(!comparison.describe().is_empty());
            prop_assert!(comparison.error >= 0.0);
        }
    }
}
