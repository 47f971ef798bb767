//! The one place where machine code becomes callable.

#![expect(unsafe_code, reason = "wasmtime cannot check that serialized code was made by wasmtime; see `load`")]

use wasmtime::Engine;
use wasmtime::component::Component;

/// Makes code that [`super::compile`] produced callable.
///
/// `code` must come from the compiling process of this tool, directly or from the compiled-rule cache. The
/// cache lives in a folder that only this user can write, and hands out only bytes that carry a tag made with
/// that folder's own key; the bytes that were checked are the bytes that are loaded here, so nothing can
/// change them in between. A downloaded file is never passed in.
pub(super) fn load(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes are wasmtime's own output, as the contract above says. wasmtime itself refuses
    // output of another version or configuration.
    unsafe { Component::deserialize(engine, code) }
}
