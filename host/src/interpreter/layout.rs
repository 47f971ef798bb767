//! Operations that move or relabel elements and compute nothing: views, copies, casts.

use ndarray::IxDyn;

use super::arguments::Call;
use super::array::{Array, Element, Nd, moved, standard};
use super::{Error, Table};
use crate::graph::ScalarType;

pub(super) const OPS: Table = &[
    ("aten.view.default", view),
    ("aten.view_copy.default", view),
    ("aten._unsafe_view.default", view),
    ("aten.reshape.default", reshape),
    ("aten.flatten.using_ints", flatten),
    ("aten.unflatten.int", unflatten),
    ("aten.permute.default", permute),
    ("aten.permute_copy.default", permute),
    ("aten.transpose.int", transpose),
    ("aten.transpose_copy.int", transpose),
    ("aten.t.default", t),
    ("aten.unsqueeze.default", unsqueeze),
    ("aten.unsqueeze_copy.default", unsqueeze),
    ("aten.squeeze.default", squeeze),
    ("aten.squeeze.dim", squeeze),
    ("aten.squeeze.dims", squeeze),
    ("aten.squeeze_copy.dims", squeeze),
    ("aten.expand.default", expand),
    ("aten.expand_copy.default", expand),
    ("aten.broadcast_to.default", expand),
    ("aten.expand_as.default", expand_as),
    ("aten.repeat.default", repeat),
    ("aten.contiguous.default", same),
    ("aten.clone.default", same),
    ("aten.alias.default", same),
    ("aten.alias_copy.default", same),
    ("aten.detach.default", same),
    ("aten.detach_copy.default", same),
    ("aten.lift_fresh_copy.default", same),
    ("aten.dropout.default", dropout),
    ("aten.feature_dropout.default", dropout),
    ("aten.to.dtype", to),
    ("aten.to.dtype_layout", to),
    ("aten._to_copy.default", to),
    ("aten.type_as.default", type_as),
];

/// The same elements in row-major order under other sizes.
pub(super) fn with_sizes(call: &Call<'_>, array: &Array, sizes: &[usize]) -> Result<Array, Error> {
    if sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size)) != Some(array.count()) {
        return Err(call.mismatch(format!("{:?} cannot become {sizes:?}", array.sizes())));
    }
    call.allow(sizes)?;
    fn one<E: Element>(array: &Nd<E>, sizes: &[usize]) -> Option<Nd<E>> {
        standard(array).into_shape_with_order(IxDyn(sizes)).ok()
    }
    let refused = || call.mismatch(format!("{:?} cannot become {sizes:?}", array.sizes()));
    Ok(moved!(array, a => one(a, sizes).ok_or_else(refused)?))
}

/// The sizes with one `-1` worked out.
fn resolve(call: &Call<'_>, name: &str, sizes: &[i64], count: usize) -> Result<Vec<usize>, Error> {
    let mut known = 1_usize;
    let mut open = None;
    let mut resolved = Vec::with_capacity(sizes.len());
    for (i, &size) in sizes.iter().enumerate() {
        match usize::try_from(size) {
            Ok(size) => {
                known = known.checked_mul(size).ok_or_else(|| call.bad(name, "the sizes overflow"))?;
                resolved.push(size);
            }
            Err(_) if size == -1 && open.is_none() => {
                open = Some(i);
                resolved.push(1);
            }
            Err(_) => return Err(call.bad(name, format!("{sizes:?} are no sizes"))),
        }
    }
    if let Some(slot) = open.and_then(|i| resolved.get_mut(i)) {
        if known == 0 || !count.is_multiple_of(known) {
            return Err(call.bad(name, format!("{count} elements do not divide into {sizes:?}")));
        }
        *slot = count / known;
    }
    Ok(resolved)
}

fn reshaped(call: &Call<'_>, name: &str) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let sizes = resolve(call, name, &call.ints(name)?, array.count())?;
    Ok(vec![with_sizes(call, array, &sizes)?])
}

fn view(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    reshaped(call, "size")
}

fn reshape(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    reshaped(call, "shape")
}

fn flatten(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let start = call.axis("start_dim", call.int("start_dim", 0)?, array.rank())?;
    let end = call.axis("end_dim", call.int("end_dim", -1)?, array.rank())?;
    if array.rank() == 0 {
        return Ok(vec![with_sizes(call, array, &[1])?]);
    }
    let sizes = array.sizes();
    let (Some(before), Some(middle), Some(after)) = (sizes.get(..start), sizes.get(start..=end), sizes.get(end + 1..))
    else {
        return Err(call.bad("start_dim", "it lies behind `end_dim`"));
    };
    let sizes: Vec<usize> =
        before.iter().copied().chain([middle.iter().product()]).chain(after.iter().copied()).collect();
    Ok(vec![with_sizes(call, array, &sizes)?])
}

fn unflatten(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.required_int("dim")?, array.rank())?;
    let Some(&size) = array.sizes().get(axis) else {
        return Err(call.mismatch("a tensor without dimensions cannot be unflattened"));
    };
    let inner = resolve(call, "sizes", &call.ints("sizes")?, size)?;
    let mut sizes = array.sizes().to_vec();
    sizes.splice(axis..=axis, inner);
    Ok(vec![with_sizes(call, array, &sizes)?])
}

