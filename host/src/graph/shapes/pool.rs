//! Pooling, convolution, nearest upsampling: the layout follows the input where torch says so.

use super::super::{Dim, ScalarType, TensorMeta};
use super::arguments::Call;
use super::layout::{channels_last_strides, is_contiguous, suggests_channels_last};
use super::{ShapeError, dense};

type Outputs = Result<Vec<TensorMeta>, ShapeError>;

/// A new tensor in the layout that the input suggests.
fn like_input(
    call: &Call<'_>,
    input: &TensorMeta,
    dtype: ScalarType,
    sizes: Vec<Dim>,
) -> Result<TensorMeta, ShapeError> {
    let mut output = dense(call, input, dtype, sizes)?;
    match suggests_channels_last(input) {
        Some(true) => {
            output.strides = channels_last_strides(&output.sizes).ok_or_else(|| call.undecided("a stride"))?;
            Ok(output)
        }
        Some(false) => Ok(output),
        None => Err(call.undecided("the layout of the input")),
    }
}

/// An image: leading axes, height, width.
fn image<'t>(call: &Call<'_>, tensor: &'t TensorMeta) -> Result<(&'t [Dim], [i64; 2]), ShapeError> {
    match tensor.sizes.as_slice() {
        [lead @ .., height, width] if matches!(lead.len(), 1 | 2) => {
            Ok((lead, [call.fixed(height)?, call.fixed(width)?]))
        }
        _ => Err(call.invalid("the input has three or four axes")),
    }
}

fn sizes(lead: &[Dim], image: [i64; 2]) -> Vec<Dim> {
    lead.iter().cloned().chain(image.map(Dim::Fixed)).collect()
}

/// Number of windows along one axis.
fn windows(
    call: &Call<'_>,
    size: i64,
    kernel: i64,
    padding: i64,
    stride: i64,
    dilation: i64,
    ceil: bool,
) -> Result<i64, ShapeError> {
    if kernel <= 0 || stride <= 0 || dilation <= 0 || padding < 0 {
        return Err(call.invalid("kernel, stride and dilation are positive, padding is not negative"));
    }
    let overflow = || call.invalid("the sizes overflow");
    let reach = kernel.checked_sub(1).and_then(|reach| reach.checked_mul(dilation)).ok_or_else(overflow)?;
    let padded = padding.checked_mul(2).and_then(|both| size.checked_add(both)).ok_or_else(overflow)?;
    let room = padded.checked_sub(reach).and_then(|room| room.checked_sub(1)).ok_or_else(overflow)?;
    let extra = if ceil { stride - 1 } else { 0 };
    let mut count = room.checked_add(extra).ok_or_else(overflow)?.div_euclid(stride) + 1;
    if ceil && (count - 1).saturating_mul(stride) >= size + padding {
        count -= 1;
    }
    if count < 1 {
        return Err(call.invalid("the output has no elements"));
    }
    Ok(count)
}

struct Pool {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    ceil: bool,
}

impl Pool {
    fn of(call: &Call<'_>, dilated: bool) -> Result<Self, ShapeError> {
        let kernel = call.per_axis("kernel_size", 2)?;
        let stride = if call.ints("stride")?.is_empty() { kernel.clone() } else { call.per_axis("stride", 2)? };
        let padding = call.per_axis("padding", 2)?;
        let dilation = if dilated { call.per_axis("dilation", 2)? } else { vec![1, 1] };
        if padding.iter().zip(&kernel).any(|(padding, kernel)| *padding > kernel / 2) {
            return Err(call.invalid("the padding is larger than half the kernel"));
        }
        Ok(Self { kernel, stride, padding, dilation, ceil: call.bool("ceil_mode")? })
    }

    fn output(&self, call: &Call<'_>, image: [i64; 2]) -> Result<[i64; 2], ShapeError> {
        let mut output = image;
        for (axis, size) in output.iter_mut().enumerate() {
            let at = |list: &[i64]| list.get(axis).copied().unwrap_or(1);
            let (kernel, padding) = (at(&self.kernel), at(&self.padding));
            *size = windows(call, *size, kernel, padding, at(&self.stride), at(&self.dilation), self.ceil)?;
        }
        Ok(output)
    }
}

pub(super) fn avg_pool2d(call: &Call<'_>) -> Outputs {
    let input = call.tensor("self")?;
    if !input.dtype.is_floating() {
        return Err(call.undecided("an average of integers"));
    }
    if call.optional_int("divisor_override")? == Some(0) {
        return Err(call.invalid("a divisor of 0"));
    }
    let (lead, size) = image(call, input)?;
    let output = Pool::of(call, false)?.output(call, size)?;
    Ok(vec![like_input(call, input, input.dtype, sizes(lead, output))?])
}

pub(super) fn max_pool2d(call: &Call<'_>) -> Outputs {
    max_pool2d_with_indices(call).map(|outputs| outputs.into_iter().take(1).collect())
}

pub(super) fn max_pool2d_with_indices(call: &Call<'_>) -> Outputs {
    let input = call.tensor("self")?;
    let (lead, size) = image(call, input)?;
    let output = Pool::of(call, true)?.output(call, size)?;
    let values = like_input(call, input, input.dtype, sizes(lead, output))?;
    let indices = TensorMeta { dtype: ScalarType::Int64, ..values.clone() };
    Ok(vec![values, indices])
}

