//! Giving way to the system's `dd`, so that a folder with ours on PATH never breaks a script.
//!
//! Called by the name `dd` with the operands of the disk copier (`if=…`, `of=…`, `bs=…`), or with nothing
//! while stdin is not a terminal, the process becomes the next `dd` on PATH: same arguments, streams, exit
//! code and signals. Our own binary, wherever it is linked or copied to, is never the next one.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use crate::output::{Exit, Failure};

/// Files that already gave way, as `device:inode` separated by commas. Copies of our binary hand it to
/// each other, so that two of them on PATH do not call each other for ever.
const PASSED: &str = "DELEGATE_DOCTOR_DD_PASSED";

/// Where the disk copier is searched when PATH is not set, as the C library does.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// True when the command line is meant for the disk copier. `arguments` begins with the program's name.
pub fn is_meant(arguments: &[OsString]) -> bool {
    let [name, rest @ ..] = arguments else { return false };
    if Path::new(name).file_name() != Some(OsStr::new("dd")) {
        return false;
    }
    match rest {
        [] => !std::io::stdin().is_terminal(),
        [end, operand, ..] if end == "--" => is_operand(operand),
        [first, ..] => is_operand(first),
    }
}

/// `name=value` with a name of lower-case letters: no command or flag of ours looks like that.
fn is_operand(argument: &OsStr) -> bool {
    let bytes = argument.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(end) => end > 0 && bytes.iter().take(end).all(u8::is_ascii_lowercase),
        None => false,
    }
}

/// Becomes the next `dd` on PATH; comes back only when that fails.
pub fn give_way(arguments: &[OsString]) -> Failure {
    let mut passed: Vec<String> =
        std::env::var(PASSED).unwrap_or_default().split(',').filter(|id| !id.is_empty()).map(str::to_string).collect();
    if let Some(own) = std::env::current_exe().ok().and_then(|path| identity(&path)) {
        passed.push(own);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    let mut refused = None;
    for candidate in candidates(&path, &passed) {
        let error = Command::new(&candidate)
            .args(arguments.iter().skip(1))
            .arg0(arguments.first().map_or(OsStr::new("dd"), OsString::as_os_str))
            .env(PASSED, passed.join(","))
            .exec();
        refused.get_or_insert((candidate, error));
    }
    match refused {
        Some((candidate, error)) => {
            Failure::with_cause(format!("Failed to start the system's dd: `{}`", candidate.display()), error)
        }
        None => Failure::new("These are arguments of the system's dd, and there is no other `dd` on PATH")
            .hint("Install the disk copier, or call this tool by its full name `delegate-doctor`"),
    }
    .exit(Exit::NotFound)
}

/// Executable files named `dd` on `path` in order, without those that already gave way.
fn candidates(path: &OsStr, passed: &[String]) -> Vec<PathBuf> {
    std::env::split_paths(path)
        .map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder })
        .map(|folder| folder.join("dd"))
        .filter(|file| {
            let executable = fs::metadata(file)
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
            executable && identity(file).is_some_and(|id| !passed.contains(&id))
        })
        .collect()
}

/// What stays the same however a file is linked.
fn identity(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    Some(format!("{}:{}", metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &[&str]) -> bool {
        is_meant(&line.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn operands_of_the_disk_copier_are_recognised() {
        for operand in ["if=/dev/zero", "of=x", "bs=1M", "conv=notrunc,sync", "status=none", "iflag=direct", "msgfmt=q"]
        {
            assert!(meant(&["dd", operand]), "{operand}");
            assert!(meant(&["/usr/local/bin/dd", "--", operand]), "{operand}");
        }
        assert!(is_operand(OsStr::from_bytes(b"if=\xff\xfe")));
    }

    #[test]
    fn our_own_commands_stay_ours() {
        for line in [
            ["dd", "--help"],
            ["dd", "--version"],
            ["dd", "optimize"],
            ["dd", "--color=never"],
            ["dd", "=x"],
            ["dd", "models/a=b.py"],
            ["delegate-doctor", "if=x"],
        ] {
            assert!(!meant(&line), "{line:?}");
        }
        assert!(!meant(&["dd", "optimize", "a=b.py"]));
        assert!(!meant(&[]));
    }

    #[test]
    fn links_to_a_passed_file_and_files_that_cannot_run_are_left_out() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let at = |name: &str| {
            fs::create_dir(folder.path().join(name)).expect("folder");
            folder.path().join(name).join("dd")
        };
        let (own, linked, plain, real) = (at("own"), at("linked"), at("plain"), at("real"));
        for (file, mode) in [(&own, 0o755), (&plain, 0o644), (&real, 0o755)] {
            crate::files::write_atomic(file, b"#!/bin/sh\n").expect("write");
            fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("mode");
        }
        fs::os::unix::fs::symlink(&own, &linked).expect("link");
        let path = std::env::join_paths(["own", "linked", "plain", "real"].map(|name| folder.path().join(name)))
            .expect("path");
        let passed = [identity(&own).expect("identity")];
        assert_eq!(candidates(&path, &passed), std::slice::from_ref(&real));
        assert_eq!(candidates(&path, &[]), [own, linked, real]);
    }
}
