//! Which environment variables a child process that runs the user's model code gets to see.

use std::ffi::{OsStr, OsString};

/// Parts of a name that make a variable look like a credential.
const CREDENTIAL_PARTS: [&str; 14] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "APIKEY",
    "COOKIE",
    "BEARER",
    "PRIVATE",
    "SIGNATURE",
    "WEBHOOK",
    "SESSION_ID",
    "CONNECTION_STRING",
];

/// Words of a name (between underscores) that make a variable look like a credential.
const CREDENTIAL_WORDS: [&str; 9] = ["KEY", "KEYS", "AUTH", "PASS", "PWD", "PAT", "DSN", "JWT", "CERTKEY"];

/// Names of services whose variables all stay behind.
const CREDENTIAL_PREFIXES: [&str; 14] = [
    "AWS_",
    "GH_",
    "GITHUB_",
    "GITLAB_",
    "GL_",
    "AZURE_",
    "GOOGLE_",
    "GCP_",
    "GCLOUD_",
    "DOCKER_",
    "NPM_",
    "CARGO_REGISTR",
    "TWINE_",
    "ACTIONS_",
];

/// Whole names that stay behind.
const CREDENTIAL_NAMES: [&str; 8] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "XAUTHORITY",
    "KRB5CCNAME",
    "NETRC",
    "PGPASSFILE",
    "DATABASE_URL",
];

/// Names that look like credentials and are none.
const HARMLESS_NAMES: [&str; 6] =
    ["PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "AWS_REGION", "AWS_DEFAULT_REGION", "KEYMAP"];

/// Beginnings of values that are credentials whatever the name says.
const CREDENTIAL_VALUES: [&str; 12] =
    ["ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "hf_", "sk-", "xoxb-", "xoxp-", "AKIA", "-----BEGIN"];

/// Variables that would change how the interpreter itself behaves.
const INTERPRETER_NAMES: [&str; 9] = [
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "PYTHONIOENCODING",
    "PYTHONBREAKPOINT",
    "PYTHONUNBUFFERED",
    "PYTHONCASEOK",
    "PYTHONPLATLIBDIR",
    "__PYVENV_LAUNCHER__",
];

/// True when a variable looks as if it held a credential.
pub(super) fn looks_like_credential(name: &str, value: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    if HARMLESS_NAMES.contains(&upper.as_str()) {
        return false;
    }
    CREDENTIAL_NAMES.contains(&upper.as_str())
        || CREDENTIAL_PARTS.iter().any(|part| upper.contains(part))
        || CREDENTIAL_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || upper.split('_').any(|word| CREDENTIAL_WORDS.contains(&word))
        || CREDENTIAL_VALUES.iter().any(|start| value.starts_with(start))
        || names_a_user(value)
}

/// True for `scheme://user:password@host`.
fn names_a_user(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.split_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// The variables of this process that the worker may see, without those it sets itself.
pub(super) fn scrubbed(all: impl IntoIterator<Item = (OsString, OsString)>, threads: u32) -> Vec<(OsString, OsString)> {
    let mut kept: Vec<(OsString, OsString)> = all
        .into_iter()
        .filter(|(name, value)| {
            let name = name.to_string_lossy();
            !INTERPRETER_NAMES.contains(&name.as_ref()) && !looks_like_credential(&name, &value.to_string_lossy())
        })
        .collect();
    let threads = threads.max(1).to_string();
    for (name, value) in [
        ("OMP_NUM_THREADS", threads.as_str()),
        ("MKL_NUM_THREADS", &threads),
        ("OPENBLAS_NUM_THREADS", &threads),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONBREAKPOINT", "0"),
        ("PYTHONUTF8", "1"),
        ("PYTHONFAULTHANDLER", "1"),
        ("TOKENIZERS_PARALLELISM", "false"),
    ] {
        kept.retain(|(present, _)| present != OsStr::new(name));
        kept.push((name.into(), value.into()));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_behind_and_ordinary_variables_pass() {
        for (name, value) in [
            ("HF_TOKEN", "x"),
            ("GITHUB_ACTOR", "me"),
            ("GH_HOST", "h"),
            ("aws_profile", "p"),
            ("AWS_ACCESS_KEY_ID", "A"),
            ("OPENAI_API_KEY", "x"),
            ("MY_DB_PASSWORD", "x"),
            ("SSH_AUTH_SOCK", "/run/x"),
            ("BASIC_AUTH", "x"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/f"),
            ("ANYTHING", "ghp_0123"),
            ("HTTPS_PROXY", "http://me:word@proxy:3128"),
            ("SIGNING", "-----BEGIN RSA"),
        ] {
            assert!(looks_like_credential(name, value), "{name} must stay behind");
        }
        for (name, value) in [
            ("PATH", "/usr/bin"),
            ("HOME", "/home/me"),
            ("PWD", "/tmp"),
            ("HF_HOME", "/models"),
            ("HTTPS_PROXY", "http://proxy:3128"),
            ("PYTHONPATH", "/src"),
            ("TORCH_HOME", "/t"),
            ("MONKEY_FOLDER", "/m"),
            ("DATA_URL", "https://host/a@b:c"),
            ("TOKENIZERS_PARALLELISM", "true"),
        ] {
            assert!(!looks_like_credential(name, value), "{name} must pass");
        }
    }

    #[test]
    fn the_interpreter_is_not_steered_from_outside() {
        let given = [("PYTHONHOME", "/x"), ("OMP_NUM_THREADS", "64"), ("HOME", "/h"), ("X_SECRET", "s")];
        let kept = scrubbed(given.map(|(name, value)| (name.into(), value.into())), 2);
        let find = |wanted: &str| {
            kept.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.to_string_lossy()).collect::<Vec<_>>()
        };
        assert!(find("PYTHONHOME").is_empty());
        assert!(find("X_SECRET").is_empty());
        assert_eq!(find("OMP_NUM_THREADS"), ["2"]);
        assert_eq!(find("HOME"), ["/h"]);
        assert_eq!(find("PYTHONDONTWRITEBYTECODE"), ["1"]);
    }
}
