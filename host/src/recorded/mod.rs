//! What somebody measured earlier, with this tool or another one, as a [`ProfileDocument`].
//!
//! In: a path. Out: a [`Recording`]. Known are profiles of this tool and folders of its runs, ETDump traces, the
//! tables of ExecuTorch's Inspector (`save_data_to_tsv`), the files of Arm's SME2 kit (`*_timeline.csv`,
//! `*_ops_stats.csv`, `manifest.json`, `analysis_summary.json`), and the JSON of ArmFit. What a file is is told by
//! its content. Where one file holds several profiles, a name behind `#` picks one: `manifest.json#sme2_on`. No
//! number is taken for measured that its file calls made up.

mod kit;
mod tables;

use std::path::{Path, PathBuf};

use crate::evidence::TargetLabel;
use crate::files;
use crate::hint::Hint;
use crate::profile::{self, Breakdown, Trace, etdump};
use crate::report::breakdown::ProfileDocument;

/// Largest file that is read.
const MOST_BYTES: u64 = 256 << 20;
/// Where a run folder keeps a profile.
const PROFILE: &str = "profile.json";
/// Where a run folder of `optimize` keeps the trace of the program as it was.
const ORIGINAL: &str = "original/trace.etdp";

/// How a recording is read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// what it was recorded on, for the label; none: not known
    pub recorded_on: Option<String>,
    /// nanoseconds of a tick of an ETDump's clock; none: 1
    pub ns_per_tick: Option<f64>,
    /// where a run of this tool says that it ran; it outranks `recorded_on`
    pub known: Option<TargetLabel>,
}

/// A profile that was read.
#[derive(Debug)]
pub struct Recording {
    /// the profile
    pub document: ProfileDocument,
    /// the events behind it, with nanoseconds a tick; none where only totals were kept
    pub trace: Option<(Trace, f64)>,
}

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// a trace that is none
    #[error(transparent)]
    Trace(#[from] etdump::Error),
    /// a trace that makes no sense
    #[error("`{path}` holds no profile")]
    Profile {
        /// file
        path: PathBuf,
        /// why
        #[source]
        source: profile::delegation::Error,
    },
    /// unreadable
    #[error("Failed to read `{path}`")]
    Io {
        /// file
        path: PathBuf,
        /// why
        #[source]
        source: std::io::Error,
    },
    /// nothing that is known
    #[error("`{path}` is no recording that is known: {why}")]
    Unknown {
        /// file
        path: PathBuf,
        /// what it looks like
        why: String,
    },
    /// something known that is damaged
    #[error("`{path}` cannot be understood: {why}")]
    Damaged {
        /// file
        path: PathBuf,
        /// what is wrong and where
        why: String,
    },
    /// several profiles, and none was picked
    #[error("`{path}` holds several profiles: {}", few(names))]
    Several {
        /// file
        path: PathBuf,
        /// what can be picked
        names: Vec<String>,
    },
    /// a name that is not there
    #[error("`{path}` holds no profile `{name}`")]
    NoSuch {
        /// file
        path: PathBuf,
        /// as typed
        name: String,
        /// what can be picked
        names: Vec<String>,
    },
    /// one profile, where two or a name behind `#` were asked for
    #[error("`{path}` holds one profile: {why}")]
    Single {
        /// file or folder
        path: PathBuf,
        /// what cannot be done with it
        why: &'static str,
    },
    /// the user stopped it
    #[error("Interrupted")]
    Interrupted,
    /// numbers that nobody measured
    #[error("The numbers of `{path}` were not measured: the file itself says so")]
    MadeUp {
        /// file
        path: PathBuf,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Trace(error) => return error.hint(),
            Self::Io { source, .. } => return source.hint(),
            Self::Profile { .. } => "Record it again with the runtime's event tracer on".to_owned(),
            Self::Unknown { .. } => {
                "Give an ETDump, `profile.json` or its run folder, a table of ExecuTorch's Inspector, or a file of \
                 Arm's SME2 kit or ArmFit"
                    .to_owned()
            }
            Self::Damaged { .. } => "Make the file again; it may be cut short".to_owned(),
            Self::Single { .. } => "Name it alone, or beside a second one for `compare`".to_owned(),
            Self::Interrupted => return None,
            Self::Several { path, names } | Self::NoSuch { path, names, .. } => {
                let first = names.first().map_or("NAME", String::as_str);
                format!("Pick one behind `#`: `{}#{first}`", path.display())
            }
            Self::MadeUp { .. } => "Profile the program itself: `delegate-doctor profile PROGRAM.pte`".to_owned(),
        })
    }
}

