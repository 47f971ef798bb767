//! The page of one profile.

use serde::Serialize;

use super::module_map::ModuleMap;
use super::view::Fig;
use super::{Data, Delivery, Error, fill_with_tables, script_json};
use crate::evidence::Evidence;
use crate::profile::breakdown::{Bottleneck, CategoryTotal, Impact, Row};
use crate::profile::category::Category;
use crate::profile::projection::{ProjectedCategory, Projection};
use crate::report::breakdown::{FallbackReason, ProfileDocument, ProfileInsight};
use crate::report::figures::{self, Figure};
use crate::report::timeline::Span;

/// Spans that a timeline draws.
const DRAWN: usize = 2000;
/// Fallbacks that are explained before the rest is folded.
const SHOWN_FALLBACKS: usize = 12;
/// Width of the drawn timeline, in units of its view box.
const TIMELINE_WIDTH: f64 = 1000.0;
/// The narrowest box that can still be seen.
const NARROWEST: f64 = 0.5;

/// Renders the page of a profile, with the spans of one traced run where they are known.
///
/// # Errors
/// None that memory does not have.
pub fn render_profile(document: &ProfileDocument, timeline: Option<&[Span]>) -> Result<String, Error> {
    render_profile_for(document, timeline, Delivery::File)
}

/// As [`render_profile`], for a place to read it at.
///
/// # Errors
/// As [`render_profile`].
pub fn render_profile_for(
    document: &ProfileDocument,
    timeline: Option<&[Span]>,
    delivery: Delivery<'_>,
) -> Result<String, Error> {
    let data = Data { name: "profile.json", json: script_json(document)? };
    fill_with_tables("profile.html", View::of(document, timeline), &data, delivery)
}

#[derive(Serialize)]
struct View {
    subject: String,
    /// `MEASURED on …, 3 traced runs, 2 threads`
    place: String,
    /// why these times are not those of a physical Arm CPU
    warning: Option<String>,
    method: Fig,
    method_interval: Option<String>,
    /// none where only totals are known
    delegation: Option<Fig>,
    delegation_interval: Option<String>,
    /// what limits the figures
    notes: Vec<String>,
    projection: Option<ProjectionView>,
    figures: Vec<(&'static str, Fig, &'static str)>,
    program: Option<String>,
    parts: Vec<Part>,
    words: String,
    lines: Vec<(&'static str, Fig, &'static str)>,
    map: ModuleMap,
    families: Vec<FamilyRow>,
    categories: Vec<&'static str>,
    rows: Vec<KernelRow>,
    reasons: Vec<ReasonView>,
    more_reasons: Vec<ReasonView>,
    insights: Vec<ProfileInsight>,
    timeline: Option<Timeline>,
    unknown: Vec<String>,
}

