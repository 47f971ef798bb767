//! Reports of runs that could have been, for the tests of every view.
//!
//! They are also committed as `tests/fixtures/reports/v1/*.json`: what version 1 looked like, for as long
//! as it is to be read.

use super::model::*;
use crate::evidence::{Evidence, Interval, Measured, Projected, TargetLabel};
use crate::gates::{Fact, Gate, GateReport, GateStatus};
use crate::torch::protocol::{Reason, SourceLine};

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

fn host() -> TargetLabel {
    TargetLabel {
        kind: "local".into(),
        name: "this host (x86-64, not Arm)".into(),
        architecture: "x86_64".into(),
        physical_arm: false,
    }
}

fn measured(value: f64, unit: &str, samples: u64, interval: Option<(f64, f64)>) -> Evidence {
    let interval = interval.map(|(low, high)| Interval { low, high, confidence: 0.99 });
    Evidence::Measured(Measured { value, unit: unit.into(), target: host(), samples, interval })
}

fn share(value: f64) -> Evidence {
    measured(value, "share", 30, None)
}

fn milliseconds(value: f64) -> Evidence {
    measured(value, "ms", 240, Some((value * 0.985, value * 1.02)))
}

fn reason(code: &str, text: &str, partitioner: &str) -> Reason {
    Reason { code: code.into(), text: text.into(), partitioner: partitioner.into() }
}

fn line(file: &str, line: u32, function: &str, text: &str) -> SourceLine {
    SourceLine { file: file.into(), line, function: function.into(), text: text.into() }
}

fn rule(id: &str, title: &str, class: RuleClass) -> RuleRef {
    RuleRef { id: id.into(), version: "1.0.0".into(), title: title.into(), class }
}

fn softmax_rule() -> RuleRef {
    rule("dd-001", "Softmax over an inner dimension", RuleClass::Exact)
}

fn alias_rule() -> RuleRef {
    rule("dd-002", "Aliases and copies that do nothing", RuleClass::Exact)
}

fn pool_rule() -> RuleRef {
    rule("dd-003", "Average pooling with counted padding", RuleClass::Tolerant)
}

fn step(text: &str, command: Option<&str>) -> Step {
    Step { text: text.into(), command: command.map(Into::into) }
}

fn stage(name: &str, round: Option<u32>, seconds: f64, reused: Option<&str>) -> Stage {
    Stage { name: name.into(), round, seconds, reused: reused.map(Into::into) }
}

fn fact(name: &str, value: &str, source: &str) -> Fact {
    Fact { name: name.into(), value: value.into(), source: source.into() }
}

fn gate(gate: Gate, status: GateStatus, summary: &str, seconds: f64, facts: &[(&str, &str, &str)]) -> GateReport {
    let facts = facts.iter().map(|(name, value, source)| fact(name, value, source)).collect();
    GateReport { gate, status, summary: summary.into(), facts, seconds }
}

const INTERPRETER: &str = "this host, reference interpreter";
const EAGER: &str = "this host, eager PyTorch";
const TARGET: &str = "this host (x86-64, not Arm)";

/// Gates of a repair that passed everything up to `last`, which ended with `status`.
fn gates(last: Gate, status: GateStatus, summary: &str) -> Vec<GateReport> {
    let mut reports = vec![
        gate(
            Gate::Structure,
            GateStatus::Pass,
            "The host and torch agree on every shape, dtype and name",
            1.2,
            &[("values compared", "412", EAGER), ("outputs unchanged", "1 of 1", EAGER)],
        ),
        gate(
            Gate::SiteEquivalence,
            GateStatus::Pass,
            "Old and new subgraph give the same bits on 24 input sets",
            3.4,
            &[
                ("input sets", "24 (normal, zeros, ties, tiny and large magnitudes, infinities)", INTERPRETER),
                ("largest difference", "0", INTERPRETER),
            ],
        ),
        gate(
            Gate::HostCorrectness,
            GateStatus::Pass,
            "Eager original and eager repaired agree on every output",
            4.1,
            &[("largest error, output 0, your inputs", "0 of an allowed 3.1e-5", EAGER)],
        ),
        gate(
            Gate::DeviceCorrectness,
            GateStatus::Pass,
            "Original and repaired program agree on the target",
            2.7,
            &[("largest error, output 0, seeded normal 1", "6.0e-8 of an allowed 3.1e-5", TARGET)],
        ),
        gate(
            Gate::BackendFidelity,
            GateStatus::Pass,
            "Both programs agree with eager PyTorch",
            2.9,
            &[
                ("original against eager", "2.4e-7 of an allowed 3.1e-5", TARGET),
                ("repaired against eager", "2.4e-7 of an allowed 3.1e-5", TARGET),
            ],
        ),
        gate(
            Gate::Benchmark,
            GateStatus::Pass,
            "The whole interval of the ratio is above 1",
            38.5,
            &[("blocks", "12 of each program, interleaved, a process each", TARGET), ("modes seen", "1", TARGET)],
        ),
    ];
    for report in &mut reports {
        if report.gate == last {
            report.status = status;
            report.summary = summary.into();
        } else if report.gate > last {
            report.status = GateStatus::NotRun;
            report.summary = "An earlier gate ended the trial".into();
            report.facts.clear();
            report.seconds = 0.0;
        }
    }
    reports
}

