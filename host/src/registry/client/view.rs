//! A registry whose newest metadata was verified: who publishes what, which version to choose, its bytes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use jiff::Timestamp;

use super::replay::{TAKEN_BACK, YANKED, check_review};
use super::{Error, Registry, Verified, harmless, may_be_in_publication};
use crate::files::sha256_hex;
use crate::registry::catalog::{Catalog, Offer};
use crate::registry::layout::{self, REVIEWED};
use crate::registry::metadata::{RuleRecord, Yanked};
use crate::registry::name::{self, RuleName, Target, TargetKind};
use crate::registry::pack::Manifest;
use crate::registry::store::{Record, Store};
use crate::registry::trust::Pin;
use crate::registry::verify::{Chain, Problem, Publisher, Refused, Review, Signed, Stamp, Subject};

/// A registry whose newest metadata was verified.
#[derive(Debug)]
pub struct View {
    pub(super) registry: Arc<Registry>,
    pub(super) chain: Chain,
    pub(super) now: Timestamp,
    pub(super) stamp: Stamp,
    pub(super) seen: Verified,
    pub(super) roles: Vec<(String, Vec<u8>)>,
    pub(super) clock_behind: bool,
}

/// A version of a rule as a registry has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// the rule
    pub rule: RuleName,
    /// its version
    pub version: semver::Version,
    /// the component
    pub component: Signed,
    /// the manifest
    pub manifest: Signed,
    /// what the gates said, when it was published with it
    pub evidence: Option<Signed>,
    /// what the publisher says about it
    pub record: RuleRecord,
}

impl Release {
    /// Why it should not be used any more, when its publisher took it back.
    pub fn yanked(&self) -> Option<&Yanked> {
        self.record.yanked.as_ref()
    }
}

/// What may be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// also what the maintainers have not reviewed
    pub unreviewed: bool,
    /// also what its publisher took back
    pub yanked: bool,
}

impl View {
    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What was verified.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// True when the clock of this machine is more than a day behind what was seen.
    pub fn clock_is_behind(&self) -> bool {
        self.clock_behind
    }

    /// What the timestamp says.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Everybody who may publish.
    pub fn publishers(&self) -> Vec<Publisher> {
        self.chain.publishers()
    }

