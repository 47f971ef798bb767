//! Normalisation layers in evaluation mode.

use super::arguments::Call;
use super::array::{Array, Element, Real, by_real, elements, shaped};
use super::layout::with_sizes;
use super::reduction::{average, squared_deviations};
use super::{Error, Table};

pub(super) const OPS: Table = &[
    ("aten.batch_norm.default", batch_norm),
    ("aten._native_batch_norm_legit_no_training.default", native_batch_norm),
    ("aten.layer_norm.default", layer_norm),
    ("aten.native_layer_norm.default", native_layer_norm),
    ("aten.group_norm.default", group_norm),
];

/// A tensor argument of one number a channel.
fn channel<T: Real>(call: &Call<'_>, name: &str, count: usize) -> Result<Option<Vec<T>>, Error> {
    let Some(array) = call.optional_tensor(name)? else { return Ok(None) };
    if array.count() != count {
        return Err(call.bad(name, format!("it has {} numbers for {count}", array.count())));
    }
    // Statistics may be singles beside half inputs; the arithmetic is the input's.
    let storage = array.storage::<T>().ok_or_else(|| call.unsupported_dtype(array.dtype()))?;
    Ok(Some(elements(storage)))
}

fn required<T: Real>(call: &Call<'_>, name: &str, count: usize) -> Result<Vec<T>, Error> {
    channel(call, name, count)?.ok_or_else(|| call.bad(name, "it is missing"))
}

/// `(x - mean) / sqrt(var + eps) * weight + bias`, folded into one factor and one term a channel as
/// torch's CPU kernel does.
fn normalised(call: &Call<'_>) -> Result<Array, Error> {
    let input = call.first_tensor()?;
    let &[_, channels, ..] = input.sizes() else {
        return Err(call.mismatch(format!("{:?} has no channels", input.sizes())));
    };
    let eps = call.float("eps", 1e-5)?;
    let data = by_real!(call, input, T => {
        let mean = required::<T>(call, "running_mean", channels)?;
        let var = required::<T>(call, "running_var", channels)?;
        let weight = channel::<T>(call, "weight", channels)?;
        let bias = channel::<T>(call, "bias", channels)?;
        let one = T::of_f64(1.0);
        let at = |list: &Option<Vec<T>>, i: usize, default: T| list.as_ref().and_then(|l| l.get(i)).copied().unwrap_or(default);
        let factors: Vec<(T, T)> = mean
            .iter()
            .zip(&var)
            .enumerate()
            .map(|(i, (&mean, &var))| {
                let factor = one / (var + T::of_f64(eps)).sqrt() * at(&weight, i, one);
                (factor, at(&bias, i, T::of_f64(0.0)) - mean * factor)
            })
            .collect();
        let mut values = elements(input.storage::<T>().ok_or_else(|| call.unsupported_dtype(input.dtype()))?);
        let plane: usize = input.sizes().iter().skip(2).product();
        if plane > 0 {
            for (values, &(factor, term)) in values.chunks_exact_mut(plane).zip(factors.iter().cycle()) {
                values.iter_mut().for_each(|x| *x = *x * factor + term);
            }
        }
        T::wrap(shaped(input.sizes(), values).ok_or_else(|| call.mismatch("sizes"))?)
    });
    Ok(Array::computed(input.dtype(), data))
}

fn batch_norm(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    if call.flag("training", false)? {
        return Err(call.unsupported("in training mode"));
    }
    Ok(vec![normalised(call)?])
}

fn native_batch_norm(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let empty = Array::filled(&[0], super::Scalar::Int(0), call.first_tensor()?.dtype(), call.precision);
    Ok(vec![normalised(call)?, empty.clone(), empty])
}

