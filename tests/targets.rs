//! Targets beside this host, with everything real but the device: the real `adb` and `ssh` clients, the real
//! runner for 64-bit Arm under qemu. The device is a stand-in: a folder with a shell.

#[path = "targets/adb_daemon.rs"]
mod adb_daemon;
#[path = "targets/agreement.rs"]
mod agreement;
#[path = "targets/bench.rs"]
mod bench;
#[path = "targets/faults.rs"]
mod faults;
#[path = "targets/ssh_server.rs"]
mod ssh_server;
#[path = "targets/stand_in.rs"]
mod stand_in;

use delegate_doctor::gates::{Gate, GateStatus};
use delegate_doctor::report::model::{Report, Status, TrialOutcome};

use crate::bench::{Phone, model, optimize};
use crate::ssh_server::SshServer;
use crate::stand_in::StandIn;

fn gate(report: &Report, gate: Gate) -> GateStatus {
    let trial = report.trials.first().expect("a trial");
    trial.gates.iter().find(|report| report.gate == gate).map_or(GateStatus::NotRun, |report| report.status)
}

fn emulated(cpu: &str) {
    let run = optimize(&model("softmax_over_channels"), &format!("qemu:{cpu}"), |_| {});
    let report = run.report();
    assert_eq!(report.setting.target.name, format!("emulated Arm ({cpu})"));
    assert!(!report.setting.target.physical_arm);
    for passed in
        [Gate::Structure, Gate::SiteEquivalence, Gate::HostCorrectness, Gate::DeviceCorrectness, Gate::BackendFidelity]
    {
        assert_eq!(gate(report, passed), GateStatus::Pass, "{passed:?} {}", run.stderr);
    }
    let trial = report.trials.first().expect("a trial");
    for named in [Gate::DeviceCorrectness, Gate::BackendFidelity] {
        let facts = trial.gates.iter().find(|report| report.gate == named).map_or(&[][..], |report| &report.facts);
        let kernels = |of: &str| {
            let name = format!("kernels that ran, {of} on the target");
            let fact = facts.iter().find(|fact| fact.name.starts_with(&name)).expect("kernels");
            assert_eq!(fact.source, format!("trace of a run on emulated Arm ({cpu})"));
            fact.value.clone()
        };
        assert!(kernels("original").contains("`_softmax.out` outside of the delegate"), "{}", kernels("original"));
        assert!(kernels("repaired").contains("Softmax"), "{}", kernels("repaired"));
    }
    assert_eq!(gate(report, Gate::Benchmark), GateStatus::NotRun);
    let trial = report.trials.first().expect("a trial");
    assert_eq!(trial.outcome, TrialOutcome::Inconclusive);
    assert_eq!(trial.reason, "correct on Arm (emulated), speed not measured on Arm");
    assert_eq!((report.verdict.status, run.code), (Status::Inconclusive, 1));
    assert!(!run.path("optimized.pte").exists());
}

#[test]
fn an_emulated_phone_proves_correctness_and_never_speed() {
    emulated("cortex-a76");
}

#[test]
fn an_emulated_cpu_with_everything_proves_correctness_and_never_speed() {
    emulated("max");
}

#[test]
fn a_repair_is_decided_on_a_phone_through_the_real_client() {
    let phone = Phone::new();
    let run = phone.optimize();
    let report = run.report();
    assert_eq!(report.setting.target.name, "Stand In (adb)");
    assert_eq!(gate(report, Gate::DeviceCorrectness), GateStatus::Pass, "{}", run.stderr);
    assert_eq!(gate(report, Gate::BackendFidelity), GateStatus::Pass, "{}", run.stderr);
    assert_ne!(gate(report, Gate::Benchmark), GateStatus::NotRun, "{}", run.stderr);
    let text = fs_err::read_to_string(run.path("report.json")).expect("report");
    assert!(!text.contains(&phone.serial), "the serial number is in the report");
    // What was copied there for this run is gone, what serves the next one is not.
    let left: Vec<String> = fs_err::read_dir(phone.device.storage().join("delegate-doctor"))
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(left.iter().all(|name| name.starts_with("bundle-")) && left.len() == 1, "{left:?}");
}

#[test]
fn a_repair_is_decided_on_a_board_through_a_real_server() {
    let device = StandIn::new("", "cortex-a76");
    let server = SshServer::start(&device);
    let run = optimize(&model("softmax_over_channels"), "ssh:board", |command| {
        command
            .env("DELEGATE_DOCTOR_SSH_CONFIG", server.client_configuration())
            .env("DELEGATE_DOCTOR_DEVICE_FOLDER", device.storage());
    });
    let report = run.report.as_ref().unwrap_or_else(|| panic!("{}\n{}", run.stderr, server.log()));
    assert_eq!(report.setting.target.kind, "ssh");
    assert_eq!(gate(report, Gate::BackendFidelity), GateStatus::Pass, "{}", run.stderr);
    assert_ne!(gate(report, Gate::Benchmark), GateStatus::NotRun, "{}", run.stderr);
    assert_eq!(fs_err::read_dir(device.storage().join("delegate-doctor")).expect("folder").count(), 1);
    server.forget_keys();
    let run = optimize(&model("softmax_over_channels"), "ssh:board", |command| {
        command
            .env("DELEGATE_DOCTOR_SSH_CONFIG", server.client_configuration())
            .env("DELEGATE_DOCTOR_DEVICE_FOLDER", device.storage());
    });
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("(UNAUTHORIZED)") && run.stderr.contains("ssh-copy-id board"), "{}", run.stderr);
}
