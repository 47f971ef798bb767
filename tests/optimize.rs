//! `optimize` from a model to a verdict, with real torch, real XNNPACK and real rules.

use std::path::{Path, PathBuf};
use std::process::Command;

use dd_tests::{binary, craft, python, test_rule_bytes, workspace};
use delegate_doctor::gates::{Gate, GateStatus};
use delegate_doctor::report::model::{FindingCode, Report, Status, TrialOutcome};

/// A finished run.
struct Run {
    folder: tempfile::TempDir,
    code: Option<i32>,
    stderr: String,
    report: Report,
}

impl Run {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("run").join(name)
    }

    fn gate(&self, trial: usize, gate: Gate) -> GateStatus {
        let trial = self.report.trials.get(trial).expect("a trial");
        trial.gates.iter().find(|report| report.gate == gate).expect("the gate is told").status
    }
}

fn model(name: &str) -> PathBuf {
    workspace().join("tests/fixtures/models").join(format!("{name}.py"))
}

/// Runs `optimize`; caches of other tests are not used, only the built runner and compiled rules are shared.
fn optimize(model: &Path, arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("temporary folder");
    let output = Command::new(binary("delegate-doctor"))
        .arg("optimize")
        .arg(model)
        .args(["--format", "json", "--no-cache", "--out"])
        .arg(folder.path().join("run"))
        .arg("--python")
        .arg(python().python)
        .args(arguments)
        .env("DELEGATE_DOCTOR_HOME", workspace().join("target").join("test-home"))
        .output()
        .expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = Report::from_json(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    Run { folder, code: output.status.code(), stderr, report }
}

/// A folder with one rule that exists for tests only.
fn rule_folder(id: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    fs_err::write(folder.path().join(format!("{id}.wasm")), test_rule_bytes(id)).expect("write");
    folder
}

fn with_rule(model_name: &str, rule: &str) -> Run {
    let rules = rule_folder(rule);
    optimize(&model(model_name), &["--rules", &rules.path().display().to_string(), "--only", rule])
}

#[test]
fn the_example_gets_a_repair_that_passes_every_gate() {
    let run = optimize(&workspace().join("examples/segmenter.py"), &[]);
    let report = &run.report;
    assert_eq!(report.verdict.status, Status::RepairsAccepted, "{}", run.stderr);
    assert_eq!(run.code, Some(0));
    let accepted: Vec<&str> = report.accepted().map(|trial| trial.rule.id.as_str()).collect();
    assert_eq!(accepted, ["dd-001"]);
    for gate in Gate::ALL {
        assert_eq!(run.gate(0, gate), GateStatus::Pass, "{gate:?}");
    }
    let hotspot = &report.original.as_ref().expect("profile").hotspots[0];
    assert_eq!(hotspot.kernel, "aten::_softmax.out");
    let source = hotspot.nodes[0].source.as_ref().expect("source line");
    assert!(source.file.ends_with("segmenter.py") && source.text.contains("torch.softmax"), "{source:?}");
    for name in ["optimized.pte", "optimized.pt2", "report.json", "report.html", "run.json", "original/program.pt2"] {
        assert!(run.path(name).is_file(), "`{name}` is missing");
    }
    for artifact in &report.artifacts {
        let found = delegate_doctor::files::sha256_of(&run.path(&artifact.path.display().to_string())).expect("hash");
        assert_eq!(found, artifact.sha256, "{}", artifact.path.display());
    }
    let html = fs_err::read_to_string(run.path("report.html")).expect("page");
    assert!(html.contains("REPAIRS_ACCEPTED") || html.contains("Repairs accepted"));
}

#[test]
fn wrong_lowerings_are_found_and_told_with_their_error() {
    for (name, at_least, at_most) in
        [("softmax_over_width", 0.1, 1.1), ("gelu_by_tanh", 1e-4, 1e-3), ("bilinear_by_factor", 0.5, 10.0)]
    {
        let run = optimize(&model(name), &[]);
        let finding = run
            .report
            .alarms()
            .find(|finding| finding.code == FindingCode::OriginalIsWrong)
            .unwrap_or_else(|| panic!("{name}: {}", run.stderr));
        let error = match &finding.mismatches[0].error {
            delegate_doctor::evidence::Evidence::Measured(measured) => measured.value,
            delegate_doctor::evidence::Evidence::Projected(_) => panic!("{name}: an error is measured"),
        };
        assert!((at_least..=at_most).contains(&error), "{name}: {error}");
        assert!(!run.report.verdict.headline.contains("fine"), "{name}: {}", run.report.verdict.headline);
    }
}

#[test]
fn a_repair_that_is_exact_but_slower_is_rejected_by_the_benchmark() {
    let run = with_rule("full_slices", "test-slower");
    let trial = run.report.trials.first().unwrap_or_else(|| panic!("{}", run.stderr));
    for gate in
        [Gate::Structure, Gate::SiteEquivalence, Gate::HostCorrectness, Gate::DeviceCorrectness, Gate::BackendFidelity]
    {
        assert_eq!(run.gate(0, gate), GateStatus::Pass, "{gate:?}: {}", trial.reason);
    }
    assert_eq!((trial.outcome, trial.gate), (TrialOutcome::Rejected, Some(Gate::Benchmark)), "{}", trial.reason);
    assert_eq!((run.report.verdict.status, run.code), (Status::RepairRejected, Some(1)));
    assert!(!run.path("optimized.pte").exists());
}

/// Right for the batch that the model was exported with, and for no other one of the range that it declares.
#[test]
fn a_repair_that_is_right_for_one_size_only_is_refused() {
    let rules = tempfile::tempdir().expect("temporary folder");
    let crafted = craft(&test_rule_bytes("test-crafted"), "wrong-for-other-sizes").expect("crafted");
    fs_err::write(rules.path().join("test-crafted.wasm"), crafted).expect("write");
    let folder = rules.path().display().to_string();
    let run =
        optimize(&model("batch_of_any_size"), &["--rules", &folder, "--only", "test-crafted", "--min-share", "0"]);
    let trial = run.report.trials.first().unwrap_or_else(|| panic!("{}", run.stderr));
    assert_eq!(run.gate(0, Gate::SiteEquivalence), GateStatus::Pass, "{}", trial.reason);
    assert_eq!((trial.outcome, trial.gate), (TrialOutcome::Rejected, Some(Gate::HostCorrectness)), "{}", trial.reason);
    assert!(trial.reason.contains("wrong at another size (2×3×32×32 →"), "{}", trial.reason);
}

/// One rule undoes what another one does. Each looks right to every gate but the last, and the loop could go on
/// for ever.
#[test]
fn rules_that_undo_each_other_end_with_the_faster_program() {
    let rules = rule_folder("test-fights");
    let folder = rules.path().display().to_string();
    let run = optimize(&model("segmenter_small"), &["--rules", &folder, "--min-share", "0", "--max-rounds", "6"]);
    let report = &run.report;
    let accepted: Vec<&str> = report.accepted().map(|trial| trial.rule.id.as_str()).collect();
    assert_eq!(accepted, ["dd-001"], "{}", run.stderr);
    let back: Vec<_> = report.trials.iter().filter(|trial| trial.rule.id == "test-fights").collect();
    assert!(!back.is_empty(), "the other rule had its say: {}", run.stderr);
    for trial in back {
        assert_eq!(trial.gate, Some(Gate::Benchmark), "it is only slower: {}", trial.reason);
        assert_ne!(trial.outcome, TrialOutcome::Accepted);
    }
    assert_eq!((report.verdict.status, run.code), (Status::RepairsAccepted, Some(0)));
}

#[test]
fn a_repair_that_is_wrong_on_the_backend_is_rejected_there() {
    let run = with_rule("segmenter_small", "test-wrong-on-backend");
    let trial = run.report.trials.first().unwrap_or_else(|| panic!("{}", run.stderr));
    assert_eq!(run.gate(0, Gate::HostCorrectness), GateStatus::Pass, "eager PyTorch gets it right");
    assert_eq!(run.gate(0, Gate::BackendFidelity), GateStatus::Fail, "{}", trial.reason);
    assert_eq!(trial.outcome, TrialOutcome::Rejected);
    assert_eq!(run.gate(0, Gate::Benchmark), GateStatus::NotRun);
    assert_eq!(run.code, Some(1));
}

#[test]
fn a_repair_that_is_wrong_on_the_host_is_rejected_by_the_first_gate_that_looks_at_numbers() {
    let run = with_rule("segmenter_small", "test-wrong-on-host");
    let trial = run.report.trials.first().unwrap_or_else(|| panic!("{}", run.stderr));
    assert_eq!((trial.outcome, trial.gate), (TrialOutcome::Rejected, Some(Gate::SiteEquivalence)), "{}", trial.reason);
    assert_eq!(run.gate(0, Gate::HostCorrectness), GateStatus::NotRun);
}

#[test]
fn outputs_that_do_not_react_cannot_carry_a_wrong_repair() {
    let run = with_rule("insensitive", "test-wrong-on-host");
    assert!(run.report.findings.iter().any(|finding| finding.code == FindingCode::InsensitiveModel), "{}", run.stderr);
    assert_eq!(run.report.accepted().count(), 0);
    assert_ne!(run.gate(0, Gate::SiteEquivalence), GateStatus::Pass);
}

#[test]
fn a_repair_that_would_write_into_the_callers_input_is_refused() {
    let run = with_rule("copy_then_write", "test-drops-clone");
    assert_eq!(run.report.accepted().count(), 0);
    let refused = run.report.findings.iter().find(|finding| finding.code == FindingCode::RuleFailed);
    let refused = refused.unwrap_or_else(|| panic!("{}", run.stderr));
    assert!(refused.title.contains("test-drops-clone") && refused.title.contains("clone"), "{}", refused.title);
}

#[test]
fn a_second_run_of_the_same_model_takes_what_the_first_one_made() {
    let home = tempfile::tempdir().expect("temporary folder");
    let run = |out: &str| {
        let folder = home.path().join(out);
        let output = Command::new(binary("delegate-doctor"))
            .arg("optimize")
            .arg(model("softmax_over_width"))
            .args(["--format", "json", "--out"])
            .arg(&folder)
            .arg("--python")
            .arg(python().python)
            .env("DELEGATE_DOCTOR_HOME", home.path())
            .output()
            .expect("the binary starts");
        Report::from_json(&output.stdout).expect("report")
    };
    let reused = |report: &Report| -> Vec<String> {
        report.stages.iter().filter(|stage| stage.reused.is_some()).map(|stage| stage.name.clone()).collect()
    };
    assert!(reused(&run("first")).is_empty());
    assert_eq!(reused(&run("second")), ["lower", "profile"]);
}
