//! What one rule says about one model: every site, with the best near miss first.
//!
//! In: a loaded rule, a model. Out: [`WhyNot`]. The model is exported and lowered, so that the rule sees what
//! runs outside the delegate, but nothing is run or measured.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::Clock;
use crate::lower::Job;
use crate::matching::{Facts, Index, Remark, Target};
use crate::model::Model;
use crate::pipeline::{self, Error};
use crate::progress::Progress;
use crate::rewrite;
use crate::run_folder::RunFolder;
use crate::sandbox::Rule;
use crate::settings::OptimizeSettings;
use crate::torch;
use crate::torch::protocol::{Lowered, SourceLine};
use crate::workbench::Workbench;

/// How many nodes of a kindred op are named when nothing matched.
const KINDRED: usize = 5;

/// Everything the rule said.
#[derive(Clone, Debug, Serialize)]
pub struct WhyNot {
    /// `dd-001 1.0.0`
    pub rule: String,
    /// the model as typed
    pub model: String,
    /// nodes of the exported program
    pub nodes: usize,
    /// ops that the rule looks at
    pub anchors: Vec<String>,
    /// the places, the ones that would be repaired first, then near misses outside the delegate, then the rest
    pub sites: Vec<SiteAnswer>,
    /// nodes whose op resembles an anchor, when no op matched
    pub kindred: Vec<Kindred>,
}

/// What the rule said about one place.
#[derive(Clone, Debug, Serialize)]
pub struct SiteAnswer {
    /// node of the exported program
    pub node: String,
    /// its op
    pub op: String,
    /// the user's line
    pub source: Option<SourceLine>,
    /// module path
    pub module_path: String,
    /// why the partitioner refused it; none when it runs in the delegate
    pub outside: Option<String>,
    /// how the rule, or the host, answered
    pub outcome: Outcome,
    /// reason code
    pub code: String,
    /// words
    pub message: String,
}

/// How a place ended, in the order in which they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// the rule proposes a repair that the host takes
    WouldRepair,
    /// the rule proposes something that the host refuses
    Refused,
    /// the rule itself failed
    Failed,
    /// the rule leaves it alone
    Declined,
    /// the host does not show it
    NotShown,
}

/// A node whose op resembles one that the rule looks at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kindred {
    /// node
    pub node: String,
    /// its op
    pub op: String,
    /// the anchor it resembles
    pub anchor: String,
}

/// Asks the rule about every place of the model.
///
/// # Errors
/// When the model cannot be exported or lowered, or the surroundings fail.
pub fn ask(settings: &OptimizeSettings, rule: &Rule, progress: &dyn Progress) -> Result<WhyNot, Error> {
    let model = Model::parse(&settings.model)?;
    let folder = RunFolder::open(&settings.place, &model, &settings.command, &BTreeMap::new())?;
    let bench = Workbench::prepare(settings, folder, Clock::default(), progress)?;
    let (stored, _) = pipeline::export_program(&bench, &model)?;
    let step = progress.step("Lowering for XNNPACK");
    let job = Job { program: stored.path.clone(), key: stored.key.clone(), folder: bench.folder.folder("original")? };
    let lowered = bench.lower(std::slice::from_ref(&job)).pop();
    let lowered = lowered.unwrap_or(Err(torch::Error::Ended { method: "lower" }))?;
    step.done("Lowered");

    let program = &stored.program;
    let graph = program.graph();
    let environment = bench.workers.environment();
    let facts = facts(&lowered.record, environment);
    let index = Index::new(program, &facts);
    let found = rewrite::propose(program, &index, rule)?;
    let outside: BTreeMap<&str, &crate::torch::protocol::Fallback> = lowered
        .record
        .fallbacks
        .iter()
        .flat_map(|fallback| fallback.original_nodes.iter().map(move |name| (name.as_str(), fallback)))
        .collect();
    let mut sites = Vec::new();
    let mut add = |node, outcome: Outcome, code: &str, message: &str| {
        let Some(node) = graph.node(node) else { return };
        let fallback = outside.get(node.name.as_str());
        sites.push(SiteAnswer {
            node: node.name.clone(),
            op: node.op.clone(),
            source: fallback
                .and_then(|fallback| fallback.source.clone())
                .or_else(|| node.stack_trace().and_then(innermost)),
            module_path: fallback.map_or_else(String::new, |fallback| fallback.module_path.clone()),
            outside: fallback.map(|fallback| fallback.reason.text.clone()),
            outcome,
            code: code.to_owned(),
            message: message.to_owned(),
        });
    };
    for proposal in &found.draft.proposals {
        add(proposal.anchor, Outcome::WouldRepair, &proposal.why.code, &proposal.why.message);
    }
    for refusal in &found.refused {
        add(refusal.node, Outcome::Refused, refusal.code, &refusal.reason);
    }
    for (node, error) in &found.failed {
        add(*node, Outcome::Failed, error.class.name(), &error.reason);
    }
    for declined in &found.declined {
        add(declined.node, Outcome::Declined, &declined.reason.code, &declined.reason.message);
    }
    for left_out in &found.left_out {
        add(left_out.node, Outcome::NotShown, "not-shown", &left_out.reason);
    }
    // Stable, so that places of equal rank stay in execution order.
    sites.sort_by_key(|site| (site.outcome, site.outside.is_none()));
    let mut anchors: Vec<String> = rule.manifest().anchors.iter().flat_map(|anchor| anchor.ops.clone()).collect();
    anchors.sort();
    anchors.dedup();
    let kindred =
        if sites.is_empty() { kindred(graph.nodes().iter().map(AsRef::as_ref), &anchors) } else { Vec::new() };
    Ok(WhyNot { rule: rule.name(), model: settings.model.clone(), nodes: graph.nodes().len(), anchors, sites, kindred })
}

