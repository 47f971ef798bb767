//! The short name of `delegate-doctor`, which gives way to the system's disk copier when that is meant.

use std::process::ExitCode;

fn main() -> ExitCode {
    delegate_doctor::cli::main()
}
