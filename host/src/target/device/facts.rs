//! What a device says about itself: one script, the same for phones, boards and this host.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Link;
use crate::evidence::TargetLabel;
use crate::target::Error;
use crate::target::bundle::is_plain;

/// Everything on a device lies below a folder of this name.
const OWN_FOLDER: &str = "delegate-doctor";

/// Asks for everything at once; a line a fact, nothing where the device does not tell. `{root}` is the place for
/// this tool's files.
const QUESTIONS: &str = r#"
say() { [ -n "$2" ] && echo "$1=$2"; }
first() { [ -r "$1" ] && head -n 1 "$1" 2>/dev/null; }
prop() { command -v getprop >/dev/null 2>&1 && getprop "$1"; }
say root "{root}"
say architecture "$(uname -m)"
say kernel "$(uname -sr)"
say boot "$(first /proc/sys/kernel/random/boot_id)"
say android "$(prop ro.build.version.release)"
say api "$(prop ro.build.version.sdk)"
say model "$(prop ro.product.model)"
say soc "$(prop ro.soc.model)"
say build "$(prop ro.build.fingerprint)"
say abi "$(prop ro.product.cpu.abi)"
say machine "$(first /sys/devices/system/cpu/modalias)"
say emulator "$(prop ro.kernel.qemu)$(prop ro.boot.qemu)"
say board "$(first /proc/device-tree/model 2>/dev/null | tr -d '\000')"
say distribution "$(sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' /etc/os-release 2>/dev/null)"
say memory_kb "$(sed -n 's/^MemTotal:[^0-9]*\([0-9]*\).*/\1/p' /proc/meminfo)"
say free_kb "$(sed -n 's/^MemAvailable:[^0-9]*\([0-9]*\).*/\1/p' /proc/meminfo)"
say features "$(sed -n 's/^Features[^:]*: *//p; s/^flags[^:]*: *//p' /proc/cpuinfo | head -n 1)"
say processor "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
say load "$(first /proc/loadavg)"
say battery "$(first /sys/class/power_supply/battery/capacity)"
say charging "$(first /sys/class/power_supply/battery/status)"
for folder in /sys/devices/system/cpu/cpu[0-9]*; do
  [ -d "$folder" ] && echo "core=${folder##*/cpu} $(first "$folder/cpufreq/cpuinfo_max_freq") $(first "$folder/cpufreq/scaling_cur_freq") $(first "$folder/cpufreq/scaling_governor")"
done
sed -n 's/^CPU part[^:]*: *\(0x[0-9a-f]*\).*/part=\1/p' /proc/cpuinfo
for folder in /sys/class/thermal/thermal_zone*; do
  [ -r "$folder/temp" ] && echo "zone=$(first "$folder/temp" 2>/dev/null) $(first "$folder/type")"
done
echo
echo 'DD end'
"#;

/// Names of Arm's cores by their part numbers (Linux, `arch/arm64/include/asm/cputype.h`).
const PARTS: [(&str, &str); 24] = [
    ("0xd03", "Cortex-A53"),
    ("0xd04", "Cortex-A35"),
    ("0xd05", "Cortex-A55"),
    ("0xd07", "Cortex-A57"),
    ("0xd08", "Cortex-A72"),
    ("0xd09", "Cortex-A73"),
    ("0xd0a", "Cortex-A75"),
    ("0xd0b", "Cortex-A76"),
    ("0xd0c", "Neoverse-N1"),
    ("0xd0d", "Cortex-A77"),
    ("0xd40", "Neoverse-V1"),
    ("0xd41", "Cortex-A78"),
    ("0xd44", "Cortex-X1"),
    ("0xd46", "Cortex-A510"),
    ("0xd47", "Cortex-A710"),
    ("0xd48", "Cortex-X2"),
    ("0xd49", "Neoverse-N2"),
    ("0xd4d", "Cortex-A715"),
    ("0xd4e", "Cortex-X3"),
    ("0xd4f", "Neoverse-V2"),
    ("0xd80", "Cortex-A520"),
    ("0xd81", "Cortex-A720"),
    ("0xd82", "Cortex-X4"),
    ("0xd85", "Cortex-X925"),
];

/// What is known of a device. Texts are empty and numbers `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// folder for this tool's files
    pub root: String,
    /// as `uname -m` says
    pub architecture: String,
    /// what a person calls it: the phone's or board's model
    pub model: String,
    /// chip, where it is told
    pub chip: String,
    /// `Android 15 (API 35)`, `Debian GNU/Linux 12`, with the kernel
    pub system: String,
    /// which start of the system this is
    pub boot: String,
    /// processors
    pub cores: u32,
    /// kinds of cores with how many there are, e.g. `4 x Cortex-A55`
    pub kinds: Vec<String>,
    /// CPU features as the system names them
    pub features: Vec<String>,
    /// memory in all and free, kB
    pub memory_kb: (Option<u64>, Option<u64>),
    /// governors in use
    pub governors: Vec<String>,
    /// fastest clock of any core and the clock of the same now, kHz
    pub clock_khz: (Option<u64>, Option<u64>),
    /// hottest zone, thousandths of a degree Celsius, and its name
    pub hottest: Option<(i64, String)>,
    /// charge in percent, and what the battery does
    pub battery: Option<(u32, String)>,
    /// load over one minute
    pub load: Option<String>,
    /// an emulated device, or one whose programs are translated for another kind of processor
    pub emulated: bool,
}

