//! The cache gives back what was put in, or nothing.

use std::os::unix::fs::PermissionsExt as _;

use fs_err as fs;
use proptest::prelude::*;

use super::super::contract::{Numerics, Reason, Rewrite, Tolerance};
use super::*;

const LIMITS: Limits = Limits::standard();

fn key(number: u64) -> SiteKey {
    SiteKey(Sha256::digest(number.to_le_bytes()).into())
}

fn declined(message: &str, fuel: u64) -> Outcome {
    let reason = Reason { code: "rank".to_owned(), message: message.to_owned() };
    Ok(Examined { verdict: Verdict::Decline(reason), fuel })
}

fn cache(folder: &Path, limits: &Limits) -> VerdictCache {
    VerdictCache::new(Some(folder), "abc", context("abc", limits, 1))
}

fn one(cache: &VerdictCache, number: u64) -> Option<Outcome> {
    cache.get(&[key(number)]).pop().expect("an answer for each key")
}

/// A folder with a file of one verdict.
fn filled() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("temporary folder");
    cache(folder.path(), &LIMITS).put([(key(1), &declined("no", 7))].into_iter());
    let file = folder.path().join("abc.verdicts");
    assert!(file.is_file());
    (folder, file)
}

#[test]
fn what_is_kept_is_there_in_the_next_process() {
    let (folder, file) = filled();
    let next = cache(folder.path(), &LIMITS);
    assert_eq!(one(&next, 1), Some(declined("no", 7)));
    assert_eq!(one(&next, 2), None);
    assert_eq!(fs::metadata(&file).expect("metadata").permissions().mode() & 0o777, 0o600);
    next.put([(key(2), &declined("also no", 8))].into_iter());
    let third = cache(folder.path(), &LIMITS);
    assert_eq!(third.get(&[key(2), key(1)]), [Some(declined("also no", 8)), Some(declined("no", 7))]);
}

#[test]
fn a_cache_without_a_folder_lives_in_memory() {
    let cache = VerdictCache::new(None, "abc", context("abc", &LIMITS, 1));
    cache.put([(key(1), &declined("no", 7))].into_iter());
    assert_eq!(one(&cache, 1), Some(declined("no", 7)));
}

#[test]
fn other_limits_another_engine_and_another_rule_are_misses() {
    let (folder, _) = filled();
    let less = Limits { fuel: LIMITS.fuel - 1, ..LIMITS };
    assert_eq!(one(&cache(folder.path(), &less), 1), None);
    let of = |context| VerdictCache::new(Some(folder.path()), "abc", context);
    assert_eq!(one(&of(context("abc", &LIMITS, 2)), 1), None);
    assert_eq!(one(&of(context("abd", &LIMITS, 1)), 1), None);
    assert_eq!(one(&cache(folder.path(), &LIMITS), 1), Some(declined("no", 7)), "and nothing was lost by looking");
}

#[test]
fn failures_that_would_come_again_are_kept_and_others_are_not() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let failed = |class: Class| -> Outcome { Err((class, format!("it is {}", class.name()))) };
    let kept = [Class::OutOfFuel, Class::Trap, Class::Own, Class::BadOutput, Class::Stack, Class::Memory];
    let not = [Class::Time, Class::Interrupted, Class::Host, Class::Load, Class::Compile, Class::Import];
    for (number, class) in (0..).zip(kept.into_iter().chain(not)) {
        cache(folder.path(), &LIMITS).put([(key(number), &failed(class))].into_iter());
        let expected = kept.contains(&class).then(|| failed(class));
        assert_eq!(one(&cache(folder.path(), &LIMITS), number), expected, "{class:?}");
    }
    assert!(KEPT.iter().all(|class| class.is_repeatable()));
}

#[test]
fn a_damaged_file_counts_as_empty_wherever_it_is_damaged() {
    let (folder, file) = filled();
    let whole = fs::read(&file).expect("file");
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 0x20;
        fs::write(&file, &damaged).expect("write");
        assert_eq!(one(&cache(folder.path(), &LIMITS), 1), None, "byte {position}");
        fs::write(&file, &whole[..position]).expect("write");
        assert_eq!(one(&cache(folder.path(), &LIMITS), 1), None, "cut at {position}");
    }
    // And is replaced by the next verdict.
    cache(folder.path(), &LIMITS).put([(key(3), &declined("no", 1))].into_iter());
    assert_eq!(one(&cache(folder.path(), &LIMITS), 3), Some(declined("no", 1)));
}

