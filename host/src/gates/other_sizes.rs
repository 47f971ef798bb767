//! Whether a repair also holds at other sizes than those of the user's inputs.
//!
//! A program may declare that sizes change: a batch from 1 to 8. A repair that fits the exported size only would pass
//! everything that is run at that size. So the original and the repaired program run once more in eager PyTorch, at
//! the smallest size and at a larger one. Tolerances are wide: what this looks for is another result, and rounding
//! was judged before.

use std::collections::BTreeMap;

use super::reference::ProgramRun;
use super::tolerance::{Claim, compare, scale};
use crate::graph::Dim;
use crate::tensor::Tensor;

/// Relative to the spread of an output; far above what rounding does to it.
const WRONG: f64 = 1e-2;
/// Elements of an input that is made larger.
const MOST_ELEMENTS: usize = 1 << 26;

/// The user's inputs at other sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherSizes {
    /// for the report: `2×3×6×6 → 1×3×6×6`
    pub name: String,
    /// one tensor an input
    pub tensors: Vec<Tensor>,
}

/// The user's inputs with every size that may change at its smallest, and at a larger one. Sets that would be the
/// user's own are left out. `declared` are the sizes of the inputs as the program
/// declares them.
pub fn other_sizes(declared: &[&[Dim]], user: &[Tensor]) -> Vec<OtherSizes> {
    let mut symbols: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
    for symbol in declared.iter().copied().flatten().filter_map(|dim| match dim {
        Dim::Symbolic(symbol) => Some(symbol),
        Dim::Fixed(_) => None,
    }) {
        if let Some(now) = symbol.hint.filter(|now| *now > 0) {
            let smallest = symbol.min.unwrap_or(1).clamp(1, now);
            let largest = symbol.max.unwrap_or(i64::MAX).max(now);
            symbols.insert(&symbol.expression, (smallest, now, largest.min(now.saturating_mul(2))));
        }
    }
    let mut made: Vec<OtherSizes> = Vec::new();
    for choice in 0..3 {
        let sizes_of = |dims: &[Dim], tensor: &Tensor| -> Vec<usize> {
            let known = |dim: &Dim| match dim {
                Dim::Symbolic(symbol) => {
                    symbols.get(symbol.expression.as_str()).map(|&(smallest, now, largest)| match choice {
                        0 => smallest,
                        1 => largest.min(now + 1),
                        _ => largest,
                    })
                }
                Dim::Fixed(_) => None,
            };
            let now = tensor.sizes.iter().enumerate();
            now.map(|(at, now)| dims.get(at).and_then(known).map_or(*now, |n| usize::try_from(n).unwrap_or(*now)))
                .collect()
        };
        let tensors: Option<Vec<Tensor>> =
            user.iter().zip(declared).map(|(tensor, dims)| resized(tensor, &sizes_of(dims, tensor))).collect();
        let Some(tensors) = tensors.filter(|tensors| tensors.len() == user.len()) else { continue };
        let changed = tensors.iter().zip(user).find(|(made, own)| made.sizes != own.sizes);
        if let Some((new, own)) = changed
            && !made.iter().any(|set| set.tensors == tensors)
        {
            made.push(OtherSizes { name: format!("{} → {}", shape(&own.sizes), shape(&new.sizes)), tensors });
        }
    }
    made
}

fn shape(sizes: &[usize]) -> String {
    sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join("×")
}

/// A tensor of other sizes whose elements are those of `tensor`, again from the start of a dimension where it is
/// longer. `None` when it would be too large or has nothing to repeat.
fn resized(tensor: &Tensor, sizes: &[usize]) -> Option<Tensor> {
    if tensor.sizes == sizes {
        return Some(tensor.clone());
    }
    let count = sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size)).filter(|n| *n <= MOST_ELEMENTS)?;
    if tensor.sizes.contains(&0) || tensor.sizes.len() != sizes.len() {
        return None;
    }
    let width = tensor.dtype.bytes();
    let mut bytes = Vec::with_capacity(count.checked_mul(width)?);
    for place in 0..count {
        let (mut rest, mut from, mut stride) = (place, 0, 1);
        for (&size, &own) in sizes.iter().zip(&tensor.sizes).rev() {
            from += rest % size % own * stride;
            rest /= size;
            stride *= own;
        }
        bytes.extend_from_slice(tensor.bytes.get(from * width..(from + 1) * width)?);
    }
    Some(Tensor { dtype: tensor.dtype, sizes: sizes.to_vec(), bytes })
}

