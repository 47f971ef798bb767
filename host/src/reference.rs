//! What the original answers, on every input set: in eager PyTorch and on the target.
//!
//! In: the original program and the user's inputs. Out: [`Answers`]. It is made once; every repair is
//! judged against it.

use std::path::Path;
use std::time::{Duration, Instant};

use fs_err as fs;

use crate::gates::backend_fidelity::{self, Fidelity};
use crate::gates::inputs::input_sets;
use crate::gates::reference::{Attempt, ProgramRun, Reference};
use crate::gates::sensitivity::{self, Sensitivity};
use crate::pipeline::{Base, Error, check_interrupt};
use crate::profile;
use crate::target;
use crate::tensor::Tensor;
use crate::torch::protocol::{RunSet, TensorFile};
use crate::workbench::{EAGER_LIMIT, Workbench};

/// Device runs of all input sets of one program should not take much longer than this.
const DEVICE_TIME: Duration = Duration::from_secs(60);

/// The original's answers.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    /// in eager PyTorch, with the yardsticks of its outputs
    pub(crate) reference: Reference,
    /// the input sets as files, the user's own first
    pub(crate) files: Vec<Vec<TensorFile>>,
    /// whether the outputs react to the inputs
    pub(crate) sensitivity: Sensitivity,
    /// the lowered program on the target against eager PyTorch, for the first few sets
    pub(crate) fidelity: Fidelity,
}

impl Answers {
    /// Runs the original everywhere.
    ///
    /// # Errors
    /// When it cannot be run in eager mode, or the target itself fails.
    pub(crate) fn make(bench: &Workbench<'_>, original: &Base, user: &[TensorFile]) -> Result<Self, Error> {
        let begin = Instant::now();
        let step = bench.progress.step("Running the original on several inputs");
        let tensors = user.iter().map(Tensor::read).collect::<Result<Vec<_>, _>>()?;
        let inputs = input_sets(&tensors, bench.settings.seed);
        let mut files = Vec::new();
        for (index, set) in inputs.sets.iter().enumerate() {
            files.push(match index {
                0 => user.to_vec(),
                _ => store(bench, &format!("set-{index}"), &set.tensors, user)?,
            });
        }
        let mut probes = Vec::new();
        for (index, probe) in inputs.probes.iter().enumerate() {
            probes.push(store(bench, &format!("probe-{index}"), &probe.tensors, user)?);
        }
        let all: Vec<Vec<TensorFile>> = files.iter().chain(&probes).cloned().collect();
        let mut runs = eager(bench, &original.stored.path, &all, "original/eager")?;
        let probes: Vec<Option<ProgramRun>> = runs.split_off(files.len()).into_iter().map(Some).collect();
        let names = output_names(original);
        let count = device_sets(original.measured.untraced.median_ms, files.len());
        let some = files.get(..count).unwrap_or(&files);
        let first = runs.first().cloned().unwrap_or_default();
        // Yardsticks are reckoned while the target runs.
        let (reference, device) = rayon::join(
            || Reference::new(inputs, names, runs, &probes),
            || device(bench, &original.measured.lowered.pte, some, "original/device", &first),
        );
        let (reference, device) = (reference?, device?);
        step.done(&format!("Ran the original on {} input sets, in eager PyTorch and on the target", files.len()));
        bench.clock.stage("reference", None, begin, None);
        let fidelity = backend_fidelity::measure(&reference, &bench.target.label(), device);
        let sensitivity = sensitivity::probe(&reference);
        Ok(Self { reference, files, sensitivity, fidelity })
    }

    /// The original in eager PyTorch on the user's own inputs.
    pub(crate) fn first_run(&self) -> ProgramRun {
        self.reference.runs().first().cloned().unwrap_or_default()
    }

    /// The input sets that programs are run with on the target.
    pub(crate) fn device_files(&self) -> &[Vec<TensorFile>] {
        self.files.get(..self.fidelity.attempts.len()).unwrap_or(&self.files)
    }
}

/// How many sets fit into the time, the first two always.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the number of sets")]
fn device_sets(median_ms: f64, sets: usize) -> usize {
    let fitting = DEVICE_TIME.as_secs_f64() * 1e3 / median_ms.max(1e-3);
    (fitting as usize).max(2).min(sets)
}

fn output_names(original: &Base) -> Vec<String> {
    let graph = original.stored.program.graph();
    let name = |id| graph.value(id).map(|value| value.name.clone()).unwrap_or_default();
    graph.user_outputs().into_iter().map(name).collect()
}

/// Runs an exported program in eager PyTorch, once a set.
pub(crate) fn eager(
    bench: &Workbench<'_>,
    program: &Path,
    sets: &[Vec<TensorFile>],
    folder: &str,
) -> Result<Vec<ProgramRun>, Error> {
    let mut requests = Vec::new();
    for (index, inputs) in sets.iter().enumerate() {
        requests.push(RunSet { inputs: inputs.clone(), out_dir: bench.folder.folder(&format!("{folder}/{index}"))? });
    }
    let runs = bench.clock.child(|| bench.workers.with(|worker| worker.run_many(program, &requests, EAGER_LIMIT)))?;
    Ok(runs.iter().map(ProgramRun::from_eager).collect::<Result<_, _>>()?)
}

/// Runs a lowered program on the target, once a set; `eager` is a run of its model in eager PyTorch. A program that the runtime refuses or that crashes
/// it is an attempt that failed; a target that is gone is an error.
pub(crate) fn device(
    bench: &Workbench<'_>,
    pte: &Path,
    sets: &[Vec<TensorFile>],
    folder: &str,
    eager: &ProgramRun,
) -> Result<Vec<Attempt>, Error> {
    let mut attempts = Vec::new();
    for (index, inputs) in sets.iter().enumerate() {
        check_interrupt()?;
        let outputs = bench.folder.folder(&format!("{folder}/{index}"))?;
        // The kernels are the same whatever the inputs hold.
        let trace = (index == 0).then(|| outputs.join("trace.etdp"));
        attempts.push(match bench.run_once(pte, inputs, &outputs, trace.as_deref()) {
            Ok(outcome) => {
                let run = ProgramRun::from_target(&outcome, eager)?;
                let kernels = outcome.trace.map_or_else(Vec::new, |(trace, _)| kernels_of(&trace));
                Ok(ProgramRun { kernels, ..run })
            }
            Err(
                error @ (target::Error::Crash { .. } | target::Error::Refused { .. } | target::Error::Timeout { .. }),
            ) => Err(error.to_string()),
            Err(error) => return Err(error.into()),
        });
    }
    Ok(attempts)
}

/// The kernel families in a trace; none when it cannot be understood, because nothing is decided by them.
fn kernels_of(trace: &Path) -> Vec<String> {
    profile::etdump::read(trace).map_or_else(|_| Vec::new(), |trace| profile::kernels::families(&trace))
}

/// Keeps made-up inputs as files, in the order in memory of the user's own.
pub(crate) fn store(
    bench: &Workbench<'_>,
    name: &str,
    tensors: &[Tensor],
    like: &[TensorFile],
) -> Result<Vec<TensorFile>, Error> {
    let folder = bench.folder.folder(&format!("inputs/{name}"))?;
    fs::create_dir_all(&folder)?;
    let mut files = Vec::new();
    for (index, (tensor, like)) in tensors.iter().zip(like).enumerate() {
        let mut file = tensor.write(&folder, &index.to_string())?;
        file.dim_order.clone_from(&like.dim_order);
        files.push(file);
    }
    Ok(files)
}
