//! Advice beside an error: what the reader can do next, and the long text behind a short message.
//!
//! Every error type that can reach a user implements [`Hint`]; an error that wraps another one hands the
//! question on. The error's own text says what failed and never holds the advice.

/// What an error can tell beyond its message.
pub trait Hint: std::error::Error {
    /// The next step, as a sentence without a final full stop: ``Run `delegate-doctor setup` ``.
    fn hint(&self) -> Option<String> {
        None
    }

    /// Long text that explains the error: a Python traceback, the last lines of a child's stderr. It is
    /// shown below the causes, indented.
    fn details(&self) -> Option<String> {
        None
    }
}

impl Hint for std::io::Error {
    fn hint(&self) -> Option<String> {
        let advice = match self.kind() {
            std::io::ErrorKind::StorageFull => "Free some disk space and run the command again",
            std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                "Choose a place that you may write to, with `--out` for the run folder or `DELEGATE_DOCTOR_HOME` for everything else"
            }
            std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::FileTooLarge => {
                "Raise the quota or the limit on file sizes (`ulimit -f`), or choose another place"
            }
            std::io::ErrorKind::NotADirectory => {
                "Something on the way is no folder; set `DELEGATE_DOCTOR_HOME` to one, or move the file away"
            }
            _ => return None,
        };
        Some(advice.to_string())
    }
}

/// The candidate that is written most like `typed`, when one is close enough to be meant.
pub fn closest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&typed, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_slip_is_taken_for_a_name() {
        let known = ["dd-001", "dd-002", "softmax-layout"];
        assert_eq!(closest("DD-01", known), Some("dd-001"));
        assert_eq!(closest("softmax-layuot", known), Some("softmax-layout"));
        assert_eq!(closest("relu", known), None);
        assert_eq!(closest("", known), None);
    }
}
