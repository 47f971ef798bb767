//! From a measured program to repairs worth trying.
//!
//! In: the base program with its ranking, the rules. Out: [`Proposals`]: for every rule one [`Candidate`]
//! with all its sites, and what rules said about the sites they left alone. A rule is asked natively
//! matched sites only; what it answers is checked by the host before it counts.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fs_err as fs;

use crate::clock::Clock;
use crate::files;
use crate::gates::tolerance::Claim;
use crate::graph::{Applied, NodeId, Patch, Program};
use crate::matching::{Facts, Index, Remark, Target};
use crate::pipeline::{Base, Error, check_interrupt};
use crate::progress::Progress;
use crate::registry::install::{self, Registries, Scope};
use crate::registry::{self, client::Manner};
use crate::report::model::{RuleClass, RuleOutcome, RuleRef, RuleVerdict};
use crate::rewrite::{self, Draft, ReferenceEvaluator};
use crate::sandbox::contract::{Numerics, Stability};
use crate::sandbox::{self, Helper, Limits, Options, Rule, Sandbox, Tier, inspect_tier};
use crate::settings::OptimizeSettings;
use crate::torch_operators::TorchOperators;
use crate::workbench::Workbench;

/// The rules of a run.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    pub(crate) rules: Vec<Rule>,
    /// rules that could not be loaded, in words
    pub(crate) failures: Vec<String>,
    /// ids of rules that the user did not want, or that are previews nobody asked for
    pub(crate) left_out: Vec<String>,
}

/// All sites of one rule as one patch.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) rule: RuleRef,
    /// anchors, in execution order
    pub(crate) sites: Vec<NodeId>,
    pub(crate) patch: Patch,
    /// what the patch gives on the program that the rules were asked about, where that is known already
    pub(crate) applied: Option<Applied>,
    /// the rule's own explanation
    pub(crate) why: String,
    pub(crate) claim: Claim,
    /// measured share of the anchors' fallbacks
    pub(crate) share: f64,
}

/// A site that a rule left alone.
#[derive(Clone, Debug)]
pub(crate) struct DeclinedSite {
    pub(crate) rule: RuleRef,
    pub(crate) node: NodeId,
    pub(crate) code: String,
    pub(crate) message: String,
}

/// What the rules say about a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proposals {
    /// the largest measured share first
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) declined: Vec<DeclinedSite>,
    /// by name of the exported node
    pub(crate) verdicts: Vec<(String, RuleVerdict)>,
    /// rules that failed, in words
    pub(crate) failures: Vec<String>,
}

/// What was tried and where the loop has been.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// rule and anchors
    tried: BTreeSet<(String, Vec<NodeId>)>,
    visited: BTreeSet<String>,
}

impl Memory {
    /// Notes a candidate whose trial has ended.
    pub(crate) fn tried(&mut self, candidate: &Candidate) {
        self.tried.insert((candidate.rule.to_string(), candidate.sites.clone()));
    }

    fn has_tried(&self, candidate: &Candidate) -> bool {
        self.tried.contains(&(candidate.rule.to_string(), candidate.sites.clone()))
    }

    /// Notes a program; false when the loop has been there before.
    pub(crate) fn visit(&mut self, program: &Program) -> bool {
        self.visited.insert(program.fingerprint().to_owned())
    }
}

/// Refuses folders of rules that cannot be read, before any work is done.
///
/// # Errors
/// [`Error::RuleFolder`]
pub(crate) fn check_folders(folders: &[PathBuf]) -> Result<(), Error> {
    for folder in folders {
        fs::read_dir(folder).map_err(|source| Error::RuleFolder { folder: folder.clone(), source })?;
    }
    Ok(())
}

/// The sandbox of the many, and the one of script rules.
struct Sandboxes {
    compiled: Sandbox,
    script: Sandbox,
}

