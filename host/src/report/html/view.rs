//! The report as ready strings and lengths, in the order the page shows them.

mod hotspots;
mod repairs;

use serde::Serialize;

use crate::evidence::Evidence;
use crate::report::figures::{self, Figure};
use crate::report::model::{Comparison, Finding, FindingCode, Profile, Report, Stage, Step, TensorSummary};
use crate::report::wording::{self, Tone};
use crate::shell;

use self::hotspots::RankingView;
use self::repairs::{DeclinedView, TrialView};
use super::plot::{self, Samples, Strip};

/// A labelled figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fig {
    value: String,
    interval: Option<String>,
    /// `M` or `P`
    letter: String,
    label: String,
}

impl Fig {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let Figure { value, interval, kind, label, .. } = Figure::of(evidence);
        Self { value, interval, letter: kind.chars().take(1).collect(), label }
    }
}

/// The page.
#[derive(Serialize)]
pub(super) struct View {
    model: String,
    source: String,
    created: String,
    target: String,
    setting_line: String,
    status: &'static str,
    status_words: String,
    tone: &'static str,
    mark: &'static str,
    /// of the whole verdict: an alarm outranks the status
    box_tone: &'static str,
    alarms: Vec<&'static str>,
    headline: String,
    steps: Vec<Step>,
    hero: Option<Hero>,
    measured: bool,
    findings: Vec<FindingView>,
    bars: Vec<Bar>,
    rows: Vec<Row>,
    has_after: bool,
    overall: Option<ComparisonView>,
    checks: Vec<Check>,
    hotspots: RankingView,
    left: RankingView,
    trials: Vec<TrialView>,
    stop_reason: String,
    limits: Vec<String>,
    rounds: String,
    declined: Vec<DeclinedView>,
    stages: Vec<StageView>,
    total: String,
    command: String,
    reproduce: Vec<Step>,
    artifacts: Vec<ArtifactView>,
    about_model: Vec<(&'static str, String)>,
    about_setting: Vec<(&'static str, String)>,
    versions: Vec<(&'static str, String)>,
}

/// The figure that answers.
#[derive(Serialize)]
struct Hero {
    big: String,
    unit: String,
    tone: &'static str,
    interval: String,
    before: Option<Fig>,
    after: Option<Fig>,
    what: String,
    label: String,
}

#[derive(Serialize)]
struct FindingView {
    code: &'static str,
    tone: &'static str,
    mark: &'static str,
    open: bool,
    title: String,
    paragraphs: Vec<String>,
    mismatches: Vec<MismatchView>,
    facts: Vec<(String, String, String)>,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct MismatchView {
    output: String,
    inputs: String,
    error: Fig,
    allowed: Fig,
    scale: Fig,
}

/// Where a program's time goes.
#[derive(Serialize)]
struct Bar {
    name: &'static str,
    delegation: Fig,
    parts: Vec<Part>,
    words: String,
}

#[derive(Serialize)]
struct Part {
    name: String,
    width: f64,
    share: Fig,
    class: &'static str,
}

/// A line of the before/after table: figures, or plain counts of the program.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    before: Cell,
    after: Option<Cell>,
}

#[derive(Serialize)]
struct Cell {
    fig: Option<Fig>,
    text: String,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    agrees: bool,
    note: String,
}

/// Two programs measured side by side.
#[derive(Serialize)]
pub(super) struct ComparisonView {
    statistic: &'static str,
    before: Fig,
    after: Fig,
    ratio: Fig,
    speed: String,
    tone: &'static str,
    confidence: String,
    target: String,
    samples: Option<Samples>,
    strip: Option<Strip>,
    notes: Vec<String>,
}

impl ComparisonView {
    pub(super) fn of(comparison: &Comparison) -> Self {
        let (speed, tone) = wording::speed(comparison);
        Self {
            statistic: comparison.statistic.of_latency(),
            before: Fig::of(&comparison.before),
            after: Fig::of(&comparison.after),
            ratio: Fig::of(&comparison.ratio),
            speed,
            tone: tone.name(),
            confidence: figures::interval(&comparison.ratio).map(figures::confidence).unwrap_or_default(),
            target: figures::on_target(&comparison.target),
            samples: plot::samples(comparison),
            strip: plot::strip(comparison),
            notes: comparison.notes.clone(),
        }
    }
}

#[derive(Serialize)]
struct StageView {
    name: String,
    note: String,
    seconds: String,
    width: f64,
}

#[derive(Serialize)]
struct ArtifactView {
    path: String,
    what: String,
    bytes: String,
    sha256: String,
}

impl View {
    pub(super) fn of(report: &Report) -> Self {
        let setting = &report.setting;
        let status = report.verdict.status;
        let mut tone = wording::status_tone(status);
        let alarms: Vec<_> = report.alarms().filter_map(code).collect();
        let box_tone = if report.alarms().next().is_some() { Tone::Bad } else { tone };
        if tone == Tone::Good && box_tone == Tone::Bad {
            tone = Tone::Warn;
        }
        let target = figures::on_target(&setting.target);
        let profiles: Vec<(&'static str, &Profile)> = [("original", &report.original), ("repaired", &report.repaired)]
            .into_iter()
            .filter_map(|(name, profile)| Some((name, profile.as_ref()?)))
            .collect();
        Self {
            model: report.model.name.clone(),
            source: report.model.source.clone(),
            created: created(&report.created),
            setting_line: format!(
                "{}, executorch {}",
                figures::counted(u64::from(setting.threads), "thread"),
                setting.executorch
            ),
            status: status.name(),
            status_words: wording::status(status, report.verdict.gate),
            tone: tone.name(),
            mark: tone.mark(),
            box_tone: box_tone.name(),
            alarms,
            headline: report.verdict.headline.clone(),
            steps: report.verdict.next_steps.clone(),
            hero: hero(report),
            measured: report.original.is_some(),
            findings: report.ranked_findings().into_iter().map(finding).collect(),
            bars: profiles.iter().map(|(name, profile)| bar(name, profile)).collect(),
            rows: rows(report),
            has_after: report.repaired.is_some(),
            overall: report.overall.as_ref().map(ComparisonView::of),
            checks: profiles
                .iter()
                .filter_map(|(name, profile)| {
                    let check = profile.cross_check.as_ref()?;
                    Some(Check { name, agrees: check.agrees, note: check.note.clone() })
                })
                .collect(),
            hotspots: hotspots::all(report.original.as_ref(), &report.trials),
            left: hotspots::all(report.repaired.as_ref(), &report.trials),
            trials: report
                .trials
                .iter()
                .enumerate()
                .map(|(number, trial)| repairs::trial(number + 1, trial, report.overall.as_ref()))
                .collect(),
            stop_reason: report.search.stop_reason.clone(),
            limits: report
                .search
                .limits
                .iter()
                .map(|limit| format!("{} {}{}", limit.name, limit.value, if limit.reached { " (reached)" } else { "" }))
                .collect(),
            rounds: figures::counted(u64::from(report.search.rounds), "round"),
            declined: repairs::declined(&report.declined),
            stages: stages(&report.stages),
            total: figures::seconds(report.stages.iter().map(|stage| stage.seconds).sum()),
            command: shell::line(&report.command),
            reproduce: report.reproduce.clone(),
            artifacts: report
                .artifacts
                .iter()
                .map(|artifact| ArtifactView {
                    path: artifact.path.display().to_string(),
                    what: artifact.what.clone(),
                    bytes: bytes(artifact.bytes),
                    sha256: artifact.sha256.clone(),
                })
                .collect(),
            about_model: about_model(report),
            about_setting: about_setting(report, &target),
            versions: versions(report),
            target,
        }
    }
}

fn hero(report: &Report) -> Option<Hero> {
    if let Some(overall) = &report.overall {
        let (speed, tone) = wording::speed(overall);
        let ratio = Figure::of(&overall.ratio);
        let unit = speed.strip_prefix(&ratio.value).unwrap_or_default().trim_start_matches(',').trim().to_owned();
        let interval = match (&ratio.interval, figures::interval(&overall.ratio)) {
            (Some(text), Some(interval)) => format!("{} interval {text}", figures::confidence(interval)),
            _ => String::new(),
        };
        return Some(Hero {
            big: ratio.value,
            unit,
            tone: tone.name(),
            interval,
            before: Some(Fig::of(&overall.before)),
            after: Some(Fig::of(&overall.after)),
            what: format!("{}, original → repaired", overall.statistic.of_latency()),
            label: ratio.label,
        });
    }
    if let Some(worst) = report.alarms().find_map(|alarm| alarm.mismatches.first()) {
        let error = Figure::of(&worst.error);
        return Some(Hero {
            big: error.value,
            unit: "largest error against eager PyTorch".to_owned(),
            tone: Tone::Bad.name(),
            interval: String::new(),
            before: Some(Fig::of(&worst.allowed)),
            after: None,
            what: "is allowed for this output".to_owned(),
            label: error.label,
        });
    }
    let original = report.original.as_ref()?;
    let delegation = Figure::of(&original.delegation);
    Some(Hero {
        big: delegation.value,
        unit: "of the runtime in XNNPACK".to_owned(),
        tone: Tone::Neutral.name(),
        interval: String::new(),
        before: Some(Fig::of(&original.method_time)),
        after: None,
        what: "median latency of the original".to_owned(),
        label: delegation.label,
    })
}

/// The code of a finding that has one of its own.
fn code(finding: &Finding) -> Option<&'static str> {
    (finding.code != FindingCode::Other).then(|| finding.code.name())
}

fn finding(finding: &Finding) -> FindingView {
    let tone = wording::severity_tone(finding.severity);
    FindingView {
        code: code(finding).unwrap_or_default(),
        tone: tone.name(),
        mark: tone.mark(),
        open: tone != Tone::Neutral,
        title: finding.title.clone(),
        paragraphs: finding.text.lines().map(str::to_owned).filter(|line| !line.trim().is_empty()).collect(),
        mismatches: finding
            .mismatches
            .iter()
            .map(|mismatch| MismatchView {
                output: mismatch.output.clone(),
                inputs: mismatch.input_set.clone(),
                error: Fig::of(&mismatch.error),
                allowed: Fig::of(&mismatch.allowed),
                scale: Fig::of(&mismatch.scale),
            })
            .collect(),
        facts: repairs::facts(&finding.facts),
        steps: finding.steps.clone(),
    }
}

fn bar(name: &'static str, profile: &Profile) -> Bar {
    const NAMED: usize = 3;
    let delegation = Fig::of(&profile.delegation);
    let width = |evidence: &Evidence| (figures::number(evidence) * 100.0).clamp(0.0, 100.0);
    let mut parts = vec![Part {
        name: "in XNNPACK".to_owned(),
        width: width(&profile.delegation),
        share: delegation.clone(),
        class: "inside",
    }];
    for hotspot in profile.hotspots.iter().take(NAMED) {
        parts.push(Part {
            name: wording::short_op(&hotspot.kernel).to_owned(),
            width: width(&hotspot.share),
            share: Fig::of(&hotspot.share),
            class: "outside",
        });
    }
    let words: Vec<String> = parts.iter().map(|part| format!("{} {}", part.name, part.share.value)).collect();
    Bar { name, delegation, words: words.join(", "), parts }
}

fn rows(report: &Report) -> Vec<Row> {
    let Some(original) = &report.original else { return Vec::new() };
    let figure = |evidence: &Evidence| Cell { fig: Some(Fig::of(evidence)), text: String::new() };
    let text = |text: String| Cell { fig: None, text };
    let row = |name, of: &dyn Fn(&Profile) -> Cell| Row {
        name,
        before: of(original),
        after: report.repaired.as_ref().map(of),
    };
    let what = report.overall.as_ref().map_or("median latency", |overall| overall.statistic.of_latency());
    let mut latency = row(what, &|profile| figure(&profile.method_time));
    if let Some(overall) = &report.overall {
        latency.before = figure(&overall.before);
        latency.after = Some(figure(&overall.after));
    }
    let mut rows = vec![
        latency,
        row("runtime in XNNPACK", &|profile| figure(&profile.delegation)),
        row("delegate calls", &|profile| text(figures::grouped(profile.partitions))),
        row("nodes outside", &|profile| text(figures::grouped(profile.fallbacks))),
        row("program size", &|profile| text(bytes(profile.program_bytes))),
    ];
    if original.peak_memory.is_some() {
        rows.push(row("peak memory", &|profile| match &profile.peak_memory {
            Some(memory) => figure(memory),
            None => text("not measured".to_owned()),
        }));
    }
    rows
}

fn stages(stages: &[Stage]) -> Vec<StageView> {
    let longest = stages.iter().map(|stage| stage.seconds).filter(|seconds| seconds.is_finite()).fold(0.0, f64::max);
    stages
        .iter()
        .map(|stage| {
            let round = stage.round.map(|round| format!("round {round}"));
            let reused = stage.reused.as_ref().map(|what| format!("reused: {what}"));
            StageView {
                name: stage.name.clone(),
                note: [round, reused].into_iter().flatten().collect::<Vec<_>>().join(", "),
                seconds: figures::seconds(stage.seconds),
                width: if longest > 0.0 { (stage.seconds / longest * 100.0).clamp(0.0, 100.0) } else { 0.0 },
            }
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bytes(bytes: u64) -> String {
    figures::bytes(bytes as f64)
}

/// `29 Nov 2026, 14:03 +01:00`; what is no time stamp is shown as it is.
fn created(text: &str) -> String {
    let zoned = text.parse::<jiff::ZonedDateTime>().map(|time| time.strftime("%-d %b %Y, %H:%M %:z").to_string());
    let stamp = || text.parse::<jiff::Timestamp>().map(|time| time.strftime("%-d %b %Y, %H:%M UTC").to_string());
    zoned.or_else(|_| stamp()).unwrap_or_else(|_| text.to_owned())
}

fn tensors(tensors: &[TensorSummary]) -> String {
    let one = |tensor: &TensorSummary| format!("{}: {} {}", tensor.name, tensor.dtype, tensor.sizes.join("×"));
    tensors.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn about_model(report: &Report) -> Vec<(&'static str, String)> {
    let model = &report.model;
    vec![
        ("Source", model.source.clone()),
        ("Parameters", figures::grouped(model.parameters)),
        ("Graph", figures::counted(model.nodes, "node")),
        ("Inputs", tensors(&model.inputs)),
        ("Outputs", tensors(&model.outputs)),
        ("Fingerprint", model.fingerprint.clone()),
    ]
}

fn about_setting(report: &Report, target: &str) -> Vec<(&'static str, String)> {
    let setting = &report.setting;
    let cpu = format!("{}, {}", setting.cpu, figures::counted(u64::from(setting.processors), "processor"));
    vec![
        ("Measured", target.to_owned()),
        ("Processor", cpu),
        ("System", setting.system.clone()),
        ("Threads", setting.threads.to_string()),
        ("Python", setting.python.clone()),
        ("torch", setting.torch.clone()),
        ("executorch", setting.executorch.clone()),
        ("Seed", setting.seed.to_string()),
    ]
}

fn versions(report: &Report) -> Vec<(&'static str, String)> {
    let versions = &report.versions;
    vec![
        ("Delegate Doctor", versions.tool.clone()),
        ("Rule interface (WIT)", versions.wit.clone()),
        ("Report", report.version.to_string()),
        ("Worker protocol", versions.worker_protocol.to_string()),
        ("Runner protocol", versions.runner_protocol.to_string()),
    ]
}
