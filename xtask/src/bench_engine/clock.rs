//! Processor time over repetitions.

use cpu_time::ProcessTime;

/// Seconds of processor time, one a repetition, in ascending order.
pub(super) struct Times(Vec<f64>);

impl Times {
    /// Measures `work` after one run that does not count. `prepare` makes what a repetition uses up; its time
    /// does not count.
    pub(super) fn of<P, T>(repetitions: usize, mut prepare: impl FnMut() -> P, mut work: impl FnMut(P) -> T) -> Self {
        let mut seconds = Vec::new();
        for repetition in 0..=repetitions.max(1) {
            let prepared = prepare();
            let begin = ProcessTime::now();
            let result = std::hint::black_box(work(prepared));
            let spent = begin.elapsed().as_secs_f64();
            drop(result);
            if repetition > 0 {
                seconds.push(spent);
            }
        }
        Self::from(seconds)
    }

    /// Measures work that needs nothing.
    pub(super) fn of_work<T>(repetitions: usize, mut work: impl FnMut() -> T) -> Self {
        Self::of(repetitions, || (), |()| work())
    }

    /// The least disturbed repetition.
    pub(super) fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    /// The repetition in the middle.
    pub(super) fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// How many repetitions there were.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl From<Vec<f64>> for Times {
    fn from(mut seconds: Vec<f64>) -> Self {
        seconds.sort_unstable_by(f64::total_cmp);
        Self(seconds)
    }
}
