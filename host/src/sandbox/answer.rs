//! Caps and plain sense for what a rule gives back, before anybody uses it.

use super::AnswerLimits;
use super::contract::{
    Dim, Edit, Literal, Manifest, NamedOperand, Numerics, Operand, Reason, Rewrite, TensorMeta, Verdict,
};
use super::error::{Class, printable};

type Checked = Result<(), (Class, String)>;

fn bad(reason: String) -> (Class, String) {
    (Class::BadOutput, reason)
}

fn at_most(what: &str, found: usize, most: usize) -> Checked {
    if found > most {
        return Err((Class::TooMuchOutput, format!("it gave back {found} {what}, and {most} are allowed")));
    }
    Ok(())
}

fn text(what: &str, text: &str, most: usize) -> Checked {
    at_most(&format!("bytes of {what}"), text.len(), most)
}

/// Ids and codes: lower-case letters, digits, `-` and `.`.
fn code(what: &str, code: &str, most: usize) -> Checked {
    text(what, code, most)?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    if code.is_empty() || !code.bytes().all(fits) || !code.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return Err(bad(format!("`{}` is no {what}: lower-case letters, digits, `-` and `.`", printable(code, 64))));
    }
    Ok(())
}

/// Overload names such as `aten.softmax.int`.
fn op(name: &str, limits: &AnswerLimits) -> Checked {
    text("an op's name", name, limits.op)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.' || byte == b':';
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(bad(format!("`{}` is no op", printable(name, 64))));
    }
    Ok(())
}

fn reason(reason: &Reason, limits: &AnswerLimits) -> Checked {
    code("reason code", &reason.code, limits.code)?;
    text("a message", &reason.message, limits.message)
}

fn hints(hints: &[(String, String)], limits: &AnswerLimits) -> Checked {
    at_most("hints", hints.len(), limits.list)?;
    hints.iter().try_for_each(|(key, value)| text("a hint", key, limits.text).and(text("a hint", value, limits.text)))
}

fn numerics(numerics: &Numerics) -> Checked {
    match numerics {
        Numerics::Exact => Ok(()),
        Numerics::Tolerant(tolerance) | Numerics::Corrective(tolerance) => {
            let fits = |x: f64| x.is_finite() && x >= 0.0;
            if fits(tolerance.rtol) && fits(tolerance.atol) {
                Ok(())
            } else {
                Err(bad("a tolerance is negative or not finite".to_owned()))
            }
        }
    }
}

/// Holds a manifest against the caps.
pub(super) fn check_manifest(manifest: &Manifest, limits: &AnswerLimits) -> Checked {
    code("rule id", &manifest.id, limits.code)?;
    text("the version", &manifest.version, limits.code)?;
    semver::Version::parse(&manifest.version)
        .map_err(|error| bad(format!("`{}` is no version: {error}", printable(&manifest.version, 64))))?;
    text("the title", &manifest.title, limits.message)?;
    text("the summary", &manifest.summary, limits.text)?;
    numerics(&manifest.numerics)?;
    at_most("backends", manifest.backends.len(), limits.anchors)?;
    for backend in &manifest.backends {
        code("backend", backend, limits.code)?;
    }
    at_most("anchors", manifest.anchors.len(), limits.anchors)?;
    if manifest.anchors.is_empty() {
        return Err(bad("it has no anchor and would never be asked".to_owned()));
    }
    for anchor in &manifest.anchors {
        at_most("ops of an anchor", anchor.ops.len(), limits.anchors)?;
        anchor.ops.iter().try_for_each(|name| op(name, limits))?;
        at_most("constraints of an anchor", anchor.producers.len(), limits.anchors)?;
        for constraint in &anchor.producers {
            text("an argument's name", &constraint.input, limits.code)?;
            at_most("ops of a constraint", constraint.ops.len(), limits.anchors)?;
            constraint.ops.iter().try_for_each(|name| op(name, limits))?;
        }
    }
    at_most("reason codes", manifest.codes.len(), limits.codes)?;
    for known in &manifest.codes {
        code("reason code", &known.code, limits.code)?;
        text("a summary", &known.summary, limits.message)?;
    }
    hints(&manifest.hints, limits)
}

/// Holds a verdict against the caps and against what the manifest promised.
pub(super) fn check_verdict(verdict: &Verdict, manifest: &Manifest, limits: &AnswerLimits) -> Checked {
    let promised = |reason: &Reason| {
        if manifest.codes.iter().any(|known| known.code == reason.code) {
            Ok(())
        } else {
            Err(bad(format!("its manifest does not list the reason code `{}`", reason.code)))
        }
    };
    let rewrite = match verdict {
        Verdict::Decline(why) => {
            reason(why, limits)?;
            return promised(why);
        }
        Verdict::Rewrite(rewrite) => rewrite,
    };
    at_most("edits", rewrite.edits.len(), limits.edits)?;
    at_most("bytes in all", weight(rewrite), limits.verdict)?;
    if rewrite.edits.is_empty() {
        return Err(bad("its rewrite holds no edit".to_owned()));
    }
    let inserts = rewrite.edits.iter().filter(|edit| matches!(edit, Edit::Insert(_))).count();
    at_most("inserts", inserts, limits.inserts)?;
    for edit in &rewrite.edits {
        match edit {
            Edit::Insert(node) => {
                op(&node.op, limits)?;
                at_most("arguments of a node", node.inputs.len(), limits.inputs)?;
                for NamedOperand { name, operand } in &node.inputs {
                    text("an argument's name", name, limits.code)?;
                    check_operand(operand, limits)?;
                }
                at_most("expected outputs", node.expect.len(), limits.inputs)?;
                node.expect.iter().try_for_each(|meta| check_meta(meta, limits))?;
            }
            Edit::SetInput(change) => {
                text("an argument's name", &change.input, limits.code)?;
                check_operand(&change.operand, limits)?;
            }
            Edit::ReplaceAllUses(_) | Edit::ReplaceUse(_) | Edit::Delete(_) | Edit::Fold(_) => {}
        }
    }
    numerics(&rewrite.numerics)?;
    if !covers(&manifest.numerics, &rewrite.numerics) {
        return Err(bad("its rewrite claims less than its manifest promises about the numbers".to_owned()));
    }
    reason(&rewrite.why, limits)?;
    promised(&rewrite.why)?;
    hints(&rewrite.hints, limits)
}

