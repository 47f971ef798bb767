//! Typed views of a site: what an argument or a shape is, or a decline that says what it is not.

use crate::NoRewrite;
use crate::contract::{self, Argument, Dim, Literal, ScalarType, UseSite, ValueSource};

/// One place of a graph: the anchor, the nodes around it that its [`Anchor`](crate::Anchor) asked for, and every
/// value that one of them mentions.
///
/// ```
/// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
/// let graph = "x: f32[2,3] = input
///              y: f32[2,3] = aten.softmax.int(self=x, dim=1, dtype=None) !anchor
///              return y";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// let softmax = site.anchor();
/// assert_eq!(softmax.op(), "aten.softmax.int");
/// assert_eq!((softmax.int("dim")?, softmax.tensor("self")?.meta()?.rank()), (1, 2));
/// # Ok::<(), NoRewrite>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    data: &'a contract::Site,
    anchor: &'a contract::Node,
}

/// A node of a site. Arguments go by the names of the op's schema; what is not of the wanted kind declines.
///
/// ```
/// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
/// let graph = "x: f32[1,8,8,4] = input
///              y: f32[1,4,8,8] = aten.permute.default(self=x, dims=[0, 3, 1, 2]) !anchor
///              return y";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// let permute = site.anchor();
/// let (input, order) = (permute.tensor("self")?, permute.ints("dims")?);
/// assert_eq!((input.meta()?.size(3), order), (Some(4), vec![0, 3, 1, 2]));
/// # Ok::<(), NoRewrite>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    site: Site<'a>,
    data: &'a contract::Node,
}

/// A value that a node of a site takes or returns.
///
/// ```
/// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
/// let graph = "w: f32[4,4] = parameter
///              t: f32[4,4] = aten.t.default(self=w) !anchor
///              return t";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// let (weight, turned) = (site.anchor().tensor("self")?, site.anchor().output(0)?);
/// assert!(weight.is_graph_input() && weight.is_constant());
/// assert!(turned.is_graph_output() && turned.producer().is_some());
/// # Ok::<(), NoRewrite>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    site: Site<'a>,
    data: &'a contract::Value,
}

/// A value that is known to be a tensor; [`Value::meta`] gives it.
///
/// ```
/// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
/// # use rule_sdk::ScalarType;
/// let graph = "x: f16[n,3,8] = input
///              y: f16[n,3,8] = aten.relu.default(self=x) !anchor
///              return y";
/// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
/// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
/// # let site = Site::new(&data)?;
/// let x = site.anchor().tensor("self")?.meta()?;
/// assert_eq!((x.dtype(), x.rank()), (ScalarType::Float16, 3));
/// assert_eq!((x.size(0), x.size(1)), (None, Some(3)), "the first size varies");
/// # Ok::<(), NoRewrite>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    name: u32,
    meta: &'a contract::TensorMeta,
}

