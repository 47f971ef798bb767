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
///
/// ```
/// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
/// let graph = "x: f32[4] = input
///              y: f32[4] = aten.add.Tensor(self=x, other=x, alpha=1) !anchor
///              return y";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// # let add = site.anchor();
/// let mut patch = Patch::new(&site);
/// let x = patch.tap(add.tensor("self")?);
/// let twice = patch.node("aten.mul.Scalar").arg("self", x).arg("other", 2.0).add();
/// patch.replace(add.output(0)?, twice);
/// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
/// # let edits = text.split_once("claims exact\n").expect("edits").1;
/// assert_eq!(edits, "%0 = aten.mul.Scalar(self=x, other=2.0)\ny -> %0\n");
/// # Ok::<(), NoRewrite>(())
/// ```
#[derive(Debug)]
pub struct Patch<'a> {
    site: Site<'a>,
    edits: Vec<Edit>,
    outputs: Vec<u32>,
    fault: Option<String>,
}

/// A node in the making; [`NewNode::add`] puts it into the patch.
///
/// ```
/// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
/// let graph = "x: f32[2,3] = input
///              y: f32[2,3] = aten.softmax.int(self=x, dim=-1, dtype=None) !anchor
///              return y";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// # let mut patch = Patch::new(&site);
/// let x = patch.tap(site.anchor().tensor("self")?);
/// let softmax = patch.node("aten.softmax.int").arg("self", x).arg("dim", 1).add();
/// patch.replace(site.anchor().output(0)?, softmax);
/// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
/// # let edits = text.split_once("claims exact\n").expect("edits").1;
/// assert_eq!(edits, "%0 = aten.softmax.int(self=x, dim=1)\ny -> %0\n");
/// # Ok::<(), NoRewrite>(())
/// ```
#[derive(Debug)]
#[must_use = "a node joins the patch with `add`"]
pub struct NewNode<'p, 'a> {
    patch: &'p mut Patch<'a>,
    op: String,
    inputs: Vec<NamedOperand>,
}

