//! Rules that misbehave: each ends in a failure of the right class that names the rule, and the host goes on.

use std::time::{Duration, Instant};

use dd_tests::{bundled_rule, host_site, rule_sandbox, test_rule, test_rule_bytes};
use delegate_doctor::registry;
use delegate_doctor::sandbox::contract::{Site, Verdict};
use delegate_doctor::sandbox::{Class, Error, Limits, Rule};
use proptest::prelude::*;
use rule_sdk::testing;

/// A site whose hint asks the hostile rule for an attack.
fn asks_for(attack: &str) -> Site {
    struct Any;
    impl rule_sdk::Rule for Any {
        fn manifest() -> rule_sdk::Manifest {
            rule_sdk::Manifest::new("any", "1.0.0", "").anchor(rule_sdk::Anchor::on(["aten.relu.default"]))
        }
        fn examine(_: &rule_sdk::Site<'_>) -> rule_sdk::Examination {
            rule_sdk::decline!("never", "")
        }
    }
    let graph = "x: f32[2,3] = input\ny: f32[2,3] = aten.relu.default(self=x)\nreturn y";
    let mut site = host_site(&testing::site::<Any>(graph));
    site.hints.push(("attack".to_owned(), attack.to_owned()));
    site
}

fn attack(rule: &Rule, attack: &str) -> Result<Verdict, Error> {
    let site = asks_for(attack);
    rule.examine(&[&site]).pop().expect("one answer").map(|examined| examined.verdict)
}

#[test]
fn every_attack_ends_in_its_class_and_the_rule_can_be_asked_again() {
    let rule = test_rule("test-hostile");
    for (name, class, says) in [
        ("loop", Class::OutOfFuel, "fuel"),
        ("recursion", Class::Trap, "crashed"),
        ("memory", Class::Memory, "MiB of memory"),
        ("panic", Class::Trap, "crashed"),
        ("out-of-bounds", Class::Trap, "crashed"),
        ("own-error", Class::Own, "I am [31m broken indeed"),
        ("unknown-code", Class::BadOutput, "never-announced"),
        ("bad-code", Class::BadOutput, "Asked!"),
        ("long-message", Class::TooMuchOutput, "2000 bytes of a message"),
        ("huge-message", Class::TooMuchOutput, "more than 1048576 bytes"),
        ("many-edits", Class::TooMuchOutput, "1000 edits"),
        ("huge-edits", Class::TooMuchOutput, "more than 1048576 bytes"),
        ("long-list", Class::TooMuchOutput, "5000 entries"),
        ("no-edit", Class::BadOutput, "no edit"),
        ("weak-claim", Class::BadOutput, "claims less"),
        ("nan-tolerance", Class::BadOutput, "not finite"),
    ] {
        let started = Instant::now();
        let error = attack(&rule, name).expect_err(name);
        assert_eq!(error.class, class, "{name}: {error}");
        assert!(error.to_string().starts_with("rule test-hostile 1.0.0: "), "{error}");
        assert!(error.to_string().contains(says), "{name}: {error}");
        assert!(started.elapsed() < Duration::from_secs(10), "{name} took {:?}", started.elapsed());
        let again = attack(&rule, "none").expect("the rule still answers");
        assert!(matches!(again, Verdict::Decline(reason) if reason.message.contains("no attack")));
    }
}

#[test]
fn words_of_a_rule_reach_nobody_with_control_characters() {
    match attack(&test_rule("test-hostile"), "control").expect("a decline") {
        Verdict::Decline(reason) => assert_eq!(reason.message, "red [31m and back"),
        Verdict::Rewrite(_) => panic!("a rewrite"),
    }
}

#[test]
fn one_site_that_fails_does_not_keep_others_from_being_answered() {
    let rule = test_rule("test-hostile");
    let sites = [asks_for("none"), asks_for("panic"), asks_for("none")];
    let answers = rule.examine(&sites.iter().collect::<Vec<_>>());
    let classes: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().map(|error| error.class)).collect();
    assert_eq!(classes, [None, Some(Class::Trap), None]);
}

