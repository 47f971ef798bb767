//! Pages in a real browser: their scripts run, their policies block nothing of their own, and they fit the width of
//! a phone.
//!
//! Skipped, saying so, where there is no Chromium.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dd_tests::workspace;
use delegate_doctor::report::breakdown::ProfileDocument;
use delegate_doctor::report::comparison::{ComparisonDocument, Moments};
use delegate_doctor::report::html;
use delegate_doctor::report::model::Report;
use delegate_doctor::report::timeline::Span;

/// Names that Chromium goes by.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/// How long one page may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// A small phone.
const PHONE: u32 = 360;

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

/// The document after its scripts ran, and what the browser logged.
struct Opened {
    dom: String,
    console: Vec<String>,
}

impl Opened {
    /// An attribute of the root element, which the page's script sets.
    fn told(&self, name: &str) -> Option<&str> {
        let (_, root) = self.dom.split_once("<html")?;
        let (attributes, _) = root.split_once('>')?;
        let (_, value) = attributes.split_once(&format!("data-{name}=\""))?;
        value.split_once('"').map(|(value, _)| value)
    }
}

/// A page that shows `page` in a frame as wide as a phone (a window cannot be so narrow) and then says on
/// its own root element what the framed page says on its.
fn framed(page: &str) -> String {
    let source = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        r#"<!DOCTYPE html><html><body style="margin:0">
<iframe style="border:0;width:{PHONE}px;height:800px" srcdoc="{source}"></iframe>
<script>
addEventListener("load", function () {{
  var inner = document.querySelector("iframe").contentDocument;
  Object.assign(document.documentElement.dataset, inner.documentElement.dataset, {{ title: inner.title }});
}});
</script></body></html>"#
    )
}

