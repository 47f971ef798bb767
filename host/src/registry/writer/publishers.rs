//! Who may publish: the delegations of the top role.

use std::collections::BTreeMap;

use super::super::key::{self, PublicKey, SigningKey};
use super::super::layout;
use super::super::metadata::{DelegatedRole, Delegations};
use super::super::name;
use super::{Error, Repository, role_keys, role_name};

impl Repository {
    /// Lets a publisher publish below its name. `signing` are keys of the top role.
    ///
    /// # Errors
    /// When the name is taken, could be taken for another one, or is none.
    pub fn add_publisher(
        &self,
        publisher: &str,
        keys: &[PublicKey],
        threshold: u32,
        signing: &[&SigningKey],
    ) -> Result<(), Error> {
        name::check_publisher(publisher)?;
        for old in self.publishers()? {
            if old == publisher {
                return Err(Error::PublisherExists(old));
            }
            if name::confusable(&old, publisher) {
                return Err(Error::Confusable { new: publisher.to_owned(), old });
            }
        }
        self.edit_targets(signing, |delegations| {
            let bound = role_keys(&role_name(publisher), keys, threshold, &mut delegations.keys)?;
            // `reviewed` stays last: a client that does not know it never asks it.
            let at = delegations.roles.iter().position(|role| role.name == layout::REVIEWED);
            let role = DelegatedRole {
                keyids: bound.keyids,
                name: publisher.to_owned(),
                paths: vec![format!("{publisher}/*/*")],
                terminating: true,
                threshold: bound.threshold,
            };
            delegations.roles.insert(at.unwrap_or(delegations.roles.len()), role);
            Ok(())
        })
    }

    /// Gives a publisher, or `reviewed`, other keys. `signing` are keys of the top role.
    ///
    /// # Errors
    /// When there is no such role.
    pub fn replace_keys(
        &self,
        role: &str,
        keys: &[PublicKey],
        threshold: u32,
        signing: &[&SigningKey],
    ) -> Result<(), Error> {
        let missing = self.no_role(role_name(role));
        self.edit_targets(signing, |delegations| {
            let bound = role_keys(&role_name(role), keys, threshold, &mut delegations.keys)?;
            let found = delegations.roles.iter_mut().find(|delegated| delegated.name == role).ok_or(missing)?;
            (found.keyids, found.threshold) = (bound.keyids, bound.threshold);
            Ok(())
        })
    }

    /// Takes a publisher's right to publish away. Its documents stay in the snapshot, because clients refuse a
    /// snapshot that forgets a role.
    ///
    /// # Errors
    /// When there is no such publisher.
    pub fn remove_publisher(&self, publisher: &str, signing: &[&SigningKey]) -> Result<(), Error> {
        name::check_publisher(publisher)?;
        let missing = self.no_role(role_name(publisher));
        self.edit_targets(signing, |delegations| {
            let before = delegations.roles.len();
            delegations.roles.retain(|role| role.name != publisher);
            if delegations.roles.len() == before { Err(missing) } else { Ok(()) }
        })
    }

    fn edit_targets(
        &self,
        signing: &[&SigningKey],
        edit: impl FnOnce(&mut Delegations) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut document = self.next("targets", self.lifetimes.targets)?;
        let mut delegations = document.delegations.take().unwrap_or_default();
        edit(&mut delegations)?;
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for role in &delegations.roles {
            for id in &role.keyids {
                if let Some(owner) = owners.insert(id, &role.name).filter(|owner| *owner != role.name) {
                    let (fingerprint, new) = (key::fingerprint(id), role.name.clone());
                    return Err(Error::SharedKey { fingerprint, roles: (owner.to_owned(), new) });
                }
            }
        }
        // Keys that no role uses any more must not linger.
        let used: Vec<String> = delegations.roles.iter().flat_map(|role| role.keyids.clone()).collect();
        delegations.keys.retain(|id, _| used.contains(id));
        document.delegations = Some(delegations);
        self.put("targets", document, signing)
    }
}
