//! Rewrites of the right form that compute something else.

use rule_sdk::contract::Operand;
use rule_sdk::{Examination, Literal, Numerics, Patch, Site, ValueRef, tolerant};

/// Attacks on `relu`; the others are on `softmax`.
pub fn is_on_relu(attack: &str) -> bool {
    attack.starts_with("wrong-") || is_tolerant(attack)
}

/// Attacks that claim equality up to rounding.
pub fn is_tolerant(attack: &str) -> bool {
    attack.starts_with("roughly-") || attack == "wrong-for-other-sizes"
}

fn number(x: f64) -> Operand {
    Operand::Literal(Literal::Float(x))
}

fn int(n: i64) -> Operand {
    Operand::Literal(Literal::Int(n))
}

/// What is nothing but for values within 1 / 8192 of `53 * factor`.
fn dip(patch: &mut Patch<'_>, value: ValueRef, factor: f64) -> ValueRef {
    let at = |step: f64| (53.0 + step / 16384.0) * factor;
    let mut clamp = |from: f64, to: f64| {
        patch.node("aten.clamp.default").arg("self", value).arg("min", number(from)).arg("max", number(to)).add()
    };
    let (rising, falling) = (clamp(at(0.0), at(1.0)), clamp(at(1.0), at(2.0)));
    let change = patch.node("aten.sub.Tensor").arg("self", rising).arg("other", falling).add();
    let change = patch.node("aten.add.Scalar").arg("self", change).arg("other", number(at(1.0) - at(0.0))).add();
    patch.node("aten.mul.Scalar").arg("self", change).arg("other", number(1e5 / factor)).add()
}

/// The answer of an attack; `None` when it is not one on numbers.
pub fn of(attack: &str, site: &Site<'_>) -> Option<Examination> {
    examine(attack, site).transpose()
}

