//! The text form of graphs.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::contract::{
    Argument, Dim, Finding, Input, Literal, Manifest, MemoryFormat, Node, ScalarType, Site, Symbol, TargetInfo,
    TensorMeta, UseSite, Value, ValueSource,
};

/// A graph read from text; ids are positions.
#[derive(Debug)]
pub(super) struct ParsedGraph {
    nodes: Vec<Node>,
    values: Vec<Value>,
    names: Vec<String>,
    uses: Vec<UseSite>,
    marked: Option<u32>,
}

const SCALAR_TYPES: &[(&str, &str, ScalarType)] = &[
    ("u8", "uint8", ScalarType::Uint8),
    ("i8", "int8", ScalarType::Int8),
    ("i16", "int16", ScalarType::Int16),
    ("i32", "int32", ScalarType::Int32),
    ("i64", "int64", ScalarType::Int64),
    ("f16", "float16", ScalarType::Float16),
    ("bf16", "bfloat16", ScalarType::Bfloat16),
    ("f32", "float32", ScalarType::Float32),
    ("f64", "float64", ScalarType::Float64),
    ("bool", "bool", ScalarType::Boolean),
];

const MEMORY_FORMATS: &[(&str, MemoryFormat)] = &[
    ("contiguous_format", MemoryFormat::Contiguous),
    ("preserve_format", MemoryFormat::Preserve),
    ("channels_last", MemoryFormat::ChannelsLast),
];

impl ParsedGraph {
    pub(super) fn value_name(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("?", String::as_str)
    }

    pub(super) fn node_name(&self, id: u32) -> &str {
        self.nodes.get(id as usize).map_or("?", |node| &node.op)
    }

    /// Cuts the site that the manifest asks for.
    pub(super) fn site(&self, manifest: &Manifest) -> Result<Site, String> {
        let wanted = |node: &&Node| match self.marked {
            Some(marked) => node.id == marked,
            None => manifest.anchors.iter().any(|anchor| anchor.ops.contains(&node.op)),
        };
        let anchor = self.nodes.iter().find(wanted).ok_or("the graph holds no anchor")?;
        let index = manifest.anchors.iter().position(|entry| entry.ops.contains(&anchor.op));
        let entry = index.and_then(|index| manifest.anchors.get(index));
        let depth = entry.map_or((0, 0), |entry| (entry.producer_depth, entry.consumer_depth));

        let mut shown = vec![anchor.id];
        self.walk(anchor.id, depth.0, &mut shown, |graph, node| {
            values_of(node).filter_map(|value| graph.producer_of(value)).collect()
        });
        self.walk(anchor.id, depth.1, &mut shown, |graph, node| {
            graph.uses.iter().filter(|one| node.outputs.contains(&one.value)).map(|one| one.consumer).collect()
        });
        let nodes: Vec<Node> = shown.iter().map(|&id| self.nodes[id as usize].clone()).collect();

        let mut mentioned: Vec<u32> = Vec::new();
        for node in &nodes {
            for value in values_of(node).chain(node.outputs.iter().copied()) {
                if !mentioned.contains(&value) {
                    mentioned.push(value);
                }
            }
        }
        let produced: HashSet<u32> = nodes.iter().flat_map(|node| node.outputs.iter().copied()).collect();
        let within = |one: &&UseSite| produced.contains(&one.value) && shown.contains(&one.consumer);
        Ok(Site {
            anchor: anchor.id,
            anchor_index: u32::try_from(index.unwrap_or(0)).unwrap_or(0),
            target: TargetInfo {
                backend: "xnnpack".to_owned(),
                backend_version: "1.5.1".to_owned(),
                exporter: "torch 2.15.0".to_owned(),
            },
            findings: (nodes.iter().filter(|node| node.outside_delegate))
                .map(|node| Finding { node: node.id, code: "unknown".to_owned(), detail: String::new() })
                .collect(),
            values: mentioned.iter().map(|&id| self.values[id as usize].clone()).collect(),
            uses: self.uses.iter().filter(within).copied().collect(),
            nodes,
            complete: true,
            hints: Vec::new(),
        })
    }

    fn walk(&self, from: u32, depth: u8, shown: &mut Vec<u32>, next: impl Fn(&Self, &Node) -> Vec<u32>) {
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((id, distance)) = queue.pop_front() {
            if distance == depth {
                continue;
            }
            for neighbour in next(self, &self.nodes[id as usize]) {
                if !shown.contains(&neighbour) {
                    shown.push(neighbour);
                    queue.push_back((neighbour, distance + 1));
                }
            }
        }
    }

    fn producer_of(&self, value: u32) -> Option<u32> {
        match self.values[value as usize].source {
            ValueSource::Node(id) => Some(id),
            _ => None,
        }
    }
}

fn values_of(node: &Node) -> impl Iterator<Item = u32> + '_ {
    node.inputs.iter().flat_map(|input| match &input.argument {
        Argument::Literal(_) => Vec::new(),
        Argument::Value(id) => vec![*id],
        Argument::Values(ids) => ids.clone(),
        Argument::OptionalValues(ids) => ids.iter().flatten().copied().collect(),
    })
}

