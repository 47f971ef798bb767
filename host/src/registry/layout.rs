//! Where files lie in a registry, and how large they may be.
//!
//! ```text
//! registry.json                     name and home page; a hint that nothing trusts
//! metadata/1.root.json …            every root there ever was
//! metadata/timestamp.json           the only file that changes; it is replaced last
//! metadata/412.snapshot.json
//! metadata/17.targets.json
//! metadata/3.acme.json …            one role for each publisher
//! metadata/9.reviewed.json          the maintainers' countersignature
//! targets/acme/fix-boot/<sha256>.1.3.0.wasm
//! ```

use super::name::Target;

/// Folder of the metadata.
pub const METADATA: &str = "metadata";
/// Folder of the targets.
pub const TARGETS: &str = "targets";
/// The unsigned description.
pub const DESCRIPTION: &str = "registry.json";
/// File of the timestamp, below [`METADATA`].
pub const TIMESTAMP: &str = "timestamp.json";
/// Role that countersigns what was reviewed.
pub const REVIEWED: &str = "reviewed";

/// Most bytes of a root.
pub const MOST_ROOT_BYTES: u64 = 512 << 10;
/// Most bytes of a timestamp.
pub const MOST_TIMESTAMP_BYTES: u64 = 16 << 10;
/// Most bytes of a snapshot.
pub const MOST_SNAPSHOT_BYTES: u64 = 2 << 20;
/// Most bytes of the metadata of targets, of a publisher or of `reviewed`.
pub const MOST_ROLE_BYTES: u64 = 5 << 20;
/// Most bytes of a target, whatever its metadata says.
pub const MOST_TARGET_BYTES: u64 = 10 << 20;
/// Most bytes of the description.
pub const MOST_DESCRIPTION_BYTES: u64 = 16 << 10;

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
}
