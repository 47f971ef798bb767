//! A graph together with the archive it came from.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value as Json, json};

use super::alias::AliasFacts;
use super::archive::{self, Change, Container};
use super::constants::Constants;
use super::name_index::ArchiveNames;
use super::parse::{Parsed, Verbatim};
use super::render::{self, Names};
use super::{
    Applied, Graph, NodeId, Patch, PatchError, TensorMeta, Value, ValueId, ValueKind, ValueSource, codes, fingerprint,
};
use crate::tensor::Tensor;

/// An immutable exported program.
#[derive(Clone, Debug)]
pub struct Program {
    graph: Graph,
    source: Arc<Source>,
    /// constants that patches added, in order
    constants: Vec<Arc<AddedConstant>>,
    /// false while the graph is the one of the archive
    edited: bool,
    next_node: u32,
    next_value: u32,
    facts: Arc<OnceLock<AliasFacts>>,
    constant: Arc<OnceLock<Constants>>,
    fingerprint: Arc<OnceLock<String>>,
}

/// What a program and all programs patched from it share.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) container: Container,
    /// the program's JSON without its nodes
    pub(super) document: Json,
    names: Arc<ArchiveNames>,
    /// names and kinds that the archive has
    original: HashMap<ValueId, (String, ValueKind)>,
    /// value of each entry of `graph.inputs`
    input_slots: Vec<Option<ValueId>>,
    verbatim: HashMap<NodeId, Verbatim>,
    payloads: HashMap<String, Payload>,
    /// names that the archive's tables hold although nothing makes such a value
    orphans: HashSet<String>,
    /// the first id that no value of the archive has
    first_added: u32,
    /// groups of inputs whose content is one storage
    shared_storages: OnceLock<Vec<Vec<ValueId>>>,
}

impl Names for Source {
    fn named(&self, value: ValueId) -> Option<(&str, &ValueKind)> {
        self.original.get(&value).map(|(name, kind)| (name.as_str(), kind))
    }
}

/// The stored content of a parameter, buffer or constant.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    /// entry below the root folder
    pub(super) entry: String,
    /// how the bytes, which are those of a whole storage, are to be seen; `None` for custom objects
    pub(super) meta: Option<TensorMeta>,
    /// a pickle, which is not opened
    pub(super) pickled: bool,
}

/// A constant tensor that a patch added.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AddedConstant {
    pub(super) value: ValueId,
    pub(super) fqn: String,
    pub(super) meta: TensorMeta,
    pub(super) bytes: Arc<[u8]>,
}

impl Payload {
    /// Reads an entry of `config`.
    pub(super) fn parse(json: &Json, container: &Container, kind: &str) -> Result<Self, String> {
        let name = json.get("path_name").and_then(Json::as_str).ok_or("no `path_name`")?;
        let pickled = json.get("use_pickle").and_then(Json::as_bool).unwrap_or(false);
        let meta = match json.get("tensor_meta") {
            None | Some(Json::Null) => None,
            Some(meta) => {
                Some(codes::tensor_meta(meta, &codes::Ranges::new()).ok_or("`tensor_meta` is not tensor metadata")?)
            }
        };
        let entry = format!("data/{kind}/{name}");
        if !container.contains(&entry) {
            return Err(format!("the archive has no entry `{entry}`"));
        }
        Ok(Self { entry, meta, pickled })
    }
}

impl Source {
    pub(super) fn new(container: Container, parsed: Parsed, payloads: Vec<(String, Payload)>) -> (Self, Graph, u32) {
        let original = parsed
            .graph
            .values()
            .into_iter()
            .map(|value| (value.id, (value.name.clone(), value.kind.clone())))
            .collect();
        let mut by_name = HashMap::with_capacity(payloads.len());
        for (fqn, payload) in payloads {
            by_name.entry(fqn).or_insert(payload);
        }
        let source = Self {
            orphans: Self::orphans(&parsed.document, &parsed.names.values),
            container,
            document: parsed.document,
            names: parsed.names,
            original,
            input_slots: parsed.input_slots,
            verbatim: parsed.verbatim,
            payloads: by_name,
            first_added: parsed.next_value,
            shared_storages: OnceLock::new(),
        };
        (source, parsed.graph, parsed.next_node)
    }

