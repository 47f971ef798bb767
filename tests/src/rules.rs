//! Rules as components: the bundled ones and those that exist for tests only.

use std::path::PathBuf;
use std::sync::OnceLock;

use delegate_doctor::registry;
use delegate_doctor::sandbox::component::MANIFEST_SECTION;
use delegate_doctor::sandbox::{Helper, Limits, Options, Rule, Sandbox, contract};

use crate::binary;
use crate::binary::workspace;

/// Names a folder laid out as `registry/`, when the rules are to come from there.
const TEST_REGISTRY: &str = "DELEGATE_DOCTOR_TEST_REGISTRY";

/// The sandbox with these limits; compiled rules are kept under `target/` between runs.
///
/// # Panics
/// When this machine cannot run it.
pub fn rule_sandbox(limits: Limits) -> Sandbox {
    let cache = workspace().join("target/test-rules/compiled");
    let helper = Helper::binary(binary("delegate-doctor"));
    Sandbox::new(Options { limits, cache: Some(cache), helper }).unwrap_or_else(|error| panic!("{error}"))
}

fn standard() -> &'static Sandbox {
    static STANDARD: OnceLock<Sandbox> = OnceLock::new();
    STANDARD.get_or_init(|| rule_sandbox(Limits::standard()))
}

/// A rule of `registry/`, or of the folder that `DELEGATE_DOCTOR_TEST_REGISTRY` names, loaded.
///
/// # Panics
/// When there is no such rule or it does not load.
pub fn bundled_rule(id: &str) -> Rule {
    let components = match std::env::var_os(TEST_REGISTRY) {
        Some(folder) => registry::folder(&PathBuf::from(folder)),
        None => registry::bundled(),
    };
    let components = components.unwrap_or_else(|error| panic!("{error}"));
    let found = components.into_iter().find(|component| component.id == id);
    let component = found.unwrap_or_else(|| panic!("no rule is called `{id}`"));
    standard().load(&component.name(), &component.bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// The file of a bundled rule's component below `registry/`.
///
/// # Panics
/// When there is no such rule.
pub fn bundled_component(id: &str) -> PathBuf {
    let bundled = registry::bundled().unwrap_or_else(|error| panic!("{error}"));
    let rule = bundled.into_iter().find(|rule| rule.id == id).unwrap_or_else(|| panic!("no rule is called `{id}`"));
    let file = format!("{}.{}.wasm", rule.sha256, rule.version);
    let names = fs_err::read_dir(workspace().join("registry/targets/dd-rules")).expect("the bundled registry");
    let places = names.map(|name| name.expect("entry").path().join(&file));
    places.into_iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("`{file}` is not in the registry"))
}

/// The component of a rule under `tests/rules/`.
///
/// # Panics
/// When it is not built.
pub fn test_rule_bytes(id: &str) -> Vec<u8> {
    let path = workspace().join("target/test-rules").join(format!("{id}.wasm"));
    fs_err::read(&path).unwrap_or_else(|error| panic!("{error}; run `cargo xtask rules --check --test-rules` first"))
}

/// A rule under `tests/rules/`, loaded.
///
/// # Panics
/// When it is not built or does not load.
pub fn test_rule(id: &str) -> Rule {
    standard().load(id, &test_rule_bytes(id)).unwrap_or_else(|error| panic!("{error}"))
}

/// A site that the SDK made, as the host has it.
///
/// # Panics
/// When the two sides disagree about the contract.
pub fn host_site(site: &rule_sdk::contract::Site) -> contract::Site {
    let json = serde_json::to_value(site).expect("a site is plain data");
    serde_json::from_value(json).expect("both sides have the same contract")
}

/// A verdict of the host, as the SDK has it.
///
/// # Panics
/// When the two sides disagree about the contract.
pub fn sdk_verdict(verdict: &contract::Verdict) -> rule_sdk::Verdict {
    let json = serde_json::to_value(verdict).expect("a verdict is plain data");
    serde_json::from_value(json).expect("both sides have the same contract")
}

/// A site of the host, as the SDK has it.
///
/// # Panics
/// When the two sides disagree about the contract.
pub fn sdk_site(site: &contract::Site) -> rule_sdk::contract::Site {
    let json = serde_json::to_value(site).expect("a site is plain data");
    serde_json::from_value(json).expect("both sides have the same contract")
}

/// A verdict that the SDK made, as the host has it.
///
/// # Panics
/// When the two sides disagree about the contract.
pub fn host_verdict(verdict: &rule_sdk::Verdict) -> contract::Verdict {
    let json = serde_json::to_value(verdict).expect("a verdict is plain data");
    serde_json::from_value(json).expect("both sides have the same contract")
}

/// The component of `test-crafted` with the name of an attack written into it.
///
/// # Errors
/// When the component has no place for it.
pub fn craft(component: &[u8], attack: &str) -> Result<Vec<u8>, String> {
    const PLACE: &[u8] = b"attack=none.....................";
    let wanted = format!("attack={attack}");
    if wanted.len() > PLACE.len() {
        return Err(format!("`{attack}` is too long a name"));
    }
    let mut places = component.windows(PLACE.len()).enumerate().filter(|(_, window)| *window == PLACE);
    let (Some((at, _)), None) = (places.next(), places.next()) else {
        return Err("the component has no single place for the name of an attack".to_owned());
    };
    let mut bytes = component.to_vec();
    let section = MANIFEST_SECTION.as_bytes();
    // The section repeats what the rule said before it was told; one case keeps it.
    if attack != "says-otherwise"
        && let Some(place) = bytes.windows(section.len()).position(|window| window == section)
        && let Some(first) = bytes.get_mut(place)
    {
        *first = b'-';
    }
    if let Some(place) = bytes.get_mut(at..at + PLACE.len()) {
        place.fill(b'.');
        for (to, from) in place.iter_mut().zip(wanted.bytes()) {
            *to = from;
        }
    }
    Ok(bytes)
}
