//! The commands of a user, with the real binary: from adding a registry to a repair by one of its rules.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use dd_tests::{PYTHON, Ran, Sandbox, workspace};
use delegate_doctor::registry;
use jiff::Timestamp;

use crate::world::*;

/// A registry that is fresh today, and a user's sandbox with a project.
fn today() -> (World, Sandbox) {
    let world = World::at(Timestamp::now());
    world.release("acme/fix-boot", "1.0.0", b"first");
    let sandbox = Sandbox::new();
    sandbox.write("dd-rules.toml", "# Rules of this project.\n[rules]\n");
    (world, sandbox)
}

fn add(world: &World, sandbox: &Sandbox, place: &str) -> Ran {
    let root = world.known().root.sha256;
    sandbox.run(["registry", "add", NAME, place, "--root-sha256", &root])
}

fn print_of(seed: u8) -> String {
    key(seed).public().fingerprint()
}

/// Serves a folder on this machine; gives the URL.
fn serve(folder: PathBuf) -> String {
    serve_late(folder, "nothing")
}

/// Serves a folder in which files whose path has `late` in it are missing the first time they are asked for.
fn serve_late(folder: PathBuf, late: &'static str) -> String {
    let asked = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let url = format!("http://{}/", listener.local_addr().expect("address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (folder, asked) = (folder.clone(), asked.clone());
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                    head.extend(byte);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
                let too_early = path.contains(late) && asked.lock().expect("asked").insert(path.to_owned());
                let reply = match fs_err::read(folder.join(path)) {
                    Ok(bytes) if !too_early => {
                        let mut reply =
                            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len())
                                .into_bytes();
                        reply.extend(bytes);
                        reply
                    }
                    _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
                };
                let _ = stream.write_all(&reply);
            });
        }
    });
    url
}

