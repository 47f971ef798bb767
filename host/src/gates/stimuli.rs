//! What a site is fed with, in order of what each is worth.

mod magnitudes;

use half::{bf16, f16};

pub use self::magnitudes::{Written, tensor_of};

use super::inputs::Stream;
use crate::graph::ScalarType;
use crate::tensor::Tensor;

/// A pattern of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stimulus {
    /// activations of the original on real inputs, by number
    Captured(usize),
    /// bell-shaped, by seed
    Random(u64),
    /// infinities of both signs among random numbers
    Infinities,
    /// small whole numbers, so that many are equal
    Ties,
    /// all zero
    Zeros,
    /// around 1e3
    Large,
    /// a line of minus infinity along every dimension
    Masked,
    /// NaN among random numbers
    Nans,
    /// around 1e-6
    Tiny,
    /// the numbers that stand in the two forms and every magnitude, one for each index along a dimension: the
    /// longest for 0, the next longest for 1
    Along(usize),
    /// the same, one for each line across such a dimension
    Across(usize),
    /// what is easily forgotten, each in a line of its own: infinities, NaN, zeros of both signs, numbers without
    /// all their bits, tiny and huge ones
    Edges,
    /// all negative
    Negative,
    /// between zero and one
    Unit,
    /// near the ends of the type's range
    Extreme,
    /// one number everywhere
    Constant,
}

/// The patterns of a site, most telling first. Extremes are for claims of equal bits: elsewhere two right
/// forms may overflow differently.
pub fn plan(captured: usize, exact: bool) -> Vec<Stimulus> {
    let mut captured = (0..captured).map(Stimulus::Captured);
    let mut plan: Vec<Stimulus> = captured.next().into_iter().collect();
    plan.extend([Stimulus::Along(0), Stimulus::Along(1), Stimulus::Edges]);
    plan.extend(captured);
    plan.extend([
        Stimulus::Random(1),
        Stimulus::Infinities,
        Stimulus::Ties,
        Stimulus::Large,
        Stimulus::Across(0),
        Stimulus::Across(1),
        Stimulus::Across(2),
        Stimulus::Masked,
        Stimulus::Zeros,
        Stimulus::Negative,
        Stimulus::Nans,
        Stimulus::Tiny,
        Stimulus::Random(2),
        Stimulus::Unit,
        Stimulus::Constant,
    ]);
    if exact {
        plan.push(Stimulus::Extreme);
    }
    plan.push(Stimulus::Random(3));
    plan
}

impl Stimulus {
    /// For the report.
    pub fn name(self) -> String {
        match self {
            Self::Captured(i) => format!("real activations {}", i + 1),
            Self::Random(seed) => format!("seeded random {seed}"),
            Self::Infinities => "infinities".to_owned(),
            Self::Ties => "ties".to_owned(),
            Self::Zeros => "zeros".to_owned(),
            Self::Large => "large magnitudes".to_owned(),
            Self::Masked => "lines of minus infinity".to_owned(),
            Self::Nans => "NaN".to_owned(),
            Self::Tiny => "tiny magnitudes".to_owned(),
            Self::Along(rank) => format!("numbers of the repair and every magnitude along dimension {}", rank + 1),
            Self::Across(rank) => format!("numbers of the repair and every magnitude across dimension {}", rank + 1),
            Self::Edges => "infinities, NaN, zeros of both signs, tiny and huge numbers".to_owned(),
            Self::Negative => "negative numbers".to_owned(),
            Self::Unit => "numbers between 0 and 1".to_owned(),
            Self::Extreme => "ends of the range".to_owned(),
            Self::Constant => "one number everywhere".to_owned(),
        }
    }

