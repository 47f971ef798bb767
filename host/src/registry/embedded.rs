//! The components of `registry/`, embedded. Written by `cargo xtask rules`.

/// File below `registry/` and its bytes.
pub(super) const COMPONENTS: &[(&str, &[u8])] = &[
    ("rules/dd-001/1.0.0.wasm", include_bytes!("../../../registry/rules/dd-001/1.0.0.wasm")),
    ("rules/dd-002/1.0.0.wasm", include_bytes!("../../../registry/rules/dd-002/1.0.0.wasm")),
    ("rules/dd-003/1.0.0.wasm", include_bytes!("../../../registry/rules/dd-003/1.0.0.wasm")),
];
