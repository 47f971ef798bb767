//! The summary that a person reads in a terminal: at most [`layout::WIDTH`] columns, complete without
//! colour, the verdict first and the next command last.
//!
//! Styles are escape sequences; the caller prints through a stream that drops them where they are not
//! wanted.

use std::path::Path;

use super::figures::{self, Figure};
use super::layout::{self, BAD, COMMAND, FAINT, GOOD, HEADING, PLAIN, Page, WARN};
use super::model::{Finding, FindingCode, Hotspot, HotspotNode, Profile, Report, RuleOutcome, Severity, Step, Trial};
use super::wording::{self, Tone};
use crate::evidence::{Evidence, TargetLabel};
use crate::insight;

/// Hotspots shown; the rest is counted.
const HOTSPOTS: usize = 6;
/// Source lines shown for a hotspot.
const LINES: usize = 3;
/// Columns of a bar.
const BAR: usize = 24;

/// Renders the summary. `folder` is where the run's files are, as the user would type it.
pub fn render(report: &Report, folder: Option<&Path>) -> String {
    let mut page = Page::default();
    verdict(&mut page, report);
    for finding in report.ranked_findings() {
        show_finding(&mut page, finding);
    }
    numbers(&mut page, report);
    hotspots(&mut page, report);
    trials(&mut page, report);
    files(&mut page, report, folder);
    steps(&mut page, &report.verdict.next_steps);
    page.finish()
}

pub(super) fn style(tone: Tone) -> anstyle::Style {
    match tone {
        Tone::Good => GOOD,
        Tone::Bad => BAD,
        Tone::Warn => WARN,
        Tone::Neutral => HEADING,
    }
}

fn verdict(page: &mut Page, report: &Report) {
    let setting = &report.setting;
    page.line(0, &[(HEADING, &report.model.name), (FAINT, "  "), (FAINT, &report.model.source)]);
    let threads = figures::counted(u64::from(setting.threads), "thread");
    let place =
        format!("MEASURED {}, {threads}, executorch {}", figures::on_target(&setting.target), setting.executorch);
    page.line(0, &[(FAINT, &place)]);
    page.gap();
    let status = report.verdict.status;
    let mut tone = wording::status_tone(status);
    if tone == Tone::Good && report.alarms().next().is_some() {
        tone = Tone::Warn;
    }
    let mut name = status.name().to_owned();
    if let Some(gate) = report.verdict.gate {
        name.push_str(&format!(" ({})", wording::gate_name(gate)));
    }
    page.line(0, &[(style(tone), &format!("{} {name}", tone.mark()))]);
    page.paragraph(2, PLAIN, &report.verdict.headline);
}

fn show_finding(page: &mut Page, finding: &Finding) {
    let tone = wording::severity_tone(finding.severity);
    page.gap();
    let lead = match finding.code {
        FindingCode::Other => format!("{} ", tone.mark()),
        code => format!("{} {}  ", tone.mark(), code.name()),
    };
    page.led(0, (style(tone), &lead), HEADING, &finding.title);
    if finding.severity == Severity::Note {
        return;
    }
    page.paragraph(2, PLAIN, &finding.text);
    for mismatch in &finding.mismatches {
        let of = |evidence: &Evidence| Figure::of(evidence).value;
        let text = format!(
            "{} off by {}, where {} is allowed and the output varies by {}",
            mismatch.output,
            of(&mismatch.error),
            of(&mismatch.allowed),
            of(&mismatch.scale)
        );
        page.led(2, (HEADING, &format!("{}: ", mismatch.input_set)), PLAIN, &text);
    }
    for fact in &finding.facts {
        page.led(2, (PLAIN, &format!("{}: ", fact.name)), PLAIN, &format!("{} ({})", fact.value, fact.source));
    }
    for step in &finding.steps {
        page.led(2, (PLAIN, "→ "), PLAIN, &step.text);
        if let Some(command) = &step.command {
            page.command(4, command);
        }
    }
}

/// A row of the before/after table.
struct Row {
    name: &'static str,
    before: String,
    after: Option<String>,
    remark: String,
}

