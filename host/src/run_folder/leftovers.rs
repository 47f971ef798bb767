//! What a run folder is rid of: unfinished files, large outputs that were compared, runs that began nothing.

use std::path::Path;

use fs_err as fs;

use super::is_in_use;

/// Removes the folder of a run that ended before its first stage was finished, and the folder around it
/// when nothing else is in there. True when there is nothing left to go on with.
pub fn discard_unbegun(folder: &Path) -> bool {
    if folder.join("stages").exists() || is_in_use(folder) {
        return false;
    }
    let gone = fs::remove_dir_all(folder).is_ok();
    if let Some(parent) = folder.parent() {
        // Fails when other runs are in there, as it should.
        let _ = fs::remove_dir(parent);
    }
    gone
}

/// Removes outputs of runs, which are large, can be made again from the programs and inputs that stay, and
/// have been compared.
pub(super) fn remove_outputs(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if ["eager", "device", "captured"].iter().any(|name| entry.file_name() == *name) {
            let _ = fs::remove_dir_all(entry.path());
        } else {
            remove_outputs(&entry.path());
        }
    }
}

/// Removes files and folders that were being written. Only the holder of the lock may do so.
pub(super) fn sweep(folder: &Path) {
    let unfinished = [".writing-", ".making-", ".operators-"];
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let (path, name) = (entry.path(), entry.file_name());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // What cannot be removed stays, and no reader takes it for something finished.
        if unfinished.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
            let _ = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        } else if is_folder {
            sweep(&path);
        }
    }
}
