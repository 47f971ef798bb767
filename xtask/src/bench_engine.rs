//! `cargo xtask bench engine`: what matching, the sandbox and rewriting cost, held against limits; writes
//! `docs/engine.md`.
//!
//! Processor time of this process throughout, the least of several repetitions: on a shared machine wall time
//! measures the neighbours.

mod clock;
mod page;
mod rounds;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dd_tests::synthetic;
use delegate_doctor::graph::Program;
use delegate_doctor::graph::archive;
use delegate_doctor::registry::{self, Component};
use delegate_doctor::sandbox::contract::Site;
use delegate_doctor::sandbox::{Helper, Limits, Options, Rule, Sandbox};
use serde::Deserialize;

use crate::workspace::{Result, root, run};
use clock::Times;
use page::{Figure, GraphRow, Page};

/// Nodes of the made-up graphs.
const SIZES: [usize; 4] = [100, 1_000, 10_000, 100_000];
/// The size that limits are stated for.
const STATED: usize = 10_000;
/// Exported networks and their names in the table.
const NETWORKS: [(&str, &str); 3] = [("mobilenet_v2", "MobileNetV2"), ("swin_t", "Swin-T"), ("vit_b_16", "ViT-B/16")];

/// Measures everything, prints the page and writes it.
pub(crate) fn bench() -> Result {
    let python = crate::bench_models::bench_python()?;
    let folder = root().join(".cache").join("bench-engine");
    fs_err::create_dir_all(&folder).map_err(text)?;
    run(Command::new(&python).arg(root().join("bench/export_for_engine.py")).arg(&folder))?;

    let scratch = tempfile::tempdir().map_err(text)?;
    let bench = Bench { components: registry::bundled().map_err(text)?, cache: scratch.path().join("rules") };
    // Compiles everything once; what is measured finds the code.
    bench.rules()?;
    let mut page = Page::default();
    for nodes in SIZES {
        eprintln!("==> {nodes} nodes");
        let bytes = synthetic::archive(nodes);
        let row = bench.graph(format!("{nodes} made up"), &|| Ok(synthetic::read(bytes.clone())))?;
        if nodes == STATED {
            page.figures.push(Figure::least("first round, 10,000 nodes", &row.first, 1e3, "ms", 100.0));
            page.figures.push(Figure::least(
                "round from the verdict cache, 10,000 nodes",
                &row.cached,
                1e3,
                "ms",
                15.0,
            ));
        }
        page.graphs.push(row);
    }
    for (name, title) in NETWORKS {
        eprintln!("==> {title}");
        let path = folder.join(format!("{name}.pt2"));
        let read = || archive::read(&path, &archive::Limits::default()).map_err(text);
        page.graphs.push(bench.graph(title.to_owned(), &read)?);
    }
    eprintln!("==> sites");
    bench.sites(&mut page)?;
    eprintln!("==> loading and compiling");
    page.figures.push(bench.loading(scratch.path())?);
    page.figures.push(bench.compiling()?);
    eprintln!("==> torch.fx");
    bench.fx(&python, &folder, &mut page)?;

    let page = page.markdown();
    print!("{page}");
    delegate_doctor::files::write_atomic(&root().join("docs/engine.md"), page.as_bytes()).map_err(text)
}

