//! Where files lie in a registry, and how large they may be.
//!
//! ```text
//! registry.json                     name and home page; a hint that nothing trusts
//! metadata/1.root.json …            every root there ever was
//! metadata/timestamp.json           the only file that changes; it is replaced last
//! metadata/412.snapshot.json
//! metadata/17.targets.json
//! metadata/3.acme.json …            one role for each publisher
//! metadata/2.reviewed.acme.json     the maintainers' countersignature for each publisher
//! metadata/9.reviewed.json          what the maintainers revoked
//! metadata/7.catalog.json           what is offered, for search
//! targets/acme/fix-boot/<sha256>.1.3.0.wasm
//! ```

use super::name::{self, Target};

/// Folder of the metadata.
pub const METADATA: &str = "metadata";
/// Folder of the targets.
pub const TARGETS: &str = "targets";
/// The unsigned description.
pub const DESCRIPTION: &str = "registry.json";
/// File of the timestamp, below [`METADATA`].
pub const TIMESTAMP: &str = "timestamp.json";
/// Role of the reviewers: it revokes. What they countersigned is in the role of [`review_role`], one for each
/// publisher, so that a client gets only what it asks about; revocations are seen by everybody.
pub const REVIEWED: &str = "reviewed";

/// What is offered, for search; a document of the publishing job, which no role signs but the snapshot pins.
pub const CATALOG: &str = "catalog";

/// Most bytes of a root.
pub const MOST_ROOT_BYTES: u64 = 512 << 10;
/// Most bytes of a timestamp.
pub const MOST_TIMESTAMP_BYTES: u64 = 16 << 10;
/// Most bytes of a snapshot.
pub const MOST_SNAPSHOT_BYTES: u64 = 2 << 20;
/// Most bytes of the metadata of targets, of a publisher or of `reviewed`.
pub const MOST_ROLE_BYTES: u64 = 5 << 20;
/// Most bytes of the catalogue: some 100,000 rules.
pub const MOST_CATALOG_BYTES: u64 = 32 << 20;
/// Most bytes of a target, whatever its metadata says.
pub const MOST_TARGET_BYTES: u64 = 10 << 20;
/// Most bytes of the description.
pub const MOST_DESCRIPTION_BYTES: u64 = 16 << 10;

/// Role that countersigns a publisher's files: `reviewed.acme`.
pub fn review_role(publisher: &str) -> String {
    format!("{REVIEWED}.{publisher}")
}

/// The publisher whose files a role countersigns; none when it is no such role.
pub fn reviewed_publisher(role: &str) -> Option<&str> {
    let publisher = role.strip_prefix(REVIEWED)?.strip_prefix('.')?;
    name::check_publisher(publisher).is_ok().then_some(publisher)
}

/// True for the roles of the reviewers.
pub fn is_of_reviewers(role: &str) -> bool {
    role == REVIEWED || reviewed_publisher(role).is_some()
}

/// Path of a role's metadata: `metadata/3.acme.json`.
pub fn metadata_path(version: u64, role: &str) -> String {
    format!("{METADATA}/{version}.{role}.json")
}

/// Path of the timestamp's metadata.
pub fn timestamp_path() -> String {
    format!("{METADATA}/{TIMESTAMP}")
}

/// Path of a target: `targets/acme/fix-boot/<sha256>.1.3.0.wasm`. The hash is lower-case hex.
pub fn target_path(target: &Target, sha256: &str) -> String {
    format!("{TARGETS}/{}/{sha256}.{}{}", target.rule, target.version, target.kind.ending())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_comes_before_the_file_name() {
        let target = "acme/fix-boot/1.3.0.wasm".parse().expect("target");
        assert_eq!(target_path(&target, "ab12"), "targets/acme/fix-boot/ab12.1.3.0.wasm");
        assert_eq!(metadata_path(3, "acme"), "metadata/3.acme.json");
        assert_eq!(timestamp_path(), "metadata/timestamp.json");
    }

    #[test]
    fn a_review_role_is_named_after_a_publisher() {
        assert_eq!(reviewed_publisher(&review_role("acme")), Some("acme"));
        for role in ["acme", "reviewed", "reviewed.", "reviewedacme", "reviewed.root", "reviewed.a.b", "reviewed.Acme"]
        {
            assert_eq!(reviewed_publisher(role), None, "{role}");
        }
        assert!(is_of_reviewers("reviewed") && is_of_reviewers("reviewed.acme") && !is_of_reviewers("acme"));
    }
}
