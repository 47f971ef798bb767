//! Evidence as a package holds it: the few fields that decide whether it proves these bytes.

use std::path::Path;

use serde::Deserialize;

use super::super::layout;
use super::{Error, EvidenceFile, FileRecord, MOST_LINE, line};
use crate::files::{self, sha256_hex};
use crate::sandbox::contract::Manifest as OwnManifest;
use crate::sandbox::printable;

/// Kind of document that evidence is, and its version.
pub(super) const EVIDENCE_SCHEMA: &str = "delegate-doctor/evidence";
const EVIDENCE_VERSION: u32 = 1;
/// Outcome of evidence that proves a rule.
const PROVEN: &str = "PROVEN";

/// What is read of an evidence bundle.
#[derive(Deserialize)]
struct Evidence {
    schema: String,
    version: u32,
    rule: EvidenceRule,
    outcome: String,
    models: Vec<EvidenceModel>,
}

#[derive(Deserialize)]
struct EvidenceRule {
    id: String,
    version: String,
    sha256: String,
}

#[derive(Deserialize)]
struct EvidenceModel {
    name: String,
    setting: Option<EvidenceSetting>,
    trials: Vec<EvidenceTrial>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct EvidenceSetting {
    target: EvidenceTarget,
    #[serde(default)]
    cpu: String,
}

#[derive(Deserialize)]
struct EvidenceTarget {
    kind: String,
    architecture: String,
}

#[derive(Deserialize)]
struct EvidenceTrial {
    outcome: String,
    #[serde(default)]
    gate: Option<String>,
    #[serde(default)]
    gates: Vec<EvidenceGate>,
    #[serde(default)]
    benchmark: Option<EvidenceBenchmark>,
}

#[derive(Deserialize)]
struct EvidenceGate {
    gate: String,
    status: String,
}

#[derive(Deserialize)]
struct EvidenceBenchmark {
    ratio: EvidenceRatio,
    #[serde(default)]
    blocks: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct EvidenceRatio {
    value: f64,
}

/// Gates that an accepted repair has passed, by the names that evidence gives them.
pub(super) const GATES: [&str; 6] =
    ["structure", "site-equivalence", "host-correctness", "device-correctness", "backend-fidelity", "benchmark"];

impl EvidenceModel {
    /// What in it contradicts evidence that proves a rule.
    fn contradiction(&self) -> Option<String> {
        self.trials.iter().find_map(EvidenceTrial::contradiction)
    }
}

impl EvidenceTrial {
    fn contradiction(&self) -> Option<String> {
        match self.outcome.as_str() {
            "ACCEPTED" => {
                let passed = |gate: &&str| self.gates.iter().any(|one| one.gate == **gate && one.status == "PASS");
                if let Some(gate) = GATES.iter().find(|gate| !passed(gate)) {
                    return Some(format!("an accepted trial has not passed the gate `{gate}`"));
                }
                if let Some(gate) = self.gates.iter().find(|gate| gate.status == "FAIL") {
                    return Some(format!("an accepted trial failed the gate `{}`", printable(&gate.gate, MOST_LINE)));
                }
                match &self.benchmark {
                    None => Some("an accepted trial has no benchmark".to_owned()),
                    Some(benchmark) if benchmark.blocks.is_empty() => {
                        Some("the benchmark of an accepted trial has no samples".to_owned())
                    }
                    Some(benchmark) if benchmark.ratio.value <= 1.0 => {
                        Some(format!("an accepted trial is {}x as fast as before", benchmark.ratio.value))
                    }
                    Some(_) => None,
                }
            }
            "REJECTED" | "REFUSED" if self.gate.as_deref() != Some("benchmark") => {
                let gate = self.gate.as_deref().unwrap_or("the host");
                Some(format!("a trial was refused by {}", printable(gate, MOST_LINE)))
            }
            _ => None,
        }
    }
}

/// Reads an evidence file that a rule needs.
///
/// # Errors
/// When there is none.
pub fn read_evidence(path: &Path, rule: &str) -> Result<Vec<u8>, Error> {
    match files::read_regular(path, layout::MOST_TARGET_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::NoEvidence { rule: rule.to_owned(), path: path.display().to_string() })
        }
        read => Ok(read?),
    }
}

/// What the evidence says, when it proves these bytes.
pub(super) fn proof(evidence: &[u8], own: &OwnManifest, component: &[u8]) -> Result<EvidenceFile, Error> {
    let rule = format!("{} {}", printable(&own.id, MOST_LINE), printable(&own.version, MOST_LINE));
    let not_evidence = |why: String| Error::NotEvidence { rule: rule.clone(), why };
    let not_proven = |why: String| Error::NotProven { rule: rule.clone(), why };
    let read: Evidence = serde_json::from_slice(evidence).map_err(|error| not_evidence(error.to_string()))?;
    if read.schema != EVIDENCE_SCHEMA || read.version != EVIDENCE_VERSION {
        let found = format!("{} {}", printable(&read.schema, MOST_LINE), read.version);
        return Err(not_evidence(format!("it is a {found}, and {EVIDENCE_SCHEMA} {EVIDENCE_VERSION} is expected")));
    }
    let expected = sha256_hex(component);
    if read.rule.sha256 != expected || read.rule.id != own.id || read.rule.version != own.version {
        return Err(Error::Stale { rule, found: printable(&read.rule.sha256, 64), expected });
    }
    if read.outcome != PROVEN {
        return Err(not_proven(format!("its outcome is {}", printable(&read.outcome, MOST_LINE))));
    }
    if let Some(model) = read.models.iter().find(|model| model.error.is_some()) {
        return Err(not_proven(format!("there is no answer for `{}`", printable(&model.name, MOST_LINE))));
    }
    let contradicted = read.models.iter().find_map(|model| Some((&model.name, model.contradiction()?)));
    if let Some((name, why)) = contradicted {
        return Err(not_proven(format!("it says {PROVEN}, but on `{}` {why}", printable(name, MOST_LINE))));
    }
    let accepted = |model: &&EvidenceModel| model.trials.iter().any(|trial| trial.outcome == "ACCEPTED");
    let (mut models, mut devices) = (Vec::new(), Vec::new());
    for model in read.models.iter().filter(accepted) {
        let setting = model.setting.as_ref();
        let setting = setting.ok_or_else(|| not_proven(format!("`{}` names no device", printable(&model.name, 80))))?;
        line("evidence", &model.name, 1)?;
        let cpu = if setting.cpu.is_empty() { "unknown processor" } else { &setting.cpu };
        let emulated = if setting.target.kind == "qemu" { ", emulated" } else { "" };
        let device = format!("{cpu} ({}{emulated})", setting.target.architecture);
        line("evidence", &device, 1)?;
        models.push(model.name.clone());
        devices.push(device);
    }
    if models.is_empty() {
        return Err(not_proven("no model accepted it".to_owned()));
    }
    for list in [&mut models, &mut devices] {
        list.sort_unstable();
        list.dedup();
    }
    let FileRecord { sha256, length } = FileRecord::of(evidence);
    Ok(EvidenceFile { sha256, length, models, devices })
}
