//! What is worth knowing about a profile: fixed rules over its numbers, each with a next step.
//!
//! In: a [`ProfileDocument`]. Out: [`ProfileInsight`]s, the weightiest first; none when nothing is worth saying.
//! [`CATALOGUE`] lists every code. To add one: a row there, a function in [`of`], and a case in the test that fires
//! it and one that does not.

use super::breakdown::{FallbackReason, ProfileDocument, ProfileInsight};
use super::figures::{self, milliseconds, percent, ratio};
use super::layout;
use crate::insight::explain;
use crate::profile::category::Category;

/// Every code and when it is said.
pub const CATALOGUE: &[(&str, &str)] = &[
    (
        "fallback-dominates",
        "kernels outside of delegates take 5 % of the time or more; the costliest with its reason and the rule made for it",
    ),
    ("layout-conversion", "kernels that only copy or change a layout take 15 % of the time or more"),
    (
        "delegate-boundaries",
        "time in delegate calls that their kernels do not explain is 10 % of the method's or more, over several calls",
    ),
    ("between-instructions", "time of the method outside of its instructions is 5 % or more"),
    ("tracer-cost", "traced runs take 20 % longer than untraced ones or more: shares of short kernels are too large"),
    ("unsteady", "the interval of the method's time is wider than 20 % of it"),
    ("unknown-kernels", "kernels of no known category take 1 % of the time or more"),
    (
        "matrix-bound",
        "convolutions and matrix products in delegates take 80 % of the time or more: no repair of the graph will gain much",
    ),
];

/// Share of the time from which fallbacks are worth a word.
const FALLBACKS: f64 = 0.05;

/// What is worth knowing.
pub fn of(document: &ProfileDocument) -> Vec<ProfileInsight> {
    let numbers = Numbers::of(document);
    if numbers.method <= 0.0 {
        return Vec::new();
    }
    let times_mean_something = document.target.kind != "qemu";
    let mut found: Vec<(f64, ProfileInsight)> = Vec::new();
    found.extend(fallbacks(document, &numbers));
    if times_mean_something {
        found.extend(layout(document, &numbers));
        found.extend(boundaries(document, &numbers));
        found.extend(between(document, &numbers));
        found.extend(tracer(document, &numbers));
        found.extend(unsteady(document, &numbers));
        found.extend(matrix_bound(document, &numbers));
    }
    found.extend(unknown(document, &numbers));
    found.sort_by(|left, right| right.0.total_cmp(&left.0));
    found.into_iter().map(|(_, insight)| insight).collect()
}

struct Numbers {
    method: f64,
    unexplained: f64,
    between: f64,
    layout: f64,
}

impl Numbers {
    fn of(document: &ProfileDocument) -> Self {
        let breakdown = &document.breakdown;
        Self {
            method: figures::number(&breakdown.method),
            unexplained: figures::number(&breakdown.unexplained_in_delegates),
            between: figures::number(&breakdown.between_instructions),
            layout: figures::number(&breakdown.layout_conversion),
        }
    }
}

fn insight(code: &str, text: String, next: Option<String>) -> ProfileInsight {
    ProfileInsight { code: code.to_owned(), text, next }
}

type Weighed = Option<(f64, ProfileInsight)>;

/// The subject as it is typed again; a recording is no model.
fn optimize(document: &ProfileDocument) -> Option<String> {
    let model =
        document.subject.ends_with(".py") || document.subject.ends_with(".pt2") || document.subject.contains(':');
    (model && document.target.kind != "recorded")
        .then(|| crate::shell::line(["delegate-doctor", "optimize", &document.subject]))
}

