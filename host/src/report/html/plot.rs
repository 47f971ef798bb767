//! Geometry of the latency samples and of the ratio's interval, in thousandths of the plot's sides.
//!
//! The drawing is stretched to whatever room there is; dots and lines keep their thickness, and labels
//! are text beside it, so that it reads the same at every width.

use serde::Serialize;

use crate::report::figures;
use crate::report::model::{Comparison, Side};

/// Side of the plot's coordinate system.
const SIDE: f64 = 1000.0;
/// Samples drawn at most; of more, every n-th is.
const DRAWN: usize = 3000;

/// Samples of two programs in the order they were taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Samples {
    /// path data: a dot for each sample of the first program
    pub(super) before: String,
    /// the same for the second
    pub(super) after: String,
    pub(super) before_median: Level,
    pub(super) after_median: Level,
    /// path data: the borders between blocks
    pub(super) blocks: String,
    pub(super) ticks: Vec<Level>,
    /// blocks of each program and samples of each block, in words
    pub(super) about: String,
    /// so few that each may be drawn in full colour
    pub(super) few: bool,
    /// how many samples lie beyond the upper edge, in words; empty when none
    pub(super) beyond: String,
}

/// A height in the plot with its label.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Level {
    /// in thousandths from the top
    pub(super) y: f64,
    /// in per cent from the top, kept apart from the other median's
    pub(super) top: f64,
    pub(super) label: String,
}

/// The interval of a ratio on a line with the 1 marked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Strip {
    /// per cent from the left
    pub(super) low: f64,
    /// per cent
    pub(super) width: f64,
    pub(super) point: f64,
    pub(super) one: f64,
    pub(super) label: String,
}

/// Places every sample; nothing without samples.
pub(super) fn samples(comparison: &Comparison) -> Option<Samples> {
    let blocks = &comparison.blocks;
    let mut sorted: Vec<f64> =
        blocks.iter().flat_map(|block| &block.samples_ms).copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (lowest, highest) = (*sorted.first()?, *sorted.last()?);
    // A few wild samples do not flatten all the others: what lies beyond is drawn at the edge.
    let usual = sorted.get(sorted.len() * 97 / 100).copied().unwrap_or(highest);
    let medians = [&comparison.before, &comparison.after].map(figures::number);
    let top = (usual + (usual - lowest).max(usual * 0.05) * 0.35).min(highest).max(medians[0]).max(medians[1]);
    let span = (top - lowest).max(top.abs() * 1e-3).max(f64::MIN_POSITIVE);
    let (bottom, top) = (lowest - span * 0.08, top + span * 0.08);
    let height = |value: f64| SIDE * (1.0 - ((value - bottom) / (top - bottom)).clamp(0.0, 1.0));
    let slot = SIDE / count(blocks.len().max(1));
    let every = sorted.len().div_ceil(DRAWN).max(1);
    let (mut before, mut after, mut borders) = (String::new(), String::new(), String::new());
    for (number, block) in blocks.iter().enumerate() {
        let left = slot * count(number);
        if number > 0 {
            borders.push_str(&format!("M{left:.1} 0V{SIDE}"));
        }
        let path = match block.program {
            Side::Before => &mut before,
            Side::After => &mut after,
        };
        let room = count(block.samples_ms.len().max(1));
        for (at, sample) in block.samples_ms.iter().enumerate().step_by(every).filter(|(_, sample)| sample.is_finite())
        {
            let x = left + slot * (0.12 + 0.76 * (count(at) + 0.5) / room);
            path.push_str(&format!("M{x:.1} {:.1}h.01", height(*sample)));
        }
    }
    let level = |value: f64, label: String| Level { y: height(value), top: height(value) / SIDE * 100.0, label };
    let (mut before_median, mut after_median) =
        (level(medians[0], figures::milliseconds(medians[0])), level(medians[1], figures::milliseconds(medians[1])));
    keep_apart(&mut before_median, &mut after_median);
    let outside = sorted.iter().filter(|sample| **sample > top).count();
    let beyond = if outside == 0 {
        String::new()
    } else {
        let (are, reach) = (figures::samples(outside as u64), figures::milliseconds(highest));
        format!("{are} above the upper edge, up to {reach}, drawn at the edge")
    };
    let of = |side| blocks.iter().filter(|block| block.program == side).count();
    let about = format!(
        "{} and {} blocks, {} in all",
        of(Side::Before),
        of(Side::After),
        figures::samples(sorted.len() as u64)
    );
    Some(Samples {
        before,
        after,
        before_median,
        after_median,
        blocks: borders,
        ticks: ticks(bottom, top).into_iter().map(|value| level(value, figures::milliseconds(value))).collect(),
        about,
        few: sorted.len() <= 120,
        beyond,
    })
}

