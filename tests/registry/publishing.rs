//! From a key to a version that clients see, with the real binary, a real rule and its real evidence.

use std::path::PathBuf;

use dd_tests::{Ran, Sandbox, bundled_component, workspace};
use delegate_doctor::registry::key::SigningKey;

/// The evidence that a bundled rule was published with.
fn evidence(rule: &str) -> String {
    workspace().join("rules").join(rule).join("evidence.json").display().to_string()
}

fn component(id: &str) -> String {
    bundled_component(id).display().to_string()
}

/// Words on a line, separated by blanks; none of them holds one.
fn run(sandbox: &Sandbox, line: &str) -> Ran {
    sandbox.run(line.split_whitespace())
}

/// A registry in `rules/` with its keys in `keys/`, and the publisher `acme`, whose key is in the data folder.
pub(crate) fn begun() -> Sandbox {
    let sandbox = Sandbox::new();
    run(&sandbox, "registry init rules --keys keys --no-passphrase").good();
    run(&sandbox, "rules key new acme --no-passphrase").good();
    let public = sandbox.home().join("data/keys/acme.pub.pem").display().to_string();
    let top = "--key keys/targets-1.pem --key keys/targets-2.pem";
    run(&sandbox, &format!("registry delegate acme --public-key {public} --registry rules {top}")).good();
    run(&sandbox, "registry resign --registry rules --key keys/online.pem").good();
    sandbox
}

/// A package of `dd-001` as `softmax-layout`, in `package/`.
pub(crate) fn packed(sandbox: &Sandbox) {
    let (component, evidence) = (component("dd-001"), evidence("dd-001-softmax-layout"));
    let line =
        format!("rules pack {component} --name softmax-layout --license MIT --evidence {evidence} --out package");
    run(sandbox, &line).good();
}

pub(crate) fn published() -> Sandbox {
    let sandbox = begun();
    packed(&sandbox);
    run(&sandbox, "rules publish package --registry rules --publisher acme").good();
    run(&sandbox, "registry review --registry rules --key keys/reviewed-1.pem").good();
    run(&sandbox, "registry resign --registry rules --key keys/online.pem").good();
    sandbox
}

