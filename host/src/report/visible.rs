//! Text from outside made safe to show: a model's name, a source line, a rule's words.
//!
//! Whoever wrote the model or the rule must not be able to move the cursor, colour a verdict green, hide
//! text, or turn its direction. Every character that does not show itself is written as its code point.

use std::borrow::Cow;

/// One line: control characters, line breaks, and invisible or direction-changing characters become
/// `\u{…}`.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, false)
}

/// As [`line()`], but line breaks and tabs stay (tabs as four spaces).
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, true)
}

fn escape(text: &str, keep_breaks: bool) -> Cow<'_, str> {
    if !text.chars().any(shows_not) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' if keep_breaks => out.push('\n'),
            '\t' if keep_breaks => out.push_str("    "),
            '\r' if keep_breaks => {}
            '\t' => out.push(' '),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            other if shows_not(other) => out.extend(other.escape_unicode()),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// Control characters, separators, and format characters that change direction or hide.
pub(super) fn shows_not(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_show_itself_is_spelled() {
        assert_eq!(line("a\u{1b}[32mOK\u{202e}x\u{0}"), "a\\u{1b}[32mOK\\u{202e}x\\u{0}");
        assert_eq!(line("a\nb\tc"), "a\\nb c");
        assert_eq!(lines("a\r\n\tb\u{200b}"), "a\n    b\\u{200b}");
        assert!(matches!(line("größe × 模型"), Cow::Borrowed(_)));
    }

    proptest::proptest! {
        #[test]
        fn nothing_invisible_remains(text in "\\PC*|.*") {
            let shown = line(&text);
            proptest::prop_assert!(!shown.chars().any(shows_not), "{shown:?}");
        }
    }
}
