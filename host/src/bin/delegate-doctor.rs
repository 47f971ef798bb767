//! The command `delegate-doctor`.

use std::process::ExitCode;

/// Programs and patches are many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    delegate_doctor::cli::main()
}
