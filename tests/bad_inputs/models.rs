//! Models that misbehave, in the real worker.

use dd_tests::{Ran, Sandbox};

use crate::place::{Expected, fixture, nothing_half_written, status, told, unfinished, with_python};

const RAISES_IN_FORWARD: &str = r#"import torch


class Gate(torch.nn.Module):
    def forward(self, x):
        raise ValueError("the gate is closed")


def delegate_doctor_model():
    return Gate()


def delegate_doctor_inputs():
    return (torch.randn(1, 4),)
"#;

/// `Linear(4, 4)` with other functions of the contract.
fn linear(more: &str) -> String {
    format!("import torch\n\n\ndef delegate_doctor_model():\n    return torch.nn.Linear(4, 4)\n\n\n{more}\n")
}

fn refused(sandbox: &Sandbox, name: &str, model: &str, flags: &[&str], expected: &Expected<'_>) {
    let run = format!("run-{name}");
    let ran = Ran::of(with_python(sandbox, [model, "--out", &run].iter().chain(flags)));
    told(name, &ran, expected);
    unfinished(name, &sandbox.work().join(run));
}

#[test]
fn what_a_model_file_gets_wrong_is_said() {
    let sandbox = Sandbox::new();
    let inputs = |returned: &str| linear(&format!("def delegate_doctor_inputs():\n    return {returned}"));
    let no_model = "import torch\n\n\ndef delegate_doctor_inputs():\n    return torch.randn(1, 4)\n".to_owned();
    let at_import = "import torch\n\nraise LookupError('the weights are elsewhere')\n".to_owned();
    for (name, content, words, hint) in [
        (
            "syntax_error",
            fixture("syntax_error"),
            &["syntax_error.py", "line 6", "def delegate_doctor_model(:"][..],
            "Correct the file",
        ),
        ("at_import", at_import, &["LookupError: the weights are elsewhere", "at_import.py:3"], ""),
        ("raises", fixture("raises"), &["LookupError: the weights are not", "raises.py:11"], ""),
        (
            "in_forward",
            RAISES_IN_FORWARD.to_owned(),
            &["ValueError: the gate is closed", "in_forward.py:6"],
            "The inputs are float32[1, 4]",
        ),
        ("no_model", no_model, &["`delegate_doctor_model()`", "no_model.py"], "delegate_doctor_model"),
        ("no_inputs", fixture("no_inputs"), &["`delegate_doctor_inputs()`", "no_inputs.py"], "torch.randn"),
        ("wrong_input_type", fixture("wrong_input_type"), &["`ndarray`"], "torch.from_numpy"),
        (
            "inputs_in_a_dict",
            inputs("{'x': torch.randn(1, 4)}"),
            &["gave a dictionary as the inputs"],
            "delegate_doctor_kwargs()",
        ),
        ("no_value", inputs("None"), &["None"], "torch.randn"),
        ("wrong_input_shape", fixture("wrong_input_shape"), &["on its own inputs", "1x5 and 4x4"], "float32[1, 5]"),
        ("not_a_module", fixture("not_a_module"), &["`delegate_doctor_model()`"], "`ReLU()` instead of `ReLU`"),
        ("exits", fixture("exits"), &["ended the program with code 3"], "__main__"),
    ] {
        let file = format!("{name}.py");
        sandbox.write(&file, content);
        refused(&sandbox, name, &file, &[], &Expected { words, hint });
    }
}

#[test]
fn what_a_callable_gets_wrong_is_said() {
    let sandbox = Sandbox::new();
    for (name, model, words, hint) in [
        ("no_module", "no_such_module_here:make", &["`no_such_module_here`"][..], "PYTHONPATH"),
        ("no_attribute", "torch.nn:NoSuchThing", &["`NoSuchThing`"], "def NoSuchThing()"),
    ] {
        refused(&sandbox, name, model, &[], &Expected { words, hint });
    }
}

#[test]
fn a_model_that_takes_the_process_with_it_is_told_apart() {
    let sandbox = Sandbox::new();
    let crash = linear("def delegate_doctor_inputs():\n    import ctypes\n    ctypes.string_at(0)");
    for (name, content, flags, words, hint) in [
        ("dies", fixture("dies"), &[][..], &["died during `export`: exit code 7"][..], "`exit` calls"),
        ("crashes", crash, &[], &["died during `export`: signal 11"], "worker log"),
        (
            "hangs",
            fixture("hangs"),
            &["--model-timeout", "30"],
            &["did not finish `export` within 30 s"],
            "endless loop",
        ),
        ("allocates", fixture("allocates"), &["--memory-limit", "3GiB"], &["Memory ran out"], "smaller"),
    ] {
        let file = format!("{name}.py");
        sandbox.write(&file, content);
        refused(&sandbox, name, &file, flags, &Expected { words, hint });
    }
}

