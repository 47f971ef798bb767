//! A device that is simulated, so that the truth is known: what the gate's decisions are held against.
//!
//! In: a [`Noise`], the true gain and a seed. Out: a [`Target`] that runs nothing and answers with times
//! drawn from that noise. Its label says that it is no device, so no figure from it is evidence of speed.
//! Times depend on the seed alone: the clock of the simulated device is its own.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{BenchmarkOutcome, BenchmarkPlan, compare};
use crate::evidence::TargetLabel;
use crate::progress::Silent;
use crate::target::conditions::{Conditions, Reading, Sensor};
use crate::target::{Error, RunOutcome, RunRequest, Target};

/// The program before, as a simulated device knows it; any other path is the program after.
pub const BEFORE: &str = "before.pte";
/// The program after.
pub const AFTER: &str = "after.pte";
/// Latency of the program before on a quiet device, ns.
const LATENCY: f64 = 20e6;
/// Spread of the latencies of processes, and of the samples in one, as parts of the latency.
const PROCESS_SPREAD: f64 = 0.01;
const SAMPLE_SPREAD: f64 = 0.02;
/// What the first runs of a process take, as multiples of the later ones.
const COLD: [f64; 3] = [3.0, 1.3, 1.05];
/// Time that a process takes beside its runs, seconds.
const START: f64 = 0.1;

/// How a simulated device disturbs a latency. Processes differ by 1 % and samples by 2 % on all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// nothing else
    Calm,
    /// some samples are several times as slow
    HeavyTailed,
    /// a process runs in one of two modes
    BimodalByProcess,
    /// a sample runs in one of two modes
    BimodalBySample,
    /// slower with every process
    Drifting,
    /// work heats it; hot, it slows down until it has cooled
    Throttling,
    /// one sample is much like the one before, over several processes
    Autocorrelated,
    /// load from elsewhere comes and goes over several processes
    Loaded,
    /// under load the scheduler gives whole slices only
    Sliced,
}

impl Noise {
    /// Every kind of device.
    pub const ALL: [Self; 9] = [
        Self::Calm,
        Self::HeavyTailed,
        Self::BimodalByProcess,
        Self::BimodalBySample,
        Self::Drifting,
        Self::Throttling,
        Self::Autocorrelated,
        Self::Loaded,
        Self::Sliced,
    ];

    /// As a table calls it: `heavy-tailed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::HeavyTailed => "heavy-tailed",
            Self::BimodalByProcess => "bimodal by process",
            Self::BimodalBySample => "bimodal by sample",
            Self::Drifting => "drifting",
            Self::Throttling => "throttling",
            Self::Autocorrelated => "autocorrelated",
            Self::Loaded => "loaded",
            Self::Sliced => "sliced",
        }
    }

    /// What it does, with its figures.
    pub fn description(self) -> &'static str {
        match self {
            Self::Calm => "latency 20 ms; processes differ by 1 %, samples in one by 2 % (as on all the others)",
            Self::HeavyTailed => "8 % of the samples take 1.5 to 8 times as long",
            Self::BimodalByProcess => "40 % of the processes take 3 times as long",
            Self::BimodalBySample => "half of the samples take 1.6 times as long",
            Self::Drifting => "every process is 2 % of the first latency slower than the one before",
            Self::Throttling => {
                "work heats it; after 1.5 to 4 s of work it runs at two thirds of its speed until it has cooled"
            }
            Self::Autocorrelated => {
                "a level that wanders by 6 % and forgets half of itself in 34 samples, across processes"
            }
            Self::Loaded => {
                "other work makes it 1.6 to 3 times as slow; it comes or goes with every fifth process on average"
            }
            Self::Sliced => "the same load, seen as waits of 0 to 2 scheduler slices of 4 ms",
        }
    }
}

/// A device that runs [`BEFORE`] in 20 ms and [`AFTER`] in 20 ms over its gain, but for its noise.
pub struct SimulatedDevice {
    noise: Noise,
    gain: f64,
    tells: bool,
    state: Mutex<State>,
}

struct State {
    random: ChaCha8Rng,
    processes: u32,
    /// how many times as slow other work makes it
    load: f64,
    /// logarithm of the level of an autocorrelated device
    level: f64,
    /// 0 cold, 1 as hot as it can be
    heat: f64,
    hot: bool,
}

impl SimulatedDevice {
    /// A device whose program after is `gain` times as fast as the one before.
    pub fn new(noise: Noise, gain: f64, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let level = WANDER * normal(&mut random);
        let heat = random.random_range(0.0..0.5);
        let state = State { random, processes: 0, load: 1.0, level, heat, hot: false };
        Self { noise, gain, tells: false, state: Mutex::new(state) }
    }

    /// The same device, but it tells whether it slows its processors down.
    #[must_use]
    pub fn telling(self) -> Self {
        Self { tells: true, ..self }
    }

    /// Leaves the device alone for a while.
    fn rest(&self, time: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.heat = (state.heat + COOLING * time.as_secs_f64()).max(0.0);
        state.hot &= state.heat > COOL_AGAIN;
    }
}

/// Spread of the level of an autocorrelated device, and what it keeps of itself from sample to sample.
const WANDER: f64 = 0.06;
const KEPT: f64 = 0.98;
/// Heat per second of work at full speed, of work while slowed down, and of rest.
const HEATING: f64 = 0.2;
const HEATING_SLOWED: f64 = -0.15;
const COOLING: f64 = -0.2;
/// Where it slows down, where it stops to, and how many times as slow it is then.
const TOO_HOT: f64 = 0.8;
const COOL_AGAIN: f64 = 0.5;
const SLOWED: f64 = 1.5;

