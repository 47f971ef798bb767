//! What users are told, with the real binary and word for word: versions that were taken back, clones of projects,
//! registries under several names, memories that are gone.

use dd_tests::{Ran, Sandbox};
use delegate_doctor::files::sha256_hex;
use delegate_doctor::registry::metadata::NumericsClass;
use jiff::Timestamp;

use crate::world::*;

/// A registry that is fresh today, and a user who has installed `acme/fix-boot` 1.0.0 in a project.
fn installed() -> (World, Sandbox) {
    let world = World::at(Timestamp::now());
    world.release("acme/fix-boot", "1.0.0", b"first");
    let sandbox = Sandbox::new();
    sandbox.write("dd-rules.toml", "[rules]\n");
    add(&world, &sandbox, NAME).good();
    install(&sandbox, "community:acme/fix-boot").good();
    (world, sandbox)
}

fn add(world: &World, sandbox: &Sandbox, name: &str) -> Ran {
    let (place, root) = (world.path().display().to_string(), root_of(world));
    sandbox.run(["registry", "add", name, &place, "--root-sha256", &root])
}

fn root_of(world: &World) -> String {
    world.known().root.sha256
}

fn install(sandbox: &Sandbox, rule: &str) -> Ran {
    let keys = [ACME, BOLT].map(|seed| key(seed).public().fingerprint());
    sandbox.run(["rules", "install", rule, "--trust", &keys[0], "--trust", &keys[1]])
}

/// Somebody else's clone of the project.
fn clone(of: &Sandbox) -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["dd-rules.toml", "dd-rules.lock"] {
        sandbox.write(name, fs_err::read(of.work().join(name)).expect("file"));
    }
    sandbox
}

const YANKED: &str = "warning: `acme/fix-boot` 1.0.0 is installed, and its publisher took it back (wrong results); \
    `delegate-doctor rules update` takes another version when there is one\n";

#[test]
fn a_version_that_was_taken_back_is_told_by_every_command_that_shows_or_uses_it() {
    let (world, sandbox) = installed();
    world.yank("acme/fix-boot", "1.0.0", false);
    let ran = sandbox.run(["rules", "outdated"]).good();
    assert!(ran.stderr.contains(YANKED), "{}", ran.stderr);
    // Heard once, it is told without asking anybody.
    for command in [vec!["rules", "list"], vec!["rules", "verify", "--offline"], vec!["optimize", "nothing.py"]] {
        let ran = sandbox.run(command.clone());
        let told = ran.stderr.contains("its publisher took it back (wrong results)");
        // A model that is not there ends `optimize` before any rule is loaded.
        assert!(told || command[0] == "optimize", "{command:?}: {}", ran.stderr);
    }
    world.release("acme/fix-boot", "1.0.1", b"better");
    sandbox.run(["rules", "update"]).good();
    let ran = sandbox.run(["rules", "verify"]).good();
    assert!(!ran.stderr.contains("took it back"), "{}", ran.stderr);
}

#[test]
fn one_rule_that_cannot_move_keeps_no_other_where_it_is() {
    let (world, sandbox) = installed();
    world.release("bolt/fix-pool", "1.0.0", b"pool");
    install(&sandbox, "community:bolt/fix-pool").good();
    world.release("bolt/fix-pool", "1.1.0", b"newer pool");
    world.yank("acme/fix-boot", "1.0.0", false);
    let ran = sandbox.run(["rules", "outdated"]).good();
    assert_eq!(ran.stdout, "bolt/fix-pool  1.0.0 installed, 1.1.0 wanted, 1.1.0 newest\n");
    let why = "No version of `acme/fix-boot` in the registry `community` can be installed: 1.0.0 was taken back by its \
        publisher (wrong results)";
    let hint = "hint: Wait for another version, or take it all the same with `--allow-yanked`\n";
    assert!(ran.stderr.contains(&format!("warning: {why}\n")) && ran.stderr.contains(hint), "{}", ran.stderr);
    let ran = sandbox.run(["rules", "update", "acme/fix-boot"]);
    assert_eq!(ran.stderr, format!("error: {why}\n\n{hint}"), "who names it is told why not");
    let ran = sandbox.run(["rules", "update"]).good();
    assert_eq!(ran.stdout, "~ bolt/fix-pool 1.0.0 → 1.1.0  from community\n");
    assert!(ran.stderr.contains(&format!("warning: `acme/fix-boot` stays at 1.0.0. {why}\n")), "{}", ran.stderr);
}

