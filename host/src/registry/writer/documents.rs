//! The documents of a registry folder, one by one: which is the newest, which one clients see, who may sign
//! the next.

use std::collections::BTreeMap;

use fs_err as fs;
use jiff::{SignedDuration, Timestamp as Time};

use super::super::key::SigningKey;
use super::super::layout;
use super::super::metadata::{self, Document, Envelope, Key, RoleKeys, Targets};
use super::{Error, Repository, role_name};
use crate::files;

/// Largest version of a document; beyond it, readers in other languages lose digits.
const MOST_VERSION: u64 = 1 << 53;

impl Repository {
    /// Writes a role's document with these signatures. It needs the threshold only when it is published.
    pub(in super::super) fn put(&self, role: &str, document: Targets, signing: &[&SigningKey]) -> Result<(), Error> {
        let path = layout::metadata_path(document.version, role);
        let mut envelope = Envelope::unsigned(document);
        // The first document of the top role says itself who signs the others.
        if role == "targets" || self.newest("targets")?.is_some() {
            self.allowed(role, signing)?;
        }
        self.sign_all(&mut envelope, signing)?;
        self.write(&path, &self.bytes(&envelope)?)
    }

    /// What a role's next document begins with: the pending one, or the published one with the next version.
    pub(in super::super) fn next(&self, role: &str, lifetime: SignedDuration) -> Result<Targets, Error> {
        let expires = self.until(role, lifetime)?;
        let Some(newest) = self.newest(role)? else {
            self.signers(role)?;
            return Ok(Targets::empty(1, expires));
        };
        let mut document = self.read::<Targets>(newest, role)?.0.signed;
        if self.into.is_some() || self.published(role)? == Some(newest) {
            document.version = self.following(role, Some(newest))?;
        }
        document.expires = expires;
        Ok(document)
    }

    /// The version that clients see.
    pub(in super::super) fn published(&self, role: &str) -> Result<Option<u64>, Error> {
        let snapshot = self.snapshot()?;
        Ok(snapshot.and_then(|snapshot| snapshot.signed.meta.get(&format!("{role}.json")).map(|file| file.version)))
    }

    /// The highest version of a role's documents.
    pub(in super::super) fn newest(&self, role: &str) -> Result<Option<u64>, Error> {
        let ending = format!(".{role}.json");
        let folder = self.folder.join(layout::METADATA);
        if !folder.is_dir() {
            return Ok(None);
        }
        let mut newest = None;
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let version = name.to_str().and_then(|name| name.strip_suffix(&ending)).and_then(|text| {
                // Only the usual spelling: `+3` and `03` are no versions.
                text.parse::<u64>().ok().filter(|version| version.to_string() == text)
            });
            newest = newest.max(version);
        }
        Ok(newest)
    }

    pub(in super::super) fn read<T: Document>(
        &self,
        version: u64,
        role: &str,
    ) -> Result<(Envelope<T>, Vec<u8>), Error> {
        let path = layout::metadata_path(version, role);
        let bytes = files::read_regular(&self.folder.join(&path), layout::MOST_ROLE_BYTES)?;
        let envelope: Envelope<T> = self.parse(&format!("`{path}`"), &bytes)?;
        if envelope.signed.version() != version {
            let why = format!("it says it is version {}", envelope.signed.version());
            return Err(self.document(metadata::Error::NotUnderstood { what: format!("`{path}`"), why }));
        }
        Ok((envelope, bytes))
    }

    pub(in super::super) fn parse<T: Document>(&self, what: &str, bytes: &[u8]) -> Result<Envelope<T>, Error> {
        Envelope::parse(what, bytes).map_err(|source| self.document(source))
    }

    pub(in super::super) fn write(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.into.as_ref().unwrap_or(&self.folder).join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(files::write_atomic(&path, bytes)?)
    }

    pub(in super::super) fn bytes<T: Document>(&self, envelope: &Envelope<T>) -> Result<Vec<u8>, Error> {
        envelope.to_bytes().map_err(|source| self.document(source))
    }

    pub(in super::super) fn signed_by<T: Document>(
        &self,
        role: &str,
        document: T,
        signing: &[&SigningKey],
    ) -> Result<Envelope<T>, Error> {
        let mut envelope = Envelope::unsigned(document);
        self.allowed(role, signing)?;
        self.sign_all(&mut envelope, signing)?;
        let root = self.root()?.signed;
        self.verify(&envelope, role, &root.roles, &root.keys)?;
        Ok(envelope)
    }

    pub(in super::super) fn sign_all<T: Document>(
        &self,
        envelope: &mut Envelope<T>,
        keys: &[&SigningKey],
    ) -> Result<(), Error> {
        for key in keys {
            envelope.sign(key).map_err(|source| self.document(source))?;
        }
        Ok(())
    }

    /// Refuses keys that a role does not know, before they sign anything.
    pub(in super::super) fn allowed(&self, role: &str, signing: &[&SigningKey]) -> Result<(), Error> {
        let (signers, _) = self.signers(role)?;
        for key in signing {
            let public = key.public();
            if !signers.keyids.contains(&public.key_id()) {
                return Err(Error::ForeignKey { fingerprint: public.fingerprint(), role: role_name(role) });
            }
        }
        Ok(())
    }

    pub(in super::super) fn verify<T: Document>(
        &self,
        envelope: &Envelope<T>,
        role: &str,
        roles: &BTreeMap<String, RoleKeys>,
        keys: &BTreeMap<String, Key>,
    ) -> Result<(), Error> {
        let signers = roles.get(role).ok_or_else(|| self.no_role(role_name(role)))?;
        envelope.verify(&format!("the {role}"), signers, keys).map_err(|source| self.document(source))
    }

    pub(in super::super) fn until(&self, role: &str, lifetime: SignedDuration) -> Result<Time, Error> {
        let time = self.now.checked_add(lifetime).map_err(|_| Error::Time(role_name(role)))?;
        Time::from_second(time.as_second()).map_err(|_| Error::Time(role_name(role)))
    }

    pub(in super::super) fn following(&self, role: &str, version: Option<u64>) -> Result<u64, Error> {
        let next = version.unwrap_or(0).saturating_add(1);
        if next >= MOST_VERSION { Err(Error::Version(role_name(role))) } else { Ok(next) }
    }

    pub(in super::super) fn document(&self, problem: metadata::Error) -> Error {
        Error::Document { folder: self.folder.clone(), problem }
    }

    pub(in super::super) fn no_role(&self, role: String) -> Error {
        Error::NoRole { folder: self.folder.clone(), role }
    }
}
