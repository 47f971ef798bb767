//! The client workflow of the TUF specification, section 5, against a simulated repository: what a client takes,
//! what it refuses, and what it trusts afterwards. The cases are those that the conformance suite of TUF clients
//! asks, as far as they concern a client with consistent snapshots and Ed25519.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::simulator::*;
use crate::world::*;

#[test]
fn a_first_refresh_and_one_without_news() {
    let simulator = Simulator::new();
    let client = simulator.client();
    assert_eq!(good(&client), [1, 1, 1, 1]);
    assert_eq!(good(&client), [1, 1, 1, 1]);
}

#[test]
fn only_what_changed_is_got() {
    let mut simulator = Simulator::new();
    let client = simulator.client();
    let bytes = |client: &User| client.refresh().expect("refreshed").registry().fetched();
    let first = bytes(&client);
    let again = bytes(&client);
    let timestamp = fs_err::metadata(simulator.folder.path().join("metadata/timestamp.json")).expect("file").len();
    assert_eq!(again, timestamp, "the first time it was {first}");
    bump(&mut simulator.timestamp);
    simulator.publish_timestamp();
    assert!(bytes(&client) < timestamp + 10);
}

#[test]
fn a_chain_of_roots_is_followed_step_by_step_and_only_whole() {
    let mut simulator = Simulator::new();
    for _ in 0..5 {
        simulator.next_root();
    }
    assert_eq!(good(&simulator.client())[0], 6);
    let known = simulator.client();
    good(&known);
    simulator.remove("4.root.json");
    assert_eq!(good(&simulator.client())[0], 3, "a gap ends the chain");
    assert_eq!(good(&known)[0], 6, "what was seen stays");
}

#[test]
fn a_root_has_to_be_signed_by_the_old_and_the_new_keys() {
    for (signers, ok) in [(vec![30, 40], true), (vec![30], false), (vec![40], false), (vec![], false)] {
        let mut simulator = Simulator::new();
        let client = simulator.client();
        good(&client);
        simulator.rekey("root", &[40]);
        simulator.signers.insert("root".to_owned(), signers.clone());
        simulator.next_root();
        match client.refresh() {
            Ok(view) => assert!(ok && trusted(&view)[0] == 2, "{signers:?}"),
            Err(error) => {
                assert!(!ok, "{error}");
                assert!(error.contains("0 of the 1 signatures needed are good"), "{error}");
                assert!(error.starts_with("Version 2 of the root"), "{error}");
            }
        }
    }
}

/// Keys and threshold of one root, those of the next, who signs, and whether that is enough.
#[test]
fn thresholds_of_root_rotations() {
    let cases = [
        (&[30, 40, 41][..], 2, &[30, 40, 41][..], 2, &[30, 40][..], true),
        (&[30, 40, 41], 2, &[30, 40, 41], 2, &[40, 41], true),
        (&[30, 40, 41], 2, &[30, 40, 41], 2, &[30], false),
        (&[30, 40], 2, &[42, 43], 2, &[30, 40, 42, 43], true),
        (&[30, 40], 2, &[42, 43], 2, &[30, 42, 43], false),
        (&[30, 40], 2, &[42, 43], 2, &[30, 40, 42], false),
        (&[30, 40], 1, &[40, 42], 2, &[40, 42], true),
        (&[30, 40], 2, &[40, 42], 1, &[40], false),
        (&[30, 40], 2, &[40, 42], 1, &[30, 40], true),
        (&[30], 1, &[30, 40, 41], 3, &[30, 40, 41], true),
        (&[30], 1, &[30, 40, 41], 3, &[30, 40], false),
        (&[30], 1, &[30], 1, &[30, 30], false),
    ];
    for (number, (old, old_threshold, new, new_threshold, signers, ok)) in cases.into_iter().enumerate() {
        let mut simulator = Simulator::new();
        simulator.rekey("root", old);
        simulator.root["roles"]["root"]["threshold"] = Value::from(old_threshold);
        simulator.signers.insert("root".to_owned(), old.to_vec());
        simulator.publish_root();
        let client = simulator.client();
        good(&client);
        simulator.rekey("root", new);
        simulator.root["roles"]["root"]["threshold"] = Value::from(new_threshold);
        simulator.signers.insert("root".to_owned(), signers.to_vec());
        simulator.next_root();
        assert_eq!(client.refresh().is_ok(), ok, "case {number}");
    }
}

#[test]
fn a_root_that_skips_repeats_or_goes_back_is_refused() {
    for version in [1, 3, 0] {
        let mut simulator = Simulator::new();
        let client = simulator.client();
        good(&client);
        simulator.root["version"] = version.into();
        simulator.write("2.root.json", "root", &simulator.root.clone());
        let error = refused(&client);
        assert!(error.contains(&format!("version 2 has to come next, and it has version {version}")), "{error}");
    }
}