/// Asks a device. `folder` is the place for this tool's files, unless it is the link's own.
///
/// # Errors
/// When it does not answer, or leaves out what is needed.
pub(crate) fn ask(link: &dyn Link, folder: Option<&str>) -> Result<DeviceFacts, Error> {
    if let Some(folder) = folder.filter(|folder| !is_plain(folder) || !folder.starts_with('/')) {
        return Err(Error::Folder { folder: folder.to_owned() });
    }
    // Below a folder that may hold the files of others, a folder of our own.
    let own = folder.map(|folder| format!("{}/{OWN_FOLDER}", folder.trim_end_matches('/')));
    let root = own.as_deref().unwrap_or(link.root());
    let said = super::ask(link, "asking what it is", &QUESTIONS.replace("{root}", root))?;
    let facts = DeviceFacts::read(&said);
    if facts.architecture.is_empty() || !is_plain(&facts.root) || !facts.root.starts_with('/') {
        return Err(link.trouble("asking what it is", "its answer makes no sense"));
    }
    Ok(facts)
}

/// What this host says about itself; nothing where it has no shell.
pub(crate) fn of_this_host() -> DeviceFacts {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &QUESTIONS.replace("{root}", "/")]);
    let said = crate::target::child::run(&mut command, super::QUESTION_TIMEOUT).map(|done| done.stdout);
    DeviceFacts::read(&String::from_utf8_lossy(&said.unwrap_or_default()))
}

impl DeviceFacts {
    /// Reads the lines of an answer; what makes no sense is left out.
    pub fn read(said: &str) -> Self {
        let mut single: BTreeMap<&str, &str> = BTreeMap::new();
        let mut facts = Self::default();
        let mut parts: Vec<&str> = Vec::new();
        for line in said.lines() {
            let Some((name, value)) = line.trim_end().split_once('=') else { continue };
            match name {
                "core" => facts.add_core(value),
                "part" => parts.push(value),
                "zone" => facts.add_zone(value),
                _ => {
                    single.entry(name).or_insert(value);
                }
            }
        }
        let text = |name: &str| clean(single.get(name).copied().unwrap_or_default());
        let number = |name: &str| single.get(name).and_then(|value| value.trim().parse::<u64>().ok());
        facts.root = text("root");
        facts.architecture = text("architecture");
        facts.boot = text("boot");
        facts.model = [text("model"), text("board")].into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        facts.chip = text("soc");
        facts.system = match (text("android"), text("distribution")) {
            (android, _) if !android.is_empty() => format!("Android {android} (API {})", text("api")),
            (_, distribution) if !distribution.is_empty() => distribution,
            _ => String::new(),
        };
        let kernel = text("kernel");
        if facts.system.is_empty() {
            facts.system = kernel;
        } else if !kernel.is_empty() {
            let _ = write!(facts.system, ", {kernel}");
        }
        let build = text("build");
        if !build.is_empty() {
            let _ = write!(facts.system, ", {build}");
        }
        facts.features = text("features").split_whitespace().map(str::to_owned).collect();
        facts.memory_kb = (number("memory_kb"), number("free_kb"));
        facts.load = Some(text("load")).filter(|load| !load.is_empty());
        facts.battery =
            number("battery").and_then(|charge| u32::try_from(charge).ok()).map(|charge| (charge, text("charging")));
        facts.emulated = text("emulator").contains('1') || is_translated(&facts, &parts, &text("machine"));
        let processor = text("processor");
        facts.kinds = kinds(&parts);
        if facts.kinds.is_empty() && !processor.is_empty() {
            facts.kinds.push(processor);
        }
        facts.governors.sort();
        facts.governors.dedup();
        facts
    }

    fn add_core(&mut self, value: &str) {
        let mut words = value.split(' ');
        if words.next().is_none_or(|index| index.parse::<u32>().is_err()) {
            return;
        }
        self.cores += 1;
        let mut clock = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (fastest, now) = (clock(), clock());
        if fastest > self.clock_khz.0 {
            self.clock_khz = (fastest, now);
        }
        if let Some(governor) = words.next().map(clean).filter(|governor| !governor.is_empty()) {
            self.governors.push(governor);
        }
    }

    fn add_zone(&mut self, value: &str) {
        let (temperature, name) = value.split_once(' ').unwrap_or((value, ""));
        let Ok(temperature) = temperature.parse::<i64>() else { return };
        // Zones that are off report nonsense.
        if (-40_000..200_000).contains(&temperature)
            && self.hottest.as_ref().is_none_or(|(hottest, _)| *hottest < temperature)
        {
            self.hottest = Some((temperature, clean(name)));
        }
    }

