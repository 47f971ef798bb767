//! Everything that a 64-bit Arm device with a Linux kernel needs to run programs, in one folder: the runner,
//! ExecuTorch's libraries, and the C and C++ libraries they were linked with, started by their own loader.
//!
//! In: an environment with executorch, a cache folder. Out: `<cache>/bundle/<hash>/`, cross-compiled from the
//! runner's source against the executorch package for Linux on Arm, and kept by the hash of all that went into
//! it. Nothing of the device's system is used, so Android (as `adb shell` sees it) and boards take the same files.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::child::{self, End};
use super::runner_build::{self, LIBRARIES, Sdk};
use crate::files::{self, sha256_hex, sha256_of};
use crate::hint::Hint;
use crate::progress::Progress;
use crate::torch::environment::{self, Environment, fetch_executorch};

/// Architecture of the bundle, as Linux and Rust call it.
pub const ARCHITECTURE: &str = "aarch64";
/// Compilers that are tried; the variable is the one that Rust's C build tools read.
/// Names the C++ compiler for 64-bit Arm; without it, the usual names are tried.
pub const COMPILER_VARIABLE: &str = "CXX_aarch64_unknown_linux_gnu";
const CROSS_COMPILERS: [&str; 3] = ["aarch64-linux-gnu-g++", "aarch64-linux-gnu-c++", "aarch64-linux-gnu-clang++"];
const OWN_COMPILERS: [&str; 3] = ["c++", "g++", "clang++"];
/// Starts the runner with the libraries beside it.
const LOADER: &str = "ld-linux-aarch64.so.1";
/// What the runner and ExecuTorch's libraries need of the system.
const SYSTEM_LIBRARIES: [&str; 7] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1", LOADER];
/// What of the package is unpacked.
const WANTED: [&str; 3] = ["executorch/include/", "executorch/lib/", "executorch/version.py"];
/// Most that is unpacked of a package, bytes.
const MOST_UNPACKED: u64 = 2 << 30;
/// Name of the list of files in a bundle's folder.
const LIST: &str = "bundle.json";
/// Largest list that is read, bytes.
const MOST_LIST: u64 = 1 << 20;
/// Largest part of a user's own runner, bytes.
const MOST_OWN: u64 = 1 << 30;
const QUESTION_TIMEOUT: Duration = Duration::from_secs(30);

/// A runner with what it needs, ready to be copied to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// folder with the files
    pub folder: PathBuf,
    /// the files, by name
    pub files: Vec<BundleFile>,
    /// hash of the content of all files
    pub hash: String,
    /// how the runner is started
    pub start: Start,
    /// executorch it was built against; `None` for a user's own runner
    pub executorch: Option<String>,
}

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleFile {
    /// name in the folder
    pub name: String,
    /// hash of its content
    pub sha256: String,
    /// length, bytes
    pub bytes: u64,
}

/// How a runner is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// by the loader of the bundle, with the bundle's libraries only
    ByLoader,
    /// by itself, with the device's libraries beside its own; the name of the executable
    ByItself(String),
}

/// The list in a bundle's folder; version 1.
#[derive(Serialize, Deserialize)]
struct List {
    version: u32,
    executorch: String,
    files: Vec<BundleFile>,
}

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// no cross compiler
    #[error("No C++ compiler for 64-bit Arm was found (tried {tried})")]
    NoCompiler {
        /// names that were tried
        tried: String,
    },
    /// the compiler lacks a library
    #[error("`{compiler}` does not know where `{library}` for 64-bit Arm is")]
    NoLibrary {
        /// compiler
        compiler: String,
        /// what it lacks
        library: String,
    },
    /// the runner was not built
    #[error(transparent)]
    Build(runner_build::Error),
    /// the package was not fetched
    #[error(transparent)]
    Package(#[from] environment::Error),
    /// the package makes no sense
    #[error("The package `{}` cannot be unpacked: {reason}", wheel.display())]
    Damaged {
        /// downloaded file
        wheel: PathBuf,
        /// why
        reason: String,
    },
    /// a user's own runner cannot be used
    #[error("`{}` is no runner for a device: {reason}", path.display())]
    NotARunner {
        /// what the user named
        path: PathBuf,
        /// why
        reason: String,
    },
    /// file trouble
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// the user stopped the tool
    #[error("Interrupted")]
    Interrupted,
}