#[test]
fn an_expired_root_in_between_does_no_harm_and_an_expired_last_one_does() {
    let mut simulator = Simulator::new();
    let client = simulator.client();
    simulator.root["expires"] = expires(-1);
    simulator.next_root();
    assert!(refused(&client).contains("The role `root` is refused: it expired on"));
    simulator.root["expires"] = expires(100);
    simulator.next_root();
    assert_eq!(good(&client)[0], 3);
}

#[test]
fn expired_metadata_of_each_role_is_refused() {
    for role in ["timestamp", "snapshot", "targets"] {
        let mut simulator = Simulator::new();
        let client = simulator.client();
        good(&client);
        let document = match role {
            "timestamp" => &mut simulator.timestamp,
            "snapshot" => &mut simulator.snapshot,
            _ => &mut simulator.targets,
        };
        document["expires"] = expires(-1);
        if role == "targets" {
            bump(document);
        }
        simulator.update();
        let error = refused(&client);
        assert!(error.starts_with(&format!("The role `{role}` is refused: it expired on 2026-05-31")), "{error}");
        // A registry that is renewed works again.
        for document in [&mut simulator.timestamp, &mut simulator.snapshot, &mut simulator.targets] {
            document["expires"] = expires(5);
        }
        bump(&mut simulator.targets);
        simulator.update();
        good(&client);
    }
}

#[test]
fn metadata_that_expires_between_two_refreshes_is_refused_then() {
    let mut simulator = Simulator::new();
    simulator.timestamp["expires"] = expires(2);
    simulator.update();
    let client = simulator.client();
    good(&client);
    let later = client.after(SignedDuration::from_hours(24 * 3));
    assert!(refused(&later).starts_with("The role `timestamp` is refused: it expired"));
    // An expired timestamp that was seen is a floor all the same.
    simulator.timestamp["version"] = 1.into();
    simulator.timestamp["expires"] = expires(30);
    simulator.publish_timestamp();
    assert!(refused(&later).contains("it has version 1, and version 2 was seen before"));
}

#[test]
fn every_role_of_the_root_needs_its_own_key() {
    for role in ["timestamp", "snapshot", "targets"] {
        for wrong in [vec![], vec![50], vec![34]] {
            let mut simulator = Simulator::new();
            let client = simulator.client();
            good(&client);
            simulator.signers.insert(role.to_owned(), wrong);
            bump(&mut simulator.targets);
            simulator.update();
            let error = refused(&client);
            assert_eq!(error, format!("The role `{role}` is refused: 0 of the 1 signatures needed are good"));
        }
    }
}

#[test]
fn keys_of_online_roles_are_rotated_by_the_root() {
    for role in ["timestamp", "snapshot", "targets"] {
        let mut simulator = Simulator::new();
        let client = simulator.client();
        good(&client);
        simulator.rekey(role, &[60]);
        simulator.next_root();
        bump(&mut simulator.targets);
        simulator.update();
        assert_eq!(good(&client), [2, 2, 2, 2], "{role}");
        // The old key signs nothing any more.
        let old = match role {
            "timestamp" => 31,
            "snapshot" => 32,
            _ => 33,
        };
        simulator.signers.insert(role.to_owned(), vec![old]);
        bump(&mut simulator.targets);
        simulator.update();
        assert!(refused(&client).contains("0 of the 1 signatures"), "{role}");
    }
}

#[test]
fn a_threshold_counts_different_good_signatures() {
    for (signers, ok) in [
        (vec![31, 51], true),
        (vec![31, 51, 52], true),
        (vec![31], false),
        (vec![31, 31], false),
        (vec![31, 52], false),
    ] {
        let mut simulator = Simulator::new();
        let client = simulator.client();
        good(&client);
        simulator.rekey("timestamp", &[31, 51]);
        simulator.root["roles"]["timestamp"]["threshold"] = 2.into();
        simulator.next_root();
        simulator.signers.insert("timestamp".to_owned(), signers.clone());
        simulator.update();
        assert_eq!(client.refresh().is_ok(), ok, "{signers:?}");
    }
}

