//! What DD-001 does and what it refuses.

use dd_001_softmax_layout::SoftmaxLayout;
use rule_sdk::testing::{declined, examine, rewritten};

fn softmax(shape: &str, dim: i64) -> String {
    format!("x: f32{shape} = input\ny: f32{shape} = aten.softmax.int(self=x, dim={dim}, dtype=None)\nreturn y")
}

#[track_caller]
fn refuses(graph: &str, code: &str) {
    let verdict = examine::<SoftmaxLayout>(graph);
    assert_eq!(declined(&verdict), Some(code), "{verdict:?}");
}

#[test]
fn channels_of_an_image_take_the_rank_3_form() {
    assert_eq!(
        rewritten::<SoftmaxLayout>(&softmax("[2,21,16,8]", 1)),
        "%0 = aten.reshape.default(self=x, shape=[2, 21, 128])
%1 = aten.permute.default(self=%0, dims=[0, 2, 1])
%2 = aten.softmax.int(self=%1, dim=-1)
%3 = aten.permute.default(self=%2, dims=[0, 2, 1])
%4 = aten.contiguous.default(self=%3)
%5 = aten.reshape.default(self=%4, shape=[2, 21, 16, 8])
y -> %5
delete aten.softmax.int
"
    );
}

#[test]
fn a_dimension_with_only_ones_behind_takes_the_matrix_form() {
    assert_eq!(
        rewritten::<SoftmaxLayout>(&softmax("[2,21,1,1]", -3)),
        "%0 = aten.reshape.default(self=x, shape=[2, 21])
%1 = aten.softmax.int(self=%0, dim=-1)
%2 = aten.reshape.default(self=%1, shape=[2, 21, 1, 1])
y -> %2
delete aten.softmax.int
"
    );
}

#[test]
fn a_decomposed_graph_keeps_its_dialect() {
    let text = rewritten::<SoftmaxLayout>(
        "x: f16[3,4,5] = input\ny: f16[3,4,5] = aten._softmax.default(self=x, dim=0, half_to_float=False)\nreturn y",
    );
    assert!(text.contains("shape=[1, 3, 20]"), "{text}");
    assert!(text.contains("aten._softmax.default(self=%1, dim=-1, half_to_float=False)"), "{text}");
}

#[test]
fn a_varying_batch_becomes_minus_one() {
    let text = rewritten::<SoftmaxLayout>(&softmax("[batch,21,4,4]", 1));
    assert!(text.contains("shape=[-1, 21, 16]") && text.contains("shape=[-1, 21, 4, 4]"), "{text}");
}

#[test]
fn no_rewrite_normalises_the_last_dimension_of_rank_4() {
    for shape in ["[7]", "[2,3]", "[2,3,4]", "[2,3,4,5]", "[1,3,1,5]", "[2,3,4,1]", "[2,3,4,5,6]", "[n,3,4,1,1]"] {
        let rank = i64::try_from(shape.matches(',').count() + 1).expect("small");
        for dim in -rank..rank {
            let verdict = examine::<SoftmaxLayout>(&softmax(shape, dim));
            if declined(&verdict).is_some() {
                let last = dim == -1 || dim == rank - 1;
                let varying = shape.starts_with("[n") && (dim == 0 || dim == -rank);
                assert!(last || varying, "{shape} {dim}: {verdict:?}");
                continue;
            }
            let text = rewritten::<SoftmaxLayout>(&softmax(shape, dim));
            let reshaped = text.split("shape=[").nth(1).and_then(|rest| rest.split(']').next()).expect("a reshape");
            assert!(reshaped.matches(',').count() < 3, "{shape} {dim}: {text}");
            assert!(text.contains("dim=-1"), "{text}");
        }
    }
}

#[test]
fn refusals_say_why() {
    refuses(&softmax("[2,3,4,5]", 3), "last-dimension");
    refuses(&softmax("[2,3,4,5]", -1), "last-dimension");
    refuses(&softmax("[8]", 0), "last-dimension");
    refuses(&softmax("[2,3,4,5]", 4), "dimension");
    refuses(&softmax("[]", 0), "rank");
    refuses(&softmax("[1,2,3,4,5,6]", 1), "rank");
    refuses(&softmax("[2,0,4]", 1), "empty");
    refuses(&softmax("[1,21,h,w]", 1), "dynamic-shape");
    refuses(&softmax("[n,21,4,4]", 0), "dynamic-shape");
    refuses(&softmax("[n,m,4,4]", 2), "dynamic-shape");
}

#[test]
fn other_element_types_are_refused() {
    let graph = |from: &str, to: &str, dtype: &str| {
        format!("x: {from}[2,3,4] = input\ny: {to}[2,3,4] = aten.softmax.int(self=x, dim=1, dtype={dtype})\nreturn y")
    };
    refuses(&graph("bf16", "bf16", "None"), "element-type");
    refuses(&graph("f64", "f64", "None"), "element-type");
    refuses(&graph("f16", "f32", "float32"), "changes-type");
    assert_eq!(declined(&examine::<SoftmaxLayout>(&graph("f32", "f32", "float32"))), None);
    refuses(
        "x: f16[2,3,4] = input\ny: f32[2,3,4] = aten._softmax.default(self=x, dim=1, half_to_float=True)\nreturn y",
        "changes-type",
    );
}

#[test]
fn a_result_in_another_memory_order_is_refused() {
    refuses(
        "x: f32[2,3,4,5] strides [60,1,15,3] = input
         y: f32[2,3,4,5] strides [60,1,15,3] = aten.softmax.int(self=x, dim=1, dtype=None)
         return y",
        "layout",
    );
}
