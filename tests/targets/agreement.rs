//! The same programs here and under emulated Arm: their outputs agree within bounds, and the evidence names the
//! kernels.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dd_tests::{python, workspace};
use delegate_doctor::profile::{etdump, kernels};
use delegate_doctor::progress::Silent;
use delegate_doctor::target::selector::Selector;
use delegate_doctor::target::{self, Target};
use delegate_doctor::tensor::Tensor;
use delegate_doctor::torch::protocol::TensorFile;
use serde::Deserialize;

use crate::bench::traced_once;

/// Largest difference between two kernels for the same single-precision operation, relative to the spread of an
/// output.
const SINGLES: f64 = 1e-5;
/// The same in half precision.
const HALVES: f64 = 5e-3;

#[derive(Deserialize)]
struct Record {
    inputs: Vec<TensorFile>,
}

/// Outputs of the first run, and the kernel families of a second one.
fn run(target: &dyn Target, pte: &Path, inputs: &[TensorFile]) -> (Vec<Tensor>, Vec<String>) {
    let folder = tempfile::tempdir().expect("folder");
    let trace = folder.path().join("trace.etdp");
    let outcome = target.run(&traced_once(pte, inputs, folder.path(), &trace, Duration::from_secs(120)));
    let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", pte.display()));
    let outputs = outcome.outputs.iter().map(|file| Tensor::read(file).expect("output")).collect();
    (outputs, kernels::families(&etdump::read(&trace).expect("trace")))
}

/// Largest difference relative to the spread of the first tensor.
fn difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!((a.dtype, &a.sizes), (b.dtype, &b.sizes));
    let (a, b) = (a.to_f64().expect("real"), b.to_f64().expect("real"));
    let ends = a.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
    let spread = (ends.1 - ends.0).max(f64::MIN_POSITIVE);
    let distances = a.iter().zip(&b).map(|(a, b)| (a - b).abs());
    distances.fold(0.0, |most: f64, distance| if distance.is_nan() { f64::INFINITY } else { most.max(distance) })
        / spread
}

#[test]
fn ten_models_agree_here_and_on_emulated_arm() {
    let folder = tempfile::tempdir().expect("folder");
    let script = workspace().join("tests/fixtures/runner/lower_models.py");
    let done = Command::new(python().python).arg(script).arg(folder.path()).output().expect("Python starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let cache = workspace().join("target/test-home/cache");
    let prepare = |selector: &str| {
        let selector: Selector = selector.parse().expect("target");
        target::prepare(&selector, None, &python(), &cache, &Silent).unwrap_or_else(|error| panic!("{error}"))
    };
    let local = prepare("local");
    let emulated = ["qemu:cortex-a76", "qemu:max"].map(|selector| (selector, prepare(selector)));
    let mut models: Vec<String> = fs_err::read_dir(folder.path())
        .expect("folder")
        .filter_map(|entry| entry.expect("entry").file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".pte").map(str::to_owned))
        // It takes a number beside its tensor, which the runner refuses on every target.
        .filter(|name| name != "scaled")
        .collect();
    models.sort();
    assert!(models.len() >= 10, "{models:?}");
    let mut families: Vec<(&str, String)> = Vec::new();
    for model in &models {
        let pte = folder.path().join(format!("{model}.pte"));
        let record = fs_err::read(folder.path().join(format!("{model}.json"))).expect("record");
        let record: Record = serde_json::from_slice(&record).expect("record");
        let (here, ran) = run(&*local, &pte, &record.inputs);
        assert!(!here.is_empty() && !ran.is_empty(), "{model}: {ran:?}");
        for (name, target) in &emulated {
            let (there, ran) = run(&**target, &pte, &record.inputs);
            assert_eq!(here.len(), there.len(), "{model}");
            for (index, (a, b)) in here.iter().zip(&there).enumerate() {
                let bound = match a.dtype.torch_name() {
                    "float32" => SINGLES,
                    "float16" | "bfloat16" => HALVES,
                    _ => 0.0,
                };
                let found = difference(a, b);
                assert!(found <= bound, "{model} output {index} on {name}: {found:e}, and {bound:e} is allowed");
            }
            families.extend(ran.into_iter().map(|family| (*name, family)));
        }
    }
    // Without and with the matrix unit, XNNPACK chooses other kernels, and their names tell.
    let with_matrix_unit =
        |wanted: &str| families.iter().any(|(name, family)| *name == wanted && family.contains("PF32"));
    assert!(with_matrix_unit("qemu:max") && !with_matrix_unit("qemu:cortex-a76"), "{families:#?}");
}
