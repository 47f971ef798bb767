//! Everybody between the maintainers and the user: mirrors, thieves of keys, publishers who turn bad. Each attack
//! is done to a real registry, and the snapshot says what the user is told.

use std::os::unix::fs::symlink;

use jiff::SignedDuration;
use serde_json::json;

use crate::world::*;

/// What a table row says: done, or refused with these words.
fn told(world: &World, result: Result<String, String>) -> String {
    match result {
        Ok(done) => format!("works: {done}"),
        Err(error) => format!("refused: {}", error.replace(&world.path().display().to_string(), "REGISTRY")),
    }
}

struct Table(Vec<String>);

impl Table {
    fn row(&mut self, name: &str, world: &World, result: Result<String, String>) {
        self.0.push(format!("{name}\n  {}", told(world, result)));
    }

    /// An attack on a user who has 1.0.0 and wants the newest.
    fn known(&mut self, name: &str, attack: impl FnOnce(&World, &User)) {
        let world = World::new();
        let user = world.user();
        user.install("acme/fix-boot").expect("the first version");
        attack(&world, &user);
        self.row(name, &world, user.install("acme/fix-boot"));
    }

    /// An attack on a user who has nothing yet.
    fn fresh(&mut self, name: &str, attack: impl FnOnce(&World)) {
        let world = World::new();
        attack(&world);
        let user = world.user();
        let result = user.install("acme/fix-boot");
        if result.is_err() {
            assert!(!user.scope().folder.join("dd-rules.lock").exists(), "{name}: nothing is locked");
            assert!(user.load().is_ok_and(|rules| rules.iter().all(|(name, _)| !name.contains("fix-boot"))));
        }
        self.row(name, &world, result);
    }
}

fn component(world: &World) -> String {
    world.target_path("acme/fix-boot", "1.0.0", b"first")
}

fn pipe(path: &std::path::Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("pipe");
}

