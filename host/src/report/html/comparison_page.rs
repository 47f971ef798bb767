//! The page of two profiles side by side.

use serde::Serialize;

use super::profile_page::{category_class, category_name, interval, per_cent, sort_key};
use super::view::Fig;
use super::{Data, Delivery, Error, fill_with_tables, script_json};
use crate::evidence::Evidence;
use crate::profile::category::Category;
use crate::report::comparison::{CategoryChange, Change, ComparedSide, ComparisonDocument, FamilyChange};
use crate::report::figures::{self, Figure};

/// Renders the page of a comparison.
///
/// # Errors
/// None that memory does not have.
pub fn render_comparison(document: &ComparisonDocument) -> Result<String, Error> {
    render_comparison_for(document, Delivery::File)
}

/// As [`render_comparison`], for a place to read it at.
///
/// # Errors
/// As [`render_comparison`].
pub fn render_comparison_for(document: &ComparisonDocument, delivery: Delivery<'_>) -> Result<String, Error> {
    let data = Data { name: "comparison.json", json: script_json(document)? };
    fill_with_tables("comparison.html", View::of(document), &data, delivery)
}

#[derive(Serialize)]
struct View {
    headline: Headline,
    not_compared: Option<String>,
    sides: [SideView; 2],
    times: Vec<(&'static str, ChangeView)>,
    /// what grew, and the costliest family of each side
    notes: Vec<String>,
    /// what the bars are drawn to
    scale: &'static str,
    bars: Vec<Bar>,
    categories: Vec<RowView>,
    category_names: Vec<&'static str>,
    families: Vec<RowView>,
    /// of both tables
    label: String,
}

/// The answer in one line.
#[derive(Serialize)]
struct Headline {
    words: String,
    tone: &'static str,
}

#[derive(Serialize)]
struct SideView {
    name: &'static str,
    subject: String,
    place: String,
    runs: u64,
    threads: String,
    delegation: Fig,
    program: String,
    memory: Option<Fig>,
}

#[derive(Serialize)]
struct ChangeView {
    before: Option<Fig>,
    after: Option<Fig>,
    delta: Option<Fig>,
    ratio: Option<Fig>,
    interval: Option<String>,
    words: &'static str,
    tone: &'static str,
    shares: [Option<Fig>; 2],
    /// before, after, difference, ratio, and both shares; not a number where there is none
    sort: [f64; 6],
}

/// A category or a family.
#[derive(Serialize)]
struct RowView {
    name: String,
    category: &'static str,
    class: &'static str,
    outside: bool,
    kernels: String,
    kernel_count: u64,
    change: ChangeView,
}

#[derive(Serialize)]
struct Bar {
    name: &'static str,
    total: Option<Fig>,
    words: String,
    parts: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    class: &'static str,
    /// in per cent of the bar
    width: f64,
}

impl View {
    fn of(document: &ComparisonDocument) -> Self {
        let compared = document.times_not_compared.is_none();
        let mut times = vec![("Method", change(&document.method))];
        if let Some(untraced) = &document.untraced {
            times.push(("Without tracer", change(untraced)));
        }
        let places = [&document.before, &document.after].map(|side| figures::on_target(&side.target));
        let label = match &places {
            [before, after] if before == after => format!("Times and shares MEASURED {before}"),
            [before, after] => format!("Times and shares MEASURED {before} (before) and {after} (after)"),
        };
        Self {
            headline: headline(document),
            not_compared: document.times_not_compared.clone(),
            sides: [side("Before", &document.before), side("After", &document.after)],
            times,
            notes: notes(document),
            scale: if compared {
                "Both bars have one scale: the longer one is the slower method. What is grey belongs to no kernel"
            } else {
                "Each bar is all of its own method's time, and the two have no common scale. What is grey belongs to no kernel"
            },
            bars: bars(document, compared),
            categories: document.categories.iter().map(category).collect(),
            category_names: document.categories.iter().map(|it| category_name(it.category)).collect(),
            families: document.families.iter().map(family).collect(),
            label,
        }
    }
}

fn headline(document: &ComparisonDocument) -> Headline {
    let change = document.untraced.as_ref().unwrap_or(&document.method);
    let Some(ratio) = change.ratio.as_ref().filter(|_| document.times_not_compared.is_none()) else {
        return Headline { words: "Which kernels each side runs".to_owned(), tone: "warn" };
    };
    let value = Figure::of(ratio).value;
    let (words, tone) = match (change.significant, figures::number(ratio) > 1.0) {
        (Some(true), true) => (format!("The second is {value} as fast as the first"), "good"),
        (Some(true), false) => (format!("The second is slower: {value} as fast as the first"), "bad"),
        (Some(false), _) => (format!("{value} as fast: the two cannot be told apart"), "neutral"),
        (None, _) => (format!("{value} as fast, from times without intervals"), "neutral"),
    };
    Headline { words, tone }
}

fn side(name: &'static str, side: &ComparedSide) -> SideView {
    let unknown = || "not known".to_owned();
    SideView {
        name,
        subject: side.subject.clone(),
        place: figures::on_target(&side.target),
        runs: side.runs,
        threads: side.threads.map_or_else(unknown, |threads| threads.to_string()),
        delegation: Fig::of(&side.delegation),
        #[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^53")]
        program: side.program_bytes.map_or_else(unknown, |bytes| figures::bytes(bytes as f64)),
        memory: side.peak_memory.as_ref().map(Fig::of),
    }
}

fn change(change: &Change) -> ChangeView {
    let fig = |evidence: &Option<Evidence>| evidence.as_ref().map(Fig::of);
    let number = |evidence: &Option<Evidence>| evidence.as_ref().map_or(f64::NAN, sort_key);
    let faster = change.ratio.as_ref().is_some_and(|ratio| figures::number(ratio) > 1.0);
    let (words, tone) = match (&change.before, &change.after, &change.ratio, change.significant) {
        (None, Some(_), ..) => ("new", "neutral"),
        (Some(_), None, ..) => ("gone", "neutral"),
        (.., Some(true)) if faster => ("faster", "good"),
        (.., Some(true)) => ("slower", "bad"),
        (.., Some(false)) => ("within noise", "neutral"),
        (.., Some(_), None) => ("no intervals", "neutral"),
        (.., None, None) => ("not compared", "neutral"),
    };
    let [old, new] = &change.shares;
    ChangeView {
        before: fig(&change.before),
        after: fig(&change.after),
        delta: fig(&change.delta),
        ratio: fig(&change.ratio),
        interval: change.ratio.as_ref().and_then(interval),
        words,
        tone,
        shares: [fig(old), fig(new)],
        sort: [&change.before, &change.after, &change.delta, &change.ratio, old, new].map(number),
    }
}

/// `12`, or `12 → 8`.
fn kernels([old, new]: [u64; 2]) -> String {
    if old == new { figures::grouped(old) } else { format!("{} → {}", figures::grouped(old), figures::grouped(new)) }
}

fn category(it: &CategoryChange) -> RowView {
    RowView {
        name: category_name(it.category).to_owned(),
        category: category_name(it.category),
        class: category_class(it.category),
        outside: false,
        kernels: kernels(it.kernels),
        kernel_count: it.kernels[1],
        change: change(&it.change),
    }
}

fn family(it: &FamilyChange) -> RowView {
    RowView {
        name: it.family.clone(),
        category: category_name(it.category),
        class: category_class(it.category),
        outside: !it.delegated,
        kernels: kernels(it.kernels),
        kernel_count: it.kernels[1],
        change: change(&it.change),
    }
}

fn notes(document: &ComparisonDocument) -> Vec<String> {
    let quoted = |family: &str| format!("`{}`", family.replace('`', "'"));
    let mut notes = Vec::new();
    match &document.top {
        [Some(old), Some(new)] if old == new => notes.push(format!("Still the costliest family: {}", quoted(new))),
        [Some(old), Some(new)] => {
            notes.push(format!("The costliest family was {} and is now {}", quoted(old), quoted(new)));
        }
        [Some(only), None] => notes.push(format!("The costliest family was {}", quoted(only))),
        [None, Some(only)] => notes.push(format!("The costliest family is {}", quoted(only))),
        [None, None] => {}
    }
    notes.extend(document.grew.iter().map(|it| {
        let [old, new] = it.shares.map(figures::percent);
        format!("{} grew from {old} to {new} of the time", Category::name(it.category))
    }));
    notes
}

fn bars(document: &ComparisonDocument, compared: bool) -> Vec<Bar> {
    let of = |it: &Option<Evidence>| it.as_ref().map_or(0.0, figures::number);
    let methods = [of(&document.method.before), of(&document.method.after)];
    let longest = methods[0].max(methods[1]);
    let names = [("Before", &document.method.before), ("After", &document.method.after)];
    let bar = |(at, (name, method)): (usize, (&'static str, &Option<Evidence>))| {
        let whole = if compared { longest } else { of(method) };
        let time = |it: &CategoryChange| of(if at == 0 { &it.change.before } else { &it.change.after });
        let mut parts: Vec<Part> = document
            .categories
            .iter()
            .map(|it| Part { class: category_class(it.category), width: per_cent(time(it), whole) })
            .collect();
        let named: f64 = document.categories.iter().map(time).sum();
        parts.push(Part { class: "rest", width: per_cent(of(method) - named, whole) });
        let told = |it: &CategoryChange| format!("{} {}", category_name(it.category), figures::milliseconds(time(it)));
        Bar {
            name,
            total: method.as_ref().map(Fig::of),
            words: document.categories.iter().map(told).collect::<Vec<_>>().join(", "),
            parts,
        }
    };
    names.into_iter().enumerate().map(bar).collect()
}

#[cfg(test)]
mod tests;
