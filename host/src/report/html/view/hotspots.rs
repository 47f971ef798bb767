//! Kernels outside the delegate, as the page lists them.

use serde::Serialize;

use super::Fig;
use crate::insight;
use crate::report::figures;
use crate::report::model::{Hotspot, HotspotNode, Profile, RuleOutcome, RuleVerdict, Trial};
use crate::report::wording;

/// Nodes shown before the rest is folded away.
const SHOWN: usize = 3;
/// Kernels shown before the rest is folded away.
const KERNELS: usize = 8;

/// Kernels by their share.
#[derive(Serialize)]
pub(in crate::report::html) struct RankingView {
    shown: Vec<HotspotView>,
    folded: Vec<HotspotView>,
}

/// A kernel.
#[derive(Serialize)]
struct HotspotView {
    rank: usize,
    kernel: String,
    share: Fig,
    /// per cent of the costliest kernel's share
    width: f64,
    time: Option<Fig>,
    calls: String,
    answers: Vec<Answer>,
    groups: Vec<Group>,
}

/// How the repair for a kernel ended.
#[derive(Serialize)]
struct Answer {
    rule: String,
    words: String,
    tone: &'static str,
    mark: &'static str,
}

/// Nodes with the same explanation.
#[derive(Serialize)]
struct Group {
    why: String,
    partitioner: String,
    fix: Option<&'static str>,
    shown: Vec<NodeView>,
    folded: Vec<NodeView>,
    verdicts: Vec<VerdictView>,
    no_rule: bool,
}

#[derive(Serialize)]
struct NodeView {
    node: String,
    op: String,
    shape: String,
    module: String,
    share: Option<Fig>,
    at: Option<String>,
    function: String,
    text: String,
}

#[derive(Serialize)]
struct VerdictView {
    rule: String,
    mark: &'static str,
    tone: &'static str,
    words: &'static str,
    message: String,
    code: String,
}

/// All kernels of a profile, the costliest first.
pub(super) fn all(profile: Option<&Profile>, trials: &[Trial]) -> RankingView {
    let Some(profile) = profile else { return RankingView { shown: Vec::new(), folded: Vec::new() } };
    let costliest = profile.hotspots.iter().map(|hotspot| figures::number(&hotspot.share)).fold(0.0, f64::max);
    let ranked = profile.hotspots.iter().enumerate();
    let mut shown: Vec<_> = ranked.map(|(at, hotspot)| one(at + 1, hotspot, costliest, trials)).collect();
    let folded = shown.split_off(shown.len().min(KERNELS));
    RankingView { shown, folded }
}

fn one(rank: usize, hotspot: &Hotspot, costliest: f64, trials: &[Trial]) -> HotspotView {
    let share = figures::number(&hotspot.share);
    let mut groups: Vec<(&HotspotNode, Group)> = Vec::new();
    for node in &hotspot.nodes {
        let alike =
            |first: &HotspotNode| first.op == node.op && first.reason == node.reason && first.rules == node.rules;
        let group = match groups.iter_mut().position(|(first, _)| alike(first)) {
            Some(at) => groups.get_mut(at),
            None => {
                groups.push((node, group(node)));
                groups.last_mut()
            }
        };
        if let Some((_, group)) = group {
            let room = group.shown.len() < SHOWN;
            if room { &mut group.shown } else { &mut group.folded }.push(view(node));
        }
    }
    HotspotView {
        rank,
        kernel: hotspot.kernel.clone(),
        share: Fig::of(&hotspot.share),
        width: if costliest > 0.0 { (share / costliest * 100.0).clamp(0.0, 100.0) } else { 0.0 },
        time: hotspot.time.as_ref().map(Fig::of),
        calls: figures::counted(hotspot.calls, "call"),
        answers: answers(hotspot, trials),
        groups: groups.into_iter().map(|(_, group)| group).collect(),
    }
}

fn group(node: &HotspotNode) -> Group {
    let insight = insight::explain(&node.op, &node.reason);
    Group {
        why: insight.plain,
        partitioner: node.reason.partitioner.clone(),
        fix: insight.fix,
        shown: Vec::new(),
        folded: Vec::new(),
        verdicts: node.rules.iter().map(verdict).collect(),
        no_rule: node.rules.is_empty(),
    }
}

fn view(node: &HotspotNode) -> NodeView {
    let source = node.source.as_ref();
    NodeView {
        node: node.node.clone(),
        op: node.op.clone(),
        shape: node.shape.clone(),
        module: node.module_path.clone(),
        share: node.share.as_ref().map(Fig::of),
        at: source.map(|source| format!("{}:{}", source.file, source.line)),
        function: source.map(|source| source.function.clone()).unwrap_or_default(),
        text: source.map(|source| source.text.clone()).unwrap_or_default(),
    }
}

fn verdict(verdict: &RuleVerdict) -> VerdictView {
    let (words, tone) = wording::rule_outcome(verdict.outcome);
    let told = verdict.outcome != RuleOutcome::Matched;
    VerdictView {
        rule: verdict.rule.to_string(),
        mark: tone.mark(),
        tone: tone.name(),
        words,
        message: if told { verdict.message.clone() } else { String::new() },
        code: verdict.code.clone(),
    }
}

/// The last trial of each rule that offered a repair for the kernel.
fn answers(hotspot: &Hotspot, trials: &[Trial]) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::new();
    for verdict in hotspot.nodes.iter().flat_map(|node| &node.rules) {
        if verdict.outcome != RuleOutcome::Matched || answers.iter().any(|answer| answer.rule == verdict.rule.id) {
            continue;
        }
        let rule = verdict.rule.id.clone();
        answers.push(match trials.iter().rev().find(|trial| trial.rule.id == rule) {
            Some(trial) => {
                let (words, tone) = wording::outcome(trial.outcome, trial.gate);
                Answer { rule, words, tone: tone.name(), mark: tone.mark() }
            }
            None => Answer { rule, words: "offered, not tried".to_owned(), tone: "neutral", mark: "·" },
        });
    }
    answers
}
