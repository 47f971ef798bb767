//! What the tests of this package share: the built binaries, a sandbox to run them in,
//! rules as components.

mod binary;
pub mod etdump;
mod python;
mod rules;
mod sandbox;
pub mod synthetic;

pub use binary::{binary, profile, workspace};
pub use python::{PYTHON, python};
pub use rules::{
    bundled_component, bundled_rule, craft, host_site, host_verdict, rule_sandbox, sdk_site, sdk_verdict, test_rule,
    test_rule_bytes,
};
pub use sandbox::{Ran, Sandbox, make_executable};
