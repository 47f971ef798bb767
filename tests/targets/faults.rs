//! What goes wrong between this host and a device, one row a fault: each ends in an error that says what, where and
//! what to do, and none gives a result.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dd_tests::{python, workspace};
use delegate_doctor::gates::Gate;
use delegate_doctor::hint::Hint as _;
use delegate_doctor::progress::Silent;
use delegate_doctor::report::model::TrialOutcome;
use delegate_doctor::target::adb::{self, AdbOptions};
use delegate_doctor::target::bundle::Bundle;
use delegate_doctor::target::device::DeviceTarget;
use delegate_doctor::target::{Error, RunOutcome, Target as _};
use delegate_doctor::torch::protocol::TensorFile;

use crate::adb_daemon::{AdbDaemon, Event, Fault};
use crate::bench::Phone;
use crate::bench::traced_once;
use crate::stand_in::StandIn;

/// A lowered model with inputs, and the bundle for devices.
struct Program {
    _folder: tempfile::TempDir,
    pte: PathBuf,
    inputs: Vec<TensorFile>,
    bundle: Bundle,
}

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        #[derive(serde::Deserialize)]
        struct Record {
            inputs: Vec<TensorFile>,
        }
        let folder = tempfile::tempdir().expect("folder");
        let done = Command::new(&python().python)
            .arg(workspace().join("tests/fixtures/runner/lower_models.py"))
            .arg(folder.path())
            .arg("softmax_head")
            .output()
            .expect("Python");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let record = fs_err::read(folder.path().join("softmax_head.json")).expect("record");
        let record: Record = serde_json::from_slice(&record).expect("record");
        let cache = workspace().join("target/test-home/cache");
        let bundle = Bundle::prepare(&python(), &cache, &Silent).expect("a bundle");
        Program { pte: folder.path().join("softmax_head.pte"), inputs: record.inputs, bundle, _folder: folder }
    })
}

impl Phone {
    fn options(&self) -> AdbOptions {
        AdbOptions {
            serial: Some(self.serial.clone()),
            folder: Some(self.device.storage().display().to_string()),
            variables: self.server.variables().into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    fn prepare(&self) -> Result<DeviceTarget, Error> {
        adb::prepare(&self.options(), || Ok(program().bundle.clone()), &Silent)
    }
}

fn run(target: &DeviceTarget, folder: &Path) -> Result<RunOutcome, Error> {
    let trace = folder.join("trace.etdp");
    target.run(&traced_once(&program().pte, &program().inputs, folder, &trace, Duration::from_secs(5)))
}

/// What a fault led to, for the table.
fn told(error: &Error) -> String {
    format!("{error} | {}", error.hint().unwrap_or_default())
}

fn is_run(event: &Event) -> bool {
    matches!(event, Event::Shell(script) if script.contains("DD code"))
}

fn shell_with(part: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Shell(script) if script.contains(part))
}

fn push_of(part: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Push(path) if path.contains(part))
}

fn pull_of(part: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Pull(path) if path.contains(part))
}

/// The fault, each time the event comes.
fn on(when: impl Fn(&Event) -> bool + Send + 'static, fault: Fault) -> impl FnMut(&Event) -> Option<Fault> + Send {
    move |event| when(event).then(|| fault.clone())
}

