//! The reference interpreter: evaluates graph nodes on the host, independently of torch and of any
//! backend.
//!
//! In: nodes and the values they read. Out: the values they make, in the arithmetic torch uses on the
//! CPU ([`Precision::Torch`]) or in doubles from the same inputs ([`Precision::Judge`]). It is a table
//! from operation to function; what the table does not name is [`Error::Unsupported`].
//!
//! Invariants: the result of an element depends only on the elements it is computed from and their
//! order, never on how the tensor is laid out, how large it is or how many threads there are; so two
//! graphs that do the same arithmetic in the same order agree bit for bit. Nothing panics on sizes or
//! arguments that do not fit: that is an error with the operation's name.
//!
//! Against eager PyTorch on random sizes, types and arguments every operation stays below 6e-7 of the
//! largest element of its result in singles and below 6e-16 in doubles; what only moves elements agrees
//! bit for bit.
//!
//! To add an operation: write the function in its family's file, name it in the family's `OPS`, and add
//! cases to the comparison with torch in the `tests` package.

mod activation;
mod arguments;
mod arithmetic;
mod array;
mod convolution;
mod creation;
mod effort;
mod indexing;
mod layout;
mod matmul;
mod normalization;
mod padding;
mod pointwise;
mod pooling;
mod promotion;
mod reduction;
mod resize;
mod run;
mod selection;
mod softmax;

use std::collections::HashMap;
use std::sync::OnceLock;

pub use arguments::{Item, Scalar};
pub use array::{Array, Data, Nd};
pub use effort::{Work, effort};
pub use run::{Delegate, Environment, Run, in_place_base, run};

use arguments::Call;

/// The arithmetic floats are evaluated in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// as torch's CPU kernels: singles, halves rounded after every operation, doubles as doubles
    Torch,
    /// doubles for every float type, nothing rounded: what the other arithmetic is judged by
    Judge,
}

/// Why something could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// not in the table, or not in this form
    #[error("The reference interpreter has no `{op}`")]
    Unsupported {
        /// operation, with the form where that matters
        op: String,
    },
    /// in the table, but not for this element type
    #[error("The reference interpreter has no `{op}` for element type `{dtype}`")]
    Dtype {
        /// operation
        op: String,
        /// torch's name
        dtype: String,
    },
    /// an argument is missing or has the wrong type or range
    #[error("`{op}` cannot be evaluated: argument `{argument}`: {reason}")]
    Argument {
        /// operation
        op: String,
        /// argument name
        argument: String,
        /// what is wrong with it
        reason: String,
    },
    /// sizes do not fit each other
    #[error("`{op}` cannot be evaluated: {reason}")]
    Shape {
        /// operation
        op: String,
        /// which sizes
        reason: String,
    },
    /// the result would be larger than allowed
    #[error("`{op}` would make a tensor of more than {limit} elements")]
    TooLarge {
        /// operation
        op: String,
        /// limit in force
        limit: usize,
    },
    /// a node reads a value nobody gave
    #[error("`{op}` reads `{value}`, which was not given")]
    MissingValue {
        /// operation
        op: String,
        /// value id
        value: String,
    },
    /// the delegate failed at an operation that the table does not name
    #[error("`{op}` was evaluated outside of the interpreter and failed: {reason}")]
    Delegate {
        /// operation
        op: String,
        /// the delegate's words
        reason: String,
    },
    /// the user stopped the tool
    #[error("Interrupted")]
    Interrupted,
}

type Operation = fn(&Call<'_>) -> Result<Vec<Array>, Error>;
type Table = &'static [(&'static str, Operation)];

/// Largest number of elements of one result, unless the caller says otherwise.
pub const DEFAULT_LIMIT: usize = 1 << 28;

fn table() -> &'static HashMap<&'static str, Operation> {
    static TABLE: OnceLock<HashMap<&'static str, Operation>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let families: [Table; 15] = [
            activation::OPS,
            arithmetic::OPS,
            convolution::OPS,
            creation::OPS,
            indexing::OPS,
            layout::OPS,
            matmul::OPS,
            normalization::OPS,
            padding::OPS,
            pointwise::OPS,
            pooling::OPS,
            reduction::OPS,
            resize::OPS,
            selection::OPS,
            softmax::OPS,
        ];
        families.into_iter().flatten().copied().collect()
    })
}

/// True when the table names the operation (in-place spellings included).
pub fn supports(op: &str) -> bool {
    table().contains_key(op) || in_place_base(op).is_some_and(|base| table().contains_key(base.as_str()))
}

/// Every operation of the table, sorted.
pub fn operations() -> Vec<&'static str> {
    let mut names: Vec<_> = table().keys().copied().collect();
    names.sort_unstable();
    names
}

