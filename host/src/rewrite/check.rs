//! One site's rewrite, edit by edit, against the graph.

use std::collections::{HashMap, HashSet};

use super::metadata::{difference, is_row_major};
use super::{Operand, Proposal, Refusal, Step, ValueRef, fold, refuse};
use crate::graph::shapes::{self, ShapeArgument};
use crate::graph::{
    Argument, Graph, GraphOutput, Literal, Node, NodeId, Program, TensorMeta, ValueId, ValueSource, schema,
};
use crate::matching::{Match, to_literal, to_meta};
use crate::sandbox::contract::{self, CreatedRef, Edit, Rewrite};

/// Elements of a value that may be folded.
const MOST_FOLDED: i64 = 1 << 28;

/// Elements of a value that a rewrite may make, unless the site holds large ones.
const MOST_MADE: usize = 1 << 24;
/// How many times the largest value of the site a value that a rewrite makes may be.
const MOST_TIMES_LARGEST: usize = 16;

/// What does not hold: a code and a sentence.
type Fault = (&'static str, String);

/// Checks a rewrite on its own: ids, schemas, shapes, order, constants.
///
/// # Errors
/// The first edit that does not hold refuses the whole rewrite.
pub fn check(program: &Program, origin: &str, one: &Match, rewrite: &Rewrite) -> Result<Proposal, Refusal> {
    let mut checker = Checker::new(program, one);
    for (position, edit) in rewrite.edits.iter().enumerate() {
        checker.edit(edit).map_err(|(code, reason)| {
            let what = match edit {
                Edit::Insert(node) => format!("insert `{}`", node.op),
                Edit::ReplaceAllUses(_) => "replace-all-uses".to_owned(),
                Edit::ReplaceUse(_) => "replace-use".to_owned(),
                Edit::SetInput(_) => "set-input".to_owned(),
                Edit::Delete(_) => "delete".to_owned(),
                Edit::Fold(_) => "fold".to_owned(),
            };
            refuse(program, origin, one.anchor, code, format!("edit {} ({what}): {reason}", position + 1))
        })?;
    }
    let changes = checker.steps.iter().any(|step| !matches!(step, Step::Insert { .. }));
    if !changes {
        return Err(refuse(program, origin, one.anchor, "no-effect", "no edit changes the graph"));
    }
    Ok(Proposal {
        anchor: one.anchor,
        numerics: rewrite.numerics,
        why: rewrite.why.clone(),
        origin: origin.to_owned(),
        steps: checker.steps,
    })
}

/// A node that the rewrite inserts, as far as later edits need it.
struct Created {
    outputs: Vec<TensorMeta>,
    constant: bool,
}

struct Checker<'a> {
    program: &'a Program,
    graph: &'a Graph,
    one: &'a Match,
    /// where the anchor stands; inserts come directly before it
    anchor: usize,
    /// elements of a value that the rewrite may make
    most_made: usize,
    steps: Vec<Step>,
    created: Vec<Created>,
    replaced: HashSet<ValueId>,
    deleted: HashSet<NodeId>,
    changed: HashMap<NodeId, Vec<(String, Operand)>>,
}

impl<'a> Checker<'a> {
    fn new(program: &'a Program, one: &'a Match) -> Self {
        let graph = program.graph();
        let largest = one.values.iter().filter_map(|value| graph.tensor(*value)).filter_map(fold::elements).max();
        Self {
            program,
            graph,
            one,
            most_made: largest.unwrap_or(0).saturating_mul(MOST_TIMES_LARGEST).max(MOST_MADE),
            anchor: graph.position(one.anchor).unwrap_or(0),
            steps: Vec::new(),
            created: Vec::new(),
            replaced: HashSet::new(),
            deleted: HashSet::new(),
            changed: HashMap::new(),
        }
    }

    fn edit(&mut self, edit: &Edit) -> Result<(), Fault> {
        match edit {
            Edit::Insert(node) => self.insert(node),
            Edit::ReplaceAllUses(edit) => self.replace_all(edit.value, edit.by),
            Edit::ReplaceUse(edit) => self.replace_use(edit.use_site, edit.by),
            Edit::SetInput(edit) => {
                let node = self.node(edit.node)?;
                let operand = self.operand(&edit.operand)?;
                self.set_input(node, &edit.input, operand)
            }
            Edit::Delete(node) => self.delete(*node),
            Edit::Fold(value) => self.fold(*value),
        }
    }

    // ----- ids

