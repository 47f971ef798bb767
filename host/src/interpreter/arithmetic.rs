//! Arithmetic and comparisons of two operands, with broadcasting and type promotion.

use super::arguments::{Call, Operand, Scalar};
use super::array::{Array, Data, Element, Nd, Real, shaped};
use super::promotion::{broadcast_sizes, common, float_type, promote, result_type};
use super::{Error, Table};
use crate::graph::ScalarType;

pub(super) const OPS: Table = &[
    ("aten.add.Tensor", add),
    ("aten.add.Scalar", add),
    ("aten.sub.Tensor", sub),
    ("aten.sub.Scalar", sub),
    ("aten.rsub.Scalar", rsub),
    ("aten.rsub.Tensor", rsub),
    ("aten.mul.Tensor", mul),
    ("aten.mul.Scalar", mul),
    ("aten.div.Tensor", div),
    ("aten.div.Scalar", div),
    ("aten.div.Tensor_mode", div),
    ("aten.div.Scalar_mode", div),
    ("aten.floor_divide.default", floor_divide),
    ("aten.remainder.Scalar", remainder),
    ("aten.remainder.Tensor", remainder),
    ("aten.pow.Tensor_Scalar", pow),
    ("aten.pow.Tensor_Tensor", pow),
    ("aten.pow.Scalar", pow),
    ("aten.maximum.default", maximum),
    ("aten.minimum.default", minimum),
    ("aten.clamp.default", clamp),
    ("aten.clamp.Tensor", clamp),
    ("aten.clamp_min.default", clamp),
    ("aten.clamp_max.default", clamp),
    ("aten.eq.Tensor", eq),
    ("aten.eq.Scalar", eq),
    ("aten.ne.Tensor", ne),
    ("aten.ne.Scalar", ne),
    ("aten.lt.Tensor", lt),
    ("aten.lt.Scalar", lt),
    ("aten.le.Tensor", le),
    ("aten.le.Scalar", le),
    ("aten.gt.Tensor", gt),
    ("aten.gt.Scalar", gt),
    ("aten.ge.Tensor", ge),
    ("aten.ge.Scalar", ge),
    ("aten.logical_and.default", logical_and),
    ("aten.logical_or.default", logical_or),
    ("aten.bitwise_and.Tensor", bitwise_and),
    ("aten.bitwise_or.Tensor", bitwise_or),
];

/// Applies a function to the pairs of two broadcast arrays.
fn zip<E: Element, R: Element>(a: &Nd<E>, b: &Nd<E>, sizes: &[usize], function: impl Fn(E, E) -> R) -> Option<Nd<R>> {
    if let (Some(a), Some(b)) = (a.as_slice(), b.as_slice())
        && a.len() == b.len()
    {
        let values = a.iter().zip(b).map(|(&x, &y)| function(x, y)).collect();
        return shaped(sizes, values);
    }
    if let (Some(a), Some(&[y])) = (a.as_slice(), b.as_slice())
        && a.len() == sizes.iter().product::<usize>()
    {
        let values = a.iter().map(|&x| function(x, y)).collect();
        return shaped(sizes, values);
    }
    let (a, b) = (a.broadcast(sizes)?, b.broadcast(sizes)?);
    let mut values = Vec::with_capacity(sizes.iter().product());
    values.extend(a.iter().zip(b.iter()).map(|(&x, &y)| function(x, y)));
    shaped(sizes, values)
}

/// The functions of one operation for each kind of storage.
struct Binary<S, D> {
    single: S,
    double: D,
    integer: Option<fn(i64, i64) -> i64>,
    boolean: Option<fn(bool, bool) -> bool>,
}

/// Applies the fitting function; a kind of storage without one is an unsupported element type.
fn apply(
    call: &Call<'_>,
    a: &Array,
    b: &Array,
    functions: Binary<impl Fn(f32, f32) -> f32, impl Fn(f64, f64) -> f64>,
) -> Result<Array, Error> {
    let sizes = broadcast_sizes(call, a.sizes(), b.sizes())?;
    let data = match (a.data(), b.data()) {
        (Data::F32(x), Data::F32(y)) => zip(x, y, &sizes, &functions.single).map(Data::F32),
        (Data::F64(x), Data::F64(y)) => zip(x, y, &sizes, &functions.double).map(Data::F64),
        (Data::I64(x), Data::I64(y)) => match functions.integer {
            Some(function) => zip(x, y, &sizes, function).map(Data::I64),
            None => return Err(call.unsupported_dtype(a.dtype())),
        },
        (Data::Bool(x), Data::Bool(y)) => match functions.boolean {
            Some(function) => zip(x, y, &sizes, function).map(Data::Bool),
            None => return Err(call.unsupported_dtype(a.dtype())),
        },
        _ => return Err(call.unsupported_dtype(b.dtype())),
    };
    let data = data.ok_or_else(|| call.mismatch("the sizes do not broadcast"))?;
    Ok(Array::computed(a.dtype(), data))
}

