//! The engine that all rules share, and its wall-clock fuse.

use std::num::NonZeroUsize;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};

use wasmtime::{Config, Engine};

use super::limits::{EPOCH_TICK, WASM_STACK};

/// Stands for everything in `config` that changes compiled code or what a run costs; part of cache keys.
/// A change of the configuration changes this number.
pub const CONFIGURATION: &str = "1";

/// The same answers on every machine, an end to every call, and no feature that rules do not need.
///
/// Several memories stay allowed in the engine, whose own adapters use them; components that use them are
/// refused by [`super::component::inspect`].
fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_simd(false)
        .wasm_memory64(false)
        .wasm_tail_call(false)
        .wasm_custom_page_sizes(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        .max_wasm_stack(WASM_STACK);
    config
}

/// Makes the engine.
///
/// # Errors
/// When the host's processor or operating system lacks what the configuration needs.
pub(super) fn new() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

/// Advances the engine's epoch while it lives, so that calls that hang end.
pub(super) struct Fuse {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Fuse {
    pub(super) fn light(engine: &Engine) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let engine = engine.clone();
        let thread = thread::Builder::new().name("rule-fuse".to_owned()).spawn(move || {
            while stopped.recv_timeout(EPOCH_TICK) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
