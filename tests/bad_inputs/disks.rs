//! Disks that are full, limited or read-only.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use dd_tests::{Ran, Sandbox};

use crate::place::{Expected, files, told, unfinished, with_python};

/// 4 MB of weights, so that the exported program is what does not fit.
const LARGE: &str = "import torch\n\n\ndef delegate_doctor_model():\n    return torch.nn.Linear(1024, 1024)\n\n\n\
                     def delegate_doctor_inputs():\n    return torch.randn(1, 1024)\n";

/// The command behind a shell that prepares its surroundings first.
fn behind(wrapper: &[&str], prepare: &str, command: &Command) -> Command {
    let mut line: Vec<OsString> = wrapper.iter().map(OsString::from).collect();
    line.extend(["sh", "-c", &format!("set -e; {prepare}; exec \"$@\""), "sh"].map(OsString::from));
    line.push(command.get_program().into());
    line.extend(command.get_args().map(OsString::from));
    let mut wrapped = Command::new(&line[0]);
    wrapped.args(&line[1..]).env_clear().stdin(Stdio::null());
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}

#[test]
fn a_file_that_may_not_grow_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("large.py", LARGE);
    // The runner and the compiled rules are larger than this, so they must be there already.
    let ready = Ran::of(with_python(&sandbox, ["large.py", "--out", "ready"]));
    assert_eq!(ready.code(), 0, "{}", ready.stderr);
    let command = with_python(&sandbox, ["large.py", "--out", "run", "--no-cache"]);
    let ran = Ran::of(behind(&[], "trap '' XFSZ; ulimit -f 4000", &command));
    told("file size", &ran, &Expected { words: &["Failed to write", "run/original/"], hint: "disk space" });
    unfinished("file size", &sandbox.work().join("run"));
    // With room again the run goes on.
    let ran = Ran::of(with_python(&sandbox, ["large.py", "--resume=run"]));
    assert_eq!(ran.code(), 0, "{}", ran.stderr);
}

#[test]
fn a_full_stdout_is_told() {
    let sandbox = Sandbox::new();
    let full = fs_err::File::options().write(true).open("/dev/full").expect("/dev/full").into_file();
    let mut command = sandbox.command(["rules", "list"]);
    let output = command.stdout(full).stderr(Stdio::piped()).output().expect("starts");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("Failed to write to standard output"), "{stderr}");
    assert!(stderr.contains("hint: Free some disk space"), "{stderr}");
}

/// Mounting needs rights that a container may not give.
fn mounts() -> Option<&'static [&'static str]> {
    let wrapper: &[&str] = &["unshare", "--user", "--map-root-user", "--mount"];
    let as_root: &[&str] = &["unshare", "--mount"];
    [as_root, wrapper].into_iter().find(|wrapper| {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

#[test]
fn a_full_or_read_only_disk_is_told() {
    let Some(wrapper) = mounts() else {
        #[expect(clippy::print_stderr, reason = "a skipped test says what is missing")]
        let () = eprintln!("not tested: this machine does not let a test mount a small disk");
        return;
    };
    let sandbox = Sandbox::new();
    sandbox.write("large.py", LARGE);
    let disk = sandbox.work().join("disk");
    fs_err::create_dir(&disk).expect("folder");
    let command = with_python(&sandbox, ["large.py", "--out", "disk/run", "--no-cache"]);
    let read_only = behind(wrapper, "mount -t tmpfs -o ro,size=1m tmpfs disk", &command);
    let expected =
        Expected { words: &["`disk/run`", "Read-only file system"], hint: "Choose a place that you may write to" };
    told("read-only", &Ran::of(read_only), &expected);
    assert!(files(&disk).is_empty());
    let full = behind(wrapper, "mount -t tmpfs -o size=2m tmpfs disk", &command);
    let expected = Expected { words: &["disk/run/original/", "No space left on device"], hint: "disk space" };
    told("full", &Ran::of(full), &expected);
    let tiny = behind(wrapper, "mount -t tmpfs -o size=4k tmpfs disk; echo x > disk/full || true", &command);
    told("no room at all", &Ran::of(tiny), &Expected { words: &["disk/run"], hint: "disk space" });
}
