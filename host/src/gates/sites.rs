//! What a patch changed, as pairs of values that must be equal and the nodes that make them.
//!
//! In: the graph before and after. Out: [`Site`]s: for each a list of old nodes, a list of new nodes, the
//! values both read (the frontier) and the pairs of values that the rest of the graph reads in place of
//! each other. What neither list holds is the same in both graphs, so two graphs whose sites are
//! equivalent compute the same.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::graph::{Argument, Graph, Node, NodeId, SymIntArgument, TensorMeta, ValueId};

/// One changed place.
#[derive(Clone, Debug, PartialEq)]
pub struct Site<'a> {
    /// nodes of the original, in its order
    pub old: Vec<&'a Node>,
    /// nodes of the patched graph, in its order
    pub new: Vec<&'a Node>,
    /// values that the nodes read and do not make, ordered by id
    pub frontier: Vec<ValueId>,
    /// `(before, after)`: values that must be equal
    pub pairs: Vec<(ValueId, ValueId)>,
}

/// Pairs that share nodes, with those nodes.
#[derive(Default)]
struct Group {
    old: HashSet<NodeId>,
    new: HashSet<NodeId>,
    pairs: Vec<(ValueId, ValueId)>,
}

/// Which nodes differ between the graphs.
struct Difference<'a> {
    old: &'a Graph,
    new: &'a Graph,
    /// nodes of the original that are gone or changed
    before: HashSet<NodeId>,
    /// nodes of the patched graph that are new or changed
    after: HashSet<NodeId>,
    pairs: BTreeSet<(ValueId, ValueId)>,
}

/// Finds the changed places of a patched graph.
pub fn find<'a>(old: &'a Graph, new: &'a Graph) -> Vec<Site<'a>> {
    let mut difference = Difference {
        old,
        new,
        before: old.nodes().iter().map(|node| node.id).filter(|id| new.node(*id).is_none()).collect(),
        after: new.nodes().iter().map(|node| node.id).filter(|id| old.node(*id).is_none()).collect(),
        pairs: BTreeSet::new(),
    };
    difference.compare_survivors();
    difference.compare_outputs();
    difference.add_same_names();
    difference.group()
}

