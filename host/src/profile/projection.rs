//! What a profile may become on a CPU with SME2, as a range.
//!
//! In: a [`Breakdown`] whose times mean something. Out: a [`Projection`], all PROJECTED. The ranges are those of
//! published measurements of Arm and PyTorch on phones and Apple M4, and wide, because what SME2 gains depends on
//! shapes, types and the device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::breakdown::Breakdown;
use super::category::Category;
use crate::evidence::{Evidence, Projected};

/// Least gain of a whole model that was published for SME2: SqueezeSAM in INT8 on a phone, 556 ms to 304 ms on one
/// core ("Accelerating On-Device ML Inference with ExecuTorch and Arm SME2", pytorch.org). Products of matrices
/// gained at least as much as the whole.
const LEAST: f64 = 1.83;
/// Largest gain of products of matrices that was published: EdgeTAM's image encoder on Apple M4
/// (`analyze_etdump_csv.py` of Arm's sme-executorch-profiling; 9.27 on a phone).
const MOST: f64 = 12.33;

/// Element types in the names of XNNPACK's kernels for SME, which packs what they read.
const PACKED: [&str; 3] = ["PF32", "PF16", "PQS8"];

/// What everything may become.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Projection {
    /// the method; unit `ms`
    pub method: Evidence,
    /// how many times as fast the method may be; unit `ratio`
    pub ratio: Evidence,
    /// each category that has a kernel; unit `ms`
    pub categories: Vec<ProjectedCategory>,
}

/// What a category may become.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectedCategory {
    /// none: kernels of no known category
    pub category: Option<Category>,
    /// unit `ms`
    pub time: Evidence,
    /// of the method's time; unit `share`
    pub share: Evidence,
}

/// Least and largest factor by which a category became faster.
fn gains(category: Option<Category>) -> [f64; 2] {
    match category {
        Some(Category::Conv2d | Category::Gemm) => [LEAST, MOST],
        _ => [1.0, 1.0],
    }
}

/// The time of a part in a delegate, which SME2 is used in, and outside of one, which it does not reach.
struct Part {
    category: Option<Category>,
    inside: f64,
    outside: f64,
}

impl Projection {
    /// What a profile may become with SME2; `None` when nothing is known to become faster, because no matrix work
    /// runs in a delegate or kernels for SME ran already.
    pub fn sme2(breakdown: &Breakdown) -> Option<Self> {
        if breakdown.rows.iter().any(|row| PACKED.iter().any(|kind| row.name.contains(kind))) {
            return None;
        }
        let parts: Vec<Part> = breakdown
            .categories
            .iter()
            .map(|total| {
                // Where nobody knows what ran outside, all of it counts as inside.
                let outside = Some(value(&total.outside)).filter(|ms| ms.is_finite()).unwrap_or(0.0);
                Part { category: total.category, inside: (value(&total.time) - outside).max(0.0), outside }
            })
            .collect();
        let reached = |part: &&Part| gains(part.category)[1] > 1.0 && part.inside > 0.0;
        parts.iter().find(reached)?;
        let method = value(&breakdown.method);
        let lines = [&breakdown.unexplained_in_delegates, &breakdown.between_instructions];
        let rest: f64 = lines.map(value).into_iter().filter(|ms| ms.is_finite()).sum();
        let after = |part: &Part| {
            let [least, most] = gains(part.category);
            [part.inside / most + part.outside, part.inside / least + part.outside]
        };
        let sum = |end: usize| -> f64 {
            rest + parts.iter().map(|part| after(part).get(end).copied().unwrap_or(0.0)).sum::<f64>()
        };
        let [fastest, slowest] = [sum(0), sum(1)];
        let basis = format!(
            "{} measured here; convolutions and matrix products in the delegate {LEAST} to {MOST} times as fast, as \
             Arm and PyTorch published for SME2 (SqueezeSAM, EdgeTAM), everything else unchanged",
            breakdown.place()
        );
        let range = |low: f64, high: f64, unit: &str| {
            Evidence::Projected(Projected { low, high, unit: unit.to_owned(), basis: basis.clone() })
        };
        let categories = parts.iter().map(|part| {
            let [low, high] = after(part);
            // A part is largest when it gains least and everything else most, and smallest the other way round.
            let others = |end: usize| sum(end) - after(part).get(end).copied().unwrap_or(0.0);
            ProjectedCategory {
                category: part.category,
                time: range(low, high, "ms"),
                share: range(share(low, low + others(1)), share(high, high + others(0)), "share"),
            }
        });
        Some(Self {
            method: range(fastest, slowest, "ms"),
            ratio: range(share(method, slowest), share(method, fastest), "ratio"),
            categories: categories.collect(),
        })
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 1.0 }
}

fn value(evidence: &Evidence) -> f64 {
    match evidence {
        Evidence::Measured(measured) => measured.value,
        // Nothing is projected from a projection.
        Evidence::Projected(_) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::TargetLabel;

    fn target() -> TargetLabel {
        TargetLabel {
            kind: "local".to_owned(),
            name: "this host".to_owned(),
            architecture: "x86_64".to_owned(),
            physical_arm: false,
        }
    }

    fn ends(evidence: &Evidence) -> [f64; 2] {
        let Evidence::Projected(range) = evidence else { panic!("a projection is never measured: {evidence:?}") };
        [range.low, range.high]
    }

    #[test]
    fn only_matrix_work_in_delegates_becomes_faster() {
        let totals = [(Category::Conv2d, 60.0, 3), (Category::DataMovement, 30.0, 2)];
        let found = Projection::sme2(&Breakdown::of_totals(&totals, 100.0, &target())).expect("convolutions");
        let [fastest, slowest] = ends(&found.method);
        assert!((slowest - (60.0 / 1.83 + 40.0)).abs() < 1e-9, "{slowest}");
        assert!((fastest - (60.0 / 12.33 + 40.0)).abs() < 1e-9, "{fastest}");
        let [low, high] = ends(&found.ratio);
        assert!((low - 100.0 / slowest).abs() < 1e-12 && (high - 100.0 / fastest).abs() < 1e-12);
        let movement = found.categories.iter().find(|it| it.category == Some(Category::DataMovement)).expect("there");
        assert_eq!(ends(&movement.time), [30.0, 30.0]);
        let [low, high] = ends(&movement.share);
        assert!(low > 0.3 && low < high && high < 0.7, "its share grows: {low} {high}");
        let nothing = [(Category::DataMovement, 30.0, 2)];
        assert_eq!(Projection::sme2(&Breakdown::of_totals(&nothing, 100.0, &target())), None);
    }
}
