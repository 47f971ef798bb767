//! Bytes from where a registry lies: a folder, an `https://` host, or the binary itself.
//!
//! In: a path below the registry and the most bytes that it may have. Out: the bytes, or nothing when there is
//! no such file. Whoever answers is not trusted: an answer has a limit in bytes, packed and unpacked, and in time, a folder
//! gives regular files only and follows no link, a host cannot redirect to another one.

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use rustix::fs::{Mode, OFlags};
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use crate::hint::Hint;
use crate::interrupt;

/// Redirects within one host that are followed.
const MOST_REDIRECTS: usize = 3;
/// Bytes by which a packed file may be larger than the file.
const PACKING: u64 = 64 << 10;

/// Why a file of a registry cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the place is written in a way that is not understood
    #[error("`{place}` is no place for a registry: {why}")]
    Place {
        /// as typed
        place: String,
        /// what is wrong
        why: &'static str,
    },
    /// the folder of the registry is missing
    #[error("There is no registry in `{place}`: the folder cannot be opened")]
    NoFolder {
        /// folder
        place: String,
        /// why
        #[source]
        source: io::Error,
    },
    /// a file cannot be read
    #[error("Failed to read `{file}` of the registry at `{place}`")]
    Read {
        /// folder or URL
        place: String,
        /// path below it
        file: String,
        /// why
        #[source]
        source: io::Error,
    },
    /// a link, a folder, a pipe, a device
    #[error("`{file}` of the registry at `{place}` is no regular file")]
    NoFile {
        /// folder
        place: String,
        /// path below it
        file: String,
    },
    /// more bytes than there may be
    #[error("`{file}` of the registry at `{place}` has more than the {most} bytes that are allowed")]
    TooLarge {
        /// folder or URL
        place: String,
        /// path below it
        file: String,
        /// the limit
        most: u64,
    },
    /// the host cannot be reached or breaks off
    #[error("Failed to get `{file}` from `{place}`: {why}")]
    Network {
        /// URL
        place: String,
        /// path below it
        file: String,
        /// what happened
        why: String,
    },
    /// the host sends bytes, but hardly any
    #[error("`{place}` sends `{file}` at less than {least} bytes a second")]
    Slow {
        /// URL
        place: String,
        /// path below it
        file: String,
        /// the lowest rate allowed
        least: u64,
    },
    /// the host wants another one asked
    #[error("`{place}` redirects `{file}` to `{to}`, which is another host")]
    Redirected {
        /// URL
        place: String,
        /// path below it
        file: String,
        /// where it points
        to: String,
    },
    /// the host does not give it
    #[error("`{place}` forbids to get `{file}`")]
    Forbidden {
        /// URL
        place: String,
        /// path below it
        file: String,
    },
    /// the network is not to be used
    #[error("`{file}` of the registry at `{place}` is needed, and `--offline` forbids to get it")]
    Offline {
        /// URL
        place: String,
        /// path below it
        file: String,
    },
    /// the user stopped the tool
    #[error("Interrupted")]
    Interrupted,
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Place { .. } => {
                "Give a folder, a `file://` URL or an `https://` URL; `http://` works for this machine only".to_owned()
            }
            Self::NoFolder { .. } => "`delegate-doctor registry list` shows where registries are expected".to_owned(),
            Self::Network { .. } | Self::Slow { .. } => {
                "Try again later, or work with what is installed by `--offline`".to_owned()
            }
            Self::Redirected { .. } => "Ask the maintainers of the registry whether it has moved; where to must come \
                from them, not from the host"
                .to_owned(),
            Self::Forbidden { .. } => {
                "The host may want a login, which registries do not use; tell the maintainers of the registry"
                    .to_owned()
            }
            Self::Offline { .. } => "Run the command once without `--offline`".to_owned(),
            _ => return None,
        })
    }
}

/// Where a registry lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// a folder of this machine
    Folder(PathBuf),
    /// a static host; it ends in `/`
    Url(String),
    /// the binary itself
    Embedded,
}

