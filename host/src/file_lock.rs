//! Locks between processes: held while a file is open, given back when the process ends, however it ends.

use std::fs::TryLockError;
use std::io;
use std::path::Path;
use std::time::Duration;

use fs_err as fs;

use crate::{files, interrupt};

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits for as long as another process holds the lock; `waiting` is told once when there is one. The lock is
/// held until what comes back is dropped.
///
/// # Errors
/// When the file cannot be locked; of kind `Interrupted` when the user interrupts.
pub(crate) fn wait(path: &Path, waiting: &dyn Fn()) -> io::Result<fs::File> {
    let lock = files::open_lock(path)?;
    let mut told = false;
    loop {
        match lock.file().try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if interrupt::requested() => {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            Err(TryLockError::WouldBlock) => {}
        }
        if !told {
            waiting();
            told = true;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_after_the_other_and_who_waits_is_told_once() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("lock");
        let told = AtomicU32::new(0);
        let waiting = || {
            told.fetch_add(1, Ordering::SeqCst);
        };
        let first = wait(&path, &waiting).expect("free");
        assert_eq!(told.load(Ordering::SeqCst), 0);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| wait(&path, &waiting).map(drop));
            while told.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(!second.is_finished());
            drop(first);
            second.join().expect("no panic").expect("free again");
        });
        assert_eq!(told.load(Ordering::SeqCst), 1);
    }
}
