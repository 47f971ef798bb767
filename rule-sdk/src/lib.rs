//! What the author of a repair rule depends on.
//!
//! A rule says what it wants to see ([`Rule::manifest`]) and answers for one place of a graph
//! ([`Rule::examine`]): it declines with a reason, or it hands back edits that a [`Patch`] collected.
//! The host does everything else: it finds the sites, checks the edits, and keeps a repair only when the
//! target proves that it pays.
//!
//! ```
//! use rule_sdk::{Anchor, Examination, Manifest, Numerics, Patch, Rule, Site, require};
//!
//! /// Multiplying by one changes nothing.
//! pub struct TimesOne;
//!
//! impl Rule for TimesOne {
//!     fn manifest() -> Manifest {
//!         Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
//!             .anchor(Anchor::on(["aten.mul.Scalar"]))
//!             .code("no-op", "the factor is one")
//!             .code("factor", "the factor is not one")
//!     }
//!
//!     fn examine(site: &Site<'_>) -> Examination {
//!         let mul = site.anchor();
//!         let factor = mul.float("other")?;
//!         require!(factor == 1.0, "factor", "the factor is {factor}");
//!         let (input, output) = (mul.tensor("self")?, mul.output(0)?);
//!         require!(!input.is_mutated() && !output.is_mutated(), "factor", "the result is written to");
//!         let mut patch = Patch::new(site);
//!         let input = patch.tap(input);
//!         patch.replace(output, input);
//!         patch.delete(mul);
//!         patch.finish(Numerics::Exact, "no-op", "multiplication by one")
//!     }
//! }
//!
//! rule_sdk::export_rule!(TimesOne);
//!
//! let verdict = rule_sdk::testing::examine::<TimesOne>(
//!     "x: f32[2,3] = input
//!      y: f32[2,3] = aten.mul.Scalar(self=x, other=2.0)
//!      return y",
//! );
//! assert_eq!(rule_sdk::testing::declined(&verdict), Some("factor"));
//! ```
//!
//! Rules build for `wasm32-unknown-unknown` and, as plain libraries, for the host they are tested on.

#[doc(hidden)]
pub mod bindings;
mod manifest;
mod patch;
mod site;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

/// Every type of the contract, as plain data: what the views of this crate read and what a
/// [`Patch`] writes. `data()` of a view gives it.
///
/// Reading: an argument is a literal or names values, a size is known or varies, a value says where it is from.
///
/// ```
/// use rule_sdk::contract::{Argument, Dim, Literal, ValueSource};
/// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
///
/// let graph = "x: f32[n,3] = input
///              y: f32[n,3] = aten.softmax.int(self=x, dim=1, dtype=None) !anchor";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// let data = site.data();
/// assert_eq!(data.nodes[0].inputs[0].argument, Argument::Value(0));
/// assert_eq!(data.nodes[0].inputs[1].argument, Argument::Literal(Literal::Int(1)));
/// assert_eq!(data.values[0].source, ValueSource::UserInput);
/// assert_eq!(data.values[0].meta.as_ref().map(|meta| meta.sizes[1].clone()), Some(Dim::Fixed(3)));
/// # Ok::<(), NoRewrite>(())
/// ```
///
/// Writing: a verdict is a decline or a rewrite, and a rewrite is a list of edits.
///
/// ```
/// use rule_sdk::contract::{Edit, Numerics, Reason, Replacement, Rewrite, ValueRef, Verdict};
///
/// let drops_a_copy = Verdict::Rewrite(Rewrite {
///     edits: vec![Edit::ReplaceAllUses(Replacement { value: 1, by: ValueRef::Existing(0) }), Edit::Delete(0)],
///     numerics: Numerics::Exact,
///     why: Reason { code: "copy".to_owned(), message: "nothing writes to the copy".to_owned() },
///     hints: Vec::new(),
/// });
/// assert_eq!(rule_sdk::testing::declined(&drops_a_copy), None);
/// ```
pub mod contract {
    pub use crate::bindings::delegate_doctor::rules::edits::{
        CreatedRef, Edit, InputChange, NamedOperand, NewNode, Numerics, Operand, Reason, Replacement, Rewrite,
        Tolerance, UseReplacement, ValueRef, Verdict,
    };
    pub use crate::bindings::delegate_doctor::rules::graph::*;
    pub use crate::bindings::exports::delegate_doctor::rules::rule::{
        Anchor, Manifest, ProducerConstraint, ReasonCode, Stability,
    };
}

