//! Operations that move elements, choose parts, pad, resize and make tensors.

use delegate_doctor::graph::ScalarType;

use super::{Arg, Call, TRIALS, repeat};
use crate::draw::Draw;

fn signed(sizes: &[usize]) -> Vec<i64> {
    sizes.iter().map(|&n| n as i64).collect()
}

/// A tensor of any type and random sizes.
fn any(draw: &mut Draw, low: usize, high: usize) -> (delegate_doctor::tensor::Tensor, Vec<usize>) {
    let (dtype, sizes) = (draw.any_type(), draw.sizes(low, high));
    (draw.tensor(dtype, &sizes), sizes)
}

/// Other sizes of the same count.
fn regrouped(draw: &mut Draw, sizes: &[usize]) -> Vec<i64> {
    let count: usize = sizes.iter().product();
    let divisors: Vec<usize> = (1..=count).filter(|n| count.is_multiple_of(*n)).collect();
    let first = draw.pick(&divisors);
    let mut result = signed(&[first, count / first]);
    if draw.coin() {
        let open = draw.size(0, 1);
        result[open] = -1;
    }
    if draw.coin() {
        result.insert(draw.size(0, 2), 1);
    }
    result
}

pub fn add(calls: &mut Vec<Call>) {
    layout(calls);
    parts(calls);
    joins(calls);
    indexing(calls);
    padding(calls);
    creation(calls);
}

fn layout(calls: &mut Vec<Call>) {
    for (op, name) in [
        ("aten.view.default", "size"),
        ("aten.view_copy.default", "size"),
        ("aten._unsafe_view.default", "size"),
        ("aten.reshape.default", "shape"),
    ] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (tensor, sizes) = any(draw, 0, 4);
            let target = regrouped(draw, &sizes);
            Some(call.tensor("self", tensor).ints(name, target))
        });
    }
    repeat(calls, "aten.flatten.using_ints", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 0, 4);
        let rank = sizes.len().max(1);
        let start = draw.size(0, rank - 1);
        let end = draw.size(start, rank - 1);
        Some(call.tensor("self", tensor).int("start_dim", start as i64).int("end_dim", end as i64))
    });
    repeat(calls, "aten.unflatten.int", TRIALS, |draw, call| {
        let mut sizes = draw.sizes(1, 3);
        let axis = draw.size(0, sizes.len() - 1);
        sizes[axis] = 6;
        let dtype = draw.any_type();
        let parts = draw.pick(&[[2, 3], [-1, 2], [6, 1]]);
        Some(call.tensor("self", draw.tensor(dtype, &sizes)).int("dim", axis as i64).ints("sizes", parts))
    });
    for op in ["aten.permute.default", "aten.permute_copy.default"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (tensor, sizes) = any(draw, 0, 4);
            let mut order: Vec<i64> = (0..sizes.len() as i64).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, draw.size(0, i));
            }
            if let Some(dim) = order.first_mut().filter(|_| draw.coin()) {
                *dim -= sizes.len() as i64;
            }
            Some(call.tensor("self", tensor).ints("dims", order))
        });
    }
    for op in ["aten.transpose.int", "aten.transpose_copy.int"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (tensor, sizes) = any(draw, 0, 4);
            let (a, b) = (draw.dim(sizes.len()), draw.dim(sizes.len()));
            Some(call.tensor("self", tensor).int("dim0", a).int("dim1", b))
        });
    }
    repeat(calls, "aten.t.default", TRIALS, |draw, call| Some(call.tensor("self", any(draw, 0, 2).0)));
    for op in ["aten.unsqueeze.default", "aten.unsqueeze_copy.default"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (tensor, sizes) = any(draw, 0, 3);
            let dim = draw.dim(sizes.len() + 1);
            Some(call.tensor("self", tensor).int("dim", dim))
        });
    }
    repeat(calls, "aten.squeeze.default", TRIALS, |draw, call| Some(call.tensor("self", any(draw, 0, 4).0)));
    repeat(calls, "aten.squeeze.dim", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 0, 4);
        let dim = draw.dim(sizes.len());
        Some(call.tensor("self", tensor).int("dim", dim))
    });
    for op in ["aten.squeeze.dims", "aten.squeeze_copy.dims"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (tensor, _) = any(draw, 2, 4);
            let dims = draw.pick(&[[0, 1], [0, -1], [1, -2]]);
            let dims = if dims == [1, -2] { vec![1] } else { dims.to_vec() };
            Some(call.tensor("self", tensor).ints("dim", dims))
        });
    }
    for op in ["aten.expand.default", "aten.expand_copy.default", "aten.broadcast_to.default"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let mut sizes = draw.sizes(0, 3);
            let mut target = signed(&sizes);
            for (size, wide) in sizes.iter_mut().zip(&mut target) {
                match draw.int(0, 2) {
                    0 => (*size, *wide) = (1, draw.int(1, 4)),
                    1 => *wide = -1,
                    _ => {}
                }
            }
            if draw.coin() {
                target.insert(0, draw.int(1, 3));
            }
            let dtype = draw.any_type();
            Some(call.tensor("self", draw.tensor(dtype, &sizes)).ints("size", target))
        });
    }
    repeat(calls, "aten.expand_as.default", TRIALS, |draw, call| {
        let sizes = draw.sizes(1, 4);
        let own: Vec<usize> = sizes.iter().map(|&n| if draw.coin() { 1 } else { n }).collect();
        let dtype = draw.any_type();
        Some(call.tensor("self", draw.tensor(dtype, &own)).tensor("other", draw.tensor(dtype, &sizes)))
    });
    repeat(calls, "aten.repeat.default", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 0, 3);
        let extra = draw.size(0, 1);
        let repeats: Vec<i64> = (0..sizes.len() + extra).map(|_| draw.int(0, 3)).collect();
        Some(call.tensor("self", tensor).ints("repeats", repeats))
    });
    for op in [
        "aten.contiguous.default",
        "aten.clone.default",
        "aten.alias.default",
        "aten.alias_copy.default",
        "aten.detach.default",
        "aten.detach_copy.default",
        "aten.lift_fresh_copy.default",
    ] {
        repeat(calls, op, 3, |draw, call| Some(call.tensor("self", any(draw, 0, 4).0)));
    }
    for op in ["aten.dropout.default", "aten.feature_dropout.default"] {
        repeat(calls, op, 3, |draw, call| {
            let sizes = draw.sizes(2, 4);
            let tensor = draw.tensor(ScalarType::Float32, &sizes);
            Some(call.tensor("input", tensor).with("p", Arg::Float(0.3)).with("train", Arg::Bool(false)))
        });
    }
    for op in ["aten.to.dtype", "aten.to.dtype_layout", "aten._to_copy.default"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let (tensor, _) = any(draw, 0, 3);
            let dtype = if draw.coin() { draw.any_type() } else { draw.float_type() };
            // Floats below zero have no defined unsigned value.
            if dtype == ScalarType::UInt8 && tensor.dtype.is_floating() {
                return None;
            }
            Some(call.tensor("self", tensor).with("dtype", Arg::Dtype(dtype)))
        });
    }
    repeat(calls, "aten.type_as.default", TRIALS, |draw, call| {
        let (tensor, _) = any(draw, 0, 3);
        let other = draw.float_type();
        Some(call.tensor("self", tensor).tensor("other", draw.tensor(other, &[1])))
    });
}

