//! The C++ compiler and the native runner that it builds.

use std::path::Path;

use super::Diagnosis;
use crate::hint::Hint as _;
use crate::target::runner_build::{self, Error, Sdk};
use crate::torch::environment::Environment;

pub(super) fn examine(environment: Option<&Environment>, cache: &Path) -> Vec<Diagnosis> {
    let compiler = match runner_build::compiler() {
        Ok((compiler, version)) => Diagnosis::ok("compiler", format!("{version}: `{}`", compiler.display())),
        Err(error) => problem("compiler", &error, "The native runner is built with it"),
    };
    // Without an environment there is nothing to build against yet, and python has said so.
    let runner = environment.and_then(|environment| {
        match Sdk::at(&environment.executorch_folder).and_then(|sdk| runner_build::find(&sdk, cache)) {
            Ok(Some(runner)) => Some(Diagnosis::ok(
                "runner",
                format!("Built against executorch {}: `{}`", runner.executorch, runner.executable.display()),
            )),
            Ok(None) => Some(Diagnosis::ok("runner", "Not built yet; the first run builds it in about 20 s")),
            Err(Error::NoCompiler { .. }) => None,
            Err(error) => Some(problem("runner", &error, "Lowered programs are run and profiled with it")),
        }
    });
    std::iter::once(compiler).chain(runner).collect()
}

fn problem(name: &str, error: &Error, why: &str) -> Diagnosis {
    let diagnosis = Diagnosis::problem(name, error.to_string(), why);
    match error.hint() {
        Some(hint) => diagnosis.hint(hint),
        None => diagnosis,
    }
}
