//! The whole line in order, and the repair loop. Read this first.
//!
//! ```text
//! model ─► export ─► graph ─► lower ─► profile ─► rank ─► [ match ─► patch ─► gates ─► decide ]* ─► report
//! ```
//!
//! In: [`OptimizeSettings`]. Out: a [`Report`] and a run folder. Every stage is a module of its own; this
//! one only hands their results on.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::account::{self, Account};
use crate::clock::Clock;
use crate::export::{self, ExportRecord};
use crate::graph::{self, Program, archive};
use crate::hint::{Hint, closest};
use crate::interrupt;
use crate::lower::Job;
use crate::model::Model;
use crate::profile;
use crate::progress::Progress;
use crate::proposal::{self, Candidate, Memory, Proposals, RuleSet};
use crate::reference::Answers;
use crate::report::figures::{self, counted};
use crate::report::model::{Report, TrialOutcome};
use crate::run_folder::{self, RunFolder};
use crate::sandbox;
use crate::settings::{OptimizeSettings, RunPlace};
use crate::target;
use crate::torch::protocol::{ModelSource, TensorFile};
use crate::torch::{self, environment};
use crate::trial::{self, Outcome};
use crate::workbench::{MeasuredProgram, Workbench};

/// A finished run.
#[derive(Debug)]
pub struct Finished {
    /// the answer
    pub report: Report,
    /// where everything is
    pub folder: PathBuf,
}

/// A program with the place of its file and the key of its content.
#[derive(Clone, Debug)]
pub(crate) struct StoredProgram {
    pub(crate) program: Program,
    pub(crate) path: PathBuf,
    pub(crate) key: String,
}

/// The program that the next repair starts from.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) stored: StoredProgram,
    pub(crate) measured: MeasuredProgram,
}

/// A run that ended without an answer.
#[derive(Debug)]
pub struct Stopped {
    /// why
    pub error: Error,
    /// the run folder, when there is something in it to go on with
    pub folder: Option<PathBuf>,
}

/// Optimizes a model: measures where time goes, tries repairs, keeps those that pass every gate.
///
/// # Errors
/// When the question could not be answered: no such model, broken surroundings, an interrupt. A model
/// that cannot be lowered or run is an answer, not an error.
pub fn optimize(settings: &OptimizeSettings, progress: &dyn Progress) -> Result<Finished, Box<Stopped>> {
    leaving_what_was_begun(settings, |place| run(settings, progress, place))
}

/// Removes the run folder again when nothing worth keeping was put into it.
pub(crate) fn leaving_what_was_begun<T>(
    settings: &OptimizeSettings,
    work: impl FnOnce(&mut Option<PathBuf>) -> Result<T, Error>,
) -> Result<T, Box<Stopped>> {
    let mut folder = None;
    work(&mut folder).map_err(|error| {
        // A folder that the user named stays whatever is in it.
        let chosen_here = matches!(settings.place, RunPlace::Numbered { .. }) && !error.points_at_the_log();
        let folder = folder.filter(|folder| !(chosen_here && run_folder::discard_unbegun(folder)));
        Box::new(Stopped { error, folder })
    })
}

/// Sees that there is something to work on, and opens the run folder.
pub(crate) fn open(
    settings: &OptimizeSettings,
    progress: &dyn Progress,
    place: &mut Option<PathBuf>,
) -> Result<(Model, RunFolder), Error> {
    let model = Model::parse(&settings.model)?;
    open_for(model, settings, progress, place)
}

/// The same for a model that is known already.
pub(crate) fn open_for(
    model: Model,
    settings: &OptimizeSettings,
    progress: &dyn Progress,
    place: &mut Option<PathBuf>,
) -> Result<(Model, RunFolder), Error> {
    if let ModelSource::Program { path } = &model.source
        && !model.is_lowered()
    {
        // A file that cannot be used is refused before anything is made, and before torch opens it.
        archive::read(path, &archive::Limits::default())?;
    }
    proposal::check_folders(&settings.rules.folders)?;
    check_paths(settings, &model)?;
    let folder = RunFolder::open(&settings.place, &model, &settings.command, &settings.deciding())?;
    *place = Some(folder.path().to_path_buf());
    progress.note(&format!("Run folder: `{}`", folder.path().display()));
    Ok((model, folder))
}

