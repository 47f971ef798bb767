//! A profile by itself, without a question about repairs: for people, for spreadsheets, for programs.
//!
//! In: a [`ProfileDocument`]. Out: text, CSV rows, and the JSON of the document itself; [`chrome_trace`] makes a
//! timeline of one traced run, which Perfetto and `chrome://tracing` open.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::figures::{self, Figure};
use super::layout::{FAINT, HEADING, PLAIN, Page, WARN};
use crate::evidence::{Evidence, TargetLabel};
use crate::profile::breakdown::{Bottleneck, Breakdown, CategoryTotal};
use crate::profile::category::Category;
use crate::profile::projection::Projection;
use crate::profile::{RunTrace, Trace};
use crate::torch::protocol::{Fallback, Reason, SourceLine};

/// Name of the JSON form.
pub const SCHEMA: &str = "delegate-doctor/profile";
/// Version of the JSON form.
pub const VERSION: u32 = 1;
/// Families of kernels that the text shows; the rest is counted.
const SHOWN: usize = 8;
/// Fallbacks that the text explains.
const SHOWN_FALLBACKS: usize = 6;

/// Where a program's time goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileDocument {
    /// [`SCHEMA`]
    pub schema: String,
    /// [`VERSION`]
    pub version: u32,
    /// what was profiled, as the user named it
    pub subject: String,
    /// where
    pub target: TargetLabel,
    /// threads of the program; none when that is not known
    pub threads: Option<u32>,
    /// median of runs without a tracer; none when there were none; unit `ms`
    pub untraced: Option<Evidence>,
    /// size of the program
    pub program_bytes: Option<u64>,
    /// peak resident memory of the process that ran it; unit `bytes`
    pub peak_memory: Option<Evidence>,
    /// kernel by kernel
    pub breakdown: Breakdown,
    /// why what is outside of delegates is there, by instruction; empty when that is not known
    pub reasons: Vec<FallbackReason>,
    /// module of the user's model that each instruction comes from; empty when that is not known
    #[serde(default)]
    pub modules: Vec<InstructionModule>,
    /// what it ran on: `float32 1×3×224×224`; empty when that is not known
    #[serde(default)]
    pub inputs: Vec<String>,
    /// what limits these figures
    #[serde(default)]
    pub notes: Vec<String>,
    /// what is worth knowing, the weightiest first
    #[serde(default)]
    pub insights: Vec<ProfileInsight>,
    /// what it may become on other hardware, when that was asked for; nothing in it is measured
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Projection>,
}

/// Where in the user's model an instruction comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstructionModule {
    /// of the method, as rows name it
    pub instruction: i64,
    /// innermost module that holds all its nodes: `decoder.blocks.0`; empty for the model itself
    pub module_path: String,
    /// nodes of the exported program in it
    pub nodes: u64,
}

/// Something worth knowing about a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileInsight {
    /// stable code, one of the catalogue in `docs/profile.md`
    pub code: String,
    /// what is so, with its numbers
    pub text: String,
    /// what to run or change next
    pub next: Option<String>,
}

/// Why an instruction is outside of delegates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FallbackReason {
    /// of the method, as rows name it
    pub instruction: i64,
    /// kernel: `aten::_softmax.out`
    pub kernel: String,
    /// nodes of the exported program it comes from; empty when unknown
    pub nodes: Vec<String>,
    /// the user's line
    pub source: Option<SourceLine>,
    /// module names down to the node; empty when unknown
    pub module_path: String,
    /// why
    pub reason: Reason,
}

impl From<&Fallback> for FallbackReason {
    fn from(fallback: &Fallback) -> Self {
        Self {
            instruction: fallback.instruction,
            kernel: fallback.kernel.clone(),
            nodes: fallback.original_nodes.clone(),
            source: fallback.source.clone(),
            module_path: fallback.module_path.clone(),
            reason: fallback.reason.clone(),
        }
    }
}

