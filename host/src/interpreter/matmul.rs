//! Matrix products and what is made of them.

use super::arguments::{Call, Operand, Scalar};
use super::arithmetic::{add_arrays, multiply_arrays};
use super::array::{Array, Element, Real, by_real, elements, shaped};
use super::layout::{broadcast, permuted, with_sizes};
use super::promotion::broadcast_sizes;
use super::softmax::softmax_last;
use super::{Error, Table};

pub(super) const OPS: Table = &[
    ("aten.mm.default", mm),
    ("aten.bmm.default", bmm),
    ("aten.matmul.default", matmul),
    ("aten.linear.default", linear),
    ("aten.addmm.default", addmm),
    ("aten.baddbmm.default", baddbmm),
    ("aten.scaled_dot_product_attention.default", attention),
];

/// `[m, k] x [k, n]`, every element summed in the order of `k`.
pub(super) fn product<T: Real>(a: &[T], b: &[T], k: usize, n: usize, output: &mut [T]) {
    if k == 0 || n == 0 {
        return;
    }
    for (row, target) in a.chunks_exact(k).zip(output.chunks_exact_mut(n)) {
        for (&x, other) in row.iter().zip(b.chunks_exact(n)) {
            for (sum, &y) in target.iter_mut().zip(other) {
                *sum += x * y;
            }
        }
    }
}

/// Batches of matrix products; both have rank 3 and the same batch.
fn batched(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    let (&[batch, m, k], &[other, inner, n]) = (a.sizes(), b.sizes()) else {
        return Err(call.mismatch(format!("{:?} and {:?} are no batches of matrices", a.sizes(), b.sizes())));
    };
    if batch != other || k != inner {
        return Err(call.mismatch(format!("{:?} and {:?} do not multiply", a.sizes(), b.sizes())));
    }
    if a.dtype() != b.dtype() {
        return Err(call.mismatch("the element types differ"));
    }
    call.allow(&[batch, m, n])?;
    let data = by_real!(call, a, T => {
        let (Some(x), Some(y)) = (a.storage::<T>(), b.storage::<T>()) else {
            return Err(call.unsupported_dtype(b.dtype()));
        };
        let (x, y) = (elements(x), elements(y));
        let mut output = vec![T::of_f64(0.0); batch * m * n];
        for i in 0..batch {
            if let (Some(x), Some(y), Some(target)) = (
                x.get(i * m * k..(i + 1) * m * k),
                y.get(i * k * n..(i + 1) * k * n),
                output.get_mut(i * m * n..(i + 1) * m * n),
            ) {
                product(x, y, k, n, target);
            }
        }
        T::wrap(shaped(&[batch, m, n], output).ok_or_else(|| call.mismatch("sizes"))?)
    });
    Ok(Array::computed(a.dtype(), data))
}

fn matrices(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    let (&[m, k], &[inner, n]) = (a.sizes(), b.sizes()) else {
        return Err(call.mismatch(format!("{:?} and {:?} are no matrices", a.sizes(), b.sizes())));
    };
    let result = batched(call, &with_sizes(call, a, &[1, m, k])?, &with_sizes(call, b, &[1, inner, n])?)?;
    with_sizes(call, &result, &[m, n])
}

fn mm(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    Ok(vec![matrices(call, call.tensor("self")?, call.tensor("mat2")?)?])
}

fn bmm(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    Ok(vec![batched(call, call.tensor("self")?, call.tensor("mat2")?)?])
}

/// The general product: vectors are widened, leading dimensions broadcast.
pub(super) fn general(call: &Call<'_>, a: &Array, b: &Array) -> Result<Array, Error> {
    let widen = |array: &Array, column: bool| match array.sizes() {
        [] => Err(call.mismatch("a tensor without dimensions does not multiply")),
        [n] if column => with_sizes(call, array, &[*n, 1]),
        [n] => with_sizes(call, array, &[1, *n]),
        _ => Ok(array.clone()),
    };
    let (x, y) = (widen(a, false)?, widen(b, true)?);
    let (Some((batch_x, [m, k])), Some((batch_y, [inner, n]))) =
        (x.sizes().split_last_chunk::<2>(), y.sizes().split_last_chunk::<2>())
    else {
        return Err(call.mismatch("the operands are no matrices"));
    };
    let batch = broadcast_sizes(call, batch_x, batch_y)?;
    let count: usize = batch.iter().product();
    let with = |tail: [usize; 2]| batch.iter().copied().chain(tail).collect::<Vec<_>>();
    let wide = |array: &Array, tail: [usize; 2]| {
        let array = broadcast(call, array, &with(tail))?;
        with_sizes(call, &array, &[count, tail[0], tail[1]])
    };
    let result = batched(call, &wide(&x, [*m, *k])?, &wide(&y, [*inner, *n])?)?;
    let mut sizes = with([*m, *n]);
    if b.rank() == 1 {
        sizes.pop();
    }
    if a.rank() == 1 {
        sizes.remove(sizes.len() - if b.rank() == 1 { 1 } else { 2 });
    }
    with_sizes(call, &result, &sizes)
}

