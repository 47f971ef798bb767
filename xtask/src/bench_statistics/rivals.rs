//! Decision rules in use elsewhere, as they are used: what the gate is held beside.
//!
//! In: a device. Out: whether the rule calls the program after faster, and the samples that it took. Each
//! has the fixed design that its users run it with; none knows a threshold, so a gain of any size counts.

use std::path::Path;
use std::time::Duration;

use delegate_doctor::evidence::median;
use delegate_doctor::gates::benchmark::simulation::{AFTER, BEFORE};
use delegate_doctor::target::{RunRequest, Target};

use crate::workspace::Result;

/// Samples of each program.
const SAMPLES: u32 = 20;
/// Runs before them in a process.
const WARMUP: u32 = 5;
/// The chance of a false accept that the tests are asked for.
const LEVEL: f64 = 0.01;

/// Another way to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// the first Delegate Doctor: any gain of the median
    Median,
    /// Welch's test of the means
    Welch,
    /// the rank test of Mann and Whitney
    MannWhitney,
    /// the ratio of means with its spread, as hyperfine shows it
    MeanRatio,
}

impl Rival {
    pub(crate) const ALL: [Self; 4] = [Self::Median, Self::Welch, Self::MannWhitney, Self::MeanRatio];

    /// Head of its column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Median => "median of 20, any gain",
            Self::Welch => "Welch t-test",
            Self::MannWhitney => "Mann–Whitney",
            Self::MeanRatio => "mean ratio ± spread",
        }
    }

    /// What it does.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Median => {
                "one process of 20 samples each; accepts when the median is lower: the rule of the first Delegate Doctor"
            }
            Self::Welch => "one process of 20 samples each; accepts when the mean is lower at p < 1 %, one-sided",
            Self::MannWhitney => {
                "one process of 20 samples each; accepts when the ranks are lower at p < 1 %, one-sided, normal \
                 approximation"
            }
            Self::MeanRatio => {
                "20 processes of one warm sample each, first all of one program and then all of the other, as \
                 hyperfine runs commands; accepts when the ratio of means is above 1 by more than the ± beside it \
                 (both standard deviations, propagated)"
            }
        }
    }

    /// Whether it accepts.
    pub(crate) fn accepts(self, device: &dyn Target) -> Result<bool> {
        let processes = if self == Self::MeanRatio { SAMPLES } else { 1 };
        let before = samples(device, BEFORE, processes)?;
        let after = samples(device, AFTER, processes)?;
        Ok(match self {
            Self::Median => median(&after) < median(&before),
            Self::Welch => welch(&before, &after) < LEVEL,
            Self::MannWhitney => mann_whitney(&before, &after) < LEVEL,
            Self::MeanRatio => {
                let (a, b) = (Moments::of(&before), Moments::of(&after));
                let ratio = a.mean / b.mean;
                let spread = ratio * (a.variance / a.mean.powi(2) + b.variance / b.mean.powi(2)).sqrt();
                ratio - spread > 1.0
            }
        })
    }
}

fn samples(device: &dyn Target, program: &str, processes: u32) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for _ in 0..processes {
        let outcome = device.run(&RunRequest {
            program: Path::new(program),
            inputs: &[],
            output_dir: None,
            threads: 1,
            warmup: WARMUP,
            warmup_limit: WARMUP,
            iterations: SAMPLES / processes,
            max_measure: Duration::MAX,
            trace: None,
            timeout: Duration::MAX,
        });
        let outcome = outcome.map_err(|error| error.to_string())?;
        #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
        all.extend(outcome.samples_ns.iter().map(|&sample| sample as f64));
    }
    Ok(all)
}

struct Moments {
    mean: f64,
    variance: f64,
    count: f64,
}

impl Moments {
    fn of(samples: &[f64]) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "some twenty samples")]
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self { mean, variance, count }
    }
}

/// One-sided chance of such a difference of means if there is none.
fn welch(before: &[f64], after: &[f64]) -> f64 {
    let (a, b) = (Moments::of(before), Moments::of(after));
    let (of_a, of_b) = (a.variance / a.count, b.variance / b.count);
    let t = (a.mean - b.mean) / (of_a + of_b).sqrt();
    let freedom = (of_a + of_b).powi(2) / (of_a.powi(2) / (a.count - 1.0) + of_b.powi(2) / (b.count - 1.0));
    student_above(t, freedom)
}

/// Chance that Student's t with `freedom` degrees, at most some hundred, exceeds `t`: the integral over the angle whose
/// tangent is `t` over the root of the freedom, where the density is a power of the cosine.
fn student_above(t: f64, freedom: f64) -> f64 {
    let density = |angle: f64| angle.cos().max(0.0).powf(freedom - 1.0);
    let end = std::f64::consts::FRAC_PI_2;
    integral(density, (t / freedom.sqrt()).atan(), end) / integral(density, -end, end)
}

/// Simpson's rule.
fn integral(density: impl Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    const STEPS: u32 = 400;
    let width = (to - from) / f64::from(STEPS);
    let inner: f64 =
        (1..STEPS).map(|step| density(from + width * f64::from(step)) * if step % 2 == 1 { 4.0 } else { 2.0 }).sum();
    width / 3.0 * (density(from) + inner + density(to))
}

/// One-sided chance of such ranks if the programs take the same time.
fn mann_whitney(before: &[f64], after: &[f64]) -> f64 {
    let wins: f64 = before
        .iter()
        .flat_map(|a| {
            after.iter().map(move |b| {
                if a > b {
                    1.0
                } else if a < b {
                    0.0
                } else {
                    0.5
                }
            })
        })
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "some twenty samples")]
    let (n, m) = (before.len() as f64, after.len() as f64);
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    normal_above((wins - n * m / 2.0 - 0.5) / deviation)
}

/// Chance that a standard normal exceeds `z`.
fn normal_above(z: f64) -> f64 {
    /// Beyond this nothing is left to the precision of a double.
    const END: f64 = 10.0;
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let z = z.clamp(-END, END);
    if z < 0.0 { 1.0 - integral(density, -z, END) } else { integral(density, z, END) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_student_are_met() {
        for (t, freedom, chance) in
            [(0.0, 5.0, 0.5), (2.764, 10.0, 0.01), (2.429, 38.0, 0.01), (-1.812, 10.0, 0.95), (1.0, 1.0, 0.25)]
        {
            assert!((student_above(t, freedom) - chance).abs() < 2e-4, "{t} {freedom}: {}", student_above(t, freedom));
        }
        assert!((normal_above(2.326) - 0.01).abs() < 1e-4, "{}", normal_above(2.326));
    }

    #[test]
    fn the_tests_see_a_clear_gain_and_no_other() {
        let slow: Vec<f64> = (0..20).map(|index| 20.0 + f64::from(index % 5) * 0.1).collect();
        let fast: Vec<f64> = slow.iter().map(|time| time / 1.1).collect();
        assert!(welch(&slow, &fast) < 1e-6 && mann_whitney(&slow, &fast) < 1e-6);
        assert!(welch(&fast, &slow) > 0.99 && mann_whitney(&fast, &slow) > 0.99);
        assert!((welch(&slow, &slow) - 0.5).abs() < 1e-3 && (mann_whitney(&slow, &slow) - 0.5).abs() < 0.01);
    }
}
