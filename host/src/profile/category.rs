//! What kind of work a kernel does.
//!
//! In: a kernel's name in a trace. Out: its [`Category`], or nothing for a name that is not in the tables: an
//! unknown kernel is told as one, not guessed from a part of its name. The tables cover the operators of XNNPACK and
//! the portable, optimized and quantized kernels that ExecuTorch 1.5.1 ships; the six categories are those in which
//! Arm's SME2 kit and ArmFit report, with normalization apart as in the latter. `docs/profile.md` says what each
//! holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kernels::kernel_of_event;

/// What kind of work a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Category {
    /// convolutions of any rank, transposed ones too
    #[serde(rename = "Conv2D")]
    Conv2d,
    /// products of matrices: linear layers and batched products
    #[serde(rename = "GEMM/Linear")]
    Gemm,
    /// one result for each element: arithmetic, comparison, activation, conversion between number formats
    Elementwise,
    /// softmax and the norms
    Normalization,
    /// copies, changes of layout, gathers, fills: no arithmetic on the values
    DataMovement,
    /// known, and none of the others: pooling, reductions, resizing, sorting
    Other,
}

impl Category {
    /// All of them, in the order in which tables show them.
    pub const ALL: [Self; 6] =
        [Self::Conv2d, Self::Gemm, Self::Elementwise, Self::Normalization, Self::DataMovement, Self::Other];

    /// As people read it, and as the JSON forms of ArmFit spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conv2d => "Conv2D",
            Self::Gemm => "GEMM/Linear",
            Self::Elementwise => "Elementwise",
            Self::Normalization => "Normalization",
            Self::DataMovement => "DataMovement",
            Self::Other => "Other",
        }
    }

    /// The category with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == name)
    }

    /// Names of XNNPACK's operators in it.
    pub fn delegate_operators(self) -> &'static [&'static str] {
        names(XNNPACK, self)
    }

    /// Names of kernels outside of delegates in it, without namespace and overload.
    pub fn kernels(self) -> &'static [&'static str] {
        names(KERNELS, self)
    }

    /// Of an operator inside a delegate, by the name that XNNPACK gives it:
    /// `Convolution (NHWC, F32) IGEMM #1` is a [`Category::Conv2d`].
    pub fn of_delegate_operator(name: &str) -> Option<Self> {
        let operator = name.split_once(" (").map_or(name, |(operator, _)| operator);
        look_up(XNNPACK, operator)
    }

    /// Of a kernel outside delegates, by its name in the trace or in the program: `_softmax.out`,
    /// `aten::_softmax.out` and `native_call__softmax.out` are [`Category::Normalization`].
    pub fn of_kernel(name: &str) -> Option<Self> {
        let name = kernel_of_event(name).unwrap_or(name);
        let name = name.rsplit_once("::").map_or(name, |(_, name)| name);
        let operator = name.split_once('.').map_or(name, |(operator, _)| operator);
        look_up(KERNELS, operator)
    }
}

type Table = &'static [(Category, &'static [&'static str])];

fn look_up(table: Table, name: &str) -> Option<Category> {
    table.iter().find(|(_, names)| names.contains(&name)).map(|(category, _)| *category)
}

fn names(table: Table, category: Category) -> &'static [&'static str] {
    table.iter().find(|(other, _)| *other == category).map_or(&[], |(_, names)| names)
}