impl<'a> Site<'a> {
    /// The view of a site as the host hands it over. [`export_rule!`](crate::export_rule) calls this for a rule; a
    /// test of a helper calls it on what [`testing::site`](crate::testing::site) gives.
    ///
    /// # Errors
    /// A fault when the anchor is not among the nodes.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2] = input
    ///              y: f32[2] = aten.relu.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let mut data = site.data().clone();
    /// assert_eq!(Site::new(&data)?.anchor().op(), "aten.relu.default");
    /// data.nodes.clear();
    /// assert!(matches!(Site::new(&data), Err(NoRewrite::Fault(_))));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn new(data: &'a contract::Site) -> Result<Self, NoRewrite> {
        let anchor =
            data.nodes.iter().find(|node| node.id == data.anchor).ok_or_else(|| {
                NoRewrite::Fault(format!("the site's anchor {} is not one of its nodes", data.anchor))
            })?;
        Ok(Self { data, anchor })
    }

    /// The node that matched.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              h: f32[2,3] = aten.relu.default(self=x)
    ///              y: f32[2,3] = aten.softmax.int(self=h, dim=1, dtype=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert_eq!(site.anchor().op(), "aten.softmax.int");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn anchor(&self) -> Node<'a> {
        Node { site: *self, data: self.anchor }
    }

    /// Everything, as the contract has it: also the target, the partitioner's findings, and whether the
    /// surroundings are complete.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2] = input
    ///              y: f32[2] = aten.erf.default(self=x) !anchor !outside
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert_eq!(site.data().target.backend, "xnnpack");
    /// assert_eq!(site.data().findings[0].node, site.anchor().id());
    /// assert!(site.data().complete);
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn data(&self) -> &'a contract::Site {
        self.data
    }

    /// The anchor, its producers, its consumers, breadth first.
    ///
    /// ```
    /// # use rule_sdk::{Anchor, Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              h: f32[4] = aten.neg.default(self=x)
    ///              y: f32[4] = aten.abs.default(self=h)
    ///              z: f32[4] = aten.relu.default(self=y)
    ///              return z";
    /// let anchor = Anchor::on(["aten.abs.default"]).surroundings(1, 1);
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "").anchor(anchor)).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let ops: Vec<&str> = site.nodes().map(|node| node.op()).collect();
    /// assert_eq!(ops, ["aten.abs.default", "aten.neg.default", "aten.relu.default"]);
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn nodes(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let site = *self;
        site.data.nodes.iter().map(move |data| Node { site, data })
    }

    /// A node by id; `None` when the site does not show it.
    ///
    /// ```
    /// # use rule_sdk::{Anchor, Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              h: f32[4] = aten.abs.default(self=x) !anchor
    ///              y: f32[4] = aten.relu.default(self=h)
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let anchor = Anchor::on(["aten.abs.default"]).surroundings(0, 1);
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "").anchor(anchor)).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let first = site.anchor().output(0)?.uses().next().expect("the relu");
    /// assert_eq!(site.node(first.consumer).map(|node| node.op()), Some("aten.relu.default"));
    /// assert!(site.node(99).is_none());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn node(&self, id: u32) -> Option<Node<'a>> {
        self.nodes().find(|node| node.id() == id)
    }

    /// A value by id; `None` when no node of the site mentions it.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// # use rule_sdk::contract::Argument;
    /// let graph = "x: f32[4] = input
    ///              i: i64[2] = input
    ///              y: f32[2] = aten.index.Tensor(self=x, indices=[i]) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let Some(Argument::Values(ids)) = site.anchor().argument("indices") else { panic!("a list") };
    /// let index = site.value(ids[0]).expect("a node mentions it");
    /// assert_eq!(index.meta()?.size(0), Some(2));
    /// assert!(site.value(99).is_none());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn value(&self, id: u32) -> Option<Value<'a>> {
        self.data.values.iter().find(|value| value.id == id).map(|data| Value { site: *self, data })
    }
}

