//! What the online key signs: which documents belong together, and which snapshot is the newest.

use std::collections::BTreeMap;

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
        let mut roles = vec!["targets".to_owned(), layout::REVIEWED.to_owned()];
        roles.extend(self.publishers()?);
        for role in roles {
            let Some(version) = self.newest(&role)? else { continue };
            let (envelope, bytes) = self.read::<Targets>(version, &role)?;
            let (signers, keys) = self.signers(&role)?;
            let what = format!("`{}`", layout::metadata_path(version, &role));
            envelope.verify(&what, &signers, &keys).map_err(|source| self.document(source))?;
            let found = bytes.len() as u64;
            if found > layout::MOST_ROLE_BYTES {
                return Err(Error::Large { what, found, most: layout::MOST_ROLE_BYTES });
            }
            meta.insert(format!("{role}.json"), MetaFile::of(version, &bytes));
        }
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
