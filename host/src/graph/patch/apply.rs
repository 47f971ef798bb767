//! Applying a patch to a copy of the graph.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json, json};

use super::super::program::AddedConstant;
use super::super::schema::{self, Kind};
use super::super::shapes;
use super::super::{
    Argument, GraphOutput, Literal, Node, NodeId, NodeInput, NodeOutput, ORIGIN_KEY, Program, TensorMeta, Value,
    ValueId, ValueKind, ValueSource, alias,
};
use super::arguments::replace_in;
use super::difference::{check_meta, difference, metadata};
use super::overlay::Overlay;
use super::{Applied, Operand, Patch, PatchEdit, PatchError, ValueRef};

/// Applies a patch; see [`Program::apply`].
pub(in crate::graph) fn apply(program: &Program, patch: &Patch) -> Result<Applied, PatchError> {
    let mut draft = Draft::new(program);
    match patch.edits.as_slice() {
        [PatchEdit::Undo(undo)] => {
            undo.apply(&mut draft)?;
            draft.names_are_free()?;
        }
        edits => {
            for (edit, action) in edits.iter().enumerate() {
                draft.edit(edit, action)?;
            }
            draft.remove_dead();
            draft.move_names();
            draft.place_constants();
        }
    }
    let (created_nodes, created_values) = (draft.created_nodes(), std::mem::take(&mut draft.created));
    let removed = draft.removed();
    let patched = program.with(draft.finish()?);
    let (original, title) = (program.clone(), patch.title.clone());
    Ok(Applied { program: patched, created_nodes, created_values, removed, original, title })
}

/// A graph under change.
pub(super) struct Draft<'p> {
    pub(super) program: &'p Program,
    /// by node, which has been or is in the order of the original graph or among these: what was placed
    /// directly before it
    pub(super) placed_before: FxHashMap<NodeId, Vec<NodeId>>,
    pub(super) placed_last: Vec<NodeId>,
    pub(super) nodes: Overlay<'p, NodeId, Node>,
    pub(super) values: Overlay<'p, ValueId, Value>,
    pub(super) inputs: Arc<Vec<ValueId>>,
    pub(super) outputs: Vec<GraphOutput>,
    pub(super) constants: Vec<Arc<AddedConstant>>,
    /// where the constants of this patch go among the inputs, and among the constants
    pub(super) place_of_constants: (usize, usize),
    pub(super) constants_were_removed: bool,
    pub(super) next_node: u32,
    pub(super) next_value: u32,
    /// values made, by insertion
    created: Vec<Vec<ValueId>>,
    /// nodes made, in edit order
    pub(super) inserted: Vec<NodeId>,
    /// by value, nodes that read it and did not in the original graph
    new_readers: FxHashMap<ValueId, Vec<NodeId>>,
    /// by value, uses gained less uses lost
    more_uses: FxHashMap<ValueId, i64>,
    /// by value, which outputs of the graph it is
    returned: FxHashMap<ValueId, Vec<usize>>,
    /// the first ids that this patch gives
    first_node: u32,
    first_value: u32,
    /// values that lost a use, or that are new
    pub(super) loose: Vec<ValueId>,
    /// graph outputs that another value took over, with that value
    pub(super) taken_over: Vec<(ValueId, ValueId)>,
    /// names given by this patch
    pub(super) names: HashSet<String>,
    /// by base, the last number that a name got
    pub(super) last_number: HashMap<String, u64>,
    /// names of added constants; filled when one is added
    fqns: HashSet<String>,
    /// fields of every new node
    extra: Fields,
    /// metadata of the last new node, with the node it was placed before and who made it
    last_metadata: Option<(NodeId, String, Fields)>,
}

/// Fields of a node in the archive's JSON, shared by nodes that have the same.
type Fields = Arc<Map<String, Json>>;

