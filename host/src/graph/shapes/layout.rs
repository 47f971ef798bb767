//! Strides: how torch lays tensors out, and how it classifies what it finds.

use super::super::{Dim, Symbol, TensorMeta};

/// A product, when it can be written down as the exporter does: numbers, and bare positive symbols.
pub(super) fn product(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Fixed(a), Dim::Fixed(b)) => a.checked_mul(*b).map(Dim::Fixed),
        (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Some(other.clone()),
        (Dim::Fixed(0), _) | (_, Dim::Fixed(0)) => Some(Dim::Fixed(0)),
        _ => {
            let (mut factor, mut symbols) = factors(a)?;
            let (other_factor, other_symbols) = factors(b)?;
            factor = factor.checked_mul(other_factor)?;
            symbols.extend(other_symbols);
            symbols.sort_unstable();
            if symbols.iter().zip(symbols.iter().skip(1)).any(|(a, b)| a == b) {
                // A power; the exporter writes it in another form.
                return None;
            }
            let mut parts: Vec<String> = symbols.into_iter().map(str::to_owned).collect();
            if factor != 1 {
                parts.insert(0, format!("Integer({factor})"));
            }
            let hint = hint(a).zip(hint(b)).and_then(|(a, b)| a.checked_mul(b));
            Some(Dim::Symbolic(Symbol { expression: format!("Mul({})", parts.join(", ")), hint, min: None, max: None }))
        }
    }
}

fn hint(dim: &Dim) -> Option<i64> {
    match dim {
        Dim::Fixed(number) => Some(*number),
        Dim::Symbolic(symbol) => symbol.hint,
    }
}

/// A number and bare symbols whose product the size is; symbols are known to be positive.
pub(super) fn factors(dim: &Dim) -> Option<(i64, Vec<&str>)> {
    let symbol =
        |text: &str| text.starts_with("Symbol('") && text.matches('(').count() == 1 && text.contains("positive=True");
    match dim {
        Dim::Fixed(number) => Some((*number, Vec::new())),
        Dim::Symbolic(Symbol { expression, .. }) if symbol(expression) => Some((1, vec![expression])),
        Dim::Symbolic(Symbol { expression, .. }) => {
            let inner = expression.strip_prefix("Mul(")?.strip_suffix(')')?;
            let mut factor = 1_i64;
            let mut symbols = Vec::new();
            let mut rest = inner;
            while !rest.is_empty() {
                let end = rest.find(')')? + 1;
                let (part, tail) = rest.split_at_checked(end)?;
                rest = tail.strip_prefix(", ").unwrap_or(tail);
                match part.strip_prefix("Integer(").and_then(|number| number.strip_suffix(')')) {
                    Some(number) => factor = factor.checked_mul(number.parse().ok()?)?,
                    None if symbol(part) => symbols.push(part),
                    None => return None,
                }
            }
            Some((factor, symbols))
        }
    }
}

/// Row-major strides; `None` when a symbolic product cannot be written down.
pub(in crate::graph) fn contiguous_strides(sizes: &[Dim]) -> Option<Vec<Dim>> {
    strides_in_order(sizes, &(0..sizes.len()).rev().collect::<Vec<_>>())
}

/// NHWC strides of a tensor with four axes, NDHWC strides of one with five.
pub(super) fn channels_last_strides(sizes: &[Dim]) -> Option<Vec<Dim>> {
    strides_in_order(sizes, channels_last_order(sizes.len())?)
}

fn channels_last_order(rank: usize) -> Option<&'static [usize]> {
    match rank {
        4 => Some(&[1, 3, 2, 0]),
        5 => Some(&[1, 4, 3, 2, 0]),
        _ => None,
    }
}

/// Strides of a dense tensor whose axes are laid out in `order`, innermost first.
pub(super) fn strides_in_order(sizes: &[Dim], order: &[usize]) -> Option<Vec<Dim>> {
    let mut strides = vec![Dim::Fixed(1); sizes.len()];
    let mut next = Dim::Fixed(1);
    for axis in order {
        *strides.get_mut(*axis)? = next.clone();
        let size = match sizes.get(*axis)? {
            Dim::Fixed(0) => &Dim::Fixed(1),
            size => size,
        };
        // The outermost stride is not needed, nor is the product that would follow it.
        match product(&next, size) {
            Some(step) => next = step,
            None if order.last() == Some(axis) => break,
            None => return None,
        }
    }
    Some(strides)
}

