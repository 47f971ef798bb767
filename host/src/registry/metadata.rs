//! The documents of a registry as they are written: TUF metadata (specification 1.0), Ed25519 only.
//!
//! A document is an [`Envelope`]: signatures, and what they sign. Both are written as canonical JSON, so that
//! a value has one spelling and what was signed is what is parsed. Types refuse fields that they do not know;
//! a reader of other people's registries uses the verifier, not these.

mod canonical;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp as Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::{PublicKey, SigningKey};
use crate::files::sha256_hex;
use crate::hint::Hint;

pub use canonical::canonical;
pub use record::{EvidenceRecord, NumericsClass, RuleRecord, Yanked};

/// Version of the TUF specification that the documents follow.
pub const SPEC_VERSION: &str = "1.0.34";

/// Why a document cannot be written or is not one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// a value without a canonical spelling
    #[error("{what} has no canonical spelling: {why}")]
    NotCanonical {
        /// which document
        what: String,
        /// the value
        why: String,
    },
    /// not the document that is wanted
    #[error("{what} cannot be understood: {why}")]
    NotUnderstood {
        /// which document
        what: String,
        /// where and why
        why: String,
    },
    /// the bytes are another spelling of the same document
    #[error("{what} is not in canonical form: byte {at} differs from what its content is written as")]
    Spelling {
        /// which document
        what: String,
        /// first byte that differs, counted from zero
        at: usize,
    },
    /// too few signatures
    #[error("{what} has {found} of the {threshold} signatures that its role needs")]
    Signatures {
        /// which document
        what: String,
        /// by keys of the role
        found: usize,
        /// how many are needed
        threshold: u32,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Spelling { .. } => {
                Some("Write it with `delegate-doctor rules publish`; an edited file loses its signature".to_owned())
            }
            Self::Signatures { .. } => Some("Add one with `delegate-doctor registry sign`".to_owned()),
            _ => None,
        }
    }
}

/// A signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// key id
    pub keyid: String,
    /// hex
    pub sig: String,
}

/// A document and who signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope<T> {
    /// at most one of each key
    pub signatures: Vec<Signature>,
    /// the document
    pub signed: T,
}

/// What every document says about itself.
pub trait Document: Serialize + DeserializeOwned + Clone {
    /// value of `_type`
    const TYPE: &'static str;

    /// How often it was written, from 1.
    fn version(&self) -> u64;

    /// Until when it holds.
    fn expires(&self) -> Time;

    /// What it says it is; must be [`Document::TYPE`].
    fn kind(&self) -> &str;
}

macro_rules! document {
    ($name:ident, $kind:literal) => {
        impl Document for $name {
            const TYPE: &'static str = $kind;

            fn version(&self) -> u64 {
                self.version
            }

            fn expires(&self) -> Time {
                self.expires
            }

            fn kind(&self) -> &str {
                &self.kind
            }
        }
    };
}

document!(Root, "root");
document!(Targets, "targets");
document!(Snapshot, "snapshot");
document!(Timestamp, "timestamp");

impl<T: Document> Envelope<T> {
    /// A document that nobody has signed.
    pub fn unsigned(signed: T) -> Self {
        Self { signatures: Vec::new(), signed }
    }

    /// The bytes that signatures are over.
    ///
    /// # Errors
    /// When the document has no canonical spelling.
    pub fn message(&self) -> Result<Vec<u8>, Error> {
        bytes_of(&self.signed)
    }

    /// Adds this key's signature, or renews it.
    ///
    /// # Errors
    /// When the document has no canonical spelling.
    pub fn sign(&mut self, key: &SigningKey) -> Result<(), Error> {
        let signature = Signature { keyid: key.public().key_id(), sig: key.sign(&self.message()?) };
        self.signatures.retain(|other| other.keyid != signature.keyid);
        self.signatures.push(signature);
        self.signatures.sort_unstable_by(|a, b| a.keyid.cmp(&b.keyid));
        Ok(())
    }

    /// How many different keys of a role have signed it.
    ///
    /// # Errors
    /// When the document has no canonical spelling.
    pub fn signers(&self, role: &RoleKeys, keys: &BTreeMap<String, Key>) -> Result<usize, Error> {
        let message = self.message()?;
        let mut signers = BTreeSet::new();
        for signature in self.signatures.iter().filter(|signature| role.keyids.contains(&signature.keyid)) {
            let key = keys.get(&signature.keyid).and_then(Key::public);
            if let Some(key) = key.filter(|key| key.verifies(&message, &signature.sig)) {
                // By the key itself: one key under two ids is one signer.
                signers.insert(key.to_hex());
            }
        }
        Ok(signers.len())
    }

