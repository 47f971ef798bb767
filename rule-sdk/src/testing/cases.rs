//! Cases of a rule in a text file: a graph, and what the rule must say about it.
//!
//! ```text
//! # Lines like this one are comments.
//!
//! == a factor of one goes
//! x: f32[2,3] = input
//! y: f32[2,3] = aten.mul.Scalar(self=x, other=1.0)
//! return y
//! -- rewrites no-op
//! y -> x
//! delete aten.mul.Scalar
//!
//! == another factor stays
//! x: f32[2,3] = input
//! y: f32[2,3] = aten.mul.Scalar(self=x, other=2.0)
//! return y
//! -- declines factor
//! ```
//!
//! The lines below `-- rewrites CODE` are the edits, as [`super::rewritten`] shows them; without any, only
//! the code counts. The same file serves a rule in any language: `delegate-doctor rules test` asks the
//! component, and for a Rust crate compares its answers with the native ones.
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
//! let cases = rule_sdk::testing::cases::parse(
//!     "== a factor of one goes
//!      x: f32[2,3] = input
//!      y: f32[2,3] = aten.mul.Scalar(self=x, other=1.0)
//!      -- rewrites no-op",
//! )?;
//! let verdict = rule_sdk::testing::examine::<TimesOne>(&cases[0].graph);
//! cases[0].check(&verdict)?;
//! # assert!(cases[0].describe(&verdict).ends_with("y -> x\ndelete aten.mul.Scalar\n"));
//! # Ok::<(), String>(())
//! ```

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use super::text::{self, ParsedGraph};
use crate::contract::{Manifest, Numerics, Site, Verdict};
use crate::{NoRewrite, Rule};

/// Names a folder; [`run_cases`] writes what it was told there, one file a case: `0.txt` for the first, in the
/// words of [`Case::describe`]. Without the variable it writes nothing.
///
/// ```console
/// $ mkdir verdicts && DELEGATE_DOCTOR_VERDICTS="$PWD/verdicts" cargo test
/// ```
///
/// ```
/// use rule_sdk::testing::cases::VERDICTS;
///
/// assert_eq!(VERDICTS, "DELEGATE_DOCTOR_VERDICTS");
/// ```
pub const VERDICTS: &str = "DELEGATE_DOCTOR_VERDICTS";

/// A graph and what a rule must say about it.
///
/// ```
/// # use rule_sdk::testing::cases::{Expected, parse};
/// let cases = parse(
///     "== another factor stays
///      x: f32[2] = input
///      y: f32[2] = aten.mul.Scalar(self=x, other=2.0)
///      -- declines factor",
/// )?;
/// assert_eq!((cases[0].name.as_str(), cases[0].line), ("another factor stays", 1));
/// assert_eq!(cases[0].expected, Expected::Declines { code: "factor".to_owned() });
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// one line
    pub name: String,
    /// where it begins in the file, from 1
    pub line: usize,
    /// in the text form of [`super`]
    pub graph: String,
    /// what must come out
    pub expected: Expected,
}

/// What a rule must say.
///
/// ```
/// # use rule_sdk::testing::cases::{Expected, parse};
/// let text = "== a copy goes
///             x: f32[2] = input
///             y: f32[2] = aten.clone.default(self=x, memory_format=None)
///             -- rewrites copy
///             y -> x";
/// let expected = Expected::Rewrites { code: "copy".to_owned(), edits: "y -> x\n".to_owned() };
/// assert_eq!(parse(text)?[0].expected, expected);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// a rewrite with this code and, unless empty, these edits
    Rewrites {
        /// reason code
        code: String,
        /// one edit a line
        edits: String,
    },
    /// a decline with this code
    Declines {
        /// reason code
        code: String,
    },
}

