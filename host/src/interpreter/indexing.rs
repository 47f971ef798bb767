//! Reading by index tensors: index_select, index, gather, embedding.

use ndarray::{ArrayD, Axis, Dimension, IxDyn};

use super::arguments::Call;
use super::array::{Array, Element, Nd, elements, moved, shaped};
use super::layout::{broadcast, permuted, with_sizes};
use super::promotion::broadcast_sizes;
use super::{Error, Table};

pub(super) const OPS: Table = &[
    ("aten.index_select.default", index_select),
    ("aten.embedding.default", embedding),
    ("aten.gather.default", gather),
    ("aten.index.Tensor", index),
];

/// Indices as positions in a dimension of `size`, negative ones counted from the end.
fn positions(call: &Call<'_>, name: &str, array: &Array, size: usize) -> Result<Vec<usize>, Error> {
    let Some(indices) = array.storage::<i64>() else {
        return Err(call.bad(name, format!("`{}` is no index type", array.dtype().torch_name())));
    };
    let count = i64::try_from(size).unwrap_or(i64::MAX);
    elements(indices)
        .into_iter()
        .map(|i| {
            let position = if i < 0 { i.saturating_add(count) } else { i };
            usize::try_from(position)
                .ok()
                .filter(|&p| p < size)
                .ok_or_else(|| call.bad(name, format!("index {i} is out of range for size {size}")))
        })
        .collect()
}

fn picked(array: &Array, axis: usize, positions: &[usize]) -> Array {
    fn one<E: Element>(array: &Nd<E>, axis: usize, positions: &[usize]) -> Nd<E> {
        array.select(Axis(axis), positions).into_shared()
    }
    moved!(array, a => one(a, axis, positions))
}

fn index_select(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let axis = call.axis("dim", call.required_int("dim")?, array.rank())?;
    let Some(&size) = array.sizes().get(axis) else {
        return Err(call.mismatch("a tensor without dimensions cannot be indexed"));
    };
    let positions = positions(call, "index", call.tensor("index")?, size)?;
    let mut sizes = array.sizes().to_vec();
    if let Some(size) = sizes.get_mut(axis) {
        *size = positions.len();
    }
    call.allow(&sizes)?;
    Ok(vec![picked(array, axis, &positions)])
}

fn embedding(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let weight = call.tensor("weight")?;
    let indices = call.tensor("indices")?;
    let &[rows, width] = weight.sizes() else {
        return Err(call.mismatch(format!("a table of sizes {:?} is no matrix", weight.sizes())));
    };
    let positions = positions(call, "indices", indices, rows)?;
    call.allow(&[positions.len(), width])?;
    let sizes: Vec<usize> = indices.sizes().iter().copied().chain([width]).collect();
    Ok(vec![with_sizes(call, &picked(weight, 0, &positions), &sizes)?])
}

fn gather(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let index = call.tensor("index")?;
    let axis = call.axis("dim", call.required_int("dim")?, array.rank())?;
    let fits = index.rank() == array.rank()
        && index.sizes().iter().zip(array.sizes()).enumerate().all(|(i, (a, b))| i == axis || a <= b);
    if !fits || array.rank() == 0 {
        return Err(call.mismatch(format!("index {:?} does not fit {:?}", index.sizes(), array.sizes())));
    }
    let size = array.sizes().get(axis).copied().unwrap_or(0);
    let positions = positions(call, "index", index, size)?;
    fn one<E: Element>(array: &Nd<E>, sizes: &[usize], axis: usize, positions: &[usize]) -> Nd<E> {
        let mut next = positions.iter();
        ArrayD::from_shape_fn(IxDyn(sizes), |place| {
            let mut place = place;
            if let Some(slot) = place.as_array_view_mut().get_mut(axis) {
                *slot = next.next().copied().unwrap_or(0);
            }
            array.get(place).copied().unwrap_or_default()
        })
        .into_shared()
    }
    Ok(vec![moved!(array, a => one(a, index.sizes(), axis, &positions))])
}

/// Advanced indexing with integer tensors; boolean masks give sizes that depend on data.
fn index(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let indices = call.optional_tensors("indices")?;
    if indices.len() > array.rank() {
        return Err(call.mismatch("there are more indices than dimensions"));
    }
    let axes: Vec<usize> = indices.iter().enumerate().filter(|(_, i)| i.is_some()).map(|(axis, _)| axis).collect();
    let (Some(&first), Some(&last)) = (axes.first(), axes.last()) else {
        return Ok(vec![array.clone()]);
    };
    let mut common: Vec<usize> = Vec::new();
    for index in indices.iter().flatten() {
        if index.storage::<bool>().is_some() {
            return Err(call.unsupported("with a boolean mask"));
        }
        common = broadcast_sizes(call, &common, index.sizes())?;
    }
    // Bring the indexed dimensions to the front, flatten them into one, and pick rows.
    let others: Vec<usize> = (0..array.rank()).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<usize> = axes.iter().chain(&others).copied().collect();
    let front = permuted(array, &order);
    let size_at = |axis: &usize| array.sizes().get(*axis).copied().unwrap_or(0);
    let rest: Vec<usize> = others.iter().map(size_at).collect();
    let rows: usize = axes.iter().map(size_at).product();
    let count: usize = common.iter().product();
    let mut flat = vec![0_usize; count];
    for (axis, index) in indices.iter().enumerate() {
        let Some(index) = index else { continue };
        let size = size_at(&axis);
        let wide = broadcast(call, index, &common)?;
        for (slot, position) in flat.iter_mut().zip(positions(call, "indices", &wide, size)?) {
            *slot = *slot * size + position;
        }
    }
    let table: Vec<usize> = std::iter::once(rows).chain(rest.iter().copied()).collect();
    let result: Vec<usize> = std::iter::once(count).chain(rest.iter().copied()).collect();
    call.allow(&result)?;
    let picked = picked(&with_sizes(call, &front, &table)?, 0, &flat);
    let sizes: Vec<usize> = common.iter().chain(&rest).copied().collect();
    let result = with_sizes(call, &picked, &sizes)?;
    // Adjacent indices leave their result in place; separated ones put it first.
    if last - first + 1 != axes.len() || first == 0 {
        return Ok(vec![result]);
    }
    let width = common.len();
    let order: Vec<usize> = (width..width + first).chain(0..width).chain(width + first..sizes.len()).collect();
    Ok(vec![permuted(&result, &order)])
}

/// Index tensors as an array, for operations that return positions.
pub(super) fn index_array(sizes: &[usize], positions: Vec<i64>) -> Option<Nd<i64>> {
    shaped(sizes, positions)
}