impl ProfileDocument {
    /// A recorded trace: nothing is known of the program but what is in it.
    pub fn of_trace(subject: String, target: TargetLabel, breakdown: Breakdown) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            subject,
            target,
            threads: None,
            untraced: None,
            program_bytes: None,
            peak_memory: None,
            breakdown,
            reasons: Vec::new(),
            modules: Vec::new(),
            inputs: Vec::new(),
            notes: Vec::new(),
            insights: Vec::new(),
            projection: None,
        }
    }

    /// The profile for a person.
    pub fn text(&self) -> String {
        let mut page = Page::default();
        let breakdown = &self.breakdown;
        page.paragraph(0, HEADING, &self.subject);
        let mut place = format!(
            "MEASURED {}, {}",
            figures::on_target(&self.target),
            figures::counted(breakdown.runs, "traced run")
        );
        if let Some(threads) = self.threads {
            place.push_str(&format!(", {}", figures::counted(u64::from(threads), "thread")));
        }
        page.line(0, &[(FAINT, &place)]);
        page.gap();
        if !self.target.measures_speed() && self.target.kind == "qemu" {
            page.paragraph(0, WARN, "Emulated: these times say what ran, and nothing about the speed of an Arm CPU.");
        }
        for note in &self.notes {
            page.paragraph(0, FAINT, note);
        }
        self.totals(&mut page);
        page.gap();
        page.line(0, &[(HEADING, "Time by category")]);
        for total in &breakdown.categories {
            page.line(2, &[(PLAIN, &category_line(total))]);
        }
        for (what, time) in self.lines().into_iter().filter(|(_, time)| figures::number(time).is_finite()) {
            page.line(2, &[(FAINT, &format!("{what:<16}{:>10}", Figure::of(time).value))]);
        }
        page.gap();
        if !breakdown.bottlenecks.is_empty() {
            self.families(&mut page);
        }
        self.outside(&mut page);
        self.worth_knowing(&mut page);
        self.projected(&mut page);
        if !breakdown.unknown.is_empty() {
            page.gap();
            page.paragraph(
                0,
                WARN,
                &format!("In no table of categories: {}", super::notable::named(&breakdown.unknown)),
            );
        }
        page.finish()
    }

    fn families(&self, page: &mut Page) {
        let breakdown = &self.breakdown;
        page.line(0, &[(HEADING, "Largest families of kernels")]);
        for bottleneck in breakdown.bottlenecks.iter().take(SHOWN) {
            page.line(2, &[(PLAIN, &bottleneck_line(bottleneck))]);
        }
        let more = breakdown.bottlenecks.len().saturating_sub(SHOWN) as u64;
        if more > 0 {
            page.line(2, &[(FAINT, &format!("and {more} more: `--format json` or `--format csv` has every kernel"))]);
        }
        page.line(
            2,
            &[(FAINT, "“at most” is PROJECTED: how much faster the method were if these kernels took no time")],
        );
    }

    fn totals(&self, page: &mut Page) {
        let breakdown = &self.breakdown;
        page.line(0, &[(PLAIN, &format!("Method          {}", Figure::of(&breakdown.method).with_interval()))]);
        if let Some(untraced) = &self.untraced {
            page.line(0, &[(PLAIN, &format!("Without tracer  {}", Figure::of(untraced).with_interval()))]);
        }
        if figures::number(&breakdown.delegation).is_finite() {
            let delegation = Figure::of(&breakdown.delegation).with_interval();
            page.line(0, &[(PLAIN, &format!("In delegates    {delegation}"))]);
        }
        if figures::number(&breakdown.layout_conversion).is_finite() {
            let layout = Figure::of(&breakdown.layout_conversion).value;
            page.line(0, &[(PLAIN, &format!("Layout, copies  {layout}"))]);
        }
        if let Some(bytes) = self.program_bytes {
            let memory = self.peak_memory.as_ref().map(|memory| format!(", peak memory {}", Figure::of(memory).value));
            #[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^53")]
            let size = figures::bytes(bytes as f64);
            page.line(0, &[(PLAIN, &format!("Program         {size}{}", memory.unwrap_or_default()))]);
        }
    }

    fn worth_knowing(&self, page: &mut Page) {
        if self.insights.is_empty() {
            return;
        }
        page.gap();
        page.line(0, &[(HEADING, "Worth knowing")]);
        for insight in &self.insights {
            page.led(2, (PLAIN, "• "), PLAIN, &insight.text);
            if let Some(next) = &insight.next {
                match next.strip_prefix("delegate-doctor") {
                    Some(_) => page.command(4, next),
                    None => page.paragraph(4, FAINT, next),
                }
            }
        }
    }

    /// Apart from everything measured.
    fn projected(&self, page: &mut Page) {
        let Some(projection) = &self.projection else { return };
        page.gap();
        page.line(0, &[(HEADING, "With SME2, PROJECTED and not measured")]);
        let line = |name: &str, time: &Evidence, share: Option<&Evidence>| {
            let share = share.map_or_else(String::new, |share| format!("  {}", Figure::of(share).value));
            format!("{name:<16}{}{share}", Figure::of(time).value)
        };
        page.line(2, &[(PLAIN, &line("Method", &projection.method, None))]);
        page.line(2, &[(PLAIN, &line("Speed-up", &projection.ratio, None))]);
        for it in &projection.categories {
            let name = it.category.map_or("not known", Category::name);
            page.line(2, &[(PLAIN, &line(name, &it.time, Some(&it.share)))]);
        }
        if let Evidence::Projected(projected) = &projection.method {
            page.paragraph(2, FAINT, &format!("From {}", projected.basis));
        }
    }

    /// Time that belongs to no kernel.
    fn lines(&self) -> [(&'static str, &Evidence); 2] {
        [
            ("in delegates, ?", &self.breakdown.unexplained_in_delegates),
            ("between kernels", &self.breakdown.between_instructions),
        ]
    }

    fn outside(&self, page: &mut Page) {
        let time_of = |reason: &FallbackReason| {
            let row = self.breakdown.rows.iter().find(|row| row.instruction == reason.instruction && !row.delegated);
            row.map_or(0.0, |row| figures::number(&row.time))
        };
        let mut reasons: Vec<(&FallbackReason, f64)> = self.reasons.iter().map(|it| (it, time_of(it))).collect();
        if reasons.is_empty() {
            return;
        }
        reasons.sort_by(|left, right| right.1.total_cmp(&left.1));
        page.gap();
        page.line(0, &[(HEADING, "Outside of the delegate, and why")]);
        for (reason, time) in reasons.iter().take(SHOWN_FALLBACKS) {
            let place = reason.source.as_ref().map(|source| format!(" at {}:{}", source.file, source.line));
            let kernel =
                format!("{:>10}  {}{}", figures::milliseconds(*time), reason.kernel, place.unwrap_or_default());
            page.line(2, &[(PLAIN, &kernel)]);
            page.paragraph(14, FAINT, &reason.reason.text);
        }
        let more = reasons.len().saturating_sub(SHOWN_FALLBACKS) as u64;
        if more > 0 {
            page.line(2, &[(FAINT, &format!("and {more} more"))]);
        }
    }

    /// A row for each kernel, and one for each kind of time that belongs to none.
    ///
    /// # Errors
    /// None that memory does not have.
    pub fn csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record([
            "name",
            "delegated",
            "category",
            "instruction",
            "calls",
            "time_ms",
            "time_low_ms",
            "time_high_ms",
            "share",
            "evidence",
            "target",
            "samples",
        ])?;
        let runs = self.breakdown.runs.to_string();
        for row in &self.breakdown.rows {
            let (low, high) = ends(&row.time);
            writer.write_record([
                cell(&row.name).as_str(),
                if row.delegated { "true" } else { "false" },
                row.category.map_or("", Category::name),
                &row.instruction.to_string(),
                &row.calls.to_string(),
                &figures::number(&row.time).to_string(),
                &low,
                &high,
                &figures::number(&row.share).to_string(),
                "MEASURED",
                &self.target.name,
                &runs,
            ])?;
        }
        // Totals that have no kernels stand for them.
        for total in self.breakdown.categories.iter().filter(|_| self.breakdown.rows.is_empty()) {
            let name = total.category.map_or("not known", Category::name);
            let time = figures::number(&total.time).to_string();
            let share = figures::number(&total.share).to_string();
            let all = format!("(all of {name})");
            let target = self.target.name.as_str();
            writer.write_record([&all, "", name, "", "", &time, "", "", &share, "MEASURED", target, &runs])?;
        }
        for (name, time) in [
            ("(in delegates, not explained by their kernels)", &self.breakdown.unexplained_in_delegates),
            ("(between instructions)", &self.breakdown.between_instructions),
        ] {
            let time = figures::number(time);
            let time = if time.is_finite() { time.to_string() } else { String::new() };
            let target = self.target.name.as_str();
            writer.write_record([name, "", "", "", "", &time, "", "", "", "MEASURED", target, &runs])?;
        }
        writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
    }
}

