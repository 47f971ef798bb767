//! The run folder: everything a run made, enough to reproduce it, to resume it and to report a bug.
//!
//! ```text
//! <run>/
//!   run.json              what was asked, with which versions; state of the run
//!   run.lock              held while a process works here
//!   report.json           the answer (versioned, see docs/report.schema.json)
//!   report.html           the same for people
//!   profile.json .html    the answer to `profile`, in the place of a report
//!   timeline.json         one traced run of it in order of time, for Perfetto
//!   optimized.pt2 .pte    the program with every accepted repair
//!   original/             exported program, lowered program, lowering record, trace, profile
//!   inputs/               every input set, one tensor a file
//!   rounds/N/RULE/        patched program, lowered program, patch, trial record
//!   stages/               finished stages with the key of what they were made from
//!   worker.log            what Python and its libraries printed
//! ```
//!
//! A stage's record is written, in one step, before the next stage begins. `--resume` runs the same line
//! again and takes every record whose key still fits.

mod error;
mod leftovers;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::model::Model;
use crate::settings::RunPlace;
use crate::shell;

pub use error::Error;
pub use leftovers::discard_unbegun;
use leftovers::{remove_outputs, sweep};

/// Version of the records in a run folder.
pub const VERSION: u32 = 1;

/// Name of the file that says what was asked.
pub const RECORD: &str = "run.json";

/// Name of the file that is locked while a process works in the folder.
const LOCK: &str = "run.lock";

/// Name of the file with the answer.
pub const REPORT: &str = "report.json";

/// Name of the file with the answer to `profile`.
pub const PROFILE: &str = "profile.json";

/// Name of the answer to `profile` for people.
pub const PROFILE_PAGE: &str = "profile.html";

/// Name of the file with one traced run in order of time, in the Trace Event Format.
pub const TIMELINE: &str = "timeline.json";

/// Name of the file with two profiles side by side.
pub const COMPARISON: &str = "comparison.json";
/// Name of its page.
pub const COMPARISON_PAGE: &str = "comparison.html";

/// Name of the answer for people.
pub const PAGE: &str = "report.html";

/// How many runs of one model may stand side by side before a name must be chosen by hand.
const MAX_NUMBER: u32 = 100_000;
/// Bytes of a record that are read.
const MOST_RECORD: u64 = 256 << 20;

/// State of a run, as `run.json` keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// begun, not ended
    Running,
    /// ended with a report
    Finished,
}

/// `run.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// see [`VERSION`]
    pub version: u32,
    /// the tool's version
    pub tool: String,
    /// the model as typed
    pub model: String,
    /// the same so that it means one thing from everywhere: an absolute path, or `module:callable`
    pub source: String,
    /// the command line
    pub command: Vec<String>,
    /// the settings that the answer depends on, as a user writes them
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// when the run began, RFC 3339
    pub created: String,
    /// where it stands
    pub state: State,
}

/// An open run folder; the lock is released when it is dropped.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    record: RunRecord,
    resumed: bool,
    _lock: fs::File,
}

#[derive(Serialize, Deserialize)]
struct StageRecord<T> {
    version: u32,
    key: String,
    result: T,
}

impl RunRecord {
    /// False for commands that begin anew each time.
    pub fn can_be_resumed(&self) -> bool {
        !self.command.iter().skip(1).take(8).any(|word| word == "profile" || word == "compare")
    }
}