/// Reads a file of cases.
///
/// # Errors
/// A sentence that names the line: of a case without an expectation, of an expectation that is neither
/// `rewrites` nor `declines`, of a graph that cannot be read.
///
/// ```
/// use rule_sdk::testing::cases::parse;
///
/// let cases = parse("== a\n x: f32[2] = input\n -- declines b\n == c\n x: f32[3] = input\n -- rewrites d")?;
/// assert_eq!(cases.iter().map(|case| case.line).collect::<Vec<_>>(), [1, 4]);
/// let error = parse("== a\n x: f32[2] = input").expect_err("no expectation");
/// assert_eq!(error, "line 1: the case `a` has no line `-- rewrites` or `-- declines`");
/// # Ok::<(), String>(())
/// ```
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut unfinished: Option<(usize, String, String)> = None;
    for (index, whole) in text.lines().enumerate() {
        let (number, line) = (index + 1, whole.trim());
        if line.starts_with('#') || (line.is_empty() && unfinished.is_none()) {
            continue;
        }
        if let Some(name) = line.strip_prefix("==") {
            if let Some((begun, name, _)) = unfinished {
                return Err(format!("line {begun}: the case `{name}` has no line `-- rewrites` or `-- declines`"));
            }
            unfinished = Some((number, name.trim().to_owned(), String::new()));
        } else if let Some(expected) = line.strip_prefix("--") {
            let Some((begun, name, graph)) = unfinished.take() else {
                return Err(format!("line {number}: an expectation without a case (`== name`) above it"));
            };
            let expected = match *expected.split_whitespace().collect::<Vec<_>>() {
                ["rewrites", code] => Expected::Rewrites { code: code.to_owned(), edits: String::new() },
                ["declines", code] => Expected::Declines { code: code.to_owned() },
                _ => return Err(format!("line {number}: expected `-- rewrites CODE` or `-- declines CODE`")),
            };
            text::parse(&graph).map_err(|error| format!("the case `{name}` at line {begun}: {error}"))?;
            cases.push(Case { name, line: begun, graph, expected });
        } else if let Some((_, _, graph)) = &mut unfinished {
            graph.push_str(line);
            graph.push('\n');
        } else if let Some(Case { expected: Expected::Rewrites { edits, .. }, .. }) = cases.last_mut() {
            edits.push_str(line);
            edits.push('\n');
        } else {
            return Err(format!("line {number}: `{line}` belongs to no case"));
        }
    }
    match unfinished {
        Some((begun, name, _)) => {
            Err(format!("line {begun}: the case `{name}` has no line `-- rewrites` or `-- declines`"))
        }
        None => Ok(cases),
    }
}

impl Case {
    /// The site that a rule with this manifest is shown, as [`testing::site`](super::site) makes it.
    ///
    /// # Errors
    /// When none of the graph's nodes is an anchor of the rule.
    ///
    /// ```
    /// use rule_sdk::{Anchor, Manifest, testing::cases::parse};
    ///
    /// let case = &parse("== a\n x: f32[2] = input\n y: f32[2] = aten.relu.default(self=x)\n -- declines b")?[0];
    /// let manifest = |op| Manifest::new("org.example.a", "1.0.0", "").anchor(Anchor::on([op]));
    /// assert_eq!(case.site(&manifest("aten.relu.default"))?.nodes[0].op, "aten.relu.default");
    /// assert_eq!(case.site(&manifest("aten.erf.default")), Err("the graph holds no anchor".to_owned()));
    /// # Ok::<(), String>(())
    /// ```
    pub fn site(&self, manifest: &Manifest) -> Result<Site, String> {
        self.parsed()?.site(manifest)
    }

    fn parsed(&self) -> Result<ParsedGraph, String> {
        text::parse(&self.graph)
    }

