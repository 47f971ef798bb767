//! The native runner against real programs: lowered by torch and executorch, run on this host.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use dd_tests::python;
use delegate_doctor::gates::benchmark::{BenchmarkPlan, benchmark};
use delegate_doctor::gates::inputs::{InputKind, InputSet, Inputs};
use delegate_doctor::gates::reference::{ProgramRun, Reference};
use delegate_doctor::gates::tolerance::Claim;
use delegate_doctor::gates::{GateStatus, backend_fidelity, device_correctness};
use delegate_doctor::hint::Hint as _;
use delegate_doctor::profile::{self, InstructionKind, etdump};
use delegate_doctor::progress::Silent;
use delegate_doctor::target::local::LocalTarget;
use delegate_doctor::target::runner_build::{self, Sdk};
use delegate_doctor::target::{Error, RunOutcome, RunRequest, Target as _, TraceRequest};
use delegate_doctor::tensor::Tensor;
use delegate_doctor::torch::protocol::TensorFile;
use serde::Deserialize;

/// Lowered models and a runner, made once for all tests of this file.
struct Bench {
    folder: tempfile::TempDir,
    target: LocalTarget,
}

#[derive(Deserialize)]
struct Record {
    inputs: Vec<TensorFile>,
    outputs: Vec<TensorFile>,
}

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("dd-target-").tempdir().expect("temporary folder");
        let target = LocalTarget::prepare(&python(), &folder.path().join("cache"), &Silent).expect("a runner");
        run_script("lower_models.py", [folder.path().join("models")]);
        Bench { folder, target }
    })
}

/// Runs a script of `fixtures/runner` and gives its stdout.
fn run_script<S: AsRef<OsStr>>(script: &str, arguments: impl IntoIterator<Item = S>) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/runner").join(script);
    let done = Command::new(python().python).arg(path).args(arguments).output().expect("Python starts");
    assert!(done.status.success(), "{script}: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr));
    done.stdout
}

impl Bench {
    fn program(&self, name: &str) -> PathBuf {
        self.folder.path().join("models").join(format!("{name}.pte"))
    }

    fn record(&self, name: &str) -> Record {
        let text = fs_err::read(self.folder.path().join("models").join(format!("{name}.json"))).expect("record");
        serde_json::from_slice(&text).expect("record")
    }
}

fn request<'a>(program: &'a Path, inputs: &'a [TensorFile]) -> RunRequest<'a> {
    RunRequest {
        program,
        inputs,
        output_dir: None,
        threads: 1,
        warmup: 1,
        warmup_limit: 1,
        iterations: 3,
        max_measure: Duration::from_secs(5),
        trace: None,
        timeout: Duration::from_secs(60),
    }
}

/// Runs a recorded model on its recorded inputs; the outputs are in `folder`.
fn run(name: &str, folder: &Path) -> RunOutcome {
    let record = bench().record(name);
    let program = bench().program(name);
    bench().target.run(&RunRequest { output_dir: Some(folder), ..request(&program, &record.inputs) }).expect("a run")
}

