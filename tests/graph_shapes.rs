//! The shape rules of the host against torch, on random calls.

use std::collections::BTreeMap;
use std::process::Command;

use delegate_doctor::graph::shapes::{self, ShapeArgument, ShapeError};
use delegate_doctor::graph::{Dim, Literal, MemoryFormat, ScalarType, TensorMeta};
use serde_json::Value as Json;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/random_shapes.py");

/// Random calls; enough for some thirty of each operator.
const CALLS: usize = 3000;

enum Given {
    Literal(Literal),
    Tensor(TensorMeta),
    Tensors(Vec<TensorMeta>),
}

fn numbers(json: &Json) -> Vec<i64> {
    json.as_array().expect("numbers").iter().map(|number| number.as_i64().expect("an integer")).collect()
}

fn meta(json: &Json) -> TensorMeta {
    let dims = |name: &str| numbers(&json[name]).into_iter().map(Dim::Fixed).collect();
    TensorMeta {
        dtype: ScalarType::from_torch_name(json["dtype"].as_str().expect("dtype")).expect("known dtype"),
        sizes: dims("sizes"),
        strides: dims("strides"),
        storage_offset: Dim::Fixed(json["offset"].as_i64().expect("offset")),
        device: "cpu".to_owned(),
        layout: 7,
        requires_grad: false,
    }
}

fn given(json: &Json) -> Given {
    let (kind, body) = json.as_object().and_then(|map| map.iter().next()).expect("one argument");
    Given::Literal(match kind.as_str() {
        "tensor" => return Given::Tensor(meta(body)),
        "tensors" => return Given::Tensors(body.as_array().expect("tensors").iter().map(meta).collect()),
        "none" => Literal::None,
        "bool" => Literal::Bool(body.as_bool().expect("bool")),
        "int" => Literal::Int(body.as_i64().expect("int")),
        "float" => Literal::Float(body.as_f64().expect("float")),
        "text" => Literal::Text(body.as_str().expect("text").to_owned()),
        "ints" => Literal::Ints(numbers(body)),
        "floats" => Literal::Floats(body.as_array().expect("floats").iter().filter_map(Json::as_f64).collect()),
        "dtype" => Literal::ScalarType(ScalarType::from_torch_name(body.as_str().expect("dtype")).expect("known")),
        "format" => Literal::MemoryFormat(match body.as_str().expect("format") {
            "contiguous" => MemoryFormat::Contiguous,
            "preserve" => MemoryFormat::Preserve,
            _ => MemoryFormat::ChannelsLast,
        }),
        other => panic!("argument kind {other}"),
    })
}

/// What a reader of the tensor can tell: strides of axes of size 1 and of empty tensors say nothing.
fn visible(meta: &TensorMeta) -> (ScalarType, Vec<i64>, Vec<i64>, Option<i64>) {
    let (sizes, strides) = (meta.fixed_sizes().expect("fixed"), meta.fixed_strides().expect("fixed"));
    let told = if sizes.contains(&0) {
        Vec::new()
    } else {
        sizes.iter().zip(&strides).filter(|(size, _)| **size != 1).map(|(_, stride)| *stride).collect()
    };
    (meta.dtype, sizes, told, meta.storage_offset.fixed())
}

fn infer(call: &Json) -> Result<Vec<TensorMeta>, ShapeError> {
    let op = call["op"].as_str().expect("op");
    let inputs: Vec<(&str, Given)> = call["inputs"]
        .as_array()
        .expect("inputs")
        .iter()
        .map(|input| (input[0].as_str().expect("name"), given(&input[1])))
        .collect();
    let arguments: Vec<(&str, ShapeArgument<'_>)> = inputs
        .iter()
        .map(|(name, given)| {
            let argument = match given {
                Given::Literal(literal) => ShapeArgument::Literal(literal),
                Given::Tensor(meta) => ShapeArgument::Tensor(meta),
                Given::Tensors(metas) => ShapeArgument::Tensors(metas.iter().collect()),
            };
            (*name, argument)
        })
        .collect();
    shapes::infer(op, &arguments)
}

#[test]
fn shapes_are_those_of_torch() {
    let seed = std::env::var("DELEGATE_DOCTOR_SEED").unwrap_or_else(|_| "1".to_owned());
    let output = Command::new(dd_tests::python().python)
        .args([SCRIPT, &seed, &CALLS.to_string()])
        .output()
        .expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("UTF-8");

    let mut wrong = Vec::new();
    let mut answered: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for line in lines.lines() {
        let call: Json = serde_json::from_str(line).expect("a JSON line");
        let count = answered.entry(call["op"].as_str().expect("op").to_owned()).or_default();
        count.1 += 1;
        let expected = call["outputs"].as_array().map(|outputs| outputs.iter().map(meta).collect::<Vec<_>>());
        match (infer(&call), expected) {
            (Ok(found), Some(expected)) => {
                count.0 += 1;
                let same = found.len() == expected.len()
                    && found.iter().zip(&expected).all(|(found, expected)| visible(found) == visible(expected));
                if !same {
                    let found: Vec<_> = found.iter().map(visible).collect();
                    wrong.push(format!("{line}\n  here: {found:?}"));
                }
            }
            (Err(ShapeError::Invalid { .. }), None) => count.0 += 1,
            (Err(ShapeError::Undecided { .. }), _) => {}
            // A kernel that the CPU lacks says nothing about shapes.
            (Ok(_), None) if call["error"].as_str().is_some_and(|error| error.contains("not implemented for")) => {}
            (found, _) => wrong.push(format!("{line}\n  here: {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {CALLS} calls differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    for (op, (answered, calls)) in &answered {
        assert!(*calls > 3, "{op} was called {calls} times");
        assert!(answered * 4 >= *calls, "{op}: only {answered} of {calls} calls were answered");
    }
    assert!(answered.len() > 100, "{}", answered.len());
}
