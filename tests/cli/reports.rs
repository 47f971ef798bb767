//! `report` and `explain` over the committed reports of version 1.

use std::path::PathBuf;

use dd_tests::{Ran, Sandbox, make_executable, workspace};

fn fixture(name: &str) -> PathBuf {
    workspace().join("tests/fixtures/reports/v1").join(format!("{name}.json"))
}

/// A sandbox with a run folder of this report.
fn with_run(name: &str, folder: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(&format!("{folder}/report.json"), fs_err::read(fixture(name)).expect("fixture"));
    sandbox
}

/// The record of a finished run of a model file.
fn record(sandbox: &Sandbox, folder: &str, model: &str) {
    let record = serde_json::json!({
        "version": 1, "tool": "0.1.0", "model": model, "source": sandbox.work().join(model), "command": [],
        "created": "2026-11-29T12:00:00Z", "state": "finished",
    });
    sandbox.write(&format!("{folder}/run.json"), record.to_string());
}

#[test]
fn a_run_is_found_by_its_folder_its_report_and_its_model() {
    let sandbox = with_run("accepted", "delegate-doctor-runs/net-2");
    sandbox.write("some/where/net.py", "");
    sandbox.write("else/where/net.py", "");
    for (number, model) in
        [(1, "some/where/net.py"), (2, "some/where/net.py"), (3, "some/where/net.py"), (4, "else/where/net.py")]
    {
        record(&sandbox, &format!("delegate-doctor-runs/net-{number}"), model);
    }
    sandbox.write("delegate-doctor-runs/net-1/report.json", "{}");
    sandbox.write("delegate-doctor-runs/net-4/report.json", "{}");
    sandbox.write("delegate-doctor-runs/net-10x/report.json", "{}");
    let show = |typed: &str| sandbox.run(["report", typed]).good().stdout;
    let by_folder = show("delegate-doctor-runs/net-2");
    assert!(by_folder.contains("REPAIRS_ACCEPTED"), "{by_folder}");
    assert_eq!(by_folder, show("delegate-doctor-runs/net-2/report.json"));
    assert_eq!(by_folder, show("some/where/net.py"), "the newest run of this model with a report");
    let ran = sandbox.run(["report", "nowhere/net.py"]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""), "another file of the same name has its own runs");
}

#[test]
fn the_page_is_one_file_and_opens_in_the_browser_that_is_named() {
    let sandbox = with_run("accepted", "run");
    let page = sandbox.run(["report", "run", "--format", "html"]).good().stdout;
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{:.80}", page);
    assert!(!sandbox.work().join("run/report.html").exists(), "`--format` writes to stdout only");
    let browser = sandbox.write("browser", "#!/bin/sh\necho \"$1\" > opened\n");
    make_executable(&browser);
    let mut command = sandbox.command(["report", "run", "--open"]);
    command.env("BROWSER", &browser);
    let ran = Ran::of(command).good();
    assert_eq!(ran.stdout, "");
    assert_eq!(fs_err::read_to_string(sandbox.work().join("opened")).expect("opened").trim(), "run/report.html");
    assert_eq!(fs_err::read_to_string(sandbox.work().join("run/report.html")).expect("page"), page);
}

#[test]
fn without_a_display_the_page_is_written_and_its_place_is_told() {
    let sandbox = with_run("accepted", "run");
    let ran = sandbox.run(["report", "run", "--open"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("hint: Open it yourself: `run/report.html`"), "{}", ran.stderr);
    assert!(sandbox.work().join("run/report.html").exists());
}

#[test]
fn the_json_form_is_the_stored_report() {
    let sandbox = with_run("rejected", "run");
    let ran = sandbox.run(["report", "run", "--format", "json"]).good();
    let shown: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let stored: serde_json::Value =
        serde_json::from_slice(&fs_err::read(fixture("rejected")).expect("fixture")).expect("JSON");
    assert_eq!(shown, stored);
    assert_eq!(ran.stderr, "");
}

#[test]
fn explain_answers_about_a_node_and_a_rule_whatever_its_case() {
    let sandbox = with_run("accepted", "run");
    let all = sandbox.run(["explain", "run"]).good().stdout;
    assert!(all.contains("softmax"), "{all}");
    let rule = |id: &str| sandbox.run(["explain", "run", "--rule", id]).good().stdout;
    assert_eq!(rule("dd-001"), rule("DD-001"));
    let node = sandbox.run(["explain", "run", "--node", "softmax"]).good().stdout;
    assert!(node.contains("softmax"), "{node}");
}

#[test]
fn runs_that_cannot_be_shown_are_told_apart() {
    let sandbox = with_run("accepted", "run");
    sandbox.write("begun/run.json", "{}");
    sandbox.write("photos/a.jpg", "x");
    sandbox.write("broken/report.json", "{\"schema\": ");
    sandbox.write("foreign/report.json", "{\"schema\": \"something/else\"}");
    sandbox.write("newer/report.json", "{\"schema\": \"delegate-doctor/report\", \"version\": 99}");
    let mut told = String::new();
    for line in [
        &["report", "never-run.py"][..],
        &["report", "begun"],
        &["report", "photos"],
        &["report", "missing.json"],
        &["report", "broken"],
        &["report", "foreign"],
        &["report", "newer"],
        &["explain", "run", "--node", "no_such_node"],
        &["explain", "run", "--rule", "dd-999"],
    ] {
        let ran = sandbox.run(line);
        assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""), "{line:?}");
        told.push_str(&format!("$ delegate-doctor {}\n{}\n", line.join(" "), sandbox.plain(&ran.stderr)));
    }
    insta::assert_snapshot!("runs-that-cannot-be-shown", told);
}

#[test]
fn the_project_file_says_where_runs_are() {
    let sandbox = with_run("accepted", "results/net-7");
    sandbox.write("delegate-doctor.toml", "runs = 'results'\n");
    sandbox.write("net.py", "");
    record(&sandbox, "results/net-7", "net.py");
    sandbox.run(["report", "net.py"]).good();
}

#[test]
fn colours_are_removed_off_a_terminal() {
    let sandbox = with_run("accepted", "run");
    assert!(!sandbox.run(["report", "run"]).good().stdout.contains('\u{1b}'));
    assert!(sandbox.run(["report", "run", "--color", "always"]).good().stdout.contains('\u{1b}'));
}

#[test]
fn a_hostile_report_writes_no_control_characters() {
    let sandbox = with_run("hostile", "run");
    for line in [&["report", "run"][..], &["explain", "run"]] {
        let stdout = sandbox.run(line).good().stdout;
        let bad = stdout.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(bad, None, "{line:?}");
    }
}
