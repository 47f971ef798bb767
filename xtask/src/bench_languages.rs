//! `cargo xtask bench languages`: what the rules under `rules/examples/` weigh and take, written into their
//! READMEs. For figures worth keeping, on a calm machine.

use std::path::Path;
use std::time::Instant;

use delegate_doctor::authoring::Project;
use delegate_doctor::output::{Printer, Talk};
use delegate_doctor::sandbox::{Helper, Options, Sandbox};
use rule_sdk::testing::cases;

use crate::workspace::{Result, home, machine, root};

const BEGIN: &str = "<!-- measured by `cargo xtask bench languages` -->\n";
const END: &str = "<!-- end -->\n";
/// Sites that a rule is asked about in one go, so that starting the thread does not count.
const SITES: usize = 200;

/// Measures every example.
pub(crate) fn bench() -> Result {
    for name in ["times-one-c", "times-one-js", "times-one-python"] {
        let folder = root().join("rules/examples").join(name);
        let table = measure(&folder)?;
        println!("{name}\n{table}");
        let path = folder.join("README.md");
        let text = fs_err::read_to_string(&path).map_err(|error| error.to_string())?;
        let (before, rest) = text.split_once(BEGIN).ok_or(format!("`{}` has no place for it", path.display()))?;
        let (_, after) = rest.split_once(END).ok_or(format!("`{}`: the place has no end", path.display()))?;
        fs_err::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn measure(folder: &Path) -> Result<String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let project = Project::read(folder, &home().join("data")).map_err(|error| words(&error))?;
    let cache = tempfile::tempdir().map_err(|error| words(&error))?;
    let sandbox = |cache: &Path| {
        let helper = Helper::current().map_err(|error| words(&error))?;
        let options = Options { limits: project.limits(), cache: Some(cache.to_owned()), helper };
        Sandbox::new(options).map_err(|error| words(&error))
    };
    let progress = Printer::new(Talk::Normal).progress();
    // The toolchain is installed, and the component is made, before any clock runs.
    project.build(&sandbox(&cache.path().join("build"))?, &progress).map_err(|error| words(&error))?;
    let begin = Instant::now();
    let built = project.build(&sandbox(&cache.path().join("again"))?, &progress).map_err(|error| words(&error))?;
    let whole = begin.elapsed().as_secs_f64();

    let begin = Instant::now();
    sandbox(&cache.path().join("empty"))?.load("rule", &built.component).map_err(|error| words(&error))?;
    let first = begin.elapsed().as_secs_f64();
    let mut cached = Vec::new();
    let mut sites = Vec::new();
    for round in 0..15 {
        let begin = Instant::now();
        let rule =
            sandbox(&cache.path().join("empty"))?.load("rule", &built.component).map_err(|error| words(&error))?;
        cached.push(begin.elapsed().as_secs_f64());
        let manifest = serde_json::to_value(rule.manifest()).and_then(serde_json::from_value);
        let manifest: rule_sdk::Manifest = manifest.map_err(|error| words(&error))?;
        let text = fs_err::read_to_string(folder.join("cases.txt")).map_err(|error| words(&error))?;
        let case = cases::parse(&text)?.into_iter().next().ok_or("there is no case")?;
        let site = dd_tests::host_site(&case.site(&manifest)?);
        // A site that was answered before is not asked about again, so each one differs.
        let distinct: Vec<_> = (0..SITES)
            .map(|index| {
                let mut site = site.clone();
                site.hints.push(("site".to_owned(), format!("{round}.{index}")));
                site
            })
            .collect();
        let asked: Vec<_> = distinct.iter().collect();
        let begin = Instant::now();
        let answers = rule.examine(&asked);
        sites.push(begin.elapsed().as_secs_f64() / SITES as f64);
        if let Some(error) = answers.into_iter().find_map(std::result::Result::err) {
            return Err(error.to_string());
        }
    }
    let bytes = built.component.len() as f64;
    let (size, unit) = if bytes < 1e6 { (bytes / 1e3, "kB") } else { (bytes / 1e6, "MB") };
    let build = if cfg!(debug_assertions) { "a build without optimisation" } else { "an optimised build" };
    let load = fs_err::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    Ok(format!(
        "\n| what | MEASURED |\n|---|---:|\n\
         | component | {size:.1} {unit} |\n\
         | building it, compiling and loading included | {} |\n\
         | loading it the first time, which compiles it | {} |\n\
         | loading it from the cache | {} |\n\
         | one site, in an instance of its own | {} |\n\n\
         On {}, with {build} of the host; load average {load}. Loading and asking are medians of 15.\n\n",
        time(whole),
        time(first),
        time(median(cached)),
        time(median(sites)),
        machine(),
    ))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}
