//! Sites of the committed programs.

use super::*;

use crate::graph::fixtures;
use crate::sandbox::contract::{Argument, Dim, Literal, Numerics, ProducerConstraint, Stability, ValueSource};

fn manifest(anchors: Vec<Anchor>) -> Manifest {
    Manifest {
        id: "test".to_owned(),
        version: "1.0.0".to_owned(),
        title: String::new(),
        summary: String::new(),
        stability: Stability::Stable,
        numerics: Numerics::Exact,
        backends: Vec::new(),
        anchors,
        codes: Vec::new(),
        hints: Vec::new(),
    }
}

fn anchor(ops: &[&str], producer_depth: u8, consumer_depth: u8) -> Anchor {
    Anchor {
        ops: ops.iter().map(|&op| op.to_owned()).collect(),
        producers: Vec::new(),
        producer_depth,
        consumer_depth,
        only_outside_delegate: false,
    }
}

fn matches(program: &Program, facts: &Facts, anchors: Vec<Anchor>) -> Vec<Arc<Match>> {
    Index::new(program, facts).matches(&manifest(anchors)).matches
}

#[test]
fn a_site_shows_the_anchor_with_defaults_and_its_surroundings() {
    let program = fixtures::program("conv_softmax");
    let mut facts = Facts::default();
    let remark = Remark { code: "constraint".to_owned(), text: "dim".to_owned() };
    facts.outside.insert("softmax".to_owned(), vec![remark]);
    facts.share.insert("softmax".to_owned(), 0.25);
    let found = matches(&program, &facts, vec![anchor(&["aten.softmax.int"], 1, 1)]);
    let [one] = found.as_slice() else { panic!("{found:?}") };
    let site = &one.site;
    assert!(site.complete);
    assert_eq!(
        site.nodes.iter().map(|node| node.op.as_str()).collect::<Vec<_>>(),
        ["aten.softmax.int", "aten.conv2d.default"]
    );
    let names: Vec<&str> = site.nodes[0].inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["self", "dim", "dtype"], "the default of dtype is filled in");
    assert_eq!(site.nodes[0].inputs[2].argument, Argument::Literal(Literal::None));
    assert!(site.nodes[0].outside_delegate && !site.nodes[1].outside_delegate);
    assert_eq!((site.nodes[0].share, site.nodes[1].share), (Some(0.2), None));
    assert_eq!(site.findings.len(), 1);
    assert_eq!(site.values[0].source, ValueSource::Node(1), "the softmax reads the convolution");
    assert_eq!(site.values[0].use_count, 1);
    assert!(site.values[1].is_graph_output);
    assert_eq!(site.uses, [UseSite { value: 0, consumer: 0, input: 0 }]);
    assert!(site.values.iter().any(|value| matches!(value.source, ValueSource::Parameter(_)) && value.is_constant));
    let alone = &matches(&program, &facts, vec![anchor(&["aten.softmax.int"], 0, 0)])[0].site;
    assert_eq!(alone.nodes.len(), 1);
    assert_eq!(alone.values[0].source, ValueSource::Node(1), "a producer outside the site has an id of its own");
}

#[test]
fn anchors_can_ask_for_producers_and_for_what_runs_outside() {
    let program = fixtures::program("conv_softmax");
    let facts = Facts::default();
    let fed_by = |op: &str| {
        let mut one = anchor(&["aten.softmax.int"], 0, 0);
        one.producers.push(ProducerConstraint { input: "self".to_owned(), ops: vec![op.to_owned()] });
        matches(&program, &facts, vec![one]).len()
    };
    assert_eq!((fed_by("aten.conv2d.default"), fed_by("aten.relu.default")), (1, 0));
    let outside = Anchor { only_outside_delegate: true, ..anchor(&["aten.softmax.int"], 0, 0) };
    assert_eq!(matches(&program, &facts, vec![outside.clone()]).len(), 0);
    let mut known = Facts::default();
    known.outside.insert("softmax".to_owned(), Vec::new());
    assert_eq!(matches(&program, &known, vec![outside]).len(), 1);
    let mut for_others = manifest(vec![anchor(&["aten.softmax.int"], 0, 0)]);
    for_others.backends = vec!["vulkan".to_owned()];
    assert!(Index::new(&program, &facts).matches(&for_others).matches.is_empty());
}

