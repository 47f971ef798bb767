//! Pooling, convolutions, matrix products, normalisation, resizing, attention.

use delegate_doctor::graph::ScalarType;
use delegate_doctor::tensor::Tensor;

use super::{Arg, Call, TRIALS, repeat};
use crate::draw::Draw;

pub fn add(calls: &mut Vec<Call>) {
    pooling(calls);
    convolutions(calls);
    products(calls);
    normalization(calls);
    resizing(calls);
}

fn image(draw: &mut Draw, low: usize, high: usize) -> Vec<usize> {
    let mut sizes = vec![draw.size(1, 3), draw.size(low, high), draw.size(low, high)];
    if draw.coin() {
        sizes.insert(0, draw.size(1, 2));
    }
    sizes
}

fn pooling(calls: &mut Vec<Call>) {
    repeat(calls, "aten.avg_pool2d.default", 12 * TRIALS, |draw, call| {
        let (sizes, dtype) = (image(draw, 3, 9), draw.float_type());
        let kernel = [draw.int(1, 4), draw.int(1, 4)];
        let padding: Vec<i64> = kernel.iter().map(|&k| draw.int(0, k / 2)).collect();
        let stride = [draw.int(1, 4), draw.int(1, 4)];
        let call = call.tensor("self", draw.tensor(dtype, &sizes)).ints("kernel_size", kernel);
        let call = if draw.int(0, 3) == 0 { call.ints("stride", []) } else { call.ints("stride", stride) };
        let call = call.ints("padding", padding);
        let call = call.maybe(draw, "ceil_mode", Arg::Bool(true)).maybe(draw, "count_include_pad", Arg::Bool(false));
        let divisor = Arg::Int(draw.pick(&[-3, 1, 2, 7]));
        Some(call.maybe(draw, "divisor_override", divisor).scaled(1.0))
    });
    repeat(calls, "aten.avg_pool1d.default", 2 * TRIALS, |draw, call| {
        let sizes = [draw.size(1, 3), draw.size(1, 3), draw.size(3, 9)];
        let kernel = draw.int(1, 4);
        let call = call.tensor("self", draw.tensor(ScalarType::Float32, &sizes)).ints("kernel_size", [kernel]);
        let call = call.ints("stride", [draw.int(1, 3)]).ints("padding", [draw.int(0, kernel / 2)]);
        Some(
            call.maybe(draw, "ceil_mode", Arg::Bool(true))
                .maybe(draw, "count_include_pad", Arg::Bool(false))
                .scaled(1.0),
        )
    });
    for op in ["aten.max_pool2d.default", "aten.max_pool2d_with_indices.default"] {
        repeat(calls, op, 4 * TRIALS, |draw, call| {
            let (sizes, dtype) = (image(draw, 5, 9), draw.float_type());
            let kernel = [draw.int(1, 3), draw.int(1, 3)];
            let padding: Vec<i64> = kernel.iter().map(|&k| draw.int(0, k / 2)).collect();
            let tensor = if draw.coin() { draw.odd(dtype, &sizes) } else { draw.tensor(dtype, &sizes) };
            let call = call.tensor("self", tensor).ints("kernel_size", kernel);
            let call = call.ints("stride", [draw.int(1, 3), draw.int(1, 3)]).ints("padding", padding);
            let call = call.ints("dilation", [draw.int(1, 2), draw.int(1, 2)]);
            Some(call.maybe(draw, "ceil_mode", Arg::Bool(true)))
        });
    }
    for op in ["aten.adaptive_avg_pool2d.default", "aten._adaptive_avg_pool2d.default"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let (sizes, dtype) = (image(draw, 2, 9), draw.float_type());
            let out = if draw.int(0, 3) == 0 { [1, 1] } else { [draw.int(1, 8), draw.int(1, 8)] };
            Some(call.tensor("self", draw.tensor(dtype, &sizes)).ints("output_size", out).scaled(1.0))
        });
    }
    repeat(calls, "aten.adaptive_avg_pool1d.default", TRIALS, |draw, call| {
        let sizes = [draw.size(1, 3), draw.size(1, 3), draw.size(2, 9)];
        Some(
            call.tensor("self", draw.tensor(ScalarType::Float32, &sizes))
                .ints("output_size", [draw.int(1, 5)])
                .scaled(1.0),
        )
    });
}