    /// Content of a parameter, buffer or constant by its fully qualified name.
    pub(super) fn payload(&self, fqn: &str) -> Option<&Payload> {
        self.payloads.get(fqn)
    }

    /// Names that the archive's tables hold although nothing makes such a value.
    fn orphans(document: &Json, names: &HashMap<String, ValueId>) -> HashSet<String> {
        ["tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values"]
            .into_iter()
            .filter_map(|table| document.pointer("/graph_module/graph")?.get(table)?.as_object())
            .flat_map(|table| table.keys())
            .filter(|name| !names.contains_key(*name))
            .cloned()
            .collect()
    }
}

/// The parts of a program that a patch changes.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) graph: Graph,
    pub(super) constants: Vec<Arc<AddedConstant>>,
    pub(super) next_node: u32,
    pub(super) next_value: u32,
}

impl Program {
    /// A program as read.
    pub(super) fn read((source, graph, next_node): (Source, Graph, u32)) -> Self {
        Self {
            graph,
            next_value: source.first_added,
            source: Arc::new(source),
            constants: Vec::new(),
            edited: false,
            next_node,
            facts: Arc::default(),
            constant: Arc::default(),
            fingerprint: Arc::default(),
        }
    }

    /// The program with other parts.
    pub(super) fn with(&self, parts: Parts) -> Self {
        Self {
            graph: parts.graph,
            source: Arc::clone(&self.source),
            constants: parts.constants,
            edited: true,
            next_node: parts.next_node,
            next_value: parts.next_value,
            facts: Arc::default(),
            constant: Arc::default(),
            fingerprint: Arc::default(),
        }
    }

    /// The next ids that nothing has: of a node, of a value.
    pub(super) fn next_ids(&self) -> (u32, u32) {
        (self.next_node, self.next_value)
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    pub(super) fn constants(&self) -> &[Arc<AddedConstant>] {
        &self.constants
    }

    /// True when a node or a value has the name, or the archive's tables hold it.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.graph.node_named(name).is_some()
            || self.graph.value_named(name).is_some()
            || self.source.orphans.contains(name)
    }

