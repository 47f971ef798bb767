//! Views and copies.

use super::super::{Dim, MemoryFormat, TensorMeta};
use super::arguments::Call;
use super::elementwise;
use super::layout::{
    self, channels_last_strides, contiguous_strides, factors, is_channels_last, is_contiguous, product,
};
use super::{ShapeError, dense};

type Outputs = Result<Vec<TensorMeta>, ShapeError>;

pub(super) fn same(call: &Call<'_>) -> Outputs {
    Ok(vec![call.tensor("self")?.clone()])
}

pub(super) fn view(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let sizes = target_sizes(call, tensor, &call.ints(size_argument(call))?)?;
    match view_strides(call, tensor, &sizes)? {
        Some(strides) => Ok(vec![TensorMeta { sizes, strides, ..tensor.clone() }]),
        None => Err(call.invalid("the strides do not allow a view; `reshape` does")),
    }
}

fn size_argument(call: &Call<'_>) -> &'static str {
    if call.op == "aten.reshape.default" { "shape" } else { "size" }
}

pub(super) fn reshape(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let sizes = target_sizes(call, tensor, &call.ints(size_argument(call))?)?;
    Ok(vec![reshaped(call, tensor, sizes)?])
}

fn reshaped(call: &Call<'_>, tensor: &TensorMeta, sizes: Vec<Dim>) -> Result<TensorMeta, ShapeError> {
    match view_strides(call, tensor, &sizes)? {
        Some(strides) => Ok(TensorMeta { sizes, strides, ..tensor.clone() }),
        None => dense(call, tensor, tensor.dtype, sizes),
    }
}

/// The sizes asked for, with `-1` worked out.
fn target_sizes(call: &Call<'_>, tensor: &TensorMeta, wanted: &[i64]) -> Result<Vec<Dim>, ShapeError> {
    let (total, symbols) = element_count(call, tensor)?;
    let mut known = 1_i64;
    for size in wanted.iter().filter(|size| **size != -1) {
        if *size < 0 {
            return Err(call.invalid(format!("size {size}")));
        }
        known = known.checked_mul(*size).ok_or_else(|| call.invalid("the sizes overflow"))?;
    }
    let mismatch = || call.invalid(format!("{} cannot become {wanted:?}", layout::show(&tensor.sizes)));
    match wanted.iter().filter(|size| **size == -1).count() {
        0 if !symbols.is_empty() => Err(call.undecided("a symbolic size would become a number")),
        0 if known == total => Ok(wanted.iter().copied().map(Dim::Fixed).collect()),
        1 if known > 0 && total % known == 0 => {
            let mut open = Dim::Fixed(total / known);
            for symbol in symbols {
                open = product(&open, &symbol).ok_or_else(|| call.undecided("a product of symbolic sizes"))?;
            }
            Ok(wanted.iter().map(|size| if *size == -1 { open.clone() } else { Dim::Fixed(*size) }).collect())
        }
        _ => Err(mismatch()),
    }
}

/// The number of elements as a number and symbolic factors.
fn element_count(call: &Call<'_>, tensor: &TensorMeta) -> Result<(i64, Vec<Dim>), ShapeError> {
    let mut total = 1_i64;
    let mut symbols = Vec::new();
    for size in &tensor.sizes {
        match size {
            Dim::Fixed(size) => total = total.checked_mul(*size).ok_or_else(|| call.invalid("the sizes overflow"))?,
            Dim::Symbolic(_) => {
                factors(size).ok_or_else(|| call.undecided("a symbolic size that is no plain symbol"))?;
                symbols.push(size.clone());
            }
        }
    }
    Ok((total, symbols))
}

/// Strides of a view with other sizes; `None` when there is none.
fn view_strides(call: &Call<'_>, tensor: &TensorMeta, sizes: &[Dim]) -> Result<Option<Vec<Dim>>, ShapeError> {
    let same = |a: &[Dim], b: &[Dim]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b));
    if same(&tensor.sizes, sizes) && !sizes.is_empty() {
        let alike = match (tensor.fixed_sizes(), is_contiguous(tensor)) {
            (Some(sizes), _) => sizes.contains(&0),
            (None, _) => true,
        };
        if alike {
            return Ok(Some(tensor.strides.clone()));
        }
    }
    let fixed = (
        tensor.fixed_sizes(),
        tensor.fixed_strides(),
        TensorMeta { sizes: sizes.to_vec(), ..tensor.clone() }.fixed_sizes(),
    );
    let (Some(old), Some(strides), Some(new)) = fixed else {
        if is_contiguous(tensor) {
            let strides =
                contiguous_strides(sizes).ok_or_else(|| call.undecided("a stride depends on symbolic sizes"))?;
            return Ok(Some(strides));
        }
        return Err(call.undecided("symbolic sizes with strides that are not row major"));
    };
    Ok(fixed_view_strides(&old, &strides, &new).map(|strides| strides.into_iter().map(Dim::Fixed).collect()))
}

