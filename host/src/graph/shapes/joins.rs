//! Joining, splitting, padding, and tensors out of nothing.

use super::super::{Dim, ScalarType, TensorMeta};
use super::arguments::{Call, Number};
use super::elementwise::promote_all;
use super::layout::{self, channels_last_strides, contiguous_strides};
use super::views::{copied, divided_up, part};
use super::{ShapeError, dense};

type Outputs = Result<Vec<TensorMeta>, ShapeError>;

pub(super) fn cat(call: &Call<'_>) -> Outputs {
    let all = call.tensor_list("tensors")?;
    // An empty tensor with one axis joins with anything, and counts for nothing but its type.
    let tensors: Vec<&TensorMeta> =
        all.iter().copied().filter(|tensor| tensor.fixed_sizes().as_deref() != Some(&[0])).collect();
    let first = match (tensors.first(), all.first()) {
        (Some(first), _) => *first,
        (None, Some(first)) => return Ok(vec![dense(call, first, promote_all(call, all)?, first.sizes.clone())?]),
        (None, None) => return Err(call.invalid("no tensors")),
    };
    if first.sizes.is_empty() {
        return Err(call.invalid("scalars cannot be joined"));
    }
    let axis = call.wrap(call.int("dim")?, first.sizes.len())?;
    let mut total = 0_i64;
    for tensor in &tensors {
        let fits = tensor.sizes.len() == first.sizes.len()
            && tensor.sizes.iter().zip(&first.sizes).enumerate().all(|(at, (a, b))| at == axis || a.same(b));
        if !fits {
            let (a, b) = (layout::show(&first.sizes), layout::show(&tensor.sizes));
            return Err(call.invalid(format!("{a} and {b} do not fit together on axis {axis}")));
        }
        if let (1, size @ Dim::Symbolic(_)) = (tensors.len(), call.size(tensor, axis)?) {
            return joined(call, &tensors, promote_all(call, all)?, first.sizes.clone(), size.clone(), axis);
        }
        total = total
            .checked_add(call.fixed(call.size(tensor, axis)?)?)
            .ok_or_else(|| call.invalid("the sizes overflow"))?;
    }
    joined(call, &tensors, promote_all(call, all)?, first.sizes.clone(), Dim::Fixed(total), axis)
}

fn joined(
    call: &Call<'_>,
    tensors: &[&TensorMeta],
    dtype: ScalarType,
    mut sizes: Vec<Dim>,
    size: Dim,
    axis: usize,
) -> Outputs {
    if let Some(slot) = sizes.get_mut(axis) {
        *slot = size;
    }
    let first = tensors.first().ok_or_else(|| call.invalid("no tensors"))?;
    let suggestions: Vec<bool> = tensors
        .iter()
        .map(|tensor| layout::suggests_channels_last(tensor))
        .collect::<Option<_>>()
        .ok_or_else(|| call.undecided("the layout of an operand"))?;
    let mut output = dense(call, first, dtype, sizes)?;
    if suggestions.iter().all(|suggestion| *suggestion) {
        output.strides = channels_last_strides(&output.sizes).ok_or_else(|| call.undecided("a stride"))?;
    }
    Ok(vec![output])
}

/// Consecutive parts of an axis.
fn parts(call: &Call<'_>, tensor: &TensorMeta, axis: usize, sizes: &[i64]) -> Outputs {
    let mut start = 0_i64;
    let mut outputs = Vec::with_capacity(sizes.len());
    for size in sizes {
        outputs.push(part(call, tensor, axis, start, Dim::Fixed(*size), 1)?);
        start = start.checked_add(*size).ok_or_else(|| call.invalid("the sizes overflow"))?;
    }
    Ok(outputs)
}

/// Most parts that one call may make.
const MOST_PARTS: i64 = 1 << 16;

fn even_parts(call: &Call<'_>, tensor: &TensorMeta, axis: usize, total: i64, size: i64) -> Outputs {
    if size <= 0 {
        return if total == 0 && size == 0 {
            parts(call, tensor, axis, &[0])
        } else {
            Err(call.invalid("the parts have no size"))
        };
    }
    let count = divided_up(total, size).max(1);
    if count > MOST_PARTS {
        return Err(call.invalid("too many parts"));
    }
    let sizes: Vec<i64> = (0..count).map(|at| size.min(total - at * size)).collect();
    parts(call, tensor, axis, &sizes)
}

pub(super) fn split(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let axis = call.wrap(call.int("dim")?, tensor.sizes.len())?;
    let total = call.fixed(call.size(tensor, axis)?)?;
    even_parts(call, tensor, axis, total, call.int("split_size")?)
}

