//! What DD-002 does and what it refuses.

use dd_002_redundant_ops::RedundantOps;
use rule_sdk::testing::{declined, examine, rewritten};

/// A graph around one operator: it reads `h`, which no caller sees, and a relu reads the result.
fn around(call: &str, kind: &str) -> String {
    format!(
        "x: f32[2,4,8,8] = input
         h: f32[2,4,8,8] = aten.relu.default(self=x)
         {kind} = {call}
         z: f32[2,4,8,8] = aten.relu.default(self=y)
         return z"
    )
}

const SAME: &str = "y: f32[2,4,8,8]";

#[track_caller]
fn removes(graph: &str, from: &str, to: &str, op: &str) {
    assert_eq!(rewritten::<RedundantOps>(graph), format!("{from} -> {to}\ndelete {op}\n"));
}

#[track_caller]
fn refuses(graph: &str, code: &str) {
    let verdict = examine::<RedundantOps>(graph);
    assert_eq!(declined(&verdict), Some(code), "{graph}\n{verdict:?}");
}

#[test]
fn every_operator_of_the_list_is_removed_when_it_changes_nothing() {
    for (op, arguments) in [
        ("aten.alias.default", "self=h"),
        ("aten.detach.default", "self=h"),
        ("aten.slice.Tensor", "self=h, dim=1, start=0, end=9223372036854775807, step=1"),
        ("aten.expand.default", "self=h, size=[-1, 4, 8, 8], implicit=False"),
        ("aten.expand_as.default", "self=h, other=h"),
        ("aten.broadcast_to.default", "self=h, size=[2, 4, 8, 8]"),
        ("aten.adaptive_avg_pool2d.default", "self=h, output_size=[8, 8]"),
        ("aten.cat.default", "tensors=[h], dim=1"),
        ("aten.upsample_nearest2d.vec", "input=h, output_size=[8, 8], scale_factors=None"),
        ("aten.upsample_nearest2d.vec", "input=h, output_size=None, scale_factors=[1.0, 1.0]"),
        ("aten.upsample_nearest2d.default", "self=h, output_size=[8, 8], scales_h=None, scales_w=1.0"),
        ("aten.split.Tensor", "self=h, split_size=4, dim=1"),
        ("aten.split_with_sizes.default", "self=h, split_sizes=[4], dim=1"),
        ("aten.chunk.default", "self=h, chunks=1, dim=0"),
        ("aten.roll.default", "self=h, shifts=[0, 8], dims=[1, -1]"),
        ("aten.roll.default", "self=h, shifts=[512], dims=[]"),
    ] {
        removes(&around(&format!("{op}({arguments})"), SAME), "y", "h", op);
    }
}

#[test]
fn a_dimension_put_in_and_taken_away_goes() {
    let pair = |first: i64, second: i64| {
        format!(
            "x: f32[2,4] = input
             u: f32[2,1,4] = aten.unsqueeze.default(self=x, dim={first})
             y: f32[2,4] = aten.squeeze.dim(self=u, dim={second}) !anchor
             z: f32[2,4] = aten.relu.default(self=y)
             return z"
        )
    };
    removes(&pair(1, 1), "y", "x", "aten.squeeze.dim");
    removes(&pair(-2, 1), "y", "x", "aten.squeeze.dim");
    refuses(&pair(1, 2), "does-something");
    let opposite = "x: f32[2,1,4] = input
        s: f32[2,4] = aten.squeeze.dim(self=x, dim=1)
        y: f32[2,1,4] = aten.unsqueeze.default(self=s, dim=1) !anchor
        z: f32[2,1,4] = aten.relu.default(self=y)
        return z";
    removes(opposite, "y", "x", "aten.unsqueeze.default");
    refuses(
        &opposite.replace("aten.squeeze.dim(self=x, dim=1)", "aten.select.int(self=x, dim=1, index=0)"),
        "does-something",
    );
}