    /// The first id that no value of the archive has.
    pub(super) fn first_added(&self) -> u32 {
        self.source.first_added
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The torch version that exported the program, as the archive has it.
    pub fn torch_version(&self) -> Option<&str> {
        self.source.document.get("torch_version").and_then(Json::as_str)
    }

    /// Lower-case hex SHA-256 of what the program computes: equal for programs that differ only in
    /// names, ids, source lines or packing. See `fingerprint.rs` for what goes in.
    pub fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| fingerprint::of(self))
    }

    /// What shares storage and what is written to; computed on first use.
    pub fn aliases(&self) -> &AliasFacts {
        self.facts.get_or_init(|| AliasFacts::of(&self.graph, self.shared_storages()))
    }

    /// True when the value depends only on parameters, buffers and constants that nothing writes to,
    /// through operators that are pure and not random, and its sizes are fixed.
    pub fn is_constant(&self, value: ValueId) -> bool {
        self.constant.get_or_init(|| Constants::of(&self.graph, self.aliases())).contains(value)
    }

    /// Groups of graph inputs whose content is one storage (tied weights, views as buffers).
    fn shared_storages(&self) -> &[Vec<ValueId>] {
        // Patches neither remove stored inputs nor add any that the archive stores.
        self.source.shared_storages.get_or_init(|| {
            let mut groups: HashMap<&str, Vec<ValueId>> = HashMap::new();
            for input in self.graph.inputs() {
                let fqn = self.graph.value(*input).and_then(fqn);
                if let Some(payload) = fqn.and_then(|fqn| self.source.payload(fqn)) {
                    groups.entry(&payload.entry).or_default().push(*input);
                }
            }
            groups.into_values().filter(|group| group.len() > 1).collect()
        })
    }

    /// The content of a parameter, buffer or constant; `None` for every other value and for content
    /// that is pickled.
    ///
    /// # Errors
    /// When the archive cannot be read any more, or the payload does not fit its metadata.
    pub fn payload(&self, value: ValueId) -> Result<Option<Tensor>, archive::Error> {
        let Some(fqn) = self.graph.value(value).and_then(fqn) else { return Ok(None) };
        let failed = |problem: String| archive::Error::Payload {
            path: self.source.container.path().to_owned(),
            name: fqn.to_owned(),
            problem,
        };
        if let Some(added) = self.constants.iter().find(|added| added.value == value) {
            return dense(&added.bytes, &added.meta).map(Some).map_err(failed);
        }
        match self.source.payload(fqn) {
            Some(Payload { entry, meta: Some(meta), pickled: false }) => {
                let bytes = self.source.container.bytes(entry)?;
                dense(&bytes, meta).map(Some).map_err(failed)
            }
            _ => Ok(None),
        }
    }

    /// Applies a patch as a whole, or not at all.
    ///
    /// # Errors
    /// The first edit that does not hold, with its reason.
    pub fn apply(&self, patch: &Patch) -> Result<Applied, PatchError> {
        super::patch::apply(self, patch)
    }

    /// True for a program and its clones; what a patch gives is another program.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.facts, &other.facts)
    }

    /// The JSON of the program.
    pub(super) fn document(&self) -> Result<Json, archive::Error> {
        let nodes = self.node_list().ok_or_else(|| self.inconsistent("a node mentions a value that is gone"))?;
        let mut document = self.source.document.clone();
        let Some(module) = document.get_mut("graph_module").and_then(Json::as_object_mut) else {
            return Err(self.inconsistent("no `graph_module`"));
        };
        if self.edited
            && let Some(signature) = module.get_mut("signature").and_then(Json::as_object_mut)
        {
            if let Some(Json::Array(specs)) = signature.get_mut("input_specs") {
                self.add_constants(
                    specs,
                    |value, fqn| json!({"tensor_constant": {"arg": {"name": value}, "tensor_constant_name": fqn}}),
                );
            }
            if let Some(Json::Array(specs)) = signature.get_mut("output_specs") {
                self.rename_outputs(specs, true);
            }
        }
        let Some(graph) = module.get_mut("graph").and_then(Json::as_object_mut) else {
            return Err(self.inconsistent("no `graph`"));
        };
        graph.insert("nodes".to_owned(), Json::Array(nodes));
        if self.edited {
            if let Some(Json::Array(inputs)) = graph.get_mut("inputs") {
                self.add_constants(inputs, |value, _| json!({"as_tensor": {"name": value}}));
            }
            if let Some(Json::Array(outputs)) = graph.get_mut("outputs") {
                self.rename_outputs(outputs, false);
            }
            for section in
                ["tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values"]
            {
                if let Some(Json::Object(table)) = graph.get_mut(section) {
                    *table = self.table(std::mem::take(table), section == "tensor_values");
                }
            }
        }
        Ok(document)
    }

    fn inconsistent(&self, problem: &str) -> archive::Error {
        let problem = format!("the program cannot be written: {problem}");
        archive::Error::Damaged { path: self.source.container.path().to_owned(), problem }
    }

    fn node_list(&self) -> Option<Vec<Json>> {
        let render = |node: &Arc<super::Node>| match self.source.verbatim.get(&node.id) {
            Some(verbatim) => render::edited_node(node, verbatim, &*self.source, &self.graph),
            None => render::node(node, &self.graph),
        };
        self.graph.nodes().iter().map(|node| render(node).map(Json::Object)).collect()
    }

    /// Adds an entry for every constant that patches made, before the first input of the caller.
    fn add_constants(&self, entries: &mut Vec<Json>, entry: impl Fn(&str, &str) -> Json) {
        let at = self.stored_inputs();
        for (offset, added) in self.constants.iter().enumerate() {
            if let Some(value) = self.graph.value(added.value) {
                entries.insert((at + offset).min(entries.len()), entry(&value.name, &added.fqn));
            }
        }
    }

    /// How many parameters, buffers and constants the archive has before anything that the caller gives.
    pub(super) fn stored_inputs(&self) -> usize {
        let stored = |slot: &Option<ValueId>| {
            let value = slot.and_then(|value| self.graph.value(value));
            value.is_some_and(|value| fqn(value).is_some())
        };
        self.source.input_slots.iter().take_while(|slot| stored(slot)).count()
    }

    /// Gives every output the name that its value has now.
    fn rename_outputs(&self, entries: &mut [Json], signature: bool) {
        for (entry, output) in entries.iter_mut().zip(self.graph.outputs()) {
            let Some(value) = output.value().and_then(|value| self.graph.value(value)) else { continue };
            if !signature {
                render::rename(entry, &value.name);
            } else if let Some(arg) =
                entry.as_object_mut().and_then(|spec| spec.values_mut().next()).and_then(|body| body.get_mut("arg"))
            {
                render::rename(arg, &value.name);
            }
        }
    }

    /// A value table with the names and values of now; entries of surviving values keep their place.
    fn table(&self, old: Map<String, Json>, tensors: bool) -> Map<String, Json> {
        let mut table = Map::new();
        for (name, json) in old {
            match self.source.names.values.get(&name) {
                None => {
                    table.insert(name, json);
                }
                Some(id) => {
                    if let Some(value) = self.graph.value(*id) {
                        table.insert(value.name.clone(), json);
                    }
                }
            }
        }
        if tensors {
            let added = self.graph.values().into_iter().filter(|value| value.id.0 >= self.source.first_added);
            for value in added {
                if let ValueKind::Tensor(meta) = &value.kind {
                    table.insert(value.name.clone(), codes::tensor_meta_json(meta));
                }
            }
        }
        table
    }

    /// How the written archive differs from the one that was read.
    pub(super) fn changed_entries(&self) -> Result<Vec<Change>, archive::Error> {
        if !self.edited {
            return Ok(Vec::new());
        }
        let container = &self.source.container;
        let json = |document: &Json| {
            serde_json::to_vec(document).map_err(|error| self.inconsistent(&format!("JSON refused: {error}")))
        };
        let model = container.full_name(&container.model_entry());
        let mut changes = vec![Change::Replace { entry: model, bytes: json(&self.document()?)? }];
        if self.constants.is_empty() {
            return Ok(changes);
        }
        let config_entry = container.config_entry("constants");
        let mut config = container.json(&config_entry)?;
        let Some(table) = config.get_mut("config").and_then(Json::as_object_mut) else {
            return Err(self.inconsistent("the table of constants is not an object"));
        };
        let mut number = 0_usize;
        for added in &self.constants {
            let path_name = loop {
                let name = format!("tensor_{number}");
                number += 1;
                if !container.contains(&format!("data/constants/{name}")) {
                    break name;
                }
            };
            changes.push(Change::Add {
                after: container.full_name(&config_entry),
                entry: container.full_name(&format!("data/constants/{path_name}")),
                bytes: Arc::clone(&added.bytes),
            });
            table.insert(
                added.fqn.clone(),
                json!({
                    "path_name": path_name,
                    "is_param": false,
                    "use_pickle": false,
                    "tensor_meta": codes::tensor_meta_json(&added.meta),
                }),
            );
        }
        changes.push(Change::Replace { entry: container.full_name(&config_entry), bytes: json(&config)? });
        Ok(changes)
    }
}

