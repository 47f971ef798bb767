//! The library's progress as a person sees it: spinners and bars on a terminal, plain lines elsewhere.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Printer, style, styled};
use crate::progress::{Progress, Step, Unit};

/// Shows progress through a [`Printer`].
#[derive(Clone, Debug)]
pub struct Display {
    printer: Printer,
}

struct Shown {
    printer: Printer,
    /// none where there is no terminal to draw on
    bar: Option<ProgressBar>,
    /// when it last said something where there is no bar
    told: Mutex<Instant>,
}

/// How long a step is silent where no bar can be shown.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(100);
const SPINNER: &str = "{spinner} {prefix} {wide_msg} {elapsed:>4}";
const ITEMS: &str = "{spinner} {prefix} {bar:20} {pos}/{len} {wide_msg} {elapsed:>4}";
const BYTES: &str = "{spinner} {prefix} {bar:20} {bytes}/{total_bytes} {wide_msg} {elapsed:>4}";

impl Display {
    pub(super) fn new(printer: Printer) -> Self {
        Self { printer }
    }
}

impl Progress for Display {
    fn step(&self, title: &str) -> Box<dyn Step> {
        let bar = if self.printer.live {
            let bar = self.printer.bars.add(ProgressBar::new_spinner().with_style(template(SPINNER)));
            bar.set_prefix(title.to_string());
            bar.enable_steady_tick(TICK);
            Some(bar)
        } else {
            self.printer.note(title);
            None
        };
        Box::new(Shown { printer: self.printer.clone(), bar, told: Mutex::new(Instant::now()) })
    }

    fn note(&self, text: &str) {
        self.printer.note(text);
    }

    fn warning(&self, text: &str) {
        self.printer.warning(text);
    }

    fn detail(&self, text: &str) {
        self.printer.detail(text);
    }
}

impl Step for Shown {
    fn update(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(one_line(text)),
            None => {
                // A log should show that long work goes on, and not every step of it.
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                if told.elapsed() < SIGN_OF_LIFE {
                    self.printer.detail(&format!("  {text}"));
                } else {
                    self.printer.note(&format!("  {}", one_line(text)));
                    *told = Instant::now();
                }
            }
        }
    }

    fn advance(&self, done: u64, total: u64, unit: Unit) {
        let Some(bar) = &self.bar else { return };
        if total == 0 {
            return;
        }
        if bar.length() != Some(total) {
            bar.set_style(template(if unit == Unit::Bytes { BYTES } else { ITEMS }));
            bar.set_length(total);
        }
        bar.set_position(done.min(total));
    }

    fn done(self: Box<Self>, text: &str) {
        match &self.bar {
            Some(bar) => {
                bar.finish_and_clear();
                self.printer.note(&format!("{} {text}", styled(style::GOOD, "✓")));
            }
            None => self.printer.note(&format!("  {text}")),
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            self.printer.bars.remove(bar);
        }
    }
}

fn template(template: &str) -> ProgressStyle {
    // The tests parse every template; a bare spinner is the worst that can happen.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()).progress_chars("━╸ ")
}

/// Text that a child process wrote may hold line ends and control characters, which would tear up a bar.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for template in [SPINNER, ITEMS, BYTES] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn a_childs_line_cannot_tear_up_a_bar() {
        assert_eq!(one_line("Collecting torch\r\n\u{1b}[2K"), "Collecting torch   [2K");
    }
}
