use serde_json::json;

use super::*;

fn targets() -> Targets {
    Targets::empty(3, "2027-01-31T12:00:00Z".parse().expect("time"))
}

#[test]
fn a_value_has_one_spelling() {
    let value = json!({ "b": [1, -2, true, null], "a": { "z": "q\"\\", "ä": "ö" } });
    let bytes = canonical(&value).expect("spelled");
    assert_eq!(String::from_utf8_lossy(&bytes), r#"{"a":{"z":"q\"\\","ä":"ö"},"b":[1,-2,true,null]}"#);
    assert_eq!(serde_json::from_slice::<Value>(&bytes).expect("JSON"), value, "it is JSON too");
    assert_eq!(canonical(&json!(1.5)).expect_err("fraction"), "1.5 is no integer");
    let error = canonical(&json!("a\nb")).expect_err("control");
    assert_eq!(error, "a text holds the control character U+000A");
    let deep = (0..100).fold(json!(0), |inner, _| json!([inner]));
    assert_eq!(canonical(&deep).expect_err("deep"), "it is nested more than 32 deep");
}

#[test]
fn another_spelling_of_a_signed_document_is_refused() {
    let mut envelope = Envelope::unsigned(targets());
    envelope.sign(&SigningKey::from_seed(&[1; 32])).expect("signed");
    let bytes = envelope.to_bytes().expect("bytes");
    assert_eq!(Envelope::<Targets>::parse("`3.acme.json`", &bytes).expect("parsed"), envelope);
    let text = String::from_utf8(bytes).expect("text");
    for (case, text, expected) in [
        ("blank", text.replacen(':', ": ", 1), "is not in canonical form: byte 14 differs"),
        ("newline at the end", format!("{text}\n"), "is not in canonical form: byte "),
        ("key twice", text.replacen("\"version\":3", "\"version\":3,\"version\":3", 1), "duplicate field"),
        ("unknown field", text.replacen("\"version\":3", "\"version\":3,\"x\":3", 1), "unknown field `x`"),
        ("other type", text.replace("\"_type\":\"targets\"", "\"_type\":\"root\""), "it says it is `root`"),
        ("fraction", text.replacen("\"version\":3", "\"version\":3.0", 1), "invalid type: floating point"),
        ("time with fraction", text.replace("12:00:00Z", "12:00:00.0Z"), "is no time like"),
        ("escape", text.replace("targets\",\"expires", "target\\u0073\",\"expires"), "byte "),
    ] {
        let error = Envelope::<Targets>::parse("`3.acme.json`", text.as_bytes()).expect_err(case).to_string();
        assert!(error.starts_with("`3.acme.json` ") && error.contains(expected), "{case}: {error}");
    }
}

#[test]
fn a_signature_counts_once_and_for_its_role_only() {
    let (a, b, c) = (SigningKey::from_seed(&[1; 32]), SigningKey::from_seed(&[2; 32]), SigningKey::from_seed(&[3; 32]));
    let mut keys: BTreeMap<String, Key> =
        [&a, &b, &c].iter().map(|key| (key.public().key_id(), Key::of(&key.public()))).collect();
    // The same key under another id must not count twice.
    keys.insert("alias".to_owned(), Key::of(&a.public()));
    let role = RoleKeys { keyids: vec![a.public().key_id(), b.public().key_id(), "alias".to_owned()], threshold: 2 };
    let mut envelope = Envelope::unsigned(targets());
    for key in [&a, &a, &c] {
        envelope.sign(key).expect("signed");
    }
    assert_eq!(envelope.signatures.len(), 2);
    let again = envelope.signatures.iter().find(|signature| signature.keyid == a.public().key_id());
    let alias = Signature { keyid: "alias".to_owned(), sig: again.expect("signature of a").sig.clone() };
    envelope.signatures.push(alias);
    let error = envelope.verify("`3.acme.json`", &role, &keys).expect_err("one signer").to_string();
    assert_eq!(error, "`3.acme.json` has 1 of the 2 signatures that its role needs");
    envelope.sign(&b).expect("signed");
    envelope.verify("it", &role, &keys).expect("two signers");
    envelope.signed.version = 4;
    assert_eq!(envelope.signers(&role, &keys).expect("counted"), 0, "signatures are over the document");
    let nobody = RoleKeys { keyids: Vec::new(), threshold: 0 };
    assert!(envelope.verify("it", &nobody, &keys).is_err(), "a threshold of zero is no threshold");
}

#[test]
fn a_key_id_is_the_hash_of_the_canonical_key() {
    let key = PublicKey::from_hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a").expect("key");
    let spelled = r#"{"keytype":"ed25519","keyval":{"public":"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"},"scheme":"ed25519"}"#;
    assert_eq!(Key::of(&key).id(), sha256_hex(spelled.as_bytes()));
    let rsa = Key { keytype: "rsa".to_owned(), ..Key::of(&key) };
    assert!(rsa.public().is_none(), "nothing but Ed25519");
}

#[test]
fn times_are_written_in_whole_seconds() {
    let mut document = targets();
    document.expires = "2027-01-31T12:00:00.75Z".parse().expect("time");
    let text = String::from_utf8(Envelope::unsigned(document).to_bytes().expect("bytes")).expect("text");
    assert!(text.contains(r#""expires":"2027-01-31T12:00:00Z""#), "{text}");
}