fn run(settings: &OptimizeSettings, progress: &dyn Progress, place: &mut Option<PathBuf>) -> Result<Finished, Error> {
    let (model, folder) = open(settings, progress, place)?;
    let clock = Clock::default();
    // Before the set-up, which may take minutes: a rule that does not exist should not have to wait for it.
    let rules = proposal::load_rules(settings, &clock, progress)?;
    let bench = Workbench::prepare(settings, folder, clock, progress)?;
    let mut account = Account::new(&bench, &model, &rules);

    let (stored, inputs) = export_program(&bench, &model)?;
    account.exported(&stored.program);

    let original = match measure(&bench, &stored, &inputs) {
        Ok(measured) => Base { stored, measured },
        Err(error) => return account.cannot_run(bench, error),
    };
    account.original(&original);
    let answers = Answers::make(&bench, &original, &inputs)?;
    account.answers(&answers);

    let best = repair_loop(&bench, &rules, &original, &answers, &mut account)?;
    let overall = match &best {
        Some(best) => account.overall(&bench, &original, best, &inputs)?,
        None => None,
    };
    account.finish(bench, &original, best.as_ref(), overall)
}

/// Checks that every path that others are told is text.
fn check_paths(settings: &OptimizeSettings, model: &Model) -> Result<(), Error> {
    let model = match &model.source {
        ModelSource::File { path } | ModelSource::Program { path } => Some(path),
        ModelSource::Callable { .. } => None,
    };
    let run = match &settings.place {
        RunPlace::Numbered { parent, .. } | RunPlace::ResumeNewest { parent, .. } => parent,
        RunPlace::At(path) | RunPlace::ResumeAt(path) => path,
    };
    let folders = &settings.common.folders;
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let mut paths = [run, &folders.cache, &folders.data].into_iter().chain(model).map(absolute);
    paths.find(|path| path.to_str().is_none()).map_or(Ok(()), |path| Err(Error::PathNotText { path }))
}

/// The user's model as a typed graph, and the user's inputs as files.
pub(crate) fn export_program(bench: &Workbench<'_>, model: &Model) -> Result<(StoredProgram, Vec<TensorFile>), Error> {
    let begin = Instant::now();
    let folder = bench.folder.folder("original")?;
    let inputs = bench.folder.folder("inputs/user")?;
    let path = folder.join("program.pt2");
    let step = bench.progress.step(&format!("Exporting `{}`", model.given));
    let settings = bench.settings;
    let earlier = bench.folder.finished_stage::<ExportRecord>("export", &settings.seed.to_string());
    let earlier = earlier.filter(|record| record.still_true(&path));
    let reused = earlier.is_some();
    let record = match earlier {
        Some(record) => record,
        None => {
            let exported = bench.clock.child(|| {
                export::export(&bench.workers, model, &path, &inputs, settings.seed, settings.model_timeout)
            })?;
            let record = ExportRecord::new(exported, &path)?;
            bench.folder.finish_stage("export", &settings.seed.to_string(), &record)?;
            record
        }
    };
    let program = archive::read(&path, &archive::Limits::default())?;
    let key = record.content_key.clone();
    let nodes = program.graph().nodes().len();
    step.done(&format!(
        "{} {}",
        if reused { "Took the exported program of this run folder:" } else { "Exported" },
        counted(nodes as u64, "node")
    ));
    bench.clock.stage("export", None, begin, reused.then(|| "the exported program".to_owned()));
    Ok((StoredProgram { program, path, key }, record.exported.inputs))
}

/// Lowers, runs and profiles the original; the results go beside it.
pub(crate) fn measure(
    bench: &Workbench<'_>,
    stored: &StoredProgram,
    inputs: &[TensorFile],
) -> Result<MeasuredProgram, Error> {
    let folder = bench.folder.folder("original")?;
    let begin = Instant::now();
    let step = bench.progress.step("Lowering for XNNPACK");
    let job = Job { program: stored.path.clone(), key: stored.key.clone(), folder: folder.clone() };
    let lowered = bench.lower(std::slice::from_ref(&job)).pop();
    let lowered = lowered.unwrap_or(Err(torch::Error::Ended { method: "lower" }))?;
    let record = &lowered.record;
    step.done(&format!(
        "{}: {} in {}, {} outside",
        if lowered.reused { "Took the lowered program of an earlier run" } else { "Lowered" },
        counted(record.delegated_nodes, "node"),
        counted(record.delegates.len() as u64, "delegate call"),
        counted(record.fallbacks.len() as u64, "instruction")
    ));
    bench.clock.stage("lower", None, begin, lowered.reused.then(|| "the lowered program".to_owned()));
    profile_program(bench, lowered, inputs, &folder, None)
}