impl From<runner_build::Error> for Error {
    fn from(error: runner_build::Error) -> Self {
        match error {
            runner_build::Error::Interrupted => Self::Interrupted,
            runner_build::Error::NoCompiler { tried } => Self::NoCompiler { tried },
            error => Self::Build(error),
        }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoCompiler { .. } | Self::NoLibrary { .. } => {
                "Install a cross compiler (Debian and Ubuntu: `apt install g++-aarch64-linux-gnu`), name one in the \
                 variable CXX_aarch64_unknown_linux_gnu, or bring a runner of your own with `--runner`"
            }
            Self::Build(error) => return error.hint(),
            Self::Package(error) => return error.hint(),
            Self::Damaged { .. } => "Try again; it is fetched anew",
            Self::NotARunner { .. } => {
                "Name an executable for 64-bit Arm that was built from the runner's source, or a folder with it \
                 (called `runner`) and its libraries"
            }
            Self::Io(error) => return error.hint(),
            Self::Interrupted => return None,
        };
        Some(hint.to_owned())
    }

    fn details(&self) -> Option<String> {
        match self {
            Self::Build(error) => error.details(),
            _ => None,
        }
    }
}

impl Bundle {
    /// The words that start the runner where the bundle's files are in the folder `at`, before its arguments.
    pub fn command(&self, at: &str) -> Vec<String> {
        match &self.start {
            Start::ByLoader => [
                format!("{at}/{LOADER}"),
                "--inhibit-cache".to_owned(),
                "--library-path".to_owned(),
                at.to_owned(),
                format!("{at}/runner"),
            ]
            .into(),
            Start::ByItself(name) => vec![format!("{at}/{name}")],
        }
    }

    /// Uses a runner that the user built: an executable, or a folder with an executable `runner` and libraries.
    ///
    /// # Errors
    /// When there is none for 64-bit Arm.
    pub fn of_user(path: &Path) -> Result<Self, Error> {
        let not = |reason: &str| Error::NotARunner { path: path.to_owned(), reason: reason.to_owned() };
        // A name without a folder would be looked up elsewhere when it is started.
        let path = &std::path::absolute(path)?;
        let metadata = fs::metadata(path).map_err(|error| not(&error.to_string()))?;
        let (folder, runner) = if metadata.is_dir() {
            (path.to_owned(), "runner".to_owned())
        } else {
            let name = path.file_name().and_then(OsStr::to_str).ok_or_else(|| not("its name is no text"))?;
            (path.parent().map_or_else(PathBuf::new, Path::to_owned), name.to_owned())
        };
        let names: Vec<String> = if metadata.is_dir() {
            let mut names = Vec::new();
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                if fs::metadata(entry.path())?.is_file() {
                    names.push(entry.file_name().into_string().map_err(|_| not("a file's name is no text"))?);
                }
            }
            names.sort();
            names
        } else {
            vec![runner.clone()]
        };
        let mut list = Vec::new();
        for name in names {
            if !is_plain(&name) {
                return Err(not(&format!("the name `{name}` has characters that no shell takes as they are")));
            }
            let content = files::read_regular(&folder.join(&name), MOST_OWN)?;
            if name == runner && !is_arm64_elf(&content) {
                return Err(not("it is no ELF file for 64-bit Arm"));
            }
            list.push(BundleFile { sha256: sha256_hex(&content), bytes: content.len() as u64, name });
        }
        if !list.iter().any(|file| file.name == runner) {
            return Err(not("there is no file `runner` in it"));
        }
        let has_loader = list.iter().any(|file| file.name == LOADER);
        let start = if has_loader { Start::ByLoader } else { Start::ByItself(runner) };
        Ok(Self { folder, hash: content_hash(&list), files: list, start, executorch: None })
    }

    /// The bundle of an environment, built if it is not in the cache. `progress` is told about work that takes a
    /// while.
    ///
    /// # Errors
    /// No compiler, no package, a failed build, file trouble.
    pub fn prepare(environment: &Environment, cache: &Path, progress: &dyn Progress) -> Result<Self, Error> {
        let native = std::env::consts::ARCH == ARCHITECTURE;
        let names: Vec<&str> =
            CROSS_COMPILERS.into_iter().chain(OWN_COMPILERS.into_iter().filter(|_| native)).collect();
        let (compiler, version) = runner_build::find_compiler(std::env::var_os(COMPILER_VARIABLE), &names)?;
        let planned = Sdk { package: PathBuf::from(ARCHITECTURE), version: environment.executorch_version.clone() };
        let runpath = OsStr::new("$ORIGIN");
        let hash = runner_build::fingerprint(&planned, &compiler, &version, &planned.arguments(runpath));
        let shelf = cache.join("bundle");
        let place = shelf.join(&hash);
        if let Some(bundle) = read(&place) {
            return Ok(bundle);
        }
        fs::create_dir_all(&shelf)?;
        runner_build::sweep(&shelf);
        let building = tempfile::Builder::new().prefix(".building-").tempdir_in(&shelf)?;
        let package = if native {
            environment.executorch_folder.clone()
        } else {
            let wheel = fetch_executorch(environment, ARCHITECTURE, building.path(), progress)?;
            unpack(&wheel, &building.path().join("package"))?;
            building.path().join("package/executorch")
        };
        let sdk = Sdk::at(&package)?;
        let step = progress.step(&format!(
            "Building the runner for 64-bit Arm against executorch {} with `{}`",
            sdk.version,
            compiler.display()
        ));
        let work = building.path().join("work");
        fs::create_dir(&work)?;
        runner_build::compile(&sdk, &compiler, &sdk.arguments(runpath), &work)?;
        let made = tempfile::Builder::new().prefix(".building-").tempdir_in(&shelf)?;
        fs::copy(work.join("runner"), made.path().join("runner"))?;
        let libraries = LIBRARIES.iter().map(|library| format!("lib{library}.so"));
        for library in libraries {
            fs::copy(package.join("lib").join(&library), made.path().join(&library))?;
        }
        for library in SYSTEM_LIBRARIES {
            fs::copy(find_library(&compiler, library)?, made.path().join(library))?;
        }
        write_list(made.path(), &environment.executorch_version)?;
        runner_build::shelve(made, &place, |place| read(place).is_some())?;
        step.done(&format!("Built the runner for 64-bit Arm against executorch {}", sdk.version));
        read(&place).ok_or_else(|| std::io::Error::other(format!("`{}` changed meanwhile", place.display())).into())
    }
}

