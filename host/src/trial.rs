//! One repair through the gates.
//!
//! In: the base program, a candidate, the original's answers. Out: a [`Trial`] for the report and, when
//! every gate passed, the new base. The order of the gates is the order of their cost; the first that
//! does not pass ends the trial.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::account;
use crate::cache;
use crate::decision;
use crate::equivalence::{Evaluated, Question};
use crate::export;
use crate::files;
use crate::gates::benchmark::benchmark;
use crate::gates::{
    Fact, Gate, GateReport, GateStatus, backend_fidelity, device_correctness, host_correctness, other_sizes, sites,
    structure,
};
use crate::graph::{Applied, Dim, archive};
use crate::lower::{Job, LoweredProgram};
use crate::pipeline::{Base, Error, StoredProgram, check_interrupt, profile_program};
use crate::proposal::Candidate;
use crate::reference::{self, Answers};
use crate::report::assemble::{self, SiteChange};
use crate::report::figures::counted;
use crate::report::model::{Comparison, Diagram, Trial, TrialOutcome};
use crate::tensor::Tensor;
use crate::torch;
use crate::workbench::{EAGER_LIMIT, Workbench};

/// A finished trial.
pub(crate) struct Outcome {
    /// for the report
    pub(crate) trial: Trial,
    /// the repaired program, when it was accepted
    pub(crate) better: Option<Base>,
}

/// A candidate applied to a base, written and lowered.
pub(crate) struct Prepared {
    folder: PathBuf,
    applied: Applied,
    stored: StoredProgram,
    lowered: Result<LoweredProgram, torch::Error>,
    /// gate 1, when it was asked ahead
    equivalence: Option<Result<Evaluated, Error>>,
}

/// Candidates prepared ahead, each on top of all earlier ones.
pub(crate) struct Chain {
    links: Vec<Option<Prepared>>,
    /// how many trials from the start were accepted
    unbroken: usize,
}

impl Chain {
    /// The prepared program of a candidate, if every candidate before it was accepted.
    pub(crate) fn take(&mut self, index: usize) -> Option<Prepared> {
        if index > self.unbroken {
            return None;
        }
        self.links.get_mut(index)?.take()
    }

    /// Notes how the trial of a candidate ended.
    pub(crate) fn ended(&mut self, index: usize, accepted: bool) {
        if accepted && index == self.unbroken {
            self.unbroken += 1;
        }
    }
}

/// Applies every candidate on top of the earlier ones and lowers the results side by side; meanwhile gate 1
/// is asked about each. A candidate that does not apply there ends the chain; it is tried by itself later.
pub(crate) fn prepare_chain(
    bench: &Workbench<'_>,
    round: u32,
    base: &Base,
    answers: &Answers,
    candidates: &[Candidate],
) -> Result<Chain, Error> {
    let begin = Instant::now();
    let mut applied: Vec<(PathBuf, Applied, StoredProgram)> = Vec::new();
    // Tracing what lies on top of an unproven repair is work in vain when it fails, so look two ahead.
    for candidate in candidates.iter().take(3) {
        let from = applied.last().map_or(&base.stored, |(_, _, stored)| stored);
        match apply(bench, round, from, candidate) {
            Ok(made) => applied.push(made),
            Err(Error::Patch(_)) => break,
            Err(error) => return Err(error),
        }
    }
    if applied.is_empty() {
        return Ok(Chain { links: Vec::new(), unbroken: 0 });
    }
    let step = bench.progress.step(&format!(
        "Lowering {}{}",
        counted(applied.len() as u64, "repaired program"),
        if applied.len() == 1 { "" } else { " side by side" }
    ));
    let jobs: Vec<Job> = applied
        .iter()
        .map(|(folder, _, stored)| Job {
            program: stored.path.clone(),
            key: stored.key.clone(),
            folder: folder.clone(),
        })
        .collect();
    let froms = std::iter::once(&base.stored).chain(applied.iter().map(|(_, _, stored)| stored));
    let questions: Vec<Question<'_, '_>> = froms
        .zip(&applied)
        .zip(candidates)
        .map(|((from, (folder, _, to)), candidate)| Question {
            bench,
            from,
            to,
            claim: candidate.claim,
            answers,
            folder,
        })
        .collect();
    let captured: Vec<_> = questions.iter().map(Question::prepare).collect();
    let (lowered, equivalence) = rayon::join(
        || bench.lower(&jobs),
        || {
            let each = questions.iter().zip(captured);
            each.map(|(question, captured)| question.evaluate(captured?)).collect::<Vec<_>>()
        },
    );
    let reused = lowered.iter().filter(|lowered| lowered.as_ref().is_ok_and(|lowered| lowered.reused)).count();
    step.done(&format!(
        "Lowered {}{}",
        counted(jobs.len() as u64, "repaired program"),
        if reused > 0 { format!(", {reused} taken from an earlier run") } else { String::new() }
    ));
    let reused = (reused > 0).then(|| format!("{reused} of {} lowered programs", jobs.len()));
    bench.clock.stage("lower repairs", Some(round), begin, reused);
    let links = applied
        .into_iter()
        .zip(lowered)
        .zip(equivalence)
        .map(|(((folder, applied, stored), lowered), equivalence)| {
            Some(Prepared { folder, applied, stored, lowered, equivalence: Some(equivalence) })
        })
        .collect();
    Ok(Chain { links, unbroken: 0 })
}

