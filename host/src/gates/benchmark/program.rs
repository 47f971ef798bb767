//! A program under comparison, and what a block of it is made of.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{BenchmarkPlan, Block, as_f64};
use crate::evidence::median;
use crate::target::{Error, RunRequest, Target};
use crate::torch::protocol::TensorFile;

/// Programs slower than this get one cold sample a block.
const SLOW: Duration = Duration::from_secs(2);
/// Programs slower than this get two samples a block.
const SLOWISH: Duration = Duration::from_millis(400);
/// Most samples of a block.
const MAX_ITERATIONS: u32 = 500;

/// A program with the size of its blocks.
pub(super) struct Program<'a> {
    path: &'a Path,
    size: BlockSize,
    /// wall time of a block, about
    pub(super) wall: Duration,
}

/// What a block is made of. It is the same for both programs: a quantile of few samples lies elsewhere than
/// one of many when their spread is lopsided, and that is no gain.
#[derive(Clone, Copy, Debug)]
struct BlockSize {
    warmup: u32,
    /// runs to warm up at most, while times fall
    warmup_limit: u32,
    iterations: u32,
    max_measure: Duration,
}

impl BlockSize {
    /// One cold run.
    const COLD: Self = Self { warmup: 0, warmup_limit: 0, iterations: 1, max_measure: Duration::MAX };
    /// Enough to see how fast a program is.
    const TRIAL: Self = Self { warmup: 2, warmup_limit: 2, iterations: 10, max_measure: Duration::from_millis(100) };

    /// For two programs of such latencies.
    fn of(latencies: [Duration; 2], plan: &BenchmarkPlan) -> Self {
        let slower = latencies.into_iter().max().unwrap_or_default();
        let both = latencies.into_iter().sum::<Duration>();
        let aimed = 2.0 * plan.block.as_secs_f64() / both.as_secs_f64().max(1e-9);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a small range")]
        let aimed = aimed.ceil().clamp(3.0, f64::from(MAX_ITERATIONS)) as u32;
        let (warmup, warmup_limit, iterations, max_measure) = if slower >= SLOW {
            (0, 0, 1, Duration::MAX)
        } else if slower >= SLOWISH {
            (1, 1, 2, Duration::MAX)
        } else if slower >= Duration::from_millis(20) {
            (2, 8, aimed, (plan.block * 5).max(slower * 3))
        } else {
            (5, 50, aimed, plan.block * 5)
        };
        let (warmup, warmup_limit) = plan.warmup.map_or((warmup, warmup_limit), |exactly| (exactly, exactly));
        Self { warmup, warmup_limit, iterations, max_measure }
    }
}

impl<'a> Program<'a> {
    /// Sees how fast the programs are, and sizes their blocks; these runs are no samples.
    pub(super) fn calibrate(
        target: &dyn Target,
        paths: [&'a Path; 2],
        inputs: &[TensorFile],
        plan: &BenchmarkPlan,
    ) -> Result<[Self; 2], Error> {
        let mut programs = paths.map(|path| Self { path, size: BlockSize::COLD, wall: Duration::ZERO });
        let mut seen = [(Duration::ZERO, Duration::ZERO); 2];
        for (program, seen) in programs.iter_mut().zip(&mut seen) {
            *seen = program.trial(target, inputs, plan)?;
            if seen.0 < SLOW {
                // The first run of a process is cold, and may be many times as slow as the next ones.
                program.size = BlockSize::TRIAL;
                *seen = program.trial(target, inputs, plan)?;
            }
        }
        let size = BlockSize::of(seen.map(|(latency, _)| latency), plan);
        for (program, (latency, start)) in programs.iter_mut().zip(seen) {
            program.size = size;
            program.wall = start + latency * (size.warmup + size.iterations);
        }
        Ok(programs)
    }

    /// Median latency, and the wall time of the process without the runs.
    fn trial(
        &self,
        target: &dyn Target,
        inputs: &[TensorFile],
        plan: &BenchmarkPlan,
    ) -> Result<(Duration, Duration), Error> {
        let started = Instant::now();
        let block = self.block(target, inputs, plan, 0, 0)?;
        let runs: u64 = block.warmup_ns.iter().chain(&block.samples_ns).sum();
        let latency = median(&as_f64(&block.samples_ns)).unwrap_or(0.0);
        Ok((Duration::from_secs_f64(latency / 1e9), started.elapsed().saturating_sub(Duration::from_nanos(runs))))
    }

    /// Runs one block; its place in the experiment is `round` and `position`.
    pub(super) fn block(
        &self,
        target: &dyn Target,
        inputs: &[TensorFile],
        plan: &BenchmarkPlan,
        round: u32,
        position: u32,
    ) -> Result<Block, Error> {
        let outcome = target.run(&RunRequest {
            program: self.path,
            inputs,
            output_dir: None,
            threads: plan.threads,
            warmup: self.size.warmup,
            warmup_limit: self.size.warmup_limit,
            iterations: self.size.iterations,
            max_measure: self.size.max_measure,
            trace: None,
            timeout: plan.timeout,
        })?;
        if outcome.samples_ns.is_empty() {
            return Err(Error::Protocol { target: target.label().name, reason: "it measured nothing".to_owned() });
        }
        Ok(Block {
            round,
            position,
            warmup_ns: outcome.warmup_ns,
            samples_ns: outcome.samples_ns,
            peak_memory_bytes: outcome.peak_memory_bytes,
            conditions: outcome.conditions,
        })
    }
}
