//! The engine on graphs of a real size: what rules said before is what they say again, and what the same
//! rules say when they are built for this machine.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::LazyLock;

use dd_001_softmax_layout::SoftmaxLayout;
use dd_002_redundant_ops::RedundantOps;
use dd_003_avg_pool_window::AvgPoolWindow;
use dd_tests::{host_verdict, sdk_site, synthetic};
use delegate_doctor::graph::Program;
use delegate_doctor::matching::{Facts, Index, Remark};
use delegate_doctor::registry;
use delegate_doctor::rewrite::{Proposals, ReferenceEvaluator, propose, propose_by};
use delegate_doctor::sandbox::contract::{Site, Value};
use delegate_doctor::sandbox::{Examined, Helper, Limits, Options, Rule, Sandbox};
use proptest::prelude::*;

type Native = fn(&rule_sdk::contract::Site) -> Result<rule_sdk::Verdict, String>;

const NATIVE: [(&str, Native); 3] = [
    ("dd-001", rule_sdk::examine::<SoftmaxLayout>),
    ("dd-002", rule_sdk::examine::<RedundantOps>),
    ("dd-003", rule_sdk::examine::<AvgPoolWindow>),
];

/// A cache folder with compiled rules and without verdicts. Compiling is slow in a debug build, so the code is
/// made once for all tests.
fn cache() -> tempfile::TempDir {
    static COMPILED: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("temporary folder");
        rules(&folder.path().join("rules"));
        folder
    });
    let folder = tempfile::tempdir().expect("temporary folder");
    let rules = folder.path().join("rules");
    std::fs::DirBuilder::new().mode(0o700).create(&rules).expect("folder");
    for entry in fs_err::read_dir(COMPILED.path().join("rules")).expect("folder") {
        let entry = entry.expect("entry");
        fs_err::copy(entry.path(), rules.join(entry.file_name())).expect("copy");
    }
    folder
}

/// The bundled rules, as a process that uses this cache has them.
fn rules(cache: &Path) -> Vec<Rule> {
    let helper = Helper::binary(dd_tests::binary("delegate-doctor"));
    let sandbox =
        Sandbox::new(Options { limits: Limits::standard(), cache: Some(cache.to_owned()), helper }).expect("a sandbox");
    let load = |component: registry::Component| sandbox.load(&component.name(), &component.bytes).expect("it loads");
    registry::bundled().expect("bundled rules").into_iter().map(load).collect()
}

fn ask(program: &Program, index: &Index<'_>, rules: &[Rule]) -> Vec<Proposals> {
    rules.iter().map(|rule| propose(program, index, rule).expect("no interrupt")).collect()
}

fn ask_natively(program: &Program, index: &Index<'_>, rules: &[Rule]) -> Vec<Proposals> {
    let natively = |rule: &Rule| {
        let (_, native) = NATIVE.into_iter().find(|(id, _)| *id == rule.id()).expect("every bundled rule has a twin");
        let verdict = |site: &&Site| host_verdict(&native(&sdk_site(site)).expect("no fault of its own"));
        let answer = |site: &&Site| Ok(Examined { verdict: verdict(site), fuel: 0 });
        let ask = |sites: &[&Site]| sites.iter().map(answer).collect();
        propose_by(program, index, rule.manifest(), &rule.origin(), ask).expect("no interrupt")
    };
    rules.iter().map(natively).collect()
}