fn apply(
    bench: &Workbench<'_>,
    round: u32,
    from: &StoredProgram,
    candidate: &Candidate,
) -> Result<(PathBuf, Applied, StoredProgram), Error> {
    let folder = bench.folder.folder(&format!("rounds/{round}/{}", candidate.rule.id))?;
    let applied = match candidate.applied.as_ref().filter(|applied| applied.is_of(&from.program)) {
        Some(applied) => applied.clone(),
        None => from.program.apply(&candidate.patch)?,
    };
    let path = folder.join("program.pt2");
    archive::write(&applied.program, &path)?;
    let key = export::content_key(&path)?;
    files::write_atomic(&folder.join("patch.txt"), format!("{:#?}\n", candidate.patch).as_bytes())?;
    let stored = StoredProgram { program: applied.program.clone(), path, key };
    Ok((folder, applied, stored))
}

fn prepare_alone(bench: &Workbench<'_>, round: u32, base: &Base, candidate: &Candidate) -> Result<Prepared, Error> {
    let (folder, applied, stored) = apply(bench, round, &base.stored, candidate)?;
    let job = Job { program: stored.path.clone(), key: stored.key.clone(), folder: folder.clone() };
    let lowered = bench.lower(std::slice::from_ref(&job)).pop();
    let lowered = lowered.unwrap_or(Err(torch::Error::Ended { method: "lower" }));
    Ok(Prepared { folder, applied, stored, lowered, equivalence: None })
}

/// Takes a candidate through the gates. `on_top` says that the base holds repairs accepted in the same
/// round; a candidate that does not apply there gives `None`.
///
/// # Errors
/// When a gate could not be asked at all: broken surroundings, an interrupt.
pub(crate) fn run(
    bench: &Workbench<'_>,
    round: u32,
    base: &Base,
    answers: &Answers,
    candidate: &Candidate,
    prepared: Option<Prepared>,
    on_top: bool,
) -> Result<Option<Outcome>, Error> {
    let begin = Instant::now();
    let stage = format!("trial-{round}-{}", candidate.rule.id);
    let key = trial_key(bench, base, answers, candidate);
    let earlier = bench.folder.finished_stage::<Trial>(&stage, &key);
    let mut trial = new_trial(round, base, candidate);
    let prepared = match prepared.map_or_else(|| prepare_alone(bench, round, base, candidate), Ok) {
        Ok(prepared) => prepared,
        // Made for the round's base; the next round proposes it anew for the program that is there now.
        Err(Error::Patch(_)) if on_top => return Ok(None),
        Err(Error::Patch(error)) => {
            trial.outcome = TrialOutcome::Refused;
            trial.gate = Some(Gate::Structure);
            trial.reason = error.to_string();
            return Ok(Some(Outcome { trial, better: None }));
        }
        Err(error) => return Err(error),
    };
    if let Some(trial) = earlier {
        return again(bench, round, answers, trial, prepared).map(Some);
    }
    trial.diagrams = diagrams(base, &prepared);
    let step = bench.progress.step(&format!("Proving {}", candidate.rule));
    let mut walk = Walk {
        bench,
        round,
        base,
        answers,
        candidate,
        prepared,
        gates: Vec::new(),
        benchmark: None,
        measured: None,
        reused: None,
    };
    walk.all(&*step)?;
    let Walk { prepared, mut gates, benchmark, measured, .. } = walk;
    let insensitive = answers.sensitivity.is_insensitive();
    let judgement = decision::judge(&gates, insensitive);
    step.done(&format!("{}: {}", candidate.rule, judgement.reason));
    for gate in Gate::ALL {
        if !gates.iter().any(|report| report.gate == gate) {
            let summary = "an earlier gate ended the trial".to_owned();
            gates.push(GateReport { gate, status: GateStatus::NotRun, summary, facts: Vec::new(), seconds: 0.0 });
        }
    }
    gates.sort_by_key(|report| report.gate);
    trial.outcome = judgement.outcome;
    trial.gate = judgement.gate;
    trial.reason = judgement.reason;
    trial.gates = gates;
    trial.benchmark = benchmark;
    trial.delegation_after =
        measured.as_ref().map(|measured| crate::evidence::Evidence::Measured(measured.profile.delegation_measured()));
    trial.seconds = begin.elapsed().as_secs_f64();
    bench.folder.finish_stage(&stage, &key, &trial)?;
    let accepted = trial.outcome == TrialOutcome::Accepted;
    let better = measured.filter(|_| accepted).map(|measured| Base { stored: prepared.stored, measured });
    Ok(Some(Outcome { trial, better }))
}

