//! Lines of one magnitude each: the numbers that stand in a rewrite, and every power of ten between small and large.
//!
//! A rewrite that is wrong only in some range of numbers shows when such numbers decide the result. Softmax, a
//! maximum or a normalisation forgets whatever is small beside the largest of a line, so a line must not hold
//! numbers of several magnitudes; which dimension the lines of an operation run along is not known here, so lines
//! are laid in several ways.

use super::{Stimulus, encode};
use crate::gates::inputs::Stream;
use crate::graph::ScalarType;
use crate::tensor::Tensor;

/// What a rewrite would have to hide behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// the numbers written in it, in order
    numbers: Vec<f64>,
    /// those, their negatives, and what two of them make together
    made: Vec<f32>,
}

impl Written {
    /// Of the numbers written in a rewrite. With `exact`, also what is so large that two right forms may overflow
    /// differently.
    #[expect(clippy::cast_possible_truncation, reason = "stimuli are singles")]
    pub fn of(written: &[f64], exact: bool) -> Self {
        const MOST: usize = 256;
        /// So many of them are put together.
        const PAIRED: usize = 8;
        let mut numbers: Vec<f64> = Vec::new();
        for &number in written {
            if number.is_finite() && !numbers.contains(&number) && numbers.len() < MOST {
                numbers.push(number);
            }
        }
        let mut all = numbers.clone();
        all.extend(numbers.iter().map(|number| -number));
        for (index, &a) in numbers.iter().enumerate().take(PAIRED) {
            for &b in numbers.iter().take(PAIRED).skip(index) {
                all.extend([a + b, a - b, b - a, a * b, a / b, b / a]);
            }
        }
        let most = if exact { f64::from(f32::MAX) } else { 1e4 };
        let mut made: Vec<f32> = Vec::new();
        for number in all.into_iter().filter(|number| number.abs() <= most).map(|number| number as f32) {
            if !made.iter().any(|known| known.to_bits() == number.to_bits()) {
                made.push(number);
            }
        }
        Self { numbers, made }
    }

    /// Whole numbers to feed, with their neighbours. An index that is too large or negative makes the original
    /// refuse all of them, so the patterns differ in what they dare.
    #[expect(clippy::cast_possible_truncation, reason = "what is beyond the type's range stays at its end")]
    fn integers(&self, stimulus: Stimulus, dtype: ScalarType) -> Vec<i64> {
        let mut natural: Vec<i64> =
            self.numbers.iter().map(|number| number.abs().round() as i64).filter(|number| *number >= 0).collect();
        natural.sort_unstable();
        natural.dedup();
        let chosen = match stimulus {
            Stimulus::Along(0) => natural,
            Stimulus::Across(0) => natural.iter().copied().take(natural.len().div_ceil(2)).collect(),
            Stimulus::Across(1) => natural.iter().copied().take(natural.len().div_ceil(4)).collect(),
            _ => self.made.iter().map(|number| number.round() as i64).collect(),
        };
        let signed = !matches!(stimulus, Stimulus::Along(0) | Stimulus::Across(0 | 1));
        let (least, most) = match dtype {
            ScalarType::UInt8 => (0, 255),
            ScalarType::Int8 => (-128, 127),
            ScalarType::Int16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            ScalarType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        let mut all = Vec::new();
        for number in chosen {
            for near in [number, number.saturating_add(1), number.saturating_sub(1)] {
                if near >= least && near <= most && (signed || near >= 0) && !all.contains(&near) {
                    all.push(near);
                }
            }
        }
        all
    }
}

/// A tensor of lines, every other one around a number of `written`, the others of one magnitude; integers are all
/// from `written`. `None` for element types that cannot be made up, and for patterns without lines.
#[expect(clippy::cast_possible_truncation, reason = "stimuli are singles")]
pub fn tensor_of(
    stimulus: Stimulus,
    written: &Written,
    dtype: ScalarType,
    sizes: &[usize],
    seed: u64,
    index: u64,
) -> Option<Tensor> {
    let count: usize = sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size))?;
    if dtype.is_floating() {
        let line = lines(stimulus, sizes)?;
        let ladder = ladder(dtype);
        let mut stream = Stream::new(seed, 1000 + index * 64 + 5);
        let values: Vec<f32> = (0..count)
            .map(|place| {
                let line = line(place);
                let turn = (line / 2).wrapping_add(index as usize);
                match written.made.get(turn % written.made.len().max(1)) {
                    Some(number) if line % 2 == 0 => around(*number, &mut stream),
                    _ => stream.bell() * ladder.get(turn % ladder.len().max(1)).copied().unwrap_or(1.0),
                }
            })
            .collect();
        return Some(Tensor { dtype, sizes: sizes.to_vec(), bytes: encode(dtype, &values) });
    }
    let integers = written.integers(stimulus, dtype);
    let whole = matches!(
        dtype,
        ScalarType::UInt8 | ScalarType::Int8 | ScalarType::Int16 | ScalarType::Int32 | ScalarType::Int64
    );
    if !whole || integers.is_empty() {
        return stimulus.tensor(dtype, sizes, seed, index);
    }
    let width = dtype.bytes();
    let mut bytes = Vec::with_capacity(count.checked_mul(width)?);
    for number in integers.iter().cycle().skip(index as usize % integers.len()).take(count) {
        bytes.extend_from_slice(number.to_le_bytes().get(..width)?);
    }
    Some(Tensor { dtype, sizes: sizes.to_vec(), bytes })
}

