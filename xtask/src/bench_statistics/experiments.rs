//! Many experiments on simulated devices, counted.

use delegate_doctor::evidence::Interval;
use delegate_doctor::gates::GateStatus;
use delegate_doctor::gates::benchmark::BenchmarkPlan;
use delegate_doctor::gates::benchmark::simulation::{Noise, SimulatedDevice, simulate};
use rayon::prelude::*;

use super::bootstrap;
use super::rivals::Rival;
use crate::workspace::Result;

/// What came out of many experiments with one rule on one kind of device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) experiments: u32,
    pub(crate) accepted: u32,
    /// called not faster; the others that were not accepted are inconclusive
    pub(crate) rejected: u32,
    /// measured samples of both programs, and processes that made them, over all experiments
    pub(crate) samples: u64,
    pub(crate) processes: u64,
}

impl Tally {
    /// Share that was accepted.
    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.accepted) / f64::from(self.experiments.max(1))
    }

    /// Wilson's interval of that share at 95 %.
    pub(crate) fn interval(&self) -> (f64, f64) {
        const Z: f64 = 1.96;
        let n = f64::from(self.experiments.max(1));
        let share = self.rate();
        let center = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
        let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        ((center - half).max(0.0), (center + half).min(1.0))
    }

    /// Samples of an experiment, on average.
    pub(crate) fn mean_samples(&self) -> f64 {
        mean(self.samples, self.experiments)
    }

    /// Processes of an experiment, on average.
    pub(crate) fn mean_processes(&self) -> f64 {
        mean(self.processes, self.experiments)
    }

    fn and(self, other: Self) -> Self {
        Self {
            experiments: self.experiments + other.experiments,
            accepted: self.accepted + other.accepted,
            rejected: self.rejected + other.rejected,
            samples: self.samples + other.samples,
            processes: self.processes + other.processes,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^53")]
fn mean(sum: u64, experiments: u32) -> f64 {
    sum as f64 / f64::from(experiments.max(1))
}

/// How often intervals held the true gain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Coverage {
    pub(crate) experiments: u32,
    pub(crate) gate: u32,
    pub(crate) bootstrap: u32,
    /// how often they should, at least
    pub(crate) confidence: f64,
}

/// A kind of device, what is true on it, and how often it is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) noise: Noise,
    pub(crate) gain: f64,
    pub(crate) experiments: u32,
}

impl Setting {
    fn tally(self, one: impl Fn(&SimulatedDevice, u64) -> Result<Tally> + Sync) -> Result<Tally> {
        (0..u64::from(self.experiments))
            .into_par_iter()
            .map(|number| {
                let device = SimulatedDevice::new(self.noise, self.gain, self.seed(number));
                one(&device, number).map(|tally| Tally { experiments: 1, ..tally })
            })
            .try_reduce(Tally::default, |a, b| Ok(a.and(b)))
    }

    /// Another one for every experiment of the bench.
    fn seed(self, number: u64) -> u64 {
        let noise = Noise::ALL.iter().position(|&noise| noise == self.noise).unwrap_or_default() as u64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "thousandths of a small ratio")]
        let gain = (self.gain * 1000.0).round() as u64;
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (noise << 32) ^ (gain << 40)
    }

    /// The gate, with a plan.
    pub(crate) fn gate(self, plan: &BenchmarkPlan) -> Result<Tally> {
        self.tally(|device, number| {
            let plan = BenchmarkPlan { seed: number, ..plan.clone() };
            let outcome = simulate(device, &plan).map_err(|error| error.to_string())?;
            let blocks = || outcome.before.blocks.iter().chain(&outcome.after.blocks);
            Ok(Tally {
                accepted: u32::from(outcome.report.status == GateStatus::Pass),
                rejected: u32::from(outcome.report.status == GateStatus::Fail),
                samples: blocks().map(|block| block.samples_ns.len() as u64).sum(),
                processes: blocks().count() as u64,
                ..Tally::default()
            })
        })
    }

    /// How often the interval of the gate, and beside it a bootstrap of the same confidence over the same
    /// blocks, hold the true gain.
    pub(crate) fn coverage(self, plan: &BenchmarkPlan) -> Result<Coverage> {
        (0..u64::from(self.experiments))
            .into_par_iter()
            .map(|number| {
                let device = SimulatedDevice::new(self.noise, self.gain, self.seed(number));
                let plan = BenchmarkPlan { seed: number, ..plan.clone() };
                let outcome = simulate(&device, &plan).map_err(|error| error.to_string())?;
                let Some(interval) = outcome.interval else { return Ok(Coverage::default()) };
                let holds = |interval: Interval| interval.low <= self.gain && self.gain <= interval.high;
                let other = bootstrap::interval(&outcome, interval.confidence, number);
                Ok(Coverage {
                    experiments: 1,
                    gate: u32::from(holds(interval)),
                    bootstrap: u32::from(other.is_some_and(holds)),
                    confidence: interval.confidence,
                })
            })
            .try_reduce(Coverage::default, |a, b| {
                Ok(Coverage {
                    experiments: a.experiments + b.experiments,
                    gate: a.gate + b.gate,
                    bootstrap: a.bootstrap + b.bootstrap,
                    confidence: a.confidence.max(b.confidence),
                })
            })
    }

    /// Another rule.
    pub(crate) fn rival(self, rival: Rival) -> Result<Tally> {
        self.tally(|device, _| Ok(Tally { accepted: u32::from(rival.accepts(device)?), ..Tally::default() }))
    }
}
