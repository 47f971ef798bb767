//! A corpus of rules that attack whoever runs them: what each does, and what has to happen to it.
//!
//! Every case is a component (or bytes that pretend to be one), built here from text, or by the crate
//! `tests/rules/test-crafted`, whose component attacks in the way that a name in its data asks for.
//! The tests run every case and hold it against [`Case::ends`] and [`Case::says`]; [`page`] makes the
//! table of `docs/sandbox.md` from the same.

mod answers;
mod bombs;
mod bytes;
mod calls;
pub mod component;
pub mod data;
mod features;
pub mod fuzz;
mod page;
mod resources;
mod rewrites;

use std::time::Duration;

use delegate_doctor::sandbox::Class;

pub use page::page;

/// One hostile rule.
#[derive(Clone, Copy)]
pub struct Case {
    /// lower-case words joined by `-`
    pub name: &'static str,
    /// what it does, as a clause
    pub does: &'static str,
    /// where its bytes come from
    pub source: Source,
    /// what the host does with it
    pub trial: Trial,
    /// how it ends
    pub ends: End,
    /// part of what the user reads
    pub says: &'static str,
}

/// Where the bytes of a case come from.
#[derive(Clone, Copy)]
pub enum Source {
    /// made by this function
    Bytes(fn() -> Vec<u8>),
    /// the component of `tests/rules/test-crafted`, told to attack as the case is called
    Crafted,
}

/// What the host does with a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// load it
    Load,
    /// load it, and ask it about one place
    Ask,
    /// load it, ask it about every place of this program below `tests/fixtures/`, apply what the host lets
    /// through, and let gate 1 judge the result
    Rewrite(&'static str),
}

/// How a case ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// the sandbox fails it
    Failed(Class),
    /// the host refuses its rewrite, with this code
    Refused(&'static str),
    /// gate 1 finds that the rewritten program computes something else
    Disproved,
    /// gate 1 cannot tell, which never becomes a pass
    Undecided,
    /// nothing comes of it: its answers are those of a rule that behaves
    Harmless,
}

impl End {
    /// For the table and for messages of tests.
    pub fn name(self) -> String {
        match self {
            Self::Failed(class) => format!("sandbox: `{}`", class.name()),
            Self::Refused(code) => format!("check of the rewrite: `{code}`"),
            Self::Disproved => "gate 1: fail".to_owned(),
            Self::Undecided => "gate 1: inconclusive".to_owned(),
            Self::Harmless => "harmless".to_owned(),
        }
    }
}

/// Cases that belong together.
pub struct Group {
    /// heading in the table
    pub title: &'static str,
    /// the cases
    pub cases: Vec<Case>,
}

/// Every case.
pub fn corpus() -> Vec<Group> {
    vec![
        Group { title: "Bytes that are no rule", cases: bytes::cases() },
        Group { title: "Features that rules do not get", cases: features::cases() },
        Group { title: "Code that compiles badly", cases: bombs::cases() },
        Group { title: "Calls that do not return", cases: calls::cases() },
        Group { title: "Memory, tables, instances", cases: resources::cases() },
        Group { title: "Answers that lie", cases: answers::cases() },
        Group { title: "Rewrites", cases: rewrites::cases() },
    ]
}

/// What a case may take of the machine, beyond what the host had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// of the host's memory, in MiB
    pub host_mib: u64,
    /// of the compiling process, in MiB of resident memory
    pub compiler_mib: u64,
    /// from the bytes to the end, compiling included
    pub time: Duration,
}

/// The caps of every case.
pub const CAPS: Caps = Caps { host_mib: 192, compiler_mib: 2_048, time: Duration::from_secs(90) };

fn bytes_case(
    name: &'static str,
    does: &'static str,
    make: fn() -> Vec<u8>,
    trial: Trial,
    ends: End,
    says: &'static str,
) -> Case {
    Case { name, does, source: Source::Bytes(make), trial, ends, says }
}

/// A case that fails while it is loaded.
fn load(name: &'static str, does: &'static str, make: fn() -> Vec<u8>, class: Class, says: &'static str) -> Case {
    bytes_case(name, does, make, Trial::Load, End::Failed(class), says)
}

/// A case that fails when it is asked.
fn ask(name: &'static str, does: &'static str, make: fn() -> Vec<u8>, class: Class, says: &'static str) -> Case {
    bytes_case(name, does, make, Trial::Ask, End::Failed(class), says)
}