/// Reads a graph; the complaint names the line.
pub(super) fn parse(text: &str) -> Result<ParsedGraph, String> {
    let mut graph =
        ParsedGraph { nodes: Vec::new(), values: Vec::new(), names: Vec::new(), uses: Vec::new(), marked: None };
    let mut scope = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        read_line(line, &mut graph, &mut scope).map_err(|error| format!("line {}: {error}", number + 1))?;
    }
    Ok(graph)
}

fn read_line(line: &str, graph: &mut ParsedGraph, scope: &mut HashMap<String, u32>) -> Result<(), String> {
    let find = |scope: &HashMap<String, u32>, name: &str| {
        scope.get(name).copied().ok_or_else(|| format!("no value is named `{name}`"))
    };
    if let Some(names) = line.strip_prefix("return ") {
        for name in split(names)? {
            let value = &mut graph.values[find(scope, &name)? as usize];
            value.is_graph_output = true;
            value.use_count += 1;
        }
        return Ok(());
    }
    let (line, flags) = line.split_once(" !").map_or((line, ""), |(line, flags)| (line, flags));
    let flags: Vec<&str> = flags.split('!').map(str::trim).filter(|flag| !flag.is_empty()).collect();
    let (left, right) = line.split_once(" = ").ok_or("expected `name: type = source`")?;
    let node = u32::try_from(graph.nodes.len()).map_err(|_| "too many nodes")?;

    let stored = || left.split(':').next().unwrap_or(left).trim().to_owned();
    let (source, constant, call) = match right.trim() {
        "input" => (ValueSource::UserInput, false, None),
        "parameter" => (ValueSource::Parameter(stored()), true, None),
        "buffer" => (ValueSource::Buffer(stored()), true, None),
        "constant" => (ValueSource::Constant(stored()), true, None),
        call => {
            let (op, rest) = call.split_once('(').ok_or("expected a source or `op(arguments)`")?;
            let arguments = rest.strip_suffix(')').ok_or("expected `)`")?;
            let mut inputs = Vec::new();
            for argument in split(arguments)? {
                let (name, value) = argument.split_once('=').ok_or("expected `name=argument`")?;
                inputs.push(Input { name: name.trim().to_owned(), argument: read_argument(value.trim(), scope)? });
            }
            let taken: Vec<u32> = values_of(&probe(&inputs)).collect();
            let constant = !taken.is_empty() && taken.iter().all(|&value| graph.values[value as usize].is_constant);
            (ValueSource::Node(node), constant, Some((op.trim().to_owned(), inputs)))
        }
    };
    let mut outputs = Vec::new();
    for typed in split(left)? {
        let (name, kind) = typed.split_once(':').ok_or("expected `name: type`")?;
        let id = u32::try_from(graph.values.len()).map_err(|_| "too many values")?;
        graph.values.push(Value {
            id,
            source: source.clone(),
            meta: if kind.trim() == "_" { None } else { Some(read_type(kind.trim())?) },
            use_count: 0,
            is_graph_output: false,
            is_mutated: flags.contains(&"mutated"),
            is_aliased: flags.contains(&"aliased"),
            is_constant: constant,
        });
        graph.names.push(name.trim().to_owned());
        scope.insert(name.trim().to_owned(), id);
        outputs.push(id);
    }
    if let Some((op, inputs)) = call {
        for (position, input) in inputs.iter().enumerate() {
            for value in values_of(&probe(std::slice::from_ref(input))) {
                graph.values[value as usize].use_count += 1;
                let input = u32::try_from(position).map_err(|_| "too many arguments")?;
                graph.uses.push(UseSite { value, consumer: node, input });
            }
        }
        if flags.contains(&"anchor") {
            graph.marked = Some(node);
        }
        let outside_delegate = flags.contains(&"outside");
        graph.nodes.push(Node { id: node, op, inputs, outputs, outside_delegate, share: None });
    }
    Ok(())
}

/// A node that exists only to list the values of its inputs.
fn probe(inputs: &[Input]) -> Node {
    Node {
        id: 0,
        op: String::new(),
        inputs: inputs.to_vec(),
        outputs: Vec::new(),
        outside_delegate: false,
        share: None,
    }
}

fn read_type(text: &str) -> Result<TensorMeta, String> {
    let (head, strides) = match text.split_once(" strides") {
        Some((head, strides)) => (head.trim(), Some(read_dims(strides.trim())?)),
        None => (text, None),
    };
    let (name, sizes) = head.split_at(head.find('[').ok_or("expected `type[sizes]`")?);
    let dtype = SCALAR_TYPES
        .iter()
        .find(|(short, _, _)| *short == name)
        .map(|(_, _, dtype)| *dtype)
        .ok_or_else(|| format!("no element type is named `{name}`"))?;
    let sizes = read_dims(sizes)?;
    let strides = strides.unwrap_or_else(|| row_major(&sizes));
    Ok(TensorMeta { dtype, sizes, strides, device: "cpu".to_owned() })
}

