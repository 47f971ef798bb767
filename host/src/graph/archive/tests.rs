use std::io::{Cursor, Read as _, Write as _};
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::super::patch::{Operand, ValueRef};
use super::super::{Patch, PatchEdit, ScalarType, fixtures, parse};
use super::*;

const NAME: &str = "test.pt2";

fn bytes_of(name: &str) -> Vec<u8> {
    fs_err::read(fixtures::folder().join(format!("{name}.pt2"))).expect("fixture")
}

fn reading(bytes: Vec<u8>) -> Result<Program, Error> {
    from_bytes(bytes, Path::new(NAME), &Limits::default())
}

fn message(result: Result<Program, Error>) -> String {
    let error = result.expect_err("refused");
    let source = std::error::Error::source(&error).map(|source| format!(" <- {source}")).unwrap_or_default();
    format!("{error}{source}")
}

/// Every entry: name, content, compressed.
fn entries(bytes: &[u8]) -> Vec<(String, Vec<u8>, bool)> {
    let mut zip = ZipArchive::with_config(container::WHOLE_FILE, Cursor::new(bytes)).expect("zip");
    (0..zip.len())
        .map(|index| {
            let mut file = zip.by_index(index).expect("entry");
            let mut content = Vec::new();
            file.read_to_end(&mut content).expect("content");
            (file.name().expect("name").into_owned(), content, file.compression() != CompressionMethod::Stored)
        })
        .collect()
}

