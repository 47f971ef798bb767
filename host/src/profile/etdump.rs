//! Reads ETDump files: size-prefixed flatbuffers with the identifier `ED00`.
//!
//! The whole buffer is verified before any field is read, and limits on depth and table count bound the
//! work a hostile file can ask for. Times stay in the file's ticks; whoever made the trace knows what a
//! tick is.

use std::path::Path;

use flatbuffers::VerifierOptions;

use crate::evidence::TargetLabel;
use crate::files;
use crate::hint::Hint;

use super::etdump_schema::etdump::{ProfileEvent, size_prefixed_root_as_etdump_with_opts};

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

/// Name of a device that nobody named.
pub const NAMELESS: &str = "a device that the trace does not name";

/// The label of what somebody recorded on something that only they know.
pub fn recorded_elsewhere(on: Option<&str>) -> TargetLabel {
    let name = on.filter(|name| !name.trim().is_empty()).unwrap_or(NAMELESS).to_owned();
    TargetLabel { kind: "recorded".to_owned(), name, architecture: "unknown".to_owned(), physical_arm: false }
}

/// Reads a dump from a file.
///
/// # Errors
/// Unreadable, too large or damaged files.
pub fn read(path: &Path) -> Result<Trace, Error> {
    let bytes = files::read_regular(path, MAX_BYTES)?;
    parse(&bytes).map_err(|reason| Error::Invalid { path: path.display().to_string(), reason })
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
    if bytes.get(8..12) != Some(b"ED00".as_slice()) {
        return Err("the identifier `ED00` is missing".to_owned());
    }
    let dump = size_prefixed_root_as_etdump_with_opts(&options, bytes).map_err(|error| error.to_string())?;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Three traced runs of a small program with a delegate call and a softmax outside of it, as the
    /// native runner wrote them.
    const SAMPLE: &[u8] =
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/runner/softmax_head.etdp"));

    #[test]
    fn a_real_dump_is_read_in_the_order_of_its_events() {
        let trace = parse(SAMPLE).expect("a dump");
        assert_eq!(trace.runs.len(), 3);
        let events: Vec<(&str, bool, Option<i64>)> =
            trace.runs[2].events.iter().map(|event| (event.name.as_str(), event.delegate, event.instruction)).collect();
        assert_eq!(
            events,
            [
                ("Transpose (ND, X32) #1", true, Some(0)),
                ("Convolution (NHWC, F32) IGEMM #1", true, Some(0)),
                ("Convolution (NHWC, F32) IGEMM #2", true, Some(0)),
                ("Transpose (ND, X32) #2", true, Some(0)),
                ("DELEGATE_CALL", false, Some(0)),
                ("native_call__softmax.out", false, Some(1)),
                ("OPERATOR_CALL", false, Some(1)),
                ("Method::execute", false, Some(0)),
            ]
        );
        assert_eq!(trace.runs[0].name, "Execute");
        assert!(trace.runs.iter().flat_map(|run| &run.events).all(|event| event.ticks() < 1_000_000_000));
    }

    #[test]
    fn what_is_no_dump_is_refused_with_a_reason() {
        assert_eq!(parse(b""), Err("the identifier `ED00` is missing".to_owned()));
        assert_eq!(parse(&[0; 64]), Err("the identifier `ED00` is missing".to_owned()));
        let error = read(Path::new("/nonexistent/trace.etdp")).expect_err("missing");
        assert!(matches!(error, Error::Io(_)), "{error}");
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("trace.etdp");
        crate::files::write_atomic(&path, &SAMPLE[..SAMPLE.len() / 2]).expect("write");
        let error = read(&path).expect_err("cut short").to_string();
        assert!(error.starts_with("Trace `") && error.contains("is not a valid ETDump: "), "{error}");
    }

    #[test]
    fn a_dump_that_is_cut_anywhere_is_refused() {
        for length in 0..SAMPLE.len() {
            assert!(parse(&SAMPLE[..length]).is_err(), "{length} of {} bytes", SAMPLE.len());
        }
    }

    #[test]
    fn an_event_that_ends_before_it_starts_is_refused() {
        let start = parse(SAMPLE).expect("a dump").runs[0].events[4].start;
        let at = SAMPLE.windows(8).position(|bytes| bytes == start.to_le_bytes()).expect("the start time");
        let mut damaged = SAMPLE.to_vec();
        damaged[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(parse(&damaged).expect_err("refused").ends_with("ends before it starts"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

        #[test]
        fn a_damaged_dump_is_refused_or_read(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
            let mut damaged = SAMPLE.to_vec();
            for (at, byte) in changes {
                damaged[at.index(SAMPLE.len())] = byte;
            }
            if let Ok(trace) = parse(&damaged) {
                let _ = crate::profile::profile(&trace, 1.0, &label());
            }
        }

        #[test]
        fn any_bytes_after_the_identifier_are_refused_or_read(tail in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = vec![0x20, 1, 0, 0, 12, 0, 0, 0];
            bytes.extend_from_slice(b"ED00");
            bytes.extend(tail);
            let _ = parse(&bytes);
        }
    }

    fn label() -> crate::evidence::TargetLabel {
        crate::evidence::TargetLabel {
            kind: "local".to_owned(),
            name: "this host".to_owned(),
            architecture: "x86_64".to_owned(),
            physical_arm: false,
        }
    }
}