/// The number itself, its neighbours, what lies around it, and what has nothing to do with it.
fn around(number: f32, stream: &mut Stream) -> f32 {
    let near = stream.bell() * 0.1;
    match stream.integer(0, 5) {
        0 => number,
        1 => number.next_up(),
        2 => number.next_down(),
        3 | 4 => number + number * near,
        _ => near * 10.0,
    }
}

/// Four magnitudes to a power of ten, far ones beside each other, so that few lines already span all.
fn ladder(dtype: ScalarType) -> Vec<f32> {
    let most = if dtype == ScalarType::Float16 { 1.25 } else { 3.0 };
    let steps: Vec<f32> = (-8..=12_i8)
        .map(|step| f32::from(step) / 4.0)
        .filter(|step| *step <= most)
        .map(|step| 10_f32.powf(step))
        .collect();
    let len = steps.len();
    // Without a common divisor every step has its turn.
    let coprime = |stride: &usize| !(2..=*stride).any(|by| stride.is_multiple_of(by) && len.is_multiple_of(by));
    let stride = (len * 3 / 8..len).find(coprime).unwrap_or(1);
    (0..steps.len()).filter_map(|place| steps.get(place * stride % steps.len()).copied()).collect()
}

/// Makes every line an edge of its own out of bell-shaped numbers. Numbers stay small enough for their fourth power,
/// as two right forms may overflow differently.
pub(super) fn edges(values: &mut [f32], sizes: &[usize], half: bool, stream: &mut Stream) {
    /// Of the lines without anything else.
    const FACTORS: [f32; 10] = [1e-42, 1e5, 1e-36, 1e8, 1e-30, -0.0, 1e3, 1e-20, 1e6, 1e-12];
    const KINDS: usize = FACTORS.len() + 4;
    let longest = sizes.iter().copied().max().unwrap_or(0);
    let along = lines(Stimulus::Along(0), sizes).filter(|_| longest >= KINDS);
    for (place, value) in values.iter_mut().enumerate() {
        let line = along.as_ref().map_or(place / 4, |line| line(place));
        let some = stream.uniform() < 0.1;
        *value = match line % KINDS {
            0 if some => f32::INFINITY,
            1 if some => f32::NEG_INFINITY,
            2 if some => f32::NAN,
            3 => f32::NEG_INFINITY,
            0..=3 => *value,
            // Singles of that size become zeros and infinities in halves, which are edges too.
            kind => *value * FACTORS.get(kind - 4).copied().unwrap_or(1.0) * if half { 1e-2 } else { 1.0 },
        };
    }
}

