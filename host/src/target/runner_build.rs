//! Builds the native runner against an executorch package.
//!
//! In: the folder of an installed `executorch` package, a cache folder. Out: an executable in
//! `<cache>/runner/<hash>/runner`, where the hash covers everything that goes into it: source, flags,
//! executorch version and place, compiler. It is built in a folder of its own and renamed into place,
//! so two processes can build the same runner at once.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fs_err as fs;

use super::child::{self, End, last_lines};
use crate::files::{sha256_hex, sha256_of, write_atomic};
use crate::hint::Hint;
use crate::progress::Progress;

/// The runner's source.
const SOURCES: [(&str, &str); 6] = [
    ("main.cpp", include_str!("../../runner/main.cpp")),
    ("arguments.h", include_str!("../../runner/arguments.h")),
    ("conditions.h", include_str!("../../runner/conditions.h")),
    ("messages.h", include_str!("../../runner/messages.h")),
    ("program.h", include_str!("../../runner/program.h")),
    ("tensors.h", include_str!("../../runner/tensors.h")),
];

const COMPILE_FLAGS: [&str; 6] = [
    "-std=c++17",
    "-O2",
    // The package's headers come with generated macros and without the file that they replace.
    "-DC10_USING_CUSTOM_GENERATED_MACROS",
    "-DET_EVENT_TRACER_ENABLED",
    "-DET_USE_THREADPOOL",
    "-pthread",
];

/// Kernels and backends register themselves when their library is loaded, so the linker must not drop
/// libraries that nothing refers to.
pub(super) const LIBRARIES: [&str; 6] = [
    "executorch_kernels_optimized",
    "executorch_kernels_quantized",
    "executorch_backend_xnnpack",
    "executorch_etdump",
    "executorch_threadpool",
    "executorch",
];

/// Compilers that are tried when `CXX` is not set.
const COMPILERS: [&str; 3] = ["c++", "g++", "clang++"];

const BUILD_TIMEOUT: Duration = Duration::from_secs(300);
const QUESTION_TIMEOUT: Duration = Duration::from_secs(30);

/// An installed executorch package with what a native build needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sdk {
    /// folder of the package
    pub package: PathBuf,
    /// its version, e.g. `1.5.1+cpu`
    pub version: String,
}

/// A runner that was built or found in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runner {
    /// the executable
    pub executable: PathBuf,
    /// hash of everything that went into it
    pub hash: String,
    /// executorch it was built against
    pub executorch: String,
}

/// Why there is no runner.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the package cannot be built against
    #[error("executorch {version} in `{package}` has no `{missing}`, so no native runner can be built against it")]
    NoHeaders {
        /// package folder
        package: PathBuf,
        /// its version
        version: String,
        /// what it lacks
        missing: String,
    },
    /// no compiler
    #[error("No C++ compiler was found (tried {tried})")]
    NoCompiler {
        /// names that were tried
        tried: String,
    },
    /// the compiler said no
    #[error("`{compiler}` failed to build the runner against executorch {version}")]
    Compile {
        /// compiler
        compiler: String,
        /// executorch version
        version: String,
        /// its last lines
        log: String,
    },
    /// the user stopped the tool
    #[error("Interrupted")]
    Interrupted,
    /// file trouble
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoHeaders { .. } => {
                "Use executorch 1.4 or later: `delegate-doctor setup` installs a version that is known to work"
            }
            Self::NoCompiler { .. } => {
                "Install g++ or clang++ (Debian: `apt install g++`), or name a compiler in the variable CXX"
            }
            Self::Compile { .. } => "Try another C++17 compiler by the variable CXX, or another executorch version",
            Self::Io(error) => return error.hint(),
            Self::Interrupted => return None,
        };
        Some(hint.to_owned())
    }

    fn details(&self) -> Option<String> {
        match self {
            Self::Compile { log, .. } => Some(log.clone()),
            _ => None,
        }
    }
}

impl Sdk {
    /// Uses the package in a folder.
    ///
    /// # Errors
    /// When it lacks headers or libraries.
    pub fn at(package: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(package.join("version.py")).unwrap_or_default();
        let version = text
            .lines()
            .find_map(|line| line.strip_prefix("__version__"))
            .and_then(|rest| rest.split(['"', '\'']).nth(1))
            .unwrap_or("of unknown version")
            .to_owned();
        let needed =
            ["include/executorch/runtime/executor/program.h", "include/executorch/devtools/etdump/etdump_flatcc.h"]
                .into_iter()
                .map(str::to_owned)
                .chain(LIBRARIES.iter().map(|library| format!("lib/lib{library}.so")));
        for missing in needed {
            if !package.join(&missing).is_file() {
                return Err(Error::NoHeaders { package: package.to_owned(), version, missing });
            }
        }
        Ok(Self { package: package.to_owned(), version })
    }

