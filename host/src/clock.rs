//! Where the wall time of a run goes: stages, and how much of it child processes worked.
//!
//! The time in which no child process works is the tool's own overhead.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::report::model::Stage;

/// The time of day that this machine has; the last that calendars know when its clock is beyond that.
pub fn time_of_day() -> jiff::Timestamp {
    jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(jiff::Timestamp::MAX)
}

/// Collects stages and the intervals in which child processes work.
#[derive(Debug)]
pub struct Clock {
    begin: Instant,
    stages: Mutex<Vec<Stage>>,
    children: Mutex<Vec<(Duration, Duration)>>,
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// from the first moment until now, seconds
    pub wall_seconds: f64,
    /// with at least one child process at work, seconds
    pub children_seconds: f64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { begin: Instant::now(), stages: Mutex::default(), children: Mutex::default() }
    }
}

impl Clock {
    /// Notes a finished stage that began at `begin`.
    pub fn stage(&self, name: &str, round: Option<u32>, begin: Instant, reused: Option<String>) {
        if let Ok(mut stages) = self.stages.lock() {
            stages.push(Stage { name: name.to_owned(), round, seconds: begin.elapsed().as_secs_f64(), reused });
        }
    }

    /// Runs work that waits for a child process.
    pub fn child<T>(&self, work: impl FnOnce() -> T) -> T {
        let begin = self.begin.elapsed();
        let result = work();
        if let Ok(mut children) = self.children.lock() {
            children.push((begin, self.begin.elapsed()));
        }
        result
    }

    /// The stages so far, in the order in which they ended.
    pub fn stages(&self) -> Vec<Stage> {
        self.stages.lock().map(|stages| stages.clone()).unwrap_or_default()
    }

    /// The totals so far. Overlapping work of several children counts once.
    pub fn totals(&self) -> Totals {
        let children = self.children.lock().map(|children| children.clone()).unwrap_or_default();
        Totals { wall_seconds: self.begin.elapsed().as_secs_f64(), children_seconds: union(children).as_secs_f64() }
    }
}

fn union(mut intervals: Vec<(Duration, Duration)>) -> Duration {
    intervals.sort_unstable();
    let mut covered = Duration::ZERO;
    let mut reached = Duration::ZERO;
    for (begin, end) in intervals {
        covered += end.saturating_sub(begin.max(reached));
        reached = reached.max(end);
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_work_counts_once() {
        let s = Duration::from_secs;
        assert_eq!(union(vec![(s(5), s(6)), (s(0), s(2)), (s(1), s(4)), (s(2), s(3))]), s(5));
        assert_eq!(union(Vec::new()), Duration::ZERO);
    }
}
