//! `rules list`: the bundled rules, loaded through the real sandbox.

use dd_tests::Sandbox;

#[test]
fn every_bundled_rule_is_listed_with_what_it_promises() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(["rules", "list", "--format", "json"]).good();
    let list: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&list["schema"], &list["version"]), (&"delegate-doctor/rules".into(), &1.into()));
    let rules = list["rules"].as_array().expect("rules");
    let bundled = delegate_doctor::registry::bundled().expect("bundled rules");
    assert_eq!(rules.len(), bundled.len());
    let text = sandbox.run(["rules", "list", "--verbose"]).good().stdout;
    for (rule, component) in rules.iter().zip(bundled) {
        assert_eq!(rule["id"], component.id.as_str());
        assert_eq!(rule["sha256"], component.sha256.as_str());
        assert!(["exact", "tolerant", "corrective"].contains(&rule["class"].as_str().expect("class")), "{rule}");
        assert!(["stable", "preview"].contains(&rule["stability"].as_str().expect("stability")), "{rule}");
        assert!(!rule["operators"].as_array().expect("operators").is_empty(), "{rule}");
        for part in [&component.name(), rule["title"].as_str().expect("title"), &component.sha256] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
    }
}
