//! What a maintainer sees before countersigning a version: what changed in its manifest, and what became of
//! it in the gate.

use std::fmt::Write as _;

use fs_err as fs;

use super::layout;
use super::name::{RuleName, Target, TargetKind};
use super::pack::{self, Package};
use super::writer::{self, Repository};
use crate::files;
use crate::hint::Hint;

/// Why a version cannot be reviewed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the registry cannot be read
    #[error(transparent)]
    Registry(#[from] writer::Error),
    /// its files are no package
    #[error("{version} is no package")]
    Package {
        /// rule and version
        version: String,
        /// why
        #[source]
        source: pack::Error,
    },
    /// the sandbox refuses it
    #[error("{version} does not load: {reason}")]
    Refused {
        /// rule and version
        version: String,
        /// why
        reason: String,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Registry(error) => error.hint(),
            Self::Package { .. } | Self::Refused { .. } => {
                Some("Do not countersign it; ask its publisher to yank it".to_owned())
            }
        }
    }
}

/// A version that nobody has countersigned.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// the rule
    pub rule: RuleName,
    /// the version
    pub version: semver::Version,
    /// its files, checked
    pub package: Package,
    /// the manifest of the version before it
    pub before: Option<(semver::Version, String)>,
}

impl Candidate {
    /// `acme/fix-boot 1.3.0`.
    pub fn label(&self) -> String {
        format!("{} {}", self.rule, self.version)
    }

    /// The files to countersign.
    pub fn targets(&self) -> Vec<Target> {
        TargetKind::ALL.iter().map(|kind| self.rule.target(&self.version, *kind)).collect()
    }

    /// The manifest, line by line: lines of the version before that are gone with `-`, new ones with `+`.
    pub fn manifest_diff(&self) -> String {
        let new = String::from_utf8_lossy(&self.package.manifest_bytes).into_owned();
        let old = self.before.as_ref().map(|(_, text)| text.as_str()).unwrap_or_default();
        diff(old, &new)
    }
}

/// The versions that publishers list and the reviewers do not, every one a whole package.
///
/// # Errors
/// When the registry cannot be read, or one of them is no package.
pub fn candidates(registry: &Repository) -> Result<Vec<Candidate>, Error> {
    let mut found = Vec::new();
    for publisher in registry.publishers()? {
        let Some(role) = registry.role(&publisher)? else { continue };
        let reviewed = registry.role(&layout::review_role(&publisher))?;
        let reviewed = reviewed.map(|role| role.signed.targets).unwrap_or_default();
        let listed = role.signed.targets;
        let components = listed.iter().filter_map(|(path, file)| {
            let target = path.parse::<Target>().ok().filter(|target| target.kind == TargetKind::Component)?;
            Some((target, file))
        });
        for (target, file) in components {
            if file.custom.as_ref().is_some_and(|custom| custom.dd.yanked.is_some()) {
                continue;
            }
            let seen = TargetKind::ALL.iter().all(|kind| {
                let path = target.rule.target(&target.version, *kind).to_string();
                matches!((reviewed.get(&path), listed.get(&path)), (Some(seen), Some(file)) if seen.is_same_file(file))
            });
            if seen {
                continue;
            }
            let version = format!("{} {}", target.rule, target.version);
            let bytes = |of: &semver::Version, kind| -> Result<Vec<u8>, Error> {
                let target = target.rule.target(of, kind);
                let missing = || writer::Error::NoTarget { target: target.to_string(), publisher: publisher.clone() };
                let file = listed.get(&target.to_string()).ok_or_else(missing)?;
                let path = registry.folder().join(layout::target_path(&target, &file.hashes.sha256));
                Ok(files::read_regular(&path, layout::MOST_TARGET_BYTES).map_err(writer::Error::Io)?)
            };
            let package = Package::of(
                bytes(&target.version, TargetKind::Component)?,
                bytes(&target.version, TargetKind::Manifest)?,
                bytes(&target.version, TargetKind::Evidence)?,
            )
            .map_err(|source| Error::Package { version: version.clone(), source })?;
            let before = listed
                .keys()
                .filter_map(|path| path.parse::<Target>().ok())
                .filter(|other| other.kind == TargetKind::Component && other.rule == target.rule)
                .map(|other| other.version)
                .filter(|other| *other < target.version)
                .max();
            let before = before
                .map(|before| {
                    let text = bytes(&before, TargetKind::Manifest)?;
                    Ok::<_, Error>((before, String::from_utf8_lossy(&text).into_owned()))
                })
                .transpose()?;
            found.push(Candidate { rule: target.rule, version: target.version, package, before });
        }
    }
    Ok(found)
}

/// Writes a candidate's component where a command can take it from.
///
/// # Errors
/// Whatever the file system says.
pub fn write_component(candidate: &Candidate, folder: &std::path::Path) -> std::io::Result<std::path::PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{}-{}.wasm", candidate.rule.rule(), candidate.version));
    files::write_atomic(&path, &candidate.package.component)?;
    Ok(path)
}

/// A line diff by the longest common subsequence; manifests have a few dozen lines.
fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let width = new.len() + 1;
    let mut common = vec![0_usize; (old.len() + 1) * width];
    let at = |i: usize, j: usize| i * width + j;
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[at(i, j)] = if old[i] == new[j] {
                common[at(i + 1, j + 1)] + 1
            } else {
                common[at(i + 1, j)].max(common[at(i, j + 1)])
            };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        // Writing to a string cannot fail.
        if i < old.len() && j < new.len() && old[i] == new[j] {
            let _ = writeln!(text, "  {}", new[j]);
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[at(i + 1, j)] >= common[at(i, j + 1)]) {
            let _ = writeln!(text, "- {}", old[i]);
            i += 1;
        } else {
            let _ = writeln!(text, "+ {}", new[j]);
            j += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_went_and_what_came() {
        assert_eq!(diff("a\nb\nc\n", "a\nx\nc\nd\n"), "  a\n- b\n+ x\n  c\n+ d\n");
        assert_eq!(diff("", "a\n"), "+ a\n");
        assert_eq!(diff("a\n", ""), "- a\n");
    }
}
