//! One rule for every attack that needs a language: the component's data names the attack, and whoever
//! builds a case writes another name over it.

mod edits;
mod numbers;

use rule_sdk::contract::Edit;
use rule_sdk::{Anchor, Examination, Manifest, NoRewrite, Numerics, Rewrite, Rule, Site, tolerant};

/// The name of the attack, filled up with dots.
static ATTACK: [u8; 32] = *b"attack=none.....................";

fn attack() -> &'static str {
    let text = std::str::from_utf8(std::hint::black_box(&ATTACK)).unwrap_or_default();
    text.trim_start_matches("attack=").trim_end_matches('.')
}

/// The rule.
pub struct Crafted;

impl Rule for Crafted {
    fn manifest() -> Manifest {
        let manifest = Manifest::new("test-crafted", env!("CARGO_PKG_VERSION"), "Attacks as it is told")
            .summary(if attack() == "says-otherwise" { "Says something else." } else { "For tests of the host." })
            .code("asked", "its data says so");
        let anchor = match attack() {
            "swapped-outputs" => Anchor::on(["aten.split.Tensor"]),
            "outputs-made-one" => Anchor::on(["aten.alias.default"]).fed_by("self", ["aten.conv2d.default"]),
            "answer-is-the-input" | "answer-shares-the-input" | "needed-copy" => Anchor::on(["aten.clone.default"]),
            "deleted-write" | "changed-write" => Anchor::on(["aten.relu_.default"]),
            "false-for-integers" => Anchor::on(["aten.add.Tensor"]),
            "fold-of-written-buffer" => Anchor::on(["aten.mul.Tensor"]),
            "read-at-another-time" => Anchor::on(["aten.softmax.int"]).surroundings(2, 0),
            attack if numbers::is_on_relu(attack) => Anchor::on(["aten.relu.default"]),
            "matches-everything" => Anchor::on([
                "aten.conv2d.default",
                "aten.avg_pool2d.default",
                "aten.add.Tensor",
                "aten.relu.default",
                "aten.softmax.int",
            ])
            .surroundings(255, 255),
            _ => Anchor::on(["aten.softmax.int"]).surroundings(1, 0),
        };
        let manifest = match attack() {
            "boundless-tolerance" => manifest.numerics(tolerant(1e30, 1e30)),
            attack if numbers::is_tolerant(attack) => manifest.numerics(tolerant(1e-4, 0.0)),
            _ => manifest,
        };
        match attack() {
            "too-many-anchors" => {
                (0..65).fold(manifest, |manifest, _| manifest.anchor(Anchor::on(["aten.relu.default"])))
            }
            "no-anchor" => manifest,
            "too-many-codes" => (0..300)
                .fold(manifest, |manifest, index| manifest.code(&format!("code-{index}"), "one of many"))
                .anchor(anchor),
            _ => manifest.anchor(anchor),
        }
    }

    fn examine(site: &Site<'_>) -> Examination {
        let attack = attack();
        match attack {
            "deep-frames" => return decline(recurse(std::hint::black_box(1))),
            "hoarding" => hoard(),
            "matches-everything" => loop {
                std::hint::black_box(());
            },
            "different-every-time" => {
                use std::sync::atomic::{AtomicU32, Ordering};
                static CALLS: AtomicU32 = AtomicU32::new(0);
                return decline(format!("call {}", CALLS.fetch_add(1, Ordering::Relaxed) + 1));
            }
            "own-error" => return Err(NoRewrite::Fault("I am\u{1b}[31m broken\nindeed".to_owned())),
            _ => {}
        }
        if attack == "heavy-answer" {
            let mut answer = rewrite(vec![Edit::Delete(0)], Numerics::Exact);
            answer.hints = vec![("x".repeat(4_000), "y".repeat(4_000)); 100];
            return Ok(answer);
        }
        if let Some(edits) = edits::of(attack, site) {
            return edits.map(|edits| rewrite(edits, Numerics::Exact));
        }
        numbers::of(attack, site).unwrap_or_else(|| decline(format!("no attack is called `{attack}`")))
    }
}

fn decline(message: impl Into<String>) -> Examination {
    Err(NoRewrite::decline("asked", message))
}

fn rewrite(edits: Vec<Edit>, numerics: Numerics) -> Rewrite {
    let why = rule_sdk::Reason { code: "asked".to_owned(), message: "as its data says".to_owned() };
    Rewrite { edits, numerics, why, hints: Vec::new() }
}

#[expect(unconditional_recursion, reason = "that is the attack")]
fn recurse(n: u64) -> String {
    let frame = std::hint::black_box([n; 64]);
    let deeper = recurse(frame[7].wrapping_add(1));
    format!("{deeper}{}", frame[3])
}

fn hoard() {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

rule_sdk::export_rule!(Crafted);
