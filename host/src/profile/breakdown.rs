//! Where the time of a method goes, kernel by kernel, with nothing left over.
//!
//! In: a [`Profile`]. Out: a [`Breakdown`]: a row for each kernel, totals for each category, and the time that
//! belongs to no kernel as lines of their own, so that all of it adds up to the method's own time. Every number is
//! MEASURED where the profile was, but what an ideal repair could gain, which is PROJECTED from a share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::category::Category;
use super::delegation::{Figure, Instruction, InstructionKind, Profile};
use super::kernels::family_of;
use crate::evidence::{Evidence, Interval, Measured, Projected, TargetLabel};

/// All of a method's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakdown {
    /// the method from its start to its end; unit `ms`
    pub method: Evidence,
    /// delegated over delegated plus fallback time; unit `share`
    pub delegation: Evidence,
    /// traced runs behind every figure
    pub runs: u64,
    /// one for each kernel, in the order in which the method runs them
    pub rows: Vec<Row>,
    /// one for each category that has a kernel, and one without a name for kernels of no known category
    pub categories: Vec<CategoryTotal>,
    /// time in delegate calls that the delegate's own events do not explain: the boundary, buffers, and rounding
    /// of its clock, which can make it negative; unit `ms`
    pub unexplained_in_delegates: Evidence,
    /// time of the method outside of its instructions; unit `ms`
    pub between_instructions: Evidence,
    /// kernels that change a layout or copy, also counted in their rows; unit `ms`
    pub layout_conversion: Evidence,
    /// the costliest families of kernels first
    pub bottlenecks: Vec<Bottleneck>,
    /// names that are in no table of categories
    pub unknown: Vec<String>,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// as the trace names it: `Convolution (NHWC, F32) IGEMM #1`, `_softmax.out`
    pub name: String,
    /// inside a delegate
    pub delegated: bool,
    /// what it does; none for a name that is in no table
    pub category: Option<Category>,
    /// of the method
    pub instruction: i64,
    /// executions in one run of the method
    pub calls: f64,
    /// in one run of the method; unit `ms`
    pub time: Evidence,
    /// of the method's time; unit `share`
    pub share: Evidence,
}

/// All kernels of a category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CategoryTotal {
    /// none: kernels whose names are in no table
    pub category: Option<Category>,
    /// in one run of the method; unit `ms`
    pub time: Evidence,
    /// of the method's time; unit `share`
    pub share: Evidence,
    /// part of `time` outside of delegates; unit `ms`
    pub outside: Evidence,
    /// kernels in one run of the method
    pub kernels: u64,
}

/// A family of kernels that takes time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// without the number that a delegate gives each of its kernels: `Convolution (NHWC, F32) IGEMM`
    pub family: String,
    /// inside a delegate
    pub delegated: bool,
    /// what it does
    pub category: Option<Category>,
    /// how much of the time it takes
    pub impact: Impact,
    /// kernels of the family in one run
    pub kernels: u64,
    /// in one run of the method; unit `ms`
    pub time: Evidence,
    /// of the method's time; unit `share`
    pub share: Evidence,
    /// how many times as fast the method would be if these kernels took no time: 1 / (1 - share), after Amdahl; unit
    /// `ratio`
    pub at_most: Evidence,
}

/// How much of the time a family takes. The limits are ArmFit's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Impact {
    /// less than 10 %
    Low,
    /// 10 % or more
    Medium,
    /// 20 % or more
    High,
    /// 35 % or more
    VeryHigh,
}

impl Impact {
    fn of(share: f64) -> Self {
        match share {
            share if share >= 0.35 => Self::VeryHigh,
            share if share >= 0.2 => Self::High,
            share if share >= 0.1 => Self::Medium,
            _ => Self::Low,
        }
    }

    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::VeryHigh => "very high",
        }
    }
}

/// Operators of XNNPACK and kernels of ExecuTorch that only bring a tensor into another layout, or copy it.
const LAYOUT: [&str; 11] = [
    "Copy",
    "Static Transpose",
    "Transpose",
    "_clone_dim_order",
    "_to_dim_order_copy",
    "alias_copy",
    "as_strided_copy",
    "clone",
    "permute_copy",
    "t_copy",
    "transpose_copy",
];

/// A kernel with its time in one run, ns.
struct Kernel<'a> {
    name: &'a str,
    delegated: bool,
    category: Option<Category>,
    instruction: &'a Instruction,
    time: Figure,
}