/// Runs and profiles a lowered program.
pub(crate) fn profile_program(
    bench: &Workbench<'_>,
    lowered: crate::lower::LoweredProgram,
    inputs: &[TensorFile],
    folder: &Path,
    round: Option<u32>,
) -> Result<MeasuredProgram, Error> {
    let begin = Instant::now();
    let step = bench.progress.step("Running and profiling");
    let measured = bench.measure(lowered, inputs, folder)?;
    step.done(&format!(
        "{}: {} a run, {} of the time in the delegate",
        if measured.reused { "Took the trace of an earlier run" } else { "Profiled" },
        figures::milliseconds(measured.untraced.median_ms),
        figures::percent(measured.profile.delegation.median)
    ));
    bench.clock.stage("profile", round, begin, measured.reused.then(|| "the trace".to_owned()));
    Ok(measured)
}

/// Tries repairs until nothing is left to try or a limit is reached; gives the best program, when it is
/// not the original.
fn repair_loop(
    bench: &Workbench<'_>,
    rules: &RuleSet,
    original: &Base,
    answers: &Answers,
    account: &mut Account,
) -> Result<Option<Base>, Error> {
    let mut best: Option<Base> = None;
    let mut memory = Memory::default();
    memory.visit(&original.stored.program);
    for round in 1.. {
        let base = best.as_ref().unwrap_or(original);
        let matching = Instant::now();
        let proposals = proposal::propose(bench, rules, base, &memory)?;
        bench.clock.stage("match", Some(round), matching, None);
        account.proposals(round, base, &proposals);
        if let Some(stop) = stop_before(bench, round, &proposals) {
            account.stop(round - 1, stop);
            return Ok(best);
        }
        let accepted = try_round(bench, round, base, answers, &proposals, &mut memory, account)?;
        match accepted {
            Some(better) => {
                if !memory.visit(&better.stored.program) {
                    account.stop(round, Stop::RulesOppose);
                    return Ok(Some(better));
                }
                best = Some(better);
            }
            None => {
                account.stop(round, if bench.is_out_of_time() { Stop::Time } else { Stop::NothingLeft });
                return Ok(best);
            }
        }
    }
    Ok(best)
}

/// Why the repair loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    NothingLeft,
    Rounds,
    Time,
    RulesOppose,
}

fn stop_before(bench: &Workbench<'_>, round: u32, proposals: &Proposals) -> Option<Stop> {
    let limits = &bench.settings.limits;
    if proposals.candidates.is_empty() {
        Some(Stop::NothingLeft)
    } else if round > limits.max_rounds {
        Some(Stop::Rounds)
    } else if bench.is_out_of_time() {
        Some(Stop::Time)
    } else {
        None
    }
}

/// Tries the candidates of one round, each on top of those accepted before it. Their programs are made
/// and lowered side by side first, in the hope that all are accepted; one that is not takes the later
/// ones' programs with it, and those are made again without it.
fn try_round(
    bench: &Workbench<'_>,
    round: u32,
    base: &Base,
    answers: &Answers,
    proposals: &Proposals,
    memory: &mut Memory,
    account: &mut Account,
) -> Result<Option<Base>, Error> {
    let mut current: Option<Base> = None;
    let mut chain = trial::prepare_chain(bench, round, base, answers, &proposals.candidates)?;
    for (index, candidate) in proposals.candidates.iter().enumerate() {
        check_interrupt()?;
        if bench.is_out_of_time() {
            break;
        }
        let from = current.as_ref().unwrap_or(base);
        let Some(outcome) = trial::run(bench, round, from, answers, candidate, chain.take(index), current.is_some())?
        else {
            continue;
        };
        memory.tried(candidate);
        let Outcome { trial, better } = outcome;
        chain.ended(index, account::accepted(&trial));
        bench.progress.note(&told(candidate, &trial));
        account.trial(trial);
        current = better.or(current);
    }
    Ok(current)
}

fn told(candidate: &Candidate, trial: &crate::report::model::Trial) -> String {
    let how = match trial.outcome {
        TrialOutcome::Accepted => "accepted",
        TrialOutcome::Rejected => "rejected",
        TrialOutcome::Refused => "refused",
        TrialOutcome::Inconclusive => "inconclusive",
    };
    let sites = counted(candidate.sites.len() as u64, "site");
    format!("{} at {sites}: {how}: {}", candidate.rule, trial.reason)
}

