//! What is asked in a terminal, on a pseudo terminal: nothing is trusted before somebody agreed.

use std::process::Stdio;

use dd_tests::Sandbox;
use jiff::Timestamp;
use rexpect::session::{PtySession, spawn_command};

use crate::world::*;

/// How long an answer may take, in milliseconds; a slow machine needs some of it.
const PATIENCE: u64 = 120_000;

fn world() -> World {
    let world = World::at(Timestamp::now());
    world.release("acme/fix-boot", "1.0.0", b"first");
    world
}

fn start(sandbox: &Sandbox, arguments: &[&str]) -> PtySession {
    let mut command = sandbox.command(arguments);
    command.stdin(Stdio::inherit());
    spawn_command(command, Some(PATIENCE)).expect("starts")
}

/// Waits for the end; gives the rest of what was said, and whether it ended well.
fn end(mut session: PtySession) -> (String, bool) {
    let rest = session.exp_eof().expect("ends");
    let status = format!("{:?}", session.process().wait().expect("status"));
    (rest, status.starts_with("Exited(") && status.ends_with(", 0)"))
}

fn add(world: &World, sandbox: &Sandbox) {
    let (place, root) = (world.path().display().to_string(), world.known().root.sha256);
    sandbox.run(["registry", "add", NAME, &place, "--root-sha256", &root]).good();
}

#[test]
fn a_new_publisher_is_shown_with_its_key_and_trusted_by_a_yes_only() {
    let (world, sandbox) = (world(), Sandbox::new());
    sandbox.write("dd-rules.toml", "[rules]\n");
    add(&world, &sandbox);
    let print = key(ACME).public().fingerprint();
    for (answer, agreed) in [("n", false), ("", false), ("yes, please", false), ("y", true)] {
        let mut session = start(&sandbox, &["rules", "install", "community:acme/fix-boot"]);
        session.exp_string("The publisher `acme` of `community` is new to you").expect("who");
        session.exp_string(&print).expect("its key");
        session.exp_string("acme/fix-boot 1.0.0, exact: Mends fix-boot").expect("what it signs");
        session.exp_string("Trust this publisher? [y/N] ").expect("the question");
        session.send_line(answer).expect("answered");
        let (rest, good) = end(session);
        assert_eq!(good, agreed, "`{answer}`: {rest}");
        assert_eq!(rest.contains("acme/fix-boot 1.0.0"), agreed, "`{answer}`: {rest}");
        assert_eq!(sandbox.work().join("dd-rules.lock").exists(), agreed, "`{answer}`");
    }
}

#[test]
fn a_root_is_pinned_by_its_digits_only() {
    let (world, sandbox) = (world(), Sandbox::new());
    let (place, root) = (world.path().display().to_string(), world.known().root.sha256);
    for (answer, agreed) in [("y", false), ("00000000", false), (&root[..7], false), (&root[..8], true)] {
        let mut session = start(&sandbox, &["registry", "add", NAME, &place]);
        session.exp_string(&root).expect("the hash");
        session.exp_string("type the first 8 digits of the SHA-256: ").expect("the question");
        session.send_line(answer).expect("answered");
        let (rest, good) = end(session);
        assert_eq!(good, agreed, "`{answer}`: {rest}");
        assert_eq!(rest.contains("The root was not confirmed, and the registry not added"), !agreed, "{rest}");
    }
}

#[test]
fn a_clone_asks_before_it_takes_rules_from_a_registry_of_its_lockfile() {
    let (world, first) = (world(), Sandbox::new());
    first.write("dd-rules.toml", "[rules]\n");
    add(&world, &first);
    let print = key(ACME).public().fingerprint();
    first.run(["rules", "install", "community:acme/fix-boot", "--trust", &print]).good();
    let second = Sandbox::new();
    for name in ["dd-rules.toml", "dd-rules.lock"] {
        second.write(name, fs_err::read(first.work().join(name)).expect("file"));
    }
    for (answer, agreed) in [("n", false), ("y", true)] {
        let mut session = start(&second, &["rules", "install", "--locked"]);
        session.exp_string("which is new to you").expect("what");
        session.exp_string(&world.known().root.sha256).expect("its root");
        session.exp_string("Take rules from it? [y/N] ").expect("the question");
        session.send_line(answer).expect("answered");
        let (rest, good) = end(session);
        assert_eq!(good, agreed, "`{answer}`: {rest}");
        let list = second.run(["registry", "list"]).good().stdout;
        assert_eq!(list.contains(NAME), agreed, "{list}");
    }
}
