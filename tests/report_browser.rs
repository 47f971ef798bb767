//! The report page in a real browser: its script runs, its policy blocks nothing of its own, and it fits
//! the width of a phone.
//!
//! Skipped, saying so, where there is no Chromium.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dd_tests::workspace;
use delegate_doctor::report::html;
use delegate_doctor::report::model::Report;

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
    let folder = workspace().join("tests/fixtures/reports/v1");
    let mut reports: Vec<_> = fs_err::read_dir(folder)
        .expect("fixtures")
        .map(|entry| {
            let path = entry.expect("entry").path();
            let name = path.file_stem().expect("name").to_string_lossy().into_owned();
            (name, Report::from_json(&fs_err::read(&path).expect("fixture")).expect("report"))
        })
        .collect();
    reports.sort_by(|(left, _), (right, _)| left.cmp(right));
    assert!(reports.len() >= 7, "the fixtures are there");
    reports
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
    for (name, report) in reports() {
        let page = html::render(&report).expect("page");
        // With everything unfolded, so that nothing too wide hides.
        let unfolded = framed(&page.replace("<details", "<details open"));
        for (place, document, width) in [("window", &page, "1200"), ("phone", &unfolded, "360")] {
            let opened = open(&browser, document);
            assert_eq!(opened.console, Vec::<String>::new(), "{name}, {place}");
            assert_eq!(opened.told("error"), None, "{name}, {place}");
            assert_eq!(opened.told("report"), Some("delegate-doctor/report 1"), "{name}, {place}: the script ran");
            assert_eq!(opened.told("width"), Some(width), "{name}, {place}");
            assert_eq!(opened.told("overflow"), Some("0"), "{name}, {place}: wider than the window");
            assert!(!opened.dom.contains("<title>owned</title>"), "{name}, {place}: a string became a script");
            assert_ne!(opened.told("title"), Some("owned"), "{name}, {place}: a string became a script");
        }
    }
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
