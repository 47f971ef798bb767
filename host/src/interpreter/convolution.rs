//! Convolutions of one and two dimensions.

use super::arguments::Call;
use super::array::{Array, Element, Real, by_real, elements, shaped};
use super::layout::with_sizes;
use super::{Error, Table};

pub(super) const OPS: Table = &[
    ("aten.conv1d.default", conv1d),
    ("aten.conv1d.padding", conv1d),
    ("aten.conv2d.default", conv2d),
    ("aten.conv2d.padding", conv2d),
    ("aten.convolution.default", convolution),
];

/// Sizes and steps of a convolution over `[n, c, h, w]`.
struct Geometry {
    input: [usize; 4],
    /// output channels, input channels of a group, kernel height and width
    weight: [usize; 4],
    stride: [usize; 2],
    /// before height, after height, before width, after width
    padding: [usize; 4],
    dilation: [usize; 2],
    groups: usize,
}

impl Geometry {
    fn output(&self, call: &Call<'_>) -> Result<[usize; 4], Error> {
        let [n, channels, h, w] = self.input;
        let [out, inner, kh, kw] = self.weight;
        if self.groups == 0 || inner.checked_mul(self.groups) != Some(channels) || out % self.groups != 0 {
            return Err(call.mismatch(format!(
                "weight {:?} in {} groups does not fit input {:?}",
                self.weight, self.groups, self.input
            )));
        }
        let along = |size: usize, kernel: usize, axis: usize, before: usize, after: usize| {
            let (stride, dilation) = (self.stride[axis], self.dilation[axis]);
            if kernel == 0 || stride == 0 || dilation == 0 {
                return Err(call.bad("stride", "kernel, stride and dilation must be positive"));
            }
            let extent = dilation.checked_mul(kernel - 1);
            size.checked_add(before)
                .and_then(|n| n.checked_add(after)?.checked_sub(extent?)?.checked_sub(1))
                .map(|room| room / stride + 1)
                .ok_or_else(|| call.mismatch(format!("a kernel of {kernel} does not fit {size}")))
        };
        let [top, bottom, left, right] = self.padding;
        Ok([n, out, along(h, kh, 0, top, bottom)?, along(w, kw, 1, left, right)?])
    }
}

/// Every output element is summed in the order (input channel, kernel row, kernel column); taps in the
/// padding add nothing.
fn convolve<T: Real>(
    input: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    geometry: &Geometry,
    output: &mut [T],
    sizes: [usize; 4],
) {
    let [_, channels, h, w] = geometry.input;
    let [out, inner, kh, kw] = geometry.weight;
    let [_, _, oh, ow] = sizes;
    let per_group = out / geometry.groups.max(1);
    if oh * ow == 0 || h * w == 0 || per_group == 0 {
        return;
    }
    for (index, plane) in output.chunks_exact_mut(oh * ow).enumerate() {
        let (image, o) = (index / out, index % out);
        for i in 0..inner {
            let channel = (o / per_group) * inner + i;
            let start = (image * channels + channel) * h * w;
            let source = input.get(start..start + h * w).unwrap_or_default();
            for ky in 0..kh {
                for kx in 0..kw {
                    let Some(&factor) = weight.get(((o * inner + i) * kh + ky) * kw + kx) else { continue };
                    // Output columns whose tap lies in the input.
                    let [sx, dx, left] = [geometry.stride[1], kx * geometry.dilation[1], geometry.padding[2]];
                    let first = left.saturating_sub(dx).div_ceil(sx);
                    let last = (w + left).saturating_sub(dx).div_ceil(sx).min(ow);
                    if first >= last {
                        continue;
                    }
                    for (y, row) in plane.chunks_exact_mut(ow).enumerate() {
                        let place = y * geometry.stride[0] + ky * geometry.dilation[0];
                        let Some(source_row) = place.checked_sub(geometry.padding[0]).filter(|&r| r < h) else {
                            continue;
                        };
                        let from = source_row * w + first * sx + dx - left;
                        let taps = source.get(from..(source_row + 1) * w).unwrap_or_default();
                        let targets = row.get_mut(first..last).unwrap_or_default();
                        if sx == 1 {
                            for (sum, &x) in targets.iter_mut().zip(taps) {
                                *sum += factor * x;
                            }
                        } else {
                            for (sum, &x) in targets.iter_mut().zip(taps.iter().step_by(sx)) {
                                *sum += factor * x;
                            }
                        }
                    }
                }
            }
        }
        if let Some(&bias) = bias.and_then(|bias| bias.get(o)) {
            plane.iter_mut().for_each(|x| *x += bias);
        }
    }
}

