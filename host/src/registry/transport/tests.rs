//! Folders with everything that is no regular file, and hosts that misbehave.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;

use super::*;

fn folder() -> (tempfile::TempDir, Source) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let source = Source::open(&Place::Folder(folder.path().to_path_buf()), false, Patience::default());
    (folder, source)
}

fn plain(error: &Error, folder: &Path) -> String {
    error.to_string().replace(&folder.display().to_string(), "F")
}

#[test]
fn places_are_folders_and_safe_urls() {
    let parse = |text: &str| Place::parse(text, Path::new("/base"));
    assert_eq!(parse("rules").expect("folder"), Place::Folder("/base/rules".into()));
    assert_eq!(parse("file:///x/y").expect("file"), Place::Folder("/x/y".into()));
    assert_eq!(parse("https://a.example/r").expect("host"), Place::Url("https://a.example/r/".into()));
    assert_eq!(parse("http://127.0.0.1:8000").expect("loopback"), Place::Url("http://127.0.0.1:8000/".into()));
    assert!(parse("http://[::1]:8000/").is_ok() && parse("http://localhost/").is_ok());
    for (bad, why) in [
        ("http://example.org/", "read and changed on its way"),
        ("http://127.0.0.1.example.org/", "read and changed on its way"),
        ("ftp://example.org/", "none of `https`"),
        ("https://user@example.org/", "cannot have a user"),
        ("https://example.org/?x=1", "cannot have a user, a query"),
        ("https:///x", "no valid URL"),
        ("file://host/x", "three slashes"),
        ("", "empty"),
        ("a\u{1b}[31m", "control characters"),
    ] {
        let error = parse(bad).expect_err(bad).to_string();
        assert!(error.contains(why), "{bad}: {error}");
    }
}

#[test]
fn a_folder_gives_regular_files_below_it_and_nothing_else() {
    let (folder, source) = folder();
    let path = folder.path();
    std::fs::create_dir(path.join("metadata")).expect("folder");
    fs_err::write(path.join("metadata/a.json"), b"1234").expect("file");
    fs_err::write(path.join("secret"), b"x").expect("file");
    symlink("/etc/passwd", path.join("metadata/link")).expect("link");
    symlink("/etc", path.join("etc")).expect("link");
    symlink("/dev/zero", path.join("metadata/zero")).expect("link");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path.join("metadata/pipe"),
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .expect("pipe");
    assert_eq!(source.get("metadata/a.json", 4).expect("file").as_deref(), Some(b"1234".as_slice()));
    assert_eq!(source.fetched(), 4);
    assert_eq!(source.get("metadata/b.json", 4).expect("nothing"), None);
    assert_eq!(source.get("targets/b.json", 4).expect("nothing"), None);
    assert_eq!(
        plain(&source.get("metadata/a.json", 3).expect_err("large"), path),
        "`metadata/a.json` of the registry at `F` has more than the 3 bytes that are allowed"
    );
    for bad in [
        "metadata/link",
        "metadata/zero",
        "metadata/pipe",
        "metadata",
        "etc/passwd",
        "metadata/../secret",
        "../x",
        "/etc/passwd",
        "metadata//a.json",
        "./secret",
        "secret/x",
    ] {
        let error = source.get(bad, 1000).expect_err(bad);
        assert_eq!(plain(&error, path), format!("`{bad}` of the registry at `F` is no regular file"));
    }
    drop(folder);
    assert!(matches!(source.get("secret", 10), Err(Error::NoFolder { .. })));
}

/// A host on this machine that answers each request with what `answer` says about its path.
fn host(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let url = format!("http://{}/", listener.local_addr().expect("address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.extend(byte);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            answer(head.split(' ').nth(1).unwrap_or_default(), &mut stream);
        }
    });
    url
}

fn ask(url: &str, path: &str) -> Result<Option<Vec<u8>>, Error> {
    let patience = Patience {
        connect: Duration::from_secs(5),
        total: Duration::from_secs(5),
        least_rate: 1_000_000,
        grace: Duration::from_millis(300),
    };
    Source::open(&Place::Url(url.to_owned()), false, patience).get(path, 1000)
}

