//! Sizes, strides and dtypes of the operators that repairs may insert.

use super::{Literal, TensorMeta};

/// An argument with what is known about its tensors.
#[derive(Clone, PartialEq, Debug)]
pub enum ShapeArgument<'a> {
    /// no tensor in it
    Literal(&'a Literal),
    /// one tensor
    Tensor(&'a TensorMeta),
    /// a list of tensors
    Tensors(Vec<&'a TensorMeta>),
    /// a list of tensors with holes
    OptionalTensors(Vec<Option<&'a TensorMeta>>),
}

/// Why no metadata could be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// no rule for the operator
    #[error("No shape rule for `{op}`")]
    NoRule {
        /// the operator
        op: String,
    },
    /// the arguments do not fit the operator
    #[error("`{op}` does not accept these arguments: {reason}")]
    Invalid {
        /// the operator
        op: String,
        /// which and why
        reason: String,
    },
    /// the result depends on sizes that are only known when the program runs
    #[error("The result of `{op}` cannot be stated: {reason}")]
    Undecided {
        /// the operator
        op: String,
        /// which and why
        reason: String,
    },
}

/// Metadata of every tensor that `op` returns, list returns flattened. Arguments may leave out
/// defaults and come in any order.
///
/// # Errors
/// When the operator has no rule, the arguments do not fit, or a symbolic size leaves the answer open.
pub fn infer(op: &str, _inputs: &[(&str, ShapeArgument<'_>)]) -> Result<Vec<TensorMeta>, ShapeError> {
    Err(ShapeError::NoRule { op: op.to_owned() })
}
