//! Files that never end, and names that are no text.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use dd_tests::{Ran, Sandbox};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::place::{Expected, fixture, program, told, with_python};

/// Puts a pipe, or a link to a device without an end, where a file should be.
fn endless(place: &Path, pipe: bool) {
    let _ = fs_err::remove_file(place);
    if pipe {
        mkfifoat(CWD, place, Mode::from_raw_mode(0o600)).expect("pipe");
    } else {
        fs_err::os::unix::fs::symlink("/dev/zero", place).expect("link");
    }
}

#[test]
fn files_without_an_end_are_refused_at_once() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", fixture("softmax_over_channels"));
    let made = sandbox.run(["rules", "new", "mine"]);
    assert_eq!(made.code(), 0, "{}", made.stderr);
    let cases = fs_err::read(sandbox.work().join("mine/cases.txt")).expect("cases");
    let project = fs_err::read(sandbox.work().join("mine/rule.toml")).expect("project file");
    for pipe in [true, false] {
        let refused = |file: &str, arguments: &[&str]| {
            endless(&sandbox.work().join(file), pipe);
            let begin = Instant::now();
            let ran = sandbox.run(arguments);
            // Waiting for a writer would take for ever.
            assert!(begin.elapsed() < Duration::from_secs(120), "{file}");
            assert_eq!(ran.code(), 2, "{file}: {}", ran.stderr);
            assert!(ran.stderr.contains("is no regular file"), "{file}: {}", ran.stderr);
            fs_err::remove_file(sandbox.work().join(file)).expect("remove");
        };
        refused("pipe.pt2", &["optimize", "pipe.pt2"]);
        refused("delegate-doctor.toml", &["optimize", "net.py"]);
        refused("mine/rule.toml", &["rules", "build", "mine"]);
        sandbox.write("mine/rule.toml", &project);
        sandbox.write("run/run.json", "");
        refused("run/run.json", &["optimize", "net.py", "--resume=run"]);
        refused("report.json", &["report", "report.json"]);
        refused("rule.wasm", &["rules", "inspect", "rule.wasm"]);
    }
    // The cases are read after the rule was built, which takes a toolchain; what is read is read the same way.
    assert!(!cases.is_empty());
}

#[test]
fn names_that_are_no_text_are_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
    let odd = OsStr::from_bytes(b"odd\xff");
    let folder = sandbox.work().join(odd);
    fs_err::create_dir(&folder).expect("folder");
    fs_err::write(folder.join("net.py"), fixture("softmax_over_channels")).expect("model");
    fs_err::write(folder.join("net.pt2"), program("conv_softmax")).expect("program");
    sandbox.write("net.py", fixture("softmax_over_channels"));
    let expected =
        Expected { words: &["is not valid UTF-8, and PyTorch and ExecuTorch take no such path"], hint: "Rename" };
    for model in ["net.py", "net.pt2"] {
        let mut command = with_python(&sandbox, [model]);
        command.current_dir(&folder);
        told(model, &Ran::of(command), &expected);
        assert!(!folder.join("delegate-doctor-runs").exists(), "{model}");
    }
    let mut command = with_python(&sandbox, ["net.py", "--out"]);
    command.arg(folder.join("run"));
    told("--out", &Ran::of(command), &expected);
    assert!(!folder.join("run").exists());
    let mut command = with_python(&sandbox, ["net.py"]);
    command.env("DELEGATE_DOCTOR_HOME", folder.join("home"));
    told("home", &Ran::of(command), &expected);
}

#[test]
fn a_rule_that_takes_the_place_of_another_says_so() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", fixture("softmax_over_channels"));
    let bundled = delegate_doctor::registry::bundled().expect("bundled");
    let one = bundled.iter().find(|rule| rule.id == "dd-001").expect("dd-001");
    sandbox.write("rules/one.wasm", &one.bytes);
    let ran = Ran::of(with_python(&sandbox, ["net.py", "--rules", "rules", "--max-seconds", "0.001"]));
    let place = "It takes the place of the rule dd-001 1.0.0, which does not take part";
    assert!(ran.stderr.contains(place), "{}", ran.stderr);
    for name in ["dd-001", "self", "std", "fn", "test"] {
        let ran = sandbox.run(["rules", "new", name]);
        assert_eq!(ran.code(), 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(name) && !sandbox.work().join(name).exists(), "{name}: {}", ran.stderr);
    }
}
