//! `docs/engine.md`.

use std::fmt::Write as _;

use super::clock::Times;
use crate::workspace::machine;

/// A figure and its limit.
pub(super) struct Figure {
    name: String,
    shown: String,
    limit: String,
    met: bool,
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.shown)
    }
}

impl Figure {
    /// The least of several repetitions, which must not exceed a limit.
    pub(super) fn least(name: &str, times: &Times, scale: f64, unit: &str, limit: f64) -> Self {
        let (least, median) = (times.least() * scale, times.median() * scale);
        Self {
            name: name.to_owned(),
            shown: format!("{} {unit} (median {}, {} repetitions)", digits(least), digits(median), times.count()),
            limit: format!("at most {limit} {unit}"),
            met: least <= limit,
        }
    }

    /// A ratio that must reach a limit.
    pub(super) fn at_least(name: &str, ratio: f64, limit: f64) -> Self {
        Self {
            name: name.to_owned(),
            shown: format!("{ratio:.1}"),
            limit: format!("at least {limit}"),
            met: ratio >= limit,
        }
    }
}

/// A graph and what a round over it costs.
pub(super) struct GraphRow {
    pub(super) name: String,
    pub(super) nodes: usize,
    pub(super) sites: usize,
    pub(super) rewrites: usize,
    pub(super) first: Times,
    pub(super) cached: Times,
}

/// Everything that was measured.
#[derive(Default)]
pub(super) struct Page {
    pub(super) figures: Vec<Figure>,
    pub(super) graphs: Vec<GraphRow>,
    pub(super) native: Option<Times>,
    pub(super) site_count: usize,
    /// torch's version, its times, how many places it changed, and how many the rules changed
    pub(super) fx: Option<(String, Times, usize, usize)>,
}

impl Page {
    /// The page.
    pub(super) fn markdown(&self) -> String {
        let mut page =
            String::from("# What the rule engine costs\n\nWritten by `cargo xtask bench engine`; not by hand.\n\n");
        let _ = writeln!(
            page,
            "Every figure is MEASURED on {}: processor time of the whole process, the least of the repetitions, in one \
             run of one release build. A *round* is what `optimize` does with a program: build the index, cut the \
             sites, ask all bundled rules, check what they answer, and apply it. Each round starts with a program \
             that was just read and rules that were just loaded. *First* means that no verdict is known, *cached* \
             that a file holds the verdicts of an earlier process.\n",
            machine()
        );
        page.push_str("| figure | measured | limit | met |\n|---|---|---|---|\n");
        for Figure { name, shown, limit, met } in &self.figures {
            let _ = writeln!(page, "| {name} | {shown} | {limit} | {} |", if *met { "yes" } else { "**no**" });
        }
        page.push_str("\n## Graphs\n\nMade-up graphs hold convolutions, norms, sums and activations, and 3 % of operators that a bundled rule is anchored at (`softmax`, `clone`, `alias`, `avg_pool2d`).\n\n");
        page.push_str("| graph | nodes | sites | rewritten | first, ms | a node, µs | cached, ms | a node, µs |\n|---|---|---|---|---|---|---|---|\n");
        for row in &self.graphs {
            let (first, cached) = (row.first.least(), row.cached.least());
            let node = |seconds: f64| digits(seconds * 1e6 / row.nodes.max(1) as f64);
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                row.name,
                row.nodes,
                row.sites,
                row.rewrites,
                digits(first * 1e3),
                node(first),
                digits(cached * 1e3),
                node(cached)
            );
        }
        if let Some(native) = &self.native {
            let _ = writeln!(
                page,
                "\n## The price of the sandbox\n\nThe same rules built for this machine take {} µs a site (median {}, {} \
                 repetitions over {} sites), without copying sites and verdicts in and out. The difference to the first \
                 row above is what a fresh store and instance, fuel, the wall-clock fuse and the copying cost.",
                digits(native.least() * 1e6),
                digits(native.median() * 1e6),
                native.count(),
                self.site_count
            );
        }
        if let Some((torch, fx, places, ours)) = &self.fx {
            let _ = writeln!(
                page,
                "\n## torch.fx\n\n`replace_pattern_with_filters` of torch {torch} with one pattern for each kind of edit \
                 (`bench/fx_rewriter.py`) makes the same edits in a graph of 10,000 nodes of the same operators in {} ms \
                 (median {}, {} repetitions, thread time, one thread). It changes {places} places; \
                 the rules change {ours}.",
                digits(fx.least() * 1e3),
                digits(fx.median() * 1e3),
                fx.count()
            );
        }
        page.push_str("\nCompiling happens in a child process; its processor time is that of four compilations over four, start of the process included. The ten rules are the bundled ones, each told apart by a custom section.\n");
        page
    }
}

/// Three significant digits.
fn digits(number: f64) -> String {
    let magnitude = number.abs().max(1e-9).log10().floor();
    let decimals = (2.0 - magnitude).clamp(0.0, 4.0) as usize;
    format!("{number:.decimals$}")
}