/// Evaluates one call. In-place spellings (`aten.relu_.default`) give the new content and change
/// nothing else.
///
/// # Errors
/// Unknown operations; arguments, sizes and element types that do not fit.
pub fn evaluate(op: &str, args: &[(String, Item)], precision: Precision, limit: usize) -> Result<Vec<Array>, Error> {
    let base = in_place_base(op);
    let function = table()
        .get(op)
        .or_else(|| base.as_deref().and_then(|base| table().get(base)))
        .ok_or_else(|| Error::Unsupported { op: op.to_owned() })?;
    let results = function(&Call { op, args, precision, limit })?;
    match (&base, args.first(), results.as_slice()) {
        // An in-place operation keeps the element type of what it writes into.
        (Some(_), Some((_, Item::Tensor(target))), [result]) if result.dtype() != target.dtype() => {
            Ok(vec![result.cast(target.dtype(), precision)])
        }
        _ => Ok(results),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::{Literal, ScalarType};

    /// Every argument name of the table.
    const NAMES: &[&str] = &[
        "self",
        "input",
        "other",
        "size",
        "shape",
        "dim",
        "dims",
        "dim0",
        "dim1",
        "start",
        "end",
        "step",
        "index",
        "indices",
        "weight",
        "bias",
        "kernel_size",
        "stride",
        "padding",
        "dilation",
        "groups",
        "pad",
        "value",
        "output_size",
        "scale_factors",
        "tensors",
        "split_size",
        "split_sizes",
        "chunks",
        "repeats",
        "shifts",
        "start_dim",
        "end_dim",
        "sizes",
        "normalized_shape",
        "num_groups",
        "running_mean",
        "running_var",
        "eps",
        "exponent",
        "min",
        "max",
        "condition",
        "mask",
        "alpha",
        "mat1",
        "mat2",
        "batch1",
        "batch2",
        "query",
        "key",
        "fill_value",
        "ceil_mode",
        "divisor_override",
        "keepdim",
        "dtype",
        "length",
        "rounding_mode",
        "mode",
    ];

    fn array() -> impl Strategy<Value = Array> {
        let dtype = prop::sample::select(vec![
            ScalarType::Float32,
            ScalarType::Float16,
            ScalarType::Float64,
            ScalarType::Int64,
            ScalarType::UInt8,
            ScalarType::Bool,
        ]);
        (prop::collection::vec(0_usize..4, 0..5), dtype, -3_i64..4)
            .prop_map(|(sizes, dtype, value)| Array::filled(&sizes, Scalar::Int(value), dtype, Precision::Torch))
    }

    fn item() -> impl Strategy<Value = Item> {
        let number = prop_oneof![-4_i64..5, Just(i64::MAX), Just(i64::MIN), Just(1 << 40)];
        let small = prop::collection::vec(-2_i64..6, 0..5);
        prop_oneof![
            5 => array().prop_map(Item::Tensor),
            1 => prop::collection::vec(array(), 0..3).prop_map(Item::Tensors),
            3 => number.clone().prop_map(|n| Item::Literal(Literal::Int(n))),
            4 => small.prop_map(|list| Item::Literal(Literal::Ints(list))),
            1 => prop::collection::vec(number, 0..5).prop_map(Item::Ints),
            1 => any::<f64>().prop_map(|x| Item::Literal(Literal::Float(x))),
            1 => any::<bool>().prop_map(|x| Item::Literal(Literal::Bool(x))),
            1 => prop::sample::select(vec!["floor", "same", "reflect", "circular", "odd"])
                .prop_map(|text| Item::Literal(Literal::Text(text.to_owned()))),
            1 => Just(Item::Literal(Literal::ScalarType(ScalarType::Float16))),
            1 => Just(Item::Literal(Literal::None)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn no_arguments_are_too_odd_for_any_operation(
            first in array(),
            items in prop::collection::vec(item(), NAMES.len()),
            judge in any::<bool>(),
        ) {
            let mut args: Vec<(String, Item)> =
                NAMES.iter().map(|name| (*name).to_owned()).zip(items).collect();
            if let Some((_, item)) = args.first_mut() {
                *item = Item::Tensor(first);
            }
            let precision = if judge { Precision::Judge } else { Precision::Torch };
            for op in operations() {
                for result in evaluate(op, &args, precision, 10_000).unwrap_or_default() {
                    prop_assert!(result.count() <= 10_000);
                }
            }
        }
    }

    #[test]
    fn names_of_operations_are_distinct() {
        let names = operations();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(supports("aten.relu_.default") && !supports("aten.sort.default"));
    }
}
