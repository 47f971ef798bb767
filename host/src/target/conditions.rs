//! What a machine was doing while a program ran there, as the runner tells it.
//!
//! A system may keep any of this to itself; then the field is empty, and `unreadable` names it.

use serde::Deserialize;

/// The conditions of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// wall time of the untraced runs, warm-up included, ns
    pub elapsed_ns: u64,
    /// processors of the machine
    pub processors: u64,
    /// processor time of this process in that time, ns
    pub own_cpu_ns: u64,
    /// how often the scheduler took a processor away from this process
    pub involuntary_switches: u64,
    /// processor time that the whole machine worked in that time, this process included, ns
    pub machine_busy_ns: Option<u64>,
    /// processor time that a hypervisor gave to other machines, ns
    pub stolen_ns: Option<u64>,
    /// before the first run
    pub before: Reading,
    /// after the last one
    pub after: Reading,
    /// what the system does not tell: `load`, `processor time`, `frequency`, `governor`, `temperature`
    pub unreadable: Vec<String>,
}

/// One look at a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reading {
    /// load average of the last minute, in hundredths
    pub load_hundredths: Option<u64>,
    /// frequency of each processor, kHz
    pub frequencies_khz: Vec<i64>,
    /// the most that each processor may have at present, kHz
    pub limits_khz: Vec<i64>,
    /// frequency governors in use
    pub governors: Vec<String>,
    /// thermal zones, thousandths of a degree Celsius
    pub temperatures: Vec<Sensor>,
    /// cooling devices; 0 is no cooling
    pub cooling: Vec<Sensor>,
}

/// A sensor or a cooling device with its figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Sensor {
    /// as the system calls it
    #[serde(rename = "type")]
    pub kind: String,
    /// in its unit
    pub value: i64,
}

/// Temperatures outside of this are of sensors that are not connected, in thousandths of a degree.
const PLAUSIBLE: std::ops::RangeInclusive<i64> = 1_000..=150_000;

impl Reading {
    /// The hottest thermal zone, °C.
    pub fn hottest(&self) -> Option<f64> {
        let plausible = self.temperatures.iter().map(|zone| zone.value).filter(|value| PLAUSIBLE.contains(value));
        #[expect(clippy::cast_precision_loss, reason = "thousandths of a few hundred degrees")]
        plausible.max().map(|value| value as f64 / 1000.0)
    }

    /// The fastest processor, MHz.
    pub fn fastest_mhz(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "kilohertz of a processor")]
        self.frequencies_khz.iter().max().filter(|khz| **khz > 0).map(|khz| *khz as f64 / 1000.0)
    }

    /// How strongly the system cools by slowing its processors down; 0 is not at all.
    pub fn processor_cooling(&self) -> i64 {
        let slows_processors = |device: &&Sensor| {
            let kind = device.kind.to_ascii_lowercase();
            kind.contains("cpu") || kind.contains("processor")
        };
        self.cooling.iter().filter(slows_processors).map(|device| device.value).max().unwrap_or(0).max(0)
    }

    /// Whether the system slows its processors down more than it did at a calmer moment: it cools by that, or
    /// allows less than it did then.
    pub fn throttled(&self, calm: &Self) -> bool {
        let lower_limit = self.limits_khz.iter().zip(&calm.limits_khz).any(|(now, then)| now < then);
        lower_limit || self.processor_cooling() > calm.processor_cooling()
    }
}

impl Conditions {
    /// Part of all processors' time that other work took, from 0 to 1.
    pub fn others_share(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a few minutes")]
        let share = |part: u64| part as f64 / (self.elapsed_ns.max(1) as f64 * self.processors.max(1) as f64);
        let others = self.machine_busy_ns?.saturating_sub(self.own_cpu_ns) + self.stolen_ns.unwrap_or(0);
        Some(share(others).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensor(kind: &str, value: i64) -> Sensor {
        Sensor { kind: kind.to_owned(), value }
    }

    #[test]
    fn the_share_of_others_leaves_this_process_out() {
        let conditions = Conditions {
            elapsed_ns: 1_000,
            processors: 4,
            own_cpu_ns: 1_000,
            machine_busy_ns: Some(2_500),
            stolen_ns: Some(500),
            ..Conditions::default()
        };
        assert_eq!(conditions.others_share(), Some(0.5));
        assert_eq!(Conditions { machine_busy_ns: None, ..conditions.clone() }.others_share(), None);
        let coarse = Conditions { machine_busy_ns: Some(0), stolen_ns: None, ..conditions };
        assert_eq!(coarse.others_share(), Some(0.0), "ticks of the machine are coarser than this process's time");
    }

    #[test]
    fn throttling_is_seen_against_a_calm_reading() {
        let calm = Reading {
            limits_khz: vec![1_800_000, 2_400_000],
            cooling: vec![sensor("thermal-cpufreq-0", 0), sensor("Fan", 3)],
            ..Reading::default()
        };
        assert!(!calm.throttled(&calm));
        let capped = Reading { limits_khz: vec![1_800_000, 1_600_000], ..calm.clone() };
        assert!(capped.throttled(&calm) && !calm.throttled(&capped));
        let cooled = Reading { cooling: vec![sensor("thermal-cpufreq-0", 2)], ..calm.clone() };
        assert!(cooled.throttled(&calm));
        let fan = Reading { cooling: vec![sensor("thermal-cpufreq-0", 0), sensor("Fan", 9)], ..calm.clone() };
        assert!(!fan.throttled(&calm), "a fan slows nothing down");
        assert!(!Reading::default().throttled(&calm), "what is not told is not seen");
    }

    #[test]
    fn sensors_that_are_not_connected_are_left_out() {
        let reading = Reading {
            temperatures: vec![sensor("cpu", 41_500), sensor("modem", -273_000), sensor("battery", 999_999)],
            frequencies_khz: vec![600_000, 2_400_000],
            ..Reading::default()
        };
        assert_eq!((reading.hottest(), reading.fastest_mhz()), (Some(41.5), Some(2400.0)));
        assert_eq!((Reading::default().hottest(), Reading::default().fastest_mhz()), (None, None));
    }
}