/// Names in words, not all of very many.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| name.chars().take(80).collect()).collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

/// The path and the name behind `#`, unless a file has that very name.
fn picked(given: &str) -> (PathBuf, Option<&str>) {
    match given.rsplit_once('#') {
        Some((path, name)) if !Path::new(given).exists() && !name.is_empty() => (PathBuf::from(path), Some(name)),
        _ => (PathBuf::from(given), None),
    }
}

/// True for what looks like a recording by its name: everything else is a model.
pub fn is_named_like_one(given: &str) -> bool {
    let (path, pick) = picked(given);
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    pick.is_some() || path.is_dir() || matches!(ending.as_deref(), Some("etdp" | "etdump" | "json" | "csv" | "tsv"))
}

/// Reads a recording.
///
/// # Errors
/// When it is nothing known, damaged, made up, or several and none is picked.
pub fn read(given: &str, reading: &Reading) -> Result<Recording, Error> {
    let (path, pick) = picked(given);
    let document = |path: &Path| {
        let bytes = bytes_of(path)?;
        kit::json(path, &bytes, pick, reading)
    };
    if path.is_dir() {
        for name in [PROFILE, "manifest.json", "analysis_summary.json"] {
            let inside = path.join(name);
            if inside.is_file() {
                return document(&inside).map(|found| found.named(given));
            }
        }
        let original = path.join(ORIGINAL);
        if original.is_file() {
            if pick.is_some() {
                return Err(Error::Single { path, why: "there is nothing to pick in it" });
            }
            return traced_run(&path, &original, reading).map(|found| found.named(given));
        }
        let why = "it is a folder without a profile, a trace or a manifest".to_owned();
        return Err(Error::Unknown { path, why });
    }
    let bytes = bytes_of(&path)?;
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if pick.is_some() && !is_json {
        return Err(Error::Single { path, why: "there is nothing to pick in it" });
    }
    let found = if bytes.get(8..12) == Some(b"ED00") {
        traced(&path, reading)?
    } else if is_json {
        kit::json(&path, &bytes, pick, reading)?
    } else if let Some(found) = tables::read(&path, &bytes, reading)? {
        found
    } else if is_trace(&path) {
        traced(&path, reading)?
    } else {
        let why = "its content is neither a trace, JSON nor a table with the columns of one".to_owned();
        return Err(Error::Unknown { path, why });
    };
    Ok(found.named(given))
}

/// The two profiles of one recording: the original and the repaired program of a run of `optimize`, or the only two
/// of a file that holds several.
///
/// # Errors
/// When it does not hold two.
pub fn pair(given: &str, reading: &Reading) -> Result<[Recording; 2], Error> {
    let (path, _) = picked(given);
    let original = path.join(ORIGINAL);
    if path.is_dir() && original.is_file() && !path.join(PROFILE).is_file() {
        let repaired = repaired_trace(&path).ok_or_else(|| Error::Unknown {
            path: path.clone(),
            why: "it is a run without an accepted repair, and there is nothing to compare its program with".to_owned(),
        })?;
        let named = |trace: &Path, what: &str| {
            traced_run(&path, trace, reading).map(|found| found.named(&format!("{given} ({what})")))
        };
        return Ok([named(&original, "original")?, named(&repaired, "repaired")?]);
    }
    let names = match read(given, reading) {
        Err(Error::Several { names, .. }) => names,
        Err(error) => return Err(error),
        Ok(_) => vec![given.to_owned()],
    };
    match names.as_slice() {
        [before, after] => {
            Ok([read(&format!("{given}#{before}"), reading)?, read(&format!("{given}#{after}"), reading)?])
        }
        [_] => Err(Error::Single { path, why: "there is nothing to compare it with" }),
        _ => Err(Error::Several { path, names }),
    }
}