fn open(browser: &Path, page: &str) -> Opened {
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("report.html");
    fs_err::write(&file, page).expect("page");
    let (dom, log) = (folder.path().join("dom"), folder.path().join("log"));
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--dump-dom", "--window-size=1200,900"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(fs_err::File::create(&dom).expect("dom").into_file())
        .stderr(fs_err::File::create(&log).expect("log").into_file())
        .spawn()
        .expect("browser starts");
    let start = Instant::now();
    while child.try_wait().expect("browser").is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().expect("kill");
            child.wait().expect("end");
            panic!("the browser took longer than {PATIENCE:?}: {}", fs_err::read_to_string(&log).expect("log"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let log = fs_err::read(&log).expect("log");
    Opened {
        dom: fs_err::read_to_string(&dom).expect("dom"),
        console: String::from_utf8_lossy(&log)
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .map(Into::into)
            .collect(),
    }
}

fn reports() -> Vec<(String, Report)> {
    let read = |(name, bytes): (String, Vec<u8>)| (name, Report::from_json(&bytes).expect("report"));
    let reports: Vec<_> = fixtures("reports/v1").into_iter().map(read).collect();
    assert!(reports.len() >= 7, "the fixtures are there");
    reports
}

fn fixtures(folder: &str) -> Vec<(String, Vec<u8>)> {
    let read = |entry: std::io::Result<fs_err::DirEntry>| {
        let path = entry.expect("entry").path();
        (path.file_stem().expect("name").to_string_lossy().into_owned(), fs_err::read(&path).expect("fixture"))
    };
    let folder = workspace().join("tests/fixtures").join(folder);
    let mut fixtures: Vec<_> = fs_err::read_dir(folder).expect("fixtures").map(read).collect();
    fixtures.sort();
    fixtures
}

fn profiles() -> Vec<(String, ProfileDocument)> {
    let read = |(name, bytes): (String, Vec<u8>)| (name, serde_json::from_slice(&bytes).expect("profile"));
    let profiles: Vec<_> = fixtures("profiles/v1").into_iter().map(read).collect();
    assert!(profiles.len() >= 5, "the fixtures are there");
    profiles
}

/// A run with a name in it that must stay a name.
fn timeline() -> Vec<Span> {
    let span = |at: u32| Span {
        name: format!("<script>document.title='owned'</script> #{at}"),
        delegated: !at.is_multiple_of(3),
        instruction: Some(i64::from(at / 3)),
        start_us: f64::from(at) * 10.0,
        duration_us: f64::from(at % 7) + 0.5,
    };
    (0..300).map(span).collect()
}

/// Every page with tables: its name, what its script says that it shows, and the page.
fn pages_with_tables() -> Vec<(String, &'static str, String)> {
    let profiles = profiles();
    let of = |name: &str| profiles.iter().find(|(it, _)| it == name).map(|(_, document)| document).expect("profile");
    let mut pages = Vec::new();
    for (name, document) in &profiles {
        let page = html::render_profile(document, Some(&timeline())).expect("page");
        pages.push((format!("profile {name}"), "delegate-doctor/profile 1", page));
    }
    for (before, after) in
        [("segmenter", "repaired"), ("segmenter", "emulated"), ("hostile", "segmenter"), ("empty", "empty")]
    {
        let document = ComparisonDocument::of(of(before), of(after), Moments::InTurns);
        let page = html::render_comparison(&document).expect("page");
        pages.push((format!("{before} to {after}"), "delegate-doctor/comparison 1", page));
    }
    pages
}

#[test]
fn every_page_runs_its_script_and_fits_a_phone() {
    let Some(browser) = browser() else {
        #[expect(clippy::print_stderr, reason = "a skipped test says what is missing")]
        {
            eprintln!("skipped: no Chromium on PATH (one of {})", BROWSERS.join(", "));
        }
        return;
    };
    let report =
        |(name, report): (String, Report)| (name, "delegate-doctor/report 1", html::render(&report).expect("page"));
    for (name, schema, page) in reports().into_iter().map(report).chain(pages_with_tables()) {
        // With everything unfolded, so that nothing too wide hides.
        let unfolded = framed(&page.replace("<details", "<details open"));
        for (place, document, width) in [("window", &page, "1200"), ("phone", &unfolded, "360")] {
            let opened = open(&browser, document);
            assert_eq!(opened.console, Vec::<String>::new(), "{name}, {place}");
            assert_eq!(opened.told("error"), None, "{name}, {place}");
            assert_eq!(opened.told("report"), Some(schema), "{name}, {place}: the script ran");
            assert_eq!(opened.told("width"), Some(width), "{name}, {place}");
            assert_eq!(opened.told("overflow"), Some("0"), "{name}, {place}: wider than the window");
            assert!(!opened.dom.contains("<title>owned</title>"), "{name}, {place}: a string became a script");
            assert_ne!(opened.told("title"), Some("owned"), "{name}, {place}: a string became a script");
        }
    }
}

/// A script that presses buttons in a page, allowed by the page's own policy.
fn driven(page: &str, script: &str) -> String {
    // The policy names the page's script by its hash: without it, everything in the page runs.
    let (before, rest) = page.split_once("script-src 'sha256-").expect("policy");
    let (_, after) = rest.split_once("';").expect("hash");
    format!("{before}script-src 'unsafe-inline';{after}")
        .replace("</body>", &format!("<script>{script}</script></body>"))
}

#[test]
fn tables_are_sorted_and_filtered() {
    let Some(browser) = browser() else { return };
    let (_, document) = profiles().into_iter().find(|(name, _)| name == "segmenter").expect("profile");
    let page = html::render_profile(&document, None).expect("page");
    let script = r#"
(function () {
  var told = document.documentElement.dataset, table = document.getElementById("kernels-table");
  var first = function () { return table.tBodies[0].rows[0].cells[1].textContent; };
  var button = function (name) {
    return Array.from(table.querySelectorAll("button")).find(function (it) { return it.textContent === name; });
  };
  button("Time").click();
  told.slowest = first() + " " + button("Time").parentNode.getAttribute("aria-sort");
  button("Time").click();
  told.sorted = button("Time").parentNode.getAttribute("aria-sort") + " " + table.querySelectorAll("[aria-sort]").length;
  button("Kernel").click();
  told.named = first();
  var box = document.querySelector("[data-table=kernels-table]");
  var set = function (name, key, value) {
    var input = box.querySelector("[data-filter=" + name + "]");
    input[key] = value;
    input.dispatchEvent(new Event("input"));
  };
  set("outside", "checked", true);
  told.outside = box.querySelector("output").textContent;
  set("outside", "checked", false);
  set("category", "value", "DataMovement");
  told.moved = box.querySelector("output").textContent;
  set("text", "value", "TRANSPOSE");
  told.words = box.querySelector("output").textContent;
  button("Time").focus();
  told.focus = document.activeElement.textContent;
})();"#;
    let opened = open(&browser, &driven(&page, script));
    assert_eq!(opened.console, Vec::<String>::new());
    assert_eq!(opened.told("slowest"), Some("_softmax.out descending"));
    assert_eq!(opened.told("sorted"), Some("ascending 1"));
    assert_eq!(opened.told("named"), Some("_adaptive_avg_pool2d.out"));
    assert_eq!(opened.told("outside"), Some("4 of 44 shown"));
    assert_eq!(opened.told("moved"), Some("2 of 44 shown"));
    assert_eq!(opened.told("words"), Some("1 of 44 shown"));
    assert_eq!(opened.told("focus"), Some("Time"));
}

#[test]
fn this_test_can_see_trouble() {
    let Some(browser) = browser() else { return };
    let (_, report) = reports().swap_remove(0);
    let page = html::render(&report).expect("page");
    let wide = framed(&page.replace("<main>", "<main><div style=\"width:900px\">wide</div>"));
    let overflow = open(&browser, &wide).told("overflow").and_then(|pixels| pixels.parse::<u32>().ok());
    assert!(overflow.is_some_and(|pixels| pixels > 400), "{overflow:?}");
    let foreign = page.replace("<main>", "<main><script>document.title = 'owned'</script>");
    let opened = open(&browser, &foreign);
    assert!(!opened.dom.contains("<title>owned</title>"), "the policy stops a foreign script");
    assert!(!opened.console.is_empty(), "and the console says so");
}