impl<'a> Node<'a> {
    /// Id within the site; two views with one id are views of one node.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.relu.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let back = site.anchor().output(0)?.producer().expect("the anchor");
    /// assert_eq!(back.id(), site.anchor().id());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn id(&self) -> u32 {
        self.data.id
    }

    /// Full overload name. A rule with several ops in its anchor tells them apart by it.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[2,3] = aten._softmax.default(self=x, dim=1, half_to_float=False) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// # let softmax = site.anchor();
    /// let converts = match softmax.op() {
    ///     "aten._softmax.default" => softmax.boolean("half_to_float")?,
    ///     _ => !softmax.is_none("dtype"),
    /// };
    /// assert!(!converts);
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn op(&self) -> &'a str {
        &self.data.op
    }

    /// Everything, as the contract has it.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[3,2] = aten.transpose.int(self=x, dim0=0, dim1=1) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let names: Vec<&str> = site.anchor().data().inputs.iter().map(|input| input.name.as_str()).collect();
    /// assert_eq!(names, ["self", "dim0", "dim1"]);
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn data(&self) -> &'a contract::Node {
        self.data
    }

    /// An argument by name, for the forms that no accessor reads; `None` when the node has none of that name.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// # use rule_sdk::{Literal, contract::Argument};
    /// let graph = "x: f32[8] = input
    ///              y: f32[8] = aten.gelu.default(self=x, approximate=\"tanh\") !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let approximate = site.anchor().argument("approximate");
    /// assert_eq!(approximate, Some(&Argument::Literal(Literal::Text("tanh".to_owned()))));
    /// assert_eq!(site.anchor().argument("dim"), None);
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn argument(&self, name: &str) -> Option<&'a Argument> {
        self.data.inputs.iter().find(|input| input.name == name).map(|input| &input.argument)
    }

    fn unreadable(&self, name: &str, wanted: &str) -> NoRewrite {
        let found = match self.argument(name) {
            None => "missing".to_owned(),
            Some(Argument::Literal(literal)) => literal_kind(literal).to_owned(),
            Some(_) => "computed by the graph".to_owned(),
        };
        NoRewrite::decline("argument", format!("argument `{name}` of {} is not {wanted} but {found}", self.op()))
    }

    /// An integer argument.
    ///
    /// # Errors
    /// Declines with `argument` when it is absent, `None`, a size that varies or anything else.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[2,3] = aten.softmax.int(self=x, dim=-1, dtype=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let softmax = site.anchor();
    /// assert_eq!(softmax.int("dim")?, -1);
    /// let why = "argument `dtype` of aten.softmax.int is not an integer but None";
    /// assert_eq!(softmax.int("dtype"), Err(NoRewrite::decline("argument", why)));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn int(&self, name: &str) -> Result<i64, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Literal(Literal::Int(n) | Literal::SymInt(Dim::Fixed(n)))) => Ok(*n),
            _ => Err(self.unreadable(name, "an integer")),
        }
    }

    /// An integer argument that may be `None` or absent.
    ///
    /// # Errors
    /// Declines with `argument` when it is something else, also when it is a size that varies.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[8,4] = input
    ///              y: f32[5,4] = aten.slice.Tensor(self=x, dim=0, start=None, end=5, step=1) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let slice = site.anchor();
    /// assert_eq!((slice.optional_int("start")?, slice.optional_int("end")?), (None, Some(5)));
    /// assert!(slice.optional_int("self").is_err());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn optional_int(&self, name: &str) -> Result<Option<i64>, NoRewrite> {
        if self.is_none(name) { Ok(None) } else { self.int(name).map(Some) }
    }

    /// A list of known integers; a single one counts as a list.
    ///
    /// # Errors
    /// Declines with `argument` when it is something else or when one of the entries is a size that varies.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3,4] = input
    ///              y: f32[2,4,3] = aten.permute.default(self=x, dims=[0, 2, 1]) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let permute = site.anchor();
    /// assert_eq!(permute.ints("dims")?, [0, 2, 1]);
    /// assert!(permute.ints("self").is_err(), "a tensor is no list of integers");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn ints(&self, name: &str) -> Result<Vec<i64>, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Literal(Literal::Ints(list))) => Ok(list.clone()),
            Some(Argument::Literal(Literal::SymInts(list))) => list
                .iter()
                .map(|dim| match dim {
                    Dim::Fixed(n) => Some(*n),
                    Dim::Symbolic(_) => None,
                })
                .collect::<Option<_>>()
                .ok_or_else(|| self.unreadable(name, "a list of known integers")),
            _ => self.int(name).map(|n| vec![n]).map_err(|_| self.unreadable(name, "a list of integers")),
        }
    }

    /// A height and a width; one number stands for both.
    ///
    /// # Errors
    /// Declines with `argument` when it is something else, also when the list is empty or longer than two.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[1,3,8,8] = input
    ///              y: f32[1,3,4,3] = aten.avg_pool2d.default(self=x, kernel_size=[2, 3], stride=2, padding=[]) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let pool = site.anchor();
    /// assert_eq!((pool.pair("kernel_size")?, pool.pair("stride")?), ([2, 3], [2, 2]));
    /// assert!(pool.pair("padding").is_err());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn pair(&self, name: &str) -> Result<[i64; 2], NoRewrite> {
        match self.ints(name)?.as_slice() {
            [both] => Ok([*both, *both]),
            [height, width] => Ok([*height, *width]),
            _ => Err(self.unreadable(name, "one integer or two")),
        }
    }

    /// A number; integers count.
    ///
    /// # Errors
    /// Declines with `argument` when it is something else, also when the graph computes it.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.leaky_relu.default(self=x, negative_slope=0.25) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert_eq!(site.anchor().float("negative_slope")?, 0.25);
    /// let why = "argument `self` of aten.leaky_relu.default is not a number but computed by the graph";
    /// assert_eq!(site.anchor().float("self"), Err(NoRewrite::decline("argument", why)));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    #[expect(clippy::cast_precision_loss, reason = "a Python number that is used as a float")]
    pub fn float(&self, name: &str) -> Result<f64, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Literal(Literal::Float(x))) => Ok(*x),
            Some(Argument::Literal(Literal::Int(n))) => Ok(*n as f64),
            _ => Err(self.unreadable(name, "a number")),
        }
    }

    /// A list of numbers; a single one counts as a list. A list that holds integers only is one of [`Node::ints`].
    ///
    /// # Errors
    /// Declines with `argument` when it is something else.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[1,1,4,4] = input
    ///              y: f32[1,1,8,6] = aten.upsample_nearest2d.vec(input=x, scale_factors=[2.0, 1.5]) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert_eq!(site.anchor().floats("scale_factors")?, [2.0, 1.5]);
    /// assert!(site.anchor().floats("input").is_err());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn floats(&self, name: &str) -> Result<Vec<f64>, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Literal(Literal::Floats(list))) => Ok(list.clone()),
            _ => self.float(name).map(|x| vec![x]).map_err(|_| self.unreadable(name, "a list of numbers")),
        }
    }

    /// A boolean.
    ///
    /// # Errors
    /// Declines with `argument` when it is something else; 0 and 1 are integers.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[2,1] = aten.mean.dim(self=x, dim=[1], keepdim=True, dtype=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert!(site.anchor().boolean("keepdim")?);
    /// assert!(site.anchor().boolean("dtype").is_err(), "None is neither");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn boolean(&self, name: &str) -> Result<bool, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Literal(Literal::Boolean(truth))) => Ok(*truth),
            _ => Err(self.unreadable(name, "a boolean")),
        }
    }

    /// An element type that may be `None` or absent.
    ///
    /// # Errors
    /// Declines with `argument` when it is something else.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// # use rule_sdk::ScalarType;
    /// let graph = "x: f32[2,3] = input
    ///              y: f16[2,3] = aten.softmax.int(self=x, dim=1, dtype=float16) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let softmax = site.anchor();
    /// assert_eq!(softmax.optional_dtype("dtype")?, Some(ScalarType::Float16));
    /// assert!(softmax.optional_dtype("dim").is_err(), "an integer names no type");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn optional_dtype(&self, name: &str) -> Result<Option<ScalarType>, NoRewrite> {
        match self.argument(name) {
            None | Some(Argument::Literal(Literal::None)) => Ok(None),
            Some(Argument::Literal(Literal::Dtype(dtype))) => Ok(Some(*dtype)),
            _ => Err(self.unreadable(name, "an element type")),
        }
    }

    /// True when the argument is absent or `None`.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.clamp.default(self=x, min=0.0, max=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let clamp = site.anchor();
    /// assert!(!clamp.is_none("min") && clamp.is_none("max"), "such a clamp is a relu");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn is_none(&self, name: &str) -> bool {
        matches!(self.argument(name), None | Some(Argument::Literal(Literal::None)))
    }

    /// An argument that is one value of the graph. Whether that value is a tensor, [`Value::meta`] says.
    ///
    /// # Errors
    /// Declines with `argument` when it is absent, a literal or a list.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              b: f32[4] = parameter
    ///              y: f32[4] = aten.add.Tensor(self=x, other=b, alpha=1) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let (left, right) = (site.anchor().tensor("self")?, site.anchor().tensor("other")?);
    /// assert!(!left.is_constant() && right.is_constant());
    /// assert!(site.anchor().tensor("alpha").is_err());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn tensor(&self, name: &str) -> Result<Value<'a>, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Value(id)) => self.known(*id),
            _ => Err(self.unreadable(name, "a value of the graph")),
        }
    }

    /// An argument that is a list of values.
    ///
    /// # Errors
    /// Declines with `argument` when it is something else: one value, an empty list, or a list with holes, as
    /// `index` takes it, which [`Node::argument`] shows.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "a: f32[2,3] = input
    ///              b: f32[5,3] = input
    ///              y: f32[7,3] = aten.cat.default(tensors=[a, b], dim=0) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let parts = site.anchor().tensors("tensors")?;
    /// assert_eq!(parts[1].meta()?.fixed_sizes()?, [5, 3]);
    /// assert!(site.anchor().tensors("dim").is_err());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn tensors(&self, name: &str) -> Result<Vec<Value<'a>>, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Values(ids)) => ids.iter().map(|id| self.known(*id)).collect(),
            _ => Err(self.unreadable(name, "a list of values of the graph")),
        }
    }

    /// One of the tensors that the node returns, from 0; lists are flattened.
    ///
    /// # Errors
    /// Declines with `argument` when there is no such output.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,8] = input
    ///              a: f32[2,4], b: f32[2,4] = aten.split.Tensor(self=x, split_size=4, dim=1) !anchor
    ///              return a";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let split = site.anchor();
    /// assert_eq!((split.output(0)?.use_count(), split.output(1)?.use_count()), (1, 0));
    /// assert!(split.output(2).is_err());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn output(&self, index: usize) -> Result<Value<'a>, NoRewrite> {
        match self.data.outputs.get(index) {
            Some(id) => self.known(*id),
            None => Err(NoRewrite::decline("argument", format!("{} has no output {index}", self.op()))),
        }
    }

    /// How many tensors the node returns; lists are flattened.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[6] = input
    ///              v: f32[2], i: i64[2] = aten.topk.default(self=x, k=2) !anchor
    ///              return v, i";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert_eq!(site.anchor().output_count(), 2);
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn output_count(&self) -> usize {
        self.data.outputs.len()
    }

    /// The backend did not take it, so it runs on a portable kernel; `!outside` in the text form.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[2,3] = aten.softmax.int(self=x, dim=0, dtype=None) !anchor !outside
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert!(site.anchor().is_outside_delegate());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn is_outside_delegate(&self) -> bool {
        self.data.outside_delegate
    }

    /// Measured share of the method's run time, 0 to 1; `None` when it was not measured, as in the text form.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[2,3] = aten.softmax.int(self=x, dim=0, dtype=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert_eq!(site.anchor().share(), None);
    /// let mut measured = site.data().clone();
    /// measured.nodes[0].share = Some(0.25);
    /// assert_eq!(Site::new(&measured)?.anchor().share(), Some(0.25));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn share(&self) -> Option<f64> {
        self.data.share
    }

    fn known(&self, id: u32) -> Result<Value<'a>, NoRewrite> {
        self.site
            .value(id)
            .ok_or_else(|| NoRewrite::Fault(format!("{} mentions value {id}, which the site lacks", self.op())))
    }
}

