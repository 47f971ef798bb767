//! Every way in which a model can misbehave has a typed error, a hint, and leaves nothing half-written.

use std::path::PathBuf;
use std::time::Duration;

use delegate_doctor::torch::protocol::{FailureKind, ModelSource};
use delegate_doctor::torch::{Error, Worker};

use crate::bench::{LIMIT, Place, model, names, shared, start};

struct Expected<'a> {
    kind: FailureKind,
    message: &'a [&'a str],
    hint: &'a str,
}

fn refused(worker: &mut Worker, source: &ModelSource, expected: &Expected<'_>) {
    let place = Place::new();
    let error = place.export(worker, source).expect_err("refused");
    let Error::Failed { error: failure, .. } = &error else { panic!("{source:?}: {error}\n{:?}", error.detail()) };
    assert_eq!(failure.kind, expected.kind, "{source:?}: {failure:#?}");
    for part in expected.message {
        assert!(failure.message.contains(part), "{source:?} lacks `{part}`: {failure:#?}");
    }
    let hint = error.hint().unwrap_or_default();
    assert!(hint.contains(expected.hint), "{source:?}: {hint}");
    assert!(!failure.message.ends_with('.') && !failure.message.contains('\n'), "{failure:#?}");
    assert!(!failure.detail.contains("delegate_doctor_worker"), "our own frames are hidden: {}", failure.detail);
    assert_eq!((place.names(), names(&place.inputs())), (vec!["inputs".to_owned()], vec![]), "nothing is left behind");
    assert!(worker.is_alive());
}

#[test]
fn what_a_model_file_can_do_wrong_is_said() {
    use FailureKind::{ExportFailed, ModelContract, ModelFile, ModelRaised};
    let mut worker = shared();
    for (name, kind, message, hint) in [
        ("syntax_error", ModelFile, &["line 6", "def delegate_doctor_model(:"][..], "Correct the file"),
        ("no_inputs", ModelContract, &["`delegate_doctor_inputs()`", "no_inputs.py"], "torch.randn"),
        ("not_a_module", ModelContract, &["`delegate_doctor_model()`"], "`ReLU()` instead of `ReLU`"),
        ("wrong_input_type", ModelContract, &["`ndarray`"], "torch.from_numpy"),
        ("wrong_input_shape", ModelRaised, &["on its own inputs", "1x5 and 4x4"], "The inputs are float32[1, 5]"),
        ("raises", ModelRaised, &["LookupError: the weights are not", "raises.py:11"], ""),
        ("exits", ModelRaised, &["ended the program with code 3"], "__main__"),
        ("calls_itself", ModelRaised, &["RecursionError", "calls_itself.py:11"], "calls itself"),
        ("asks_for_input", ModelRaised, &["EOFError"], "keyboard"),
        ("missing_package", ModelRaised, &["a_package_that_nobody_has"], "Install `a_package_that_nobody_has`"),
        ("decides_by_value", ExportFailed, &["data-dependent", "decides_by_value.py:9"], "torch.where"),
    ] {
        refused(&mut worker, &model(name), &Expected { kind, message, hint });
    }
    let missing = ModelSource::File { path: PathBuf::from("/nonexistent/model.py") };
    refused(&mut worker, &missing, &Expected { kind: ModelFile, message: &["/nonexistent/model.py"], hint: "path" });
    let module =
        |module: &str, callable: &str| ModelSource::Callable { module: module.into(), callable: callable.into() };
    refused(
        &mut worker,
        &module("no_such_module_here", "make"),
        &Expected { kind: ModelFile, message: &["`no_such_module_here`"], hint: "PYTHONPATH" },
    );
    refused(
        &mut worker,
        &module("torch.nn", "NoSuchThing"),
        &Expected { kind: ModelContract, message: &["`NoSuchThing`"], hint: "def NoSuchThing()" },
    );
    refused(
        &mut worker,
        &module("torch.nn", "ReLU"),
        &Expected { kind: ModelContract, message: &["returned a `ReLU`"], hint: "(model, inputs)" },
    );
    worker.ping(LIMIT).expect("the worker is as good as new");
}

#[test]
fn a_model_that_prints_does_not_disturb_the_protocol() {
    let mut worker = shared();
    let place = Place::new();
    place.exported(&mut worker, "prints");
    let log = worker.stderr_tail();
    for line in ["by Python", "to descriptor 1", "by a child", "while the model is built"] {
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[test]
fn a_model_that_hangs_is_killed() {
    let mut worker = start(|_| {});
    worker.describe(LIMIT).expect("libraries are loaded");
    let place = Place::new();
    let error = worker
        .export(&model("hangs"), &place.file("model.pt2"), &place.inputs(), 0, Duration::from_secs(2))
        .expect_err("hangs");
    assert!(
        matches!(error, Error::TimedOut { method: "export", .. }) && error.to_string().contains("within 2 s"),
        "{error}"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("endless loop")));
    assert!(error.is_about_the_model() && !worker.is_alive());
    assert_eq!(place.names(), ["inputs"]);
}

#[test]
fn a_model_that_ends_the_process_is_told_apart_from_a_crash() {
    let mut worker = start(|_| {});
    let place = Place::new();
    let error = place.export(&mut worker, &model("dies")).expect_err("dies");
    assert!(matches!(&error, Error::Died { how, signal: None, .. } if how == "exit code 7"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("exit")));
    assert_eq!(place.names(), ["inputs"]);
}

#[test]
fn a_model_that_takes_all_memory_meets_the_limit() {
    let mut worker = start(|options| options.memory_limit = Some(3 << 30));
    let place = Place::new();
    let error = place.export(&mut worker, &model("allocates")).expect_err("too much");
    let Error::Failed { error: failure, .. } = &error else { panic!("{error}\n{:?}", error.detail()) };
    assert_eq!(failure.kind, FailureKind::OutOfMemory, "{failure:#?}");
    // The memory is free again.
    place.exported(&mut worker, "softmax_over_channels");
}
