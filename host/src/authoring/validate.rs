//! `rules validate`: the real gates, on real models, with one rule.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::Error;
use super::evidence::{Evidence, FILE, ModelEvidence, Outcome, RuleEvidence, SCHEMA, VERSION};
use super::project::Built;
use crate::files;
use crate::hint::Hint as _;
use crate::interrupt;
use crate::pipeline;
use crate::progress::Progress;
use crate::run_folder::now;
use crate::sandbox::{Limits, inspect};
use crate::settings::{OptimizeSettings, RuleChoice, RunPlace};

/// What to prove.
pub struct Validation<'a> {
    /// the rule
    pub rule: &'a Built,
    /// the limits it is loaded with
    pub limits: &'a Limits,
    /// models, as a user types them
    pub models: &'a [String],
    /// settings of every run; model, place and rules are replaced
    pub settings: &'a OptimizeSettings,
    /// folder for the runs and the bundle, new or empty
    pub out: &'a Path,
}

/// Runs every model with the rule and writes the bundle; gives it and its path.
///
/// # Errors
/// When the folder is taken, or the user interrupts. A model that comes to no answer is part of the evidence.
pub fn validate(task: &Validation<'_>, progress: &dyn Progress) -> Result<(Evidence, PathBuf), Error> {
    if task.models.is_empty() {
        return Err(Error::NoModel);
    }
    if task.out.exists() && fs::read_dir(task.out)?.next().is_some() {
        return Err(Error::Exists(task.out.to_path_buf()));
    }
    fs::create_dir_all(task.out)?;
    let rules = task.out.join("rule");
    fs::create_dir_all(&rules)?;
    let component = &task.rule.component;
    files::write_atomic(&rules.join(format!("{}.wasm", task.rule.manifest.id)), component)?;
    let mut models = Vec::new();
    for (index, model) in task.models.iter().enumerate() {
        progress.note(&format!("Model {} of {}: `{model}`", index + 1, task.models.len()));
        let place = task.out.join("runs").join(format!("{}-{}", index + 1, crate::settings::run_name(model)));
        let settings = OptimizeSettings {
            model: model.clone(),
            place: RunPlace::At(place),
            rules: RuleChoice {
                folders: vec![rules.clone()],
                only: vec![task.rule.manifest.id.to_lowercase()],
                skip: Vec::new(),
                // It was named.
                script: true,
                ..RuleChoice::default()
            },
            ..task.settings.clone()
        };
        models.push(match pipeline::optimize(&settings, progress) {
            Ok(finished) => ModelEvidence::of_report(&finished.report, &task.rule.manifest.id),
            Err(_) if interrupt::requested() => return Err(Error::Interrupted),
            Err(stopped) => {
                progress.warning(&stopped.error.to_string());
                if let Some(hint) = stopped.error.hint() {
                    progress.note(&format!("hint: {hint}"));
                }
                ModelEvidence::of_error(model, &stopped.error.to_string())
            }
        });
    }
    let inspection = inspect(component, task.limits)
        .map_err(|(_, why)| Error::Componentize { folder: task.out.to_path_buf(), why })?;
    let evidence = Evidence {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        created: now(),
        rule: RuleEvidence {
            id: task.rule.manifest.id.clone(),
            version: task.rule.manifest.version.clone(),
            sha256: inspection.sha256,
            bytes: component.len() as u64,
            contract: inspection.contract.to_string(),
            sdk: inspection.sdk,
        },
        outcome: Outcome::of(&models),
        models,
    };
    let evidence = evidence.without_folders()?;
    let path = task.out.join(FILE);
    files::write_json(&path, &evidence)?;
    Ok((evidence, path))
}