/// Blocks around two medians with noise that is the same on every machine.
fn comparison(before: f64, after: f64, spread: f64, interval: (f64, f64)) -> Comparison {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = f64::from(u32::try_from(state >> 40).unwrap_or(0)) / f64::from(1_u32 << 24);
        unit * unit * unit
    };
    let blocks = (0..24)
        .map(|position| {
            let (program, median) =
                if (position + position / 2) % 2 == 0 { (Side::Before, before) } else { (Side::After, after) };
            let samples_ms =
                (0..10).map(|_| ((median * (0.97 + spread * noise())) * 1000.0).round() / 1000.0).collect();
            Block { program, samples_ms }
        })
        .collect();
    Comparison {
        target: host(),
        before: measured(before, "ms", 120, Some((before * 0.985, before * 1.02))),
        after: measured(after, "ms", 120, Some((after * 0.985, after * 1.02))),
        ratio: measured(before / after, "ratio", 240, Some(interval)),
        blocks,
        notes: Vec::new(),
    }
}

fn node(id: &str, op: &str, arguments: &str, shape: &str, role: NodeRole, placement: Option<Placement>) -> DiagramNode {
    DiagramNode { id: id.into(), op: op.into(), arguments: arguments.into(), shape: shape.into(), role, placement }
}

fn chain(nodes: Vec<DiagramNode>) -> Subgraph {
    let edges = nodes
        .windows(2)
        .filter_map(|pair| match pair {
            [from, to] => Some(DiagramEdge { from: from.id.clone(), to: to.id.clone() }),
            _ => None,
        })
        .collect();
    Subgraph { nodes, edges }
}

fn softmax_diagram() -> Diagram {
    use NodeRole::{Added, Input, Output, Removed};
    let inside = Some(Placement::Delegated);
    let image = "float32 1×21×256×256";
    Diagram {
        title: "softmax".into(),
        sites: 1,
        before: chain(vec![
            node("i", "upsample_bilinear2d", "", image, Input, None),
            node("a", "aten.softmax.int", "dim=1", image, Removed, Some(Placement::Fallback)),
            node("o", "output 0", "", image, Output, None),
        ]),
        after: chain(vec![
            node("i", "upsample_bilinear2d", "", image, Input, None),
            node("b", "aten.view.default", "[1, 21, 65536]", "float32 1×21×65536", Added, inside),
            node("c", "aten.permute.default", "[0, 2, 1]", "float32 1×65536×21", Added, inside),
            node("d", "aten.softmax.int", "dim=-1", "float32 1×65536×21", Added, inside),
            node("e", "aten.permute.default", "[0, 2, 1]", "float32 1×21×65536", Added, inside),
            node("f", "aten.view.default", "[1, 21, 256, 256]", image, Added, inside),
            node("o", "output 0", "", image, Output, None),
        ]),
    }
}

