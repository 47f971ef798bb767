//! The runs of a folder, and what is told of each in the list.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use fs_err as fs;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::told;
use crate::evidence::Evidence;
use crate::files;
use crate::report::breakdown::{self, ProfileDocument};
use crate::report::comparison::{self, ComparisonDocument};
use crate::report::figures;
use crate::report::html::ListedRun;
use crate::report::model::Report;
use crate::report::timeline::{self, Span};
use crate::report::wording::{self, Tone};
use crate::run_folder::{self, COMPARISON, PROFILE, RECORD, REPORT, RunRecord, TIMELINE};

/// The largest document that is read.
const MOST_BYTES: u64 = 256 << 20;

/// What a run answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Optimize,
    Profile,
    Comparison,
    /// nothing yet
    Unanswered,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Optimize => "optimize",
            Self::Profile => "profile",
            Self::Comparison => "comparison",
            Self::Unanswered => "unknown",
        }
    }
}

/// A run folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// its name as a part of a path in a URL
    pub(super) id: String,
    pub(super) kind: Kind,
    name: String,
    folder: PathBuf,
    /// name, time of the last change in ns since 1970, and length of each file that a page is made from
    files: Vec<(&'static str, u128, u64)>,
    /// a process works in it
    in_use: bool,
}

/// A run folder, or a folder of run folders.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// what was told of a run, by its folder, as long as its files are the same
    known: Mutex<HashMap<PathBuf, (Run, ListedRun)>>,
}

impl Folder {
    /// A folder that can be read.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        fs::read_dir(&path)?;
        Ok(Self { path, known: Mutex::default() })
    }

    /// Absolute.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Those that are there now. Symbolic links are not followed: they may lead out of the folder.
    pub(super) fn runs(&self) -> Vec<Run> {
        if let Some(run) = self.path.file_name().and_then(|name| Run::at(&self.path, name)) {
            return vec![run];
        }
        let entries = fs::read_dir(&self.path).into_iter().flatten().filter_map(Result::ok);
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut runs: Vec<Run> = folders.filter_map(|entry| Run::at(&entry.path(), &entry.file_name())).collect();
        runs.sort_by(|left, right| left.id.cmp(&right.id));
        runs
    }

    /// What the list tells of a run.
    pub(super) fn listed(&self, run: &Run) -> ListedRun {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, listed)) = known().get(&run.folder).filter(|(seen, _)| seen == run) {
            return listed.clone();
        }
        let listed = run.listed();
        known().insert(run.folder.clone(), (run.clone(), listed.clone()));
        listed
    }
}

/// Changes with everything that pages of these runs show.
pub(super) fn version(runs: &[Run]) -> String {
    let mut digest = Sha256::new();
    for run in runs {
        digest.update(format!("{}\n{}\n{:?}\n", run.id, run.in_use, run.files));
    }
    hex::encode(digest.finalize())
}

/// A name as a part of a path in a URL: bytes that are no plain letters become `%41`. Different names stay different.
fn id(name: &OsStr) -> String {
    let mut id = String::new();
    for byte in name.as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => id.push(char::from(*byte)),
            other => id.push_str(&format!("%{other:02X}")),
        }
    }
    id
}

impl Run {
    /// The run in a folder; none when there is none.
    fn at(folder: &Path, name: &OsStr) -> Option<Self> {
        let found = |name: &'static str| {
            let about = fs::symlink_metadata(folder.join(name)).ok().filter(std::fs::Metadata::is_file)?;
            let changed = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            Some((name, changed.unwrap_or_default().as_nanos(), about.len()))
        };
        let files: Vec<_> = [REPORT, COMPARISON, PROFILE, TIMELINE, RECORD].into_iter().filter_map(found).collect();
        let kinds = [(REPORT, Kind::Optimize), (COMPARISON, Kind::Comparison), (PROFILE, Kind::Profile)];
        let has = |name: &str| files.iter().any(|(file, ..)| *file == name);
        let answer = kinds.into_iter().find(|(name, _)| has(name)).map(|(_, kind)| kind);
        let kind = answer.or_else(|| has(RECORD).then_some(Kind::Unanswered))?;
        let in_use = kind == Kind::Unanswered && run_folder::is_in_use(folder);
        let name_shown = name.to_string_lossy().into_owned();
        Some(Self { id: id(name), kind, name: name_shown, folder: folder.to_path_buf(), files, in_use })
    }

    /// Path of its page.
    pub(super) fn href(&self) -> String {
        format!("/runs/{}/", self.id)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        // Only what was seen to be a file of this folder.
        if !self.files.iter().any(|(file, ..)| *file == name) {
            return Err(format!("there is no `{name}`"));
        }
        files::read_regular(&self.folder.join(name), MOST_BYTES).map_err(|error| error.to_string())
    }

    pub(super) fn report(&self) -> Result<Report, String> {
        Report::from_json(&self.read(REPORT)?).map_err(|error| told(&error))
    }

    /// The profile, and one traced run where it was kept.
    pub(super) fn profile(&self) -> Result<(ProfileDocument, Option<Vec<Span>>), String> {
        let document = document(&self.read(PROFILE)?, breakdown::SCHEMA, breakdown::VERSION)?;
        let run = self.read(TIMELINE).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok((document, run.map(|run| timeline::spans(&run))))
    }

    pub(super) fn comparison(&self) -> Result<ComparisonDocument, String> {
        document(&self.read(COMPARISON)?, comparison::SCHEMA, comparison::VERSION)
    }

    fn listed(&self) -> ListedRun {
        let record = self.read(RECORD).ok().and_then(|bytes| serde_json::from_slice::<RunRecord>(&bytes).ok());
        // The name of the command comes before anything that a user chooses.
        let asked = record.as_ref().and_then(|record| {
            record.command.iter().find_map(|word| match word.as_str() {
                "optimize" => Some(Kind::Optimize),
                "profile" => Some(Kind::Profile),
                _ => None,
            })
        });
        let changed = self.files.first().map_or(0, |(_, changed, _)| *changed);
        let changed = i64::try_from(changed / 1_000_000_000).unwrap_or(0);
        let changed = jiff::Timestamp::from_second(changed).map(|time| time.to_string()).unwrap_or_default();
        let blank = ListedRun {
            name: self.name.clone(),
            href: (self.kind != Kind::Unanswered).then(|| self.href()),
            kind: asked.filter(|_| self.kind == Kind::Unanswered).unwrap_or(self.kind).name().to_owned(),
            subject: record.as_ref().map(|record| record.model.clone()).unwrap_or_default(),
            date: record.map_or(changed, |record| record.created),
            status: String::new(),
            tone: Tone::Neutral.name().to_owned(),
            time: None,
            ratio: None,
        };
        let told = match self.kind {
            Kind::Optimize => self.report().map(|report| of_report(&report, &blank)),
            Kind::Profile => self.profile().map(|(document, _)| of_profile(&document, &blank)),
            Kind::Comparison => self.comparison().map(|document| of_comparison(&document, &blank)),
            Kind::Unanswered if self.in_use => Ok(ListedRun { status: "is running".to_owned(), ..blank.clone() }),
            Kind::Unanswered => {
                let (status, tone) = ("did not finish".to_owned(), Tone::Warn.name().to_owned());
                Ok(ListedRun { status, tone, ..blank.clone() })
            }
        };
        let (status, tone) = ("cannot be read".to_owned(), Tone::Bad.name().to_owned());
        told.unwrap_or(ListedRun { status, tone, ..blank })
    }
}

