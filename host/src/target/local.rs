//! This host as a target: the native runner as a child process.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use fs_err as fs;

use super::device::facts::{DeviceFacts, of_this_host};
use super::runner_build::{self, Runner, Sdk};
use super::runner_process::{self, Hello};
use super::{Error, RunOutcome, RunRequest, Target, child};
use crate::evidence::TargetLabel;
use crate::progress::Progress;
use crate::torch::environment::Environment;

/// More threads than this slow small models down and are not what a phone has to offer.
const MAX_DEFAULT_THREADS: u32 = 4;
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Variables that the runner may need to find its libraries. It gets nothing else: what is in the
/// environment must not change what is measured.
const KEPT_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "GLIBC_TUNABLES"];

/// This host.
#[derive(Clone, Debug)]
pub struct LocalTarget {
    runner: Runner,
    hello: Hello,
    label: TargetLabel,
    facts: OnceLock<DeviceFacts>,
}

impl LocalTarget {
    /// Builds the runner if it is not in the cache, and sees that it works. `progress` is told about
    /// work that takes a while.
    ///
    /// # Errors
    /// When no runner can be built or it does not work.
    pub fn prepare(environment: &Environment, cache: &Path, progress: &dyn Progress) -> Result<Self, Error> {
        let facts = OnceLock::new();
        let mut label = label_of(std::env::consts::ARCH);
        if label.physical_arm && facts.get_or_init(of_this_host).emulated {
            label.physical_arm = false;
            label.name = "this host (emulated arm64)".to_owned();
        }
        let built =
            Sdk::at(&environment.executorch_folder).and_then(|sdk| runner_build::prepare(&sdk, cache, progress));
        let runner = built.map_err(|error| match error {
            runner_build::Error::Interrupted => Error::Interrupted,
            source => Error::Build { target: label.name.clone(), source },
        })?;
        let finished = child::run(command(&runner).arg("--probe"), PROBE_TIMEOUT)
            .map_err(|error| runner_process::not_started(&label.name, &runner.executable, &error))?;
        let hello = runner_process::greeting(&label.name, &finished)?;
        Ok(Self { runner, hello, label, facts })
    }

    /// The runner in use.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }
}

impl Target for LocalTarget {
    fn label(&self) -> TargetLabel {
        self.label.clone()
    }

    fn run(&self, request: &RunRequest<'_>) -> Result<RunOutcome, Error> {
        let finished = child::run(command(&self.runner).args(runner_process::arguments(request)), request.timeout)
            .map_err(|error| runner_process::not_started(&self.label.name, &self.runner.executable, &error))?;
        runner_process::outcome(request, &self.label.name, &finished)
    }

    fn processor(&self) -> String {
        self.hello.cpu.clone()
    }

    fn identity(&self) -> String {
        let cpu = if self.hello.cpu.is_empty() { self.hello.architecture.as_str() } else { self.hello.cpu.as_str() };
        format!("local runner {} executorch {} cpu {cpu}", self.runner.hash, self.runner.executorch)
    }

    fn default_threads(&self) -> u32 {
        physical_cores().clamp(1, MAX_DEFAULT_THREADS)
    }

    fn hello(&self) -> Option<&Hello> {
        Some(&self.hello)
    }

    fn facts(&self) -> Option<&DeviceFacts> {
        Some(self.facts.get_or_init(of_this_host))
    }
}

fn command(runner: &Runner) -> Command {
    let mut command = Command::new(&runner.executable);
    command.env_clear();
    for name in KEPT_VARIABLES {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

pub(super) fn label_of(architecture: &str) -> TargetLabel {
    let physical_arm = architecture == "aarch64";
    let name = match architecture {
        "aarch64" => "this host (arm64)".to_owned(),
        "x86_64" => "this host (x86-64, not Arm)".to_owned(),
        other => format!("this host ({other}, not Arm)"),
    };
    TargetLabel { kind: "local".to_owned(), name, architecture: architecture.to_owned(), physical_arm }
}

/// Cores that this process may use, hyperthreads of one core counted once.
pub(super) fn physical_cores() -> u32 {
    let available = std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return available };
    let mut cores = BTreeSet::new();
    for cpu in 0..rustix::thread::CpuSet::MAX_CPU {
        if allowed.is_set(cpu) {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            let siblings = fs::read_to_string(path).unwrap_or_else(|_| cpu.to_string());
            cores.insert(siblings.trim().to_owned());
        }
    }
    u32::try_from(cores.len()).unwrap_or(available).clamp(1, available.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_arm_host_is_evidence_for_arm() {
        assert!(!label_of("x86_64").physical_arm);
        assert_eq!(label_of("x86_64").name, "this host (x86-64, not Arm)");
        assert!(label_of("aarch64").physical_arm);
    }

    #[test]
    fn a_thread_count_is_between_one_and_what_the_process_may_use() {
        let cores = physical_cores();
        let available = std::thread::available_parallelism().expect("count").get();
        assert!(cores >= 1 && cores as usize <= available, "{cores} of {available}");
    }
}