fn zip_of(entries: &[(String, Vec<u8>, bool)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content, deflate) in entries {
        let method = if *deflate { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        writer.start_file(name.as_str(), SimpleFileOptions::default().compression_method(method)).expect("start");
        writer.write_all(content).expect("write");
    }
    writer.finish().expect("finish").into_inner()
}

/// A fixture with its entries changed.
fn changed(name: &str, change: impl FnOnce(&mut Vec<(String, Vec<u8>, bool)>)) -> Vec<u8> {
    let mut all = entries(&bytes_of(name));
    change(&mut all);
    zip_of(&all)
}

/// A fixture with its program's JSON changed.
fn changed_json(name: &str, change: impl FnOnce(&mut Json)) -> Vec<u8> {
    changed(name, |entries| {
        let entry = entries.iter_mut().find(|entry| entry.0.ends_with("models/model.json")).expect("model");
        let mut json: Json = serde_json::from_slice(&entry.1).expect("JSON");
        change(&mut json);
        entry.1 = serde_json::to_vec(&json).expect("JSON");
    })
}

#[test]
fn an_unedited_program_is_written_entry_by_entry_as_it_was_read() {
    for (name, program) in fixtures::programs() {
        let written = to_bytes(&program).expect("bytes");
        assert_eq!(entries(&written), entries(&bytes_of(&name)), "{name}");
        assert_eq!(reading(written).expect("again").fingerprint(), program.fingerprint(), "{name}");
    }
}

#[test]
fn the_json_of_an_unedited_graph_can_be_made_again_from_its_typed_form() {
    for (name, program) in fixtures::programs() {
        let container = &program.source().container;
        let read = container.json(&container.model_entry()).expect("JSON");
        assert_eq!(program.document().expect("JSON"), read, "{name}");
        let again = parse::program(program.document().expect("JSON")).expect("parse");
        assert_eq!(again.graph.nodes(), program.graph().nodes(), "{name}");
    }
}

#[test]
fn what_this_version_does_not_know_survives() {
    let bytes = changed_json("cond", |json| {
        json["future"] = json!({"a": [1, 2.5, null]});
        json["schema_version"]["minor"] = json!(99);
        let graph = &mut json["graph_module"]["graph"];
        graph["more"] = json!([true]);
        graph["tensor_values"]["orphan"] = graph["tensor_values"]["x"].clone();
        graph["tensor_values"]["relu"]["blocks"] = json!(3);
        graph["nodes"][0]["color"] = json!("red");
        graph["nodes"][1]["inputs"][0]["hue"] = json!(7);
        graph["nodes"][2]["inputs"][1]["arg"] = json!({"as_future": {"name": "x", "deep": [{"as_name": "sum_1"}]}});
        graph["nodes"][4]["name"] = Json::Null;
    });
    let bytes = {
        let mut all = entries(&bytes);
        all.insert(2, ("cond/extra/notes.txt".to_owned(), b"keep".repeat(50), true));
        all.push(("cond/models/model.bin".to_owned(), vec![0, 159, 146, 150], false));
        zip_of(&all)
    };
    let program = reading(bytes.clone()).expect("readable");
    assert_eq!(entries(&to_bytes(&program).expect("bytes")), entries(&bytes));
    let container = &program.source().container;
    assert_eq!(program.document().expect("JSON"), container.json(&container.model_entry()).expect("JSON"));
    let graph = program.graph();
    let node = graph.node_named("gt").expect("node");
    let Some(crate::graph::Argument::Opaque { mentions, .. }) = node.input("other") else { panic!("{node:?}") };
    let names: Vec<_> =
        mentions.iter().filter_map(|value| graph.value(*value)).map(|value| value.name.as_str()).collect();
    assert_eq!(names, ["x", "sum_1"]);
    assert!(graph.value_named("orphan").is_none());

    // An edit elsewhere, and one of such a node, leave all of it in place.
    let value = |name: &str| graph.value_named(name).expect("value");
    let alias = |name: &str, before: &str| {
        let meta = value(name).tensor().expect("tensor").clone();
        let edits = vec![
            PatchEdit::Insert {
                before: graph.node_named(before).expect("node").id,
                op: "aten.alias.default".to_owned(),
                inputs: vec![("self".to_owned(), Operand::Value(ValueRef::Existing(value(name).id)))],
                outputs: vec![meta],
                origin: "dd-000 1.0.0".to_owned(),
            },
            PatchEdit::ReplaceAllUses { value: value(name).id, by: ValueRef::Created { insertion: 0, output: 0 } },
        ];
        Patch { title: "alias".to_owned(), edits }
    };
    let applied = program.apply(&alias("gt", "cond")).expect("applies");
    let applied = applied.program.apply(&alias("p_linear_weight", "linear")).expect("applies");
    let json = applied.program.document().expect("JSON");
    let graph_json = &json["graph_module"]["graph"];
    assert_eq!(json["future"]["a"], json!([1, 2.5, null]));
    assert_eq!((&graph_json["more"], &graph_json["nodes"][1]["color"]), (&json!([true]), &json!("red")));
    assert_eq!(graph_json["nodes"][1]["inputs"][1]["arg"]["as_tensor"]["name"], "alias_1");
    assert_eq!(graph_json["nodes"][2]["inputs"][0]["hue"], 7);
    assert_eq!(graph_json["tensor_values"]["relu"]["blocks"], 3);
    assert!(graph_json["tensor_values"].get("orphan").is_some());
    // What only a kept argument mentions cannot be replaced there.
    let error = program.apply(&alias("sum_1", "gt")).expect_err("kept").to_string();
    assert!(error.contains("`sum_1` is used in an argument of `gt` that cannot be changed"), "{error}");
}

#[test]
fn content_is_read_through_the_metadata_of_each_tensor() {
    let program = fixtures::program("tied_weights");
    let read = |name: &str| {
        let value = program.graph().value_named(name).expect("value");
        program.payload(value.id).expect("payload").expect("stored")
    };
    let whole = read("b_whole").to_f64().expect("floats");
    assert_eq!(read("b_part").to_f64().expect("floats"), [whole[5], whole[6], whole[9], whole[10]]);
    assert_eq!(read("b_turned").sizes, [4, 3]);
    assert_eq!(read("b_turned").to_f64().expect("floats")[..3], [whole[0], whole[4], whole[8]]);
    let integers = fixtures::program("integers");
    let lifted = integers.graph().value_named("c_lifted_tensor_0").expect("value").id;
    let lifted = integers.payload(lifted).expect("payload").expect("stored");
    assert_eq!((lifted.dtype, lifted.to_f64()), (ScalarType::Int64, Some(vec![0.0, 2.0])));
    let tokens = integers.graph().value_named("tokens").expect("value").id;
    assert_eq!(integers.payload(tokens).expect("no payload"), None);
}

#[test]
fn other_files_are_refused_by_what_they_are() {
    assert!(message(reading(b"import torch\n".to_vec())).contains("is not a `.pt2` archive"));
    assert!(message(reading(Vec::new())).contains("is not a `.pt2` archive"));
    let whole = bytes_of("conv_softmax");
    for length in [1, whole.len() / 2, whole.len() - 1] {
        assert!(message(reading(whole[..length].to_vec())).contains("cut off"), "{length}");
    }
    let old = zip_of(&[("serialized_exported_program.json".to_owned(), b"{}".to_vec(), false)]);
    assert!(message(reading(old)).contains("PyTorch 2.7 or earlier"));
    let folder = tempfile::tempdir().expect("folder");
    assert!(matches!(read(folder.path(), &Limits::default()), Err(Error::Read { .. })));
    assert!(matches!(read(&folder.path().join("none.pt2"), &Limits::default()), Err(Error::Read { .. })));
}

#[test]
fn unknown_versions_are_refused_with_a_hint() {
    let major = changed_json("conv_softmax", |json| json["schema_version"]["major"] = json!(9));
    let error = reading(major).expect_err("refused");
    assert_eq!(error.to_string(), "`test.pt2` has program schema version 9, and only 8 is known here");
    assert!(error.hint().is_some_and(|hint| hint.contains("2.15")));
    let layout = |name: &'static str, content: &'static [u8]| {
        changed("conv_softmax", move |all| {
            all.iter_mut().find(|entry| entry.0.ends_with(name)).expect("entry").1 = content.to_vec();
        })
    };
    assert!(message(reading(layout("archive_version", b"1"))).contains("archive version `1`"));
    assert!(message(reading(layout("archive_format", b"pt3"))).contains("archive format `pt3`"));
    let none = changed_json("conv_softmax", |json| json["schema_version"] = json!("8"));
    assert!(message(reading(none)).contains("schema_version.major"));
}

#[test]
fn missing_entries_are_named() {
    for entry in
        ["archive_format", "archive_version", "data/weights/model_weights_config.json", "data/weights/weight_1"]
    {
        let bytes = changed("conv_softmax", |all| all.retain(|(name, ..)| !name.ends_with(entry)));
        let text = message(reading(bytes));
        assert!(text.contains(entry), "{entry}: {text}");
    }
    let bytes = changed("conv_softmax", |all| all.retain(|(name, ..)| !name.contains("models/")));
    assert!(message(reading(bytes)).contains("`models/model.json`"));
    let bytes = changed("conv_softmax", |all| {
        let other = all.iter().find(|entry| entry.0.ends_with("models/model.json")).expect("model").1.clone();
        all.push(("conv_softmax/models/other.json".to_owned(), other, false));
    });
    assert!(message(reading(bytes)).contains("several programs: model, other"));
}

#[test]
fn names_that_leave_their_folder_are_refused() {
    for (name, why) in [
        ("conv_softmax/../../etc/passwd", "steps out"),
        ("/etc/passwd", "absolute"),
        ("C:/windows", "absolute"),
        ("conv_softmax\\data", "backslash"),
        ("conv_softmax//data", "empty part"),
        ("elsewhere/data", "not below one folder"),
    ] {
        let bytes = changed("conv_softmax", |all| all.push((name.to_owned(), Vec::new(), false)));
        let text = message(reading(bytes));
        assert!(text.contains(why), "{name}: {text}");
    }
    // The writer refuses two entries of one name, so the second is renamed in the bytes.
    let mut bytes = changed("conv_softmax", |all| all.push(("conv_softmax/bytesordeR".to_owned(), Vec::new(), false)));
    let other = changed("conv_softmax", |all| all.push(("conv_softmax/archive_versioN".to_owned(), Vec::new(), false)));
    assert!(reading(bytes.clone()).is_ok() && reading(other.clone()).is_ok());
    bytes = other;
    while let Some(at) = bytes.windows(15).position(|window| window == b"archive_versioN") {
        bytes[at + 14] = b'n';
    }
    assert!(message(reading(bytes)).contains("two entries have the same name"));
}

#[test]
fn limits_hold() {
    let bytes = bytes_of("conv_softmax");
    let within = |limits: Limits| message(from_bytes(bytes.clone(), Path::new(NAME), &limits));
    assert!(within(Limits { entries: 3, ..Limits::default() }).contains("the number of entries is"));
    assert!(within(Limits { total_bytes: 1000, ..Limits::default() }).contains("the uncompressed size is"));
    assert!(within(Limits { json_bytes: 1000, ..Limits::default() }).contains("the size of `models/model.json` is"));
    let bomb = changed("conv_softmax", |all| {
        all.push(("conv_softmax/extra/zeros".to_owned(), vec![0; 4 << 20], true));
    });
    assert!(message(reading(bomb)).contains("the compression ratio of `conv_softmax/extra/zeros`"));
}

#[test]
fn a_changed_byte_of_a_payload_is_found() {
    let whole = bytes_of("conv_softmax");
    let program = reading(whole.clone()).expect("whole");
    let weight = program.graph().value_named("p_conv_weight").expect("value").id;
    let content = program.payload(weight).expect("payload").expect("stored").bytes;
    let at = whole.windows(content.len()).position(|window| window == content).expect("stored uncompressed");
    let mut bytes = whole;
    bytes[at + 5] ^= 1;
    let text = message(reading(bytes));
    assert!(text.contains("is damaged") && text.contains("weight_0"), "{text}");
}

#[test]
fn graphs_that_do_not_hold_together_are_refused_with_the_place() {
    type Change = fn(&mut Json);
    let broken: [(&str, Change); 9] = [
        ("graph.nodes: expected a list", |graph| graph["nodes"] = json!(1)),
        ("nodes[0]: no `target`", |graph| graph["nodes"][0] = json!({})),
        ("nodes[0] (`torch.ops.aten.conv2d.default`).inputs: expected a list", |graph| {
            graph["nodes"][0]["inputs"] = json!(null)
        }),
        ("value `nothing` does not exist", |graph| {
            graph["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = json!("nothing")
        }),
        ("value `softmax` is used before it is made", |graph| {
            graph["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = json!("softmax")
        }),
        ("value `x` is made a second time", |graph| graph["nodes"][0]["outputs"][0]["as_tensor"]["name"] = json!("x")),
        ("tensor_values.x: not tensor metadata", |graph| {
            graph["tensor_values"]["x"]["sizes"] = json!([{"as_int": "n"}])
        }),
        ("signature.input_specs: has 3 entries where the graph has 2", |graph| {
            drop(graph["inputs"].as_array_mut().map(Vec::pop))
        }),
        ("graph.outputs[0]: value `gone` does not exist", |graph| {
            graph["outputs"][0]["as_tensor"]["name"] = json!("gone")
        }),
    ];
    for (expected, change) in broken {
        let text = message(reading(changed_json("conv_softmax", |json| change(&mut json["graph_module"]["graph"]))));
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("out.pt2");
    fs_err::write(&path, b"old").expect("old");
    let program = fixtures::program("conv_softmax");
    let error = write(&program, &folder.path().join("missing/out.pt2")).expect_err("no folder");
    assert!(error.to_string().contains("missing/out.pt2"), "{error}");
    write(&program, &path).expect("written");
    // Onto the file that it was read from.
    let again = read(&path, &Limits::default()).expect("readable");
    write(&again, &path).expect("written");
    assert_eq!(read(&path, &Limits::default()).expect("readable").fingerprint(), program.fingerprint());
    assert_eq!(fs_err::read_dir(folder.path()).expect("folder").count(), 1);
}

/// Every place in a JSON document, as pointers.
fn places(json: &Json, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match json {
        Json::Object(map) => {
            for (key, value) in map {
                places(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        Json::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                places(value, &format!("{at}/{index}"), all);
            }
        }
        _ => {}
    }
}

fn replacement() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        Just(json!(-1)),
        Just(json!(i64::MAX)),
        Just(json!(0.5)),
        Just(json!("x")),
        Just(json!([])),
        Just(json!({})),
        Just(json!({"as_tensor": {"name": "x"}})),
        Just(json!({"as_tensors": [{"name": "x"}, {}]})),
        Just(json!({"as_int": 3})),
        Just(json!({"as_sym_int": {"as_name": "x"}})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn changed_json_is_refused_or_survives_but_never_panics(
        name in prop::sample::select(vec!["cond", "several_outputs", "symbols", "integers", "mutated_buffer_decomposed"]),
        picks in prop::collection::vec((any::<prop::sample::Index>(), replacement()), 1..4),
    ) {
        let program = fixtures::program(name);
        let container = &program.source().container;
        let mut json = container.json(&container.model_entry()).expect("JSON");
        for (pick, value) in picks {
            let mut all = Vec::new();
            places(&json, "", &mut all);
            if let Some(place) = json.pointer_mut(pick.get::<String>(&all)) {
                *place = value;
            }
        }
        let bytes = changed_json(name, |old| *old = json.clone());
        if let Ok(program) = reading(bytes) {
            prop_assert_eq!(program.document().expect("JSON"), json);
            let _ = program.aliases();
            let _ = program.fingerprint();
        }
    }

    #[test]
    fn changed_zip_bytes_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(), whole in any::<bool>()) {
        let mut bytes = bytes_of("several_outputs");
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(program) = reading(bytes) {
            let _ = to_bytes(&program);
        }
    }
}