/// Everything that the outcome of a trial depends on.
fn trial_key(bench: &Workbench<'_>, base: &Base, answers: &Answers, candidate: &Candidate) -> String {
    let settings = bench.settings;
    cache::key(&[
        "trial 1",
        &base.stored.key,
        &format!("{:?} {:?}", candidate.patch, candidate.claim),
        &bench.target.identity(),
        &format!("{} {} {}", bench.threads, settings.seed, settings.thresholds.min_gain),
        &format!("{:?}", answers.reference.sets().iter().map(|set| &set.name).collect::<Vec<_>>()),
    ])
}

/// A trial that an earlier process of this run has finished.
fn again(
    bench: &Workbench<'_>,
    round: u32,
    answers: &Answers,
    trial: Trial,
    prepared: Prepared,
) -> Result<Outcome, Error> {
    bench.progress.note(&format!("{}: took the finished trial of this run folder", trial.rule));
    let Prepared { folder, stored, lowered, .. } = prepared;
    let better = if trial.outcome == TrialOutcome::Accepted {
        let inputs = answers.files.first().map(Vec::as_slice).unwrap_or_default();
        Some(Base { stored, measured: profile_program(bench, lowered?, inputs, &folder, Some(round))? })
    } else {
        None
    };
    Ok(Outcome { trial, better })
}

struct Walk<'a, 'b> {
    bench: &'a Workbench<'b>,
    round: u32,
    base: &'a Base,
    answers: &'a Answers,
    candidate: &'a Candidate,
    prepared: Prepared,
    gates: Vec<GateReport>,
    benchmark: Option<Comparison>,
    measured: Option<crate::workbench::MeasuredProgram>,
    /// what the last gate took from an earlier run
    reused: Option<String>,
}

