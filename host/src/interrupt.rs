//! The user's wish to stop, as a flag that every long loop and child wait looks at.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// True once the user pressed Ctrl-C or the process was asked to terminate.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Sets the flag; the signal handler of the binary calls it.
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}
