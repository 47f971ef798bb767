//! `delegate-doctor.toml`.

use dd_tests::{Ran, Sandbox};

#[test]
fn a_key_that_is_not_known_is_a_warning() {
    let sandbox = Sandbox::new();
    sandbox.write("delegate-doctor.toml", "colour = 'red'\n[optimize]\nspeed = 3\n");
    let ran = sandbox.run(["doctor", "--python", "no-such-python"]);
    for key in ["colour", "optimize.speed"] {
        let line = format!("has a key that this version does not know: `{key}`");
        assert!(ran.stderr.contains(&line), "{}", ran.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_understood_names_itself_and_the_line() {
    let sandbox = Sandbox::new();
    sandbox.write("delegate-doctor.toml", "python = 'a'\nthreads ? 3\n");
    insta::assert_snapshot!("project-file-syntax", sandbox.run(["doctor"]).all(&sandbox));
}

#[test]
fn the_python_of_the_file_is_used_from_a_folder_below_and_the_environment_wins_over_it() {
    let sandbox = Sandbox::new();
    sandbox.write("delegate-doctor.toml", "python = 'written/python'\n");
    sandbox.write("below/keep", "");
    let python = |variable: Option<&str>| {
        let mut command = sandbox.command(["doctor"]);
        command.current_dir(sandbox.work().join("below"));
        if let Some(value) = variable {
            command.env("DELEGATE_DOCTOR_PYTHON", value);
        }
        sandbox.plain(Ran::of(command).stdout.lines().next().expect("a line"))
    };
    assert!(python(None).contains("[SANDBOX]/project/written/python"), "{}", python(None));
    assert!(python(Some("/from/environment")).contains("`/from/environment`"));
}

#[test]
fn shell_completions_do_not_care_about_a_broken_file() {
    let sandbox = Sandbox::new();
    sandbox.write("delegate-doctor.toml", "][");
    sandbox.run(["completions", "bash"]).good();
}
