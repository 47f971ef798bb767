//! DD-001: softmax over a dimension that is not the last.
//!
//! XNNPACK normalises over the last dimension only, so every other softmax runs on a portable kernel. The
//! same numbers come out of a softmax over the last dimension of a matrix or a rank-3 tensor:
//!
//! ```text
//! [.., D, ..] → reshape [A, D, B] → permute [A, B, D] → softmax(-1) → permute [A, D, B] → contiguous → reshape
//! [.., D]     → reshape [A, D]    →                     softmax(-1) →                                   reshape
//! ```
//!
//! The second form is for a dimension behind which only sizes of one follow. A rank-4 softmax over the
//! last dimension never comes out: the backend reads the tensors around convolutions as NHWC and would
//! normalise over channels.

use rule_sdk::{
    Anchor, Dim, Examination, Manifest, Patch, Rule, ScalarType, Site, decline, dtype_name, require, tolerant,
};

/// The rule.
pub struct SoftmaxLayout;

impl Rule for SoftmaxLayout {
    fn manifest() -> Manifest {
        Manifest::new("dd-001", env!("CARGO_PKG_VERSION"), "Softmax over a dimension that is not the last")
            .summary(
                "Moves the dimension that a softmax normalises over to the end of a rank-2 or rank-3 tensor, \
                 where XNNPACK takes it.",
            )
            .numerics(tolerant(1e-6, 1e-7))
            .backend("xnnpack")
            .anchor(Anchor::on(["aten.softmax.int", "aten._softmax.default"]))
            .code("softmax-layout", "the softmax can run over the last dimension of a rank-2 or rank-3 tensor")
            .code("last-dimension", "the softmax is over the last dimension already")
            .code("element-type", "XNNPACK takes a softmax of float32 and float16 only")
            .code("changes-type", "the softmax also converts the element type")
            .code("rank", "the tensor has no dimension or more than five")
            .code("dimension", "the dimension does not exist")
            .code("empty", "the tensor holds no element")
            .code("layout", "the result is not row-major, so the repaired one would lie differently in memory")
    }

    fn examine(site: &Site<'_>) -> Examination {
        let softmax = site.anchor();
        let input = softmax.tensor("self")?;
        let (x, y) = (input.meta()?, softmax.output(0)?.meta()?);

        require!((1..=5).contains(&x.rank()), "rank", "the tensor has rank {}", x.rank());
        let Some(dim) = x.dimension(softmax.int("dim")?) else {
            decline!("dimension", "dimension {} of a tensor of rank {}", softmax.int("dim")?, x.rank());
        };
        require!(dim + 1 < x.rank(), "last-dimension", "dimension {dim} is the last of rank {}", x.rank());
        require!(
            matches!(x.dtype(), ScalarType::Float32 | ScalarType::Float16),
            "element-type",
            "the element type is {}",
            dtype_name(x.dtype())
        );
        let converts = match softmax.op() {
            "aten.softmax.int" => softmax.optional_dtype("dtype")?.is_some_and(|dtype| dtype != x.dtype()),
            _ => softmax.boolean("half_to_float")?,
        };
        require!(
            !converts && y.dtype() == x.dtype(),
            "changes-type",
            "{} becomes {}",
            dtype_name(x.dtype()),
            dtype_name(y.dtype())
        );

        let shape = Flattened::of(x.sizes(), dim)?;
        require!(!shape.is_empty(), "empty", "one of the sizes is zero");
        require!(shape.outer.is_none() || y.is_contiguous(), "layout", "the result is not row-major");

        let mut patch = Patch::new(site);
        let source = patch.tap(input);
        let rows = if shape.inner == 1 {
            patch.reshape(source, &[shape.outer_size(), shape.normalised])
        } else {
            let blocks = patch.reshape(source, &[shape.outer_size(), shape.normalised, shape.inner]);
            patch.permute(blocks, &[0, 2, 1])
        };
        let normalised = if softmax.op() == "aten.softmax.int" {
            patch.node("aten.softmax.int").arg("self", rows).arg("dim", -1).add()
        } else {
            patch.node("aten._softmax.default").arg("self", rows).arg("dim", -1).arg("half_to_float", false).add()
        };
        let back = if shape.inner == 1 {
            normalised
        } else {
            let blocks = patch.permute(normalised, &[0, 2, 1]);
            patch.contiguous(blocks)
        };
        let result = patch.reshape(back, &shape.original);
        patch.replace(softmax.output(0)?, result);
        patch.delete(softmax);
        patch.finish(
            tolerant(1e-6, 1e-7),
            "softmax-layout",
            format!("softmax over dimension {dim} of rank {} runs over the last dimension instead", x.rank()),
        )
    }
}

/// A shape seen from one of its dimensions.
struct Flattened {
    /// product of the sizes in front; `None` where one of them varies
    outer: Option<i64>,
    /// the dimension's own size
    normalised: i64,
    /// product of the sizes behind
    inner: i64,
    /// the shape to come back to, -1 for the size that varies
    original: Vec<i64>,
}

impl Flattened {
    /// Only one size may vary, and only in front of `dim`: then -1 stands for it both ways.
    fn of(sizes: &[Dim], dim: usize) -> Result<Self, rule_sdk::NoRewrite> {
        let mut flattened = Self { outer: Some(1), normalised: 1, inner: 1, original: Vec::new() };
        for (position, size) in sizes.iter().enumerate() {
            match size {
                Dim::Fixed(n) => {
                    let product = match position.cmp(&dim) {
                        std::cmp::Ordering::Less => flattened.outer.as_mut(),
                        std::cmp::Ordering::Equal => Some(&mut flattened.normalised),
                        std::cmp::Ordering::Greater => Some(&mut flattened.inner),
                    };
                    if let Some(product) = product {
                        *product = product.saturating_mul(*n);
                    }
                    flattened.original.push(*n);
                }
                Dim::Symbolic(symbol) => {
                    require!(
                        position < dim && !flattened.original.contains(&-1),
                        "dynamic-shape",
                        "size {position} varies ({}), and only one in front of dimension {dim} may",
                        symbol.expression
                    );
                    flattened.outer = None;
                    flattened.original.push(-1);
                }
            }
        }
        Ok(flattened)
    }

    fn outer_size(&self) -> i64 {
        self.outer.unwrap_or(-1)
    }

    fn is_empty(&self) -> bool {
        self.outer == Some(0) || self.normalised == 0 || self.inner == 0 || self.original.contains(&0)
    }
}

rule_sdk::export_rule!(SoftmaxLayout);
