//! The plots of `docs/measurement.md`, as SVG that is legible on light and dark pages.

use std::fmt::Write as _;

use super::rivals::Rival;
use super::{Device, GAINS, SMALL};

/// Colours of the page, of the lines and of their five series; the second set is for dark pages. The series
/// differ in their marks as well.
const STYLE: &str = "
  svg { font-family: system-ui, sans-serif; font-size: 12px; }
  .page { fill: #ffffff; } .text { fill: #1f2328; } .faint { fill: #59636e; }
  .axis { stroke: #8b949e; fill: none; } .grid { stroke: #d8dee4; fill: none; }
  .c0 { --c: #0550ae; } .c1 { --c: #bc4c00; } .c2 { --c: #1a7f37; } .c3 { --c: #8250df; } .c4 { --c: #9a6700; }
  .line { stroke: var(--c); fill: none; } .mark { stroke: var(--c); fill: none; } .solid { fill: var(--c); }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .text { fill: #e6edf3; } .faint { fill: #9198a1; }
    .axis { stroke: #6e7681; } .grid { stroke: #2a313c; }
    .c0 { --c: #79c0ff; } .c1 { --c: #ffa657; } .c2 { --c: #56d364; } .c3 { --c: #d2a8ff; } .c4 { --c: #e3b341; }
  }
";

struct Svg {
    text: String,
}

impl Svg {
    fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self { text: String::new() };
        svg.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n<rect class=\"page\" \
             width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n"
        ));
        svg
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(shape);
    }

    /// `anchor` is `start`, `middle` or `end`.
    fn label(&mut self, (x, y): (f64, f64), anchor: &str, class: &str, text: &str) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>\n"
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.add(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>\n",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through points with the mark of its series at each.
    fn series(&mut self, number: usize, points: &[(f64, f64)]) {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let width = if number == 0 { 3.0 } else { 1.3 };
        self.add(format_args!(
            "<g class=\"c{number}\"><polyline class=\"line\" stroke-width=\"{width}\" points=\"{}\"/>\n",
            path.join(" ")
        ));
        for point in points {
            self.mark(number, *point);
        }
        self.add(format_args!("</g>\n"));
    }

    fn mark(&mut self, number: usize, (x, y): (f64, f64)) {
        let shape = match number {
            0 => format!("<circle class=\"solid\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
            1 => format!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.4\"/>"),
            2 => format!("<path class=\"mark\" d=\"M{x:.1} {y:.1}m-3.5 3h7l-3.5 -6.5z\"/>"),
            3 => format!("<path class=\"mark\" d=\"M{x:.1} {y:.1}m-3 -3h6v6h-6z\"/>"),
            _ => format!("<path class=\"mark\" d=\"M{x:.1} {y:.1}m-3.2 -3.2l6.4 6.4m0 -6.4l-6.4 6.4\"/>"),
        };
        self.add(format_args!("{shape}\n"));
    }

    fn done(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Share of experiments that each rule accepts, by true gain: one panel a device.
pub(super) fn accepted(devices: &[Device]) -> String {
    const PANEL: (f64, f64) = (270.0, 190.0);
    const PLOT: (f64, f64) = (214.0, 118.0);
    let rows = devices.len().div_ceil(3);
    #[expect(clippy::cast_precision_loss, reason = "a handful of panels")]
    let height = 56.0 + PANEL.1 * rows as f64;
    let mut svg = Svg::new(840.0, height, "Share of experiments that each rule accepts, by true gain and device");
    let names = std::iter::once("the gate").chain(Rival::ALL.map(Rival::name));
    let mut x = 24.0;
    for (number, name) in names.enumerate() {
        svg.series(number, &[(x, 22.0), (x + 22.0, 22.0)]);
        svg.label((x + 32.0, 26.0), "start", "text", name);
        #[expect(clippy::cast_precision_loss, reason = "a short name")]
        let width = name.chars().count() as f64;
        x += 56.0 + width * 7.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful of panels and gains")]
    for (index, device) in devices.iter().enumerate() {
        let left = 46.0 + PANEL.0 * (index % 3) as f64;
        let top = 70.0 + PANEL.1 * (index / 3) as f64;
        svg.label((left, top - 8.0), "start", "text", device.noise.name());
        let place = |step: usize, share: f64| {
            (left + PLOT.0 * (step as f64 + 0.5) / GAINS.len() as f64, top + PLOT.1 * (1.0 - share))
        };
        for percent in [0.0, 0.5, 1.0] {
            let y = top + PLOT.1 * (1.0 - percent);
            svg.line((left, y), (left + PLOT.0, y), if percent == 0.0 { "axis" } else { "grid" });
            svg.label((left - 6.0, y + 4.0), "end", "faint", &format!("{:.0} %", percent * 100.0));
        }
        for (step, gain) in GAINS.iter().enumerate() {
            let (x, y) = place(step, 0.0);
            svg.label((x, y + 16.0), "middle", "faint", &format!("{gain:.2}"));
        }
        // The gate last, so that it lies on top.
        let rules = device.rivals.iter().enumerate().rev().map(|(number, tallies)| (number + 1, tallies));
        for (number, tallies) in rules.chain([(0, &device.gate)]) {
            let points: Vec<_> = tallies.iter().enumerate().map(|(step, tally)| place(step, tally.rate())).collect();
            svg.series(number, &points);
        }
    }
    svg.done()
}

/// Samples that the gate takes by true gain, beside the fixed design of the same power.
pub(super) fn samples(devices: &[Device]) -> String {
    const ROW: f64 = 34.0;
    const LEFT: f64 = 160.0;
    const WIDTH: f64 = 600.0;
    let most = devices
        .iter()
        .flat_map(|device| device.gate.iter().chain(device.fixed.as_ref().map(|fixed| &fixed.tally)))
        .map(super::Tally::mean_samples)
        .fold(100.0, f64::max);
    let top = most.div_euclid(200.0) * 200.0 + 200.0;
    #[expect(clippy::cast_precision_loss, reason = "a handful of rows")]
    let bottom = 66.0 + ROW * devices.len() as f64;
    let mut svg =
        Svg::new(840.0, bottom + 44.0, "Samples that the gate takes, beside the fixed design of the same power");
    let shown = [(0, 1.5, "50 % faster"), (1, 1.1, "10 % faster"), (2, SMALL, "5 % faster"), (3, 1.0, "unchanged")];
    let mut x = 24.0;
    for (number, _, name) in shown {
        svg.add(format_args!("<g class=\"c{number}\">\n"));
        svg.mark(number, (x, 22.0));
        svg.add(format_args!("</g>\n"));
        svg.label((x + 10.0, 26.0), "start", "text", name);
        x += 110.0;
    }
    svg.line((x, 14.0), (x, 30.0), "line c4");
    svg.label((x + 10.0, 26.0), "start", "text", "fixed design with the power of the gate at 5 %");
    let at = |samples: f64| LEFT + WIDTH * samples / top;
    let mut tick = 0.0;
    while tick <= top {
        svg.line((at(tick), 46.0), (at(tick), bottom), "grid");
        svg.label((at(tick), bottom + 16.0), "middle", "faint", &format!("{tick:.0}"));
        tick += 200.0;
    }
    svg.label((LEFT + WIDTH / 2.0, bottom + 34.0), "middle", "faint", "measured samples of both programs, mean");
    let mut y = 66.0;
    for device in devices {
        svg.label((LEFT - 14.0, y + 4.0), "end", "text", device.noise.name());
        svg.line((LEFT, y), (LEFT + WIDTH, y), "grid");
        for (number, gain, _) in shown.into_iter().rev() {
            if let Some((_, tally)) = GAINS.iter().zip(&device.gate).find(|(known, _)| **known == gain) {
                svg.add(format_args!("<g class=\"c{number}\">\n"));
                svg.mark(number, (at(tally.mean_samples()), y));
                svg.add(format_args!("</g>\n"));
            }
        }
        if let Some(fixed) = &device.fixed {
            let x = at(fixed.tally.mean_samples());
            svg.add(format_args!("<g stroke-width=\"3\">\n"));
            svg.line((x, y - 9.0), (x, y + 9.0), "line c4");
            svg.add(format_args!("</g>\n"));
        }
        y += ROW;
    }
    svg.done()
}
