//! Keys of the registry: Ed25519, and nothing else.
//!
//! A private key lies in a file of its own, mode 0600: PKCS#8 in PEM, behind a passphrase (scrypt, AES-256)
//! unless the caller wants none. A public key is known by its key id, the SHA-256 of its canonical form in
//! metadata; people compare the first half of it, the fingerprint.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _};
use ed25519_dalek::pkcs8::{KeypairBytes, PublicKeyBytes};
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::pem::PemLabel as _;
use zeroize::Zeroizing;

use super::metadata;
use crate::files;
use crate::hint::Hint;

/// Largest key file that is read, in bytes.
const KEY_FILE_BYTES: u64 = 16 << 10;
/// Shortest passphrase, in characters.
pub const PASSPHRASE_CHARACTERS: usize = 12;

/// The line that a key behind a passphrase begins with (RFC 7468, section 11).
fn encrypted_header() -> String {
    format!("-----BEGIN {}-----", EncryptedPrivateKeyInfoRef::PEM_LABEL)
}

/// Why a key cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// the system gives no random bytes
    #[error("The system gives no random bytes for a new key")]
    Random(#[source] std::io::Error),
    /// there is a file where the new one would go
    #[error("There is a key in `{0}` already")]
    Exists(PathBuf),
    /// file trouble
    #[error("Failed to {what} the key file `{path}`")]
    File {
        /// read or write
        what: &'static str,
        /// file
        path: PathBuf,
        /// why
        #[source]
        source: std::io::Error,
    },
    /// others may read the private key
    #[error("The private key `{path}` can be read by others: its mode is {mode:03o}")]
    Open {
        /// file
        path: PathBuf,
        /// permission bits
        mode: u32,
    },
    /// the file is no key
    #[error("`{path}` is no Ed25519 {kind} key in PEM")]
    NoKey {
        /// file
        path: PathBuf,
        /// private or public
        kind: &'static str,
    },
    /// the passphrase is needed
    #[error("The private key `{0}` is encrypted, and no passphrase was given")]
    NeedsPassphrase(PathBuf),
    /// the passphrase does not open it
    #[error("The passphrase does not open the private key `{0}`")]
    WrongPassphrase(PathBuf),
    /// the passphrase is too easily guessed
    #[error("The passphrase has {found} characters, and at least {PASSPHRASE_CHARACTERS} are needed")]
    Short {
        /// its length
        found: usize,
    },
    /// a text that is no public key
    #[error("`{0}` is no Ed25519 public key: 64 hex digits are expected, of a point on the curve")]
    Public(String),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Exists(_) => {
                "A key that is overwritten is lost for ever; choose another file with `--out`, or move the old one away"
                    .to_owned()
            }
            Self::Open { path, .. } => {
                format!("Run `{}`", crate::shell::line(["chmod", "600", &path.to_string_lossy()]))
            }
            Self::NeedsPassphrase(_) => {
                "Name a file that holds it with `--passphrase-file`, or run the command in a terminal".to_owned()
            }
            Self::Short { .. } => "Take several words, or make a key without one with `--no-passphrase`".to_owned(),
            Self::NoKey { .. } => "Make one with `delegate-doctor rules key new`".to_owned(),
            Self::File { source, .. } => return source.hint(),
            _ => return None,
        })
    }
}

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.to_hex())
    }
}

