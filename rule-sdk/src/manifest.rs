//! Manifests in a few lines.

use crate::contract::{Anchor, Manifest, Numerics, ProducerConstraint, ReasonCode, Stability, Tolerance};

/// Codes that this crate's views decline with; they join every manifest.
pub const STANDARD_CODES: &[(&str, &str)] = &[
    ("argument", "an argument has a form that the rule does not read"),
    ("not-a-tensor", "a value that should be a tensor is something else"),
    ("dynamic-shape", "a size that must be known varies from run to run"),
    ("cut-short", "the surroundings that the rule needs lie outside the site"),
];

/// A claim of equality up to rounding, relative to the scale of the output.
pub fn tolerant(rtol: f64, atol: f64) -> Numerics {
    Numerics::Tolerant(Tolerance { rtol, atol })
}

impl Manifest {
    /// A stable, exact rule for every backend that wants to see nothing yet.
    pub fn new(id: &str, version: &str, title: &str) -> Self {
        Self {
            id: id.to_owned(),
            version: version.to_owned(),
            title: title.to_owned(),
            summary: String::new(),
            stability: Stability::Stable,
            numerics: Numerics::Exact,
            backends: Vec::new(),
            anchors: Vec::new(),
            codes: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// A sentence or two on what the rule does.
    #[must_use]
    pub fn summary(mut self, summary: &str) -> Self {
        summary.clone_into(&mut self.summary);
        self
    }

    /// The weakest claim that any rewrite of the rule makes.
    #[must_use]
    pub fn numerics(mut self, numerics: Numerics) -> Self {
        self.numerics = numerics;
        self
    }

    /// Marks the rule as one that may still change its mind.
    #[must_use]
    pub fn preview(mut self) -> Self {
        self.stability = Stability::Preview;
        self
    }

    /// Adds a backend that the rule is for.
    #[must_use]
    pub fn backend(mut self, backend: &str) -> Self {
        self.backends.push(backend.to_owned());
        self
    }

    /// Adds an anchor.
    #[must_use]
    pub fn anchor(mut self, anchor: Anchor) -> Self {
        self.anchors.push(anchor);
        self
    }

    /// Adds a reason code.
    #[must_use]
    pub fn code(mut self, code: &str, summary: &str) -> Self {
        self.codes.push(ReasonCode { code: code.to_owned(), summary: summary.to_owned() });
        self
    }
}

impl Anchor {
    /// Nodes of these ops, without surroundings.
    pub fn on<const N: usize>(ops: [&str; N]) -> Self {
        Self {
            ops: ops.map(str::to_owned).to_vec(),
            producers: Vec::new(),
            producer_depth: 0,
            consumer_depth: 0,
            only_outside_delegate: false,
        }
    }

    /// Shows that many producers of producers and consumers of consumers.
    #[must_use]
    pub fn surroundings(mut self, producers: u8, consumers: u8) -> Self {
        self.producer_depth = producers;
        self.consumer_depth = consumers;
        self
    }

    /// Only where the argument `input` is returned by one of `ops`.
    #[must_use]
    pub fn fed_by<const N: usize>(mut self, input: &str, ops: [&str; N]) -> Self {
        self.producers.push(ProducerConstraint { input: input.to_owned(), ops: ops.map(str::to_owned).to_vec() });
        self
    }

    /// Only nodes that the backend did not take.
    #[must_use]
    pub fn outside_delegate(mut self) -> Self {
        self.only_outside_delegate = true;
        self
    }
}