fn parts(calls: &mut Vec<Call>) {
    for op in ["aten.slice.Tensor", "aten.slice_copy.Tensor"] {
        repeat(calls, op, 2 * TRIALS, |draw, call| {
            let (tensor, sizes) = any(draw, 1, 4);
            let dim = draw.dim(sizes.len());
            let (start, end) = (draw.int(-7, 7), draw.pick(&[-7, -2, -1, 0, 1, 2, 3, 5, 7, i64::MAX]));
            let step = draw.int(1, 3);
            Some(call.tensor("self", tensor).int("dim", dim).int("start", start).int("end", end).int("step", step))
        });
    }
    repeat(calls, "aten.narrow.default", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 1, 4);
        let dim = draw.size(0, sizes.len() - 1);
        let start = draw.size(0, sizes[dim] - 1);
        let length = draw.size(0, sizes[dim] - start);
        Some(call.tensor("self", tensor).int("dim", dim as i64).int("start", start as i64).int("length", length as i64))
    });
    for op in ["aten.select.int", "aten.select_copy.int"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (tensor, sizes) = any(draw, 1, 4);
            let dim = draw.size(0, sizes.len() - 1);
            let size = sizes[dim] as i64;
            let index = draw.int(-size, size - 1);
            Some(call.tensor("self", tensor).int("dim", dim as i64).int("index", index))
        });
    }
    for op in ["aten.split.Tensor", "aten.split_copy.Tensor"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let (tensor, sizes) = any(draw, 1, 4);
            let dim = draw.dim(sizes.len());
            Some(call.tensor("self", tensor).int("split_size", draw.int(1, 4)).int("dim", dim))
        });
    }
    for (op, name) in [
        ("aten.split_with_sizes.default", "split_sizes"),
        ("aten.split_with_sizes_copy.default", "split_sizes"),
        ("aten.split.sizes", "split_size"),
    ] {
        repeat(calls, op, TRIALS, |draw, call| {
            let mut sizes = draw.sizes(1, 4);
            let dim = draw.size(0, sizes.len() - 1);
            let parts: Vec<usize> = (0..draw.size(1, 4)).map(|_| draw.size(0, 3)).collect();
            sizes[dim] = parts.iter().sum();
            let dtype = draw.any_type();
            Some(call.tensor("self", draw.tensor(dtype, &sizes)).ints(name, signed(&parts)).int("dim", dim as i64))
        });
    }
    repeat(calls, "aten.chunk.default", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 1, 4);
        let dim = draw.dim(sizes.len());
        Some(call.tensor("self", tensor).int("chunks", draw.int(1, 6)).int("dim", dim))
    });
    repeat(calls, "aten.unbind.int", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 1, 4);
        let dim = draw.dim(sizes.len());
        Some(call.tensor("self", tensor).int("dim", dim))
    });
    repeat(calls, "aten.roll.default", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 1, 4);
        if draw.coin() {
            return Some(call.tensor("self", tensor).ints("shifts", [draw.int(-9, 9)]));
        }
        let dims = [draw.dim(sizes.len()), draw.dim(sizes.len())];
        Some(call.tensor("self", tensor).ints("shifts", [draw.int(-9, 9), draw.int(-9, 9)]).ints("dims", dims))
    });
    repeat(calls, "aten.flip.default", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 1, 4);
        Some(call.tensor("self", tensor).ints("dims", [draw.dim(sizes.len())]))
    });
}

