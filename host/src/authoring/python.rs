//! Rules in Python. componentize-py puts an interpreter and the rule's modules into one component and runs them
//! once, up to where a site is asked about. What would ask WASI for something is a trap, so the component
//! imports nothing.

use super::Error;
use super::component::{Tools, WORLD};
use super::managed_tools::{ManagedTool, plain};
use super::project::Project;
use crate::progress::Progress;
use crate::torch::environment::{Search, base_interpreter};

/// Files of a new rule.
pub(super) const TEMPLATE: &[(&str, &str)] = &[
    ("rule.py", include_str!("../../templates/rule/python/rule.py")),
    ("sdk/VERSION", include_str!("../../templates/rule/python/sdk/VERSION")),
    ("sdk/component.py", include_str!("../../templates/rule/python/sdk/component.py")),
    ("sdk/rule_sdk/__init__.py", include_str!("../../templates/rule/python/sdk/rule_sdk/__init__.py")),
    ("sdk/rule_sdk/answers.py", include_str!("../../templates/rule/python/sdk/rule_sdk/answers.py")),
    ("sdk/rule_sdk/manifest.py", include_str!("../../templates/rule/python/sdk/rule_sdk/manifest.py")),
    ("sdk/rule_sdk/patch.py", include_str!("../../templates/rule/python/sdk/rule_sdk/patch.py")),
    ("sdk/rule_sdk/views.py", include_str!("../../templates/rule/python/sdk/rule_sdk/views.py")),
];

const TOOL: ManagedTool = ManagedTool {
    name: "componentize-py",
    version: "0.25.1",
    language: "Python",
    size: "75 MB",
    offline: "`pip download componentize-py==0.25.1` on a machine of the same kind that has one, and build here with \
              `PIP_NO_INDEX=1` and `PIP_FIND_LINKS` naming the folder of that download",
};

/// Builds the component of a project, without its sections.
pub(super) fn build(project: &Project, progress: &dyn Progress) -> Result<(Vec<u8>, Tools), Error> {
    let tools = TOOL.ensure(&project.data, progress, &|folder, step| {
        let base = base_interpreter(&Search::of_this_process(None, &project.data)).map_err(|error| Error::NoTool {
            program: "python3".to_owned(),
            language: TOOL.language,
            install: format!("{error}. On Debian and Ubuntu: `apt-get install python3 python3-venv`"),
        })?;
        let mut command = plain(base);
        command.args(["-m", "venv"]).arg(folder);
        TOOL.install_step(folder, command, step)?;
        let mut command = plain(folder.join("bin/python"));
        command
            .args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"])
            .args(["--only-binary", ":all:"])
            .arg(format!("{}=={}", TOOL.name, TOOL.version));
        for variable in ["PIP_TARGET", "PIP_PREFIX", "PIP_USER"] {
            command.env_remove(variable);
        }
        TOOL.install_step(folder, command, step)
    })?;
    let scratch = tempfile::tempdir()?;
    let output = scratch.path().join("rule.wasm");
    let mut command = plain(tools.join("bin/componentize-py"));
    command
        .current_dir(&project.folder)
        .env("VIRTUAL_ENV", &tools)
        // Caches beside the sources would be read by the next build.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("RUST_BACKTRACE", "0")
        .args(["--wit-path", "sdk/wit", "--world", WORLD, "--quiet", "componentize", "--stub-wasi"])
        .args(["--python-path", ".", "--python-path", "sdk", "--output"])
        .arg(&output)
        .arg("component");
    TOOL.build(&project.folder, command).map_err(|error| match error {
        Error::Build { folder, output } => Error::Build { folder, output: readable(&output) },
        error => error,
    })?;
    let component = fs_err::read(&output)?;
    Ok((component, Tools { sdk: format!("{} with {}", project.sdk("rule-sdk-python"), TOOL.title()) }))
}

/// What the interpreter inside of the component said, without the one outside and with the rule's own paths.
fn readable(output: &str) -> String {
    let inner = output.split_once("AssertionError: ").map_or(output, |(_, inner)| inner);
    let inner = inner.split_once("\nCaused by:").map_or(inner, |(said, _)| said);
    // The folders of `--python-path` by their numbers.
    inner.replace("File \"/0/", "File \"").replace("File \"/1/", "File \"sdk/").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceback_is_the_rules_own() {
        let said = "Traceback (most recent call last):\n  File \"/x/bin/componentize-py\", line 8\n    sys.exit()\n\
                    AssertionError: Traceback (most recent call last):\n  File \"/1/component.py\", line 5\n  \
                    File \"/0/rule.py\", line 24\nValueError: no\n\n\nCaused by:\n    ValueError: no\n";
        let expected = "Traceback (most recent call last):\n  File \"sdk/component.py\", line 5\n  \
                        File \"rule.py\", line 24\nValueError: no";
        assert_eq!(readable(said), expected);
        assert_eq!(readable("killed\n"), "killed");
    }
}
