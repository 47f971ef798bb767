//! Things that WebAssembly has and rules do not get.

use delegate_doctor::sandbox::Class;

use crate::component::{Module, append, assemble};
use crate::{Case, End, Trial, bytes_case, load};

/// A component whose core module has these fields.
fn with(fields: &str) -> Vec<u8> {
    assemble(&format!("(component (core module {fields}))"))
}

pub(crate) fn cases() -> Vec<Case> {
    let invalid = |name, does, make, says| load(name, does, make, Class::Load, says);
    let import = |name, does, make, says| load(name, does, make, Class::Import, says);
    vec![
        import(
            "imports-random-numbers",
            "imports random numbers from WASI",
            || assemble("(component (import \"wasi:random/random@0.2.0\" (instance (export \"get\" (func)))))"),
            "it imports `wasi:random/random@0.2.0`, and a rule may import nothing but types",
        ),
        import(
            "imports-files",
            "imports files from WASI",
            || {
                assemble(
                    "(component (import \"wasi:filesystem/types@0.2.0\" (instance
                        (export \"descriptor\" (type (sub resource))))))",
                )
            },
            "it imports `wasi:filesystem/types@0.2.0`",
        ),
        import(
            "imports-a-function",
            "imports a function of its own",
            || assemble("(component (import \"host\" (func)))"),
            "it imports `host`",
        ),
        import(
            "imports-a-module",
            "imports a core module",
            || assemble("(component (import \"code\" (core module)))"),
            "it imports `code`",
        ),
        import(
            "imports-a-component",
            "imports a component",
            || assemble("(component (import \"part\" (component)))"),
            "it imports `part`",
        ),
        invalid(
            "shared-memory",
            "shares its memory",
            || with("(memory 1 1 shared)"),
            "threads must be enabled for shared memories",
        ),
        invalid(
            "atomics",
            "uses the instructions of threads",
            || with("(memory 1) (func (drop (i32.atomic.load (i32.const 0))))"),
            "threads support is not enabled",
        ),
        invalid(
            "memory64",
            "has a memory with 64-bit addresses",
            || with("(memory i64 1)"),
            "memory64 must be enabled",
        ),
        invalid(
            "several-memories",
            "has two memories in one module",
            || with("(memory 1) (memory 1)"),
            "it is not valid: multiple memories",
        ),
        invalid(
            "page-size",
            "has a memory with pages of one byte",
            || with("(memory 1 (pagesize 1))"),
            "the custom page sizes proposal must be enabled",
        ),
        invalid(
            "simd",
            "uses vector instructions",
            || with("(func (drop (v128.const i64x2 0 0)))"),
            "SIMD support is not enabled",
        ),
        invalid(
            "tail-calls",
            "calls without ever returning",
            || with("(func $f (return_call $f))"),
            "tail calls support is not enabled",
        ),
        invalid(
            "exceptions",
            "throws exceptions",
            || with("(tag $t) (func (throw $t))"),
            "exceptions proposal not enabled",
        ),
        invalid(
            "garbage-collection",
            "has types of the garbage collector",
            || with("(type (struct))"),
            "struct indexed types not supported without the gc feature",
        ),
        invalid(
            "async",
            "exports an asynchronous function",
            || {
                assemble(
                    "(component
                        (core module $m (func (export \"f\")))
                        (core instance $i (instantiate $m))
                        (func (export \"f\") async (canon lift (core func $i \"f\") async)))",
                )
            },
            "async component functions require the component model async feature",
        ),
        invalid("streams", "has a stream", || assemble("(component (type (stream u8)))"), "component model async"),
        bytes_case(
            "own-resources",
            "declares a resource of its own",
            || {
                let mut bytes = Module::honest().component();
                append(&mut bytes, 7, &[1, 0x3f, 0x7f, 0]);
                bytes
            },
            Trial::Ask,
            End::Harmless,
            "",
        ),
    ]
}
