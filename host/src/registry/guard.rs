//! One process at a time: a lock that ends with its process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;

use crate::{files, interrupt};

/// How long another process is waited for.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A lock that is held until this is dropped, also when the process is killed.
#[derive(Debug)]
pub(super) struct Guard {
    // Closing the file gives the lock back.
    _file: File,
    /// a lock file for file systems without locks; it is removed at the end
    own: Option<PathBuf>,
}

impl Guard {
    /// Waits until nobody else holds the lock of `folder`, which is made when it is missing.
    ///
    /// # Errors
    /// When the file system refuses, another process holds it for two minutes, or the user interrupts.
    pub(super) fn wait(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(".lock");
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("failed to lock `{}`: {error}", path.display()));
        let file = files::open_lock(&path)?.into_file();
        let begun = Instant::now();
        let own = folder.join(".lock-held");
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file, own: None }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    // A network file system without locks: a file that only one process can make.
                    match OpenOptions::new().create_new(true).write(true).open(&own) {
                        Ok(_) => return Ok(Self { _file: file, own: Some(own) }),
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        Err(error) => return Err(named(error)),
                    }
                }
                Err(TryLockError::Error(error)) => return Err(named(error)),
            }
            if interrupt::requested() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            if begun.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                let text = format!("another process has held `{}` for {seconds} seconds", path.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            // Left behind, it keeps others out until somebody removes it, and the message names it.
            let _ = fs::remove_file(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one_and_given_back() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let place = folder.path().join("deep/state");
        let counter = folder.path().join("counter");
        fs::write(&counter, "0").expect("counter");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let _guard = Guard::wait(&place).expect("lock");
                        let count: u32 = fs::read_to_string(&counter).expect("read").parse().expect("number");
                        fs::write(&counter, (count + 1).to_string()).expect("write");
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(&counter).expect("read"), "80", "nobody was in between");
    }
}
