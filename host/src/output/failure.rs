//! An error on its way to the user: what failed, why, what to do, and how the process ends.

use std::error::Error;
use std::fmt;

use super::{Exit, style, styled};
use crate::hint::Hint;

/// Something that ends the command.
#[derive(Debug)]
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    details: Option<String>,
    hint: Option<String>,
    exit: Exit,
}

/// A message with an optional cause, for what only the command line knows.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Message {
    text: String,
    #[source]
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl<E: Hint + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { details: error.details(), hint: error.hint(), error: Box::new(error), exit: Exit::Failed }
    }
}

impl Failure {
    /// A failure with a message and no cause.
    pub fn new(text: impl Into<String>) -> Self {
        let error = Box::new(Message { text: text.into(), cause: None });
        Self { error, details: None, hint: None, exit: Exit::Failed }
    }

    /// A failure with a message and what caused it.
    pub fn with_cause(text: impl Into<String>, cause: impl Hint + Send + Sync + 'static) -> Self {
        let (details, hint) = (cause.details(), cause.hint());
        let error = Box::new(Message { text: text.into(), cause: Some(Box::new(cause)) });
        Self { error, details, hint, exit: Exit::Failed }
    }

    /// The same with this advice, when there is none yet.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// The same with another end of the process.
    #[must_use]
    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// How the process ends.
    pub fn exit_as(&self) -> Exit {
        self.exit
    }
}

/// ```text
/// error: Failed to read the project file `delegate-doctor.toml`
///   Caused by: permission denied
///
///     (long text)
///
/// hint: Make the file readable
/// ```
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.error.to_string();
        writeln!(f, "{}: {}", styled(style::ERROR, "error"), indented(&said, "  "))?;
        let mut cause = self.error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // A wrapper that passes its cause's words on has nothing to add.
            if !said.ends_with(&text) {
                writeln!(f, "  {}: {}", styled(style::ERROR, "Caused by"), indented(&text, "    "))?;
            }
            said = text;
            cause = error.source();
        }
        if let Some(details) = self.details.as_deref().map(str::trim_end).filter(|details| !details.is_empty()) {
            writeln!(f)?;
            for line in details.lines() {
                writeln!(f, "    {}", styled(style::FAINT, harmless(line)))?;
            }
        }
        if let Some(hint) = &self.hint {
            writeln!(f, "\n{}: {}", styled(style::HINT, "hint"), indented(hint, "      "))?;
        }
        Ok(())
    }
}

/// All lines but the first begin with `indent`; what would steer the terminal is gone.
fn indented(text: &str, indent: &str) -> String {
    text.trim_end().lines().map(harmless).collect::<Vec<_>>().join(&format!("\n{indent}"))
}

/// A line that may hold the words of a user's model or a child process, without characters that control a
/// terminal or turn the direction of writing.
fn harmless(line: &str) -> String {
    let steers = |c: char| {
        (c.is_control() && c != '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    line.chars().map(|c| if steers(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("Failed to lower the graph")]
        Lowering(#[source] Inner),
        #[error(transparent)]
        Passed(#[from] Inner),
    }

    #[derive(Debug, thiserror::Error)]
    #[error("worker died\nwith a second line")]
    struct Inner;

    impl Hint for Outer {
        fn hint(&self) -> Option<String> {
            Some("Try `delegate-doctor doctor`".to_string())
        }
        fn details(&self) -> Option<String> {
            Some("Traceback\n  line 3\n".to_string())
        }
    }

    fn plain(failure: &Failure) -> String {
        anstream::adapter::strip_str(&failure.to_string()).to_string()
    }

    #[test]
    fn a_failure_shows_message_causes_details_and_hint_in_this_order() {
        let expected = "error: Failed to lower the graph
  Caused by: worker died
    with a second line

    Traceback
      line 3

hint: Try `delegate-doctor doctor`
";
        assert_eq!(plain(&Failure::from(Outer::Lowering(Inner))), expected);
    }

    #[test]
    fn the_words_of_a_transparent_cause_are_not_said_twice() {
        let text = plain(&Failure::from(Outer::Passed(Inner)));
        assert_eq!(text.matches("worker died").count(), 1, "{text}");
        let text = plain(&Failure::with_cause("Failed to write", std::io::Error::other("disk on fire")));
        assert_eq!(text, "error: Failed to write\n  Caused by: disk on fire\n");
    }

    #[test]
    fn words_of_others_cannot_steer_the_terminal() {
        let text = plain(&Failure::new("a\u{202e}b\u{1b}[31mc\u{7}").hint("d\u{2066}e"));
        assert_eq!(text, "error: a\u{fffd}b\u{fffd}[31mc\u{fffd}\n\nhint: d\u{fffd}e\n");
    }

    #[test]
    fn advice_of_the_error_itself_wins_over_later_advice() {
        let text = plain(&Failure::from(Outer::Lowering(Inner)).hint("something general"));
        assert!(text.contains("hint: Try") && !text.contains("general"), "{text}");
        assert!(plain(&Failure::new("No").hint("something general")).contains("hint: something general"));
    }
}
