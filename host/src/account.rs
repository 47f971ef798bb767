//! The run's own notebook: collects what stages found and turns it into the report.
//!
//! In: what the pipeline hands over, in order. Out: `report.json`, `report.html`, the optimized program,
//! all in the run folder, written before the run counts as finished.

mod findings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use fs_err as fs;

use crate::decision::{self, Course};
use crate::evidence::{Evidence, Interval, TargetLabel};
use crate::files;
use crate::gates::benchmark::{BenchmarkOutcome, Statistic, benchmark};
use crate::graph::{Program, ValueSource};
use crate::hint::Hint as _;
use crate::model::Model;
use crate::pipeline::{Base, Error, Finished, Stop};
use crate::proposal::{Proposals, RuleSet};
use crate::report::assemble::{self, measured};
use crate::report::model::{
    self, Artifact, Block, Comparison, Declined, Finding, FindingCode, Limit, ProgramRuns, Report, RunMode, Search,
    Setting, Severity, Side, Status, Step, Timing, Trial, TrialOutcome, Verdict, Versions,
};
use crate::run_folder;
use crate::sandbox;
use crate::shell;
use crate::target;
use crate::target::selector::Selector;
use crate::torch;
use crate::torch::protocol::{self, FailureKind, TensorFile};
use crate::workbench::{MeasuredProgram, Workbench};

/// Everything noted so far.
pub(crate) struct Account {
    report: Report,
    course: Course,
    /// name and op of every node of the user's own program
    own: BTreeSet<(String, String)>,
    /// ops of that program that draw random numbers
    random: Vec<String>,
    /// by name and op: a repair's output keeps the name of what it replaced
    verdicts: assemble::Verdicts,
}

impl Account {
    pub(crate) fn new(bench: &Workbench<'_>, model: &Model, rules: &RuleSet) -> Self {
        let environment = bench.workers.environment();
        let settings = bench.settings;
        let mut findings = Vec::new();
        for note in &environment.notes {
            findings.push(finding(FindingCode::UntestedVersion, Severity::Warning, note));
        }
        for failure in &rules.failures {
            findings.push(finding(FindingCode::RuleFailed, Severity::Warning, failure));
        }
        let limits = &settings.limits;
        let mut shown = vec![Limit { name: "rounds".to_owned(), value: limits.max_rounds.to_string(), reached: false }];
        if let Some(time) = limits.max_time {
            shown.push(Limit {
                name: "wall time".to_owned(),
                value: format!("{} s", time.as_secs_f64()),
                reached: false,
            });
        }
        let report = Report {
            schema: model::SCHEMA.to_owned(),
            version: model::VERSION,
            versions: Versions {
                tool: env!("CARGO_PKG_VERSION").to_owned(),
                wit: sandbox::component::newest_contract(),
                worker_protocol: protocol::PROTOCOL,
                runner_protocol: target::runner_process::PROTOCOL,
            },
            created: bench.folder.record().created.clone(),
            command: settings.command.clone(),
            verdict: Verdict {
                status: Status::Inconclusive,
                gate: None,
                headline: String::new(),
                next_steps: Vec::new(),
            },
            model: model::Model { name: model.name.clone(), source: model.given.clone(), ..model::Model::default() },
            setting: Setting {
                target: bench.target.label(),
                threads: bench.threads,
                cpu: bench.target.processor(),
                processors: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
                system: std::env::consts::OS.to_owned(),
                python: environment.python_version.clone(),
                torch: environment.torch_version.clone(),
                executorch: environment.executorch_version.clone(),
                seed: settings.seed,
            },
            findings,
            original: None,
            repaired: None,
            overall: None,
            trials: Vec::new(),
            declined: Vec::new(),
            search: Search {
                rounds: 0,
                limits: shown,
                stop_code: "not-started".to_owned(),
                stop_reason: "The original could not be measured, so no repair was tried".to_owned(),
            },
            stages: Vec::new(),
            timing: None,
            artifacts: Vec::new(),
            reproduce: Vec::new(),
        };
        let course = Course {
            rules_left_out: rules.left_out.clone(),
            emulated: !bench.target.label().measures_speed(),
            ..Course::default()
        };
        Self { report, course, own: BTreeSet::new(), random: Vec::new(), verdicts: BTreeMap::new() }
    }