/// Input, weight and bias of a convolution; groups.
fn kernel(draw: &mut Draw, spatial: usize) -> (Tensor, Tensor, Option<Tensor>, i64) {
    let dtype = draw.pick(&[ScalarType::Float32, ScalarType::Float32, ScalarType::Float64, ScalarType::Float16]);
    let groups = draw.size(1, 3);
    let (inner, per_group) = (draw.size(1, 3), draw.size(1, 3));
    let mut input = vec![draw.size(1, 2), groups * inner];
    let mut weight = vec![groups * per_group, inner];
    for _ in 0..spatial {
        input.push(draw.size(5, 9));
        weight.push(draw.size(1, 3));
    }
    if draw.int(0, 4) == 0 {
        input.remove(0);
    }
    let bias = draw.coin().then(|| draw.tensor(dtype, &[groups * per_group]));
    (draw.tensor(dtype, &input), draw.tensor(dtype, &weight), bias, groups as i64)
}

fn convolutions(calls: &mut Vec<Call>) {
    for (op, spatial) in [("aten.conv1d.default", 1), ("aten.conv2d.default", 2), ("aten.convolution.default", 2)] {
        repeat(calls, op, 5 * TRIALS, |draw, call| {
            let (input, weight, bias, groups) = kernel(draw, spatial);
            let list = |draw: &mut Draw, low, high| (0..spatial).map(|_| draw.int(low, high)).collect::<Vec<_>>();
            let (stride, padding, dilation) = (list(draw, 1, 3), list(draw, 0, 2), list(draw, 1, 2));
            let general = op == "aten.convolution.default";
            if general && input.sizes.len() != spatial + 2 {
                return None;
            }
            let call = call.tensor("input", input).tensor("weight", weight);
            let call = match (bias, general) {
                (Some(bias), _) => call.tensor("bias", bias),
                (None, true) => return None,
                (None, false) => call,
            };
            let call = call.ints("stride", stride).ints("padding", padding).ints("dilation", dilation);
            let call = if general {
                call.with("transposed", Arg::Bool(false)).ints("output_padding", vec![0; spatial])
            } else {
                call
            };
            Some(call.int("groups", groups).scaled(20.0))
        });
    }
    for (op, spatial) in [("aten.conv1d.padding", 1), ("aten.conv2d.padding", 2)] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let (input, weight, bias, groups) = kernel(draw, spatial);
            let call = call.tensor("input", input).tensor("weight", weight);
            let call = match bias {
                Some(bias) => call.tensor("bias", bias),
                None => call,
            };
            let dilation: Vec<i64> = (0..spatial).map(|_| draw.int(1, 2)).collect();
            let call = call.with("padding", Arg::Text(draw.pick(&["same", "valid"]))).ints("dilation", dilation);
            Some(call.int("groups", groups).scaled(20.0))
        });
    }
}

