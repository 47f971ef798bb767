//! A look at a component's bytes before any engine sees them.
//!
//! The bytes are parsed whole and validated against the features that rules may use; sizes are held
//! against the limits; the contract version is read from the name of the exported interface; imports that
//! could carry anything but types are refused. This is a first filter: what compiling costs is held down
//! by the limits of the compiling process.

use wasmparser::component_types::{ComponentAnyTypeId, ComponentEntityType};
use wasmparser::{ComponentExternalKind, CompositeInnerType, Parser, Payload, Validator, WasmFeatures};

use super::Limits;
use super::contract::Manifest;
use super::error::Class;
use serde::{Deserialize, Serialize};

use crate::files::sha256_hex;

/// Interfaces of the contract that this host speaks, oldest first.
pub const CONTRACTS: &[Contract] = &[Contract { major: 0, minor: 1 }];
/// What the exported interface is called, before the version.
const INTERFACE: &str = "delegate-doctor:rules/rule@";
/// Custom section with the contract version that the author's tool built for.
pub const CONTRACT_SECTION: &str = "delegate-doctor:contract";
/// Custom section with the manifest as JSON, to be read without running the rule. What the rule says when it
/// is asked must be the same.
pub const MANIFEST_SECTION: &str = "delegate-doctor:manifest";
/// Bytes of a manifest section that are read.
const MANIFEST_BYTES: usize = 256 << 10;
/// Custom section with the author's tool and its version.
pub const SDK_SECTION: &str = "delegate-doctor:sdk";

/// A line of contract versions that understand each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// `0`
    pub major: u64,
    /// `1`
    pub minor: u64,
}

/// The newest version of the rule contract that this host speaks, as reports show it: `0.1`.
pub fn newest_contract() -> String {
    CONTRACTS.last().map_or_else(String::new, |one| format!("{}.{}", one.major, one.minor))
}

/// Which contracts a build of the host takes: a contract that may still change is for those who change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    /// released contracts only
    Release,
    /// versions such as `0.1.1-dev.1` too
    Development,
}

impl Build {
    const fn of_this_binary() -> Self {
        if cfg!(debug_assertions) { Self::Development } else { Self::Release }
    }
}

/// How the names of SDKs begin whose rules bring an interpreter along.
const SCRIPT_SDKS: [&str; 2] = ["rule-sdk-python ", "rule-sdk-js "];

/// What a component needs to be loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// [`Limits::standard`]: rules in a compiled language
    Compiled,
    /// [`Limits::script`]: rules that bring an interpreter along
    Script,
}

impl Tier {
    /// `compiled` or `script`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compiled => "compiled",
            Self::Script => "script",
        }
    }

    /// The limits that go with it.
    pub fn limits(self) -> Limits {
        match self {
            Self::Compiled => Limits::standard(),
            Self::Script => Limits::script(),
        }
    }
}

/// Looks at a component and says which tier it belongs to: script when an SDK for scripts made it, or when
/// it is too large for anything else.
///
/// # Errors
/// What [`inspect`] says when it belongs to none.
pub fn inspect_tier(bytes: &[u8]) -> Result<(Inspection, Tier), Finding> {
    match inspect(bytes, &Limits::standard()) {
        Ok(inspection) => {
            let is_script =
                inspection.sdk.as_ref().is_some_and(|sdk| SCRIPT_SDKS.iter().any(|name| sdk.starts_with(name)));
            Ok((inspection, if is_script { Tier::Script } else { Tier::Compiled }))
        }
        Err(finding) => match inspect(bytes, &Limits::script()) {
            Ok(inspection) => Ok((inspection, Tier::Script)),
            Err(_) => Err(finding),
        },
    }
}

/// What the bytes say without being run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// lower-case hex SHA-256 of the bytes
    pub sha256: String,
    /// number of bytes
    pub bytes: usize,
    /// the exported interface: `delegate-doctor:rules/rule@0.1.0`
    pub interface: String,
    /// its version
    pub contract: semver::Version,
    /// `rule-sdk 0.1.0`, where the component says so
    pub sdk: Option<String>,
    /// what it says it is, where a section says so; not yet compared with what the rule itself says
    pub manifest: Option<Manifest>,
    /// functions over all core modules
    pub functions: usize,
    /// core modules
    pub core_modules: usize,
    /// bytes of the largest function body
    pub largest_body: usize,
    /// imports that carry types only
    pub type_imports: Vec<String>,
    /// other exports, which are ignored
    pub other_exports: Vec<String>,
}