impl Place {
    /// Reads what a user typed or a file holds; a relative folder is below `base`.
    ///
    /// # Errors
    /// When it is a URL of another kind.
    pub fn parse(text: &str, base: &Path) -> Result<Self, Error> {
        let wrong = |why| Error::Place { place: text.to_owned(), why };
        if text.is_empty() || text.contains(char::is_control) {
            return Err(wrong("it is empty or has control characters"));
        }
        if let Some(path) = text.strip_prefix("file://") {
            return match path.strip_prefix('/') {
                Some(_) => unescaped(path).map(Self::Folder).ok_or_else(|| wrong("an escape in it is none")),
                None => Err(wrong("a `file://` URL has three slashes and an absolute path")),
            };
        }
        if let Some((scheme, _)) = text.split_once("://") {
            let uri: Uri = text.parse().map_err(|_| wrong("it is no valid URL"))?;
            let host = uri.host().unwrap_or_default();
            if host.is_empty() || text.contains(['@', '#', '?']) {
                return Err(wrong("the URL needs a host, and cannot have a user, a query or a fragment"));
            }
            match scheme {
                "https" => {}
                "http" if is_loopback(host) => {}
                "http" => return Err(wrong("`http://` can be read and changed on its way")),
                _ => return Err(wrong("the scheme is none of `https`, `file` and `http`")),
            }
            let slash = if text.ends_with('/') { "" } else { "/" };
            return Ok(Self::Url(format!("{text}{slash}")));
        }
        Ok(Self::Folder(base.join(text)))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(url),
            Self::Embedded => f.write_str("bundled"),
        }
    }
}

/// The path of a `file://` URL, in which `%20` stands for a blank.
fn unescaped(path: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let mut parts = path.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.extend(hex::decode(digits).ok().filter(|decoded| !decoded.contains(&0))?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// until the connection stands
    pub connect: Duration,
    /// until the whole file is there
    pub total: Duration,
    /// bytes a second that must come after [`Patience::grace`]
    pub least_rate: u64,
    /// time after which the rate is looked at
    pub grace: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            total: Duration::from_secs(60),
            least_rate: 1024,
            grace: Duration::from_secs(10),
        }
    }
}

/// Files of a registry, from wherever it lies.
#[derive(Debug)]
pub struct Source {
    place: Place,
    kind: Kind,
    fetched: AtomicU64,
}

#[derive(Debug)]
enum Kind {
    Folder(PathBuf),
    Host {
        agent: Box<ureq::Agent>,
        patience: Patience,
    },
    Embedded(&'static [(&'static str, &'static [u8])]),
    /// a host that is not to be asked
    Offline,
    /// a host whose certificate could not be judged, and why
    Unbelieved(String),
}

impl Source {
    /// Opens a place; nothing is read yet. With `offline`, no host is asked, folders still are.
    pub fn open(place: &Place, offline: bool, patience: Patience) -> Self {
        let kind = match place {
            Place::Folder(path) => Kind::Folder(path.clone()),
            Place::Url(_) if offline => Kind::Offline,
            Place::Url(url) => match authorities() {
                Ok(authorities) => Kind::Host { agent: Box::new(agent(url, patience, authorities)), patience },
                Err(why) => Kind::Unbelieved(why),
            },
            Place::Embedded => Kind::Embedded(&[]),
        };
        Self { place: place.clone(), kind, fetched: AtomicU64::new(0) }
    }

    /// The files that the binary carries: paths below the registry and their bytes.
    pub fn embedded(files: &'static [(&'static str, &'static [u8])]) -> Self {
        Self { place: Place::Embedded, kind: Kind::Embedded(files), fetched: AtomicU64::new(0) }
    }

    /// Where it lies.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// True when it lies on a host that is not to be asked.
    pub fn is_silent(&self) -> bool {
        matches!(self.kind, Kind::Offline)
    }

