//! Inputs that bring a value inside a rewrite to the number at which its function bends.
//!
//! A rewrite can compare something else than what it reads, e.g. its input times a few factors. What such a value
//! is for one input tells which input would make it the number it is compared with, as long as the way there is
//! affine; permutations, views, slices and copies do not matter, because only the ends of the values are looked at.

use super::evaluate::{Fed, evaluated};
use super::{Site, Task};
use crate::graph::{Argument, Literal, Node, ValueId};
use crate::interpreter::{Environment, Item, Precision};

/// Parts of the names of operators whose result depends on which side of a number a value lies.
const BENDING: [&str; 14] = [
    "clamp",
    "minimum",
    "maximum",
    "hardtanh",
    "threshold",
    "where",
    "floor",
    "round",
    "remainder",
    "fmod",
    ".gt",
    ".lt",
    ".ge",
    ".le",
];
/// A tensor with at most so many different numbers is what others are compared with.
const FEW: usize = 4;

/// The operations at which a new form bends.
pub(super) fn bending<'a>(new: &[&'a Node]) -> Vec<&'a Node> {
    new.iter().filter(|node| BENDING.iter().any(|part| node.op.contains(part))).copied().collect()
}

/// Inputs at which operations of the new form bend, from what its values are when it is fed with `fed`. None when
/// it does not bend, or cannot be evaluated.
pub(super) fn inputs_at_bends(task: &Task<'_>, site: &Site<'_>, fed: &[(ValueId, Fed)]) -> Vec<f64> {
    let bending = bending(&site.new);
    // What an operation reads straight from the frontier is compared with numbers that are known without this.
    let inside: Vec<ValueId> = bending.iter().flat_map(|node| node.input_values()).collect();
    if inside.iter().all(|value| site.frontier.contains(value)) {
        return Vec::new();
    }
    let Ok(side) = evaluated(task, &site.new, fed, &inside, Precision::Torch) else { return Vec::new() };
    let reads: Vec<Ends> = fed
        .iter()
        .filter_map(|(_, item)| match item {
            Fed::Tensor(tensor) if tensor.dtype.is_floating() => Ends::of(&tensor.to_f64()?),
            _ => None,
        })
        .collect();
    let mut aimed = Vec::new();
    for node in bending {
        let values = compared(node, &side.values);
        let bounds: Vec<f64> = values.iter().filter_map(|value| value.few.clone()).flatten().collect();
        let bounds: Vec<f64> = bounds.into_iter().chain(literals(node)).collect();
        for ends in values.iter().filter(|value| value.few.is_none()).filter_map(|value| value.ends) {
            for read in &reads {
                aimed.extend(bounds.iter().flat_map(|bound| ends.inputs_for(*bound, read)));
            }
        }
    }
    aimed.retain(|number| number.is_finite());
    aimed
}

/// A tensor that a bending operation reads.
struct Compared {
    ends: Option<Ends>,
    /// its different numbers, when there are few
    few: Option<Vec<f64>>,
}

fn compared(node: &Node, values: &Environment) -> Vec<Compared> {
    let tensors = node.input_values().filter_map(|value| match values.get(&value) {
        Some(Item::Tensor(array)) => array.to_tensor().to_f64(),
        _ => None,
    });
    let described = tensors.map(|content| {
        let mut few: Vec<f64> = Vec::new();
        for number in &content {
            if !few.iter().any(|known| known.to_bits() == number.to_bits()) {
                few.push(*number);
            }
            if few.len() > FEW {
                break;
            }
        }
        Compared { ends: Ends::of(&content), few: (few.len() <= FEW).then_some(few) }
    });
    described.collect()
}

#[expect(clippy::cast_precision_loss, reason = "an input, not a result")]
fn literals(node: &Node) -> Vec<f64> {
    let numbers = node.inputs.iter().filter_map(|input| match &input.arg {
        Argument::Literal(Literal::Float(number)) => Some(*number),
        Argument::Literal(Literal::Int(number)) => Some(*number as f64),
        _ => None,
    });
    numbers.collect()
}

/// Smallest and largest number of a tensor.
#[derive(Clone, Copy)]
struct Ends {
    least: f64,
    most: f64,
}

impl Ends {
    /// `None` for tensors without two different finite numbers, from which nothing follows.
    fn of(content: &[f64]) -> Option<Self> {
        let finite = || content.iter().copied().filter(|number| number.is_finite());
        let (least, most) = (finite().reduce(f64::min)?, finite().reduce(f64::max)?);
        (most > least).then_some(Self { least, most })
    }

    /// What may have to be read for one of these values to be `bound`: by the line through both ends and by the
    /// factor at either end, each for larger inputs that make larger values and for those that make smaller ones.
    /// A factor is what is left when something on the way cuts one end off.
    fn inputs_for(self, bound: f64, read: &Self) -> [f64; 6] {
        let share = (bound - self.least) / (self.most - self.least);
        let width = read.most - read.least;
        [
            bound * (read.most / self.most),
            bound * (read.least / self.least),
            bound * (read.least / self.most),
            bound * (read.most / self.least),
            read.least + share * width,
            read.most - share * width,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_for_a_bound_follows_from_the_ends() {
        let read = Ends { least: -2.0, most: 6.0 };
        let factor = Ends { least: -2.0 * 16384.0, most: 6.0 * 16384.0 };
        assert!(factor.inputs_for(53.0 * 16384.0, &read).contains(&53.0));
        let negated = Ends { least: -12.0, most: 4.0 };
        assert!(negated.inputs_for(100.0, &read).contains(&-50.0));
        let cut_off = Ends { least: 0.0, most: 24.0 };
        assert!(cut_off.inputs_for(212.0, &read).contains(&53.0));
        let moved = Ends { least: 98.0, most: 106.0 };
        assert!(moved.inputs_for(153.0, &read).iter().any(|input| (input - 53.0).abs() < 1e-9));
        assert!(Ends::of(&[3.0, f64::NAN, 3.0]).is_none());
    }
}
