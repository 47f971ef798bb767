//! Arithmetic, comparisons, functions of one number, activations, reductions.

use delegate_doctor::graph::ScalarType;
use delegate_doctor::tensor::Tensor;

use super::{Arg, Call, TRIALS, repeat};
use crate::draw::Draw;

pub fn add(calls: &mut Vec<Call>) {
    arithmetic(calls);
    comparisons(calls);
    functions(calls);
    activations(calls);
    reductions(calls);
}

/// Two tensors that broadcast.
fn pair(draw: &mut Draw, type_of: fn(&mut Draw) -> ScalarType) -> (Tensor, Tensor) {
    let sizes = draw.sizes(0, 4);
    let narrow = |draw: &mut Draw| -> Vec<usize> {
        let skip = draw.size(0, sizes.len());
        sizes.iter().skip(skip).map(|&n| if draw.int(0, 3) == 0 { 1 } else { n }).collect()
    };
    let (mut a, mut b) = (sizes.clone(), narrow(draw));
    if draw.coin() {
        std::mem::swap(&mut a, &mut b);
    }
    let (x, y) = (type_of(draw), type_of(draw));
    (draw.tensor(x, &a), draw.tensor(y, &b))
}

fn number(draw: &mut Draw) -> Arg {
    if draw.coin() { Arg::Int(draw.int(-3, 3)) } else { Arg::Float(draw.int(-8, 8) as f64 * 0.37) }
}

fn nonzero(draw: &mut Draw) -> Arg {
    if draw.coin() { Arg::Int(draw.pick(&[-3, 1, 2, 5])) } else { Arg::Float(draw.pick(&[-1.7, 0.3, 2.0])) }
}

fn arithmetic(calls: &mut Vec<Call>) {
    for op in ["aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"] {
        repeat(calls, op, 4 * TRIALS, |draw, call| {
            let (a, b) = pair(draw, Draw::any_type);
            let integers = !a.dtype.is_floating() && !b.dtype.is_floating();
            let alpha = if integers { Arg::Int(draw.int(-2, 2)) } else { Arg::Float(0.7) };
            Some(call.tensor("self", a).tensor("other", b).maybe(draw, "alpha", alpha).scaled(12.0))
        });
    }
    for op in ["aten.add.Scalar", "aten.sub.Scalar", "aten.rsub.Scalar"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let (a, _) = pair(draw, Draw::any_type);
            Some(call.tensor("self", a).with("other", number(draw)).scaled(8.0))
        });
    }
    for op in ["aten.mul.Tensor", "aten.maximum.default", "aten.minimum.default"] {
        repeat(calls, op, 4 * TRIALS, |draw, call| {
            let (a, b) = pair(draw, Draw::any_type);
            Some(call.tensor("self", a).tensor("other", b))
        });
    }
    repeat(calls, "aten.mul.Scalar", 2 * TRIALS, |draw, call| {
        let (a, _) = pair(draw, Draw::any_type);
        Some(call.tensor("self", a).with("other", number(draw)))
    });
    for op in ["aten.div.Tensor", "aten.div.Tensor_mode"] {
        repeat(calls, op, 3 * TRIALS, |draw, call| {
            let (a, _) = pair(draw, Draw::any_type);
            let dtype = draw.float_type();
            let b = draw.positive(dtype, &[1]);
            let call = call.tensor("self", a).tensor("other", b);
            Some(if op.ends_with("mode") {
                call.with("rounding_mode", Arg::Text(draw.pick(&["floor", "trunc"])))
            } else {
                call
            })
        });
    }
    for op in ["aten.div.Scalar", "aten.div.Scalar_mode", "aten.remainder.Scalar"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            // Booleans have no remainder.
            let a = loop {
                let (a, _) = pair(draw, Draw::any_type);
                if a.dtype != ScalarType::Bool {
                    break a;
                }
            };
            let call = call.tensor("self", a).with("other", nonzero(draw));
            Some(if op.ends_with("mode") {
                call.with("rounding_mode", Arg::Text(draw.pick(&["floor", "trunc"])))
            } else {
                call
            })
        });
    }
    for op in ["aten.floor_divide.default", "aten.remainder.Tensor"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let sizes = draw.sizes(0, 3);
            let dtype = draw.pick(&[ScalarType::Float32, ScalarType::Float64, ScalarType::Int64, ScalarType::Int8]);
            let a = draw.tensor(dtype, &sizes);
            let b = if dtype.is_floating() { draw.positive(dtype, &sizes) } else { draw.indices(&[1], 1, 4) };
            Some(call.tensor("self", a).tensor("other", b))
        });
    }
    repeat(calls, "aten.pow.Tensor_Scalar", 4 * TRIALS, |draw, call| {
        let sizes = draw.sizes(0, 3);
        let dtype = if draw.coin() { draw.any_type() } else { draw.float_type() };
        let a =
            if draw.coin() && dtype.is_floating() { draw.positive(dtype, &sizes) } else { draw.tensor(dtype, &sizes) };
        let exponent = draw.pick(&[-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 1.3]);
        let whole = exponent >= 0.0 && exponent == f64::trunc(exponent);
        let exponent = if whole && draw.coin() { Arg::Int(exponent as i64) } else { Arg::Float(exponent) };
        Some(call.tensor("self", a).with("exponent", exponent))
    });
    repeat(calls, "aten.pow.Tensor_Tensor", 2 * TRIALS, |draw, call| {
        let (sizes, dtype) = (draw.sizes(0, 3), draw.float_type());
        Some(call.tensor("self", draw.positive(dtype, &sizes)).tensor("exponent", draw.tensor(dtype, &sizes)))
    });
    repeat(calls, "aten.pow.Scalar", TRIALS, |draw, call| {
        let (sizes, dtype) = (draw.sizes(0, 3), draw.float_type());
        Some(call.with("self", Arg::Float(1.7)).tensor("exponent", draw.tensor(dtype, &sizes)))
    });
    for op in ["aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let (sizes, dtype) = (draw.sizes(0, 3), draw.any_type());
            let a = if dtype.is_floating() { draw.odd(dtype, &sizes) } else { draw.tensor(dtype, &sizes) };
            let call = call.tensor("self", a);
            let call = if op.contains("max") { call } else { call.with("min", number(draw)) };
            Some(if op.contains("min") { call } else { call.with("max", number(draw)) })
        });
    }
    repeat(calls, "aten.clamp.Tensor", TRIALS, |draw, call| {
        let (sizes, dtype) = (draw.sizes(1, 3), draw.float_type());
        let call = call.tensor("self", draw.odd(dtype, &sizes)).tensor("min", draw.tensor(dtype, &sizes));
        Some(call.maybe(draw, "max", Arg::Tensor(draw_positive(dtype, &sizes))))
    });
}