/// The rows of the design's table of attacks, by their numbers there.
#[test]
fn every_known_attack_gets_its_message() {
    let mut table = Table(Vec::new());
    table.fresh("01 a byte of a target flipped", |world| world.write(&component(world), b"fIrst"));
    table.fresh("02 a target truncated", |world| world.write(&component(world), b"fir"));
    table.fresh("03 a target with 5 MB more", |world| world.write(&component(world), vec![b'x'; 5 << 20]));
    table.known("04 timestamp, snapshot and role rolled back", |world, user| {
        let old = world.copy();
        world.release("acme/fix-boot", "1.1.0", b"second");
        user.install("acme/fix-boot").expect("the second version");
        world.restore(&old);
    });
    {
        let world = World::new();
        let old = world.copy();
        world.release("acme/fix-boot", "1.1.0", b"second");
        let owner = world.user();
        owner.install("acme/fix-boot").expect("the second version");
        world.restore(&old);
        let fresh = world.user();
        table.row(
            "05 the same, a user who never saw the new one (until the timestamp expires)",
            &world,
            fresh.install("acme/fix-boot"),
        );
        let late = world.user().after(SignedDuration::from_hours(24 * 8));
        table.row("05 the same, after the timestamp expired", &world, late.install("acme/fix-boot"));
        let with_lock = world.user();
        copy_folder(&owner.scope().folder, &with_lock.scope().folder);
        table.row("05 the same, with the lockfile of somebody who saw it", &world, with_lock.install("acme/fix-boot"));
    }
    table.known("06 the same, the floor torn", |world, user| {
        let old = world.copy();
        world.release("acme/fix-boot", "1.1.0", b"second");
        user.install("acme/fix-boot").expect("the second version");
        let path = user.state().join("floor.json");
        let bytes = fs_err::read(&path).expect("state");
        fs_err::write(&path, &bytes[..bytes.len() / 2]).expect("torn");
        world.restore(&old);
    });
    let last = table.0.last_mut().expect("row");
    *last =
        last.replace(last.split('`').find(|part| part.ends_with("floor.json")).unwrap_or("\u{0}"), "STATE/floor.json");
    table.known("07 the same, the state wiped but not the lock", |world, user| {
        let old = world.copy();
        world.release("acme/fix-boot", "1.1.0", b"second");
        user.install("acme/fix-boot").expect("the second version");
        fs_err::remove_dir_all(user.state()).expect("wiped");
        world.restore(&old);
    });
    {
        let world = World::new();
        let late = world.user().after(SignedDuration::from_hours(24 * 7 + 1));
        table.row("08 an expired timestamp", &world, late.install("acme/fix-boot"));
    }
    table.known("09 mix and match: an old role", |world, _| {
        let old = world.read(&world.newest("acme"));
        world.release("acme/fix-boot", "1.1.0", b"second");
        world.write(&world.newest("acme"), old);
    });
    table.known("10 mix and match: an old snapshot", |world, _| {
        let old = world.read(&world.newest("snapshot"));
        world.release("acme/fix-boot", "1.1.0", b"second");
        world.write(&world.newest("snapshot"), old);
    });
    table.fresh("11 bytes of another publisher", |world| {
        let other = world.read(&world.target_path("bolt/fix-pool", "1.0.0", b"of bolt"));
        world.write(&component(world), other);
    });
    table.known("12 bolt's key and the online key sign acme's role", |world, _| {
        let version = world.version("acme");
        let next = format!("metadata/{}.acme.json", version + 1);
        world.forge(&world.newest("acme"), &next, &[BOLT], |document| document["version"] = (version + 1).into());
        world.list("acme", version + 1);
    });
    table.known("13 the online key lists an older role", |world, user| {
        world.release("acme/fix-boot", "1.1.0", b"second");
        user.install("acme/fix-boot").expect("the second version");
        world.list("acme", 1);
    });
    {
        let world = World::new();
        world.release("acme/fix-boot", "1.1.0", b"second");
        let owner = world.user();
        owner.install("acme/fix-boot").expect("the second version");
        world.list("acme", 1);
        table.row("14 the same, a user who never saw the new one", &world, world.user().install("acme/fix-boot"));
        let with_lock = world.user();
        copy_folder(&owner.scope().folder, &with_lock.scope().folder);
        table.row("14 the same, with the lockfile of somebody who saw it", &world, with_lock.install("acme/fix-boot"));
    }
    table.known("15 the online key drops another publisher", |world, _| {
        world.online(|meta| drop(meta.as_object_mut().expect("object").remove("bolt.json")));
    });
    table.fresh("16 bolt lists a file of acme", |world| {
        let version = world.version("bolt");
        let acme = world.document(&world.newest("acme"))["targets"]["acme/fix-boot/1.0.0.wasm"].clone();
        let next = format!("metadata/{}.bolt.json", version + 1);
        world.forge(&world.newest("bolt"), &next, &[BOLT], |document| {
            document["version"] = (version + 1).into();
            document["targets"]["acme/fix-boot/9.0.0.wasm"] = acme;
        });
        world.list("bolt", version + 1);
    });
    table.fresh("17 bolt lists a name of no publisher, and acme still works", |world| {
        bolt_with(world, |targets| {
            targets["nobody/x-rule/1.0.0.wasm"] = json!({ "length": 1, "hashes": { "sha256": "ab".repeat(32) } })
        });
    });
    table.fresh("18 bolt's role expired, and acme still works", |world| {
        let version = world.version("bolt");
        world.forge(&world.newest("bolt"), &format!("metadata/{}.bolt.json", version + 1), &[BOLT], |document| {
            document["version"] = (version + 1).into();
            document["expires"] = "2020-01-01T00:00:00Z".into();
        });
        world.list("bolt", version + 1);
    });
    table.fresh("19 bolt's role missing, and acme still works", |world| {
        fs_err::remove_file(world.file(&world.newest("bolt"))).expect("removed");
    });
    for (number, role) in [("20", "acme"), ("21", "snapshot")] {
        table.fresh(&format!("{number} {role} deleted"), |world| {
            fs_err::remove_file(world.file(&world.newest(role))).expect("removed");
        });
    }
    table.fresh("22 timestamp deleted", |world| {
        fs_err::remove_file(world.file("metadata/timestamp.json")).expect("removed");
    });
    table.fresh("23 a timestamp of 50 MB", |world| world.write("metadata/timestamp.json", vec![b' '; 50 << 20]));
    table.fresh("24 a role of 50 MB", |world| world.write(&world.newest("acme"), vec![b' '; 50 << 20]));
    table.fresh("25 the timestamp is a link to /dev/zero", |world| {
        fs_err::remove_file(world.file("metadata/timestamp.json")).expect("removed");
        symlink("/dev/zero", world.file("metadata/timestamp.json")).expect("link");
    });
    table.fresh("26 the timestamp is a pipe", |world| {
        fs_err::remove_file(world.file("metadata/timestamp.json")).expect("removed");
        pipe(&world.file("metadata/timestamp.json"));
    });
    table.fresh("27 one key signs twice", |world| {
        let path = "metadata/timestamp.json";
        let mut envelope: serde_json::Value = serde_json::from_slice(&world.read(path)).expect("metadata");
        let signature = envelope["signatures"][0].clone();
        envelope["signatures"].as_array_mut().expect("array").push(signature);
        world.write(path, envelope.to_string());
    });
    table.fresh("28 one of two signatures on the publishers", |world| {
        let version = world.version("targets");
        world.forge(
            &world.newest("targets"),
            &format!("metadata/{}.targets.json", version + 1),
            &[TARGETS[0]],
            |document| {
                document["version"] = (version + 1).into();
            },
        );
        world.list("targets", version + 1);
    });
    table.known("29 root 2 with one of two signatures", |world, _| {
        world.forge("metadata/1.root.json", "metadata/2.root.json", &[ROOT[0]], |document| {
            document["version"] = 2.into()
        });
    });
    table.known("30 root 2 says that it is root 3", |world, _| {
        world.forge("metadata/1.root.json", "metadata/2.root.json", &ROOT, |document| document["version"] = 3.into());
    });
    table.known("31 root 2 is garbage", |world, _| world.write("metadata/2.root.json", "garbage"));
    table.known("33 root 2 revoked the online key, is hidden, and the key signs on", |world, user| {
        let old = world.copy();
        rotate_online(world, STRANGER);
        world.repository.snapshot_and_timestamp(&[&key(STRANGER)], &[&key(STRANGER)]).expect("snapshot");
        user.install("acme/fix-boot").expect("root 2 was seen");
        world.restore(&old);
        world.release("acme/fix-boot", "1.1.0", b"second");
    });
    table.known("34 fast-forward by the online key, then its rotation", |world, user| {
        world.forge("metadata/timestamp.json", "metadata/timestamp.json", &[ONLINE], |document| {
            document["version"] = 9_007_199_254_740_000_u64.into();
        });
        user.install("acme/fix-boot").expect("nothing is wrong with a large number");
        rotate_online(world, STRANGER);
        let snapshot = world.read(&world.newest("snapshot"));
        let version = world.version("snapshot");
        let document = json!({ "_type": "timestamp", "spec_version": "1.0.34", "version": 1,
            "expires": "2026-06-08T12:00:00Z", "meta": { "snapshot.json": meta(version, &snapshot) } });
        let mut again = world.document(&world.newest("snapshot"));
        again["version"] = version.into();
        world.write_signed(&world.newest("snapshot"), &again, &[STRANGER]);
        let snapshot = world.read(&world.newest("snapshot"));
        let mut document = document;
        document["meta"]["snapshot.json"] = meta(version, &snapshot);
        world.write_signed("metadata/timestamp.json", &document, &[STRANGER]);
    });
    table.fresh("35 36 names outside of the grammar in acme's role do no harm", |world| {
        let version = world.version("acme");
        let one = world.document(&world.newest("acme"))["targets"]["acme/fix-boot/1.0.0.wasm"].clone();
        world.forge(&world.newest("acme"), &format!("metadata/{}.acme.json", version + 1), &[ACME], |document| {
            document["version"] = (version + 1).into();
            for name in [
                "acme/fix-boot/sub/9.0.0.wasm",
                "acme/../9.0.0.wasm",
                "/acme/fix-boot/9.0.0.wasm",
                "acme\\fix-boot\\9.0.0.wasm",
                "ACME/fix-boot/9.0.0.wasm",
                "acme/fix\u{202e}boot/9.0.0.wasm",
                "..",
            ] {
                document["targets"][name] = one.clone();
            }
        });
        world.list("acme", version + 1);
    });
    table.fresh("37 bolt lists a file called `..`, and acme still works", |world| {
        bolt_with(world, |targets| targets[".."] = json!({ "length": 1, "hashes": { "sha256": "ab".repeat(32) } }));
    });
    table.fresh("38 a key comes twice in the timestamp", |world| {
        let text = String::from_utf8(world.read("metadata/timestamp.json")).expect("text");
        world.write("metadata/timestamp.json", text.replacen("\"version\":", "\"version\":1,\"version\":", 1));
    });
    table.fresh("39 10,000 nested brackets", |world| world.write("metadata/timestamp.json", "[".repeat(10_000)));
    {
        let world = World::new();
        let user = world.user();
        user.install("acme/fix-boot").expect("today");
        // The clock was a year ahead once, with a registry that was fresh then, and is right again.
        let ahead = user.after(SignedDuration::from_hours(24 * 3));
        ahead.install("acme/fix-boot").expect("three days ahead");
        let back = ahead.after(SignedDuration::from_hours(-24 * 3));
        table.row("40 the clock was ahead once", &world, back.install("acme/fix-boot"));
    }
    insta::assert_snapshot!("known-attacks", table.0.join("\n"));
}

