//! The bundled rules through their real components: they say the same as the same sources built for this
//! machine, and the algebra of their rewrites is that of torch.

use std::process::{Command, Stdio};

use dd_001_softmax_layout::SoftmaxLayout;
use dd_002_redundant_ops::RedundantOps;
use dd_003_avg_pool_window::AvgPoolWindow;
use dd_tests::{bundled_rule, host_site, python, sdk_verdict};
use rule_sdk::{Rule, Verdict, testing};

/// Softmax over every dimension of several shapes, and what the rule refuses.
fn softmax_graphs() -> Vec<String> {
    let mut graphs = Vec::new();
    for kind in ["f32", "f16", "bf16"] {
        for shape in [
            "[]",
            "[7]",
            "[2,3]",
            "[2,3,4]",
            "[2,21,5,4]",
            "[1,3,1,5]",
            "[2,3,4,1]",
            "[2,3,4,5,6]",
            "[n,3,4,4]",
            "[1,3,h,w]",
        ] {
            for dim in -5..5 {
                graphs.push(format!(
                    "x: {kind}{shape} = input\ny: {kind}{shape} = aten.softmax.int(self=x, dim={dim}, dtype=None) !outside\nreturn y"
                ));
            }
        }
    }
    graphs
}

/// Every kind of operator that may do nothing, doing nothing and something.
fn redundant_graphs() -> Vec<String> {
    let calls = [
        "aten.alias.default(self=h)",
        "aten.detach.default(self=h)",
        "aten.slice.Tensor(self=h, dim=1, start=0, end=4, step=1)",
        "aten.expand.default(self=h, size=[2, 4, 8, 8], implicit=False)",
        "aten.adaptive_avg_pool2d.default(self=h, output_size=[8, 8])",
        "aten.cat.default(tensors=[h], dim=1)",
        "aten.cat.default(tensors=[h, h], dim=1)",
        "aten.upsample_nearest2d.vec(input=h, output_size=None, scale_factors=[1.0, 1.0])",
        "aten.upsample_nearest2d.vec(input=h, output_size=None, scale_factors=[1.1, 1.0])",
        "aten.split.Tensor(self=h, split_size=4, dim=1)",
        "aten.roll.default(self=h, shifts=[8], dims=[3])",
        "aten.roll.default(self=h, shifts=[3], dims=[3])",
        "aten.clone.default(self=h, memory_format=None)",
        "aten.squeeze.dim(self=h, dim=1)",
    ];
    let mut graphs = Vec::new();
    for call in calls {
        for flags in ["", " !mutated", " !aliased"] {
            for returned in ["z", "y", "y, h"] {
                graphs.push(format!(
                    "x: f32[2,4,8,8] = input
                     h: f32[2,4,8,8] = aten.relu.default(self=x){flags}
                     y: f32[2,4,8,8] = {call}{flags}
                     z: f32[2,4,8,8] = aten.relu.default(self=y)
                     return {returned}"
                ));
            }
        }
    }
    graphs
}

/// A pooling and the size of its result.
struct Pooling {
    size: [i64; 2],
    kernel: i64,
    stride: i64,
    padding: i64,
    ceil: bool,
    counts: bool,
    divisor: Option<i64>,
}

impl Pooling {
    fn output(&self, size: i64) -> i64 {
        let room = size + 2 * self.padding - self.kernel;
        let mut output = if self.ceil { (room + self.stride - 1) / self.stride } else { room / self.stride } + 1;
        if self.ceil && (output - 1) * self.stride >= size + self.padding {
            output -= 1;
        }
        output
    }

    fn graph(&self) -> String {
        let truth = |truth: bool| if truth { "True" } else { "False" };
        format!(
            "x: f32[2,3,{},{}] = input
             y: f32[2,3,{},{}] = aten.avg_pool2d.default(self=x, kernel_size=[{kernel}, {kernel}], stride=[{stride}, {stride}], padding=[{padding}, {padding}], ceil_mode={}, count_include_pad={}, divisor_override={})
             return y",
            self.size[0],
            self.size[1],
            self.output(self.size[0]),
            self.output(self.size[1]),
            truth(self.ceil),
            truth(self.counts),
            self.divisor.map_or("None".to_owned(), |divisor| divisor.to_string()),
            kernel = self.kernel,
            stride = self.stride,
            padding = self.padding,
        )
    }
}