fn draw_positive(dtype: ScalarType, sizes: &[usize]) -> Tensor {
    Draw::new(5).positive(dtype, sizes)
}

fn comparisons(calls: &mut Vec<Call>) {
    for name in ["eq", "ne", "lt", "le", "gt", "ge"] {
        repeat(calls, &format!("aten.{name}.Tensor"), TRIALS, |draw, call| {
            let (a, b) = pair(draw, Draw::any_type);
            Some(call.tensor("self", a).tensor("other", b))
        });
        repeat(calls, &format!("aten.{name}.Scalar"), TRIALS, |draw, call| {
            let (sizes, dtype) = (draw.sizes(0, 3), draw.float_type());
            Some(call.tensor("self", draw.odd(dtype, &sizes)).with("other", Arg::Int(draw.int(-2, 2))))
        });
    }
    for op in ["aten.logical_and.default", "aten.logical_or.default"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (a, b) = pair(draw, Draw::any_type);
            Some(call.tensor("self", a).tensor("other", b))
        });
    }
    let discrete: fn(&mut Draw) -> ScalarType =
        |draw| draw.pick(&[ScalarType::Bool, ScalarType::Int64, ScalarType::Int8, ScalarType::UInt8]);
    for op in ["aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (a, b) = pair(draw, discrete);
            Some(call.tensor("self", a).tensor("other", b))
        });
    }
    for op in ["aten.where.self", "aten.where.Scalar", "aten.where.ScalarSelf", "aten.where.ScalarOther"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (a, b) = pair(draw, Draw::any_type);
            let sizes = if draw.coin() { a.sizes.clone() } else { b.sizes.clone() };
            let condition = draw.tensor(ScalarType::Bool, &sizes);
            let (yes, no) = match op {
                "aten.where.self" => (Arg::Tensor(a), Arg::Tensor(b)),
                "aten.where.Scalar" => (number(draw), number(draw)),
                "aten.where.ScalarSelf" => (number(draw), Arg::Tensor(b)),
                _ => (Arg::Tensor(a), number(draw)),
            };
            Some(call.tensor("condition", condition).with("self", yes).with("other", no))
        });
    }
    for op in ["aten.masked_fill.Scalar", "aten.masked_fill.Tensor"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (sizes, dtype) = (draw.sizes(0, 3), draw.float_type());
            let mask = draw.tensor(ScalarType::Bool, &sizes);
            let value = match op {
                "aten.masked_fill.Scalar" => Arg::Float(f64::NEG_INFINITY),
                _ => Arg::Tensor(draw.tensor(ScalarType::Float32, &[])),
            };
            Some(call.tensor("self", draw.tensor(dtype, &sizes)).tensor("mask", mask).with("value", value))
        });
    }
}

