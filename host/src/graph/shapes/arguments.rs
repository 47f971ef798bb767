//! The arguments of a call, with defaults of the schema.

use super::super::schema::{self, Schema};
use super::super::{Dim, Literal, MemoryFormat, ScalarType, TensorMeta};
use super::{ShapeArgument, ShapeError};

/// One call of an operator.
pub(super) struct Call<'a> {
    pub(super) op: &'a str,
    inputs: &'a [(&'a str, ShapeArgument<'a>)],
    schema: &'static Schema,
}

/// A number in place of a tensor or for a `Scalar`.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Number {
    Bool,
    Int(i64),
    Float,
}

impl Number {
    pub(super) fn of(literal: &Literal) -> Option<Self> {
        match literal {
            Literal::Bool(_) => Some(Self::Bool),
            Literal::Int(number) => Some(Self::Int(*number)),
            Literal::Float(_) => Some(Self::Float),
            _ => None,
        }
    }
}

impl<'a> Call<'a> {
    /// `None` when the operator has no schema.
    pub(super) fn new(op: &'a str, inputs: &'a [(&'a str, ShapeArgument<'a>)]) -> Option<Self> {
        Some(Self { op, inputs, schema: schema::lookup(op)? })
    }

    pub(super) fn invalid(&self, reason: impl Into<String>) -> ShapeError {
        ShapeError::Invalid { op: self.op.to_owned(), reason: reason.into() }
    }

    pub(super) fn undecided(&self, reason: impl Into<String>) -> ShapeError {
        ShapeError::Undecided { op: self.op.to_owned(), reason: reason.into() }
    }

    fn given(&self, name: &str) -> Option<&'a ShapeArgument<'a>> {
        self.inputs.iter().find(|(given, _)| *given == name).map(|(_, argument)| argument)
    }