/// Lower-case hex SHA-256 of what is compiled: the header and every section but the custom ones, which only say
/// something about the component.
pub(super) fn code_sha256(component: &[u8]) -> String {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new();
    let (header, mut rest) = component.split_at_checked(8).unwrap_or((component, &[]));
    hash.update(header);
    while let Some((section, after)) = first_section(rest) {
        if section.first() != Some(&0) {
            hash.update(section);
        }
        rest = after;
    }
    // Empty unless the bytes are no component.
    hash.update(rest);
    hex::encode(hash.finalize())
}

/// A section with its id and length, and what comes after it.
fn first_section(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0_usize;
    for (place, &byte) in bytes.iter().enumerate().skip(1).take(5) {
        length |= usize::from(byte & 0x7f) << (7 * (place - 1));
        if byte & 0x80 == 0 {
            return bytes.split_at_checked((place + 1).checked_add(length)?);
        }
    }
    None
}

/// Why the bytes are no rule for this host.
pub(super) type Finding = (Class, String);

fn features() -> WasmFeatures {
    WasmFeatures::WASM2
        .difference(WasmFeatures::SIMD)
        .union(WasmFeatures::EXTENDED_CONST)
        .union(WasmFeatures::COMPONENT_MODEL)
}

/// Looks at a component without running it.
///
/// # Errors
/// The class and the reason for which this host will not load it.
pub fn inspect(bytes: &[u8], limits: &Limits) -> Result<Inspection, Finding> {
    let load = |reason: String| (Class::Load, reason);
    if bytes.len() > limits.component_bytes {
        return Err(load(format!("it has {} bytes, and {} are allowed", bytes.len(), limits.component_bytes)));
    }
    if Parser::is_core_wasm(bytes) {
        return Err(load("it is a core module, not a component".to_owned()));
    }
    if !Parser::is_component(bytes) {
        return Err(load("it is not a WebAssembly component".to_owned()));
    }
    let outline = Outline::read(bytes, limits)?;

    let types = Validator::new_with_features(features())
        .validate_all(bytes)
        .map_err(|error| load(format!("it is not valid: {}", error.message())))?;
    for import in &outline.imports {
        let carries_types_only = match types.as_ref().component_item_for_import(import).map(|item| &item.ty) {
            Some(ComponentEntityType::Instance(id)) => types
                .as_ref()
                .get(*id)
                .is_some_and(|instance| instance.exports.values().all(|item| is_plain_type(&item.ty))),
            Some(ty) => is_plain_type(ty),
            None => false,
        };
        if !carries_types_only {
            return Err((Class::Import, format!("it imports `{import}`, and a rule may import nothing but types")));
        }
    }

    let (interface, contract) = outline.contract(Build::of_this_binary())?;
    Ok(Inspection {
        sha256: sha256_hex(bytes),
        bytes: bytes.len(),
        other_exports: outline.exports.iter().filter(|name| **name != interface).cloned().collect(),
        interface,
        contract,
        sdk: outline.sdk,
        manifest: outline.manifest,
        functions: outline.functions,
        core_modules: outline.core_modules,
        largest_body: outline.largest_body,
        type_imports: outline.imports,
    })
}

/// True for types of plain data; a resource is a handle to something that the host would have to have.
fn is_plain_type(ty: &ComponentEntityType) -> bool {
    matches!(ty, ComponentEntityType::Type { referenced: ComponentAnyTypeId::Defined(_), .. })
}

/// Counts and names from one pass over the bytes.
#[derive(Default)]
struct Outline {
    imports: Vec<String>,
    exports: Vec<String>,
    instances: Vec<String>,
    sdk: Option<String>,
    manifest: Option<Manifest>,
    functions: usize,
    types: usize,
    core_modules: usize,
    largest_body: usize,
}

