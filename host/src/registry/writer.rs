//! Writes a registry folder.
//!
//! ```text
//! init ─► add_publisher ─► publish ─► review ──────► snapshot_and_timestamp
//!  root     targets         acme      reviewed.acme   what clients see from now on
//! ```
//!
//! Every step writes new files beside the old ones; what clients see changes when the timestamp is replaced,
//! which comes last and in one step. A role's document that no snapshot names yet is pending: further changes
//! go into it, and whoever has to sign it can. A new root counts as soon as it lies in `metadata/`, so one
//! that still lacks signatures waits in `staging/`.

mod documents;
mod error;
mod online;
mod publishers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fs_err as fs;
use jiff::{SignedDuration, Timestamp as Time};

use super::key::{PublicKey, SigningKey};
use super::layout;
use super::metadata::{
    DelegatedRole, Delegations, Document, Envelope, Key, RoleKeys, Root, RuleRecord, SPEC_VERSION, Snapshot,
    TargetFile, Targets,
};
use super::name::{self, Target};
use crate::files;

pub use error::Error;
pub(super) use online::catalog_of;

/// Folder of documents that lack signatures, below the registry.
pub const STAGING: &str = "staging";

/// The keys of a role and how many of them have to sign.
#[derive(Clone, Debug)]
pub struct Signers {
    /// all of them
    pub keys: Vec<SigningKey>,
    /// how many have to
    pub threshold: u32,
}

impl Signers {
    /// One key that signs alone.
    pub fn one(key: SigningKey) -> Self {
        Self { keys: vec![key], threshold: 1 }
    }

    fn public(&self) -> Vec<PublicKey> {
        self.keys.iter().map(SigningKey::public).collect()
    }
}

/// All keys of a new registry.
#[derive(Clone, Debug)]
pub struct Keys {
    /// sign who signs what
    pub root: Signers,
    /// sign who the publishers are
    pub targets: Signers,
    /// sign what was reviewed
    pub reviewed: Signers,
    /// signs what belongs together
    pub snapshot: Signers,
    /// signs what is newest
    pub timestamp: Signers,
}

/// How long documents hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// of the root
    pub root: SignedDuration,
    /// of the top role
    pub targets: SignedDuration,
    /// of `reviewed`
    pub reviewed: SignedDuration,
    /// of a publisher's role
    pub publisher: SignedDuration,
    /// of the snapshot
    pub snapshot: SignedDuration,
    /// of the timestamp
    pub timestamp: SignedDuration,
}

/// Days.
const fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            root: days(400),
            targets: days(365),
            reviewed: days(180),
            publisher: days(180),
            snapshot: days(30),
            timestamp: days(7),
        }
    }
}

/// A file to publish.
#[derive(Clone, Debug)]
pub struct NewTarget {
    /// where
    pub target: Target,
    /// what
    pub bytes: Vec<u8>,
    /// for a component
    pub record: Option<RuleRecord>,
}

/// Who signs what.
struct Authority {
    root: Root,
    /// the roles below the top role
    roles: BTreeMap<String, RoleKeys>,
    /// their keys
    keys: BTreeMap<String, Key>,
}

/// A registry folder that is written to.
#[derive(Clone, Debug)]
pub struct Repository {
    folder: PathBuf,
    /// where files are written to, when it is not the registry itself
    into: Option<PathBuf>,
    /// the time that documents are made at
    pub now: Time,
    /// how long they hold
    pub lifetimes: Lifetimes,
}

