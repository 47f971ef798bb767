//! Documents that only maintainers may change.

use super::*;

/// A document of the maintainers, changed and signed.
fn maintained(base: &Repository, role: &str, signers: &[u8], change: impl FnOnce(&mut Value)) -> Files {
    let (version, mut document) = if role == "root" {
        let root = base.root().expect("root").signed;
        (root.version + 1, serde_json::to_value(root).expect("JSON"))
    } else {
        let document = base.role(role).expect("role").expect("there").signed;
        (document.version + 1, serde_json::to_value(document).expect("JSON"))
    };
    document["version"] = json!(version);
    change(&mut document);
    let keys: Vec<SigningKey> = signers.iter().copied().map(key).collect();
    let bytes = metadata::signed(&document, &keys.iter().collect::<Vec<_>>()).expect("signed");
    Files::from([(layout::metadata_path(version, role), bytes)])
}

#[test]
fn hostile_documents_of_maintainers_are_told_what_is_wrong() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let id = |seed: u8| key(seed).public().key_id();
    let public = |seed: u8| serde_json::to_value(metadata::Key::of(&key(seed).public())).expect("JSON");
    let add = |document: &mut Value, name: &str, seed: u8, paths: Value, terminating: bool| {
        document["delegations"]["keys"][id(seed)] = public(seed);
        let role =
            json!({ "keyids": [id(seed)], "name": name, "paths": paths, "terminating": terminating, "threshold": 1 });
        let review = json!({
            "keyids": [id(REVIEWER)], "name": format!("reviewed.{name}"), "paths": [format!("{name}/*/*")],
            "terminating": false, "threshold": 1
        });
        let roles = document["delegations"]["roles"].as_array_mut().expect("roles");
        roles.insert(0, role);
        roles.insert(roles.len() - 1, review);
    };
    let cases: Vec<(&str, Files, Vec<&str>)> = vec![
        ("honest", maintained(&base, "targets", &[TOP], |d| add(d, "zeta", 30, json!(["zeta/*/*"]), true)), vec![]),
        (
            "a publisher that looks like another",
            maintained(&base, "targets", &[TOP], |d| add(d, "b0lt", 30, json!(["b0lt/*/*"]), true)),
            vec!["`metadata/3.targets.json`: `b0lt` could be taken for `bolt`"],
        ),
        (
            "a publisher of everything",
            maintained(&base, "targets", &[TOP], |d| add(d, "zeta", 30, json!(["*/*/*"]), true)),
            vec!["`metadata/3.targets.json`: the delegation of `zeta` is not `zeta/*/*`, terminating"],
        ),
        (
            "a publisher that does not end the search",
            maintained(&base, "targets", &[TOP], |d| add(d, "zeta", 30, json!(["zeta/*/*"]), false)),
            vec!["`metadata/3.targets.json`: the delegation of `zeta` is not `zeta/*/*`, terminating"],
        ),
        (
            "a publisher with the online key",
            maintained(&base, "targets", &[TOP], |d| add(d, "zeta", ONLINE, json!(["zeta/*/*"]), true)),
            vec!["`metadata/3.targets.json`: `snapshot` and `zeta` have the same key"],
        ),
        (
            "two publishers with one key",
            maintained(&base, "targets", &[TOP], |d| add(d, "zeta", ACME, json!(["zeta/*/*"]), true)),
            vec!["`metadata/3.targets.json`: `acme` and `zeta` have the same key"],
        ),
        (
            "a threshold of none",
            maintained(&base, "targets", &[TOP], |d| d["delegations"]["roles"][0]["threshold"] = json!(0)),
            vec!["`metadata/3.targets.json`: `acme` wants 0 of 1 known keys"],
        ),
        (
            "files in the top role",
            maintained(&base, "targets", &[TOP], |d| {
                d["targets"]["acme/x/1.0.0.wasm"] = json!({ "hashes": { "sha256": "ab" }, "length": 1 });
            }),
            vec!["`metadata/3.targets.json`: it lists files, and the top role only says who the publishers are"],
        ),
        (
            "nobody reviews any more",
            maintained(&base, "targets", &[TOP], |d| {
                d["delegations"]["roles"].as_array_mut().expect("roles").pop();
            }),
            vec![
                "`metadata/3.targets.json`: `reviewed` does not come last",
                "`metadata/3.targets.json`: the keys of `reviewed.acme` are not those of `reviewed`",
                "`metadata/3.targets.json`: the keys of `reviewed.bolt` are not those of `reviewed`",
            ],
        ),
        (
            "a key under a name of its own",
            maintained(&base, "targets", &[TOP], |d| {
                add(d, "zeta", 30, json!(["zeta/*/*"]), true);
                let key = d["delegations"]["keys"].as_object_mut().expect("keys").remove(&id(30)).expect("key");
                d["delegations"]["keys"]["zeta"] = key;
                d["delegations"]["roles"][0]["keyids"] = json!(["zeta"]);
            }),
            vec!["`metadata/3.targets.json`: the key zeta is not named by its hash"],
        ),
        (
            "a key of another kind",
            maintained(&base, "targets", &[TOP], |d| {
                let id = id(ACME);
                d["delegations"]["keys"][id.as_str()]["scheme"] = json!("rsassa-pss-sha256");
            }),
            vec!["K"],
        ),
        (
            "a review of bytes that nobody published",
            maintained(&base, "reviewed.acme", &[REVIEWER], |d| {
                d["targets"]["acme/softmax-layout/1.0.0.wasm"]["hashes"]["sha256"] = json!("ab".repeat(32));
            }),
            vec![
                "`metadata/2.reviewed.acme.json`: it countersigns `acme/softmax-layout/1.0.0.wasm`, and the publisher lists no such bytes",
            ],
        ),
        (
            "a review by a publisher",
            maintained(&base, "reviewed", &[ACME], |_| {}),
            vec!["`metadata/2.reviewed.json`: it has 0 of 1 signatures by the merged keys of `reviewed`"],
        ),
        (
            "a review by a publisher of its own files",
            maintained(&base, "reviewed.acme", &[ACME], |_| {}),
            vec!["`metadata/2.reviewed.acme.json`: it has 0 of 1 signatures by the merged keys of `reviewed.acme`"],
        ),
        (
            "a review of another publisher's files",
            maintained(&base, "reviewed.acme", &[REVIEWER], |d| {
                d["targets"]["bolt/fix/1.0.0.wasm"] = json!({ "hashes": { "sha256": "ab".repeat(32) }, "length": 1 });
            }),
            vec!["`metadata/2.reviewed.acme.json`: it countersigns `bolt/fix/1.0.0.wasm`, which is not below `acme/`"],
        ),
        (
            "files where only revocations are",
            maintained(&base, "reviewed", &[REVIEWER], |d| {
                d["targets"]["acme/softmax-layout/1.0.0.wasm"] =
                    json!({ "hashes": { "sha256": "ab".repeat(32) }, "length": 1 });
            }),
            vec!["`metadata/2.reviewed.json`: it lists files, and `reviewed` only revokes"],
        ),
        (
            "a revocation where it is seen by few",
            maintained(&base, "reviewed.acme", &[REVIEWER], |d| {
                d["x-dd-revoked"] = json!({ "ab".repeat(32): "why" });
            }),
            vec!["`metadata/2.reviewed.acme.json`: only `reviewed` revokes components"],
        ),
        (
            "a publisher that reviews itself",
            maintained(&base, "targets", &[TOP], |d| {
                let roles = d["delegations"]["roles"].as_array_mut().expect("roles");
                let review = roles.iter_mut().find(|role| role["name"] == "reviewed.acme").expect("review");
                review["keyids"] = json!([id(ACME)]);
            }),
            vec![
                "`metadata/3.targets.json`: the keys of `reviewed.acme` are not those of `reviewed`",
                "`metadata/3.targets.json`: `reviewed` and `acme` have the same key",
            ],
        ),
        (
            "a publisher that nobody reviews, and a review of nobody",
            maintained(&base, "targets", &[TOP], |d| {
                let roles = d["delegations"]["roles"].as_array_mut().expect("roles");
                let review = roles.iter_mut().find(|role| role["name"] == "reviewed.acme").expect("review");
                review["name"] = json!("reviewed.zeta");
                review["paths"] = json!(["zeta/*/*"]);
            }),
            vec![
                "`metadata/3.targets.json`: nobody reviews `acme`",
                "`metadata/3.targets.json`: `reviewed.zeta` reviews nobody: `zeta` does not publish",
            ],
        ),
        (
            "a review that comes before the publishers",
            maintained(&base, "targets", &[TOP], |d| {
                let roles = d["delegations"]["roles"].as_array_mut().expect("roles");
                let at = roles.iter().position(|role| role["name"] == "reviewed.acme").expect("review");
                let review = roles.remove(at);
                roles.insert(1, review);
            }),
            vec!["`metadata/3.targets.json`: `bolt` comes after the reviewers"],
        ),
        (
            "one key of two for a new root",
            maintained(&base, "root", &[1], |_| {}),
            vec!["`metadata/2.root.json`: it has 1 of 2 signatures by the merged keys of `root`"],
        ),
        (
            "a root that its own keys have not signed",
            maintained(&base, "root", &[1, 2], |d| {
                d["keys"][id(31)] = public(31);
                d["roles"]["root"] = json!({ "keyids": [id(31)], "threshold": 1 });
            }),
            vec!["`metadata/2.root.json`: it has 0 of 1 signatures by its own keys"],
        ),
        (
            "a root without versions in file names",
            maintained(&base, "root", &[1, 2], |d| d["consistent_snapshot"] = json!(false)),
            vec!["`metadata/2.root.json`: it gives up versions in file names (`consistent_snapshot`)"],
        ),
        (
            "a root for ever",
            maintained(&base, "root", &[1, 2], |d| d["expires"] = json!("2037-01-31T12:00:00Z")),
            vec!["`metadata/2.root.json`: it expires in 3653 days, and 30 to 400 are expected"],
        ),
    ];
    for (case, files, expected) in cases {
        let expected: Vec<String> = match expected.as_slice() {
            ["K"] => vec![format!("`metadata/3.targets.json`: the key {} is not an Ed25519 key", id(ACME))],
            expected => expected.iter().map(|text| (*text).to_owned()).collect(),
        };
        assert_eq!(findings(&base, &files), expected, "{case}");
    }
}

