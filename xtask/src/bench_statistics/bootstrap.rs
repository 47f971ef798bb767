//! The interval that the gate's own is held beside: a hierarchical bootstrap of the ratio of medians.
//!
//! Pairs of blocks are drawn with replacement, then samples within each drawn block, so that samples of one
//! process count as related. It needs no random order, but many blocks.

use delegate_doctor::evidence::Interval;
use delegate_doctor::gates::benchmark::{BenchmarkOutcome, Block};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Samples drawn from a block in one resample: enough for its median.
const DRAWN: usize = 9;
const RESAMPLES: usize = 2000;

/// The interval of the ratio of medians over all blocks of an outcome; `None` without blocks.
pub(crate) fn interval(outcome: &BenchmarkOutcome, confidence: f64, seed: u64) -> Option<Interval> {
    let pairs: Vec<(&Block, &Block)> = outcome.before.blocks.iter().zip(&outcome.after.blocks).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for _ in 0..pairs.len() {
            let (first, second) = pairs.get(below(pairs.len(), &mut random))?;
            before.extend(draw(first, &mut random));
            after.extend(draw(second, &mut random));
        }
        ratios.push(middle(&mut before)? / middle(&mut after)?);
    }
    ratios.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into a few thousand resamples"
    )]
    let tail = ((1.0 - confidence) / 2.0 * RESAMPLES as f64).floor() as usize;
    Some(Interval { low: *ratios.get(tail)?, high: *ratios.get(RESAMPLES - 1 - tail)?, confidence })
}

fn draw(block: &Block, random: &mut ChaCha8Rng) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
    (0..DRAWN)
        .filter_map(|_| block.samples_ns.get(below(block.samples_ns.len(), random)))
        .map(|&ns| ns as f64)
        .collect()
}

/// An index below `length`; the bias of at most `length` in 2^32 does not matter here.
fn below(length: usize, random: &mut ChaCha8Rng) -> usize {
    ((u64::from(random.next_u32()) * length as u64) >> 32) as usize
}

fn middle(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}