#[test]
fn a_rule_goes_from_its_evidence_to_a_snapshot() {
    let sandbox = begun();
    packed(&sandbox);
    let ran = run(&sandbox, "rules sign package --registry rules --publisher acme").good();
    assert!(ran.stderr.contains("Signed acme/softmax-layout 1.0.0 as `package.signed`"), "{}", ran.stderr);
    assert!(!sandbox.work().join("rules/metadata/1.acme.json").exists(), "nothing in the registry changes");
    let ran = run(&sandbox, "rules publish package.signed --registry rules").good();
    assert!(ran.stdout.starts_with("publishes acme/softmax-layout 1.0.0, sha256 "), "{}", ran.stdout);
    let ran = run(&sandbox, "registry check rules").good();
    assert_eq!(ran.stdout, "1 publisher, 0 versions, 0 countersigned\nacme 1 waits to be published\n");
    let ran = run(&sandbox, "registry review --registry rules").good();
    for part in ["acme/softmax-layout 1.0.0  new", "+ numerics = \"tolerant\"", "+ models = [\"linknet\", \"pspnet\"]"]
    {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(ran.stderr.contains("hint: Countersign with `--key`"), "{}", ran.stderr);
    let ran = run(&sandbox, "registry review acme/softmax-layout@1 --registry rules --key keys/reviewed-1.pem").good();
    assert!(ran.stderr.contains("Countersigned acme/softmax-layout 1.0.0"), "{}", ran.stderr);
    let ran = run(&sandbox, "registry resign --registry rules --key keys/online.pem").good();
    assert_eq!(ran.stdout, "published acme 1\npublished reviewed.acme 1\nsnapshot 3\ntimestamp 3\n");
    let ran = run(&sandbox, "registry check rules").good();
    assert_eq!(ran.stdout, "1 publisher, 1 version, 1 countersigned\n");
    assert!(run(&sandbox, "registry review --registry rules").good().stderr.contains("Every version is countersigned"));
}

#[test]
fn a_rule_without_evidence_for_its_bytes_is_not_packed() {
    let sandbox = Sandbox::new();
    let component = component("dd-001");
    let pack = |evidence: &str| {
        let line = format!("rules pack {component} --name x-rule --license MIT --evidence {evidence} --out package");
        let ran = run(&sandbox, &line);
        assert_eq!((ran.code(), ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: ") && !sandbox.work().join("package").exists(), "{}", ran.stderr);
        ran.stderr
    };
    let told = pack("missing.json");
    assert!(told.starts_with("error: The rule dd-001 1.0.0 has no evidence: `missing.json` is not there\n"), "{told}");
    let told = pack(&evidence("dd-003-avg-pool-window"));
    assert!(told.starts_with("error: The evidence is about other bytes than dd-001 1.0.0: it has SHA-256 "), "{told}");
    let proven = fs_err::read_to_string(evidence("dd-001-softmax-layout")).expect("evidence");
    sandbox.write("failed.json", proven.replacen("\"PROVEN\"", "\"WRONG\"", 1));
    let told = pack("failed.json");
    assert!(told.starts_with("error: The evidence does not prove dd-001 1.0.0: its outcome is WRONG\n"), "{told}");
}

#[test]
fn keys_are_private_and_encrypted_unless_asked_otherwise() {
    let sandbox = Sandbox::new();
    let ran = run(&sandbox, "rules key new acme");
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.starts_with("error: A new key needs a passphrase, and none was given\n"), "{}", ran.stderr);
    sandbox.write("phrase", "a phrase of several words\n");
    sandbox.write("short", "short\n");
    let ran = run(&sandbox, "rules key new acme --passphrase-file short");
    assert!(ran.stderr.contains("The passphrase has 5 characters, and at least 12 are needed"), "{}", ran.stderr);
    let ran = run(&sandbox, "rules key new acme --passphrase-file phrase").good();
    let path = sandbox.home().join("data/keys/acme.pem");
    assert!(SigningKey::is_encrypted(&path).expect("a key"));
    assert_eq!(ran.stdout.trim().len(), 39, "the fingerprint is data: {}", ran.stdout);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs_err::metadata(&path).expect("key").permissions().mode() & 0o777, 0o600);
    }
    let ran = run(&sandbox, "rules key new acme --passphrase-file phrase");
    assert!(ran.stderr.contains("There is a key in `") && ran.code() == 2, "{}", ran.stderr);
    for name in ["Acme", "targets", "a--b"] {
        assert_eq!(run(&sandbox, &format!("rules key new {name} --no-passphrase")).code(), 2, "{name}");
    }
    // The key is needed, and its passphrase.
    run(&sandbox, "registry init rules --keys keys --no-passphrase").good();
    let public = sandbox.home().join("data/keys/acme.pub.pem").display().to_string();
    let top = "--key keys/targets-1.pem --key keys/targets-2.pem";
    run(&sandbox, &format!("registry delegate acme --public-key {public} --registry rules {top}")).good();
    packed(&sandbox);
    let ran = run(&sandbox, "rules publish package --registry rules --publisher acme");
    assert!(ran.stderr.contains("is encrypted, and no passphrase was given"), "{}", ran.stderr);
    sandbox.write("wrong", "another phrase of words\n");
    let ran = run(&sandbox, "rules publish package --registry rules --publisher acme --passphrase-file wrong");
    assert!(ran.stderr.contains("The passphrase does not open the private key `"), "{}", ran.stderr);
    run(&sandbox, "rules publish package --registry rules --publisher acme --passphrase-file phrase").good();
}

