//! Hostile pull requests: each one begins as an honest change, does one thing that must not be merged, and
//! is told it in these words.

mod maintainers;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::key::SigningKey;
use super::super::metadata::{self, Yanked};
use super::super::name::RuleName;
use super::super::pack::tests::{component, evidence, package};
use super::super::publish;
use super::super::writer::{Keys, Signers};
use super::*;

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

const ROOT: [u8; 3] = [1, 2, 3];
const TOP: u8 = 4;
const REVIEWER: u8 = 6;
const ONLINE: u8 = 7;
const ACME: u8 = 20;
const BOLT: u8 = 21;

/// A registry in which `acme` has published and `bolt` has not.
fn merged(folder: &std::path::Path) -> Repository {
    let now: Time = "2027-01-31T12:00:00Z".parse().expect("time");
    let keys = Keys {
        root: Signers { keys: ROOT.map(key).to_vec(), threshold: 2 },
        targets: Signers::one(key(TOP)),
        reviewed: Signers::one(key(REVIEWER)),
        snapshot: Signers::one(key(ONLINE)),
        timestamp: Signers::one(key(ONLINE)),
    };
    let registry = Repository::init(&folder.join("merged"), &keys, now).expect("registry");
    registry.add_publisher("acme", &[key(ACME).public()], 1, &[&key(TOP)]).expect("acme");
    registry.add_publisher("bolt", &[key(BOLT).public()], 1, &[&key(TOP)]).expect("bolt");
    let targets = package("dd-001", "softmax-layout").targets("acme").expect("targets");
    registry.publish("acme", &targets, &[&key(ACME)]).expect("published");
    let reviewed: Vec<_> = targets.into_iter().map(|new| new.target).collect();
    registry.review(&reviewed, &[&key(REVIEWER)]).expect("reviewed");
    registry.snapshot_and_timestamp(&[&key(ONLINE)], &[&key(ONLINE)]).expect("snapshot");
    registry
}

/// The files of a pull request, below the registry.
type Files = BTreeMap<String, Vec<u8>>;

/// `acme` publishes a second rule; nothing is wrong.
fn honest(base: &Repository, out: &std::path::Path) -> Files {
    publish::sign(&package("dd-002", "redundant-ops"), base, "acme", &[&key(ACME)], out).expect("signed");
    let changes = overlay(base.folder(), out).expect("changes");
    let bytes = |content| if let Content::File(bytes) = content { bytes } else { Vec::new() };
    changes.into_iter().map(|change| (change.path, bytes(change.content))).collect()
}

fn judged(base: &Repository, files: &Files) -> Verdict {
    let changes: Vec<Change> = files
        .iter()
        .map(|(path, bytes)| Change {
            path: path.clone(),
            content: Content::File(bytes.clone()),
            was_there: base.folder().join(path).exists(),
        })
        .collect();
    check(base, &changes, None).expect("the merged registry is whole")
}

fn findings(base: &Repository, files: &Files) -> Vec<String> {
    judged(base, files).findings.iter().map(ToString::to_string).collect()
}

/// Changes a document and signs it anew.
fn edit(files: &mut Files, path: &str, signer: u8, change: impl FnOnce(&mut Value)) {
    let bytes = files.get(path).unwrap_or_else(|| panic!("no {path}"));
    let mut document: Value = serde_json::from_slice(bytes).expect("JSON");
    let signed = document.get_mut("signed").expect("signed");
    change(signed);
    files.insert(path.to_owned(), metadata::signed(signed, &[&key(signer)]).expect("signed"));
}

const ACME_2: &str = "metadata/2.acme.json";
const WASM: &str = "acme/redundant-ops/1.0.0.wasm";

fn path_of(files: &Files, ending: &str) -> String {
    files.keys().find(|path| path.ends_with(ending)).unwrap_or_else(|| panic!("no {ending}")).clone()
}

/// Replaces a listed file and lists it as it is now.
fn replace(files: &mut Files, ending: &str, bytes: Vec<u8>) {
    let old = path_of(files, ending);
    files.remove(&old);
    let sha256 = sha256_hex(&bytes);
    let folder = old.rsplit_once('/').expect("folder").0;
    let listed = format!("acme/redundant-ops/1.0.0{}", ending.trim_start_matches(".1.0.0"));
    edit(files, ACME_2, ACME, |signed| {
        let file = &mut signed["targets"][listed.as_str()];
        file["hashes"]["sha256"] = json!(sha256);
        file["length"] = json!(bytes.len());
    });
    files.insert(format!("{folder}/{sha256}{ending}"), bytes);
}