impl<'a> Patch<'a> {
    /// No edits yet; [`Patch::finish`] wants at least one.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.relu.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let nothing = Patch::new(&site).finish(Numerics::Exact, "shown", "nothing to do");
    /// assert_eq!(nothing, Err(NoRewrite::Fault("the rewrite holds no edit".to_owned())));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn new(site: &Site<'a>) -> Self {
        Self { site: *site, edits: Vec::new(), outputs: Vec::new(), fault: None }
    }

    /// A value of the site, to be used by new nodes. It is a fault to tap a value that the site does not have; a
    /// value of another site with an id that this one knows passes unseen.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              h: f32[4] = aten.clone.default(self=x, memory_format=None) !anchor
    ///              y: f32[4] = aten.relu.default(self=h)
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// patch.replace(site.anchor().output(0)?, x);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert_eq!(edits, "h -> x\n");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn tap(&mut self, value: Value<'_>) -> ValueRef {
        if self.site.value(value.id()).is_none() {
            self.fail(format!("value {} is not of this site", value.id()));
        }
        ValueRef::Existing(value.id())
    }

    /// Starts a new node; give the full overload name, then the arguments, then [`NewNode::add`].
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.clamp.default(self=x, min=0.0, max=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// let relu = patch.node("aten.relu.default").arg("self", x).add();
    /// patch.replace(site.anchor().output(0)?, relu);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert_eq!(edits, "%0 = aten.relu.default(self=x)\ny -> %0\n");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn node(&mut self, op: &str) -> NewNode<'_, 'a> {
        NewNode { op: op.to_owned(), inputs: Vec::new(), patch: self }
    }

    /// `aten.reshape.default`; -1 stands for the size that follows from the others.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[2,3,4] = input
    ///              y: f32[6,4] = aten.flatten.using_ints(self=x, start_dim=0, end_dim=1) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// let rows = patch.reshape(x, &[-1, 4]);
    /// patch.replace(site.anchor().output(0)?, rows);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert_eq!(edits, "%0 = aten.reshape.default(self=x, shape=[-1, 4])\ny -> %0\n");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn reshape(&mut self, value: ValueRef, shape: &[i64]) -> ValueRef {
        self.node("aten.reshape.default").arg("self", value).arg("shape", shape).add()
    }

    /// `aten.permute.default`: dimension `i` of the result is dimension `dims[i]` of `value`.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[2,3,4] = input
    ///              y: f32[2,4,3] = aten.transpose.int(self=x, dim0=1, dim1=2) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// let turned = patch.permute(x, &[0, 2, 1]);
    /// patch.replace(site.anchor().output(0)?, turned);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert_eq!(edits, "%0 = aten.permute.default(self=x, dims=[0, 2, 1])\ny -> %0\n");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn permute(&mut self, value: ValueRef, dims: &[i64]) -> ValueRef {
        self.node("aten.permute.default").arg("self", value).arg("dims", dims).add()
    }

    /// `aten.contiguous.default`: row-major memory.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[3,2] strides[1,3] = input
    ///              y: f32[3,2] = aten.clone.default(self=x, memory_format=contiguous_format) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// let rows = patch.contiguous(x);
    /// patch.replace(site.anchor().output(0)?, rows);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert_eq!(edits, "%0 = aten.contiguous.default(self=x)\ny -> %0\n");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn contiguous(&mut self, value: ValueRef) -> ValueRef {
        self.node("aten.contiguous.default").arg("self", value).add()
    }

    /// Another output of the node that `created` belongs to, from 0. It is a fault to ask for one of a value that
    /// this patch did not make; [`Node::output`] has those.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[2,6] = input
    ///              y: f32[2,3] = aten.slice.Tensor(self=x, dim=1, start=3, end=6, step=1) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// let left = patch.node("aten.split.Tensor").arg("self", x).arg("split_size", 3).arg("dim", 1).add();
    /// let right = patch.output(left, 1);
    /// patch.replace(site.anchor().output(0)?, right);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert_eq!(edits, "%0 = aten.split.Tensor(self=x, split_size=3, dim=1)\ny -> %0.1\n");
    /// # Ok::<(), NoRewrite>(())
    /// ```
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

    /// Every use of `value`, also as an output of the program, becomes a use of `by`. It is a fault to replace a
    /// value twice or by itself.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              h: f32[4] = aten.neg.default(self=x)
    ///              y: f32[4] = aten.neg.default(self=h) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let again = patch.tap(site.anchor().output(0)?);
    /// patch.replace(site.anchor().output(0)?, again);
    /// let fault = patch.finish(Numerics::Exact, "shown", "").expect_err("by itself");
    /// assert_eq!(fault, NoRewrite::Fault("value 2 is replaced by itself".to_owned()));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn replace(&mut self, value: Value<'_>, by: ValueRef) {
        if self.is_replaced(value.id()) {
            self.fail(format!("value {} is replaced twice", value.id()));
        }
        if by == ValueRef::Existing(value.id()) {
            self.fail(format!("value {} is replaced by itself", value.id()));
        }
        self.edits.push(Edit::ReplaceAllUses(Replacement { value: value.id(), by }));
    }

    /// One use, as [`Value::uses`] lists them, becomes a use of `by`; the others stay.
    ///
    /// ```
    /// # use rule_sdk::{Anchor, Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              h: f32[4] = aten.clone.default(self=x, memory_format=None)
    ///              y: f32[4] = aten.relu.default(self=h)
    ///              return h, y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let anchor = Anchor::on(["aten.clone.default"]).surroundings(0, 1);
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "").anchor(anchor)).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// let relu = site.anchor().output(0)?.uses().next().expect("the relu");
    /// patch.replace_use(relu, x);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert_eq!(edits, "h -> x in aten.relu.default argument 0\n");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn replace_use(&mut self, use_site: UseSite, by: ValueRef) {
        self.edits.push(Edit::ReplaceUse(UseReplacement { use_site, by }));
    }

    /// One argument of a node of the site becomes something else: a literal, a value, a list of values. It is a
    /// fault to name an argument that the node does not have.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[2,3] = aten.softmax.int(self=x, dim=-1, dtype=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// patch.set_input(site.anchor(), "dim", 1);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert_eq!(edits, "aten.softmax.int.dim = 1\n");
    /// # Ok::<(), NoRewrite>(())
    /// ```
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

    /// Removes a node. It is a fault unless every output of it is unused or was given to [`Patch::replace`] before.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.relu.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// patch.delete(site.anchor());
    /// let fault = patch.finish(Numerics::Exact, "shown", "").expect_err("y is returned");
    /// let why = "aten.relu.default is deleted while its output 1 is still used";
    /// assert_eq!(fault, NoRewrite::Fault(why.to_owned()));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn delete(&mut self, node: Node<'_>) {
        for &output in &node.data().outputs {
            let unused = self.site.value(output).is_some_and(|value| value.use_count() == 0);
            if !unused && !self.is_replaced(output) {
                self.fail(format!("{} is deleted while its output {output} is still used", node.op()));
            }
        }
        self.edits.push(Edit::Delete(node.id()));
    }

    /// Has the host compute a value that depends on constants only, once, and store it; every use takes the stored
    /// one. It is a fault for a value of the site that is not [constant](Value::is_constant); of a new value, the
    /// host finds out.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[8,4] = input
    ///              w: f32[4,2] = parameter
    ///              y: f32[8,2] = aten.matmul.default(self=x, other=w) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let (matmul, mut patch) = (site.anchor(), Patch::new(&site));
    /// # let (x, w) = (patch.tap(matmul.tensor("self")?), patch.tap(matmul.tensor("other")?));
    /// let turned = patch.permute(w, &[1, 0]);
    /// let weight = patch.fold(turned);
    /// let linear = patch.node("aten.linear.default").arg("input", x).arg("weight", weight).add();
    /// # patch.replace(matmul.output(0)?, linear);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert!(edits.contains("fold %0\n%1 = aten.linear.default(input=x, weight=%0)\n"));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn fold(&mut self, value: ValueRef) -> ValueRef {
        if let ValueRef::Existing(id) = value
            && !self.site.value(id).is_some_and(|value| value.is_constant())
        {
            self.fail(format!("value {id} is folded but does not depend on constants only"));
        }
        self.edits.push(Edit::Fold(value));
        value
    }

    /// The rewrite, with its claim and the reason it is proposed for. `code` is one of the manifest's, `why` one
    /// sentence with the facts of this site.
    ///
    /// # Errors
    /// The first mistake that was made, as a fault of the rule; also when there is no edit.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.clone.default(self=x, memory_format=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// patch.replace(site.anchor().output(0)?, x);
    /// let rewrite = patch.finish(Numerics::Exact, "copy", "nothing writes to the copy")?;
    /// assert_eq!((rewrite.edits.len(), rewrite.why.code.as_str()), (1, "copy"));
    /// # Ok::<(), NoRewrite>(())
    /// ```
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
    /// Gives an argument by the schema's name; arguments that are left out take the schema's default. Values,
    /// lists of values and every literal of the contract go in. It is a fault to give an argument twice, or a value
    /// that the patch has not made.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// # use rule_sdk::{Literal, MemoryFormat, ScalarType};
    /// # let graph = "a: f32[2,1] = input
    /// #              y: f32[2,2] = aten.expand.default(self=a, size=[2, 2]) !anchor
    /// #              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let a = patch.tap(site.anchor().tensor("self")?);
    /// let b = patch.node("aten.cat.default").arg("tensors", vec![a, a]).arg("dim", -1).add();
    /// let c = patch.node("aten.sum.dim_IntList").arg("self", b).arg("dim", [1]).arg("keepdim", true).add();
    /// let d = patch.node("aten.to.dtype").arg("self", c).arg("dtype", ScalarType::Float16).add();
    /// let e = patch.node("aten.clone.default").arg("self", d).arg("memory_format", MemoryFormat::Contiguous).add();
    /// patch.node("aten.clamp.default").arg("self", e).arg("min", Literal::None).arg("max", 6.0).add();
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// # assert!(edits.contains("%0 = aten.cat.default(tensors=[a, a], dim=-1)\n"));
    /// # assert!(edits.contains("%1 = aten.sum.dim_IntList(self=%0, dim=[1], keepdim=True)\n"));
    /// # assert!(edits.contains("%2 = aten.to.dtype(self=%1, dtype=float16)\n"));
    /// # assert!(edits.contains("%3 = aten.clone.default(self=%2, memory_format=contiguous_format)\n"));
    /// assert!(edits.ends_with("%4 = aten.clamp.default(self=%3, min=None, max=6.0)\n"));
    /// # Ok::<(), NoRewrite>(())
    /// ```
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

    /// Puts the node into the patch; the answer is its first output, to be used by later nodes and edits.
    /// [`Patch::output`] has the others.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Numerics, Patch, Site, Verdict, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.hardswish.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let mut patch = Patch::new(&site);
    /// let x = patch.tap(site.anchor().tensor("self")?);
    /// let gate = patch.node("aten.hardsigmoid.default").arg("self", x).add();
    /// let product = patch.node("aten.mul.Tensor").arg("self", x).arg("other", gate).add();
    /// patch.replace(site.anchor().output(0)?, product);
    /// # let text = case.describe(&Verdict::Rewrite(patch.finish(Numerics::Exact, "shown", "")?));
    /// # let edits = text.split_once("claims exact\n").expect("edits").1;
    /// assert!(edits.ends_with("%1 = aten.mul.Tensor(self=x, other=%0)\ny -> %1\n"));
    /// # Ok::<(), NoRewrite>(())
    /// ```
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
