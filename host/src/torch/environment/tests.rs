//! Interpreters are played by shell scripts: nothing here needs Python.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::*;
use crate::progress::{Silent, Step, Unit};

/// Keeps what it is told.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

impl Listener {
    fn hear(&self, text: &str) {
        self.0.lock().expect("lock").push(text.to_owned());
    }

    fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("lock"))
    }
}

impl Progress for Listener {
    fn step(&self, title: &str) -> Box<dyn Step> {
        self.hear(title);
        Box::new(self.clone())
    }
    fn note(&self, text: &str) {
        self.hear(text);
    }
    fn warning(&self, text: &str) {
        self.hear(text);
    }
    fn detail(&self, text: &str) {
        self.hear(text);
    }
}

impl Step for Listener {
    fn update(&self, text: &str) {
        self.hear(text);
    }
    fn advance(&self, _done: u64, _total: u64, _unit: Unit) {}
    fn done(self: Box<Self>, text: &str) {
        self.hear(text);
    }
}

/// Writes an executable script. Another process writes it, so that no descriptor of this one, inherited
/// by a child that is just being started, makes it busy.
fn script(path: &Path, body: &str) {
    fs_err::create_dir_all(path.parent().expect("parent")).expect("folder");
    let mut child = Command::new("sh")
        .args(["-c", r#"cat > "$0" && chmod +x "$0""#])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh");
    child.stdin.take().expect("pipe").write_all(format!("#!/bin/sh\n{body}\n").as_bytes()).expect("write");
    assert!(child.wait().expect("sh").success());
}

fn says(python: &str, torch: Option<&str>, executorch: Option<&str>) -> String {
    let mut answer = format!(r#""python":"{python}""#);
    if let Some(version) = torch {
        answer += &format!(r#","torch":"{version}""#);
    }
    if let Some(version) = executorch {
        answer += &format!(r#","executorch":"{version}","executorch_folder":"/site/executorch""#);
    }
    format!("echo 'a message of the day'; echo '{{{answer}}}'")
}

/// An interpreter that can make an environment; in it pip does what `pip` says.
fn maker(pip: &str) -> String {
    let bare = says("3.11.9", None, None);
    let full = says("3.11.9", Some("2.15.0"), Some("1.5.1"));
    format!(
        r#"case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip") {pip} ;;
*) if [ -e "$(dirname "$0")/installed" ]; then {full}; else {bare}; fi ;;
esac"#
    )
}

const PIP_WORKS: &str = r#"echo 'Downloading torch-2.15.0-cp311.whl (900 MB)'; touch "$(dirname "$0")/installed""#;

fn search(folder: &Path) -> Search {
    Search { python: None, active: None, data_dir: folder.join("data"), path: folder.join("bin").into() }
}

#[test]
fn the_named_interpreter_wins_and_is_checked() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let python = folder.path().join("env/bin/python");
    let mut search = search(folder.path());
    search.python = Some(folder.path().join("env"));
    search.active = Some(folder.path().join("elsewhere"));

    script(&python, &says("3.11.9", Some("2.15.0+cpu"), Some("1.5.1")));
    let found = find(&search).expect("usable").expect("there");
    assert_eq!((found.origin, found.notes.len()), (Origin::Given, 0), "{:?}", found.notes);
    assert_eq!(found.python, python);
    assert_eq!(found.executorch_folder, Path::new("/site/executorch"));

    script(&python, &says("3.12.1", Some("2.14.0"), Some("1.4.0")));
    let found = find(&search).expect("usable").expect("there");
    assert_eq!(found.notes.len(), 2, "both versions are untested: {:?}", found.notes);

    for (body, wanted) in [
        (says("3.9.2", Some("2.15.0"), Some("1.5.1")), "3.9.2"),
        (says("3.14.0", Some("2.15.0"), Some("1.5.1")), "3.14.0"),
        (says("3.11.9", None, Some("1.5.1")), "`torch`"),
        (says("3.11.9", Some("2.15.0"), None), "`executorch`"),
        (says("3.11.9", Some("2.10.0"), Some("1.3.2")), "executorch 1.3.2"),
        ("echo nonsense".to_owned(), "does not answer like Python"),
        ("echo broken >&2; exit 1".to_owned(), "broken"),
    ] {
        script(&python, &body);
        let error = find(&search).expect_err(wanted);
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
    search.python = Some(folder.path().join("no/such/python"));
    let error = find(&search).expect_err("no such file");
    assert!(matches!(error, Error::NotPython { .. }), "{error}");
}

#[test]
fn an_active_environment_counts_only_with_executorch() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut search = search(folder.path());
    search.active = Some(folder.path().join("active"));
    let python = folder.path().join("active/bin/python");
    script(&python, &says("3.11.9", Some("2.15.0"), Some("1.5.1")));
    assert_eq!(find(&search).expect("usable").expect("there").origin, Origin::Active);

    script(&python, &says("3.11.9", Some("2.15.0"), None));
    assert!(find(&search).expect("passed over").is_none(), "the managed one is not there yet");
    script(&folder.path().join("bin/python3.11"), &maker(PIP_WORKS));
    find_or_create(&search, &Silent).expect("made");
    let found = find(&search).expect("usable").expect("there");
    assert_eq!(found.origin, Origin::Managed);
    assert!(found.notes.iter().any(|note| note.contains("has no executorch")), "{:?}", found.notes);

    script(&python, &says("3.11.9", Some("2.10.0"), Some("1.2.0")));
    assert!(matches!(find(&search), Err(Error::TooOld { .. })));
}

#[test]
fn the_managed_environment_is_made_once() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let search = search(folder.path());
    script(&folder.path().join("bin/python3.11"), &maker(PIP_WORKS));
    assert!(find(&search).expect("nothing wrong").is_none());
    let progress = Listener::default();
    let made = find_or_create(&search, &progress).expect("made");
    assert_eq!((made.origin, made.torch_version.as_str()), (Origin::Managed, "2.15.0"));
    let said = progress.said();
    assert!(said.iter().any(|line| line == "Downloading torch (900 MB)"), "{said:?}");
    assert_eq!(find_or_create(&search, &progress).expect("found").python, made.python);
    assert!(progress.said().is_empty(), "the second time there is nothing to do");
}

#[test]
fn an_environment_that_was_made_and_does_not_answer_stays() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let search = search(folder.path());
    script(&folder.path().join("bin/python3.11"), &maker(PIP_WORKS));
    let made = find_or_create(&search, &Silent).expect("made").python;
    let whole = fs_err::read(&made).expect("script");
    script(&made, "echo 'cannot map a library' >&2; exit 1");
    let error = find_or_create(&search, &Silent).expect_err("does not answer");
    assert!(matches!(&error, Error::Managed { folder, .. } if made.starts_with(folder)), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("remove `")), "{error}");
    assert!(made.is_file() && made.with_file_name("installed").is_file(), "nothing of it is removed");
    fs_err::write(&made, whole).expect("mend");
    assert_eq!(find_or_create(&search, &Silent).expect("found").python, made);
    // One that says that its packages are gone is made anew.
    fs_err::remove_file(made.with_file_name("installed")).expect("remove");
    assert_eq!(find_or_create(&search, &Silent).expect("made again").python, made);
}

