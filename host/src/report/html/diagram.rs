//! Places the boxes and arrows of a small graph, top to bottom, for an SVG.
//!
//! Layers follow the longest path; an arrow that skips layers gets a narrow slot in each, so that it
//! passes beside boxes; slots are ordered by the middle of what leads to them.

use std::collections::HashMap;

use serde::Serialize;

use crate::report::layout;
use crate::report::model::{DiagramNode, NodeRole, Placement, Subgraph};
use crate::report::wording;

/// Bounds of the width of boxes, which all have the same.
const BOX_WIDTH: (f64, f64) = (140.0, 244.0);
const LINE: f64 = 15.0;
const PADDING: f64 = 7.0;
const SLOT_WIDTH: f64 = 14.0;
const GAP_X: f64 = 18.0;
const GAP_Y: f64 = 26.0;
const MARGIN: f64 = 8.0;

/// Letters that fit into a box at the sizes of the style sheet.
const OP_LETTERS: usize = 29;
const DETAIL_LETTERS: usize = 33;

/// More boxes than this are listed, not drawn.
const DRAWN: usize = 60;

/// A drawing, in the units of its view box.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Drawing {
    pub(super) width: f64,
    pub(super) height: f64,
    /// narrower than this its text cannot be read
    pub(super) least: f64,
    pub(super) boxes: Vec<Placed>,
    /// path data of arrows, each ending above its box
    pub(super) arrows: Vec<String>,
    /// what it shows, in words, for those who do not see it
    pub(super) words: String,
    /// too large to draw: only the words are there
    pub(super) listed: bool,
}

/// A box.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Placed {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// role, for the style sheet
    pub(super) role: &'static str,
    pub(super) lines: Vec<Line>,
    /// everything about the node
    pub(super) title: String,
}

/// A line of text in a box.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    /// `tag`, `op` or `detail`, for the style sheet
    pub(super) class: &'static str,
    /// base line
    pub(super) y: f64,
    pub(super) text: String,
}

/// A place in a layer: a box or an arrow passing by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Node(usize),
    Passing(usize),
}

impl Slot {
    fn width(self, of_box: f64) -> f64 {
        match self {
            Self::Node(_) => of_box,
            Self::Passing(_) => SLOT_WIDTH,
        }
    }
}

/// Draws `graph`. Arrows between unknown nodes are left out.
pub(super) fn draw(graph: &Subgraph) -> Drawing {
    let nodes = &graph.nodes;
    let words = words(graph);
    if nodes.len() > DRAWN {
        return Drawing { words, listed: true, ..Drawing::default() };
    }
    let index: HashMap<&str, usize> = nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
    let mut edges: Vec<(usize, usize)> = graph
        .edges
        .iter()
        .filter_map(|edge| Some((*index.get(edge.from.as_str())?, *index.get(edge.to.as_str())?)))
        .filter(|(from, to)| from != to)
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let layer_of = layers(nodes, &edges);
    let count = layer_of.iter().max().map_or(0, |last| last + 1);
    let mut rows: Vec<Vec<Slot>> = vec![Vec::new(); count];
    for (node, layer) in layer_of.iter().enumerate() {
        if let Some(row) = rows.get_mut(*layer) {
            row.push(Slot::Node(node));
        }
    }
    for (number, (from, to)) in edges.iter().enumerate() {
        let (Some(start), Some(end)) = (layer_of.get(*from), layer_of.get(*to)) else { continue };
        for row in rows.iter_mut().take(*end).skip(start + 1) {
            row.push(Slot::Passing(number));
        }
    }
    order(&mut rows, &edges);
    place(nodes, &edges, &rows, words)
}

