//! `profile`, on a recorded trace and on a model.

use std::path::PathBuf;

use dd_tests::{Ran, Sandbox, python, workspace};
use serde_json::Value;

/// Three traced runs of a small program with a delegate call and a softmax outside of it.
fn sample() -> PathBuf {
    workspace().join("tests/fixtures/runner/softmax_head.etdp")
}

/// `profile` of a recorded trace on a machine with nothing: no Python, no compiler, no programs at all.
fn recorded(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(["profile", "--etdump"]);
    command.args(arguments).env("PATH", sandbox.home());
    Ran::of(command)
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn number(evidence: &Value) -> f64 {
    assert_eq!(evidence["evidence"], "MEASURED", "{evidence}");
    evidence["value"].as_f64().expect("a number")
}

fn sum(rows: &Value, of: impl Fn(&Value) -> f64) -> f64 {
    rows.as_array().expect("rows").iter().map(of).sum()
}

/// Kernels, categories and the lines beside them must come to the method's own time.
fn adds_up(breakdown: &Value) {
    let method = number(&breakdown["method"]);
    let lines = number(&breakdown["unexplained_in_delegates"]) + number(&breakdown["between_instructions"]);
    for part in ["rows", "categories"] {
        let kernels = sum(&breakdown[part], |row| number(&row["time"]));
        assert!((kernels + lines - method).abs() <= 1e-9 * method, "{part}: {kernels} + {lines} is not {method}");
    }
}

#[test]
fn a_recorded_trace_is_shown_to_a_person() {
    let sandbox = Sandbox::new();
    let path = sample();
    let ran = recorded(&sandbox, &[path.to_str().expect("text"), "--recorded-on", "Pixel 8"]).good();
    let text = ran.stdout.replace(workspace().to_str().expect("text"), "[WORKSPACE]");
    insta::assert_snapshot!(text);
}

#[test]
fn a_recorded_trace_is_written_for_programs() {
    let sandbox = Sandbox::new();
    let path = sample();
    let path = path.to_str().expect("text");
    let document = json(&recorded(&sandbox, &[path, "--format", "json"]).good());
    assert_eq!((&document["schema"], &document["version"]), (&"delegate-doctor/profile".into(), &1.into()));
    let breakdown = &document["breakdown"];
    adds_up(breakdown);
    assert_eq!(breakdown["runs"], 3);
    assert_eq!(breakdown["rows"].as_array().expect("rows").len(), 5);
    assert_eq!(breakdown["unknown"], Value::Array(Vec::new()));
    assert_eq!(breakdown["bottlenecks"][0]["at_most"]["evidence"], "PROJECTED");
    // A slower clock makes everything take longer, and nothing take another share.
    let slower = json(&recorded(&sandbox, &[path, "--format", "json", "--ns-per-tick", "10"]).good());
    let (method, ten_times) = (number(&breakdown["method"]), number(&slower["breakdown"]["method"]));
    assert!((ten_times / method - 10.0).abs() < 1e-9, "{method} and {ten_times}");
    assert_eq!(breakdown["delegation"], slower["breakdown"]["delegation"]);

    let rows = recorded(&sandbox, &[path, "--format", "csv"]).good().stdout;
    let mut reader = csv::Reader::from_reader(rows.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 7, "five kernels and two lines");
    let times: f64 = rows.iter().map(|row| row[5].parse::<f64>().expect("a time")).sum();
    assert!((times - method).abs() < 1e-9 * method);
    assert_eq!((&rows[1][0], &rows[1][2]), ("Convolution (NHWC, F32) IGEMM #1", "Conv2D"));

    let page = recorded(&sandbox, &[path, "--format", "html"]).good().stdout;
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Convolution (NHWC, F32) IGEMM #1"));
    assert!(page.contains("id=\"timeline\""), "one run is drawn");

    let timeline = json(&recorded(&sandbox, &[path, "--format", "chrome"]).good());
    let events = timeline["traceEvents"].as_array().expect("events");
    assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), 8);
    assert!(events.iter().all(|event| event["dur"].as_f64().is_none_or(|time| time >= 0.0)));
}

#[test]
fn what_is_no_trace_is_refused_with_a_reason() {
    let sandbox = Sandbox::new();
    let bytes = fs_err::read(sample()).expect("sample");
    let cut = sandbox.write("cut.etdp", &bytes[..bytes.len() / 2]);
    let empty = sandbox.write("empty.etdp", b"");
    let folder = sandbox.work();
    let missing = folder.join("missing.etdp");
    for (path, reason) in [
        (&cut, "is not a valid ETDump"),
        (&empty, "the identifier `ED00` is missing"),
        (&folder, "is a folder"),
        (&missing, "No such file"),
    ] {
        let ran = recorded(&sandbox, &[path.to_str().expect("text")]);
        assert_eq!(ran.code(), 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(reason) && ran.stdout.is_empty(), "{}", ran.stderr);
    }
    let pipe = folder.join("pipe.etdp");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let ran = recorded(&sandbox, &[pipe.to_str().expect("text")]);
    assert_eq!(ran.code(), 2, "{}", ran.stderr);
    for tick in ["0", "-1", "nan", "inf"] {
        let sample = sample();
        let ran = recorded(&sandbox, &[sample.to_str().expect("text"), &format!("--ns-per-tick={tick}")]);
        assert_eq!(ran.code(), 2, "{tick}: {}", ran.stderr);
        assert!(ran.stderr.contains("makes no sense"), "{tick}: {}", ran.stderr);
    }
}