/// Measures rounds over one made-up graph and prints them.
pub(crate) fn rounds_of(nodes: usize) -> Result {
    let scratch = tempfile::tempdir().map_err(text)?;
    let bench = Bench { components: registry::bundled().map_err(text)?, cache: scratch.path().join("rules") };
    bench.rules()?;
    let bytes = synthetic::archive(nodes);
    let row = bench.graph(format!("{nodes} made up"), &|| Ok(synthetic::read(bytes.clone())))?;
    let shown = |times: &Times| format!("{:.2} ms (median {:.2})", times.least() * 1e3, times.median() * 1e3);
    println!("{}: {} sites, {} rewritten", row.name, row.sites, row.rewrites);
    println!("first {}, cached {}", shown(&row.first), shown(&row.cached));
    let mut page = Page::default();
    bench.sites(&mut page)?;
    for figure in &page.figures {
        println!("{figure}");
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

struct Bench {
    components: Vec<Component>,
    cache: PathBuf,
}

impl Bench {
    fn sandbox(cache: Option<PathBuf>) -> Result<Sandbox> {
        let helper = Helper::current().map_err(text)?;
        Sandbox::new(Options { limits: Limits::standard(), cache, helper }).map_err(text)
    }

    /// The bundled rules, as a new process has them.
    fn rules(&self) -> Result<Vec<Rule>> {
        let sandbox = Self::sandbox(Some(self.cache.clone()))?;
        self.components
            .iter()
            .map(|component| sandbox.load(&component.name(), &component.bytes).map_err(text))
            .collect()
    }

    fn forget_verdicts(&self) -> Result {
        for entry in fs_err::read_dir(&self.cache).map_err(text)? {
            let path = entry.map_err(text)?.path();
            if path.extension().is_some_and(|kind| kind == "verdicts") {
                fs_err::remove_file(path).map_err(text)?;
            }
        }
        Ok(())
    }

    /// Rounds over a program that is read anew for each, so that nothing derived from it is there yet.
    fn graph(&self, name: String, read: &dyn Fn() -> Result<Program>) -> Result<GraphRow> {
        let program = read()?;
        let nodes = program.graph().nodes().len();
        let repetitions = if nodes > 20_000 { 3 } else { 31 };
        let fresh = |known: bool| -> Result<(Program, Vec<Rule>)> {
            if !known {
                self.forget_verdicts()?;
            }
            Ok((read()?, self.rules()?))
        };
        let work = |prepared: Result<(Program, Vec<Rule>)>| {
            prepared.and_then(|(program, rules)| rounds::round(&program, &rules).map(|round| (round, program)))
        };
        let (round, _) = work(fresh(false))?;
        let first = Times::of(repetitions, || fresh(false), work);
        let cached = Times::of(repetitions, || fresh(true), work);
        Ok(GraphRow { name, nodes, sites: round.sites, rewrites: round.rewrites, first, cached })
    }

    /// One site: in a fresh instance, from the cache, and from the same rule built for this machine.
    fn sites(&self, page: &mut Page) -> Result {
        let program = synthetic::program(STATED);
        let (mut afresh, mut cached, mut native) = (Vec::new(), Vec::new(), Vec::new());
        let asked: Vec<(Rule, Vec<Site>)> =
            self.rules()?.into_iter().map(|rule| (rounds::sites(&program, &rule), rule)).map(|(s, r)| (r, s)).collect();
        let count: usize = asked.iter().map(|(_, sites)| sites.len()).sum();
        let mut twins = Vec::new();
        for (rule, sites) in &asked {
            let twin = rounds::native(rule.id()).ok_or_else(|| format!("{} has no native twin", rule.id()))?;
            for site in sites {
                twins.push((twin, dd_tests::sdk_site(site)));
            }
        }
        for _ in 0..15 {
            let all = |ask: &dyn Fn(&Rule, &[&Site]) -> usize| {
                let lists: Vec<(&Rule, Vec<&Site>)> =
                    asked.iter().map(|(rule, sites)| (rule, sites.iter().collect())).collect();
                Times::of_work(1, || lists.iter().map(|(rule, sites)| ask(rule, sites)).sum::<usize>()).least()
            };
            afresh.push(all(&|rule, sites| rule.examine_afresh(sites).len()) / count as f64);
            cached.push(all(&|rule, sites| rule.examine(sites).len()) / count as f64);
            let run = || twins.iter().filter(|(twin, site)| twin(site).is_ok()).count();
            native.push(Times::of_work(1, run).least() / count as f64);
        }
        page.native = Some(native.into());
        page.figures
            .insert(0, Figure::least("site in a fresh instance, all limits on", &afresh.into(), 1e6, "µs", 45.0));
        page.figures.insert(1, Figure::least("site whose verdict is cached", &cached.into(), 1e6, "µs", 3.0));
        page.site_count = count;
        Ok(())
    }

    /// Ten rules with code in the cache. They are the bundled ones, told apart by a section that means nothing.
    fn loading(&self, scratch: &Path) -> Result<Figure> {
        let rules: Vec<Vec<u8>> = (0_u8..10)
            .zip(self.components.iter().cycle())
            .map(|(number, component)| {
                let mut bytes = component.bytes.to_vec();
                bytes.extend_from_slice(&[0, 4, 2, b'n', b'o', number]);
                bytes
            })
            .collect();
        let cache = scratch.join("ten");
        let load = |sandbox: Result<Sandbox>| -> Result<Vec<Rule>> {
            let sandbox = sandbox?;
            rules.iter().map(|bytes| sandbox.load("rule", bytes).map_err(text)).collect()
        };
        load(Self::sandbox(Some(cache.clone())))?;
        let times = Times::of(15, || Self::sandbox(Some(cache.clone())), load);
        Ok(Figure::least("loading ten rules, compiled before", &times, 1e3, "ms", 5.0))
    }

    /// The largest bundled rule below 60 kB, compiled by a child process.
    fn compiling(&self) -> Result<Figure> {
        let by_distance = |component: &&Component| component.bytes.len().abs_diff(50_000);
        let component = self.components.iter().min_by_key(by_distance).ok_or("no bundled rule")?;
        let sandbox = Self::sandbox(None)?;
        let mut seconds = Vec::new();
        for _ in 0..9 {
            let begin = children_seconds()?;
            for _ in 0..4 {
                sandbox.load(&component.name(), &component.bytes).map_err(text)?;
            }
            seconds.push((children_seconds()? - begin) / 4.0);
        }
        let name = format!("compiling a rule of {:.0} kB", component.bytes.len() as f64 / 1e3);
        Ok(Figure::least(&name, &seconds.into(), 1e3, "ms", 150.0))
    }

    /// The same edits by patterns of `torch.fx`.
    fn fx(&self, python: &Path, folder: &Path, page: &mut Page) -> Result {
        #[derive(Deserialize)]
        struct Answer {
            torch: String,
            seconds: Vec<f64>,
            replaced: Vec<usize>,
        }
        let operators = folder.join("operators.json");
        let list = serde_json::to_vec(&synthetic::operators(STATED)).map_err(text)?;
        delegate_doctor::files::write_atomic(&operators, &list).map_err(text)?;
        let output = Command::new(python)
            .arg(root().join("bench/fx_rewriter.py"))
            .arg(&operators)
            .arg("3")
            .stderr(Stdio::inherit())
            .output()
            .map_err(text)?;
        let answer: Answer = serde_json::from_slice(&output.stdout).map_err(text)?;
        let row = page.graphs.iter().find(|row| row.nodes == STATED).ok_or("the stated size was not measured")?;
        let fx = Times::from(answer.seconds);
        let ratio = |ours: &Times| fx.least() / ours.least();
        page.figures.push(Figure::at_least("times faster than torch.fx, first round", ratio(&row.first), 30.0));
        page.figures.push(Figure::at_least("times faster than torch.fx, verdicts cached", ratio(&row.cached), 30.0));
        page.fx = Some((answer.torch, fx, answer.replaced.iter().sum(), row.rewrites));
        Ok(())
    }
}

/// Processor time of the children that have ended, in ticks of a hundredth of a second.
fn children_seconds() -> Result<f64> {
    let stat = fs_err::read_to_string("/proc/self/stat").map_err(text)?;
    // The program's name stands in brackets and may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = ticks(13).zip(ticks(14)).ok_or("`/proc/self/stat` has another form")?;
    Ok((user + system) / 100.0)
}
