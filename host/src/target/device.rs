//! A device at the other end of a cable or a network: files are copied there, programs run there, results are
//! copied back, and nothing counts unless the bytes at both ends agree.
//!
//! A link knows how to run a script on the device and how to copy a file; [`DeviceTarget`] does the rest, the
//! same for phones and boards. On the device everything lies below one folder:
//!
//! ```text
//! <root>/bundle-<hash>/        the runner and what it needs, copied once per content
//! <root>/session-<id>/         of one run of this tool; removed at its end
//!     files/<hash>             programs and inputs, by content
//!     work/                    of the run that is under way
//! ```
//!
//! A session that was not removed, because the cable came out, is removed by the next one after a day.

pub mod facts;
mod script;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::Duration;

use fs_err as fs;

use self::facts::DeviceFacts;
use self::script::{Answer, Place};
use super::bundle::{ARCHITECTURE, Bundle, Start};
use super::child::{End, Finished};
use super::runner_process::{self, Hello};
use super::{Error, RunOutcome, RunRequest, Target, TraceRequest, plain_words};
use crate::evidence::TargetLabel;
use crate::files::{sha256_hex, sha256_of};
use crate::progress::Progress;
use crate::torch::protocol::TensorFile;

/// Names the folder on devices for this tool's files: an absolute path of letters, digits and `._-+`.
pub const FOLDER_VARIABLE: &str = "DELEGATE_DOCTOR_DEVICE_FOLDER";
/// Time for a short script.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a copy, beside what its size allows.
const COPY_TIMEOUT: Duration = Duration::from_secs(120);
/// Slowest copy that is waited for, bytes a second.
const SLOWEST_COPY: u64 = 200_000;
/// Beside the limit of a run, for the way there and back.
const RUN_SLACK: Duration = Duration::from_secs(30);
/// More threads than this are not what an app has to itself.
const MAX_DEFAULT_THREADS: u32 = 4;

/// The way to a device.
pub(crate) trait Link: Send + Sync {
    /// `adb`, `ssh`
    fn kind(&self) -> &'static str;

    /// Which device, for messages; nothing that a shared report should not hold.
    fn name(&self) -> String;

    /// Which device, for keys of caches: one text per device, not to be shown.
    fn identity(&self) -> String;

    /// Shell expression for the folder that everything lies below, unless [`FOLDER_VARIABLE`] names another.
    fn root(&self) -> &'static str;

    /// Runs a script by the device's `sh`.
    ///
    /// # Errors
    /// When it cannot be started or does not come to an end here; what the script says is its own matter.
    fn shell(&self, script: &str, timeout: Duration) -> Result<Finished, Error>;

    /// Copies a file of this host to a place on the device.
    ///
    /// # Errors
    /// When the client says that it failed.
    fn push(&self, from: &Path, to: &str, timeout: Duration) -> Result<(), Error>;

    /// Copies a file of the device to a place on this host.
    ///
    /// # Errors
    /// When the client says that it failed.
    fn pull(&self, from: &str, to: &Path, timeout: Duration) -> Result<(), Error>;

    /// What is the matter when an action failed: a device that is gone, or what the client said.
    fn trouble(&self, during: &str, reason: &str) -> Error;
}

/// A device that runs programs.
pub struct DeviceTarget {
    link: Box<dyn Link>,
    bundle: Bundle,
    facts: DeviceFacts,
    hello: Hello,
    label: TargetLabel,
    place: Place,
    /// hashes of the files that this session copied
    copied: Mutex<Vec<String>>,
}

impl DeviceTarget {
    /// Sees that the device is one for 64-bit Arm, copies the bundle if it is not there, and tries the runner.
    ///
    /// # Errors
    /// Whatever keeps programs from running there.
    pub(crate) fn prepare(
        link: Box<dyn Link>,
        folder: Option<&str>,
        bundle: impl FnOnce() -> Result<Bundle, Error>,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let facts = facts::ask(&*link, folder)?;
        let label = facts.label(link.kind(), &link.name());
        if facts.architecture != ARCHITECTURE {
            return Err(Error::WrongArchitecture { target: label.name, architecture: facts.architecture });
        }
        let bundle = bundle()?;
        let mut chance = [0; 8];
        getrandom::fill(&mut chance).map_err(|error| std::io::Error::other(format!("no random bytes: {error}")))?;
        let session = format!("{:016x}", u64::from_le_bytes(chance));
        let place = Place::new(&facts.root, &bundle.hash, &session);
        let target =
            Self { link, bundle, facts, hello: Hello::default(), label, place, copied: Mutex::new(Vec::new()) };
        target.sweep()?;
        target.copy_bundle(progress)?;
        let hello = target.try_runner()?;
        Ok(Self::with_hello(target, hello))
    }

