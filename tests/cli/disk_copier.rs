//! Our `dd` beside the system's `dd`.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dd_tests::{Ran, Sandbox, binary};

/// The system's own.
fn real() -> PathBuf {
    ["/bin/dd", "/usr/bin/dd"].into_iter().map(PathBuf::from).find(|path| path.is_file()).expect("a system with a dd")
}

/// `folders` in front of the folder of the real one; our `dd` found through it, called by that name.
fn ours(sandbox: &Sandbox, folders: &[&Path]) -> Command {
    let system = real().parent().expect("folder").to_path_buf();
    let path = std::env::join_paths(folders.iter().map(|folder| folder.to_path_buf()).chain([system])).expect("path");
    let mut command = sandbox.program(&folders.first().expect("a folder").join("dd"));
    command.env("PATH", path);
    command
}

/// A folder in which `dd` is ours: built, linked or copied.
fn folder(sandbox: &Sandbox, name: &str, place: impl Fn(&Path, &Path)) -> PathBuf {
    let folder = sandbox.work().join(name);
    fs_err::create_dir(&folder).expect("folder");
    place(&binary("dd"), &folder.join("dd"));
    folder
}

fn link(from: &Path, to: &Path) {
    symlink(from, to).expect("link");
}

fn copy(from: &Path, to: &Path) {
    // Not by this process: a program started by another test would inherit the file open for writing, and
    // a file that is open for writing cannot be executed.
    assert!(Command::new("cp").args([from, to]).status().expect("cp starts").success());
}

#[test]
fn large_binary_data_passes_through_unchanged() {
    let sandbox = Sandbox::new();
    let folder = folder(&sandbox, "bin", copy);
    // A period that is no power of two, so that a lost or doubled block shows.
    let data: Vec<u8> = (0..50_000_003_u64).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
    let mut command = ours(&sandbox, &[&folder]);
    command.args(["bs=64k", "status=none"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("stdin");
    let sent = data.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let mut received = Vec::new();
    child.stdout.take().expect("stdout").read_to_end(&mut received).expect("read");
    writer.join().expect("thread").expect("write");
    assert!(child.wait().expect("ends").success());
    assert!(received == data, "{} bytes came back of {}", received.len(), data.len());
}

#[test]
fn operands_reach_the_system_dd_and_its_exit_code_comes_back() {
    let sandbox = Sandbox::new();
    let folder = folder(&sandbox, "bin", copy);
    sandbox.write("in", "hello world");
    let run = |operands: &[&str]| {
        let mut command = ours(&sandbox, &[&folder]);
        command.args(operands);
        Ran::of(command)
    };
    let ran = run(&["if=in", "bs=1", "skip=6", "count=5", "conv=ucase"]).good();
    assert_eq!(ran.stdout, "WORLD");
    run(&["--", "if=in", "of=out", "status=none"]).good();
    assert_eq!(fs_err::read(sandbox.work().join("out")).expect("out"), b"hello world");
    let missing = run(&["if=missing"]);
    assert_eq!(missing.code(), 1);
    assert!(missing.stderr.contains("missing") && !missing.stderr.contains("error:"), "{}", missing.stderr);
}

#[test]
fn without_arguments_and_without_a_terminal_it_copies() {
    let sandbox = Sandbox::new();
    let folder = folder(&sandbox, "bin", copy);
    sandbox.write("in", "through");
    let mut command = ours(&sandbox, &[&folder]);
    command.stdin(fs_err::File::open(sandbox.work().join("in")).expect("in").into_parts().0);
    assert_eq!(Ran::of(command).good().stdout, "through");
}

#[test]
fn a_signal_ends_it_as_it_ends_the_system_dd() {
    let sandbox = Sandbox::new();
    let folder = folder(&sandbox, "bin", copy);
    let mut command = ours(&sandbox, &[&folder]);
    command.args(["if=/dev/zero", "bs=1M", "status=none"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut byte = [0; 1];
    // Once a byte has come, the process is the system's dd.
    child.stdout.as_mut().expect("stdout").read_exact(&mut byte).expect("a byte");
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("id")).expect("id");
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("signal");
    assert_eq!(child.wait().expect("ends").signal(), Some(15));
}

#[test]
fn links_and_copies_of_ours_in_front_of_the_system_dd_do_not_call_each_other_for_ever() {
    let sandbox = Sandbox::new();
    let first = folder(&sandbox, "first", copy);
    let second = folder(&sandbox, "second", copy);
    let third = folder(&sandbox, "third", link);
    let fourth = folder(&sandbox, "fourth", |_, to| link(&first.join("dd"), to));
    sandbox.write("in", "x");
    let mut command = ours(&sandbox, &[&first, &second, &third, &fourth, &first]);
    command.args(["if=in", "status=none"]);
    assert_eq!(Ran::of(command).good().stdout, "x");
}

#[test]
fn the_full_binary_linked_as_dd_gives_way_too() {
    let sandbox = Sandbox::new();
    let folder = sandbox.work().join("bin");
    fs_err::create_dir(&folder).expect("folder");
    link(&binary("delegate-doctor"), &folder.join("dd"));
    sandbox.write("in", "x");
    let mut command = ours(&sandbox, &[&folder]);
    command.args(["if=in", "status=none"]);
    assert_eq!(Ran::of(command).good().stdout, "x");
}

#[test]
fn without_another_dd_the_error_says_so() {
    let sandbox = Sandbox::new();
    let first = folder(&sandbox, "first", copy);
    let second = folder(&sandbox, "second", copy);
    let mut command = ours(&sandbox, &[&first]);
    command.args(["if=x"]).env("PATH", std::env::join_paths([&first, &second]).expect("path"));
    insta::assert_snapshot!("no-other-dd", Ran::of(command).all(&sandbox));
}

#[test]
fn help_version_and_commands_are_ours() {
    let sandbox = Sandbox::new();
    let folder = folder(&sandbox, "bin", copy);
    let run = |arguments: &[&str]| {
        let mut command = ours(&sandbox, &[&folder]);
        command.args(arguments);
        Ran::of(command).good().stdout
    };
    assert!(run(&["--help"]).contains("Usage: dd [OPTIONS] <COMMAND>"));
    assert!(run(&["--version"]).starts_with("delegate-doctor "));
    assert!(run(&["completions", "fish"]).contains("delegate-doctor"));
}
