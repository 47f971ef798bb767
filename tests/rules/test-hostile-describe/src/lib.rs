//! Never says what it is.

use rule_sdk::{Examination, Manifest, Rule, Site, decline};

/// The rule.
pub struct HostileDescribe;

impl Rule for HostileDescribe {
    fn manifest() -> Manifest {
        let mut n = 1_u64;
        loop {
            n = std::hint::black_box(n.wrapping_mul(3));
            if n == 0 {
                return Manifest::new("test-hostile-describe", env!("CARGO_PKG_VERSION"), "Never reached");
            }
        }
    }

    fn examine(_: &Site<'_>) -> Examination {
        decline!("never", "never reached")
    }
}

rule_sdk::export_rule!(HostileDescribe);