impl RunFolder {
    /// Creates or reopens the folder that `place` names and takes its lock. `settings` are those that the
    /// answer depends on; a run is resumed only with the ones it was begun with.
    ///
    /// # Errors
    /// When the folder belongs to something else, another process works in it, or it cannot be written.
    pub fn open(
        place: &RunPlace,
        model: &Model,
        command: &[String],
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let (path, resume) = match place {
            RunPlace::Numbered { parent, name } => (numbered(parent, name)?, false),
            RunPlace::At(path) => (path.clone(), false),
            RunPlace::ResumeNewest { parent, name } => (
                newest(parent, name, RECORD, Some(&model.identity()))
                    .ok_or_else(|| Error::NothingToResume(parent.join(name)))?,
                true,
            ),
            RunPlace::ResumeAt(path) => (path.clone(), true),
        };
        let io_error = |source: io::Error| Error::Io { path: path.clone(), source };
        let record_path = path.join(RECORD);
        if resume && !record_path.exists() {
            return Err(Error::NothingToResume(path));
        }
        if !resume {
            fs::create_dir_all(&path).map_err(io_error)?;
        }
        let lock = files::open_lock(&path.join(LOCK)).map_err(io_error)?;
        if lock.file().try_lock().is_err() {
            return Err(Error::Locked(path));
        }
        let record = if record_path.exists() {
            if !resume {
                let finished = RunRecord::read(&path).is_some_and(|record| record.state == State::Finished);
                return Err(if finished { Error::OccupiedByFinished(path) } else { Error::Occupied(path) });
            }
            let bytes = files::read_regular(&record_path, MOST_RECORD).map_err(io_error)?;
            let record: RunRecord =
                serde_json::from_slice(&bytes).map_err(|source| Error::Record { path: record_path.clone(), source })?;
            if record.version > VERSION {
                return Err(Error::TooNew { path, found: record.version });
            }
            if record.source != model.identity() {
                return Err(Error::OtherModel { path, held: record.model, asked: model.given.clone() });
            }
            if record.state == State::Finished {
                return Err(Error::Finished(path));
            }
            let differences = differences(&record.settings, settings);
            if !differences.is_empty() {
                return Err(Error::OtherSettings { path, differences });
            }
            record
        } else {
            let strangers =
                fs::read_dir(&path).map_err(io_error)?.filter_map(Result::ok).any(|entry| entry.file_name() != LOCK);
            if strangers {
                // The lock file is ours; leave the folder as it was found.
                let _ = fs::remove_file(path.join(LOCK));
                return Err(Error::NotEmpty(path));
            }
            RunRecord {
                version: VERSION,
                tool: env!("CARGO_PKG_VERSION").to_owned(),
                model: model.given.clone(),
                source: model.identity(),
                command: command.to_vec(),
                settings: settings.clone(),
                created: now(),
                state: State::Running,
            }
        };
        let path = std::path::absolute(&path).map_err(io_error)?;
        let folder = Self { path, record, resumed: resume, _lock: lock };
        sweep(&folder.path);
        folder.save_record()?;
        Ok(folder)
    }

    /// Where it is (absolute).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was asked when the run began.
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    /// True when the run was begun by an earlier process.
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// Notes that the run has its report.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.record.state = State::Finished;
        self.save_record()?;
        remove_outputs(&self.path);
        Ok(())
    }

    /// A folder below the run folder, created when missing.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        Ok(path)
    }

    /// The result of stage `name` if an earlier process finished it from the same `key`. A record that is
    /// torn, foreign or of another key counts as missing.
    pub fn finished_stage<T: DeserializeOwned>(&self, name: &str, key: &str) -> Option<T> {
        let bytes = files::read_regular(&self.stage_path(name), MOST_RECORD).ok()?;
        let record: StageRecord<T> = serde_json::from_slice(&bytes).ok()?;
        (record.version == VERSION && record.key == key).then_some(record.result)
    }

    /// Stores the result of a stage.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish_stage<T: Serialize>(&self, name: &str, key: &str, result: &T) -> Result<(), Error> {
        let path = self.stage_path(name);
        self.folder("stages")?;
        files::write_json(&path, &StageRecord { version: VERSION, key: key.to_owned(), result })
            .map_err(|source| Error::Io { path, source })
    }

    fn stage_path(&self, name: &str) -> PathBuf {
        self.path.join("stages").join(format!("{name}.json"))
    }

    fn save_record(&self) -> Result<(), Error> {
        let path = self.path.join(RECORD);
        files::write_json(&path, &self.record).map_err(|source| Error::Io { path: self.path.clone(), source })
    }
}

impl Drop for RunFolder {
    /// A process that was killed in the middle of a file leaves the unfinished one behind.
    fn drop(&mut self) {
        sweep(&self.path);
    }
}

/// Every setting whose value is not the one that the run was begun with.
fn differences(held: &BTreeMap<String, String>, asked: &BTreeMap<String, String>) -> Vec<String> {
    let said = |value: Option<&String>| value.map_or_else(|| "not set".to_owned(), |value| format!("`{value}`"));
    let names: std::collections::BTreeSet<&String> = held.keys().chain(asked.keys()).collect();
    names
        .into_iter()
        .filter(|name| held.get(*name) != asked.get(*name))
        .map(|name| format!("`{name}` was {}, now {}", said(held.get(name)), said(asked.get(name))))
        .collect()
}

impl RunRecord {
    /// The record of the run in a folder; none when it cannot be read.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&files::read_regular(&folder.join(RECORD), MOST_RECORD).ok()?).ok()
    }
}

/// A command of `optimize` without the place of its run, as words.
pub fn without_place(command: &[String]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = command.iter();
    while let Some(word) = rest.next() {
        if word == "--out" {
            rest.next();
        } else if !(word.starts_with("--out=") || word == "--resume" || word.starts_with("--resume=")) {
            words.push(word.clone());
        }
    }
    words
}

