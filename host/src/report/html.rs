//! The report as one HTML file that needs nothing else: style, script and data are in it, nothing is
//! loaded, and it works from disk.
//!
//! In: a [`Report`]. Out: the page. The record becomes a view of ready strings and geometry; the
//! templates in `host/templates` only arrange it. Every string goes through the same formatter, which
//! makes invisible characters visible and then escapes markup, so that a template cannot forget to. The
//! page's own policy forbids every request and every script but the embedded one.

mod diagram;
mod plot;
mod view;

use std::borrow::Cow;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, HtmlEscape, UndefinedBehavior};
use sha2::{Digest as _, Sha256};

use super::model::Report;
use super::visible;
use crate::hint::Hint;

const STYLE: &str = include_str!("../../templates/report.css");
const SCRIPT: &str = include_str!("../../templates/report.js");

/// Templates by the name they are included by.
const TEMPLATES: &[(&str, &str)] = &[
    ("report.html", include_str!("../../templates/report.html")),
    ("macros.html", include_str!("../../templates/macros.html")),
    ("parts/verdict.html", include_str!("../../templates/parts/verdict.html")),
    ("parts/findings.html", include_str!("../../templates/parts/findings.html")),
    ("parts/profile.html", include_str!("../../templates/parts/profile.html")),
    ("parts/hotspots.html", include_str!("../../templates/parts/hotspots.html")),
    ("parts/repairs.html", include_str!("../../templates/parts/repairs.html")),
    ("parts/declined.html", include_str!("../../templates/parts/declined.html")),
    ("parts/run.html", include_str!("../../templates/parts/run.html")),
];

/// Why no page could be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// a template and its view do not fit, which is a bug
    #[error("Failed to fill the report template")]
    Template(#[from] minijinja::Error),
    /// the data cannot be written as JSON
    #[error("Failed to write the report as JSON")]
    Json(#[from] serde_json::Error),
}

impl Hint for Error {}

/// Renders the page.
///
/// # Errors
/// When a path in the report is not UTF-8.
pub fn render(report: &Report) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_formatter(|out, state, value| {
        match value.as_str().filter(|_| !value.is_safe()).map(visible::lines) {
            Some(Cow::Owned(shown)) => minijinja::escape_formatter(out, state, &Value::from(shown)),
            _ => minijinja::escape_formatter(out, state, value),
        }
    });
    environment.add_filter("prose", prose);
    for (name, source) in TEMPLATES {
        environment.add_template(name, source)?;
    }
    let page = environment.get_template("report.html")?;
    Ok(page.render(minijinja::context! {
        view => Value::from(Serde(view::View::of(report))),
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        script_hash => Value::from_safe_string(base64(&Sha256::digest(SCRIPT.as_bytes()))),
        data => Value::from_safe_string(script_json(report)?),
    })?)
}

/// Prose with its `literals` set as code.
fn prose(text: &str) -> Value {
    let shown = visible::lines(text);
    let mut html = String::with_capacity(shown.len() + 32);
    let pieces: Vec<&str> = shown.split('`').collect();
    for (number, piece) in pieces.iter().enumerate() {
        let escaped = HtmlEscape(piece);
        match number % 2 {
            0 => html.push_str(&escaped.to_string()),
            // A back-tick without a partner is only a back-tick.
            _ if number + 1 == pieces.len() => html.push_str(&format!("`{escaped}")),
            _ => html.push_str(&format!("<code>{escaped}</code>")),
        }
    }
    Value::from_safe_string(html)
}

/// JSON that can stand inside a `<script>` element: no character in it can end the element, begin a comment
/// or a tag, or hide.
fn script_json(report: &Report) -> serde_json::Result<String> {
    let json = serde_json::to_string(report)?;
    let mut safe = String::with_capacity(json.len() + json.len() / 16);
    for character in json.chars() {
        if matches!(character, '<' | '>' | '&') || visible::shows_not(character) {
            let mut units = [0_u16; 2];
            for unit in character.encode_utf16(&mut units) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(character);
        }
    }
    Ok(safe)
}

