//! Why XNNPACK left a node alone, in plain words, and what can be done about it.
//!
//! In: the lowered op and the partitioner's reason. Out: an [`Insight`]. The table covers what the
//! partitioner of executorch 1.5 refuses; for whatever it does not know the reason's own sentence is used.
//!
//! To add a case: put a row in `CASES`, the more specific one first, and a line in the test table.

use crate::torch::protocol::Reason;

/// An explanation that needs no knowledge of the partitioner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insight {
    /// why the node is outside the delegate
    pub plain: String,
    /// what a person can change; absent when nothing is known to help
    pub fix: Option<&'static str>,
    /// the bundled rule made for it
    pub rule: Option<&'static str>,
}

/// A row: applies when the op is one of `ops` (any, when empty) and the reason has all of `words`.
struct Case {
    ops: &'static [&'static str],
    words: &'static [&'static str],
    plain: &'static str,
    fix: Option<&'static str>,
    rule: Option<&'static str>,
}

const fn case(ops: &'static [&'static str], words: &'static [&'static str], plain: &'static str) -> Case {
    Case { ops, words, plain, fix: None, rule: None }
}

impl Case {
    const fn fix(mut self, fix: &'static str) -> Self {
        self.fix = Some(fix);
        self
    }

    const fn rule(mut self, rule: &'static str) -> Self {
        self.rule = Some(rule);
        self
    }
}

const GEMM: &[&str] = &["linear", "addmm", "mm", "bmm", "convolution", "conv1d", "conv2d", "conv3d"];