pub(super) fn adaptive_avg_pool2d(call: &Call<'_>) -> Outputs {
    let input = call.tensor("self")?;
    if !input.dtype.is_floating() {
        return Err(call.undecided("an average of integers"));
    }
    let (lead, _) = image(call, input)?;
    let [height, width] = *call.per_axis("output_size", 2)? else {
        return Err(call.invalid("`output_size` has two numbers"));
    };
    if height < 0 || width < 0 {
        return Err(call.invalid("a negative size"));
    }
    Ok(vec![like_input(call, input, input.dtype, sizes(lead, [height, width]))?])
}

pub(super) fn upsample_nearest2d(call: &Call<'_>) -> Outputs {
    let input = call.tensor("self")?;
    let output = call.ints("output_size")?;
    upsampled(call, input, &output)
}

pub(super) fn upsample_nearest2d_vec(call: &Call<'_>) -> Outputs {
    let input = call.tensor("input")?;
    let (_, [height, width]) = image(call, input)?;
    let output = match (call.is_none("output_size")?, call.is_none("scale_factors")?) {
        (false, true) => call.ints("output_size")?,
        (true, false) => match call.floats("scale_factors")? {
            [vertical, horizontal] => vec![scaled(height, *vertical), scaled(width, *horizontal)],
            _ => return Err(call.invalid("`scale_factors` has two numbers")),
        },
        _ => return Err(call.invalid("one of `output_size` and `scale_factors`")),
    };
    upsampled(call, input, &output)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as torch computes it")]
fn scaled(size: i64, factor: f64) -> i64 {
    (size as f64 * factor) as i64
}

fn upsampled(call: &Call<'_>, input: &TensorMeta, output: &[i64]) -> Outputs {
    let (lead, size) = image(call, input)?;
    let [height, width] = *output else {
        return Err(call.invalid("the output size has two numbers"));
    };
    if lead.len() != 2 || size.contains(&0) || height <= 0 || width <= 0 {
        return Err(call.invalid("input and output have four axes and elements"));
    }
    Ok(vec![like_input(call, input, input.dtype, sizes(lead, [height, width]))?])
}

pub(super) fn convolution(call: &Call<'_>, axes: usize) -> Outputs {
    let (input, weight) = (call.tensor("input")?, call.tensor("weight")?);
    let bias = call.optional_tensor("bias")?;
    let groups = call.int("groups")?;
    let (stride, dilation) = (call.per_axis("stride", axes)?, call.per_axis("dilation", axes)?);
    if weight.sizes.len() != axes + 2 || input.sizes.len() + 1 < axes + 2 || input.sizes.len() > axes + 2 {
        return Err(call.invalid("input and weight have another number of axes"));
    }
    let same_type = [Some(weight), bias].into_iter().flatten().all(|other| other.dtype == input.dtype);
    if !same_type || !input.dtype.is_floating() {
        return Err(call.invalid("operands of different or integer element types"));
    }
    for operand in [input, weight] {
        if suggests_channels_last(operand) != Some(false) || axes == 1 && !is_contiguous(operand) {
            return Err(call.undecided("the layout of a convolution whose operands are not row major"));
        }
    }
    let weight_sizes = call.all_fixed(&weight.sizes)?;
    let [outputs, depth, kernel @ ..] = weight_sizes.as_slice() else {
        return Err(call.invalid("the weight has too few axes"));
    };
    let (lead, spatial) = input.sizes.split_at(input.sizes.len() - axes);
    let channels = lead.last().ok_or_else(|| call.invalid("the input has no channels"))?;
    if groups <= 0 || call.fixed(channels)? != depth.saturating_mul(groups) || outputs % groups != 0 {
        return Err(call.invalid("channels, groups and weight do not fit together"));
    }
    if let Some(bias) = bias
        && !matches!(bias.sizes.as_slice(), [Dim::Fixed(size)] if size == outputs)
    {
        return Err(call.invalid("the bias has one axis, as long as the output has channels"));
    }
    let spatial = call.all_fixed(spatial)?;
    let padding = padding(call, axes, kernel, &stride, &dilation)?;
    let mut sizes: Vec<Dim> = lead.iter().take(lead.len() - 1).cloned().collect();
    sizes.push(Dim::Fixed(*outputs));
    for (axis, size) in spatial.iter().enumerate() {
        let at = |list: &[i64]| list.get(axis).copied().unwrap_or(1);
        let count = match &padding {
            None => *size,
            Some(padding) => windows(call, *size, at(kernel), at(padding), at(&stride), at(&dilation), false)?,
        };
        sizes.push(Dim::Fixed(count));
    }
    Ok(vec![dense(call, input, input.dtype, sizes)?])
}

/// Padding per axis; `None` for the amount that keeps the size.
fn padding(
    call: &Call<'_>,
    axes: usize,
    kernel: &[i64],
    stride: &[i64],
    dilation: &[i64],
) -> Result<Option<Vec<i64>>, ShapeError> {
    if !call.op.ends_with(".padding") {
        return call.per_axis("padding", axes).map(Some);
    }
    match call.text("padding")? {
        "valid" => Ok(Some(vec![0; axes])),
        "same" if stride.iter().all(|stride| *stride == 1) && kernel.len() == axes && dilation.len() == axes => {
            Ok(None)
        }
        "same" => Err(call.invalid("`same` padding has stride 1")),
        _ => Err(call.invalid("an unknown padding")),
    }
}