impl Difference<'_> {
    /// Arguments of nodes that both graphs have. A replaced value is a pair; anything else makes the
    /// node itself part of the difference.
    fn compare_survivors(&mut self) {
        for after in self.new.nodes() {
            let Some(before) = self.old.node(after.id) else { continue };
            match self.replaced(before, after) {
                Some(pairs) => self.pairs.extend(pairs),
                None => {
                    self.before.insert(after.id);
                    self.after.insert(after.id);
                }
            }
        }
    }

    /// The values that `after` reads in place of those that `before` reads; `None` when the nodes differ
    /// in another way.
    fn replaced(&self, before: &Node, after: &Node) -> Option<Vec<(ValueId, ValueId)>> {
        if before.op != after.op || before.inputs.len() != after.inputs.len() {
            return None;
        }
        let mut pairs = Vec::new();
        for (a, b) in before.inputs.iter().zip(&after.inputs) {
            if a.arg == b.arg && a.name == b.name {
                continue;
            }
            let same_form = match (&a.arg, &b.arg) {
                (Argument::Value(_), Argument::Value(_)) => true,
                (Argument::Values(x), Argument::Values(y)) => x.len() == y.len(),
                (Argument::OptionalValues(x), Argument::OptionalValues(y)) => {
                    x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x.is_some() == y.is_some())
                }
                (Argument::SymInts(x), Argument::SymInts(y)) => {
                    x.len() == y.len()
                        && x.iter().zip(y).all(|(x, y)| {
                            x == y || matches!((x, y), (SymIntArgument::Value(_), SymIntArgument::Value(_)))
                        })
                }
                _ => false,
            };
            if !same_form || a.name != b.name {
                return None;
            }
            for (x, y) in a.arg.values().into_iter().zip(b.arg.values()) {
                if x != y && !self.is_replacement(x, y) {
                    return None;
                }
                if x != y {
                    pairs.push((x, y));
                }
            }
        }
        Some(pairs)
    }

    /// True when `y` stands wherever `x` stood, in the same form. Where only some readers changed, the
    /// reader may be meant to see another value.
    fn is_replacement(&self, x: ValueId, y: ValueId) -> bool {
        let form = |meta: &TensorMeta| (meta.dtype, meta.sizes.clone());
        let same = match (self.old.tensor(x), self.new.tensor(y)) {
            (Some(a), Some(b)) => form(a) == form(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        let still_read = self.new.uses(x).iter().any(|used| self.old.node(used.node).is_some());
        same && !still_read
    }

    fn compare_outputs(&mut self) {
        for (a, b) in self.old.outputs().iter().zip(self.new.outputs()) {
            if let (Some(a), Some(b)) = (a.value(), b.value())
                && a != b
            {
                self.pairs.insert((a, b));
            }
        }
    }

    /// Values that keep their id but are made by changed nodes.
    fn add_same_names(&mut self) {
        let mut read: BTreeSet<ValueId> = self.new.outputs().iter().filter_map(|output| output.value()).collect();
        for node in self.new.nodes().iter().filter(|node| !self.after.contains(&node.id)) {
            read.extend(node.input_values());
        }
        for value in read {
            let changed = |graph: &Graph, nodes: &HashSet<NodeId>| {
                graph.producer(value).is_some_and(|node| nodes.contains(&node.id))
            };
            if self.old.value(value).is_some() && (changed(self.old, &self.before) || changed(self.new, &self.after)) {
                self.pairs.insert((value, value));
            }
        }
    }
}

impl<'a> Difference<'a> {
    /// Changed nodes that a value is made of.
    fn slice(graph: &Graph, changed: &HashSet<NodeId>, value: ValueId) -> HashSet<NodeId> {
        let mut slice = HashSet::new();
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            if let Some(node) = graph.producer(value)
                && changed.contains(&node.id)
                && slice.insert(node.id)
            {
                open.extend(node.input_values());
            }
        }
        slice
    }

    /// Pairs whose nodes overlap form one site.
    fn group(self) -> Vec<Site<'a>> {
        let mut groups: Vec<Group> = Vec::new();
        let mut owner: HashMap<(bool, NodeId), usize> = HashMap::new();
        for &(before, after) in &self.pairs {
            let old = Self::slice(self.old, &self.before, before);
            let new = Self::slice(self.new, &self.after, after);
            let keys: Vec<(bool, NodeId)> =
                old.iter().map(|id| (false, *id)).chain(new.iter().map(|id| (true, *id))).collect();
            let touched: BTreeSet<usize> = keys.iter().filter_map(|key| owner.get(key)).copied().collect();
            let mut merged = Group { old, new, pairs: vec![(before, after)] };
            for index in touched {
                if let Some(group) = groups.get_mut(index) {
                    let Group { old, new, pairs } = std::mem::take(group);
                    merged.old.extend(old);
                    merged.new.extend(new);
                    merged.pairs.extend(pairs);
                }
            }
            let index = groups.len();
            owner.extend(merged.old.iter().map(|id| ((false, *id), index)));
            owner.extend(merged.new.iter().map(|id| ((true, *id), index)));
            groups.push(merged);
        }
        groups
            .into_iter()
            .filter(|group| !group.pairs.is_empty())
            .map(|mut group| {
                group.pairs.sort_unstable();
                self.site(&group.old, &group.new, group.pairs)
            })
            .collect()
    }

    fn site(&self, old: &HashSet<NodeId>, new: &HashSet<NodeId>, pairs: Vec<(ValueId, ValueId)>) -> Site<'a> {
        let nodes = |graph: &'a Graph, ids: &HashSet<NodeId>| -> Vec<&'a Node> {
            graph.nodes().iter().map(AsRef::as_ref).filter(|node| ids.contains(&node.id)).collect()
        };
        let mut site = Site { old: nodes(self.old, old), new: nodes(self.new, new), frontier: Vec::new(), pairs };
        site.frontier = frontier(&site);
        site
    }
}

/// Values that the nodes of a site read, or hand on, without making them.
fn frontier(site: &Site<'_>) -> Vec<ValueId> {
    let side = |nodes: &[&Node], ends: Vec<ValueId>| -> Vec<ValueId> {
        let made: HashSet<ValueId> = nodes.iter().flat_map(|node| node.output_values()).collect();
        let read = nodes.iter().flat_map(|node| node.input_values()).chain(ends);
        read.filter(|value| !made.contains(value)).collect()
    };
    let mut frontier: BTreeSet<ValueId> = BTreeSet::new();
    frontier.extend(side(&site.old, site.pairs.iter().map(|pair| pair.0).collect()));
    frontier.extend(side(&site.new, site.pairs.iter().map(|pair| pair.1).collect()));
    frontier.into_iter().collect()
}

/// Unchanged nodes that one frontier value is made of another by. A site whose sides read such values
/// differently is only equivalent when they belong together.
const LARGEST_PATH: usize = 64;

