//! Answers to "why": why a node is outside the delegate, and why a rule left a site alone.
//!
//! In: a report and what was asked about. Out: text for a terminal, in the manner of [`terminal`].

use super::figures::{self, Figure};
use super::layout::{COMMAND, FAINT, HEADING, PLAIN, Page};
use super::model::{Declined, Hotspot, HotspotNode, Report, RuleVerdict, Trial};
use super::terminal;
use super::wording;
use crate::evidence::TargetLabel;
use crate::hint::Hint;
use crate::insight;

/// Nodes named for one explanation when nothing particular was asked about.
const NAMED: usize = 8;

/// What is asked about; nothing at all means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// a node's name, a kernel, an op, a module path, or a source line (`heads.py:24`), or a part of one
    pub node: Option<String>,
    /// a rule's id
    pub rule: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the report has no profile to answer from
    #[error("The run did not come as far as a profile: {status}")]
    NoProfile {
        /// status of the run
        status: &'static str,
    },
    /// no node of that name is outside the delegate
    #[error("No node outside the delegate matches `{asked}`")]
    NoNode {
        /// what was asked
        asked: String,
        /// a few that there are
        known: Vec<String>,
    },
    /// no such rule looked at anything
    #[error("No rule `{asked}` looked at this model")]
    NoRule {
        /// what was asked
        asked: String,
        /// rules that did
        known: Vec<String>,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoProfile { .. } => None,
            Self::NoNode { known, .. } if known.is_empty() => {
                Some("Every node of this model runs inside the delegate".to_owned())
            }
            Self::NoNode { known, .. } => Some(format!("Outside are {}", known.join(", "))),
            Self::NoRule { known, .. } if known.is_empty() => {
                Some("No rule looked at anything: nothing outside the delegate was worth a repair".to_owned())
            }
            Self::NoRule { known, .. } => Some(format!("Rules that looked are {}", known.join(", "))),
        }
    }
}

/// Renders the answer.
///
/// # Errors
/// When nothing in the report matches the question.
pub fn render(report: &Report, question: &Question) -> Result<String, Error> {
    let Some(original) = &report.original else {
        return Err(Error::NoProfile { status: report.verdict.status.name() });
    };
    if let Some(asked) = &question.rule {
        let known = rules(report);
        if !known.iter().any(|id| id == asked) {
            return Err(Error::NoRule { asked: asked.clone(), known });
        }
    }
    let mut page = Page::default();
    let target = &report.setting.target;
    page.line(0, &[(HEADING, &report.model.name), (FAINT, "  MEASURED "), (FAINT, &figures::on_target(target))]);
    let mut any = false;
    for hotspot in &original.hotspots {
        let nodes: Vec<_> = hotspot.nodes.iter().filter(|node| asked_for(hotspot, node, question)).collect();
        if !nodes.is_empty() {
            any = true;
            show(&mut page, report, hotspot, &nodes, question);
        }
    }
    let sites: Vec<_> = report.declined.iter().filter(|declined| declined_asked_for(declined, question)).collect();
    let trials: Vec<_> = report.trials.iter().filter(|trial| trial_asked_for(trial, question)).collect();
    if !any && sites.is_empty() && trials.is_empty() {
        if let Some(asked) = &question.node {
            let known = original.hotspots.iter().flat_map(|hotspot| &hotspot.nodes).map(|node| node.node.clone());
            return Err(Error::NoNode { asked: asked.clone(), known: known.take(NAMED).collect() });
        }
        page.gap();
        page.paragraph(0, PLAIN, "Every node of this model runs inside the delegate; there is nothing to explain");
    }
    if question.node.is_some() || question.rule.is_some() {
        show_trials(&mut page, &trials);
        show_declined(&mut page, &sites);
    }
    Ok(page.finish())
}

/// Ids of all rules that looked at something, sorted.
fn rules(report: &Report) -> Vec<String> {
    let of_nodes = report
        .original
        .iter()
        .chain(&report.repaired)
        .flat_map(|profile| &profile.hotspots)
        .flat_map(|hotspot| &hotspot.nodes)
        .flat_map(|node| &node.rules)
        .map(|verdict| &verdict.rule);
    let others =
        report.trials.iter().map(|trial| &trial.rule).chain(report.declined.iter().map(|declined| &declined.rule));
    let ids: std::collections::BTreeSet<_> = of_nodes.chain(others).map(|rule| rule.id.clone()).collect();
    ids.into_iter().collect()
}

