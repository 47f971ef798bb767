//! `docs/measurement.md`.

use std::fmt::Write as _;

use delegate_doctor::gates::benchmark::simulation::Noise;

use super::rivals::Rival;
use super::{COVERAGE, Device, FALSE_ACCEPTS, GAINS, POWER, SEEING, SMALL, THRESHOLD, Tally};

/// The most false accepts and the least power that are aimed at.
const MOST_FALSE: f64 = 0.01;
const LEAST_POWER: f64 = 0.95;

pub(super) fn markdown(devices: &[Device]) -> String {
    let mut page = Page(String::new());
    page.paragraph("<!-- Written by `cargo xtask bench statistics`. -->");
    page.paragraph("# How two programs are compared, and how often that is wrong");
    page.paragraph(
        "A repair is kept when the target shows that the repaired program is at least 2 % faster \
         (`--min-gain`). Phones and shared machines are not calm: they throttle, they drift, they run a program in \
         one of two ways, and one sample is much like the one before. So the comparison is an experiment whose \
         order is drawn at random, and the test asks for nothing but that.",
    );
    page.rule();
    page.paragraph("## The figures");
    page.paragraph(&format!(
        "Every figure here is SIMULATED: the gate itself, the code that `optimize` runs, on devices that answer \
         with times drawn from a known distribution, so that the truth is known. Every device is seeded with its kind, \
         the gain and a number from 0 to {} (power: to {}, interval: to {}), the order of blocks with the number, \
         and the same sources give the same page. None of this says how fast any device is. \
         {FALSE_ACCEPTS} experiments where nothing should be accepted, {POWER} elsewhere; ranges in brackets are \
         Wilson's at 95 %.",
        FALSE_ACCEPTS - 1,
        POWER - 1,
        COVERAGE - 1,
    ));
    page.goals(devices);
    page.paragraph("![Share of experiments that each rule accepts, by true gain and device](measurement/accepted.svg)");
    page.paragraph(
        "Above: the share of experiments that end with “faster”, by the true ratio. At 1.00 nothing has changed and \
         at 1.02 the gain is just the one asked for, so there the curve should lie on the floor; to the right it \
         should rise.",
    );
    page.false_accepts(devices);
    page.power(devices);
    page.samples(devices);
    page.coverage(devices);
    page.devices();
    page.limits();
    page.0.truncate(page.0.trim_end().len());
    page.0.push('\n');
    page.0
}

struct Page(String);

impl Page {
    fn paragraph(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push_str("\n\n");
    }

