//! What a run works with: Python workers, a target, rules, the cache, the run folder, a clock.
//!
//! In: settings. Out: a [`Workbench`] with everything made that was missing. What takes long is made side
//! by side: the runner is compiled and rules are loaded while Python imports torch.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::cache::{self, Cache};
use crate::clock::Clock;
use crate::files;
use crate::gates::benchmark::BenchmarkPlan;
use crate::lower::{self, Job, LoweredProgram};
use crate::pipeline::Error;
use crate::profile::{self, Profile};
use crate::progress::Progress;
use crate::rank::{self, Ranking};
use crate::report::assemble::Untraced;
use crate::run_folder::RunFolder;
use crate::settings::{OptimizeSettings, TargetChoice};
use crate::target::{self, RunOutcome, RunRequest, Target, TraceRequest};
use crate::torch::environment::{self, Search};
use crate::torch::protocol::TensorFile;
use crate::torch::{Environment, WorkerOptions, WorkerPool};

use serde::{Deserialize, Serialize};

/// A run of a program may take this long before it counts as hanging.
const RUN_LIMIT: Duration = Duration::from_secs(1800);
/// Longest lowering.
pub(crate) const LOWER_LIMIT: Duration = Duration::from_secs(3600);
/// Longest eager run or check.
pub(crate) const EAGER_LIMIT: Duration = Duration::from_secs(1800);
/// Wall time that one comparison of speed may take.
const BENCHMARK_TIME: Duration = Duration::from_secs(240);
/// Wall time that untraced, and then traced, runs of one program may take.
const MEASURE_TIME: Duration = Duration::from_millis(1500);

/// How many times as long as usual a process may warm up while its times fall.
const WARMUP_STRETCH: u32 = 5;

/// Everything a run works with.
pub(crate) struct Workbench<'a> {
    pub(crate) settings: &'a OptimizeSettings,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) clock: Clock,
    pub(crate) cache: Cache,
    pub(crate) workers: WorkerPool,
    pub(crate) target: Box<dyn Target>,
    pub(crate) threads: u32,
    /// no trial begins after this
    deadline: Option<Instant>,
    /// last, so that everybody who writes into it is gone when it is closed
    pub(crate) folder: RunFolder,
}

/// A program that was lowered, run and traced.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredProgram {
    pub(crate) lowered: LoweredProgram,
    pub(crate) profile: Profile,
    pub(crate) ranking: Ranking,
    pub(crate) untraced: Untraced,
    /// the file with the trace
    pub(crate) trace: PathBuf,
    /// of the trace's clock
    pub(crate) ns_per_tick: f64,
    /// the trace came from the cache
    pub(crate) reused: bool,
}

/// What a traced run gave, as the cache keeps it beside the trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct TraceRecord {
    version: u32,
    samples_ns: Vec<u64>,
    peak_memory_bytes: Option<u64>,
    ns_per_tick: f64,
}

impl<'a> Workbench<'a> {
    /// Finds or makes the Python environment and the runner, and starts a first worker.
    ///
    /// # Errors
    /// When something that is needed is missing and cannot be made.
    pub(crate) fn prepare(
        settings: &'a OptimizeSettings,
        folder: RunFolder,
        clock: Clock,
        progress: &'a dyn Progress,
    ) -> Result<Self, Error> {
        let begin = Instant::now();
        let folders = &settings.common.folders;
        let environment = clock.child(|| prepare_python(settings, progress))?;
        let options = WorkerOptions {
            log: Some(folder.path().join("worker.log")),
            threads: eager_threads(),
            memory_limit: settings.memory_limit,
            ..WorkerOptions::new(&folders.cache)
        };
        let workers = WorkerPool::new(environment.clone(), options);
        let target: Box<dyn Target> = clock.child(|| -> Result<Box<dyn Target>, Error> {
            thread::scope(|scope| {
                // A worker that cannot be started is reported by the first request.
                scope.spawn(|| workers.warm());
                let TargetChoice { selector, runner } = &settings.target;
                Ok(target::prepare(selector, runner.as_deref(), &environment, &folders.cache, progress)?)
            })
        })?;
        let threads = settings.threads.unwrap_or_else(|| target.default_threads());
        let cache = Cache::new(settings.use_cache.then(|| folders.cache.clone()));
        clock.stage("set up", None, begin, None);
        let deadline = settings.limits.max_time.and_then(|limit| Instant::now().checked_add(limit));
        Ok(Self { settings, progress, clock, cache, workers, target, threads, deadline, folder })
    }