/// What the profile may become with SME2, apart from everything measured.
#[derive(Serialize)]
struct ProjectionView {
    method: Fig,
    ratio: Fig,
    basis: String,
    categories: Vec<(&'static str, Fig, Fig)>,
}

impl ProjectionView {
    fn of(projection: &Projection) -> Self {
        let row = |it: &ProjectedCategory| {
            (it.category.map_or("not known", Category::name), Fig::of(&it.time), Fig::of(&it.share))
        };
        Self {
            method: Fig::of(&projection.method),
            ratio: Fig::of(&projection.ratio),
            basis: Figure::of(&projection.method).label,
            categories: projection.categories.iter().map(row).collect(),
        }
    }
}

/// A category in the bar and in the table beside it.
#[derive(Serialize)]
struct Part {
    name: &'static str,
    class: &'static str,
    /// in per cent of the bar
    width: f64,
    time: Fig,
    share: Fig,
    outside: Fig,
    kernels: u64,
    sort: [f64; 3],
}

#[derive(Serialize)]
struct FamilyRow {
    family: String,
    outside: bool,
    category: &'static str,
    class: &'static str,
    impact: &'static str,
    tone: &'static str,
    impact_rank: u8,
    kernels: u64,
    time: Fig,
    share: Fig,
    at_most: Fig,
    sort: [f64; 3],
}

#[derive(Serialize)]
struct KernelRow {
    number: usize,
    name: String,
    outside: bool,
    category: &'static str,
    class: &'static str,
    instruction: i64,
    module: String,
    calls: String,
    time: String,
    interval: String,
    share: String,
    sort: [f64; 3],
}

#[derive(Serialize)]
struct ReasonView {
    kernel: String,
    instruction: i64,
    time: Option<Fig>,
    at: Option<String>,
    source: Option<String>,
    module: String,
    nodes: String,
    why: String,
    partitioner: String,
}

/// One run, drawn.
#[derive(Serialize)]
struct Timeline {
    boxes: Vec<TimeBox>,
    /// text and its place, in per cent
    ticks: Vec<(String, f64)>,
    /// shorter spans that are not drawn
    left_out: usize,
    words: String,
}

#[derive(Serialize)]
struct TimeBox {
    x: f64,
    width: f64,
    /// 0 for the method, 1 for kernels in delegates
    row: u8,
    class: &'static str,
    title: String,
}

/// Class of the style sheet that gives a category its colour.
pub(super) fn category_class(category: Option<Category>) -> &'static str {
    match category {
        Some(Category::Conv2d) => "c0",
        Some(Category::Gemm) => "c1",
        Some(Category::Elementwise) => "c2",
        Some(Category::Normalization) => "c3",
        Some(Category::DataMovement) => "c4",
        Some(Category::Other) => "c5",
        None => "c6",
    }
}

/// As people read it.
pub(super) fn category_name(category: Option<Category>) -> &'static str {
    category.map_or("not known", Category::name)
}

/// What of `part` is part of `whole`, in per cent from 0 to 100.
pub(super) fn per_cent(part: f64, whole: f64) -> f64 {
    let share = part / whole * 100.0;
    if share.is_finite() { share.clamp(0.0, 100.0) } else { 0.0 }
}

/// What a table sorts a figure by: a plain number for the script, which knows no other spelling of infinity.
pub(super) fn sort_key(evidence: &Evidence) -> f64 {
    figures::number(evidence).clamp(-1e300, 1e300)
}

/// Why times of this document are not those of a physical Arm CPU.
pub(super) fn warning(target: &crate::evidence::TargetLabel) -> Option<String> {
    if target.measures_speed() {
        return None;
    }
    let what = if target.kind == "qemu" { "Emulated" } else { "Not a physical Arm CPU" };
    Some(format!("{what}: these times say what ran, and nothing about the speed of an Arm CPU"))
}