/// True for names and paths that a shell takes as they are.
pub(super) fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-+".contains(letter))
}

/// ELF, 64 bits, for `EM_AARCH64` (183).
fn is_arm64_elf(content: &[u8]) -> bool {
    content.starts_with(b"\x7fELF\x02") && content.get(18..20) == Some(&[183, 0])
}

fn content_hash(files: &[BundleFile]) -> String {
    let text: String = files.iter().map(|file| format!("{} {}\n", file.sha256, file.name)).collect();
    sha256_hex(text.as_bytes()).chars().take(20).collect()
}

fn write_list(folder: &Path, executorch: &str) -> Result<(), Error> {
    let mut list = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        list.push(BundleFile { name, sha256: sha256_of(&entry.path())?, bytes: entry.metadata()?.len() });
    }
    list.sort_by(|one, other| one.name.cmp(&other.name));
    files::write_json(&folder.join(LIST), &List { version: 1, executorch: executorch.to_owned(), files: list })?;
    Ok(())
}

/// The bundle in a folder, if every file is as it was made.
fn read(place: &Path) -> Option<Bundle> {
    let List { version, executorch, files } =
        serde_json::from_slice(&files::read_regular(&place.join(LIST), MOST_LIST).ok()?).ok()?;
    let whole = version == 1
        && files.iter().any(|file| file.name == LOADER)
        && files.iter().all(|file| {
            is_plain(&file.name)
                && !file.name.contains('/')
                && sha256_of(&place.join(&file.name)).is_ok_and(|found| found == file.sha256)
        });
    whole.then(|| Bundle {
        folder: place.to_owned(),
        hash: content_hash(&files),
        files,
        start: Start::ByLoader,
        executorch: Some(executorch),
    })
}

fn find_library(compiler: &Path, library: &str) -> Result<PathBuf, Error> {
    let mut question = OsString::from("-print-file-name=");
    question.push(library);
    let done = child::run(Command::new(compiler).arg(question), QUESTION_TIMEOUT)?;
    if let End::Interrupted = done.end {
        return Err(Error::Interrupted);
    }
    let path = PathBuf::from(String::from_utf8_lossy(&done.stdout).trim());
    if path.is_absolute() && path.is_file() {
        return Ok(path);
    }
    Err(Error::NoLibrary { compiler: compiler.display().to_string(), library: library.to_owned() })
}

