//! Gate 1 on real programs: what it is fed with, and what an earlier run already knows.
//!
//! In: a program, the same with a repair, the original's answers. Out: the gate's report. The evaluations
//! are this tool's own work, so they are made while child processes lower the repaired programs.

use std::collections::HashMap;
use std::path::Path;

use crate::cache;
use crate::files;
use crate::gates::tolerance::Claim;
use crate::gates::{GateReport, site_equivalence};
use crate::graph::ValueId;
use crate::pipeline::{Error, StoredProgram};
use crate::reference::Answers;
use crate::tensor::Tensor;
use crate::torch_operators::TorchOperators;
use crate::workbench::{EAGER_LIMIT, Workbench};

/// Whether the repaired places of a program still compute the same.
pub(crate) struct Question<'a, 'b> {
    pub(crate) bench: &'a Workbench<'b>,
    /// before the repair
    pub(crate) from: &'a StoredProgram,
    /// after it
    pub(crate) to: &'a StoredProgram,
    /// what the rule says
    pub(crate) claim: Claim,
    pub(crate) answers: &'a Answers,
    /// of the trial
    pub(crate) folder: &'a Path,
}

/// The gate's answer.
pub(crate) struct Evaluated {
    pub(crate) report: GateReport,
    /// taken from an earlier run
    pub(crate) reused: bool,
}

/// What the evaluations start from.
pub(crate) enum Prepared {
    /// nothing to evaluate any more
    Known(GateReport),
    /// what the program before the repair holds at the edges of the repaired places
    Captured(HashMap<ValueId, Vec<Tensor>>),
}

impl Question<'_, '_> {
    /// Looks whether an earlier run knows the answer; else captures real activations in eager PyTorch.
    pub(crate) fn prepare(&self) -> Result<Prepared, Error> {
        let path = self.folder.join("equivalence.json");
        if self.bench.cache.fetch("equivalence", &self.key()?, self.folder)?
            && let Ok(report) = serde_json::from_slice::<GateReport>(&fs_err::read(&path)?)
        {
            return Ok(Prepared::Known(report));
        }
        self.captured().map(Prepared::Captured)
    }

    /// The evaluations; this process works.
    pub(crate) fn evaluate(&self, prepared: Prepared) -> Result<Evaluated, Error> {
        let captured = match prepared {
            Prepared::Known(report) => return Ok(Evaluated { report, reused: true }),
            Prepared::Captured(captured) => captured,
        };
        let operators = TorchOperators::new(&self.bench.workers, self.folder)?;
        let report = site_equivalence::judge_programs(
            &self.from.program,
            &self.to.program,
            self.claim,
            self.bench.settings.seed,
            &captured,
            Some(&operators),
        )
        .report;
        let path = self.folder.join("equivalence.json");
        files::write_json(&path, &report)?;
        if let Err(error) = self.bench.cache.keep("equivalence", &self.key()?, &[&path]) {
            self.bench.progress.detail(&format!("The evaluations are not kept for later runs: {error}"));
        }
        Ok(Evaluated { report, reused: false })
    }

    /// Everything that the answer depends on. The arithmetic is this tool's and torch's.
    fn key(&self) -> Result<String, Error> {
        let environment = self.bench.workers.environment();
        let mut parts = vec![
            "equivalence 1".to_owned(),
            env!("CARGO_PKG_VERSION").to_owned(),
            environment.torch_version.clone(),
            self.from.key.clone(),
            self.to.key.clone(),
            format!("{:?}", self.claim),
            self.bench.settings.seed.to_string(),
        ];
        for input in self.answers.files.first().into_iter().flatten() {
            parts.push(files::sha256_of(&input.path)?);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(cache::key(&parts))
    }

    /// What the program before the repair holds at the edges of the repaired places, on the user's own inputs.
    fn captured(&self) -> Result<HashMap<ValueId, Vec<Tensor>>, Error> {
        let graph = self.from.program.graph();
        let wanted = site_equivalence::wanted(graph, self.to.program.graph());
        let names: Vec<String> =
            wanted.iter().filter_map(|value| graph.value(*value)).map(|value| value.name.clone()).collect();
        let Some(inputs) = self.answers.files.first().filter(|_| !names.is_empty()) else {
            return Ok(HashMap::new());
        };
        let folder = self.folder.join("captured");
        fs_err::create_dir_all(&folder)?;
        let found = self.bench.clock.child(|| {
            self.bench.workers.with(|worker| worker.capture(&self.from.path, inputs, &names, &folder, EAGER_LIMIT))
        })?;
        let mut captured = HashMap::new();
        for named in found {
            if let Some(value) = graph.value_named(&named.name) {
                captured.insert(value.id, vec![Tensor::read(&named.tensor)?]);
            }
        }
        // Activations are large and have served their purpose.
        let _ = fs_err::remove_dir_all(&folder);
        Ok(captured)
    }
}