/// torch's own walk from the innermost axis: groups of axes that are contiguous among themselves are
/// split anew.
fn fixed_view_strides(old: &[i64], old_strides: &[i64], new: &[i64]) -> Option<Vec<i64>> {
    if old.is_empty() {
        return Some(vec![1; new.len()]);
    }
    if old.contains(&0) {
        let sizes: Vec<Dim> = new.iter().copied().map(Dim::Fixed).collect();
        return contiguous_strides(&sizes)?.iter().map(Dim::fixed).collect();
    }
    let mut strides = vec![0_i64; new.len()];
    let mut open = new.len();
    let mut base = *old_strides.last()?;
    let (mut old_count, mut new_count) = (1_i64, 1_i64);
    for axis in (0..old.len()).rev() {
        old_count = old_count.checked_mul(*old.get(axis)?)?;
        let ends = match axis.checked_sub(1) {
            None => true,
            Some(outer) => *old.get(outer)? != 1 && *old_strides.get(outer)? != old_count.checked_mul(base)?,
        };
        if !ends {
            continue;
        }
        while let Some(next) = open.checked_sub(1) {
            let size = *new.get(next)?;
            if new_count >= old_count && size != 1 {
                break;
            }
            *strides.get_mut(next)? = new_count.checked_mul(base)?;
            new_count = new_count.checked_mul(size)?;
            open = next;
        }
        if new_count != old_count {
            return None;
        }
        if let Some(outer) = axis.checked_sub(1) {
            base = *old_strides.get(outer)?;
            (old_count, new_count) = (1, 1);
        }
    }
    (open == 0).then_some(strides)
}

pub(super) fn flatten(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let rank = tensor.sizes.len();
    let (start, end) = (call.wrap(call.int("start_dim")?, rank)?, call.wrap(call.int("end_dim")?, rank)?);
    if start > end {
        return Err(call.invalid("`start_dim` comes after `end_dim`"));
    }
    if rank == 0 {
        return Ok(vec![TensorMeta { sizes: vec![Dim::Fixed(1)], strides: vec![Dim::Fixed(1)], ..tensor.clone() }]);
    }
    if start == end {
        return Ok(vec![tensor.clone()]);
    }
    let mut merged = Dim::Fixed(1);
    for size in tensor.sizes.iter().take(end + 1).skip(start) {
        merged = product(&merged, size).ok_or_else(|| call.undecided("a product of symbolic sizes"))?;
    }
    let head = tensor.sizes.iter().take(start);
    let sizes = head.chain([&merged]).chain(tensor.sizes.iter().skip(end + 1)).cloned().collect();
    Ok(vec![reshaped(call, tensor, sizes)?])
}

