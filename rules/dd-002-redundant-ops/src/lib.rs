//! DD-002: operators that hand their input on unchanged.
//!
//! Some of them are not taken by XNNPACK, so each one cuts the delegate in two and carries a tensor out
//! and in again. Their result is their input, so whoever reads the one can read the other.
//!
//! A *view* shares its input's memory anyway. A *copy* does not: dropping it is right only while nothing
//! ever writes to either side, and while the caller does not get the copy to keep.

use rule_sdk::{
    Anchor, Examination, Manifest, NoRewrite, Node, Numerics, Patch, Rule, Site, Value, decline, require, tolerant,
};

/// The rule.
pub struct RedundantOps;

/// Operators that disappear in lowering by themselves when they change nothing.
const FREE: [&str; 9] = [
    "aten.clone.default",
    "aten.constant_pad_nd.default",
    "aten.contiguous.default",
    "aten.dropout.default",
    "aten.pad.default",
    "aten.permute.default",
    "aten.reshape.default",
    "aten.to.dtype",
    "aten.view.default",
];

impl Rule for RedundantOps {
    fn manifest() -> Manifest {
        Manifest::new("dd-002", env!("CARGO_PKG_VERSION"), "Operators that hand their input on unchanged")
            .summary("Removes operators that change nothing but are not taken by XNNPACK and cut the delegate in two.")
            .numerics(tolerant(0.0, 0.0))
            .backend("xnnpack")
            .anchor(Anchor::on([
                "aten.alias.default",
                "aten.detach.default",
                "aten.slice.Tensor",
                "aten.expand.default",
                "aten.expand_as.default",
                "aten.broadcast_to.default",
                "aten.adaptive_avg_pool2d.default",
                "aten.cat.default",
                "aten.upsample_nearest2d.vec",
                "aten.upsample_nearest2d.default",
                "aten.split.Tensor",
                "aten.split_with_sizes.default",
                "aten.chunk.default",
                "aten.roll.default",
            ]))
            .anchor(Anchor::on(["aten.squeeze.dim", "aten.unsqueeze.default"]).surroundings(1, 0))
            .anchor(Anchor::on(FREE))
            .code("redundant", "the operator hands its input on unchanged")
            .code("does-something", "the operator changes its input")
            .code("already-free", "the operator changes nothing and disappears in lowering by itself")
            .code("layout", "the result lies differently in memory than the input")
            .code("written-to", "the operator makes a copy, and something writes to the copy or to the input")
            .code("returned-copy", "the program returns the copy, which must stay the caller's own")
            .code("returned-input", "the program returns the result, and would return one of its own inputs instead")
            .code("both-returned", "the program returns both the input and the result")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let node = site.anchor();
        let (input, kind) = unchanged(node)?;
        let output = node.output(0)?;
        let (x, y) = (input.meta()?, output.meta()?);
        require!(node.output_count() == 1 && x.same_sizes(&y), "does-something", "the result has another shape");
        require!(x.same_strides(&y), "layout", "the result lies differently in memory than the input");
        require!(!FREE.contains(&node.op()), "already-free", "{} disappears in lowering by itself", node.op());

        if kind == Kind::Copy {
            for (value, which) in [(input, "input"), (output, "copy")] {
                require!(!value.is_mutated(), "written-to", "something writes to the {which}");
            }
            require!(!output.is_graph_output(), "returned-copy", "the program returns the copy");
        }
        if output.is_graph_output() {
            require!(!input.is_graph_output(), "both-returned", "the program returns both sides");
            require!(!input.is_graph_input(), "returned-input", "the program would return its own input");
        }

        let mut patch = Patch::new(site);
        let kept = patch.tap(input);
        patch.replace(output, kept);
        patch.delete(node);
        let numerics = match node.op() {
            // A mean over one element: the same number, but -0.0 may come out as 0.0.
            "aten.adaptive_avg_pool2d.default" => tolerant(0.0, 0.0),
            _ => Numerics::Exact,
        };
        patch.finish(numerics, "redundant", format!("{} hands its input on unchanged", node.op()))
    }
}

