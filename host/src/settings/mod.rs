//! Everything a command needs to know, resolved once into plain structs before any work starts.
//!
//! In: arguments, environment variables, the project file. Out: [`OptimizeSettings`] and [`Common`]. For
//! each setting the first of these that says something wins:
//!
//! 1. the command line,
//! 2. the environment (see [`environment_variables`]),
//! 3. `delegate-doctor.toml` in the current folder or the nearest one above it (see [`project_file`]),
//! 4. the default written on the field.

pub mod environment_variables;
pub mod folders;
pub mod project_file;
mod quantity;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use folders::Folders;
pub use project_file::ProjectFile;
pub use quantity::parse_bytes;

use crate::hint::Hint;
use crate::target::selector::Selector;

/// What every command shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// the interpreter the user asked for; none: search (active virtual environment, managed one)
    pub python: Option<PathBuf>,
    /// where things are kept between runs
    pub folders: Folders,
}

/// Everything `optimize` needs.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizeSettings {
    /// what the user pointed at, as typed: a `.py` file, `module:callable`, a `.pt2`
    pub model: String,
    /// the whole command line as typed, for the records of the run
    pub command: Vec<String>,
    /// where the results go
    pub place: RunPlace,
    /// Python and folders
    pub common: Common,
    /// where programs run
    pub target: TargetChoice,
    /// intra-op threads; none: the target's default
    pub threads: Option<u32>,
    /// which rules take part
    pub rules: RuleChoice,
    /// when the repair loop ends
    pub limits: Limits,
    /// what counts
    pub thresholds: Thresholds,
    /// seed of everything random (default 0)
    pub seed: u64,
    /// reuse and fill the cache of earlier runs (default true)
    pub use_cache: bool,
    /// candidates lowered at the same time; none: as many as cores and memory allow
    pub jobs: Option<u32>,
    /// bytes of memory that the process running the model's Python code may use; none: no limit
    pub memory_limit: Option<u64>,
    /// how long importing, building and exporting the model may take (default 1800 s)
    pub model_timeout: Duration,
}

/// Where a run's results go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunPlace {
    /// a new folder `parent/name-N` with the first free N from 1; both levels are created
    Numbered {
        /// `delegate-doctor-runs` in the current folder, unless the project file says otherwise
        parent: PathBuf,
        /// from the model's name: `segmenter`
        name: String,
    },
    /// exactly this folder, new or empty
    At(PathBuf),
    /// go on in the newest `parent/name-N`
    ResumeNewest {
        /// as above
        parent: PathBuf,
        /// as above
        name: String,
    },
    /// go on in this folder
    ResumeAt(PathBuf),
}

/// Where programs run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetChoice {
    /// which target
    pub selector: Selector,
    /// the user's own runner for a device: an executable, or a folder with it and its libraries
    pub runner: Option<PathBuf>,
}

/// Which rules take part in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleChoice {
    /// folders with more rule components (`*.wasm`), for development; they are labelled unsigned
    pub folders: Vec<PathBuf>,
    /// only these rule ids, in lower case; empty: all
    pub only: Vec<String>,
    /// not these rule ids, in lower case
    pub skip: Vec<String>,
    /// rules that bring an interpreter along take part
    pub script: bool,
    /// the project whose lockfile says which rules are used; none: those of the user
    pub project: Option<PathBuf>,
    /// refuse when the lockfile is missing or would have to change
    pub locked: bool,
}

impl RuleChoice {
    /// True when a rule with this id takes part; a preview rule only does when it is named. Ids are
    /// compared without regard to case.
    pub fn includes(&self, id: &str, preview: bool) -> bool {
        let listed = |ids: &[String]| ids.iter().any(|other| other.eq_ignore_ascii_case(id));
        let chosen = if self.only.is_empty() { !preview } else { listed(&self.only) };
        chosen && !listed(&self.skip)
    }

    /// Chosen or skipped ids that no rule in `known` has: mistyped ones.
    pub fn unknown(&self, known: &[&str]) -> Vec<&str> {
        let ids = self.only.iter().chain(&self.skip).map(String::as_str);
        ids.filter(|id| !known.iter().any(|other| other.eq_ignore_ascii_case(id))).collect()
    }
}

/// When the repair loop ends, whatever is left to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// accepted repairs after which the run stops (default 20)
    pub max_rounds: u32,
    /// no new trial is begun after this much wall time since the surroundings were ready; none: no limit
    pub max_time: Option<Duration>,
}

