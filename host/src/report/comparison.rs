//! Two profiles side by side: what became faster, what slower, and what takes a larger part of what is left.
//!
//! In: two [`ProfileDocument`]s. Out: a [`ComparisonDocument`], as text, CSV rows and JSON. Times are compared only
//! where both sides were measured in the same place by a clock that means something; elsewhere the kernels that
//! were chosen are, and a note says why the times are not.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::breakdown::{ProfileDocument, cell};
use super::figures::{self, Figure};
use super::layout::{FAINT, GOOD, HEADING, PLAIN, Page, WARN};
use super::model::Comparison;
use crate::evidence::{Evidence, Interval, Measured, TargetLabel};
use crate::profile::breakdown::Breakdown;
use crate::profile::category::Category;
use crate::profile::etdump;

/// Name of the JSON form.
pub const SCHEMA: &str = "delegate-doctor/comparison";
/// Version of the JSON form.
pub const VERSION: u32 = 1;
/// Families that the text shows.
const SHOWN: usize = 12;
/// A share has grown when it did by so much of the method's time.
const GROWN: f64 = 0.01;

/// Two profiles, and what lies between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonDocument {
    /// [`SCHEMA`]
    pub schema: String,
    /// [`VERSION`]
    pub version: u32,
    /// the first profile
    pub before: ComparedSide,
    /// the second profile
    pub after: ComparedSide,
    /// what limits the comparison
    #[serde(default)]
    pub notes: Vec<String>,
    /// why times are not compared; none when they are
    pub times_not_compared: Option<String>,
    /// the whole method
    pub method: Change,
    /// the same without a tracer, measured alternately in one session where that was done
    pub untraced: Option<Change>,
    /// one for each category that either side has a kernel of
    pub categories: Vec<CategoryChange>,
    /// one for each family of kernels, the largest change first
    pub families: Vec<FamilyChange>,
    /// the costliest family of each side
    pub top: [Option<String>; 2],
    /// categories that take a larger share than before, with both shares
    pub grew: Vec<Grown>,
}

/// When the two sides were traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moments {
    /// one after the other, again and again
    InTurns,
    /// at different times, in one file that knows they belong together
    Together,
    /// at different times
    Apart,
}

/// One of the two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedSide {
    /// as the user named it
    pub subject: String,
    /// where it was measured
    pub target: TargetLabel,
    /// threads of the program; none when that is not known
    pub threads: Option<u32>,
    /// traced runs
    pub runs: u64,
    /// delegated over delegated plus fallback time; unit `share`
    pub delegation: Evidence,
    /// size of the program
    pub program_bytes: Option<u64>,
    /// peak resident memory; unit `bytes`
    pub peak_memory: Option<Evidence>,
}

/// A time on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// unit `ms`; none: there is no such kernel
    pub before: Option<Evidence>,
    /// unit `ms`; none: there is no such kernel
    pub after: Option<Evidence>,
    /// after minus before; none when times are not compared; unit `ms`
    pub delta: Option<Evidence>,
    /// before over after, more than 1 when it became faster; its interval holds the true ratio whenever both times
    /// lie in theirs; unit `ratio`
    pub ratio: Option<Evidence>,
    /// false: the intervals of the two times meet, or lie within what the clock can tell; true: they do not, and
    /// both sides ran in turns; none where that cannot be known
    pub significant: Option<bool>,
    /// of the method's time, on both sides; unit `share`
    pub shares: [Option<Evidence>; 2],
}

/// A category on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CategoryChange {
    /// none: kernels of no known category
    pub category: Option<Category>,
    /// kernels in one run, on both sides
    pub kernels: [u64; 2],
    /// their time
    pub change: Change,
}

/// A family of kernels on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FamilyChange {
    /// `Convolution (NHWC, F32) IGEMM`
    pub family: String,
    /// inside a delegate
    pub delegated: bool,
    /// what it does
    pub category: Option<Category>,
    /// kernels in one run, on both sides
    pub kernels: [u64; 2],
    /// their time
    pub change: Change,
}