/// The fully qualified name of a stored value.
pub(super) fn fqn(value: &Value) -> Option<&str> {
    match &value.source {
        ValueSource::Parameter(fqn) | ValueSource::Buffer { fqn, .. } | ValueSource::Constant(fqn) => Some(fqn),
        _ => None,
    }
}

/// The row-major tensor that `meta` sees in the bytes of a storage.
fn dense(storage: &[u8], meta: &TensorMeta) -> Result<Tensor, String> {
    /// Largest tensor that is made from a smaller storage.
    const LARGEST: usize = 4 << 30;
    let whole = |dims: Option<Vec<i64>>, what: &str| -> Result<Vec<usize>, String> {
        let dims = dims.ok_or_else(|| format!("its {what} are not fixed"))?;
        dims.into_iter().map(|dim| usize::try_from(dim).map_err(|_| format!("its {what} are negative"))).collect()
    };
    let sizes = whole(meta.fixed_sizes(), "sizes")?;
    let strides = whole(meta.fixed_strides(), "strides")?;
    let offset = whole(meta.storage_offset.fixed().map(|offset| vec![offset]), "offsets")?;
    if sizes.len() != strides.len() {
        return Err("it has another number of strides than of sizes".to_owned());
    }
    let width = meta.dtype.bytes();
    let overflow = || "its sizes overflow".to_owned();
    let count = sizes.iter().try_fold(1_usize, |count, size| count.checked_mul(*size)).ok_or_else(overflow)?;
    let length =
        count.checked_mul(width).filter(|length| *length <= LARGEST.max(storage.len())).ok_or_else(overflow)?;
    let mut start = offset.first().copied().unwrap_or_default();
    let tensor = |bytes| Ok(Tensor { dtype: meta.dtype, sizes: sizes.clone(), bytes });
    if count == 0 {
        return tensor(Vec::new());
    }
    let mut last = start;
    for (size, stride) in sizes.iter().zip(&strides) {
        last = (size - 1).checked_mul(*stride).and_then(|step| last.checked_add(step)).ok_or_else(overflow)?;
    }
    let end = last.checked_add(1).and_then(|end| end.checked_mul(width)).ok_or_else(overflow)?;
    if end > storage.len() {
        return Err(format!("it needs {end} bytes, but {} are stored", storage.len()));
    }
    if row_major(&sizes, &strides) {
        start *= width;
        return tensor(storage.get(start..start + length).unwrap_or_default().to_vec());
    }
    let mut bytes = Vec::with_capacity(length);
    let mut index = vec![0_usize; sizes.len()];
    loop {
        let at: usize = start + index.iter().zip(&strides).map(|(index, stride)| index * stride).sum::<usize>();
        bytes.extend_from_slice(storage.get(at * width..(at + 1) * width).unwrap_or_default());
        let mut axis = sizes.len();
        loop {
            if axis == 0 {
                return tensor(bytes);
            }
            axis -= 1;
            let (Some(index), Some(size)) = (index.get_mut(axis), sizes.get(axis)) else { return tensor(bytes) };
            *index += 1;
            if *index < *size {
                break;
            }
            *index = 0;
        }
    }
}

