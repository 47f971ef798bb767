//! Bytes that are no rule, or a rule of another contract.

use delegate_doctor::sandbox::Class;

use crate::component::{COMPONENT, INTERFACE, Module, append, assemble, leb};
use crate::{Case, End, Trial, bytes_case, load};

fn honest() -> Vec<u8> {
    Module::honest().component()
}

/// The honest component with another version in the name of its interfaces; of the same length.
fn of_version(version: &str) -> Vec<u8> {
    replaced(b"@0.1.0", format!("@{version}").as_bytes())
}

fn replaced(from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = honest();
    let places: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|(_, window)| *window == from).map(|(at, _)| at).collect();
    for at in places {
        for (to, from) in bytes.iter_mut().skip(at).zip(to) {
            *to = *from;
        }
    }
    bytes
}

/// Components within components, `depth` of them.
fn nested_components(depth: usize) -> Vec<u8> {
    let mut sizes = vec![COMPONENT.len()];
    for level in 0..depth {
        let inner = sizes.get(level).copied().unwrap_or_default();
        sizes.push(COMPONENT.len() + 1 + leb(inner).len() + inner);
    }
    let mut bytes = Vec::new();
    for size in sizes.iter().rev().skip(1) {
        bytes.extend(COMPONENT);
        bytes.push(4);
        bytes.extend(leb(*size));
    }
    bytes.extend(COMPONENT);
    bytes
}

/// A component type (`0x41`) or instance type (`0x42`) that declares one like itself, and so on.
fn nested_types(kind: u8, depth: usize) -> Vec<u8> {
    let mut types = vec![1];
    for _ in 0..depth {
        types.extend([kind, 1, 1]);
    }
    types.extend([kind, 0]);
    let mut bytes = COMPONENT.to_vec();
    append(&mut bytes, 7, &types);
    bytes
}

/// Tuples of tuples: 2 to the power of `depth` members in all.
fn doubling_types(depth: usize) -> Vec<u8> {
    let mut types = leb(depth);
    types.extend([0x6f, 2, 0x73, 0x73]);
    for level in 1..depth {
        types.push(0x6f);
        types.push(2);
        types.extend(leb(level - 1));
        types.extend(leb(level - 1));
    }
    let mut bytes = COMPONENT.to_vec();
    append(&mut bytes, 7, &types);
    bytes
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        load("empty-file", "is a file of no bytes", Vec::new, Class::Load, "it is not a WebAssembly component"),
        load(
            "script",
            "is a shell script",
            || b"#!/bin/sh\nrm -rf \"$HOME\"\n".to_vec(),
            Class::Load,
            "it is not a WebAssembly component",
        ),
        load(
            "core-module",
            "is a core module with the right exports",
            || assemble(&Module::honest().text()),
            Class::Load,
            "it is a core module, not a component",
        ),
        load(
            "truncated",
            "breaks off in the middle",
            || {
                let mut bytes = honest();
                bytes.truncate(bytes.len() / 2);
                bytes
            },
            Class::Load,
            "it is not valid: ",
        ),
        load(
            "trailing-garbage",
            "goes on after its end",
            || [honest(), vec![0xff; 64]].concat(),
            Class::Load,
            "it is not valid: ",
        ),
        load(
            "too-long",
            "is larger than a rule may be, by a custom section",
            || {
                let mut bytes = honest();
                append(&mut bytes, 0, &[leb(4), b"junk".to_vec(), vec![0; 3 << 20]].concat());
                bytes
            },
            Class::Load,
            "bytes, and 2097152 are allowed",
        ),
        load(
            "nested-components",
            "holds a component in a component, 100,000 deep",
            || nested_components(100_000),
            Class::Load,
            "modules and components count exceeds limit of 1000",
        ),
        load(
            "nested-components-few",
            "holds a component in a component, 900 deep, and nothing else",
            || nested_components(900),
            Class::ContractVersion,
            "it exports no",
        ),
        load(
            "nested-types",
            "declares a type within a type, 600,000 deep",
            || nested_types(0x41, 600_000),
            Class::Load,
            "it is not valid: component type nesting is too deep",
        ),
        load(
            "nested-instance-types",
            "declares the type of an instance within another, 600,000 deep",
            || nested_types(0x42, 600_000),
            Class::Load,
            "it is not valid: component type nesting is too deep",
        ),
        load(
            "doubling-types",
            "declares types of which each holds the one before twice, 10,000 times",
            || doubling_types(10_000),
            Class::Load,
            "it is not valid: effective type size exceeds the limit of 1000000",
        ),
        load(
            "no-exports",
            "exports nothing",
            || assemble("(component)"),
            Class::ContractVersion,
            "it exports no `delegate-doctor:rules/rule@…`; this host speaks contract 0.1",
        ),
        load(
            "no-version",
            "exports the interface without a version",
            || assemble("(component (instance $i) (export \"delegate-doctor:rules/rule\" (instance $i)))"),
            Class::ContractVersion,
            "it exports no `delegate-doctor:rules/rule@…`",
        ),
        load(
            "newer-contract",
            "speaks a later contract",
            || of_version("0.9.0"),
            Class::ContractVersion,
            "it speaks contract 0.9.0, this host speaks 0.1; it needs a newer host",
        ),
        load(
            "older-contract",
            "speaks a contract that no host speaks any more",
            || of_version("0.0.9"),
            Class::ContractVersion,
            "it speaks contract 0.0.9, this host speaks 0.1",
        ),
        load(
            "empty-interface",
            "exports the interface with nothing in it",
            || assemble(&format!("(component (instance $i) (export \"{INTERFACE}\" (instance $i)))")),
            Class::ContractVersion,
            "it does not export",
        ),
        load(
            "other-types",
            "exports functions of other types under the right names",
            || {
                assemble(&format!(
                    "(component
                        (core module $m
                            (func (export \"f\") (result i32) (i32.const 7)))
                        (core instance $i (instantiate $m))
                        (func $f (result u32) (canon lift (core func $i \"f\")))
                        (instance $rule (export \"describe\" (func $f)) (export \"examine\" (func $f)))
                        (export \"{INTERFACE}\" (instance $rule)))"
                ))
            },
            Class::ContractVersion,
            "its functions differ from the contract's",
        ),
        load(
            "name-with-escapes",
            "has an id that steers the terminal",
            || replaced(b"test-crafted", b"te\x1b[31mrafted"),
            Class::BadOutput,
            "is no rule id",
        ),
        load(
            "path-as-name",
            "has an id that is a path",
            || replaced(b"test-crafted", b"../../../etc"),
            Class::BadOutput,
            "`../../../etc` is no rule id",
        ),
        bytes_case(
            "junk-beside",
            "carries custom sections full of junk, one of them with the name that the SDK uses",
            || {
                let mut bytes = honest();
                append(&mut bytes, 0, &[leb(19), b"delegate-doctor:sdk".to_vec(), vec![0xff; 4_096]].concat());
                append(&mut bytes, 0, &[leb(4), b"name".to_vec(), vec![0xff; 100_000]].concat());
                bytes
            },
            Trial::Ask,
            End::Harmless,
            "",
        ),
    ]
}
