//! The short name of `delegate-doctor`, which gives way to the system's disk copier when that is meant.

use std::process::ExitCode;

/// Programs and patches are many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    delegate_doctor::cli::main()
}
