//! Gate 0: the patched program loads, and torch's fake tensors find what the host inferred.
//!
//! In: the patched graph, as the host believes it to be, and what the worker's check found after loading
//! the written archive. Out: a verdict. Sizes, strides and element types of every value that both know
//! must agree; every value that the patch made must be known to torch; the signature must be the same.
//! torch itself accepts an archive whose metadata is wrong, so this comparison is the only place where
//! such an error shows.

use std::collections::HashMap;
use std::time::Instant;

use super::{Fact, Gate, GateReport, GateStatus};
use crate::graph::{Dim, Graph, ValueId};
use crate::torch::protocol::{Checked, FakeValue};

const SOURCE: &str = "this host, torch fake tensors";

/// One disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// name of the value, or of the list of the signature
    pub name: String,
    /// `sizes`, `strides`, `dtype`, `presence`, `signature`
    pub aspect: &'static str,
    /// what the host believes
    pub host: String,
    /// what torch found
    pub torch: String,
}

/// The gate's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Structure {
    /// for the report and the decision
    pub report: GateReport,
    /// every disagreement
    pub disagreements: Vec<Disagreement>,
}

/// Compares the host's view of the patched graph with torch's. `checked` is the worker's answer or why
/// it refused the program; `created` are the values that the patch made.
pub fn judge(graph: &Graph, created: &[ValueId], checked: Result<&Checked, &str>) -> Structure {
    let start = Instant::now();
    let report = |status, summary, facts| GateReport {
        gate: Gate::Structure,
        status,
        summary,
        facts,
        seconds: start.elapsed().as_secs_f64(),
    };
    let checked = match checked {
        Ok(checked) => checked,
        Err(why) => {
            let summary = format!("torch refuses the patched program: {why}");
            return Structure { report: report(GateStatus::Fail, summary, Vec::new()), disagreements: Vec::new() };
        }
    };
    let found: HashMap<&str, &FakeValue> = checked.values.iter().map(|value| (value.name.as_str(), value)).collect();
    let mut disagreements = Vec::new();
    let mut compared = 0_usize;
    for value in graph.values() {
        let Some(meta) = value.tensor() else { continue };
        let Some(fake) = found.get(value.name.as_str()) else {
            if created.contains(&value.id) && !graph.is_unused(value.id) {
                disagreements.push(Disagreement {
                    name: value.name.clone(),
                    aspect: "presence",
                    host: "made by the patch".to_owned(),
                    torch: "no such value".to_owned(),
                });
            }
            continue;
        };
        compared += 1;
        let mut differ = |aspect, host: String, torch: String| {
            disagreements.push(Disagreement { name: value.name.clone(), aspect, host, torch });
        };
        if fake.dtype != meta.dtype.torch_name() {
            differ("dtype", meta.dtype.torch_name().to_owned(), fake.dtype.clone());
        }
        if !same_dims(&meta.sizes, &fake.sizes, |_| true) {
            differ("sizes", shown(&meta.sizes), json(&fake.sizes));
            continue;
        }
        // The stride of a dimension of size one means nothing, and an empty tensor has no strides.
        let size = |i: usize| meta.sizes.get(i).and_then(Dim::fixed);
        let empty = (0..meta.sizes.len()).any(|i| size(i) == Some(0));
        if !empty && !same_dims(&meta.strides, &fake.strides, |i| size(i) != Some(1)) {
            differ("strides", shown(&meta.strides), json(&fake.strides));
        }
    }
    let names = |ids: Vec<ValueId>| -> Vec<String> {
        ids.into_iter().filter_map(|id| graph.value(id)).map(|value| value.name.clone()).collect()
    };
    for (list, host, torch) in [
        ("user inputs", names(graph.user_inputs()), &checked.user_inputs),
        ("user outputs", names(graph.user_outputs()), &checked.user_outputs),
    ] {
        if &host != torch {
            disagreements.push(Disagreement {
                name: list.to_owned(),
                aspect: "signature",
                host: host.join(", "),
                torch: torch.join(", "),
            });
        }
    }
    let mut facts = vec![Fact {
        name: "values compared".to_owned(),
        value: format!("{compared}, of which {} made by the patch", created.len()),
        source: SOURCE.to_owned(),
    }];
    facts.extend(disagreements.iter().map(|d| Fact {
        name: format!("{} of `{}`", d.aspect, d.name),
        value: format!("host {}, torch {}", d.host, d.torch),
        source: SOURCE.to_owned(),
    }));
    let (status, summary) = match disagreements.first() {
        None => (GateStatus::Pass, format!("torch loads the patched program and agrees on {compared} values")),
        Some(first) => (
            GateStatus::Fail,
            format!(
                "The {} of `{}` is {} for the host and {} for torch",
                first.aspect, first.name, first.host, first.torch
            ),
        ),
    };
    Structure { report: report(status, summary, facts), disagreements }
}

