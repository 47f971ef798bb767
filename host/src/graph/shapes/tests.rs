use super::super::{Symbol, fixtures};
use super::*;

fn symbol(name: &str) -> Dim {
    Dim::Symbolic(Symbol {
        expression: format!("Symbol('{name}', positive=True, integer=True)"),
        hint: Some(2),
        min: Some(1),
        max: None,
    })
}

fn tensor(sizes: &[i64]) -> TensorMeta {
    fixtures::float(sizes)
}

fn with_batch(sizes: &[i64]) -> TensorMeta {
    let mut meta = tensor(sizes);
    meta.sizes[0] = symbol("s0");
    meta
}

/// `[sizes] [strides]` of the first output, or the error.
fn show_first(op: &str, inputs: &[(&str, ShapeArgument<'_>)]) -> String {
    match infer(op, inputs) {
        Ok(outputs) => format!("{} {}", show(&outputs[0].sizes), show(&outputs[0].strides)),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_rule_has_a_schema_and_every_name_in_it_exists() {
    let source = include_str!("../shapes.rs");
    let names = source.split('"').filter(|part| {
        part.split_once('.').is_some_and(|(name, overload)| {
            !name.is_empty()
                && !overload.is_empty()
                && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
        })
    });
    let mut count = 0;
    for name in names {
        let op = format!("aten.{name}");
        assert!(has_rule(&op), "{op}");
        assert!(super::super::schema::lookup(&op).is_some(), "{op}");
        count += 1;
    }
    assert!(count > 100, "{count}");
}

#[test]
fn a_symbolic_batch_passes_through_a_softmax_repair() {
    let shape = Literal::Ints(vec![-1, 21, 48]);
    let x = with_batch(&[2, 21, 6, 8]);
    let reshaped = infer(
        "aten.reshape.default",
        &[("self", ShapeArgument::Tensor(&x)), ("shape", ShapeArgument::Literal(&shape))],
    )
    .expect("reshape");
    assert!(reshaped[0].sizes[0].same(&x.sizes[0]));
    let dims = Literal::Ints(vec![0, 2, 1]);
    let turned = infer(
        "aten.permute.default",
        &[("self", ShapeArgument::Tensor(&reshaped[0])), ("dims", ShapeArgument::Literal(&dims))],
    )
    .expect("permute");
    let dim = Literal::Int(-1);
    let soft = infer(
        "aten.softmax.int",
        &[("self", ShapeArgument::Tensor(&turned[0])), ("dim", ShapeArgument::Literal(&dim))],
    )
    .expect("softmax");
    assert_eq!(show(&soft[0].strides), "[1008, 21, 1]");
    let back = infer(
        "aten.permute.default",
        &[("self", ShapeArgument::Tensor(&soft[0])), ("dims", ShapeArgument::Literal(&dims))],
    )
    .expect("permute");
    let dense = infer("aten.contiguous.default", &[("self", ShapeArgument::Tensor(&back[0]))]).expect("contiguous");
    let shape = Literal::Ints(vec![-1, 21, 6, 8]);
    let last = infer(
        "aten.reshape.default",
        &[("self", ShapeArgument::Tensor(&dense[0])), ("shape", ShapeArgument::Literal(&shape))],
    )
    .expect("reshape");
    assert_eq!(show(&last[0].sizes), show(&x.sizes));
    assert_eq!(show(&last[0].strides), show(&x.strides));
}

#[test]
fn products_of_symbols_are_written_as_the_exporter_writes_them() {
    let mut x = tensor(&[2, 3, 4, 6]);
    x.sizes = vec![symbol("s77"), Dim::Fixed(3), symbol("s53"), symbol("s0")];
    assert_eq!(
        show(&contiguous_strides(&x.sizes).expect("strides")),
        "[Mul(Integer(3), Symbol('s0', positive=True, integer=True), Symbol('s53', positive=True, integer=True)), \
         Mul(Symbol('s0', positive=True, integer=True), Symbol('s53', positive=True, integer=True)), \
         Symbol('s0', positive=True, integer=True), 1]"
    );
    // s0 * s0 is a power, which has another form.
    assert_eq!(contiguous_strides(&[Dim::Fixed(2), symbol("s0"), symbol("s0")]), None);
    let compound = Dim::Symbolic(Symbol {
        expression: "Add(Integer(1), Symbol('s0'))".to_owned(),
        hint: None,
        min: None,
        max: None,
    });
    assert_eq!(contiguous_strides(&[Dim::Fixed(2), compound, Dim::Fixed(3)]), None);
}

#[test]
fn what_a_symbolic_size_leaves_open_is_refused() {
    let x = with_batch(&[2, 3, 4, 4]);
    let number = Literal::Ints(vec![2, 48]);
    let zero = Literal::Int(0);
    let one = Literal::Int(1);
    let cases: [(&str, Vec<(&str, ShapeArgument<'_>)>); 4] = [
        ("aten.reshape.default", vec![("self", ShapeArgument::Tensor(&x)), ("shape", ShapeArgument::Literal(&number))]),
        (
            "aten.select.int",
            vec![
                ("self", ShapeArgument::Tensor(&x)),
                ("dim", ShapeArgument::Literal(&zero)),
                ("index", ShapeArgument::Literal(&one)),
            ],
        ),
        ("aten.squeeze.dim", vec![("self", ShapeArgument::Tensor(&x)), ("dim", ShapeArgument::Literal(&zero))]),
        ("aten.split.Tensor", vec![("self", ShapeArgument::Tensor(&x)), ("split_size", ShapeArgument::Literal(&one))]),
    ];
    for (op, inputs) in cases {
        assert!(matches!(infer(op, &inputs), Err(ShapeError::Undecided { .. })), "{op}: {}", show_first(op, &inputs));
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let x = tensor(&[2, 3]);
    let literal = |literal: &'static Literal| ShapeArgument::Literal(literal);
    type Inputs<'a> = Vec<(&'a str, ShapeArgument<'a>)>;
    let wrong: [(&str, Inputs<'_>, &str); 6] = [
        (
            "aten.permute.default",
            vec![("self", ShapeArgument::Tensor(&x)), ("dims", literal(&Literal::Bool(true)))],
            "another type",
        ),
        (
            "aten.softmax.int",
            vec![("self", ShapeArgument::Tensor(&x)), ("dim", literal(&Literal::Int(2)))],
            "axis 2 of a tensor with 2 axes",
        ),
        ("aten.softmax.int", vec![("self", ShapeArgument::Tensor(&x))], "`dim` is missing"),
        (
            "aten.mm.default",
            vec![("self", ShapeArgument::Tensor(&x)), ("mat2", ShapeArgument::Tensor(&x))],
            "inner sizes 3 and 2",
        ),
        (
            "aten.add.Tensor",
            vec![("self", ShapeArgument::Tensor(&x)), ("other", literal(&Literal::None))],
            "another type",
        ),
        ("aten.cat.default", vec![("tensors", ShapeArgument::Tensors(Vec::new()))], "no tensors"),
    ];
    for (op, inputs, reason) in wrong {
        let text = show_first(op, &inputs);
        assert!(text.contains(reason), "{op}: {text}");
    }
    assert!(matches!(infer("aten.nonzero.default", &[]), Err(ShapeError::NoRule { .. })));
}

#[test]
fn extreme_numbers_do_not_overflow() {
    let x = tensor(&[2, 3, 4, 4]);
    let extremes = [i64::MIN, i64::MIN + 1, -2, -1, 0, 1, 3, i64::MAX - 1, i64::MAX];
    for a in extremes {
        for b in extremes {
            let (one, two, pair) = (Literal::Int(a), Literal::Int(b), Literal::Ints(vec![a, b]));
            let four = Literal::Ints(vec![a, b, a, b]);
            let (one, two, pair) =
                (ShapeArgument::Literal(&one), ShapeArgument::Literal(&two), ShapeArgument::Literal(&pair));
            let this = ("self", ShapeArgument::Tensor(&x));
            let _ = infer("aten.slice.Tensor", &[this.clone(), ("start", one.clone()), ("end", two.clone())]);
            let _ = infer("aten.slice.Tensor", &[this.clone(), ("start", one.clone()), ("step", two.clone())]);
            let _ = infer("aten.select.int", &[this.clone(), ("dim", one.clone()), ("index", two.clone())]);
            let _ = infer("aten.split.Tensor", &[this.clone(), ("split_size", one.clone()), ("dim", two.clone())]);
            let _ = infer("aten.chunk.default", &[this.clone(), ("chunks", one.clone()), ("dim", two.clone())]);
            let _ = infer("aten.transpose.int", &[this.clone(), ("dim0", one.clone()), ("dim1", two.clone())]);
            let _ = infer("aten.reshape.default", &[this.clone(), ("shape", pair.clone())]);
            let _ = infer("aten.expand.default", &[this.clone(), ("size", ShapeArgument::Literal(&four))]);
            let _ = infer("aten.constant_pad_nd.default", &[this.clone(), ("pad", ShapeArgument::Literal(&four))]);
            let _ = infer(
                "aten.avg_pool2d.default",
                &[this.clone(), ("kernel_size", one.clone()), ("stride", two.clone())],
            );
            let _ = infer(
                "aten.max_pool2d.default",
                &[
                    this.clone(),
                    ("kernel_size", pair.clone()),
                    ("dilation", two.clone()),
                    ("ceil_mode", ShapeArgument::Literal(&Literal::Bool(true))),
                ],
            );
            let _ = infer("aten.adaptive_avg_pool2d.default", &[this.clone(), ("output_size", pair.clone())]);
            let _ = infer("aten.upsample_nearest2d.default", &[this.clone(), ("output_size", pair.clone())]);
            let _ = infer("aten.full.default", &[("size", pair.clone()), ("fill_value", one.clone())]);
            let weight = tensor(&[3, 3, 1, 1]);
            let _ = infer(
                "aten.conv2d.default",
                &[
                    ("input", ShapeArgument::Tensor(&x)),
                    ("weight", ShapeArgument::Tensor(&weight)),
                    ("stride", pair.clone()),
                    ("dilation", one.clone()),
                    ("padding", two.clone()),
                ],
            );
        }
    }
    let mut huge = x.clone();
    huge.sizes = vec![Dim::Fixed(i64::MAX); 4];
    huge.strides = vec![Dim::Fixed(i64::MAX); 4];
    for op in [
        "aten.relu.default",
        "aten.softmax.int",
        "aten.unsqueeze.default",
        "aten.flatten.using_ints",
        "aten.clone.default",
    ] {
        let _ = infer(op, &[("self", ShapeArgument::Tensor(&huge)), ("dim", ShapeArgument::Literal(&Literal::Int(0)))]);
    }
}