/// Base64 with padding, as a content security policy writes digests.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = 0_u32;
        for position in 0..3 {
            group = (group << 8) | u32::from(chunk.get(position).copied().unwrap_or(0));
        }
        for position in 0..4_usize {
            let digit = (group >> (18 - 6 * position)) & 63;
            let letter = ALPHABET.get(digit as usize).copied().unwrap_or(b'=');
            text.push(if position > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn pages() -> Vec<(&'static str, String)> {
        samples::all().into_iter().map(|(name, report)| (name, render(&report).expect(name))).collect()
    }

    /// Written for looking at; the folder is named by a variable.
    #[test]
    fn pages_can_be_kept_for_looking_at() {
        let Some(folder) = std::env::var_os("KEEP_REPORT_PAGES") else { return };
        for (name, page) in pages() {
            crate::files::write_atomic(&std::path::Path::new(&folder).join(format!("{name}.html")), page.as_bytes())
                .expect("page");
        }
    }

    #[test]
    fn base64_is_the_usual_one() {
        let coded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(coded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn literals_in_prose_are_code_and_nothing_else_is_markup() {
        let html = |text: &str| prose(text).to_string();
        assert_eq!(html("use `F.pad` <b>"), "use <code>F.pad</code> &lt;b&gt;");
        assert_eq!(html("one ` alone"), "one ` alone");
        assert_eq!(html("`<i>` and `"), "<code>&lt;i&gt;</code> and `");
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        for (name, page) in pages() {
            let page = page.replace("url('#head')", "");
            for loader in
                [" src=\"", " src='", "href=\"http", "url(", "@import", "<link", "<iframe", "fetch(", "XMLHttp"]
            {
                assert!(!page.contains(loader), "{name}: {loader}");
            }
            assert!(page.contains("default-src 'none'"), "{name}");
            assert!(page.contains(&format!("'sha256-{}'", base64(&Sha256::digest(SCRIPT.as_bytes())))), "{name}");
        }
    }

    #[test]
    fn hostile_strings_stay_text() {
        let (_, page) = pages().into_iter().find(|(name, _)| *name == "hostile").expect("sample");
        assert!(page.contains("&lt;script&gt;document.title"), "it is shown");
        let own_scripts = page.matches("<script").count();
        assert_eq!(own_scripts, 2, "only the data and the script are scripts");
        assert!(!page.contains("<img"));
        assert!(!page.contains("<!--"));
        assert!(!page.chars().any(|c| matches!(c, '\u{1b}' | '\u{202e}' | '\u{200b}')), "nothing invisible");
    }

    #[test]
    fn the_data_can_be_read_back() {
        for (name, report) in samples::all() {
            let page = render(&report).expect(name);
            let (_, rest) = page.split_once("<script type=\"application/json\" id=\"report-data\">").expect("data");
            let (json, _) = rest.split_once("</script>").expect("end of data");
            assert_eq!(Report::from_json(json.as_bytes()).expect(name), report, "{name}");
        }
    }

    /// Every element that is opened is closed, in order.
    #[test]
    fn tags_are_balanced() {
        const VOID: &[&str] = &["meta", "br", "hr", "input", "wbr"];
        for (name, page) in pages() {
            let mut open: Vec<String> = Vec::new();
            let mut rest = page.as_str();
            while let Some((_, after)) = rest.split_once('<') {
                let Some((tag, tail)) = after.split_once('>') else { panic!("{name}: a tag without end") };
                rest = tail;
                if tag.starts_with('!') {
                    continue;
                }
                let word: String =
                    tag.trim_start_matches('/').chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
                if tag.starts_with('/') {
                    assert_eq!(open.pop().as_deref(), Some(word.as_str()), "{name}: </{word}>");
                } else if !tag.ends_with('/') && !VOID.contains(&word.as_str()) {
                    if word == "script" || word == "style" {
                        rest = rest.split_once(&format!("</{word}>")).expect("end").1;
                    } else {
                        open.push(word);
                    }
                }
            }
            assert!(open.is_empty(), "{name}: {open:?}");
        }
    }
}
