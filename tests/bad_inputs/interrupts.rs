//! Ctrl-C and kill -9 in every stage, and going on afterwards.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use dd_tests::{Ran, Sandbox};
use rustix::process::{Pid, Signal, kill_process};

use crate::place::{fixture, nothing_half_written, status, unfinished, with_python};

/// Processes that belong to the sandbox: its folder is in their environment, which children inherit.
fn processes(sandbox: &Sandbox) -> Vec<u32> {
    let folder = sandbox.work();
    let mark = folder.to_str().expect("plain name").as_bytes();
    let mut found = Vec::new();
    for entry in fs_err::read_dir("/proc").expect("/proc").filter_map(Result::ok) {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Processes end while they are looked at; one that has ended has no environment.
        let environment = fs_err::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(mark.len()).any(|window| window == mark) {
            found.push(id);
        }
    }
    found
}

/// Runs until a line on stderr begins with `stage`, sends the signal, and gives the exit code and stderr.
fn stopped(sandbox: &Sandbox, arguments: &[&str], stage: &str, signal: Signal) -> (Option<i32>, String) {
    let mut command = with_python(sandbox, arguments);
    // The mark by which children are found again.
    command.env("PWD", sandbox.work());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let mut stderr = String::new();
    let mut reached = false;
    for line in lines.by_ref() {
        let line = line.expect("text");
        stderr.push_str(&line);
        stderr.push('\n');
        if line.starts_with(stage) {
            reached = true;
            break;
        }
    }
    assert!(reached, "`{stage}` was never reached: {stderr}");
    assert!(processes(sandbox).len() >= 2, "the process and a child are seen");
    let sent = Instant::now();
    kill_process(Pid::from_child(&child), signal).expect("signal");
    for line in lines {
        stderr.push_str(&line.expect("text"));
        stderr.push('\n');
    }
    let output = child.wait_with_output().expect("ends");
    assert!(output.stdout.is_empty(), "{stage}");
    assert!(sent.elapsed() < Duration::from_secs(30), "{stage}: {:?}", sent.elapsed());
    while !processes(sandbox).is_empty() {
        // A child that lost its parent notices it by itself.
        let patience = if signal == Signal::KILL { Duration::from_secs(60) } else { Duration::from_secs(10) };
        assert!(sent.elapsed() < patience, "{stage}: children live on: {:?}", processes(sandbox));
        std::thread::sleep(Duration::from_millis(50));
    }
    (output.status.code(), stderr)
}

fn gone_on(stage: &str, stderr: &str, reused: &[&str], made_again: &[&str]) {
    for line in reused {
        assert!(stderr.contains(line), "{stage} lacks `{line}`: {stderr}");
    }
    for line in made_again {
        assert!(!stderr.contains(line), "{stage} has `{line}`: {stderr}");
    }
}

const EXPORT: &str = "Took the exported program of this run folder";
const LOWER: &str = "Took the lowered program of an earlier run";
const TRACE: &str = "Took the trace of an earlier run";

/// One run folder, stopped in each stage in turn, and finished at last.
#[test]
fn an_interrupt_in_any_stage_leaves_a_run_that_goes_on() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", fixture("softmax_over_channels"));
    let run = sandbox.work().join("run");
    for (stage, place, reused, made_again) in [
        ("Exporting", "--out=run", &[][..], &[EXPORT][..]),
        ("Lowering for XNNPACK", "--resume=run", &[], &[EXPORT, LOWER]),
        ("Running and profiling", "--resume=run", &[EXPORT], &[LOWER, TRACE]),
        ("Running the original", "--resume=run", &[EXPORT, LOWER], &[TRACE]),
        ("Lowering 1 repaired", "--resume=run", &[EXPORT, LOWER, TRACE], &[]),
        ("Proving", "--resume=run", &[EXPORT, LOWER, TRACE], &[]),
        ("Comparing the speed", "--resume=run", &[EXPORT, LOWER, TRACE], &[]),
    ] {
        let (code, stderr) = stopped(&sandbox, &["net.py", place, "--no-cache"], stage, Signal::INT);
        assert_eq!(code, Some(130), "{stage}: {stderr}");
        assert!(stderr.contains("\nInterrupted\nhint: ") && !stderr.contains("error: "), "{stage}: {stderr}");
        gone_on(stage, &stderr, reused, made_again);
        unfinished(stage, &run);
    }
    finished(&sandbox, &run);
}

fn finished(sandbox: &Sandbox, run: &Path) {
    let ran = Ran::of(with_python(sandbox, ["net.py", "--resume=run", "--no-cache"]));
    // Whether a repair of so small a model is faster is not the question here.
    assert!([0, 1].contains(&ran.code()), "{}", ran.stderr);
    gone_on("the end", &ran.stderr, &[EXPORT, LOWER, TRACE], &[]);
    assert!(status(run).starts_with("REPAIR") || status(run) == "INCONCLUSIVE", "{}", status(run));
}

/// A process that is killed cannot clean up; its children end by themselves, and the next run goes on.
#[test]
fn a_killed_run_is_gone_on_with() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", fixture("softmax_over_channels"));
    let run = sandbox.work().join("run");
    for (stage, place) in
        [("Exporting", "--out=run"), ("Lowering for XNNPACK", "--resume=run"), ("Running the original", "--resume=run")]
    {
        let (code, stderr) = stopped(&sandbox, &["net.py", place, "--no-cache"], stage, Signal::KILL);
        assert_eq!(code, None, "{stage}: {stderr}");
        assert!(!run.join("report.json").exists());
    }
    // What a process killed in the middle of a file leaves behind.
    fs_err::write(run.join("original/.writing-1.pt2"), b"half").expect("write");
    finished(&sandbox, &run);
    nothing_half_written("a killed run", &run);
}
