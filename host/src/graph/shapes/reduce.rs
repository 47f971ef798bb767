//! Reductions and softmax: the result is a new row-major tensor.

use super::super::{Dim, Literal, ScalarType, TensorMeta};
use super::arguments::Call;
use super::{ShapeError, dense};

type Outputs = Result<Vec<TensorMeta>, ShapeError>;

pub(super) fn softmax(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    call.wrap(call.int("dim")?, tensor.sizes.len())?;
    let dtype = call.dtype("dtype")?.unwrap_or(tensor.dtype);
    floats_only(call, tensor, dtype)?;
    Ok(vec![dense(call, tensor, dtype, tensor.sizes.clone())?])
}

fn is_empty(tensor: &TensorMeta) -> bool {
    tensor.sizes.iter().any(|size| size.fixed() == Some(0))
}

fn floats_only(call: &Call<'_>, tensor: &TensorMeta, dtype: ScalarType) -> Result<(), ShapeError> {
    if dtype.is_floating() {
        Ok(())
    } else if is_empty(tensor) {
        Err(call.undecided("integers, but no elements"))
    } else {
        Err(call.invalid("it takes floats only"))
    }
}

pub(super) fn raw_softmax(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    call.wrap(call.int("dim")?, tensor.sizes.len())?;
    floats_only(call, tensor, tensor.dtype)?;
    let dtype = match (call.bool("half_to_float")?, tensor.dtype) {
        (false, dtype) => dtype,
        (true, ScalarType::Float16 | ScalarType::BFloat16) => ScalarType::Float32,
        (true, _) => return Err(call.invalid("`half_to_float` of another type")),
    };
    Ok(vec![dense(call, tensor, dtype, tensor.sizes.clone())?])
}

/// The sizes without the axes that are summed up.
fn reduced(call: &Call<'_>, tensor: &TensorMeta, axes: &[i64], keep: bool) -> Result<Vec<Dim>, ShapeError> {
    let rank = tensor.sizes.len();
    let mut gone: Vec<usize> = axes.iter().map(|axis| call.wrap(*axis, rank)).collect::<Result<_, _>>()?;
    gone.sort_unstable();
    let count = gone.len();
    gone.dedup();
    if gone.len() != count {
        return Err(call.invalid("an axis is named twice"));
    }
    let all = axes.is_empty();
    let mut sizes = Vec::with_capacity(rank);
    for (axis, size) in tensor.sizes.iter().enumerate() {
        if !all && !gone.contains(&axis) {
            sizes.push(size.clone());
        } else if keep {
            sizes.push(Dim::Fixed(1));
        }
    }
    Ok(sizes)
}

/// The axes of a reduction; empty for all.
fn axes(call: &Call<'_>) -> Result<Vec<i64>, ShapeError> {
    if call.op.ends_with(".default") && !call.op.contains(".am") || call.is_none("dim")? {
        return Ok(Vec::new());
    }
    call.ints("dim")
}

fn keepdim(call: &Call<'_>) -> Result<bool, ShapeError> {
    if call.op.ends_with(".default") && !call.op.contains(".am") { Ok(false) } else { call.bool("keepdim") }
}

pub(super) fn mean(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let dtype = call.dtype("dtype")?.unwrap_or(tensor.dtype);
    if !dtype.is_floating() {
        return Err(call.invalid("a mean of integers"));
    }
    let sizes = reduced(call, tensor, &axes(call)?, keepdim(call)?)?;
    Ok(vec![dense(call, tensor, dtype, sizes)?])
}

pub(super) fn sum(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let dtype = match call.dtype("dtype")? {
        Some(dtype) => dtype,
        None if tensor.dtype.is_floating() => tensor.dtype,
        None => ScalarType::Int64,
    };
    let sizes = reduced(call, tensor, &axes(call)?, keepdim(call)?)?;
    Ok(vec![dense(call, tensor, dtype, sizes)?])
}

pub(super) fn amax(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let axes = axes(call)?;
    let sizes = reduced(call, tensor, &axes, keepdim(call)?)?;
    if is_empty(tensor) {
        for axis in &axes {
            if call.size(tensor, call.wrap(*axis, tensor.sizes.len())?)?.fixed() == Some(0) {
                return Err(call.invalid("an axis without elements"));
            }
        }
        if axes.is_empty() {
            return Err(call.invalid("no elements"));
        }
    }
    Ok(vec![dense(call, tensor, tensor.dtype, sizes)?])
}

pub(super) fn max_dim(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let axis = match call.literal("dim")? {
        Literal::Int(axis) => *axis,
        _ => return Err(call.invalid("`dim` has another type")),
    };
    if tensor.sizes.is_empty() {
        call.wrap(axis, 0)?;
        let values = dense(call, tensor, tensor.dtype, Vec::new())?;
        let indices = TensorMeta { dtype: ScalarType::Int64, ..values.clone() };
        return Ok(vec![values, indices]);
    }
    let wrapped = call.wrap(axis, tensor.sizes.len())?;
    if call.size(tensor, wrapped)?.fixed() == Some(0) {
        return Err(call.invalid("an axis without elements"));
    }
    let sizes = reduced(call, tensor, &[axis], call.bool("keepdim")?)?;
    let values = dense(call, tensor, tensor.dtype, sizes)?;
    let indices = TensorMeta { dtype: ScalarType::Int64, ..values.clone() };
    Ok(vec![values, indices])
}
