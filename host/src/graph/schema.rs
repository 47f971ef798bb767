//! Operator schemas: argument names in order, types, defaults, alias annotations.
//!
//! `schemas.txt` has one overload a line, made by `generate_schemas.py` from the torch version that the
//! managed environment pins. It is parsed once, on first use.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::{Argument, Literal, MemoryFormat, Node, NodeInput, ScalarType, SymIntArgument, ValueId, ValueKind};

/// Type of an argument or a return, as far as it is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// one tensor
    Tensor,
    /// a list of tensors
    Tensors,
    /// a list of tensors with holes
    OptionalTensors,
    /// an integer, possibly symbolic
    Int,
    /// a list of integers, possibly symbolic; one integer stands for a list of `length`
    Ints {
        /// stated length, 0 for any
        length: usize,
    },
    /// a float
    Float,
    /// a list of floats
    Floats,
    /// an integer, a float or a boolean
    Scalar,
    /// a list of scalars
    Scalars,
    /// a boolean
    Bool,
    /// a list of booleans
    Bools,
    /// a string
    Text,
    /// a list of strings
    Texts,
    /// an element type
    ScalarType,
    /// a memory format
    MemoryFormat,
    /// a device
    Device,
    /// a layout
    Layout,
    /// anything else
    Other,
}

/// One argument.
#[derive(Clone, PartialEq, Debug)]
pub struct SchemaArgument {
    /// e.g. `self`, `dim`
    pub name: String,
    /// its type
    pub kind: Kind,
    /// `None` is a value of the type
    pub optional: bool,
    /// what stands when it is left out
    pub default: Option<Literal>,
    /// given by name only
    pub keyword_only: bool,
    /// letters of the alias sets it belongs to, `*` for any; empty for none
    pub alias: String,
    /// the operator writes to it
    pub written: bool,
}

/// One return.
#[derive(Clone, PartialEq, Debug)]
pub struct SchemaReturn {
    /// its type
    pub kind: Kind,
    /// letters of the alias sets it shares with arguments; empty for none
    pub alias: String,
}

/// The schema of one overload.
#[derive(Clone, PartialEq, Debug)]
pub struct Schema {
    /// e.g. `aten.softmax.int`
    pub op: String,
    /// in order
    pub arguments: Vec<SchemaArgument>,
    /// in order
    pub returns: Vec<SchemaReturn>,
    /// the operator draws random numbers
    pub random: bool,
}

impl Schema {
    /// The argument with this name.
    pub fn argument(&self, name: &str) -> Option<&SchemaArgument> {
        self.arguments.iter().find(|argument| argument.name == name)
    }

    /// True when every argument that a node gives is one of the schema's.
    pub(super) fn names_all(&self, node: &Node) -> bool {
        let mut expected = self.arguments.iter();
        // Arguments nearly always come in the schema's order.
        node.inputs.iter().all(|input| {
            expected.next().is_some_and(|argument| argument.name == input.name) || self.argument(&input.name).is_some()
        })
    }

    /// True when the operator writes to one of its arguments.
    pub fn writes(&self) -> bool {
        self.arguments.iter().any(|argument| argument.written)
    }
}

impl SchemaArgument {
    /// True when `argument` is of the type; `kind_of` tells what a value is.
    pub fn accepts(&self, argument: &Argument, kind_of: &dyn Fn(ValueId) -> Option<ValueKind>) -> bool {
        let tensor = |value: ValueId| matches!(kind_of(value), Some(ValueKind::Tensor(_)));
        let number = |value: ValueId| matches!(kind_of(value), Some(ValueKind::SymInt(_)));
        match (self.kind, argument) {
            (_, Argument::Opaque { .. }) => false,
            (_, Argument::Literal(Literal::None)) => self.optional,
            (Kind::Other, _) => true,
            (Kind::Tensor, Argument::Value(value)) => tensor(*value),
            // A Python number may stand for a tensor operand, as in `x + 1`.
            (Kind::Tensor, Argument::Literal(Literal::Int(_) | Literal::Float(_) | Literal::Bool(_))) => true,
            (Kind::Tensors | Kind::OptionalTensors, Argument::Values(values)) => {
                values.iter().all(|value| tensor(*value))
            }
            (Kind::OptionalTensors, Argument::OptionalValues(values)) => {
                values.iter().flatten().all(|value| tensor(*value))
            }
            (Kind::Int | Kind::Scalar, Argument::Value(value)) => number(*value),
            (Kind::Ints { .. }, Argument::SymInts(items)) => items.iter().all(|item| match item {
                SymIntArgument::Fixed(_) => true,
                SymIntArgument::Value(value) => number(*value),
            }),
            (Kind::Ints { .. }, Argument::Values(values)) => values.is_empty(),
            (kind, Argument::Literal(literal)) => kind.accepts(literal),
            _ => false,
        }
    }
}

