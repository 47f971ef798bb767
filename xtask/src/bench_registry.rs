//! `cargo xtask bench registry`: what a registry of some size costs its users, held against limits; writes
//! `docs/registry-costs.md`.
//!
//! Registries with real metadata and keys are made in a temporary folder and served by a process of their own;
//! users look up one rule, with nothing, with everything and with one change since the last time, and search all
//! of it. Processor time of the user is measured, because wall time says little on a shared machine.

mod host;
mod made;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use cpu_time::ProcessTime;
use delegate_doctor::files;
use delegate_doctor::registry::client::{Manner, Places, Registry};
use delegate_doctor::registry::name::RuleName;
use delegate_doctor::registry::trust::Known;
use jiff::Timestamp;

use crate::workspace::{machine, root};
use host::Host;
use made::{Made, publisher};

/// Versions and publishers of the registries that are measured.
const SIZES: [(u32, u32); 4] = [(100, 10), (1_000, 50), (10_000, 200), (100_000, 200)];
/// The registry for which limits of a lookup are stated.
const LOOKED_UP: u32 = 10_000;
/// Most milliseconds and kilobytes of its first lookup.
const LOOKUP: (f64, f64) = (10.0, 100.0);
/// The registry for which the limit of a search is stated, and the most milliseconds.
const SEARCHED: (u32, f64) = (100_000, 1500.0);
/// Users that do the same.
const USERS: usize = 9;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What one use cost.
#[derive(Clone, Copy)]
struct Cost {
    milliseconds: f64,
    kilobytes: f64,
}

/// Measures, prints the page and writes it. With a folder, serves that instead.
pub(crate) fn bench(serve: Option<&Path>) -> Outcome<()> {
    if let Some(folder) = serve {
        return host::serve(folder);
    }
    let (mut figures, mut rows) = (String::new(), String::new());
    let mut figure = |name: &str, found: f64, most: f64, unit: &str| {
        let met = if found <= most { "yes" } else { "**no**" };
        // Writing to a string cannot fail.
        let _ = writeln!(figures, "| {name} | {found:.1} {unit} | at most {most} {unit} | {met} |");
    };
    for (versions, publishers) in SIZES {
        eprintln!("==> {versions} versions");
        let folder = tempfile::tempdir()?;
        let made = Made::of(folder.path(), versions, publishers)?;
        let host = Host::of(made.folder())?;
        let known = |place: &str| Known { name: "bench".to_owned(), place: place.to_owned(), root: made.pin.clone() };
        let (known, local) = (known(&host.url), known(&made.folder().display().to_string()));
        let rule: RuleName = format!("{}/rule-0", publisher(publishers / 2)).parse()?;
        let users: Vec<Places> = (0..USERS).map(|number| user(folder.path(), &format!("user-{number}"))).collect();
        let first = least(&users, |user| lookup(&known, user, &rule))?;
        let again = least(&users, |user| lookup(&known, user, &rule))?;
        made.change()?;
        let changed = least(&users, |user| lookup(&known, user, &rule))?;
        let searchers: Vec<Places> = (0..3).map(|number| user(folder.path(), &format!("searcher-{number}"))).collect();
        let search = least(&searchers, |user| search(&known, user))?;
        let unpacked = lookup(&local, &user(folder.path(), "local"), &rule)?;
        if versions == LOOKED_UP {
            let of = format!("first lookup, {versions} versions of {publishers} publishers");
            figure(&of, first.milliseconds, LOOKUP.0, "ms");
            figure(&format!("{of}, sent"), first.kilobytes, LOOKUP.1, "KB");
        }
        if versions == SEARCHED.0 {
            figure(&format!("search over {versions} versions, with nothing"), search.milliseconds, SEARCHED.1, "ms");
        }
        let told = |cost: &Cost| format!("{:.1} ms, {:.1} KB", cost.milliseconds, cost.kilobytes);
        let _ = writeln!(
            rows,
            "| {versions} | {publishers} | {} | {:.0} KB | {} | {} | {} |",
            told(&first),
            unpacked.kilobytes,
            told(&again),
            told(&changed),
            told(&search)
        );
    }
    let page = format!(
        "# What a registry costs its users\n\n\
         Written by `cargo xtask bench registry`; not by hand.\n\n\
         Every figure is MEASURED on {}: processor time of the whole process, the least of {USERS} users, and the \
         bytes that a host on this machine sent, packed as static hosts pack JSON. The signatures are real; every \
         rule has ten versions, and every version three files. The users' folders lie below `{}`: where making a file \
         is dear, as on many disks, a first lookup, which makes a dozen, costs more.\n\n\
         | figure | measured | limit | met |\n|---|---|---|---|\n{figures}\n\
         ## Growth\n\n\
         A *lookup* verifies everything from the pinned root down and chooses a version of one rule. *First* is with \
         nothing on this machine, *again* with everything, *after a change* when somebody else has published. A \
         folder gives the same documents unpacked. *Search* is with nothing, over everything.\n\n\
         | versions | publishers | first lookup | unpacked | again | after a change | search |\n\
         |---|---|---|---|---|---|---|\n{rows}\n\
         A lookup gets the root, the timestamp, the snapshot, the list of publishers, what was revoked, and two \
         documents of one publisher: its files, and the review of them. So it grows with the number of publishers \
         and with the files of that one, and not with the files of the others. Search gets the catalogue, which has \
         one entry for each rule.\n",
        machine(),
        std::env::temp_dir().display()
    );
    print!("{page}");
    Ok(files::write_atomic(&root().join("docs/registry-costs.md"), page.as_bytes())?)
}

/// The least of what several users need.
fn least(users: &[Places], work: impl Fn(&Places) -> Outcome<Cost>) -> Outcome<Cost> {
    let costs = users.iter().map(work).collect::<Outcome<Vec<Cost>>>()?;
    let least = costs.into_iter().min_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds));
    least.ok_or_else(|| "no user".into())
}

fn user(folder: &Path, name: &str) -> Places {
    let home = folder.join(name);
    Places {
        trust: home.join("registries.toml"),
        state: home.join("state"),
        cache: home.join("cache"),
        rules: home.join("rules"),
    }
}

fn lookup(known: &Known, user: &Places, rule: &RuleName) -> Outcome<Cost> {
    let registry = Arc::new(Registry::open(known, user, Manner::default())?);
    let begun = ProcessTime::now();
    let mut view = registry.refresh(Timestamp::now())?;
    view.choose(rule, None, Default::default())?;
    Ok(Cost::since(begun, &registry))
}

fn search(known: &Known, user: &Places) -> Outcome<Cost> {
    let registry = Arc::new(Registry::open(known, user, Manner::default())?);
    let begun = ProcessTime::now();
    let catalog = registry.refresh(Timestamp::now())?.catalog()?.ok_or("no catalogue")?;
    if !catalog.rules.iter().any(|offer| offer.title.contains("titles usually")) {
        return Err("nothing was found".into());
    }
    Ok(Cost::since(begun, &registry))
}

impl Cost {
    fn since(begun: ProcessTime, registry: &Registry) -> Self {
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        #[expect(clippy::cast_precision_loss, reason = "kilobytes are shown to a tenth")]
        let kilobytes = registry.fetched() as f64 / 1e3;
        Self { milliseconds, kilobytes }
    }
}
