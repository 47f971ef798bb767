//! The rewrites of several sites as one patch.
//!
//! Sites come in execution order and stay in it. A site that changes what an earlier one changes or reads
//! waits for the next round; one that reads what an earlier one replaced reads the replacement. The whole
//! is applied once to see what it does to shared and written memory ([`super::storage`]); when that fails,
//! every site is tried alone and the guilty ones are refused.

use rustc_hash::{FxHashMap, FxHashSet};

use super::fold::{self, Evaluator, FoldError, FoldRequest};
use super::{Operand, Proposal, Refusal, Step, ValueRef, operand_refs, refused_by_graph, storage};
use crate::graph::{Applied, NodeId, Patch, PatchEdit, Program, TensorMeta, ValueId, ValueSource};

/// Elements that rewrites may have stored in a program that stores nothing itself.
const LEAST_FOLDED: usize = 1 << 22;

/// Rewrites that go together.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// in execution order of their anchors
    pub proposals: Vec<Proposal>,
    /// the patch and what it gives, from the look at whether the rewrites hold together; not where values are
    /// folded, whose content is computed later
    tried: Option<(Patch, Applied)>,
}

impl PartialEq for Draft {
    fn eq(&self, other: &Self) -> bool {
        self.proposals == other.proposals
    }
}

/// What came of combining.
#[derive(Debug, Default)]
pub struct Combined {
    /// what goes together
    pub draft: Draft,
    /// anchors that wait for the next round
    pub postponed: Vec<NodeId>,
    /// what does something to memory that it may not
    pub refused: Vec<Refusal>,
}

/// Combines the checked rewrites of one rule, given in execution order.
pub fn combine(program: &Program, proposals: Vec<Proposal>) -> Combined {
    let mut combined = Combined::default();
    let mut changed: FxHashSet<NodeId> = FxHashSet::default();
    let mut read: FxHashSet<ValueId> = FxHashSet::default();
    let mut replaced: FxHashSet<ValueId> = FxHashSet::default();
    // Most rewrites store nothing, and to add up what a program stores takes time.
    let mut room: Option<usize> = None;
    for proposal in proposals {
        let changes = proposal.changes();
        let replaces = proposal.replaces();
        let loses_what_was_read = changes
            .iter()
            .filter_map(|node| program.graph().node(*node))
            .any(|node| node.output_values().any(|value| read.contains(&value)) && is_deleted(&proposal, node.id));
        if changes.iter().any(|node| changed.contains(node))
            || replaces.iter().any(|value| replaced.contains(value) || read.contains(value))
            || loses_what_was_read
        {
            combined.postponed.push(proposal.anchor);
            continue;
        }
        let folded = folded(&proposal);
        if folded > 0 {
            let room = room.get_or_insert_with(|| most_folded(program));
            if folded > *room {
                let reason = format!("it would store {folded} numbers more, and there is room for {room}");
                combined.refused.push(super::refuse(program, &proposal.origin, proposal.anchor, "size", reason));
                continue;
            }
            *room -= folded;
        }
        // What an earlier site replaced is read as its replacement.
        read.extend(proposal.reads().difference(&replaced));
        changed.extend(changes);
        replaced.extend(replaces);
        combined.draft.proposals.push(proposal);
    }
    if combined.draft.proposals.is_empty() {
        return combined;
    }
    if let Ok(tried) = combined.draft.holds(program) {
        combined.draft.tried = tried;
        return combined;
    }
    let together = std::mem::take(&mut combined.draft.proposals);
    combined.draft.proposals = sift(program, together, &mut combined.refused);
    // Sites that hold alone but not together: the later ones wait.
    let kept = longest_that_holds(program, &combined.draft.proposals);
    let waiting = combined.draft.proposals.split_off(kept);
    combined.postponed.extend(waiting.into_iter().rev().map(|proposal| proposal.anchor));
    combined
}

/// Elements that a rewrite has stored.
fn folded(proposal: &Proposal) -> usize {
    let sizes = proposal.steps.iter().filter_map(|step| match step {
        Step::Fold { meta, .. } => Some(fold::elements(meta).unwrap_or(usize::MAX)),
        _ => None,
    });
    sizes.fold(0, usize::saturating_add)
}

/// Elements that all rewrites together may have stored: twice what the program stores, and always a few.
fn most_folded(program: &Program) -> usize {
    let graph = program.graph();
    let stored = graph.inputs().iter().filter_map(|input| graph.value(*input)).filter(|value| {
        matches!(value.source, ValueSource::Parameter(_) | ValueSource::Buffer { .. } | ValueSource::Constant(_))
    });
    let elements = stored.filter_map(|value| value.tensor()).filter_map(fold::elements);
    elements.fold(0, usize::saturating_add).saturating_mul(2).max(LEAST_FOLDED)
}

