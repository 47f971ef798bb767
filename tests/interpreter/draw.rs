//! Random arguments from a fixed seed.

use delegate_doctor::graph::ScalarType;
use delegate_doctor::tensor::Tensor;

/// A stream of choices.
pub struct Draw(u64);

impl Draw {
    /// The same seed, the same choices.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `low..=high`
    pub fn int(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % u64::try_from(high - low + 1).expect("a range")) as i64
    }

    /// `low..=high`
    pub fn size(&mut self, low: usize, high: usize) -> usize {
        self.int(low as i64, high as i64) as usize
    }

    /// `0..1`
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of two.
    pub fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// One of a list.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.size(0, list.len() - 1)]
    }

    /// Sizes of a rank within `ranks`.
    pub fn sizes(&mut self, low: usize, high: usize) -> Vec<usize> {
        (0..self.size(low, high)).map(|_| self.size(1, 5)).collect()
    }

    /// A dimension of a rank, sometimes counted from the end.
    pub fn dim(&mut self, rank: usize) -> i64 {
        let rank = rank.max(1) as i64;
        self.int(-rank, rank - 1)
    }

    /// Mostly singles, sometimes another float type.
    pub fn float_type(&mut self) -> ScalarType {
        use ScalarType::{BFloat16, Float16, Float32, Float64};
        self.pick(&[Float32, Float32, Float32, Float64, Float16, BFloat16])
    }

    /// Any element type that can be compared.
    pub fn any_type(&mut self) -> ScalarType {
        use ScalarType::{Bool, Float16, Float32, Float64, Int8, Int32, Int64, UInt8};
        self.pick(&[Float32, Float32, Float64, Float16, Int64, Int32, Int8, UInt8, Bool])
    }

    /// A number that a tensor of floats may hold.
    fn float(&mut self) -> f64 {
        (self.unit() + self.unit() + self.unit() + self.unit() - 2.0) * 3.0
    }

    /// A tensor of small numbers.
    pub fn tensor(&mut self, dtype: ScalarType, sizes: &[usize]) -> Tensor {
        self.filled(dtype, sizes, Self::float)
    }

    /// Floats of which some are equal, infinite or NaN.
    pub fn odd(&mut self, dtype: ScalarType, sizes: &[usize]) -> Tensor {
        self.filled(dtype, sizes, |draw| match draw.int(0, 19) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3..9 => draw.int(-2, 2) as f64,
            _ => draw.float(),
        })
    }

    /// Positive floats.
    pub fn positive(&mut self, dtype: ScalarType, sizes: &[usize]) -> Tensor {
        self.filled(dtype, sizes, |draw| 0.05 + 3.0 * draw.unit())
    }

    /// Integers `low..=high`.
    pub fn indices(&mut self, sizes: &[usize], low: i64, high: i64) -> Tensor {
        let count: usize = sizes.iter().product();
        let bytes = (0..count).flat_map(|_| self.int(low, high).to_le_bytes()).collect();
        Tensor { dtype: ScalarType::Int64, sizes: sizes.to_vec(), bytes }
    }

    fn filled(&mut self, dtype: ScalarType, sizes: &[usize], mut value: impl FnMut(&mut Self) -> f64) -> Tensor {
        let count: usize = sizes.iter().product();
        let mut bytes = Vec::new();
        for _ in 0..count {
            match dtype {
                ScalarType::Float32 => bytes.extend((value(self) as f32).to_le_bytes()),
                ScalarType::Float64 => bytes.extend(value(self).to_le_bytes()),
                ScalarType::Float16 => bytes.extend(half_bits(value(self) as f32)),
                ScalarType::BFloat16 => bytes.extend(&(value(self) as f32).to_le_bytes()[2..]),
                ScalarType::Bool => bytes.push(u8::from(self.coin())),
                ScalarType::UInt8 => bytes.push(self.int(0, 9) as u8),
                ScalarType::Int8 => bytes.extend((self.int(-9, 9) as i8).to_le_bytes()),
                ScalarType::Int32 => bytes.extend((self.int(-9, 9) as i32).to_le_bytes()),
                _ => bytes.extend(self.int(-9, 9).to_le_bytes()),
            }
        }
        Tensor { dtype, sizes: sizes.to_vec(), bytes }
    }
}

/// The bits of a half; small numbers, truncated.
fn half_bits(x: f32) -> [u8; 2] {
    let bits = x.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let exponent = (bits >> 23 & 0xff) as i32 - 112;
    let half = if x.is_nan() {
        0x7e00
    } else if exponent >= 31 {
        sign | 0x7c00
    } else if exponent <= 0 {
        sign
    } else {
        sign | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16
    };
    half.to_le_bytes()
}
