//! Elementwise operators: broadcasting, type promotion, and the layout that follows the operands.

use std::cmp::Ordering;

use super::super::{Dim, ScalarType, TensorMeta};
use super::ShapeError;
use super::arguments::{Call, Number};
use super::layout::{
    channels_last_strides, contiguous_strides, is_channels_last, is_contiguous, is_dense, strides_in_order,
};

type Outputs = Result<Vec<TensorMeta>, ShapeError>;

/// How the element type of the result follows from those of the operands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Promotion {
    /// the common type
    Numbers,
    /// the common type, which may not be boolean
    NoBool,
    /// the common type, integers as floats
    Float,
    /// the common type, which must be floating
    OnlyFloat,
    /// boolean
    Comparison,
}

/// An operand: a tensor, or a Python number.
enum Operand<'a> {
    Tensor(&'a TensorMeta),
    Number(Number),
}

impl Operand<'_> {
    fn is_bool(&self) -> bool {
        match self {
            Self::Tensor(tensor) => tensor.dtype == ScalarType::Bool,
            Self::Number(number) => *number == Number::Bool,
        }
    }
}

fn operand<'a>(call: &Call<'a>, name: &str) -> Result<Operand<'a>, ShapeError> {
    match call.tensor(name) {
        Ok(tensor) => Ok(Operand::Tensor(tensor)),
        Err(_) => Ok(Operand::Number(call.number(name)?)),
    }
}

pub(super) fn binary(call: &Call<'_>, promotion: Promotion) -> Outputs {
    let other = if call.op.starts_with("aten.pow.") { "exponent" } else { "other" };
    let operands = [operand(call, "self")?, operand(call, other)?];
    let common = common_type(call, &operands)?;
    let dtype = result_type(call, common, promotion)?;
    if call.op.starts_with("aten.sub.") && operands.iter().any(Operand::is_bool) {
        return Err(call.invalid("it takes no booleans"));
    }
    if call.op.starts_with("aten.pow.") {
        // Kernels and fake tensors disagree about these.
        if common == ScalarType::Bool {
            return Err(call.undecided("a power of booleans"));
        }
        if call.tensors().any(|tensor| tensor.dtype != common && !is_contiguous(tensor)) {
            return Err(call.undecided("the layout of a power of several types"));
        }
    }
    let is_sum = ["aten.add.", "aten.sub."].iter().any(|prefix| call.op.starts_with(prefix));
    if is_sum && call.number("alpha")? == Number::Float && !dtype.is_floating() {
        return Err(call.invalid("a float `alpha` for integers"));
    }
    if let (true, Operand::Number(Number::Int(exponent))) = (call.op.starts_with("aten.pow."), &operands[1])
        && *exponent < 0
        && !dtype.is_floating()
    {
        return Err(call.invalid("integers to a negative power"));
    }
    let computed = if promotion == Promotion::Comparison { common } else { dtype };
    spread(call, &operands, computed, dtype)
}

pub(super) fn div_mode(call: &Call<'_>) -> Outputs {
    let operands = [operand(call, "self")?, operand(call, "other")?];
    let promotion = if call.is_none("rounding_mode")? {
        Promotion::Float
    } else {
        // Kernels and fake tensors disagree about the layout of the others.
        if !call.tensors().all(is_contiguous) {
            return Err(call.undecided("the layout of a rounded quotient"));
        }
        Promotion::NoBool
    };
    let dtype = promoted(call, &operands, promotion)?;
    spread(call, &operands, dtype, dtype)
}

pub(super) fn unary(call: &Call<'_>, promotion: Promotion) -> Outputs {
    let operands = [Operand::Tensor(call.tensor("self")?)];
    let dtype = promoted(call, &operands, promotion)?;
    spread(call, &operands, dtype, dtype)
}