fn row_major(sizes: &[Dim]) -> Vec<Dim> {
    let mut stride = Dim::Fixed(1);
    let mut strides: Vec<Dim> = Vec::new();
    for size in sizes.iter().rev() {
        strides.push(stride.clone());
        stride = match (&stride, size) {
            (Dim::Fixed(a), Dim::Fixed(b)) => Dim::Fixed(a.saturating_mul(*b)),
            (a, b) => symbol(&format!("{}*{}", show_dim(a), show_dim(b))),
        };
    }
    strides.reverse();
    strides
}

fn read_dims(text: &str) -> Result<Vec<Dim>, String> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or("expected `[sizes]`")?;
    Ok(split(inner)?.iter().map(|size| size.parse().map_or_else(|_| symbol(size), Dim::Fixed)).collect())
}

fn symbol(expression: &str) -> Dim {
    Dim::Symbolic(Symbol { expression: expression.to_owned(), hint: None, min: None, max: None })
}

fn show_dim(dim: &Dim) -> String {
    match dim {
        Dim::Fixed(n) => n.to_string(),
        Dim::Symbolic(symbol) => symbol.expression.clone(),
    }
}

/// Splits at commas that stand outside brackets and quotes.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut quoted) = (0_i32, false);
    for character in text.chars() {
        match character {
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    if depth != 0 || quoted {
        return Err("brackets or quotes do not match".to_owned());
    }
    Ok(parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect())
}

fn read_argument(text: &str, scope: &HashMap<String, u32>) -> Result<Argument, String> {
    if let Some(id) = scope.get(text) {
        return Ok(Argument::Value(*id));
    }
    let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return read_scalar(text).map(Argument::Literal);
    };
    let items = split(inner)?;
    if !items.is_empty() && items.iter().all(|item| scope.contains_key(item)) {
        return Ok(Argument::Values(items.iter().map(|item| scope[item]).collect()));
    }
    if items.iter().any(|item| scope.contains_key(item)) {
        return Ok(Argument::OptionalValues(items.iter().map(|item| scope.get(item).copied()).collect()));
    }
    let literals: Vec<Literal> = items.iter().map(|item| read_scalar(item)).collect::<Result<_, _>>()?;
    if literals.iter().all(|literal| matches!(literal, Literal::Int(_))) {
        let ints = literals.iter().filter_map(|literal| if let Literal::Int(n) = literal { Some(*n) } else { None });
        return Ok(Argument::Literal(Literal::Ints(ints.collect())));
    }
    let floats = literals.iter().map(|literal| match literal {
        #[expect(clippy::cast_precision_loss, reason = "a number of a test")]
        Literal::Int(n) => Ok(*n as f64),
        Literal::Float(x) => Ok(*x),
        other => Err(format!("a list cannot hold {other:?}")),
    });
    Ok(Argument::Literal(Literal::Floats(floats.collect::<Result<_, _>>()?)))
}

fn read_scalar(text: &str) -> Result<Literal, String> {
    if let Ok(n) = text.parse::<i64>() {
        return Ok(Literal::Int(n));
    }
    if let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        return Ok(Literal::Text(inner.to_owned()));
    }
    if let Some((_, _, dtype)) = SCALAR_TYPES.iter().find(|(_, long, _)| *long == text) {
        return Ok(Literal::Dtype(*dtype));
    }
    if let Some((_, format)) = MEMORY_FORMATS.iter().find(|(name, _)| *name == text) {
        return Ok(Literal::MemoryFormat(*format));
    }
    match text {
        "None" => Ok(Literal::None),
        "True" => Ok(Literal::Boolean(true)),
        "False" => Ok(Literal::Boolean(false)),
        _ => text.parse().map(Literal::Float).map_err(|_| format!("no value is named `{text}`")),
    }
}

/// A literal as the text form writes it.
pub(super) fn show_literal(literal: &Literal) -> String {
    fn list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
        format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "))
    }
    let truth = |truth: &bool| if *truth { "True" } else { "False" }.to_owned();
    match literal {
        Literal::None => "None".to_owned(),
        Literal::Int(n) => n.to_string(),
        Literal::Ints(ints) => list(ints, i64::to_string),
        Literal::SymInt(dim) => show_dim(dim),
        Literal::SymInts(dims) => list(dims, show_dim),
        Literal::Float(x) => format!("{x:?}"),
        Literal::Floats(floats) => list(floats, |x| format!("{x:?}")),
        Literal::Boolean(one) => truth(one),
        Literal::Booleans(many) => list(many, truth),
        Literal::Text(text) => format!("{text:?}"),
        Literal::Texts(texts) => list(texts, |text| format!("{text:?}")),
        Literal::Dtype(dtype) => SCALAR_TYPES
            .iter()
            .find(|(_, _, known)| known == dtype)
            .map_or_else(|| format!("{dtype:?}"), |(_, long, _)| (*long).to_owned()),
        Literal::MemoryFormat(format) => MEMORY_FORMATS
            .iter()
            .find(|(_, known)| known == format)
            .map_or_else(|| format!("{format:?}"), |(name, _)| (*name).to_owned()),
        Literal::Device(text) | Literal::Layout(text) | Literal::Other(text) => text.clone(),
    }
}