/// A name that no spreadsheet takes for a formula and no terminal for a command.
pub fn cell(name: &str) -> String {
    let shown = super::visible::line(name);
    if name.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{shown}") } else { shown.into_owned() }
}

fn ends(evidence: &Evidence) -> (String, String) {
    figures::interval(evidence)
        .map_or((String::new(), String::new()), |interval| (interval.low.to_string(), interval.high.to_string()))
}

fn category_line(total: &CategoryTotal) -> String {
    let name = total.category.map_or("not known", Category::name);
    let outside = figures::number(&total.outside);
    let outside = if outside > 0.0 { format!(", {} outside", figures::milliseconds(outside)) } else { String::new() };
    format!(
        "{name:<16}{:>10}  {:>7}  {}{outside}",
        Figure::of(&total.time).value,
        Figure::of(&total.share).value,
        figures::counted(total.kernels, "kernel")
    )
}

fn bottleneck_line(bottleneck: &Bottleneck) -> String {
    let place = if bottleneck.delegated { "" } else { "  OUTSIDE" };
    format!(
        "{:>10}  {:>7}  {:<9}  at most {}  {} ×{}{place}",
        Figure::of(&bottleneck.time).value,
        Figure::of(&bottleneck.share).value,
        bottleneck.impact.name(),
        Figure::of(&bottleneck.at_most).value,
        bottleneck.family,
        bottleneck.kernels,
    )
}