fn joins(calls: &mut Vec<Call>) {
    for op in ["aten.cat.default", "aten.concat.default"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let sizes = draw.sizes(1, 4);
            let dim = draw.size(0, sizes.len() - 1);
            let tensors: Vec<_> = (0..draw.size(1, 4))
                .map(|_| {
                    let mut own = sizes.clone();
                    own[dim] = draw.size(0, 3);
                    let dtype = draw.any_type();
                    Some(draw.tensor(dtype, &own))
                })
                .collect();
            Some(call.with("tensors", Arg::Tensors(tensors)).int("dim", dim as i64))
        });
    }
    repeat(calls, "aten.stack.default", TRIALS, |draw, call| {
        let sizes = draw.sizes(0, 3);
        let dtype = draw.any_type();
        let tensors: Vec<_> = (0..draw.size(1, 4)).map(|_| Some(draw.tensor(dtype, &sizes))).collect();
        let dim = draw.dim(sizes.len() + 1);
        Some(call.with("tensors", Arg::Tensors(tensors)).int("dim", dim))
    });
}

fn indexing(calls: &mut Vec<Call>) {
    repeat(calls, "aten.index_select.default", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 1, 4);
        let dim = draw.size(0, sizes.len() - 1);
        let count = draw.size(0, 5);
        let index = draw.indices(&[count], 0, sizes[dim] as i64 - 1);
        Some(call.tensor("self", tensor).int("dim", dim as i64).tensor("index", index))
    });
    repeat(calls, "aten.embedding.default", TRIALS, |draw, call| {
        let rows = draw.size(1, 6);
        let table = [rows, draw.size(1, 4)];
        let dtype = draw.float_type();
        let sizes = draw.sizes(0, 3);
        let indices = draw.indices(&sizes, 0, rows as i64 - 1);
        Some(call.tensor("weight", draw.tensor(dtype, &table)).tensor("indices", indices))
    });
    repeat(calls, "aten.gather.default", TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 1, 4);
        let dim = draw.size(0, sizes.len() - 1);
        let own: Vec<usize> =
            sizes.iter().enumerate().map(|(i, &n)| if i == dim { draw.size(1, 6) } else { draw.size(1, n) }).collect();
        let index = draw.indices(&own, 0, sizes[dim] as i64 - 1);
        Some(call.tensor("self", tensor).int("dim", dim as i64).tensor("index", index))
    });
    repeat(calls, "aten.index.Tensor", 3 * TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 1, 4);
        let common = draw.sizes(1, 2);
        let mut indices: Vec<Option<_>> = Vec::new();
        for &size in &sizes {
            if draw.coin() {
                let mut own = common.clone();
                if draw.coin() {
                    own[0] = 1;
                }
                indices.push(Some(draw.indices(&own, -(size as i64), size as i64 - 1)));
            } else {
                indices.push(None);
            }
        }
        indices.iter().any(Option::is_some).then(|| call.tensor("self", tensor).with("indices", Arg::Tensors(indices)))
    });
}

