//! A folder of runs in a browser on this machine: the history, and the page of each run.
//!
//! In: a folder and a listening socket. Out: pages, made when they are asked for, until the user stops it. It
//! listens on 127.0.0.1 only, answers GET and HEAD only, and only those who call it by a name of this machine, so
//! that a foreign page cannot read it through a name of its own. What a request names is looked up in the list of
//! runs; no part of it becomes the name of a file.

mod answer;
mod request;
mod runs;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use self::answer::Answer;
use self::request::Request;
use self::runs::{Folder, Kind, Run};
use crate::hint::Hint;
use crate::interrupt;
use crate::report::html::{self, Delivery, RunList};

/// Connections that are answered at the same time; a browser has six.
const CONNECTIONS: usize = 32;
/// A request must be there, and its answer taken, in this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for a connection, or for the user's wish to stop.
const LOOK: Duration = Duration::from_millis(25);

/// Why runs cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// somebody else listens there
    #[error("Port {0} of 127.0.0.1 is taken")]
    PortTaken(u16),
    /// no listening socket
    #[error("Failed to listen on port {port} of 127.0.0.1")]
    Listen {
        /// as asked
        port: u16,
        /// what the system says
        #[source]
        source: io::Error,
    },
    /// nothing to show
    #[error("Failed to read the folder `{path}`")]
    Folder {
        /// as asked
        path: PathBuf,
        /// what the system says
        #[source]
        source: io::Error,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::PortTaken(_) => "Choose another one with `--port`, or leave that out for a free one",
            Self::Listen { .. } => "Choose a port above 1023 with `--port`, or leave that out for a free one",
            Self::Folder { .. } => "Give a run folder, or a folder of run folders such as `delegate-doctor-runs`",
        };
        Some(advice.to_owned())
    }
}

/// A server that is ready to answer.
#[derive(Debug)]
pub struct Dashboard {
    listener: TcpListener,
    address: SocketAddr,
    folder: Folder,
}

impl Dashboard {
    /// Listens on a port of 127.0.0.1, 0 for a free one, for those who want to see the runs in `folder`.
    ///
    /// # Errors
    /// When there is no such folder, or the port cannot be had.
    pub fn open(folder: &Path, port: u16) -> Result<Self, Error> {
        let failed = |source| Error::Folder { path: folder.to_path_buf(), source };
        let folder = Folder::open(folder).map_err(failed)?;
        let listen = || -> io::Result<(TcpListener, SocketAddr)> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => Error::PortTaken(port),
            _ => Error::Listen { port, source },
        })?;
        Ok(Self { listener, address, folder })
    }

    /// What a browser is given: `http://127.0.0.1:8421/`.
    pub fn address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers until the user stops the process.
    pub fn serve(&self) {
        let open = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            while !interrupt::requested() {
                let Ok((stream, _)) = self.listener.accept() else {
                    // Nobody is there, or went away again, or there is no handle left for them.
                    std::thread::sleep(LOOK);
                    continue;
                };
                if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                    open.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let open = &open;
                let started = std::thread::Builder::new().name("request".to_owned()).spawn_scoped(scope, move || {
                    self.answer(stream);
                    open.fetch_sub(1, Ordering::Relaxed);
                });
                if started.is_err() {
                    open.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
    }

    fn answer(&self, mut stream: TcpStream) {
        let ready = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(LOOK)));
        if ready.and_then(|()| stream.set_write_timeout(Some(LOOK))).is_err() {
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        let (answer, head_only) = match request::read(&mut stream, self.address.port(), deadline) {
            Ok(Some(request)) => (self.page(&request), request.head_only),
            Ok(None) => return,
            Err(refusal) => (refusal, false),
        };
        // Making the page is not the reader's fault.
        answer.send(&mut stream, head_only, Instant::now() + PATIENCE);
    }

    fn page(&self, request: &Request) -> Answer {
        let runs = self.folder.runs();
        let path = request.path.as_str();
        if path == "/version" {
            return Answer::text(200, runs::version(&runs));
        }
        if path == "/" {
            return self.index(&runs);
        }
        let Some(rest) = path.strip_prefix("/runs/") else { return Answer::not_found() };
        let (id, rest) = rest.split_once('/').map_or((rest, None), |(id, rest)| (id, Some(rest)));
        let Some(run) = runs.iter().find(|run| run.id == id) else { return Answer::not_found() };
        match rest {
            None => Answer::moved(&run.href()),
            Some("version") => Answer::text(200, runs::version(std::slice::from_ref(run))),
            Some("") => run_page(run),
            Some(_) => Answer::not_found(),
        }
    }

    fn index(&self, runs: &[Run]) -> Answer {
        let listed = runs.iter().map(|run| self.folder.listed(run)).collect();
        let list = RunList::new(self.folder.path().display().to_string(), listed);
        let version = runs::version(runs);
        page_or_failure(html::render_runs(&list, Delivery::Served { version: &version }).map_err(|error| told(&error)))
    }
}

fn run_page(run: &Run) -> Answer {
    // Before the files are read: what changes meanwhile is then seen as a change.
    let version = runs::version(std::slice::from_ref(run));
    let delivery = Delivery::Served { version: &version };
    let page = match run.kind {
        Kind::Optimize => {
            run.report().and_then(|report| html::render_for(&report, delivery).map_err(|error| told(&error)))
        }
        Kind::Profile => run.profile().and_then(|(document, spans)| {
            html::render_profile_for(&document, spans.as_deref(), delivery).map_err(|error| told(&error))
        }),
        Kind::Comparison => run
            .comparison()
            .and_then(|document| html::render_comparison_for(&document, delivery).map_err(|error| told(&error))),
        Kind::Unanswered => return Answer::text(404, "This run has no answer yet\n".to_owned()),
    };
    page_or_failure(page)
}

fn page_or_failure(page: Result<String, String>) -> Answer {
    match page {
        Ok(page) => Answer::page(page),
        Err(why) => Answer::text(500, format!("This page cannot be made: {why}\n")),
    }
}

/// An error with its causes, in one line.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
