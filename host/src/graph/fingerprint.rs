//! A digest of what a program computes.
//!
//! In: operators with their arguments, metadata of all values, inputs and outputs with their roles,
//! digests of parameters, buffers and constants, range constraints, calling convention. Out of it:
//! names and ids of nodes and values, names of parameters, source lines and other node metadata, ids and
//! compression of the archive. Values are numbered in the order in which they are made.

use std::collections::HashMap;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::program::{self, Payload, Program};
use super::{
    Argument, Dim, GraphOutput, NodeOutput, SymIntArgument, TensorMeta, ValueId, ValueKind, ValueSource, codes, render,
};

/// Lower-case hex digest.
pub(super) fn of(program: &Program) -> String {
    let mut hasher = Hasher { sha256: Sha256::new(), numbers: HashMap::new() };
    hasher.text("delegate-doctor graph 1");
    hasher.inputs(program);
    hasher.nodes(program);
    hasher.outputs(program);
    let document = &program.source().document;
    for part in ["/range_constraints", "/verifiers", "/graph_module/graph/is_single_tensor_return"] {
        hasher.json(document.pointer(part).unwrap_or(&Json::Null));
    }
    let convention = document.pointer("/graph_module/module_call_graph/0/signature");
    for part in ["in_spec", "out_spec"] {
        hasher.json(convention.and_then(|signature| signature.get(part)).unwrap_or(&Json::Null));
    }
    hex::encode(hasher.sha256.finalize())
}

struct Hasher {
    sha256: Sha256,
    numbers: HashMap<ValueId, u64>,
}

