use serde_json::json;

use super::evidence::{EVIDENCE_SCHEMA, GATES};
use super::*;
use crate::hint::Hint as _;

/// The bundled rule with this id.
pub(in super::super) fn component(id: &str) -> Vec<u8> {
    let bundled = super::super::bundled().expect("bundled rules");
    let found = bundled.into_iter().find(|component| component.id == id);
    found.expect("a bundled rule").bytes.into_owned()
}

/// Evidence that proves a component, with the fields that are read.
pub(in super::super) fn evidence(component: &[u8]) -> serde_json::Value {
    let (inspection, _) = inspect_tier(component).expect("a rule");
    let own = inspection.manifest.expect("manifest");
    json!({
        "schema": EVIDENCE_SCHEMA,
        "version": 1,
        "created": "2026-11-29T12:00:00Z",
        "rule": { "id": own.id, "version": own.version, "sha256": inspection.sha256 },
        "outcome": "PROVEN",
        "models": [{
            "name": "pspnet",
            "setting": { "target": { "kind": "local", "architecture": "x86_64" }, "cpu": "AMD EPYC" },
            "trials": [{
                "outcome": "ACCEPTED",
                "gates": GATES.map(|gate| json!({ "gate": gate, "status": "PASS" })),
                "benchmark": { "ratio": { "value": 1.3 }, "blocks": [{}] },
            }],
            "error": null,
        }],
    })
}

pub(in super::super) fn words(name: &str) -> Words {
    Words {
        name: name.to_owned(),
        license: "MIT OR Apache-2.0".to_owned(),
        source: "https://example.org/rules".to_owned(),
        keywords: vec!["softmax".to_owned()],
    }
}

/// A package of a bundled rule under a name.
pub(in super::super) fn package(id: &str, name: &str) -> Package {
    let component = component(id);
    let evidence = serde_json::to_vec(&evidence(&component)).expect("JSON");
    Package::pack(component, &words(name), evidence).expect("package")
}

#[test]
fn a_package_is_read_back_as_it_was_written_and_always_the_same() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let made = package("dd-001", "softmax-layout");
    made.write(folder.path()).expect("written");
    let back = Package::read(folder.path()).expect("read");
    assert_eq!(back.manifest, made.manifest);
    assert_eq!(package("dd-001", "softmax-layout").manifest_bytes, made.manifest_bytes);
    let text = String::from_utf8(made.manifest_bytes.clone()).expect("text");
    assert!(
        text.starts_with(
            "# Written by `delegate-doctor rules pack`.\nmanifest = 1\nname = \"softmax-layout\"\nid = \"dd-001\"\n"
        ),
        "{text}"
    );
    let record = made.record();
    assert_eq!(record.manifest, sha256_hex(&made.manifest_bytes));
    assert_eq!(record.evidence.devices, ["AMD EPYC (x86_64)"]);
    fs::write(folder.path().join("2.0.0.wasm"), b"x").expect("write");
    let error = Package::read(folder.path()).expect_err("two").to_string();
    assert!(error.ends_with("it holds 2 versions"), "{error}");
}

