//! Files that are either wholly there or not at all.

use std::io::{self, Read as _, Write};
use std::path::Path;

use fs_err as fs;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// How files are called while they are written.
pub const UNFINISHED: &str = ".writing-";

/// Replaces `path` with `bytes` in one step: a reader sees the old content or the new, also after a
/// crash or on a full disk. The folder must exist.
///
/// # Errors
/// Whatever the file system says; the old content is then untouched.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomic_with(path, |file| file.write_all(bytes).map_err(|error| named(path, &error)))
}

/// As [`write_atomic`], for content that is written piece by piece.
///
/// # Errors
/// What `content` returns, or whatever the file system says; the old content is then untouched.
pub fn write_atomic_with<E: From<io::Error>>(
    path: &Path,
    content: impl FnOnce(&mut std::fs::File) -> Result<(), E>,
) -> Result<(), E> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let named = |error: io::Error| named(path, &error);
    let mut temporary = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder).map_err(named)?;
    content(temporary.as_file_mut())?;
    temporary.as_file().sync_all().map_err(named)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        temporary.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(named)?;
    }
    temporary.persist(path).map_err(|error| named(error.error))?;
    if let Ok(folder) = fs::File::open(folder) {
        // Some file systems refuse to sync a folder; the rename itself has happened.
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Removes what killed processes left of files that they were writing into `folder`: those that nobody has touched
/// for `age`. What cannot be removed stays until the next time.
pub fn sweep_unfinished(folder: &Path, age: std::time::Duration) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let unfinished = entry.file_name().to_str().is_some_and(|name| name.starts_with(UNFINISHED));
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        if unfinished && modified.is_ok_and(|time| time.elapsed().unwrap_or_default() >= age) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("failed to write `{}`: {error}", path.display()))
}

/// As [`write_atomic`], for what can be got again: after a crash of the machine it may be there with other content, so
/// its readers check it.
///
/// # Errors
/// Whatever the file system says; the old content is then untouched.
pub fn write_for_cache(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let named = |error: io::Error| named(path, &error);
    let mut temporary = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder).map_err(named)?;
    temporary.write_all(bytes).map_err(named)?;
    temporary.persist(path).map(drop).map_err(|error| named(error.error))
}

/// Writes `value` as indented JSON with a final newline, atomically.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    write_atomic(path, &bytes)
}

/// Reads a regular file that holds at most so many bytes. Pipes and devices, which may never end, are refused.
///
/// # Errors
/// When it is no regular file, holds more, or cannot be read.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let found = file.metadata()?.len();
    if found > most {
        return Err(io::Error::other(format!("`{}` has {found} bytes, and {most} are allowed", path.display())));
    }
    // The file may grow while it is read.
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Bytes of a text file that people write by hand.
const MOST_TEXT: u64 = 16 << 20;

/// Reads a text file that somebody wrote by hand: regular, of at most 16 MiB, UTF-8.
///
/// # Errors
/// When it is none of that, or cannot be read; of kind `NotFound` when it does not exist.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_regular(path, MOST_TEXT)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("`{}` is not UTF-8 from byte {at} on", path.display()))
    })
}

/// Opens a regular file to read it. A pipe does not keep the caller waiting, a device is not read.
///
/// # Errors
/// When it is no regular file, or cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<fs::File> {
    opened(path, std::fs::OpenOptions::new().read(true))
}

/// Opens the file that a lock is taken on, and makes it when there is none; its content is left alone.
///
/// # Errors
/// When it is no regular file, or cannot be opened.
pub fn open_lock(path: &Path) -> io::Result<fs::File> {
    // For reading as well: a pipe that is only written to is refused by the system in words about devices.
    opened(path, std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

fn opened(path: &Path, options: &mut std::fs::OpenOptions) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = options.custom_flags(nonblocking).open(path);
    let file =
        file.map_err(|error| io::Error::new(error.kind(), format!("failed to open `{}`: {error}", path.display())))?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, format!("`{}` is a folder", path.display())));
    }
    if !kind.is_file() {
        return Err(io::Error::other(format!("`{}` is no regular file", path.display())));
    }
    Ok(fs::File::from_parts(file, path))
}

/// SHA-256 of a file as lower-case hex, read in pieces.
///
/// # Errors
/// When the file cannot be read.
pub fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 20];
    loop {
        let read = io::Read::read(&mut file, &mut buffer)?;
        if read == 0 {
            return Ok(hex::encode(hasher.finalize()));
        }
        hasher.update(&buffer[..read]);
    }
}

/// SHA-256 of bytes as lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x");
        write_atomic(&path, b"1234").expect("write");
        assert_eq!(read_regular(&path, 4).expect("fits"), b"1234");
        assert!(read_regular(&path, 3).expect_err("too large").to_string().contains("has 4 bytes, and 3 are allowed"));
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).expect("pipe");
        for endless in [Path::new("/dev/zero"), &pipe] {
            assert!(open_lock(endless).expect_err("no lock").to_string().contains("is no regular file"));
            assert!(read_text(endless).expect_err("endless").to_string().contains("is no regular file"));
        }
        assert_eq!(read_text(folder.path()).expect_err("a folder").kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read_text(&folder.path().join("y")).expect_err("nothing").kind(), io::ErrorKind::NotFound);
        write_atomic(&path, b"ab\xffcd").expect("write");
        assert!(read_text(&path).expect_err("no text").to_string().ends_with("is not UTF-8 from byte 2 on"));
    }

    #[test]
    fn a_failed_write_leaves_the_old_content() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("report.json");
        write_atomic(&path, b"old").expect("first write");
        assert!(write_atomic(&folder.path().join("missing/report.json"), b"new").is_err());
        write_atomic(&path, b"new").expect("second write");
        assert_eq!(fs_err::read(&path).expect("read"), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).expect("list").count(), 1, "no temporary file stays");
    }
}