impl PublicKey {
    /// From 64 hex digits, as metadata holds it.
    ///
    /// # Errors
    /// When it is no point on the curve, or one of the few that sign anything.
    pub fn from_hex(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Public(text.chars().take(80).collect());
        let mut bytes = [0_u8; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| wrong())?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| wrong())?;
        if key.is_weak() {
            return Err(wrong());
        }
        Ok(Self(key))
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0.as_bytes())
    }

    /// SHA-256 of the key's canonical form in metadata, as lower-case hex.
    pub fn key_id(&self) -> String {
        metadata::Key::of(self).id()
    }

    /// What people compare: the first 128 bits of the key id in groups of four digits.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.key_id())
    }

    /// True when `signature`, 128 hex digits, is this key's over `message`, by the strict rules of RFC 8032.
    pub fn verifies(&self, message: &[u8], signature: &str) -> bool {
        let mut bytes = [0_u8; 64];
        hex::decode_to_slice(signature, &mut bytes).is_ok()
            && self.0.verify_strict(message, &Signature::from_bytes(&bytes)).is_ok()
    }

    /// Reads a public key file (PEM).
    ///
    /// # Errors
    /// When there is none, or it is of another kind.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = read(path)?;
        let no_key = || Error::NoKey { path: path.to_path_buf(), kind: "public" };
        let text = std::str::from_utf8(&bytes).map_err(|_| no_key())?;
        let key = VerifyingKey::from_public_key_pem(text).map_err(|_| no_key())?;
        Self::from_hex(&hex::encode(key.as_bytes())).map_err(|_| no_key())
    }

    /// The public key in PEM.
    ///
    /// # Errors
    /// Never for a key that exists; the encoder's error otherwise.
    pub fn to_pem(&self) -> Result<String, std::io::Error> {
        PublicKeyBytes(self.0.to_bytes()).to_public_key_pem(LineEnding::LF).map_err(std::io::Error::other)
    }
}

/// The fingerprint that belongs to a key id: its first 128 bits in groups of four digits.
pub fn fingerprint(key_id: &str) -> String {
    let digits: Vec<char> = key_id.chars().take(32).collect();
    digits.chunks(4).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

/// A private key. It shows its public half only.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public().to_hex())
    }
}

impl SigningKey {
    /// A new key from the system's random bytes.
    ///
    /// # Errors
    /// When the system has none.
    pub fn generate() -> Result<Self, Error> {
        let mut seed = Zeroizing::new([0_u8; 32]);
        getrandom::fill(seed.as_mut_slice()).map_err(|error| Error::Random(std::io::Error::other(error)))?;
        Ok(Self::from_seed(&seed))
    }

    /// The key that belongs to a seed: the same one every time, for registries that have to come out alike.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// The signature over `message` as 128 lower-case hex digits.
    pub fn sign(&self, message: &[u8]) -> String {
        hex::encode(self.0.sign(message).to_bytes())
    }