/// Another role file of bolt.
fn bolt_with(world: &World, change: impl FnOnce(&mut serde_json::Value)) {
    let version = world.version("bolt");
    world.forge(&world.newest("bolt"), &format!("metadata/{}.bolt.json", version + 1), &[BOLT], |document| {
        document["version"] = (version + 1).into();
        change(&mut document["targets"]);
    });
    world.list("bolt", version + 1);
}

/// Root 2 gives snapshot and timestamp to another key.
fn rotate_online(world: &World, seed: u8) {
    world.forge("metadata/1.root.json", "metadata/2.root.json", &ROOT, |document| {
        let public = key(seed).public();
        document["version"] = 2.into();
        document["keys"][public.key_id()] =
            json!({ "keytype": "ed25519", "scheme": "ed25519", "keyval": { "public": public.to_hex() } });
        for role in ["snapshot", "timestamp"] {
            document["roles"][role]["keyids"] = json!([public.key_id()]);
        }
    });
}

/// More attacks by whoever serves the registry or holds one of its keys.
#[test]
fn further_attacks_get_their_messages() {
    let mut table = Table(Vec::new());
    table.fresh("the folder of targets is a link to somewhere else", |world| {
        let elsewhere = world.copy();
        fs_err::remove_dir_all(world.file("targets")).expect("removed");
        symlink(elsewhere.join("targets"), world.file("targets")).expect("link");
    });
    table.fresh("the timestamp is a root", |world| {
        world.write("metadata/timestamp.json", world.read("metadata/1.root.json"));
    });
    table.fresh("the snapshot is a timestamp", |world| {
        let version = world.version("snapshot") + 1;
        let path = format!("metadata/{version}.snapshot.json");
        world.write(&path, world.read("metadata/timestamp.json"));
        world.stamp(&path, version);
    });
    table.fresh("metadata of another specification", |world| {
        world.forge("metadata/timestamp.json", "metadata/timestamp.json", &[ONLINE], |document| {
            document["spec_version"] = "2.0.0".into();
        });
    });
    table.fresh("a version with a fraction", |world| {
        let text = String::from_utf8(world.read("metadata/timestamp.json")).expect("text");
        let version = world.document("metadata/timestamp.json")["version"].clone();
        world.write("metadata/timestamp.json", text.replace(&format!("\"version\":{version}}}"), "\"version\":1.5}"));
    });
    table.fresh("a snapshot without the publishers", |world| {
        world.online(|meta| drop(meta.as_object_mut().expect("object").remove("targets.json")));
    });
    table.fresh("a timestamp that names no snapshot", |world| {
        world.forge("metadata/timestamp.json", "metadata/timestamp.json", &[ONLINE], |document| {
            document["meta"] = json!({});
        });
    });
    table.fresh("a timestamp without signatures", |world| {
        world.forge("metadata/timestamp.json", "metadata/timestamp.json", &[], |_| {});
    });
    table.fresh("a timestamp signed by a stranger under the right key id", |world| {
        world.forge("metadata/timestamp.json", "metadata/timestamp.json", &[STRANGER], |_| {});
        let text = String::from_utf8(world.read("metadata/timestamp.json")).expect("text");
        world.write(
            "metadata/timestamp.json",
            text.replace(&key(STRANGER).public().key_id(), &key(ONLINE).public().key_id()),
        );
    });
    for (name, change) in [
        ("a delegation with a threshold of 0", json!({ "threshold": 0 })),
        ("a delegation that gives acme's files to nobody", json!({ "paths": [] })),
        ("a delegation whose pattern cannot be read", json!({ "paths": ["acme/[/*"] })),
    ] {
        table.fresh(name, |world| {
            delegate(world, |roles| {
                for (field, value) in change.as_object().expect("object") {
                    roles[0][field] = value.clone();
                }
            })
        });
    }
    table.fresh("an earlier delegation takes acme's files", |world| {
        delegate(world, |roles| {
            let mut thief = roles[1].clone();
            thief["paths"] = json!(["*/*/*"]);
            roles.as_array_mut().expect("array").insert(0, thief);
        });
    });
    table.fresh("one key under two ids signs for two", |world| {
        let version = world.version("targets") + 1;
        let path = format!("metadata/{version}.targets.json");
        world.forge(&world.newest("targets"), &path, &TARGETS, |document| {
            document["version"] = version.into();
            let id = key(ACME).public().key_id();
            document["delegations"]["keys"]["alias"] = document["delegations"]["keys"][&id].clone();
            document["delegations"]["roles"][0]["keyids"] = json!([id, "alias"]);
            document["delegations"]["roles"][0]["threshold"] = 2.into();
        });
        world.list("targets", version);
    });
    table.fresh("a key of another kind", |world| {
        let version = world.version("targets") + 1;
        let path = format!("metadata/{version}.targets.json");
        world.forge(&world.newest("targets"), &path, &TARGETS, |document| {
            document["version"] = version.into();
            let id = key(ACME).public().key_id();
            document["delegations"]["keys"][&id]["scheme"] = "rsassa-pss-sha256".into();
        });
        world.list("targets", version);
    });
    table.fresh("acme signs for 11 MB", |world| {
        acme_with(world, |targets| targets["acme/fix-boot/1.0.0.wasm"]["length"] = (11 << 20).into());
    });
    table.fresh("acme signs without a hash", |world| {
        acme_with(world, |targets| targets["acme/fix-boot/1.0.0.wasm"]["hashes"] = json!({ "md5": "00" }));
    });
    table.fresh("acme's key replaces a reviewed component", |world| {
        let evil = b"evil bytes";
        let path = world.target_path("acme/fix-boot", "1.0.0", evil);
        world.write(&path, evil);
        acme_with(world, |targets| {
            targets["acme/fix-boot/1.0.0.wasm"]["hashes"]["sha256"] = delegate_doctor::files::sha256_hex(evil).into();
            targets["acme/fix-boot/1.0.0.wasm"]["length"] = evil.len().into();
            targets["acme/fix-boot/1.0.0.wasm"]["custom"]["dd"]["size"] = evil.len().into();
        });
    });
    table.fresh("acme's key publishes a version that nobody reviewed", |world| {
        world.publish("acme/fix-boot", "2.0.0", b"not reviewed");
        world.publish_all();
    });
    {
        let world = World::empty();
        world.publish("acme/fix-boot", "2.0.0", b"not reviewed");
        world.publish_all();
        table.row("the same, and there is no other version", &world, world.user().install("acme/fix-boot"));
    }
    table.fresh("the record speaks of another version", |world| {
        acme_with(world, |targets| targets["acme/fix-boot/1.0.0.wasm"]["custom"]["dd"]["version"] = "7.0.0".into());
    });
    table.fresh("the reviewers' role expired", |world| {
        let version = world.version("reviewed") + 1;
        world.forge(&world.newest("reviewed"), &format!("metadata/{version}.reviewed.json"), &[REVIEWED], |document| {
            document["version"] = version.into();
            document["expires"] = "2026-01-01T00:00:00Z".into();
        });
        world.list("reviewed", version);
    });
    for (case, signer, change) in [
        ("the review of acme expired", REVIEWED, "expires"),
        ("the review of acme signed by acme", ACME, ""),
        ("the review of acme countersigns other bytes", REVIEWED, "targets"),
    ] {
        table.fresh(case, |world| {
            let role = "reviewed.acme";
            let version = world.version(role) + 1;
            world.forge(&world.newest(role), &format!("metadata/{version}.{role}.json"), &[signer], |document| {
                document["version"] = version.into();
                match change {
                    "expires" => document["expires"] = "2026-01-01T00:00:00Z".into(),
                    "targets" => {
                        document["targets"]["acme/fix-boot/1.0.0.wasm"]["hashes"]["sha256"] = "ab".repeat(32).into();
                    }
                    _ => {}
                }
            });
            world.list(role, version);
        });
    }
    table.fresh("acme's files are countersigned in the review of bolt, and in the role that only revokes", |world| {
        for role in ["reviewed.bolt", "reviewed"] {
            let version = world.version(role) + 1;
            let acme = world.document(&world.newest("reviewed.acme"))["targets"].clone();
            world.forge(&world.newest(role), &format!("metadata/{version}.{role}.json"), &[REVIEWED], |document| {
                document["version"] = version.into();
                document["targets"] = acme;
            });
            world.list(role, version);
        }
        let version = world.version("reviewed.acme") + 1;
        world.forge(
            &world.newest("reviewed.acme"),
            &format!("metadata/{version}.reviewed.acme.json"),
            &[REVIEWED],
            |document| {
                document["version"] = version.into();
                document["targets"] = serde_json::json!({});
            },
        );
        world.list("reviewed.acme", version);
    });
    table.fresh("the online key hides the review of acme", |world| {
        world.online(|all| {
            all.as_object_mut().expect("meta").remove("reviewed.acme.json");
        });
    });
    table.known("the online key hides the review of acme from who saw it", |world, _| {
        world.online(|all| {
            all.as_object_mut().expect("meta").remove("reviewed.acme.json");
        });
    });
    table.fresh("the reviewers' role signed by acme", |world| {
        let version = world.version("reviewed") + 1;
        world.forge(&world.newest("reviewed"), &format!("metadata/{version}.reviewed.json"), &[ACME], |document| {
            document["version"] = version.into();
        });
        world.list("reviewed", version);
    });
    table.known("the maintainers revoked the only version", |world, _| {
        let hash = delegate_doctor::files::sha256_hex(b"first");
        world.repository.revoke(&hash, "steals\u{202e}time", &[&key(REVIEWED)]).expect("revoked");
        world.publish_all();
    });
    table.known("the publisher took the only version back", |world, _| world.yank("acme/fix-boot", "1.0.0", false));
    table.known("acme is no publisher any more", |world, _| {
        let keys = TARGETS.map(key);
        world.repository.remove_publisher("acme", &keys.each_ref()).expect("removed");
        world.publish_all();
    });
    table.known("a registry without consistent snapshots takes over", |world, _| {
        world.forge("metadata/1.root.json", "metadata/2.root.json", &ROOT, |document| {
            document["version"] = 2.into();
            document["consistent_snapshot"] = false.into();
        });
    });
    table.known("a timestamp of the same version with another content is ignored", |world, _| {
        let version = world.document("metadata/timestamp.json")["version"].clone();
        world.publish("acme/fix-boot", "1.1.0", b"second");
        world.publish_all();
        world.forge("metadata/timestamp.json", "metadata/timestamp.json", &[ONLINE], |document| {
            document["version"] = version;
        });
    });
    table.known("the root expired", |world, _| {
        world.forge("metadata/1.root.json", "metadata/2.root.json", &ROOT, |document| {
            document["version"] = 2.into();
            document["expires"] = "2026-05-31T00:00:00Z".into();
        });
    });
    insta::assert_snapshot!("further-attacks", table.0.join("\n"));
}