    /// Everything in a verdict as text: kind, code, words, claim, edits. Equal verdicts have equal texts.
    ///
    /// ```
    /// # use rule_sdk::{Numerics, Patch, Site, Verdict, testing::cases::parse};
    /// # let text = "== a copy goes
    /// #     x: f32[2] = input
    /// #     y: f32[2] = aten.clone.default(self=x, memory_format=None) !anchor
    /// #     -- rewrites copy";
    /// # let case = &parse(text).expect("a case")[0];
    /// # let data = case.site(&rule_sdk::Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// patch.replace(site.anchor().output(0)?, x);
    /// let verdict = Verdict::Rewrite(patch.finish(Numerics::Exact, "copy", "a needless copy")?);
    /// assert_eq!(case.describe(&verdict), "rewrites copy: a needless copy\nclaims exact\ny -> x\n");
    /// # Ok::<(), rule_sdk::NoRewrite>(())
    /// ```
    pub fn describe(&self, verdict: &Verdict) -> String {
        match verdict {
            Verdict::Decline(reason) => format!("declines {}: {}\n", reason.code, reason.message),
            Verdict::Rewrite(rewrite) => {
                let mut text = format!("rewrites {}: {}\n", rewrite.why.code, rewrite.why.message);
                let claim = match rewrite.numerics {
                    Numerics::Exact => "exact".to_owned(),
                    Numerics::Tolerant(t) => format!("tolerant {:e} {:e}", t.rtol, t.atol),
                    Numerics::Corrective(t) => format!("corrective {:e} {:e}", t.rtol, t.atol),
                };
                let _ = writeln!(text, "claims {claim}");
                text.push_str(&self.edits(rewrite));
                text
            }
        }
    }

    fn edits(&self, rewrite: &crate::Rewrite) -> String {
        // The graph was read when the case was.
        self.parsed().map_or_else(|error| error, |graph| super::show(rewrite, &graph))
    }

    /// Holds a verdict against what is expected.
    ///
    /// # Errors
    /// What is expected and what was found, in a few lines.
    ///
    /// ```
    /// use rule_sdk::{Reason, Verdict, testing::cases::parse};
    ///
    /// let case = &parse("== a\n x: f32[2] = input\n y: f32[2] = aten.relu.default(self=x)\n -- declines b")?[0];
    /// let declines = |code: &str| Verdict::Decline(Reason { code: code.to_owned(), message: "so".to_owned() });
    /// assert_eq!(case.check(&declines("b")), Ok(()), "words do not count");
    /// assert_eq!(case.check(&declines("c")), Err("expected:\n  declines b\nfound:\n  declines c: so\n".to_owned()));
    /// # Ok::<(), String>(())
    /// ```
    pub fn check(&self, verdict: &Verdict) -> Result<(), String> {
        let right = match (&self.expected, verdict) {
            (Expected::Declines { code }, Verdict::Decline(reason)) => *code == reason.code,
            (Expected::Rewrites { code, edits }, Verdict::Rewrite(rewrite)) => {
                *code == rewrite.why.code && (edits.is_empty() || *edits == self.edits(rewrite))
            }
            _ => false,
        };
        if right {
            return Ok(());
        }
        let wanted = match &self.expected {
            Expected::Declines { code } => format!("declines {code}\n"),
            Expected::Rewrites { code, edits } => format!("rewrites {code}\n{edits}"),
        };
        Err(format!("expected:\n{}found:\n{}", indented(&wanted), indented(&self.describe(verdict))))
    }
}

fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "  {line}");
        all
    })
}