pub use contract::{
    Anchor, Dim, Literal, Manifest, MemoryFormat, Numerics, Reason, Rewrite, ScalarType, Stability, UseSite, ValueRef,
    ValueSource, Verdict,
};
pub use manifest::{STANDARD_CODES, tolerant};
pub use patch::{NewNode, Patch};
pub use site::{Node, Site, Tensor, Value, dtype_name};

/// Version of this crate, written into every component built with it; `delegate-doctor rules inspect` shows it.
///
/// ```
/// let numbers: Vec<&str> = rule_sdk::SDK_VERSION.split('.').collect();
/// assert_eq!(numbers.len(), 3, "a semantic version");
/// ```
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a rule hands back no rewrite. `?` passes it on from a view's accessor; [`require!`] and [`decline!`]
/// return it.
///
/// ```
/// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
/// let graph = "x: f32[4] = input
///              y: f32[4] = aten.clamp.default(self=x, min=0.0, max=None) !anchor
///              return y";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// match site.anchor().float("max") {
///     Err(NoRewrite::Decline(reason)) => assert_eq!(reason.code, "argument"),
///     Err(NoRewrite::Fault(fault)) => panic!("{fault}"),
///     Ok(max) => panic!("a bound at {max}"),
/// }
/// # Ok::<(), NoRewrite>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum NoRewrite {
    /// it has nothing to offer here
    Decline(Reason),
    /// it is at fault itself, or was shown something that breaks the contract
    Fault(String),
}

impl NoRewrite {
    /// A decline with one of the manifest's codes, where [`decline!`] cannot return it.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[2,3] = aten.softmax.int(self=x, dim=2, dtype=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let (x, dim) = (site.anchor().tensor("self")?.meta()?, site.anchor().int("dim")?);
    /// let front = x.dimension(dim).ok_or_else(|| NoRewrite::decline("dimension", format!("there is no {dim}")));
    /// assert_eq!(front, Err(NoRewrite::decline("dimension", "there is no 2")));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn decline(code: &str, message: impl Into<String>) -> Self {
        Self::Decline(Reason { code: code.to_owned(), message: message.into() })
    }
}

/// What [`Rule::examine`] returns; `?` on a view's accessor declines with a standard code. A helper of a rule
/// returns the same error with another `Ok`:
///
/// ```
/// use rule_sdk::{NoRewrite, Node, require};
///
/// /// The dimension that a softmax runs over.
/// fn softmax_dimension(softmax: Node<'_>) -> Result<usize, NoRewrite> {
///     let dim = softmax.tensor("self")?.meta()?.dimension(softmax.int("dim")?);
///     require!(dim.is_some(), "dimension", "the dimension does not exist");
///     Ok(dim.unwrap_or(0))
/// }
/// # use rule_sdk::{Manifest, Site, testing::cases};
/// # let graph = "x: f32[2,3] = input
/// #              y: f32[2,3] = aten.softmax.int(self=x, dim=-2, dtype=None) !anchor";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// assert_eq!(softmax_dimension(site.anchor())?, 0);
/// # Ok::<(), NoRewrite>(())
/// ```
pub type Examination = Result<Rewrite, NoRewrite>;

/// A repair rule.
///
/// ```
/// # use rule_sdk::{Anchor, Examination, Manifest, Rule, Site, decline, testing};
/// # struct Never;
/// impl Rule for Never {
///     fn manifest() -> Manifest {
///         Manifest::new("org.example.never", "1.0.0", "").anchor(Anchor::on(["aten.erf.default"])).code("no", "")
///     }
///     fn examine(site: &Site<'_>) -> Examination { decline!("no", "{} stays", site.anchor().op()) }
/// }
/// # let graph = "x: f32[4] = input
/// #              y: f32[4] = aten.erf.default(self=x)
/// #              return y";
/// assert_eq!(testing::declined(&testing::examine::<Never>(graph)), Some("no"));
/// ```
pub trait Rule {
    /// What the rule is and what it wants to see. Called once, when the rule is loaded; the codes of
    /// [`STANDARD_CODES`] are added by themselves. [`Manifest::new`] has an example.
    fn manifest() -> Manifest;