impl<'p> Draft<'p> {
    fn new(program: &'p Program) -> Self {
        let graph = program.graph();
        let (next_node, next_value) = program.next_ids();
        let constants = program.constants().to_vec();
        let mut returned: FxHashMap<ValueId, Vec<usize>> = FxHashMap::default();
        for (place, output) in graph.outputs().iter().enumerate() {
            if let Some(value) = output.value() {
                returned.entry(value).or_default().push(place);
            }
        }
        Self {
            program,
            placed_before: FxHashMap::default(),
            placed_last: Vec::new(),
            nodes: Overlay::new(graph),
            values: Overlay::new(graph),
            inputs: Arc::clone(&graph.inputs),
            outputs: graph.outputs.clone(),
            place_of_constants: (program.stored_inputs() + constants.len(), constants.len()),
            constants,
            constants_were_removed: false,
            next_node,
            next_value,
            created: Vec::new(),
            inserted: Vec::new(),
            new_readers: FxHashMap::default(),
            more_uses: FxHashMap::default(),
            returned,
            first_node: next_node,
            first_value: next_value,
            loose: Vec::new(),
            taken_over: Vec::new(),
            names: HashSet::new(),
            last_number: HashMap::new(),
            fqns: HashSet::new(),
            extra: Arc::new(Map::from_iter([("is_hop_single_tensor_return".to_owned(), Json::Null)])),
            last_metadata: None,
        }
    }

    /// Nodes of the original graph that are gone, in execution order.
    fn removed(&self) -> Vec<Node> {
        let graph = self.program.graph();
        let gone = self.nodes.changes().filter(|(_, node)| node.is_none());
        let mut places: Vec<usize> = gone.filter_map(|(id, _)| graph.position(id)).collect();
        places.sort_unstable();
        let ids = places.into_iter().filter_map(|place| graph.flow().ids().get(place));
        ids.filter_map(|id| graph.node(*id)).cloned().collect()
    }

    fn created_nodes(&self) -> Vec<NodeId> {
        self.inserted.iter().copied().filter(|node| self.nodes.contains(*node)).collect()
    }

    fn edit(&mut self, edit: usize, action: &PatchEdit) -> Result<(), PatchError> {
        match action {
            PatchEdit::Insert { before, op, inputs, outputs, origin } => {
                self.insert(edit, *before, op, inputs, outputs, origin)
            }
            PatchEdit::Constant { meta, bytes, .. } => self.constant(edit, meta, bytes),
            PatchEdit::ReplaceAllUses { value, by } => self.replace_all_uses(edit, *value, *by),
            PatchEdit::SetInput { node, input, operand } => self.set_input(edit, *node, input, operand),
            PatchEdit::Delete { node } => self.delete(edit, *node),
            PatchEdit::Undo(_) => Err(PatchError::Undo { problem: "it stands among other edits".to_owned() }),
        }
    }

    // ----- look-ups

    fn node(&self, edit: usize, id: NodeId) -> Result<&Arc<Node>, PatchError> {
        self.nodes.get(id).ok_or(PatchError::UnknownNode { edit, node: id })
    }

    pub(super) fn resolve(&self, edit: usize, value: ValueRef) -> Result<ValueId, PatchError> {
        match value {
            ValueRef::Existing(id) if self.values.contains(id) => Ok(id),
            ValueRef::Existing(value) => Err(PatchError::UnknownValue { edit, value }),
            ValueRef::Created { insertion, output } => {
                let made = self.created.get(insertion).and_then(|outputs| outputs.get(output)).copied();
                made.ok_or(PatchError::UnknownCreated { edit, insertion, output })
            }
        }
    }

    pub(super) fn kind(&self, value: ValueId) -> Option<ValueKind> {
        self.values.get(value).map(|value| value.kind.clone())
    }

    pub(super) fn tensor(&self, value: ValueId) -> Option<&TensorMeta> {
        self.values.get(value)?.tensor()
    }

    pub(super) fn value_name(&self, value: ValueId) -> String {
        self.values.get(value).map_or_else(|| value.to_string(), |value| value.name.clone())
    }

    /// Nodes that read the value now, each once.
    fn readers(&self, value: ValueId) -> Vec<NodeId> {
        let original = self.program.graph().uses(value).iter().map(|used| used.node);
        let new = self.new_readers.get(&value).into_iter().flatten().copied();
        let mut readers: Vec<NodeId> = original.chain(new).collect();
        readers.sort_unstable();
        readers.dedup();
        readers.retain(|node| self.nodes.get(*node).is_some_and(|node| node.reads(value)));
        readers
    }

