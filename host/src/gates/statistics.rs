//! Statistics of latencies: the test and the interval behind the benchmark gate, modes, drift, quanta.
//!
//! In: samples of blocks, a block being one process. Out: plain figures. Everything is a pure function.
//!
//! Samples of one process are not independent of each other, so the block is the unit of the test and of the
//! interval.

pub mod rank_test;

use std::collections::BTreeMap;

use crate::evidence::median;

/// A smaller part of the samples is called outliers, not a mode.
const MODE_MINIMUM_SHARE: f64 = 0.1;
/// Part of the variance of the logarithms that a split into two modes must explain; 0.75 for a uniform
/// spread, 0.64 for a bell.
const MODE_MINIMUM_EXPLAINED: f64 = 0.85;
/// Modes closer than this are not worth telling apart.
const MODE_MINIMUM_RATIO: f64 = 1.08;
/// A gap between modes is this many times as wide as the usual one.
const MODE_GAP: f64 = 12.0;
const MODE_LIMIT: usize = 4;

/// A quantile over blocks of the same weight each, whatever their sample counts.
pub fn weighted_quantile<'a>(blocks: impl Iterator<Item = &'a Vec<f64>>, quantile: f64) -> Option<f64> {
    let mut weighted: Vec<(f64, f64)> = Vec::new();
    for block in blocks {
        let weight = 1.0 / count(block.len());
        weighted.extend(block.iter().map(|&sample| (sample, weight)));
    }
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = weighted.iter().map(|(_, weight)| weight).sum::<f64>() * quantile;
    let mut below = 0.0;
    for (index, (sample, weight)) in weighted.iter().enumerate() {
        below += weight;
        if (below - wanted).abs() <= 1e-9 * wanted {
            let next = weighted.get(index + 1).map_or(*sample, |(next, _)| *next);
            return Some(f64::midpoint(*sample, next));
        }
        if below > wanted {
            return Some(*sample);
        }
    }
    None
}

/// Median of values that may change their order.
fn median_of(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp).filter(|_| !odd);
    Some(lower.map_or(*upper, |lower| f64::midpoint(lower, *upper)))
}

/// A way in which a program runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// median of its samples
    pub median: f64,
    /// part of the samples
    pub share: f64,
}

/// The modes of a sample, fastest first; one entry when there is only one.
pub fn modes(samples: &[f64]) -> Vec<Mode> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|time| time.is_finite() && *time > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let mut groups = vec![sorted.as_slice()];
    while groups.len() < MODE_LIMIT {
        let Some((at, (left, right))) =
            groups.iter().enumerate().find_map(|(at, group)| split(group, sorted.len()).map(|parts| (at, parts)))
        else {
            break;
        };
        groups.splice(at..=at, [left, right]);
    }
    groups
        .into_iter()
        .filter_map(|group| Some(Mode { median: median(group)?, share: count(group.len()) / count(sorted.len()) }))
        .collect()
}

/// Splits a sorted group in two, if the parts are modes at all: at its widest gap, or where that
/// explains most of its variance.
fn split(sorted: &[f64], total: usize) -> Option<(&[f64], &[f64])> {
    if sorted.len() < 8 {
        return None;
    }
    let logs: Vec<f64> = sorted.iter().map(|time| time.ln()).collect();
    let is_mode = |at: usize| {
        let (left, right) = sorted.split_at_checked(at)?;
        let big_enough = |part: &[f64]| part.len() >= 3 && count(part.len()) >= MODE_MINIMUM_SHARE * count(total);
        let apart = median(right)? / median(left)? >= MODE_MINIMUM_RATIO;
        (apart && big_enough(left) && big_enough(right)).then_some((left, right))
    };
    widest_gap(&logs).and_then(is_mode).or_else(|| explaining_split(&logs).and_then(is_mode))
}

/// Where the widest gap of the inner samples is, if it is far wider than gaps usually are.
fn widest_gap(logs: &[f64]) -> Option<usize> {
    // The tails of any distribution have wide gaps.
    let tail = logs.len() / 10;
    let inner = logs.get(tail..logs.len() - tail)?;
    let gaps: Vec<f64> =
        inner.windows(2).map(|pair| pair.last().zip(pair.first()).map_or(0.0, |(b, a)| b - a)).collect();
    let usual = median(&gaps)?;
    let (at, widest) = gaps.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    (*widest >= (MODE_GAP * usual).max(MODE_MINIMUM_RATIO.ln())).then_some(tail + at + 1)
}