fn of_report(report: &Report, blank: &ListedRun) -> ListedRun {
    let status = report.verdict.status;
    let alarmed = report.alarms().next().is_some();
    let tone = if alarmed { Tone::Bad } else { wording::status_tone(status) };
    let first = report.original.as_ref().map(|profile| profile.method_time.clone());
    ListedRun {
        subject: report.model.source.clone(),
        date: report.created.clone(),
        status: wording::status(status, report.verdict.gate),
        tone: tone.name().to_owned(),
        time: report.overall.as_ref().map(|overall| overall.after.clone()).or(first),
        ratio: report.overall.as_ref().map(|overall| overall.ratio.clone()),
        ..blank.clone()
    }
}

fn of_profile(document: &ProfileDocument, blank: &ListedRun) -> ListedRun {
    ListedRun {
        subject: document.subject.clone(),
        status: format!("{} in delegates", figures::Figure::of(&document.breakdown.delegation).value),
        time: Some(document.untraced.as_ref().unwrap_or(&document.breakdown.method).clone()),
        ..blank.clone()
    }
}

fn of_comparison(document: &ComparisonDocument, blank: &ListedRun) -> ListedRun {
    let change = document.untraced.as_ref().unwrap_or(&document.method);
    let larger = |ratio: &Evidence| figures::number(ratio) > 1.0;
    let (status, tone) = match (&change.ratio, change.significant) {
        (Some(ratio), Some(true)) if larger(ratio) => ("faster", Tone::Good),
        (Some(_), Some(true)) => ("slower", Tone::Bad),
        (Some(_), Some(false)) => ("within noise", Tone::Neutral),
        (Some(_), None) => ("no intervals", Tone::Neutral),
        (None, _) => ("times are not compared", Tone::Warn),
    };
    ListedRun {
        subject: format!("{} → {}", document.before.subject, document.after.subject),
        status: status.to_owned(),
        tone: tone.name().to_owned(),
        time: change.after.clone(),
        ratio: change.ratio.clone(),
        ..blank.clone()
    }
}

/// A document of this form, of this version or an older one.
fn document<T: DeserializeOwned>(json: &[u8], schema: &str, version: u32) -> Result<T, String> {
    let value: serde_json::Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let text = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
    if text("schema") != Some(schema) {
        return Err(format!("its `schema` is not `{schema}`"));
    }
    let found = value.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if found > u64::from(version) {
        return Err(format!("it has version {found}, and this tool reads versions up to {version}"));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path_and_can_be_told_from_others() {
        let ids = ["unet-1", "a b", "a%20b", "a/b", "größe", "..x", "a?b#c"].map(|name| id(OsStr::new(name)));
        assert_eq!(ids, ["unet-1", "a%20b", "a%2520b", "a%2Fb", "gr%C3%B6%C3%9Fe", "..x", "a%3Fb%23c"]);
    }

    #[test]
    fn links_out_of_the_folder_are_not_followed() {
        let top = tempfile::tempdir().expect("temporary folder");
        let (outside, inside) = (top.path().join("outside"), top.path().join("runs"));
        for folder in [&outside, &inside, &inside.join("real")] {
            fs::create_dir(folder).expect("folder");
        }
        files::write_atomic(&outside.join(PROFILE), b"{}").expect("file");
        std::os::unix::fs::symlink(&outside, inside.join("link")).expect("link");
        std::os::unix::fs::symlink(outside.join(PROFILE), inside.join("real").join(PROFILE)).expect("link");
        let folder = Folder::open(&inside).expect("folder");
        assert_eq!(folder.runs(), []);
        files::write_atomic(&inside.join("real").join(REPORT), b"{}").expect("file");
        let runs = folder.runs();
        let listed = folder.listed(&runs[0]);
        assert_eq!((listed.name.as_str(), listed.status.as_str()), ("real", "cannot be read"));
        assert!(runs[0].profile().is_err(), "the link is no file of the run");
    }
}
