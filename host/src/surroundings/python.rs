//! The Python that exports and lowers models.

use super::Diagnosis;
use crate::settings::Common;
use crate::torch::environment::{self, Environment, Origin, Search};

const NAME: &str = "python";

/// The environment in use, if there is one, and what is to say about it.
pub(super) fn examine(common: &Common) -> (Option<Environment>, Vec<Diagnosis>) {
    let search = Search::of_this_process(common.python.clone(), &common.folders.data);
    let diagnosis = match environment::find(&search) {
        Ok(Some(environment)) => {
            let diagnoses = found(&environment);
            return (Some(environment), diagnoses);
        }
        Ok(None) => match environment::base_interpreter(&search) {
            Ok(base) => Diagnosis::warning(
                NAME,
                format!("No environment with torch and executorch yet; it would be made with `{}`", base.display()),
                "The first run downloads about 2 GB and takes some minutes more",
            )
            .hint("Run `delegate-doctor setup` to do that now"),
            Err(error) => unusable(&error),
        },
        Err(error) => unusable(&error),
    };
    (None, vec![diagnosis])
}

fn found(environment: &Environment) -> Vec<Diagnosis> {
    let origin = match environment.origin {
        Origin::Given => "the one you named",
        Origin::Active => "the active environment",
        Origin::Managed => "made by `setup`",
    };
    let what = format!(
        "Python {}, torch {}, executorch {} ({origin}): `{}`",
        environment.python_version,
        environment.torch_version,
        environment.executorch_version,
        environment.python.display()
    );
    let mut diagnoses = vec![Diagnosis::ok(NAME, what)];
    diagnoses.extend(
        environment
            .notes
            .iter()
            .map(|note| Diagnosis::warning(NAME, note.clone(), "Results may differ from those of the tested versions")),
    );
    diagnoses
}

fn unusable(error: &environment::Error) -> Diagnosis {
    let mut what = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        what = format!("{what}: {cause}");
    }
    let diagnosis = Diagnosis::problem(NAME, what, "Models are exported and lowered in Python");
    match error.hint() {
        Some(hint) => diagnosis.hint(hint),
        None => diagnosis,
    }
}
