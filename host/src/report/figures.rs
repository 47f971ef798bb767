//! Figures as text, never without their label.
//!
//! In: [`Evidence`] and plain counts. Out: a [`Figure`], whose parts a view arranges; the label is one of
//! them. Rounding never claims more than was measured: 99.96 % is not shown as 100 %, and 0.01 % is not
//! shown as 0 %.

use crate::evidence::{Evidence, Interval, TargetLabel};

/// A figure taken apart for a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// with its unit: `19.6 ms`, `45.2 %`, `1.97×`
    pub value: String,
    /// `1.94–2.01×`; a single sample has none
    pub interval: Option<String>,
    /// `MEASURED` or `PROJECTED`
    pub kind: &'static str,
    /// `on this host (x86-64, not Arm)`, or what it was projected from
    pub source: String,
    /// the whole label in one line: kind, source, samples, interval with its confidence
    pub label: String,
}

impl Figure {
    /// Takes evidence apart.
    pub fn of(evidence: &Evidence) -> Self {
        match evidence {
            Evidence::Measured(measured) => {
                let source = on_target(&measured.target);
                let interval = measured.interval.as_ref().map(|interval| range(interval, &measured.unit));
                let mut label = format!("MEASURED {source}, {}", samples(measured.samples));
                if let (Some(text), Some(interval)) = (&interval, &measured.interval) {
                    label.push_str(&format!(", {} interval {text}", confidence(interval)));
                }
                Self { value: value(measured.value, &measured.unit), interval, kind: "MEASURED", source, label }
            }
            Evidence::Projected(projected) => {
                let range = spread(projected.low, projected.high, &projected.unit);
                let source = format!("from {}", projected.basis);
                Self { value: range, interval: None, kind: "PROJECTED", label: format!("PROJECTED {source}"), source }
            }
        }
    }

    /// `1.97× (1.94–2.01×)`: value and interval without the label, for a place that shows the label itself.
    pub fn with_interval(&self) -> String {
        match &self.interval {
            Some(interval) => format!("{} ({interval})", self.value),
            None => self.value.clone(),
        }
    }

    /// For a place whose label is `MEASURED` on `target`: the value alone when that is its label too,
    /// else with its own.
    pub fn beside(&self, target: &TargetLabel) -> String {
        if self.kind == "MEASURED" && self.source == on_target(target) {
            self.value.clone()
        } else {
            format!("{} ({} {})", self.value, self.kind, self.source)
        }
    }
}

/// `on this host (x86-64, not Arm)`. A target that is no physical Arm CPU says so, whatever its name is.
pub fn on_target(target: &TargetLabel) -> String {
    let name = &target.name;
    // What somebody else recorded: whether it was an Arm CPU is for them to say.
    if target.kind == "recorded"
        || target.physical_arm
        || name.to_lowercase().contains("not arm")
        || target.kind == "qemu"
    {
        let emulated = target.kind == "qemu" && !name.to_lowercase().contains("emulat");
        return if emulated { format!("on {name} (emulated, no latency)") } else { format!("on {name}") };
    }
    format!("on {name} (not a physical Arm CPU)")
}

/// The figure as a plain number, to draw with; the middle of a projected range.
pub fn number(evidence: &Evidence) -> f64 {
    match evidence {
        Evidence::Measured(measured) => measured.value,
        Evidence::Projected(projected) => projected.low.midpoint(projected.high),
    }
}

/// The interval of a measured figure, to draw with.
pub fn interval(evidence: &Evidence) -> Option<&Interval> {
    match evidence {
        Evidence::Measured(measured) => measured.interval.as_ref(),
        Evidence::Projected(_) => None,
    }
}

/// `99 %`.
pub fn confidence(interval: &Interval) -> String {
    percent(interval.confidence)
}

/// A value with its unit.
pub fn value(value: f64, unit: &str) -> String {
    match unit {
        "share" => percent(value),
        "ms" => milliseconds(value),
        "ratio" => ratio(value),
        "bytes" => bytes(value),
        "" => plain(value),
        other => format!("{} {other}", plain(value)),
    }
}

/// `1.94–2.01×`.
fn range(interval: &Interval, unit: &str) -> String {
    spread(interval.low, interval.high, unit)
}