#[test]
fn a_half_made_environment_is_replaced() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let search = search(folder.path());
    let base = folder.path().join("bin/python3.11");
    script(&base, &maker("echo 'ERROR: [Errno 28] No space left on device' >&2; exit 1"));
    let error = find_or_create(&search, &Silent).expect_err("disk full");
    assert!(error.to_string().contains("No space left"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("disk space")));
    assert!(find(&search).expect("nothing wrong").is_none(), "what is half-made does not count");

    // What pip unpacks lies inside the environment and goes whatever becomes of the attempt.
    let environment = managed_folder(&search.data_dir);
    let left = folder.path().join("left");
    script(&base, &maker(&format!(r#"echo x > "$TMPDIR/wheel"; echo "$TMPDIR" > '{}'; exit 1"#, left.display())));
    find_or_create(&search, &Silent).expect_err("pip fails");
    let unpacking = PathBuf::from(fs_err::read_to_string(&left).expect("told").trim());
    assert!(unpacking.starts_with(&environment) && !unpacking.exists(), "{}", unpacking.display());

    script(&base, &maker(PIP_WORKS));
    find_or_create(&search, &Silent).expect("made on the second try");

    // The interpreter it was made with goes away, as after an upgrade of the system.
    let python = interpreter_of(&managed_folder(&search.data_dir));
    fs_err::remove_file(&python).expect("remove");
    fs_err::os::unix::fs::symlink("/nonexistent/python3.11", &python).expect("dangling link");
    assert!(find(&search).expect("nothing wrong").is_none());
    find_or_create(&search, &Silent).expect("made anew");
}

#[test]
fn two_processes_make_it_once() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let search = search(folder.path());
    let count = folder.path().join("count");
    let pip = format!("echo x >> '{}'; sleep 0.3; {PIP_WORKS}", count.display());
    script(&folder.path().join("bin/python3.11"), &maker(&pip));
    let progress = Listener::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| find_or_create(&search, &progress).expect("made or waited for"));
        }
    });
    assert!(progress.said().iter().any(|line| line.starts_with("Waiting for another process")));
    assert_eq!(fs_err::read_to_string(count).expect("count").lines().count(), 1);
}

#[test]
fn interpreters_that_do_not_fit_are_listed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let search = search(folder.path());
    let error = find_or_create(&search, &Silent).expect_err("none at all");
    assert_eq!(error.to_string(), "Found no Python 3.10 to 3.13 on PATH");
    script(&folder.path().join("bin/python3"), &says("3.8.1", None, None));
    let error = find_or_create(&search, &Silent).expect_err("too old");
    assert!(error.to_string().contains("which is 3.8.1"), "{error}");
    assert!(error.hint().is_some());

    let no_venv = format!(
        r#"case "$1 $2" in "-m venv") echo 'ensurepip is not available' >&2; exit 1 ;; *) {} ;; esac"#,
        says("3.11.2", None, None)
    );
    script(&folder.path().join("bin/python3.11"), &no_venv);
    let error = find_or_create(&search, &Silent).expect_err("no venv module");
    assert!(error.hint().is_some_and(|hint| hint.contains("python3-venv")), "{error}");
}

#[test]
fn versions_compare_by_their_numbers() {
    assert_eq!(probe::release("2.15.0+cpu"), (2, 15));
    assert_eq!(probe::release("1.4.0a0+1f2e"), (1, 4));
    assert_eq!(probe::release("1.10"), (1, 10));
    assert!(probe::release("1.10.0") > probe::release("1.4.2"));
    assert_eq!(probe::release("unknown"), (0, 0));
    assert_eq!(probe::public("1.5.1+cpu"), "1.5.1");
}
