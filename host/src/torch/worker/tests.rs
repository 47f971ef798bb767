//! Faults of the process and of the protocol, played by shell scripts.

use std::process::Command;
use std::sync::Mutex;

use super::*;
use crate::torch::protocol::FailureKind;

const HELLO: &str = r#"echo '{"protocol":1,"python":"3.11.7","torch":"2.15.0","executorch":"1.5.1"}'"#;
const SOON: Duration = Duration::from_secs(20);

fn play_with(script: &str, options: &WorkerOptions) -> Result<Worker, Error> {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Worker::greet(Child::spawn(command, options)?, options)
}

/// A worker that says hello and then runs `script`.
fn play(script: &str) -> Worker {
    play_with(&format!("{HELLO}\n{script}"), &WorkerOptions::new(Path::new("/nonexistent"))).expect("hello")
}

#[test]
fn answers_progress_and_typed_errors_arrive() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    let mut options = WorkerOptions::new(Path::new("/nonexistent"));
    options.progress = Some(Arc::new(move |text: &str| listener.lock().expect("lock").push(text.to_owned())));
    let script = format!(
        r#"{HELLO}
read request; case $request in *'"id":1,"method":"ping"'*) echo '{{"id":1,"progress":"working"}}'; echo '{{"id":1,"ok":{{}}}}';; esac
read request
echo '{{"id":2,"error":{{"kind":"model_raised","message":"It broke","detail":"line","hint":"Mend it"}}}}'
read request
echo '{{"id":3,"error":{{"kind":"of the future","message":"New"}}}}'
read request"#
    );
    let mut worker = play_with(&script, &options).expect("hello");
    assert_eq!(worker.hello().torch, "2.15.0");
    worker.ping(SOON).expect("first answer");
    assert_eq!(*told.lock().expect("lock"), ["working"]);
    let error = worker.ping(SOON).expect_err("second answer");
    assert_eq!(error.to_string(), "It broke");
    assert_eq!(error.hint().as_deref(), Some("Mend it"));
    assert_eq!(error.detail(), Some("line"));
    assert!(error.is_about_the_model());
    assert!(worker.is_alive(), "an error of the model does not end the worker");
    let Err(Error::Failed { error, .. }) = worker.ping(SOON) else { panic!("third answer") };
    assert_eq!(error.kind, FailureKind::Other);
    worker.shutdown(SOON);
}

