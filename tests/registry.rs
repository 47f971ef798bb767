//! Signed registries as their maintainers and contributors meet them: the real binary on real folders.

#[path = "registry/no_keys.rs"]
mod no_keys;
#[path = "registry/publishing.rs"]
mod publishing;
#[path = "registry/python_tuf.rs"]
mod python_tuf;