/// A category that takes more of the time than before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grown {
    /// which
    pub category: Category,
    /// of the method's time, before and after; unit `ratio` of 1
    pub shares: [f64; 2],
}

/// A time of one side and its uncertainty.
#[derive(Clone, Copy)]
struct Time<'a> {
    time: &'a Evidence,
    share: Option<&'a Evidence>,
    interval: Option<&'a Interval>,
}

impl<'a> Time<'a> {
    fn of(time: &'a Evidence, share: Option<&'a Evidence>) -> Self {
        Self { time, share, interval: figures::interval(time) }
    }
}

impl ComparisonDocument {
    /// What lies between two profiles.
    pub fn of(before: &ProfileDocument, after: &ProfileDocument, moments: Moments) -> Self {
        let times_not_compared = why_not_compared(before, after, moments);
        let mut notes: Vec<String> = before.notes.iter().chain(&after.notes).cloned().collect();
        notes.dedup();
        if moments != Moments::InTurns && times_not_compared.is_none() {
            notes.push(
                "The two sides were traced at different times: whatever else changed on the machine in between is in \
                 the differences too"
                    .to_owned(),
            );
        }
        let comparing = Comparing { before, after, times: times_not_compared.is_none(), moments };
        let [old, new] = [&before.breakdown, &after.breakdown];
        let untraced = match (&before.untraced, &after.untraced) {
            (Some(a), Some(b)) => Some(comparing.change(Some(Time::of(a, None)), Some(Time::of(b, None)))),
            _ => None,
        };
        let categories: Vec<CategoryChange> =
            Category::ALL.map(Some).into_iter().chain([None]).filter_map(|it| comparing.category(it)).collect();
        // Shares of times that mean different things do not grow.
        let grew = categories.iter().filter_map(grown).filter(|_| times_not_compared.is_none()).collect();
        Self {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            before: side(before),
            after: side(after),
            method: comparing.change(Some(Time::of(&old.method, None)), Some(Time::of(&new.method, None))),
            untraced,
            categories,
            families: comparing.families(),
            top: [old, new].map(|side| side.bottlenecks.first().map(|top| top.family.clone())),
            grew,
            notes,
            times_not_compared,
        }
    }

    /// Takes over what the benchmark measured in turns: it outranks two medians from different moments.
    pub fn measured_alternately(&mut self, comparison: Comparison) {
        let significant = figures::interval(&comparison.ratio).map(|it| it.low > 1.0 || it.high < 1.0);
        let delta = match (&comparison.before, &comparison.after) {
            (Evidence::Measured(before), Evidence::Measured(after)) => Some(Evidence::Measured(Measured {
                value: after.value - before.value,
                interval: None,
                ..after.clone()
            })),
            _ => None,
        };
        self.untraced = Some(Change {
            before: Some(comparison.before),
            after: Some(comparison.after),
            delta,
            ratio: Some(comparison.ratio),
            significant,
            shares: [None, None],
        });
    }

    /// True when the second one is faster beyond doubt: without a tracer where that was measured.
    pub fn is_faster(&self) -> Option<bool> {
        let change = self.untraced.as_ref().unwrap_or(&self.method);
        let ratio = figures::number(change.ratio.as_ref()?);
        change.significant.map(|significant| significant && ratio > 1.0)
    }

