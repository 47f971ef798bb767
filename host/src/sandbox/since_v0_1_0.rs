//! Contract 0.1: the exported functions, found by name.
//!
//! The types of this contract are those of [`super::contract`]; a component whose types differ is refused
//! when its first instance is made.

use wasmtime::component::{Component, ComponentExportIndex};

/// Where the functions of the exported interface are.
#[derive(Clone)]
pub(super) struct Exports {
    pub(super) describe: ComponentExportIndex,
    pub(super) examine: ComponentExportIndex,
}

impl Exports {
    /// The functions of `interface`, or the name of the one that is missing.
    pub(super) fn find(component: &Component, interface: &str) -> Result<Self, String> {
        let instance = component.get_export_index(None, interface).ok_or_else(|| format!("`{interface}`"))?;
        let function = |name: &str| {
            component.get_export_index(Some(&instance), name).ok_or_else(|| format!("`{name}` of `{interface}`"))
        };
        Ok(Self { describe: function("describe")?, examine: function("examine")? })
    }
}