/// True when every number that both sides know agrees; symbolic ones are not compared.
fn same_dims(host: &[Dim], torch: &[serde_json::Value], counts: impl Fn(usize) -> bool) -> bool {
    host.len() == torch.len()
        && host.iter().zip(torch).enumerate().all(|(i, (dim, found))| match (dim.fixed(), found.as_i64()) {
            (Some(a), Some(b)) => a == b || !counts(i),
            _ => true,
        })
}

fn shown(dims: &[Dim]) -> String {
    let one = |dim: &Dim| match dim {
        Dim::Fixed(n) => n.to_string(),
        Dim::Symbolic(symbol) => symbol.expression.clone(),
    };
    format!("[{}]", dims.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn json(dims: &[serde_json::Value]) -> String {
    format!("[{}]", dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sites::tests::{Line, graph, value};
    use super::*;

    fn patched() -> Graph {
        let relu = Line(1, "aten.relu.default", vec![("self", value(0))], vec![2, 3]);
        graph(&[(0, vec![2, 3])], vec![relu], &[1])
    }

    fn checked(sizes: serde_json::Value, strides: serde_json::Value, dtype: &str) -> Checked {
        let value = |name: &str, sizes: &serde_json::Value, strides: &serde_json::Value, dtype: &str| FakeValue {
            name: name.to_owned(),
            dtype: dtype.to_owned(),
            sizes: serde_json::from_value(sizes.clone()).expect("a list"),
            strides: serde_json::from_value(strides.clone()).expect("a list"),
        };
        Checked {
            values: vec![value("v0", &json!([2, 3]), &json!([1, 1]), "float32"), value("v1", &sizes, &strides, dtype)],
            user_inputs: vec!["v0".to_owned()],
            user_outputs: vec!["v1".to_owned()],
        }
    }

    fn aspects(checked: &Checked) -> Vec<&'static str> {
        let structure = judge(&patched(), &[ValueId(1)], Ok(checked));
        let expected = if structure.disagreements.is_empty() { GateStatus::Pass } else { GateStatus::Fail };
        assert_eq!(structure.report.status, expected);
        structure.disagreements.iter().map(|d| d.aspect).collect()
    }

    #[test]
    fn what_torch_finds_must_be_what_the_host_inferred() {
        assert_eq!(aspects(&checked(json!([2, 3]), json!([1, 1]), "float32")), [""; 0]);
        assert_eq!(aspects(&checked(json!([2, 3]), json!([3, 1]), "float32")), ["strides"]);
        assert_eq!(aspects(&checked(json!([3, 2]), json!([1, 1]), "float32")), ["sizes"]);
        assert_eq!(aspects(&checked(json!([2]), json!([1]), "float32")), ["sizes"]);
        assert_eq!(aspects(&checked(json!([2, 3]), json!([1, 1]), "float16")), ["dtype"]);
    }

    #[test]
    fn symbolic_sizes_are_not_compared() {
        assert_eq!(aspects(&checked(json!(["s0", 3]), json!(["3*s0", 1]), "float32")), [""; 0]);
    }

    #[test]
    fn a_created_value_must_exist_and_the_signature_must_be_the_same() {
        let mut missing = checked(json!([2, 3]), json!([1, 1]), "float32");
        missing.values.pop();
        assert_eq!(aspects(&missing), ["presence"]);
        let mut renamed = checked(json!([2, 3]), json!([1, 1]), "float32");
        renamed.user_outputs = vec!["v0".to_owned()];
        assert_eq!(aspects(&renamed), ["signature"]);
    }

    #[test]
    fn a_program_that_torch_refuses_fails_with_its_words() {
        let report = judge(&patched(), &[], Err("SpecViolationError")).report;
        assert!(report.status == GateStatus::Fail && report.summary.contains("SpecViolationError"));
    }
}
