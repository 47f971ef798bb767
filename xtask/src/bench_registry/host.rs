//! A static host on this machine, as a process of its own so that its work is not counted: it gives the files of
//! a folder, packed for whom that is good, as static hosts do.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Component, Path};
use std::process::{Child, Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::Outcome;

/// A host that runs until it is dropped.
pub(super) struct Host {
    child: Child,
    /// where it answers
    pub(super) url: String,
}

impl Host {
    /// Serves a folder.
    pub(super) fn of(folder: &Path) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "registry", "--serve"])
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut url)?;
        Ok(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers until it is killed.
pub(super) fn serve(folder: &Path) -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}/", listener.local_addr()?);
    for stream in listener.incoming() {
        // Who hangs up gets no answer.
        let _ = answer(&mut stream?, folder);
    }
    Ok(())
}

fn answer(stream: &mut TcpStream, folder: &Path) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read(&mut byte)? == 0 {
                return Ok(());
            }
            head.extend(byte);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let path = Path::new(head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/')).to_path_buf();
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let Some(bytes) = inside.then(|| fs_err::read(folder.join(&path)).ok()).flatten() else {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        };
        let mut encoding = "";
        let body = if head.contains("accept-encoding: gzip") {
            encoding = "content-encoding: gzip\r\n";
            let mut packer = GzEncoder::new(Vec::new(), Compression::new(6));
            packer.write_all(&bytes)?;
            packer.finish()?
        } else {
            bytes
        };
        write!(stream, "HTTP/1.1 200 OK\r\n{encoding}content-length: {}\r\n\r\n", body.len())?;
        stream.write_all(&body)?;
    }
}
