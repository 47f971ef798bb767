//! From a core module to the component that is published: the contract's shape, and sections that say
//! what it is without running it.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::sandbox::Sandbox;
use crate::sandbox::component::{CONTRACT_SECTION, SDK_SECTION};
use crate::sandbox::contract::Manifest;

pub use crate::sandbox::component::MANIFEST_SECTION;

/// What a component was built with; for people and error messages only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// the SDK and its version: `rule-sdk 0.1.0`
    pub sdk: String,
}

/// Wraps a core module that holds the contract's type information into a component. Bytes depend on the
/// module alone.
///
/// # Errors
/// When the module does not have the contract's shape, in words.
pub fn componentize(module: &[u8]) -> Result<Vec<u8>, String> {
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(ComponentEncoder::encode)
        .map_err(|error| format!("{error:#}"))
}

/// World of the contract that rules implement.
pub(super) const WORLD: &str = "repair-rule";

/// Puts the contract's type information, read from a folder of WIT files, into a core module whose tools
/// did not.
///
/// # Errors
/// When the folder does not hold the contract, in words.
pub(super) fn with_types(mut module: Vec<u8>, wit: &Path) -> Result<Vec<u8>, String> {
    let mut embed = || {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_path(wit)?;
        let world = resolve.select_world(&[package], Some(WORLD))?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)
    };
    embed().map_err(|error| format!("{error:#}"))?;
    Ok(module)
}

/// The component with its sections: the contract, the SDK, and the manifest that it gives when it is asked
/// in the sandbox.
///
/// # Errors
/// When the sandbox refuses it.
pub fn described(
    sandbox: &Sandbox,
    label: &str,
    mut component: Vec<u8>,
    tools: &Tools,
) -> Result<(Vec<u8>, Manifest), crate::sandbox::Error> {
    let rule = sandbox.load(label, &component)?;
    append_section(&mut component, CONTRACT_SECTION, rule.inspection().contract.to_string().as_bytes());
    append_section(&mut component, SDK_SECTION, tools.sdk.as_bytes());
    let manifest = rule.manifest().clone();
    append_section(&mut component, MANIFEST_SECTION, manifest_section(&manifest).as_bytes());
    Ok((component, manifest))
}

/// The manifest as its section holds it: JSON in one line.
fn manifest_section(manifest: &Manifest) -> String {
    // Plain data of strings and numbers; an empty section would be refused when it is read.
    serde_json::to_string(manifest).unwrap_or_default()
}

/// Appends a custom section: id 0, length, name, content (WebAssembly specification, binary format).
fn append_section(component: &mut Vec<u8>, name: &str, content: &[u8]) {
    fn length(mut n: usize, out: &mut Vec<u8>) {
        loop {
            let byte = (n & 0x7f) as u8;
            n >>= 7;
            out.push(if n == 0 { byte } else { byte | 0x80 });
            if n == 0 {
                return;
            }
        }
    }
    let mut body = Vec::new();
    length(name.len(), &mut body);
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(content);
    component.push(0);
    length(body.len(), component);
    component.extend_from_slice(&body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Limits, inspect};

    #[test]
    fn a_section_is_read_back_as_it_was_written() {
        let mut component = wat::parse_str("(component)").expect("component");
        let content = vec![7_u8; 300];
        append_section(&mut component, "a-name", &content);
        let found = wasmparser::Parser::new(0).parse_all(&component).find_map(|payload| match payload {
            Ok(wasmparser::Payload::CustomSection(section)) if section.name() == "a-name" => {
                Some(section.data().to_vec())
            }
            _ => None,
        });
        assert_eq!(found, Some(content));
        assert!(inspect(&component, &Limits::standard()).is_err(), "it still exports nothing");
    }

    #[test]
    fn a_module_without_the_contract_is_told() {
        let module = wat::parse_str("(module (func (export \"f\")))").expect("module");
        // A module without type information becomes an empty component, which the sandbox refuses.
        let made = componentize(&module);
        assert!(made.is_err() || inspect(&made.expect("component"), &Limits::standard()).is_err());
        assert!(componentize(b"no module").is_err());
    }
}