/// What counts as worth it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// the lower end of the interval of old time over new time must reach this (default 1.02)
    pub min_gain: f64,
    /// a fallback with a smaller share of the measured time is left alone (default 0.001)
    pub min_share: f64,
}

/// `optimize` arguments as typed: what is none was not said.
#[derive(Clone, Debug, Default)]
pub struct OptimizeArguments {
    /// `MODEL`
    pub model: String,
    /// the whole command line
    pub command: Vec<String>,
    /// `--out`
    pub out: Option<PathBuf>,
    /// `--resume` (`Some(None)`) or `--resume=DIR`
    pub resume: Option<Option<PathBuf>>,
    /// `--target`
    pub target: Option<Selector>,
    /// `--runner`
    pub runner: Option<PathBuf>,
    /// `--threads`
    pub threads: Option<u32>,
    /// `--rules`
    pub rules: Vec<PathBuf>,
    /// `--only`
    pub only: Vec<String>,
    /// `--skip`
    pub skip: Vec<String>,
    /// `--script-rules`
    pub script_rules: bool,
    /// folder of the project whose lockfile counts
    pub project: Option<PathBuf>,
    /// `--locked`
    pub locked: bool,
    /// `--max-rounds`
    pub max_rounds: Option<u32>,
    /// `--max-seconds`
    pub max_seconds: Option<f64>,
    /// `--min-gain`
    pub min_gain: Option<f64>,
    /// `--min-share`
    pub min_share: Option<f64>,
    /// `--seed`
    pub seed: Option<u64>,
    /// `--no-cache`
    pub no_cache: bool,
    /// `--jobs`
    pub jobs: Option<u32>,
    /// `--memory-limit`, in bytes
    pub memory_limit: Option<u64>,
    /// `--model-timeout`, in seconds
    pub model_timeout: Option<f64>,
}

/// Name of the folder that holds run folders, in the current folder.
pub const RUNS_FOLDER: &str = "delegate-doctor-runs";
/// Default of [`Limits::max_rounds`].
pub const DEFAULT_MAX_ROUNDS: u32 = 20;
/// Default of [`Thresholds::min_gain`].
pub const DEFAULT_MIN_GAIN: f64 = 1.02;
/// Default of [`Thresholds::min_share`].
pub const DEFAULT_MIN_SHARE: f64 = 0.001;
/// Default of [`OptimizeSettings::model_timeout`], seconds.
pub const DEFAULT_MODEL_TIMEOUT: f64 = 1800.0;

/// What the runner takes.
const MOST_THREADS: u32 = 1024;
/// Python with torch and executorch does not start with less address space than this, in bytes.
const SMALLEST_MEMORY_LIMIT: u64 = 2 << 30;

/// Why settings do not make sense.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// no home folder and nothing that replaces it
    #[error("Cannot find a folder for caches and data: the home folder is unknown")]
    NoHome(#[source] etcetera::HomeDirError),
    /// the project file cannot be read
    #[error("Failed to read the project file `{path}`")]
    ProjectFile {
        /// which
        path: PathBuf,
        /// why
        #[source]
        source: std::io::Error,
    },
    /// the project file is not what it should be
    #[error("Failed to understand the project file `{path}`")]
    ProjectSyntax {
        /// which
        path: PathBuf,
        /// why, with the line
        #[source]
        source: Box<toml::de::Error>,
    },
    /// a value outside its range
    #[error("The value of `{setting}` must be {expected}: `{value}`")]
    OutOfRange {
        /// flag or key
        setting: &'static str,
        /// what is allowed
        expected: &'static str,
        /// what was given
        value: String,
    },
    /// rules that no lockfile speaks of, where only those of the lockfile may be used
    #[error("`--locked` uses what the lockfile says, and the project file `{path}` names other rules: {rules}")]
    LockedProjectRules {
        /// the project file
        path: PathBuf,
        /// what it names
        rules: String,
    },
    /// the current folder is gone
    #[error("Cannot tell the current folder")]
    CurrentFolder(#[source] std::io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome(_) => Some(format!("Set `{}` to a folder", environment_variables::DELEGATE_DOCTOR_HOME)),
            Self::LockedProjectRules { .. } => {
                Some("Leave out `--locked`, or name with `--rules` what is to be used beside the lockfile".to_owned())
            }
            Self::ProjectSyntax { .. } => Some("docs/cli.md lists the keys of `delegate-doctor.toml`".to_string()),
            _ => None,
        }
    }
}

