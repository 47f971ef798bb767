use std::path::Path;

use super::super::page_checks;
use super::samples::{self, HOSTILE};
use super::*;

/// Set to anything, stale fixtures are written anew instead of failing the test.
const UPDATE: &str = "UPDATE_PROFILE_FIXTURES";

fn pages() -> Vec<(&'static str, String)> {
    let page = |(name, document, spans): samples::Sample| (name, render_profile(&document, Some(&spans)).expect(name));
    samples::all().into_iter().map(page).collect()
}

/// Written for looking at; the folder is named by a variable.
#[test]
fn pages_can_be_kept_for_looking_at() {
    let Some(folder) = std::env::var_os("KEEP_REPORT_PAGES") else { return };
    for (name, page) in pages() {
        let path = Path::new(&folder).join(format!("profile-{name}.html"));
        crate::files::write_atomic(&path, page.as_bytes()).expect("page");
    }
}

#[test]
fn the_committed_samples_are_these() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/profiles/v1");
    for (name, document, _) in samples::all() {
        let path = folder.join(format!("{name}.json"));
        if std::env::var_os(UPDATE).is_some() {
            crate::files::write_json(&path, &document).expect("fixture");
        }
        let kept: ProfileDocument = serde_json::from_slice(&fs_err::read(&path).expect("fixture")).expect("JSON");
        assert_eq!(as_json(&kept), as_json(&document), "{name}: run the tests with {UPDATE}=1 and review it");
    }
}

#[test]
fn every_page_is_whole_and_loads_nothing() {
    for (name, page) in pages() {
        page_checks::loads_nothing(name, &page);
        page_checks::is_balanced(name, &page);
        page_checks::strings_are_text(name, &page);
        page_checks::ids_fit(name, &page);
        page_checks::tables_are_described(name, &page);
    }
}

#[test]
fn hostile_strings_are_shown() {
    let (_, page) = pages().into_iter().find(|(name, _)| *name == "hostile").expect("sample");
    assert!(page.contains("&lt;script&gt;document.title"));
    assert!(!page.contains(HOSTILE));
}

#[test]
fn the_data_can_be_read_back() {
    for (name, document, spans) in samples::all() {
        let page = render_profile(&document, Some(&spans)).expect(name);
        let read: ProfileDocument = serde_json::from_str(page_checks::data(&page)).expect(name);
        assert_eq!(as_json(&read), as_json(&document), "{name}");
    }
}

#[test]
fn an_emulated_target_is_not_told_as_one_of_speed() {
    for (name, page) in pages() {
        let warned = page.contains("nothing about the speed of an Arm CPU");
        assert_eq!(warned, name == "emulated", "{name}");
        assert!(page.contains("MEASURED on "), "{name}");
    }
}

#[test]
fn without_modules_the_time_is_told_by_instruction() {
    let (_, mut document, spans) = samples::all().swap_remove(0);
    let page = render_profile(&document, Some(&spans)).expect("page");
    assert!(page.contains("Time by module") && page.contains("encoder.layers"));
    document.modules.clear();
    let page = render_profile(&document, None).expect("page");
    assert!(page.contains("Time by instruction") && page.contains("instruction 4"));
    assert!(!page.contains("id=\"timeline\""));
}

#[test]
fn a_long_timeline_draws_the_longest() {
    let span = |at: u32| Span {
        name: format!("kernel {at}"),
        delegated: at.is_multiple_of(2),
        instruction: Some(0),
        start_us: f64::from(at),
        duration_us: f64::from(at % 50) / 10.0 + 0.1,
    };
    let spans: Vec<Span> = (0..5000).map(span).collect();
    let timeline = draw(&spans).expect("a timeline");
    assert_eq!((timeline.boxes.len(), timeline.left_out), (DRAWN, 3000));
    let inside = |it: &TimeBox| it.x >= 0.0 && it.x + it.width <= TIMELINE_WIDTH + 2.0 * NARROWEST;
    assert!(timeline.boxes.iter().all(inside));
}

#[test]
fn times_that_make_no_sense_are_not_drawn() {
    let span =
        |start_us, duration_us| Span { name: String::new(), delegated: true, instruction: None, start_us, duration_us };
    assert!(draw(&[]).is_none());
    assert!(draw(&[span(3.0, 0.0)]).is_none());
    assert!(draw(&[span(f64::NAN, 1.0), span(0.0, f64::INFINITY)]).is_none());
    assert!(draw(&[span(0.0, f64::MAX), span(f64::MAX, f64::MAX)]).is_none());
}

/// What is not known is not equal to itself; its JSON is.
fn as_json(document: &impl serde::Serialize) -> String {
    serde_json::to_string(document).expect("JSON")
}