fn literal_kind(literal: &Literal) -> &'static str {
    match literal {
        Literal::None => "None",
        Literal::Int(_) => "an integer",
        Literal::Ints(_) => "a list of integers",
        Literal::SymInt(_) => "a size that varies",
        Literal::SymInts(_) => "a list with sizes that vary",
        Literal::Float(_) => "a number",
        Literal::Floats(_) => "a list of numbers",
        Literal::Boolean(_) => "a boolean",
        Literal::Booleans(_) => "a list of booleans",
        Literal::Text(_) => "a text",
        Literal::Texts(_) => "a list of texts",
        Literal::Dtype(_) => "an element type",
        Literal::MemoryFormat(_) => "a memory format",
        Literal::Device(_) => "a device",
        Literal::Layout(_) => "a layout",
        Literal::Other(_) => "something that the contract does not name",
    }
}

/// torch's name of an element type, for messages.
///
/// ```
/// use rule_sdk::{ScalarType, dtype_name};
///
/// assert_eq!(dtype_name(ScalarType::Bfloat16), "bfloat16");
/// assert_eq!(format!("the element type is {}", dtype_name(ScalarType::Boolean)), "the element type is bool");
/// ```
pub fn dtype_name(dtype: ScalarType) -> &'static str {
    match dtype {
        ScalarType::Uint8 => "uint8",
        ScalarType::Int8 => "int8",
        ScalarType::Int16 => "int16",
        ScalarType::Int32 => "int32",
        ScalarType::Int64 => "int64",
        ScalarType::Float16 => "float16",
        ScalarType::Bfloat16 => "bfloat16",
        ScalarType::Float32 => "float32",
        ScalarType::Float64 => "float64",
        ScalarType::Boolean => "bool",
        ScalarType::Complex64 => "complex64",
        ScalarType::Complex128 => "complex128",
        ScalarType::Other => "an element type without a name",
    }
}

