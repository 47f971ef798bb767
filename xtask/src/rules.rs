//! From rule crates to components: what `registry/` holds, and the rules that only tests use.
//!
//! In: the crates under `rules/` and `tests/rules/`. Out: components with the same bytes wherever the
//! repository lies and whoever builds it, as long as the compiler is [`PINNED_RUSTC`]; `registry/bundled.toml`
//! with their hashes; the Rust list that the host embeds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use delegate_doctor::files::{sha256_hex, write_atomic};
use delegate_doctor::sandbox::component::{CONTRACT_SECTION, SDK_SECTION};
use delegate_doctor::sandbox::{Limits, inspect};
use fs_err as fs;
use serde::Deserialize;
use wit_component::ComponentEncoder;

/// The compiler whose output is committed.
pub const PINNED_RUSTC: &str = "1.95.0";
const TARGET: &str = "wasm32-unknown-unknown";
const EMBEDDED_LIST: &str = "host/src/registry/embedded.rs";

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A crate that holds a rule.
struct Package {
    name: String,
    version: String,
    id: String,
    artifact: String,
}

/// A rule as a component.
pub struct Built {
    /// rule id
    pub id: String,
    /// version of the crate and of the rule
    pub version: String,
    /// the component
    pub component: Vec<u8>,
}

impl Built {
    /// Where the registry keeps it, below `registry/`.
    fn file(&self) -> String {
        format!("rules/{}/{}.wasm", self.id, self.version)
    }
}

/// What comparing with the registry showed.
pub struct Comparison {
    /// the rebuilt components, laid out as in `registry/`
    pub rebuilt: PathBuf,
    /// false: another compiler than [`PINNED_RUSTC`] built them, so that bytes say nothing
    pub compared: bool,
}

/// The rebuilt components that tests have to use, because their bytes could not be compared.
static REBUILT: OnceLock<PathBuf> = OnceLock::new();

/// Environment for tests after [`command`]: where the rules come from when they are not the committed ones.
pub fn test_environment() -> Option<(&'static str, &'static Path)> {
    REBUILT.get().map(|folder| ("DELEGATE_DOCTOR_TEST_REGISTRY", folder.as_path()))
}

/// `cargo xtask rules`.
pub fn command(check: bool, test_rules: bool) -> Outcome<()> {
    if check {
        let comparison = check_registry()?;
        if !comparison.compared {
            println!(
                "The components were rebuilt with another compiler than rustc {PINNED_RUSTC}; their bytes were not \
                 compared. Run the tests on the rebuilt ones: DELEGATE_DOCTOR_TEST_REGISTRY={}",
                comparison.rebuilt.display()
            );
            let _ = REBUILT.set(comparison.rebuilt);
        }
    } else {
        write_registry()?;
    }
    if test_rules {
        let folder = build_test_rules()?;
        println!("Test rules are in {}", folder.display());
    }
    Ok(())
}

/// Builds the rules under `rules/` and writes `registry/`.
pub fn write_registry() -> Outcome<()> {
    let root = workspace_root();
    let rustc = rustc_version()?;
    if rustc != PINNED_RUSTC {
        return Err(format!("the registry is written with rustc {PINNED_RUSTC} only, and this is {rustc}").into());
    }
    let built = build(&root, "rules")?;
    lay_out(&built, &root.join("registry"))?;
    remove_others(&built, &root.join("registry"))?;
    write_atomic(&root.join(EMBEDDED_LIST), embedded_list(&built).as_bytes())?;
    for rule in &built {
        println!("registry/{}: {} bytes, sha256 {}", rule.file(), rule.component.len(), sha256_hex(&rule.component));
    }
    Ok(())
}

/// Builds the rules under `rules/` and compares them with `registry/`.
pub fn check_registry() -> Outcome<Comparison> {
    let root = workspace_root();
    let built = build(&root, "rules")?;
    let rebuilt = root.join("target/rebuilt-registry");
    if rebuilt.exists() {
        fs::remove_dir_all(&rebuilt)?;
    }
    lay_out(&built, &rebuilt)?;
    if rustc_version()? != PINNED_RUSTC {
        return Ok(Comparison { rebuilt, compared: false });
    }
    let mut files = vec!["bundled.toml".to_owned()];
    files.extend(built.iter().map(Built::file));
    let mut different: Vec<String> = files
        .iter()
        .filter(|file| fs::read(root.join("registry").join(file)).ok() != fs::read(rebuilt.join(file)).ok())
        .map(|file| format!("registry/{file}"))
        .collect();
    if fs::read_to_string(root.join(EMBEDDED_LIST)).ok().as_deref() != Some(embedded_list(&built).as_str()) {
        different.push(EMBEDDED_LIST.to_owned());
    }
    if !different.is_empty() {
        return Err(format!(
            "these files differ from what the sources build to: {}. Run `cargo xtask rules` and commit the result",
            different.join(", ")
        )
        .into());
    }
    println!("{} rules build to the same bytes as in registry/", built.len());
    Ok(Comparison { rebuilt, compared: true })
}