impl Hasher {
    fn number(&mut self, number: u64) {
        self.sha256.update(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.sha256.update(text.as_bytes());
    }

    /// JSON with sorted keys and without node metadata.
    fn json(&mut self, json: &Json) {
        match json {
            Json::Object(map) => {
                let mut entries: Vec<_> = map.iter().filter(|(key, _)| *key != "metadata").collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                self.text("{");
                self.number(entries.len() as u64);
                for (key, value) in entries {
                    self.text(key);
                    self.json(value);
                }
            }
            Json::Array(items) => {
                self.text("[");
                self.number(items.len() as u64);
                items.iter().for_each(|item| self.json(item));
            }
            other => self.text(&other.to_string()),
        }
    }

    fn dims(&mut self, dims: &[Dim]) {
        self.number(dims.len() as u64);
        dims.iter().for_each(|dim| self.dim(dim));
    }

    fn dim(&mut self, dim: &Dim) {
        match dim {
            Dim::Fixed(number) => self.text(&number.to_string()),
            Dim::Symbolic(symbol) => self.text(&symbol.expression),
        }
    }

    fn meta(&mut self, meta: &TensorMeta) {
        self.number(codes::scalar_type_code(meta.dtype).unsigned_abs());
        self.dims(&meta.sizes);
        self.dims(&meta.strides);
        self.dim(&meta.storage_offset);
        self.text(&meta.device);
        self.number(meta.layout.unsigned_abs());
        self.number(u64::from(meta.requires_grad));
    }

    /// A value where it is made.
    fn made(&mut self, program: &Program, value: ValueId) {
        let number = self.numbers.len() as u64;
        self.numbers.insert(value, number);
        match program.graph().value(value).map(|value| &value.kind) {
            Some(ValueKind::Tensor(meta)) => self.meta(meta),
            Some(ValueKind::SymInt(dim)) => self.dim(dim),
            Some(ValueKind::Opaque) | None => self.text("opaque"),
        }
    }

    /// A value where it is used.
    fn used(&mut self, value: ValueId) {
        self.number(self.numbers.get(&value).copied().unwrap_or(u64::MAX));
    }

    fn inputs(&mut self, program: &Program) {
        self.number(program.graph().inputs().len() as u64);
        for input in program.graph().inputs() {
            self.made(program, *input);
            let Some(value) = program.graph().value(*input) else { continue };
            self.text(match &value.source {
                ValueSource::UserInput => "user",
                ValueSource::Parameter(_) => "parameter",
                ValueSource::Buffer { persistent: true, .. } => "buffer",
                ValueSource::Buffer { persistent: false, .. } => "own buffer",
                ValueSource::Constant(_) => "constant",
                ValueSource::Node { .. } | ValueSource::Opaque => "other",
            });
            let Some(fqn) = program::fqn(value) else { continue };
            if let Some(added) = program.constants().iter().find(|added| added.value == *input) {
                self.sha256.update(Sha256::digest(&added.bytes));
                self.meta(&added.meta);
            } else if let Some(Payload { entry, meta, .. }) = program.source().payload(fqn) {
                self.sha256.update(program.source().container.sha256(entry).unwrap_or_default());
                if let Some(meta) = meta {
                    self.meta(meta);
                }
            }
        }
    }

    fn nodes(&mut self, program: &Program) {
        self.number(program.graph().nodes().len() as u64);
        for node in program.graph().nodes() {
            self.text(&node.op);
            self.number(node.inputs.len() as u64);
            for input in &node.inputs {
                self.text(&input.name);
                self.argument(&input.arg);
            }
            self.number(node.outputs.len() as u64);
            for output in &node.outputs {
                match output {
                    NodeOutput::Value(value) => self.made(program, *value),
                    NodeOutput::Values(values) => {
                        self.number(values.len() as u64);
                        values.iter().for_each(|value| self.made(program, *value));
                    }
                    NodeOutput::Opaque(json) => self.json(json),
                }
            }
            for (key, value) in node.extra.iter().filter(|(_, value)| !value.is_null()) {
                self.text(key);
                self.json(value);
            }
        }
    }

    fn argument(&mut self, argument: &Argument) {
        match argument {
            Argument::Literal(literal) => self.json(&render::literal(literal)),
            Argument::Value(value) => {
                self.text("value");
                self.used(*value);
            }
            Argument::Values(values) => {
                self.text("values");
                self.number(values.len() as u64);
                values.iter().for_each(|value| self.used(*value));
            }
            Argument::OptionalValues(values) => {
                self.text("optional values");
                self.number(values.len() as u64);
                for value in values {
                    match value {
                        Some(value) => self.used(*value),
                        None => self.text("none"),
                    }
                }
            }
            Argument::SymInts(items) => {
                self.text("integers");
                self.number(items.len() as u64);
                for item in items {
                    match item {
                        SymIntArgument::Fixed(number) => self.text(&number.to_string()),
                        SymIntArgument::Value(value) => self.used(*value),
                    }
                }
            }
            Argument::Opaque { json, mentions } => {
                self.json(json);
                mentions.iter().for_each(|value| self.used(*value));
            }
        }
    }

    fn outputs(&mut self, program: &Program) {
        let graph = program.graph();
        self.number(graph.outputs().len() as u64);
        for output in graph.outputs() {
            match output {
                GraphOutput::User(value) => {
                    self.text("user");
                    self.used(*value);
                }
                GraphOutput::Mutation { value, target } => {
                    self.text("mutation");
                    self.used(*value);
                    let is_target = |input: &&ValueId| {
                        graph
                            .value(**input)
                            .is_some_and(|value| value.name == *target || program::fqn(value) == Some(target))
                    };
                    match graph.inputs().iter().find(is_target) {
                        Some(input) => self.used(*input),
                        None => self.text(target),
                    }
                }
                GraphOutput::Opaque(value) => {
                    self.text("other");
                    if let Some(value) = value {
                        self.used(*value);
                    }
                }
            }
        }
        let constants = program.source().document.pointer("/graph_module/signature/output_specs");
        let constants = constants.and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        for (spec, output) in constants.iter().zip(graph.outputs()) {
            if output.value().is_none() {
                self.json(spec);
            }
        }
    }
}