    /// Refuses a document that too few keys of its role have signed. `what` names it in the error.
    ///
    /// # Errors
    /// When signatures are missing.
    pub fn verify(&self, what: &str, role: &RoleKeys, keys: &BTreeMap<String, Key>) -> Result<(), Error> {
        let found = self.signers(role, keys)?;
        if role.threshold == 0 || found < role.threshold as usize {
            return Err(Error::Signatures { what: what.to_owned(), found, threshold: role.threshold });
        }
        Ok(())
    }

    /// The file: canonical JSON of signatures and document.
    ///
    /// # Errors
    /// When the document has no canonical spelling.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        bytes_of(self)
    }

    /// Reads a file and insists on its spelling. `what` names it in errors.
    ///
    /// # Errors
    /// When it is another document, or spelled in another way than [`Envelope::to_bytes`] does.
    pub fn parse(what: &str, bytes: &[u8]) -> Result<Self, Error> {
        let not_understood = |why: String| Error::NotUnderstood { what: what.to_owned(), why };
        let envelope: Self = serde_json::from_slice(bytes).map_err(|error| not_understood(error.to_string()))?;
        let kind = envelope.signed.kind();
        if kind != T::TYPE {
            return Err(not_understood(format!("it says it is `{kind}`, and `{}` was expected", T::TYPE)));
        }
        let spelled = canonical(&serde_json::to_value(&envelope).map_err(|error| not_understood(error.to_string()))?)
            .map_err(|why| Error::NotCanonical { what: what.to_owned(), why })?;
        if spelled != bytes {
            let at = spelled.iter().zip(bytes).position(|(a, b)| a != b);
            let at = at.unwrap_or_else(|| spelled.len().min(bytes.len()));
            return Err(Error::Spelling { what: what.to_owned(), at });
        }
        let once: BTreeSet<&str> = envelope.signatures.iter().map(|signature| signature.keyid.as_str()).collect();
        if once.len() != envelope.signatures.len() {
            return Err(not_understood("a key has signed it twice".to_owned()));
        }
        Ok(envelope)
    }
}

fn bytes_of(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let not_canonical = |why: String| Error::NotCanonical { what: "the document".to_owned(), why };
    let value = serde_json::to_value(value).map_err(|error| not_canonical(error.to_string()))?;
    canonical(&value).map_err(not_canonical)
}

/// A signed file from any JSON object, for documents that the types above would refuse to be.
///
/// # Errors
/// When the object has no canonical spelling.
pub fn signed(document: &Value, keys: &[&SigningKey]) -> Result<Vec<u8>, Error> {
    let message = bytes_of(document)?;
    let mut signatures: Vec<Signature> = Vec::new();
    for key in keys {
        signatures.push(Signature { keyid: key.public().key_id(), sig: key.sign(&message) });
    }
    bytes_of(&serde_json::json!({ "signatures": signatures, "signed": document }))
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// `ed25519`
    pub keytype: String,
    /// the key
    pub keyval: KeyValue,
    /// `ed25519`
    pub scheme: String,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyValue {
    /// hex
    pub public: String,
}

impl Key {
    /// As metadata holds it.
    pub fn of(key: &PublicKey) -> Self {
        Self { keytype: "ed25519".to_owned(), keyval: KeyValue { public: key.to_hex() }, scheme: "ed25519".to_owned() }
    }

    /// SHA-256 of its canonical form, as lower-case hex.
    pub fn id(&self) -> String {
        // A key holds three texts, which always have a spelling.
        sha256_hex(&bytes_of(self).unwrap_or_default())
    }

    /// The key, when it is Ed25519.
    pub fn public(&self) -> Option<PublicKey> {
        let ours = self.keytype == "ed25519" && self.scheme == "ed25519";
        ours.then(|| PublicKey::from_hex(&self.keyval.public).ok()).flatten()
    }
}

/// Who signs a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleKeys {
    /// key ids, in order
    pub keyids: Vec<String>,
    /// how many have to
    pub threshold: u32,
}

/// Which keys are trusted for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// `root`
    #[serde(rename = "_type")]
    pub kind: String,
    /// true: files carry their version in their names
    pub consistent_snapshot: bool,
    /// until when it holds
    #[serde(with = "seconds")]
    pub expires: Time,
    /// by key id
    pub keys: BTreeMap<String, Key>,
    /// `root`, `snapshot`, `targets`, `timestamp`
    pub roles: BTreeMap<String, RoleKeys>,
    /// of the specification
    pub spec_version: String,
    /// from 1
    pub version: u64,
}

