//! The Rust toolchain's part for WebAssembly: found, added, or explained.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Error;

/// What rules are compiled for: no system interface at all.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// How to get the target's standard library.
pub(super) const TARGET_HINT: &str = "With rustup and a network: `rustup target add wasm32-unknown-unknown`. On \
    Debian without rustup: install rustc-web, cargo-web and rust-web-src, set `CARGO=/usr/share/cargo-web/bin/cargo` \
    and `RUSTC=/usr/share/rustc-web/bin/rustc`, and build with `RUSTC_BOOTSTRAP=1` and \
    `CARGO_UNSTABLE_BUILD_STD=std,panic_abort`";

/// The cargo that runs us, or the one on PATH.
pub(super) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The compiler that cargo would use.
pub(super) fn rustc() -> OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// Where cargo keeps sources; `None` without a home folder.
pub(super) fn cargo_home() -> Option<PathBuf> {
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
}

fn missing(program: &str) -> Error {
    Error::NoTool {
        program: program.to_owned(),
        language: "Rust",
        install: "Install Rust 1.95 or later from https://rustup.rs".to_owned(),
    }
}

/// Runs a tool to its end and gives what it wrote to stdout.
pub(super) fn output(command: &mut Command, missing: impl FnOnce() -> Error) -> Result<String, Error> {
    let tool = command.get_program().to_string_lossy().into_owned();
    // A build uses the toolchain that is there; it never changes it behind the user's back.
    let output = match command.env("RUSTUP_AUTO_INSTALL", "0").output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
        Err(error) => return Err(Error::Tool { tool, why: error.to_string() }),
    };
    if crate::interrupt::requested() {
        return Err(Error::Interrupted);
    }
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let why = if why.is_empty() { output.status.to_string() } else { why };
        return Err(Error::Tool { tool, why });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Version of the compiler: `1.95.0`.
///
/// # Errors
/// When there is none.
pub fn compiler_version() -> Result<String, Error> {
    let text = output(Command::new(rustc()).arg("--version"), || missing("rustc"))?;
    Ok(text.split_whitespace().nth(1).unwrap_or_default().to_owned())
}

fn has_target() -> Result<bool, Error> {
    let asked =
        output(Command::new(rustc()).args(["--print", "target-libdir", "--target", TARGET]), || missing("rustc"));
    match asked {
        Ok(folder) => Ok(Path::new(folder.trim()).is_dir()),
        Err(Error::Tool { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes sure that the compiler can build for [`TARGET`]; `tell` hears when it is added.
///
/// # Errors
/// When there is no compiler, or the target is missing and cannot be added.
pub fn ensure_target(tell: &dyn Fn(&str)) -> Result<(), Error> {
    // A standard library that is built along needs no installed one.
    if has_target()? || std::env::var_os("CARGO_UNSTABLE_BUILD_STD").is_some() {
        return Ok(());
    }
    tell(&format!("Adding the target {TARGET} to the Rust toolchain"));
    let added = match output(Command::new("rustup").args(["target", "add", TARGET]), || missing("rustup")) {
        Ok(_) => None,
        Err(Error::NoTool { .. }) => None,
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(Error::Tool { why, .. }) => Some(why),
        Err(error) => Some(error.to_string()),
    };
    if has_target()? { Ok(()) } else { Err(Error::NoTarget { added }) }
}
