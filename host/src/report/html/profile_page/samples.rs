//! Profiles that could have been, for the tests of their pages; committed as `tests/fixtures/profiles/v1/*.json`.

use crate::evidence::TargetLabel;
use crate::profile::{Breakdown, Event, RunTrace, Trace, profile};
use crate::report::breakdown::{FallbackReason, InstructionModule, ProfileDocument, ProfileInsight, chrome_trace};
use crate::report::timeline::{self, Span};
use crate::torch::protocol::{Reason, SourceLine};

/// What a model's author must not be able to bring into a page.
pub(in crate::report) const HOSTILE: &str =
    "<script>document.title='owned'</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[31m\"'`</title>--><!--";

/// A sample with its file name and one run of it.
pub(in crate::report) type Sample = (&'static str, ProfileDocument, Vec<Span>);

/// Every sample.
pub(in crate::report) fn all() -> Vec<Sample> {
    vec![segmenter(), repaired(), emulated(), hostile(), empty()]
}

fn target(kind: &str, name: &str) -> TargetLabel {
    TargetLabel {
        kind: kind.to_owned(),
        name: name.to_owned(),
        architecture: if kind == "qemu" { "aarch64" } else { "x86_64" }.to_owned(),
        physical_arm: false,
    }
}

fn here() -> TargetLabel {
    target("local", "this host (x86-64, not Arm)")
}

/// An instruction: kernels in a delegate with their times in µs, or one kernel outside.
enum Step<'a> {
    Delegate(Vec<(String, u64)>),
    Outside(&'a str, u64),
}

fn trace(steps: &[Step<'_>]) -> Trace {
    let run = |number: u64| {
        let mut events = Vec::new();
        let (begin, mut now) = (1000, 1000);
        let longer = |ticks: u64| ticks + ticks * number / 100;
        for (at, step) in (0_i64..).zip(steps) {
            let start = now;
            let event = |name: &str, delegate, start, end| Event {
                name: name.to_owned(),
                delegate,
                instruction: Some(at),
                start,
                end,
            };
            let name = match step {
                Step::Delegate(kernels) => {
                    for (name, ticks) in kernels {
                        events.push(event(name, true, now, now + longer(*ticks)));
                        now += longer(*ticks);
                    }
                    now += 40;
                    "DELEGATE_CALL"
                }
                Step::Outside(name, ticks) => {
                    now += longer(*ticks);
                    events.push(event(&format!("native_call_{name}"), false, start, now));
                    "OPERATOR_CALL"
                }
            };
            events.push(event(name, false, start, now));
            now += 5;
        }
        let method =
            Event { name: "Method::execute".to_owned(), delegate: false, instruction: None, start: begin, end: now };
        events.push(method);
        RunTrace { name: "Execute".to_owned(), events }
    };
    Trace { runs: (0..5).map(run).collect() }
}

fn sample(name: &'static str, subject: &str, target: &TargetLabel, steps: &[Step<'_>]) -> Sample {
    let trace = trace(steps);
    let breakdown = Breakdown::of(&profile(&trace, 1000.0, target).expect("profile"));
    let document = ProfileDocument::of_trace(subject.to_owned(), target.clone(), breakdown);
    let spans = timeline::spans(&chrome_trace(&trace, 1000.0, target));
    (name, document, spans)
}

fn convolutions(first: u64, count: u64, ticks: u64) -> Vec<(String, u64)> {
    let one = |at: u64| {
        let number = first + at;
        match number % 4 {
            0 => (format!("Depthwise Convolution 2D (NHWC, F32) DWConv #{number}"), ticks / 2 + at),
            1 => (format!("Clamp (NC, F32) #{number}"), ticks / 5),
            2 => (format!("Add (ND, F32) #{number}"), ticks / 6),
            _ => (format!("Convolution (NHWC, F32) IGEMM #{number}"), ticks + 9 * at),
        }
    };
    (0..count).map(one).collect()
}

fn steps(softmax: Option<u64>) -> Vec<Step<'static>> {
    let mut head = convolutions(40, 9, 700);
    head.push(("Transpose (ND, X32) Transpose #49".to_owned(), 420));
    let mut steps = vec![
        Step::Delegate(convolutions(0, 30, 900)),
        Step::Outside("_adaptive_avg_pool2d.out", 610),
        Step::Delegate(head),
        Step::Outside("alias_copy.out", 120),
    ];
    match softmax {
        Some(ticks) => steps.push(Step::Outside("_softmax.out", ticks)),
        None => steps.push(Step::Delegate(vec![("Softmax (NC, F32) #50".to_owned(), 800)])),
    }
    steps.push(Step::Outside("mine.out", 90));
    steps
}

