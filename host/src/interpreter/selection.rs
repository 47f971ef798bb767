//! Parts of tensors and tensors of parts: slice, select, split, cat, roll, flip.

use ndarray::{ArrayD, ArrayView, Axis, IxDyn, Slice, concatenate};

use super::arguments::Call;
use super::array::{Array, Element, Nd, by_element, moved};
use super::layout::with_sizes;
use super::promotion::promote;
use super::{Error, Table};

pub(super) const OPS: Table = &[
    ("aten.slice.Tensor", slice),
    ("aten.slice_copy.Tensor", slice),
    ("aten.narrow.default", narrow),
    ("aten.select.int", select),
    ("aten.select_copy.int", select),
    ("aten.split.Tensor", split),
    ("aten.split_copy.Tensor", split),
    ("aten.split_with_sizes.default", split_with_sizes),
    ("aten.split_with_sizes_copy.default", split_with_sizes),
    ("aten.split.sizes", split_with_sizes),
    ("aten.chunk.default", chunk),
    ("aten.unbind.int", unbind),
    ("aten.cat.default", cat),
    ("aten.concat.default", cat),
    ("aten.stack.default", stack),
    ("aten.roll.default", roll),
    ("aten.flip.default", flip),
];

/// Elements `start..end` of one dimension, in steps. The bounds must lie in the dimension.
fn cut(array: &Array, axis: usize, start: usize, end: usize, step: usize) -> Array {
    let signed = |n: usize| isize::try_from(n).unwrap_or(isize::MAX);
    let slice = Slice::new(signed(start), Some(signed(end.max(start))), signed(step.max(1)));
    moved!(array, a => {
        let mut part = a.clone();
        part.slice_axis_inplace(Axis(axis), slice);
        part
    })
}

/// The size of a dimension that must exist.
fn size_of(call: &Call<'_>, array: &Array, axis: usize) -> Result<usize, Error> {
    array.sizes().get(axis).copied().ok_or_else(|| call.mismatch("a tensor without dimensions has no parts"))
}

/// A bound of a slice: counted from the end when negative, then clamped.
fn bound(value: i64, size: usize) -> usize {
    let count = i64::try_from(size).unwrap_or(i64::MAX);
    let index = if value < 0 { value.saturating_add(count) } else { value };
    usize::try_from(index.clamp(0, count)).unwrap_or(0)
}

fn slice(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.int("dim", 0)?, array.rank())?;
    let size = size_of(call, array, axis)?;
    let start = bound(call.int("start", 0)?, size);
    let end = bound(call.int("end", i64::MAX)?, size);
    let step = usize::try_from(call.int("step", 1)?).unwrap_or(0);
    if step == 0 {
        return Err(call.bad("step", "it must be positive"));
    }
    Ok(vec![cut(array, axis, start, end, step)])
}

fn narrow(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.required_int("dim")?, array.rank())?;
    let size = size_of(call, array, axis)?;
    let start = bound(call.required_int("start")?, size);
    let length = usize::try_from(call.required_int("length")?).unwrap_or(usize::MAX);
    match start.checked_add(length) {
        Some(end) if end <= size => Ok(vec![cut(array, axis, start, end, 1)]),
        _ => Err(call.bad("length", format!("{length} elements from {start} do not fit into {size}"))),
    }
}

fn select(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.required_int("dim")?, array.rank())?;
    let size = size_of(call, array, axis)?;
    let index = call.required_int("index")?;
    let index = call.axis("index", index, size).map_err(|_| call.bad("index", format!("{index} of {size}")))?;
    if index >= size {
        return Err(call.bad("index", format!("{index} of {size}")));
    }
    Ok(vec![selected(array, axis, index)])
}

fn selected(array: &Array, axis: usize, index: usize) -> Array {
    moved!(array, a => a.clone().index_axis_move(Axis(axis), index))
}

/// Consecutive parts of the given lengths, which must add up to the dimension.
fn parts(call: &Call<'_>, array: &Array, axis: usize, lengths: &[usize]) -> Result<Vec<Array>, Error> {
    let size = size_of(call, array, axis)?;
    if lengths.iter().try_fold(0_usize, |sum, &n| sum.checked_add(n)) != Some(size) {
        return Err(call.mismatch(format!("parts of {lengths:?} do not add up to {size}")));
    }
    let mut start = 0;
    Ok(lengths
        .iter()
        .map(|&length| {
            let part = cut(array, axis, start, start + length, 1);
            start += length;
            part
        })
        .collect())
}

/// Lengths of parts of `length`, the last one shorter.
fn equal_parts(size: usize, length: usize) -> Vec<usize> {
    if size == 0 || length == 0 {
        return vec![size];
    }
    (0..size.div_ceil(length)).map(|i| length.min(size - i * length)).collect()
}

fn split(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.int("dim", 0)?, array.rank())?;
    let size = size_of(call, array, axis)?;
    let length = usize::try_from(call.required_int("split_size")?).unwrap_or(0);
    if length == 0 && size > 0 {
        return Err(call.bad("split_size", "it must be positive"));
    }
    parts(call, array, axis, &equal_parts(size, length))
}

fn split_with_sizes(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.int("dim", 0)?, array.rank())?;
    let lengths = call.sizes("split_sizes").or_else(|_| call.sizes("split_size"))?;
    parts(call, array, axis, &lengths)
}