#[test]
fn a_version_is_published_once_and_taken_back_for_good() {
    let sandbox = published();
    let ran = run(&sandbox, "rules publish package --registry rules --publisher acme");
    let words = "error: `acme/softmax-layout/1.0.0.wasm` is published already, and a published file never changes\n";
    assert!(ran.stderr.starts_with(words) && ran.code() == 2, "{}", ran.stderr);
    let yank = |arguments: &[&str]| {
        let line = ["rules", "yank", "acme/softmax-layout@1.0.0", "--registry", "rules", "--reason"];
        sandbox.run(line.iter().chain(arguments))
    };
    let ran = yank(&["slow on Arm"]).good();
    assert_eq!(ran.stdout, "yanks acme/softmax-layout/1.0.0.wasm: slow on Arm\n");
    let ran = yank(&["wrong on odd sizes", "--security"]).good();
    assert_eq!(ran.stdout, "yanks acme/softmax-layout/1.0.0.wasm for security: wrong on odd sizes\n");
    let ran = yank(&["not that bad"]);
    assert!(ran.stderr.contains("was yanked for security, and stays so") && ran.code() == 2, "{}", ran.stderr);
    let ran = yank(&["two\nlines"]);
    assert!(ran.stderr.starts_with("error: A reason is one line of 1 to 500 bytes"), "{}", ran.stderr);
    let ran = run(&sandbox, "registry resign --registry rules --key keys/online.pem").good();
    assert!(ran.stdout.starts_with("published acme 3\n"), "{}", ran.stdout);
    let revoke = "registry revoke acme/softmax-layout@1.0.0 --registry rules --key keys/reviewed-1.pem --reason wrong";
    run(&sandbox, revoke).good();
    let ran = run(&sandbox, "registry resign --registry rules --key keys/online.pem").good();
    assert!(ran.stdout.starts_with("published reviewed 2\n"), "{}", ran.stdout);
    let reviewed = fs_err::read_to_string(sandbox.work().join("rules/metadata/2.reviewed.json")).expect("document");
    assert!(reviewed.contains("\"x-dd-revoked\":{\""), "{reviewed}");
    run(&sandbox, "registry check rules").good();
}

#[test]
fn a_branch_holds_the_change_for_a_pull_request() {
    let sandbox = begun();
    packed(&sandbox);
    let git = |arguments: &[&str]| {
        let mut command = sandbox.program(&PathBuf::from("git"));
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-C", "rules"]).args(arguments);
        Ran::of(command).good().stdout
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["config", "user.name", "t"]);
    git(&["config", "user.email", "t@example.org"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "registry"]);
    run(&sandbox, "rules publish package --registry rules --publisher acme --branch softmax").good();
    assert_eq!(git(&["branch", "--show-current"]), "softmax\n");
    let changed = git(&["diff", "--name-only", "main", "softmax"]);
    assert_eq!(changed.lines().count(), 4, "{changed}");
    git(&["worktree", "add", "--quiet", "../merged", "main"]);
    let ran = run(&sandbox, "registry check rules --base merged").good();
    assert!(ran.stdout.starts_with("publishes acme/softmax-layout 1.0.0, sha256 "), "{}", ran.stdout);
    // What a stranger puts beside it is told, and the exit code says so.
    fs_err::write(sandbox.work().join("rules/metadata/timestamp.json"), "{}").expect("write");
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc/passwd", sandbox.work().join("rules/targets/acme/link")).expect("link");
    let ran = run(&sandbox, "registry check rules --base merged");
    assert_eq!(ran.code(), 1, "{}", ran.stderr);
    assert!(ran.stdout.contains("✗ `metadata/timestamp.json`: only the publishing job writes the timestamp\n"));
    assert!(ran.stdout.contains("✗ `targets/acme/link`: it is no regular file\n"), "{}", ran.stdout);
    let ran = run(&sandbox, "registry check rules --base merged --format json");
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(json["findings"].as_array().map(Vec::len), Some(2), "{json}");
}

