//! From an exported program to a `.pte`, or the same from the cache.
//!
//! In: a `.pt2` and the key of its content. Out: the `.pte`, what stayed outside the delegate and why.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use fs_err as fs;

use crate::cache::{self, Cache};
use crate::files;
use crate::torch::protocol::{Lowered, PROTOCOL};
use crate::torch::{self, Environment, Worker, WorkerPool};

const KIND: &str = "lowered";
const PROGRAM: &str = "program.pte";
const RECORD: &str = "lowered.json";

/// A program to lower, and where the results go.
#[derive(Clone, Debug)]
pub struct Job {
    /// the `.pt2`
    pub program: PathBuf,
    /// key of its content, see [`crate::export::content_key`]
    pub key: String,
    /// existing folder for `program.pte` and `lowered.json`
    pub folder: PathBuf,
}

/// A lowered program.
#[derive(Clone, Debug)]
pub struct LoweredProgram {
    /// the `.pte`
    pub pte: PathBuf,
    /// what the lowering said
    pub record: Lowered,
    /// taken from the cache
    pub reused: bool,
}

/// Lowers every job, in parallel as far as the pool has places; the results are in the order of the jobs.
pub fn lower(
    workers: &WorkerPool,
    cache: &Cache,
    jobs: &[Job],
    limit: Duration,
) -> Vec<Result<LoweredProgram, torch::Error>> {
    let environment = workers.environment();
    let mut results: Vec<Option<Result<LoweredProgram, torch::Error>>> =
        jobs.iter().map(|job| made_before(cache, environment, job).map(Ok)).collect();
    let open: Vec<usize> = (0..jobs.len()).filter(|&index| results[index].is_none()).collect();
    let made = workers.each(open.clone(), |worker, index| {
        let job = &jobs[index];
        one(worker, cache, environment, job, limit)
    });
    for (index, result) in open.into_iter().zip(made) {
        results[index] = Some(result);
    }
    results.into_iter().flatten().collect()
}

fn one(
    worker: &mut Worker,
    cache: &Cache,
    environment: &Environment,
    job: &Job,
    limit: Duration,
) -> Result<LoweredProgram, torch::Error> {
    let pte = job.folder.join(PROGRAM);
    let record = worker.lower(&job.program, &pte, limit)?;
    let path = job.folder.join(RECORD);
    let prepared = |source: io::Error| torch::Error::Prepare { folder: job.folder.clone(), source };
    files::write_json(&path, &record).map_err(prepared)?;
    let key = entry_key(environment, &job.key);
    cache::note(&job.folder, KIND, &key, &[PROGRAM, RECORD]).map_err(prepared)?;
    // A full or read-only cache costs the next run time, nothing else.
    let _ = cache.keep(KIND, &key, &[&pte, &path]);
    Ok(LoweredProgram { pte, record, reused: false })
}

/// From this run folder, when the run is resumed, or from the cache.
fn made_before(cache: &Cache, environment: &Environment, job: &Job) -> Option<LoweredProgram> {
    let key = entry_key(environment, &job.key);
    if !cache::noted(&job.folder, KIND, &key) {
        if !cache.fetch(KIND, &key, &job.folder).ok()? {
            return None;
        }
        cache::note(&job.folder, KIND, &key, &[PROGRAM, RECORD]).ok()?;
    }
    let bytes = files::read_regular(&job.folder.join(RECORD), 64 << 20).ok()?;
    let mut record: Lowered = serde_json::from_slice(&bytes).ok()?;
    let pte = job.folder.join(PROGRAM);
    record.program.clone_from(&pte);
    Some(LoweredProgram { pte, record, reused: true })
}

fn entry_key(environment: &Environment, content: &str) -> String {
    cache::key(&[
        "lowered 1",
        content,
        &environment.torch_version,
        &environment.executorch_version,
        &environment.python_version,
        &PROTOCOL.to_string(),
        torch::worker_version(),
    ])
}

/// How many lowerings may run at once: as many as there are processors, fewer when memory is short. Each
/// needs about `program_bytes` several times over beside what the libraries take.
pub fn parallel_limit(asked: Option<u32>, program_bytes: u64) -> usize {
    if let Some(asked) = asked {
        return asked.max(1) as usize;
    }
    const LIBRARIES: u64 = 1 << 30;
    let each = LIBRARIES.saturating_add(program_bytes.saturating_mul(6));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let fitting = available_memory().map_or(1, |bytes| usize::try_from(bytes / 2 / each).unwrap_or(usize::MAX));
    processors.min(fitting).max(1)
}

/// `MemAvailable` of Linux, bytes.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_bounds_the_number_of_lowerings() {
        assert_eq!(parallel_limit(Some(3), u64::MAX), 3);
        assert_eq!(parallel_limit(Some(0), 0), 1);
        assert_eq!(parallel_limit(None, u64::MAX / 2), 1, "a program larger than memory is lowered alone");
        assert!(parallel_limit(None, 0) >= 1);
    }
}