/// The split that explains most of the variance, if it explains enough.
fn explaining_split(logs: &[f64]) -> Option<usize> {
    // One sample far out must not decide what the variance is.
    let trim = logs.len() / 50;
    let logs = logs.get(trim..logs.len() - trim)?;
    let sum: f64 = logs.iter().sum();
    let mean = sum / count(logs.len());
    let variance: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
    if variance <= 0.0 {
        return None;
    }
    let mut best = (0.0, 0);
    let mut left_sum = 0.0;
    for (index, log) in logs.iter().enumerate().take(logs.len() - 1) {
        left_sum += log;
        let (left, right) = (count(index + 1), count(logs.len() - index - 1));
        let between = left * (left_sum / left - mean).powi(2) + right * ((sum - left_sum) / right - mean).powi(2);
        if between > best.0 {
            best = (between, index + 1);
        }
    }
    (best.0 / variance >= MODE_MINIMUM_EXPLAINED).then_some(best.1 + trim)
}

#[expect(clippy::cast_precision_loss, reason = "sample counts are small")]
fn count(n: usize) -> f64 {
    n as f64
}

/// A trend of values in the order they were made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// median of the last third over median of the first third
    pub change: f64,
    /// two-sided chance of such an order without a trend
    pub chance: f64,
}

/// Trend of a series by the Mann–Kendall test; `None` for a series too short to have one.
pub fn drift(series: &[f64]) -> Option<Drift> {
    if series.len() < 6 {
        return None;
    }
    let mut score = 0.0;
    for (index, early) in series.iter().enumerate() {
        for late in series.iter().skip(index + 1) {
            score += match late.total_cmp(early) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Less => -1.0,
                std::cmp::Ordering::Equal => 0.0,
            };
        }
    }
    let length = count(series.len());
    let variance = length * (length - 1.0) * (2.0 * length + 5.0) / 18.0;
    let size = ((f64::abs(score) - 1.0) / variance.sqrt()).max(0.0);
    let third = series.len() / 3;
    let first = median(series.get(..third)?)?;
    let last = median(series.get(series.len() - third..)?)?;
    Some(Drift { change: last / first, chance: 2.0 * upper_tail(size) })
}

/// Chance that a standard normal exceeds `z >= 0`, to about 1e-7 (a rational approximation).
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let polynomial =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}