pub(super) fn clamp(call: &Call<'_>) -> Outputs {
    let mut operands = vec![Operand::Tensor(call.tensor("self")?)];
    for bound in ["min", "max"] {
        if !call.is_none(bound)? {
            operands.push(Operand::Number(call.number(bound)?));
        }
    }
    if operands.len() == 1 {
        return Err(call.invalid("neither `min` nor `max`"));
    }
    let dtype = promoted(call, &operands, Promotion::NoBool)?;
    spread(call, &operands, dtype, dtype)
}

pub(super) fn where_self(call: &Call<'_>) -> Outputs {
    let condition = call.tensor("condition")?;
    if condition.dtype != ScalarType::Bool {
        return Err(call.invalid("the condition is not boolean"));
    }
    let operands = [operand(call, "self")?, operand(call, "other")?];
    let dtype = promoted(call, &operands, Promotion::Numbers)?;
    let [this, other] = operands;
    spread(call, &[Operand::Tensor(condition), this, other], dtype, dtype)
}

/// The result of type `dtype`, computed in type `computed`.
fn spread(call: &Call<'_>, operands: &[Operand<'_>], computed: ScalarType, dtype: ScalarType) -> Outputs {
    let tensors: Vec<&TensorMeta> = operands
        .iter()
        .filter_map(|operand| match operand {
            Operand::Tensor(tensor) => Some(*tensor),
            Operand::Number(_) => None,
        })
        .collect();
    let sizes = broadcast(call, &tensors)?;
    // On the CPU an operand of another type is first copied, which closes its gaps and overlaps.
    let mut copies: Vec<TensorMeta> = Vec::with_capacity(tensors.len());
    for (position, tensor) in tensors.iter().enumerate() {
        let condition = position == 0 && call.op == "aten.where.self";
        let mut copy = TensorMeta::clone(tensor);
        if tensor.dtype != computed && tensor.device == "cpu" && !condition {
            copy.strides = strides(call, &[tensor], &tensor.sizes)?;
        }
        copies.push(copy);
    }
    let strides = strides(call, &copies.iter().collect::<Vec<_>>(), &sizes)?;
    // A scalar tensor follows the others to their device.
    let main = tensors.iter().find(|tensor| !tensor.sizes.is_empty()).or(tensors.first());
    let main = main.ok_or_else(|| call.invalid("no tensor"))?;
    if tensors.iter().any(|tensor| !tensor.sizes.is_empty() && tensor.device != main.device) {
        return Err(call.invalid("tensors on different devices"));
    }
    Ok(vec![TensorMeta { dtype, sizes, strides, storage_offset: Dim::Fixed(0), ..(*main).clone() }])
}

/// The common sizes.
pub(super) fn broadcast(call: &Call<'_>, tensors: &[&TensorMeta]) -> Result<Vec<Dim>, ShapeError> {
    let rank = tensors.iter().map(|tensor| tensor.sizes.len()).max().unwrap_or_default();
    let mut sizes = vec![Dim::Fixed(1); rank];
    for tensor in tensors {
        for (size, other) in sizes.iter_mut().rev().zip(tensor.sizes.iter().rev()) {
            match (&*size, other) {
                (Dim::Fixed(1), other) => *size = other.clone(),
                (_, Dim::Fixed(1)) => {}
                (a, b) if a.same(b) => {}
                (Dim::Fixed(a), Dim::Fixed(b)) => {
                    return Err(call.invalid(format!("sizes {a} and {b} do not broadcast")));
                }
                _ => return Err(call.undecided("whether symbolic sizes broadcast")),
            }
        }
    }
    Ok(sizes)
}