#[test]
fn operators_that_do_something_stay() {
    refuses(&around("aten.slice.Tensor(self=h, dim=3, start=0, end=8, step=2)", "y: f32[2,4,8,4]"), "does-something");
    refuses(&around("aten.slice.Tensor(self=h, dim=1, start=1, end=4, step=1)", "y: f32[2,3,8,8]"), "does-something");
    refuses(&around("aten.cat.default(tensors=[h, h], dim=1)", "y: f32[2,8,8,8]"), "does-something");
    refuses(&around("aten.roll.default(self=h, shifts=[1], dims=[1])", SAME), "does-something");
    refuses(&around("aten.roll.default(self=h, shifts=[8], dims=[])", SAME), "does-something");
    refuses(
        &around("aten.adaptive_avg_pool2d.default(self=h, output_size=[4, 4])", "y: f32[2,4,4,4]"),
        "does-something",
    );
    refuses(
        &around("aten.split.Tensor(self=h, split_size=2, dim=1)", "y: f32[2,2,8,8], w: f32[2,2,8,8]"),
        "does-something",
    );
    refuses(
        &around("aten.upsample_nearest2d.vec(input=h, output_size=None, scale_factors=[1.1, 1.1])", SAME),
        "does-something",
    );
}

#[test]
fn operators_that_disappear_by_themselves_are_left_alone() {
    for call in [
        "aten.clone.default(self=h, memory_format=None)",
        "aten.contiguous.default(self=h, memory_format=contiguous_format)",
        "aten.view.default(self=h, size=[2, 4, 8, 8])",
        "aten.dropout.default(input=h, p=0.5, train=False)",
        "aten.to.dtype(self=h, dtype=float32, non_blocking=False, copy=False, memory_format=None)",
    ] {
        refuses(&around(call, SAME), "already-free");
    }
    refuses(&around("aten.dropout.default(input=h, p=0.5, train=True)", SAME), "does-something");
    refuses(&around("aten.permute.default(self=h, dims=[1, 0, 2, 3])", "y: f32[4,2,8,8]"), "does-something");
}

#[test]
fn a_view_goes_even_when_its_memory_is_written_to() {
    let graph = "x: f32[4] = input
        h: f32[4] = aten.relu.default(self=x) !mutated !aliased
        y: f32[4] = aten.alias.default(self=h) !mutated !aliased
        z: f32[4] = aten.relu_.default(self=y) !mutated !aliased
        return z";
    removes(graph, "y", "h", "aten.alias.default");
}

#[test]
fn a_copy_stays_when_something_writes_to_either_side() {
    let graph = |input: &str, copy: &str| {
        format!(
            "x: f32[4] = input
             h: f32[4] = aten.relu.default(self=x){input}
             y: f32[4] = aten.cat.default(tensors=[h], dim=0){copy}
             z: f32[4] = aten.relu.default(self=y)
             return z"
        )
    };
    removes(&graph("", ""), "y", "h", "aten.cat.default");
    refuses(&graph(" !mutated", ""), "written-to");
    refuses(&graph("", " !mutated"), "written-to");
}

#[test]
fn what_the_caller_gets_stays_a_value_of_its_own() {
    let tail = |op: &str, from: &str, returned: &str| {
        format!(
            "x: f32[4] = input
             h: f32[4] = aten.relu.default(self=x)
             y: f32[4] = {op}(self={from})
             return {returned}"
        )
    };
    removes(&tail("aten.alias.default", "h", "y"), "y", "h", "aten.alias.default");
    refuses(&tail("aten.alias.default", "x", "y"), "returned-input");
    refuses(&tail("aten.alias.default", "h", "y, h"), "both-returned");
    refuses(
        "x: f32[4] = input\nh: f32[4] = aten.relu.default(self=x)\ny: f32[4] = aten.cat.default(tensors=[h], dim=0)\nreturn y",
        "returned-copy",
    );
}

#[test]
fn a_copy_into_another_memory_order_stays() {
    refuses(
        "x: f32[4,3] = input
         t: f32[3,4] strides [1,3] = aten.permute.default(self=x, dims=[1, 0])
         y: f32[3,4] = aten.cat.default(tensors=[t], dim=0) !anchor
         z: f32[3,4] = aten.relu.default(self=y)
         return z",
        "layout",
    );
}
