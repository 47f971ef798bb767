//! Tensors in memory and on disk, as they travel between host, worker and runner.

use std::io;
use std::path::Path;

use fs_err as fs;
use half::{bf16, f16};

use crate::files::write_atomic;
use crate::graph::ScalarType;
use crate::torch::protocol::TensorFile;

/// A dense row-major tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// element type
    pub dtype: ScalarType,
    /// sizes, outermost first
    pub sizes: Vec<usize>,
    /// little-endian elements, row major
    pub bytes: Vec<u8>,
}

/// Why a tensor could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// dtype that this version cannot read
    #[error("Tensor `{path}` has element type `{dtype}`, which is not supported here")]
    Dtype {
        /// file
        path: String,
        /// dtype name
        dtype: String,
    },
    /// payload does not fit the sizes
    #[error("Tensor `{path}` holds {found} bytes, but its sizes need {wanted}")]
    Length {
        /// file
        path: String,
        /// bytes found
        found: usize,
        /// bytes needed
        wanted: usize,
    },
    /// file trouble
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Tensor {
    /// Reads a tensor file.
    ///
    /// # Errors
    /// Unknown dtype, wrong length, unreadable file.
    pub fn read(file: &TensorFile) -> Result<Self, Error> {
        let path = file.path.display().to_string();
        let dtype = ScalarType::from_torch_name(&file.dtype)
            .ok_or_else(|| Error::Dtype { path: path.clone(), dtype: file.dtype.clone() })?;
        let bytes = fs::read(&file.path)?;
        let sizes: Vec<usize> = file.sizes.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
        let wanted = sizes.iter().try_fold(dtype.bytes(), |product, &n| product.checked_mul(n)).unwrap_or(usize::MAX);
        if bytes.len() != wanted {
            return Err(Error::Length { path, found: bytes.len(), wanted });
        }
        Ok(Self { dtype, sizes, bytes })
    }

    /// Writes the tensor as `<folder>/<name>.bin`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> Result<TensorFile, Error> {
        let path = folder.join(format!("{name}.bin"));
        write_atomic(&path, &self.bytes)?;
        Ok(TensorFile {
            path,
            dtype: self.dtype.torch_name().to_owned(),
            sizes: self.sizes.iter().map(|&n| n as u64).collect(),
            dim_order: Vec::new(),
        })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.sizes.iter().product()
    }

    /// True when there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every element as a double without copying the common types. `None` for complex tensors.
    pub fn doubles(&self) -> Option<Doubles<'_>> {
        match self.dtype {
            ScalarType::Float32 => Some(Doubles::Singles(self.bytes.as_chunks().0)),
            ScalarType::Float64 => Some(Doubles::Doubles(self.bytes.as_chunks().0)),
            _ => self.to_f64().map(Doubles::Converted),
        }
    }

    /// Every element as a double; integers and booleans by value. `None` for complex tensors.
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
        }
        Some(match self.dtype {
            ScalarType::Float32 => each(&self.bytes, |b| f64::from(f32::from_le_bytes(b))),
            ScalarType::Float64 => each(&self.bytes, f64::from_le_bytes),
            ScalarType::Float16 => each(&self.bytes, |b| f16::from_le_bytes(b).to_f64()),
            ScalarType::BFloat16 => each(&self.bytes, |b| bf16::from_le_bytes(b).to_f64()),
            ScalarType::UInt8 | ScalarType::Bool => each(&self.bytes, |[b]| f64::from(b)),
            ScalarType::Int8 => each(&self.bytes, |b| f64::from(i8::from_le_bytes(b))),
            ScalarType::Int16 => each(&self.bytes, |b| f64::from(i16::from_le_bytes(b))),
            ScalarType::Int32 => each(&self.bytes, |b| f64::from(i32::from_le_bytes(b))),
            #[expect(clippy::cast_precision_loss, reason = "index tensors stay far below 2^53")]
            ScalarType::Int64 => each(&self.bytes, |b| i64::from_le_bytes(b) as f64),
            ScalarType::Complex64 | ScalarType::Complex128 | ScalarType::Other(_) => return None,
        })
    }
}

