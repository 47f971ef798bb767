//! `explain`: why a node fell back, and why a rule left it alone.

use super::{Context, finished_run};
use crate::output::{Exit, Failure};
use crate::report::explain::{self, Question};

/// Say why operators fell back and what the rules said about them
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Say why operators fell back and what the rules said about them.\n\n\
        The answer comes from an earlier run: the partitioner's reason for each operator it refused, the line \
        of your code it comes from, and each rule's reason for leaving it alone.",
    after_help = "\
Examples:
  delegate-doctor explain delegate-doctor-runs/segmenter-1
  delegate-doctor explain examples/segmenter.py --node softmax      What happened to this node?
  delegate-doctor explain examples/segmenter.py --rule dd-001       What did this rule say, and where?"
)]
pub(super) struct Arguments {
    /// A run folder, its `report.json`, or a model whose newest run is meant
    #[arg(value_name = "RUN_OR_MODEL")]
    run: String,
    /// Only what matches this: a node, a kernel, an operator, a module or a source line such as `net.py:24`,
    /// or a part of one
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only what this rule looked at, by its id
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let found = finished_run::read(&arguments.run, context)?;
    let question =
        Question { node: arguments.node.clone(), rule: arguments.rule.as_ref().map(|rule| rule.to_lowercase()) };
    let text = explain::render(&found.report, &question)?;
    Exit::of_write(context.printer.data(&text))?;
    Ok(Exit::Answered)
}
