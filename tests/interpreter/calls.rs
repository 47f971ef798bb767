//! Random calls of every operation of the interpreter's table.

mod layers;
mod numbers;
mod shapes;

use std::fmt::Write as _;

use delegate_doctor::graph::{Literal, ScalarType};
use delegate_doctor::interpreter::{Array, Item, Precision};
use delegate_doctor::tensor::Tensor;
use serde_json::{Value, json};

use super::draw::Draw;

/// How many random calls of an operation, unless its family says otherwise.
pub const TRIALS: usize = 12;

/// An argument in both spellings.
#[derive(Clone)]
pub enum Arg {
    /// one tensor
    Tensor(Tensor),
    /// a list of tensors with holes
    Tensors(Vec<Option<Tensor>>),
    /// an integer
    Int(i64),
    /// a list of integers
    Ints(Vec<i64>),
    /// a float
    Float(f64),
    /// a list of floats
    Floats(Vec<f64>),
    /// a boolean
    Bool(bool),
    /// a string
    Text(&'static str),
    /// an element type
    Dtype(ScalarType),
    /// `None`
    Nothing,
}

/// One call.
pub struct Call {
    /// overload name
    pub op: String,
    /// named arguments
    pub args: Vec<(String, Arg)>,
    /// errors are relative to the larger of this and the largest element of the result
    pub magnitude: f64,
    /// the operation only moves elements, as far as its family knows
    pub moves: bool,
}

/// Every call of the test.
pub fn all() -> Vec<Call> {
    let mut calls = Vec::new();
    shapes::add(&mut calls);
    numbers::add(&mut calls);
    layers::add(&mut calls);
    calls
}

/// Starts a call.
pub fn call(op: &str) -> Call {
    Call { op: op.to_owned(), args: Vec::new(), magnitude: 0.0, moves: true }
}

/// Random calls of one operation: `make` fills in the arguments, or gives up.
pub fn repeat(calls: &mut Vec<Call>, op: &str, trials: usize, mut make: impl FnMut(&mut Draw, Call) -> Option<Call>) {
    let seed = op.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    for trial in 0..trials {
        let mut draw = Draw::new(seed.wrapping_add(trial as u64 * 1_000_003));
        calls.extend(make(&mut draw, call(op)));
    }
}

impl Call {
    /// Adds an argument.
    pub fn with(mut self, name: &str, arg: Arg) -> Self {
        self.args.push((name.to_owned(), arg));
        self
    }

    /// Adds a tensor.
    pub fn tensor(self, name: &str, tensor: Tensor) -> Self {
        self.with(name, Arg::Tensor(tensor))
    }

    /// Adds an integer.
    pub fn int(self, name: &str, n: i64) -> Self {
        self.with(name, Arg::Int(n))
    }

    /// Adds a list of integers.
    pub fn ints(self, name: &str, list: impl IntoIterator<Item = i64>) -> Self {
        self.with(name, Arg::Ints(list.into_iter().collect()))
    }

    /// Adds an argument half of the time.
    pub fn maybe(self, draw: &mut Draw, name: &str, arg: Arg) -> Self {
        if draw.coin() { self.with(name, arg) } else { self }
    }

    /// Judges errors by at least this magnitude.
    pub fn scaled(mut self, magnitude: f64) -> Self {
        self.magnitude = magnitude;
        self
    }

    /// The call as the interpreter takes it.
    pub fn items(&self, precision: Precision) -> Vec<(String, Item)> {
        let array = |tensor: &Tensor| Array::from_tensor(tensor, precision).expect("a type that can be compared");
        let item = |arg: &Arg| match arg {
            Arg::Tensor(tensor) => Item::Tensor(array(tensor)),
            Arg::Tensors(list) if list.iter().all(Option::is_some) => {
                Item::Tensors(list.iter().flatten().map(array).collect())
            }
            Arg::Tensors(list) => Item::OptionalTensors(list.iter().map(|t| t.as_ref().map(array)).collect()),
            Arg::Int(n) => Item::Literal(Literal::Int(*n)),
            Arg::Ints(list) => Item::Literal(Literal::Ints(list.clone())),
            Arg::Float(x) => Item::Literal(Literal::Float(*x)),
            Arg::Floats(list) => Item::Literal(Literal::Floats(list.clone())),
            Arg::Bool(x) => Item::Literal(Literal::Bool(*x)),
            Arg::Text(text) => Item::Literal(Literal::Text((*text).to_owned())),
            Arg::Dtype(dtype) => Item::Literal(Literal::ScalarType(*dtype)),
            Arg::Nothing => Item::Literal(Literal::None),
        };
        self.args.iter().map(|(name, arg)| (name.clone(), item(arg))).collect()
    }

    /// The call as the Python script takes it.
    pub fn json(&self) -> Value {
        let tensor = |tensor: &Tensor| json!({"dtype": tensor.dtype.torch_name(), "sizes": tensor.sizes, "hex": hex::encode(&tensor.bytes)});
        let float = |x: f64| if x.is_finite() { json!(x) } else { json!(x.to_string()) };
        let argument = |arg: &Arg| match arg {
            Arg::Tensor(t) => json!({"tensor": tensor(t)}),
            Arg::Tensors(list) => {
                json!({"tensors": list.iter().map(|t| t.as_ref().map(tensor)).collect::<Vec<_>>()})
            }
            Arg::Int(n) => json!({"int": n}),
            Arg::Ints(list) => json!({"ints": list}),
            Arg::Float(x) => json!({"float": float(*x)}),
            Arg::Floats(list) => json!({"floats": list.iter().map(|x| float(*x)).collect::<Vec<_>>()}),
            Arg::Bool(x) => json!({"bool": x}),
            Arg::Text(text) => json!({"text": text}),
            Arg::Dtype(dtype) => json!({"dtype": dtype.torch_name()}),
            Arg::Nothing => json!({"nothing": null}),
        };
        let args: Vec<Value> = self.args.iter().map(|(name, arg)| json!([name, argument(arg)])).collect();
        json!({"op": self.op, "args": args})
    }

    /// The call for a failure message.
    pub fn describe(&self) -> String {
        let mut text = format!("{}(", self.op);
        for (name, arg) in &self.args {
            let form = |t: &Tensor| format!("{}{:?}", t.dtype.torch_name(), t.sizes);
            let _ = match arg {
                Arg::Tensor(t) => write!(text, "{name}={} ", form(t)),
                Arg::Tensors(list) => {
                    write!(text, "{name}={:?} ", list.iter().map(|t| t.as_ref().map(form)).collect::<Vec<_>>())
                }
                Arg::Int(n) => write!(text, "{name}={n} "),
                Arg::Ints(list) => write!(text, "{name}={list:?} "),
                Arg::Float(x) => write!(text, "{name}={x} "),
                Arg::Floats(list) => write!(text, "{name}={list:?} "),
                Arg::Bool(x) => write!(text, "{name}={x} "),
                Arg::Text(word) => write!(text, "{name}={word} "),
                Arg::Dtype(dtype) => write!(text, "{name}={} ", dtype.torch_name()),
                Arg::Nothing => write!(text, "{name}=None "),
            };
        }
        text.trim_end().to_owned() + ")"
    }
}