    /// The processor in one line.
    pub fn processor(&self) -> String {
        let kinds = self.kinds.join(" + ");
        match (self.chip.is_empty(), kinds.is_empty()) {
            (true, _) => kinds,
            (false, true) => self.chip.clone(),
            (false, false) => format!("{} ({kinds})", self.chip),
        }
    }

    /// The label of the device at the end of a link.
    pub(super) fn label(&self, kind: &str, name: &str) -> TargetLabel {
        let is_arm = self.architecture == super::ARCHITECTURE;
        let shown = if self.model.is_empty() { name } else { &self.model };
        let mut text = format!("{shown} ({kind}");
        if self.emulated {
            text.push_str(", emulated, not a physical Arm device");
        } else if !is_arm {
            let _ = write!(text, ", {}, not Arm", self.architecture);
        }
        text.push(')');
        TargetLabel {
            kind: kind.to_owned(),
            name: text,
            architecture: self.architecture.clone(),
            physical_arm: is_arm && !self.emulated,
        }
    }
}

/// True when a system calls itself Arm and its kernel runs on something else: programs are then translated (by
/// `qemu-aarch64` through binfmt, as in containers for another platform). Linux on Arm tells the part number of every
/// core (`arch/arm64/kernel/cpuinfo.c`); newer emulators answer that for the processor that they play, and what the
/// kernel says of its own below `/sys` stays. A whole emulated machine cannot be told from a virtual one.
fn is_translated(facts: &DeviceFacts, parts: &[&str], machine: &str) -> bool {
    let is_other = !machine.is_empty() && !machine.starts_with("cpu:type:aarch64");
    facts.architecture == super::ARCHITECTURE && (parts.is_empty() || is_other)
}

/// Text of a device as it may be shown: one line without control characters, not too long.
fn clean(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(300).collect::<String>().trim().to_owned()
}

fn kinds(parts: &[&str]) -> Vec<String> {
    let mut counted: BTreeMap<&str, u32> = BTreeMap::new();
    for part in parts {
        *counted.entry(part).or_default() += 1;
    }
    let name = |part: &str| {
        let known = PARTS.iter().find(|(number, _)| *number == part);
        known.map_or_else(|| format!("core {}", clean(part)), |(_, name)| (*name).to_owned())
    };
    counted.into_iter().map(|(part, count)| format!("{count} x {}", name(part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHONE: &str = "root=/data/local/tmp/delegate-doctor\narchitecture=aarch64\nkernel=Linux 6.1\nboot=b-1\n\
        android=15\napi=35\nmodel=Pixel 8\nsoc=Tensor G3\nmemory_kb=7800000\nfree_kb=3000000\nfeatures=fp asimd asimddp i8mm\n\
        core=0 1704000 300000 sched_pixel\ncore=8 2914000 500000 sched_pixel\npart=0xd46\npart=0xd46\npart=0xd4e\npart=0xfff\n\
        zone=-274000 off\nzone=41500 big\nzone=39000 skin\nbattery=80\ncharging=Charging\n\nDD end\n";

    #[test]
    fn a_phone_is_described_by_what_it_says() {
        let facts = DeviceFacts::read(PHONE);
        assert_eq!(facts.system, "Android 15 (API 35), Linux 6.1");
        assert_eq!(facts.processor(), "Tensor G3 (2 x Cortex-A510 + 1 x Cortex-X3 + 1 x core 0xfff)");
        assert_eq!((facts.cores, facts.clock_khz), (2, (Some(2_914_000), Some(500_000))));
        assert_eq!(facts.governors, ["sched_pixel"]);
        assert_eq!(facts.hottest, Some((41_500, "big".to_owned())));
        assert_eq!(facts.battery, Some((80, "Charging".to_owned())));
        let label = facts.label("adb", "SERIAL");
        assert_eq!((label.name.as_str(), label.physical_arm), ("Pixel 8 (adb)", true));
    }

    #[test]
    fn an_emulator_and_another_architecture_are_no_evidence_for_arm() {
        let emulator = DeviceFacts::read(&PHONE.replace("boot=", "emulator=1\nboot="));
        assert!(!emulator.label("adb", "x").physical_arm);
        let server = DeviceFacts::read("architecture=x86_64\nroot=/r\n");
        let label = server.label("ssh", "build-box");
        assert_eq!((label.name.as_str(), label.physical_arm), ("build-box (ssh, x86_64, not Arm)", false));
    }

    #[test]
    fn this_host_answers_the_questions() {
        let facts = of_this_host();
        assert_eq!(facts.architecture, std::env::consts::ARCH);
        assert!(facts.cores >= 1 && !facts.boot.is_empty() && facts.memory_kb.0.is_some());
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_device_says_is_read(said in "(core|zone|part|model|battery)?=?.{0,80}(\n.{0,40}){0,4}") {
            let facts = DeviceFacts::read(&said);
            proptest::prop_assert!(!facts.processor().contains('\n'));
        }
    }
}
