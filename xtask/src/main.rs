//! Chores of this repository: `cargo xtask <chore>`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its user")]

mod rules;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of this repository
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Build the rules into components and put them into `registry/`
    Rules {
        /// Compare with what `registry/` holds instead of writing
        #[arg(long)]
        check: bool,
        /// Also build the rules under `tests/rules/`, into `target/test-rules/`
        #[arg(long)]
        test_rules: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Rules { check, test_rules } => rules::command(check, test_rules),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