/// What is wrong with the repaired program at other sizes; `None` when its outputs are those of the original.
pub fn difference(original: &ProgramRun, repaired: &ProgramRun, claim: Claim) -> Option<String> {
    if original.outputs.len() != repaired.outputs.len() {
        return Some(format!("{} outputs instead of {}", repaired.outputs.len(), original.outputs.len()));
    }
    original.outputs.iter().zip(&repaired.outputs).enumerate().find_map(|(index, (expected, found))| {
        let comparison = compare(expected, found, scale([expected]).spread);
        let allowed = WRONG.max(10.0 * claim.allowance(comparison.dtype));
        let wrong = comparison.mismatch.is_some()
            || (!comparison.is_discrete() && comparison.relative() > allowed)
            || (comparison.is_discrete() && comparison.differing * 10 > expected.len());
        wrong.then(|| format!("output {index}: {}", comparison.describe()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::inputs::floats;
    use crate::graph::{ScalarType, Symbol};

    fn batch(min: Option<i64>, max: Option<i64>) -> Dim {
        Dim::Symbolic(Symbol { expression: "Symbol('s0')".to_owned(), hint: Some(2), min, max })
    }

    fn tensor(sizes: &[usize]) -> Tensor {
        floats(ScalarType::Float32, sizes, |place| place as f64)
    }

    #[test]
    fn every_size_that_may_change_does_and_the_others_stay() {
        let names = |dims: Vec<Dim>, sizes: &[usize]| -> Vec<String> {
            other_sizes(&[&dims], &[tensor(sizes)]).into_iter().map(|set| set.name).collect()
        };
        assert_eq!(
            names(vec![batch(Some(1), Some(8)), Dim::Fixed(3)], &[2, 3]),
            ["2×3 → 1×3", "2×3 → 3×3", "2×3 → 4×3"]
        );
        assert_eq!(names(vec![batch(Some(2), Some(3)), Dim::Fixed(3)], &[2, 3]), ["2×3 → 3×3"]);
        assert_eq!(names(vec![batch(Some(2), Some(2))], &[2]), [""; 0]);
        assert_eq!(names(vec![Dim::Fixed(2)], &[2]), [""; 0]);
        assert_eq!(names(vec![batch(None, None)], &[2]), ["2 → 1", "2 → 3", "2 → 4"]);
    }

    #[test]
    fn a_longer_dimension_begins_again_and_a_shorter_one_ends_early() {
        let of = |sizes: &[usize]| resized(&tensor(&[2, 3]), sizes).expect("made").to_f64().expect("real");
        assert_eq!(of(&[3, 3]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
        assert_eq!(of(&[1, 2]), [0.0, 1.0]);
        assert_eq!(of(&[2, 4]), [0.0, 1.0, 2.0, 0.0, 3.0, 4.0, 5.0, 3.0]);
        assert_eq!(resized(&tensor(&[0]), &[2]), None);
        assert_eq!(resized(&tensor(&[1]), &[1 << 40]), None);
    }

    #[test]
    fn rounding_is_no_difference_and_another_size_or_result_is() {
        let run = |tensor: Tensor| ProgramRun { outputs: vec![tensor], ..ProgramRun::default() };
        let (one, claim) = (run(tensor(&[2, 3])), Claim::Exact);
        let near = run(floats(ScalarType::Float32, &[2, 3], |place| place as f64 + 1e-6));
        let twice = run(floats(ScalarType::Float32, &[2, 3], |place| 2.0 * place as f64));
        assert_eq!(difference(&one, &one, claim), None);
        assert_eq!(difference(&one, &near, claim), None);
        assert!(difference(&one, &twice, claim).expect("wrong").starts_with("output 0: "));
        assert!(difference(&one, &run(tensor(&[3, 2])), claim).is_some());
        assert_eq!(difference(&one, &ProgramRun::default(), claim).expect("wrong"), "0 outputs instead of 1");
    }
}
