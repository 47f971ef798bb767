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

/// All versions as a JSON object, the tool's own first; whole numbers are numbers.
pub(super) fn as_json() -> serde_json::Map<String, serde_json::Value> {
    let own = ("tool", env!("CARGO_PKG_VERSION").to_string());
    let value = |version: String| match version.parse::<u64>() {
        Ok(number) => number.into(),
        Err(_) => version.into(),
    };
    std::iter::once(own).chain(parts()).map(|(name, version)| (name.replace(' ', "_"), value(version))).collect()
}

/// The versions beside the tool's own, by name.
fn parts() -> Vec<(&'static str, String)> {
    let contracts = crate::sandbox::component::CONTRACTS.iter();
    let contracts: Vec<String> = contracts.map(|contract| format!("{}.{}", contract.major, contract.minor)).collect();
    vec![
        ("rule contract", contracts.join(", ")),
        ("report schema", crate::report::model::VERSION.to_string()),
        ("worker protocol", crate::torch::protocol::PROTOCOL.to_string()),
        ("runner protocol", crate::target::runner_process::PROTOCOL.to_string()),
    ]
}
