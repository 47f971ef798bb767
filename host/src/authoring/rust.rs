//! Rules in Rust: cargo builds a core module, with the same bytes wherever the sources lie.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;
use serde::Deserialize;

use super::component::{Tools, componentize};
use super::project::Project;
use super::toolchain::{self, TARGET, cargo, cargo_home};
use super::{Error, ensure_target};
use crate::files;
use crate::progress::Progress;

pub use super::toolchain::compiler_version;

/// The profile that rules are built with; every rule's workspace defines it.
const PROFILE: &str = "rule";

/// A crate that holds a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// of the crate
    pub name: String,
    /// of the crate and of the rule
    pub version: String,
    /// file stem of what the compiler writes
    pub artifact: String,
    /// folder of its `Cargo.toml`
    pub folder: PathBuf,
}

/// What cargo says about a workspace.
#[derive(Clone, Debug)]
pub struct RustBuild {
    /// root folder of the workspace
    pub root: PathBuf,
    /// where cargo builds
    pub target_folder: PathBuf,
    /// crates with a `cdylib`, which rules are
    pub packages: Vec<Package>,
    /// `rule-sdk 0.1.0`
    pub sdk: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    version: String,
    manifest_path: PathBuf,
    targets: Vec<MetadataTarget>,
    dependencies: Vec<MetadataDependency>,
}

#[derive(Deserialize)]
struct MetadataDependency {
    name: String,
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct MetadataTarget {
    name: String,
    crate_types: Vec<String>,
}

impl RustBuild {
    /// Asks cargo about the workspace that a folder belongs to.
    ///
    /// # Errors
    /// When there is no cargo, or it cannot make sense of the folder.
    pub fn of(folder: &Path) -> Result<Self, Error> {
        let text = toolchain::output(
            Command::new(cargo())
                .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
                .arg(folder.join("Cargo.toml")),
            || Error::NoTool {
                program: "cargo".to_owned(),
                language: "Rust",
                install: "Install Rust 1.95 or later from https://rustup.rs".to_owned(),
            },
        )?;
        let metadata: Metadata = serde_json::from_str(&text)?;
        let sdk_folder = metadata
            .packages
            .iter()
            .flat_map(|package| &package.dependencies)
            .find_map(|dependency| dependency.path.as_ref().filter(|_| dependency.name == "rule-sdk"));
        let sdk_version = metadata
            .packages
            .iter()
            .find(|package| package.name == "rule-sdk")
            .map(|package| package.version.clone())
            .or_else(|| version_in(sdk_folder?))
            .unwrap_or_else(|| "of unknown version".to_owned());
        let packages = metadata
            .packages
            .into_iter()
            .filter_map(|package| {
                let artifact =
                    package.targets.iter().find(|target| target.crate_types.iter().any(|kind| kind == "cdylib"))?;
                Some(Package {
                    artifact: artifact.name.replace('-', "_"),
                    name: package.name,
                    version: package.version,
                    folder: package.manifest_path.parent()?.to_path_buf(),
                })
            })
            .collect();
        Ok(Self {
            root: metadata.workspace_root,
            target_folder: metadata.target_directory.join("rules"),
            packages,
            sdk: format!("rule-sdk {sdk_version}"),
        })
    }

    /// Builds packages of the workspace and gives their core modules in the order of `packages`.
    ///
    /// # Errors
    /// With what the compiler said.
    pub fn modules(&self, packages: &[&Package]) -> Result<Vec<Vec<u8>>, Error> {
        let mut command = Command::new(cargo());
        command
            .current_dir(&self.root)
            .args(["build", "--quiet", "--lib", "--profile", PROFILE, "--target", TARGET, "--target-dir"])
            .arg(&self.target_folder);
        if self.root.join("Cargo.lock").exists() {
            command.arg("--locked");
        }
        for package in packages {
            command.args(["--package", &package.name]);
        }
        command.env("CARGO_ENCODED_RUSTFLAGS", self.reproducible_flags()).env_remove("RUSTFLAGS");
        for variable in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_RUSTFLAGS", "CARGO_INCREMENTAL"] {
            command.env_remove(variable);
        }
        let folder = packages.first().map_or(&self.root, |package| &package.folder);
        toolchain::output(&mut command, || Error::NoTool {
            program: "cargo".to_owned(),
            language: "Rust",
            install: "Install Rust 1.95 or later from https://rustup.rs".to_owned(),
        })
        .map_err(|error| match error {
            Error::Tool { why, .. } => Error::Build { folder: folder.clone(), output: why },
            error => error,
        })?;
        let modules = self.target_folder.join(TARGET).join(PROFILE);
        packages.iter().map(|package| Ok(fs::read(modules.join(format!("{}.wasm", package.artifact)))?)).collect()
    }

    /// Flags that keep the folders of this machine out of the bytes.
    fn reproducible_flags(&self) -> OsString {
        let mut flags = OsString::from("--remap-path-prefix=");
        flags.push(&self.root);
        flags.push("=/delegate-doctor");
        if let Some(home) = cargo_home() {
            flags.push("\u{1f}--remap-path-prefix=");
            flags.push(home);
            flags.push("=/cargo");
        }
        flags
    }
}

fn version_in(folder: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct File {
        package: Section,
    }
    #[derive(Deserialize)]
    struct Section {
        version: String,
    }
    let text = files::read_text(&folder.join("Cargo.toml")).ok()?;
    toml::from_str::<File>(&text).ok().map(|file| file.package.version)
}

/// Builds the component of a project, without its sections.
pub(super) fn build(project: &Project, progress: &dyn Progress) -> Result<(Vec<u8>, Tools), Error> {
    ensure_target(&|text| progress.note(text))?;
    let build = RustBuild::of(&project.folder)?;
    let package =
        build.packages.iter().find(|package| package.folder == project.folder).ok_or_else(|| Error::Project {
            path: project.folder.join("Cargo.toml"),
            why: "the crate has no `crate-type = [\"cdylib\", \"rlib\"]`, so it builds to no module".to_owned(),
        })?;
    let module = build.modules(&[package])?.pop().unwrap_or_default();
    let component = componentize(&module).map_err(|why| Error::Componentize { folder: project.folder.clone(), why })?;
    Ok((component, Tools { sdk: build.sdk }))
}