fn fallbacks(document: &ProfileDocument, numbers: &Numbers) -> Weighed {
    let outside = |row: &&crate::profile::breakdown::Row| !row.delegated;
    let total: f64 = document.breakdown.rows.iter().filter(outside).map(|row| figures::number(&row.time)).sum();
    let share = total / numbers.method;
    if share < FALLBACKS {
        return None;
    }
    let worst = document.breakdown.bottlenecks.iter().find(|family| !family.delegated)?;
    let worst_share = figures::number(&worst.share);
    let mut text = format!(
        "Kernels outside of delegates take {} ({}) of the time; `{}` alone takes {}",
        percent(share),
        milliseconds(total),
        layout::cut(&worst.family, 80),
        percent(worst_share)
    );
    let reason: Option<&FallbackReason> =
        document.reasons.iter().find(|reason| reason.kernel.rsplit("::").next() == Some(worst.family.as_str()));
    let lowered = document.subject.ends_with(".pte");
    let mut next = optimize(document).or_else(|| {
        lowered.then(|| "Optimize the model that it was made from: a lowered program cannot be repaired".to_owned())
    });
    if let Some(reason) = reason {
        let explained = explain(&reason.kernel, &reason.reason);
        text.push_str(&format!(". {}", explained.plain));
        match (explained.rule, explained.fix) {
            (Some(rule), _) => {
                let most = ratio(1.0 / (1.0 - worst_share.min(0.999)));
                text.push_str(&format!(". Rule {rule} is made for it, and could gain up to {most}"));
            }
            (None, Some(fix)) => next = Some(fix.to_owned()),
            (None, None) => {}
        }
    }
    Some((share, insight("fallback-dominates", text, next)))
}

fn layout(document: &ProfileDocument, numbers: &Numbers) -> Weighed {
    let share = numbers.layout / numbers.method;
    let calls = delegate_calls(document);
    (share >= 0.15).then(|| {
        let text = format!(
            "Kernels that only copy or change a layout take {} ({}) over {}: each way into and out of a delegate \
             that runs convolutions changes the layout",
            percent(share),
            milliseconds(numbers.layout),
            figures::counted(calls, "delegate call")
        );
        let next = (calls > 1)
            .then(|| "Repair the fallbacks between delegates: fewer partitions convert less often".to_owned());
        (share, insight("layout-conversion", text, next))
    })
}

fn delegate_calls(document: &ProfileDocument) -> u64 {
    let mut calls: Vec<i64> =
        document.breakdown.rows.iter().filter(|row| row.delegated).map(|row| row.instruction).collect();
    calls.dedup();
    calls.len() as u64
}

fn boundaries(document: &ProfileDocument, numbers: &Numbers) -> Weighed {
    let share = numbers.unexplained / numbers.method;
    let calls = delegate_calls(document);
    (share >= 0.1 && calls > 1).then(|| {
        let text = format!(
            "{} ({}) of the time passes in {} without a kernel of theirs: the cost of boundaries and buffers",
            percent(share),
            milliseconds(numbers.unexplained),
            figures::counted(calls, "delegate call")
        );
        (share, insight("delegate-boundaries", text, optimize(document)))
    })
}

fn between(document: &ProfileDocument, numbers: &Numbers) -> Weighed {
    let share = numbers.between / numbers.method;
    // Without kernels all time is between them.
    (share >= 0.05 && !document.breakdown.rows.is_empty()).then(|| {
        let text =
            format!("{} ({}) of the time passes between instructions", percent(share), milliseconds(numbers.between));
        let next = "Trace with fewer threads, or on a quieter machine: usually this is the tracer itself".to_owned();
        (share, insight("between-instructions", text, Some(next)))
    })
}

fn tracer(document: &ProfileDocument, numbers: &Numbers) -> Weighed {
    let untraced = figures::number(document.untraced.as_ref()?);
    let more = numbers.method / untraced - 1.0;
    (untraced > 0.0 && more >= 0.2).then(|| {
        let text = format!(
            "Traced runs take {} longer than untraced ones: shares of short kernels are too large",
            percent(more)
        );
        (more.min(1.0) / 4.0, insight("tracer-cost", text, None))
    })
}

fn unsteady(document: &ProfileDocument, numbers: &Numbers) -> Weighed {
    let interval = figures::interval(&document.breakdown.method)?;
    let width = (interval.high - interval.low) / numbers.method;
    (width > 0.2 && document.breakdown.runs > 1).then(|| {
        let text = format!("The median of the traced runs is known to {} only: the machine was busy", percent(width));
        (0.0, insight("unsteady", text, Some("Profile again on a quiet machine".to_owned())))
    })
}

