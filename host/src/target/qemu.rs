//! 64-bit Arm emulated on this host: the bundle for devices under `qemu-aarch64`.
//!
//! The kernels that run are those that an Arm CPU of the named kind would run, so outputs and the choice of
//! kernels are evidence for Arm. Times are not: emulation is some hundred times slower, and not evenly so.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::bundle::{ARCHITECTURE, Bundle};
use super::local::physical_cores;
use super::runner_process::{self, Hello};
use super::{Error, RunOutcome, RunRequest, Target, child};
use crate::evidence::TargetLabel;

/// The kind in the label of an emulated target.
pub const KIND: &str = "qemu";
/// Names of the emulator, the one that needs nothing else first.
const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);
/// Emulated threads cost much and gain little.
const MAX_THREADS: u32 = 2;

/// An emulated Arm CPU.
#[derive(Clone, Debug)]
pub struct QemuTarget {
    emulator: PathBuf,
    /// its version, first line
    version: String,
    cpu: String,
    bundle: Bundle,
    hello: Hello,
    label: TargetLabel,
}

impl QemuTarget {
    /// Sees that the emulator knows the CPU and that the runner works on it.
    ///
    /// # Errors
    /// No emulator, an unknown CPU, a runner that does not work.
    pub fn prepare(cpu: &str, bundle: Bundle) -> Result<Self, Error> {
        let label = label_of(cpu);
        let (emulator, version) = emulator(&label)?;
        let mut target = Self { emulator, version, cpu: cpu.to_owned(), bundle, hello: Hello::default(), label };
        let finished = child::run(target.command().arg("--probe"), PROBE_TIMEOUT)
            .map_err(|error| runner_process::not_started(&target.label.name, &target.emulator, &error))?;
        if finished.stderr.contains("unable to find CPU model") {
            return Err(Error::UnknownCpu { emulator: target.emulator, cpu: target.cpu });
        }
        target.hello = runner_process::greeting(&target.label.name, &finished)?;
        Ok(target)
    }

    fn command(&self) -> Command {
        let folder = self.bundle.folder.to_string_lossy();
        let mut command = Command::new(&self.emulator);
        command.env_clear().args(["-cpu", &self.cpu]).args(self.bundle.command(&folder));
        command
    }
}

impl Target for QemuTarget {
    fn label(&self) -> TargetLabel {
        self.label.clone()
    }

    fn run(&self, request: &RunRequest<'_>) -> Result<RunOutcome, Error> {
        let arguments: Vec<OsString> = runner_process::arguments(request);
        let finished = child::run(self.command().args(arguments), request.timeout)
            .map_err(|error| runner_process::not_started(&self.label.name, &self.emulator, &error))?;
        runner_process::outcome(request, &self.label.name, &finished)
    }

    fn processor(&self) -> String {
        format!("{} (emulated by {})", self.cpu, self.version)
    }

    fn identity(&self) -> String {
        format!("qemu {} cpu {} bundle {}", self.version, self.cpu, self.bundle.hash)
    }

    fn default_threads(&self) -> u32 {
        physical_cores().clamp(1, MAX_THREADS)
    }

    fn hello(&self) -> Option<&Hello> {
        Some(&self.hello)
    }
}

/// The emulator and the first line of what it says about its version.
///
/// # Errors
/// When there is none.
pub(crate) fn emulator(label: &TargetLabel) -> Result<(PathBuf, String), Error> {
    // The one that is asked is the one that runs, also with an empty environment.
    let folders = std::env::var_os("PATH").unwrap_or_default();
    for path in EMULATORS.iter().filter_map(|name| child::on_path(&folders, name)) {
        let Ok(done) = child::run(Command::new(&path).arg("--version"), PROBE_TIMEOUT) else { continue };
        match done.end {
            child::End::Exited(status) if status.success() => {
                let version = String::from_utf8_lossy(&done.stdout).lines().next().unwrap_or_default().to_owned();
                return Ok((path, version.trim_start_matches("qemu-aarch64 version ").to_owned()));
            }
            child::End::Interrupted => return Err(Error::Interrupted),
            child::End::Exited(_) | child::End::TimedOut => {}
        }
    }
    Err(Error::NoEmulator { target: label.name.clone(), tried: EMULATORS.map(|name| format!("`{name}`")).join(", ") })
}

/// The label of an emulated CPU.
pub(crate) fn label_of(cpu: &str) -> TargetLabel {
    TargetLabel {
        kind: KIND.to_owned(),
        name: format!("emulated Arm ({cpu})"),
        architecture: ARCHITECTURE.to_owned(),
        physical_arm: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_cpu_is_no_evidence_for_speed() {
        let label = label_of("max");
        assert!(!label.physical_arm && !label.measures_speed());
    }
}