#[test]
fn a_rule_is_installed_updated_pinned_and_removed() {
    let (world, sandbox) = today();
    let place = world.path().display().to_string();
    let ran = add(&world, &sandbox, &place).good();
    assert!(ran.stderr.contains("Added `community`: root 1 with SHA-256"), "{}", ran.stderr);
    // Nobody is here to ask, so a new publisher has to be named.
    let ran = sandbox.run(["rules", "install", "community:acme/fix-boot"]);
    assert_eq!(ran.code(), 2);
    let expected = format!("error: The publisher `acme` of `community` is new to you; its keys: {}\n", print_of(ACME));
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
    assert!(!sandbox.work().join("dd-rules.lock").exists());
    let ran = sandbox.run(["rules", "install", "community:acme/fix-boot", "--trust", &print_of(ACME)]).good();
    assert_eq!(ran.stdout, "+ acme/fix-boot 1.0.0  from community\n");
    let wanted = fs_err::read_to_string(sandbox.work().join("dd-rules.toml")).expect("wishes");
    assert_eq!(wanted, "# Rules of this project.\n[rules]\n\"community:acme/fix-boot\" = \"^1.0.0\"\n");
    // The same again changes nothing.
    let lock = fs_err::read_to_string(sandbox.work().join("dd-rules.lock")).expect("lock");
    let ran = sandbox.run(["rules", "install"]).good();
    assert!(ran.stdout.is_empty() && ran.stderr.contains("Everything is installed in the project"), "{}", ran.stderr);
    assert_eq!(fs_err::read_to_string(sandbox.work().join("dd-rules.lock")).expect("lock"), lock);
    sandbox.run(["rules", "install", "--locked"]).good();

    world.release("acme/fix-boot", "1.1.0", b"second");
    world.release("acme/fix-boot", "2.0.0", b"third");
    let ran = sandbox.run(["rules", "outdated"]).good();
    assert_eq!(ran.stdout, "acme/fix-boot  1.0.0 installed, 1.1.0 wanted, 2.0.0 newest\n");
    let ran = sandbox.run(["rules", "update", "--dry-run"]).good();
    assert_eq!(ran.stdout, "~ acme/fix-boot 1.0.0 → 1.1.0  from community\n");
    assert_eq!(fs_err::read_to_string(sandbox.work().join("dd-rules.lock")).expect("lock"), lock, "nothing changed");
    let ran = sandbox.run(["rules", "pin", "acme/fix-boot"]).good();
    assert_eq!(ran.stdout, "~ acme/fix-boot 1.0.0  from community  pinned\n");
    let ran = sandbox.run(["rules", "update"]).good();
    assert!(ran.stdout.is_empty() && ran.stderr.contains("is the newest one wanted"), "{}{}", ran.stdout, ran.stderr);
    sandbox.run(["rules", "unpin", "acme/fix-boot"]).good();
    let ran = sandbox.run(["rules", "update", "acme/fix-boot"]).good();
    assert_eq!(ran.stdout, "~ acme/fix-boot 1.0.0 → 1.1.0  from community\n");
    let ran = sandbox.run(["rules", "verify", "--strict"]).good();
    assert_eq!(ran.stdout, "✓ acme/fix-boot 1.1.0  bytes and signatures are good\n");
    let ran = sandbox.run(["rules", "install", "community:acme/fix-boot@2.0.0"]).good();
    assert_eq!(ran.stdout, "~ acme/fix-boot 1.1.0 → 2.0.0  from community\n");
    let ran = sandbox.run(["rules", "remove", "acme/fix-boot"]).good();
    assert_eq!(ran.stdout, "- acme/fix-boot 2.0.0\n");
    let ran = sandbox.run(["rules", "remove", "acme/fix-boot"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains("error: The rule `acme/fix-boot` is not installed in the project"), "{}", ran.stderr);
}

#[test]
fn search_and_info_show_what_is_there_and_whether_it_was_reviewed() {
    let (world, sandbox) = today();
    world.publish("acme/fix-boot", "1.2.0", b"unreviewed");
    world.release("bolt/fix-pool", "0.3.0", b"pool");
    add(&world, &sandbox, &world.path().display().to_string()).good();
    let ran = sandbox.run(["rules", "search", "--registry", NAME]).good();
    let expected = "community:acme/fix-boot 1.0.0  Mends fix-boot\n  exact, MIT\ncommunity:bolt/fix-pool 0.3.0  Mends fix-pool\n  exact, MIT\n";
    assert_eq!(ran.stdout, expected);
    let ran = sandbox.run(["rules", "search", "POOL", "--registry", NAME, "--format", "json"]).good();
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(found["rules"].as_array().expect("rules").len(), 1);
    assert_eq!(found["rules"][0]["models"][0], "segmenter");
    let ran = sandbox.run(["rules", "info", "community:acme/fix-boot"]).good();
    for part in [
        "acme/fix-boot  from community\n",
        &format!("  signed by {}\n", print_of(ACME)),
        "1.2.0  Mends fix-boot\n  exact, not reviewed, MIT, contract 0.1.0\n",
        "1.0.0  Mends fix-boot\n  exact, reviewed, MIT, contract 0.1.0\n",
        "  proven on segmenter (cortex-a76)\n",
    ] {
        assert!(ran.stdout.contains(part), "`{part}` is missing in\n{}", ran.stdout);
    }
    let ran = sandbox.run(["rules", "install", "community:acme/fix-boot@1.2.0", "--trust", &print_of(ACME)]);
    assert_eq!(
        ran.stderr,
        "error: No version of `acme/fix-boot` in the registry `community` can be installed: 1.2.0 was not reviewed by \
         the maintainers; 1.0.0 is not =1.2.0\n\nhint: Wait for the review, or take it as it is with \
         `--allow-unreviewed`\n"
    );
    let unreviewed =
        ["rules", "install", "community:acme/fix-boot@1.2.0", "--allow-unreviewed", "--trust", &print_of(ACME)];
    let ran = sandbox.run(unreviewed).good();
    assert_eq!(ran.stdout, "+ acme/fix-boot 1.2.0  from community  not reviewed\n");
    let lock = fs_err::read_to_string(sandbox.work().join("dd-rules.lock")).expect("lock");
    assert!(lock.contains("reviewed = false"), "the lockfile records it\n{lock}");
    let ran = sandbox.run(["rules", "info", "community:acme/fix-bot"]);
    assert!(ran.stderr.contains("hint: Did you mean `acme/fix-boot`? Nothing is chosen for you"), "{}", ran.stderr);
    let ran = sandbox.run(["rules", "info", "comunity:acme/fix-boot"]);
    assert!(ran.stderr.contains("hint: Did you mean `community`?"), "{}", ran.stderr);
}

#[test]
fn a_registry_is_added_by_its_root_and_not_without_one() {
    let (world, sandbox) = today();
    let place = world.path().display().to_string();
    let ran = sandbox.run(["registry", "add", NAME, &place]);
    let plain = ran.all(&sandbox).replace(&place, "REGISTRY").replace(&world.known().root.sha256, "ROOT");
    assert_eq!(
        plain,
        "exit code: 2\n----- stdout -----\n----- stderr -----\nerror: The registry at `REGISTRY` is not pinned, and nobody \
         is here to confirm its root\n\nhint: Compare the SHA-256 of its root with its page, then say `--root-sha256`. What \
         it shows now is ROOT\n"
    );
    let ran = sandbox.run(["registry", "add", NAME, &place, "--root-sha256", &"ab".repeat(32)]);
    assert!(
        ran.stderr.contains("has the SHA-256 abab") && ran.stderr.contains("do not go on when they differ"),
        "{}",
        ran.stderr
    );
    let ran = sandbox.run(["registry", "add", NAME, "http://rules.example.org/", "--root-sha256", &"ab".repeat(32)]);
    assert!(ran.stderr.contains("`http://` can be read and changed on its way"), "{}", ran.stderr);
    let list = sandbox.run(["registry", "list", "--format", "json"]).good();
    let list: serde_json::Value = serde_json::from_str(&list.stdout).expect("JSON");
    assert!(!list["registries"].as_array().expect("list").iter().any(|one| one["name"] == NAME), "nothing was added");
    let root = world.file("metadata/1.root.json").display().to_string();
    sandbox.run(["registry", "add", NAME, &place, "--root", &root]).good();
    let ran = add(&world, &sandbox, &place);
    assert!(ran.stderr.contains("There is a registry called `community` already"), "{}", ran.stderr);
    let ran = sandbox.run(["registry", "sync"]).good();
    assert!(ran.stderr.contains("2 of 2 publishers"), "{}", ran.stderr);
    sandbox.run(["rules", "install", "community:acme/fix-boot", "--user", "--trust", &print_of(ACME)]).good();
    let ran = sandbox.run(["registry", "remove", NAME]);
    assert!(ran.stderr.contains("`acme/fix-boot` is installed from the registry `community`"), "{}", ran.stderr);
    sandbox.run(["rules", "remove", "acme/fix-boot", "--user"]).good();
    sandbox.run(["registry", "remove", NAME]).good();
}

#[test]
fn a_damaged_memory_is_told_and_repaired_on_demand_only() {
    let (world, sandbox) = today();
    add(&world, &sandbox, &world.path().display().to_string()).good();
    let floor = sandbox.home().join("state/registries").join(world.known().root.id()).join("floor.json");
    fs_err::write(&floor, "{").expect("damage");
    let ran = sandbox.run(["rules", "install", "community:acme/fix-boot", "--trust", &print_of(ACME)]);
    assert!(ran.stderr.contains("is damaged") && ran.stderr.contains("registry repair community"), "{}", ran.stderr);
    let ran = sandbox.run(["registry", "repair", NAME]);
    assert!(ran.code() == 2 && ran.stderr.contains("was left as it is"), "{}", ran.stderr);
    sandbox.run(["registry", "repair", NAME, "--yes"]).good();
    sandbox.run(["rules", "install", "community:acme/fix-boot", "--trust", &print_of(ACME)]).good();
}

#[test]
fn a_host_serves_as_well_as_a_folder_and_is_not_asked_offline() {
    let (world, sandbox) = today();
    let url = serve(world.path());
    add(&world, &sandbox, &url).good();
    let ran = sandbox.run(["rules", "install", "community:acme/fix-boot", "--offline", "--trust", &print_of(ACME)]);
    assert!(ran.stderr.contains("`--offline` forbids to get it"), "{}", ran.stderr);
    sandbox.run(["rules", "install", "community:acme/fix-boot", "--trust", &print_of(ACME)]).good();
    world.release("acme/fix-boot", "1.1.0", b"second");
    let ran = sandbox.run(["rules", "update", "--offline"]).good();
    assert!(ran.stderr.contains("is the newest one wanted"), "of what was seen before: {}", ran.stderr);
    let ran = sandbox.run(["rules", "update"]).good();
    assert_eq!(ran.stdout, "~ acme/fix-boot 1.0.0 → 1.1.0  from community\n");
    sandbox.run(["rules", "verify", "--offline"]).good();
    sandbox.run(["rules", "install", "--locked", "--offline"]).good();
}

#[test]
fn a_lockfile_brings_a_fresh_home_to_the_same_rules_or_fails() {
    let (world, first) = today();
    let place = world.path().display().to_string();
    add(&world, &first, &place).good();
    first.run(["rules", "install", "community:acme/fix-boot", "--trust", &print_of(ACME)]).good();
    let take = |sandbox: &Sandbox| {
        for name in ["dd-rules.toml", "dd-rules.lock"] {
            sandbox.write(name, fs_err::read(first.work().join(name)).expect("file"));
        }
    };
    world.release("acme/fix-boot", "1.1.0", b"second");
    let second = Sandbox::new();
    take(&second);
    // Without the rules on this machine nothing runs with others instead.
    let ran = second.run(["rules", "list"]);
    assert!(
        ran.code() == 2 && ran.stderr.contains("hint: Install it with `delegate-doctor rules install --locked`"),
        "{}",
        ran.stderr
    );
    let root = world.known().root.sha256;
    let ran = second.run(["rules", "install", "--locked", "--trust-registry", &root]).good();
    assert!(ran.stderr.contains("The registry `community` at"), "{}", ran.stderr);
    let lock = |sandbox: &Sandbox| fs_err::read(sandbox.work().join("dd-rules.lock")).expect("lock");
    assert_eq!(lock(&first), lock(&second));
    let ran = second.run(["rules", "verify"]).good();
    assert_eq!(ran.stdout, "✓ acme/fix-boot 1.0.0  bytes and signatures are good\n", "not the newest, the locked one");
    // A wish that the lock does not meet.
    second.write("dd-rules.toml", "[rules]\n\"community:acme/fix-boot\" = \"^1.1\"\n");
    let ran = second.run(["rules", "install", "--locked"]);
    assert!(ran.code() == 2 && ran.stderr.contains("is locked at 1.0.0, and ^1.1 is wanted"), "{}", ran.stderr);
    let ran = second.run(["optimize", "nothing.py", "--locked"]);
    assert!(ran.code() == 2, "{}", ran.stderr);
    // The registry cannot be reached: nothing is installed, and the command can simply be repeated.
    let third = Sandbox::new();
    take(&third);
    let hidden = world.copy();
    fs_err::rename(world.path(), hidden.with_extension("hidden")).expect("hidden");
    let ran = third.run(["rules", "install", "--locked", "--trust-registry", &root]);
    assert!(ran.code() == 2 && ran.stderr.contains("There is no registry in"), "{}", ran.stderr);
    fs_err::rename(hidden.with_extension("hidden"), world.path()).expect("back");
    third.run(["rules", "install", "--locked"]).good();
}

#[test]
fn rules_of_a_broken_registry_do_not_hide_those_of_others() {
    let (world, sandbox) = today();
    add(&world, &sandbox, &world.path().display().to_string()).good();
    let other = World::at(Timestamp::now() - jiff::SignedDuration::from_mins(1));
    other.release("acme/fix-boot", "1.0.0", b"other");
    let root = other.known().root.sha256;
    sandbox.run(["registry", "add", "other", &other.path().display().to_string(), "--root-sha256", &root]).good();
    fs_err::remove_file(world.file("metadata/timestamp.json")).expect("broken");
    let ran = sandbox.run(["rules", "search"]).good();
    assert!(
        ran.stdout.contains("other:acme/fix-boot 1.0.0") && ran.stderr.contains("`metadata/timestamp.json` is missing")
    );
    let ran = sandbox.run(["rules", "search", "--registry", NAME]);
    assert_eq!(ran.code(), 2);
}

/// `optimize` of the example with the machine's Python; gives the report.
fn optimize(sandbox: &Sandbox) -> serde_json::Value {
    let model = workspace().join("examples/segmenter.py");
    let mut command = sandbox.command(["optimize"]);
    command.arg(model).args(["--format", "json", "--no-cache"]);
    if let Some(python) = std::env::var_os(PYTHON) {
        command.env(PYTHON, python);
    }
    let ran = Ran::of(command);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", ran.stdout, ran.stderr))
}

#[test]
fn a_rule_of_a_third_party_repairs_a_real_model_and_its_removal_takes_that_back() {
    let (world, sandbox) = today();
    let softmax = registry::bundled().expect("bundled rules").remove(0);
    world.release("acme/softmax", "1.0.0", &softmax.bytes);
    add(&world, &sandbox, &world.path().display().to_string()).good();
    sandbox.run(["rules", "install", "community:acme/softmax", "--trust", &print_of(ACME)]).good();
    let accepted = |report: &serde_json::Value| report["verdict"]["status"].clone();
    let with = optimize(&sandbox);
    assert_eq!(accepted(&with), "REPAIRS_ACCEPTED", "{}", with["verdict"]);
    // A component that was changed on the disk is no rule, and no run happens with something else instead.
    let blob = blob_of(&sandbox, &softmax.sha256);
    let mut damaged = fs_err::read(&blob).expect("blob");
    damaged[1000] ^= 1;
    fs_err::remove_file(&blob).expect("removed");
    fs_err::write(&blob, &damaged).expect("damaged");
    let ran = Ran::of(sandbox.command(["rules", "list"]));
    assert!(ran.code() == 2 && ran.stderr.contains("missing or damaged in the store"), "{}", ran.stderr);
    sandbox.run(["rules", "install"]).good();
    sandbox.run(["rules", "remove", "acme/softmax"]).good();
    let without = optimize(&sandbox);
    assert_eq!(accepted(&without), "NO_REPAIR_AVAILABLE", "{}", without["verdict"]);
}

fn blob_of(sandbox: &Sandbox, sha256: &str) -> PathBuf {
    let folder: &Path = &sandbox.home().join("data/rules/blobs/sha256");
    folder.join(&sha256[..2]).join(sha256)
}

#[test]
fn the_rules_that_come_with_the_tool_need_no_network_and_no_installation() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(["rules", "search", "--offline", "softmax"]).good();
    assert!(ran.stdout.starts_with("dd-rules/softmax-layout 1.0.0  "), "{}", ran.stdout);
    let ran = sandbox.run(["rules", "info", "dd-rules/softmax-layout", "--offline"]).good();
    assert!(ran.stdout.contains("reviewed") && ran.stdout.contains("sha256"), "{}", ran.stdout);
    let names = || -> Vec<String> {
        let list = sandbox.run(["rules", "list", "--format", "json"]).good().stdout;
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let rules = list["rules"].as_array().expect("rules").iter();
        rules.map(|rule| rule["name"].as_str().expect("a name in the bundled registry").to_owned()).collect()
    };
    let all = names();
    assert!(all.contains(&"dd-rules/softmax-layout".to_owned()), "{all:?}");
    sandbox.run(["rules", "remove", "dd-rules/softmax-layout"]).good();
    assert!(!names().contains(&"dd-rules/softmax-layout".to_owned()), "removed");
    let ran = sandbox.run(["rules", "remove", "dd-rules/softmax-layout"]);
    assert!(ran.stderr.contains("The rule `dd-rules/softmax-layout` is not installed for this user"), "{}", ran.stderr);
    sandbox.run(["rules", "install", "dd-rules/softmax-layout"]).good();
    assert_eq!(names(), all);
    let ran = sandbox.run(["rules", "install", "dd-rules/softmax-layuot"]);
    assert!(ran.stderr.contains("Did you mean `dd-rules/softmax-layout`?"), "{}", ran.stderr);
    let ran = sandbox.run(["registry", "list"]).good();
    assert!(ran.stdout.starts_with("bundled  this tool  default\n"), "{}", ran.stdout);
}

