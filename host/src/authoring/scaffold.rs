//! `rules new`: a folder that builds and passes its tests at once.
//!
//! A rule brings the SDK that this tool was built with along, below `sdk/`, so that anybody can build it from
//! the folder alone. Inside of a workspace that has the Rust SDK, its own is used.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::project::{Language, PROJECT_FILE};
use super::{Error, c, javascript, python};
use crate::files::{self, write_atomic};
use crate::registry;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct New {
    /// id of the rule and name of the crate
    pub name: String,
    /// the folder to make
    pub folder: PathBuf,
    /// language of the rule
    pub language: Language,
}

/// Sources of the SDK, below `rule-sdk/`.
const SDK: &[(&str, &str)] = &[
    ("src/lib.rs", include_str!("../../../rule-sdk/src/lib.rs")),
    ("src/bindings.rs", include_str!("../../../rule-sdk/src/bindings.rs")),
    ("src/manifest.rs", include_str!("../../../rule-sdk/src/manifest.rs")),
    ("src/patch.rs", include_str!("../../../rule-sdk/src/patch.rs")),
    ("src/site.rs", include_str!("../../../rule-sdk/src/site.rs")),
    ("src/testing/mod.rs", include_str!("../../../rule-sdk/src/testing/mod.rs")),
    ("src/testing/cases.rs", include_str!("../../../rule-sdk/src/testing/cases.rs")),
    ("src/testing/text.rs", include_str!("../../../rule-sdk/src/testing/text.rs")),
];
const WIT: &str = include_str!("../../../wit/rules.wit");

const RUST_LIB: &str = include_str!("../../templates/rule/rust/lib.rs");
const CASES: &str = include_str!("../../templates/rule/cases.txt");
const README: &str = include_str!("../../templates/rule/README.md");

/// The SDK's `Cargo.toml` where it stands alone.
const SDK_CARGO: &str = concat!(
    "# The rule SDK, as the tool that made this folder has it.\n",
    "[package]\n",
    "name = \"rule-sdk\"\n",
    "version = \"",
    env!("CARGO_PKG_VERSION"),
    "\"\n",
    "edition = \"2024\"\n",
    "rust-version = \"1.95\"\n",
    "license = \"MIT OR Apache-2.0\"\n",
    "publish = false\n\n",
    "[features]\n",
    "serde = [\"dep:serde\"]\n\n",
    "[dependencies]\n",
    "serde = { version = \"1\", features = [\"derive\"], optional = true }\n",
    "wit-bindgen = { version = \"=0.63.0\", default-features = false, features = [\"macros\", \"realloc\"] }\n",
);

/// Makes the folder and gives the files in it, relative, in the order they should be read.
///
/// # Errors
/// When the name cannot be a rule's, there is something in the folder already, or it cannot be written;
/// then nothing of it is left.
pub fn create(new: &New) -> Result<Vec<PathBuf>, Error> {
    check_name(&new.name)?;
    let parent = match new.folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // A link is something already: a folder cannot be put in its place.
    if new.folder.is_symlink()
        || new.folder.exists() && !(new.folder.is_dir() && fs::read_dir(&new.folder)?.next().is_none())
    {
        return Err(Error::Exists(new.folder.clone()));
    }
    fs::create_dir_all(parent)?;
    let files = match new.language {
        Language::Rust => rust(&new.name, workspace_with_sdk(parent).as_deref()),
        Language::C => other(&new.name, new.language, c::TEMPLATE),
        Language::Python => other(&new.name, new.language, python::TEMPLATE),
        Language::Js => other(&new.name, new.language, javascript::TEMPLATE),
    };
    // The folder appears whole or not at all.
    let making = tempfile::Builder::new().prefix(".making-").tempdir_in(parent)?;
    for (path, content) in &files {
        let path = making.path().join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        write_atomic(&path, content.as_bytes())?;
    }
    let made = making.keep();
    // Temporary folders are private; this one is to be shared.
    fs::set_permissions(&made, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    if let Err(error) = fs::rename(&made, &new.folder) {
        let _ = fs::remove_dir_all(&made);
        return Err(error.into());
    }
    Ok(files.into_iter().map(|(path, _)| path).filter(|path| !path.starts_with("sdk")).collect())
}

/// Keywords, and crates that are always there or that a rule is built with.
const NOT_CRATES: [&str; 46] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "try",
    "rule-sdk",
    "wit-bindgen",
    "serde",
    "bitflags",
];

