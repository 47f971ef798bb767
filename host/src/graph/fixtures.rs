//! Programs for unit tests.

use std::path::{Path, PathBuf};

use super::archive::{self, Limits};
use super::{Program, ir::*};

/// Folder of the committed programs.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/programs")
}

/// A committed program; `tests/fixtures/make_programs.py` shows its model.
pub(crate) fn program(name: &str) -> Program {
    let path = folder().join(format!("{name}.pt2"));
    archive::read(&path, &Limits::default())
        .unwrap_or_else(|error| panic!("{name}: {error}: {:?}", std::error::Error::source(&error)))
}

/// Every committed program with its name.
pub(crate) fn programs() -> Vec<(String, Program)> {
    let mut names: Vec<String> = fs_err::read_dir(folder())
        .expect("folder of fixtures")
        .filter_map(|entry| entry.expect("entry").file_name().to_str()?.strip_suffix(".pt2").map(str::to_owned))
        .collect();
    names.sort_unstable();
    assert!(names.len() >= 19, "{names:?}");
    names.into_iter().map(|name| (name.clone(), program(&name))).collect()
}

/// A contiguous float tensor.
pub(crate) fn float(sizes: &[i64]) -> TensorMeta {
    let mut strides = vec![1; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis] * sizes[axis].max(1);
    }
    TensorMeta {
        dtype: ScalarType::Float32,
        sizes: sizes.iter().copied().map(Dim::Fixed).collect(),
        strides: strides.into_iter().map(Dim::Fixed).collect(),
        storage_offset: Dim::Fixed(0),
        device: "cpu".to_owned(),
        layout: 7,
        requires_grad: false,
    }
}
