//! Verdicts that a rule has given, by site.
//!
//! A verdict is a function of the rule's bytes, the site, the limits, the engine and the host's version.
//! All but the site are the *context* of a cache; the site stands in it as the SHA-256 of its canonical
//! bytes. Kept are verdicts and failures that would come again ([`is_kept`]), never what the clock ended.
//!
//! In memory a cache is the image of its file, read by position, so that loading it is one read, one hash
//! and one walk. The file is named after the component and lies in the folder of the compiled rules, which
//! only this user can enter. It is replaced as a whole. A file that is damaged, of another context, of
//! another user or beyond the size counts as empty.
//!
//! | bytes | what |
//! |---|---|
//! | 16 | [`MAGIC`] |
//! | 32 | digest of the context |
//! | 32 + 4 + n, repeated | digest of a site, n, what came of it (postcard) |
//! | 32 | SHA-256 of everything before |

use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::contract::{Site, Verdict};
use super::error::Class;
use super::instance::Failure;
use super::{ENGINE_VERSION, Examined, Limits};

/// Bytes of a cache; beyond it the older half goes.
const MOST_BYTES: usize = 8 << 20;
/// Bytes of one entry; what is larger is not kept.
const MOST_ENTRY: usize = 256 << 10;
/// First bytes of a file; the number changes with the form of entries and of canonical site bytes.
const MAGIC: [u8; 16] = *b"dd-verdicts 001\n";
const DIGEST: usize = 32;
const HEAD: usize = MAGIC.len() + DIGEST;

/// What came of one call.
pub(super) type Outcome = Result<Examined, Failure>;

/// Stands for a site.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct SiteKey([u8; DIGEST]);

impl SiteKey {
    /// `scratch` is overwritten.
    pub(super) fn of(site: &Site, scratch: &mut Vec<u8>) -> Self {
        scratch.clear();
        site.write_canonical(scratch);
        Self(Sha256::digest(&*scratch).into())
    }
}

/// True when the same call would fail in the same way on any machine that runs this engine.
pub(super) fn is_kept(class: Class) -> bool {
    KEPT.contains(&class)
}

const KEPT: [Class; 7] =
    [Class::OutOfFuel, Class::Memory, Class::Stack, Class::Trap, Class::BadOutput, Class::TooMuchOutput, Class::Own];

/// Form of an entry.
#[derive(Serialize, Deserialize)]
enum Entry<V, T> {
    Verdict { fuel: u64, verdict: V },
    Failure { class: T, reason: T },
}

/// The verdicts of one rule.
#[derive(Debug)]
pub(super) struct VerdictCache {
    file: Option<PathBuf>,
    context: [u8; DIGEST],
    /// read on first use
    image: Mutex<Option<Image>>,
}

/// Everything but the site that a verdict depends on.
pub(super) fn context(component_sha256: &str, limits: &Limits, engine: u64) -> [u8; DIGEST] {
    let parts = format!("{component_sha256} {limits:?} {ENGINE_VERSION} {engine:016x} {}", env!("CARGO_PKG_VERSION"));
    Sha256::digest(parts.as_bytes()).into()
}

impl VerdictCache {
    /// A cache for a component; without a folder it lives as long as the rule.
    pub(super) fn new(folder: Option<&Path>, component_sha256: &str, context: [u8; DIGEST]) -> Self {
        let file = folder.map(|folder| folder.join(format!("{component_sha256}.verdicts")));
        Self { file, context, image: Mutex::new(None) }
    }

    /// What is known about each site, in order.
    pub(super) fn get(&self, keys: &[SiteKey]) -> Vec<Option<Outcome>> {
        let mut image = self.image();
        let image = self.loaded(&mut image);
        keys.iter().map(|key| image.get(key)).collect()
    }

    /// Keeps what came of calls, and writes the file when something is new.
    pub(super) fn put<'o>(&self, outcomes: impl Iterator<Item = (SiteKey, &'o Outcome)>) {
        let mut image = self.image();
        let image = self.loaded(&mut image);
        let mut is_new = false;
        for (key, outcome) in outcomes {
            is_new |= image.put(key, outcome);
        }
        if let Some(file) = self.file.as_ref().filter(|_| is_new) {
            // A cache that cannot be written is only slower.
            let _ = image.write(file);
        }
    }

    fn image(&self) -> MutexGuard<'_, Option<Image>> {
        // An image is consistent between any two statements that can panic.
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded<'i>(&self, image: &'i mut Option<Image>) -> &'i mut Image {
        image.get_or_insert_with(|| {
            let read = self.file.as_deref().and_then(|file| read(file).ok());
            read.and_then(|bytes| Image::parse(bytes, &self.context)).unwrap_or_else(|| Image::empty(&self.context))
        })
    }
}

