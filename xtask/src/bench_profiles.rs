//! `cargo xtask bench profiles`: real programs through `profile`, whether everything adds up, which kernels were
//! seen and where they belong, and what a large trace costs; writes `docs/profiles.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use delegate_doctor::profile::category::Category;
use delegate_doctor::profile::kernels::family_of;
use delegate_doctor::report::breakdown::ProfileDocument;
use delegate_doctor::report::figures::{self, Figure, number};

use crate::workspace::{Result, home, machine, root};

/// What is profiled: a name, its file, and where. Emulation takes small ones.
const PROGRAMS: [(&str, &str, &str); 11] = [
    ("MobileNetV2", "bench/models/mobilenet_v2.py", "local"),
    ("ViT-B/16", "bench/models/vit_b_16.py", "local"),
    ("GhostNet", "bench/models/ghostnet_100.py", "local"),
    ("a small network in 8 bits", "bench/kernels/quantized.py", "local"),
    ("a small network in 8 bits", "bench/kernels/quantized.py", "qemu:max"),
    ("what XNNPACK takes", "bench/kernels/delegated.py", "local"),
    ("what XNNPACK takes", "bench/kernels/delegated.py", "qemu:max"),
    ("the same in half precision", "bench/kernels/half.py", "local"),
    ("the same in half precision", "bench/kernels/half.py", "qemu:max"),
    ("kernels on single elements", "bench/kernels/elementwise.py", "local"),
    ("kernels that move and reduce", "bench/kernels/rearranging.py", "local"),
];
/// Events of the large trace.
const RUNS: usize = 10;
const KERNELS: usize = 3_333;

/// Profiles everything and writes the page.
pub(crate) fn bench() -> Result {
    let python = crate::bench_models::bench_python()?;
    let binary = crate::bench_models::release_binary()?;
    let mut documents = Vec::new();
    for (name, file, target) in PROGRAMS {
        eprintln!("==> {name} on {target}");
        let folder = tempfile::tempdir().map_err(text)?;
        let output = Command::new(&binary)
            .args(["profile", file, "--target", target, "--format", "json", "--quiet", "--python"])
            .arg(&python)
            .arg("--out")
            .arg(folder.path().join("run"))
            .current_dir(root())
            .env("DELEGATE_DOCTOR_HOME", home())
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("`{}` cannot be started: {error}", binary.display()))?;
        if !output.status.success() {
            return Err(format!("`{file}` on {target} ended with {}", output.status));
        }
        let document: ProfileDocument = serde_json::from_slice(&output.stdout).map_err(text)?;
        documents.push((name, target, document));
    }
    let seconds = large_trace(&binary)?;
    let page = markdown(&documents, seconds);
    print!("{page}");
    delegate_doctor::files::write_atomic(&root().join("docs/profiles.md"), page.as_bytes()).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Wall time of the whole process for a large trace, the least of five, s.
fn large_trace(binary: &Path) -> Result<f64> {
    let folder = tempfile::tempdir().map_err(text)?;
    let path = folder.path().join("large.etdp");
    fs_err::write(&path, dd_tests::etdump::dump(RUNS, KERNELS)).map_err(text)?;
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let begin = Instant::now();
        let status = Command::new(binary)
            .args(["profile", "--format", "json", "--etdump"])
            .arg(&path)
            .stdout(Stdio::null())
            .status()
            .map_err(text)?;
        if !status.success() {
            return Err(format!("the large trace ended with {status}"));
        }
        least = least.min(begin.elapsed().as_secs_f64());
    }
    Ok(least)
}

/// A kernel's name in traces and whether a delegate reported it; with its category and the targets it was seen on.
type Seen = BTreeMap<(String, bool), (Option<Category>, BTreeSet<&'static str>)>;

fn markdown(documents: &[(&str, &'static str, ProfileDocument)], seconds: f64) -> String {
    let mut page = format!(
        "# Profiles of real programs\n\nWritten by `cargo xtask bench profiles`; not by hand.\n\n\
         MEASURED on {}; on `qemu:max` the Arm CPU is emulated: its kernels are those of an Arm CPU with SME, and its \
         times mean nothing. Kernels, time in delegates that their kernels do not explain, and time between \
         instructions add up to the method's time.\n\n\
         | program | target | method | in delegates | kernels | in delegates, ? | between | sum |\n\
         |---|---|---|---|---|---|---|---|\n",
        machine()
    );
    for (name, target, document) in documents {
        let breakdown = &document.breakdown;
        let kernels: f64 = breakdown.rows.iter().map(|row| number(&row.time)).sum();
        let rest = [&breakdown.unexplained_in_delegates, &breakdown.between_instructions].map(number);
        let method = number(&breakdown.method);
        let sum = (kernels + rest.iter().sum::<f64>()) / method;
        let _ = writeln!(
            page,
            "| {name} | {target} | {} | {} | {} | {} | {} | {} |",
            Figure::of(&breakdown.method).with_interval(),
            Figure::of(&breakdown.delegation).value,
            figures::milliseconds(kernels),
            figures::milliseconds(rest[0]),
            figures::milliseconds(rest[1]),
            figures::percent(sum),
        );
    }
    let _ = write!(page, "\n## Where the time goes\n\n| program | target |");
    for category in Category::ALL {
        let _ = write!(page, " {} |", category.name());
    }
    page.push_str("\n|---|---|---|---|---|---|---|---|\n");
    for (name, target, document) in documents {
        let _ = write!(page, "| {name} | {target} |");
        for category in Category::ALL {
            let total = document.breakdown.categories.iter().find(|total| total.category == Some(category));
            let share = total.map_or_else(|| "–".to_owned(), |total| Figure::of(&total.share).value);
            let _ = write!(page, " {share} |");
        }
        page.push('\n');
    }
    let mut seen = Seen::new();
    for (_, target, document) in documents {
        for row in &document.breakdown.rows {
            let entry = seen.entry((family_of(&row.name).to_owned(), row.delegated)).or_default();
            entry.0 = row.category;
            entry.1.insert(target);
        }
    }
    let unknown = seen.values().filter(|(category, _)| category.is_none()).count();
    let _ = write!(
        page,
        "\n## Kernels that were seen\n\n{} names in these traces, {unknown} of no known category.\n\n\
         | name | inside | category | seen on |\n|---|---|---|---|\n",
        seen.len()
    );
    for ((name, delegated), (category, targets)) in &seen {
        let place = if *delegated { "XNNPACK" } else { "" };
        let targets: Vec<&str> = targets.iter().copied().collect();
        let category = category.map_or("?", Category::name);
        let _ = writeln!(page, "| `{name}` | {place} | {category} | {} |", targets.join(", "));
    }
    let events = RUNS * (3 * KERNELS + 2);
    let _ = write!(
        page,
        "\n## A large trace\n\nAn ETDump of {} events, read, summarised and written as JSON: {}, the whole process, the \
         least of five (limit: 1 s).\n",
        figures::grouped(events as u64),
        figures::seconds(seconds)
    );
    page
}