impl<'a> Value<'a> {
    /// Id within the site; two arguments with one id are one value.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.mul.Tensor(self=x, other=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let (left, right) = (site.anchor().tensor("self")?, site.anchor().tensor("other")?);
    /// assert_eq!(left.id(), right.id(), "a square");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn id(&self) -> u32 {
        self.data.id
    }

    /// Everything, as the contract has it.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.relu.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let meta = site.anchor().tensor("self")?.data().meta.as_ref();
    /// assert_eq!(meta.map(|meta| meta.device.as_str()), Some("cpu"));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn data(&self) -> &'a contract::Value {
        self.data
    }

    /// Where it comes from: a node, the caller, a parameter, a buffer or a constant.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// # use rule_sdk::ValueSource;
    /// let graph = "x: f32[8,4] = input
    ///              fc.weight: f32[2,4] = parameter
    ///              y: f32[8,2] = aten.linear.default(input=x, weight=fc.weight, bias=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let weight = site.anchor().tensor("weight")?;
    /// assert!(matches!(weight.source(), ValueSource::Parameter(name) if name == "fc.weight"));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn source(&self) -> &'a ValueSource {
        &self.data.source
    }

    /// The caller, the state or a constant gives it: no node returns it, inside the site or outside.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              h: f32[4] = aten.neg.default(self=x)
    ///              y: f32[4] = aten.add.Tensor(self=x, other=h, alpha=1) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert!(site.anchor().tensor("self")?.is_graph_input());
    /// assert!(!site.anchor().tensor("other")?.is_graph_input());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn is_graph_input(&self) -> bool {
        !matches!(self.data.source, ValueSource::Node(_))
    }

    /// The node that returns it, when the site shows that node: the anchor must have asked for
    /// [`surroundings`](crate::Anchor::surroundings). `None` therefore also stands for a node outside the site;
    /// [`Value::is_graph_input`] tells the two apart, and `cut-short` of
    /// [`STANDARD_CODES`](crate::STANDARD_CODES) is the code for it.
    ///
    /// ```
    /// # use rule_sdk::{Anchor, Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              h: f32[2,3,1] = aten.unsqueeze.default(self=x, dim=2)
    ///              y: f32[2,3] = aten.squeeze.dim(self=h, dim=2)
    ///              return y";
    /// let anchor = Anchor::on(["aten.squeeze.dim"]).surroundings(1, 0);
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "").anchor(anchor)).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let unsqueeze = site.anchor().tensor("self")?.producer().expect("one step away");
    /// assert_eq!(unsqueeze.op(), "aten.unsqueeze.default");
    /// assert!(unsqueeze.tensor("self")?.producer().is_none(), "x is an input");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn producer(&self) -> Option<Node<'a>> {
        match self.data.source {
            ValueSource::Node(id) => self.site.node(id),
            _ => None,
        }
    }

    /// Its uses by nodes of the site. The site lists them for values that one of its nodes returns; how many there
    /// are in the whole graph, [`Value::use_count`] says.
    ///
    /// ```
    /// # use rule_sdk::{Anchor, Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              h: f32[4] = aten.relu.default(self=x)
    ///              y: f32[4] = aten.mul.Tensor(self=h, other=h)
    ///              return y";
    /// let anchor = Anchor::on(["aten.relu.default"]).surroundings(0, 1);
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "").anchor(anchor)).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let inputs: Vec<u32> = site.anchor().output(0)?.uses().map(|one| one.input).collect();
    /// assert_eq!(inputs, [0, 1], "positions in the inputs of the multiplication");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn uses(&self) -> impl Iterator<Item = UseSite> + use<'a> {
        let id = self.data.id;
        self.site.data.uses.iter().copied().filter(move |one| one.value == id)
    }

    /// How often the whole graph uses it; to be returned by the program is a use.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              h: f32[4] = aten.relu.default(self=x) !anchor
    ///              y: f32[4] = aten.neg.default(self=h)
    ///              return h, y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let relu = site.anchor().output(0)?;
    /// assert_eq!((relu.use_count(), relu.uses().count()), (2, 0), "both uses lie outside the site");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn use_count(&self) -> u32 {
        self.data.use_count
    }

    /// The program returns it.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.relu.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert!(site.anchor().output(0)?.is_graph_output());
    /// assert!(!site.anchor().tensor("self")?.is_graph_output());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn is_graph_output(&self) -> bool {
        self.data.is_graph_output
    }

    /// Something writes to its memory, at any time of the run; `!mutated` in the text form. A rule that hands on
    /// another tensor in its place declines then.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              y: f32[4] = aten.clone.default(self=x, memory_format=None) !anchor !mutated
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert!(site.anchor().output(0)?.is_mutated());
    /// assert!(!site.anchor().tensor("self")?.is_mutated());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn is_mutated(&self) -> bool {
        self.data.is_mutated
    }

    /// Another value of the graph may share its memory; `!aliased` in the text form.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[6] = aten.view.default(self=x, size=[6]) !anchor !aliased
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert!(site.anchor().output(0)?.is_aliased());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn is_aliased(&self) -> bool {
        self.data.is_aliased
    }

    /// It depends on parameters, unmutated buffers and constants only, so [`Patch::fold`](crate::Patch::fold) takes
    /// it.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[8,4] = input
    ///              w: f32[4,2] = parameter
    ///              t: f32[2,4] = aten.t.default(self=w)
    ///              y: f32[8,2] = aten.linear.default(input=x, weight=t, bias=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let linear = site.anchor();
    /// assert!(linear.tensor("weight")?.is_constant() && !linear.tensor("input")?.is_constant());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn is_constant(&self) -> bool {
        self.data.is_constant
    }

    /// The value as a tensor.
    ///
    /// # Errors
    /// Declines with `not-a-tensor` when it is something else, which the text form writes `_`.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[4] = input
    ///              n: _ = input
    ///              y: f32[4] = aten.mul.Tensor(self=x, other=n) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert_eq!(site.anchor().tensor("self")?.meta()?.rank(), 1);
    /// let Err(NoRewrite::Decline(reason)) = site.anchor().tensor("other")?.meta() else { panic!("a tensor") };
    /// assert_eq!(reason.code, "not-a-tensor");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn meta(&self) -> Result<Tensor<'a>, NoRewrite> {
        match &self.data.meta {
            Some(meta) => Ok(Tensor { name: self.data.id, meta }),
            None => Err(NoRewrite::decline("not-a-tensor", format!("value {} is not a tensor", self.data.id))),
        }
    }
}