fn functions(calls: &mut Vec<Call>) {
    for name in [
        "abs",
        "neg",
        "sign",
        "exp",
        "expm1",
        "square",
        "sin",
        "cos",
        "erf",
        "floor",
        "ceil",
        "round",
        "trunc",
        "isnan",
        "isinf",
        "logical_not",
        "reciprocal",
    ] {
        repeat(calls, &format!("aten.{name}.default"), 2 * TRIALS, |draw, call| {
            let (sizes, dtype) = (draw.sizes(0, 4), draw.any_type());
            // Booleans have no sign.
            if dtype == ScalarType::Bool
                && ["neg", "abs", "sign", "square", "floor", "ceil", "trunc", "round"].contains(&name)
            {
                return None;
            }
            let a = if dtype.is_floating() { draw.odd(dtype, &sizes) } else { draw.tensor(dtype, &sizes) };
            // Infinite angles are NaN on both sides; large ones lose digits.
            let a = if ["sin", "cos"].contains(&name) && dtype.is_floating() { draw.tensor(dtype, &sizes) } else { a };
            Some(call.tensor("self", a))
        });
    }
    repeat(calls, "aten.bitwise_not.default", TRIALS, |draw, call| {
        let (sizes, dtype) = (draw.sizes(0, 3), draw.pick(&[ScalarType::Bool, ScalarType::Int64, ScalarType::UInt8]));
        Some(call.tensor("self", draw.tensor(dtype, &sizes)))
    });
    for name in ["log", "log1p", "log2", "sqrt", "rsqrt"] {
        repeat(calls, &format!("aten.{name}.default"), 2 * TRIALS, |draw, call| {
            let (sizes, dtype) = (draw.sizes(0, 4), draw.float_type());
            let a = if draw.coin() { draw.positive(dtype, &sizes) } else { draw.odd(dtype, &sizes) };
            Some(call.tensor("self", a).scaled(1.0))
        });
    }
}

fn activations(calls: &mut Vec<Call>) {
    for name in ["relu", "relu6", "silu", "mish", "sigmoid", "log_sigmoid", "tanh", "hardswish", "hardsigmoid", "selu"]
    {
        repeat(calls, &format!("aten.{name}.default"), 2 * TRIALS, |draw, call| {
            let (sizes, dtype) = (draw.sizes(0, 4), draw.float_type());
            let a = if draw.coin() { draw.odd(dtype, &sizes) } else { draw.tensor(dtype, &sizes) };
            Some(call.tensor("self", a).scaled(1.0))
        });
    }
    let mut with = |op: &str, extra: fn(&mut Draw, Call) -> Call| {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let (sizes, dtype) = (draw.sizes(1, 4), draw.float_type());
            // torch's own GELU gives infinity or NaN for infinity, by the length of the tensor.
            let odd = draw.coin() && op != "aten.gelu.default";
            let a = if odd { draw.odd(dtype, &sizes) } else { draw.tensor(dtype, &sizes) };
            Some(extra(draw, call.tensor("self", a)).scaled(1.0))
        });
    };
    with("aten.leaky_relu.default", |draw, call| call.maybe(draw, "negative_slope", Arg::Float(0.2)));
    with("aten.hardtanh.default", |draw, call| {
        call.maybe(draw, "min_val", Arg::Float(-0.5)).maybe(draw, "max_val", Arg::Float(1.5))
    });
    with("aten.gelu.default", |draw, call| call.maybe(draw, "approximate", Arg::Text("tanh")));
    with("aten.softplus.default", |draw, call| {
        call.maybe(draw, "beta", Arg::Float(2.0)).maybe(draw, "threshold", Arg::Float(3.0))
    });
    with("aten.elu.default", |draw, call| {
        call.maybe(draw, "alpha", Arg::Float(0.7)).maybe(draw, "scale", Arg::Float(1.3))
    });
    with("aten.celu.default", |draw, call| call.maybe(draw, "alpha", Arg::Float(0.7)));
    repeat(calls, "aten.prelu.default", TRIALS, |draw, call| {
        let sizes = draw.sizes(2, 4);
        let count = if draw.coin() { 1 } else { sizes[1] };
        let a = draw.tensor(ScalarType::Float32, &sizes);
        Some(call.tensor("self", a).tensor("weight", draw.tensor(ScalarType::Float32, &[count])))
    });
}

