//! What the device was doing during a comparison, over all its blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Block;
use crate::evidence::median;
use crate::target::conditions::{Conditions, Reading};

/// Other work is told from this share of the processors' time on.
const NOTICED: f64 = 0.1;

/// What the device was doing. Figures that it does not tell are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceConditions {
    /// part of all processors' time that other work took, from 0 to 1: the median of the blocks
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_share: Option<f64>,
    /// the same in the worst block
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_share_most: Option<f64>,
    /// how often a second the scheduler took a processor away from the program: the median of the blocks
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches_per_second: Option<f64>,
    /// load average of the last minute before the first block
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_before: Option<f64>,
    /// the same after the last block
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_after: Option<f64>,
    /// hottest thermal zone before the first block, °C
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_before: Option<f64>,
    /// hottest thermal zone after any block, °C
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_most: Option<f64>,
    /// lowest frequency of the fastest processor after any block, MHz
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_least: Option<f64>,
    /// highest frequency of the fastest processor after any block, MHz
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_most: Option<f64>,
    /// frequency governors in use
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub governors: Vec<String>,
    /// blocks during which the device slowed its processors down
    #[serde(default)]
    pub throttled_blocks: u32,
    /// time spent waiting for the device to cool, seconds
    #[serde(default)]
    pub cool_down_seconds: f64,
    /// what the device does not tell
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

impl DeviceConditions {
    /// Over blocks in the order they were made; `None` when the runner tells nothing.
    pub(super) fn of(blocks: &[&Block], cool_down_seconds: f64) -> Option<Self> {
        let told: Vec<&Conditions> = blocks.iter().filter_map(|block| block.conditions.as_ref()).collect();
        let (first, last) = (told.first()?, told.last()?);
        let shares: Vec<f64> = told.iter().filter_map(|conditions| conditions.others_share()).collect();
        #[expect(clippy::cast_precision_loss, reason = "switches and nanoseconds of a few minutes")]
        let switches: Vec<f64> = told
            .iter()
            .map(|conditions| conditions.involuntary_switches as f64 / (conditions.elapsed_ns.max(1) as f64 / 1e9))
            .collect();
        let frequencies: Vec<f64> = told.iter().filter_map(|conditions| conditions.after.fastest_mhz()).collect();
        let calm = calmest(told.iter().flat_map(|conditions| [&conditions.before, &conditions.after]));
        let throttled = told.iter().filter(|conditions| calm.is_some_and(|calm| conditions.after.throttled(calm)));
        #[expect(clippy::cast_precision_loss, reason = "hundredths of a load")]
        let load = |reading: &Reading| reading.load_hundredths.map(|hundredths| hundredths as f64 / 100.0);
        Some(Self {
            others_share: median(&shares),
            others_share_most: shares.iter().copied().reduce(f64::max),
            switches_per_second: median(&switches),
            load_before: load(&first.before),
            load_after: load(&last.after),
            temperature_before: first.before.hottest(),
            temperature_most: told.iter().filter_map(|conditions| conditions.after.hottest()).reduce(f64::max),
            frequency_least: frequencies.iter().copied().reduce(f64::min),
            frequency_most: frequencies.iter().copied().reduce(f64::max),
            governors: first.before.governors.clone(),
            throttled_blocks: u32::try_from(throttled.count()).unwrap_or(u32::MAX),
            cool_down_seconds,
            unreadable: last.unreadable.clone(),
        })
    }

    /// What a reader should know about the device, as phrases.
    pub(super) fn unrest(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let (Some(usual), Some(most)) = (self.others_share, self.others_share_most)
            && usual >= NOTICED
        {
            words.push(format!(
                "other work took {:.0} % of the processors' time, up to {:.0} % in a block",
                usual * 100.0,
                most * 100.0
            ));
        }
        if self.throttled_blocks > 0 {
            let blocks = if self.throttled_blocks == 1 { "block" } else { "blocks" };
            words.push(format!("the device slowed its processors down in {} {blocks}", self.throttled_blocks));
        }
        if self.cool_down_seconds > 0.0 {
            words.push(format!("it was given {:.0} s to cool", self.cool_down_seconds));
        }
        words
    }

