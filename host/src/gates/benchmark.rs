//! Gate 5: is the repaired program faster on the target, beyond doubt?
//!
//! In: two programs, inputs, a plan. Out: a [`BenchmarkOutcome`] with every sample. Blocks of both
//! programs are interleaved, each block is a process of its own, and within a round the order is drawn at
//! random. After fixed numbers of pairs the gate looks at the ratio and stops as soon as its interval is clear
//! of the gain asked for; each look spends a part of the error that the plan allows, so looking often does not
//! make an unchanged program pass. Where other work keeps the processors busy, the median says more about that
//! work than about the program; the gate sees it in the times and compares the fastest tenth instead.
//!
//! The interval is that of the exact rank test, which holds whatever the noise is like: it asks nothing but
//! that the order of the blocks was drawn at random. What it calls faster must be faster in the bare figures too:
//! what is compared, and the fastest tenth, of all samples must show half of the gain asked for. `cargo xtask bench statistics` holds the whole gate
//! against simulated devices; `docs/measurement.md` has the figures.

pub mod conditions;
mod program;
pub mod simulation;
mod words;

#[cfg(test)]
mod simulated;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::path::Path;
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use self::conditions::DeviceConditions;
use self::program::Program;
use super::statistics::rank_test::{self, Round, Timed};
use super::statistics::{self, Drift, Mode};
use super::{Gate, GateReport, GateStatus};
use crate::evidence::{Interval, Measured, TargetLabel, median};
use crate::interrupt;
use crate::progress::{Progress, Unit};
use crate::target::conditions::Conditions;
use crate::target::{Error, Target};
use crate::torch::protocol::TensorFile;

/// Pairs of blocks in a round. There are 20 orders of 3 and 3 blocks, so 400 of two rounds, enough to call a
/// program not faster by the default plan, and 8000 of three, enough to call it faster.
const PAIRS_PER_ROUND: u32 = 3;
/// Part of the allowed error that the first look spends, the others share the rest.
const FIRST_LOOK: f64 = 0.26;
/// Part of the gain asked for that the bare figures must show too.
const BARE_GAIN: f64 = 0.5;
/// Up to here looks are one round apart, then two, and from the second figure on four.
const DENSE_UNTIL: u32 = 12;
const MEDIUM_UNTIL: u32 = 24;
/// One block of so many in which the times lie whole scheduler slices apart makes the device a busy one.
const BUSY_BLOCKS: usize = 8;
/// A trend is told when it is this unlikely by chance and this large.
const DRIFT_CHANCE: f64 = 0.01;
const DRIFT_SIZE: f64 = 0.05;
/// How long a device that slows down for its heat is left alone before the next round, and the part of the
/// budget that all such waits may take.
const COOL_DOWN: Duration = Duration::from_secs(20);
const COOL_DOWN_SHARE: f64 = 0.25;

/// How to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchmarkPlan {
    /// intra-op threads of both programs
    pub threads: u32,
    /// pairs of blocks before the first look
    pub min_pairs: u32,
    /// pairs of blocks after which the gate gives up
    pub max_pairs: u32,
    /// measured time aimed at in a block
    pub block: Duration,
    /// runs before the measured ones of a block; when `None`, some that are chosen from the program's latency,
    /// and more while times fall
    pub warmup: Option<u32>,
    /// how many times as fast the repaired program must be at least
    pub min_gain: f64,
    /// allowed chance, over all looks, of calling a program faster that has not the gain asked for
    pub accept_error: f64,
    /// allowed chance, over all looks, of calling a program not faster that has it
    pub reject_error: f64,
    /// seed of the order of blocks
    pub seed: u64,
    /// wall time for the whole gate
    pub budget: Duration,
    /// wall-clock limit for one block
    pub timeout: Duration,
}