/// A tensor of a type that sums, and some of its dimensions.
fn reduced(draw: &mut Draw, call: Call, floats: bool, list: bool) -> Call {
    let sizes = draw.sizes(1, 4);
    let dtype = if floats || draw.coin() { draw.float_type() } else { draw.any_type() };
    let tensor = draw.tensor(dtype, &sizes);
    let call = call.tensor("self", tensor).scaled(6.0);
    let first = draw.size(0, sizes.len() - 1) as i64;
    if list {
        let mut dims = vec![first];
        let second = draw.size(0, sizes.len() - 1) as i64;
        if second != first {
            dims.push(second - sizes.len() as i64);
        }
        call.ints("dim", dims)
    } else {
        call.int("dim", first)
    }
}

fn reductions(calls: &mut Vec<Call>) {
    for (op, floats, list) in [
        ("aten.sum.dim_IntList", false, true),
        ("aten.mean.dim", true, true),
        ("aten.amax.default", false, true),
        ("aten.amin.default", false, true),
        ("aten.max.dim", false, false),
        ("aten.min.dim", false, false),
        ("aten.argmax.default", true, false),
        ("aten.argmin.default", true, false),
        ("aten.any.dim", false, false),
        ("aten.all.dim", false, false),
        ("aten.var.correction", true, true),
        ("aten.var.dim", true, true),
    ] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let call = reduced(draw, call, floats, list);
            let call = call.maybe(draw, "keepdim", Arg::Bool(true));
            Some(match op {
                "aten.var.correction" => call.with("correction", Arg::Int(0)),
                "aten.var.dim" => call.maybe(draw, "unbiased", Arg::Bool(false)),
                _ => call,
            })
        });
    }
    for name in ["sum", "mean", "max", "min", "any", "all"] {
        repeat(calls, &format!("aten.{name}.default"), TRIALS, |draw, call| {
            let (sizes, dtype) = (draw.sizes(0, 3), if name == "mean" { draw.float_type() } else { draw.any_type() });
            let magnitude = 3.0 * sizes.iter().product::<usize>() as f64;
            Some(call.tensor("self", draw.tensor(dtype, &sizes)).scaled(if name == "mean" { 3.0 } else { magnitude }))
        });
    }
    for op in ["aten.amax.default", "aten.max.dim", "aten.argmax.default"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let sizes = draw.sizes(1, 3);
            let a = draw.odd(ScalarType::Float32, &sizes);
            let dim = draw.size(0, sizes.len() - 1) as i64;
            let dim = if op == "aten.amax.default" { Arg::Ints(vec![dim]) } else { Arg::Int(dim) };
            Some(call.tensor("self", a).with("dim", dim))
        });
    }
    repeat(calls, "aten.sum.dim_IntList", 4, |draw, call| {
        // Long enough for the order of summation to matter.
        let a = draw.tensor(ScalarType::Float32, &[2, 20_000]);
        Some(call.tensor("self", a).ints("dim", [1]).scaled(400.0))
    });
    for op in [
        "aten.softmax.int",
        "aten._softmax.default",
        "aten._safe_softmax.default",
        "aten.log_softmax.int",
        "aten._log_softmax.default",
    ] {
        repeat(calls, op, 4 * TRIALS, |draw, call| {
            let (sizes, dtype) = (draw.sizes(0, 5), draw.float_type());
            let dim = draw.dim(sizes.len());
            let a = match draw.int(0, 2) {
                0 => draw.odd(dtype, &sizes),
                _ => draw.tensor(dtype, &sizes),
            };
            let call = call.tensor("self", a).int("dim", dim).scaled(1.0);
            Some(if op.contains("._softmax") || op.contains("._log") {
                call.with("half_to_float", Arg::Bool(false))
            } else {
                call
            })
        });
    }
}
