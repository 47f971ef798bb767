//! Toolchains of script rules: installed once below the data folder, pinned, and used from there.
//!
//! A folder `tools/<name>-<version>` counts only once its marker file is written, which is the last step; what
//! a broken attempt left is removed by the next. A lock file keeps two processes from installing at once.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fs_err as fs;

use super::Error;
use crate::file_lock;
use crate::files::write_atomic;
use crate::progress::{Progress, Step};
use crate::torch::child;

/// Written last, inside the folder.
const MARKER: &str = "delegate-doctor-complete";
/// Time for a download and installation.
const INSTALL_LIMIT: Duration = Duration::from_secs(1_800);
/// Time for a build.
const BUILD_LIMIT: Duration = Duration::from_secs(600);

/// A pinned toolchain.
pub(super) struct ManagedTool {
    /// of the package
    pub name: &'static str,
    /// of the package
    pub version: &'static str,
    /// language of the rules it builds
    pub language: &'static str,
    /// about how much it takes on the disk
    pub size: &'static str,
    /// what to do without a network; `{folder}` stands for where it is installed
    pub offline: &'static str,
}

impl ManagedTool {
    /// Name and version: `componentize-py 0.25.1`.
    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    /// Gives its folder, after `install` has filled it where it was not there.
    pub fn ensure(
        &self,
        data: &Path,
        progress: &dyn Progress,
        install: &dyn Fn(&Path, &dyn Step) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        // What is installed notes where it is, so links are followed first.
        fs::create_dir_all(data.join("tools"))?;
        let tools = fs::canonicalize(data.join("tools"))?;
        let folder = tools.join(format!("{}-{}", self.name, self.version));
        let marker = folder.join(MARKER);
        if marker.is_file() {
            return Ok(folder);
        }
        let lock_path = tools.join(format!("{}-{}.lock", self.name, self.version));
        let waiting = || progress.note(&format!("Waiting for another process that is installing {}", self.title()));
        let _lock = file_lock::wait(&lock_path, &waiting).map_err(|error| match error.kind() {
            std::io::ErrorKind::Interrupted => Error::Interrupted,
            _ => error.into(),
        })?;
        // The other process may have finished it.
        if marker.is_file() {
            return Ok(folder);
        }
        let step = progress.step(&format!("Installing {} (about {}, once)", self.title(), self.size));
        if folder.symlink_metadata().is_ok() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        install(&folder, &*step)?;
        write_atomic(&marker, self.title().as_bytes())?;
        step.done(&format!("Installed {}: `{}`", self.title(), folder.display()));
        Ok(folder)
    }

    /// One command of the installation; its lines are shown as they come.
    pub fn install_step(&self, folder: &Path, command: Command, step: &dyn Step) -> Result<(), Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |why: String| Error::Install {
            what: self.title(),
            folder: folder.to_path_buf(),
            why,
            offline: self.offline.replace("{folder}", &folder.display().to_string()),
        };
        let mut tell = |line: &str| {
            let line = line.trim();
            if !line.is_empty() {
                step.update(&crate::sandbox::printable(line, 80));
            }
        };
        match child::collect(command, INSTALL_LIMIT, &mut tell) {
            Ok(output) if output.success => Ok(()),
            Ok(output) => Err(failed(output.tail(4))),
            Err(child::Error::Interrupted) => Err(Error::Interrupted),
            Err(child::Error::Start(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(self.missing(&program))
            }
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// A build with the tool; what it says goes into the error when it fails.
    pub fn build(&self, project: &Path, command: Command) -> Result<(), Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        match child::collect(command, BUILD_LIMIT, &mut |_| {}) {
            Ok(output) if output.success => Ok(()),
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                Err(Error::Build { folder: project.to_path_buf(), output: said.trim().to_owned() })
            }
            Err(child::Error::Interrupted) => Err(Error::Interrupted),
            Err(child::Error::Start(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(self.missing(&program))
            }
            Err(error) => Err(Error::Tool { tool: program, why: error.to_string() }),
        }
    }

    fn missing(&self, program: &str) -> Error {
        let install = match program {
            "node" | "npm" => {
                "On Debian and Ubuntu: `apt-get install nodejs npm`. Node.js 18 or later is needed, from \
                 https://nodejs.org where the system's is older"
            }
            _ => {
                "On Debian and Ubuntu: `apt-get install python3 python3-venv`. Python 3.10 or later is needed, from \
                 https://www.python.org where the system's is older"
            }
        };
        Error::NoTool { program: program.to_owned(), language: self.language, install: install.to_owned() }
    }
}

/// A command in which the variables of other tools do not change what is installed or built.
pub(super) fn plain(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for variable in ["PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "NODE_OPTIONS", "NODE_PATH"] {
        command.env_remove(variable);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::Hint as _;
    use crate::progress::Silent;

    const TOOL: ManagedTool = ManagedTool {
        name: "no-such-tool",
        version: "1.0.0",
        language: "Python",
        size: "1 MB",
        offline: "copy `{folder}`",
    };

    #[test]
    fn an_installation_counts_when_it_is_finished_and_is_done_once() {
        let data = tempfile::tempdir().expect("temporary folder");
        let fails = |_: &Path, _: &dyn Step| Err(Error::Interrupted);
        assert!(TOOL.ensure(data.path(), &Silent, &fails).is_err());
        let works = |folder: &Path, _: &dyn Step| Ok(fs::write(folder.join("here"), "")?);
        let folder = TOOL.ensure(data.path(), &Silent, &works).expect("installed");
        assert!(folder.join("here").is_file());
        assert!(folder.ends_with("tools/no-such-tool-1.0.0"), "{}", folder.display());
        assert_eq!(TOOL.ensure(data.path(), &Silent, &fails).expect("it is there"), folder);
    }

    #[test]
    fn what_fails_says_where_and_what_to_do() {
        let folder = Path::new("/data/tools/x");
        let mut command = plain("sh");
        command.args(["-c", "echo no network >&2; exit 3"]);
        let step = Silent.step("x");
        let error = TOOL.install_step(folder, command, &*step).expect_err("it fails");
        assert!(error.to_string().contains("no network") && error.to_string().contains("no-such-tool 1.0.0"));
        assert_eq!(error.hint().as_deref(), Some("Without a network: copy `/data/tools/x`"));
        let error = TOOL.build(folder, plain("/nonexistent/python3")).expect_err("missing");
        assert!(error.hint().is_some_and(|hint| hint.contains("apt-get install python3")), "{error}");
        let error = TOOL.build(folder, plain("npm-that-is-not-there")).expect_err("missing");
        assert!(matches!(error, Error::NoTool { .. }));
    }
}
