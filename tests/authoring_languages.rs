//! Rules in C, JavaScript and Python: from nothing to a component without imports, through the real binary and
//! the real toolchains.
//!
//! The toolchains of the script languages are installed once below `.cache/rule-tools`, where the tests of
//! another day find them.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use dd_tests::{Ran, Sandbox, binary, python, workspace};

/// A case in which the rule is made to fail.
const FAILING_CASE: &str = "\n== a factor of seven is too much\nx: f32[2,3] = input\n\
                            y: f32[2,3] = aten.mul.Scalar(self=x, other=7.0)\nreturn y\n-- declines factor\n";

/// An empty home in which only the toolchains are there already.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let tools = workspace().join(".cache/rule-tools");
    fs_err::create_dir_all(&tools).expect("folder");
    fs_err::create_dir_all(sandbox.home().join("data")).expect("folder");
    symlink(tools, sandbox.home().join("data/tools")).expect("link");
    sandbox
}

/// Runs the binary with what an installation from the network may need of this machine's environment.
fn run<const N: usize>(sandbox: &Sandbox, arguments: [&str; N]) -> Ran {
    let mut command = sandbox.command(arguments);
    let network = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"];
    let prefixes = ["PIP_", "npm_config_", "NPM_CONFIG_"];
    command.envs(std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        network.iter().any(|known| name.eq_ignore_ascii_case(known))
            || prefixes.iter().any(|prefix| name.starts_with(prefix))
    }));
    Ran::of(command)
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs_err::read_to_string(path).expect("read");
    assert!(text.contains(from), "`{}` lacks {from:?}", path.display());
    fs_err::write(path, text.replacen(from, to, 1)).expect("write");
}

/// Makes a rule that fails when the factor is seven, and a case in which it is.
fn project(sandbox: &Sandbox, language: &str, file: &str, before: &str, failure: &str) -> PathBuf {
    let made = sandbox.run(["rules", "new", "times-one", "--lang", language]).good();
    assert!(made.stderr.contains(file), "{}", made.stderr);
    let folder = sandbox.work().join("times-one");
    edit(&folder.join(file), before, &format!("{failure}{before}"));
    let cases = fs_err::read_to_string(folder.join("cases.txt")).expect("cases");
    fs_err::write(folder.join("cases.txt"), cases + FAILING_CASE).expect("write");
    folder
}

/// The four cases of the template are right, the fifth fails with `message`.
fn four_right_and_one_failure(ran: &Ran, message: &str) {
    assert_eq!(ran.code(), 1, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stdout.matches('✓').count(), 4, "{}", ran.stdout);
    assert!(ran.stdout.contains("✗ a factor of seven is too much"), "{}", ran.stdout);
    let told = format!("rule times-one 0.1.0: it reports a fault of its own: {message}");
    assert!(ran.stdout.contains(&told), "{told}\n{}", ran.stdout);
    assert!(ran.stdout.contains("4 of 5 cases as expected"), "{}", ran.stdout);
}

/// What `rules inspect` says about the built component, which imports nothing but types.
fn inspected(sandbox: &Sandbox) -> serde_json::Value {
    let component = "times-one/build/times-one-0.1.0.wasm";
    let ran = sandbox.run(["rules", "inspect", component, "--format", "json"]).good();
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    // `inspect` refuses imports of functions; these two carry the contract's types.
    assert_eq!(
        told["imports"],
        serde_json::json!(["delegate-doctor:rules/graph@0.1.0", "delegate-doctor:rules/edits@0.1.0"])
    );
    assert_eq!(told["manifest"]["id"], "times-one");
    assert_eq!(told["manifest"]["version"], "0.1.0");
    let codes = told["manifest"]["codes"].as_array().expect("codes");
    for code in ["times-one", "factor", "written-to", "changes-type", "argument", "dynamic-shape"] {
        assert!(codes.iter().any(|known| known["code"] == code), "{code} of {codes:?}");
    }
    let text = sandbox.run(["rules", "inspect", component]).good().stdout;
    assert!(text.contains("Takes out multiplications by one."), "{text}");
    told
}

#[test]
fn a_rule_in_c_comes_out_the_same_wherever_it_lies() {
    let sandbox = sandbox();
    let failure = "if (factor == 7.0) {\n        FAULT(\"%s is %g\", \"seven\", factor);\n    }\n    ";
    let folder = project(&sandbox, "c", "rule.c", "REQUIRE(factor == 1.0", failure);
    four_right_and_one_failure(&run(&sandbox, ["rules", "test", "times-one"]), "rule.c:22: seven is 7");
    let told = inspected(&sandbox);
    assert_eq!(told["tier"], "compiled");
    assert!(told["sdk"].as_str().is_some_and(|sdk| sdk.starts_with("rule-sdk-c ")), "{}", told["sdk"]);

    let first = sandbox.run(["rules", "build", "times-one"]).good().stdout;
    let elsewhere = sandbox.work().join("another/folder");
    fs_err::create_dir_all(elsewhere.parent().expect("parent")).expect("folder");
    fs_err::rename(&folder, &elsewhere).expect("move");
    let second = sandbox.run(["rules", "build", "another/folder"]).good().stdout;
    let hash = |line: &str| line.rsplit(' ').next().map(str::to_owned);
    assert_eq!(hash(&first), hash(&second), "{first}{second}");

    edit(&elsewhere.join("rule.c"), "seven", "seven\" + ;");
    let broken = sandbox.run(["rules", "build", "another/folder"]);
    assert_eq!(broken.code(), 2, "{}", broken.stderr);
    assert!(broken.stderr.contains("does not build") && broken.stderr.contains("rule.c:22:"), "{}", broken.stderr);
}

