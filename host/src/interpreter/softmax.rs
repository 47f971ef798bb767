//! Softmax and its logarithm.

use super::arguments::Call;
use super::arithmetic::larger;
use super::array::{Array, Real, by_real};
use super::layout::permuted;
use super::reduction::{pairwise_sum, rows};
use super::{Error, Table};
use crate::graph::ScalarType;

pub(super) const OPS: Table = &[
    ("aten.softmax.int", softmax),
    ("aten._softmax.default", softmax),
    ("aten._safe_softmax.default", safe_softmax),
    ("aten.log_softmax.int", log_softmax),
    ("aten._log_softmax.default", log_softmax),
];

/// Replaces every chunk along the argument `dim` by `function` of it.
fn along(call: &Call<'_>, single: fn(&mut [f32]), double: fn(&mut [f64])) -> Result<Vec<Array>, Error> {
    fn one<T: Real>(call: &Call<'_>, array: &Array, axis: usize, function: fn(&mut [T])) -> Result<Array, Error> {
        let mut rows = rows::<T>(array, &[axis], false).ok_or_else(|| call.unsupported_dtype(array.dtype()))?;
        if rows.inner > 0 {
            rows.elements.chunks_exact_mut(rows.inner).for_each(function);
        }
        let sizes: Vec<usize> = rows.sizes.iter().copied().chain([rows.inner]).collect();
        let data = super::array::shaped(&sizes, rows.elements).ok_or_else(|| call.mismatch("sizes"))?;
        // The dimension is last now; put it back.
        let last = sizes.len() - 1;
        let order: Vec<usize> = (0..axis).chain([last]).chain(axis..last).collect();
        let moved = permuted(&Array::moved(array.dtype(), T::wrap(data)), &order);
        let data = super::array::standard(moved.storage::<T>().ok_or_else(|| call.mismatch("sizes"))?);
        Ok(Array::computed(array.dtype(), T::wrap(data)))
    }
    let array = call.tensor("self")?;
    let mut dtype = call.dtype("dtype")?.unwrap_or(array.dtype());
    if call.flag("half_to_float", false)? {
        dtype = ScalarType::Float32;
    }
    let array = array.cast(dtype, call.precision);
    let axis = call.axis("dim", call.required_int("dim")?, array.rank())?;
    if array.rank() == 0 {
        let wide = super::layout::with_sizes(call, &array, &[1])?;
        let result = match wide.data() {
            super::Data::F32(_) => one(call, &wide, 0, single)?,
            _ => one(call, &wide, 0, double)?,
        };
        return Ok(vec![super::layout::with_sizes(call, &result, &[])?]);
    }
    Ok(vec![match array.data() {
        super::Data::F32(_) => one(call, &array, axis, single)?,
        super::Data::F64(_) => one(call, &array, axis, double)?,
        _ => return Err(call.unsupported_dtype(dtype)),
    }])
}

fn largest<T: Real>(row: &[T]) -> T {
    row.iter().copied().reduce(larger).unwrap_or_else(T::zero)
}

fn normalise<T: Real>(row: &mut [T]) {
    let max = largest(row);
    row.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum = pairwise_sum(row);
    row.iter_mut().for_each(|x| *x /= sum);
}

fn normalise_safely<T: Real>(row: &mut [T]) {
    if row.iter().all(|x| *x == T::neg_infinity()) {
        row.fill(T::zero());
    } else {
        normalise(row);
    }
}

fn logarithm<T: Real>(row: &mut [T]) {
    let max = largest(row);
    let powers: Vec<T> = row.iter().map(|&x| (x - max).exp()).collect();
    let log = pairwise_sum(&powers).ln();
    row.iter_mut().for_each(|x| *x = *x - max - log);
}

fn softmax(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    along(call, normalise, normalise)
}

fn safe_softmax(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    along(call, normalise_safely, normalise_safely)
}

fn log_softmax(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    along(call, logarithm, logarithm)
}

/// Softmax of the last dimension, for operations made of others.
pub(super) fn softmax_last(call: &Call<'_>, array: &Array) -> Result<Array, Error> {
    let Some(axis) = array.rank().checked_sub(1) else {
        return Err(call.mismatch("a tensor without dimensions has no last one"));
    };
    by_real!(call, array, T => {
        let mut rows = rows::<T>(array, &[axis], true).ok_or_else(|| call.unsupported_dtype(array.dtype()))?;
        if rows.inner > 0 {
            rows.elements.chunks_exact_mut(rows.inner).for_each(normalise_safely);
        }
        let data = super::array::shaped(array.sizes(), rows.elements).ok_or_else(|| call.mismatch("sizes"))?;
        Ok(Array::computed(array.dtype(), super::array::Element::wrap(data)))
    })
}
