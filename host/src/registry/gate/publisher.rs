//! A publisher's document: only its own files, only additions, whole packages.

use std::collections::{BTreeMap, BTreeSet};

use super::super::layout;
use super::super::metadata::{TargetFile, Targets};
use super::super::name::{RuleName, Target, TargetKind};
use super::super::pack::Package;
use super::super::writer;
use super::{Gate, New};
use crate::sandbox::printable;

/// Longest life of a publisher's document, in days.
const MOST_DAYS: i64 = 365;
/// Longest reason of a yank, in bytes.
const MOST_REASON: usize = 500;

impl Gate<'_> {
    /// False when the document is not even looked into.
    pub(super) fn publisher(&mut self, new: &New<'_>) -> Result<bool, writer::Error> {
        let publisher = new.role.as_str();
        let top = self.top.as_ref().and_then(|top| top.delegations.as_ref());
        let comes_along = top.is_some_and(|top| top.roles.iter().any(|role| role.name == publisher));
        if !comes_along && !self.base.publishers()?.iter().any(|known| known == publisher) {
            self.say(&new.path, format!("the merged registry has no publisher `{publisher}`"));
            return Ok(false);
        }
        let Some(envelope) = self.document::<Targets>(new, layout::MOST_ROLE_BYTES)? else { return Ok(false) };
        if !self.signed(new, &envelope)? {
            return Ok(false);
        }
        let document = envelope.signed;
        self.expiry(&new.path, document.expires, MOST_DAYS);
        if document.delegations.is_some() {
            self.say(&new.path, "a publisher may not let others publish in its name");
        }
        if !document.revoked.is_empty() {
            self.say(&new.path, "only `reviewed` revokes components");
        }
        let old = self.base.role(publisher)?.map(|envelope| envelope.signed.targets).unwrap_or_default();
        for (path, file) in &old {
            match document.targets.get(path) {
                None => self.say(&new.path, format!("it does not list `{path}` any more")),
                Some(now) if !now.is_same_file(file) => {
                    self.say(&new.path, format!("it lists other bytes for the published `{path}`"));
                }
                Some(now) => self.record_change(new, path, file, now),
            }
        }
        let mut versions: BTreeMap<(RuleName, semver::Version), BTreeMap<TargetKind, &TargetFile>> = BTreeMap::new();
        for (path, file) in document.targets.iter().filter(|(path, _)| !old.contains_key(*path)) {
            match path.parse::<Target>() {
                Err(error) => self.say(&new.path, error.to_string()),
                Ok(target) if target.rule.publisher() != publisher => {
                    self.say(&new.path, format!("it lists `{target}`, which is not below `{publisher}/`"));
                }
                Ok(target) => {
                    versions.entry((target.rule, target.version)).or_default().insert(target.kind, file);
                }
            }
        }
        let mut owners = self.rule_ids(publisher)?;
        for ((rule, version), files) in versions {
            self.version(new, &rule, &version, &files, &mut owners)?;
        }
        Ok(true)
    }

    /// Of a published record, only a yank may change, and only once.
    fn record_change(&mut self, new: &New<'_>, path: &str, old: &TargetFile, now: &TargetFile) {
        if old.custom == now.custom {
            return;
        }
        let (Some(old), Some(now)) = (&old.custom, &now.custom) else {
            self.say(&new.path, format!("what it says about the published `{path}` has changed"));
            return;
        };
        let (old, now) = (&old.dd, &now.dd);
        if let Some(field) = old.difference(now) {
            self.say(&new.path, format!("the {field} of the published `{path}` has changed"));
        }
        match (&old.yanked, &now.yanked) {
            (Some(_), None) => self.say(&new.path, format!("`{path}` was yanked, and a yank is never withdrawn")),
            (Some(old), Some(now)) if old.security && !now.security => {
                self.say(&new.path, format!("`{path}` was yanked for security, and stays so"));
            }
            (_, Some(now)) if now.reason.is_empty() || printable(&now.reason, MOST_REASON) != now.reason => {
                let what = format!("the reason for yanking `{path}` is no line of at most {MOST_REASON} bytes");
                self.say(&new.path, what);
            }
            (_, Some(now)) => {
                let kind = if now.security { " for security" } else { "" };
                self.verdict.does.push(format!("yanks {path}{kind}: {}", now.reason));
            }
            (None, None) => {}
        }
    }

    /// A new version: three files that are a package, and a record that follows from them.
    fn version(
        &mut self,
        new: &New<'_>,
        rule: &RuleName,
        version: &semver::Version,
        files: &BTreeMap<TargetKind, &TargetFile>,
        owners: &mut BTreeMap<String, RuleName>,
    ) -> Result<(), writer::Error> {
        let label = format!("{rule} {version}");
        let mut bytes = Vec::new();
        for kind in TargetKind::ALL {
            let target = rule.target(version, kind);
            let Some(file) = files.get(&kind) else {
                self.say(&new.path, format!("{label} lacks its `{}`", kind.ending()));
                continue;
            };
            if kind != TargetKind::Component && file.custom.is_some() {
                self.say(&new.path, format!("`{target}` has a record, and only components have one"));
            }
            bytes.extend(self.blob(&target, file));
        }
        let Ok([component, manifest, evidence]) = <[Vec<u8>; 3]>::try_from(bytes) else { return Ok(()) };
        let package = match Package::of(component, manifest, evidence) {
            Ok(package) => package,
            Err(error) => {
                self.say(&new.path, format!("{label}: {error}"));
                return Ok(());
            }
        };
        if package.manifest.name != rule.rule() || package.manifest.version != *version {
            self.say(&new.path, format!("{label}: its manifest says it is {}", package.label()));
            return Ok(());
        }
        let listed = files.get(&TargetKind::Component).and_then(|file| file.custom.as_ref());
        match listed {
            None => self.say(&new.path, format!("{label} has no record")),
            Some(listed) => {
                if let Some(field) = package.record().difference(&listed.dd) {
                    self.say(&new.path, format!("{label}: the {field} of its record is not the one of its manifest"));
                }
                if listed.dd.yanked.is_some() {
                    self.say(&new.path, format!("{label} is yanked before it was published"));
                }
            }
        }
        let id = &package.manifest.id;
        match owners.get(id) {
            Some(owner) if owner != rule => {
                self.say(&new.path, format!("{label}: the rule id `{id}` belongs to {owner}"));
            }
            _ => {
                owners.insert(id.clone(), rule.clone());
            }
        }
        if let Some(load) = self.load
            && let Err(reason) = load(&package)
        {
            self.say(&new.path, format!("{label}: {reason}"));
            return Ok(());
        }
        self.verdict.does.push(format!("publishes {label}, sha256 {}", package.manifest.component.sha256));
        self.verdict.packages.push((label, package));
        Ok(())
    }

    /// Which rule has which id, over all publishers that are merged.
    fn rule_ids(&self, first: &str) -> Result<BTreeMap<String, RuleName>, writer::Error> {
        let mut owners = BTreeMap::new();
        let mut publishers: BTreeSet<String> = self.base.publishers()?.into_iter().collect();
        publishers.insert(first.to_owned());
        for publisher in publishers {
            let Some(role) = self.base.role(&publisher)? else { continue };
            for (path, file) in role.signed.targets {
                if let (Ok(target), Some(custom)) = (path.parse::<Target>(), file.custom) {
                    owners.insert(custom.dd.rule, target.rule);
                }
            }
        }
        Ok(owners)
    }
}
