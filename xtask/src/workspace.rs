//! Where things are in the repository, and how its commands are run.

use std::path::PathBuf;
use std::process::Command;

/// What a task ends with.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map_or_else(|| manifest.clone(), PathBuf::from)
}

/// Where tests and benches keep what takes long to make; ignored by git.
pub(crate) fn home() -> PathBuf {
    root().join(".cache").join("home")
}

/// The cargo that runs this task.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command and fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result {
    let shown = show(command);
    let status = command.status().map_err(|error| format!("`{shown}` cannot be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})")) }
}

fn show(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// The kind of processor and how many of them.
pub(crate) fn machine() -> String {
    let text = fs_err::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{}, {cores} cores, {}", model.unwrap_or("an unnamed processor"), std::env::consts::ARCH)
}
