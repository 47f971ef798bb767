//! `profile` and `compare`: from what a user names to where its time goes, and to what lies between two of them.
//!
//! In: the settings of one program or two. Out: a [`Profiled`] for each, and for two that run in the same place a
//! comparison of their speed by the benchmark gate's own measurement. A model is exported and lowered first; a
//! `.pte` runs as it is, on inputs made up as it declares them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::account;
use crate::clock::Clock;
use crate::gates::benchmark::benchmark;
use crate::gates::stimuli::Stimulus;
use crate::graph::ScalarType;
use crate::lower::LoweredProgram;
use crate::model::Model;
use crate::pipeline::{self, Error, Stopped};
use crate::profile::{self, Breakdown, Trace, etdump};
use crate::progress::Progress;
use crate::report::assemble;
use crate::report::breakdown::ProfileDocument;
use crate::report::comparison::{ComparisonDocument, Moments};
use crate::report::figures::{self, counted};
use crate::settings::OptimizeSettings;
use crate::target::RunRequest;
use crate::torch::protocol::{Lowered, TensorFile};
use crate::workbench::{LOWER_LIMIT, Workbench};

/// Longest wait for a program to be loaded and described.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(300);

/// Name of an ETRecord beside the program and its trace.
const ETRECORD: &str = "etrecord.bin";

/// How often each of two programs is traced.
const TURNS: u32 = 3;

/// A profiled program.
#[derive(Debug)]
pub struct Profiled {
    /// the answer
    pub document: ProfileDocument,
    /// the traced runs
    pub trace: Trace,
    /// of the trace's clock
    pub ns_per_tick: f64,
    /// where everything is
    pub folder: PathBuf,
}

/// Two profiled programs.
#[derive(Debug)]
pub struct Compared {
    /// the answer
    pub document: ComparisonDocument,
    /// the first one
    pub before: Profiled,
    /// the second one
    pub after: Profiled,
}

/// A profiled program that can still be run.
struct Subject<'a> {
    bench: Workbench<'a>,
    profiled: Profiled,
    program: PathBuf,
    inputs: Vec<TensorFile>,
}

/// Profiles a model, or a lowered program as it is.
///
/// # Errors
/// When there is no such model, it cannot be lowered or run, the surroundings are broken, or the user stops it.
pub fn profile(settings: &OptimizeSettings, progress: &dyn Progress) -> Result<Profiled, Box<Stopped>> {
    pipeline::leaving_what_was_begun(settings, |place| Ok(subject(settings, progress, place)?.profiled))
}

/// The same for a model, with an ETRecord in the run folder, so that ExecuTorch's Inspector can name the operators
/// of the trace.
///
/// # Errors
/// As [`profile()`], and for a program that is lowered already.
pub fn profile_with_record(settings: &OptimizeSettings, progress: &dyn Progress) -> Result<Profiled, Box<Stopped>> {
    pipeline::leaving_what_was_begun(settings, |place| {
        if Model::parse_or_lowered(&settings.model)?.is_lowered() {
            return Err(Error::NoRecord { program: PathBuf::from(&settings.model) });
        }
        let subject = subject(settings, progress, place)?;
        let bench = &subject.bench;
        let step = progress.step("Writing an ETRecord");
        let folder = bench.folder.folder("original")?;
        let (program, record) = (folder.join("program.pt2"), folder.join(ETRECORD));
        let write = || bench.workers.with(|worker| worker.etrecord(&program, &record, LOWER_LIMIT));
        #[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^53")]
        let bytes = figures::bytes(bench.clock.child(write)? as f64);
        step.done(&format!("Wrote an ETRecord, {bytes}: `{}`", record.display()));
        Ok(subject.profiled)
    })
}

/// Profiles two programs, and measures them alternately where both run on the same target with the same inputs.
///
/// # Errors
/// As [`profile()`].
pub fn compare(
    before: &OptimizeSettings,
    after: &OptimizeSettings,
    progress: &dyn Progress,
) -> Result<Compared, Box<Stopped>> {
    let mut first = None;
    pipeline::leaving_what_was_begun(before, |place| {
        first = Some(subject(before, progress, place)?);
        Ok(())
    })?;
    pipeline::leaving_what_was_begun(after, |place| {
        let Some(first) = first.take() else { return Err(Error::Interrupted) };
        let mut first = first;
        let mut second = subject(after, progress, place)?;
        if !side_by_side(before, after, &first, &second) {
            let document = ComparisonDocument::of(&first.profiled.document, &second.profiled.document, Moments::Apart);
            return Ok(Compared { document, before: first.profiled, after: second.profiled });
        }
        in_turns(&mut first, &mut second, progress)?;
        let mut document =
            ComparisonDocument::of(&first.profiled.document, &second.profiled.document, Moments::InTurns);
        if document.times_not_compared.is_none() {
            let bench = &second.bench;
            let plan = bench.benchmark_plan();
            let step = progress.step("Measuring both alternately");
            let target = bench.target.as_ref();
            let outcome = benchmark(target, &first.program, &second.program, &second.inputs, &plan, progress)?;
            if let Some(comparison) = account::comparison(&outcome) {
                document.measured_alternately(comparison);
            }
            step.done("Measured both alternately");
        }
        Ok(Compared { document, before: first.profiled, after: second.profiled })
    })
}

