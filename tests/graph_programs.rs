//! Programs that the host wrote, in torch: they load, and give what the originals give, bit for bit.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use delegate_doctor::graph::archive::{self, Limits};
use delegate_doctor::graph::patch::{Operand, ValueRef};
use delegate_doctor::graph::shapes::{self, ShapeArgument};
use delegate_doctor::graph::{Dim, Literal, NodeId, Patch, PatchEdit, Program, ScalarType, TensorMeta, ValueId};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");

fn programs() -> Vec<(String, PathBuf, Program)> {
    let mut all: Vec<(String, PathBuf, Program)> = fs_err::read_dir(Path::new(FIXTURES).join("programs"))
        .expect("folder")
        .map(|entry| {
            let path = entry.expect("entry").path();
            let name = path.file_stem().expect("name").to_string_lossy().into_owned();
            let program = archive::read(&path, &Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, path, program)
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(all.len() >= 19, "{}", all.len());
    all
}

/// Asserts that torch sees no difference between the programs of each pair.
fn assert_equal_in_torch(pairs: &[(String, PathBuf, PathBuf)]) {
    let mut child = Command::new(dd_tests::python().python)
        .arg(Path::new(FIXTURES).join("compare_bits.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let list: Vec<[&Path; 2]> = pairs.iter().map(|(_, a, b)| [a.as_path(), b.as_path()]).collect();
    let list = serde_json::to_vec(&list).expect("JSON");
    child.stdin.take().expect("stdin").write_all(&list).expect("written");
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<&str> = text.lines().filter(|line| *line == "null" || line.starts_with('"')).collect();
    assert_eq!(answers.len(), pairs.len(), "{text}");
    let different: Vec<String> = pairs
        .iter()
        .zip(answers)
        .filter(|(_, answer)| *answer != "null")
        .map(|((name, ..), answer)| format!("{name}: {answer}"))
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn unedited_programs_load_and_give_the_same_bits() {
    let folder = tempfile::tempdir().expect("folder");
    let pairs: Vec<_> = programs()
        .into_iter()
        .map(|(name, path, program)| {
            let written = folder.path().join(format!("{name}.pt2"));
            archive::write(&program, &written).expect("written");
            (name, path, written)
        })
        .collect();
    assert_equal_in_torch(&pairs);
}

/// Every floating value that a node makes: turned and turned back, and multiplied by a new constant 1,
/// before its first use.
fn harmless(program: &Program) -> Patch {
    let graph = program.graph();
    let mut patch = Patch { title: "harmless".to_owned(), edits: Vec::new() };
    let mut insertions = 0;
    for value in graph.values() {
        let Some(meta) = value.tensor() else { continue };
        let used = graph.uses(value.id).first().map(|used| used.node);
        let made = graph.producer(value.id).is_some();
        let (true, Some(before)) = (made && meta.dtype.is_floating(), used) else { continue };
        if program.aliases().is_mutated(value.id) {
            continue;
        }
        if let Some(edits) = around(meta, value.id, before, &mut insertions) {
            patch.edits.extend(edits);
        }
    }
    patch
}

fn around(meta: &TensorMeta, value: ValueId, before: NodeId, insertions: &mut usize) -> Option<Vec<PatchEdit>> {
    let rank = i64::try_from(meta.sizes.len()).expect("few axes");
    let dims = Literal::Ints((0..rank).rev().collect());
    let one = TensorMeta {
        dtype: meta.dtype,
        sizes: vec![Dim::Fixed(1); usize::from(rank > 0)],
        strides: vec![Dim::Fixed(1); usize::from(rank > 0)],
        storage_offset: Dim::Fixed(0),
        device: "cpu".to_owned(),
        layout: 7,
        requires_grad: false,
    };
    let bytes = match meta.dtype {
        ScalarType::Float32 => 1.0_f32.to_le_bytes().to_vec(),
        ScalarType::Float16 => vec![0x00, 0x3c],
        _ => return None,
    };
    let permute = |this: &TensorMeta| {
        let arguments = [("self", ShapeArgument::Tensor(this)), ("dims", ShapeArgument::Literal(&dims))];
        shapes::infer("aten.permute.default", &arguments).ok()?.pop()
    };
    let turned = permute(meta)?;
    let back = permute(&turned)?;
    let arguments = [("self", ShapeArgument::Tensor(&back)), ("other", ShapeArgument::Tensor(&one))];
    let product = shapes::infer("aten.mul.Tensor", &arguments).ok()?.pop()?;
    // A product is dense; where the value is not, this is no replacement.
    let strided = |meta: &TensorMeta| -> Vec<Option<i64>> {
        let visible = meta.sizes.iter().zip(&meta.strides).filter(|(size, _)| size.fixed() != Some(1));
        visible.map(|(_, stride)| stride.fixed()).collect()
    };
    if strided(&product) != strided(meta) {
        return None;
    }
    let first = *insertions;
    *insertions += 4;
    let created = |insertion| ValueRef::Created { insertion: first + insertion, output: 0 };
    let insert = |op: &str, inputs: Vec<(&str, Operand)>, output: TensorMeta| PatchEdit::Insert {
        before,
        op: op.to_owned(),
        inputs: inputs.into_iter().map(|(name, operand)| (name.to_owned(), operand)).collect(),
        outputs: vec![output],
        origin: "dd-000 0.0.0".to_owned(),
    };
    let order = || Operand::Literal(dims.clone());
    Some(vec![
        PatchEdit::Constant { meta: one, bytes, origin: "dd-000 0.0.0".to_owned() },
        insert(
            "aten.permute.default",
            vec![("self", Operand::Value(ValueRef::Existing(value))), ("dims", order())],
            turned,
        ),
        insert("aten.permute.default", vec![("self", Operand::Value(created(1))), ("dims", order())], back),
        insert(
            "aten.mul.Tensor",
            vec![("self", Operand::Value(created(2))), ("other", Operand::Value(created(0)))],
            product,
        ),
        PatchEdit::ReplaceAllUses { value, by: created(3) },
    ])
}

#[test]
fn patched_programs_load_and_give_the_same_bits_and_so_do_restored_ones() {
    let folder = tempfile::tempdir().expect("folder");
    let mut pairs = Vec::new();
    let mut inserted = 0;
    for (name, path, program) in programs() {
        let patch = harmless(&program);
        let applied = program.apply(&patch).unwrap_or_else(|error| panic!("{name}: {error}"));
        inserted += applied.created_nodes.len();
        let patched = folder.path().join(format!("{name}-patched.pt2"));
        archive::write(&applied.program, &patched).expect("written");
        let again = archive::read(&patched, &Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again.fingerprint(), applied.program.fingerprint(), "{name}");

        let restored = applied.program.apply(&applied.inverse()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(restored.program.fingerprint(), program.fingerprint(), "{name}");
        let back = folder.path().join(format!("{name}-restored.pt2"));
        archive::write(&restored.program, &back).expect("written");
        pairs.push((format!("{name}, patched"), path.clone(), patched));
        pairs.push((format!("{name}, restored"), path, back));
    }
    assert!(inserted > 60, "{inserted} nodes were inserted");
    assert_equal_in_torch(&pairs);
}
