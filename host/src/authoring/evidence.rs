//! The evidence bundle: what the gates said about one rule on some models, enough to judge it elsewhere.
//!
//! One JSON file, `evidence.json`. It names the component by its hash, the tools and the devices by their
//! versions, and holds every gate's result and every latency sample of every trial.

use serde::{Deserialize, Serialize};

use crate::gates::Gate;
use crate::report::model::{Report, RuleOutcome, Setting, Trial, TrialOutcome, Versions};

/// Name of the document's kind.
pub const SCHEMA: &str = "delegate-doctor/evidence";
/// Version of the document.
pub const VERSION: u32 = 1;
/// Name of the file.
pub const FILE: &str = "evidence.json";

/// Evidence for or against a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// the name of the kind: `delegate-doctor/evidence`
    pub schema: String,
    /// of the document
    pub version: u32,
    /// when it was gathered, RFC 3339
    pub created: String,
    /// the rule
    pub rule: RuleEvidence,
    /// what follows from the models
    pub outcome: Outcome,
    /// in the order they were named
    pub models: Vec<ModelEvidence>,
}

/// Which bytes were tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleEvidence {
    /// id
    pub id: String,
    /// version
    pub version: String,
    /// SHA-256 of the component
    pub sha256: String,
    /// its length
    pub bytes: u64,
    /// version of the rule contract
    pub contract: String,
    /// the SDK that it says it was built with
    pub sdk: Option<String>,
}

/// What happened with one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelEvidence {
    /// name of the model
    pub name: String,
    /// as it was typed
    pub source: String,
    /// of the exported program
    pub fingerprint: String,
    /// status of the run, as in its report
    pub status: String,
    /// where and with what it ran
    pub setting: Option<Setting>,
    /// versions of the tool's parts
    pub versions: Option<Versions>,
    /// every trial of the rule, with its gates and samples
    pub trials: Vec<Trial>,
    /// sites that the rule left alone
    pub declined: u64,
    /// what it offered that the host refused, and where it faulted: node and reason
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// why there is no answer, when there is none
    pub error: Option<String>,
}

/// What the evidence says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// accepted on at least one model, and wrong on none
    Proven,
    /// never wrong, and faster on no model
    NotFaster,
    /// it found nothing to repair in any model
    NothingTried,
    /// a gate of correctness refused it on some model
    Wrong,
    /// a model could not be run to an answer
    Incomplete,
}

impl Outcome {
    /// The name as in the JSON form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proven => "PROVEN",
            Self::NotFaster => "NOT_FASTER",
            Self::NothingTried => "NOTHING_TRIED",
            Self::Wrong => "WRONG",
            Self::Incomplete => "INCOMPLETE",
        }
    }

    /// What follows from all models.
    pub fn of(models: &[ModelEvidence]) -> Self {
        let trials = || models.iter().flat_map(|model| &model.trials);
        let wrong = |trial: &Trial| {
            matches!(trial.outcome, TrialOutcome::Rejected | TrialOutcome::Refused)
                && trial.gate != Some(Gate::Benchmark)
        };
        if trials().any(wrong) {
            Self::Wrong
        } else if models.iter().any(|model| model.error.is_some()) {
            Self::Incomplete
        } else if trials().any(|trial| trial.outcome == TrialOutcome::Accepted) {
            Self::Proven
        } else if trials().next().is_some() {
            Self::NotFaster
        } else {
            Self::NothingTried
        }
    }
}

impl Evidence {
    /// The same without the folders of the machine that gathered it: what lies in a Python environment is named
    /// from `site-packages` on. Evidence is published.
    ///
    /// # Errors
    /// When it has no JSON form.
    pub fn without_folders(&self) -> Result<Self, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        shorten(&mut value);
        serde_json::from_value(value)
    }
}

