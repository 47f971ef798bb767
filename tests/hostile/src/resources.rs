//! Rules that want more of something than there is for them.

use delegate_doctor::sandbox::Class;

use crate::component::{Module, with_instances};
use crate::{Case, End, Trial, ask, bytes_case, load};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        load(
            "large-memory",
            "begins with 75 MiB of memory",
            || Module::honest().memory("(memory (export \"memory\") 1200)").component(),
            Class::Memory,
            "it wanted 75 MiB of memory, and 64 are allowed",
        ),
        load(
            "largest-memory",
            "begins with 4 GiB of memory",
            || Module::honest().memory("(memory (export \"memory\") 65536)").component(),
            Class::Memory,
            "it wanted 4096 MiB of memory, and 64 are allowed",
        ),
        ask(
            "memory-bomb",
            "takes a page of memory after another and crashes when there is none",
            || {
                Module::honest()
                    .examine(
                        "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
                    )
                    .component()
            },
            Class::Memory,
            "MiB of memory, and 64 are allowed",
        ),
        ask(
            "memory-bomb-touched",
            "takes all its memory and writes to every page",
            || {
                Module::honest()
                    .examine(
                        "(local $at i32)
                         (drop (memory.grow (i32.const 1016)))
                         (loop $again
                            (i32.store (local.get $at) (i32.const -1))
                            (local.set $at (i32.add (local.get $at) (i32.const 4096)))
                            (br $again))
                         unreachable",
                    )
                    .component()
            },
            Class::Trap,
            "it crashed: wasm trap: out of bounds memory access",
        ),
        ask(
            "memory-in-realloc",
            "takes more memory with every piece of the site",
            || {
                Module::honest()
                    .realloc(
                        "(local $pages i32)
                         (local.set $pages (memory.grow (i32.const 64)))
                         (if (i32.eq (local.get $pages) (i32.const -1)) (then unreachable))
                         (i32.mul (local.get $pages) (i32.const 65536))",
                    )
                    .component()
            },
            Class::Memory,
            "MiB of memory, and 64 are allowed",
        ),
        ask(
            "hoarding",
            "keeps allocating in a language with an allocator",
            || Module::honest().examine("(drop (memory.grow (i32.const 60000))) unreachable").component(),
            Class::Memory,
            "MiB of memory, and 64 are allowed",
        ),
        load(
            "large-table",
            "begins with a table of 30,000 elements",
            || Module::honest().more("(table 30000 funcref)").component(),
            Class::Memory,
            "it wanted a table of 30000 elements, and 20000 are allowed",
        ),
        load(
            "largest-table",
            "begins with a table of 10,000,000 elements",
            || Module::honest().more("(table 10000000 funcref)").component(),
            Class::Memory,
            "it wanted a table of 10000000 elements, and 20000 are allowed",
        ),
        ask(
            "table-bomb",
            "makes its table longer until that fails",
            || {
                Module::honest()
                    .more("(table $t 1 funcref)")
                    .examine(
                        "(loop $again (br_if $again (i32.ne
                            (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1)))) unreachable",
                    )
                    .component()
            },
            Class::Memory,
            "elements, and 20000 are allowed",
        ),
        load(
            "many-tables",
            "has 65 tables",
            || Module::honest().more(&"(table 1 funcref)".repeat(65)).component(),
            Class::Memory,
            "resource limit exceeded: table",
        ),
        bytes_case(
            "sixty-full-tables",
            "has 60 tables of the largest size allowed",
            || Module::honest().more(&"(table 20000 funcref)".repeat(60)).component(),
            Trial::Ask,
            End::Harmless,
            "",
        ),
        load(
            "many-memories",
            "has nine instances of a module with a memory",
            || with_instances(&["(module (memory 1))"], 9),
            Class::Memory,
            "resource limit exceeded: memory",
        ),
        load(
            "memory-in-pieces",
            "has five modules with 16 MiB of memory each",
            || with_instances(&["(module (memory 256))"], 5),
            Class::Memory,
            "it wanted 65 MiB of memory, and 64 are allowed",
        ),
        load(
            "many-instances",
            "has 70 instances of an empty module",
            || with_instances(&["(module)"], 70),
            Class::Memory,
            "resource limit exceeded: instance",
        ),
        load(
            "very-many-instances",
            "has 400,000 instances of an empty module",
            || with_instances(&["(module)"], 400_000),
            Class::Load,
            "it is not valid: instances count exceeds limit of 4096",
        ),
    ]
}