fn asked_for(hotspot: &Hotspot, node: &HotspotNode, question: &Question) -> bool {
    let named = question.node.as_ref().is_none_or(|asked| {
        let line = node.source.as_ref().map(|source| format!("{}:{}", source.file, source.line)).unwrap_or_default();
        [&node.node, &hotspot.kernel, &node.op, &node.module_path, &line]
            .iter()
            .any(|text| text.contains(asked.as_str()))
    });
    let ruled = question.rule.as_ref().is_none_or(|asked| node.rules.iter().any(|verdict| &verdict.rule.id == asked));
    named && ruled
}

fn declined_asked_for(declined: &Declined, question: &Question) -> bool {
    let site = &declined.site;
    let named = question
        .node
        .as_ref()
        .is_none_or(|asked| [&site.node, &site.op, &site.module_path].iter().any(|text| text.contains(asked.as_str())));
    named && question.rule.as_ref().is_none_or(|asked| &declined.rule.id == asked)
}

fn trial_asked_for(trial: &Trial, question: &Question) -> bool {
    let named = question.node.as_ref().is_none_or(|asked| {
        trial.sites.iter().any(|site| [&site.node, &site.op].iter().any(|text| text.contains(asked.as_str())))
    });
    named && question.rule.as_ref().is_none_or(|asked| &trial.rule.id == asked)
}

/// Nodes of one kernel; those with the same explanation and the same answers of rules stand together.
fn show(page: &mut Page, report: &Report, hotspot: &Hotspot, nodes: &[&HotspotNode], question: &Question) {
    let target = &report.setting.target;
    page.gap();
    let share = format!("  {} of the runtime, ", Figure::of(&hotspot.share).beside(target));
    let calls = figures::counted(hotspot.calls, "call");
    page.line(0, &[(HEADING, &hotspot.kernel), (PLAIN, &share), (PLAIN, &calls)]);
    let mut groups: Vec<(&HotspotNode, Vec<&HotspotNode>)> = Vec::new();
    for &node in nodes {
        let alike =
            |first: &HotspotNode| first.op == node.op && first.reason == node.reason && first.rules == node.rules;
        match groups.iter_mut().find(|(first, _)| alike(first)) {
            Some((_, members)) => members.push(node),
            None => groups.push((node, vec![node])),
        }
    }
    let all = question.node.is_some();
    for (first, members) in groups {
        for node in members.iter().take(if all { usize::MAX } else { NAMED }) {
            show_node(page, node, target, all);
        }
        if !all && members.len() > NAMED {
            let rest = figures::counted((members.len() - NAMED) as u64, "more node");
            page.line(2, &[(FAINT, &format!("and {rest} like these"))]);
        }
        let insight = insight::explain(&first.op, &first.reason);
        page.led(4, (HEADING, "why   "), PLAIN, &insight.plain);
        if !first.reason.partitioner.is_empty() {
            page.led(4, (FAINT, "      partitioner: "), FAINT, &first.reason.partitioner);
        }
        if let Some(fix) = insight.fix {
            page.led(4, (HEADING, "fix   "), PLAIN, fix);
        }
        if let Some(rule) = insight.rule.filter(|id| !first.rules.iter().any(|verdict| verdict.rule.id == *id)) {
            page.led(4, (HEADING, "rule  "), PLAIN, &format!("{rule} is made for this; it did not look at this node"));
        }
        let chosen = |verdict: &&RuleVerdict| question.rule.as_ref().is_none_or(|asked| &verdict.rule.id == asked);
        for verdict in first.rules.iter().filter(chosen) {
            show_verdict(page, verdict);
        }
        if first.rules.is_empty() && insight.rule.is_none() {
            page.led(4, (HEADING, "rule  "), PLAIN, "no installed rule looks at this op");
        }
    }
}

fn show_node(page: &mut Page, node: &HotspotNode, target: &TargetLabel, detailed: bool) {
    let share = node.share.as_ref().map(|share| format!("  {}", Figure::of(share).beside(target))).unwrap_or_default();
    page.line(2, &[(COMMAND, &node.node), (FAINT, &share), (FAINT, "  "), (FAINT, &node.shape)]);
    page.line(4, &[(PLAIN, &terminal::place(node))]);
    if detailed && !node.module_path.is_empty() {
        page.line(4, &[(FAINT, "in "), (FAINT, &node.module_path), (FAINT, "  lowered as "), (FAINT, &node.op)]);
    }
}