#[test]
fn the_wall_clock_ends_what_fuel_does_not() {
    let limits = Limits {
        fuel: u64::MAX / 2,
        fuel_per_graph: u64::MAX,
        call_time: Duration::from_millis(300),
        ..Limits::standard()
    };
    let rule = rule_sandbox(limits).load("hostile", &test_rule_bytes("test-hostile")).expect("loads");
    let started = Instant::now();
    let error = attack(&rule, "loop").expect_err("it hangs");
    assert_eq!(error.class, Class::Time, "{error}");
    assert!(!error.class.is_repeatable(), "what the clock ended may not be remembered");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
fn fuel_for_a_graph_ends() {
    let limits = Limits { fuel_per_graph: 150_000_000, ..Limits::standard() };
    let rule = rule_sandbox(limits).load("hostile", &test_rule_bytes("test-hostile")).expect("loads");
    let sites = [asks_for("loop"), asks_for("loop"), asks_for("none")];
    let answers = rule.examine(&sites.iter().collect::<Vec<_>>());
    for answer in &answers {
        assert_eq!(answer.as_ref().err().map(|error| error.class), Some(Class::OutOfFuel));
    }
    let last = answers[2].as_ref().expect_err("not asked").to_string();
    assert!(last.contains("for one graph"), "{last}");
}

#[test]
fn a_rule_that_never_says_what_it_is_does_not_load() {
    let error = rule_sandbox(Limits::standard())
        .load("endless.wasm", &test_rule_bytes("test-hostile-describe"))
        .expect_err("it hangs");
    assert_eq!(error.class, Class::OutOfFuel, "{error}");
    assert!(error.to_string().starts_with("rule endless.wasm: "), "{error}");
}

fn load_class(bytes: &[u8], limits: Limits) -> (Class, String) {
    let error = rule_sandbox(limits).load("file.wasm", bytes).expect_err("it loads");
    (error.class, error.to_string())
}

fn real_component() -> Vec<u8> {
    registry::bundled().expect("bundled rules").remove(0).bytes.into_owned()
}

#[test]
fn bytes_that_are_no_rule_are_told_apart() {
    let real = real_component();
    let wat = |text: &str| wat::parse_str(text).expect("component text");
    let standard = Limits::standard;
    let cases: Vec<(Vec<u8>, Limits, Class, &str)> = vec![
        (Vec::new(), standard(), Class::Load, "not a WebAssembly component"),
        (b"#!/bin/sh\n".to_vec(), standard(), Class::Load, "not a WebAssembly component"),
        (wat("(module)"), standard(), Class::Load, "core module"),
        (real[..real.len() / 2].to_vec(), standard(), Class::Load, "not valid"),
        (wat("(component)"), standard(), Class::ContractVersion, "exports no"),
        (
            wat("(component (import \"wasi:random/random@0.2.0\" (instance (export \"get\" (func)))))"),
            standard(),
            Class::Import,
            "wasi:random/random@0.2.0",
        ),
        (wat("(component (core module (memory 1) (memory 1)))"), standard(), Class::Load, "not valid"),
        (wat("(component (core module (memory i64 1)))"), standard(), Class::Load, "not valid"),
        (
            wat("(component (core module (func (result v128) (v128.const i64x2 0 0))))"),
            standard(),
            Class::Load,
            "not valid",
        ),
        (wat("(component (core module (memory 1 1 shared)))"), standard(), Class::Load, "not valid"),
        (real.clone(), Limits { component_bytes: 1_000, ..standard() }, Class::Load, "bytes"),
        (real.clone(), Limits { functions: 3, ..standard() }, Class::Load, "functions"),
        (real.clone(), Limits { body_bytes: 100, ..standard() }, Class::Load, "function body"),
        (real.clone(), Limits { locals: 1, ..standard() }, Class::Load, "locals"),
        (real.clone(), Limits { core_modules: 0, ..standard() }, Class::Load, "core modules"),
    ];
    for (bytes, limits, class, says) in cases {
        let (found, text) = load_class(&bytes, limits);
        assert_eq!(found, class, "{text}");
        assert!(text.contains(says), "{text}");
    }
}

/// The component with another version in the name of its interfaces.
fn of_contract(version: &str) -> Vec<u8> {
    let mut bytes = real_component();
    let (from, to) = (b"@0.1.0".as_slice(), format!("@{version}").into_bytes());
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|(_, w)| *w == from).map(|(at, _)| at).collect();
    for place in places {
        bytes[place..place + to.len()].copy_from_slice(&to);
    }
    bytes
}

