//! Manifests in a few lines.

use crate::contract::{Anchor, Manifest, Numerics, ProducerConstraint, ReasonCode, Stability, Tolerance};

/// Codes of declines that any rule may need; they join every manifest that does not list them itself. Views
/// decline with the first three. `cut-short` is for a rule that gets `None` from
/// [`Value::producer`](crate::Value::producer) or [`Site::node`](crate::Site::node).
///
/// ```
/// use rule_sdk::{Anchor, Examination, Manifest, NoRewrite, Rule, STANDARD_CODES, Site, decline, testing};
/// # struct Shown;
/// # impl Rule for Shown {
/// #     fn manifest() -> Manifest {
/// #         Manifest::new("org.example.shown", "1.0.0", "").anchor(Anchor::on(["aten.softmax.int"]))
/// #     }
/// #     fn examine(site: &Site<'_>) -> Examination {
/// let sizes = site.anchor().tensor("self")?.meta()?.fixed_sizes()?;
/// #         decline!("argument", "the sizes are {sizes:?}")
/// #     }
/// # }
/// let verdict = testing::examine::<Shown>(
///     "x: f32[n,3] = input
///      y: f32[n,3] = aten.softmax.int(self=x, dim=1, dtype=None)",
/// );
/// assert_eq!(testing::declined(&verdict), Some("dynamic-shape"));
/// assert!(STANDARD_CODES.iter().any(|(code, _)| *code == "dynamic-shape"));
/// ```
pub const STANDARD_CODES: &[(&str, &str)] = &[
    ("argument", "an argument has a form that the rule does not read"),
    ("not-a-tensor", "a value that should be a tensor is something else"),
    ("dynamic-shape", "a size that must be known varies from run to run"),
    ("cut-short", "the surroundings that the rule needs lie outside the site"),
];

/// A claim of equality up to rounding, relative to the scale of the output.
///
/// ```
/// use rule_sdk::{Manifest, Numerics, tolerant};
///
/// let manifest = Manifest::new("org.example.gelu", "1.0.0", "GELU by its tanh form").numerics(tolerant(1e-6, 1e-7));
/// assert!(matches!(manifest.numerics, Numerics::Tolerant(claim) if claim.rtol == 1e-6 && claim.atol == 1e-7));
/// ```
pub fn tolerant(rtol: f64, atol: f64) -> Numerics {
    Numerics::Tolerant(Tolerance { rtol, atol })
}

impl Manifest {
    /// A stable, exact rule for every backend that wants to see nothing yet. The id is made of lower-case letters,
    /// digits, `-` and `.`; the version is a semantic one, as `env!("CARGO_PKG_VERSION")` gives it.
    ///
    /// ```
    /// use rule_sdk::{Anchor, Manifest, Stability};
    ///
    /// let manifest = Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
    ///     .summary("Takes out multiplications by one.")
    ///     .anchor(Anchor::on(["aten.mul.Scalar"]))
    ///     .code("no-op", "the factor is one")
    ///     .code("factor", "the factor is not one");
    /// assert_eq!(manifest.stability, Stability::Stable);
    /// assert!(manifest.backends.is_empty(), "any backend");
    /// ```
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
    ///
    /// ```
    /// # use rule_sdk::Manifest;
    /// let manifest = Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
    ///     .summary("Takes out multiplications by one, which portable kernels carry out.");
    /// assert!(manifest.summary.starts_with("Takes out"));
    /// ```
    #[must_use]
    pub fn summary(mut self, summary: &str) -> Self {
        summary.clone_into(&mut self.summary);
        self
    }

    /// The weakest claim that any rewrite of the rule makes. The claim of one rewrite goes to
    /// [`Patch::finish`](crate::Patch::finish).
    ///
    /// ```
    /// # use rule_sdk::{Manifest, Numerics, tolerant};
    /// let manifest = Manifest::new("org.example.softmax", "1.0.0", "Softmax by parts").numerics(tolerant(1e-5, 1e-6));
    /// assert_ne!(manifest.numerics, Numerics::Exact);
    /// ```
    #[must_use]
    pub fn numerics(mut self, numerics: Numerics) -> Self {
        self.numerics = numerics;
        self
    }

    /// Marks the rule as one that may still change its mind between versions; it stays off unless it is asked for.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, Stability};
    /// let manifest = Manifest::new("org.example.softmax", "0.1.0", "Softmax by parts").preview();
    /// assert_eq!(manifest.stability, Stability::Preview);
    /// ```
    #[must_use]
    pub fn preview(mut self) -> Self {
        self.stability = Stability::Preview;
        self
    }

    /// Adds a backend that the rule is for; a rule that names none is for any.
    ///
    /// ```
    /// # use rule_sdk::Manifest;
    /// let manifest = Manifest::new("org.example.softmax", "1.0.0", "Softmax by parts").backend("xnnpack");
    /// assert_eq!(manifest.backends, ["xnnpack"]);
    /// ```
    #[must_use]
    pub fn backend(mut self, backend: &str) -> Self {
        self.backends.push(backend.to_owned());
        self
    }