fn spread(low: f64, high: f64, unit: &str) -> String {
    let (low, high) = (value(low, unit), value(high, unit));
    if low == high {
        return low;
    }
    let unit_of = |text: &str| text.trim_start_matches(|c: char| !c.is_alphabetic() && c != '%' && c != '×').to_owned();
    match low.strip_suffix(&unit_of(&low)) {
        Some(bare) if unit_of(&low) == unit_of(&high) && !low.starts_with('<') => format!("{}–{high}", bare.trim_end()),
        _ => format!("{low}–{high}"),
    }
}

/// `1 sample`, `240 samples`.
pub fn samples(count: u64) -> String {
    counted(count, "sample")
}

/// `1 site`, `64 sites`.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if noun.ends_with('s') || noun.ends_with("sh") { "es" } else { "s" };
    if count == 1 { format!("1 {noun}") } else { format!("{} {noun}{plural}", grouped(count)) }
}

/// `12,345`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as per cent with one decimal that never rounds up to all or down to nothing.
pub fn percent(share: f64) -> String {
    // Adding zero takes the sign off a negative zero.
    let percent = share * 100.0 + 0.0;
    if !percent.is_finite() {
        return not_finite(share);
    }
    let whole = (percent - percent.round()).abs() < 1e-9;
    match percent {
        _ if whole => format!("{percent:.0} %"),
        p if p > 0.0 && p < 0.05 => "<0.1 %".to_owned(),
        p if (99.95..100.0).contains(&p) => ">99.9 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

/// Milliseconds with three significant digits, as microseconds or seconds where that is shorter.
pub fn milliseconds(value: f64) -> String {
    match value.abs() {
        magnitude if !magnitude.is_finite() => not_finite(value),
        magnitude if magnitude >= 10_000.0 => format!("{} s", significant(value / 1000.0)),
        magnitude if magnitude > 0.0 && magnitude < 0.1 => format!("{} µs", significant(value * 1000.0)),
        _ => format!("{} ms", significant(value)),
    }
}

/// Seconds of the tool's own work: `0.4 s`, `12 s`, `3 min 05 s`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return not_finite(value);
    }
    if value < 0.05 {
        return "<0.1 s".to_owned();
    }
    if value < 9.95 {
        return format!("{value:.1} s");
    }
    let whole = value.round();
    if whole < 120.0 {
        return format!("{whole:.0} s");
    }
    if whole < 7200.0 {
        return format!("{:.0} min {:02.0} s", (whole / 60.0).floor(), whole % 60.0);
    }
    let minutes = (whole / 60.0).round();
    format!("{:.0} h {:02.0} min", (minutes / 60.0).floor(), minutes % 60.0)
}

/// `1.97×`, `113×`.
pub fn ratio(value: f64) -> String {
    match value.abs() {
        magnitude if !magnitude.is_finite() => not_finite(value),
        magnitude if magnitude >= 100.0 => format!("{value:.0}×"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}×"),
        magnitude if magnitude >= 0.1 => format!("{value:.2}×"),
        _ => format!("{}×", significant(value)),
    }
}

/// Decimal units: `95.3 MB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if !value.is_finite() {
        return not_finite(value);
    }
    if value < 1000.0 {
        return format!("{value:.0} bytes");
    }
    let mut scaled = value;
    let mut name = "bytes";
    for unit in UNITS {
        if scaled < 999.5 {
            break;
        }
        scaled /= 1000.0;
        name = unit;
    }
    format!("{} {name}", significant(scaled))
}

/// A number without unit: three significant digits, scientific where it is very small or very large.
pub fn plain(value: f64) -> String {
    match value.abs() {
        magnitude if !magnitude.is_finite() => not_finite(value),
        0.0 => "0".to_owned(),
        magnitude if !(1e-3..1e6).contains(&magnitude) => format!("{value:.1e}"),
        _ => significant(value),
    }
}

