//! The gate's verdict in words, and its evidence as facts.

use super::conditions::DeviceConditions;
use super::{BenchmarkOutcome, BenchmarkPlan, Look, Side, Statistic, StopReason};
use crate::gates::Fact;

impl BenchmarkOutcome {
    /// One line a person can act on.
    pub(super) fn summary(&self, plan: &BenchmarkPlan) -> String {
        let Some(ratio) = self.ratio else {
            return format!(
                "Not measured: the time budget of {} s ended before the first round",
                plan.budget.as_secs()
            );
        };
        let what = match self.statistic {
            Statistic::Median => "",
            Statistic::FastestTenth => " (fastest tenth, as other work keeps the processors busy)",
        };
        let times =
            format!("{} → {}{what}", milliseconds(self.before.compared_ns), milliseconds(self.after.compared_ns));
        let interval = self.interval.map_or("too few pairs for an interval with two ends".to_owned(), |interval| {
            format!("{:.2} to {:.2} at {:.0} %", interval.low, interval.high, interval.confidence * 100.0)
        });
        let range = format!("{times}, ratio {ratio:.2} ({interval})");
        match self.stop {
            StopReason::Faster => format!("{ratio:.2} times as fast: {range}"),
            StopReason::NotFaster if self.interval.is_some_and(|interval| interval.high < 1.0) => {
                format!("Slower: {range}")
            }
            StopReason::NotFaster => format!("No gain of {:.2} or more: {range}", plan.min_gain),
            StopReason::Budget | StopReason::Pairs => {
                let end = if self.stop == StopReason::Budget {
                    format!("the time budget of {} s ended", plan.budget.as_secs())
                } else {
                    format!("{} pairs of blocks did not decide it", self.pairs())
                };
                let mut why = self.unrest();
                if self.looks.last().is_some_and(Look::is_clear) {
                    why.insert(0, self.disagreement());
                }
                let why = if why.is_empty() { String::new() } else { format!("; {}", why.join("; ")) };
                format!("Not clear whether it is faster: {range}; {end}{why}")
            }
        }
    }

    /// The bare figures, where they do not show what the order of the blocks seems to.
    fn disagreement(&self) -> String {
        format!(
            "over all samples the medians are {} → {} and the fastest tenths {} → {}, which does not show that gain",
            milliseconds(self.before.median_ns),
            milliseconds(self.after.median_ns),
            milliseconds(self.before.fastest_tenth_ns),
            milliseconds(self.after.fastest_tenth_ns),
        )
    }

    /// The numbers behind the verdict.
    pub(super) fn facts(&self, plan: &BenchmarkPlan) -> Vec<Fact> {
        let mut facts = Vec::new();
        let mut add = |name: &str, value: String| {
            facts.push(Fact { name: name.to_owned(), value, source: self.target.name.clone() });
        };
        for (name, side) in [("before", &self.before), ("after", &self.after)] {
            let samples: usize = side.blocks.iter().map(|block| block.samples_ns.len()).sum();
            add(
                &format!("median latency {name}"),
                format!("{} ({samples} samples of {} processes)", milliseconds(side.median_ns), side.blocks.len()),
            );
        }
        if self.statistic == Statistic::FastestTenth {
            add(
                "latency of the fastest tenth",
                format!(
                    "{} → {} (compared instead of the medians, as other work keeps the processors busy)",
                    milliseconds(self.before.compared_ns),
                    milliseconds(self.after.compared_ns)
                ),
            );
        }
        if let (Some(ratio), Some(interval)) = (self.ratio, self.interval) {
            add(
                "speed ratio before / after",
                format!(
                    "{ratio:.3} ({:.3} to {:.3} at {:.1} %, asked for: above {:.2})",
                    interval.low,
                    interval.high,
                    interval.confidence * 100.0,
                    plan.min_gain
                ),
            );
        }
        if let Some(look) = self.looks.last() {
            add(
                "chance of this outcome without the gain asked for",
                format!(
                    "{} (exact rank test after {} pairs, may be {} at this look)",
                    chance(look.chance_if_not_faster),
                    look.pairs,
                    chance(look.spends.accept)
                ),
            );
        }
        add("threads", self.threads.to_string());
        if self.pairs() > 0 {
            let runs = |side: &Side| format!("{:.0}", side.warmup_runs);
            add("warm-up runs of a process", format!("{} before, {} after", runs(&self.before), runs(&self.after)));
        }
        if let (Some(before), Some(after)) = (self.before.peak_memory_bytes, self.after.peak_memory_bytes) {
            add("peak memory", format!("{} → {}", megabytes(before), megabytes(after)));
        }
        for (name, value) in self.conditions.iter().flat_map(DeviceConditions::facts) {
            add(name, value);
        }
        for observation in self.unrest() {
            add("not calm", observation);
        }
        facts
    }

    /// What a reader of the bare figures should know: that something else than the medians was compared, and
    /// what was not calm.
    pub fn caveats(&self) -> Vec<String> {
        let compared = (self.statistic == Statistic::FastestTenth).then(|| {
            format!(
                "the fastest tenths were compared, {} → {}, as other work keeps the processors busy",
                milliseconds(self.before.compared_ns),
                milliseconds(self.after.compared_ns)
            )
        });
        compared.into_iter().chain(self.unrest()).collect()
    }

    /// What was not calm about the device.
    fn unrest(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (name, side) in [("before", &self.before), ("after", &self.after)] {
            words.extend(side.unrest().into_iter().map(|text| format!("the program {name} {text}")));
        }
        words.extend(self.conditions.iter().flat_map(DeviceConditions::unrest));
        words
    }

    fn pairs(&self) -> usize {
        self.before.blocks.len().min(self.after.blocks.len())
    }
}

impl Side {
    fn unrest(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.modes.len() > 1 {
            let modes: Vec<String> = self
                .modes
                .iter()
                .map(|mode| format!("{} in {:.0} %", milliseconds(mode.median), mode.share * 100.0))
                .collect();
            words.push(format!("runs in {} ways ({})", modes.len(), modes.join(", ")));
        }
        if let Some(drift) = self.drift {
            let (way, size) =
                if drift.change > 1.0 { ("slower", drift.change) } else { ("faster", 1.0 / drift.change) };
            words.push(format!("got {size:.2} times {way} while it was measured"));
        }
        if let Some(quantum) = self.quantum_ns {
            words.push(format!(
                "takes times that lie whole slices of {:.0} ms apart, as on a busy processor",
                quantum / 1e6
            ));
        }
        words
    }
}

/// Three significant digits or more.
fn milliseconds(ns: f64) -> String {
    let ms = ns / 1e6;
    let decimals = if ms >= 100.0 {
        0
    } else if ms >= 10.0 {
        1
    } else if ms >= 1.0 {
        2
    } else {
        4
    };
    format!("{ms:.decimals$} ms")
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

/// Per cent; a chance that is left is never shown as none.
fn chance(probability: f64) -> String {
    if probability > 0.0 && probability < 5e-5 {
        "less than 0.01 %".to_owned()
    } else {
        format!("{:.2} %", probability * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_chance_is_not_none() {
        assert_eq!([0.0, 1e-9, 1.2e-4, 0.5].map(chance), ["0.00 %", "less than 0.01 %", "0.01 %", "50.00 %"]);
    }
}