#[test]
fn an_honest_change_passes_and_says_what_it_does() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let files = honest(&base, &folder.path().join("change"));
    let verdict = judged(&base, &files);
    assert_eq!(verdict.findings, []);
    assert_eq!(verdict.packages.len(), 1);
    let sha256 = sha256_hex(&component("dd-002"));
    assert_eq!(verdict.does, [format!("publishes acme/redundant-ops 1.0.0, sha256 {sha256}")]);
}

#[test]
fn hostile_pull_requests_of_a_publisher_are_told_what_is_wrong() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let honest = honest(&base, &folder.path().join("change"));
    let wasm = path_of(&honest, ".1.0.0.wasm");
    let sha256 = sha256_hex(&component("dd-002"));
    let bidi = "\u{202e}";
    type Attack<'a> = (&'a str, Box<dyn Fn(&mut Files) + 'a>, Vec<String>);
    let own = |what: &str| vec![format!("`{ACME_2}`: {what}")];
    let attacks: Vec<Attack<'_>> = vec![
        (
            "the same document in another spelling",
            Box::new(|files| {
                let bytes = files.get_mut(ACME_2).expect("document");
                bytes.push(b'\n');
            }),
            {
                let length = honest.get(ACME_2).expect("document").len();
                own(&format!("it is not in canonical form: byte {length} differs from what its content is written as"))
            },
        ),
        (
            "a key twice, of which the last would win",
            Box::new(|files| {
                let text = String::from_utf8(files[ACME_2].clone()).expect("text");
                files.insert(
                    ACME_2.to_owned(),
                    text.replacen("\"version\":2", "\"version\":9,\"version\":2", 1).into_bytes(),
                );
            }),
            Vec::new(),
        ),
        (
            "signed by somebody else",
            Box::new(|files| edit(files, ACME_2, BOLT, |_| {})),
            own("it has 0 of 1 signatures by the merged keys of `acme`"),
        ),
        (
            "the key that signs it comes with it",
            Box::new(|files| {
                edit(files, ACME_2, 99, |_| {});
                let mut top = base.targets().expect("targets").signed;
                top.version += 1;
                let delegations = top.delegations.as_mut().expect("delegations");
                let id = key(99).public().key_id();
                delegations.keys.insert(id.clone(), metadata::Key::of(&key(99).public()));
                delegations.roles[0].keyids = vec![id];
                let path = format!("metadata/{}.targets.json", top.version);
                let top = serde_json::to_value(top).expect("JSON");
                files.insert(path, metadata::signed(&top, &[&key(99)]).expect("signed"));
            }),
            vec![
                format!("`{ACME_2}`: it has 0 of 1 signatures by the merged keys of `acme`"),
                "`metadata/3.targets.json`: it has 0 of 1 signatures by the merged keys of `targets`".to_owned(),
            ],
        ),
        (
            "a version is skipped",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| signed["version"] = json!(3));
                let bytes = files.remove(ACME_2).expect("document");
                files.insert("metadata/3.acme.json".to_owned(), bytes);
            }),
            vec!["`metadata/3.acme.json`: it is version 3, and version 2 comes next".to_owned()],
        ),
        (
            "a published document is replaced",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| signed["version"] = json!(1));
                let bytes = files.remove(ACME_2).expect("document");
                files.insert("metadata/1.acme.json".to_owned(), bytes);
            }),
            vec!["`metadata/1.acme.json`: a published file never changes".to_owned()],
        ),
        (
            "its number and its name differ",
            Box::new(|files| edit(files, ACME_2, ACME, |signed| signed["version"] = json!(7))),
            own("it says it is version 7"),
        ),
        (
            "a published version is gone",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| {
                    signed["targets"].as_object_mut().expect("targets").remove("acme/softmax-layout/1.0.0.wasm");
                });
            }),
            own("it does not list `acme/softmax-layout/1.0.0.wasm` any more"),
        ),
        (
            "a published version has other bytes",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| {
                    signed["targets"]["acme/softmax-layout/1.0.0.wasm"]["hashes"]["sha256"] = json!("ab".repeat(32));
                });
            }),
            own("it lists other bytes for the published `acme/softmax-layout/1.0.0.wasm`"),
        ),
        (
            "a published version claims more than it did",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| {
                    signed["targets"]["acme/softmax-layout/1.0.0.wasm"]["custom"]["dd"]["license"] =
                        json!("Proprietary");
                });
            }),
            own("the licence of the published `acme/softmax-layout/1.0.0.wasm` has changed"),
        ),
        (
            "a file of another publisher",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| {
                    signed["targets"]["bolt/redundant-ops/1.0.0.wasm"] = signed["targets"][WASM].clone();
                });
            }),
            own("it lists `bolt/redundant-ops/1.0.0.wasm`, which is not below `acme/`"),
        ),
        (
            "a name that leaves the folder",
            Box::new(|files| add_name(files, "acme/../../etc/passwd")),
            own("`acme/../../etc/passwd` is no target: it does not have three parts"),
        ),
        (
            "a name with a backslash",
            Box::new(|files| add_name(files, "acme/..\\x/1.0.0.wasm")),
            own("`acme/..\\\\x/1.0.0.wasm` is no target: it does not begin with a lower-case letter"),
        ),
        (
            "a name that reads backwards",
            Box::new(|files| add_name(files, &format!("acme/{bidi}rule/1.0.0.wasm"))),
            own("`acme/\\u{202e}rule/1.0.0.wasm` is no target: it has a character outside of ASCII"),
        ),
        (
            "a name in capitals",
            Box::new(|files| add_name(files, "acme/Redundant-ops/1.0.0.wasm")),
            own("`acme/Redundant-ops/1.0.0.wasm` is no target: it does not begin with a lower-case letter"),
        ),
        (
            "a version with build metadata",
            Box::new(|files| add_name(files, "acme/redundant-ops/1.0.0+x.wasm")),
            own("`acme/redundant-ops/1.0.0+x.wasm` is no target: it has build metadata"),
        ),
        (
            "native code",
            Box::new(|files| add_name(files, "acme/redundant-ops/1.0.0.cwasm")),
            own(
                "`acme/redundant-ops/1.0.0.cwasm` is no target: it ends in none of `.wasm`, `.toml` and `.evidence.json`",
            ),
        ),
        (
            "a byte of the component differs",
            Box::new(|files| {
                files.get_mut(&wasm).expect("component")[100] ^= 1;
            }),
            {
                let mut bytes = honest[&wasm].clone();
                bytes[100] ^= 1;
                vec![format!("`{wasm}`: its SHA-256 is {}", sha256_hex(&bytes))]
            },
        ),
        (
            "the component is missing",
            Box::new(|files| {
                files.remove(&wasm);
            }),
            vec![format!("`{WASM}`: its bytes are missing: `{wasm}` is not in the change")],
        ),
        (
            "a hash that is a path",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| signed["targets"][WASM]["hashes"]["sha256"] = json!("../../x"));
            }),
            vec![
                format!("`{WASM}`: its SHA-256 is not 64 lower-case hex digits"),
                format!("`{wasm}`: no document of this change lists it"),
            ],
        ),
        (
            "a length that is not the file's",
            Box::new(|files| edit(files, ACME_2, ACME, |signed| signed["targets"][WASM]["length"] = json!(5))),
            vec![format!("`{wasm}`: it has {} bytes, and its document says 5", honest[&wasm].len())],
        ),
        (
            "a file that nobody lists",
            Box::new(|files| {
                files.insert(format!("targets/acme/redundant-ops/{}.2.0.0.wasm", "cd".repeat(32)), b"x".to_vec());
            }),
            vec![format!(
                "`targets/acme/redundant-ops/{}.2.0.0.wasm`: no document of this change lists it",
                "cd".repeat(32)
            )],
        ),
        (
            "no evidence",
            Box::new(|files| {
                let path = path_of(files, ".1.0.0.evidence.json");
                files.remove(&path);
                edit(files, ACME_2, ACME, |signed| {
                    signed["targets"]
                        .as_object_mut()
                        .expect("targets")
                        .remove("acme/redundant-ops/1.0.0.evidence.json");
                });
            }),
            own("acme/redundant-ops 1.0.0 lacks its `.evidence.json`"),
        ),
        (
            "evidence of another rule",
            Box::new(|files| {
                let other = serde_json::to_vec(&evidence(&component("dd-003"))).expect("JSON");
                replace(files, ".1.0.0.evidence.json", other);
            }),
            own(&format!(
                "acme/redundant-ops 1.0.0: The evidence is about other bytes than dd-002 1.0.0: it has SHA-256 {}, and the component {sha256}",
                sha256_hex(&component("dd-003"))
            )),
        ),
        (
            "evidence against the rule",
            Box::new(|files| {
                let mut against = evidence(&component("dd-002"));
                against["outcome"] = json!("WRONG");
                replace(files, ".1.0.0.evidence.json", serde_json::to_vec(&against).expect("JSON"));
            }),
            own("acme/redundant-ops 1.0.0: The evidence does not prove dd-002 1.0.0: its outcome is WRONG"),
        ),
        (
            "a manifest that says more",
            Box::new(|files| {
                let path = path_of(files, ".1.0.0.toml");
                let text = String::from_utf8(files[&path].clone()).expect("text");
                let text = text.replacen("tier = \"compiled\"", "tier = \"script\"", 1);
                replace(files, ".1.0.0.toml", text.into_bytes());
            }),
            own(&format!(
                "acme/redundant-ops 1.0.0: The manifest is not the one of the component: line {} is `tier = \"script\"`, and `tier = \"compiled\"` follows from the component and its evidence",
                String::from_utf8_lossy(&honest[&path_of(&honest, ".1.0.0.toml")])
                    .lines()
                    .position(|line| line.starts_with("tier = "))
                    .expect("tier")
                    + 1
            )),
        ),
        (
            "a record that says something else",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| {
                    signed["targets"][WASM]["custom"]["dd"]["title"] = json!("Makes everything faster");
                });
            }),
            own("acme/redundant-ops 1.0.0: the title of its record is not the one of its manifest"),
        ),
        (
            "no record",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| {
                    signed["targets"][WASM].as_object_mut().expect("file").remove("custom");
                });
            }),
            own("acme/redundant-ops 1.0.0 has no record"),
        ),
        ("what is no component", Box::new(|files| replace(files, ".1.0.0.wasm", b"\x7fELF".to_vec())), Vec::new()),
        (
            "it never expires",
            Box::new(|files| edit(files, ACME_2, ACME, |signed| signed["expires"] = json!("2099-01-01T00:00:00Z"))),
            own("it expires in 26267 days, and 30 to 365 are expected"),
        ),
        (
            "it expires at once",
            Box::new(|files| edit(files, ACME_2, ACME, |signed| signed["expires"] = json!("2027-02-01T12:00:00Z"))),
            own("it expires in 1 days, and 30 to 365 are expected"),
        ),
        (
            "it lets somebody else publish",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| {
                    let id = key(99).public().key_id();
                    signed["delegations"] = json!({
                        "keys": { id.clone(): metadata::Key::of(&key(99).public()) },
                        "roles": [{ "keyids": [id], "name": "bolt", "paths": ["bolt/*/*"], "terminating": true, "threshold": 1 }],
                    });
                });
            }),
            own("a publisher may not let others publish in its name"),
        ),
        (
            "it revokes a competitor",
            Box::new(|files| edit(files, ACME_2, ACME, |signed| signed["x-dd-revoked"] = json!({ "ab": "slow" }))),
            own("only `reviewed` revokes components"),
        ),
        (
            "a publisher that nobody knows",
            Box::new(|files| {
                edit(files, ACME_2, ACME, |signed| signed["version"] = json!(1));
                let bytes = files.remove(ACME_2).expect("document");
                files.insert("metadata/1.mallory.json".to_owned(), bytes);
            }),
            vec!["`metadata/1.mallory.json`: the merged registry has no publisher `mallory`".to_owned()],
        ),
        (
            "two publishers at once",
            Box::new(|files| {
                let out = folder.path().join("bolt");
                publish::sign(&package("dd-003", "pool-window"), &base, "bolt", &[&key(BOLT)], &out).expect("signed");
                for change in overlay(base.folder(), &out).expect("changes") {
                    if let Content::File(bytes) = change.content {
                        files.insert(change.path, bytes);
                    }
                }
            }),
            vec![
                "`metadata/1.bolt.json`: a change is one publisher's, and this one has documents of `acme` too"
                    .to_owned(),
            ],
        ),
        (
            "the id of another rule",
            Box::new(|files| {
                files.clear();
                let out = folder.path().join("copy");
                publish::sign(&package("dd-001", "softmax-copy"), &base, "bolt", &[&key(BOLT)], &out).expect("signed");
                for change in overlay(base.folder(), &out).expect("changes") {
                    if let Content::File(bytes) = change.content {
                        files.insert(change.path, bytes);
                    }
                }
            }),
            vec![
                "`metadata/1.bolt.json`: bolt/softmax-copy 1.0.0: the rule id `dd-001` belongs to acme/softmax-layout"
                    .to_owned(),
            ],
        ),
        (
            "a new timestamp",
            Box::new(|files| {
                files.insert("metadata/timestamp.json".to_owned(), b"{}".to_vec());
            }),
            vec!["`metadata/timestamp.json`: only the publishing job writes the timestamp".to_owned()],
        ),
        (
            "a new snapshot",
            Box::new(|files| {
                files.insert("metadata/9.snapshot.json".to_owned(), b"{}".to_vec());
            }),
            vec!["`metadata/9.snapshot.json`: only the publishing job writes a snapshot".to_owned()],
        ),
        (
            "a file that is no metadata",
            Box::new(|files| {
                files.insert("metadata/02.acme.json".to_owned(), b"{}".to_vec());
            }),
            vec!["`metadata/02.acme.json`: it is no metadata file: VERSION.ROLE.json is expected".to_owned()],
        ),
        (
            "a change to what people read",
            Box::new(|files| {
                files.insert("README.md".to_owned(), b"curl | sh".to_vec());
            }),
            vec!["`README.md`: it is no file of a publisher".to_owned()],
        ),
    ];
    for (attack, change, expected) in attacks {
        let mut files = honest.clone();
        change(&mut files);
        let mut found = findings(&base, &files);
        if expected.is_empty() {
            // The words come from a parser; that it is refused and named is what counts.
            assert!(found.iter().any(|finding| finding.starts_with(&format!("`{ACME_2}`: "))), "{attack}: {found:?}");
            continue;
        }
        // Where the document is not among the additions, nothing lists the files of this change.
        if !expected.iter().any(|what| what.ends_with("lists it")) {
            found.retain(|finding| !finding.ends_with("no document of this change lists it"));
        }
        assert_eq!(found, expected, "{attack}");
    }
}