#[test]
fn a_revocation_is_never_withdrawn() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let sha256 = sha256_hex(&component("dd-001"));
    base.revoke(&sha256, "it is wrong on odd sizes", &[&key(REVIEWER)]).expect("revoked");
    let files = maintained(&base, "reviewed", &[REVIEWER], |document| {
        document.as_object_mut().expect("document").remove("x-dd-revoked");
    });
    let expected = format!("`metadata/3.reviewed.json`: {sha256} was revoked, and a revocation is never withdrawn");
    assert_eq!(findings(&base, &files), [expected]);
}

#[test]
fn only_a_root_that_a_holder_of_a_key_began_may_wait() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let stranger = key(99).public();
    let takeover = |document: &mut Value| {
        document["keys"][stranger.key_id()] = serde_json::to_value(metadata::Key::of(&stranger)).expect("JSON");
        document["roles"]["root"]["keyids"].as_array_mut().expect("keys").push(json!(stranger.key_id()));
        document["roles"]["root"]["threshold"] = json!(1);
    };
    let waiting = |signers: &[u8], change: &dyn Fn(&mut Value)| -> Files {
        let files = maintained(&base, "root", signers, change);
        files.into_values().map(|bytes| ("staging/2.root.json".to_owned(), bytes)).collect()
    };
    assert_eq!(
        findings(&base, &waiting(&[99], &takeover)),
        ["`staging/2.root.json`: no key of the root before it has signed it"]
    );
    assert_eq!(
        findings(&base, &waiting(&[1], &|document| document["version"] = json!(7))),
        ["`staging/2.root.json`: it says it is version 7, and version 2 comes next"]
    );
    let verdict = judged(&base, &waiting(&[1], &takeover));
    assert_eq!(verdict.findings, []);
    let [said] = verdict.does.as_slice() else { panic!("{:?}", verdict.does) };
    let gets = format!("`root` gets the key {}; `root` needs 1 signatures and not 2;", stranger.fingerprint());
    assert!(said.starts_with(&format!("lets root 2 wait for signatures: {gets}")), "{said}");
}