/// Traces both again, one after the other and that several times, so that what drifts on the machine does so for both.
fn in_turns<'a>(first: &mut Subject<'a>, second: &mut Subject<'a>, progress: &dyn Progress) -> Result<(), Error> {
    let step = progress.step("Tracing both in turns");
    let mut sides = [(first, Trace::default(), 1.0), (second, Trace::default(), 1.0)];
    for turn in 0..TURNS {
        for (subject, merged, ns_per_tick) in &mut sides {
            let path = subject.bench.folder.folder("turns")?.join(format!("{turn}.etdp"));
            *ns_per_tick = subject.bench.trace_now(&subject.program, &subject.inputs, &path)?;
            merged.runs.extend(etdump::read(&path)?.runs);
        }
    }
    for (subject, merged, ns_per_tick) in sides {
        let profile = profile::profile(&merged, ns_per_tick, &subject.bench.target.label())?;
        subject.profiled.document.breakdown = Breakdown::of(&profile);
        subject.profiled.trace = merged;
        subject.profiled.ns_per_tick = ns_per_tick;
    }
    step.done("Traced both in turns");
    Ok(())
}

/// Whether two programs can be run in turns: on one target, with inputs that fit both.
fn side_by_side(
    before: &OptimizeSettings,
    after: &OptimizeSettings,
    first: &Subject<'_>,
    second: &Subject<'_>,
) -> bool {
    let kind = |input: &TensorFile| (input.dtype.clone(), input.sizes.clone(), input.dim_order.clone());
    let kinds = |subject: &Subject<'_>| subject.inputs.iter().map(kind).collect::<Vec<_>>();
    before.target == after.target
        && first.bench.threads == second.bench.threads
        && kinds(first) == kinds(second)
        && second.bench.target.label().measures_speed()
}

fn subject<'a>(
    settings: &'a OptimizeSettings,
    progress: &'a dyn Progress,
    place: &mut Option<PathBuf>,
) -> Result<Subject<'a>, Error> {
    let model = Model::parse_or_lowered(&settings.model)?;
    let lowered = model.is_lowered();
    let (model, folder) = pipeline::open_for(model, settings, progress, place)?;
    let bench = Workbench::prepare(settings, folder, Clock::default(), progress)?;
    let (measured, inputs, graph) = if lowered {
        let path = std::path::absolute(&settings.model).unwrap_or_else(|_| PathBuf::from(&settings.model));
        let inputs = declared_inputs(&bench, &path)?;
        let bytes = fs_err::metadata(&path)?.len();
        let folder = bench.folder.folder("original")?;
        let program = LoweredProgram { pte: path.clone(), record: nothing_known(path, bytes), reused: false };
        (pipeline::profile_program(&bench, program, &inputs, &folder, None)?, inputs, None)
    } else {
        let (stored, inputs) = pipeline::export_program(&bench, &model)?;
        (pipeline::measure(&bench, &stored, &inputs)?, inputs, Some(stored.program))
    };
    let trace = etdump::read(&measured.trace)?;
    let graph = graph.as_ref().map(crate::graph::Program::graph);
    let document =
        assemble::profile_document(&model.given, graph, &measured.lowered, &measured.profile, &measured.untraced);
    let inputs_shown = inputs.iter().map(|input| shape(&input.dtype, &input.sizes)).collect();
    let document = ProfileDocument { threads: Some(bench.threads), inputs: inputs_shown, ..document };
    let profiled =
        Profiled { document, trace, ns_per_tick: measured.ns_per_tick, folder: bench.folder.path().to_path_buf() };
    Ok(Subject { program: measured.lowered.pte, bench, profiled, inputs })
}

/// The record of a program that somebody else lowered.
fn nothing_known(program: PathBuf, bytes: u64) -> Lowered {
    Lowered {
        program,
        bytes,
        fallbacks: Vec::new(),
        delegates: Vec::new(),
        delegated_nodes: 0,
        warnings: Vec::new(),
        seconds: 0.0,
    }
}

/// Inputs as a program declares them: bell-shaped numbers, and 0 and 1 where it wants integers.
fn declared_inputs(bench: &Workbench<'_>, program: &Path) -> Result<Vec<TensorFile>, Error> {
    let step = bench.progress.step("Asking the program for its inputs");
    let described = bench.clock.child(|| {
        bench.target.run(&RunRequest {
            program,
            inputs: &[],
            output_dir: None,
            threads: bench.threads,
            warmup: 0,
            warmup_limit: 0,
            iterations: 0,
            max_measure: Duration::ZERO,
            trace: None,
            timeout: DESCRIBE_LIMIT,
        })
    })?;
    let folder = bench.folder.folder("inputs/declared")?;
    let mut inputs = Vec::new();
    for (position, declared) in described.program.inputs.iter().enumerate() {
        let unknown = || Error::Input {
            program: program.to_path_buf(),
            position,
            kind: if declared.kind == "tensor" {
                format!("a tensor of {}", declared.dtype)
            } else {
                declared.kind.clone()
            },
        };
        let dtype = ScalarType::from_torch_name(&declared.dtype).filter(|_| declared.kind == "tensor");
        let dtype = dtype.ok_or_else(unknown)?;
        let sizes: Vec<usize> = declared.sizes.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
        let tensor = Stimulus::Random(1).tensor(dtype, &sizes, bench.settings.seed, position as u64);
        let file = tensor.ok_or_else(unknown)?.write(&folder, &format!("{position}"))?;
        inputs.push(TensorFile { dim_order: declared.dim_order.clone(), ..file });
    }
    let told: Vec<String> = inputs.iter().map(|input| shape(&input.dtype, &input.sizes)).collect();
    let told = told.join(", ");
    step.done(&format!("Made up {} as the program declares: {told}", counted(inputs.len() as u64, "input")));
    Ok(inputs)
}

/// `float32 1×3×224×224`.
fn shape(dtype: &str, sizes: &[u64]) -> String {
    let sizes = sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("×");
    format!("{dtype} {sizes}").trim_end().to_owned()
}