    /// Name and value of every figure.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let (Some(usual), Some(most)) = (self.others_share, self.others_share_most) {
            let share = format!("{:.0} % of the processors' time, at most {:.0} %", usual * 100.0, most * 100.0);
            facts.push(("other work on the device", share));
        }
        if let Some(switches) = self.switches_per_second {
            facts.push(("processor taken away", format!("{switches:.0} times a second")));
        }
        if let (Some(before), Some(after)) = (self.load_before, self.load_after) {
            facts.push(("load average", format!("{before:.2} → {after:.2}")));
        }
        if let (Some(before), Some(most)) = (self.temperature_before, self.temperature_most) {
            facts.push(("temperature", format!("{before:.0} °C at first, {most:.0} °C at most")));
        }
        if let (Some(least), Some(most)) = (self.frequency_least, self.frequency_most) {
            let governor = if self.governors.is_empty() {
                String::new()
            } else {
                format!(", governor {}", self.governors.join(", "))
            };
            facts.push(("processor frequency", format!("{least:.0} to {most:.0} MHz{governor}")));
        }
        if self.throttled_blocks > 0 || self.cool_down_seconds > 0.0 {
            let value = format!("{} blocks, {:.0} s of waiting to cool", self.throttled_blocks, self.cool_down_seconds);
            facts.push(("throttled", value));
        }
        if !self.unreadable.is_empty() {
            facts.push(("not told by the device", self.unreadable.join(", ")));
        }
        facts
    }
}

/// The reading with the highest limits and, among those, the least cooling.
pub(super) fn calmest<'a>(readings: impl Iterator<Item = &'a Reading>) -> Option<&'a Reading> {
    readings.min_by_key(|reading| (-reading.limits_khz.iter().sum::<i64>(), reading.processor_cooling()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::conditions::Sensor;

    fn block(cooling: i64, busy: u64) -> Block {
        let reading = Reading {
            load_hundredths: Some(150),
            cooling: vec![Sensor { kind: "cpufreq-cpu0".to_owned(), value: cooling }],
            temperatures: vec![Sensor { kind: "cpu".to_owned(), value: 40_000 + 10_000 * cooling }],
            frequencies_khz: vec![2_000_000 - 500_000 * cooling],
            governors: vec!["schedutil".to_owned()],
            ..Reading::default()
        };
        let conditions = Conditions {
            elapsed_ns: 1_000_000_000,
            processors: 2,
            own_cpu_ns: 1_000_000_000,
            involuntary_switches: 30,
            machine_busy_ns: Some(busy),
            before: reading.clone(),
            after: reading,
            unreadable: vec!["limits".to_owned()],
            ..Conditions::default()
        };
        Block { conditions: Some(conditions), ..Block::default() }
    }

    #[test]
    fn a_hot_and_busy_device_is_told() {
        let blocks = [block(0, 1_400_000_000), block(1, 1_400_000_000), block(0, 2_000_000_000)];
        let found = DeviceConditions::of(&blocks.iter().collect::<Vec<_>>(), 20.0).expect("told");
        assert_eq!((found.others_share, found.others_share_most), (Some(0.2), Some(0.5)));
        assert_eq!((found.throttled_blocks, found.temperature_most), (1, Some(50.0)));
        assert_eq!((found.frequency_least, found.frequency_most), (Some(1500.0), Some(2000.0)));
        assert_eq!((found.switches_per_second, found.load_before), (Some(30.0), Some(1.5)));
        assert_eq!(
            found.unrest(),
            [
                "other work took 20 % of the processors' time, up to 50 % in a block",
                "the device slowed its processors down in 1 block",
                "it was given 20 s to cool"
            ]
        );
        let facts = found.facts();
        assert!(
            facts.contains(&("processor frequency", "1500 to 2000 MHz, governor schedutil".to_owned())),
            "{facts:?}"
        );
        assert!(facts.contains(&("not told by the device", "limits".to_owned())), "{facts:?}");
    }

    #[test]
    fn a_silent_or_calm_device_gives_no_words() {
        assert_eq!(DeviceConditions::of(&[&Block::default()], 0.0), None);
        let calm = [block(0, 1_050_000_000)];
        let found = DeviceConditions::of(&calm.iter().collect::<Vec<_>>(), 0.0).expect("told");
        assert_eq!(found.unrest(), [""; 0]);
    }
}
