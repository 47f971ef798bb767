//! What a rule is shown and what it answers, as plain data of the newest contract.
//!
//! The types mirror the newest contract exactly and cross the sandbox's border as they are; older contracts
//! convert into them, so that the rest of the host knows one form. A [`Site`] has a canonical form
//! ([`Site::canonical_bytes`]): together with the rule's hash and the limits it determines the verdict.

mod edits;
mod graph;
mod manifest;

pub use edits::*;
pub use graph::*;
pub use manifest::*;
