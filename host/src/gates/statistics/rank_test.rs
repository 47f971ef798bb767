//! The exact test behind the benchmark gate, and the range of ratios that it leaves.
//!
//! In: a time of every block, in rounds, in the order they were made. Out: chances and ratios.

use super::{count, median_of};

/// A block in the order of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// of the program before
    pub before: bool,
    /// a time of the block, ns
    pub time: f64,
}

/// One round of the experiment: as many blocks of each program, in random order among themselves.
pub type Round = Vec<Timed>;

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
/// If it is so, then with the times of before divided by the gain every block took the time that it would
/// have taken whichever program had been drawn for it, and within a round each order of the programs was
/// equally likely to be drawn. So any figure that is computed from these times without looking at which
/// program they are of has a known distribution of its sum over the blocks of before, whatever the noise is
/// like: several modes, load from elsewhere, drift, samples that depend on each other. The figure here is the
/// rank of a block in its round, after the trend of the whole experiment was taken out.
pub fn rank_test(rounds: &[Round], gain: f64) -> Tail {
    let blind: Vec<f64> =
        rounds.iter().flatten().map(|block| if block.before { block.time / gain } else { block.time }.ln()).collect();
    let slope = trend(&blind);
    let level: Vec<f64> = blind.iter().enumerate().map(|(position, log)| log - slope * count(position)).collect();
    let mut rest = level.as_slice();
    // Chance of each sum of doubled ranks of before; doubled, so that shared ranks stay whole numbers.
    let mut distribution = vec![1.0];
    let mut observed = 0;
    for round in rounds {
        let (own, later) = rest.split_at_checked(round.len()).unwrap_or((rest, &[]));
        rest = later;
        let ranks = doubled_ranks(own);
        let of_before = round.iter().zip(&ranks).filter(|(block, _)| block.before).map(|(_, rank)| rank);
        observed += of_before.clone().sum::<usize>();
        let sums = subset_sums(&ranks, of_before.count());
        let ways: f64 = sums.iter().sum();
        let mut next = vec![0.0; distribution.len() + sums.len()];
        for (sum, count) in sums.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            for (into, chance) in next.iter_mut().skip(sum).zip(&distribution) {
                *into += chance * count / ways;
            }
        }
        distribution = next;
    }
    let greater: f64 = distribution.iter().skip(observed).sum();
    let less: f64 = distribution.iter().take(observed + 1).sum();
    Tail { greater: greater.min(1.0), less: less.min(1.0) }
}

/// What the rank test says about the ratio of before to after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioRange {
    /// the ratio at which what was seen is neither clear nor small
    pub estimate: f64,
    /// every ratio below is ruled out
    pub low: f64,
    /// every ratio above is ruled out
    pub high: f64,
}

/// The ratios that the rank test does not rule out when it may err with `low_chance` at the low end and with
/// `high_chance` at the high one, and the one in their middle. An end that so few rounds cannot rule out is 0 or infinite. `None` without a pair of blocks.
pub fn ratio_range(rounds: &[Round], low_chance: f64, high_chance: f64) -> Option<RatioRange> {
    let ratios = rounds.iter().flat_map(|round| {
        let times = |before| round.iter().filter(move |block| block.before == before).map(|block| block.time);
        times(true).flat_map(move |before| times(false).map(move |after| (before / after).ln()))
    });
    let (least, most) = ratios.fold(None, |seen: Option<(f64, f64)>, ratio| {
        Some(seen.map_or((ratio, ratio), |(least, most)| (least.min(ratio), most.max(ratio))))
    })?;
    // A trend moves pairs apart, so the ends lie somewhat beyond the extreme pairs.
    let margin = 0.01 + (most - least) / 2.0;
    let (bottom, top) = (least - margin, most + margin);
    let tail = |log: f64| rank_test(rounds, log.exp());
    let boundary = |is_low: &dyn Fn(f64) -> bool| {
        let (mut low, mut high) = (bottom, top);
        while high - low > 1e-4 {
            let middle = f64::midpoint(low, high);
            if is_low(middle) { low = middle } else { high = middle }
        }
        f64::midpoint(low, high)
    };
    let too_low = |log: f64| tail(log).greater <= low_chance;
    let too_high = |log: f64| tail(log).less <= high_chance;
    // The test moves in steps, so the ratio in the middle is that of two edges.
    let last_low = boundary(&|log| {
        let tail = tail(log);
        tail.greater < tail.less
    });
    let first_high = boundary(&|log| {
        let tail = tail(log);
        tail.greater <= tail.less
    });
    Some(RatioRange {
        estimate: f64::midpoint(last_low, first_high).exp(),
        low: if too_low(bottom) { boundary(&too_low).exp() } else { 0.0 },
        high: if too_high(top) { boundary(&|log| !too_high(log)).exp() } else { f64::INFINITY },
    })
}