    /// The comparison for a person.
    pub fn text(&self) -> String {
        let mut page = Page::default();
        page.paragraph(0, HEADING, &format!("{} → {}", self.before.subject, self.after.subject));
        for (name, side) in [("before", &self.before), ("after", &self.after)] {
            let place = format!(
                "{name}: MEASURED {}, {}{}{}",
                figures::on_target(&side.target),
                figures::counted(side.runs, "traced run"),
                side.threads.map_or_else(String::new, |n| format!(", {}", figures::counted(u64::from(n), "thread"))),
                if figures::number(&side.delegation).is_finite() {
                    format!("; {} in delegates", Figure::of(&side.delegation).value)
                } else {
                    String::new()
                },
            );
            page.paragraph(0, FAINT, &place);
        }
        page.gap();
        if let Some(why) = &self.times_not_compared {
            page.paragraph(0, WARN, why);
            page.gap();
        }
        for note in &self.notes {
            page.paragraph(0, FAINT, note);
        }
        page.line(0, &[(PLAIN, &format!("Method          {}", self.method.line()))]);
        if let Some(untraced) = &self.untraced {
            let style = if self.is_faster() == Some(true) { GOOD } else { PLAIN };
            page.line(0, &[(style, &format!("Without tracer  {}", untraced.line()))]);
        }
        page.gap();
        page.line(0, &[(HEADING, "By category")]);
        for it in &self.categories {
            let name = it.category.map_or("not known", Category::name);
            page.line(2, &[(PLAIN, &format!("{name:<14}{}", it.change.line()))]);
        }
        page.gap();
        if !self.families.is_empty() {
            page.line(0, &[(HEADING, "By family of kernels, the largest change first")]);
        }
        for it in self.families.iter().take(SHOWN) {
            page.line(2, &[(PLAIN, &format!("{}  {}", it.change.line(), it.title()))]);
        }
        let more = self.families.len().saturating_sub(SHOWN) as u64;
        if more > 0 {
            page.line(2, &[(FAINT, &format!("and {more} more: `--format json` or `--format csv` has all"))]);
        }
        page.gap();
        if let [Some(old), Some(new)] = &self.top {
            let told = if old == new { format!("Still first: {old}") } else { format!("First was {old}, now {new}") };
            page.paragraph(0, PLAIN, &told);
        }
        for it in &self.grew {
            let [old, new] = it.shares.map(figures::percent);
            page.paragraph(0, PLAIN, &format!("{} grew from {old} to {new} of the time", it.category.name()));
        }
        page.finish()
    }

    /// A row for the method, each category and each family.
    ///
    /// # Errors
    /// None that memory does not have.
    pub fn csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record([
            "kind",
            "name",
            "delegated",
            "before_ms",
            "after_ms",
            "delta_ms",
            "ratio",
            "ratio_low",
            "ratio_high",
            "significant",
            "before_share",
            "after_share",
            "before_kernels",
            "after_kernels",
        ])?;
        let mut row = |kind: &str, name: &str, delegated: &str, change: &Change, kernels: Option<[u64; 2]>| {
            let number = |it: &Option<Evidence>| {
                let number = it.as_ref().map(figures::number).filter(|number| number.is_finite());
                number.map_or_else(String::new, |number| number.to_string())
            };
            let ratio = change.ratio.as_ref().and_then(figures::interval);
            let [low, high] = [ratio.map(|it| it.low), ratio.map(|it| it.high)]
                .map(|end| end.map_or_else(String::new, |end| end.to_string()));
            let [old, new] = kernels.map_or_else(Default::default, |kernels| kernels.map(|count| count.to_string()));
            writer.write_record([
                kind,
                name,
                delegated,
                &number(&change.before),
                &number(&change.after),
                &number(&change.delta),
                &number(&change.ratio),
                &low,
                &high,
                change.significant.map_or("", |it| if it { "true" } else { "false" }),
                &number(&change.shares[0]),
                &number(&change.shares[1]),
                &old,
                &new,
            ])
        };
        row("method", "", "", &self.method, None)?;
        if let Some(untraced) = &self.untraced {
            row("without tracer", "", "", untraced, None)?;
        }
        for it in &self.categories {
            row("category", it.category.map_or("", Category::name), "", &it.change, Some(it.kernels))?;
        }
        for it in &self.families {
            let delegated = if it.delegated { "true" } else { "false" };
            row("family", &cell(&it.family), delegated, &it.change, Some(it.kernels))?;
        }
        writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
    }
}