fn alias_diagram() -> Diagram {
    use NodeRole::{Input, Kept, Output, Removed};
    let inside = Some(Placement::Delegated);
    let shape = "float32 1×512×32×32";
    let edge = |from: &str, to: &str| DiagramEdge { from: from.into(), to: to.into() };
    let inputs = || vec![node("x", "relu_4", "", shape, Input, None), node("y", "conv2d_12", "", shape, Input, None)];
    let mut before = inputs();
    before.push(node("s", "aten.alias.default", "", shape, Removed, Some(Placement::Fallback)));
    before.push(node("c", "aten.cat.default", "dim=1", "float32 1×1024×32×32", Kept, inside));
    before.push(node("o", "conv2d_13", "", "", Output, None));
    let mut after = inputs();
    after.push(node("c", "aten.cat.default", "dim=1", "float32 1×1024×32×32", Kept, inside));
    after.push(node("o", "conv2d_13", "", "", Output, None));
    Diagram {
        title: "slice_3".into(),
        sites: 4,
        before: Subgraph { nodes: before, edges: vec![edge("x", "s"), edge("s", "c"), edge("y", "c"), edge("c", "o")] },
        after: Subgraph { nodes: after, edges: vec![edge("x", "c"), edge("y", "c"), edge("c", "o")] },
    }
}

fn hotspot(kernel: &str, part: f64, time: f64, nodes: Vec<HotspotNode>) -> Hotspot {
    let calls = u64::try_from(nodes.len()).unwrap_or(0);
    Hotspot { kernel: kernel.into(), share: share(part), time: Some(measured(time, "ms", 30, None)), calls, nodes }
}

fn softmax_node(rules: Vec<RuleVerdict>) -> HotspotNode {
    HotspotNode {
        node: "softmax".into(),
        op: "aten._softmax.default".into(),
        shape: "float32 1×21×256×256".into(),
        share: Some(share(0.497)),
        source: Some(line(
            "segmentation_models_pytorch/base/heads.py",
            24,
            "forward",
            "return self.activation(self.upsampling(self.conv2d(x)))",
        )),
        module_path: "segmentation_head.2.activation".into(),
        reason: reason(
            "constraint",
            "XNNPACK runs softmax over the last dimension only",
            "dim must be the last dim, got dim = 1 for tensor of rank 4",
        ),
        rules,
    }
}

fn alias_node(number: u32, rules: Vec<RuleVerdict>) -> HotspotNode {
    HotspotNode {
        node: format!("slice_{number}"),
        op: "aten.alias_copy.default".into(),
        shape: "float32 1×512×32×32".into(),
        share: Some(share(0.009)),
        source: Some(line(
            "segmentation_models_pytorch/decoders/pspnet/decoder.py",
            71 + number,
            "forward",
            "x = torch.cat([stage(x)[:, :] for stage in self.blocks] + [x], dim=1)",
        )),
        module_path: "decoder.psp".into(),
        reason: reason("no-config", "The partitioner has no entry for alias_copy", ""),
        rules,
    }
}

fn matched(rule: RuleRef) -> RuleVerdict {
    RuleVerdict { rule, outcome: RuleOutcome::Matched, code: String::new(), message: "offered a rewrite".into() }
}

fn declined_by(rule: RuleRef, code: &str, message: &str) -> RuleVerdict {
    RuleVerdict { rule, outcome: RuleOutcome::Declined, code: code.into(), message: message.into() }
}

fn layer_norm_node(number: u32) -> HotspotNode {
    HotspotNode {
        node: format!("layer_norm_{number}"),
        op: "aten.native_layer_norm.default".into(),
        shape: "float32 1×56×56×96".into(),
        share: Some(share(0.0013)),
        source: Some(line(
            "torchvision/models/convnext.py",
            24,
            "forward",
            "x = F.layer_norm(x, self.normalized_shape, …)",
        )),
        module_path: format!("features.1.{number}.block.2"),
        reason: reason("no-config", "The partitioner has no entry for native_layer_norm", ""),
        rules: Vec::new(),
    }
}

fn profile(delegation: f64, time: f64, partitions: u64, hotspots: Vec<Hotspot>) -> Profile {
    Profile {
        delegation: share(delegation),
        method_time: milliseconds(time),
        partitions,
        fallbacks: hotspots.iter().map(|hotspot| hotspot.calls).sum(),
        delegated_nodes: 131,
        cross_check: Some(CrossCheck {
            agrees: true,
            note: "Instructions add up to 99.2 % of the method's own time (within 5 %)".into(),
        }),
        program_bytes: 95_312_448,
        peak_memory: Some(measured(412_000_000.0, "bytes", 1, None)),
        hotspots,
    }
}

