//! DD-003: average pooling whose windows reach beyond the tensor, or whose divisor is not the window.
//!
//! XNNPACK averages over windows that lie inside the tensor, or that leave padding out of the count. What
//! is left (padding that counts, `ceil_mode`, a divisor of one's own) is the same pooling over a tensor
//! that was padded before, where every window divides by its full size; where another divisor is meant, a
//! constant map makes up for it:
//!
//! ```text
//! avg_pool2d(x, k, s, p, …) → constant_pad_nd(x) → avg_pool2d(k, s) [→ mul by k·k / divisor(i, j)]
//! ```

mod window;

use rule_sdk::{
    Anchor, Examination, Manifest, Node, Numerics, Patch, Rule, ScalarType, Site, ValueRef, decline, dtype_name,
    require, tolerant,
};
use window::{Axis, Pool};

/// The rule.
pub struct AvgPoolWindow;

impl Rule for AvgPoolWindow {
    fn manifest() -> Manifest {
        Manifest::new(
            "dd-003",
            env!("CARGO_PKG_VERSION"),
            "Average pooling with counted padding, ceil mode or a divisor",
        )
        .summary(
            "Pads first and pools without padding, so that XNNPACK takes the pooling; a constant map makes up \
                 for divisors that are not the window's size.",
        )
        .numerics(tolerant(1e-6, 1e-7))
        .backend("xnnpack")
        .anchor(Anchor::on(["aten.avg_pool2d.default"]).surroundings(1, 0))
        .code("avg-pool-window", "the pooling can run over a tensor that is padded first")
        .code("avg-pool-flag", "the pooling does the same without ceil mode")
        .code("already-delegated", "XNNPACK takes this pooling as it is")
        .code("rank", "the tensor has no batch dimension, or another rank")
        .code("element-type", "the element type is not one that the new form keeps exact enough")
        .code("window", "the window, the stride or the padding is out of range")
        .code("layout", "the result is not row-major")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let pool = site.anchor();
        let (x, y) = (pool.tensor("self")?.meta()?, pool.output(0)?.meta()?);
        require!(x.rank() == 4, "rank", "the tensor has rank {}, and 4 is wanted", x.rank());
        let (Some(height), Some(width)) = (x.size(2), x.size(3)) else {
            decline!("dynamic-shape", "height or width varies");
        };
        let window = read(pool, [height, width])?;
        let maps = !window.divides_by_the_window();
        require!(
            x.dtype() == ScalarType::Float32 || (x.dtype() == ScalarType::Float16 && !maps),
            "element-type",
            "the element type is {}",
            dtype_name(x.dtype())
        );
        require!(!window.is_delegated(pool.boolean("ceil_mode")?), "already-delegated", "XNNPACK takes it as it is");
        require!(y.is_contiguous(), "layout", "the result is not row-major");
        let dequantized = pool.tensor("self")?.producer().is_some_and(|node| node.op().contains("dequantize"));

        let mut patch = Patch::new(site);
        let input = patch.tap(pool.tensor("self")?);
        let (result, numerics, code) = if window.is_delegated(false) {
            (
                pooled(&mut patch, input, &window, window.padding(), window.counts_padding),
                Numerics::Exact,
                "avg-pool-flag",
            )
        } else if dequantized && window.ceil_has_no_effect() && window.divisor.is_none() {
            // A pad behind a dequantize loads nowhere; leaving padding out of the count needs no pad.
            let inside = pooled(&mut patch, input, &window, window.padding(), false);
            (scaled(&mut patch, inside, &window, Counted::Inside), tolerant(1e-6, 1e-7), "avg-pool-window")
        } else {
            let source = if dequantized && window.needs_pad() {
                patch.node("aten.mul.Tensor").arg("self", input).arg("other", 1.0).add()
            } else {
                input
            };
            let padded = padded(&mut patch, source, &window);
            let full = pooled(&mut patch, padded, &window, [0, 0], true);
            if maps {
                (scaled(&mut patch, full, &window, Counted::Window), tolerant(1e-6, 1e-7), "avg-pool-window")
            } else {
                (full, Numerics::Exact, "avg-pool-window")
            }
        };
        patch.replace(pool.output(0)?, result);
        patch.delete(pool);
        patch.finish(numerics, code, window.describe())
    }
}

