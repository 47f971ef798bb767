//! Activation functions.

use super::arguments::Call;
use super::arithmetic::{larger, smaller};
use super::array::{Array, Real};
use super::pointwise::map_real;
use super::{Error, Table};

pub(super) const OPS: Table = &[
    ("aten.relu.default", relu),
    ("aten.relu6.default", relu6),
    ("aten.leaky_relu.default", leaky_relu),
    ("aten.prelu.default", prelu),
    ("aten.hardtanh.default", hardtanh),
    ("aten.gelu.default", gelu),
    ("aten.silu.default", silu),
    ("aten.mish.default", mish),
    ("aten.softplus.default", softplus),
    ("aten.sigmoid.default", sigmoid),
    ("aten.log_sigmoid.default", log_sigmoid),
    ("aten.tanh.default", tanh),
    ("aten.hardswish.default", hardswish),
    ("aten.hardsigmoid.default", hardsigmoid),
    ("aten.elu.default", elu),
    ("aten.celu.default", celu),
    ("aten.selu.default", selu),
];

fn logistic<T: Real>(x: T) -> T {
    T::one() / (T::one() + (-x).exp())
}

macro_rules! function {
    ($name:ident, $x:ident => $body:expr) => {
        fn $name(call: &Call<'_>) -> Result<Vec<Array>, Error> {
            fn function<T: Real>($x: T) -> T {
                $body
            }
            Ok(vec![map_real(call, call.tensor("self")?, function::<f32>, function::<f64>)?])
        }
    };
}

function!(silu, x => x / (T::one() + (-x).exp()));
function!(mish, x => x * x.exp().ln_1p().tanh());
function!(log_sigmoid, x => smaller(x, T::zero()) - (-x.abs()).exp().ln_1p());
function!(hardswish, x => x * between(x + T::of_f64(3.0), T::zero(), T::of_f64(6.0)) / T::of_f64(6.0));
function!(hardsigmoid, x => between(x + T::of_f64(3.0), T::zero(), T::of_f64(6.0)) / T::of_f64(6.0));
function!(selu, x => exponential(x, T::of_f64(1.673_263_242_354_377_2 * 1.050_700_987_355_480_5), T::of_f64(1.050_700_987_355_480_5), T::one()));

/// Clamps; NaN stays NaN.
fn between<T: Real>(x: T, low: T, high: T) -> T {
    smaller(larger(x, low), high)
}

fn exponential<T: Real>(x: T, negative: T, positive: T, inner: T) -> T {
    if x < T::zero() { (x * inner).exp_m1() * negative } else { x * positive }
}

/// Functions that integers have through a float (`sigmoid`, `tanh`) or as themselves (`relu`).
fn relu(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    match array.storage::<i64>() {
        Some(a) => {
            let data = super::Data::I64(a.mapv(|x| x.max(0)).into_shared());
            Ok(vec![Array::moved(array.dtype(), data)])
        }
        None => Ok(vec![map_real(call, array, |x| larger(x, 0.0), |x| larger(x, 0.0))?]),
    }
}

fn sigmoid(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let array = array.cast(super::promotion::float_type(array.dtype()), call.precision);
    Ok(vec![map_real(call, &array, logistic, logistic)?])
}

fn tanh(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let array = array.cast(super::promotion::float_type(array.dtype()), call.precision);
    Ok(vec![map_real(call, &array, f32::tanh, f64::tanh)?])
}

fn clamped(call: &Call<'_>, low: f64, high: f64) -> Result<Vec<Array>, Error> {
    let (single_low, single_high) = (f32::of_f64(low), f32::of_f64(high));
    let array = call.tensor("self")?;
    Ok(vec![map_real(call, array, |x| between(x, single_low, single_high), |x| between(x, low, high))?])
}

fn relu6(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    clamped(call, 0.0, 6.0)
}

fn hardtanh(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    clamped(call, call.float("min_val", -1.0)?, call.float("max_val", 1.0)?)
}

fn leaky_relu(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let slope = call.float("negative_slope", 0.01)?;
    let single = f32::of_f64(slope);
    Ok(vec![map_real(
        call,
        call.tensor("self")?,
        |x| if x > 0.0 { x } else { x * single },
        |x| if x > 0.0 { x } else { x * slope },
    )?])
}

fn prelu(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (array, weight) = (call.tensor("self")?, call.tensor("weight")?);
    let mut sizes = vec![1; array.rank()];
    if let Some(slot) = sizes.get_mut(usize::from(array.rank() > 1)) {
        *slot = weight.count();
    }
    let weight = super::layout::with_sizes(call, weight, &sizes)?;
    let slopes = super::layout::broadcast(call, &weight, array.sizes())?;
    let scaled = super::arithmetic::multiply_arrays(call, array, &slopes)?;
    // x where x > 0, else the product: max(x, 0) + (product where x <= 0).
    Ok(vec![super::array::by_real!(call, array, T => match (array.storage::<T>(), scaled.storage::<T>()) {
        (Some(x), Some(y)) => {
            let chosen = ndarray::Zip::from(x).and(y).map_collect(|&x, &y| if x > 0.0 { x } else { y });
            Array::moved(array.dtype(), super::array::Element::wrap(chosen.into_shared()))
        }
        _ => return Err(call.unsupported_dtype(weight.dtype())),
    })])
}

fn gelu_erf<T: Real>(x: T) -> T {
    x * T::of_f64(0.5) * (T::one() + (x * T::of_f64(std::f64::consts::FRAC_1_SQRT_2)).erf())
}

fn gelu_tanh<T: Real>(x: T) -> T {
    let inner = T::of_f64(0.797_884_560_802_865_4) * (x + T::of_f64(0.044_715) * (x * x * x));
    T::of_f64(0.5) * x * (T::one() + inner.tanh())
}

fn gelu(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    Ok(vec![match call.text("approximate")?.unwrap_or("none") {
        "none" => map_real(call, array, gelu_erf, gelu_erf)?,
        "tanh" => map_real(call, array, gelu_tanh, gelu_tanh)?,
        other => return Err(call.unsupported(format!("approximation `{other}`"))),
    }])
}

fn softplus_of<T: Real>(x: T, beta: T, threshold: T) -> T {
    if x * beta > threshold { x } else { (x * beta).exp().ln_1p() / beta }
}

fn softplus(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (beta, threshold) = (call.float("beta", 1.0)?, call.float("threshold", 20.0)?);
    Ok(vec![map_real(
        call,
        call.tensor("self")?,
        |x| softplus_of(x, f32::of_f64(beta), f32::of_f64(threshold)),
        |x| softplus_of(x, beta, threshold),
    )?])
}

fn elu(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let alpha = call.float("alpha", 1.0)?;
    let scale = call.float("scale", 1.0)?;
    let inner = call.float("input_scale", 1.0)?;
    let of = f32::of_f64;
    Ok(vec![map_real(
        call,
        call.tensor("self")?,
        |x| exponential(x, of(alpha * scale), of(scale), of(inner)),
        |x| exponential(x, alpha * scale, scale, inner),
    )?])
}

fn celu(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let alpha = call.float("alpha", 1.0)?;
    Ok(vec![map_real(
        call,
        call.tensor("self")?,
        |x| exponential(x, f32::of_f64(alpha), 1.0, f32::of_f64(1.0 / alpha)),
        |x| exponential(x, alpha, 1.0, 1.0 / alpha),
    )?])
}