#[test]
fn a_host_that_misbehaves_gets_a_clear_error() {
    let url = host(|path, stream| {
        let reply = match path {
            "/good" | "/moved-here" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_owned(),
            "/moved" => "HTTP/1.1 302 Found\r\nLocation: /moved-here\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                .to_owned(),
            "/away" => {
                "HTTP/1.1 302 Found\r\nLocation: https://evil.example/x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    .to_owned()
            }
            "/local" => {
                "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    .to_owned()
            }
            "/round" => {
                "HTTP/1.1 302 Found\r\nLocation: /round\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
            }
            "/broken" => "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
            "/announced" => {
                "HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\nConnection: close\r\n\r\nxx".to_owned()
            }
            "/endless" => {
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "x".repeat(5000))
            }
            "/torn" => "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf".to_owned(),
            "/slow" => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\nConnection: close\r\n\r\n");
                for _ in 0..900 {
                    if stream.write_all(b"x").and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                return;
            }
            _ => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
        };
        let _ = stream.write_all(reply.as_bytes());
    });
    assert_eq!(ask(&url, "good").expect("good").as_deref(), Some(b"ok".as_slice()));
    assert_eq!(ask(&url, "moved").expect("same host").as_deref(), Some(b"ok".as_slice()));
    assert_eq!(ask(&url, "none").expect("nothing"), None);
    let said = |path: &str| ask(&url, path).expect_err(path).to_string().replace(&url, "U");
    assert_eq!(said("away"), "`U` redirects `away` to `https://evil.example/x`, which is another host");
    assert_eq!(said("local"), "`U` redirects `local` to `file:///etc/passwd`, which is another host");
    assert_eq!(said("round"), "Failed to get `round` from `U`: it redirects too often");
    assert_eq!(said("broken"), "Failed to get `broken` from `U`: the answer has status 500");
    for large in ["announced", "endless"] {
        assert_eq!(
            said(large),
            format!("`{large}` of the registry at `U` has more than the 1000 bytes that are allowed")
        );
    }
    assert!(said("torn").starts_with("Failed to get `torn` from `U`: "));
    assert_eq!(said("slow"), "`U` sends `slow` at less than 1000000 bytes a second");
    let offline = Source::open(&Place::Url(url), true, Patience::default());
    assert!(matches!(offline.get("good", 10), Err(Error::Offline { .. })));
}

#[test]
fn a_redirect_stays_on_its_host() {
    let from = "https://a.example:8443/x/y";
    assert_eq!(same_host(from, "/z").as_deref(), Some("https://a.example:8443/z"));
    assert_eq!(same_host(from, "https://a.example:8443/z").as_deref(), Some("https://a.example:8443/z"));
    for other in
        ["https://a.example/z", "http://a.example:8443/z", "https://b.example:8443/z", "//b.example/z", "", "file:///z"]
    {
        assert_eq!(same_host(from, other), None, "{other}");
    }
}

#[test]
fn a_packed_answer_is_unpacked_and_limited_in_both_forms() {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    let packed = |bytes: &[u8]| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(bytes).expect("packed");
        packer.finish().expect("packed")
    };
    let url = host(move |path, stream| {
        let (encoding, body) = match path {
            "/good" => ("gzip", packed(&[b'x'; 900])),
            "/bomb" => ("gzip", packed(&vec![0; 5 << 20])),
            "/long" => ("gzip", [packed(b"x"), vec![0; 200_000]].concat()),
            "/torn" => ("gzip", packed(&[b'x'; 900])[..20].to_vec()),
            "/plain" => ("gzip", b"not packed".to_vec()),
            _ => ("br", b"x".to_vec()),
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(&[head.into_bytes(), body].concat());
    });
    let source = Source::open(&Place::Url(url.clone()), false, Patience::default());
    assert_eq!(source.get("good", 1000).expect("good"), Some(vec![b'x'; 900]));
    assert!(source.fetched() < 100, "what came over the wire counts: {}", source.fetched());
    assert!(matches!(ask(&url, "long"), Ok(Some(bytes)) if bytes == b"x"), "what follows is not looked at");
    let said = |path: &str| ask(&url, path).expect_err(path).to_string().replace(&url, "U");
    assert_eq!(said("bomb"), "`bomb` of the registry at `U` has more than the 1000 bytes that are allowed");
    for broken in ["torn", "plain"] {
        assert!(said(broken).starts_with(&format!("Failed to get `{broken}` from `U`: ")), "{}", said(broken));
    }
    assert_eq!(said("other"), "Failed to get `other` from `U`: the answer is packed in a way that was not asked for");
}

#[test]
fn what_a_host_forbids_is_not_called_missing() {
    let url = host(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    let error = ask(&url, "metadata/timestamp.json").expect_err("forbidden");
    assert_eq!(error.to_string(), format!("`{url}` forbids to get `metadata/timestamp.json`"));
}

#[test]
fn a_blank_in_a_file_url_may_be_escaped() {
    let parse = |text: &str| Place::parse(text, Path::new("/base"));
    assert_eq!(parse("file:///my%20rules/a%C3%A4").expect("file"), Place::Folder("/my rules/aä".into()));
    for bad in ["file:///a%2", "file:///a%zz"] {
        assert!(parse(bad).expect_err(bad).to_string().contains("an escape in it is none"), "{bad}");
    }
}