    fn with_hello(mut self, hello: Hello) -> Self {
        self.hello = hello;
        self
    }

    /// Runs a short script that must come to its end.
    fn ask(&self, during: &str, text: &str) -> Result<String, Error> {
        ask(&*self.link, during, text)
    }

    /// Makes this session's folder and removes what lost ones left.
    fn sweep(&self) -> Result<(), Error> {
        self.ask("making a folder", &self.place.open()).map(drop)
    }

    fn copy_bundle(&self, progress: &dyn Progress) -> Result<(), Error> {
        let there = self.ask("looking for the runner", &self.place.hashes_of_bundle(&self.bundle))?;
        if script::agree(&there, &self.bundle) {
            return Ok(());
        }
        let step = progress.step(&format!("Copying the runner to {}", self.label.name));
        let fresh = self.place.fresh_bundle();
        self.ask("making a folder", &self.place.make(&fresh))?;
        let bytes: u64 = self.bundle.files.iter().map(|file| file.bytes).sum();
        let mut done = 0;
        for file in &self.bundle.files {
            self.push(&self.bundle.folder.join(&file.name), &format!("{fresh}/{}", file.name), file.bytes)?;
            done += file.bytes;
            step.advance(done, bytes, crate::progress::Unit::Bytes);
        }
        let executables: Vec<&str> = match &self.bundle.start {
            Start::ByLoader => self.bundle.files.iter().map(|file| file.name.as_str()).collect(),
            Start::ByItself(name) => vec![name],
        };
        self.ask("putting the runner in its place", &self.place.settle_bundle(&fresh, &executables))?;
        let there = self.ask("looking at the runner", &self.place.hashes_of_bundle(&self.bundle))?;
        if !script::agree(&there, &self.bundle) {
            return Err(self.altered("the runner"));
        }
        step.done(&format!("Copied the runner to {}", self.label.name));
        Ok(())
    }

    fn try_runner(&self) -> Result<Hello, Error> {
        let words = self.bundle.command(&self.place.bundle).into_iter().map(OsString::from);
        let command = script::quoted(words.chain(["--probe".into()]));
        let finished = self.link.shell(&self.place.run(&command, std::iter::empty()), QUESTION_TIMEOUT)?;
        self.whole("trying the runner", &finished)?;
        let answer = self.answer(&finished)?;
        runner_process::greeting(&self.label.name, &Self::finished(&answer))
    }

    fn answer(&self, finished: &Finished) -> Result<Answer, Error> {
        let answer = script::read(&finished.stdout)
            .map_err(|reason| Error::Protocol { target: self.label.name.clone(), reason })?;
        if sha256_hex(&answer.answer) != answer.answer_hash {
            return Err(self.altered("what the runner said"));
        }
        Ok(answer)
    }

    /// A script's own end: without its last line the connection was lost in the middle.
    fn whole(&self, during: &str, finished: &Finished) -> Result<(), Error> {
        whole(&*self.link, during, finished)
    }

    fn push(&self, from: &Path, to: &str, bytes: u64) -> Result<(), Error> {
        self.link.push(from, to, COPY_TIMEOUT + Duration::from_secs(bytes / SLOWEST_COPY))
    }

    /// Copies a file by its content, once in a session. Gives its place on the device and its hash.
    fn place_file(&self, from: &Path) -> Result<(String, String), Error> {
        let hash = sha256_of(from)?;
        let to = self.place.file(&hash);
        let mut copied = self.copied.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !copied.contains(&hash) {
            self.push(from, &to, fs::metadata(from)?.len())?;
            copied.push(hash.clone());
        }
        Ok((to, hash))
    }

    fn altered(&self, what: &str) -> Error {
        Error::Altered { target: self.label.name.clone(), what: what.to_owned() }
    }