fn show_verdict(page: &mut Page, verdict: &RuleVerdict) {
    let (word, tone) = wording::rule_outcome(verdict.outcome);
    let mut text = word.to_owned();
    if !verdict.message.is_empty() && verdict.outcome != super::model::RuleOutcome::Matched {
        text.push_str(&format!(": {}", verdict.message));
    }
    if !verdict.code.is_empty() {
        text.push_str(&format!(" ({})", verdict.code));
    }
    let lead = format!("rule  {} {}  ", tone.mark(), verdict.rule);
    page.led(4, (HEADING, &lead), PLAIN, &text);
}

fn show_trials(page: &mut Page, trials: &[&Trial]) {
    if trials.is_empty() {
        return;
    }
    page.heading("Repairs tried");
    for trial in trials {
        let (word, tone) = wording::outcome(trial.outcome, trial.gate);
        let lead = format!("{} {word}", tone.mark());
        let sites = figures::counted(trial.sites.len() as u64, "site");
        let rest = format!("  {}, {sites}, round {}", trial.rule, trial.round);
        page.line(2, &[(terminal::style(tone), &lead), (PLAIN, &rest)]);
        page.paragraph(4, PLAIN, &trial.why);
        terminal::gate_line(page, 4, trial);
        page.paragraph(4, PLAIN, &trial.reason);
        for gate in trial.gates.iter().filter(|gate| Some(gate.gate) == trial.gate) {
            page.led(4, (HEADING, &format!("{}: ", wording::gate_name(gate.gate))), PLAIN, &gate.summary);
            for fact in &gate.facts {
                page.led(6, (PLAIN, &format!("{}: ", fact.name)), PLAIN, &format!("{} ({})", fact.value, fact.source));
            }
        }
    }
}

fn show_declined(page: &mut Page, sites: &[&Declined]) {
    if sites.is_empty() {
        return;
    }
    page.heading("Sites that rules left alone");
    for declined in sites {
        let rule = format!("  {}, round {}", declined.rule, declined.round);
        page.line(2, &[(COMMAND, &declined.site.node), (FAINT, &rule)]);
        page.paragraph(4, PLAIN, &format!("{} ({})", declined.message, declined.code));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn sample(wanted: &str) -> Report {
        samples::all().into_iter().find(|(name, _)| *name == wanted).map(|(_, report)| report).expect("sample")
    }

    fn ask(report: &Report, node: Option<&str>, rule: Option<&str>) -> Result<String, Error> {
        let question = Question { node: node.map(Into::into), rule: rule.map(Into::into) };
        render(report, &question).map(|text| anstream::adapter::strip_str(&text).to_string())
    }

    #[test]
    fn everything_a_node_and_a_rule() {
        let report = sample("accepted");
        insta::assert_snapshot!("explain-everything", ask(&report, None, None).expect("answer"));
        insta::assert_snapshot!("explain-node", ask(&report, Some("heads.py:24"), None).expect("answer"));
        insta::assert_snapshot!("explain-rule", ask(&report, None, Some("dd-003")).expect("answer"));
        insta::assert_snapshot!("explain-rejected", ask(&sample("rejected"), None, Some("dd-101")).expect("answer"));
    }

    #[test]
    fn a_question_that_matches_nothing_says_what_there_is() {
        let report = sample("accepted");
        let error = ask(&report, Some("conv2d_99"), None).expect_err("no such node");
        assert_eq!(error.to_string(), "No node outside the delegate matches `conv2d_99`");
        assert!(error.hint().expect("hint").contains("slice_0"), "{:?}", error.hint());
        let error = ask(&report, None, Some("dd-999")).expect_err("no such rule");
        assert_eq!(error.hint().expect("hint"), "Rules that looked are dd-001, dd-002, dd-003");
        let error = ask(&sample("lowering-unsupported"), None, None).expect_err("no profile");
        assert!(matches!(error, Error::NoProfile { status: "LOWERING_UNSUPPORTED" }));
        assert!(ask(&sample("nothing-to-do"), None, None).expect("answer").contains("nothing to explain"));
    }

    #[test]
    fn hostile_text_cannot_control_the_terminal() {
        let text = ask(&sample("hostile"), None, None).expect("answer");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
