//! The cryptography behind the verification: Ed25519 by the strict rules, SHA-2, and nothing else.

use ed25519_dalek::{Signature, VerifyingKey};
use sha2::Digest as _;
use sigstore_crypto::{CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider};
use sigstore_types::HashAlgorithm;

/// Makes this the cryptography of the process; later calls do nothing.
pub(super) fn install() {
    static ONLY: Ed25519Only = Ed25519Only;
    // The first one stays, and it is always this one.
    let _ = install_default_provider(&ONLY);
}

#[derive(Debug)]
struct Ed25519Only;

impl CryptoProvider for Ed25519Only {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        match algorithm {
            HashAlgorithm::Sha2256 => Ok(Box::new(Hash(sha2::Sha256::new()))),
            HashAlgorithm::Sha2384 => Ok(Box::new(Hash(sha2::Sha384::new()))),
            HashAlgorithm::Sha2512 => Ok(Box::new(Hash(sha2::Sha512::new()))),
            other => Err(Error::UnsupportedAlgorithm(format!("{other:?}"))),
        }
    }

    fn verify_raw(&self, scheme: SigningScheme, key: &[u8], data: &[u8], signature: &[u8]) -> Result<()> {
        if scheme != SigningScheme::Ed25519 {
            return Err(Error::UnsupportedAlgorithm(format!("{scheme:?}")));
        }
        let key = <[u8; 32]>::try_from(key).map_err(|_| Error::InvalidKey("it does not have 32 bytes".to_owned()))?;
        let key = VerifyingKey::from_bytes(&key).map_err(|error| Error::InvalidKey(error.to_string()))?;
        let signature = Signature::from_slice(signature).map_err(|error| Error::Verification(error.to_string()))?;
        key.verify_strict(data, &signature).map_err(|error| Error::Verification(error.to_string()))
    }

    fn verify_prehashed(&self, scheme: SigningScheme, _: &[u8], _: &[u8], _: &[u8]) -> Result<()> {
        Err(Error::UnsupportedAlgorithm(format!("{scheme:?}")))
    }
}

struct Hash<D>(D);

impl<D: sha2::Digest + Send> HashContext for Hash<D> {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finalize().to_vec()
    }
}