impl Kind {
    /// True when the literal is of the type; `None` never is, see [`SchemaArgument::optional`].
    pub fn accepts(self, literal: &Literal) -> bool {
        match self {
            Self::Int => matches!(literal, Literal::Int(_)),
            Self::Ints { length } => {
                matches!(literal, Literal::Ints(_)) || length > 0 && matches!(literal, Literal::Int(_))
            }
            Self::Float => matches!(literal, Literal::Float(_) | Literal::Int(_)),
            Self::Floats => matches!(literal, Literal::Floats(_) | Literal::Ints(_)),
            Self::Scalar => matches!(literal, Literal::Int(_) | Literal::Float(_) | Literal::Bool(_)),
            Self::Scalars => matches!(literal, Literal::Ints(_) | Literal::Floats(_) | Literal::Bools(_)),
            Self::Bool => matches!(literal, Literal::Bool(_)),
            Self::Bools => matches!(literal, Literal::Bools(_)),
            Self::Text => matches!(literal, Literal::Text(_)),
            Self::Texts => matches!(literal, Literal::Texts(_)),
            Self::ScalarType => matches!(literal, Literal::ScalarType(_)),
            Self::MemoryFormat => matches!(literal, Literal::MemoryFormat(_)),
            Self::Device => matches!(literal, Literal::Device(_)),
            Self::Layout => matches!(literal, Literal::Layout(_)),
            Self::Tensor | Self::Tensors | Self::OptionalTensors => false,
            Self::Other => true,
        }
    }
}

/// The schema of an overload such as `aten.softmax.int`; `None` for operators outside the table, among
/// them all custom ones.
pub fn lookup(op: &str) -> Option<&'static Schema> {
    static TABLE: OnceLock<FxHashMap<String, Schema>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let schemas = lines().filter_map(parse).map(|schema| (schema.op.clone(), schema));
        schemas.collect()
    });
    table.get(op)
}

/// The full argument list of a node in schema order, with defaults filled in; `None` when the operator
/// has no schema here or the node does not fit it.
pub fn complete(node: &Node) -> Option<Vec<NodeInput>> {
    let schema = lookup(&node.op)?;
    if !schema.names_all(node) {
        return None;
    }
    let argument = |argument: &SchemaArgument| {
        let given = node.inputs.iter().find(|input| input.name == argument.name);
        Some(match given {
            Some(input) => input.clone(),
            None => NodeInput {
                name: argument.name.clone(),
                arg: Argument::Literal(argument.default.clone()?),
                keyword: argument.keyword_only,
            },
        })
    };
    schema.arguments.iter().map(argument).collect()
}

fn lines() -> impl Iterator<Item = &'static str> {
    include_str!("schemas.txt").lines().filter(|line| !line.starts_with('#'))
}

/// `aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor`
fn parse(line: &str) -> Option<Schema> {
    let (line, random) = match line.strip_suffix(" !random") {
        Some(line) => (line, true),
        None => (line, false),
    };
    let (name, rest) = line.split_once('(')?;
    let (arguments, returns) = rest.rsplit_once(") -> ")?;
    let (namespace, name) = name.split_once("::")?;
    let op = if name.contains('.') { format!("{namespace}.{name}") } else { format!("{namespace}.{name}.default") };

    let mut parsed = Vec::new();
    let mut keyword_only = false;
    for item in split(arguments) {
        if item == "*" {
            keyword_only = true;
            continue;
        }
        let (item, default) = match item.split_once('=') {
            Some((item, default)) => (item, Some(default)),
            None => (item, None),
        };
        let (kind, name) = item.rsplit_once(' ')?;
        let (kind, optional, alias, written) = parse_type(kind);
        let default = match default {
            Some(text) => Some(parse_default(kind, text)?),
            None => None,
        };
        parsed.push(SchemaArgument { name: name.to_owned(), kind, optional, default, keyword_only, alias, written });
    }
    let returns = returns.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(returns);
    let returns = split(returns)
        .map(|item| {
            let (kind, _, alias, _) = parse_type(without_name(item));
            SchemaReturn { kind, alias }
        })
        .collect();
    Some(Schema { op, arguments: parsed, returns, random })
}

