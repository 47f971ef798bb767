//! What is sent back.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::request::waits;
use crate::interrupt;

/// In every answer: nothing is guessed, kept, framed, told on, or read by another page.
const ALWAYS: &str = "X-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\n\
    Content-Security-Policy: frame-ancestors 'none'\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Referrer-Policy: no-referrer\r\n\
    Cache-Control: no-store\r\n\
    Connection: close\r\n";

/// Bytes that are still taken from somebody who said too much, so that they read the answer.
const MOST_IGNORED: usize = 1 << 20;

/// An answer, ready to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    kind: &'static str,
    /// a line with its end, or nothing
    header: String,
    body: String,
}

impl Answer {
    /// A page.
    pub(super) fn page(body: String) -> Self {
        Self { status: 200, kind: "text/html; charset=utf-8", header: String::new(), body }
    }

    /// Plain text.
    pub(super) fn text(status: u16, body: String) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", header: String::new(), body }
    }

    /// Nothing is there.
    pub(super) fn not_found() -> Self {
        Self::text(404, "There is nothing here\n".to_owned())
    }

    /// The page is at this path, which has no character that needs care.
    pub(super) fn moved(path: &str) -> Self {
        let header = format!("Location: {path}\r\n");
        Self { header, ..Self::text(308, format!("The page is at {path}\n")) }
    }

    /// Only looking is allowed.
    pub(super) fn wrong_method() -> Self {
        let header = "Allow: GET, HEAD\r\n".to_owned();
        Self { header, ..Self::text(405, "Only GET and HEAD are answered\n".to_owned()) }
    }

    fn head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            308 => "Permanent Redirect",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            413 => "Content Too Large",
            431 => "Request Header Fields Too Large",
            _ => "Internal Server Error",
        };
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{ALWAYS}\r\n",
            self.status,
            self.kind,
            self.body.len(),
            self.header
        )
    }

    /// Sends it, as far as the reader takes it in time.
    pub(super) fn send(&self, stream: &mut TcpStream, head_only: bool, deadline: Instant) {
        let head = self.head();
        let body = if head_only { "" } else { &self.body };
        for bytes in [head.as_bytes(), body.as_bytes()] {
            if !write(stream, bytes, deadline) {
                return;
            }
        }
        // A connection that is closed with unread bytes takes the answer with it.
        let _ = stream.shutdown(Shutdown::Write);
        let mut ignored = 0;
        let mut piece = [0_u8; 4096];
        let soon = deadline.min(Instant::now() + Duration::from_millis(500));
        while ignored < MOST_IGNORED && Instant::now() < soon && !interrupt::requested() {
            match stream.read(&mut piece) {
                Ok(0) => return,
                Ok(read) => ignored += read,
                Err(error) if waits(&error) => {}
                Err(_) => return,
            }
        }
    }
}

/// False when the reader is gone or too slow.
fn write(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> bool {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return false,
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if waits(&error) => {}
            Err(_) => return false,
        }
        if interrupt::requested() || Instant::now() >= deadline {
            return bytes.is_empty();
        }
    }
    true
}