    /// Adds an anchor. A node is shown for the first one that it matches, which the site's `anchor_index` tells.
    ///
    /// ```
    /// # use rule_sdk::{Anchor, Manifest};
    /// # use rule_sdk::testing::cases;
    /// let manifest = Manifest::new("org.example.copies", "1.0.0", "Copies that nothing needs")
    ///     .anchor(Anchor::on(["aten.clone.default"]))
    ///     .anchor(Anchor::on(["aten.squeeze.dim"]).surroundings(1, 0));
    /// let graph = "x: f32[2,1] = input
    ///              y: f32[2] = aten.squeeze.dim(self=x, dim=1)
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// let site = case.site(&manifest).expect("an anchor");
    /// assert_eq!(site.anchor_index, 1);
    /// ```
    #[must_use]
    pub fn anchor(mut self, anchor: Anchor) -> Self {
        self.anchors.push(anchor);
        self
    }

    /// Adds a reason code, which a decline or a rewrite can carry. It is made of lower-case letters, digits, `-` and
    /// `.`; [`testing::examine`](crate::testing::examine) fails for a verdict whose code the manifest does not list.
    ///
    /// ```
    /// # use rule_sdk::Manifest;
    /// let manifest = Manifest::new("org.example.times-one", "1.0.0", "Multiplication by one")
    ///     .code("no-op", "the factor is one");
    /// assert_eq!(manifest.codes[0].summary, "the factor is one");
    /// ```
    #[must_use]
    pub fn code(mut self, code: &str, summary: &str) -> Self {
        self.codes.push(ReasonCode { code: code.to_owned(), summary: summary.to_owned() });
        self
    }
}

impl Anchor {
    /// Nodes of these ops, without surroundings. Overload names are full and matched exactly.
    ///
    /// ```
    /// # use rule_sdk::{Anchor, Manifest, testing::cases};
    /// let manifest = Manifest::new("org.example.softmax", "1.0.0", "Softmax by parts")
    ///     .anchor(Anchor::on(["aten.softmax.int", "aten._softmax.default"]));
    /// let graph = "x: f32[2,3] = input
    ///              h: f32[2,3] = aten.relu.default(self=x)
    ///              y: f32[2,3] = aten.softmax.int(self=h, dim=0, dtype=None)
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// let site = case.site(&manifest).expect("an anchor");
    /// assert_eq!((site.nodes.len(), site.nodes[0].op.as_str()), (1, "aten.softmax.int"));
    /// ```
    pub fn on<const N: usize>(ops: [&str; N]) -> Self {
        Self {
            ops: ops.map(str::to_owned).to_vec(),
            producers: Vec::new(),
            producer_depth: 0,
            consumer_depth: 0,
            only_outside_delegate: false,
        }
    }

    /// Shows producers and consumers up to these distances: 1 are the nodes next to the anchor, 2 also the ones next
    /// to those, 0 none. The host has a limit and says in the site when it cut the surroundings short.
    ///
    /// ```
    /// # use rule_sdk::{Anchor, Manifest, testing::cases};
    /// let anchor = Anchor::on(["aten.relu.default"]).surroundings(2, 0);
    /// let graph = "x: f32[4] = input
    ///              a: f32[4] = aten.neg.default(self=x)
    ///              b: f32[4] = aten.abs.default(self=a)
    ///              y: f32[4] = aten.relu.default(self=b)
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let site = case.site(&Manifest::new("org.example.shown", "1.0.0", "").anchor(anchor)).expect("an anchor");
    /// let ops: Vec<&str> = site.nodes.iter().map(|node| node.op.as_str()).collect();
    /// assert_eq!(ops, ["aten.relu.default", "aten.abs.default", "aten.neg.default"]);
    /// ```
    #[must_use]
    pub fn surroundings(mut self, producers: u8, consumers: u8) -> Self {
        self.producer_depth = producers;
        self.consumer_depth = consumers;
        self
    }

    /// Only where the argument `input` is returned by one of `ops`; of a list, every value. The host sees to it; the
    /// text form of [`testing`](crate::testing) shows every node of the anchor's ops.
    ///
    /// ```
    /// # use rule_sdk::Anchor;
    /// let anchor = Anchor::on(["aten.squeeze.dim"]).fed_by("self", ["aten.unsqueeze.default"]).surroundings(1, 0);
    /// assert_eq!(anchor.producers[0].input, "self");
    /// assert_eq!(anchor.producers[0].ops, ["aten.unsqueeze.default"]);
    /// ```
    #[must_use]
    pub fn fed_by<const N: usize>(mut self, input: &str, ops: [&str; N]) -> Self {
        self.producers.push(ProducerConstraint { input: input.to_owned(), ops: ops.map(str::to_owned).to_vec() });
        self
    }

    /// Only nodes that the backend did not take. The host sees to it; the text form of
    /// [`testing`](crate::testing) shows every node of the anchor's ops.
    ///
    /// ```
    /// # use rule_sdk::Anchor;
    /// let anchor = Anchor::on(["aten.erf.default"]).outside_delegate();
    /// assert!(anchor.only_outside_delegate);
    /// ```
    #[must_use]
    pub fn outside_delegate(mut self) -> Self {
        self.only_outside_delegate = true;
        self
    }
}
