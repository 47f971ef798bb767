//! Padding by a constant, by reflection, by the edge or around the ring.

use ndarray::{ArrayD, Axis, IxDyn, Slice};

use super::arguments::{Call, Scalar};
use super::array::{Array, Element, Nd, by_element, moved, standard};
use super::{Error, Table};

pub(super) const OPS: Table = &[
    ("aten.constant_pad_nd.default", constant),
    ("aten.pad.default", pad),
    ("aten.reflection_pad1d.default", reflect),
    ("aten.reflection_pad2d.default", reflect),
    ("aten.replication_pad1d.default", replicate),
    ("aten.replication_pad2d.default", replicate),
];

/// Elements to add (or, negative, to remove) before and after each dimension, outermost first.
fn amounts(call: &Call<'_>, array: &Array) -> Result<Vec<(i64, i64)>, Error> {
    let list = call.ints("pad").or_else(|_| call.ints("padding"))?;
    let pairs = list.as_chunks::<2>();
    if !pairs.1.is_empty() || pairs.0.len() > array.rank() {
        return Err(call.bad("pad", format!("{list:?} does not fit rank {}", array.rank())));
    }
    let mut amounts = vec![(0, 0); array.rank()];
    for (slot, [before, after]) in amounts.iter_mut().rev().zip(pairs.0) {
        *slot = (*before, *after);
    }
    Ok(amounts)
}

/// A size after padding.
fn grown(call: &Call<'_>, size: usize, (before, after): (i64, i64)) -> Result<usize, Error> {
    i64::try_from(size)
        .ok()
        .and_then(|n| n.checked_add(before)?.checked_add(after))
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| call.bad("pad", format!("({before}, {after}) leaves nothing of size {size}")))
}

/// Pads by `value`; negative amounts cut.
pub(super) fn pad_constant(
    call: &Call<'_>,
    array: &Array,
    amounts: &[(i64, i64)],
    value: Scalar,
) -> Result<Array, Error> {
    let mut sizes = Vec::with_capacity(array.rank());
    for (&size, &amount) in array.sizes().iter().zip(amounts) {
        sizes.push(grown(call, size, amount)?);
    }
    call.allow(&sizes)?;
    let fill = value.as_array(call.precision).cast(array.dtype(), call.precision);
    fn one<E: Element>(array: &Nd<E>, sizes: &[usize], amounts: &[(i64, i64)], fill: E) -> Nd<E> {
        let mut result = ArrayD::from_elem(IxDyn(sizes), fill);
        let mut source = array.view();
        let mut target = result.view_mut();
        for (axis, &(before, after)) in amounts.iter().enumerate() {
            let part = |before: i64, after: i64| {
                let inner = |n: i64| isize::try_from(n.max(0)).unwrap_or(0);
                Slice::new(inner(before), Some(-inner(after)).filter(|&end| end != 0), 1)
            };
            // A cut larger than the dimension leaves nothing to copy.
            let own = source.shape().get(axis).copied().unwrap_or(0);
            let cut = before.min(0).unsigned_abs().saturating_add(after.min(0).unsigned_abs());
            if cut > 0 && cut >= own as u64 {
                return result.into_shared();
            }
            source.slice_axis_inplace(Axis(axis), part(-before, -after));
            target.slice_axis_inplace(Axis(axis), part(before, after));
        }
        if source.shape() == target.shape() {
            target.assign(&source);
        }
        result.into_shared()
    }
    Ok(by_element!(array, E => {
        let fill = fill.storage::<E>().and_then(|a| a.first().copied()).unwrap_or_default();
        let Some(storage) = array.storage::<E>() else { return Err(call.unsupported_dtype(array.dtype())) };
        Array::moved(array.dtype(), E::wrap(one(storage, &sizes, amounts, fill)))
    }))
}

fn constant(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let value = call.scalar("value", Scalar::Int(0))?;
    Ok(vec![pad_constant(call, array, &amounts(call, array)?, value)?])
}

/// Pads by reading positions of the array itself.
fn by_position(
    call: &Call<'_>,
    position: fn(i64, i64) -> i64,
    allowed: fn(i64, i64) -> bool,
) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let mut result = array.clone();
    for (axis, (before, after)) in amounts(call, array)?.into_iter().enumerate() {
        if (before, after) == (0, 0) {
            continue;
        }
        let size = array.sizes().get(axis).copied().unwrap_or(0);
        let count = i64::try_from(size).unwrap_or(i64::MAX);
        if size == 0 || !allowed(before, count) || !allowed(after, count) {
            return Err(call.bad("pad", format!("({before}, {after}) does not fit size {size}")));
        }
        let length = grown(call, size, (before, after))?;
        let mut sizes = result.sizes().to_vec();
        if let Some(slot) = sizes.get_mut(axis) {
            *slot = length;
        }
        call.allow(&sizes)?;
        let positions: Vec<usize> = (0..i64::try_from(length).unwrap_or(0))
            .map(|i| usize::try_from(position(i - before, count)).unwrap_or(0).min(size - 1))
            .collect();
        fn one<E: Element>(array: &Nd<E>, axis: usize, positions: &[usize]) -> Nd<E> {
            standard(&array.select(Axis(axis), positions).into_shared())
        }
        result = moved!(&result, a => one(a, axis, &positions));
    }
    Ok(vec![result])
}

fn reflect(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    by_position(
        call,
        |i, n| {
            let i = i.abs();
            if i >= n { 2 * (n - 1) - i } else { i }
        },
        |amount, n| amount < n && amount > -n,
    )
}

fn replicate(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    by_position(call, |i, n| i.clamp(0, n - 1), |amount, n| amount > -n && amount < 1 << 32)
}

fn circular(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    by_position(call, |i, n| i.rem_euclid(n), |amount, n| amount <= n && amount > -n)
}

fn pad(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    match call.text("mode")?.unwrap_or("constant") {
        "constant" => constant(call),
        "reflect" => reflect(call),
        "replicate" => replicate(call),
        "circular" => circular(call),
        mode => Err(call.unsupported(format!("mode `{mode}`"))),
    }
}
