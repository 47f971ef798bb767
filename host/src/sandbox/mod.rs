//! Rules run here: WebAssembly components that get data and give data back, and nothing else.
//!
//! In: the bytes of a component, then [`contract::Site`]s. Out: a [`contract::Manifest`], then
//! [`contract::Verdict`]s, or an [`Error`] that names the rule and the class of its failure. A rule that
//! fails takes nothing with it: not the host, not the other rules.
//!
//! The life of a rule ([`Sandbox::load`], [`Rule::examine`]):
//!
//! 1. the bytes are parsed whole and held against the limits, their contract version is read, imports are
//!    refused ([`component`]);
//! 2. a child process under limits compiles them ([`compile`]), once: the code is kept in a folder that
//!    only the user can enter, tagged with a key of that folder (`compiled_cache`);
//! 3. the code becomes callable (`trusted_code`, the only unsafe lines);
//! 4. `describe` runs as a trial and its answer is checked (`answer`); what it says is kept beside the code, so
//!    that a rule that was loaded before is loaded again without 1 to 3;
//! 5. what it said about a site before is taken from `verdict_cache`;
//! 6. every other `examine` gets a store and an instance of its own, with fuel, a wall-clock fuse, and limits on
//!    memory, tables, stack and on what is copied out (`instance`); whatever happens, both are dropped. Instances
//!    take turns in one place in memory, which is as new for each (`engine`).
//!
//! A verdict depends on the rule's bytes, the site, the limits and the version of the engine only, except
//! that the wall-clock fuse may end a call: [`Class::is_repeatable`] tells which outcomes come again.

mod answer;
pub mod compile;
mod compiled_cache;
pub mod component;
pub mod contract;
mod engine;
mod error;
mod instance;
mod limits;
mod since_v0_1_0;
mod trusted_code;
mod verdict_cache;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use wasmtime::component::{InstancePre, Linker};

pub use compile::Helper;
pub use component::{Inspection, Tier, inspect, inspect_tier};
pub use engine::CONFIGURATION;
pub use error::{Class, Error, printable};
pub use limits::{AnswerLimits, EPOCH_TICK, Limits, THREAD_STACK, WASM_STACK};

use compiled_cache::{CompiledCache, Kind};
use contract::{Manifest, Site, Verdict};
use engine::{Engines, Fuse};
use instance::{Failure, Meter};
use since_v0_1_0::Exports;
use verdict_cache::{Outcome, SiteKey, VerdictCache};

/// The engine's version, part of cache keys: compiled code and fuel costs change with it.
pub const ENGINE_VERSION: &str = "48";

/// What a sandbox needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// how much a rule may take
    pub limits: Limits,
    /// where compiled rules and their verdicts are kept; none: they are compiled and asked every time
    pub cache: Option<PathBuf>,
    /// how the compiling process is started
    pub helper: Helper,
}

/// Loads rules.
#[derive(Clone)]
pub struct Sandbox {
    engines: Engines,
    cache: CompiledCache,
    options: Options,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Starts the engine and opens the cache.
    ///
    /// # Errors
    /// When this machine cannot run the engine, or the cache folder belongs to somebody else.
    pub fn new(options: Options) -> Result<Self, Error> {
        let host = |reason: String| Error::new("engine", Class::Host, reason);
        let engines = Engines::new().map_err(|error| host(format!("it cannot run on this machine: {error:#}")))?;
        let cache = CompiledCache::open(options.cache.as_deref())
            .map_err(|error| host(format!("the folder for compiled rules cannot be used: {error}")))?;
        Ok(Self { engines, cache, options })
    }