#[test]
fn what_c_needs_is_told_when_it_is_missing() {
    let sandbox = sandbox();
    sandbox.run(["rules", "new", "times-one", "--lang", "c"]).good();
    let mut command = sandbox.command(["rules", "build", "times-one"]);
    command.env("PATH", sandbox.work());
    let ran = Ran::of(command);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("`clang` is needed to build a rule in C"), "{}", ran.stderr);
    assert!(ran.stderr.contains("apt-get install clang lld"), "{}", ran.stderr);
}

#[test]
fn a_version_that_the_rule_does_not_have_is_told() {
    let sandbox = sandbox();
    sandbox.run(["rules", "new", "times-one", "--lang", "c"]).good();
    edit(&sandbox.work().join("times-one/rule.toml"), "version = \"0.1.0\"", "version = \"0.2.0\"");
    let ran = sandbox.run(["rules", "build", "times-one"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("the version is `0.2.0`, and the rule itself says `0.1.0`"), "{}", ran.stderr);
    assert!(!sandbox.work().join("times-one/build").exists(), "nothing is written");
}

#[test]
fn a_rule_in_javascript_takes_part_when_script_rules_are_asked_for() {
    let sandbox = sandbox();
    let failure = "if (factor === 7) { null.seven; }\n        ";
    let folder = project(&sandbox, "js", "rule.js", "require(factor === 1", failure);
    let ran = run(&sandbox, ["rules", "test", "times-one"]);
    four_right_and_one_failure(&ran, "rule.js:24: TypeError: cannot read property 'seven' of null");
    let told = inspected(&sandbox);
    assert_eq!(told["tier"], "script");
    assert!(told["sdk"].as_str().is_some_and(|sdk| sdk.starts_with("rule-sdk-js ")), "{}", told["sdk"]);

    let build = folder.join("build");
    let optimize = |more: &[&str]| {
        let mut command = Command::new(binary("delegate-doctor"));
        command
            .arg("optimize")
            .arg(workspace().join("tests/fixtures/models/softmax_over_channels.py"))
            .args(["--only", "times-one", "--rules"])
            .arg(&build)
            .args(more)
            .arg("--python")
            .arg(python().python)
            .current_dir(sandbox.work())
            .env("DELEGATE_DOCTOR_HOME", workspace().join("target/test-home"));
        let output = command.output().expect("the binary starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, refused) = optimize(&[]);
    assert_ne!(code, Some(0));
    assert!(refused.contains("it is a script rule of") && refused.contains("`--script-rules`"), "{refused}");
    let (code, taken) = optimize(&["--script-rules"]);
    assert_eq!(code, Some(0), "{taken}");
    assert!(taken.contains("Loaded the script rule times-one 0.1.0"), "{taken}");
    sandbox.write("delegate-doctor.toml", "[optimize]\nscript-rules = true\n");
    let (code, taken) = optimize(&[]);
    assert_eq!(code, Some(0), "{taken}");
    assert!(taken.contains("Loaded the script rule times-one 0.1.0"), "{taken}");

    edit(&folder.join("rule.js"), "export const rule", "null.x;\nexport const rule");
    let broken = sandbox.run(["rules", "build", "times-one"]);
    assert_eq!(broken.code(), 2, "{}", broken.stderr);
    assert!(broken.stderr.contains("does not build") && broken.stderr.contains("(rule.js:7:"), "{}", broken.stderr);
}

#[test]
fn a_rule_in_python_says_which_line_raised() {
    let sandbox = sandbox();
    let failure = "if factor == 7.0:\n        [][7]\n    ";
    let folder = project(&sandbox, "python", "rule.py", "require(factor == 1.0", failure);
    let ran = run(&sandbox, ["rules", "test", "times-one"]);
    four_right_and_one_failure(&ran, "rule.py:28: IndexError: list index out of range");
    let told = inspected(&sandbox);
    assert_eq!(told["tier"], "script");
    assert!(told["sdk"].as_str().is_some_and(|sdk| sdk.starts_with("rule-sdk-python ")), "{}", told["sdk"]);

    edit(&folder.join("rule.py"), "MANIFEST = ", "raise ValueError('no')\nMANIFEST = ");
    let broken = sandbox.run(["rules", "build", "times-one"]);
    assert_eq!(broken.code(), 2, "{}", broken.stderr);
    let said = "File \"rule.py\", line 8, in <module>";
    assert!(broken.stderr.contains(said) && broken.stderr.contains("ValueError: no"), "{}", broken.stderr);
}
