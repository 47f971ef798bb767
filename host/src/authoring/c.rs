//! Rules in C: clang compiles for WebAssembly without a system, wasm-ld links, the contract's types are put
//! in here. The same sources and tools give the same bytes wherever the folder lies.

use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use super::component::{Tools, componentize, with_types};
use super::project::Project;
use super::{Error, toolchain};
use crate::target::child;

/// Files of a new rule. What is below `sdk/bindings` is written by `cargo xtask c-bindings`.
pub(super) const TEMPLATE: &[(&str, &str)] = &[
    ("rule.c", include_str!("../../templates/rule/c/rule.c")),
    ("sdk/VERSION", include_str!("../../templates/rule/c/sdk/VERSION")),
    ("sdk/rule_sdk.h", include_str!("../../templates/rule/c/sdk/rule_sdk.h")),
    ("sdk/rule_sdk.c", include_str!("../../templates/rule/c/sdk/rule_sdk.c")),
    ("sdk/views.c", include_str!("../../templates/rule/c/sdk/views.c")),
    ("sdk/patch.c", include_str!("../../templates/rule/c/sdk/patch.c")),
    ("sdk/format.c", include_str!("../../templates/rule/c/sdk/format.c")),
    ("sdk/answers.h", include_str!("../../templates/rule/c/sdk/answers.h")),
    ("sdk/libc.c", include_str!("../../templates/rule/c/sdk/libc.c")),
    ("sdk/include/math.h", include_str!("../../templates/rule/c/sdk/include/math.h")),
    ("sdk/include/stdlib.h", include_str!("../../templates/rule/c/sdk/include/stdlib.h")),
    ("sdk/include/string.h", include_str!("../../templates/rule/c/sdk/include/string.h")),
    ("sdk/bindings/repair_rule.h", include_str!("../../templates/rule/c/sdk/bindings/repair_rule.h")),
    ("sdk/bindings/repair_rule.c", include_str!("../../templates/rule/c/sdk/bindings/repair_rule.c")),
];

/// Versions of LLVM whose programs distributions install under names of their own, newest first.
const VERSIONS: std::ops::RangeInclusive<u32> = 14..=24;
const INSTALL: &str = "On Debian and Ubuntu: `apt-get install clang lld`. On macOS: `brew install llvm lld`. Programs of \
    another name or place: set `CLANG` and `WASM_LD`";
/// Small code, no system, no folders of this machine in the bytes.
const COMPILE: &[&str] = &[
    "--target=wasm32-unknown-unknown",
    "-std=c17",
    "-Os",
    "-ffreestanding",
    "-fno-builtin",
    "-nostdlibinc",
    "-isystem",
    "sdk/include",
    "-Wall",
    "-Wextra",
    "-Werror=implicit-function-declaration",
    "-fdiagnostics-color=never",
    "-c",
];
/// The names of functions stay, for messages about crashes.
const LINK: &[&str] = &["--no-entry", "--gc-sections", "--strip-debug", "--stack-first", "-z", "stack-size=131072"];

/// Builds the component of a project, without its sections.
pub(super) fn build(project: &Project) -> Result<(Vec<u8>, Tools), Error> {
    let (clang, wasm_ld) = programs()?;
    let failed = |error| match error {
        Error::Tool { why, .. } if why.contains("No available targets") => missing("clang for wasm32"),
        Error::Tool { why, .. } => Error::Build { folder: project.folder.clone(), output: why },
        error => error,
    };
    let scratch = tempfile::tempdir()?;
    let mut objects = Vec::new();
    for (index, source) in sources(&project.folder)?.iter().enumerate() {
        let object = scratch.path().join(format!("{index}.o"));
        let mut command = tool(&clang, &project.folder);
        command.args(COMPILE).arg("-o").arg(&object).arg(source);
        toolchain::output(&mut command, || missing("clang")).map_err(failed)?;
        objects.push(object);
    }
    let linked = scratch.path().join("rule.wasm");
    let mut command = tool(&wasm_ld, &project.folder);
    command.args(LINK).arg("-o").arg(&linked).args(&objects);
    toolchain::output(&mut command, || missing("wasm-ld"))
        .map_err(|error| without_scratch(failed(error), scratch.path()))?;
    let module = fs::read(&linked)?;
    let component = with_types(module, &project.folder.join("sdk/wit"))
        .and_then(|module| componentize(&module))
        .map_err(|why| Error::Componentize { folder: project.folder.clone(), why })?;
    Ok((component, Tools { sdk: project.sdk("rule-sdk-c") }))
}

/// A program in the project's folder, in an environment that does not change what it writes.
fn tool(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("LC_ALL", "C").env("SOURCE_DATE_EPOCH", "0");
    for variable in ["CPATH", "C_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "CLANG_CONFIG_FILE_USER_DIR"] {
        command.env_remove(variable);
    }
    command
}

/// Object files are named after numbers; their folder tells a reader nothing.
fn without_scratch(error: Error, scratch: &Path) -> Error {
    match error {
        Error::Build { folder, output } => {
            Error::Build { folder, output: output.replace(&format!("{}/", scratch.display()), "") }
        }
        error => error,
    }
}

fn missing(program: &str) -> Error {
    Error::NoTool { program: program.to_owned(), language: "C", install: INSTALL.to_owned() }
}

/// clang and wasm-ld: the ones that the user names, else those without a version in their names, else the
/// newest.
fn programs() -> Result<(PathBuf, PathBuf), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |variable: &str, name: &str| {
        if let Some(named) = std::env::var_os(variable).filter(|named| !named.is_empty()) {
            return Ok(PathBuf::from(named));
        }
        on_path(&path, name).ok_or_else(|| missing(name))
    };
    Ok((find("CLANG", "clang")?, find("WASM_LD", "wasm-ld")?))
}

fn on_path(path: &std::ffi::OsStr, name: &str) -> Option<PathBuf> {
    let names = std::iter::once(name.to_owned()).chain(VERSIONS.rev().map(|version| format!("{name}-{version}")));
    names.into_iter().find_map(|name| child::on_path(path, &name))
}

/// Every `*.c` below the folder, relative and in one order; not what was built, and nothing hidden.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inside))? {
            let entry = entry?;
            let path = inside.join(entry.file_name());
            if entry.file_name().as_encoded_bytes().starts_with(b".") || path == Path::new("build") {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "c") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::Hint as _;

    #[test]
    fn programs_with_and_without_a_version_are_found_and_missing_ones_explained() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().as_os_str();
        assert_eq!(on_path(path, "clang"), None);
        let make = |name: &str| {
            let file = folder.path().join(name);
            fs::write(&file, "").expect("write");
            fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("mode");
            file
        };
        let (old, new) = (make("clang-14"), make("clang-16"));
        assert_eq!(on_path(path, "clang").as_ref(), Some(&new));
        assert!(old.exists());
        let plain = make("clang");
        assert_eq!(on_path(path, "clang"), Some(plain));
        assert!(missing("clang").hint().is_some_and(|hint| hint.contains("apt-get install clang lld")));
    }

    #[test]
    fn sources_come_in_one_order_and_without_what_was_built() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for name in ["rule.c", "sdk/b.c", "sdk/a.c", "build/x.c", ".git/y.c", "sdk/a.h"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            fs::write(path, "").expect("write");
        }
        let found = sources(folder.path()).expect("sources");
        assert_eq!(found, ["rule.c", "sdk/a.c", "sdk/b.c"].map(PathBuf::from));
    }
}
