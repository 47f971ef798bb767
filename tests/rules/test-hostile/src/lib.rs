//! Misbehaves in the way that the site's first hint asks for: `("attack", "<name>")`.

use rule_sdk::contract::{Edit, Operand, Replacement};
use rule_sdk::{
    Anchor, Examination, Literal, Manifest, NoRewrite, Numerics, Patch, Rewrite, Rule, Site, ValueRef, tolerant,
};

/// The rule.
pub struct Hostile;

impl Rule for Hostile {
    fn manifest() -> Manifest {
        Manifest::new("test-hostile", env!("CARGO_PKG_VERSION"), "Misbehaves on demand")
            .summary("For tests of the sandbox.")
            .anchor(Anchor::on(["aten.relu.default"]))
            .code("asked", "the site asked for it")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let attack = site.data().hints.first().map_or("", |(_, attack)| attack.as_str());
        match attack {
            "loop" => spin(),
            "recursion" => return decline("asked", recurse(std::hint::black_box(1))),
            "memory" => hoard(),
            "panic" => panic!("the rule panics"),
            "out-of-bounds" => {
                let empty: Vec<u32> = std::hint::black_box(Vec::new());
                return decline("asked", empty[std::hint::black_box(7)].to_string());
            }
            "own-error" => return Err(NoRewrite::Fault("I am\u{1b}[31m broken\nindeed".to_owned())),
            "unknown-code" => return decline("never-announced", "a code of its own"),
            "bad-code" => return decline("Asked!", "not a code"),
            "long-message" => return decline("asked", "x".repeat(2_000)),
            "huge-message" => return decline("asked", "x".repeat(40 << 20)),
            "control" => return decline("asked", "red\u{1b}[31m\u{7} and\u{202e} back"),
            _ => {}
        }
        let mut patch = Patch::new(site);
        let input = patch.tap(site.anchor().tensor("self")?);
        match attack {
            "many-edits" => {
                for _ in 0..1_000 {
                    patch.node("aten.relu.default").arg("self", input).add();
                }
            }
            "huge-edits" => {
                let edit = Edit::ReplaceAllUses(Replacement { value: 0, by: ValueRef::Existing(1) });
                return rewrite(vec![edit; 100_000], Numerics::Exact);
            }
            "long-list" => {
                let node = patch.node("aten.reshape.default").arg("self", input);
                node.arg("shape", Operand::Literal(Literal::Ints(vec![1; 5_000]))).add();
            }
            "no-edit" => return rewrite(Vec::new(), Numerics::Exact),
            "weak-claim" => {
                patch.delete(site.anchor());
                return rewrite(vec![Edit::Delete(0)], tolerant(1.0, 1.0));
            }
            "nan-tolerance" => return rewrite(vec![Edit::Delete(0)], tolerant(f64::NAN, 0.0)),
            _ => {
                return decline("asked", format!("no attack is called `{attack}`"));
            }
        }
        patch.finish(Numerics::Exact, "asked", "as asked")
    }
}

fn decline(code: &str, message: impl Into<String>) -> Examination {
    Err(NoRewrite::decline(code, message))
}

fn rewrite(edits: Vec<Edit>, numerics: Numerics) -> Examination {
    let why = rule_sdk::Reason { code: "asked".to_owned(), message: "as asked".to_owned() };
    Ok(Rewrite { edits, numerics, why, hints: Vec::new() })
}

fn spin() {
    let mut n = 1_u64;
    while n != 0 {
        n = std::hint::black_box(n.wrapping_mul(3));
    }
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

rule_sdk::export_rule!(Hostile);