fn modules(paths: &[&str]) -> Vec<InstructionModule> {
    let one = |(instruction, path): (i64, &&str)| InstructionModule {
        instruction,
        module_path: (*path).to_owned(),
        nodes: 3,
    };
    (0_i64..).zip(paths).map(one).collect()
}

fn reason(instruction: i64, kernel: &str, text: &str) -> FallbackReason {
    FallbackReason {
        instruction,
        kernel: kernel.to_owned(),
        nodes: vec!["softmax".to_owned()],
        source: Some(SourceLine {
            file: "examples/segmenter.py".to_owned(),
            line: 41,
            function: "forward".to_owned(),
            text: "return self.head(x).softmax(dim=1)".to_owned(),
        }),
        module_path: "head.activation".to_owned(),
        reason: Reason {
            code: "constraint".to_owned(),
            text: text.to_owned(),
            partitioner: "dim must be the last".to_owned(),
        },
    }
}

fn segmenter() -> Sample {
    let (name, mut document, spans) = sample("segmenter", "examples/segmenter.py", &here(), &steps(Some(19_100)));
    document.threads = Some(2);
    document.untraced = Some(document.breakdown.method.clone());
    document.program_bytes = Some(95_312_000);
    document.modules =
        modules(&["encoder.layers", "decoder.psp.pool", "decoder", "decoder.psp.slice", "head.activation", ""]);
    document.reasons = vec![
        reason(1, "aten::_adaptive_avg_pool2d.out", "XNNPACK has no adaptive pooling to more than one cell"),
        reason(4, "aten::_softmax.out", "XNNPACK has a softmax over the last dimension only"),
    ];
    document.insights = vec![ProfileInsight {
        code: "outside-dominates".to_owned(),
        text: "`aten::_softmax.out` takes 44 % of the time, outside of the delegate".to_owned(),
        next: Some("Run `delegate-doctor optimize examples/segmenter.py`".to_owned()),
    }];
    (name, document, spans)
}

fn repaired() -> Sample {
    let (name, mut document, spans) = sample("repaired", "runs/1/optimized.pte", &here(), &steps(None));
    document.threads = Some(2);
    document.untraced = Some(document.breakdown.method.clone());
    (name, document, spans)
}

fn emulated() -> Sample {
    let target = target("qemu", "qemu:max (emulated, no latency)");
    sample("emulated", "examples/segmenter.py", &target, &steps(Some(2_000)))
}

fn hostile() -> Sample {
    let target = target("local", HOSTILE);
    let steps =
        [Step::Delegate(vec![(format!("{HOSTILE} #1"), 500), ("x".repeat(400), 300)]), Step::Outside(HOSTILE, 700)];
    let (name, mut document, spans) = sample("hostile", HOSTILE, &target, &steps);
    document.modules = modules(&[HOSTILE, "a.b"]);
    document.reasons = vec![reason(1, HOSTILE, HOSTILE)];
    for source in document.reasons.iter_mut().filter_map(|reason| reason.source.as_mut()) {
        source.file = HOSTILE.to_owned();
        source.text = "y".repeat(300);
    }
    document.insights =
        vec![ProfileInsight { code: HOSTILE.to_owned(), text: HOSTILE.to_owned(), next: Some(HOSTILE.to_owned()) }];
    (name, document, spans)
}

fn empty() -> Sample {
    let (name, document, _) = sample("empty", "nothing.py", &here(), &[]);
    (name, document, Vec::new())
}
