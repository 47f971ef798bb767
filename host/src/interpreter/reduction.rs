//! Reductions: sums, means, extremes, variances.

use super::arguments::Call;
use super::arithmetic::{larger, smaller};
use super::array::{Array, Data, Element, Nd, Real, by_real, elements, shaped};
use super::indexing::index_array;
use super::layout::permuted;
use super::{Error, Table};
use crate::graph::ScalarType;

pub(super) const OPS: Table = &[
    ("aten.sum.default", sum),
    ("aten.sum.dim_IntList", sum),
    ("aten.mean.default", mean),
    ("aten.mean.dim", mean),
    ("aten.var.correction", var),
    ("aten.var.dim", var),
    ("aten.amax.default", amax),
    ("aten.amin.default", amin),
    ("aten.max.default", amax),
    ("aten.min.default", amin),
    ("aten.max.dim", max_dim),
    ("aten.min.dim", min_dim),
    ("aten.argmax.default", argmax),
    ("aten.argmin.default", argmin),
    ("aten.any.default", any),
    ("aten.any.dim", any),
    ("aten.all.default", all),
    ("aten.all.dim", all),
];

/// Sums in the order of the elements, in blocks that are summed in pairs, so that the error grows with
/// the logarithm of the count and the order depends on nothing but the count.
pub(super) fn pairwise_sum<T: Real>(values: &[T]) -> T {
    if values.len() <= 64 {
        return values.iter().fold(T::zero(), |sum, &x| sum + x);
    }
    let (left, right) = values.split_at((values.len() / 2).next_multiple_of(64).min(values.len() - 1));
    pairwise_sum(left) + pairwise_sum(right)
}

/// The elements with the reduced dimensions last, so that each result is made of one chunk of `inner`.
pub(super) struct Rows<E> {
    pub(super) elements: Vec<E>,
    pub(super) inner: usize,
    /// sizes of the result
    pub(super) sizes: Vec<usize>,
}

impl<E: Element> Rows<E> {
    pub(super) fn map<R: Element>(&self, call: &Call<'_>, function: impl FnMut(&[E]) -> R) -> Result<Nd<R>, Error> {
        let results: Vec<R> = if self.inner == 0 {
            let empty: &[E] = &[];
            let count = self.sizes.iter().product();
            std::iter::repeat_n(empty, count).map(function).collect()
        } else {
            self.elements.chunks_exact(self.inner).map(function).collect()
        };
        shaped(&self.sizes, results).ok_or_else(|| call.mismatch("the result does not fit its sizes"))
    }
}

pub(super) fn rows<E: Element>(array: &Array, axes: &[usize], keep: bool) -> Option<Rows<E>> {
    let kept: Vec<usize> = (0..array.rank()).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<usize> = kept.iter().chain(axes).copied().collect();
    let moved = permuted(array, &order);
    let size_at = |axis: usize| array.sizes().get(axis).copied().unwrap_or(1);
    let sizes = if keep {
        (0..array.rank()).map(|axis| if axes.contains(&axis) { 1 } else { size_at(axis) }).collect()
    } else {
        kept.iter().map(|&axis| size_at(axis)).collect()
    };
    Some(Rows {
        elements: elements(moved.storage::<E>()?),
        inner: axes.iter().map(|&axis| size_at(axis)).product(),
        sizes,
    })
}

fn gathered<E: Element>(call: &Call<'_>, array: &Array) -> Result<Rows<E>, Error> {
    let axes = call.axes("dim", array.rank())?;
    rows(array, &axes, call.flag("keepdim", false)?).ok_or_else(|| call.unsupported_dtype(array.dtype()))
}

fn sum(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let own = if array.dtype().is_floating() { array.dtype() } else { ScalarType::Int64 };
    let dtype = call.dtype("dtype")?.unwrap_or(own);
    let array = array.cast(dtype, call.precision);
    let data = match array.data() {
        Data::F32(_) => Data::F32(gathered::<f32>(call, &array)?.map(call, pairwise_sum)?),
        Data::F64(_) => Data::F64(gathered::<f64>(call, &array)?.map(call, pairwise_sum)?),
        Data::I64(_) => {
            let total = |row: &[i64]| row.iter().fold(0_i64, |sum, &x| sum.wrapping_add(x));
            Data::I64(gathered::<i64>(call, &array)?.map(call, total)?)
        }
        Data::Bool(_) => return Err(call.unsupported_dtype(dtype)),
    };
    Ok(vec![Array::computed(dtype, data)])
}

/// The mean of a chunk.
pub(super) fn average<T: Real>(row: &[T]) -> T {
    pairwise_sum(row) / T::of_f64(count(row.len()))
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}

fn mean(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let array = array.cast(call.dtype("dtype")?.unwrap_or(array.dtype()), call.precision);
    let data = by_real!(call, array, T => T::wrap(gathered::<T>(call, &array)?.map(call, average)?));
    Ok(vec![Array::computed(array.dtype(), data)])
}

/// Sum of squared deviations from the mean.
pub(super) fn squared_deviations<T: Real>(row: &[T]) -> T {
    let mean = average(row);
    let squares: Vec<T> = row.iter().map(|&x| (x - mean) * (x - mean)).collect();
    pairwise_sum(&squares)
}

fn var(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let correction = match call.flag("unbiased", true)? {
        true => call.float("correction", 1.0)?,
        false => 0.0,
    };
    let data = by_real!(call, array, T => {
        let freedom = |n: usize| T::of_f64((count(n) - correction).max(0.0));
        T::wrap(gathered::<T>(call, array)?.map(call, |row| squared_deviations(row) / freedom(row.len()))?)
    });
    Ok(vec![Array::computed(array.dtype(), data)])
}

