//! Rewrites that no rule would mean: whatever the host lets through applies, can be taken back, and can be
//! written and read.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arbitrary::Unstructured;
use delegate_doctor::gates::site_equivalence::{Budget, Task, judge};
use delegate_doctor::gates::tolerance::Claim;
use delegate_doctor::graph::archive::{self, Limits};
use delegate_doctor::graph::{Program, schema};
use delegate_doctor::interpreter;
use delegate_doctor::matching::{Facts, Index, Match};
use delegate_doctor::rewrite::{ReferenceEvaluator, accept};
use delegate_doctor::sandbox::contract::{
    Anchor, CreatedRef, Edit, InputChange, Literal, Manifest, NamedOperand, NewNode, Numerics, Operand, Reason,
    Replacement, Rewrite, ScalarType, Stability, UseReplacement, ValueRef,
};

use super::PROGRAMS;

/// A manifest that wants to see every node of a program.
pub(super) fn everything(program: &Program) -> Manifest {
    let mut ops: Vec<String> = program.graph().nodes().iter().map(|node| node.op.clone()).collect();
    ops.sort_unstable();
    ops.dedup();
    Manifest {
        id: "fuzz".to_owned(),
        version: "1.0.0".to_owned(),
        title: String::new(),
        summary: String::new(),
        stability: Stability::Stable,
        numerics: Numerics::Exact,
        backends: Vec::new(),
        anchors: vec![Anchor {
            ops,
            producers: Vec::new(),
            producer_depth: 2,
            consumer_depth: 1,
            only_outside_delegate: false,
        }],
        codes: Vec::new(),
        hints: Vec::new(),
    }
}

/// Bytes as a rewrite of some place of some program.
pub fn rewrite(data: &[u8]) {
    static SITES: OnceLock<Vec<(Program, Vec<Arc<Match>>)>> = OnceLock::new();
    let programs = SITES.get_or_init(|| {
        let sites = |program: Program| {
            let facts = Facts::default();
            let matches = Index::new(&program, &facts).matches(&everything(&program)).matches;
            (program, matches)
        };
        PROGRAMS.iter().map(|name| sites(super::program(name))).collect()
    });
    let mut input = Unstructured::new(data);
    let Ok((program, matches)) = input.choose(programs) else { return };
    let Ok(one) = input.choose(matches) else { return };
    let Ok(rewrite) = drawn(&mut input, one) else { return };
    let Ok(draft) = accept(program, "fuzz@1.0.0", one, &rewrite) else { return };
    let Ok(patch) = draft.finish(program, &mut ReferenceEvaluator::default()) else { return };
    let applied = program.apply(&patch).unwrap_or_else(|error| panic!("let through, and does not apply: {error}"));
    let back = applied.program.apply(&applied.inverse()).unwrap_or_else(|error| panic!("no way back: {error}"));
    assert_eq!(back.program.fingerprint(), program.fingerprint(), "taken back, and something else");
    let bytes = archive::to_bytes(&applied.program).unwrap_or_else(|error| panic!("cannot be written: {error}"));
    let again = archive::from_bytes(bytes, Path::new("written.pt2"), &Limits::default())
        .unwrap_or_else(|error| panic!("written, and cannot be read: {error}"));
    assert_eq!(again.fingerprint(), applied.program.fingerprint());
    // The gate may say anything, as long as it says it.
    let constant = |value| {
        let from = if program.graph().value(value).is_some() { program } else { &applied.program };
        if !from.is_constant(value) {
            return Ok(None);
        }
        from.payload(value).map_err(|error| error.to_string())
    };
    judge(&Task {
        original: program.graph(),
        patched: applied.program.graph(),
        constant: &constant,
        claim: Claim::Exact,
        seed: 1,
        captured: &HashMap::new(),
        delegate: None,
        budget: Budget { operations: 1e6, elements: 1 << 16, threads: 1 },
    });
}

const INTEGERS: [i64; 14] =
    [0, 1, -1, 2, -2, 3, 4, 7, 1 << 16, i64::MAX, i64::MIN, i64::MAX - 1, i32::MAX as i64, -(1 << 40)];
const FLOATS: [f64; 7] = [0.0, -0.0, 1.0, 1e-5, f64::NAN, f64::INFINITY, -1e308];

