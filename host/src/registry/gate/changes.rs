//! What a change adds to a registry folder, read without following links.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use fs_err as fs;

use super::super::layout;
use crate::files;

/// A file of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// below the registry, with `/`
    pub path: String,
    /// what is there now
    pub content: Content,
    /// true when the registry had the file before
    pub was_there: bool,
}

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// a file and its bytes
    File(Vec<u8>),
    /// a file with more bytes than any file of a registry may have
    Large(u64),
    /// a link, a pipe, a device
    Strange,
    /// nothing any more
    Removed,
}

/// What a folder holds that the registry does not, or holds otherwise; and what it lacks.
///
/// # Errors
/// When a folder cannot be read.
pub fn compare(base: &Path, head: &Path) -> io::Result<Vec<Change>> {
    let (old, new) = (list(base)?, list(head)?);
    let mut changes = Vec::new();
    for (path, is_file) in &new {
        let content = content(&head.join(path), *is_file)?;
        let before = old.get(path).map(|was_file| self::content(&base.join(path), *was_file)).transpose()?;
        if before.as_ref() != Some(&content) {
            changes.push(Change { path: path.clone(), content, was_there: before.is_some() });
        }
    }
    for path in old.keys().filter(|path| !new.contains_key(*path)) {
        changes.push(Change { path: path.clone(), content: Content::Removed, was_there: true });
    }
    changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(changes)
}

/// What a folder would add or change when its files were laid over the registry's.
///
/// # Errors
/// When a folder cannot be read.
pub fn overlay(base: &Path, proposal: &Path) -> io::Result<Vec<Change>> {
    let mut changes = Vec::new();
    for (path, is_file) in list(proposal)? {
        let content = content(&proposal.join(&path), is_file)?;
        let there = base.join(&path);
        let before = match fs::symlink_metadata(&there) {
            Ok(metadata) => Some(self::content(&there, metadata.is_file())?),
            Err(_) => None,
        };
        if before.as_ref() != Some(&content) {
            changes.push(Change { path, content, was_there: before.is_some() });
        }
    }
    Ok(changes)
}

fn content(path: &Path, is_file: bool) -> io::Result<Content> {
    if !is_file {
        return Ok(Content::Strange);
    }
    let length = fs::symlink_metadata(path)?.len();
    if length > layout::MOST_TARGET_BYTES {
        return Ok(Content::Large(length));
    }
    Ok(Content::File(files::read_regular(path, layout::MOST_TARGET_BYTES)?))
}

/// Every path below a folder that is no folder, and whether it is a regular file. What belongs to git is
/// left out.
fn list(folder: &Path) -> io::Result<BTreeMap<String, bool>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let name = entry.file_name();
            if below.is_empty() && name == ".git" {
                continue;
            }
            let is_text = name.to_str().is_some();
            let name = name.to_string_lossy();
            let path = if below.is_empty() { name.into_owned() } else { format!("{below}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() && is_text {
                folders.push(path);
            } else {
                // What has no text for a name cannot be opened by it, and is strange whatever it is.
                found.insert(path, kind.is_file() && is_text);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_folder_adds_changes_and_lacks_is_seen() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (base, head) = (folder.path().join("base"), folder.path().join("head"));
        for (path, bytes) in [("base/metadata/a", "1"), ("base/metadata/b", "1"), ("base/x", "1")] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("folder")).expect("folder");
            fs::write(path, bytes).expect("write");
        }
        fs::create_dir_all(head.join("metadata")).expect("folder");
        fs::create_dir_all(head.join(".git")).expect("folder");
        fs::write(head.join(".git/config"), "x").expect("write");
        fs::write(head.join("metadata/a"), "1").expect("write");
        fs::write(head.join("metadata/b"), "2").expect("write");
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc/passwd", head.join("link")).expect("link");
        let seen: Vec<(String, bool, Content)> = compare(&base, &head)
            .expect("compared")
            .into_iter()
            .map(|change| (change.path, change.was_there, change.content))
            .collect();
        let expected = [
            ("link".to_owned(), false, Content::Strange),
            ("metadata/b".to_owned(), true, Content::File(b"2".to_vec())),
            ("x".to_owned(), true, Content::Removed),
        ];
        assert_eq!(seen, expected);
        let laid: Vec<String> = overlay(&base, &head).expect("laid").into_iter().map(|change| change.path).collect();
        assert_eq!(laid, ["link", "metadata/b"], "what a proposal lacks stays");
    }
}