impl View {
    fn of(document: &ProfileDocument, timeline: Option<&[Span]>) -> Self {
        let breakdown = &document.breakdown;
        let mut place = format!(
            "MEASURED {}, {}",
            figures::on_target(&document.target),
            figures::counted(breakdown.runs, "traced run")
        );
        if let Some(threads) = document.threads {
            place.push_str(&format!(", {}", figures::counted(u64::from(threads), "thread")));
        }
        let measured = [
            ("Without tracer", document.untraced.as_ref(), "median of runs without a tracer"),
            (
                "Layout, copies",
                Some(&breakdown.layout_conversion),
                "kernels that only copy or change a layout, also counted in their categories",
            ),
            ("Peak memory", document.peak_memory.as_ref(), "of the process that ran the program"),
        ];
        let lines = [
            (
                "In delegates, not explained",
                &breakdown.unexplained_in_delegates,
                "delegate calls without the kernels that the delegate reports: the boundary, buffers, rounding of its clock",
            ),
            ("Between instructions", &breakdown.between_instructions, "of the method, outside of all its instructions"),
        ];
        let modules: std::collections::HashMap<i64, &str> =
            document.modules.iter().map(|module| (module.instruction, module.module_path.as_str())).collect();
        let method = figures::number(&breakdown.method);
        let known = figures::number(&breakdown.delegation).is_finite();
        let parts: Vec<Part> = breakdown.categories.iter().map(|total| part(total, method)).collect();
        let mut reasons = reasons(document);
        let more_reasons = reasons.split_off(reasons.len().min(SHOWN_FALLBACKS));
        Self {
            subject: document.subject.clone(),
            place,
            warning: warning(&document.target),
            method: Fig::of(&breakdown.method),
            method_interval: interval(&breakdown.method),
            delegation: known.then(|| Fig::of(&breakdown.delegation)),
            delegation_interval: interval(&breakdown.delegation).filter(|_| known),
            notes: document.notes.clone(),
            projection: document.projection.as_ref().map(ProjectionView::of),
            figures: measured
                .into_iter()
                .filter_map(|(name, evidence, what)| Some((name, Fig::of(evidence?), what)))
                .collect(),
            #[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^53")]
            program: document.program_bytes.map(|bytes| figures::bytes(bytes as f64)),
            words: words(&breakdown.categories),
            categories: parts.iter().map(|part| part.name).collect(),
            parts,
            lines: lines.map(|(name, evidence, what)| (name, Fig::of(evidence), what)).into(),
            map: ModuleMap::of(document),
            families: breakdown.bottlenecks.iter().map(family).collect(),
            rows: breakdown
                .rows
                .iter()
                .enumerate()
                .map(|(at, row)| kernel(at + 1, row, modules.get(&row.instruction).copied()))
                .collect(),
            reasons,
            more_reasons,
            insights: document.insights.clone(),
            timeline: timeline.and_then(draw),
            unknown: breakdown.unknown.clone(),
        }
    }
}

/// `99 % interval 1.94–2.01×`.
pub(super) fn interval(evidence: &Evidence) -> Option<String> {
    let text = Figure::of(evidence).interval?;
    let confidence = figures::interval(evidence).map(figures::confidence)?;
    Some(format!("{confidence} interval {text}"))
}

fn part(total: &CategoryTotal, method: f64) -> Part {
    let time = figures::number(&total.time);
    Part {
        name: category_name(total.category),
        class: category_class(total.category),
        width: per_cent(time, method),
        time: Fig::of(&total.time),
        share: Fig::of(&total.share),
        outside: Fig::of(&total.outside),
        kernels: total.kernels,
        sort: [&total.time, &total.share, &total.outside].map(sort_key),
    }
}

fn words(categories: &[CategoryTotal]) -> String {
    let told = |total: &CategoryTotal| format!("{} {}", category_name(total.category), Figure::of(&total.share).value);
    categories.iter().map(told).collect::<Vec<_>>().join(", ")
}

fn family(bottleneck: &Bottleneck) -> FamilyRow {
    let (impact_rank, tone) = match bottleneck.impact {
        Impact::VeryHigh => (3, "bad"),
        Impact::High => (2, "warn"),
        Impact::Medium => (1, "neutral"),
        Impact::Low => (0, "neutral"),
    };
    FamilyRow {
        family: bottleneck.family.clone(),
        outside: !bottleneck.delegated,
        category: category_name(bottleneck.category),
        class: category_class(bottleneck.category),
        impact: bottleneck.impact.name(),
        tone,
        impact_rank,
        kernels: bottleneck.kernels,
        time: Fig::of(&bottleneck.time),
        share: Fig::of(&bottleneck.share),
        at_most: Fig::of(&bottleneck.at_most),
        sort: [&bottleneck.time, &bottleneck.share, &bottleneck.at_most].map(sort_key),
    }
}

