//! What can go wrong with a rule, in classes.

use crate::hint::Hint;

/// A rule did not do what it should. The other rules go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule}: {reason}")]
pub struct Error {
    /// `dd-001 1.2.0`, or the file when the rule has not said what it is
    pub rule: String,
    /// what kind of failure
    pub class: Class,
    /// what happened, in a sentence without control characters
    pub reason: String,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// the bytes are no component, or one beyond the limits
    Load,
    /// it wants something from the host
    Import,
    /// it speaks no contract that this host speaks
    ContractVersion,
    /// compiling it failed or took too much
    Compile,
    /// it used all its fuel
    OutOfFuel,
    /// it ran into the wall-clock fuse
    Time,
    /// it wanted more memory, tables or instances
    Memory,
    /// it went too deep
    Stack,
    /// it crashed
    Trap,
    /// what it gave back breaks the contract
    BadOutput,
    /// it gave back too much
    TooMuchOutput,
    /// it complained about itself
    Own,
    /// the user stopped the tool
    Interrupted,
    /// the host could not do its part
    Host,
}

impl Class {
    /// The class as text: `out-of-fuel`, `bad-output`, …
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Import => "import",
            Self::ContractVersion => "contract-version",
            Self::Compile => "compile",
            Self::OutOfFuel => "out-of-fuel",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Stack => "stack",
            Self::Trap => "trap",
            Self::BadOutput => "bad-output",
            Self::TooMuchOutput => "too-much-output",
            Self::Own => "own-error",
            Self::Interrupted => "interrupted",
            Self::Host => "host",
        }
    }

    /// True when the same call would fail in the same way again: such a failure may be remembered.
    pub fn is_repeatable(self) -> bool {
        !matches!(self, Self::Time | Self::Compile | Self::Interrupted | Self::Host)
    }
}

impl Error {
    pub(super) fn new(rule: &str, class: Class, reason: impl AsRef<str>) -> Self {
        Self { rule: printable(rule, 256), class, reason: printable(reason.as_ref(), 2_048) }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self.class {
            Class::Import => "Build the rule without WASI: a rule has no access to anything outside".to_owned(),
            Class::ContractVersion => {
                "Update the rule, or Delegate Doctor when the rule is newer than this version".to_owned()
            }
            Class::Load | Class::Compile => "Build the rule again with the rule SDK".to_owned(),
            Class::Interrupted => return None,
            Class::Host => "Check that the cache folder can be written and that memory is free".to_owned(),
            _ => "Report this to the author of the rule; other rules are not affected".to_owned(),
        })
    }
}

/// `text` on one line, without control characters and no longer than `most` bytes: fit for a terminal.
pub fn printable(text: &str, most: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(most));
    let mut space = false;
    for character in text.chars() {
        if character.is_control() || character.is_whitespace() || is_invisible(character) {
            space = true;
            continue;
        }
        if space && !clean.is_empty() {
            clean.push(' ');
        }
        space = false;
        if clean.len() + character.len_utf8() > most {
            clean.push('…');
            break;
        }
        clean.push(character);
    }
    clean
}

/// Characters that change how a terminal shows what follows without showing themselves.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_rule_cannot_steer_a_terminal() {
        assert_eq!(printable("a\u{1b}[31mred\u{7}\nb\tc\u{202e}d", 100), "a [31mred b c d");
        assert_eq!(printable("  \n ", 10), "");
        assert_eq!(printable("ääää", 5), "ää…");
    }
}