/// The reals' functions from one generic function.
macro_rules! functions {
    ($x:ident, $y:ident => $real:expr, $integer:expr, $boolean:expr) => {{
        fn function<T: Real>($x: T, $y: T) -> T {
            $real
        }
        Binary { single: function::<f32>, double: function::<f64>, integer: $integer, boolean: $boolean }
    }};
}

fn product(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    apply(call, a, b, functions!(x, y => x * y, Some(i64::wrapping_mul), Some(|x, y| x && y)))
}

fn sum(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    apply(call, a, b, functions!(x, y => x + y, Some(i64::wrapping_add), Some(|x, y| x || y)))
}

fn difference(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    apply(call, a, b, functions!(x, y => x - y, Some(i64::wrapping_sub), None))
}

/// Both operands in their common type, the second multiplied by `alpha`.
fn with_alpha(call: &Call<'_>, first: &str, second: &str) -> Result<(Array, Array), Error> {
    let (a, b) = (call.operand(first)?, call.operand(second)?);
    let dtype = result_type(&[&a, &b]);
    let a = a.cast(dtype, call.precision);
    let b = match call.optional_scalar("alpha")? {
        None | Some(Scalar::Int(1)) => b.cast(dtype, call.precision),
        Some(alpha) => {
            let b = b.cast(dtype, call.precision);
            product(call, &b, &alpha.as_array(call.precision).cast(dtype, call.precision))?
        }
    };
    Ok((a, b))
}

fn add(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (a, b) = with_alpha(call, "self", "other")?;
    Ok(vec![sum(call, &a, &b)?])
}

fn sub(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (a, b) = with_alpha(call, "self", "other")?;
    Ok(vec![difference(call, &a, &b)?])
}

fn rsub(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (a, b) = with_alpha(call, "other", "self")?;
    Ok(vec![difference(call, &a, &b)?])
}

fn mul(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (a, b) = common(call, &call.operand("self")?, &call.operand("other")?);
    Ok(vec![product(call, &a, &b)?])
}

/// Floor of the quotient as torch computes it for floats.
fn floor_quotient<T: Real>(x: T, y: T) -> T {
    if y == T::zero() {
        return x / y;
    }
    let remainder = x % y;
    let mut quotient = (x - remainder) / y;
    if remainder != T::zero() && (y < T::zero()) != (remainder < T::zero()) {
        quotient -= T::one();
    }
    if quotient == T::zero() {
        return T::zero().copysign(x / y);
    }
    let floor = quotient.floor();
    if quotient - floor > T::of_f64(0.5) { floor + T::one() } else { floor }
}

fn floor_integers(x: i64, y: i64) -> i64 {
    match x.checked_rem(y) {
        None => 0,
        Some(r) if r != 0 && (r < 0) != (y < 0) => x.wrapping_div(y) - 1,
        Some(_) => x.wrapping_div(y),
    }
}

fn refuse_zero(call: &Call<'_>, divisor: &Array) -> Result<(), Error> {
    match divisor.storage::<i64>() {
        Some(a) if a.iter().any(|&x| x == 0) => Err(call.bad("other", "integers cannot be divided by zero")),
        _ => Ok(()),
    }
}

fn div(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (a, b) = common(call, &call.operand("self")?, &call.operand("other")?);
    let result = match call.text("rounding_mode")? {
        None => {
            let dtype = float_type(a.dtype());
            let (a, b) = (a.cast(dtype, call.precision), b.cast(dtype, call.precision));
            apply(call, &a, &b, functions!(x, y => x / y, None, None))?
        }
        Some("floor") => return floor_quotients(call, &a, &b),
        Some("trunc") => {
            refuse_zero(call, &b)?;
            apply(call, &a, &b, functions!(x, y => (x / y).trunc(), Some(i64::wrapping_div), None))?
        }
        Some(mode) => return Err(call.unsupported(format!("rounding mode `{mode}`"))),
    };
    Ok(vec![result])
}

fn floor_quotients(call: &Call<'_>, a: &Array, b: &Array) -> Result<Vec<Array>, Error> {
    refuse_zero(call, b)?;
    Ok(vec![apply(call, a, b, functions!(x, y => floor_quotient(x, y), Some(floor_integers), None))?])
}

