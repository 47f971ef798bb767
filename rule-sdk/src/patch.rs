//! Collects the edits of a rewrite and refuses the ones that cannot be meant.

use crate::contract::{
    self, CreatedRef, Edit, InputChange, Literal, NamedOperand, Numerics, Operand, Reason, Replacement, Rewrite,
    ScalarType, UseReplacement, UseSite, ValueRef,
};
use crate::site::{Node, Site, Value};
use crate::{Examination, MemoryFormat, NoRewrite};

/// The edits of one rewrite.
///
/// Nodes are placed before the anchor in the order they are made. A mistake (a value of another patch, an
/// argument given twice, a node deleted while its result is still used) is remembered and comes out of
/// [`Patch::finish`] as the rule's fault.
#[derive(Debug)]
pub struct Patch<'a> {
    site: Site<'a>,
    edits: Vec<Edit>,
    outputs: Vec<u32>,
    fault: Option<String>,
}

/// A node in the making; [`NewNode::add`] puts it into the patch.
#[derive(Debug)]
#[must_use = "a node joins the patch with `add`"]
pub struct NewNode<'p, 'a> {
    patch: &'p mut Patch<'a>,
    op: String,
    inputs: Vec<NamedOperand>,
}

impl<'a> Patch<'a> {
    /// No edits yet.
    pub fn new(site: &Site<'a>) -> Self {
        Self { site: *site, edits: Vec::new(), outputs: Vec::new(), fault: None }
    }

    /// A value of the site, to be used by new nodes.
    pub fn tap(&mut self, value: Value<'_>) -> ValueRef {
        if self.site.value(value.id()).is_none() {
            self.fail(format!("value {} is not of this site", value.id()));
        }
        ValueRef::Existing(value.id())
    }

    /// Starts a new node.
    pub fn node(&mut self, op: &str) -> NewNode<'_, 'a> {
        NewNode { op: op.to_owned(), inputs: Vec::new(), patch: self }
    }

    /// `aten.reshape.default`; -1 stands for the size that follows from the others.
    pub fn reshape(&mut self, value: ValueRef, shape: &[i64]) -> ValueRef {
        self.node("aten.reshape.default").arg("self", value).arg("shape", shape).add()
    }

    /// `aten.permute.default`.
    pub fn permute(&mut self, value: ValueRef, dims: &[i64]) -> ValueRef {
        self.node("aten.permute.default").arg("self", value).arg("dims", dims).add()
    }

    /// `aten.contiguous.default`: row-major memory.
    pub fn contiguous(&mut self, value: ValueRef) -> ValueRef {
        self.node("aten.contiguous.default").arg("self", value).add()
    }

    /// Another output of the node that `created` belongs to.
    pub fn output(&mut self, created: ValueRef, output: u32) -> ValueRef {
        match created {
            ValueRef::Created(CreatedRef { insertion, .. }) => {
                if let Some(most) = self.outputs.get_mut(insertion as usize) {
                    *most = (*most).max(output);
                }
                ValueRef::Created(CreatedRef { insertion, output })
            }
            ValueRef::Existing(id) => {
                self.fail(format!("value {id} is not made by this patch and has no other output here"));
                created
            }
        }
    }

    /// Every use of `value`, also as an output of the program, becomes a use of `by`.
    pub fn replace(&mut self, value: Value<'_>, by: ValueRef) {
        if self.is_replaced(value.id()) {
            self.fail(format!("value {} is replaced twice", value.id()));
        }
        if by == ValueRef::Existing(value.id()) {
            self.fail(format!("value {} is replaced by itself", value.id()));
        }
        self.edits.push(Edit::ReplaceAllUses(Replacement { value: value.id(), by }));
    }

    /// One use becomes a use of `by`.
    pub fn replace_use(&mut self, use_site: UseSite, by: ValueRef) {
        self.edits.push(Edit::ReplaceUse(UseReplacement { use_site, by }));
    }

    /// One argument of a node of the site becomes something else.
    pub fn set_input(&mut self, node: Node<'_>, input: &str, operand: impl Into<Operand>) {
        if node.argument(input).is_none() {
            self.fail(format!("{} has no argument `{input}`", node.op()));
        }
        self.edits.push(Edit::SetInput(InputChange {
            node: node.id(),
            input: input.to_owned(),
            operand: operand.into(),
        }));
    }

