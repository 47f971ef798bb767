//! How much memory this process and the processes that it starts take.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use delegate_doctor::sandbox::compile::SUBCOMMAND;

/// What was used at most.
pub(crate) struct Used {
    /// resident memory of this process, beyond what it had
    pub(crate) host_mib: u64,
    /// resident memory of the largest child
    pub(crate) compiler_mib: u64,
}

/// Looks at memory until it is told to end.
pub(crate) struct Watch {
    before: u64,
    stop: Arc<AtomicBool>,
    child: Arc<AtomicU64>,
    own: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        // Makes the kernel forget the peak so far; where it will not, what is sampled has to do.
        let _ = fs_err::write("/proc/self/clear_refs", "5");
        let before = kib("/proc/self/status".into(), "VmRSS:");
        let (stop, child, own) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(before)));
        let thread = std::thread::spawn({
            let (stop, child, own) = (Arc::clone(&stop), Arc::clone(&child), Arc::clone(&own));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    own.fetch_max(kib("/proc/self/status".into(), "VmRSS:"), Ordering::Relaxed);
                    // Between fork and exec a child looks as large as this process.
                    for pid in children().filter(|pid| is_compiler(*pid)) {
                        child.fetch_max(kib(format!("/proc/{pid}/status").into(), "VmHWM:"), Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(3));
                }
            }
        });
        Self { before, stop, child, own, thread }
    }

    pub(crate) fn end(self) -> Used {
        let peak = kib("/proc/self/status".into(), "VmHWM:");
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch ends");
        let sampled = self.own.load(Ordering::Relaxed);
        // Without a fresh peak the old one would be counted as new.
        let reset = fs_err::write("/proc/self/clear_refs", "5").is_ok();
        let peak = if reset { peak.max(sampled) } else { sampled };
        Used {
            host_mib: peak.saturating_sub(self.before) >> 10,
            compiler_mib: self.child.load(Ordering::Relaxed) >> 10,
        }
    }
}

fn kib(path: PathBuf, field: &str) -> u64 {
    let text = fs_err::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Processes that a thread of this one started.
fn children() -> impl Iterator<Item = u32> {
    let tasks = fs_err::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs_err::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
}

fn is_compiler(pid: u32) -> bool {
    let line = fs_err::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|word| word == SUBCOMMAND.as_bytes())
}