fn chunk(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.int("dim", 0)?, array.rank())?;
    let size = size_of(call, array, axis)?;
    let chunks = usize::try_from(call.required_int("chunks")?).unwrap_or(0);
    if chunks == 0 {
        return Err(call.bad("chunks", "it must be positive"));
    }
    parts(call, array, axis, &equal_parts(size, size.div_ceil(chunks)))
}

fn unbind(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.int("dim", 0)?, array.rank())?;
    let size = size_of(call, array, axis)?;
    Ok((0..size).map(|index| selected(array, axis, index)).collect())
}

/// The arrays one after another along a dimension; same element type, other sizes equal.
fn joined<E: Element>(call: &Call<'_>, arrays: &[Array], axis: usize) -> Result<Nd<E>, Error> {
    let views: Vec<ArrayView<'_, E, IxDyn>> =
        arrays.iter().filter_map(|array| array.storage::<E>()).map(|a| a.view()).collect();
    let joined: ArrayD<E> = concatenate(Axis(axis), &views).map_err(|_| {
        call.mismatch(format!("the sizes {:?} do not join", arrays.iter().map(Array::sizes).collect::<Vec<_>>()))
    })?;
    // The result may keep a column order of its parts; row-major order makes everything after it fast.
    Ok(super::array::standard(&joined.into_shared()))
}

/// Joins arrays along a dimension, in their common element type.
pub(super) fn join(call: &Call<'_>, arrays: &[Array], axis: usize) -> Result<Array, Error> {
    let dtype =
        arrays.iter().map(Array::dtype).reduce(promote).ok_or_else(|| call.bad("tensors", "the list is empty"))?;
    // torch skips tensors of size [0] whatever the others' rank.
    let skipped = |array: &&Array| array.sizes() != [0] || arrays.iter().all(|other| other.rank() == 1);
    let cast: Vec<Array> = arrays.iter().filter(skipped).map(|array| array.cast(dtype, call.precision)).collect();
    let Some(first) = cast.first() else {
        return Err(call.bad("tensors", "the list is empty"));
    };
    if axis >= first.rank() || cast.iter().any(|array| array.rank() != first.rank()) {
        return Err(call.mismatch("tensors of different ranks do not join"));
    }
    let mut sizes = first.sizes().to_vec();
    if let Some(size) = sizes.get_mut(axis) {
        *size = cast.iter().map(|array| array.sizes().get(axis).copied().unwrap_or(0)).fold(0, usize::saturating_add);
    }
    call.allow(&sizes)?;
    Ok(by_element!(first, E => Array::moved(dtype, E::wrap(joined::<E>(call, &cast, axis)?))))
}

fn cat(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let arrays = call.tensors("tensors")?;
    let rank = arrays.iter().map(Array::rank).max().unwrap_or(0);
    if rank == 0 {
        return Err(call.bad("tensors", "tensors without dimensions do not join"));
    }
    let axis = call.axis("dim", call.int("dim", 0)?, rank)?;
    Ok(vec![join(call, arrays, axis)?])
}

fn stack(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let arrays = call.tensors("tensors")?;
    let rank = arrays.iter().map(Array::rank).max().unwrap_or(0);
    let axis = call.axis("dim", call.int("dim", 0)?, rank + 1)?;
    let mut wide = Vec::with_capacity(arrays.len());
    for array in arrays {
        let mut sizes = array.sizes().to_vec();
        sizes.insert(axis.min(sizes.len()), 1);
        wide.push(with_sizes(call, array, &sizes)?);
    }
    Ok(vec![join(call, &wide, axis)?])
}

fn rolled(call: &Call<'_>, array: &Array, axis: usize, shift: i64) -> Result<Array, Error> {
    let size = size_of(call, array, axis)?;
    if size == 0 {
        return Ok(array.clone());
    }
    let shift = usize::try_from(shift.rem_euclid(i64::try_from(size).unwrap_or(i64::MAX))).unwrap_or(0);
    join(call, &[cut(array, axis, size - shift, size, 1), cut(array, axis, 0, size - shift, 1)], axis)
}

fn roll(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let shifts = call.ints("shifts")?;
    let dims = call.optional_ints("dims")?.unwrap_or_default();
    if dims.is_empty() {
        let &[shift] = shifts.as_slice() else {
            return Err(call.bad("shifts", "one number is needed when `dims` is empty"));
        };
        let flat = with_sizes(call, array, &[array.count()])?;
        return Ok(vec![with_sizes(call, &rolled(call, &flat, 0, shift)?, array.sizes())?]);
    }
    if dims.len() != shifts.len() {
        return Err(call.bad("shifts", format!("{} shifts for {} dimensions", shifts.len(), dims.len())));
    }
    let mut result = array.clone();
    for (&dim, &shift) in dims.iter().zip(&shifts) {
        let axis = call.axis("dims", dim, array.rank())?;
        result = rolled(call, &result, axis, shift)?;
    }
    Ok(vec![result])
}

fn flip(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let mut result = array.clone();
    for dim in call.ints("dims")? {
        let axis = call.axis("dims", dim, array.rank())?;
        if axis < array.rank() {
            result = moved!(&result, a => {
                let mut a = a.clone();
                a.invert_axis(Axis(axis));
                a
            });
        }
    }
    Ok(vec![result])
}
