//! What is asked of a device, as scripts for its `sh`, and how its answers are read.
//!
//! The scripts use what both Android's toybox and a board's coreutils have. Each ends with a line of its own, so
//! that an answer that was cut off is never taken for a whole one. Paths hold only characters that a shell takes as
//! they are.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::target::bundle::{Bundle, is_plain};

/// Last line of every script.
pub(super) const END: &str = "DD end";
/// Begins the line of a script that could not do what it was asked.
pub(super) const FAILED: &str = "DD failed";
/// Name of the trace among the results.
pub(super) const TRACE: &str = "trace.etdp";
/// Lines of the runner's stderr that are brought back.
const KEPT_ERRORS: u32 = 200;

/// Where things are on the device.
#[derive(Clone, Debug)]
pub(super) struct Place {
    root: String,
    /// folder of the bundle
    pub(super) bundle: String,
    session: String,
    /// folder of the run under way
    pub(super) work: String,
}

/// What a run said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// which start of the device's system it ran in
    pub(super) boot: String,
    /// exit code as the shell gives it
    pub(super) code: i32,
    /// hash of every file that was used, by its path
    pub(super) inputs: BTreeMap<String, String>,
    /// hash and length of every file that was written, by its name
    pub(super) results: BTreeMap<String, (String, u64)>,
    /// hash of the runner's stdout
    pub(super) answer_hash: String,
    /// the runner's stdout
    pub(super) answer: Vec<u8>,
    /// the end of the runner's stderr
    pub(super) errors: Vec<u8>,
}

impl Place {
    pub(super) fn new(root: &str, bundle_hash: &str, session: &str) -> Self {
        let session = format!("{root}/session-{session}");
        Self {
            root: root.to_owned(),
            bundle: format!("{root}/bundle-{bundle_hash}"),
            work: format!("{session}/work"),
            session,
        }
    }

    pub(super) fn file(&self, hash: &str) -> String {
        format!("{}/files/{hash}", self.session)
    }

    pub(super) fn result(&self, name: &str) -> String {
        format!("{}/{name}", self.work)
    }

    pub(super) fn fresh_bundle(&self) -> String {
        format!("{}/bundle", self.session)
    }

    /// Makes this session's folder, and removes what was left more than a day ago.
    pub(super) fn open(&self) -> String {
        let Self { root, session, .. } = self;
        format!(
            "mkdir -p {session}/files {session}/work 2>/dev/null || echo '{FAILED}' \"$(mkdir -p {session}/files 2>&1)\"\n\
             find {root} -maxdepth 1 -name 'session-????????????????' -mtime +0 -exec rm -rf '{{}}' + 2>/dev/null\n\
             {}",
            ended()
        )
    }

    /// Ends what runs and removes this session's folder.
    pub(super) fn close(&self) -> String {
        format!("{}rm -rf {}\n{}", self.killing(), self.session, ended())
    }

    pub(super) fn make(&self, folder: &str) -> String {
        format!("rm -rf {folder}; mkdir -p {folder} || echo '{FAILED}'\n{}", ended())
    }

    /// The hashes of the files that the bundle should have.
    pub(super) fn hashes_of_bundle(&self, bundle: &Bundle) -> String {
        let names: Vec<&str> = bundle.files.iter().map(|file| file.name.as_str()).collect();
        format!(
            "command -v sha256sum >/dev/null || echo '{FAILED} it has no program `sha256sum`'\n\
             cd {} 2>/dev/null && sha256sum {} 2>/dev/null\n{}",
            self.bundle,
            names.join(" "),
            ended()
        )
    }

    /// Puts a copied bundle in its place; another session may have done so meanwhile, and a damaged one goes.
    pub(super) fn settle_bundle(&self, fresh: &str, executables: &[&str]) -> String {
        let bundle = &self.bundle;
        format!(
            "cd {fresh} && chmod 755 {} || echo '{FAILED}'\n\
             rm -rf {bundle}; mv {fresh} {bundle} || echo '{FAILED}'\n{}",
            executables.join(" "),
            ended()
        )
    }

    fn killing(&self) -> String {
        format!("kill -9 \"$(cat {}/pid 2>/dev/null)\" 2>/dev/null\n", self.session)
    }

    pub(super) fn end_run(&self) -> String {
        format!("{}{}", self.killing(), ended())
    }

    /// Runs `command` in an empty folder, and tells about all that was used and made.
    pub(super) fn run<'a>(&self, command: &str, inputs: impl Iterator<Item = &'a str>) -> String {
        let Self { session, work, .. } = self;
        let inputs: Vec<&str> = inputs.collect();
        format!(
            "rm -rf {work}; mkdir -p {work}; cd {work} || echo '{FAILED}'\n\
             echo \"DD boot $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)\"\n\
             sha256sum {} 2>/dev/null | sed 's/^/DD used /'\n\
             {command} >{session}/answer 2>{session}/errors &\n\
             echo $! >{session}/pid\n\
             wait $!\n\
             code=$?\n\
             rm -f {session}/pid\n\
             echo \"DD code $code\"\n\
             for name in *; do [ -f \"$name\" ] && echo \"DD made $(wc -c <\"$name\") $(sha256sum \"$name\")\"; done\n\
             echo \"DD said $(sha256sum <{session}/answer)\"\n\
             sed 's/^/A /' {session}/answer\n\
             tail -n {KEPT_ERRORS} {session}/errors | sed 's/^/E /'\n\
             {}",
            inputs.join(" "),
            ended()
        )
    }
}

fn ended() -> String {
    format!("echo\necho '{END}'")
}