#[test]
fn online_and_root_keys_change_with_the_signatures_that_it_takes() {
    let sandbox = published();
    for name in ["online-2", "root-4"] {
        run(&sandbox, &format!("rules key new acme --no-passphrase --out keys/{name}.pem")).good();
    }
    let fingerprint = |ran: &Ran, name: &str| {
        let line = ran.stderr.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        line.and_then(|line| line.split_whitespace().last().map(str::to_owned)).expect("fingerprint")
    };
    for role in ["snapshot", "timestamp"] {
        let ran = run(
            &sandbox,
            &format!("registry rotate {role} --add keys/online-2.pub.pem --registry rules --key keys/root-1.pem"),
        )
        .good();
        assert!(
            ran.stderr.contains("has 1 of 2 signatures by the keys before it, and 1 of 2 by its own"),
            "{}",
            ran.stderr
        );
        let ran = run(&sandbox, "registry sign root --registry rules --key keys/root-3.pem").good();
        assert!(ran.stderr.contains("is complete and counts from now on"), "{}", ran.stderr);
    }
    run(&sandbox, "registry resign --registry rules --key keys/online-2.pem").good();
    // The root's own keys: another one comes, the first one goes.
    let other = Sandbox::new();
    let shown = run(&other, "registry init rules --keys keys --no-passphrase").good();
    let stranger = fingerprint(&shown, "root-1.pem");
    let rotate =
        "registry rotate root --add keys/root-4.pub.pem --registry rules --key keys/root-1.pem --key keys/root-2.pem";
    let ran = run(&sandbox, &format!("{rotate} --remove {stranger}"));
    assert!(ran.stderr.contains("is the beginning of 0 keys of `root`"), "{}", ran.stderr);
    run(&sandbox, rotate).good();
    assert!(sandbox.work().join("rules/metadata/4.root.json").exists());
    let ran = run(&sandbox, "registry check rules").good();
    assert_eq!(ran.stdout, "1 publisher, 1 version, 1 countersigned\n");
    // A publisher's key: both, the new one signs, the old one goes.
    let top = "--key keys/targets-1.pem --key keys/targets-2.pem";
    let new = run(&sandbox, "rules key new acme --no-passphrase --out keys/acme-2.pem").good().stdout;
    let old = run(&sandbox, "registry rotate acme --add keys/acme-2.pub.pem --registry rules --key keys/targets-1.pem --key keys/targets-2.pem").good();
    let old = old
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("`acme` signs with "))
        .find(|print| *print != new.trim())
        .expect("the old key")
        .to_owned();
    run(&sandbox, "registry rotate acme --registry rules --key keys/acme-2.pem").good();
    run(&sandbox, "registry resign --registry rules --key keys/online-2.pem").good();
    run(&sandbox, &format!("registry rotate acme --remove {old} --registry rules {top}")).good();
    run(&sandbox, "registry resign --registry rules --key keys/online-2.pem").good();
    run(&sandbox, "registry check rules").good();
    let ran = run(&sandbox, "rules yank acme/softmax-layout@1.0.0 --reason old --registry rules");
    assert!(ran.stderr.contains("signs nothing for publisher `acme`"), "the old key: {}", ran.stderr);
}

#[test]
fn a_registry_is_never_begun_over_another_and_keys_stay_out_of_it() {
    let sandbox = begun();
    let ran = run(&sandbox, "registry init rules --keys more --no-passphrase");
    assert!(ran.stderr.starts_with("error: There is something in `rules` already\n"), "{}", ran.stderr);
    let ran = run(&sandbox, "registry init other --keys other/keys --no-passphrase");
    assert!(ran.stderr.starts_with("error: The keys would lie in the registry"), "{}", ran.stderr);
    let ran = run(&sandbox, "registry init other --keys more --no-passphrase --root-threshold 4");
    assert!(ran.stderr.starts_with("error: The role `root` would want 4 of 3 keys\n"), "{}", ran.stderr);
    assert!(!sandbox.work().join("more").exists(), "no key is made for nothing");
    let ran = run(&sandbox, "registry check nowhere");
    assert!(ran.stderr.starts_with("error: There is no registry in `nowhere`"), "{}", ran.stderr);
}