/// Letters, digits and dashes: fit for an id, a crate and a file.
fn check_name(name: &str) -> Result<(), Error> {
    let wrong = |why| Err(Error::Name { name: name.to_owned(), why });
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return wrong("it does not begin with a lower-case letter");
    }
    if !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return wrong("it holds something else than lower-case letters, digits and dashes");
    }
    if name.ends_with('-') || name.contains("--") {
        return wrong("a dash stands at its end or beside another one");
    }
    if name.len() > 48 {
        return wrong("it is longer than 48 letters");
    }
    if NOT_CRATES.contains(&name) {
        return wrong("it means something else to Rust");
    }
    if registry::bundled().is_ok_and(|rules| rules.iter().any(|rule| rule.id == name)) {
        return wrong("it is the id of a rule that comes with the tool");
    }
    Ok(())
}

/// The nearest workspace above that has the SDK as a member.
fn workspace_with_sdk(parent: &Path) -> Option<PathBuf> {
    let parent = fs::canonicalize(parent).ok()?;
    let root = parent.ancestors().find(|folder| folder.join("rule-sdk/Cargo.toml").is_file())?;
    let text = files::read_text(&root.join("Cargo.toml")).ok()?;
    let file: toml::Table = toml::from_str(&text).ok()?;
    let members = file.get("workspace")?.get("members")?.as_array()?;
    let has = |wanted: &str| members.iter().any(|member| member.as_str() == Some(wanted));
    let place = parent.strip_prefix(root).ok()?.to_str()?;
    (has("rule-sdk") && has(&format!("{place}/*"))).then(|| root.to_path_buf())
}

fn rust(name: &str, workspace: Option<&Path>) -> Vec<(PathBuf, String)> {
    let title = title(name);
    let fill = |template: &str| {
        template.replace("__ID__", name).replace("__TITLE__", &title).replace("__TYPE__", &type_name(name))
    };
    let cargo = if workspace.is_some() {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition.workspace = true\nrust-version.workspace = true\n\
             license.workspace = true\npublish.workspace = true\n\n\
             [lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n\n[dependencies]\nrule-sdk.workspace = true\n\n\
             [lints]\nworkspace = true\n"
        )
    } else {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nrust-version = \"1.95\"\n\
             license = \"MIT OR Apache-2.0\"\npublish = false\n\n\
             [lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n\n\
             [dependencies]\nrule-sdk = {{ path = \"sdk/rule-sdk\" }}\n\n\
             # Small, and the same bytes from the same toolchain.\n\
             [profile.rule]\ninherits = \"release\"\nopt-level = \"s\"\nlto = true\ncodegen-units = 1\npanic = \"abort\"\n\
             strip = \"symbols\"\n\n[workspace]\n"
        )
    };
    let mut files = vec![
        (PathBuf::from("src/lib.rs"), fill(RUST_LIB)),
        (PathBuf::from("cases.txt"), CASES.to_owned()),
        (PathBuf::from(PROJECT_FILE), project_file(name, Language::Rust)),
        (PathBuf::from("README.md"), fill(README)),
        (PathBuf::from("Cargo.toml"), cargo),
        (PathBuf::from(".gitignore"), "/target\n/build\n".to_owned()),
    ];
    if workspace.is_none() {
        files.extend(SDK.iter().map(|(path, text)| (Path::new("sdk/rule-sdk").join(path), (*text).to_owned())));
        files.push((PathBuf::from("sdk/rule-sdk/Cargo.toml"), SDK_CARGO.to_owned()));
        files.push((PathBuf::from("sdk/wit/rules.wit"), WIT.to_owned()));
    }
    files
}

/// A rule in another language: the files of its template, of which the first is the rule itself.
fn other(name: &str, language: Language, template: &[(&str, &str)]) -> Vec<(PathBuf, String)> {
    let title = title(name);
    let fill = |text: &str| {
        text.replace("__ID__", name)
            .replace("__TITLE__", &title)
            .replace("__TYPE__", &type_name(name))
            .replace("__SDK_VERSION__", env!("CARGO_PKG_VERSION"))
    };
    let mut files: Vec<(PathBuf, String)> =
        template.iter().map(|(path, text)| (PathBuf::from(path), fill(text))).collect();
    let about = [
        ("cases.txt", CASES.to_owned()),
        (PROJECT_FILE, project_file(name, language)),
        ("README.md", fill(README)),
        (".gitignore", "/build\n".to_owned()),
    ];
    let after_the_rule = files.len().min(1);
    files.splice(after_the_rule..after_the_rule, about.map(|(path, text)| (PathBuf::from(path), text)));
    files.push((PathBuf::from("sdk/wit/rules.wit"), WIT.to_owned()));
    files
}