impl Outline {
    fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Finding> {
        let load = |reason: String| (Class::Load, reason);
        let invalid = |error: wasmparser::Error| (Class::Load, format!("it is not valid: {}", error.message()));
        let too_many = |what: &str, found: usize, most: usize| {
            load(format!("it has {found} {what} or more, and {most} are allowed"))
        };
        let mut outline = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(invalid)? {
                Payload::ModuleSection { .. } => {
                    depth += 1;
                    outline.core_modules += 1;
                    if outline.core_modules > limits.core_modules {
                        return Err(too_many("core modules", outline.core_modules, limits.core_modules));
                    }
                }
                Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::TypeSection(section) => {
                    for group in section {
                        for one in group.map_err(invalid)?.types() {
                            outline.types += 1;
                            if outline.types > limits.types {
                                return Err(too_many("function types", outline.types, limits.types));
                            }
                            let CompositeInnerType::Func(function) = &one.composite_type.inner else { continue };
                            let values = function.params().len() + function.results().len();
                            if values > limits.type_values {
                                return Err(load(format!(
                                    "a function type has {values} values, and {} are allowed",
                                    limits.type_values
                                )));
                            }
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    outline.functions += 1;
                    let size = body.as_bytes().len();
                    outline.largest_body = outline.largest_body.max(size);
                    if outline.functions > limits.functions {
                        return Err(too_many("functions", outline.functions, limits.functions));
                    }
                    if size > limits.body_bytes {
                        return Err(load(format!(
                            "a function body has {size} bytes, and {} are allowed",
                            limits.body_bytes
                        )));
                    }
                    let mut locals = 0_u32;
                    for group in body.get_locals_reader().map_err(invalid)? {
                        locals = locals.saturating_add(group.map_err(invalid)?.0);
                    }
                    if locals > limits.locals {
                        return Err(load(format!("a function has {locals} locals, and {} are allowed", limits.locals)));
                    }
                }
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        outline.imports.push(import.map_err(invalid)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        let export = export.map_err(invalid)?;
                        let name = export.name.name.to_owned();
                        if export.kind == ComponentExternalKind::Instance {
                            outline.instances.push(name.clone());
                        }
                        outline.exports.push(name);
                    }
                }
                Payload::CustomSection(section) if depth == 0 && section.name() == SDK_SECTION => {
                    outline.sdk =
                        std::str::from_utf8(section.data()).ok().map(|text| super::error::printable(text, 64));
                }
                Payload::CustomSection(section) if depth == 0 && section.name() == MANIFEST_SECTION => {
                    let read = || {
                        if section.data().len() > MANIFEST_BYTES {
                            return Err(format!(
                                "it has {} bytes, and {MANIFEST_BYTES} are allowed",
                                section.data().len()
                            ));
                        }
                        serde_json::from_slice(section.data()).map_err(|error| error.to_string())
                    };
                    let manifest = read()
                        .map_err(|why| load(format!("its section `{MANIFEST_SECTION}` cannot be read: {why}")))?;
                    outline.manifest = Some(manifest);
                }
                _ => {}
            }
        }
        Ok(outline)
    }

