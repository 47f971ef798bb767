//! Reports of runs that could have been, for the tests of every view.
//!
//! They are also committed as `tests/fixtures/reports/v1/*.json`: what version 1 looked like, for as long
//! as it is to be read.

mod parts;

use self::parts::*;
use super::model::*;
use crate::evidence::{Evidence, Projected};
use crate::gates::{Gate, GateStatus};

/// Every sample with its file name.
pub(crate) fn all() -> Vec<(&'static str, Report)> {
    vec![
        ("accepted", accepted()),
        ("rejected", rejected()),
        ("nothing-to-do", nothing_to_do()),
        ("original-wrong", original_wrong()),
        ("inconclusive", inconclusive()),
        ("lowering-unsupported", lowering_unsupported()),
        ("hostile", hostile()),
    ]
}

fn accepted() -> Report {
    let mut report = base("PSPNet (ResNet-50)", "examples/segmenter.py");
    report.verdict = Verdict {
        status: Status::RepairsAccepted,
        gate: None,
        headline: "Two repairs pass every gate and make the model about twice as fast on this host".into(),
        next_steps: vec![
            step("Use the repaired program", Some("cp runs/001/optimized.pte app/models/")),
            step("See why anything is still outside the delegate", Some("delegate-doctor explain runs/001")),
        ],
    };
    let aliases = || {
        (0..4)
            .map(|n| {
                alias_node(n, vec![matched(alias_rule()), declined_by(softmax_rule(), "other-op", "not a softmax")])
            })
            .collect()
    };
    report.original = Some(profile(
        0.452,
        38.42,
        6,
        vec![
            hotspot(
                "aten::_softmax.out",
                0.497,
                19.1,
                vec![softmax_node(vec![
                    matched(softmax_rule()),
                    declined_by(pool_rule(), "other-op", "not a pooling"),
                ])],
            ),
            hotspot("aten::alias_copy.out", 0.036, 1.38, aliases()),
            hotspot("aten::_adaptive_avg_pool2d.out", 0.015, 0.58, vec![pool_node(2)]),
        ],
    ));
    report.repaired = Some(profile(
        0.9914,
        19.55,
        2,
        vec![hotspot("aten::_adaptive_avg_pool2d.out", 0.0086, 0.17, vec![pool_node(2)])],
    ));
    report.overall = Some(comparison(38.42, 19.55, 0.22, (1.93, 2.01)));
    report.trials = vec![
        Trial {
            round: 1,
            rule: softmax_rule(),
            sites: vec![Site {
                node: "softmax".into(),
                op: "aten.softmax.int".into(),
                source: softmax_node(Vec::new()).source,
                module_path: "segmentation_head.2.activation".into(),
            }],
            why:
                "XNNPACK has a softmax over the last dimension only. Seen as 1×21×65536, the channels can be moved to \
                  the end and back without changing a bit of the result"
                    .into(),
            outcome: TrialOutcome::Accepted,
            gate: None,
            reason: "All six gates passed".into(),
            diagrams: vec![softmax_diagram()],
            gates: gates(Gate::Benchmark, GateStatus::Pass, "The whole interval of the ratio is above 1"),
            benchmark: Some(comparison(38.42, 20.74, 0.24, (1.81, 1.89))),
            delegation_before: Some(share(0.452)),
            delegation_after: Some(share(0.943)),
            seconds: 74.6,
        },
        Trial {
            round: 2,
            rule: alias_rule(),
            sites: (0..4)
                .map(|n| Site {
                    node: format!("slice_{n}"),
                    op: "aten.alias.default".into(),
                    source: alias_node(n, Vec::new()).source,
                    module_path: "decoder.psp".into(),
                })
                .collect(),
            why: "These slices take everything; nothing writes to either side afterwards".into(),
            outcome: TrialOutcome::Accepted,
            gate: None,
            reason: "All six gates passed".into(),
            diagrams: vec![alias_diagram()],
            gates: gates(Gate::Benchmark, GateStatus::Pass, "The whole interval of the ratio is above 1"),
            benchmark: Some(comparison(20.74, 19.55, 0.2, (1.03, 1.09))),
            delegation_before: Some(share(0.943)),
            delegation_after: Some(share(0.9914)),
            seconds: 69.3,
        },
    ];
    report.declined = vec![Declined {
        round: 1,
        rule: pool_rule(),
        site: Site {
            node: "adaptive_avg_pool2d_2".into(),
            op: "aten.adaptive_avg_pool2d.default".into(),
            source: pool_node(2).source,
            module_path: "decoder.psp.blocks.2.pool.0".into(),
        },
        code: "windows-differ".into(),
        message: "the output size 3 does not divide the input size 32, so that the windows overlap".into(),
    }];
    report.search.rounds = 3;
    report.stages.extend([
        stage("match", Some(1), 0.04, None),
        stage("gates", Some(1), 36.1, None),
        stage("benchmark", Some(1), 38.5, None),
        stage("match", Some(2), 0.03, None),
        stage("gates", Some(2), 30.8, None),
        stage("benchmark", Some(2), 38.5, None),
        stage("profile", Some(3), 6.1, None),
        stage("overall benchmark", None, 38.4, None),
    ]);
    if let Some(lower) = report.stages.get_mut(2) {
        lower.reused = Some("lowering of the unchanged original".into());
        lower.seconds = 0.2;
    }
    report.artifacts.insert(
        0,
        Artifact {
            path: "optimized.pte".into(),
            what: "the repaired program, lowered".into(),
            sha256: "c2d0ac13be3b5b4c2f1b5dc5d8c1e8a0b9a4b3a0d0fd6bfcc35ac1d3c59f6d1b".into(),
            bytes: 95_310_112,
        },
    );
    report
}

