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
            let role = DelegatedRole {
                keyids: bound.keyids,
                name: publisher.to_owned(),
                paths: vec![format!("{publisher}/*/*")],
                terminating: true,
                threshold: bound.threshold,
            };
            // The reviewers come after the publishers: a client that does not know them never asks them.
            let after = |is: fn(&str) -> bool| delegations.roles.iter().position(|role| is(&role.name));
            let (first, last) = (after(layout::is_of_reviewers), after(|name| name == layout::REVIEWED));
            if let Some(last) = last
                && let Some(reviewers) = delegations.roles.get(last)
            {
                let review = DelegatedRole {
                    name: layout::review_role(publisher),
                    paths: role.paths.clone(),
                    ..reviewers.clone()
                };
                delegations.roles.insert(last, review);
            }
            delegations.roles.insert(first.unwrap_or(delegations.roles.len()), role);
            Ok(())
        })
    }

    /// Gives a publisher, or the reviewers, other keys. `signing` are keys of the top role. What the reviewers
    /// countersigned has the keys of `reviewed`, and no others.
    ///
    /// # Errors
    /// When there is no such role, or it is the one in which a publisher's files are countersigned.
    pub fn replace_keys(
        &self,
        role: &str,
        keys: &[PublicKey],
        threshold: u32,
        signing: &[&SigningKey],
    ) -> Result<(), Error> {
        if layout::reviewed_publisher(role).is_some() {
            return Err(Error::KeysOfReviewed(role.to_owned()));
        }
        let missing = self.no_role(role_name(role));
        self.edit_targets(signing, |delegations| {
            let bound = role_keys(&role_name(role), keys, threshold, &mut delegations.keys)?;
            let mut missing = Some(missing);
            for found in &mut delegations.roles {
                if found.name == role || (role == layout::REVIEWED && layout::is_of_reviewers(&found.name)) {
                    (found.keyids, found.threshold) = (bound.keyids.clone(), bound.threshold);
                    missing = None;
                }
            }
            missing.map_or(Ok(()), Err)
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
            let review = layout::review_role(publisher);
            delegations.roles.retain(|role| role.name != publisher && role.name != review);
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
        let root = self.root()?.signed;
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for role in &delegations.roles {
            for id in role.keyids.iter().filter(|_| !layout::is_of_reviewers(&role.name)) {
                if let Some((owner, _)) = root.roles.iter().find(|(_, owner)| owner.keyids.contains(id)) {
                    let fingerprint = key::fingerprint(id);
                    return Err(Error::SharedKey { fingerprint, roles: (owner.clone(), role.name.clone()) });
                }
            }
            // The reviewers have the same keys everywhere.
            let name = if layout::is_of_reviewers(&role.name) { layout::REVIEWED } else { &role.name };
            for id in &role.keyids {
                if let Some(owner) = owners.insert(id, name).filter(|owner| *owner != name) {
                    let (fingerprint, new) = (key::fingerprint(id), name.to_owned());
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