fn refusal(program: &Path, inputs: &[TensorFile]) -> (String, String) {
    match bench().target.run(&request(program, inputs)) {
        Err(Error::Refused { stage, reason, .. }) => (stage, reason),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn outputs_are_those_of_executorchs_own_runtime() {
    for name in ["softmax_head", "softmax_inside", "many_types", "channels_last", "dynamic_batch", "half", "counter"] {
        let folder = tempfile::tempdir().expect("temporary folder");
        let outcome = run(name, folder.path());
        let expected = bench().record(name).outputs;
        assert_eq!(outcome.outputs.len(), expected.len(), "{name}");
        for (index, (found, expected)) in outcome.outputs.iter().zip(&expected).enumerate() {
            let (found, expected) = (Tensor::read(found).expect("output"), Tensor::read(expected).expect("expected"));
            assert!(found == expected, "{name}, output {index}: {found:?} instead of {expected:?}");
        }
        assert_eq!(outcome.mutated_inputs, [0_usize; 0], "{name}");
        assert_eq!((outcome.warmup_ns.len(), outcome.samples_ns.len()), (1, 3), "{name}");
        assert!(outcome.peak_memory_bytes.expect("peak memory") > 1 << 20, "{name}");
        assert_eq!(outcome.notes, [""; 0], "{name}");
    }
}

#[test]
fn a_run_warms_up_until_its_times_stop_falling_and_tells_what_the_machine_did() {
    let (program, inputs) = (bench().program("softmax_head"), bench().record("softmax_head").inputs);
    let warming = RunRequest { warmup_limit: 200, ..request(&program, &inputs) };
    let outcome = bench().target.run(&warming).expect("a run");
    assert!((3..200).contains(&outcome.warmup_ns.len()), "{:?}", outcome.warmup_ns);
    assert_eq!(outcome.samples_ns.len(), 3);
    let conditions = outcome.conditions.expect("a runner of this version");
    let measured: u64 = outcome.warmup_ns.iter().chain(&outcome.samples_ns).sum();
    assert!(conditions.elapsed_ns >= measured && conditions.own_cpu_ns > 0, "{conditions:?}");
    assert!(conditions.processors >= 1, "{conditions:?}");
    // What is not told is named, and nothing else.
    let named = |what: &str| conditions.unreadable.iter().any(|name| name == what);
    assert_eq!(named("load"), conditions.after.load_hundredths.is_none());
    assert_eq!(named("processor time"), conditions.others_share().is_none());
    assert_eq!(named("frequency"), conditions.after.frequencies_khz.is_empty());
    assert_eq!(named("governor"), conditions.after.governors.is_empty());
    assert_eq!(named("temperature"), conditions.after.temperatures.is_empty());
}

#[test]
fn what_the_program_declares_is_reported() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let program = run("dynamic_batch", folder.path()).program;
    assert_eq!((program.method.as_str(), program.instructions), ("forward", 1));
    assert_eq!(program.backends, ["XnnpackBackend"]);
    assert_eq!((program.inputs[0].kind.as_str(), program.inputs[0].dtype.as_str()), ("tensor", "float32"));
    assert_eq!(program.inputs[0].sizes, [8, 16], "the upper bound of the batch");
}

#[test]
fn a_program_that_changes_its_input_is_caught_and_later_runs_see_the_first_input() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let outcome = run("in_place", folder.path());
    assert_eq!(outcome.mutated_inputs, [0]);
    let floats = |file: &TensorFile| Tensor::read(file).expect("tensor").to_f64().expect("floats");
    let inputs = bench().record("in_place").inputs;
    let sum: Vec<f64> = floats(&inputs[0])
        .iter()
        .zip(floats(&inputs[1]))
        .map(|(x, y)| {
            #[expect(clippy::cast_possible_truncation, reason = "the program adds single floats")]
            let sum = *x as f32 + y as f32;
            f64::from(sum)
        })
        .collect();
    assert_eq!(floats(&outcome.outputs[0]), sum);
}

#[test]
fn an_input_in_another_memory_layout_is_run_and_noted() {
    let mut inputs = bench().record("softmax_head").inputs;
    inputs[0].dim_order = vec![0, 2, 3, 1];
    let outcome = bench().target.run(&request(&bench().program("softmax_head"), &inputs)).expect("a run");
    assert_eq!(outcome.notes, ["input 0 is laid out in dimension order [0,2,3,1], the program was made for [0,1,2,3]"]);
}

#[test]
fn inputs_that_do_not_fit_are_refused_with_what_is_wrong() {
    let program = bench().program("softmax_head");
    let inputs = bench().record("softmax_head").inputs;
    let refused = |change: fn(&mut Vec<TensorFile>)| {
        let mut changed = inputs.clone();
        change(&mut changed);
        let (stage, reason) = refusal(&program, &changed);
        assert_eq!(stage, "inputs", "{reason}");
        reason
    };
    let reason = refused(Vec::clear);
    assert!(reason.starts_with("the program takes 1 inputs, but 0 were given (InvalidArgument, 0x12"), "{reason}");
    let reason = refused(|inputs| inputs[0].sizes = vec![1, 3, 20, 24]);
    assert!(reason.starts_with("the runtime refuses input 0, float32[1,3,20,24] ("), "{reason}");
    let reason = refused(|inputs| {
        inputs[0].sizes = vec![3, 24, 20];
        inputs[0].dim_order.clear();
    });
    assert!(reason.contains("input 0 is float32[3,24,20], but the program takes float32[1,3,24,20]"), "{reason}");
    let reason = refused(|inputs| inputs[0].sizes = vec![1, 3, 24, 21]);
    assert!(reason.contains("holds 5760 bytes, but float32[1,3,24,21] needs 6048"), "{reason}");
    let reason = refused(|inputs| inputs[0].dtype = "int32".to_owned());
    assert!(reason.contains("input 0 is int32[1,3,24,20], but the program takes float32"), "{reason}");
    let reason = refused(|inputs| inputs[0].dtype = "complex64".to_owned());
    assert!(reason.contains("element type `complex64` is not supported"), "{reason}");
    let reason = refused(|inputs| inputs[0].path = PathBuf::from("/nonexistent/x.bin"));
    assert!(reason.contains("`/nonexistent/x.bin` cannot be opened: No such file"), "{reason}");
    let reason = refused(|inputs| inputs[0].sizes = vec![1, 1 << 20, 1 << 20, 1 << 20]);
    assert!(reason.contains("too large"), "{reason}");
}

