//! What may never happen, whatever the bytes are: each function takes any input and panics when the host
//! breaks a promise.
//!
//! The targets of `fuzz/` call these under libFuzzer; the tests call them with every file below
//! `tests/hostile/inputs/<target>/` and with inputs drawn from a fixed seed.

mod archive;
mod rewrite;

use std::path::Path;
use std::sync::OnceLock;

use arbitrary::Unstructured;
use delegate_doctor::authoring::RuleFile;
use delegate_doctor::evidence::TargetLabel;
use delegate_doctor::graph::Program;
use delegate_doctor::graph::archive as pt2;
use delegate_doctor::profile::{etdump, profile};
use delegate_doctor::sandbox::component::MANIFEST_SECTION;
use delegate_doctor::sandbox::{Limits, inspect};
use delegate_doctor::settings::ProjectFile;

use crate::component::{Module, append, leb};

pub use archive::archive;
pub use rewrite::rewrite;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// name of the folder with its inputs, and of its binary
    pub name: &'static str,
    /// takes any bytes
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 5] = [
    Target { name: "component", run: component },
    Target { name: "rewrite", run: rewrite },
    Target { name: "archive", run: archive },
    Target { name: "etdump", run: trace },
    Target { name: "manifest", run: manifest },
];

/// Programs that inputs are about; names below `tests/fixtures/`.
const PROGRAMS: [&str; 6] = [
    "programs/conv_softmax",
    "rewrites/pools",
    "programs/in_place",
    "programs/several_outputs",
    "programs/integers",
    "rewrites/folds",
];

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name);
    fs_err::read(path).unwrap_or_else(|error| panic!("{error}"))
}

fn program(name: &str) -> Program {
    let bytes = fixture(&format!("{name}.pt2"));
    pt2::from_bytes(bytes, Path::new(name), &pt2::Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Changes some bytes of `good` as the input says.
fn damaged(good: &[u8], input: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let mut bytes = good.to_vec();
    for _ in 0..input.int_in_range(1..=8)? {
        let at = input.int_in_range(0..=bytes.len().saturating_sub(1))?;
        match input.int_in_range(0..=4)? {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, input.arbitrary()?),
            2 => {
                let word: u32 = *input.choose(&[0, 1, 0x7fff_ffff, u32::MAX, 0x8000_0000])?;
                for (to, from) in bytes.iter_mut().skip(at).zip(word.to_le_bytes()) {
                    *to = from;
                }
            }
            _ => {
                let byte: u8 = input.arbitrary()?;
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    Ok(bytes)
}

fn honest() -> &'static [u8] {
    static HONEST: OnceLock<Vec<u8>> = OnceLock::new();
    HONEST.get_or_init(|| Module::honest().component())
}

/// Bytes as a component, and as damage to a component that is one.
pub fn component(data: &[u8]) {
    let look = |bytes: &[u8]| {
        if let Ok(found) = inspect(bytes, &Limits::standard()) {
            assert_eq!(found.bytes, bytes.len());
            assert!(found.functions <= Limits::standard().functions);
        }
    };
    look(data);
    if let Ok(bytes) = damaged(honest(), &mut Unstructured::new(data)) {
        look(&bytes);
    }
}

/// Bytes as a trace, and as damage to a trace that is one.
pub fn trace(data: &[u8]) {
    let look = |bytes: &[u8]| {
        let Ok(trace) = etdump::parse(bytes) else { return };
        let target = TargetLabel {
            kind: "local".to_owned(),
            name: "fuzz".to_owned(),
            architecture: "x86_64".to_owned(),
            physical_arm: false,
        };
        for run in &trace.runs {
            for event in &run.events {
                let _ = event.ticks();
            }
        }
        let _ = profile(&trace, 1.0, &target);
    };
    look(data);
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    let good = GOOD.get_or_init(|| fixture("runner/softmax_head.etdp"));
    if let Ok(bytes) = damaged(good, &mut Unstructured::new(data)) {
        look(&bytes);
    }
}

/// Bytes as the manifest that a component carries, as a user's project file, and as what an author writes: the
/// project file of a rule and its cases.
pub fn manifest(data: &[u8]) {
    let mut bytes = honest().to_vec();
    append(&mut bytes, 0, &[leb(MANIFEST_SECTION.len()), MANIFEST_SECTION.as_bytes().to_vec(), data.to_vec()].concat());
    let _ = inspect(&bytes, &Limits::standard());
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = ProjectFile::parse(text, Path::new("delegate-doctor.toml"));
        let _ = toml::from_str::<RuleFile>(text);
        let _ = rule_sdk::testing::cases::parse(text);
    }
}
