//! `targets`: where programs can run, and what can be concluded there.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::{Context, Format};
use crate::evidence::TargetLabel;
use crate::output::{Exit, Failure, style, styled};
use crate::report::visible::line;
use crate::target::device::facts::DeviceFacts;
use crate::target::selector::Selector;
use crate::target::survey::{Found, survey};
use crate::target::{self, Target};
use crate::torch::environment::{self, Search};

/// Where programs run, for every command that runs some.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TargetArguments {
    /// Where to run the programs: `local`, `qemu[:CPU]`, `adb[:SERIAL]`, `ssh:HOST` [default: what the
    /// project file says, else local]
    #[arg(long, value_name = "TARGET", help_heading = "Target")]
    pub(super) target: Option<Selector>,
    /// Use a runner of your own on the device: an executable for it, or a folder with `runner` and its libraries
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    pub(super) runner: Option<PathBuf>,
    /// Threads of the measured programs [default: the cores of the target, at most 4]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Target")]
    pub(super) threads: Option<u32>,
}

/// See where programs can run, and what can be concluded there
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor targets list            What this machine can reach now
  delegate-doctor targets probe adb       What the connected phone is, and that programs run there")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(ListArguments),
    Probe(ProbeArguments),
}

/// List the targets that this machine can reach now
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor targets list                 This host, emulated Arm, connected Android devices
  delegate-doctor targets list --format json   The same for a script

A board is not looked for: name it, as in `delegate-doctor targets probe ssh:HOST`.")]
struct ListArguments {
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Make a target ready, try the runner there, and show what the target is
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  delegate-doctor targets probe local
  delegate-doctor targets probe qemu:max
  delegate-doctor targets probe adb                     The only Android device that is connected
  delegate-doctor targets probe ssh:pi                  As `ssh pi` knows it
  delegate-doctor targets probe adb --runner out/runner With a runner that you built

Files for a device go to `/data/local/tmp/delegate-doctor` there, on a board to the user's cache folder; the variable
DELEGATE_DOCTOR_DEVICE_FOLDER names another place. DELEGATE_DOCTOR_SSH_CONFIG names another configuration for `ssh`.")]
struct ProbeArguments {
    /// `local`, `qemu[:CPU]`, `adb[:SERIAL]` or `ssh:HOST`
    target: Selector,
    /// Use a runner of your own: an executable for the device, or a folder with `runner` and its libraries
    #[arg(long, value_name = "PATH")]
    runner: Option<PathBuf>,
    /// How to show the result
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::List(arguments) => list(arguments, context),
        Command::Probe(arguments) => probe(arguments, context),
    }
}

/// The JSON form of the list; version 1.
#[derive(Serialize)]
struct ListDocument {
    schema: &'static str,
    version: u32,
    targets: Vec<Found>,
}

fn list(arguments: &ListArguments, context: &Context) -> Result<Exit, Failure> {
    let targets = survey()?;
    let written = match arguments.format {
        Format::Text => context.printer.data(&table(&targets)),
        Format::Json => context.printer.json(&ListDocument { schema: "delegate-doctor/targets", version: 1, targets }),
    };
    Exit::of_write(written)?;
    Ok(Exit::Answered)
}

fn table(targets: &[Found]) -> String {
    let width = |of: fn(&Found) -> &str| targets.iter().map(|found| of(found).chars().count()).max().unwrap_or(0);
    let (names, states) = (width(|found| &found.target), width(|found| &found.state));
    let mut text = String::new();
    for Found { target, state, what, next } in targets {
        let (target, what) = (line(target), line(what));
        let style = if state == "READY" { style::GOOD } else { style::WARNING };
        let _ = writeln!(text, "{target:<names$}  {}  {what}", styled(style, format_args!("{state:<states$}")));
        if let Some(next) = next {
            let margin = " ".repeat(names + 2 + states + 2);
            let _ = writeln!(text, "{margin}{}: {next}", styled(style::HINT, "hint"));
        }
    }
    text
}

/// The JSON form of a probe; version 1.
#[derive(Serialize)]
struct ProbeDocument<'a> {
    schema: &'static str,
    version: u32,
    target: TargetLabel,
    processor: String,
    features: Vec<String>,
    threads: u32,
    system: Option<&'a str>,
    cores: Option<u32>,
    memory_kb: Option<u64>,
    free_memory_kb: Option<u64>,
    governors: &'a [String],
    clock_khz: Option<u64>,
    fastest_clock_khz: Option<u64>,
    hottest_millidegrees: Option<i64>,
    battery_percent: Option<u32>,
    load: Option<&'a str>,
    concluded: Vec<&'static str>,
    not_concluded: Vec<&'static str>,
}