    /// The answer for one site; must depend on nothing but the site. Every site is asked about in a new instance, so
    /// nothing can be kept from one to the next. The [crate's example](crate) is a whole rule.
    ///
    /// # Errors
    /// [`NoRewrite::Decline`] when the rule has nothing to offer.
    fn examine(site: &Site<'_>) -> Examination;
}

/// Declines unless `condition` holds: `require!(condition, "code", "message with {facts}")`. It returns from the
/// function around it, whose error must be [`NoRewrite`]; the code is one of the manifest's.
///
/// ```
/// use rule_sdk::{NoRewrite, Node, require};
///
/// fn factor_is_one(mul: Node<'_>) -> Result<(), NoRewrite> {
///     let factor = mul.float("other")?;
///     require!(factor == 1.0, "factor", "the factor is {factor}");
///     Ok(())
/// }
/// # use rule_sdk::{Manifest, Site, testing::cases};
/// # let graph = "x: f32[4] = input
/// #              y: f32[4] = aten.mul.Scalar(self=x, other=2.5) !anchor";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// assert_eq!(factor_is_one(site.anchor()), Err(NoRewrite::decline("factor", "the factor is 2.5")));
/// # Ok::<(), NoRewrite>(())
/// ```
#[macro_export]
macro_rules! require {
    ($condition:expr, $code:expr, $($message:tt)+) => {
        if !$condition {
            $crate::decline!($code, $($message)+);
        }
    };
}

/// Declines: `decline!("code", "message with {facts}")`. It returns from the function around it, whose error
/// must be [`NoRewrite`], so it also fits where a value is expected.
///
/// ```
/// use rule_sdk::{NoRewrite, Node, decline};
///
/// fn copies(node: Node<'_>) -> Result<(), NoRewrite> {
///     match node.op() {
///         "aten.clone.default" | "aten.contiguous.default" => Ok(()),
///         other => decline!("op", "{other} makes no copy"),
///     }
/// }
/// # use rule_sdk::{Manifest, Site, testing::cases};
/// # let graph = "x: f32[4] = input
/// #              y: f32[4] = aten.neg.default(self=x) !anchor";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// assert_eq!(copies(site.anchor()), Err(NoRewrite::decline("op", "aten.neg.default makes no copy")));
/// # Ok::<(), NoRewrite>(())
/// ```
#[macro_export]
macro_rules! decline {
    ($code:expr, $($message:tt)+) => {
        return ::core::result::Result::Err($crate::NoRewrite::decline($code, ::std::format!($($message)+)))
    };
}

/// The contract's `describe` for a rule, with the codes of this crate's own declines added.
#[doc(hidden)]
pub fn describe<R: Rule>() -> Manifest {
    let mut manifest = R::manifest();
    for &(code, summary) in STANDARD_CODES {
        if !manifest.codes.iter().any(|known| known.code == code) {
            manifest = manifest.code(code, summary);
        }
    }
    manifest
}

/// The contract's `examine` for a rule.
#[doc(hidden)]
pub fn examine<R: Rule>(site: &contract::Site) -> Result<Verdict, String> {
    match Site::new(site).and_then(|site| R::examine(&site)) {
        Ok(rewrite) => Ok(Verdict::Rewrite(rewrite)),
        Err(NoRewrite::Decline(reason)) => Ok(Verdict::Decline(reason)),
        Err(NoRewrite::Fault(message)) => Err(message),
    }
}

/// Makes the crate's component hold this rule; once in a crate of the kind `cdylib`. Does nothing when the crate
/// is built for a host, where tests ask the type itself.
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
/// rule_sdk::export_rule!(TimesOne);
///
/// let manifest = rule_sdk::testing::manifest::<TimesOne>();
/// assert_eq!(manifest.id, "org.example.times-one");
/// ```
#[macro_export]
macro_rules! export_rule {
    ($rule:ty) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "the exported functions of the canonical ABI")]
        #[allow(missing_docs, reason = "nothing here is called by name")]
        const _: () = {
            struct Component;

            impl $crate::bindings::exports::delegate_doctor::rules::rule::Guest for Component {
                fn describe() -> $crate::contract::Manifest {
                    $crate::describe::<$rule>()
                }

                fn examine(
                    site: $crate::contract::Site,
                ) -> ::core::result::Result<$crate::contract::Verdict, ::std::string::String> {
                    $crate::examine::<$rule>(&site)
                }
            }

    $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        };
    };
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};

    /// A public item that has a page, and its doc comment.
    struct Item {
        place: String,
        name: String,
        docs: Vec<String>,
    }

    impl Item {
        /// A block that is compiled and asserts something.
        fn has_example(&self) -> bool {
            let (mut within, mut compiled, mut asserts) = (false, false, false);
            for line in &self.docs {
                if let Some(language) = line.strip_prefix("```") {
                    within = !within;
                    compiled = within && language.is_empty();
                } else {
                    asserts |= compiled && line.contains("assert");
                }
            }
            asserts
        }

        /// The names at the ends of its links: `int` for [`crate::Node::int`].
        fn links(&self) -> impl Iterator<Item = &str> {
            let ends = self.docs.iter().flat_map(|line| line.split("[`").skip(1));
            ends.filter_map(|rest| rest.split('`').next()?.rsplit("::").next()).map(|name| name.trim_end_matches('!'))
        }
    }

    /// The name of what a line makes public.
    fn declared<'a>(line: &'a str, attributes: &[&str]) -> Option<&'a str> {
        let rest = match line.strip_prefix("macro_rules! ") {
            Some(rest) => rest.strip_suffix(" {").filter(|_| attributes.contains(&"#[macro_export]")),
            // What a file holds stands in the file's own comment.
            None if line.starts_with("pub mod ") && line.ends_with(';') => None,
            None => ["fn ", "const fn ", "struct ", "enum ", "trait ", "type ", "const ", "mod "]
                .iter()
                .find_map(|kind| line.strip_prefix("pub ")?.strip_prefix(kind)),
        }?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    }

    fn items(path: &Path) -> Vec<Item> {
        let text = std::fs::read_to_string(path).expect("source");
        let (mut found, mut docs, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if let Some(words) = line.strip_prefix("///") {
                docs.push(words.trim().to_owned());
            } else if line.starts_with("#[") {
                attributes.push(line);
            } else {
                let docs = std::mem::take(&mut docs);
                let attributes = std::mem::take(&mut attributes);
                if let Some(name) = declared(line, &attributes)
                    && !attributes.contains(&"#[doc(hidden)]")
                {
                    let place = format!("{}:{}", path.display(), index + 1);
                    found.push(Item { place, name: name.to_owned(), docs });
                }
            }
        }
        found
    }

    /// The sources but the generated bindings, whose words come from `wit/rules.wit`.
    fn sources() -> Vec<PathBuf> {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("folder") {
                let path = entry.expect("entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("bindings.rs") {
                    found.push(path);
                }
            }
        }
        found
    }

    #[test]
    fn every_public_item_has_an_example() {
        let items: Vec<Item> = sources().iter().flat_map(|path| items(path)).collect();
        assert!(items.len() > 100, "only {} items were found", items.len());
        let shown: HashSet<&str> =
            items.iter().filter(|item| item.has_example()).map(|item| item.name.as_str()).collect();
        let bare: Vec<String> = items
            .iter()
            .filter(|item| !item.has_example() && !item.links().any(|name| shown.contains(name)))
            .map(|item| format!("{} `{}`", item.place, item.name))
            .collect();
        assert!(bare.is_empty(), "no example and no link to one:\n{}", bare.join("\n"));
    }
}