    /// Writes the key to a new file that only its owner may read. Without a passphrase it is not encrypted.
    ///
    /// # Errors
    /// When there is something at `path`, the passphrase is too short, or the file system refuses.
    pub fn write(&self, path: &Path, passphrase: Option<&str>) -> Result<(), Error> {
        let failed = |source| Error::File { what: "write", path: path.to_path_buf(), source };
        if let Some(found) = passphrase.map(|text| text.chars().count()).filter(|n| *n < PASSPHRASE_CHARACTERS) {
            return Err(Error::Short { found });
        }
        // Without the public half, which older tools refuse in a private key.
        let pair = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        let pem = match passphrase {
            Some(passphrase) => pair.to_pkcs8_encrypted_pem(passphrase, LineEnding::LF),
            None => pair.to_pkcs8_pem(LineEnding::LF),
        };
        let pem = pem.map_err(|error| failed(std::io::Error::other(error)))?;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Exists(path.to_path_buf()),
            _ => failed(error),
        })?;
        file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// True when the key file needs a passphrase.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn is_encrypted(path: &Path) -> Result<bool, Error> {
        Ok(String::from_utf8_lossy(&read(path)?).contains(&encrypted_header()))
    }

    /// Reads a private key file.
    ///
    /// # Errors
    /// When it is no key, others may read it, or the passphrase is missing or wrong.
    pub fn read(path: &Path, passphrase: Option<&str>) -> Result<Self, Error> {
        let bytes = Zeroizing::new(read(path)?);
        let no_key = || Error::NoKey { path: path.to_path_buf(), kind: "private" };
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let metadata = fs_err::metadata(path);
            let metadata = metadata.map_err(|source| Error::File { what: "read", path: path.to_path_buf(), source })?;
            let mode = metadata.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                return Err(Error::Open { path: path.to_path_buf(), mode });
            }
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| no_key())?;
        let key = if text.contains(&encrypted_header()) {
            let passphrase = passphrase.ok_or_else(|| Error::NeedsPassphrase(path.to_path_buf()))?;
            ed25519_dalek::SigningKey::from_pkcs8_encrypted_pem(text, passphrase)
                .map_err(|_| Error::WrongPassphrase(path.to_path_buf()))?
        } else {
            ed25519_dalek::SigningKey::from_pkcs8_pem(text).map_err(|_| no_key())?
        };
        Ok(Self(key))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    files::read_regular(path, KEY_FILE_BYTES).map_err(|source| Error::File {
        what: "read",
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHRASE: &str = "a phrase of several words";

    #[test]
    fn a_key_file_is_read_back_with_its_passphrase_only() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("acme.pem");
        let key = SigningKey::generate().expect("key");
        key.write(&path, Some(PHRASE)).expect("written");
        assert!(SigningKey::is_encrypted(&path).expect("read"));
        let back = SigningKey::read(&path, Some(PHRASE)).expect("read");
        assert_eq!(back.public(), key.public());
        assert!(matches!(SigningKey::read(&path, None), Err(Error::NeedsPassphrase(_))));
        assert!(matches!(SigningKey::read(&path, Some("another phrase!")), Err(Error::WrongPassphrase(_))));
        assert!(matches!(key.write(&path, Some(PHRASE)), Err(Error::Exists(_))), "a key is never overwritten");
        let error = key.write(&folder.path().join("b.pem"), Some("short")).expect_err("short");
        assert_eq!(error.to_string(), "The passphrase has 5 characters, and at least 12 are needed");
        let seed = hex::encode(key.0.to_bytes());
        assert!(!format!("{key:?}").contains(&seed), "a key does not show its secret");
    }

    #[cfg(unix)]
    #[test]
    fn a_private_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("acme.pem");
        SigningKey::from_seed(&[1; 32]).write(&path, None).expect("written");
        let mode = |path: &Path| fs_err::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("mode");
        let error = SigningKey::read(&path, None).expect_err("open to the group");
        assert!(error.to_string().ends_with("can be read by others: its mode is 640"), "{error}");
        assert!(error.hint().expect("hint").starts_with("Run `chmod 600 "));
    }

    #[test]
    fn what_is_no_key_is_told() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x.pem");
        fs_err::write(&path, format!("{}\n", encrypted_header())).expect("write");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("mode");
        }
        assert!(SigningKey::read(&path, Some(PHRASE)).is_err());
        fs_err::write(&path, [0xff, 0xfe]).expect("write");
        assert!(matches!(SigningKey::read(&path, None), Err(Error::NoKey { kind: "private", .. })));
        assert!(matches!(PublicKey::read(&path), Err(Error::NoKey { kind: "public", .. })));
        assert!(matches!(SigningKey::read(Path::new("/dev/zero"), None), Err(Error::File { .. })), "endless");
        let public = SigningKey::from_seed(&[2; 32]).public();
        fs_err::write(&path, public.to_pem().expect("PEM")).expect("write");
        assert_eq!(PublicKey::read(&path).expect("read"), public);
        // The identity is a point that verifies signatures anybody can make.
        let weak = format!("01{}", "00".repeat(31));
        for text in ["", "zz", weak.as_str(), &"ab".repeat(33)] {
            assert!(matches!(PublicKey::from_hex(text), Err(Error::Public(_))), "{text}");
        }
    }

    #[test]
    fn signatures_are_the_ones_of_rfc_8032() {
        // RFC 8032, section 7.1, test 1.
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let mut bytes = [0_u8; 32];
        hex::decode_to_slice(seed, &mut bytes).expect("hex");
        let key = SigningKey::from_seed(&bytes);
        assert_eq!(key.public().to_hex(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let signature = key.sign(b"");
        assert_eq!(
            signature,
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        );
        assert!(key.public().verifies(b"", &signature));
        assert!(!key.public().verifies(b"x", &signature));
        assert!(!key.public().verifies(b"", "00"));
    }

    #[test]
    fn a_fingerprint_is_half_a_key_id_in_groups() {
        let key = SigningKey::from_seed(&[3; 32]).public();
        let print = key.fingerprint();
        assert_eq!(print.len(), 39);
        assert_eq!(print.replace('-', ""), key.key_id()[..32]);
    }
}
