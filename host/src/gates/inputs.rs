//! The inputs every program is judged on: the user's own first, then seeded variations of them.
//!
//! In: the user's inputs, as they came from the export. Out: named sets of tensors of the same sizes
//! and element types. The same seed gives the same sets on every platform. Random floats follow the
//! user's own mean and spread, so that sets are comparable; integers stay within the range the user's
//! own input covers, because they may be indices.

use half::{bf16, f16};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::graph::ScalarType;
use crate::tensor::Tensor;

/// What a set of inputs is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// what the user gave
    User,
    /// normally distributed with the user's mean and spread
    Normal,
    /// evenly distributed over the user's range
    Uniform,
    /// the user's own, rolled along the last two dimensions
    Shifted,
    /// all floats zero
    Zeros,
    /// floats around 1e-6
    Tiny,
    /// floats around 1e3 (16 in half precision)
    Large,
}

impl InputKind {
    /// True for inputs as the model may meet them; the others are extremes.
    pub fn is_ordinary(self) -> bool {
        matches!(self, Self::User | Self::Normal | Self::Uniform | Self::Shifted)
    }
}

/// One set of inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSet {
    /// for the report, e.g. `seeded normal`
    pub name: String,
    /// what it is
    pub kind: InputKind,
    /// one tensor an input, in the program's order
    pub tensors: Vec<Tensor>,
}

/// A set again with its floats moved by up to one rounding step.
///
/// How much an eager run moves with them is what rounding alone explains. Probes are run once, on the
/// original, in eager PyTorch.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundingProbe {
    /// index of the set in [`Inputs::sets`]
    pub of: usize,
    /// the moved inputs
    pub tensors: Vec<Tensor>,
}

/// All inputs of a judgement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// the user's own first
    pub sets: Vec<InputSet>,
    /// see [`RoundingProbe`]
    pub probes: Vec<RoundingProbe>,
}

/// Makes the input sets from the user's own. Sets that would repeat an earlier one are left out.
pub fn input_sets(user: &[Tensor], seed: u64) -> Inputs {
    let kinds = [
        (InputKind::User, "the user's inputs"),
        (InputKind::Normal, "seeded normal"),
        (InputKind::Uniform, "seeded uniform"),
        (InputKind::Shifted, "the user's inputs, shifted"),
        (InputKind::Zeros, "zeros"),
        (InputKind::Tiny, "tiny magnitudes"),
        (InputKind::Large, "large magnitudes"),
    ];
    let mut inputs = Inputs::default();
    for (index, (kind, name)) in kinds.into_iter().enumerate() {
        let mut stream = Stream::new(seed, index as u64);
        let tensors: Vec<Tensor> = user.iter().map(|tensor| vary(tensor, kind, &mut stream)).collect();
        if !inputs.sets.iter().any(|set| set.tensors == tensors) {
            inputs.sets.push(InputSet { name: name.to_owned(), kind, tensors });
        }
    }
    for (of, set) in inputs.sets.iter().enumerate() {
        if !matches!(set.kind, InputKind::User | InputKind::Normal | InputKind::Uniform | InputKind::Large) {
            continue;
        }
        let mut stream = Stream::new(seed, 100 + of as u64);
        let tensors: Vec<Tensor> = set.tensors.iter().map(|tensor| jitter(tensor, &mut stream)).collect();
        if tensors != set.tensors {
            inputs.probes.push(RoundingProbe { of, tensors });
        }
    }
    inputs
}

/// A seeded stream of numbers.
pub(crate) struct Stream(ChaCha8Rng);

impl Stream {
    /// Streams of different numbers are independent of each other.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// Evenly distributed in `0..1`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normally distributed around zero with spread one.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Bell-shaped around zero with spread one, within -3.5 and 3.5: the sum of four even numbers.
    #[expect(clippy::cast_precision_loss, reason = "the sum has 18 bits")]
    pub(crate) fn bell(&mut self) -> f32 {
        let bits = self.0.next_u64();
        let sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
        (sum as f32 / 65_536.0 - 2.0) * 1.732_050_8
    }

    /// Evenly distributed over `low..=high`.
    #[expect(clippy::cast_possible_truncation, reason = "the offset is below the width of the range")]
    pub(crate) fn integer(&mut self, low: i64, high: i64) -> i64 {
        let width = i128::from(high) - i128::from(low) + 1;
        if width <= 1 {
            return low;
        }
        let offset = (u128::from(self.0.next_u64()) * width.unsigned_abs()) >> 64;
        (i128::from(low) + offset as i128) as i64
    }
}

/// A float tensor of the type and sizes of another one; values are rounded to the type.
pub(crate) fn floats(dtype: ScalarType, sizes: &[usize], mut value: impl FnMut(usize) -> f64) -> Tensor {
    let count: usize = sizes.iter().product();
    let mut bytes = Vec::with_capacity(count.saturating_mul(dtype.bytes()));
    for i in 0..count {
        let x = value(i);
        match dtype {
            ScalarType::Float16 => bytes.extend_from_slice(&f16::from_f64(x).to_le_bytes()),
            ScalarType::BFloat16 => bytes.extend_from_slice(&bf16::from_f64(x).to_le_bytes()),
            ScalarType::Float64 => bytes.extend_from_slice(&x.to_le_bytes()),
            #[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest single is meant")]
            _ => bytes.extend_from_slice(&(x as f32).to_le_bytes()),
        }
    }
    Tensor { dtype, sizes: sizes.to_vec(), bytes }
}

