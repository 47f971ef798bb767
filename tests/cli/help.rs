//! Help, versions and wrong arguments.

use dd_tests::Sandbox;

/// Every command and sub-command, as typed.
pub(crate) fn commands() -> Vec<Vec<String>> {
    fn names(help: &str) -> Vec<String> {
        help.lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| !line.is_empty())
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
            .collect()
    }
    let sandbox = Sandbox::new();
    let mut found = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(line) = open.pop() {
        let help = sandbox.run(line.iter().map(String::as_str).chain(["--help"])).good().stdout;
        for name in names(&help) {
            let mut line = line.clone();
            line.push(name);
            open.push(line.clone());
            found.push(line);
        }
    }
    found.sort();
    found
}

#[test]
fn the_help_of_every_command_is_what_a_newcomer_reads() {
    let sandbox = Sandbox::new();
    let mut lines = commands();
    assert!(lines.len() >= 4, "{lines:?}");
    lines.push(Vec::new());
    for line in lines {
        let ran = sandbox.run(line.iter().map(String::as_str).chain(["--help"])).good();
        assert_eq!(ran.stderr, "", "help is data");
        assert!(ran.stdout.contains("Examples:"), "`{}` shows no example", line.join(" "));
        let name = if line.is_empty() { "help".to_owned() } else { format!("help-{}", line.join("-")) };
        insta::assert_snapshot!(name, ran.stdout);
    }
}

#[test]
fn the_long_version_lists_every_version_and_the_short_one_stands_alone() {
    let sandbox = Sandbox::new();
    let short = sandbox.run(["-V"]).good().stdout;
    assert_eq!(short, format!("delegate-doctor {}\n", env!("CARGO_PKG_VERSION")));
    let long = sandbox.run(["--version"]).good().stdout;
    assert!(long.starts_with(&short), "{long}");
    for name in ["rule contract", "report schema", "worker protocol", "runner protocol"] {
        assert!(long.lines().any(|line| line.starts_with(name)), "{name} is missing in\n{long}");
    }
}

#[test]
fn wrong_arguments_are_told_on_stderr_with_exit_code_2() {
    let sandbox = Sandbox::new();
    let mut told = String::new();
    for line in [
        &["optimise", "m.py"][..],
        &["doctor", "--formt", "json"],
        &["doctor", "--format", "yaml"],
        &["completions"],
        &["completions", "tcsh"],
        &["doctor", "--quiet", "--verbose"],
        &["doctor", "--color", "pink"],
        &["doctor", "extra"],
    ] {
        let ran = sandbox.run(line);
        assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""), "{line:?}");
        told.push_str(&format!("$ delegate-doctor {}\n{}\n", line.join(" "), ran.stderr));
    }
    insta::assert_snapshot!("wrong-arguments", told);
}

#[test]
fn no_arguments_show_the_help_on_stderr() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run([""; 0]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("Usage: delegate-doctor"), "{}", ran.stderr);
}
