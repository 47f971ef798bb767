//! Average and maximum pooling with torch's window rules.

use super::arguments::Call;
use super::array::{Array, Data, Element, Nd, Real, by_real, elements, shaped};
use super::layout::with_sizes;
use super::reduction::{average, rows};
use super::{Error, Table};
use crate::graph::ScalarType;

pub(super) const OPS: Table = &[
    ("aten.avg_pool2d.default", avg_pool2d),
    ("aten.avg_pool1d.default", avg_pool1d),
    ("aten.max_pool2d.default", max_pool2d),
    ("aten.max_pool2d_with_indices.default", max_pool2d_with_indices),
    ("aten.adaptive_avg_pool2d.default", adaptive_avg_pool2d),
    ("aten._adaptive_avg_pool2d.default", adaptive_avg_pool2d),
    ("aten.adaptive_avg_pool1d.default", adaptive_avg_pool1d),
];

/// The windows along one dimension.
struct Windows {
    size: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    count: usize,
}

impl Windows {
    /// `ceil` also counts windows that run over the end, unless they start in the padding behind it.
    fn new(
        call: &Call<'_>,
        size: usize,
        [kernel, stride, padding, dilation]: [usize; 4],
        ceil: bool,
    ) -> Result<Self, Error> {
        if kernel == 0 || stride == 0 || dilation == 0 {
            return Err(call.bad("kernel_size", "kernel, stride and dilation must be positive"));
        }
        if padding > kernel / 2 {
            return Err(call.bad("padding", format!("{padding} is more than half of the kernel {kernel}")));
        }
        let refused = || call.mismatch(format!("a window of {kernel} does not fit {size}"));
        let extent = dilation.checked_mul(kernel - 1).and_then(|n| n.checked_add(1)).ok_or_else(refused)?;
        let room = size.checked_add(2 * padding).and_then(|n| n.checked_sub(extent)).ok_or_else(refused)?;
        let extra = if ceil { stride - 1 } else { 0 };
        let mut count = (room + extra) / stride + 1;
        if ceil && (count - 1) * stride >= size + padding {
            count -= 1;
        }
        Ok(Self { size, kernel, stride, padding, dilation, count })
    }

    /// Start (possibly in the padding before the input) and end of a window, the end cut at the
    /// padding behind the input.
    fn padded(&self, index: usize) -> (i64, i64) {
        let signed = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let start = signed(index * self.stride) - signed(self.padding);
        (start, (start + signed(self.kernel)).min(signed(self.size + self.padding)))
    }

    /// The part of a window that lies in the input.
    fn inside(&self, index: usize) -> std::ops::Range<usize> {
        let (start, end) = self.padded(index);
        let cut = |n: i64| usize::try_from(n.max(0)).unwrap_or(0).min(self.size);
        cut(start)..cut(end).max(cut(start))
    }

    /// The positions in the input that a window of a dilated kernel reads.
    fn taps(&self, index: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let (first, padding, size, dilation) = (index * self.stride, self.padding, self.size, self.dilation);
        (0..self.kernel)
            .filter_map(move |k| (first + k * dilation).checked_sub(padding))
            .filter(move |&position| position < size)
    }
}

/// Leading dimensions as one, then height and width.
fn planes(call: &Call<'_>, array: &Array) -> Result<(usize, usize, usize), Error> {
    match array.sizes() {
        [c, h, w] => Ok((*c, *h, *w)),
        [n, c, h, w] => Ok((n * c, *h, *w)),
        sizes => Err(call.mismatch(format!("{sizes:?} has neither three nor four dimensions"))),
    }
}

fn pooled_sizes(array: &Array, height: usize, width: usize) -> Vec<usize> {
    let mut sizes = array.sizes().to_vec();
    let rank = sizes.len();
    if let Some([h, w]) =
        sizes.get_mut(rank.saturating_sub(2)..).and_then(|tail| <&mut [usize; 2]>::try_from(tail).ok())
    {
        (*h, *w) = (height, width);
    }
    sizes
}

fn windows(call: &Call<'_>, sizes: [usize; 2]) -> Result<[Windows; 2], Error> {
    let kernel = call.pair("kernel_size", None)?;
    let stride = call.pair("stride", Some(kernel))?;
    let padding = call.pair("padding", Some([0, 0]))?;
    let dilation = call.pair("dilation", Some([1, 1]))?;
    let ceil = call.flag("ceil_mode", false)?;
    let [h, w] = sizes;
    Ok([
        Windows::new(call, h, [kernel[0], stride[0], padding[0], dilation[0]], ceil)?,
        Windows::new(call, w, [kernel[1], stride[1], padding[1], dilation[1]], ceil)?,
    ])
}