    /// The compiler's arguments for a runner that looks for its libraries in `runpath`.
    pub(super) fn arguments(&self, runpath: &OsStr) -> Vec<OsString> {
        let include = self.package.join("include");
        let libraries = self.package.join("lib");
        let mut arguments: Vec<OsString> = COMPILE_FLAGS.iter().map(OsString::from).collect();
        for folder in [include.clone(), include.join("executorch/runtime/core/portable_type/c10")] {
            arguments.extend(["-isystem".into(), folder.into_os_string()]);
        }
        let mut place = OsString::from("-L");
        place.push(&libraries);
        arguments.extend([place, "-Wl,--push-state,--no-as-needed".into()]);
        arguments.extend(LIBRARIES.iter().map(|library| OsString::from(format!("-l{library}"))));
        arguments.extend(["-Wl,--pop-state".into(), "-Wl,--enable-new-dtags".into()]);
        // As one linker word each, so that a comma in the folder's name is no separator.
        for word in [OsStr::new("-rpath"), runpath] {
            arguments.extend(["-Xlinker".into(), word.to_owned()]);
        }
        arguments
    }

    /// For a runner that is used where the package is.
    fn arguments_here(&self) -> Vec<OsString> {
        self.arguments(self.package.join("lib").as_os_str())
    }
}

/// Finds the runner in the cache or builds it there. `progress` is told when a build starts.
///
/// # Errors
/// No compiler, a failed build, file trouble.
pub fn prepare(sdk: &Sdk, cache: &Path, progress: &dyn Progress) -> Result<Runner, Error> {
    let (compiler, compiler_version) = compiler()?;
    let arguments = sdk.arguments_here();
    let shelf = cache.join("runner");
    let runner = planned(sdk, &shelf, &compiler, &compiler_version);
    let place = shelf.join(&runner.hash);
    if is_whole(&place) {
        return Ok(runner);
    }
    let step = progress.step(&format!(
        "Building the native runner against executorch {} with `{}`",
        sdk.version,
        compiler.display()
    ));
    fs::create_dir_all(&shelf)?;
    sweep(&shelf);
    let building = tempfile::Builder::new().prefix(".building-").tempdir_in(&shelf)?;
    compile(sdk, &compiler, &arguments, building.path())?;
    write_atomic(&building.path().join(DIGEST), sha256_of(&building.path().join("runner"))?.as_bytes())?;
    step.done(&format!("Built the native runner against executorch {}", sdk.version));
    shelve(building, &place, is_whole)?;
    Ok(runner)
}

/// Compiles the runner into `folder`, as `runner`.
///
/// # Errors
/// What the compiler says, file trouble.
pub(super) fn compile(sdk: &Sdk, compiler: &Path, arguments: &[OsString], folder: &Path) -> Result<(), Error> {
    for (name, text) in SOURCES {
        write_atomic(&folder.join(name), text.as_bytes())?;
    }
    let mut command = Command::new(compiler);
    command
        .current_dir(folder)
        .args(["main.cpp", "-o", "runner"])
        .args(arguments)
        // A compiler that is killed leaves its files; here they go with the attempt.
        .env("TMPDIR", folder);
    let done = child::run(&mut command, BUILD_TIMEOUT)?;
    let failed =
        |log: String| Error::Compile { compiler: compiler.display().to_string(), version: sdk.version.clone(), log };
    match done.end {
        End::Exited(status) if status.success() => Ok(()),
        End::Exited(_) => Err(failed(last_lines(&done.stderr, 20))),
        End::TimedOut => Err(failed(format!("no end after {} s", BUILD_TIMEOUT.as_secs()))),
        End::Interrupted => Err(Error::Interrupted),
    }
}

/// Moves what was built to its place, where another process may have put the same meanwhile.
///
/// # Errors
/// File trouble.
pub(super) fn shelve(
    building: tempfile::TempDir,
    place: &Path,
    is_whole: impl Fn(&Path) -> bool,
) -> std::io::Result<()> {
    let built = building.keep();
    let Err(error) = fs::rename(&built, place) else { return Ok(()) };
    // Another process was faster, and what it made has the same hash, so it is the same; or something damaged is
    // in the way.
    if !is_whole(place) {
        let _ = fs::remove_dir_all(place);
        if fs::rename(&built, place).is_ok() {
            return Ok(());
        }
    }
    let _ = fs::remove_dir_all(&built);
    if is_whole(place) { Ok(()) } else { Err(error) }
}

/// The runner if it was built before; builds nothing.
///
/// # Errors
/// No compiler.
pub fn find(sdk: &Sdk, cache: &Path) -> Result<Option<Runner>, Error> {
    let (compiler, compiler_version) = compiler()?;
    let runner = planned(sdk, &cache.join("runner"), &compiler, &compiler_version);
    let place = cache.join("runner").join(&runner.hash);
    Ok(is_whole(&place).then_some(runner))
}

