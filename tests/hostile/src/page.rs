//! The page `docs/sandbox.md`.

use std::fmt::Write as _;
use std::time::Duration;

use delegate_doctor::sandbox::Limits;

use crate::{CAPS, Case, Source, Trial, corpus};

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask docs` from the corpus in `tests/hostile`. -->

# What a stranger's rule can and cannot do

A rule is a WebAssembly component without a single import. It is given a description of one place of a \
graph and gives back a description of edits; it has no file, no network, no clock, no random numbers and no \
memory of earlier calls. Every call gets an instance of its own, which is dropped afterwards, so the same \
place always gets the same answer. A rule that loops, crashes or asks for too much fails alone: the message \
names it and the reason, and the other rules go on.

A rule's bytes are parsed and held against limits before anything else looks at them. They are compiled in a \
process of their own with limits on memory and time, because compiling is the part that a small file can \
make arbitrarily expensive. What comes back from a rule is data that nobody trusts: the host checks every \
edit against the graph, works out shapes and types for itself, and refuses the whole rewrite when one edit \
does not hold.

Three things the sandbox does not promise. It cannot tell whether a rewrite of the right form computes the \
right numbers: that is for the gates, which evaluate the old and the new form on many inputs, and no number \
of inputs is all of them: what the table says of wrong numbers holds for places of its size, and a place so \
large that only the most telling stimuli can be evaluated in time says how many those were, in the report and in \
the evidence. A rule can be useless or slow within its limits. And the limits are enforced by \
wasmtime and the operating system: a hole in one of them is a hole in the sandbox.

";

/// The page.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    limits(&mut page);
    cases(&mut page);
    page
}

fn bytes(bytes: u64) -> String {
    match bytes {
        n if n >= 1 << 30 && n.is_multiple_of(1 << 30) => format!("{} GiB", n >> 30),
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => n.to_string(),
    }
}

fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

fn limits(page: &mut String) {
    type Row = (&'static str, fn(&Limits) -> String);
    let rows: [Row; 26] = [
        ("bytes of a component", |l| bytes(l.component_bytes as u64)),
        ("functions", |l| count(l.functions as u64)),
        ("bytes of one function", |l| bytes(l.body_bytes as u64)),
        ("locals of one function", |l| count(l.locals.into())),
        ("function types", |l| count(l.types as u64)),
        ("parameters and results of one function type", |l| count(l.type_values as u64)),
        ("core modules", |l| count(l.core_modules as u64)),
        ("compiling: memory", |l| bytes(l.compile_address_space)),
        ("compiling: processor time", |l| seconds(l.compile_cpu)),
        ("compiling: time", |l| seconds(l.compile_wall)),
        ("compiling: code that comes of it", |l| bytes(l.code_bytes)),
        ("memory of an instance", |l| bytes(l.memory_bytes as u64)),
        ("core instances", |l| count(l.instances as u64)),
        ("memories", |l| count(l.memories as u64)),
        ("tables", |l| count(l.tables as u64)),
        ("elements of one table", |l| count(l.table_elements as u64)),
        ("fuel of one call", |l| count(l.fuel)),
        ("fuel of all calls for one graph", |l| count(l.fuel_per_graph)),
        ("time of one call", |l| seconds(l.call_time)),
        ("bytes copied out of one call", |l| bytes(l.lifted_bytes as u64)),
        ("bytes of a rewrite", |l| bytes(l.answer.verdict as u64)),
        ("edits of a rewrite", |l| count(l.answer.edits as u64)),
        ("new nodes of a rewrite", |l| count(l.answer.inserts as u64)),
        ("entries of a list", |l| count(l.answer.list as u64)),
        ("bytes of a message", |l| count(l.answer.message as u64)),
        ("anchors, and operators of an anchor", |l| count(l.answer.anchors as u64)),
    ];
    page.push_str(
        "## Limits\n\nRules in a compiled language run under the first column, rules that bring an interpreter along \
         under the second.\n\n| limit | compiled | script |\n|---|---:|---:|\n",
    );
    for (name, show) in rows {
        let _ = writeln!(page, "| {name} | {} | {} |", show(&Limits::standard()), show(&Limits::script()));
    }
}

fn cases(page: &mut String) {
    let groups = corpus();
    let total: usize = groups.iter().map(|group| group.cases.len()).sum();
    let _ = write!(
        page,
        "\n## Rules that attack\n\n\
         A test runs every one of these {total} rules through the real sandbox, the real checks and the real gate, \
         and fails when one ends in another way than this table says, when the message does not name the rule, when \
         a well-behaved rule in the same sandbox does not answer afterwards, when the host grows by more than \
         {} MiB or the compiling process beyond {} MiB, or when it takes longer than {} on a busy machine.\n",
        CAPS.host_mib,
        CAPS.compiler_mib,
        seconds(CAPS.time)
    );
    for group in groups {
        let _ = write!(page, "\n### {}\n\n| rule | it … | stopped by | because |\n|---|---|---|---|\n", group.title);
        for case in &group.cases {
            let because = if case.says.is_empty() { harmless(case) } else { case.says };
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                case.name,
                cell(case.does),
                cell(&case.ends.name()),
                cell(because.trim_end_matches([':', ' ']))
            );
        }
    }
}

fn harmless(case: &Case) -> &'static str {
    match (case.source, case.trial) {
        (Source::Crafted, _) | (_, Trial::Rewrite(_)) => "every call begins anew",
        _ => "it is within the limits and answers like any other rule",
    }
}

/// Text that cannot end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