/// True when the tensors' elements lie in the same places: strides of axes of size 1 do not matter, and
/// those of a tensor without elements neither.
pub(in crate::graph) fn same_strides(sizes: &[Dim], a: &[Dim], b: &[Dim]) -> bool {
    let empty = sizes.iter().any(|size| size.fixed() == Some(0));
    a.len() == sizes.len()
        && b.len() == sizes.len()
        && (empty || sizes.iter().zip(a.iter().zip(b)).all(|(size, (a, b))| size.fixed() == Some(1) || a.same(b)))
}

/// Sizes or strides for messages.
pub(in crate::graph) fn show(dims: &[Dim]) -> String {
    let shown: Vec<String> = dims
        .iter()
        .map(|dim| match dim {
            Dim::Fixed(number) => number.to_string(),
            Dim::Symbolic(symbol) => symbol.expression.clone(),
        })
        .collect();
    format!("[{}]", shown.join(", "))
}

pub(super) fn is_contiguous(tensor: &TensorMeta) -> bool {
    contiguous_strides(&tensor.sizes).is_some_and(|strides| same_strides(&tensor.sizes, &tensor.strides, &strides))
}

/// True for a dense NHWC tensor with four axes.
pub(super) fn is_channels_last(tensor: &TensorMeta) -> bool {
    tensor.sizes.len() == 4
        && channels_last_strides(&tensor.sizes)
            .is_some_and(|strides| same_strides(&tensor.sizes, &tensor.strides, &strides))
}

/// True when elements fill a block of memory without gaps or overlaps; `None` when sizes leave it open.
pub(super) fn is_dense(tensor: &TensorMeta) -> Option<bool> {
    if is_contiguous(tensor) {
        return Some(true);
    }
    let (sizes, strides) = (tensor.fixed_sizes()?, tensor.fixed_strides()?);
    if sizes.contains(&0) {
        return Some(true);
    }
    let mut axes: Vec<(i64, i64)> = strides.into_iter().zip(sizes).filter(|(_, size)| *size != 1).collect();
    axes.sort_unstable();
    let mut expected = 1_i64;
    for (stride, size) in axes {
        if stride != expected {
            return Some(false);
        }
        expected = expected.checked_mul(size)?;
    }
    Some(true)
}

/// torch's guess whether a tensor is meant to be NHWC or NDHWC; ambiguous ones are not. `None` when sizes
/// leave it open.
pub(super) fn suggests_channels_last(tensor: &TensorMeta) -> Option<bool> {
    let Some(order) = channels_last_order(tensor.sizes.len()) else { return Some(false) };
    let (sizes, strides) = match (tensor.fixed_sizes(), tensor.fixed_strides()) {
        (Some(sizes), Some(strides)) => (sizes, strides),
        _ => return hinted_channels_last(tensor),
    };
    Some(like_channels_last(&sizes, &strides, order))
}

/// For symbolic sizes: certain only for plain layouts, in which the order of strides does not hang on a
/// size of 1.
fn hinted_channels_last(tensor: &TensorMeta) -> Option<bool> {
    let spatial = tensor.sizes.iter().skip(1).all(|size| size.fixed().is_some_and(|size| size > 1));
    if !spatial {
        return None;
    }
    let strides: Vec<i64> = tensor.strides.iter().skip(1).map(Dim::fixed).collect::<Option<_>>()?;
    match strides.as_slice() {
        [outer @ .., inner] if outer.iter().zip(outer.iter().skip(1).chain([inner])).all(|(a, b)| a > b) => Some(false),
        _ => None,
    }
}

fn like_channels_last(sizes: &[i64], strides: &[i64], order: &[usize]) -> bool {
    let at = |list: &[i64], axis: usize| list.get(axis).copied().unwrap_or_default();
    if at(strides, 1) == 0 {
        return false;
    }
    let mut least = 0;
    for axis in order.iter().copied() {
        let (size, stride) = (at(sizes, axis), at(strides, axis));
        if size == 0 || stride < least || axis == 0 && least == at(strides, 1) {
            return false;
        }
        least = if size > 1 { stride.saturating_mul(size) } else { stride };
    }
    true
}
