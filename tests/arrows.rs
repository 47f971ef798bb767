//! Which module may use which: the `use crate::` lines of the host against the order of the stages.
//!
//! A stage uses the ground, the edges and earlier stages; never a later one, never the front. The rest is
//! the spine, which ties stages together and may use everything but the front.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dd_tests::workspace;

/// What everything may use: plain types and files.
const GROUND: &[&str] =
    &["cache", "evidence", "file_lock", "files", "hint", "interrupt", "progress", "shell", "tensor"];
/// The only modules that talk to the world outside of files.
const EDGES: &[&str] = &["torch", "target", "sandbox", "registry"];
/// In order.
const STAGES: &[&str] = &[
    "model",
    "export",
    "graph",
    "lower",
    "profile",
    "rank",
    "matching",
    "interpreter",
    "rewrite",
    "gates",
    "decision",
    "insight",
    "report",
];
/// Ties stages together.
const SPINE: &[&str] = &[
    "account",
    "clock",
    "dashboard",
    "equivalence",
    "pipeline",
    "profiling",
    "proposal",
    "recorded",
    "reference",
    "run_folder",
    "torch_operators",
    "trial",
    "why_not",
    "workbench",
];
/// What a user touches.
const FRONT: &[&str] = &["authoring", "cli", "output", "settings", "surroundings"];

/// Exceptions, each with its reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("tensor", "graph", "a tensor names its element type as the graph does"),
    ("tensor", "torch", "tensors travel as the worker's protocol describes them"),
    (
        "target",
        "torch",
        "inputs and outputs are the protocol's tensor files; the runner is built against the environment",
    ),
    ("registry", "sandbox", "what a registry lists is looked at as the sandbox looks at it"),
    ("sandbox", "graph", "the contract's types convert from the graph's"),
    ("run_folder", "settings", "a run folder is opened where the settings say"),
    ("pipeline", "settings", "the settings are the pipeline's input, plain values"),
    ("profiling", "settings", "the settings are its input, plain values"),
    ("proposal", "settings", "the settings are the pipeline's input, plain values"),
    ("why_not", "settings", "the settings are the pipeline's input, plain values"),
    ("workbench", "settings", "the settings are the pipeline's input, plain values"),
];

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs_err::read_dir(folder).expect("source folder") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

/// `a` of `crate::a::…`, for every mention outside of comments and tests.
fn mentions(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    for line in code.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        let mut rest = line;
        while let Some(at) = rest.find("crate::") {
            rest = &rest[at + "crate::".len()..];
            if let Some(list) = rest.strip_prefix('{') {
                let inside = list.split('}').next().unwrap_or_default();
                found.extend(inside.split(',').map(|name| first_name(name.trim())));
            } else {
                found.insert(first_name(rest));
            }
        }
    }
    found.remove("");
    found
}

fn first_name(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn may(from: &str, to: &str) -> bool {
    let stage = |name: &str| STAGES.iter().position(|stage| *stage == name);
    let one_of = |list: &[&str], name: &str| list.contains(&name);
    if from == to || one_of(GROUND, to) || ALLOWED.iter().any(|(a, b, _)| *a == from && *b == to) {
        return true;
    }
    if one_of(FRONT, from) {
        return true;
    }
    if one_of(SPINE, from) {
        return !one_of(FRONT, to);
    }
    match (stage(from), stage(to)) {
        (Some(from), Some(to)) => to < from,
        (Some(_), None) => one_of(EDGES, to),
        _ => false,
    }
}

#[test]
fn every_arrow_points_back() {
    let top = workspace().join("host").join("src");
    let mut files = Vec::new();
    rust_files(&top, &mut files);
    assert!(files.len() > 50, "the source folder was found");
    let known: BTreeSet<&str> = [GROUND, EDGES, STAGES, SPINE, FRONT].concat().into_iter().collect();
    let mut wrong = Vec::new();
    for file in files {
        let below = file.strip_prefix(&top).expect("below the source folder");
        let module = below
            .components()
            .next()
            .and_then(|part| part.as_os_str().to_str())
            .map(|part| part.trim_end_matches(".rs").to_owned())
            .expect("module name");
        // A test beside its module, a binary, or the list of modules.
        let name = below.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if module == "lib"
            || module == "bin"
            || name == "tests.rs"
            || name.contains("simulated")
            || name == "samples.rs"
        {
            continue;
        }
        if !known.contains(module.as_str()) {
            wrong.push(format!("`{module}` has no place in the list of this test"));
        }
        let source = fs_err::read_to_string(&file).expect("source");
        for to in mentions(&source) {
            if known.contains(to.as_str()) && !may(&module, &to) {
                wrong.push(format!("{}: `{module}` must not use `{to}`", below.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_arrow_is_seen() {
    assert!(!may("graph", "report") && !may("rank", "cli") && !may("torch", "pipeline") && !may("files", "graph"));
    assert!(may("rank", "profile") && may("gates", "target") && may("cli", "pipeline") && may("trial", "gates"));
    let source = "use crate::{graph, rank::rank};\n// crate::cli\nlet x = crate::files::y();\n#[cfg(test)]\nmod tests { use crate::cli; }";
    assert_eq!(mentions(source).into_iter().collect::<Vec<_>>(), ["files", "graph", "rank"]);
}