/// Normalises chunks of `inner` elements; gives the result, the means and the reciprocal deviations.
fn chunks<T: Real>(values: &mut [T], inner: usize, eps: f64) -> (Vec<T>, Vec<T>) {
    let (mut means, mut deviations) = (Vec::new(), Vec::new());
    if inner == 0 {
        return (means, deviations);
    }
    #[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
    let count = T::of_f64(inner as f64);
    for chunk in values.chunks_exact_mut(inner) {
        let mean = average(chunk);
        let variance = squared_deviations(chunk) / count;
        let factor = (variance + T::of_f64(eps)).sqrt().recip();
        chunk.iter_mut().for_each(|x| *x = (*x - mean) * factor);
        means.push(mean);
        deviations.push(factor);
    }
    (means, deviations)
}

fn native_layer_norm(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let input = call.first_tensor()?;
    let shape = call.sizes("normalized_shape")?;
    let Some(outer) = input.sizes().len().checked_sub(shape.len()).filter(|&n| input.sizes().get(n..) == Some(&shape))
    else {
        return Err(call.mismatch(format!("{:?} does not end in {shape:?}", input.sizes())));
    };
    let inner: usize = shape.iter().product();
    let eps = call.float("eps", 1e-5)?;
    let statistics: Vec<usize> =
        input.sizes().iter().take(outer).copied().chain(std::iter::repeat_n(1, shape.len())).collect();
    let refused = || call.mismatch("an empty chunk has no mean");
    let (data, means, deviations) = by_real!(call, input, T => {
        let mut values = elements(input.storage::<T>().ok_or_else(|| call.unsupported_dtype(input.dtype()))?);
        let (means, deviations) = chunks(&mut values, inner, eps);
        let weight = channel::<T>(call, "weight", inner)?;
        let bias = channel::<T>(call, "bias", inner)?;
        for chunk in values.chunks_exact_mut(inner.max(1)) {
            for (x, &w) in chunk.iter_mut().zip(weight.iter().flatten()) {
                *x *= w;
            }
            for (x, &b) in chunk.iter_mut().zip(bias.iter().flatten()) {
                *x += b;
            }
        }
        (
            T::wrap(shaped(input.sizes(), values).ok_or_else(refused)?),
            T::wrap(shaped(&statistics, means).ok_or_else(refused)?),
            T::wrap(shaped(&statistics, deviations).ok_or_else(refused)?),
        )
    });
    Ok(vec![
        Array::computed(input.dtype(), data),
        Array::computed(input.dtype(), means),
        Array::computed(input.dtype(), deviations),
    ])
}

fn layer_norm(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let mut results = native_layer_norm(call)?;
    results.truncate(1);
    Ok(results)
}

fn group_norm(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let input = call.first_tensor()?;
    let groups = usize::try_from(call.required_int("num_groups")?).unwrap_or(0);
    let &[batch, channels, ..] = input.sizes() else {
        return Err(call.mismatch(format!("{:?} has no channels", input.sizes())));
    };
    if groups == 0 || channels % groups != 0 {
        return Err(call.bad("num_groups", format!("{channels} channels do not divide into {groups} groups")));
    }
    let eps = call.float("eps", 1e-5)?;
    let plane: usize = input.sizes().iter().skip(2).product();
    let data = by_real!(call, input, T => {
        let mut values = elements(input.storage::<T>().ok_or_else(|| call.unsupported_dtype(input.dtype()))?);
        let inner = if batch == 0 { 0 } else { channels / groups * plane };
        chunks(&mut values, inner, eps);
        let weight = channel::<T>(call, "weight", channels)?;
        let bias = channel::<T>(call, "bias", channels)?;
        for (index, values) in values.chunks_exact_mut(plane.max(1)).enumerate() {
            let own = |list: &Option<Vec<T>>| list.as_ref().and_then(|l| l.get(index % channels.max(1))).copied();
            if let Some(w) = own(&weight) {
                values.iter_mut().for_each(|x| *x *= w);
            }
            if let Some(b) = own(&bias) {
                values.iter_mut().for_each(|x| *x += b);
            }
        }
        T::wrap(shaped(input.sizes(), values).ok_or_else(|| call.mismatch("sizes"))?)
    });
    Ok(vec![with_sizes(call, &Array::computed(input.dtype(), data), input.sizes())?])
}