fn rejected() -> Report {
    let mut report = base("Upsampler", "models/upsampler.py");
    report.verdict = Verdict {
        status: Status::RepairRejected,
        gate: Some(Gate::Benchmark),
        headline: "The only repair is exact, and slower: it was not kept".into(),
        next_steps: vec![step("See what was tried", Some("delegate-doctor explain runs/004 --rule dd-101"))],
    };
    let nearest = HotspotNode {
        node: "upsample_nearest2d".into(),
        op: "aten.upsample_nearest2d.vec".into(),
        shape: "float32 1×64×128×128".into(),
        share: Some(share(0.36)),
        source: Some(line(
            "models/upsampler.py",
            18,
            "forward",
            "x = F.interpolate(x, scale_factor=2, mode=\"nearest\")",
        )),
        module_path: "up1".into(),
        reason: reason("no-config", "The partitioner has no entry for upsample_nearest2d", ""),
        rules: vec![matched(rule("dd-101", "Nearest upsampling as a transposed convolution", RuleClass::Exact))],
    };
    report.original = Some(profile(
        0.64,
        3.266,
        3,
        vec![hotspot("aten::upsample_nearest2d.vec_out", 0.36, 1.18, vec![nearest.clone()])],
    ));
    report.trials = vec![Trial {
        round: 1,
        rule: rule("dd-101", "Nearest upsampling as a transposed convolution", RuleClass::Exact),
        sites: vec![Site {
            node: nearest.node.clone(),
            op: "aten.upsample_nearest2d.vec".into(),
            source: nearest.source,
            module_path: "up1".into(),
        }],
        why: "A depthwise transposed convolution with a kernel of ones repeats every pixel".into(),
        outcome: TrialOutcome::Rejected,
        gate: Some(Gate::Benchmark),
        reason: "The repaired program is slower: the whole interval of the ratio is below 1".into(),
        diagrams: vec![Diagram {
            title: nearest.node,
            sites: 1,
            before: chain(vec![
                node("i", "relu_2", "", "float32 1×64×64×64", NodeRole::Input, None),
                node(
                    "a",
                    "aten.upsample_nearest2d.vec",
                    "scale_factors=[2.0, 2.0]",
                    "float32 1×64×128×128",
                    NodeRole::Removed,
                    Some(Placement::Fallback),
                ),
                node("o", "conv2d_3", "", "", NodeRole::Output, None),
            ]),
            after: Subgraph {
                nodes: vec![
                    node("i", "relu_2", "", "float32 1×64×64×64", NodeRole::Input, None),
                    node("w", "constant", "ones", "float32 64×1×2×2", NodeRole::Constant, None),
                    node(
                        "b",
                        "aten.conv_transpose2d.input",
                        "stride=[2, 2], groups=64",
                        "float32 1×64×128×128",
                        NodeRole::Added,
                        Some(Placement::Delegated),
                    ),
                    node("o", "conv2d_3", "", "", NodeRole::Output, None),
                ],
                edges: [("i", "b"), ("w", "b"), ("b", "o")]
                    .map(|(from, to)| DiagramEdge { from: from.into(), to: to.into() })
                    .to_vec(),
            },
        }],
        gates: gates(Gate::Benchmark, GateStatus::Fail, "Slower: 0.30×, and the whole interval is below 1"),
        benchmark: Some(Comparison {
            notes: vec![
                "The repaired program has one mode, the original two (3.2 ms and 4.1 ms); 12 blocks were added".into(),
            ],
            ..comparison(3.266, 10.738, 0.5, (0.28, 0.33))
        }),
        delegation_before: Some(share(0.64)),
        delegation_after: Some(share(1.0)),
        seconds: 58.0,
    }];
    report.findings = vec![Finding {
        code: FindingCode::UnstableLatency,
        severity: Severity::Warning,
        title: "The original runs in two modes".into(),
        text: "About every third process ran 28 % slower from its first to its last sample. The comparison took more \
               blocks, and its interval covers both modes."
            .into(),
        mismatches: Vec::new(),
        facts: vec![fact("modes", "3.2 ms and 4.1 ms", TARGET)],
        steps: vec![step("Close other programs and run again", None)],
    }];
    report
}