/// Files and who else may list some: the top role `targets`, a publisher's role, `reviewed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// `targets`
    #[serde(rename = "_type")]
    pub kind: String,
    /// publishers and `reviewed`; the top role only
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delegations: Option<Delegations>,
    /// until when it holds
    #[serde(with = "seconds")]
    pub expires: Time,
    /// components that nobody may run, by SHA-256, with the reason; `reviewed` only
    #[serde(rename = "x-dd-revoked", skip_serializing_if = "BTreeMap::is_empty", default)]
    pub revoked: BTreeMap<String, String>,
    /// of the specification
    pub spec_version: String,
    /// by path
    pub targets: BTreeMap<String, TargetFile>,
    /// from 1
    pub version: u64,
}

impl Targets {
    /// An empty one.
    pub fn empty(version: u64, expires: Time) -> Self {
        Self {
            kind: Self::TYPE.to_owned(),
            delegations: None,
            expires,
            revoked: BTreeMap::new(),
            spec_version: SPEC_VERSION.to_owned(),
            targets: BTreeMap::new(),
            version,
        }
    }
}

/// Roles below the top role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delegations {
    /// by key id
    pub keys: BTreeMap<String, Key>,
    /// in the order in which they are asked
    pub roles: Vec<DelegatedRole>,
}

/// A role below the top role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelegatedRole {
    /// key ids, in order
    pub keyids: Vec<String>,
    /// publisher, or `reviewed`
    pub name: String,
    /// `publisher/*/*`
    pub paths: Vec<String>,
    /// true: what it does not list, no other role may
    pub terminating: bool,
    /// how many keys have to sign
    pub threshold: u32,
}

impl DelegatedRole {
    /// Who signs it.
    pub fn role_keys(&self) -> RoleKeys {
        RoleKeys { keyids: self.keyids.clone(), threshold: self.threshold }
    }
}

/// A file of the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetFile {
    /// what is said about it beside its bytes
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub custom: Option<Custom>,
    /// `sha256`
    pub hashes: Hashes,
    /// in bytes
    pub length: u64,
}

impl TargetFile {
    /// For these bytes.
    pub fn of(bytes: &[u8], custom: Option<RuleRecord>) -> Self {
        Self {
            custom: custom.map(|dd| Custom { dd }),
            hashes: Hashes { sha256: sha256_hex(bytes) },
            length: bytes.len() as u64,
        }
    }

    /// True when both are the same bytes.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.hashes == other.hashes && self.length == other.length
    }
}

/// Hashes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hashes {
    /// lower-case hex
    pub sha256: String,
}

/// The `custom` object of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Custom {
    /// this tool's part
    pub dd: RuleRecord,
}

/// Which versions of the roles belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// `snapshot`
    #[serde(rename = "_type")]
    pub kind: String,
    /// until when it holds
    #[serde(with = "seconds")]
    pub expires: Time,
    /// by file name without version: `acme.json`
    pub meta: BTreeMap<String, MetaFile>,
    /// of the specification
    pub spec_version: String,
    /// from 1
    pub version: u64,
}

/// Which snapshot is the newest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timestamp {
    /// `timestamp`
    #[serde(rename = "_type")]
    pub kind: String,
    /// until when it holds
    #[serde(with = "seconds")]
    pub expires: Time,
    /// `snapshot.json`
    pub meta: BTreeMap<String, MetaFile>,
    /// of the specification
    pub spec_version: String,
    /// from 1
    pub version: u64,
}

/// A metadata file that another one names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetaFile {
    /// of the file
    pub hashes: Hashes,
    /// of the file, in bytes
    pub length: u64,
    /// of the document
    pub version: u64,
}

impl MetaFile {
    /// For a document and the bytes of its file.
    pub fn of(version: u64, bytes: &[u8]) -> Self {
        Self { hashes: Hashes { sha256: sha256_hex(bytes) }, length: bytes.len() as u64, version }
    }
}

/// Times in whole seconds, UTC, as the specification writes them: `2027-01-31T12:00:00Z`.
mod seconds {
    use jiff::Timestamp as Time;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
        let whole = Time::from_second(time.as_second()).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&whole)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        let shape = text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            13 | 16 => byte == b':',
            19 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
        if !shape || text.len() != 20 {
            return Err(serde::de::Error::custom(format!("`{text}` is no time like `2027-01-31T12:00:00Z`")));
        }
        text.parse().map_err(serde::de::Error::custom)
    }
}