/// Bytes that a rewrite takes while it is kept, roughly.
fn weight(rewrite: &Rewrite) -> usize {
    const RECORD: usize = 32;
    let operand = |operand: &Operand| match operand {
        Operand::Value(_) => 0,
        Operand::Values(values) => values.len() * 12,
        Operand::OptionalValues(values) => values.len() * 16,
        Operand::Literal(literal) => match literal {
            Literal::Ints(all) => all.len() * 8,
            Literal::Floats(all) => all.len() * 8,
            Literal::Booleans(all) => all.len(),
            Literal::SymInts(all) => all.iter().map(dim).sum(),
            Literal::SymInt(one) => dim(one),
            Literal::Texts(all) => all.iter().map(|text| RECORD + text.len()).sum(),
            Literal::Text(one) | Literal::Device(one) | Literal::Layout(one) | Literal::Other(one) => one.len(),
            _ => 0,
        },
    };
    let edits = rewrite.edits.iter().map(|edit| match edit {
        Edit::Insert(node) => {
            let inputs = node.inputs.iter().map(|input| RECORD + input.name.len() + operand(&input.operand));
            let expect = node.expect.iter().map(|meta| {
                RECORD + meta.device.len() + meta.sizes.iter().chain(&meta.strides).map(dim).sum::<usize>()
            });
            node.op.len() + inputs.chain(expect).sum::<usize>()
        }
        Edit::SetInput(change) => change.input.len() + operand(&change.operand),
        Edit::ReplaceAllUses(_) | Edit::ReplaceUse(_) | Edit::Delete(_) | Edit::Fold(_) => 0,
    });
    let hints = rewrite.hints.iter().map(|(key, value)| RECORD + key.len() + value.len());
    edits.map(|edit| RECORD + edit).chain(hints).sum()
}

fn dim(dim: &Dim) -> usize {
    match dim {
        Dim::Fixed(_) => 16,
        Dim::Symbolic(symbol) => 64 + symbol.expression.len(),
    }
}

/// True when `claim` is at least as strong as `promise`.
fn covers(promise: &Numerics, claim: &Numerics) -> bool {
    match (promise, claim) {
        (_, Numerics::Exact) => true,
        (Numerics::Tolerant(most) | Numerics::Corrective(most), Numerics::Tolerant(claim))
        | (Numerics::Corrective(most), Numerics::Corrective(claim)) => {
            claim.rtol <= most.rtol && claim.atol <= most.atol
        }
        _ => false,
    }
}

fn check_meta(meta: &TensorMeta, limits: &AnswerLimits) -> Checked {
    at_most("dimensions", meta.sizes.len().max(meta.strides.len()), limits.rank)?;
    text("a device", &meta.device, limits.code)
}

fn check_operand(operand: &Operand, limits: &AnswerLimits) -> Checked {
    match operand {
        Operand::Literal(literal) => check_literal(literal, limits),
        Operand::Value(_) => Ok(()),
        Operand::Values(values) => at_most("entries of a list", values.len(), limits.list),
        Operand::OptionalValues(values) => at_most("entries of a list", values.len(), limits.list),
    }
}

fn check_literal(literal: &Literal, limits: &AnswerLimits) -> Checked {
    let list = |found: usize| at_most("entries of a list", found, limits.list);
    match literal {
        Literal::None
        | Literal::Int(_)
        | Literal::SymInt(_)
        | Literal::Float(_)
        | Literal::Boolean(_)
        | Literal::Dtype(_)
        | Literal::MemoryFormat(_) => Ok(()),
        Literal::Ints(all) => list(all.len()),
        Literal::SymInts(all) => list(all.len()),
        Literal::Floats(all) => list(all.len()),
        Literal::Booleans(all) => list(all.len()),
        Literal::Texts(all) => {
            list(all.len())?;
            all.iter().try_for_each(|one| text("a text", one, limits.text))
        }
        Literal::Text(one) | Literal::Device(one) | Literal::Layout(one) | Literal::Other(one) => {
            text("a text", one, limits.text)
        }
    }
}

/// The manifest with every text fit to be shown.
pub(super) fn clean_manifest(mut manifest: Manifest, limits: &AnswerLimits) -> Manifest {
    manifest.title = printable(&manifest.title, limits.message);
    manifest.summary = printable(&manifest.summary, limits.text);
    for known in &mut manifest.codes {
        known.summary = printable(&known.summary, limits.message);
    }
    manifest
}

/// The verdict with every text fit to be shown.
pub(super) fn clean_verdict(mut verdict: Verdict, limits: &AnswerLimits) -> Verdict {
    match &mut verdict {
        Verdict::Decline(reason) => reason.message = printable(&reason.message, limits.message),
        Verdict::Rewrite(rewrite) => rewrite.why.message = printable(&rewrite.why.message, limits.message),
    }
    verdict
}
