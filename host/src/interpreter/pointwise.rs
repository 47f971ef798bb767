//! Functions of one tensor, element by element, and the choice between two.

use ndarray::Zip;

use super::arguments::{Call, Operand};
use super::array::{Array, Data, Element, Nd, Real, by_element};
use super::layout::broadcast;
use super::promotion::{broadcast_sizes, common, float_type};
use super::{Error, Table};
use crate::graph::ScalarType;

pub(super) const OPS: Table = &[
    ("aten.abs.default", abs),
    ("aten.neg.default", neg),
    ("aten.sign.default", sign),
    ("aten.exp.default", exp),
    ("aten.expm1.default", expm1),
    ("aten.log.default", log),
    ("aten.log1p.default", log1p),
    ("aten.log2.default", log2),
    ("aten.sqrt.default", sqrt),
    ("aten.rsqrt.default", rsqrt),
    ("aten.reciprocal.default", reciprocal),
    ("aten.square.default", square),
    ("aten.sin.default", sin),
    ("aten.cos.default", cos),
    ("aten.erf.default", erf),
    ("aten.floor.default", floor),
    ("aten.ceil.default", ceil),
    ("aten.round.default", round),
    ("aten.trunc.default", trunc),
    ("aten.isnan.default", isnan),
    ("aten.isinf.default", isinf),
    ("aten.logical_not.default", logical_not),
    ("aten.bitwise_not.default", bitwise_not),
    ("aten.where.self", choose),
    ("aten.where.Scalar", choose),
    ("aten.where.ScalarSelf", choose),
    ("aten.where.ScalarOther", choose),
    ("aten.masked_fill.Scalar", masked_fill),
    ("aten.masked_fill.Tensor", masked_fill),
];

/// Applies a function to every element of a float array.
pub(super) fn map_real(
    call: &Call<'_>,
    array: &Array,
    single: impl Fn(f32) -> f32,
    double: impl Fn(f64) -> f64,
) -> Result<Array, Error> {
    let data = match array.data() {
        Data::F32(a) => Data::F32(a.mapv(single).into_shared()),
        Data::F64(a) => Data::F64(a.mapv(double).into_shared()),
        _ => return Err(call.unsupported_dtype(array.dtype())),
    };
    Ok(Array::computed(array.dtype(), data))
}

/// A generic function of one real as an operation; integers become singles first.
macro_rules! real_function {
    ($name:ident, $x:ident => $body:expr) => {
        fn $name(call: &Call<'_>) -> Result<Vec<Array>, Error> {
            fn function<T: Real>($x: T) -> T {
                $body
            }
            let array = call.tensor("self")?;
            let array = array.cast(float_type(array.dtype()), call.precision);
            Ok(vec![map_real(call, &array, function::<f32>, function::<f64>)?])
        }
    };
}

/// As [`real_function`], but integers stay what they are.
macro_rules! rounding_function {
    ($name:ident, $x:ident => $body:expr) => {
        fn $name(call: &Call<'_>) -> Result<Vec<Array>, Error> {
            fn function<T: Real>($x: T) -> T {
                $body
            }
            let array = call.tensor("self")?;
            if !array.dtype().is_floating() {
                return Ok(vec![array.clone()]);
            }
            Ok(vec![map_real(call, array, function::<f32>, function::<f64>)?])
        }
    };
}

real_function!(exp, x => x.exp());
real_function!(expm1, x => x.exp_m1());
real_function!(log, x => x.ln());
real_function!(log1p, x => x.ln_1p());
real_function!(log2, x => x.log2());
real_function!(sqrt, x => x.sqrt());
real_function!(rsqrt, x => x.sqrt().recip());
real_function!(reciprocal, x => x.recip());
real_function!(sin, x => x.sin());
real_function!(cos, x => x.cos());
real_function!(erf, x => x.erf());
rounding_function!(floor, x => x.floor());
rounding_function!(ceil, x => x.ceil());
rounding_function!(trunc, x => x.trunc());
rounding_function!(round, x => half_to_even(x));

/// Rounds halves to the even neighbour.
fn half_to_even<T: Real>(x: T) -> T {
    T::of_f64(x.double().round_ties_even())
}