pub(super) fn unflatten(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let axis = call.wrap(call.int("dim")?, tensor.sizes.len())?;
    let part =
        TensorMeta { sizes: vec![call.size(tensor, axis)?.clone()], strides: vec![Dim::Fixed(1)], ..tensor.clone() };
    let inner = target_sizes(call, &part, &call.ints("sizes")?)?;
    let sizes: Vec<Dim> =
        tensor.sizes.iter().take(axis).chain(&inner).chain(tensor.sizes.iter().skip(axis + 1)).cloned().collect();
    match view_strides(call, tensor, &sizes)? {
        Some(strides) => Ok(vec![TensorMeta { sizes, strides, ..tensor.clone() }]),
        None => Err(call.invalid("the strides do not allow a view")),
    }
}

pub(super) fn permute(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let rank = tensor.sizes.len();
    let dims = call.ints("dims")?;
    let axes: Vec<usize> = dims.iter().map(|dim| call.wrap(*dim, rank)).collect::<Result<_, _>>()?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if sorted != (0..rank).collect::<Vec<_>>() {
        return Err(call.invalid(format!("{dims:?} is no permutation of {rank} axes")));
    }
    Ok(vec![permuted(tensor, &axes)])
}

fn permuted(tensor: &TensorMeta, axes: &[usize]) -> TensorMeta {
    let pick = |dims: &[Dim]| axes.iter().filter_map(|axis| dims.get(*axis).cloned()).collect();
    TensorMeta { sizes: pick(&tensor.sizes), strides: pick(&tensor.strides), ..tensor.clone() }
}

pub(super) fn transpose(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let rank = tensor.sizes.len();
    let (a, b) = (call.wrap(call.int("dim0")?, rank)?, call.wrap(call.int("dim1")?, rank)?);
    let mut axes: Vec<usize> = (0..rank).collect();
    if rank > 0 {
        axes.swap(a, b);
    }
    Ok(vec![permuted(tensor, &axes)])
}

pub(super) fn t(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    match tensor.sizes.len() {
        0 | 1 => Ok(vec![tensor.clone()]),
        2 => Ok(vec![permuted(tensor, &[1, 0])]),
        rank => Err(call.invalid(format!("a tensor with {rank} axes"))),
    }
}

/// A copy in another layout.
pub(super) fn copied(
    call: &Call<'_>,
    tensor: &TensorMeta,
    format: Option<MemoryFormat>,
) -> Result<TensorMeta, ShapeError> {
    let strides = match format {
        None | Some(MemoryFormat::Preserve) => elementwise::strides(call, &[tensor], &tensor.sizes)?,
        Some(MemoryFormat::Contiguous) => {
            contiguous_strides(&tensor.sizes).ok_or_else(|| call.undecided("a stride depends on symbolic sizes"))?
        }
        Some(MemoryFormat::ChannelsLast) if tensor.sizes.len() == 4 => {
            channels_last_strides(&tensor.sizes).ok_or_else(|| call.undecided("a stride depends on symbolic sizes"))?
        }
        Some(_) => return Err(call.invalid("the memory format does not fit the number of axes")),
    };
    Ok(TensorMeta { strides, storage_offset: Dim::Fixed(0), ..tensor.clone() })
}

pub(super) fn contiguous(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let format = call.memory_format("memory_format")?;
    let already = match format {
        None | Some(MemoryFormat::Contiguous) => is_contiguous(tensor),
        Some(MemoryFormat::ChannelsLast) => is_channels_last(tensor),
        _ => false,
    };
    if already {
        return Ok(vec![tensor.clone()]);
    }
    if format == Some(MemoryFormat::Preserve) {
        return Err(call.invalid("`contiguous` has no format to preserve"));
    }
    Ok(vec![copied(call, tensor, format.or(Some(MemoryFormat::Contiguous)))?])
}

pub(super) fn clone(call: &Call<'_>) -> Outputs {
    Ok(vec![copied(call, call.tensor("self")?, call.memory_format("memory_format")?)?])
}