    /// Bytes of all files that were got so far, as they came over the wire.
    pub fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// The file at `path`, parts separated by `/`; none when there is no such file.
    ///
    /// # Errors
    /// When it has more than `most` bytes, is no regular file, or cannot be got in time.
    pub fn get(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>, Error> {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let (place, file) = (self.place.to_string(), path.to_owned());
        let bytes = match &self.kind {
            Kind::Folder(folder) => read_below(folder, path, most, &place)?,
            Kind::Host { agent, patience } => {
                let got = download(agent, &place, path, most, *patience)?;
                return Ok(got.map(|got| {
                    self.fetched.fetch_add(got.sent, Ordering::Relaxed);
                    got.bytes
                }));
            }
            Kind::Embedded(files) => {
                let found = files.iter().find(|(name, _)| *name == path).map(|(_, bytes)| bytes.to_vec());
                if found.as_ref().is_some_and(|bytes| bytes.len() as u64 > most) {
                    return Err(Error::TooLarge { place, file, most });
                }
                found
            }
            Kind::Offline => return Err(Error::Offline { place, file }),
            Kind::Unbelieved(why) => return Err(Error::Network { place, file, why: why.clone() }),
        };
        if let Some(bytes) = &bytes {
            self.fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(bytes)
    }
}

/// Opens the file part by part, so that no link leads out of the folder.
fn read_below(folder: &Path, path: &str, most: u64, place: &str) -> Result<Option<Vec<u8>>, Error> {
    let (place, file) = (place.to_owned(), path.to_owned());
    let read = |source: io::Error| Error::Read { place: place.clone(), file: file.clone(), source };
    let mut parts: Vec<&str> = path.split('/').collect();
    if parts.iter().any(|part| part.is_empty() || *part == "." || *part == ".." || part.contains('\0')) {
        return Err(Error::NoFile { place, file });
    }
    let Some(name) = parts.pop() else { return Err(Error::NoFile { place, file }) };
    let into = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = rustix::fs::open(folder, into, Mode::empty())
        .map_err(|error| Error::NoFolder { place: place.clone(), source: error.into() })?;
    for part in parts {
        here = match rustix::fs::openat(&here, part, into | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(next) => next,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => return Err(Error::NoFile { place, file }),
            Err(error) => return Err(read(error.into())),
        };
    }
    // A pipe would otherwise keep the process waiting for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let open = match rustix::fs::openat(&here, name, flags, Mode::empty()) {
        Ok(open) => File::from(open),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(Error::NoFile { place, file }),
        Err(error) => return Err(read(error.into())),
    };
    let metadata = open.metadata().map_err(read)?;
    if !metadata.is_file() {
        return Err(Error::NoFile { place, file });
    }
    let mut bytes = Vec::new();
    open.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > most {
        return Err(Error::TooLarge { place, file, most });
    }
    Ok(Some(bytes))
}

/// Environment variable that names a file with the certificates of authorities to believe, in PEM, instead of those
/// that come with the tool.
pub const AUTHORITIES: &str = "SSL_CERT_FILE";
/// Most bytes of that file.
const MOST_AUTHORITIES: u64 = 4 << 20;

/// The authorities that the user names instead of those that come with the tool; none when none are named.
fn authorities() -> Result<Option<Vec<Certificate<'static>>>, String> {
    let Some(path) = std::env::var_os(AUTHORITIES).filter(|path| !path.is_empty()) else { return Ok(None) };
    let path = PathBuf::from(path);
    let wrong = |why: String| format!("the certificates in `{}` ({AUTHORITIES}) cannot be used: {why}", path.display());
    let bytes = crate::files::read_regular(&path, MOST_AUTHORITIES).map_err(|error| wrong(error.to_string()))?;
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(&bytes) {
        match item.map_err(|error| wrong(error.to_string()))? {
            PemItem::Certificate(certificate) => found.push(certificate),
            _ => return Err(wrong("there is something else than certificates in it".to_owned())),
        }
    }
    if found.is_empty() { Err(wrong("there is none in it".to_owned())) } else { Ok(Some(found)) }
}

fn agent(url: &str, patience: Patience, authorities: Option<Vec<Certificate<'static>>>) -> ureq::Agent {
    let mut config = ureq::Agent::config_builder()
        .timeout_connect(Some(patience.connect))
        .timeout_resolve(Some(patience.connect))
        .timeout_global(Some(patience.total))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(64 << 10)
        .https_only(url.starts_with("https://"))
        .user_agent(concat!("delegate-doctor/", env!("CARGO_PKG_VERSION")));
    if let Some(authorities) = authorities {
        let roots = RootCerts::Specific(Arc::new(authorities));
        config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
    }
    if url.starts_with("http://") {
        // This machine is asked without a proxy.
        config = config.proxy(None);
    }
    config.build().new_agent()
}

/// A file, and how many bytes were sent for it.
struct Got {
    bytes: Vec<u8>,
    sent: u64,
}

/// Counts what is read, and ends with an error beyond a limit.
struct Metered<R> {
    reader: R,
    sent: u64,
    most: u64,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(piece)?;
        self.sent = self.sent.saturating_add(read as u64);
        if self.sent > self.most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "more bytes than are allowed"));
        }
        Ok(read)
    }
}