#[test]
fn another_protocol_version_is_named() {
    let options = WorkerOptions::new(Path::new("/nonexistent"));
    let script = r#"echo '{"protocol":7,"other":"fields"}'; sleep 60"#;
    let error = play_with(script, &options).expect_err("version 7");
    assert!(matches!(error, Error::Version { found: 7, wanted: PROTOCOL }), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn noise_is_quoted_with_the_last_words_and_ends_the_worker() {
    let mut worker = play("echo warned >&2; read request; echo 'Hello from a library'; sleep 60");
    let error = worker.ping(SOON).expect_err("noise");
    assert!(error.to_string().contains("Hello from a library"), "{error}");
    assert_eq!(error.detail(), Some("warned"));
    assert!(!worker.is_alive());
    assert!(matches!(worker.ping(SOON), Err(Error::Ended { method: "ping" })));
}

#[test]
fn answers_of_another_form_are_noise() {
    for answer in [
        r#"{"id":9,"ok":{}}"#,
        r#"{"id":1}"#,
        r#"{"id":1,"ok":{},"progress":"both"}"#,
        r#"{"id":1,"ok":{},"more":1}"#,
        r#"[1]"#,
        r#"{"id":1,"ok":"#,
    ] {
        let mut worker = play(&format!("read request; echo '{answer}'; sleep 60"));
        let error = worker.ping(SOON).expect_err(answer);
        assert!(matches!(error, Error::Noise { .. }), "{answer}: {error}");
    }
    let mut worker = play(r#"read request; echo '{"id":1,"ok":{"runs":3}}'; sleep 60"#);
    let error = worker.run_many(Path::new("/p"), &[], SOON).expect_err("another form");
    assert!(matches!(error, Error::Noise { method: "run_many", .. }), "{error}");
    let mut worker = play(r"read request; printf '\377\376\n'; sleep 60");
    assert!(matches!(worker.ping(SOON), Err(Error::Noise { .. })));
}

#[test]
fn a_line_without_end_is_cut_off() {
    let mut worker = play("read request; tr '\\0' x < /dev/zero");
    let error = worker.ping(SOON).expect_err("endless line");
    assert!(error.to_string().contains("67108864 bytes"), "{error}");
}

#[test]
fn a_death_is_told_with_its_cause() {
    let mut worker = play("read request; echo 'last words' >&2; exit 3");
    let error = worker.ping(SOON).expect_err("exit");
    assert!(error.to_string().ends_with("`ping`: exit code 3"), "{error}");
    assert_eq!(error.detail(), Some("last words"));

    let mut worker = play("read request; kill -KILL $$");
    let error = worker.ping(SOON).expect_err("kill");
    assert!(matches!(error, Error::Died { signal: Some(9), .. }), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("memory")));

    // A request to a process that is gone already.
    let mut worker = play("exit 4");
    assert!(matches!(worker.ping(SOON), Err(Error::Died { .. })));

    let error = play_with("exit 5", &WorkerOptions::new(Path::new("/nonexistent"))).expect_err("no hello");
    assert!(matches!(error, Error::Died { method: "start", .. }), "{error}");
}

#[test]
fn a_death_is_noticed_while_a_grandchild_holds_the_pipe() {
    let mut worker = play("read request; sleep 61 & exit 6");
    let started = Instant::now();
    let error = worker.ping(SOON).expect_err("exit");
    assert!(error.to_string().ends_with("exit code 6"), "{error}");
    assert!(started.elapsed() < SOON);
}

#[test]
fn a_silent_worker_is_killed_with_all_it_started() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let number = folder.path().join("pid");
    let mut worker = play(&format!("sleep 62 & echo $! > '{}'; read request; wait", number.display()));
    let error = worker.ping(Duration::from_millis(300)).expect_err("silence");
    assert!(matches!(error, Error::TimedOut { method: "ping", .. }), "{error}");
    let sleeper = fs_err::read_to_string(number).expect("pid");
    let gone = || {
        // Killed, and at most a corpse that nobody has collected yet.
        fs_err::read_to_string(format!("/proc/{}/stat", sleeper.trim()))
            .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
    };
    let started = Instant::now();
    while !gone() {
        assert!(started.elapsed() < SOON, "the grandchild still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_worker_that_does_not_read_cannot_block_the_host() {
    let mut worker = play("sleep 63");
    let names = vec!["x".repeat(1000); 2000];
    let error = worker
        .capture(Path::new("/p"), &[], &names, Path::new("/o"), Duration::from_millis(300))
        .expect_err("never read");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[test]
fn a_flood_on_stderr_neither_blocks_nor_grows() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut options = WorkerOptions::new(Path::new("/nonexistent"));
    options.log = Some(folder.path().join("worker.log"));
    let script = format!(
        r#"{HELLO}
read request; i=0; while [ $i -lt 3000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1"#
    );
    let mut worker = play_with(&script, &options).expect("hello");
    let error = worker.ping(SOON).expect_err("exit");
    let tail: Vec<&str> = error.detail().expect("tail").lines().collect();
    assert_eq!((tail.len(), tail.last().copied()), (100, Some("line 2999")));
    let log = fs_err::read_to_string(folder.path().join("worker.log")).expect("log");
    assert_eq!(log.lines().count(), 3000);
}

#[test]
fn shutdown_waits_for_an_orderly_end() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mark = folder.path().join("ended");
    let worker = play(&format!("while read request; do :; done; sleep 0.2; touch '{}'", mark.display()));
    worker.shutdown(SOON);
    assert!(mark.exists());
}

#[test]
fn a_missing_interpreter_is_named() {
    let options = WorkerOptions::new(Path::new("/nonexistent"));
    let error = Child::spawn(Command::new("/nonexistent/python"), &options).err().expect("no such file");
    assert!(error.to_string().contains("/nonexistent/python"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}
