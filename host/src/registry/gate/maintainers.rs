//! The maintainers' documents: root, the top role, `reviewed`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::layout;
use super::super::metadata::{DelegatedRole, Delegations, Key, Root, Targets};
use super::super::name::{self, Target};
use super::super::writer;
use super::{Gate, New};
use crate::sandbox::printable;

/// Longest life of a root, in days.
const MOST_ROOT_DAYS: i64 = 400;
/// Longest life of the top role and of `reviewed`, in days.
const MOST_DAYS: i64 = 365;

impl Gate<'_> {
    /// A root is signed by the keys that it replaces and by its own.
    pub(super) fn root(&mut self, new: &New<'_>) -> Result<(), writer::Error> {
        let Some(envelope) = self.document::<Root>(new, layout::MOST_ROOT_BYTES)? else { return Ok(()) };
        if !self.signed(new, &envelope)? {
            return Ok(());
        }
        let root = &envelope.signed;
        match root.roles.get("root") {
            Some(own) if envelope.verify("it", own, &root.keys).is_ok() => {}
            Some(own) => {
                let found = envelope.signers(own, &root.keys).unwrap_or(0);
                self.say(&new.path, format!("it has {found} of {} signatures by its own keys", own.threshold));
            }
            None => self.say(&new.path, "it does not say who signs the next root"),
        }
        self.expiry(&new.path, root.expires, MOST_ROOT_DAYS);
        if !root.consistent_snapshot {
            self.say(&new.path, "it gives up versions in file names (`consistent_snapshot`)");
        }
        self.keys(&new.path, &root.keys);
        let names: Vec<&str> = root.roles.keys().map(String::as_str).collect();
        if names != ["root", "snapshot", "targets", "timestamp"] {
            self.say(&new.path, "its roles are not root, snapshot, targets and timestamp");
        }
        for (role, signers) in &root.roles {
            self.threshold(&new.path, role, &signers.keyids, signers.threshold, &root.keys);
        }
        self.verdict.does.push(format!("makes root {}", root.version));
        self.root = Some(envelope.signed);
        Ok(())
    }

    /// The top role delegates, and lists no file itself.
    pub(super) fn targets(&mut self, new: &New<'_>) -> Result<(), writer::Error> {
        let Some(envelope) = self.document::<Targets>(new, layout::MOST_ROLE_BYTES)? else { return Ok(()) };
        if !self.signed(new, &envelope)? {
            return Ok(());
        }
        let document = envelope.signed;
        self.expiry(&new.path, document.expires, MOST_DAYS);
        if !document.targets.is_empty() || !document.revoked.is_empty() {
            self.say(&new.path, "it lists files, and the top role only says who the publishers are");
        }
        let old = self.base.targets()?.signed.delegations.unwrap_or_default();
        self.top = Some(document.clone());
        let Some(delegations) = document.delegations else {
            self.say(&new.path, "it has no publishers and no `reviewed`");
            return Ok(());
        };
        self.keys(&new.path, &delegations.keys);
        let last = delegations.roles.last().map(|role| role.name.as_str());
        if last != Some(layout::REVIEWED) {
            self.say(&new.path, "`reviewed` does not come last");
        }
        self.reviewers(new, &delegations);
        let root = match &self.root {
            Some(root) => root.clone(),
            None => self.base.root()?.signed,
        };
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for role in &delegations.roles {
            self.threshold(&new.path, &role.name, &role.keyids, role.threshold, &delegations.keys);
            if !seen.insert(&role.name) {
                self.say(&new.path, format!("it has two roles `{}`", role.name));
            }
            let name = if layout::is_of_reviewers(&role.name) { layout::REVIEWED } else { &role.name };
            for keyid in role.keyids.iter().filter(|_| name != layout::REVIEWED) {
                if let Some((owner, _)) = root.roles.iter().find(|(_, owner)| owner.keyids.contains(keyid)) {
                    self.say(&new.path, format!("`{owner}` and `{name}` have the same key"));
                }
            }
            for keyid in &role.keyids {
                if let Some(owner) = owners.insert(keyid, name).filter(|owner| *owner != name) {
                    self.say(&new.path, format!("`{name}` and `{owner}` have the same key"));
                }
            }
            self.delegation(new, role);
        }
        self.new_publishers(new, &old, &delegations);
        Ok(())
    }

    /// Every publisher has a role in which its files are countersigned, by the keys of `reviewed`, and these come
    /// after all publishers.
    fn reviewers(&mut self, new: &New<'_>, delegations: &Delegations) {
        let reviewed =
            delegations.roles.iter().find(|role| role.name == layout::REVIEWED).map(DelegatedRole::role_keys);
        let named = |name: &str| delegations.roles.iter().any(|role| role.name == name);
        let mut after = false;
        for role in &delegations.roles {
            let Some(publisher) = layout::reviewed_publisher(&role.name) else {
                let publisher = role.name != layout::REVIEWED;
                if publisher && after {
                    self.say(&new.path, format!("`{}` comes after the reviewers", printable(&role.name, 80)));
                }
                if publisher && !named(&layout::review_role(&role.name)) {
                    self.say(&new.path, format!("nobody reviews `{}`", printable(&role.name, 80)));
                }
                continue;
            };
            after = true;
            if reviewed.as_ref() != Some(&role.role_keys()) {
                self.say(&new.path, format!("the keys of `{}` are not those of `reviewed`", role.name));
            }
            if !named(publisher) {
                self.say(&new.path, format!("`{}` reviews nobody: `{publisher}` does not publish", role.name));
            }
        }
    }

    /// The shape of a delegation follows from its name.
    fn delegation(&mut self, new: &New<'_>, role: &DelegatedRole) {
        let reviewed = layout::is_of_reviewers(&role.name);
        if !reviewed && let Err(error) = name::check_publisher(&role.name) {
            self.say(&new.path, error.to_string());
            return;
        }
        let own = match layout::reviewed_publisher(&role.name) {
            None if reviewed => "*/*/*".to_owned(),
            publisher => format!("{}/*/*", publisher.unwrap_or(&role.name)),
        };
        if role.paths != [own.clone()] || role.terminating == reviewed {
            let kind = if reviewed { "not " } else { "" };
            let what = format!("the delegation of `{}` is not `{own}`, {kind}terminating", role.name);
            self.say(&new.path, what);
        }
    }

    fn new_publishers(&mut self, new: &New<'_>, old: &Delegations, delegations: &Delegations) {
        let find = |delegations: &Delegations, name: &str| {
            delegations.roles.iter().find(|role| role.name == name).map(|role| (role.keyids.clone(), role.threshold))
        };
        for role in delegations.roles.iter().filter(|role| layout::reviewed_publisher(&role.name).is_none()) {
            match find(old, &role.name) {
                None => {
                    for known in old.roles.iter().filter(|known| name::confusable(&known.name, &role.name)) {
                        self.say(&new.path, format!("`{}` could be taken for `{}`", role.name, known.name));
                    }
                    self.verdict.does.push(format!("adds the publisher {}", role.name));
                }
                Some(before) if before != (role.keyids.clone(), role.threshold) => {
                    self.verdict.does.push(format!("changes the keys of {}", role.name));
                }
                Some(_) => {}
            }
        }
        let publishers = old.roles.iter().filter(|role| !layout::is_of_reviewers(&role.name));
        for gone in publishers.filter(|role| find(delegations, &role.name).is_none()) {
            self.verdict.does.push(format!("removes the publisher {}", gone.name));
        }
    }

    /// `reviewed` revokes; the review of a publisher repeats what that publisher lists.
    pub(super) fn reviewed(&mut self, new: &New<'_>, documents: &[New<'_>]) -> Result<(), writer::Error> {
        let Some(envelope) = self.document::<Targets>(new, layout::MOST_ROLE_BYTES)? else { return Ok(()) };
        if !self.signed(new, &envelope)? {
            return Ok(());
        }
        let document = envelope.signed;
        let publisher = layout::reviewed_publisher(&new.role);
        self.expiry(&new.path, document.expires, MOST_DAYS);
        if document.delegations.is_some() {
            self.say(&new.path, format!("`{}` may not let others review", new.role));
        }
        if publisher.is_none() && !document.targets.is_empty() {
            self.say(&new.path, "it lists files, and `reviewed` only revokes");
            return Ok(());
        }
        if publisher.is_some() && !document.revoked.is_empty() {
            self.say(&new.path, "only `reviewed` revokes components");
        }
        let old = self.base.role(&new.role)?.map(|envelope| envelope.signed);
        let (old_targets, old_revoked) = old.map(|old| (old.targets, old.revoked)).unwrap_or_default();
        for (path, file) in document.targets.iter().filter(|(path, file)| old_targets.get(*path) != Some(file)) {
            let Ok(target) = path.parse::<Target>() else {
                self.say(&new.path, format!("`{}` is no file of a rule", printable(path, 200)));
                continue;
            };
            if publisher != Some(target.rule.publisher()) {
                self.say(
                    &new.path,
                    format!("it countersigns `{path}`, which is not below `{}/`", publisher.unwrap_or("")),
                );
                continue;
            }
            let merged = self.merged(target.rule.publisher(), documents)?;
            let listed = merged.as_ref().and_then(|role| role.targets.get(path));
            if file.custom.is_some() || !listed.is_some_and(|listed| listed.is_same_file(file)) {
                self.say(&new.path, format!("it countersigns `{path}`, and the publisher lists no such bytes"));
            } else {
                self.verdict.does.push(format!("countersigns {path}"));
            }
        }
        for (sha256, reason) in document.revoked.iter().filter(|(sha256, _)| !old_revoked.contains_key(*sha256)) {
            if sha256.len() != 64 || hex::decode(sha256).is_err() || printable(reason, 500) != *reason {
                self.say(&new.path, "a revocation is not a SHA-256 with a reason in a line");
            } else {
                self.verdict.does.push(format!("revokes {sha256}: {reason}"));
            }
        }
        for sha256 in old_revoked.keys().filter(|sha256| !document.revoked.contains_key(*sha256)) {
            self.say(&new.path, format!("{sha256} was revoked, and a revocation is never withdrawn"));
        }
        Ok(())
    }

    /// Keys must be Ed25519 and named by their hash.
    fn keys(&mut self, path: &str, keys: &BTreeMap<String, Key>) {
        for (id, key) in keys {
            if key.public().is_none() {
                self.say(path, format!("the key {} is not an Ed25519 key", printable(id, 64)));
            } else if key.id() != *id {
                self.say(path, format!("the key {} is not named by its hash", printable(id, 64)));
            }
        }
    }

    fn threshold(&mut self, path: &str, role: &str, keyids: &[String], threshold: u32, keys: &BTreeMap<String, Key>) {
        let known: BTreeSet<&String> = keyids.iter().filter(|id| keys.contains_key(*id)).collect();
        if threshold == 0 || threshold as usize > known.len() || known.len() != keyids.len() {
            let role = printable(role, 80);
            self.say(path, format!("`{role}` wants {threshold} of {} known keys", known.len()));
        }
    }
}
