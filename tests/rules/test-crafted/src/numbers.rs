//! Rewrites of the right form that compute something else.

use rule_sdk::contract::Operand;
use rule_sdk::{Examination, Literal, Numerics, Patch, Site, ValueRef, tolerant};

/// Attacks on `relu`; the others are on `softmax`.
pub fn is_on_relu(attack: &str) -> bool {
    attack.starts_with("wrong-") || is_tolerant(attack)
}

/// Attacks that claim equality up to rounding.
pub fn is_tolerant(attack: &str) -> bool {
    attack.starts_with("roughly-")
}

fn number(x: f64) -> Operand {
    Operand::Literal(Literal::Float(x))
}

fn int(n: i64) -> Operand {
    Operand::Literal(Literal::Int(n))
}

/// The answer of an attack; `None` when it is not one on numbers.
pub fn of(attack: &str, site: &Site<'_>) -> Option<Examination> {
    examine(attack, site).transpose()
}

fn examine(attack: &str, site: &Site<'_>) -> Result<Option<rule_sdk::Rewrite>, rule_sdk::NoRewrite> {
    let anchor = site.anchor();
    let output = anchor.output(0)?;
    let source = anchor.tensor("self")?;
    let sizes = output.meta()?.fixed_sizes()?;
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
