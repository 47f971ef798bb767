//! What the sample reports are put together from.

use super::super::model::*;
use crate::evidence::{Evidence, Interval, Measured, TargetLabel};
use crate::gates::benchmark::Statistic;
use crate::gates::benchmark::conditions::DeviceConditions;
use crate::gates::{Fact, Gate, GateReport, GateStatus};
use crate::torch::protocol::{Reason, SourceLine};

pub(super) fn host() -> TargetLabel {
    TargetLabel {
        kind: "local".into(),
        name: "this host (x86-64, not Arm)".into(),
        architecture: "x86_64".into(),
        physical_arm: false,
    }
}

pub(super) fn measured(value: f64, unit: &str, samples: u64, interval: Option<(f64, f64)>) -> Evidence {
    let interval = interval.map(|(low, high)| Interval { low, high, confidence: 0.99 });
    Evidence::Measured(Measured { value, unit: unit.into(), target: host(), samples, interval })
}

pub(super) fn share(value: f64) -> Evidence {
    measured(value, "share", 30, None)
}

pub(super) fn milliseconds(value: f64) -> Evidence {
    measured(value, "ms", 240, Some((value * 0.985, value * 1.02)))
}

pub(super) fn reason(code: &str, text: &str, partitioner: &str) -> Reason {
    Reason { code: code.into(), text: text.into(), partitioner: partitioner.into() }
}

pub(super) fn line(file: &str, line: u32, function: &str, text: &str) -> SourceLine {
    SourceLine { file: file.into(), line, function: function.into(), text: text.into() }
}

pub(super) fn rule(id: &str, title: &str, class: RuleClass) -> RuleRef {
    RuleRef { id: id.into(), version: "1.0.0".into(), title: title.into(), class }
}

pub(super) fn softmax_rule() -> RuleRef {
    rule("dd-001", "Softmax over an inner dimension", RuleClass::Exact)
}

pub(super) fn alias_rule() -> RuleRef {
    rule("dd-002", "Aliases and copies that do nothing", RuleClass::Exact)
}

pub(super) fn pool_rule() -> RuleRef {
    rule("dd-003", "Average pooling with counted padding", RuleClass::Tolerant)
}

pub(super) fn step(text: &str, command: Option<&str>) -> Step {
    Step { text: text.into(), command: command.map(Into::into) }
}

pub(super) fn stage(name: &str, round: Option<u32>, seconds: f64, reused: Option<&str>) -> Stage {
    Stage { name: name.into(), round, seconds, reused: reused.map(Into::into) }
}

pub(super) fn fact(name: &str, value: &str, source: &str) -> Fact {
    Fact { name: name.into(), value: value.into(), source: source.into() }
}

pub(super) fn gate(
    gate: Gate,
    status: GateStatus,
    summary: &str,
    seconds: f64,
    facts: &[(&str, &str, &str)],
) -> GateReport {
    let facts = facts.iter().map(|(name, value, source)| fact(name, value, source)).collect();
    GateReport { gate, status, summary: summary.into(), facts, seconds }
}

pub(super) const INTERPRETER: &str = "this host, reference interpreter";
pub(super) const EAGER: &str = "this host, eager PyTorch";
pub(super) const TARGET: &str = "this host (x86-64, not Arm)";

/// Gates of a repair that passed everything up to `last`, which ended with `status`.
pub(super) fn gates(last: Gate, status: GateStatus, summary: &str) -> Vec<GateReport> {
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
pub(super) fn comparison(before: f64, after: f64, spread: f64, interval: (f64, f64)) -> Comparison {
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
            Block { program, round: position / 6, warmup_ms: vec![median * 2.0, median], samples_ms }
        })
        .collect();
    let runs = |program, median_ms: f64, memory: f64| ProgramRuns {
        program,
        peak_memory: Some(measured(memory, "bytes", 12, None)),
        modes: vec![RunMode { median_ms, share: 1.0 }],
        drift: None,
        warmup_runs: 2.0,
    };
    Comparison {
        statistic: Statistic::Median,
        target: host(),
        before: measured(before, "ms", 120, Some((before * 0.985, before * 1.02))),
        after: measured(after, "ms", 120, Some((after * 0.985, after * 1.02))),
        ratio: measured(before / after, "ratio", 240, Some(interval)),
        threads: Some(4),
        programs: vec![runs(Side::Before, before, 412e6), runs(Side::After, after, 398e6)],
        conditions: Some(DeviceConditions {
            others_share: Some(0.03),
            others_share_most: Some(0.08),
            switches_per_second: Some(4.0),
            load_before: Some(0.4),
            load_after: Some(1.1),
            temperature_before: Some(41.0),
            temperature_most: Some(58.5),
            frequency_least: Some(2400.0),
            frequency_most: Some(2400.0),
            governors: vec!["schedutil".into()],
            ..DeviceConditions::default()
        }),
        blocks,
        notes: Vec::new(),
    }
}

pub(super) fn node(
    id: &str,
    op: &str,
    arguments: &str,
    shape: &str,
    role: NodeRole,
    placement: Option<Placement>,
) -> DiagramNode {
    DiagramNode { id: id.into(), op: op.into(), arguments: arguments.into(), shape: shape.into(), role, placement }
}

pub(super) fn chain(nodes: Vec<DiagramNode>) -> Subgraph {
    let edges = nodes
        .windows(2)
        .filter_map(|pair| match pair {
            [from, to] => Some(DiagramEdge { from: from.id.clone(), to: to.id.clone() }),
            _ => None,
        })
        .collect();
    Subgraph { nodes, edges }
}

pub(super) fn softmax_diagram() -> Diagram {
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

pub(super) fn alias_diagram() -> Diagram {
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

pub(super) fn hotspot(kernel: &str, part: f64, time: f64, nodes: Vec<HotspotNode>) -> Hotspot {
    let calls = u64::try_from(nodes.len()).unwrap_or(0);
    Hotspot { kernel: kernel.into(), share: share(part), time: Some(measured(time, "ms", 30, None)), calls, nodes }
}

pub(super) fn softmax_node(rules: Vec<RuleVerdict>) -> HotspotNode {
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

pub(super) fn alias_node(number: u32, rules: Vec<RuleVerdict>) -> HotspotNode {
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

pub(super) fn matched(rule: RuleRef) -> RuleVerdict {
    RuleVerdict { rule, outcome: RuleOutcome::Matched, code: String::new(), message: "offered a rewrite".into() }
}

pub(super) fn declined_by(rule: RuleRef, code: &str, message: &str) -> RuleVerdict {
    RuleVerdict { rule, outcome: RuleOutcome::Declined, code: code.into(), message: message.into() }
}

pub(super) fn layer_norm_node(number: u32) -> HotspotNode {
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

pub(super) fn profile(delegation: f64, time: f64, partitions: u64, hotspots: Vec<Hotspot>) -> Profile {
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

pub(super) fn base(name: &str, source: &str) -> Report {
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

pub(super) fn pool_node(number: u32) -> HotspotNode {
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
