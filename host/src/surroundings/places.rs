//! The folders the tool writes to, and the room in them.

use std::path::Path;

use super::{Diagnosis, GIB, bytes};
use crate::settings::Common;
use crate::torch::environment;

/// A managed environment with torch and executorch, installed.
const ENVIRONMENT_NEEDS: u64 = 7 * GIB;
/// Lowered programs of a few models.
const COMFORTABLE: u64 = 2 * GIB;
/// Not even one lowered program of a usual model.
const TOO_LITTLE: u64 = GIB / 4;

pub(super) fn examine(common: &Common) -> Vec<Diagnosis> {
    let set_up = environment::managed_folder(&common.folders.data).is_dir() || common.python.is_some();
    let data_needs = if set_up { TOO_LITTLE } else { ENVIRONMENT_NEEDS };
    vec![
        place("cache folder", &common.folders.cache, TOO_LITTLE),
        place("data folder", &common.folders.data, data_needs),
        place("current folder", Path::new("."), TOO_LITTLE),
    ]
}

fn place(name: &str, folder: &Path, needs: u64) -> Diagnosis {
    let shown = match std::path::absolute(folder) {
        Ok(path) => path.display().to_string(),
        Err(_) => folder.display().to_string(),
    };
    let existing = nearest(folder);
    let advice = if name == "current folder" {
        "Run from another folder, or name one with `--out`"
    } else {
        "Choose another place with the environment variable `DELEGATE_DOCTOR_HOME`"
    };
    // A permission bit says little on network and read-only file systems, so a file is really made.
    if let Err(error) = tempfile::tempfile_in(existing) {
        return Diagnosis::problem(name, format!("Cannot write to `{shown}`: {error}"), "Results are kept there")
            .hint(advice);
    }
    match free(existing) {
        None => Diagnosis::ok(name, format!("Writable: `{shown}`")),
        Some(free) if free < needs => Diagnosis::problem(
            name,
            format!("{} free, {} needed: `{shown}`", bytes(free), bytes(needs)),
            "A full disk ends a run",
        )
        .hint(format!("Free some disk space. {advice}")),
        Some(free) if free < COMFORTABLE => Diagnosis::warning(
            name,
            format!("Only {} free: `{shown}`", bytes(free)),
            "Lowered programs of a large model may not fit",
        )
        .hint(format!("Free some disk space. {advice}")),
        Some(free) => Diagnosis::ok(name, format!("Writable, {} free: `{shown}`", bytes(free))),
    }
}

/// The folder itself, or the nearest one above it that exists: the rest would be made there.
fn nearest(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."))
}

/// Bytes that this user may still write.
fn free(folder: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(folder).ok()?;
    room.f_bavail.checked_mul(room.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::Verdict;

    #[test]
    fn a_folder_that_is_not_there_yet_is_judged_by_the_one_above() {
        let top = tempfile::tempdir().expect("temporary folder");
        let diagnosis = place("cache folder", &top.path().join("a/b/c"), 1);
        assert_ne!(diagnosis.verdict, Verdict::Problem, "{diagnosis:?}");
        assert!(!top.path().join("a").exists(), "a check makes nothing");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_a_problem() {
        let diagnosis = place("cache folder", Path::new("/proc/delegate-doctor"), 1);
        assert_eq!(diagnosis.verdict, Verdict::Problem);
        assert!(diagnosis.hint.is_some_and(|hint| hint.contains("DELEGATE_DOCTOR_HOME")));
    }

    #[test]
    fn too_little_room_is_a_problem() {
        let top = tempfile::tempdir().expect("temporary folder");
        let diagnosis = place("data folder", top.path(), u64::MAX);
        assert_eq!(diagnosis.verdict, Verdict::Problem);
        assert!(diagnosis.what.contains("free"), "{diagnosis:?}");
    }
}