fn shorten(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => {
            if let Some(at) = text.find("/site-packages/").filter(|_| text.starts_with('/')) {
                text.drain(..=at);
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(shorten),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// What the host refused of a rule, each once.
fn refused(report: &Report, rule: &str) -> Vec<String> {
    let mut all = Vec::new();
    for node in report.original.iter().flat_map(|profile| &profile.hotspots).flat_map(|hotspot| &hotspot.nodes) {
        let verdicts = node.rules.iter().filter(|verdict| verdict.rule.id == rule);
        for verdict in verdicts.filter(|v| matches!(v.outcome, RuleOutcome::Refused | RuleOutcome::Failed)) {
            let told = format!("`{}`: {}", node.node, verdict.message);
            if !all.contains(&told) {
                all.push(told);
            }
        }
    }
    all
}

impl ModelEvidence {
    /// From the report of a run in which the rule took part.
    pub fn of_report(report: &Report, rule: &str) -> Self {
        Self {
            name: report.model.name.clone(),
            source: report.model.source.clone(),
            fingerprint: report.model.fingerprint.clone(),
            status: report.verdict.status.name().to_owned(),
            setting: Some(report.setting.clone()),
            versions: Some(report.versions.clone()),
            trials: report.trials.iter().filter(|trial| trial.rule.id == rule).cloned().collect(),
            declined: report.declined.iter().filter(|declined| declined.rule.id == rule).count() as u64,
            refused: refused(report, rule),
            error: None,
        }
    }

    /// For a run that came to no answer.
    pub fn of_error(source: &str, error: &str) -> Self {
        Self {
            name: crate::settings::run_name(source),
            source: source.to_owned(),
            fingerprint: String::new(),
            status: "NO_ANSWER".to_owned(),
            setting: None,
            versions: None,
            trials: Vec::new(),
            declined: 0,
            refused: Vec::new(),
            error: Some(error.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn model(wanted: &str) -> ModelEvidence {
        let report = samples::all().into_iter().find(|(name, _)| *name == wanted).map(|(_, report)| report);
        let report = report.expect("sample");
        let rule = report.trials.first().map_or_else(String::new, |trial| trial.rule.id.clone());
        ModelEvidence::of_report(&report, &rule)
    }

    #[test]
    fn one_model_on_which_it_is_wrong_outweighs_all_others() {
        let (good, nothing) = (model("accepted"), model("nothing-to-do"));
        assert_eq!(Outcome::of(std::slice::from_ref(&good)), Outcome::Proven);
        assert_eq!(Outcome::of(std::slice::from_ref(&nothing)), Outcome::NothingTried);
        assert_eq!(Outcome::of(&[nothing.clone(), good.clone()]), Outcome::Proven);
        assert_eq!(Outcome::of(&[good.clone(), ModelEvidence::of_error("x.py", "no")]), Outcome::Incomplete);
        let mut wrong = good.clone();
        for trial in &mut wrong.trials {
            (trial.outcome, trial.gate) = (TrialOutcome::Rejected, Some(Gate::SiteEquivalence));
        }
        assert_eq!(Outcome::of(&[good.clone(), wrong.clone(), nothing]), Outcome::Wrong);
        for trial in &mut wrong.trials {
            trial.gate = Some(Gate::Benchmark);
        }
        assert_eq!(Outcome::of(&[wrong]), Outcome::NotFaster);
    }

    #[test]
    fn a_bundle_is_read_back_as_it_was_written() {
        let evidence = Evidence {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            created: "2026-11-29T12:00:00Z".to_owned(),
            rule: RuleEvidence {
                id: "dd-001".to_owned(),
                version: "1.0.0".to_owned(),
                sha256: "ab".repeat(32),
                bytes: 9,
                contract: "0.1.0".to_owned(),
                sdk: None,
            },
            outcome: Outcome::Proven,
            models: vec![model("accepted")],
        };
        let mut elsewhere = evidence.clone();
        elsewhere.models[0].source = "/home/me/venv/lib/python3.11/site-packages/timm/models/x.py".to_owned();
        let published = elsewhere.without_folders().expect("JSON");
        assert_eq!(published.models[0].source, "site-packages/timm/models/x.py");
        let text = serde_json::to_string(&evidence).expect("JSON");
        assert_eq!(serde_json::from_str::<Evidence>(&text).expect("evidence"), evidence);
    }
}
