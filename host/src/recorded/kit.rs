//! JSON of this tool, of Arm's SME2 kit and of ArmFit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Error, Reading, Recording, bytes_of, label, tables};
use crate::evidence::Evidence;
use crate::profile::breakdown::Breakdown;
use crate::profile::category::Category;
use crate::report::breakdown::{self, ProfileDocument};

/// The kit's `manifest.json`, as far as it leads to the tables.
#[derive(Deserialize)]
struct Manifest {
    results: Vec<Experiment>,
}

#[derive(Deserialize)]
struct Experiment {
    experiment: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    threads: Option<u32>,
    #[serde(default)]
    artifacts: BTreeMap<String, Artifact>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Artifact {
    Described {
        #[serde(default)]
        relative_path: Option<String>,
        #[serde(default)]
        path: Option<String>,
    },
    Path(String),
    Other(serde::de::IgnoredAny),
}

/// The kit's `analysis_summary.json`.
#[derive(Deserialize)]
struct Summary {
    category_totals_ms: BTreeMap<String, f64>,
    #[serde(default)]
    per_etdump: Vec<SummaryPart>,
}

#[derive(Deserialize)]
struct SummaryPart {
    etdump: String,
    #[serde(default)]
    categories_ms: BTreeMap<String, f64>,
}

/// A report of ArmFit.
#[derive(Deserialize)]
struct ArmFit {
    measured: bool,
    baseline: ArmFitSide,
    sme2: ArmFitSide,
}

#[derive(Deserialize)]
struct ArmFitSide {
    total_time_ms: f64,
    categories: Vec<ArmFitCategory>,
}

#[derive(Deserialize)]
struct ArmFitCategory {
    category: String,
    time_ms: f64,
    #[serde(default)]
    op_count: u64,
}

/// Reads JSON of a known kind.
pub(super) fn json(path: &Path, bytes: &[u8], pick: Option<&str>, reading: &Reading) -> Result<Recording, Error> {
    let damaged = |error: serde_json::Error| Error::Damaged { path: path.to_path_buf(), why: error.to_string() };
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(damaged)?;
    let has = |name: &str| value.get(name).is_some();
    let unknown = |why: &str| Error::Unknown { path: path.to_path_buf(), why: why.to_owned() };
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(breakdown::SCHEMA) => return own(path, value),
        Some(crate::report::model::SCHEMA) => {
            return Err(unknown("it is the report of an optimization; its run folder holds the traces"));
        }
        _ => {}
    }
    if has("category_totals_ms") {
        let summary: Summary = serde_json::from_value(value).map_err(damaged)?;
        summary.recording(path, pick, reading)
    } else if has("baseline") && has("sme2") {
        let report: ArmFit = serde_json::from_value(value).map_err(damaged)?;
        report.recording(path, pick, reading)
    } else if has("results") {
        let manifest: Manifest = serde_json::from_value(value).map_err(damaged)?;
        manifest.recording(path, pick, reading)
    } else {
        Err(unknown("its JSON is of no kind that is known"))
    }
}

/// What no profile of this tool says.
fn flaw(document: &ProfileDocument) -> Option<String> {
    let breakdown = &document.breakdown;
    let wrong = |evidence: &Evidence, least: f64| match evidence {
        Evidence::Measured(measured) => {
            let ordered = measured.interval.as_ref().is_none_or(|it| it.low <= it.high);
            measured.unit != "ms" || !ordered || measured.value < least || measured.value > 1e12
        }
        Evidence::Projected(_) => true,
    };
    let times = breakdown.rows.iter().map(|row| &row.time).chain(breakdown.categories.iter().map(|it| &it.time));
    if breakdown.runs == 0 || document.threads == Some(0) {
        return Some("it was traced in no run, or with no thread".to_owned());
    }
    let all = std::iter::once(&breakdown.method).chain(times).chain(breakdown.bottlenecks.iter().map(|it| &it.time));
    all.into_iter().any(|time| wrong(time, 0.0)).then(|| "a time in it is negative, endless or none".to_owned())
}

fn own(path: &Path, value: serde_json::Value) -> Result<Recording, Error> {
    let damaged = |why: String| Error::Damaged { path: path.to_path_buf(), why };
    let version = value.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if version != u64::from(breakdown::VERSION) {
        let why = format!("it has version {version}, and this tool reads version {}", breakdown::VERSION);
        return Err(damaged(why));
    }
    let document: ProfileDocument = serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
    if let Some(flaw) = flaw(&document) {
        return Err(damaged(flaw));
    }
    Ok(Recording { document, trace: None })
}

/// The one that was picked, or the only one.
fn one_of<'a, T>(path: &Path, pick: Option<&str>, all: &'a [(String, T)]) -> Result<&'a (String, T), Error> {
    let names = || all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    match (pick, all) {
        (Some(wanted), _) => all.iter().find(|(name, _)| name == wanted).ok_or_else(|| Error::NoSuch {
            path: path.to_path_buf(),
            name: wanted.to_owned(),
            names: names(),
        }),
        (None, [only]) => Ok(only),
        (None, []) => Err(Error::Damaged { path: path.to_path_buf(), why: "it lists no experiment".to_owned() }),
        (None, _) => Err(Error::Several { path: path.to_path_buf(), names: names() }),
    }
}

