//! Do the outputs react to the inputs at all?
//!
//! With random weights many models give nearly the same output whatever goes in, so that any repair
//! would pass a comparison of outputs. The probe looks at how far the original's eager outputs move
//! between different inputs, in relation to their scale and to what rounding explains. An insensitive
//! output proves nothing in the gates that compare whole programs; there the proof at the repaired place
//! itself has to carry.

use super::Fact;
use super::reference::{ROUNDING_FACTOR, Reference};
use super::tolerance::compare;

/// An output must move by this share of its scale to count as sensitive: twenty times what the fidelity
/// gate takes for an error.
pub const SHARE_OF_SCALE: f64 = 1e-3;

/// An output must move by this many times what rounding explains.
pub const TIMES_ROUNDING: f64 = 64.0;

/// What the probe says about an output or a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// a wrong repair would show
    Sensitive,
    /// a wrong repair could pass unseen
    Insensitive,
}

/// One output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSensitivity {
    /// name of the output
    pub name: String,
    /// largest change between the user's inputs and another ordinary set; for discrete types the share
    /// of elements that change
    pub reaction: f64,
    /// distance of the elements from their mean over all ordinary sets
    pub spread: f64,
    /// largest absolute element
    pub magnitude: f64,
    /// largest change under rounding-sized changes of the inputs
    pub rounding: f64,
    /// conclusion
    pub verdict: Verdict,
}

/// The probe's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitivity {
    /// one entry an output
    pub outputs: Vec<OutputSensitivity>,
    /// sensitive only if every output is
    pub verdict: Verdict,
}

impl Sensitivity {
    /// True when comparisons of whole outputs cannot carry a proof alone.
    pub fn is_insensitive(&self) -> bool {
        self.verdict == Verdict::Insensitive
    }

    /// The numbers as evidence.
    pub fn facts(&self) -> Vec<Fact> {
        self.outputs
            .iter()
            .map(|output| Fact {
                name: format!("reaction of `{}` to its inputs", output.name),
                value: format!(
                    "{}: changes by {:.1e}; spread {:.1e}, magnitude {:.1e}, rounding {:.1e}",
                    match output.verdict {
                        Verdict::Sensitive => "sensitive",
                        Verdict::Insensitive => "insensitive",
                    },
                    output.reaction,
                    output.spread,
                    output.magnitude,
                    output.rounding
                ),
                source: super::EAGER.to_owned(),
            })
            .collect()
    }

    /// One line for a person.
    pub fn summary(&self) -> String {
        let deaf: Vec<&str> = self
            .outputs
            .iter()
            .filter(|output| output.verdict == Verdict::Insensitive)
            .map(|output| output.name.as_str())
            .collect();
        match (deaf.as_slice(), self.outputs.len()) {
            ([], 0) => "The program has no outputs".to_owned(),
            ([], _) => "Every output reacts to its inputs".to_owned(),
            (names, _) => format!(
                "{} hardly reacts to the inputs, so comparing outputs proves little",
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// Probes the outputs of the reference.
pub fn probe(reference: &Reference) -> Sensitivity {
    let outputs: Vec<OutputSensitivity> = reference
        .names()
        .iter()
        .enumerate()
        .map(|(output, name)| {
            let mut ordinary = reference
                .sets()
                .iter()
                .zip(reference.runs())
                .filter(|(set, _)| set.kind.is_ordinary())
                .filter_map(|(_, run)| run.outputs.get(output));
            let scale = reference.pooled(output);
            let yardstick = reference.yardstick(0, output);
            let (mut reaction, mut share, mut discrete) = (0.0_f64, 0.0_f64, false);
            if let Some(first) = ordinary.next() {
                discrete = !first.dtype.is_floating();
                for other in ordinary {
                    let comparison = compare(first, other, scale.spread);
                    reaction = reaction.max(comparison.error);
                    share = share.max(comparison.differing_share());
                }
            }
            let (reaction, rounding, needed) = if discrete {
                (share, yardstick.discrete_slack / ROUNDING_FACTOR, 0.0)
            } else {
                (reaction, yardstick.slack / ROUNDING_FACTOR, SHARE_OF_SCALE * scale.spread)
            };
            let sensitive = reaction > 0.0 && reaction >= needed && reaction >= TIMES_ROUNDING * rounding;
            OutputSensitivity {
                name: name.clone(),
                reaction,
                spread: scale.spread,
                magnitude: scale.magnitude,
                rounding,
                verdict: if sensitive { Verdict::Sensitive } else { Verdict::Insensitive },
            }
        })
        .collect();
    let sensitive = !outputs.is_empty() && outputs.iter().all(|output| output.verdict == Verdict::Sensitive);
    Sensitivity { outputs, verdict: if sensitive { Verdict::Sensitive } else { Verdict::Insensitive } }
}

#[cfg(test)]
mod tests {
    use super::super::inputs::{floats, input_sets};
    use super::super::reference::ProgramRun;
    use super::*;
    use crate::graph::ScalarType;
    use crate::tensor::Tensor;

    /// A program as a function of its single input.
    fn probed(program: impl Fn(&[f64]) -> Vec<f64>) -> Sensitivity {
        let user = floats(ScalarType::Float32, &[4], |i| [0.3, -1.0, 2.0, 0.5][i]);
        let inputs = input_sets(&[user], 5);
        let run = |tensors: &[Tensor]| {
            let values = program(&tensors[0].to_f64().expect("real"));
            let output = floats(ScalarType::Float32, &[values.len()], |i| values[i]);
            ProgramRun { outputs: vec![output], mutated_inputs: Vec::new(), kernels: Vec::new() }
        };
        let runs = inputs.sets.iter().map(|set| run(&set.tensors)).collect();
        let probes: Vec<_> = inputs.probes.iter().map(|probe| Some(run(&probe.tensors))).collect();
        probe(&Reference::new(inputs, Vec::new(), runs, &probes).expect("reference"))
    }

    #[test]
    fn an_output_that_moves_with_its_input_is_sensitive() {
        let sensitivity = probed(|x| vec![x[0] * 1e-9, x[1] * 1e-9]);
        assert!(!sensitivity.is_insensitive(), "{sensitivity:?}");
    }

    #[test]
    fn a_random_inception_is_insensitive_although_its_classes_spread() {
        let sensitivity = probed(|x| vec![0.022 + 3.7e-9 * x[0], -0.01, 0.004]);
        assert!(sensitivity.is_insensitive(), "{sensitivity:?}");
        assert!(sensitivity.summary().contains("`output 0` hardly reacts"), "{}", sensitivity.summary());
        assert!(sensitivity.facts()[0].value.starts_with("insensitive"));
    }

    #[test]
    fn constants_empty_outputs_and_nan_everywhere_are_insensitive() {
        assert!(probed(|_| vec![1.0]).is_insensitive());
        assert!(probed(|_| vec![]).is_insensitive());
        assert!(probed(|_| vec![f64::NAN]).is_insensitive());
        assert!(probe(&Reference::default()).is_insensitive());
    }
}
