//! What the command line, the environment and the project file come to together.

use super::*;

fn common() -> Common {
    Common {
        python: None,
        folders: Folders { cache: "/c".into(), data: "/d".into(), config: "/o".into(), state: "/s".into() },
    }
}

fn resolve(arguments: OptimizeArguments, project: &str) -> Result<OptimizeSettings, Error> {
    let project = ProjectFile::parse(project, "/project/delegate-doctor.toml".as_ref()).expect("project file");
    OptimizeSettings::resolve(arguments, common(), &project)
}

#[test]
fn the_command_line_wins_over_the_project_file_and_the_file_over_the_default() {
    let written = "[optimize]\nmin-gain = 1.5\nthreads = 3\nskip = ['DD-002']\nmemory-limit = '2GiB'\n";
    let typed = OptimizeArguments { threads: Some(1), ..OptimizeArguments::default() };
    let settings = resolve(typed, written).expect("settings");
    assert_eq!(settings.threads, Some(1));
    assert_eq!(settings.thresholds.min_gain, 1.5);
    assert_eq!(settings.thresholds.min_share, DEFAULT_MIN_SHARE);
    assert_eq!(settings.rules.skip, ["dd-002"]);
    assert_eq!(settings.memory_limit, Some(2 << 30));
}

#[test]
fn the_environment_wins_over_the_project_file_for_python() {
    let project = ProjectFile::parse("python = 'venv/bin/python'", "/project/delegate-doctor.toml".as_ref())
        .expect("project file");
    let home = |name: &str| (name == environment_variables::DELEGATE_DOCTOR_HOME).then(|| PathBuf::from("/home"));
    let both = |name: &str| match name {
        environment_variables::DELEGATE_DOCTOR_PYTHON => Some(PathBuf::from("/env/python")),
        other => home(other),
    };
    let python = |argument: Option<&str>, variable: &dyn Fn(&str) -> Option<PathBuf>| {
        Common::resolve(argument.map(PathBuf::from), variable, &project).expect("common").python
    };
    assert_eq!(python(None, &home), Some("/project/venv/bin/python".into()));
    assert_eq!(python(None, &both), Some("/env/python".into()));
    assert_eq!(python(Some("mine"), &both), Some("mine".into()));
}

#[test]
fn values_outside_their_range_are_named() {
    let message = |arguments| resolve(arguments, "").expect_err("out of range").to_string();
    let default = OptimizeArguments::default;
    assert_eq!(
        message(OptimizeArguments { min_gain: Some(0.9), ..default() }),
        "The value of `min-gain` must be a ratio from 1 to 100: `0.9`"
    );
    assert!(message(OptimizeArguments { min_gain: Some(f64::NAN), ..default() }).contains("`NaN`"));
    assert!(message(OptimizeArguments { max_seconds: Some(-1.0), ..default() }).contains("max-seconds"));
    assert!(message(OptimizeArguments { model_timeout: Some(f64::INFINITY), ..default() }).contains("`inf`"));
    assert!(message(OptimizeArguments { jobs: Some(0), ..default() }).contains("`jobs` must be 1 or more"));
    assert_eq!(
        message(OptimizeArguments { memory_limit: Some(8), ..default() }),
        "The value of `memory-limit` must be at least 2 GiB, with a unit as in `8GiB`: `8 bytes`"
    );
}

#[test]
fn a_run_goes_to_a_numbered_folder_unless_the_user_names_one() {
    let place = |out: Option<&str>, resume: Option<Option<&str>>| {
        let arguments = OptimizeArguments {
            model: "models/unet.py".to_string(),
            out: out.map(PathBuf::from),
            resume: resume.map(|folder| folder.map(PathBuf::from)),
            ..OptimizeArguments::default()
        };
        resolve(arguments, "").expect("settings").place
    };
    let (parent, name) = (PathBuf::from(RUNS_FOLDER), "unet".to_string());
    assert_eq!(place(None, None), RunPlace::Numbered { parent: parent.clone(), name: name.clone() });
    assert_eq!(place(Some("x"), None), RunPlace::At("x".into()));
    assert_eq!(place(None, Some(None)), RunPlace::ResumeNewest { parent, name });
    assert_eq!(place(Some("x"), Some(None)), RunPlace::ResumeAt("x".into()));
    assert_eq!(place(None, Some(Some("y"))), RunPlace::ResumeAt("y".into()));
}

#[test]
fn run_names_are_one_safe_path_segment() {
    for (model, name) in [
        ("models/unet.py", "unet"),
        ("zoo.vision:unet", "zoo.vision-unet"),
        ("a b/modèle 1.pt2", "modèle-1"),
        ("..", "model"),
        ("", "model"),
        ("dir/", "dir"),
        ("unet.v2.py", "unet.v2"),
    ] {
        assert_eq!(run_name(model), name, "{model}");
    }
}

#[test]
fn locked_rules_are_not_joined_by_those_of_the_project_file() {
    let folders = |locked: bool, rules: Vec<PathBuf>| {
        let arguments = OptimizeArguments { locked, rules, ..OptimizeArguments::default() };
        resolve(arguments, "rules = ['extra']").map(|settings| settings.rules.folders)
    };
    let error = folders(true, Vec::new()).expect_err("locked").to_string();
    assert!(error.ends_with("delegate-doctor.toml` names other rules: `/project/extra`"), "{error}");
    assert_eq!(folders(false, Vec::new()).expect("not locked"), [PathBuf::from("/project/extra")]);
    assert_eq!(folders(true, vec!["own".into()]).expect("named by the user"), [PathBuf::from("own")]);
}

#[test]
fn rules_are_chosen_without_regard_to_case() {
    let choice = RuleChoice {
        only: vec!["dd-001".into(), "DD-002".into()],
        skip: vec!["dd-002".into()],
        ..RuleChoice::default()
    };
    assert!(choice.includes("DD-001", false));
    assert!(choice.includes("DD-001", true), "a preview rule that is named takes part");
    assert!(!choice.includes("DD-002", false));
    assert!(!choice.includes("DD-003", false));
    assert!(RuleChoice::default().includes("DD-003", false));
    assert!(!RuleChoice::default().includes("DD-003", true));
    assert_eq!(choice.unknown(&["dd-001", "dd-003"]), ["DD-002", "dd-002"]);
}

#[test]
fn the_project_file_names_the_target_and_its_runner() {
    let written = "[optimize]\ntarget = 'adb:R1'\nrunner = 'out/runner'\n";
    let of = |typed: Option<&str>, runner: Option<&str>| {
        let typed = OptimizeArguments {
            target: typed.map(|text| text.parse().expect("a target")),
            runner: runner.map(PathBuf::from),
            ..OptimizeArguments::default()
        };
        let TargetChoice { selector, runner } = resolve(typed, written).expect("settings").target;
        (selector.to_string(), runner.map(|path| path.display().to_string()))
    };
    let with = |target: &str, runner: &str| (target.to_owned(), Some(runner.to_owned()));
    assert_eq!(of(None, None), with("adb:R1", "/project/out/runner"));
    assert_eq!(of(None, Some("mine")), with("adb:R1", "mine"));
    assert_eq!(of(Some("adb:R1"), None), with("adb:R1", "/project/out/runner"));
    assert_eq!(of(Some("local"), None), ("local".to_owned(), None), "another target needs another runner");
    assert_eq!(
        resolve(OptimizeArguments::default(), "[optimize]\ntarget = 'phone'").expect_err("no target").to_string(),
        "The value of `target` must be one of `local`, `qemu[:CPU]`, `adb[:SERIAL]` and `ssh:HOST`: `phone`"
    );
}