impl Common {
    /// Resolves what every command shares. `python` is the argument, `variable` looks up an environment
    /// variable, `project` is the project file, if there is one.
    ///
    /// # Errors
    /// When no folder for caches and data can be found.
    pub fn resolve(
        python: Option<PathBuf>,
        variable: &dyn Fn(&str) -> Option<PathBuf>,
        project: &ProjectFile,
    ) -> Result<Self, Error> {
        Ok(Self {
            python: python.or_else(|| variable(environment_variables::DELEGATE_DOCTOR_PYTHON)).or(project.python()),
            folders: Folders::resolve(variable)?,
        })
    }
}

impl OptimizeSettings {
    /// The settings that the answer depends on, by the names of their flags; those that only say how much
    /// time or memory the work may take are not among them.
    pub fn deciding(&self) -> BTreeMap<String, String> {
        let mut settings: BTreeMap<String, String> = [
            ("seed", self.seed.to_string()),
            ("max-rounds", self.limits.max_rounds.to_string()),
            ("min-gain", self.thresholds.min_gain.to_string()),
            ("min-share", self.thresholds.min_share.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        settings.insert("target".to_owned(), self.target.selector.to_string());
        if let Some(runner) = &self.target.runner {
            let runner = std::path::absolute(runner).unwrap_or_else(|_| runner.clone());
            settings.insert("runner".to_owned(), runner.display().to_string());
        }
        if let Some(threads) = self.threads {
            settings.insert("threads".to_owned(), threads.to_string());
        }
        let folders: Vec<String> = self
            .rules
            .folders
            .iter()
            .map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.clone()).display().to_string())
            .collect();
        for (name, list) in [("rules", &folders), ("only", &self.rules.only), ("skip", &self.rules.skip)] {
            if !list.is_empty() {
                settings.insert(name.to_owned(), list.join(" "));
            }
        }
        if self.rules.script {
            settings.insert("script-rules".to_owned(), "true".to_owned());
        }
        settings
    }

    /// Resolves arguments and project file into the settings of a run.
    ///
    /// # Errors
    /// When a value is outside its range.
    pub fn resolve(arguments: OptimizeArguments, common: Common, project: &ProjectFile) -> Result<Self, Error> {
        let file = &project.optimize;
        let place = place(&arguments, project);
        let time = |setting: &'static str, seconds: f64| {
            Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or(Error::OutOfRange {
                setting,
                expected: "a number of seconds above 0",
                value: seconds.to_string(),
            })
        };
        let count = |setting: &'static str, count: Option<u32>| match count {
            Some(0) => Err(Error::OutOfRange { setting, expected: "1 or more", value: "0".to_string() }),
            other => Ok(other),
        };
        let min_gain = arguments.min_gain.or(file.min_gain).unwrap_or(DEFAULT_MIN_GAIN);
        if !(1.0..=100.0).contains(&min_gain) {
            return Err(Error::OutOfRange {
                setting: "min-gain",
                expected: "a ratio from 1 to 100",
                value: min_gain.to_string(),
            });
        }
        let min_share = arguments.min_share.or(file.min_share).unwrap_or(DEFAULT_MIN_SHARE);
        if !(0.0..=1.0).contains(&min_share) {
            return Err(Error::OutOfRange {
                setting: "min-share",
                expected: "a share from 0 to 1",
                value: min_share.to_string(),
            });
        }
        let first = |typed: Vec<String>, written: &[String]| {
            let ids = if typed.is_empty() { written.to_vec() } else { typed };
            ids.into_iter().map(|id| id.to_lowercase()).collect()
        };
        let memory_limit = match (arguments.memory_limit, &file.memory_limit) {
            (Some(bytes), _) => Some(bytes),
            (None, Some(text)) => Some(parse_bytes(text).map_err(|_| Error::OutOfRange {
                setting: "memory-limit",
                expected: "a size like `8GiB`",
                value: text.clone(),
            })?),
            (None, None) => None,
        };
        if let Some(bytes) = memory_limit.filter(|bytes| *bytes < SMALLEST_MEMORY_LIMIT) {
            return Err(Error::OutOfRange {
                setting: "memory-limit",
                expected: "at least 2 GiB, with a unit as in `8GiB`",
                value: format!("{bytes} bytes"),
            });
        }
        if arguments.locked && arguments.rules.is_empty() && !project.rules().is_empty() {
            let rules: Vec<String> = project.rules().iter().map(|path| format!("`{}`", path.display())).collect();
            let path = project.path.clone().unwrap_or_default();
            return Err(Error::LockedProjectRules { path, rules: rules.join(", ") });
        }
        Ok(Self {
            place,
            common,
            target: target(arguments.target, arguments.runner, project)?,
            threads: match count("threads", arguments.threads.or(file.threads))? {
                Some(threads) if threads > MOST_THREADS => {
                    return Err(Error::OutOfRange {
                        setting: "threads",
                        expected: "at most 1024",
                        value: threads.to_string(),
                    });
                }
                threads => threads,
            },
            rules: RuleChoice {
                folders: if arguments.rules.is_empty() { project.rules() } else { arguments.rules },
                only: first(arguments.only, &file.only),
                skip: first(arguments.skip, &file.skip),
                script: arguments.script_rules || file.script_rules.unwrap_or(false),
                project: arguments.project,
                locked: arguments.locked,
            },
            limits: Limits {
                max_rounds: count("max-rounds", arguments.max_rounds.or(file.max_rounds))?
                    .unwrap_or(DEFAULT_MAX_ROUNDS),
                max_time: arguments
                    .max_seconds
                    .or(file.max_seconds)
                    .map(|seconds| time("max-seconds", seconds))
                    .transpose()?,
            },
            thresholds: Thresholds { min_gain, min_share },
            seed: arguments.seed.or(file.seed).unwrap_or(0),
            use_cache: !arguments.no_cache,
            jobs: count("jobs", arguments.jobs.or(file.jobs))?,
            memory_limit,
            model_timeout: time(
                "model-timeout",
                arguments.model_timeout.or(file.model_timeout).unwrap_or(DEFAULT_MODEL_TIMEOUT),
            )?,
            model: arguments.model,
            command: arguments.command,
        })
    }
}

