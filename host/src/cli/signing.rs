//! Keys on the command line: which ones sign, and the passphrases that open them.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::Context;
use crate::files;
use crate::hint::Hint as _;
use crate::output::Failure;
use crate::registry::key::{self, PublicKey, SigningKey};
use crate::registry::pack::Package;
use crate::registry::writer::Repository;
use crate::sandbox::{Helper, Options, Sandbox, inspect_tier};

/// Longest passphrase, in bytes.
const MOST_PASSPHRASE: u64 = 1024;

/// The flags of commands that sign.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct KeyArguments {
    /// Private key to sign with; may be given several times
    #[arg(long = "key", value_name = "FILE")]
    pub(super) keys: Vec<PathBuf>,
    /// File whose first line opens the keys [default: asked in the terminal]
    #[arg(long, value_name = "FILE")]
    pub(super) passphrase_file: Option<PathBuf>,
}

impl KeyArguments {
    /// The keys, opened. Without `--key`, the one that `rules key new` made for a publisher.
    pub(super) fn open(&self, publisher: Option<&str>, context: &Context) -> Result<Vec<SigningKey>, Failure> {
        let default = publisher.map(|publisher| vec![private_key(publisher, context)]).unwrap_or_default();
        let paths = if self.keys.is_empty() { &default } else { &self.keys };
        if paths.is_empty() {
            return Err(Failure::new("No key was given").hint("Name one or more with `--key FILE`"));
        }
        let mut keys = Vec::new();
        for path in paths {
            let passphrase = if SigningKey::is_encrypted(path)? {
                Some(passphrase(
                    self.passphrase_file.as_deref(),
                    &format!("Passphrase of `{}`: ", path.display()),
                    || key::Error::NeedsPassphrase(path.clone()).into(),
                )?)
            } else {
                None
            };
            keys.push(SigningKey::read(path, passphrase.as_deref().map(String::as_str))?);
        }
        Ok(keys)
    }
}

/// The flags of commands that make keys.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct NewKeyArguments {
    /// File whose first line is to open the new key [default: asked in the terminal]
    #[arg(long, value_name = "FILE", conflicts_with = "no_passphrase")]
    pub(super) passphrase_file: Option<PathBuf>,
    /// Do not encrypt the new key, for instance because a secret store does
    #[arg(long)]
    pub(super) no_passphrase: bool,
}

impl NewKeyArguments {
    /// The passphrase of a new key, asked twice; none when there is to be none.
    pub(super) fn passphrase(&self, what: &str) -> Result<Option<Zeroizing<String>>, Failure> {
        if self.no_passphrase {
            return Ok(None);
        }
        let file = self.passphrase_file.as_deref();
        let none = || {
            Failure::new("A new key needs a passphrase, and none was given").hint(
                "Name a file that holds it with `--passphrase-file`, run the command in a terminal, or do without with `--no-passphrase`",
            )
        };
        let first = passphrase(file, &format!("Passphrase for {what}: "), none)?;
        if file.is_none() && *passphrase(None, "Once more: ", none)? != *first {
            return Err(Failure::new("The two passphrases differ"));
        }
        Ok(Some(first))
    }
}

/// Where `rules key new` keeps a publisher's private key.
pub(super) fn private_key(publisher: &str, context: &Context) -> PathBuf {
    context.common.folders.data.join("keys").join(format!("{publisher}.pem"))
}

/// The file of the public key that belongs to a private one.
pub(super) fn public_file(private: &Path) -> PathBuf {
    private.with_extension("pub.pem")
}

/// Writes a new key: the private half as the flags say, the public half beside it.
pub(super) fn write_key(path: &Path, passphrase: Option<&str>) -> Result<SigningKey, Failure> {
    let failed =
        |error: std::io::Error| Failure::with_cause(format!("Failed to make a key in `{}`", path.display()), error);
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder).map_err(failed)?;
    }
    let key = SigningKey::generate()?;
    key.write(path, passphrase)?;
    let pem = key.public().to_pem().map_err(failed)?;
    files::write_atomic(&public_file(path), pem.as_bytes()).map_err(failed)?;
    Ok(key)
}

/// Public keys from files.
pub(super) fn public_keys(paths: &[PathBuf]) -> Result<Vec<PublicKey>, Failure> {
    let read = paths.iter().map(|path| PublicKey::read(path));
    Ok(read.collect::<Result<_, _>>()?)
}

/// A registry folder at the present time.
pub(super) fn registry(folder: &Path) -> Result<Repository, Failure> {
    Ok(Repository::open(folder, now())?)
}

/// The registry in a folder, for a command that changes it; no other one does while the lock is held.
pub(super) fn registry_to_change(folder: &Path) -> Result<(Repository, std::fs::File), Failure> {
    let registry = registry(folder)?;
    let lock = registry.lock()?;
    Ok((registry, lock))
}

/// The present time.
pub(super) fn now() -> jiff::Timestamp {
    crate::clock::time_of_day()
}

/// Loads a package's component as `optimize` would.
pub(super) fn load(context: &Context, package: &Package) -> Result<(), String> {
    let (_, tier) = inspect_tier(&package.component).map_err(|(_, reason)| reason)?;
    let helper = Helper::current().map_err(|error| error.to_string())?;
    let cache = Some(context.common.folders.compiled_rules());
    let sandbox = Sandbox::new(Options { limits: tier.limits(), cache, helper }).map_err(|error| error.to_string())?;
    let rule = sandbox.load(&package.label(), &package.component).map_err(|error| error.to_string())?;
    if rule.manifest().id == package.manifest.id { Ok(()) } else { Err("it gives another id when it runs".to_owned()) }
}

fn passphrase(file: Option<&Path>, prompt: &str, none: impl FnOnce() -> Failure) -> Result<Zeroizing<String>, Failure> {
    if let Some(path) = file {
        let bytes = files::read_regular(path, MOST_PASSPHRASE).map(Zeroizing::new).map_err(|error| {
            Failure::with_cause(format!("Failed to read the passphrase in `{}`", path.display()), error)
        })?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Failure::new(format!("The passphrase in `{}` is no text", path.display())))?;
        return Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()));
    }
    if !std::io::stdin().is_terminal() {
        return Err(none());
    }
    unseen(prompt).map_err(|error| {
        let hint = error.hint();
        let failure = Failure::with_cause("Failed to read a passphrase from the terminal", error);
        if let Some(hint) = hint { failure.hint(hint) } else { failure }
    })
}

/// Reads a line from the terminal without showing it.
fn unseen(prompt: &str) -> std::io::Result<Zeroizing<String>> {
    let mut terminal = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    terminal.write_all(prompt.as_bytes())?;
    let shown = rustix::termios::tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(rustix::termios::LocalModes::ECHO);
    rustix::termios::tcsetattr(&terminal, rustix::termios::OptionalActions::Flush, &hidden)?;
    let mut line = Zeroizing::new(String::new());
    let read = std::io::BufReader::new(std::io::Read::take(&terminal, MOST_PASSPHRASE)).read_line(&mut line);
    rustix::termios::tcsetattr(&terminal, rustix::termios::OptionalActions::Flush, &shown)?;
    terminal.write_all(b"\n")?;
    read?;
    while line.ends_with(['\n', '\r']) {
        line.pop();
    }
    Ok(line)
}