#[test]
fn a_version_that_was_taken_back_is_installed_by_who_insists() {
    let (world, _sandbox) = installed();
    world.yank("acme/fix-boot", "1.0.0", true);
    let other = Sandbox::new();
    add(&world, &other, NAME).good();
    let print = key(ACME).public().fingerprint();
    let ran = other.run(["rules", "install", "community:acme/fix-boot", "--trust", &print]);
    assert!(ran.code() == 2 && ran.stderr.contains("take it all the same with `--allow-yanked`"), "{}", ran.stderr);
    let insist = ["rules", "install", "community:acme/fix-boot", "--trust", &print, "--allow-yanked"];
    assert_eq!(other.run(insist).good().stdout, "+ acme/fix-boot 1.0.0  from community\n");
}

#[test]
fn a_clone_takes_rules_from_no_registry_that_its_user_did_not_agree_to() {
    let (world, first) = installed();
    let second = clone(&first);
    let root = root_of(&world);
    for locked in [vec!["rules", "install"], vec!["rules", "install", "--locked"]] {
        let ran = second.run(locked);
        let expected = format!(
            "error: The lockfile takes rules from the registry `community` at `{}`, which is new to you; its root 1 has the \
             SHA-256 {root}\n\nhint: Compare the SHA-256 with the one on the registry's page, then say `--trust-registry {}`\n",
            world.path().display(),
            &root[..16]
        );
        assert_eq!((ran.code(), ran.stderr), (2, expected));
        let list = second.run(["registry", "list"]).good().stdout;
        assert!(!list.contains(NAME), "nothing was added: {list}");
    }
    let ran = second.run(["rules", "install", "--locked", "--trust-registry", "0123456789abcdef"]);
    assert!(ran.code() == 2 && ran.stderr.contains("which is new to you"), "another root: {}", ran.stderr);
    let ran = second.run(["rules", "install", "--locked", "--trust-registry", &root[..16]]).good();
    assert!(ran.stderr.contains("1 rule is installed exactly as locked in the project"), "{}", ran.stderr);
}

#[test]
fn a_clone_compares_the_keys_of_the_lockfile_also_on_an_empty_home() {
    let (world, first) = installed();
    let second = clone(&first);
    let keys = TARGETS.map(key);
    world.repository.replace_keys("acme", &[key(STRANGER).public()], 1, &keys.each_ref()).expect("another key");
    world.repository.renew("acme", &[&key(STRANGER)]).expect("renewed");
    world.publish_all();
    let root = root_of(&world);
    let ran = second.run(["rules", "install", "--locked", "--trust-registry", &root]);
    let public = key(STRANGER).public();
    assert_eq!(ran.code(), 2);
    let expected = format!(
        "error: The publisher `acme` of `community` signs with other keys than those in the lockfile: {}\n\nhint: Compare \
         the fingerprint with the one that the publisher shows, then say `--trust {}`\n",
        public.fingerprint(),
        &public.key_id()[..16]
    );
    assert!(ran.stderr.ends_with(&expected), "{}", ran.stderr);
    let ran = second.run(["rules", "install", "--locked", "--trust", &public.key_id()[..16]]);
    assert!(ran.stderr.contains("installed exactly as locked"), "{}", ran.stderr);
}

