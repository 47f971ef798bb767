//! Names of kernels.
//!
//! The trace names a portable kernel `native_call__softmax.out`, the program `aten::_softmax.out`, the
//! graph `aten._softmax.default`. This module is where names meet; sorting kernels into categories
//! belongs here too.

use super::etdump::Trace;

/// The prefix of the trace's event around a kernel.
const KERNEL_EVENT: &str = "native_call_";

/// The kernel that an event of the trace is about: `native_call__softmax.out` gives `_softmax.out`.
pub fn kernel_of_event(event: &str) -> Option<&str> {
    event.strip_prefix(KERNEL_EVENT).filter(|name| !name.is_empty())
}

/// True when the trace's kernel name (`_softmax.out`) and the program's (`aten::_softmax.out`) are the
/// same kernel. The trace leaves the namespace out.
pub fn same_kernel(traced: &str, in_program: &str) -> bool {
    let without_namespace = in_program.rsplit_once("::").map_or(in_program, |(_, name)| name);
    traced == without_namespace || traced == in_program
}

/// The families of the kernels in the last run of a trace, in the order in which each first ran, with how many of
/// each: `Convolution (NHWC, F32) IGEMM ×2`. XNNPACK numbers the members of a family (`#1`); its names tell element
/// type and method, and kernels for SME by packed types (`PF32`, `PQS8`). Kernels outside of the delegate are told
/// as that.
pub fn families(trace: &Trace) -> Vec<String> {
    let mut families: Vec<(String, usize)> = Vec::new();
    for event in trace.runs.iter().rfind(|run| run.is_of_method()).into_iter().flat_map(|run| &run.events) {
        let family = match (event.delegate, kernel_of_event(&event.name)) {
            (true, _) => family_of(&event.name).to_owned(),
            (false, Some(kernel)) => format!("`{kernel}` outside of the delegate"),
            (false, None) => continue,
        };
        match families.iter_mut().find(|(known, _)| *known == family) {
            Some((_, count)) => *count += 1,
            None => families.push((family, 1)),
        }
    }
    let told = |(family, count): (String, usize)| if count == 1 { family } else { format!("{family} ×{count}") };
    families.into_iter().map(told).collect()
}

/// A delegate's name for a kernel without the number at its end.
pub fn family_of(name: &str) -> &str {
    match name.rsplit_once(" #") {
        Some((family, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => family,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::super::delegation::METHOD_EVENT;
    use super::super::etdump::{Event, RunTrace};
    use super::*;

    #[test]
    fn a_kernel_is_the_same_under_its_two_names() {
        assert_eq!(kernel_of_event("native_call__softmax.out"), Some("_softmax.out"));
        assert_eq!(kernel_of_event("native_call_"), None);
        assert_eq!(kernel_of_event("DELEGATE_CALL"), None);
        assert!(same_kernel("_softmax.out", "aten::_softmax.out"));
        assert!(same_kernel("_clone_dim_order.out", "dim_order_ops::_clone_dim_order.out"));
        assert!(!same_kernel("softmax.out", "aten::_softmax.out"));
    }

    #[test]
    fn families_are_counted_in_order_without_their_numbers() {
        let event = |name: &str, delegate: bool| Event { name: name.to_owned(), delegate, ..Event::default() };
        let run = |events: Vec<Event>| RunTrace { name: "Execute".to_owned(), events };
        let trace = Trace {
            runs: vec![
                run(vec![event("a delegate's first run", true), event(METHOD_EVENT, false)]),
                run(vec![
                    event("Fully Connected (NC, PF32) GEMM #1", true),
                    event("DELEGATE_CALL", false),
                    event("native_call__softmax.out", false),
                    event("OPERATOR_CALL", false),
                    event("Fully Connected (NC, PF32) GEMM #2", true),
                    event("Add (ND) #", true),
                    event(METHOD_EVENT, false),
                ]),
                run(vec![event("loading", true)]),
            ],
        };
        let expected = ["Fully Connected (NC, PF32) GEMM ×2", "`_softmax.out` outside of the delegate", "Add (ND) #"];
        assert_eq!(families(&trace), expected);
        assert!(families(&Trace::default()).is_empty());
    }
}
