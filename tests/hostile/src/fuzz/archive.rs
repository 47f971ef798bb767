//! Programs whose JSON is not what the exporter writes.

use std::io::{Cursor, Read as _, Write as _};
use std::path::Path;

use arbitrary::Unstructured;
use delegate_doctor::graph::archive::{Limits, from_bytes, to_bytes};
use delegate_doctor::matching::{Facts, Index};
use serde_json::{Value, json};

use super::{PROGRAMS, fixture};

/// Bytes as an archive; as the JSON of a program in an archive; as changes to the JSON of one.
pub fn archive(data: &[u8]) {
    look(data.to_vec());
    look(with_model(PROGRAMS[0], data));
    let mut input = Unstructured::new(data);
    if let Ok((name, json)) = changed(&mut input) {
        look(with_model(name, json.to_string().as_bytes()));
    }
}

/// Whatever is read can be looked at, written, and read again as the same.
fn look(bytes: Vec<u8>) {
    let limits = Limits { json_bytes: 8 << 20, total_bytes: 64 << 20, ..Limits::default() };
    let Ok(program) = from_bytes(bytes, Path::new("input.pt2"), &limits) else { return };
    let facts = Facts::default();
    let _ = Index::new(&program, &facts).matches(&super::rewrite::everything(&program));
    for value in program.graph().values() {
        let _ = program.payload(value.id);
    }
    if let Ok(written) = to_bytes(&program) {
        let again = from_bytes(written, Path::new("written.pt2"), &limits).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again.fingerprint(), program.fingerprint());
    }
}

fn opened(name: &str) -> zip::ZipArchive<Cursor<Vec<u8>>> {
    let whole = zip::read::Config { archive_offset: zip::read::ArchiveOffset::Known(0) };
    let bytes = Cursor::new(fixture(&format!("{name}.pt2")));
    zip::ZipArchive::with_config(whole, bytes).expect("a fixture is a zip")
}

/// A committed program with other JSON.
fn with_model(name: &str, model: &[u8]) -> Vec<u8> {
    let mut source = opened(name);
    let mut target = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for index in 0..source.len() {
        let mut entry = source.by_index(index).expect("entry");
        let name = entry.name().expect("a plain name").into_owned();
        target.start_file(&name, options).expect("entry");
        if name.contains("/models/") {
            target.write_all(model).expect("memory");
        } else {
            std::io::copy(&mut entry, &mut target).expect("memory");
        }
    }
    target.finish().expect("memory").into_inner()
}

fn model(name: &str) -> Value {
    let mut source = opened(name);
    let mut names = source.file_names().filter_map(|name| name.ok().map(|name| name.into_owned()));
    let entry = names.find(|name| name.contains("/models/")).expect("a program");
    drop(names);
    let mut text = String::new();
    source.by_name(&entry).expect("entry").read_to_string(&mut text).expect("text");
    serde_json::from_str(&text).expect("a program is JSON")
}

/// The JSON of a program with a few of its parts exchanged for something else.
fn changed(input: &mut Unstructured<'_>) -> arbitrary::Result<(&'static str, Value)> {
    let name = *input.choose(&PROGRAMS)?;
    let mut json = model(name);
    for _ in 0..input.int_in_range(1..=4)? {
        let donor = place(&mut json, input)?.clone();
        let replacement = match input.int_in_range(0..=11)? {
            0 => Value::Null,
            1 => json!(-1),
            2 => json!(i64::MAX),
            3 => json!(i64::MIN),
            4 => json!(1e308),
            5 => json!(""),
            6 => json!([]),
            7 => json!({}),
            8 => json!(true),
            9 => json!("x"),
            _ => donor,
        };
        *place(&mut json, input)? = replacement;
    }
    Ok((name, json))
}

/// Somewhere in the tree: at every level the input says which way, or stops.
fn place<'a>(json: &'a mut Value, input: &mut Unstructured<'_>) -> arbitrary::Result<&'a mut Value> {
    let mut at = json;
    loop {
        let children = match at {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        if children == 0 || input.ratio(1, 12)? {
            return Ok(at);
        }
        let child = input.int_in_range(0..=children - 1)?;
        at = match at {
            Value::Array(items) => &mut items[child],
            Value::Object(fields) => fields.values_mut().nth(child).expect("counted"),
            _ => unreachable!("it has children"),
        };
    }
}
