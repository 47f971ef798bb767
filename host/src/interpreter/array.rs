//! Values of the interpreter: an element type as the graph names it, and the numbers behind it.

use half::{bf16, f16};
use ndarray::{ArcArray, ArrayD, Axis, IxDyn, NdFloat};

use super::Precision;
use crate::graph::ScalarType;
use crate::tensor::Tensor;

/// A shared dynamic array.
pub type Nd<T> = ArcArray<T, IxDyn>;

/// The numbers of an [`Array`].
///
/// Halves and bfloats are singles that are rounded after every operation, as torch's CPU kernels do;
/// every integer type is 64 bits wide and wrapped after every operation.
#[derive(Clone, Debug)]
pub enum Data {
    /// `float32`, `float16`, `bfloat16`
    F32(Nd<f32>),
    /// `float64`, and every float type under [`Precision::Judge`]
    F64(Nd<f64>),
    /// integers
    I64(Nd<i64>),
    /// booleans
    Bool(Nd<bool>),
}

/// A tensor value.
#[derive(Clone, Debug)]
pub struct Array {
    dtype: ScalarType,
    data: Data,
}

/// Element types of storage.
pub(super) trait Element: Copy + Default + PartialEq + Send + Sync + 'static {
    /// the storage, when it holds this type
    fn of(data: &Data) -> Option<&Nd<Self>>;
    /// as storage
    fn wrap(array: Nd<Self>) -> Data;
}

macro_rules! element {
    ($type:ty, $variant:ident) => {
        impl Element for $type {
            fn of(data: &Data) -> Option<&Nd<Self>> {
                match data {
                    Data::$variant(array) => Some(array),
                    _ => None,
                }
            }
            fn wrap(array: Nd<Self>) -> Data {
                Data::$variant(array)
            }
        }
    };
}

element!(f32, F32);
element!(f64, F64);
element!(i64, I64);
element!(bool, Bool);

/// The two types that arithmetic is done in.
pub(super) trait Real: NdFloat + Element {
    /// nearest value
    fn of_f64(x: f64) -> Self;
    /// exact
    fn double(self) -> f64;
    /// error function
    fn erf(self) -> Self;
}

impl Real for f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest single is meant")]
    fn of_f64(x: f64) -> Self {
        x as Self
    }
    fn double(self) -> f64 {
        f64::from(self)
    }
    fn erf(self) -> Self {
        libm::erff(self)
    }
}

impl Real for f64 {
    fn of_f64(x: f64) -> Self {
        x
    }
    fn double(self) -> f64 {
        self
    }
    fn erf(self) -> Self {
        libm::erf(self)
    }
}

/// Runs `$body` with `$E` as the element type of the array's storage.
macro_rules! by_element {
    ($array:expr, $E:ident => $body:expr) => {
        match $array.data() {
            $crate::interpreter::array::Data::F32(_) => {
                type $E = f32;
                $body
            }
            $crate::interpreter::array::Data::F64(_) => {
                type $E = f64;
                $body
            }
            $crate::interpreter::array::Data::I64(_) => {
                type $E = i64;
                $body
            }
            $crate::interpreter::array::Data::Bool(_) => {
                type $E = bool;
                $body
            }
        }
    };
}

/// Runs `$body` with `$T` as `f32` or `f64`; anything else is an unsupported element type.
macro_rules! by_real {
    ($call:expr, $array:expr, $T:ident => $body:expr) => {
        match $array.data() {
            $crate::interpreter::array::Data::F32(_) => {
                type $T = f32;
                $body
            }
            $crate::interpreter::array::Data::F64(_) => {
                type $T = f64;
                $body
            }
            _ => return Err($call.unsupported_dtype($array.dtype())),
        }
    };
}