pub(super) fn to_dtype(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let dtype = call.dtype("dtype")?.ok_or_else(|| call.invalid("`dtype` is missing"))?;
    let format = call.memory_format("memory_format")?;
    if dtype == tensor.dtype && !call.bool("copy")? && matches!(format, None | Some(MemoryFormat::Preserve)) {
        return Ok(vec![tensor.clone()]);
    }
    Ok(vec![TensorMeta { dtype, ..copied(call, tensor, format)? }])
}

pub(super) fn unsqueeze(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let axis = call.wrap(call.int("dim")?, tensor.sizes.len() + 1)?;
    let stride = match (tensor.sizes.get(axis), tensor.strides.get(axis)) {
        (Some(size), Some(stride)) => {
            product(size, stride).ok_or_else(|| call.undecided("a stride depends on symbolic sizes"))?
        }
        _ => Dim::Fixed(1),
    };
    let mut output = tensor.clone();
    output.sizes.insert(axis, Dim::Fixed(1));
    output.strides.insert(axis, stride);
    Ok(vec![output])
}

fn squeezed(call: &Call<'_>, tensor: &TensorMeta, goes: impl Fn(usize) -> bool) -> Outputs {
    let mut output = TensorMeta { sizes: Vec::new(), strides: Vec::new(), ..tensor.clone() };
    for (axis, (size, stride)) in tensor.sizes.iter().zip(&tensor.strides).enumerate() {
        if goes(axis) {
            match size {
                Dim::Fixed(1) => continue,
                Dim::Fixed(_) => {}
                Dim::Symbolic(symbol) if symbol.min.is_some_and(|min| min > 1) => {}
                Dim::Symbolic(_) => return Err(call.undecided("a symbolic size may be 1")),
            }
        }
        output.sizes.push(size.clone());
        output.strides.push(stride.clone());
    }
    Ok(vec![output])
}

pub(super) fn squeeze(call: &Call<'_>) -> Outputs {
    squeezed(call, call.tensor("self")?, |_| true)
}

pub(super) fn squeeze_dim(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let axis = call.wrap(call.int("dim")?, tensor.sizes.len())?;
    squeezed(call, tensor, |other| other == axis)
}

pub(super) fn squeeze_dims(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let dims = call.ints("dim")?;
    let axes: Vec<usize> = dims.iter().map(|dim| call.wrap(*dim, tensor.sizes.len())).collect::<Result<_, _>>()?;
    squeezed(call, tensor, |axis| axes.contains(&axis))
}

pub(super) fn expand(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    let wanted = call.ints("size")?;
    let Some(added) = wanted.len().checked_sub(tensor.sizes.len()) else {
        return Err(call.invalid("fewer sizes than axes"));
    };
    let mut sizes: Vec<Dim> = Vec::with_capacity(wanted.len());
    let mut strides: Vec<Dim> = Vec::with_capacity(wanted.len());
    // From the innermost axis outwards; reversed at the end.
    for (axis, target) in wanted.iter().enumerate().rev() {
        let own = axis.checked_sub(added).and_then(|axis| Some((tensor.sizes.get(axis)?, tensor.strides.get(axis)?)));
        let (size, stride) = match (own, sizes.last(), strides.last()) {
            (Some((size, stride)), _, _) => (size.clone(), stride.clone()),
            (None, Some(size), Some(stride)) => (
                Dim::Fixed(1),
                product(size, stride).ok_or_else(|| call.undecided("a stride depends on symbolic sizes"))?,
            ),
            (None, ..) => (Dim::Fixed(1), Dim::Fixed(1)),
        };
        match (&size, *target) {
            (_, -1) if own.is_none() => return Err(call.invalid("a new axis has no size")),
            (_, -1) => {
                sizes.push(size);
                strides.push(stride);
            }
            (Dim::Fixed(size), target) if *size == target => {
                sizes.push(Dim::Fixed(target));
                strides.push(stride);
            }
            (Dim::Fixed(1), target) if target >= 0 => {
                sizes.push(Dim::Fixed(target));
                strides.push(Dim::Fixed(0));
            }
            (Dim::Symbolic(_), _) => return Err(call.undecided("a symbolic size would become a number")),
            (Dim::Fixed(size), target) => return Err(call.invalid(format!("size {size} cannot become {target}"))),
        }
    }
    sizes.reverse();
    strides.reverse();
    Ok(vec![TensorMeta { sizes, strides, ..tensor.clone() }])
}