pub(crate) fn check_interrupt() -> Result<(), Error> {
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Why a question could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the MODEL argument
    #[error(transparent)]
    Model(#[from] crate::model::Error),
    /// the run folder
    #[error(transparent)]
    RunFolder(#[from] run_folder::Error),
    /// the Python environment
    #[error(transparent)]
    Environment(#[from] environment::Error),
    /// the Python worker, or the user's model in it
    #[error(transparent)]
    Torch(#[from] torch::Error),
    /// the target
    #[error(transparent)]
    Target(#[from] target::Error),
    /// the exported program
    #[error(transparent)]
    Archive(#[from] graph::archive::Error),
    /// a path that PyTorch and ExecuTorch cannot be given
    #[error("The path `{}` is not valid UTF-8, and PyTorch and ExecuTorch take no such path", path.display())]
    PathNotText {
        /// the model, the run folder or the home of the tool
        path: PathBuf,
    },
    /// a folder with rules that cannot be read
    #[error("Failed to read the rule folder `{folder}`")]
    RuleFolder {
        /// folder
        folder: PathBuf,
        /// why
        #[source]
        source: std::io::Error,
    },
    /// a rule that the user named and that does not exist
    #[error("There is no rule `{id}`")]
    UnknownRule {
        /// as typed
        id: String,
        /// every rule that is there
        known: Vec<String>,
    },
    /// the sandbox itself, not a rule in it
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// the installed rules
    #[error(transparent)]
    Registry(#[from] Box<crate::registry::install::Error>),
    /// a trace that cannot be read
    #[error(transparent)]
    Trace(#[from] profile::etdump::Error),
    /// a trace that makes no sense
    #[error(transparent)]
    Profile(#[from] profile::delegation::Error),
    /// a run that should have been traced was not
    #[error("The traced run of `{program}` left no trace")]
    NoTrace {
        /// the program
        program: PathBuf,
    },
    /// a lowered program whose inputs cannot be made up
    #[error("Input {position} of `{program}` is {kind}, and no such input can be made up")]
    Input {
        /// the `.pte`
        program: PathBuf,
        /// counted from 0
        position: usize,
        /// what the program declares
        kind: String,
    },
    /// a record of a lowering that was made elsewhere
    #[error("An ETRecord is made while a model is lowered, and `{program}` is lowered already")]
    NoRecord {
        /// the `.pte`
        program: PathBuf,
    },
    /// a patch that does not apply
    #[error(transparent)]
    Patch(#[from] graph::PatchError),
    /// eager runs that make no reference
    #[error(transparent)]
    Reference(#[from] crate::gates::reference::Error),
    /// a report that cannot be rendered
    #[error(transparent)]
    Render(#[from] crate::report::html::Error),
    /// a record that cannot be written as JSON
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// tensors that should be there
    #[error(transparent)]
    Tensor(#[from] crate::tensor::Error),
    /// file trouble
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// the user stopped the tool
    #[error("Interrupted")]
    Interrupted,
}

impl From<crate::registry::install::Error> for Error {
    fn from(error: crate::registry::install::Error) -> Self {
        Self::Registry(Box::new(error))
    }
}

impl Error {
    /// True when the message sends the user to the worker's log.
    fn points_at_the_log(&self) -> bool {
        matches!(self, Self::Torch(torch::Error::Noise { .. } | torch::Error::Died { .. }))
    }

    /// What to do about it, and the evidence behind it.
    fn inner(&self) -> Option<&dyn Hint> {
        Some(match self {
            Self::Model(error) => error,
            Self::RunFolder(error) => error,
            Self::Environment(error) => error,
            Self::Torch(error) => error,
            Self::Target(error) => error,
            Self::Archive(error) => error,
            Self::Sandbox(error) => error,
            Self::Io(error) => error,
            _ => return None,
        })
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::PathNotText { .. } => Some(
                "Rename the folder or file, or work in another folder (`--out`, `DELEGATE_DOCTOR_HOME`)".to_owned(),
            ),
            Self::RuleFolder { .. } => Some("Give a folder with rule components (`*.wasm`) with `--rules`".to_owned()),
            Self::UnknownRule { id, known } => Some(match closest(id, known.iter().map(String::as_str)) {
                Some(close) => format!("Did you mean `{close}`? `delegate-doctor rules list` shows all rules"),
                None => format!("Rules are {}", known.join(", ")),
            }),
            Self::NoRecord { .. } => Some("Profile the model that it was made from with `--etrecord`".to_owned()),
            Self::Input { .. } => Some(
                "Profile the model that it was made from, or trace it in your app and give the trace with `--etdump`"
                    .to_owned(),
            ),
            _ => self.inner().and_then(Hint::hint),
        }
    }

    fn details(&self) -> Option<String> {
        self.inner().and_then(Hint::details)
    }
}