/// Builds the rules under `tests/rules/` into `target/test-rules/<id>.wasm`.
pub fn build_test_rules() -> Outcome<PathBuf> {
    let root = workspace_root();
    let folder = root.join("target/test-rules");
    fs::create_dir_all(&folder)?;
    for rule in build(&root, "tests/rules")? {
        write_atomic(&folder.join(format!("{}.wasm", rule.id)), &rule.component)?;
    }
    Ok(folder)
}

fn lay_out(built: &[Built], registry: &Path) -> Outcome<()> {
    fs::create_dir_all(registry)?;
    let mut index = String::from(
        "# The rules that the binary carries. Written by `cargo xtask rules`.\n\
         version = 1\n",
    );
    for rule in built {
        let file = registry.join(rule.file());
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        write_atomic(&file, &rule.component)?;
        let inspection = inspect(&rule.component, &Limits::standard()).map_err(|(_, reason)| reason)?;
        write!(
            index,
            "\n[[rule]]\nid = \"{}\"\nversion = \"{}\"\nfile = \"{}\"\nsha256 = \"{}\"\nlength = {}\ncontract = \"{}\"\n",
            rule.id,
            rule.version,
            rule.file(),
            inspection.sha256,
            inspection.bytes,
            inspection.contract
        )?;
    }
    write_atomic(&registry.join("bundled.toml"), index.as_bytes())?;
    Ok(())
}

/// Removes components that no rule builds to any more.
fn remove_others(built: &[Built], registry: &Path) -> Outcome<()> {
    let wanted: Vec<PathBuf> = built.iter().map(|rule| registry.join(rule.file())).collect();
    for rule in fs::read_dir(registry.join("rules"))? {
        let rule = rule?.path();
        for component in fs::read_dir(&rule)? {
            let component = component?.path();
            if !wanted.contains(&component) {
                fs::remove_file(component)?;
            }
        }
        if fs::read_dir(&rule)?.next().is_none() {
            fs::remove_dir(&rule)?;
        }
    }
    Ok(())
}

fn embedded_list(built: &[Built]) -> String {
    let mut list = String::from(
        "//! The components of `registry/`, embedded. Written by `cargo xtask rules`.\n\n\
         /// File below `registry/` and its bytes.\n\
         pub(super) const COMPONENTS: &[(&str, &[u8])] = &[\n",
    );
    for rule in built {
        let file = rule.file();
        let _ = writeln!(list, "    (\"{file}\", include_bytes!(\"../../../registry/{file}\")),");
    }
    list.push_str("];\n");
    list
}

/// Builds every rule crate below `folder`, ordered by id.
fn build(root: &Path, folder: &str) -> Outcome<Vec<Built>> {
    ensure_target()?;
    let (packages, sdk) = packages(root, folder)?;
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let target_folder = root.join("target/rules");
    let mut command = Command::new(cargo());
    command
        .current_dir(root)
        .args(["build", "--locked", "--quiet", "--lib", "--profile", "rule", "--target", TARGET, "--target-dir"])
        .arg(&target_folder);
    for package in &packages {
        command.args(["--package", &package.name]);
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", reproducible_flags(root)?).env_remove("RUSTFLAGS");
    for variable in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_RUSTFLAGS", "CARGO_INCREMENTAL"] {
        command.env_remove(variable);
    }
    if !command.status()?.success() {
        return Err(format!("the rules under {folder}/ do not build").into());
    }

    let mut built = Vec::new();
    for package in packages {
        let module = target_folder.join(TARGET).join("rule").join(format!("{}.wasm", package.artifact));
        let component = componentize(&fs::read(&module)?, &sdk)
            .map_err(|error| format!("`{}` does not become a component: {error}", package.name))?;
        inspect(&component, &Limits::standard())
            .map_err(|(_, reason)| format!("the host would refuse `{}`: {reason}", package.name))?;
        built.push(Built { id: package.id, version: package.version, component });
    }
    built.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(built)
}

