//! A folder of its own for each test, and an environment in which nothing of the machine shows.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::binary;

/// A temporary home, working folder and PATH.
pub struct Sandbox {
    folder: tempfile::TempDir,
}

/// What a finished command left.
pub struct Ran {
    /// how it ended
    pub status: ExitStatus,
    /// its data
    pub stdout: String,
    /// its talk
    pub stderr: String,
}

impl Sandbox {
    /// A new one.
    ///
    /// # Panics
    /// When no temporary folder can be made.
    #[expect(clippy::new_without_default, reason = "making one touches the disk")]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("dd-test-").tempdir().expect("temporary folder");
        for name in ["home", "project"] {
            fs_err::create_dir(folder.path().join(name)).expect("folder");
        }
        Self { folder }
    }

    /// The folder commands run in.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// The tool's own folders are below this one.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Writes a file in the working folder.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(name);
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent).expect("folder");
        }
        fs_err::write(&path, content).expect("write");
        path
    }

    /// `delegate-doctor` with arguments, ready to run.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.program(&binary("delegate-doctor"));
        command.args(arguments);
        command
    }

    /// Any program in this sandbox.
    pub fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("DELEGATE_DOCTOR_HOME", self.home())
            .env("TMPDIR", self.folder.path())
            .env("LC_ALL", "C.UTF-8")
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    /// Runs `delegate-doctor` to its end.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        Ran::of(self.command(arguments))
    }

    /// Text in which what differs from run to run is replaced by a name.
    pub fn plain(&self, text: &str) -> String {
        let folder = self.folder.path().to_str().expect("temporary folders have plain names");
        text.replace(folder, "[SANDBOX]")
    }
}

impl Ran {
    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn of(mut command: Command) -> Self {
        let output = command.output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        Self { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The exit code.
    ///
    /// # Panics
    /// When a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().expect("no signal ended it")
    }

    /// The same, after checking that it ended well.
    ///
    /// # Panics
    /// When it did not.
    pub fn good(self) -> Self {
        assert!(self.status.success(), "{}\n{}\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// Exit code, stdout and stderr as one text for a snapshot.
    pub fn all(&self, sandbox: &Sandbox) -> String {
        sandbox.plain(&format!(
            "exit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
            self.code(),
            self.stdout,
            self.stderr
        ))
    }
}

/// Lets a file that a test wrote be run.
///
/// # Panics
/// When it cannot be changed.
pub fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
}