/// Averages; the divisor is the override, or the window with its padding, or the window without.
fn average_windows<T: Real>(
    input: &[T],
    [rows, columns]: &[Windows; 2],
    include_padding: bool,
    divisor: Option<i64>,
) -> Vec<T> {
    let mut output = Vec::with_capacity(rows.count * columns.count);
    let plane = rows.size * columns.size;
    if plane == 0 {
        return output;
    }
    for image in input.chunks_exact(plane) {
        for i in 0..rows.count {
            let (top, bottom) = rows.padded(i);
            let inner_rows = rows.inside(i);
            for j in 0..columns.count {
                let (left, right) = columns.padded(j);
                let inner_columns = columns.inside(j);
                // A window wholly in the padding is zero whatever the divisor.
                if inner_rows.is_empty() || inner_columns.is_empty() {
                    output.push(T::zero());
                    continue;
                }
                let mut sum = T::zero();
                for row in inner_rows.clone() {
                    let start = row * columns.size;
                    for &x in image.get(start + inner_columns.start..start + inner_columns.end).unwrap_or_default() {
                        sum += x;
                    }
                }
                let area = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
                let divisor = divisor.unwrap_or(if include_padding {
                    (bottom - top) * (right - left)
                } else {
                    area(inner_rows.len() * inner_columns.len())
                });
                #[expect(clippy::cast_precision_loss, reason = "window areas are small")]
                output.push(sum / T::of_f64(divisor as f64));
            }
        }
    }
    output
}

fn averaged(call: &Call<'_>, array: &Array, windows: &[Windows; 2], divisor: Option<i64>) -> Result<Array, Error> {
    let sizes = pooled_sizes(array, windows[0].count, windows[1].count);
    call.allow(&sizes)?;
    let include = call.flag("count_include_pad", true)?;
    let data = by_real!(call, array, T => {
        let input = elements(array.storage::<T>().ok_or_else(|| call.unsupported_dtype(array.dtype()))?);
        let output = average_windows(&input, windows, include, divisor);
        T::wrap(shaped(&sizes, output).ok_or_else(|| call.mismatch("an empty plane cannot be pooled"))?)
    });
    Ok(Array::computed(array.dtype(), data))
}

fn avg_pool2d(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let (_, h, w) = planes(call, array)?;
    let windows = windows(call, [h, w])?;
    if windows.iter().any(|w| w.dilation != 1) {
        return Err(call.bad("dilation", "averages have none"));
    }
    let divisor = call.optional_int("divisor_override")?;
    if divisor == Some(0) {
        return Err(call.bad("divisor_override", "it must not be zero"));
    }
    Ok(vec![averaged(call, array, &windows, divisor)?])
}

/// One number of a list of at most one.
fn single(call: &Call<'_>, name: &str, default: Option<usize>) -> Result<usize, Error> {
    let default = default.map(|n| [n, n]);
    match call.optional_ints(name)? {
        Some(list) if list.len() > 1 => Err(call.bad(name, "one number is needed")),
        _ => Ok(call.pair(name, default)?[0]),
    }
}

fn avg_pool1d(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let kernel = single(call, "kernel_size", None)?;
    let stride = single(call, "stride", Some(kernel))?;
    let padding = single(call, "padding", Some(0))?;
    let ceil = call.flag("ceil_mode", false)?;
    let (rest, length) = match array.sizes() {
        [rest @ .., length] if matches!(rest.len(), 1 | 2) => (rest.to_vec(), *length),
        sizes => return Err(call.mismatch(format!("{sizes:?} has neither two nor three dimensions"))),
    };
    let windows =
        [Windows::new(call, 1, [1, 1, 0, 1], false)?, Windows::new(call, length, [kernel, stride, padding, 1], ceil)?];
    let wide = with_sizes(call, array, &[rest.iter().product(), 1, length])?;
    let result = averaged(call, &wide, &windows, None)?;
    let sizes: Vec<usize> = rest.into_iter().chain([windows[1].count]).collect();
    Ok(vec![with_sizes(call, &result, &sizes)?])
}

/// Largest elements of the windows and their positions in the plane.
fn largest<E: Element + PartialOrd>(input: &[E], [rows, columns]: &[Windows; 2], lowest: E) -> (Vec<E>, Vec<i64>) {
    let mut values = Vec::new();
    let mut positions = Vec::new();
    let plane = rows.size * columns.size;
    if plane == 0 {
        return (values, positions);
    }
    for image in input.chunks_exact(plane) {
        for i in 0..rows.count {
            for j in 0..columns.count {
                let taps = rows.taps(i).flat_map(|row| columns.taps(j).map(move |column| (row, column)));
                let mut best = lowest;
                let mut place = None;
                for (row, column) in taps {
                    let position = row * columns.size + column;
                    let Some(&x) = image.get(position) else { continue };
                    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
                    let nan = x != x;
                    if x > best || nan {
                        best = x;
                        place = Some(position);
                    }
                    // Without any larger element the first tap is the place.
                    place = place.or(Some(position));
                }
                values.push(best);
                positions.push(i64::try_from(place.unwrap_or(0)).unwrap_or(i64::MAX));
            }
        }
    }
    (values, positions)
}