impl Change {
    /// `12.1 ms → 3.2 ms   3.8x (3.6–4.0)`.
    fn line(&self) -> String {
        let time = |it: &Option<Evidence>| it.as_ref().map_or_else(|| "—".to_owned(), |it| Figure::of(it).value);
        let times = format!("{:>10} → {:>9}", time(&self.before), time(&self.after));
        let Some(ratio) = &self.ratio else { return times };
        let doubt = if self.significant == Some(false) { "  within noise" } else { "" };
        format!("{times}  {:>20}{doubt}", Figure::of(ratio).with_interval())
    }
}

impl FamilyChange {
    fn title(&self) -> String {
        let place = if self.delegated { "" } else { "  OUTSIDE" };
        let [old, new] = self.kernels;
        let count = if old == new { format!("×{old}") } else { format!("×{old} → ×{new}") };
        format!("{} {count}{place}", self.family)
    }
}

/// The clock of an emulated CPU means nothing, and times of two places cannot be divided by each other.
fn why_not_compared(before: &ProfileDocument, after: &ProfileDocument, moments: Moments) -> Option<String> {
    let [old, new] = [&before.target, &after.target];
    if [old, new].iter().any(|target| target.kind == "qemu") {
        return Some("Emulated: which kernels ran is compared, and times are not, since they say nothing about the speed of an Arm CPU".to_owned());
    }
    let nameless = |target: &TargetLabel| target.kind == "recorded" && target.name == etdump::NAMELESS;
    if moments == Moments::Apart && nameless(old) && nameless(new) {
        return Some(
            "Nobody says whether both were recorded on the same device: times are not divided by each other; name the \
             device with `--recorded-on`"
                .to_owned(),
        );
    }
    if !before.inputs.is_empty() && !after.inputs.is_empty() && before.inputs != after.inputs {
        return Some(format!(
            "They ran on different inputs ({}; {}): times are not divided by each other",
            before.inputs.join(", "),
            after.inputs.join(", ")
        ));
    }
    let of = |side: &ProfileDocument| (side.target.name.clone(), side.target.architecture.clone(), side.threads);
    if of(before) != of(after) {
        let told = |side: &ProfileDocument| {
            let threads =
                side.threads.map_or_else(String::new, |n| format!(", {}", figures::counted(u64::from(n), "thread")));
            format!("{}{threads}", side.target.name)
        };
        return Some(format!(
            "Measured in two places ({}; {}): times are shown and not divided by each other",
            told(before),
            told(after)
        ));
    }
    None
}

fn side(document: &ProfileDocument) -> ComparedSide {
    ComparedSide {
        subject: document.subject.clone(),
        target: document.target.clone(),
        threads: document.threads,
        runs: document.breakdown.runs,
        delegation: document.breakdown.delegation.clone(),
        program_bytes: document.program_bytes,
        peak_memory: document.peak_memory.clone(),
    }
}

fn grown(change: &CategoryChange) -> Option<Grown> {
    let [old, new] = &change.change.shares;
    let shares = [old, new].map(|share| share.as_ref().map_or(0.0, figures::number));
    let category = change.category?;
    (shares[1] >= shares[0] + GROWN).then_some(Grown { category, shares })
}

/// Families by name and place, with their numbers in the list of each side.
type Families<'a> = BTreeMap<(&'a str, bool), [Option<usize>; 2]>;

struct Comparing<'a> {
    before: &'a ProfileDocument,
    after: &'a ProfileDocument,
    times: bool,
    moments: Moments,
}

/// Least coverage of an interval that says anything.
const SURE: f64 = 0.5;
/// XNNPACK's clock ticks once a µs; ms.
const TICK: f64 = 1e-3;

