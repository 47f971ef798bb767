//! Tensors out of nothing.

use super::arguments::{Call, Scalar};
use super::array::{Array, Data, shaped};
use super::{Error, Table};
use crate::graph::ScalarType;

pub(super) const OPS: Table = &[
    ("aten.full.default", full),
    ("aten.ones.default", ones),
    ("aten.zeros.default", zeros),
    ("aten.new_full.default", new_full),
    ("aten.new_ones.default", ones),
    ("aten.new_zeros.default", zeros),
    ("aten.full_like.default", full_like),
    ("aten.ones_like.default", ones_like),
    ("aten.zeros_like.default", zeros_like),
    ("aten.scalar_tensor.default", scalar_tensor),
    ("aten.arange.default", arange),
    ("aten.arange.start", arange),
    ("aten.arange.start_step", arange),
];

/// `value` in the sizes of the argument `size`, in the asked type, that of `self`, or `fallback`.
fn filled(call: &Call<'_>, value: Scalar, fallback: ScalarType) -> Result<Vec<Array>, Error> {
    let sizes = call.sizes("size")?;
    call.allow(&sizes)?;
    let own = call.optional_tensor("self")?.map(Array::dtype);
    let dtype = call.dtype("dtype")?.or(own).unwrap_or(fallback);
    Ok(vec![Array::filled(&sizes, value, dtype, call.precision)])
}

fn full(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let value = call.scalar("fill_value", Scalar::Int(0))?;
    filled(call, value, value.dtype())
}

fn new_full(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    filled(call, call.scalar("fill_value", Scalar::Int(0))?, ScalarType::Float32)
}

fn ones(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    filled(call, Scalar::Int(1), ScalarType::Float32)
}

fn zeros(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    filled(call, Scalar::Int(0), ScalarType::Float32)
}

fn like(call: &Call<'_>, value: Scalar) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let dtype = call.dtype("dtype")?.unwrap_or(array.dtype());
    Ok(vec![Array::filled(array.sizes(), value, dtype, call.precision)])
}

fn full_like(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    like(call, call.scalar("fill_value", Scalar::Int(0))?)
}

fn ones_like(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    like(call, Scalar::Int(1))
}

fn zeros_like(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    like(call, Scalar::Int(0))
}

fn scalar_tensor(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let dtype = call.dtype("dtype")?.unwrap_or(ScalarType::Float32);
    Ok(vec![Array::filled(&[], call.scalar("s", Scalar::Int(0))?, dtype, call.precision)])
}

fn arange(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let start = call.scalar("start", Scalar::Int(0))?;
    let end = call.scalar("end", Scalar::Int(0))?;
    let step = call.scalar("step", Scalar::Int(1))?;
    if step.double() == 0.0 {
        return Err(call.bad("step", "it must not be zero"));
    }
    let count = ((end.double() - start.double()) / step.double()).ceil();
    if count.is_nan() || count < 0.0 {
        return Err(call.bad("end", "the range is empty in the direction of `step`"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be small and positive")]
    let length = if count < 9e15 { count as usize } else { usize::MAX };
    call.allow(&[length])?;
    let refused = || call.mismatch("the range does not fit");
    let array = match (start, step, end) {
        (Scalar::Int(start), Scalar::Int(step), Scalar::Int(_)) => {
            let values = (0..length)
                .map(|i| start.wrapping_add(step.wrapping_mul(i64::try_from(i).unwrap_or(i64::MAX))))
                .collect();
            Array::moved(ScalarType::Int64, Data::I64(shaped(&[length], values).ok_or_else(refused)?))
        }
        _ => {
            #[expect(clippy::cast_precision_loss, reason = "counts stay below the limit")]
            let values = (0..length).map(|i| start.double() + step.double() * i as f64).collect();
            let doubles = Array::moved(ScalarType::Float64, Data::F64(shaped(&[length], values).ok_or_else(refused)?));
            doubles.cast(call.dtype("dtype")?.unwrap_or(ScalarType::Float32), call.precision)
        }
    };
    Ok(vec![match call.dtype("dtype")? {
        Some(dtype) => array.cast(dtype, call.precision),
        None => array,
    }])
}