    /// Ends what is still running there; the device may be gone, and then it has ended by itself.
    fn end_run(&self) {
        let _ = self.link.shell(&self.place.end_run(), Duration::from_secs(15));
    }

    /// What the runner said there, as if it had been started here.
    fn finished(answer: &Answer) -> Finished {
        // A shell adds 128 to the number of a signal; the runner's own codes are small.
        let status = if answer.code > 128 && answer.code < 128 + 65 {
            ExitStatus::from_raw(answer.code - 128)
        } else {
            ExitStatus::from_raw((answer.code & 0xff) << 8)
        };
        let stderr = String::from_utf8_lossy(&answer.errors).into_owned();
        Finished { end: End::Exited(status), stdout: answer.answer.clone(), stderr }
    }

    /// Copies a result back; its bytes must be those that the device has.
    fn fetch(&self, name: &str, to: &Path, answer: &Answer) -> Result<(), Error> {
        let Some((hash, bytes)) = answer.results.get(name) else {
            return Err(Error::Protocol {
                target: self.label.name.clone(),
                reason: format!("it names a result `{name}` that it did not write"),
            });
        };
        self.link.pull(&self.place.result(name), to, COPY_TIMEOUT + Duration::from_secs(bytes / SLOWEST_COPY))?;
        match sha256_of(to) {
            Ok(found) if found == *hash => Ok(()),
            Ok(_) => Err(self.altered(&format!("the result `{name}`"))),
            Err(error) => Err(error.into()),
        }
    }

    fn results(&self, request: &RunRequest<'_>, answer: &Answer, mut outcome: RunOutcome) -> Result<RunOutcome, Error> {
        for (index, output) in outcome.outputs.iter_mut().enumerate() {
            let name = self.result_name(&output.path)?;
            let Some(folder) = request.output_dir else { continue };
            let bytes = answer.results.get(&name).map_or(0, |(_, bytes)| *bytes);
            if let Some(expected) = bytes_of(output)
                && expected != bytes
            {
                return Err(Error::Protocol {
                    target: self.label.name.clone(),
                    reason: format!("output {index} has {bytes} bytes, and its sizes ask for {expected}"),
                });
            }
            let to = folder.join(&name);
            self.fetch(&name, &to, answer)?;
            output.path = to;
        }
        if let Some((path, scale)) = outcome.trace.take() {
            let name = self.result_name(&path)?;
            if let Some(wanted) = request.trace {
                self.fetch(&name, wanted.path, answer)?;
                outcome.trace = Some((wanted.path.to_owned(), scale));
            }
        }
        Ok(outcome)
    }

    /// The name of a result in the folder of this run; a runner that names another place is not believed.
    fn result_name(&self, path: &Path) -> Result<String, Error> {
        let name = path.strip_prefix(&self.place.work).ok().and_then(Path::to_str).map(str::to_owned);
        name.filter(|name| script::is_result(name)).ok_or_else(|| Error::Protocol {
            target: self.label.name.clone(),
            reason: format!("it names a result at `{}`", path.display()),
        })
    }
}

impl Target for DeviceTarget {
    fn label(&self) -> TargetLabel {
        self.label.clone()
    }

