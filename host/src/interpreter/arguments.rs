//! Named arguments of a call, read with the type an operation expects.

use ndarray::{ArrayD, IxDyn};

use super::array::{Array, Data};
use super::{Error, Precision};
use crate::graph::{Literal, ScalarType};

/// One argument with its values filled in.
#[derive(Clone, Debug)]
pub enum Item {
    /// a tensor
    Tensor(Array),
    /// a list of tensors
    Tensors(Vec<Array>),
    /// a list of tensors with holes
    OptionalTensors(Vec<Option<Array>>),
    /// a symbolic integer
    Int(i64),
    /// a list of integers of which some were symbolic
    Ints(Vec<i64>),
    /// anything without a value of the graph
    Literal(Literal),
}

/// A number that is no tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// Python `int`
    Int(i64),
    /// Python `float`
    Float(f64),
    /// Python `bool`
    Bool(bool),
}

impl Scalar {
    /// As a double.
    #[expect(clippy::cast_precision_loss, reason = "Python does the same")]
    pub(super) fn double(self) -> f64 {
        match self {
            Self::Int(x) => x as f64,
            Self::Float(x) => x,
            Self::Bool(x) => f64::from(u8::from(x)),
        }
    }

    /// The element type torch gives a bare number.
    pub(super) fn dtype(self) -> ScalarType {
        match self {
            Self::Int(_) => ScalarType::Int64,
            Self::Float(_) => ScalarType::Float32,
            Self::Bool(_) => ScalarType::Bool,
        }
    }

    /// As a tensor without dimensions; floats stay doubles so that nothing is lost before the cast.
    pub(super) fn as_array(self, _: Precision) -> Array {
        match self {
            Self::Int(x) => Array::moved(ScalarType::Int64, Data::I64(scalar(x))),
            Self::Float(x) => Array::moved(ScalarType::Float64, Data::F64(scalar(x))),
            Self::Bool(x) => Array::moved(ScalarType::Bool, Data::Bool(scalar(x))),
        }
    }
}

fn scalar<T: Clone>(x: T) -> super::array::Nd<T> {
    ArrayD::from_elem(IxDyn(&[]), x).into_shared()
}

/// A tensor or a number.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Tensor(Array),
    Scalar(Scalar),
}

impl Operand {
    /// As a tensor of `dtype`.
    pub(super) fn cast(&self, dtype: ScalarType, precision: Precision) -> Array {
        match self {
            Self::Tensor(array) => array.cast(dtype, precision),
            Self::Scalar(scalar) => scalar.as_array(precision).cast(dtype, precision),
        }
    }

    /// Sizes; a number has none.
    pub(super) fn sizes(&self) -> &[usize] {
        match self {
            Self::Tensor(array) => array.sizes(),
            Self::Scalar(_) => &[],
        }
    }
}

/// One call of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) op: &'a str,
    pub(super) args: &'a [(String, Item)],
    pub(super) precision: Precision,
    pub(super) limit: usize,
}

