//! Models that are right and unusual: what they get is an answer about them, not about the tool.

use dd_tests::{Ran, Sandbox};

use crate::place::{Expected, fixture, told, with_python};

/// A model file around a body of `forward`.
fn model(define: &str, body: &str, inputs: &str) -> String {
    format!(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        {define}\n\n    \
         def forward(self, x):\n        {body}\n\n\ndef delegate_doctor_model():\n    torch.manual_seed(0)\n    return Net().eval()\n\n\n\
         def delegate_doctor_inputs():\n    torch.manual_seed(1)\n    return {inputs}\n"
    )
}

const CONV: &str = "self.conv = torch.nn.Conv2d(3, 16, 3)";

fn report(sandbox: &Sandbox, name: &str, content: &str) -> serde_json::Value {
    sandbox.write(&format!("{name}.py"), content);
    let ran = Ran::of(with_python(sandbox, [&format!("{name}.py"), "--format=json", &format!("--out=run-{name}")]));
    assert!([0, 1].contains(&ran.code()), "{name}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn findings<'a>(report: &'a serde_json::Value, severity: &str) -> Vec<&'a str> {
    let all = report["findings"].as_array().expect("findings");
    all.iter().filter(|one| one["severity"] == severity).filter_map(|one| one["title"].as_str()).collect()
}

#[test]
fn rounding_of_a_single_number_and_chance_raise_no_alarm() {
    let sandbox = Sandbox::new();
    let scalar = model(
        "self.conv = torch.nn.Conv2d(3, 16, 3); self.head = torch.nn.Linear(16, 1)",
        "return self.head(torch.relu(self.conv(x)).mean((2, 3)))",
        "(torch.randn(1, 3, 64, 64),)",
    );
    assert_eq!(findings(&report(&sandbox, "scalar", &scalar), "ALARM"), [""; 0]);
    let mean = model(CONV, "y = self.conv(x); return y, y.mean()", "(torch.randn(1, 3, 64, 64),)");
    assert_eq!(findings(&report(&sandbox, "mean", &mean), "ALARM"), [""; 0]);
    let chance = model(CONV, "y = self.conv(x); return y + torch.rand(y.shape)", "(torch.randn(1, 3, 16, 16),)");
    let told = report(&sandbox, "chance", &chance);
    assert_eq!(findings(&told, "ALARM"), [""; 0]);
    assert!(findings(&told, "NOTE").iter().any(|title| title.contains("random numbers")), "{told}");
}

#[test]
fn outputs_that_are_no_numbers_are_told_loudly() {
    let sandbox = Sandbox::new();
    let nothing = model(CONV, "return torch.log(-torch.relu(self.conv(x)) - 1)", "(torch.randn(1, 3, 16, 16),)");
    let told = report(&sandbox, "nothing", &nothing);
    assert!(findings(&told, "ALARM").iter().any(|title| title.contains("not finite numbers")), "{told}");
    let steps = told["verdict"]["next_steps"].to_string();
    assert!(!steps.contains("Ship"), "{steps}");
}

#[test]
fn agreement_of_outputs_without_a_number_proves_nothing() {
    let sandbox = Sandbox::new();
    let nan = model(CONV, "return torch.softmax(self.conv(x), dim=1) * float('nan')", "(torch.randn(1, 3, 64, 64),)");
    let told = report(&sandbox, "nan", &nan);
    assert_eq!(told["verdict"]["status"], "INCONCLUSIVE", "{}", told["verdict"]);
    let gates = told["trials"].to_string();
    assert!(gates.contains("hold no finite number, so that they agree proves nothing"), "{gates}");
}

#[test]
fn outputs_that_are_no_tensors_do_not_keep_the_others_from_being_compared() {
    let sandbox = Sandbox::new();
    let mixed = model(
        CONV,
        "return {'a': torch.softmax(self.conv(x), dim=1), 'b': [None, x * 2, 3]}",
        "(torch.randn(1, 3, 64, 64),)",
    );
    let told = report(&sandbox, "mixed", &mixed);
    let all = told["findings"].to_string();
    assert!(!all.contains("does not run on the target"), "{all}");
    let gates = told["trials"][0]["gates"].as_array().expect("gates of a trial");
    let device = gates.iter().find(|gate| gate["gate"] == "device-correctness").expect("device gate");
    assert_eq!(device["status"], "PASS", "{device}");
}

#[test]
fn what_user_code_raises_is_told_whatever_it_is() {
    let sandbox = Sandbox::new();
    for (name, raise, words) in [
        ("half", r#"raise ValueError("\udcff\x1b[31mRED\x1b[2J")"#, "ValueError: "),
        ("silent", "class E(BaseException):\n        def __str__(self): raise RuntimeError\n    raise E", "E"),
    ] {
        let text =
            format!("def delegate_doctor_model():\n    {raise}\n\n\ndef delegate_doctor_inputs():\n    return ()\n");
        sandbox.write(&format!("{name}.py"), text);
        let ran = Ran::of(with_python(&sandbox, [format!("{name}.py")]));
        assert_eq!(ran.code(), 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(words) && ran.stderr.contains("delegate_doctor_model"), "{name}: {}", ran.stderr);
        assert!(!ran.stderr.contains("protocol") && !ran.stderr.contains('\x1b'), "{name}: {}", ran.stderr);
    }
    // A child that goes on where the worker does would answer in its name.
    let forks = fixture("softmax_over_channels")
        .replace("def delegate_doctor_model():\n", "def delegate_doctor_model():\n    import os\n    os.fork()\n");
    assert!(forks.contains("os.fork()"));
    assert_eq!(report(&sandbox, "forks", &forks)["schema"], "delegate-doctor/report");
}

#[test]
fn a_model_that_writes_into_its_input_is_compared_by_its_own_outputs() {
    let sandbox = Sandbox::new();
    let writes = model(CONV, "x.add_(1.0); return self.conv(x)", "(torch.randn(1, 3, 16, 16),)");
    let told = report(&sandbox, "writes", &writes);
    assert_eq!(findings(&told, "ALARM"), [""; 0]);
    let all = told["findings"].to_string();
    assert!(!all.contains("does not run on the target"), "{all}");
    assert!(all.contains("writes into its inputs"), "{all}");
}

#[test]
fn inputs_that_are_no_tensors_are_refused_at_once() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "times.py",
        model(CONV, "return self.conv(x)", "(torch.randn(1, 3, 16, 16), 3)")
            .replace("forward(self, x)", "forward(self, x, n)"),
    );
    let ran = Ran::of(with_python(&sandbox, ["times.py"]));
    told(
        "an int",
        &ran,
        &Expected { words: &["Input `n` is `3`, and a lowered program takes tensors only"], hint: "make it a tensor" },
    );
}

#[test]
fn names_in_any_script_reach_the_runner() {
    let sandbox = Sandbox::new();
    let plain = model(CONV, "return self.conv(x)", "(torch.randn(1, 3, 16, 16),)");
    let told = report(&sandbox, "größe-模型🙂", &plain);
    assert_eq!(told["verdict"]["status"], "NO_REPAIR_REQUIRED");
}

#[test]
fn a_limit_that_ended_the_search_is_no_lack_of_rules() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", fixture("softmax_over_channels"));
    let ran = Ran::of(with_python(&sandbox, ["net.py", "--max-seconds", "0.001", "--format", "json"]));
    assert_eq!(ran.code(), 1, "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(report["verdict"]["status"], "INCONCLUSIVE");
    assert!(report["verdict"]["headline"].as_str().is_some_and(|line| line.starts_with("A limit ended the search")));
}
