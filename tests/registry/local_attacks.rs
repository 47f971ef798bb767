//! What can happen on the user's side: damaged disks, edited lockfiles, two registries of one name, rules that are
//! withdrawn after they were installed.

use delegate_doctor::registry::client::{Manner, Registry};
use delegate_doctor::registry::install::{self, Moves, Present, Registries};
use delegate_doctor::registry::lockfile::Lock;
use delegate_doctor::registry::metadata::NumericsClass;
use delegate_doctor::registry::trust::{Acquaintance, Pin};
use delegate_doctor::registry::wanted::{Key, Wanted, Wish};

use crate::world::*;

/// The user's files whose path contains `part`.
fn files_of(user: &User, part: &str) -> Vec<std::path::PathBuf> {
    fn search(folder: &std::path::Path, part: &str, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                search(&path, part, found);
            } else if path.display().to_string().contains(part) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    search(&user.places().rules, part, &mut found);
    search(&user.places().cache, part, &mut found);
    found.sort();
    found
}

fn replace(path: &std::path::Path, bytes: &[u8]) {
    fs_err::remove_file(path).expect("removed");
    fs_err::write(path, bytes).expect("replaced");
}

fn loaded(user: &User) -> Result<String, String> {
    user.load().map(|rules| rules.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", "))
}

#[test]
fn damaged_blobs_are_never_handed_out_and_installing_again_mends_them() {
    let world = World::new();
    let user = world.user();
    user.install("acme/fix-boot").expect("installed");
    let blobs = files_of(&user, "/blobs/");
    assert!(blobs.len() >= 7, "component, manifest and what vouches for them: {}", blobs.len());
    for blob in &blobs {
        let whole = fs_err::read(blob).expect("blob");
        let is_manifest = whole.starts_with(b"# Written by");
        for damage in [&b""[..], b"fIrst", &whole[..whole.len() - 1]] {
            replace(blob, damage);
            if is_manifest {
                continue;
            }
            let error = loaded(&user).expect_err("damaged");
            assert!(error.contains("missing or damaged in the store"), "{error}");
            user.change("acme/fix-boot", &Moves::default()).expect("installed again");
            assert_eq!(loaded(&user).as_deref(), Ok("acme/fix-boot 1.0.0"), "{}", blob.display());
        }
    }
}

#[test]
fn a_poisoned_cache_of_metadata_is_got_anew() {
    let world = World::new();
    let user = world.user();
    user.install("acme/fix-boot").expect("installed");
    let cached = files_of(&user, "/metadata/");
    assert!(cached.len() >= 4, "{cached:?}");
    let signed_by_others = world.read("metadata/1.root.json");
    for file in &cached {
        for poison in [b"{}".to_vec(), signed_by_others.clone(), Vec::new()] {
            replace(file, &poison);
            user.install("acme/fix-boot").expect("works");
            assert_ne!(fs_err::read(file).expect("cached again"), poison);
        }
    }
}

#[test]
fn a_record_that_points_to_other_metadata_proves_nothing() {
    let world = World::new();
    let user = world.user();
    user.install("acme/fix-boot").expect("installed");
    user.install("bolt/fix-pool").expect("installed");
    let records = files_of(&user, "/records/");
    assert_eq!(records.len(), 2);
    let read = |path: &std::path::PathBuf| -> serde_json::Value {
        serde_json::from_slice(&fs_err::read(path).expect("record")).expect("JSON")
    };
    let (acme, bolt) = (read(&records[0]), read(&records[1]));
    let mut told = Vec::new();
    for (case, field) in [
        ("the component of another rule", "sha256"),
        ("the role of another publisher", "role"),
        ("another file as timestamp", "timestamp"),
        ("the role as review", "reviewed"),
        ("the review of another publisher", "review"),
        ("without the publisher's review", "no-review"),
        ("other roots", "roots"),
        ("no roots", ""),
        ("a time after everything expired", "at"),
        ("without the review", "without"),
    ] {
        let mut record = acme.clone();
        match field {
            "timestamp" => record["timestamp"] = acme["snapshot"].clone(),
            "reviewed" => record["reviewed"] = acme["role"].clone(),
            "roots" => record["roots"] = serde_json::json!([acme["snapshot"]]),
            "" => record["roots"] = serde_json::json!([]),
            "at" => record["at"] = "2030-01-01T00:00:00Z".into(),
            "no-review" => record["review"] = serde_json::Value::Null,
            "without" => record["reviewed"] = serde_json::Value::Null,
            other => record[other] = bolt[other].clone(),
        }
        replace(&records[0], record.to_string().as_bytes());
        told.push(format!(
            "{case}\n  {}",
            loaded(&user).expect_err(case).replace(&user.scope().folder.display().to_string(), "PROJECT")
        ));
    }
    insta::assert_snapshot!("records", told.join("\n"));
}

