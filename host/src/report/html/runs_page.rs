//! The page with the history of runs, which a server shows.

use serde::{Deserialize, Serialize};

use super::profile_page::sort_key;
use super::view::Fig;
use super::{Data, Delivery, Error, fill_with_tables, script_json};
use crate::evidence::Evidence;
use crate::report::figures;
use crate::report::wording::Tone;

/// Name of the JSON form that the page holds.
const SCHEMA: &str = "delegate-doctor/runs";
/// Version of the JSON form.
const VERSION: u32 = 1;

/// Runs of one folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunList {
    schema: String,
    version: u32,
    folder: String,
    runs: Vec<ListedRun>,
}

/// A run in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedRun {
    /// of its folder
    pub name: String,
    /// path of its page on the server; none when there is nothing to show
    pub href: Option<String>,
    /// `optimize`, `profile`, `comparison`, or `unknown`
    pub kind: String,
    /// the model, as the user named it
    pub subject: String,
    /// when it began, RFC 3339; in UTC once it is in a [`RunList`]
    pub date: String,
    /// in words
    pub status: String,
    /// name of the [`Tone`] of the status
    pub tone: String,
    /// of the method, or of the model without a tracer; unit `ms`
    pub time: Option<Evidence>,
    /// how many times as fast it became; unit `ratio`
    pub ratio: Option<Evidence>,
}

impl RunList {
    /// Runs of a folder, the newest first.
    pub fn new(folder: String, mut runs: Vec<ListedRun>) -> Self {
        for run in &mut runs {
            if let Some(time) = timestamp(&run.date) {
                run.date = time.to_string();
            }
        }
        runs.sort_by(|left, right| (&right.date, &right.name).cmp(&(&left.date, &left.name)));
        Self { schema: SCHEMA.to_owned(), version: VERSION, folder, runs }
    }
}

fn timestamp(text: &str) -> Option<jiff::Timestamp> {
    let zoned = text.parse::<jiff::ZonedDateTime>().map(|time| time.timestamp());
    zoned.or_else(|_| text.parse()).ok()
}

#[derive(Serialize)]
struct View {
    folder: String,
    count: String,
    runs: Vec<RunView>,
}

#[derive(Serialize)]
struct RunView {
    name: String,
    href: Option<String>,
    kind: String,
    subject: String,
    date: String,
    shown_date: String,
    status: String,
    tone: &'static str,
    mark: &'static str,
    time: Option<Fig>,
    ratio: Option<Fig>,
    sort_time: f64,
    sort_ratio: f64,
}

/// Renders the page with the history.
///
/// # Errors
/// None that memory does not have.
pub fn render_runs(list: &RunList, delivery: Delivery<'_>) -> Result<String, Error> {
    let data = Data { name: "runs.json", json: script_json(list)? };
    let view = View {
        folder: list.folder.clone(),
        count: figures::counted(list.runs.len() as u64, "run"),
        runs: list.runs.iter().map(run).collect(),
    };
    fill_with_tables("runs.html", view, &data, delivery)
}

fn run(run: &ListedRun) -> RunView {
    let tones = [Tone::Good, Tone::Bad, Tone::Warn, Tone::Neutral];
    let tone = tones.into_iter().find(|tone| tone.name() == run.tone).unwrap_or(Tone::Neutral);
    let number = |evidence: &Option<Evidence>| evidence.as_ref().map_or(f64::NAN, sort_key);
    RunView {
        name: run.name.clone(),
        href: run.href.clone(),
        kind: run.kind.clone(),
        subject: run.subject.clone(),
        shown_date: timestamp(&run.date)
            .map_or_else(|| run.date.clone(), |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string()),
        date: run.date.clone(),
        status: run.status.clone(),
        tone: tone.name(),
        mark: tone.mark(),
        time: run.time.as_ref().map(Fig::of),
        ratio: run.ratio.as_ref().map(Fig::of),
        sort_time: number(&run.time),
        sort_ratio: number(&run.ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::super::page_checks;
    use super::super::profile_page::samples::HOSTILE;
    use super::*;

    fn run(name: &str, date: &str) -> ListedRun {
        ListedRun {
            name: name.to_owned(),
            href: Some("/runs/x/".to_owned()),
            kind: "profile".to_owned(),
            subject: HOSTILE.to_owned(),
            date: date.to_owned(),
            status: HOSTILE.to_owned(),
            tone: HOSTILE.to_owned(),
            time: None,
            ratio: None,
        }
    }

    #[test]
    fn the_newest_run_is_first() {
        let runs =
            vec![run("a", "2026-02-01T00:30:00Z"), run("b", "2026-02-01T00:00:00-01:00[-01:00]"), run(HOSTILE, "")];
        for runs in [runs, Vec::new()] {
            let list = RunList::new(HOSTILE.to_owned(), runs);
            let page = render_runs(&list, Delivery::File).expect("page");
            page_checks::loads_nothing("runs", &page);
            page_checks::is_balanced("runs", &page);
            page_checks::strings_are_text("runs", &page);
            page_checks::ids_fit("runs", &page);
            page_checks::tables_are_described("runs", &page);
            let read: RunList = serde_json::from_str(page_checks::data(&page)).expect("data");
            assert_eq!(read, list);
            let dated: Vec<_> = list.runs.iter().map(|run| (run.name.as_str(), run.date.as_str())).collect();
            let expected = [("b", "2026-02-01T01:00:00Z"), ("a", "2026-02-01T00:30:00Z"), (HOSTILE, "")];
            assert!(dated.is_empty() || dated == expected, "{dated:?}");
        }
    }
}