/// The strides of a new tensor that is computed elementwise from `tensors`.
pub(super) fn strides(call: &Call<'_>, tensors: &[&TensorMeta], sizes: &[Dim]) -> Result<Vec<Dim>, ShapeError> {
    let symbolic = || call.undecided("a layout depends on symbolic sizes");
    let same_sizes = |tensor: &&TensorMeta| {
        tensor.sizes.len() == sizes.len() && tensor.sizes.iter().zip(sizes).all(|(a, b)| a.same(b))
    };
    let all_same = tensors.iter().all(same_sizes);
    if all_same && tensors.iter().all(|tensor| is_contiguous(tensor)) {
        return contiguous_strides(sizes).ok_or_else(symbolic);
    }
    if all_same && tensors.iter().all(|tensor| is_channels_last(tensor)) {
        return channels_last_strides(sizes).ok_or_else(symbolic);
    }
    if all_same && let Some(first) = tensors.first() {
        let alike = tensors.iter().all(|tensor| tensor.strides.iter().zip(&first.strides).all(|(a, b)| a.same(b)));
        if alike
            && tensors.iter().try_fold(true, |all, tensor| is_dense(tensor).map(|dense| all && dense)) == Some(true)
        {
            return Ok(first.strides.clone());
        }
    }
    if tensors.iter().all(|tensor| is_contiguous(tensor)) && !all_same {
        // Row major operands of different sizes: each axis order is as it is, whatever is broadcast.
        return ordered(call, tensors, sizes).or_else(|error| {
            let symbolic_only = sizes.iter().any(|size| size.fixed().is_none());
            if symbolic_only { contiguous_strides(sizes).ok_or(error) } else { Err(error) }
        });
    }
    ordered(call, tensors, sizes)
}

/// torch's sort of the axes by the operands' strides, innermost first; axes that it cannot tell apart
/// stay in row-major order.
fn ordered(call: &Call<'_>, tensors: &[&TensorMeta], sizes: &[Dim]) -> Result<Vec<Dim>, ShapeError> {
    let rank = sizes.len();
    let extents = call.all_fixed(sizes)?;
    let mut operands: Vec<Vec<i64>> = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let (own_sizes, own_strides) = (call.all_fixed(&tensor.sizes)?, call.all_fixed(&tensor.strides)?);
        let missing = rank.saturating_sub(own_sizes.len());
        let mut strides = vec![0; missing];
        for ((size, stride), extent) in own_sizes.iter().zip(&own_strides).zip(extents.iter().skip(missing)) {
            strides.push(if *size == 1 && *extent != 1 { 0 } else { *stride });
        }
        operands.push(strides);
    }
    let at = |list: &[i64], axis: usize| list.get(axis).copied().unwrap_or_default();
    let compare = |a: usize, b: usize| -> Ordering {
        for strides in &operands {
            let (stride_a, stride_b) = (at(strides, a), at(strides, b));
            if stride_a == 0 || stride_b == 0 {
                continue;
            }
            match stride_a.cmp(&stride_b) {
                Ordering::Equal if at(&extents, a) > at(&extents, b) => return Ordering::Greater,
                Ordering::Equal => {}
                decided => return decided,
            }
        }
        Ordering::Equal
    };
    let mut order: Vec<usize> = (0..rank).rev().collect();
    for start in 1..rank {
        let mut moving = start;
        for other in (0..start).rev() {
            let (Some(a), Some(b)) = (order.get(other).copied(), order.get(moving).copied()) else { break };
            match compare(a, b) {
                Ordering::Greater => {
                    order.swap(other, moving);
                    moving = other;
                }
                Ordering::Less => break,
                Ordering::Equal => {}
            }
        }
    }
    let row_major = order.iter().copied().eq((0..rank).rev());
    let overlaps = |tensor: &&TensorMeta| {
        let repeats = |(size, stride): (&Dim, &Dim)| size.fixed() != Some(1) && stride.fixed() == Some(0);
        tensor.sizes.iter().zip(&tensor.strides).any(repeats)
    };
    let plain = row_major && tensors.iter().all(|tensor| overlaps(tensor) || is_contiguous(tensor));
    if !plain && tensors.len() > 1 && tensors.iter().any(overlaps) {
        // Kernels and fake tensors disagree about these.
        return Err(call.undecided("the layout of operands that repeat elements"));
    }
    strides_in_order(sizes, &order).ok_or_else(|| call.invalid("the sizes overflow"))
}

