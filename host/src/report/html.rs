//! The report as one HTML file that needs nothing else: style, script and data are in it, nothing is
//! loaded, and it works from disk.
//!
//! In: a [`Report`]. Out: the page. The record becomes a view of ready strings and geometry; the
//! templates in `host/templates` only arrange it. Every string goes through the same formatter, which
//! makes invisible characters visible and then escapes markup, so that a template cannot forget to. The
//! page's own policy forbids every request and every script but the embedded one.

mod comparison_page;
mod diagram;
mod module_map;
mod plot;
mod profile_page;
mod runs_page;
mod view;

use std::borrow::Cow;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, HtmlEscape, UndefinedBehavior};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::model::Report;
use super::visible;
use crate::hint::Hint;

pub use self::comparison_page::{render_comparison, render_comparison_for};
pub use self::profile_page::{render_profile, render_profile_for};
pub use self::runs_page::{ListedRun, RunList, render_runs};

const STYLE: &str = include_str!("../../templates/report.css");
/// Of the pages with tables that can be sorted and filtered.
const TABLES_STYLE: &str = include_str!("../../templates/tables.css");
const SCRIPT: &str = include_str!("../../templates/report.js");
const TABLES_SCRIPT: &str = include_str!("../../templates/tables.js");
/// Loads a served page again when what it shows has changed.
const LIVE_SCRIPT: &str = include_str!("../../templates/live.js");

/// Templates by the name they are included by.
const TEMPLATES: &[(&str, &str)] = &[
    ("page.html", include_str!("../../templates/page.html")),
    ("report.html", include_str!("../../templates/report.html")),
    ("profile.html", include_str!("../../templates/profile.html")),
    ("comparison.html", include_str!("../../templates/comparison.html")),
    ("runs.html", include_str!("../../templates/runs.html")),
    ("macros.html", include_str!("../../templates/macros.html")),
    ("parts/verdict.html", include_str!("../../templates/parts/verdict.html")),
    ("parts/findings.html", include_str!("../../templates/parts/findings.html")),
    ("parts/profile.html", include_str!("../../templates/parts/profile.html")),
    ("parts/hotspots.html", include_str!("../../templates/parts/hotspots.html")),
    ("parts/repairs.html", include_str!("../../templates/parts/repairs.html")),
    ("parts/declined.html", include_str!("../../templates/parts/declined.html")),
    ("parts/run.html", include_str!("../../templates/parts/run.html")),
    ("parts/kernels.html", include_str!("../../templates/parts/kernels.html")),
    ("parts/module_map.html", include_str!("../../templates/parts/module_map.html")),
    ("parts/timeline.html", include_str!("../../templates/parts/timeline.html")),
    ("parts/outside.html", include_str!("../../templates/parts/outside.html")),
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

/// How a page reaches its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery<'a> {
    /// as a file, which asks nobody for anything
    File,
    /// from the server of `report --serve`; the page asks for `version` beside it, and loads itself again when the
    /// answer is another one than this
    Served {
        /// what the page was made from
        version: &'a str,
    },
}

/// Renders the page.
///
/// # Errors
/// When a path in the report is not UTF-8.
pub fn render(report: &Report) -> Result<String, Error> {
    render_for(report, Delivery::File)
}

/// Renders the page for a place to read it at.
///
/// # Errors
/// As [`render`].
pub fn render_for(report: &Report, delivery: Delivery<'_>) -> Result<String, Error> {
    let data = Data { name: "report.json", json: script_json(report)? };
    fill("report.html", Value::from(Serde(view::View::of(report))), &data, &[STYLE], &[SCRIPT], delivery)
}

/// What a page is made from, to be read back from it.
struct Data {
    /// of the file that a reader can save
    name: &'static str,
    /// escaped by [`script_json`]
    json: String,
}

/// A page with sortable tables.
fn fill_with_tables(
    template: &str,
    view: impl Serialize,
    data: &Data,
    delivery: Delivery<'_>,
) -> Result<String, Error> {
    fill(template, Value::from(Serde(view)), data, &[STYLE, TABLES_STYLE], &[TABLES_SCRIPT, SCRIPT], delivery)
}

fn fill(
    template: &str,
    view: Value,
    data: &Data,
    styles: &[&str],
    scripts: &[&str],
    delivery: Delivery<'_>,
) -> Result<String, Error> {
    let (version, live) = match delivery {
        Delivery::File => (None, None),
        Delivery::Served { version } => (Some(version), Some(LIVE_SCRIPT)),
    };
    let script: String = scripts.iter().copied().chain(live).collect();
    let script_hash = base64(&Sha256::digest(script.as_bytes()));
    let environment = environment()?;
    let page = environment.get_template(template)?;
    Ok(page.render(minijinja::context! {
        view => view,
        style => Value::from_safe_string(styles.concat()),
        script => Value::from_safe_string(script),
        script_hash => Value::from_safe_string(script_hash),
        data => Value::from_safe_string(data.json.clone()),
        file => data.name,
        version => version,
    })?)
}

/// Strict, escaping, and showing what does not show itself.
fn environment() -> Result<Environment<'static>, minijinja::Error> {
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
    Ok(environment)
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
fn script_json(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
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
mod page_checks;

#[cfg(test)]
mod tests;