#[test]
fn everything_that_the_lockfile_says_about_a_component_counts() {
    let (_world, sandbox) = installed();
    let path = sandbox.work().join("dd-rules.lock");
    let good = fs_err::read_to_string(&path).expect("lock");
    let files = version_files("acme/fix-boot", "1.0.0", b"first", NumericsClass::Exact);
    let manifest = sha256_hex(&files.last().expect("manifest").bytes);
    for (from, to, what) in [
        ("length = 5".to_owned(), "length = 6".to_owned(), "a length of 5, and the lockfile says 6".to_owned()),
        (
            manifest.clone(),
            "ab".repeat(32),
            format!("a manifest with the SHA-256 {manifest}, and the lockfile says {}", "ab".repeat(32)),
        ),
        (
            "contract = \"0.1.0\"".to_owned(),
            "contract = \"0.9.0\"".to_owned(),
            "the contract 0.1.0, and the lockfile says 0.9.0".to_owned(),
        ),
    ] {
        assert!(good.contains(&from), "{from} is in\n{good}");
        fs_err::write(&path, good.replace(&from, &to)).expect("edited");
        for command in [vec!["rules", "list"], vec!["rules", "install", "--locked"]] {
            let ran = sandbox.run(command);
            let expected = format!("error: `acme/fix-boot` 1.0.0 of the registry `community` has {what}\n");
            assert!(ran.code() == 2 && ran.stderr.starts_with(&expected), "{}", ran.stderr);
        }
    }
    // What would steer a terminal is not printed, whatever the file is.
    for file in ["dd-rules.lock", "dd-rules.toml"] {
        let whole = fs_err::read_to_string(sandbox.work().join(file)).expect("file");
        sandbox.write(file, format!("{whole}\n\u{1b}[31mred"));
        let ran = sandbox.run(["rules", "list"]);
        assert!(
            ran.code() == 2 && !ran.stderr.contains('\u{1b}') && ran.stderr.contains("\u{fffd}[31mred"),
            "{}",
            ran.stderr
        );
        sandbox.write(file, whole);
        fs_err::write(&path, &good).expect("as it was");
    }
}

#[test]
fn a_memory_that_is_gone_as_a_whole_is_told_once() {
    let (world, sandbox) = installed();
    fs_err::remove_dir_all(sandbox.home().join("state")).expect("removed");
    let told = "warning: What was seen of the registry `community` before is gone from this machine: versions and \
        revocations are remembered from now on, and an old registry would be believed once\n";
    let ran = sandbox.run(["rules", "list"]);
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let ran = sandbox.run(["rules", "outdated"]).good();
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let ran = sandbox.run(["rules", "outdated"]).good();
    assert!(!ran.stderr.contains("is gone"), "{}", ran.stderr);
    drop(world);
}

#[test]
fn rules_are_named_with_their_registry_wherever_they_are_named() {
    let (world, sandbox) = installed();
    world.release("acme/fix-boot", "1.1.0", b"second");
    let ran = sandbox.run(["rules", "remove", "other:acme/fix-boot"]);
    assert!(
        ran.stderr.contains("error: The rule `other:acme/fix-boot` is not installed in the project"),
        "{}",
        ran.stderr
    );
    let ran = sandbox.run(["rules", "remove", "community:acme/fix-boot@1.0.0"]);
    assert!(
        ran.stderr.starts_with("error: `community:acme/fix-boot` names a version, and only the rule counts here\n")
    );
    sandbox.run(["rules", "pin", "community:acme/fix-boot"]).good();
    sandbox.run(["rules", "unpin", "community:acme/fix-boot"]).good();
    let ran = sandbox.run(["rules", "update", "community:acme/fix-boot"]).good();
    assert_eq!(ran.stdout, "~ acme/fix-boot 1.0.0 → 1.1.0  from community\n");
    let ran = sandbox.run(["rules", "remove", "community:acme/fix-boot"]).good();
    assert_eq!(ran.stdout, "- acme/fix-boot 1.1.0\n");
}