    fn node(&self, id: u32) -> Result<&'a Node, Fault> {
        let node = self.one.nodes.get(id as usize).and_then(|id| self.graph.node(*id));
        node.ok_or_else(|| ("ids", format!("node {id} is not of this site")))
    }

    fn existing(&self, id: u32) -> Result<ValueId, Fault> {
        self.one.values.get(id as usize).copied().ok_or_else(|| ("ids", format!("value {id} is not of this site")))
    }

    fn value(&self, value: contract::ValueRef) -> Result<ValueRef, Fault> {
        match value {
            contract::ValueRef::Existing(id) => self.existing(id).map(ValueRef::Existing),
            contract::ValueRef::Created(CreatedRef { insertion, output }) => {
                let created = self.created.get(insertion as usize).ok_or_else(|| {
                    ("ids", format!("insert {insertion} is referred to before it is made, or never made"))
                })?;
                if output as usize >= created.outputs.len() {
                    return Err(("ids", format!("insert {insertion} has no output {output}")));
                }
                Ok(ValueRef::Created { insertion: insertion as usize, output: output as usize })
            }
        }
    }

    fn operand(&self, operand: &contract::Operand) -> Result<Operand, Fault> {
        Ok(match operand {
            contract::Operand::Literal(literal) => {
                Operand::Literal(to_literal(literal).map_err(|reason| ("arguments", reason))?)
            }
            contract::Operand::Value(value) => Operand::Value(self.value(*value)?),
            contract::Operand::Values(values) => {
                Operand::Values(values.iter().map(|value| self.value(*value)).collect::<Result<_, _>>()?)
            }
            contract::Operand::OptionalValues(values) => Operand::OptionalValues(
                values
                    .iter()
                    .map(|value| value.map(|value| self.value(value)).transpose())
                    .collect::<Result<_, _>>()?,
            ),
        })
    }

    // ----- facts about values

    fn meta(&self, value: ValueRef) -> Result<&TensorMeta, Fault> {
        let meta = match value {
            ValueRef::Existing(id) => self.graph.tensor(id),
            ValueRef::Created { insertion, output } => {
                self.created.get(insertion).and_then(|created| created.outputs.get(output))
            }
        };
        meta.ok_or_else(|| ("arguments", format!("{} is not a tensor", self.show(value))))
    }

    fn is_constant(&self, value: ValueRef) -> bool {
        match value {
            ValueRef::Existing(id) => self.program.is_constant(id) && !self.program.aliases().is_mutated(id),
            ValueRef::Created { insertion, .. } => self.created.get(insertion).is_some_and(|created| created.constant),
        }
    }

    /// From where on the value exists: the position of the first node that can read it.
    fn available(&self, value: ValueRef) -> usize {
        match value {
            ValueRef::Created { .. } => self.anchor,
            ValueRef::Existing(id) => match self.graph.value(id).map(|value| &value.source) {
                Some(ValueSource::Node { node, .. }) => {
                    self.graph.position(*node).map_or(usize::MAX, |position| position + 1)
                }
                _ => 0,
            },
        }
    }

    fn show(&self, value: ValueRef) -> String {
        match value {
            ValueRef::Existing(id) => {
                self.graph.value(id).map_or_else(|| id.to_string(), |value| format!("`{}`", value.name))
            }
            ValueRef::Created { insertion, output } => format!("output {output} of insert {insertion}"),
        }
    }

    // ----- edits

    fn insert(&mut self, node: &contract::NewNode) -> Result<(), Fault> {
        let known = schema::lookup(&node.op).ok_or_else(|| ("unknown-op", "the operator is not known".to_owned()))?;
        if known.writes() {
            return Err(("writes", "the operator writes to its argument".to_owned()));
        }
        if known.random {
            return Err(("random", "the operator draws random numbers".to_owned()));
        }
        let mut given: HashMap<&str, Operand> = HashMap::new();
        for input in &node.inputs {
            let Some(argument) = known.argument(&input.name) else {
                return Err(("arguments", format!("there is no argument `{}`", input.name)));
            };
            let operand = self.operand(&input.operand)?;
            self.fits(argument, &operand)?;
            if given.insert(&argument.name, operand).is_some() {
                return Err(("arguments", format!("argument `{}` is given twice", input.name)));
            }
        }
        let mut inputs = Vec::new();
        for argument in &known.arguments {
            match given.remove(argument.name.as_str()) {
                Some(operand) => inputs.push((argument.name.clone(), operand)),
                None if argument.default.is_some() => {}
                None => return Err(("arguments", format!("argument `{}` is missing", argument.name))),
            }
        }
        for value in inputs.iter().flat_map(|(_, operand)| super::operand_refs(operand)) {
            if self.available(value) > self.anchor {
                return Err(("order", format!("{} does not exist yet where the node is placed", self.show(value))));
            }
            self.reads_what_the_anchor_reads(value)?;
        }
        let outputs = self.infer(&node.op, &inputs)?;
        self.is_of_sensible_size(&outputs)?;
        if !node.expect.is_empty() {
            self.meets(&node.expect, &outputs)?;
        }
        let constant =
            inputs.iter().flat_map(|(_, operand)| super::operand_refs(operand)).all(|value| self.is_constant(value));
        self.created.push(Created { outputs: outputs.clone(), constant });
        self.steps.push(Step::Insert { op: node.op.clone(), inputs, outputs });
        Ok(())
    }

    /// Everything that follows, on this machine and on the target, has to hold what the rewrite makes.
    fn is_of_sensible_size(&self, outputs: &[TensorMeta]) -> Result<(), Fault> {
        for made in outputs {
            // Sizes that vary follow from those of the program.
            if made.fixed_sizes().is_none() {
                continue;
            }
            let elements = fold::elements(made).unwrap_or(usize::MAX);
            if elements > self.most_made {
                return Err(("size", format!("it would make {elements} numbers, and {} are allowed", self.most_made)));
            }
        }
        Ok(())
    }

    /// Memory that is written to has different content at different times: what the anchor reads is what
    /// new nodes before it read, anything else might be older or newer than the rule thinks.
    fn reads_what_the_anchor_reads(&self, value: ValueRef) -> Result<(), Fault> {
        let ValueRef::Existing(id) = value else { return Ok(()) };
        if !self.program.aliases().is_mutated(id) {
            return Ok(());
        }
        let read =
            self.graph.node(self.one.anchor).is_some_and(|anchor| anchor.input_values().any(|input| input == id));
        if read {
            return Ok(());
        }
        Err(("storage", format!("{} is written to, and the anchor does not read it", self.show(value))))
    }

    fn fits(&self, argument: &schema::SchemaArgument, operand: &Operand) -> Result<(), Fault> {
        let wrong = || ("arguments", format!("argument `{}` does not have the schema's type", argument.name));
        let tensors = |values: &[ValueRef]| values.iter().try_for_each(|value| self.meta(*value).map(|_| ()));
        match (argument.kind, operand) {
            (_, Operand::Literal(Literal::None)) if argument.optional => Ok(()),
            (schema::Kind::Tensor, Operand::Value(value)) => self.meta(*value).map(|_| ()),
            (schema::Kind::Tensors | schema::Kind::OptionalTensors, Operand::Values(values)) => tensors(values),
            (schema::Kind::OptionalTensors, Operand::OptionalValues(values)) => {
                tensors(&values.iter().flatten().copied().collect::<Vec<_>>())
            }
            // A number may stand for a tensor operand, as in `x * 1`.
            (schema::Kind::Tensor, Operand::Literal(Literal::Int(_) | Literal::Float(_) | Literal::Bool(_))) => Ok(()),
            (kind, Operand::Literal(literal)) if kind.accepts(literal) => Ok(()),
            _ => Err(wrong()),
        }
    }

    fn infer(&self, op: &str, inputs: &[(String, Operand)]) -> Result<Vec<TensorMeta>, Fault> {
        let mut arguments = Vec::new();
        for (name, operand) in inputs {
            let argument = match operand {
                Operand::Literal(literal) => ShapeArgument::Literal(literal),
                Operand::Value(value) => ShapeArgument::Tensor(self.meta(*value)?),
                Operand::Values(values) => {
                    ShapeArgument::Tensors(values.iter().map(|value| self.meta(*value)).collect::<Result<_, _>>()?)
                }
                Operand::OptionalValues(values) => ShapeArgument::OptionalTensors(
                    values
                        .iter()
                        .map(|value| value.map(|value| self.meta(value)).transpose())
                        .collect::<Result<_, _>>()?,
                ),
            };
            arguments.push((name.as_str(), argument));
        }
        shapes::infer(op, &arguments).map_err(|error| ("shape", error.to_string()))
    }

    fn meets(&self, expected: &[contract::TensorMeta], found: &[TensorMeta]) -> Result<(), Fault> {
        if expected.len() != found.len() {
            return Err((
                "metadata",
                format!("the rule expects {} outputs, there are {}", expected.len(), found.len()),
            ));
        }
        for (expected, found) in expected.iter().zip(found) {
            let Some(expected) = to_meta(expected) else {
                return Err((
                    "metadata",
                    "the rule expects an element type that the contract does not name".to_owned(),
                ));
            };
            if let Some(difference) = difference(&expected, found) {
                return Err(("metadata", format!("not what the rule expects: {difference}")));
            }
        }
        Ok(())
    }

    fn replace_all(&mut self, value: u32, by: contract::ValueRef) -> Result<(), Fault> {
        let value = self.existing(value)?;
        let by = self.value(by)?;
        self.takes_the_place(value, by)?;
        if !self.replaced.insert(value) {
            return Err(("replaced-twice", format!("{} is replaced twice", self.show(ValueRef::Existing(value)))));
        }
        for one in self.graph.uses(value) {
            self.precedes(by, one.node)?;
        }
        self.keeps_signature(value, by)?;
        self.steps.push(Step::ReplaceAllUses { value, by });
        Ok(())
    }

    /// What the caller gets back stays a value of its own.
    fn keeps_signature(&self, value: ValueId, by: ValueRef) -> Result<(), Fault> {
        let written_back =
            |output: &GraphOutput| matches!(output, GraphOutput::Mutation { value: written, .. } if *written == value);
        if self.graph.outputs().iter().any(written_back) {
            return Err(("signature", format!("{} is written back", self.show(ValueRef::Existing(value)))));
        }
        if let (true, ValueRef::Existing(other)) = (self.graph.is_output(value), by) {
            if self.graph.is_output(other) {
                return Err(("signature", "two outputs of the program would become one".to_owned()));
            }
            if self.graph.producer(other).is_none() {
                return Err(("signature", "an output of the program would become an input".to_owned()));
            }
        }
        Ok(())
    }

    fn takes_the_place(&self, value: ValueId, by: ValueRef) -> Result<(), Fault> {
        if by == ValueRef::Existing(value) {
            return Err(("no-effect", "a value is replaced by itself".to_owned()));
        }
        let (old, new) = (self.meta(ValueRef::Existing(value))?, self.meta(by)?);
        match difference(old, new) {
            Some(difference) => Err((
                "metadata",
                format!("{} and its replacement differ: {difference}", self.show(ValueRef::Existing(value))),
            )),
            None => Ok(()),
        }
    }

    fn precedes(&self, value: ValueRef, user: NodeId) -> Result<(), Fault> {
        let position = self.graph.position(user).unwrap_or(0);
        if self.available(value) > position {
            let name = self.graph.node(user).map_or("?", |node| node.name.as_str());
            return Err(("order", format!("{} does not exist yet where `{name}` uses it", self.show(value))));
        }
        Ok(())
    }

    fn replace_use(&mut self, use_site: contract::UseSite, by: contract::ValueRef) -> Result<(), Fault> {
        let value = self.existing(use_site.value)?;
        let node = self.node(use_site.consumer)?;
        let by = self.value(by)?;
        self.takes_the_place(value, by)?;
        let inputs = self.inputs_of(node)?;
        let (name, operand) = inputs
            .get(use_site.input as usize)
            .filter(|(_, operand)| super::operand_refs(operand).contains(&ValueRef::Existing(value)))
            .ok_or_else(|| {
                ("ids", format!("argument {} of `{}` is not a use of that value", use_site.input, node.name))
            })?;
        let exchange = |one: ValueRef| if one == ValueRef::Existing(value) { by } else { one };
        let operand = match operand {
            Operand::Literal(literal) => Operand::Literal(literal.clone()),
            Operand::Value(one) => Operand::Value(exchange(*one)),
            Operand::Values(all) => Operand::Values(all.iter().copied().map(exchange).collect()),
            Operand::OptionalValues(all) => Operand::OptionalValues(all.iter().map(|one| one.map(exchange)).collect()),
        };
        self.set_input(node, &name.clone(), operand)
    }

    /// The node's arguments in schema order, as earlier edits of this rewrite left them.
    fn inputs_of(&self, node: &Node) -> Result<Vec<(String, Operand)>, Fault> {
        if let Some(changed) = self.changed.get(&node.id) {
            return Ok(changed.clone());
        }
        let inputs = schema::complete(node).unwrap_or_else(|| node.inputs.clone());
        inputs.into_iter().map(|input| Ok((input.name, as_operand(&input.arg)?))).collect()
    }

    fn set_input(&mut self, node: &'a Node, name: &str, operand: Operand) -> Result<(), Fault> {
        let known = schema::lookup(&node.op)
            .ok_or_else(|| ("unknown-op", format!("the operator of `{}` is not known", node.name)))?;
        if known.writes() || known.random {
            return Err(("writes", format!("`{}` writes or draws random numbers", node.name)));
        }
        let argument =
            known.argument(name).ok_or_else(|| ("arguments", format!("`{}` has no argument `{name}`", node.op)))?;
        self.fits(argument, &operand)?;
        for value in super::operand_refs(&operand) {
            self.precedes(value, node.id)?;
            if let ValueRef::Existing(id) = value
                && self.program.aliases().is_mutated(id)
                && !node.input_values().any(|input| input == id)
            {
                return Err((
                    "storage",
                    format!("{} is written to, and `{}` did not read it", self.show(value), node.name),
                ));
            }
        }
        let mut inputs = self.inputs_of(node)?;
        for (_, current) in inputs.iter_mut().filter(|(input, _)| input == name) {
            *current = operand.clone();
        }
        let outputs = self.infer(&node.op, &inputs)?;
        let before: Vec<&TensorMeta> = node.output_values().filter_map(|value| self.graph.tensor(value)).collect();
        if before.len() != outputs.len() {
            return Err(("metadata", format!("`{}` would return another number of tensors", node.name)));
        }
        for (before, after) in before.iter().zip(&outputs) {
            if let Some(difference) = difference(before, after) {
                return Err(("metadata", format!("`{}` would return something else: {difference}", node.name)));
            }
        }
        self.changed.insert(node.id, inputs);
        self.steps.push(Step::SetInput { node: node.id, input: name.to_owned(), operand });
        Ok(())
    }

    fn delete(&mut self, node: u32) -> Result<(), Fault> {
        let node = self.node(node)?;
        let known = schema::lookup(&node.op)
            .ok_or_else(|| ("unknown-op", format!("the operator of `{}` is not known", node.name)))?;
        if known.writes() {
            return Err((
                "writes",
                format!("`{}` writes to its argument; without it the program does less", node.name),
            ));
        }
        for output in node.output_values() {
            let used = self.graph.uses(output).iter().find(|one| !self.deleted.contains(&one.node));
            let kept = used.is_some() || self.graph.is_output(output);
            if kept && !self.replaced.contains(&output) {
                return Err(("used", format!("`{}` is still used", node.name)));
            }
        }
        if !self.deleted.insert(node.id) {
            return Err(("no-effect", format!("`{}` is deleted twice", node.name)));
        }
        self.steps.push(Step::Delete { node: node.id });
        Ok(())
    }

    fn fold(&mut self, value: contract::ValueRef) -> Result<(), Fault> {
        let value = self.value(value)?;
        if !self.is_constant(value) {
            return Err((
                "fold",
                format!("{} depends on more than parameters, unmutated buffers and constants", self.show(value)),
            ));
        }
        let meta = self.meta(value)?.clone();
        let Some(sizes) = meta.fixed_sizes() else {
            return Err(("fold", format!("a size of {} varies", self.show(value))));
        };
        if sizes.iter().try_fold(1_i64, |product, size| product.checked_mul(*size)).is_none_or(|n| n > MOST_FOLDED) {
            return Err(("fold", format!("{} is too large to be stored", self.show(value))));
        }
        if !is_row_major(&meta) {
            return Err(("fold", format!("{} is not row-major", self.show(value))));
        }
        if let ValueRef::Existing(id) = value {
            self.keeps_signature(id, ValueRef::Created { insertion: usize::MAX, output: 0 })?;
            if self.graph.is_output(id) || self.graph.producer(id).is_none() {
                return Err(("fold", format!("{} is an input or an output of the program", self.show(value))));
            }
            if !self.replaced.insert(id) {
                return Err(("replaced-twice", format!("{} is replaced twice", self.show(value))));
            }
        }
        self.steps.push(Step::Fold { value, meta });
        Ok(())
    }
}

fn as_operand(argument: &Argument) -> Result<Operand, Fault> {
    Ok(match argument {
        Argument::Literal(literal) => Operand::Literal(literal.clone()),
        Argument::Value(value) => Operand::Value(ValueRef::Existing(*value)),
        Argument::Values(values) => Operand::Values(values.iter().copied().map(ValueRef::Existing).collect()),
        Argument::OptionalValues(values) => {
            Operand::OptionalValues(values.iter().map(|value| value.map(ValueRef::Existing)).collect())
        }
        Argument::SymInts(_) | Argument::Opaque { .. } => {
            return Err(("arguments", "an argument varies from run to run".to_owned()));
        }
    })
}