/// The arguments of an `avg_pool2d` over a plane of this size.
fn read(pool: Node<'_>, plane: [i64; 2]) -> Result<Pool, rule_sdk::NoRewrite> {
    let kernel = pool.pair("kernel_size")?;
    let stride = if pool.ints("stride")?.is_empty() { kernel } else { pool.pair("stride")? };
    let padding = pool.pair("padding")?;
    let ceil = pool.boolean("ceil_mode")?;
    let divisor = pool.optional_int("divisor_override")?;
    let axis = |one: usize| Axis::new(plane[one], kernel[one], stride[one], padding[one], ceil);
    let (Some(rows), Some(columns)) = (axis(0), axis(1)) else {
        decline!("window", "kernel {kernel:?}, stride {stride:?} and padding {padding:?} do not fit {plane:?}");
    };
    require!(divisor != Some(0), "window", "the divisor is zero");
    Ok(Pool { rows, columns, counts_padding: pool.boolean("count_include_pad")?, divisor })
}

fn padded(patch: &mut Patch<'_>, input: ValueRef, window: &Pool) -> ValueRef {
    if !window.needs_pad() {
        return input;
    }
    let pad = [window.columns.padding, window.columns.right(), window.rows.padding, window.rows.right()];
    patch.node("aten.constant_pad_nd.default").arg("self", input).arg("pad", pad).arg("value", 0.0).add()
}

fn pooled(patch: &mut Patch<'_>, input: ValueRef, window: &Pool, padding: [i64; 2], counts: bool) -> ValueRef {
    patch
        .node("aten.avg_pool2d.default")
        .arg("self", input)
        .arg("kernel_size", [window.rows.kernel, window.columns.kernel])
        .arg("stride", [window.rows.stride, window.columns.stride])
        .arg("padding", padding)
        .arg("ceil_mode", false)
        .arg("count_include_pad", counts)
        .add()
}

/// What a pooling divided by, before the map.
#[derive(Clone, Copy, PartialEq)]
enum Counted {
    /// the window's full size
    Window,
    /// the window's part inside the tensor
    Inside,
}

/// Multiplies by `divided by / should be divided by`, computed once by the host.
fn scaled(patch: &mut Patch<'_>, input: ValueRef, window: &Pool, counted: Counted) -> ValueRef {
    let full = |patch: &mut Patch<'_>, size: [i64; 4], value: f64| {
        let node = patch.node("aten.full.default").arg("size", size).arg("fill_value", value);
        node.arg("dtype", ScalarType::Float32).add()
    };
    // Ones where an entry counts, zeros where it does not; pooled with divisor one, that is the count.
    let count = |patch: &mut Patch<'_>, inside: bool| {
        let (rows, columns) = (window.rows.ones(inside), window.columns.ones(inside));
        let ones = full(patch, [1, 1, rows.ones, columns.ones], 1.0);
        let pad = [columns.before, columns.after, rows.before, rows.after];
        let padded =
            patch.node("aten.constant_pad_nd.default").arg("self", ones).arg("pad", pad).arg("value", 0.0).add();
        patch
            .node("aten.avg_pool2d.default")
            .arg("self", padded)
            .arg("kernel_size", [window.rows.kernel, window.columns.kernel])
            .arg("stride", [window.rows.stride, window.columns.stride])
            .arg("divisor_override", 1)
            .add()
    };
    let whole = window.rows.kernel * window.columns.kernel;
    #[expect(clippy::cast_precision_loss, reason = "window sizes and divisors are small")]
    let number = |n: i64| n as f64;
    let size = match window.divisor {
        Some(_) => [1, 1, 1, 1],
        None => [1, 1, window.rows.output, window.columns.output],
    };
    let was = match counted {
        Counted::Window => full(patch, size, number(whole)),
        Counted::Inside => count(patch, true),
    };
    let wanted = match window.divisor {
        Some(divisor) => full(patch, size, number(divisor)),
        None => count(patch, !window.counts_padding),
    };
    let map = patch.node("aten.div.Tensor").arg("self", was).arg("other", wanted).add();
    let map = patch.fold(map);
    patch.node("aten.mul.Tensor").arg("self", input).arg("other", map).add()
}

rule_sdk::export_rule!(AvgPoolWindow);
