//! Matrix products: the result is a new row-major tensor.

use super::super::{Dim, TensorMeta};
use super::arguments::Call;
use super::elementwise::broadcast;
use super::{ShapeError, dense};

type Outputs = Result<Vec<TensorMeta>, ShapeError>;

/// The operands are of one floating type, on one device.
fn alike(call: &Call<'_>, tensors: &[&TensorMeta]) -> Result<(), ShapeError> {
    let Some(first) = tensors.first() else { return Ok(()) };
    if tensors.iter().any(|tensor| tensor.dtype != first.dtype) {
        return Err(call.invalid("operands of different element types"));
    }
    if tensors.iter().any(|tensor| tensor.device != first.device) {
        return Err(call.invalid("tensors on different devices"));
    }
    Ok(())
}

fn inner(call: &Call<'_>, a: &Dim, b: &Dim) -> Result<(), ShapeError> {
    match (a, b) {
        _ if a.same(b) => Ok(()),
        (Dim::Fixed(a), Dim::Fixed(b)) => Err(call.invalid(format!("inner sizes {a} and {b}"))),
        _ => Err(call.undecided("whether symbolic sizes are equal")),
    }
}

pub(super) fn mm(call: &Call<'_>) -> Outputs {
    let (a, b) = (call.tensor("self")?, call.tensor("mat2")?);
    alike(call, &[a, b])?;
    match (a.sizes.as_slice(), b.sizes.as_slice()) {
        ([n, k], [k2, m]) => {
            inner(call, k, k2)?;
            Ok(vec![dense(call, a, a.dtype, vec![n.clone(), m.clone()])?])
        }
        _ => Err(call.invalid("both operands have two axes")),
    }
}

pub(super) fn bmm(call: &Call<'_>) -> Outputs {
    let (a, b) = (call.tensor("self")?, call.tensor("mat2")?);
    alike(call, &[a, b])?;
    match (a.sizes.as_slice(), b.sizes.as_slice()) {
        ([batch, n, k], [batch2, k2, m]) => {
            inner(call, batch, batch2)?;
            inner(call, k, k2)?;
            Ok(vec![dense(call, a, a.dtype, vec![batch.clone(), n.clone(), m.clone()])?])
        }
        _ => Err(call.invalid("both operands have three axes")),
    }
}

pub(super) fn addmm(call: &Call<'_>) -> Outputs {
    let (bias, a, b) = (call.tensor("self")?, call.tensor("mat1")?, call.tensor("mat2")?);
    alike(call, &[a, b, bias])?;
    match (a.sizes.as_slice(), b.sizes.as_slice()) {
        ([n, k], [k2, m]) => {
            inner(call, k, k2)?;
            let output = dense(call, a, a.dtype, vec![n.clone(), m.clone()])?;
            let sizes = broadcast(call, &[bias, &output])?;
            if sizes.len() != 2 || !sizes.iter().zip(&output.sizes).all(|(a, b)| a.same(b)) {
                return Err(call.invalid("the summand does not broadcast to the product"));
            }
            Ok(vec![output])
        }
        _ => Err(call.invalid("both factors have two axes")),
    }
}

pub(super) fn linear(call: &Call<'_>) -> Outputs {
    let (input, weight) = (call.tensor("input")?, call.tensor("weight")?);
    let bias = call.optional_tensor("bias")?;
    let mut operands = vec![input, weight];
    operands.extend(bias);
    alike(call, &operands)?;
    let [out, k] = weight.sizes.as_slice() else {
        return Err(call.invalid("the weight has two axes"));
    };
    let Some((k2, batch)) = input.sizes.split_last() else {
        return Err(call.invalid("a scalar input"));
    };
    inner(call, k, k2)?;
    if let Some(bias) = bias
        && !matches!(bias.sizes.as_slice(), [size] if size.same(out))
    {
        return Err(call.invalid("the bias has one axis, as long as the output"));
    }
    let sizes = batch.iter().chain([out]).cloned().collect();
    Ok(vec![dense(call, input, input.dtype, sizes)?])
}

pub(super) fn matmul(call: &Call<'_>) -> Outputs {
    let (a, b) = (call.tensor("self")?, call.tensor("other")?);
    alike(call, &[a, b])?;
    let sizes = match (a.sizes.as_slice(), b.sizes.as_slice()) {
        ([], _) | (_, []) => return Err(call.invalid("a scalar operand")),
        ([k], [k2]) => {
            inner(call, k, k2)?;
            Vec::new()
        }
        ([n, k], [k2]) => {
            inner(call, k, k2)?;
            vec![n.clone()]
        }
        ([k], [k2, m]) => {
            inner(call, k, k2)?;
            vec![m.clone()]
        }
        ([batch @ .., k], [k2]) => {
            inner(call, k, k2)?;
            batch.to_vec()
        }
        ([batch @ .., n, k], [k2, m]) => {
            inner(call, k, k2)?;
            batch.iter().chain([n, m]).cloned().collect()
        }
        ([_] | [_, _], _) => {
            return Err(call.undecided("how torch lays out a product of a matrix and a batch"));
        }
        ([batch @ .., n, k], [batch2 @ .., k2, m]) => {
            inner(call, k, k2)?;
            let only = |sizes: &[Dim]| TensorMeta { sizes: sizes.to_vec(), strides: Vec::new(), ..a.clone() };
            let batch = broadcast(call, &[&only(batch), &only(batch2)])?;
            batch.iter().chain([n, m]).cloned().collect()
        }
    };
    Ok(vec![dense(call, a, a.dtype, sizes)?])
}