fn products(calls: &mut Vec<Call>) {
    let float = |draw: &mut Draw| {
        draw.pick(&[ScalarType::Float32, ScalarType::Float32, ScalarType::Float64, ScalarType::Float16])
    };
    repeat(calls, "aten.mm.default", TRIALS, |draw, call| {
        let (dtype, m, k, n) = (float(draw), draw.size(0, 5), draw.size(0, 40), draw.size(1, 5));
        Some(call.tensor("self", draw.tensor(dtype, &[m, k])).tensor("mat2", draw.tensor(dtype, &[k, n])).scaled(30.0))
    });
    repeat(calls, "aten.bmm.default", TRIALS, |draw, call| {
        let (dtype, b, m, k, n) = (float(draw), draw.size(1, 3), draw.size(1, 5), draw.size(1, 40), draw.size(1, 5));
        Some(
            call.tensor("self", draw.tensor(dtype, &[b, m, k]))
                .tensor("mat2", draw.tensor(dtype, &[b, k, n]))
                .scaled(30.0),
        )
    });
    repeat(calls, "aten.matmul.default", 3 * TRIALS, |draw, call| {
        let (dtype, k) = (float(draw), draw.size(1, 30));
        let batch = draw.sizes(0, 2);
        let thin: Vec<usize> = batch.iter().map(|&n| if draw.coin() { 1 } else { n }).collect();
        let with = |batch: &[usize], tail: &[usize]| [batch, tail].concat();
        let (m, n) = (draw.size(1, 4), draw.size(1, 4));
        let a = if draw.int(0, 3) == 0 { vec![k] } else { with(&batch, &[m, k]) };
        let b = if draw.int(0, 3) == 0 { vec![k] } else { with(&thin, &[k, n]) };
        Some(call.tensor("self", draw.tensor(dtype, &a)).tensor("other", draw.tensor(dtype, &b)).scaled(30.0))
    });
    repeat(calls, "aten.linear.default", 2 * TRIALS, |draw, call| {
        let (dtype, k, out) = (float(draw), draw.size(1, 40), draw.size(1, 5));
        let sizes = [draw.sizes(0, 3), vec![k]].concat();
        let call = call.tensor("input", draw.tensor(dtype, &sizes)).tensor("weight", draw.tensor(dtype, &[out, k]));
        let bias = Arg::Tensor(draw.tensor(dtype, &[out]));
        Some(call.maybe(draw, "bias", bias).scaled(30.0))
    });
    for op in ["aten.addmm.default", "aten.baddbmm.default"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let (dtype, m, k, n) = (float(draw), draw.size(1, 5), draw.size(1, 20), draw.size(1, 5));
            let batch = op.contains("badd").then(|| draw.size(1, 3));
            let sizes = |tail: [usize; 2]| batch.into_iter().chain(tail).collect::<Vec<_>>();
            let names = if batch.is_some() { ["batch1", "batch2"] } else { ["mat1", "mat2"] };
            let own = if draw.coin() { sizes([1, n]) } else { sizes([m, n]) };
            let call = call
                .tensor("self", draw.tensor(dtype, &own))
                .tensor(names[0], draw.tensor(dtype, &sizes([m, k])))
                .tensor(names[1], draw.tensor(dtype, &sizes([k, n])));
            let call = call.maybe(draw, "beta", Arg::Float(0.5));
            Some(call.maybe(draw, "alpha", Arg::Int(2)).scaled(40.0))
        });
    }
    repeat(calls, "aten.scaled_dot_product_attention.default", 3 * TRIALS, |draw, call| {
        let (b, h, l, s, d, v) =
            (draw.size(1, 2), draw.size(1, 3), draw.size(1, 6), draw.size(1, 6), draw.size(1, 8), draw.size(1, 5));
        let dtype = draw.pick(&[ScalarType::Float32, ScalarType::Float64]);
        let call = call
            .tensor("query", draw.tensor(dtype, &[b, h, l, d]))
            .tensor("key", draw.tensor(dtype, &[b, h, s, d]))
            .tensor("value", draw.tensor(dtype, &[b, h, s, v]));
        let call = match draw.int(0, 3) {
            0 => call.tensor("attn_mask", draw.tensor(ScalarType::Bool, &[l, s])),
            1 => call.tensor("attn_mask", draw.tensor(dtype, &[b, 1, l, s])),
            2 => call.with("is_causal", Arg::Bool(true)),
            _ => call,
        };
        Some(call.maybe(draw, "scale", Arg::Float(0.3)).scaled(3.0))
    });
}

