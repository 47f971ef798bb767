//! `profile` and `compare` of lowered programs and models, with real runs.

use dd_tests::{Ran, Sandbox, python, workspace};
use serde_json::Value;

fn run(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(arguments);
    command.arg("--python").arg(&python().python);
    command.env("DELEGATE_DOCTOR_HOME", workspace().join("target/test-home"));
    Ran::of(command)
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// A model is lowered once; its `.pte` is then profiled and compared by itself.
#[test]
fn a_lowered_program_is_profiled_and_compared_as_it_is() {
    let sandbox = Sandbox::new();
    let model = workspace().join("tests/fixtures/models/softmax_over_channels.py").display().to_string();
    run(&sandbox, &["profile", &model, "--format", "json", "--out", "first"]).good();
    let program = "first/original/program.pte";
    let alone = json(&run(&sandbox, &["profile", program, "--format", "json"]).good());
    let name = |row: &Value| row["name"].as_str().map(str::to_owned);
    let names: Vec<String> = alone["breakdown"]["rows"].as_array().expect("rows").iter().filter_map(name).collect();
    assert!(names.iter().any(|name| name == "_softmax.out"), "{names:?}");
    assert_eq!(alone["reasons"], Value::Array(vec![]), "nobody knows why any more");
    let insights = alone["insights"].as_array().expect("list");
    assert!(insights.iter().any(|it| it["code"] == "fallback-dominates"), "{insights:?}");

    let compared = run(&sandbox, &["compare", program, program, "--format", "json", "--out", "both"]).good();
    let document = json(&compared);
    let untraced = &document["untraced"];
    assert_eq!(untraced["ratio"]["evidence"], "MEASURED");
    assert!(untraced["ratio"]["interval"]["low"].as_f64() <= Some(1.05), "a program is as fast as itself: {untraced}");
    assert!(untraced["ratio"]["interval"]["high"].as_f64() >= Some(0.95), "{untraced}");
    let kept = fs_err::read_to_string(sandbox.work().join("both/comparison.json")).expect("kept");
    assert_eq!(serde_json::from_str::<Value>(&kept).expect("JSON"), document);
    assert!(sandbox.work().join("both/after/profile.json").is_file());

    // Both were traced in turns, so that a kernel that is the same is called neither faster nor slower.
    assert_eq!(document["before"]["runs"], document["after"]["runs"]);
    let categories = document["categories"].as_array().expect("list");
    for it in categories.iter().filter(|it| it["change"]["significant"] == true) {
        let ratio = it["change"]["ratio"]["value"].as_f64().unwrap_or(1.0);
        assert!((0.8..1.25).contains(&ratio), "a program beside itself: {it}");
    }
    // The profile that was kept is a recording by now.
    let again = json(&run(&sandbox, &["compare", "first", program, "--format", "json"]).good());
    assert_eq!(again["before"]["subject"], "first");
    let ran = run(&sandbox, &["report", "first"]);
    assert!(ran.stderr.contains("`first` is the folder of a profile"), "{}", ran.stderr);
    let ran = run(&sandbox, &["profile", program, "--out", "first"]);
    assert!(!ran.stderr.contains("--resume"), "{}", ran.stderr);
    let ran = run(&sandbox, &["compare", program]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("There is nothing to compare"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--target-after"), "{}", ran.stderr);
}

#[test]
fn what_is_no_program_is_refused_before_anything_is_left_behind() {
    let sandbox = Sandbox::new();
    sandbox.write("cut.pte", b"\x10\0\0\0ET12 and nothing else");
    let ran = run(&sandbox, &["profile", "cut.pte"]);
    assert_eq!(ran.code(), 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("cut.pte"), "{}", ran.stderr);
    let ran = run(&sandbox, &["profile", "gone.pte"]);
    assert!(ran.stderr.contains("There is no model at `gone.pte`"), "{}", ran.stderr);
    let ran = run(&sandbox, &["profile", "cut.pte", "--recorded-on", "Pixel 8"]);
    assert!(ran.stderr.contains("`--recorded-on` is for a recording"), "{}", ran.stderr);
    let ran = run(&sandbox, &["optimize", "cut.pte"]);
    assert!(ran.stderr.contains("it is a lowered program"), "{}", ran.stderr);
}
