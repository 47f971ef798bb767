//! The fallbacks that matter, largest share first.
//!
//! In: a [`Profile`] and what the lowering said about its instructions. Out: [`Ranking`]. A pure
//! function: the same input gives the same answer. Instructions that the two sides do not agree on are
//! listed as unknown, never guessed.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use crate::evidence::Interval;
use crate::profile::kernels::same_kernel;
use crate::profile::{InstructionKind, Profile};
use crate::torch::protocol::{Fallback, Lowered, Reason, SourceLine};

/// Shares below this are not worth a repair.
pub const DEFAULT_MINIMUM_SHARE: f64 = 0.001;

/// Fallbacks by share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// kernels at or above the minimum share, largest first
    pub hotspots: Vec<Hotspot>,
    /// kernels below it, largest first
    pub minor: Vec<Hotspot>,
    /// instructions that the lowering and the trace do not agree on
    pub unknown: Vec<Unknown>,
}

/// All calls of one fallback kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Hotspot {
    /// kernel name as in the program: `aten::_softmax.out`
    pub kernel: String,
    /// part of delegated plus fallback time, all calls together
    pub share: f64,
    /// of `share`
    pub interval: Interval,
    /// time a run, ns
    pub time_ns: f64,
    /// calls a run
    pub calls: f64,
    /// its instructions, largest share first
    pub nodes: Vec<HotNode>,
}

/// One instruction of a hotspot.
#[derive(Clone, Debug, PartialEq)]
pub struct HotNode {
    /// index in the method
    pub instruction: i64,
    /// part of delegated plus fallback time
    pub share: f64,
    /// time a run, ns
    pub time_ns: f64,
    /// edge dialect op
    pub edge_op: String,
    /// nodes of the exported program it comes from; empty when unknown
    pub original_nodes: Vec<String>,
    /// user's line
    pub source: Option<SourceLine>,
    /// module path, empty when unknown
    pub module_path: String,
    /// why it is not in a delegate
    pub reason: Reason,
}

/// An instruction that cannot be placed.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// index in the method
    pub instruction: i64,
    /// name in the trace, or of the program where the trace lacks it
    pub kernel: String,
    /// part of delegated plus fallback time
    pub share: f64,
    /// what does not agree
    pub why: String,
}

impl Ranking {
    /// Every fallback kernel, also below the minimum share.
    pub fn all(&self) -> impl Iterator<Item = &Hotspot> {
        self.hotspots.iter().chain(&self.minor)
    }

    /// Share of the fallbacks that come from each node of the exported program. A fallback that comes
    /// from several nodes counts for each of them: what a repair of that node could touch, not a sum.
    pub fn share_by_original_node(&self) -> BTreeMap<&str, f64> {
        let mut shares = BTreeMap::new();
        for node in self.all().flat_map(|hotspot| &hotspot.nodes) {
            for original in &node.original_nodes {
                *shares.entry(original.as_str()).or_insert(0.0) += node.share;
            }
        }
        shares
    }
}