fn nothing_to_do() -> Report {
    let mut report = base("MobileNetV2", "torchvision.models:mobilenet_v2");
    report.verdict = Verdict {
        status: Status::NoRepairRequired,
        gate: None,
        headline: "Everything that takes time already runs in XNNPACK: there is nothing to repair".into(),
        next_steps: Vec::new(),
    };
    report.original = Some(profile(0.99973, 8.71, 1, Vec::new()));
    report
}

fn original_wrong() -> Report {
    let mut report = base("softmax_w_after_conv", "cases/softmax_w_after_conv.py");
    report.verdict = Verdict {
        status: Status::NoRepairRequired,
        gate: None,
        headline: "Everything runs in XNNPACK, but the lowered program computes something else than the model".into(),
        next_steps: vec![step("Do not ship the program before its results are right", None)],
    };
    report.findings = vec![
        Finding {
            code: FindingCode::OriginalIsWrong,
            severity: Severity::Alarm,
            title: "The lowered model gives wrong results".into(),
            text: "On this target the original `.pte` disagrees with eager PyTorch far beyond rounding. No repair caused \
                   this: it is how ExecuTorch 1.5.1 lowers the model.\nA softmax over the last dimension of a 4-D tensor \
                   after a convolution is computed over the channels."
                .into(),
            mismatches: vec![
                Mismatch {
                    output: "softmax".into(),
                    input_set: "your inputs".into(),
                    error: measured(0.2214, "", 1, None),
                    scale: measured(0.118, "", 6, None),
                    allowed: measured(1.2e-5, "", 6, None),
                },
                Mismatch {
                    output: "softmax".into(),
                    input_set: "large magnitudes".into(),
                    error: measured(f64::INFINITY, "", 1, None),
                    scale: measured(0.31, "", 6, None),
                    allowed: measured(3.1e-5, "", 6, None),
                },
            ],
            facts: Vec::new(),
            steps: vec![step("Reshape to 3-D before the softmax", None), step("Report it to ExecuTorch with the run folder", None)],
        },
        Finding {
            code: FindingCode::ToolchainWarning,
            severity: Severity::Note,
            title: "torch warned while exporting".into(),
            text: "UserWarning: the given buffer is not writable".into(),
            mismatches: Vec::new(),
            facts: Vec::new(),
            steps: Vec::new(),
        },
    ];
    report.original = Some(profile(1.0, 0.612, 1, Vec::new()));
    report
}

fn inconclusive() -> Report {
    let mut report = base("Inception v3", "torchvision.models:inception_v3");
    report.verdict = Verdict {
        status: Status::Inconclusive,
        gate: Some(Gate::HostCorrectness),
        headline: "A repair looks much faster, but this model's outputs cannot show whether it is right".into(),
        next_steps: vec![step("Use trained weights, or set a seed that reacts to inputs", None)],
    };
    report.findings = vec![Finding {
        code: FindingCode::InsensitiveModel,
        severity: Severity::Warning,
        title: "The outputs hardly react to the inputs".into(),
        text: "With these weights another random input changes the output by 3.7e-9. Any repair would pass a comparison of \
               outputs, so that it proves nothing here."
            .into(),
        mismatches: Vec::new(),
        facts: vec![fact("largest change of output 0 over 6 input sets", "3.7e-9", EAGER)],
        steps: Vec::new(),
    }];
    let pools = |count: u32| {
        (0..count)
            .map(|number| HotspotNode {
                node: format!("avg_pool2d_{number}"),
                op: "aten.avg_pool2d.default".into(),
                shape: "float32 1×192×35×35".into(),
                share: Some(share(0.0864)),
                source: Some(line(
                    "torchvision/models/inception.py",
                    198,
                    "_forward",
                    "branch_pool = F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)",
                )),
                module_path: format!("Mixed_5{}", char::from(b'b' + u8::try_from(number).unwrap_or(0))),
                reason: reason(
                    "constraint",
                    "XNNPACK does not count padded zeros in an average",
                    "zero-padding in the averaging calculation is not supported",
                ),
                rules: vec![matched(pool_rule())],
            })
            .collect::<Vec<_>>()
    };
    report.original = Some(profile(0.2224, 342.0, 10, vec![hotspot("aten::avg_pool2d.out", 0.7776, 266.0, pools(9))]));
    report.trials = vec![Trial {
        round: 1,
        rule: pool_rule(),
        sites: pools(9)
            .into_iter()
            .map(|node| Site { node: node.node, op: node.op, source: node.source, module_path: node.module_path })
            .collect(),
        why: "Padding with zeros first and pooling without padding gives the same windows and the same divisor".into(),
        outcome: TrialOutcome::Inconclusive,
        gate: Some(Gate::HostCorrectness),
        reason: "The outputs hardly react to the inputs, and the rule is not exact".into(),
        diagrams: Vec::new(),
        gates: gates(
            Gate::HostCorrectness,
            GateStatus::Inconclusive,
            "The outputs agree, but they would agree whatever the repair did",
        ),
        benchmark: None,
        delegation_before: Some(share(0.2224)),
        delegation_after: Some(Evidence::Projected(Projected {
            low: 0.98,
            high: 1.0,
            unit: "share".into(),
            basis: "the lowered program, which was not run".into(),
        })),
        seconds: 31.0,
    }];
    report
}