#[test]
fn versions_of_each_role_never_go_back() {
    let rolled_back = |change: &dyn Fn(&mut Simulator)| {
        let mut simulator = Simulator::new();
        bump(&mut simulator.targets);
        simulator.roles.values_mut().for_each(bump);
        simulator.update();
        let client = simulator.client();
        assert_eq!(good(&client), [1, 2, 2, 2]);
        change(&mut simulator);
        refused(&client)
    };
    let error = rolled_back(&|simulator| {
        simulator.timestamp["version"] = 1.into();
        simulator.publish_timestamp();
    });
    assert_eq!(error, "The role `timestamp` is refused: it has version 1, and version 2 was seen before");
    let error = rolled_back(&|simulator| {
        bump(&mut simulator.timestamp);
        simulator.snapshot["version"] = 1.into();
        simulator.publish_snapshot();
    });
    assert!(error.contains("it has version 1, and version 2 was seen before"), "{error}");
    let error = rolled_back(&|simulator| {
        simulator.targets["version"] = 1.into();
        simulator.update();
    });
    assert_eq!(error, "The role `targets` is refused: it has version 1, and version 2 was seen before");
    let error = rolled_back(&|simulator| {
        simulator.roles.get_mut("acme").expect("acme")["version"] = 1.into();
        simulator.update();
    });
    assert_eq!(error, "The role `acme` is refused: it has version 1, and version 2 was seen before");
    let error = rolled_back(&|simulator| {
        simulator.roles.remove("acme");
        simulator.snapshot["meta"].as_object_mut().expect("meta").remove("acme.json");
        simulator.update();
    });
    assert_eq!(error, "The role `acme` is refused: the snapshot no longer lists it");
}

#[test]
fn a_timestamp_of_the_same_version_changes_nothing() {
    let mut simulator = Simulator::new();
    let client = simulator.client();
    good(&client);
    simulator.timestamp["meta"]["snapshot.json"]["version"] = 100.into();
    simulator.publish_timestamp();
    assert_eq!(good(&client), [1, 1, 1, 1]);
}

#[test]
fn floors_fall_only_with_a_rotation_of_the_online_keys() {
    for role in ["timestamp", "snapshot"] {
        let mut simulator = Simulator::new();
        simulator.timestamp["version"] = 1_000_000.into();
        simulator.snapshot["version"] = 1_000_000.into();
        simulator.publish();
        let client = simulator.client();
        assert_eq!(good(&client), [1, 1_000_000, 1_000_000, 1]);
        for document in [&mut simulator.timestamp, &mut simulator.snapshot] {
            document["version"] = 2.into();
        }
        simulator.publish();
        assert!(refused(&client).contains("was seen before"));
        simulator.rekey(role, &[61]);
        simulator.next_root();
        simulator.publish();
        assert_eq!(good(&client), [2, 2, 2, 1], "{role}");
    }
}

#[test]
fn the_snapshot_is_the_one_that_the_timestamp_names() {
    let mut simulator = Simulator::new();
    let client = simulator.client();
    good(&client);
    // Another version inside than in its name.
    bump(&mut simulator.snapshot);
    bump(&mut simulator.timestamp);
    simulator.write("2.snapshot.json", "snapshot", &{
        let mut other = simulator.snapshot.clone();
        other["version"] = 7.into();
        other
    });
    simulator.timestamp["meta"]["snapshot.json"] = json!({ "version": 2 });
    simulator.publish_timestamp();
    assert!(refused(&client).contains("snapshot version 7 does not match timestamp pin 2"));
    // Wrong length, wrong hash, no known hash.
    let whole = simulator.write("2.snapshot.json", "snapshot", &simulator.snapshot.clone());
    for (pin, why) in [
        (json!({ "version": 2, "length": 10 }), "!= pinned 10"),
        (json!({ "version": 2, "hashes": { "sha256": "ab".repeat(32) } }), "sha256 mismatch"),
        (json!({ "version": 2, "hashes": { "md5": "ab" } }), "no supported hash"),
    ] {
        bump(&mut simulator.timestamp);
        simulator.timestamp["meta"]["snapshot.json"] = pin;
        simulator.publish_timestamp();
        let error = refused(&client);
        assert!(error.contains(why), "{error}");
    }
    bump(&mut simulator.timestamp);
    simulator.timestamp["meta"]["snapshot.json"] = meta(2, &whole);
    simulator.publish_timestamp();
    assert_eq!(good(&client)[2], 2);
}

#[test]
fn targets_and_roles_are_the_ones_that_the_snapshot_names() {
    for role in ["targets", "acme"] {
        let mut simulator = Simulator::new();
        simulator.hashes = true;
        simulator.update();
        let client = simulator.client();
        let ask = |client: &User| -> Result<(), String> {
            let mut view = client.refresh()?;
            view.of_publisher("acme").map(|_| ()).map_err(|error| error.to_string())
        };
        ask(&client).expect("good");
        let file = format!("{role}.json");
        let pin = simulator.snapshot["meta"][&file].clone();
        for (field, value, why) in [
            ("version", json!(9), "is missing"),
            ("length", json!(3), "!= pinned 3"),
            ("hashes", json!({ "sha256": "00".repeat(32) }), "sha256 mismatch"),
        ] {
            simulator.snapshot["meta"][&file] = pin.clone();
            simulator.snapshot["meta"][&file][field] = value;
            bump(&mut simulator.snapshot);
            bump(&mut simulator.timestamp);
            simulator.publish_snapshot();
            let fresh = simulator.client();
            let error = ask(&fresh).expect_err(why);
            assert!(error.contains(why) && error.contains(&format!("`{role}`")), "{error}");
        }
    }
}

