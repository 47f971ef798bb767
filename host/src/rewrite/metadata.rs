//! When two tensors look the same to whoever reads them.

use crate::graph::{Dim, TensorMeta};

fn same(a: &Dim, b: &Dim) -> bool {
    match (a, b) {
        (Dim::Fixed(a), Dim::Fixed(b)) => a == b,
        (Dim::Symbolic(a), Dim::Symbolic(b)) => a.expression == b.expression,
        _ => false,
    }
}

fn show(dims: &[Dim]) -> String {
    let all: Vec<String> = dims
        .iter()
        .map(|dim| match dim {
            Dim::Fixed(n) => n.to_string(),
            Dim::Symbolic(symbol) => symbol.expression.clone(),
        })
        .collect();
    format!("[{}]", all.join(", "))
}

/// How two tensors differ for whoever reads them; strides of dimensions of size one do not count.
pub(super) fn difference(old: &TensorMeta, new: &TensorMeta) -> Option<String> {
    if old.dtype != new.dtype {
        return Some(format!("element type {} became {}", old.dtype.torch_name(), new.dtype.torch_name()));
    }
    if old.device != new.device {
        return Some(format!("device {} became {}", old.device, new.device));
    }
    if old.sizes.len() != new.sizes.len() || !old.sizes.iter().zip(&new.sizes).all(|(a, b)| same(a, b)) {
        return Some(format!("sizes {} became {}", show(&old.sizes), show(&new.sizes)));
    }
    let empty = old.sizes.contains(&Dim::Fixed(0));
    let alike = (old.strides.iter().zip(&new.strides).zip(&old.sizes))
        .all(|((a, b), size)| same(a, b) || *size == Dim::Fixed(1) || empty);
    if old.strides.len() != new.strides.len() || !alike {
        return Some(format!("strides {} became {}", show(&old.strides), show(&new.strides)));
    }
    None
}

pub(super) fn is_row_major(meta: &TensorMeta) -> bool {
    let (Some(sizes), Some(strides)) = (meta.fixed_sizes(), meta.fixed_strides()) else { return false };
    let mut expected = 1_i64;
    for (size, stride) in sizes.iter().zip(&strides).rev() {
        if *size != 1 && *stride != expected {
            return false;
        }
        expected = expected.saturating_mul(*size);
    }
    true
}