impl Breakdown {
    /// Of totals in ms that somebody else added up, with how many kernels are in each; `total` is the method's own
    /// time. What is not in them stays between instructions; what nobody added up apart is not a number.
    pub fn of_totals(categories: &[(Category, f64, u64)], total: f64, target: &TargetLabel) -> Self {
        let measured = |value: f64, unit: &str| {
            Evidence::Measured(Measured {
                value,
                unit: unit.to_owned(),
                target: target.clone(),
                samples: 1,
                interval: None,
            })
        };
        let share = |ms: f64| measured(if total > 0.0 { ms / total } else { 0.0 }, "share");
        let known: f64 = categories.iter().map(|(_, ms, _)| ms).sum();
        let mut totals: Vec<CategoryTotal> = categories
            .iter()
            .map(|(category, ms, kernels)| CategoryTotal {
                category: Some(*category),
                time: measured(*ms, "ms"),
                share: share(*ms),
                outside: measured(f64::NAN, "ms"),
                kernels: *kernels,
            })
            .collect();
        totals.sort_by_key(|total| total.category);
        Self {
            method: measured(total, "ms"),
            delegation: measured(f64::NAN, "share"),
            runs: 1,
            rows: Vec::new(),
            categories: totals,
            unexplained_in_delegates: measured(f64::NAN, "ms"),
            between_instructions: measured(total - known, "ms"),
            layout_conversion: measured(f64::NAN, "ms"),
            bottlenecks: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// Where it was measured, in words.
    pub fn place(&self) -> String {
        match &self.method {
            Evidence::Measured(measured) => format!("the profile on {}", measured.target.name),
            Evidence::Projected(_) => "a profile".to_owned(),
        }
    }

    /// Sorts the time of a profile.
    pub fn of(profile: &Profile) -> Self {
        let kernels = kernels(profile);
        let label = Label { profile };
        let method = profile.method_ns.median;
        let explained: f64 = kernels.iter().filter(|kernel| kernel.delegated).map(|kernel| kernel.time.median).sum();
        let sum = |wanted: &dyn Fn(&Kernel<'_>) -> bool| -> f64 {
            kernels.iter().filter(|kernel| wanted(kernel)).map(|kernel| kernel.time.median).sum()
        };
        let categories = Category::ALL.map(Some).into_iter().chain([None]).filter_map(|category| {
            let count = kernels.iter().filter(|kernel| kernel.category == category).count() as u64;
            (count > 0).then(|| {
                let in_it = || kernels.iter().filter(|kernel| kernel.category == category).map(|kernel| kernel.time);
                let time: f64 = in_it().map(|time| time.median).sum();
                CategoryTotal {
                    category,
                    time: label.total(time, in_it().map(|time| time.interval)),
                    share: label.plain_share(time / method),
                    outside: label.time(sum(&|kernel| kernel.category == category && !kernel.delegated)),
                    kernels: count,
                }
            })
        });
        let mut unknown: Vec<String> =
            kernels.iter().filter(|kernel| kernel.category.is_none()).map(|kernel| kernel.name.to_owned()).collect();
        unknown.sort_unstable();
        unknown.dedup();
        Self {
            method: label.figure(profile.method_ns),
            delegation: Evidence::Measured(Measured {
                // Nothing ran inside or outside.
                value: if profile.accounting.instructions_ns > 0.0 { profile.delegation.median } else { f64::NAN },
                ..profile.delegation_measured()
            }),
            runs: profile.runs as u64,
            rows: kernels.iter().map(|kernel| label.row(kernel, method)).collect(),
            categories: categories.collect(),
            unexplained_in_delegates: label.time(profile.delegated_ns - explained),
            between_instructions: label.time(method - profile.accounting.instructions_ns),
            layout_conversion: label.time(sum(&|kernel| is_layout(kernel.name))),
            bottlenecks: label.bottlenecks(&kernels, method),
            unknown,
        }
    }
}

fn kernels(profile: &Profile) -> Vec<Kernel<'_>> {
    let mut kernels = Vec::new();
    for instruction in &profile.instructions {
        match &instruction.kind {
            InstructionKind::Delegate { ops } => kernels.extend(ops.iter().map(|op| Kernel {
                name: &op.name,
                delegated: true,
                category: Category::of_delegate_operator(&op.name),
                instruction,
                time: op.time_ns,
            })),
            InstructionKind::Fallback { kernel } => kernels.push(Kernel {
                name: if kernel.is_empty() { "a kernel without a name" } else { kernel },
                delegated: false,
                category: Category::of_kernel(kernel),
                instruction,
                time: instruction.time_ns,
            }),
        }
    }
    kernels
}

fn is_layout(name: &str) -> bool {
    let operator = name.split_once(" (").map_or(name, |(operator, _)| operator);
    let operator = operator.split_once('.').map_or(operator, |(operator, _)| operator);
    LAYOUT.contains(&operator)
}

/// Says of each number where it was measured.
struct Label<'a> {
    profile: &'a Profile,
}