#[test]
fn wishes_without_a_lockfile_are_told() {
    let (_world, sandbox) = installed();
    fs_err::remove_file(sandbox.work().join("dd-rules.lock")).expect("removed");
    let ran = sandbox.run(["rules", "list"]).good();
    let told = "has wishes in `dd-rules.toml` and no lockfile, so the rules of this user are used; `delegate-doctor rules \
        install` makes one\n";
    assert!(ran.stderr.starts_with("warning: The project `") && ran.stderr.contains(told), "{}", ran.stderr);
}

#[test]
fn a_rule_that_comes_from_another_registry_now_is_shown_as_that() {
    let (_world, sandbox) = installed();
    let other = World::at(Timestamp::now() - jiff::SignedDuration::from_mins(1));
    other.release("acme/fix-boot", "1.0.0", b"first");
    add(&other, &sandbox, "elsewhere").good();
    let ran = install(&sandbox, "elsewhere:acme/fix-boot").good();
    assert_eq!(ran.stdout, "~ acme/fix-boot 1.0.0 from community → 1.0.0 from elsewhere\n");
}

#[test]
fn the_same_registry_under_another_name_is_the_same_registry() {
    let (world, first) = installed();
    let second = clone(&first);
    add(&world, &second, "ours").good();
    let ran = second.run(["rules", "install", "--locked"]).good();
    assert!(ran.stderr.contains("1 rule is installed exactly as locked"), "{}", ran.stderr);
    second.run(["rules", "list"]);
    let ran = second.run(["rules", "verify", "--strict"]).good();
    assert_eq!(ran.stdout, "✓ acme/fix-boot 1.0.0  bytes and signatures are good\n");
    let list = second.run(["registry", "list"]).good().stdout;
    assert!(list.contains("ours") && !list.contains(NAME), "{list}");
    // Also when the project has seen a newer root.
    world.repository.rotate("timestamp", &[key(ONLINE).public()], 1, &ROOT.map(key).each_ref()).expect("root 2");
    world.publish_all();
    world.release("acme/fix-boot", "1.1.0", b"second");
    first.run(["rules", "update"]).good();
    let third = clone(&first);
    add(&world, &third, "mine").good();
    third.run(["rules", "install", "--locked"]).good();
}

#[test]
fn a_catalogue_that_the_snapshot_does_not_pin_is_not_shown() {
    let (world, sandbox) = installed();
    let path = world.newest("catalog");
    let honest = String::from_utf8(world.read(&path)).expect("text");
    assert!(honest.contains("Mends fix-boot"), "{honest}");
    world.write(&path, honest.replace("Mends fix-boot", "Mends any-boot"));
    let ran = sandbox.run(["rules", "search", "--registry", NAME]);
    assert!(
        ran.code() == 2
            && ran.stdout.is_empty()
            && ran.stderr.starts_with(
                "error: The role `catalog` of the registry `community` is refused: it is not the file that the metadata \
                 above it names (its SHA-256 is not the one that is pinned)\n"
            ),
        "{}",
        ran.stderr
    );
    // Installing does not ask it.
    sandbox.run(["rules", "install"]).good();
}

#[test]
fn the_bundled_registry_is_not_taken_for_a_slip_of_the_fingers() {
    let sandbox = Sandbox::new();
    for command in [["registry", "repair"], ["registry", "sync"]] {
        let ran = sandbox.run(command.into_iter().chain(["bundled"]));
        assert_eq!(
            (ran.code(), ran.stderr.as_str()),
            (
                2,
                "error: The registry `bundled` comes with this tool and cannot be changed, repaired or asked for news\n\n\
                 hint: A newer version of the tool brings a newer one\n"
            )
        );
    }
}

#[test]
fn a_key_that_signs_nothing_is_told_with_the_one_that_does() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("wrong.pem");
    key(STRANGER).write(&path, None).expect("key");
    let sandbox = Sandbox::new();
    let (registry, wrong) = (world.path().display().to_string(), path.display().to_string());
    let ran = sandbox.run(["registry", "resign", "--registry", &registry, "--key", &wrong]);
    let expected = format!(
        "error: The key {} signs nothing for role `snapshot`\n\nhint: Sign with the online key: {}\n",
        key(STRANGER).public().fingerprint(),
        key(ONLINE).public().fingerprint()
    );
    assert_eq!((ran.code(), ran.stderr), (2, expected));
}

