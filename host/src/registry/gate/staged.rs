//! A root that waits in `staging/` for more signatures.
//!
//! No client asks for it, but the next holder of a root key signs what lies there, so it has to come from one.

use super::super::ceremony::root_changes;
use super::super::layout;
use super::super::metadata::{Envelope, Root};
use super::super::writer::{self, STAGING};
use super::{Change, Content, Gate};

impl Gate<'_> {
    /// Only the next root may wait, and only with a signature by a key of the root before it.
    pub(super) fn staged(&mut self, change: &Change) -> Result<(), writer::Error> {
        let path = change.path.as_str();
        let root = self.base.root()?;
        let expected = format!("{STAGING}/{}.root.json", root.signed.version.saturating_add(1));
        let bytes = match &change.content {
            // Without it, signatures are collected anew.
            Content::Removed => {
                self.verdict.does.push(format!("removes `{path}`"));
                return Ok(());
            }
            Content::Strange => {
                self.say(path, "it is no regular file");
                return Ok(());
            }
            _ if path != expected => {
                self.say(path, format!("only `{expected}` waits here for signatures"));
                return Ok(());
            }
            Content::Large(found) => {
                self.say(path, too_large(*found));
                return Ok(());
            }
            Content::File(bytes) if bytes.len() as u64 > layout::MOST_ROOT_BYTES => {
                self.say(path, too_large(bytes.len() as u64));
                return Ok(());
            }
            Content::File(bytes) => bytes,
        };
        let envelope = match Envelope::<Root>::parse("it", bytes) {
            Ok(envelope) => envelope,
            Err(error) => {
                self.say(path, error.to_string());
                return Ok(());
            }
        };
        match self.base.check_next_root(&root, &envelope) {
            Ok(()) => {
                let changes = root_changes(&root.signed, &envelope.signed).join("; ");
                self.verdict.does.push(format!("lets root {} wait for signatures: {changes}", envelope.signed.version));
            }
            Err(why) => self.say(path, why),
        }
        Ok(())
    }
}

fn too_large(found: u64) -> String {
    format!("it has {found} bytes, and at most {} are allowed", layout::MOST_ROOT_BYTES)
}
