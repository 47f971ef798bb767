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
        page_checks::loads_nothing(name, &page);
    }
}

#[test]
fn hostile_strings_stay_text() {
    let (name, page) = pages().into_iter().find(|(name, _)| *name == "hostile").expect("sample");
    assert!(page.contains("&lt;script&gt;document.title"), "it is shown");
    page_checks::strings_are_text(name, &page);
}

#[test]
fn the_data_can_be_read_back() {
    for (name, report) in samples::all() {
        let page = render(&report).expect(name);
        assert_eq!(Report::from_json(page_checks::data(&page).as_bytes()).expect(name), report, "{name}");
    }
}

#[test]
fn tags_are_balanced() {
    for (name, page) in pages() {
        page_checks::is_balanced(name, &page);
    }
}

#[test]
fn only_a_served_page_asks_its_server() {
    for (name, report) in samples::all() {
        let page = render_for(&report, Delivery::Served { version: "a<b" }).expect(name);
        assert!(page.contains("connect-src 'self'") && page.contains("data-version=\"a&lt;b\""), "{name}");
        let hash = base64(&Sha256::digest(page_checks::script(&page).as_bytes()));
        assert!(page.contains(&format!("'sha256-{hash}'")), "{name}");
        page_checks::is_balanced(name, &page);
    }
}
