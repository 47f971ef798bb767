//! Lines of a fixed width for a terminal.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::visible;

/// The width every terminal view keeps to.
pub const WIDTH: usize = 100;

/// Columns that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` cut to `columns`, with `…` where something is missing.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        used += wide;
        out.push(character);
    }
    out.push('…');
    out
}

/// `text` cut in the middle of a path's folders, so that the file name stays: `…/decoders/decoder.py:26`.
pub fn cut_path(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = text;
    while let Some(slash) = kept.find('/') {
        kept = kept.get(slash + 1..).unwrap_or("");
        if width(kept) + 2 <= columns {
            return format!("…/{kept}");
        }
    }
    cut(kept, columns)
}

/// `text` filled with spaces to `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// `text` moved to the right edge of `columns`.
pub fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Breaks at spaces, and inside a word that is longer than a line.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word = word;
        let mut room = width(word);
        if !line.is_empty() && width(&line) + 1 + room > columns {
            lines.push(std::mem::take(&mut line));
        }
        while room > columns {
            let (mut taken, mut end) = (0, word.len());
            for (at, character) in word.char_indices() {
                let wide = character.width().unwrap_or(0);
                if taken + wide > columns {
                    end = at;
                    break;
                }
                taken += wide;
            }
            let (head, tail) = word.split_at(end);
            if head.is_empty() || tail.is_empty() {
                break;
            }
            lines.push(head.to_owned());
            word = tail;
            room -= taken;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// A page under construction. What comes from outside is made visible here.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// An empty line, unless there is one already.
    pub fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// A heading after a gap.
    pub fn heading(&mut self, text: &str) {
        self.gap();
        self.line(0, &[(HEADING, text)]);
    }

    /// One line of styled pieces; what does not fit is cut.
    pub fn line(&mut self, indent: usize, pieces: &[(Style, &str)]) {
        let mut left = WIDTH.saturating_sub(indent);
        self.text.push_str(&" ".repeat(indent));
        let used = pieces.iter().rposition(|(_, piece)| !piece.trim().is_empty()).map_or(0, |last| last + 1);
        for (number, (style, piece)) in pieces.iter().take(used).enumerate() {
            let piece = if number + 1 == used { piece.trim_end() } else { piece };
            let shown = cut(&visible::line(piece), left);
            left = left.saturating_sub(width(&shown));
            self.text.push_str(&paint(*style, &shown));
        }
        self.end_line();
    }

    /// A paragraph, wrapped; later lines are indented like the first.
    pub fn paragraph(&mut self, indent: usize, style: Style, text: &str) {
        for part in visible::lines(text).lines() {
            for line in wrap(part, WIDTH.saturating_sub(indent)) {
                self.text.push_str(&" ".repeat(indent));
                self.text.push_str(&paint(style, &line));
                self.end_line();
            }
        }
    }

    /// A paragraph that begins with a styled lead of its own; later lines stand below the text after it.
    pub fn led(&mut self, indent: usize, lead: (Style, &str), style: Style, text: &str) {
        let shown = visible::line(lead.1);
        let mut hang = indent + width(&shown);
        if hang > WIDTH / 2 {
            self.paragraph(indent, lead.0, &shown);
            hang = indent + 2;
            self.text.push_str(&" ".repeat(hang));
        } else {
            self.text.push_str(&" ".repeat(indent));
            self.text.push_str(&paint(lead.0, &shown));
        }
        for (number, line) in wrap(&visible::line(text), WIDTH.saturating_sub(hang)).iter().enumerate() {
            if number > 0 {
                self.text.push_str(&" ".repeat(hang));
            }
            self.text.push_str(&paint(style, line));
            self.end_line();
        }
    }

    /// A command to copy: never wrapped, cut or coloured in parts.
    pub fn command(&mut self, indent: usize, command: &str) {
        self.text.push_str(&format!("{}{}", " ".repeat(indent), paint(COMMAND, &visible::line(command))));
        self.end_line();
    }

    fn end_line(&mut self) {
        self.text.push('\n');
    }

    /// The page, with its styles as escape sequences.
    pub fn finish(self) -> String {
        self.text
    }
}

/// No style.
pub const PLAIN: Style = Style::new();
/// Headings.
pub const HEADING: Style = Style::new().bold();
/// Less important.
pub const FAINT: Style = Style::new().dimmed();
/// Good news.
pub const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Green))).bold();
/// Bad news.
pub const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Red))).bold();
/// News to look at.
pub const WARN: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow))).bold();
/// Commands and paths.
pub const COMMAND: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Cyan)));

fn paint(style: Style, text: &str) -> String {
    if style.is_plain() || text.is_empty() { text.to_owned() } else { format!("{style}{text}{style:#}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_inside_long_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghijklmnop q", 8), ["abcdefgh", "ijklmnop", "q"]);
        assert_eq!(wrap("模型模型模型", 8), ["模型模型", "模型"]);
        assert_eq!(wrap("", 8), [""]);
    }

    #[test]
    fn a_cut_path_keeps_its_file_name() {
        assert_eq!(cut_path("a/long/path/to/file.py:12", 16), "…/to/file.py:12");
        assert_eq!(cut_path("short.py:1", 16), "short.py:1");
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_wider_than_asked(text in "\\PC{0,80}", columns in 8_usize..60, few in 0_usize..8) {
            for line in wrap(&text, columns) {
                proptest::prop_assert!(width(&line) <= columns, "{line:?}");
            }
            proptest::prop_assert!(width(&cut(&text, columns)) <= columns);
            proptest::prop_assert!(width(&cut_path(&text, columns)) <= columns);
            proptest::prop_assert!(width(&cut(&text, few)) <= few);
        }
    }
}
