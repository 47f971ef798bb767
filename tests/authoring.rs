//! From nothing to a proven rule with the real binary, as a contributor would do it.

use std::path::Path;

use dd_tests::{Ran, Sandbox, bundled_component, python, workspace};

/// The binary in the environment of this process, so that cargo and its crates are those that build the tests.
fn author<const N: usize>(sandbox: &Sandbox, arguments: [&str; N]) -> Ran {
    let mut command = sandbox.command(arguments);
    let own = ["DELEGATE_DOCTOR_HOME", "DELEGATE_DOCTOR_PYTHON", "TMPDIR", "INSTA_UPDATE"];
    command.envs(std::env::vars_os().filter(|(name, _)| !own.iter().any(|kept| name == kept)));
    for name in ["CARGO_ENCODED_RUSTFLAGS", "CARGO_MANIFEST_DIR", "RUSTFLAGS"] {
        command.env_remove(name);
    }
    // Builds of rules are shared between tests and runs.
    command.env("CARGO_TARGET_DIR", workspace().join("target/authored"));
    Ran::of(command)
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs_err::read_to_string(path).expect("read");
    assert!(text.contains(from), "`{from}` is not in {}", path.display());
    fs_err::write(path, text.replace(from, to)).expect("write");
}

#[test]
fn a_new_rule_builds_passes_its_cases_and_tells_what_it_is() {
    let sandbox = Sandbox::new();
    let ran = author(&sandbox, ["rules", "new", "times-one"]).good();
    assert!(
        ran.stderr.contains("times-one/src/lib.rs") && ran.stderr.contains("rules test times-one"),
        "{}",
        ran.stderr
    );
    let ran = author(&sandbox, ["rules", "new", "times-one"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("There is something in `times-one` already"), "{}", ran.stderr);

    let ran = author(&sandbox, ["rules", "test", "times-one"]).good();
    assert!(ran.stdout.ends_with("4 of 4 cases as expected; 4 compared with native answers\n"), "{}", ran.stdout);

    // The same bytes from another folder.
    let first = fs_err::read(sandbox.work().join("times-one/build/times-one-0.1.0.wasm")).expect("component");
    let elsewhere = sandbox.work().join("elsewhere/times-one");
    let ran = author(&sandbox, ["rules", "new", "times-one", "--out", "elsewhere/times-one"]).good();
    assert!(ran.stderr.contains("Made the rule"), "{}", ran.stderr);
    fs_err::copy(sandbox.work().join("times-one/Cargo.lock"), elsewhere.join("Cargo.lock")).expect("lock file");
    let ran = author(&sandbox, ["rules", "build", "elsewhere/times-one"]).good();
    let second = fs_err::read(elsewhere.join("build/times-one-0.1.0.wasm")).expect("component");
    assert!(first == second, "{}", ran.stdout);
    assert!(ran.stdout.contains("elsewhere/times-one/build/times-one-0.1.0.wasm  sha256 "), "{}", ran.stdout);

    let component = "times-one/build/times-one-0.1.0.wasm";
    let ran = author(&sandbox, ["rules", "inspect", component, "--format", "json"]).good();
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(told["manifest"]["id"], "times-one");
    assert_eq!(told["contract"], "0.1.0");
    for import in told["imports"].as_array().expect("imports") {
        assert!(import.as_str().is_some_and(|name| name.starts_with("delegate-doctor:rules/")), "{import}");
    }

    // A component whose manifest section was changed does not load.
    let mut changed = first.clone();
    let place = changed.windows(9).rposition(|bytes| bytes == b"Times one").expect("title in the section");
    changed[place] = b'L';
    fs_err::create_dir(sandbox.work().join("changed")).expect("folder");
    fs_err::write(sandbox.work().join("changed/rule.wasm"), changed).expect("write");
    let ran = author(&sandbox, ["rules", "test", component]);
    assert!(ran.stderr.contains("is a file, and the folder of a rule is asked for"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: Give the folder of its source"), "{}", ran.stderr);
    std::os::unix::fs::symlink("elsewhere", sandbox.work().join("link")).expect("link");
    let ran = author(&sandbox, ["rules", "new", "times-one", "--out", "link"]);
    assert!(ran.stderr.contains("hint: Choose another name, or another folder with `--out`"), "{}", ran.stderr);
    let ran = author(&sandbox, ["rules", "why-not", "changed/rule.wasm", "net.py"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("its manifest section says something else than the rule itself"), "{}", ran.stderr);
}

#[test]
fn what_is_wrong_with_a_rule_is_told() {
    let sandbox = Sandbox::new();
    author(&sandbox, ["rules", "new", "times-one"]).good();
    let folder = sandbox.work().join("times-one");

    // A case that does not hold.
    edit(&folder.join("cases.txt"), "-- declines factor", "-- declines written-to");
    let ran = author(&sandbox, ["rules", "test", "times-one"]);
    assert_eq!(ran.code(), 1, "{}", ran.stderr);
    for part in ["✗ another factor stays", "declines written-to", "declines factor: the factor is 2", "3 of 4 cases"]
    {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    edit(&folder.join("cases.txt"), "== another factor stays", "another factor stays");
    let ran = author(&sandbox, ["rules", "test", "times-one"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("cases.txt`: line "), "{}", ran.stderr);

    // Sources that do not build.
    edit(&folder.join("src/lib.rs"), "let factor = mul.float(\"other\")?;", "let factor = mul.flout(\"other\")?;");
    let ran = author(&sandbox, ["rules", "build", "times-one"]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""));
    for part in ["The rule in `", "does not build", "flout"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    edit(&folder.join("src/lib.rs"), "mul.flout", "mul.float");

    // Another id than the project file's.
    fs_err::remove_dir_all(folder.join("build")).expect("made by the first test run");
    edit(&folder.join("rule.toml"), "id = \"times-one\"", "id = \"times-two\"");
    let ran = author(&sandbox, ["rules", "build", "times-one"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("the id is `times-two`, and the rule itself says `times-one`"), "{}", ran.stderr);
    assert!(!folder.join("build").exists(), "nothing was written");

    for (arguments, words) in [
        (["rules", "build", "nowhere"], "There is no rule in `nowhere`"),
        (["rules", "new", "Times"], "`Times` cannot be the name of a rule"),
        (["rules", "inspect", "rule.toml"], "Failed to read the component `rule.toml`"),
        (["rules", "inspect", "times-one/rule.toml"], "is no rule for this version: it is not a WebAssembly component"),
    ] {
        let ran = author(&sandbox, arguments);
        assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.stderr.contains(words) && ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
}

#[test]
fn a_rule_says_why_it_does_not_help_and_is_proven_where_it_does() {
    let sandbox = Sandbox::new();
    let python = python().python.display().to_string();
    let model = workspace().join("examples/segmenter.py").display().to_string();
    let rule = |id: &str| bundled_component(id).display().to_string();

    let ran = author(&sandbox, ["rules", "why-not", &rule("dd-003"), &model, "--python", &python]);
    assert_eq!(ran.code(), 1, "{}", ran.stderr);
    assert!(ran.stdout.contains("No node has an op that it looks at: aten.avg_pool2d.default"), "{}", ran.stdout);
    let ran = author(&sandbox, ["rules", "why-not", &rule("dd-001"), &model, "--python", &python]).good();
    for part in
        ["It would repair (1 place)", "segmenter.py:37  return torch.softmax(logits, dim=1)", "outside the delegate"]
    {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }

    let ran = author(
        &sandbox,
        ["rules", "validate", &rule("dd-001"), "--models", &model, "missing.py", "--python", &python, "--out", "proof"],
    );
    assert_eq!(ran.code(), 2, "{}", ran.stderr);
    assert!(ran.stdout.contains("INCOMPLETE  a model came to no answer"), "{}", ran.stdout);
    let text = fs_err::read_to_string(sandbox.work().join("proof/evidence.json")).expect("bundle");
    let bundle: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&bundle["schema"], &bundle["version"]), (&"delegate-doctor/evidence".into(), &1.into()));
    assert_eq!(bundle["rule"]["id"], "dd-001");
    assert!(bundle["rule"]["sha256"].as_str().is_some_and(|hash| hash.len() == 64));
    let models = bundle["models"].as_array().expect("models");
    assert_eq!(models.len(), 2);
    assert_eq!(models[0]["trials"][0]["gates"].as_array().map(Vec::len), Some(6), "every gate");
    assert!(!models[0]["trials"][0]["benchmark"]["blocks"].as_array().expect("samples").is_empty());
    assert!(models[1]["error"].as_str().is_some_and(|why| why.contains("missing.py")), "{}", models[1]);
    let ran = author(&sandbox, ["rules", "validate", &rule("dd-001"), "--models", &model, "--out", "proof"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("There is something in `proof` already"), "{}", ran.stderr);
}