fn floor_divide(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (a, b) = common(call, &call.operand("self")?, &call.operand("other")?);
    floor_quotients(call, &a, &b)
}

/// The remainder with the sign of the divisor.
fn signed_remainder<T: Real>(x: T, y: T) -> T {
    let r = x % y;
    if r != T::zero() && (r < T::zero()) != (y < T::zero()) { r + y } else { r }
}

fn remainder(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (a, b) = common(call, &call.operand("self")?, &call.operand("other")?);
    refuse_zero(call, &b)?;
    let integers: fn(i64, i64) -> i64 = |x, y| match x.checked_rem(y) {
        Some(r) if r != 0 && (r < 0) != (y < 0) => r + y,
        Some(r) => r,
        None => 0,
    };
    Ok(vec![apply(call, &a, &b, functions!(x, y => signed_remainder(x, y), Some(integers), None))?])
}

/// Powers with the short cuts that torch takes for a number as exponent.
fn power<T: Real>(x: T, exponent: f64, y: T) -> T {
    if exponent == 0.5 {
        x.sqrt()
    } else if exponent == 2.0 {
        x * x
    } else if exponent == 3.0 {
        x * x * x
    } else if exponent == -0.5 {
        x.sqrt().recip()
    } else if exponent == -1.0 {
        x.recip()
    } else if exponent == -2.0 {
        (x * x).recip()
    } else {
        x.powf(y)
    }
}

fn integer_power(x: i64, y: i64) -> i64 {
    match u32::try_from(y) {
        Ok(y) => x.wrapping_pow(y),
        Err(_) if y > 0 => 0,
        Err(_) if x == 1 => 1,
        Err(_) if x == -1 => {
            if y % 2 == 0 {
                1
            } else {
                -1
            }
        }
        Err(_) => 0,
    }
}

fn pow(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (base, exponent) = (call.operand("self")?, call.operand("exponent")?);
    let (a, b) = common(call, &base, &exponent);
    if let Operand::Scalar(exponent) = exponent {
        if matches!(exponent, Scalar::Int(n) if n < 0) && !a.dtype().is_floating() {
            return Err(call.bad("exponent", "integers have no negative powers"));
        }
        let p = exponent.double();
        let functions = Binary {
            single: |x: f32, y: f32| power(x, p, y),
            double: |x: f64, y: f64| power(x, p, y),
            integer: Some(integer_power as fn(i64, i64) -> i64),
            boolean: None,
        };
        return Ok(vec![apply(call, &a, &b, functions)?]);
    }
    Ok(vec![apply(call, &a, &b, functions!(x, y => x.powf(y), Some(integer_power), None))?])
}

/// The larger one; NaN if either is.
pub(super) fn larger<T: Real>(x: T, y: T) -> T {
    if x.is_nan() || x > y { x } else { y }
}

/// The smaller one; NaN if either is.
pub(super) fn smaller<T: Real>(x: T, y: T) -> T {
    if x.is_nan() || x < y { x } else { y }
}

fn upper(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    apply(call, a, b, functions!(x, y => larger(x, y), Some(|x, y| x.max(y)), Some(|x, y| x || y)))
}

fn lower(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    apply(call, a, b, functions!(x, y => smaller(x, y), Some(|x, y| x.min(y)), Some(|x, y| x && y)))
}

fn maximum(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (a, b) = common(call, &call.operand("self")?, &call.operand("other")?);
    Ok(vec![upper(call, &a, &b)?])
}

fn minimum(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (a, b) = common(call, &call.operand("self")?, &call.operand("other")?);
    Ok(vec![lower(call, &a, &b)?])
}

fn clamp(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = Operand::Tensor(call.tensor("self")?.clone());
    let bound = |name: &str| match call.operand(name) {
        Ok(operand) => Ok(Some(operand)),
        Err(_) if call.optional_tensor(name).is_ok_and(|bound| bound.is_none()) => Ok(None),
        Err(error) => Err(error),
    };
    let (min, max) = (bound("min")?, bound("max")?);
    let operands: Vec<&Operand> = [Some(&array), min.as_ref(), max.as_ref()].into_iter().flatten().collect();
    let dtype = result_type(&operands);
    // Bounds beyond the range of a narrow integer bound nothing; they must not wrap.
    let wide = if dtype.is_floating() || dtype == ScalarType::Bool { dtype } else { ScalarType::Int64 };
    let mut result = array.cast(wide, call.precision);
    if let Some(min) = min {
        result = upper(call, &result, &min.cast(wide, call.precision))?;
    }
    if let Some(max) = max {
        result = lower(call, &result, &max.cast(wide, call.precision))?;
    }
    Ok(vec![result.cast(dtype, call.precision)])
}