    /// The limits that rules run under.
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Loads a rule. `label` stands for it in errors until it has said what it is.
    ///
    /// # Errors
    /// Whatever is wrong with the rule, told apart by [`Class`].
    pub fn load(&self, label: &str, bytes: &[u8]) -> Result<Rule, Error> {
        let limits = &self.options.limits;
        let sha256 = crate::files::sha256_hex(bytes);
        let context = verdict_cache::context(&sha256, limits, self.environment());
        let name = hex::encode(context);
        if let Some(about) = self.cache.get(Kind::About, &name).and_then(|about| serde_json::from_slice(&about).ok()) {
            return Ok(self.rule(bytes, about, OnceLock::new(), context));
        }
        let failed = |(class, reason): Failure| Error::new(label, class, reason);
        let inspection = inspect(bytes, limits).map_err(failed)?;
        let callable = self.callable(bytes, &inspection.interface).map_err(failed)?;
        let described = guarded(&self.engines, || {
            instance::call::<_, (Manifest,)>(&callable.pre, &callable.exports.describe, (), limits)
        })
        .map_err(failed)?;
        let ((manifest,), _) = described.map_err(failed)?;
        answer::check_manifest(&manifest, &limits.answer).map_err(failed)?;
        let manifest = answer::clean_manifest(manifest, &limits.answer);
        if inspection.manifest.as_ref().is_some_and(|section| *section != manifest) {
            let reason = "its manifest section says something else than the rule itself".to_owned();
            return Err(failed((Class::BadOutput, reason)));
        }
        let version = semver::Version::parse(&manifest.version)
            .map_err(|error| failed((Class::BadOutput, format!("it has no version: {error}"))))?;
        let about = About { manifest, version, inspection };
        if let Ok(json) = serde_json::to_vec(&about) {
            self.cache.put(Kind::About, &name, &json);
        }
        Ok(self.rule(bytes, about, OnceLock::from(Ok(callable)), context))
    }

    fn rule(
        &self,
        bytes: &[u8],
        about: About,
        callable: OnceLock<Result<Callable, Failure>>,
        context: [u8; 32],
    ) -> Rule {
        let verdicts = VerdictCache::new(self.cache.folder(), &about.inspection.sha256, context);
        Rule { about, sandbox: self.clone(), bytes: bytes.into(), callable, verdicts }
    }

    /// From bytes, or from the code that an earlier load kept.
    fn callable(&self, bytes: &[u8], interface: &str) -> Result<Callable, Failure> {
        let key = self.cache_key(&component::code_sha256(bytes));
        let kept = self.cache.get(Kind::Code, &key).and_then(|code| self.engines.load(&code).ok());
        let component = match kept {
            Some(component) => component,
            None => {
                let code = compile::compile(&self.options.helper, bytes, &self.options.limits).map_err(|error| {
                    let class = match error {
                        compile::Error::Interrupted => Class::Interrupted,
                        compile::Error::Start(_) => Class::Host,
                        compile::Error::Limit(_) | compile::Error::Refused(_) => Class::Compile,
                    };
                    (class, error.to_string())
                })?;
                let component = self
                    .engines
                    .load(&code)
                    .map_err(|error| (Class::Compile, format!("its code cannot be used: {error:#}")))?;
                self.cache.put(Kind::Code, &key, &code);
                component
            }
        };
        let pre = Linker::new(component.engine())
            .instantiate_pre(&component)
            .map_err(|error| (Class::Import, format!("it wants something from the host: {error:#}")))?;
        let exports = Exports::find(pre.component(), interface)
            .map_err(|missing| (Class::ContractVersion, format!("it does not export {missing}")))?;
        Ok(Callable { pre, exports })
    }

    fn cache_key(&self, sha256: &str) -> String {
        let arch = std::env::consts::ARCH;
        let parts = format!("{sha256} {ENGINE_VERSION} {CONFIGURATION} {arch} {:016x}", self.environment());
        crate::files::sha256_hex(parts.as_bytes())
    }

    /// Stands for the engine's exact version and everything in its settings that changes code.
    fn environment(&self) -> u64 {
        use std::hash::{Hash as _, Hasher as _};
        let mut environment = std::hash::DefaultHasher::new();
        self.engines.compatibility().hash(&mut environment);
        environment.finish()
    }
}

