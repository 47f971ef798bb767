//! The contract's types, generated from `wit/rules.wit`.

#![allow(missing_docs, reason = "generated; the contract's own text documents it")]
#![allow(unsafe_code, reason = "generated; the canonical ABI moves values through linear memory")]
#![allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]

#[cfg(not(feature = "serde"))]
wit_bindgen::generate!({
    path: "../wit",
    world: "repair-rule",
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "rule_sdk::bindings",
    additional_derives: [PartialEq],
});

#[cfg(feature = "serde")]
wit_bindgen::generate!({
    path: "../wit",
    world: "repair-rule",
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "rule_sdk::bindings",
    additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
});
