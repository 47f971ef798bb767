//! `report --serve`: pages of a folder of runs for browsers on this machine, and for nobody else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use dd_tests::{Sandbox, workspace};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; it is ended when the test ends.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let mut command = sandbox.command(["report", "--serve"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("address");
        let port = line.trim().strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix('/'));
        let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no address: {line:?}"));
        Self { child, port }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        stream
    }

    /// Status line, headers and body of what comes back for these bytes.
    fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("answer");
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("status");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port))
    }

    /// Presses Ctrl-C and returns the exit code.
    fn interrupt(mut self) -> Option<i32> {
        let process = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).expect("id")).expect("id");
        rustix::process::kill_process(process, rustix::process::Signal::INT).expect("signal");
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("server") {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "Ctrl-C does not end it");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn fixture(name: &str) -> Vec<u8> {
    fs_err::read(workspace().join("tests/fixtures").join(name)).expect("fixture")
}

/// A folder with a run of each kind.
fn runs(sandbox: &Sandbox) {
    sandbox.write("runs/unet-1/report.json", fixture("reports/v1/accepted.json"));
    sandbox.write("runs/unet-profile-1/profile.json", fixture("profiles/v1/segmenter.json"));
    sandbox.write("runs/bad #%2F/report.json", "{}");
    sandbox.write("runs/no run/notes.txt", "nothing");
    sandbox.write("secret.json", "secret");
}