    fn table(&mut self, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "| {} |", head.join(" | "));
        let _ = writeln!(self.0, "|---|{}", "---:|".repeat(head.len() - 1));
        for row in rows {
            let _ = writeln!(self.0, "| {} |", row.join(" | "));
        }
        self.0.push('\n');
    }

    fn rule(&mut self) {
        self.paragraph("## The rule");
        self.0.push_str(
            "- **Blocks.** A block is one process: warm-up, then some 200 ms of measured runs, the same number for \
             both programs. Samples of one process depend on each other, so a block counts once, with its median; \
             where other work hands out whole scheduler slices, with its fastest tenth.\n\
             - **Rounds.** Three blocks of each program make a round, in an order drawn at random among the 20 there \
             are.\n\
             - **The test.** To ask whether before is *g* times as slow as after, the times of before are divided by \
             *g*, the trend of the whole experiment is taken out (the median slope between any two blocks), and each \
             round is ranked. None of that looks at which program a block is of, so if *g* is true, every order of a \
             round was as likely as every other, and the chance of the rank sum that was seen can be counted exactly: \
             with modes, load, drift, throttling or memory from sample to sample. Two rounds without an overlap have \
             a chance of 1 in 400, three of 1 in 8000.\n\
             - **The interval** of the ratio holds every *g* that this test does not rule out; the ratio itself is \
             the *g* in its middle.\n\
             - **Looks.** The gate looks after 6, 9, 12, 18, 24 and 36 pairs and stops as soon as the interval is \
             clear of the threshold: above it the repair is faster, below it there is no such gain. All looks \
             together may call a program faster that is not in 0.1 %, and a faster one not faster in 1 %. Of the \
             second the first look spends 0.26 %; it calls nothing faster. The other looks share the rest. What is \
             not clear at the end, or when the time is over, is INCONCLUSIVE, and nothing is accepted.\n\
             - **The bare figures.** What is called faster must look so to a reader without rounds and trend as \
             well: the statistic that was compared and the fastest tenth, each over all samples of a program, must \
             show at least half of the gain asked for. This can only keep a repair from being accepted.\n\n",
        );
    }

    fn goals(&mut self, devices: &[Device]) {
        let worst = |step: usize| {
            let tallies = devices.iter().filter_map(|device| Some((device, device.gate.get(step)?)));
            tallies.max_by(|a, b| a.1.rate().total_cmp(&b.1.rate()))
        };
        let mut rows = Vec::new();
        for (step, what) in [(0, "unchanged program accepted"), (1, "gain of exactly 2 % accepted")] {
            if let Some((device, tally)) = worst(step) {
                let met = tally.rate() <= MOST_FALSE;
                let value = format!("{} on the worst device ({})", share(tally), device.noise.name());
                rows.push(vec![what.to_owned(), "at most 1 % on every device".to_owned(), value, yes(met)]);
            }
        }
        for device in devices.iter().filter(|device| SEEING.contains(&device.noise)) {
            let Some(tally) = at(&device.gate, SMALL) else { continue };
            let name = device.noise.name();
            rows.push(vec![
                format!("power at 5 %, {name}"),
                "at least 95 %".to_owned(),
                share(tally),
                yes(tally.rate() >= LEAST_POWER),
            ]);
            let (value, met) = match &device.fixed {
                Some(fixed) => (
                    format!("{:.0} against {:.0}", tally.mean_samples(), fixed.tally.mean_samples()),
                    tally.mean_samples() < fixed.tally.mean_samples(),
                ),
                None => (format!("{:.0}; no fixed design has that power", tally.mean_samples()), true),
            };
            rows.push(vec![
                format!("samples at 5 %, {name}"),
                "fewer than the fixed design of that power".to_owned(),
                value,
                yes(met),
            ]);
        }
        self.table(&["goal", "asked for", "simulated", "met"], rows.into_iter());
    }

    fn false_accepts(&mut self, devices: &[Device]) {
        self.paragraph("### False accepts");
        self.paragraph(
            "How often an unchanged program is called faster. The rules beside the gate are used as their users use \
             them, and know no threshold: any gain counts.",
        );
        let mut text = String::new();
        for rival in Rival::ALL {
            let _ = writeln!(text, "- *{}*: {}.", rival.name(), rival.description());
        }
        self.paragraph(text.trim_end());
        let head =
            ["device", "the gate", "the gate, gain of exactly 2 %"].into_iter().chain(Rival::ALL.map(Rival::name));
        let rows = devices.iter().map(|device| {
            let gate = [at(&device.gate, 1.0), at(&device.gate, THRESHOLD)].map(|tally| tally.map_or(none(), share));
            let rivals = device.rivals.iter().map(|tallies| at(tallies, 1.0).map_or(none(), percent));
            std::iter::once(device.noise.name().to_owned()).chain(gate).chain(rivals).collect()
        });
        self.table(&head.collect::<Vec<_>>(), rows);
    }

    fn power(&mut self, devices: &[Device]) {
        self.paragraph("### Power");
        self.paragraph(
            "How often a program that is faster by so much is accepted. With an unchanged program, *not faster* is \
             the share that ends with that answer; what is left of it is INCONCLUSIVE. The two columns on the right \
             show what the rivals pay their false accepts for.",
        );
        let head = ["device", "3 %", "5 %", "10 %", "50 %", "unchanged: not faster", "Welch, 5 %", "Mann–Whitney, 5 %"];
        let rows = devices.iter().map(|device| {
            let power = [1.03, SMALL, 1.1, 1.5].map(|gain| at(&device.gate, gain).map_or(none(), percent));
            let unchanged = at(&device.gate, 1.0)
                .map_or(none(), |tally| shown(f64::from(tally.rejected) / f64::from(tally.experiments.max(1))));
            let rivals = [Rival::Welch, Rival::MannWhitney].map(|wanted| {
                let of = Rival::ALL.iter().zip(&device.rivals).find(|(rival, _)| **rival == wanted);
                of.and_then(|(_, tallies)| at(tallies, SMALL)).map_or(none(), percent)
            });
            std::iter::once(device.noise.name().to_owned()).chain(power).chain([unchanged]).chain(rivals).collect()
        });
        self.table(&head, rows);
    }

    fn samples(&mut self, devices: &[Device]) {
        self.paragraph("### Samples");
        self.paragraph(
            "![Samples that the gate takes, beside the fixed design of the same power](measurement/samples.svg)",
        );
        self.paragraph(
            "Measured samples of both programs together, on average, and processes in brackets. The fixed design is \
             the same gate with its number of pairs decided in advance and one look that spends the whole 0.1 %: the \
             smallest that accepts a gain of 5 % as often as the gate does, but for half a point of chance.",
        );
        let head = ["device", "unchanged", "3 %", "5 %", "10 %", "50 %", "fixed design for 5 %"];
        let rows = devices.iter().map(|device| {
            let size = |tally: &Tally| format!("{:.0} ({:.0})", tally.mean_samples(), tally.mean_processes());
            let gate = [1.0, 1.03, SMALL, 1.1, 1.5].map(|gain| at(&device.gate, gain).map_or(none(), size));
            let fixed = device.fixed.as_ref().map_or("more than 60 pairs".to_owned(), |fixed| {
                format!("{:.0} ({})", fixed.tally.mean_samples(), 2 * fixed.pairs)
            });
            std::iter::once(device.noise.name().to_owned()).chain(gate).chain([fixed]).collect()
        });
        self.table(&head, rows);
    }

    fn coverage(&mut self, devices: &[Device]) {
        self.paragraph("### The interval");
        let asked = devices.iter().map(|device| device.coverage.confidence).fold(0.0, f64::max);
        self.paragraph(&format!(
            "How often the reported interval holds the true ratio, here 1.05, in {COVERAGE} experiments; at least \
             {:.0} % are promised. Beside it a hierarchical bootstrap of the ratio of medians (pairs of blocks, then \
             samples in a block) at the same confidence over the same blocks: with so few blocks, and a gate that \
             stops where the figures look clear, it keeps less than it promises where the device is not calm.",
            asked * 100.0
        ));
        let rows = devices.iter().map(|device| {
            let of = |held: u32| shown(f64::from(held) / f64::from(device.coverage.experiments.max(1)));
            vec![device.noise.name().to_owned(), of(device.coverage.gate), of(device.coverage.bootstrap)]
        });
        self.table(&["device", "the gate's interval", "hierarchical bootstrap"], rows);
    }

    fn devices(&mut self) {
        self.paragraph("## The devices");
        let rows = Noise::ALL.into_iter().map(|noise| vec![noise.name().to_owned(), noise.description().to_owned()]);
        let _ = writeln!(self.0, "| device | what it does |\n|---|---|");
        for row in rows {
            let _ = writeln!(self.0, "| {} |", row.join(" | "));
        }
        self.0.push('\n');
        self.paragraph(
            "Every process begins with cold runs of 3, 1.3 and 1.05 times the later ones. The program before takes 20 \
             ms, the one after 20 ms over the true ratio.",
        );
    }

    fn limits(&mut self) {
        self.paragraph("## What it does not promise");
        self.paragraph(
            "The test is exact where the repair changes every time by the same factor. If one program runs in several \
             ways and the other does not, “faster” means: faster in most comparisons of a block with a block of the \
             other; the report shows each way with its share. A gain that only appears after minutes of work, or only \
             beside other applications, is not what is measured. And what is measured on one device is evidence for \
             that device.",
        );
    }
}

/// The tally of a gain.
fn at(tallies: &[Tally], gain: f64) -> Option<&Tally> {
    GAINS.iter().zip(tallies).find(|(known, _)| **known == gain).map(|(_, tally)| tally)
}

fn share(tally: &Tally) -> String {
    let (low, high) = tally.interval();
    format!("{} ({:.2}–{:.2})", percent(tally), low * 100.0, high * 100.0)
}

fn percent(tally: &Tally) -> String {
    shown(tally.rate())
}

fn shown(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

fn yes(met: bool) -> String {
    if met { "yes" } else { "**no**" }.to_owned()
}

fn none() -> String {
    "–".to_owned()
}
