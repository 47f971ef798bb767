//! Recordings of other tools: read on a machine without Python, refused with a reason when they are damaged.

use std::path::{Path, PathBuf};

use dd_tests::{Ran, Sandbox, workspace};
use delegate_doctor::hint::Hint as _;
use delegate_doctor::profile::category::Category;
use delegate_doctor::recorded::{self, Error, Reading};
use delegate_doctor::report::figures::number;
use serde_json::Value;

fn fixture(name: &str) -> String {
    workspace().join("tests/fixtures/recorded").join(name).display().to_string()
}

/// The real binary without any program on its path.
fn run(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(arguments);
    command.env("PATH", sandbox.home());
    Ran::of(command)
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn category(document: &delegate_doctor::report::breakdown::ProfileDocument, wanted: Category) -> f64 {
    let total = document.breakdown.categories.iter().find(|total| total.category == Some(wanted));
    number(&total.unwrap_or_else(|| panic!("{}", wanted.name())).time)
}

#[test]
fn an_experiment_of_the_kit_is_read_from_its_timeline() {
    let found = recorded::read(&fixture("kit/manifest.json#sme2_off"), &Reading::default()).expect("an experiment");
    let document = found.document;
    assert_eq!((document.breakdown.runs, document.threads), (3, Some(1)));
    assert!((category(&document, Category::Conv2d) - 4.04).abs() < 1e-6);
    assert!((category(&document, Category::Gemm) - 2.02).abs() < 1e-6);
    let outside: Vec<&str> =
        document.breakdown.rows.iter().filter(|row| !row.delegated).map(|row| row.name.as_str()).collect();
    assert_eq!(outside, ["_softmax.out"]);
    let instructions: Vec<i64> = document.breakdown.rows.iter().map(|row| row.instruction).collect();
    assert_eq!(instructions, [0, 0, 0, 1, 2, 2], "a call holds what comes before it");
    let (trace, ns_per_tick) = found.trace.expect("events");
    assert_eq!((trace.runs.len(), ns_per_tick), (3, 1.0));
}

#[test]
fn totals_say_that_they_are_totals() {
    for name in ["inspector.tsv", "kit/sme2_off/toy_cnn_sme2_off_t1_exec_ops_stats.csv"] {
        let found = recorded::read(&fixture(name), &Reading::default()).expect(name);
        assert!(found.trace.is_none(), "{name}");
        assert!(found.document.notes[0].contains("one number for each event"), "{name}");
        assert!(category(&found.document, Category::Conv2d) > 0.0, "{name}");
        assert!(category(&found.document, Category::Normalization) > 0.0, "{name}");
    }
    let summary = recorded::read(&fixture("kit/analysis_summary.json#off"), &Reading::default()).expect("summary");
    assert_eq!(category(&summary.document, Category::DataMovement), 0.3);
    assert!(summary.document.notes[0].contains("Only totals of categories"));
}

/// What ExecuTorch's Inspector says of a trace, and the trace itself.
#[test]
fn the_inspector_and_its_trace_tell_the_same() {
    let table = recorded::read(&fixture("inspector.tsv"), &Reading::default()).expect("table").document;
    let path = workspace().join("tests/fixtures/runner/softmax_head.etdp").display().to_string();
    let trace = recorded::read(&path, &Reading::default()).expect("trace").document;
    for wanted in [Category::Conv2d, Category::Normalization] {
        let (a, b) = (category(&table, wanted), category(&trace, wanted));
        assert!((a - b).abs() < 0.01 * b, "{}: {a} and {b}", wanted.name());
    }
    assert!((number(&table.breakdown.method) - number(&trace.breakdown.method)).abs() < 1e-6);
}

#[test]
fn numbers_that_nobody_measured_are_refused() {
    let sandbox = Sandbox::new();
    let ran = run(&sandbox, &["profile", &fixture("armfit_made_up.json")]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("were not measured: the file itself says so"), "{}", ran.stderr);
    let side = json(&run(&sandbox, &["profile", &fixture("armfit.json#sme2"), "--format", "json"]).good());
    assert_eq!(side["breakdown"]["method"]["value"], 9.6);
    assert_eq!(side["breakdown"]["categories"][0]["kernels"], 12);
}

#[test]
fn off_and_on_are_compared_from_one_manifest() {
    let sandbox = Sandbox::new();
    let kit = fixture("kit/manifest.json");
    let text = run(&sandbox, &["compare", &kit, "--recorded-on", "Apple M4"]).good().stdout;
    insta::assert_snapshot!(text.replace(workspace().to_str().expect("text"), "[WORKSPACE]"));
    let document = json(&run(&sandbox, &["compare", &kit, "--format", "json"]).good());
    assert_eq!(document["schema"], "delegate-doctor/comparison");
    assert_eq!(document["times_not_compared"], Value::Null);
    let ratio = document["method"]["ratio"]["value"].as_f64().expect("a ratio");
    assert!((ratio - 2.0).abs() < 0.01, "{ratio}");
    assert_eq!(document["top"][1], "_softmax.out");
    let grew: Vec<&str> =
        document["grew"].as_array().expect("list").iter().filter_map(|it| it["category"].as_str()).collect();
    assert_eq!(grew, ["Elementwise", "Normalization", "DataMovement"]);
    let rows = run(&sandbox, &["compare", &kit, "--format", "csv"]).good().stdout;
    assert_eq!(rows.lines().count(), 1 + 1 + 5 + 5, "{rows}");
}

#[test]
fn what_sme2_may_gain_is_a_range_and_never_measured() {
    let sandbox = Sandbox::new();
    let off = fixture("kit/manifest.json#sme2_off");
    let document = json(&run(&sandbox, &["profile", &off, "--project", "sme2", "--format", "json"]).good());
    let projection = &document["projection"];
    for figure in [&projection["method"], &projection["ratio"], &projection["categories"][0]["time"]] {
        assert_eq!(figure["evidence"], "PROJECTED", "{figure}");
        assert!(figure["low"].as_f64() <= figure["high"].as_f64() && figure["value"].is_null(), "{figure}");
    }
    let plain = json(&run(&sandbox, &["profile", &off, "--format", "json"]).good());
    assert!(plain.get("projection").is_none(), "only when asked for");
    let text = run(&sandbox, &["profile", &off, "--project", "sme2"]).good().stdout;
    let (measured, projected) = text.split_once("With SME2, PROJECTED and not measured").expect("apart");
    assert!(!measured.contains("SME2") && !projected.contains("MEASURED"), "{text}");
}

#[test]
fn what_is_no_recording_is_refused_with_a_next_step() {
    let sandbox = Sandbox::new();
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty.csv", b"", "neither a trace, JSON nor a table"),
        ("empty.json", b"", "neither a trace, JSON nor a table"),
        ("other.csv", b"a,b\n1,2\n", "neither a trace, JSON nor a table"),
        ("other.json", b"{\"a\": 1}", "of no kind that is known"),
        ("broken.json", b"{\"results\": [", "EOF while parsing"),
        ("report.json", b"{\"schema\": \"delegate-doctor/report\"}", "report of an optimization"),
        ("new.json", b"{\"schema\": \"delegate-doctor/profile\", \"version\": 9}", "version 9"),
        ("none.json", b"{\"results\": []}", "lists no experiment"),
        ("time.csv", b"run_index,name,duration_ms\n0,Method::execute,fast\n", "line 2: `fast` is no time"),
        ("minus.csv", b"run_index,name,duration_ms\n0,Method::execute,-3\n", "-3 is no time"),
        ("run.csv", b"run_index,name,duration_ms\nx,Method::execute,3\n", "`x` is no number of a run"),
        ("header.csv", b"run_index,name,duration_ms\n", "a header and no events"),
        ("short.csv", b"run_index,name,duration_ms\n0,Method::execute\n", "line 2: it has 2 columns"),
        (
            "failed.json",
            b"{\"results\": [{\"experiment\": \"a\", \"status\": \"failed\"}]}",
            "the status of `a` is `failed`",
        ),
        ("cut.etdp", b"\x10\0\0\0\x0c\0\0\0ED00", "is not a valid ETDump"),
        ("kit.json", b"{\"category_totals_ms\": {\"Magic\": 1.0}}", "`Magic` is no category"),
        ("nan.json", b"{\"category_totals_ms\": {\"GEMM\": -1.0}}", "negative or no number"),
    ];
    for (name, content, reason) in cases {
        let path = sandbox.write(name, content);
        let ran = run(&sandbox, &["profile", path.to_str().expect("text")]);
        assert_eq!(ran.code(), 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(reason) && ran.stdout.is_empty(), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{name}: {}", ran.stderr);
    }
    let ran = run(&sandbox, &["profile", &fixture("kit/manifest.json#sme3")]);
    assert!(ran.stderr.contains("holds no profile `sme3`") && ran.stderr.contains("#sme2_off"), "{}", ran.stderr);
    let ran = run(&sandbox, &["compare", &fixture("inspector.tsv")]);
    assert!(ran.stderr.contains("holds one profile: there is nothing to compare it with"), "{}", ran.stderr);
    let ran = run(&sandbox, &["profile", &format!("{}#x", fixture("inspector.tsv"))]);
    assert!(ran.stderr.contains("holds one profile: there is nothing to pick in it"), "{}", ran.stderr);
}

/// Recordings that were made at different times differ by whatever happened in between.
#[test]
fn two_recordings_are_never_called_different_beyond_doubt() {
    let sandbox = Sandbox::new();
    let (off, on) = (fixture("kit/manifest.json#sme2_off"), fixture("kit/manifest.json#sme2_on"));
    let named = json(&run(&sandbox, &["compare", &off, &on, "--recorded-on", "Apple M4", "--format", "json"]).good());
    assert_eq!(named["times_not_compared"], Value::Null);
    assert_eq!(named["method"]["significant"], Value::Null, "the intervals are apart, and so are the moments");
    assert_eq!(named["categories"][2]["change"]["significant"], false);
    assert!(named["notes"][0].as_str().is_some_and(|note| note.contains("at different times")), "{}", named["notes"]);
    let nameless = json(&run(&sandbox, &["compare", &off, &on, "--format", "json"]).good());
    let why = nameless["times_not_compared"].as_str().expect("a reason");
    assert!(why.contains("--recorded-on") && nameless["method"]["ratio"].is_null(), "{why}");
    // One run has no interval.
    for (name, time) in [("a.csv", "10.1"), ("b.csv", "10.0")] {
        sandbox.write(name, format!("run_index,name,duration_ms\n0,Method::execute,{time}\n"));
    }
    let single = json(&run(&sandbox, &["compare", "a.csv", "b.csv", "--recorded-on", "X", "--format", "json"]).good());
    assert_eq!(single["method"]["significant"], Value::Null);
}

#[test]
fn what_is_not_known_is_not_zero() {
    let sandbox = Sandbox::new();
    let side = fixture("armfit.json#sme2");
    let document = json(&run(&sandbox, &["profile", &side, "--format", "json"]).good());
    for unknown in ["delegation", "layout_conversion", "unexplained_in_delegates"] {
        assert_eq!(document["breakdown"][unknown]["value"], "NaN", "{unknown}");
    }
    let rows = run(&sandbox, &["profile", &side, "--format", "csv"]).good().stdout;
    assert!(rows.contains("(all of Conv2D),,Conv2D,,,6,,,0.625,MEASURED"), "{rows}");
    assert!(rows.contains("(in delegates, not explained by their kernels)\",,,,,,,,,MEASURED"), "{rows}");
    let text = run(&sandbox, &["profile", &side]).good().stdout;
    assert!(!text.contains("In delegates") && !text.contains("Layout"), "{text}");
}

#[test]
fn names_that_attack_a_spreadsheet_or_a_terminal_are_harmless() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(300_000);
    let path = sandbox.write(
        "t.csv",
        format!("run_index,name,duration_ms,delegate_backend\n0,=1+1,1,X\n0,\u{1b}[31mred,1,X\n0,{long},1,X\n0,Method::execute,9,\n"),
    );
    let path = path.to_str().expect("text");
    let rows = run(&sandbox, &["profile", path, "--format", "csv"]).good().stdout;
    assert!(rows.contains("'=1+1,true") && !rows.contains('\u{1b}'), "{}", &rows[..300]);
    let text = run(&sandbox, &["profile", path]).good().stdout;
    assert!(!text.contains('\u{1b}') && text.len() < 10_000, "{} bytes", text.len());
}