impl Sandboxes {
    fn new(settings: &OptimizeSettings) -> Result<Self, Error> {
        let with = |limits: Limits| {
            let cache = Some(settings.common.folders.compiled_rules());
            Ok::<_, Error>(Sandbox::new(Options { limits, cache, helper: Helper::current()? })?)
        };
        Ok(Self { compiled: with(Tier::Compiled.limits())?, script: with(Tier::Script.limits())? })
    }

    /// Loads a rule in the sandbox of its tier; why it cannot be used, in words.
    fn load(&self, label: &str, bytes: &[u8], script: bool, progress: &dyn Progress) -> Result<Rule, String> {
        let words = |error: sandbox::Error| error.to_string();
        match inspect_tier(bytes) {
            Ok((_, Tier::Script)) if !script => Err(format!(
                "rule {label}: it is a script rule of {} bytes, which takes part only with `--script-rules`, or \
                 `script-rules = true` under `[optimize]` in the project file",
                bytes.len()
            )),
            Ok((_, Tier::Script)) => {
                let step = progress.step(&format!("Loading the script rule `{label}`; the first time, it is compiled"));
                let rule = self.script.load(label, bytes).map_err(words)?;
                step.done(&format!("Loaded the script rule {}", rule.name()));
                Ok(rule)
            }
            // What belongs to no tier is refused here.
            Ok((_, Tier::Compiled)) | Err(_) => self.compiled.load(label, bytes).map_err(words),
        }
    }
}

/// Loads the installed rules, verified once more, and those of the folders that the user named, as far as the user wants them.
/// A rule that cannot be loaded is a failure of that rule, not of the run.
///
/// # Errors
/// When the sandbox itself does not work, or the user named a rule that does not exist.
pub(crate) fn load_rules(
    settings: &OptimizeSettings,
    clock: &Clock,
    progress: &dyn Progress,
) -> Result<RuleSet, Error> {
    let sandboxes = Sandboxes::new(settings)?;
    let mut set = RuleSet::default();
    let mut known: Vec<String> = Vec::new();
    let mut add = |set: &mut RuleSet, label: &str, bytes: &[u8], unsigned: bool| match clock
        .child(|| sandboxes.load(label, bytes, settings.rules.script, progress))
    {
        Ok(rule) => {
            known.push(rule.id().to_owned());
            let preview = rule.manifest().stability == Stability::Preview && !unsigned;
            if !settings.rules.includes(rule.id(), preview) {
                set.left_out.push(rule.id().to_owned());
            } else {
                if unsigned {
                    progress.warning(&format!("The rule {} is unsigned: `{label}`", rule.name()));
                    // The one that is being worked on stands for the one that is installed.
                    let (same, others) = std::mem::take(&mut set.rules)
                        .into_iter()
                        .partition(|other: &Rule| other.id().eq_ignore_ascii_case(rule.id()));
                    set.rules = others;
                    for other in same {
                        progress.warning(&format!(
                            "It takes the place of the rule {}, which does not take part",
                            other.name()
                        ));
                    }
                }
                set.rules.push(rule);
            }
        }
        Err(error) => {
            progress.warning(&error);
            set.failures.push(error);
        }
    };
    let places = settings.common.folders.rules();
    let manner = Manner { offline: true, ..Manner::default() };
    let mut registries = Registries::new(places, manner, crate::clock::time_of_day(), registry::bundled_files())?;
    let project = settings.rules.project.as_deref().map(Scope::project);
    let effective = install::effective(&mut registries, project.as_ref(), settings.rules.locked)?;
    for warning in registries.warnings.drain(..) {
        progress.warning(&registry::client::harmless(&warning));
    }
    for effective in effective {
        add(&mut set, &effective.component.name(), &effective.component.bytes, false);
    }
    for folder in &settings.rules.folders {
        let mut paths: Vec<_> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "wasm"));
        paths.sort();
        if paths.is_empty() {
            progress.warning(&format!("There is no rule component (`*.wasm`) in `{}`", folder.display()));
        }
        for path in paths {
            let label = path.display().to_string();
            match files::read_regular(&path, Limits::script().component_bytes as u64) {
                Ok(bytes) => add(&mut set, &label, &bytes, true),
                Err(error) => {
                    let failure = format!("The rule `{label}` cannot be read: {error}");
                    progress.warning(&failure);
                    set.failures.push(failure);
                }
            }
        }
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some(id) = settings.rules.unknown(&known).first() {
        let known = known.iter().map(|id| (*id).to_owned()).collect();
        return Err(Error::UnknownRule { id: (*id).to_owned(), known });
    }
    for rule in &set.rules {
        progress.detail(&format!("The rule {} takes part", rule.name()));
    }
    for id in &set.left_out {
        progress.detail(&format!("The rule {id} does not take part"));
    }
    Ok(set)
}