impl State {
    fn chance(&mut self, probability: f64) -> bool {
        self.random.random_range(0.0..1.0) < probability
    }

    fn reading(&self) -> Reading {
        Reading { cooling: vec![Sensor { kind: "cpu".to_owned(), value: self.hot.into() }], ..Reading::default() }
    }

    /// Factor of a whole process.
    fn process(&mut self, noise: Noise) -> f64 {
        let own = (PROCESS_SPREAD * normal(&mut self.random)).exp();
        let index = f64::from(self.processes);
        self.processes += 1;
        match noise {
            Noise::BimodalByProcess if self.chance(0.4) => own * 3.0,
            Noise::Drifting => own * (1.0 + 0.02 * index),
            Noise::Throttling => {
                self.heat = (self.heat + COOLING * START).max(0.0);
                own
            }
            Noise::Loaded | Noise::Sliced => {
                if self.chance(0.2) {
                    self.load = if self.load > 1.0 { 1.0 } else { self.random.random_range(1.6..3.0) };
                }
                if noise == Noise::Loaded { own * self.load } else { own }
            }
            _ => own,
        }
    }

    /// One run of a program that takes `plain` ns on a quiet device.
    fn sample(&mut self, noise: Noise, plain: f64) -> f64 {
        let time = plain * (SAMPLE_SPREAD * normal(&mut self.random)).exp();
        match noise {
            Noise::HeavyTailed if self.chance(0.08) => time * self.random.random_range(1.5..8.0),
            Noise::BimodalBySample if self.chance(0.5) => time * 1.6,
            Noise::Throttling => {
                let time = if self.hot { time * SLOWED } else { time };
                let rate = if self.hot { HEATING_SLOWED } else { HEATING };
                self.heat = (self.heat + rate * time / 1e9).clamp(0.0, 1.0);
                self.hot = self.heat > if self.hot { COOL_AGAIN } else { TOO_HOT };
                time
            }
            Noise::Autocorrelated => {
                let news = WANDER * (1.0 - KEPT * KEPT).sqrt() * normal(&mut self.random);
                self.level = KEPT * self.level + news;
                time * self.level.exp()
            }
            Noise::Sliced if self.load > 1.0 => time + f64::from(self.random.random_range(0..3_u32)) * 4e6,
            _ => time,
        }
    }
}

/// The gate on a simulated device. Wall time plays no part but for the budget.
///
/// # Errors
/// None that a simulated device makes by itself.
pub fn simulate(device: &SimulatedDevice, plan: &BenchmarkPlan) -> Result<BenchmarkOutcome, Error> {
    let rest = |time| {
        device.rest(time);
        Ok(())
    };
    compare(device, [Path::new(BEFORE), Path::new(AFTER)], &[], plan, &Silent, &rest)
}

/// Like the runner's: whether one of the last two runs was faster than every run before.
fn still_falling(times: &[u64]) -> bool {
    let (earlier, last) = times.split_at(times.len().saturating_sub(2));
    match (earlier.iter().min(), last.iter().min()) {
        (Some(&earlier), Some(&last)) => u128::from(last) * 100 < u128::from(earlier) * 98,
        _ => true,
    }
}

/// A draw from the standard normal distribution.
pub(crate) fn normal(random: &mut ChaCha8Rng) -> f64 {
    let u: f64 = random.random_range(f64::EPSILON..1.0);
    let v: f64 = random.random_range(0.0..1.0);
    (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
}

impl Target for SimulatedDevice {
    fn label(&self) -> TargetLabel {
        TargetLabel {
            kind: "simulated".to_owned(),
            name: format!("simulated device ({})", self.noise.name()),
            architecture: "none".to_owned(),
            physical_arm: false,
        }
    }

    fn run(&self, request: &RunRequest<'_>) -> Result<RunOutcome, Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let plain = if request.program == Path::new(BEFORE) { LATENCY } else { LATENCY / self.gain };
        let plain = plain * state.process(self.noise);
        let mut outcome = RunOutcome::default();
        let before = state.reading();
        let mut cold = COLD.into_iter();
        let mut run = || {
            let time = state.sample(self.noise, plain * cold.next().unwrap_or(1.0));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some ten milliseconds")]
            let time = time as u64;
            time
        };
        outcome.warmup_ns = (0..request.warmup).map(|_| run()).collect();
        while outcome.warmup_ns.len() < request.warmup_limit as usize && still_falling(&outcome.warmup_ns) {
            outcome.warmup_ns.push(run());
        }
        let limit = request.max_measure.as_nanos();
        let mut measured = 0;
        for _ in 0..request.iterations {
            let time = run();
            outcome.samples_ns.push(time);
            measured += u128::from(time);
            if measured >= limit {
                break;
            }
        }
        let after = state.reading();
        outcome.conditions = self.tells.then(|| Conditions { before, after, ..Conditions::default() });
        Ok(outcome)
    }

    fn processor(&self) -> String {
        "simulated".to_owned()
    }

    fn identity(&self) -> String {
        format!("simulated {}", self.noise.name())
    }

    fn default_threads(&self) -> u32 {
        1
    }
}