#[test]
fn a_profile_with_impossible_times_is_refused() {
    let sandbox = Sandbox::new();
    let good = json(&run(&sandbox, &["profile", &sample(), "--format", "json"]).good());
    type Change = fn(&mut Value);
    let changes: [Change; 5] = [
        |it| it["breakdown"]["method"]["value"] = (-1.0).into(),
        |it| it["breakdown"]["method"]["interval"] = serde_json::json!({"low": 9.0, "high": 1.0, "confidence": 0.9}),
        |it| it["breakdown"]["method"]["unit"] = "s".into(),
        |it| it["breakdown"]["rows"][0]["time"]["value"] = 1e300.into(),
        |it| it["breakdown"]["runs"] = 0.into(),
    ];
    for change in changes {
        let mut bad = good.clone();
        change(&mut bad);
        let path = sandbox.write("bad.json", bad.to_string());
        let ran = run(&sandbox, &["profile", path.to_str().expect("text")]);
        assert_eq!(ran.code(), 2, "{}", ran.stdout);
        assert!(ran.stderr.contains("cannot be understood"), "{}", ran.stderr);
    }
}

/// A minimal file of the kit's own tests: the method and nothing else.
#[test]
fn a_timeline_of_the_method_alone_is_a_profile_without_kernels() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("x.csv", "run_index,name,duration_ms\n0,Method::execute,12.3\n1,Method::execute,12.1\n");
    let document = json(&run(&sandbox, &["profile", path.to_str().expect("text"), "--format", "json"]).good());
    assert_eq!((&document["breakdown"]["runs"], &document["breakdown"]["rows"]), (&2.into(), &Value::Array(vec![])));
    assert_eq!(document["insights"], Value::Array(vec![]), "nothing is worth saying but where nothing is known");
}

