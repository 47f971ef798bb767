//! Components that are small and cost a compiler much.

use std::fmt::Write as _;

use delegate_doctor::sandbox::Class;

use crate::component::{Module, with_instances};
use crate::{Case, End, Trial, bytes_case, load};

fn with(fields: &str) -> Vec<u8> {
    Module::honest().more(fields).component()
}

/// A function body of `count` instructions that a compiler cannot shorten.
fn long_body(count: usize) -> String {
    "(local.set 0 (i32.mul (local.get 0) (i32.add (local.get 0) (i32.const 7))))".repeat(count)
}

/// Functions just inside the limits: many locals, each changed on one of two ways at many places.
pub fn merging_locals(functions: usize) -> Vec<u8> {
    let locals = "(local i32)".repeat(900);
    let mut body = String::new();
    for block in 0..5_500 {
        let (a, b) = (block * 7 % 900, block * 13 % 900);
        let _ = write!(
            body,
            "(if (local.get {a}) (then (local.set {b} (i32.add (local.get {a}) (local.get {b})))) \
             (else (local.set {a} (local.get {b}))))"
        );
    }
    with(&format!("(func {locals} {body})").repeat(functions))
}

/// Jump tables with `targets` entries to a block that takes `arity` values.
fn jump_tables(functions: usize, targets: usize, arity: usize) -> Vec<u8> {
    let values = "i32 ".repeat(arity);
    let constants = "(i32.const 0)".repeat(arity);
    let labels = "0 ".repeat(targets);
    let function = format!(
        "(func (param i32) (block (result {values}) {constants} (local.get 0) (br_table {labels} 0)) {})",
        "drop ".repeat(arity)
    );
    with(&function.repeat(functions))
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        load(
            "long-function",
            "has a function of 200 KiB",
            || with(&format!("(func (param i32) {})", long_body(21_000))),
            Class::Load,
            "a function body has",
        ),
        load(
            "many-locals",
            "has a function with 50,000 locals",
            || {
                // The encoder would merge them into one group; the count is what matters.
                with(&format!("(func {})", "(local i32)".repeat(50_000)))
            },
            Class::Load,
            "a function has 50000 locals, and 1000 are allowed",
        ),
        load(
            "many-functions",
            "has 10,000 functions",
            || with(&"(func)".repeat(10_000)),
            Class::Load,
            "functions or more, and 5000 are allowed",
        ),
        load(
            "many-modules",
            "has 20 core modules",
            || with_instances(&["(module)"; 19], 1),
            Class::Load,
            "core modules or more, and 16 are allowed",
        ),
        load(
            "many-types",
            "has 100,000 different function types",
            || {
                let mut fields = String::new();
                for index in 0..100_000_u32 {
                    let bits: String = (0..17).map(|bit| if index >> bit & 1 == 1 { "i32 " } else { "f32 " }).collect();
                    let _ = write!(fields, "(type (func (param {bits})))");
                }
                with(&fields)
            },
            Class::Load,
            "types or more, and 5000 are allowed",
        ),
        load(
            "merging-locals",
            "has 12 functions inside every limit that take the compiler minutes",
            || merging_locals(12),
            Class::Compile,
            "compiling took too much: ",
        ),
        bytes_case(
            "deep-blocks",
            "has 30,000 blocks within each other",
            || {
                let depth = 30_000;
                with(&format!("(func {} {})", "block ".repeat(depth), "end ".repeat(depth)))
            },
            Trial::Ask,
            End::Harmless,
            "",
        ),
        bytes_case(
            "jump-tables",
            "has 15 jump tables of 100,000 entries",
            || jump_tables(15, 100_000, 0),
            Trial::Load,
            End::Failed(Class::Compile),
            "the compiler refused it: ",
        ),
        load(
            "wide-jump-tables",
            "has 15 jump tables of 100,000 entries that each carry 900 values",
            || jump_tables(15, 100_000, 900),
            Class::Load,
            "a function type has 900 values, and 64 are allowed",
        ),
        load(
            "jump-tables-with-values",
            "has 15 jump tables of 100,000 entries that each carry 60 values",
            || jump_tables(15, 100_000, 60),
            Class::Compile,
            "the compiler refused it: ",
        ),
        bytes_case(
            "many-exports",
            "has 100,000 exports in its core module",
            || {
                let mut fields = String::from("(func $f)");
                for index in 0..100_000 {
                    let _ = write!(fields, "(export \"e{index}\" (func $f))");
                }
                with(&fields)
            },
            Trial::Ask,
            End::Harmless,
            "",
        ),
        bytes_case(
            "many-globals",
            "has 200,000 globals",
            || with(&"(global i32 (i32.const 0))".repeat(200_000)),
            Trial::Ask,
            End::Harmless,
            "",
        ),
        bytes_case(
            "many-data-segments",
            "writes 90,000 pieces of data when it starts",
            || with(&"(data (i32.const 60000) \"a\")".repeat(90_000)),
            Trial::Ask,
            End::Harmless,
            "",
        ),
        bytes_case(
            "many-elements",
            "fills a table of 20,000 elements 100 times when it starts",
            || {
                let names = "$realloc ".repeat(19_000);
                with(&format!(
                    "(table $t 20000 funcref) {}",
                    format!("(elem (table $t) (i32.const 0) func {names})").repeat(100)
                ))
            },
            Trial::Ask,
            End::Harmless,
            "",
        ),
    ]
}