    /// True when the user's limit on wall time is reached. Set-up does not count against it.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Share of the time below which a repair is not tried. Where the target measures no speed, its shares are no
    /// reason to leave anything out.
    pub(crate) fn min_share(&self) -> f64 {
        if self.target.label().measures_speed() { self.settings.thresholds.min_share } else { 0.0 }
    }

    /// Runs a program on the target once, in a process of its own, and keeps its outputs; with `trace`, once more
    /// afterwards for a trace in that file.
    pub(crate) fn run_once(
        &self,
        program: &Path,
        inputs: &[TensorFile],
        outputs: &Path,
        trace: Option<&Path>,
    ) -> Result<RunOutcome, target::Error> {
        self.clock.child(|| {
            self.target.run(&RunRequest {
                program,
                inputs,
                output_dir: Some(outputs),
                threads: self.threads,
                warmup: 0,
                warmup_limit: 0,
                iterations: 1,
                max_measure: Duration::ZERO,
                trace: trace.map(|path| TraceRequest { path, iterations: 1 }),
                timeout: RUN_LIMIT,
            })
        })
    }

    /// How two programs are compared here.
    pub(crate) fn benchmark_plan(&self) -> BenchmarkPlan {
        BenchmarkPlan {
            threads: self.threads,
            min_gain: self.settings.thresholds.min_gain,
            seed: self.settings.seed,
            budget: BENCHMARK_TIME,
            ..BenchmarkPlan::default()
        }
    }

    /// Lowers programs, side by side where memory allows.
    pub(crate) fn lower(&self, jobs: &[Job]) -> Vec<Result<LoweredProgram, crate::torch::Error>> {
        let largest = jobs
            .iter()
            .filter_map(|job| fs_err::metadata(&job.program).ok())
            .map(|metadata| metadata.len())
            .max()
            .unwrap_or(0);
        self.workers.set_limit(lower::parallel_limit(self.settings.jobs, largest).min(jobs.len()));
        let results = self.clock.child(|| lower::lower(&self.workers, &self.cache, jobs, LOWER_LIMIT));
        self.workers.set_limit(1);
        results
    }

    /// Traces a lowered program on the target, or takes the trace of an earlier run of the same program
    /// with the same inputs on the same target.
    ///
    /// # Errors
    /// When it does not run, or its trace makes no sense.
    pub(crate) fn measure(
        &self,
        lowered: LoweredProgram,
        inputs: &[TensorFile],
        folder: &Path,
    ) -> Result<MeasuredProgram, Error> {
        let key = self.trace_key(&lowered, inputs)?;
        let trace = folder.join("trace.etdp");
        let record_path = folder.join("trace.json");
        let mut reused = true;
        let record = match self.cached_trace(&key, folder) {
            Some(record) => record,
            None => {
                reused = false;
                let record = self.trace(&lowered.pte, inputs, &trace)?;
                files::write_json(&record_path, &record)?;
                cache::note(folder, "trace", &key, &["trace.etdp", "trace.json"])?;
                record
            }
        };
        let label = self.target.label();
        let profile = profile::profile(&profile::etdump::read(&trace)?, record.ns_per_tick, &label)?;
        // A trace that does not add up was taken at a bad moment; a later run should take another.
        if !reused
            && profile.accounting.agrees
            && let Err(error) = self.cache.keep("traces", &key, &[&trace, &record_path])
        {
            self.progress.detail(&format!("The trace is not kept for later runs: {error}"));
        }
        let ranking = rank::rank(&profile, &lowered.record, self.min_share());
        let untraced = Untraced::of(&record.samples_ns, record.peak_memory_bytes);
        let ns_per_tick = record.ns_per_tick;
        Ok(MeasuredProgram { lowered, profile, ranking, untraced, trace, ns_per_tick, reused })
    }