#[test]
fn a_program_that_wants_a_number_is_refused_clearly() {
    let mut inputs = bench().record("scaled").inputs;
    inputs.push(inputs[0].clone());
    let (stage, reason) = refusal(&bench().program("scaled"), &inputs);
    assert_eq!(stage, "inputs");
    assert!(reason.starts_with("input 1 of the program is of kind int; only tensors are supported"), "{reason}");
}

#[test]
fn what_is_no_program_is_refused_at_loading() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let whole = fs_err::read(bench().program("softmax_head")).expect("program");
    for (name, bytes) in
        [("empty", &[][..]), ("text", b"not a program at all, whatever its name"), ("cut", &whole[..900])]
    {
        let path = folder.path().join(format!("{name}.pte"));
        fs_err::write(&path, bytes).expect("write");
        let (stage, reason) = refusal(&path, &[]);
        assert_eq!(stage, "load", "{name}: {reason}");
    }
    let (stage, reason) = refusal(&folder.path().join("missing.pte"), &[]);
    assert!(stage == "load" && reason.contains("AccessFailed, 0x22"), "{reason}");
}

/// A program with three bits of it turned over, always the same for a number.
fn mutated(whole: &[u8], number: u64) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = usize::try_from(state % bytes.len() as u64).expect("small");
        bytes[at] ^= 1 << (state >> 40 & 7);
    }
    bytes
}

#[test]
fn a_corrupted_program_is_a_typed_error_or_runs_and_is_accepted_only_when_it_is_right() {
    const MUTATIONS: u64 = 1_000;
    let program = bench().program("softmax_head");
    let whole = fs_err::read(&program).expect("program");
    let inputs = bench().record("softmax_head").inputs;
    let run_of = |path: &Path| {
        let outputs = tempfile::tempdir().expect("temporary folder");
        let asked = RunRequest {
            output_dir: Some(outputs.path()),
            warmup: 0,
            iterations: 1,
            timeout: Duration::from_secs(5),
            ..request(path, &inputs)
        };
        let outcome = bench().target.run(&asked)?;
        Ok(ProgramRun::from_target(&outcome, &ProgramRun::default()).expect("outputs that can be read"))
    };
    let right = run_of(&program).expect("the whole program runs");
    let tensors = inputs.iter().map(|input| Tensor::read(input).expect("input")).collect();
    let set = InputSet { name: "the recorded inputs".to_owned(), kind: InputKind::User, tensors };
    let sets = Inputs { sets: vec![set], probes: Vec::new() };
    let reference = Reference::new(sets, Vec::new(), vec![right.clone()], &[]).expect("a reference");
    let label = bench().target.label();
    let original = backend_fidelity::measure(&reference, &label, vec![Ok(right.clone())]);

    // Ran and passed the gates, ran and did not, refused or too slow, crashed.
    let judge = |number: u64| -> usize {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("mutated.pte");
        fs_err::write(&path, mutated(&whole, number)).expect("write");
        match run_of(&path) {
            Ok(run) => {
                let repaired = backend_fidelity::measure(&reference, &label, vec![Ok(run.clone())]);
                let reports = [
                    device_correctness::judge(&reference, &original, &repaired).report,
                    backend_fidelity::judge(&reference, &original, &repaired, Claim::Exact).report,
                ];
                if reports.iter().any(|report| report.status != GateStatus::Pass) {
                    return 1;
                }
                let values = |run: &ProgramRun| -> Vec<f64> {
                    run.outputs.iter().flat_map(|output| output.to_f64().expect("floats")).collect()
                };
                let (found, wanted) = (values(&run), values(&right));
                assert_eq!(found.len(), wanted.len(), "mutation {number}");
                for (found, wanted) in found.iter().zip(wanted) {
                    assert!((found - wanted).abs() < 1e-4, "mutation {number} passed with {found} for {wanted}");
                }
                0
            }
            // A changed size can mean a thousand times the work.
            Err(Error::Refused { .. } | Error::Timeout { .. }) => 2,
            Err(Error::Crash { how, .. }) => {
                assert!(how.starts_with("signal "), "{how}");
                3
            }
            Err(other) => panic!("mutation {number}: {other}"),
        }
    };
    let mut seen = [0; 4];
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            let judge = &judge;
            scope.spawn(move || (half..MUTATIONS).step_by(2).map(judge).collect::<Vec<usize>>())
        });
        for half in halves {
            half.join().expect("no mutation takes the tool down").into_iter().for_each(|which| seen[which] += 1);
        }
    });
    assert_eq!(seen.iter().sum::<u64>(), MUTATIONS);
    assert!(seen[1] > 10 && seen[2] > 10, "passed, failed, refused, crashed: {seen:?}");
}

