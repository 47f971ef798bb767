//! What the online key signs: which documents belong together, and which snapshot is the newest.

use std::collections::BTreeMap;

use super::super::catalog::Catalog;
use super::super::key::SigningKey;
use super::super::layout;
use super::super::metadata::{Document as _, Envelope, MetaFile, SPEC_VERSION, Snapshot, Targets, Timestamp};
use super::{Error, Repository};
use crate::files;

impl Repository {
    /// Publishes what is pending: a snapshot of the newest documents, then the timestamp, last.
    ///
    /// # Errors
    /// When a document lacks signatures, or a key is not of its role.
    pub fn snapshot_and_timestamp(&self, snapshot: &[&SigningKey], timestamp: &[&SigningKey]) -> Result<(), Error> {
        let mut meta = self.snapshot()?.map(|old| old.signed.meta).unwrap_or_default();
        let authority = self.authority()?;
        let mut documents = BTreeMap::new();
        for role in self.listing_roles()? {
            let Some(version) = self.newest(&role)? else { continue };
            let (envelope, bytes) = self.read::<Targets>(version, &role)?;
            let (signers, keys) = self.signers_in(&authority, &role)?;
            let what = format!("`{}`", layout::metadata_path(version, &role));
            envelope.verify(&what, signers, keys).map_err(|source| self.document(source))?;
            let found = bytes.len() as u64;
            if found > layout::MOST_ROLE_BYTES {
                return Err(Error::Large { what, found, most: layout::MOST_ROLE_BYTES });
            }
            meta.insert(format!("{role}.json"), MetaFile::of(version, &bytes));
            documents.insert(role, envelope.signed);
        }
        meta.insert(format!("{}.json", layout::CATALOG), self.catalog(&documents)?);
        let version = self.following("snapshot", self.newest("snapshot")?)?;
        let document = Snapshot {
            kind: Snapshot::TYPE.to_owned(),
            expires: self.until("snapshot", self.lifetimes.snapshot)?,
            meta,
            spec_version: SPEC_VERSION.to_owned(),
            version,
        };
        let envelope = self.signed_by("snapshot", document, snapshot)?;
        let bytes = self.bytes(&envelope)?;
        let found = bytes.len() as u64;
        if found > layout::MOST_SNAPSHOT_BYTES {
            let what = layout::metadata_path(version, "snapshot");
            return Err(Error::Large { what, found, most: layout::MOST_SNAPSHOT_BYTES });
        }
        self.write(&layout::metadata_path(version, "snapshot"), &bytes)?;
        self.timestamp(MetaFile::of(version, &bytes), timestamp)
    }

    /// Writes the catalogue of these documents, unless the newest one is the same.
    fn catalog(&self, documents: &BTreeMap<String, Targets>) -> Result<MetaFile, Error> {
        let role = layout::CATALOG;
        let bytes = catalog_of(documents).to_bytes().map_err(std::io::Error::from)?;
        let found = bytes.len() as u64;
        if found > layout::MOST_CATALOG_BYTES {
            let what = "the catalogue".to_owned();
            return Err(Error::Large { what, found, most: layout::MOST_CATALOG_BYTES });
        }
        let newest = self.newest(role)?;
        if let Some(newest) = newest {
            let path = self.folder.join(layout::metadata_path(newest, role));
            if files::read_regular(&path, layout::MOST_CATALOG_BYTES).is_ok_and(|old| old == bytes) {
                return Ok(MetaFile::of(newest, &bytes));
            }
        }
        let version = self.following(role, newest)?;
        self.write(&layout::metadata_path(version, role), &bytes)?;
        Ok(MetaFile::of(version, &bytes))
    }

    /// A new timestamp of the newest snapshot, with a later expiry and nothing else changed.
    ///
    /// # Errors
    /// When there is no snapshot, or a key is not of its role.
    pub fn renew_timestamp(&self, timestamp: &[&SigningKey]) -> Result<(), Error> {
        let version = self.newest("snapshot")?.ok_or_else(|| self.no_role("snapshot".to_owned()))?;
        let (_, bytes) = self.read::<Snapshot>(version, "snapshot")?;
        self.timestamp(MetaFile::of(version, &bytes), timestamp)
    }

    fn timestamp(&self, snapshot: MetaFile, signing: &[&SigningKey]) -> Result<(), Error> {
        let old = self.current_timestamp()?.map(|old| old.signed.version);
        let document = Timestamp {
            kind: Timestamp::TYPE.to_owned(),
            expires: self.until("timestamp", self.lifetimes.timestamp)?,
            meta: BTreeMap::from([("snapshot.json".to_owned(), snapshot)]),
            spec_version: SPEC_VERSION.to_owned(),
            version: self.following("timestamp", old)?,
        };
        let envelope = self.signed_by("timestamp", document, signing)?;
        self.write(&layout::timestamp_path(), &self.bytes(&envelope)?)
    }

    /// The timestamp; none before the first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn current_timestamp(&self) -> Result<Option<Envelope<Timestamp>>, Error> {
        let path = self.folder.join(layout::timestamp_path());
        if !path.exists() {
            return Ok(None);
        }
        let bytes = files::read_regular(&path, layout::MOST_TIMESTAMP_BYTES)?;
        Ok(Some(self.parse(&format!("`{}`", layout::timestamp_path()), &bytes)?))
    }
}

/// The catalogue of documents, by role.
pub(in super::super) fn catalog_of(documents: &BTreeMap<String, Targets>) -> Catalog {
    let publishers = documents.iter().filter(|(role, _)| *role != "targets" && !layout::is_of_reviewers(role));
    let publishers = publishers.map(|(role, document)| (document, documents.get(&layout::review_role(role))));
    let nothing = BTreeMap::new();
    Catalog::of(publishers, documents.get(layout::REVIEWED).map_or(&nothing, |reviewed| &reviewed.revoked))
}
