//! Compiled rules on disk, and what is known of rules without running them.
//!
//! A folder that only this user can enter. Its files carry a tag (HMAC-SHA256) over their own name and content,
//! with a key that is made with the folder and never leaves it: a file that this folder did not write, be it
//! damaged, renamed, or another machine's, does not exist. Nothing here ever comes from a registry.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::files::{read_regular, write_atomic};

/// Bytes of a tag.
const TAG: usize = 32;
/// Bytes of the key: a block of the hash function.
const KEY_BYTES: usize = 64;
/// Name of the file with the key.
const KEY: &str = "key";
/// Endings of the files that this folder holds.
const ENDINGS: [&str; 4] = ["about", "code", "sha256", "verdicts"];

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// what a rule says it is
    About,
    /// machine code
    Code,
}

impl Kind {
    fn ending(self) -> &'static str {
        match self {
            Self::About => "about",
            Self::Code => "code",
        }
    }

    /// Bytes that are read at most.
    fn most(self) -> u64 {
        match self {
            Self::About => 4 << 20,
            Self::Code => 1 << 30,
        }
    }
}

/// Where compiled rules are kept; without a folder nothing is kept.
#[derive(Clone)]
pub(super) struct CompiledCache {
    place: Option<(PathBuf, [u8; KEY_BYTES])>,
}

impl CompiledCache {
    /// Opens the folder, making it when needed. A folder that others can write is emptied first: what
    /// lies in it may not be ours.
    pub(super) fn open(folder: Option<&Path>) -> io::Result<Self> {
        let Some(folder) = folder else { return Ok(Self { place: None }) };
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
                if path.file_name().is_some_and(|name| name == KEY)
                    || path.extension().is_some_and(|kind| ENDINGS.iter().any(|ending| kind == *ending))
                {
                    fs::remove_file(path)?;
                }
            }
        }
        let key = key(&folder.join(KEY))?;
        Ok(Self { place: Some((folder.to_owned(), key)) })
    }

    /// The folder, open to this user only.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.place.as_ref().map(|(folder, _)| folder.as_path())
    }

    /// What is stored under a name, when this folder wrote it and it is whole.
    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<Vec<u8>> {
        let (folder, key) = self.place.as_ref()?;
        let mut bytes = read_regular(&file(folder, kind, name), kind.most()).ok()?;
        let (content, tag) = bytes.split_last_chunk::<TAG>()?;
        tagger(key, kind, name, content).verify_slice(tag).ok()?;
        bytes.truncate(bytes.len() - TAG);
        Some(bytes)
    }

    /// Stores something; a cache that cannot be written is only slower.
    pub(super) fn put(&self, kind: Kind, name: &str, content: &[u8]) {
        if let Some((folder, key)) = &self.place {
            let tag = tagger(key, kind, name, content).finalize().into_bytes();
            let path = file(folder, kind, name);
            if write_atomic(&path, &[content, tag.as_slice()].concat()).is_err() {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn file(folder: &Path, kind: Kind, name: &str) -> PathBuf {
    folder.join(format!("{name}.{}", kind.ending()))
}

fn tagger(key: &[u8; KEY_BYTES], kind: Kind, name: &str, content: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new(key.into());
    // No ending and no name holds a zero byte.
    for part in [kind.ending().as_bytes(), b"\0", name.as_bytes(), b"\0", content] {
        mac.update(part);
    }
    mac
}

/// The key of a folder, made when there is none or it is damaged.
fn key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let read = || -> Option<[u8; KEY_BYTES]> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let ours = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
        (ours && metadata.mode() & 0o077 == 0)
            .then(|| read_regular(path, KEY_BYTES as u64).ok()?.try_into().ok())
            .flatten()
    };
    if let Some(key) = read() {
        return Ok(key);
    }
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|error| io::Error::other(format!("no random bytes: {error}")))?;
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let file = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
    fs::write(file.path(), key)?;
    // Of two processes that make a key at once the first one wins.
    match file.persist_noclobber(path) {
        Ok(_) => Ok(key),
        Err(_) => match read() {
            Some(key) => Ok(key),
            None => write_atomic(path, &key).map(|()| key),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_folder_did_not_write_is_not_handed_out() {
        let scratch = tempfile::tempdir().expect("temporary folder");
        let (here, there) = (scratch.path().join("here"), scratch.path().join("there"));
        let cache = CompiledCache::open(Some(&here)).expect("open");
        cache.put(Kind::Code, "a", b"code");
        let again = CompiledCache::open(Some(&here)).expect("open again");
        assert_eq!(again.get(Kind::Code, "a").as_deref(), Some(b"code".as_slice()), "the key stays");
        assert_eq!(cache.get(Kind::Code, "b"), None);

        let whole = fs::read(here.join("a.code")).expect("read");
        let none = |what: &str| assert_eq!(cache.get(Kind::Code, "a"), None, "{what}");
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            fs::write(here.join("a.code"), changed).expect("write");
            none("a changed byte");
            fs::write(here.join("a.code"), &whole[..place]).expect("write");
            none("cut short");
        }
        for (name, kind) in [("b.code", "code"), ("a.about", "about")] {
            fs::write(here.join(name), &whole).expect("write");
            let kind = if kind == "code" { Kind::Code } else { Kind::About };
            assert_eq!(cache.get(kind, name.split('.').next().expect("name")), None, "under another name");
        }
        CompiledCache::open(Some(&there)).expect("open").put(Kind::Code, "a", b"foreign");
        fs::copy(there.join("a.code"), here.join("a.code")).expect("copy");
        none("of another folder");
        fs::write(here.join("a.code"), &whole).expect("write");
        assert!(cache.get(Kind::Code, "a").is_some());
        // Without its key the folder is as good as empty.
        for damage in [b"short".as_slice(), &[0; 65]] {
            fs::write(here.join(KEY), damage).expect("write");
            let other = CompiledCache::open(Some(&here)).expect("open");
            assert_eq!(other.get(Kind::Code, "a"), None);
            assert_eq!(fs::read(here.join(KEY)).expect("a new key").len(), KEY_BYTES);
        }
    }

    #[test]
    fn processes_that_begin_at_once_have_one_key() {
        let scratch = tempfile::tempdir().expect("temporary folder");
        let folder = scratch.path().join("rules");
        let open = || CompiledCache::open(Some(&folder)).expect("open").place.expect("a folder").1;
        let keys: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[test]
    fn a_folder_that_others_can_write_is_emptied_and_closed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("rules");
        CompiledCache::open(Some(&path)).expect("open").put(Kind::Code, "a", b"code");
        assert_eq!(fs::metadata(&path).expect("metadata").mode() & 0o777, 0o700);
        fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("open up");
        let cache = CompiledCache::open(Some(&path)).expect("open again");
        assert_eq!(cache.get(Kind::Code, "a"), None);
        assert_eq!(fs::metadata(&path).expect("metadata").mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(&path, folder.path().join("link")).expect("link");
        assert!(CompiledCache::open(Some(&folder.path().join("link"))).is_err(), "a link is no folder of ours");
    }
}