/// Every combination of kernel, stride, padding, ceil mode, counting and divisor over several planes.
fn poolings() -> Vec<Pooling> {
    let mut all = Vec::new();
    for size in [[7, 9], [8, 8], [5, 12]] {
        for kernel in 1..=5 {
            for stride in 1..=4 {
                for padding in 0..=kernel / 2 {
                    for ceil in [false, true] {
                        for counts in [false, true] {
                            for divisor in [None, Some(3), Some(kernel * kernel)] {
                                all.push(Pooling { size, kernel, stride, padding, ceil, counts, divisor });
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

/// The component says what the same source says when it is built for this machine.
fn agrees<R: Rule>(id: &str, graphs: &[String]) {
    let rule = bundled_rule(id);
    let native = rule_sdk_manifest::<R>();
    assert_eq!(serde_json::to_value(rule.manifest()).expect("manifest"), native, "manifests");
    let sites: Vec<_> = graphs.iter().map(|graph| host_site(&testing::site::<R>(graph))).collect();
    let outcomes = rule.examine(&sites.iter().collect::<Vec<_>>());
    let mut rewrites = 0;
    for (graph, outcome) in graphs.iter().zip(outcomes) {
        let examined = outcome.unwrap_or_else(|error| panic!("{error}\n{graph}"));
        let verdict = testing::examine::<R>(graph);
        rewrites += usize::from(matches!(verdict, Verdict::Rewrite(_)));
        assert_eq!(sdk_verdict(&examined.verdict), verdict, "{graph}");
    }
    assert!(rewrites > 10, "only {rewrites} of {} graphs are rewritten", graphs.len());
}

fn rule_sdk_manifest<R: Rule>() -> serde_json::Value {
    serde_json::to_value(testing::manifest::<R>()).expect("a manifest is plain data")
}

#[test]
fn the_index_names_every_rule_as_it_names_itself() {
    for component in delegate_doctor::registry::bundled().expect("bundled rules") {
        let rule = bundled_rule(&component.id);
        assert_eq!((rule.id(), rule.version()), (component.id.as_str(), &component.version));
        assert_eq!(rule.inspection().contract, component.contract);
        assert_eq!(rule.inspection().sdk.as_deref(), Some("rule-sdk 0.1.0"));
        assert!(rule.inspection().other_exports.is_empty(), "{:?}", rule.inspection().other_exports);
    }
}

#[test]
fn dd_001_says_the_same_as_a_component_and_natively() {
    agrees::<SoftmaxLayout>("dd-001", &softmax_graphs());
}

#[test]
fn dd_002_says_the_same_as_a_component_and_natively() {
    agrees::<RedundantOps>("dd-002", &redundant_graphs());
}

#[test]
fn dd_003_says_the_same_as_a_component_and_natively() {
    let graphs: Vec<String> = poolings().iter().map(Pooling::graph).collect();
    agrees::<AvgPoolWindow>("dd-003", &graphs);
}

/// Runs the rewrites of all graphs in torch beside the original call.
fn same_in_torch<R: Rule>(graphs: &[String]) -> usize {
    let mut cases = Vec::new();
    for graph in graphs {
        if let Verdict::Rewrite(rewrite) = testing::examine::<R>(graph) {
            let exact = matches!(rewrite.numerics, rule_sdk::Numerics::Exact);
            cases.push(serde_json::json!({ "graph": graph, "form": testing::rewritten::<R>(graph), "exact": exact }));
        }
    }
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("cases.json");
    fs_err::write(&path, serde_json::to_vec(&cases).expect("cases")).expect("write");
    let script = dd_tests::workspace().join("tests/fixtures/evaluate_forms.py");
    let output =
        Command::new(&python().python).arg(script).arg(&path).stderr(Stdio::inherit()).output().expect("Python starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.trim(), format!("{} forms", cases.len()));
    cases.len()
}

#[test]
fn every_pooling_form_computes_what_torch_computes() {
    let graphs: Vec<String> = poolings().iter().map(Pooling::graph).collect();
    assert!(same_in_torch::<AvgPoolWindow>(&graphs) > 900);
}

#[test]
fn every_softmax_form_computes_what_torch_computes() {
    let graphs: Vec<String> =
        softmax_graphs().into_iter().filter(|graph| graph.starts_with("x: f32") && !graph.contains("[n")).collect();
    assert!(same_in_torch::<SoftmaxLayout>(&graphs) > 10);
}