/// The command that goes on with the run in `folder`: the one that began it, with the place replaced.
pub fn resume_command(command: &[String], folder: &Path) -> String {
    let mut words = without_place(command);
    words.push(format!("--resume={}", folder.display()));
    shell::line(words)
}

/// True while a process works in the folder.
pub fn is_in_use(folder: &Path) -> bool {
    let lock = files::open_regular(&folder.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.file().try_lock(), Err(std::fs::TryLockError::WouldBlock)))
}

/// The current time, RFC 3339 in UTC, whole seconds.
pub fn now() -> String {
    let now = crate::clock::time_of_day();
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Creates the first free `parent/name-N`; creation itself decides between two processes.
fn numbered(parent: &Path, name: &str) -> Result<PathBuf, Error> {
    fs::create_dir_all(parent).map_err(|source| Error::Io { path: parent.to_path_buf(), source })?;
    let first = numbers(parent, name).max().map_or(1, |newest| newest.saturating_add(1));
    for number in first..MAX_NUMBER {
        let path = parent.join(format!("{name}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(Error::Io { path, source }),
        }
    }
    Err(Error::Occupied(parent.join(name)))
}

/// The newest `parent/name-N` that holds a file of this name; with a model's identity, the newest of that
/// model, as two models may have the same name.
pub fn newest(parent: &Path, name: &str, file: &str, source: Option<&str>) -> Option<PathBuf> {
    let mut found: Vec<u32> = numbers(parent, name).collect();
    found.sort_unstable();
    let is_of = |path: &Path| source.is_none_or(|source| RunRecord::read(path).is_some_and(|run| run.source == source));
    let folders = found.into_iter().rev().map(|number| parent.join(format!("{name}-{number}")));
    folders.into_iter().find(|path| path.join(file).exists() && is_of(path))
}

fn numbers(parent: &Path, name: &str) -> impl Iterator<Item = u32> {
    let prefix = format!("{name}-");
    fs::read_dir(parent)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(move |entry| entry.file_name().to_str()?.strip_prefix(&prefix)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::Hint as _;

    fn place(parent: &Path) -> RunPlace {
        RunPlace::Numbered { parent: parent.to_path_buf(), name: "unet".to_owned() }
    }

    fn asked() -> BTreeMap<String, String> {
        [("seed", "0"), ("threads", "2")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    fn model(name: &str) -> Model {
        Model::parse(&format!("zoo:{name}")).expect("model")
    }

    #[test]
    fn a_run_of_another_model_is_not_gone_on_with() {
        let top = tempfile::tempdir().expect("temporary folder");
        let at = top.path().join("run");
        drop(RunFolder::open(&RunPlace::At(at.clone()), &model("unet"), &[], &asked()).expect("open"));
        let before = fs::read(at.join(RECORD)).expect("record");
        let error =
            RunFolder::open(&RunPlace::ResumeAt(at.clone()), &model("fpn"), &[], &asked()).expect_err("another model");
        assert!(matches!(&error, Error::OtherModel { held, asked, .. } if held == "zoo:unet" && asked == "zoo:fpn"));
        assert!(error.hint().is_some_and(|hint| hint.contains("zoo:unet")));
        assert_eq!(fs::read(at.join(RECORD)).expect("record"), before);
        RunFolder::open(&RunPlace::ResumeAt(at), &model("unet"), &[], &asked()).expect("the same model");
    }

    #[test]
    fn a_run_is_gone_on_with_only_as_it_was_begun_and_only_until_it_is_finished() {
        let top = tempfile::tempdir().expect("temporary folder");
        let at = top.path().join("run");
        let resume = RunPlace::ResumeAt(at.clone());
        drop(RunFolder::open(&RunPlace::At(at.clone()), &model("unet"), &[], &asked()).expect("open"));
        let mut other = asked();
        other.insert("seed".to_owned(), "1".to_owned());
        other.insert("only".to_owned(), "dd-001".to_owned());
        let error = RunFolder::open(&resume, &model("unet"), &[], &other).expect_err("other settings");
        assert!(error.to_string().ends_with("`only` was not set, now `dd-001`, `seed` was `0`, now `1`"), "{error}");
        let mut open = RunFolder::open(&resume, &model("unet"), &[], &asked()).expect("the same settings");
        assert!(is_in_use(&at));
        open.finish().expect("finished");
        drop(open);
        assert!(!is_in_use(&at));
        let error = RunFolder::open(&resume, &model("unet"), &[], &asked()).expect_err("finished");
        assert!(matches!(error, Error::Finished(_)));
    }

    #[test]
    fn the_command_that_goes_on_keeps_everything_but_the_place() {
        let told =
            |line: &str| resume_command(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), Path::new("runs/a b"));
        for line in [
            "dd optimize net.py",
            "dd optimize --out x net.py",
            "dd optimize net.py --out=x --resume",
            "dd optimize --resume=y net.py",
        ] {
            assert_eq!(told(line), "dd optimize net.py '--resume=runs/a b'", "{line}");
        }
        assert_eq!(told("dd optimize net.py --seed 3"), "dd optimize net.py --seed 3 '--resume=runs/a b'");
    }

    #[test]
    fn a_run_that_finished_no_stage_leaves_nothing() {
        let top = tempfile::tempdir().expect("temporary folder");
        let parent = top.path().join("runs");
        let open = RunFolder::open(&place(&parent), &model("unet"), &[], &asked()).expect("open");
        let at = open.path().to_path_buf();
        assert!(!discard_unbegun(&at) && at.exists(), "somebody works in it");
        drop(open);
        assert!(discard_unbegun(&at) && !parent.exists());
        let open = RunFolder::open(&place(&parent), &model("unet"), &[], &asked()).expect("open");
        open.finish_stage("export", "k", &1_u32).expect("stage");
        drop(open);
        assert!(!discard_unbegun(&at) && at.exists(), "a stage is worth keeping");
    }

    #[test]
    fn what_was_being_written_is_swept_up_at_both_ends() {
        let top = tempfile::tempdir().expect("temporary folder");
        let at = top.path().join("run");
        let open = RunFolder::open(&RunPlace::At(at.clone()), &model("unet"), &[], &asked()).expect("open");
        let inside = open.folder("rounds/1").expect("folder");
        let left = [at.join(".writing-7.pt2"), inside.join(".writing-abc"), inside.join("program.pt2")];
        let names = || left.each_ref().map(|path| path.exists());
        let write = || left.iter().for_each(|path| fs::write(path, b"x").expect("write"));
        write();
        drop(open);
        assert_eq!(names(), [false, false, true]);
        write();
        let _again = RunFolder::open(&RunPlace::ResumeAt(at.clone()), &model("unet"), &[], &asked()).expect("resumed");
        assert_eq!(names(), [false, false, true]);
    }

    #[test]
    fn runs_are_numbered_and_the_newest_is_resumed() {
        let top = tempfile::tempdir().expect("temporary folder");
        let first = RunFolder::open(&place(top.path()), &model("unet"), &[], &asked()).expect("first");
        let second = RunFolder::open(&place(top.path()), &model("unet"), &[], &asked()).expect("second");
        assert!(first.path().ends_with("unet-1") && second.path().ends_with("unet-2"));
        second.finish_stage("export", "k1", &7_u32).expect("stage");
        drop(second);
        let resume = RunPlace::ResumeNewest { parent: top.path().to_path_buf(), name: "unet".to_owned() };
        let again = RunFolder::open(&resume, &model("unet"), &[], &asked()).expect("resumed");
        assert!(again.path().ends_with("unet-2") && again.resumed());
        assert_eq!(again.finished_stage::<u32>("export", "k1"), Some(7));
        assert_eq!(again.finished_stage::<u32>("export", "k2"), None, "another key is another stage");
        assert_eq!(again.finished_stage::<String>("export", "k1"), None, "a foreign record counts as missing");
    }

    #[test]
    fn a_folder_in_use_or_of_somebody_else_is_refused() {
        let top = tempfile::tempdir().expect("temporary folder");
        let at = RunPlace::At(top.path().join("run"));
        let open = RunFolder::open(&at, &model("m"), &[], &asked()).expect("open");
        assert!(matches!(RunFolder::open(&at, &model("m"), &[], &asked()), Err(Error::Locked(_))));
        drop(open);
        assert!(matches!(RunFolder::open(&at, &model("m"), &[], &asked()), Err(Error::Occupied(_))));
        let foreign = top.path().join("photos");
        fs::create_dir(&foreign).expect("folder");
        files::write_atomic(&foreign.join("a.jpg"), b"x").expect("write");
        assert!(matches!(
            RunFolder::open(&RunPlace::At(foreign.clone()), &model("m"), &[], &asked()),
            Err(Error::NotEmpty(_))
        ));
        assert_eq!(fs::read_dir(&foreign).expect("list").count(), 1, "nothing is left behind");
        assert!(matches!(
            RunFolder::open(&RunPlace::ResumeAt(foreign), &model("m"), &[], &asked()),
            Err(Error::NothingToResume(_))
        ));
    }
}
