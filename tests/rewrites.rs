//! Rules on exported programs: what they change, what the host refuses, and that torch gets the same
//! numbers, the same changed inputs and the same shared memory from the program that comes out.

use std::process::{Command, Stdio};

use dd_tests::{bundled_rule, python, test_rule, workspace};
use delegate_doctor::graph::{NodeId, Program, archive};
use delegate_doctor::matching::{Facts, Index};
use delegate_doctor::rewrite::{Proposals, ReferenceEvaluator, propose};
use delegate_doctor::sandbox::Rule;
use delegate_doctor::sandbox::contract::Numerics;

fn program(name: &str) -> Program {
    let folder = if name.contains('/') { "tests/fixtures" } else { "tests/fixtures/rewrites" };
    let path = workspace().join(folder).join(format!("{name}.pt2"));
    archive::read(&path, &archive::Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn asked(program: &Program, rule: &Rule) -> Proposals {
    let facts = Facts::default();
    propose(program, &Index::new(program, &facts), rule).unwrap_or_else(|error| panic!("{error}"))
}

fn name(program: &Program, node: NodeId) -> String {
    program.graph().node(node).map_or_else(|| node.to_string(), |node| node.name.clone())
}

/// Repaired programs that torch still has to run beside their originals, all in one process.
#[derive(Default)]
struct Pairs(Vec<(String, Program, Program, f64)>);

impl Pairs {
    /// The repaired program and how many sites were repaired; rounds go on until the rule is done.
    fn repaired(&mut self, fixture: &str, rule: &Rule) -> (Program, usize) {
        let (changed, sites, rtol) = repaired(fixture, rule);
        if sites > 0 {
            self.0.push((fixture.to_owned(), program(fixture), changed.clone(), rtol));
        }
        (changed, sites)
    }

    /// Torch gets the same from every pair.
    fn compare(self) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut command = Command::new(&python().python);
        command.arg(workspace().join("tests/fixtures/compare_programs.py"));
        for (index, (_, original, changed, rtol)) in self.0.iter().enumerate() {
            let path = |name: &str| folder.path().join(format!("{index}-{name}.pt2"));
            archive::write(original, &path("original")).unwrap_or_else(|error| panic!("{error}"));
            archive::write(changed, &path("changed")).unwrap_or_else(|error| panic!("{error}"));
            command.args([path("original"), path("changed")]).arg(rtol.to_string());
        }
        let output = command.stderr(Stdio::piped()).output().expect("Python starts");
        let (said, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let names: Vec<&str> = self.0.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(said.lines().count(), names.len(), "{names:?}: {said}{complaints}");
    }
}

fn repaired(fixture: &str, rule: &Rule) -> (Program, usize, f64) {
    let original = program(fixture);
    let mut current = original.clone();
    let (mut sites, mut exact) = (0, true);
    for round in 0.. {
        assert!(round < 8, "{fixture}: no end");
        let proposals = asked(&current, rule);
        assert!(proposals.refused.is_empty() && proposals.failed.is_empty(), "{fixture}: {proposals:?}");
        if proposals.draft.is_empty() {
            assert!(proposals.postponed.is_empty(), "{fixture}: {proposals:?}");
            break;
        }
        exact &= proposals.draft.proposals.iter().all(|one| one.numerics == Numerics::Exact);
        sites += proposals.draft.proposals.len();
        let patch = proposals
            .draft
            .finish(&current, &mut ReferenceEvaluator::default())
            .unwrap_or_else(|error| panic!("{fixture}: {error}"));
        assert!(patch.title.starts_with(&rule.origin()), "{}", patch.title);
        let applied = current.apply(&patch).unwrap_or_else(|error| panic!("{fixture}: {error}"));
        let back = applied.program.apply(&applied.inverse()).unwrap_or_else(|error| panic!("{fixture}: {error}"));
        assert_eq!(back.program.fingerprint(), current.fingerprint(), "{fixture}: the patch can be taken back");
        current = applied.program;
    }
    (current, sites, if exact { 0.0 } else { 1e-6 })
}

fn ops(program: &Program) -> Vec<&str> {
    program.graph().nodes().iter().map(|node| node.op.as_str()).collect()
}

#[test]
fn softmax_over_channels_becomes_a_matrix_softmax() {
    let mut pairs = Pairs::default();
    let rule = bundled_rule("dd-001");
    for fixture in ["programs/conv_softmax", "programs/decomposed", "programs/half"] {
        let original = program(fixture);
        let proposals = asked(&original, &rule);
        assert_eq!(proposals.draft.proposals.len(), 1, "{fixture}: {proposals:?}");
    }
    let (conv, sites) = pairs.repaired("programs/conv_softmax", &rule);
    assert_eq!(sites, 1);
    assert_eq!(
        ops(&conv),
        [
            "aten.conv2d.default",
            "aten.reshape.default",
            "aten.permute.default",
            "aten.softmax.int",
            "aten.permute.default",
            "aten.contiguous.default",
            "aten.reshape.default"
        ]
    );
    assert_eq!(pairs.repaired("programs/decomposed", &rule).1, 1);
    pairs.compare();
}

#[test]
fn softmax_of_every_rank_and_with_a_batch_that_varies() {
    let mut pairs = Pairs::default();
    let rule = bundled_rule("dd-001");
    // Four are not over the last dimension; the sixth reads the result of one of them.
    let (ranks, sites) = pairs.repaired("softmax_ranks", &rule);
    assert_eq!(sites, 4, "{:?}", ops(&ranks));
    assert_eq!(pairs.repaired("softmax_batch", &rule).1, 1);
    pairs.compare();
}

#[test]
fn a_softmax_between_writes_keeps_its_place_in_time() {
    let mut pairs = Pairs::default();
    assert_eq!(pairs.repaired("softmax_in_place", &bundled_rule("dd-001")).1, 1);
    pairs.compare();
}

#[test]
fn sizes_that_vary_elsewhere_and_other_types_are_declined_with_the_reason() {
    let rule = bundled_rule("dd-001");
    for (fixture, code) in
        [("programs/symbols", "dynamic-shape"), ("programs/dynamic_batch", "last-dimension"), ("programs/cond", "")]
    {
        let original = program(fixture);
        let proposals = asked(&original, &rule);
        assert!(proposals.draft.is_empty() && proposals.refused.is_empty(), "{fixture}: {proposals:?}");
        let codes: Vec<&str> = proposals.declined.iter().map(|declined| declined.reason.code.as_str()).collect();
        assert_eq!(codes, if code.is_empty() { vec![] } else { vec![code] }, "{fixture}");
    }
}

#[test]
fn aliases_go_in_chains_and_under_writes() {
    let mut pairs = Pairs::default();
    let rule = bundled_rule("dd-002");
    let (chain, sites) = pairs.repaired("alias_chain", &rule);
    assert_eq!(sites, 3);
    assert!(!ops(&chain).contains(&"aten.alias.default"));
    let (written, sites) = pairs.repaired("alias_in_place", &rule);
    assert_eq!(sites, 1);
    assert!(!ops(&written).contains(&"aten.alias.default"));
    assert_eq!(pairs.repaired("cat_plain", &rule).1, 1);
    pairs.compare();
}

#[test]
fn copies_that_matter_stay() {
    let rule = bundled_rule("dd-002");
    for (fixture, codes) in [
        ("cat_in_place", vec!["written-to"]),
        ("returned", vec!["returned-input", "both-returned"]),
        ("clone_in_place", vec!["already-free"]),
    ] {
        let original = program(fixture);
        let proposals = asked(&original, &rule);
        assert!(proposals.draft.is_empty() && proposals.refused.is_empty(), "{fixture}: {proposals:?}");
        let found: Vec<&str> = proposals.declined.iter().map(|declined| declined.reason.code.as_str()).collect();
        assert_eq!(found, codes, "{fixture}");
    }
}

#[test]
fn a_copy_whose_view_the_caller_gets_is_refused_by_the_host() {
    let original = program("cat_of_input");
    let proposals = asked(&original, &bundled_rule("dd-002"));
    assert!(proposals.draft.is_empty(), "{proposals:?}");
    let [refusal] = proposals.refused.as_slice() else { panic!("{proposals:?}") };
    assert_eq!(refusal.code, "storage");
    let text = refusal.to_string();
    assert!(text.contains("dd-002@1.0.0") && text.contains("`cat`") && text.contains("input `x`"), "{text}");
}

#[test]
fn poolings_of_every_kind_are_padded_first() {
    let mut pairs = Pairs::default();
    let rule = bundled_rule("dd-003");
    let (pools, sites) = pairs.repaired("pools", &rule);
    assert_eq!(sites, 7, "{:?}", ops(&pools));
    let stored = pools.graph().values().into_iter().filter(|value| {
        matches!(&value.source, delegate_doctor::graph::ValueSource::Constant(name) if name.starts_with("delegate_doctor"))
    });
    assert_eq!(stored.count(), 2, "maps are stored, not computed");
    assert!(!ops(&pools).contains(&"aten.full.default"));
    pairs.compare();
}

#[test]
fn a_rule_is_not_asked_about_its_own_nodes() {
    let rule = bundled_rule("dd-003");
    let (pools, ..) = repaired("pools", &rule);
    let again = asked(&pools, &rule);
    assert!(again.left_out.iter().all(|one| one.reason.contains("made this node itself")), "{:?}", again.left_out);
    assert!(again.left_out.len() >= 7);
}

#[test]
fn pooling_behind_a_dequantize_is_not_padded_directly() {
    let original = program("programs/quantized");
    let proposals = asked(&original, &bundled_rule("dd-003"));
    let patch = proposals.draft.finish(&original, &mut ReferenceEvaluator::default()).expect("patch");
    let applied = original.apply(&patch).expect("applies");
    assert!(!ops(&applied.program).contains(&"aten.constant_pad_nd.default"), "{:?}", ops(&applied.program));
    assert!(ops(&applied.program).contains(&"aten.mul.Tensor"));
}

#[test]
fn a_rule_that_drops_needed_clones_is_refused_by_the_host() {
    let rule = test_rule("test-drops-clone");
    for (fixture, says) in [
        ("clone_in_place", "written to"),
        ("programs/in_place", "written to"),
        ("clone_returned", "would become an input"),
    ] {
        let original = program(fixture);
        let proposals = asked(&original, &rule);
        assert!(proposals.draft.is_empty(), "{fixture}: {proposals:?}");
        let [refusal] = proposals.refused.as_slice() else { panic!("{fixture}: {proposals:?}") };
        assert!(refusal.reason.contains(says), "{fixture}: {refusal}");
        assert_eq!(name(&original, refusal.node), "clone");
    }
}

#[test]
fn test_rules_for_the_gates_pass_the_hosts_own_checks() {
    let mut pairs = Pairs::default();
    let softmax = program("programs/conv_softmax");
    for id in ["test-wrong-on-backend", "test-wrong-on-host"] {
        let proposals = asked(&softmax, &test_rule(id));
        assert_eq!(proposals.draft.proposals.len(), 1, "{id}: {proposals:?}");
        let patch = proposals.draft.finish(&softmax, &mut ReferenceEvaluator::default()).expect("patch");
        softmax.apply(&patch).unwrap_or_else(|error| panic!("{id}: {error}"));
    }
    assert_eq!(pairs.repaired("programs/conv_softmax", &test_rule("test-wrong-on-backend")).1, 1);
    let (slow, sites) = pairs.repaired("full_slice", &test_rule("test-slower"));
    assert_eq!(sites, 1);
    assert!(ops(&slow).len() > 30);
    pairs.compare();
}

#[test]
fn every_committed_program_survives_every_bundled_rule() {
    for id in ["dd-001", "dd-002", "dd-003"] {
        let rule = bundled_rule(id);
        for folder in ["programs", "rewrites"] {
            for entry in fs_err::read_dir(workspace().join("tests/fixtures").join(folder)).expect("fixtures") {
                let path = entry.expect("entry").path();
                let original = archive::read(&path, &archive::Limits::default()).expect("fixture");
                let proposals = asked(&original, &rule);
                assert!(proposals.failed.is_empty(), "{}: {:?}", path.display(), proposals.failed);
                let patch = proposals.draft.finish(&original, &mut ReferenceEvaluator::default());
                let patch = patch.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                original.apply(&patch).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
    }
}