/// Change from a block to the next: the median slope between any two (Theil and Sen).
fn trend(series: &[f64]) -> f64 {
    let mut slopes = Vec::with_capacity(series.len() * series.len() / 2);
    for (first, early) in series.iter().enumerate() {
        slopes.extend(series.iter().skip(first + 1).enumerate().map(|(gap, late)| (late - early) / count(gap + 1)));
    }
    median_of(&mut slopes).unwrap_or(0.0)
}

/// Twice the rank of each value; equal values share the mean of their ranks.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| other.total_cmp(value).is_lt()).count();
        let same = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
        // Ranks below+1 ..= below+same have the mean below + (same + 1) / 2.
        2 * below + same + 1
    };
    values.iter().map(rank).collect()
}

/// At index s: how many ways there are to choose `count` of the ranks with the sum s.
fn subset_sums(ranks: &[usize], count: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    let mut by_size = vec![vec![0.0; most + 1]; count + 1];
    if let Some(nothing) = by_size.first_mut().and_then(|sums| sums.first_mut()) {
        *nothing = 1.0;
    }
    for &rank in ranks {
        for size in (1..=count).rev() {
            let (smaller, larger) = by_size.split_at_mut(size);
            let (Some(smaller), Some(sums)) = (smaller.last(), larger.first_mut()) else { continue };
            for (into, ways) in sums.iter_mut().skip(rank).zip(smaller) {
                *into += ways;
            }
        }
    }
    by_size.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::gates::benchmark::simulation::normal;

    /// A round whose blocks of before have these times at these places, and after the others.
    fn round(blocks: &[(char, f64)]) -> Round {
        blocks.iter().map(|&(program, time)| Timed { before: program == 'b', time }).collect()
    }

    /// Three and three blocks in random order.
    fn drawn(random: &mut ChaCha8Rng, mut time: impl FnMut(&mut ChaCha8Rng, bool) -> f64) -> Round {
        let mut order = [true, true, true, false, false, false];
        for last in (1..order.len()).rev() {
            order.swap(last, random.random_range(0..=last));
        }
        order.into_iter().map(|before| Timed { before, time: time(random, before) }).collect()
    }

    #[test]
    fn the_rank_test_counts_orders() {
        // As much of each program early as late, so that there is no trend to take out.
        let clear = round(&[('b', 12.0), ('a', 6.0), ('b', 12.1), ('a', 6.1), ('a', 6.05), ('b', 12.05)]);
        let one = rank_test(std::slice::from_ref(&clear), 1.0);
        assert!((one.greater - 1.0 / 20.0).abs() < 1e-12, "{one:?}");
        assert!((one.less - 1.0).abs() < 1e-12, "{one:?}");
        let two = rank_test(&[clear.clone(), clear.clone()], 1.0);
        assert!((two.greater - 1.0 / 400.0).abs() < 1e-12, "{two:?}");
        let even = rank_test(&[clear], 1.99);
        assert!(even.greater > 0.3 && even.less > 0.3, "{even:?}");
        let same = rank_test(&[vec![Timed { before: true, time: 1.0 }, Timed { before: false, time: 1.0 }]], 1.0);
        assert_eq!((same.greater, same.less), (1.0, 1.0));
        assert_eq!(rank_test(&[], 1.0), Tail { greater: 1.0, less: 1.0 });
    }

    #[test]
    fn a_trend_does_not_hide_a_gain() {
        let mut random = ChaCha8Rng::seed_from_u64(6);
        let mut position = 0.0;
        let rounds: Vec<Round> = (0..2)
            .map(|_| {
                drawn(&mut random, |_, before| {
                    position += 1.0;
                    f64::exp(0.1 * position) * if before { 1.05 } else { 1.0 }
                })
            })
            .collect();
        let tail = rank_test(&rounds, 1.02);
        assert!((tail.greater - 1.0 / 400.0).abs() < 1e-12, "{tail:?}");
        let range = ratio_range(&rounds, 0.0026, 0.0026).expect("a range");
        assert!((range.estimate - 1.05).abs() < 1e-3 && range.low > 1.02, "{range:?}");
    }

    #[test]
    fn the_rank_test_keeps_its_promise_on_unchanged_programs() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut below = [0; 2];
        for _ in 0..2000 {
            // Rounds of very different level, and two modes per block.
            let rounds: Vec<Round> = (0..4)
                .map(|level| {
                    drawn(&mut random, |random, _| {
                        let mode = if random.random_range(0.0..1.0) < 0.5 { 20.0 } else { 1.0 };
                        mode * f64::from(level + 1) * (0.1 * normal(random)).exp()
                    })
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
    fn the_range_holds_the_true_ratio_as_often_as_it_says() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let (mut covered, mut off) = (0, 0.0_f64);
        for _ in 0..300 {
            let rounds: Vec<Round> = (0..4)
                .map(|_| {
                    drawn(&mut random, |random, before| {
                        let spread = if random.random_range(0.0..1.0) < 0.1 { 1.0 } else { 0.03 };
                        let latency = if before { 3.0 } else { 2.0 };
                        latency * (spread * normal(random)).exp()
                    })
                })
                .collect();
            let range = ratio_range(&rounds, 0.05, 0.05).expect("a range");
            covered += u32::from(range.low <= 1.5 && 1.5 <= range.high);
            assert!(range.low <= range.estimate && range.estimate <= range.high, "{range:?}");
            off += (range.estimate.ln() - 1.5_f64.ln()).abs() / 300.0;
        }
        // 270 are promised; three standard deviations fewer would be 254, and all would be too wide a range.
        assert!((254..299).contains(&covered), "{covered} of 300");
        assert!(off < 0.03, "{off}");
    }

    #[test]
    fn a_range_agrees_with_the_test_and_may_be_open() {
        let one = round(&[('b', 10.0), ('a', 5.0), ('b', 12.0), ('a', 6.0), ('a', 7.0), ('b', 11.0)]);
        let open = ratio_range(std::slice::from_ref(&one), 0.01, 0.01).expect("a range");
        assert_eq!((open.low, open.high), (0.0, f64::INFINITY), "20 orders rule nothing out at 1 %");
        let two = [one.clone(), one];
        let closed = ratio_range(&two, 0.01, 0.01).expect("a range");
        assert!(closed.low > 1.0 && closed.high < 3.0, "{closed:?}");
        assert!(rank_test(&two, closed.low * 0.999).greater <= 0.01);
        assert!(rank_test(&two, closed.low * 1.001).greater > 0.01);
        assert!(rank_test(&two, closed.high * 1.001).less <= 0.01);
        assert!(rank_test(&two, closed.high * 0.999).less > 0.01);
        assert_eq!(ratio_range(&[], 0.01, 0.01), None);
        assert_eq!(ratio_range(&[round(&[('b', 1.0)])], 0.01, 0.01), None);
    }
}