/// A function that integers have too.
macro_rules! number_function {
    ($name:ident, $x:ident => $real:expr, $i:ident => $integer:expr) => {
        fn $name(call: &Call<'_>) -> Result<Vec<Array>, Error> {
            fn function<T: Real>($x: T) -> T {
                $real
            }
            let array = call.tensor("self")?;
            match array.storage::<i64>() {
                Some(a) => {
                    let data = Data::I64(a.mapv(|$i| $integer).into_shared());
                    Ok(vec![Array::computed(array.dtype(), data)])
                }
                None => Ok(vec![map_real(call, array, function::<f32>, function::<f64>)?]),
            }
        }
    };
}

number_function!(abs, x => x.abs(), i => i.wrapping_abs());
number_function!(neg, x => -x, i => i.wrapping_neg());
number_function!(square, x => x * x, i => i.wrapping_mul(i));
number_function!(sign, x => if x > T::zero() { T::one() } else if x < T::zero() { -T::one() } else { T::zero() }, i => i.signum());

/// A question about every element of a float array; integers answer `false`.
fn ask(call: &Call<'_>, single: fn(f32) -> bool, double: fn(f64) -> bool) -> Result<Vec<Array>, Error> {
    let answer = match call.tensor("self")?.data() {
        Data::F32(a) => a.mapv(single),
        Data::F64(a) => a.mapv(double),
        Data::I64(a) => a.mapv(|_| false),
        Data::Bool(a) => a.mapv(|_| false),
    };
    Ok(vec![Array::moved(ScalarType::Bool, Data::Bool(answer.into_shared()))])
}

fn isnan(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    ask(call, f32::is_nan, f64::is_nan)
}

fn isinf(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    ask(call, f32::is_infinite, f64::is_infinite)
}

fn logical_not(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let truth = call.tensor("self")?.cast(ScalarType::Bool, call.precision);
    invert(call, &truth)
}

fn bitwise_not(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    match array.storage::<i64>() {
        Some(a) => Ok(vec![Array::computed(array.dtype(), Data::I64(a.mapv(|x| !x).into_shared()))]),
        None => invert(call, array),
    }
}

fn invert(call: &Call<'_>, truth: &Array) -> Result<Vec<Array>, Error> {
    let a = truth.storage::<bool>().ok_or_else(|| call.unsupported_dtype(truth.dtype()))?;
    Ok(vec![Array::moved(ScalarType::Bool, Data::Bool(a.mapv(|x| !x).into_shared()))])
}

/// `yes` where `condition` holds, else `no`; all three broadcast.
fn chosen(call: &Call<'_>, condition: &Array, yes: &Array, no: &Array) -> Result<Array, Error> {
    fn one<E: Element>(condition: &Nd<bool>, yes: &Nd<E>, no: &Nd<E>) -> Nd<E> {
        Zip::from(condition).and(yes).and(no).map_collect(|&c, &y, &n| if c { y } else { n }).into_shared()
    }
    let sizes = broadcast_sizes(call, yes.sizes(), no.sizes())?;
    let sizes = broadcast_sizes(call, &sizes, condition.sizes())?;
    let condition = broadcast(call, condition, &sizes)?;
    let condition = condition.cast(ScalarType::Bool, call.precision);
    let (yes, no) = (broadcast(call, yes, &sizes)?, broadcast(call, no, &sizes)?);
    let condition = condition.storage::<bool>().ok_or_else(|| call.unsupported_dtype(condition.dtype()))?;
    Ok(by_element!(&yes, E => match (yes.storage::<E>(), no.storage::<E>()) {
        (Some(y), Some(n)) => Array::moved(yes.dtype(), E::wrap(one(condition, y, n))),
        _ => return Err(call.unsupported_dtype(no.dtype())),
    }))
}

fn choose(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (yes, no) = common(call, &call.operand("self")?, &call.operand("other")?);
    Ok(vec![chosen(call, call.tensor("condition")?, &yes, &no)?])
}

fn masked_fill(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let value: Operand = call.operand("value")?;
    if !value.sizes().is_empty() {
        return Err(call.bad("value", "it has dimensions"));
    }
    let value = value.cast(array.dtype(), call.precision);
    Ok(vec![chosen(call, call.tensor("mask")?, &value, array)?])
}
