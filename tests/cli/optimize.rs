//! `optimize` as far as it goes without Python: settings, places, an interrupt.

use std::process::Stdio;
use std::time::{Duration, Instant};

use dd_tests::{Sandbox, make_executable};

/// A sandbox with a model file and an interpreter that never answers.
fn hanging() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", "def delegate_doctor_model(): ...\n");
    make_executable(&sandbox.write("python", "#!/bin/sh\necho $$ > started\nexec sleep 600\n"));
    sandbox
}

#[test]
fn settings_that_make_no_sense_are_named_before_any_work() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", "");
    let mut told = String::new();
    for line in [
        &["optimize"][..],
        &["optimize", "net.py", "--min-gain", "0.5"],
        &["optimize", "net.py", "--min-share", "2"],
        &["optimize", "net.py", "--threads", "0"],
        &["optimize", "net.py", "--threads", "many"],
        &["optimize", "net.py", "--max-seconds=-3"],
        &["optimize", "net.py", "--memory-limit", "much"],
        &["optimize", "net.py", "--target", "phone"],
        &["optimize", "net.py", "--memory-limit", "8"],
        &["optimize", "net.py", "--rules", "nowhere"],
        &["optimize", "net.py", "--resume", "--out", "x"],
        &["optimize", "missing.py"],
        &["optimize", "picture.png"],
        &["optimize", "net.py", "--resume"],
        &["optimize", "net.py", "--resume=nowhere"],
    ] {
        let ran = sandbox.run(line);
        assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""), "{line:?}");
        told.push_str(&format!("$ delegate-doctor {}\n{}\n", line.join(" "), sandbox.plain(&ran.stderr)));
    }
    insta::assert_snapshot!("optimize-wrong-settings", told);
    let left: Vec<_> = fs_err::read_dir(sandbox.work()).expect("folder").collect();
    assert_eq!(left.len(), 1, "nothing was made: {left:?}");
}

#[test]
fn an_unusable_python_is_told_with_a_way_out() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", "");
    let ran = sandbox.run(["optimize", "net.py", "--python", "no-such-python"]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("error: ") && ran.stderr.contains("`no-such-python`"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
}

#[test]
fn an_interrupt_ends_the_run_and_its_children() {
    let sandbox = hanging();
    let mut command = sandbox.command(["optimize", "net.py", "--python"]);
    command.arg(sandbox.work().join("python")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("starts");
    let started = sandbox.work().join("started");
    let begun = Instant::now();
    let python = loop {
        let text = fs_err::read_to_string(&started).unwrap_or_default();
        if let Ok(id) = text.trim().parse::<i32>() {
            break id;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "Python was not started");
        std::thread::sleep(Duration::from_millis(20));
    };
    let id = |raw: i32| rustix::process::Pid::from_raw(raw).expect("process id");
    let own = id(i32::try_from(child.id()).expect("process id"));
    rustix::process::kill_process(own, rustix::process::Signal::INT).expect("signal");
    let output = child.wait_with_output().expect("ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.ends_with("\nInterrupted\n") && !stderr.contains("error:") && !stderr.contains("hint:"), "{stderr}");
    assert!(output.stdout.is_empty());
    assert!(!sandbox.work().join("delegate-doctor-runs").exists(), "nothing was finished, so nothing is left");
    assert!(rustix::process::test_kill_process(id(python)).is_err(), "the child lives on");
}
