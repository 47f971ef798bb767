//! What can be refused before anything is made: no run folder appears, and no Python is started.

use std::io::Write as _;

use dd_tests::Sandbox;
use zip::write::SimpleFileOptions;

use crate::place::{Expected, files, program, told};

/// Refused, and the working folder is as it was.
fn refused(sandbox: &Sandbox, name: &str, arguments: &[&str], expected: &Expected<'_>) {
    let before = files(&sandbox.work());
    let ran = sandbox.run(["optimize"].iter().chain(arguments));
    told(name, &ran, expected);
    assert_eq!(files(&sandbox.work()), before, "{name} makes something");
    assert!(files(&sandbox.home()).is_empty(), "{name}");
}

#[test]
fn what_is_no_model_is_refused() {
    let sandbox = Sandbox::new();
    for file in ["lowered.pte", "weights.pth", "weights.safetensors", "other.onnx", "picture.png", "plain"] {
        sandbox.write(file, "x");
    }
    fs_err::create_dir(sandbox.work().join("folder.py")).expect("folder");
    for (given, words, hint) in [
        ("", "The model argument is empty", "delegate_doctor_model()"),
        ("   ", "The model argument is empty", "delegate_doctor_model()"),
        ("missing.py", "There is no model at `missing.py`", "Check the spelling"),
        ("missing.pt2", "There is no model at `missing.pt2`", "Check the spelling"),
        ("missing", "There is no model at `missing`", "`module:callable`"),
        ("folder.py", "`folder.py` is a folder", "`.py` file"),
        ("lowered.pte", "it is a lowered program", "can no longer be repaired"),
        ("weights.pth", "it holds weights without the model's code", "delegate_doctor_model()"),
        ("weights.safetensors", "it holds weights without the model's code", "delegate_doctor_model()"),
        ("other.onnx", "it comes from another framework", "`.pt2`"),
        ("picture.png", "its ending is neither `.py` nor `.pt2`", "`.py` file"),
        ("plain", "its ending is neither `.py` nor `.pt2`", "`.py` file"),
        ("zoo:", "`zoo:` is not of the form `module:callable`", "my_package.models:segmenter"),
        ("zoo.2d:net", "`zoo.2d:net` is not of the form", "my_package.models:segmenter"),
        ("zoo:net()", "`zoo:net()` is not of the form", "my_package.models:segmenter"),
    ] {
        refused(&sandbox, given, &[given], &Expected { words: &[words], hint });
    }
}

#[test]
fn settings_without_sense_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("net.py", "");
    for (flags, words) in [
        (&["--threads", "0"][..], "`threads` must be 1 or more: `0`"),
        (&["--threads=-1"], "'-1' for '--threads <N>'"),
        (&["--threads", "99999999999"], "'99999999999' for '--threads <N>'"),
        (&["--min-gain", "nan"], "`min-gain` must be a ratio from 1 to 100: `NaN`"),
        (&["--min-gain", "inf"], "`min-gain` must be a ratio from 1 to 100: `inf`"),
        (&["--min-gain", "0.99"], "`min-gain` must be a ratio from 1 to 100: `0.99`"),
        (&["--min-share", "nan"], "`min-share` must be a share from 0 to 1: `NaN`"),
        (&["--min-share", "1.1"], "`min-share` must be a share from 0 to 1: `1.1`"),
        (&["--max-rounds", "0"], "`max-rounds` must be 1 or more: `0`"),
        (&["--max-seconds", "0"], "`max-seconds` must be a number of seconds above 0: `0`"),
        (&["--max-seconds", "nan"], "`max-seconds` must be a number of seconds above 0: `NaN`"),
        (&["--model-timeout", "1e300"], "`model-timeout` must be a number of seconds above 0"),
        (&["--model-timeout=-1"], "`model-timeout` must be a number of seconds above 0: `-1`"),
        (&["--memory-limit", "lots"], "expected a size like `8GiB`"),
        (&["--jobs", "0"], "`jobs` must be 1 or more: `0`"),
        (&["--seed", "random"], "'random' for '--seed <N>'"),
        (&["--target", "phone"], "it is one of `local`, `qemu[:CPU]`, `adb[:SERIAL]` and `ssh:HOST`"),
        (&["--target", "ssh:-oProxyCommand=x"], "`-oProxyCommand=x` is no name of a host"),
        (&["--target", "local:2"], "this host has no further name"),
        (&["--format", "xml"], "[possible values: text, json]"),
    ] {
        let arguments: Vec<&str> = ["net.py"].iter().chain(flags).copied().collect();
        // The message itself says what is allowed.
        refused(&sandbox, &flags.join(" "), &arguments, &Expected { words: &[words], hint: "" });
    }
}