impl<'a> Tensor<'a> {
    /// Element type.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// # use rule_sdk::ScalarType;
    /// let graph = "x: i32[4] = input
    ///              y: f32[4] = aten.to.dtype(self=x, dtype=float32) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let (x, y) = (site.anchor().tensor("self")?.meta()?, site.anchor().output(0)?.meta()?);
    /// assert_eq!((x.dtype(), y.dtype()), (ScalarType::Int32, ScalarType::Float32));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn dtype(&self) -> ScalarType {
        self.meta.dtype
    }

    /// Number of dimensions.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[] = aten.sum.default(self=x, dtype=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let (x, y) = (site.anchor().tensor("self")?.meta()?, site.anchor().output(0)?.meta()?);
    /// assert_eq!((x.rank(), y.rank()), (2, 0));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn rank(&self) -> usize {
        self.meta.sizes.len()
    }

    /// Sizes, outermost first.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// # use rule_sdk::Dim;
    /// let graph = "x: f32[batch,3] = input
    ///              y: f32[batch,3] = aten.relu.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let sizes = site.anchor().tensor("self")?.meta()?.sizes();
    /// assert!(matches!(&sizes[0], Dim::Symbolic(symbol) if symbol.expression == "batch"));
    /// assert_eq!(sizes[1], Dim::Fixed(3));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn sizes(&self) -> &'a [Dim] {
        &self.meta.sizes
    }

    /// One size, outermost first; `None` when it varies or there is no such dimension.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[n,3] = input
    ///              y: f32[n,3] = aten.relu.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let x = site.anchor().tensor("self")?.meta()?;
    /// assert_eq!([x.size(0), x.size(1), x.size(2)], [None, Some(3), None]);
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn size(&self, dim: usize) -> Option<i64> {
        match self.meta.sizes.get(dim) {
            Some(Dim::Fixed(n)) => Some(*n),
            _ => None,
        }
    }

    /// All sizes, outermost first.
    ///
    /// # Errors
    /// Declines with `dynamic-shape` when one varies from run to run.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              m: f32[n,3] = input
    ///              y: f32[2,n] = aten.linear.default(input=x, weight=m, bias=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert_eq!(site.anchor().tensor("input")?.meta()?.fixed_sizes()?, [2, 3]);
    /// let weight = site.anchor().tensor("weight")?.meta()?;
    /// assert_eq!(weight.fixed_sizes(), Err(NoRewrite::decline("dynamic-shape", "size 0 of value 1 varies")));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn fixed_sizes(&self) -> Result<Vec<i64>, NoRewrite> {
        (0..self.rank())
            .map(|dim| {
                self.size(dim).ok_or_else(|| {
                    NoRewrite::decline("dynamic-shape", format!("size {dim} of value {} varies", self.name))
                })
            })
            .collect()
    }

    /// `dim` counted from the front, as an index into [`Tensor::sizes`]; `None` when it is out of range.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3,4] = input
    ///              y: f32[2,3,4] = aten.softmax.int(self=x, dim=-2, dtype=None) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let x = site.anchor().tensor("self")?.meta()?;
    /// assert_eq!(x.dimension(site.anchor().int("dim")?), Some(1));
    /// assert_eq!((x.dimension(3), x.dimension(-4)), (None, None));
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn dimension(&self, dim: i64) -> Option<usize> {
        let rank = i64::try_from(self.rank()).ok()?;
        let front = if dim < 0 { dim + rank } else { dim };
        if (0..rank).contains(&front) { usize::try_from(front).ok() } else { None }
    }

    /// The same sizes, element type and device; sizes that vary are the same when their text is.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "a: f32[n,3] = input
    ///              b: f32[n,3] = input
    ///              y: f16[n,3] = aten.add.Tensor(self=a, other=b, alpha=1) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let add = site.anchor();
    /// let (a, b, y) = (add.tensor("self")?.meta()?, add.tensor("other")?.meta()?, add.output(0)?.meta()?);
    /// assert!(a.same_sizes(&b));
    /// assert!(!a.same_sizes(&y), "another element type");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn same_sizes(&self, other: &Tensor<'_>) -> bool {
        fn same(a: &Dim, b: &Dim) -> bool {
            match (a, b) {
                (Dim::Fixed(a), Dim::Fixed(b)) => a == b,
                (Dim::Symbolic(a), Dim::Symbolic(b)) => a.expression == b.expression,
                _ => false,
            }
        }
        self.rank() == other.rank()
            && self.meta.dtype == other.meta.dtype
            && self.meta.device == other.meta.device
            && self.meta.sizes.iter().zip(&other.meta.sizes).all(|(a, b)| same(a, b))
    }

    /// Equal strides wherever a dimension has more than one entry: with [`Tensor::same_sizes`], the same order in
    /// memory.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[1,6] strides[1,1] = input
    ///              y: f32[1,6] = aten.contiguous.default(self=x, memory_format=contiguous_format) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// let (x, y) = (site.anchor().tensor("self")?.meta()?, site.anchor().output(0)?.meta()?);
    /// assert!(x.same_strides(&y), "1 and 6 apart, but only where there is one entry");
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn same_strides(&self, other: &Tensor<'_>) -> bool {
        self.meta.strides.len() == other.meta.strides.len()
            && (self.meta.strides.iter().zip(&other.meta.strides).enumerate())
                .all(|(dim, (a, b))| self.size(dim) == Some(1) || a == b)
    }

    /// Row-major without gaps. Strides over a varying inner size are not understood and count as not
    /// contiguous.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[2,3] = input
    ///              y: f32[3,2] strides[1,3] = aten.t.default(self=x) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert!(site.anchor().tensor("self")?.meta()?.is_contiguous());
    /// assert!(!site.anchor().output(0)?.meta()?.is_contiguous());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn is_contiguous(&self) -> bool {
        let order: Vec<usize> = (0..self.rank()).rev().collect();
        self.is_dense_in(&order)
    }

    /// NHWC without gaps: rank 4, the channels innermost.
    ///
    /// ```
    /// # use rule_sdk::{Manifest, NoRewrite, Site, testing::cases};
    /// let graph = "x: f32[1,3,8,8] strides[192,1,24,3] = input
    ///              y: f32[1,3,8,8] = aten.contiguous.default(self=x, memory_format=contiguous_format) !anchor
    ///              return y";
    /// # let case = &cases::parse(&format!("== shown\n{graph}\n-- declines none")).expect("a case")[0];
    /// # let data = case.site(&Manifest::new("org.example.shown", "1.0.0", "")).expect("an anchor");
    /// # let site = Site::new(&data)?;
    /// assert!(site.anchor().tensor("self")?.meta()?.is_channels_last());
    /// assert!(!site.anchor().output(0)?.meta()?.is_channels_last());
    /// # Ok::<(), NoRewrite>(())
    /// ```
    pub fn is_channels_last(&self) -> bool {
        self.rank() == 4 && self.is_dense_in(&[1, 3, 2, 0])
    }

    /// Dense with the dimensions in this order, innermost first.
    fn is_dense_in(&self, innermost_first: &[usize]) -> bool {
        let mut expected = Some(1_i64);
        for &dim in innermost_first {
            let size = self.size(dim);
            if size != Some(1) {
                match (self.meta.strides.get(dim), expected) {
                    (Some(Dim::Fixed(stride)), Some(wanted)) if *stride == wanted => {}
                    _ => return false,
                }
            }
            expected = expected.zip(size).and_then(|(stride, size)| stride.checked_mul(size));
        }
        true
    }
}
