//! What DD-003 does and what it refuses.

use dd_003_avg_pool_window::AvgPoolWindow;
use rule_sdk::testing::{declined, examine, rewritten};

fn pool(kind: &str, from: &str, to: &str, arguments: &str) -> String {
    format!(
        "x: {kind}{from} = input
         y: {kind}{to} = aten.avg_pool2d.default(self=x, {arguments})
         return y"
    )
}

#[track_caller]
fn refuses(graph: &str, code: &str) {
    let verdict = examine::<AvgPoolWindow>(graph);
    assert_eq!(declined(&verdict), Some(code), "{graph}\n{verdict:?}");
}

const COUNTED: &str =
    "kernel_size=[3, 3], stride=[1, 1], padding=[1, 1], ceil_mode=False, count_include_pad=True, divisor_override=None";

#[test]
fn padding_that_counts_becomes_a_pad() {
    assert_eq!(
        rewritten::<AvgPoolWindow>(&pool("f32", "[1,192,35,35]", "[1,192,35,35]", COUNTED)),
        "%0 = aten.constant_pad_nd.default(self=x, pad=[1, 1, 1, 1], value=0.0)
%1 = aten.avg_pool2d.default(self=%0, kernel_size=[3, 3], stride=[1, 1], padding=[0, 0], ceil_mode=False, count_include_pad=True)
y -> %1
delete aten.avg_pool2d.default
"
    );
}

#[test]
fn windows_beyond_the_tensor_get_a_map_that_is_computed_once() {
    let text = rewritten::<AvgPoolWindow>(&pool(
        "f32",
        "[n,8,6,8]",
        "[n,8,3,4]",
        "kernel_size=[3], stride=[2], padding=[0], ceil_mode=True, count_include_pad=True, divisor_override=None",
    ));
    assert_eq!(
        text,
        "%0 = aten.constant_pad_nd.default(self=x, pad=[0, 1, 0, 1], value=0.0)
%1 = aten.avg_pool2d.default(self=%0, kernel_size=[3, 3], stride=[2, 2], padding=[0, 0], ceil_mode=False, count_include_pad=True)
%2 = aten.full.default(size=[1, 1, 3, 4], fill_value=9.0, dtype=float32)
%3 = aten.full.default(size=[1, 1, 6, 8], fill_value=1.0, dtype=float32)
%4 = aten.constant_pad_nd.default(self=%3, pad=[0, 1, 0, 1], value=0.0)
%5 = aten.avg_pool2d.default(self=%4, kernel_size=[3, 3], stride=[2, 2], divisor_override=1)
%6 = aten.div.Tensor(self=%2, other=%5)
fold %6
%7 = aten.mul.Tensor(self=%1, other=%6)
y -> %7
delete aten.avg_pool2d.default
"

    );
}

#[test]
fn a_divisor_becomes_one_factor() {
    let text = rewritten::<AvgPoolWindow>(&pool(
        "f32",
        "[1,8,6,6]",
        "[1,8,3,3]",
        "kernel_size=[2, 2], stride=[], padding=[0, 0], ceil_mode=False, count_include_pad=True, divisor_override=3",
    ));
    assert!(!text.contains("x, pad="), "{text}");
    assert!(text.contains("size=[1, 1, 1, 1], fill_value=4.0") && text.contains("fill_value=3.0"), "{text}");
}

#[test]
fn ceil_mode_without_effect_only_loses_its_flag() {
    let text = rewritten::<AvgPoolWindow>(&pool(
        "f32",
        "[1,8,6,6]",
        "[1,8,3,3]",
        "kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], ceil_mode=True, count_include_pad=True, divisor_override=None",
    ));
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("ceil_mode=False"), "{text}");
}

#[test]
fn behind_a_dequantize_nothing_is_padded_directly() {
    let graph = |arguments: &str, to: &str| {
        format!(
            "q: i8[1,8,6,6] = input
             x: f32[1,8,6,6] = quantized_decomposed.dequantize_per_tensor.default(input=q, scale=0.1)
             y: f32{to} = aten.avg_pool2d.default(self=x, {arguments})
             return y"
        )
    };
    let mapped = rewritten::<AvgPoolWindow>(&graph(COUNTED, "[1,8,6,6]"));
    assert!(!mapped.contains("constant_pad_nd.default(self=x"), "{mapped}");
    assert!(mapped.starts_with("%0 = aten.avg_pool2d.default(self=x, kernel_size=[3, 3], stride=[1, 1], padding=[1, 1], ceil_mode=False, count_include_pad=False)"), "{mapped}");
    let ceil = "kernel_size=[3, 3], stride=[2, 2], padding=[0, 0], ceil_mode=True, count_include_pad=True, divisor_override=None";
    let multiplied = rewritten::<AvgPoolWindow>(&graph(ceil, "[1,8,3,3]"));
    assert!(
        multiplied.starts_with("%0 = aten.mul.Tensor(self=x, other=1.0)\n%1 = aten.constant_pad_nd.default(self=%0"),
        "{multiplied}"
    );
}

#[test]
fn what_the_backend_takes_is_left_alone() {
    for arguments in [
        "kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], ceil_mode=False, count_include_pad=True, divisor_override=None",
        "kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], ceil_mode=False, count_include_pad=True, divisor_override=4",
        "kernel_size=[3, 3], stride=[2, 2], padding=[1, 1], ceil_mode=False, count_include_pad=False, divisor_override=None",
    ] {
        refuses(&pool("f32", "[1,8,6,6]", "[1,8,3,3]", arguments), "already-delegated");
    }
}

#[test]
fn refusals_say_why() {
    refuses(&pool("f32", "[8,6,6]", "[8,6,6]", COUNTED), "rank");
    refuses(&pool("f32", "[1,8,h,w]", "[1,8,h,w]", COUNTED), "dynamic-shape");
    refuses(&pool("f64", "[1,8,6,6]", "[1,8,6,6]", COUNTED), "element-type");
    refuses(&pool("f32", "[1,8,6,6] strides [288,1,48,8]", "[1,8,6,6] strides [288,1,48,8]", COUNTED), "layout");
    refuses(&pool("f32", "[1,8,6,6]", "[1,8,6,6]", &COUNTED.replace("padding=[1, 1]", "padding=[2, 2]")), "window");
    refuses(&pool("f32", "[1,8,6,6]", "[1,8,6,6]", &COUNTED.replace("=None", "=0")), "window");
    let half = |arguments: &str| pool("f16", "[1,8,6,6]", "[1,8,6,6]", arguments);
    assert_eq!(declined(&examine::<AvgPoolWindow>(&half(COUNTED))), None, "no map, the same bits");
    refuses(&half(&COUNTED.replace("=None", "=5")), "element-type");
}