fn run(call: &Call<'_>, input: &Array, weight: &Array, geometry: &Geometry) -> Result<Array, Error> {
    let sizes = geometry.output(call)?;
    call.allow(&sizes)?;
    if input.dtype() != weight.dtype() {
        return Err(call.mismatch("the element types differ"));
    }
    let bias = call.optional_tensor("bias")?;
    if bias.is_some_and(|bias| bias.sizes() != [geometry.weight[0]]) {
        return Err(call.mismatch("the bias does not fit the output channels"));
    }
    let data = by_real!(call, input, T => {
        let refused = || call.unsupported_dtype(weight.dtype());
        let x = elements(input.storage::<T>().ok_or_else(refused)?);
        let w = elements(weight.storage::<T>().ok_or_else(refused)?);
        let b = match bias {
            Some(bias) => Some(elements(bias.storage::<T>().ok_or_else(refused)?)),
            None => None,
        };
        let mut output = vec![T::of_f64(0.0); sizes.iter().product()];
        convolve(&x, &w, b.as_deref(), geometry, &mut output, sizes);
        T::wrap(shaped(&sizes, output).ok_or_else(|| call.mismatch("sizes"))?)
    });
    Ok(Array::computed(input.dtype(), data))
}

/// A number for every spatial dimension from a list of one or of as many.
fn steps(call: &Call<'_>, name: &str, count: usize, default: usize) -> Result<Vec<usize>, Error> {
    let Some(list) = call.optional_ints(name)?.filter(|list| !list.is_empty()) else {
        return Ok(vec![default; count]);
    };
    let list: Vec<usize> = list
        .iter()
        .map(|&n| usize::try_from(n).map_err(|_| call.bad(name, format!("{n} is no size"))))
        .collect::<Result<_, _>>()?;
    match list.as_slice() {
        [one] => Ok(vec![*one; count]),
        list if list.len() == count => Ok(list.to_vec()),
        _ => Err(call.bad(name, format!("it has {} numbers for {count} dimensions", list.len()))),
    }
}

/// Padding as a list, or by the words `same` and `valid`.
fn padding(call: &Call<'_>, kernel: &[usize], dilation: &[usize]) -> Result<Vec<[usize; 2]>, Error> {
    match call.text("padding") {
        Ok(Some("valid")) => Ok(vec![[0, 0]; kernel.len()]),
        Ok(Some("same")) => Ok(kernel
            .iter()
            .zip(dilation)
            .map(|(&k, &d)| {
                let total = d.saturating_mul(k.saturating_sub(1));
                [total / 2, total - total / 2]
            })
            .collect()),
        Ok(Some(word)) => Err(call.bad("padding", format!("`{word}` is neither `same` nor `valid`"))),
        Ok(None) | Err(_) => Ok(steps(call, "padding", kernel.len(), 0)?.into_iter().map(|n| [n, n]).collect()),
    }
}

/// A convolution over `spatial` dimensions, of a batch or of one example.
fn convolved(call: &Call<'_>, spatial: usize) -> Result<Vec<Array>, Error> {
    let (input, weight) = (call.tensor("input")?, call.tensor("weight")?);
    let wide = |array: &Array, batch: bool| -> Result<Array, Error> {
        let mut sizes = array.sizes().to_vec();
        if batch {
            sizes.insert(0, 1);
        }
        if spatial == 1 {
            sizes.insert(sizes.len().saturating_sub(1), 1);
        }
        with_sizes(call, array, &sizes)
    };
    let single = input.rank() == spatial + 1;
    let (x, w) = (wide(input, single)?, wide(weight, false)?);
    let (&[n, c, height, width], &[out, inner, kh, kw]) = (x.sizes(), w.sizes()) else {
        return Err(call.mismatch(format!("input {:?} and weight {:?}", input.sizes(), weight.sizes())));
    };
    let kernel = if spatial == 1 { vec![kw] } else { vec![kh, kw] };
    let mut stride = steps(call, "stride", spatial, 1)?;
    let mut dilation = steps(call, "dilation", spatial, 1)?;
    let mut padding = padding(call, &kernel, &dilation)?;
    if spatial == 1 {
        stride.insert(0, 1);
        dilation.insert(0, 1);
        padding.insert(0, [0, 0]);
    }
    let (&[sy, sx], &[dy, dx], &[[top, bottom], [left, right]]) =
        (stride.as_slice(), dilation.as_slice(), padding.as_slice())
    else {
        return Err(call.bad("stride", "the lists do not fit the dimensions"));
    };
    let geometry = Geometry {
        input: [n, c, height, width],
        weight: [out, inner, kh, kw],
        stride: [sy, sx],
        padding: [top, bottom, left, right],
        dilation: [dy, dx],
        groups: usize::try_from(call.int("groups", 1)?).unwrap_or(0),
    };
    let result = run(call, &x, &w, &geometry)?;
    let mut sizes = result.sizes().to_vec();
    if spatial == 1 {
        sizes.remove(2);
    }
    if single {
        sizes.remove(0);
    }
    Ok(vec![with_sizes(call, &result, &sizes)?])
}

fn conv1d(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    convolved(call, 1)
}

fn conv2d(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    convolved(call, 2)
}

fn convolution(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    if call.flag("transposed", false)? {
        return Err(call.unsupported("transposed"));
    }
    match call.tensor("weight")?.rank() {
        3 => convolved(call, 1),
        4 => convolved(call, 2),
        rank => Err(call.unsupported(format!("with a weight of rank {rank}"))),
    }
}