/// The part of an axis from `start` on.
pub(super) fn part(
    call: &Call<'_>,
    tensor: &TensorMeta,
    axis: usize,
    start: i64,
    size: Dim,
    step: i64,
) -> Result<TensorMeta, ShapeError> {
    let mut output = tensor.clone();
    let stride = tensor.strides.get(axis).ok_or_else(|| call.invalid("a scalar has no axes"))?;
    let open = || call.undecided("an offset depends on symbolic sizes");
    if start != 0 {
        let skipped = product(&Dim::Fixed(start), stride).and_then(|skipped| skipped.fixed()).ok_or_else(open)?;
        let offset = tensor.storage_offset.fixed().and_then(|offset| offset.checked_add(skipped)).ok_or_else(open)?;
        output.storage_offset = Dim::Fixed(offset);
    }
    let stride = product(stride, &Dim::Fixed(step)).ok_or_else(open)?;
    if let (Some(old_size), Some(old_stride)) = (output.sizes.get_mut(axis), output.strides.get_mut(axis)) {
        *old_size = size;
        *old_stride = stride;
    }
    Ok(output)
}

/// `number / by`, rounded up, for numbers that are not negative.
pub(super) fn divided_up(number: i64, by: i64) -> i64 {
    number / by + i64::from(number % by != 0)
}

pub(super) fn slice(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    if tensor.sizes.is_empty() {
        return Err(call.invalid("a scalar has no axes"));
    }
    let axis = call.wrap(call.int("dim")?, tensor.sizes.len())?;
    let (start, end) = (call.optional_int("start")?.unwrap_or(0), call.optional_int("end")?.unwrap_or(i64::MAX));
    let step = call.int("step")?;
    if step <= 0 {
        return Err(call.invalid("`step` must be positive"));
    }
    let size = match call.size(tensor, axis)? {
        Dim::Fixed(size) => *size,
        whole if start == 0 && end == i64::MAX && step == 1 => {
            return Ok(vec![part(call, tensor, axis, 0, whole.clone(), 1)?]);
        }
        Dim::Symbolic(_) => return Err(call.undecided("a part of a symbolic size")),
    };
    let clamp = |at: i64, least: i64| (if at < 0 { at.saturating_add(size) } else { at }).clamp(least, size);
    let start = clamp(start, 0);
    let end = clamp(end, start);
    let count = divided_up(end - start, step);
    Ok(vec![part(call, tensor, axis, start, Dim::Fixed(count), step)?])
}

pub(super) fn select(call: &Call<'_>) -> Outputs {
    let tensor = call.tensor("self")?;
    if tensor.sizes.is_empty() {
        return Err(call.invalid("a scalar has no axes"));
    }
    let axis = call.wrap(call.int("dim")?, tensor.sizes.len())?;
    let index = call.int("index")?;
    let index = match call.size(tensor, axis)? {
        Dim::Fixed(size) if (-size..*size).contains(&index) => {
            if index < 0 {
                index + size
            } else {
                index
            }
        }
        Dim::Fixed(size) => return Err(call.invalid(format!("index {index} of {size}"))),
        Dim::Symbolic(_) => return Err(call.undecided("an index into a symbolic size")),
    };
    let mut output = part(call, tensor, axis, index, Dim::Fixed(1), 1)?;
    output.sizes.remove(axis);
    output.strides.remove(axis);
    Ok(vec![output])
}
