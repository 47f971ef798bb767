//! How work that takes a while tells what it is doing, without knowing who listens.
//!
//! The library takes a `&dyn Progress`; the command line shows it as spinners and bars on a terminal and
//! as plain lines elsewhere, tests use [`Silent`]. All methods take `&self`, so parallel work may report
//! through the same value.

/// What the numbers of a step count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// things: candidates, blocks, rules
    Items,
    /// bytes of a download or a copy
    Bytes,
}

/// The listener.
pub trait Progress: Send + Sync {
    /// A step begins. `title` is a phrase in the present: ``Exporting `segmenter.py` ``. Dropping the
    /// step without [`Step::done`] means that it ended early; the error is told elsewhere.
    fn step(&self, title: &str) -> Box<dyn Step>;

    /// A line that a user should see and keep: a decision, a reused cache entry.
    fn note(&self, text: &str);

    /// Something that is not wrong enough to stop, but that a user should know.
    fn warning(&self, text: &str);

    /// A line for those who asked for more (`--verbose`).
    fn detail(&self, text: &str);
}

/// A step under way.
pub trait Step: Send + Sync {
    /// What the step is doing now, as a short phrase.
    fn update(&self, text: &str);

    /// How far the step is; a total of zero means that the end is not known.
    fn advance(&self, done: u64, total: u64, unit: Unit);

    /// The step is finished; `text` says what came out, in the past: `Exported 412 nodes in 3.2 s`.
    fn done(self: Box<Self>, text: &str);
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _title: &str) -> Box<dyn Step> {
        Box::new(Self)
    }
    fn note(&self, _text: &str) {}
    fn warning(&self, _text: &str) {}
    fn detail(&self, _text: &str) {}
}

impl Step for Silent {
    fn update(&self, _text: &str) {}
    fn advance(&self, _done: u64, _total: u64, _unit: Unit) {}
    fn done(self: Box<Self>, _text: &str) {}
}
