//! Whether this machine has what the tool needs, as a list of named diagnoses.
//!
//! In: the settings every command shares. Out: one or more [`Diagnosis`] a check, in the order a person
//! would look. A check only looks: it makes nothing, installs nothing, and a check that cannot find out
//! says so. To add a check: a function in the file of its subject and a line in [`examine`].

mod devices;
mod machine;
mod places;
mod python;
mod rules;
mod runner;
mod terminal;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Common;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// as it should be
    Ok,
    /// works, with something that a user should know
    Warning,
    /// `optimize` would fail
    Problem,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// what was looked at: `python`, `compiler`, `cache folder`
    pub name: String,
    /// how bad it is
    pub verdict: Verdict,
    /// what was found, one line
    pub what: String,
    /// why it matters; empty when all is well
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Diagnosis {
    fn ok(name: &str, what: impl Into<String>) -> Self {
        Self { name: name.to_string(), verdict: Verdict::Ok, what: what.into(), why: String::new(), hint: None }
    }

    fn warning(name: &str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, why: why.into(), ..Self::ok(name, what) }
    }

    fn problem(name: &str, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Problem, why: why.into(), ..Self::ok(name, what) }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Runs every check.
pub fn examine(common: &Common) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    let (environment, diagnoses) = python::examine(common);
    found.extend(diagnoses);
    found.extend(runner::examine(environment.as_ref(), &common.folders.cache));
    found.push(rules::examine());
    found.extend(devices::examine());
    found.extend(places::examine(common));
    found.extend(machine::examine());
    found.push(terminal::examine());
    found
}

/// The gravest verdict of a list.
pub fn worst(diagnoses: &[Diagnosis]) -> Verdict {
    diagnoses.iter().map(|diagnosis| diagnosis.verdict).max().unwrap_or(Verdict::Ok)
}

/// `1.4 GiB`, as sizes are shown.
fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let decimals = usize::from(unit != "B" && value < 10.0);
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

const GIB: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_verdict_counts() {
        let list = [Diagnosis::ok("a", ""), Diagnosis::problem("b", "", "x"), Diagnosis::warning("c", "", "y")];
        assert_eq!(worst(&list), Verdict::Problem);
        assert_eq!(worst(&list[..1]), Verdict::Ok);
        assert_eq!(worst(&[]), Verdict::Ok);
    }

    #[test]
    fn sizes_are_short() {
        for (value, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (7 * GIB, "7.0 GiB"), (70 * GIB, "70 GiB")]
        {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(bytes(3 * 1024 * GIB), "3.0 TiB");
    }
}