impl Comparing<'_> {
    fn change(&self, before: Option<Time<'_>>, after: Option<Time<'_>>) -> Change {
        let both = before.zip(after).filter(|_| self.times);
        let figure = |value: f64, unit: &str, interval: Option<Interval>| {
            Evidence::Measured(Measured {
                value,
                unit: unit.to_owned(),
                target: self.after.target.clone(),
                samples: self.before.breakdown.runs.min(self.after.breakdown.runs),
                interval,
            })
        };
        let sure = |interval: &&Interval| interval.confidence >= SURE;
        let intervals = both.and_then(|(a, b)| a.interval.filter(sure).zip(b.interval.filter(sure)));
        let ratio = both.and_then(|(a, b)| {
            let (old, new) = (figures::number(a.time), figures::number(b.time));
            let interval = intervals.filter(|(_, new)| new.low > 0.0).map(|(old, new)| Interval {
                low: old.low / new.high,
                high: old.high / new.low,
                confidence: (old.confidence + new.confidence - 1.0).max(0.0),
            });
            (old > 0.0 && new > 0.0).then(|| figure(old / new, "ratio", interval))
        });
        let time = |side: Option<Time<'_>>| side.map(|side| side.time.clone());
        let share = |side: Option<Time<'_>>| side.and_then(|side| side.share.cloned());
        Change {
            before: time(before),
            after: time(after),
            delta: both.map(|(a, b)| figure(figures::number(b.time) - figures::number(a.time), "ms", None)),
            ratio,
            significant: intervals.and_then(|(a, b)| {
                let apart = (a.low - b.high).max(b.low - a.high) > TICK;
                (!apart).then_some(false).or((self.moments == Moments::InTurns).then_some(true))
            }),
            shares: [share(before), share(after)],
        }
    }

    fn category(&self, category: Option<Category>) -> Option<CategoryChange> {
        let [old, new] = [self.before, self.after]
            .map(|side| side.breakdown.categories.iter().find(|total| total.category == category));
        if old.is_none() && new.is_none() {
            return None;
        }
        let time = |total: &crate::profile::breakdown::CategoryTotal| total.kernels;
        Some(CategoryChange {
            category,
            kernels: [old.map_or(0, time), new.map_or(0, time)],
            change: self.change(
                old.map(|total| Time::of(&total.time, Some(&total.share))),
                new.map(|total| Time::of(&total.time, Some(&total.share))),
            ),
        })
    }

    fn families(&self) -> Vec<FamilyChange> {
        let mut families = Families::new();
        for (place, breakdown) in [&self.before.breakdown, &self.after.breakdown].into_iter().enumerate() {
            for (number, it) in breakdown.bottlenecks.iter().enumerate() {
                let entry = families.entry((it.family.as_str(), it.delegated)).or_default();
                if let Some(slot) = entry.get_mut(place) {
                    *slot = Some(number);
                }
            }
        }
        let of = |breakdown: &'_ Breakdown, number: Option<usize>| {
            number.and_then(|number| breakdown.bottlenecks.get(number)).cloned()
        };
        let mut changes: Vec<FamilyChange> = families
            .into_iter()
            .map(|((family, delegated), [old, new])| {
                let (old, new) = (of(&self.before.breakdown, old), of(&self.after.breakdown, new));
                let either = old.as_ref().or(new.as_ref());
                let time = |it: &crate::profile::breakdown::Bottleneck| it.kernels;
                FamilyChange {
                    family: family.to_owned(),
                    delegated,
                    category: either.and_then(|it| it.category),
                    kernels: [old.as_ref().map_or(0, time), new.as_ref().map_or(0, time)],
                    change: self.change(
                        old.as_ref().map(|it| Time::of(&it.time, Some(&it.share))),
                        new.as_ref().map(|it| Time::of(&it.time, Some(&it.share))),
                    ),
                }
            })
            .collect();
        changes.sort_by(|left, right| right.weight().total_cmp(&left.weight()));
        changes
    }
}

impl FamilyChange {
    /// How much time came or went; where times are not compared, how much there is.
    fn weight(&self) -> f64 {
        let time = |it: &Option<Evidence>| it.as_ref().map_or(0.0, figures::number);
        let (old, new) = (time(&self.change.before), time(&self.change.after));
        if self.change.delta.is_none() && self.change.before.is_some() && self.change.after.is_some() {
            return old.max(new);
        }
        (new - old).abs()
    }
}