fn numbers(page: &mut Page, report: &Report) {
    let Some(original) = &report.original else { return };
    let target = &report.setting.target;
    let repaired = report.repaired.as_ref();
    let figure = |evidence: &Evidence| Figure::of(evidence).beside(target);
    let row = |name, of: &dyn Fn(&Profile) -> String| Row {
        name,
        before: of(original),
        after: repaired.map(of),
        remark: String::new(),
    };
    let mut rows = Vec::new();
    let what = report.overall.as_ref().map_or("median latency", |overall| overall.statistic.of_latency());
    let mut latency = row(what, &|profile| figure(&profile.method_time));
    if let Some(overall) = &report.overall {
        latency.before = figure(&overall.before);
        latency.after = Some(figure(&overall.after));
        let (speed, _) = wording::speed(overall);
        let ratio = Figure::of(&overall.ratio);
        latency.remark = match &ratio.interval {
            Some(interval) => {
                let sure = figures::interval(&overall.ratio).map(figures::confidence).unwrap_or_default();
                format!("{speed} ({sure} interval {interval})")
            }
            None => speed,
        };
    }
    rows.push(latency);
    let mut delegation = row("runtime in XNNPACK", &|profile| figure(&profile.delegation));
    delegation.remark = bar(figures::number(&report.current().unwrap_or(original).delegation));
    rows.push(delegation);
    rows.push(row("delegate calls", &|profile| figures::grouped(profile.partitions)));
    rows.push(row("nodes outside", &|profile| figures::grouped(profile.fallbacks)));
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    rows.push(row("program size", &|profile| figures::bytes(profile.program_bytes as f64)));
    if original.peak_memory.is_some() {
        rows.push(row("peak memory", &|profile| {
            profile.peak_memory.as_ref().map_or_else(|| "not measured".to_owned(), figure)
        }));
    }
    page.gap();
    let wide = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let (left, middle) =
        (wide(&|row| layout::width(&row.before)), wide(&|row| row.after.as_deref().map_or(0, layout::width)));
    for row in &rows {
        let mut text = layout::pad_left(&row.before, left);
        if let Some(after) = &row.after {
            text.push_str(&format!(" → {}", layout::pad_left(after, middle)));
        }
        let remark = if row.remark.is_empty() { String::new() } else { format!("   {}", row.remark) };
        page.line(2, &[(FAINT, &layout::pad(row.name, 20)), (HEADING, &text), (PLAIN, &remark)]);
    }
    for profile in [Some(original), repaired].into_iter().flatten() {
        if let Some(check) = profile.cross_check.as_ref().filter(|check| !check.agrees) {
            page.led(2, (WARN, "! "), PLAIN, &check.note);
        }
    }
}

fn bar(share: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "0 to BAR"
    )]
    let full = (share.clamp(0.0, 1.0) * BAR as f64).floor() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
}

fn hotspots(page: &mut Page, report: &Report) {
    let Some(original) = report.original.as_ref().filter(|profile| !profile.hotspots.is_empty()) else { return };
    page.heading(if report.repaired.is_some() {
        "Outside XNNPACK in the original, by share of its runtime"
    } else {
        "Outside XNNPACK, by share of the runtime"
    });
    for hotspot in original.hotspots.iter().take(HOTSPOTS) {
        show_hotspot(page, hotspot, &report.setting.target, report);
    }
    let rest = original.hotspots.len().saturating_sub(HOTSPOTS);
    if rest > 0 {
        page.line(
            2,
            &[(FAINT, &format!("and {} more; `explain` lists them", figures::counted(rest as u64, "kernel")))],
        );
    }
}

fn show_hotspot(page: &mut Page, hotspot: &Hotspot, target: &TargetLabel, report: &Report) {
    let share = layout::pad_left(&Figure::of(&hotspot.share).beside(target), 7);
    let calls = figures::counted(hotspot.calls, "call");
    page.line(2, &[(HEADING, &share), (PLAIN, "  "), (HEADING, &hotspot.kernel), (FAINT, "  "), (FAINT, &calls)]);
    let mut shown: Vec<String> = Vec::new();
    for node in &hotspot.nodes {
        let place = place(node);
        if !shown.contains(&place) {
            shown.push(place);
        }
    }
    for place in shown.iter().take(LINES) {
        page.line(11, &[(COMMAND, place)]);
    }
    if shown.len() > LINES {
        page.line(11, &[(FAINT, &format!("and {}", figures::counted((shown.len() - LINES) as u64, "more line")))]);
    }
    let Some(first) = hotspot.nodes.first() else { return };
    let insight = insight::explain(&first.op, &first.reason);
    page.led(11, (PLAIN, "why: "), PLAIN, &insight.plain);
    match answer(hotspot, report) {
        Some(answer) => page.led(11, (PLAIN, "     "), PLAIN, &answer),
        None => {
            if let Some(fix) = insight.fix {
                page.led(11, (PLAIN, "fix: "), PLAIN, fix);
            }
        }
    }
}

/// `heads.py:24  return self.activation(…)`.
pub(super) fn place(node: &HotspotNode) -> String {
    match &node.source {
        Some(source) => {
            let at = layout::cut_path(&format!("{}:{}", source.file, source.line), 44);
            format!("{at}  {}", source.text)
        }
        None if node.module_path.is_empty() => node.node.clone(),
        None => format!("{} in {}", node.node, node.module_path),
    }
}

/// What rules made of a hotspot, when any offered something.
fn answer(hotspot: &Hotspot, report: &Report) -> Option<String> {
    let mut rules: Vec<String> = Vec::new();
    for verdict in hotspot.nodes.iter().flat_map(|node| &node.rules) {
        if verdict.outcome == RuleOutcome::Matched && !rules.contains(&verdict.rule.id) {
            rules.push(verdict.rule.id.clone());
        }
    }
    let first = rules.first()?;
    let tried = report.trials.iter().rev().find(|trial| &trial.rule.id == first);
    Some(match tried {
        Some(trial) => format!("{first}: {}", wording::outcome(trial.outcome, trial.gate).0),
        None => format!("{first} offers a repair that was not tried"),
    })
}

