//! `targets`: where programs can run, and what can be concluded there.

use std::path::PathBuf;

use crate::target::selector::Selector;

/// Where programs run, for every command that runs some.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TargetArguments {
    /// Where to run the programs: `local`, `qemu[:CPU]`, `adb[:SERIAL]`, `ssh:HOST` [default: local]
    #[arg(long, value_name = "TARGET", help_heading = "Target")]
    pub(super) target: Option<Selector>,
    /// Use a runner of your own on the device: an executable for it, or a folder with `runner` and its libraries
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    pub(super) runner: Option<PathBuf>,
    /// Threads of the measured programs [default: the cores of the target, at most 4]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Target")]
    pub(super) threads: Option<u32>,
}