impl<'a> Call<'a> {
    fn get(&self, name: &str) -> Option<&'a Item> {
        self.args
            .iter()
            .find(|(candidate, _)| candidate == name)
            .map(|(_, item)| item)
            .filter(|item| !matches!(item, Item::Literal(Literal::None)))
    }

    /// An argument is not what the operation needs.
    pub(super) fn bad(&self, argument: &str, reason: impl Into<String>) -> Error {
        Error::Argument { op: self.op.to_owned(), argument: argument.to_owned(), reason: reason.into() }
    }

    /// The sizes of the arguments do not fit each other.
    pub(super) fn mismatch(&self, reason: impl Into<String>) -> Error {
        Error::Shape { op: self.op.to_owned(), reason: reason.into() }
    }

    /// The operation exists, but not for this element type.
    pub(super) fn unsupported_dtype(&self, dtype: ScalarType) -> Error {
        Error::Dtype { op: self.op.to_owned(), dtype: dtype.torch_name().to_owned() }
    }

    /// The operation exists, but not in this form.
    pub(super) fn unsupported(&self, form: impl Into<String>) -> Error {
        Error::Unsupported { op: format!("{} ({})", self.op, form.into()) }
    }

    fn missing(&self, name: &str) -> Error {
        self.bad(name, "it is missing")
    }

    /// Refuses results that would not fit into memory. An empty tensor must be small in its other sizes
    /// too: they are walked and added up.
    pub(super) fn allow(&self, sizes: &[usize]) -> Result<(), Error> {
        let count = sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size.max(1)));
        match count {
            Some(count) if count <= self.limit => Ok(()),
            _ => Err(Error::TooLarge { op: self.op.to_owned(), limit: self.limit }),
        }
    }

    pub(super) fn optional_tensor(&self, name: &str) -> Result<Option<&'a Array>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Item::Tensor(array)) => Ok(Some(array)),
            Some(_) => Err(self.bad(name, "it is not a tensor")),
        }
    }

    pub(super) fn tensor(&self, name: &str) -> Result<&'a Array, Error> {
        self.optional_tensor(name)?.ok_or_else(|| self.missing(name))
    }

    /// The tensor argument that comes first, whatever its name.
    pub(super) fn first_tensor(&self) -> Result<&'a Array, Error> {
        match self.args.first() {
            Some((_, Item::Tensor(array))) => Ok(array),
            _ => Err(self.missing("self")),
        }
    }

    pub(super) fn tensors(&self, name: &str) -> Result<&'a [Array], Error> {
        match self.get(name) {
            Some(Item::Tensors(arrays)) => Ok(arrays),
            Some(_) => Err(self.bad(name, "it is not a list of tensors")),
            None => Err(self.missing(name)),
        }
    }

    /// A list of tensors with holes.
    pub(super) fn optional_tensors(&self, name: &str) -> Result<Vec<Option<&'a Array>>, Error> {
        match self.get(name) {
            Some(Item::Tensors(arrays)) => Ok(arrays.iter().map(Some).collect()),
            Some(Item::OptionalTensors(arrays)) => Ok(arrays.iter().map(Option::as_ref).collect()),
            Some(_) => Err(self.bad(name, "it is not a list of tensors")),
            None => Err(self.missing(name)),
        }
    }

    pub(super) fn optional_scalar(&self, name: &str) -> Result<Option<Scalar>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Item::Int(x) | Item::Literal(Literal::Int(x))) => Ok(Some(Scalar::Int(*x))),
            Some(Item::Literal(Literal::Float(x))) => Ok(Some(Scalar::Float(*x))),
            Some(Item::Literal(Literal::Bool(x))) => Ok(Some(Scalar::Bool(*x))),
            Some(_) => Err(self.bad(name, "it is not a number")),
        }
    }

    pub(super) fn scalar(&self, name: &str, default: Scalar) -> Result<Scalar, Error> {
        Ok(self.optional_scalar(name)?.unwrap_or(default))
    }

    pub(super) fn float(&self, name: &str, default: f64) -> Result<f64, Error> {
        Ok(self.optional_scalar(name)?.map_or(default, Scalar::double))
    }

    pub(super) fn optional_int(&self, name: &str) -> Result<Option<i64>, Error> {
        match self.optional_scalar(name)? {
            None => Ok(None),
            Some(Scalar::Int(x)) => Ok(Some(x)),
            Some(Scalar::Bool(x)) => Ok(Some(i64::from(x))),
            Some(Scalar::Float(_)) => Err(self.bad(name, "it is not an integer")),
        }
    }

    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64, Error> {
        Ok(self.optional_int(name)?.unwrap_or(default))
    }

    pub(super) fn required_int(&self, name: &str) -> Result<i64, Error> {
        self.optional_int(name)?.ok_or_else(|| self.missing(name))
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        match self.optional_scalar(name)? {
            None => Ok(default),
            Some(Scalar::Bool(x)) => Ok(x),
            Some(Scalar::Int(x)) => Ok(x != 0),
            Some(Scalar::Float(_)) => Err(self.bad(name, "it is not a boolean")),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Item::Literal(Literal::Text(text))) => Ok(Some(text)),
            Some(_) => Err(self.bad(name, "it is not a string")),
        }
    }

    pub(super) fn optional_ints(&self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Item::Ints(list) | Item::Literal(Literal::Ints(list))) => Ok(Some(list.clone())),
            Some(Item::Int(x) | Item::Literal(Literal::Int(x))) => Ok(Some(vec![*x])),
            // An empty list carries no element type in the archive.
            Some(Item::Tensors(list)) if list.is_empty() => Ok(Some(Vec::new())),
            Some(Item::Literal(Literal::Floats(list))) if list.is_empty() => Ok(Some(Vec::new())),
            Some(Item::Literal(Literal::Bools(list))) if list.is_empty() => Ok(Some(Vec::new())),
            Some(_) => Err(self.bad(name, "it is not a list of integers")),
        }
    }

    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>, Error> {
        self.optional_ints(name)?.ok_or_else(|| self.missing(name))
    }

    pub(super) fn optional_floats(&self, name: &str) -> Result<Option<Vec<f64>>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Item::Literal(Literal::Floats(list))) => Ok(Some(list.clone())),
            #[expect(clippy::cast_precision_loss, reason = "Python does the same")]
            Some(Item::Ints(list) | Item::Literal(Literal::Ints(list))) => {
                Ok(Some(list.iter().map(|&x| x as f64).collect()))
            }
            Some(_) => Err(self.bad(name, "it is not a list of floats")),
        }
    }

    /// A list of sizes, none negative.
    pub(super) fn sizes(&self, name: &str) -> Result<Vec<usize>, Error> {
        self.ints(name)?
            .into_iter()
            .map(|n| usize::try_from(n).map_err(|_| self.bad(name, format!("{n} is no size"))))
            .collect()
    }

    /// One or two numbers for height and width.
    pub(super) fn pair(&self, name: &str, default: Option<[usize; 2]>) -> Result<[usize; 2], Error> {
        let list = match (self.optional_ints(name)?, default) {
            (Some(list), Some(default)) if list.is_empty() => return Ok(default),
            (Some(list), _) => list,
            (None, Some(default)) => return Ok(default),
            (None, None) => return Err(self.missing(name)),
        };
        let size = |n: i64| usize::try_from(n).map_err(|_| self.bad(name, format!("{n} is no size")));
        match list.as_slice() {
            [both] => Ok([size(*both)?, size(*both)?]),
            [height, width] => Ok([size(*height)?, size(*width)?]),
            _ => Err(self.bad(name, format!("it has {} numbers, one or two are needed", list.len()))),
        }
    }

    pub(super) fn dtype(&self, name: &str) -> Result<Option<ScalarType>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Item::Literal(Literal::ScalarType(dtype))) => match dtype {
                ScalarType::Complex64 | ScalarType::Complex128 | ScalarType::Other(_) => {
                    Err(self.unsupported_dtype(*dtype))
                }
                _ => Ok(Some(*dtype)),
            },
            Some(_) => Err(self.bad(name, "it is not an element type")),
        }
    }

    /// A tensor or a number.
    pub(super) fn operand(&self, name: &str) -> Result<Operand, Error> {
        match self.get(name) {
            Some(Item::Tensor(array)) => Ok(Operand::Tensor(array.clone())),
            Some(_) => self.optional_scalar(name)?.map(Operand::Scalar).ok_or_else(|| self.missing(name)),
            None => Err(self.missing(name)),
        }
    }

    /// A dimension of a tensor of `rank`, counted from the end when negative. A tensor without
    /// dimensions has one for this purpose.
    pub(super) fn axis(&self, name: &str, dim: i64, rank: usize) -> Result<usize, Error> {
        let count = i64::try_from(rank.max(1)).unwrap_or(i64::MAX);
        let index = if dim < 0 { dim + count } else { dim };
        match usize::try_from(index) {
            Ok(axis) if index < count => Ok(axis),
            _ => Err(self.bad(name, format!("dimension {dim} is out of range for rank {rank}"))),
        }
    }

    /// Distinct dimensions; all of them when the list is absent or empty.
    pub(super) fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>, Error> {
        let list = self.optional_ints(name)?.unwrap_or_default();
        if list.is_empty() {
            return Ok((0..rank).collect());
        }
        let mut axes = Vec::with_capacity(list.len());
        for dim in list {
            let axis = self.axis(name, dim, rank)?;
            if axes.contains(&axis) {
                return Err(self.bad(name, format!("dimension {dim} appears twice")));
            }
            if axis < rank {
                axes.push(axis);
            }
        }
        axes.sort_unstable();
        Ok(axes)
    }
}