/// A trace of a run of `optimize`, whose records say where it was made and what a tick of its clock is.
fn traced_run(folder: &Path, trace: &Path, reading: &Reading) -> Result<Recording, Error> {
    let read = |path: &Path| serde_json::from_slice::<serde_json::Value>(&bytes_of(path).ok()?).ok();
    let setting = read(&folder.join("report.json")).and_then(|report| report.get("setting").cloned());
    let part = |name: &str| setting.as_ref().and_then(|setting| setting.get(name)).cloned();
    let record = read(&trace.with_extension("json"));
    let own_tick = record.as_ref().and_then(|record| record.get("ns_per_tick")).and_then(serde_json::Value::as_f64);
    let reading = Reading {
        recorded_on: reading.recorded_on.clone(),
        ns_per_tick: own_tick.or(reading.ns_per_tick),
        known: part("target").and_then(|target| serde_json::from_value(target).ok()),
    };
    let mut found = traced(trace, &reading)?;
    found.document.threads = part("threads").and_then(|threads| serde_json::from_value(threads).ok());
    Ok(found)
}

/// The trace of the program with the last accepted repair.
fn repaired_trace(folder: &Path) -> Option<PathBuf> {
    let report = bytes_of(&folder.join("report.json")).ok()?;
    let report: serde_json::Value = serde_json::from_slice(&report).ok()?;
    let accepted = report
        .get("trials")?
        .as_array()?
        .iter()
        .filter(|trial| trial.get("outcome").is_some_and(|it| it == "ACCEPTED"));
    let last = accepted.max_by_key(|trial| trial.get("round").and_then(serde_json::Value::as_u64))?;
    let round = last.get("round")?.as_u64()?;
    let rule = last.get("rule")?.get("id")?.as_str()?;
    let inside = folder.join("rounds").join(round.to_string()).join(file_name_of(rule)?).join("trace.etdp");
    inside.is_file().then_some(inside)
}

/// A name that leads to no other folder.
fn file_name_of(name: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (name.chars().all(plain) && !name.starts_with('.')).then_some(name)
}

fn is_trace(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "etdp" || ending == "etdump")
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, Error> {
    files::read_regular(path, MOST_BYTES).map_err(|source| Error::Io { path: path.to_path_buf(), source })
}

/// An ETDump.
///
/// # Errors
/// When it is none, or holds no run.
pub fn traced(path: &Path, reading: &Reading) -> Result<Recording, Error> {
    let trace = etdump::read(path)?;
    of_trace(path, trace, reading.ns_per_tick.unwrap_or(1.0), reading)
}

fn of_trace(path: &Path, trace: Trace, ns_per_tick: f64, reading: &Reading) -> Result<Recording, Error> {
    let target = label(reading);
    let found = profile::profile(&trace, ns_per_tick, &target)
        .map_err(|source| Error::Profile { path: path.to_path_buf(), source })?;
    let document = ProfileDocument::of_trace(path.display().to_string(), target, Breakdown::of(&found));
    Ok(Recording { document, trace: Some((trace, ns_per_tick)) })
}

fn label(reading: &Reading) -> TargetLabel {
    if let Some(known) = &reading.known {
        return known.clone();
    }
    etdump::recorded_elsewhere(reading.recorded_on.as_deref())
}

impl Recording {
    /// Called as the user called it.
    fn named(mut self, given: &str) -> Self {
        given.clone_into(&mut self.document.subject);
        self
    }
}