fn add_name(files: &mut Files, name: &str) {
    edit(files, ACME_2, ACME, |signed| signed["targets"][name] = signed["targets"][WASM].clone());
}

#[test]
fn what_is_no_file_is_told() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let change = |path: &str, content: Content, was_there: bool| Change { path: path.to_owned(), content, was_there };
    let changes = [
        change("targets/acme/x", Content::Strange, false),
        change("targets/acme/y", Content::Large(20 << 20), false),
        change("metadata/1.root.json", Content::Removed, true),
        change("staging/2.root.json", Content::File(b"anything".to_vec()), false),
        change("staging/3.root.json", Content::File(b"anything".to_vec()), false),
        change("staging/passwd", Content::Strange, false),
    ];
    let verdict = check(&base, &changes, None).expect("whole");
    let told: Vec<String> = verdict.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "`metadata/1.root.json`: a published file is never removed",
            "`staging/2.root.json`: it cannot be understood: expected value at line 1 column 1",
            "`staging/3.root.json`: only `staging/2.root.json` waits here for signatures",
            "`staging/passwd`: it is no regular file",
            "`targets/acme/x`: it is no regular file",
            "`targets/acme/y`: it has 20971520 bytes, and at most 10485760 are allowed",
        ]
    );
}

#[test]
fn a_name_that_is_no_text_is_a_finding() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let out = folder.path().join("change");
    fs_err::create_dir_all(out.join("targets")).expect("folder");
    fs_err::write(out.join("targets").join(std::ffi::OsStr::from_bytes(b"a\x1b\xff")), "x").expect("file");
    let changes = overlay(base.folder(), &out).expect("changes");
    let verdict = check(&base, &changes, None).expect("whole");
    let told: Vec<String> = verdict.findings.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with("it is no regular file") && !told[0].contains('\u{1b}'), "{told:?}");
}