/// Runs `work` on a thread with room for a guest's stack, while the wall-clock fuse burns.
fn guarded<T: Send>(engines: &Engines, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    let host = |error: std::io::Error| (Class::Host, format!("a thread cannot be started: {error}"));
    let _turn = engines.turn();
    let _fuse = Fuse::light(engines).map_err(host)?;
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("rule".to_owned())
            .stack_size(THREAD_STACK)
            .spawn_scoped(scope, work)
            .map_err(host)?;
        thread.join().map_err(|_| (Class::Host, "the engine panicked".to_owned()))
    })
}

/// What is known of a rule without running it; a function of its bytes, the limits and the engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct About {
    manifest: Manifest,
    version: semver::Version,
    inspection: Inspection,
}

/// A rule as code.
struct Callable {
    pre: InstancePre<Meter>,
    exports: Exports,
}

/// A loaded rule. Its code is not touched before a site is asked about that has no verdict yet.
pub struct Rule {
    about: About,
    sandbox: Sandbox,
    bytes: Arc<[u8]>,
    callable: OnceLock<Result<Callable, Failure>>,
    verdicts: VerdictCache,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rule")
            .field("name", &self.name())
            .field("sha256", &self.about.inspection.sha256)
            .finish_non_exhaustive()
    }
}

/// What came out of one `examine`.
#[derive(Clone, Debug, PartialEq)]
pub struct Examined {
    /// the answer, within the caps; its ids are not yet checked against the site
    pub verdict: Verdict,
    /// fuel that the call used
    pub fuel: u64,
}

impl Rule {
    /// What the rule says it is.
    pub fn manifest(&self) -> &Manifest {
        &self.about.manifest
    }

    fn limits(&self) -> &Limits {
        &self.sandbox.options.limits
    }

    /// Its id, e.g. `dd-001`.
    pub fn id(&self) -> &str {
        &self.about.manifest.id
    }

    /// Its version.
    pub fn version(&self) -> &semver::Version {
        &self.about.version
    }

    /// Id and version as errors show them: `dd-001 1.2.0`.
    pub fn name(&self) -> String {
        format!("{} {}", self.about.manifest.id, self.about.version)
    }

    /// Id and version as new nodes carry them: `dd-001@1.2.0`.
    pub fn origin(&self) -> String {
        format!("{}@{}", self.about.manifest.id, self.about.version)
    }

    /// What its bytes say.
    pub fn inspection(&self) -> &Inspection {
        &self.about.inspection
    }

    /// Asks the rule about each site, in order. All sites count against [`Limits::fuel_per_graph`]; when
    /// it is used up, the rest fails with [`Class::OutOfFuel`] without being asked. A site that fails does
    /// not keep the rule from being asked about the next.
    ///
    /// A site that the rule has been asked about before is not asked about again: the outcome, fuel
    /// included, is the one that [`Rule::examine_afresh`] gives.
    pub fn examine(&self, sites: &[&Site]) -> Vec<Result<Examined, Error>> {
        let mut scratch = Vec::with_capacity(4 << 10);
        let keys: Vec<SiteKey> = sites.iter().map(|site| SiteKey::of(site, &mut scratch)).collect();
        let mut known = self.verdicts.get(&keys);
        for outcome in &mut known {
            // Whoever wrote the file: what comes out of it is within the caps.
            if let Some(Ok(examined)) = outcome
                && answer::check_verdict(&examined.verdict, &self.about.manifest, &self.limits().answer).is_err()
            {
                *outcome = None;
            }
        }
        let was_known: Vec<bool> = known.iter().map(Option::is_some).collect();
        let mut first: FxHashMap<SiteKey, usize> = FxHashMap::default();
        for (position, key) in keys.iter().enumerate() {
            first.entry(*key).or_insert(position);
        }
        let asks = was_known.contains(&false);
        let (outcomes, asked) = self.within_budget(sites.len(), asks, |position, outcomes| {
            if let Some(outcome) = known.get_mut(position).and_then(Option::take) {
                return outcome;
            }
            // An equal site of the same call: a failure is worth another try only when it may not come again.
            let equal = keys.get(position).and_then(|key| first.get(key)).and_then(|earlier| outcomes.get(*earlier));
            match (equal, sites.get(position)) {
                (Some(outcome), _)
                    if outcome.as_ref().map_or_else(|(class, _)| verdict_cache::is_kept(*class), |_| true) =>
                {
                    outcome.clone()
                }
                (_, Some(site)) => self.examine_one(site),
                (_, None) => Err((Class::Host, "there is no such site".to_owned())),
            }
        });
        let fresh = keys.iter().zip(&was_known).zip(&outcomes).take(asked).enumerate().filter_map(
            |(position, ((key, known), outcome))| {
                (!known && first.get(key) == Some(&position)).then_some((*key, outcome))
            },
        );
        self.verdicts.put(fresh);
        self.named(outcomes)
    }

