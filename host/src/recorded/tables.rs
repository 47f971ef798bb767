//! Tables of events: the timelines and totals of Arm's SME2 kit, and what ExecuTorch's Inspector saves.
//!
//! A timeline has a row for each event of each run and becomes the trace that it was made from. A table of totals
//! has a row for each event, or each kind of event, over all runs; it becomes a trace of one run, because how the
//! runs differed is not in it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::{Error, Reading, Recording, of_trace};
use crate::interrupt;
use crate::profile::{Event, RunTrace, Trace};

/// Name of a run's whole time.
const METHOD: &str = "Method::execute";
/// Name of the events around a delegate's work.
const DELEGATE: &str = "DELEGATE_CALL";
/// Name of the events around a kernel.
const OPERATOR: &str = "OPERATOR_CALL";
/// Beginning of the names of kernels.
const KERNEL: &str = "native_call_";
/// The kit's word for what no delegate ran.
const PORTABLE: &str = "portable";
/// Most rows that are read.
const MOST_ROWS: usize = 5_000_000;

/// The columns of a table, by what they mean.
struct Columns {
    name: usize,
    /// time of an event or of a kind of events, with ns of its unit
    time: (usize, f64),
    run: Option<usize>,
    start: Option<usize>,
    backend: Option<usize>,
    /// `is_delegated_op`
    delegated: Option<usize>,
    block: Option<usize>,
}

impl Columns {
    /// What a header is of; `None` when it is of nothing known, or times are in a unit that is no time.
    fn of(header: &csv::StringRecord) -> Option<Self> {
        let named: HashMap<&str, usize> = header.iter().enumerate().map(|(at, name)| (name.trim(), at)).collect();
        let find = |names: &[&str]| names.iter().find_map(|name| named.get(name).copied());
        let times: [(&str, f64); 13] = [
            ("duration_ms", 1e6),
            ("total_ms", 1e6),
            ("p50 (ms)", 1e6),
            ("p50 (us)", 1e3),
            ("p50 (ns)", 1.0),
            ("p50 (s)", 1e9),
            ("p50", 1e6),
            ("avg (ms)", 1e6),
            ("avg (us)", 1e3),
            ("avg (ns)", 1.0),
            ("avg (s)", 1e9),
            ("avg", 1e6),
            ("avg_ms", 1e6),
        ];
        Some(Self {
            name: find(&["name", "event_name"])?,
            time: times.iter().find_map(|(name, ns)| Some((*named.get(name)?, *ns)))?,
            run: find(&["run_index"]),
            start: find(&["start_us"]),
            backend: find(&["delegate_backend"]),
            delegated: find(&["is_delegated_op"]),
            block: find(&["block", "event_block_name"]),
        })
    }
}

/// A row that was read.
struct Row {
    name: String,
    delegated: bool,
    start_ns: u64,
    ns: u64,
    block: String,
}