/// The hashes that a device told are those of the bundle.
pub(super) fn agree(said: &str, bundle: &Bundle) -> bool {
    let there: BTreeMap<&str, &str> = said.lines().filter_map(hash_and_name).map(|(hash, name)| (name, hash)).collect();
    bundle.files.iter().all(|file| there.get(file.name.as_str()) == Some(&file.sha256.as_str()))
}

/// A line of `sha256sum`.
fn hash_and_name(line: &str) -> Option<(&str, &str)> {
    let (hash, name) = line.trim_end().split_once(char::is_whitespace)?;
    let hexadecimal = hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    hexadecimal.then(|| (hash, name.trim_start().trim_start_matches('*')))
}

/// True for names that a runner gives its results.
pub(super) fn is_result(name: &str) -> bool {
    is_plain(name) && !name.contains('/') && !name.contains("..")
}

/// Words as one line for `sh`.
pub(super) fn quoted(words: impl Iterator<Item = OsString>) -> String {
    let quote = |word: OsString| {
        let word = word.to_string_lossy().into_owned();
        if is_plain(&word) || word.starts_with("--") && is_plain(word.trim_start_matches('-')) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.map(quote).collect::<Vec<_>>().join(" ")
}

/// Reads what a run said.
///
/// # Errors
/// When it is not what the script says.
pub(super) fn read(said: &[u8]) -> Result<Answer, String> {
    let mut answer = Answer { code: -1, ..Answer::default() };
    for line in said.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(rest) = line.strip_prefix(b"A ") {
            answer.answer.extend_from_slice(rest);
            answer.answer.push(b'\n');
            continue;
        }
        if let Some(rest) = line.strip_prefix(b"E ") {
            answer.errors.extend_from_slice(rest);
            answer.errors.push(b'\n');
            continue;
        }
        let line = String::from_utf8_lossy(line);
        let Some(rest) = line.strip_prefix("DD ") else { continue };
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "boot" => rest.trim().clone_into(&mut answer.boot),
            "code" => {
                answer.code = rest.trim().parse().map_err(|_| format!("`{rest}` is no exit code"))?;
            }
            "used" => {
                if let Some((hash, path)) = hash_and_name(rest) {
                    answer.inputs.insert(path.to_owned(), hash.to_owned());
                }
            }
            "made" => {
                let made = rest.trim().split_once(' ').and_then(|(bytes, rest)| {
                    let (hash, name) = hash_and_name(rest.trim_start())?;
                    Some((name.to_owned(), (hash.to_owned(), bytes.parse().ok()?)))
                });
                let (name, facts) = made.ok_or_else(|| format!("`{rest}` tells no file"))?;
                answer.results.insert(name, facts);
            }
            "said" => answer.answer_hash = rest.split_whitespace().next().unwrap_or_default().to_owned(),
            "failed" => return Err(format!("its folder cannot be used {rest}").trim_end().to_owned()),
            _ => {}
        }
    }
    if answer.code < 0 {
        return Err("it does not say how the runner ended".to_owned());
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn sh(script: &str) -> Vec<u8> {
        Command::new("sh").args(["-c", script]).output().expect("sh").stdout
    }

    #[test]
    fn a_run_tells_what_it_used_and_made() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().to_str().expect("text");
        let place = Place::new(root, "b", "s");
        assert!(String::from_utf8_lossy(&sh(&place.open())).ends_with("DD end\n"));
        let input = place.file("0");
        fs_err::write(&input, "x").expect("write");
        let said = sh(&place.run(
            "sh -c 'echo one; echo two >&2; printf abc >output_0.bin; kill -11 $$'",
            [input.as_str()].into_iter(),
        ));
        let answer = read(&said).expect("an answer");
        assert_eq!(
            (answer.code, answer.answer.as_slice(), answer.errors.as_slice()),
            (139, b"one\n".as_slice(), b"two\n".as_slice())
        );
        assert_eq!(answer.answer_hash, crate::files::sha256_hex(b"one\n"));
        assert_eq!(answer.inputs.get(&input), Some(&crate::files::sha256_hex(b"x")));
        assert_eq!(answer.results.get("output_0.bin"), Some(&(crate::files::sha256_hex(b"abc"), 3)));
        assert!(!answer.boot.is_empty());
        sh(&place.close());
        assert!(!folder.path().join("session-s").exists());
    }

    #[test]
    fn a_run_that_hangs_is_ended_from_elsewhere() {
        let folder = tempfile::tempdir().expect("folder");
        let place = Place::new(folder.path().to_str().expect("text"), "b", "s");
        sh(&place.open());
        let script = place.run("sleep 600", std::iter::empty());
        let running = std::thread::spawn(move || sh(&script));
        while !folder.path().join("session-s/pid").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        while !running.is_finished() {
            sh(&place.end_run());
        }
        assert_eq!(read(&running.join().expect("joined")).expect("an answer").code, 137);
    }

    #[test]
    fn an_answer_that_is_none_is_refused() {
        assert!(read(b"").is_err());
        assert!(read(b"DD code x\nDD end").is_err());
        assert!(read(b"DD code 0\nDD made 5\n").is_err());
        assert!(read(b"DD failed no space\nDD code 0\n").expect_err("failed").contains("no space"));
        assert_eq!(read(b"DD code 0\r\nA {\r\nDD end\r\n").expect("lines of Windows").answer, b"{\n");
    }

    #[test]
    fn words_reach_the_runner_as_they_are() {
        let line = quoted(["--input", "float32:1,3:0,1:/a b", "it's"].into_iter().map(Into::into));
        assert_eq!(line, r"--input 'float32:1,3:0,1:/a b' 'it'\''s'");
        assert_eq!(sh(&format!("printf '%s|' {line}")), b"--input|float32:1,3:0,1:/a b|it's|");
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_device_says_is_an_answer_or_an_error(said: Vec<u8>) {
            let _ = read(&said);
        }
    }
}