/// Asks every rule about the base program.
///
/// # Errors
/// When the user interrupts, or a folder for tensors cannot be made.
pub(crate) fn propose(
    bench: &Workbench<'_>,
    rules: &RuleSet,
    base: &Base,
    memory: &Memory,
) -> Result<Proposals, Error> {
    let program = &base.stored.program;
    let graph = program.graph();
    let facts = facts(bench, base);
    let index = Index::new(program, &facts);
    let operators = TorchOperators::new(&bench.workers, bench.folder.path())?;
    let mut all = Proposals::default();
    for rule in &rules.rules {
        check_interrupt()?;
        let name = reference(rule);
        let found = rewrite::propose(program, &index, rule)?;
        let mut say = |node: NodeId, outcome: RuleOutcome, code: &str, message: &str| {
            if let Some(node) = graph.node(node) {
                let verdict =
                    RuleVerdict { rule: name.clone(), outcome, code: code.to_owned(), message: message.to_owned() };
                all.verdicts.push((node.name.clone(), verdict));
            }
        };
        for declined in &found.declined {
            if let Some(node) = graph.node(declined.node) {
                let (reason, node) = (&declined.reason, &node.name);
                bench.progress.detail(&format!("{name} leaves `{node}` alone: {} ({})", reason.message, reason.code));
            }
            say(declined.node, RuleOutcome::Declined, &declined.reason.code, &declined.reason.message);
        }
        for refusal in &found.refused {
            say(refusal.node, RuleOutcome::Refused, refusal.code, &refusal.reason);
        }
        for (node, error) in &found.failed {
            say(*node, RuleOutcome::Failed, error.class.name(), &error.to_string());
        }
        for left_out in &found.left_out {
            say(left_out.node, RuleOutcome::Declined, "left-out", &left_out.reason);
        }
        for proposal in &found.draft.proposals {
            say(proposal.anchor, RuleOutcome::Matched, &proposal.why.code, &proposal.why.message);
        }
        all.declined.extend(found.declined.iter().map(|declined| DeclinedSite {
            rule: name.clone(),
            node: declined.node,
            code: declined.reason.code.clone(),
            message: declined.reason.message.clone(),
        }));
        all.failures.extend(found.refused.iter().map(ToString::to_string));
        all.failures.extend(found.failed.iter().map(|(_, error)| error.to_string()));
        if found.draft.is_empty() {
            continue;
        }
        let candidate = match candidate(program, &name, &found.draft, &facts, &operators) {
            Ok(candidate) => candidate,
            Err(why) => {
                all.failures.push(why);
                continue;
            }
        };
        let corrective = matches!(candidate.claim, Claim::Corrective { .. });
        if candidate.share < bench.min_share() && !corrective {
            continue;
        }
        if !memory.has_tried(&candidate) {
            all.candidates.push(candidate);
        }
    }
    all.candidates.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.rule.id.cmp(&b.rule.id)));
    Ok(all)
}

