//! Exported programs of any size, made up: mostly convolutions, norms, sums and activations, and in between
//! what the bundled rules look at.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::path::Path;

use delegate_doctor::graph::Program;
use delegate_doctor::graph::archive::{self, Limits};
use zip::write::{SimpleFileOptions, ZipWriter};

/// Sizes of every activation.
pub const SIZES: [i64; 4] = [1, 16, 8, 8];

/// The operators of a program in order; 3 % of them are ones that a bundled rule is anchored at. The same
/// number gives the same list.
pub fn operators(nodes: usize) -> Vec<&'static str> {
    const PLAIN: [&str; 4] = ["conv2d", "batch_norm", "add", "relu"];
    const ANCHORS: [&str; 4] = ["softmax", "clone", "alias", "avg_pool2d"];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % below
    };
    let mut list = Vec::with_capacity(nodes);
    for _ in 0..nodes {
        let kinds = if draw(100) < 3 { &ANCHORS } else { &PLAIN };
        list.push(kinds[usize::try_from(draw(4)).unwrap_or(0)]);
    }
    list
}

/// A program of that many nodes.
///
/// # Panics
/// When the archive is not one that the tool reads.
pub fn program(nodes: usize) -> Program {
    read(archive(nodes))
}

/// A program from the bytes of an archive.
///
/// # Panics
/// When the archive is not one that the tool reads.
pub fn read(bytes: Vec<u8>) -> Program {
    let read = archive::from_bytes(bytes, Path::new("synthetic.pt2"), &Limits::default());
    read.unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

/// The bytes of a `.pt2` archive with a program of that many nodes.
///
/// # Panics
/// When there is no memory for it.
pub fn archive(nodes: usize) -> Vec<u8> {
    pack(&document(&operators(nodes)))
}

fn pack(document: &str) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let entries = [
        ("archive_format", "pt2"),
        ("archive_version", "0"),
        ("byteorder", "little"),
        ("models/model.json", document),
        ("data/weights/model_weights_config.json", "{\"config\": {}}"),
        ("data/constants/model_constants_config.json", "{\"config\": {}}"),
    ];
    for (name, content) in entries {
        zip.start_file(format!("synthetic/{name}"), options).expect("an entry");
        zip.write_all(content.as_bytes()).expect("memory takes bytes");
    }
    zip.finish().expect("an archive").into_inner()
}

/// The parts of the exported JSON under construction.
#[derive(Default)]
struct Sections {
    inputs: String,
    input_specs: String,
    nodes: String,
    values: String,
}

impl Sections {
    fn value(&mut self, name: &str, sizes: &[i64], requires_grad: bool) {
        let mut strides = vec![1; sizes.len()];
        for axis in (1..sizes.len()).rev() {
            strides[axis - 1] = strides[axis] * sizes[axis];
        }
        let dims = |dims: &[i64]| dims.iter().map(|dim| format!("{{\"as_int\":{dim}}}")).collect::<Vec<_>>().join(",");
        separate(&mut self.values);
        let _ = write!(
            self.values,
            "\"{name}\":{{\"dtype\":7,\"sizes\":[{}],\"requires_grad\":{requires_grad},\"device\":{{\"type\":\"cpu\",\
             \"index\":null}},\"strides\":[{}],\"storage_offset\":{{\"as_int\":0}},\"layout\":7}}",
            dims(sizes),
            dims(&strides)
        );
    }

    /// A parameter, or a buffer when `kind` says so.
    fn stored(&mut self, kind: &str, name: &str, sizes: &[i64]) -> String {
        let value = format!("{}_{}", if kind == "parameter" { "p" } else { "b" }, name.replace('.', "_"));
        self.value(&value, sizes, kind == "parameter");
        separate(&mut self.inputs);
        let _ = write!(self.inputs, "{{\"as_tensor\":{{\"name\":\"{value}\"}}}}");
        separate(&mut self.input_specs);
        let persistent = if kind == "buffer" { ",\"persistent\":true" } else { "" };
        let _ = write!(
            self.input_specs,
            "{{\"{kind}\":{{\"arg\":{{\"name\":\"{value}\"}},\"{kind}_name\":\"{name}\"{persistent}}}}}"
        );
        value
    }