impl Walk<'_, '_> {
    /// The gates in order; ends at the first that does not pass.
    fn all(&mut self, step: &dyn crate::progress::Step) -> Result<(), Error> {
        type Ask = fn(&mut Walk<'_, '_>) -> Result<GateReport, Error>;
        let gates: [(&str, Ask); 5] = [
            ("structure", |walk| walk.structure()),
            ("equivalence of the repaired place", |walk| walk.site_equivalence()),
            ("eager PyTorch", |walk| walk.host_correctness()),
            ("the target", |walk| walk.device_correctness()),
            ("speed", |walk| walk.speed()),
        ];
        for (name, ask) in gates {
            check_interrupt()?;
            step.update(name);
            let begin = Instant::now();
            let mut report = ask(self)?;
            // A gate that was asked ahead knows itself how long it took.
            report.seconds = report.seconds.max(begin.elapsed().as_secs_f64());
            self.bench.clock.stage(&format!("gate: {name}"), Some(self.round), begin, self.reused.take());
            let goes_on = decision::goes_on(&report);
            self.bench.progress.detail(&format!("{}: {}: {}", self.candidate.rule, name, report.summary));
            self.gates.push(report);
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Gate 0.
    fn structure(&mut self) -> Result<GateReport, Error> {
        let Prepared { stored, applied, lowered, .. } = &self.prepared;
        let checked =
            self.bench.clock.child(|| self.bench.workers.with(|worker| Ok(worker.check(&stored.path, EAGER_LIMIT))))?;
        let checked = match checked {
            Ok(checked) => Ok(checked),
            Err(error @ torch::Error::Failed { .. }) if !error.is_about_the_disk() => Err(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        let checked = checked.as_ref().map_err(String::as_str);
        let mut report = structure::judge(stored.program.graph(), &applied.created_values.concat(), checked).report;
        if let Err(error) = lowered {
            if !matches!(error, torch::Error::Failed { .. }) || error.is_about_the_disk() {
                return Err(self.lowering_error());
            }
            report.status = GateStatus::Fail;
            report.summary = format!("The repaired program cannot be lowered: {error}");
        }
        Ok(report)
    }

    fn lowering_error(&mut self) -> Error {
        let ended = Err(torch::Error::Ended { method: "lower" });
        match std::mem::replace(&mut self.prepared.lowered, ended) {
            Err(error) => error.into(),
            Ok(_) => Error::Interrupted,
        }
    }

    /// Gate 1.
    fn site_equivalence(&mut self) -> Result<GateReport, Error> {
        let evaluated = match self.prepared.equivalence.take() {
            Some(ahead) => ahead?,
            None => {
                let Prepared { stored, folder, .. } = &self.prepared;
                let question = Question {
                    bench: self.bench,
                    from: &self.base.stored,
                    to: stored,
                    claim: self.candidate.claim,
                    answers: self.answers,
                    folder,
                };
                question.evaluate(question.prepare()?)?
            }
        };
        self.reused = evaluated.reused.then(|| "the evaluations".to_owned());
        Ok(evaluated.report)
    }

    /// Gate 2.
    fn host_correctness(&mut self) -> Result<GateReport, Error> {
        let folder = self.eager_folder();
        let repaired = match reference::eager(self.bench, &self.prepared.stored.path, &self.answers.files, &folder) {
            Ok(runs) => runs.into_iter().map(Ok).collect(),
            Err(Error::Torch(error @ torch::Error::Failed { .. })) if !error.is_about_the_disk() => {
                vec![Err(error.to_string()); self.answers.files.len()]
            }
            Err(error) => return Err(error),
        };
        let Answers { reference, sensitivity, .. } = self.answers;
        let mut report = host_correctness::judge(reference, &repaired, self.candidate.claim, sensitivity).report;
        if decision::goes_on(&report) {
            self.other_sizes(&mut report)?;
        }
        Ok(report)
    }

    /// Gate 2 again, where the program declares that sizes change.
    fn other_sizes(&self, report: &mut GateReport) -> Result<(), Error> {
        let graph = self.base.stored.program.graph();
        let declared: Vec<&[Dim]> = graph
            .user_inputs()
            .into_iter()
            .map(|id| graph.tensor(id).map_or(&[][..], |meta| meta.sizes.as_slice()))
            .collect();
        let user = self.answers.files.first().map(Vec::as_slice).unwrap_or_default();
        if declared.len() != user.len() {
            return Ok(());
        }
        let tensors = user.iter().map(Tensor::read).collect::<Result<Vec<_>, _>>()?;
        for (index, set) in other_sizes::other_sizes(&declared, &tensors).into_iter().enumerate() {
            check_interrupt()?;
            let files = [reference::store(self.bench, &format!("size-{index}"), &set.tensors, user)?];
            let run = |program: &Path, of: &str| {
                let folder = format!("{}/size-{index}/{of}", self.eager_folder());
                match reference::eager(self.bench, program, &files, &folder) {
                    Ok(mut runs) => Ok(runs.pop().ok_or_else(|| "it gave no answer".to_owned())),
                    Err(Error::Torch(error @ torch::Error::Failed { .. })) if !error.is_about_the_disk() => {
                        Ok(Err(error.to_string()))
                    }
                    Err(error) => Err(error),
                }
            };
            let original = run(&self.base.stored.path, "before")?;
            let value = match &original {
                Err(why) => format!("not compared, as the original does not run: {why}"),
                Ok(original) => {
                    let wrong = match run(&self.prepared.stored.path, "after")? {
                        Ok(repaired) => other_sizes::difference(original, &repaired, self.candidate.claim),
                        Err(why) => Some(format!("it does not run: {why}")),
                    };
                    if let Some(wrong) = &wrong {
                        report.status = GateStatus::Fail;
                        report.summary =
                            format!("The repaired program is wrong at another size ({}): {wrong}", set.name);
                    }
                    wrong.unwrap_or_else(|| "agrees".to_owned())
                }
            };
            let source = "eager PyTorch on this host".to_owned();
            report.facts.push(Fact { name: format!("another size, {}", set.name), value, source });
            if report.status == GateStatus::Fail {
                break;
            }
        }
        Ok(())
    }

    /// Gates 3 and 4, which share the runs on the target. Gives gate 4's report; gate 3's is noted here.
    fn device_correctness(&mut self) -> Result<GateReport, Error> {
        let Ok(lowered) = &self.prepared.lowered else { return Err(self.lowering_error()) };
        let begin = Instant::now();
        let folder = self.eager_folder().replace("eager", "device");
        let attempts = reference::device(
            self.bench,
            &lowered.pte,
            self.answers.device_files(),
            &folder,
            &self.answers.first_run(),
        )?;
        let Answers { reference, fidelity, .. } = self.answers;
        let repaired = backend_fidelity::measure(reference, &self.bench.target.label(), attempts);
        let mut device = device_correctness::judge(reference, fidelity, &repaired).report;
        device.seconds = begin.elapsed().as_secs_f64();
        let goes_on = decision::goes_on(&device);
        if !goes_on {
            // The comparison with eager tells which of the two programs is wrong.
            let fidelity = backend_fidelity::judge(reference, fidelity, &repaired, self.candidate.claim).report;
            if fidelity.status == GateStatus::Fail {
                self.gates.push(fidelity);
            }
            return Ok(device);
        }
        self.gates.push(device);
        Ok(backend_fidelity::judge(reference, fidelity, &repaired, self.candidate.claim).report)
    }

    /// Gate 5, and the profile of the repaired program.
    fn speed(&mut self) -> Result<GateReport, Error> {
        let Ok(lowered) = &self.prepared.lowered else { return Err(self.lowering_error()) };
        let inputs = self.answers.files.first().map(Vec::as_slice).unwrap_or_default();
        let report = if self.bench.target.label().measures_speed() {
            let plan = self.bench.benchmark_plan();
            let before = &self.base.measured.lowered.pte;
            let outcome = self
                .bench
                .clock
                .child(|| benchmark(&*self.bench.target, before, &lowered.pte, inputs, &plan, self.bench.progress))?;
            self.benchmark = account::comparison(&outcome);
            outcome.report
        } else {
            GateReport {
                gate: Gate::Benchmark,
                status: GateStatus::NotRun,
                summary: "correct on Arm (emulated), speed not measured on Arm".to_owned(),
                facts: Vec::new(),
                seconds: 0.0,
            }
        };
        let measured = profile_program(self.bench, lowered.clone(), inputs, &self.prepared.folder, Some(self.round))?;
        self.measured = Some(measured);
        Ok(report)
    }

    fn eager_folder(&self) -> String {
        format!("rounds/{}/{}/eager", self.round, self.candidate.rule.id)
    }
}

fn new_trial(round: u32, base: &Base, candidate: &Candidate) -> Trial {
    let sources = assemble::sources(&base.measured.ranking);
    let graph = base.stored.program.graph();
    Trial {
        round,
        rule: candidate.rule.clone(),
        sites: candidate.sites.iter().map(|node| assemble::site(graph, *node, &sources)).collect(),
        why: candidate.why.clone(),
        outcome: TrialOutcome::Inconclusive,
        gate: None,
        reason: String::new(),
        diagrams: Vec::new(),
        gates: Vec::new(),
        benchmark: None,
        delegation_before: Some(crate::evidence::Evidence::Measured(base.measured.profile.delegation_measured())),
        delegation_after: None,
        seconds: 0.0,
    }
}

/// What the repair looks like, one picture a kind of site.
fn diagrams(base: &Base, prepared: &Prepared) -> Vec<Diagram> {
    let before = base.stored.program.graph();
    let after = prepared.stored.program.graph();
    let changes: Vec<SiteChange> = sites::find(before, after)
        .into_iter()
        .map(|site| SiteChange {
            title: site.old.first().or(site.new.first()).map(|node| node.name.clone()).unwrap_or_default(),
            removed: site.old.iter().map(|node| node.id).collect(),
            created: site.new.iter().map(|node| node.id).collect(),
        })
        .collect();
    let sources = assemble::sources(&base.measured.ranking);
    assemble::diagrams(before, after, &changes, &|name| sources.contains_key(name))
}
