//! What the tests of this package share: the built binaries, a sandbox to run them in.

mod binary;
mod python;
mod sandbox;

pub use binary::{binary, profile, workspace};
pub use python::{PYTHON, python};
pub use sandbox::{Ran, Sandbox, make_executable};
