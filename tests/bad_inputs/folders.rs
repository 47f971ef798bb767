//! Run folders that cannot be used.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use dd_tests::{Sandbox, make_executable};

use crate::place::{Expected, files, state, told};

/// A sandbox with two model files and an interpreter that says when it started and never answers.
fn hanging() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", "");
    sandbox.write("other.py", "");
    make_executable(&sandbox.write("python", "#!/bin/sh\necho $$ > started\nexec sleep 600\n"));
    sandbox
}

/// Begins a run that waits for its Python.
fn begun(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    let started = sandbox.work().join("started");
    let _ = fs_err::remove_file(&started);
    let mut command = sandbox.command(["optimize", "--python", "./python"]);
    let child = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let begin = Instant::now();
    while !started.exists() {
        assert!(begin.elapsed() < Duration::from_secs(120), "Python was not started");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn interrupted(mut child: Child) {
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("signal");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
}

#[test]
fn a_place_that_cannot_be_a_run_folder_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", "");
    sandbox.write("photos/a.jpg", "x");
    sandbox.write("file", "x");
    let before = files(&sandbox.work());
    for (out, words, hint) in [
        ("photos", "`photos` is not empty and holds no run", "empty or new folder with `--out`"),
        ("file", "Failed to use the run folder `file`", "A file stands where the folder should be"),
        ("file/run", "Failed to use the run folder `file/run`", "A file stands where the folder should be"),
        ("/sys/delegate-doctor-run", "Failed to use the run folder `/sys/delegate-doctor-run`", "`--out`"),
        ("/proc/1/delegate-doctor-run", "Failed to use the run folder `/proc/1/delegate-doctor-run`", "`--out`"),
        ("/dev/null/run", "Failed to use the run folder `/dev/null/run`", "A file stands where the folder should be"),
    ] {
        let ran = sandbox.run(["optimize", "net.py", "--out", out]);
        told(out, &ran, &Expected { words: &[words], hint });
    }
    for (resume, words) in [
        ("--resume", "There is no run to resume in `delegate-doctor-runs/net`"),
        ("--resume=photos", "There is no run to resume in `photos`"),
        ("--resume=nowhere", "There is no run to resume in `nowhere`"),
        ("--resume=file", "There is no run to resume in `file`"),
    ] {
        let ran = sandbox.run(["optimize", "net.py", resume]);
        told(resume, &ran, &Expected { words: &[words], hint: "Start without `--resume`" });
    }
    assert_eq!(files(&sandbox.work()), before, "nothing was made or taken away");
}

#[test]
fn two_runs_do_not_share_a_folder() {
    let sandbox = hanging();
    let first = begun(&sandbox, &["net.py", "--out", "run"]);
    for arguments in [["net.py", "--out=run"], ["net.py", "--resume=run"]] {
        let ran = sandbox.run(["optimize"].iter().chain(&arguments));
        let words = &["Another process is working in `run`"];
        told(arguments[1], &ran, &Expected { words, hint: "Wait for it to end" });
    }
    for command in ["report", "explain"] {
        let ran = sandbox.run([command, "run"]);
        told(command, &ran, &Expected { words: &["The run is still going on: `run`"], hint: "Wait for it to end" });
    }
    interrupted(first);
    assert_eq!(state(&sandbox.work().join("run")), "running");
    let ran = sandbox.run(["report", "run"]);
    told("unfinished", &ran, &Expected { words: &["did not come as far"], hint: "--resume=run`" });
    let ran = sandbox.run(["optimize", "net.py", "--resume=run", "--seed", "5", "--skip", "dd-001"]);
    let words = &["`run` was begun with other settings: `seed` was `0`, now `5`, `skip` was not set, now `dd-001`"];
    told("other settings", &ran, &Expected { words, hint: "with the settings it was begun with" });
    let ran = sandbox.run(["optimize", "net.py", "--out=run"]);
    told("occupied", &ran, &Expected { words: &["`run` already holds a run"], hint: "`--resume=run`" });
    interrupted(begun(&sandbox, &["net.py", "--resume=run"]));
    // Runs that choose their own folders never meet.
    let (one, two) = (begun(&sandbox, &["net.py"]), begun(&sandbox, &["net.py"]));
    interrupted(one);
    interrupted(two);
    // Nothing was finished in them, so nothing is left of them.
    assert!(!sandbox.work().join("delegate-doctor-runs").exists());
}

#[test]
fn a_record_that_does_not_fit_is_refused_and_kept() {
    let sandbox = hanging();
    interrupted(begun(&sandbox, &["net.py", "--out", "run"]));
    let path = sandbox.work().join("run/run.json");
    let whole = fs_err::read_to_string(&path).expect("record");
    let newer = whole.replace("\"version\": 1", "\"version\": 99");
    assert_ne!(newer, whole);
    for (name, model, content, words, hint) in [
        (
            "another model",
            "other.py",
            &whole[..],
            "The run in `run` is of `net.py`, not of `other.py`",
            "with `net.py`",
        ),
        ("newer", "net.py", &newer, "was written by a newer version (99;", "start a new run"),
        ("torn", "net.py", &whole[..whole.len() / 2], "Failed to understand `run/run.json`", "Start a new run"),
        ("empty", "net.py", "", "Failed to understand `run/run.json`", "Start a new run"),
    ] {
        fs_err::write(&path, content).expect("write");
        let ran = sandbox.run(["optimize", model, "--resume=run"]);
        told(name, &ran, &Expected { words: &[words], hint });
        assert_eq!(fs_err::read_to_string(&path).expect("record"), content, "{name}");
    }
    fs_err::write(&path, &whole).expect("write");
    // The same model by another name.
    interrupted(begun(&sandbox, &["../project/net.py", "--resume=run"]));
}