/// Specific before general: the first row that applies is taken.
const CASES: &[Case] = &[
    // Configured ops that miss a condition.
    case(&["_softmax", "softmax", "_safe_softmax"], &[], "The XNNPACK delegate has a softmax over the last dimension only; this one runs over another dimension")
        .fix("Move the dimension to the end of a 2-D or 3-D view, take the softmax there, and move it back. Do not use a 4-D softmax over the last dimension: after a convolution it is computed over the channels")
        .rule("dd-001"),
    case(&["avg_pool2d"], &["ceil"], "XNNPACK cannot round the output size of an average pooling up (`ceil_mode=True`)")
        .fix("Pad explicitly and pool with `ceil_mode=False`, then correct the counts at the border with a constant factor")
        .rule("dd-003"),
    case(&["avg_pool2d"], &["divisor"], "XNNPACK divides an average by the window size; this pooling overrides the divisor")
        .fix("Pool with the window size and multiply by a constant")
        .rule("dd-003"),
    case(&["avg_pool2d"], &["zero-padding"], "XNNPACK leaves padding out of an average; this pooling counts padded zeros (`count_include_pad=True`)")
        .fix("Pad with zeros explicitly (`F.pad`), then pool without padding")
        .rule("dd-003"),
    case(&["avg_pool2d"], &[], "This form of average pooling (padding, rounding or divisor) has no XNNPACK kernel")
        .fix("Pad explicitly and use a pooling without padding, `ceil_mode` and `divisor_override`")
        .rule("dd-003"),
    case(&["max_pool2d", "max_pool2d_with_indices"], &["stride"], "XNNPACK wants the stride of a max pooling to be no larger than its window")
        .fix("Slice the input so that the skipped columns and rows are gone, or use a larger window where the result allows it"),
    case(&["max_pool2d", "max_pool2d_with_indices"], &["ceil"], "A max pooling that rounds its output size up needs sizes known at export time")
        .fix("Export with static shapes, or use `ceil_mode=False`"),
    case(&["mean"], &["keepdim"], "XNNPACK's mean keeps the reduced dimensions (`keepdim=True`); this one drops them")
        .fix("Take the mean with `keepdim=True` and reshape the result"),
    case(&["mean"], &["4d"], "XNNPACK's mean is a global pooling: the two innermost dimensions of a 4-D tensor, with `keepdim=True`")
        .fix("Reshape to 4-D, take `mean((2, 3), keepdim=True)`, and reshape back"),
    case(&["mean"], &["dtype"], "XNNPACK's mean cannot convert its result to another dtype")
        .fix("Convert before or after the mean, or drop `dtype=`"),
    case(&["mean"], &[], "XNNPACK's mean is a global pooling: `mean((2, 3), keepdim=True)` of a 4-D tensor")
        .fix("Reshape to 4-D, take `mean((2, 3), keepdim=True)`, and reshape back"),
    case(&["pow"], &[], "XNNPACK squares, and takes no other power; the exponent must be the integer `2` (`2.0` is refused)")
        .fix("Write `x ** 2` with an integer, `x * x`, or `torch.sqrt` for `0.5`"),
    case(&["slice_copy", "slice"], &["quantization"], "XNNPACK slices a quantized tensor only when input and output share scale and zero point")
        .fix("Quantize with a quantizer that shares observers across a slice"),
    case(&["slice_copy", "slice"], &[], "XNNPACK slices with step 1 and sizes known at export time")
        .fix("Avoid strided slices (a reshape and a step-1 slice give the same elements), and export with static shapes"),
    case(&["unsqueeze_copy", "unsqueeze"], &[], "XNNPACK adds a dimension only at the end")
        .fix("Use `reshape` or `view` to the full shape"),
    case(&["view_copy", "view", "_unsafe_view", "reshape"], &["inferred"], "XNNPACK can infer one dimension of a reshape, not several")
        .fix("Write all sizes but one as numbers"),
    case(&["view_copy", "view", "_unsafe_view", "reshape"], &["symbolic"], "XNNPACK reshapes to sizes known at export time; this one depends on a dynamic shape")
        .fix("Export with static shapes, or keep the dynamic dimension out of the reshape"),
    case(&["upsample_bilinear2d"], &[], "XNNPACK resizes to sizes known at export time")
        .fix("Give `size=` or `scale_factor=` as numbers and export with static shapes"),
    case(&["gelu"], &["fp16"], "The XNNPACK delegate has no half-precision GELU").fix("Compute the GELU in float32"),
    case(&["_to_dim_order_copy", "_to_copy", "to"], &[], "This converts between dtypes that XNNPACK does not convert between")
        .fix("Keep one dtype through the model, and convert inputs before the call"),
    case(&["clone", "_clone_dim_order"], &[], "This copy changes the order of dimensions in memory, which a delegate cannot")
        .fix("Drop the `contiguous` or `to(memory_format=…)` call where no view after it needs it"),
    case(&["constant_pad_nd"], &["negative"], "A negative padding cuts elements off, which XNNPACK's padding cannot").fix("Use a slice to cut"),
    case(&["cat"], &[], "XNNPACK joins two or more different tensors; a tensor joined with itself counts once")
        .fix("For a repeated tensor use an interpolation or a multiplication by ones; for a single one drop the `cat`"),
    case(&["add", "sub"], &["alpha"], "XNNPACK adds and subtracts without a factor; `alpha` is not 1").fix("Multiply first, then add"),
    case(&["convolution", "conv1d", "conv2d", "conv3d"], &["1d"], "The XNNPACK delegate has convolutions over one and two dimensions only; a 3-D one also fails on the portable kernel")
        .fix("Rewrite as a sum of 2-D convolutions, where the model allows it"),
    case(&["convolution"], &["transpose"], "A transposed convolution with groups cannot be quantized per input channel")
        .fix("Quantize its weight per tensor"),
    case(GEMM, &["weight"], "The weight is computed while the model runs (weight norm, tied embedding, a transposed parameter); XNNPACK packs weights when it loads")
        .fix("Make the weight a parameter: remove the parametrization (`remove_parametrizations`), or store the transposed tensor in an `nn.Linear`"),
    case(GEMM, &["bias"], "The bias is computed while the model runs; XNNPACK wants a parameter").fix("Make the bias a parameter, or add it after the product"),
    case(GEMM, &["source partition"], "The partitioner does not recognise this product as a linear layer")
        .fix("Use `nn.Linear` or `F.linear` with the weight stored as it wants it"),
    case(GEMM, &["quant"], "The quantization around this layer is not of the form that XNNPACK fuses").fix("Quantize with `XNNPACKQuantizer`"),
    case(&["_native_batch_norm_legit_no_training", "batch_norm"], &[], "This batch norm does not follow a convolution or a linear layer alone, so that it cannot be folded into one")
        .fix("Let the convolution's only user be the batch norm, or write it as a multiplication and an addition"),
    case(&["prelu", "_prelu_kernel"], &[], "XNNPACK's PReLU wants its slope to be a parameter").fix("Make the slope a parameter"),
    case(&["max"], &[], "XNNPACK takes a maximum over a dimension only for 4-D floating-point tensors whose index is not used")
        .fix("Use `amax` through a max pooling over the whole size, or drop the index"),
    case(&["elu"], &[], "ELU has a kernel in XNNPACK, but executorch does not hand it over").fix("Use another activation, if the model can be retrained"),
    // Ops that the partitioner does not know.
    case(&["alias_copy", "alias"], &[], "This does nothing: a full-range slice or an alias was exported as a copy, and it splits the delegate in two")
        .fix("Drop the slice or alias that does nothing")
        .rule("dd-002"),
    case(&["native_layer_norm", "layer_norm"], &[], "The XNNPACK delegate has no layer norm").fix("Nothing that is faster is known: taken apart into single steps it is not"),
    case(&["native_group_norm", "group_norm"], &[], "The XNNPACK delegate has no group norm").fix("Taking it apart into means and products gains little; batch norm folds into the convolution before it"),
    case(&["_native_batch_norm_legit", "instance_norm"], &[], "The XNNPACK delegate has no instance norm (a batch norm that takes its statistics from the input)")
        .fix("Write it with `mean((2, 3), keepdim=True)`, products and `rsqrt`, all of which XNNPACK has"),
    case(&["_log_softmax", "log_softmax"], &[], "The XNNPACK delegate has no log-softmax").fix("Use `softmax` and `log` where the range allows it, or do it outside the model"),
    case(&["sum"], &[], "The XNNPACK delegate has no sum over dimensions").fix("Use `mean` in the form XNNPACK has, times the count"),
    case(&["amax", "amin", "argmax", "argmin", "var", "any", "all"], &[], "The XNNPACK delegate has no such reduction")
        .fix("Move it out of the model when it is the last step"),
    case(&["where", "eq", "ne", "gt", "ge", "lt", "le", "logical_not", "logical_and", "logical_or"], &[], "XNNPACK computes no masks and no choices; often these come from the safe softmax inside `scaled_dot_product_attention`")
        .fix("Write attention as matmul, softmax, matmul where no row is fully masked, and add masks as constants"),
    case(&["expand_copy", "expand"], &[], "The XNNPACK delegate has no expand; its element-wise ops broadcast by themselves")
        .fix("Drop the expand where the next op broadcasts"),
    case(&["select_copy", "select"], &[], "XNNPACK takes no single index out of a dimension").fix("Use a slice of length 1 and a reshape"),
    case(&["split_with_sizes_copy", "split_with_sizes", "split_copy", "chunk"], &[], "The XNNPACK delegate has no split")
        .fix("Use one slice for each piece; measured gains are small"),
    case(&["squeeze_copy", "squeeze"], &[], "XNNPACK drops no dimension by itself").fix("Use `reshape` or `view` to the full shape"),
    case(&["index", "index_select", "index_put", "gather", "scatter"], &[], "The XNNPACK delegate has no indexing by tensors")
        .fix("When the indices are constants, store the result as a parameter or use slices and `cat`"),
    case(&["embedding"], &[], "The XNNPACK delegate has no embedding lookup; the portable kernel is good enough for a single row"),
    case(&["upsample_nearest2d"], &[], "The XNNPACK delegate has no nearest-neighbour upsampling")
        .fix("Use bilinear upsampling, if the model can be retrained; a transposed convolution is exact and slower"),
    case(&["upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "grid_sampler_2d", "grid_sampler"], &[], "The XNNPACK delegate has bilinear resizing without antialiasing only")
        .fix("Use bilinear upsampling without antialiasing, if the model can be retrained"),
    case(&["_adaptive_avg_pool2d", "adaptive_avg_pool2d"], &[], "The output size does not divide the input size, so that the windows differ")
        .fix("Use sizes that divide, or an average pooling with a fixed window"),
    case(&["log1p", "softplus", "mish"], &[], "The XNNPACK delegate has no `log1p`, which softplus, mish and log-sigmoid are made of")
        .fix("Use hard-swish or SiLU, if the model can be retrained"),
    case(&["as_strided_copy", "as_strided"], &[], "XNNPACK cannot reinterpret memory").fix("Use `reshape`, `permute` and slices"),
    case(&["roll"], &[], "The XNNPACK delegate has no roll").fix("Use two slices and a `cat`; measured gains are small"),
    case(&["mul", "add", "sub", "div"], &["no-config"], "XNNPACK multiplies and adds tensors; this form takes a bare number")
        .fix("Make the number a tensor (a buffer)"),
    case(&["arange", "full", "full_like", "zeros", "ones", "scalar_tensor"], &[], "This makes a tensor while the model runs")
        .fix("Make it once, as a buffer"),
    // Conditions on any op.
    case(&[], &["mixed input dtypes"], "Its inputs have different dtypes; XNNPACK wants one").fix("Convert inputs to one dtype before the call"),
    case(&[], &["invalid dtype"], "XNNPACK computes in float32 and float16; this node has another dtype, an empty tensor, or a size unknown at export time")
        .fix("Keep integer and boolean arithmetic out of the model, or make its result a buffer"),
    case(&[], &["precision"], "The precision of this node is not enabled in the partitioner").fix("Enable it in `XnnpackPartitioner`, or convert to float32"),
];

/// The op without namespace, overload and edge prefix: `aten._softmax.default` → `_softmax`.
fn base_name(op: &str) -> &str {
    let op = op.rsplit("::").next().unwrap_or(op);
    let mut parts = op.split('.');
    match (parts.next(), parts.next()) {
        (Some("aten" | "edge" | "dim_order_ops" | "quantized_decomposed" | "et_copy"), Some(name)) => name,
        (Some(name), _) => name,
        (None, _) => op,
    }
}

/// Explains why `op` (lowered or exported name, or kernel) was refused.
pub fn explain(op: &str, reason: &Reason) -> Insight {
    let name = base_name(op);
    let said = if reason.partitioner.is_empty() { &reason.text } else { &reason.partitioner };
    let words = format!("{} {}", reason.code, said).to_lowercase();
    let applies = |case: &&Case| {
        (case.ops.is_empty() || case.ops.contains(&name)) && case.words.iter().all(|word| words.contains(word))
    };
    let of_its_own = reason.code == "inserted-after-partitioning";
    // A condition on any op outranks an op's own row when the partitioner named it.
    let general = || CASES.iter().filter(|case| case.ops.is_empty()).find(applies);
    let specific = || CASES.iter().filter(|case| !case.ops.is_empty()).find(applies);
    let found = match reason.code.as_str() {
        _ if of_its_own => None,
        "dtype" => general().or_else(specific),
        _ => specific().or_else(general),
    };
    if let Some(case) = found {
        return Insight { plain: case.plain.to_owned(), fix: case.fix, rule: case.rule };
    }
    let plain = match reason.code.as_str() {
        _ if !reason.text.is_empty() => reason.text.clone(),
        "inserted-after-partitioning" => {
            "Lowering added this step after the partitioner had run, so that no delegate could take it".to_owned()
        }
        "no-config" => format!("XNNPACK's partitioner does not know `{name}`"),
        "constraint" => format!("The XNNPACK delegate has `{name}`, but not in this form"),
        "dtype" => "XNNPACK computes in float32 and float16; this node has another dtype".to_owned(),
        _ => "The partitioner gave no reason".to_owned(),
    };
    Insight { plain, fix: None, rule: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: &str, partitioner: &str) -> Reason {
        Reason { code: code.to_owned(), text: String::new(), partitioner: partitioner.to_owned() }
    }

    fn check(op: &str, code: &str, text: &str, plain_has: &str, rule: Option<&str>) {
        let insight = explain(op, &reason(code, text));
        assert!(insight.plain.contains(plain_has), "{op} ({text}): {}", insight.plain);
        assert_eq!(insight.rule, rule, "{op} ({text})");
    }

    #[test]
    fn each_refusal_of_the_partitioner_has_its_own_words() {
        let softmax = "dim must be the last dim, got dim = 1 for tensor of rank 4";
        check("aten._softmax.default", "constraint", softmax, "last dimension only", Some("dd-001"));
        check("aten::_softmax.out", "constraint", softmax, "last dimension only", Some("dd-001"));
        let pool = "aten.avg_pool2d.default";
        check(pool, "constraint", "ceil mode is not supported", "ceil_mode", Some("dd-003"));
        check(pool, "constraint", "divisor override is not supported", "divisor", Some("dd-003"));
        let padded = "zero-padding in the averaging calculation is not supported";
        check(pool, "constraint", padded, "counts padded zeros", Some("dd-003"));
        let max_pool = "aten.max_pool2d.default";
        check(
            max_pool,
            "constraint",
            "stride ([3, 3]) must be less than or equal to kernel size ([2, 2])",
            "stride",
            None,
        );
        check(max_pool, "constraint", "ceil mode is not supported for dynamic shapes", "rounds", None);
        check("aten.mean.dim", "constraint", "mean.dim only supports keepdim=True", "keepdim", None);
        let rank = "mean.dim only supports averaging 4D tensors, got tensor of rank 3";
        check("aten.mean.dim", "constraint", rank, "global pooling", None);
        check("aten.pow.Tensor_Scalar", "constraint", "only support int powers, got 2.0", "2.0", None);
        check("aten.slice_copy.Tensor", "constraint", "output tensor has invalid shape", "step 1", None);
        check(
            "aten.unsqueeze_copy.default",
            "constraint",
            "only supported on the trailing dimension",
            "at the end",
            None,
        );
        check("aten.view_copy.default", "constraint", "Symbolic reshape is not supported.", "dynamic shape", None);
        check("aten.gelu.default", "constraint", "GELU does not support fp16", "half-precision", None);
        check(
            "aten.cat.default",
            "constraint",
            "only support concatenation of > 2 tensors, got 1 tensors",
            "counts once",
            None,
        );
        check("aten.add.Tensor", "constraint", "Add node doesn't support alpha != 1", "alpha", None);
        check("aten.convolution.default", "constraint", "Only support 1D + 2D Conv", "3-D", None);
        check("aten.convolution.default", "constraint", "Expected weight to be a static param", "weight norm", None);
        check("aten.mm.default", "constraint", "Expected weight to be a static param", "tied embedding", None);
        check("aten.alias_copy.default", "no-config", "no config for alias_copy", "does nothing", Some("dd-002"));
        check("aten.native_layer_norm.default", "no-config", "", "no layer norm", None);
        check("dim_order_ops._to_dim_order_copy.default", "constraint", "dtype conversion", "dtypes", None);
    }

    #[test]
    fn a_dtype_reason_outranks_the_op() {
        check("aten.add.Tensor", "dtype", "invalid dtype", "float32 and float16", None);
        check("aten.add.Tensor", "dtype", "add does not support mixed input dtypes", "different dtypes", None);
        check("aten._softmax.default", "dtype", "invalid dtype", "float32 and float16", None);
    }

    #[test]
    fn what_the_table_does_not_know_still_gets_an_answer() {
        check("aten.cumsum.default", "no-config", "", "does not know `cumsum`", None);
        check("aten.sigmoid.default", "constraint", "something new", "not in this form", None);
        check("aten.clone.default", "inserted-after-partitioning", "", "after the partitioner", None);
        check("", "unknown", "", "gave no reason", None);
        check("....", "", "", "gave no reason", None);
        let known = Reason { text: "It came late".to_owned(), ..reason("inserted-after-partitioning", "") };
        assert_eq!(explain("aten.clone.default", &known).plain, "It came late");
    }

    #[test]
    fn texts_are_sentences_without_a_final_stop() {
        for case in CASES {
            for text in [Some(case.plain), case.fix].into_iter().flatten() {
                assert!(!text.ends_with('.') && text.starts_with(char::is_uppercase), "{text}");
            }
            assert!(case.words.iter().all(|word| *word == word.to_lowercase()), "{:?}", case.words);
        }
    }
}