/// Rounding step of an element type, relative to one.
pub(crate) fn epsilon(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::Float16 => 9.765_625e-4,
        ScalarType::BFloat16 => 7.812_5e-3,
        ScalarType::Float64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

struct Spread {
    mean: f64,
    deviation: f64,
    low: f64,
    high: f64,
}

/// Mean, deviation and range of the finite elements; a standard one where they do not vary.
fn spread(values: &[f64]) -> Spread {
    let finite: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    #[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
    let count = finite.len().max(1) as f64;
    let mean = finite.iter().sum::<f64>() / count;
    let deviation = (finite.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count).sqrt();
    let low = finite.iter().copied().fold(f64::INFINITY, f64::min);
    let high = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if deviation > 0.0 && deviation.is_finite() {
        Spread { mean, deviation, low, high }
    } else {
        Spread { mean: 0.0, deviation: 1.0, low: -1.0, high: 1.0 }
    }
}

fn vary(tensor: &Tensor, kind: InputKind, stream: &mut Stream) -> Tensor {
    match (kind, tensor.dtype) {
        (InputKind::User, _) => tensor.clone(),
        (InputKind::Shifted, _) => shifted(tensor),
        (_, dtype) if dtype.is_floating() => {
            let Some(values) = tensor.to_f64() else { return tensor.clone() };
            let own = spread(&values);
            let large = if dtype == ScalarType::Float16 { 16.0 } else { 1e3 };
            floats(dtype, &tensor.sizes, |_| match kind {
                InputKind::Normal => own.mean + own.deviation * stream.normal(),
                InputKind::Uniform => own.low + (own.high - own.low) * stream.uniform(),
                InputKind::Tiny => 1e-6 * stream.normal(),
                InputKind::Large => large * stream.normal(),
                _ => 0.0,
            })
        }
        (InputKind::Normal | InputKind::Uniform, ScalarType::Bool) => {
            let bytes = tensor.bytes.iter().map(|_| u8::from(stream.uniform() < 0.5)).collect();
            Tensor { bytes, ..tensor.clone() }
        }
        (InputKind::Normal | InputKind::Uniform, _) => integers(tensor, stream),
        _ => tensor.clone(),
    }
}

/// Integers drawn from the range that the tensor covers.
fn integers(tensor: &Tensor, stream: &mut Stream) -> Tensor {
    fn drawn<const N: usize>(
        tensor: &Tensor,
        read: fn([u8; N]) -> i64,
        write: fn(i64) -> [u8; N],
        stream: &mut Stream,
    ) -> Vec<u8> {
        let values: Vec<i64> = tensor.bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect();
        let (low, high) = (values.iter().min().copied(), values.iter().max().copied());
        let (Some(low), Some(high)) = (low, high) else { return tensor.bytes.clone() };
        values.iter().flat_map(|_| write(stream.integer(low, high))).collect()
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "drawn from the range of the type")]
    let bytes = match tensor.dtype {
        ScalarType::UInt8 => drawn(tensor, |[b]: [u8; 1]| i64::from(b), |x| [x as u8], stream),
        ScalarType::Int8 => {
            drawn(tensor, |b: [u8; 1]| i64::from(i8::from_le_bytes(b)), |x| (x as i8).to_le_bytes(), stream)
        }
        ScalarType::Int16 => {
            drawn(tensor, |b: [u8; 2]| i64::from(i16::from_le_bytes(b)), |x| (x as i16).to_le_bytes(), stream)
        }
        ScalarType::Int32 => {
            drawn(tensor, |b: [u8; 4]| i64::from(i32::from_le_bytes(b)), |x| (x as i32).to_le_bytes(), stream)
        }
        ScalarType::Int64 => drawn(tensor, i64::from_le_bytes, i64::to_le_bytes, stream),
        _ => tensor.bytes.clone(),
    };
    Tensor { bytes, ..tensor.clone() }
}

/// The elements rolled by a third of each of the last two dimensions.
fn shifted(tensor: &Tensor) -> Tensor {
    let width = tensor.dtype.bytes();
    let (rows, columns) = match tensor.sizes.as_slice() {
        [] => return tensor.clone(),
        [n] => (1, *n),
        [.., rows, columns] => (*rows, *columns),
    };
    let plane = rows.saturating_mul(columns).saturating_mul(width);
    if plane == 0 || !tensor.bytes.len().is_multiple_of(plane) {
        return tensor.clone();
    }
    let step = |n: usize| if n > 1 { (n / 3).max(1) } else { 0 };
    let mut bytes = tensor.bytes.clone();
    for plane in bytes.chunks_exact_mut(plane) {
        for row in plane.chunks_exact_mut(columns * width) {
            row.rotate_right(step(columns) * width);
        }
        plane.rotate_right(step(rows) * columns * width);
    }
    Tensor { bytes, ..tensor.clone() }
}

