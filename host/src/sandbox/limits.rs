//! How much a rule may take, of everything.

use std::time::Duration;

/// Every limit of the sandbox. [`Limits::standard`] suits compiled languages, [`Limits::script`] rules that
/// bring an interpreter along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// bytes of a component
    pub component_bytes: usize,
    /// functions over all core modules
    pub functions: usize,
    /// bytes of one function body
    pub body_bytes: usize,
    /// locals of one function
    pub locals: u32,
    /// parameters and results of one function type
    pub type_values: usize,
    /// function types over all core modules
    pub types: usize,
    /// core modules in a component
    pub core_modules: usize,
    /// address space of the compiling process
    pub compile_address_space: u64,
    /// processor time of the compiling process
    pub compile_cpu: Duration,
    /// wall-clock time of the compiling process
    pub compile_wall: Duration,
    /// bytes of the code that comes of compiling
    pub code_bytes: u64,
    /// bytes of linear memory, summed over the memories of an instance
    pub memory_bytes: usize,
    /// core instances
    pub instances: usize,
    /// linear memories
    pub memories: usize,
    /// tables
    pub tables: usize,
    /// elements of one table
    pub table_elements: usize,
    /// fuel of one call
    pub fuel: u64,
    /// fuel of all calls for one graph
    pub fuel_per_graph: u64,
    /// wall-clock time of one call, kept by an epoch of [`EPOCH_TICK`]
    pub call_time: Duration,
    /// bytes copied out of the guest in one call
    pub lifted_bytes: usize,
    /// resource handles
    pub handles: usize,
    /// caps on what is copied out
    pub answer: AnswerLimits,
}

/// Caps on manifests and verdicts, checked after they have been copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerLimits {
    /// edits of a rewrite
    pub edits: usize,
    /// inserts of a rewrite
    pub inserts: usize,
    /// arguments of an insert
    pub inputs: usize,
    /// dimensions of an expected tensor
    pub rank: usize,
    /// entries of any other list
    pub list: usize,
    /// anchors of a manifest, and ops of an anchor
    pub anchors: usize,
    /// reason codes of a manifest
    pub codes: usize,
    /// bytes of an op's name
    pub op: usize,
    /// bytes of an id or a reason code
    pub code: usize,
    /// bytes of a message
    pub message: usize,
    /// bytes of any other text
    pub text: usize,
    /// bytes of a verdict in all, roughly as the host keeps it until the last site is answered
    pub verdict: usize,
}

/// How often the wall-clock fuse looks.
pub const EPOCH_TICK: Duration = Duration::from_millis(10);
/// Stack of the guest, in bytes.
pub const WASM_STACK: usize = 512 << 10;
/// Stack of the thread that runs guests, in bytes.
pub const THREAD_STACK: usize = 4 << 20;

impl Limits {
    /// For rules written in a compiled language.
    pub const fn standard() -> Self {
        Self {
            component_bytes: 2 << 20,
            functions: 5_000,
            body_bytes: 128 << 10,
            locals: 1_000,
            type_values: 64,
            types: 5_000,
            core_modules: 16,
            compile_address_space: 2 << 30,
            compile_cpu: Duration::from_secs(20),
            compile_wall: Duration::from_secs(60),
            code_bytes: 64 << 20,
            memory_bytes: 64 << 20,
            instances: 64,
            memories: 8,
            tables: 64,
            table_elements: 20_000,
            fuel: 100_000_000,
            fuel_per_graph: 15_000_000_000,
            call_time: Duration::from_secs(2),
            lifted_bytes: 1 << 20,
            handles: 16,
            answer: AnswerLimits::standard(),
        }
    }

    /// For rules that bring an interpreter along.
    pub const fn script() -> Self {
        Self {
            component_bytes: 32 << 20,
            functions: 20_000,
            body_bytes: 512 << 10,
            types: 20_000,
            core_modules: 64,
            // An interpreter of 19 MB takes 13 s where nothing else runs, and five times as long in a build
            // without optimisation.
            compile_cpu: Duration::from_secs(180),
            compile_wall: Duration::from_secs(600),
            code_bytes: 128 << 20,
            ..Self::standard()
        }
    }

    /// Ticks of the fuse that make up [`Limits::call_time`]; one more, as the first may come at once.
    pub(super) fn epoch_ticks(&self) -> u64 {
        let ticks = self.call_time.as_millis().div_ceil(EPOCH_TICK.as_millis());
        u64::try_from(ticks).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::standard()
    }
}

impl AnswerLimits {
    /// The limits of every tier.
    pub const fn standard() -> Self {
        Self {
            edits: 256,
            inserts: 64,
            inputs: 64,
            rank: 16,
            list: 4_096,
            anchors: 64,
            codes: 256,
            op: 128,
            code: 64,
            message: 1_024,
            text: 4_096,
            verdict: 64 << 10,
        }
    }
}
