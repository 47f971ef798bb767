//! Whether two tensors look alike to whoever reads them.

use super::super::{Dim, TensorMeta, shapes};
use super::PatchError;

pub(super) fn metadata(
    edit: usize,
    subject: &str,
    found: impl std::fmt::Display,
    what: &str,
    expected: impl std::fmt::Display,
) -> PatchError {
    PatchError::Metadata {
        edit,
        subject: format!("`{subject}`"),
        found: format!("{found} {what}"),
        expected: expected.to_string(),
    }
}

pub(super) fn check_meta(
    edit: usize,
    subject: &str,
    found: &TensorMeta,
    expected: &TensorMeta,
) -> Result<(), PatchError> {
    match difference(found, expected) {
        None => Ok(()),
        Some((found, expected)) => Err(PatchError::Metadata { edit, subject: format!("`{subject}`"), found, expected }),
    }
}

/// What differs between two tensors for a reader: element type, sizes, or strides where they matter.
pub(super) fn difference(found: &TensorMeta, expected: &TensorMeta) -> Option<(String, String)> {
    if found.dtype != expected.dtype {
        let name = |meta: &TensorMeta| format!("element type {}", meta.dtype.torch_name());
        return Some((name(found), name(expected)));
    }
    let alike = |a: &[Dim], b: &[Dim]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b));
    if !alike(&found.sizes, &expected.sizes) {
        return Some((
            format!("sizes {}", shapes::show(&found.sizes)),
            format!("sizes {}", shapes::show(&expected.sizes)),
        ));
    }
    if !shapes::same_strides(&found.sizes, &found.strides, &expected.strides) {
        return Some((
            format!("strides {}", shapes::show(&found.strides)),
            format!("strides {}", shapes::show(&expected.strides)),
        ));
    }
    None
}