/// Reads a table; `None` when its header is of nothing known.
pub(super) fn read(path: &Path, bytes: &[u8], reading: &Reading) -> Result<Option<Recording>, Error> {
    let damaged = |why: String| Error::Damaged { path: path.to_path_buf(), why };
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let delimiter = if first.contains(&b'\t') { b'\t' } else { b',' };
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(bytes);
    let Ok(header) = reader.headers() else { return Ok(None) };
    let Some(columns) = Columns::of(header) else { return Ok(None) };
    let mut runs: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    let mut count = 0_usize;
    for record in reader.records() {
        let record = record.map_err(|error| damaged(error.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        count += 1;
        if count.is_multiple_of(1 << 14) && interrupt::requested() {
            return Err(Error::Interrupted);
        }
        if count > MOST_ROWS {
            return Err(damaged(format!("it has more than {MOST_ROWS} rows")));
        }
        let (run, row) = row(&columns, &record).map_err(|why| damaged(format!("line {line}: {why}")))?;
        if let Some(row) = row {
            runs.entry(run).or_default().push(row);
        }
    }
    if runs.is_empty() {
        return Err(damaged("it has a header and no events".to_owned()));
    }
    let totals = columns.run.is_none();
    let trace = Trace { runs: runs.into_values().map(|rows| run_of(rows, totals)).collect() };
    let mut found = of_trace(path, trace, 1.0, reading)?;
    if totals {
        found.trace = None;
        found.document.notes.push(
            "The table holds one number for each event over all runs: how much they varied is not in it".to_owned(),
        );
    }
    Ok(Some(found))
}

fn row(columns: &Columns, record: &csv::StringRecord) -> Result<(u64, Option<Row>), String> {
    if record.len() <= columns.name.max(columns.time.0) {
        return Err(format!("it has {} columns, and the header more", record.len()));
    }
    let field = |at: usize| record.get(at).map(str::trim).unwrap_or_default();
    let name = field(columns.name);
    let number = |at: usize, what: &str| -> Result<f64, String> {
        let text = field(at);
        let number: f64 = text.parse().map_err(|_| format!("`{}` is no {what}", cut(text)))?;
        let usable = number.is_finite() && (0.0..=1e15).contains(&number);
        if usable { Ok(number) } else { Err(format!("{number} is no {what}")) }
    };
    let run = match columns.run {
        None => 0,
        Some(at) => field(at).parse().map_err(|_| format!("`{}` is no number of a run", cut(field(at))))?,
    };
    // The Inspector leaves the times of events without any empty.
    if name.is_empty() || field(columns.time.0).is_empty() {
        return Ok((run, None));
    }
    let delegated = match (columns.backend, columns.delegated) {
        (Some(at), _) => !matches!(field(at), "" | PORTABLE),
        (None, Some(at)) => field(at).eq_ignore_ascii_case("true"),
        (None, None) => false,
    };
    let start = columns.start.filter(|at| !field(*at).is_empty()).map(|at| number(at, "start time")).transpose()?;
    let ns = number(columns.time.0, "time")? * columns.time.1;
    Ok((
        run,
        Some(Row {
            name: name.to_owned(),
            delegated,
            start_ns: whole(start.unwrap_or(0.0) * 1e3),
            ns: whole(ns),
            block: columns.block.map_or("Execute", field).to_owned(),
        }),
    ))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be finite and not negative")]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The events of a run. A table has no numbers of instructions; what happens inside a call comes before the call.
fn run_of(rows: Vec<Row>, totals: bool) -> RunTrace {
    let calls = |name: &str| rows.iter().any(|row| row.name == name && !row.delegated);
    let (has_operators, has_delegates) = (calls(OPERATOR), calls(DELEGATE));
    let has_method = calls(METHOD);
    let name = rows.first().map_or_else(String::new, |row| row.block.clone());
    let mut events = Vec::with_capacity(rows.len());
    let (mut instruction, mut inside, mut outside) = (0_i64, 0_u64, 0_u64);
    for row in rows {
        let end = row.start_ns.saturating_add(row.ns);
        let event = |name: String, delegate: bool, instruction: Option<i64>| Event {
            name,
            delegate,
            instruction,
            start: row.start_ns,
            end,
        };
        if row.delegated {
            inside = inside.saturating_add(row.ns);
            events.push(event(row.name.clone(), true, Some(instruction)));
        } else if row.name == METHOD {
            events.push(event(row.name.clone(), false, None));
        } else if row.name == DELEGATE {
            outside = outside.saturating_add(row.ns);
            events.push(event(row.name.clone(), false, Some(instruction)));
            instruction += 1;
        } else if row.name.starts_with(KERNEL) {
            events.push(event(row.name.clone(), false, Some(instruction)));
            // Totals count a kernel with its calls, and the call's own row is of all kernels.
            if totals || !has_operators {
                outside = outside.saturating_add(row.ns);
                events.push(event(OPERATOR.to_owned(), false, Some(instruction)));
                instruction += 1;
            }
        } else if row.name == OPERATOR && !totals {
            outside = outside.saturating_add(row.ns);
            events.push(event(row.name.clone(), false, Some(instruction)));
            instruction += 1;
        }
    }
    // Tables of some versions leave the calls, or the method itself, out.
    if !has_delegates && inside > 0 {
        for event in events.iter_mut().filter(|event| event.delegate) {
            event.instruction = Some(instruction);
        }
        let call =
            Event { name: DELEGATE.to_owned(), delegate: false, instruction: Some(instruction), start: 0, end: inside };
        events.push(call);
        outside = outside.saturating_add(inside);
    }
    if !has_method && !events.is_empty() {
        events.push(Event { name: METHOD.to_owned(), delegate: false, instruction: None, start: 0, end: outside });
    }
    // Totals have the delegates' work behind their calls or before them, in the order of cost.
    if totals && has_delegates {
        let call = events.iter().find(|event| event.name == DELEGATE && !event.delegate).and_then(|it| it.instruction);
        for event in events.iter_mut().filter(|event| event.delegate) {
            event.instruction = call;
        }
    }
    RunTrace { name, events }
}