/// Another role file of acme.
fn acme_with(world: &World, change: impl FnOnce(&mut serde_json::Value)) {
    let version = world.version("acme") + 1;
    world.forge(&world.newest("acme"), &format!("metadata/{version}.acme.json"), &[ACME], |document| {
        document["version"] = version.into();
        change(&mut document["targets"]);
    });
    world.list("acme", version);
}

/// Another list of publishers.
fn delegate(world: &World, change: impl FnOnce(&mut serde_json::Value)) {
    let version = world.version("targets") + 1;
    world.forge(&world.newest("targets"), &format!("metadata/{version}.targets.json"), &TARGETS, |document| {
        document["version"] = version.into();
        change(&mut document["delegations"]["roles"]);
    });
    world.list("targets", version);
}

#[test]
fn nothing_that_is_refused_reaches_the_users_folders() {
    let world = World::new();
    let evil = b"evil bytes that nobody signed";
    world.write(&component(&world), evil);
    let user = world.user();
    user.install("acme/fix-boot").expect_err("refused");
    assert!(!user.has(evil), "the bytes are nowhere");
    let forged = b"{\"signatures\":[],\"signed\":{\"_type\":\"timestamp\"}}";
    world.write("metadata/timestamp.json", forged);
    user.install("acme/fix-boot").expect_err("refused");
    assert!(!user.has(forged), "the metadata is nowhere");
}