/// Asks a rule about every case of a file; a rule's own test calls it with `include_str!("../cases.txt")`.
///
/// # Panics
/// When the file cannot be read as cases or holds none, or with all cases whose answer is not the expected one.
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
/// let cases = "== another factor stays
///     x: f32[2] = input
///     y: f32[2] = aten.mul.Scalar(self=x, other=2.0)
///     -- declines factor";
/// rule_sdk::testing::run_cases::<TimesOne>(cases);
///
/// let wrong = cases.replace("declines factor", "rewrites no-op");
/// assert!(std::panic::catch_unwind(|| rule_sdk::testing::run_cases::<TimesOne>(&wrong)).is_err());
/// ```
pub fn run_cases<R: Rule>(text: &str) {
    let cases = parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert!(!cases.is_empty(), "there is no case");
    let manifest = crate::describe::<R>();
    let folder = std::env::var_os(VERDICTS).map(PathBuf::from);
    let mut failures = String::new();
    for (index, case) in cases.iter().enumerate() {
        let answer = case.site(&manifest).map_err(NoRewrite::Fault).and_then(|site| {
            crate::examine::<R>(&site).map_err(|fault| NoRewrite::Fault(format!("the rule failed: {fault}")))
        });
        let (described, outcome) = match answer {
            Ok(verdict) => (case.describe(&verdict), case.check(&verdict)),
            Err(NoRewrite::Fault(fault)) => (format!("fails: {fault}\n"), Err(format!("  {fault}\n"))),
            Err(NoRewrite::Decline(reason)) => (format!("declines {}\n", reason.code), Err(reason.message)),
        };
        if let Err(why) = outcome {
            let _ = write!(failures, "\n== {} (line {})\n{why}", case.name, case.line);
        }
        if let Some(folder) = &folder {
            let path = folder.join(format!("{index}.txt"));
            let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(described.as_bytes()));
            written.unwrap_or_else(|error| panic!("`{}`: {error}", path.display()));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Anchor, Examination, Patch};

    struct TimesOne;

    impl Rule for TimesOne {
        fn manifest() -> Manifest {
            Manifest::new("test.times-one", "1.0.0", "Multiplication by one")
                .anchor(Anchor::on(["aten.mul.Scalar"]))
                .code("no-op", "the factor is one")
                .code("factor", "the factor is not one")
        }

        fn examine(site: &crate::Site<'_>) -> Examination {
            let mul = site.anchor();
            let factor = mul.float("other")?;
            crate::require!(factor == 1.0, "factor", "the factor is {factor}");
            let mut patch = Patch::new(site);
            let input = patch.tap(mul.tensor("self")?);
            patch.replace(mul.output(0)?, input);
            patch.delete(mul);
            patch.finish(Numerics::Exact, "no-op", "multiplication by one")
        }
    }

    const CASES: &str = "# Multiplication.

== a factor of one goes
x: f32[2,3] = input
y: f32[2,3] = aten.mul.Scalar(self=x, other=1.0)
return y
-- rewrites no-op
y -> x
delete aten.mul.Scalar

== another factor stays
x: f32[2,3] = input
y: f32[2,3] = aten.mul.Scalar(self=x, other=2.0)
return y
-- declines factor
";

    #[test]
    fn a_rule_that_answers_as_expected_passes() {
        run_cases::<TimesOne>(CASES);
        let cases = parse(CASES).expect("cases");
        assert_eq!(cases.iter().map(|case| case.line).collect::<Vec<_>>(), [3, 11]);
    }

    #[test]
    fn every_wrong_answer_is_told() {
        let wrong = CASES.replace("y -> x", "y -> z").replace("declines factor", "rewrites no-op");
        let told = std::panic::catch_unwind(|| run_cases::<TimesOne>(&wrong)).expect_err("both are wrong");
        let told = told.downcast_ref::<String>().expect("a message").clone();
        for part in ["a factor of one goes (line 3)", "  y -> z", "  y -> x", "another factor stays", "the factor is 2"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn text_that_is_no_case_says_where() {
        for (text, part) in [
            ("x: f32[2] = input", "line 1: `x: f32[2] = input` belongs to no case"),
            ("-- declines x", "line 1: an expectation without a case"),
            ("== a\nreturn x\n-- maybe", "line 3: expected `-- rewrites CODE`"),
            ("== a\nx: f32[2] = input\nreturn x\n== b", "line 1: the case `a` has no line"),
            ("== a\nx: f32[2] = input", "line 1: the case `a` has no line"),
            ("== a\nx f32\n-- declines x", "the case `a` at line 1"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