    pub(crate) fn exported(&mut self, program: &Program) {
        let graph = program.graph();
        let model = &mut self.report.model;
        model.nodes = graph.nodes().len() as u64;
        model.parameters = graph
            .values()
            .into_iter()
            .filter(|value| matches!(value.source, ValueSource::Parameter(_)))
            .filter_map(|value| value.tensor()?.fixed_sizes())
            .map(|sizes| sizes.iter().map(|&size| u64::try_from(size).unwrap_or(0)).product::<u64>())
            .sum();
        model.inputs = graph.user_inputs().into_iter().filter_map(|id| assemble::tensor_summary(graph, id)).collect();
        model.outputs = graph.user_outputs().into_iter().filter_map(|id| assemble::tensor_summary(graph, id)).collect();
        model.fingerprint = program.fingerprint().to_owned();
        let mut random: Vec<String> = graph
            .nodes()
            .iter()
            .filter(|node| findings::draws_random_numbers(node))
            .map(|node| node.op.clone())
            .collect();
        random.sort();
        random.dedup();
        self.random = random;
        self.own = graph.nodes().iter().map(|node| (node.name.clone(), node.op.clone())).collect();
    }

    /// The original against the best program. One accepted repair was measured against the original
    /// already; several are measured together.
    pub(crate) fn overall(
        &self,
        bench: &Workbench<'_>,
        original: &Base,
        best: &Base,
        inputs: &[TensorFile],
    ) -> Result<Option<Comparison>, Error> {
        let mut accepted = self.report.accepted();
        if let (Some(only), None) = (accepted.next(), accepted.next()) {
            return Ok(only.benchmark.clone());
        }
        let begin = Instant::now();
        let (before, after) = (&original.measured.lowered.pte, &best.measured.lowered.pte);
        let plan = bench.benchmark_plan();
        let outcome = bench.clock.child(|| benchmark(&*bench.target, before, after, inputs, &plan, bench.progress))?;
        bench.clock.stage("compare with the original", None, begin, None);
        Ok(comparison(&outcome))
    }

    pub(crate) fn proposals(&mut self, round: u32, base: &Base, proposals: &Proposals) {
        let sources = assemble::sources(&base.measured.ranking);
        let graph = base.stored.program.graph();
        for declined in &proposals.declined {
            let node = graph.node(declined.node).map(|node| (node.name.clone(), node.op.clone()));
            // What rules say about nodes that a repair put there is nothing a user could act on.
            if node.is_some_and(|node| !self.own.contains(&node)) {
                continue;
            }
            self.report.declined.push(Declined {
                round,
                rule: declined.rule.clone(),
                site: assemble::site(graph, declined.node, &sources),
                code: declined.code.clone(),
                message: declined.message.clone(),
            });
        }
        for failure in &proposals.failures {
            let failure = finding(FindingCode::RuleFailed, Severity::Warning, failure);
            if !self.report.findings.contains(&failure) {
                self.report.findings.push(failure);
            }
        }
        for (node, verdict) in &proposals.verdicts {
            let Some(op) = graph.node_named(node).map(|node| node.op.clone()) else { continue };
            let verdicts = self.verdicts.entry((node.clone(), op)).or_default();
            if !verdicts.contains(verdict) {
                verdicts.push(verdict.clone());
            }
        }
    }

    pub(crate) fn trial(&mut self, trial: Trial) {
        self.course.trials.push((trial.outcome, trial.gate));
        self.report.trials.push(trial);
    }

    pub(crate) fn stop(&mut self, rounds: u32, stop: Stop) {
        let search = &mut self.report.search;
        search.rounds = rounds;
        self.course.cut_short = matches!(stop, Stop::Time | Stop::Rounds);
        let (code, reason, limit) = match stop {
            Stop::NothingLeft => ("nothing-left", "No rule had anything left to propose", None),
            Stop::Rounds => ("rounds", "The limit on rounds was reached", Some("rounds")),
            Stop::Time => ("time", "The limit on wall time was reached", Some("wall time")),
            Stop::RulesOppose => (
                "rules-oppose",
                "A repair led back to a program that was there before: two rules undo each other",
                None,
            ),
        };
        code.clone_into(&mut search.stop_code);
        reason.clone_into(&mut search.stop_reason);
        for known in &mut search.limits {
            known.reached = Some(known.name.as_str()) == limit;
        }
        if stop == Stop::RulesOppose {
            let rules: Vec<String> = self.report.accepted().map(|trial| trial.rule.to_string()).collect();
            let text = format!("Two rules undo each other: {}", rules.join(", "));
            self.report.findings.push(finding(FindingCode::RulesOppose, Severity::Warning, &text));
        }
    }

