//! Native tests of a rule: sites from text, verdicts as text.
//!
//! A graph is written one value a line, in the order of the program:
//!
//! ```text
//! x: f32[1,21,8,8] = input
//! w: f32[21] = parameter
//! y: f32[1,21,8,8] = aten.softmax.int(self=x, dim=1, dtype=None) !outside
//! return y
//! ```
//!
//! Types are an element type and sizes; a word among the sizes is a size that varies. Strides are
//! row-major unless ` strides[…]` follows. Several outputs stand with commas between them. Arguments are
//! written as Python would (`1`, `[1, 2]`, `1.0`, `True`, `None`, `"text"`, `float32`,
//! `contiguous_format`), names are values. Flags: `!anchor`, `!outside`, `!mutated`, `!aliased`.

pub mod cases;
mod text;

pub use cases::run_cases;

use std::fmt::Write as _;

use crate::contract::{self, Edit, Operand, ValueRef, Verdict};
use crate::{Rewrite, Rule};

/// The site that a rule would be shown for a graph: anchored at the first node that one of the rule's
/// anchors names (or the one marked `!anchor`), with the surroundings that the anchor asks for.
///
/// # Panics
/// When the text is not a graph or holds no anchor.
pub fn site<R: Rule>(graph: &str) -> contract::Site {
    let parsed = text::parse(graph).unwrap_or_else(|error| panic!("{error}"));
    parsed.site(&crate::describe::<R>()).unwrap_or_else(|error| panic!("{error}"))
}

/// The manifest as the component gives it.
pub fn manifest<R: Rule>() -> contract::Manifest {
    crate::describe::<R>()
}

/// The rule's verdict on a graph.
///
/// # Panics
/// As [`site`], and when the rule reports a fault of its own.
pub fn examine<R: Rule>(graph: &str) -> Verdict {
    let verdict = crate::examine::<R>(&site::<R>(graph)).unwrap_or_else(|fault| panic!("the rule failed: {fault}"));
    let code = match &verdict {
        Verdict::Decline(reason) => &reason.code,
        Verdict::Rewrite(rewrite) => &rewrite.why.code,
    };
    assert!(
        crate::describe::<R>().codes.iter().any(|known| known.code == *code),
        "the manifest does not list the code `{code}`"
    );
    verdict
}

/// The code of a decline; `None` for a rewrite.
pub fn declined(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Decline(reason) => Some(&reason.code),
        Verdict::Rewrite(_) => None,
    }
}

/// The rewrite that the rule proposes for a graph, as text: one edit a line, new values numbered `%0`,
/// `%1`, …, values of the graph by their names.
///
/// # Panics
/// When the rule declines.
pub fn rewritten<R: Rule>(graph: &str) -> String {
    match examine::<R>(graph) {
        Verdict::Rewrite(rewrite) => show(&rewrite, &text::parse(graph).unwrap_or_else(|error| panic!("{error}"))),
        Verdict::Decline(reason) => panic!("the rule declined ({}): {}", reason.code, reason.message),
    }
}

fn show(rewrite: &Rewrite, graph: &text::ParsedGraph) -> String {
    let mut text = String::new();
    let mut inserted = 0;
    for edit in &rewrite.edits {
        let line = match edit {
            Edit::Insert(node) => {
                let inputs: Vec<String> = node
                    .inputs
                    .iter()
                    .map(|input| format!("{}={}", input.name, show_operand(&input.operand, graph)))
                    .collect();
                inserted += 1;
                format!("%{} = {}({})", inserted - 1, node.op, inputs.join(", "))
            }
            Edit::ReplaceAllUses(one) => format!("{} -> {}", graph.value_name(one.value), show_value(one.by, graph)),
            Edit::ReplaceUse(one) => format!(
                "{} -> {} in {} argument {}",
                graph.value_name(one.use_site.value),
                show_value(one.by, graph),
                graph.node_name(one.use_site.consumer),
                one.use_site.input
            ),
            Edit::SetInput(one) => {
                format!("{}.{} = {}", graph.node_name(one.node), one.input, show_operand(&one.operand, graph))
            }
            Edit::Delete(node) => format!("delete {}", graph.node_name(*node)),
            Edit::Fold(value) => format!("fold {}", show_value(*value, graph)),
        };
        let _ = writeln!(text, "{line}");
    }
    text
}

fn show_value(value: ValueRef, graph: &text::ParsedGraph) -> String {
    match value {
        ValueRef::Existing(id) => graph.value_name(id).to_owned(),
        ValueRef::Created(created) if created.output == 0 => format!("%{}", created.insertion),
        ValueRef::Created(created) => format!("%{}.{}", created.insertion, created.output),
    }
}