#[test]
fn a_program_that_does_not_end_is_ended() {
    let program = bench().program("softmax_head");
    let inputs = bench().record("softmax_head").inputs;
    let started = Instant::now();
    let endless = RunRequest {
        iterations: u32::MAX,
        max_measure: Duration::MAX,
        timeout: Duration::from_millis(800),
        ..request(&program, &inputs)
    };
    let error = bench().target.run(&endless).expect_err("too slow");
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(15));
    assert!(error.hint().is_some());
}

#[test]
fn a_trace_reads_as_executorchs_inspector_reads_it() {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        instruction: i64,
        delegated: bool,
        raw_ns: Vec<f64>,
    }

    let folder = tempfile::tempdir().expect("temporary folder");
    for name in ["softmax_head", "many_types"] {
        let path = folder.path().join(format!("{name}.etdp"));
        let record = bench().record(name);
        let program = bench().program(name);
        let traced = RunRequest {
            trace: Some(TraceRequest { path: &path, iterations: 5 }),
            ..request(&program, &record.inputs)
        };
        let outcome = bench().target.run(&traced).expect("a run");
        assert_eq!(outcome.traced_ns.len(), 5);
        let (path, ns_per_tick) = outcome.trace.expect("a trace");
        let trace = etdump::read(&path).expect("a dump");
        assert_eq!(trace.runs.len(), 5);

        let rows: Vec<Row> =
            serde_json::from_slice(&run_script("inspect_trace.py", [&path])).expect("the Inspector's rows");
        assert_eq!(trace.runs[0].events.len(), rows.len(), "{name}");
        for (index, row) in rows.iter().enumerate() {
            let event = &trace.runs[0].events[index];
            assert_eq!((event.name.as_str(), event.delegate), (row.name.as_str(), row.delegated), "{name} {index}");
            if event.name != "Method::execute" {
                assert_eq!(event.instruction, Some(row.instruction), "{name} {index}");
            }
            let ours: Vec<f64> = trace.runs.iter().map(|run| run.events[index].ticks() as f64 * ns_per_tick).collect();
            assert_eq!(ours, row.raw_ns, "{name} {index}");
        }
    }
}

#[test]
fn a_profile_tells_the_delegate_from_the_fallback() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("softmax.etdp");
    let inputs = bench().record("softmax_head").inputs;
    let program = bench().program("softmax_head");
    let traced = RunRequest { trace: Some(TraceRequest { path: &path, iterations: 9 }), ..request(&program, &inputs) };
    let (path, ns_per_tick) = bench().target.run(&traced).expect("a run").trace.expect("a trace");
    let trace = etdump::read(&path).expect("a dump");
    let profile = profile::profile(&trace, ns_per_tick, &bench().target.label()).expect("a profile");
    assert_eq!(profile.runs, 9);
    assert!(profile.delegation.median > 0.05 && profile.delegation.median < 0.95, "{:?}", profile.delegation);
    let [delegate, softmax] = profile.instructions.as_slice() else { panic!("{:?}", profile.instructions) };
    let InstructionKind::Delegate { ops } = &delegate.kind else { panic!("{delegate:?}") };
    assert!(ops.iter().any(|op| op.name.starts_with("Convolution (NHWC, F32)")), "{ops:?}");
    assert_eq!(softmax.kind, InstructionKind::Fallback { kernel: "_softmax.out".to_owned() });
    assert!((delegate.share.median + softmax.share.median - 1.0).abs() < 1e-9);
    assert!((profile.delegation.median - delegate.share.median).abs() < 1e-9);
}