    /// Puts a node in its place, with what it reads now.
    fn put(&mut self, node: Node) {
        if let Some(before) = self.nodes.get(node.id).map(Arc::clone) {
            self.count_uses(&before, -1);
        }
        self.count_uses(&node, 1);
        for value in node.input_values() {
            self.new_readers.entry(value).or_default().push(node.id);
        }
        self.nodes.insert(node.id, Arc::new(node));
    }

    fn count_uses(&mut self, node: &Node, by: i64) {
        for (_, value) in node.uses() {
            *self.more_uses.entry(value).or_default() += by;
        }
    }

    pub(super) fn is_returned(&self, value: ValueId) -> bool {
        self.returned.get(&value).is_some_and(|places| !places.is_empty())
    }

    pub(super) fn is_unused(&self, value: ValueId) -> bool {
        let before = i64::try_from(self.program.graph().uses(value).len()).unwrap_or(i64::MAX);
        before + self.more_uses.get(&value).copied().unwrap_or_default() == 0 && !self.is_returned(value)
    }

    // ----- edits

    fn insert(
        &mut self,
        edit: usize,
        before: NodeId,
        op: &str,
        inputs: &[(String, Operand)],
        outputs: &[TensorMeta],
        origin: &str,
    ) -> Result<(), PatchError> {
        let anchor = Arc::clone(self.node(edit, before)?);
        let schema = schema::lookup(op).ok_or_else(|| PatchError::UnknownOp { edit, op: op.to_owned() })?;
        let effect = |effect| PatchError::Effect { edit, op: op.to_owned(), effect };
        if schema.writes() {
            return Err(effect("writes to its arguments"));
        }
        if schema.random {
            return Err(effect("draws random numbers"));
        }
        let inputs = self.arguments(edit, schema, inputs)?;
        let inferred =
            shapes::infer(op, &self.shape_arguments(&inputs)).map_err(|source| PatchError::Shape { edit, source })?;
        if inferred.len() != outputs.len() {
            return Err(metadata(edit, op, outputs.len(), "outputs", inferred.len()));
        }
        for (found, expected) in outputs.iter().zip(&inferred) {
            check_meta(edit, op, found, expected)?;
        }

        let id = NodeId(self.next_node);
        self.next_node = self.next_node.checked_add(1).ok_or(PatchError::UnknownNode { edit, node: id })?;
        let name = self.new_name(alias::base_name(op));
        let single = matches!(schema.returns.as_slice(), [item] if item.kind == Kind::Tensor);
        let values: Vec<ValueId> = outputs
            .iter()
            .enumerate()
            .map(|(output, meta)| {
                let name = if single { name.clone() } else { self.new_name("getitem") };
                self.new_value(name, meta.clone(), ValueSource::Node { node: id, output })
            })
            .collect();
        let node_outputs = match schema.returns.as_slice() {
            [item] if item.kind == Kind::Tensors => vec![NodeOutput::Values(values.clone())],
            _ => values.iter().copied().map(NodeOutput::Value).collect(),
        };
        let metadata = self.metadata_before(&anchor, origin);
        let extra = Arc::clone(&self.extra);
        let node = Node { id, name, op: op.to_owned(), inputs, outputs: node_outputs, metadata, extra };
        self.place_before(id, Some(before));
        self.put(node);
        self.inserted.push(id);
        self.loose.extend(&values);
        self.created.push(values);
        Ok(())
    }

    /// Metadata of a new node; those that a site makes share theirs.
    fn metadata_before(&mut self, anchor: &Node, origin: &str) -> Arc<Map<String, Json>> {
        match &self.last_metadata {
            Some((node, by, metadata)) if *node == anchor.id && by == origin => Arc::clone(metadata),
            _ => {
                let metadata = Arc::new(new_metadata(anchor, origin));
                self.last_metadata = Some((anchor.id, origin.to_owned(), Arc::clone(&metadata)));
                metadata
            }
        }
    }

    /// Places a node directly before another, after what was placed there earlier; or behind all others.
    pub(super) fn place_before(&mut self, node: NodeId, follower: Option<NodeId>) {
        match follower {
            Some(follower) => self.placed_before.entry(follower).or_default().push(node),
            None => self.placed_last.push(node),
        }
    }

