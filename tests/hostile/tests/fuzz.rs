//! Fuzz targets as tests: every input that once broke a promise, then inputs drawn from a fixed seed.
//!
//! Longer runs with coverage: `cargo xtask fuzz`.

use dd_tests::workspace;
use hostile_rules::fuzz::{TARGETS, Target};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// How many inputs are drawn for each target.
const DRAWN: u64 = 3_000;

fn target(name: &str) -> Target {
    *TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("no target `{name}`"))
}

fn kept(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = workspace().join("tests/hostile/inputs").join(name);
    let entries = fs_err::read_dir(folder).unwrap_or_else(|error| panic!("{error}"));
    let mut all: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("entry").path();
            let bytes = fs_err::read(&path).unwrap_or_else(|error| panic!("{error}"));
            (path.display().to_string(), bytes)
        })
        .collect();
    all.sort();
    assert!(!all.is_empty(), "no inputs are kept for `{name}`");
    all
}

fn run(name: &str) {
    let target = target(name);
    let attempt = |label: &str, bytes: &[u8]| {
        if std::panic::catch_unwind(|| (target.run)(bytes)).is_err() {
            let path = std::env::temp_dir().join(format!("delegate-doctor-fuzz-{name}"));
            fs_err::write(&path, bytes).expect("the input is kept");
            panic!("`{name}` breaks on {label}; the input is in `{}`", path.display());
        }
    };
    for (path, bytes) in kept(name) {
        attempt(&path, &bytes);
    }
    for seed in 0..DRAWN {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let length = random.random_range(0..400);
        let bytes: Vec<u8> = (0..length).map(|_| random.random()).collect();
        attempt(&format!("seed {seed}"), &bytes);
    }
}

#[test]
fn components() {
    run("component");
}

#[test]
fn rewrites() {
    run("rewrite");
}

#[test]
fn archives() {
    run("archive");
}

#[test]
fn traces() {
    run("etdump");
}

#[test]
fn manifests() {
    run("manifest");
}
