//! The reference interpreter against eager PyTorch: every operation of its table on random sizes, element
//! types and arguments. One Python process evaluates all calls.

#[path = "interpreter/calls.rs"]
mod calls;
#[path = "interpreter/draw.rs"]
mod draw;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use dd_tests::{python, workspace};
use delegate_doctor::gates::tolerance::{compare, scale};
use delegate_doctor::graph::ScalarType;
use delegate_doctor::interpreter::{self, Precision};
use delegate_doctor::tensor::Tensor;
use serde_json::Value;

use calls::Call;

/// Largest error relative to the largest element of the result.
///
/// Singles may differ by the order of long sums; halves by one rounding; doubles by the last bits.
fn tolerance(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::Float16 => 2e-3,
        ScalarType::BFloat16 => 1.6e-2,
        ScalarType::Float64 => 2e-15,
        _ => 1e-6,
    }
}

/// Operations that only move elements: every bit must agree.
const MOVES: &[&str] = &[
    "view",
    "reshape",
    "flatten",
    "unflatten",
    "permute",
    "transpose",
    "t",
    "unsqueeze",
    "squeeze",
    "expand",
    "repeat",
    "slice",
    "select",
    "narrow",
    "split",
    "split_with_sizes",
    "chunk",
    "unbind",
    "cat",
    "stack",
    "roll",
    "flip",
    "index_select",
    "embedding",
    "gather",
    "index",
    "constant_pad_nd",
    "pad",
    "clone",
    "contiguous",
    "alias",
    "upsample_nearest2d",
    "max_pool2d",
    "amax",
    "amin",
    "where",
    "masked_fill",
    "relu",
    "neg",
    "abs",
];

fn answers(calls: &[Call]) -> Vec<Value> {
    let script = workspace().join("tests/fixtures/interpreter/evaluate.py");
    let mut child = Command::new(python().python)
        .arg(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start Python");
    let mut input = child.stdin.take().expect("piped");
    let lines: String = calls.iter().map(|call| format!("{}\n", call.json())).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("Python answers");
    writer.join().expect("writer").expect("Python reads every call");
    assert!(output.status.success(), "Python failed: {}", output.status);
    let answers = String::from_utf8(output.stdout).expect("UTF-8");
    answers.lines().map(|line| serde_json::from_str(line).expect("an answer a line")).collect()
}

fn tensors(answer: &Value) -> Result<Vec<Tensor>, String> {
    if let Some(error) = answer.get("error") {
        return Err(error.to_string());
    }
    let tensor = |value: &Value| Tensor {
        dtype: ScalarType::from_torch_name(value["dtype"].as_str().expect("dtype")).expect("known dtype"),
        sizes: serde_json::from_value(value["sizes"].clone()).expect("sizes"),
        bytes: hex::decode(value["hex"].as_str().expect("hex")).expect("hex"),
    };
    Ok(answer.as_array().expect("a list").iter().map(tensor).collect())
}

/// What is wrong with a result, and its relative error.
fn judge(call: &Call, precision: Precision, expected: &[Tensor]) -> Result<f64, String> {
    let results = interpreter::evaluate(&call.op, &call.items(precision), precision, interpreter::DEFAULT_LIMIT)
        .map_err(|error| format!("the interpreter refuses: {error}"))?;
    if results.len() != expected.len() {
        return Err(format!("{} results instead of {}", results.len(), expected.len()));
    }
    let name = call.op.split('.').nth(1).unwrap_or_default();
    let mut worst = 0.0_f64;
    for (result, expected) in results.iter().zip(expected) {
        let found = result.to_tensor();
        // torch makes singles of integers, also where its floats are doubles: nothing to judge by.
        if precision == Precision::Judge && expected.dtype.is_floating() && expected.dtype != found.dtype {
            continue;
        }
        let magnitude = scale([expected]).magnitude.max(call.magnitude);
        let comparison = compare(expected, &found, magnitude);
        let moves = MOVES.contains(&name) && call.moves;
        let relative = comparison.relative();
        let allowed = if moves { 0.0 } else { tolerance(expected.dtype) };
        if comparison.mismatch.is_some() || comparison.is_discrete() && comparison.differing > 0 || relative > allowed {
            return Err(comparison.describe());
        }
        if expected.dtype == ScalarType::Float32 || precision == Precision::Judge {
            worst = worst.max(relative);
        }
    }
    Ok(worst)
}

/// The page with the bounds; `UPDATE_INTERPRETER_PAGE=1` writes it.
const PAGE: &str = "docs/interpreter.md";

/// How close an operation came, by precision.
type Errors<'a> = [BTreeMap<&'a str, f64>; 2];