    fn new_value(&mut self, name: String, meta: TensorMeta, source: ValueSource) -> ValueId {
        let id = ValueId(self.next_value);
        // Four thousand million values do not fit into memory.
        self.next_value = self.next_value.saturating_add(1);
        self.values.insert(id, Arc::new(Value { id, name, kind: ValueKind::Tensor(meta), source }));
        id
    }

    fn constant(&mut self, edit: usize, meta: &TensorMeta, bytes: &[u8]) -> Result<(), PatchError> {
        let wrong = |problem| PatchError::Constant { edit, problem };
        let sizes = meta.fixed_sizes().ok_or(wrong("has symbolic sizes"))?;
        let mut expected = Some(meta.dtype.bytes());
        for size in &sizes {
            let size = usize::try_from(*size).map_err(|_| wrong("has a negative size"))?;
            expected = expected.and_then(|length| length.checked_mul(size));
        }
        if expected != Some(bytes.len()) {
            return Err(wrong("does not have as many bytes as its metadata says"));
        }
        let contiguous = shapes::contiguous_strides(&meta.sizes);
        if contiguous.as_ref() != Some(&meta.strides) || meta.storage_offset.fixed() != Some(0) {
            return Err(wrong("is not contiguous"));
        }
        if meta.requires_grad || meta.device != "cpu" {
            return Err(wrong("is not a plain tensor on the CPU"));
        }
        if self.fqns.is_empty() {
            self.fqns.extend(self.constants.iter().map(|added| added.fqn.clone()));
        }
        let mut number = self.constants.len();
        let fqn = loop {
            let fqn = format!("delegate_doctor_{number}");
            if self.program.source().payload(&fqn).is_none() && self.fqns.insert(fqn.clone()) {
                break fqn;
            }
            number += 1;
        };
        let name = self.new_name(&format!("c_{fqn}"));
        let value = self.new_value(name, meta.clone(), ValueSource::Constant(fqn.clone()));
        self.constants.push(Arc::new(AddedConstant { value, fqn, meta: meta.clone(), bytes: bytes.into() }));
        self.loose.push(value);
        self.created.push(vec![value]);
        Ok(())
    }

    fn replace_all_uses(&mut self, edit: usize, value: ValueId, by: ValueRef) -> Result<(), PatchError> {
        let value = self.resolve(edit, ValueRef::Existing(value))?;
        let by = self.resolve(edit, by)?;
        if value == by {
            return Ok(());
        }
        self.check_replacement(edit, value, by)?;
        for reader in self.readers(value) {
            if reader.0 >= self.first_node {
                continue;
            }
            let Some(mut changed) = self.nodes.get(reader).map(|node| Node::clone(node)) else { continue };
            for input in &mut changed.inputs {
                if !replace_in(&mut input.arg, value, by) {
                    return Err(PatchError::Kept { edit, value: self.value_name(value), node: changed.name });
                }
            }
            self.put(changed);
        }
        let was_output = self.is_returned(by);
        let places = self.returned.remove(&value).unwrap_or_default();
        for place in &places {
            match self.outputs.get_mut(*place) {
                Some(
                    GraphOutput::User(slot)
                    | GraphOutput::Mutation { value: slot, .. }
                    | GraphOutput::Opaque(Some(slot)),
                ) => *slot = by,
                Some(GraphOutput::Opaque(None)) | None => {}
            }
        }
        let replaced = !places.is_empty();
        if replaced {
            self.returned.entry(by).or_default().extend(places);
        }
        let by_node = matches!(self.values.get(by).map(|value| &value.source), Some(ValueSource::Node { .. }));
        if replaced && !was_output && by.0 >= self.first_value && by_node {
            self.taken_over.push((value, by));
        }
        self.loose.push(value);
        Ok(())
    }

    /// The replacement looks like the value to everything that reads it.
    fn check_replacement(&self, edit: usize, value: ValueId, by: ValueId) -> Result<(), PatchError> {
        let subject = self.value_name(by);
        match (self.kind(value), self.kind(by)) {
            (Some(ValueKind::Tensor(was)), Some(ValueKind::Tensor(is))) => {
                check_meta(edit, &subject, &is, &was)?;
                if was.device != is.device {
                    return Err(metadata(edit, &subject, &is.device, "as its device", &was.device));
                }
                Ok(())
            }
            (Some(ValueKind::SymInt(was)), Some(ValueKind::SymInt(is))) if was.same(&is) => Ok(()),
            _ => Err(metadata(edit, &subject, "another kind of value", "in place of", self.value_name(value))),
        }
    }

