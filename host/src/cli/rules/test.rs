//! `rules test`: the cases of a rule, natively and through the component.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{Context, sandbox};
use crate::authoring::{Answer, CaseResult, Cases, Project};
use crate::output::{Exit, Failure, style, styled};
use crate::report::figures::counted;

/// Build a rule and run its cases
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Build a rule and run its cases.\n\n\
        Each case of `cases.txt` is a graph and what the rule must say about it. A Rust rule answers natively, in \
        the crate's own tests, and through the component; both must agree word for word.",
    after_help = "\
Examples:
  delegate-doctor rules test
  delegate-doctor rules test my-rule

The exit code is 1 when a case does not come out as expected."
)]
pub(super) struct Arguments {
    /// The folder of the rule
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let project = Project::read(&arguments.folder, &context.common.folders.data)?;
    let sandbox = sandbox(context, project.limits())?;
    let progress = context.printer.progress();
    let built = project.build(&sandbox, &progress)?;
    let cases = project.test(&built, &sandbox, &progress)?;
    Exit::of_write(context.printer.data(&text(&cases)))?;
    Ok(if cases.all_right() { Exit::Answered } else { Exit::Rejected })
}

fn text(cases: &Cases) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for result in &cases.results {
        let (mark, shown) = match result.answer {
            Answer::Right => ("✓", style::GOOD),
            _ => ("✗", style::ERROR),
        };
        let _ = write!(text, "{} {}", styled(shown, mark), result.name);
        let _ = writeln!(text, "{}", styled(style::FAINT, about(result)));
        match &result.answer {
            Answer::Right => {}
            Answer::Wrong(why) | Answer::Failed(why) => indent(&mut text, why),
            Answer::Disagrees { component, native } => {
                indent(&mut text, "the component and the native rule disagree; the component:");
                indent(&mut text, component);
                indent(&mut text, "natively:");
                indent(&mut text, native);
            }
        }
    }
    if let Some(said) = &cases.native_failure {
        let _ = writeln!(text, "{} the crate's own tests", styled(style::ERROR, "✗"));
        indent(&mut text, said);
    }
    let right = cases.results.iter().filter(|result| result.answer == Answer::Right).count();
    let natively = cases.results.iter().filter(|result| result.native).count();
    let _ = writeln!(
        text,
        "\n{} of {} as expected; {natively} compared with native answers",
        right,
        counted(cases.results.len() as u64, "case")
    );
    text
}

fn about(result: &CaseResult) -> String {
    let fuel = result.fuel.map_or_else(String::new, |fuel| format!(", {} fuel", crate::report::figures::grouped(fuel)));
    let how = if result.native { "component and native" } else { "component" };
    format!("  line {}, {how}{fuel}", result.line)
}

fn indent(text: &mut String, lines: &str) {
    for line in lines.lines() {
        let _ = writeln!(text, "    {}", crate::sandbox::printable(line, 4_096));
    }
}
