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