    fn run(&self, request: &RunRequest<'_>) -> Result<RunOutcome, Error> {
        let mut expected = Vec::new();
        let mut there = |from: &Path| -> Result<PathBuf, Error> {
            let (path, hash) = self.place_file(from)?;
            expected.push((path.clone(), hash));
            Ok(PathBuf::from(path))
        };
        let program = there(request.program)?;
        let mut inputs = Vec::new();
        for input in request.inputs {
            inputs.push(TensorFile { path: there(&input.path)?, ..input.clone() });
        }
        let work = PathBuf::from(&self.place.work);
        let trace = self.place.result(script::TRACE);
        let remote = RunRequest {
            program: &program,
            inputs: &inputs,
            output_dir: request.output_dir.map(|_| work.as_path()),
            trace: request.trace.map(|asked| TraceRequest { path: Path::new(&trace), ..asked }),
            ..request.clone()
        };
        let words = self.bundle.command(&self.place.bundle).into_iter().map(OsString::from);
        let command = script::quoted(words.chain(runner_process::arguments(&remote)));
        let asked = self.place.run(&command, expected.iter().map(|(path, _)| path.as_str()));
        let finished = match self.link.shell(&asked, request.timeout.saturating_add(RUN_SLACK)) {
            Ok(finished) => finished,
            Err(error) => {
                self.end_run();
                return Err(error);
            }
        };
        match finished.end {
            End::Exited(_) => {}
            End::TimedOut | End::Interrupted => {
                self.end_run();
                return runner_process::outcome(request, &self.label.name, &finished);
            }
        }
        self.whole("running a program", &finished)?;
        let answer = self.answer(&finished)?;
        if answer.boot != self.facts.boot {
            return Err(if answer.boot.is_empty() || self.facts.boot.is_empty() {
                self.link.trouble("running a program", "it does not say any more who it is")
            } else {
                Error::Changed { target: self.label.name.clone() }
            });
        }
        for (path, hash) in &expected {
            if answer.inputs.get(path.as_str()) != Some(hash) {
                // It is copied again by the next run.
                let mut copied = self.copied.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                copied.retain(|known| known != hash);
                return Err(self.altered(&format!("the file `{}`", path.rsplit('/').next().unwrap_or(path))));
            }
        }
        let outcome = runner_process::outcome(request, &self.label.name, &Self::finished(&answer))?;
        self.results(request, &answer, outcome)
    }

    fn processor(&self) -> String {
        if self.hello.cpu.is_empty() { self.facts.processor() } else { self.hello.cpu.clone() }
    }

    fn identity(&self) -> String {
        let device = sha256_hex(self.link.identity().as_bytes());
        format!(
            "{} device {} system {} bundle {}",
            self.link.kind(),
            device.get(..16).unwrap_or_default(),
            self.facts.system,
            self.bundle.hash
        )
    }

    fn default_threads(&self) -> u32 {
        self.facts.cores.clamp(1, MAX_DEFAULT_THREADS)
    }

    fn hello(&self) -> Option<&Hello> {
        Some(&self.hello)
    }

    fn facts(&self) -> Option<&DeviceFacts> {
        Some(&self.facts)
    }
}

impl Drop for DeviceTarget {
    fn drop(&mut self) {
        // The device may be gone; then the next session removes what is left.
        let _ = self.link.shell(&self.place.close(), Duration::from_secs(15));
    }
}

/// Bytes that an output of known element type has.
fn bytes_of(output: &TensorFile) -> Option<u64> {
    let element: u64 = match output.dtype.as_str() {
        "bool" | "uint8" | "int8" => 1,
        "float16" | "bfloat16" | "int16" => 2,
        "float32" | "int32" => 4,
        "float64" | "int64" => 8,
        _ => return None,
    };
    output.sizes.iter().try_fold(element, |product, size| product.checked_mul(*size))
}

fn ask(link: &dyn Link, during: &str, text: &str) -> Result<String, Error> {
    let finished = link.shell(text, QUESTION_TIMEOUT)?;
    whole(link, during, &finished)?;
    let said = String::from_utf8_lossy(&finished.stdout).replace("\r\n", "\n");
    match said.lines().find_map(|line| line.strip_prefix(script::FAILED)) {
        Some(reason) => {
            // The device itself says so, which is why it is not asked whether it is still there.
            let reason = plain_words(&format!("{} {}", reason.trim(), finished.stderr.trim()));
            let reason = if reason.is_empty() { "it does not say why".to_owned() } else { reason };
            let (target, during) = (link.name(), during.to_owned());
            Err(if super::is_full(&reason) {
                Error::DeviceFull { target, during }
            } else {
                Error::DeviceRefused { target, during, reason }
            })
        }
        None => Ok(said),
    }
}

fn whole(link: &dyn Link, during: &str, finished: &Finished) -> Result<(), Error> {
    match finished.end {
        End::Interrupted => return Err(Error::Interrupted),
        End::TimedOut => return Err(link.trouble(during, "it does not answer")),
        End::Exited(_) => {}
    }
    let tail = finished.stdout.get(finished.stdout.len().saturating_sub(64)..).unwrap_or_default();
    if String::from_utf8_lossy(tail).trim_end().ends_with(script::END) {
        return Ok(());
    }
    let said = super::child::last_lines(&finished.stderr, 3);
    Err(link.trouble(during, if said.is_empty() { "the connection ended in the middle" } else { &said }))
}