#[test]
fn an_edited_lockfile_does_not_smuggle_anything_in() {
    let world = World::new();
    let user = world.user();
    user.install("acme/fix-boot").expect("installed");
    user.install("bolt/fix-pool").expect("installed");
    let folder = user.scope().folder;
    let good = Lock::read(&folder).expect("lock").expect("lock");
    let mut told = Vec::new();
    let mut attempt = |case: &str, edit: &dyn Fn(&mut Lock)| {
        let mut lock = good.clone();
        edit(&mut lock);
        lock.write(&folder).expect("written");
        let run = loaded(&user);
        let install = user.change("bolt/fix-pool", &Moves::default());
        let plain = |text: &Result<String, String>| match text {
            Ok(text) => format!("works: {text}"),
            Err(text) => format!("refused: {}", text.replace(&folder.display().to_string(), "PROJECT")),
        };
        told.push(format!("{case}\n  run      {}\n  install  {}", plain(&run), plain(&install)));
        good.write(&folder).expect("mended");
    };
    attempt("unchanged", &|_| {});
    attempt("the hash of another component", &|lock| lock.rules[0].sha256 = lock.rules[1].sha256.clone());
    attempt("a version that does not exist", &|lock| lock.rules[0].version = semver::Version::new(9, 0, 0));
    attempt("a later role than the registry has", &|lock| {
        lock.rules[0].role.version = 99;
        lock.rules[0].version = semver::Version::new(9, 0, 0);
    });
    attempt("another registry of the same name", &|lock| {
        lock.registries[0].root.sha256 = "ab".repeat(32);
        lock.rules[0].version = semver::Version::new(9, 0, 0);
    });
    attempt("a registry that is not known here", &|lock| {
        lock.registries[0].id = "elsewhere".to_owned();
        lock.rules.iter_mut().for_each(|rule| rule.registry = "elsewhere".to_owned());
    });
    insta::assert_snapshot!("lockfiles", told.join("\n"));
}

#[test]
fn a_name_is_never_looked_up_in_another_registry() {
    let world = World::new();
    let user = world.user();
    let mut registries = user.registries();
    let mut wanted = Wanted::default();
    let wish = Wish { versions: semver::VersionReq::STAR, pin: None, unreviewed: false };
    wanted.rules.insert(Key { registry: None, rule: rule("acme/fix-boot") }, wish);
    let present = Present::read(&user.scope()).expect("nothing");
    let error = install::plan(&mut registries, present, wanted, &Moves::default()).expect_err("only in `community`");
    assert!(error.to_string().contains("of the registry `bundled` is refused"), "{error}");
}

#[test]
fn mistyped_rules_get_suggestions_and_nothing_is_chosen() {
    use delegate_doctor::hint::Hint as _;
    let world = World::new();
    let user = world.user();
    let mut registries = user.registries();
    let view = registries.view(NAME).expect("view");
    let error = view.choose(&rule("acme/fix-bot"), None, Default::default()).expect_err("mistyped");
    assert_eq!(error.to_string(), "The registry `community` has no rule `acme/fix-bot`");
    assert_eq!(error.hint().as_deref(), Some("Did you mean `acme/fix-boot`? Nothing is chosen for you"));
    let error = view.choose(&rule("acm/fix-boot"), None, Default::default()).expect_err("mistyped");
    assert_eq!(error.hint().as_deref(), Some("Did you mean `acme/fix-boot`? Nothing is chosen for you"));
}