pub(super) fn chunk(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let axis = call.wrap(call.int("dim")?, tensor.sizes.len())?;
    let total = call.fixed(call.size(tensor, axis)?)?;
    let chunks = call.int("chunks")?;
    if chunks <= 0 || chunks > MOST_PARTS {
        return Err(call.invalid("`chunks` is out of range"));
    }
    if total == 0 {
        return parts(call, tensor, axis, &vec![0; usize::try_from(chunks).unwrap_or(1)]);
    }
    even_parts(call, tensor, axis, total, divided_up(total, chunks))
}

pub(super) fn split_with_sizes(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let axis = call.wrap(call.int("dim")?, tensor.sizes.len())?;
    let name = if call.op == "aten.split.sizes" { "split_size" } else { "split_sizes" };
    let sizes = call.ints(name)?;
    let total = call.fixed(call.size(tensor, axis)?)?;
    let sum = sizes.iter().try_fold(0_i64, |sum, size| sum.checked_add(*size).filter(|_| *size >= 0));
    if sum != Some(total) {
        return Err(call.invalid(format!("{sizes:?} is no split of {total}")));
    }
    parts(call, tensor, axis, &sizes)
}

pub(super) fn pad(call: &Call<'_>) -> Outputs {
    if call.text("mode")? != "constant" {
        return Err(call.undecided("only constant padding has a rule"));
    }
    constant_pad_nd(call)
}

pub(super) fn constant_pad_nd(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let pads = call.ints("pad")?;
    let rank = tensor.sizes.len();
    if !pads.len().is_multiple_of(2) || pads.len() / 2 > rank {
        return Err(call.invalid(format!("{} paddings for {rank} axes", pads.len())));
    }
    if pads.iter().all(|pad| *pad == 0) {
        return Ok(vec![copied(call, tensor, None)?]);
    }
    if pads.iter().any(|pad| *pad < 0) {
        return Err(call.undecided("negative padding has no rule"));
    }
    let mut sizes = tensor.sizes.clone();
    for (size, pair) in sizes.iter_mut().rev().zip(pads.chunks_exact(2)) {
        let added = pair.iter().try_fold(0_i64, |sum, pad| sum.checked_add(*pad));
        match (&*size, added) {
            (_, Some(0)) => {}
            (Dim::Fixed(old), Some(added)) => {
                *size = Dim::Fixed(old.checked_add(added).ok_or_else(|| call.invalid("the sizes overflow"))?);
            }
            (Dim::Symbolic(_), _) => return Err(call.undecided("a symbolic size is padded")),
            (_, None) => return Err(call.invalid("the sizes overflow")),
        }
    }
    let mut output = dense(call, tensor, tensor.dtype, sizes)?;
    match layout::suggests_channels_last(tensor) {
        Some(true) => {
            output.strides = channels_last_strides(&output.sizes).ok_or_else(|| call.undecided("a stride"))?;
        }
        Some(false) => {}
        None => return Err(call.undecided("the layout of the operand")),
    }
    Ok(vec![output])
}

fn factory(call: &Call<'_>, dtype: ScalarType) -> Outputs {
    let sizes = call.ints("size")?;
    if sizes.iter().any(|size| *size < 0) {
        return Err(call.invalid("a negative size"));
    }
    let sizes: Vec<Dim> = sizes.into_iter().map(Dim::Fixed).collect();
    let strides = contiguous_strides(&sizes).ok_or_else(|| call.invalid("the sizes overflow"))?;
    let dtype = call.dtype("dtype")?.unwrap_or(dtype);
    Ok(vec![TensorMeta {
        dtype,
        sizes,
        strides,
        storage_offset: Dim::Fixed(0),
        device: call.device()?,
        layout: super::super::codes::STRIDED,
        requires_grad: false,
    }])
}

pub(super) fn full(call: &Call<'_>) -> Outputs {
    factory(
        call,
        match call.number("fill_value")? {
            Number::Bool => ScalarType::Bool,
            Number::Int(_) => ScalarType::Int64,
            Number::Float => ScalarType::Float32,
        },
    )
}

pub(super) fn zeros(call: &Call<'_>) -> Outputs {
    factory(call, ScalarType::Float32)
}

pub(super) fn full_like(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let dtype = call.dtype("dtype")?.unwrap_or(tensor.dtype);
    Ok(vec![TensorMeta { dtype, ..copied(call, tensor, call.memory_format("memory_format")?)? }])
}