/// A comparison in the common type.
fn compare(
    call: &Call<'_>,
    single: fn(&f32, &f32) -> bool,
    double: fn(&f64, &f64) -> bool,
    integer: fn(&i64, &i64) -> bool,
    boolean: fn(&bool, &bool) -> bool,
) -> Result<Vec<Array>, Error> {
    let (a, b) = common(call, &call.operand("self")?, &call.operand("other")?);
    let sizes = broadcast_sizes(call, a.sizes(), b.sizes())?;
    let answer = match (a.data(), b.data()) {
        (Data::F32(x), Data::F32(y)) => zip(x, y, &sizes, |x, y| single(&x, &y)),
        (Data::F64(x), Data::F64(y)) => zip(x, y, &sizes, |x, y| double(&x, &y)),
        (Data::I64(x), Data::I64(y)) => zip(x, y, &sizes, |x, y| integer(&x, &y)),
        (Data::Bool(x), Data::Bool(y)) => zip(x, y, &sizes, |x, y| boolean(&x, &y)),
        _ => return Err(call.unsupported_dtype(b.dtype())),
    };
    let answer = answer.ok_or_else(|| call.mismatch("the sizes do not broadcast"))?;
    Ok(vec![Array::moved(ScalarType::Bool, Data::Bool(answer))])
}

macro_rules! comparison {
    ($name:ident, $method:ident) => {
        fn $name(call: &Call<'_>) -> Result<Vec<Array>, Error> {
            compare(call, PartialOrd::$method, PartialOrd::$method, PartialOrd::$method, PartialOrd::$method)
        }
    };
    (partial_eq $name:ident) => {
        fn $name(call: &Call<'_>) -> Result<Vec<Array>, Error> {
            compare(call, PartialEq::$name, PartialEq::$name, PartialEq::$name, PartialEq::$name)
        }
    };
}

comparison!(partial_eq eq);
comparison!(partial_eq ne);
comparison!(lt, lt);
comparison!(le, le);
comparison!(gt, gt);
comparison!(ge, ge);

fn truths(call: &Call<'_>, function: fn(bool, bool) -> bool) -> Result<Vec<Array>, Error> {
    let truth = |name: &str| Ok(call.operand(name)?.cast(ScalarType::Bool, call.precision));
    let (a, b): (Array, Array) = (truth("self")?, truth("other")?);
    let sizes = broadcast_sizes(call, a.sizes(), b.sizes())?;
    match (a.storage::<bool>(), b.storage::<bool>()) {
        (Some(x), Some(y)) => {
            let answer = zip(x, y, &sizes, function).ok_or_else(|| call.mismatch("the sizes do not broadcast"))?;
            Ok(vec![Array::moved(ScalarType::Bool, Data::Bool(answer))])
        }
        _ => Err(call.unsupported_dtype(a.dtype())),
    }
}

fn logical_and(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    truths(call, |x, y| x && y)
}

fn logical_or(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    truths(call, |x, y| x || y)
}

fn bits(call: &Call<'_>, integer: fn(i64, i64) -> i64, boolean: fn(bool, bool) -> bool) -> Result<Vec<Array>, Error> {
    let (a, b) = common(call, &call.operand("self")?, &call.operand("other")?);
    if a.dtype().is_floating() {
        return Err(call.unsupported_dtype(a.dtype()));
    }
    let functions = Binary {
        single: |x: f32, _: f32| x,
        double: |x: f64, _: f64| x,
        integer: Some(integer),
        boolean: Some(boolean),
    };
    Ok(vec![apply(call, &a, &b, functions)?])
}

fn bitwise_and(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    bits(call, |x, y| x & y, |x, y| x && y)
}

fn bitwise_or(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    bits(call, |x, y| x | y, |x, y| x || y)
}

/// The sum of two arrays of one type, for operations made of others.
pub(super) fn add_arrays(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    let dtype = promote(a.dtype(), b.dtype());
    sum(call, &a.cast(dtype, call.precision), &b.cast(dtype, call.precision))
}

/// The product of two arrays of one type, for operations made of others.
pub(super) fn multiply_arrays(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    let dtype = promote(a.dtype(), b.dtype());
    product(call, &a.cast(dtype, call.precision), &b.cast(dtype, call.precision))
}
