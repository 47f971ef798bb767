//! Statistics of latencies: the test and the interval behind the benchmark gate, modes, drift, quanta.
//!
//! In: samples of blocks, a block being one process. Out: plain figures. Everything is a pure function;
//! where chance is needed, it comes from a seed.
//!
//! Samples of one process are not independent of each other, so the block is the unit of the test, and
//! the bootstrap draws blocks before it draws samples.

use std::collections::BTreeMap;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::evidence::{Interval, median};

/// Samples drawn from a block in one resample: enough for its median, cheap for long blocks.
const DRAWN_PER_BLOCK: usize = 9;

/// Resamples behind an interval.
const RESAMPLES: usize = 2000;

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

/// One round of the experiment: as many blocks of each program, in random order among themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// a time of each block of the program before, ns
    pub before: Vec<f64>,
    /// the same of each block of the program after, ns
    pub after: Vec<f64>,
}

/// The two one-sided probabilities of a [`rank_test`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// chance of a gain this clear or clearer if the true ratio is the asked one or less
    pub greater: f64,
    /// chance of a gain this small or smaller if the true ratio is the asked one or more
    pub less: f64,
}

/// Exact test of "before is `gain` times as slow as after", stratified by round.
///
/// If it is so, then within a round each order of the blocks was equally likely to be drawn, whatever the
/// noise is like: several modes, load from elsewhere, drift from round to round. The sum of the ranks of
/// the before blocks therefore has a known distribution, and no assumption about the device enters.
pub fn rank_test(rounds: &[Round], gain: f64) -> Tail {
    // Doubled rank sums, so that shared ranks stay whole numbers.
    let mut distribution: BTreeMap<u64, f64> = BTreeMap::from([(0, 1.0)]);
    let mut observed = 0;
    for round in rounds {
        let mut all: Vec<(f64, bool)> = round.before.iter().map(|&time| (time / gain, true)).collect();
        all.extend(round.after.iter().map(|&time| (time, false)));
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ranks = doubled_ranks(&all);
        observed += all.iter().zip(&ranks).filter(|((_, before), _)| *before).map(|(_, rank)| rank).sum::<u64>();
        let sums = subset_sums(&ranks, round.before.len());
        let ways: f64 = sums.values().sum();
        let mut next = BTreeMap::new();
        for (&sum, &chance) in &distribution {
            for (&more, &count) in &sums {
                *next.entry(sum + more).or_insert(0.0) += chance * count / ways;
            }
        }
        distribution = next;
    }
    let greater: f64 = distribution.range(observed..).map(|(_, chance)| chance).sum();
    let less: f64 = distribution.range(..=observed).map(|(_, chance)| chance).sum();
    Tail { greater: greater.min(1.0), less: less.min(1.0) }
}

/// Twice the rank of each value of a sorted list; equal values share the mean of their ranks.
fn doubled_ranks(sorted: &[(f64, bool)]) -> Vec<u64> {
    let mut ranks = Vec::with_capacity(sorted.len());
    while let Some((value, _)) = sorted.get(ranks.len()) {
        let first = ranks.len();
        let same = sorted.iter().skip(first).take_while(|(other, _)| other.total_cmp(value).is_eq()).count();
        // Ranks first+1 ..= first+same have the mean first + (same + 1) / 2.
        ranks.extend(std::iter::repeat_n((2 * first + same + 1) as u64, same));
    }
    ranks
}

/// How many ways there are to choose `count` of the ranks with each sum.
fn subset_sums(ranks: &[u64], count: usize) -> BTreeMap<u64, f64> {
    let mut by_size: Vec<BTreeMap<u64, f64>> = vec![BTreeMap::new(); count + 1];
    if let Some(empty) = by_size.first_mut() {
        empty.insert(0, 1.0);
    }
    for &rank in ranks {
        for size in (1..=count).rev() {
            let smaller = by_size.get(size - 1).cloned().unwrap_or_default();
            if let Some(sums) = by_size.get_mut(size) {
                for (sum, ways) in smaller {
                    *sums.entry(sum + rank).or_insert(0.0) += ways;
                }
            }
        }
    }
    by_size.pop().unwrap_or_default()
}

/// Blocks of one before-and-after pair: all their samples, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// samples of the block of the program before
    pub before: Vec<f64>,
    /// samples of the block of the program after
    pub after: Vec<f64>,
}

/// A quantile before over the same one after, every block having the same weight. `None` without samples.
pub fn ratio_of_quantiles(pairs: &[Pair], quantile: f64) -> Option<f64> {
    let side = |pick: fn(&Pair) -> &Vec<f64>| weighted_quantile(pairs.iter().map(pick), quantile);
    Some(side(|pair| &pair.before)? / side(|pair| &pair.after)?)
}

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

/// Interval of a ratio of quantiles by a hierarchical bootstrap: pairs are drawn with replacement, then
/// samples within each drawn block. `None` when a block has no sample.
pub fn bootstrap_ratio(pairs: &[Pair], quantile: f64, confidence: f64, seed: u64) -> Option<Interval> {
    if pairs.is_empty() || pairs.iter().any(|pair| pair.before.is_empty() || pair.after.is_empty()) {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..RESAMPLES {
        before.clear();
        after.clear();
        for _ in 0..pairs.len() {
            let pair = pairs.get(below(pairs.len(), &mut random))?;
            draw(&pair.before, &mut random, &mut before);
            draw(&pair.after, &mut random, &mut after);
        }
        ratios.push(quick_quantile(&mut before, quantile)? / quick_quantile(&mut after, quantile)?);
    }
    ratios.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into a few thousand resamples"
    )]
    let below = (tail * RESAMPLES as f64).floor() as usize;
    let low = *ratios.get(below)?;
    let high = *ratios.get(RESAMPLES - 1 - below)?;
    Some(Interval { low, high, confidence })
}