#[test]
fn what_a_killed_command_left_in_a_registry_is_removed_by_the_next_one() {
    let world = World::at(Timestamp::now());
    let left = [world.file("metadata/.writing-abc"), world.file("targets/.writing-def")];
    left.iter().for_each(|path| fs_err::write(path, "half").expect("left"));
    drop(world.repository.lock().expect("lock"));
    assert!(left.iter().all(|path| !path.exists()), "both are gone");
}

#[test]
fn a_folder_in_the_place_of_a_component_is_named() {
    let (_world, sandbox) = installed();
    let sha256 = sha256_hex(b"first");
    let blob = sandbox.home().join("data/rules/blobs/sha256").join(&sha256[..2]).join(&sha256);
    fs_err::remove_file(&blob).expect("removed");
    fs_err::create_dir(&blob).expect("a folder");
    let ran = sandbox.run(["rules", "list"]);
    assert!(ran.code() == 2 && ran.stderr.contains(&format!("`{}` is a folder", blob.display())), "{}", ran.stderr);
    let ran = sandbox.run(["rules", "install"]);
    assert!(ran.code() == 2 && ran.stderr.contains(&blob.display().to_string()), "{}", ran.stderr);
}

#[test]
fn what_a_publisher_says_is_what_was_reviewed_or_it_is_refused() {
    let (world, sandbox) = installed();
    // After the review, the publisher alone says something else about the same bytes.
    let new = version_files("acme/fix-pool", "1.0.0", b"pool", NumericsClass::Tolerant);
    let target = new.first().expect("component").target.clone();
    world.repository.publish("acme", &new, &[&key(ACME)]).expect("published");
    world.review("acme/fix-pool", "1.0.0");
    let change = world.repository.change_record(&target, &[&key(ACME)], |record| {
        record.numerics = NumericsClass::Exact;
        record.evidence.models.push("every model".to_owned());
    });
    change.expect("changed");
    world.publish_all();
    let refused = "The file `acme/fix-pool/1.0.0.wasm` of the registry `community` is refused: the numerics class that \
                   its publisher's role tells is not the one of its manifest";
    let ran = sandbox.run(["rules", "info", "community:acme/fix-pool"]);
    assert_eq!(ran.code(), 2, "{}", ran.stdout);
    assert!(ran.stderr.contains(refused), "{}", ran.stderr);
    let ran = install(&sandbox, "community:acme/fix-pool");
    assert!(ran.stderr.contains(refused), "{}", ran.stderr);
    let ran = sandbox.run(["rules", "verify"]).good();
    assert_eq!(ran.stdout, "✓ acme/fix-boot 1.0.0  bytes and signatures are good\n");
}

/// What a user reads of an installed rule that was revoked, whatever became of its publisher.
fn assert_is_revoked(sandbox: &Sandbox) {
    let ran = sandbox.run(["rules", "verify"]);
    assert!(ran.stdout.contains("the maintainers have revoked it"), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code(), 2, "{}", ran.stdout);
    let ran = sandbox.run(["rules", "list"]);
    assert!(ran.stderr.contains("the maintainers have revoked it"), "{}", ran.stderr);
}