/// The elements of a tensor, to be read as doubles in row-major order.
#[derive(Clone, Debug)]
pub enum Doubles<'a> {
    /// single precision, little endian
    Singles(&'a [[u8; 4]]),
    /// double precision, little endian
    Doubles(&'a [[u8; 8]]),
    /// everything else, converted
    Converted(Vec<f64>),
}

fn single(bytes: &[u8; 4]) -> f64 {
    f64::from(f32::from_le_bytes(*bytes))
}

fn double(bytes: &[u8; 8]) -> f64 {
    f64::from_le_bytes(*bytes)
}

impl Doubles<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Singles(elements) => elements.len(),
            Self::Doubles(elements) => elements.len(),
            Self::Converted(elements) => elements.len(),
        }
    }

    /// True when there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands over every element.
    pub fn each(&self, function: impl FnMut(f64)) {
        match self {
            Self::Singles(elements) => elements.iter().map(single).for_each(function),
            Self::Doubles(elements) => elements.iter().map(double).for_each(function),
            Self::Converted(elements) => elements.iter().copied().for_each(function),
        }
    }

    /// Hands over every element beside the one at the same place of another tensor.
    pub fn each_pair(&self, other: &Self, mut function: impl FnMut(f64, f64)) {
        match (self, other) {
            (Self::Singles(a), Self::Singles(b)) => a.iter().zip(*b).for_each(|(x, y)| function(single(x), single(y))),
            (Self::Doubles(a), Self::Doubles(b)) => a.iter().zip(*b).for_each(|(x, y)| function(double(x), double(y))),
            (a, b) => (0..a.len().min(b.len())).for_each(|i| function(a.at(i), b.at(i))),
        }
    }

    /// One element; not a number beyond the end.
    pub fn at(&self, index: usize) -> f64 {
        match self {
            Self::Singles(elements) => elements.get(index).map(single),
            Self::Doubles(elements) => elements.get(index).map(double),
            Self::Converted(elements) => elements.get(index).copied(),
        }
        .unwrap_or(f64::NAN)
    }
}

impl ScalarType {
    /// Bytes of one element; 1 for types this version does not name.
    pub fn bytes(self) -> usize {
        match self {
            Self::UInt8 | Self::Int8 | Self::Bool | Self::Other(_) => 1,
            Self::Int16 | Self::Float16 | Self::BFloat16 => 2,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 | Self::Complex64 => 8,
            Self::Complex128 => 16,
        }
    }

    /// torch's name without the prefix.
    pub fn torch_name(self) -> &'static str {
        match self {
            Self::UInt8 => "uint8",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Bool => "bool",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::Other(_) => "other",
        }
    }

    /// The inverse of [`ScalarType::torch_name`].
    pub fn from_torch_name(name: &str) -> Option<Self> {
        [
            Self::UInt8,
            Self::Int8,
            Self::Int16,
            Self::Int32,
            Self::Int64,
            Self::Float16,
            Self::BFloat16,
            Self::Float32,
            Self::Float64,
            Self::Bool,
            Self::Complex64,
            Self::Complex128,
        ]
        .into_iter()
        .find(|dtype| dtype.torch_name() == name)
    }

    /// True for types with a fractional part.
    pub fn is_floating(self) -> bool {
        matches!(self, Self::Float16 | Self::BFloat16 | Self::Float32 | Self::Float64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_file_of_the_wrong_length_is_refused() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let tensor = Tensor { dtype: ScalarType::Float16, sizes: vec![2, 1], bytes: vec![0, 0x3c, 0, 0xc0] };
        let mut file = tensor.write(folder.path(), "x").expect("write");
        assert_eq!(Tensor::read(&file).expect("read").to_f64(), Some(vec![1.0, -2.0]));
        let doubles = tensor.doubles().expect("real");
        assert_eq!(((0..3).map(|i| doubles.at(i)).collect::<Vec<_>>()[..2]), [1.0, -2.0]);
        let mut pairs = Vec::new();
        doubles.each_pair(&Doubles::Converted(vec![3.0]), |x, y| pairs.push((x, y)));
        assert_eq!(pairs, [(1.0, 3.0)], "the shorter one ends it");
        file.sizes = vec![3];
        let error = Tensor::read(&file).expect_err("too short").to_string();
        assert!(error.contains("holds 4 bytes, but its sizes need 6"), "{error}");
        file.sizes = vec![u64::MAX, u64::MAX];
        assert!(Tensor::read(&file).is_err());
    }
}