/// A new array of the same element type, made from the storage whatever it holds.
macro_rules! moved {
    ($array:expr, $a:ident => $body:expr) => {{
        let array: &$crate::interpreter::Array = $array;
        let data = match array.data() {
            $crate::interpreter::array::Data::F32($a) => $crate::interpreter::array::Data::F32($body),
            $crate::interpreter::array::Data::F64($a) => $crate::interpreter::array::Data::F64($body),
            $crate::interpreter::array::Data::I64($a) => $crate::interpreter::array::Data::I64($body),
            $crate::interpreter::array::Data::Bool($a) => $crate::interpreter::array::Data::Bool($body),
        };
        $crate::interpreter::Array::moved(array.dtype(), data)
    }};
}

pub(super) use {by_element, by_real, moved};

/// A contiguous row-major copy, or the array itself when it already is one.
pub(super) fn standard<E: Element>(array: &Nd<E>) -> Nd<E> {
    if array.is_standard_layout() {
        return array.clone();
    }
    shaped(array.shape(), elements(array)).unwrap_or_else(|| array.as_standard_layout().into_owned().into_shared())
}

/// The elements in row-major order.
pub(super) fn elements<E: Element>(array: &Nd<E>) -> Vec<E> {
    match array.as_slice() {
        Some(slice) => slice.to_vec(),
        None => {
            // Along the last dimension elements are a fixed step apart, which is much faster to follow than
            // an index of unknown rank.
            let mut elements = Vec::with_capacity(array.len());
            match array.ndim().checked_sub(1) {
                Some(last) => array.lanes(Axis(last)).into_iter().for_each(|lane| elements.extend(lane)),
                None => elements.extend(array.iter()),
            }
            elements
        }
    }
}

/// An array of `sizes` from its row-major elements; `None` when the counts differ.
pub(super) fn shaped<E: Element>(sizes: &[usize], elements: Vec<E>) -> Option<Nd<E>> {
    ArrayD::from_shape_vec(IxDyn(sizes), elements).ok().map(ArrayD::into_shared)
}

