//! How output will look.

use std::io::IsTerminal as _;

use super::Diagnosis;

pub(super) fn examine() -> Diagnosis {
    let what = |stream: &str, terminal: bool| format!("{stream} is {}a terminal", if terminal { "" } else { "not " });
    let colours = match anstream::AutoStream::choice(&std::io::stdout()) {
        anstream::ColorChoice::Never => "no colours",
        _ => "colours",
    };
    Diagnosis::ok(
        "terminal",
        format!(
            "{}, {}, {colours}",
            what("stdout", std::io::stdout().is_terminal()),
            what("stderr", std::io::stderr().is_terminal())
        ),
    )
}