fn drawn(input: &mut Unstructured<'_>, one: &Match) -> arbitrary::Result<Rewrite> {
    let mut edits = Vec::new();
    let mut made = 0_u32;
    for _ in 0..input.int_in_range(1..=8)? {
        let edit = match input.int_in_range(0..=9)? {
            0..=3 => {
                made += 1;
                Edit::Insert(new_node(input, one, made - 1)?)
            }
            4 | 5 => Edit::ReplaceAllUses(Replacement { value: value(input, one)?, by: reference(input, one, made)? }),
            6 => match one.site.uses.is_empty() {
                true => Edit::Delete(input.int_in_range(0..=3)?),
                false => Edit::ReplaceUse(UseReplacement {
                    use_site: *input.choose(&one.site.uses)?,
                    by: reference(input, one, made)?,
                }),
            },
            7 => {
                let node = input.choose(&one.site.nodes)?;
                let name = match node.inputs.is_empty() {
                    true => "self".to_owned(),
                    false => input.choose(&node.inputs)?.name.clone(),
                };
                Edit::SetInput(InputChange { node: node.id, input: name, operand: operand(input, one, made)? })
            }
            8 => Edit::Delete(input.choose(&one.site.nodes)?.id),
            _ => Edit::Fold(reference(input, one, made)?),
        };
        edits.push(edit);
    }
    let why = Reason { code: "fuzz".to_owned(), message: String::new() };
    Ok(Rewrite { edits, numerics: Numerics::Exact, why, hints: Vec::new() })
}

fn new_node(input: &mut Unstructured<'_>, one: &Match, made: u32) -> arbitrary::Result<NewNode> {
    static OPS: OnceLock<Vec<&str>> = OnceLock::new();
    let op = *input.choose(OPS.get_or_init(interpreter::operations))?;
    let mut inputs = Vec::new();
    for argument in schema::lookup(op).map(|schema| schema.arguments.as_slice()).unwrap_or_default() {
        if argument.default.is_some() && input.ratio(1, 2)? {
            continue;
        }
        let operand = match argument.kind {
            schema::Kind::Tensor => Operand::Value(reference(input, one, made)?),
            schema::Kind::Tensors => {
                let count = input.int_in_range(0..=3)?;
                let values = (0..count).map(|_| reference(input, one, made)).collect::<arbitrary::Result<_>>()?;
                Operand::Values(values)
            }
            schema::Kind::Int | schema::Kind::Scalar => Operand::Literal(Literal::Int(*input.choose(&INTEGERS)?)),
            schema::Kind::Ints { .. } => Operand::Literal(Literal::Ints(integers(input)?)),
            schema::Kind::Float => Operand::Literal(Literal::Float(*input.choose(&FLOATS)?)),
            schema::Kind::Bool => Operand::Literal(Literal::Boolean(input.arbitrary()?)),
            _ => operand(input, one, made)?,
        };
        inputs.push(NamedOperand { name: argument.name.clone(), operand });
    }
    Ok(NewNode { op: op.to_owned(), inputs, expect: Vec::new() })
}

fn integers(input: &mut Unstructured<'_>) -> arbitrary::Result<Vec<i64>> {
    let count = input.int_in_range(0..=5)?;
    (0..count).map(|_| input.choose(&INTEGERS).copied()).collect()
}

fn operand(input: &mut Unstructured<'_>, one: &Match, made: u32) -> arbitrary::Result<Operand> {
    Ok(match input.int_in_range(0..=7)? {
        0 => Operand::Literal(Literal::None),
        1 => Operand::Literal(Literal::Int(*input.choose(&INTEGERS)?)),
        2 => Operand::Literal(Literal::Ints(integers(input)?)),
        3 => Operand::Literal(Literal::Float(*input.choose(&FLOATS)?)),
        4 => Operand::Literal(Literal::Dtype(*input.choose(&[ScalarType::Float16, ScalarType::Int64])?)),
        5 => Operand::OptionalValues(vec![None, Some(reference(input, one, made)?)]),
        6 => Operand::Literal(Literal::Boolean(input.arbitrary()?)),
        _ => Operand::Value(reference(input, one, made)?),
    })
}

fn reference(input: &mut Unstructured<'_>, one: &Match, made: u32) -> arbitrary::Result<ValueRef> {
    if made > 0 && input.ratio(1, 2)? {
        let created = CreatedRef { insertion: input.int_in_range(0..=made)?, output: 0 };
        return Ok(ValueRef::Created(created));
    }
    value(input, one).map(ValueRef::Existing)
}

fn value(input: &mut Unstructured<'_>, one: &Match) -> arbitrary::Result<u32> {
    let last = u32::try_from(one.site.values.len()).unwrap_or(0);
    input.int_in_range(0..=last)
}