fn kernel(number: usize, row: &Row, module: Option<&str>) -> KernelRow {
    let time = Figure::of(&row.time);
    KernelRow {
        number,
        name: row.name.clone(),
        outside: !row.delegated,
        category: category_name(row.category),
        class: category_class(row.category),
        instruction: row.instruction,
        module: module.unwrap_or_default().to_owned(),
        calls: figures::plain(row.calls),
        time: time.value,
        interval: time.interval.unwrap_or_default(),
        share: Figure::of(&row.share).value,
        sort: [row.calls, sort_key(&row.time), sort_key(&row.share)],
    }
}

/// The costliest first.
fn reasons(document: &ProfileDocument) -> Vec<ReasonView> {
    let time_of = |reason: &FallbackReason| {
        let rows = &document.breakdown.rows;
        rows.iter().find(|row| row.instruction == reason.instruction && !row.delegated).map(|row| &row.time)
    };
    let mut found: Vec<(&FallbackReason, Option<&Evidence>)> =
        document.reasons.iter().map(|reason| (reason, time_of(reason))).collect();
    let number = |time: Option<&Evidence>| time.map_or(0.0, figures::number);
    found.sort_by(|left, right| number(right.1).total_cmp(&number(left.1)));
    found
        .into_iter()
        .map(|(reason, time)| ReasonView {
            kernel: reason.kernel.clone(),
            instruction: reason.instruction,
            time: time.map(Fig::of),
            at: reason.source.as_ref().map(|source| format!("{}:{}", source.file, source.line)),
            source: reason.source.as_ref().map(|source| source.text.clone()).filter(|text| !text.is_empty()),
            module: reason.module_path.clone(),
            nodes: reason.nodes.join(", "),
            why: reason.reason.text.clone(),
            partitioner: reason.reason.partitioner.clone(),
        })
        .collect()
}

/// Draws the longest spans of a run; none when nothing took any time.
fn draw(spans: &[Span]) -> Option<Timeline> {
    // The method itself is as long as the drawing.
    let mut drawn: Vec<&Span> = spans
        .iter()
        .filter(|span| span.instruction.is_some() || span.delegated)
        .filter(|span| span.start_us.is_finite() && span.duration_us.is_finite())
        .collect();
    let begin = drawn.iter().map(|span| span.start_us).reduce(f64::min)?;
    let end = drawn.iter().map(|span| span.start_us + span.duration_us).reduce(f64::max)?;
    let length = end - begin;
    if !(length.is_finite() && length > 0.0) {
        return None;
    }
    drawn.sort_by(|left, right| right.duration_us.total_cmp(&left.duration_us));
    let left_out = drawn.len().saturating_sub(DRAWN);
    drawn.truncate(DRAWN);
    let rounded = |units: f64| (units * 100.0).round() / 100.0;
    let boxes = drawn.iter().map(|span| TimeBox {
        x: rounded((span.start_us - begin) / length * TIMELINE_WIDTH),
        width: rounded((span.duration_us / length * TIMELINE_WIDTH).max(NARROWEST)),
        row: u8::from(span.delegated),
        class: match span.name.as_str() {
            _ if span.delegated => "kernel",
            "DELEGATE_CALL" => "inside",
            _ => "outside",
        },
        title: format!(
            "{}: {} from {}",
            span.name,
            figures::milliseconds(span.duration_us / 1e3),
            figures::milliseconds((span.start_us - begin) / 1e3)
        ),
    });
    let tick = |part: f64| (figures::milliseconds(length * part / 1e3), part * 100.0);
    let kernels = spans.iter().filter(|span| span.delegated).count() as u64;
    Some(Timeline {
        boxes: boxes.collect(),
        ticks: [0.0, 0.25, 0.5, 0.75, 1.0].map(tick).into(),
        left_out,
        words: format!(
            "One run of {}: instructions of the method above, {} in delegates below",
            figures::milliseconds(length / 1e3),
            figures::counted(kernels, "kernel")
        ),
    })
}

#[cfg(test)]
pub(in crate::report) mod samples;
#[cfg(test)]
mod tests;