impl Array {
    /// From a tensor; `None` for complex and unnamed element types.
    pub fn from_tensor(tensor: &Tensor, precision: Precision) -> Option<Self> {
        if tensor.sizes.iter().try_fold(tensor.dtype.bytes(), |n, &size| n.checked_mul(size))
            != Some(tensor.bytes.len())
        {
            return None;
        }
        let bytes = &tensor.bytes;
        let data = match tensor.dtype {
            ScalarType::Float64 => Data::F64(shaped(&tensor.sizes, tensor.to_f64()?)?),
            dtype if dtype.is_floating() && precision == Precision::Judge => {
                Data::F64(shaped(&tensor.sizes, tensor.to_f64()?)?)
            }
            ScalarType::Float32 => {
                let values = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
                Data::F32(shaped(&tensor.sizes, values)?)
            }
            ScalarType::Float16 => {
                let values = bytes.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect();
                Data::F32(shaped(&tensor.sizes, values)?)
            }
            ScalarType::BFloat16 => {
                let values = bytes.as_chunks::<2>().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32()).collect();
                Data::F32(shaped(&tensor.sizes, values)?)
            }
            ScalarType::Int64 => {
                let values = bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect();
                Data::I64(shaped(&tensor.sizes, values)?)
            }
            #[expect(clippy::cast_possible_truncation, reason = "doubles of narrow integers are exact")]
            ScalarType::Int32 | ScalarType::Int16 | ScalarType::Int8 | ScalarType::UInt8 => {
                Data::I64(shaped(&tensor.sizes, tensor.to_f64()?.into_iter().map(|x| x as i64).collect())?)
            }
            ScalarType::Bool => Data::Bool(shaped(&tensor.sizes, bytes.iter().map(|&b| b != 0).collect())?),
            ScalarType::Complex64 | ScalarType::Complex128 | ScalarType::Other(_) => return None,
        };
        Some(Self { dtype: tensor.dtype, data })
    }

    /// As a tensor of its element type; doubles that stand for a narrower float (see
    /// [`Precision::Judge`]) stay doubles.
    pub fn to_tensor(&self) -> Tensor {
        fn bytes<E: Element, const N: usize>(array: &Nd<E>, write: impl Fn(E) -> [u8; N]) -> Vec<u8> {
            let mut bytes = Vec::with_capacity(array.len() * N);
            match array.as_slice() {
                Some(slice) => slice.iter().for_each(|&x| bytes.extend_from_slice(&write(x))),
                None => array.iter().for_each(|&x| bytes.extend_from_slice(&write(x))),
            }
            bytes
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "values are wrapped to their type")]
        let (dtype, bytes) = match (&self.data, self.dtype) {
            (Data::F32(a), ScalarType::Float16) => (self.dtype, bytes(a, |x| f16::from_f32(x).to_le_bytes())),
            (Data::F32(a), ScalarType::BFloat16) => (self.dtype, bytes(a, |x| bf16::from_f32(x).to_le_bytes())),
            (Data::F32(a), _) => (ScalarType::Float32, bytes(a, f32::to_le_bytes)),
            (Data::F64(a), _) => (ScalarType::Float64, bytes(a, f64::to_le_bytes)),
            (Data::I64(a), ScalarType::Int32) => (self.dtype, bytes(a, |x| (x as i32).to_le_bytes())),
            (Data::I64(a), ScalarType::Int16) => (self.dtype, bytes(a, |x| (x as i16).to_le_bytes())),
            (Data::I64(a), ScalarType::Int8) => (self.dtype, bytes(a, |x| (x as i8).to_le_bytes())),
            (Data::I64(a), ScalarType::UInt8) => (self.dtype, bytes(a, |x| [x as u8])),
            (Data::I64(a), _) => (ScalarType::Int64, bytes(a, i64::to_le_bytes)),
            (Data::Bool(a), _) => (ScalarType::Bool, bytes(a, |x| [u8::from(x)])),
        };
        Tensor { dtype, sizes: self.sizes().to_vec(), bytes }
    }

    /// Element type as the graph names it.
    pub fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// The numbers.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Sizes, outermost first.
    pub fn sizes(&self) -> &[usize] {
        match &self.data {
            Data::F32(a) => a.shape(),
            Data::F64(a) => a.shape(),
            Data::I64(a) => a.shape(),
            Data::Bool(a) => a.shape(),
        }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.sizes().len()
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.sizes().iter().product()
    }

    /// The storage as a given type.
    pub(super) fn storage<E: Element>(&self) -> Option<&Nd<E>> {
        E::of(&self.data)
    }

    /// Elements that were computed: rounded or wrapped to what the element type can hold.
    pub(super) fn computed(dtype: ScalarType, mut data: Data) -> Self {
        match (&mut data, dtype) {
            (Data::F32(a), ScalarType::Float16) => a.mapv_inplace(|x| f16::from_f32(x).to_f32()),
            (Data::F32(a), ScalarType::BFloat16) => a.mapv_inplace(|x| bf16::from_f32(x).to_f32()),
            (Data::I64(a), ScalarType::Int64) => _ = a,
            (Data::I64(a), dtype) => a.mapv_inplace(|x| wrap(x, dtype)),
            _ => {}
        }
        Self { dtype, data }
    }

    /// Elements that came from an array of the same element type.
    pub(super) fn moved(dtype: ScalarType, data: Data) -> Self {
        Self { dtype, data }
    }

    /// Another element type, with torch's conversions.
    #[expect(clippy::cast_possible_truncation, reason = "conversions to a narrower type are meant")]
    #[expect(clippy::cast_precision_loss, reason = "conversions to a narrower type are meant")]
    pub(super) fn cast(&self, dtype: ScalarType, precision: Precision) -> Self {
        if dtype == self.dtype {
            return self.clone();
        }
        let double = precision == Precision::Judge || dtype == ScalarType::Float64;
        let data = match dtype {
            ScalarType::Bool => Data::Bool(match &self.data {
                Data::F32(a) => a.mapv(|x| x != 0.0).into_shared(),
                Data::F64(a) => a.mapv(|x| x != 0.0).into_shared(),
                Data::I64(a) => a.mapv(|x| x != 0).into_shared(),
                Data::Bool(a) => a.clone(),
            }),
            dtype if dtype.is_floating() && double => Data::F64(match &self.data {
                Data::F32(a) => a.mapv(f64::from).into_shared(),
                Data::F64(a) => a.clone(),
                Data::I64(a) => a.mapv(|x| x as f64).into_shared(),
                Data::Bool(a) => a.mapv(|x| f64::from(u8::from(x))).into_shared(),
            }),
            dtype if dtype.is_floating() => Data::F32(match &self.data {
                Data::F32(a) => a.clone(),
                Data::F64(a) => a.mapv(|x| x as f32).into_shared(),
                Data::I64(a) => a.mapv(|x| x as f32).into_shared(),
                Data::Bool(a) => a.mapv(|x| f32::from(u8::from(x))).into_shared(),
            }),
            _ => Data::I64(match &self.data {
                Data::F32(a) => a.mapv(|x| x as i64).into_shared(),
                Data::F64(a) => a.mapv(|x| x as i64).into_shared(),
                Data::I64(a) => a.clone(),
                Data::Bool(a) => a.mapv(i64::from).into_shared(),
            }),
        };
        Self::computed(dtype, data)
    }

    /// `sizes` filled with one number.
    pub(super) fn filled(
        sizes: &[usize],
        value: super::arguments::Scalar,
        dtype: ScalarType,
        precision: Precision,
    ) -> Self {
        let scalar = value.as_array(precision).cast(dtype, precision);
        moved!(&scalar, a => {
            let value = a.first().copied().unwrap_or_default();
            ArrayD::from_elem(IxDyn(sizes), value).into_shared()
        })
    }
}

