//! The head of a request, read within limits.

use std::io::{self, Read};
use std::time::Instant;

use super::answer::Answer;
use crate::interrupt;

/// Bytes of a request's head.
const MOST_BYTES: usize = 8 << 10;
/// Lines of it.
const MOST_HEADERS: usize = 64;

/// What somebody wants to see.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// as it was sent, without the query: `/runs/unet-1/`
    pub(super) path: String,
    /// `HEAD`
    pub(super) head_only: bool,
}

/// Reads a request for a server on this port; none when nobody is left to answer.
pub(super) fn read(stream: &mut impl Read, port: u16, deadline: Instant) -> Result<Option<Request>, Answer> {
    let mut head = Vec::new();
    let mut piece = [0_u8; 1024];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(read) => head.extend_from_slice(piece.get(..read).unwrap_or_default()),
            Err(error) if waits(&error) => {}
            Err(_) => return Ok(None),
        }
        if interrupt::requested() {
            return Ok(None);
        }
        if let Some(request) = parse(&head, port)? {
            return Ok(Some(request));
        }
        if head.len() > MOST_BYTES {
            return Err(Answer::text(431, "The request is too large\n".to_owned()));
        }
        if Instant::now() >= deadline {
            return Err(Answer::text(408, "The request took too long\n".to_owned()));
        }
    }
}

/// True when there is nothing to do but to try again.
pub(super) fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// The request in these bytes; none when its end is missing.
fn parse(head: &[u8], port: u16) -> Result<Option<Request>, Answer> {
    let refused = |status, text: &str| Err(Answer::text(status, format!("{text}\n")));
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(length)) if length <= MOST_BYTES => {}
        Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
            return refused(431, "The request is too large");
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return refused(400, "This is no request that can be understood"),
    }
    let values = |name: &str| {
        let found = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value).collect::<Vec<&[u8]>>()
    };
    // Before anything else: a foreign page learns nothing, not even what there is.
    if !matches!(values("host").as_slice(), [host] if is_own_name(host, port)) {
        return refused(403, "This server answers only to 127.0.0.1, localhost and [::1] with its port");
    }
    let head_only = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Answer::wrong_method()),
    };
    let has_body = values("content-length").iter().any(|length| *length != b"0");
    if has_body || !values("transfer-encoding").is_empty() {
        return refused(413, "A request has no content here");
    }
    let target = parsed.path.unwrap_or_default();
    let path = target.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') {
        return refused(400, "The request names no path");
    }
    Ok(Some(Request { path: path.to_owned(), head_only }))
}

/// A name of this machine that no foreign server can have, with the port.
fn is_own_name(host: &[u8], port: u16) -> bool {
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| {
        host.eq_ignore_ascii_case(format!("{name}:{port}").as_bytes())
            // Browsers leave the usual port out.
            || (port == 80 && host.eq_ignore_ascii_case(name.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn sent(text: &str) -> Result<Option<Request>, u16> {
        let soon = Instant::now() + Duration::from_secs(5);
        read(&mut text.as_bytes(), 8421, soon).map_err(|answer| answer.status)
    }

    fn asked(line: &str, headers: &str) -> Result<Option<Request>, u16> {
        sent(&format!("{line} HTTP/1.1\r\n{headers}\r\n"))
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["127.0.0.1:8421", "localhost:8421", "LocalHost:8421", "[::1]:8421"] {
            let request = asked("GET /", &format!("Host: {host}\r\n")).expect(host).expect(host);
            assert_eq!(request, Request { path: "/".to_owned(), head_only: false }, "{host}");
        }
        for host in [
            "evil.example:8421",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost.evil.example:8421",
            "127.0.0.1:8421, x",
            "127.0.0.1:8421\r\nHost: evil.example:8421",
            "",
        ] {
            assert_eq!(asked("GET /", &format!("Host: {host}\r\n")), Err(403), "{host}");
        }
        assert_eq!(asked("GET /", ""), Err(403), "no name at all");
    }

    #[test]
    fn only_looking_is_allowed() {
        let own = "Host: localhost:8421\r\n";
        assert!(
            asked("HEAD /version?x=/../y", own).expect("fits").is_some_and(|it| it.head_only && it.path == "/version")
        );
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get"] {
            assert_eq!(asked(&format!("{method} /"), own), Err(405), "{method}");
        }
        assert_eq!(asked("GET http://localhost:8421/", own), Err(400));
        assert_eq!(asked("GET /", &format!("{own}Content-Length: 5\r\n")), Err(413));
        assert_eq!(asked("GET /", &format!("{own}Transfer-Encoding: chunked\r\n")), Err(413));
        assert_eq!(sent("nonsense\r\n\r\n"), Err(400));
        assert_eq!(sent("GET / HTTP/1.1\r\nHost: loc"), Ok(None), "went away in the middle");
    }

    #[test]
    fn a_request_has_limits() {
        assert_eq!(asked("GET /", &"a: b\r\n".repeat(MOST_HEADERS + 1)), Err(431));
        assert_eq!(asked(&format!("GET /{}", "x".repeat(MOST_BYTES)), "Host: localhost:8421\r\n"), Err(431));
        assert_eq!(sent(&format!("GET /{}", "x".repeat(2 * MOST_BYTES))), Err(431), "without an end");
        let late = read(&mut "GET / HT".as_bytes(), 8421, Instant::now()).map_err(|answer| answer.status);
        assert_eq!(late, Err(408));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse(&bytes, 8421);
        }
    }
}
