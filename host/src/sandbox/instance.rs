//! One call into a rule: a fresh store and instance, every limit set, the failure told apart.

use wasmtime::component::{ComponentExportIndex, ComponentNamedList, InstancePre, Lift, Lower};
use wasmtime::{ResourceLimiter, Store, Trap, WasmBacktrace};

use super::Limits;
use super::error::Class;

/// What a store holds: the counters behind the limits.
pub(super) struct Meter {
    memory: usize,
    most_memory: usize,
    most_elements: usize,
    instances: usize,
    tables: usize,
    memories: usize,
    denied: Option<String>,
}

impl Meter {
    fn new(limits: &Limits) -> Self {
        Self {
            memory: 0,
            most_memory: limits.memory_bytes,
            most_elements: limits.table_elements,
            instances: limits.instances,
            tables: limits.tables,
            memories: limits.memories,
            denied: None,
        }
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        // The engine asks memory by memory; the limit is on their sum.
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        if total > self.most_memory {
            self.denied =
                Some(format!("{} MiB of memory, and {} are allowed", total.div_ceil(1 << 20), self.most_memory >> 20));
            return Ok(false);
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.most_elements {
            self.denied = Some(format!("a table of {desired} elements, and {} are allowed", self.most_elements));
            return Ok(false);
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.tables
    }

    fn memories(&self) -> usize {
        self.memories
    }
}

/// A class and what happened.
pub(super) type Failure = (Class, String);

/// Calls one export in a fresh instance and drops everything afterwards. The answer comes with the fuel
/// that the call used.
///
/// The caller keeps a [`super::engine::Fuse`] alight and runs on a thread with room for the guest's stack.
pub(super) fn call<P, R>(
    rule: &InstancePre<Meter>,
    export: &ComponentExportIndex,
    parameters: P,
    limits: &Limits,
) -> Result<(R, u64), Failure>
where
    P: ComponentNamedList + Lower + Send + Sync,
    R: ComponentNamedList + Lift + Send + Sync + 'static,
{
    let mut store = Store::new(rule.engine(), Meter::new(limits));
    store.limiter(|meter| meter);
    store.set_fuel(limits.fuel).map_err(|error| (Class::Host, error.to_string()))?;
    store.set_epoch_deadline(limits.epoch_ticks());
    store.set_hostcall_fuel(limits.lifted_bytes);
    store.set_max_component_handles(limits.handles);

    let outcome = rule
        .instantiate(&mut store)
        .map_err(|error| (Stage::Instantiate, error))
        .and_then(|instance| instance.get_typed_func::<P, R>(&mut store, export).map_err(|error| (Stage::Types, error)))
        .and_then(|function| function.call(&mut store, parameters).map_err(|error| (Stage::Call, error)));
    match outcome {
        Ok(answer) => {
            let used = limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0));
            Ok((answer, used))
        }
        Err((stage, error)) => Err(classify(stage, &error, store.data(), limits)),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Instantiate,
    Types,
    Call,
}

fn classify(stage: Stage, error: &wasmtime::Error, meter: &Meter, limits: &Limits) -> Failure {
    let place = error
        .downcast_ref::<WasmBacktrace>()
        .and_then(|trace| trace.frames().iter().find_map(|frame| frame.func_name()))
        .map(|name| format!(" in `{name}`"))
        .unwrap_or_default();
    let Some(trap) = error.downcast_ref::<Trap>() else {
        let text = format!("{error:#}");
        if let Some(denied) = &meter.denied {
            return (Class::Memory, format!("it wanted {denied}"));
        }
        return match stage {
            _ if text.contains("fuel allocated for hostcalls") => {
                (Class::TooMuchOutput, format!("it gave back more than {} bytes", limits.lifted_bytes))
            }
            Stage::Instantiate if text.contains("resource limit exceeded") => (Class::Memory, text),
            Stage::Instantiate => (Class::Load, format!("it cannot be started: {text}")),
            Stage::Types => (Class::ContractVersion, format!("its functions differ from the contract's: {text}")),
            Stage::Call => (Class::BadOutput, format!("its answer cannot be read: {text}")),
        };
    };
    match trap {
        Trap::OutOfFuel => (Class::OutOfFuel, format!("it used all its fuel ({} units){place}", limits.fuel)),
        Trap::Interrupt => (Class::Time, format!("it ran for more than {} s{place}", limits.call_time.as_secs_f64())),
        Trap::StackOverflow => (Class::Stack, format!("it used up its stack{place}")),
        Trap::StringOutOfBounds
        | Trap::ListOutOfBounds
        | Trap::InvalidDiscriminant
        | Trap::InvalidChar
        | Trap::UnalignedPointer => (Class::BadOutput, format!("its answer cannot be read: {trap}{place}")),
        // A language's run time aborts when it gets no memory; the abort itself says nothing.
        _ if meter.denied.is_some() => {
            (Class::Memory, format!("it wanted {}", meter.denied.as_deref().unwrap_or_default()))
        }
        _ => (Class::Trap, format!("it crashed: {trap}{place}")),
    }
}
