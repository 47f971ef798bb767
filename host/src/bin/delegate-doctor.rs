//! The command `delegate-doctor`.

use std::process::ExitCode;

fn main() -> ExitCode {
    delegate_doctor::cli::main()
}