/// The bytes of a file that is a plain one, this user's, closed to others and not too large.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    use rustix::fs::{Mode, OFlags};
    let file =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    let mut file = std::fs::File::from(file);
    let found = file.metadata()?;
    let ours = found.is_file() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    let length = usize::try_from(found.len()).unwrap_or(usize::MAX);
    if !ours || length > MOST_BYTES + DIGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::with_capacity(length);
    (&mut file).take(found.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file without its last digest, and where each site's entry is.
#[derive(Debug)]
struct Image {
    bytes: Vec<u8>,
    entries: FxHashMap<SiteKey, Range<usize>>,
}

impl Image {
    fn empty(context: &[u8; DIGEST]) -> Self {
        Self { bytes: [MAGIC.as_slice(), context].concat(), entries: FxHashMap::default() }
    }

    fn parse(mut bytes: Vec<u8>, context: &[u8; DIGEST]) -> Option<Self> {
        let (content, digest) = bytes.split_last_chunk::<DIGEST>()?;
        if !content.starts_with(&MAGIC)
            || content.get(MAGIC.len()..HEAD)? != context
            || Sha256::digest(content).as_slice() != digest
        {
            return None;
        }
        bytes.truncate(bytes.len() - DIGEST);
        let mut entries = FxHashMap::default();
        let mut at = HEAD;
        while at < bytes.len() {
            let (key, body) = frame(&bytes, at)?;
            at = body.end;
            entries.insert(key, body);
        }
        Some(Self { bytes, entries })
    }

    fn get(&self, key: &SiteKey) -> Option<Outcome> {
        let bytes = self.bytes.get(self.entries.get(key)?.clone())?;
        let (entry, rest) = postcard::take_from_bytes::<Entry<Verdict, &str>>(bytes).ok()?;
        if !rest.is_empty() {
            return None;
        }
        Some(match entry {
            Entry::Verdict { fuel, verdict } => Ok(Examined { verdict, fuel }),
            Entry::Failure { class, reason } => {
                let class = KEPT.into_iter().find(|kept| kept.name() == class)?;
                Err((class, reason.to_owned()))
            }
        })
    }

    /// False when there is nothing to keep.
    fn put(&mut self, key: SiteKey, outcome: &Outcome) -> bool {
        let entry = match outcome {
            Ok(examined) => Entry::Verdict { fuel: examined.fuel, verdict: &examined.verdict },
            Err((class, reason)) if is_kept(*class) => Entry::Failure { class: class.name(), reason: reason.as_str() },
            Err(_) => return false,
        };
        let Ok(body) = postcard::to_stdvec(&entry) else { return false };
        let Some(length) = u32::try_from(body.len()).ok().filter(|_| body.len() <= MOST_ENTRY) else { return false };
        if self.bytes.len() + DIGEST + 4 + body.len() > MOST_BYTES {
            self.forget_older_half();
        }
        self.bytes.extend_from_slice(&key.0);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&body);
        self.entries.insert(key, start..self.bytes.len());
        true
    }

    fn forget_older_half(&mut self) {
        let middle = HEAD + (self.bytes.len() - HEAD) / 2;
        let mut at = HEAD;
        while at < middle {
            match frame(&self.bytes, at) {
                Some((_, body)) => at = body.end,
                None => at = self.bytes.len(),
            }
        }
        self.bytes.drain(HEAD..at);
        let shift = at - HEAD;
        self.entries.retain(|_, body| {
            let stays = body.start >= at;
            if stays {
                *body = body.start - shift..body.end - shift;
            }
            stays
        });
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
        // Readable by this user only, as temporary files are. Not synced: a torn file counts as empty.
        let mut file = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
        file.write_all(&self.bytes)?;
        file.write_all(&Sha256::digest(&self.bytes))?;
        file.persist(path).map(|_| ()).map_err(|error| error.error)
    }
}

/// The entry that begins at a position: its key and where its body is.
fn frame(bytes: &[u8], at: usize) -> Option<(SiteKey, Range<usize>)> {
    let (key, rest) = bytes.get(at..)?.split_first_chunk::<DIGEST>()?;
    let (length, body) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    body.get(..length)?;
    let start = at + DIGEST + 4;
    Some((SiteKey(*key), start..start + length))
}

#[cfg(test)]
mod tests;
