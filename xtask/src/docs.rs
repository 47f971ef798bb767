//! The generated pages of `docs/`.

use crate::workspace::{Result, root};

/// Writes them, or with `check` fails when one is stale.
pub(crate) fn docs(check: bool) -> Result {
    let mut schema =
        serde_json::to_string_pretty(&delegate_doctor::report::schema()).map_err(|error| error.to_string())?;
    schema.push('\n');
    let pages = [
        ("cli.md", delegate_doctor::cli::reference_markdown()),
        ("report.schema.json", schema),
        ("sandbox.md", hostile_rules::page()),
    ];
    for (name, text) in pages {
        let path = root().join("docs").join(name);
        if check {
            if fs_err::read_to_string(&path).ok().as_ref() != Some(&text) {
                return Err(format!("`docs/{name}` is stale; run `cargo xtask docs`"));
            }
        } else {
            delegate_doctor::files::write_atomic(&path, text.as_bytes()).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