#[test]
fn other_versions_of_the_contract_are_named() {
    let (class, text) = load_class(&of_contract("0.9.0"), Limits::standard());
    assert_eq!(class, Class::ContractVersion);
    assert!(text.contains("speaks contract 0.9.0") && text.contains("newer host"), "{text}");
    let (class, text) = load_class(&of_contract("0.0.9"), Limits::standard());
    assert_eq!(class, Class::ContractVersion);
    assert!(text.contains("this host speaks 0.1") && !text.contains("newer host"), "{text}");
    let patched = rule_sandbox(Limits::standard()).load("patched", &of_contract("0.1.7"));
    assert!(patched.is_ok(), "a later 0.1 has the same types: {patched:?}");
}

#[test]
fn a_compiler_that_needs_too_much_is_stopped() {
    let uncached = |limits: Limits| {
        let helper = delegate_doctor::sandbox::Helper::binary(dd_tests::binary("delegate-doctor"));
        let options = delegate_doctor::sandbox::Options { limits, cache: None, helper };
        delegate_doctor::sandbox::Sandbox::new(options).expect("sandbox")
    };
    let small = Limits { compile_address_space: 24 << 20, ..Limits::standard() };
    let error = uncached(small).load("file.wasm", &real_component()).expect_err("too little memory");
    assert_eq!(error.class, Class::Compile, "{error}");
    let error = uncached(Limits { compile_wall: Duration::ZERO, ..Limits::standard() })
        .load("file.wasm", &real_component())
        .expect_err("no time");
    assert_eq!(error.class, Class::Compile, "{error}");

    let short = Limits { code_bytes: 4 << 10, ..Limits::standard() };
    let error = uncached(short).load("file.wasm", &real_component()).expect_err("too much code");
    assert_eq!(error.class, Class::Compile, "{error}");
    assert!(error.to_string().contains("MiB of code are allowed"), "{error}");

    let quick = Limits { compile_cpu: Duration::from_secs(1), ..Limits::standard() };
    let started = Instant::now();
    let error = uncached(quick).load("bomb.wasm", &compile_bomb()).expect_err("a bomb");
    assert_eq!(error.class, Class::Compile, "{error}");
    assert!(error.to_string().contains("1 s of processor time"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// Core module text as a component of the contract.
fn component_of(module: &str) -> Vec<u8> {
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_dir(dd_tests::workspace().join("wit")).expect("the contract");
    let world = resolve.select_world(&[package], None).expect("one world");
    let mut module = wat::parse_str(module).expect("module text");
    wit_component::embed_component_metadata(&mut module, &resolve, world, wit_component::StringEncoding::UTF8, true)
        .expect("metadata");
    wit_component::ComponentEncoder::default().module(&module).expect("module").encode().expect("component")
}

/// The exports of the contract, with `describe` as given.
fn exports(describe: &str) -> String {
    format!(
        "(memory (export \"memory\") 1)
         (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
         (func (export \"delegate-doctor:rules/rule@0.1.0#describe\") (result i32) {describe})
         (func (export \"delegate-doctor:rules/rule@0.1.0#examine\") (param i32) (result i32) unreachable)"
    )
}

/// Functions just inside the limits that take the compiler minutes.
fn compile_bomb() -> Vec<u8> {
    let locals = "(local i32)".repeat(900);
    let mut body = String::new();
    for block in 0..5_500 {
        let (a, b) = (block * 7 % 900, block * 13 % 900);
        body.push_str(&format!(
            "(if (local.get {a}) (then (local.set {b} (i32.add (local.get {a}) (local.get {b})))) \
             (else (local.set {a} (local.get {b}))))"
        ));
    }
    let functions = format!("(func {locals} {body})").repeat(12);
    component_of(&format!("(module {} {functions})", exports("unreachable")))
}

#[test]
fn answers_that_lie_about_their_memory_are_bad_output() {
    for (describe, class) in [
        ("(i32.const 65532)", Class::BadOutput),
        ("(i32.const -8)", Class::BadOutput),
        ("(i32.const 3)", Class::BadOutput),
        // A record full of zeros: no id, no version.
        ("(i32.const 2048)", Class::BadOutput),
        // The id's pointer and length reach far beyond the memory.
        (
            "(i32.store (i32.const 2048) (i32.const 16)) (i32.store (i32.const 2052) (i32.const 2147483647)) (i32.const 2048)",
            Class::BadOutput,
        ),
        ("(loop (br 0)) (i32.const 0)", Class::OutOfFuel),
        ("(drop (memory.grow (i32.const 5000))) unreachable", Class::Memory),
        ("unreachable", Class::Trap),
    ] {
        let component = component_of(&format!("(module {})", exports(describe)));
        let (found, text) = load_class(&component, Limits::standard());
        assert_eq!(found, class, "{describe}: {text}");
    }
}

#[test]
fn a_start_function_that_hangs_runs_out_of_fuel() {
    let module = format!("(module {} (func $start (loop (br 0))) (start $start))", exports("unreachable"));
    let (class, text) = load_class(&component_of(&module), Limits::standard());
    assert_eq!(class, Class::OutOfFuel, "{text}");
}

#[test]
fn memory_and_tables_beyond_the_limits_do_not_start() {
    for (more, class) in [
        ("(memory (export \"memory\") 1200)", Class::Memory),
        ("(table 30000 funcref) (memory (export \"memory\") 1)", Class::Memory),
    ] {
        let exports = exports("unreachable").replace("(memory (export \"memory\") 1)", more);
        let (found, text) = load_class(&component_of(&format!("(module {exports})")), Limits::standard());
        assert_eq!(found, class, "{more}: {text}");
    }
}

#[test]
fn a_call_finds_no_trace_of_the_call_before() {
    // Runs out of fuel when it finds anything; else it leaves something everywhere and crashes.
    let describe = "(drop (memory.grow (i32.const 3)))
        (if (i32.or (i32.or (i32.load (i32.const 60000)) (i32.load (i32.const 200000)))
                    (i32.or (global.get $mark) (i32.ne (memory.size) (i32.const 4))))
            (then (loop (br 0))))
        (if (i32.eqz (ref.is_null (table.get $marks (i32.const 5)))) (then (loop (br 0))))
        (i32.store (i32.const 60000) (i32.const 1))
        (i32.store (i32.const 200000) (i32.const 1))
        (global.set $mark (i32.const 1))
        (table.set $marks (i32.const 5) (ref.func $any))
        unreachable";
    let more = "(global $mark (mut i32) (i32.const 0)) (table $marks 10 funcref) (func $any) (elem declare func $any)";
    let component = component_of(&format!("(module {} {more})", exports(describe)));
    let sandbox = rule_sandbox(Limits::standard());
    for _ in 0..3 {
        let error = sandbox.load("rule", &component).expect_err("it crashes");
        assert_eq!(error.class, Class::Trap, "{error}");
    }
}

#[test]
fn threads_that_share_a_sandbox_get_the_answers_that_one_gets() {
    let rule = bundled_rule("dd-001");
    let graph = "x: f32[2,3,4] = input\ny: f32[2,3,4] = aten.softmax.int(self=x, dim=1, dtype=None)\nreturn y";
    let site = host_site(&testing::site::<dd_001_softmax_layout::SoftmaxLayout>(graph));
    let alone = rule.examine_afresh(&[&site; 20]);
    assert!(alone.iter().all(Result::is_ok), "{alone:?}");
    let together = || {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| rule.examine_afresh(&[&site; 20]))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        })
    };
    assert!(together().iter().all(|answers| *answers == alone));
}

#[test]
fn the_same_site_costs_the_same_fuel_and_gets_the_same_verdict() {
    let rule = bundled_rule("dd-001");
    let graph = "x: f32[2,3,4] = input\ny: f32[2,3,4] = aten.softmax.int(self=x, dim=1, dtype=None)\nreturn y";
    let site = host_site(&testing::site::<dd_001_softmax_layout::SoftmaxLayout>(graph));
    let answers: Vec<_> = rule.examine(&[&site; 5]).into_iter().map(|answer| answer.expect("an answer")).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert!(answers[0].fuel > 0 && answers[0].fuel < 1_000_000, "{}", answers[0].fuel);
}

#[test]
fn compiled_rules_are_kept_and_checked() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let cache = folder.path().join("rules");
    let helper = delegate_doctor::sandbox::Helper::binary(dd_tests::binary("delegate-doctor"));
    let no_compiler = delegate_doctor::sandbox::Helper::binary("/nonexistent/compiler".into());
    let options =
        |helper| delegate_doctor::sandbox::Options { limits: Limits::standard(), cache: Some(cache.clone()), helper };
    let load = |helper: &delegate_doctor::sandbox::Helper| {
        let sandbox = delegate_doctor::sandbox::Sandbox::new(options(helper.clone())).expect("sandbox");
        sandbox.load("dd", &real_component())
    };
    let graph = "x: f32[2,3,4] = input\ny: f32[2,3,4] = aten.softmax.int(self=x, dim=1, dtype=None)\nreturn y";
    let site = host_site(&testing::site::<dd_001_softmax_layout::SoftmaxLayout>(graph));
    let ask = |helper| load(helper).and_then(|rule| rule.examine_afresh(&[&site]).remove(0));
    let answer = ask(&helper).expect("compiles");
    assert_eq!(ask(&no_compiler).expect("needs no compiler the second time"), answer);

    let change = |ending: &str| {
        let entries = fs_err::read_dir(&cache).expect("cache").map(|entry| entry.expect("entry").path());
        let of_kind: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == ending)).collect();
        assert_eq!(of_kind.len(), 1, "{ending}");
        let mut bytes = fs_err::read(&of_kind[0]).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs_err::write(&of_kind[0], bytes).expect("write");
    };
    change("code");
    let error = ask(&no_compiler).expect_err("changed code is not used");
    assert_eq!(error.class, Class::Host, "{error}");
    assert_eq!(ask(&helper).expect("compiles again"), answer);
    assert_eq!(ask(&no_compiler).expect("kept again"), answer);
    change("about");
    assert_eq!(ask(&no_compiler).expect("is asked again what it is"), answer);
    // The code of another folder is foreign, even when it was whole there.
    fs_err::remove_file(cache.join("key")).expect("remove");
    let error = load(&no_compiler).expect_err("foreign code is not used");
    assert_eq!(error.class, Class::Host, "{error}");
    assert_eq!(ask(&helper).expect("compiles again"), answer);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn damaged_components_never_take_the_host_along(at in 0_usize..100_000, to in any::<u8>()) {
        let mut bytes = real_component();
        let at = at % bytes.len();
        bytes[at] = to;
        // Only the look at the bytes: compiling every variant would take long and goes to a child anyway.
        let _ = delegate_doctor::sandbox::inspect(&bytes, &Limits::standard());
    }
}