#[test]
fn a_revocation_is_heard_of_also_when_the_publisher_is_gone_or_let_its_role_expire() {
    let (world, sandbox) = installed();
    let reviewers = key(REVIEWED);
    world.repository.revoke(&delegate_doctor::files::sha256_hex(b"first"), "hostile", &[&reviewers]).expect("revoked");
    let keys = TARGETS.map(key);
    world.repository.remove_publisher("acme", &keys.each_ref()).expect("removed");
    world.publish_all();
    assert_is_revoked(&sandbox);
    // What was published stays where it is, and that is in order.
    let place = world.path().display().to_string();
    let ran = sandbox.run(["registry", "check", &place]).good();
    assert!(ran.stdout.contains("1 publisher"), "{}", ran.stdout);

    let (world, sandbox) = installed();
    world.repository.revoke(&delegate_doctor::files::sha256_hex(b"first"), "hostile", &[&reviewers]).expect("revoked");
    world.publish_all();
    let newest = world.newest("acme");
    let version = world.version("acme");
    world.forge(&newest, &format!("metadata/{}.acme.json", version + 1), &[ACME], |document| {
        document["version"] = (version + 1).into();
        document["expires"] = "2020-01-01T00:00:00Z".into();
    });
    world.list("acme", version + 1);
    assert_is_revoked(&sandbox);
}

#[test]
fn a_publisher_that_is_gone_keeps_no_other_rule_where_it_is() {
    let (world, sandbox) = installed();
    world.release("bolt/fix-pool", "1.0.0", b"pool");
    install(&sandbox, "community:bolt/fix-pool").good();
    world.release("bolt/fix-pool", "1.1.0", b"newer");
    let keys = TARGETS.map(key);
    world.repository.remove_publisher("acme", &keys.each_ref()).expect("removed");
    world.publish_all();
    let ran = sandbox.run(["rules", "update"]);
    assert_eq!(ran.code(), 2, "{}", ran.stderr);
    assert!(ran.stdout.contains("bolt/fix-pool 1.0.0 → 1.1.0"), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("error: `acme/fix-boot` stays at 1.0.0"), "{}", ran.stderr);
    // Asked for by name, it is an error.
    let ran = sandbox.run(["rules", "update", "acme/fix-boot"]);
    assert_eq!(ran.code(), 2, "{}", ran.stdout);
}

#[test]
fn a_rule_taken_without_review_stays_usable_once_it_is_reviewed() {
    let (world, sandbox) = installed();
    world.publish("bolt/fix-loop", "1.0.0", b"loop");
    world.publish_all();
    let print = key(BOLT).public().fingerprint();
    let rule = "community:bolt/fix-loop";
    let ran = sandbox.run(["rules", "install", rule, "--allow-unreviewed", "--trust", &print]).good();
    let told = "warning: `bolt/fix-loop` 1.0.0 was not reviewed by the maintainers of `community`";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    // A clone is told too, although somebody else allowed it.
    let second = clone(&sandbox);
    add(&world, &second, NAME).good();
    let ran = second.run(["rules", "install"]).good();
    assert!(ran.stderr.contains(told) && ran.stderr.contains("2 rules were installed as locked"), "{}", ran.stderr);

    world.review("bolt/fix-loop", "1.0.0");
    world.publish_all();
    sandbox.run(["rules", "update"]).good();
    let lock = fs_err::read_to_string(sandbox.work().join("dd-rules.lock")).expect("lock");
    assert!(!lock.contains("reviewed = false"), "{lock}");
    let ran = sandbox.run(["rules", "verify"]).good();
    assert!(ran.stdout.contains("✓ bolt/fix-loop 1.0.0"), "{}", ran.stdout);
    sandbox.run(["rules", "install", "--locked"]).good();
}

#[test]
fn a_lockfile_that_claims_a_review_is_not_believed() {
    let (world, sandbox) = installed();
    world.publish("bolt/fix-loop", "1.0.0", b"loop");
    world.publish_all();
    let print = key(BOLT).public().fingerprint();
    sandbox.run(["rules", "install", "community:bolt/fix-loop", "--allow-unreviewed", "--trust", &print]).good();
    let second = clone(&sandbox);
    let lock = fs_err::read_to_string(second.work().join("dd-rules.lock")).expect("lock");
    second.write("dd-rules.lock", lock.replace("reviewed = false", "reviewed = true"));
    add(&world, &second, NAME).good();
    let ran = second.run(["rules", "install", "--locked"]);
    assert!(ran.stderr.contains("was not reviewed by the maintainers"), "{}", ran.stderr);
    assert_eq!(ran.code(), 2);
}