#[test]
fn a_component_that_does_not_load_is_told() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let out = folder.path().join("change");
    honest(&base, &out);
    let changes = overlay(base.folder(), &out).expect("changes");
    let load = |_: &Package| Err("it takes too long to compile".to_owned());
    let verdict = check(&base, &changes, Some(&load)).expect("whole");
    let told: Vec<String> = verdict.findings.iter().map(ToString::to_string).collect();
    assert_eq!(told, [format!("`{ACME_2}`: acme/redundant-ops 1.0.0: it takes too long to compile")]);
}

#[test]
fn a_yank_goes_one_way() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let rule: RuleName = "acme/softmax-layout".parse().expect("name");
    let version = semver::Version::new(1, 0, 0);
    let yank = |registry: &Repository, reason: &str, security: bool, out: &str| {
        let yanked = Yanked { reason: reason.to_owned(), security };
        let out = folder.path().join(out);
        publish::yank(&rule, &version, &yanked, registry, &[&key(ACME)], &out).map(|()| out)
    };
    assert!(matches!(yank(&base, "", false, "none"), Err(publish::Error::Reason)));
    let out = yank(&base, "wrong on odd sizes", true, "first").expect("yanked");
    let verdict = publish::lay_in(&out, &base, None).expect("taken");
    assert_eq!(verdict.does, ["yanks acme/softmax-layout/1.0.0.wasm for security: wrong on odd sizes"]);
    let out = yank(&base, "not that bad", false, "second").expect("signed");
    let error = publish::lay_in(&out, &base, None).expect_err("refused").to_string();
    assert!(
        error.ends_with(
            "`metadata/3.acme.json`: `acme/softmax-layout/1.0.0.wasm` was yanked for security, and stays so"
        ),
        "{error}"
    );
    let mut files = Files::new();
    files.insert("metadata/3.acme.json".to_owned(), fs_err::read(out.join("metadata/3.acme.json")).expect("document"));
    edit(&mut files, "metadata/3.acme.json", ACME, |signed| {
        let dd = &mut signed["targets"]["acme/softmax-layout/1.0.0.wasm"]["custom"]["dd"];
        dd.as_object_mut().expect("record").remove("yanked");
    });
    assert_eq!(
        findings(&base, &files),
        ["`metadata/3.acme.json`: `acme/softmax-layout/1.0.0.wasm` was yanked, and a yank is never withdrawn"]
    );
}

