//! The Python worker: one long-lived child process that exports, lowers and runs programs in eager mode.

pub mod protocol;
