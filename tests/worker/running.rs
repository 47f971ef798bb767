//! Eager runs, whole and in parts, and the check by fake tensors.

use delegate_doctor::graph::ScalarType;
use delegate_doctor::tensor::Tensor;
use delegate_doctor::torch::Error;
use delegate_doctor::torch::protocol::{FailureKind, InputsFrom, NamedTensor, RunSet};

use crate::bench::{LIMIT, Place, numbers, shared};

fn tensor(sizes: &[usize], values: &[f32]) -> Tensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { dtype: ScalarType::Float32, sizes: sizes.to_vec(), bytes }
}

#[test]
fn inputs_outputs_and_changes_of_every_kind() {
    let mut worker = shared();
    let place = Place::new();
    let exported = place.exported(&mut worker, "many_kinds");
    assert_eq!(exported.inputs_from, InputsFrom::User);
    let described: Vec<(&str, &[u64])> =
        exported.inputs.iter().map(|file| (file.dtype.as_str(), file.sizes.as_slice())).collect();
    assert_eq!(
        described,
        [("int64", &[3][..]), ("float32", &[2]), ("bool", &[3]), ("bfloat16", &[3, 4])],
        "in the program's order, with the keyword arguments in the order of `forward`, without the argument that is None"
    );
    assert_eq!(numbers(&exported.inputs[0]), [1.0, 2.0, 3.0]);
    assert_eq!(numbers(&exported.inputs[2]), [1.0, 0.0, 1.0]);
    assert_eq!(numbers(&exported.inputs[3])[..2], [0.5, 0.5]);
    assert!(exported.sources.iter().any(|file| file.ends_with("many_kinds.py")), "{:?}", exported.sources);
    assert!(exported.sources.iter().all(|file| !file.to_string_lossy().contains("site-packages")));

    let set = |name: &str| RunSet { inputs: exported.inputs.clone(), out_dir: place.folder(name) };
    let sets = [set("first"), set("second")];
    let runs = worker.run_many(&exported.program, &sets, LIMIT).expect("runs");
    for run in &runs {
        assert_eq!(run.mutated_inputs, [2], "the mask is turned in place");
        let types: Vec<&str> = run.outputs.iter().map(|file| file.dtype.as_str()).collect();
        assert_eq!(types, ["float32", "float16", "float32"]);
        assert_eq!(run.names.len(), 3);
        assert_eq!(numbers(&run.outputs[2]), [1.5], "every run starts from the stored buffer");
        let found = numbers(&run.outputs[0]);
        assert!(found[..4].iter().all(|&x| x == 0.0) && found[4..8].iter().any(|&x| x != 0.0), "{found:?}");
    }
    assert_eq!(numbers(&runs[0].outputs[1]), numbers(&runs[1].outputs[1]));
}

#[test]
fn a_layout_is_recorded_and_used() {
    let mut worker = shared();
    let place = Place::new();
    let exported = place.exported(&mut worker, "changeable_batch");
    assert_eq!(exported.inputs[0].dim_order, [0, 2, 3, 1]);
    let run = worker.run(&exported.program, &exported.inputs, &place.folder("out"), LIMIT).expect("run");
    let mut other = exported.inputs.clone();
    other[0].dim_order = vec![0, 2, 2, 1];
    let error = worker.run(&exported.program, &other, &place.file("out"), LIMIT).expect_err("no order");
    assert!(error.to_string().contains("dimension order"), "{error}");
    // Another batch size within the bounds.
    let image = Tensor::read(&exported.inputs[0]).expect("image");
    let mut bytes = image.bytes.clone();
    bytes.extend_from_slice(&image.bytes);
    let larger = Tensor { dtype: image.dtype, sizes: vec![4, 3, 6, 6], bytes };
    let larger = larger.write(&place.inputs(), "larger").expect("write");
    let twice = worker.run(&exported.program, &[larger], &place.folder("twice"), LIMIT).expect("run");
    assert_eq!(twice.outputs[0].sizes, [4, 8, 16]);
    let (once, twice) = (numbers(&run.outputs[0]), numbers(&twice.outputs[0]));
    let worst = once.iter().zip(&twice).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-6, "{worst}");

    let checked = worker.check(&exported.program, LIMIT).expect("check");
    let image = checked.values.iter().find(|value| value.name == "image").expect("image");
    assert!(image.sizes[0].is_string() && image.sizes[1] == 3, "{image:?}");
    assert_eq!(image.strides[1], 1, "channels are innermost");
    assert_eq!((checked.user_inputs, checked.user_outputs), (vec!["image".to_owned()], vec!["softmax".to_owned()]));
}