fn facts(record: &Lowered, environment: &torch::Environment) -> Facts {
    let mut facts = Facts {
        target: Target {
            backend: "xnnpack".to_owned(),
            backend_version: environment.executorch_version.clone(),
            exporter: format!("torch {}", environment.torch_version),
        },
        ..Facts::default()
    };
    for fallback in &record.fallbacks {
        for name in &fallback.original_nodes {
            let remark = Remark { code: fallback.reason.code.clone(), text: fallback.reason.text.clone() };
            facts.outside.entry(name.clone()).or_default().push(remark);
        }
    }
    facts
}

/// The innermost line of a Python traceback, as the exporter keeps one for each node.
fn innermost(trace: &str) -> Option<SourceLine> {
    let lines: Vec<&str> = trace.lines().map(str::trim).collect();
    let place = lines.iter().rposition(|line| line.starts_with("File \""))?;
    let (file, rest) = lines.get(place)?.strip_prefix("File \"")?.split_once("\", line ")?;
    let line = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    let text = lines.get(place + 1).copied().unwrap_or_default().to_owned();
    let function = rest.split_once(", in ").map_or("", |(_, function)| function).to_owned();
    Some(SourceLine { file: file.to_owned(), line, function, text })
}

/// Nodes whose op has the same name as an anchor but for overload, leading underscore or trailing one.
fn kindred<'a>(nodes: impl IntoIterator<Item = &'a crate::graph::Node>, anchors: &[String]) -> Vec<Kindred> {
    let stem = |op: &str| op.split('.').nth(1).unwrap_or(op).trim_matches('_').to_owned();
    let stems: Vec<(String, &String)> = anchors.iter().map(|anchor| (stem(anchor), anchor)).collect();
    nodes
        .into_iter()
        .filter_map(|node| {
            let own = stem(&node.op);
            let (_, anchor) = stems.iter().find(|(stem, _)| *stem == own)?;
            Some(Kindred { node: node.name.clone(), op: node.op.clone(), anchor: (*anchor).clone() })
        })
        .take(KINDRED)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_line_of_a_traceback_is_the_users() {
        let trace = "  File \"/a/net.py\", line 7, in forward\n    return self.head(x)\n  File \"/a/head.py\", line 24, in forward\n    return torch.softmax(x, 1)\n";
        let line = innermost(trace).expect("a line");
        assert_eq!(
            (line.file.as_str(), line.line, line.text.as_str()),
            ("/a/head.py", 24, "return torch.softmax(x, 1)")
        );
        assert!(innermost("").is_none() && innermost("File \"x").is_none());
    }
}