/// Core module to component, with the sections that say what it was built with.
fn componentize(module: &[u8], sdk: &str) -> Outcome<Vec<u8>> {
    let mut component = ComponentEncoder::default().validate(true).module(module)?.encode()?;
    let contract = inspect(&component, &Limits::standard()).map_err(|(_, reason)| reason)?.contract;
    append_section(&mut component, CONTRACT_SECTION, contract.to_string().as_bytes());
    append_section(&mut component, SDK_SECTION, sdk.as_bytes());
    Ok(component)
}

/// Appends a custom section: id 0, length, name, content.
fn append_section(component: &mut Vec<u8>, name: &str, content: &[u8]) {
    fn length(mut n: usize, out: &mut Vec<u8>) {
        loop {
            let byte = (n & 0x7f) as u8;
            n >>= 7;
            out.push(if n == 0 { byte } else { byte | 0x80 });
            if n == 0 {
                return;
            }
        }
    }
    let mut body = Vec::new();
    length(name.len(), &mut body);
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(content);
    component.push(0);
    length(body.len(), component);
    component.extend_from_slice(&body);
}

/// Flags that keep the folders of this machine out of the bytes.
fn reproducible_flags(root: &Path) -> Outcome<OsString> {
    let mut folders = vec![(root.to_owned(), "/delegate-doctor")];
    folders.push((cargo_home()?, "/cargo"));
    let mut flags = OsString::new();
    for (from, to) in folders {
        if !flags.is_empty() {
            flags.push("\u{1f}");
        }
        flags.push("--remap-path-prefix=");
        flags.push(from);
        flags.push("=");
        flags.push(to);
    }
    Ok(flags)
}

fn cargo_home() -> Outcome<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = std::env::var_os("HOME").ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cargo"))
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn rustc() -> OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// The repository's root folder.
pub fn workspace_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

fn rustc_version() -> Outcome<String> {
    let output = Command::new(rustc()).arg("--version").output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().nth(1).unwrap_or_default().to_owned())
}

/// Makes sure that the compiler has the target's standard library.
fn ensure_target() -> Outcome<()> {
    let installed = || -> Outcome<bool> {
        let output = Command::new(rustc()).args(["--print", "target-libdir", "--target", TARGET]).output()?;
        let folder = String::from_utf8(output.stdout)?;
        Ok(output.status.success() && Path::new(folder.trim()).is_dir())
    };
    if installed()? {
        return Ok(());
    }
    println!("Adding the target {TARGET} to the Rust toolchain");
    let added = Command::new("rustup").args(["target", "add", TARGET]).status().is_ok_and(|status| status.success());
    if added && installed()? {
        return Ok(());
    }
    Err(format!(
        "the Rust toolchain lacks the target {TARGET} and rustup could not add it.\n\
         With a network: `rustup target add {TARGET}`.\n\
         On Debian without rustup: install rustc-web, cargo-web and rust-web-src, and build with `RUSTC_BOOTSTRAP=1`, \
         `-Z build-std=std,panic_abort` and rust-lld as linker. The components that are committed under registry/ \
         need none of this."
    )
    .into())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    version: String,
    manifest_path: PathBuf,
    targets: Vec<MetadataTarget>,
}

#[derive(Deserialize)]
struct MetadataTarget {
    name: String,
    crate_types: Vec<String>,
}

#[derive(Deserialize)]
struct RuleFile {
    id: String,
}

/// The rule crates directly below `folder`, and what the SDK calls itself.
fn packages(root: &Path, folder: &str) -> Outcome<(Vec<Package>, String)> {
    let output = Command::new(cargo())
        .current_dir(root)
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let sdk = metadata.packages.iter().find(|package| package.name == "rule-sdk").ok_or("no package `rule-sdk`")?;
    let sdk = format!("rule-sdk {}", sdk.version);
    let mut found = BTreeMap::new();
    for package in metadata.packages {
        let Some(crate_folder) = package.manifest_path.parent() else { continue };
        if crate_folder.parent() != Some(&root.join(folder)) {
            continue;
        }
        let Some(artifact) =
            package.targets.iter().find(|target| target.crate_types.iter().any(|kind| kind == "cdylib"))
        else {
            continue;
        };
        let rule: RuleFile = toml::from_str(&fs::read_to_string(crate_folder.join("rule.toml"))?)
            .map_err(|error| format!("`{}`: {error}", crate_folder.join("rule.toml").display()))?;
        let artifact = artifact.name.replace('-', "_");
        if let Some(other) = found.insert(
            rule.id.clone(),
            Package { name: package.name.clone(), version: package.version, id: rule.id, artifact },
        ) {
            return Err(format!("`{}` and `{}` have the same rule id", other.name, package.name).into());
        }
    }
    Ok((found.into_values().collect(), sdk))
}