    /// The publisher of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn publisher(&self, name: &str) -> Result<Publisher, Error> {
        let found = self.chain.publishers().into_iter().find(|publisher| publisher.name == name);
        Ok(found.ok_or_else(|| self.chain.because(name, Problem::NoPublisher))?)
    }

    /// Verifies a role, unless that was done; false when the snapshot does not list it.
    fn take(&mut self, role: &str) -> Result<bool, Error> {
        if self.chain.has_role(role) {
            return Ok(true);
        }
        let Some(version) = self.chain.listed_version(role) else { return Ok(false) };
        let (chain, now, registry) = (&mut self.chain, self.now, Arc::clone(&self.registry));
        let bytes = registry.immutable(role, version, layout::MOST_ROLE_BYTES, |bytes| chain.role(role, bytes, now))?;
        self.roles.push((role.to_owned(), bytes));
        Ok(true)
    }

    /// What the registry offers, for search and suggestions; none when it has no such document. Only publishers of
    /// the registry are in it.
    ///
    /// # Errors
    /// When it cannot be had or is not the one that the snapshot pins.
    pub fn catalog(&self) -> Result<Option<Catalog>, Error> {
        let Some(version) = self.chain.listed_version(layout::CATALOG) else { return Ok(None) };
        let mut catalog = None;
        self.registry.immutable(layout::CATALOG, version, layout::MOST_CATALOG_BYTES, |bytes| {
            catalog = Some(self.chain.catalog(bytes)?);
            Ok(())
        })?;
        let publishers = self.chain.publishers();
        let mut catalog = catalog;
        if let Some(catalog) = &mut catalog {
            let known =
                |offer: &Offer| publishers.binary_search_by(|known| known.name.as_str().cmp(offer.name.publisher()));
            catalog.rules.retain(|offer| known(offer).is_ok());
        }
        Ok(catalog)
    }

    /// Every version of a rule whose pages are consistent, oldest first.
    ///
    /// # Errors
    /// When a role cannot be verified, or nobody publishes under this name.
    pub fn releases(&mut self, rule: &RuleName) -> Result<Vec<Release>, Error> {
        self.chain.check_delegated(rule)?;
        if !self.take_publisher(rule.publisher())? {
            return Ok(Vec::new());
        }
        Ok(releases_of(&self.chain.signed(rule)?))
    }

    /// Every version of every rule of a publisher, by name and version.
    ///
    /// # Errors
    /// When a role cannot be verified.
    pub fn of_publisher(&mut self, publisher: &str) -> Result<Vec<Release>, Error> {
        if !self.take_publisher(publisher)? {
            return Ok(Vec::new());
        }
        Ok(releases_of(&self.chain.all_signed(publisher)?))
    }

    /// Verifies a publisher's role and what the maintainers say about it, and notes what was taken back; false when
    /// nothing was ever published.
    fn take_publisher(&mut self, publisher: &str) -> Result<bool, Error> {
        if !self.take(publisher)? {
            return Ok(false);
        }
        for role in self.chain.review_roles(publisher) {
            if !self.take(&role)? {
                return Err(self.chain.because(&role, Problem::NotListed).into());
            }
        }
        let all = self.chain.taken_back(publisher);
        let taken_back = |security: bool| {
            let of_kind = all.iter().filter(|(_, yanked)| yanked.security == security);
            of_kind.map(|(sha256, yanked)| (sha256.clone(), yanked.reason.clone())).collect()
        };
        self.registry.note_taken_back(TAKEN_BACK, publisher, taken_back(true))?;
        self.registry.note_taken_back(YANKED, publisher, taken_back(false))?;
        Ok(true)
    }

    /// The newest version that may be installed.
    ///
    /// # Errors
    /// When there is no such rule, or none of its versions is wanted and allowed; then why.
    pub fn choose(
        &mut self,
        rule: &RuleName,
        wanted: Option<&semver::VersionReq>,
        policy: Policy,
    ) -> Result<Release, Error> {
        let releases = match self.releases(rule) {
            Ok(releases) if releases.is_empty() => return Err(self.no_rule(rule)),
            Err(Error::Refused(Refused { problem: Problem::NoPublisher, .. })) => return Err(self.no_rule(rule)),
            other => other?,
        };
        let mut excluded: Vec<(String, Option<&'static str>)> = Vec::new();
        for release in releases.into_iter().rev() {
            match self.exclusion(&release, wanted, policy) {
                None => return Ok(release),
                Some((why, hint)) => excluded.push((format!("{} {why}", release.version), hint)),
            }
        }
        let hint = excluded.iter().find_map(|(_, hint)| *hint);
        let more = excluded.len().saturating_sub(8);
        let mut why: Vec<String> = excluded.into_iter().map(|(why, _)| why).take(8).collect();
        if more > 0 {
            why.push(format!("and {more} older ones"));
        }
        Err(Error::NoVersion { registry: self.registry.name.clone(), rule: rule.clone(), why: why.join("; "), hint })
    }

    /// Why a version is not chosen, and what could be done about it.
    pub fn exclusion(
        &self,
        release: &Release,
        wanted: Option<&semver::VersionReq>,
        policy: Policy,
    ) -> Option<(String, Option<&'static str>)> {
        match wanted {
            Some(wanted) if !wanted.matches(&release.version) => return Some((format!("is not {wanted}"), None)),
            None if !release.version.pre.is_empty() => {
                return Some(("is a pre-release".to_owned(), Some("Name it with `@VERSION` to take it all the same")));
            }
            _ => {}
        }
        if let Some(why) = self.chain.revoked(&release.component.sha256) {
            return Some((format!("was revoked by the maintainers ({})", harmless(why)), None));
        }
        if let Some(yanked) = release.yanked().filter(|_| !policy.yanked) {
            let hint = "Wait for another version, or take it all the same with `--allow-yanked`";
            return Some((format!("was taken back by its publisher ({})", harmless(&yanked.reason)), Some(hint)));
        }
        for signed in [&release.component, &release.manifest] {
            match signed.review {
                Review::Reviewed => {}
                _ if policy.unreviewed || !self.chain.is_reviewed() => {}
                Review::Other => return Some(("has another content than the maintainers reviewed".to_owned(), None)),
                _ => {
                    let hint = "Wait for the review, or take it as it is with `--allow-unreviewed`";
                    return Some(("was not reviewed by the maintainers".to_owned(), Some(hint)));
                }
            }
        }
        None
    }

    fn no_rule(&mut self, rule: &RuleName) -> Error {
        let known = self.known_rules();
        let near = name::suggestions(rule, &known).into_iter().map(ToString::to_string).collect();
        Error::NoRule { registry: self.registry.name.clone(), rule: rule.clone(), near }
    }

    /// Names of rules for suggestions, from what can be verified.
    fn known_rules(&mut self) -> Vec<RuleName> {
        if let Ok(Some(catalog)) = self.catalog() {
            return catalog.rules.into_iter().map(|offer| offer.name).collect();
        }
        let mut known = Vec::new();
        for publisher in self.publishers() {
            let releases = self.of_publisher(&publisher.name).unwrap_or_default();
            known.extend(releases.into_iter().map(|release| release.rule));
        }
        known.dedup();
        known
    }

    /// Checks that the registry is not older than a lockfile says it was.
    ///
    /// # Errors
    /// When its root or the publisher's role is.
    pub fn check_lock_floor(&self, root: &Pin, role: Option<(&str, u64)>) -> Result<(), Error> {
        let older = |why: String| Error::OlderThanLock { registry: self.registry.name.clone(), why };
        let found = self.chain.root_version();
        if found < root.version {
            return Err(older(format!("its root has version {found}, and the lockfile names {}", root.version)));
        }
        // Only roots from the pinned one on are at hand; an older one in a lock is vouched for by the chain.
        let same = self.seen.roots.iter().rev().nth(usize::try_from(found - root.version).unwrap_or(usize::MAX));
        if same.is_some_and(|bytes| sha256_hex(bytes) != root.sha256) {
            return Err(older(format!("version {} of its root has another content", root.version)));
        }
        if let Some((role, version)) = role {
            let listed = self.chain.listed_version(role).unwrap_or_default();
            if listed < version {
                return Err(older(format!("the role `{role}` has version {listed}, and the lockfile names {version}")));
            }
        }
        Ok(())
    }

    /// The bytes of a target: from the store when they are there, else from where the registry lies.
    ///
    /// # Errors
    /// When they cannot be had or are not what was signed.
    pub fn bytes(&self, store: &Store, signed: &Signed) -> Result<Vec<u8>, Error> {
        if let Some(bytes) = store.get(&signed.sha256)? {
            self.chain.check_bytes(signed, &bytes)?;
            return Ok(bytes);
        }
        let path = layout::target_path(&signed.target, &signed.sha256);
        let attempt = || -> Result<Vec<u8>, Error> {
            let bytes = self.registry.source.get(&path, signed.length)?;
            let missing = || Refused {
                registry: self.registry.name.clone(),
                subject: Subject::Target(signed.target.to_string()),
                problem: Problem::Missing(path.clone()),
            };
            let bytes = bytes.ok_or_else(missing)?;
            self.chain.check_bytes(signed, &bytes)?;
            Ok(bytes)
        };
        match attempt() {
            Err(Error::Refused(refused)) if may_be_in_publication(&refused) => {
                std::thread::sleep(self.registry.manner.pause);
                attempt()
            }
            other => other,
        }
    }

    /// Checks that what a publisher says about a version is what its manifest says, which is what was reviewed.
    ///
    /// # Errors
    /// When the manifest cannot be understood, or says something else.
    pub fn check_record(&self, release: &Release, manifest: &[u8]) -> Result<(), Error> {
        let problem = match Manifest::parse(manifest) {
            Err(error) => Problem::Unreadable(harmless(&error.to_string())),
            Ok(parsed) => match parsed.record(sha256_hex(manifest)).difference(&release.record) {
                None => return Ok(()),
                Some(field) => Problem::RecordDiffers(field),
            },
        };
        let because = self.chain.because("", problem);
        Err(Refused { subject: Subject::Target(release.component.target.to_string()), ..because }.into())
    }

    /// Gets the manifest of a version and compares its publisher's words about it with that.
    ///
    /// # Errors
    /// As [`View::check_record`], and when it cannot be had.
    pub fn confirm(&self, store: &Store, release: &Release) -> Result<(), Error> {
        let manifest = self.bytes(store, &release.manifest)?;
        self.check_record(release, &manifest)
    }

    /// Keeps a version in the store with everything that vouches for it, and gives the record.
    ///
    /// # Errors
    /// When bytes cannot be had or are not what was signed, or the store cannot be written.
    pub fn install(&self, store: &Store, release: &Release, unreviewed: bool) -> Result<Record, Error> {
        check_review(&self.chain, &release.component, unreviewed)?;
        // What was reviewed needs no exception, also when the user would have made one.
        let unreviewed = unreviewed && check_review(&self.chain, &release.component, false).is_err();
        let component = self.bytes(store, &release.component)?;
        let manifest = self.bytes(store, &release.manifest)?;
        self.check_record(release, &manifest)?;
        let sha256 = store.put(&component)?;
        store.put(&manifest)?;
        let role = |name: &str| self.roles.iter().find(|(role, _)| role == name).map(|(_, bytes)| bytes);
        let publisher = role(release.rule.publisher())
            .ok_or_else(|| self.chain.because(release.rule.publisher(), Problem::NotListed))?;
        let record = Record {
            format: Record::FORMAT,
            registry: self.registry.pin.id(),
            rule: release.rule.clone(),
            version: release.version.clone(),
            sha256,
            at: self.now,
            roots: self.seen.roots.iter().map(|root| store.put(root)).collect::<io::Result<_>>()?,
            timestamp: store.put(&self.seen.timestamp)?,
            snapshot: store.put(&self.seen.snapshot)?,
            targets: store.put(&self.seen.targets)?,
            role: store.put(publisher)?,
            reviewed: role(REVIEWED).map(|bytes| store.put(bytes)).transpose()?,
            review: role(&layout::review_role(release.rule.publisher())).map(|bytes| store.put(bytes)).transpose()?,
            unreviewed,
        };
        // What cannot be proven from the store is not installed.
        self.registry.replay(store, &record)?;
        store.put_record(&record)?;
        Ok(record)
    }
}