/// The time slice of a scheduler, in ns, when the samples lie whole slices apart from each other; `None`
/// when they do not. Such times say how often the program waited for a processor, not only how long it
/// worked.
pub fn quantum(samples: &[f64]) -> Option<f64> {
    const SLICES_NS: [f64; 4] = [10e6, 8e6, 4e6, 1e6];
    /// Mean resultant length of the phases within a slice: 1 when all are the same, about 0 by chance.
    const CONCENTRATED: f64 = 0.8;
    /// Distance from the common phase, in slices, that counts as having it.
    const CLOSE: f64 = 0.12;
    const MOST: f64 = 0.8;
    /// Part of the samples that waited for another number of slices than most did.
    const OTHERS: f64 = 0.15;
    if samples.len() < 8 {
        return None;
    }
    let total = count(samples.len());
    SLICES_NS.into_iter().find(|slice| {
        let phase = |time: &f64| time / slice * std::f64::consts::TAU;
        let (sine, cosine) = samples
            .iter()
            .map(phase)
            .fold((0.0, 0.0), |(sine, cosine), angle: f64| (sine + angle.sin() / total, cosine + angle.cos() / total));
        if sine.hypot(cosine) < CONCENTRATED {
            return false;
        }
        let offset = sine.atan2(cosine) / std::f64::consts::TAU * slice;
        let mut multiples: BTreeMap<i64, f64> = BTreeMap::new();
        for time in samples {
            let multiple = (time - offset) / slice;
            if (multiple - multiple.round()).abs() <= CLOSE {
                #[expect(clippy::cast_possible_truncation, reason = "a small count of slices")]
                let multiple = multiple.round() as i64;
                *multiples.entry(multiple).or_insert(0.0) += 1.0;
            }
        }
        // A program may well take the same time always; only several multiples are a sign of a scheduler.
        let close: f64 = multiples.values().sum();
        let others = close - multiples.values().copied().fold(0.0, f64::max);
        close >= MOST * total && others >= (OTHERS * total).max(2.0)
    })
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::gates::benchmark::simulation::normal;

    #[test]
    fn a_block_has_the_same_weight_whatever_its_size() {
        let blocks = [vec![1.0; 100], vec![3.0; 2], vec![5.0; 2]];
        assert_eq!(weighted_quantile(blocks.iter(), 0.5), Some(3.0));
        assert_eq!(weighted_quantile(blocks.iter(), 0.1), Some(1.0));
        assert_eq!(weighted_quantile([vec![1.0], vec![2.0]].iter(), 0.5), Some(1.5));
        assert_eq!(weighted_quantile([].iter(), 0.5), None);
        assert_eq!(median_of(&mut []), None);
        assert_eq!(median_of(&mut [3.0, 1.0, 4.0]), Some(3.0));
        assert_eq!(median_of(&mut [3.0, 1.0, 4.0, 2.0]), Some(2.5));
    }

    #[test]
    fn modes_are_found_where_they_are() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut bell = |center: f64, spread: f64, count: usize| -> Vec<f64> {
            (0..count).map(|_| center * (spread * normal(&mut random)).exp()).collect()
        };
        assert_eq!(modes(&bell(10.0, 0.05, 200)).len(), 1);
        assert_eq!(modes(&bell(10.0, 0.5, 200)).len(), 1, "a wide spread is one mode");
        let mut two = bell(43.0, 0.05, 120);
        two.extend(bell(827.0, 0.05, 80));
        let found = modes(&two);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].median - 43.0).abs() < 2.0 && (found[0].share - 0.6).abs() < 1e-9, "{found:?}");
        two.extend(bell(200.0, 0.05, 100));
        assert_eq!(modes(&two).len(), 3);
        let mut outliers = bell(10.0, 0.02, 200);
        outliers.extend([90.0, 100.0, 95.0]);
        assert_eq!(modes(&outliers).len(), 1, "three outliers are no mode");
        assert_eq!(modes(&[5.0; 20]), [Mode { median: 5.0, share: 1.0 }]);
        assert_eq!(modes(&[]), []);
    }

    #[test]
    fn a_trend_is_told_from_noise() {
        let mut random = ChaCha8Rng::seed_from_u64(4);
        let warming: Vec<f64> =
            (0..12).map(|index| 10.0 + 0.3 * f64::from(index) + 0.2 * normal(&mut random)).collect();
        let found = drift(&warming).expect("long enough");
        assert!(found.chance < 0.001 && found.change > 1.15, "{found:?}");
        let noise: Vec<f64> = (0..12).map(|_| 10.0 + normal(&mut random)).collect();
        assert!(drift(&noise).expect("long enough").chance > 0.01);
        assert_eq!(drift(&[1.0, 2.0]), None);
        let flat = drift(&[1.0; 8]).expect("long enough");
        assert!((flat.chance - 1.0).abs() < 1e-6, "{flat:?}");
    }

    #[test]
    fn scheduler_slices_are_told_from_a_program_that_takes_8_ms() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let sliced: Vec<f64> =
            (0..40).map(|index| f64::from(index % 3 + 1) * 4e6 * (1.0 + 0.005 * normal(&mut random))).collect();
        assert_eq!(quantum(&sliced), Some(4e6));
        let waiting: Vec<f64> = sliced.iter().map(|time| time + 2.75e6).collect();
        assert_eq!(quantum(&waiting), Some(4e6), "the program's own time comes on top");
        let steady: Vec<f64> = (0..40).map(|_| 8e6 * (1.0 + 0.005 * normal(&mut random))).collect();
        assert_eq!(quantum(&steady), None);
        let spread: Vec<f64> = (0..40).map(|_| random.random_range(3e6..30e6)).collect();
        assert_eq!(quantum(&spread), None);
    }
}
