//! Many processes at once, and processes that are killed: what was interrupted can be repeated, and nothing is
//! ever half there.

use std::process::{Child, Stdio};
use std::time::Duration;

use dd_tests::{Ran, Sandbox};
use delegate_doctor::files::{UNFINISHED, sha256_hex};
use delegate_doctor::registry::lockfile::Lock;
use jiff::Timestamp;

use crate::world::*;

/// Rules that the processes install, update and remove.
const RULES: [&str; 4] = ["acme/fix-boot", "acme/fix-two", "bolt/fix-pool", "bolt/fix-four"];

/// How often; `DD_TORTURE_ROUNDS` asks for more.
fn rounds(default: u32) -> u32 {
    std::env::var("DD_TORTURE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(default)
}

fn prepared() -> (World, Sandbox) {
    let world = World::at(Timestamp::now());
    for name in RULES {
        for version in ["1.0.0", "1.1.0"] {
            world.publish(name, version, format!("{name} {version}").repeat(2000).as_bytes());
            world.review(name, version);
        }
    }
    world.publish_all();
    let sandbox = Sandbox::new();
    sandbox.write("dd-rules.toml", "[rules]\n");
    let (place, root) = (world.path().display().to_string(), world.known().root.sha256);
    sandbox.run(["registry", "add", NAME, &place, "--root-sha256", &root]).good();
    (world, sandbox)
}

/// The command of a round, from a number that stands for chance.
fn arguments(number: u64) -> Vec<String> {
    let name = RULES[(number / 7 % 4) as usize];
    let keys = [ACME, BOLT].map(|seed| key(seed).public().fingerprint());
    let trust = keys.iter().flat_map(|print| ["--trust".to_owned(), print.clone()]);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match number % 7 {
        0 | 1 => words(&["rules", "install", &format!("{NAME}:{name}")]).into_iter().chain(trust).collect(),
        2 => words(&["rules", "install", &format!("{NAME}:{name}@1.0.0")]).into_iter().chain(trust).collect(),
        3 => words(&["rules", "update"]).into_iter().chain(trust).collect(),
        4 => words(&["rules", "remove", name]),
        5 => words(&["rules", "pin", name]),
        _ => words(&["rules", "verify"]),
    }
}

fn start(sandbox: &Sandbox, number: u64) -> Child {
    let mut command = sandbox.command(arguments(number));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("starts")
}

/// Pseudo-random numbers that are the same every time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Both files can be read, agree, and every component of the lock is whole and proven.
fn check(sandbox: &Sandbox) {
    let lock = Lock::read(&sandbox.work()).expect("the lockfile is whole");
    let Some(lock) = lock else { return };
    for rule in &lock.rules {
        let blob = sandbox.home().join("data/rules/blobs/sha256").join(&rule.sha256[..2]).join(&rule.sha256);
        assert_eq!(sha256_hex(&fs_err::read(blob).expect("what is locked is in the store")), rule.sha256);
    }
    let ran = sandbox.run(["rules", "verify", "--offline"]);
    assert_eq!(ran.code(), 0, "{}\n{}", ran.stdout, ran.stderr);
}

/// Ends that a command may have among others that change the same files; a rule that is not there is one of them.
fn fine(ran: &Ran) -> bool {
    ran.status.success() || ran.stderr.contains("is not installed in the project")
}

#[test]
fn eight_processes_at_once_leave_a_whole_lockfile() {
    let (_world, sandbox) = prepared();
    let mut chance = Chance(0x5eed);
    for _ in 0..rounds(25) {
        let children: Vec<Child> = (0..8).map(|_| start(&sandbox, chance.next() >> 8)).collect();
        for child in children {
            let output = child.wait_with_output().expect("ends");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let ran = Ran { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) };
            assert!(fine(&ran), "{}\n{}", ran.stdout, ran.stderr);
        }
        check(&sandbox);
    }
}

/// Eight processes at once, each killed at a random moment or left to end; `DD_TORTURE_ROUNDS=250` is the full measure.
#[test]
fn eight_processes_of_which_some_are_killed_leave_nothing_half_done() {
    let (_world, sandbox) = prepared();
    let mut chance = Chance(0xdead);
    let (mut killed, mut ended) = (0, 0);
    for round in 0..rounds(12) {
        let children: Vec<Child> = (0..8).map(|_| start(&sandbox, chance.next() >> 8)).collect();
        // A moment for each, in order; one of three lives.
        let mut moments: Vec<u64> = children.iter().map(|_| chance.next() % 250).collect();
        moments.sort_unstable();
        let begun = std::time::Instant::now();
        for (mut child, moment) in children.into_iter().zip(moments) {
            if chance.next().is_multiple_of(3) {
                let output = child.wait_with_output().expect("ends");
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let ran = Ran { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) };
                assert!(fine(&ran), "round {round}: {}\n{}", ran.stdout, ran.stderr);
                ended += 1;
                continue;
            }
            std::thread::sleep(Duration::from_millis(moment).saturating_sub(begun.elapsed()));
            // SIGKILL: nothing can be tidied up.
            let _ = child.kill();
            killed += u32::from(child.wait().expect("ends").code().is_none());
        }
        check(&sandbox);
    }
    assert!(killed > 0 && ended > 0, "{killed} killed, {ended} ended");
    let install = format!("{NAME}:{}@1.0.0", RULES[0]);
    sandbox.run(["rules", "install", &install, "--trust", &key(ACME).public().fingerprint()]).good();
    check(&sandbox);
    assert_eq!(unfinished(&sandbox), Vec::<String>::new(), "the next command removes what killed ones left");
}

/// Files beside the lockfile that are only half written.
fn unfinished(sandbox: &Sandbox) -> Vec<String> {
    let names = fs_err::read_dir(sandbox.work()).expect("list").map(|entry| entry.expect("entry").file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(UNFINISHED)).collect()
}

#[test]
fn killed_processes_leave_nothing_half_done_and_can_be_repeated() {
    let (_world, sandbox) = prepared();
    let mut chance = Chance(0xfeed);
    let mut killed = 0;
    for round in 0..rounds(80) {
        let number = chance.next() >> 8;
        let mut children: Vec<Child> = (0..2).map(|other| start(&sandbox, number + other)).collect();
        std::thread::sleep(Duration::from_millis(chance.next() % 60));
        for child in &mut children {
            // SIGKILL: nothing can be tidied up.
            let _ = child.kill();
            let status = child.wait().expect("ends");
            killed += u32::from(status.code().is_none());
        }
        check(&sandbox);
        if round % 8 == 7 {
            // The interrupted command, once more.
            let install = format!("{NAME}:{}", RULES[0]);
            let keys = key(ACME).public().fingerprint();
            let ran = sandbox.run(["rules", "install", &install, "--trust", &keys]);
            assert!(ran.status.success(), "{}\n{}", ran.stdout, ran.stderr);
            check(&sandbox);
        }
    }
    assert!(killed > 0, "no process was still at work when it was killed");
    let install = format!("{NAME}:{}@1.0.0", RULES[0]);
    sandbox.run(["rules", "install", &install, "--trust", &key(ACME).public().fingerprint()]).good();
    sandbox.run(["rules", "remove", RULES[0]]).good();
}