    /// The answer for a model that cannot be lowered or does not run; any other error stays one.
    pub(crate) fn cannot_run(mut self, bench: Workbench<'_>, error: Error) -> Result<Finished, Error> {
        let what = match &error {
            Error::Torch(torch::Error::Failed { error, .. }) if error.kind == FailureKind::LoweringFailed => {
                self.course.lowering_failed = true;
                error.detail.clone()
            }
            Error::Target(target::Error::Crash { stderr, .. } | target::Error::Refused { stderr, .. }) => {
                self.course.execution_failed = true;
                stderr.clone()
            }
            Error::Target(target::Error::Timeout { .. }) => {
                self.course.execution_failed = true;
                String::new()
            }
            _ => return Err(error),
        };
        let steps = error.hint().map(|text| Step { text, command: None }).into_iter().collect();
        self.report.findings.push(Finding {
            text: what,
            steps,
            ..finding(FindingCode::Other, Severity::Alarm, &error.to_string())
        });
        self.write(bench)
    }

    /// The answer of a run that went its way.
    pub(crate) fn finish(
        mut self,
        bench: Workbench<'_>,
        original: &Base,
        best: Option<&Base>,
        overall: Option<Comparison>,
    ) -> Result<Finished, Error> {
        let graph = original.stored.program.graph();
        self.report.original = Some(self.profile(graph, &original.measured));
        self.report.overall = overall;
        if let Some(best) = best {
            self.report.repaired = Some(self.profile(best.stored.program.graph(), &best.measured));
            for (from, to) in [(&best.measured.lowered.pte, "optimized.pte"), (&best.stored.path, "optimized.pt2")] {
                copy(from, &bench.folder.path().join(to))?;
            }
        }
        self.write(bench)
    }

    fn profile(&self, graph: &crate::graph::Graph, measured: &MeasuredProgram) -> model::Profile {
        let MeasuredProgram { lowered, profile, ranking, untraced, .. } = measured;
        assemble::profile(graph, lowered, profile, ranking, untraced, &self.verdicts)
    }

    fn write(mut self, mut bench: Workbench<'_>) -> Result<Finished, Error> {
        let label = bench.target.label();
        let (status, gate) = decision::verdict(&self.course);
        let folder = bench.folder.path().to_path_buf();
        let alarm = self.report.alarms().next().is_some();
        self.report.verdict = Verdict {
            status,
            gate,
            headline: decision::headline(status, &self.course, &label.name),
            next_steps: next_steps(status, &folder, &self.report.model.source, &bench.settings.target.selector, alarm),
        };
        self.report.findings.sort_by_key(|finding| finding.severity);
        self.report.reproduce = vec![
            Step {
                text: "Run again".to_owned(),
                command: Some(shell::line(run_folder::without_place(&self.report.command))),
            },
            Step {
                text: "Show this report again".to_owned(),
                command: Some(ours("report", &folder.display().to_string())),
            },
        ];
        self.report.stages = bench.clock.stages();
        let totals = bench.clock.totals();
        self.report.timing =
            Some(Timing { wall_seconds: totals.wall_seconds, children_seconds: totals.children_seconds });
        self.report.artifacts = artifacts(&folder)?;
        files::write_atomic(&folder.join("report.json"), self.report.to_json()?.as_bytes())?;
        let html = crate::report::html::render(&self.report)?;
        files::write_atomic(&folder.join("report.html"), html.as_bytes())?;
        bench.folder.finish()?;
        Ok(Finished { report: self.report, folder })
    }
}

fn finding(code: FindingCode, severity: Severity, title: &str) -> Finding {
    Finding {
        code,
        severity,
        title: title.to_owned(),
        text: String::new(),
        mismatches: Vec::new(),
        facts: Vec::new(),
        steps: Vec::new(),
    }
}

/// A command of this tool.
fn ours(command: &str, argument: &str) -> String {
    shell::line(["delegate-doctor", command, argument])
}

fn next_steps(status: Status, folder: &Path, model: &str, target: &Selector, alarm: bool) -> Vec<Step> {
    let step = |text: &str, command: Option<String>| Step { text: text.to_owned(), command };
    let explain = |text: &str| step(text, Some(ours("explain", &folder.display().to_string())));
    let on = |target: &str| Some(shell::line(["delegate-doctor", "optimize", model, "--target", target]));
    let retry = || match target {
        Selector::Local => step("Measure again when the machine is calm", Some(ours("optimize", model))),
        Selector::Qemu { .. } => step("Measure its speed on a device", on("adb")),
        Selector::Adb { .. } | Selector::Ssh { .. } => {
            step("Measure again when the device is calm", on(&target.to_string()))
        }
    };
    match status {
        Status::RepairsAccepted if alarm => vec![step(
            &format!(
                "Settle the alarm above before you ship anything: `{}` is faster, and as wrong as the original",
                folder.join("optimized.pte").display()
            ),
            None,
        )],
        Status::RepairsAccepted => vec![
            step(
                &format!(
                    "Ship `{}`; it takes and gives what the original does",
                    folder.join("optimized.pte").display()
                ),
                None,
            ),
            step("Repeat the measurement on the device you ship to before you rely on the figures", None),
        ],
        Status::RepairRejected => vec![explain("See why, gate by gate")],
        Status::NoRepairRequired => Vec::new(),
        Status::NoRepairAvailable => {
            vec![explain("See why each operator runs outside the delegate, and what would help")]
        }
        Status::Inconclusive => vec![retry(), explain("See what the evidence lacks")],
        Status::LoweringUnsupported => {
            vec![step("Read what ExecuTorch says about it, and change the model where it points", None)]
        }
        Status::DeviceExecutionUnsupported => vec![step("Read what the runtime says about it", None)],
    }
}