/// The layer of each node: one below the lowest of what leads to it. Sources sit right above their first
/// user. A circle, which a graph of calls cannot have, ends the search instead of the program.
fn layers(nodes: &[DiagramNode], edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layer = vec![0_usize; nodes.len()];
    for _ in 0..nodes.len() {
        let mut changed = false;
        for (from, to) in edges {
            let wanted = layer.get(*from).map_or(0, |above| above + 1);
            if let Some(below) = layer.get_mut(*to).filter(|below| **below < wanted && wanted < nodes.len()) {
                *below = wanted;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    for node in 0..nodes.len() {
        if edges.iter().any(|(_, to)| *to == node) {
            continue;
        }
        let first_use = edges.iter().filter(|(from, _)| *from == node).filter_map(|(_, to)| layer.get(*to)).min();
        if let Some(above) = first_use.map(|below| below.saturating_sub(1))
            && let Some(own) = layer.get_mut(node)
        {
            *own = above;
        }
    }
    layer
}

/// Orders each row by the mean position of what leads to its slots.
fn order(rows: &mut [Vec<Slot>], edges: &[(usize, usize)]) {
    let mut position: HashMap<usize, f64> = HashMap::new();
    let mut passing: HashMap<usize, f64> = HashMap::new();
    for row in rows.iter_mut() {
        let key = |slot: &Slot| -> f64 {
            match slot {
                Slot::Passing(edge) => passing
                    .get(edge)
                    .copied()
                    .or_else(|| edges.get(*edge).and_then(|(from, _)| position.get(from)).map(|at| at + 0.25))
                    .unwrap_or(0.0),
                Slot::Node(node) => {
                    let above: Vec<f64> = edges
                        .iter()
                        .enumerate()
                        .filter(|(_, (_, to))| to == node)
                        .filter_map(|(number, (from, _))| passing.get(&number).or_else(|| position.get(from)))
                        .copied()
                        .collect();
                    if above.is_empty() { f64::MAX } else { above.iter().sum::<f64>() / count(above.len()) }
                }
            }
        };
        let mut keyed: Vec<(f64, Slot)> = row.iter().map(|slot| (key(slot), *slot)).collect();
        keyed.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        *row = keyed.into_iter().map(|(_, slot)| slot).collect();
        for (at, slot) in row.iter().enumerate() {
            match slot {
                Slot::Node(node) => position.insert(*node, count(at)),
                Slot::Passing(edge) => passing.insert(*edge, count(at)),
            };
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few dozen")]
fn count(number: usize) -> f64 {
    number as f64
}

fn is_end(node: &DiagramNode) -> bool {
    matches!(node.role, NodeRole::Input | NodeRole::Output | NodeRole::Constant)
}

fn place(nodes: &[DiagramNode], edges: &[(usize, usize)], rows: &[Vec<Slot>], words: String) -> Drawing {
    let mut boxes: Vec<Placed> = nodes.iter().map(boxed).collect();
    let of_box = boxes.iter().map(|placed| placed.width).fold(BOX_WIDTH.0, f64::max).min(BOX_WIDTH.1);
    for placed in &mut boxes {
        placed.width = of_box;
    }
    let row_width = |row: &[Slot]| {
        row.iter().map(|slot| slot.width(of_box)).sum::<f64>() + GAP_X * count(row.len().saturating_sub(1))
    };
    let inner = rows.iter().map(|row| row_width(row)).fold(0.0, f64::max);
    let width = inner + 2.0 * MARGIN;
    let mut passes: HashMap<usize, Vec<(f64, f64, f64)>> = HashMap::new();
    let mut y = MARGIN;
    for row in rows {
        let height_of = |slot: &Slot| match slot {
            Slot::Node(node) => boxes.get(*node).map_or(0.0, |placed| placed.height),
            Slot::Passing(_) => 0.0,
        };
        let tallest = row.iter().map(height_of).fold(0.0, f64::max);
        let mut x = MARGIN + (inner - row_width(row)) / 2.0;
        for slot in row {
            match slot {
                Slot::Node(at) => {
                    if let Some(placed) = boxes.get_mut(*at) {
                        placed.x = x;
                        placed.y = y + (tallest - placed.height) / 2.0;
                    }
                }
                Slot::Passing(edge) => passes.entry(*edge).or_default().push((x + SLOT_WIDTH / 2.0, y, y + tallest)),
            }
            x += slot.width(of_box) + GAP_X;
        }
        y += tallest + GAP_Y;
    }
    let arrows = edges
        .iter()
        .enumerate()
        .filter_map(|(number, (from, to))| {
            let (from, to) = (boxes.get(*from)?, boxes.get(*to)?);
            Some(arrow(from, to, passes.get(&number).map_or(&[], Vec::as_slice)))
        })
        .collect();
    let height = (y - GAP_Y + MARGIN).max(2.0 * MARGIN);
    Drawing { width, height, least: (width * 0.7).round(), boxes, arrows, words, listed: false }
}

fn arrow(from: &Placed, to: &Placed, passes: &[(f64, f64, f64)]) -> String {
    let (mut x, mut y) = (from.x + from.width / 2.0, from.y + from.height);
    let mut path = format!("M{x:.1} {y:.1}");
    let mut curve = |x1: &mut f64, y1: &mut f64, x2: f64, y2: f64| {
        let middle = f64::midpoint(*y1, y2);
        path.push_str(&format!("C{x1:.1} {middle:.1} {x2:.1} {middle:.1} {x2:.1} {y2:.1}"));
        (*x1, *y1) = (x2, y2);
    };
    for (across, top, bottom) in passes {
        curve(&mut x, &mut y, *across, *top);
        curve(&mut x, &mut y, *across, *bottom);
    }
    // The head of the arrow takes the last units.
    curve(&mut x, &mut y, to.x + to.width / 2.0, to.y - 5.0);
    path
}

/// A box with its text, at no place yet.
fn boxed(node: &DiagramNode) -> Placed {
    let place = match node.placement {
        Some(Placement::Delegated) => "in XNNPACK",
        Some(Placement::Fallback) => "portable kernel",
        None => "",
    };
    let role = wording::role(node.role);
    let tag = match (node.role, place) {
        (NodeRole::Input | NodeRole::Output, _) => String::new(),
        (NodeRole::Kept, place) => place.to_owned(),
        (_, "") => role.to_owned(),
        (_, place) => format!("{role}, {place}"),
    };
    let op = if is_end(node) { &node.op } else { wording::short_op(&node.op) };
    let told = [("tag", tag.as_str()), ("op", op), ("detail", &node.arguments), ("detail", &node.shape)];
    let mut lines = Vec::new();
    let mut y = PADDING;
    let mut width = 0.0_f64;
    for (class, text) in told.into_iter().filter(|(_, text)| !text.is_empty()) {
        y += LINE;
        let letters = if class == "op" { OP_LETTERS } else { DETAIL_LETTERS };
        let text = layout::cut(text, letters);
        width = width.max(count(layout::width(&text)) * if class == "op" { 7.9 } else { 6.7 } + 24.0);
        lines.push(Line { class, y: y - 3.5, text });
    }
    let title: Vec<&str> =
        [role, place, &node.op, &node.arguments, &node.shape].into_iter().filter(|text| !text.is_empty()).collect();
    Placed { x: 0.0, y: 0.0, width, height: y + PADDING, role, lines, title: title.join(", ") }
}

/// The nodes in order, as a sentence.
fn words(graph: &Subgraph) -> String {
    let names: Vec<String> = graph
        .nodes
        .iter()
        .map(|node| {
            let name = if is_end(node) { &node.op } else { wording::short_op(&node.op) };
            match node.role {
                NodeRole::Kept => name.to_owned(),
                role => format!("{name} ({})", wording::role(role)),
            }
        })
        .collect();
    names.join(", then ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::DiagramEdge;

    fn graph(nodes: &[&str], edges: &[(&str, &str)]) -> Subgraph {
        Subgraph {
            nodes: nodes
                .iter()
                .map(|id| DiagramNode {
                    id: (*id).to_owned(),
                    op: format!("aten.{id}.default"),
                    arguments: String::new(),
                    shape: String::new(),
                    role: NodeRole::Kept,
                    placement: None,
                })
                .collect(),
            edges: edges.iter().map(|(from, to)| DiagramEdge { from: (*from).into(), to: (*to).into() }).collect(),
        }
    }

    fn overlap(left: &Placed, right: &Placed) -> bool {
        left.x < right.x + right.width
            && right.x < left.x + left.width
            && left.y < right.y + right.height
            && right.y < left.y + left.height
    }

    #[test]
    fn a_residual_passes_beside_the_boxes_between() {
        let drawing = draw(&graph(&["a", "b", "c", "d"], &[("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]));
        let tops: Vec<f64> = drawing.boxes.iter().map(|placed| placed.y).collect();
        assert!(tops.is_sorted() && tops.iter().all(|top| tops.iter().filter(|other| *other == top).count() == 1));
        assert_eq!(drawing.arrows.len(), 4);
        assert!(
            drawing.arrows.iter().any(|path| path.matches('C').count() == 5),
            "two rows are passed: {:?}",
            drawing.arrows
        );
        assert!(drawing.width > BOX_WIDTH.0 + SLOT_WIDTH);
    }

    #[test]
    fn unknown_ends_circles_and_nothing_at_all_are_no_trouble() {
        let drawing = draw(&graph(&["a", "b"], &[("a", "b"), ("b", "a"), ("a", "x"), ("b", "b")]));
        assert_eq!(drawing.boxes.len(), 2);
        assert!(draw(&Subgraph::default()).boxes.is_empty());
        let many: Vec<String> = (0..=DRAWN).map(|number| format!("n{number}")).collect();
        assert!(draw(&graph(&many.iter().map(String::as_str).collect::<Vec<_>>(), &[])).listed);
    }

    proptest::proptest! {
        #[test]
        fn boxes_never_overlap_and_stay_inside(edges in proptest::collection::vec((0_usize..9, 0_usize..9), 0..16)) {
            let names: Vec<String> = (0..9).map(|number| format!("n{number}")).collect();
            let named: Vec<(&str, &str)> = edges
                .iter()
                .filter(|(from, to)| from < to)
                .map(|(from, to)| (names[*from].as_str(), names[*to].as_str()))
                .collect();
            let drawing = draw(&graph(&names.iter().map(String::as_str).collect::<Vec<_>>(), &named));
            for (number, one) in drawing.boxes.iter().enumerate() {
                proptest::prop_assert!(one.x >= 0.0 && one.x + one.width <= drawing.width);
                proptest::prop_assert!(one.y >= 0.0 && one.y + one.height <= drawing.height);
                for other in drawing.boxes.iter().skip(number + 1) {
                    proptest::prop_assert!(!overlap(one, other));
                }
            }
        }
    }
}