impl Repository {
    /// Begins a registry in a new or empty folder: root, an empty top role, `reviewed`, snapshot, timestamp.
    ///
    /// # Errors
    /// When there is something in the folder, or a threshold cannot be reached.
    pub fn init(folder: &Path, keys: &Keys, now: Time) -> Result<Self, Error> {
        if folder.exists() && fs::read_dir(folder)?.next().is_some() {
            return Err(Error::Exists(folder.to_path_buf()));
        }
        let repository = Self::at(folder, now);
        let mut root = Root {
            kind: Root::TYPE.to_owned(),
            consistent_snapshot: true,
            expires: repository.until("root", repository.lifetimes.root)?,
            keys: BTreeMap::new(),
            roles: BTreeMap::new(),
            spec_version: SPEC_VERSION.to_owned(),
            version: 1,
        };
        for (role, signers) in [
            ("root", &keys.root),
            ("targets", &keys.targets),
            ("snapshot", &keys.snapshot),
            ("timestamp", &keys.timestamp),
        ] {
            let bound = role_keys(role, &signers.public(), signers.threshold, &mut root.keys)?;
            root.roles.insert(role.to_owned(), bound);
        }
        let mut delegations = Delegations::default();
        let bound = role_keys("reviewed", &keys.reviewed.public(), keys.reviewed.threshold, &mut delegations.keys)?;
        delegations.roles.push(DelegatedRole {
            keyids: bound.keyids,
            name: layout::REVIEWED.to_owned(),
            paths: vec!["*/*/*".to_owned()],
            terminating: false,
            threshold: bound.threshold,
        });
        fs::create_dir_all(folder.join(layout::METADATA))?;
        fs::create_dir_all(folder.join(layout::TARGETS))?;
        let mut envelope = Envelope::unsigned(root);
        repository.sign_all(&mut envelope, &refs(&keys.root))?;
        repository.verify(&envelope, "root", &envelope.signed.roles, &envelope.signed.keys)?;
        repository.write(&layout::metadata_path(1, "root"), &repository.bytes(&envelope)?)?;
        let mut targets = Targets::empty(1, repository.until("targets", repository.lifetimes.targets)?);
        targets.delegations = Some(delegations);
        repository.put("targets", targets, &refs(&keys.targets))?;
        let reviewed = Targets::empty(1, repository.until("reviewed", repository.lifetimes.reviewed)?);
        repository.put(layout::REVIEWED, reviewed, &refs(&keys.reviewed))?;
        repository.snapshot_and_timestamp(&refs(&keys.snapshot), &refs(&keys.timestamp))?;
        Ok(repository)
    }

    /// An existing registry.
    ///
    /// # Errors
    /// When the folder holds none.
    pub fn open(folder: &Path, now: Time) -> Result<Self, Error> {
        let repository = Self::at(folder, now);
        repository.root()?;
        Ok(repository)
    }

    fn at(folder: &Path, now: Time) -> Self {
        Self { folder: folder.to_path_buf(), into: None, now, lifetimes: Lifetimes::default() }
    }

    /// The same registry, read as it is; what is written goes into another folder and follows on the newest
    /// documents, whether a snapshot names them or not. That folder holds what a pull request adds.
    pub fn proposing(&self, into: &Path) -> Self {
        Self { into: Some(into.to_path_buf()), ..self.clone() }
    }

