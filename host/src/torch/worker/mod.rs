//! A worker process and what can be asked of it.
//!
//! Every request has a wall-clock limit and watches the interrupt flag; when either strikes, when the
//! process dies, or when it leaves the protocol, the whole process group is killed and the worker has
//! ended for good: start another one.

mod process;
mod unpack;

pub(super) use self::unpack::package_hash;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::process::{Child, Event};
use super::environment::Environment;
use super::error::Error;
use super::protocol::{
    Checked, Description, EagerRun, EagerRuns, Exported, Hello, Lowered, ModelSource, NamedTensor, NamedTensors,
    OperatorArgument, OperatorResults, PROTOCOL, Request, Response, RunSet, TensorFile,
};
use crate::interrupt;

/// The fields of a request. A path that is no text cannot be told to a worker.
macro_rules! request {
    ({ $($name:literal : $value:expr),* $(,)? }) => {{
        #[allow(unused_mut, reason = "a request may have no fields")]
        let mut fields = serde_json::Map::new();
        $(
            let field = serde_json::to_value(&$value).map_err(|source| Error::Request { field: $name, source })?;
            fields.insert($name.to_owned(), field);
        )*
        serde_json::Value::Object(fields)
    }};
}

/// How often a waiting request looks at the interrupt flag and the process.
const POLL: Duration = Duration::from_millis(50);

/// Receives short texts about what the worker is doing.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// How a worker is started.
#[derive(Clone)]
pub struct WorkerOptions {
    /// folder in which the worker's own files are unpacked, named by their content
    pub cache_dir: PathBuf,
    /// file to which the worker's stderr is appended
    pub log: Option<PathBuf>,
    /// intra-op threads of torch
    pub threads: u32,
    /// bytes of private memory the worker may have; beyond it allocations fail inside the worker
    pub memory_limit: Option<u64>,
    /// wall-clock limit for the process to say hello
    pub start_limit: Duration,
    /// told about progress within a request
    pub progress: Option<Progress>,
}

impl WorkerOptions {
    /// Options with one thread, no memory limit and a minute to start.
    pub fn new(cache_dir: &Path) -> Self {
        Self {
            cache_dir: cache_dir.to_path_buf(),
            log: None,
            threads: 1,
            memory_limit: None,
            start_limit: Duration::from_secs(60),
            progress: None,
        }
    }
}

/// A running worker. Dropping it kills the process and everything it started.
pub struct Worker {
    child: Child,
    hello: Hello,
    progress: Option<Progress>,
    next_id: u64,
    ended: bool,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Worker").field("hello", &self.hello).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts a worker and waits for its hello. The libraries are imported in the meantime; the first
    /// request waits for them.
    ///
    /// # Errors
    /// When the process cannot be started, speaks another protocol version, dies or stays silent.
    pub fn start(environment: &Environment, options: &WorkerOptions) -> Result<Self, Error> {
        let package = unpack::worker_package(&options.cache_dir)?;
        let mut arguments = vec!["--threads".to_owned(), options.threads.max(1).to_string()];
        if let Some(limit) = options.memory_limit {
            arguments.extend(["--memory-limit".to_owned(), limit.to_string()]);
        }
        let child = Child::start(&environment.python, &package, &arguments, options)?;
        Self::greet(child, options)
    }

    fn greet(child: Child, options: &WorkerOptions) -> Result<Self, Error> {
        let hello = Hello { protocol: 0, python: String::new(), torch: String::new(), executorch: String::new() };
        let mut worker = Self { child, hello, progress: options.progress.clone(), next_id: 1, ended: false };
        let line = worker.next_line("start", Instant::now(), options.start_limit)?;
        // The version is looked at first: another version's hello may have other fields.
        let value: serde_json::Value =
            serde_json::from_str(&line).map_err(|_| worker.noise("start", shortened(&line)))?;
        let found = value.get("protocol").and_then(serde_json::Value::as_u64);
        match found.map(u32::try_from) {
            Some(Ok(PROTOCOL)) => {}
            Some(found) => {
                worker.end();
                return Err(Error::Version { found: found.unwrap_or(u32::MAX), wanted: PROTOCOL });
            }
            None => return Err(worker.noise("start", shortened(&line))),
        }
        worker.hello = serde_json::from_value(value).map_err(|error| worker.noise("start", error.to_string()))?;
        Ok(worker)
    }

    /// What the worker said when it started.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// False once a failure has ended the process.
    pub fn is_alive(&self) -> bool {
        !self.ended
    }