#[test]
fn withdrawn_rules_behave_as_their_kind_of_withdrawal_says() {
    let world = World::new();
    let user = world.user();
    user.install("acme/fix-boot").expect("installed");
    let early = world.user();
    early.install("acme/fix-boot").expect("installed");
    let locked = user.scope().folder;
    // A yanked version stays for those who have it in a lock, with a warning, and is chosen by nobody else.
    world.yank("acme/fix-boot", "1.0.0", false);
    let other = world.user();
    copy_folder(&locked, &other.scope().folder);
    assert_eq!(other.change("acme/fix-boot", &Moves::default()).as_deref(), Ok("acme/fix-boot 1.0.0"));
    assert_eq!(loaded(&other).as_deref(), Ok("acme/fix-boot 1.0.0"));
    let error = world.user().install("acme/fix-boot").expect_err("yanked");
    assert_eq!(
        error,
        "No version of `acme/fix-boot` in the registry `community` can be installed: 1.0.0 was taken back by its \
         publisher (wrong results)"
    );
    // Taken back for security, not from a lock either, unless the user insists.
    world.yank("acme/fix-boot", "1.0.0", true);
    let third = world.user();
    copy_folder(&locked, &third.scope().folder);
    let error = third.change("acme/fix-boot", &Moves::default()).expect_err("security");
    assert_eq!(error, "`acme/fix-boot` 1.0.0 must not be used: its publisher took it back (wrong results)");
    let moves = Moves { yanked: true, ..Moves::default() };
    assert_eq!(third.change("acme/fix-boot", &moves).as_deref(), Ok("acme/fix-boot 1.0.0"));
    assert_eq!(loaded(&third).as_deref(), Ok("acme/fix-boot 1.0.0"), "who insists may use it");
    // Where it was installed before, it does not run either once that was heard.
    assert_eq!(loaded(&early).as_deref(), Ok("acme/fix-boot 1.0.0"), "not heard of yet");
    early.registries().view(NAME).expect("view").releases(&rule("acme/fix-boot")).expect("heard of it");
    assert_eq!(
        loaded(&early).expect_err("taken back"),
        "`acme/fix-boot` 1.0.0 must not be used: its publisher took it back (wrong results)"
    );
    assert_eq!(early.change("acme/fix-boot", &moves).as_deref(), Ok("acme/fix-boot 1.0.0"));
    assert_eq!(loaded(&early).as_deref(), Ok("acme/fix-boot 1.0.0"), "who insists may use it");
    // Revoked by the maintainers: it does not even run where it is installed, once that was heard.
    let hash = delegate_doctor::files::sha256_hex(b"first");
    world.repository.revoke(&hash, "hostile", &[&key(REVIEWED)]).expect("revoked");
    world.publish_all();
    assert_eq!(loaded(&user).as_deref(), Ok("acme/fix-boot 1.0.0"), "not heard of yet");
    let named = Moves { update: vec![rule("acme/fix-boot")], ..Moves::default() };
    let error = user.change("acme/fix-boot", &named).expect_err("revoked");
    assert!(error.contains("1.0.0 was revoked by the maintainers (hostile)"), "{error}");
    assert_eq!(
        loaded(&user).expect_err("revoked"),
        "The file `acme/fix-boot/1.0.0.wasm` of the registry `community` is refused: the maintainers have revoked it"
    );
}

#[test]
fn publishers_are_strangers_until_trusted_and_again_with_other_keys() {
    let world = World::new();
    let user = world.user();
    let acquaintance = |registries: &mut Registries| {
        let registry = registries.registry(NAME).expect("registry");
        let publisher = registries.view(NAME).expect("view").publisher("acme").expect("publisher");
        let found = registries.acquaintance(&registry, &publisher);
        (registry.pin().id(), publisher, found)
    };
    let mut registries = user.registries();
    let (id, publisher, found) = acquaintance(&mut registries);
    assert_eq!(found, Acquaintance::New);
    assert_eq!(publisher.keys, [key(ACME).public().key_id()], "the id is computed from the key");
    registries.trust_publisher(&id, &publisher).expect("trusted");
    assert_eq!(acquaintance(&mut user.registries()).2, Acquaintance::Trusted);
    let keys = TARGETS.map(key);
    world.repository.replace_keys("acme", &[key(STRANGER).public()], 1, &keys.each_ref()).expect("replaced");
    world.repository.renew("acme", &[&key(STRANGER)]).expect("signed anew");
    world.publish_all();
    assert_eq!(acquaintance(&mut user.registries()).2, Acquaintance::OtherKeys);
}