/// Whatever byte of the metadata differs: it is noticed, or it changes nothing.
#[test]
fn every_flipped_byte_and_every_cut_is_noticed() {
    let world = World::new();
    let files: Vec<String> =
        ["snapshot", "targets", "acme", "reviewed", "reviewed.acme"].map(|role| world.newest(role)).to_vec();
    let honest = world.user().install("acme/fix-boot");
    assert_eq!(honest.as_deref(), Ok("acme/fix-boot 1.0.0"));
    let (mut refused, mut same) = (0, 0);
    for file in files.iter().map(String::as_str).chain(["metadata/timestamp.json", "metadata/1.root.json"]) {
        let whole = world.read(file);
        for position in (0..whole.len()).step_by(23) {
            let mut damaged = whole.clone();
            damaged[position] ^= 1 << (position % 7);
            for damaged in [damaged, whole[..position].to_vec()] {
                world.write(file, &damaged);
                let user = User::of(delegate_doctor::registry::trust::Known {
                    root: delegate_doctor::registry::trust::Pin {
                        version: 1,
                        sha256: delegate_doctor::files::sha256_hex(&world.read("metadata/1.root.json")),
                    },
                    ..world.known()
                });
                let result = user.install("acme/fix-boot");
                match &result {
                    Ok(_) => {
                        assert_eq!(result, honest, "{file}, byte {position}");
                        same += 1;
                    }
                    Err(error) => {
                        assert!(!error.contains('\u{0}'), "{error:?}");
                        refused += 1;
                    }
                }
            }
        }
        world.write(file, &whole);
    }
    // Two of three signatures of the root suffice, so one of them may be damaged.
    assert!(refused > 500 && same < 40, "{refused} refused, {same} the same");
}