    /// Every tensor among the arguments.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &'a TensorMeta> {
        self.inputs.iter().flat_map(|(_, argument)| match argument {
            ShapeArgument::Tensor(tensor) => vec![*tensor],
            ShapeArgument::Tensors(tensors) => tensors.clone(),
            ShapeArgument::OptionalTensors(tensors) => tensors.iter().flatten().copied().collect(),
            _ => Vec::new(),
        })
    }

    /// The literal given, or the schema's default.
    pub(super) fn literal(&self, name: &str) -> Result<&'a Literal, ShapeError> {
        match self.given(name) {
            Some(ShapeArgument::Literal(literal)) => Ok(literal),
            Some(ShapeArgument::Dim(_) | ShapeArgument::Unknown) => {
                Err(self.undecided(format!("`{name}` is symbolic")))
            }
            Some(_) => Err(self.invalid(format!("`{name}` is a tensor"))),
            None => {
                let argument = self.schema.argument(name);
                let default = argument.and_then(|argument| argument.default.as_ref());
                default.ok_or_else(|| self.invalid(format!("`{name}` is missing")))
            }
        }
    }

    fn wrong(&self, name: &str) -> ShapeError {
        self.invalid(format!("`{name}` has another type"))
    }

    pub(super) fn tensor(&self, name: &str) -> Result<&'a TensorMeta, ShapeError> {
        match self.given(name) {
            Some(ShapeArgument::Tensor(tensor)) if tensor.sizes.len() == tensor.strides.len() => Ok(tensor),
            Some(_) => Err(self.invalid(format!("`{name}` is not a tensor"))),
            None => Err(self.invalid(format!("`{name}` is missing"))),
        }
    }

    pub(super) fn optional_tensor(&self, name: &str) -> Result<Option<&'a TensorMeta>, ShapeError> {
        match self.given(name) {
            None | Some(ShapeArgument::Literal(Literal::None)) => Ok(None),
            Some(_) => self.tensor(name).map(Some),
        }
    }

    pub(super) fn tensor_list(&self, name: &str) -> Result<&'a [&'a TensorMeta], ShapeError> {
        match self.given(name) {
            Some(ShapeArgument::Tensors(tensors)) if tensors.iter().all(|t| t.sizes.len() == t.strides.len()) => {
                Ok(tensors)
            }
            _ => Err(self.invalid(format!("`{name}` is not a list of tensors"))),
        }
    }

    pub(super) fn is_none(&self, name: &str) -> Result<bool, ShapeError> {
        Ok(match self.given(name) {
            Some(ShapeArgument::Literal(literal)) => **literal == Literal::None,
            Some(_) => false,
            None => *self.literal(name)? == Literal::None,
        })
    }

    pub(super) fn int(&self, name: &str) -> Result<i64, ShapeError> {
        match self.literal(name)? {
            Literal::Int(number) => Ok(*number),
            _ => Err(self.wrong(name)),
        }
    }

    pub(super) fn optional_int(&self, name: &str) -> Result<Option<i64>, ShapeError> {
        if self.is_none(name)? { Ok(None) } else { self.int(name).map(Some) }
    }

    pub(super) fn bool(&self, name: &str) -> Result<bool, ShapeError> {
        match self.literal(name)? {
            Literal::Bool(flag) => Ok(*flag),
            _ => Err(self.wrong(name)),
        }
    }

    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>, ShapeError> {
        match self.literal(name)? {
            Literal::Ints(numbers) => Ok(numbers.clone()),
            Literal::Int(number) => Ok(vec![*number]),
            _ => Err(self.wrong(name)),
        }
    }

    /// One number for each of `count` axes; one alone stands for all.
    pub(super) fn per_axis(&self, name: &str, count: usize) -> Result<Vec<i64>, ShapeError> {
        let numbers = self.ints(name)?;
        match numbers.as_slice() {
            [one] => Ok(vec![*one; count]),
            _ if numbers.len() == count => Ok(numbers),
            _ => Err(self.invalid(format!("`{name}` has {} numbers where {count} are needed", numbers.len()))),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<&'a str, ShapeError> {
        match self.literal(name)? {
            Literal::Text(text) => Ok(text),
            _ => Err(self.wrong(name)),
        }
    }

    pub(super) fn floats(&self, name: &str) -> Result<&'a [f64], ShapeError> {
        match self.literal(name)? {
            Literal::Floats(numbers) => Ok(numbers),
            _ => Err(self.wrong(name)),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Number, ShapeError> {
        Number::of(self.literal(name)?).ok_or_else(|| self.wrong(name))
    }

    pub(super) fn dtype(&self, name: &str) -> Result<Option<ScalarType>, ShapeError> {
        match self.literal(name)? {
            Literal::None => Ok(None),
            Literal::ScalarType(dtype) => Ok(Some(*dtype)),
            _ => Err(self.wrong(name)),
        }
    }

    pub(super) fn memory_format(&self, name: &str) -> Result<Option<MemoryFormat>, ShapeError> {
        match self.literal(name)? {
            Literal::None => Ok(None),
            Literal::MemoryFormat(format) => Ok(Some(*format)),
            _ => Err(self.wrong(name)),
        }
    }

    /// The device argument of a factory; `cpu` when it is left open.
    pub(super) fn device(&self) -> Result<String, ShapeError> {
        match self.literal("device")? {
            Literal::None => Ok("cpu".to_owned()),
            Literal::Device(device) => Ok(device.clone()),
            _ => Err(self.wrong("device")),
        }
    }

    /// An axis, counted from the end when negative. A scalar has one axis for this purpose.
    pub(super) fn wrap(&self, axis: i64, rank: usize) -> Result<usize, ShapeError> {
        let count = i64::try_from(rank.max(1)).map_err(|_| self.invalid("too many axes"))?;
        let wrapped = if axis < 0 { axis + count } else { axis };
        let out_of_range = || self.invalid(format!("axis {axis} of a tensor with {rank} axes"));
        match usize::try_from(wrapped) {
            Ok(wrapped) if wrapped < rank.max(1) => Ok(wrapped),
            _ => Err(out_of_range()),
        }
    }

    /// A size that must be known.
    pub(super) fn fixed(&self, dim: &Dim) -> Result<i64, ShapeError> {
        dim.fixed().ok_or_else(|| self.undecided("it depends on a symbolic size"))
    }

    /// All sizes, which must be known.
    pub(super) fn all_fixed(&self, dims: &[Dim]) -> Result<Vec<i64>, ShapeError> {
        dims.iter().map(|dim| self.fixed(dim)).collect()
    }

    /// The size of an axis.
    pub(super) fn size<'t>(&self, tensor: &'t TensorMeta, axis: usize) -> Result<&'t Dim, ShapeError> {
        tensor.sizes.get(axis).ok_or_else(|| self.invalid("a tensor has too few axes"))
    }
}