/// What lowering and profiling say about the nodes of the graph.
fn facts(bench: &Workbench<'_>, base: &Base) -> Facts {
    let environment = bench.workers.environment();
    let ranking = &base.measured.ranking;
    let mut facts = Facts {
        target: Target {
            backend: "xnnpack".to_owned(),
            backend_version: environment.executorch_version.clone(),
            exporter: format!("torch {}", environment.torch_version),
        },
        ..Facts::default()
    };
    for node in ranking.all().flat_map(|hotspot| &hotspot.nodes) {
        for name in &node.original_nodes {
            let remark = Remark { code: node.reason.code.clone(), text: node.reason.text.clone() };
            facts.outside.entry(name.clone()).or_default().push(remark);
        }
    }
    facts.share = ranking.share_by_original_node().into_iter().map(|(name, share)| (name.to_owned(), share)).collect();
    facts
}

fn candidate(
    program: &Program,
    rule: &RuleRef,
    draft: &Draft,
    facts: &Facts,
    operators: &TorchOperators<'_>,
) -> Result<Candidate, String> {
    let graph = program.graph();
    let patch = draft
        .finish(program, &mut ReferenceEvaluator { delegate: Some(operators) })
        .map_err(|error| error.to_string())?;
    let sites: Vec<NodeId> = draft.proposals.iter().map(|proposal| proposal.anchor).collect();
    let names = sites.iter().filter_map(|site| graph.node(*site)).map(|node| node.name.as_str());
    let share = names.filter_map(|name| facts.share.get(name)).sum();
    let mut reasons: Vec<&str> = Vec::new();
    for proposal in &draft.proposals {
        if !reasons.contains(&proposal.why.message.as_str()) {
            reasons.push(&proposal.why.message);
        }
    }
    let more = reasons.len().saturating_sub(3);
    reasons.truncate(3);
    let mut why = reasons.join("; ");
    if more > 0 {
        why.push_str(&format!("; and {more} more"));
    }
    let claim = draft.proposals.iter().fold(Claim::Exact, |claim, proposal| weaker(claim, claim_of(proposal.numerics)));
    let applied = draft.applied_to(program).cloned();
    Ok(Candidate { rule: rule.clone(), sites, patch, applied, why, claim, share })
}

fn claim_of(numerics: Numerics) -> Claim {
    match numerics {
        Numerics::Exact => Claim::Exact,
        Numerics::Tolerant(tolerance) => Claim::Tolerant { relative: tolerance.rtol },
        Numerics::Corrective(tolerance) => Claim::Corrective { relative: tolerance.rtol },
    }
}

/// The claim that holds for two sites together.
fn weaker(a: Claim, b: Claim) -> Claim {
    match (a, b) {
        (Claim::Exact, other) | (other, Claim::Exact) => other,
        (Claim::Tolerant { relative: a }, Claim::Tolerant { relative: b }) => Claim::Tolerant { relative: a.max(b) },
        (Claim::Corrective { relative: a } | Claim::Tolerant { relative: a }, Claim::Corrective { relative: b })
        | (Claim::Corrective { relative: a }, Claim::Tolerant { relative: b }) => {
            Claim::Corrective { relative: a.max(b) }
        }
    }
}

/// A rule as reports name it.
fn reference(rule: &Rule) -> RuleRef {
    let manifest = rule.manifest();
    RuleRef {
        id: manifest.id.clone(),
        version: manifest.version.clone(),
        title: manifest.title.clone(),
        class: match manifest.numerics {
            Numerics::Exact => RuleClass::Exact,
            Numerics::Tolerant(_) => RuleClass::Tolerant,
            Numerics::Corrective(_) => RuleClass::Corrective,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_together_claim_what_the_weakest_claims() {
        let tolerant = |relative| Claim::Tolerant { relative };
        assert_eq!(weaker(Claim::Exact, Claim::Exact), Claim::Exact);
        assert_eq!(weaker(tolerant(1e-6), Claim::Exact), tolerant(1e-6));
        assert_eq!(weaker(tolerant(1e-6), tolerant(1e-5)), tolerant(1e-5));
        let corrective = Claim::Corrective { relative: 1e-6 };
        assert_eq!(weaker(corrective, tolerant(1e-5)), Claim::Corrective { relative: 1e-5 });
        assert_eq!(weaker(tolerant(1e-5), corrective), Claim::Corrective { relative: 1e-5 });
    }
}