impl Label<'_> {
    fn measured(&self, value: f64, unit: &str, interval: Option<Interval>) -> Evidence {
        Evidence::Measured(Measured {
            value,
            unit: unit.to_owned(),
            target: self.profile.target.clone(),
            samples: self.profile.runs as u64,
            interval,
        })
    }

    /// A time that is a sum of medians, and has no interval for that.
    fn time(&self, ns: f64) -> Evidence {
        self.measured(ns / 1e6, "ms", None)
    }

    /// A sum of times that vary: its interval goes from the sum of their lower ends to that of the upper ones, which
    /// is wider than need be.
    fn total(&self, ns: f64, intervals: impl Iterator<Item = Interval>) -> Evidence {
        let add = |a: Interval, b: Interval| Interval {
            low: a.low + b.low,
            high: a.high + b.high,
            confidence: a.confidence.min(b.confidence),
        };
        self.measured(ns / 1e6, "ms", intervals.reduce(add).map(|sum| scaled(sum, 1e6)))
    }

    fn plain_share(&self, share: f64) -> Evidence {
        self.measured(if share.is_finite() { share } else { 0.0 }, "share", None)
    }

    fn figure(&self, ns: Figure) -> Evidence {
        self.measured(ns.median / 1e6, "ms", Some(scaled(ns.interval, 1e6)))
    }

    fn share(&self, ns: Figure, method: f64) -> Evidence {
        let share = if method > 0.0 { ns.median / method } else { 0.0 };
        self.measured(share, "share", (method > 0.0).then(|| scaled(ns.interval, method)))
    }

    fn row(&self, kernel: &Kernel<'_>, method: f64) -> Row {
        Row {
            name: kernel.name.to_owned(),
            delegated: kernel.delegated,
            category: kernel.category,
            instruction: kernel.instruction.instruction,
            calls: kernel.instruction.calls,
            time: self.figure(kernel.time),
            share: self.share(kernel.time, method),
        }
    }

    fn bottlenecks(&self, kernels: &[Kernel<'_>], method: f64) -> Vec<Bottleneck> {
        struct Family<'a> {
            name: &'a str,
            delegated: bool,
            category: Option<Category>,
            times: Vec<Figure>,
        }

        impl Family<'_> {
            fn sum(&self, of: impl Fn(&Figure) -> f64) -> f64 {
                self.times.iter().map(of).sum()
            }
        }
        let mut families: Vec<Family<'_>> = Vec::new();
        let mut known: std::collections::HashMap<(&str, bool), usize> = std::collections::HashMap::new();
        for kernel in kernels {
            let name = if kernel.delegated { family_of(kernel.name) } else { kernel.name };
            let at = *known.entry((name, kernel.delegated)).or_insert_with(|| {
                let (delegated, category) = (kernel.delegated, kernel.category);
                families.push(Family { name, delegated, category, times: Vec::new() });
                families.len() - 1
            });
            if let Some(family) = families.get_mut(at) {
                family.times.push(kernel.time);
            }
        }
        families.sort_by(|left, right| right.sum(|time| time.median).total_cmp(&left.sum(|time| time.median)));
        let made = families.into_iter().map(|family| {
            let median = family.sum(|time| time.median);
            let share_of = |ns: f64| if method > 0.0 { (ns / method).clamp(0.0, 1.0) } else { 0.0 };
            let share = share_of(median);
            Bottleneck {
                family: family.name.to_owned(),
                delegated: family.delegated,
                category: family.category,
                impact: Impact::of(share),
                kernels: family.times.len() as u64,
                time: self.total(median, family.times.iter().map(|time| time.interval)),
                share: self.plain_share(share),
                at_most: Evidence::Projected(Projected {
                    low: 1.0 / (1.0 - share_of(family.sum(|time| time.interval.low))),
                    high: 1.0 / (1.0 - share_of(family.sum(|time| time.interval.high))),
                    unit: "ratio".to_owned(),
                    basis: format!(
                        "these kernels taking no time at all, from their times over {} traced runs",
                        self.profile.runs
                    ),
                }),
            }
        });
        made.collect()
    }
}