fn normalization(calls: &mut Vec<Call>) {
    for op in ["aten.batch_norm.default", "aten._native_batch_norm_legit_no_training.default"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let dtype = draw.pick(&[ScalarType::Float32, ScalarType::Float32, ScalarType::Float64]);
            let sizes = draw.sizes(2, 4);
            let channels = [sizes[1]];
            let native = op.contains("native");
            let call = call.tensor("input", draw.tensor(dtype, &sizes));
            let call = if native || draw.coin() {
                call.tensor("weight", draw.tensor(dtype, &channels)).tensor("bias", draw.tensor(dtype, &channels))
            } else {
                call
            };
            let call = call
                .tensor("running_mean", draw.tensor(dtype, &channels))
                .tensor("running_var", draw.positive(dtype, &channels));
            let call = if native { call } else { call.with("training", Arg::Bool(false)) };
            let call = call.with("momentum", Arg::Float(0.1)).with("eps", Arg::Float(1e-3));
            Some(if native { call } else { call.with("cudnn_enabled", Arg::Bool(true)) }.scaled(10.0))
        });
    }
    for op in ["aten.layer_norm.default", "aten.native_layer_norm.default"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let dtype = draw.pick(&[ScalarType::Float32, ScalarType::Float64]);
            let mut sizes = draw.sizes(1, 4);
            let last = sizes.len() - 1;
            sizes[last] = draw.size(2, 9);
            let shape = &sizes[draw.size(0, last)..];
            let call = call
                .tensor("input", draw.tensor(dtype, &sizes))
                .ints("normalized_shape", shape.iter().map(|&n| n as i64));
            let native = op.contains("native");
            let call = if native || draw.coin() {
                call.tensor("weight", draw.tensor(dtype, shape)).tensor("bias", draw.tensor(dtype, shape))
            } else {
                call
            };
            Some(call.with("eps", Arg::Float(1e-3)).scaled(20.0))
        });
    }
    repeat(calls, "aten.group_norm.default", 2 * TRIALS, |draw, call| {
        let dtype = draw.pick(&[ScalarType::Float32, ScalarType::Float64]);
        let groups = draw.size(1, 3);
        let channels = groups * draw.size(1, 3);
        let sizes = [draw.size(1, 2), channels, draw.size(2, 5), draw.size(2, 5)];
        let call = call.tensor("input", draw.tensor(dtype, &sizes)).int("num_groups", groups as i64);
        let call = if draw.coin() {
            call.tensor("weight", draw.tensor(dtype, &[channels])).tensor("bias", draw.tensor(dtype, &[channels]))
        } else {
            call
        };
        Some(call.with("eps", Arg::Float(1e-3)).scaled(20.0))
    });
}

fn resizing(calls: &mut Vec<Call>) {
    for name in ["upsample_nearest2d", "upsample_bilinear2d"] {
        for overload in ["vec", "default"] {
            repeat(calls, &format!("aten.{name}.{overload}"), 4 * TRIALS, |draw, call| {
                let sizes = [draw.size(1, 2), draw.size(1, 3), draw.size(1, 7), draw.size(1, 7)];
                let dtype = draw.pick(&[ScalarType::Float32, ScalarType::Float32, ScalarType::Float64]);
                let scales = [draw.pick(&[0.5, 1.0, 1.7, 2.0, 2.5]), draw.pick(&[0.6, 1.0, 1.3, 2.0, 3.0])];
                let grown: Vec<i64> =
                    sizes[2..].iter().zip(&scales).map(|(&n, &s)| (n as f64 * s).floor() as i64).collect();
                if grown.contains(&0) {
                    return None;
                }
                let align = Arg::Bool(draw.coin());
                let first = if overload == "vec" { "input" } else { "self" };
                let call = call.tensor(first, draw.tensor(dtype, &sizes));
                let bilinear = name.contains("bilinear");
                Some(
                    if overload == "vec" {
                        let by_scale = draw.coin();
                        let call = if by_scale {
                            call.with("output_size", Arg::Nothing)
                        } else {
                            call.ints("output_size", grown)
                        };
                        let call = if bilinear { call.with("align_corners", align) } else { call };
                        if by_scale {
                            call.with("scale_factors", Arg::Floats(scales.to_vec()))
                        } else {
                            call.with("scale_factors", Arg::Nothing)
                        }
                    } else {
                        let call = call.ints("output_size", grown);
                        let call = if bilinear { call.with("align_corners", align) } else { call };
                        if draw.coin() {
                            call.with("scales_h", Arg::Float(scales[0])).with("scales_w", Arg::Float(scales[1]))
                        } else {
                            call
                        }
                    }
                    .scaled(3.0),
                )
            });
        }
    }
}