/// A fault while the device is made ready.
fn while_preparing(name: &str, expected: &[&str], break_it: impl FnOnce(&Phone)) {
    let phone = Phone::new();
    break_it(&phone);
    let error = match phone.prepare() {
        Err(error) => told(&error),
        Ok(_) => panic!("{name}: it was made ready"),
    };
    for part in expected {
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[test]
fn faults_while_a_device_is_made_ready_are_told_and_end_there() {
    const UNPLUGGED: [&str; 2] = ["failed while", "`--resume`"];
    const READ_ONLY: [&str; 3] =
        ["answers, but making a folder", "Read-only file system", "DELEGATE_DOCTOR_DEVICE_FOLDER"];
    const NOT_MOVED: [&str; 1] = ["answers, but putting the runner in its place failed there: it does not say why"];
    while_preparing("facts cut off", &["the connection ended in the middle"], |phone| {
        phone.daemon.plan(on(shell_with("ro.product.model"), Fault::Cut(60)));
    });
    while_preparing("facts that are none", &["its answer makes no sense"], |phone| {
        phone.daemon.plan(on(shell_with("ro.product.model"), Fault::Say("hello\n\nDD end\n".to_owned())));
    });
    while_preparing("unplugged at the first question", &UNPLUGGED, |phone| {
        phone.daemon.plan(on(shell_with("ro.product.model"), Fault::Unplug));
    });
    while_preparing("a 32-bit system", &["WRONG_ABI", "armv7l", "arm64-v8a"], |phone| {
        phone.device.tool("uname", "echo armv7l");
    });
    while_preparing("no sha256sum", &["it has no program `sha256sum`"], |phone| phone.device.without("sha256sum"));
    while_preparing("storage that cannot be written", &READ_ONLY, |phone| {
        phone.device.tool("mkdir", "echo 'mkdir: cannot create: Read-only file system' >&2; exit 1");
    });
    while_preparing("unplugged while the runner is copied", &UNPLUGGED, |phone| {
        phone.daemon.plan(on(push_of("libexecutorch.so"), Fault::Unplug));
    });
    while_preparing("no room for the runner", &["There is no space left", "Free some space there"], |phone| {
        phone.daemon.plan(on(push_of("/runner"), Fault::Refuse("write failed: No space left on device".to_owned())));
    });
    while_preparing("the runner altered on the way", &["the runner has other bytes", "another cable"], |phone| {
        phone.daemon.plan(on(push_of("/runner"), Fault::Alter));
    });
    while_preparing("the runner cut off", &["the runner has other bytes"], |phone| {
        phone.daemon.plan(on(push_of("libm.so.6"), Fault::Cut(1000)));
    });
    while_preparing("the runner cannot be put in place", &NOT_MOVED, |phone| {
        phone.device.tool("mv", "exit 1");
    });
    while_preparing("a runner that does not start", &["cannot be used: it ended with", "not executable"], |phone| {
        phone.device.tool("emulator", "echo 'not executable: 64-bit ELF file' >&2; exit 126");
    });
    while_preparing("a runner that greets with something else", &["it greets with `hello`"], |phone| {
        phone.device.tool("emulator", "echo hello");
    });
}

#[test]
fn devices_that_are_not_ready_are_told_by_their_state() {
    let phone = Phone::new();
    let error = |options: &AdbOptions| match adb::prepare(options, || Ok(program().bundle.clone()), &Silent) {
        Err(error) => told(&error),
        Ok(_) => panic!("ready"),
    };
    let unknown = AdbOptions { serial: Some("no-such-phone".to_owned()), ..phone.options() };
    assert!(error(&unknown).contains("(NONE): no device `no-such-phone` is connected"), "{}", error(&unknown));

    let second = Arc::new(StandIn::new("Second", "max"));
    let other = AdbDaemon::start(Arc::clone(&second));
    phone.server.connect(&other);
    let unnamed = AdbOptions { serial: None, ..phone.options() };
    let said = error(&unnamed);
    assert!(said.contains("(SEVERAL): 2 devices are connected") && said.contains("adb:SERIAL"), "{said}");

    let third = AdbDaemon::start(Arc::new(StandIn::new("Third", "max")));
    third.ask_user();
    let serial = phone.server.connect(&third);
    let said = error(&AdbOptions { serial: Some(serial), ..phone.options() });
    assert!(said.contains("(UNAUTHORIZED)") && said.contains("Unlock the device"), "{said}");

    let bad_folder = AdbOptions { folder: Some("/tmp/a b".to_owned()), ..phone.options() };
    assert!(error(&bad_folder).contains("is no folder for a device"));

    // For good: where something listens again, `adb` comes back to it by itself.
    let options = phone.options();
    drop(phone.daemon);
    let said = error(&options);
    assert!(said.contains("(NONE)") || said.contains("(OFFLINE)"), "{said}");
}

/// A fault in a run on a device that was ready.
fn while_running(name: &str, expected: &[&str], break_it: impl FnOnce(&Phone)) {
    let phone = Phone::new();
    let target = phone.prepare().unwrap_or_else(|error| panic!("{name}: {}", told(&error)));
    break_it(&phone);
    let folder = tempfile::tempdir().expect("folder");
    let error = match run(&target, folder.path()) {
        Err(error) => told(&error),
        Ok(outcome) => panic!("{name}: it gave {outcome:?}"),
    };
    for part in expected {
        assert!(error.contains(part), "{name}: {error}");
    }
}

/// The emulator, with something done after the runner has ended.
fn afterwards(phone: &Phone, script: &str) {
    let emulator = crate::stand_in::program("qemu-aarch64-static");
    phone.device.tool("emulator", &format!("{} -cpu max \"$@\"; code=$?\n{script}\nexit $code", emulator.display()));
}

#[test]
fn faults_while_a_program_runs_are_told_and_give_no_result() {
    const UNPLUGGED: [&str; 2] = ["failed while", "`--resume`"];
    let phone = Phone::new();
    let target = phone.prepare().expect("ready");
    let folder = tempfile::tempdir().expect("folder");
    let good = run(&target, folder.path()).expect("without a fault it runs");
    assert_eq!((good.outputs.len(), good.samples_ns.len()), (1, 1));
    drop(target);

    while_running("unplugged while the program is copied", &UNPLUGGED, |phone| {
        phone.daemon.plan(on(push_of("/files/"), Fault::Unplug));
    });
    while_running("no room for the program", &["There is no space left"], |phone| {
        phone.daemon.plan(on(push_of("/files/"), Fault::Refuse("No space left on device".to_owned())));
    });
    while_running("the program altered on the way", &["the file `", "has other bytes"], |phone| {
        phone.daemon.plan(on(push_of("/files/"), Fault::Alter));
    });
    while_running("the program cut off", &["has other bytes"], |phone| {
        phone.daemon.plan(on(push_of("/files/"), Fault::Cut(100)));
    });
    while_running("unplugged while it runs", &UNPLUGGED, |phone| phone.daemon.plan(on(is_run, Fault::Unplug)));
    while_running("the device does not answer any more", &["took longer than 5 s"], |phone| {
        phone.daemon.plan(on(is_run, Fault::Hang));
    });
    while_running("the answer cut off", &["the connection ended in the middle"], |phone| {
        phone.daemon.plan(on(is_run, Fault::Cut(400)));
    });
    while_running("the answer is another one", &["answered something else than its protocol"], |phone| {
        phone.daemon.plan(on(is_run, Fault::Say("fine\n\nDD end\n".to_owned())));
    });
    while_running("the answer altered", &[""], |phone| phone.daemon.plan(on(is_run, Fault::Alter)));
    while_running("killed by a signal", &["crashed the runtime: signal 11 (SIGSEGV)"], |phone| {
        phone.device.tool("emulator", "kill -11 $$");
    });
    while_running("killed for want of memory", &["signal 9 (SIGKILL, perhaps for want of memory)"], |phone| {
        phone.device.tool("emulator", "kill -9 $$");
    });
    while_running("it ends without a word", &["cannot be used", "exit status: 3"], |phone| {
        phone.device.tool("emulator", "exit 3");
    });
    while_running("an output cut off on the device", &["output 0 has 10 bytes, and its sizes ask for"], |phone| {
        afterwards(phone, "head -c 10 output_0.bin >short; mv short output_0.bin");
    });
    while_running("an output is missing", &["output 0 has 0 bytes"], |phone| afterwards(phone, "rm output_0.bin"));
    while_running("other sizes than the bytes", &["its sizes ask for"], |phone| {
        let emulator = crate::stand_in::program("qemu-aarch64-static");
        phone.device.tool(
            "emulator",
            &format!("{} -cpu max \"$@\" | sed 's/\"sizes\":\\[1,6/\"sizes\":[2,6/'", emulator.display()),
        );
    });
    while_running("a result elsewhere", &["it names a result at `/etc/output_0.bin`"], |phone| {
        let emulator = crate::stand_in::program("qemu-aarch64-static");
        phone.device.tool(
            "emulator",
            &format!(
                "{} -cpu max \"$@\" | sed 's|\"path\":\"[^\"]*/output|\"path\":\"/etc/output|'",
                emulator.display()
            ),
        );
    });
    while_running("no trace", &["it names a result `trace.etdp` that it did not write"], |phone| {
        afterwards(phone, "rm trace.etdp");
    });
    while_running("the device's disk is full", &["output_0.bin", "No space left"], |phone| {
        let emulator = crate::stand_in::program("qemu-aarch64-static");
        phone.device.tool("ln", "exec /bin/ln \"$@\"");
        phone.device.tool(
            "emulator",
            &format!("/bin/ln -s /dev/full output_0.bin; exec {} -cpu max \"$@\"", emulator.display()),
        );
    });
    while_running("an output refused on the way back", &["failed while copying", "back"], |phone| {
        phone.daemon.plan(on(pull_of("output_0"), Fault::Refuse("open failed: Permission denied".to_owned())));
    });
    while_running("an output altered on the way back", &["the result `output_0.bin` has other bytes"], |phone| {
        phone.daemon.plan(on(pull_of("output_0"), Fault::Alter));
    });
    while_running("an output cut off on the way back", &["the result `output_0.bin` has other bytes"], |phone| {
        phone.daemon.plan(on(pull_of("output_0"), Fault::Cut(64)));
    });
    while_running("unplugged on the way back", &UNPLUGGED, |phone| {
        phone.daemon.plan(on(pull_of("output_0"), Fault::Unplug));
    });
    while_running("the trace altered on the way back", &["the result `trace.etdp` has other bytes"], |phone| {
        phone.daemon.plan(on(pull_of("trace"), Fault::Alter));
    });
    while_running("restarted, or another device", &["was restarted, or another device answers"], |phone| {
        phone.device.tool("cat", "case \"$1\" in *boot_id) echo another;; *) exec /bin/cat \"$@\";; esac");
    });
    while_running("the server of adb was restarted", &UNPLUGGED, |phone| {
        phone.server.adb(&["kill-server"]);
    });
}

#[test]
fn a_program_that_hangs_on_the_device_is_ended_there() {
    let phone = Phone::new();
    let target = phone.prepare().expect("ready");
    phone.device.tool("emulator", "echo $$ >\"$HOME/hanging\"; exec sleep 600");
    let folder = tempfile::tempdir().expect("folder");
    let begin = std::time::Instant::now();
    match run(&target, folder.path()) {
        Err(Error::Timeout { seconds: 5, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(begin.elapsed() < Duration::from_secs(300));
    let pid = fs_err::read_to_string(phone.device.storage().with_file_name("hanging")).expect("pid");
    let alive = || Path::new("/proc").join(pid.trim()).join("exe").exists();
    for _ in 0..200 {
        if !alive() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it still runs");
}

#[test]
fn a_device_that_is_lost_between_measurements_ends_the_run_and_it_goes_on_later() {
    let phone = Phone::new();
    let mut runs = 0;
    phone.daemon.plan(move |event| {
        runs += u32::from(is_run(event));
        // In the middle of the repair's own runs.
        (is_run(event) && runs == 12).then_some(Fault::Unplug)
    });
    let lost = phone.optimize();
    assert_eq!(lost.code, 2, "{}", lost.stderr);
    assert!(lost.report.is_none(), "{}", lost.stderr);
    assert!(lost.stderr.contains("failed while running a program"), "{}", lost.stderr);
    assert!(lost.stderr.contains("--resume"), "{}", lost.stderr);
    assert!(!lost.path("optimized.pte").exists() && !lost.path("report.json").exists());
    phone.daemon.plan(|_| None);
    phone.server.connect(&phone.daemon);
    let mut command = crate::bench::command(&["optimize", "--format", "json", "--target", "adb"]);
    command.arg(format!("--resume={}", lost.path("").display())).arg(crate::bench::model("softmax_over_channels"));
    phone.lead(&mut command);
    let done = command.output().expect("the binary starts");
    let stderr = String::from_utf8_lossy(&done.stderr);
    let report = delegate_doctor::report::model::Report::from_json(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert_eq!(report.trials.len(), 1, "{stderr}");
}

#[test]
fn outputs_that_are_no_numbers_on_the_device_are_never_accepted() {
    let phone = Phone::new();
    afterwards(
        &phone,
        "[ -f output_0.bin ] && { size=$(wc -c <output_0.bin); head -c $size /dev/zero | tr '\\000' '\\377' >output_0.bin; }",
    );
    let run = phone.optimize();
    let trial = run.report().trials.first().expect("a trial");
    assert_eq!(
        (trial.outcome, trial.gate),
        (TrialOutcome::Inconclusive, Some(Gate::DeviceCorrectness)),
        "{}",
        run.stderr
    );
    assert!(trial.reason.contains("hold no finite number"), "{}", trial.reason);
    assert!(run.report().alarms().next().is_some(), "the original is wrong there");
    assert_ne!(run.code, 0);
    assert!(!run.path("optimized.pte").exists());
}

#[test]
fn a_device_that_translates_programs_is_no_arm_and_files_of_others_stay() {
    let phone = Phone::new();
    let others = phone.device.storage().join("session-of-somebody/photos");
    fs_err::create_dir_all(&others).expect("folder");
    let old = std::time::SystemTime::now() - Duration::from_secs(3 * 24 * 3600);
    for folder in [others.as_path(), others.parent().expect("folder")] {
        fs_err::File::open(folder).and_then(|file| file.file().set_modified(old)).expect("time");
    }
    let label = phone.prepare().expect("ready").label();
    assert!(label.physical_arm && label.measures_speed(), "{label:?}");
    assert!(others.is_dir(), "only what is this tool's own is removed");
    // The kernel is this machine's: `/proc/cpuinfo` has no parts of Arm, or `/sys` tells of another processor.
    let plain = |name: &str| format!("exec {} \"$@\"", crate::stand_in::program(name).display());
    phone.device.tool("sed", &plain("sed"));
    let label = phone.prepare().expect("ready").label();
    assert!(!label.physical_arm && !label.measures_speed(), "{label:?}");
    assert_eq!(label.name, "Stand In (adb, emulated, not a physical Arm device)");
}