/// True for the strides of a row-major tensor; those of axes of size 1 do not matter.
fn row_major(sizes: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    sizes.iter().zip(strides).rev().all(|(size, stride)| {
        let fits = *size == 1 || *stride == expected;
        expected *= size;
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Dim, ScalarType};
    use super::*;

    fn meta(sizes: &[i64], strides: &[i64], offset: i64) -> TensorMeta {
        TensorMeta {
            dtype: ScalarType::UInt8,
            sizes: sizes.iter().copied().map(Dim::Fixed).collect(),
            strides: strides.iter().copied().map(Dim::Fixed).collect(),
            storage_offset: Dim::Fixed(offset),
            device: "cpu".to_owned(),
            layout: codes::STRIDED,
            requires_grad: false,
        }
    }

    #[test]
    fn a_view_of_a_storage_is_read_row_by_row() {
        let storage: Vec<u8> = (0..12).collect();
        let read =
            |sizes: &[i64], strides: &[i64], offset| dense(&storage, &meta(sizes, strides, offset)).map(|t| t.bytes);
        assert_eq!(read(&[3, 4], &[4, 1], 0), Ok(storage.clone()));
        assert_eq!(read(&[2, 3], &[1, 4], 1), Ok(vec![1, 5, 9, 2, 6, 10]));
        assert_eq!(read(&[2, 2], &[4, 1], 5), Ok(vec![5, 6, 9, 10]));
        assert_eq!(read(&[3, 2], &[0, 1], 2), Ok(vec![2, 3, 2, 3, 2, 3]));
        assert_eq!(read(&[], &[], 11), Ok(vec![11]));
        assert_eq!(read(&[0, 4], &[4, 1], 0), Ok(vec![]));
    }

    #[test]
    fn metadata_that_reaches_outside_the_storage_is_refused() {
        let storage = [0; 12];
        for (sizes, strides, offset) in [
            (vec![3, 4], vec![4, 1], 1),
            (vec![i64::MAX, i64::MAX], vec![1, 1], 0),
            (vec![i64::MAX], vec![0], 0),
            (vec![2], vec![i64::MAX], 0),
            (vec![-1], vec![1], 0),
            (vec![1, 1], vec![1], 0),
        ] {
            assert!(dense(&storage, &meta(&sizes, &strides, offset)).is_err(), "{sizes:?} {strides:?} {offset}");
        }
    }
}