fn page(compared: &BTreeMap<&str, usize>, worst: &Errors<'_>, moving: &BTreeSet<&str>) -> String {
    let bound = |dtype| format!("{:.1e}", tolerance(dtype));
    let mut page = format!(
        "# How exact the reference interpreter is\n\n\
         Written by `UPDATE_INTERPRETER_PAGE=1 cargo test -p dd-tests --test interpreter`; not by hand.\n\n\
         Gate 1 evaluates the old and the new subgraph with this interpreter. It works in two ways: as torch does, in \
         the element types of the program, and as a judge, in doubles. The test compares both with eager PyTorch on \
         random sizes, element types and arguments. An error is the largest difference of two elements over the \
         largest element of the result (or of what was summed up, where a sum cancels).\n\n\
         No operation may exceed these bounds: {} for singles, {} for half precision, {} for bfloat16, {} for doubles \
         (the judge). Integers and booleans must be equal. Operations that only move elements must agree in every \
         bit.\n\n\
         The errors below are MEASURED: the largest over all comparisons of that operation. They depend a little on \
         which vector instructions torch has on a processor.\n\n\
         | operation | comparisons | as torch, singles | as judge, doubles |\n|---|---|---|---|\n",
        bound(ScalarType::Float32),
        bound(ScalarType::Float16),
        bound(ScalarType::BFloat16),
        bound(ScalarType::Float64)
    );
    for (op, count) in compared {
        let shown = |errors: &BTreeMap<&str, f64>| match errors.get(op) {
            _ if moving.contains(op) => "same bits".to_owned(),
            Some(error) if *error > 0.0 => format!("{error:.1e}"),
            Some(_) => "none seen".to_owned(),
            None => "no floats".to_owned(),
        };
        page.push_str(&format!("| `{op}` | {count} | {} | {} |\n", shown(&worst[0]), shown(&worst[1])));
    }
    page
}

/// The operations of a page, in order.
fn operations_of(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

#[test]
fn every_operation_agrees_with_torch_on_random_arguments() {
    let calls = calls::all();
    let answers = answers(&calls);
    assert_eq!(answers.len(), calls.len());
    let mut problems = Vec::new();
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    let mut worst: [BTreeMap<&str, f64>; 2] = [BTreeMap::new(), BTreeMap::new()];
    for (call, answer) in calls.iter().zip(&answers) {
        let ways = [(Precision::Torch, "as_given"), (Precision::Judge, "in_doubles")];
        for ((precision, key), worst) in ways.into_iter().zip(&mut worst) {
            match tensors(&answer[key]) {
                Err(_) => *refused.entry(&call.op).or_default() += 1,
                Ok(expected) => {
                    *compared.entry(&call.op).or_default() += 1;
                    match judge(call, precision, &expected) {
                        Ok(error) => {
                            let slot = worst.entry(&call.op).or_default();
                            *slot = slot.max(error);
                        }
                        Err(why) => problems.push(format!("{precision:?} {}: {why}", call.describe())),
                    }
                }
            }
        }
    }
    problems.truncate(40);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    // A generator whose calls torch refuses would test nothing.
    let mostly_refused: Vec<_> =
        refused.iter().filter(|(op, n)| **n > compared.get(*op).copied().unwrap_or(0)).collect();
    assert!(mostly_refused.is_empty(), "torch refuses most calls of {mostly_refused:?}");
    let covered: BTreeSet<&str> = compared.keys().copied().collect();
    let missing: Vec<_> = interpreter::operations().into_iter().filter(|op| !covered.contains(op)).collect();
    assert!(missing.is_empty(), "no call was compared for {missing:?}");

    let name = |op: &str| op.split('.').nth(1).unwrap_or_default().to_owned();
    let moves = |op: &str| calls.iter().filter(|call| call.op == op).all(|call| call.moves);
    let moving = compared.keys().copied().filter(|op| MOVES.contains(&name(op).as_str()) && moves(op)).collect();
    let page = page(&compared, &worst, &moving);
    let path = workspace().join(PAGE);
    if std::env::var_os("UPDATE_INTERPRETER_PAGE").is_some() {
        fs_err::write(&path, page).expect("write the page");
        return;
    }
    let published = fs_err::read_to_string(&path).unwrap_or_default();
    assert_eq!(operations_of(&published), operations_of(&page), "{PAGE} is stale: write it anew");
}
