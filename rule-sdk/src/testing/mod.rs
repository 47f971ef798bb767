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
//!
//! Lines that begin with `#` are comments. Sources are `input`, `parameter`, `buffer`, `constant` and calls; a
//! value made of the last three only is constant. The type `_` is no tensor. `!anchor` marks the node that the
//! site is cut around, `!outside` one that the backend did not take; `!mutated` and `!aliased` are said of all
//! values of their line. Values that a line `return` names are outputs of the program.
//!
//! ```
//! # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
//! let graph = "# the halves of every other column, in turned order
//!              x: f32[n,4] strides[8,2] = input
//!              a: f32[n,2], b: f32[n,2] = aten.split.Tensor(self=x, split_size=2, dim=1) !aliased
//!              y: f32[n,4] = aten.cat.default(tensors=[b, a], dim=-1) !anchor !outside
//!              return y";
//! # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
//! # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
//! # let site = Site::new(&data)?;
//! let halves = site.anchor().tensors("tensors")?;
//! assert_eq!((halves.len(), halves[0].is_aliased(), halves[0].is_constant()), (2, true, false));
//! assert!(site.anchor().is_outside_delegate() && site.anchor().output(0)?.is_graph_output());
//! # Ok::<(), NoRewrite>(())
//! ```
//!
//! A rule is asked by [`examine`], by [`rewritten`], or by a file of [`cases`] at once:
//!
//! ```
//! # use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};
//! # struct TimesOne;
//! # impl Rule for TimesOne {
//! #     fn manifest() -> Manifest {
//! #         Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
//! #             .anchor(Anchor::on(["aten.mul.Scalar"]))
//! #             .code("no-op", "the factor is one")
//! #             .code("factor", "the factor is not one")
//! #     }
//! #     fn examine(site: &Site<'_>) -> Examination {
//! #         let mul = site.anchor();
//! #         let factor = mul.float("other")?;
//! #         require!(factor == 1.0, "factor", "the factor is {factor}");
//! #         let mut patch = Patch::new(site);
//! #         let input = patch.tap(mul.tensor("self")?);
//! #         patch.replace(mul.output(0)?, input);
//! #         patch.delete(mul);
//! #         patch.finish(Numerics::Exact, "no-op", "multiplication by one")
//! #     }
//! # }
//! use rule_sdk::testing::{declined, examine, rewritten, run_cases};
//!
//! let times = |x: f64| format!("x: f32[2] = input\n y: f32[2] = aten.mul.Scalar(self=x, other={x:?})\n return y");
//! assert_eq!(rewritten::<TimesOne>(&times(1.0)), "y -> x\ndelete aten.mul.Scalar\n");
//! assert_eq!(declined(&examine::<TimesOne>(&times(2.0))), Some("factor"));
//! run_cases::<TimesOne>(&format!("== twice stays\n{}\n-- declines factor", times(2.0)));
//! ```

pub mod cases;
mod text;

pub use cases::run_cases;

use std::fmt::Write as _;

use crate::contract::{self, Edit, Operand, ValueRef, Verdict};
use crate::{Rewrite, Rule};

/// The site that a rule would be shown for a graph: anchored at the first node that one of the rule's
/// anchors names (or the one marked `!anchor`), with the surroundings that the anchor asks for. What else an
/// anchor asks for ([`fed_by`](crate::Anchor::fed_by),
/// [`outside_delegate`](crate::Anchor::outside_delegate)) is not held against the graph.
///
/// # Panics
/// When the text is not a graph or holds no anchor.
///
/// ```
/// # use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};
/// # struct TimesOne;
/// # impl Rule for TimesOne {
/// #     fn manifest() -> Manifest {
/// #         Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
/// #             .anchor(Anchor::on(["aten.mul.Scalar"]))
/// #             .code("no-op", "the factor is one")
/// #             .code("factor", "the factor is not one")
/// #     }
/// #     fn examine(site: &Site<'_>) -> Examination {
/// #         let mul = site.anchor();
/// #         let factor = mul.float("other")?;
/// #         require!(factor == 1.0, "factor", "the factor is {factor}");
/// #         let mut patch = Patch::new(site);
/// #         let input = patch.tap(mul.tensor("self")?);
/// #         patch.replace(mul.output(0)?, input);
/// #         patch.delete(mul);
/// #         patch.finish(Numerics::Exact, "no-op", "multiplication by one")
/// #     }
/// # }
/// let data = rule_sdk::testing::site::<TimesOne>(
///     "x: f32[2,3] = input
///      y: f32[2,3] = aten.mul.Scalar(self=x, other=3.0)
///      return y",
/// );
/// let site = Site::new(&data).expect("a whole site");
/// assert_eq!(site.anchor().float("other"), Ok(3.0));
/// ```
pub fn site<R: Rule>(graph: &str) -> contract::Site {
    let parsed = text::parse(graph).unwrap_or_else(|error| panic!("{error}"));
    parsed.site(&crate::describe::<R>()).unwrap_or_else(|error| panic!("{error}"))
}

