//! Compiled rules on disk.
//!
//! A folder that only this user can enter; a file `<key>.code` for each compiled rule and beside it
//! `<key>.sha256`. A file whose hash differs from the noted one does not exist.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::files::{sha256_hex, write_atomic};

/// Where compiled rules are kept; without a folder nothing is kept.
#[derive(Clone, Debug)]
pub(super) struct CompiledCache {
    folder: Option<PathBuf>,
}

impl CompiledCache {
    /// Opens the folder, making it when needed. A folder that others can write is emptied first: what
    /// lies in it may not be ours.
    pub(super) fn open(folder: Option<&Path>) -> io::Result<Self> {
        let Some(folder) = folder else { return Ok(Self { folder: None }) };
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent)?;
        }
        match std::fs::DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("failed to make `{}`: {error}", folder.display())));
            }
        }
        let metadata = fs::symlink_metadata(folder)?;
        let refused =
            |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("`{}` {why}", folder.display())));
        if !metadata.is_dir() {
            return refused("is not a folder");
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return refused("belongs to another user");
        }
        if metadata.mode() & 0o022 != 0 {
            fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.extension().is_some_and(|kind| kind == "code" || kind == "sha256" || kind == "verdicts") {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(Self { folder: Some(folder.to_owned()) })
    }

    /// The folder, open to this user only.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Code stored under this key, when it is whole.
    pub(super) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let folder = self.folder.as_ref()?;
        let noted = fs::read_to_string(folder.join(format!("{key}.sha256"))).ok()?;
        let code = fs::read(folder.join(format!("{key}.code"))).ok()?;
        (sha256_hex(&code) == noted.trim()).then_some(code)
    }

    /// Stores code; a cache that cannot be written is only slower.
    pub(super) fn put(&self, key: &str, code: &[u8]) {
        if let Some(folder) = &self.folder {
            let stored = write_atomic(&folder.join(format!("{key}.code")), code)
                .and_then(|()| write_atomic(&folder.join(format!("{key}.sha256")), sha256_hex(code).as_bytes()));
            if stored.is_err() {
                let _ = fs::remove_file(folder.join(format!("{key}.code")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_code_is_not_handed_out() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let cache = CompiledCache::open(Some(&folder.path().join("rules"))).expect("open");
        cache.put("key", b"code");
        assert_eq!(cache.get("key").as_deref(), Some(b"code".as_slice()));
        std::fs::OpenOptions::new()
            .write(true)
            .open(folder.path().join("rules/key.code"))
            .and_then(|mut file| io::Write::write_all(&mut file, b"CODE"))
            .expect("tamper");
        assert_eq!(cache.get("key"), None);
        assert_eq!(cache.get("other"), None);
    }

    #[test]
    fn a_folder_that_others_can_write_is_emptied_and_closed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("rules");
        CompiledCache::open(Some(&path)).expect("open").put("key", b"code");
        assert_eq!(fs::metadata(&path).expect("metadata").mode() & 0o777, 0o700);
        fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("open up");
        let cache = CompiledCache::open(Some(&path)).expect("open again");
        assert_eq!(cache.get("key"), None);
        assert_eq!(fs::metadata(&path).expect("metadata").mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(&path, folder.path().join("link")).expect("link");
        assert!(CompiledCache::open(Some(&folder.path().join("link"))).is_err(), "a link is no folder of ours");
    }
}
