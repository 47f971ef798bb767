//! The cases of a rule, answered by its component and, where the language allows, natively.

use std::path::Path;
use std::process::Command;

use fs_err as fs;
use rule_sdk::testing::cases::{self, Case};

use super::project::{Built, Language, Project};
use super::{Error, toolchain};
use crate::files;
use crate::progress::Progress;
use crate::sandbox::{Sandbox, contract};

/// Name of the file with cases.
pub const CASES_FILE: &str = "cases.txt";

/// What a rule said about one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// as expected, and where there is a native answer, the same
    Right,
    /// the component's answer is not the expected one
    Wrong(String),
    /// the component's answer is expected, and the native one differs
    Disagrees {
        /// by the component
        component: String,
        /// natively
        native: String,
    },
    /// the component gave no answer
    Failed(String),
}

/// One case with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    /// the case's name
    pub name: String,
    /// where it begins in the file
    pub line: usize,
    /// outcome
    pub answer: Answer,
    /// fuel that the component used; none when it failed
    pub fuel: Option<u64>,
    /// the answer was compared with a native one
    pub native: bool,
}

/// All cases of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Cases {
    /// in the order of the file
    pub results: Vec<CaseResult>,
    /// the crate's own tests failed natively: what cargo said
    pub native_failure: Option<String>,
}

impl Cases {
    /// True when everything is as it should be.
    pub fn all_right(&self) -> bool {
        self.native_failure.is_none() && self.results.iter().all(|result| result.answer == Answer::Right)
    }
}

/// Runs the crate's own tests where there are any, and every case through the component.
///
/// # Errors
/// When there is no file of cases or it cannot be read.
pub(super) fn run(
    project: &Project,
    built: &Built,
    sandbox: &Sandbox,
    progress: &dyn Progress,
) -> Result<Cases, Error> {
    let path = project.folder.join(CASES_FILE);
    let text = files::read_text(&path)?;
    let cases = cases::parse(&text).map_err(|why| Error::Cases { path: path.clone(), why })?;
    if cases.is_empty() {
        return Err(Error::Cases { path, why: "there is no case in it".to_owned() });
    }
    let verdicts = tempfile::tempdir()?;
    let native_failure = match project.file.language {
        Language::Rust => natively(project, verdicts.path(), progress)?,
        Language::C | Language::Python | Language::Js => None,
    };
    let step = progress.step(&format!("Asking the component about {} cases", cases.len()));
    let rule = sandbox.load(&built.manifest.id, &built.component)?;
    let manifest: rule_sdk::Manifest = other_side(rule.manifest())?;
    let mut results = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let native = fs::read_to_string(verdicts.path().join(format!("{index}.txt"))).ok();
        let (answer, fuel) = match case.site(&manifest) {
            Err(why) => (Answer::Failed(why), None),
            Ok(site) => {
                let site: contract::Site = other_side(&site)?;
                match rule.examine(&[&site]).pop() {
                    Some(Ok(examined)) => {
                        let verdict: rule_sdk::Verdict = other_side(&examined.verdict)?;
                        (judge(case, &verdict, native.as_deref()), Some(examined.fuel))
                    }
                    Some(Err(error)) => (Answer::Failed(error.to_string()), None),
                    None => (Answer::Failed("it gave no answer".to_owned()), None),
                }
            }
        };
        results.push(CaseResult { name: case.name.clone(), line: case.line, answer, fuel, native: native.is_some() });
    }
    step.done(&format!("Asked the component about {} cases", results.len()));
    Ok(Cases { results, native_failure })
}

fn judge(case: &Case, verdict: &rule_sdk::Verdict, native: Option<&str>) -> Answer {
    if let Err(why) = case.check(verdict) {
        return Answer::Wrong(why);
    }
    let component = case.describe(verdict);
    match native {
        Some(native) if native != component => Answer::Disagrees { component, native: native.to_owned() },
        _ => Answer::Right,
    }
}

/// The crate's own tests; those that call `run_cases` leave their verdicts in the folder.
fn natively(project: &Project, verdicts: &Path, progress: &dyn Progress) -> Result<Option<String>, Error> {
    let step = progress.step("Running the crate's own tests");
    let mut command = Command::new(toolchain::cargo());
    command
        .current_dir(&project.folder)
        .args(["test", "--quiet"])
        .env(cases::VERDICTS, verdicts)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = command.output().map_err(|error| Error::Tool { tool: "cargo".to_owned(), why: error.to_string() })?;
    if crate::interrupt::requested() {
        return Err(Error::Interrupted);
    }
    if output.status.success() {
        step.done("The crate's own tests pass");
        return Ok(None);
    }
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Some(said.concat().trim().to_owned()))
}

/// The same data as the other side of the contract has it.
fn other_side<A: serde::Serialize, B: serde::de::DeserializeOwned>(value: &A) -> Result<B, Error> {
    Ok(serde_json::from_value(serde_json::to_value(value)?)?)
}