/// Every float moved by up to one rounding step.
fn jitter(tensor: &Tensor, stream: &mut Stream) -> Tensor {
    let (dtype, Some(values)) = (tensor.dtype, tensor.to_f64()) else { return tensor.clone() };
    if !dtype.is_floating() {
        return tensor.clone();
    }
    let step = epsilon(dtype);
    let mut values = values.into_iter();
    floats(dtype, &tensor.sizes, |_| values.next().unwrap_or(0.0) * (1.0 + step * (2.0 * stream.uniform() - 1.0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn single(values: &[f64], sizes: &[usize]) -> Tensor {
        floats(ScalarType::Float32, sizes, |i| values.get(i).copied().unwrap_or(0.0))
    }

    #[test]
    fn the_users_inputs_come_first_and_the_sets_repeat_with_the_seed() {
        let user = [single(&[1.0, 2.0, 5.0, -3.0], &[2, 2])];
        let inputs = input_sets(&user, 7);
        assert_eq!(inputs.sets[0].tensors, user);
        assert_eq!(inputs.sets.len(), 7);
        assert_eq!(inputs, input_sets(&user, 7));
        assert_ne!(inputs, input_sets(&user, 8));
        assert_eq!(inputs.probes.iter().map(|probe| probe.of).collect::<Vec<_>>(), [0, 1, 2, 6]);
    }

    #[test]
    fn random_floats_follow_the_users_distribution() {
        let values: Vec<f64> = (0..4096).map(|i| 100.0 + f64::from(i % 64)).collect();
        let inputs = input_sets(&[single(&values, &[64, 64])], 1);
        let of = |kind| {
            let set = inputs.sets.iter().find(|set| set.kind == kind).expect("present");
            spread(&set.tensors[0].to_f64().expect("real"))
        };
        let normal = of(InputKind::Normal);
        assert!((normal.mean - 131.5).abs() < 2.0 && (normal.deviation - 18.5).abs() < 1.0);
        let uniform = of(InputKind::Uniform);
        assert!(uniform.low >= 100.0 && uniform.high <= 163.0);
        assert!(of(InputKind::Tiny).deviation < 1e-5);
        assert!(of(InputKind::Large).deviation > 900.0);
    }

    #[test]
    fn indices_stay_in_the_users_range_and_equal_sets_appear_once() {
        let ids: Vec<u8> = [3_i64, 9, 4, 5].iter().flat_map(|x| x.to_le_bytes()).collect();
        let user = [Tensor { dtype: ScalarType::Int64, sizes: vec![4], bytes: ids }];
        let inputs = input_sets(&user, 3);
        assert!(inputs.probes.is_empty());
        assert!(inputs.sets.len() <= 4, "zeros, tiny and large change no integer");
        for set in &inputs.sets {
            assert!(set.tensors[0].to_f64().expect("real").iter().all(|x| (3.0..=9.0).contains(x)), "{}", set.name);
        }
    }

    #[test]
    fn shifting_moves_rows_and_columns() {
        let tensor = single(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
        assert_eq!(shifted(&tensor).to_f64(), Some(vec![6.0, 4.0, 5.0, 3.0, 1.0, 2.0]));
    }

    #[test]
    fn rounding_probes_move_by_less_than_two_steps() {
        let tensor = single(&[1.0, -1000.0, 0.0, f64::INFINITY], &[4]);
        let moved = jitter(&tensor, &mut Stream::new(1, 1)).to_f64().expect("real");
        assert!((moved[0] - 1.0).abs() < 2.5e-7 && (moved[1] + 1000.0).abs() < 2.5e-4);
        assert_eq!(moved[2..], [0.0, f64::INFINITY]);
    }

    proptest! {
        #[test]
        fn any_tensor_gives_sets_of_its_own_form(
            sizes in prop::collection::vec(0_usize..4, 0..4),
            dtype in prop::sample::select(vec![
                ScalarType::UInt8, ScalarType::Int8, ScalarType::Int16, ScalarType::Int32, ScalarType::Int64,
                ScalarType::Float16, ScalarType::BFloat16, ScalarType::Float32, ScalarType::Float64,
                ScalarType::Bool, ScalarType::Complex64, ScalarType::Other(99),
            ]),
            byte in any::<u8>(),
        ) {
            let count: usize = sizes.iter().product();
            let tensor = Tensor { dtype, sizes, bytes: vec![byte; count * dtype.bytes()] };
            for set in input_sets(std::slice::from_ref(&tensor), 1).sets {
                prop_assert_eq!(&set.tensors[0].sizes, &tensor.sizes);
                prop_assert_eq!(set.tensors[0].dtype, tensor.dtype);
                prop_assert_eq!(set.tensors[0].bytes.len(), tensor.bytes.len());
            }
        }
    }
}