/// Position and value of the first element that beats all before it; NaN beats everything.
fn winner<E: Element + PartialOrd>(row: &[E], beats: fn(&E, &E) -> bool) -> (usize, E) {
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    let is_nan = |x: &E| x != x;
    let mut best = (0, row.first().copied().unwrap_or_default());
    for (i, x) in row.iter().enumerate().skip(1) {
        if is_nan(&best.1) {
            break;
        }
        if is_nan(x) || beats(x, &best.1) {
            best = (i, *x);
        }
    }
    best
}

fn more<E: PartialOrd>(x: &E, y: &E) -> bool {
    x > y
}

fn less<E: PartialOrd>(x: &E, y: &E) -> bool {
    x < y
}

fn refuse_empty(call: &Call<'_>, inner: usize) -> Result<(), Error> {
    if inner == 0 { Err(call.mismatch("nothing has no extreme")) } else { Ok(()) }
}

fn extreme(
    call: &Call<'_>,
    single: fn(f32, f32) -> f32,
    double: fn(f64, f64) -> f64,
    integer: fn(i64, i64) -> i64,
    boolean: fn(bool, bool) -> bool,
) -> Result<Vec<Array>, Error> {
    fn fold<E: Element>(call: &Call<'_>, array: &Array, function: fn(E, E) -> E) -> Result<Nd<E>, Error> {
        let rows = gathered::<E>(call, array)?;
        refuse_empty(call, rows.inner)?;
        rows.map(call, |row| row.iter().copied().reduce(function).unwrap_or_default())
    }
    let array = call.tensor("self")?;
    let data = match array.data() {
        Data::F32(_) => Data::F32(fold(call, array, single)?),
        Data::F64(_) => Data::F64(fold(call, array, double)?),
        Data::I64(_) => Data::I64(fold(call, array, integer)?),
        Data::Bool(_) => Data::Bool(fold(call, array, boolean)?),
    };
    Ok(vec![Array::moved(array.dtype(), data)])
}

fn amax(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    extreme(call, larger, larger, i64::max, |x, y| x || y)
}

fn amin(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    extreme(call, smaller, smaller, i64::min, |x, y| x && y)
}

/// Extremes along one dimension and where they are.
fn located(call: &Call<'_>, array: &Array, axes: &[usize], keep: bool, most: bool) -> Result<(Array, Array), Error> {
    fn one<E: Element + PartialOrd>(
        call: &Call<'_>,
        array: &Array,
        axes: &[usize],
        keep: bool,
        most: bool,
    ) -> Result<(Data, Nd<i64>), Error> {
        let rows = rows::<E>(array, axes, keep).ok_or_else(|| call.unsupported_dtype(array.dtype()))?;
        refuse_empty(call, rows.inner)?;
        let beats = if most { more } else { less };
        let mut positions = Vec::with_capacity(rows.sizes.iter().product());
        let values = rows.map(call, |row| {
            let (position, value) = winner(row, beats);
            positions.push(i64::try_from(position).unwrap_or(i64::MAX));
            value
        })?;
        let positions = index_array(&rows.sizes, positions).ok_or_else(|| call.mismatch("sizes"))?;
        Ok((E::wrap(values), positions))
    }
    let (values, positions) = match array.data() {
        Data::F32(_) => one::<f32>(call, array, axes, keep, most)?,
        Data::F64(_) => one::<f64>(call, array, axes, keep, most)?,
        Data::I64(_) => one::<i64>(call, array, axes, keep, most)?,
        Data::Bool(_) => one::<bool>(call, array, axes, keep, most)?,
    };
    Ok((Array::moved(array.dtype(), values), Array::moved(ScalarType::Int64, Data::I64(positions))))
}

fn along_dim(call: &Call<'_>, most: bool) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.required_int("dim")?, array.rank())?;
    let axes: Vec<usize> = (axis < array.rank()).then_some(axis).into_iter().collect();
    let (values, positions) = located(call, array, &axes, call.flag("keepdim", false)?, most)?;
    Ok(vec![values, positions])
}

fn max_dim(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    along_dim(call, true)
}

fn min_dim(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    along_dim(call, false)
}

fn position(call: &Call<'_>, most: bool) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axes = call.axes("dim", array.rank())?;
    Ok(vec![located(call, array, &axes, call.flag("keepdim", false)?, most)?.1])
}

fn argmax(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    position(call, true)
}

fn argmin(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    position(call, false)
}

fn truths(call: &Call<'_>, function: fn(&[bool]) -> bool) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let dtype = if array.dtype() == ScalarType::UInt8 { ScalarType::UInt8 } else { ScalarType::Bool };
    let array = array.cast(ScalarType::Bool, call.precision);
    let data = Data::Bool(gathered::<bool>(call, &array)?.map(call, function)?);
    Ok(vec![Array::moved(ScalarType::Bool, data).cast(dtype, call.precision)])
}

fn any(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    truths(call, |row| row.contains(&true))
}

fn all(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    truths(call, |row| !row.contains(&false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairwise_sums_depend_on_the_order_only_through_rounding() {
        let values: Vec<f32> = (0..10_000_u16).map(|i| f32::from(i) * 0.1).collect();
        let exact: f64 = values.iter().map(|&x| f64::from(x)).sum();
        assert!((f64::from(pairwise_sum(&values)) - exact).abs() / exact < 1e-6);
        assert!(pairwise_sum::<f32>(&[]) == 0.0);
    }

    #[test]
    fn the_first_nan_wins() {
        assert_eq!(winner(&[1.0, f64::NAN, 9.0, f64::NAN], more).0, 1);
        assert_eq!(winner(&[1.0, 3.0, 3.0], more), (1, 3.0));
        assert_eq!(winner(&[2, 1, 1], less), (1, 1));
    }
}