/// Labels less than a line apart would cover each other.
fn keep_apart(one: &mut Level, other: &mut Level) {
    const LINE: f64 = 9.0;
    let (upper, lower) = if one.top <= other.top { (one, other) } else { (other, one) };
    let missing = LINE - (lower.top - upper.top);
    if missing > 0.0 {
        upper.top -= missing / 2.0;
        lower.top += missing / 2.0;
    }
}

/// Three to six round values between two bounds.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let span = high - low;
    if !(span.is_finite() && span > 0.0) {
        return Vec::new();
    }
    let decade = 10_f64.powf((span / 4.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|step| span / step <= 5.0)
        .unwrap_or(10.0 * decade);
    let first = (low / step).ceil();
    (0..8).map(|number| (first + f64::from(number)) * step).take_while(|value| *value <= high).collect()
}

/// Places the interval of the ratio; nothing without an interval.
pub(super) fn strip(comparison: &Comparison) -> Option<Strip> {
    let interval = figures::interval(&comparison.ratio)?;
    let ratio = figures::number(&comparison.ratio);
    if ![interval.low, interval.high, ratio].iter().all(|value| value.is_finite() && *value > 0.0) {
        return None;
    }
    // Ratios are compared by factors.
    let (low, high, point) = (interval.low.ln(), interval.high.ln(), ratio.ln());
    let (left, right) = (low.min(0.0).min(point), high.max(0.0).max(point));
    let margin = ((right - left) * 0.15).max(0.02);
    let across = |value: f64| (value - left + margin) / (right - left + 2.0 * margin) * 100.0;
    Some(Strip {
        low: across(low),
        width: (across(high) - across(low)).max(0.4),
        point: across(point),
        one: across(0.0),
        label: figures::ratio(ratio),
    })
}

#[expect(clippy::cast_precision_loss, reason = "numbers of samples")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples as reports;

    fn comparison() -> Comparison {
        let report = reports::all().into_iter().map(|(_, report)| report).next().expect("a sample");
        report.overall.expect("a comparison")
    }

    #[test]
    fn every_sample_is_a_dot() {
        let comparison = comparison();
        let drawn = samples(&comparison).expect("samples");
        let dots = drawn.before.matches('M').count() + drawn.after.matches('M').count();
        assert_eq!(dots, comparison.blocks.iter().map(|block| block.samples_ms.len()).sum::<usize>());
        assert!((3..=6).contains(&drawn.ticks.len()), "{:?}", drawn.ticks);
        assert!((drawn.before_median.top - drawn.after_median.top).abs() >= 9.0);
    }

    #[test]
    fn a_wild_sample_does_not_flatten_the_others_and_is_counted() {
        let mut comparison = comparison();
        comparison.blocks[3].samples_ms[2] = 900.0;
        let drawn = samples(&comparison).expect("samples");
        assert!(drawn.beyond.starts_with("1 sample above the upper edge, up to 900 ms"), "{}", drawn.beyond);
        assert!((drawn.before_median.y - drawn.after_median.y).abs() > 300.0);
    }

    #[test]
    fn odd_samples_give_finite_coordinates_or_nothing() {
        let mut comparison = comparison();
        for values in [vec![], vec![f64::NAN], vec![0.0], vec![5.0, 5.0], vec![f64::INFINITY, 1.0]] {
            for block in &mut comparison.blocks {
                block.samples_ms.clone_from(&values);
            }
            if let Some(drawn) = samples(&comparison) {
                assert!(!format!("{drawn:?}").contains("NaN") && !format!("{drawn:?}").contains("inf"), "{drawn:?}");
            }
        }
    }

    #[test]
    fn the_one_is_always_on_the_strip() {
        let strip = strip(&comparison()).expect("an interval");
        assert!(strip.one > 0.0 && strip.one < strip.low && strip.low < strip.point);
        assert!(strip.low + strip.width < 100.0);
    }

    proptest::proptest! {
        #[test]
        fn ticks_are_few_and_inside(low in -1e6_f64..1e6, span in 1e-6_f64..1e6) {
            let ticks = ticks(low, low + span);
            proptest::prop_assert!(ticks.len() <= 6, "{ticks:?}");
            proptest::prop_assert!(ticks.iter().all(|tick| *tick >= low - span * 1e-6 && *tick <= low + span));
        }
    }
}