fn show_operand(operand: &Operand, graph: &text::ParsedGraph) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    match operand {
        Operand::Literal(literal) => text::show_literal(literal),
        Operand::Value(value) => show_value(*value, graph),
        Operand::Values(values) => list(values.iter().map(|value| show_value(*value, graph)).collect()),
        Operand::OptionalValues(values) => list(
            values
                .iter()
                .map(|value| value.map_or_else(|| "None".to_owned(), |value| show_value(value, graph)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Anchor, Examination, Manifest, Numerics, Patch, Site};

    struct Doubled;

    impl Rule for Doubled {
        fn manifest() -> Manifest {
            Manifest::new("test.doubled", "1.0.0", "Adding a value to itself")
                .anchor(Anchor::on(["aten.add.Tensor"]).surroundings(1, 1))
                .code("doubled", "x + x is 2 * x")
                .code("different", "two different values")
        }

        fn examine(site: &Site<'_>) -> Examination {
            let add = site.anchor();
            let (left, right) = (add.tensor("self")?, add.tensor("other")?);
            crate::require!(left.id() == right.id(), "different", "{} and {}", left.id(), right.id());
            left.meta()?.fixed_sizes()?;
            let mut patch = Patch::new(site);
            let left = patch.tap(left);
            let twice = patch.node("aten.mul.Scalar").arg("self", left).arg("other", 2.0).add();
            patch.replace(add.output(0)?, twice);
            patch.delete(add);
            patch.finish(Numerics::Exact, "doubled", "x + x is 2 * x")
        }
    }

    #[test]
    fn a_rewrite_reads_as_text() {
        let graph = "x: f32[2,3] = input
            h: f32[2,3] = aten.relu.default(self=x)
            y: f32[2,3] = aten.add.Tensor(self=h, other=h, alpha=1) !outside
            return y";
        assert_eq!(
            rewritten::<Doubled>(graph),
            "%0 = aten.mul.Scalar(self=h, other=2.0)\ny -> %0\ndelete aten.add.Tensor\n"
        );
        let site = site::<Doubled>(graph);
        assert_eq!(site.nodes.len(), 2, "anchor and one producer");
        assert!(site.nodes[0].outside_delegate);
        assert_eq!(site.values.iter().map(|value| value.use_count).collect::<Vec<_>>(), [2, 1, 1], "h, y, x");
    }

    #[test]
    fn declines_carry_their_code() {
        let declines = |graph: &str| declined(&examine::<Doubled>(graph)).map(str::to_owned);
        let other =
            "x: f32[2] = input\nz: f32[2] = input\ny: f32[2] = aten.add.Tensor(self=x, other=z, alpha=1)\nreturn y";
        assert_eq!(declines(other).as_deref(), Some("different"));
        let dynamic = "x: f32[n] = input\ny: f32[n] = aten.add.Tensor(self=x, other=x, alpha=1)\nreturn y";
        assert_eq!(declines(dynamic).as_deref(), Some("dynamic-shape"));
        let scalar = "x: f32[2] = input\ny: f32[2] = aten.add.Tensor(self=x, other=1.0, alpha=1)\nreturn y";
        assert_eq!(declines(scalar).as_deref(), Some("argument"));
    }

    #[test]
    fn mistakes_in_a_patch_are_the_rules_fault() {
        let data =
            site::<Doubled>("x: f32[2] = input\ny: f32[2] = aten.add.Tensor(self=x, other=x, alpha=1)\nreturn y");
        let site = Site::new(&data).expect("site");
        let fault = |build: &dyn Fn(&mut Patch<'_>)| {
            let mut patch = Patch::new(&site);
            build(&mut patch);
            match patch.finish(Numerics::Exact, "doubled", "") {
                Err(crate::NoRewrite::Fault(fault)) => fault,
                other => panic!("no fault but {other:?}"),
            }
        };
        assert!(fault(&|_| {}).contains("no edit"));
        assert!(fault(&|patch| patch.delete(site.anchor())).contains("still used"));
        assert!(
            fault(&|patch| {
                let x = patch.tap(site.anchor().tensor("self").expect("tensor"));
                patch.node("aten.relu.default").arg("self", x).arg("self", x).add();
            })
            .contains("given twice")
        );
        assert!(
            fault(&|patch| {
                let x = patch.tap(site.anchor().tensor("self").expect("tensor"));
                patch.fold(x);
            })
            .contains("constants only")
        );
        assert!(
            fault(&|patch| {
                let stranger = ValueRef::Created(contract::CreatedRef { insertion: 7, output: 0 });
                patch.node("aten.relu.default").arg("self", stranger).add();
            })
            .contains("did not make")
        );
    }

    #[test]
    fn text_that_is_no_graph_says_where() {
        for (graph, complaint) in [
            ("x: f32[2] = input\ny: f32[2] = aten.relu.default(self=z)", "`z`"),
            ("x: f99[2] = input", "f99"),
            ("x: f32[2 = input", "line 1"),
            ("x f32", "line 1"),
        ] {
            let error = text::parse(graph).err().unwrap_or_else(|| panic!("`{graph}` was read"));
            assert!(error.contains(complaint), "{error}");
        }
    }
}
