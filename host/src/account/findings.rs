//! What the original alone gives reason to say: before any repair, about the model, its lowering and its trace.

use super::{Account, finding};
use crate::gates::backend_fidelity::OriginalIsWrong;
use crate::graph::{Argument, Literal, Node, NodeInput};
use crate::pipeline::Base;
use crate::reference::Answers;
use crate::report::assemble::measured;
use crate::report::model::{Finding, FindingCode, Mismatch, Severity};
use crate::workbench::MeasuredProgram;

/// Below this a run is so short that tracing changes what it measures.
const SHORT_METHOD_NS: f64 = 1e6;

impl Account {
    pub(crate) fn original(&mut self, original: &Base) {
        let MeasuredProgram { ranking, profile, .. } = &original.measured;
        self.course.hotspots = ranking.hotspots.len();
        self.course.fallback_share = ranking.all().map(|hotspot| hotspot.share).sum();
        for warning in &original.measured.lowered.record.warnings {
            self.report.findings.push(finding(FindingCode::ToolchainWarning, Severity::Note, warning));
        }
        if !profile.accounting.agrees {
            // Reading the clock for every instruction takes as long as the shortest of them.
            let (severity, why) = if self.course.emulated {
                (Severity::Note, "emulated times are no times of a CPU")
            } else if profile.accounting.method_ns < SHORT_METHOD_NS {
                (Severity::Note, "in a program this short, tracing itself takes much of it")
            } else {
                (Severity::Warning, "so shares are rough")
            };
            let title = format!("The instructions of the trace do not add up to the method's own time; {why}");
            self.report.findings.push(finding(FindingCode::CrossCheckFailed, severity, &title));
        }
        if !ranking.unknown.is_empty() {
            self.report.findings.push(Finding {
                text: ranking
                    .unknown
                    .iter()
                    .map(|unknown| format!("{}: {}", unknown.kernel, unknown.why))
                    .collect::<Vec<_>>()
                    .join("; "),
                ..finding(
                    FindingCode::Other,
                    Severity::Warning,
                    "Some instructions of the trace could not be matched with the lowering",
                )
            });
        }
    }

    /// What the original's answers say about the original itself.
    pub(crate) fn answers(&mut self, answers: &Answers) {
        let wrong = answers.fidelity.findings(&answers.reference);
        // Two runs of a program that draws random numbers have nothing to agree on.
        let alarming = self.random.is_empty() && wrong.iter().any(OriginalIsWrong::is_alarming);
        self.course.original_is_wrong = alarming;
        if let Some(worst) = wrong.iter().max_by(|a, b| a.relative.total_cmp(&b.relative)) {
            let target = &answers.fidelity.target;
            let number = |value: f64| measured(value, "", target, 1, None);
            self.report.findings.push(Finding {
                text: if alarming {
                    format!(
                        "The program that ExecuTorch made of this model does not compute what the model computes: {}. \
                         It would do so on a device too, with or without repairs of speed",
                        worst.detail
                    )
                } else if !self.random.is_empty() {
                    format!(
                        "The model draws random numbers ({}), so two runs differ whatever the lowering does: {}",
                        self.random.join(", "),
                        worst.detail
                    )
                } else {
                    format!(
                        "On \"{}\" the lowered program differs by {}; on your own inputs it agrees. Rounding that adds up \
                         on unusual inputs is the likely cause",
                        worst.input_set, worst.detail
                    )
                },
                mismatches: wrong
                    .iter()
                    .map(|wrong| Mismatch {
                        output: wrong.output.clone(),
                        input_set: wrong.input_set.clone(),
                        error: number(wrong.error),
                        scale: number(wrong.scale),
                        allowed: number(wrong.allowed * wrong.scale),
                    })
                    .collect(),
                facts: answers.fidelity.facts(&answers.reference, "original on the target against eager PyTorch"),
                ..if alarming {
                    finding(
                        FindingCode::OriginalIsWrong,
                        Severity::Alarm,
                        "The lowered original computes something else than eager PyTorch",
                    )
                } else {
                    finding(
                        FindingCode::Other,
                        Severity::Note,
                        if self.random.is_empty() {
                            "The lowered original differs from eager PyTorch on made-up inputs only"
                        } else {
                            "The model draws random numbers, so its results prove little"
                        },
                    )
                }
            });
        }
        self.not_finite(answers);
        if answers.sensitivity.is_insensitive() {
            self.report.findings.push(Finding {
                text: answers.sensitivity.summary(),
                facts: answers.sensitivity.facts(),
                ..finding(
                    FindingCode::InsensitiveModel,
                    Severity::Warning,
                    "The outputs hardly react to the inputs, so comparing outputs proves little",
                )
            });
        }
        if let Some(run) = answers.reference.runs().iter().find(|run| !run.mutated_inputs.is_empty()) {
            let text = format!("The model writes into its inputs {:?}", run.mutated_inputs);
            self.report.findings.push(finding(FindingCode::InputMutated, Severity::Note, &text));
        }
        for (set, why) in &answers.fidelity.failures {
            let name = answers.reference.sets().get(*set).map_or("", |set| set.name.as_str());
            let title = format!("The original does not run on the target with \"{name}\"");
            self.report
                .findings
                .push(Finding { text: why.clone(), ..finding(FindingCode::Other, Severity::Warning, &title) });
        }
    }

    /// Outputs of the model itself, on the user's own inputs, that are no numbers.
    fn not_finite(&mut self, answers: &Answers) {
        let Some(run) = answers.reference.runs().first() else { return };
        let mut told = Vec::new();
        let mut nothing_else = true;
        for (name, output) in answers.reference.names().iter().zip(&run.outputs) {
            let (mut all, mut odd) = (0_u64, 0_u64);
            if let Some(values) = output.doubles() {
                values.each(|x| {
                    all += 1;
                    odd += u64::from(!x.is_finite());
                });
            }
            nothing_else &= odd == all;
            if odd > 0 {
                told.push(format!("{odd} of {all} elements of `{name}`"));
            }
        }
        if told.is_empty() {
            return;
        }
        let severity = if nothing_else { Severity::Alarm } else { Severity::Warning };
        self.report.findings.push(Finding {
            text: format!(
                "In eager PyTorch, on your own inputs, {} are infinite or not a number. Comparing them proves little",
                told.join(", ")
            ),
            ..finding(FindingCode::Other, severity, "The model itself gives outputs that are not finite numbers")
        });
    }
}

/// True for ops whose result differs from run to run.
pub(super) fn draws_random_numbers(node: &Node) -> bool {
    let name = node.op.split('.').nth(1).unwrap_or_default();
    let drawing = ["rand", "bernoulli", "multinomial", "normal_", "uniform_", "exponential_", "geometric_", "cauchy_"];
    let truth = |input: &NodeInput| matches!(input.arg, Argument::Literal(Literal::Bool(true)));
    let drops = name.contains("dropout")
        && node.inputs.iter().any(|input| matches!(input.name.as_str(), "train" | "training") && truth(input));
    drops || name == "normal" || name == "poisson" || drawing.iter().any(|start| name.starts_with(start))
}