#[test]
fn the_options_of_a_recorded_trace_and_of_a_model_do_not_mix() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["profile"][..],
        &["profile", "model.py", "--etdump", "x.etdp"],
        &["profile", "--etdump", "x.etdp", "--target", "local"],
        &["profile", "--etdump", "x.etdp", "--out", "here"],
    ] {
        let ran = sandbox.run(arguments);
        assert_eq!(ran.code(), 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("Usage: "), "{arguments:?}: {}", ran.stderr);
    }
    for (option, value) in [("--target", "local"), ("--out", "here"), ("--threads", "2")] {
        let ran = sandbox.run(["profile", "x.etdp", option, value]);
        assert!(ran.stderr.contains(&format!("`{option}` is for a program that is run")), "{}", ran.stderr);
    }
}

#[test]
fn a_model_is_profiled_with_the_reason_of_every_fallback() {
    let sandbox = Sandbox::new();
    let model = workspace().join("tests/fixtures/models/softmax_over_channels.py");
    let mut command = sandbox.command(["profile", "--format", "json", "--out", "run"]);
    command.arg(&model).arg("--python").arg(&python().python);
    command.env("DELEGATE_DOCTOR_HOME", workspace().join("target/test-home"));
    let ran = Ran::of(command).good();
    let document = json(&ran);
    let breakdown = &document["breakdown"];
    adds_up(breakdown);
    let rows = breakdown["rows"].as_array().expect("rows");
    let softmax = rows.iter().find(|row| row["name"] == "_softmax.out").expect("the softmax");
    assert_eq!((&softmax["delegated"], &softmax["category"]), (&false.into(), &"Normalization".into()));
    assert!(rows.iter().any(|row| row["delegated"] == true && row["category"] == "Conv2D"));
    assert_eq!(breakdown["unknown"], Value::Array(Vec::new()), "every kernel has a category");
    let reason = &document["reasons"][0];
    assert_eq!((&reason["kernel"], &reason["instruction"]), (&"aten::_softmax.out".into(), &softmax["instruction"]));
    assert_eq!(reason["reason"]["code"], "constraint");
    assert!(number(&document["untraced"]) > 0.0 && document["program_bytes"].as_u64().expect("size") > 0);
    let kept = fs_err::read_to_string(sandbox.work().join("run/profile.json")).expect("kept");
    assert_eq!(serde_json::from_str::<Value>(&kept).expect("JSON"), document);
    let page = fs_err::read_to_string(sandbox.work().join("run/profile.html")).expect("page");
    assert!(page.contains("Outside of the delegate, and why") && page.contains("id=\"timeline\""));
    let run = fs_err::read_to_string(sandbox.work().join("run/timeline.json")).expect("timeline");
    assert!(serde_json::from_str::<Value>(&run).expect("JSON")["traceEvents"].is_array());
}

/// ExecuTorch's own Inspector names the operators of a trace with the record that `profile` keeps beside it.
#[test]
fn the_inspector_reads_the_record_beside_the_trace() {
    let sandbox = Sandbox::new();
    let model = workspace().join("tests/fixtures/models/softmax_over_channels.py");
    let mut command = sandbox.command(["profile", "--etrecord", "--out", "run"]);
    command.arg(&model).arg("--python").arg(&python().python);
    command.env("DELEGATE_DOCTOR_HOME", workspace().join("target/test-home"));
    Ran::of(command).good();
    let script = "from executorch.devtools import Inspector\n\
        rows = Inspector(etdump_path='run/original/trace.etdp', etrecord='run/original/etrecord.bin').to_dataframe()\n\
        found = rows[rows.event_name == 'native_call__softmax.out'].op_types.iloc[0]\n\
        print('operators', found)";
    let asked = std::process::Command::new(&python().python)
        .args(["-c", script])
        .current_dir(sandbox.work())
        .output()
        .expect("python");
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(said.contains("operators ['aten._softmax.default']"), "{said}{}", String::from_utf8_lossy(&asked.stderr));
    let mut command = sandbox.command(["profile", "--etrecord", "run/original/program.pte"]);
    command.env("DELEGATE_DOCTOR_HOME", workspace().join("target/test-home"));
    let ran = Ran::of(command);
    assert!(ran.stderr.contains("is lowered already") && ran.stderr.contains("hint: "), "{}", ran.stderr);
}

/// The page holds what real traces named; what the tables of categories say today must still be that.
#[test]
fn every_kernel_that_was_seen_has_the_category_of_the_page() {
    use delegate_doctor::profile::category::Category;

    let page = fs_err::read_to_string(workspace().join("docs/profiles.md")).expect("page");
    let (_, table) = page.split_once("## Kernels that were seen").expect("table");
    let mut names = 0;
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect();
        let (name, inside, category) = (cells[0], cells[1], cells[2]);
        let found = if inside.is_empty() { Category::of_kernel(name) } else { Category::of_delegate_operator(name) };
        assert_eq!(found.map(Category::name), Some(category), "{name}");
        names += 1;
    }
    assert!(names >= 150, "{names} names");
}
