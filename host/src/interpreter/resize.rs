//! Nearest and bilinear upsampling with torch's coordinates.

use super::arguments::Call;
use super::array::{Array, Data, Element, Real, elements, shaped};
use super::{Error, Table};

pub(super) const OPS: Table = &[
    ("aten.upsample_nearest2d.default", nearest),
    ("aten.upsample_nearest2d.vec", nearest),
    ("aten.upsample_bilinear2d.default", bilinear),
    ("aten.upsample_bilinear2d.vec", bilinear),
];

/// Output height and width, and the given scales where there are any.
fn target(call: &Call<'_>, input: [usize; 2]) -> Result<([usize; 2], [Option<f64>; 2]), Error> {
    let factors = call.optional_floats("scale_factors")?;
    let scales = match factors.as_deref() {
        Some(&[h, w]) => [Some(h), Some(w)],
        Some(_) => return Err(call.bad("scale_factors", "two numbers are needed")),
        None => {
            let given = |name: &str| Ok(call.optional_scalar(name)?.map(super::Scalar::double));
            [given("scales_h")?, given("scales_w")?]
        }
    };
    let output = match (call.optional_ints("output_size")?, factors.as_deref()) {
        (Some(_), _) => call.pair("output_size", None)?,
        (None, Some(&[h, w])) => {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "torch floors the product"
            )]
            let grown = |size: usize, factor: f64| (size as f64 * factor).floor() as usize;
            [grown(input[0], h), grown(input[1], w)]
        }
        _ => return Err(call.bad("output_size", "it is missing")),
    };
    Ok((output, scales))
}

fn image(call: &Call<'_>, array: &Array) -> Result<[usize; 4], Error> {
    match array.sizes() {
        &[n, c, h, w] if h > 0 && w > 0 => Ok([n, c, h, w]),
        sizes => Err(call.mismatch(format!("{sizes:?} is no batch of images"))),
    }
}

/// Input positions per output position; a given scale wins over the ratio of the sizes.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "torch computes positions in singles"
)]
fn nearest_positions(size: usize, output: usize, scale: Option<f64>) -> Vec<usize> {
    let ratio = match scale {
        Some(scale) if scale > 0.0 => (1.0 / scale) as f32,
        _ => size as f32 / output as f32,
    };
    (0..output)
        .map(|i| {
            if output == size {
                i
            } else if output == 2 * size {
                i / 2
            } else {
                ((i as f32 * ratio).floor() as usize).min(size - 1)
            }
        })
        .collect()
}

fn nearest(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.first_tensor()?;
    let [n, c, h, w] = image(call, array)?;
    let ([oh, ow], scales) = target(call, [h, w])?;
    let sizes = [n, c, oh, ow];
    call.allow(&sizes)?;
    let (rows, columns) = (nearest_positions(h, oh, scales[0]), nearest_positions(w, ow, scales[1]));
    fn one<E: Element>(input: &[E], plane: usize, w: usize, rows: &[usize], columns: &[usize]) -> Vec<E> {
        let mut output = Vec::with_capacity(input.len());
        for image in input.chunks_exact(plane) {
            for row in rows {
                output.extend(columns.iter().map(|column| image.get(row * w + column).copied().unwrap_or_default()));
            }
        }
        output
    }
    let refused = || call.mismatch("sizes");
    let data = match array.data() {
        Data::F32(a) => Data::F32(shaped(&sizes, one(&elements(a), h * w, w, &rows, &columns)).ok_or_else(refused)?),
        Data::F64(a) => Data::F64(shaped(&sizes, one(&elements(a), h * w, w, &rows, &columns)).ok_or_else(refused)?),
        Data::I64(a) => Data::I64(shaped(&sizes, one(&elements(a), h * w, w, &rows, &columns)).ok_or_else(refused)?),
        Data::Bool(_) => return Err(call.unsupported_dtype(array.dtype())),
    };
    Ok(vec![Array::moved(array.dtype(), data)])
}

/// The two neighbours of an output position and their weights.
struct Tap<T> {
    low: usize,
    high: usize,
    weight: T,
}

fn bilinear_taps<T: Real>(size: usize, output: usize, scale: Option<f64>, align: bool) -> Vec<Tap<T>> {
    #[expect(clippy::cast_precision_loss, reason = "image sizes are small")]
    let of = |n: usize| T::of_f64(n as f64);
    let zero = T::zero();
    let ratio = match scale {
        _ if align && output > 1 => of(size - 1) / of(output - 1),
        _ if align => zero,
        Some(scale) if scale > 0.0 => T::of_f64(1.0 / scale),
        _ => of(size) / of(output),
    };
    let half = T::of_f64(0.5);
    (0..output)
        .map(|i| {
            let place = if align { ratio * of(i) } else { ratio * (of(i) + half) - half };
            let place = if place < zero { zero } else { place };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and cut to the size")]
            let low = (place.floor().double() as usize).min(size - 1);
            let high = (low + 1).min(size - 1);
            let weight = place - of(low);
            Tap { low, high, weight: if weight > T::one() { T::one() } else { weight } }
        })
        .collect()
}

fn interpolate<T: Real>(input: &[T], [h, w]: [usize; 2], rows: &[Tap<T>], columns: &[Tap<T>]) -> Vec<T> {
    let mut output = Vec::with_capacity(input.len());
    for image in input.chunks_exact(h * w) {
        let at = |row: usize, column: usize| image.get(row * w + column).copied().unwrap_or_else(T::zero);
        for y in rows {
            for x in columns {
                let (top, left) = (T::one() - y.weight, T::one() - x.weight);
                let upper = left * at(y.low, x.low) + x.weight * at(y.low, x.high);
                let lower = left * at(y.high, x.low) + x.weight * at(y.high, x.high);
                output.push(top * upper + y.weight * lower);
            }
        }
    }
    output
}

fn bilinear(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.first_tensor()?;
    let [n, c, h, w] = image(call, array)?;
    let ([oh, ow], scales) = target(call, [h, w])?;
    let sizes = [n, c, oh, ow];
    call.allow(&sizes)?;
    let align = call.flag("align_corners", false)?;
    fn one<T: Real>(input: &[T], from: [usize; 2], to: [usize; 2], scales: [Option<f64>; 2], align: bool) -> Vec<T> {
        let rows = bilinear_taps(from[0], to[0], scales[0], align);
        let columns = bilinear_taps(from[1], to[1], scales[1], align);
        interpolate(input, from, &rows, &columns)
    }
    let refused = || call.mismatch("sizes");
    let data = match array.data() {
        Data::F32(a) => {
            Data::F32(shaped(&sizes, one(&elements(a), [h, w], [oh, ow], scales, align)).ok_or_else(refused)?)
        }
        Data::F64(a) => {
            Data::F64(shaped(&sizes, one(&elements(a), [h, w], [oh, ow], scales, align)).ok_or_else(refused)?)
        }
        _ => return Err(call.unsupported_dtype(array.dtype())),
    };
    Ok(vec![Array::computed(array.dtype(), data)])
}