/// A return without the name it may have: `Tensor(a!) values`, but `Tensor(a -> *)` whole.
fn without_name(item: &str) -> &str {
    match item.rsplit_once(' ') {
        Some((kind, name)) if name.chars().all(|c| c.is_alphanumeric() || c == '_') => kind,
        _ => item,
    }
}

/// The parts between commas that stand in no bracket and no string.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut parts = Vec::new();
    let (mut depth, mut start, mut quoted, mut escaped) = (0_i32, 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default().trim());
    parts.into_iter().filter(|part| !part.is_empty())
}

/// `Tensor(a!)[]?` as its kind, whether `None` is allowed, the alias letters and whether it is written.
fn parse_type(text: &str) -> (Kind, bool, String, bool) {
    let (text, annotation) = match (text.find('('), text.find(')')) {
        (Some(open), Some(close)) if open < close => {
            let annotation = text.get(open + 1..close).unwrap_or_default();
            (
                format!("{}{}", text.get(..open).unwrap_or_default(), text.get(close + 1..).unwrap_or_default()),
                annotation,
            )
        }
        _ => (text.to_owned(), ""),
    };
    let alias: String = annotation.chars().filter(|c| c.is_ascii_lowercase() || *c == '*').collect();
    let written = annotation.contains('!');
    let (text, optional) = match text.strip_suffix('?') {
        Some(text) => (text, true),
        None => (text.as_str(), false),
    };
    let (base, list) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        Some((base, length)) => (base, Some(length.parse().unwrap_or(0))),
        None => (text, None),
    };
    let kind = match (base, list) {
        ("Tensor", None) => Kind::Tensor,
        ("Tensor", Some(_)) => Kind::Tensors,
        ("Tensor?", Some(_)) => Kind::OptionalTensors,
        ("int" | "SymInt", None) => Kind::Int,
        ("int" | "SymInt", Some(length)) => Kind::Ints { length },
        ("float", None) => Kind::Float,
        ("float", Some(_)) => Kind::Floats,
        ("Scalar", None) => Kind::Scalar,
        ("Scalar", Some(_)) => Kind::Scalars,
        ("bool", None) => Kind::Bool,
        ("bool", Some(_)) => Kind::Bools,
        ("str", None) => Kind::Text,
        ("str", Some(_)) => Kind::Texts,
        ("ScalarType", None) => Kind::ScalarType,
        ("MemoryFormat", None) => Kind::MemoryFormat,
        ("Device", None) => Kind::Device,
        ("Layout", None) => Kind::Layout,
        _ => Kind::Other,
    };
    (kind, optional, alias, written)
}