    /// Process id, which is also the id of its process group.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Last lines the worker wrote to stderr.
    pub fn stderr_tail(&self) -> String {
        self.child.stderr_tail()
    }

    /// Checks that the worker answers.
    ///
    /// # Errors
    /// When it does not.
    pub fn ping(&mut self, limit: Duration) -> Result<(), Error> {
        self.call::<serde_json::Value>("ping", request!({}), limit).map(drop)
    }

    /// Versions, threads and processor, as the loaded libraries report them.
    ///
    /// # Errors
    /// When torch or executorch cannot be imported, or the worker fails.
    pub fn describe(&mut self, limit: Duration) -> Result<Description, Error> {
        self.call("describe", request!({}), limit)
    }

    /// Builds the user's model, exports it to the `.pt2` file `out` and writes its inputs into the
    /// existing folder `inputs_dir`. `seed` fixes random numbers in the user's code.
    ///
    /// # Errors
    /// Everything that can be wrong with a user's model, typed in [`Error::Failed`]; a model that ends
    /// the process is [`Error::Died`], one that hangs [`Error::TimedOut`].
    pub fn export(
        &mut self,
        model: &ModelSource,
        out: &Path,
        inputs_dir: &Path,
        seed: u64,
        limit: Duration,
    ) -> Result<Exported, Error> {
        self.call("export", request!({ "model": model, "out": out, "inputs_dir": inputs_dir, "seed": seed }), limit)
    }

    /// Lowers the `.pt2` file `program` for XNNPACK and writes the `.pte` file `out`.
    ///
    /// # Errors
    /// When ExecuTorch cannot lower the program, or the worker fails.
    pub fn lower(&mut self, program: &Path, out: &Path, limit: Duration) -> Result<Lowered, Error> {
        self.call("lower", request!({ "program": program, "out": out }), limit)
    }

    /// Lowers the `.pt2` file `program` again and writes the ETRecord `out`; gives its size.
    ///
    /// # Errors
    /// When ExecuTorch cannot lower the program, or the worker fails.
    pub fn etrecord(&mut self, program: &Path, out: &Path, limit: Duration) -> Result<u64, Error> {
        #[derive(serde::Deserialize)]
        struct Written {
            bytes: u64,
        }
        let written: Written = self.call("etrecord", request!({ "program": program, "out": out }), limit)?;
        Ok(written.bytes)
    }

    /// Runs a `.pt2` in eager mode once.
    ///
    /// # Errors
    /// When the inputs do not fit, the run fails, or the worker fails.
    pub fn run(
        &mut self,
        program: &Path,
        inputs: &[TensorFile],
        out_dir: &Path,
        limit: Duration,
    ) -> Result<EagerRun, Error> {
        self.call("run", request!({ "program": program, "inputs": inputs, "out_dir": out_dir }), limit)
    }

    /// Runs a `.pt2` in eager mode once for every set; the program is loaded once, and every run starts
    /// from the program's stored buffers.
    ///
    /// # Errors
    /// As [`Worker::run`], for the first set that fails.
    pub fn run_many(&mut self, program: &Path, sets: &[RunSet], limit: Duration) -> Result<Vec<EagerRun>, Error> {
        let answer: EagerRuns = self.call("run_many", request!({ "program": program, "sets": sets }), limit)?;
        Ok(answer.runs)
    }

    /// Loads a `.pt2` and propagates fake tensors through it.
    ///
    /// # Errors
    /// [`Error::Failed`] with kind `program_invalid` when it does not load or a node rejects its inputs.
    pub fn check(&mut self, program: &Path, limit: Duration) -> Result<Checked, Error> {
        self.call("check", request!({ "program": program }), limit)
    }

    /// Computes the values named in `fetch` from the values in `feeds`, running only the nodes between
    /// them. Parameters, buffers and constants come from the program.
    ///
    /// # Errors
    /// When a name is unknown, a needed input was not fed, or a node fails.
    pub fn evaluate(
        &mut self,
        program: &Path,
        feeds: &[NamedTensor],
        fetch: &[String],
        out_dir: &Path,
        limit: Duration,
    ) -> Result<Vec<NamedTensor>, Error> {
        let params = request!({ "program": program, "feeds": feeds, "fetch": fetch, "out_dir": out_dir });
        let answer: NamedTensors = self.call("evaluate", params, limit)?;
        Ok(answer.values)
    }

