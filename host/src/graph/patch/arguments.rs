//! Arguments of nodes: from operands, checked against the schema, with metadata for the shape rules.

use super::super::schema::{Kind, Schema, SchemaArgument};
use super::super::shapes::ShapeArgument;
use super::super::{Argument, Literal, NodeInput, SymIntArgument, ValueId, ValueKind};
use super::apply::Draft;
use super::{Operand, PatchError, ValueRef};

impl Draft<'_> {
    /// The arguments of a new node in schema order.
    pub(super) fn arguments(
        &self,
        edit: usize,
        schema: &Schema,
        inputs: &[(String, Operand)],
    ) -> Result<Vec<NodeInput>, PatchError> {
        let wrong = |argument: &str, problem| PatchError::Argument {
            edit,
            op: schema.op.clone(),
            argument: argument.to_owned(),
            problem,
        };
        for (position, (name, _)) in inputs.iter().enumerate() {
            if schema.argument(name).is_none() {
                return Err(wrong(name, "does not exist"));
            }
            if inputs.iter().take(position).any(|(other, _)| other == name) {
                return Err(wrong(name, "is given twice"));
            }
        }
        let mut arguments = Vec::with_capacity(inputs.len());
        // The exporter's reader takes positional arguments one after the other, without regard to names.
        let mut gap = false;
        for argument in &schema.arguments {
            match inputs.iter().find(|(name, _)| *name == argument.name) {
                Some((name, operand)) => {
                    let arg = self.argument(edit, schema, argument, operand)?;
                    arguments.push(NodeInput { name: name.clone(), arg, keyword: argument.keyword_only || gap });
                }
                None if argument.default.is_some() => gap = true,
                None => return Err(wrong(&argument.name, "is missing")),
            }
        }
        Ok(arguments)
    }

    pub(super) fn argument(
        &self,
        edit: usize,
        schema: &Schema,
        argument: &SchemaArgument,
        operand: &Operand,
    ) -> Result<Argument, PatchError> {
        let arg = match operand {
            Operand::Literal(Literal::Int(number)) => match argument.kind {
                Kind::Ints { length } if length > 0 => Argument::Literal(Literal::Ints(vec![*number; length])),
                _ => Argument::Literal(Literal::Int(*number)),
            },
            Operand::Literal(literal) => Argument::Literal(literal.clone()),
            Operand::Value(value) => Argument::Value(self.resolve(edit, *value)?),
            Operand::Values(values) => {
                let values: Vec<ValueId> =
                    values.iter().map(|value| self.resolve(edit, *value)).collect::<Result<_, _>>()?;
                match argument.kind {
                    Kind::OptionalTensors => Argument::OptionalValues(values.into_iter().map(Some).collect()),
                    _ => Argument::Values(values),
                }
            }
            Operand::OptionalValues(values) => {
                let resolve = |value: &Option<ValueRef>| value.map(|value| self.resolve(edit, value)).transpose();
                Argument::OptionalValues(values.iter().map(resolve).collect::<Result<_, _>>()?)
            }
        };
        if argument.accepts(&arg, &|value| self.kind(value)) {
            return Ok(arg);
        }
        Err(PatchError::Argument {
            edit,
            op: schema.op.clone(),
            argument: argument.name.clone(),
            problem: "is not of the type that the operator takes",
        })
    }

    pub(super) fn shape_arguments<'a>(&'a self, inputs: &'a [NodeInput]) -> Vec<(&'a str, ShapeArgument<'a>)> {
        inputs.iter().filter_map(|input| Some((input.name.as_str(), self.shape_argument(&input.arg)?))).collect()
    }

    fn shape_argument<'a>(&'a self, argument: &'a Argument) -> Option<ShapeArgument<'a>> {
        Some(match argument {
            Argument::Literal(literal) => ShapeArgument::Literal(literal),
            Argument::Value(value) => match &self.values.get(*value)?.kind {
                ValueKind::Tensor(meta) => ShapeArgument::Tensor(meta),
                ValueKind::SymInt(dim) => ShapeArgument::Dim(dim),
                ValueKind::Opaque => ShapeArgument::Unknown,
            },
            Argument::Values(values) => {
                ShapeArgument::Tensors(values.iter().map(|value| self.tensor(*value)).collect::<Option<_>>()?)
            }
            Argument::OptionalValues(values) => {
                let each = |value: &Option<ValueId>| match value {
                    Some(value) => self.tensor(*value).map(Some),
                    None => Some(None),
                };
                ShapeArgument::OptionalTensors(values.iter().map(each).collect::<Option<_>>()?)
            }
            Argument::SymInts(_) | Argument::Opaque { .. } => ShapeArgument::Unknown,
        })
    }
}

/// Replaces the value in an argument; false when it is mentioned where it cannot be replaced.
pub(super) fn replace_in(argument: &mut Argument, value: ValueId, by: ValueId) -> bool {
    let swap = |slot: &mut ValueId| {
        if *slot == value {
            *slot = by;
        }
    };
    match argument {
        Argument::Literal(_) => {}
        Argument::Value(slot) => swap(slot),
        Argument::Values(slots) => slots.iter_mut().for_each(swap),
        Argument::OptionalValues(slots) => slots.iter_mut().flatten().for_each(swap),
        Argument::SymInts(items) => {
            for item in items {
                if let SymIntArgument::Value(slot) = item {
                    swap(slot);
                }
            }
        }
        Argument::Opaque { mentions, .. } => return !mentions.contains(&value),
    }
    true
}