fn project_file(name: &str, language: Language) -> String {
    let version = if language == Language::Rust { "" } else { "version = \"0.1.0\"\n" };
    format!(
        "# What packaging needs to know; the rest the rule says about itself.\nid = \"{name}\"\n{version}\
         language = \"{}\"\nlicense = \"MIT OR Apache-2.0\"\nkeywords = []\n",
        language.name()
    )
}

/// `times-one` gives `Times one`.
fn title(name: &str) -> String {
    let words = name.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `times-one` gives `TimesOne`.
fn type_name(name: &str) -> String {
    name.split('-')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(folder: &Path, name: &str) -> New {
        New { name: name.to_owned(), folder: folder.join(name), language: Language::Rust }
    }

    #[test]
    fn the_folder_appears_whole_and_only_once() {
        let top = tempfile::tempdir().expect("temporary folder");
        let asked = new(top.path(), "times-one");
        let files = create(&asked).expect("made");
        assert_eq!(files.first().map(PathBuf::as_path), Some(Path::new("src/lib.rs")));
        let lib = fs::read_to_string(asked.folder.join("src/lib.rs")).expect("lib");
        assert!(lib.contains("pub struct TimesOne;") && lib.contains("\"times-one\"") && !lib.contains("__"));
        assert!(asked.folder.join("sdk/rule-sdk/src/testing/cases.rs").is_file());
        assert!(matches!(create(&asked), Err(Error::Exists(_))));
        let left: Vec<_> = fs::read_dir(top.path()).expect("list").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    /// `rules/examples/` shows what is made here, with a README of its own.
    #[test]
    fn the_examples_are_what_is_made() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("root").join("rules/examples");
        let top = tempfile::tempdir().expect("temporary folder");
        for language in [Language::C, Language::Python, Language::Js] {
            let name = format!("times-one-{}", language.name());
            create(&New { language, ..new(top.path(), &name) }).expect("made");
            let mut folders = vec![PathBuf::from(&name)];
            let mut files = 0;
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(top.path().join(&folder)).expect("list") {
                    let entry = entry.expect("entry");
                    let path = folder.join(entry.file_name());
                    if entry.path().is_dir() {
                        folders.push(path);
                    } else if !path.ends_with("README.md") {
                        let made = fs::read_to_string(entry.path()).expect("text");
                        assert!(!made.contains("__ID__") && !made.contains("__SDK"), "{}", path.display());
                        let shown = fs::read_to_string(examples.join(&path)).unwrap_or_else(|error| panic!("{error}"));
                        assert_eq!(made, shown, "{}", path.display());
                        files += 1;
                    }
                }
            }
            assert!(files > 8, "{name} has {files} files");
        }
    }

    #[test]
    fn names_that_cannot_be_ids_are_told() {
        let top = tempfile::tempdir().expect("temporary folder");
        for name in ["", "Times", "1st", "a_b", "a b", "../x", "a-", "a--b", "é", &"a".repeat(49)] {
            assert!(matches!(create(&new(top.path(), name)), Err(Error::Name { .. })), "{name}");
        }
        assert_eq!(fs::read_dir(top.path()).expect("list").count(), 0);
    }

    #[test]
    fn the_sdk_that_travels_is_whole() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("root");
        let mut found = Vec::new();
        let mut folders = vec![here.join("rule-sdk/src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("list") {
                let path = entry.expect("entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.strip_prefix(here.join("rule-sdk")).expect("inside").display().to_string());
                }
            }
        }
        found.sort();
        let mut embedded: Vec<String> = SDK.iter().map(|(path, _)| (*path).to_owned()).collect();
        embedded.sort();
        assert_eq!(found, embedded);
        let workspace = fs::read_to_string(here.join("Cargo.toml")).expect("workspace");
        let line = SDK_CARGO.lines().find(|line| line.starts_with("wit-bindgen")).expect("dependency");
        assert!(workspace.contains(line), "the travelling SDK depends on another wit-bindgen");
    }
}