fn base(name: &str, source: &str) -> Report {
    Report {
        schema: SCHEMA.into(),
        version: VERSION,
        versions: Versions { tool: "0.1.0".into(), wit: "0.1.0".into(), worker_protocol: 1, runner_protocol: 1 },
        created: "2026-11-29T14:03:11+01:00[Europe/Berlin]".into(),
        command: vec!["delegate-doctor".into(), "optimize".into(), source.into()],
        verdict: Verdict {
            status: Status::NoRepairRequired,
            gate: None,
            headline: String::new(),
            next_steps: Vec::new(),
        },
        model: Model {
            name: name.into(),
            source: source.into(),
            parameters: 23_508_032,
            nodes: 187,
            inputs: vec![TensorSummary {
                name: "x".into(),
                dtype: "float32".into(),
                sizes: ["1", "3", "256", "256"].map(Into::into).to_vec(),
            }],
            outputs: vec![TensorSummary {
                name: "softmax".into(),
                dtype: "float32".into(),
                sizes: ["1", "21", "256", "256"].map(Into::into).to_vec(),
            }],
            fingerprint: "9b1f6a3c5e07d2418cf0b6a7e2d94f3c1a58770b6de2c4f9038151a6c7e4d20b".into(),
        },
        setting: Setting {
            target: host(),
            threads: 2,
            cpu: "AMD EPYC 7B13".into(),
            processors: 2,
            system: "Linux 6.1".into(),
            python: "3.11.7".into(),
            torch: "2.15.0+cpu".into(),
            executorch: "1.5.1".into(),
            seed: 20_261,
        },
        findings: Vec::new(),
        original: None,
        repaired: None,
        overall: None,
        trials: Vec::new(),
        declined: Vec::new(),
        search: Search {
            rounds: 1,
            limits: vec![
                Limit { name: "rounds".into(), value: "16".into(), reached: false },
                Limit { name: "candidates".into(), value: "64".into(), reached: false },
                Limit { name: "wall time".into(), value: "30 min".into(), reached: false },
            ],
            stop_code: "nothing-left".into(),
            stop_reason: "No rule offers another repair above 0.1 % of the runtime".into(),
        },
        stages: vec![
            stage("model", None, 4.2, None),
            stage("export", None, 6.8, None),
            stage("lower", None, 21.4, None),
            stage("profile", None, 9.7, None),
        ],
        timing: None,
        artifacts: vec![Artifact {
            path: "original/lowered.pte".into(),
            what: "the original program, lowered".into(),
            sha256: "1f0c7a4be2a5d6693d5e1df4fa1ff1de0d16ed3b60db0a20b3de34a3d6bd2d52".into(),
            bytes: 95_312_448,
        }],
        reproduce: vec![
            step("Repeat the run", Some(&format!("delegate-doctor optimize {source} --seed 20261 --threads 2"))),
            step("Render this report again", Some("delegate-doctor report runs/001")),
        ],
    }
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

fn pool_node(number: u32) -> HotspotNode {
    HotspotNode {
        node: format!("adaptive_avg_pool2d_{number}"),
        op: "aten._adaptive_avg_pool2d.default".into(),
        shape: "float32 1×2048×3×3".into(),
        share: Some(share(0.0086)),
        source: Some(line("segmentation_models_pytorch/decoders/pspnet/decoder.py", 26, "forward", "x = self.pool(x)")),
        module_path: format!("decoder.psp.blocks.{number}.pool.0"),
        reason: reason("no-config", "The partitioner has no entry for _adaptive_avg_pool2d", ""),
        rules: vec![declined_by(
            pool_rule(),
            "windows-differ",
            "the output size 3 does not divide the input size 32, so that the windows overlap",
        )],
    }
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
pub(crate) const HOSTILE: &str = "</script><script>document.title='owned'</script>\"'`<img src=x onerror=alert(1)>{{ 7*7 }}&amp;\u{1b}[2J\u{202e}\u{200b}<!--";

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
