//! The two streams: colours, quiet, readers that go away, disks that are full.

use std::process::Stdio;

use dd_tests::{Ran, Sandbox};

const ESCAPE: char = '\u{1b}';

#[test]
fn colours_follow_the_terminal_the_environment_and_the_flag() {
    let sandbox = Sandbox::new();
    let coloured = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = sandbox.command(["doctor", "--python", "no-such-python"]);
        command.args(arguments).envs(variables.iter().copied());
        Ran::of(command).stdout.contains(ESCAPE)
    };
    assert!(!coloured(&[], &[]), "a pipe gets no colours");
    assert!(coloured(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "0")]));
    assert!(coloured(&["--color", "always"], &[]));
    assert!(!coloured(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn help_and_wrong_arguments_obey_the_colour_flag() {
    let sandbox = Sandbox::new();
    assert!(sandbox.run(["--color=always", "--help"]).good().stdout.contains(ESCAPE));
    assert!(!sandbox.run(["--help"]).good().stdout.contains(ESCAPE));
    assert!(sandbox.run(["--color=always", "wrong"]).stderr.contains(ESCAPE));
    assert!(!sandbox.run(["wrong"]).stderr.contains(ESCAPE));
}

#[test]
fn quiet_says_nothing_but_errors() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(["man", "--out", "man1", "--quiet"]).good();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    sandbox.write("file", "x");
    assert!(sandbox.run(["man", "--out", "file/x", "--quiet"]).stderr.starts_with("error: "));
}

#[test]
fn a_reader_that_goes_away_is_success() {
    let sandbox = Sandbox::new();
    for line in [&["completions", "zsh"][..], &["man"], &["--help"], &["--version"]] {
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        let mut command = sandbox.command(line);
        let output = command.stdout(writer).stderr(Stdio::piped()).spawn().expect("starts").wait_with_output();
        let output = output.expect("ends");
        assert!(output.status.success(), "{line:?}: {}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line:?}");
    }
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let sandbox = Sandbox::new();
    for line in [&["completions", "zsh"][..], &["man"], &["--help"]] {
        let full = fs_err::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let mut command = sandbox.command(line);
        let output = command.stdout(full.into_parts().0).output().expect("runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {stderr}");
        assert!(stderr.starts_with("error: Failed to write to standard output\n  Caused by: "), "{line:?}: {stderr}");
    }
}
