//! What a call costs, before it is made.

/// A call as far as its cost is concerned.
pub struct Work<'a> {
    /// full overload name
    pub op: &'a str,
    /// sizes of a tensor argument, by name
    pub sizes_of: &'a dyn Fn(&str) -> Option<Vec<usize>>,
    /// the argument `kernel_size`, where it is written out
    pub kernel: Option<&'a [i64]>,
    /// elements of all tensors that go in
    pub read: f64,
    /// elements of all tensors that come out
    pub made: f64,
}

/// Rough number of element operations of a call.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub fn effort(work: &Work<'_>) -> f64 {
    let of = work.sizes_of;
    let product = |sizes: &[usize]| sizes.iter().map(|&size| size as f64).product::<f64>();
    let name = work.op.split('.').nth(1).unwrap_or_default();
    let factor = if name.contains("conv") {
        of("weight").map_or(9.0, |sizes| product(sizes.get(1..).unwrap_or_default()))
    } else if name == "linear" {
        of("weight").and_then(|sizes| sizes.last().copied()).unwrap_or(64) as f64
    } else if name.contains("mm") || name == "matmul" {
        of("self").or_else(|| of("mat1")).and_then(|sizes| sizes.last().copied()).unwrap_or(64) as f64
    } else if name.contains("attention") {
        2.0 * of("key").and_then(|sizes| sizes.iter().rev().nth(1).copied()).unwrap_or(64) as f64
    } else if name.contains("pool") {
        work.kernel.map_or(9.0, |kernel| kernel.iter().map(|&size| size.max(1) as f64).product())
    } else if ["softmax", "gelu", "exp", "tanh", "sigmoid", "erf", "norm", "log"].iter().any(|part| name.contains(part))
    {
        12.0
    } else {
        2.0
    };
    work.made * factor + work.read * 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_matrices_cost_their_length_and_nothing_overflows() {
        let sizes = |name: &str| (name == "self").then(|| vec![512, 1_024]);
        let work = Work { op: "aten.mm.default", sizes_of: &sizes, kernel: None, read: 0.0, made: 100.0 };
        assert_eq!(effort(&work), 102_400.0);
        let huge = |_: &str| Some(vec![usize::MAX; 8]);
        let kernel = [i64::MAX; 3];
        for op in ["aten.conv2d.default", "aten.avg_pool2d.default", "aten.linear.default", "no op"] {
            let work = Work { op, sizes_of: &huge, kernel: Some(&kernel), read: 1e30, made: 1e30 };
            assert!(effort(&work) > 0.0, "{op}");
        }
    }
}