    /// As [`Rule::examine`], without looking at what the rule said before and without noting what it says.
    pub fn examine_afresh(&self, sites: &[&Site]) -> Vec<Result<Examined, Error>> {
        let (outcomes, _) = self.within_budget(sites.len(), true, |position, _| match sites.get(position) {
            Some(site) => self.examine_one(site),
            None => Err((Class::Host, "there is no such site".to_owned())),
        });
        self.named(outcomes)
    }

    /// The outcomes of sites in order, and how many of them came before the fuel was used up. `asks` says
    /// that the guest will run.
    fn within_budget(
        &self,
        count: usize,
        asks: bool,
        mut outcome: impl FnMut(usize, &[Outcome]) -> Outcome + Send,
    ) -> (Vec<Outcome>, usize) {
        let mut all = move || {
            let mut outcomes: Vec<Outcome> = Vec::with_capacity(count);
            let mut left = self.limits().fuel_per_graph;
            let mut asked = 0;
            for position in 0..count {
                let next = if crate::interrupt::requested() {
                    Err((Class::Interrupted, "interrupted".to_owned()))
                } else if left == 0 {
                    Err(self.budget_spent())
                } else {
                    asked = position + 1;
                    let outcome = outcome(position, &outcomes);
                    let used = outcome.as_ref().map_or(self.limits().fuel, |examined| examined.fuel);
                    left = left.saturating_sub(used);
                    outcome
                };
                outcomes.push(next);
            }
            (outcomes, asked)
        };
        if !asks {
            return all();
        }
        guarded(&self.sandbox.engines, all).unwrap_or_else(|failure| (vec![Err(failure); count], 0))
    }

    fn budget_spent(&self) -> Failure {
        (Class::OutOfFuel, format!("it used all its fuel for one graph ({})", self.limits().fuel_per_graph))
    }

    fn named(&self, outcomes: Vec<Outcome>) -> Vec<Result<Examined, Error>> {
        let name = self.name();
        let failed = |(class, reason): Failure| Error::new(&name, class, reason);
        outcomes.into_iter().map(|outcome| outcome.map_err(failed)).collect()
    }

    fn examine_one(&self, site: &Site) -> Result<Examined, Failure> {
        type Answer = (Result<Verdict, String>,);
        let callable =
            self.callable.get_or_init(|| self.sandbox.callable(&self.bytes, &self.about.inspection.interface));
        let callable = callable.as_ref().map_err(Clone::clone)?;
        let ((answer,), fuel) =
            instance::call::<_, Answer>(&callable.pre, &callable.exports.examine, (site,), self.limits())?;
        let verdict =
            answer.map_err(|complaint| (Class::Own, format!("it reports a fault of its own: {complaint}")))?;
        answer::check_verdict(&verdict, &self.about.manifest, &self.limits().answer)?;
        Ok(Examined { verdict: answer::clean_verdict(verdict, &self.limits().answer), fuel })
    }
}
