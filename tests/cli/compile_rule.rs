//! The hidden subcommand that the sandbox starts to compile a rule.

use std::io::Write as _;
use std::process::{Output, Stdio};

use dd_tests::{Sandbox, binary};

fn compile(sandbox: &Sandbox, name: &str, input: &[u8]) -> Output {
    let mut command = sandbox.program(&binary(name));
    command.arg("__compile-rule").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    child.stdin.take().expect("stdin").write_all(input).expect("write");
    child.wait_with_output().expect("ends")
}

#[test]
fn both_binaries_compile_a_component_and_refuse_what_is_none() {
    let sandbox = Sandbox::new();
    let component = wat::parse_str("(component (core module (func (export \"f\"))))").expect("component");
    for name in ["delegate-doctor", "dd"] {
        let mut input = serde_json::to_vec(&serde_json::json!({
            "address_space": 4_u64 << 30, "cpu_seconds": 60, "code_bytes": 64_u64 << 20,
        }))
        .expect("JSON");
        input.push(b'\n');
        let nonsense = compile(&sandbox, name, &[input.as_slice(), b"nonsense"].concat());
        assert!(!nonsense.status.success() && !nonsense.stderr.is_empty());
        assert!(nonsense.stdout.is_empty(), "no code for what is no rule");
        let done = compile(&sandbox, name, &[input, component.clone()].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(!done.stdout.is_empty() && done.stderr.is_empty(), "the code, and no word");
    }
}
