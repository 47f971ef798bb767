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

/// Every type of the contract, as plain data.
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

/// Version of this crate, written into every component built with it.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a rule hands back no rewrite.
#[derive(Clone, Debug, PartialEq)]
pub enum NoRewrite {
    /// it has nothing to offer here
    Decline(Reason),
    /// it is at fault itself, or was shown something that breaks the contract
    Fault(String),
}

impl NoRewrite {
    /// A decline with one of the manifest's codes.
    pub fn decline(code: &str, message: impl Into<String>) -> Self {
        Self::Decline(Reason { code: code.to_owned(), message: message.into() })
    }
}

/// What [`Rule::examine`] returns; `?` on a view's accessor declines with a standard code.
pub type Examination = Result<Rewrite, NoRewrite>;

/// A repair rule.
pub trait Rule {
    /// What the rule is and what it wants to see.
    fn manifest() -> Manifest;

    /// The answer for one site; must depend on nothing but the site.
    ///
    /// # Errors
    /// [`NoRewrite::Decline`] when the rule has nothing to offer.
    fn examine(site: &Site<'_>) -> Examination;
}

/// Declines unless `condition` holds: `require!(condition, "code", "message with {facts}")`.
#[macro_export]
macro_rules! require {
    ($condition:expr, $code:expr, $($message:tt)+) => {
        if !$condition {
            $crate::decline!($code, $($message)+);
        }
    };
}

/// Declines: `decline!("code", "message with {facts}")`.
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

/// Makes the crate's component hold this rule. Does nothing when the crate is built for a host.
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
