//! What reaches targets other than this host. None of it is needed for `--target local`, so nothing here is a
//! problem.

use std::ffi::OsStr;

use super::Diagnosis;
use crate::hint::Hint as _;
use crate::target::selector::DEFAULT_CPU;
use crate::target::{Error, adb, child, qemu};

pub(super) fn examine() -> [Diagnosis; 3] {
    [emulator(), android(), board(&std::env::var_os("PATH").unwrap_or_default())]
}

fn emulator() -> Diagnosis {
    let name = "emulated Arm";
    match qemu::emulator(&qemu::label_of(DEFAULT_CPU)) {
        Ok((path, version)) => Diagnosis::ok(name, format!("qemu {version} at `{}`", path.display())),
        Err(error) => absent(name, "no emulator; `--target qemu` needs one", &error),
    }
}

fn android() -> Diagnosis {
    let name = "Android";
    match adb::client() {
        // Only the server knows the devices, and a look must not start one.
        Ok(client) => Diagnosis::ok(name, format!("`{}`; `targets list` shows what is connected", client.display())),
        Err(error) => absent(name, "no `adb`; `--target adb` needs it", &error),
    }
}

fn board(path: &OsStr) -> Diagnosis {
    let name = "boards";
    let missing = |program: &&str| child::on_path(path, program).is_none();
    match ["ssh", "scp"].into_iter().filter(missing).collect::<Vec<&str>>()[..] {
        [] => Diagnosis::ok(name, "`ssh` and `scp` are there for `--target ssh:HOST`"),
        [first, ..] => Diagnosis::ok(name, format!("no `{first}`; `--target ssh:HOST` needs `ssh` and `scp`"))
            .hint("Install an OpenSSH client"),
    }
}

fn absent(name: &str, what: &str, error: &Error) -> Diagnosis {
    let diagnosis = Diagnosis::ok(name, what);
    match error.hint() {
        Some(hint) => diagnosis.hint(hint),
        None => diagnosis,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::Verdict;

    #[test]
    fn what_only_other_targets_need_is_never_a_problem() {
        let nowhere = board(OsStr::new("/no-such-folder"));
        assert_eq!(nowhere.what, "no `ssh`; `--target ssh:HOST` needs `ssh` and `scp`");
        assert_eq!(nowhere.hint.as_deref(), Some("Install an OpenSSH client"));
        assert_eq!(nowhere.verdict, Verdict::Ok);
        for diagnosis in examine() {
            assert_eq!(diagnosis.verdict, Verdict::Ok, "{diagnosis:?}");
            assert!(!diagnosis.what.is_empty());
        }
    }
}