#[test]
fn a_node_that_two_anchors_name_is_one_site_and_sites_come_in_execution_order() {
    let program = fixtures::program("in_place");
    let facts = Facts::default();
    let ops = ["aten.clone.default", "aten.conv2d.default", "aten.view.default"];
    let found = matches(&program, &facts, vec![anchor(&ops, 0, 0), anchor(&["aten.conv2d.default"], 0, 0)]);
    let positions: Vec<_> = found.iter().filter_map(|one| program.graph().position(one.anchor)).collect();
    assert_eq!(found.len(), 3);
    assert!(positions.is_sorted(), "{positions:?}");
    assert!(found.iter().all(|one| one.site.anchor_index == 0));
    let mutated = found.iter().find(|one| one.site.nodes[0].op == "aten.clone.default").expect("clone");
    assert!(mutated.site.values[1].is_mutated && mutated.site.values[1].is_aliased);
    assert!(!mutated.site.values[0].is_mutated);
}

#[test]
fn equal_places_give_equal_sites() {
    let facts = Facts::default();
    let (a, b) = (fixtures::program("conv_softmax"), fixtures::program("conv_softmax"));
    let site = |program: &Program| matches(program, &facts, vec![anchor(&["aten.softmax.int"], 2, 1)])[0].site.clone();
    assert_eq!(site(&a).canonical_bytes(), site(&b).canonical_bytes());
    assert_ne!(site(&a).canonical_bytes(), site(&fixtures::program("half")).canonical_bytes());
}

#[test]
fn sizes_that_vary_are_shown_as_such_and_symbols_are_no_values() {
    let program = fixtures::program("symbols");
    let facts = Facts::default();
    let found = matches(&program, &facts, vec![anchor(&["aten.reshape.default", "aten.view.default"], 0, 0)]);
    assert!(!found.is_empty());
    for one in &found {
        assert_eq!(one.values.len(), 2, "input and output only");
        let shape = &one.site.nodes[0].inputs[1].argument;
        let Argument::Literal(Literal::SymInts(dims)) = shape else { panic!("{shape:?}") };
        assert!(dims.iter().any(|dim| matches!(dim, Dim::Symbolic(_))));
    }
}

#[test]
fn every_committed_program_can_be_cut_everywhere() {
    let facts = Facts::default();
    for (name, program) in fixtures::programs() {
        let ops: Vec<&str> = program.graph().nodes().iter().map(|node| node.op.as_str()).collect();
        let found = Index::new(&program, &facts).matches(&manifest(vec![anchor(&ops, 2, 1)]));
        assert!(found.matches.len() + found.left_out.len() > 0, "{name}");
        for one in found.matches {
            let site = &one.site;
            assert!(site.nodes.len() <= MOST_NODES && site.values.len() <= MOST_VALUES);
            assert_eq!((site.nodes.len(), site.values.len()), (one.nodes.len(), one.values.len()), "{name}");
            let known = |id: &u32| (*id as usize) < site.values.len();
            for node in &site.nodes {
                assert!(node.outputs.iter().all(known), "{name}");
                for input in &node.inputs {
                    match &input.argument {
                        Argument::Literal(_) => {}
                        Argument::Value(id) => assert!(known(id), "{name}: {}", node.op),
                        Argument::Values(ids) => assert!(ids.iter().all(known), "{name}"),
                        Argument::OptionalValues(ids) => assert!(ids.iter().flatten().all(known), "{name}"),
                    }
                }
            }
        }
    }
}