/// Refuses the guilty ones. Applying costs as much as the graph is large, so they are looked for by halves.
fn sift(program: &Program, proposals: Vec<Proposal>, refused: &mut Vec<Refusal>) -> Vec<Proposal> {
    let mut group = Draft { proposals, tried: None };
    let Err(broken) = group.holds(program) else { return group.proposals };
    if let [proposal] = group.proposals.as_slice() {
        refused.push(match broken {
            Broken::Graph(error) => refused_by_graph(program, proposal, &error),
            Broken::Storage(reason) => super::refuse(program, &proposal.origin, proposal.anchor, "storage", reason),
        });
        return Vec::new();
    }
    let later = group.proposals.split_off(group.proposals.len() / 2);
    let mut kept = sift(program, group.proposals, refused);
    kept.extend(sift(program, later, refused));
    kept
}

/// How many of the proposals, from the first, hold together.
fn longest_that_holds(program: &Program, proposals: &[Proposal]) -> usize {
    let holds = |count: usize| {
        let first = proposals.get(..count).unwrap_or_default().to_vec();
        Draft { proposals: first, tried: None }.holds(program).is_ok()
    };
    if proposals.len() <= 1 || holds(proposals.len()) {
        return proposals.len();
    }
    let (mut good, mut bad) = (1, proposals.len());
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if holds(middle) { good = middle } else { bad = middle }
    }
    good
}

fn is_deleted(proposal: &Proposal, node: NodeId) -> bool {
    proposal.steps.iter().any(|step| matches!(step, Step::Delete { node: deleted } if *deleted == node))
}

/// Gives the bytes of a folded value, from what has to be computed for it.
type Content<'c, E> = &'c mut dyn FnMut(&Proposal, Result<FoldRequest, String>) -> Result<Vec<u8>, E>;

#[derive(Clone)]
enum Broken {
    Graph(crate::graph::PatchError),
    Storage(String),
}

impl Draft {
    /// True when there is nothing to apply.
    pub fn is_empty(&self) -> bool {
        self.proposals.is_empty()
    }

    /// The patch, with every folded value computed.
    ///
    /// # Errors
    /// When a folded value cannot be computed.
    pub fn finish(&self, program: &Program, evaluator: &mut dyn Evaluator) -> Result<Patch, FoldError> {
        if let Some((patch, _)) = &self.tried {
            return Ok(patch.clone());
        }
        self.assemble(program, &mut |proposal, request| {
            let failed = |reason| FoldError { rule: proposal.origin.clone(), reason };
            request
                .map_err(failed)
                .and_then(|request| evaluator.evaluate(program, &request).map_err(failed))
                .map(|tensor| tensor.bytes)
        })
        .map(|(patch, _)| patch)
    }

    /// What the finished patch gives on `program`, where that is known already: on the program that the draft was
    /// made for, if nothing is folded.
    pub fn applied_to(&self, program: &Program) -> Option<&Applied> {
        self.tried.as_ref().map(|(_, applied)| applied).filter(|applied| applied.is_of(program))
    }

    /// Applies the patch with zeros for folded values, to see what it does to the graph.
    fn holds(&self, program: &Program) -> Result<Option<(Patch, Applied)>, Broken> {
        let zeros = |meta: &TensorMeta| {
            let count: i64 = meta.fixed_sizes().unwrap_or_default().iter().product();
            vec![0_u8; usize::try_from(count).unwrap_or(0).saturating_mul(meta.dtype.bytes())]
        };
        let (patch, replaced) = self
            .assemble(program, &mut |_, request| request.map(|request| zeros(&request.meta)))
            .map_err(Broken::Storage)?;
        let applied = program.apply(&patch).map_err(Broken::Graph)?;
        storage::check(program, &applied, &replaced).map_err(Broken::Storage)?;
        let folds = self.proposals.iter().flat_map(|proposal| &proposal.steps);
        let folds = folds.into_iter().any(|step| matches!(step, Step::Fold { .. }));
        Ok((!folds).then_some((patch, applied)))
    }

    /// One patch from all proposals; `content` gives the bytes of each folded value.
    fn assemble<E>(&self, program: &Program, content: Content<'_, E>) -> Result<(Patch, Vec<(ValueId, ValueRef)>), E> {
        let mut assembly =
            Assembly { patch: Patch::default(), insertions: 0, replaced: FxHashMap::default(), order: Vec::new() };
        for proposal in &self.proposals {
            assembly.add(program, proposal, content)?;
        }
        if let Some(first) = self.proposals.first() {
            let places = if self.proposals.len() == 1 { "place" } else { "places" };
            assembly.patch.title =
                format!("{}: {} ({} {places})", first.origin, first.why.message, self.proposals.len());
        }
        let replaced =
            assembly.order.iter().filter_map(|value| Some((*value, *assembly.replaced.get(value)?))).collect();
        Ok((assembly.patch, replaced))
    }
}

struct Assembly {
    patch: Patch,
    /// inserts and constants so far
    insertions: usize,
    /// what stands for a value that was replaced
    replaced: FxHashMap<ValueId, ValueRef>,
    order: Vec<ValueId>,
}

