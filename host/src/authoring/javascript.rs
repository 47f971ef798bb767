//! Rules in JavaScript, on QuickJS. componentize-qjs, which is what `jco componentize --backend quickjs` calls,
//! puts the engine and the rule's modules into one component and runs them once, up to where a site is asked
//! about. What would ask WASI for something is a trap, so the component imports nothing.

use super::Error;
use super::component::Tools;
use super::managed_tools::{ManagedTool, plain};
use super::project::Project;
use crate::progress::Progress;

/// Files of a new rule.
pub(super) const TEMPLATE: &[(&str, &str)] = &[
    ("rule.js", include_str!("../../templates/rule/js/rule.js")),
    ("sdk/VERSION", include_str!("../../templates/rule/js/sdk/VERSION")),
    ("sdk/rule_sdk.js", include_str!("../../templates/rule/js/sdk/rule_sdk.js")),
    ("sdk/views.js", include_str!("../../templates/rule/js/sdk/views.js")),
    ("sdk/patch.js", include_str!("../../templates/rule/js/sdk/patch.js")),
    ("sdk/answers.js", include_str!("../../templates/rule/js/sdk/answers.js")),
];

/// Calls componentize-qjs; arguments: where it is installed, and the file to write.
const COMPONENTIZE: &str = include_str!("../../templates/rule/js/componentize.mjs");

const TOOL: ManagedTool = ManagedTool {
    name: "componentize-qjs",
    version: "0.4.5",
    language: "JavaScript",
    size: "40 MB",
    offline: "copy `{folder}` from a machine of the same kind that has it",
};

/// Builds the component of a project, without its sections.
pub(super) fn build(project: &Project, progress: &dyn Progress) -> Result<(Vec<u8>, Tools), Error> {
    let tools = TOOL.ensure(&project.data, progress, &|folder, step| {
        let mut command = plain("npm");
        command
            .args(["install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"])
            .arg(folder)
            .arg(format!("{}@{}", TOOL.name, TOOL.version))
            .current_dir(folder);
        TOOL.install_step(folder, command, step)
    })?;
    let scratch = tempfile::tempdir()?;
    let script = scratch.path().join("componentize.mjs");
    fs_err::write(&script, COMPONENTIZE)?;
    let output = scratch.path().join("rule.wasm");
    let mut command = plain("node");
    command.current_dir(&project.folder).arg(&script).arg(&tools).arg(&output);
    TOOL.build(&project.folder, command)?;
    let component = fs_err::read(&output)?;
    Ok((component, Tools { sdk: format!("{} with {}", project.sdk("rule-sdk-js"), TOOL.title()) }))
}