impl Default for BenchmarkPlan {
    fn default() -> Self {
        Self {
            threads: 1,
            min_pairs: 6,
            max_pairs: 36,
            block: Duration::from_millis(200),
            warmup: None,
            min_gain: 1.02,
            // To keep a repair that does nothing is worse than to leave one that does a little.
            accept_error: 0.001,
            reject_error: 0.01,
            seed: 0,
            budget: Duration::from_secs(300),
            timeout: Duration::from_secs(600),
        }
    }
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// which round, from 0
    pub round: u32,
    /// position in the whole experiment, from 0
    pub position: u32,
    /// runs before the measured ones, ns
    pub warmup_ns: Vec<u64>,
    /// measured runs, ns
    pub samples_ns: Vec<u64>,
    /// peak resident memory, bytes
    pub peak_memory_bytes: Option<u64>,
    /// what the device was doing meanwhile
    pub conditions: Option<Conditions>,
}

/// What was measured of one program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// every block, in the order of time
    pub blocks: Vec<Block>,
    /// median, every block with the same weight, ns; 0 without a block
    pub median_ns: f64,
    /// fastest tenth, every block with the same weight, ns; 0 without a block
    pub fastest_tenth_ns: f64,
    /// the statistic that was compared, ns
    pub compared_ns: f64,
    /// the ways it ran, fastest first
    pub modes: Vec<Mode>,
    /// trend over the blocks, when there is one to tell
    pub drift: Option<Drift>,
    /// scheduler slice that its times lie apart by, ns
    pub quantum_ns: Option<f64>,
    /// median of the blocks' peaks, bytes
    pub peak_memory_bytes: Option<f64>,
    /// runs that a process needed to warm up: the median of the blocks
    pub warmup_runs: f64,
}

/// What the gate saw when it looked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// pairs so far
    pub pairs: u32,
    /// what of the times was compared
    pub statistic: Statistic,
    /// chance of such a gain if the true one is not the one asked for
    pub chance_if_not_faster: f64,
    /// chance of so small a gain if the true one is the one asked for
    pub chance_if_faster: f64,
    /// chances that this look may spend
    pub spends: Spending,
}

impl Look {
    /// Whether the order of the blocks alone makes the gain clear.
    pub fn is_clear(&self) -> bool {
        self.chance_if_not_faster <= self.spends.accept
    }
}

/// What a look may spend of the allowed errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// of that of calling a program faster
    pub accept: f64,
    /// of that of calling it not faster
    pub reject: f64,
}

/// Why the gate stopped measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// the gain is clear
    Faster,
    /// it is clear that there is no such gain
    NotFaster,
    /// no time left
    Budget,
    /// no pairs left
    Pairs,
}

/// What of a program's times is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// the median
    #[default]
    Median,
    /// the fastest tenth: runs that hardly had to wait for a processor
    FastestTenth,
}

impl Statistic {
    /// As a figure is called: `median latency`.
    pub fn of_latency(self) -> &'static str {
        match self {
            Self::Median => "median latency",
            Self::FastestTenth => "latency, fastest tenth",
        }
    }

    fn quantile(self) -> f64 {
        match self {
            Self::Median => 0.5,
            Self::FastestTenth => 0.1,
        }
    }
}

/// Result of the gate with everything it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchmarkOutcome {
    /// verdict and facts
    pub report: GateReport,
    /// where it was measured
    pub target: TargetLabel,
    /// the program before
    pub before: Side,
    /// the program after
    pub after: Side,
    /// what of the times was compared
    pub statistic: Statistic,
    /// how many times as fast the program after is, blocks being compared with those of the same round and
    /// without the trend; `None` when nothing was measured
    pub ratio: Option<f64>,
    /// of the ratio; `None` when an end is open, as the order of few blocks can leave it
    pub interval: Option<Interval>,
    /// the looks
    pub looks: Vec<Look>,
    /// why it ended
    pub stop: StopReason,
    /// threads of both programs
    pub threads: u32,
    /// what the device was doing; `None` when it does not tell
    pub conditions: Option<DeviceConditions>,
}

impl BenchmarkOutcome {
    /// The speed-up with its label.
    pub fn ratio_measured(&self) -> Option<Measured> {
        let samples = [&self.before, &self.after];
        let count = samples.iter().flat_map(|side| &side.blocks).map(|block| block.samples_ns.len() as u64).sum();
        self.ratio.map(|value| Measured {
            value,
            unit: "ratio".to_owned(),
            target: self.target.clone(),
            samples: count,
            interval: self.interval,
        })
    }
}