fn max_pool2d_with_indices(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let (_, h, w) = planes(call, array)?;
    let windows = windows(call, [h, w])?;
    let sizes = pooled_sizes(array, windows[0].count, windows[1].count);
    call.allow(&sizes)?;
    let refused = || call.mismatch("an empty plane cannot be pooled");
    fn wrap<E: Element>(sizes: &[usize], (values, positions): (Vec<E>, Vec<i64>)) -> Option<(Data, Nd<i64>)> {
        Some((E::wrap(shaped(sizes, values)?), shaped(sizes, positions)?))
    }
    let (values, positions) = match array.data() {
        Data::F32(a) => wrap(&sizes, largest(&elements(a), &windows, f32::NEG_INFINITY)).ok_or_else(refused)?,
        Data::F64(a) => wrap(&sizes, largest(&elements(a), &windows, f64::NEG_INFINITY)).ok_or_else(refused)?,
        Data::I64(a) => wrap(&sizes, largest(&elements(a), &windows, i64::MIN)).ok_or_else(refused)?,
        Data::Bool(_) => return Err(call.unsupported_dtype(array.dtype())),
    };
    Ok(vec![Array::moved(array.dtype(), values), Array::moved(ScalarType::Int64, Data::I64(positions))])
}

fn max_pool2d(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let mut results = max_pool2d_with_indices(call)?;
    results.truncate(1);
    Ok(results)
}

/// Averages over `output` windows that together cover the dimension.
fn adaptive(call: &Call<'_>, array: &Array, [out_h, out_w]: [usize; 2]) -> Result<Array, Error> {
    let (_, h, w) = planes(call, array)?;
    let sizes = pooled_sizes(array, out_h, out_w);
    call.allow(&sizes)?;
    let axes = [array.rank() - 2, array.rank() - 1];
    if [out_h, out_w] == [1, 1] {
        let data = by_real!(call, array, T => {
            let rows = rows::<T>(array, &axes, true).ok_or_else(|| call.unsupported_dtype(array.dtype()))?;
            T::wrap(rows.map(call, average)?)
        });
        return Ok(Array::computed(array.dtype(), data));
    }
    let range = |i: usize, size: usize, out: usize| i * size / out..((i + 1) * size).div_ceil(out);
    let data = by_real!(call, array, T => {
        let input = elements(array.storage::<T>().ok_or_else(|| call.unsupported_dtype(array.dtype()))?);
        let mut output = Vec::with_capacity(sizes.iter().product());
        if h * w > 0 {
            for image in input.chunks_exact(h * w) {
                for i in 0..out_h {
                    for j in 0..out_w {
                        let (rows, columns) = (range(i, h, out_h), range(j, w, out_w));
                        let mut sum = T::of_f64(0.0);
                        for row in rows.clone() {
                            for &x in image.get(row * w + columns.start..row * w + columns.end).unwrap_or_default() {
                                sum += x;
                            }
                        }
                        #[expect(clippy::cast_precision_loss, reason = "window sizes are small")]
                        output.push(sum / T::of_f64(rows.len() as f64) / T::of_f64(columns.len() as f64));
                    }
                }
            }
        }
        T::wrap(shaped(&sizes, output).ok_or_else(|| call.mismatch("an empty plane cannot be pooled"))?)
    });
    Ok(Array::computed(array.dtype(), data))
}

fn adaptive_avg_pool2d(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    Ok(vec![adaptive(call, array, call.pair("output_size", None)?)?])
}

fn adaptive_avg_pool1d(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let array = call.tensor("self")?;
    let out = single(call, "output_size", None)?;
    let (rest, length) = match array.sizes() {
        [rest @ .., length] if matches!(rest.len(), 1 | 2) => (rest.to_vec(), *length),
        sizes => return Err(call.mismatch(format!("{sizes:?} has neither two nor three dimensions"))),
    };
    let wide = with_sizes(call, array, &[rest.iter().product(), 1, length])?;
    let result = adaptive(call, &wide, [1, out])?;
    let sizes: Vec<usize> = rest.into_iter().chain([out]).collect();
    Ok(vec![with_sizes(call, &result, &sizes)?])
}