    /// A tensor of the pattern; `None` for element types that cannot be made up.
    pub fn tensor(self, dtype: ScalarType, sizes: &[usize], seed: u64, index: u64) -> Option<Tensor> {
        let stream_of = match self {
            Self::Random(seed) => 16 + seed,
            Self::Ties => 1,
            Self::Infinities => 2,
            Self::Nans => 3,
            _ => 0,
        };
        let mut stream = Stream::new(seed, 1000 + index * 64 + stream_of);
        let count: usize = sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size))?;
        match dtype {
            dtype if dtype.is_floating() => {
                let values = self.floats(dtype, sizes, count, &mut stream);
                Some(Tensor { dtype, sizes: sizes.to_vec(), bytes: encode(dtype, &values) })
            }
            ScalarType::Bool => {
                // A form may be right for mixed truths only: whole lines and whole tensors of one are fed as well.
                let line = magnitudes::lines(Stimulus::Along(0), sizes);
                let bytes = (0..count).map(|place| match self {
                    Self::Zeros | Self::Negative => 0,
                    Self::Constant | Self::Unit => 1,
                    Self::Along(_) | Self::Across(_) | Self::Edges => {
                        match line.as_ref().map_or(0, |line| line(place)) % 3 {
                            0 => 0,
                            1 => 1,
                            _ => u8::from(stream.uniform() < 0.5),
                        }
                    }
                    _ => u8::from(stream.uniform() < 0.5),
                });
                let bytes = bytes.collect();
                Some(Tensor { dtype, sizes: sizes.to_vec(), bytes })
            }
            ScalarType::UInt8 | ScalarType::Int8 | ScalarType::Int16 | ScalarType::Int32 | ScalarType::Int64 => {
                let width = dtype.bytes();
                let mut bytes = Vec::with_capacity(count.checked_mul(width)?);
                for _ in 0..count {
                    let integer = self.integer(dtype, &mut stream).to_le_bytes();
                    bytes.extend_from_slice(integer.get(..width)?);
                }
                Some(Tensor { dtype, sizes: sizes.to_vec(), bytes })
            }
            _ => None,
        }
    }

    /// Integers may be indices into dimensions of any size: 0 and 1 fit most, and where other numbers do
    /// not, the evaluation says so on both sides.
    fn integer(self, dtype: ScalarType, stream: &mut Stream) -> i64 {
        let (least, most) = match self {
            Self::Zeros => (0, 0),
            Self::Large | Self::Extreme => (-100, 100),
            Self::Negative => (-9, -1),
            Self::Ties => (-3, 3),
            _ => (0, 1),
        };
        let number = stream.integer(least, most);
        if dtype == ScalarType::UInt8 { number.abs() } else { number }
    }

    #[expect(clippy::cast_possible_truncation, reason = "stimuli are singles")]
    fn floats(self, dtype: ScalarType, sizes: &[usize], count: usize, stream: &mut Stream) -> Vec<f32> {
        let half = dtype == ScalarType::Float16;
        let mut bell = || stream.bell();
        let mut values: Vec<f32> = match self {
            Self::Zeros => return vec![0.0; count],
            Self::Constant => return vec![2.5; count],
            Self::Ties => (0..count).map(|_| (stream.integer(-1, 1)) as f32).collect(),
            Self::Unit => (0..count).map(|_| stream.uniform() as f32).collect(),
            Self::Large => (0..count).map(|_| bell() * if half { 16.0 } else { 1e3 }).collect(),
            Self::Tiny => (0..count).map(|_| bell() * if half { 1e-4 } else { 1e-6 }).collect(),
            Self::Negative => (0..count).map(|_| -bell().abs()).collect(),
            Self::Extreme => (0..count).map(|_| bell() * if half { 2e4 } else { 1e38 }).collect(),
            _ => (0..count).map(|_| bell()).collect(),
        };
        match self {
            Self::Infinities => {
                for x in &mut values {
                    let dice = stream.uniform();
                    if dice < 0.02 {
                        *x = if dice < 0.01 { f32::INFINITY } else { f32::NEG_INFINITY };
                    }
                }
            }
            Self::Nans => {
                for x in &mut values {
                    if stream.uniform() < 0.01 {
                        *x = f32::NAN;
                    }
                }
            }
            Self::Masked => lines(&mut values, sizes, f32::NEG_INFINITY),
            Self::Edges => magnitudes::edges(&mut values, sizes, half, stream),
            _ => {}
        }
        values
    }
}

/// Fills one line of elements along every dimension, at the middle of the others.
fn lines(values: &mut [f32], sizes: &[usize], fill: f32) {
    let mut stride = 1;
    let strides: Vec<usize> = sizes
        .iter()
        .rev()
        .map(|&size| {
            let own = stride;
            stride *= size;
            own
        })
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    let middle: usize = sizes.iter().zip(&strides).map(|(&size, &stride)| (size / 2) * stride).sum();
    for (&size, &stride) in sizes.iter().zip(&strides) {
        let start = middle - (size / 2) * stride;
        for i in 0..size {
            if let Some(x) = values.get_mut(start + i * stride) {
                *x = fill;
            }
        }
    }
}

fn encode(dtype: ScalarType, values: &[f32]) -> Vec<u8> {
    match dtype {
        ScalarType::Float16 => values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        ScalarType::BFloat16 => values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
        ScalarType::Float64 => values.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|&x| x.to_le_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_fits_every_type_it_can_be_made_for() {
        for dtype in [ScalarType::Float32, ScalarType::Float16, ScalarType::Int64, ScalarType::UInt8, ScalarType::Bool]
        {
            for sizes in [vec![], vec![0, 3], vec![2, 3, 5]] {
                for stimulus in plan(0, true) {
                    let tensor = stimulus.tensor(dtype, &sizes, 1, 0).expect("made");
                    assert_eq!(tensor.bytes.len(), tensor.len() * dtype.bytes(), "{stimulus:?} {dtype:?}");
                    let integers = tensor.to_f64().expect("real");
                    let range = if dtype == ScalarType::UInt8 { 0.0..=100.0 } else { -100.0..=100.0 };
                    assert!(dtype.is_floating() || integers.iter().all(|x| range.contains(x)));
                }
            }
        }
        assert_eq!(Stimulus::Zeros.tensor(ScalarType::Complex64, &[1], 1, 0), None);
    }

    #[test]
    fn truths_are_mixed_alike_and_in_lines() {
        let of = |stimulus: Stimulus| stimulus.tensor(ScalarType::Bool, &[6, 4], 1, 0).expect("made").bytes;
        assert!(of(Stimulus::Zeros).iter().all(|truth| *truth == 0));
        assert!(of(Stimulus::Constant).iter().all(|truth| *truth == 1));
        let edges = of(Stimulus::Edges);
        assert_eq!((&edges[..4], &edges[4..8]), (&[0; 4][..], &[1; 4][..]));
        assert!(of(Stimulus::Random(1)).contains(&0) && of(Stimulus::Random(1)).contains(&1));
    }

    #[test]
    fn masked_lines_run_along_every_dimension() {
        let tensor = Stimulus::Masked.tensor(ScalarType::Float32, &[3, 4], 1, 0).expect("made");
        let values = tensor.to_f64().expect("real");
        let masked = |i: usize, j: usize| values[i * 4 + j] == f64::NEG_INFINITY;
        assert!((0..4).all(|j| masked(1, j)) && (0..3).all(|i| masked(i, 2)));
        assert!(!masked(0, 0));
    }

    #[test]
    fn inputs_of_one_site_differ_from_each_other() {
        let tensor = |index| Stimulus::Random(1).tensor(ScalarType::Float32, &[8], 1, index);
        assert_ne!(tensor(0), tensor(1));
        assert_eq!(tensor(0), tensor(0));
    }
}