    /// The exported interface of the newest contract that both sides speak.
    fn contract(&self, build: Build) -> Result<(String, semver::Version), Finding> {
        let known = CONTRACTS.iter().map(|one| format!("{}.{}", one.major, one.minor)).collect::<Vec<_>>().join(", ");
        let exported: Vec<(String, semver::Version)> = self
            .instances
            .iter()
            .filter_map(|name| {
                let version = name.strip_prefix(INTERFACE).and_then(|version| semver::Version::parse(version).ok())?;
                Some((name.clone(), version))
            })
            .collect();
        let in_a_known_line = |version: &semver::Version| {
            CONTRACTS.iter().any(|one| one.major == version.major && one.minor == version.minor)
        };
        let spoken = exported
            .iter()
            .filter(|(_, version)| in_a_known_line(version) && (version.pre.is_empty() || build == Build::Development));
        if let Some(newest) = spoken.max_by(|a, b| a.1.cmp(&b.1)) {
            return Ok(newest.clone());
        }
        let reason = match exported.iter().map(|(_, version)| version).max() {
            None => format!("it exports no `{INTERFACE}…`; this host speaks contract {known}"),
            Some(version) if in_a_known_line(version) => format!(
                "it speaks contract {version}, which is not released and may still change; this host speaks {known}, \
                 and only a development build of it takes unreleased ones"
            ),
            Some(version) => {
                let newest = CONTRACTS.last().map(|one| semver::Version::new(one.major, one.minor, u64::MAX));
                let needs = if newest.is_some_and(|newest| *version > newest) { "; it needs a newer host" } else { "" };
                format!("it speaks contract {version}, this host speaks {known}{needs}")
            }
        };
        Err((Class::ContractVersion, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(exported: &[&str], build: Build) -> Result<String, String> {
        let instances = exported.iter().map(|version| format!("{INTERFACE}{version}")).collect();
        let outline = Outline { instances, ..Outline::default() };
        outline.contract(build).map(|(_, version)| version.to_string()).map_err(|(class, reason)| {
            assert_eq!(class, Class::ContractVersion);
            reason
        })
    }

    #[test]
    fn unreleased_contracts_are_for_development_builds() {
        for build in [Build::Release, Build::Development] {
            assert_eq!(contract(&["0.1.0"], build).as_deref(), Ok("0.1.0"));
            assert_eq!(contract(&["0.1.0", "0.1.3"], build).as_deref(), Ok("0.1.3"));
            let newer = contract(&["0.2.0"], build).expect_err("newer");
            assert_eq!(newer, "it speaks contract 0.2.0, this host speaks 0.1; it needs a newer host");
            let newer = contract(&["0.2.0-dev.1"], build).expect_err("newer and unreleased");
            assert_eq!(newer, "it speaks contract 0.2.0-dev.1, this host speaks 0.1; it needs a newer host");
            let older = contract(&["0.0.9"], build).expect_err("older");
            assert_eq!(older, "it speaks contract 0.0.9, this host speaks 0.1");
            let none = contract(&["new"], build).expect_err("no version");
            assert_eq!(none, "it exports no `delegate-doctor:rules/rule@…`; this host speaks contract 0.1");
        }
        assert_eq!(contract(&["0.1.1-dev.1"], Build::Development).as_deref(), Ok("0.1.1-dev.1"));
        assert_eq!(contract(&["0.1.1-dev.1", "0.1.0"], Build::Release).as_deref(), Ok("0.1.0"));
        assert_eq!(
            contract(&["0.1.1-dev.1"], Build::Release).expect_err("unreleased"),
            "it speaks contract 0.1.1-dev.1, which is not released and may still change; this host speaks 0.1, and \
             only a development build of it takes unreleased ones"
        );
    }

    /// The texts of released contracts, by their SHA-256: a released text never changes.
    const RELEASED: [(&str, &str, &str); 1] = [(
        "0.1.0",
        include_str!("../../../wit/since-0.1.0/rules.wit"),
        "7b461427a651c7f7cd5429b6eaf258a0e645676ac4ed383564c21366e5237708",
    )];

    #[test]
    fn released_contracts_stay_as_they_are() {
        for (version, text, sha256) in RELEASED {
            assert_eq!(sha256_hex(text.as_bytes()), sha256, "contract {version} is released and may not change");
            assert!(text.contains(&format!("\npackage delegate-doctor:rules@{version};\n")), "{version}");
        }
        let lines: Vec<_> =
            RELEASED.iter().filter_map(|(version, ..)| version.parse::<semver::Version>().ok()).collect();
        for known in CONTRACTS {
            let released = |one: &semver::Version| one.major == known.major && one.minor == known.minor;
            assert!(lines.iter().any(released), "{known:?} has no frozen text");
        }
        // The text that SDKs are made from is the newest released one, or the next one under way.
        let current = include_str!("../../../wit/rules.wit");
        let (version, newest, _) = RELEASED.last().expect("released");
        let under_way = current.lines().any(|line| line.starts_with("package ") && line.contains("-dev."));
        assert!(current == *newest || under_way, "`wit/rules.wit` differs from {version} and is no `-dev.` version");
    }

    #[test]
    fn custom_sections_do_not_change_what_is_compiled_and_others_do() {
        let section = |id: u8, content: &[u8]| {
            let length = u8::try_from(content.len()).expect("short");
            [&[id, length], content].concat()
        };
        let header = wat::parse_str("(component)").expect("component");
        let join = |sections: &[Vec<u8>]| [header.clone(), sections.concat()].concat();
        let (code, other, about) = (section(1, b"code"), section(1, b"CODE"), section(0, b"\x01aabout"));
        let plain = code_sha256(&join(std::slice::from_ref(&code)));
        assert_eq!(plain, code_sha256(&join(&[code.clone(), about.clone()])));
        assert_eq!(plain, code_sha256(&join(&[about.clone(), code.clone()])));
        assert_ne!(plain, code_sha256(&join(std::slice::from_ref(&other))));
        assert_ne!(plain, code_sha256(&join(&[code.clone(), other])));
        // What is cut short is still told apart.
        let whole = join(&[code, about]);
        let cut = whole.get(..whole.len() - 1).expect("shorter");
        assert_ne!(code_sha256(cut), plain);
        assert_ne!(code_sha256(b""), code_sha256(b"\0"));
    }
}
