//! torch's type promotion and broadcasting.

use super::Error;
use super::arguments::{Call, Operand};
use super::array::Array;
use crate::graph::ScalarType;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    Bool,
    Integer,
    Float,
}

fn category(dtype: ScalarType) -> Category {
    if dtype.is_floating() {
        Category::Float
    } else if dtype == ScalarType::Bool {
        Category::Bool
    } else {
        Category::Integer
    }
}

fn width(dtype: ScalarType) -> u8 {
    match dtype {
        ScalarType::Bool => 0,
        ScalarType::UInt8 | ScalarType::Int8 => 1,
        ScalarType::Int16 => 2,
        ScalarType::Int32 => 3,
        ScalarType::Int64 => 4,
        ScalarType::Float16 | ScalarType::BFloat16 => 5,
        ScalarType::Float32 => 6,
        _ => 7,
    }
}

/// The narrowest type that holds both.
pub(super) fn promote(a: ScalarType, b: ScalarType) -> ScalarType {
    use ScalarType::{BFloat16, Float16, Float32, Int8, Int16, UInt8};
    match (a, b) {
        _ if a == b => a,
        (UInt8, Int8) | (Int8, UInt8) => Int16,
        (Float16, BFloat16) | (BFloat16, Float16) => Float32,
        _ if width(a) >= width(b) => a,
        _ => b,
    }
}

/// The element type of a result: tensors with dimensions decide, then those without, then numbers.
pub(super) fn result_type(operands: &[&Operand]) -> ScalarType {
    let mut levels: [Option<ScalarType>; 3] = [None; 3];
    for operand in operands {
        let (level, dtype) = match operand {
            Operand::Tensor(array) if array.rank() > 0 => (0, array.dtype()),
            Operand::Tensor(array) => (1, array.dtype()),
            Operand::Scalar(scalar) => (2, scalar.dtype()),
        };
        let slot = &mut levels[level];
        *slot = Some(slot.map_or(dtype, |known| promote(known, dtype)));
    }
    levels
        .into_iter()
        .flatten()
        .reduce(|higher, lower| if category(lower) > category(higher) { promote(higher, lower) } else { higher })
        .unwrap_or(ScalarType::Float32)
}

/// The type of float arithmetic on `dtype`: itself, or single for integers.
pub(super) fn float_type(dtype: ScalarType) -> ScalarType {
    if dtype.is_floating() { dtype } else { ScalarType::Float32 }
}

/// The common sizes of two operands.
pub(super) fn broadcast_sizes(call: &Call<'_>, a: &[usize], b: &[usize]) -> Result<Vec<usize>, Error> {
    let rank = a.len().max(b.len());
    let at = |sizes: &[usize], i: usize| (i + sizes.len()).checked_sub(rank).and_then(|i| sizes.get(i)).copied();
    let mut sizes = Vec::with_capacity(rank);
    for i in 0..rank {
        match (at(a, i).unwrap_or(1), at(b, i).unwrap_or(1)) {
            (x, y) if x == y => sizes.push(x),
            (1, y) => sizes.push(y),
            (x, 1) => sizes.push(x),
            _ => return Err(call.mismatch(format!("sizes {a:?} and {b:?} do not broadcast"))),
        }
    }
    call.allow(&sizes)?;
    Ok(sizes)
}

/// Two operands as tensors of one type.
pub(super) fn common(call: &Call<'_>, a: &Operand, b: &Operand) -> (Array, Array) {
    let dtype = result_type(&[a, b]);
    (a.cast(dtype, call.precision), b.cast(dtype, call.precision))
}

#[cfg(test)]
mod tests {
    use super::super::Precision;
    use super::super::arguments::Scalar;
    use super::*;

    #[test]
    fn numbers_widen_only_to_another_category() {
        let tensor =
            |sizes: &[usize], dtype| Operand::Tensor(Array::filled(sizes, Scalar::Int(1), dtype, Precision::Torch));
        let check = |a: &Operand, b: &Operand, expected| assert_eq!(result_type(&[a, b]), expected);
        check(&tensor(&[2], ScalarType::Float16), &Operand::Scalar(Scalar::Float(0.5)), ScalarType::Float16);
        check(&tensor(&[2], ScalarType::Int8), &Operand::Scalar(Scalar::Int(500)), ScalarType::Int8);
        check(&tensor(&[2], ScalarType::Int8), &Operand::Scalar(Scalar::Float(0.5)), ScalarType::Float32);
        check(&tensor(&[2], ScalarType::Float32), &tensor(&[], ScalarType::Float64), ScalarType::Float32);
        check(&tensor(&[2], ScalarType::Int64), &tensor(&[], ScalarType::Float64), ScalarType::Float64);
        check(&tensor(&[2], ScalarType::Bool), &tensor(&[], ScalarType::UInt8), ScalarType::UInt8);
        check(&tensor(&[2], ScalarType::BFloat16), &tensor(&[1], ScalarType::Float16), ScalarType::Float32);
        check(&tensor(&[2], ScalarType::Int8), &tensor(&[1], ScalarType::UInt8), ScalarType::Int16);
    }
}
