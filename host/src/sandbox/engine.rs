//! The engines that rules run in, and their wall-clock fuse.

use std::num::NonZeroUsize;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use wasmtime::component::Component;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::trusted_code;

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

/// Makes an engine that maps fresh memory for every instance, however large.
///
/// # Errors
/// When the host's processor or operating system lacks what the configuration needs.
pub(super) fn mapping() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

/// Makes an engine whose instances take turns in one slot of memory, which is as new for each. To map and to
/// unmap memory takes longer than most calls.
fn with_slot() -> wasmtime::Result<Engine> {
    let mut slot = PoolingAllocationConfig::new();
    slot.total_component_instances(1)
        .total_core_instances(16)
        .total_memories(2)
        .total_tables(4)
        .max_core_instances_per_component(16)
        .max_memories_per_component(2)
        .max_tables_per_component(4)
        // Memory goes back to the kernel after every call, which gives it out as zeros; only tables, which hold
        // no data of rules, are cleared in place.
        .linear_memory_keep_resident(0)
        .table_keep_resident(16 << 10);
    Engine::new(config().allocation_strategy(InstanceAllocationStrategy::Pooling(slot)))
}

/// The engines of a sandbox. They run the same code under the same limits; where an instance's memory comes from
/// is all that differs.
#[derive(Clone)]
pub(super) struct Engines {
    /// runs what fits into its slot; where no address space can be reserved, the engine that maps
    first: Engine,
    /// runs what does not fit, made when there is such a rule
    mapping: Arc<OnceLock<Engine>>,
    /// who may use the slot
    turn: Arc<Mutex<()>>,
}

impl Engines {
    /// Makes the first engine.
    ///
    /// # Errors
    /// As [`mapping`].
    pub(super) fn new() -> wasmtime::Result<Self> {
        let first = with_slot().or_else(|_| mapping())?;
        Ok(Self { first, mapping: Arc::default(), turn: Arc::default() })
    }

    /// Makes code callable, in the first engine that has room for its instances.
    ///
    /// # Errors
    /// When the code is not of this engine's version and configuration.
    pub(super) fn load(&self, code: &[u8]) -> wasmtime::Result<Component> {
        trusted_code::load(&self.first, code).or_else(|_| {
            let engine = match self.mapping.get() {
                Some(engine) => engine,
                None => {
                    let made = mapping()?;
                    self.mapping.get_or_init(|| made)
                }
            };
            trusted_code::load(engine, code)
        })
    }

    /// Waits until no other thread runs a rule of this sandbox.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        // The slot is given back by whoever unwinds.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stands for the engine's version and everything in its configuration that changes code.
    pub(super) fn compatibility(&self) -> impl std::hash::Hash {
        self.first.precompile_compatibility_hash()
    }

    fn increment_epoch(&self) {
        self.first.increment_epoch();
        if let Some(mapping) = self.mapping.get() {
            mapping.increment_epoch();
        }
    }
}

/// Advances the engines' epoch while it lives, so that calls that hang end.
pub(super) struct Fuse {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Fuse {
    pub(super) fn light(engines: &Engines) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let engines = engines.clone();
        let thread = thread::Builder::new().name("rule-fuse".to_owned()).spawn(move || {
            while stopped.recv_timeout(EPOCH_TICK) == Err(RecvTimeoutError::Timeout) {
                engines.increment_epoch();
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
