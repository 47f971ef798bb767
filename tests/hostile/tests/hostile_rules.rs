//! Every rule of the corpus attacks the host, and what happens is what the corpus says.
//!
//! This binary holds nothing that runs beside the corpus: it measures its own memory.

#[path = "hostile_rules/memory.rs"]
mod memory;
#[path = "hostile_rules/trial.rs"]
mod trial;

use std::time::Instant;

use hostile_rules::{CAPS, corpus};

use trial::Bench;

/// Only cases whose name holds this text run.
const ONLY: &str = "DELEGATE_DOCTOR_TEST_HOSTILE";

#[test]
#[expect(clippy::print_stdout, reason = "the measurements are for whoever asks with --nocapture")]
fn every_hostile_rule_ends_as_the_corpus_says() {
    let only = std::env::var(ONLY).unwrap_or_default();
    let bench = Bench::new();
    let mut wrong = Vec::new();
    let mut ran = 0;
    for case in corpus().iter().flat_map(|group| &group.cases).filter(|case| case.name.contains(&only)) {
        let bytes = bench.bytes(case);
        let before = memory::Watch::begin();
        let began = Instant::now();
        let outcome = bench.run(case, &bytes);
        let time = began.elapsed();
        let used = before.end();
        ran += 1;
        let line = format!(
            "{:24} {:>8} B {:>6.2} s, host {:>4} MiB, compiler {:>5} MiB: {}: {}",
            case.name,
            bytes.len(),
            time.as_secs_f64(),
            used.host_mib,
            used.compiler_mib,
            outcome.ends.name(),
            outcome.message
        );
        println!("{line}");
        if outcome.ends != case.ends {
            wrong.push(format!("{line}\n    expected: {}", case.ends.name()));
        }
        if !outcome.message.contains(case.says) {
            wrong.push(format!("{line}\n    does not say: {}", case.says));
        }
        if !outcome.names_rule {
            wrong.push(format!("{line}\n    does not name the rule"));
        }
        if time > CAPS.time || used.host_mib > CAPS.host_mib || used.compiler_mib > CAPS.compiler_mib {
            wrong.push(format!("{line}\n    is beyond {CAPS:?}"));
        }
        if let Err(reason) = bench.honest_rule_answers() {
            wrong.push(format!("{line}\n    the honest rule does not answer: {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!only.is_empty() || ran >= 60, "{ran} cases");
}

#[test]
fn the_table_of_the_documentation_is_fresh() {
    let written = fs_err::read_to_string(dd_tests::workspace().join("docs/sandbox.md")).unwrap_or_default();
    assert!(written == hostile_rules::page(), "docs/sandbox.md is stale: run `cargo xtask docs`");
}
