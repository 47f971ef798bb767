//! What is made from the definitions of the command line: completions, manual pages, the reference.

use std::io::Write as _;
use std::process::{Command, Stdio};

use dd_tests::{Sandbox, workspace};

use crate::help::commands;

#[test]
fn completions_know_every_command() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.run(["completions", shell]).good().stdout;
        for command in commands() {
            let name = command.last().expect("a command has a name");
            assert!(script.contains(name.as_str()), "the script for {shell} does not know `{name}`");
        }
        assert!(script.contains("--python") || script.contains("-l python"), "{shell}");
    }
}

#[test]
fn the_completion_script_is_valid_bash() {
    let script = Sandbox::new().run(["completions", "bash"]).good().stdout;
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash starts");
    bash.stdin.take().expect("stdin").write_all(script.as_bytes()).expect("write");
    assert!(bash.wait().expect("bash ends").success());
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(["man", "--out", "a/man1"]).good();
    assert_eq!(ran.stdout, "");
    let expected = commands().len() + 1;
    assert_eq!(ran.stderr, format!("Wrote {expected} manual pages to `a/man1`\n"));
    for command in commands().into_iter().chain([Vec::new()]) {
        let mut name = vec!["delegate-doctor".to_owned()];
        name.extend(command);
        let name = name.join("-");
        let page = fs_err::read_to_string(sandbox.work().join(format!("a/man1/{name}.1"))).expect("page");
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
    let shown = sandbox.run(["man"]).good().stdout;
    let written = fs_err::read_to_string(sandbox.work().join("a/man1/delegate-doctor.1")).expect("page");
    assert_eq!(shown, written);
}

#[test]
fn manual_pages_in_a_place_that_cannot_be_written_are_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("file", "x");
    let ran = sandbox.run(["man", "--out", "file/man1"]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.starts_with("error: Failed to write manual pages\n  Caused by: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("file/man1"), "{}", ran.stderr);
}

#[test]
fn the_reference_is_fresh() {
    let path = workspace().join("docs/cli.md");
    let made = delegate_doctor::cli::reference_markdown();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|wish| wish == "always") {
        fs_err::write(&path, &made).expect("write");
    }
    let written = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(written == made, "docs/cli.md is stale: run `cargo xtask docs`");
}

#[test]
fn the_reference_lists_every_command() {
    let made = delegate_doctor::cli::reference_markdown();
    for command in commands() {
        assert!(made.contains(&format!("`delegate-doctor {}`", command.join(" "))), "{command:?}");
    }
}