/// The site together with the unchanged nodes between its frontier values; `None` when there are none,
/// or too many.
pub fn with_paths<'a>(site: &Site<'a>, old: &'a Graph, new: &'a Graph) -> Option<Site<'a>> {
    let goal: HashSet<ValueId> = site.frontier.iter().copied().collect();
    let mut between: BTreeMap<NodeId, bool> = BTreeMap::new();
    let mut steps = 0_usize;
    for value in &site.frontier {
        if let Some(node) = old.producer(*value) {
            leads_from(old, node, &goal, &mut between, &mut steps);
        }
    }
    let path: HashSet<NodeId> = between.into_iter().filter(|(_, leads)| *leads).map(|(id, _)| id).collect();
    if path.is_empty() || path.len() > LARGEST_PATH {
        return None;
    }
    let same = |id: &NodeId| match (old.node(*id), new.node(*id)) {
        (Some(a), Some(b)) => a.op == b.op && a.inputs == b.inputs,
        _ => false,
    };
    if !path.iter().all(same) {
        return None;
    }
    let widen = |nodes: &[&'a Node], graph: &'a Graph| -> Vec<&'a Node> {
        let own: HashSet<NodeId> = nodes.iter().map(|node| node.id).collect();
        let keep = |node: &&Node| own.contains(&node.id) || path.contains(&node.id);
        graph.nodes().iter().map(AsRef::as_ref).filter(keep).collect()
    };
    let mut wide = Site {
        old: widen(&site.old, old),
        new: widen(&site.new, new),
        frontier: Vec::new(),
        pairs: site.pairs.clone(),
    };
    wide.frontier = frontier(&wide);
    Some(wide)
}