/// Compares the latency of two programs on a target.
///
/// # Errors
/// When a run fails; nothing is concluded from the blocks before it.
pub fn benchmark(
    target: &dyn Target,
    before: &Path,
    after: &Path,
    inputs: &[TensorFile],
    plan: &BenchmarkPlan,
    progress: &dyn Progress,
) -> Result<BenchmarkOutcome, Error> {
    compare(target, [before, after], inputs, plan, progress, &rest)
}

/// Waits, but not when the user wants to stop.
fn rest(time: Duration) -> Result<(), Error> {
    const LOOK_UP: Duration = Duration::from_millis(50);
    let end = Instant::now() + time;
    loop {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_UP));
    }
}

/// The comparison; `rest` lets the device cool for a while.
fn compare(
    target: &dyn Target,
    programs: [&Path; 2],
    inputs: &[TensorFile],
    plan: &BenchmarkPlan,
    progress: &dyn Progress,
    rest: &dyn Fn(Duration) -> Result<(), Error>,
) -> Result<BenchmarkOutcome, Error> {
    let started = Instant::now();
    let step = progress.step("Comparing the speed of the two programs");
    let [before, after] = Program::calibrate(target, programs, inputs, plan)?;
    let mut experiment = Experiment::new(plan);
    let mut stop = StopReason::Pairs;
    let mut left = Spending { accept: plan.accept_error, reject: plan.reject_error };
    'rounds: for (pairs, spends) in looks(plan) {
        while experiment.pairs() < pairs {
            let expected = (before.wall + after.wall) * PAIRS_PER_ROUND;
            if started.elapsed() + expected > plan.budget {
                // No other look will come, so this one may spend what is left.
                stop = experiment.look(plan, left).unwrap_or(StopReason::Budget);
                break 'rounds;
            }
            if experiment.is_throttled() && experiment.cooled + COOL_DOWN <= plan.budget.mul_f64(COOL_DOWN_SHARE) {
                step.update(&format!("Waiting {} s, as the device is hot and slows down", COOL_DOWN.as_secs()));
                rest(COOL_DOWN)?;
                experiment.cooled += COOL_DOWN;
            }
            for (is_before, position) in experiment.next_order() {
                let program = if is_before { &before } else { &after };
                let block = program.block(target, inputs, plan, experiment.round, position)?;
                experiment.add(is_before, block);
            }
            experiment.round += 1;
            step.advance(u64::from(experiment.pairs()), u64::from(plan.max_pairs), Unit::Items);
        }
        left.accept -= spends.accept;
        left.reject -= spends.reject;
        if let Some(reason) = experiment.look(plan, spends) {
            stop = reason;
            break;
        }
    }
    let outcome = experiment.conclude(target.label(), plan, stop, started.elapsed());
    step.done(&outcome.report.summary);
    Ok(outcome)
}

/// After how many pairs the gate looks, and how much of the allowed errors each look may spend. The
/// first of several calls nothing faster: it has too few orders for that.
fn looks(plan: &BenchmarkPlan) -> Vec<(u32, Spending)> {
    let whole_rounds = |pairs: u32| pairs.div_ceil(PAIRS_PER_ROUND) * PAIRS_PER_ROUND;
    let mut at = whole_rounds(plan.min_pairs.max(2 * PAIRS_PER_ROUND));
    let mut pairs = vec![at];
    loop {
        at += PAIRS_PER_ROUND
            * match at {
                ..DENSE_UNTIL => 1,
                DENSE_UNTIL..MEDIUM_UNTIL => 2,
                _ => 4,
            };
        if at > whole_rounds(plan.max_pairs) {
            break;
        }
        pairs.push(at);
    }
    let Spending { accept, reject } = Spending { accept: plan.accept_error, reject: plan.reject_error };
    #[expect(clippy::cast_precision_loss, reason = "a handful of looks")]
    let others = (pairs.len() - 1) as f64;
    let first = if pairs.len() == 1 {
        Spending { accept, reject }
    } else {
        Spending { accept: 0.0, reject: reject * FIRST_LOOK }
    };
    let later = Spending { accept: accept / others, reject: (reject - first.reject) / others };
    pairs.iter().enumerate().map(|(index, &pairs)| (pairs, if index == 0 { first } else { later })).collect()
}

