//! No private key lies in the repository, in any form that a key is written in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use dd_tests::workspace;
use delegate_doctor::registry::key::SigningKey;

/// What a PKCS#8 file of an Ed25519 key begins with, in DER (RFC 8410, section 7), with and without its public half.
const DER: [&[u8]; 2] = [
    &[0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20],
    &[0x30, 0x51, 0x02, 0x01, 0x01, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20],
];

/// Why a file's content looks like a private key. `public` are keys whose private half would be worst of all.
fn found(content: &[u8], public: &BTreeSet<String>) -> Option<String> {
    if DER.iter().any(|start| content.windows(start.len()).any(|window| window == *start)) {
        return Some("an Ed25519 key in DER".to_owned());
    }
    let text = String::from_utf8_lossy(content);
    // A marker in a program is no key; one with a line of Base64 below it is.
    let mut rest = text.as_ref();
    while let Some(at) = rest.find("PRIVATE KEY-----") {
        rest = &rest[at + "PRIVATE KEY-----".len()..];
        let body: String = rest.trim_start_matches("\\n").trim_start().chars().take(40).collect();
        if body.len() == 40 && body.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b)) {
            return Some("a private key in PEM".to_owned());
        }
    }
    // A seed in hex of a key that signs something here.
    let mut digits = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_hexdigit() {
            digits.push(c);
            continue;
        }
        let mut seed = [0_u8; 32];
        if digits.len() == 64 && hex::decode_to_slice(&digits, &mut seed).is_ok() {
            let key = SigningKey::from_seed(&seed).public().to_hex();
            if public.contains(&key) {
                return Some(format!("the seed of the key {key}"));
            }
        }
        digits.clear();
    }
    None
}

/// Every public key that a document of `registry/` names.
fn public_keys() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for entry in fs_err::read_dir(workspace().join("registry/metadata")).expect("the registry") {
        let text = fs_err::read_to_string(entry.expect("entry").path()).expect("metadata");
        let parts = text.split("\"public\":\"").skip(1);
        keys.extend(parts.filter_map(|part| part.get(..64)).map(str::to_owned));
    }
    keys
}

/// Files that are or would be committed.
fn files(folder: &Path) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(folder)
        .output()
        .expect("git lists the repository's files");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("names are UTF-8");
    names.split('\0').filter(|name| !name.is_empty()).map(|name| folder.join(name)).collect()
}

#[test]
fn no_private_key_is_in_the_repository() {
    let public = public_keys();
    assert!(public.len() >= 8, "the registry's keys are known: {public:?}");
    let files = files(workspace());
    assert!(files.len() > 300, "the repository was listed");
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        if let Some(what) = found(&fs_err::read(file).expect("read"), &public) {
            wrong.push(format!("`{}` holds {what}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_key_would_be_seen() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let key = SigningKey::generate().expect("key");
    let public = BTreeSet::from([key.public().to_hex(), SigningKey::from_seed(&[9; 32]).public().to_hex()]);
    for (name, passphrase) in [("plain.pem", None), ("locked.pem", Some("a phrase of several words"))] {
        let path = folder.path().join(name);
        key.write(&path, passphrase).expect("written");
        let content = fs_err::read(&path).expect("read");
        assert_eq!(found(&content, &public).as_deref(), Some("a private key in PEM"), "{name}");
        let escaped = String::from_utf8(content).expect("PEM").replace('\n', "\\n");
        assert_eq!(found(format!("KEY = \"{escaped}\"").as_bytes(), &public).as_deref(), Some("a private key in PEM"));
    }
    let mut der = b"\x00x".to_vec();
    der.extend_from_slice(DER[0]);
    der.extend_from_slice(&[7; 32]);
    assert_eq!(found(&der, &public).as_deref(), Some("an Ed25519 key in DER"));
    let seed = format!("seed = \"{}\"", hex::encode([9; 32]));
    assert!(found(seed.as_bytes(), &public).expect("seen").starts_with("the seed of the key "));
    assert_eq!(found(b"-----BEGIN PUBLIC KEY-----\nMCowBQ\n", &public), None);
}