/// The fixture's archive with every entry as `change` wants it; `None` leaves one out.
fn changed(change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>>, more: &[(&str, &[u8])]) -> Vec<u8> {
    let bytes = program("conv_softmax");
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).expect("fixture");
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let packed = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).expect("entry");
        let name = entry.name().expect("name").into_owned();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).expect("content");
        if let Some(content) = change(&name, content) {
            writer.start_file(name, stored).expect("entry");
            writer.write_all(&content).expect("write");
        }
    }
    for (name, content) in more {
        writer.start_file(*name, packed).expect("entry");
        writer.write_all(content).expect("write");
    }
    writer.finish().expect("finish").into_inner()
}

/// The fixture with another text in its graph.
fn with_graph(change: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
    changed(
        |name, content| {
            if !name.ends_with("models/model.json") {
                return Some(content);
            }
            let mut graph = serde_json::from_slice(&content).expect("JSON");
            change(&mut graph);
            Some(serde_json::to_vec(&graph).expect("JSON"))
        },
        &[],
    )
}

#[test]
fn a_program_that_cannot_be_used_is_refused_before_torch_opens_it() {
    let sandbox = Sandbox::new();
    let whole = program("conv_softmax");
    let same = |_: &str, content: Vec<u8>| Some(content);
    let noise: Vec<u8> = (0..4096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let zeros = vec![0_u8; 1 << 28];
    for (file, content, words, hint) in [
        ("empty", Vec::new(), "is not a `.pt2` archive", "torch.export.save"),
        ("random", noise, "is not a `.pt2` archive", "arrived whole"),
        (
            "cut",
            whole[..whole.len() / 2].to_vec(),
            "is not a `.pt2` archive: it is no zip file, or cut off",
            "arrived whole",
        ),
        ("newer", with_graph(|graph| graph["schema_version"]["major"] = 99.into()), "99", "2.15"),
        (
            "nonsense",
            changed(|name, content| Some(if name.ends_with("model.json") { b"{".to_vec() } else { content }), &[]),
            "is not valid JSON",
            "Export the model again",
        ),
        (
            "no-nodes",
            with_graph(|graph| graph["graph_module"] = 7.into()),
            "is not a program",
            "Export the model again",
        ),
        (
            "no-program",
            changed(|name, content| (!name.contains("models/")).then_some(content), &[]),
            "has no entry",
            "torch.export.save",
        ),
        ("bomb", changed(same, &[("conv_softmax/data/extra", &zeros)]), "is refused", "export the model anew"),
        ("escape", changed(same, &[("../../escaped", b"x")]), "unacceptable entry name", "export the model anew"),
        ("absolute", changed(same, &[("/tmp/escaped", b"x")]), "unacceptable entry name", "export the model anew"),
    ] {
        let file = format!("{file}.pt2");
        sandbox.write(&file, content);
        refused(&sandbox, &file, &[&file], &Expected { words: &[&file, words], hint });
    }
    assert!(!sandbox.work().join("../../escaped").exists());
}

#[test]
fn code_that_a_program_brings_along_does_not_run() {
    let sandbox = Sandbox::new();
    let mark = sandbox.work().join("ran");
    let pickle = format!("cposix\nsystem\n(S'touch {}'\ntR.", mark.display());
    let content = changed(
        |name, content| {
            Some(if name.ends_with("sample_inputs/model.pt") { pickle.clone().into_bytes() } else { content })
        },
        &[],
    );
    assert_ne!(content, changed(|_, content| Some(content), &[]), "the fixture has sample inputs");
    sandbox.write("code.pt2", content);
    let words = "loading those would run code of the file";
    let expected = Expected { words: &["code.pt2", words], hint: "tensors, numbers, text, lists and dictionaries" };
    told("code.pt2", &sandbox.run(["optimize", "code.pt2"]), &expected);
    assert!(!mark.exists(), "it ran");
}
