//! Answers that are not what the contract says.

use delegate_doctor::sandbox::Class;

use crate::component::Module;
use crate::{Case, End, Trial, ask, bytes_case, data, load};

fn stores(stores: &[(u32, i64)]) -> String {
    stores
        .iter()
        .map(|(at, value)| format!("(i32.store offset={at} (local.get $d) (i32.const {}))", *value as i32))
        .collect()
}

/// A decline with these words written over it.
fn decline(words: &[(u32, i64)]) -> Vec<u8> {
    Module::honest().decline_with(&stores(words)).component()
}

/// A rewrite with this many edits at this address, for the honest reason.
fn rewrite(before: &str, edits: u32, count: i64) -> Vec<u8> {
    Module::honest().decline_with(&format!("{before} {}", stores(&rewrite_of(edits, count)))).component()
}

/// The words that make a rewrite of a decline.
fn rewrite_of(edits: u32, count: i64) -> Vec<(u32, i64)> {
    let (text, length) = data::honest().text;
    let mut words = vec![(8, 1), (16, i64::from(edits)), (20, count), (24, 0)];
    words.extend([(48, text.into()), (52, length.into()), (56, text.into()), (60, length.into())]);
    words
}

const UNREADABLE: &str = "its answer cannot be read: ";
const TOO_MUCH: &str = "it gave back more than 1048576 bytes";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        load(
            "answer-outside-memory",
            "returns an address at the very end of its memory",
            || Module::honest().describe("(i32.const 524280)").component(),
            Class::BadOutput,
            UNREADABLE,
        ),
        load(
            "negative-address",
            "returns a negative address",
            || Module::honest().describe("(i32.const -8)").component(),
            Class::BadOutput,
            UNREADABLE,
        ),
        load(
            "unaligned-address",
            "returns an odd address",
            || Module::honest().describe("(i32.const 2051)").component(),
            Class::BadOutput,
            UNREADABLE,
        ),
        load(
            "manifest-of-zeros",
            "says nothing about itself",
            || Module::honest().describe("(i32.const 32768)").component(),
            Class::BadOutput,
            "`` is no rule id",
        ),
        ask(
            "verdict-of-no-kind",
            "answers with a case that the contract does not have",
            || decline(&[(0, 7)]),
            Class::BadOutput,
            UNREADABLE,
        ),
        ask(
            "edit-of-no-kind",
            "proposes an edit that the contract does not have",
            || rewrite("(i32.store8 (i32.const 32768) (i32.const 77))", 32_768, 1),
            Class::BadOutput,
            UNREADABLE,
        ),
        ask(
            "text-of-two-gibibytes",
            "gives a reason of 2 GiB, from a memory of 512 KiB",
            || decline(&[(24, 0), (28, 0x7fff_ffff)]),
            Class::BadOutput,
            UNREADABLE,
        ),
        ask(
            "two-gibibytes-of-memory",
            "makes room for a reason of 2 GiB and gives it",
            || {
                let words = stores(&[(24, 0), (28, 0x7fff_ffff)]);
                Module::honest().decline_with(&format!("(drop (memory.grow (i32.const 32768))) {words}")).component()
            },
            Class::Memory,
            "it wanted 2049 MiB of memory, and 64 are allowed",
        ),
        ask(
            "text-of-all-memory",
            "gives all its 63 MiB of memory as a reason",
            || {
                let words = stores(&[(24, 0), (28, 63 << 20)]);
                Module::honest().decline_with(&format!("(drop (memory.grow (i32.const 1000))) {words}")).component()
            },
            Class::TooMuchOutput,
            TOO_MUCH,
        ),
        ask(
            "aliased-texts",
            "gives 20,000 pairs of remarks that are all the same 400,000 bytes",
            || {
                let (hints, many) = (65_536_u32, 20_000_u32);
                let mut words = rewrite_of(32_768, 1);
                words.extend([(64, i64::from(hints)), (68, i64::from(many))]);
                let words = stores(&words);
                Module::honest()
                    .decline_with(&format!(
                        "(i32.store8 (i32.const 32768) (i32.const 4))
                         (local.set $at (i32.const {hints}))
                         (loop $again
                            (i32.store offset=4 (local.get $at) (i32.const 400000))
                            (i32.store offset=12 (local.get $at) (i32.const 400000))
                            (local.set $at (i32.add (local.get $at) (i32.const 16)))
                            (br_if $again (i32.lt_u (local.get $at) (i32.const {}))))
                         {words}",
                        hints + many * 16
                    ))
                    .component()
            },
            Class::TooMuchOutput,
            TOO_MUCH,
        ),
        ask(
            "list-longer-than-memory",
            "says that it proposes 268,435,455 edits",
            || rewrite("", 16_384, 0x0fff_ffff),
            Class::BadOutput,
            UNREADABLE,
        ),
        ask(
            "list-that-overflows",
            "gives a list whose size in bytes does not fit into 32 bits",
            || rewrite("", 16_384, -1),
            Class::BadOutput,
            UNREADABLE,
        ),
        ask(
            "list-outside-memory",
            "gives a list that begins behind its memory",
            || rewrite("", 0x7fff_0000, 4),
            Class::BadOutput,
            UNREADABLE,
        ),
        ask(
            "unaligned-list",
            "gives a list at an odd address",
            || rewrite("", 32_769, 4),
            Class::BadOutput,
            UNREADABLE,
        ),
        ask(
            "edits-without-end",
            "proposes 600,000 edits",
            || rewrite("(drop (memory.grow (i32.const 1000)))", 0, 600_000),
            Class::TooMuchOutput,
            TOO_MUCH,
        ),
        ask(
            "text-that-is-no-text",
            "gives a reason that is not UTF-8",
            || {
                Module::honest()
                    .decline_with(&format!(
                        "(i32.store (i32.const 32768) (i32.const -1)) {}",
                        stores(&[(24, 32_768), (28, 4)])
                    ))
                    .component()
            },
            Class::BadOutput,
            "its answer cannot be read: invalid utf-8",
        ),
        ask(
            "own-code",
            "declines with a code that its manifest does not list",
            || {
                Module::honest()
                    .decline_with(&format!(
                        "(i32.store8 (i32.const 32768) (i32.const 98)) {}",
                        stores(&[(16, 32_768), (20, 1)])
                    ))
                    .component()
            },
            Class::BadOutput,
            "its manifest does not list the reason code `b`",
        ),
        ask(
            "realloc-outside-memory",
            "gives room for the site behind its memory",
            || Module::honest().realloc("(i32.const -64)").component(),
            Class::BadOutput,
            UNREADABLE,
        ),
        ask(
            "realloc-unaligned",
            "gives room for the site at odd addresses",
            || Module::honest().realloc("(i32.const 32769)").component(),
            Class::BadOutput,
            UNREADABLE,
        ),
        bytes_case(
            "realloc-that-overlaps",
            "gives the same room for every piece of the site, over its own manifest",
            || Module::honest().realloc("(i32.const 32768)").component(),
            Trial::Ask,
            End::Harmless,
            "",
        ),
        bytes_case(
            "memory-of-earlier-calls",
            "counts how often it was called and answers differently each time",
            || {
                Module::honest()
                    .more("(global $calls (mut i32) (i32.const 0))")
                    .decline_with(
                        "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
                         (i32.store offset=28 (local.get $d) (global.get $calls))",
                    )
                    .component()
            },
            Trial::Ask,
            End::Harmless,
            "",
        ),
    ]
}