/// The last traced run of the method as a timeline in the Trace Event Format
/// (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>), which Perfetto opens. Times are
/// µs since the run began. Delegates report their kernels on a row of their own.
pub fn chrome_trace(trace: &Trace, ns_per_tick: f64, target: &TargetLabel) -> serde_json::Value {
    let run = trace.runs.iter().rfind(|run| run.is_of_method());
    let begin = run.and_then(|run| run.events.iter().map(|event| event.start).min()).unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "a run of 2^53 ticks would last for months")]
    let micros = |ticks: u64| ticks as f64 * ns_per_tick / 1e3;
    let events = run.into_iter().flat_map(|run: &RunTrace| &run.events).map(|event| {
        json!({
            "name": event.name,
            "cat": if event.delegate { "delegate" } else { "runtime" },
            "ph": "X",
            "ts": micros(event.start.saturating_sub(begin)),
            "dur": micros(event.ticks()),
            "pid": 1,
            "tid": if event.delegate { 2 } else { 1 },
            "args": { "instruction": event.instruction },
        })
    });
    let names = [(1, "method"), (2, "kernels in delegates")].map(
        |(thread, name)| json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": { "name": name } }),
    );
    json!({
        "traceEvents": names.into_iter().chain(events).collect::<Vec<_>>(),
        "displayTimeUnit": "ms",
        "otherData": { "evidence": "MEASURED", "target": target.name },
    })
}