/// The blocks so far.
struct Experiment {
    random: ChaCha8Rng,
    round: u32,
    position: u32,
    before: Vec<Block>,
    after: Vec<Block>,
    looks: Vec<Look>,
    /// time spent waiting for the device to cool
    cooled: Duration,
}

impl Experiment {
    fn new(plan: &BenchmarkPlan) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(plan.seed),
            round: 0,
            position: 0,
            before: Vec::new(),
            after: Vec::new(),
            looks: Vec::new(),
            cooled: Duration::ZERO,
        }
    }

    /// Blocks of both programs in the order they were made.
    fn blocks(&self) -> Vec<&Block> {
        let mut blocks: Vec<&Block> = self.before.iter().chain(&self.after).collect();
        blocks.sort_by_key(|block| block.position);
        blocks
    }

    /// Whether the device slowed its processors down at the end of the last block.
    fn is_throttled(&self) -> bool {
        let blocks = self.blocks();
        let told = || blocks.iter().filter_map(|block| block.conditions.as_ref());
        let calm = conditions::calmest(told().flat_map(|conditions| [&conditions.before, &conditions.after]));
        calm.zip(told().next_back()).is_some_and(|(calm, last)| last.after.throttled(calm))
    }

    fn pairs(&self) -> u32 {
        self.round * PAIRS_PER_ROUND
    }

    /// The blocks of the next round in random order, every order equally likely: `true` is before.
    fn next_order(&mut self) -> Vec<(bool, u32)> {
        let mut order: Vec<bool> = (0..2 * PAIRS_PER_ROUND).map(|index| index < PAIRS_PER_ROUND).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.random.random_range(0..=last));
        }
        order.into_iter().zip(self.position..).collect()
    }

    fn add(&mut self, is_before: bool, block: Block) {
        self.position += 1;
        if is_before { self.before.push(block) } else { self.after.push(block) }
    }

    /// Looks at the blocks so far; says why to stop, if there is reason to.
    fn look(&mut self, plan: &BenchmarkPlan, spends: Spending) -> Option<StopReason> {
        let statistic = self.statistic();
        let tail = rank_test::rank_test(&self.rounds(statistic), plan.min_gain);
        let look = Look {
            pairs: self.pairs(),
            statistic,
            chance_if_not_faster: tail.greater,
            chance_if_faster: tail.less,
            spends,
        };
        self.looks.push(look);
        if look.is_clear() {
            // What the bare figures leave open may become clear with more pairs.
            let asked = 1.0 + (plan.min_gain - 1.0) * BARE_GAIN;
            (self.gain_over_all(statistic) >= asked).then_some(StopReason::Faster)
        } else {
            (tail.less <= spends.reject).then_some(StopReason::NotFaster)
        }
    }

    /// The gain in the bare figures that a reader sees, without rounds and trend: the smaller of those of
    /// what is compared and of the fastest tenth, over all samples. Other work on the device moves ranks and medians by
    /// chance, and hardly ever the runs that it did not disturb.
    fn gain_over_all(&self, compared: Statistic) -> f64 {
        [compared, Statistic::FastestTenth]
            .map(|statistic| over_all(&self.before, statistic) / over_all(&self.after, statistic))
            .into_iter()
            .fold(f64::INFINITY, f64::min)
    }

    /// What to compare. The choice looks at each block by itself and never at which program it is of, so
    /// the rank test holds for it as well.
    fn statistic(&self) -> Statistic {
        let sliced = |block: &&Block| statistics::quantum(&as_f64(&block.samples_ns)).is_some();
        let busy = self.before.iter().chain(&self.after).filter(sliced).count();
        let all = self.before.len() + self.after.len();
        if busy * BUSY_BLOCKS >= all.max(1) { Statistic::FastestTenth } else { Statistic::Median }
    }

    fn rounds(&self, statistic: Statistic) -> Vec<Round> {
        let mut rounds = vec![Vec::new(); self.round as usize];
        for (blocks, before) in [(&self.before, true), (&self.after, false)] {
            for block in blocks {
                if let (Some(time), Some(round)) = (block.time(statistic), rounds.get_mut(block.round as usize)) {
                    round.push((block.position, Timed { before, time }));
                }
            }
        }
        let in_order = |mut round: Vec<(u32, Timed)>| {
            round.sort_by_key(|(position, _)| *position);
            round.into_iter().map(|(_, block)| block).collect()
        };
        rounds.into_iter().map(in_order).collect()
    }

    fn conclude(
        self,
        target: TargetLabel,
        plan: &BenchmarkPlan,
        stop: StopReason,
        elapsed: Duration,
    ) -> BenchmarkOutcome {
        let conditions = DeviceConditions::of(&self.blocks(), self.cooled.as_secs_f64());
        let statistic = self.statistic();
        let (before, after) = (side(&self.before, statistic), side(&self.after, statistic));
        let allowed = plan.accept_error.max(plan.reject_error);
        let Spending { accept, reject } =
            self.looks.last().map_or(Spending { accept: allowed, reject: allowed }, |look| look.spends);
        // A look that may call nothing faster still has a lower end to tell.
        let low = if accept > 0.0 { accept } else { reject };
        let range = rank_test::ratio_range(&self.rounds(statistic), low, reject);
        // Over all looks together each end is wrong with the larger of the allowed chances at most.
        let interval = range.filter(|range| range.low > 0.0 && range.high.is_finite()).map(|range| Interval {
            low: range.low,
            high: range.high,
            confidence: 1.0 - 2.0 * allowed,
        });
        let status = match stop {
            StopReason::Faster => GateStatus::Pass,
            StopReason::NotFaster => GateStatus::Fail,
            StopReason::Budget | StopReason::Pairs => GateStatus::Inconclusive,
        };
        let mut outcome = BenchmarkOutcome {
            report: GateReport {
                gate: Gate::Benchmark,
                status,
                summary: String::new(),
                facts: Vec::new(),
                seconds: elapsed.as_secs_f64(),
            },
            target,
            before,
            after,
            statistic,
            ratio: range.map(|range| range.estimate),
            interval,
            looks: self.looks,
            stop,
            threads: plan.threads,
            conditions,
        };
        outcome.report.summary = outcome.summary(plan);
        outcome.report.facts = outcome.facts(plan);
        outcome
    }
}

