//! `.pt2` files as models: good ones are copied byte by byte, damaged ones are named.

use std::io::{Read as _, Write as _};
use std::path::Path;

use delegate_doctor::torch::Error;
use delegate_doctor::torch::protocol::{FailureKind, InputsFrom, ModelSource};
use zip::write::SimpleFileOptions;

use crate::bench::{LIMIT, Place, numbers, shared};

/// Copies an archive, with the description changed by `edit` and without the samples when told so.
fn edited(from: &Path, to: &Path, samples: bool, edit: impl Fn(String) -> String) {
    let mut archive = zip::ZipArchive::new(fs_err::File::open(from).expect("open")).expect("archive");
    let mut copy = zip::ZipWriter::new(fs_err::File::create(to).expect("create"));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).expect("entry");
        let name = entry.name().expect("name").into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("read");
        if name.ends_with("models/model.json") {
            bytes = edit(String::from_utf8(bytes).expect("text")).into_bytes();
        } else if name.contains("sample_inputs") && !samples {
            bytes.clear();
        }
        copy.start_file(name, options).expect("entry");
        copy.write_all(&bytes).expect("write");
    }
    copy.finish().expect("finish");
}

#[test]
fn a_program_is_taken_over_with_its_samples_or_with_made_inputs() {
    let mut worker = shared();
    let first = Place::new();
    let exported = first.exported(&mut worker, "softmax_over_channels");
    let place = Place::new();
    let taken =
        place.export(&mut worker, &ModelSource::Program { path: exported.program.clone() }).expect("taken over");
    assert_eq!(taken.inputs_from, InputsFrom::Program);
    assert_eq!(numbers(&taken.inputs[0]), numbers(&exported.inputs[0]));
    let bytes = |path: &Path| fs_err::read(path).expect("read");
    assert_eq!(bytes(&taken.program), bytes(&exported.program));
    assert_eq!(taken.sources, std::slice::from_ref(&exported.program));

    let bare = first.file("bare.pt2");
    edited(&exported.program, &bare, false, |text| text);
    let mut generate = |seed: u64| {
        let place = Place::new();
        let source = ModelSource::Program { path: bare.clone() };
        let taken = worker.export(&source, &place.file("m.pt2"), &place.inputs(), seed, LIMIT).expect("taken over");
        assert_eq!((taken.inputs_from, taken.inputs[0].sizes.as_slice()), (InputsFrom::Generated, &[1, 3, 16, 16][..]));
        numbers(&taken.inputs[0])
    };
    assert_eq!(generate(1), generate(1));
    assert_ne!(generate(1), generate(2));
}

#[test]
fn damaged_and_foreign_programs_are_named() {
    let mut worker = shared();
    let place = Place::new();
    let good = place.exported(&mut worker, "softmax_over_channels").program;
    let bytes = fs_err::read(&good).expect("read");
    let bad = place.file("bad.pt2");
    let mut refused = |message: &str, hint: &str| {
        let (out, inputs) = (place.file("taken.pt2"), place.inputs());
        let error =
            worker.export(&ModelSource::Program { path: bad.clone() }, &out, &inputs, 0, LIMIT).expect_err(message);
        let Error::Failed { error: failure, .. } = &error else { panic!("{error}") };
        assert_eq!(failure.kind, FailureKind::ProgramInvalid, "{failure:#?}");
        assert!(failure.message.contains(message), "lacks `{message}`: {failure:#?}");
        assert!(error.hint().is_some_and(|text| text.contains(hint)), "{failure:#?}");
        assert!(!out.exists());
        assert!(worker.check(&bad, LIMIT).is_err());
    };
    fs_err::write(&bad, b"hello").expect("write");
    refused("not a ZIP archive", "torch.export.save");
    fs_err::write(&bad, &bytes[..bytes.len() / 2]).expect("write");
    refused("cut short", "torch.export.save");
    edited(&good, &bad, true, |text| {
        let mut description: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        description["schema_version"]["major"] = 99.into();
        description.to_string()
    });
    refused("schema version 99", "torch version that saved it");
    edited(&good, &bad, true, |text| text.replace("aten.relu.default", "aten.rebuke.default"));
    refused("`aten.rebuke.default`, which this torch does not have", "library");
    edited(&good, &bad, true, |_| "{".to_owned());
    refused("cannot load", "torch.export.save");
}

#[test]
fn fake_tensors_find_what_loading_lets_through() {
    let mut worker = shared();
    let place = Place::new();
    let good = place.exported(&mut worker, "softmax_over_channels").program;
    let checked = worker.check(&good, LIMIT).expect("check");
    let sizes = |name: &str| {
        let value = checked.values.iter().find(|value| value.name == name).expect(name);
        value.sizes.iter().map(|size| size.as_u64().expect("fixed")).collect::<Vec<_>>()
    };
    assert_eq!(sizes("conv2d_1"), [1, 5, 16, 16]);
    assert_eq!(sizes("p_features_weight"), [8, 3, 3, 3]);

    let bad = place.file("bad.pt2");
    // A dimension that the tensor does not have: torch loads it without a word.
    edited(&good, &bad, true, |text| {
        let mut description: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let nodes = description["graph_module"]["graph"]["nodes"].as_array_mut().expect("nodes");
        let softmax = nodes.iter_mut().find(|node| node["target"] == "torch.ops.aten.softmax.int").expect("softmax");
        softmax["inputs"][1]["arg"]["as_int"] = 7.into();
        description.to_string()
    });
    let Err(Error::Failed { error, .. }) = worker.check(&bad, LIMIT) else { panic!("dimension 7 is refused") };
    assert_eq!(error.kind, FailureKind::ProgramInvalid);
    assert!(error.message.contains("Node `softmax`"), "{error:#?}");

    // A parameter that is not what the graph says.
    edited(&good, &bad, true, |text| {
        let mut description: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        description["graph_module"]["graph"]["tensor_values"]["p_classes_bias"]["sizes"][0]["as_int"] = 6.into();
        description.to_string()
    });
    let Err(Error::Failed { error, .. }) = worker.check(&bad, LIMIT) else { panic!("sizes are compared") };
    assert!(error.message.contains("`classes.bias`"), "{error:#?}");
}