    fn set_input(&mut self, edit: usize, id: NodeId, name: &str, operand: &Operand) -> Result<(), PatchError> {
        let node = Arc::clone(self.node(edit, id)?);
        let schema = schema::lookup(&node.op).ok_or_else(|| PatchError::UnknownOp { edit, op: node.op.clone() })?;
        let wrong = |problem| PatchError::Argument { edit, op: node.op.clone(), argument: name.to_owned(), problem };
        let argument = schema.argument(name).ok_or(wrong("does not exist"))?;
        if argument.written {
            return Err(wrong("is written to"));
        }
        let arg = self.argument(edit, schema, argument, operand)?;
        let mut changed = Node::clone(&node);
        let old = match changed.inputs.iter_mut().find(|input| input.name == name) {
            Some(input) => std::mem::replace(&mut input.arg, arg),
            None => {
                // Given by name, so that it needs no place among the positional ones.
                changed.inputs.push(NodeInput { name: name.to_owned(), arg, keyword: true });
                Argument::Literal(Literal::None)
            }
        };
        self.check_outputs(edit, &node, &changed)?;
        self.loose.extend(old.values());
        self.put(changed);
        Ok(())
    }

    /// With its new arguments the node gives what it gave before.
    fn check_outputs(&self, edit: usize, node: &Node, changed: &Node) -> Result<(), PatchError> {
        let outputs: Vec<&TensorMeta> = node.output_values().filter_map(|value| self.tensor(value)).collect();
        let same_operands = node.inputs.len() == changed.inputs.len()
            && node.inputs.iter().zip(&changed.inputs).all(|(was, is)| self.same_tensors(&was.arg, &is.arg));
        if same_operands {
            return Ok(());
        }
        let inferred = shapes::infer(&changed.op, &self.shape_arguments(&changed.inputs))
            .map_err(|source| PatchError::Shape { edit, source })?;
        if inferred.len() != outputs.len() {
            return Err(metadata(edit, &node.name, inferred.len(), "outputs", outputs.len()));
        }
        for (was, is) in outputs.iter().zip(&inferred) {
            check_meta(edit, &node.name, is, was)?;
        }
        Ok(())
    }

    /// True when two arguments are the same, or tensors with the same metadata.
    fn same_tensors(&self, a: &Argument, b: &Argument) -> bool {
        match (a, b) {
            (Argument::Value(a), Argument::Value(b)) => match (self.tensor(*a), self.tensor(*b)) {
                (Some(a), Some(b)) => difference(a, b).is_none(),
                _ => a == b,
            },
            _ => a == b,
        }
    }

    fn delete(&mut self, edit: usize, id: NodeId) -> Result<(), PatchError> {
        let node = Arc::clone(self.node(edit, id)?);
        if !alias::is_pure(&node) {
            return Err(PatchError::Effect {
                edit,
                op: node.op.clone(),
                effect: "may do more than compute its outputs",
            });
        }
        if let Some(value) = node.output_values().find(|value| !self.is_unused(*value)) {
            return Err(PatchError::StillUsed { edit, node: node.name.clone(), value: self.value_name(value) });
        }
        self.remove(&node);
        Ok(())
    }

    pub(super) fn remove(&mut self, node: &Node) {
        self.nodes.remove(node.id);
        self.count_uses(node, -1);
        for value in node.output_values() {
            self.values.remove(value);
        }
        self.loose.extend(node.input_values());
    }
}

/// Metadata of a new node: the user's lines of the node it is placed before, and who made it.
fn new_metadata(anchor: &Node, origin: &str) -> Map<String, Json> {
    let mut metadata = Map::new();
    for key in ["stack_trace", "nn_module_stack"] {
        if let Some(value) = anchor.metadata.get(key) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    // torch keeps `custom` through lowering, and drops what it does not know.
    metadata.insert("custom".to_owned(), json!({ ORIGIN_KEY: origin }).to_string().into());
    metadata.insert(ORIGIN_KEY.to_owned(), origin.into());
    metadata
}