fn scaled(interval: Interval, by: f64) -> Interval {
    Interval { low: interval.low / by, high: interval.high / by, confidence: interval.confidence }
}

#[cfg(test)]
mod tests {
    use super::super::etdump::{Event, RunTrace, Trace};
    use super::super::profile;
    use super::*;

    fn number(evidence: &Evidence) -> f64 {
        let Evidence::Measured(measured) = evidence else { panic!("measured: {evidence:?}") };
        measured.value
    }

    fn here() -> TargetLabel {
        TargetLabel {
            kind: "local".to_owned(),
            name: "this host".to_owned(),
            architecture: "x86_64".to_owned(),
            physical_arm: false,
        }
    }

    fn event(name: &str, instruction: i64, delegate: bool, ticks: u64) -> Event {
        Event { name: name.to_owned(), delegate, instruction: Some(instruction), start: 10, end: 10 + ticks }
    }

    fn breakdown(softmax: u64) -> Breakdown {
        let run = RunTrace {
            name: "Execute".to_owned(),
            events: vec![
                event("Convolution (NHWC, F32) IGEMM #1", 0, true, 200),
                event("Transpose (ND, X32) Transpose #1", 0, true, 50),
                event("Convolution (NHWC, F32) IGEMM #2", 0, true, 100),
                event("DELEGATE_CALL", 0, false, 400),
                event("native_call__softmax.out", 1, false, softmax),
                event("OPERATOR_CALL", 1, false, softmax),
                event("native_call_mine.out", 2, false, 20),
                event("OPERATOR_CALL", 2, false, 20),
                event("Method::execute", -1, false, 440 + softmax),
            ],
        };
        let trace = Trace { runs: vec![run.clone(), run.clone(), run] };
        Breakdown::of(&profile(&trace, 1000.0, &here()).expect("profile"))
    }

    #[test]
    fn everything_adds_up_to_the_time_of_the_method() {
        let found = breakdown(540);
        let lines = [&found.unexplained_in_delegates, &found.between_instructions].map(number);
        let kernels: f64 = found.rows.iter().map(|row| number(&row.time)).sum();
        let categories: f64 = found.categories.iter().map(|total| number(&total.time)).sum();
        assert!((kernels - categories).abs() < 1e-12);
        assert!((kernels + lines.iter().sum::<f64>() - number(&found.method)).abs() < 1e-12, "{lines:?}");
        assert_eq!(lines, [0.05, 0.02], "ms of the delegate's call and of the method without a kernel");
        assert_eq!(number(&found.layout_conversion), 0.05);
    }

    #[test]
    fn families_are_ranked_and_names_that_nobody_knows_are_listed() {
        let found = breakdown(540);
        let ranked: Vec<(&str, bool, u64, Impact)> = found
            .bottlenecks
            .iter()
            .map(|bottleneck| (bottleneck.family.as_str(), bottleneck.delegated, bottleneck.kernels, bottleneck.impact))
            .collect();
        assert_eq!(
            ranked,
            [
                ("_softmax.out", false, 1, Impact::VeryHigh),
                ("Convolution (NHWC, F32) IGEMM", true, 2, Impact::High),
                ("Transpose (ND, X32) Transpose", true, 1, Impact::Low),
                ("mine.out", false, 1, Impact::Low),
            ]
        );
        let Evidence::Projected(most) = &found.bottlenecks[0].at_most else { panic!("what could be is not measured") };
        assert!((most.low - 980.0 / 440.0).abs() < 1e-9 && most.low <= most.high, "{most:?}");
        assert_eq!(found.unknown, ["mine.out"]);
        assert_eq!(found.categories.last().expect("a total").category, None);
    }

    #[test]
    fn a_method_that_takes_no_time_has_no_bottleneck() {
        let run = RunTrace { name: "Execute".to_owned(), events: vec![event("Method::execute", -1, false, 0)] };
        let found = Breakdown::of(&profile(&Trace { runs: vec![run] }, 1.0, &here()).expect("profile"));
        assert!(found.rows.is_empty() && found.categories.is_empty() && found.bottlenecks.is_empty());
        assert_eq!(number(&found.method), 0.0);
    }
}