impl Assembly {
    fn add<E>(&mut self, program: &Program, proposal: &Proposal, content: Content<'_, E>) -> Result<(), E> {
        let folds: FxHashMap<ValueRef, &TensorMeta> = proposal
            .steps
            .iter()
            .filter_map(|step| if let Step::Fold { value, meta } = step { Some((*value, meta)) } else { None })
            .collect();
        let needed = needed_inserts(proposal, &folds);
        // A value of the proposal → a value of the patch.
        let mut made: FxHashMap<ValueRef, ValueRef> = FxHashMap::default();

        for step in &proposal.steps {
            if let Step::Fold { value: value @ ValueRef::Existing(id), meta } = step {
                let by = self.constant(program, proposal, *value, meta, content)?;
                self.replace(*id, by);
            }
        }
        let mut insertion = 0;
        for step in &proposal.steps {
            match step {
                Step::Insert { op, inputs, outputs } => {
                    let place = insertion;
                    insertion += 1;
                    if needed.contains(&place) {
                        let inputs = inputs
                            .iter()
                            .map(|(name, operand)| (name.clone(), self.translate(operand, &made)))
                            .collect();
                        self.patch.edits.push(PatchEdit::Insert {
                            before: proposal.anchor,
                            op: op.clone(),
                            inputs,
                            outputs: outputs.clone(),
                            origin: proposal.origin.clone(),
                        });
                        for output in 0..outputs.len() {
                            made.insert(
                                ValueRef::Created { insertion: place, output },
                                ValueRef::Created { insertion: self.insertions, output },
                            );
                        }
                        self.insertions += 1;
                    }
                    for output in 0..outputs.len() {
                        let value = ValueRef::Created { insertion: place, output };
                        if let Some(meta) = folds.get(&value) {
                            let by = self.constant(program, proposal, value, meta, content)?;
                            made.insert(value, by);
                        }
                    }
                }
                Step::ReplaceAllUses { value, by } => {
                    let by = self.translate_value(*by, &made);
                    self.replace(*value, by);
                }
                Step::SetInput { node, input, operand } => {
                    let operand = self.translate(operand, &made);
                    self.patch.edits.push(PatchEdit::SetInput { node: *node, input: input.clone(), operand });
                }
                Step::Delete { node } => self.patch.edits.push(PatchEdit::Delete { node: *node }),
                Step::Fold { .. } => {}
            }
        }
        Ok(())
    }

    fn constant<E>(
        &mut self,
        program: &Program,
        proposal: &Proposal,
        value: ValueRef,
        meta: &TensorMeta,
        content: Content<'_, E>,
    ) -> Result<ValueRef, E> {
        let bytes = content(proposal, fold::request(program, proposal, value, meta))?;
        self.patch.edits.push(PatchEdit::Constant { meta: meta.clone(), bytes, origin: proposal.origin.clone() });
        self.insertions += 1;
        Ok(ValueRef::Created { insertion: self.insertions - 1, output: 0 })
    }

    fn replace(&mut self, value: ValueId, by: ValueRef) {
        self.patch.edits.push(PatchEdit::ReplaceAllUses { value, by });
        self.replaced.insert(value, by);
        self.order.push(value);
    }

    fn translate_value(&self, value: ValueRef, made: &FxHashMap<ValueRef, ValueRef>) -> ValueRef {
        match value {
            ValueRef::Created { .. } => made.get(&value).copied().unwrap_or(value),
            ValueRef::Existing(id) => self.replaced.get(&id).copied().unwrap_or(value),
        }
    }

    fn translate(&self, operand: &Operand, made: &FxHashMap<ValueRef, ValueRef>) -> Operand {
        let one = |value: &ValueRef| self.translate_value(*value, made);
        match operand {
            Operand::Literal(literal) => Operand::Literal(literal.clone()),
            Operand::Value(value) => Operand::Value(one(value)),
            Operand::Values(values) => Operand::Values(values.iter().map(one).collect()),
            Operand::OptionalValues(values) => {
                Operand::OptionalValues(values.iter().map(|value| value.as_ref().map(one)).collect())
            }
        }
    }
}

/// Inserts that are needed when folded values are stored: the others only lead up to folded values.
fn needed_inserts(proposal: &Proposal, folds: &FxHashMap<ValueRef, &TensorMeta>) -> FxHashSet<usize> {
    let mut inserts: Vec<&Vec<(String, Operand)>> = Vec::new();
    let mut open: Vec<ValueRef> = Vec::new();
    for step in &proposal.steps {
        match step {
            Step::Insert { inputs, .. } => inserts.push(inputs),
            Step::ReplaceAllUses { by, .. } => open.push(*by),
            Step::SetInput { operand, .. } => open.extend(operand_refs(operand)),
            Step::Delete { .. } | Step::Fold { .. } => {}
        }
    }
    let mut needed = FxHashSet::default();
    while let Some(value) = open.pop() {
        if folds.contains_key(&value) {
            continue;
        }
        if let ValueRef::Created { insertion, .. } = value
            && needed.insert(insertion)
            && let Some(inputs) = inserts.get(insertion)
        {
            open.extend(inputs.iter().flat_map(|(_, operand)| operand_refs(operand)));
        }
    }
    needed
}
