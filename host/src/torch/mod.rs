//! The Python worker: one long-lived child process that exports, lowers and runs programs in eager mode.
//!
//! In: an [`Environment`] (a Python with torch and executorch) and requests; out: plain answers of
//! [`protocol`], tensors by file. A worker serves one request at a time; several may run side by side.
//! Whatever happens in the child, an exception, a crash, endless work, a line of noise, is an [`Error`].

pub(crate) mod child;
pub mod environment;
mod error;
mod pool;
pub mod protocol;
mod variables;
mod worker;

pub use environment::Environment;
pub use error::Error;
pub use pool::WorkerPool;
pub use worker::{Worker, WorkerOptions};

/// Names the version of the worker's own code in cache keys.
pub fn worker_version() -> &'static str {
    static HASH: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    HASH.get_or_init(worker::package_hash)
}
