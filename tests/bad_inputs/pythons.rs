//! Pythons that cannot be used.

use std::path::PathBuf;
use std::process::Command;

use dd_tests::{Ran, Sandbox, make_executable, python};

use crate::place::{Expected, told, unfinished};

/// A virtual environment without any package, and beside it the folder its packages would lie in.
fn bare(sandbox: &Sandbox, name: &str) -> PathBuf {
    let folder = sandbox.work().join(name);
    let made = Command::new(python().python).args(["-m", "venv", "--without-pip"]).arg(&folder).status();
    assert!(made.expect("Python starts").success());
    let versions = fs_err::read_dir(folder.join("lib")).expect("lib");
    let version = versions.map(|entry| entry.expect("entry").path()).next().expect("a version");
    version.join("site-packages")
}

/// Metadata of a package that is not there.
fn pretend(packages: &std::path::Path, name: &str, version: &str) {
    let folder = packages.join(format!("{name}-{version}.dist-info"));
    fs_err::create_dir_all(&folder).expect("folder");
    let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    fs_err::write(folder.join("METADATA"), text).expect("write");
}

#[test]
fn a_python_that_cannot_be_used_is_told_with_a_way_out() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", "");
    bare(&sandbox, "without_torch");
    pretend(&bare(&sandbox, "fake_torch_only"), "torch", "2.15.0");
    let old = bare(&sandbox, "fake_old_executorch");
    pretend(&old, "torch", "2.10.0");
    pretend(&old, "executorch", "1.2.0");
    sandbox.write("text", "no program");
    for (name, script) in [
        ("fake_old_python", "echo '{\"python\":\"3.8.20\"}'"),
        ("fake_talker", "echo hello"),
        ("fake_crash", "echo the library is gone >&2; exit 127"),
    ] {
        make_executable(&sandbox.write(name, format!("#!/bin/sh\n{script}\n")));
    }
    for (name, words, hint) in [
        ("nowhere/python", "Failed to run `nowhere/python` as a Python interpreter", "`--python`"),
        ("text", "Failed to run `text` as a Python interpreter", "`--python`"),
        ("./fake_talker", "it does not answer like Python", "`--python`"),
        ("./fake_crash", "the library is gone", "`--python`"),
        ("./fake_old_python", "Python 3.8.20 at `./fake_old_python` is not supported", "supported version"),
        ("without_torch", "has no package `torch`", "-m pip install torch executorch"),
        ("fake_torch_only", "has no package `executorch`", "-m pip install torch executorch"),
        (
            "fake_old_executorch",
            "executorch 1.2.0 at `fake_old_executorch/bin/python` is too old",
            "--upgrade executorch",
        ),
    ] {
        let run = format!("run-{}", name.replace(['/', '.'], "-"));
        let ran = sandbox.run(["optimize", "net.py", "--python", name, "--out", &run]);
        told(name, &ran, &Expected { words: &[words], hint });
        unfinished(name, &sandbox.work().join(run));
    }
    let mut command = sandbox.command(["optimize", "net.py", "--out", "run"]);
    command.env("PATH", sandbox.work().join("nothing"));
    let words = &["Found no Python 3.10 to 3.13 on PATH"];
    told("no Python", &Ran::of(command), &Expected { words, hint: "Install Python 3.11" });
    unfinished("no Python", &sandbox.work().join("run"));
}
