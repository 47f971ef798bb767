use super::super::page_checks;
use super::super::profile_page::samples;
use super::*;
use crate::report::comparison::Moments;

fn documents() -> Vec<(String, ComparisonDocument)> {
    let samples = samples::all();
    let mut found = Vec::new();
    for (before, old, _) in &samples {
        for (after, new, _) in &samples {
            found.push((format!("{before}-{after}"), ComparisonDocument::of(old, new, Moments::InTurns)));
        }
    }
    found
}

/// Written for looking at; the folder is named by a variable.
#[test]
fn pages_can_be_kept_for_looking_at() {
    let Some(folder) = std::env::var_os("KEEP_REPORT_PAGES") else { return };
    for (name, document) in documents() {
        let path = std::path::Path::new(&folder).join(format!("comparison-{name}.html"));
        crate::files::write_atomic(&path, render_comparison(&document).expect("page").as_bytes()).expect("page");
    }
}

#[test]
fn every_page_is_whole_and_loads_nothing() {
    for (name, document) in documents() {
        let page = render_comparison(&document).expect(&name);
        page_checks::loads_nothing(&name, &page);
        page_checks::is_balanced(&name, &page);
        page_checks::strings_are_text(&name, &page);
        page_checks::ids_fit(&name, &page);
        page_checks::tables_are_described(&name, &page);
        let read: ComparisonDocument = serde_json::from_str(page_checks::data(&page)).expect(&name);
        assert_eq!(as_json(&read), as_json(&document), "{name}");
    }
}

#[test]
fn the_answer_is_in_the_headline() {
    let documents: std::collections::HashMap<String, ComparisonDocument> = documents().into_iter().collect();
    let told = |name: &str| headline(&documents[name]);
    assert_eq!(told("segmenter-repaired").tone, "good");
    assert!(told("segmenter-repaired").words.starts_with("The second is "));
    assert_eq!(told("repaired-segmenter").tone, "bad");
    assert!(told("segmenter-segmenter").words.contains("cannot be told apart"));
    assert_eq!(told("segmenter-emulated").tone, "warn");
    let page = render_comparison(&documents["segmenter-emulated"]).expect("page");
    assert!(page.contains("Times are not compared") && page.contains("no common scale"));
}

#[test]
fn both_bars_have_one_scale() {
    let samples = samples::all();
    let document = ComparisonDocument::of(&samples[0].1, &samples[1].1, Moments::InTurns);
    let widths = bars(&document, true).into_iter().map(|bar| bar.parts.iter().map(|part| part.width).sum::<f64>());
    let widths: Vec<f64> = widths.collect();
    assert!((widths[0] - 100.0).abs() < 1e-6 && widths[1] < 70.0, "{widths:?}");
}

/// What is not known is not equal to itself; its JSON is.
fn as_json(document: &impl serde::Serialize) -> String {
    serde_json::to_string(document).expect("JSON")
}