fn matmul(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    Ok(vec![general(call, call.tensor("self")?, call.tensor("other")?)?])
}

/// The array with its last two dimensions swapped.
pub(super) fn transposed(call: &Call<'_>, array: &Array) -> Result<Array, Error> {
    let rank = array.rank();
    if rank < 2 {
        return Err(call.mismatch(format!("{:?} is no matrix", array.sizes())));
    }
    let order: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
    Ok(permuted(array, &order))
}

fn linear(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (input, weight) = (call.tensor("input")?, call.tensor("weight")?);
    let (Some((&k, rest)), &[out, _]) = (input.sizes().split_last(), weight.sizes()) else {
        return Err(call.mismatch(format!("{:?} and {:?} do not multiply", input.sizes(), weight.sizes())));
    };
    let flat = with_sizes(call, input, &[rest.iter().product(), k])?;
    let mut result = matrices(call, &flat, &transposed(call, weight)?)?;
    if let Some(bias) = call.optional_tensor("bias")? {
        result = add_arrays(call, &result, bias)?;
    }
    let sizes: Vec<usize> = rest.iter().copied().chain([out]).collect();
    Ok(vec![with_sizes(call, &result, &sizes)?])
}

fn times(call: &Call<'_>, array: &Array, name: &str) -> Result<Array, Error> {
    match call.scalar(name, Scalar::Int(1))? {
        Scalar::Int(1) => Ok(array.clone()),
        factor => multiply_arrays(call, array, &Operand::Scalar(factor).cast(array.dtype(), call.precision)),
    }
}

/// `beta * self + alpha * product`; a `beta` of zero ignores `self`, NaN included.
fn added(call: &Call<'_>, product: &Array) -> Result<Array, Error> {
    let product = times(call, product, "alpha")?;
    if call.float("beta", 1.0)? == 0.0 {
        return Ok(product);
    }
    let own = broadcast(call, call.tensor("self")?, product.sizes())?;
    add_arrays(call, &times(call, &own, "beta")?, &product)
}

fn addmm(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let product = matrices(call, call.tensor("mat1")?, call.tensor("mat2")?)?;
    Ok(vec![added(call, &product)?])
}

fn baddbmm(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let product = batched(call, call.tensor("batch1")?, call.tensor("batch2")?)?;
    Ok(vec![added(call, &product)?])
}

/// Attention as torch's plain CPU path computes it: rows that are masked everywhere give zero.
fn attention(call: &Call<'_>) -> Result<Vec<Array>, Error> {
    let (query, key, value) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
    if call.float("dropout_p", 0.0)? > 0.0 {
        return Err(call.unsupported("with dropout"));
    }
    if call.flag("enable_gqa", false)? {
        return Err(call.unsupported("with grouped queries"));
    }
    let &[.., rows, width] = query.sizes() else {
        return Err(call.mismatch("the query is no matrix"));
    };
    #[expect(clippy::cast_precision_loss, reason = "head sizes are small")]
    let default = 1.0 / (width.max(1) as f64).sqrt();
    let root = call.float("scale", default)?.sqrt();
    let factor = Operand::Scalar(Scalar::Float(root)).cast(query.dtype(), call.precision);
    let query = multiply_arrays(call, query, &factor)?;
    let key = multiply_arrays(call, key, &factor)?;
    let mut scores = general(call, &query, &transposed(call, &key)?)?;
    let columns = scores.sizes().last().copied().unwrap_or(0);
    let mask = match (call.optional_tensor("attn_mask")?, call.flag("is_causal", false)?) {
        (Some(_), true) => return Err(call.bad("is_causal", "it excludes a mask")),
        (Some(mask), false) => Some(mask.clone()),
        (None, true) => {
            let lower = (0..rows).flat_map(|i| (0..columns).map(move |j| j <= i)).collect();
            let data = shaped(&[rows, columns], lower).ok_or_else(|| call.mismatch("sizes"))?;
            Some(Array::moved(crate::graph::ScalarType::Bool, bool::wrap(data)))
        }
        (None, false) => None,
    };
    if let Some(mask) = mask {
        let additive = match mask.storage::<bool>() {
            None => mask,
            Some(allowed) => {
                let data = allowed.mapv(|allowed| if allowed { 0.0_f64 } else { f64::NEG_INFINITY }).into_shared();
                Array::moved(crate::graph::ScalarType::Float64, f64::wrap(data)).cast(scores.dtype(), call.precision)
            }
        };
        scores = add_arrays(call, &scores, &additive.cast(scores.dtype(), call.precision))?;
    }
    let weights = softmax_last(call, &scores)?;
    Ok(vec![general(call, &weights, value)?])
}