#[test]
fn a_delegated_role_is_checked_against_its_delegation() {
    let ask = |simulator: &Simulator| -> Result<(), String> {
        let client = simulator.client();
        let mut view = client.refresh()?;
        view.of_publisher("acme").map(|_| ()).map_err(|error| error.to_string())
    };
    for (listed, threshold, signers, ok) in [
        (&[34_u8][..], 1, &[34_u8][..], true),
        (&[34], 1, &[35], false),
        (&[34, 35], 2, &[34, 35], true),
        (&[34, 35], 2, &[34], false),
        (&[34, 35], 2, &[34, 34], false),
        (&[34, 35], 1, &[35], true),
        (&[34, 35], 0, &[34], false),
        (&[], 1, &[34], false),
    ] {
        let mut simulator = Simulator::new();
        bump(&mut simulator.targets);
        simulator.delegate("acme", listed, threshold);
        simulator.signers.insert("acme".to_owned(), signers.to_vec());
        simulator.update();
        assert_eq!(ask(&simulator).is_ok(), ok, "{listed:?} {threshold} {signers:?}");
    }
    let mut simulator = Simulator::new();
    simulator.roles.get_mut("acme").expect("acme")["expires"] = expires(-1);
    simulator.update();
    assert!(ask(&simulator).expect_err("expired").contains("The role `acme`"), "only this role is refused");
    assert!(simulator.client().refresh().is_ok());
}

#[test]
fn a_role_that_was_verified_is_verified_again_when_its_keys_change() {
    let mut simulator = Simulator::new();
    let client = simulator.client();
    client.refresh().expect("refreshed").of_publisher("acme").expect("good");
    // The delegation goes to another key, the role's file stays the same.
    bump(&mut simulator.targets);
    simulator.delegate("acme", &[35], 1);
    simulator.signers.insert("acme".to_owned(), vec![34]);
    simulator.update();
    let error = client.refresh().expect("refreshed").of_publisher("acme").expect_err("old key").to_string();
    assert!(error.contains("0 of the 1 signatures needed are good"), "{error}");
}

#[test]
fn a_delegation_to_a_role_of_the_root_is_no_publisher() {
    let mut simulator = Simulator::new();
    bump(&mut simulator.targets);
    for name in ["root", "timestamp", "snapshot", "targets", "../acme", "ac me", "2.root"] {
        let role = json!({ "name": name, "keyids": [], "threshold": 1, "terminating": true, "paths": ["*/*/*"] });
        simulator.targets["delegations"]["roles"].as_array_mut().expect("roles").push(role);
    }
    simulator.update();
    let view = simulator.client().refresh().expect("refreshed");
    let names: Vec<String> = view.publishers().into_iter().map(|publisher| publisher.name).collect();
    assert_eq!(names, ["acme"]);
}

#[test]
fn missing_files_are_named() {
    for (file, role) in
        [("timestamp.json", "timestamp"), ("1.snapshot.json", "snapshot"), ("1.targets.json", "targets")]
    {
        let simulator = Simulator::new();
        simulator.remove(file);
        assert_eq!(refused(&simulator.client()), format!("The role `{role}` is refused: `metadata/{file}` is missing"));
    }
}

#[test]
fn fields_that_nobody_knows_are_signed_and_ignored() {
    let mut simulator = Simulator::new();
    for document in [&mut simulator.timestamp, &mut simulator.snapshot, &mut simulator.targets] {
        document["x-other"] = json!({ "nested": ["ü", "\\", "\"", 1, null] });
    }
    bump(&mut simulator.targets);
    simulator.update();
    assert_eq!(good(&simulator.client()), [1, 2, 2, 2]);
}

#[test]
fn roots_of_another_kind_of_key_are_not_believed() {
    for (keytype, scheme) in [("rsa", "rsassa-pss-sha256"), ("ecdsa", "ecdsa-sha2-nistp256"), ("ed25519", "unknown")] {
        let mut simulator = Simulator::new();
        let (id, _) = key_entry(31);
        simulator.root["keys"][&id]["keytype"] = keytype.into();
        simulator.root["keys"][&id]["scheme"] = scheme.into();
        simulator.publish_root();
        assert_eq!(
            refused(&simulator.client()),
            "The role `timestamp` is refused: 0 of the 1 signatures needed are good"
        );
    }
}