/// What the result is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// the input's memory
    View,
    /// memory of its own
    Copy,
}

/// The value that the node hands on, provided the shapes also agree.
fn unchanged<'a>(node: Node<'a>) -> Result<(Value<'a>, Kind), NoRewrite> {
    match node.op() {
        "aten.alias.default"
        | "aten.detach.default"
        | "aten.expand.default"
        | "aten.expand_as.default"
        | "aten.broadcast_to.default"
        | "aten.split.Tensor"
        | "aten.split_with_sizes.default"
        | "aten.chunk.default" => Ok((node.tensor("self")?, Kind::View)),
        "aten.slice.Tensor" => {
            let step = node.int("step")?;
            require!(step == 1, "does-something", "the slice takes every {step}th entry");
            Ok((node.tensor("self")?, Kind::View))
        }
        "aten.adaptive_avg_pool2d.default" => Ok((node.tensor("self")?, Kind::Copy)),
        "aten.cat.default" => match node.tensors("tensors")?.as_slice() {
            [only] => Ok((*only, Kind::Copy)),
            several => decline!("does-something", "{} tensors are joined", several.len()),
        },
        "aten.upsample_nearest2d.vec" => {
            let exact =
                node.is_none("scale_factors") || node.floats("scale_factors")?.iter().all(|&scale| scale == 1.0);
            require!(exact, "does-something", "the scale factors are not one");
            Ok((node.tensor("input")?, Kind::Copy))
        }
        "aten.upsample_nearest2d.default" => {
            for scale in ["scales_h", "scales_w"] {
                let exact = node.is_none(scale) || node.float(scale)? == 1.0;
                require!(exact, "does-something", "the scale factors are not one");
            }
            Ok((node.tensor("self")?, Kind::Copy))
        }
        "aten.roll.default" => rolled(node),
        "aten.squeeze.dim" => undone(node, "aten.unsqueeze.default"),
        "aten.unsqueeze.default" => undone(node, "aten.squeeze.dim"),
        "aten.dropout.default" => {
            require!(!node.boolean("train")?, "does-something", "the dropout drops");
            Ok((node.tensor("input")?, Kind::View))
        }
        _ => Ok((node.tensor("self")?, Kind::View)),
    }
}

/// A roll by whole turns.
fn rolled<'a>(node: Node<'a>) -> Result<(Value<'a>, Kind), NoRewrite> {
    let input = node.tensor("self")?;
    let x = input.meta()?;
    let sizes = x.fixed_sizes()?;
    let (shifts, dims) = (node.ints("shifts")?, node.ints("dims")?);
    let whole = if dims.is_empty() {
        let count = sizes.iter().product::<i64>();
        shifts.iter().all(|shift| count == 0 || shift % count == 0)
    } else {
        shifts.len() == dims.len()
            && shifts.iter().zip(&dims).all(|(shift, &dim)| {
                let size = x.dimension(dim).and_then(|dim| x.size(dim));
                size.is_some_and(|size| size == 0 || shift % size == 0)
            })
    };
    require!(whole, "does-something", "the roll moves entries");
    Ok((input, Kind::Copy))
}

/// A dimension that is taken away right after it was put in, or the other way round.
fn undone<'a>(node: Node<'a>, opposite: &str) -> Result<(Value<'a>, Kind), NoRewrite> {
    let between = node.tensor("self")?;
    let Some(producer) = between.producer().filter(|producer| producer.op() == opposite) else {
        decline!("does-something", "the input does not come from {opposite}");
    };
    let source = producer.tensor("self")?;
    // Both count dimensions in the larger of the two shapes.
    let larger = i64::try_from(between.meta()?.rank().max(source.meta()?.rank())).unwrap_or(i64::MAX);
    let front = |dim: i64| if dim < 0 { dim + larger } else { dim };
    let same = front(node.int("dim")?) == front(producer.int("dim")?);
    require!(same, "does-something", "another dimension is put in than is taken away");
    Ok((source, Kind::View))
}

rule_sdk::export_rule!(RedundantOps);
