//! The worker's Python files, carried inside the binary and unpacked where Python can import them.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use sha2::{Digest as _, Sha256};

use crate::files::write_atomic;
use crate::torch::error::Error;

macro_rules! package {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../../../python/delegate_doctor_worker/", $name)).as_slice())),*]
    };
}

/// Every file of the worker package.
const FILES: [(&str, &[u8]); 15] = package![
    "__init__.py",
    "aliases.py",
    "calling.py",
    "checking.py",
    "errors.py",
    "etrecord.py",
    "export.py",
    "lowering.py",
    "programs.py",
    "provenance.py",
    "reasons.py",
    "running.py",
    "serve.py",
    "tensors.py",
    "user_model.py",
];

/// Hash of the package's content: part of the folder's name, and of keys of caches.
pub(in crate::torch) fn package_hash() -> String {
    let mut hasher = Sha256::new();
    for (name, bytes) in FILES {
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name);
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hex::encode(hasher.finalize())
}

/// The folder to import the package from, unpacked when it is not there yet. Files that were changed by
/// others are written again.
pub(super) fn worker_package(cache_dir: &Path) -> Result<PathBuf, Error> {
    let hash = package_hash();
    let folder = cache_dir.join(format!("worker-{}", hash.get(..16).unwrap_or(&hash)));
    let package = folder.join("delegate_doctor_worker");
    let unpack = || -> io::Result<()> {
        fs::create_dir_all(&package)?;
        for (name, bytes) in FILES {
            let path = package.join(name);
            if !fs::read(&path).is_ok_and(|present| present == bytes) {
                write_atomic(&path, bytes)?;
            }
        }
        Ok(())
    };
    unpack().map_err(|source| Error::Prepare { folder: folder.clone(), source })?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_python_file_is_carried_and_a_damaged_copy_is_replaced() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/delegate_doctor_worker");
        let mut present: Vec<String> = fs::read_dir(source)
            .expect("package folder")
            .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
            .filter(|name| name != "__pycache__")
            .collect();
        present.sort();
        assert_eq!(present, FILES.map(|(name, _)| name.to_owned()));

        let cache = tempfile::tempdir().expect("temporary folder");
        let folder = worker_package(cache.path()).expect("unpack");
        let file = folder.join("delegate_doctor_worker/serve.py");
        let good = fs::read(&file).expect("read");
        fs::write(&file, b"damaged").expect("damage");
        assert_eq!(worker_package(cache.path()).expect("unpack again"), folder);
        assert_eq!(fs::read(&file).expect("read"), good);
    }
}