#[test]
fn a_well_sealed_file_of_nonsense_counts_as_empty() {
    let (folder, file) = filled();
    let seal = |mut content: Vec<u8>| {
        let digest = Sha256::digest(&content);
        content.extend_from_slice(&digest);
        content
    };
    let head = [MAGIC.as_slice(), &context("abc", &LIMITS, 1)].concat();
    for body in [vec![1_u8; 10], vec![0xff; 36], [vec![2; 32], 3_u32.to_le_bytes().to_vec(), vec![9; 3]].concat()] {
        fs::write(&file, seal([head.clone(), body].concat())).expect("write");
        let cache = cache(folder.path(), &LIMITS);
        assert_eq!(one(&cache, 1), None);
        assert_eq!(cache.get(&[SiteKey([2; 32])]), [None], "an entry that is no verdict");
    }
}

#[test]
fn links_open_files_and_large_files_are_not_read() {
    let (folder, file) = filled();
    fs::set_permissions(&file, std::fs::Permissions::from_mode(0o622)).expect("mode");
    assert_eq!(one(&cache(folder.path(), &LIMITS), 1), None, "others can write it");
    fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("mode");
    assert_eq!(one(&cache(folder.path(), &LIMITS), 1), Some(declined("no", 7)));

    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&file, &elsewhere).expect("rename");
    std::os::unix::fs::symlink(&elsewhere, &file).expect("link");
    assert_eq!(one(&cache(folder.path(), &LIMITS), 1), None, "a link");
    fs::remove_file(&file).expect("remove");
    fs::create_dir(&file).expect("folder");
    assert_eq!(one(&cache(folder.path(), &LIMITS), 1), None, "a folder");
    fs::remove_dir(&file).expect("remove");
    std::fs::File::create(&file).and_then(|file| file.set_len(1 << 40)).expect("sparse file");
    assert_eq!(one(&cache(folder.path(), &LIMITS), 1), None, "a terabyte");
}

#[test]
fn the_older_half_goes_when_there_is_no_room() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let cache = cache(folder.path(), &LIMITS);
    let large = declined(&"x".repeat(MOST_ENTRY / 2), 1);
    let count = u64::try_from(2 * MOST_BYTES / (MOST_ENTRY / 2)).expect("small");
    let entries: Vec<_> = (0..count).map(|number| (key(number), &large)).collect();
    cache.put(entries.into_iter());
    let there: Vec<bool> = (0..count).map(|number| one(&cache, number).is_some()).collect();
    assert!(!there[0] && there[usize::try_from(count).expect("small") - 1]);
    assert!(there.is_sorted(), "only older ones are gone");
    let most = MOST_BYTES / (MOST_ENTRY / 2);
    let left = there.iter().filter(|there| **there).count();
    assert!(left >= most / 2 - 2 && left <= most, "{left} of {most}");
    let length = fs::metadata(folder.path().join("abc.verdicts")).expect("file").len();
    assert!(length <= u64::try_from(MOST_BYTES + DIGEST).expect("small"), "{length}");
    let again = super::VerdictCache::new(Some(folder.path()), "abc", context("abc", &LIMITS, 1));
    assert_eq!((0..count).filter(|number| one(&again, *number).is_some()).count(), left);

    let too_large = declined(&"x".repeat(MOST_ENTRY + 1), 1);
    cache.put([(key(count), &too_large)].into_iter());
    assert_eq!(one(&cache, count), None);
}

proptest! {
    #[test]
    fn any_outcome_comes_back_as_it_was(code in ".{0,8}", message in ".{0,40}", fuel: u64, rtol: f64, which in 0..3_u8) {
        let reason = Reason { code, message };
        let numerics = Numerics::Tolerant(Tolerance { rtol, atol: 0.0 });
        let outcome: Outcome = match which {
            0 => Ok(Examined { verdict: Verdict::Decline(reason), fuel }),
            1 => {
                let rewrite = Rewrite { edits: Vec::new(), numerics, why: reason, hints: vec![("a".into(), "b".into())] };
                Ok(Examined { verdict: Verdict::Rewrite(rewrite), fuel })
            }
            _ => Err((Class::Trap, reason.message)),
        };
        let mut image = Image::empty(&[0; DIGEST]);
        prop_assert!(image.put(key(1), &outcome));
        prop_assert_eq!(format!("{:?}", image.get(&key(1))), format!("{:?}", Some(outcome)));
    }

    #[test]
    fn bytes_from_anywhere_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let content = [MAGIC.as_slice(), &[0; DIGEST], &bytes].concat();
        let sealed = [content.as_slice(), &Sha256::digest(&content)].concat();
        if let Some(image) = Image::parse(sealed, &[0; DIGEST]) {
            for key in image.entries.keys() {
                let _ = image.get(key);
            }
        }
        prop_assert!(Image::parse(bytes, &[0; DIGEST]).is_none());
    }
}