fn parse_default(kind: Kind, text: &str) -> Option<Literal> {
    fn each<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        split(inner).map(|item| item.parse().ok()).collect()
    }
    let bool = |text: &str| match text {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    };
    if text == "None" {
        return Some(Literal::None);
    }
    Some(match kind {
        Kind::Int => Literal::Int(text.parse().ok()?),
        Kind::Ints { length } => match text.parse() {
            Ok(number) => Literal::Ints(vec![number; length]),
            Err(_) => Literal::Ints(each(text)?),
        },
        Kind::Float => Literal::Float(text.parse().ok()?),
        Kind::Floats => Literal::Floats(each(text)?),
        Kind::Scalar => match (text.parse(), text.parse(), bool(text)) {
            (Ok(number), _, _) => Literal::Int(number),
            (_, Ok(number), _) => Literal::Float(number),
            (_, _, flag) => Literal::Bool(flag?),
        },
        Kind::Bool => Literal::Bool(bool(text)?),
        Kind::Text => Literal::Text(text.strip_prefix('"')?.strip_suffix('"')?.to_owned()),
        // `c10::MemoryFormat`, whose numbers are not those of the archive.
        Kind::MemoryFormat => Literal::MemoryFormat(match text {
            "0" => MemoryFormat::Contiguous,
            "1" => MemoryFormat::Preserve,
            _ => return None,
        }),
        // `c10::ScalarType`, likewise.
        Kind::ScalarType => Literal::ScalarType(match text {
            "4" => ScalarType::Int64,
            "6" => ScalarType::Float32,
            _ => return None,
        }),
        Kind::Tensors if text == "[]" => Literal::Ints(Vec::new()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_parses() {
        for line in lines() {
            let schema = parse(line).unwrap_or_else(|| panic!("{line}"));
            assert!(lookup(&schema.op).is_some(), "{line}");
            assert!(schema.arguments.iter().all(|a| !a.name.contains(['(', '[', '?', '='])), "{line}");
        }
        assert!(lines().count() > 2000);
        assert!(include_str!("schemas.txt").len() < 300_000);
    }

    #[test]
    fn defaults_have_the_type_of_their_argument() {
        for line in lines() {
            for argument in parse(line).expect("a line").arguments {
                let Some(default) = &argument.default else { continue };
                let fits = if *default == Literal::None { argument.optional } else { argument.kind.accepts(default) };
                assert!(fits || argument.kind == Kind::Tensors, "{line}: {argument:?}");
            }
        }
    }

    #[test]
    fn names_types_defaults_and_annotations_are_read() {
        let pool = lookup("aten.avg_pool2d.default").expect("known");
        let names: Vec<_> = pool.arguments.iter().map(|argument| argument.name.as_str()).collect();
        assert_eq!(
            names,
            ["self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]
        );
        let defaults: Vec<_> = pool.arguments.iter().map(|argument| argument.default.clone()).collect();
        let pair = |n| Some(Literal::Ints(vec![n; 2]));
        assert_eq!(defaults[2..4], [Some(Literal::Ints(vec![])), pair(0)]);
        assert_eq!(defaults[4..], [Some(Literal::Bool(false)), Some(Literal::Bool(true)), Some(Literal::None)]);
        assert_eq!(pool.argument("kernel_size").map(|a| a.kind), Some(Kind::Ints { length: 2 }));

        let relu = lookup("aten.relu_.default").expect("known");
        assert!(relu.writes() && relu.arguments[0].alias == "a" && relu.returns[0].alias == "a");
        let split = lookup("aten.split.Tensor").expect("known");
        assert_eq!((split.arguments[0].alias.as_str(), split.returns[0].kind), ("a*", Kind::Tensors));
        let clone = lookup("aten.clone.default").expect("known");
        assert!(clone.arguments[1].keyword_only && clone.arguments[1].optional);
        assert!(
            lookup("aten.contiguous.default").expect("known").arguments[1].default
                == Some(Literal::MemoryFormat(MemoryFormat::Contiguous))
        );
        assert_eq!(lookup("aten.max.dim").expect("known").returns.len(), 2);
        assert!(lookup("aten.dropout.default").expect("known").random);
        assert!(lookup("aten._assert_async.msg").expect("known").returns.is_empty());
        assert_eq!(lookup("aten.softmax"), None);
    }

    #[test]
    fn defaults_fill_what_a_node_leaves_out() {
        let input = |name: &str, arg: Argument| NodeInput { name: name.to_owned(), arg, keyword: false };
        let mut node = Node {
            id: super::super::NodeId(0),
            name: "softmax".to_owned(),
            op: "aten.softmax.int".to_owned(),
            inputs: vec![input("self", Argument::Value(ValueId(0))), input("dim", Argument::Literal(Literal::Int(1)))],
            outputs: Vec::new(),
            metadata: std::sync::Arc::default(),
            extra: std::sync::Arc::default(),
        };
        let full = complete(&node).expect("complete");
        assert_eq!(full[2], input("dtype", Argument::Literal(Literal::None)));
        node.inputs.pop();
        assert_eq!(complete(&node), None, "`dim` has no default");
        node.inputs.push(input("axis", Argument::Literal(Literal::Int(1))));
        assert_eq!(complete(&node), None, "`axis` is no argument");
    }
}
