//! A registry on an `https://` host of this machine, with a certificate authority of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use dd_tests::{Ran, Sandbox};
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::world::*;

/// An authority and what it vouches for.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("key")).expect("authority")
}

/// Serves a folder over TLS as `localhost`; gives the URL.
fn serve(folder: PathBuf, authority: &CertifiedIssuer<'static, KeyPair>) -> String {
    let key = KeyPair::generate().expect("key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, authority).expect("certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let secret = PrivateKeyDer::try_from(key.serialize_der()).expect("key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], secret)
        .expect("certificate and key belong together");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let url = format!("https://localhost:{}/", listener.local_addr().expect("address").port());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let (folder, config) = (folder.clone(), config.clone());
            std::thread::spawn(move || {
                let connection = ServerConnection::new(config).expect("connection");
                let mut stream = StreamOwned::new(connection, stream);
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") {
                    // Who does not believe the certificate hangs up.
                    if !stream.read(&mut byte).is_ok_and(|read| read == 1) {
                        return;
                    }
                    head.extend(byte);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
                let reply = match fs_err::read(folder.join(path)) {
                    Ok(bytes) => {
                        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ";
                        let mut reply = format!("{head}{}\r\n\r\n", bytes.len()).into_bytes();
                        reply.extend(bytes);
                        reply
                    }
                    Err(_) => b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec(),
                };
                let _ = stream.write_all(&reply);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    url
}

#[test]
fn rules_come_from_a_host_whose_certificate_is_good_and_from_no_other() {
    let world = World::at(Timestamp::now());
    world.release("acme/fix-boot", "1.0.0", b"first");
    let (authority, stranger) = (authority(), authority());
    let url = serve(world.path(), &authority);
    let sandbox = Sandbox::new();
    sandbox.write("dd-rules.toml", "[rules]\n");
    sandbox.write("authority.pem", authority.pem());
    sandbox.write("stranger.pem", stranger.pem());
    sandbox.write("nothing.pem", "no certificate");
    let run = |file: Option<&str>, arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        match file {
            Some(file) => command.env("SSL_CERT_FILE", sandbox.work().join(file)),
            None => command.env_remove("SSL_CERT_FILE"),
        };
        Ran::of(command)
    };
    let root = world.known().root.sha256;
    let add = ["registry", "add", NAME, &url, "--root-sha256", &root];
    for (file, why) in [
        (None, "invalid peer certificate"),
        (Some("stranger.pem"), "invalid peer certificate"),
        (Some("nothing.pem"), "(SSL_CERT_FILE) cannot be used: there is none in it"),
        (Some("missing.pem"), "(SSL_CERT_FILE) cannot be used: "),
    ] {
        let ran = run(file, &add);
        let expected = format!("error: Failed to get `metadata/1.root.json` from `{url}`: ");
        assert!(
            ran.code() == 2 && ran.stderr.starts_with(&expected) && ran.stderr.contains(why),
            "{file:?}: {}",
            ran.stderr
        );
    }
    let good = Some("authority.pem");
    run(good, &add).good();
    let print = key(ACME).public().fingerprint();
    run(good, &["rules", "install", "community:acme/fix-boot", "--trust", &print]).good();
    world.release("acme/fix-boot", "1.1.0", b"second");
    let ran = run(None, &["rules", "update"]);
    assert!(ran.code() == 2 && ran.stderr.contains("invalid peer certificate"), "{}", ran.stderr);
    let ran = run(good, &["rules", "update"]).good();
    assert_eq!(ran.stdout, "~ acme/fix-boot 1.0.0 → 1.1.0  from community\n");
    // What is installed needs neither the host nor its certificate.
    run(None, &["rules", "verify", "--offline"]).good();
}