fn artifacts(folder: &Path) -> Result<Vec<Artifact>, Error> {
    // Files that are written to after the report (the record of the run, the log) have no lasting hash.
    let known: [(&str, &str); 5] = [
        ("optimized.pte", "the optimized program, to ship"),
        ("optimized.pt2", "the same before lowering"),
        ("original/program.pt2", "the model as exported"),
        ("original/program.pte", "the model as lowered without repairs"),
        ("original/trace.etdp", "ETDump of the original"),
    ];
    let mut artifacts = Vec::new();
    for (name, what) in known {
        let path = folder.join(name);
        if let Ok(metadata) = fs::metadata(&path) {
            artifacts.push(Artifact {
                path: PathBuf::from(name),
                what: what.to_owned(),
                sha256: files::sha256_of(&path)?,
                bytes: metadata.len(),
            });
        }
    }
    Ok(artifacts)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let folder = to.parent().unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
    fs::copy(from, temporary.path())?;
    temporary.persist(to).map_err(|error| error.error)?;
    Ok(())
}

/// A benchmark as the report keeps it.
pub(crate) fn comparison(outcome: &BenchmarkOutcome) -> Option<Comparison> {
    let ratio = outcome.ratio_measured()?;
    let side = |side: &crate::gates::benchmark::Side| -> Evidence {
        let samples: Vec<f64> =
            side.blocks.iter().flat_map(|block| block.samples_ns.iter()).map(|&ns| to_ms(ns)).collect();
        // An interval of order statistics is one of the median alone.
        let interval = match outcome.statistic {
            Statistic::Median => Interval::of_median(&samples, 0.95),
            Statistic::FastestTenth => None,
        };
        measured(side.compared_ns / 1e6, "ms", &outcome.target, samples.len() as u64, interval)
    };
    let mut blocks: Vec<(u32, Block)> = Vec::new();
    for (program, side) in [(Side::Before, &outcome.before), (Side::After, &outcome.after)] {
        for block in &side.blocks {
            let in_ms = |times: &[u64]| times.iter().map(|&ns| to_ms(ns)).collect();
            let (warmup_ms, samples_ms) = (in_ms(&block.warmup_ns), in_ms(&block.samples_ns));
            blocks.push((block.position, Block { program, round: block.round, warmup_ms, samples_ms }));
        }
    }
    blocks.sort_by_key(|(position, _)| *position);
    Some(Comparison {
        statistic: outcome.statistic,
        target: outcome.target.clone(),
        before: side(&outcome.before),
        after: side(&outcome.after),
        ratio: Evidence::Measured(ratio),
        threads: Some(outcome.threads),
        programs: vec![
            program_runs(Side::Before, &outcome.before, &outcome.target),
            program_runs(Side::After, &outcome.after, &outcome.target),
        ],
        conditions: outcome.conditions.clone(),
        blocks: blocks.into_iter().map(|(_, block)| block).collect(),
        notes: outcome.caveats(),
    })
}

fn program_runs(program: Side, runs: &crate::gates::benchmark::Side, target: &TargetLabel) -> ProgramRuns {
    ProgramRuns {
        program,
        peak_memory: runs
            .peak_memory_bytes
            .map(|bytes| measured(bytes, "bytes", target, runs.blocks.len() as u64, None)),
        modes: runs.modes.iter().map(|mode| RunMode { median_ms: mode.median / 1e6, share: mode.share }).collect(),
        drift: runs.drift.map(|drift| drift.change),
        warmup_runs: runs.warmup_runs,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a run of 2^53 ns would last for months")]
fn to_ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// True for a trial that changed the program.
pub(crate) fn accepted(trial: &Trial) -> bool {
    trial.outcome == TrialOutcome::Accepted
}