/// Ranks the fallbacks of a program by their measured share.
pub fn rank(profile: &Profile, lowered: &Lowered, minimum_share: f64) -> Ranking {
    let mut known: BTreeMap<i64, &Fallback> =
        lowered.fallbacks.iter().map(|fallback| (fallback.instruction, fallback)).collect();
    let mut kernels: IndexMap<String, Hotspot> = IndexMap::new();
    let mut ranking = Ranking::default();
    for instruction in &profile.instructions {
        let InstructionKind::Fallback { kernel } = &instruction.kind else {
            if let Some(fallback) = known.remove(&instruction.instruction) {
                ranking.unknown.push(Unknown {
                    instruction: instruction.instruction,
                    kernel: fallback.kernel.clone(),
                    share: instruction.share.median,
                    why: "the lowering says it is a fallback, the trace shows a delegate call".to_owned(),
                });
            }
            continue;
        };
        let mut unknown = |kernel: &str, why: String| {
            ranking.unknown.push(Unknown {
                instruction: instruction.instruction,
                kernel: kernel.to_owned(),
                share: instruction.share.median,
                why,
            });
        };
        let Some(fallback) = known.remove(&instruction.instruction) else {
            unknown(kernel, "the lowering does not know this instruction".to_owned());
            continue;
        };
        if !same_kernel(kernel, &fallback.kernel) {
            unknown(kernel, format!("the lowering says this instruction is `{}`", fallback.kernel));
            continue;
        }
        let hotspot = kernels.entry(fallback.kernel.clone()).or_insert_with(|| Hotspot {
            kernel: fallback.kernel.clone(),
            share: 0.0,
            interval: Interval { low: 0.0, high: 0.0, confidence: instruction.share.interval.confidence },
            time_ns: 0.0,
            calls: 0.0,
            nodes: Vec::new(),
        });
        hotspot.share += instruction.share.median;
        hotspot.interval.low += instruction.share.interval.low;
        hotspot.interval.high += instruction.share.interval.high;
        hotspot.interval.confidence = hotspot.interval.confidence.min(instruction.share.interval.confidence);
        hotspot.time_ns += instruction.time_ns.median;
        hotspot.calls += instruction.calls;
        hotspot.nodes.push(HotNode {
            instruction: instruction.instruction,
            share: instruction.share.median,
            time_ns: instruction.time_ns.median,
            edge_op: fallback.edge_op.clone(),
            original_nodes: fallback.original_nodes.clone(),
            source: fallback.source.clone(),
            module_path: fallback.module_path.clone(),
            reason: fallback.reason.clone(),
        });
    }
    for (instruction, fallback) in known {
        ranking.unknown.push(Unknown {
            instruction,
            kernel: fallback.kernel.clone(),
            share: 0.0,
            why: "the trace shows no such instruction".to_owned(),
        });
    }
    let mut hotspots: Vec<Hotspot> = kernels.into_values().collect();
    for hotspot in &mut hotspots {
        hotspot.interval.high = hotspot.interval.high.min(1.0);
        hotspot.nodes.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.instruction.cmp(&b.instruction)));
    }
    hotspots.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.kernel.cmp(&b.kernel)));
    (ranking.hotspots, ranking.minor) = hotspots.into_iter().partition(|hotspot| hotspot.share >= minimum_share);
    ranking.unknown.sort_by_key(|unknown| unknown.instruction);
    ranking
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::evidence::TargetLabel;
    use crate::profile::{Accounting, Figure, Instruction};

    fn figure(value: f64) -> Figure {
        Figure { median: value, interval: Interval { low: value * 0.9, high: value * 1.1, confidence: 0.95 } }
    }

    fn instruction(id: i64, kernel: Option<&str>, share: f64) -> Instruction {
        Instruction {
            instruction: id,
            kind: kernel.map_or(InstructionKind::Delegate { ops: Vec::new() }, |kernel| InstructionKind::Fallback {
                kernel: kernel.to_owned(),
            }),
            time_ns: figure(share * 1000.0),
            share: figure(share),
            calls: 1.0,
        }
    }

    fn profile_of(instructions: Vec<Instruction>) -> Profile {
        Profile {
            target: TargetLabel {
                kind: "local".to_owned(),
                name: "this host".to_owned(),
                architecture: "x86_64".to_owned(),
                physical_arm: false,
            },
            runs: 5,
            method_ns: figure(1000.0),
            delegated_ns: 0.0,
            fallback_ns: 0.0,
            delegation: figure(0.5),
            accounting: Accounting { instructions_ns: 1.0, method_ns: 1.0, unaccounted_share: 0.0, agrees: true },
            instructions,
        }
    }

    fn fallback(instruction: i64, kernel: &str, original: &str) -> Fallback {
        Fallback {
            instruction,
            kernel: kernel.to_owned(),
            edge_op: "aten.alias_copy.default".to_owned(),
            edge_node: "alias".to_owned(),
            original_nodes: vec![original.to_owned()],
            source: None,
            module_path: String::new(),
            reason: Reason {
                code: "no-config".to_owned(),
                text: "no configuration".to_owned(),
                partitioner: String::new(),
            },
        }
    }

    fn lowered(fallbacks: Vec<Fallback>) -> Lowered {
        Lowered {
            program: PathBuf::from("model.pte"),
            bytes: 1,
            fallbacks,
            delegates: Vec::new(),
            delegated_nodes: 0,
            warnings: Vec::new(),
            seconds: 0.0,
        }
    }

    #[test]
    fn calls_of_a_kernel_are_one_hotspot_and_the_largest_comes_first() {
        let profile = profile_of(vec![
            instruction(0, None, 0.5),
            instruction(1, Some("alias_copy.out"), 0.1),
            instruction(2, Some("_softmax.out"), 0.25),
            instruction(3, Some("alias_copy.out"), 0.1495),
            instruction(4, Some("add.out"), 0.0005),
        ]);
        let lowered = lowered(vec![
            fallback(1, "aten::alias_copy.out", "alias"),
            fallback(2, "aten::_softmax.out", "softmax"),
            fallback(3, "aten::alias_copy.out", "alias"),
            fallback(4, "aten::add.out", "add"),
        ]);
        let ranking = rank(&profile, &lowered, DEFAULT_MINIMUM_SHARE);
        let shown: Vec<(&str, usize)> =
            ranking.hotspots.iter().map(|hotspot| (hotspot.kernel.as_str(), hotspot.nodes.len())).collect();
        assert_eq!(shown, [("aten::_softmax.out", 1), ("aten::alias_copy.out", 2)]);
        assert_eq!(ranking.hotspots[1].nodes[0].instruction, 3, "the larger call first");
        assert!((ranking.hotspots[1].share - 0.2495).abs() < 1e-12);
        assert!((ranking.hotspots[1].interval.high - 0.2495 * 1.1).abs() < 1e-12);
        assert_eq!(ranking.minor[0].kernel, "aten::add.out");
        assert_eq!(ranking.unknown, []);
        let shares = ranking.share_by_original_node();
        assert!((shares["alias"] - 0.2495).abs() < 1e-12);
        assert!((shares["add"] - 0.0005).abs() < 1e-12);
    }

    #[test]
    fn instructions_that_do_not_agree_are_unknown_and_rank_nowhere() {
        let profile = profile_of(vec![
            instruction(0, None, 0.4),
            instruction(1, Some("mul.out"), 0.3),
            instruction(2, Some("sum.IntList_out"), 0.3),
        ]);
        let lowered = lowered(vec![
            fallback(0, "aten::add.out", "add"),
            fallback(1, "aten::add.out", "add_1"),
            fallback(9, "aten::exp.out", "exp"),
        ]);
        let ranking = rank(&profile, &lowered, 0.0);
        assert_eq!(ranking.hotspots, []);
        let why: Vec<(i64, &str)> =
            ranking.unknown.iter().map(|unknown| (unknown.instruction, unknown.why.as_str())).collect();
        assert_eq!(
            why,
            [
                (0, "the lowering says it is a fallback, the trace shows a delegate call"),
                (1, "the lowering says this instruction is `aten::add.out`"),
                (2, "the lowering does not know this instruction"),
                (9, "the trace shows no such instruction"),
            ]
        );
    }
}