/// Operators of XNNPACK, by the first part of their names (`xnn_operator_type_to_string`, and the types of subgraph
/// nodes for the operators that were made common to several functions).
const XNNPACK: Table = &[
    (
        Category::Conv2d,
        &["Convolution", "Convolution 2D", "Deconvolution", "Deconvolution 2D", "Depthwise Convolution 2D"],
    ),
    (
        Category::Gemm,
        &["Batch Matrix Multiply", "Dynamic Fully Connected", "Fully Connected", "Fully Connected Sparse"],
    ),
    (
        Category::Elementwise,
        &[
            "ATan2",
            "Abs",
            "Add",
            "ApproxGELU",
            // Spelled so by XNNPACK of ExecuTorch 1.5.1.
            "Bankders Rounding",
            "Bankers Rounding",
            "Binary Elementwise",
            "Bitwise And",
            "Bitwise Not",
            "Bitwise Or",
            "Bitwise Xor",
            "Ceiling",
            "Clamp",
            "Convert",
            "Copy Sign",
            "Cosine",
            "Count Leading Zeros",
            "Cube Root",
            "Divide",
            "ELU",
            "Exp",
            "Floor",
            "GELU",
            "HardSwish",
            "LeakyReLU",
            "Leaky ReLU",
            "Log",
            "Maximum",
            "Minimum",
            "Modulus",
            "Multiply",
            "Negate",
            "PReLU",
            "Population Count",
            "Power",
            "Reciprocal Square Root",
            "RoPE",
            "Shift Left",
            "Shift Right Arithmetic",
            "Shift Right Logical",
            "Sigmoid",
            "Sign",
            "Sine",
            "Square",
            "Square Root",
            "Squared Difference",
            "Subtract",
            "TanH",
            "Tanh",
            "Unary Elementwise",
        ],
    ),
    (Category::Normalization, &["Normalize", "Softmax"]),
    (
        Category::DataMovement,
        &[
            "Concatenate",
            "Concatenate2",
            "Concatenate3",
            "Concatenate4",
            "Concatenate5",
            "Constant Pad",
            "Copy",
            "Depth To Space",
            "Depth To Space 2D",
            "Even Split2",
            "Even Split3",
            "Even Split4",
            "Fuse Dims",
            "Pack LH",
            "Slice",
            "Space To Depth",
            "Space To Depth 2D",
            "Split Dims",
            "Static Expand Dims",
            "Static Reshape",
            "Static Slice",
            "Static Transpose",
            "Transpose",
            "Unpooling",
        ],
    ),
    (
        Category::Other,
        &[
            "ArgMax Pooling",
            "ArgMax Pooling 2D",
            "Average Pooling",
            "Average Pooling 2D",
            "Global Average Pooling",
            "Max Pooling",
            "Max Pooling 2D",
            "Mean",
            "Mean Squared",
            "Reduce Max",
            "Reduce Min",
            "Resize Bilinear",
            "Sum",
        ],
    ),
];

