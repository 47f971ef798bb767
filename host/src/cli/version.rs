//! The versions that are kept apart: tool, rule interface, report, protocols.

use std::fmt::Write as _;

/// `--version`: one line a version. The first line stands alone in `-V`.
pub(super) fn long() -> String {
    let mut text = env!("CARGO_PKG_VERSION").to_string();
    for (name, version) in parts() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{name:<16} {version}");
    }
    text
}

/// The versions beside the tool's own, by name.
pub(super) fn parts() -> Vec<(&'static str, String)> {
    vec![("worker protocol", crate::torch::protocol::PROTOCOL.to_string())]
}
