//! What the tests of targets share: the real binary, a private server of the real `adb`, stand-in devices.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use dd_tests::{Ran, binary, python, workspace};
use delegate_doctor::report::model::Report;
use delegate_doctor::target::{RunRequest, TraceRequest};
use delegate_doctor::torch::protocol::TensorFile;

use crate::adb_daemon::AdbDaemon;
use crate::stand_in::{StandIn, program};

/// A finished run of `optimize`.
pub struct Run {
    folder: tempfile::TempDir,
    pub code: i32,
    pub stderr: String,
    pub report: Option<Report>,
}

impl Run {
    /// The report.
    ///
    /// # Panics
    /// When there is none.
    pub fn report(&self) -> &Report {
        self.report.as_ref().unwrap_or_else(|| panic!("no report: {}", self.stderr))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("run").join(name)
    }
}

pub fn model(name: &str) -> PathBuf {
    workspace().join("tests/fixtures/models").join(format!("{name}.py"))
}

/// The binary, with what it builds shared between tests.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(binary("delegate-doctor"));
    command
        .args(words)
        .env("DELEGATE_DOCTOR_HOME", workspace().join("target/test-home"))
        .env("DELEGATE_DOCTOR_PYTHON", &python().python);
    command
}

/// A run that keeps its outputs in a folder, with a trace of a second run.
pub fn traced_once<'a>(
    program: &'a Path,
    inputs: &'a [TensorFile],
    folder: &'a Path,
    trace: &'a Path,
    timeout: Duration,
) -> RunRequest<'a> {
    RunRequest {
        program,
        inputs,
        output_dir: Some(folder),
        threads: 1,
        warmup: 0,
        warmup_limit: 0,
        iterations: 1,
        max_measure: Duration::ZERO,
        trace: Some(TraceRequest { path: trace, iterations: 1 }),
        timeout,
    }
}

/// Runs `optimize` on a small model.
pub fn optimize(model: &Path, target: &str, prepare: impl FnOnce(&mut Command)) -> Run {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut command = command(&["optimize", "--format", "json", "--target", target, "--out"]);
    command.arg(folder.path().join("run")).arg(model);
    prepare(&mut command);
    let output = command.output().expect("the binary starts");
    Run {
        code: output.status.code().expect("no signal"),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        report: Report::from_json(&output.stdout).ok(),
        folder,
    }
}

/// A private server of `adb`, so that no device of this machine is seen and none of its keys used.
pub struct AdbServer {
    home: tempfile::TempDir,
    port: u16,
}

impl AdbServer {
    pub fn start() -> Self {
        let home = tempfile::tempdir().expect("folder");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = free.local_addr().expect("address").port();
        drop(free);
        let server = Self { home, port };
        let done = server.adb(&["start-server"]);
        assert!(done.status.success(), "{}", done.stderr);
        server
    }

    /// The variables that lead `adb` to this server.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("ANDROID_ADB_SERVER_PORT", self.port.to_string()),
            ("HOME", self.home.path().display().to_string()),
            ("ADB_MDNS_AUTO_CONNECT", "0".to_owned()),
        ]
    }

    pub fn adb(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(program("adb"));
        command.args(words).envs(self.variables());
        Ran::of(command)
    }

    /// Makes a device known; gives its serial number.
    pub fn connect(&self, daemon: &AdbDaemon) -> String {
        let serial = format!("127.0.0.1:{}", daemon.port);
        let done = self.adb(&["connect", &serial]);
        assert!(
            done.stdout.contains("connected") || done.stdout.contains("authenticate"),
            "{}{}",
            done.stdout,
            done.stderr
        );
        serial
    }
}

impl Drop for AdbServer {
    fn drop(&mut self) {
        self.adb(&["kill-server"]);
    }
}

/// One phone at a private server.
pub struct Phone {
    pub server: AdbServer,
    pub daemon: AdbDaemon,
    pub device: Arc<StandIn>,
    pub serial: String,
}

impl Phone {
    pub fn new() -> Self {
        let device = Arc::new(StandIn::new("Stand In", "cortex-a76"));
        let daemon = AdbDaemon::start(Arc::clone(&device));
        let server = AdbServer::start();
        let serial = server.connect(&daemon);
        Self { server, daemon, device, serial }
    }

    /// Gives a command the way to this phone.
    pub fn lead(&self, command: &mut Command) {
        command.envs(self.server.variables()).env("DELEGATE_DOCTOR_DEVICE_FOLDER", self.device.storage());
    }

    pub fn optimize(&self) -> Run {
        optimize(&model("softmax_over_channels"), "adb", |command| self.lead(command))
    }
}
