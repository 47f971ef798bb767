//! The gate against simulated devices: what it accepts and rejects when the truth is known.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{BenchmarkOutcome, BenchmarkPlan, StopReason, benchmark};
use crate::evidence::TargetLabel;
use crate::gates::GateStatus;
use crate::progress::Silent;
use crate::target::{Error, RunOutcome, RunRequest, Target};

/// How a simulated device disturbs a latency.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// a little of everything
    Calm,
    /// rare samples several times as slow
    HeavyTail,
    /// a process runs in one of two modes
    BimodalByProcess,
    /// a sample runs in one of two modes
    BimodalBySample,
    /// slower with every process
    Throttling,
    /// load from elsewhere comes and goes over several processes
    Load,
    /// under load the scheduler gives whole slices only
    Slices,
}

const EVERY_NOISE: [Noise; 7] = [
    Noise::Calm,
    Noise::HeavyTail,
    Noise::BimodalByProcess,
    Noise::BimodalBySample,
    Noise::Throttling,
    Noise::Load,
    Noise::Slices,
];

/// A device that runs `before.pte` in 20 ms and `after.pte` in 20 ms over `gain`.
struct FakeDevice {
    noise: Noise,
    gain: f64,
    state: Mutex<State>,
}

struct State {
    random: ChaCha8Rng,
    processes: u32,
    load: f64,
}

impl FakeDevice {
    fn new(noise: Noise, gain: f64, seed: u64) -> Self {
        let state = State { random: ChaCha8Rng::seed_from_u64(seed), processes: 0, load: 1.0 };
        Self { noise, gain, state: Mutex::new(state) }
    }
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let u: f64 = random.random_range(f64::EPSILON..1.0);
    let v: f64 = random.random_range(0.0..1.0);
    (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
}

impl Target for FakeDevice {
    fn label(&self) -> TargetLabel {
        TargetLabel {
            kind: "fake_device".to_owned(),
            name: "fake_device".to_owned(),
            architecture: "none".to_owned(),
            physical_arm: false,
        }
    }

    fn processor(&self) -> String {
        "simulated".to_owned()
    }