fn padding(calls: &mut Vec<Call>) {
    repeat(calls, "aten.constant_pad_nd.default", 2 * TRIALS, |draw, call| {
        let (tensor, sizes) = any(draw, 1, 4);
        let mut pad = Vec::new();
        for &size in sizes.iter().rev().take(draw.size(0, sizes.len())) {
            pad.push(draw.int(-((size - 1) as i64), 3));
            pad.push(draw.int(0, 3));
        }
        let value = if draw.coin() { Arg::Int(2) } else { Arg::Float(0.5) };
        Some(call.tensor("self", tensor).ints("pad", pad).maybe(draw, "value", value))
    });
    repeat(calls, "aten.pad.default", 3 * TRIALS, |draw, call| {
        let mut sizes = draw.sizes(4, 4);
        (sizes[2], sizes[3]) = (draw.size(3, 5), draw.size(3, 5));
        let tensor = draw.tensor(ScalarType::Float32, &sizes);
        let pad: Vec<i64> = (0..4).map(|_| draw.int(0, 2)).collect();
        let mode = draw.pick(&["constant", "reflect", "replicate", "circular"]);
        let call = call.tensor("self", tensor).ints("pad", pad).with("mode", Arg::Text(mode));
        Some(if mode == "constant" { call.maybe(draw, "value", Arg::Float(-1.5)) } else { call })
    });
    for (op, rank, count) in [
        ("aten.reflection_pad1d.default", 3, 2),
        ("aten.reflection_pad2d.default", 4, 4),
        ("aten.replication_pad1d.default", 3, 2),
        ("aten.replication_pad2d.default", 4, 4),
    ] {
        repeat(calls, op, TRIALS, |draw, call| {
            let sizes: Vec<usize> = (0..rank).map(|_| draw.size(3, 5)).collect();
            let dtype = draw.float_type();
            let pad: Vec<i64> = (0..count).map(|_| draw.int(0, 2)).collect();
            Some(call.tensor("self", draw.tensor(dtype, &sizes)).ints("padding", pad))
        });
    }
}

fn creation(calls: &mut Vec<Call>) {
    repeat(calls, "aten.full.default", TRIALS, |draw, call| {
        let value = draw.pick(&[Some(2), None]).map_or(Arg::Float(f64::INFINITY), Arg::Int);
        let sizes = signed(&draw.sizes(0, 3));
        Some(call.ints("size", sizes).with("fill_value", value).maybe(draw, "dtype", Arg::Dtype(ScalarType::Float16)))
    });
    for op in ["aten.ones.default", "aten.zeros.default"] {
        repeat(calls, op, 4, |draw, call| {
            let sizes = signed(&draw.sizes(0, 3));
            let dtype = draw.any_type();
            Some(call.ints("size", sizes).maybe(draw, "dtype", Arg::Dtype(dtype)))
        });
    }
    for op in ["aten.new_ones.default", "aten.new_zeros.default", "aten.new_full.default"] {
        repeat(calls, op, 4, |draw, call| {
            let (tensor, _) = any(draw, 0, 2);
            let sizes = signed(&draw.sizes(0, 3));
            let call = call.tensor("self", tensor).ints("size", sizes);
            Some(if op.contains("full") { call.int("fill_value", 3) } else { call })
        });
    }
    for op in ["aten.full_like.default", "aten.ones_like.default", "aten.zeros_like.default"] {
        repeat(calls, op, 4, |draw, call| {
            let (tensor, _) = any(draw, 0, 3);
            let dtype = draw.any_type();
            let call = call.tensor("self", tensor);
            let call = if op.contains("full") { call.int("fill_value", 3) } else { call };
            Some(call.maybe(draw, "dtype", Arg::Dtype(dtype)))
        });
    }
    repeat(calls, "aten.scalar_tensor.default", 4, |draw, call| {
        let dtype = draw.any_type();
        Some(call.int("s", draw.int(0, 1)).maybe(draw, "dtype", Arg::Dtype(dtype)))
    });
    for op in ["aten.arange.default", "aten.arange.start", "aten.arange.start_step"] {
        repeat(calls, op, TRIALS, |draw, call| {
            let float = draw.coin();
            let number = |x: i64| if float { Arg::Float(x as f64 + 0.25) } else { Arg::Int(x) };
            let start = draw.int(-4, 4);
            let end = start + draw.int(0, 9);
            let call = match op {
                "aten.arange.default" => return Some(call.with("end", number(end.max(0)))),
                _ => call.with("start", number(start)).with("end", number(end)),
            };
            Some(if op.ends_with("step") { call.with("step", number(draw.int(1, 3))) } else { call })
        });
    }
}