#[test]
fn a_projects_first_lockfile_lists_the_bundled_rules_too() {
    let (world, sandbox) = today();
    fs_err::remove_file(sandbox.work().join("dd-rules.toml")).expect("no wishes yet");
    add(&world, &sandbox, &world.path().display().to_string()).good();
    let place = sandbox.work().display().to_string();
    let install = ["rules", "install", "community:acme/fix-boot", "--project", &place, "--trust", &print_of(ACME)];
    let ran = sandbox.run(install).good();
    assert!(ran.stdout.contains("+ dd-rules/softmax-layout 1.0.0\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("+ acme/fix-boot 1.0.0  from community\n"), "{}", ran.stdout);
    // From here on exactly these are used, in a fresh home too.
    let other = Sandbox::new();
    for name in ["dd-rules.toml", "dd-rules.lock"] {
        other.write(name, fs_err::read(sandbox.work().join(name)).expect("file"));
    }
    let root = world.known().root.sha256;
    other.run(["rules", "install", "--locked", "--trust-registry", &root]).good();
    let verified = |sandbox: &Sandbox| sandbox.run(["rules", "verify"]).good().stdout;
    assert_eq!(verified(&sandbox), verified(&other));
}

#[test]
fn files_that_are_being_published_are_asked_for_once_more() {
    let (world, sandbox) = today();
    for late in ["snapshot", ".acme.", "/acme/"] {
        let sandbox = Sandbox::new();
        sandbox.write("dd-rules.toml", "[rules]\n");
        add(&world, &sandbox, &serve_late(world.path(), late)).good();
        let ran = sandbox.run(["rules", "install", "community:acme/fix-boot", "--trust", &print_of(ACME)]).good();
        assert_eq!(ran.stdout, "+ acme/fix-boot 1.0.0  from community\n", "{late}");
    }
    // What stays away is an error that names it.
    add(&world, &sandbox, &serve(world.path())).good();
    let role = world.newest("acme");
    fs_err::remove_file(world.file(&role)).expect("removed");
    let ran = sandbox.run(["rules", "install", "community:acme/fix-boot", "--trust", &print_of(ACME)]);
    assert!(ran.code() == 2 && ran.stderr.contains(&format!("`{role}` is missing")), "{}", ran.stderr);
}
