//! Names of kernels.
//!
//! The trace names a portable kernel `native_call__softmax.out`, the program `aten::_softmax.out`, the
//! graph `aten._softmax.default`. This module is where names meet; sorting kernels into categories
//! belongs here too.

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

#[cfg(test)]
mod tests {
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
}
