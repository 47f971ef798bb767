//! The only module that prints. stdout is data, stderr is talk.
//!
//! In: what a command has to say. Out: bytes on the two streams. Colours follow the terminal, `NO_COLOR`
//! and `--color`, and never carry meaning alone. A reader that goes away (`| head`) is not an error:
//! [`Printer::data`] returns the error, and [`Exit::of_write`] turns a broken pipe into success.

mod failure;
mod progress;

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use indicatif::{MultiProgress, ProgressDrawTarget};

pub use failure::Failure;
pub use progress::Display;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: the question was answered
    Answered,
    /// 1: a repair was wanted and none was acceptable
    Rejected,
    /// 2: the tool or its surroundings failed, or it was used wrongly
    Failed,
    /// 127: there is no program to hand over to, as a shell says it
    NotFound,
    /// 130: the user stopped it
    Interrupted,
}

impl Exit {
    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Answered => 0,
            Self::Rejected => 1,
            Self::Failed => 2,
            Self::NotFound => 127,
            Self::Interrupted => 130,
        }
    }

    /// The end after writing to stdout: a reader that went away has what it wanted.
    ///
    /// # Errors
    /// Any other trouble, for instance a full disk behind `>`.
    pub fn of_write(written: io::Result<()>) -> Result<(), Failure> {
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::with_cause("Failed to write to standard output", error))
            }
            _ => Ok(()),
        }
    }
}

/// How much talk the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// errors only
    Quiet,
    /// steps, decisions, warnings
    Normal,
    /// everything
    Verbose,
}

/// Styles of the few words that have one.
pub mod style {
    use super::{AnsiColor, Style};

    /// `error:`
    pub const ERROR: Style = AnsiColor::Red.on_default().bold();
    /// `warning:`
    pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    /// `hint:`, paths and commands
    pub const HINT: Style = AnsiColor::Cyan.on_default().bold();
    /// done, accepted
    pub const GOOD: Style = AnsiColor::Green.on_default().bold();
    /// headings
    pub const HEADING: Style = Style::new().bold();
    /// what may be skipped when reading
    pub const FAINT: Style = Style::new().dimmed();
}

/// `text` in `style`, as something to put into a line.
pub fn styled(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The two streams and how much goes to them.
#[derive(Clone, Debug)]
pub struct Printer {
    talk: Talk,
    /// spinners and bars; hidden when the talk does not go to a terminal
    bars: MultiProgress,
    live: bool,
}

impl Printer {
    /// A printer for this process. Spinners are shown only when stderr is a terminal that can move its
    /// cursor, and not in verbose mode, where they would tear up the lines.
    pub fn new(talk: Talk) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let live = talk == Talk::Normal && io::stderr().is_terminal() && !dumb;
        let target = if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self { talk, bars: MultiProgress::with_draw_target(target), live }
    }

    /// How much talk the user wants.
    pub fn talk(&self) -> Talk {
        self.talk
    }

    /// True when spinners are shown.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Writes text to stdout as it is; colour codes are removed where they do not belong.
    ///
    /// # Errors
    /// Whatever the stream says, a broken pipe included.
    pub fn data(&self, text: &str) -> io::Result<()> {
        self.bars.suspend(|| {
            let mut stdout = anstream::stdout().lock();
            stdout.write_all(text.as_bytes())?;
            stdout.flush()
        })
    }

    /// Writes bytes to stdout as they are.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub fn raw(&self, bytes: &[u8]) -> io::Result<()> {
        self.bars.suspend(|| {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes)?;
            stdout.flush()
        })
    }

    /// Writes a value to stdout as indented JSON with a final newline.
    ///
    /// # Errors
    /// As [`Printer::data`].
    pub fn json<T: serde::Serialize>(&self, value: &T) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(value)?;
        bytes.push(b'\n');
        self.raw(&bytes)
    }

    /// A line on stderr that a user should see.
    pub fn note(&self, text: &str) {
        if self.talk != Talk::Quiet {
            self.line(text);
        }
    }

    /// A `warning:` on stderr.
    pub fn warning(&self, text: &str) {
        if self.talk != Talk::Quiet {
            self.line(&format!("{}: {text}", styled(style::WARNING, "warning")));
        }
    }

    /// A `hint:` on stderr.
    pub fn hint(&self, text: &str) {
        if self.talk != Talk::Quiet {
            self.line(&format!("{}: {text}", styled(style::HINT, "hint")));
        }
    }

    /// A line on stderr for those who asked for more.
    pub fn detail(&self, text: &str) {
        if self.talk == Talk::Verbose {
            self.line(&styled(style::FAINT, text));
        }
    }

    /// An error on stderr, whatever the user said about talk.
    pub fn failure(&self, failure: &Failure) {
        self.line(failure.to_string().trim_end());
    }

    /// Spinners, bars or plain lines for the library's progress.
    pub fn progress(&self) -> Display {
        Display::new(self.clone())
    }

    fn line(&self, text: &str) {
        // Nobody is left to tell when stderr itself fails.
        let _ = self.bars.suspend(|| writeln!(anstream::stderr().lock(), "{text}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_pipe_is_success_and_a_full_disk_is_not() {
        let written = |kind: io::ErrorKind| Exit::of_write(Err(io::Error::from(kind)));
        assert!(written(io::ErrorKind::BrokenPipe).is_ok());
        let failure = written(io::ErrorKind::StorageFull).expect_err("full disk");
        assert!(failure.to_string().contains("Failed to write to standard output"));
    }

    #[test]
    fn exit_codes_are_the_documented_numbers() {
        let codes = [Exit::Answered, Exit::Rejected, Exit::Failed, Exit::NotFound, Exit::Interrupted].map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 127, 130]);
    }
}
