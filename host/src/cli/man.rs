//! `man`: manual pages, made from the same definitions as `--help`.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::files;
use crate::output::{Exit, Failure, Printer};

/// Print the manual page, or write one page per command into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor man | man -l -
  delegate-doctor man --out ~/.local/share/man/man1")]
pub(super) struct Arguments {
    /// Folder to write `delegate-doctor.1` and a page for each command into; it is made if needed
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Exit, Failure> {
    match &arguments.out {
        None => {
            let page = page(&super::command(), "delegate-doctor")?;
            Exit::of_write(printer.raw(&page))?;
        }
        Some(folder) => {
            let failed = |error| Failure::with_cause("Failed to write manual pages", error);
            fs::create_dir_all(folder).map_err(failed)?;
            let written = write_pages(&super::command(), "delegate-doctor", folder)?;
            printer.note(&format!("Wrote {written} manual pages to `{}`", folder.display()));
        }
    }
    Ok(Exit::Answered)
}

fn write_pages(command: &clap::Command, name: &str, folder: &Path) -> Result<usize, Failure> {
    let failed = |error| Failure::with_cause("Failed to write manual pages", error);
    files::write_atomic(&folder.join(format!("{name}.1")), &page(command, name)?).map_err(failed)?;
    let mut written = 1;
    for sub in command.get_subcommands() {
        written += write_pages(sub, &format!("{name}-{}", sub.get_name()), folder)?;
    }
    Ok(written)
}

fn page(command: &clap::Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().name(name.to_string()))
        .render(&mut page)
        .map_err(|error| Failure::with_cause("Failed to make a manual page", error))?;
    Ok(page)
}