/// A body as it was sent, or unpacked while it arrives.
enum Body<R: Read> {
    Plain(Metered<R>),
    Gzip(Box<GzDecoder<Metered<R>>>),
}

impl<R: Read> Body<R> {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(piece),
            Self::Gzip(reader) => reader.read(piece),
        }
    }

    fn sent(&self) -> u64 {
        match self {
            Self::Plain(reader) => reader.sent,
            Self::Gzip(reader) => reader.get_ref().sent,
        }
    }
}

fn ask(agent: &ureq::Agent, url: &str) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
    agent.get(url).header("accept-encoding", "gzip").call()
}

fn download(agent: &ureq::Agent, base: &str, path: &str, most: u64, patience: Patience) -> Result<Option<Got>, Error> {
    let (place, file) = (base.to_owned(), path.to_owned());
    let network = |why: String| Error::Network { place: place.clone(), file: file.clone(), why };
    let mut url = format!("{base}{path}");
    let begun = Instant::now();
    let mut response = ask(agent, &url).map_err(|error| network(words(&error)))?;
    for hop in 0.. {
        if !response.status().is_redirection() {
            break;
        }
        let to = response.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or_default();
        let next = same_host(&url, to).ok_or_else(|| Error::Redirected {
            place: place.clone(),
            file: file.clone(),
            to: to.chars().filter(|c| !c.is_control()).take(200).collect(),
        })?;
        if hop == MOST_REDIRECTS {
            return Err(network("it redirects too often".to_owned()));
        }
        url = next;
        response = ask(agent, &url).map_err(|error| network(words(&error)))?;
    }
    match response.status().as_u16() {
        200 => {}
        401 | 403 => return Err(Error::Forbidden { place, file }),
        404 | 410 => return Ok(None),
        status => return Err(network(format!("the answer has status {status}"))),
    }
    let too_large = || Error::TooLarge { place: place.clone(), file: file.clone(), most };
    let encoding = response.headers().get("content-encoding").map(|value| value.as_bytes().to_ascii_lowercase());
    let body = response.body_mut();
    if body.content_length().is_some_and(|length| length > most) {
        return Err(too_large());
    }
    // What is packed may be a little larger than what is in it; the limit is on both.
    let metered = Metered { reader: body.as_reader(), sent: 0, most: most.saturating_add(PACKING) };
    let mut reader = match encoding.as_deref() {
        None | Some(b"" | b"identity") => Body::Plain(metered),
        Some(b"gzip" | b"x-gzip") => Body::Gzip(Box::new(GzDecoder::new(metered))),
        Some(_) => return Err(network("the answer is packed in a way that was not asked for".to_owned())),
    };
    let mut bytes = Vec::new();
    let mut piece = vec![0_u8; 16 << 10];
    loop {
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        let read = reader.read(&mut piece).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => too_large(),
            _ => network(error.to_string()),
        })?;
        if read == 0 {
            return Ok(Some(Got { bytes, sent: reader.sent() }));
        }
        bytes.extend_from_slice(piece.get(..read).unwrap_or_default());
        if bytes.len() as u64 > most {
            return Err(too_large());
        }
        let taken = begun.elapsed();
        if taken > patience.grace && (bytes.len() as u128) * 1000 < u128::from(patience.least_rate) * taken.as_millis()
        {
            return Err(Error::Slow { place, file, least: patience.least_rate });
        }
    }
}

/// What went wrong, without the URL, which the error names.
fn words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "the host is not known".to_owned(),
        ureq::Error::Timeout(_) => "it takes too long".to_owned(),
        ureq::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// The target of a redirect when it stays on scheme, host and port.
fn same_host(from: &str, to: &str) -> Option<String> {
    let from: Uri = from.parse().ok()?;
    if to.starts_with('/') && !to.starts_with("//") {
        return Some(format!("{}://{}{to}", from.scheme()?, from.authority()?));
    }
    let uri: Uri = to.parse().ok()?;
    (uri.scheme()? == from.scheme()? && uri.authority()? == from.authority()?).then(|| to.to_owned())
}

#[cfg(test)]
mod tests;
