//! Runs one case as far as it gets.

use std::collections::HashMap;

use dd_tests::{bundled_rule, host_site, rule_sandbox, test_rule_bytes, workspace};
use delegate_doctor::gates::GateStatus;
use delegate_doctor::gates::site_equivalence::judge_programs;
use delegate_doctor::gates::tolerance::Claim;
use delegate_doctor::graph::archive;
use delegate_doctor::matching::{Facts, Index};
use delegate_doctor::rewrite::{ReferenceEvaluator, propose};
use delegate_doctor::sandbox::contract::{Numerics, Site};
use delegate_doctor::sandbox::{Error, Limits, Rule, Sandbox};
use hostile_rules::{Case, End, Source, Trial};
use rule_sdk::testing;

/// What happened.
pub(crate) struct Outcome {
    pub(crate) ends: End,
    pub(crate) message: String,
    pub(crate) names_rule: bool,
}

impl Outcome {
    fn failed(error: &Error, names: &[&str]) -> Self {
        let message = error.to_string();
        let names_rule = names.iter().any(|name| message.starts_with(&format!("rule {name}")));
        Self { ends: End::Failed(error.class), message, names_rule }
    }

    fn harmless(message: impl Into<String>) -> Self {
        Self { ends: End::Harmless, message: message.into(), names_rule: true }
    }
}

/// A sandbox that all cases share, with an honest rule in it.
pub(crate) struct Bench {
    sandbox: Sandbox,
    honest: Rule,
    site: Site,
    crafted: Vec<u8>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let sandbox = rule_sandbox(Limits::standard());
        let graph = "x: f32[2,3,4] = input\ny: f32[2,3,4] = aten.softmax.int(self=x, dim=1, dtype=None)\nreturn y";
        let site = host_site(&testing::site::<dd_001_softmax_layout::SoftmaxLayout>(graph));
        Self { sandbox, honest: bundled_rule("dd-001"), site, crafted: test_rule_bytes("test-crafted") }
    }

    pub(crate) fn bytes(&self, case: &Case) -> Vec<u8> {
        match case.source {
            Source::Bytes(make) => make(),
            Source::Crafted => dd_tests::craft(&self.crafted, case.name).unwrap_or_else(|error| panic!("{error}")),
        }
    }

    /// The honest rule's answer is what it always is.
    pub(crate) fn honest_rule_answers(&self) -> Result<(), String> {
        match self.honest.examine(&[&self.site]).pop() {
            Some(Ok(answer)) if matches!(answer.verdict, delegate_doctor::sandbox::contract::Verdict::Rewrite(_)) => {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    }

    pub(crate) fn run(&self, case: &Case, bytes: &[u8]) -> Outcome {
        let file = format!("{}.wasm", case.name);
        let rule = match self.sandbox.load(&file, bytes) {
            Ok(rule) => rule,
            Err(error) => return Outcome::failed(&error, &[&file]),
        };
        match case.trial {
            Trial::Load => Outcome::harmless("it loads"),
            Trial::Ask => self.ask(&rule),
            Trial::Rewrite(program) => rewrite(&rule, program),
        }
    }

    /// Asks three times: the answers of a rule cannot differ.
    fn ask(&self, rule: &Rule) -> Outcome {
        let answers = rule.examine(&[&self.site; 3]);
        if !answers.windows(2).all(|pair| pair[0] == pair[1]) {
            return Outcome {
                ends: End::Undecided,
                message: format!("answers differ: {answers:?}"),
                names_rule: false,
            };
        }
        match answers.first() {
            Some(Err(error)) => Outcome::failed(error, &[&rule.name()]),
            Some(Ok(answer)) => Outcome::harmless(format!("{:?}", answer.verdict)),
            None => panic!("no answer"),
        }
    }
}

fn claim(numerics: Numerics) -> Claim {
    match numerics {
        Numerics::Exact => Claim::Exact,
        Numerics::Tolerant(tolerance) => Claim::Tolerant { relative: tolerance.rtol },
        Numerics::Corrective(tolerance) => Claim::Corrective { relative: tolerance.rtol },
    }
}

/// Asks about a whole program, applies what the host lets through, and has gate 1 judge it.
fn rewrite(rule: &Rule, program: &str) -> Outcome {
    let path = workspace().join("tests/fixtures").join(format!("{program}.pt2"));
    let original = archive::read(&path, &archive::Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    let facts = Facts::default();
    let proposals = propose(&original, &Index::new(&original, &facts), rule).unwrap_or_else(|error| panic!("{error}"));
    if let Some((_, error)) = proposals.failed.first() {
        return Outcome::failed(error, &[&rule.name()]);
    }
    if let Some(refusal) = proposals.refused.first() {
        let message = refusal.to_string();
        let names_rule = message.contains(&rule.origin());
        return Outcome { ends: End::Refused(refusal.code), message, names_rule };
    }
    let Some(first) = proposals.draft.proposals.first() else {
        return Outcome::harmless(format!("{:?}", proposals.declined));
    };
    let claim = claim(first.numerics);
    let patch = match proposals.draft.finish(&original, &mut ReferenceEvaluator::default()) {
        Ok(patch) => patch,
        Err(error) => {
            let names_rule = error.to_string().contains(&rule.origin());
            return Outcome { ends: End::Refused("fold"), message: error.to_string(), names_rule };
        }
    };
    let applied = original.apply(&patch).unwrap_or_else(|error| panic!("the host let through what fails: {error}"));
    let judged = judge_programs(&original, &applied.program, claim, 7, &HashMap::new(), None);
    let message = format!("{}: {}", patch.title, judged.report.summary);
    let names_rule = message.starts_with(&rule.origin());
    let ends = match judged.report.status {
        GateStatus::Pass => End::Harmless,
        GateStatus::Fail => End::Disproved,
        GateStatus::Inconclusive | GateStatus::NotRun => End::Undecided,
    };
    Outcome { ends, message, names_rule }
}
