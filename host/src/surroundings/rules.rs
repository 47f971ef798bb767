//! The rules that the binary carries.

use super::Diagnosis;
use crate::hint::Hint as _;
use crate::registry;
use crate::sandbox::{Limits, inspect};

const NAME: &str = "rules";
const WHY: &str = "Repairs are proposed by rules";

pub(super) fn examine() -> Diagnosis {
    let components = match registry::bundled() {
        Ok(components) => components,
        Err(error) => {
            let diagnosis = Diagnosis::problem(NAME, error.to_string(), WHY);
            return match error.hint() {
                Some(hint) => diagnosis.hint(hint),
                None => diagnosis,
            };
        }
    };
    let limits = Limits::default();
    for component in &components {
        if let Err((_, reason)) = inspect(&component.bytes, &limits) {
            return Diagnosis::problem(NAME, format!("Rule {} cannot be used: {reason}", component.name()), WHY)
                .hint("Build the tool again from a clean checkout");
        }
    }
    let names: Vec<String> = components.iter().map(registry::Component::name).collect();
    Diagnosis::ok(NAME, format!("{} bundled, hashes agree: {}", names.len(), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::Verdict;

    #[test]
    fn the_bundled_rules_are_usable() {
        let diagnosis = examine();
        assert_eq!(diagnosis.verdict, Verdict::Ok, "{diagnosis:?}");
        assert!(diagnosis.what.contains("dd-001"), "{diagnosis:?}");
    }
}