/// Two's complement wrap to the width of an integer type.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "wrapping is meant")]
fn wrap(x: i64, dtype: ScalarType) -> i64 {
    match dtype {
        ScalarType::Int32 => i64::from(x as i32),
        ScalarType::Int16 => i64::from(x as i16),
        ScalarType::Int8 => i64::from(x as i8),
        ScalarType::UInt8 => i64::from(x as u8),
        _ => x,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_survive_the_way_in_and_out() {
        for (dtype, bytes) in [
            (ScalarType::Float32, vec![0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f]),
            (ScalarType::Float16, vec![0, 0x3c, 0, 0xfc]),
            (ScalarType::BFloat16, vec![0x80, 0x3f, 0x80, 0xff]),
            (ScalarType::Int8, vec![0xff, 0x7f]),
            (ScalarType::UInt8, vec![0xff, 0x7f]),
            (ScalarType::Int16, vec![0xff, 0xff, 1, 0]),
            (ScalarType::Bool, vec![1, 0]),
        ] {
            let tensor = Tensor { dtype, sizes: vec![2, 1], bytes };
            let array = Array::from_tensor(&tensor, Precision::Torch).expect("supported");
            assert_eq!(array.to_tensor(), tensor, "{dtype:?}");
        }
    }

    #[test]
    fn a_payload_of_the_wrong_length_is_no_array() {
        let tensor = Tensor { dtype: ScalarType::Float32, sizes: vec![usize::MAX, 2], bytes: vec![0; 4] };
        assert!(Array::from_tensor(&tensor, Precision::Torch).is_none());
    }

    #[test]
    fn the_judge_keeps_doubles_and_the_name_of_the_type() {
        let tensor = Tensor { dtype: ScalarType::Float16, sizes: vec![1], bytes: vec![0, 0x3c] };
        let array = Array::from_tensor(&tensor, Precision::Judge).expect("supported");
        assert_eq!(array.dtype(), ScalarType::Float16);
        assert_eq!(array.to_tensor().dtype, ScalarType::Float64);
    }

    #[test]
    fn casts_wrap_and_round() {
        let tensor = Tensor { dtype: ScalarType::Int64, sizes: vec![1], bytes: 300_i64.to_le_bytes().to_vec() };
        let array = Array::from_tensor(&tensor, Precision::Torch).expect("supported");
        assert_eq!(array.cast(ScalarType::UInt8, Precision::Torch).to_tensor().bytes, vec![44]);
        let half = array.cast(ScalarType::BFloat16, Precision::Torch).to_tensor();
        assert_eq!(half.to_f64(), Some(vec![300.0]));
    }
}
