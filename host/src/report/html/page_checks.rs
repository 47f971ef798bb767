//! What is true of every page, whatever it shows.

use super::{Sha256, base64};
use sha2::Digest as _;

const VOID: &[&str] = &["meta", "br", "hr", "input", "wbr"];

/// Words for something that is loaded.
const LOADERS: &[&str] =
    &[" src=\"", " src='", "href=\"http", "url(", "@import", "<link", "<iframe", "fetch(", "XMLHttp"];

/// Nothing is loaded, and the policy allows no script but the page's own.
pub(super) fn loads_nothing(name: &str, page: &str) {
    let shown = page.replace("url('#head')", "");
    for loader in LOADERS {
        assert!(!shown.contains(loader), "{name}: {loader}");
    }
    assert!(page.contains("default-src 'none'"), "{name}");
    assert!(!page.contains("connect-src"), "{name}");
    assert!(page.contains(&format!("'sha256-{}'", base64(&Sha256::digest(script(page).as_bytes())))), "{name}");
}

/// The page's own script.
pub(super) fn script(page: &str) -> &str {
    let (_, after) = page.rsplit_once("<script>").expect("script");
    after.split_once("</script>").expect("end of the script").0
}

/// Nothing that came from outside is markup, and nothing is invisible.
pub(super) fn strings_are_text(name: &str, page: &str) {
    let own_scripts = page.matches("<script").count();
    assert_eq!(own_scripts, 2, "{name}: only the data and the script are scripts");
    assert!(!page.contains("<img"), "{name}");
    assert!(!page.contains("<!--"), "{name}");
    assert!(!page.chars().any(|c| matches!(c, '\u{1b}' | '\u{202e}' | '\u{200b}')), "{name}: nothing invisible");
}

/// The JSON in the page.
pub(super) fn data(page: &str) -> &str {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"report-data\">").expect("data");
    rest.split_once("</script>").expect("end of data").0
}

/// Every element that is opened is closed, in order.
pub(super) fn is_balanced(name: &str, page: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        let Some((tag, tail)) = after.split_once('>') else { panic!("{name}: a tag without end") };
        rest = tail;
        if tag.starts_with('!') {
            continue;
        }
        let word: String = tag.trim_start_matches('/').chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
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

/// Every `id` is given once, and every reference to one finds it.
pub(super) fn ids_fit(name: &str, page: &str) {
    let named = |attribute: &str| -> Vec<&str> {
        page.split(&format!(" {attribute}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    };
    let ids = named("id");
    for (at, id) in ids.iter().enumerate() {
        assert!(!ids[..at].contains(id), "{name}: `{id}` twice");
    }
    let references = ["aria-labelledby", "aria-describedby", "data-table", "for"].map(named).concat();
    for reference in references {
        assert!(ids.contains(&reference), "{name}: nothing is called `{reference}`");
    }
}

/// Every table has a caption, and every head of it a scope.
pub(super) fn tables_are_described(name: &str, page: &str) {
    for table in page.split("<table").skip(1) {
        let table = table.split("</table>").next().unwrap_or_default();
        assert!(table.contains("<caption"), "{name}: a table without a caption");
        for head in table.split("<th ").skip(1) {
            assert!(head.starts_with("scope=\""), "{name}: a head without a scope");
        }
        assert!(!table.contains("<th>"), "{name}: a head without a scope");
    }
}