/// The common type of tensors alone.
pub(super) fn promote_all(call: &Call<'_>, tensors: &[&TensorMeta]) -> Result<ScalarType, ShapeError> {
    let operands: Vec<Operand<'_>> = tensors.iter().map(|tensor| Operand::Tensor(tensor)).collect();
    promoted(call, &operands, Promotion::Numbers)
}

fn promoted(call: &Call<'_>, operands: &[Operand<'_>], promotion: Promotion) -> Result<ScalarType, ShapeError> {
    result_type(call, common_type(call, operands)?, promotion)
}

fn result_type(call: &Call<'_>, common: ScalarType, promotion: Promotion) -> Result<ScalarType, ShapeError> {
    match promotion {
        Promotion::Comparison => Ok(ScalarType::Bool),
        Promotion::Float if !common.is_floating() => Ok(ScalarType::Float32),
        Promotion::OnlyFloat if !common.is_floating() => Err(call.invalid("it takes floats only")),
        Promotion::NoBool if common == ScalarType::Bool => Err(call.invalid("it takes no booleans")),
        _ => Ok(common),
    }
}

fn common_type(call: &Call<'_>, operands: &[Operand<'_>]) -> Result<ScalarType, ShapeError> {
    let open = || call.undecided("the promotion of these element types");
    // Tensors with axes come before scalar tensors, and those before Python numbers.
    let mut ranks: [Option<ScalarType>; 3] = [None; 3];
    for operand in operands {
        let (rank, dtype) = match operand {
            Operand::Tensor(tensor) => (usize::from(tensor.sizes.is_empty()), tensor.dtype),
            Operand::Number(Number::Bool) => (2, ScalarType::Bool),
            Operand::Number(Number::Int(_)) => (2, ScalarType::Int64),
            Operand::Number(Number::Float) => (2, ScalarType::Float32),
        };
        if let Some(slot) = ranks.get_mut(rank) {
            *slot = Some(match *slot {
                None => dtype,
                Some(other) => promote(other, dtype).ok_or_else(open)?,
            });
        }
    }
    let combine = |higher: Option<ScalarType>, lower: Option<ScalarType>| match (higher, lower) {
        (Some(higher), Some(lower)) => {
            if higher.is_floating() {
                Ok(Some(higher))
            } else if higher == ScalarType::Bool || lower.is_floating() {
                promote(higher, lower).map(Some).ok_or_else(open)
            } else {
                Ok(Some(higher))
            }
        }
        (higher, lower) => Ok(higher.or(lower)),
    };
    let dtype = combine(ranks[0], combine(ranks[1], ranks[2])?)?.ok_or_else(|| call.invalid("no operand"))?;
    if matches!(dtype, ScalarType::Complex64 | ScalarType::Complex128 | ScalarType::Other(_)) {
        return Err(open());
    }
    Ok(dtype)
}

/// The smallest type that holds both, as torch defines it.
fn promote(a: ScalarType, b: ScalarType) -> Option<ScalarType> {
    use ScalarType::{BFloat16, Bool, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8};
    if a == b {
        return Some(a);
    }
    let integers = [Int8, Int16, Int32, Int64];
    let rank = |dtype| integers.iter().position(|other| *other == dtype);
    Some(match (a, b) {
        (Bool, other) | (other, Bool) => other,
        (a, b) if a.is_floating() && b.is_floating() => match (a, b) {
            (Float64, _) | (_, Float64) => Float64,
            (Float32, _) | (_, Float32) | (Float16, BFloat16) | (BFloat16, Float16) => Float32,
            _ => return None,
        },
        (a, b) if a.is_floating() && (rank(b).is_some() || b == UInt8) => a,
        (a, b) if b.is_floating() && (rank(a).is_some() || a == UInt8) => b,
        (UInt8, other) | (other, UInt8) => match other {
            Int8 => Int16,
            other if rank(other).is_some() => other,
            _ => return None,
        },
        (a, b) => {
            let (left, right) = (rank(a)?, rank(b)?);
            if left > right { a } else { b }
        }
    })
}
