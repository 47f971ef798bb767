//! `doctor`: whether this machine has what the tool needs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Context, Format, version};
use crate::output::{Exit, Failure, style, styled};
use crate::report::figures::counted;
use crate::surroundings::{self, Diagnosis, Verdict};

/// Check that this machine has what the tool needs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor doctor                 What is there, what is missing, what to do
  delegate-doctor doctor --format json   The same for a script

The exit code is 2 when something is missing without which `optimize` fails.")]
pub(super) struct Arguments {
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// The JSON form; version 1.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    versions: serde_json::Map<String, serde_json::Value>,
    verdict: Verdict,
    diagnoses: &'a [Diagnosis],
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let diagnoses = surroundings::examine(&context.common);
    let verdict = surroundings::worst(&diagnoses);
    let written = match arguments.format {
        Format::Text => context.printer.data(&text(&diagnoses)),
        Format::Json => context.printer.json(&Document {
            schema: "delegate-doctor/doctor",
            version: 1,
            versions: version::as_json(),
            verdict,
            diagnoses: &diagnoses,
        }),
    };
    Exit::of_write(written)?;
    Ok(if verdict == Verdict::Problem { Exit::Failed } else { Exit::Answered })
}

fn text(diagnoses: &[Diagnosis]) -> String {
    let width = diagnoses.iter().map(|diagnosis| diagnosis.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Diagnosis { name, verdict, what, why, hint } in diagnoses {
        let style = match verdict {
            Verdict::Ok => style::GOOD,
            Verdict::Warning => style::WARNING,
            Verdict::Problem => style::ERROR,
        };
        let word = styled(style, format_args!("{:<7}", verdict.word()));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{word}  {name:<width$}  {what}");
        let margin = " ".repeat("problem".len() + 2 + width + 2);
        if !why.is_empty() {
            let _ = writeln!(text, "{margin}{why}");
        }
        if let Some(hint) = hint {
            let _ = writeln!(text, "{margin}{}: {hint}", styled(style::HINT, "hint"));
        }
    }
    let count = |verdict| diagnoses.iter().filter(|diagnosis| diagnosis.verdict == verdict).count() as u64;
    let summary = match (count(Verdict::Problem), count(Verdict::Warning)) {
        (0, 0) => "Everything is as it should be".to_string(),
        (0, warnings) => format!("Ready, with {}", counted(warnings, "warning")),
        (problems, warnings) => {
            format!("Not ready: {}, {}", counted(problems, "problem"), counted(warnings, "warning"))
        }
    };
    let _ = writeln!(text, "\n{}", styled(style::HEADING, summary));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_diagnosis_says_what_why_and_what_to_do() {
        let diagnoses = [
            Diagnosis {
                name: "python".to_string(),
                verdict: Verdict::Problem,
                what: "Found no Python".to_string(),
                why: "Models are exported in Python".to_string(),
                hint: Some("Install Python 3.11".to_string()),
            },
            Diagnosis {
                name: "memory".to_string(),
                verdict: Verdict::Ok,
                what: "8 GiB".to_string(),
                why: String::new(),
                hint: None,
            },
        ];
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&diagnoses)), @r"
        problem  python  Found no Python
                         Models are exported in Python
                         hint: Install Python 3.11
        ok       memory  8 GiB

        Not ready: 1 problem, 0 warnings
        ");
    }
}
