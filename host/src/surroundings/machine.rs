//! What the machine is like for measuring: cores, memory, clock, other load.

use std::path::Path;

use fs_err as fs;

use super::{Diagnosis, GIB, bytes};

/// Lowering a usual model needs about this much beside the system.
const MEMORY_COMFORTABLE: u64 = 4 * GIB;
/// Importing torch and executorch alone needs about this much.
const MEMORY_TOO_LITTLE: u64 = GIB;

pub(super) fn examine() -> Vec<Diagnosis> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let read = |path: &str| fs::read_to_string(Path::new(path)).ok();
    let mut found = vec![cpu(read("/proc/cpuinfo").as_deref(), processors)];
    found.extend(read("/proc/loadavg").and_then(|text| load(&text, processors)));
    found.push(governor(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").as_deref()));
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    let used = read("/sys/fs/cgroup/memory.current").and_then(|text| text.trim().parse().ok());
    found.extend(read("/proc/meminfo").and_then(|text| memory(&text, limit, used)));
    found
}

fn cpu(cpuinfo: Option<&str>, processors: usize) -> Diagnosis {
    let field = |name: &str| {
        let line = cpuinfo?.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_string())
    };
    let model = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_string());
    let what = format!("{model}, {processors} logical {}", if processors == 1 { "processor" } else { "processors" });
    if processors == 1 {
        return Diagnosis::warning("cpu", what, "With one processor, the tool itself and the measured program compete");
    }
    Diagnosis::ok("cpu", what)
}

fn load(loadavg: &str, processors: usize) -> Option<Diagnosis> {
    let minute: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    let what = format!("Load {minute:.2} over the last minute on {processors} processors");
    if minute > 0.5 * processors as f64 {
        return Some(
            Diagnosis::warning("load", what, "Other programs make measurements noisy, so small gains stay undecided")
                .hint("Close other programs before a run"),
        );
    }
    Some(Diagnosis::ok("load", what))
}

fn governor(governor: Option<&str>) -> Diagnosis {
    match governor.map(str::trim) {
        // Virtual machines and containers have no say in it.
        None | Some("") => Diagnosis::ok("cpu clock", "The governor cannot be read here"),
        Some("performance") => Diagnosis::ok("cpu clock", "Governor `performance`"),
        Some(other) => Diagnosis::warning(
            "cpu clock",
            format!("Governor `{other}`"),
            "A clock that follows the load makes measurements noisy, so small gains stay undecided",
        )
        .hint("Choose the governor `performance` for a run, for instance with `cpupower frequency-set`"),
    }
}

fn memory(meminfo: &str, limit: Option<u64>, used: Option<u64>) -> Option<Diagnosis> {
    let kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let total = kib("MemTotal:")?.saturating_mul(1024);
    let available = kib("MemAvailable:")?.saturating_mul(1024);
    let (total, available) = match limit {
        Some(limit) if limit < total => (limit, available.min(limit.saturating_sub(used.unwrap_or(0)))),
        _ => (total, available),
    };
    let what = format!("{} of {} available", bytes(available), bytes(total));
    Some(if available < MEMORY_TOO_LITTLE {
        Diagnosis::problem("memory", what, "torch and executorch alone need about 1 GiB")
            .hint("Close other programs, or use a machine with more memory")
    } else if available < MEMORY_COMFORTABLE {
        Diagnosis::warning("memory", what, "Lowering a large model may run out of memory")
    } else {
        Diagnosis::ok("memory", what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::Verdict;

    #[test]
    fn load_is_judged_against_the_processors() {
        let verdict = |text: &str, processors| load(text, processors).map(|diagnosis| diagnosis.verdict);
        assert_eq!(verdict("0.40 0.1 0.1 1/100 7\n", 2), Some(Verdict::Ok));
        assert_eq!(verdict("1.90 0.1 0.1 1/100 7\n", 2), Some(Verdict::Warning));
        assert_eq!(verdict("1.90 0.1 0.1 1/100 7\n", 16), Some(Verdict::Ok));
        assert_eq!(verdict("", 16), None);
    }

    #[test]
    fn the_limit_of_a_container_counts_when_it_is_the_smaller() {
        let meminfo = "MemTotal:       16384000 kB\nMemFree: 1 kB\nMemAvailable:   8192000 kB\n";
        let memory = |limit, used| memory(meminfo, limit, used).expect("memory");
        assert_eq!(memory(None, None).what, "7.8 GiB of 16 GiB available");
        assert_eq!(memory(Some(3 * GIB), Some(2 * GIB + 1)).verdict, Verdict::Problem);
        assert_eq!(memory(Some(3 * GIB), Some(GIB)).verdict, Verdict::Warning);
        assert_eq!(memory(Some(300 * GIB), Some(GIB)).verdict, Verdict::Ok);
    }

    #[test]
    fn a_clock_that_cannot_be_read_is_no_warning() {
        assert_eq!(governor(None).verdict, Verdict::Ok);
        assert_eq!(governor(Some("performance\n")).verdict, Verdict::Ok);
        assert_eq!(governor(Some("powersave\n")).verdict, Verdict::Warning);
    }

    #[test]
    fn the_processor_is_named() {
        let text = "processor\t: 0\nmodel name\t: Great CPU\nmodel\t: 4\n";
        assert_eq!(cpu(Some(text), 2).what, "Great CPU, 2 logical processors");
        assert_eq!(cpu(None, 1).verdict, Verdict::Warning);
    }
}