/// The manifest as the component gives it: with the codes of
/// [`STANDARD_CODES`](crate::STANDARD_CODES).
///
/// ```
/// # use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};
/// # struct TimesOne;
/// # impl Rule for TimesOne {
/// #     fn manifest() -> Manifest {
/// #         Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
/// #             .anchor(Anchor::on(["aten.mul.Scalar"]))
/// #             .code("no-op", "the factor is one")
/// #             .code("factor", "the factor is not one")
/// #     }
/// #     fn examine(site: &Site<'_>) -> Examination {
/// #         let mul = site.anchor();
/// #         let factor = mul.float("other")?;
/// #         require!(factor == 1.0, "factor", "the factor is {factor}");
/// #         let mut patch = Patch::new(site);
/// #         let input = patch.tap(mul.tensor("self")?);
/// #         patch.replace(mul.output(0)?, input);
/// #         patch.delete(mul);
/// #         patch.finish(Numerics::Exact, "no-op", "multiplication by one")
/// #     }
/// # }
/// let manifest = rule_sdk::testing::manifest::<TimesOne>();
/// let codes: Vec<&str> = manifest.codes.iter().map(|known| known.code.as_str()).collect();
/// assert_eq!(codes[..3], ["no-op", "factor", "argument"]);
/// ```
pub fn manifest<R: Rule>() -> contract::Manifest {
    crate::describe::<R>()
}

/// The rule's verdict on a graph.
///
/// # Panics
/// As [`site`], and when the rule reports a fault of its own or answers with a code that its manifest does not
/// list.
///
/// ```
/// # use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};
/// # struct TimesOne;
/// # impl Rule for TimesOne {
/// #     fn manifest() -> Manifest {
/// #         Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
/// #             .anchor(Anchor::on(["aten.mul.Scalar"]))
/// #             .code("no-op", "the factor is one")
/// #             .code("factor", "the factor is not one")
/// #     }
/// #     fn examine(site: &Site<'_>) -> Examination {
/// #         let mul = site.anchor();
/// #         let factor = mul.float("other")?;
/// #         require!(factor == 1.0, "factor", "the factor is {factor}");
/// #         let mut patch = Patch::new(site);
/// #         let input = patch.tap(mul.tensor("self")?);
/// #         patch.replace(mul.output(0)?, input);
/// #         patch.delete(mul);
/// #         patch.finish(Numerics::Exact, "no-op", "multiplication by one")
/// #     }
/// # }
/// use rule_sdk::{Verdict, testing::examine};
///
/// let verdict = examine::<TimesOne>(
///     "x: f32[2,3] = input
///      y: f32[2,3] = aten.mul.Scalar(self=x, other=3.0)
///      return y",
/// );
/// assert!(matches!(verdict, Verdict::Decline(why) if why.message == "the factor is 3"));
/// ```
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
///
/// ```
/// # use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};
/// # struct TimesOne;
/// # impl Rule for TimesOne {
/// #     fn manifest() -> Manifest {
/// #         Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
/// #             .anchor(Anchor::on(["aten.mul.Scalar"]))
/// #             .code("no-op", "the factor is one")
/// #             .code("factor", "the factor is not one")
/// #     }
/// #     fn examine(site: &Site<'_>) -> Examination {
/// #         let mul = site.anchor();
/// #         let factor = mul.float("other")?;
/// #         require!(factor == 1.0, "factor", "the factor is {factor}");
/// #         let mut patch = Patch::new(site);
/// #         let input = patch.tap(mul.tensor("self")?);
/// #         patch.replace(mul.output(0)?, input);
/// #         patch.delete(mul);
/// #         patch.finish(Numerics::Exact, "no-op", "multiplication by one")
/// #     }
/// # }
/// use rule_sdk::testing::{declined, examine};
///
/// let times = |factor: &str| {
///     examine::<TimesOne>(&format!("x: f32[2] = input\n y: f32[2] = aten.mul.Scalar(self=x, other={factor})"))
/// };
/// assert_eq!(declined(&times("2.0")), Some("factor"));
/// assert_eq!(declined(&times("None")), Some("argument"));
/// assert_eq!(declined(&times("1.0")), None);
/// ```
pub fn declined(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Decline(reason) => Some(&reason.code),
        Verdict::Rewrite(_) => None,
    }
}

/// The rewrite that the rule proposes for a graph, as text: one edit a line, new values numbered `%0`,
/// `%1`, …, values of the graph by their names, further outputs of a new node as `%0.1`, nodes by their ops.
///
/// # Panics
/// As [`examine`], and when the rule declines.
///
/// ```
/// # use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};
/// # struct TimesOne;
/// # impl Rule for TimesOne {
/// #     fn manifest() -> Manifest {
/// #         Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
/// #             .anchor(Anchor::on(["aten.mul.Scalar"]))
/// #             .code("no-op", "the factor is one")
/// #             .code("factor", "the factor is not one")
/// #     }
/// #     fn examine(site: &Site<'_>) -> Examination {
/// #         let mul = site.anchor();
/// #         let factor = mul.float("other")?;
/// #         require!(factor == 1.0, "factor", "the factor is {factor}");
/// #         let mut patch = Patch::new(site);
/// #         let input = patch.tap(mul.tensor("self")?);
/// #         patch.replace(mul.output(0)?, input);
/// #         patch.delete(mul);
/// #         patch.finish(Numerics::Exact, "no-op", "multiplication by one")
/// #     }
/// # }
/// use rule_sdk::testing::rewritten;
///
/// let edits = rewritten::<TimesOne>(
///     "x: f32[2,3] = input
///      y: f32[2,3] = aten.mul.Scalar(self=x, other=1.0)
///      return y",
/// );
/// assert_eq!(edits, "y -> x\ndelete aten.mul.Scalar\n");
/// ```
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