#[test]
fn a_dump_of_a_hundred_thousand_events_is_a_profile() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("large.etdp", dd_tests::etdump::dump(10, 3_333));
    let document = json(&run(&sandbox, &["profile", path.to_str().expect("text"), "--format", "json"]).good());
    assert_eq!(document["breakdown"]["rows"].as_array().map(Vec::len), Some(2 * 3_333));
    assert_eq!(document["breakdown"]["runs"], 10);
    assert_eq!(document["breakdown"]["delegation"]["value"], 0.5);
}

/// The folder of a run of `optimize` says itself where it ran and which repair was accepted last.
#[test]
fn the_run_folder_of_an_optimization_is_compared_with_itself() {
    let sandbox = Sandbox::new();
    let trace = fs_err::read(workspace().join("tests/fixtures/runner/softmax_head.etdp")).expect("trace");
    let report = serde_json::json!({
        "schema": "delegate-doctor/report",
        "setting": {
            "target": { "kind": "local", "name": "this host (x86-64, not Arm)", "architecture": "x86_64", "physical_arm": false },
            "threads": 2,
        },
        "trials": [
            { "round": 1, "rule": { "id": "dd-001" }, "outcome": "ACCEPTED" },
            { "round": 2, "rule": { "id": "dd-002" }, "outcome": "REJECTED" },
        ],
    });
    for folder in ["run/original", "run/rounds/1/dd-001", "run/rounds/2/dd-002"] {
        fs_err::create_dir_all(sandbox.work().join(folder)).expect("folder");
    }
    for place in ["run/original", "run/rounds/1/dd-001"] {
        sandbox.write(&format!("{place}/trace.etdp"), &trace);
        sandbox.write(&format!("{place}/trace.json"), r#"{ "version": 1, "ns_per_tick": 2.0 }"#);
    }
    sandbox.write("run/report.json", report.to_string());
    let document = json(&run(&sandbox, &["compare", "run", "--format", "json"]).good());
    assert_eq!(document["before"]["target"]["name"], "this host (x86-64, not Arm)");
    assert_eq!((&document["after"]["subject"], &document["after"]["threads"]), (&"run (repaired)".into(), &2.into()));
    assert_eq!(document["method"]["ratio"]["value"], 1.0);
    assert_eq!(document["method"]["significant"], false);
    let single = recorded::read(&sample(), &Reading::default()).expect("trace").document;
    let twice = document["before"]["target"].is_object().then(|| number(&single.breakdown.method) * 2.0);
    assert_eq!(document["method"]["before"]["value"].as_f64(), twice, "a tick is what its record says");
    // A report that points out of its folder leads nowhere.
    let mut hostile = report.clone();
    hostile["trials"][0]["rule"]["id"] = "../../../etc".into();
    sandbox.write("run/report.json", hostile.to_string());
    let ran = run(&sandbox, &["compare", "run"]);
    assert!(ran.stderr.contains("a run without an accepted repair"), "{}", ran.stderr);
}

fn sample() -> String {
    workspace().join("tests/fixtures/runner/softmax_head.etdp").display().to_string()
}

/// Every damaged file is read or refused in words, whatever happened to it.
#[test]
fn three_hundred_damaged_recordings_give_clear_errors() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let sources: Vec<PathBuf> = [
        "kit/manifest.json",
        "kit/analysis_summary.json",
        "kit/sme2_on/toy_cnn_sme2_on_t1_exec_all_runs_timeline.csv",
        "kit/sme2_on/toy_cnn_sme2_on_t1_exec_ops_stats.csv",
        "inspector.tsv",
        "armfit.json",
        "../runner/softmax_head.etdp",
    ]
    .iter()
    .map(|name| PathBuf::from(fixture(name)))
    .collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or(0) % below.max(1)
    };
    let (mut read, mut refused) = (0, 0);
    for number in 0..350 {
        let source = &sources[number % sources.len()];
        let mut bytes = fs_err::read(source).expect("fixture");
        match draw(5) {
            0 => bytes.truncate(draw(bytes.len())),
            1 => {
                let at = draw(bytes.len());
                bytes.splice(at..at, std::iter::repeat_n(b'9', 400));
            }
            2 => {
                let (from, to) = (draw(bytes.len()), draw(bytes.len()));
                bytes.drain(from.min(to)..from.max(to));
            }
            _ => {
                for _ in 0..=draw(6) {
                    let at = draw(bytes.len());
                    bytes[at] = u8::try_from(draw(256)).unwrap_or(0);
                }
            }
        }
        let path = folder.path().join(format!("{number}-{}", source.file_name().expect("name").to_string_lossy()));
        fs_err::write(&path, &bytes).expect("write");
        match recorded::read(path.to_str().expect("text"), &Reading::default()) {
            Ok(found) => {
                read += 1;
                assert!(!found.document.text().is_empty() && found.document.csv().is_ok());
            }
            Err(error) => {
                refused += 1;
                assert!(says_which_file(&error, &path), "{error}");
                assert!(error.hint().is_some(), "{error}");
            }
        }
    }
    assert!(read > 30 && refused > 150, "{read} read, {refused} refused");
}

fn says_which_file(error: &Error, path: &Path) -> bool {
    let name = path.file_name().expect("name").to_string_lossy().into_owned();
    error.to_string().contains(&name) || matches!(error, Error::Trace(_))
}