#[test]
fn the_history_and_each_run_are_shown() {
    let sandbox = Sandbox::new();
    runs(&sandbox);
    let server = Server::start(&sandbox, &["runs"]);
    let index = server.get("/");
    assert_eq!(index.status, 200, "{}", index.head);
    for wanted in ["/runs/unet-1/", "/runs/unet-profile-1/", "repairs accepted", "46.0 % in delegates", "3 runs"] {
        assert!(index.body.contains(wanted), "{wanted}");
    }
    assert!(!index.body.contains("no run"), "a folder without a run");
    for header in ["text/html", "nosniff", "X-Frame-Options: DENY", "no-store", "frame-ancestors 'none'"] {
        assert!(index.head.contains(header), "{header}: {}", index.head);
    }
    let report = server.get("/runs/unet-1/");
    assert!(report.status == 200 && report.body.contains("PSPNet"), "{}", report.head);
    assert!(report.body.contains("connect-src 'self'"));
    let profile = server.get("/runs/unet-profile-1/");
    assert!(profile.status == 200 && profile.body.contains("Largest families"), "{}", profile.head);
    let head = server.send(&format!("HEAD / HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", server.port));
    assert!(head.status == 200 && head.body.is_empty() && head.head.contains("Content-Length: "), "{}", head.head);
    let moved = server.get("/runs/unet-1");
    assert!(moved.status == 308 && moved.head.contains("Location: /runs/unet-1/"), "{}", moved.head);
    let bad = server.get("/runs/bad%20%23%252F/");
    assert!(bad.status == 500 && bad.body.contains("not a Delegate Doctor report"), "{}", bad.body);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn one_run_folder_is_a_history_of_one() {
    let sandbox = Sandbox::new();
    runs(&sandbox);
    let server = Server::start(&sandbox, &["runs/unet-profile-1"]);
    assert!(server.get("/").body.contains("1 run<"));
    assert_eq!(server.get("/runs/unet-profile-1/").status, 200);
    assert_eq!(server.get("/runs/unet-1/").status, 404);
}

#[test]
fn nothing_outside_of_the_folder_is_reached() {
    let sandbox = Sandbox::new();
    runs(&sandbox);
    std::os::unix::fs::symlink(sandbox.work().join("runs/unet-1"), sandbox.work().join("runs/link")).expect("link");
    let server = Server::start(&sandbox, &["runs"]);
    for path in [
        "/nothing",
        "/favicon.ico",
        "/secret.json",
        "/../secret.json",
        "/runs/../secret.json",
        "/runs/../../secret.json",
        "/runs/%2e%2e/secret.json",
        "/runs/..%2fsecret.json",
        "/runs/unet-1/../../secret.json",
        "/runs/unet-1/report.json",
        "/runs/unet-1//",
        "/runs/unet%2d1/",
        "/runs/link/",
        "/runs/./",
        "/runs/",
        "//etc/passwd",
        "/runs/no%20run/",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
        assert!(!answer.body.contains("secret"), "{path}");
    }
}

#[test]
fn strangers_and_odd_requests_are_refused() {
    let sandbox = Sandbox::new();
    runs(&sandbox);
    let server = Server::start(&sandbox, &["runs"]);
    let port = server.port;
    let own = format!("Host: 127.0.0.1:{port}\r\n");
    let requests = [
        (403, format!("GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n")),
        (403, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_owned()),
        (403, "GET / HTTP/1.1\r\n\r\n".to_owned()),
        (403, format!("GET / HTTP/1.1\r\n{own}Host: evil.example\r\n\r\n")),
        (403, "GET /runs/unet-1/ HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned()),
        (405, format!("POST / HTTP/1.1\r\n{own}Content-Length: 3\r\n\r\nabc")),
        (405, format!("DELETE /runs/unet-1/ HTTP/1.1\r\n{own}\r\n")),
        (400, "\u{1}\u{2}\u{3}\r\n\r\n".to_owned()),
        (431, format!("GET / HTTP/1.1\r\n{own}X: {}\r\n\r\n", "x".repeat(100_000))),
    ];
    for (status, request) in requests {
        let answer = server.send(&request);
        assert_eq!(answer.status, status, "{:?}: {}", request.lines().next(), answer.body);
        assert!(!answer.body.contains("unet"), "a stranger learns nothing");
    }
    // Somebody who says nothing keeps nobody else waiting, and not the end either.
    let _silent: Vec<TcpStream> = (0..8).map(|_| server.connect()).collect();
    assert_eq!(server.get("/version").status, 200);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn the_version_changes_with_what_is_shown() {
    let sandbox = Sandbox::new();
    runs(&sandbox);
    let server = Server::start(&sandbox, &["runs"]);
    let page = server.get("/");
    let first = server.get("/version").body;
    assert!(page.body.contains(&format!("data-version=\"{first}\"")), "the page knows what it was made from");
    assert_eq!(server.get("/version?again").body, first);
    let of_run = server.get("/runs/unet-1/version").body;
    assert!(server.get("/runs/unet-1/").body.contains(&format!("data-version=\"{of_run}\"")));
    sandbox.write("runs/unet-2/report.json", fixture("reports/v1/rejected.json"));
    let second = server.get("/version").body;
    assert_ne!(second, first);
    assert!(server.get("/").body.contains("/runs/unet-2/"));
    assert_eq!(server.get("/runs/unet-1/version").body, of_run, "another run is nothing to this one");
    sandbox.write("runs/unet-1/report.json", fixture("reports/v1/nothing-to-do.json"));
    assert_ne!(server.get("/runs/unet-1/version").body, of_run);
    assert!(server.get("/").body.contains("no repair required"));
}

#[test]
fn what_cannot_be_served_is_told() {
    let sandbox = Sandbox::new();
    runs(&sandbox);
    let server = Server::start(&sandbox, &["runs"]);
    let port = server.port.to_string();
    let ran = sandbox.run(["report", "--serve", "runs", "--port", &port]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr.contains(&format!("Port {port} of 127.0.0.1 is taken")), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: Choose another one with `--port`"), "{}", ran.stderr);
    for folder in ["nothing", "secret.json"] {
        let ran = sandbox.run(["report", "--serve", folder]);
        assert_eq!(ran.code(), 2);
        assert!(ran.stderr.contains("Failed to read the folder") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
    for arguments in [&["report"][..], &["report", "x", "--port", "1"], &["report", "x", "--serve", "--open"]] {
        let ran = sandbox.run(arguments);
        assert!(ran.code() == 2 && ran.stderr.contains("Usage: "), "{arguments:?}: {}", ran.stderr);
    }
}
