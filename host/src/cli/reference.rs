//! The reference of the command line, `docs/cli.md`, made from the definitions that parse it.

use std::fmt::Write as _;

use crate::settings::{environment_variables, project_file};

/// The whole reference as Markdown. `docs/cli.md` holds it; a test fails when the two differ.
pub fn markdown() -> String {
    let mut text = String::from(
        "# The command line\n\nGenerated from the definitions in `host/src/cli` by `cargo xtask docs`; edit those.\n",
    );
    let mut command = super::command().term_width(100).disable_version_flag(true);
    command.build();
    section(&mut text, &mut command, "delegate-doctor", 2);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\n## The short name `dd`\n\n`dd` is `delegate-doctor`. Called with operands of the system's disk copier \
         (`dd if=… of=…`), or with no argument while stdin is not a terminal, it becomes the next `dd` on PATH, so \
         scripts keep working."
    );
    let _ = writeln!(text, "\n## Environment variables\n\n| variable | what it does |\n|---|---|");
    for variable in environment_variables::ALL {
        let _ = writeln!(text, "| `{}` | {} |", variable.name, variable.about);
    }
    let _ = writeln!(
        text,
        "\n## The project file `{}`\n\nRead from the current folder or the nearest one above it. For each setting, \
         the command line wins over the environment, the environment over this file, and this file over the \
         default. Paths are relative to the file.\n\n| key | what it does |\n|---|---|",
        project_file::FILE_NAME
    );
    for (key, about) in project_file::KEYS {
        let _ = writeln!(text, "| `{key}` | {about} |");
    }
    text
}

fn section(text: &mut String, command: &mut clap::Command, name: &str, level: usize) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = writeln!(text, "\n{} `{name}`\n\n```text\n{}\n```", "#".repeat(level), help.join("\n"));
    for sub in command.get_subcommands_mut() {
        // What holds for every command is said once, at the top.
        *sub = sub.clone().mut_args(|argument| {
            let global = argument.is_global_set();
            argument.hide(global)
        });
        let name = format!("{name} {}", sub.get_name());
        section(text, sub, &name, level + 1);
    }
}
