//! Typed views of a site: what an argument or a shape is, or a decline that says what it is not.

use crate::NoRewrite;
use crate::contract::{self, Argument, Dim, Literal, ScalarType, UseSite, ValueSource};

/// One place of a graph.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    data: &'a contract::Site,
    anchor: &'a contract::Node,
}

/// A node of a site.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    site: Site<'a>,
    data: &'a contract::Node,
}

/// A value that a node of a site takes or returns.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    site: Site<'a>,
    data: &'a contract::Value,
}

/// A value that is known to be a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    name: u32,
    meta: &'a contract::TensorMeta,
}

impl<'a> Site<'a> {
    /// The view of a site as the host hands it over.
    ///
    /// # Errors
    /// A fault when the anchor is not among the nodes.
    pub fn new(data: &'a contract::Site) -> Result<Self, NoRewrite> {
        let anchor =
            data.nodes.iter().find(|node| node.id == data.anchor).ok_or_else(|| {
                NoRewrite::Fault(format!("the site's anchor {} is not one of its nodes", data.anchor))
            })?;
        Ok(Self { data, anchor })
    }

    /// The node that matched.
    pub fn anchor(&self) -> Node<'a> {
        Node { site: *self, data: self.anchor }
    }

    /// Everything, as the contract has it.
    pub fn data(&self) -> &'a contract::Site {
        self.data
    }

    /// The anchor, its producers, its consumers.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let site = *self;
        site.data.nodes.iter().map(move |data| Node { site, data })
    }

    /// A node by id.
    pub fn node(&self, id: u32) -> Option<Node<'a>> {
        self.nodes().find(|node| node.id() == id)
    }

    /// A value by id.
    pub fn value(&self, id: u32) -> Option<Value<'a>> {
        self.data.values.iter().find(|value| value.id == id).map(|data| Value { site: *self, data })
    }
}

impl<'a> Node<'a> {
    /// Id within the site.
    pub fn id(&self) -> u32 {
        self.data.id
    }

    /// Full overload name.
    pub fn op(&self) -> &'a str {
        &self.data.op
    }

    /// Everything, as the contract has it.
    pub fn data(&self) -> &'a contract::Node {
        self.data
    }

    /// An argument by name.
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
    /// Declines when it is something else.
    pub fn int(&self, name: &str) -> Result<i64, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Literal(Literal::Int(n) | Literal::SymInt(Dim::Fixed(n)))) => Ok(*n),
            _ => Err(self.unreadable(name, "an integer")),
        }
    }

    /// An integer argument that may be `None`.
    ///
    /// # Errors
    /// Declines when it is something else.
    pub fn optional_int(&self, name: &str) -> Result<Option<i64>, NoRewrite> {
        if self.is_none(name) { Ok(None) } else { self.int(name).map(Some) }
    }

    /// A list of known integers; a single one counts as a list.
    ///
    /// # Errors
    /// Declines when it is something else.
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
    /// Declines when it is something else.
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
    /// Declines when it is something else.
    #[expect(clippy::cast_precision_loss, reason = "a Python number that is used as a float")]
    pub fn float(&self, name: &str) -> Result<f64, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Literal(Literal::Float(x))) => Ok(*x),
            Some(Argument::Literal(Literal::Int(n))) => Ok(*n as f64),
            _ => Err(self.unreadable(name, "a number")),
        }
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// Declines when it is something else.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Literal(Literal::Floats(list))) => Ok(list.clone()),
            _ => self.float(name).map(|x| vec![x]).map_err(|_| self.unreadable(name, "a list of numbers")),
        }
    }

    /// A boolean.
    ///
    /// # Errors
    /// Declines when it is something else.
    pub fn boolean(&self, name: &str) -> Result<bool, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Literal(Literal::Boolean(truth))) => Ok(*truth),
            _ => Err(self.unreadable(name, "a boolean")),
        }
    }

    /// An element type that may be `None`.
    ///
    /// # Errors
    /// Declines when it is something else.
    pub fn optional_dtype(&self, name: &str) -> Result<Option<ScalarType>, NoRewrite> {
        match self.argument(name) {
            None | Some(Argument::Literal(Literal::None)) => Ok(None),
            Some(Argument::Literal(Literal::Dtype(dtype))) => Ok(Some(*dtype)),
            _ => Err(self.unreadable(name, "an element type")),
        }
    }

    /// True when the argument is absent or `None`.
    pub fn is_none(&self, name: &str) -> bool {
        matches!(self.argument(name), None | Some(Argument::Literal(Literal::None)))
    }

    /// An argument that is one value.
    ///
    /// # Errors
    /// Declines when it is something else.
    pub fn tensor(&self, name: &str) -> Result<Value<'a>, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Value(id)) => self.known(*id),
            _ => Err(self.unreadable(name, "a value of the graph")),
        }
    }

    /// An argument that is a list of values.
    ///
    /// # Errors
    /// Declines when it is something else.
    pub fn tensors(&self, name: &str) -> Result<Vec<Value<'a>>, NoRewrite> {
        match self.argument(name) {
            Some(Argument::Values(ids)) => ids.iter().map(|id| self.known(*id)).collect(),
            _ => Err(self.unreadable(name, "a list of values of the graph")),
        }
    }

    /// One of the tensors that the node returns.
    ///
    /// # Errors
    /// Declines when there is no such output.
    pub fn output(&self, index: usize) -> Result<Value<'a>, NoRewrite> {
        match self.data.outputs.get(index) {
            Some(id) => self.known(*id),
            None => Err(NoRewrite::decline("argument", format!("{} has no output {index}", self.op()))),
        }
    }

    /// How many tensors the node returns.
    pub fn output_count(&self) -> usize {
        self.data.outputs.len()
    }

    /// The backend did not take it.
    pub fn is_outside_delegate(&self) -> bool {
        self.data.outside_delegate
    }

    /// Measured share of the method's run time.
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