/// Where a version's pages contradict each other, if they do.
fn contradiction(component: &Signed, manifest: &Signed, record: &RuleRecord) -> Option<String> {
    if record.version != component.target.version {
        return Some(format!("it calls itself version {}", record.version));
    }
    if record.size != component.length {
        return Some(format!("its record speaks of {} bytes, and {} are signed for", record.size, component.length));
    }
    if record.manifest != manifest.sha256 {
        return Some("its record names another manifest than the one that is signed for".to_owned());
    }
    None
}

/// The versions whose pages are consistent, by name and version.
fn releases_of(signed: &[Signed]) -> Vec<Release> {
    let by_target: BTreeMap<&Target, &Signed> = signed.iter().map(|signed| (&signed.target, signed)).collect();
    let find = |component: &Signed, kind| {
        by_target.get(&component.target.rule.target(&component.target.version, kind)).copied().cloned()
    };
    let mut releases = Vec::new();
    for component in signed.iter().filter(|signed| signed.target.kind == TargetKind::Component) {
        // A version that is not whole does not exist: its publisher can hurt nobody else by it.
        let Some(manifest) = find(component, TargetKind::Manifest) else { continue };
        let Some(record) = component.record.clone() else { continue };
        if contradiction(component, &manifest, &record).is_some() {
            continue;
        }
        releases.push(Release {
            rule: component.target.rule.clone(),
            version: component.target.version.clone(),
            evidence: find(component, TargetKind::Evidence),
            component: component.clone(),
            manifest,
            record,
        });
    }
    releases.sort_by(|a, b| (&a.rule, &a.version).cmp(&(&b.rule, &b.version)));
    releases
}