    /// Runs a `.pt2` in eager mode and keeps the values named in `values`.
    ///
    /// # Errors
    /// When a name is unknown, the inputs do not fit, or the run fails.
    pub fn capture(
        &mut self,
        program: &Path,
        inputs: &[TensorFile],
        values: &[String],
        out_dir: &Path,
        limit: Duration,
    ) -> Result<Vec<NamedTensor>, Error> {
        let params = request!({ "program": program, "inputs": inputs, "values": values, "out_dir": out_dir });
        let answer: NamedTensors = self.call("capture", params, limit)?;
        Ok(answer.values)
    }

    /// Calls one operator, outside of any program, and writes its results into `out_dir`.
    ///
    /// # Errors
    /// When torch has no such operator, or the operator rejects its arguments.
    pub fn call_operator(
        &mut self,
        op: &str,
        arguments: &[OperatorArgument],
        out_dir: &Path,
        limit: Duration,
    ) -> Result<Vec<TensorFile>, Error> {
        let params = request!({ "op": op, "arguments": arguments, "out_dir": out_dir });
        let answer: OperatorResults = self.call("call", params, limit)?;
        Ok(answer.outputs)
    }

    /// Ends the worker in an orderly way and waits for it; one that does not end in time is killed.
    pub fn shutdown(mut self, limit: Duration) {
        if !self.ended {
            self.child.close_stdin();
            self.child.wait_up_to(limit);
        }
        self.end();
    }

    fn end(&mut self) {
        self.ended = true;
        self.child.kill();
    }

    fn noise(&mut self, method: &'static str, reason: String) -> Error {
        self.end();
        Error::Noise { method, reason, stderr: self.child.stderr_tail() }
    }

    fn died(&mut self, method: &'static str) -> Error {
        let status = self.child.wait_up_to(Duration::from_secs(2));
        self.end();
        let (how, signal) = process::describe_status(status);
        Error::Died { method, how, signal, stderr: self.child.stderr_tail() }
    }

    /// The next line, watching limit, interrupt and process.
    fn next_line(&mut self, method: &'static str, started: Instant, limit: Duration) -> Result<String, Error> {
        loop {
            if interrupt::requested() {
                self.end();
                return Err(Error::Interrupted);
            }
            let Some(left) = limit.checked_sub(started.elapsed()) else {
                self.end();
                return Err(Error::TimedOut { method, seconds: limit.as_secs_f64(), stderr: self.child.stderr_tail() });
            };
            match self.child.event(left.min(POLL)) {
                Event::Line(line) => return Ok(line),
                Event::TooLong(start) => {
                    let reason =
                        format!("a line of more than {} bytes that begins with {start}", process::LONGEST_LINE);
                    return Err(self.noise(method, reason));
                }
                Event::NotText(start) => return Err(self.noise(method, format!("bytes that are no text: {start}"))),
                Event::Nothing => {}
                Event::Closed => return Err(self.died(method)),
            }
        }
    }

    fn call<T: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: impl Serialize,
        limit: Duration,
    ) -> Result<T, Error> {
        if self.ended {
            return Err(Error::Ended { method });
        }
        let started = Instant::now();
        let id = self.next_id;
        self.next_id += 1;
        let request = serde_json::to_string(&Request { id, method, params })
            .map_err(|error| self.noise(method, format!("a request that cannot be written as JSON: {error}")))?;
        if !self.child.send(request) {
            return Err(self.died(method));
        }
        loop {
            let line = self.next_line(method, started, limit)?;
            let response: Response = match serde_json::from_str(&line) {
                Ok(response) => response,
                Err(_) => return Err(self.noise(method, shortened(&line))),
            };
            if response.id != id {
                return Err(self.noise(method, format!("an answer to request {} instead of {id}", response.id)));
            }
            match (response.progress, response.ok, response.error) {
                (Some(text), None, None) => {
                    if let Some(progress) = &self.progress {
                        progress(&text);
                    }
                }
                (None, Some(answer), None) => {
                    return serde_json::from_value(answer)
                        .map_err(|error| self.noise(method, format!("an answer of another form: {error}")));
                }
                (None, None, Some(error)) => return Err(Error::Failed { method, error }),
                _ => return Err(self.noise(method, shortened(&line))),
            }
        }
    }
}

/// The beginning of a line, quoted, for an error message.
fn shortened(line: &str) -> String {
    let start: String = line.chars().take(120).collect();
    format!("{start:?}{}", if line.chars().nth(120).is_some() { "…" } else { "" })
}

#[cfg(test)]
mod tests;
