//! Numbers that carry where they came from.
//!
//! A figure that a user sees is [`Measured`] on a target or [`Projected`] from something; there is no
//! way to print one without its label.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A closed interval with the confidence it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// lower end
    #[serde(with = "figure")]
    #[schemars(with = "figure::Figure")]
    pub low: f64,
    /// upper end
    #[serde(with = "figure")]
    #[schemars(with = "figure::Figure")]
    pub high: f64,
    /// coverage aimed at, e.g. 0.99
    pub confidence: f64,
}

impl Interval {
    /// Interval of the median of independent samples from their order: no assumption on the shape of
    /// the distribution. Few samples cannot give any coverage: `confidence` is then what they can give.
    /// `None` without a finite sample.
    pub fn of_median(samples: &[f64], confidence: f64) -> Option<Self> {
        let sorted = sorted(samples);
        let (first, last) = (sorted.first()?, sorted.last()?);
        let count = sorted.len();
        // Coverage of [k-th smallest, k-th largest] is 1 - 2 P(binomial(count, 1/2) < k).
        let mut best = Self { low: *first, high: *last, confidence: 0.0 };
        let mut tail = 0.0;
        // As a logarithm: half to the power of a thousand samples is no number any more.
        #[expect(clippy::cast_precision_loss, reason = "sample counts are small")]
        let mut term = count as f64 * 0.5_f64.ln();
        for (below, (low, high)) in sorted.iter().zip(sorted.iter().rev()).take(count.div_ceil(2)).enumerate() {
            tail += term.exp();
            let coverage = 1.0 - 2.0 * tail;
            if below > 0 && coverage < confidence {
                break;
            }
            best = Self { low: *low, high: *high, confidence: coverage.max(0.0) };
            #[expect(clippy::cast_precision_loss, reason = "sample counts are small")]
            let step = (count - below) as f64 / (below + 1) as f64;
            term += step.ln();
        }
        Some(best)
    }
}

/// Median of the finite samples; `None` when there is none.
pub fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    sorted.get(middle.wrapping_sub(1)).map(|lower| lower + (upper - lower) / 2.0)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// What a target is, as far as a number's meaning depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetLabel {
    /// `local`, `qemu`, `adb`, `ssh`
    pub kind: String,
    /// what a person calls it, e.g. `this host (x86-64, not Arm)`
    pub name: String,
    /// `x86_64`, `aarch64`
    pub architecture: String,
    /// a physical Arm CPU: only then is a latency evidence for Arm
    pub physical_arm: bool,
}

impl TargetLabel {
    /// True when times measured there are times of a real CPU: an emulated one, behind whatever link, says nothing
    /// about speed.
    pub fn measures_speed(&self) -> bool {
        self.kind != "qemu" && (self.physical_arm || self.architecture != "aarch64")
    }
}

/// JSON has no infinities: a figure that is not finite is written as `"Infinity"`, `"-Infinity"` or `"NaN"`.
mod figure {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Only names the schema of a figure.
    pub struct Figure;

    impl JsonSchema for Figure {
        fn schema_name() -> Cow<'static, str> {
            "Figure".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({
                "description": "a number; text where it is not finite",
                "anyOf": [{ "type": "number" }, { "enum": ["Infinity", "-Infinity", "NaN"] }]
            })
        }
    }

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            value if value.is_finite() => value.serialize(serializer),
            value if value.is_nan() => "NaN".serialize(serializer),
            value if *value > 0.0 => "Infinity".serialize(serializer),
            _ => "-Infinity".serialize(serializer),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written<'a> {
            Number(f64),
            Text(Cow<'a, str>),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(value) => Ok(value),
            Written::Text(text) => match text.as_ref() {
                "NaN" => Ok(f64::NAN),
                "Infinity" => Ok(f64::INFINITY),
                "-Infinity" => Ok(f64::NEG_INFINITY),
                other => Err(D::Error::invalid_value(Unexpected::Str(other), &"a number")),
            },
        }
    }
}

/// A measured figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// the figure
    #[serde(with = "figure")]
    #[schemars(with = "figure::Figure")]
    pub value: f64,
    /// unit: `ms`, `share`, `ratio`, `bytes`
    pub unit: String,
    /// where
    pub target: TargetLabel,
    /// how many samples are behind it
    pub samples: u64,
    /// uncertainty, where more than one sample allows one
    pub interval: Option<Interval>,
}

/// A figure computed from something else than a run of the thing itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Projected {
    /// lowest and highest value the basis allows
    #[serde(with = "figure")]
    #[schemars(with = "figure::Figure")]
    pub low: f64,
    /// see `low`
    #[serde(with = "figure")]
    #[schemars(with = "figure::Figure")]
    pub high: f64,
    /// unit, as in [`Measured`]
    pub unit: String,
    /// what it was computed from
    pub basis: String,
}

/// A labelled number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "evidence", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Evidence {
    /// from a run on a target
    Measured(Measured),
    /// from arithmetic
    Projected(Projected),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_its_interval_however_many_samples_there_are() {
        for count in [1_u32, 2, 10, 60, 1_000, 1_074, 1_075, 1_416, 5_000, 20_001] {
            let samples: Vec<f64> = (0..count).map(f64::from).collect();
            let interval = Interval::of_median(&samples, 0.95).expect("samples");
            let median = median(&samples).expect("samples");
            assert!(interval.low <= median && median <= interval.high, "{count}: {interval:?}");
            if count >= 60 {
                assert!((0.95..0.98).contains(&interval.confidence), "{count}: {interval:?}");
                // Half the width of the interval of the median's rank: 1.96 times half the root of the count.
                let wide = (interval.high - interval.low) / f64::from(count).sqrt();
                assert!((1.8..2.4).contains(&wide), "{count}: {wide}");
            }
        }
    }

    #[test]
    fn a_figure_that_is_not_finite_survives_json() {
        for value in [1.5, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let interval = Interval { low: value, high: value, confidence: 0.99 };
            let json = serde_json::to_string(&interval).expect("writes");
            let back: Interval = serde_json::from_str(&json).expect("reads");
            assert!(back.low == value || (value.is_nan() && back.low.is_nan()), "{json}");
        }
        assert!(serde_json::from_str::<Interval>(r#"{"low":"1","high":2,"confidence":0.9}"#).is_err());
    }

    #[test]
    fn the_interval_of_a_median_claims_only_the_coverage_it_has() {
        assert_eq!(Interval::of_median(&[], 0.95), None);
        let one = Interval::of_median(&[4.0], 0.95).expect("one sample");
        assert_eq!((one.low, one.high, one.confidence), (4.0, 4.0, 0.0));
        let five = Interval::of_median(&[3.0, 1.0, 2.0, 5.0, 4.0], 0.95).expect("five samples");
        assert_eq!((five.low, five.high), (1.0, 5.0));
        assert!((five.confidence - 0.9375).abs() < 1e-12, "{five:?}");
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let ten = Interval::of_median(&ten, 0.95).expect("ten samples");
        // Binomial table: P(X <= 1) = 11/1024.
        assert_eq!((ten.low, ten.high), (2.0, 9.0));
        assert!((ten.confidence - (1.0 - 22.0 / 1024.0)).abs() < 1e-12, "{ten:?}");
    }

    #[test]
    fn a_median_ignores_what_is_no_number() {
        assert_eq!(median(&[f64::NAN, 1.0, 4.0, 2.0]), Some(2.0));
        assert_eq!(median(&[1.0, 4.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN]), None);
    }
}