#[test]
fn evidence_that_does_not_prove_these_bytes_is_refused() {
    let component = component("dd-001");
    let good = evidence(&component);
    let pack = |evidence: &serde_json::Value| {
        let bytes = serde_json::to_vec(evidence).expect("JSON");
        let error = Package::pack(component.clone(), &words("softmax-layout"), bytes).expect_err("refused");
        assert!(error.hint().is_some() || matches!(error, Error::NotEvidence { .. } | Error::Text { .. }), "{error}");
        error.to_string()
    };
    let changed = |pointer: &str, value: serde_json::Value| {
        let mut evidence = good.clone();
        *evidence.pointer_mut(pointer).expect("there") = value;
        pack(&evidence)
    };
    let sha256 = sha256_hex(&component);
    let stale = "ab".repeat(32);
    let about = format!(
        "The evidence is about other bytes than dd-001 1.0.0: it has SHA-256 {stale}, and the component {sha256}"
    );
    assert_eq!(changed("/rule/sha256", json!(stale)), about);
    for outcome in ["WRONG", "NOT_FASTER", "NOTHING_TRIED", "INCOMPLETE"] {
        let expected = format!("The evidence does not prove dd-001 1.0.0: its outcome is {outcome}");
        assert_eq!(changed("/outcome", json!(outcome)), expected);
    }
    for (pointer, value, expected) in [
        (
            "/models/0/trials",
            json!([{ "outcome": "REJECTED", "gate": "benchmark" }]),
            "The evidence does not prove dd-001 1.0.0: no model accepted it",
        ),
        (
            "/models/0/trials",
            json!([{ "outcome": "REJECTED", "gate": "host-correctness" }]),
            "The evidence does not prove dd-001 1.0.0: it says PROVEN, but on `pspnet` a trial was refused by \
             host-correctness",
        ),
        (
            "/models/0/trials/0/gates/2/status",
            json!("FAIL"),
            "The evidence does not prove dd-001 1.0.0: it says PROVEN, but on `pspnet` an accepted trial has not \
             passed the gate `host-correctness`",
        ),
        (
            "/models/0/trials/0/gates",
            json!([]),
            "The evidence does not prove dd-001 1.0.0: it says PROVEN, but on `pspnet` an accepted trial has not \
             passed the gate `structure`",
        ),
        (
            "/models/0/trials/0/benchmark",
            json!(null),
            "The evidence does not prove dd-001 1.0.0: it says PROVEN, but on `pspnet` an accepted trial has no \
             benchmark",
        ),
        (
            "/models/0/trials/0/benchmark/blocks",
            json!([]),
            "The evidence does not prove dd-001 1.0.0: it says PROVEN, but on `pspnet` the benchmark of an accepted \
             trial has no samples",
        ),
        (
            "/models/0/trials/0/benchmark/ratio/value",
            json!(0.9),
            "The evidence does not prove dd-001 1.0.0: it says PROVEN, but on `pspnet` an accepted trial is 0.9x as \
             fast as before",
        ),
        ("/models", json!([]), "The evidence does not prove dd-001 1.0.0: no model accepted it"),
        ("/models/0/error", json!("no"), "The evidence does not prove dd-001 1.0.0: there is no answer for `pspnet`"),
        ("/models/0/setting", json!(null), "The evidence does not prove dd-001 1.0.0: `pspnet` names no device"),
        (
            "/version",
            json!(2),
            "The evidence of dd-001 1.0.0 cannot be understood: it is a delegate-doctor/evidence 2, and \
             delegate-doctor/evidence 1 is expected",
        ),
        (
            "/models/0/name",
            json!("a\u{202e}b"),
            "The evidence of the rule has characters that cannot be seen, or blanks at an end or side by side",
        ),
    ] {
        assert_eq!(changed(pointer, value), expected, "{pointer}");
    }
    assert!(matches!(
        read_evidence(Path::new("/nonexistent/evidence.json"), "dd-001 1.0.0"),
        Err(Error::NoEvidence { .. })
    ));
}

#[test]
fn words_that_hide_something_are_refused() {
    let component = component("dd-001");
    let evidence = serde_json::to_vec(&evidence(&component)).expect("JSON");
    for (change, expected) in [
        (Words { license: String::new(), ..words("ok-name") }, "The licence of the rule is empty"),
        (
            Words { source: "http://x".to_owned(), ..words("ok-name") },
            "The source of the rule is not an `https://` address",
        ),
        (
            Words { keywords: vec!["a\nb".to_owned()], ..words("ok-name") },
            "The list of keywords of the rule has characters that cannot be seen, or blanks at an end or side by side",
        ),
        (
            Words { license: "x".repeat(201), ..words("ok-name") },
            "The licence of the rule has 201 bytes, and at most 200 are allowed",
        ),
        (words("Ok"), "`Ok` is no rule: it does not begin with a lower-case letter"),
    ] {
        let error = Package::pack(component.clone(), &change, evidence.clone()).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
    assert!(matches!(Package::pack(b"no component".to_vec(), &words("ok-name"), evidence), Err(Error::Component(_))));
}

#[test]
fn a_manifest_that_says_more_than_the_component_is_refused() {
    let package = package("dd-001", "softmax-layout");
    let text = String::from_utf8(package.manifest_bytes.clone()).expect("text");
    let of = |text: String| {
        let refused = Package::of(package.component.clone(), text.into_bytes(), package.evidence.clone());
        refused.expect_err("refused").to_string()
    };
    let title = text.lines().find(|line| line.starts_with("title = ")).expect("title").to_owned();
    let error = of(text.replace(&title, "title = \"Trust me\""));
    let follows = "follows from the component and its evidence";
    assert_eq!(
        error,
        format!(
            "The manifest is not the one of the component: line 7 is `title = \"Trust me\"`, and `{title}` {follows}"
        )
    );
    let error = of(format!("{text}\n# more\n"));
    assert!(error.ends_with(follows) && error.contains("and `its end`"), "{error}");
    let error = of(text.replacen("manifest = 1", "manifest = 2", 1));
    assert_eq!(error, "The manifest cannot be understood: it has version 2, and 1 is understood");
    assert!(of(text.replacen("manifest = 1", "manifest = 1\nmore = 1", 1)).contains("unknown field `more`"));
    assert!(of("x".repeat(70 << 10)).contains("has 71680 bytes"));
}
