//! Chores of this repository: `cargo xtask <chore>`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its user")]

mod bench_engine;
mod bench_languages;
mod bench_models;
mod bench_overhead;
mod bench_profiles;
mod bench_registry;
mod bench_repeat;
mod bench_statistics;
mod c_bindings;
mod docs;
mod fuzz;
mod registry;
mod rules;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use delegate_doctor::sandbox::compile;

/// What is measured allocates as the binaries do.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Chores of this repository
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything a change must pass; installs what a fresh machine lacks
    Test,
    /// Write the generated pages of `docs/`
    Docs {
        /// Compare instead of writing
        #[arg(long)]
        check: bool,
    },
    /// Run the fuzz targets with coverage, each for a while
    Fuzz {
        /// Only this one
        target: Option<String>,
        /// How long each runs
        #[arg(long, default_value_t = 30)]
        seconds: u32,
        /// The run that a change must pass: the same inputs each time
        #[arg(long, conflicts_with = "seconds")]
        short: bool,
    },
    /// Measure
    #[command(subcommand)]
    Bench(Bench),
    /// Write the bindings of the contract for rules in C
    CBindings {
        /// Compare instead of writing
        #[arg(long)]
        check: bool,
    },
    /// Publish the rules, as they are built and proven, in `registry/`: the same as `rules`
    Registry,
    /// Build the rules into components and publish them in `registry/`
    Rules {
        /// Compare with what `registry/` holds instead of writing
        #[arg(long)]
        check: bool,
        /// Also build the rules under `tests/rules/`, into `target/test-rules/`
        #[arg(long)]
        test_rules: bool,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// Real models through the real tool; writes `docs/results.md`
    Models {
        /// Only these
        names: Vec<String>,
        /// Write the table from the reports of earlier runs
        #[arg(long)]
        table_only: bool,
    },
    /// What matching, the sandbox and rewriting cost; writes `docs/engine.md`
    Engine {
        /// Only rounds over a made-up graph of this many nodes; prints, and writes nothing
        #[arg(long)]
        nodes: Option<usize>,
    },
    /// The rules under `rules/examples/`; writes their READMEs
    Languages,
    /// What the tool costs beside export, lowering and runs
    Overhead,
    /// One model again and again, and whether it is decided the same way; writes `docs/repeated.md`
    Repeat {
        /// A model of `bench/models/`
        model: String,
        /// How many runs
        #[arg(long, default_value_t = 20)]
        times: u32,
    },
    /// Real programs through `profile`, and the kernels that were seen; writes `docs/profiles.md`
    Profiles,
    /// The benchmark gate on simulated devices, beside other rules; writes `docs/measurement.md`
    Statistics,
    /// What registries of several sizes cost their users; writes `docs/registry-costs.md`
    Registry {
        /// Serve this folder instead, as the measured registries are served
        #[arg(long, hide = true)]
        serve: Option<std::path::PathBuf>,
    },
}

impl Chore {
    /// True for what measures code of this very program: only its release build can.
    fn measures_itself(&self) -> bool {
        matches!(
            self,
            Self::Bench(Bench::Engine { .. } | Bench::Languages | Bench::Statistics | Bench::Registry { .. })
        )
    }
}

fn main() -> ExitCode {
    // The sandbox starts this program again to compile a rule under limits.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == compile::SUBCOMMAND) {
        return compile::child_main();
    }
    if let Some(code) = fuzz::as_compiler() {
        return code;
    }
    let chore = Arguments::parse().chore;
    if cfg!(debug_assertions) && chore.measures_itself() {
        // Figures of a build without optimisation say nothing, and the simulations take an hour.
        let again = workspace::run(
            workspace::cargo()
                .args(["run", "--locked", "--release", "--quiet", "--package", "xtask", "--"])
                .args(std::env::args_os().skip(1)),
        );
        return again.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let outcome: Result<(), Box<dyn std::error::Error>> = match chore {
        Chore::Rules { check, test_rules } => rules::command(check, test_rules),
        Chore::Registry => rules::command(false, false),
        Chore::Test => test::test().map_err(Into::into),
        Chore::Fuzz { target, seconds, short } => {
            let length = if short { fuzz::SHORT } else { fuzz::Length::Seconds(seconds) };
            fuzz::fuzz(length, target.as_deref()).map_err(Into::into)
        }
        Chore::Docs { check } => docs::docs(check).map_err(Into::into),
        Chore::Bench(Bench::Models { names, table_only }) => {
            bench_models::bench(&names, table_only).map_err(Into::into)
        }
        Chore::Bench(Bench::Engine { nodes: None }) => bench_engine::bench().map_err(Into::into),
        Chore::Bench(Bench::Engine { nodes: Some(nodes) }) => bench_engine::rounds_of(nodes).map_err(Into::into),
        Chore::CBindings { check } => c_bindings::c_bindings(check).map_err(Into::into),
        Chore::Bench(Bench::Languages) => bench_languages::bench().map_err(Into::into),
        Chore::Bench(Bench::Repeat { model, times }) => bench_repeat::bench(&model, times).map_err(Into::into),
        Chore::Bench(Bench::Profiles) => bench_profiles::bench().map_err(Into::into),
        Chore::Bench(Bench::Statistics) => bench_statistics::bench().map_err(Into::into),
        Chore::Bench(Bench::Registry { serve }) => bench_registry::bench(serve.as_deref()),
        Chore::Bench(Bench::Overhead) => bench_overhead::bench().map_err(Into::into),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