/// Three significant digits in decimal notation.
fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".to_owned();
    }
    // What rounding to three digits makes of it decides, so that 9.996 becomes 10.0 and not 10.00.
    match magnitude {
        m if m >= 99.95 => format!("{value:.0}"),
        m if m >= 9.995 => format!("{value:.1}"),
        m if m >= 0.9995 => format!("{value:.2}"),
        m if m >= 0.0005 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

fn not_finite(value: f64) -> String {
    if value.is_nan() {
        "not known"
    } else if value > 0.0 {
        "infinity"
    } else {
        "minus infinity"
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Measured, Projected};

    fn host() -> TargetLabel {
        TargetLabel {
            kind: "local".to_owned(),
            name: "this host (x86-64, not Arm)".to_owned(),
            architecture: "x86_64".to_owned(),
            physical_arm: false,
        }
    }

    #[test]
    fn shares_are_never_rounded_to_all_or_nothing() {
        let shown = [0.0, 0.0001, 0.0049, 0.452, 0.9994, 0.99951, 0.99999, 1.0].map(percent);
        assert_eq!(shown, ["0 %", "<0.1 %", "0.5 %", "45.2 %", "99.9 %", ">99.9 %", ">99.9 %", "100 %"]);
    }

    #[test]
    fn times_have_three_digits_and_a_fitting_unit() {
        let shown = [0.0, 0.0213, 0.43, 9.996, 19.62, 999.6, 3293.7, 108_000.0].map(milliseconds);
        assert_eq!(shown, ["0 ms", "21.3 µs", "0.430 ms", "10.0 ms", "19.6 ms", "1000 ms", "3294 ms", "108 s"]);
        let shown = [0.01, 0.42, 9.97, 61.0, 185.0, 7_260.0].map(seconds);
        assert_eq!(shown, ["<0.1 s", "0.4 s", "10 s", "61 s", "3 min 05 s", "2 h 01 min"]);
    }

    #[test]
    fn other_units() {
        assert_eq!([0.3, 1.966, 17.01, 224.06].map(ratio), ["0.30×", "1.97×", "17.0×", "224×"]);
        assert_eq!([12.0, 1_500.0, 95_312_000.0, 999_999.0].map(bytes), ["12 bytes", "1.50 kB", "95.3 MB", "1.00 MB"]);
        assert_eq!([0.0, 4.7e-4, 0.22, 1.2e15].map(plain), ["0", "4.7e-4", "0.220", "1.2e15"]);
        assert_eq!([f64::INFINITY, f64::NAN].map(|x| value(x, "ms")), ["infinity", "not known"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn the_label_names_kind_target_samples_and_interval() {
        let evidence = Evidence::Measured(Measured {
            value: 1.968,
            unit: "ratio".to_owned(),
            target: host(),
            samples: 240,
            interval: Some(Interval { low: 1.94, high: 2.01, confidence: 0.99 }),
        });
        let figure = Figure::of(&evidence);
        assert_eq!(figure.with_interval(), "1.97× (1.94–2.01×)");
        assert_eq!(figure.label, "MEASURED on this host (x86-64, not Arm), 240 samples, 99 % interval 1.94–2.01×");
        assert_eq!(figure.beside(&host()), "1.97×");
        let elsewhere = TargetLabel { name: "Pixel 8".to_owned(), physical_arm: true, ..host() };
        assert_eq!(figure.beside(&elsewhere), "1.97× (MEASURED on this host (x86-64, not Arm))");
    }

    #[test]
    fn a_target_that_is_not_arm_says_so_whatever_its_name() {
        let sly = TargetLabel { name: "my phone".to_owned(), ..host() };
        assert_eq!(on_target(&sly), "on my phone (not a physical Arm CPU)");
        let phone = TargetLabel { name: "Pixel 8".to_owned(), physical_arm: true, ..host() };
        assert_eq!(on_target(&phone), "on Pixel 8");
    }

    #[test]
    fn a_projection_is_a_range_with_its_basis() {
        let evidence = Evidence::Projected(Projected {
            low: 12.0,
            high: 18.5,
            unit: "ms".to_owned(),
            basis: "the fallback share of one trace".to_owned(),
        });
        let figure = Figure::of(&evidence);
        assert_eq!(figure.value, "12.0–18.5 ms");
        assert_eq!(figure.beside(&host()), "12.0–18.5 ms (PROJECTED from the fallback share of one trace)");
    }
}