#[test]
fn a_model_that_prints_does_not_spoil_the_data_and_a_corrected_one_is_gone_on_with() {
    let sandbox = Sandbox::new();
    let whole = fixture("prints");
    sandbox.write("prints.py", format!("{whole}\nraise SystemExit"));
    refused(&sandbox, "prints", "prints.py", &[], &Expected { words: &["ended the program"], hint: "__main__" });
    sandbox.write("prints.py", whole);
    let ran = Ran::of(with_python(&sandbox, ["prints.py", "--resume=run-prints", "--format", "json"]));
    assert_eq!(ran.code(), 0, "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("stdout is one JSON document");
    assert_eq!(report["schema"], "delegate-doctor/report");
    let log = fs_err::read_to_string(sandbox.work().join("run-prints/worker.log")).expect("log");
    for line in ["printed by Python", "written to descriptor 1", "printed by a child", "while the model is built"] {
        assert!(log.contains(line), "{line}: {log}");
        assert!(!ran.stderr.contains(line), "{line}: {}", ran.stderr);
    }
    assert_eq!(status(&sandbox.work().join("run-prints")), "NO_REPAIR_REQUIRED");
    let report = fs_err::read(sandbox.work().join("run-prints/report.json")).expect("report");
    let ran = Ran::of(with_python(&sandbox, ["prints.py", "--resume=run-prints"]));
    let words = &["The run in `run-prints` is finished"];
    told("finished", &ran, &Expected { words, hint: "`delegate-doctor report run-prints`" });
    assert_eq!(fs_err::read(sandbox.work().join("run-prints/report.json")).expect("report"), report);
    for flag in ["--only", "--skip"] {
        let ran = Ran::of(with_python(&sandbox, ["prints.py", flag, "dd-01"]));
        told(flag, &ran, &Expected { words: &["There is no rule `dd-01`"], hint: "Did you mean `dd-001`?" });
    }
    assert!(!sandbox.work().join("delegate-doctor-runs").exists(), "runs that began nothing leave nothing");
}

#[test]
fn a_model_that_cannot_be_lowered_or_run_is_an_answer_with_its_own_exit_code() {
    let sandbox = Sandbox::new();
    let forward = |define: &str, body: &str, input: &str| {
        format!(
            "import torch\n\n{define}\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return {body}\n\n\n\
             def delegate_doctor_model():\n    return Net()\n\n\ndef delegate_doctor_inputs():\n    return ({input},)\n"
        )
    };
    let custom = "from torch import library\n\n\n@library.custom_op('shop::twice', mutates_args=())\ndef twice(x: torch.Tensor) -> torch.Tensor:\n    \
                  return x * 2\n\n\n@twice.register_fake\ndef _(x):\n    return torch.empty_like(x)\n\n";
    for (name, content, expected, words) in [
        (
            "conv3d",
            forward("", "torch.nn.functional.conv3d(x, torch.ones(2, 1, 3, 3, 3))", "torch.randn(1, 1, 5, 5, 5)"),
            "DEVICE_EXECUTION_UNSUPPORTED",
            "an operator may lack a kernel",
        ),
        (
            "custom",
            forward(custom, "twice(x)", "torch.randn(1, 4)"),
            "LOWERING_UNSUPPORTED",
            "or register a kernel for it",
        ),
    ] {
        let (file, run) = (format!("{name}.py"), format!("run-{name}"));
        sandbox.write(&file, content);
        let ran = Ran::of(with_python(&sandbox, [&file, "--out", &run]));
        let run = sandbox.work().join(run);
        assert_eq!(ran.code(), 2, "{name}: {}", ran.stderr);
        assert_eq!(status(&run), expected);
        nothing_half_written(name, &run);
        let shown = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(words) && shown.contains(expected), "{name}: {}", ran.stdout);
        assert!(!run.join("optimized.pte").exists() && !ran.stderr.contains("error: "), "{name}: {}", ran.stderr);
    }
}