    fn trace_key(&self, lowered: &LoweredProgram, inputs: &[TensorFile]) -> Result<String, Error> {
        let mut parts = vec![
            "trace 1".to_owned(),
            files::sha256_of(&lowered.pte)?,
            self.target.identity(),
            self.threads.to_string(),
        ];
        for input in inputs {
            parts.push(format!("{} {:?} {:?}", input.dtype, input.sizes, input.dim_order));
            parts.push(files::sha256_of(&input.path)?);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(cache::key(&parts))
    }

    fn cached_trace(&self, key: &str, folder: &Path) -> Option<TraceRecord> {
        if !cache::noted(folder, "trace", key) && !self.cache.fetch("traces", key, folder).ok()? {
            return None;
        }
        let record: TraceRecord = serde_json::from_slice(&fs_err::read(folder.join("trace.json")).ok()?).ok()?;
        (record.version == 1).then_some(record)
    }

    /// Traces a program here and now, whatever earlier runs left; gives ns a tick.
    ///
    /// # Errors
    /// When it does not run.
    pub(crate) fn trace_now(&self, pte: &Path, inputs: &[TensorFile], trace: &Path) -> Result<f64, Error> {
        self.trace(pte, inputs, trace).map(|record| record.ns_per_tick)
    }

    fn trace(&self, pte: &Path, inputs: &[TensorFile], trace: &Path) -> Result<TraceRecord, Error> {
        let run = |warmup: u32, iterations: u32, max_measure: Duration, traced: Option<u32>| {
            self.clock.child(|| {
                self.target.run(&RunRequest {
                    program: pte,
                    inputs,
                    output_dir: None,
                    threads: self.threads,
                    warmup,
                    warmup_limit: warmup * WARMUP_STRETCH,
                    iterations,
                    max_measure,
                    trace: traced.map(|iterations| TraceRequest { path: trace, iterations }),
                    timeout: RUN_LIMIT,
                })
            })
        };
        // One cold run tells how many fit into the time.
        let cold = run(0, 1, Duration::ZERO, None)?;
        let cold = Duration::from_nanos(cold.samples_ns.first().copied().unwrap_or(1).max(1));
        let fitting = u32::try_from(MEASURE_TIME.as_nanos() / cold.as_nanos().max(1)).unwrap_or(u32::MAX);
        let warmup = u32::from(fitting >= 1) * 3;
        let outcome = run(warmup, fitting.clamp(3, 60), MEASURE_TIME, Some(fitting.clamp(3, 30)))?;
        let Some((_, ns_per_tick)) = outcome.trace else {
            return Err(Error::NoTrace { program: pte.to_path_buf() });
        };
        Ok(TraceRecord {
            version: 1,
            samples_ns: outcome.samples_ns,
            peak_memory_bytes: outcome.peak_memory_bytes,
            ns_per_tick,
        })
    }
}

fn prepare_python(settings: &OptimizeSettings, progress: &dyn Progress) -> Result<Environment, Error> {
    let search = Search::of_this_process(settings.common.python.clone(), &settings.common.folders.data);
    let environment = environment::find_or_create(&search, progress)?;
    for note in &environment.notes {
        progress.warning(note);
    }
    progress.detail(&environment.to_string());
    Ok(environment)
}

/// Threads of eager runs: all processors, since nothing is measured there.
fn eager_threads() -> u32 {
    thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}