/// Kernels outside delegates, by their operators without namespace and overload (`functions.yaml` of ExecuTorch's
/// portable, optimized and quantized kernels).
const KERNELS: Table = &[
    (Category::Conv2d, &["convolution", "convolution_backward"]),
    (Category::Gemm, &["addmm", "bmm", "linear", "mixed_linear", "mixed_mm", "mm"]),
    (
        Category::Elementwise,
        &[
            "abs",
            "acos",
            "acosh",
            "add",
            "asin",
            "asinh",
            "atan",
            "atan2",
            "atanh",
            "bitwise_and",
            "bitwise_left_shift",
            "bitwise_not",
            "bitwise_or",
            "bitwise_right_shift",
            "bitwise_xor",
            "ceil",
            "clamp",
            "cos",
            "cosh",
            "dequantize_per_channel",
            "dequantize_per_tensor",
            "dequantize_per_token",
            "div",
            "elu",
            "eq",
            "erf",
            "exp",
            "expm1",
            "floor",
            "floor_divide",
            "fmod",
            "ge",
            "gelu",
            "glu",
            "gt",
            "hardtanh",
            "isinf",
            "isnan",
            "le",
            "leaky_relu",
            "log",
            "log10",
            "log1p",
            "log2",
            "logical_and",
            "logical_not",
            "logical_or",
            "logical_xor",
            "logit",
            "lt",
            "masked_fill",
            "maximum",
            "minimum",
            "mul",
            "native_dropout",
            "ne",
            "neg",
            "pow",
            "quantize_per_channel",
            "quantize_per_tensor",
            "quantize_per_token",
            "reciprocal",
            "relu",
            "remainder",
            "round",
            "rsqrt",
            "rsub",
            "sigmoid",
            "sign",
            "sin",
            "sinh",
            "sqrt",
            "sub",
            "tan",
            "tanh",
            "tril",
            "trunc",
            "where",
        ],
    ),
    (
        Category::Normalization,
        &[
            "_log_softmax",
            "_native_batch_norm_legit",
            "_native_batch_norm_legit_no_training",
            "_softmax",
            "native_group_norm",
            "native_layer_norm",
        ],
    ),
    (
        Category::DataMovement,
        &[
            "_clone_dim_order",
            "_conj_physical",
            "_empty_dim_order",
            "_to_copy",
            "_to_dim_order_copy",
            "alias_copy",
            "arange",
            "as_strided_copy",
            "cat",
            "clone",
            "constant_pad_nd",
            "copy",
            "copy_",
            "detach_copy",
            "diagonal_copy",
            "embedding",
            "embedding_2bit",
            "embedding_4bit",
            "embedding_byte",
            "embedding_xbit",
            "empty",
            "expand_copy",
            "fill",
            "flip",
            "full",
            "full_like",
            "gather",
            "index",
            "index_put",
            "index_put_",
            "index_select",
            "lift_fresh_copy",
            "masked_scatter",
            "masked_select",
            "narrow_copy",
            "ones",
            "permute_copy",
            "pixel_shuffle",
            "pixel_unshuffle",
            "reflection_pad1d",
            "reflection_pad2d",
            "reflection_pad3d",
            "repeat",
            "repeat_interleave",
            "replication_pad1d",
            "replication_pad2d",
            "replication_pad3d",
            "roll",
            "scalar_tensor",
            "scatter",
            "scatter_add",
            "select_copy",
            "select_scatter",
            "slice_copy",
            "slice_scatter",
            "split_copy",
            "split_with_sizes_copy",
            "squeeze_copy",
            "stack",
            "t_copy",
            "transpose_copy",
            "unbind_copy",
            "unfold_copy",
            "unsqueeze_copy",
            "view_as_real_copy",
            "view_copy",
            "zeros",
        ],
    ),
    (
        Category::Other,
        &[
            "_adaptive_avg_pool2d",
            "_cdist_forward",
            "_fft_c2r",
            "_fft_r2c",
            "_pdist_forward",
            "_upsample_bilinear2d_aa",
            "amax",
            "amin",
            "any",
            "argmax",
            "argmin",
            "avg_pool2d",
            "choose_qparams",
            "choose_qparams_per_token_asymmetric",
            "cumsum",
            "grid_sampler_2d",
            "max",
            "max_pool2d_with_indices",
            "max_pool2d_with_indices_backward",
            "mean",
            "min",
            "nonzero",
            "prod",
            "rand",
            "randn",
            "sum",
            "topk",
            "upsample_bilinear2d",
            "upsample_nearest2d",
            "var",
            "var_mean",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_traces_have_their_categories() {
        for (name, category) in [
            ("Convolution (NHWC, F32) IGEMM #1", Category::Conv2d),
            ("Convolution (NHWC, QC8) DWConv #12", Category::Conv2d),
            ("Fully Connected (NC, PF32) GEMM #2", Category::Gemm),
            ("Batch Matrix Multiply (NC, F32) #1", Category::Gemm),
            ("Softmax (NC, F32) #1", Category::Normalization),
            ("Transpose (ND, X32) Transpose #4", Category::DataMovement),
            ("Copy (NC, X32) #1", Category::DataMovement),
            ("Add (ND) #3", Category::Elementwise),
            ("Mean (ND) #1", Category::Other),
        ] {
            assert_eq!(Category::of_delegate_operator(name), Some(category), "{name}");
        }
        for (name, category) in [
            ("native_call__softmax.out", Category::Normalization),
            ("aten::convolution.out", Category::Conv2d),
            ("native_call_where.self_out", Category::Elementwise),
            ("dim_order_ops::_clone_dim_order.out", Category::DataMovement),
            ("quantized_decomposed::dequantize_per_tensor.out", Category::Elementwise),
            ("upsample_bilinear2d.vec_out", Category::Other),
        ] {
            assert_eq!(Category::of_kernel(name), Some(category), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_not_guessed() {
        for name in ["", "Convolutional Thing (NC)", "conv", "delegate event 7"] {
            assert_eq!(Category::of_delegate_operator(name), None, "{name}");
        }
        for name in ["my_ops::conv2d.out", "native_call_", "DELEGATE_CALL", ""] {
            assert_eq!(Category::of_kernel(name), None, "{name}");
        }
    }

    #[test]
    fn each_name_stands_once_and_in_order() {
        for table in [XNNPACK, KERNELS] {
            let mut all: Vec<&str> = table.iter().flat_map(|(_, names)| names.iter().copied()).collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count);
        }
        for category in Category::ALL {
            assert_eq!(Category::named(category.name()), Some(category));
        }
    }
}