    /// Waits until no other command changes the registry, and removes what killed ones left of files that they were
    /// writing. The lock ends with what is given back, also when the process is killed.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn lock(&self) -> Result<std::fs::File, Error> {
        // The folder itself is locked: everything in it is published.
        let folder = fs::File::open(&self.folder)?.into_file();
        match folder.lock() {
            Err(error) if error.kind() != std::io::ErrorKind::Unsupported => return Err(error.into()),
            _ => {}
        }
        files::sweep_unfinished(&self.folder, std::time::Duration::ZERO);
        let mut folders: Vec<PathBuf> =
            [layout::METADATA, layout::TARGETS, STAGING].iter().map(|name| self.folder.join(name)).collect();
        while let Some(next) = folders.pop() {
            files::sweep_unfinished(&next, std::time::Duration::ZERO);
            for entry in std::fs::read_dir(&next).into_iter().flatten().filter_map(Result::ok) {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(entry.path());
                }
            }
        }
        Ok(folder)
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The newest root and its file's bytes.
    ///
    /// # Errors
    /// When there is none or it is no root.
    pub fn root(&self) -> Result<Envelope<Root>, Error> {
        let newest = self.newest("root")?.ok_or_else(|| Error::NoRegistry(self.folder.clone()))?;
        Ok(self.read(newest, "root")?.0)
    }

    /// The newest top role, pending or not.
    ///
    /// # Errors
    /// When there is none.
    pub fn targets(&self) -> Result<Envelope<Targets>, Error> {
        let role = "targets";
        let newest = self.newest(role)?.ok_or_else(|| self.no_role("role `targets`".to_owned()))?;
        Ok(self.read(newest, role)?.0)
    }

    /// Who signs a role below the root or the top role, and the keys for it.
    ///
    /// # Errors
    /// When there is no such role.
    pub fn signers(&self, role: &str) -> Result<(RoleKeys, BTreeMap<String, Key>), Error> {
        let root = self.root()?.signed;
        if let Some(keys) = root.roles.get(role) {
            return Ok((keys.clone(), root.keys));
        }
        let authority = self.authority()?;
        let (signers, keys) = self.signers_in(&authority, role)?;
        Ok((signers.clone(), keys.clone()))
    }

    /// Who signs what, for asking about many roles.
    fn authority(&self) -> Result<Authority, Error> {
        let delegations = self.targets()?.signed.delegations.unwrap_or_default();
        let roles = delegations.roles.iter().map(|role| (role.name.clone(), role.role_keys())).collect();
        Ok(Authority { root: self.root()?.signed, roles, keys: delegations.keys })
    }

    /// As [`Repository::signers`].
    fn signers_in<'a>(
        &self,
        authority: &'a Authority,
        role: &str,
    ) -> Result<(&'a RoleKeys, &'a BTreeMap<String, Key>), Error> {
        if let Some(signers) = authority.root.roles.get(role) {
            return Ok((signers, &authority.root.keys));
        }
        let found = authority.roles.get(role).ok_or_else(|| self.no_role(role_name(role)))?;
        Ok((found, &authority.keys))
    }

    /// The names of the publishers, in the order in which they were added.
    ///
    /// # Errors
    /// When the top role cannot be read.
    pub fn publishers(&self) -> Result<Vec<String>, Error> {
        let delegations = self.targets()?.signed.delegations.unwrap_or_default();
        let names = delegations.roles.into_iter().map(|role| role.name);
        Ok(names.filter(|name| !layout::is_of_reviewers(name)).collect())
    }

    /// The roles below the root that list something: the top role, the reviewers' and the publishers'.
    ///
    /// # Errors
    /// When the top role cannot be read.
    pub fn listing_roles(&self) -> Result<Vec<String>, Error> {
        let delegations = self.targets()?.signed.delegations.unwrap_or_default();
        Ok(std::iter::once("targets".to_owned()).chain(delegations.roles.into_iter().map(|role| role.name)).collect())
    }

    /// The documents in which the reviewers countersign, as far as there are any.
    fn review_roles(&self) -> Result<Vec<String>, Error> {
        let mut roles = Vec::new();
        for role in self.listing_roles()? {
            if layout::reviewed_publisher(&role).is_some() && self.newest(&role)?.is_some() {
                roles.push(role);
            }
        }
        Ok(roles)
    }

    /// A publisher's newest document, pending or not; none when nothing was published.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn role(&self, role: &str) -> Result<Option<Envelope<Targets>>, Error> {
        self.newest(role)?.map(|version| Ok(self.read(version, role)?.0)).transpose()
    }

    /// The newest snapshot; none before the first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn snapshot(&self) -> Result<Option<Envelope<Snapshot>>, Error> {
        self.newest("snapshot")?.map(|version| Ok(self.read(version, "snapshot")?.0)).transpose()
    }

    /// Adds one file to a publisher's role; see [`Repository::publish`].
    ///
    /// # Errors
    /// As there.
    pub fn add_target(
        &self,
        target: &Target,
        bytes: &[u8],
        record: Option<RuleRecord>,
        signing: &[&SigningKey],
    ) -> Result<(), Error> {
        let new = NewTarget { target: target.clone(), bytes: bytes.to_vec(), record };
        self.publish(target.rule.publisher(), &[new], signing)
    }

    /// Adds files to a publisher's role: the bytes below `targets/`, then the document that lists them. Without
    /// `signing` the document is written unsigned, for keys that are elsewhere.
    ///
    /// # Errors
    /// When a file belongs to somebody else, is too large, or was published with other bytes.
    pub fn publish(&self, publisher: &str, new: &[NewTarget], signing: &[&SigningKey]) -> Result<(), Error> {
        let mut files = Vec::new();
        for new in new {
            files.push((new.target.clone(), TargetFile::of(&new.bytes, new.record.clone())));
        }
        let document = self.listing(publisher, &files)?;
        for (new, (target, file)) in new.iter().zip(&files) {
            self.write(&layout::target_path(target, &file.hashes.sha256), &new.bytes)?;
        }
        self.put(publisher, document, signing)
    }

    /// As [`Repository::publish`], for files whose bytes lie elsewhere, as where one host has the documents and
    /// another one the files.
    ///
    /// # Errors
    /// As there.
    pub fn list(&self, publisher: &str, files: &[(Target, TargetFile)], signing: &[&SigningKey]) -> Result<(), Error> {
        let document = self.listing(publisher, files)?;
        self.put(publisher, document, signing)
    }

    /// A publisher's next document with these files.
    fn listing(&self, publisher: &str, files: &[(Target, TargetFile)]) -> Result<Targets, Error> {
        name::check_publisher(publisher)?;
        let mut document = self.next(publisher, self.lifetimes.publisher)?;
        for (target, file) in files {
            let path = target.to_string();
            if target.rule.publisher() != publisher {
                return Err(Error::Foreign { target: path, publisher: publisher.to_owned() });
            }
            if file.length > layout::MOST_TARGET_BYTES {
                return Err(Error::Large { what: path, found: file.length, most: layout::MOST_TARGET_BYTES });
            }
            if document.targets.get(&path).is_some_and(|old| !old.is_same_file(file)) {
                return Err(Error::Published(path));
            }
            document.targets.insert(path, file.clone());
        }
        Ok(document)
    }

    /// Changes what a publisher says about a component, for instance that it was taken back. The bytes stay.
    ///
    /// # Errors
    /// When it is not listed, or says nothing.
    pub fn change_record(
        &self,
        target: &Target,
        signing: &[&SigningKey],
        change: impl FnOnce(&mut RuleRecord),
    ) -> Result<(), Error> {
        let publisher = target.rule.publisher();
        let mut document = self.next(publisher, self.lifetimes.publisher)?;
        let listed = document.targets.get_mut(&target.to_string()).and_then(|file| file.custom.as_mut());
        let missing = || Error::NoTarget { target: target.to_string(), publisher: publisher.to_owned() };
        change(&mut listed.ok_or_else(missing)?.dd);
        self.put(publisher, document, signing)
    }

    /// Countersigns files as their publishers' roles list them now. `signing` are keys of `reviewed`.
    ///
    /// # Errors
    /// When one of them is not listed.
    pub fn review(&self, targets: &[Target], signing: &[&SigningKey]) -> Result<(), Error> {
        let mut documents: BTreeMap<&str, (BTreeMap<String, TargetFile>, Targets)> = BTreeMap::new();
        for target in targets {
            let publisher = target.rule.publisher();
            if !documents.contains_key(publisher) {
                let listed = self.role(publisher)?.map(|role| role.signed.targets).unwrap_or_default();
                let document = self.next(&layout::review_role(publisher), self.lifetimes.reviewed)?;
                documents.insert(publisher, (listed, document));
            }
            let Some((listed, document)) = documents.get_mut(publisher) else { continue };
            let listed = listed.get(&target.to_string()).cloned();
            let missing = || Error::NoTarget { target: target.to_string(), publisher: publisher.to_owned() };
            let file = TargetFile { custom: None, ..listed.ok_or_else(missing)? };
            document.targets.insert(target.to_string(), file);
        }
        for (publisher, (_, document)) in documents {
            self.put(&layout::review_role(publisher), document, signing)?;
        }
        Ok(())
    }

    /// Forbids a component for everybody, by the hash of its bytes. `signing` are keys of `reviewed`.
    ///
    /// # Errors
    /// When the document cannot be written.
    pub fn revoke(&self, sha256: &str, reason: &str, signing: &[&SigningKey]) -> Result<(), Error> {
        let mut document = self.next(layout::REVIEWED, self.lifetimes.reviewed)?;
        document.revoked.insert(sha256.to_owned(), reason.to_owned());
        self.put(layout::REVIEWED, document, signing)
    }

    /// A role's document once more with a later expiry and nothing else changed; for `reviewed`, all that the
    /// reviewers sign.
    ///
    /// # Errors
    /// When there is none.
    pub fn renew(&self, role: &str, signing: &[&SigningKey]) -> Result<(), Error> {
        let document = self.next(role, self.lifetime(role))?;
        self.put(role, document, signing)?;
        if role == layout::REVIEWED {
            for role in self.review_roles()? {
                self.renew(&role, signing)?;
            }
        }
        Ok(())
    }

    /// How long a document of a role below the root holds.
    pub(super) fn lifetime(&self, role: &str) -> SignedDuration {
        match role {
            "targets" => self.lifetimes.targets,
            role if layout::is_of_reviewers(role) => self.lifetimes.reviewed,
            _ => self.lifetimes.publisher,
        }
    }

    /// Adds signatures to the newest document of the top role, of the reviewers or of a publisher, while no
    /// snapshot names it; for `reviewed`, to all that the reviewers sign and that waits. Gives the documents that
    /// were signed: `acme 3`.
    ///
    /// # Errors
    /// When the role does not know a key, or the document is published.
    pub fn sign_role(&self, role: &str, signing: &[&SigningKey]) -> Result<Vec<String>, Error> {
        if role != layout::REVIEWED {
            return Ok(vec![format!("{role} {}", self.sign_one(role, signing)?)]);
        }
        let mut signed = Vec::new();
        for waiting in self.waiting()? {
            let of = waiting.split(' ').next().unwrap_or_default();
            if layout::is_of_reviewers(of) {
                self.sign_one(of, signing)?;
                signed.push(waiting);
            }
        }
        if signed.is_empty() {
            // Says that the newest one is published.
            self.sign_one(role, signing)?;
        }
        Ok(signed)
    }

    fn sign_one(&self, role: &str, signing: &[&SigningKey]) -> Result<u64, Error> {
        let (version, published) = (self.newest(role)?, self.published(role)?);
        let version = version.ok_or_else(|| self.no_role(role_name(role)))?;
        if published == Some(version) {
            return Err(Error::Published(layout::metadata_path(version, role)));
        }
        let (mut envelope, _) = self.read::<Targets>(version, role)?;
        self.allowed(role, signing)?;
        self.sign_all(&mut envelope, signing)?;
        self.write(&layout::metadata_path(version, role), &self.bytes(&envelope)?)?;
        Ok(version)
    }
}

/// How a role is called in a message.
pub(super) fn role_name(role: &str) -> String {
    match role {
        "root" | "targets" | "snapshot" | "timestamp" => format!("role `{role}`"),
        role if layout::is_of_reviewers(role) => format!("role `{role}`"),
        publisher => format!("publisher `{publisher}`"),
    }
}

fn refs(signers: &Signers) -> Vec<&SigningKey> {
    signers.keys.iter().collect()
}

/// Puts keys among those of a document and says who signs a role.
pub(super) fn role_keys(
    role: &str,
    public: &[PublicKey],
    threshold: u32,
    keys: &mut BTreeMap<String, Key>,
) -> Result<RoleKeys, Error> {
    let mut keyids: Vec<String> = public.iter().map(PublicKey::key_id).collect();
    keyids.sort_unstable();
    keyids.dedup();
    if threshold == 0 || threshold as usize > keyids.len() {
        return Err(Error::Threshold { role: role.to_owned(), threshold, keys: keyids.len() });
    }
    keys.extend(public.iter().map(|key| (key.key_id(), Key::of(key))));
    Ok(RoleKeys { keyids, threshold })
}
