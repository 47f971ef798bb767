//! A wish to stop ends a waiting request and the process. The flag is the process's own, so this test
//! lives alone.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use delegate_doctor::interrupt;
use delegate_doctor::torch::environment::Origin;
use delegate_doctor::torch::{Environment, Error, Worker, WorkerOptions};

#[test]
fn an_interrupt_ends_the_wait_and_the_worker() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let python = folder.path().join("python");
    let hello = r#"{"protocol":1,"python":"3.11.7","torch":"2.15.0","executorch":"1.5.1"}"#;
    fs_err::write(&python, format!("#!/bin/sh\necho '{hello}'\nread request\nsleep 600\n")).expect("write");
    let mut permissions = fs_err::metadata(&python).expect("file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs_err::set_permissions(&python, permissions).expect("executable");
    let environment = Environment {
        python,
        origin: Origin::Given,
        python_version: String::new(),
        torch_version: String::new(),
        executorch_version: String::new(),
        executorch_folder: PathBuf::new(),
        notes: Vec::new(),
    };
    let mut worker = Worker::start(&environment, &WorkerOptions::new(folder.path())).expect("start");
    let process = worker.process_id();
    let started = Instant::now();
    let stopper = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(200));
        interrupt::request();
    });
    let error = worker.ping(Duration::from_secs(600)).expect_err("interrupted");
    stopper.join().expect("thread");
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(!worker.is_alive());
    assert!(!PathBuf::from(format!("/proc/{process}")).exists(), "the process is gone and collected");
}