impl Manifest {
    fn recording(self, path: &Path, pick: Option<&str>, reading: &Reading) -> Result<Recording, Error> {
        let all: Vec<(String, Experiment)> = self.results.into_iter().map(|it| (it.experiment.clone(), it)).collect();
        let (name, experiment) = one_of(path, pick, &all)?;
        if let Some(status) = experiment.status.as_deref().filter(|status| *status != "ok") {
            let status: String = status.chars().take(40).collect();
            let why = format!("the status of `{name}` is `{status}`, not `ok`");
            return Err(Error::Damaged { path: path.to_path_buf(), why });
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut tried = Vec::new();
        for kind in ["timeline_all", "timeline_run0", "timeline", "etdump", "stats"] {
            let found = experiment.artifacts.get(kind).into_iter().flat_map(Artifact::paths);
            for place in found.flat_map(|it| [folder.join(&it), folder.join(name).join(file_name(&it))]) {
                if !place.is_file() {
                    tried.push(place);
                    continue;
                }
                let mut found = if kind == "etdump" {
                    super::traced(&place, reading)?
                } else {
                    let bytes = bytes_of(&place)?;
                    let unknown = || Error::Unknown {
                        path: place.clone(),
                        why: "it has no columns of a table of events".to_owned(),
                    };
                    tables::read(&place, &bytes, reading)?.ok_or_else(unknown)?
                };
                found.document.threads = experiment.threads;
                return Ok(found);
            }
        }
        let why = match tried.first() {
            Some(first) => format!("what it names for `{name}` is not there, e.g. `{}`", first.display()),
            None => format!("it names no table or trace for `{name}`"),
        };
        Err(Error::Damaged { path: path.to_path_buf(), why })
    }
}

fn file_name(path: &Path) -> PathBuf {
    path.file_name().map_or_else(|| path.to_path_buf(), PathBuf::from)
}

impl Artifact {
    fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Described { relative_path, path } => relative_path.iter().chain(path).map(PathBuf::from).collect(),
            Self::Path(path) => vec![PathBuf::from(path)],
            Self::Other(_) => Vec::new(),
        }
    }
}

impl Summary {
    fn recording(self, path: &Path, pick: Option<&str>, reading: &Reading) -> Result<Recording, Error> {
        let stem = |part: &SummaryPart| {
            let stem = Path::new(&part.etdump).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            stem.unwrap_or_else(|| part.etdump.clone())
        };
        let mut all: Vec<(String, BTreeMap<String, f64>)> =
            self.per_etdump.iter().map(|part| (stem(part), part.categories_ms.clone())).collect();
        if all.is_empty() {
            all.push(("all traces".to_owned(), self.category_totals_ms));
        }
        let (_, totals) = one_of(path, pick, &all)?;
        let categories = totals.iter().map(|(name, ms)| Ok((kit_category(path, name)?, *ms, 0)));
        let categories: Vec<(Category, f64, u64)> = categories.collect::<Result<_, Error>>()?;
        let total = categories.iter().map(|(_, ms, _)| ms).sum();
        of_totals(path, &categories, total, reading)
    }
}

/// The kit's five categories in ours; what it calls convolution and GEMM it tells by words in names of events.
fn kit_category(path: &Path, name: &str) -> Result<Category, Error> {
    Ok(match name {
        "Convolution" => Category::Conv2d,
        "GEMM" => Category::Gemm,
        "Data Movement" => Category::DataMovement,
        "Elementwise" => Category::Elementwise,
        "Other" => Category::Other,
        other => {
            let why = format!("`{}` is no category of the kit", other.chars().take(40).collect::<String>());
            return Err(Error::Damaged { path: path.to_path_buf(), why });
        }
    })
}

impl ArmFit {
    fn recording(self, path: &Path, pick: Option<&str>, reading: &Reading) -> Result<Recording, Error> {
        if !self.measured {
            return Err(Error::MadeUp { path: path.to_path_buf() });
        }
        let all = [("baseline".to_owned(), self.baseline), ("sme2".to_owned(), self.sme2)];
        let (_, side) = one_of(path, pick, &all)?;
        let categories = side.categories.iter().map(|it| {
            let category = Category::named(&it.category).ok_or_else(|| Error::Damaged {
                path: path.to_path_buf(),
                why: format!("`{}` is no category", it.category.chars().take(40).collect::<String>()),
            })?;
            Ok((category, it.time_ms, it.op_count))
        });
        let categories: Vec<_> = categories.collect::<Result<_, Error>>()?;
        of_totals(path, &categories, side.total_time_ms, reading)
    }
}

/// A profile of which only totals are known.
fn of_totals(
    path: &Path,
    categories: &[(Category, f64, u64)],
    total: f64,
    reading: &Reading,
) -> Result<Recording, Error> {
    let usable = |ms: f64| ms.is_finite() && ms >= 0.0;
    if !usable(total) || !categories.iter().all(|(_, ms, _)| usable(*ms)) {
        let why = "a time in it is negative or no number".to_owned();
        return Err(Error::Damaged { path: path.to_path_buf(), why });
    }
    let target = label(reading);
    let breakdown = Breakdown::of_totals(categories, total, &target);
    let mut document = ProfileDocument::of_trace(path.display().to_string(), target, breakdown);
    document.notes.push("Only totals of categories are known: no kernels, and not what ran in delegates".to_owned());
    Ok(Recording { document, trace: None })
}