    fn node(&mut self, op: &str, name: &str, module: &str, inputs: &[(&str, String)]) {
        let inputs = inputs
            .iter()
            .map(|(name, arg)| format!("{{\"name\":\"{name}\",\"arg\":{arg},\"kind\":1}}"))
            .collect::<Vec<_>>()
            .join(",");
        separate(&mut self.nodes);
        let _ = write!(
            self.nodes,
            "{{\"target\":\"torch.ops.{op}\",\"inputs\":[{inputs}],\"outputs\":[{}],\"metadata\":{{\"stack_trace\":\
             \"File \\\"model.py\\\", line 24, in forward\\n    x = self.{module}(x)\",\"nn_module_stack\":\
             \"L__self__,,model.Model;L__self__{module},{module},torch.nn.Module\",\"torch_fn\":\"{name};call\"}},\
             \"is_hop_single_tensor_return\":null,\"name\":\"{name}\"}}",
            tensor(name)
        );
        self.value(name, &SIZES, false);
    }
}

fn separate(text: &mut String) {
    if !text.is_empty() {
        text.push(',');
    }
}

fn tensor(name: &str) -> String {
    format!("{{\"as_tensor\":{{\"name\":\"{name}\"}}}}")
}

fn ints(list: &[i64]) -> String {
    format!("{{\"as_ints\":{list:?}}}")
}

fn document(operators: &[&str]) -> String {
    let mut all = Sections::default();
    let channels = SIZES[1];
    let (mut x, mut earlier) = ("x".to_owned(), "x".to_owned());
    for (number, kind) in operators.iter().enumerate() {
        let (name, module) = (format!("{kind}_{number}"), format!("layer{number}"));
        let own = |what: &str| format!("{module}.{what}");
        let input = ("self", tensor(&x));
        match *kind {
            "conv2d" => {
                let weight = all.stored("parameter", &own("weight"), &[channels, channels, 1, 1]);
                let bias = all.stored("parameter", &own("bias"), &[channels]);
                let inputs = [("input", tensor(&x)), ("weight", tensor(&weight)), ("bias", tensor(&bias))];
                all.node("aten.conv2d.default", &name, &module, &inputs);
            }
            "batch_norm" => {
                let mut inputs = vec![("input", tensor(&x))];
                for (argument, kind) in [
                    ("weight", "parameter"),
                    ("bias", "parameter"),
                    ("running_mean", "buffer"),
                    ("running_var", "buffer"),
                ] {
                    inputs.push((argument, tensor(&all.stored(kind, &own(argument), &[channels]))));
                }
                inputs.push(("training", "{\"as_bool\":false}".to_owned()));
                inputs.push(("momentum", "{\"as_float\":0.1}".to_owned()));
                inputs.push(("eps", "{\"as_float\":1e-05}".to_owned()));
                inputs.push(("cudnn_enabled", "{\"as_bool\":true}".to_owned()));
                all.node("aten.batch_norm.default", &name, &module, &inputs);
            }
            "add" => all.node("aten.add.Tensor", &name, &module, &[input, ("other", tensor(&earlier))]),
            "softmax" => {
                let dim = ("dim", "{\"as_int\":1}".to_owned());
                all.node("aten.softmax.int", &name, &module, &[input, dim]);
            }
            "avg_pool2d" => {
                let window = [("kernel_size", ints(&[3, 3])), ("stride", ints(&[1, 1])), ("padding", ints(&[1, 1]))];
                let [kernel, stride, padding] = window;
                all.node("aten.avg_pool2d.default", &name, &module, &[input, kernel, stride, padding]);
            }
            other => all.node(&format!("aten.{other}.default"), &name, &module, &[input]),
        }
        earlier = std::mem::replace(&mut x, name);
    }
    all.value("x", &SIZES, false);
    separate(&mut all.inputs);
    all.inputs.push_str(&tensor("x"));
    separate(&mut all.input_specs);
    let _ = write!(all.input_specs, "{{\"user_input\":{{\"arg\":{}}}}}", tensor("x"));
    let Sections { inputs, input_specs, nodes, values } = all;
    let returned = tensor(&x);
    format!(
        "{{\"graph_module\":{{\"graph\":{{\"inputs\":[{inputs}],\"outputs\":[{returned}],\"nodes\":[{nodes}],\
         \"tensor_values\":{{{values}}},\"sym_int_values\":{{}},\"sym_bool_values\":{{}},\
         \"is_single_tensor_return\":false,\"custom_obj_values\":{{}},\"sym_float_values\":{{}}}},\"signature\":\
         {{\"input_specs\":[{input_specs}],\"output_specs\":[{{\"user_output\":{{\"arg\":{returned}}}}}]}},\
         \"module_call_graph\":[],\"metadata\":{{}},\"treespec_namedtuple_fields\":{{}}}},\"opset_version\":\
         {{\"aten\":10}},\"range_constraints\":{{}},\"schema_version\":{{\"major\":8,\"minor\":20}},\"verifiers\":\
         [\"TRAINING\"],\"torch_version\":\"2.15.0\",\"guards_code\":[]}}"
    )
}