/// The runner that the project file names is for the target that it names, and for no other one.
fn target(typed: Option<Selector>, runner: Option<PathBuf>, project: &ProjectFile) -> Result<TargetChoice, Error> {
    let written = project.optimize.target.as_ref().map(|text| {
        text.parse::<Selector>().map_err(|_| Error::OutOfRange {
            setting: "target",
            expected: "one of `local`, `qemu[:CPU]`, `adb[:SERIAL]` and `ssh:HOST`",
            value: text.clone(),
        })
    });
    let written = written.transpose()?;
    let of_file = typed.is_none() || typed == written;
    let selector = typed.or(written).unwrap_or(Selector::Local);
    Ok(TargetChoice { selector, runner: runner.or_else(|| project.runner().filter(|_| of_file)) })
}

impl OptimizeSettings {
    /// The same, with numbered run folders called `NAME-what-N`.
    #[must_use]
    pub fn in_folders_named(mut self, what: &str) -> Self {
        if let RunPlace::Numbered { name, .. } = &mut self.place {
            *name = format!("{name}-{what}");
        }
        self
    }
}

fn place(arguments: &OptimizeArguments, project: &ProjectFile) -> RunPlace {
    let parent = || project.runs().unwrap_or_else(|| PathBuf::from(RUNS_FOLDER));
    let name = || run_name(&arguments.model);
    match (&arguments.resume, &arguments.out) {
        (Some(Some(folder)), _) => RunPlace::ResumeAt(folder.clone()),
        (Some(None), Some(folder)) => RunPlace::ResumeAt(folder.clone()),
        (Some(None), None) => RunPlace::ResumeNewest { parent: parent(), name: name() },
        (None, Some(folder)) => RunPlace::At(folder.clone()),
        (None, None) => RunPlace::Numbered { parent: parent(), name: name() },
    }
}

/// The name of a model's run folders, from what the user typed: `models/unet.py` gives `unet`,
/// `zoo.vision:unet` gives `zoo.vision-unet`.
pub fn run_name(model: &str) -> String {
    let path = std::path::Path::new(model);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let stem = match extension {
        Some("py" | "pt2" | "pte") => path.file_stem(),
        _ => path.file_name(),
    };
    let name: String = stem
        .and_then(|stem| stem.to_str())
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '-' })
        .collect();
    let name = name.trim_matches(['.', '-']);
    if name.is_empty() { "model".to_string() } else { name.to_string() }
}

#[cfg(test)]
mod tests;