fn lowering_unsupported() -> Report {
    let mut report = base("Tacotron (decoder)", "models/tacotron.py");
    report.verdict = Verdict {
        status: Status::LoweringUnsupported,
        gate: None,
        headline: "ExecuTorch cannot lower this model: an operator has no kernel and no decomposition".into(),
        next_steps: vec![step("See the worker's log", Some("less runs/009/worker.log"))],
    };
    report.findings = vec![Finding {
        code: FindingCode::Other,
        severity: Severity::Alarm,
        title: "Missing out variant for aten::_thnn_fused_lstm_cell".into(),
        text: "RuntimeError: Missing out variants: {'aten::_thnn_fused_lstm_cell'}\n  while lowering `lstm_cell`"
            .into(),
        mismatches: Vec::new(),
        facts: Vec::new(),
        steps: Vec::new(),
    }];
    report.search.rounds = 0;
    report.search.stop_code = "not-started".into();
    report.search.stop_reason = "The model could not be lowered".into();
    report.stages.truncate(3);
    report.artifacts.clear();
    report
}

/// A string that tries everything: markup, quotes, templates, terminal control, hidden and turned text.
pub(super) const HOSTILE: &str = "</script><script>document.title='owned'</script>\"'`<img src=x onerror=alert(1)>{{ 7*7 }}&amp;\u{1b}[2J\u{202e}\u{200b}<!--";

/// A report in which every string from outside is [`HOSTILE`].
fn hostile() -> Report {
    let mut value = serde_json::to_value(with_everything()).expect("a report is JSON");
    poison(&mut value, "");
    serde_json::from_value(value).expect("still a report")
}

/// The accepted run with the findings of the others.
fn with_everything() -> Report {
    let mut report = accepted();
    for other in [rejected(), original_wrong(), inconclusive()] {
        report.findings.extend(other.findings);
        report.trials.extend(other.trials);
    }
    layer_norms(&mut report);
    report
}

fn layer_norms(report: &mut Report) {
    if let Some(original) = &mut report.original {
        original.hotspots.push(hotspot(
            "aten::native_layer_norm.out",
            0.0026,
            0.09,
            (0..2).map(layer_norm_node).collect(),
        ));
    }
}

/// Replaces every string that is not an enum's or an edge's by the hostile one.
fn poison(value: &mut serde_json::Value, key: &str) {
    const FIXED: &[&str] = &[
        "schema",
        "status",
        "statistic",
        "gate",
        "severity",
        "class",
        "outcome",
        "evidence",
        "role",
        "placement",
        "program",
        "id",
        "from",
        "to",
        "unit",
        "kind",
        "architecture",
        "code",
    ];
    match value {
        serde_json::Value::String(text) if !FIXED.contains(&key) && text != "Infinity" => HOSTILE.clone_into(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| poison(item, key)),
        serde_json::Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| poison(value, key)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Set to anything, stale fixtures are written anew instead of failing the test.
    const UPDATE: &str = "UPDATE_REPORT_FIXTURES";

    fn fixture(name: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/fixtures/reports/v1/{name}.json"))
    }

    #[test]
    fn the_committed_fixtures_are_these_reports() {
        for (name, report) in all() {
            let path = fixture(name);
            let json = report.to_json().expect("JSON");
            if std::env::var_os(UPDATE).is_some() {
                fs_err::create_dir_all(path.parent().expect("folder")).expect("folder");
                crate::files::write_atomic(&path, json.as_bytes()).expect("fixture");
            }
            let stored = fs_err::read(&path).unwrap_or_default();
            assert!(stored == json.as_bytes(), "`{}` is stale; run with {UPDATE}=1", path.display());
            assert_eq!(Report::from_json(&stored).expect("reads"), report, "{name}");
        }
    }
}
