//! From rule crates to components: what `registry/` holds, and the rules that only tests use.
//!
//! In: the crates under `rules/` and `tests/rules/`. Out: components with the same bytes wherever the
//! repository lies and whoever builds it, as long as the compiler is [`PINNED_RUSTC`]; `registry/`, signed, with
//! `bundled.toml` as the index of what the binary carries; the Rust list that the host embeds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use delegate_doctor::authoring::{
    Package, Project, RustBuild, Tools, compiler_version, componentize, described, ensure_target,
};
use delegate_doctor::files::{sha256_hex, write_atomic};
use delegate_doctor::registry::layout;
use delegate_doctor::registry::name::{self, RuleName, TargetKind};
use delegate_doctor::registry::pack::Words;
use delegate_doctor::sandbox::{Helper, Limits, Options, Sandbox, inspect};
use fs_err as fs;

use crate::registry::{self, PUBLISHER};

/// The compiler whose output is committed.
pub const PINNED_RUSTC: &str = "1.95.0";
const EMBEDDED_LIST: &str = "host/src/registry/embedded.rs";

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A rule as a component.
pub struct Built {
    /// rule id
    pub id: String,
    /// version of the crate and of the rule
    pub version: String,
    /// the component
    pub component: Vec<u8>,
    /// what packaging adds
    pub words: Words,
    /// where its evidence is
    pub evidence: PathBuf,
}

impl Built {
    /// Where the registry keeps it, below `registry/`.
    fn file(&self) -> Outcome<String> {
        let rule = RuleName::new(PUBLISHER, &self.words.name)?;
        let target = rule.target(&name::version(&self.version)?, TargetKind::Component);
        Ok(layout::target_path(&target, &sha256_hex(&self.component)))
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
    let rustc = compiler_version()?;
    if rustc != PINNED_RUSTC {
        return Err(format!("the registry is written with rustc {PINNED_RUSTC} only, and this is {rustc}").into());
    }
    let built = build(&root, "rules")?;
    registry::write(&root, &built)?;
    lay_out(&built, &root.join("registry"))?;
    write_atomic(&root.join(EMBEDDED_LIST), embedded_list(&root)?.as_bytes())?;
    for rule in &built {
        println!("{}: {} bytes, sha256 {}", rule.words.name, rule.component.len(), sha256_hex(&rule.component));
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
    if compiler_version()? != PINNED_RUSTC {
        return Ok(Comparison { rebuilt, compared: false });
    }
    let mut files = vec!["bundled.toml".to_owned()];
    for rule in &built {
        files.push(rule.file()?);
    }
    let mut different: Vec<String> = files
        .iter()
        .filter(|file| fs::read(root.join("registry").join(file)).ok() != fs::read(rebuilt.join(file)).ok())
        .map(|file| format!("registry/{file}"))
        .collect();
    if fs::read_to_string(root.join(EMBEDDED_LIST)).ok().as_deref() != Some(embedded_list(&root)?.as_str()) {
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
    registry::check(&root)?;
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
        let file = registry.join(rule.file()?);
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
            rule.file()?,
            inspection.sha256,
            inspection.bytes,
            inspection.contract
        )?;
    }
    write_atomic(&registry.join("bundled.toml"), index.as_bytes())?;
    Ok(())
}

fn embedded_list(root: &Path) -> Outcome<String> {
    let mut list = String::from(
        "//! The files of `registry/`, embedded. Written by `cargo xtask rules`.\n\n\
         /// File below `registry/` and its bytes.\n\
         #[rustfmt::skip]\n\
         pub(super) const FILES: &[(&str, &[u8])] = &[\n",
    );
    for file in registry::published_files(root)? {
        let _ = writeln!(list, "    (\"{file}\", include_bytes!(\"../../../registry/{file}\")),");
    }
    list.push_str("];\n");
    Ok(list)
}

/// Builds every rule crate below `folder`, ordered by id.
fn build(root: &Path, folder: &str) -> Outcome<Vec<Built>> {
    ensure_target(&|text| println!("{text}"))?;
    let cargo = RustBuild::of(root)?;
    let packages: Vec<&Package> =
        cargo.packages.iter().filter(|package| package.folder.parent() == Some(&root.join(folder))).collect();
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let helper = Helper::current()?;
    let sandbox = Sandbox::new(Options { limits: Limits::standard(), cache: None, helper })?;
    let tools = Tools { sdk: cargo.sdk.clone() };
    let mut built = BTreeMap::new();
    for (package, module) in packages.iter().zip(cargo.modules(&packages)?) {
        let project = Project::read(&package.folder, &crate::workspace::home().join("data"))?;
        let id = project.file.id.clone();
        let component = componentize(&module)
            .map_err(|error| format!("`{}` does not become a component: {error}", package.name))?;
        let component = match described(&sandbox, &package.name, component.clone(), &tools) {
            Ok((component, manifest)) if manifest.id == id => component,
            Ok((_, manifest)) => {
                return Err(format!("`{}` says it is `{}`, its project file `{id}`", package.name, manifest.id).into());
            }
            // Rules of the tests may fail where they describe themselves; that is what they are for.
            Err(_) if folder.starts_with("tests") => component,
            Err(error) => return Err(error.into()),
        };
        let rule = Built {
            id: id.clone(),
            version: package.version.clone(),
            component,
            words: project.words(),
            evidence: package.folder.join("evidence.json"),
        };
        if built.insert(id.clone(), rule).is_some() {
            return Err(format!("two crates under {folder}/ have the rule id `{id}`").into());
        }
    }
    Ok(built.into_values().collect())
}

/// The repository's root folder.
pub fn workspace_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
