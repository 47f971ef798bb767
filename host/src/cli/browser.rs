//! Opening a page in the user's browser.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::output::Failure;
use crate::settings::environment_variables::BROWSER;

/// Opens a file. Programs that are tried, in order: what `BROWSER` names, then the desktop's own opener.
pub(super) fn open(page: &Path) -> Result<(), Failure> {
    let advice = || format!("Open it yourself: `{}`", page.display());
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let chosen = set(BROWSER);
    let desktop = cfg!(target_os = "macos") || set("DISPLAY").is_some() || set("WAYLAND_DISPLAY").is_some();
    if chosen.is_none() && !desktop {
        // Without a display the opener starts a browser in the terminal, if anything.
        return Err(Failure::new("There is no display to open the report on").hint(advice()));
    }
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut last = None;
    for program in chosen.into_iter().chain([opener.into()]) {
        let quiet = || Stdio::null();
        match Command::new(&program).arg(page).stdin(quiet()).stdout(quiet()).stderr(quiet()).status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => last = Some(std::io::Error::other(format!("`{}`: {status}", program.display()))),
            Err(error) => last = Some(std::io::Error::new(error.kind(), format!("`{}`: {error}", program.display()))),
        }
    }
    let cause = last.unwrap_or_else(|| std::io::Error::other("no program to do it"));
    Err(Failure::with_cause("Failed to open the report in a browser", cause).hint(advice()))
}