/// torch's name of an element type.
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
    /// Id within the site.
    pub fn id(&self) -> u32 {
        self.data.id
    }

    /// Everything, as the contract has it.
    pub fn data(&self) -> &'a contract::Value {
        self.data
    }

    /// Where it comes from.
    pub fn source(&self) -> &'a ValueSource {
        &self.data.source
    }

    /// The caller, the state or a constant gives it: no node returns it.
    pub fn is_graph_input(&self) -> bool {
        !matches!(self.data.source, ValueSource::Node(_))
    }

    /// The node that returns it, when the site shows that node.
    pub fn producer(&self) -> Option<Node<'a>> {
        match self.data.source {
            ValueSource::Node(id) => self.site.node(id),
            _ => None,
        }
    }

    /// Its uses by nodes of the site.
    pub fn uses(&self) -> impl Iterator<Item = UseSite> + use<'a> {
        let id = self.data.id;
        self.site.data.uses.iter().copied().filter(move |one| one.value == id)
    }

    /// How often the whole graph uses it.
    pub fn use_count(&self) -> u32 {
        self.data.use_count
    }

    /// The program returns it.
    pub fn is_graph_output(&self) -> bool {
        self.data.is_graph_output
    }

    /// Something writes to its memory.
    pub fn is_mutated(&self) -> bool {
        self.data.is_mutated
    }

    /// Another value may share its memory.
    pub fn is_aliased(&self) -> bool {
        self.data.is_aliased
    }

    /// It depends on parameters, unmutated buffers and constants only.
    pub fn is_constant(&self) -> bool {
        self.data.is_constant
    }

    /// The value as a tensor.
    ///
    /// # Errors
    /// Declines when it is something else.
    pub fn meta(&self) -> Result<Tensor<'a>, NoRewrite> {
        match &self.data.meta {
            Some(meta) => Ok(Tensor { name: self.data.id, meta }),
            None => Err(NoRewrite::decline("not-a-tensor", format!("value {} is not a tensor", self.data.id))),
        }
    }
}

impl<'a> Tensor<'a> {
    /// Element type.
    pub fn dtype(&self) -> ScalarType {
        self.meta.dtype
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.meta.sizes.len()
    }

    /// Sizes, outermost first.
    pub fn sizes(&self) -> &'a [Dim] {
        &self.meta.sizes
    }

    /// One size, when it is known.
    pub fn size(&self, dim: usize) -> Option<i64> {
        match self.meta.sizes.get(dim) {
            Some(Dim::Fixed(n)) => Some(*n),
            _ => None,
        }
    }

    /// All sizes.
    ///
    /// # Errors
    /// Declines when one varies from run to run.
    pub fn fixed_sizes(&self) -> Result<Vec<i64>, NoRewrite> {
        (0..self.rank())
            .map(|dim| {
                self.size(dim).ok_or_else(|| {
                    NoRewrite::decline("dynamic-shape", format!("size {dim} of value {} varies", self.name))
                })
            })
            .collect()
    }

    /// `dim` counted from the front; `None` when it is out of range.
    pub fn dimension(&self, dim: i64) -> Option<usize> {
        let rank = i64::try_from(self.rank()).ok()?;
        let front = if dim < 0 { dim + rank } else { dim };
        if (0..rank).contains(&front) { usize::try_from(front).ok() } else { None }
    }

    /// The same sizes, element type and device; symbolic sizes by their text.
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

    /// Equal strides wherever a dimension has more than one entry.
    pub fn same_strides(&self, other: &Tensor<'_>) -> bool {
        self.meta.strides.len() == other.meta.strides.len()
            && (self.meta.strides.iter().zip(&other.meta.strides).enumerate())
                .all(|(dim, (a, b))| self.size(dim) == Some(1) || a == b)
    }

    /// Row-major without gaps. Strides over a varying inner size are not understood and count as not
    /// contiguous.
    pub fn is_contiguous(&self) -> bool {
        let order: Vec<usize> = (0..self.rank()).rev().collect();
        self.is_dense_in(&order)
    }

    /// NHWC without gaps.
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