impl Block {
    fn time(&self, statistic: Statistic) -> Option<f64> {
        statistics::weighted_quantile(std::iter::once(&as_f64(&self.samples_ns)), statistic.quantile())
    }
}

fn as_f64(samples: &[u64]) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
    samples.iter().map(|&sample| sample as f64).collect()
}

/// A statistic of all samples, every block with the same weight, ns; 0 without a block.
fn over_all(blocks: &[Block], statistic: Statistic) -> f64 {
    let samples: Vec<Vec<f64>> = blocks.iter().map(|block| as_f64(&block.samples_ns)).collect();
    statistics::weighted_quantile(samples.iter(), statistic.quantile()).unwrap_or(0.0)
}

fn side(blocks: &[Block], statistic: Statistic) -> Side {
    let all: Vec<f64> = blocks.iter().flat_map(|block| as_f64(&block.samples_ns)).collect();
    let times: Vec<f64> = blocks.iter().filter_map(|block| block.time(statistic)).collect();
    #[expect(clippy::cast_precision_loss, reason = "memory sizes are far below 2^53")]
    let peaks: Vec<f64> = blocks.iter().filter_map(|block| block.peak_memory_bytes).map(|bytes| bytes as f64).collect();
    #[expect(clippy::cast_precision_loss, reason = "a handful of runs")]
    let warmups: Vec<f64> = blocks.iter().map(|block| block.warmup_ns.len() as f64).collect();
    Side {
        blocks: blocks.to_vec(),
        median_ns: over_all(blocks, Statistic::Median),
        fastest_tenth_ns: over_all(blocks, Statistic::FastestTenth),
        compared_ns: over_all(blocks, statistic),
        modes: statistics::modes(&all),
        drift: statistics::drift(&times)
            .filter(|drift| drift.chance < DRIFT_CHANCE && (drift.change - 1.0).abs() > DRIFT_SIZE),
        quantum_ns: statistics::quantum(&all),
        peak_memory_bytes: median(&peaks),
        warmup_runs: median(&warmups).unwrap_or(0.0),
    }
}