#[test]
fn a_registry_is_its_root_and_not_its_address() {
    let (ours, theirs) = (World::new(), World::at(noon() - jiff::SignedDuration::from_hours(1)));
    theirs.release("acme/fix-boot", "9.0.0", b"theirs");
    let user = ours.user();
    user.install("acme/fix-boot").expect("installed");
    ours.restore(&theirs.path());
    let fresh = User::of(World::new().known());
    drop(fresh);
    // Whoever has seen the root keeps it; whoever only has the pin sees another root.
    let error = user.install("acme/fix-boot").expect_err("other registry");
    assert!(error.contains("is refused"), "{error}");
    let mut known = ours.known();
    known.root = Pin { version: 1, sha256: "ab".repeat(32) };
    let error = User::of(known).install("acme/fix-boot").expect_err("not pinned");
    assert!(error.contains("pinned"), "{error}");
}

#[test]
fn without_the_network_what_was_seen_still_serves() {
    let world = World::new();
    let mut user = world.user();
    user.install("acme/fix-boot").expect("installed");
    // The folder stands for a host: nothing of it is asked again.
    let mut known = world.known();
    known.place = "https://rules.example.org/".to_owned();
    let registry = Registry::open(&known, &user.places(), Manner { offline: true, ..Manner::default() }).expect("open");
    let view = std::sync::Arc::new(registry).refresh(noon() + jiff::SignedDuration::from_hours(24 * 300));
    let mut view = view.expect("from what was seen");
    assert_eq!(view.releases(&rule("acme/fix-boot")).expect("releases").len(), 1);
    user.clock = noon() + jiff::SignedDuration::from_hours(24 * 300);
    assert_eq!(loaded(&user).as_deref(), Ok("acme/fix-boot 1.0.0"), "what is installed does not expire");
}

#[test]
fn a_weaker_claim_is_visible_before_it_is_taken() {
    let world = World::new();
    let files = version_files("acme/fix-boot", "1.1.0", b"tolerant", NumericsClass::Tolerant);
    world.repository.publish("acme", &files, &[&key(ACME)]).expect("published");
    world.review("acme/fix-boot", "1.1.0");
    world.publish_all();
    let user = world.user();
    let mut registries = user.registries();
    let releases = registries.view(NAME).expect("view").releases(&rule("acme/fix-boot")).expect("releases");
    let classes: Vec<_> = releases.iter().map(|release| release.record.numerics).collect();
    assert_eq!(classes, [NumericsClass::Exact, NumericsClass::Tolerant]);
}

#[test]
fn the_same_wishes_give_the_same_lockfile_everywhere() {
    let world = World::new();
    let (one, two) = (world.user(), world.user().after(jiff::SignedDuration::from_hours(5)));
    one.install("acme/fix-boot").expect("installed");
    one.install("bolt/fix-pool").expect("installed");
    two.install("bolt/fix-pool").expect("installed");
    two.install("acme/fix-boot").expect("installed");
    let bytes = |user: &User| fs_err::read_to_string(user.scope().folder.join("dd-rules.lock")).expect("lock");
    assert_eq!(bytes(&one), bytes(&two));
    // A fresh home with the lock alone has the same components.
    let third = world.user();
    copy_folder(&one.scope().folder, &third.scope().folder);
    third.change("acme/fix-boot", &Moves::default()).expect("installed");
    assert_eq!(third.load().expect("loaded"), one.load().expect("loaded"));
    assert_eq!(bytes(&third), bytes(&one));
}

#[test]
fn root_takes_no_rules_from_folders_that_others_can_change() {
    use std::os::unix::fs::PermissionsExt as _;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = World::new();
    let user = world.user();
    user.install("acme/fix-boot").expect("installed");
    let rules = user.places().rules;
    let open = |mode| fs_err::set_permissions(&rules, std::fs::Permissions::from_mode(mode)).expect("mode");
    open(0o777);
    let registries = Registries::new(user.places(), Manner::default(), noon(), &[]);
    let error = registries.expect_err("exposed").to_string();
    assert!(error.starts_with("As root, rules are taken only from folders that nobody else can change"), "{error}");
    open(0o755);
    assert_eq!(loaded(&user).as_deref(), Ok("acme/fix-boot 1.0.0"));
}