#[test]
fn a_truncated_or_damaged_trace_is_an_error() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("trace.etdp");
    let inputs = bench().record("softmax_head").inputs;
    let program = bench().program("softmax_head");
    let traced = RunRequest { trace: Some(TraceRequest { path: &path, iterations: 3 }), ..request(&program, &inputs) };
    bench().target.run(&traced).expect("a run");
    let whole = fs_err::read(&path).expect("trace");
    assert!(etdump::parse(&whole).is_ok());
    for length in (0..whole.len()).step_by(7) {
        assert!(etdump::parse(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
    }
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x80;
        // Some bits are times or letters, and change only those; none may bring the reader down.
        refused += usize::from(etdump::parse(&damaged).is_err());
    }
    assert!(refused > whole.len() / 20, "{refused} of {}", whole.len());
}

#[test]
fn a_runner_is_built_once_even_when_two_want_it_at_once() {
    let cache = tempfile::tempdir().expect("temporary folder");
    let sdk = Sdk::at(&python().executorch_folder).expect("the package");
    let runners = std::thread::scope(|scope| {
        let builds = [(); 2].map(|()| scope.spawn(|| runner_build::prepare(&sdk, cache.path(), &Silent)));
        builds.map(|build| build.join().expect("no panic").expect("a runner"))
    });
    assert_eq!(runners[0], runners[1]);
    let built = fs_err::metadata(&runners[0].executable).expect("the executable").modified().expect("time");
    let again = runner_build::prepare(&sdk, cache.path(), &Silent).expect("a runner");
    assert_eq!(again, runners[0]);
    assert_eq!(fs_err::metadata(&again.executable).expect("the executable").modified().expect("time"), built);
    let left: Vec<_> = fs_err::read_dir(cache.path().join("runner")).expect("list").collect();
    assert_eq!(left.len(), 1, "nothing half-built stays: {left:?}");
}

#[test]
fn a_failed_build_shows_the_compilers_words_and_leaves_nothing() {
    let real = python().executorch_folder;
    let folder = tempfile::tempdir().expect("temporary folder");
    let headers = folder.path().join("include/executorch");
    for (path, text) in
        [("runtime/executor/program.h", "#error this header is broken\n"), ("devtools/etdump/etdump_flatcc.h", "")]
    {
        let path = headers.join(path);
        fs_err::create_dir_all(path.parent().expect("a parent")).expect("folder");
        fs_err::write(path, text).expect("write");
    }
    fs_err::write(folder.path().join("version.py"), "__version__ = '9.9.9'\n").expect("write");
    std::os::unix::fs::symlink(real.join("lib"), folder.path().join("lib")).expect("link");
    let cache = folder.path().join("cache");
    let sdk = Sdk::at(folder.path()).expect("looks like a package");
    let error = runner_build::prepare(&sdk, &cache, &Silent).expect_err("cannot be compiled");
    assert!(error.to_string().ends_with("failed to build the runner against executorch 9.9.9"), "{error}");
    let details = error.details().expect("the compiler's words");
    assert!(details.contains("error"), "{details}");
    assert_eq!(fs_err::read_dir(cache.join("runner")).expect("list").count(), 0);
}

#[test]
fn an_unchanged_program_is_not_accepted_and_a_faster_one_is() {
    let inputs = bench().record("softmax_head").inputs;
    let (outside, inside) = (bench().program("softmax_head"), bench().program("softmax_inside"));
    let compare = |before: &Path, after: &Path| {
        let plan = BenchmarkPlan { budget: Duration::from_secs(120), seed: 3, ..BenchmarkPlan::default() };
        benchmark(&bench().target, before, after, &inputs, &plan, &Silent).expect("runs")
    };
    let unchanged = compare(&outside, &outside);
    assert_ne!(unchanged.report.status, GateStatus::Pass, "{}", unchanged.report.summary);
    let slower = compare(&inside, &outside);
    assert_ne!(slower.report.status, GateStatus::Pass, "{}", slower.report.summary);
    let faster = compare(&outside, &inside);
    assert_eq!(faster.report.status, GateStatus::Pass, "{}", faster.report.summary);
    assert_eq!(faster.target.name, bench().target.label().name);
}
