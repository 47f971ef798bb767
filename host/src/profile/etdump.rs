//! Reads ETDump files: size-prefixed flatbuffers with the identifier `ED00`.
//!
//! The whole buffer is verified before any field is read, and limits on depth and table count bound the
//! work a hostile file can ask for. Times stay in the file's ticks; whoever made the trace knows what a
//! tick is.

use std::path::{Path, PathBuf};

use flatbuffers::VerifierOptions;
use fs_err as fs;

use crate::hint::Hint;

use super::etdump_schema::etdump::{ProfileEvent, root_as_etdump_with_opts, size_prefixed_root_as_etdump_with_opts};

/// Largest dump that is read.
const MAX_BYTES: u64 = 1 << 30;

/// What a dump holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// one entry a traced run, in order
    pub runs: Vec<RunTrace>,
}

/// The events of one traced run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTrace {
    /// block name, `Execute` for runs of a method
    pub name: String,
    /// in the order of the file: what happens inside a call comes before the call
    pub events: Vec<Event>,
}

/// A timed event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// name given by the runtime (`DELEGATE_CALL`, `native_call_add.out`) or, for an event inside a
    /// delegate, the delegate's own name for it
    pub name: String,
    /// true for an event that a delegate reported
    pub delegate: bool,
    /// instruction of the method; `None` for events of the whole method
    pub instruction: Option<i64>,
    /// start in ticks
    pub start: u64,
    /// end in ticks, never before `start`
    pub end: u64,
}

impl Event {
    /// Duration in ticks.
    pub fn ticks(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Why a dump cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// not a dump, or damaged
    #[error("Trace `{path}` is not a valid ETDump: {reason}")]
    Invalid {
        /// file, or `memory`
        path: String,
        /// what is wrong
        reason: String,
    },
    /// unreadable
    #[error("Failed to read trace")]
    Io(#[from] std::io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Invalid { .. } => Some("Profile the program again; the file may be cut short".to_owned()),
            Self::Io(error) => error.hint(),
        }
    }
}

/// Reads a dump from a file.
///
/// # Errors
/// Unreadable, too large or damaged files.
pub fn read(path: &Path) -> Result<Trace, Error> {
    let size = fs::metadata(path)?.len();
    if size > MAX_BYTES {
        return Err(Error::Invalid {
            path: path.display().to_string(),
            reason: format!("it has {size} bytes, more than the {MAX_BYTES} this version reads"),
        });
    }
    parse(&fs::read(path)?).map_err(|reason| Error::Invalid { path: path.display().to_string(), reason })
}

/// Reads a dump from memory; the error says what is wrong with it.
///
/// # Errors
/// Damaged bytes.
pub fn parse(bytes: &[u8]) -> Result<Trace, String> {
    let options = VerifierOptions {
        max_depth: 32,
        max_tables: 20_000_000,
        max_apparent_size: 1 << 31,
        ignore_missing_null_terminator: false,
    };
    // The runtime writes the size first; other tools strip it.
    let prefixed = bytes.get(8..12) == Some(b"ED00".as_slice());
    let plain = bytes.get(4..8) == Some(b"ED00".as_slice());
    let dump = if prefixed {
        size_prefixed_root_as_etdump_with_opts(&options, bytes)
    } else if plain {
        root_as_etdump_with_opts(&options, bytes)
    } else {
        return Err("the identifier `ED00` is missing".to_owned());
    }
    .map_err(|error| error.to_string())?;

    let mut trace = Trace::default();
    for run in dump.run_data().into_iter().flatten() {
        let mut events = Vec::new();
        for event in run.events().into_iter().flatten() {
            if let Some(profile) = event.profile_event() {
                events.push(timed_event(&profile)?);
            }
        }
        trace.runs.push(RunTrace { name: run.name().unwrap_or_default().to_owned(), events });
    }
    Ok(trace)
}

fn timed_event(event: &ProfileEvent<'_>) -> Result<Event, String> {
    let name = event.name().unwrap_or_default();
    let delegate_text = event.delegate_debug_id_str().unwrap_or_default();
    let delegate_number = event.delegate_debug_id_int();
    let delegate = !delegate_text.is_empty() || delegate_number != -1;
    let shown = match (name.is_empty(), delegate_text.is_empty()) {
        (false, _) => name.to_owned(),
        (true, false) => delegate_text.to_owned(),
        (true, true) => format!("delegate event {delegate_number}"),
    };
    if event.end_time() < event.start_time() {
        return Err(format!("event `{shown}` ends before it starts"));
    }
    Ok(Event {
        name: shown,
        delegate,
        instruction: Some(event.instruction_id()).filter(|&id| id >= 0).map(i64::from),
        start: event.start_time(),
        end: event.end_time(),
    })
}

/// A dump on disk with the meaning of its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile {
    /// the file
    pub path: PathBuf,
    /// nanoseconds of one tick
    pub ns_per_tick: f64,
}
