//! `doctor`, on a machine without and with a Python that cannot be used.

use dd_tests::{Ran, Sandbox};

fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn a_missing_python_is_a_problem_with_advice() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(["doctor", "--format", "json"]);
    command.env("PATH", sandbox.work());
    let ran = Ran::of(command);
    assert_eq!(ran.code(), 2, "{}", ran.stderr);
    let report = json(&ran);
    assert_eq!(report["schema"], "delegate-doctor/doctor");
    assert_eq!(report["version"], 1);
    assert_eq!(report["verdict"], "problem");
    assert_eq!(report["versions"]["tool"], env!("CARGO_PKG_VERSION"));
    let python = &report["diagnoses"][0];
    assert_eq!((&python["name"], &python["verdict"]), (&"python".into(), &"problem".into()));
    assert!(python["hint"].as_str().expect("hint").contains("Install Python 3.11"), "{python}");
}

#[test]
fn the_text_says_what_to_do() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(["doctor", "--python", "no-such-python"]);
    assert_eq!(ran.code(), 2);
    let line = ran.stdout.lines().next().expect("a line");
    assert!(line.starts_with("problem  python"), "{line}");
    assert!(ran.stdout.contains("hint: "), "{}", ran.stdout);
    assert!(ran.stdout.contains("Not ready: 1 problem"), "{}", ran.stdout);
}

#[test]
fn looking_makes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.run(["doctor"]);
    for folder in [sandbox.home(), sandbox.work()] {
        assert_eq!(fs_err::read_dir(folder).expect("folder").count(), 0);
    }
}