fn unknown(document: &ProfileDocument, numbers: &Numbers) -> Weighed {
    let total = document.breakdown.categories.iter().find(|total| total.category.is_none())?;
    let share = figures::number(&total.time) / numbers.method;
    (share >= 0.01).then(|| {
        let text = format!(
            "{} of the time is in kernels of no known category: {}",
            percent(share),
            named(&document.breakdown.unknown)
        );
        (share / 10.0, insight("unknown-kernels", text, None))
    })
}

/// Names in words, not all of very many.
pub(super) fn named(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| layout::cut(name, 80)).collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

fn matrix_bound(document: &ProfileDocument, numbers: &Numbers) -> Weighed {
    let matrix = |category: Option<Category>| matches!(category, Some(Category::Conv2d | Category::Gemm));
    let time: f64 = document
        .breakdown
        .categories
        .iter()
        .filter(|total| matrix(total.category))
        .map(|total| figures::number(&total.time) - figures::number(&total.outside))
        .sum();
    let share = time / numbers.method;
    (share >= 0.8).then(|| {
        let text = format!(
            "Convolutions and matrix products in delegates take {} of the time: no repair of the graph will gain much",
            percent(share)
        );
        let next =
            "Quantize the model, use a smaller one, or a CPU with SME2 (`--project sme2` gives a range)".to_owned();
        (0.01, insight("matrix-bound", text, Some(next)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, Interval, Measured, TargetLabel};
    use crate::profile::{Breakdown, Event, RunTrace, Trace, profile};
    use crate::torch::protocol::Reason;

    fn target(kind: &str) -> TargetLabel {
        TargetLabel {
            kind: kind.to_owned(),
            name: "this host".to_owned(),
            architecture: "x86_64".to_owned(),
            physical_arm: false,
        }
    }

    /// A program of calls: each is a delegate's with its kernels and what it takes beside them, or a kernel's.
    enum Call<'a> {
        Delegate(&'a [(&'a str, u64)], u64),
        Kernel(&'a str, u64),
    }
    use Call::{Delegate, Kernel};

    /// The profile of three runs, the last so many ticks longer than the first; `between` is the time outside of
    /// instructions.
    fn document(calls: &[Call<'_>], between: u64, slower: u64) -> ProfileDocument {
        let run = |extra: u64| {
            let (mut events, mut now) = (Vec::new(), 0);
            let event = |name: &str, delegate: bool, instruction: i64, from: u64, to: u64| Event {
                name: name.to_owned(),
                delegate,
                instruction: Some(instruction),
                start: from,
                end: to,
            };
            for (instruction, call) in (0..).zip(calls) {
                let begin = now;
                match call {
                    Delegate(kernels, beside) => {
                        for (name, ticks) in *kernels {
                            events.push(event(name, true, instruction, now, now + ticks));
                            now += ticks;
                        }
                        now += beside;
                        events.push(event("DELEGATE_CALL", false, instruction, begin, now));
                    }
                    Kernel(name, ticks) => {
                        now += ticks;
                        events.push(event(&format!("native_call_{name}"), false, instruction, begin, now));
                        events.push(event("OPERATOR_CALL", false, instruction, begin, now));
                    }
                }
            }
            events.push(Event {
                start: 0,
                end: now + between + extra,
                name: "Method::execute".to_owned(),
                ..Event::default()
            });
            RunTrace { name: "Execute".to_owned(), events }
        };
        let trace = Trace { runs: vec![run(0), run(slower / 2), run(slower)] };
        let found = profile(&trace, 1000.0, &target("local")).expect("profile");
        ProfileDocument::of_trace("net.py".to_owned(), target("local"), Breakdown::of(&found))
    }

    fn codes(document: &ProfileDocument) -> Vec<String> {
        of(document).into_iter().map(|insight| insight.code).collect()
    }

    const CONVOLUTION: &str = "Convolution (NHWC, F32) IGEMM #1";
    const MOVE: &str = "Transpose (ND, X32) #1";
    const OTHER: &str = "Max Pooling (NHWC, F32) #1";

    #[test]
    fn a_balanced_program_leaves_nothing_to_say() {
        let calm =
            document(&[Delegate(&[(CONVOLUTION, 500), (OTHER, 450), (MOVE, 40)], 5), Kernel("mean.out", 10)], 5, 0);
        assert_eq!(codes(&calm), Vec::<String>::new());
        assert_eq!(codes(&document(&[], 0, 0)), Vec::<String>::new());
    }

    /// What fires each code of the catalogue, and the same a little below its limit, where it is silent.
    #[test]
    fn every_code_fires_where_it_should_and_only_there() {
        let base: &[(&str, u64)] = &[(CONVOLUTION, 500), (OTHER, 450)];
        let two = |beside: u64| [Delegate(base, beside / 2), Delegate(&[(OTHER, 50)], beside / 2)];
        let tracer = |untraced: f64| {
            let mut document = document(&[Delegate(base, 0)], 0, 0);
            document.untraced = Some(Evidence::Measured(Measured {
                value: untraced,
                unit: "ms".to_owned(),
                target: target("local"),
                samples: 9,
                interval: None::<Interval>,
            }));
            document
        };
        let cases: [(&str, ProfileDocument, ProfileDocument); 8] = [
            (
                "fallback-dominates",
                document(&[Delegate(base, 0), Kernel("_softmax.out", 60)], 0, 0),
                document(&[Delegate(base, 0), Kernel("_softmax.out", 40)], 0, 0),
            ),
            (
                "layout-conversion",
                document(&[Delegate(&[(CONVOLUTION, 500), (OTHER, 300), (MOVE, 160)], 0)], 0, 0),
                document(&[Delegate(&[(CONVOLUTION, 500), (OTHER, 400), (MOVE, 140)], 0)], 0, 0),
            ),
            ("delegate-boundaries", document(&two(140), 0, 0), document(&two(80), 0, 0)),
            ("between-instructions", document(&[Delegate(base, 0)], 60, 0), document(&[Delegate(base, 0)], 40, 0)),
            ("tracer-cost", tracer(0.95 / 1.25), tracer(0.95 / 1.15)),
            ("unsteady", document(&[Delegate(base, 0)], 0, 400), document(&[Delegate(base, 0)], 0, 100)),
            (
                "unknown-kernels",
                document(&[Delegate(base, 0), Kernel("mine.out", 20)], 0, 0),
                document(&[Delegate(base, 0), Kernel("mine.out", 5)], 0, 0),
            ),
            (
                "matrix-bound",
                document(&[Delegate(&[(CONVOLUTION, 820), (OTHER, 180)], 0)], 0, 0),
                document(&[Delegate(&[(CONVOLUTION, 780), (OTHER, 220)], 0)], 0, 0),
            ),
        ];
        assert_eq!(
            cases.each_ref().map(|(code, ..)| *code),
            CATALOGUE.iter().map(|(code, _)| *code).collect::<Vec<_>>()[..]
        );
        for (code, fires, silent) in &cases {
            assert!(codes(fires).iter().any(|found| found == code), "{code}: {:?}", of(fires));
            assert!(!codes(silent).iter().any(|found| found == code), "{code}: {:?}", of(silent));
        }
    }

    #[test]
    fn a_fallback_is_told_with_its_reason_its_rule_and_the_next_command() {
        let mut document = document(&[Delegate(&[(OTHER, 400)], 0), Kernel("_softmax.out", 600)], 0, 0);
        document.reasons.push(FallbackReason {
            instruction: 1,
            kernel: "aten::_softmax.out".to_owned(),
            nodes: vec!["softmax".to_owned()],
            source: None,
            module_path: String::new(),
            reason: Reason { code: "constraint".to_owned(), text: String::new(), partitioner: String::new() },
        });
        let found = of(&document);
        let first = found.first().expect("an insight");
        assert!(first.text.starts_with("Kernels outside of delegates take 60 % (0.600 ms) of the time"), "{first:?}");
        assert!(first.text.contains("Rule dd-001 is made for it, and could gain up to 2.50×"), "{first:?}");
        assert_eq!(first.next.as_deref(), Some("delegate-doctor optimize net.py"));
        document.target = target("recorded");
        assert_eq!(of(&document)[0].next, None, "nobody knows the model of a recording");
        document.target = target("qemu");
        assert_eq!(codes(&document), ["fallback-dominates"], "only what ran is told of an emulated CPU");
    }
}