/// Which line a place of a tensor belongs to; four places each where there is no such dimension.
pub(super) fn lines(stimulus: Stimulus, sizes: &[usize]) -> Option<Box<dyn Fn(usize) -> usize>> {
    let (rank, along) = match stimulus {
        Stimulus::Along(rank) => (rank, true),
        Stimulus::Across(rank) => (rank, false),
        _ => return None,
    };
    let mut dims: Vec<usize> = (0..sizes.len()).filter(|dim| sizes.get(*dim).is_some_and(|size| *size > 1)).collect();
    dims.sort_by_key(|dim| std::cmp::Reverse(sizes.get(*dim).copied()));
    let Some(&dim) = dims.get(rank).filter(|_| dims.len() > 1) else { return Some(Box::new(|place| place / 4)) };
    let size = sizes.get(dim).copied().unwrap_or(1).max(1);
    let stride: usize = sizes.iter().skip(dim + 1).product::<usize>().max(1);
    Some(if along {
        Box::new(move |place| place / stride % size)
    } else {
        Box::new(move |place| place / (stride * size) * stride + place % stride)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_rewrite_come_with_what_they_make() {
        let found = Written::of(&[70.0, 0.5, f64::NAN, 1e30], true).made;
        for wanted in [70.0, -0.5, 70.5, 35.0, 140.0, 1e30] {
            assert!(found.contains(&wanted), "{wanted}");
        }
        assert!(!Written::of(&[1e30], false).made.contains(&1e30));
        // What is written to distract pushes nothing out.
        let many: Vec<f64> = (0..40_i32).map(f64::from).chain([1234.0]).collect();
        assert!(Written::of(&many, false).made.contains(&1234.0));
    }

    #[test]
    fn every_number_decides_a_line_and_its_neighbours_are_there() {
        let written = Written::of(&[70.0, 0.5], true);
        let tensor = tensor_of(Stimulus::Along(0), &written, ScalarType::Float32, &[100, 64], 1, 0).expect("made");
        let values = tensor.to_f64().expect("real");
        for (line, number) in written.made.iter().take(50).enumerate() {
            let line: Vec<f64> = values.iter().skip(2 * line * 64).take(64).copied().collect();
            for wanted in [*number, number.next_up(), number.next_down()] {
                assert!(line.contains(&f64::from(wanted)), "{wanted}");
            }
            let largest = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!(largest <= f64::from(number.abs()) * 1.6 + 5.0, "{number}: {largest}");
        }
    }

    #[test]
    fn lines_run_along_and_across_the_longest_dimensions() {
        let line = |stimulus, place| lines(stimulus, &[1, 3, 5, 4]).expect("lines")(place);
        // The place (0, 1, 2, 3) of 1x3x5x4.
        let place = 20 + 2 * 4 + 3;
        assert_eq!(line(Stimulus::Along(0), place), 2);
        assert_eq!(line(Stimulus::Along(1), place), 3);
        assert_eq!(line(Stimulus::Across(0), place), 4 + 3);
        assert_eq!(line(Stimulus::Across(2), place), 2 * 4 + 3);
        assert_eq!(line(Stimulus::Across(3), place), place / 4);
        assert_eq!(lines(Stimulus::Along(0), &[7]).expect("lines")(6), 1);
    }

    #[test]
    fn magnitudes_span_the_whole_range_early() {
        let ladder = ladder(ScalarType::Float32);
        assert_eq!(ladder.len(), 21);
        let mut sorted = ladder.clone();
        sorted.sort_by(f32::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] / pair[0] < 1.9), "{sorted:?}");
        let early = ladder.get(..4).expect("four");
        assert!(early.iter().any(|step| *step < 1.0) && early.iter().any(|step| *step > 30.0), "{early:?}");
        assert!(super::ladder(ScalarType::Float16).iter().all(|step| *step < 20.0));
    }

    #[test]
    fn integers_are_the_numbers_as_far_as_the_type_goes() {
        let written = Written::of(&[1000.0, 20.0, -3.0], true);
        let of =
            |stimulus, dtype| tensor_of(stimulus, &written, dtype, &[50], 1, 0).expect("made").to_f64().expect("real");
        let natural = of(Stimulus::Along(0), ScalarType::Int64);
        assert!([1000.0, 1001.0, 999.0, 20.0].iter().all(|number| natural.contains(number)), "{natural:?}");
        assert!(natural.iter().all(|number| *number >= 0.0), "an index may be");
        assert!(of(Stimulus::Across(0), ScalarType::Int64).iter().all(|number| *number < 100.0), "a smaller one too");
        assert!(of(Stimulus::Along(1), ScalarType::Int32).contains(&-1000.0));
        assert!(of(Stimulus::Along(1), ScalarType::Int8).iter().all(|number| number.abs() <= 128.0));
    }

    #[test]
    fn edges_are_in_lines_of_their_own() {
        let tensor = Stimulus::Edges.tensor(ScalarType::Float32, &[3, 64, 5], 1, 0).expect("made");
        let values: Vec<f32> = tensor.to_f64().expect("real").iter().map(|value| *value as f32).collect();
        let line = |index: usize| -> Vec<f32> {
            (0..3).flat_map(|i| (0..5).map(move |j| (i * 64 + index) * 5 + j)).map(|place| values[place]).collect()
        };
        let any = |wanted: fn(&f32) -> bool| (0..64).any(|index| line(index).iter().any(wanted));
        assert!(any(|x| *x == f32::INFINITY) && any(|x| x.is_nan()) && any(|x| x.is_subnormal()));
        assert!(any(|x| *x == 0.0 && x.is_sign_negative()) && any(|x| *x == 0.0 && x.is_sign_positive()));
        assert!((0..64).any(|index| line(index).iter().all(|x| *x == f32::NEG_INFINITY)), "a masked line");
        assert!((0..64).any(|index| line(index).iter().all(|x| x.is_finite() && x.abs() > 10.0)), "large numbers only");
        let small = Stimulus::Edges.tensor(ScalarType::Float16, &[40, 20], 1, 0).expect("made");
        assert!(small.to_f64().expect("real").iter().any(|x| x.is_nan()), "in few lines too");
    }
}
