//! The same program against itself is never faster, on a calm machine and on a loaded one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dd_tests::{python, workspace};
use delegate_doctor::gates::GateStatus;
use delegate_doctor::gates::benchmark::{BenchmarkPlan, benchmark};
use delegate_doctor::progress::Silent;
use delegate_doctor::target::local::LocalTarget;
use delegate_doctor::torch::protocol::ModelSource;
use delegate_doctor::torch::{Worker, WorkerOptions};

/// Comparisons on a calm machine, and as many with every processor kept busy by something else.
const EACH: u64 = 25;

#[test]
fn the_same_program_is_never_accepted_against_itself() {
    let environment = python();
    let cache = workspace().join("target").join("test-home").join("cache");
    let target = LocalTarget::prepare(&environment, &cache, &Silent).expect("runner");
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut worker = Worker::start(&environment, &WorkerOptions::new(&cache)).expect("worker");
    let limit = Duration::from_secs(300);
    let source = ModelSource::File { path: workspace().join("tests/fixtures/models/full_slices.py") };
    let program = folder.path().join("program.pt2");
    let exported = worker.export(&source, &program, folder.path(), 0, limit).expect("export");
    let pte = folder.path().join("program.pte");
    worker.lower(&program, &pte, limit).expect("lower");
    worker.shutdown(Duration::from_secs(5));

    let compare = |seed: u64| {
        let plan = BenchmarkPlan {
            threads: 2,
            seed,
            block: Duration::from_millis(40),
            max_pairs: 12,
            budget: Duration::from_secs(20),
            ..BenchmarkPlan::default()
        };
        benchmark(&target, &pte, &pte, &exported.inputs, &plan, &Silent).expect("benchmark")
    };
    let mut accepted = Vec::new();
    let mut check = |seed: u64| {
        let outcome = compare(seed);
        if outcome.report.status == GateStatus::Pass {
            accepted.push(format!("seed {seed}: {}", outcome.report.summary));
        }
    };
    for seed in 0..EACH {
        check(seed);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let mut number = 1_u64;
                while !stop.load(Ordering::Relaxed) {
                    number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            });
        }
        for seed in EACH..2 * EACH {
            check(seed);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(accepted.is_empty(), "{} of {} accepted: {}", accepted.len(), 2 * EACH, accepted.join("; "));
}