/// True when something the node is made of is a goal. Looks at a bounded number of nodes.
fn leads_from(
    graph: &Graph,
    start: &Node,
    goal: &HashSet<ValueId>,
    known: &mut BTreeMap<NodeId, bool>,
    steps: &mut usize,
) -> bool {
    // Ancestors first, without recursion: deep chains are common.
    let mut open = vec![(start.id, false)];
    while let Some((id, visited)) = open.pop() {
        let Some(node) = graph.node(id) else { continue };
        if visited {
            let leads = node.input_values().any(|value| {
                goal.contains(&value) || graph.producer(value).is_some_and(|node| known.get(&node.id) == Some(&true))
            });
            known.insert(id, leads);
            continue;
        }
        *steps += 1;
        if known.contains_key(&id) || *steps > 5000 {
            continue;
        }
        open.push((id, true));
        open.extend(node.input_values().filter_map(|value| graph.producer(value)).map(|node| (node.id, false)));
    }
    known.get(&start.id) == Some(&true)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::{Dim, GraphOutput, Literal, NodeInput, NodeOutput, ScalarType, Value, ValueKind, ValueSource};

    /// A node of a test graph: id (also of its output), operation, arguments by name.
    pub(in crate::gates) struct Line(pub u32, pub &'static str, pub Vec<(&'static str, Argument)>, pub Vec<i64>);

    pub(in crate::gates) fn value(id: u32) -> Argument {
        Argument::Value(ValueId(id))
    }

    pub(in crate::gates) fn ints(list: &[i64]) -> Argument {
        Argument::Literal(Literal::Ints(list.to_vec()))
    }

    pub(in crate::gates) fn int(n: i64) -> Argument {
        Argument::Literal(Literal::Int(n))
    }

    fn meta(sizes: &[i64]) -> TensorMeta {
        TensorMeta {
            dtype: ScalarType::Float32,
            sizes: sizes.iter().map(|&n| Dim::Fixed(n)).collect(),
            strides: sizes.iter().map(|_| Dim::Fixed(1)).collect(),
            storage_offset: Dim::Fixed(0),
            device: "cpu".to_owned(),
            layout: 7,
            requires_grad: false,
        }
    }

    /// A graph of singles: inputs with their sizes, nodes, output.
    pub(in crate::gates) fn graph(inputs: &[(u32, Vec<i64>)], lines: Vec<Line>, outputs: &[u32]) -> Graph {
        let mut values = HashMap::new();
        let mut add = |id: u32, sizes: &[i64], source: ValueSource| {
            let value = Value { id: ValueId(id), name: format!("v{id}"), kind: ValueKind::Tensor(meta(sizes)), source };
            values.insert(ValueId(id), Arc::new(value));
        };
        for (id, sizes) in inputs {
            add(*id, sizes, ValueSource::UserInput);
        }
        let mut nodes = Vec::new();
        for Line(id, op, args, sizes) in lines {
            add(id, &sizes, ValueSource::Node { node: NodeId(id), output: 0 });
            let inputs =
                args.into_iter().map(|(name, arg)| NodeInput { name: name.to_owned(), arg, keyword: false }).collect();
            nodes.push(Arc::new(Node {
                id: NodeId(id),
                name: format!("n{id}"),
                op: op.to_owned(),
                inputs,
                outputs: vec![NodeOutput::Value(ValueId(id))],
                metadata: Arc::default(),
                extra: Arc::default(),
            }));
        }
        Graph::new(
            nodes,
            values,
            inputs.iter().map(|(id, _)| ValueId(*id)).collect(),
            outputs.iter().map(|id| GraphOutput::User(ValueId(*id))).collect(),
        )
    }

    fn relu(id: u32, of: u32) -> Line {
        Line(id, "aten.relu.default", vec![("self", value(of))], vec![2])
    }

    fn ids(nodes: &[&Node]) -> Vec<u32> {
        nodes.iter().map(|node| node.id.0).collect()
    }

    fn alias(id: u32, of: u32) -> Line {
        Line(id, "aten.alias.default", vec![("self", value(of))], vec![2])
    }

    #[test]
    fn a_removed_node_is_a_site_whose_new_side_is_empty() {
        let old = graph(&[(0, vec![2])], vec![alias(1, 0), relu(2, 1)], &[2]);
        let new = graph(&[(0, vec![2])], vec![relu(2, 0)], &[2]);
        let sites = find(&old, &new);
        assert_eq!(sites.len(), 1);
        assert_eq!((ids(&sites[0].old), ids(&sites[0].new)), (vec![1], vec![]));
        assert_eq!(sites[0].frontier, [ValueId(0)]);
        assert_eq!(sites[0].pairs, [(ValueId(1), ValueId(0))]);
    }

    #[test]
    fn separate_places_are_separate_sites_and_overlapping_ones_are_one() {
        let old = graph(&[(0, vec![2])], vec![alias(1, 0), relu(2, 1), alias(3, 2), relu(4, 3)], &[4]);
        let new = graph(&[(0, vec![2])], vec![relu(2, 0), relu(4, 2)], &[4]);
        assert_eq!(find(&old, &new).len(), 2);
        let old = graph(&[(0, vec![2])], vec![alias(1, 0), relu(2, 1), relu(3, 1)], &[2, 3, 1]);
        let new = graph(&[(0, vec![2])], vec![alias(5, 0), relu(2, 5), relu(3, 5)], &[2, 3, 5]);
        let sites = find(&old, &new);
        assert_eq!(sites.len(), 1);
        assert_eq!(sites[0].pairs, [(ValueId(1), ValueId(5))]);
    }

    #[test]
    fn a_node_with_another_argument_is_compared_by_its_output() {
        let pool = |id, of, padding: &[i64]| {
            let args = vec![("self", value(of)), ("padding", ints(padding))];
            Line(id, "aten.avg_pool2d.default", args, vec![2])
        };
        let old = graph(&[(0, vec![2])], vec![pool(1, 0, &[1]), relu(2, 1)], &[2]);
        let new = graph(&[(0, vec![2])], vec![alias(9, 0), pool(1, 9, &[0]), relu(2, 1)], &[2]);
        let sites = find(&old, &new);
        assert_eq!(sites.len(), 1);
        assert_eq!((ids(&sites[0].old), ids(&sites[0].new)), (vec![1], vec![9, 1]));
        assert_eq!(sites[0].pairs, [(ValueId(1), ValueId(1))]);
    }

    #[test]
    fn a_value_that_other_nodes_still_read_is_no_replacement() {
        let old = graph(&[(0, vec![2])], vec![relu(1, 0), relu(2, 0)], &[1, 2]);
        let new = graph(&[(0, vec![2])], vec![alias(9, 0), relu(1, 9), relu(2, 0)], &[1, 2]);
        let sites = find(&old, &new);
        assert_eq!(sites[0].pairs, [(ValueId(1), ValueId(1))]);
        assert_eq!((ids(&sites[0].old), ids(&sites[0].new)), (vec![1], vec![9, 1]));
    }

    #[test]
    fn equal_graphs_have_no_sites() {
        let old = graph(&[(0, vec![2])], vec![relu(1, 0)], &[1]);
        assert_eq!(find(&old, &old), []);
    }

    #[test]
    fn frontier_values_that_belong_together_are_joined_by_their_path() {
        let old = graph(&[(0, vec![2])], vec![relu(1, 0), alias(2, 0), relu(3, 2), relu(4, 3)], &[1, 4]);
        let new = graph(&[(0, vec![2])], vec![relu(1, 0), relu(4, 1)], &[1, 4]);
        let sites = find(&old, &new);
        assert_eq!(sites[0].frontier, [ValueId(0), ValueId(1)]);
        let wide = with_paths(&sites[0], &old, &new).expect("v1 is made of v0");
        assert_eq!(wide.frontier, [ValueId(0)]);
        assert_eq!(ids(&wide.new), [1]);
    }
}
