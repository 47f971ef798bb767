//! What a patch does to memory: who shares it, who writes to it.
//!
//! Exported graphs hold in-place operators. A rewrite may give a value a new place in memory, or take a
//! view away, only as long as every write still reaches the same readers, and the caller finds inputs,
//! buffers and outputs shared and written exactly as before.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::ValueRef;
use crate::graph::alias::AliasFacts;
use crate::graph::{Applied, Graph, Program, ValueId};

/// Compares a program before and after a patch. `replaced` are the values that the patch replaced and what
/// took their place.
///
/// # Errors
/// A sentence on the first difference.
pub(super) fn check(before: &Program, after: &Applied, replaced: &[(ValueId, ValueRef)]) -> Result<(), String> {
    let (old, new) = (before.graph(), after.program.graph());
    let (old_facts, new_facts) = (before.aliases(), after.program.aliases());
    let now = Successors::new(after, replaced);

    let mut compared = FxHashSet::default();
    let may_differ = old_facts.mutates_anything() || new_facts.mutates_anything();
    for value in old.value_ids().filter(|_| may_differ) {
        let Some(successor) = now.of(value).filter(|successor| new.value(*successor).is_some()) else { continue };
        let (was, is) = (old_facts.is_mutated(value), new_facts.is_mutated(successor));
        if was == is && !was {
            continue;
        }
        let Some(found) = old.value(value).filter(|value| value.tensor().is_some()) else { continue };
        if was != is {
            let change = if is { "would be written to, and was not" } else { "would no longer be written to" };
            return Err(format!("the memory of `{}` {change}", found.name));
        }
        // All values of a set have the same company.
        if old_facts.place(value).is_none_or(|set| compared.insert(set)) {
            same_company(old, old_facts, new_facts, &now, value, successor)?;
        }
    }
    let made_by_patch: FxHashSet<_> = after.created_nodes.iter().copied().collect();
    for value in after.created_values.iter().flatten().filter(|value| !now.is_successor(**value)) {
        if new_facts.is_mutated(*value) && new.uses(*value).iter().any(|one| !made_by_patch.contains(&one.node)) {
            return Err("a new value would be written to after it is read elsewhere".to_owned());
        }
    }
    border(old, old_facts, new, new_facts, &now)
}

/// For memory that is written to: the values that share it are the same, but for the ones that are gone
/// and the ones that the patch made.
fn same_company(
    old: &Graph,
    old_facts: &AliasFacts,
    new_facts: &AliasFacts,
    now: &Successors<'_>,
    value: ValueId,
    successor: ValueId,
) -> Result<(), String> {
    let expected: BTreeSet<ValueId> = old_facts.set(value).iter().filter_map(|member| now.of(*member)).collect();
    let found: BTreeSet<ValueId> =
        new_facts.set(successor).iter().copied().filter(|member| now.is_successor(*member)).collect();
    let name = |id: ValueId| old.value(id).map_or_else(|| id.to_string(), |value| value.name.clone());
    if let Some(gained) = found.difference(&expected).next() {
        return Err(format!("`{}` would share memory that is written to with `{}`", name(value), name(*gained)));
    }
    if let Some(lost) = expected.difference(&found).next() {
        return Err(format!("a write to `{}` would no longer reach `{}`", name(value), name(*lost)));
    }
    Ok(())
}

/// What the caller sees: which inputs and outputs share memory.
fn border(
    old: &Graph,
    old_facts: &AliasFacts,
    new: &Graph,
    new_facts: &AliasFacts,
    now: &Successors<'_>,
) -> Result<(), String> {
    let outputs_before = old.user_outputs();
    let outputs_after = new.user_outputs();
    if outputs_before.len() != outputs_after.len() {
        return Err("the program would return another number of values".to_owned());
    }
    // By set of the new graph that an output is in: the inputs in it.
    let sets = outputs_after.iter().filter_map(|output| new_facts.place(*output));
    let mut inputs: FxHashMap<u32, Vec<ValueId>> = sets.map(|set| (set, Vec::new())).collect();
    for input in old.inputs() {
        let set = now.of(*input).and_then(|same| new_facts.place(same));
        if let Some(shared) = set.and_then(|set| inputs.get_mut(&set)) {
            shared.push(*input);
        }
    }
    let mut outputs: FxHashMap<u32, FxHashMap<Option<u32>, usize>> = FxHashMap::default();
    for (index, (before, after)) in outputs_before.iter().zip(&outputs_after).enumerate() {
        let Some(set) = new_facts.place(*after) else { continue };
        let shared = inputs.get(&set).into_iter().flatten();
        if let Some(input) = shared.copied().find(|input| !old_facts.may_share(*before, *input)) {
            let name = old.value(input).map_or("?", |value| value.name.as_str());
            return Err(format!("output {index} of the program would share memory with its input `{name}`"));
        }
        // Outputs that share memory now shared it before: all of a new set were in one old set.
        let others = outputs.entry(set).or_default();
        let was = old_facts.place(*before);
        if let Some((_, other)) = others.iter().find(|(other, _)| was.is_some() && other.is_some() && **other != was) {
            return Err(format!("outputs {other} and {index} of the program would share memory"));
        }
        others.entry(was).or_insert(index);
    }
    Ok(())
}

/// Which value of the new graph stands for a value of the old one.
struct Successors<'a> {
    after: &'a Graph,
    replaced: FxHashMap<ValueId, ValueId>,
    gone: FxHashSet<ValueId>,
    made: FxHashSet<ValueId>,
    replacements: FxHashSet<ValueId>,
}

impl<'a> Successors<'a> {
    fn new(after: &'a Applied, replaced: &[(ValueId, ValueRef)]) -> Self {
        let resolve = |value: ValueRef| match value {
            ValueRef::Existing(id) => Some(id),
            ValueRef::Created { insertion, output } => {
                after.created_values.get(insertion).and_then(|outputs| outputs.get(output)).copied()
            }
        };
        let replaced: FxHashMap<ValueId, ValueId> =
            replaced.iter().filter_map(|(value, by)| Some((*value, resolve(*by)?))).collect();
        Self {
            after: after.program.graph(),
            replacements: replaced.values().copied().collect(),
            replaced,
            gone: after.removed.iter().flat_map(|node| node.output_values()).collect(),
            made: after.created_values.iter().flatten().copied().collect(),
        }
    }

    /// `None` when nothing stands for the value any more.
    fn of(&self, value: ValueId) -> Option<ValueId> {
        let mut current = value;
        // A replacement may itself have been replaced; there are no more steps than replacements.
        for _ in 0..=self.replaced.len() {
            match self.replaced.get(&current) {
                Some(next) => current = *next,
                None => break,
            }
        }
        (current != value || !self.gone.contains(&value)).then_some(current)
    }

    fn is_successor(&self, value: ValueId) -> bool {
        self.replacements.contains(&value) || self.after.value(value).is_some() && !self.made.contains(&value)
    }
}
