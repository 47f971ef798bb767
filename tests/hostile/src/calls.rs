//! Functions that loop, recurse or crash.

use delegate_doctor::sandbox::Class;

use crate::component::Module;
use crate::{Case, ask, load};

const FOREVER: &str = "(loop $again (br $again)) unreachable";
const FUEL: &str = "it used all its fuel (100000000 units)";
const CRASH: &str = "it crashed: wasm trap: wasm `unreachable` instruction executed";
const DEEP: &str = "it used up its stack";

fn recursing(module: Module) -> Module {
    module.more("(func $deeper (param i32) (result i32) (i32.add (call $deeper (local.get 0)) (i32.const 1)))")
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        load(
            "loop-in-start",
            "never returns from its start function",
            || Module::honest().more("(func $start (loop $again (br $again))) (start $start)").component(),
            Class::OutOfFuel,
            FUEL,
        ),
        load(
            "loop-in-describe",
            "never says what it is",
            || Module::honest().describe(FOREVER).component(),
            Class::OutOfFuel,
            FUEL,
        ),
        ask(
            "loop-in-examine",
            "never answers",
            || Module::honest().examine(FOREVER).component(),
            Class::OutOfFuel,
            FUEL,
        ),
        ask(
            "loop-in-realloc",
            "never gives the host room for the site",
            || Module::honest().realloc(FOREVER).component(),
            Class::OutOfFuel,
            FUEL,
        ),
        ask(
            "loop-in-post-return",
            "never returns from the call that frees its answer",
            || Module::honest().after_examine("(loop $again (br $again))").component(),
            Class::OutOfFuel,
            FUEL,
        ),
        ask(
            "busy-fill",
            "fills its whole memory over and over",
            || {
                Module::honest()
                    .examine(
                        "(loop $again
                            (memory.fill (i32.const 0) (i32.const 1) (i32.const 500000)) (br $again)) unreachable",
                    )
                    .component()
            },
            Class::OutOfFuel,
            FUEL,
        ),
        load(
            "trap-in-start",
            "crashes in its start function",
            || Module::honest().more("(func $start unreachable) (start $start)").component(),
            Class::Trap,
            CRASH,
        ),
        load(
            "trap-in-describe",
            "crashes instead of saying what it is",
            || Module::honest().describe("unreachable").component(),
            Class::Trap,
            CRASH,
        ),
        ask(
            "trap-in-examine",
            "crashes instead of answering",
            || Module::honest().examine("unreachable").component(),
            Class::Trap,
            CRASH,
        ),
        ask(
            "trap-in-realloc",
            "crashes when the host wants room for the site",
            || Module::honest().realloc("unreachable").component(),
            Class::Trap,
            CRASH,
        ),
        ask(
            "trap-in-post-return",
            "crashes when its answer is freed",
            || Module::honest().after_examine("unreachable").component(),
            Class::Trap,
            CRASH,
        ),
        ask(
            "division-by-zero",
            "divides by zero",
            || Module::honest().examine("(i32.div_u (i32.const 1) (i32.const 0))").component(),
            Class::Trap,
            "it crashed: wasm trap: integer divide by zero",
        ),
        ask(
            "wild-call",
            "calls a function of another type through a table",
            || {
                Module::honest()
                    .more("(table 1 funcref) (elem (i32.const 0) $realloc) (type $none (func))")
                    .examine("(call_indirect (type $none) (i32.const 0)) unreachable")
                    .component()
            },
            Class::Trap,
            "it crashed: wasm trap: indirect call type mismatch",
        ),
        load(
            "recursion-in-start",
            "calls itself without end in its start function",
            || {
                recursing(Module::honest())
                    .more("(func $start (drop (call $deeper (i32.const 0)))) (start $start)")
                    .component()
            },
            Class::Stack,
            DEEP,
        ),
        ask(
            "recursion",
            "calls itself without end",
            || recursing(Module::honest()).examine("(call $deeper (i32.const 0))").component(),
            Class::Stack,
            DEEP,
        ),
        Case {
            name: "deep-frames",
            does: "calls itself with large frames until its own stack in memory is used up",
            source: crate::Source::Crafted,
            trial: crate::Trial::Rewrite("programs/conv_softmax"),
            ends: crate::End::Failed(Class::Trap),
            says: "it crashed: ",
        },
        ask(
            "wild-recursion",
            "calls itself through a table without end, with sixty arguments",
            || {
                let types = "i64 ".repeat(60);
                let arguments: String = (0..60).map(|index| format!("(local.get {index})")).collect();
                let zeros = "(i64.const 0)".repeat(60);
                Module::honest()
                    .more(&format!(
                        "(table 1 funcref) (elem (i32.const 0) $wide) (type $wide (func (param {types})))
                         (func $wide (type $wide) {arguments}
                            (call_indirect (type $wide) (i32.const 0)))"
                    ))
                    .examine(&format!("(call $wide {zeros}) unreachable"))
                    .component()
            },
            Class::Stack,
            DEEP,
        ),
    ]
}