#[test]
fn the_seed_decides_everything_random() {
    let mut worker = shared();
    let mut export = |seed: u64| {
        let place = Place::new();
        let exported = worker
            .export(&crate::bench::model("random_choice"), &place.file("m.pt2"), &place.inputs(), seed, LIMIT)
            .expect("export");
        let out = place.folder("out");
        let run = worker.run(&exported.program, &exported.inputs, &out, LIMIT).expect("run");
        (numbers(&exported.inputs[0]), numbers(&run.outputs[0]))
    };
    let first = export(1);
    assert_eq!(first, export(1));
    assert_ne!(first, export(2));
}

#[test]
fn a_part_of_a_program_is_computed_from_values_given() {
    let mut worker = shared();
    let place = Place::new();
    let exported = place.exported(&mut worker, "slice_of_everything");
    let names: Vec<String> = ["conv2d", "relu_", "alias", "relu__2"].map(str::to_owned).to_vec();
    let values =
        worker.capture(&exported.program, &exported.inputs, &names, &place.folder("values"), LIMIT).expect("capture");
    assert_eq!(values.iter().map(|value| value.name.as_str()).collect::<Vec<_>>(), names);
    let captured: Vec<Vec<f64>> = values.iter().map(|value| numbers(&value.tensor)).collect();
    assert!(captured[0].iter().any(|&x| x < 0.0), "as it was made, before the write in place");
    assert!(captured[1].iter().all(|&x| x >= 0.0));

    let feeds = [values[0].clone()];
    let found =
        worker.evaluate(&exported.program, &feeds, &names[2..], &place.folder("found"), LIMIT).expect("evaluate");
    assert_eq!(numbers(&found[0].tensor), captured[2]);
    assert_eq!(numbers(&found[1].tensor), captured[3]);
    assert_eq!(numbers(&feeds[0].tensor), captured[0], "what was given is not written to");

    // A value that is given decides, whatever the program would have computed.
    let zeros = tensor(&[1, 16, 8, 8], &[0.0; 1024]).write(&place.inputs(), "zeros").expect("write");
    let feeds = [NamedTensor { name: "alias".to_owned(), tensor: zeros }];
    let found = worker
        .evaluate(&exported.program, &feeds, &["conv2d_2".to_owned()], &place.folder("zero"), LIMIT)
        .expect("evaluate");
    let bias = worker
        .evaluate(&exported.program, &[], &["p_project_bias".to_owned()], &place.folder("bias"), LIMIT)
        .expect("parameters need no feeds");
    let (found, bias) = (numbers(&found[0].tensor), numbers(&bias[0].tensor));
    for (channel, bias) in bias.iter().enumerate() {
        assert!(found[channel * 64..(channel + 1) * 64].iter().all(|value| value == bias));
    }

    for (feeds, fetch, message) in [
        (&[][..], "relu_", "`image` is needed and was not given"),
        (&[][..], "no_such_value", "no value `no_such_value`"),
    ] {
        let error = worker
            .evaluate(&exported.program, feeds, &[fetch.to_owned()], &place.file("bias"), LIMIT)
            .expect_err(message);
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let mut worker = shared();
    let place = Place::new();
    let exported = place.exported(&mut worker, "softmax_over_channels");
    let out = place.folder("out");
    let small = tensor(&[1, 3, 2, 2], &[0.0; 12]).write(&place.inputs(), "small").expect("write");
    let mut cut = exported.inputs[0].clone();
    cut.sizes[0] = 2;
    let mut unknown = exported.inputs[0].clone();
    unknown.dtype = "float3".to_owned();
    for (inputs, kind, message) in [
        (vec![small], FailureKind::RunFailed, "cannot be run"),
        (vec![], FailureKind::RunFailed, "takes 1 input tensors, and 0 were given"),
        (vec![cut], FailureKind::BadRequest, "its sizes need"),
        (vec![unknown], FailureKind::BadRequest, "`float3`"),
    ] {
        let Err(Error::Failed { error, .. }) = worker.run(&exported.program, &inputs, &out, LIMIT) else {
            panic!("{message}");
        };
        assert_eq!(error.kind, kind, "{error:#?}");
        assert!(error.message.contains(message), "{error:#?}");
    }
    assert!(crate::bench::names(&out).is_empty());
    let error = worker
        .run(&exported.program, &exported.inputs, &place.file("missing"), LIMIT)
        .expect_err("no folder for the outputs");
    let Error::Failed { error, .. } = error else { panic!("{error}") };
    assert_eq!(error.kind, FailureKind::Disk, "{error:#?}");
}