/// Unpacks headers and libraries of a wheel.
fn unpack(wheel: &Path, into: &Path) -> Result<(), Error> {
    let damaged = |reason: String| Error::Damaged { wheel: wheel.to_owned(), reason };
    let mut archive =
        zip::ZipArchive::new(fs::File::open(wheel)?.into_parts().0).map_err(|error| damaged(error.to_string()))?;
    let mut left = MOST_UNPACKED;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|error| damaged(error.to_string()))?;
        let name = entry.name().map_err(|error| damaged(error.to_string()))?.into_owned();
        if entry.is_dir() || !WANTED.iter().any(|wanted| name.starts_with(wanted)) {
            continue;
        }
        let path = Path::new(&name);
        if !path.components().all(|component| matches!(component, Component::Normal(_))) {
            return Err(damaged(format!("the name `{name}` leads out of it")));
        }
        let mut content = Vec::new();
        entry.take(left).read_to_end(&mut content).map_err(|error| damaged(format!("{name}: {error}")))?;
        left = left.saturating_sub(content.len() as u64);
        if left == 0 {
            return Err(damaged("it is larger than a package is".to_owned()));
        }
        let place = into.join(path);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(place, content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u8) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(18, 0);
        bytes.extend([machine, 0]);
        bytes
    }

    #[test]
    fn a_runner_of_the_user_must_be_for_arm() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("my_runner");
        let refused = |path: &Path| Bundle::of_user(path).expect_err("refused").to_string();
        assert!(refused(&path).contains("No such file"), "{}", refused(&path));
        fs::write(&path, elf(62)).expect("write");
        assert!(refused(&path).ends_with("it is no ELF file for 64-bit Arm"));
        fs::write(&path, elf(183)).expect("write");
        let bundle = Bundle::of_user(&path).expect("accepted");
        assert_eq!(bundle.command("/d"), ["/d/my_runner"]);
        assert_eq!(bundle.files.len(), 1);
        assert!(refused(folder.path()).ends_with("there is no file `runner` in it"));
        fs::write(folder.path().join("runner"), elf(183)).expect("write");
        let both = Bundle::of_user(folder.path()).expect("accepted");
        assert_eq!(both.files.len(), 2);
        assert_ne!(both.hash, bundle.hash);
        fs::write(folder.path().join("a b"), "x").expect("write");
        assert!(refused(folder.path()).contains("`a b`"));
    }

    #[test]
    fn a_bundle_with_a_changed_file_does_not_count() {
        let folder = tempfile::tempdir().expect("folder");
        for name in ["runner", LOADER] {
            fs::write(folder.path().join(name), name).expect("write");
        }
        write_list(folder.path(), "1.5.1").expect("list");
        let bundle = read(folder.path()).expect("whole");
        assert_eq!(bundle.executorch.as_deref(), Some("1.5.1"));
        assert_eq!(bundle.command("/b").last().map(String::as_str), Some("/b/runner"));
        fs::write(folder.path().join("runner"), "other").expect("write");
        assert_eq!(read(folder.path()), None);
        fs::write(folder.path().join(LIST), "{").expect("write");
        assert_eq!(read(folder.path()), None);
    }

    #[test]
    fn a_package_that_is_none_or_leads_out_is_refused() {
        use std::io::Write as _;

        let folder = tempfile::tempdir().expect("folder");
        let wheel = folder.path().join("x.whl");
        fs::write(&wheel, "no archive").expect("write");
        assert!(matches!(unpack(&wheel, &folder.path().join("out")), Err(Error::Damaged { .. })));
        let mut writer = zip::ZipWriter::new(std::fs::File::create(&wheel).expect("create"));
        writer.start_file("executorch/lib/../../../evil", zip::write::SimpleFileOptions::default()).expect("start");
        writer.write_all(b"x").expect("write");
        writer.finish().expect("finish");
        let error = unpack(&wheel, &folder.path().join("out")).expect_err("refused");
        assert!(error.to_string().contains("leads out"), "{error}");
        assert!(!folder.path().join("evil").exists());
    }
}