fn examine(attack: &str, site: &Site<'_>) -> Result<Option<rule_sdk::Rewrite>, rule_sdk::NoRewrite> {
    let anchor = site.anchor();
    let output = anchor.output(0)?;
    let source = anchor.tensor("self")?;
    // Only some attacks need sizes that do not change.
    let sizes = output.meta()?.fixed_sizes().unwrap_or_default();
    let mut patch = Patch::new(site);
    let input = patch.tap(source);
    let unary = |patch: &mut Patch<'_>, op: &str, value: ValueRef| patch.node(op).arg("self", value).add();
    let clamp = |patch: &mut Patch<'_>, min: f64, max: f64| {
        patch.node("aten.clamp.default").arg("self", input).arg("min", number(min)).arg("max", number(max)).add()
    };
    let slice = |patch: &mut Patch<'_>, start: i64, end: i64| {
        let node = patch.node("aten.slice.Tensor").arg("self", input).arg("dim", int(1));
        node.arg("start", int(start)).arg("end", int(end)).add()
    };
    let new = match attack {
        "constant-answer" => {
            patch.node("aten.full.default").arg("size", sizes.as_slice()).arg("fill_value", number(0.25)).add()
        }
        "input-copied-to-output" => unary(&mut patch, "aten.clone.default", input),
        "exact-and-wrong" => {
            let softmax = patch.node("aten.softmax.int").arg("self", input).arg("dim", int(1)).add();
            patch.node("aten.mul.Scalar").arg("self", softmax).arg("other", number(1.000_000_2)).add()
        }
        "boundless-tolerance" => unary(&mut patch, "aten.sigmoid.default", input),
        "wrong-for-negatives" | "roughly-for-negatives" => {
            let same = unary(&mut patch, "aten.alias.default", input);
            patch.contiguous(same)
        }
        "wrong-for-positives" => {
            let relu = unary(&mut patch, "aten.relu.default", input);
            patch.node("aten.mul.Scalar").arg("self", relu).arg("other", number(0.999_999)).add()
        }
        "wrong-for-large" => clamp(&mut patch, 0.0, 1e30),
        "roughly-for-large" => clamp(&mut patch, 0.0, 1e5),
        "wrong-for-infinity" => clamp(&mut patch, 0.0, f64::from(f32::MAX)),
        "wrong-for-tiny" => {
            let keep = patch.node("aten.gt.Scalar").arg("self", input).arg("other", number(1e-5)).add();
            patch.node("aten.mul.Tensor").arg("self", input).arg("other", keep).add()
        }
        "wrong-for-nan" => {
            let keep = patch.node("aten.ge.Scalar").arg("self", input).arg("other", number(0.0)).add();
            let zeros =
                patch.node("aten.full.default").arg("size", sizes.as_slice()).arg("fill_value", number(0.0)).add();
            patch.node("aten.where.self").arg("condition", keep).arg("self", input).arg("other", zeros).add()
        }
        "wrong-in-one-channel" | "roughly-in-one-channel" => {
            let first = slice(&mut patch, 0, 1);
            let rest = slice(&mut patch, 1, i64::MAX);
            let rest = unary(&mut patch, "aten.relu.default", rest);
            patch.node("aten.cat.default").arg("tensors", vec![first, rest]).arg("dim", int(1)).add()
        }
        "wrong-for-one-number" => {
            let relu = unary(&mut patch, "aten.relu.default", input);
            let hit = patch.node("aten.eq.Scalar").arg("self", input).arg("other", number(0.8125)).add();
            let wrong = patch.node("aten.mul.Scalar").arg("self", relu).arg("other", number(2.0)).add();
            let node = patch.node("aten.where.self").arg("condition", hit).arg("self", wrong);
            node.arg("other", relu).add()
        }
        "false-for-integers" => {
            let square = patch.node("aten.mul.Tensor").arg("self", input).arg("other", input).add();
            patch.node("aten.add.Tensor").arg("self", square).arg("other", int(1)).add()
        }
        "wrong-in-a-range" => {
            let relu = unary(&mut patch, "aten.relu.default", input);
            let over = patch.node("aten.gt.Scalar").arg("self", input).arg("other", number(70.0)).add();
            let under = patch.node("aten.lt.Scalar").arg("self", input).arg("other", number(71.0)).add();
            let wrong = patch.node("aten.mul.Scalar").arg("self", relu).arg("other", number(2.0)).add();
            let node = patch.node("aten.where.self").arg("condition", under).arg("self", wrong);
            let wrong = node.arg("other", relu).add();
            let node = patch.node("aten.where.self").arg("condition", over).arg("self", wrong);
            node.arg("other", relu).add()
        }
        "wrong-beyond-a-fold" => {
            let relu = unary(&mut patch, "aten.relu.default", input);
            let bound = patch.node("aten.full.default").arg("size", [1_i64].as_slice()).arg("fill_value", number(53.0));
            let bound = bound.add();
            let bound = patch.fold(bound);
            patch.node("aten.minimum.default").arg("self", relu).arg("other", bound).add()
        }
        // One for a batch of two: what a softmax over the batch sums up to, over half its size.
        "wrong-for-other-sizes" => {
            let relu = unary(&mut patch, "aten.relu.default", input);
            let ones = patch.node("aten.full_like.default").arg("self", input).arg("fill_value", number(1.0)).add();
            let shares = patch.node("aten.softmax.int").arg("self", ones).arg("dim", int(0)).add();
            let node = patch.node("aten.mean.dim").arg("self", shares).arg("dim", [0_i64].as_slice());
            let mean = node.arg("keepdim", true).add();
            let one = patch.node("aten.mul.Scalar").arg("self", mean).arg("other", number(2.0)).add();
            patch.node("aten.mul.Tensor").arg("self", relu).arg("other", one).add()
        }
        "wrong-for-denormals" => {
            let relu = unary(&mut patch, "aten.relu.default", input);
            let small = patch.node("aten.mul.Scalar").arg("self", relu).arg("other", number(0.5_f64.powi(20))).add();
            patch.node("aten.mul.Scalar").arg("self", small).arg("other", number(2.0_f64.powi(20))).add()
        }
        "roughly-behind-decoys" => {
            // Slices of everything, each with a number of its own, before the one that matters.
            let mut relu = unary(&mut patch, "aten.relu.default", input);
            for decoy in 0..40 {
                let node = patch.node("aten.slice.Tensor").arg("self", relu).arg("dim", int(1));
                relu = node.arg("start", int(-100_000 - decoy)).arg("end", int(65_536 + decoy)).add();
            }
            let wrong = dip(&mut patch, relu, 1.0);
            patch.node("aten.add.Tensor").arg("self", relu).arg("other", wrong).add()
        }
        "roughly-behind-factors" => {
            let relu = unary(&mut patch, "aten.relu.default", input);
            let mut large = relu;
            for factor in [4.0, 16.0, 256.0] {
                large = patch.node("aten.mul.Scalar").arg("self", large).arg("other", number(factor)).add();
            }
            let wrong = dip(&mut patch, large, 16384.0);
            patch.node("aten.add.Tensor").arg("self", relu).arg("other", wrong).add()
        }
        _ => return Ok(None),
    };
    let claim = match attack {
        "boundless-tolerance" => tolerant(1e30, 1e30),
        attack if is_tolerant(attack) => tolerant(1e-4, 0.0),
        _ => Numerics::Exact,
    };
    patch.replace(output, new);
    patch.delete(anchor);
    patch.finish(claim, "asked", "as its data says").map(Some)
}
