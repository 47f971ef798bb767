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
//!    only the user can enter, with its hash (`compiled_cache`);
//! 3. the code becomes callable (`trusted_code`, the only unsafe lines);
//! 4. `describe` runs as a trial and its answer is checked (`answer`);
//! 5. every `examine` gets a store and an instance of its own, with fuel, a wall-clock fuse, and limits on
//!    memory, tables, stack and on what is copied out (`instance`); whatever happens, both are dropped.
//!
//! A verdict depends on the rule's bytes, the site, the limits and the version of the engine only, except
//! that the wall-clock fuse may end a call: [`Class::is_repeatable`] tells which outcomes may be kept.

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

use std::path::PathBuf;
use std::thread;

use wasmtime::Engine;
use wasmtime::component::{InstancePre, Linker};

pub use compile::Helper;
pub use component::{Inspection, inspect};
pub use engine::CONFIGURATION;
pub use error::{Class, Error, printable};
pub use limits::{AnswerLimits, EPOCH_TICK, Limits, THREAD_STACK, WASM_STACK};

use compiled_cache::CompiledCache;
use contract::{Manifest, Site, Verdict};
use engine::Fuse;
use instance::{Failure, Meter};
use since_v0_1_0::Exports;

/// The engine's version, part of cache keys: compiled code and fuel costs change with it.
pub const ENGINE_VERSION: &str = "48";

/// What a sandbox needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// how much a rule may take
    pub limits: Limits,
    /// where compiled rules are kept; none: they are compiled every time
    pub cache: Option<PathBuf>,
    /// how the compiling process is started
    pub helper: Helper,
}

/// Loads rules.
#[derive(Clone)]
pub struct Sandbox {
    engine: Engine,
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
        let engine = engine::new().map_err(|error| host(format!("it cannot run on this machine: {error:#}")))?;
        let cache = CompiledCache::open(options.cache.as_deref())
            .map_err(|error| host(format!("the folder for compiled rules cannot be used: {error}")))?;
        Ok(Self { engine, cache, options })
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
        let failed = |(class, reason): Failure| Error::new(label, class, reason);
        let limits = &self.options.limits;
        let inspection = inspect(bytes, limits).map_err(failed)?;
        let pre = self.callable(&inspection, bytes).map_err(failed)?;
        let exports = Exports::find(pre.component(), &inspection.interface)
            .map_err(|missing| failed((Class::ContractVersion, format!("it does not export {missing}"))))?;

        let described = guarded(&self.engine, || {
            instance::call::<_, (Manifest,)>(&self.engine, &pre, &exports.describe, (), limits)
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
        Ok(Rule { manifest, version, inspection, pre, exports, engine: self.engine.clone(), limits: limits.clone() })
    }

    /// From bytes, or from the code that an earlier load kept.
    fn callable(&self, inspection: &Inspection, bytes: &[u8]) -> Result<InstancePre<Meter>, Failure> {
        let key = self.cache_key(&inspection.sha256);
        let kept = self.cache.get(&key).and_then(|code| trusted_code::load(&self.engine, &code).ok());
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
                let component = trusted_code::load(&self.engine, &code)
                    .map_err(|error| (Class::Compile, format!("its code cannot be used: {error:#}")))?;
                self.cache.put(&key, &code);
                component
            }
        };
        Linker::new(&self.engine)
            .instantiate_pre(&component)
            .map_err(|error| (Class::Import, format!("it wants something from the host: {error:#}")))
    }

    fn cache_key(&self, sha256: &str) -> String {
        use std::hash::{Hash as _, Hasher as _};
        let mut environment = std::hash::DefaultHasher::new();
        self.engine.precompile_compatibility_hash().hash(&mut environment);
        let parts = format!(
            "{sha256} {ENGINE_VERSION} {CONFIGURATION} {} {:016x}",
            std::env::consts::ARCH,
            environment.finish()
        );
        crate::files::sha256_hex(parts.as_bytes())
    }
}

/// Runs `work` on a thread with room for a guest's stack, while the wall-clock fuse burns.
fn guarded<T: Send>(engine: &Engine, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    let host = |error: std::io::Error| (Class::Host, format!("a thread cannot be started: {error}"));
    let _fuse = Fuse::light(engine).map_err(host)?;
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("rule".to_owned())
            .stack_size(THREAD_STACK)
            .spawn_scoped(scope, work)
            .map_err(host)?;
        thread.join().map_err(|_| (Class::Host, "the engine panicked".to_owned()))
    })
}

/// A loaded rule.
pub struct Rule {
    manifest: Manifest,
    version: semver::Version,
    inspection: Inspection,
    pre: InstancePre<Meter>,
    exports: Exports,
    engine: Engine,
    limits: Limits,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rule")
            .field("name", &self.name())
            .field("sha256", &self.inspection.sha256)
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
        &self.manifest
    }

    /// Its id, e.g. `dd-001`.
    pub fn id(&self) -> &str {
        &self.manifest.id
    }

    /// Its version.
    pub fn version(&self) -> &semver::Version {
        &self.version
    }

    /// Id and version as errors show them: `dd-001 1.2.0`.
    pub fn name(&self) -> String {
        format!("{} {}", self.manifest.id, self.version)
    }

    /// Id and version as new nodes carry them: `dd-001@1.2.0`.
    pub fn origin(&self) -> String {
        format!("{}@{}", self.manifest.id, self.version)
    }

    /// What its bytes say.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// Asks the rule about each site, in order. All sites count against [`Limits::fuel_per_graph`]; when
    /// it is used up, the rest fails with [`Class::OutOfFuel`] without being asked. A site that fails does
    /// not keep the rule from being asked about the next.
    pub fn examine(&self, sites: &[&Site]) -> Vec<Result<Examined, Error>> {
        let failed = |(class, reason): Failure| Error::new(&self.name(), class, reason);
        let asked = guarded(&self.engine, || {
            let mut left = self.limits.fuel_per_graph;
            sites
                .iter()
                .map(|&site| {
                    if crate::interrupt::requested() {
                        return Err((Class::Interrupted, "interrupted".to_owned()));
                    }
                    if left == 0 {
                        let reason = format!("it used all its fuel for one graph ({})", self.limits.fuel_per_graph);
                        return Err((Class::OutOfFuel, reason));
                    }
                    let outcome = self.examine_one(site);
                    let used = outcome.as_ref().map_or(self.limits.fuel, |examined| examined.fuel);
                    left = left.saturating_sub(used);
                    outcome
                })
                .collect::<Vec<_>>()
        });
        match asked {
            Ok(outcomes) => outcomes.into_iter().map(|outcome| outcome.map_err(failed)).collect(),
            Err(failure) => sites.iter().map(|_| Err(failed(failure.clone()))).collect(),
        }
    }

    fn examine_one(&self, site: &Site) -> Result<Examined, Failure> {
        type Answer = (Result<Verdict, String>,);
        let ((answer,), fuel) =
            instance::call::<_, Answer>(&self.engine, &self.pre, &self.exports.examine, (site,), &self.limits)?;
        let verdict =
            answer.map_err(|complaint| (Class::Own, format!("it reports a fault of its own: {complaint}")))?;
        answer::check_verdict(&verdict, &self.manifest, &self.limits.answer)?;
        Ok(Examined { verdict: answer::clean_verdict(verdict, &self.limits.answer), fuel })
    }
}
