//! Repairs that were tried and sites that were left alone, as the page shows them.

use serde::Serialize;

use super::super::diagram::{self, Drawing};
use super::{ComparisonView, Fig};
use crate::gates::{Fact, GateReport};
use crate::report::figures;
use crate::report::model::{Comparison, Declined, Diagram, Site, Trial};
use crate::report::wording;

/// A repair.
#[derive(Serialize)]
pub(in crate::report::html) struct TrialView {
    number: usize,
    rule: String,
    title: String,
    class: &'static str,
    why: String,
    words: String,
    tone: &'static str,
    mark: &'static str,
    reason: String,
    round: u32,
    sites_count: String,
    sites: Vec<SiteView>,
    diagrams: Vec<DiagramView>,
    gates: Vec<GateView>,
    benchmark: Option<ComparisonView>,
    /// the benchmark is the one of original against repaired, which the page shows already
    is_overall: bool,
    delegation_before: Option<Fig>,
    delegation_after: Option<Fig>,
    seconds: String,
}

#[derive(Serialize)]
struct SiteView {
    node: String,
    op: String,
    module: String,
    at: String,
    text: String,
}

#[derive(Serialize)]
struct DiagramView {
    title: String,
    alike: String,
    before: Drawing,
    after: Drawing,
}

#[derive(Serialize)]
struct GateView {
    name: &'static str,
    about: &'static str,
    words: &'static str,
    tone: &'static str,
    mark: &'static str,
    summary: String,
    facts: Vec<(String, String, String)>,
    seconds: String,
}

/// Sites that a rule left alone for one reason.
#[derive(Serialize)]
pub(in crate::report::html) struct DeclinedView {
    rule: String,
    title: String,
    code: String,
    message: String,
    count: String,
    sites: Vec<SiteView>,
}

pub(super) fn trial(number: usize, trial: &Trial, overall: Option<&Comparison>) -> TrialView {
    let (words, tone) = wording::outcome(trial.outcome, trial.gate);
    TrialView {
        number,
        rule: trial.rule.to_string(),
        title: trial.rule.title.clone(),
        class: wording::class(trial.rule.class),
        why: trial.why.clone(),
        words,
        tone: tone.name(),
        mark: tone.mark(),
        reason: trial.reason.clone(),
        round: trial.round,
        sites_count: figures::counted(trial.sites.len() as u64, "site"),
        sites: trial.sites.iter().map(site).collect(),
        diagrams: trial.diagrams.iter().map(diagram).collect(),
        gates: trial.gates.iter().map(gate).collect(),
        is_overall: overall.is_some() && trial.benchmark.as_ref() == overall,
        benchmark: trial.benchmark.as_ref().map(ComparisonView::of),
        delegation_before: trial.delegation_before.as_ref().map(Fig::of),
        delegation_after: trial.delegation_after.as_ref().map(Fig::of),
        seconds: figures::seconds(trial.seconds),
    }
}

fn site(site: &Site) -> SiteView {
    let source = site.source.as_ref();
    SiteView {
        node: site.node.clone(),
        op: site.op.clone(),
        module: site.module_path.clone(),
        at: source.map(|source| format!("{}:{}", source.file, source.line)).unwrap_or_default(),
        text: source.map(|source| source.text.clone()).unwrap_or_default(),
    }
}

fn diagram(diagram: &Diagram) -> DiagramView {
    DiagramView {
        title: diagram.title.clone(),
        alike: if diagram.sites > 1 {
            format!("{} look like this", figures::counted(diagram.sites, "site"))
        } else {
            String::new()
        },
        before: diagram::draw(&diagram.before),
        after: diagram::draw(&diagram.after),
    }
}

fn gate(report: &GateReport) -> GateView {
    let (words, tone) = wording::gate_status(report.status);
    GateView {
        name: wording::gate_name(report.gate),
        about: wording::gate_about(report.gate),
        words,
        tone: tone.name(),
        mark: tone.mark(),
        summary: report.summary.clone(),
        facts: facts(&report.facts),
        seconds: if report.seconds > 0.0 { figures::seconds(report.seconds) } else { String::new() },
    }
}

/// Name, value, source.
pub(super) fn facts(facts: &[Fact]) -> Vec<(String, String, String)> {
    facts.iter().map(|fact| (fact.name.clone(), fact.value.clone(), fact.source.clone())).collect()
}

/// Groups by rule, reason and words, in order of first appearance.
pub(super) fn declined(all: &[Declined]) -> Vec<DeclinedView> {
    let mut groups: Vec<(&Declined, Vec<SiteView>)> = Vec::new();
    for declined in all {
        let alike = |first: &Declined| {
            first.rule == declined.rule && first.code == declined.code && first.message == declined.message
        };
        match groups.iter_mut().find(|(first, _)| alike(first)) {
            Some((_, sites)) => sites.push(site(&declined.site)),
            None => groups.push((declined, vec![site(&declined.site)])),
        }
    }
    groups
        .into_iter()
        .map(|(first, sites)| DeclinedView {
            rule: first.rule.to_string(),
            title: first.rule.title.clone(),
            code: first.code.clone(),
            message: first.message.clone(),
            count: figures::counted(sites.len() as u64, "site"),
            sites,
        })
        .collect()
}