#[test]
fn cold_warm_and_native_rules_propose_the_same_for_ten_thousand_nodes() {
    let program = synthetic::program(10_000);
    let facts = Facts::default();
    let index = Index::new(&program, &facts);
    let cache = cache();
    let folder = cache.path().join("rules");
    let first = rules(&folder);
    let cold = ask(&program, &index, &first);
    assert!(cold.iter().all(|found| found.failed.is_empty() && found.refused.is_empty()), "{cold:?}");
    let rewrites: usize = cold.iter().map(|found| found.draft.proposals.len()).sum();
    assert!(rewrites > 150, "only {rewrites} places are rewritten");

    assert_eq!(ask(&program, &index, &first), cold, "the same process asks again");
    let files: Vec<_> = fs_err::read_dir(&folder)
        .expect("folder")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "verdicts"))
        .collect();
    assert_eq!(files.len(), 3, "one file a rule");
    assert_eq!(ask(&program, &index, &rules(&folder)), cold, "the next process asks");
    let mut native = ask_natively(&program, &index, &first);
    for (native, cold) in native.iter_mut().zip(&cold) {
        native.fuel = cold.fuel;
    }
    assert_eq!(native, cold, "the rules built for this machine");

    for found in cold.iter().filter(|found| !found.draft.is_empty()) {
        let patch = found.draft.finish(&program, &mut ReferenceEvaluator::default()).expect("a patch");
        let applied = program.apply(&patch).expect("it applies");
        let known = found.draft.applied_to(&program).expect("nothing is folded");
        assert_eq!(known.program.fingerprint(), applied.program.fingerprint(), "what the draft gave when it was tried");
        assert!(found.draft.applied_to(&applied.program).is_none(), "another program");
        let back = applied.program.apply(&applied.inverse()).expect("it is taken back").program;
        assert_eq!(back.fingerprint(), program.fingerprint());
    }
}

#[test]
fn measured_shares_that_differ_by_noise_make_the_same_sites() {
    let program = synthetic::program(100);
    let name = program.graph().nodes().iter().find(|node| node.op != "aten.relu.default").expect("a node").name.clone();
    let op = program.graph().node_named(&name).expect("the node").op.clone();
    let cache = cache();
    let mut manifest = rules(&cache.path().join("rules"))[0].manifest().clone();
    manifest.anchors[0].ops = vec![op];
    let site = |share: f64| {
        let mut facts = Facts::default();
        facts.share.insert(name.clone(), share);
        facts.outside.insert(name.clone(), vec![Remark { code: "a".to_owned(), text: "b".to_owned() }]);
        let found = Index::new(&program, &facts).matches(&manifest);
        found.matches.first().expect("a site").site.clone()
    };
    assert_eq!(site(0.2312).nodes[0].share, Some(0.2));
    assert_eq!(site(0.2312).canonical_bytes(), site(0.2391).canonical_bytes());
    assert_ne!(site(0.2312).canonical_bytes(), site(0.5).canonical_bytes());
}

/// A change of a site that a rule may see.
fn change(site: &mut Site, which: u8, number: u32) {
    let place = number as usize;
    match which % 6 {
        0 => site.complete = !site.complete,
        1 => site.anchor_index = number % 4,
        2 => site.target.backend_version = format!("1.{number}"),
        3 => {
            if let Some(Value { is_mutated, .. }) = site.values.get_mut(place % 3) {
                *is_mutated = !*is_mutated;
            }
        }
        4 => {
            if let Some(value) = site.values.get_mut(place % 3) {
                value.is_graph_output = !value.is_graph_output;
                value.use_count = number % 5;
            }
        }
        _ => {
            if let Some(node) = site.nodes.first_mut() {
                node.outside_delegate = !node.outside_delegate;
                node.inputs.truncate(place % 5 + 1);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_kept_verdict_is_what_a_fresh_call_gives(changes in proptest::collection::vec((0_usize..40, any::<u8>(), any::<u32>()), 1..12)) {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| synthetic::program(1_000));
        let program = &*PROGRAM;
        let facts = Facts::default();
        let index = Index::new(program, &facts);
        let cache = cache();
        let folder = cache.path().join("rules");
        for (rule, next) in rules(&folder).iter().zip(rules(&folder)) {
            let found = index.matches(rule.manifest());
            let mut sites: Vec<Site> = Vec::new();
            for (which, kind, number) in &changes {
                if let Some(one) = found.matches.get(which % found.matches.len().max(1)) {
                    sites.push(one.site.clone());
                    let mut changed = one.site.clone();
                    change(&mut changed, *kind, *number);
                    sites.push(changed);
                }
            }
            let sites: Vec<&Site> = sites.iter().collect();
            let afresh = rule.examine_afresh(&sites);
            prop_assert_eq!(&rule.examine(&sites), &afresh);
            prop_assert_eq!(&rule.examine(&sites), &afresh);
            prop_assert_eq!(&next.examine(&sites), &afresh);
        }
    }
}