/// Draws as many samples from every block, so that every block has the same weight.
fn draw(block: &[f64], random: &mut ChaCha8Rng, into: &mut Vec<f64>) {
    if block.len() == 1 {
        into.extend(std::iter::repeat_n(block.first().copied().unwrap_or_default(), DRAWN_PER_BLOCK));
        return;
    }
    for _ in 0..DRAWN_PER_BLOCK {
        into.extend(block.get(below(block.len(), random)));
    }
}

/// An index below `length`; the bias of at most `length` in 2^32 does not matter here.
fn below(length: usize, random: &mut ChaCha8Rng) -> usize {
    ((u64::from(random.next_u32()) * length as u64) >> 32) as usize
}

fn quick_quantile(samples: &mut [f64], quantile: f64) -> Option<f64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index into the samples")]
    let wanted = (quantile * count(samples.len())).floor() as usize;
    if samples.is_empty() {
        return None;
    }
    let wanted = wanted.min(samples.len() - 1);
    Some(*samples.select_nth_unstable_by(wanted, f64::total_cmp).1)
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
    use rand::RngExt as _;

    use super::*;

    fn round(before: &[f64], after: &[f64]) -> Round {
        Round { before: before.to_vec(), after: after.to_vec() }
    }

    fn normal(random: &mut ChaCha8Rng) -> f64 {
        let u: f64 = random.random_range(f64::EPSILON..1.0);
        let v: f64 = random.random_range(0.0..1.0);
        (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
    }

    #[test]
    fn the_rank_test_counts_orders() {
        let clear = round(&[10.0, 11.0, 12.0], &[5.0, 6.0, 7.0]);
        let one = rank_test(std::slice::from_ref(&clear), 1.0);
        assert!((one.greater - 1.0 / 20.0).abs() < 1e-12, "{one:?}");
        assert!((one.less - 1.0).abs() < 1e-12, "{one:?}");
        let two = rank_test(&[clear.clone(), clear.clone()], 1.0);
        assert!((two.greater - 1.0 / 400.0).abs() < 1e-12, "{two:?}");
        // At a gain of 2 the first and the third value of each side change places with the others.
        let even = rank_test(&[clear], 2.0);
        assert!(even.greater > 0.3 && even.less > 0.3, "{even:?}");
        let same = rank_test(&[round(&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0])], 1.0);
        assert_eq!((same.greater, same.less), (1.0, 1.0));
        assert_eq!(rank_test(&[], 1.0), Tail { greater: 1.0, less: 1.0 });
    }

    #[test]
    fn the_rank_test_keeps_its_promise_on_unchanged_programs() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut below = [0; 2];
        for _ in 0..2000 {
            // Rounds of very different level, and two modes per block.
            let rounds: Vec<Round> = (0..4)
                .map(|level| {
                    let mut block = || {
                        let mode = if random.random_range(0.0..1.0) < 0.5 { 20.0 } else { 1.0 };
                        mode * f64::from(level + 1) * (1.0 + 0.1 * normal(&mut random))
                    };
                    round(&[block(), block(), block()], &[block(), block(), block()])
                })
                .collect();
            let tail = rank_test(&rounds, 1.0);
            below[0] += usize::from(tail.greater <= 0.05);
            below[1] += usize::from(tail.greater <= 0.01);
        }
        // 100 and 20 are expected at most; five standard deviations more would be 149 and 42.
        assert!(below[0] <= 149 && below[1] <= 42, "{below:?}");
        assert!(below[0] > 40, "the test is not blind: {below:?}");
    }

    #[test]
    fn the_bootstrap_interval_covers_the_true_ratio() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let mut covered = 0;
        for seed in 0..100 {
            let pairs: Vec<Pair> = (0..12)
                .map(|_| {
                    let mut block = |latency: f64| {
                        let level = latency * (0.05 * normal(&mut random)).exp();
                        (0..20).map(|_| level * (0.02 * normal(&mut random)).exp()).collect::<Vec<f64>>()
                    };
                    Pair { before: block(3.0), after: block(2.0) }
                })
                .collect();
            let interval = bootstrap_ratio(&pairs, 0.5, 0.95, seed).expect("interval");
            covered += u32::from(interval.low <= 1.5 && 1.5 <= interval.high);
            let point = ratio_of_quantiles(&pairs, 0.5).expect("ratio");
            assert!(interval.low <= point && point <= interval.high);
        }
        // A percentile bootstrap of 12 pairs covers a little less than it says.
        assert!(covered >= 85, "{covered} of 100");
    }

    #[test]
    fn a_block_has_the_same_weight_whatever_its_size() {
        let blocks = [vec![1.0; 100], vec![3.0; 2], vec![5.0; 2]];
        assert_eq!(weighted_quantile(blocks.iter(), 0.5), Some(3.0));
        assert_eq!(weighted_quantile(blocks.iter(), 0.1), Some(1.0));
        assert_eq!(weighted_quantile([vec![1.0], vec![2.0]].iter(), 0.5), Some(1.5));
        assert_eq!(weighted_quantile([].iter(), 0.5), None);
        assert_eq!(bootstrap_ratio(&[Pair { before: vec![1.0], after: vec![] }], 0.5, 0.9, 0), None);
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
