//! One traced run in order of time, to draw it.
//!
//! In: the Trace Event Format that [`chrome_trace`](super::breakdown::chrome_trace) writes. Out: [`Span`]s.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Row of the Trace Event Format that holds the kernels in delegates.
const DELEGATE_ROW: u64 = 2;

/// Something that took time in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// as the trace names it
    pub name: String,
    /// a kernel in a delegate
    pub delegated: bool,
    /// of the method; none for the method itself
    pub instruction: Option<i64>,
    /// µs since the run began
    pub start_us: f64,
    /// µs
    pub duration_us: f64,
}

/// The spans of a timeline in the Trace Event Format, in its order; what has no name or no times is left out.
pub fn spans(timeline: &Value) -> Vec<Span> {
    let events = timeline.get("traceEvents").and_then(Value::as_array);
    events.into_iter().flatten().filter_map(span).collect()
}

fn span(event: &Value) -> Option<Span> {
    let number = |name: &str| event.get(name)?.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    (event.get("ph")?.as_str()? == "X").then_some(())?;
    Some(Span {
        name: event.get("name")?.as_str()?.to_owned(),
        delegated: event.get("tid").and_then(Value::as_u64) == Some(DELEGATE_ROW),
        instruction: event.get("args").and_then(|arguments| arguments.get("instruction")?.as_i64()),
        start_us: number("ts")?,
        duration_us: number("dur")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::TargetLabel;
    use crate::profile::{Event, RunTrace, Trace};
    use crate::report::breakdown::chrome_trace;

    #[test]
    fn a_timeline_is_read_as_it_was_written() {
        let event = |name: &str, delegate, instruction, start, end| Event {
            name: name.to_owned(),
            delegate,
            instruction,
            start,
            end,
        };
        let run = RunTrace {
            name: "Execute".to_owned(),
            events: vec![
                event("Convolution #1", true, Some(0), 2000, 5000),
                event("DELEGATE_CALL", false, Some(0), 1000, 6000),
                event("Method::execute", false, None, 1000, 7000),
            ],
        };
        let target = TargetLabel {
            kind: "local".to_owned(),
            name: "here".to_owned(),
            architecture: "x86_64".to_owned(),
            physical_arm: false,
        };
        let found = spans(&chrome_trace(&Trace { runs: vec![run] }, 1.0, &target));
        let told: Vec<_> = found
            .iter()
            .map(|it| (it.name.as_str(), it.delegated, it.instruction, it.start_us, it.duration_us))
            .collect();
        assert_eq!(
            told,
            [
                ("Convolution #1", true, Some(0), 1.0, 3.0),
                ("DELEGATE_CALL", false, Some(0), 0.0, 5.0),
                ("Method::execute", false, None, 0.0, 6.0),
            ]
        );
    }

    #[test]
    fn what_is_no_timeline_has_no_spans() {
        for text in [
            "null",
            "[]",
            r#"{"traceEvents":3}"#,
            r#"{"traceEvents":[{"ph":"X"},{"ph":"X","name":"a","ts":-1,"dur":2},{"ph":"M","name":"a","ts":1,"dur":2}]}"#,
        ] {
            assert_eq!(spans(&serde_json::from_str(text).expect("JSON")), [], "{text}");
        }
    }
}
