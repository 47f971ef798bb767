//! The Python that tests with real models run in.

use std::path::PathBuf;
use std::sync::OnceLock;

use delegate_doctor::torch::Environment;
use delegate_doctor::torch::environment::{self, Search};

/// Environment variable that names the interpreter.
pub const PYTHON: &str = "DELEGATE_DOCTOR_PYTHON";

/// The Python environment for tests, with torch and executorch in it.
///
/// # Panics
/// When the variable is not set or names something else; the message says what to do.
pub fn python() -> Environment {
    static FOUND: OnceLock<Environment> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Environment {
    let Some(named) = std::env::var_os(PYTHON) else {
        panic!(
            "{PYTHON} is not set: run `cargo xtask test`, or set it to a Python that has torch and executorch \
             (`delegate-doctor setup` makes one)"
        );
    };
    let search = Search {
        python: Some(PathBuf::from(named)),
        active: None,
        data_dir: PathBuf::from("/nonexistent"),
        path: std::ffi::OsString::new(),
    };
    match environment::find(&search) {
        Ok(Some(environment)) => environment,
        Ok(None) => unreachable!("a named interpreter is used or refused"),
        Err(error) => panic!("{PYTHON}: {error}"),
    }
}