fn trials(page: &mut Page, report: &Report) {
    if report.trials.is_empty() {
        return;
    }
    page.heading("Repairs tried");
    for trial in &report.trials {
        show_trial(page, trial, &report.setting.target);
    }
    page.led(2, (FAINT, "stopped: "), FAINT, &report.search.stop_reason);
}

fn show_trial(page: &mut Page, trial: &Trial, target: &TargetLabel) {
    let (word, tone) = wording::outcome(trial.outcome, trial.gate);
    let sites = figures::counted(trial.sites.len() as u64, "site");
    page.line(
        2,
        &[
            (style(tone), &format!("{} ", tone.mark())),
            (HEADING, &trial.rule.to_string()),
            (PLAIN, "  "),
            (PLAIN, &trial.rule.title),
        ],
    );
    page.line(4, &[(style(tone), &word), (FAINT, &format!(", {sites}, round {}", trial.round))]);
    gate_line(page, 4, trial);
    if let Some(benchmark) = &trial.benchmark {
        let (speed, _) = wording::speed(benchmark);
        let ratio = Figure::of(&benchmark.ratio);
        let mut text = format!(
            "{} → {}, {speed}",
            Figure::of(&benchmark.before).beside(target),
            Figure::of(&benchmark.after).beside(target)
        );
        if let Some(interval) = &ratio.interval {
            text.push_str(&format!(" ({interval})"));
        }
        if let (Some(before), Some(after)) = (&trial.delegation_before, &trial.delegation_after) {
            let of = |evidence| Figure::of(evidence).beside(target);
            text.push_str(&format!("; in XNNPACK {} → {}", of(before), of(after)));
        }
        page.paragraph(4, PLAIN, &text);
    }
    if tone != Tone::Good {
        page.paragraph(4, PLAIN, &trial.reason);
    }
}

/// `✓ structure  ✓ site  ✗ host  · device  · fidelity  · benchmark`.
pub(super) fn gate_line(page: &mut Page, indent: usize, trial: &Trial) {
    let pieces: Vec<_> = trial
        .gates
        .iter()
        .map(|gate| {
            let tone = wording::gate_status(gate.status).1;
            let shade = if tone == Tone::Neutral { FAINT } else { style(tone) };
            (shade, format!("{} {}  ", tone.mark(), wording::gate_short(gate.gate)))
        })
        .collect();
    let pieces: Vec<_> = pieces.iter().map(|(style, text)| (*style, text.as_str())).collect();
    page.line(indent, &pieces);
}

fn files(page: &mut Page, report: &Report, folder: Option<&Path>) {
    let Some(folder) = folder else { return };
    page.heading("Files");
    let html = folder.join("report.html");
    page.line(2, &[(COMMAND, &html.display().to_string()), (FAINT, "  this report, with everything behind it")]);
    for artifact in &report.artifacts {
        let path = folder.join(&artifact.path).display().to_string();
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let about = format!("  {}, {}", artifact.what, figures::bytes(artifact.bytes as f64));
        if layout::width(&path) + layout::width(&about) + 2 <= layout::WIDTH {
            page.line(2, &[(COMMAND, &path), (FAINT, &about)]);
        } else {
            page.command(2, &path);
            page.line(2, &[(FAINT, &about)]);
        }
    }
}

fn steps(page: &mut Page, steps: &[Step]) {
    if steps.is_empty() {
        return;
    }
    page.heading("Next");
    for step in steps {
        page.paragraph(2, PLAIN, &step.text);
        if let Some(command) = &step.command {
            page.command(4, command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn plain(report: &Report) -> String {
        anstream::adapter::strip_str(&render(report, Some(Path::new("runs/001")))).to_string()
    }

    #[test]
    fn the_summary_of_each_sample() {
        for (name, report) in samples::all() {
            insta::assert_snapshot!(format!("terminal-{name}"), plain(&report));
        }
    }

    #[test]
    fn no_line_is_too_wide_except_commands_and_paths_and_nothing_controls_the_terminal() {
        for (name, report) in samples::all() {
            let commands: Vec<_> =
                report.verdict.next_steps.iter().filter_map(|step| step.command.as_deref()).collect();
            let files: Vec<_> = report
                .artifacts
                .iter()
                .map(|file| Path::new("runs/001").join(&file.path).display().to_string())
                .collect();
            let whole: Vec<&str> = commands.into_iter().chain(files.iter().map(String::as_str)).collect();
            for line in plain(&report).lines() {
                let is_command = whole.iter().any(|command| line.trim() == super::super::visible::line(command));
                assert!(is_command || layout::width(line) <= layout::WIDTH, "{name}: {line}");
                assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{name}: {line:?}");
            }
        }
    }

    #[test]
    fn bars_never_claim_more_than_there_is() {
        assert_eq!(bar(0.999), format!("{}░", "█".repeat(BAR - 1)));
        assert_eq!(bar(f64::NAN).chars().count(), BAR);
    }
}