    /// Removes a node whose outputs were replaced or never used.
    pub fn delete(&mut self, node: Node<'_>) {
        for &output in &node.data().outputs {
            let unused = self.site.value(output).is_some_and(|value| value.use_count() == 0);
            if !unused && !self.is_replaced(output) {
                self.fail(format!("{} is deleted while its output {output} is still used", node.op()));
            }
        }
        self.edits.push(Edit::Delete(node.id()));
    }

    /// Has the host compute a value that depends on constants only, once, and store it.
    pub fn fold(&mut self, value: ValueRef) -> ValueRef {
        if let ValueRef::Existing(id) = value
            && !self.site.value(id).is_some_and(|value| value.is_constant())
        {
            self.fail(format!("value {id} is folded but does not depend on constants only"));
        }
        self.edits.push(Edit::Fold(value));
        value
    }

    /// The rewrite, with its claim and the reason it is proposed for.
    ///
    /// # Errors
    /// The first mistake that was made, as a fault of the rule.
    pub fn finish(self, numerics: Numerics, code: &str, why: impl Into<String>) -> Examination {
        if let Some(fault) = self.fault {
            return Err(NoRewrite::Fault(fault));
        }
        if self.edits.is_empty() {
            return Err(NoRewrite::Fault("the rewrite holds no edit".to_owned()));
        }
        Ok(Rewrite {
            edits: self.edits,
            numerics,
            why: Reason { code: code.to_owned(), message: why.into() },
            hints: Vec::new(),
        })
    }

    fn is_replaced(&self, id: u32) -> bool {
        self.edits.iter().any(|edit| matches!(edit, Edit::ReplaceAllUses(one) if one.value == id))
    }

    fn fail(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }
}

impl NewNode<'_, '_> {
    /// Gives an argument by the schema's name; arguments that are left out take the schema's default.
    pub fn arg(mut self, name: &str, operand: impl Into<Operand>) -> Self {
        if self.inputs.iter().any(|input| input.name == name) {
            self.patch.fail(format!("argument `{name}` of {} is given twice", self.op));
        }
        let operand = operand.into();
        for value in operand_values(&operand) {
            if let ValueRef::Created(CreatedRef { insertion, output }) = value
                && self.patch.outputs.get(insertion as usize).is_none_or(|&most| output > most)
            {
                self.patch.fail(format!("argument `{name}` of {} is a value that this patch did not make", self.op));
            }
        }
        self.inputs.push(NamedOperand { name: name.to_owned(), operand });
        self
    }

    /// Puts the node into the patch; the answer is its first output.
    pub fn add(self) -> ValueRef {
        let insertion = u32::try_from(self.patch.outputs.len()).unwrap_or(u32::MAX);
        self.patch.outputs.push(0);
        self.patch.edits.push(Edit::Insert(contract::NewNode { op: self.op, inputs: self.inputs, expect: Vec::new() }));
        ValueRef::Created(CreatedRef { insertion, output: 0 })
    }
}

fn operand_values(operand: &Operand) -> Vec<ValueRef> {
    match operand {
        Operand::Literal(_) => Vec::new(),
        Operand::Value(value) => vec![*value],
        Operand::Values(values) => values.clone(),
        Operand::OptionalValues(values) => values.iter().flatten().copied().collect(),
    }
}

impl From<ValueRef> for Operand {
    fn from(value: ValueRef) -> Self {
        Self::Value(value)
    }
}

impl From<Vec<ValueRef>> for Operand {
    fn from(values: Vec<ValueRef>) -> Self {
        Self::Values(values)
    }
}

impl From<Literal> for Operand {
    fn from(literal: Literal) -> Self {
        Self::Literal(literal)
    }
}

impl From<i64> for Operand {
    fn from(n: i64) -> Self {
        Self::Literal(Literal::Int(n))
    }
}

impl From<f64> for Operand {
    fn from(x: f64) -> Self {
        Self::Literal(Literal::Float(x))
    }
}

impl From<bool> for Operand {
    fn from(truth: bool) -> Self {
        Self::Literal(Literal::Boolean(truth))
    }
}

impl From<&[i64]> for Operand {
    fn from(list: &[i64]) -> Self {
        Self::Literal(Literal::Ints(list.to_vec()))
    }
}

impl<const N: usize> From<[i64; N]> for Operand {
    fn from(list: [i64; N]) -> Self {
        Self::Literal(Literal::Ints(list.to_vec()))
    }
}

impl From<ScalarType> for Operand {
    fn from(dtype: ScalarType) -> Self {
        Self::Literal(Literal::Dtype(dtype))
    }
}

impl From<MemoryFormat> for Operand {
    fn from(format: MemoryFormat) -> Self {
        Self::Literal(Literal::MemoryFormat(format))
    }
}
