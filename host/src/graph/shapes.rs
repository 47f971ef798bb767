//! Sizes, strides and dtypes of the operators that repairs may insert.
//!
//! The answers are those of torch: `tests/graph_shapes.rs` compares them with random calls. A
//! symbolic size passes through where the result does not depend on its value; everything else about it
//! is [`ShapeError::Undecided`]. To add an operator, add its name to `rule` and a case to
//! `tests/fixtures/random_shapes.py`.

mod arguments;
mod elementwise;
mod joins;
mod layout;
mod linear;
mod pool;
mod reduce;
mod views;

use super::{Dim, Literal, ScalarType, TensorMeta};
use arguments::Call;
pub(super) use layout::{contiguous_strides, same_strides, show};

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
    /// a symbolic integer
    Dim(&'a Dim),
    /// something that shapes cannot be read from
    Unknown,
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
    /// the result depends on what is only known when the program runs
    #[error("The result of `{op}` cannot be stated: {reason}")]
    Undecided {
        /// the operator
        op: String,
        /// which and why
        reason: String,
    },
}

type Rule = fn(&Call<'_>) -> Result<Vec<TensorMeta>, ShapeError>;

/// Metadata of every tensor that `op` returns, list returns flattened. Arguments may leave out
/// defaults and come in any order.
///
/// # Errors
/// When the operator has no rule, the arguments do not fit, or a symbolic size leaves the answer open.
pub fn infer(op: &str, inputs: &[(&str, ShapeArgument<'_>)]) -> Result<Vec<TensorMeta>, ShapeError> {
    let no_rule = || ShapeError::NoRule { op: op.to_owned() };
    let rule = rule(op).ok_or_else(no_rule)?;
    let call = Call::new(op, inputs).ok_or_else(no_rule)?;
    let mut outputs = rule(&call)?;
    let differentiable = call.tensors().any(|tensor| tensor.requires_grad);
    for output in &mut outputs {
        output.requires_grad = differentiable && output.dtype.is_floating();
    }
    Ok(outputs)
}

/// True when [`infer`] has a rule for the operator.
pub fn has_rule(op: &str) -> bool {
    rule(op).is_some()
}

fn rule(op: &str) -> Option<Rule> {
    use elementwise::{Promotion, binary, unary};
    Some(match op.strip_prefix("aten.")? {
        "view.default" | "_unsafe_view.default" => views::view,
        "reshape.default" => views::reshape,
        "flatten.using_ints" => views::flatten,
        "unflatten.int" => views::unflatten,
        "permute.default" => views::permute,
        "transpose.int" => views::transpose,
        "t.default" => views::t,
        "alias.default" | "detach.default" | "lift_fresh.default" => views::same,
        "contiguous.default" => views::contiguous,
        "clone.default" => views::clone,
        "unsqueeze.default" => views::unsqueeze,
        "squeeze.default" => views::squeeze,
        "squeeze.dim" => views::squeeze_dim,
        "squeeze.dims" => views::squeeze_dims,
        "expand.default" => views::expand,
        "slice.Tensor" => views::slice,
        "select.int" => views::select,
        "cat.default" | "concat.default" => joins::cat,
        "split.Tensor" => joins::split,
        "split_with_sizes.default" | "split.sizes" => joins::split_with_sizes,
        "chunk.default" => joins::chunk,
        "constant_pad_nd.default" => joins::constant_pad_nd,
        "pad.default" => joins::pad,
        "to.dtype" => views::to_dtype,
        "full.default" => joins::full,
        "ones.default" | "zeros.default" => joins::zeros,
        "full_like.default" | "ones_like.default" | "zeros_like.default" => joins::full_like,

        "avg_pool2d.default" => pool::avg_pool2d,
        "max_pool2d.default" => pool::max_pool2d,
        "max_pool2d_with_indices.default" => pool::max_pool2d_with_indices,
        "adaptive_avg_pool2d.default" | "_adaptive_avg_pool2d.default" => pool::adaptive_avg_pool2d,
        "upsample_nearest2d.default" => pool::upsample_nearest2d,
        "upsample_nearest2d.vec" => pool::upsample_nearest2d_vec,
        "conv1d.default" => |call| pool::convolution(call, 1),
        "conv2d.default" => |call| pool::convolution(call, 2),
        "conv2d.padding" => |call| pool::convolution(call, 2),

        "softmax.int" | "log_softmax.int" => reduce::softmax,
        "_softmax.default" | "_log_softmax.default" => reduce::raw_softmax,
        "mean.dim" | "mean.default" => reduce::mean,
        "sum.dim_IntList" | "sum.default" => reduce::sum,
        "amax.default" | "amin.default" => reduce::amax,
        "max.dim" | "min.dim" => reduce::max_dim,

        "matmul.default" => linear::matmul,
        "mm.default" => linear::mm,
        "bmm.default" => linear::bmm,
        "addmm.default" => linear::addmm,
        "linear.default" => linear::linear,

        "add.Tensor" | "add.Scalar" => |call| binary(call, Promotion::Numbers),
        "sub.Tensor" | "sub.Scalar" => |call| binary(call, Promotion::NoBool),
        "mul.Tensor" | "mul.Scalar" | "maximum.default" | "minimum.default" | "pow.Tensor_Scalar"
        | "pow.Tensor_Tensor" => |call| binary(call, Promotion::Numbers),
        "div.Tensor" | "div.Scalar" => |call| binary(call, Promotion::Float),
        "div.Tensor_mode" | "div.Scalar_mode" => elementwise::div_mode,
        "eq.Tensor" | "eq.Scalar" | "ne.Tensor" | "ne.Scalar" | "lt.Tensor" | "lt.Scalar" | "le.Tensor"
        | "le.Scalar" | "gt.Tensor" | "gt.Scalar" | "ge.Tensor" | "ge.Scalar" => {
            |call| binary(call, Promotion::Comparison)
        }
        "where.self" => elementwise::where_self,
        "clamp.default" => elementwise::clamp,
        "relu.default" | "abs.default" | "neg.default" => |call| unary(call, Promotion::NoBool),
        "rsqrt.default" | "sqrt.default" | "exp.default" | "log.default" | "log1p.default" | "reciprocal.default"
        | "sigmoid.default" | "tanh.default" | "sin.default" | "cos.default" | "erf.default" => {
            |call| unary(call, Promotion::Float)
        }
        "gelu.default"
        | "silu.default"
        | "elu.default"
        | "hardswish.default"
        | "hardsigmoid.default"
        | "leaky_relu.default"
        | "softplus.default" => |call| unary(call, Promotion::OnlyFloat),
        _ => return None,
    })
}

/// A new dense row-major tensor on the device of `like`.
fn dense(call: &Call<'_>, like: &TensorMeta, dtype: ScalarType, sizes: Vec<Dim>) -> Result<TensorMeta, ShapeError> {
    let strides = contiguous_strides(&sizes).ok_or_else(|| call.undecided("a stride depends on symbolic sizes"))?;
    Ok(TensorMeta { dtype, sizes, strides, storage_offset: Dim::Fixed(0), requires_grad: false, ..like.clone() })
}

#[cfg(test)]
mod tests;