#[test]
fn what_is_laid_in_is_what_clients_then_see() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let out = folder.path().join("change");
    honest(&base, &out);
    publish::lay_in(&out, &base, None).expect("taken");
    assert!(matches!(publish::lay_in(&out, &base, None), Err(publish::Error::Nothing(_))), "once is enough");
    base.snapshot_and_timestamp(&[&key(ONLINE)], &[&key(ONLINE)]).expect("snapshot");
    assert_eq!(base.published("acme").expect("published"), Some(2));
    let error =
        publish::sign(&package("dd-002", "redundant-ops"), &base, "acme", &[&key(ACME)], &out).expect_err("again");
    assert_eq!(
        error.to_string(),
        "`acme/redundant-ops/1.0.0.wasm` is published already, and a published file never changes"
    );
}

#[test]
fn two_keys_of_a_publisher_sign_one_after_the_other() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let base = merged(folder.path());
    let both = [key(40).public(), key(41).public()];
    base.add_publisher("zeta", &both, 2, &[&key(TOP)]).expect("zeta");
    let out = folder.path().join("change");
    publish::sign(&package("dd-003", "pool-window"), &base, "zeta", &[&key(40)], &out).expect("signed once");
    let error = publish::lay_in(&out, &base, None).expect_err("one of two").to_string();
    assert!(
        error.ends_with("`metadata/1.zeta.json`: it has 1 of 2 signatures by the merged keys of `zeta`"),
        "{error}"
    );
    let error = publish::countersign(&out, &base, "zeta", &[&key(ACME)]).expect_err("a stranger").to_string();
    assert_eq!(error, format!("The key {} signs nothing for publisher `zeta`", key(ACME).public().fingerprint()));
    publish::countersign(&out, &base, "zeta", &[&key(41)]).expect("signed twice");
    let verdict = publish::lay_in(&out, &base, None).expect("taken");
    assert_eq!(verdict.packages.len(), 1);
}