/// Removes what builds that were killed left behind; one that takes longer than an hour is none.
pub(super) fn sweep(shelf: &Path) {
    for entry in fs::read_dir(shelf).into_iter().flatten().filter_map(Result::ok) {
        let unfinished = entry.file_name().as_encoded_bytes().starts_with(b".building-");
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|time| time.elapsed().ok());
        if unfinished && age.is_some_and(|age| age > Duration::from_secs(3600)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Name of the file with the hash of the executable.
const DIGEST: &str = "runner.sha256";

/// True when the executable in the folder is the one that was built there.
fn is_whole(place: &Path) -> bool {
    let noted = fs::read_to_string(place.join(DIGEST)).ok();
    noted.is_some() && noted == sha256_of(&place.join("runner")).ok()
}

/// The C++ compiler in use and the first line of what it says about its version.
///
/// # Errors
/// When there is none.
pub fn compiler() -> Result<(PathBuf, String), Error> {
    find_compiler(std::env::var_os("CXX"), &COMPILERS)
}

fn planned(sdk: &Sdk, shelf: &Path, compiler: &Path, compiler_version: &str) -> Runner {
    let hash = fingerprint(sdk, compiler, compiler_version, &sdk.arguments_here());
    Runner { executable: shelf.join(&hash).join("runner"), hash, executorch: sdk.version.clone() }
}

/// The compiler that was chosen, else the first of `names` that answers.
pub(super) fn find_compiler(chosen: Option<OsString>, names: &[&str]) -> Result<(PathBuf, String), Error> {
    let chosen = chosen.filter(|name| !name.is_empty());
    let candidates: Vec<OsString> =
        chosen.map_or_else(|| names.iter().map(OsString::from).collect(), |name| vec![name]);
    for name in &candidates {
        let Ok(done) = child::run(Command::new(name).arg("--version"), QUESTION_TIMEOUT) else { continue };
        match done.end {
            End::Exited(status) if status.success() => {
                let version = String::from_utf8_lossy(&done.stdout).lines().next().unwrap_or_default().to_owned();
                return Ok((PathBuf::from(name), version));
            }
            End::Interrupted => return Err(Error::Interrupted),
            End::Exited(_) | End::TimedOut => {}
        }
    }
    let tried: Vec<String> = candidates.iter().map(|name| format!("`{}`", name.to_string_lossy())).collect();
    Err(Error::NoCompiler { tried: tried.join(", ") })
}

/// Hash of everything that goes into a runner.
pub(super) fn fingerprint(sdk: &Sdk, compiler: &Path, compiler_version: &str, arguments: &[OsString]) -> String {
    let mut text = Vec::new();
    let mut add = |part: &[u8]| {
        text.extend_from_slice(&(part.len() as u64).to_le_bytes());
        text.extend_from_slice(part);
    };
    for (name, source) in SOURCES {
        add(name.as_bytes());
        add(source.as_bytes());
    }
    add(sdk.version.as_bytes());
    add(compiler.as_os_str().as_encoded_bytes());
    add(compiler_version.as_bytes());
    for argument in arguments {
        add(argument.as_encoded_bytes());
    }
    let mut hash = sha256_hex(&text);
    hash.truncate(20);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_headers_is_refused_with_its_version() {
        let folder = tempfile::tempdir().expect("temporary folder");
        write_atomic(&folder.path().join("version.py"), b"__version__ = \"1.0.0+cpu\"\n").expect("write");
        let error = Sdk::at(folder.path()).expect_err("no headers");
        assert!(error.to_string().starts_with("executorch 1.0.0+cpu in "), "{error}");
        assert!(error.hint().expect("a hint").contains("1.4 or later"));
    }

    #[test]
    fn a_missing_compiler_names_what_was_tried() {
        let error = find_compiler(Some("/nonexistent/c++".into()), &COMPILERS).expect_err("no compiler");
        assert_eq!(error.to_string(), "No C++ compiler was found (tried `/nonexistent/c++`)");
        assert!(error.hint().expect("a hint").contains("CXX"));
        assert!(find_compiler(Some("/bin/false".into()), &COMPILERS).is_err());
    }

    #[test]
    fn the_hash_changes_with_everything_that_goes_in() {
        let sdk = Sdk { package: PathBuf::from("/p/executorch"), version: "1.5.1".to_owned() };
        let hash = |sdk: &Sdk, compiler: &str, version: &str| {
            fingerprint(sdk, Path::new(compiler), version, &sdk.arguments_here())
        };
        let base = hash(&sdk, "g++", "12");
        assert_eq!(base, hash(&sdk.clone(), "g++", "12"));
        assert_ne!(base, hash(&sdk, "clang++", "12"));
        assert_ne!(base, hash(&sdk, "g++", "13"));
        assert_ne!(base, hash(&Sdk { version: "1.5.2".to_owned(), ..sdk.clone() }, "g++", "12"));
        assert_ne!(base, hash(&Sdk { package: PathBuf::from("/q/executorch"), ..sdk }, "g++", "12"));
    }

    #[test]
    fn every_source_file_that_is_included_is_embedded() {
        for (name, text) in SOURCES {
            for line in text.lines() {
                if let Some(included) = line.strip_prefix("#include \"") {
                    let included = included.trim_end_matches('"');
                    assert!(SOURCES.iter().any(|(known, _)| *known == included), "{name} includes {included}");
                }
            }
        }
    }
}