    fn run(&self, request: &RunRequest<'_>) -> Result<RunOutcome, Error> {
        let mut state = self.state.lock().expect("one thread");
        let State { random, processes, load } = &mut *state;
        *processes += 1;
        let base = if request.program.ends_with("before.pte") { 20e6 } else { 20e6 / self.gain };
        let chance = |random: &mut ChaCha8Rng, probability: f64| random.random_range(0.0..1.0) < probability;
        let process = match self.noise {
            Noise::Calm | Noise::HeavyTail | Noise::BimodalBySample => (0.01 * normal(random)).exp(),
            Noise::BimodalByProcess => {
                let mode = if chance(random, 0.4) { 3.0 } else { 1.0 };
                mode * (0.01 * normal(random)).exp()
            }
            Noise::Throttling => 1.0 + 0.02 * f64::from(*processes),
            Noise::Load | Noise::Slices => {
                if chance(random, 0.2) {
                    *load = if *load > 1.5 { 1.0 } else { random.random_range(1.6..3.0) };
                }
                *load
            }
        };
        let mut sample = || {
            let plain = base * process * (0.02 * normal(random)).exp();
            let time = match self.noise {
                Noise::HeavyTail if chance(random, 0.08) => plain * random.random_range(1.5..8.0),
                Noise::BimodalBySample if chance(random, 0.5) => plain * 1.6,
                Noise::Slices if *load > 1.5 => {
                    let waits = f64::from(random.random_range(0..3_u32));
                    base * (0.01 * normal(random)).exp() + waits * 4e6
                }
                _ => plain,
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some ten milliseconds")]
            let time = time as u64;
            time
        };
        Ok(RunOutcome {
            warmup_ns: (0..request.warmup).map(|_| sample()).collect(),
            samples_ns: (0..request.iterations.min(12)).map(|_| sample()).collect(),
            ..RunOutcome::default()
        })
    }

    fn identity(&self) -> String {
        "fake_device".to_owned()
    }

    fn default_threads(&self) -> u32 {
        1
    }
}

fn experiment(noise: Noise, gain: f64, seed: u64) -> BenchmarkOutcome {
    let device = FakeDevice::new(noise, gain, seed.wrapping_mul(7919).wrapping_add(1));
    let plan = BenchmarkPlan { seed, ..BenchmarkPlan::default() };
    benchmark(&device, Path::new("before.pte"), Path::new("after.pte"), &[], &plan, &Silent).expect("simulated runs")
}

#[test]
fn an_unchanged_program_is_never_accepted() {
    for noise in EVERY_NOISE {
        for seed in 0..20 {
            let outcome = experiment(noise, 1.0, seed);
            assert_ne!(outcome.report.status, GateStatus::Pass, "{noise:?} {seed}: {}", outcome.report.summary);
        }
    }
}

#[test]
fn a_gain_below_the_asked_one_is_hardly_ever_accepted() {
    let accepted: usize = EVERY_NOISE
        .iter()
        .flat_map(|&noise| (0..8).map(move |seed| experiment(noise, 1.015, seed)))
        .filter(|outcome| outcome.report.status == GateStatus::Pass)
        .count();
    assert!(accepted <= 1, "{accepted} of 56");
}

#[test]
fn a_large_gain_is_accepted_soon_where_the_device_allows() {
    for noise in [Noise::Calm, Noise::HeavyTail, Noise::Throttling] {
        for seed in 0..10 {
            let outcome = experiment(noise, 1.5, seed);
            assert_eq!(outcome.report.status, GateStatus::Pass, "{noise:?} {seed}: {}", outcome.report.summary);
            assert!(outcome.before.blocks.len() <= 12, "{noise:?} {seed}: {} pairs", outcome.before.blocks.len());
            let interval = outcome.interval.expect("interval");
            assert!(interval.low > 1.3 && interval.high < 1.7, "{noise:?} {seed}: {interval:?}");
        }
    }
    let calm = experiment(Noise::Calm, 1.5, 0);
    assert_eq!((calm.before.blocks.len(), calm.stop), (6, StopReason::Faster), "{}", calm.report.summary);
}

#[test]
fn a_small_gain_is_found_on_a_calm_device() {
    let accepted = (0..40)
        .map(|seed| experiment(Noise::Calm, 1.05, seed))
        .filter(|outcome| outcome.report.status == GateStatus::Pass)
        .count();
    assert!(accepted >= 37, "{accepted} of 40");
}

#[test]
fn a_slower_program_is_rejected_and_called_slower() {
    for noise in [Noise::Calm, Noise::HeavyTail, Noise::Throttling] {
        for seed in 0..10 {
            let outcome = experiment(noise, 0.8, seed);
            assert_eq!(outcome.report.status, GateStatus::Fail, "{noise:?} {seed}: {}", outcome.report.summary);
            assert!(outcome.report.summary.starts_with("Slower: "), "{}", outcome.report.summary);
        }
    }
}

#[test]
fn a_slower_program_is_accepted_on_no_device() {
    for noise in EVERY_NOISE {
        for seed in 0..10 {
            let outcome = experiment(noise, 0.9, seed);
            assert_ne!(outcome.report.status, GateStatus::Pass, "{noise:?} {seed}: {}", outcome.report.summary);
        }
    }
}

#[test]
fn two_modes_are_told_and_ask_for_more_pairs() {
    let outcome = experiment(Noise::BimodalByProcess, 1.05, 3);
    assert_eq!(outcome.report.status, GateStatus::Inconclusive);
    assert!(outcome.report.summary.contains("runs in 2 ways ("), "{}", outcome.report.summary);
    assert!(outcome.before.blocks.len() >= 12);
    assert!(outcome.report.facts.iter().any(|fact| fact.name == "not calm"));
}

#[test]
fn on_a_busy_processor_the_undisturbed_runs_are_compared() {
    for seed in 0..8 {
        let faster = experiment(Noise::Slices, 1.5, seed);
        let ratio = faster.ratio.expect("ratio");
        if faster.statistic == super::Statistic::FastestTenth {
            assert_eq!(faster.report.status, GateStatus::Pass, "{seed}: {}", faster.report.summary);
            assert!((ratio - 1.5).abs() < 0.05, "{seed}: {}", faster.report.summary);
            assert!(faster.report.summary.contains("other work keeps the processors busy"));
        }
    }
    let busy = experiment(Noise::Slices, 1.0, 2);
    assert_eq!(busy.statistic, super::Statistic::FastestTenth, "{}", busy.report.summary);
}

#[test]
fn every_sample_is_kept_with_its_place() {
    let outcome = experiment(Noise::Calm, 1.5, 1);
    let mut positions: Vec<u32> =
        outcome.before.blocks.iter().chain(&outcome.after.blocks).map(|block| block.position).collect();
    positions.sort_unstable();
    assert_eq!(positions, (0..12).collect::<Vec<u32>>());
    for round in 0..2 {
        let of_round = |blocks: &[super::Block]| blocks.iter().filter(|block| block.round == round).count();
        assert_eq!((of_round(&outcome.before.blocks), of_round(&outcome.after.blocks)), (3, 3));
    }
    let count: usize = outcome.before.blocks.iter().chain(&outcome.after.blocks).map(|b| b.samples_ns.len()).sum();
    assert_eq!(outcome.ratio_measured().expect("ratio").samples, count as u64);
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let without_time = |mut outcome: BenchmarkOutcome| {
        outcome.report.seconds = 0.0;
        outcome
    };
    let first = without_time(experiment(Noise::Load, 1.2, 5));
    assert_eq!(first, without_time(experiment(Noise::Load, 1.2, 5)));
}

#[test]
fn a_budget_that_is_too_small_ends_without_a_verdict() {
    let device = FakeDevice::new(Noise::Calm, 2.0, 1);
    let plan = BenchmarkPlan { budget: Duration::from_millis(1), ..BenchmarkPlan::default() };
    let outcome =
        benchmark(&device, Path::new("before.pte"), Path::new("after.pte"), &[], &plan, &Silent).expect("runs");
    assert_eq!((outcome.report.status, outcome.stop), (GateStatus::Inconclusive, StopReason::Budget));
    assert!(outcome.report.summary.starts_with("Not measured"), "{}", outcome.report.summary);
}