/// The array with its dimensions in another order; `order` must be a permutation.
pub(super) fn permuted(array: &Array, order: &[usize]) -> Array {
    moved!(array, a => a.clone().permuted_axes(IxDyn(order)))
}

fn permute(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let dims = call.ints("dims")?;
    let mut order = Vec::with_capacity(dims.len());
    for &dim in &dims {
        let axis = call.axis("dims", dim, array.rank())?;
        if order.contains(&axis) {
            return Err(call.bad("dims", format!("{dims:?} is no permutation")));
        }
        order.push(axis);
    }
    if order.len() != array.rank() {
        return Err(call.bad("dims", format!("{dims:?} is no permutation of {} dimensions", array.rank())));
    }
    Ok(vec![permuted(array, &order)])
}

fn swapped(array: &Array, a: usize, b: usize) -> Array {
    let mut order: Vec<usize> = (0..array.rank()).collect();
    if a < order.len() && b < order.len() {
        order.swap(a, b);
    }
    permuted(array, &order)
}

fn transpose(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let a = call.axis("dim0", call.required_int("dim0")?, array.rank())?;
    let b = call.axis("dim1", call.required_int("dim1")?, array.rank())?;
    Ok(vec![swapped(array, a, b)])
}

fn t(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    match array.rank() {
        0 | 1 => Ok(vec![array.clone()]),
        2 => Ok(vec![swapped(array, 0, 1)]),
        rank => Err(call.mismatch(format!("rank {rank} has no transpose"))),
    }
}

fn unsqueeze(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.required_int("dim")?, array.rank() + 1)?;
    let mut sizes = array.sizes().to_vec();
    sizes.insert(axis.min(sizes.len()), 1);
    Ok(vec![with_sizes(call, array, &sizes)?])
}

fn squeeze(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axes = match call.optional_ints("dim")? {
        Some(list) if list.is_empty() => return Ok(vec![array.clone()]),
        _ => call.axes("dim", array.rank())?,
    };
    let sizes: Vec<usize> = array
        .sizes()
        .iter()
        .enumerate()
        .filter(|(i, size)| **size != 1 || !axes.contains(i))
        .map(|(_, &size)| size)
        .collect();
    Ok(vec![with_sizes(call, array, &sizes)?])
}

/// Repeats dimensions of size one; the result owns its elements.
pub(super) fn broadcast(call: &Call<'_>, array: &Array, sizes: &[usize]) -> Result<Array, Error> {
    if array.sizes() == sizes {
        return Ok(array.clone());
    }
    call.allow(sizes)?;
    let refused = || call.mismatch(format!("{:?} does not expand to {sizes:?}", array.sizes()));
    Ok(moved!(array, a => a.broadcast(IxDyn(sizes)).ok_or_else(refused)?.to_owned().into_shared()))
}

fn expand(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let wanted = call.ints("size")?;
    let Some(added) = wanted.len().checked_sub(array.rank()) else {
        return Err(call.bad("size", format!("{wanted:?} has fewer dimensions than {:?}", array.sizes())));
    };
    let mut sizes = Vec::with_capacity(wanted.len());
    for (i, &size) in wanted.iter().enumerate() {
        let own = i.checked_sub(added).and_then(|i| array.sizes().get(i)).copied();
        match (usize::try_from(size), own) {
            (Ok(size), _) => sizes.push(size),
            (Err(_), Some(own)) if size == -1 => sizes.push(own),
            _ => return Err(call.bad("size", format!("{wanted:?} are no sizes"))),
        }
    }
    Ok(vec![broadcast(call, array, &sizes)?])
}

fn expand_as(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    Ok(vec![broadcast(call, call.tensor("self")?, call.tensor("other")?.sizes())?])
}

fn repeat(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let repeats = call.sizes("repeats")?;
    let Some(added) = repeats.len().checked_sub(array.rank()) else {
        return Err(call.bad("repeats", format!("{repeats:?} has fewer dimensions than {:?}", array.sizes())));
    };
    // [r0, r1] of [a, b] is [1, a, 1, b] expanded to [r0, a, r1, b] and flattened in pairs.
    let own: Vec<usize> = std::iter::repeat_n(1, added).chain(array.sizes().iter().copied()).collect();
    let split: Vec<usize> = own.iter().flat_map(|&size| [1, size]).collect();
    let wide: Vec<usize> = repeats.iter().zip(&own).flat_map(|(&r, &size)| [r, size]).collect();
    let sizes: Vec<usize> = repeats.iter().zip(&own).map(|(&r, &size)| r.saturating_mul(size)).collect();
    let array = broadcast(call, &with_sizes(call, array, &split)?, &wide)?;
    Ok(vec![with_sizes(call, &array, &sizes)?])
}

fn same(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    Ok(vec![call.tensor("self")?.clone()])
}

fn dropout(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    if call.flag("train", false)? && call.float("p", 0.5)? > 0.0 {
        return Err(call.unsupported("in training mode"));
    }
    Ok(vec![call.tensor("input")?.clone()])
}

fn to(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let dtype = call.dtype("dtype")?.unwrap_or(array.dtype());
    Ok(vec![array.cast(dtype, call.precision)])
}

fn type_as(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let dtype: ScalarType = call.tensor("other")?.dtype();
    Ok(vec![call.tensor("self")?.cast(dtype, call.precision)])
}