fn probe(arguments: &ProbeArguments, context: &Context) -> Result<Exit, Failure> {
    let progress = context.printer.progress();
    let search = Search::of_this_process(context.common.python.clone(), &context.common.folders.data);
    let environment = environment::find_or_create(&search, &progress)?;
    let cache = &context.common.folders.cache;
    let target = target::prepare(&arguments.target, arguments.runner.as_deref(), &environment, cache, &progress)?;
    let nothing = DeviceFacts::default();
    let facts = target.facts().unwrap_or(&nothing);
    let label = target.label();
    let (concluded, not_concluded) = conclusions(&label);
    let features = features(&*target);
    let written = match arguments.format {
        Format::Text => context.printer.data(&described(&*target, facts, &features, &concluded, &not_concluded)),
        Format::Json => context.printer.json(&ProbeDocument {
            schema: "delegate-doctor/target",
            version: 1,
            processor: target.processor(),
            features: features.into_iter().map(str::to_owned).collect(),
            threads: target.default_threads(),
            system: Some(facts.system.as_str()).filter(|text| !text.is_empty()),
            cores: Some(facts.cores).filter(|cores| *cores > 0),
            memory_kb: facts.memory_kb.0,
            free_memory_kb: facts.memory_kb.1,
            governors: &facts.governors,
            clock_khz: facts.clock_khz.1,
            fastest_clock_khz: facts.clock_khz.0,
            hottest_millidegrees: facts.hottest.as_ref().map(|(temperature, _)| *temperature),
            battery_percent: facts.battery.as_ref().map(|(charge, _)| *charge),
            load: facts.load.as_deref(),
            target: label,
            concluded,
            not_concluded,
        }),
    };
    Exit::of_write(written)?;
    Ok(Exit::Answered)
}

/// CPU features that decide which kernels XNNPACK chooses, as Linux names them.
fn features(target: &dyn Target) -> Vec<&str> {
    const DECIDING: [&str; 19] = [
        "asimd",
        "fphp",
        "asimdhp",
        "asimddp",
        "bf16",
        "i8mm",
        "sve",
        "sve2",
        "sme",
        "sme2",
        "sse2",
        "avx",
        "f16c",
        "fma",
        "avx2",
        "avx512f",
        "avx512_vnni",
        "avx_vnni",
        "amx_int8",
    ];
    let Some(hello) = target.hello() else { return Vec::new() };
    DECIDING.into_iter().filter(|name| hello.cpu_features.iter().any(|feature| feature == name)).collect()
}

/// What a measurement there proves, and what it does not.
fn conclusions(label: &TargetLabel) -> (Vec<&'static str>, Vec<&'static str>) {
    if !label.measures_speed() {
        let proven = vec!["outputs of the kernels that such an Arm CPU runs", "which kernels XNNPACK chooses there"];
        return (proven, vec!["speed, and so whether a repair is worth it"]);
    }
    if label.physical_arm {
        let proven = vec!["outputs of this CPU's kernels", "speed on this device"];
        return (proven, vec!["speed on devices with another CPU"]);
    }
    (
        vec!["outputs of this machine's kernels", "speed on this machine"],
        vec!["outputs of Arm's kernels (`qemu` has them)", "speed on Arm"],
    )
}

fn described(
    target: &dyn Target,
    facts: &DeviceFacts,
    features: &[&str],
    concluded: &[&str],
    not_concluded: &[&str],
) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", styled(style::HEADING, target.label().name));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<12} {value}");
        }
    };
    line("processor", target.processor());
    line("features", features.join(" "));
    line("system", facts.system.clone());
    if facts.cores > 0 {
        line("cores", format!("{}, {} used by default", facts.cores, target.default_threads()));
    }
    let gibibytes = |kilobytes: Option<u64>| {
        #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
        kilobytes.map(|kilobytes| format!("{:.1} GiB", kilobytes as f64 / f64::from(1 << 20)))
    };
    if let (Some(all), Some(free)) = (gibibytes(facts.memory_kb.0), gibibytes(facts.memory_kb.1)) {
        line("memory", format!("{all}, {free} free"));
    }
    let clock = |clock: Option<u64>| clock.map(|kilohertz| format!("{} MHz", kilohertz / 1000));
    line(
        "clock",
        match (clock(facts.clock_khz.1), clock(facts.clock_khz.0)) {
            (Some(now), Some(fastest)) => format!("{now} of {fastest}"),
            _ => "not told".to_owned(),
        },
    );
    line("governor", if facts.governors.is_empty() { "not told".to_owned() } else { facts.governors.join(", ") });
    line(
        "temperature",
        facts.hottest.as_ref().map_or_else(
            || "not told".to_owned(),
            |(temperature, zone)| format!("{}.{} °C ({zone})", temperature / 1000, (temperature % 1000).abs() / 100),
        ),
    );
    if let Some((charge, state)) = &facts.battery {
        line("battery", format!("{charge} %, {state}"));
    }
    line("load", facts.load.clone().unwrap_or_default());
    for (index, proven) in concluded.iter().enumerate() {
        line(if index == 0 { "proves" } else { "" }, (*proven).to_owned());
    }
    for (index, open) in not_concluded.iter().enumerate() {
        line(if index == 0 { "not" } else { "" }, (*open).to_owned());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_says_what_to_do_about_what_is_not_ready() {
        let found = |target: &str, state: &str, what: &str, next: Option<&str>| Found {
            target: target.to_owned(),
            state: state.to_owned(),
            what: what.to_owned(),
            next: next.map(str::to_owned),
        };
        let odd = table(&[found("adb:R\u{202e}58", "READY", "Pix\u{202e}el", None)]);
        assert!(!odd.contains('\u{202e}') && odd.contains("adb:R\\u{202e}58"), "{odd}");
        let targets = [
            found("local", "READY", "this host (x86-64, not Arm)", None),
            found("adb:R58", "UNAUTHORIZED", "Android device", Some("Unlock the device")),
        ];
        insta::assert_snapshot!(anstream::adapter::strip_str(&table(&targets)), @r"
        local    READY         this host (x86-64, not Arm)
        adb:R58  UNAUTHORIZED  Android device
                               hint: Unlock the device
        ");
    }
}
